#include "core/zab/leader.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/zab/learner_sync.h"

namespace lockstep::zab {
namespace {
// So many times the usual window a learner may hold in our memory while it gets a snapshot.
constexpr uint64_t kSnapshotWindows = 8;
}  // namespace

void Leader::Start(Instant now, Output* output) {
  now_ = now;
  timers_.Set(Timer::kInit, now + own_.options.init_timeout);
  timers_.Set(Timer::kPing, now + own_.options.ping_interval);
  MaybeProposeEpoch(output);
}

void Leader::OnChannelOpened(Instant now, ConnectionId channel) {
  learners_[channel].last_heard = now;
}

void Leader::OnChannelClosed(ConnectionId channel, Output* output) {
  auto found = learners_.find(channel);
  if (found == learners_.end()) return Ignored(output, {}, "closed a channel that is given up");
  Note(output, {.kind = EventKind::kLearnerDropped,
                .peer = found->second.server,
                .reason = "it closed the channel"});
  learners_.erase(found);
}

void Leader::Drop(ConnectionId channel, const char* reason, Output* output) {
  auto found = learners_.find(channel);
  LS_CHECK(found != learners_.end());
  Note(output,
       {.kind = EventKind::kLearnerDropped, .peer = found->second.server, .reason = reason});
  learners_.erase(found);
  output->closes.push_back(channel);
}

void Leader::CloseAll(Output* output) {
  for (const auto& [channel, learner] : learners_) output->closes.push_back(channel);
  learners_.clear();
}

Leader::Learner* Leader::Find(ServerId server) {
  for (auto& [channel, learner] : learners_) {
    if (learner.server == server) return &learner;
  }
  return nullptr;
}

Leader::Learner* Leader::FindCounted(ServerId server) {
  Learner* learner = Find(server);
  return learner != nullptr && learner->counts ? learner : nullptr;
}

void Leader::OnReborn(ServerId server, Output* output) {
  for (const auto& [channel, learner] : learners_) {
    if (learner.server != server) continue;
    return Drop(channel, "it has started anew", output);
  }
}

void Leader::OnReceived(Instant now, ConnectionId channel, const Message& message, Output* output) {
  auto found = learners_.find(channel);
  if (found == learners_.end()) return Ignored(output, {}, "message on a channel that is given up");
  now_ = now;
  found->second.last_heard = now;
  std::visit([&](const auto& m) { On(channel, found->second, m, output); }, message);
}

// ---- Phase 1: discovery ------------------------------------------------------------------------

void Leader::On(ConnectionId channel, Learner& learner, const FollowerInfo& message,
                Output* output) {
  if (learner.phase != LearnerPhase::kConnected) {
    return Drop(channel, "FOLLOWERINFO out of order", output);
  }
  if (!own_.voters.Contains(message.server) || message.server == own_.options.server) {
    return Drop(channel, "FOLLOWERINFO of a server that is no voter", output);
  }
  // Its word alone must not use up the epochs of the ensemble, or stop this server.
  if (message.accepted_epoch.Next() >= kEpochMax) {
    return Drop(channel, "FOLLOWERINFO of an epoch that has no successor", output);
  }
  // The learner has started over; its old channel is dead, whether we have noticed or not.
  for (const auto& [other, known] : learners_) {
    if (known.server == message.server) {
      Drop(other, "replaced by a newer channel", output);
      break;
    }
  }
  Learner& joined = learners_[channel];  // the erasure above may have moved it
  joined.server = message.server;
  joined.phase = LearnerPhase::kKnown;
  joined.accepted_epoch = message.accepted_epoch;
  joined.votes = message.votes;
  // Later in the same reign the empty disk may be that of a server that we have counted already.
  joined.counts = message.votes || (bootstraps_ && phase_ == Phase::kDiscovery) ||
                  !own_.options.rules.count_only_who_remembers;
  if (!accepted_epoch_write_) return MaybeProposeEpoch(output);
  if (message.accepted_epoch > epoch_) {
    // It has promised a later leader, who did not come to be, not to follow anyone older: us. Only
    // an epoch above its promise can take it in.
    return Abdicate("a follower has accepted a newer epoch");
  }
  if (joined.counts && message.accepted_epoch == epoch_ && phase_ == Phase::kDiscovery) {
    // Its promise got lost with its last channel, and cannot be counted again; without it we may
    // never have a quorum.
    return Abdicate("a promise was lost");
  }
  if (epoch_sent_) SendLeaderInfo(channel, joined, output);
}

void Leader::OnBetterVote() {
  // Once a quorum has promised, our history is the one of the epoch, whoever has more.
  if (phase_ == Phase::kDiscovery) Abdicate("a looking server is ahead");
}

void Leader::MaybeProposeEpoch(Output* output) {
  if (accepted_epoch_write_) return;
  bool quorum = own_.voters.IsQuorum([&](ServerId server) {
    return server == own_.options.server ? counts_self() : FindCounted(server) != nullptr;
  });
  if (!quorum) return;
  Epoch highest = own_.accepted_epoch;
  for (const auto& [channel, learner] : learners_) {
    highest = std::max(highest, learner.accepted_epoch);
  }
  if (highest.Next() >= kEpochMax) return Abdicate("no epoch is left");
  epoch_ = highest.Next();
  own_.accepted_epoch = epoch_;
  accepted_epoch_write_ = own_.Write(SetAcceptedEpoch{epoch_}, output);
  // If the epoch is out before we have promised it ourselves, we may come back from a crash and
  // propose it a second time, for another history.
  if (!own_.options.rules.leader_accepts_epoch_before_proposing_it) OnPersisted(now_, output);
}

void Leader::SendLeaderInfo(ConnectionId channel, Learner& learner, Output* output) {
  LS_CHECK(learner.phase == LearnerPhase::kKnown);
  learner.phase = LearnerPhase::kEpochSent;
  Send(channel, LeaderInfo{epoch_, !learner.counts}, output);
}

void Leader::On(ConnectionId channel, Learner& learner, const AckEpoch& message, Output* output) {
  if (learner.phase != LearnerPhase::kEpochSent) {
    return Drop(channel, "ACKEPOCH out of order", output);
  }
  if (message.epoch_ends.empty() || message.epoch_ends.back() != message.last_zxid) {
    return Drop(channel, "ACKEPOCH contradicts itself", output);
  }
  // Its history may hold a transaction that a quorum accepted and we never saw; synchronizing it to
  // ours would erase that. The paper lets the new leader take over the better history. As ZooKeeper
  // does, we give up leading: the election prefers the best history, so this is rare, and a leader
  // never has to rewrite its own.
  bool ahead = std::pair(message.current_epoch.value_or(Epoch{}), message.last_zxid) >
               std::pair(own_.current_epoch, own_.history.last());
  if (ahead && own_.options.rules.abdicate_if_a_follower_is_ahead) {
    return Abdicate("a follower is ahead");
  }
  // It does not remember, but has a history already: there is an ensemble that we know nothing of.
  if (!learner.votes && learner.counts && message.last_zxid != Zxid{} &&
      own_.options.rules.count_only_who_remembers) {
    return Abdicate("a learner knows of an older ensemble");
  }
  learner.phase = LearnerPhase::kPromised;
  learner.promised = message.current_epoch.has_value();
  learner.epoch_ends = message.epoch_ends;
  if (phase_ == Phase::kDiscovery) return MaybeBeginSynchronization(output);
  Synchronize(channel, learner, output);
}

void Leader::MaybeBeginSynchronization(Output* output) {
  if (phase_ != Phase::kDiscovery || !epoch_sent_) return;
  bool quorum = own_.voters.IsQuorum([&](ServerId server) {
    // Our own promise is durable: epoch_sent_.
    if (server == own_.options.server) return counts_self();
    const Learner* learner = FindCounted(server);
    return learner != nullptr && learner->promised;
  });
  if (!quorum) return;
  phase_ = Phase::kSynchronization;
  initial_last_ = own_.history.last();
  // Our own history is the initial one of the epoch, and is durable.
  own_.current_epoch = epoch_;
  current_epoch_write_ = own_.Write(SetCurrentEpoch{epoch_}, output);
  for (auto& [channel, learner] : learners_) {
    if (learner.phase == LearnerPhase::kPromised) Synchronize(channel, learner, output);
  }
}

// ---- Phase 2: synchronization ------------------------------------------------------------------

// Decides what the learner gets, and sends it.
void Leader::Synchronize(ConnectionId channel, Learner& learner, Output* output) {
  LS_CHECK(learner.phase == LearnerPhase::kPromised);
  const std::vector<Zxid> epoch_ends = std::move(learner.epoch_ends);
  learner.epoch_ends.clear();
  SyncPlan plan = PlanSync(own_.history, epoch_ends);
  Zxid last = own_.history.last();
  if (plan.mode == SyncPlan::Mode::kSnap) {
    learner.phase = LearnerPhase::kSnapshot;
    learner.snapshot = own_.delivered;
    learner.decided_at = last;
    Note(output, {.kind = EventKind::kSyncSnap, .peer = learner.server, .zxid = own_.delivered});
    Send(channel, Snap{own_.delivered, last}, output);
    output->deliveries.push_back(StartSnapshot{channel, own_.delivered});
    return;
  }
  size_t missing = own_.history.window().size() - own_.history.IndexAfter(plan.common);
  Event event{.peer = learner.server, .zxid = plan.common, .detail = missing};
  if (plan.mode == SyncPlan::Mode::kTrunc && own_.options.rules.truncate_before_diff) {
    event.kind = missing > 0 ? EventKind::kSyncTruncDiff : EventKind::kSyncTrunc;
    Send(channel, Trunc{plan.common, last}, output);
  } else {
    event.kind = EventKind::kSyncDiff;
    Send(channel, Diff{last}, output);
  }
  Note(output, event);
  Zxid after = plan.common;
  if (!own_.options.rules.truncate_before_diff) after = std::max(after, epoch_ends.back());
  SendHistory(channel, learner, after, output);
}

void Leader::SendHistory(ConnectionId channel, Learner& learner, Zxid after, Output* output) {
  // The learner is in the live stream after this step, so what it is sent must reach up to what the
  // stream has come to now. If it ended where our history did when we decided what to send, the
  // proposals made while the snapshot was on its way would never reach the learner.
  Zxid to = own_.options.rules.join_live_stream_atomically || learner.decided_at == Zxid{}
                ? own_.history.last()
                : learner.decided_at;
  const auto& window = own_.history.window();
  for (size_t i = own_.history.IndexAfter(after); i < window.size() && window[i].zxid <= to; i++) {
    Send(channel, Proposal{window[i].zxid, own_.history.Before(i), window[i].body}, output);
  }
  Send(channel, NewLeader{epoch_}, output);
  learner.phase = LearnerPhase::kSent;
  learner.sent = own_.history.last();
  learner.mark = learner.sent;
  learner.marked_at = now_;
}

void Leader::OnSnapshotChunk(Instant now, ConnectionId channel, const Bytes& data, bool last,
                             Output* output) {
  now_ = now;
  auto found = learners_.find(channel);
  if (found == learners_.end() || found->second.phase != LearnerPhase::kSnapshot) {
    return Ignored(output, {}, "a snapshot for a channel that is given up");
  }
  found->second.last_heard = now;  // it cannot answer while we keep the channel busy
  Send(channel, SnapChunk{data, last}, output);
  if (last) SendHistory(channel, found->second, found->second.snapshot, output);
}

void Leader::On(ConnectionId channel, Learner& learner, const AckNewLeader& message,
                Output* output) {
  if (!learner.counts && learner.phase == LearnerPhase::kUpToDate && message.epoch == epoch_) {
    // It has learned what it may have promised, and has taken up the epoch.
    learner.counts = true;
    return MaybeCommit(output);
  }
  if (learner.phase != LearnerPhase::kSent || message.epoch != epoch_) {
    return Drop(channel, "ACK of NEWLEADER out of order", output);
  }
  learner.phase = LearnerPhase::kAcknowledged;
  // It says so at least of the initial history. From here on, what it does not acknowledge is late.
  learner.acked = initial_last_;
  if (phase_ == Phase::kBroadcast) return SendUpToDate(channel, learner, output);
  MaybeEstablish(output);
}

void Leader::MaybeEstablish(Output* output) {
  if (phase_ != Phase::kSynchronization) return;
  bool quorum = own_.voters.IsQuorum([&](ServerId server) {
    if (server == own_.options.server) {
      return counts_self() && own_.persisted(*current_epoch_write_);
    }
    const Learner* learner = FindCounted(server);
    return learner != nullptr && learner->phase >= LearnerPhase::kAcknowledged;
  });
  if (!quorum && own_.options.rules.serve_after_quorum_of_new_leader) return;
  phase_ = Phase::kBroadcast;
  timers_.Stop(Timer::kInit);
  own_mark_ = own_.history.last();
  own_marked_at_ = now_;
  // A quorum has the initial history durably, and promised not to accept anything older.
  own_.Commit(initial_last_);
  Note(output, {.kind = EventKind::kEstablished, .zxid = {epoch_, 0}});
  own_.DeliverCommitted(output);
  output->deliveries.push_back(ServiceChanged{Service::kLeading, own_.options.server, epoch_});
  for (auto& [channel, learner] : learners_) {
    if (learner.phase == LearnerPhase::kAcknowledged) SendUpToDate(channel, learner, output);
  }
}

void Leader::SendUpToDate(ConnectionId channel, Learner& learner, Output* output) {
  LS_CHECK(learner.phase == LearnerPhase::kAcknowledged);
  learner.phase = LearnerPhase::kUpToDate;
  // The latest committed one, not that of the start of the epoch: commits in between were not sent.
  Send(channel, UpToDate{own_.committed}, output);
}

// ---- Phase 3: broadcast ------------------------------------------------------------------------

bool Leader::CanPropose() const {
  if (phase_ != Phase::kBroadcast || abdicated_ != nullptr) return false;
  Zxid last = own_.history.last();
  uint32_t counter = last.epoch == epoch_ ? last.counter : 0;
  uint32_t committed = own_.committed.epoch == epoch_ ? own_.committed.counter : 0;
  return counter < own_.options.counter_max &&
         counter - committed < own_.options.proposals_in_flight_max;
}

void Leader::Propose(Bytes body, Output* output) {
  LS_CHECK(CanPropose());
  Zxid previous = own_.history.last();
  Zxid zxid{epoch_, previous.epoch == epoch_ ? previous.counter + 1 : 1};
  own_.Append({zxid, body}, output);
  LearnerPhase from = own_.options.rules.propose_to_unacknowledged_learners
                          ? LearnerPhase::kSent
                          : LearnerPhase::kAcknowledged;
  for (auto& [channel, learner] : learners_) {
    if (learner.phase < from) continue;
    learner.sent = zxid;
    Send(channel, Proposal{zxid, previous, body}, output);
  }
}

void Leader::On(ConnectionId channel, Learner& learner, const Ack& message, Output* output) {
  if (learner.phase < LearnerPhase::kAcknowledged) {
    return Drop(channel, "ACK before the ACK of NEWLEADER", output);
  }
  if (message.zxid.epoch != epoch_) return Drop(channel, "ACK of another epoch", output);
  if (message.zxid > learner.sent) return Drop(channel, "ACK of what was not sent", output);
  if (message.zxid <= learner.acked) return Ignored(output, learner.server, "ACK repeated");
  learner.acked = message.zxid;
  MaybeCommit(output);
}

void Leader::MaybeCommit(Output* output) {
  if (phase_ != Phase::kBroadcast) return;
  Zxid reached = own_.voters.ReachedByQuorum<Zxid>([&](ServerId server) {
    if (server == own_.options.server) return own_.history.durable();
    const Learner* learner = FindCounted(server);
    return learner == nullptr ? Zxid{} : learner->acked;
  });
  if (reached <= own_.committed) return;
  own_.Commit(reached);
  for (auto& [channel, learner] : learners_) {
    if (learner.phase == LearnerPhase::kUpToDate) Send(channel, Commit{reached}, output);
  }
  own_.DeliverCommitted(output);
  MaybeEndEpoch(output);
}

void Leader::MaybeEndEpoch(Output* output) {
  Zxid last = own_.history.last();
  if (last.epoch != epoch_ || last.counter < own_.options.counter_max) return;
  // Everything proposed is committed first, so that a new epoch costs nobody a transaction.
  if (own_.committed != last || own_.delivered != last) return;
  Note(output, {.kind = EventKind::kEpochExhausted, .zxid = last});
  Abdicate("the counter of the epoch is used up");
}

void Leader::OnPersisted(Instant now, Output* output) {
  now_ = now;
  bool accepted =
      accepted_epoch_write_ && (own_.persisted(*accepted_epoch_write_) ||
                                !own_.options.rules.leader_accepts_epoch_before_proposing_it);
  if (accepted && !epoch_sent_) {
    epoch_sent_ = true;
    Note(output, {.kind = EventKind::kEpochProposed, .zxid = {epoch_, 0}});
    for (auto& [channel, learner] : learners_) {
      if (learner.phase == LearnerPhase::kKnown) SendLeaderInfo(channel, learner, output);
    }
    MaybeBeginSynchronization(output);
  }
  MaybeEstablish(output);
  MaybeCommit(output);
  own_.DeliverCommitted(output);
  if (phase_ == Phase::kBroadcast) MaybeEndEpoch(output);
}

void Leader::On(ConnectionId channel, Learner& learner, const Ping& message, Output* output) {
  if (learner.phase < LearnerPhase::kSent) return Drop(channel, "PING out of order", output);
  if (!message.payload.empty()) {
    output->deliveries.push_back(PingReceived{learner.server, message.payload});
  }
}

void Leader::On(ConnectionId channel, Learner& learner, const Request& message, Output* output) {
  if (learner.phase != LearnerPhase::kUpToDate) {
    return Drop(channel, "request before UPTODATE", output);
  }
  output->deliveries.push_back(RequestReceived{learner.server, message.payload});
}

void Leader::SendReply(ServerId to, const Bytes& payload, Output* output) {
  for (auto& [channel, learner] : learners_) {
    if (learner.server != to || learner.phase != LearnerPhase::kUpToDate) continue;
    return Send(channel, Reply{payload}, output);
  }
  Ignored(output, to, "reply to a learner that is gone");
}

void Leader::SendPing(ServerId to, const Bytes& payload, Output* output) {
  for (auto& [channel, learner] : learners_) {
    if (learner.server != to || learner.phase < LearnerPhase::kSent) continue;
    return Send(channel, Ping{payload}, output);
  }
  Ignored(output, to, "ping to a learner that is gone");
}

void Leader::OnWake(Instant now, Output* output) {
  now_ = now;
  if (timers_.Expired(Timer::kInit, now)) return Abdicate("not established within initLimit");
  if (!timers_.Expired(Timer::kPing, now)) return;
  timers_.Set(Timer::kPing, now + own_.options.ping_interval);
  CheckProgress(now, output);
  for (auto& [channel, learner] : learners_) {
    if (learner.phase >= LearnerPhase::kSent) Send(channel, Ping{}, output);
  }
}

// What comes after a snapshot stays in memory while the snapshot is on its way. What was there when
// it began does not count: a history that nobody has committed yet cannot be forgotten anyhow.
bool Leader::HoldsTooMuch(const Learner& learner) const {
  const auto& window = own_.history.window();
  size_t first = own_.history.IndexAfter(learner.decided_at);
  uint64_t bytes = 0;
  for (size_t i = first; i < window.size(); i++) bytes += window[i].body.size();
  return window.size() - first > kSnapshotWindows * own_.options.window_transactions ||
         bytes > kSnapshotWindows * own_.options.window_bytes;
}

void Leader::CheckProgress(Instant now, Output* output) {
  std::vector<ConnectionId> silent;
  std::vector<ConnectionId> slow;
  for (auto& [channel, learner] : learners_) {
    Duration limit = learner.phase == LearnerPhase::kUpToDate ? own_.options.sync_timeout
                                                              : own_.options.init_timeout;
    if (learner.acked >= learner.mark || learner.phase != LearnerPhase::kUpToDate) {
      learner.mark = learner.sent;
      learner.marked_at = now;
    }
    if (now - learner.last_heard > limit || now - learner.marked_at > limit) {
      silent.push_back(channel);
    } else if (learner.phase == LearnerPhase::kSnapshot && HoldsTooMuch(learner)) {
      slow.push_back(channel);
    }
  }
  for (ConnectionId channel : silent) Drop(channel, "no word within the limit", output);
  for (ConnectionId channel : slow) Drop(channel, "its snapshot takes too long", output);
  if (phase_ != Phase::kBroadcast) return;

  if (own_.history.durable() >= own_mark_) {
    own_mark_ = own_.history.last();
    own_marked_at_ = now;
  }
  if (now - own_marked_at_ > own_.options.sync_timeout) return Abdicate("own disk is stuck");
  bool quorum = own_.voters.IsQuorum([&](ServerId server) {
    if (server == own_.options.server) return true;
    const Learner* learner = FindCounted(server);
    return learner != nullptr && learner->phase >= LearnerPhase::kAcknowledged;
  });
  if (!quorum && own_.options.rules.step_down_without_quorum) Abdicate("no quorum of followers");
}

size_t Leader::synced_learner_count() const {
  size_t count = 0;
  for (const auto& [channel, learner] : learners_) {
    count += learner.phase >= LearnerPhase::kAcknowledged ? 1 : 0;
  }
  return count;
}

size_t Leader::novice_count() const {
  size_t count = counts_self() ? 0 : 1;
  for (const auto& [channel, learner] : learners_) count += learner.counts ? 0 : 1;
  return count;
}

std::optional<Zxid> Leader::window_needed_after() const {
  std::optional<Zxid> needed;
  for (const auto& [channel, learner] : learners_) {
    if (learner.phase != LearnerPhase::kSnapshot) continue;
    needed = needed ? std::min(*needed, learner.snapshot) : learner.snapshot;
  }
  return needed;
}

}  // namespace lockstep::zab
