// What partition replication promises, seen from outside: the znodes as the ensemble has committed
// them, every replica's log as it was written, every leader's high watermark, and the ghost of all
// that was ever committed. The invariants have the names of the published TLA+ specifications
// (docs/invariants.md).
//
// The ghost: of each partition, all batches that a leader has declared committed, with the record
// ids of our producers in them. Everything else is compared with it, batch by batch, once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/time.h"
#include "core/replication/ids.h"
#include "core/replication/partition.h"
#include "core/replication/registry.h"
#include "core/server/log_observation.h"
#include "sim/broker_plan.h"
#include "sim/checkers/committed_log.h"
#include "sim/checkers/record_ids.h"
#include "sim/checkers/replica_log.h"
#include "sim/probes.h"

namespace lockstep::sim {

// What one replica says of itself at the end of a step.
struct ReplicaView {
  replication::Role role = replication::Role::kIdle;
  int32_t epoch = -1;
  int64_t log_start = 0;
  int64_t log_end = 0;
  int64_t high_watermark = 0;
  bool resigned = false;  // it has led in `epoch`, and does not any more
  bool operator==(const ReplicaView&) const = default;
};

class Replication {
 public:
  Replication(const BrokerPlan& plan, uint32_t servers, Probes* probes);

  // ---- The coordination service: the next committed transaction.
  void OnCommitted(const CommittedEntry& entry);
  // The ensemble's leader has decided that this session is over; it may be of no broker.
  void OnExpires(SessionId session) { expiring_.insert(session); }

  // ---- Replicas. Servers count from 0.
  void OnLogs(uint32_t server, const std::vector<server::LogObservation>& seen);
  // What `server` says of a partition now. `isr`: of a leader, its view of the ISR and the maximal
  // one.
  struct LeaderIsr {
    size_t size = 0;
    std::vector<replication::IsrMember> maximal;
  };
  void OnView(uint32_t server, uint64_t incarnation, const replication::PartitionId& partition,
              const ReplicaView& view, const std::optional<LeaderIsr>& isr);
  // Partitions whose views are worth looking at: those that exist as logs here.
  const std::map<storage::LogNumber, replication::PartitionId>& LogsOf(uint32_t server) const {
    return state_[server].logs;
  }
  // Whether `view` tells anything new, for who would have to make a LeaderIsr first.
  bool IsNews(uint32_t server, const replication::PartitionId& partition, const ReplicaView& view,
              uint64_t incarnation) const;
  void OnStopped(uint32_t server, bool power_loss, bool cleanly);
  void OnDiskReplaced(uint32_t server);

  // ---- The budget of damage to logs.
  // A log of a server, as it was when it was damaged.
  struct LogMark {
    replication::PartitionId partition;
    storage::LogNumber number;
    std::string directory;
    int64_t end = 0;
  };
  // Those of `server` that somebody else has as a whole: a member of the ISR whose server is
  // `healthy`, registered and has lost nothing. `all`: there is no other.
  std::vector<LogMark> SharedLogs(uint32_t server, const std::function<bool(uint32_t)>& healthy,
                                  bool* all) const;
  enum class MarkState : uint8_t { kGone, kHeld, kAlone };
  // Whether that log is still there, and somebody else still has what it had, though perhaps down.
  MarkState StateOf(uint32_t server, const LogMark& mark,
                    const std::function<bool(uint32_t)>& comes_back) const;
  // It is the only member of its partition's ISR.
  bool IsAlone(uint32_t server, const LogMark& mark) const;
  // Recovery has found it damaged, and knows nothing of its producers any more: what they send
  // again may be there twice.
  void OnProducersForgotten(uint32_t server, storage::LogNumber log);

  // ---- Producers.
  void OnSent(RecordId record, const std::string& topic, int32_t partition);
  // acks=all: the records are committed, at these offsets. `base_offset` -1: not told.
  void OnAcknowledged(const std::string& who, const std::string& topic, int32_t partition,
                      int64_t base_offset, const std::vector<RecordId>& records);
  // A producer, of one incarnation of its producer id: its records come in order, and with
  // `idempotent` once.
  void AddProducer(uint32_t producer, bool idempotent, bool ordered);
  // From now on nobody tells in which order its records come: without sequences, a request that was
  // given up may arrive behind all that was sent since.
  void OnDisordered(uint32_t producer) { producers_[producer].ordered = false; }

  // A producer id is given once.
  void OnProducerId(const std::string& who, int64_t producer_id, int16_t epoch);

  // ---- Consumers: a record that was read. `epoch` of its batch.
  void OnConsumed(const std::string& who, const std::string& topic, int32_t partition,
                  int64_t offset, RecordId record);
  // A broker says that `offset` is out of range.
  void OnOutOfRange(const std::string& who, const std::string& topic, int32_t partition,
                    int64_t offset);
  // What ListOffsets (latest) may not go below: the end of what was committed when it was asked.
  int64_t CommittedEnd(const std::string& topic, int32_t partition) const;
  // Records may be missing: it was configured so, and it has happened.
  bool MayHaveLost(const std::string& topic, int32_t partition) const;
  // All of them were committed, and retention or DeleteRecords has removed them: a leader that
  // began behind them cannot tell whether they come for the first time.
  bool WereRemoved(const std::string& topic, int32_t partition,
                   const std::vector<RecordId>& records) const;
  bool Recreated(const std::string& topic) const { return recreated_.contains(topic); }

  // ---- The end. What the committed znodes say of a topic's partition.
  struct Truth {
    Uuid topic_id;
    replication::ReplicasRecord replicas;
    replication::IsrRecord isr;
    std::optional<replication::LeaderRecord> leader;
    bool reassigning = false;
  };
  // Of all topics that are complete and not being deleted.
  std::map<std::pair<std::string, int32_t>, Truth> Truths() const;
  // Nobody who holds all that was committed is in the ISR: without unclean elections it is offline.
  bool Offline(const std::string& topic, int32_t partition) const;
  // Of any partition of the topic.
  bool AnyMayHaveLost(const std::string& topic) const;
  bool AnyOffline(const std::string& topic) const;
  bool registered(replication::BrokerId broker) const;

 private:
  struct Ghost {
    std::vector<LoggedBatch> batches;  // without their slices
    int64_t end = 0;
    std::vector<RecordId> records;                     // by offset
    std::map<uint32_t, uint64_t> last_number;          // by producer: of its last record
    absl::flat_hash_map<uint64_t, int64_t> offset_of;  // by record id; look-ups only
    // It was configured so, and it has happened: from then on only phantoms are looked for.
    bool may_have_lost = false;
    bool producers_forgotten = false;
    // Below it records may have been removed: the greatest log start of any replica.
    int64_t log_start = 0;
  };
  struct Replica {
    ReplicaLog log;
    storage::LogNumber number;
    storage::LogWriteId created;  // 0: durable
    bool present = false;
    ReplicaView view;
    uint64_t view_incarnation = 0;
    size_t isr_size = 0;  // of a leader, at its last view
    int64_t checked = 0;  // below this the content was compared with the ghost
  };
  struct PartitionGhost {
    std::string topic;
    Ghost ghost;
    std::map<uint32_t, Replica> replicas;                                 // by server
    absl::flat_hash_map<int32_t, std::pair<uint32_t, uint64_t>> leaders;  // by epoch; look-ups only
    // As committed in the coordination service.
    std::optional<replication::IsrRecord> isr;
    bool isr_is_news = false;  // for the leader's next view
  };
  struct PartitionNodes {
    std::optional<replication::ReplicasRecord> replicas;
    std::optional<replication::IsrRecord> isr;
    std::optional<replication::LeaderRecord> leader;
    bool reassigning = false;
    // While replicas are added or removed: the leader epoch in which that began.
    std::optional<replication::LeaderEpoch> moving_since;
  };
  struct TopicNodes {
    std::optional<replication::TopicRecord> record;
    std::map<int32_t, PartitionNodes> partitions;
  };
  using Operation = coordination::MultiTransaction::Operation;

  void OnOperation(const CommittedEntry& entry, const Operation& operation);
  void OnNode(const std::string& path, std::string_view data, Zxid zxid);
  void OnLineage(const std::string& path, std::string_view data);
  void ProbeReassignment(PartitionNodes* nodes);
  void ProbeExpired(const std::vector<std::string>& paths) const;
  void OnNodeGone(const std::string& path);
  void OnIsr(const std::string& topic, int32_t partition);
  void CheckNodes(const std::string& topic, int32_t partition) const;
  PartitionGhost* FindGhost(const replication::PartitionId& id);
  const PartitionGhost* FindGhost(const std::string& topic, int32_t partition) const;
  template <typename Fn>
  bool AnyOfName(const std::string& topic, int32_t partition, Fn fn) const;
  bool WasDeleted(const std::string& topic) const;
  // Of exactly this topic, not of its name.
  bool IsGone(const replication::PartitionId& id, const std::string& topic) const;

  void OnRecovered(uint32_t server, const server::LogRecovered& recovered);
  void CheckAllRecovered(uint32_t server, const std::set<storage::LogNumber>& recovered);
  void CheckNewLeader(uint32_t server, const replication::PartitionId& id, PartitionGhost* p,
                      Replica* replica, int32_t epoch);
  void CheckMatches(uint32_t server, const replication::PartitionId& id, const PartitionGhost& p,
                    Replica* replica, int64_t to, const char* invariant);
  // Where the two are different first, up to `to`; nothing if they are not.
  std::optional<int64_t> FirstDifference(const PartitionGhost& p, const Replica& replica,
                                         int64_t from, int64_t to) const;
  void Extend(uint32_t server, const replication::PartitionId& id, PartitionGhost* p,
              const Replica& leader, int64_t to);
  void CommitRecords(const replication::PartitionId& id, PartitionGhost* p,
                     const LoggedBatch& batch);
  void CommitRecord(const replication::PartitionId& id, PartitionGhost* p, int64_t offset,
                    RecordId record);
  void CheckIsrHolds(const replication::PartitionId& id, PartitionGhost* p);
  bool Intact(const replication::IsrMember& member) const;
  bool Holds(const PartitionGhost& p, uint32_t server) const;
  void ForgetBeyond(PartitionGhost* p, int64_t end);
  void OnLoss(PartitionGhost* p);
  int64_t MinInsync(const std::string& topic) const;
  std::string Name(const replication::PartitionId& id, const PartitionGhost& p) const {
    return p.topic + "-" + std::to_string(id.partition);
  }

  const BrokerPlan& plan_;
  const uint32_t servers_;
  Probes* probes_;
  std::map<replication::PartitionId, PartitionGhost> ghosts_;
  std::map<std::pair<std::string, int32_t>, std::vector<replication::PartitionId>> names_;
  std::map<std::string, TopicNodes> topics_;
  std::map<std::string, int64_t> min_insync_;  // the smallest that a topic ever had
  std::set<std::string> unclean_;              // topics that ever allowed unclean elections
  std::set<std::string> recreated_;            // topics that were deleted
  std::map<replication::BrokerId, std::optional<replication::BrokerEpoch>> brokers_;
  std::map<std::string, size_t> lineages_;  // by path: how many incarnations it had
  std::set<SessionId> expiring_;
  struct Server {
    std::map<storage::LogNumber, replication::PartitionId> logs;
    // Members of an ISR of incarnations up to this one have lost data.
    replication::BrokerEpoch lost;
    replication::BrokerEpoch newest;
    bool lost_power = false;  // since it was last up
    bool stopped = false;     // ... and has not recovered yet
    // Whose deletion is not durable: a crash may bring them back.
    struct Deleted {
      storage::LogWriteId id;
      Replica replica;
    };
    std::map<storage::LogNumber, Deleted> deleted;
  };
  std::vector<Server> state_;
  absl::flat_hash_map<uint64_t, std::pair<uint64_t, int32_t>> sent_;  // id -> topic, partition
  struct Producer {
    bool idempotent = false;
    bool ordered = false;
  };
  std::map<uint32_t, Producer> producers_;
  std::map<std::pair<int64_t, int16_t>, std::string> producer_ids_;
};

}  // namespace lockstep::sim
