// Where partition replication keeps its state in the coordination service: the seed's paths, and
// the records in them. docs/replication.md, "Znodes".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/ids.h"
#include "core/base/uuid.h"
#include "core/coordination/protocol.h"
#include "core/replication/ids.h"
#include "core/replication/partition.h"

namespace lockstep::replication {

// ---- Paths -------------------------------------------------------------------------------------

inline constexpr std::string_view kBrokersPath = "/brokers";
inline constexpr std::string_view kBrokerIdsPath = "/brokers/ids";
inline constexpr std::string_view kTopicsPath = "/brokers/topics";
inline constexpr std::string_view kStatePath = "/brokers/state";
inline constexpr std::string_view kLineagePath = "/brokers/lineage";
inline constexpr std::string_view kReassignedPath = "/brokers/partitions_reassigned";
inline constexpr std::string_view kClusterPath = "/cluster";
inline constexpr std::string_view kClusterIdPath = "/cluster/id";
inline constexpr std::string_view kProducerIdBlockPath = "/latest_producer_id_block";

std::string BrokerPath(BrokerId broker);   // its registration; ephemeral
std::string LineagePath(BrokerId broker);  // its LineageRecord
std::string StatePath(BrokerId broker);    // its state-change queue
std::string TopicPath(std::string_view topic);
// Exists as long as the topic of that id does. Versions begin at 0 again when a topic is deleted
// and made again under its name; only the existence of this node tells the two apart in a `multi`.
std::string TopicIdPath(std::string_view topic, const Uuid& id);
std::string PartitionPath(std::string_view topic, int32_t partition);
std::string ReplicasPath(std::string_view topic, int32_t partition);
std::string IsrPath(std::string_view topic, int32_t partition);
std::string LeaderPath(std::string_view topic, int32_t partition);  // ephemeral
std::string ReassignedTopicPath(std::string_view topic);
std::string ReassignedPath(std::string_view topic, int32_t partition);

// What a path under /brokers is.
struct Node {
  enum class Kind : uint8_t {
    kOther,  // nothing that is read: parents without data, other brokers' queues, ids of topics,
             // foreign nodes
    kBrokerIds,
    kBroker,
    kTopics,
    kTopic,
    kPartition,
    kReplicas,
    kIsr,
    kLeader,
    kReassignedTopics,
    kReassignedTopic,
    kReassigned,
    kQueue,        // /brokers/state/[b]
    kStateChange,  // ... /request-N
  };
  Kind kind = Kind::kOther;
  BrokerId broker;    // kBroker, kQueue, kStateChange
  std::string topic;  // of what belongs to one
  int32_t partition = -1;
};
Node ParseNode(std::string_view path);

// ---- Records -----------------------------------------------------------------------------------

struct BrokerRecord {  // /brokers/ids/[b]
  std::string host;
  uint16_t port = 0;
  std::string rack;
  // Registered, and the incarnation is not yet on the broker's disk: it gets no replicas (Kafka's
  // word; here it is of the registration, and the broker itself takes it away).
  bool fenced = false;
  bool operator==(const BrokerRecord&) const = default;
};
struct TopicRecord {  // /brokers/topics/[t]
  Uuid id;
  std::map<std::string, std::string> configs;
  bool deleting = false;
  // The incarnation that is still creating it, in more than one multi; the topic does not exist for
  // anybody yet. 0: it is complete.
  BrokerEpoch creator;
  bool operator==(const TopicRecord&) const = default;
};
struct ReplicasRecord {  // .../replicas
  std::vector<BrokerId> replicas;
  std::vector<BrokerId> adding;
  std::vector<BrokerId> removing;
  bool operator==(const ReplicasRecord&) const = default;
};
struct IsrRecord {           // .../isr
  LeaderEpoch leader_epoch;  // the last one that was given out
  std::vector<IsrMember> isr;
  bool operator==(const IsrRecord&) const = default;
};
struct LeaderRecord {  // .../leader
  BrokerId broker;
  LeaderEpoch epoch;
  bool operator==(const LeaderRecord&) const = default;
};
struct ReassignedRecord {  // /brokers/partitions_reassigned/[t]/[p]: the seed's RAR
  std::vector<BrokerId> replicas;
  bool operator==(const ReassignedRecord&) const = default;
};
// /brokers/lineage/[b]: the incarnations of a broker whose acknowledged data its logs hold,
// ascending. A member of an ISR of one of these is this broker with nothing lost. One number on the
// broker's disk is not enough: a broker that restarts twice before its leader has noticed would no
// longer be the member that it was.
struct LineageRecord {
  static constexpr size_t kMax = 256;  // the newest are kept
  std::vector<BrokerEpoch> incarnations;
  bool operator==(const LineageRecord&) const = default;
};

std::string Encode(const BrokerRecord& record);
std::string Encode(const TopicRecord& record);
std::string Encode(const ReplicasRecord& record);
std::string Encode(const IsrRecord& record);
std::string Encode(const LeaderRecord& record);
std::string Encode(const ReassignedRecord& record);
std::string Encode(const LineageRecord& record);

// Unknown members are ignored: a later version may add some. Lists are bounded, brokers not
// negative and not repeated.
absl::StatusOr<BrokerRecord> DecodeBroker(std::string_view text);
absl::StatusOr<TopicRecord> DecodeTopic(std::string_view text);
absl::StatusOr<ReplicasRecord> DecodeReplicas(std::string_view text);
absl::StatusOr<IsrRecord> DecodeIsr(std::string_view text);
absl::StatusOr<LeaderRecord> DecodeLeader(std::string_view text);
absl::StatusOr<ReassignedRecord> DecodeReassigned(std::string_view text);
absl::StatusOr<LineageRecord> DecodeLineage(std::string_view text);

// ---- Transitions -------------------------------------------------------------------------------

// One `multi`, under construction. Owns what the request's views point to.
class Transition {
 public:
  Transition& Create(std::string path, std::string data, bool ephemeral = false);
  Transition& CreateSequential(std::string path, std::string data);
  Transition& Delete(std::string path, int32_t version = coordination::kAnyVersion);
  Transition& SetData(std::string path, std::string data, int32_t version);
  Transition& Check(std::string path, int32_t version);
  size_t size() const { return operations_.size(); }
  // Views into this object.
  coordination::MultiRequest Request() const;

 private:
  struct Operation {
    coordination::OpCode op;
    std::string path;
    Bytes data;
    int32_t version = coordination::kAnyVersion;
    int32_t flags = 0;
  };
  std::vector<Operation> operations_;
};

// Of one multi: what a frame of 1 MB, ZooKeeper's default, holds with room to spare.
inline constexpr size_t kTransitionOperationsMax = 500;

// kOk, or the error of the operation because of which the multi was refused.
coordination::ErrorCode ErrorOf(const coordination::MultiResponse& response);

}  // namespace lockstep::replication
