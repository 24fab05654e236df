#include "core/replication/invariants.h"

#include <algorithm>

#include "core/base/check.h"

namespace lockstep::replication {

void CheckReplica(const Rules& rules, const Replica& replica) {
  // R1. A log does not end before it begins, and nothing is durable that it does not hold.
  LS_CHECK_LE(replica.log_start(), replica.durable_end());
  LS_CHECK_LE(replica.durable_end(), replica.log_end());
  if (replica.settled()) LS_CHECK_EQ(replica.durable_end(), replica.log_end());
  // R2. What is committed is durable here, as far as it is known here: the high watermark lies
  // between the log's start and its durable end.
  if (rules.bound_high_watermark_by_log_end && rules.keep_high_watermark_on_election &&
      rules.leader_counts_durable_only) {
    LS_CHECK_LE(replica.log_start(), replica.high_watermark());
    LS_CHECK_LE(replica.high_watermark(), replica.durable_end());
  }
  // R3. Epochs begin within the log.
  const auto& epochs = replica.epochs().entries();
  if (!epochs.empty()) LS_CHECK_LE(epochs.back().start, replica.log_end());
}

void CheckLeader(const Rules& rules, const PartitionState& state, const Replica& replica,
                 const Leader& leader) {
  // R4. A leader appends in its own epoch.
  LS_CHECK_EQ(replica.epochs().latest().value, state.leader_epoch.value);
  LS_CHECK_LE(leader.epoch_start(), replica.log_end());
  // R5. Nobody who may be in the ISR is left out when the high watermark moves.
  if (rules.wait_for_maximal_isr) {
    for (const IsrMember& member : leader.isr().maximal()) {
      const auto& counted = leader.isr().counted();
      LS_CHECK(std::binary_search(counted.begin(), counted.end(), member.broker));
    }
  }
}

}  // namespace lockstep::replication
