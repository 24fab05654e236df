// The inside of Broker: included by the broker*.cc files alone.
//
//   broker.cc             inputs, timers, the layer above
//   broker_session.cc     the coordination service: session, registration, lease, reading /brokers
//   broker_partitions.cc  logs, roles, elections, ISR changes, reassignments, hand-over
//   broker_damage.cc      replicas whose logs are damaged
//   broker_queue.cc       state-change queues, both ends
//   broker_admin.cc       what operators and clients ask for; removal of topics
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/timer_table.h"
#include "core/replication/broker.h"
#include "core/replication/election.h"
#include "core/replication/fetch_server.h"
#include "core/replication/fetcher.h"
#include "core/replication/metadata.h"
#include "core/replication/reassignment.h"
#include "core/replication/registry.h"
#include "core/replication/state_change_queue.h"
#include "core/replication/topics.h"

namespace lockstep::replication {

class Broker::Impl : public FetchServer::Host {
 public:
  Impl(const BrokerOptions& options, RandomStream random);

  // ---- Inputs: see Broker. Each is framed by Begin and End.
  void Start(Instant now, int64_t unix_ms, std::vector<storage::RecoveredLog> logs,
             BrokerEpoch retained, BrokerOutput* output);
  void SetWallClock(Instant now, int64_t unix_ms) {
    wall_offset_ms_ = unix_ms - now.ns / 1'000'000;
  }
  void Stop(Instant now, BrokerOutput* output);
  const BrokerOptions& options() const { return options_; }
  bool stopped() const { return phase_ == Phase::kStopped; }
  void OnCoordinationConnected(Instant now, uint64_t connection, BrokerOutput* output);
  void OnCoordinationBytes(Instant now, uint64_t connection, Bytes bytes, BrokerOutput* output);
  void OnCoordinationDisconnected(Instant now, uint64_t connection, BrokerOutput* output);
  void OnBrokerConnected(Instant now, ConnectionId connection, BrokerOutput* output);
  void OnBrokerClosed(Instant now, ConnectionId connection, BrokerOutput* output);
  void OnBrokerMessage(Instant now, ConnectionId connection, Message message, BrokerOutput* output);
  void OnLogCreated(Instant now, storage::LogWriteId id, storage::LogNumber log,
                    BrokerOutput* output);
  void OnLogPersisted(Instant now, storage::LogWriteId id, BrokerOutput* output);
  void OnLogRead(Instant now, storage::LogReadDone done, BrokerOutput* output);
  void OnLogDamaged(Instant now, storage::LogNumber log, BrokerOutput* output);
  void OnRetentionStart(Instant now, storage::LogNumber log, Offset start, BrokerOutput* output);
  bool Produce(Instant now, const PartitionId& partition, ProduceId id, Acks acks, Instant deadline,
               std::vector<Bytes> batch, int32_t records, BrokerOutput* output);
  bool DeleteRecords(Instant now, const PartitionId& partition, Offset before,
                     BrokerOutput* output);
  void Admin(Instant now, AdminId id, AdminRequest request, Instant deadline, BrokerOutput* output);
  std::optional<int64_t> TakeProducerId(Instant now, BrokerOutput* output);
  void OnWake(Instant now, BrokerOutput* output);
  Instant next_deadline() const;

  const Metadata& metadata() const { return metadata_; }
  bool may_lead(Instant now) const;
  BrokerFigures Figures(Instant now) const;
  const Partition* FindPartition(const PartitionId& id) const { return Find(id); }

  // ---- FetchServer::Host
  const Partition* Find(const PartitionId& partition) const override;
  storage::LogNumber LogOf(const PartitionId& partition) const override;
  Partition::FetchDecision OnFetch(Instant now, const ReplicaFetchRequest& request,
                                   const ReplicaFetchRequest::Entry& entry,
                                   BrokerOutput* output) override;
  void OnFetchAnswered(Instant now, BrokerId follower, const PartitionId& partition) override;

 private:
  enum class Phase : uint8_t {
    kNew,
    kConnecting,   // no session yet
    kRegistering,  // a session, but not yet /brokers/ids/[b]
    kRecording,    // registered and fenced: not yet in the lineage, on the disk
    kActive,
    kStopping,
    kStopped,
  };
  enum class Timer : uint8_t {
    kRegister,    // try again
    kRebalance,   // checkLoadBalancing
    kCheckpoint,  // of high watermarks
    kRetention,
    kHousekeeping,
    kCount,
  };

  // A replica on this broker.
  struct Hosted {
    PartitionId id;
    std::string topic;
    storage::LogNumber log;                   // {0} until the Store has said
    BrokerOutput::SegmentLimits limits;       // as the Store was told
    std::unique_ptr<Partition> machine;       // likewise
    uint64_t undurable = 0;                   // changes that are not durable yet
    bool closing = false;                     // to be removed as soon as the Store has said
    bool damaged = false;                     // something of its log cannot be read
    Instant vacant_since = Instant::Never();  // it has no leader, and could have one
    Instant elect_at = Instant::Never();
    // A write of its znodes is under way; nothing else is decided about it until that ends.
    enum class Writing : uint8_t {
      kNone,
      kElection,
      kIsr,
      kReassignment,
      kHandOver,
      kGivingUp
    } writing{};
    std::optional<PartitionOutput::IsrChange> isr_change;  // wanted while something else is written
    std::vector<StateChange> close_later;
    Instant wake_at = Instant::Never();  // as it stands in wakes_
  };
  struct LogWrite {  // one LogWriteId
    enum class Kind : uint8_t { kCreate, kChange, kDelete, kBrokerEpoch } kind{};
    PartitionId partition;
    std::string name;  // kCreate, kDelete: of the directory
    BrokerEpoch epoch;
    uint64_t session = 0;
  };
  using Reply =
      std::function<void(Instant, const coordination::ClientOutput::Completion&, BrokerOutput*)>;
  // kOk and the results, or why the multi was refused; kConnectionLoss: nobody knows.
  using MultiReply = std::function<void(Instant, coordination::ErrorCode,
                                        const coordination::MultiResponse*, BrokerOutput*)>;
  struct AdminOp {
    AdminId id;
    AdminRequest request;
    Instant deadline;
    bool calling = false;
    bool begun = false;       // a write of it has been, or may have been, carried out
    uint64_t not_before = 0;  // of readings_: what is known must be at least so fresh
    Uuid topic;
    std::vector<Transition> transitions;
    size_t next = 0;  // of those
  };
  struct Outbox {  // state changes for one broker
    std::deque<StateChange> waiting;
    bool calling = false;
  };

  // ---- broker.cc
  void Begin(Instant now, BrokerOutput* output);
  void End(Instant now, BrokerOutput* output);
  // `of`: what it is about, a partition as LogName has it, or a topic.
  void Emit(BrokerOutput* output, EventKind kind, uint64_t detail = 0, const char* reason = "",
            BrokerId peer = {}, std::string of = "");
  // `topic-partition`: a partition's name for people, and that of its directory.
  static std::string LogName(const std::string& topic, int32_t partition) {
    return topic + "-" + std::to_string(partition);
  }
  void Retain(Instant now, BrokerOutput* output);
  void ReadProducerIds(Instant now, BrokerOutput* output);
  void CheckpointAll(BrokerOutput* output);

  // ---- broker_session.cc
  void NewSession(Instant now, BrokerOutput* output);
  void SayUnconnected(Instant now, BrokerOutput* output);
  bool IsRegistered() const;
  void BeginAnew(Instant now, BrokerOutput* output);
  // Takes what the client machine has put into output->coordination.
  void Pump(Instant now, BrokerOutput* output);
  void OnState(Instant now, coordination::ClientState state, BrokerOutput* output);
  void OnSessionOver(Instant now, BrokerOutput* output);
  void Call(Instant now, coordination::OpCode op, const coordination::RequestBody& body,
            Reply reply, BrokerOutput* output);
  void Multi(Instant now, const Transition& transition, MultiReply reply, BrokerOutput* output);
  void CreatePaths(Instant now, BrokerOutput* output);
  BrokerRecord OwnRecord(bool fenced) const;
  void Register(Instant now, BrokerOutput* output);
  void OnRegistered(Instant now, BrokerEpoch incarnation, BrokerOutput* output);
  void WaitForPredecessor(Instant now, BrokerEpoch other, BrokerOutput* output);
  void ReadLineage(Instant now, BrokerOutput* output);
  void WriteLineage(Instant now, std::optional<LineageRecord> found, int32_t version,
                    BrokerOutput* output);
  void RecordIncarnation(Instant now, BrokerOutput* output);
  void Unfence(Instant now, BrokerOutput* output);
  void Activate(Instant now, BrokerOutput* output);
  void ReadBrokers(Instant now, BrokerOutput* output);
  void SendReads(Instant now, BrokerOutput* output);
  void TakeChanges(Instant now, BrokerOutput* output);
  void OnBrokerGone(Instant now, BrokerId broker, BrokerOutput* output);
  void CheckLease(Instant now, BrokerOutput* output);
  Instant lease_end() const;
  BrokerEpoch registered(BrokerId broker) const;

  // ---- broker_partitions.cc
  void Reconcile(Instant now, BrokerOutput* output);
  void Consider(Instant now, const std::string& topic, int32_t partition, BrokerOutput* output);
  void Consider(Instant now, Hosted* hosted, BrokerOutput* output);
  void Open(Instant now, const PartitionState& state, BrokerOutput* output);
  void AddMachine(Instant now, Hosted* hosted, storage::RecoveredLog log, BrokerOutput* output);
  void Close(Instant now, Hosted* hosted, BrokerOutput* output);
  void DeleteLog(storage::LogNumber log, const std::string& name, const PartitionId& id,
                 BrokerOutput* output);
  void Resign(Instant now, Hosted* hosted, BrokerOutput* output);
  void ResignAll(Instant now, BrokerOutput* output);
  void ConsiderElection(Instant now, Hosted* hosted, const PartitionView& view,
                        BrokerOutput* output);
  std::optional<ElectionPlan> Plan(const PartitionState& state) const;
  void Elect(Instant now, Hosted* hosted, const PartitionView& view, const ElectionPlan& plan,
             BrokerOutput* output);
  void BecomeLeader(Instant now, Hosted* hosted, PartitionState state, BrokerOutput* output);
  void WriteIsr(Instant now, Hosted* hosted, PartitionOutput::IsrChange change,
                BrokerOutput* output);
  void LeaveOutGone(Instant now, Hosted* hosted, BrokerOutput* output);
  void ConsiderReassignment(Instant now, Hosted* hosted, const PartitionView& view,
                            BrokerOutput* output);
  void Reassign(Instant now, Hosted* hosted, const PartitionView& view,
                const ReassignmentStep& step, BrokerOutput* output);
  void HandOver(Instant now, Hosted* hosted, BrokerOutput* output);
  void Rebalance(Instant now, BrokerOutput* output);
  // The end of a write of its znodes that was not plainly carried out.
  void Reread(Instant now, const PartitionId& id, BrokerOutput* output);
  // Carries out what a partition's machine wants.
  void Drain(Instant now, Hosted* hosted, PartitionOutput* from, BrokerOutput* output);
  void Schedule(Hosted* hosted);
  void Configure(Instant now, const std::string& topic, BrokerOutput* output);
  void SetSegmentLimits(Hosted* hosted, BrokerOutput* output);
  uint32_t MinInsyncReplicas(const std::string& topic) const;
  bool UncleanAllowed(const std::string& topic) const;
  Hosted* FindHosted(const PartitionId& id);
  storage::LogWriteId NextWrite(LogWrite write);
  int32_t Guarded(int32_t version) const {
    return options_.rules.compare_versions ? version : coordination::kAnyVersion;
  }
  // The transition is refused if the topic of that id is gone, whatever has its name now.
  void GuardTopic(std::string_view topic, const Uuid& id, Transition* transition) const {
    if (!options_.rules.compare_topic_ids) return;
    transition->Check(TopicIdPath(topic, id), coordination::kAnyVersion);
  }

  // ---- broker_damage.cc
  bool OthersHold(const PartitionState& state) const;
  void GiveUp(Instant now, Hosted* hosted, const PartitionView& view, BrokerOutput* output);

  // ---- broker_queue.cc
  void SendStateChange(BrokerId to, StateChange change);
  void FlushOutboxes(Instant now, BrokerOutput* output);
  void PutStateChanges(Instant now, BrokerId to, BrokerOutput* output);
  void ShrinkQueue(Instant now, BrokerId to, BrokerOutput* output);
  void TakeStateChanges(Instant now, BrokerOutput* output);
  void Act(Instant now, const StateChange& change, BrokerOutput* output);

  // ---- broker_admin.cc
  void TryAdmin(Instant now, BrokerOutput* output);
  bool Try(Instant now, AdminOp* op, const CreateTopic& request, BrokerOutput* output);
  bool Try(Instant now, AdminOp* op, const DeleteTopic& request, BrokerOutput* output);
  bool Try(Instant now, AdminOp* op, const CreatePartitions& request, BrokerOutput* output);
  bool Try(Instant now, AdminOp* op, const replication::Reassign& request, BrokerOutput* output);
  bool Try(Instant now, AdminOp* op, const ElectPreferred& request, BrokerOutput* output);
  bool Try(Instant now, AdminOp* op, const SetTopicConfigs& request, BrokerOutput* output);
  // Always true: the request is answered.
  bool Answer(const AdminOp& op, AdminError error, std::string message, BrokerOutput* output);
  // `topic` is read again before the request is looked at anew.
  void Submit(Instant now, AdminOp* op, const Transition& transition, const std::string& topic,
              BrokerOutput* output);
  void FailAdmin(AdminError error, const std::string& message, BrokerOutput* output);
  void RemoveTopics(Instant now, BrokerOutput* output);
  void RemoveTopic(Instant now, const std::string& topic, const MetadataCache::TopicNode& node,
                   BrokerOutput* output);

  const BrokerOptions options_;
  RandomStream random_;
  TimerTable<Timer> timers_;
  int64_t wall_offset_ms_ = 0;  // Unix time minus the monotonic clock's

  // The session. `session_` counts them; what belongs to an earlier one is ignored.
  Phase phase_ = Phase::kNew;
  uint64_t session_ = 0;
  std::unique_ptr<coordination::Client> client_;
  coordination::ClientOutput client_output_;
  uint64_t connection_base_ = 0;  // the host's numbers minus the client machine's
  uint64_t connections_used_ = 0;
  // Since when dials have led to nothing, and when that is told next.
  Instant unconnected_since_ = Instant::Never();
  Instant say_unconnected_at_;
  std::map<uint64_t, Reply> calls_;
  bool paths_created_ = false;
  bool leading_ = false;     // may_lead when it was last checked
  BrokerEpoch incarnation_;  // {0}: not registered
  BrokerEpoch retained_;     // the last one on this broker's disk
  std::vector<BrokerEpoch> lineage_;
  BrokerEpoch predecessor_;  // whose registration is still there
  Instant predecessor_until_ = Instant::Never();
  MetadataCache metadata_;
  uint64_t readings_ = 0;  // how often /brokers was read as a whole

  // Partitions.
  std::map<PartitionId, Hosted> hosted_;
  std::map<std::pair<std::string, int32_t>, PartitionId> names_;
  std::map<PartitionId, storage::RecoveredLog> recovered_;  // not yet claimed
  std::set<std::pair<Instant, PartitionId>> wakes_;
  std::set<PartitionId> to_consider_;
  std::deque<LogWrite> writes_;  // not durable; the first one is writes_begin_
  uint64_t writes_begin_ = 1;
  std::map<storage::LogWriteId, PartitionId> creating_;
  std::set<std::string> deleting_;  // directories whose removal is not durable yet
  std::set<std::pair<std::string, int32_t>> blocked_;  // wait for one of those
  Fetcher fetcher_;
  FetchServer fetch_server_;

  std::map<BrokerId, Outbox> outboxes_;
  std::set<std::string> acting_;  // state changes that are being read or deleted
  std::deque<AdminOp> admin_;
  std::set<std::string> removing_;  // topics whose znodes are being removed

  int64_t producer_id_ = 0;
  int64_t producer_ids_end_ = 0;  // exclusive
  bool reading_producer_ids_ = false;
};

}  // namespace lockstep::replication
