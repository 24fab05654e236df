#include "core/coordination/client.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "core/base/check.h"

namespace lockstep::coordination {
namespace {

// Of the paths in one setWatches request: a client may have more watches than fit into a frame.
constexpr size_t kSetWatchesBytesMax = 128 << 10;

}  // namespace

void ClientOutput::Clear() {
  dials.clear();
  sends.clear();
  closes.clear();
  completions.clear();
  events.clear();
  states.clear();
}

Client::Client(const ClientOptions& options, RandomStream random)
    : options_(options),
      random_(random),
      cutter_(options.frame_bytes_max),
      retry_(options.retry_min),
      password_(kNoPassword) {
  LS_CHECK_GE(options.servers, 1u);
  LS_CHECK_GE(options.session_timeout_ms, 1);
  for (uint32_t server = 0; server < options.servers; ++server) order_.push_back(server);
  // Shuffled, so that the clients of an ensemble spread over its servers.
  for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random_.Below(i)]);
}

void Client::Start(Instant now, ClientOutput* output) {
  LS_CHECK_EQ(connection_, uint64_t{0});
  timeout_ms_ = options_.session_timeout_ms;
  Dial(now, output);
}

void Client::Enter(ClientState state, ClientOutput* output) {
  LS_CHECK(!over());
  state_ = state;
  output->states.push_back(state);
}

// ---- Connections -------------------------------------------------------------------------------

void Client::Dial(Instant now, ClientOutput* output) {
  LS_CHECK(link_ == Link::kNone);
  link_ = Link::kDialing;
  cutter_ = FrameCutter(options_.frame_bytes_max);
  output->dials.push_back({++connection_, order_[next_server_]});
  next_server_ = (next_server_ + 1) % order_.size();
  // All servers can be tried within the timeout of the session.
  timers_.Set(Timer::kDial, now + Milliseconds(std::max<int64_t>(
                                      1, timeout_ms_ / static_cast<int64_t>(order_.size()))));
}

// We close the connection.
void Client::GiveUp(Instant now, ClientOutput* output) {
  output->closes.push_back(connection_);
  Lost(now, output);
}

void Client::Lost(Instant now, ClientOutput* output) {
  LS_CHECK(link_ != Link::kNone);
  const bool was_up = link_ == Link::kUp;
  const bool asked_for_session = link_ == Link::kHandshake && !session_;
  link_ = Link::kNone;
  timers_.StopAll();
  if (closing_) return Finish(ClientState::kClosed, ErrorCode::kConnectionLoss, output);
  // Nobody knows whether these were carried out. Those that were never sent wait on.
  FailSent(ErrorCode::kConnectionLoss, output);
  if (was_up) Enter(ClientState::kConnecting, output);
  ++failures_;
  // A request for a session is a write that is carried out even if nobody waits for it any more.
  // Made again at once by everybody whose answer is late, such writes are all that an ensemble has
  // time for, and every answer is late.
  if (failures_ % order_.size() != 0 && !asked_for_session) return Dial(now, output);
  const int64_t half = retry_.ns / 2;
  timers_.Set(Timer::kRetry, now + Duration{half + random_.Between(0, half)});
  retry_ = std::min(retry_ * 2, options_.retry_max);
}

void Client::Finish(ClientState state, ErrorCode error, ClientOutput* output) {
  link_ = Link::kNone;
  timers_.StopAll();
  FailSent(error, output);
  while (!waiting_.empty()) {
    Fail(waiting_.front(), error, output);
    waiting_.pop_front();
  }
  Enter(state, output);
}

void Client::FailSent(ErrorCode error, ClientOutput* output) {
  while (!sent_.empty()) {
    // closeSession is nobody's call.
    if (sent_.front().call != 0) Fail(sent_.front(), error, output);
    sent_.pop_front();
  }
}

void Client::Fail(const Pending& pending, ErrorCode error, ClientOutput* output) {
  output->completions.push_back({.call = pending.call,
                                 .op = pending.op,
                                 .header = {.xid = pending.xid, .error = error},
                                 .body = EmptyResponse()});
}

void Client::OnConnected(Instant now, uint64_t connection, ClientOutput* output) {
  if (connection != connection_ || link_ != Link::kDialing) return;
  link_ = Link::kHandshake;
  handshake_sent_ = now;
  pings_sent_.clear();
  Transmit(now,
           EncodeConnectRequest({.last_zxid_seen = last_zxid_,
                                 .timeout_ms = options_.session_timeout_ms,
                                 .session = session_,
                                 .password = password_}),
           output);
  timers_.Stop(Timer::kPing);  // not before the session is up
  // There is none yet that would end while this server takes its time.
  if (!session_) timers_.Set(Timer::kDial, now + Milliseconds(timeout_ms_));
}

void Client::OnDisconnected(Instant now, uint64_t connection, ClientOutput* output) {
  if (connection != connection_ || link_ == Link::kNone) return;
  Lost(now, output);
}

void Client::OnWake(Instant now, ClientOutput* output) {
  if (timers_.Expired(Timer::kRetry, now)) return Dial(now, output);
  if (timers_.Expired(Timer::kDial, now) || timers_.Expired(Timer::kSilence, now)) {
    return GiveUp(now, output);
  }
  if (timers_.Expired(Timer::kPing, now)) {
    Transmit(now, EncodeRequest(kXidPing, OpCode::kPing, PingRequest()), output);
    pings_sent_.push_back(now);
  }
}

// ---- Calls -------------------------------------------------------------------------------------

int32_t Client::NextXid() {
  const int32_t xid = next_xid_;
  next_xid_ = xid == std::numeric_limits<int32_t>::max() ? 1 : xid + 1;
  return xid;
}

std::optional<uint64_t> Client::Call(Instant now, OpCode op, const RequestBody& body,
                                     ClientOutput* output) {
  LS_CHECK(op != OpCode::kPing);
  LS_CHECK(op != OpCode::kAuth);
  LS_CHECK(op != OpCode::kSetWatches);
  LS_CHECK(op != OpCode::kSetWatches2);
  LS_CHECK(op != OpCode::kCloseSession);
  if (over() || closing_ || calls_under_way() >= options_.requests_max) return std::nullopt;
  Pending pending{.call = next_call_++, .xid = NextXid(), .op = op};
  auto watch = [&](WatchKind kind, std::string_view path) {
    pending.watch = kind;
    pending.path = std::string(path);
  };
  if (const auto* exists = std::get_if<ExistsRequest>(&body)) {
    if (exists->watch) watch(WatchKind::kExists, exists->path);
  } else if (const auto* data = std::get_if<GetDataRequest>(&body)) {
    if (data->watch) watch(WatchKind::kData, data->path);
  } else if (const auto* children = std::get_if<GetChildrenRequest>(&body)) {
    if (children->watch) watch(WatchKind::kChildren, children->path);
  } else if (const auto* add = std::get_if<AddWatchRequest>(&body)) {
    const bool recursive = add->mode == AddWatchMode::kPersistentRecursive;
    watch(recursive ? WatchKind::kRecursive : WatchKind::kPersistent, add->path);
  } else if (const auto* remove = std::get_if<RemoveWatchesRequest>(&body)) {
    if (op == OpCode::kRemoveWatches) watch(WatchKind::kRemoved, remove->path);
    pending.removed = remove->type;
  } else if (const auto* reads = std::get_if<MultiReadRequest>(&body)) {
    for (const MultiReadRequest::Operation& read : reads->operations) {
      LS_CHECK(!std::visit([](const auto& one) { return one.watch; }, read.body));
    }
  }
  pending.frame = EncodeRequest(pending.xid, op, body);
  const uint64_t call = pending.call;
  waiting_.push_back(std::move(pending));
  if (link_ == Link::kUp) SendWaiting(now, output);
  return call;
}

void Client::Close(Instant now, ClientOutput* output) {
  if (over() || closing_) return;
  if (link_ != Link::kUp) {
    if (link_ != Link::kNone) output->closes.push_back(connection_);
    return Finish(ClientState::kClosed, ErrorCode::kConnectionLoss, output);
  }
  closing_ = true;
  const int32_t xid = NextXid();
  sent_.push_back({.xid = xid, .op = OpCode::kCloseSession});
  Transmit(now, EncodeRequest(xid, OpCode::kCloseSession, CloseSessionRequest()), output);
}

void Client::Transmit(Instant now, Bytes data, ClientOutput* output) {
  output->sends.push_back({connection_, std::move(data)});
  // A third of the timeout: a ping and its answer fit in before the silence of two thirds.
  timers_.Set(Timer::kPing, now + Milliseconds(timeout_ms_) / 3);
}

void Client::SendWaiting(Instant now, ClientOutput* output) {
  while (!waiting_.empty()) {
    Pending& oldest = waiting_.front();
    Transmit(now, std::move(oldest.frame), output);
    oldest.frame = Bytes();
    oldest.sent = now;
    sent_.push_back(std::move(oldest));
    waiting_.pop_front();
  }
}

// Tells the new server what this client watches. Before any other request, so that no change can
// slip in between; what has changed since the last reply fires at once.
void Client::SendWatches(Instant now, ClientOutput* output) {
  const size_t bytes_max = std::min<size_t>(kSetWatchesBytesMax, options_.frame_bytes_max / 2);
  SetWatches2Request request{.one_shot = {.relative_zxid = last_zxid_}};
  size_t bytes = 0;
  auto flush = [&] {
    if (bytes == 0) return;
    // Servers before ZooKeeper 3.6 know setWatches alone.
    const bool one_shot = request.persistent.empty() && request.recursive.empty();
    Transmit(now,
             one_shot ? EncodeRequest(kXidSetWatches, OpCode::kSetWatches, request.one_shot)
                      : EncodeRequest(kXidSetWatches, OpCode::kSetWatches2, request),
             output);
    request = {.one_shot = {.relative_zxid = last_zxid_}};
    bytes = 0;
  };
  auto add = [&](const absl::btree_set<std::string>& paths, std::vector<std::string_view>* to) {
    for (const std::string& path : paths) {
      if (bytes + path.size() + 4 > bytes_max) flush();
      to->push_back(path);
      bytes += path.size() + 4;
    }
  };
  add(data_watches_, &request.one_shot.data);
  add(exist_watches_, &request.one_shot.exist);
  add(child_watches_, &request.one_shot.child);
  add(persistent_watches_, &request.persistent);
  add(recursive_watches_, &request.recursive);
  flush();
}

// ---- What the server says ----------------------------------------------------------------------

void Client::OnBytes(Instant now, uint64_t connection, Bytes bytes, ClientOutput* output) {
  if (connection != connection_ || (link_ != Link::kHandshake && link_ != Link::kUp)) return;
  if (link_ == Link::kUp) {
    timers_.Set(Timer::kSilence, now + Milliseconds(timeout_ms_) * 2 / 3);
  }
  cutter_.Add(std::move(bytes));
  // A frame may end the connection, or the client.
  while (connection == connection_ && (link_ == Link::kHandshake || link_ == Link::kUp)) {
    absl::StatusOr<std::optional<Bytes>> frame = cutter_.Next();
    if (!frame.ok()) return GiveUp(now, output);
    if (!frame->has_value()) return;
    if (!OnFrame(now, **frame, output)) return GiveUp(now, output);
  }
}

bool Client::OnFrame(Instant now, const Bytes& frame, ClientOutput* output) {
  if (link_ == Link::kHandshake) return OnConnectResponse(now, frame, output);
  absl::StatusOr<ReplyHeader> header = DecodeReplyHeader(frame);
  if (!header.ok()) return false;
  if (header->xid == kXidNotification) return OnEvent(frame, output);
  last_zxid_ = std::max(last_zxid_, header->zxid);
  if (header->xid == kXidSetWatches && header->error != ErrorCode::kOk) {
    // The watches are not set, and the owner of this machine would wait for ever. Perhaps the next
    // server knows the request; not at once, since they may all be alike.
    failures_ = order_.size() - 1;
    return false;
  }
  if (header->xid == kXidPing) {
    if (pings_sent_.empty()) return false;
    heard_since_ = std::max(heard_since_, pings_sent_.front());
    pings_sent_.pop_front();
    return true;
  }
  if (header->xid == kXidSetWatches) return true;
  return OnReply(*header, frame, output);
}

bool Client::OnConnectResponse(Instant now, const Bytes& frame, ClientOutput* output) {
  absl::StatusOr<ConnectResponse> response = DecodeConnectResponse(frame);
  if (!response.ok()) return false;
  if (response->timeout_ms <= 0) {
    output->closes.push_back(connection_);
    Finish(ClientState::kExpired, ErrorCode::kSessionExpired, output);
    return true;
  }
  if (session_ && response->session != session_) return false;
  session_ = response->session;
  password_ = response->password;
  timeout_ms_ = response->timeout_ms;
  heard_since_ = handshake_sent_;
  link_ = Link::kUp;
  failures_ = 0;
  retry_ = options_.retry_min;
  timers_.Stop(Timer::kDial);
  timers_.Set(Timer::kSilence, now + Milliseconds(timeout_ms_) * 2 / 3);
  timers_.Set(Timer::kPing, now + Milliseconds(timeout_ms_) / 3);
  Enter(ClientState::kConnected, output);
  SendWatches(now, output);
  SendWaiting(now, output);
  return true;
}

bool Client::OnEvent(const Bytes& frame, ClientOutput* output) {
  absl::StatusOr<WatcherEvent> event = DecodeWatcherEvent(frame);
  if (!event.ok()) return false;
  std::string path(event->path);
  if (event->type == WatchEventType::kNodeChildrenChanged) {
    child_watches_.erase(path);
  } else {
    data_watches_.erase(path);
    exist_watches_.erase(path);
    if (event->type == WatchEventType::kNodeDeleted) child_watches_.erase(path);
  }
  output->events.push_back({event->type, std::move(path)});
  return true;
}

bool Client::OnReply(const ReplyHeader& header, const Bytes& frame, ClientOutput* output) {
  // The server answers in order; anything else would be taken for the answer to another call.
  if (sent_.empty() || sent_.front().xid != header.xid) return false;
  absl::StatusOr<ResponseBody> body = DecodeResponse(sent_.front().op, frame);
  if (!body.ok()) return false;
  const Pending pending = std::move(sent_.front());
  sent_.pop_front();
  heard_since_ = std::max(heard_since_, pending.sent);
  if (pending.call == 0) {
    output->closes.push_back(connection_);
    Finish(ClientState::kClosed, ErrorCode::kConnectionLoss, output);
    return true;
  }
  RememberWatch(pending, header.error);
  output->completions.push_back({.call = pending.call,
                                 .op = pending.op,
                                 .header = header,
                                 .body = *std::move(body),
                                 .frame = frame});
  return true;
}

// The same conditions as on the server: see AnswerRead.
void Client::RememberWatch(const Pending& pending, ErrorCode error) {
  const bool ok = error == ErrorCode::kOk;
  if (pending.watch == WatchKind::kExists && error == ErrorCode::kNoNode) {
    exist_watches_.insert(pending.path);
  } else if (ok && (pending.watch == WatchKind::kExists || pending.watch == WatchKind::kData)) {
    data_watches_.insert(pending.path);
  } else if (ok && pending.watch == WatchKind::kChildren) {
    child_watches_.insert(pending.path);
  } else if (ok && pending.watch == WatchKind::kPersistent) {
    persistent_watches_.insert(pending.path);
  } else if (ok && pending.watch == WatchKind::kRecursive) {
    recursive_watches_.insert(pending.path);
  } else if (ok && pending.watch == WatchKind::kRemoved) {
    ForgetWatches(pending.path, pending.removed);
  }
}

void Client::ForgetWatches(const std::string& path, WatcherType type) {
  const bool any = type == WatcherType::kAny;
  if (any || type == WatcherType::kChildren) child_watches_.erase(path);
  if (any || type == WatcherType::kPersistent) persistent_watches_.erase(path);
  if (any || type == WatcherType::kPersistentRecursive) recursive_watches_.erase(path);
  if (any || type == WatcherType::kData) {
    data_watches_.erase(path);
    exist_watches_.erase(path);
  }
}

}  // namespace lockstep::coordination
