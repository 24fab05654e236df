#include "core/coordination/service.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <variant>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "core/base/check.h"
#include "core/coordination/connection.h"
#include "core/coordination/forward.h"
#include "core/coordination/leader.h"
#include "core/coordination/protocol.h"
#include "core/coordination/reads.h"
#include "core/coordination/watches.h"

namespace lockstep::coordination {
namespace {

// Received before the connection may be read on: enough for the pipelining of a normal client, and
// little beside the many connections that may be in their handshake at once.
constexpr uint64_t kHandshakeBytesMax = 64 << 10;

bool IsWrite(OpCode op) {
  switch (op) {
    case OpCode::kCreate:
    case OpCode::kCreate2:
    case OpCode::kDelete:
    case OpCode::kSetData:
    case OpCode::kCloseSession:
      return true;
    default:
      return false;
  }
}

}  // namespace

void ServiceOutput::Clear() {
  client_sends.clear();
  client_closes.clear();
  pauses.clear();
  resumes.clear();
  proposals.clear();
  requests.clear();
  replies.clear();
  events.clear();
}

// Every entry point ends with Settle. Connections are closed in the middle of a step, and dropped
// there: until then, pointers to them stay valid.
class Service::Impl {
 public:
  Impl(const ServiceOptions& options, RandomStream random) : options_(options), random_(random) {
    LS_CHECK(options.server);
    LS_CHECK_LE(options.server.value, kServerIdMax);
    LS_CHECK_LE(options.session_timeout_ms_min, options.session_timeout_ms_max);
  }

  void SetWallClock(Instant now, int64_t unix_ms) {
    wall_at_ = now;
    wall_ms_ = unix_ms;
  }
  void Restore(Tree tree) {
    LS_CHECK(role_ == Role::kStopped);
    tree_ = std::move(tree);
  }
  void SetRole(Instant now, Role role, ServerId leader, Epoch epoch, ServiceOutput* output);

  void OnClientAccepted(Instant now, ConnectionId id, const std::string& address,
                        ServiceOutput* output);
  void OnClientBytes(Instant now, ConnectionId id, Bytes bytes, ServiceOutput* output);
  void OnClientClosed(Instant now, ConnectionId id, ServiceOutput* output);
  void OnClientWritten(Instant now, ConnectionId id, uint64_t bytes, ServiceOutput* output);

  void OnDelivered(Instant now, Zxid zxid, const Bytes& body, ServiceOutput* output);
  void OnRequest(Instant now, ServerId from, const Bytes& payload, ServiceOutput* output);
  void OnReply(Instant now, const Bytes& payload, ServiceOutput* output);
  Bytes TakeTouchedSessions();
  void OnTouchedSessions(Instant now, const Bytes& payload);
  void OnProposed(Zxid last_proposed) {
    if (desk_) desk_->OnProposed(last_proposed);
  }
  void OnWake(Instant now, ServiceOutput* output);
  Instant next_deadline() const;

  const Tree& tree() const { return tree_; }
  std::unique_ptr<TreeSnapshot> Snapshot() { return tree_.Snapshot(); }
  Role role() const { return role_; }
  const ServiceStats& stats() {
    stats_.connections = connections_.size();
    stats_.watches = watches_.size();
    return stats_;
  }
  void ResetStats() { stats_ = {.outstanding_requests = stats_.outstanding_requests}; }
  std::vector<std::string> DescribeConnections(Instant now) const;

 private:
  // The step under way: what every function below needs.
  struct Step {
    Instant now;
    ServiceOutput* output;
  };

  int64_t WallMs(Instant now) const { return wall_ms_ + (now - wall_at_).Milliseconds(); }
  Connection* Find(ConnectionId id);
  Connection* FindTicket(Ticket ticket);

  // Connections.
  Ticket DrawTicket();
  void Close(Step step, Connection* connection, const char* reason);
  void Forget(Connection* connection);
  void Send(Step step, Connection* connection, Bytes frame);
  bool Full(const Connection& connection) const;
  void Continue(Step step, Connection* connection);
  void HandleFrame(Step step, Connection* connection, Bytes frame);
  void Settle(Step step);

  // Handshake.
  void OnConnectRequest(Step step, Connection* connection, const Bytes& frame);
  SessionId DrawSession(Instant now);
  std::string DrawPassword();
  void AskForSession(Step step, Connection* connection);
  void Establish(Step step, Connection* connection);
  void RefuseSession(Step step, Connection* connection);

  // Requests.
  void OnSessionRequest(Step step, Connection* connection, Bytes frame);
  void Enqueue(Connection* connection, PendingRequest request);
  void Answer(Step step, Connection* connection, Instant received, ReadAnswer answer);
  void AnswerOldest(Step step, Connection* connection, ReadAnswer answer);
  void Drain(Step step, Connection* connection);
  void Submit(Step step, Forwarded forwarded);
  void OnAnswer(Step step, const ForwardedAnswer& answer);

  // Deliveries.
  void FireWatches(Step step, Zxid zxid, const Applied& applied);
  void Complete(Step step, Zxid zxid, const DecodedTransaction& transaction,
                const Applied& applied);
  void CompleteWrite(Step step, Connection* connection, Zxid zxid, int32_t xid,
                     const Applied& applied);
  void CompleteSyncs(Step step);
  void OnSessionClosed(Step step, const TransactionHeader& header);

  const ServiceOptions options_;
  RandomStream random_;
  Tree tree_;
  Role role_ = Role::kStopped;
  Epoch epoch_;  // of the leader; meaningless while stopped
  Instant wall_at_;
  int64_t wall_ms_ = 0;
  uint64_t next_session_ = 0;  // 0: none drawn yet

  absl::btree_map<ConnectionId, std::unique_ptr<Connection>> connections_;
  std::vector<std::unique_ptr<Connection>> closed_;  // until the end of the step
  absl::flat_hash_map<Ticket, Connection*> by_ticket_;
  absl::flat_hash_map<SessionId, Connection*> by_session_;    // established or closing
  absl::flat_hash_map<std::string, uint32_t> by_address_;     // number of connections
  std::deque<std::pair<Instant, ConnectionId>> unconnected_;  // deadlines, ascending
  Watches watches_;

  std::optional<LeaderDesk> desk_;             // while leading
  std::vector<LeaderDesk::AnswerTo> answers_;  // of the desk, in this step
  std::vector<ConnectionId> flow_changes_;     // connections to pause or resume, in this step
  std::vector<SessionId> touched_;
  std::deque<std::pair<Zxid, Ticket>> syncs_;  // to be completed once applied; zxids ascend
  ServiceStats stats_;
};

// ---- Role
// ----------------------------------------------------------------------------------------

void Service::Impl::SetRole(Instant now, Role role, ServerId leader, Epoch epoch,
                            ServiceOutput* output) {
  const Step step{now, output};
  // Everything volatile belongs to one reign: a request that was forwarded to the old leader may
  // have been lost with it or may still be carried out, and only the client's reconnection, through
  // the new leader, tells the session's requests from before apart from those after.
  while (!connections_.empty()) Close(step, connections_.begin()->second.get(), "not serving");
  watches_.Clear();
  unconnected_.clear();
  touched_.clear();
  syncs_.clear();
  answers_.clear();
  desk_.reset();
  role_ = role;
  epoch_ = epoch;
  if (role == Role::kLeading) {
    LS_CHECK_EQ(leader, options_.server);
    desk_.emplace(options_, epoch, &tree_, now);
  }
  Settle(step);
}

// ---- Connections
// ---------------------------------------------------------------------------------

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
                                     ServiceOutput* output) {
  const char* refusal = nullptr;
  auto at_address = by_address_.find(address);
  if (role_ == Role::kStopped) {
    refusal = "not serving";
  } else if (connections_.size() >= options_.connections_max) {
    refusal = "too many connections";
  } else if (options_.connections_per_address_max != 0 && at_address != by_address_.end() &&
             at_address->second >= options_.connections_per_address_max) {
    refusal = "too many connections from this address";
  }
  if (refusal != nullptr) {
    output->client_closes.push_back(id);
    output->events.push_back(
        {.kind = EventKind::kConnectionRefused, .detail = id.value, .reason = refusal});
    return;
  }
  auto connection =
      std::make_unique<Connection>(id, address, DrawTicket(), options_.frame_bytes_max);
  connection->accepted_at = now;
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

// ---- Handshake
// -----------------------------------------------------------------------------------

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

// ---- Requests
// ------------------------------------------------------------------------------------

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

  PendingRequest request{.header = header, .received = step.now};
  if (IsWrite(header.op) || header.op == OpCode::kSync) {
    request.kind =
        header.op == OpCode::kSync ? PendingRequest::Kind::kSync : PendingRequest::Kind::kWrite;
    if (header.op == OpCode::kCloseSession) connection->state = Connection::State::kClosing;
    if (header.op == OpCode::kSync) request.frame = frame;
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
  const Instant received = connection->requests.front().received;
  connection->requests.pop_front();
  --stats_.outstanding_requests;
  Answer(step, connection, received, std::move(answer));
}

// Answers the oldest requests as long as they can be.
void Service::Impl::Drain(Step step, Connection* connection) {
  while (connection->state != Connection::State::kClosed && !connection->requests.empty()) {
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
      case PendingRequest::Kind::kDone:
        AnswerOldest(step, connection, {{}, std::move(oldest.reply)});
        break;
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
    if (!validated->valid) return RefuseSession(step, connection);
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

// ---- Deliveries
// ----------------------------------------------------------------------------------

void Service::Impl::OnDelivered(Instant now, Zxid zxid, const Bytes& body, ServiceOutput* output) {
  const Step step{now, output};
  absl::StatusOr<DecodedTransaction> transaction = DecodeTransaction(body);
  LS_CHECK(transaction.ok());  // it was encoded by a leader and is protected by a CRC since
  const Applied applied = tree_.Apply(zxid, transaction->header, transaction->body);
  if (desk_) desk_->OnApplied(now, zxid, transaction->header, transaction->body);
  if (options_.rules.events_before_replies) {
    // All replies from here on show the new state, and a client must not see it before it is told:
    // what it has cached is wrong from that moment.
    FireWatches(step, zxid, applied);
    Complete(step, zxid, *transaction, applied);
  } else {
    Complete(step, zxid, *transaction, applied);
    FireWatches(step, zxid, applied);
  }
  Settle(step);
}

void Service::Impl::FireWatches(Step step, Zxid zxid, const Applied& applied) {
  for (const FiredWatch& fired : watches_.Fire(applied.changes)) {
    // One frame for all of them.
    const Bytes frame = EncodeWatcherEvent(kEventZxid, {.type = fired.type, .path = fired.path});
    for (ConnectionId watcher : fired.watchers) {
      Connection* connection = Find(watcher);
      LS_CHECK(connection != nullptr);
      Send(step, connection, frame);
    }
    step.output->events.push_back(
        {.kind = EventKind::kWatchFired, .zxid = zxid, .detail = fired.watchers.size()});
  }
}

void Service::Impl::Complete(Step step, Zxid zxid, const DecodedTransaction& transaction,
                             const Applied& applied) {
  const TransactionHeader& header = transaction.header;
  Connection* connection =
      header.origin == options_.server ? FindTicket(header.connection) : nullptr;
  if (std::holds_alternative<CreateSessionTransaction>(transaction.body)) {
    step.output->events.push_back({.kind = EventKind::kSessionCreated,
                                   .zxid = zxid,
                                   .detail = static_cast<uint64_t>(header.session.value)});
    if (connection != nullptr) Establish(step, connection);
  } else if (connection != nullptr) {
    CompleteWrite(step, connection, zxid, header.xid, applied);
  }
  if (std::holds_alternative<CloseSessionTransaction>(transaction.body)) {
    OnSessionClosed(step, header);
  }
  CompleteSyncs(step);
}

void Service::Impl::CompleteWrite(Step step, Connection* connection, Zxid zxid, int32_t xid,
                                  const Applied& applied) {
  if (applied.error == ErrorCode::kSessionMoved) {
    // An error of the connection, not of the request: the client behind it, if there still is one,
    // has to come back and ask who owns its session now (ZOOKEEPER-710).
    return Close(step, connection, "the session has moved");
  }
  auto write = std::find_if(
      connection->requests.begin(), connection->requests.end(),
      [](const PendingRequest& any) { return any.kind == PendingRequest::Kind::kWrite; });
  // Writes are forwarded, proposed and delivered in one order, and none is lost within a reign.
  LS_CHECK(write != connection->requests.end());
  LS_CHECK_EQ(write->header.xid, xid);
  ReplyHeader header{.xid = xid, .zxid = zxid, .error = applied.error};
  if (applied.error != ErrorCode::kOk) {
    write->reply = EncodeReply(header);
  } else if (write->header.op == OpCode::kCreate) {
    write->reply = EncodeReply(header, PathResponse{applied.path});
  } else if (write->header.op == OpCode::kCreate2) {
    write->reply = EncodeReply(header, Create2Response{applied.path, applied.stat});
  } else if (write->header.op == OpCode::kSetData) {
    write->reply = EncodeReply(header, StatResponse{applied.stat});
  } else {
    write->reply = EncodeReply(header);
  }
  write->kind = PendingRequest::Kind::kDone;
  Drain(step, connection);
  Continue(step, connection);
}

void Service::Impl::CompleteSyncs(Step step) {
  while (!syncs_.empty() && syncs_.front().first <= tree_.last_zxid()) {
    Connection* connection = FindTicket(syncs_.front().second);
    syncs_.pop_front();
    if (connection == nullptr) continue;
    Drain(step, connection);
    Continue(step, connection);
  }
}

void Service::Impl::OnSessionClosed(Step step, const TransactionHeader& header) {
  const bool expired = !header.origin;
  step.output->events.push_back({.kind = EventKind::kSessionClosed,
                                 .detail = static_cast<uint64_t>(header.session.value),
                                 .reason = expired ? "expired" : "closed"});
  auto it = by_session_.find(header.session);
  if (it == by_session_.end()) return;
  Close(step, it->second, expired ? "the session has expired" : "the session was closed");
}

// ---- Time
// ----------------------------------------------------------------------------------------

Bytes Service::Impl::TakeTouchedSessions() {
  for (SessionId session : touched_) {
    auto it = by_session_.find(session);
    if (it != by_session_.end()) it->second->touched = false;
  }
  Bytes bytes = EncodeTouched(touched_);
  touched_.clear();
  return bytes;
}

void Service::Impl::OnTouchedSessions(Instant now, const Bytes& payload) {
  absl::StatusOr<std::vector<SessionId>> sessions = DecodeTouched(payload);
  if (!desk_ || !sessions.ok()) return;
  for (SessionId session : *sessions) desk_->Touch(now, session);
}

void Service::Impl::OnWake(Instant now, ServiceOutput* output) {
  const Step step{now, output};
  if (desk_) desk_->Expire(now, WallMs(now), output);
  while (!unconnected_.empty() && unconnected_.front().first <= now) {
    Connection* connection = Find(unconnected_.front().second);
    unconnected_.pop_front();
    if (connection != nullptr && connection->state == Connection::State::kNew) {
      Close(step, connection, "no connect request in time");
    }
  }
  Settle(step);
}

Instant Service::Impl::next_deadline() const {
  Instant next = desk_ ? desk_->next_deadline() : Instant::Never();
  if (!unconnected_.empty()) next = std::min(next, unconnected_.front().first);
  return next;
}

std::vector<std::string> Service::Impl::DescribeConnections(Instant now) const {
  std::vector<std::string> lines;
  lines.reserve(connections_.size());
  for (const auto& [id, connection] : connections_) {
    const bool established = connection->state == Connection::State::kEstablished ||
                             connection->state == Connection::State::kClosing;
    std::string line = " /" + connection->address + "[" + (established ? "1" : "0") +
                       "](queued=" + std::to_string(connection->requests.size()) +
                       ",recved=" + std::to_string(connection->packets_received) +
                       ",sent=" + std::to_string(connection->packets_sent);
    if (established) {
      line += ",sid=" + connection->session.ToString() +
              ",to=" + std::to_string(connection->timeout_ms);
    }
    line += ",age=" + std::to_string((now - connection->accepted_at).Milliseconds()) + ")";
    lines.push_back(std::move(line));
  }
  return lines;
}

// ---- The public face
// -----------------------------------------------------------------------------

Service::Service(const ServiceOptions& options, RandomStream random)
    : impl_(std::make_unique<Impl>(options, random)) {}
Service::~Service() = default;

void Service::SetWallClock(Instant now, int64_t unix_ms) { impl_->SetWallClock(now, unix_ms); }
void Service::Restore(Tree tree) { impl_->Restore(std::move(tree)); }
const Tree& Service::tree() const { return impl_->tree(); }
std::unique_ptr<TreeSnapshot> Service::Snapshot() { return impl_->Snapshot(); }
Role Service::role() const { return impl_->role(); }
void Service::SetRole(Instant now, Role role, ServerId leader, Epoch epoch, ServiceOutput* output) {
  impl_->SetRole(now, role, leader, epoch, output);
}
void Service::OnClientAccepted(Instant now, ConnectionId connection, const std::string& address,
                               ServiceOutput* output) {
  impl_->OnClientAccepted(now, connection, address, output);
}
void Service::OnClientBytes(Instant now, ConnectionId connection, Bytes bytes,
                            ServiceOutput* output) {
  impl_->OnClientBytes(now, connection, std::move(bytes), output);
}
void Service::OnClientClosed(Instant now, ConnectionId connection, ServiceOutput* output) {
  impl_->OnClientClosed(now, connection, output);
}
void Service::OnClientWritten(Instant now, ConnectionId connection, uint64_t bytes,
                              ServiceOutput* output) {
  impl_->OnClientWritten(now, connection, bytes, output);
}
void Service::OnDelivered(Instant now, Zxid zxid, const Bytes& body, ServiceOutput* output) {
  impl_->OnDelivered(now, zxid, body, output);
}
void Service::OnRequest(Instant now, ServerId from, const Bytes& payload, ServiceOutput* output) {
  impl_->OnRequest(now, from, payload, output);
}
void Service::OnReply(Instant now, const Bytes& payload, ServiceOutput* output) {
  impl_->OnReply(now, payload, output);
}
Bytes Service::TakeTouchedSessions() { return impl_->TakeTouchedSessions(); }
void Service::OnTouchedSessions(Instant now, ServerId, const Bytes& payload) {
  impl_->OnTouchedSessions(now, payload);
}
void Service::OnProposed(Zxid last_proposed) { impl_->OnProposed(last_proposed); }
void Service::OnWake(Instant now, ServiceOutput* output) { impl_->OnWake(now, output); }
Instant Service::next_deadline() const { return impl_->next_deadline(); }
const ServiceStats& Service::stats() const { return impl_->stats(); }
void Service::ResetStats() { impl_->ResetStats(); }
std::vector<std::string> Service::DescribeConnections(Instant now) const {
  return impl_->DescribeConnections(now);
}

}  // namespace lockstep::coordination
