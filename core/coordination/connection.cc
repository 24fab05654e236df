#include "core/coordination/connection.h"

#include <utility>

namespace lockstep::coordination {

void Connection::AddBytes(Bytes bytes) {
  if (bytes.empty()) return;
  waiting_bytes += bytes.size();
  waiting.push_back(std::move(bytes));
}

absl::StatusOr<std::optional<Bytes>> Connection::NextFrame() {
  for (;;) {
    absl::StatusOr<std::optional<Bytes>> frame = cutter.Next();
    if (!frame.ok() || frame->has_value() || waiting.empty()) return frame;
    waiting_bytes -= waiting.front().size();
    cutter.Add(std::move(waiting.front()));
    waiting.pop_front();
  }
}

}  // namespace lockstep::coordination
