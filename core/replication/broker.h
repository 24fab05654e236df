// A broker as one machine: the seed's Broker. It registers, elects, follows, leads, reassigns, and
// keeps topics, through the coordination service's client machine alone; its partitions replicate
// over connections between brokers. The layer above (core/kafka) speaks to clients and owns what
// records mean; the layer beside (core/storage) makes log changes durable.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/base/bytes.h"
#include "core/base/event.h"
#include "core/base/ids.h"
#include "core/base/random.h"
#include "core/base/time.h"
#include "core/coordination/client.h"
#include "core/replication/ids.h"
#include "core/replication/messages.h"
#include "core/replication/partition.h"
#include "core/replication/rules.h"
#include "core/storage/partition_log.h"

namespace lockstep::replication {

struct Endpoint {
  std::string host;
  uint16_t port = 0;
  bool operator==(const Endpoint&) const = default;
};

struct BrokerOptions {
  BrokerId broker;
  std::string rack;     // empty: none
  Endpoint advertised;  // where clients and other brokers reach this one
  coordination::ClientOptions coordination;
  // Between machines' clocks: a leader trusts its session for the negotiated timeout, counted from
  // when it sent what was last answered, less this share (percent) of it. S3.
  uint32_t session_margin_percent = 20;
  // The seed's PreferredReplicaTime: how much longer each less preferred candidate waits before it
  // tries to become leader (the first live one in the order of AR tries at once). S10.
  Duration preferred_replica_time = Milliseconds(500);
  Duration keep_in_sync_time = Seconds(30);
  uint32_t min_insync_replicas = 1;  // unless the topic says otherwise
  uint32_t default_replication_factor = 1;
  uint32_t default_partitions = 1;
  bool unclean_leader_election = false;
  bool auto_leader_rebalance = true;  // the seed's checkLoadBalancing
  Duration leader_rebalance_interval = Seconds(300);
  uint32_t state_change_queue_max = 1000;  // requests in one broker's queue; S28
  uint64_t reassignment_throttle =
      0;  // bytes/s a follower fetches for partitions it is added to; 0: no limit
  Duration fetch_max_wait = Milliseconds(500);
  uint32_t fetch_max_bytes = 10 << 20;
  uint32_t fetch_entry_max_bytes = 1 << 20;
  Duration high_watermark_checkpoint_interval = Seconds(5);
  Duration retention_check_interval = Seconds(300);
  int64_t retention_ms = int64_t{7} * 24 * 3600 * 1000;  // unless the topic says so; -1: for ever
  int64_t retention_bytes = -1;                          // of a partition; -1: no limit
  storage::LogOptions log;
  Rules rules;
};

// A topic as /brokers/topics/[topic] has it.
struct TopicState {
  std::string name;
  Uuid id;
  bool deleting = false;
  std::map<std::string, std::string> configs;  // `min.insync.replicas` ...; only what was set
  std::vector<PartitionState> partitions;      // by number, from 0, dense
};
struct BrokerState {
  BrokerId id;
  BrokerEpoch incarnation;
  Endpoint endpoint;
  std::string rack;
  bool fenced = false;  // BrokerRecord's
};

// What this broker has seen of /brokers: good for Metadata, never for a decision that must not be
// stale (those compare versions).
class Metadata {
 public:
  virtual ~Metadata() = default;
  virtual bool complete() const = 0;      // has been read as a whole since the session began
  virtual uint64_t revision() const = 0;  // changes with every change
  virtual const std::string& cluster_id() const = 0;
  virtual const std::map<std::string, TopicState>& topics() const = 0;
  virtual const std::map<BrokerId, BrokerState>& brokers() const = 0;  // registered now
  virtual const TopicState* FindTopic(const Uuid& id) const = 0;
  // All partitions that the topic had when it came to be known have been read. Before that topics()
  // may show the first ones alone: a client would take these for all there are, and put its keys
  // into the wrong ones.
  virtual bool whole(const std::string& topic) const = 0;
};

// Requests of an operator or client; each is answered by one AdminDone.
struct AdminId {
  uint64_t value = 0;
  constexpr auto operator<=>(const AdminId&) const = default;
};
enum class AdminError : uint8_t {
  kNone = 0,
  kTopicExists,
  kUnknownTopic,
  kInvalidTopic,  // name
  kInvalidPartitions,
  kInvalidReplicationFactor,  // more than there are live brokers, or not positive
  kInvalidAssignment,         // unknown or repeated brokers, lists of different lengths
  kInvalidConfig,
  kReassignmentInProgress,
  kNoReassignment,         // nothing to cancel
  kPreferredNotAvailable,  // the preferred replica is not in the ISR, or dead
  kElectionNotNeeded,
  kTimedOut,
  kNotAvailable,  // no session with the coordination service
};
struct CreateTopic {
  std::string topic;
  int32_t partitions = -1;                        // -1: the default
  int32_t replication_factor = -1;                // -1: the default
  std::vector<std::vector<BrokerId>> assignment;  // by partition; then both above are -1
  std::map<std::string, std::string> configs;
  bool validate_only = false;
};
struct DeleteTopic {
  std::string topic;
};
struct CreatePartitions {
  std::string topic;
  int32_t total = 0;                              // afterwards
  std::vector<std::vector<BrokerId>> assignment;  // of the new ones; empty: chosen
  bool validate_only = false;
};
struct Reassign {
  std::string topic;
  int32_t partition = 0;
  std::optional<std::vector<BrokerId>> replicas;  // nothing: cancel
};
struct ElectPreferred {
  std::string topic;
  int32_t partition = 0;
};
struct SetTopicConfigs {
  std::string topic;
  std::map<std::string, std::optional<std::string>> changes;  // nothing: back to the default
  bool validate_only = false;
};
using AdminRequest = std::variant<CreateTopic, DeleteTopic, CreatePartitions, Reassign,
                                  ElectPreferred, SetTopicConfigs>;

struct BrokerOutput {
  // Storage: in this order; ids dense from 1.
  struct CreateLog {
    storage::LogWriteId id;
    std::string topic;
    PartitionId partition;
  };  // answered by OnLogCreated with the Store's number
  struct ChangeLog {
    storage::LogWriteId id;
    storage::LogNumber log;
    storage::LogChange change;
  };
  struct DeleteLog {
    storage::LogWriteId id;
    storage::LogNumber log;
  };
  struct SetBrokerEpoch {
    storage::LogWriteId id;
    int64_t epoch = 0;
  };
  using LogOp = std::variant<CreateLog, ChangeLog, DeleteLog, SetBrokerEpoch>;
  std::vector<LogOp> log_ops;
  // The cluster in which it is registered. If these logs are another's, nothing else may be done:
  // what is unknown there would be deleted.
  std::optional<std::string> cluster_id;
  struct ReadLog {
    storage::LogReadId id;
    storage::LogNumber log;
    Offset offset = 0;
    uint32_t max_bytes = 0;
  };
  std::vector<ReadLog> reads;
  // When segments of a log roll, as its topic has it (`segment.bytes`, `segment.ms`).
  struct SegmentLimits {
    storage::LogNumber log;
    uint64_t bytes = 0;
    int64_t ms = 0;
    bool operator==(const SegmentLimits&) const = default;
  };
  std::vector<SegmentLimits> segment_limits;  // before log_ops
  std::vector<std::pair<storage::LogNumber, Offset>> high_watermarks;
  bool checkpoint_high_watermarks = false;
  // Whether old records can go is the Store's to say: RetentionStart of each of these, answered by
  // OnRetentionStart if that is above the log's start.
  struct Retention {
    storage::LogNumber log;
    int64_t before_ms = -1;  // largest timestamps below it are too old; -1: none are
    uint64_t bytes_max = 0;  // 0: no limit
    Offset high_watermark = 0;
  };
  std::vector<Retention> retentions;

  coordination::ClientOutput coordination;  // dials, sends, closes for the host

  // Connections between brokers. A dial goes to the other broker's advertised endpoint.
  struct Dial {
    ConnectionId connection;
    BrokerId to;
    Endpoint endpoint;
  };
  struct Send {
    ConnectionId connection;
    Message message;
  };
  std::vector<Dial> dials;
  std::vector<Send> sends;
  std::vector<ConnectionId> closes;

  // For the layer above.
  struct ProduceDone {
    PartitionId partition;
    PartitionOutput::ProduceDone done;
  };
  std::vector<ProduceDone> produces_done;
  struct Appended {  // as a follower: batches as they are in the log
    PartitionId partition;
    std::vector<Bytes> batches;
  };
  struct Truncated {
    PartitionId partition;
    Offset to = 0;
    bool restarted = false;  // nothing is left: the log is empty and begins at `to`
  };
  struct RoleChanged {
    PartitionId partition;
    Role role = Role::kIdle;
    LeaderEpoch epoch;
  };
  struct Opened {  // a log is here: recovered or new; its producer state begins from this
    PartitionId partition;
    std::string topic;
    storage::RecoveredLog log;
  };
  struct Removed {
    PartitionId partition;
  };
  using LogEvent = std::variant<Opened, Appended, Truncated, RoleChanged, Removed>;
  std::vector<LogEvent> log_events;  // in order
  std::vector<PartitionId> high_watermarks_moved;
  struct AdminDone {
    AdminId id;
    AdminError error = AdminError::kNone;
    std::string message;  // a sentence
  };
  std::vector<AdminDone> admin_done;
  bool metadata_changed = false;
  bool producer_ids = false;  // TakeProducerId has some again
  std::vector<Event> events;
  bool Empty() const;
  void Clear();
};

// What operators look at first, counted when it is asked for. Kafka's meaning of each, where it has
// one, is that of the metric of this name.
struct BrokerFigures {
  bool registered = false;
  bool fenced = true;  // clients are turned away: it may not act as leader now
  size_t brokers = 0;  // that are registered, as far as this one has seen
  size_t led = 0;      // of the partitions hosted here
  // Of those led here: the ISR is smaller than AR without the replicas that are being added, or
  // than min.insync.replicas.
  size_t under_replicated = 0;
  size_t under_min_isr = 0;
  size_t damaged = 0;  // hosted here: something of the log cannot be read
  // Of all topics: without a leader, as far as this broker has seen.
  size_t offline = 0;
  std::vector<storage::LogNumber> logs;  // of the partitions hosted here
};

class Broker {
 public:
  Broker(const BrokerOptions& options, RandomStream random);
  ~Broker();

  // brokerStartup. `retained` is the incarnation all of whose acknowledged data `logs` hold (0: not
  // known, or none): see Store::SetBrokerEpoch. `unix_ms`: the wall clock at `now`.
  void Start(Instant now, int64_t unix_ms, std::vector<storage::RecoveredLog> logs,
             BrokerEpoch retained, BrokerOutput* output);
  void SetWallClock(Instant now, int64_t unix_ms);
  // A clean stop: hands over leaderships, leaves, ends the session. stopped() when done.
  void Stop(Instant now, BrokerOutput* output);
  bool stopped() const;

  // ---- The coordination service's connection, as coordination::Client has them.
  void OnCoordinationConnected(Instant now, uint64_t connection, BrokerOutput* output);
  void OnCoordinationBytes(Instant now, uint64_t connection, Bytes bytes, BrokerOutput* output);
  void OnCoordinationDisconnected(Instant now, uint64_t connection, BrokerOutput* output);

  // ---- Other brokers.
  void OnBrokerConnected(Instant now, ConnectionId connection, BrokerOutput* output);  // a dial
  void OnBrokerClosed(Instant now, ConnectionId connection, BrokerOutput* output);     // any
  void OnBrokerMessage(Instant now, ConnectionId connection, Message message, BrokerOutput* output);

  // ---- Storage.
  void OnLogCreated(Instant now, storage::LogWriteId id, storage::LogNumber log,
                    BrokerOutput* output);
  // Everything up to `id` is durable.
  void OnLogPersisted(Instant now, storage::LogWriteId id, BrokerOutput* output);
  // Of BrokerOutput::reads alone: the ids are this machine's own.
  void OnLogRead(Instant now, storage::LogReadDone done, BrokerOutput* output);
  // StoreOutput::logs_damaged. If others in the ISR have what this replica has, it leaves the ISR,
  // deletes its log and begins anew; else it stays as it is until they do.
  void OnLogDamaged(Instant now, storage::LogNumber log, BrokerOutput* output);
  void OnRetentionStart(Instant now, storage::LogNumber log, Offset start, BrokerOutput* output);

  // ---- The layer above.
  // null: not hosted here. Valid until the next non-const call.
  const Partition* FindPartition(const PartitionId& id) const;
  storage::LogNumber LogOf(const PartitionId& id) const;
  const Metadata& metadata() const;
  const BrokerOptions& options() const;
  // True while this broker may act as leader: registered, and its session certainly alive.
  bool may_lead(Instant now) const;
  BrokerFigures Figures(Instant now) const;
  bool Produce(Instant now, const PartitionId& partition, ProduceId id, Acks acks, Instant deadline,
               std::vector<Bytes> batch, int32_t records, BrokerOutput* output);
  // DeleteRecords: false if not the leader, or above the high watermark.
  bool DeleteRecords(Instant now, const PartitionId& partition, Offset before,
                     BrokerOutput* output);
  void Admin(Instant now, AdminId id, AdminRequest request, Instant deadline, BrokerOutput* output);
  // A number no broker of the cluster gives twice (InitProducerId): blocks of 1000 are taken from
  // the coordination service, `/latest_producer_id_block`. Nothing: none at hand; ask again after
  // output->producer_ids arrive.
  std::optional<int64_t> TakeProducerId(Instant now, BrokerOutput* output);

  void OnWake(Instant now, BrokerOutput* output);
  Instant next_deadline() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::replication
