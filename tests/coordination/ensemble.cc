#include "tests/coordination/ensemble.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/check.h"

namespace lockstep::coordination {

Ensemble::Ensemble(uint32_t servers, ServiceOptions options) {
  for (uint32_t id = 1; id <= servers; ++id) {
    options.server = {id};
    Host& host = servers_[{id}];
    host.service = std::make_unique<Service>(options, RandomStream(1, {id}, 1, 1));
    host.service->SetWallClock(now_, 1'600'000'000'000);
  }
}

void Ensemble::Elect(ServerId leader) {
  Stop();
  epoch_ = epoch_.Next();
  counter_ = 0;
  leader_ = leader;
  for (auto& [id, host] : servers_) {
    // Synchronization: everybody has the whole history before anybody serves.
    for (; host.delivered < log_.size(); ++host.delivered) {
      host.service->OnDelivered(now_, log_[host.delivered].first, log_[host.delivered].second,
                                &output_);
      Collect(id);
    }
    host.service->SetRole(now_, id == leader ? Role::kLeading : Role::kFollowing, leader, epoch_,
                          &output_);
    Collect(id);
  }
}

void Ensemble::Stop() {
  requests_.clear();
  for (auto& [id, host] : servers_) {
    host.inbox.clear();
    host.hold = false;
    host.service->SetRole(now_, Role::kStopped, {}, epoch_, &output_);
    Collect(id);
  }
}

void Ensemble::Collect(ServerId server) {
  ServiceOutput out;
  std::swap(out, output_);
  for (const ServiceOutput::ClientSend& send : out.client_sends) {
    ASSERT_FALSE(closed_.contains(send.connection)) << "a send after the close";
    FrameCutter& cutter = received_.try_emplace(send.connection, 64 << 20).first->second;
    cutter.Add(send.data);
    for (;;) {
      absl::StatusOr<std::optional<Bytes>> frame = cutter.Next();
      ASSERT_TRUE(frame.ok());
      if (!frame->has_value()) break;
      frames_[send.connection].push_back(**frame);
    }
    sent_bytes_[send.connection] += send.data.size();
  }
  for (ConnectionId connection : out.client_closes) closed_.insert(connection);
  for (ConnectionId connection : out.pauses) EXPECT_TRUE(paused_.insert(connection).second);
  for (ConnectionId connection : out.resumes) EXPECT_EQ(paused_.erase(connection), 1u);
  events_.insert(events_.end(), out.events.begin(), out.events.end());
  for (Bytes& request : out.requests) requests_.emplace_back(server, std::move(request));
  for (ServiceOutput::ReplyTo& reply : out.replies) {
    servers_.at(reply.to).inbox.push_back({.answer = true, .payload = std::move(reply.payload)});
  }
  for (Bytes& body : out.proposals) {
    log_.emplace_back(Zxid{epoch_, ++counter_}, std::move(body));
    for (auto& [id, host] : servers_) host.inbox.push_back({});
  }
  if (!out.proposals.empty()) service(server).OnProposed(log_.back().first);
  if (!written_) return;
  for (const ServiceOutput::ClientSend& send : out.client_sends) {
    service(server).OnClientWritten(now_, send.connection, send.data.size(), &output_);
    Collect(server);
  }
}

bool Ensemble::Step(ServerId server, Host& host) {
  if (host.hold || host.inbox.empty()) return false;
  ToServer next = std::move(host.inbox.front());
  host.inbox.pop_front();
  if (next.answer) {
    host.service->OnReply(now_, next.payload, &output_);
  } else {
    const auto& [zxid, body] = log_[host.delivered++];
    host.service->OnDelivered(now_, zxid, body, &output_);
  }
  Collect(server);
  return true;
}

void Ensemble::Run() {
  for (bool more = true; more;) {
    more = false;
    if (!requests_.empty() && !hold_requests_) {
      auto [from, payload] = std::move(requests_.front());
      requests_.pop_front();
      leader().OnRequest(now_, from, payload, &output_);
      Collect(leader_);
      more = true;
    }
    for (auto& [id, host] : servers_) more |= Step(id, host);
  }
}

void Ensemble::Advance(Duration d) {
  const Instant end = now_ + d;
  for (;;) {
    Run();
    // Followers report what they have heard as often as Zab pings.
    for (auto& [id, host] : servers_) {
      if (id == leader_ || host.service->role() != Role::kFollowing) continue;
      leader().OnTouchedSessions(now_, id, host.service->TakeTouchedSessions());
    }
    Instant next = std::min(end, now_ + Seconds(1));
    for (auto& [id, host] : servers_) next = std::min(next, host.service->next_deadline());
    now_ = std::max(now_, next);
    for (auto& [id, host] : servers_) {
      if (host.service->next_deadline() > now_) continue;
      host.service->OnWake(now_, &output_);
      Collect(id);
    }
    Run();
    if (now_ == end) return;
  }
}

void Ensemble::HoldDeliveries(ServerId server, bool hold) { servers_.at(server).hold = hold; }
void Ensemble::HoldRequests(bool hold) { hold_requests_ = hold; }

ConnectionId Ensemble::Accept(ServerId server, const std::string& address) {
  ConnectionId connection{ConnectionId::kAccepted | next_connection_++};
  service(server).OnClientAccepted(now_, connection, address, 4711, &output_);
  Collect(server);
  return connection;
}

void Ensemble::Send(ServerId server, ConnectionId connection, Bytes bytes) {
  service(server).OnClientBytes(now_, connection, std::move(bytes), &output_);
  Collect(server);
}

void Ensemble::CloseByClient(ServerId server, ConnectionId connection) {
  service(server).OnClientClosed(now_, connection, &output_);
  Collect(server);
}

void Ensemble::Written(ServerId server, ConnectionId connection, uint64_t bytes) {
  service(server).OnClientWritten(now_, connection, bytes, &output_);
  Collect(server);
}

uint64_t Ensemble::sent_bytes(ConnectionId connection) const {
  auto it = sent_bytes_.find(connection);
  return it == sent_bytes_.end() ? 0 : it->second;
}

std::vector<Bytes> Ensemble::TakeFrames(ConnectionId connection) {
  return std::exchange(frames_[connection], {});
}

std::vector<Event> Ensemble::EventsOf(EventKind kind) const {
  std::vector<Event> result;
  std::copy_if(events_.begin(), events_.end(), std::back_inserter(result),
               [kind](const Event& event) { return event.kind == kind; });
  return result;
}

// ---- TestClient ---------------------------------------------------------------------------------

void TestClient::Dial(ServerId server, int32_t timeout_ms, Zxid last_zxid_seen) {
  server_ = server;
  connected_ = refused_ = false;
  connection_ = ensemble_->Accept(server);
  ensemble_->Send(server, connection_,
                  EncodeConnectRequest({.last_zxid_seen = last_zxid_seen,
                                        .timeout_ms = timeout_ms,
                                        .session = session_,
                                        .password = password_}));
}

bool TestClient::Connect(ServerId server, int32_t timeout_ms) {
  Dial(server, timeout_ms);
  ensemble_->Run();
  Receive();
  return connected_;
}

int32_t TestClient::Send(OpCode op, const RequestBody& body) {
  int32_t xid = op == OpCode::kPing                                       ? kXidPing
                : op == OpCode::kAuth                                     ? kXidAuth
                : op == OpCode::kSetWatches || op == OpCode::kSetWatches2 ? kXidSetWatches
                                                                          : next_xid_++;
  sent_[xid] = op;
  SendRaw(EncodeRequest(xid, op, body));
  return xid;
}

void TestClient::SendRaw(Bytes bytes) { ensemble_->Send(server_, connection_, std::move(bytes)); }

int32_t TestClient::SendBare(int32_t op) {
  const int32_t xid = next_xid_++;
  sent_[xid] = static_cast<OpCode>(op);
  SendRaw(Bytes::Build(12, [&](char* to) {
    for (uint32_t value : {8u, static_cast<uint32_t>(xid), static_cast<uint32_t>(op)}) {
      for (int shift = 24; shift >= 0; shift -= 8) *to++ = static_cast<char>(value >> shift);
    }
  }));
  return xid;
}

TestClient::Reply TestClient::Await(int32_t xid) {
  ensemble_->Run();
  Receive();
  auto it = replies_.find(xid);
  if (it == replies_.end()) {
    ADD_FAILURE() << "no reply to " << ToString(sent_[xid]);
    return {};
  }
  return it->second;
}

TestClient::Reply TestClient::Call(OpCode op, const RequestBody& body) {
  return Await(Send(op, body));
}
TestClient::Reply TestClient::CallBare(int32_t op) { return Await(SendBare(op)); }

ErrorCode TestClient::Create(const std::string& path, int32_t flags, const std::string& data) {
  return ErrorOf(
      OpCode::kCreate,
      CreateRequest{
          .path = path, .data = {Bytes::Copy(data), false}, .acl = kOpenAcl, .flags = flags});
}
ErrorCode TestClient::Delete(const std::string& path, int32_t version) {
  return ErrorOf(OpCode::kDelete, DeleteRequest{path, version});
}
ErrorCode TestClient::Set(const std::string& path, const std::string& data, int32_t version) {
  return ErrorOf(OpCode::kSetData, SetDataRequest{path, {Bytes::Copy(data), false}, version});
}
ErrorCode TestClient::Exists(const std::string& path, bool watch) {
  return ErrorOf(OpCode::kExists, ExistsRequest{path, watch});
}
std::string TestClient::Get(const std::string& path, bool watch) {
  Reply reply = Call(OpCode::kGetData, GetDataRequest{path, watch});
  const auto* data = std::get_if<GetDataResponse>(&reply.body);
  return data == nullptr ? "" : std::string(data->data.bytes.view());
}

void TestClient::Receive() {
  for (const Bytes& frame : ensemble_->TakeFrames(connection_)) {
    if (!connected_) {
      absl::StatusOr<ConnectResponse> response = DecodeConnectResponse(frame);
      ASSERT_TRUE(response.ok());
      connected_ = response->timeout_ms != 0;
      refused_ = !connected_;
      timeout_ms_ = response->timeout_ms;
      if (refused_) {
        EXPECT_EQ(response->session, SessionId{});
        EXPECT_EQ(response->password, kNoPassword);
        continue;
      }
      session_ = response->session;
      password_ = response->password;
      continue;
    }
    absl::StatusOr<ReplyHeader> header = DecodeReplyHeader(frame);
    ASSERT_TRUE(header.ok());
    if (header->xid == kXidNotification) {
      absl::StatusOr<WatcherEvent> event = DecodeWatcherEvent(frame);
      ASSERT_TRUE(event.ok());
      seen_.push_back({header->xid, "event " + std::to_string(static_cast<int32_t>(event->type)) +
                                        " " + std::string(event->path)});
      continue;
    }
    ASSERT_TRUE(sent_.contains(header->xid)) << "a reply to nothing: " << header->xid;
    Reply reply{.header = *header, .body = EmptyResponse(), .frame = frame};
    if (header->error == ErrorCode::kOk) {
      absl::StatusOr<ResponseBody> body = DecodeResponse(sent_[header->xid], reply.frame);
      ASSERT_TRUE(body.ok());
      reply.body = *std::move(body);
    }
    seen_.push_back({header->xid, "reply " + std::to_string(header->xid)});
    replies_.insert_or_assign(header->xid, std::move(reply));
  }
}

std::vector<std::string> TestClient::TakeSeen() {
  Receive();
  std::vector<std::string> texts;
  for (Seen& seen : seen_) texts.push_back(std::move(seen.text));
  seen_.clear();
  return texts;
}

}  // namespace lockstep::coordination
