// From the bytes of a trace to messages: what each one is, when it was handed to the network, and
// when its last byte arrived.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/frame_cutter.h"
#include "core/base/zxid.h"
#include "core/wire/codec.h"
#include "core/wire/frame.h"
#include "sim/trace.h"

namespace lockstep::sim {

struct TracedMessage {
  uint64_t id = 0;  // counts from 1
  uint32_t from = 0;
  uint32_t to = 0;
  server::LinkKind link{};
  std::optional<wire::Kind> kind;  // nothing: between a client and a server
  std::string name;                // "Proposal", "request"
  std::string detail;              // "Proposal <1,2> after <1,1>"
  Zxid zxid;                       // of a Proposal, Ack, Commit, UpToDate
  Instant sent;
};

class TracedMessages {
 public:
  // Those that are whole with these bytes are appended to `out`.
  void OnSent(const TraceBytes& bytes, std::vector<TracedMessage>* out);
  // Those whose last byte is among these. What never arrives was lost with its connection.
  void OnReceived(const TraceBytes& bytes, std::vector<TracedMessage>* out);

 private:
  struct Waiting {
    uint64_t end = 0;  // in the stream, exclusive
    TracedMessage message;
  };
  struct Stream {
    // Which it is shows in the first byte: a broker's listener takes clients and brokers.
    std::variant<std::monostate, wire::FrameReader, FrameCutter> reader;
    bool broken = false;
    uint64_t sent = 0;
    uint64_t received = 0;
    std::deque<Waiting> waiting;
  };

  bool Next(Stream* stream, TracedMessage* message);

  std::map<uint64_t, Stream> streams_;
  uint64_t last_id_ = 0;
};

}  // namespace lockstep::sim
