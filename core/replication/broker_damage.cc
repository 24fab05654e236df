// Replicas whose logs are damaged: a sector that cannot be read, bits that have changed, a write
// that went astray (docs/disk.md, "Damaged logs").
//
// What is left of such a log is worth less than nothing once somebody else has all of it: it would
// be elected, and could not serve what was acknowledged. So the replica is given up, as if its disk
// had been replaced, and made anew from the leader's log.
#include <algorithm>

#include "core/replication/broker_impl.h"

namespace lockstep::replication {

using coordination::ErrorCode;

void Broker::Impl::OnLogDamaged(Instant now, storage::LogNumber log, BrokerOutput* output) {
  Begin(now, output);
  for (auto& [id, hosted] : hosted_) {
    if (hosted.log != log || hosted.damaged) continue;
    hosted.damaged = true;
    to_consider_.insert(id);
  }
  End(now, output);
}

// Every member of the ISR has all that was ever committed. One that is not there now, or not as the
// incarnation that is in the ISR, may have lost it.
bool Broker::Impl::OthersHold(const PartitionState& state) const {
  return std::any_of(state.isr.begin(), state.isr.end(), [this](const IsrMember& member) {
    return member.broker != options_.broker && registered(member.broker) == member.incarnation;
  });
}

// In one transition this replica leaves the ISR, and the leadership, and the assignment becomes a
// newer one by two, which is what removing and adding a replica is: so whoever leads now or later
// forgets what this replica has acknowledged, and a late fetch of the log that is about to be
// deleted counts for nothing. Only then the log goes.
void Broker::Impl::GiveUp(Instant now, Hosted* hosted, const PartitionView& view,
                          BrokerOutput* output) {
  const PartitionState state = view.state;
  const int32_t partition = state.id.partition;
  Resign(now, hosted, output);
  fetcher_.Follow(hosted->id, std::nullopt);
  if (!options_.rules.leave_isr_before_giving_up) return Close(now, hosted, output);
  std::vector<IsrMember> isr = state.isr;
  std::erase_if(isr, [this](const IsrMember& member) { return member.broker == options_.broker; });
  const std::string replicas = Encode(ReplicasRecord{state.replicas, state.adding, state.removing});
  Transition transition;
  transition.SetData(IsrPath(state.topic, partition), Encode(IsrRecord{state.leader_epoch, isr}),
                     Guarded(state.isr_version));
  transition.SetData(ReplicasPath(state.topic, partition), replicas,
                     Guarded(state.replicas_version));
  transition.SetData(ReplicasPath(state.topic, partition), replicas,
                     Guarded(state.replicas_version + 1));
  if (state.leader == options_.broker) transition.Delete(LeaderPath(state.topic, partition));
  GuardTopic(state.topic, state.id.topic, &transition);
  hosted->writing = Hosted::Writing::kGivingUp;
  Multi(
      now, transition,
      [this, id = state.id](Instant then, ErrorCode error, const coordination::MultiResponse*,
                            BrokerOutput* out) {
        Hosted* of = FindHosted(id);
        if (of == nullptr) return;
        of->writing = Hosted::Writing::kNone;
        to_consider_.insert(id);
        Reread(then, id, out);
        if (error != ErrorCode::kOk) return;
        Emit(out, EventKind::kReplicaGivenUp, static_cast<uint64_t>(id.partition), "", {},
             LogName(of->topic, id.partition));
        Close(then, of, out);
      },
      output);
}

}  // namespace lockstep::replication
