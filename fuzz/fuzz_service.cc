// Clients of a leading service, some of them malicious: connections, requests, half frames, pauses
// of the network, expiry and changes of the leader, in an order that the input decides. Proposals
// come back as deliveries, later or at once.
//
// Nothing may crash, nothing may be sent to a closed connection, and no pause or resume may be
// repeated.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "core/coordination/protocol.h"
#include "core/coordination/service.h"

namespace lockstep::coordination {
namespace {

constexpr ServerId kServer{1};
const char* const kPaths[] = {"/",          "/a",
                              "/a/b",       "/c",
                              "/c/d-",      "/c/",
                              "bad",        "/..",
                              "/zookeeper", "/zookeeper/config",
                              "/e\n",       "/long/path/of/a/node/that/is/not/there"};

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return at_ == size_; }
  uint8_t Byte() { return empty() ? 0 : data_[at_++]; }
  std::string_view Text(size_t size) {
    size = std::min(size, size_ - at_);
    std::string_view text(reinterpret_cast<const char*>(data_) + at_, size);
    at_ += size;
    return text;
  }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

class World {
 public:
  World()
      : service_(
            {
                .server = kServer,
                .frame_bytes_max = 2'000,
                .outstanding_requests_max = 8,
                .pending_reply_bytes_max = 3'000,
                .connections_max = 12,
                .connections_per_address_max = 8,
                .watches_max = 20,
                .sessions_max = 30,
            },
            RandomStream(1, kServer, 1, 1)) {
    service_.SetWallClock(now_, 1'600'000'000'000);
    Elect();
  }

  void Step(Input& in) {
    const uint8_t action = in.Byte();
    switch (action % 12) {
      case 0:
        return Accept(in);
      case 1:
        return Connect(in);
      case 2:
        return Raw(in);
      case 3:
        return Close(in);
      case 4:
        return Written(in);
      case 5:
        now_ = now_ + Milliseconds(in.Byte() * 50);
        service_.OnWake(now_, &out_);
        return Collect();
      case 6:
        for (uint8_t i = in.Byte() % 8; i > 0; --i) Deliver();
        return;
      case 7:
        if (in.Byte() % 16 == 0) Elect();
        return;
      default:
        return Ask(in);
    }
  }

  void DeliverAll() {
    while (!proposed_.empty()) Deliver();
  }

 private:
  struct Remote {
    uint64_t unsent = 0;
    bool paused = false;
  };

  void Elect() {
    // Everything that was proposed is committed: the next leader has it.
    DeliverAll();
    service_.SetRole(now_, Role::kStopped, {}, epoch_, &out_);
    Collect();
    LS_CHECK(remotes_.empty());
    epoch_ = epoch_.Next();
    counter_ = 0;
    service_.SetRole(now_, Role::kLeading, kServer, epoch_, &out_);
    Collect();
  }

  void Accept(Input& in) {
    ConnectionId id{ConnectionId::kAccepted | next_connection_++};
    remotes_[id];
    service_.OnClientAccepted(now_, id, in.Byte() % 2 == 0 ? "a" : "b", 0, &out_);
    Collect();
  }

  std::map<ConnectionId, Remote>::iterator Pick(Input& in) {
    if (remotes_.empty()) return remotes_.end();
    return std::next(remotes_.begin(), in.Byte() % remotes_.size());
  }

  void Send(ConnectionId id, Bytes bytes) {
    service_.OnClientBytes(now_, id, std::move(bytes), &out_);
    Collect();
  }

  void Connect(Input& in) {
    auto remote = Pick(in);
    if (remote == remotes_.end()) return;
    const uint8_t kind = in.Byte();
    // A new session, one that exists or existed, or nonsense.
    ConnectRequest request{.last_zxid_seen = Zxid::FromPacked(kind % 16 == 0 ? in.Byte() : 0),
                           .timeout_ms = in.Byte() * 100,
                           .password = std::string(kNoPassword),
                           .has_read_only = kind % 2 == 0};
    if (kind % 3 == 0 && !sessions_.empty()) {
      const auto& [session, password] = sessions_[in.Byte() % sessions_.size()];
      request.session = session;
      request.password = password;
    } else if (kind % 5 == 0) {
      request.session = {in.Byte()};
      request.password = std::string(in.Text(16));
    }
    Send(remote->first, EncodeConnectRequest(request));
  }

  void Raw(Input& in) {
    auto remote = Pick(in);
    if (remote == remotes_.end()) return;
    Send(remote->first, Bytes::Copy(in.Text(in.Byte())));
  }

  void Close(Input& in) {
    auto remote = Pick(in);
    if (remote == remotes_.end()) return;
    service_.OnClientClosed(now_, remote->first, &out_);
    remotes_.erase(remote);
    Collect();
  }

  void Written(Input& in) {
    auto remote = Pick(in);
    if (remote == remotes_.end()) return;
    const uint64_t bytes = remote->second.unsent * in.Byte() / 255;
    remote->second.unsent -= bytes;
    service_.OnClientWritten(now_, remote->first, bytes, &out_);
    Collect();
  }

  void Ask(Input& in) {
    auto remote = Pick(in);
    if (remote == remotes_.end()) return;
    const std::string_view path = kPaths[in.Byte() % std::size(kPaths)];
    const uint8_t detail = in.Byte();
    const bool watch = detail % 2 == 0;
    const int32_t version = detail % 4 - 1;
    const std::vector<Acl> acl = {
        {.permissions = detail % 8 == 7 ? detail % 32 : 31, .scheme = "world", .id = "anyone"}};
    const int32_t xid = ++xid_;
    const ConnectionId id = remote->first;
    switch (in.Byte() % 20) {
      case 0:
      case 1:
        return Send(id,
                    EncodeRequest(xid, OpCode::kCreate,
                                  CreateRequest{.path = path, .acl = acl, .flags = detail % 8}));
      case 2:
        return Send(id,
                    EncodeRequest(xid, OpCode::kCreate2,
                                  CreateRequest{.path = path, .acl = acl, .flags = detail % 4}));
      case 3:
        return Send(id, EncodeRequest(xid, OpCode::kDelete, DeleteRequest{path, version}));
      case 4:
        return Send(id, EncodeRequest(xid, OpCode::kSetData,
                                      SetDataRequest{path, {Bytes::Copy(path), false}, version}));
      case 5:
        return Send(id, EncodeRequest(xid, OpCode::kExists, ExistsRequest{path, watch}));
      case 6:
        return Send(id, EncodeRequest(xid, OpCode::kGetData, GetDataRequest{path, watch}));
      case 7:
        return Send(id, EncodeRequest(xid, OpCode::kGetChildren, GetChildrenRequest{path, watch}));
      case 8:
        return Send(id, EncodeRequest(xid, OpCode::kGetChildren2, GetChildrenRequest{path, watch}));
      case 9:
        return Send(id, EncodeRequest(xid, OpCode::kGetAcl, GetAclRequest{path}));
      case 10:
        return Send(id, EncodeRequest(xid, OpCode::kSync, SyncRequest{path}));
      case 11:
        return Send(id, EncodeRequest(kXidPing, OpCode::kPing, PingRequest()));
      case 12:
        return Send(id, EncodeRequest(kXidSetWatches, OpCode::kSetWatches,
                                      SetWatchesRequest{.relative_zxid = {epoch_, detail},
                                                        .data = {path},
                                                        .exist = {path, "/c"},
                                                        .child = {path, "/a"}}));
      case 14:
        return Send(
            id,
            EncodeRequest(kXidSetWatches, OpCode::kSetWatches2,
                          SetWatches2Request{
                              {.relative_zxid = {epoch_, detail}, .data = {path}, .child = {path}},
                              {path, "/c"},
                              {"/", path}}));
      case 15:
        return Send(id, EncodeRequest(xid, OpCode::kAddWatch,
                                      AddWatchRequest{path, AddWatchMode{detail % 3}}));
      case 16:
        return Send(id, EncodeRequest(xid, watch ? OpCode::kCheckWatches : OpCode::kRemoveWatches,
                                      RemoveWatchesRequest{path, WatcherType{detail % 7}}));
      case 17:
      case 18:
        return Send(id, EncodeRequest(xid, OpCode::kMulti, Multi(in)));
      case 19:
        return Send(
            id,
            EncodeRequest(xid, OpCode::kMultiRead,
                          MultiReadRequest{{{OpCode::kGetData, GetDataRequest{path, watch}},
                                            {OpCode::kGetChildren, GetChildrenRequest{path, watch}},
                                            {OpCode::kGetData, GetDataRequest{"/a", watch}}}}));
      default:
        return Send(id, EncodeRequest(xid, OpCode::kCloseSession, CloseSessionRequest()));
    }
  }

  MultiRequest Multi(Input& in) {
    MultiRequest multi;
    for (uint8_t n = in.Byte() % 6; n > 0; --n) {
      const std::string_view path = kPaths[in.Byte() % std::size(kPaths)];
      const uint8_t detail = in.Byte();
      const int32_t version = detail % 4 - 1;
      switch (in.Byte() % 5) {
        case 0:
        case 1:
          multi.operations.push_back(
              {detail % 2 == 0 ? OpCode::kCreate : OpCode::kCreate2,
               CreateRequest{path, {}, {{31, "world", "anyone"}}, detail % 8}});
          break;
        case 2:
          multi.operations.push_back({OpCode::kDelete, DeleteRequest{path, version}});
          break;
        case 3:
          multi.operations.push_back({OpCode::kSetData, SetDataRequest{path, {}, version}});
          break;
        default:
          multi.operations.push_back({OpCode::kCheck, CheckVersionRequest{path, version}});
          break;
      }
    }
    return multi;
  }

  void Deliver() {
    if (proposed_.empty()) return;
    const auto [zxid, body] = std::move(proposed_.front());
    proposed_.pop_front();
    absl::StatusOr<DecodedTransaction> transaction = DecodeTransaction(body);
    LS_CHECK(transaction.ok());
    if (const auto* session = std::get_if<CreateSessionTransaction>(&transaction->body)) {
      sessions_.emplace_back(transaction->header.session, session->password);
    }
    service_.OnDelivered(now_, zxid, body, &out_);
    Collect();
  }

  void Collect() {
    for (const auto& send : out_.client_sends) {
      auto remote = remotes_.find(send.connection);
      LS_CHECK(remote != remotes_.end());
      remote->second.unsent += send.data.size();
    }
    for (ConnectionId id : out_.pauses) {
      auto remote = remotes_.find(id);
      LS_CHECK(remote != remotes_.end());
      LS_CHECK(!remote->second.paused);
      remote->second.paused = true;
    }
    for (ConnectionId id : out_.resumes) {
      auto remote = remotes_.find(id);
      LS_CHECK(remote != remotes_.end());
      LS_CHECK(remote->second.paused);
      remote->second.paused = false;
    }
    for (ConnectionId id : out_.client_closes) LS_CHECK_EQ(remotes_.erase(id), size_t{1});
    for (Bytes& body : out_.proposals) {
      proposed_.emplace_back(Zxid{epoch_, ++counter_}, std::move(body));
    }
    if (!out_.proposals.empty()) service_.OnProposed(proposed_.back().first);
    LS_CHECK(out_.requests.empty());
    LS_CHECK(out_.replies.empty());
    out_.Clear();
  }

  Service service_;
  ServiceOutput out_;
  Instant now_{1'000'000'000};
  Epoch epoch_;
  uint32_t counter_ = 0;
  int32_t xid_ = 0;
  uint64_t next_connection_ = 1;
  std::map<ConnectionId, Remote> remotes_;
  std::vector<std::pair<SessionId, std::string>> sessions_;
  std::deque<std::pair<Zxid, Bytes>> proposed_;
};

}  // namespace
}  // namespace lockstep::coordination

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lockstep::coordination::Input in(data, size);
  lockstep::coordination::World world;
  while (!in.empty()) world.Step(in);
  world.DeliverAll();
  return 0;
}
