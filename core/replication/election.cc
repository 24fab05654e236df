#include "core/replication/election.h"

#include <algorithm>

namespace lockstep::replication {

bool Retains(const Candidate& candidate, const IsrMember& member) {
  if (member.broker != candidate.broker) return false;
  return member.incarnation == candidate.incarnation ||
         std::find(candidate.lineage.begin(), candidate.lineage.end(), member.incarnation) !=
             candidate.lineage.end();
}

std::optional<ElectionPlan> PlanElection(const PartitionState& state, const Candidate& self,
                                         const std::function<BrokerEpoch(BrokerId)>& registered,
                                         bool unclean_allowed, uint32_t min_insync_replicas,
                                         const Rules& rules) {
  auto member_of = [&](BrokerId broker) {
    return std::find_if(state.isr.begin(), state.isr.end(),
                        [&](const IsrMember& member) { return member.broker == broker; });
  };
  if (std::find(state.replicas.begin(), state.replicas.end(), self.broker) ==
      state.replicas.end()) {
    return std::nullopt;
  }
  const auto own = member_of(self.broker);
  bool clean = own != state.isr.end();
  // Before the first leader there was nothing to lose. The incarnation that was there when the
  // topic was made may have died before it could record itself, and no other would ever be elected.
  const bool untouched = state.leader_epoch.value < 0;
  if (clean && rules.elect_retained_incarnation_only) clean = untouched || Retains(self, *own);
  if (!rules.elect_from_isr_only) clean = true;
  if (!clean && !unclean_allowed) return std::nullopt;

  ElectionPlan plan;
  plan.unclean = !clean;
  for (BrokerId broker : state.replicas) {
    const bool in_isr = member_of(broker) != state.isr.end();
    // Whether a restarted member has kept its data only it can tell: it is given its time.
    if (broker != self.broker && in_isr && registered(broker)) ++plan.rank;
    if (broker == self.broker && clean) break;
  }
  if (!clean) {
    // After all members of the ISR, the replicas in their order.
    for (BrokerId broker : state.replicas) {
      if (broker == self.broker) break;
      if (member_of(broker) == state.isr.end() && registered(broker)) ++plan.rank;
    }
    ++plan.rank;
    plan.isr = {{self.broker, self.incarnation}};
    return plan;
  }

  std::vector<IsrMember> live;
  plan.isr.push_back({self.broker, self.incarnation});
  live = plan.isr;
  for (const IsrMember& member : state.isr) {
    if (member.broker == self.broker) continue;
    plan.isr.push_back(member);
    if (registered(member.broker)) live.push_back(member);
  }
  // More than there are replicas cannot be asked for; the leader counts so, too.
  const size_t least = std::min<size_t>(min_insync_replicas, state.replicas.size());
  if (live.size() >= least) plan.isr = std::move(live);
  std::sort(plan.isr.begin(), plan.isr.end());
  return plan;
}

}  // namespace lockstep::replication
