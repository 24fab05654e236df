#include "core/replication/reassignment.h"

#include <algorithm>

namespace lockstep::replication {
namespace {

using Brokers = std::vector<BrokerId>;

bool Contains(const Brokers& brokers, BrokerId broker) {
  return std::find(brokers.begin(), brokers.end(), broker) != brokers.end();
}

Brokers Minus(const Brokers& from, const Brokers& what) {
  Brokers rest;
  for (BrokerId broker : from) {
    if (!Contains(what, broker)) rest.push_back(broker);
  }
  return rest;
}

bool SameMembers(Brokers a, Brokers b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

// AR becomes `replicas`, and whoever is not among them leaves the ISR in the same write.
ReassignmentStep SwitchTo(ReassignmentStep::Kind kind, const PartitionState& state,
                          const Brokers& replicas) {
  ReassignmentStep step{.kind = kind, .replicas = replicas};
  for (const IsrMember& member : state.isr) {
    if (Contains(replicas, member.broker)) step.isr.push_back(member);
  }
  step.closed = Minus(state.replicas, replicas);
  step.leader_leaves = state.leader.has_value() && Contains(step.closed, *state.leader);
  return step;
}

}  // namespace

Brokers OriginalReplicas(const PartitionState& state) {
  return Minus(state.replicas, state.adding);
}

std::optional<ReassignmentStep> NextReassignmentStep(const PartitionState& state,
                                                     const std::optional<Brokers>& requested) {
  using Kind = ReassignmentStep::Kind;
  const bool under_way = !state.adding.empty() || !state.removing.empty();
  if (!requested.has_value()) {
    if (!under_way) return std::nullopt;
    ReassignmentStep step = SwitchTo(Kind::kCancel, state, OriginalReplicas(state));
    // The ISR is never empty: wait until one of the old replicas is in it again.
    if (step.isr.empty()) return std::nullopt;
    return step;
  }
  const Brokers original = OriginalReplicas(state);
  const Brokers adding = Minus(*requested, original);
  const Brokers removing = Minus(original, *requested);
  if (!SameMembers(adding, state.adding) || !SameMembers(removing, state.removing)) {
    // Not begun, or the request was replaced. Then replicas that only the old one would have added
    // leave, and must do so before others come: as a cancellation of its own.
    if (!Minus(state.adding, adding).empty()) {
      ReassignmentStep step = SwitchTo(Kind::kCancel, state, original);
      if (step.isr.empty()) return std::nullopt;
      return step;
    }
    ReassignmentStep step{.kind = Kind::kBegin,
                          .replicas = *requested,
                          .adding = adding,
                          .removing = removing,
                          .isr = state.isr};
    for (BrokerId broker : removing) step.replicas.push_back(broker);
    return step;
  }
  for (BrokerId broker : *requested) {
    const bool in_isr = std::any_of(state.isr.begin(), state.isr.end(),
                                    [&](const IsrMember& m) { return m.broker == broker; });
    // Replicas that stay need not be in sync, as long as those that come are.
    if (!in_isr && Contains(adding, broker)) return std::nullopt;
  }
  ReassignmentStep step = SwitchTo(Kind::kComplete, state, *requested);
  if (step.isr.empty()) return std::nullopt;
  return step;
}

}  // namespace lockstep::replication
