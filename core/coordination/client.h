// The client's end of ZooKeeper's protocol: one session, kept over connections to any server of an
// ensemble. Brokers use it, against our servers or Apache ZooKeeper's. docs/coordination.md,
// "The client machine".
//
// A machine is a value: it reads no clock, no socket, no random device and no global. The host
// dials and carries bytes; every connection has a number, so that what comes late from a connection
// that was given up is told from its successor's.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_set.h"
#include "core/base/bytes.h"
#include "core/base/frame_cutter.h"
#include "core/base/ids.h"
#include "core/base/random.h"
#include "core/base/time.h"
#include "core/base/timer_table.h"
#include "core/base/zxid.h"
#include "core/coordination/protocol.h"

namespace lockstep::coordination {

struct ClientOptions {
  uint32_t servers = 1;                 // of the ensemble; dialed by index, in a shuffled order
  int32_t session_timeout_ms = 10'000;  // asked for; the server may give another one
  uint32_t frame_bytes_max = 0xfffff;
  uint32_t requests_max = 10'000;  // sent or waiting to be sent; Call refuses more
  // Between two rounds through all servers that failed, and after each server that was asked for a
  // new session and did not give one: min after the first, then twice as long each time, up to max,
  // less up to a half so that clients do not come in step.
  Duration retry_min = Milliseconds(100);
  Duration retry_max = Seconds(5);
};

enum class ClientState : uint8_t {
  kConnecting,  // no session yet, or between two servers; calls wait
  kConnected,
  kExpired,  // by the ensemble: the session and its ephemerals are gone. Final
  kClosed,   // by Close. Final
};

struct ClientOutput {
  struct Dial {
    uint64_t connection;
    uint32_t server;  // index, below ClientOptions::servers
  };
  struct Send {
    uint64_t connection;
    Bytes data;
  };
  struct Completion {
    uint64_t call;
    OpCode op;
    // The error is kConnectionLoss if the request may or may not have been carried out,
    // kSessionExpired if the session is over; otherwise the server's. That of a refused multi is
    // kOk: see MultiResponse.
    ReplyHeader header;
    ResponseBody body;  // its views point into `frame`
    Bytes frame;
  };
  struct Event {
    WatchEventType type;
    std::string path;
  };
  std::vector<Dial> dials;
  std::vector<Send> sends;
  std::vector<uint64_t> closes;  // after the sends to them
  std::vector<Completion> completions;
  std::vector<Event> events;        // of watches
  std::vector<ClientState> states;  // entered, in order
  void Clear();
};

class Client {
 public:
  Client(const ClientOptions& options, RandomStream random);

  // Dials the first server. Requires: called once, before anything else.
  void Start(Instant now, ClientOutput* output);
  // Sends the request, or keeps it until there is a connection. The number by which its completion
  // names it; nothing if requests_max are under way, or the session is over. Watches that the
  // request sets are set again after each reconnection, until they fire or, if they are persistent
  // (addWatch), are removed. What a one-shot watch has missed between two connections, it tells
  // then; what a persistent one has missed, nothing tells: its owner reads anew upon kConnected.
  // Requires: `op` is one of the calls: not ping, auth, setWatches, setWatches2 or closeSession; a
  // multiRead sets no watches.
  std::optional<uint64_t> Call(Instant now, OpCode op, const RequestBody& body,
                               ClientOutput* output);
  // Ends the session, if a server can be told, and the client.
  void Close(Instant now, ClientOutput* output);

  void OnConnected(Instant now, uint64_t connection, ClientOutput* output);
  void OnBytes(Instant now, uint64_t connection, Bytes bytes, ClientOutput* output);
  // Closed by the other side or by an error; or the dial has failed.
  void OnDisconnected(Instant now, uint64_t connection, ClientOutput* output);
  void OnWake(Instant now, ClientOutput* output);
  Instant next_deadline() const { return timers_.next(); }

  ClientState state() const { return state_; }
  SessionId session() const { return session_; }  // 0 before the first connection
  int32_t timeout_ms() const { return timeout_ms_; }
  Zxid last_zxid() const { return last_zxid_; }
  // When the newest of the requests (pings, too) that have been answered was sent. The server has
  // heard of the session then or later, so that it does not expire before timeout_ms after it,
  // less how long the server that was asked keeps that from the leader (half a tick). For owners
  // that have to stop before their session can be over.
  Instant heard_since() const { return heard_since_; }
  size_t calls_under_way() const { return sent_.size() + waiting_.size(); }

 private:
  enum class Timer { kRetry, kDial, kSilence, kPing, kCount };
  enum class Link : uint8_t { kNone, kDialing, kHandshake, kUp };
  // What the reply to a request says about watches.
  enum class WatchKind : uint8_t {
    kNone,
    kData,
    kExists,
    kChildren,
    kPersistent,
    kRecursive,
    kRemoved
  };
  struct Pending {
    uint64_t call = 0;
    int32_t xid = 0;
    OpCode op{};
    WatchKind watch = WatchKind::kNone;
    std::string path;       // of the watch
    WatcherType removed{};  // kRemoved
    Bytes frame;            // until sent
    Instant sent{0};
  };

  bool over() const { return state_ == ClientState::kExpired || state_ == ClientState::kClosed; }
  void Enter(ClientState state, ClientOutput* output);
  void Dial(Instant now, ClientOutput* output);
  void GiveUp(Instant now, ClientOutput* output);
  void Lost(Instant now, ClientOutput* output);
  void Finish(ClientState state, ErrorCode error, ClientOutput* output);
  void FailSent(ErrorCode error, ClientOutput* output);
  void Fail(const Pending& pending, ErrorCode error, ClientOutput* output);
  void Transmit(Instant now, Bytes data, ClientOutput* output);
  void SendWaiting(Instant now, ClientOutput* output);
  void SendWatches(Instant now, ClientOutput* output);
  // False: the server does not speak the protocol, and the connection is to be given up.
  bool OnFrame(Instant now, const Bytes& frame, ClientOutput* output);
  bool OnConnectResponse(Instant now, const Bytes& frame, ClientOutput* output);
  bool OnEvent(const Bytes& frame, ClientOutput* output);
  bool OnReply(const ReplyHeader& header, const Bytes& frame, ClientOutput* output);
  void RememberWatch(const Pending& pending, ErrorCode error);
  void ForgetWatches(const std::string& path, WatcherType type);
  int32_t NextXid();

  const ClientOptions options_;
  RandomStream random_;
  TimerTable<Timer> timers_;
  ClientState state_ = ClientState::kConnecting;

  // The connection in use, and where the next one goes.
  Link link_ = Link::kNone;
  uint64_t connection_ = 0;  // number of the newest
  FrameCutter cutter_;
  std::vector<uint32_t> order_;  // of servers
  size_t next_server_ = 0;       // in order_
  size_t failures_ = 0;          // since a server last took us
  Duration retry_;

  SessionId session_;
  std::string password_;
  int32_t timeout_ms_ = 0;  // negotiated
  Zxid last_zxid_;

  uint64_t next_call_ = 1;
  int32_t next_xid_ = 1;
  Instant heard_since_{0};
  Instant handshake_sent_{0};
  std::deque<Instant> pings_sent_;  // not answered, on this connection
  std::deque<Pending> sent_;        // in the order in which they are answered
  std::deque<Pending> waiting_;     // for a connection
  bool closing_ = false;            // closeSession was sent

  // Watches that have neither fired nor been removed, by what setWatches2 calls them.
  absl::btree_set<std::string> data_watches_;
  absl::btree_set<std::string> exist_watches_;
  absl::btree_set<std::string> child_watches_;
  absl::btree_set<std::string> persistent_watches_;
  absl::btree_set<std::string> recursive_watches_;
};

}  // namespace lockstep::coordination
