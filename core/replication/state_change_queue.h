// The seed's state-change queues, /brokers/state/[broker]/request-N: what a leader asks of the
// brokers that host its partition's replicas.
//
// A request is acted upon and then deleted, so it may be seen twice, and all of them are
// idempotent. What is lost (a full queue) costs time, never safety: every broker reconciles what it
// hosts with the assignment it reads (S1, S11, S28).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/uuid.h"
#include "core/replication/ids.h"

namespace lockstep::replication {

struct StateChange {
  enum class Kind : uint8_t { kStartReplica, kCloseReplica };
  Kind kind = Kind::kStartReplica;
  std::string topic;
  PartitionId partition;
  LeaderEpoch epoch;  // of the leader that asks
  bool operator==(const StateChange&) const = default;
};

// One znode carries what one leader has to say at one time: after the death of a broker with
// thousands of partitions, a znode for each would be the slowest part of the fail-over.
inline constexpr size_t kStateChangesMax = 1000;
std::string EncodeStateChanges(const std::vector<StateChange>& changes);
absl::StatusOr<std::vector<StateChange>> DecodeStateChanges(std::string_view text);

// Keeps the newest close-replica of each partition, in the order of the queue, and no
// start-replica: a broker that was away for long finds out by itself what to start.
std::vector<StateChange> ShrinkStateChanges(const std::vector<StateChange>& queue);

}  // namespace lockstep::replication
