#include "core/zab/election.h"

#include <algorithm>
#include <tuple>

#include "core/base/check.h"

namespace lockstep::zab {

bool Election::Better(const Vote& a, const Vote& b) const {
  // A server with a newer current epoch has acknowledged a newer initial history, even where its
  // zxid is smaller: the longer history of an older epoch may be one that nobody else accepted.
  if (own_.options.rules.vote_by_epoch_first) return a > b;
  return std::tie(a.last_zxid, a.leader) > std::tie(b.last_zxid, b.leader);
}

Vote Election::OwnVote() const {
  return {own_.current_epoch, own_.history.durable(), own_.options.server};
}

void Election::Start(Instant now, Output* output) {
  round_++;
  vote_ = OwnVote();
  decided_ = false;
  votes_.clear();
  established_.clear();
  timers_.StopAll();
  resend_interval_ = own_.options.notification_interval_min;
  Note(output, {.kind = EventKind::kElectionRound, .detail = round_});
  Broadcast(now, output);
  CountVotes(now);
}

void Election::OnNotification(Instant now, ServerId from, const Notification& n, Output* output) {
  LS_CHECK(!decided_);
  if (!own_.voters.Contains(from) || !own_.voters.Contains(n.vote.leader)) {
    return Ignored(output, from, "notification from or for a server that is no voter");
  }
  if (from == own_.options.server) return Ignored(output, from, "own notification");
  switch (n.state) {
    case ServerState::kLooking:
      established_.erase(from);
      return OnLookingVote(now, from, n, output);
    case ServerState::kFollowing:
    case ServerState::kLeading:
      return OnEstablishedVote(now, from, n, output);
    case ServerState::kObserving:
      // A novice asks (Peer::Impl::AskOthers). It takes no part in elections then.
      return SendTo(from, output);
  }
  LS_UNREACHABLE();
}

void Election::OnLookingVote(Instant now, ServerId from, const Notification& n, Output* output) {
  if (n.round < round_) {
    Ignored(output, from, "notification of an older round");
    // The sender would wait a whole interval for our next repetition otherwise.
    return SendTo(from, output);
  }
  if (n.round > round_) {
    round_ = n.round;
    votes_.clear();
    vote_ = Better(n.vote, OwnVote()) ? n.vote : OwnVote();
    Note(output, {.kind = EventKind::kElectionRound, .detail = round_});
    Broadcast(now, output);
  } else if (Better(n.vote, vote_)) {
    vote_ = n.vote;
    Broadcast(now, output);
  }
  votes_[from] = n.vote;
  CountVotes(now);
}

void Election::OnEstablishedVote(Instant now, ServerId from, const Notification& n,
                                 Output* output) {
  established_[from] = n;
  // Members of an ensemble came by different elections, so their rounds and zxids may differ for
  // ever; only whom they follow counts (ZOOKEEPER-1732).
  ServerId leader = n.vote.leader;
  if (leader == own_.options.server) {
    // They follow who we were before a restart or an abdication. Rounds and votes of then may equal
    // ours; and those who chose us in this round said so while they were looking.
    return Ignored(output, from, "follows a former self");
  } else {
    auto word = established_.find(leader);
    bool leads = word != established_.end() && word->second.state == ServerState::kLeading;
    // With us it may have a quorum, and then we need not hear from those who follow it. But if we
    // are ahead of it, it will abdicate because of us; joining it again and again would never end.
    bool counts_us = leads && !Better(OwnVote(), word->second.vote);
    bool followed = own_.voters.IsQuorum([&](ServerId server) {
      if (server == own_.options.server) return counts_us;
      auto member = established_.find(server);
      return member != established_.end() && member->second.vote.leader == leader;
    });
    if (leads && followed) {
      round_ = std::max(round_, n.round);
      vote_ = n.vote;
      return Decide(leader);
    }
  }
  if (n.round != round_) return;
  // It has decided in our own round, and we are about to.
  if (Better(n.vote, vote_)) {
    vote_ = n.vote;
    Broadcast(now, output);
  }
  votes_[from] = n.vote;
  CountVotes(now);
}

void Election::CountVotes(Instant now) {
  votes_[own_.options.server] = vote_;
  size_t alike = 0;
  for (const auto& [server, vote] : votes_) alike += vote.leader == vote_.leader ? 1 : 0;
  if (alike < own_.voters.quorum_size()) return timers_.Stop(Timer::kFinalize);
  if (alike == own_.voters.size()) return Decide(vote_.leader);  // no better vote can come
  // A better vote than the one with a quorum may be under way. Our own vote stands for the same
  // quorum however often members repeat theirs, so repetitions must not push the deadline out.
  if (!timers_.running(Timer::kFinalize) || finalizing_ != vote_) {
    finalizing_ = vote_;
    timers_.Set(Timer::kFinalize, now + own_.options.finalize_wait);
  }
}

void Election::OnWake(Instant now, Output* output) {
  LS_CHECK(!decided_);
  if (timers_.Expired(Timer::kFinalize, now)) return Decide(vote_.leader);
  if (timers_.Expired(Timer::kResend, now)) {
    Broadcast(now, output);
    resend_interval_ = std::min(resend_interval_ * 2, own_.options.notification_interval_max);
    timers_.Set(Timer::kResend, now + resend_interval_);
  }
}

void Election::OnLinkUp(ServerId server, Output* output) const { SendTo(server, output); }

void Election::Decide(ServerId leader) {
  vote_.leader = leader;
  decided_ = true;
  timers_.StopAll();
}

void Election::SendTo(ServerId to, Output* output) const {
  output->notifications.push_back({to, {ServerState::kLooking, round_, vote_}});
}

void Election::Broadcast(Instant now, Output* output) {
  for (ServerId server : own_.voters.all()) {
    if (server != own_.options.server) SendTo(server, output);
  }
  timers_.Set(Timer::kResend, now + resend_interval_);
}

}  // namespace lockstep::zab
