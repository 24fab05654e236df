#include "sim/client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "sim/failure.h"
#include "sim/purpose.h"

namespace lockstep::sim {

using coordination::CreateRequest;
using coordination::ErrorCode;
using coordination::OpCode;

namespace {
constexpr uint32_t kFrameBytesMax = 1 << 20;
const std::vector<coordination::Acl>& OpenAcl() {
  static const std::vector<coordination::Acl> acl = {{31, "world", "anyone"}};
  return acl;
}
// Of a sequential node.
std::string ParentPath(const std::optional<uint32_t>& key) {
  return key ? absl::StrCat("/k", *key) : "";
}
}  // namespace

Client::Client(const Plan& plan, uint32_t number, const CommittedLog* committed,
               const ZnodeModel* model, Probes* probes, Trace* trace, Script* script)
    : plan_(plan.workload),
      servers_(plan.voters()),
      tick_(plan.options.tick),
      number_(number),
      random_(StreamFor(plan.seed, Purpose::kClient, number)),
      committed_(committed),
      probes_(probes),
      trace_(trace),
      script_(script),
      seed_(plan.seed),
      streams_(plan.streams),
      history_(number, committed, model),
      cutter_(kFrameBytesMax),
      timeout_(Milliseconds(plan.workload.session_timeout_ms)),
      seen_versions_(plan.workload.keys, 0) {}

std::string Client::name() const { return absl::StrCat("c", number_); }

void Client::Wake(Instant at, ClientOutput* output) {
  if (at >= scheduled_wake_) return;
  scheduled_wake_ = at;
  output->wake = at;
}

void Client::Send(Instant now, Bytes frame, ClientOutput* output) {
  last_sent_ = now;
  output->sends.push_back({connection_, std::move(frame)});
}

void Client::OnWake(Instant now, ClientOutput* output) {
  if (now < scheduled_wake_) return;
  Rekey(now);
  scheduled_wake_ = Instant::Never();
  const Duration silence_max = timeout_ * 2 / 3;
  switch (state_) {
    case State::kIdle:
      if (now >= dial_at_) Dial(now, output);
      break;
    case State::kDialing:
      break;
    case State::kConnecting:
      if (now - last_heard_ >= silence_max) Drop(now, output);
      break;
    case State::kConnected:
      if (now - last_heard_ >= silence_max) {
        Drop(now, output);
        break;
      }
      if (now - last_sent_ >= timeout_ / 3 && !closing_) {
        Send(now,
             coordination::EncodeRequest(coordination::kXidPing, OpCode::kPing,
                                         coordination::PingRequest()),
             output);
      }
      if (now >= next_work_) Work(now, output);
      break;
  }
  switch (state_) {
    case State::kIdle:
      return Wake(dial_at_, output);
    case State::kDialing:
      return;  // the network ends it, one way or the other
    case State::kConnecting:
      return Wake(last_heard_ + silence_max, output);
    case State::kConnected:
      if (closing_) return Wake(last_heard_ + silence_max, output);
      return Wake(std::min({last_heard_ + silence_max, last_sent_ + timeout_ / 3, next_work_}),
                  output);
  }
}

void Client::Dial(Instant now, ClientOutput* output) {
  (void)now;
  state_ = State::kDialing;
  // Another server than last time, mostly.
  const uint32_t last = server_;
  server_ = static_cast<uint32_t>(random_.Below(servers_));
  if (server_ == last && servers_ > 1 && random_.Chance(3, 4)) server_ = (server_ + 1) % servers_;
  connection_ = {++connections_dialed_};
  cutter_ = FrameCutter(kFrameBytesMax);
  output->dials.push_back({connection_, server_});
}

void Client::Drop(Instant now, ClientOutput* output) {
  if (state_ != State::kIdle) output->closes.push_back(connection_);
  OnClosed(now, connection_, output);
}

void Client::OnConnected(Instant now, ConnectionId connection, ClientOutput* output) {
  if (connection != connection_ || state_ != State::kDialing) return;
  Rekey(now);
  state_ = State::kConnecting;
  last_heard_ = now;
  coordination::ConnectRequest request;
  request.last_zxid_seen = history_.last_zxid();
  request.timeout_ms = plan_.session_timeout_ms;
  request.session = session_;
  request.password = session_ ? password_ : std::string(coordination::kNoPassword);
  Send(now, coordination::EncodeConnectRequest(request), output);
  Wake(now + timeout_ * 2 / 3, output);
}

void Client::OnClosed(Instant now, ConnectionId connection, ClientOutput* output) {
  if (connection != connection_ || state_ == State::kIdle) return;
  Rekey(now);
  if (history_.in_flight() > 0) probes_->Hit(Probe::kWriteInDoubt);
  history_.OnDisconnected();
  if (closing_) ForgetSession();
  if (final_write_ == FinalWrite::kSent) final_write_ = FinalWrite::kWanted;
  state_ = State::kIdle;
  dial_at_ = now + Around(random_, tick_ / 4);
  Wake(dial_at_, output);
}

void Client::ForgetSession() {
  if (session_) abandoned_.push_back(session_);
  session_ = {};
  closing_ = false;
  history_.OnDisconnected();
  history_.OnNewSession();
  // xids of a session never repeat, and those of the next may.
  next_xid_ = 1;
}

void Client::Vanish(Instant now, ClientOutput* output) {
  const bool was_idle = state_ == State::kIdle;
  Drop(now, output);
  ForgetSession();
  if (was_idle) return;
  dial_at_ = now + Around(random_, tick_ * 4);
}

void Client::Move(Instant now, ClientOutput* output) { Drop(now, output); }

void Client::Quiesce(Instant now, ClientOutput* output) {
  final_write_ = FinalWrite::kWanted;
  next_work_ = now;
  Wake(now, output);
}

void Client::OnBytes(Instant now, ConnectionId connection, Bytes data, ClientOutput* output) {
  if (connection != connection_ || state_ == State::kIdle) return;
  Rekey(now);
  last_heard_ = now;
  cutter_.Add(std::move(data));
  while (state_ == State::kConnecting || state_ == State::kConnected) {
    absl::StatusOr<std::optional<Bytes>> frame = cutter_.Next();
    if (!frame.ok()) Fail("client-bytes", absl::StrCat(name(), ": ", frame.status().ToString()));
    if (!frame->has_value()) return;
    OnFrame(now, **frame, output);
  }
}

void Client::OnFrame(Instant now, const Bytes& frame, ClientOutput* output) {
  if (state_ == State::kConnecting) return OnConnectResponse(now, frame, output);
  absl::StatusOr<coordination::ReplyHeader> header = coordination::DecodeReplyHeader(frame);
  if (!header.ok()) Fail("client-bytes", absl::StrCat(name(), ": ", header.status().ToString()));
  switch (header->xid) {
    case coordination::kXidNotification: {
      absl::StatusOr<coordination::WatcherEvent> event = coordination::DecodeWatcherEvent(frame);
      if (!event.ok()) Fail("client-bytes", absl::StrCat(name(), ": ", event.status().ToString()));
      if (trace_->on()) {
        trace_->Line(
            name(), "event",
            absl::StrCat(std::string(event->path), " type ", static_cast<int32_t>(event->type),
                         " at ", header->zxid.ToString()));
      }
      probes_->Hit(Probe::kWatchEvent);
      if (history_.OnEvent(*header, *event)) probes_->Hit(Probe::kPersistentWatchEvent);
      return;
    }
    case coordination::kXidSetWatches:
      history_.OnWatchesSet(*header);
      return;
    case coordination::kXidPing:
      history_.OnOther(*header);
      return;
    default:
      break;
  }
  OnReply(*header, frame);
  const bool closed = closing_ && history_.in_flight() == 0;
  if (closed) return Drop(now, output);
  // A full pipeline has room again.
  if (history_.in_flight() == 0 && final_write_ == FinalWrite::kNotWanted) {
    next_work_ = std::min(next_work_, now + Around(random_, plan_.think));
    Wake(next_work_, output);
  }
}

void Client::OnConnectResponse(Instant now, const Bytes& frame, ClientOutput* output) {
  absl::StatusOr<coordination::ConnectResponse> response =
      coordination::DecodeConnectResponse(frame);
  if (!response.ok()) {
    Fail("client-bytes", absl::StrCat(name(), ": ", response.status().ToString()));
  }
  if (!response->session) {
    probes_->Hit(Probe::kSessionLost);
    if (session_) history_.OnSessionLost(session_);
    if (trace_->on()) trace_->Line(name(), "session-lost", session_.ToString());
    ForgetSession();
    return Drop(now, output);
  }
  if (session_ && response->session != session_) {
    Fail("client-bytes", absl::StrCat(name(), " asks for session ", session_.ToString(),
                                      " and gets ", response->session.ToString()));
  }
  if (session_ && session_server_ != server_) probes_->Hit(Probe::kSessionKept);
  const bool reconnected = static_cast<bool>(session_);
  session_ = response->session;
  session_server_ = server_;
  password_ = response->password;
  timeout_ = Milliseconds(response->timeout_ms);
  state_ = State::kConnected;
  if (trace_->on()) {
    trace_->Line(name(), "connected",
                 absl::StrCat("to ", server_ + 1, ", session ", session_.ToString(), ", timeout ",
                              response->timeout_ms, "ms"));
  }
  if (reconnected) RestoreWatches(now, output);
  next_work_ =
      now + (final_write_ == FinalWrite::kNotWanted ? Around(random_, plan_.think) : Duration{0});
  LimitNextWork(now);
  Wake(next_work_, output);
}

void Client::RestoreWatches(Instant now, ClientOutput* output) {
  using Watch = ClientHistory::Watch;
  const bool restore = random_.Chance(2, 3);
  const std::vector<Watch>& watches = history_.OnReconnected(restore);
  const auto& persistent = history_.persistent_watches();
  if (watches.empty() && persistent.empty()) return;
  probes_->Hit(Probe::kWatchesRestored);
  coordination::SetWatches2Request two;
  coordination::SetWatchesRequest& request = two.one_shot;
  request.relative_zxid = history_.last_zxid();
  for (const Watch& watch : watches) {
    (watch.kind == Watch::Kind::kChildren ? request.child
     : watch.missing                      ? request.exist
                                          : request.data)
        .push_back(watch.path);
  }
  for (const PersistentWatches::Watch& watch : persistent) {
    (watch.recursive ? two.recursive : two.persistent).push_back(watch.path);
  }
  if (!persistent.empty()) probes_->Hit(Probe::kPersistentWatchesRestored);
  const bool one_shot = persistent.empty() && random_.Chance(1, 2);
  const int32_t xid = coordination::kXidSetWatches;
  Send(now,
       one_shot ? coordination::EncodeRequest(xid, OpCode::kSetWatches, request)
                : coordination::EncodeRequest(xid, OpCode::kSetWatches2, two),
       output);
}

void Client::OnReply(const coordination::ReplyHeader& header, const Bytes& frame) {
  const Invocation done = history_.OnReply(session_, header, frame);
  if (trace_->on()) {
    trace_->Line(name(), "reply",
                 absl::StrCat("xid ", header.xid, " ", coordination::ToString(done.op), " ",
                              done.path, " at ", header.zxid.ToString(), " error ",
                              static_cast<int32_t>(header.error)));
  }
  const bool ok = header.error == ErrorCode::kOk;
  const bool write = done.op == OpCode::kSetData || done.op == OpCode::kCreate ||
                     done.op == OpCode::kCreate2 || done.op == OpCode::kDelete ||
                     done.op == OpCode::kMulti;
  if (write) probes_->Hit(ok ? Probe::kWriteAcknowledged : Probe::kWriteRefused);
  if (!write && header.zxid < committed_->last()) probes_->Hit(Probe::kReadBehind);
  if (done.watch) probes_->Hit(Probe::kWatchSet);
  if (static_cast<int32_t>(done.op) == kUnknownOpCode) {
    if (header.error != ErrorCode::kUnimplemented) {
      Fail("error-fits-state",
           absl::StrCat(name(), ": an unknown op gets error ", static_cast<int32_t>(header.error)));
    }
    probes_->Hit(Probe::kUnknownOp);
  }
  if (final_write_ == FinalWrite::kSent && header.xid == final_xid_) {
    final_write_ = ok ? FinalWrite::kDone : FinalWrite::kWanted;
  }
  if (!ok) return;
  if (done.op == OpCode::kRemoveWatches) probes_->Hit(Probe::kWatchRemoved);
  absl::StatusOr<coordination::ResponseBody> body = coordination::DecodeResponse(done.op, frame);
  if (!body.ok()) return;
  if (const auto* get = std::get_if<coordination::GetDataResponse>(&*body)) {
    for (uint32_t i = 0; i < plan_.keys; ++i) {
      if (done.path == absl::StrCat("/k", i)) seen_versions_[i] = get->stat.version;
    }
  }
  if (const auto* multi = std::get_if<coordination::MultiResponse>(&*body)) {
    if (done.op == OpCode::kMulti) OnMultiReply(done, *multi);
    return;
  }
  if (done.sequential) probes_->Hit(Probe::kSequentialCreated);
  if (done.sequential || done.ephemeral) {
    if (const auto* created = std::get_if<coordination::PathResponse>(&*body)) {
      own_paths_.push_back(std::string(created->path));
    }
  }
}

void Client::OnMultiReply(const Invocation& done, const coordination::MultiResponse& response) {
  const bool refused = !response.results.empty() && response.results[0].op == OpCode::kError;
  probes_->Hit(refused ? Probe::kMultiRefused : Probe::kMultiCommitted);
  for (size_t i = 0; i < response.results.size(); ++i) {
    const auto* created = std::get_if<coordination::PathResponse>(&response.results[i].body);
    if (created != nullptr && (done.parts[i].sequential || done.parts[i].ephemeral)) {
      own_paths_.push_back(std::string(created->path));
    }
  }
}

void Client::Work(Instant now, ClientOutput* output) {
  next_work_ = now + Around(random_, plan_.think) + Microseconds(1);
  if (closing_) return;
  if (final_write_ != FinalWrite::kNotWanted) {
    next_work_ = now + tick_;
    if (final_write_ != FinalWrite::kWanted) return;
    final_write_ = FinalWrite::kSent;
    final_xid_ = next_xid_;
    return Issue(now, DrawStep(ClientOp::kCreateSequential), output);
  }
  IssueSome(now, output);
}

void Client::Request(Instant now, OpCode op, const coordination::RequestBody& body,
                     Invocation invocation, ClientOutput* output) {
  invocation.xid = next_xid_++;
  invocation.op = op;
  for (Invocation& part : invocation.parts) part.xid = invocation.xid;
  if (trace_->on()) {
    trace_->Line(name(), "request",
                 absl::StrCat("xid ", invocation.xid, " ", coordination::ToString(op), " ",
                              invocation.path, invocation.watch ? " watch" : ""));
  }
  Send(now, coordination::EncodeRequest(invocation.xid, op, body), output);
  history_.OnInvoke(std::move(invocation));
}

coordination::Data Client::UniqueValue(uint32_t bytes, Invocation* invocation) {
  std::string value = absl::StrCat(name(), "-", next_value_++, "-");
  value.append(bytes, 'x');
  invocation->data_checksum = Checksum(value);
  return {Bytes::Copy(value), false};
}

void Client::Issue(Instant now, const ClientStep& step, ClientOutput* output) {
  const ClientOp op = step.op;
  const uint32_t key = step.key % plan_.keys;
  Invocation i;
  i.path = step.root ? "/" : absl::StrCat("/k", key);
  const auto watching = [&](bool watch) {
    i.watch = watch;
    return watch;
  };
  switch (op) {
    case ClientOp::kSet:
    case ClientOp::kSetVersion: {
      if (op == ClientOp::kSetVersion) i.version = seen_versions_[key];
      const coordination::Data data = UniqueValue(step.bytes, &i);
      const std::string path = i.path;
      const int32_t version = i.version;
      return Request(now, OpCode::kSetData, coordination::SetDataRequest{path, data, version},
                     std::move(i), output);
    }
    case ClientOp::kGet:
    case ClientOp::kGetWatch:
    case ClientOp::kSyncGet: {
      const std::string path = i.path;
      if (op == ClientOp::kSyncGet) {
        Invocation sync;
        sync.path = path;
        Request(now, OpCode::kSync, coordination::SyncRequest{path}, std::move(sync), output);
      }
      const bool watch = watching(op == ClientOp::kGetWatch);
      return Request(now, OpCode::kGetData, coordination::GetDataRequest{path, watch}, std::move(i),
                     output);
    }
    case ClientOp::kExistsWatch: {
      const std::string path = i.path;
      watching(true);
      return Request(now, OpCode::kExists, coordination::ExistsRequest{path, true}, std::move(i),
                     output);
    }
    case ClientOp::kCreate:
    case ClientOp::kCreateSequential:
    case ClientOp::kCreateEphemeral:
      return IssueCreate(now, step, std::move(i), output);
    case ClientOp::kDelete:
    case ClientOp::kDeleteOwn: {
      if (op == ClientOp::kDeleteOwn && !own_paths_.empty()) {
        const size_t which = step.nth % own_paths_.size();
        i.path = own_paths_[which];
        own_paths_.erase(own_paths_.begin() + static_cast<ptrdiff_t>(which));
      }
      const std::string path = i.path;
      return Request(now, OpCode::kDelete,
                     coordination::DeleteRequest{path, coordination::kAnyVersion}, std::move(i),
                     output);
    }
    case ClientOp::kChildren:
    case ClientOp::kChildrenWatch: {
      const std::string path = i.path;
      const bool watch = watching(op == ClientOp::kChildrenWatch);
      const OpCode code = step.other ? OpCode::kGetChildren : OpCode::kGetChildren2;
      return Request(now, code, coordination::GetChildrenRequest{path, watch}, std::move(i),
                     output);
    }
    case ClientOp::kCloseSession:
      closing_ = true;
      i.path.clear();
      return Request(now, OpCode::kCloseSession, coordination::CloseSessionRequest(), std::move(i),
                     output);
    case ClientOp::kAddWatch: {
      if (step.other) i.mode = coordination::AddWatchMode::kPersistentRecursive;
      const coordination::AddWatchMode mode = i.mode;
      const std::string path = i.path;
      return Request(now, OpCode::kAddWatch, coordination::AddWatchRequest{path, mode},
                     std::move(i), output);
    }
    case ClientOp::kRemoveWatches: {
      i.watcher_type = static_cast<coordination::WatcherType>(step.type);
      const OpCode code = step.other ? OpCode::kCheckWatches : OpCode::kRemoveWatches;
      const coordination::WatcherType type = i.watcher_type;
      const std::string path = i.path;
      return Request(now, code, coordination::RemoveWatchesRequest{path, type}, std::move(i),
                     output);
    }
    case ClientOp::kUnknown:
      i.path.clear();
      return Request(now, static_cast<OpCode>(kUnknownOpCode), coordination::UnknownRequest(),
                     std::move(i), output);
    case ClientOp::kMulti:
      return IssueMulti(now, step, output);
    case ClientOp::kMultiRead:
      return IssueMultiRead(now, step, output);
    case ClientOp::kCount:
      break;
  }
  LS_UNREACHABLE();
}

void Client::IssueCreate(Instant now, const ClientStep& step, Invocation i, ClientOutput* output) {
  CreateRequest create;
  if (step.op == ClientOp::kCreateSequential) {
    create.flags = CreateRequest::kSequential;
    i.sequential = true;
    i.path = absl::StrCat(ParentPath(step.parent), "/s-");
    i.ephemeral = step.ephemeral;
  }
  if (step.op == ClientOp::kCreateEphemeral) {
    i.path = absl::StrCat("/e", step.key);
    i.ephemeral = true;
  }
  if (i.ephemeral) create.flags |= CreateRequest::kEphemeral;
  create.data = UniqueValue(step.bytes, &i);
  create.acl = OpenAcl();
  const std::string path = i.path;
  create.path = path;
  Request(now, OpCode::kCreate, create, std::move(i), output);
}

void Client::IssueMulti(Instant now, const ClientStep& step, ClientOutput* output) {
  Invocation multi;
  std::vector<coordination::Data> data;
  for (const MultiPart& planned : step.parts) {
    Invocation& part = multi.parts.emplace_back();
    coordination::Data& value = data.emplace_back();
    const uint32_t key = planned.key % plan_.keys;
    part.path = absl::StrCat("/k", key);
    switch (planned.kind) {
      case MultiPart::Kind::kSet:
        part.op = OpCode::kSetData;
        break;
      case MultiPart::Kind::kSetVersion:
        part.op = OpCode::kSetData;
        part.version = seen_versions_[key];
        break;
      case MultiPart::Kind::kCheck:
        part.op = OpCode::kCheck;
        part.version = seen_versions_[key];
        break;
      case MultiPart::Kind::kCreate:
        part.op = OpCode::kCreate;
        break;
      case MultiPart::Kind::kCreateSequential:
        part.op = OpCode::kCreate;
        part.sequential = true;
        part.path = absl::StrCat(ParentPath(planned.parent), "/s-");
        part.ephemeral = planned.ephemeral;
        break;
      case MultiPart::Kind::kCreateEphemeral:
        part.op = OpCode::kCreate;
        part.ephemeral = true;
        part.path = absl::StrCat("/e", key);
        break;
      case MultiPart::Kind::kDelete:
        part.op = OpCode::kDelete;
        break;
      case MultiPart::Kind::kGet:
      case MultiPart::Kind::kChildren:
      case MultiPart::Kind::kCount:
        LS_UNREACHABLE();
    }
    if (part.op == OpCode::kSetData || part.op == OpCode::kCreate) {
      value = UniqueValue(planned.bytes, &part);
    }
  }
  coordination::MultiRequest request;
  for (size_t n = 0; n < multi.parts.size(); ++n) {
    const Invocation& part = multi.parts[n];
    auto& operation = request.operations.emplace_back();
    operation.op = part.op;
    if (part.op == OpCode::kSetData) {
      operation.body = coordination::SetDataRequest{part.path, data[n], part.version};
    } else if (part.op == OpCode::kCheck) {
      operation.body = coordination::CheckVersionRequest{part.path, part.version};
    } else if (part.op == OpCode::kDelete) {
      operation.body = coordination::DeleteRequest{part.path, part.version};
    } else {
      operation.body = CreateRequest{part.path, data[n], OpenAcl(),
                                     (part.ephemeral ? CreateRequest::kEphemeral : 0) |
                                         (part.sequential ? CreateRequest::kSequential : 0)};
    }
  }
  Request(now, OpCode::kMulti, request, std::move(multi), output);
}

void Client::IssueMultiRead(Instant now, const ClientStep& step, ClientOutput* output) {
  Invocation multi;
  for (const MultiPart& planned : step.parts) {
    Invocation& part = multi.parts.emplace_back();
    part.op = planned.kind == MultiPart::Kind::kGet ? OpCode::kGetData : OpCode::kGetChildren;
    part.path = absl::StrCat("/k", planned.key % plan_.keys);
  }
  coordination::MultiReadRequest request;
  for (const Invocation& part : multi.parts) {
    auto& operation = request.operations.emplace_back();
    operation.op = part.op;
    if (part.op == OpCode::kGetData) {
      operation.body = coordination::GetDataRequest{part.path, false};
    } else {
      operation.body = coordination::GetChildrenRequest{part.path, false};
    }
  }
  Request(now, OpCode::kMultiRead, request, std::move(multi), output);
}

}  // namespace lockstep::sim
