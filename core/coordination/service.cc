#include "core/coordination/service.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/base/check.h"
#include "core/coordination/protocol.h"
#include "core/coordination/service_impl.h"

namespace lockstep::coordination {

bool ServiceOutput::Empty() const {
  return client_sends.empty() && client_closes.empty() && pauses.empty() && resumes.empty() &&
         proposals.empty() && requests.empty() && replies.empty() && events.empty();
}

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

// ---- Role ---------------------------------------------------------------------------------------

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

// ---- Deliveries ---------------------------------------------------------------------------------

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
  } else if (connection != nullptr && connection->state == Connection::State::kHandshaking) {
    // The only other thing that a handshake waits for: the session that it asked about is refused.
    LS_CHECK(applied.error == ErrorCode::kSessionExpired);
    RefuseSession(step, connection);
  } else if (connection != nullptr) {
    CompleteWrite(step, connection, zxid, header.xid, applied);
  }
  if (std::holds_alternative<CloseSessionTransaction>(transaction.body)) {
    OnSessionClosed(step, header);
  }
  CompleteSyncs(step);
}

namespace {

// What was asked for in `frame`, whose transaction says what came of it. The paths of the result
// point into `applied`.
MultiResponse MultiResponseOf(const Bytes& frame, const Applied& applied) {
  absl::StatusOr<Request> request = DecodeRequest(frame);
  LS_CHECK(request.ok());  // the leader has decoded it
  const auto& operations = std::get<MultiRequest>(request->body).operations;
  MultiResponse response;
  response.results.reserve(operations.size());
  if (applied.failed_operation) LS_CHECK_LT(*applied.failed_operation, operations.size());
  if (!applied.failed_operation) LS_CHECK_EQ(applied.results.size(), operations.size());
  for (size_t i = 0; i < operations.size(); ++i) {
    const OpCode op = operations[i].op;
    if (applied.failed_operation) {
      const ErrorCode error = i < *applied.failed_operation    ? ErrorCode::kOk
                              : i == *applied.failed_operation ? applied.error
                                                               : ErrorCode::kRuntimeInconsistency;
      response.results.push_back({OpCode::kError, ErrorResponse{error}});
    } else if (op == OpCode::kCreate) {
      response.results.push_back({op, PathResponse{applied.results[i].path}});
    } else if (op == OpCode::kCreate2) {
      response.results.push_back(
          {op, Create2Response{applied.results[i].path, applied.results[i].stat}});
    } else if (op == OpCode::kSetData) {
      response.results.push_back({op, StatResponse{applied.results[i].stat}});
    } else {
      response.results.push_back({op, EmptyResponse()});
    }
  }
  return response;
}

}  // namespace

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
  const bool multi = write->header.op == OpCode::kMulti;
  const Applied::Result& result = applied.result;
  if (multi && (applied.error == ErrorCode::kOk || applied.failed_operation)) {
    header.error = ErrorCode::kOk;  // of one operation, told in its result
    write->reply = EncodeReply(header, MultiResponseOf(write->frame, applied));
  } else if (applied.error != ErrorCode::kOk) {
    write->reply = EncodeReply(header);
  } else if (write->header.op == OpCode::kCreate) {
    write->reply = EncodeReply(header, PathResponse{result.path});
  } else if (write->header.op == OpCode::kCreate2) {
    write->reply = EncodeReply(header, Create2Response{result.path, result.stat});
  } else if (write->header.op == OpCode::kSetData) {
    write->reply = EncodeReply(header, StatResponse{result.stat});
  } else {
    write->reply = EncodeReply(header);
  }
  write->kind = PendingRequest::Kind::kDone;
  write->frame = Bytes();
  write->ends_session =
      write->header.op == OpCode::kCloseSession && applied.error == ErrorCode::kOk;
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
  // The connection that asked for it, and takes its answers slowly, is closed after the last one.
  if (!expired && it->second->ticket == header.connection && !it->second->requests.empty()) return;
  Close(step, it->second, expired ? "the session has expired" : "the session was closed");
}

// ---- Time ---------------------------------------------------------------------------------------

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
    std::string line = " /" + connection->address + ":" + std::to_string(connection->port) + "[" +
                       (established ? "1" : "0") +
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

// ---- The public face ----------------------------------------------------------------------------

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
                               uint16_t port, ServiceOutput* output) {
  impl_->OnClientAccepted(now, connection, address, port, output);
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
