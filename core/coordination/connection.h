// One client connection of this server: its bytes, its session, and its requests in the order in
// which they have to be answered. The Service does what the requests ask for.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/bytes.h"
#include "core/base/frame_cutter.h"
#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/base/zxid.h"
#include "core/coordination/forward.h"
#include "core/coordination/protocol.h"

namespace lockstep::coordination {

// A connection that has not sent its ConnectRequest after this time is closed, as in ZooKeeper:
// connections are a bounded resource, and nothing else would ever end this one.
inline constexpr Duration kConnectTimeout = Seconds(10);

// A request that waits for its turn, or for the leader.
struct PendingRequest {
  enum class Kind : uint8_t {
    kRead,   // carried out when it is the oldest
    kWrite,  // answered by the delivery of its transaction
    kSync,   // answered once `sync_point` is applied
    kDone,   // `reply` waits for its turn
  };
  Kind kind = Kind::kRead;
  RequestHeader header;
  Instant received;
  Bytes frame;                     // of reads, syncs and multis
  uint64_t frame_bytes = 0;        // of all
  std::optional<Zxid> sync_point;  // once the leader has told it
  Bytes reply;
  bool ends_session = false;  // kDone: of a closeSession that took effect; nothing comes after it
};

struct Connection {
  enum class State : uint8_t {
    kNew,          // the ConnectRequest is awaited
    kHandshaking,  // the leader is asked about the session; what else arrives waits
    kEstablished,
    kClosing,  // closeSession is under way; nothing more is read
    kClosed,   // no output for it any more; dropped at the end of the step
  };

  Connection(ConnectionId connection_id, std::string remote, Ticket own_ticket,
             uint32_t frame_bytes_max)
      : id(connection_id),
        address(std::move(remote)),
        ticket(own_ticket),
        cutter(frame_bytes_max) {}

  void AddBytes(Bytes bytes);
  // The next whole frame, or nothing yet. An error if the stream is not one of frames.
  absl::StatusOr<std::optional<Bytes>> NextFrame();
  // Bytes received and not yet given out as frames.
  uint64_t buffered() const { return waiting_bytes + cutter.buffered(); }

  const ConnectionId id;
  const std::string address;
  uint16_t port = 0;
  const Ticket ticket;
  State state = State::kNew;
  Instant accepted_at;

  // Handshake. `session` is also set while it is being asked for.
  SessionId session;
  std::string password;
  int32_t timeout_ms = 0;
  bool has_read_only = true;

  std::deque<PendingRequest> requests;  // oldest first
  size_t queued_reads = 0;              // of them: kRead
  size_t queued_writes = 0;             // of them: kWrite and kDone
  uint64_t request_bytes = 0;           // of their frames

  FrameCutter cutter;
  std::deque<Bytes> waiting;  // received, and not yet given to the cutter
  uint64_t waiting_bytes = 0;

  bool full = false;          // no more is read from it until something is answered or sent
  bool paused = false;        // the host was asked to stop reading
  bool touched = false;       // heard from since the leader was last told
  uint64_t unsent_bytes = 0;  // sent and not yet written to the network

  uint64_t packets_received = 0;
  uint64_t packets_sent = 0;
};

}  // namespace lockstep::coordination
