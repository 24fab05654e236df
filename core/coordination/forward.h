// What a server and its leader say to each other about clients, and its bytes. The peers' protocol
// carries these as opaque payloads, in order with proposals and commits.
//
// A ticket names one client connection of one incarnation of one server: a random number drawn when
// the connection is accepted. The host's connection ids may repeat after a restart; a ticket does
// not, so that the answer to a request of a former incarnation finds nobody.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/bytes.h"
#include "core/base/ids.h"
#include "core/base/zxid.h"
#include "core/coordination/protocol.h"

namespace lockstep::coordination {

using Ticket = ConnectionId;

// ---- Origin to leader ---------------------------------------------------------------------------

// A new session, with an id that the origin has drawn. Answered by the delivery of its transaction,
// or by SessionRefused.
struct ForwardedSession {
  Ticket ticket;
  SessionId session;
  int32_t timeout_ms = 0;  // negotiated
  std::string password;    // kPasswordSize bytes
};
// A client came back with its session. Answered by SessionValidated or, if there is no such session
// or this is not its password, by the delivery of an ErrorTransaction.
struct ForwardedValidation {
  Ticket ticket;
  SessionId session;
  std::string password;  // as the client gave it, at most kPasswordSize bytes
};
// A request that the leader has to order: a write, closeSession or sync. Writes are answered by the
// delivery of a transaction, sync by SyncPoint.
struct ForwardedRequest {
  Ticket ticket;
  SessionId session;
  Bytes frame;  // as the client sent it; not looked at beyond its header
};
using Forwarded = std::variant<ForwardedSession, ForwardedValidation, ForwardedRequest>;

// ---- Leader to origin ---------------------------------------------------------------------------

struct SessionRefused {
  Ticket ticket;
  bool full = false;  // too many sessions; otherwise the id is taken and the origin draws another
};
struct SessionValidated {
  Ticket ticket;
  int32_t timeout_ms = 0;  // of the session
};
// The session has moved on to another connection.
struct ConnectionSuperseded {
  Ticket ticket;
};
// Once `zxid` is applied, the origin has all that was proposed before it asked.
struct SyncPoint {
  Ticket ticket;
  int32_t xid = 0;
  Zxid zxid;
};
using ForwardedAnswer =
    std::variant<SessionRefused, SessionValidated, ConnectionSuperseded, SyncPoint>;

inline constexpr size_t kPasswordSize = 16;

// The header of a request of the client protocol, without a look at the body.
struct RequestHeader {
  int32_t xid = 0;
  OpCode op{};  // any value
};
inline constexpr size_t kRequestHeaderSize = 8;
// Requires: frame.size() >= kRequestHeaderSize.
RequestHeader PeekHeader(const Bytes& frame);

Bytes EncodeForwarded(const Forwarded& request);
Bytes EncodeForwardedAnswer(const ForwardedAnswer& answer);
// Sessions heard from. Empty bytes for an empty list.
Bytes EncodeTouched(const std::vector<SessionId>& sessions);

// Every byte must be accounted for. The frame of a request shares the buffer of `bytes`.
absl::StatusOr<Forwarded> DecodeForwarded(const Bytes& bytes);
absl::StatusOr<ForwardedAnswer> DecodeForwardedAnswer(const Bytes& bytes);
absl::StatusOr<std::vector<SessionId>> DecodeTouched(const Bytes& bytes);

}  // namespace lockstep::coordination
