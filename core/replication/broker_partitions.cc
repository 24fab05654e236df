// Replicas on this broker: their logs, their roles, and every transition of a partition's znodes.
//
// A decision is taken from a view of the partition that was read as a whole, and written with the
// versions of that view; while a write is under way nothing else is decided about the partition.

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/replication/broker_impl.h"

namespace lockstep::replication {
namespace {

using coordination::ErrorCode;

bool Contains(const std::vector<BrokerId>& brokers, BrokerId broker) {
  return std::find(brokers.begin(), brokers.end(), broker) != brokers.end();
}

// The version after the setData that is the `index`-th operation.
int32_t VersionAfter(const coordination::MultiResponse& response, size_t index) {
  LS_CHECK_LT(index, response.results.size());
  return std::get<coordination::StatResponse>(response.results[index].body).stat.version;
}

bool SameState(const PartitionState& a, const PartitionState& b) {
  return a.leader_epoch == b.leader_epoch && a.leader == b.leader &&
         a.isr_version == b.isr_version && a.replicas_version == b.replicas_version;
}

}  // namespace

Broker::Impl::Hosted* Broker::Impl::FindHosted(const PartitionId& id) {
  auto at = hosted_.find(id);
  return at == hosted_.end() ? nullptr : &at->second;
}

// ---- Logs --------------------------------------------------------------------------------------

// brokerStartup, and after each reading of everything: what is assigned is hosted, and nothing else
// is. Logs of topics that are gone are removed here, whoever should have said so and did not (S1,
// S31, S33). What was read is not older than our registration, so a topic that made one of our logs
// is not missing because the server that answered was behind.
void Broker::Impl::Reconcile(Instant now, BrokerOutput* output) {
  for (const auto& [name, topic] : metadata_.topics()) {
    Configure(now, name, output);
    for (const PartitionState& state : topic.partitions) {
      Consider(now, name, state.id.partition, output);
    }
  }
  std::vector<std::pair<std::string, int32_t>> hosted;
  for (const auto& [name, id] : names_) hosted.push_back(name);
  for (const auto& [topic, partition] : hosted) Consider(now, topic, partition, output);

  for (auto at = recovered_.begin(); at != recovered_.end();) {
    const storage::RecoveredLog& log = at->second;
    const PartitionView* view = metadata_.FindPartition(log.topic, log.partition);
    const bool ours = view != nullptr && view->state.id == at->first &&
                      Contains(view->state.replicas, options_.broker);
    const bool unknown = view == nullptr && !metadata_.gone(log.topic, at->first);
    if (ours || unknown || !metadata_.settled(log.topic, log.partition)) {
      ++at;
      continue;
    }
    DeleteLog(log.log, LogName(log.topic, log.partition), at->first, output);
    at = recovered_.erase(at);
  }
  RemoveTopics(now, output);
}

void Broker::Impl::Consider(Instant now, const std::string& topic, int32_t partition,
                            BrokerOutput* output) {
  if (phase_ != Phase::kActive || !metadata_.complete()) return;
  if (!metadata_.settled(topic, partition)) return;
  const PartitionView* view = metadata_.FindPartition(topic, partition);
  const bool assigned =
      view != nullptr && !view->deleting && Contains(view->state.replicas, options_.broker);
  const auto name = names_.find({topic, partition});
  if (name != names_.end()) {
    Hosted* hosted = FindHosted(name->second);
    LS_CHECK(hosted != nullptr);
    // A topic of the same name that was made since is another topic.
    if (assigned && hosted->id == view->state.id) return Consider(now, hosted, output);
    // Not because nothing is known of it: it stays what it is until more can be read.
    if (view == nullptr && !metadata_.gone(topic, hosted->id)) return;
    Close(now, hosted, output);
    // The Store must say first which log it is.
    if (names_.contains({topic, partition})) return;
  }
  if (assigned) Open(now, view->state, output);
}

void Broker::Impl::Open(Instant now, const PartitionState& state, BrokerOutput* output) {
  const int32_t partition = state.id.partition;
  const std::string name = LogName(state.topic, partition);
  // Its directory is still being removed: it cannot be made again before that is durable.
  if (deleting_.contains(name)) {
    blocked_.emplace(state.topic, partition);
    return;
  }
  for (auto at = recovered_.begin(); at != recovered_.end(); ++at) {
    if (at->first == state.id || LogName(at->second.topic, at->second.partition) != name) continue;
    DeleteLog(at->second.log, name, at->first, output);
    recovered_.erase(at);
    blocked_.emplace(state.topic, partition);
    return;
  }
  Hosted& hosted = hosted_[state.id];
  hosted.id = state.id;
  hosted.topic = state.topic;
  names_[{state.topic, partition}] = state.id;
  if (auto found = recovered_.find(state.id); found != recovered_.end()) {
    storage::RecoveredLog log = std::move(found->second);
    recovered_.erase(found);
    return AddMachine(now, &hosted, std::move(log), output);
  }
  const storage::LogWriteId id =
      NextWrite({.kind = LogWrite::Kind::kCreate, .partition = state.id, .name = name});
  creating_[id] = state.id;
  output->log_ops.push_back(BrokerOutput::CreateLog{id, state.topic, state.id});
}

void Broker::Impl::OnLogCreated(Instant now, storage::LogWriteId id, storage::LogNumber log,
                                BrokerOutput* output) {
  Begin(now, output);
  auto at = creating_.find(id);
  LS_CHECK(at != creating_.end());
  const PartitionId partition = at->second;
  creating_.erase(at);
  Hosted* hosted = FindHosted(partition);
  LS_CHECK(hosted != nullptr);
  if (hosted->closing) {
    hosted->log = log;
    Close(now, hosted, output);
  } else {
    AddMachine(now, hosted,
               {.log = log,
                .topic = hosted->topic,
                .partition = partition.partition,
                .topic_id = partition.topic},
               output);
  }
  End(now, output);
}

void Broker::Impl::AddMachine(Instant now, Hosted* hosted, storage::RecoveredLog log,
                              BrokerOutput* output) {
  hosted->log = log.log;
  hosted->damaged = log.damaged;
  PartitionState state{.id = hosted->id, .topic = hosted->topic};
  if (const PartitionView* view = metadata_.FindPartition(hosted->topic, hosted->id.partition);
      view != nullptr && view->state.id == hosted->id) {
    state = view->state;
  }
  hosted->machine = std::make_unique<Partition>(
      PartitionOptions{.broker = options_.broker,
                       .keep_in_sync_time = options_.keep_in_sync_time,
                       .min_insync_replicas = MinInsyncReplicas(hosted->topic),
                       .rules = options_.rules},
      state, log);
  output->log_events.push_back(BrokerOutput::Opened{hosted->id, hosted->topic, std::move(log)});
  Emit(output, EventKind::kReplicaOpened, static_cast<uint64_t>(hosted->id.partition), "", {},
       LogName(hosted->topic, hosted->id.partition));
  SetSegmentLimits(hosted, output);
  Schedule(hosted);
  Consider(now, hosted, output);
}

// The seed's closeReplica. Its data is gone after this: only the durable assignment decides (S34).
void Broker::Impl::Close(Instant now, Hosted* hosted, BrokerOutput* output) {
  Resign(now, hosted, output);
  fetcher_.Follow(hosted->id, std::nullopt);
  hosted->closing = true;
  if (!hosted->log) return;  // OnLogCreated comes back here
  if (hosted->machine != nullptr) {
    output->log_events.push_back(BrokerOutput::Removed{hosted->id});
  }
  Emit(output, EventKind::kReplicaClosed, static_cast<uint64_t>(hosted->id.partition), "", {},
       LogName(hosted->topic, hosted->id.partition));
  const PartitionId id = hosted->id;
  const std::pair<std::string, int32_t> name{hosted->topic, id.partition};
  const storage::LogNumber log = hosted->log;
  if (hosted->wake_at != Instant::Never()) wakes_.erase({hosted->wake_at, id});
  hosted_.erase(id);
  names_.erase(name);
  to_consider_.erase(id);
  DeleteLog(log, LogName(name.first, name.second), id, output);
  // Under this name there may be another topic by now.
  blocked_.insert(name);
}

void Broker::Impl::DeleteLog(storage::LogNumber log, const std::string& name, const PartitionId& id,
                             BrokerOutput* output) {
  deleting_.insert(name);
  output->log_ops.push_back(BrokerOutput::DeleteLog{
      NextWrite({.kind = LogWrite::Kind::kDelete, .partition = id, .name = name}), log});
}

void Broker::Impl::Drain(Instant now, Hosted* hosted, PartitionOutput* from, BrokerOutput* output) {
  const PartitionId id = hosted->id;
  if (from->truncated_to.has_value()) {
    output->log_events.push_back(BrokerOutput::Truncated{id, *from->truncated_to, from->restarted});
  }
  for (storage::LogChange& change : from->changes) {
    if (const auto* append = std::get_if<storage::LogAppend>(&change);
        append != nullptr && hosted->machine->role() == Role::kFollower) {
      output->log_events.push_back(BrokerOutput::Appended{id, append->batches});
    }
    ++hosted->undurable;
    output->log_ops.push_back(
        BrokerOutput::ChangeLog{NextWrite({.kind = LogWrite::Kind::kChange, .partition = id}),
                                hosted->log, std::move(change)});
  }
  for (PartitionOutput::ProduceDone& done : from->produces_done) {
    output->produces_done.push_back({id, done});
  }
  if (from->high_watermark_moved) {
    output->high_watermarks.emplace_back(hosted->log, hosted->machine->high_watermark());
    output->high_watermarks_moved.push_back(id);
    fetch_server_.OnHighWatermark(id);
  }
  for (Event& event : from->events) {
    // A partition does not know the name of its topic.
    event.text = LogName(hosted->topic, id.partition);
    output->events.push_back(std::move(event));
  }
  if (from->data_appended) fetch_server_.OnAppended(id);
  if (from->fetch_now) fetcher_.Touch(id);
  if (from->isr_change.has_value()) {
    if (hosted->writing == Hosted::Writing::kNone) {
      WriteIsr(now, hosted, *std::move(from->isr_change), output);
    } else {
      hosted->isr_change = std::move(from->isr_change);
    }
  }
  Schedule(hosted);
}

void Broker::Impl::Schedule(Hosted* hosted) {
  Instant next = hosted->elect_at;
  if (hosted->machine != nullptr) next = std::min(next, hosted->machine->next_deadline());
  if (next == hosted->wake_at) return;
  if (hosted->wake_at != Instant::Never()) wakes_.erase({hosted->wake_at, hosted->id});
  hosted->wake_at = next;
  if (next != Instant::Never()) wakes_.emplace(next, hosted->id);
}

uint32_t Broker::Impl::MinInsyncReplicas(const std::string& topic) const {
  auto at = metadata_.topics().find(topic);
  if (at == metadata_.topics().end()) return options_.min_insync_replicas;
  return static_cast<uint32_t>(
      NumberOf(at->second.configs, "min.insync.replicas").value_or(options_.min_insync_replicas));
}

bool Broker::Impl::UncleanAllowed(const std::string& topic) const {
  auto at = metadata_.topics().find(topic);
  if (at == metadata_.topics().end()) return false;
  return SwitchOf(at->second.configs, "unclean.leader.election.enable")
      .value_or(options_.unclean_leader_election);
}

void Broker::Impl::SetSegmentLimits(Hosted* hosted, BrokerOutput* output) {
  BrokerOutput::SegmentLimits limits{
      .log = hosted->log, .bytes = options_.log.segment_bytes, .ms = options_.log.segment_ms};
  if (auto at = metadata_.topics().find(hosted->topic);
      at != metadata_.topics().end() && at->second.id == hosted->id.topic) {
    const auto& configs = at->second.configs;
    if (const auto bytes = NumberOf(configs, "segment.bytes")) {
      limits.bytes = static_cast<uint64_t>(*bytes);
    }
    limits.ms = NumberOf(configs, "segment.ms").value_or(limits.ms);
  }
  if (limits == hosted->limits) return;
  hosted->limits = limits;
  output->segment_limits.push_back(limits);
}

void Broker::Impl::Configure(Instant now, const std::string& topic, BrokerOutput* output) {
  auto at = metadata_.topics().find(topic);
  if (at == metadata_.topics().end()) return;
  const Uuid id = at->second.id;
  // Of those that are hosted, not of those that the topic shows: it may show some of its partitions
  // only, when one behind a gap in what has been read leads already.
  for (auto of = hosted_.lower_bound({.topic = id, .partition = 0});
       of != hosted_.end() && of->first.topic == id; ++of) {
    Hosted* hosted = &of->second;
    if (hosted->machine == nullptr) continue;
    PartitionOutput from;
    hosted->machine->Configure(now, options_.keep_in_sync_time, MinInsyncReplicas(topic), &from);
    Drain(now, hosted, &from, output);
    SetSegmentLimits(hosted, output);
    to_consider_.insert(of->first);
  }
}

// ---- Roles -------------------------------------------------------------------------------------

void Broker::Impl::Resign(Instant now, Hosted* hosted, BrokerOutput* output) {
  if (hosted->machine == nullptr || hosted->machine->role() == Role::kIdle) return;
  PartitionOutput from;
  hosted->machine->Resign(now, &from);
  Drain(now, hosted, &from, output);
  hosted->isr_change.reset();
  output->log_events.push_back(
      BrokerOutput::RoleChanged{hosted->id, Role::kIdle, hosted->machine->leader_epoch()});
}

void Broker::Impl::ResignAll(Instant now, BrokerOutput* output) {
  for (auto& [id, hosted] : hosted_) {
    if (hosted.machine != nullptr && hosted.machine->role() == Role::kLeader) {
      Resign(now, &hosted, output);
    }
  }
}

// onLeaderChange, and all other reasons to look at a partition again.
void Broker::Impl::Consider(Instant now, Hosted* hosted, BrokerOutput* output) {
  if (phase_ != Phase::kActive || !metadata_.complete()) return;
  if (hosted->machine == nullptr || hosted->closing) return;
  if (hosted->writing != Hosted::Writing::kNone) return;
  const PartitionView* view = metadata_.FindPartition(hosted->topic, hosted->id.partition);
  if (view == nullptr || view->state.id != hosted->id) return;
  const PartitionState& state = view->state;
  Partition& machine = *hosted->machine;
  // Our own writes are known before they are read.
  if (state.isr_version < machine.state().isr_version) return;
  if (hosted->damaged && OthersHold(state)) return GiveUp(now, hosted, *view, output);

  const bool known = state.leader.has_value();
  if (known) hosted->vacant_since = hosted->elect_at = Instant::Never();
  PartitionOutput from;
  if (known && *state.leader != options_.broker) {
    const bool same = machine.role() == Role::kFollower &&
                      machine.leader_epoch() == state.leader_epoch &&
                      machine.state().leader == state.leader;
    if (same) {
      if (!SameState(machine.state(), state)) machine.Update(now, state, &from);
    } else {
      if (machine.role() == Role::kLeader) Resign(now, hosted, output);
      machine.BecomeFollower(now, state, &from);
      output->log_events.push_back(
          BrokerOutput::RoleChanged{hosted->id, Role::kFollower, state.leader_epoch});
      fetcher_.Follow(hosted->id, *state.leader);
    }
    Drain(now, hosted, &from, output);
    return;
  }
  fetcher_.Follow(hosted->id, std::nullopt);
  const bool leads = machine.role() == Role::kLeader && known &&
                     view->leader_owner == client_->session() &&
                     machine.leader_epoch() == state.leader_epoch;
  if (leads) {
    // Also if it is what it was: an ISR change that was refused, for whatever reason, is tried
    // again when the state has been read anew.
    machine.Update(now, state, &from);
    Drain(now, hosted, &from, output);
    if (hosted->writing == Hosted::Writing::kNone) {
      ConsiderReassignment(now, hosted, *view, output);
    }
    return;
  }
  Resign(now, hosted, output);
  if (known && view->leader_owner != client_->session()) return;  // ours, of a dying session
  ConsiderElection(now, hosted, *view, output);
}

std::optional<ElectionPlan> Broker::Impl::Plan(const PartitionState& state) const {
  return PlanElection(
      state, {options_.broker, incarnation_, lineage_},
      [this](BrokerId broker) { return registered(broker); }, UncleanAllowed(state.topic),
      MinInsyncReplicas(state.topic), options_.rules);
}

void Broker::Impl::ConsiderElection(Instant now, Hosted* hosted, const PartitionView& view,
                                    BrokerOutput* output) {
  hosted->elect_at = Instant::Never();
  const std::optional<ElectionPlan> plan = Plan(view.state);
  if (!plan.has_value() || !may_lead(now)) {
    if (hosted->vacant_since == Instant::Never()) hosted->vacant_since = now;
    return Schedule(hosted);
  }
  if (view.state.leader.has_value()) {
    // The leader znode is ours, but the role was given up: when the lease ran out, or because an
    // answer was lost. What was led before is not led again in the same epoch (S8, KAFKA-10527).
    return Elect(now, hosted, view, *plan, output);
  }
  if (hosted->vacant_since == Instant::Never()) hosted->vacant_since = now;
  const Instant due = hosted->vacant_since + options_.preferred_replica_time * plan->rank;
  if (due <= now) return Elect(now, hosted, view, *plan, output);
  hosted->elect_at = due;
  Schedule(hosted);
}

// The seed's leaderElection and the first half of becomeLeader, in one transition: the leader znode
// and the new epoch with its ISR exist together or not at all (S6, S8, S14).
void Broker::Impl::Elect(Instant now, Hosted* hosted, const PartitionView& view,
                         const ElectionPlan& plan, BrokerOutput* output) {
  PartitionState state = view.state;
  const int32_t partition = state.id.partition;
  // With the rule off, the epoch of whoever led before is taken over.
  const bool fresh = options_.rules.new_epoch_for_every_leader || state.leader_epoch.value < 0;
  const LeaderEpoch epoch{state.leader_epoch.value + (fresh ? 1 : 0)};
  Transition transition;
  transition.SetData(IsrPath(state.topic, partition), Encode(IsrRecord{epoch, plan.isr}),
                     Guarded(state.isr_version));
  transition.Check(ReplicasPath(state.topic, partition), Guarded(state.replicas_version));
  transition.Check(BrokerPath(options_.broker), coordination::kAnyVersion);
  if (state.leader.has_value()) transition.Delete(LeaderPath(state.topic, partition));
  transition.Create(LeaderPath(state.topic, partition),
                    Encode(LeaderRecord{options_.broker, epoch}),
                    /*ephemeral=*/true);
  GuardTopic(state.topic, state.id.topic, &transition);
  state.leader = options_.broker;
  state.leader_epoch = epoch;
  state.isr = plan.isr;
  hosted->writing = Hosted::Writing::kElection;
  const bool unclean = plan.unclean;
  Multi(
      now, transition,
      [this, id = state.id, state, unclean](Instant then, ErrorCode error,
                                            const coordination::MultiResponse* response,
                                            BrokerOutput* out) {
        Hosted* elected = FindHosted(id);
        if (elected == nullptr) return;
        elected->writing = Hosted::Writing::kNone;
        if (error != ErrorCode::kOk) {
          Emit(out, EventKind::kElectionLost, static_cast<uint64_t>(state.leader_epoch.value),
               error == ErrorCode::kConnectionLoss ? "outcome unknown" : "refused", {},
               LogName(state.topic, id.partition));
          return Reread(then, id, out);
        }
        if (unclean) {
          Emit(out, EventKind::kUncleanElection, static_cast<uint64_t>(state.leader_epoch.value),
               "", {}, LogName(state.topic, id.partition));
        }
        PartitionState won = state;
        won.isr_version = VersionAfter(*response, 0);
        BecomeLeader(then, elected, std::move(won), out);
      },
      output);
  Schedule(hosted);
}

void Broker::Impl::BecomeLeader(Instant now, Hosted* hosted, PartitionState state,
                                BrokerOutput* output) {
  hosted->vacant_since = hosted->elect_at = Instant::Never();
  // The lease may have run out meanwhile; when it comes back, an election gives another epoch.
  if (!may_lead(now) || hosted->machine == nullptr || hosted->closing) {
    to_consider_.insert(hosted->id);
    return;
  }
  fetcher_.Follow(hosted->id, std::nullopt);
  Emit(output, EventKind::kElected, static_cast<uint64_t>(state.leader_epoch.value), "", {},
       LogName(hosted->topic, hosted->id.partition));
  PartitionOutput from;
  hosted->machine->BecomeLeader(now, state, incarnation_, &from);
  const bool leads = hosted->machine->role() == Role::kLeader;
  if (leads) {
    output->log_events.push_back(
        BrokerOutput::RoleChanged{hosted->id, Role::kLeader, state.leader_epoch});
  }
  Drain(now, hosted, &from, output);
  to_consider_.insert(hosted->id);  // a reassignment that another leader began (S16, S38)
  if (!leads) return;
  for (BrokerId broker : state.replicas) {
    if (broker == options_.broker || !registered(broker)) continue;
    SendStateChange(broker, {.kind = StateChange::Kind::kStartReplica,
                             .topic = state.topic,
                             .partition = state.id,
                             .epoch = state.leader_epoch});
  }
}

void Broker::Impl::Reread(Instant /*now*/, const PartitionId& id, BrokerOutput* /*output*/) {
  Hosted* hosted = FindHosted(id);
  if (hosted == nullptr) return;
  // After a lost answer the connection is down: the reads are sent after the `sync` of the next.
  metadata_.ReadAgain(PartitionPath(hosted->topic, id.partition));
}

// ---- ISR ---------------------------------------------------------------------------------------

void Broker::Impl::WriteIsr(Instant now, Hosted* hosted, PartitionOutput::IsrChange change,
                            BrokerOutput* output) {
  const int32_t partition = hosted->id.partition;
  Transition transition;
  transition.SetData(IsrPath(hosted->topic, partition),
                     Encode(IsrRecord{change.leader_epoch, change.isr}),
                     Guarded(change.from_version));
  // Every election changes the version of the ISR, so that this can only be our leader znode.
  transition.Check(LeaderPath(hosted->topic, partition), coordination::kAnyVersion);
  GuardTopic(hosted->topic, hosted->id.topic, &transition);
  hosted->writing = Hosted::Writing::kIsr;
  Multi(
      now, transition,
      [this, id = hosted->id, epoch = change.leader_epoch](
          Instant then, ErrorCode error, const coordination::MultiResponse* response,
          BrokerOutput* out) {
        Hosted* of = FindHosted(id);
        if (of == nullptr) return;
        of->writing = Hosted::Writing::kNone;
        to_consider_.insert(id);
        if (of->machine == nullptr) return;
        if (error != ErrorCode::kOk) Reread(then, id, out);
        if (of->machine->role() != Role::kLeader || of->machine->leader_epoch() != epoch) return;
        using Outcome = Partition::Outcome;
        Outcome outcome = Outcome::kApplied;
        if (error == ErrorCode::kConnectionLoss) {
          // Both ISRs count until it is known (KIP-497).
          outcome =
              options_.rules.keep_both_isrs_while_unknown ? Outcome::kUnknown : Outcome::kRefused;
        } else if (error != ErrorCode::kOk) {
          outcome = Outcome::kRefused;
        }
        PartitionOutput from;
        of->machine->OnIsrChange(then, epoch, outcome,
                                 outcome == Outcome::kApplied ? VersionAfter(*response, 0) : 0,
                                 &from);
        Drain(then, of, &from, out);
        LeaveOutGone(then, of, out);
      },
      output);
}

// An election keeps a dead member of the ISR if there would be too few without it. When others have
// joined there are enough, and nobody has to wait for it until it has been away for long.
void Broker::Impl::LeaveOutGone(Instant now, Hosted* hosted, BrokerOutput* output) {
  if (hosted->machine->role() != Role::kLeader) return;
  const std::vector<IsrMember> isr = hosted->machine->state().isr;
  if (isr.size() <= MinInsyncReplicas(hosted->topic)) return;
  for (const IsrMember& member : isr) {
    if (registered(member.broker)) continue;
    PartitionOutput from;
    hosted->machine->OnBrokerGone(now, member.broker, &from);
    return Drain(now, hosted, &from, output);  // the next one when this is written
  }
}

// ---- Reassignment ------------------------------------------------------------------------------

// onPartitionsReassigned and checkReassignedReplicas. A state of the znodes, not an event, decides:
// so it does not matter who led when it was asked for.
void Broker::Impl::ConsiderReassignment(Instant now, Hosted* hosted, const PartitionView& view,
                                        BrokerOutput* output) {
  const Partition& machine = *hosted->machine;
  // The ISR that the step is computed from is the only one there can be.
  if (hosted->isr_change.has_value() || machine.maximal_isr() != machine.state().isr) return;
  if (!SameState(machine.state(), view.state)) return;
  std::optional<ReassignmentStep> step = NextReassignmentStep(view.state, view.requested);
  if (step.has_value()) Reassign(now, hosted, view, *step, output);
}

void Broker::Impl::Reassign(Instant now, Hosted* hosted, const PartitionView& view,
                            const ReassignmentStep& step, BrokerOutput* output) {
  using Kind = ReassignmentStep::Kind;
  PartitionState state = view.state;
  const int32_t partition = state.id.partition;
  const std::string& topic = state.topic;
  const bool switches = step.kind != Kind::kBegin;
  std::vector<StateChange> changes;
  for (BrokerId broker : step.kind == Kind::kBegin ? step.adding : step.closed) {
    if (broker == options_.broker) continue;
    changes.push_back(
        {.kind = switches ? StateChange::Kind::kCloseReplica : StateChange::Kind::kStartReplica,
         .topic = topic,
         .partition = state.id,
         .epoch = state.leader_epoch});
  }
  const std::vector<BrokerId> to = step.kind == Kind::kBegin ? step.adding : step.closed;

  // completePartitionReassignment. AR, ISR, the request and, if this leader leaves, its leadership
  // change together: every prefix of separate writes is a state in which a crash loses the
  // partition (S35).
  std::vector<Transition> transitions(1);
  auto next = [&]() -> Transition& {
    if (!options_.rules.complete_reassignment_atomically && transitions.back().size() > 0) {
      transitions.emplace_back();
    }
    return transitions.back();
  };
  if (switches) {
    next().SetData(IsrPath(topic, partition), Encode(IsrRecord{state.leader_epoch, step.isr}),
                   Guarded(state.isr_version));
  }
  next().SetData(ReplicasPath(topic, partition),
                 Encode(ReplicasRecord{step.replicas, step.adding, step.removing}),
                 Guarded(state.replicas_version));
  if (step.kind == Kind::kBegin) {
    transitions.back().Check(IsrPath(topic, partition), Guarded(state.isr_version));
    transitions.back().Check(ReassignedPath(topic, partition), Guarded(view.requested_version));
  } else if (step.kind == Kind::kComplete) {
    next().Delete(ReassignedPath(topic, partition), Guarded(view.requested_version));
  }
  if (step.leader_leaves) {
    // Not a successor's: that would have changed the version of the ISR (S37).
    next().Delete(LeaderPath(topic, partition));
  } else {
    transitions.back().Check(LeaderPath(topic, partition), coordination::kAnyVersion);
  }
  for (Transition& each : transitions) GuardTopic(topic, state.id.topic, &each);

  auto announce = [this, to, changes] {
    size_t i = 0;
    for (BrokerId broker : to) {
      if (broker != options_.broker) SendStateChange(broker, changes[i++]);
    }
  };
  // The seed's order deletes the old replicas' data while they are still all there is (S34).
  if (switches && !options_.rules.switch_assignment_before_closing) announce();

  hosted->writing = Hosted::Writing::kReassignment;
  state.replicas = step.replicas;
  state.adding = step.adding;
  state.removing = step.removing;
  if (switches) state.isr = step.isr;
  for (size_t i = 0; i < transitions.size(); ++i) {
    const bool last = i + 1 == transitions.size();
    const bool atomic = transitions.size() == 1;
    Multi(
        now, transitions[i],
        [this, id = state.id, state, last, atomic, switches, announce, leaves = step.leader_leaves](
            Instant then, ErrorCode error, const coordination::MultiResponse* response,
            BrokerOutput* out) {
          Hosted* of = FindHosted(id);
          if (of == nullptr || !last) return;
          of->writing = Hosted::Writing::kNone;
          to_consider_.insert(id);
          const std::optional<PartitionOutput::IsrChange> waiting =
              std::exchange(of->isr_change, std::nullopt);
          const bool leads = of->machine != nullptr && of->machine->role() == Role::kLeader &&
                             of->machine->leader_epoch() == state.leader_epoch;
          if (error != ErrorCode::kOk || !atomic) Reread(then, id, out);
          if (error == ErrorCode::kOk) {
            Emit(out, EventKind::kReassignmentStep, static_cast<uint64_t>(id.partition),
                 switches ? "switched" : "begun", {}, LogName(state.topic, id.partition));
            if (!switches || options_.rules.switch_assignment_before_closing) announce();
          }
          if (!leads) return;
          PartitionOutput from;
          if (error == ErrorCode::kOk && leaves) {
            // The leader znode went with this write. Nothing is committed or acknowledged after it
            // (S27), not even what the smaller ISR would allow.
            Resign(then, of, out);
          } else if (waiting.has_value()) {
            // It was computed from a state that this has replaced, or that is about to be read.
            of->machine->OnIsrChange(then, waiting->leader_epoch, Partition::Outcome::kRefused, 0,
                                     &from);
          }
          if (error == ErrorCode::kOk && atomic) {
            PartitionState now_there = state;
            if (switches) now_there.isr_version = VersionAfter(*response, 0);
            now_there.replicas_version = VersionAfter(*response, switches ? 1 : 0);
            of->machine->Update(then, now_there, &from);
          }
          Drain(then, of, &from, out);
        },
        output);
  }
}

// ---- Preferred leaders -------------------------------------------------------------------------

// checkLoadBalancing, on a timer rather than with each request (S26), and only towards a replica
// that can take over at once (S37).
void Broker::Impl::Rebalance(Instant now, BrokerOutput* output) {
  if (!may_lead(now)) return;
  for (auto& [id, hosted] : hosted_) {
    if (hosted.machine == nullptr || hosted.machine->role() != Role::kLeader) continue;
    if (hosted.writing != Hosted::Writing::kNone) continue;
    const PartitionState& state = hosted.machine->state();
    // During a reassignment the first replica is one that is to come.
    if (!state.adding.empty() || !state.removing.empty()) continue;
    const BrokerId preferred = state.replicas[0];
    if (preferred == options_.broker || !registered(preferred)) continue;
    const IsrMember member{preferred, registered(preferred)};
    if (std::find(state.isr.begin(), state.isr.end(), member) == state.isr.end()) continue;
    const std::vector<Partition::Follower> followers = hosted.machine->followers();
    const bool caught_up =
        std::any_of(followers.begin(), followers.end(), [&](const Partition::Follower& follower) {
          return follower.broker == preferred && follower.caught_up;
        });
    if (caught_up) HandOver(now, &hosted, output);
  }
}

// Gives the leadership away: the first in the order of AR takes it at once.
void Broker::Impl::HandOver(Instant now, Hosted* hosted, BrokerOutput* output) {
  const PartitionState state = hosted->machine->state();
  const int32_t partition = state.id.partition;
  // Nothing is acknowledged after this (S27).
  Resign(now, hosted, output);
  Transition transition;
  transition.Check(IsrPath(state.topic, partition), Guarded(state.isr_version));
  transition.Delete(LeaderPath(state.topic, partition));
  GuardTopic(state.topic, state.id.topic, &transition);
  hosted->writing = Hosted::Writing::kHandOver;
  Emit(output, EventKind::kHandedOver, static_cast<uint64_t>(state.leader_epoch.value), "",
       state.replicas[0], LogName(state.topic, partition));
  Multi(
      now, transition,
      [this, id = state.id](Instant then, ErrorCode, const coordination::MultiResponse*,
                            BrokerOutput* out) {
        Hosted* of = FindHosted(id);
        if (of == nullptr) return;
        of->writing = Hosted::Writing::kNone;
        Reread(then, id, out);
      },
      output);
}

}  // namespace lockstep::replication
