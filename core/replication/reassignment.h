// Reassignment of a partition's replicas, its decisions: the seed's onPartitionsReassigned,
// checkReassignedReplicas and completePartitionReassignment. Everything that it needs is in the
// znodes, so that any leader goes on where another stopped (S16, S36, S38):
//   requested, nothing adding or removing    -> begin: AR becomes RAR + the old AR
//   requested, all of RAR in the ISR         -> complete: AR becomes RAR, the rest leaves the ISR
//   not requested, but adding or removing    -> it was cancelled: AR becomes the old AR
#pragma once

#include <optional>
#include <vector>

#include "core/replication/ids.h"
#include "core/replication/partition.h"

namespace lockstep::replication {

struct ReassignmentStep {
  enum class Kind : uint8_t { kBegin, kComplete, kCancel };
  Kind kind{};
  std::vector<BrokerId> replicas;  // AR afterwards
  std::vector<BrokerId> adding;
  std::vector<BrokerId> removing;
  std::vector<IsrMember> isr;    // afterwards; changed only by kComplete and kCancel
  std::vector<BrokerId> closed;  // whose replicas are to be closed once this is durable
  bool leader_leaves = false;    // the leader is among them
  bool operator==(const ReassignmentStep&) const = default;
};

// What the leader of `state` does next. `requested`: RAR, if /brokers/partitions_reassigned has the
// partition. Nothing: wait, or nothing is under way.
std::optional<ReassignmentStep> NextReassignmentStep(
    const PartitionState& state, const std::optional<std::vector<BrokerId>>& requested);

// AR before the reassignment that is under way; AR itself if there is none.
std::vector<BrokerId> OriginalReplicas(const PartitionState& state);

}  // namespace lockstep::replication
