#include <algorithm>
#include <utility>
#include <variant>

#include "core/base/check.h"
#include "core/coordination/protocol.h"
#include "core/coordination/service_impl.h"

namespace lockstep::coordination {
namespace {

// Received before the connection may be read on: enough for the pipelining of a normal client, and
// little beside the many connections that may be in their handshake at once.
constexpr uint64_t kHandshakeBytesMax = 64 << 10;

// Reads that wait for the session's write: all of them may have to be answered in the step in which
// it is applied, whether the network takes the answers or not.
constexpr size_t kQueuedReadsMax = 64;

bool IsWrite(OpCode op) {
  switch (op) {
    case OpCode::kCreate:
    case OpCode::kCreate2:
    case OpCode::kDelete:
    case OpCode::kSetData:
    case OpCode::kMulti:
    case OpCode::kCloseSession:
      return true;
    default:
      return false;
  }
}

}  // namespace

// ---- Connections --------------------------------------------------------------------------------

Connection* Service::Impl::Find(ConnectionId id) {
  auto it = connections_.find(id);
  return it == connections_.end() ? nullptr : it->second.get();
}

Connection* Service::Impl::FindTicket(Ticket ticket) {
  auto it = by_ticket_.find(ticket);
  return it == by_ticket_.end() ? nullptr : it->second;
}

Ticket Service::Impl::DrawTicket() {
  for (;;) {
    Ticket ticket{random_.Next()};
    if (ticket && !by_ticket_.contains(ticket)) return ticket;
  }
}

void Service::Impl::OnClientAccepted(Instant now, ConnectionId id, const std::string& address,
                                     uint16_t port, ServiceOutput* output) {
  const char* refusal = nullptr;
  std::string text = address;
  auto at_address = by_address_.find(address);
  if (role_ == Role::kStopped) {
    refusal = "not serving";
  } else if (connections_.size() >= options_.connections_max) {
    refusal = "too many connections";
    text +=
        " is one too many for the server, which takes " + std::to_string(options_.connections_max);
  } else if (options_.connections_per_address_max != 0 && at_address != by_address_.end() &&
             at_address->second >= options_.connections_per_address_max) {
    refusal = "too many connections from this address";
    text += " has all that maxClientCnxns allows, " +
            std::to_string(options_.connections_per_address_max);
  }
  if (refusal != nullptr) {
    output->client_closes.push_back(id);
    output->events.push_back({.kind = EventKind::kConnectionRefused,
                              .detail = id.value,
                              .reason = refusal,
                              .text = std::move(text)});
    return;
  }
  auto connection =
      std::make_unique<Connection>(id, address, DrawTicket(), options_.frame_bytes_max);
  connection->accepted_at = now;
  connection->port = port;
  by_ticket_[connection->ticket] = connection.get();
  ++by_address_[address];
  unconnected_.emplace_back(now + kConnectTimeout, id);
  const bool added = connections_.emplace(id, std::move(connection)).second;
  LS_CHECK(added);
}

void Service::Impl::OnClientBytes(Instant now, ConnectionId id, Bytes bytes,
                                  ServiceOutput* output) {
  // Unknown: closed by us, with bytes on their way.
  Connection* connection = Find(id);
  if (connection == nullptr) return;
  const Step step{now, output};
  connection->AddBytes(std::move(bytes));
  Continue(step, connection);
  Settle(step);
}

void Service::Impl::OnClientClosed(Instant now, ConnectionId id, ServiceOutput* output) {
  Connection* connection = Find(id);
  if (connection == nullptr) return;
  const Step step{now, output};
  // The session lives on until it expires or its client comes back.
  Forget(connection);
  output->events.push_back(
      {.kind = EventKind::kConnectionClosed, .detail = id.value, .reason = "closed by the client"});
  Settle(step);
}

void Service::Impl::OnClientWritten(Instant now, ConnectionId id, uint64_t bytes,
                                    ServiceOutput* output) {
  Connection* connection = Find(id);
  if (connection == nullptr) return;
  // The host may have sent bytes of its own here, before it knew that this is no four-letter word.
  connection->unsent_bytes -= std::min(bytes, connection->unsent_bytes);
  if (!connection->full) return;
  const Step step{now, output};
  Drain(step, connection);
  Continue(step, connection);
  Settle(step);
}

void Service::Impl::Close(Step step, Connection* connection, const char* reason) {
  if (connection->state == Connection::State::kClosed) return;
  step.output->client_closes.push_back(connection->id);
  step.output->events.push_back(
      {.kind = EventKind::kConnectionClosed, .detail = connection->id.value, .reason = reason});
  Forget(connection);
}

void Service::Impl::Forget(Connection* connection) {
  LS_CHECK(connection->state != Connection::State::kClosed);
  connection->state = Connection::State::kClosed;
  LS_CHECK_LE(connection->requests.size(), stats_.outstanding_requests);
  stats_.outstanding_requests -= connection->requests.size();
  watches_.RemoveAll(connection->id);
  by_ticket_.erase(connection->ticket);
  auto session = by_session_.find(connection->session);
  // Not if the session is with a newer connection of this server already.
  if (session != by_session_.end() && session->second == connection) by_session_.erase(session);
  auto address = by_address_.find(connection->address);
  LS_CHECK(address != by_address_.end());
  if (--address->second == 0) by_address_.erase(address);
  auto it = connections_.find(connection->id);
  LS_CHECK(it != connections_.end());
  closed_.push_back(std::move(it->second));
  connections_.erase(it);
}

void Service::Impl::Send(Step step, Connection* connection, Bytes frame) {
  connection->unsent_bytes += frame.size();
  ++connection->packets_sent;
  ++stats_.packets_sent;
  step.output->client_sends.push_back({connection->id, std::move(frame)});
}

bool Service::Impl::Full(const Connection& connection) const {
  // Half of each bound is enough to stay full, so that a connection at its bound is not paused and
  // resumed for every request.
  const uint64_t divisor = connection.full ? 2 : 1;
  return connection.requests.size() >=
             std::max<uint64_t>(1, options_.outstanding_requests_max / divisor) ||
         connection.request_bytes > options_.outstanding_bytes_max / divisor ||
         connection.queued_reads >= kQueuedReadsMax / divisor ||
         connection.unsent_bytes > options_.pending_reply_bytes_max / divisor ||
         (connection.state == Connection::State::kHandshaking &&
          connection.buffered() > kHandshakeBytesMax);
}

// Handles the frames that are here, as far as the connection may be read.
void Service::Impl::Continue(Step step, Connection* connection) {
  using State = Connection::State;
  for (;;) {
    if (connection->state == State::kClosed) return;
    connection->full = Full(*connection);
    if (connection->full != connection->paused &&
        (flow_changes_.empty() || flow_changes_.back() != connection->id)) {
      flow_changes_.push_back(connection->id);
    }
    if (connection->full || connection->state == State::kHandshaking) break;
    absl::StatusOr<std::optional<Bytes>> frame = connection->NextFrame();
    if (!frame.ok()) return Close(step, connection, "bad frame length");
    if (!frame->has_value()) return;
    HandleFrame(step, connection, *std::move(*frame));
  }
  // A host that was asked to pause may still have a few buffers on the way, but not without end.
  if (connection->buffered() > 4 * uint64_t{options_.frame_bytes_max} + kHandshakeBytesMax) {
    Close(step, connection, "too much data while reading is paused");
  }
}

void Service::Impl::HandleFrame(Step step, Connection* connection, Bytes frame) {
  ++connection->packets_received;
  ++stats_.packets_received;
  switch (connection->state) {
    case Connection::State::kNew:
      return OnConnectRequest(step, connection, frame);
    case Connection::State::kEstablished:
      return OnSessionRequest(step, connection, std::move(frame));
    case Connection::State::kClosing:
      return;  // nothing of a session comes after its end
    case Connection::State::kHandshaking:
    case Connection::State::kClosed:
      break;
  }
  LS_UNREACHABLE();
}

// Carries out what the leader's desk has answered, and ends the step.
void Service::Impl::Settle(Step step) {
  // An answer to our own connection may lead to more of them.
  for (size_t i = 0; i < answers_.size(); ++i) {
    LeaderDesk::AnswerTo answer = std::move(answers_[i]);
    if (answer.to == options_.server) {
      OnAnswer(step, answer.answer);
    } else {
      step.output->replies.push_back({answer.to, EncodeForwardedAnswer(answer.answer)});
    }
  }
  answers_.clear();
  // Once per step: the host could not tell the order of a pause and a resume.
  for (ConnectionId id : flow_changes_) {
    Connection* connection = Find(id);
    if (connection == nullptr || connection->full == connection->paused) continue;
    connection->paused = connection->full;
    (connection->paused ? step.output->pauses : step.output->resumes).push_back(id);
    if (connection->paused) {
      step.output->events.push_back({.kind = EventKind::kBackpressure, .detail = id.value});
    }
  }
  flow_changes_.clear();
  closed_.clear();
  while (!unconnected_.empty()) {
    const Connection* oldest = Find(unconnected_.front().second);
    if (oldest != nullptr && oldest->state == Connection::State::kNew) break;
    unconnected_.pop_front();
  }
}

// ---- Handshake ----------------------------------------------------------------------------------

void Service::Impl::OnConnectRequest(Step step, Connection* connection, const Bytes& frame) {
  absl::StatusOr<ConnectRequest> request = DecodeConnectRequest(frame);
  if (!request.ok()) return Close(step, connection, "bad connect request");
  // The client would see the state go back. Without a reply, as in ZooKeeper: clients take that as
  // "try the next server".
  if (options_.rules.refuse_clients_from_the_future &&
      request->last_zxid_seen > tree_.last_zxid()) {
    step.output->client_closes.push_back(connection->id);
    step.output->events.push_back({.kind = EventKind::kConnectionRefused,
                                   .zxid = request->last_zxid_seen,
                                   .detail = connection->id.value,
                                   .reason = "the client has seen a newer state"});
    return Forget(connection);
  }
  connection->state = Connection::State::kHandshaking;
  connection->has_read_only = request->has_read_only;
  connection->timeout_ms = std::clamp(request->timeout_ms, options_.session_timeout_ms_min,
                                      options_.session_timeout_ms_max);
  if (!request->session) {
    connection->password = DrawPassword();
    return AskForSession(step, connection);
  }
  if (request->password.size() != kPasswordSize) return RefuseSession(step, connection);
  connection->session = request->session;
  connection->password = std::move(request->password);
  Submit(step, ForwardedValidation{.ticket = connection->ticket,
                                   .session = connection->session,
                                   .password = connection->password});
}

// As ZooKeeper: the server in the highest byte, then 40 bits of the wall clock in milliseconds,
// then a count. The leader sees to it that an id is never given to two sessions at once, whatever
// the clocks do.
SessionId Service::Impl::DrawSession(Instant now) {
  constexpr uint64_t kLowBits = (uint64_t{1} << 56) - 1;
  uint64_t low = next_session_ == 0 ? static_cast<uint64_t>(WallMs(now)) << 16 : next_session_ + 1;
  next_session_ = (uint64_t{options_.server.value} << 56) | (low & kLowBits);
  return {static_cast<int64_t>(next_session_)};
}

std::string Service::Impl::DrawPassword() {
  std::string password(kPasswordSize, '\0');
  for (size_t at = 0; at < kPasswordSize; at += 8) {
    const uint64_t drawn = random_.Next();
    for (size_t i = 0; i < 8; ++i) password[at + i] = static_cast<char>(drawn >> (8 * i));
  }
  return password;
}

void Service::Impl::AskForSession(Step step, Connection* connection) {
  connection->session = DrawSession(step.now);
  Submit(step, ForwardedSession{.ticket = connection->ticket,
                                .session = connection->session,
                                .timeout_ms = connection->timeout_ms,
                                .password = connection->password});
}

void Service::Impl::Establish(Step step, Connection* connection) {
  LS_CHECK(connection->state == Connection::State::kHandshaking);
  auto [it, added] = by_session_.try_emplace(connection->session, connection);
  if (!added) {
    Connection* older = it->second;
    it->second = connection;
    Close(step, older, "the session has a newer connection");
  }
  connection->state = Connection::State::kEstablished;
  Send(step, connection,
       EncodeConnectResponse({.timeout_ms = connection->timeout_ms,
                              .session = connection->session,
                              .password = connection->password,
                              .has_read_only = connection->has_read_only}));
  Continue(step, connection);
}

void Service::Impl::RefuseSession(Step step, Connection* connection) {
  Send(step, connection,
       EncodeConnectResponse(
           {.password = std::string(kNoPassword), .has_read_only = connection->has_read_only}));
  Close(step, connection, "no such session, or not its password");
}

// ---- Requests -----------------------------------------------------------------------------------

void Service::Impl::OnSessionRequest(Step step, Connection* connection, Bytes frame) {
  if (frame.size() < kRequestHeaderSize) return Close(step, connection, "bad request header");
  const RequestHeader header = PeekHeader(frame);
  if (desk_) {
    desk_->Touch(step.now, connection->session);
  } else if (!connection->touched) {
    connection->touched = true;
    touched_.push_back(connection->session);
  }
  if (header.op == OpCode::kPing) {
    // Clients match it by its xid and not by its place; one that waits for a slow write hears that
    // its server is alive.
    Send(step, connection, EncodeReply({.xid = header.xid, .zxid = tree_.last_zxid()}));
    return;
  }
  if (header.op == OpCode::kAuth) {
    // No scheme is known. Like ZooKeeper: say so, and hang up.
    Send(step, connection, EncodeReply({.xid = header.xid, .error = ErrorCode::kAuthFailed}));
    return Close(step, connection, "authentication failed");
  }

  PendingRequest request{.header = header, .received = step.now, .frame_bytes = frame.size()};
  if (IsWrite(header.op) || header.op == OpCode::kSync) {
    request.kind =
        header.op == OpCode::kSync ? PendingRequest::Kind::kSync : PendingRequest::Kind::kWrite;
    if (header.op == OpCode::kCloseSession) connection->state = Connection::State::kClosing;
    if (header.op == OpCode::kSync || header.op == OpCode::kMulti) request.frame = frame;
    Enqueue(connection, std::move(request));
    return Submit(step, ForwardedRequest{.ticket = connection->ticket,
                                         .session = connection->session,
                                         .frame = std::move(frame)});
  }
  if (connection->requests.empty()) {
    return Answer(step, connection, step.now, AnswerRead(tree_, connection->id, frame, &watches_));
  }
  if (options_.rules.reads_after_own_writes) {
    // The session's own writes come first: its read has to see them.
    request.frame = std::move(frame);
    return Enqueue(connection, std::move(request));
  }
  ReadAnswer answer = AnswerRead(tree_, connection->id, frame, &watches_);
  for (Bytes& event : answer.events) Send(step, connection, std::move(event));
  request.kind = PendingRequest::Kind::kDone;
  request.reply = std::move(answer.reply);
  Enqueue(connection, std::move(request));
}

void Service::Impl::Enqueue(Connection* connection, PendingRequest request) {
  connection->request_bytes += request.frame_bytes;
  const bool read = request.kind == PendingRequest::Kind::kRead;
  const bool sync = request.kind == PendingRequest::Kind::kSync;
  connection->queued_reads += read ? 1 : 0;
  connection->queued_writes += !read && !sync ? 1 : 0;
  connection->requests.push_back(std::move(request));
  ++stats_.outstanding_requests;
}

void Service::Impl::Answer(Step step, Connection* connection, Instant received, ReadAnswer answer) {
  for (Bytes& event : answer.events) Send(step, connection, std::move(event));
  Send(step, connection, std::move(answer.reply));
  const Duration latency = step.now - received;
  stats_.latency_min = stats_.requests == 0 ? latency : std::min(stats_.latency_min, latency);
  stats_.latency_max = std::max(stats_.latency_max, latency);
  stats_.latency_total = stats_.latency_total + latency;
  ++stats_.requests;
  if (watches_.CountOf(connection->id) > options_.watches_max) {
    Close(step, connection, "too many watches");
  }
}

void Service::Impl::AnswerOldest(Step step, Connection* connection, ReadAnswer answer) {
  const PendingRequest::Kind kind = connection->requests.front().kind;
  connection->queued_reads -= kind == PendingRequest::Kind::kRead ? 1 : 0;
  connection->queued_writes -= kind == PendingRequest::Kind::kDone ? 1 : 0;
  const Instant received = connection->requests.front().received;
  connection->request_bytes -= connection->requests.front().frame_bytes;
  connection->requests.pop_front();
  --stats_.outstanding_requests;
  Answer(step, connection, received, std::move(answer));
}

// Answers the oldest requests as long as they can be, and the network takes the answers: a read is
// a few bytes, and what it asks for may be a megabyte.
void Service::Impl::Drain(Step step, Connection* connection) {
  while (connection->state != Connection::State::kClosed && !connection->requests.empty()) {
    // Not while a write of the session is behind them: it is on its way through the ensemble, and a
    // read that waits here would be answered with what it changes.
    if (connection->unsent_bytes > options_.pending_reply_bytes_max &&
        connection->queued_writes == 0) {
      return;
    }
    PendingRequest& oldest = connection->requests.front();
    switch (oldest.kind) {
      case PendingRequest::Kind::kWrite:
        return;
      case PendingRequest::Kind::kSync: {
        if (!oldest.sync_point || *oldest.sync_point > tree_.last_zxid()) return;
        ReplyHeader header{.xid = oldest.header.xid, .zxid = tree_.last_zxid()};
        absl::StatusOr<Request> request = DecodeRequest(oldest.frame);
        if (request.ok()) {
          const auto& sync = std::get<SyncRequest>(request->body);
          AnswerOldest(step, connection, {{}, EncodeReply(header, PathResponse{sync.path})});
        } else {
          header.error = ErrorCode::kMarshallingError;
          AnswerOldest(step, connection, {{}, EncodeReply(header)});
        }
        break;
      }
      case PendingRequest::Kind::kRead:
        AnswerOldest(step, connection, AnswerRead(tree_, connection->id, oldest.frame, &watches_));
        break;
      case PendingRequest::Kind::kDone: {
        const bool last = oldest.ends_session;
        AnswerOldest(step, connection, {{}, std::move(oldest.reply)});
        if (last) Close(step, connection, "the session was closed");
        break;
      }
    }
  }
}

void Service::Impl::Submit(Step step, Forwarded forwarded) {
  if (desk_) {
    desk_->OnForwarded(step.now, WallMs(step.now), options_.server, forwarded, step.output,
                       &answers_);
  } else {
    step.output->requests.push_back(EncodeForwarded(forwarded));
  }
}

void Service::Impl::OnRequest(Instant now, ServerId from, const Bytes& payload,
                              ServiceOutput* output) {
  const Step step{now, output};
  absl::StatusOr<Forwarded> forwarded = DecodeForwarded(payload);
  if (!desk_ || !forwarded.ok()) {
    output->events.push_back({.kind = EventKind::kIgnored,
                              .peer = from,
                              .reason = desk_ ? "bad forwarded request" : "not leading"});
    return;
  }
  desk_->OnForwarded(now, WallMs(now), from, *forwarded, output, &answers_);
  Settle(step);
}

void Service::Impl::OnReply(Instant now, const Bytes& payload, ServiceOutput* output) {
  const Step step{now, output};
  absl::StatusOr<ForwardedAnswer> answer = DecodeForwardedAnswer(payload);
  if (role_ != Role::kFollowing || !answer.ok()) {
    output->events.push_back(
        {.kind = EventKind::kIgnored,
         .reason = role_ == Role::kFollowing ? "bad forwarded answer" : "not following"});
    return;
  }
  OnAnswer(step, *answer);
  Settle(step);
}

void Service::Impl::OnAnswer(Step step, const ForwardedAnswer& answer) {
  const Ticket ticket = std::visit([](const auto& any) { return any.ticket; }, answer);
  Connection* connection = FindTicket(ticket);
  if (connection == nullptr) return;  // closed in the meantime, or of a former incarnation
  if (const auto* refused = std::get_if<SessionRefused>(&answer)) {
    LS_CHECK(connection->state == Connection::State::kHandshaking);
    if (refused->full) return Close(step, connection, "too many sessions");
    // Somebody has this id. Far away from it, since its neighbours are likely taken too.
    next_session_ = (uint64_t{options_.server.value} << 56) | (random_.Next() >> 8);
    AskForSession(step, connection);
  } else if (const auto* validated = std::get_if<SessionValidated>(&answer)) {
    LS_CHECK(connection->state == Connection::State::kHandshaking);
    connection->timeout_ms = validated->timeout_ms;
    Establish(step, connection);
  } else if (const auto* sync = std::get_if<SyncPoint>(&answer)) {
    for (PendingRequest& request : connection->requests) {
      if (request.kind != PendingRequest::Kind::kSync || request.sync_point) continue;
      LS_CHECK_EQ(request.header.xid, sync->xid);
      request.sync_point = sync->zxid;
      break;
    }
    if (sync->zxid <= tree_.last_zxid()) {
      Drain(step, connection);
      Continue(step, connection);
    } else {
      LS_CHECK(syncs_.empty() || syncs_.back().first <= sync->zxid);
      syncs_.emplace_back(sync->zxid, ticket);
    }
  } else {
    Close(step, connection, "the session has moved");
  }
}

}  // namespace lockstep::coordination
