// Services joined by queues that play Zab: what one server proposes, all deliver in one order; what
// a follower sends reaches the leader. Clients speak the real protocol bytes.
//
// Everything happens as soon as it can, unless it is held: HoldDeliveries(server) keeps commits and
// answers from a server, HoldRequests keeps what followers send from the leader.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/base/frame_cutter.h"
#include "core/coordination/protocol.h"
#include "core/coordination/service.h"

namespace lockstep::coordination {

inline const std::vector<Acl> kOpenAcl = {{.permissions = 31, .scheme = "world", .id = "anyone"}};

class Ensemble {
 public:
  explicit Ensemble(uint32_t servers, ServiceOptions options = {});

  // Server `leader` leads epoch() + 1, the others follow.
  void Elect(ServerId leader);
  // All stop serving.
  void Stop();
  // Moves everything that is not held.
  void Run();
  // Lets `d` pass, waking every service at its deadlines.
  void Advance(Duration d);

  void HoldDeliveries(ServerId server, bool hold);
  void HoldRequests(bool hold);

  Service& service(ServerId server) { return *servers_.at(server).service; }
  Service& leader() { return service(leader_); }
  Epoch epoch() const { return epoch_; }
  Instant now() const { return now_; }

  ConnectionId Accept(ServerId server, const std::string& address = "10.0.0.1");
  void Send(ServerId server, ConnectionId connection, Bytes bytes);
  void CloseByClient(ServerId server, ConnectionId connection);
  // The frames that have arrived at the client since the last call.
  std::vector<Bytes> TakeFrames(ConnectionId connection);
  bool closed(ConnectionId connection) const { return closed_.contains(connection); }
  bool paused(ConnectionId connection) const { return paused_.contains(connection); }
  // Whether the host reports what was sent as written at once; true unless set.
  void SetWritten(bool written) { written_ = written; }
  void Written(ServerId server, ConnectionId connection, uint64_t bytes);
  uint64_t sent_bytes(ConnectionId connection) const;

  // Events of a kind, of all servers, since the start.
  std::vector<Event> EventsOf(EventKind kind) const;
  // Bodies proposed in this ensemble, oldest first.
  const std::vector<std::pair<Zxid, Bytes>>& log() const { return log_; }

 private:
  struct ToServer {  // from the leader: an answer, or the next delivery
    bool answer = false;
    Bytes payload;
  };
  struct Host {
    std::unique_ptr<Service> service;
    std::deque<ToServer> inbox;
    size_t delivered = 0;  // of log_
    bool hold = false;
  };
  void Collect(ServerId server);
  bool Step(ServerId server, Host& host);

  std::map<ServerId, Host> servers_;
  std::deque<std::pair<ServerId, Bytes>> requests_;  // to the leader
  bool hold_requests_ = false;
  std::vector<std::pair<Zxid, Bytes>> log_;
  ServerId leader_;
  Epoch epoch_;
  uint32_t counter_ = 0;
  Instant now_{1'000'000'000};
  ServiceOutput output_;

  uint64_t next_connection_ = 1;
  std::map<ConnectionId, FrameCutter> received_;
  std::map<ConnectionId, std::vector<Bytes>> frames_;
  std::map<ConnectionId, uint64_t> sent_bytes_;
  std::set<ConnectionId> closed_;
  std::set<ConnectionId> paused_;
  bool written_ = true;
  std::vector<Event> events_;
};

// A client: one connection at a time, every request as soon as it is asked for.
class TestClient {
 public:
  struct Reply {
    ReplyHeader header;
    ResponseBody body;
    Bytes frame;  // what the views of `body` point into
  };
  struct Seen {  // a reply or an event, in the order of arrival
    int32_t xid = 0;
    std::string text;  // "reply 3", "event 1 /a"
  };

  explicit TestClient(Ensemble* ensemble) : ensemble_(ensemble) {}

  // Opens a connection and sends a ConnectRequest, for the present session if there is one.
  void Dial(ServerId server, int32_t timeout_ms = 10'000, Zxid last_zxid_seen = {});
  // Dial, and run until the answer is here. Whether there is a session.
  bool Connect(ServerId server, int32_t timeout_ms = 10'000);
  void Drop() { ensemble_->CloseByClient(server_, connection_); }

  // Sends a request; returns its xid.
  int32_t Send(OpCode op, const RequestBody& body);
  // A request of any op code with nothing after its header.
  int32_t SendBare(int32_t op);
  void SendRaw(Bytes bytes);
  // Sends it and runs; the reply.
  Reply Call(OpCode op, const RequestBody& body);
  Reply CallBare(int32_t op);
  ErrorCode ErrorOf(OpCode op, const RequestBody& body) { return Call(op, body).header.error; }

  // Shorthands: the error of the reply.
  ErrorCode Create(const std::string& path, int32_t flags = 0, const std::string& data = "");
  ErrorCode Delete(const std::string& path, int32_t version = kAnyVersion);
  ErrorCode Set(const std::string& path, const std::string& data, int32_t version = kAnyVersion);
  ErrorCode Exists(const std::string& path, bool watch = false);
  // "" if there is none.
  std::string Get(const std::string& path, bool watch = false);

  // Takes what has arrived. Call and Connect do too.
  void Receive();
  const std::vector<Seen>& seen() const { return seen_; }
  std::vector<std::string> TakeSeen();
  bool HasReply(int32_t xid) const { return replies_.contains(xid); }
  const Reply& reply(int32_t xid) const { return replies_.at(xid); }

  SessionId session() const { return session_; }
  void set_session(SessionId session) { session_ = session; }
  void set_password(std::string password) { password_ = std::move(password); }
  const std::string& password() const { return password_; }
  int32_t timeout_ms() const { return timeout_ms_; }
  bool connected() const { return connected_; }
  bool refused() const { return refused_; }
  bool closed() const { return ensemble_->closed(connection_); }
  ConnectionId connection() const { return connection_; }
  ServerId server() const { return server_; }

 private:
  Reply Await(int32_t xid);

  Ensemble* ensemble_;
  ServerId server_;
  ConnectionId connection_;
  SessionId session_;
  std::string password_ = std::string(kNoPassword);
  int32_t timeout_ms_ = 0;
  bool connected_ = false;
  bool refused_ = false;
  int32_t next_xid_ = 1;
  std::map<int32_t, OpCode> sent_;
  std::map<int32_t, Reply> replies_;
  std::vector<Seen> seen_;
};

}  // namespace lockstep::coordination
