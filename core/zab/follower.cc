#include "core/zab/follower.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace lockstep::zab {
namespace {
constexpr size_t kEpochEndsMax = 1024;
}  // namespace

void Follower::Start(Instant now, Output* output) {
  timers_.Set(Timer::kInit, now + own_.options.init_timeout);
  OpenChannel(output);
}

void Follower::OpenChannel(Output* output) {
  LS_CHECK(phase_ == Phase::kConnecting);
  // Never used twice in an incarnation: the count goes on over all followers that this server was.
  own_.last_channel.value++;
  channel_ = own_.last_channel;
  attempts_++;
  output->opens.push_back({channel_, leader_});
}

void Follower::OnChannelOpened(Instant now, ConnectionId channel, Output* output) {
  if (channel != channel_) return Ignored(output, leader_, "opened a channel that is given up");
  LS_CHECK(phase_ == Phase::kConnecting);
  now_ = now;
  phase_ = Phase::kDiscovery;
  Send(FollowerInfo{own_.options.server, own_.accepted_epoch, !own_.novice()}, output);
}

void Follower::OnChannelClosed(Instant now, ConnectionId channel, Output* output) {
  if (channel != channel_) return Ignored(output, leader_, "closed a channel that is given up");
  channel_ = {};
  // The leader may not have decided yet that it leads, and refuses us until it has.
  bool refused = phase_ == Phase::kConnecting || phase_ == Phase::kDiscovery;
  if (refused && attempts_ < own_.options.channel_attempts_max) {
    phase_ = Phase::kConnecting;
    timers_.Set(Timer::kRetry, now + own_.options.channel_retry);
    return;
  }
  Abandon(refused ? "the leader cannot be reached" : "lost the channel to the leader");
}

void Follower::OnReceived(Instant now, ConnectionId channel, const Message& message,
                          Output* output) {
  if (channel != channel_) return Ignored(output, leader_, "message on a channel that is given up");
  now_ = now;
  if (established()) timers_.Set(Timer::kSync, now + own_.options.sync_timeout);
  std::visit([&](const auto& m) { On(m, output); }, message);
}

void Follower::OnLeaderLooking() {
  // Later on the channel tells, in order with what else the leader has to say.
  if (phase_ <= Phase::kDiscovery) Abandon("the leader looks for a leader itself");
}

// ---- Phase 1: discovery ------------------------------------------------------------------------

void Follower::On(const LeaderInfo& message, Output* output) {
  if (phase_ != Phase::kDiscovery) return Abandon("LEADERINFO out of order");
  if (message.epoch < own_.accepted_epoch)
    return Abandon("the leader's epoch is older than promised");
  // Promised, it would leave no epoch for anyone who leads after this one.
  if (message.epoch >= kEpochMax) return Abandon("LEADERINFO of an epoch that has no successor");
  epoch_ = message.epoch;
  phase_ = Phase::kPromising;
  learns_ = message.learns && own_.novice();
  if (learns_) {
    Note(output, {.kind = EventKind::kLearnsOnly,
                  .peer = leader_,
                  .reason = "began with an empty disk; votes when every other voter has answered"});
  }
  if (message.epoch == own_.accepted_epoch) return SendAckEpoch(/*counts=*/false, output);

  own_.accepted_epoch = message.epoch;
  accepted_epoch_write_ = own_.Write(SetAcceptedEpoch{message.epoch}, output);
  // A promise that a crash can undo lets two leaders have one epoch.
  if (!own_.options.rules.accepted_epoch_before_ack_epoch) SendAckEpoch(/*counts=*/true, output);
}

void Follower::SendAckEpoch(bool counts, Output* output) {
  LS_CHECK(phase_ == Phase::kPromising);
  phase_ = Phase::kSynchronization;
  Note(output, {.kind = EventKind::kEpochAccepted, .peer = leader_, .zxid = {epoch_, 0}});
  AckEpoch ack{.last_zxid = own_.history.last(),
               .epoch_ends = own_.history.EpochEnds(kEpochEndsMax)};
  if (counts) ack.current_epoch = own_.current_epoch;
  Send(std::move(ack), output);
}

// ---- Phase 2: synchronization ------------------------------------------------------------------

void Follower::BeginSynchronization(Output* output) {
  if (phase_ != Phase::kSynchronization || sync_begun_) {
    return Abandon("start of synchronization out of order");
  }
  sync_begun_ = true;
  if (own_.options.rules.current_epoch_after_history || learns_) return;
  // With the epoch on disk before the history that it stands for, a crash in between makes a short
  // history win elections against the full one.
  own_.current_epoch = epoch_;
  own_.Write(SetCurrentEpoch{epoch_}, output);
}

void Follower::On(const Diff&, Output* output) { BeginSynchronization(output); }

void Follower::On(const Trunc& message, Output* output) {
  BeginSynchronization(output);
  if (abandoned_) return;
  LS_CHECK_GE(message.to, own_.committed);  // see OwnState::Truncate
  if (!own_.history.Contains(message.to))
    return Abandon("TRUNC to a transaction that we do not have");
  own_.Truncate(message.to, output);
}

void Follower::On(const Snap& message, Output* output) {
  BeginSynchronization(output);
  if (abandoned_) return;
  if (message.zxid.epoch > epoch_) return Abandon("SNAP of a later epoch");
  receiving_ = Receiving{message.zxid};
}

void Follower::On(const SnapChunk& message, Output* output) {
  if (!receiving_) return Abandon("a piece of a snapshot out of order");
  // However large the snapshot is: while it comes in, we are being served.
  timers_.Set(Timer::kInit, now_ + own_.options.init_timeout);
  output->deliveries.push_back(
      ReceivedSnapshotChunk{receiving_->zxid, receiving_->first, message.last, message.data});
  receiving_->first = false;
  if (!message.last) return;
  own_.InstallSnapshot(receiving_->zxid, output);
  receiving_.reset();
}

void Follower::On(const NewLeader& message, Output* output) {
  if (phase_ != Phase::kSynchronization || !sync_begun_ || receiving_) {
    return Abandon("NEWLEADER out of order");
  }
  if (message.epoch != epoch_) return Abandon("NEWLEADER of another epoch");
  phase_ = Phase::kAcknowledging;
  // In the journal this record stands behind the whole history that the leader has sent: whatever
  // part of the journal survives a crash, the epoch is never there without its history.
  if (learns_) {
    // Without a current epoch we are still a novice after a crash.
    current_epoch_write_ = own_.last_write;
  } else if (own_.current_epoch != epoch_) {
    own_.current_epoch = epoch_;
    current_epoch_write_ = own_.Write(SetCurrentEpoch{epoch_}, output);
  } else {
    current_epoch_write_ = own_.last_write;
  }
  MaybeAckNewLeader(output);
}

void Follower::MaybeAckNewLeader(Output* output) {
  if (phase_ != Phase::kAcknowledging) return;
  // A quorum of these acks makes the history committed: it must survive our crash from here on.
  if (own_.options.rules.ack_new_leader_after_history_is_durable &&
      !own_.persisted(current_epoch_write_)) {
    return;
  }
  phase_ = Phase::kAcknowledged;
  if (!learns_) {
    Note(output,
         {.kind = EventKind::kNewLeaderAcked, .peer = leader_, .zxid = own_.history.last()});
  }
  Send(AckNewLeader{epoch_}, output);
  // What we have of this epoch from an earlier channel is durable, and no write may follow soon.
  MaybeAck(output);
}

void Follower::On(const UpToDate& message, Output* output) {
  if (phase_ != Phase::kAcknowledged) return Abandon("UPTODATE out of order");
  if (message.committed > own_.history.last()) return Abandon("UPTODATE beyond our history");
  phase_ = Phase::kBroadcast;
  timers_.Stop(Timer::kInit);
  timers_.Set(Timer::kSync, now_ + own_.options.sync_timeout);
  Note(output, {.kind = EventKind::kUpToDate, .peer = leader_, .zxid = message.committed});
  own_.Commit(message.committed);
  // Clients must not see us serve a state older than the one that the epoch began with.
  own_.DeliverCommitted(output);
  output->deliveries.push_back(ServiceChanged{Service::kFollowing, leader_, epoch_});
}

// ---- Phase 3: broadcast ------------------------------------------------------------------------

void Follower::On(const Proposal& message, Output* output) {
  if (!sync_begun_ || receiving_) return Abandon("PROPOSAL out of order");
  bool follows = message.previous == own_.history.last();
  // Stored, a gap would stay for ever: nothing later looks at it again.
  if (own_.options.rules.refuse_gaps && !follows) return Abandon("PROPOSAL leaves a gap");
  if (message.zxid <= own_.history.last()) return Abandon("PROPOSAL goes back");
  if (message.zxid.epoch > epoch_) return Abandon("PROPOSAL of a later epoch");
  own_.Append({message.zxid, message.transaction}, output);
  if (!own_.options.rules.ack_after_durable) MaybeAck(output);
}

void Follower::OnPersisted(Output* output) {
  if (phase_ == Phase::kPromising && own_.persisted(accepted_epoch_write_)) {
    SendAckEpoch(/*counts=*/true, output);
  }
  MaybeAckNewLeader(output);
  MaybeAck(output);
  if (regains_ && own_.persisted(current_epoch_write_)) {
    regains_ = false;
    Note(output, {.kind = EventKind::kVoteRegained, .peer = leader_, .zxid = {epoch_, 0}});
    Send(AckNewLeader{epoch_}, output);
  }
  if (established()) own_.DeliverCommitted(output);
}

void Follower::RegainVote(Epoch promised, Output* output) {
  LS_CHECK(established() && learns_);
  learns_ = false;
  if (promised > own_.accepted_epoch) {
    own_.accepted_epoch = promised;
    own_.Write(SetAcceptedEpoch{promised}, output);
  }
  // Behind the whole history that we have, as at NEWLEADER.
  own_.current_epoch = epoch_;
  current_epoch_write_ = own_.Write(SetCurrentEpoch{epoch_}, output);
  // A leader of that epoch may count on us: this one must not.
  if (promised > epoch_) return Abandon("a later epoch may have been promised on a lost disk");
  regains_ = true;
}

void Follower::MaybeAck(Output* output) {
  // Before the ack of NEWLEADER the leader does not count these, and after it nothing is skipped:
  // an ACK says "everything up to".
  if (phase_ != Phase::kAcknowledged && phase_ != Phase::kBroadcast) return;
  Zxid durable =
      own_.options.rules.ack_after_durable ? own_.history.durable() : own_.history.last();
  if (durable.epoch != epoch_ || durable <= acked_) return;
  acked_ = durable;
  Send(Ack{durable}, output);
}

void Follower::On(const Commit& message, Output* output) {
  if (phase_ != Phase::kBroadcast) return Abandon("COMMIT out of order");
  if (message.zxid > own_.history.last()) return Abandon("COMMIT beyond our history");
  own_.Commit(message.zxid);
  own_.DeliverCommitted(output);
}

void Follower::On(const Ping& message, Output* output) {
  if (phase_ < Phase::kAcknowledging) return Abandon("PING out of order");
  output->deliveries.push_back(PingAsked{message.payload});
}

void Follower::On(const Reply& message, Output* output) {
  if (!established()) return Abandon("reply before UPTODATE");
  output->deliveries.push_back(ReplyReceived{message.payload});
}

void Follower::SendRequest(const Bytes& payload, Output* output) {
  if (!established()) return Ignored(output, leader_, "request before UPTODATE");
  Send(Request{payload}, output);
}

void Follower::AnswerPing(const Bytes& payload, Output* output) {
  // Pings begin with the live stream, behind NEWLEADER.
  if (phase_ < Phase::kAcknowledging) {
    return Ignored(output, leader_, "answer to a ping of a lost leader");
  }
  Send(Ping{payload}, output);
}

void Follower::OnWake(Instant now, Output* output) {
  if (timers_.Expired(Timer::kRetry, now)) OpenChannel(output);
  if (timers_.Expired(Timer::kInit, now)) Abandon("not synchronized within initLimit");
  if (timers_.Expired(Timer::kSync, now)) Abandon("no word from the leader within syncLimit");
}

}  // namespace lockstep::zab
