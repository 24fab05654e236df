#include "core/replication/partition.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/replication/follower.h"
#include "core/replication/invariants.h"
#include "core/replication/leader.h"
#include "core/replication/replica.h"

namespace lockstep::replication {

void PartitionOutput::Clear() { *this = {}; }

class Partition::Impl {
 public:
  Impl(const PartitionOptions& options, const PartitionState& state,
       const storage::RecoveredLog& log)
      : options(options),
        state(state),
        replica(this->options.rules, log),
        leader(this->options, &this->state, &replica),
        follower(this->options, &this->state, &replica) {}

  void Ignore(const char* reason, PartitionOutput* output) const {
    output->events.push_back({.kind = EventKind::kIgnored,
                              .detail = static_cast<uint64_t>(state.leader_epoch.value),
                              .reason = reason});
  }
  // What was said to lead or to follow, `next`, is older than what is known already.
  bool IsStale(const PartitionState& next, PartitionOutput* output) const {
    if (next.leader_epoch >= state.leader_epoch) return false;
    Ignore("stale-leader-epoch", output);
    return true;
  }
  void LeaveRole(PartitionOutput* output) {
    if (role == Role::kLeader) leader.End(output);
    role = Role::kIdle;
  }
  // At the end of every step. In the seed, a produce could be answered under whatever leader.
  void Finish(PartitionOutput* output) {
    if (!options.rules.bind_acks_to_leader_epoch) leader.AnswerCommitted(output);
    CheckReplica(options.rules, replica);
    if (role == Role::kLeader) CheckLeader(options.rules, state, replica, leader);
  }
  // The parts of `next` that are newer. The leader epoch is the known one.
  void Learn(Instant now, const PartitionState& next, PartitionOutput* output) {
    const int32_t known = state.replicas_version;
    if (next.replicas_version > known) {
      state.replicas = next.replicas;
      state.adding = next.adding;
      state.removing = next.removing;
      state.replicas_version = next.replicas_version;
    }
    if (next.isr_version > state.isr_version) {
      state.isr = next.isr;
      state.isr_version = next.isr_version;
    }
    if (role == Role::kLeader) leader.OnStateChanged(now, known, output);
  }

  PartitionOptions options;
  PartitionState state;
  Role role = Role::kIdle;
  Replica replica;
  Leader leader;
  replication::Follower follower;
  LeaderEpoch led;         // the last leadership of this object's
  BrokerId former_leader;  // whom this replica took its history from last: itself, if it led
};

Partition::Partition(const PartitionOptions& options, const PartitionState& state,
                     const storage::RecoveredLog& log)
    : impl_(std::make_unique<Impl>(options, state, log)) {}
Partition::~Partition() = default;

// ---- Roles --------------------------------------------------------------------------------------

void Partition::BecomeLeader(Instant now, const PartitionState& state, BrokerEpoch incarnation,
                             PartitionOutput* output) {
  Impl& own = *impl_;
  LS_CHECK(state.leader == own.options.broker);
  if (own.IsStale(state, output)) return;
  if (own.role == Role::kLeader && state.leader_epoch == own.state.leader_epoch) {
    return Update(now, state, output);
  }
  // One leadership ends once. What it acknowledged, and to whom it said it would not, is settled.
  if (state.leader_epoch == own.led) return own.Ignore("leadership-has-ended", output);
  // The coordination service has forgotten leaderships: whatever we would append, followers refuse.
  if (state.leader_epoch < own.replica.epochs().latest()) {
    return own.Ignore("log-has-a-later-epoch", output);
  }
  own.LeaveRole(output);
  own.state = state;
  own.led = state.leader_epoch;
  own.former_leader = own.options.broker;
  own.role = Role::kLeader;
  output->events.push_back({.kind = EventKind::kPartitionLeading,
                            .detail = static_cast<uint64_t>(state.leader_epoch.value)});
  own.leader.Begin(now, incarnation, output);
  own.Finish(output);
}

void Partition::BecomeFollower(Instant now, const PartitionState& state, PartitionOutput* output) {
  Impl& own = *impl_;
  LS_CHECK(state.leader && *state.leader != own.options.broker);
  if (own.IsStale(state, output)) return;
  if (own.role == Role::kFollower && state.leader_epoch == own.state.leader_epoch) {
    return Update(now, state, output);
  }
  own.LeaveRole(output);
  own.state = state;
  own.role = Role::kFollower;
  output->events.push_back({.kind = EventKind::kPartitionFollowing,
                            .peer = {static_cast<uint32_t>(state.leader->value)},
                            .detail = static_cast<uint64_t>(state.leader_epoch.value)});
  own.follower.Begin(std::exchange(own.former_leader, *state.leader), output);
  own.Finish(output);
}

void Partition::Resign(Instant, PartitionOutput* output) {
  Impl& own = *impl_;
  if (own.role == Role::kIdle) return;
  own.LeaveRole(output);
  output->events.push_back({.kind = EventKind::kPartitionResigned,
                            .detail = static_cast<uint64_t>(own.state.leader_epoch.value)});
  own.Finish(output);
}

void Partition::Update(Instant now, const PartitionState& state, PartitionOutput* output) {
  Impl& own = *impl_;
  if (state.leader_epoch != own.state.leader_epoch) {
    return own.Ignore("update-of-another-epoch", output);
  }
  own.Learn(now, state, output);
  own.Finish(output);
}

void Partition::Configure(Instant now, Duration keep_in_sync_time, uint32_t min_insync_replicas,
                          PartitionOutput* output) {
  Impl& own = *impl_;
  own.options.keep_in_sync_time = keep_in_sync_time;
  own.options.min_insync_replicas = min_insync_replicas;
  if (own.role == Role::kLeader) own.leader.OnConfigured(now, output);
  own.Finish(output);
}

// ---- Leader -------------------------------------------------------------------------------------

bool Partition::Produce(Instant now, ProduceId id, Acks acks, Instant deadline,
                        std::vector<Bytes> batch, int32_t records, PartitionOutput* output) {
  Impl& own = *impl_;
  if (own.role != Role::kLeader) {
    output->produces_done.push_back({.id = id, .error = ProduceError::kNotLeader});
    return false;
  }
  const bool appended =
      own.leader.Produce(now, id, acks, deadline, std::move(batch), records, output);
  own.Finish(output);
  return appended;
}

Partition::FetchDecision Partition::OnFetch(Instant now, BrokerId follower, BrokerEpoch incarnation,
                                            bool incarnation_registered,
                                            const ReplicaFetchRequest::Entry& entry,
                                            PartitionOutput* output) {
  Impl& own = *impl_;
  if (own.role != Role::kLeader) return {.error = FetchError::kNotLeader, .news = true};
  const FetchDecision decision =
      own.leader.OnFetch(now, follower, incarnation, incarnation_registered, entry, output);
  own.Finish(output);
  return decision;
}

void Partition::OnFetchAnswered(Instant now, BrokerId follower) {
  if (impl_->role == Role::kLeader) impl_->leader.OnFetchAnswered(now, follower);
}

void Partition::OnBrokerGone(Instant now, BrokerId broker, PartitionOutput* output) {
  Impl& own = *impl_;
  if (own.role != Role::kLeader) return;
  own.leader.OnBrokerGone(now, broker, output);
  own.Finish(output);
}

void Partition::OnIsrChange(Instant now, LeaderEpoch leader_epoch, Outcome outcome, int32_t version,
                            PartitionOutput* output) {
  Impl& own = *impl_;
  if (own.role != Role::kLeader || leader_epoch != own.state.leader_epoch) {
    return own.Ignore("isr-change-of-another-epoch", output);
  }
  own.leader.OnIsrChange(now, outcome, version, output);
  own.Finish(output);
}

// ---- Follower -----------------------------------------------------------------------------------

std::optional<ReplicaFetchRequest::Entry> Partition::NextFetch() const {
  if (impl_->role != Role::kFollower) return std::nullopt;
  return impl_->follower.NextFetch();
}

void Partition::OnFetchResponse(Instant now, BrokerId leader,
                                const ReplicaFetchResponse::Entry& entry, PartitionOutput* output) {
  Impl& own = *impl_;
  if (own.role != Role::kFollower) return own.Ignore("response-to-no-follower", output);
  own.follower.OnFetchResponse(now, leader, entry, output);
  own.Finish(output);
}

// ---- Both ---------------------------------------------------------------------------------------

void Partition::OnPersisted(Instant now, PartitionOutput* output) {
  Impl& own = *impl_;
  own.replica.OnPersisted();
  if (own.role == Role::kLeader) own.leader.OnPersisted(now, output);
  if (own.role == Role::kFollower) own.follower.OnPersisted(output);
  own.Finish(output);
}

void Partition::SetLogStart(Instant, Offset start, PartitionOutput* output) {
  Impl& own = *impl_;
  LS_CHECK_LE(start, own.replica.high_watermark());
  if (start == own.replica.log_start()) return;
  own.replica.StartAt(start, output);
  own.Finish(output);
}

void Partition::OnWake(Instant now, PartitionOutput* output) {
  Impl& own = *impl_;
  if (own.role == Role::kLeader) own.leader.OnWake(now, output);
  if (own.role == Role::kFollower) own.follower.OnWake(now, output);
  own.Finish(output);
}

Instant Partition::next_deadline() const {
  switch (impl_->role) {
    case Role::kIdle:
      return Instant::Never();
    case Role::kFollower:
      return impl_->follower.next_deadline();
    case Role::kLeader:
      return impl_->leader.next_deadline();
  }
  LS_UNREACHABLE();
}

// ---- For others to read -------------------------------------------------------------------------

Role Partition::role() const { return impl_->role; }
LeaderEpoch Partition::leader_epoch() const { return impl_->state.leader_epoch; }
Offset Partition::log_start() const { return impl_->replica.log_start(); }
Offset Partition::log_end() const { return impl_->replica.log_end(); }
Offset Partition::durable_end() const { return impl_->replica.durable_end(); }
Offset Partition::high_watermark() const { return impl_->replica.high_watermark(); }

bool Partition::high_watermark_is_current() const {
  return impl_->role == Role::kLeader && high_watermark() >= impl_->leader.epoch_start();
}

std::optional<ReplicaFetchResponse::Diverging> Partition::EndOfEpoch(LeaderEpoch epoch) const {
  const auto end = impl_->replica.epochs().EndOffsetFor(epoch, log_end(), true);
  if (!end) return std::nullopt;
  return ReplicaFetchResponse::Diverging{.epoch = end->epoch, .end = end->end};
}

const std::vector<storage::EpochStart>& Partition::epochs() const {
  return impl_->replica.epochs().entries();
}
const PartitionState& Partition::state() const { return impl_->state; }

std::vector<Partition::Follower> Partition::followers() const {
  std::vector<Follower> all;
  if (impl_->role != Role::kLeader) return all;
  for (const auto& [broker, progress] : impl_->leader.followers()) {
    all.push_back({.broker = broker,
                   .log_end = progress.log_end(),
                   .caught_up = progress.known() && progress.log_end() >= log_end()});
  }
  return all;
}

std::vector<IsrMember> Partition::maximal_isr() const {
  return impl_->role == Role::kLeader ? impl_->leader.isr().maximal() : impl_->state.isr;
}

}  // namespace lockstep::replication
