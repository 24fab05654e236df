// The state of a Service and the functions that share it: service.cc has roles, deliveries and
// time, service_clients.cc connections, handshakes and requests.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "core/base/check.h"
#include "core/coordination/connection.h"
#include "core/coordination/forward.h"
#include "core/coordination/leader.h"
#include "core/coordination/reads.h"
#include "core/coordination/service.h"
#include "core/coordination/watches.h"

namespace lockstep::coordination {

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

  void OnClientAccepted(Instant now, ConnectionId id, const std::string& address, uint16_t port,
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
  Watches watches_{options_.rules};

  std::optional<LeaderDesk> desk_;             // while leading
  std::vector<LeaderDesk::AnswerTo> answers_;  // of the desk, in this step
  std::vector<ConnectionId> flow_changes_;     // connections to pause or resume, in this step
  std::vector<SessionId> touched_;
  std::deque<std::pair<Zxid, Ticket>> syncs_;  // to be completed once applied; zxids ascend
  ServiceStats stats_;
};

}  // namespace lockstep::coordination
