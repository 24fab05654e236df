// A simulated client: it speaks ZooKeeper's protocol byte by byte, keeps a session over servers,
// does a random workload, and checks all that it is told.
//
// Like a machine it only reacts: the world hands it what the network brings and wakes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/frame_cutter.h"
#include "core/base/ids.h"
#include "core/base/random.h"
#include "core/base/time.h"
#include "core/coordination/protocol.h"
#include "sim/checkers/client_history.h"
#include "sim/plan.h"
#include "sim/probes.h"
#include "sim/schedule.h"
#include "sim/trace.h"

namespace lockstep::sim {

// What the world is to do for a client.
struct ClientOutput {
  struct DialTo {
    ConnectionId connection;
    uint32_t server = 0;  // from 0
  };
  struct SendBytes {
    ConnectionId connection;
    Bytes data;
  };
  std::vector<DialTo> dials;
  std::vector<SendBytes> sends;
  std::vector<ConnectionId> closes;  // after the sends
  std::optional<Instant> wake;       // in addition to what was asked for before

  void Clear() {
    dials.clear();
    sends.clear();
    closes.clear();
    wake.reset();
  }
};

class Client {
 public:
  Client(const Plan& plan, uint32_t number, const CommittedLog* committed, const ZnodeModel* model,
         Probes* probes, Trace* trace, Script* script);

  void OnWake(Instant now, ClientOutput* output);
  void OnConnected(Instant now, ConnectionId connection, ClientOutput* output);
  void OnBytes(Instant now, ConnectionId connection, Bytes data, ClientOutput* output);
  void OnClosed(Instant now, ConnectionId connection, ClientOutput* output);

  // ---- Faults.
  // Dies without a word, and comes back as another client with a new session.
  void Vanish(Instant now, ClientOutput* output);
  // Drops the connection, and takes the session to another server.
  void Move(Instant now, ClientOutput* output);

  // ---- The end of a run: no new requests but one write each, to see that it gets through.
  void Quiesce(Instant now, ClientOutput* output);
  bool final_write_done() const { return final_write_ == FinalWrite::kDone; }
  bool multi_in_flight() const { return history_.multi_in_flight(); }
  // Sessions that nobody will use again.
  const std::vector<SessionId>& abandoned() const { return abandoned_; }

 private:
  static constexpr int32_t kUnknownOpCode = 9999;
  static constexpr size_t kOwnPathsMax = 20;

  enum class State : uint8_t { kIdle, kDialing, kConnecting, kConnected };
  enum class FinalWrite : uint8_t { kNotWanted, kWanted, kSent, kDone };

  void Dial(Instant now, ClientOutput* output);
  // Closes the connection, if any, and tries another server soon.
  void Drop(Instant now, ClientOutput* output);
  void Wake(Instant at, ClientOutput* output);
  void Send(Instant now, Bytes frame, ClientOutput* output);
  void OnFrame(Instant now, const Bytes& frame, ClientOutput* output);
  void OnConnectResponse(Instant now, const Bytes& frame, ClientOutput* output);
  void OnReply(const coordination::ReplyHeader& header, const Bytes& frame);
  void RestoreWatches(Instant now, ClientOutput* output);
  void ForgetSession();
  void Work(Instant now, ClientOutput* output);
  void Request(Instant now, coordination::OpCode op, const coordination::RequestBody& body,
               Invocation invocation, ClientOutput* output);

  // ---- What to do, drawn (client_steps.cc) or as a schedule says.
  bool follows() const { return script_ != nullptr && script_->follows(); }
  uint32_t actor() const { return 1 + number_; }
  void Rekey(Instant now);
  // The schedule's next step, if its time has come.
  const ClientStep* Due(Instant now) const;
  // The next step is not later than the schedule says.
  void LimitNextWork(Instant now);
  void Note(Instant now, const ClientStep& step);
  void IssueSome(Instant now, ClientOutput* output);
  ClientOp RandomOp();
  ClientStep DrawStep(ClientOp op);
  void DrawMulti(ClientStep* step);
  void DrawMultiRead(ClientStep* step);

  void Issue(Instant now, const ClientStep& step, ClientOutput* output);
  void IssueCreate(Instant now, const ClientStep& step, Invocation i, ClientOutput* output);
  void IssueMulti(Instant now, const ClientStep& step, ClientOutput* output);
  void IssueMultiRead(Instant now, const ClientStep& step, ClientOutput* output);
  void OnMultiReply(const Invocation& done, const coordination::MultiResponse& response);
  uint32_t RandomKey();
  std::optional<uint32_t> RandomParent();
  uint32_t RandomSize();
  coordination::Data UniqueValue(uint32_t bytes, Invocation* invocation);
  std::string name() const;

  const WorkloadPlan plan_;
  uint32_t servers_;
  Duration tick_;
  uint32_t number_;
  RandomStream random_;
  const CommittedLog* committed_;
  Probes* probes_;
  Trace* trace_;
  Script* script_;
  const uint64_t seed_;
  const uint32_t streams_;
  ClientHistory history_;

  State state_ = State::kIdle;
  ConnectionId connection_;
  uint64_t connections_dialed_ = 0;
  uint32_t server_ = 0;
  uint32_t session_server_ = 0;  // where the session was last
  FrameCutter cutter_;
  SessionId session_;
  std::string password_;
  Duration timeout_;
  int32_t next_xid_ = 1;
  uint64_t next_value_ = 1;
  Instant scheduled_wake_;  // the start counts as one
  Instant next_work_;
  Instant last_heard_;
  Instant last_sent_;
  Instant dial_at_;
  bool closing_ = false;  // closeSession was sent
  FinalWrite final_write_ = FinalWrite::kNotWanted;
  int32_t final_xid_ = 0;
  std::vector<SessionId> abandoned_;
  std::vector<std::string> own_paths_;  // ephemeral and sequential nodes, to be deleted
  std::vector<int32_t> seen_versions_;  // by key, as last read
};

}  // namespace lockstep::sim
