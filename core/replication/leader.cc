#include "core/replication/leader.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "core/base/check.h"
#include "core/base/event.h"

namespace lockstep::replication {
namespace {

// So that brokers can stand in an event. Broker 0 is not shown.
ServerId PeerOf(BrokerId broker) { return {static_cast<uint32_t>(broker.value)}; }

constexpr int32_t kAnyAssignment = std::numeric_limits<int32_t>::min();

}  // namespace

void Leader::Begin(Instant now, BrokerEpoch incarnation, PartitionOutput* output) {
  own_ = {options_.broker, incarnation};
  isr_.Reset(state_.isr, state_.isr_version);
  // What followers acknowledged to an earlier leadership of ours, they may have truncated since.
  if (options_.rules.forget_followers_on_election) followers_.clear();
  AddFollowers(now, state_.replicas_version - 1);
  if (replica_.epochs().latest() < state_.leader_epoch) {
    replica_.AssignEpoch(state_.leader_epoch, output);
  }
  epoch_start_ = replica_.epochs().StartOf(state_.leader_epoch).value_or(replica_.log_end());
  // The seed's `r.hw = r.leo`.
  if (!options_.rules.keep_high_watermark_on_election) {
    replica_.RaiseHighWatermark(replica_.log_end(), output);
  }
  AdvanceHighWatermark(now, output);
  MaintainIsr(now, output);
}

void Leader::End(PartitionOutput* output) {
  // Later, the high watermark may pass these offsets with records of another leader.
  if (!options_.rules.bind_acks_to_leader_epoch) return;
  if (waiting() > 0) {
    output->events.push_back({.kind = EventKind::kProducesFailed, .detail = waiting()});
  }
  Fail(&commits_, ProduceError::kNotLeader, output);
  Fail(&writes_, ProduceError::kNotLeader, output);
  deadlines_.clear();
}

// ---- Produce ------------------------------------------------------------------------------------

bool Leader::Produce(Instant now, ProduceId id, Acks acks, Instant deadline,
                     std::vector<Bytes> batch, int32_t records, PartitionOutput* output) {
  LS_CHECK_GT(records, 0);
  if (acks == Acks::kAll && below_min_isr()) {
    output->produces_done.push_back({.id = id, .error = ProduceError::kNotEnoughReplicas});
    return false;
  }
  if (waiting() >= options_.pending_produces_max) {
    output->produces_done.push_back({.id = id, .error = ProduceError::kOverloaded});
    return false;
  }
  const Offset base = replica_.log_end();
  const Offset end = base + records;
  replica_.Append(std::move(batch), end, {}, output);
  output->data_appended = true;
  if (acks == Acks::kNone) {
    output->produces_done.push_back({.id = id, .base_offset = base});
  } else {
    const std::pair<Offset, ProduceId> key{end, id};
    (acks == Acks::kAll ? commits_ : writes_)
        .insert({key, {.id = id, .base = base, .deadline = deadline}});
    deadlines_.insert({deadline, acks == Acks::kAll, key});
  }
  if (!options_.rules.leader_counts_durable_only) AdvanceHighWatermark(now, output);
  return true;
}

void Leader::AnswerCommitted(PartitionOutput* output) {
  Answer(&commits_, replica_.high_watermark(), output);
}

void Leader::Answer(Queue* queue, Offset end, PartitionOutput* output) {
  while (!queue->empty() && queue->begin()->first.first <= end) {
    const auto& [key, waiting] = *queue->begin();
    output->produces_done.push_back({.id = waiting.id, .base_offset = waiting.base});
    deadlines_.erase({waiting.deadline, queue == &commits_, key});
    queue->erase(queue->begin());
  }
}

void Leader::Fail(Queue* queue, ProduceError error, PartitionOutput* output) {
  for (const auto& [key, waiting] : *queue) {
    output->produces_done.push_back({.id = waiting.id, .error = error});
  }
  queue->clear();
}

// ---- Fetch --------------------------------------------------------------------------------------

Partition::FetchDecision Leader::Refuse(BrokerId follower, FetchError error,
                                        PartitionOutput* output) {
  output->events.push_back(
      {.kind = EventKind::kFetchRefused, .peer = PeerOf(follower), .reason = ToString(error)});
  return {.error = error, .news = true};
}

Partition::FetchDecision Leader::OnFetch(Instant now, BrokerId follower, BrokerEpoch incarnation,
                                         bool incarnation_registered,
                                         const ReplicaFetchRequest::Entry& entry,
                                         PartitionOutput* output) {
  const Rules& rules = options_.rules;
  const auto found = followers_.find(follower);
  if (found == followers_.end()) return Refuse(follower, FetchError::kNotReplica, output);
  if (rules.fence_fetches_by_leader_epoch && entry.leader_epoch != state_.leader_epoch) {
    return Refuse(follower,
                  entry.leader_epoch < state_.leader_epoch ? FetchError::kFencedLeaderEpoch
                                                           : FetchError::kUnknownLeaderEpoch,
                  output);
  }
  if (rules.fence_followers_by_incarnation &&
      (!incarnation_registered || incarnation < found->second.incarnation())) {
    return Refuse(follower, FetchError::kStaleIncarnation, output);
  }
  // Before histories are compared: what it would be compared with is gone.
  if (entry.fetch_offset < replica_.log_start() || HasNothingInCommon(follower, entry)) {
    return Refuse(follower, FetchError::kOffsetOutOfRange, output);
  }
  if (const auto diverging = Diverging(entry)) {
    output->events.push_back({.kind = EventKind::kHistoryDiverged,
                              .peer = PeerOf(follower),
                              .detail = static_cast<uint64_t>(diverging->end)});
    if (!rules.diverging_fetch_acknowledges_nothing) {
      Acknowledge(now, follower, incarnation, entry, output);
    }
    return {.diverging = diverging, .news = true};
  }
  Acknowledge(now, follower, incarnation, entry, output);
  const Offset end = entry.fetch_offset;
  return {.read_from = end,
          .news = end < replica_.log_end() ||
                  entry.high_watermark < std::min(replica_.high_watermark(), end) ||
                  entry.log_start < std::min(replica_.log_start(), end)};
}

// All of the follower's records are of epochs before our first one, and it has some where we have
// ours. What is below our log's start cannot be compared any more, and our start, where the
// follower would have to cut, may lie within a batch of its log. If it ends just there, none of its
// records will be read; but what it knows of their producers may be of another history than ours,
// unless it is in the ISR, and so had all of ours.
bool Leader::HasNothingInCommon(BrokerId follower, const ReplicaFetchRequest::Entry& entry) const {
  const auto& epochs = replica_.epochs().entries();
  if (!options_.rules.answer_largest_epoch_not_above || entry.last_fetched_epoch.value < 0 ||
      epochs.empty() || entry.last_fetched_epoch.value >= epochs.front().epoch) {
    return false;
  }
  if (entry.fetch_offset > epochs.front().start) return true;
  const bool in_sync =
      std::any_of(state_.isr.begin(), state_.isr.end(),
                  [&](const IsrMember& member) { return member.broker == follower; });
  return entry.fetch_offset == epochs.front().start && !in_sync;
}

std::optional<ReplicaFetchResponse::Diverging> Leader::Diverging(
    const ReplicaFetchRequest::Entry& entry) const {
  const Offset log_end = replica_.log_end();
  std::optional<LeaderEpochs::End> end;
  if (entry.last_fetched_epoch.value >= 0) {
    end = replica_.epochs().EndOffsetFor(entry.last_fetched_epoch, log_end,
                                         options_.rules.answer_largest_epoch_not_above);
  }
  if (!end) {
    // An empty log says nothing that could part from ours, but may begin above our end.
    if (entry.fetch_offset <= log_end) return std::nullopt;
    return ReplicaFetchResponse::Diverging{.epoch = {}, .end = log_end};
  }
  if (end->epoch == entry.last_fetched_epoch && end->end >= entry.fetch_offset) return std::nullopt;
  return ReplicaFetchResponse::Diverging{.epoch = end->epoch, .end = end->end};
}

void Leader::Acknowledge(Instant now, BrokerId follower, BrokerEpoch incarnation,
                         const ReplicaFetchRequest::Entry& entry, PartitionOutput* output) {
  FollowerProgress& progress = followers_.find(follower)->second;
  if (options_.rules.refuse_fetches_of_former_assignments &&
      entry.replicas_version < progress.assigned_at()) {
    output->events.push_back({.kind = EventKind::kIgnored,
                              .peer = PeerOf(follower),
                              .reason = "fetch-of-a-former-assignment"});
    return;
  }
  progress.OnFetch(now, incarnation, entry.fetch_offset, replica_.log_end());
  AdvanceHighWatermark(now, output);
  MaybeExpand(now, follower, output);
}

void Leader::OnFetchAnswered(Instant now, BrokerId follower) {
  const auto found = followers_.find(follower);
  if (found != followers_.end()) found->second.OnAnswered(now);
}

void Leader::OnBrokerGone(Instant now, BrokerId broker, PartitionOutput* output) {
  const auto found = followers_.find(broker);
  if (found == followers_.end()) return;
  // What it has acknowledged counts no more; when it comes back it joins as any other does.
  found->second = FollowerProgress(now, /*in_sync=*/false, found->second.assigned_at());
  MaintainIsr(now, output);
}

// ---- High watermark -----------------------------------------------------------------------------

bool Leader::below_min_isr() const {
  // A topic with fewer replicas than its minimum could never be written to.
  const size_t least = std::min<size_t>(options_.min_insync_replicas, state_.replicas.size());
  return isr_.smallest_size() < least;
}

void Leader::AdvanceHighWatermark(Instant now, PartitionOutput* output) {
  const Rules& rules = options_.rules;
  now_ = now;
  // What only the last replica standing has is not committed, since that one may lose it.
  if (rules.freeze_high_watermark_below_min_isr && below_min_isr()) return;
  Offset low = rules.leader_counts_durable_only ? replica_.durable_end() : replica_.log_end();
  for (BrokerId broker : isr_.counted()) {
    if (broker == options_.broker) continue;
    const auto found = followers_.find(broker);
    if (found == followers_.end() || !found->second.known()) return;
    low = std::min(low, found->second.log_end());
  }
  // A follower that keeps up but has not joined yet is waited for, or a high watermark that moves
  // all the time would never let it in. When it falls behind, nobody waits any more.
  for (const auto& [broker, progress] : followers_) {
    if (progress.known() &&
        progress.CaughtUp(now, replica_.log_end(), options_.keep_in_sync_time)) {
      low = std::min(low, progress.log_end());
    }
  }
  replica_.RaiseHighWatermark(low, output);
  AnswerCommitted(output);
}

// ---- ISR ----------------------------------------------------------------------------------------

bool Leader::IsMember(BrokerId broker) const {
  const auto& isr = isr_.committed();
  return std::any_of(isr.begin(), isr.end(),
                     [&](const IsrMember& member) { return member.broker == broker; });
}

void Leader::EmitIsrChange(const std::vector<IsrMember>& members, PartitionOutput* output) {
  output->isr_change = {.leader_epoch = state_.leader_epoch,
                        .from_version = isr_.version(),
                        .replicas_version = state_.replicas_version,
                        .isr = members};
}

void Leader::MaybeExpand(Instant now, BrokerId follower, PartitionOutput* output) {
  if (!isr_.may_change(now)) return;
  FollowerProgress& progress = followers_.find(follower)->second;
  const IsrMember joining{follower, progress.incarnation()};
  std::vector<IsrMember> members = isr_.committed();
  if (std::binary_search(members.begin(), members.end(), joining)) return;
  // It must have what is committed. Our high watermark may be behind what was committed before us;
  // that was all below where our epoch begins. KAFKA-7128.
  if (progress.log_end() < replica_.high_watermark()) return;
  if (options_.rules.join_isr_at_epoch_start && progress.log_end() < epoch_start_) return;
  std::erase_if(members, [&](const IsrMember& member) { return member.broker == follower; });
  members.insert(std::lower_bound(members.begin(), members.end(), joining), joining);
  output->events.push_back(
      {.kind = EventKind::kIsrExpand, .peer = PeerOf(follower), .detail = members.size()});
  progress.OnJoin(now);
  isr_.Propose(members);
  EmitIsrChange(members, output);
  AdvanceHighWatermark(now, output);
}

// Removes those who have fallen behind, names our own incarnation, and, after an unknown outcome,
// writes what it should be, even if that is what it was: then it is known.
void Leader::MaintainIsr(Instant now, PartitionOutput* output) {
  if (!isr_.may_change(now)) return;
  std::vector<IsrMember> members;
  std::optional<BrokerId> first;  // that is not as it should be
  for (const IsrMember& member : isr_.committed()) {
    if (member.broker == own_.broker) {
      members.push_back(own_);
      if (member != own_ && !first) first = member.broker;
      continue;
    }
    const auto found = followers_.find(member.broker);
    if (found != followers_.end() &&
        found->second.CaughtUp(now, replica_.log_end(), options_.keep_in_sync_time)) {
      members.push_back(member);
    } else if (!first) {
      first = member.broker;
    }
  }
  if (!first && !isr_.unsettled()) return;
  if (members.empty()) {
    // We are no member any more (a reassignment has moved the partition away), and about to resign.
    isr_.Postpone(now);
    return;
  }
  if (first) {
    output->events.push_back(
        {.kind = *first == own_.broker ? EventKind::kIsrExpand : EventKind::kIsrShrink,
         .peer = PeerOf(*first),
         .detail = members.size()});
  }
  isr_.Propose(members);
  EmitIsrChange(members, output);
  AdvanceHighWatermark(now, output);
}

void Leader::OnIsrChange(Instant now, Partition::Outcome outcome, int32_t version,
                         PartitionOutput* output) {
  const int32_t from = isr_.version();
  if (!isr_.OnOutcome(now, outcome, version)) {
    output->events.push_back({.kind = EventKind::kIgnored, .reason = "no-isr-change-under-way"});
    return;
  }
  if (isr_.version() > from) {
    state_.isr = isr_.committed();
    state_.isr_version = isr_.version();
    output->events.push_back(
        {.kind = EventKind::kIsrChanged, .detail = static_cast<uint64_t>(isr_.version())});
  } else if (outcome != Partition::Outcome::kApplied) {
    output->events.push_back(
        {.kind = EventKind::kIsrChangeFailed,
         .detail = static_cast<uint64_t>(from),
         .reason = outcome == Partition::Outcome::kRefused ? "refused" : "unknown"});
  }
  AdvanceHighWatermark(now, output);
  MaintainIsr(now, output);
}

// ---- What others decide -------------------------------------------------------------------------

void Leader::AddFollowers(Instant now, int32_t known_replicas_version) {
  const auto& replicas = state_.replicas;
  absl::erase_if(followers_, [&](const auto& entry) {
    return std::find(replicas.begin(), replicas.end(), entry.first) == replicas.end();
  });
  // More than one change at once may have removed a replica, which deletes its log, and added it
  // again. Not one that is in the ISR: that takes an ISR change of this leader.
  const bool forget = options_.rules.refuse_fetches_of_former_assignments &&
                      state_.replicas_version > known_replicas_version + 1;
  for (BrokerId broker : replicas) {
    if (broker == options_.broker) continue;
    const bool member = IsMember(broker);
    if (forget && !member) followers_.erase(broker);
    followers_.try_emplace(broker, now, member, member ? kAnyAssignment : state_.replicas_version);
  }
}

void Leader::OnStateChanged(Instant now, int32_t known_replicas_version, PartitionOutput* output) {
  isr_.Learn(state_.isr, state_.isr_version);
  if (state_.replicas_version > known_replicas_version) AddFollowers(now, known_replicas_version);
  AdvanceHighWatermark(now, output);
  MaintainIsr(now, output);
}

void Leader::OnConfigured(Instant now, PartitionOutput* output) {
  AdvanceHighWatermark(now, output);
  MaintainIsr(now, output);
}

void Leader::OnPersisted(Instant now, PartitionOutput* output) {
  Answer(&writes_, replica_.durable_end(), output);
  AdvanceHighWatermark(now, output);
}

// ---- Time ---------------------------------------------------------------------------------------

void Leader::OnWake(Instant now, PartitionOutput* output) {
  MaintainIsr(now, output);
  // A follower that was waited for without being a member may have been given up.
  AdvanceHighWatermark(now, output);
  while (!deadlines_.empty() && std::get<Instant>(*deadlines_.begin()) <= now) {
    const auto [deadline, commit, key] = *deadlines_.begin();
    deadlines_.erase(deadlines_.begin());
    (commit ? commits_ : writes_).erase(key);
    output->produces_done.push_back({.id = key.second,
                                     .error = commit && below_min_isr()
                                                  ? ProduceError::kNotEnoughReplicasAfterAppend
                                                  : ProduceError::kTimedOut});
  }
}

Instant Leader::next_deadline() const {
  Instant next = isr_.unsettled() ? isr_.change_at() : Instant::Never();
  if (!deadlines_.empty()) next = std::min(next, std::get<Instant>(*deadlines_.begin()));
  const auto& members = isr_.committed();
  if (IsMember(own_.broker) && !std::binary_search(members.begin(), members.end(), own_)) {
    next = std::min(next, isr_.change_at());
  }
  for (const auto& [broker, progress] : followers_) {
    const auto until = progress.in_sync_until(replica_.log_end(), options_.keep_in_sync_time);
    if (IsMember(broker)) {
      if (until == Instant::Never()) continue;
      next = std::min(next, std::max(until.value_or(Instant{}) + Nanoseconds(1), isr_.change_at()));
    } else if (until && *until >= now_ && *until != Instant::Never()) {
      next = std::min(next, *until + Nanoseconds(1));
    }
  }
  return next;
}

}  // namespace lockstep::replication
