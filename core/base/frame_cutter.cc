#include "core/base/frame_cutter.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "core/base/check.h"

namespace lockstep {
namespace {

constexpr size_t kLengthBytes = 4;
// Pieces up to this size together become one.
constexpr size_t kSmallBytes = 512;

}  // namespace

void FrameCutter::Add(Bytes bytes) {
  if (bytes.empty()) return;
  buffered_ += bytes.size();
  if (!pieces_.empty() && pieces_.back().size() + bytes.size() <= kSmallBytes) {
    const Bytes last = std::move(pieces_.back());
    pieces_.back() = Bytes::Build(last.size() + bytes.size(), [&](char* to) {
      std::memcpy(to, last.data(), last.size());
      std::memcpy(to + last.size(), bytes.data(), bytes.size());
    });
    return;
  }
  pieces_.push_back(std::move(bytes));
}

absl::StatusOr<std::optional<Bytes>> FrameCutter::Next() {
  if (buffered_ < kLengthBytes) return std::nullopt;
  char start[kLengthBytes];
  Peek(kLengthBytes, start);
  absl::StatusOr<size_t> length = ParseLength(start);
  if (!length.ok()) return length.status();
  if (buffered_ - kLengthBytes < *length) return std::nullopt;
  return Take(kLengthBytes + *length).Slice(kLengthBytes);
}

absl::StatusOr<size_t> FrameCutter::ParseLength(const char* data) const {
  uint32_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length = length << 8 | static_cast<unsigned char>(data[i]);
  }
  // A negative length is above any bound when read as unsigned.
  if (length > bytes_max_ || length > 0x7fffffff) {
    return absl::InvalidArgumentError("frame length out of bounds");
  }
  return length;
}

void FrameCutter::Peek(size_t size, char* to) const {
  for (auto piece = pieces_.begin(); size > 0; ++piece) {
    const size_t part = std::min(size, piece->size());
    std::memcpy(to, piece->data(), part);
    to += part;
    size -= part;
  }
}

Bytes FrameCutter::Take(size_t size) {
  LS_CHECK_LE(size, buffered_);
  buffered_ -= size;
  Bytes& first = pieces_.front();
  Bytes taken = size <= first.size() ? first.Slice(0, size)
                                     : Bytes::Build(size, [&](char* to) { Peek(size, to); });
  while (size > 0) {
    Bytes& front = pieces_.front();
    if (size < front.size()) {
      front = front.Slice(size);
      break;
    }
    size -= front.size();
    pieces_.pop_front();
  }
  return taken;
}

}  // namespace lockstep
