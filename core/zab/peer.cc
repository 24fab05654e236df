#include "core/zab/peer.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/base/check.h"
#include "core/zab/election.h"
#include "core/zab/follower.h"
#include "core/zab/invariants.h"
#include "core/zab/leader.h"
#include "core/zab/own_state.h"

namespace lockstep::zab {

class Peer::Impl {
 public:
  Impl(const PeerOptions& options, DurableState durable)
      : own_(options, std::move(durable)), role_(std::in_place_type<Election>, own_, 0) {}

  void Step(Instant now, const Input& input, Output* output);
  Instant next_deadline() const;

  ServerState state() const;
  ServerId leader() const;
  bool established() const;
  const OwnState& own() const { return own_; }
  const Leader* leading() const { return std::get_if<Leader>(&role_); }
  uint64_t round() const {
    const Election* election = looking();
    return election != nullptr ? election->round() : round_;
  }

 private:
  const Election* looking() const { return std::get_if<Election>(&role_); }
  Election* looking() { return std::get_if<Election>(&role_); }
  Follower* following() { return std::get_if<Follower>(&role_); }
  Leader* leading() { return std::get_if<Leader>(&role_); }

  void On(Instant now, const Wake&, Output* output);
  void On(Instant now, const ReceivedNotification& input, Output* output);
  void On(Instant now, const NotificationLinkUp& input, Output* output);
  void On(Instant now, const ChannelOpened& input, Output* output);
  void On(Instant now, const ChannelClosed& input, Output* output);
  void On(Instant now, const Received& input, Output* output);
  void On(Instant now, const Persisted& input, Output* output);
  void On(Instant now, const Propose& input, Output* output);
  void On(Instant now, const zab::SendRequest& input, Output* output);
  void On(Instant now, const zab::SendReply& input, Output* output);
  void On(Instant now, const zab::AnswerPing& input, Output* output);
  void On(Instant now, const zab::SendPing& input, Output* output);
  void On(Instant now, const SnapshotChunk& input, Output* output);

  // The only writers of the role.
  void BecomeLooking(const char* reason, Output* output);
  void BecomeFollowing(Instant now, Output* output);
  void BecomeLeading(Instant now, Output* output);
  // Carries out the transitions that the input has made due.
  void Settle(Instant now, Output* output);
  void MaybeStartElection(Instant now, Output* output);
  void TrimHistory();
  Notification OwnWord() const;

  OwnState own_;
  // Of the election that ended with the present role; see Election while there is one.
  uint64_t round_ = 0;
  Vote vote_;
  std::variant<Election, Follower, Leader> role_;
  // The election waits until what was written before it is durable.
  bool draining_ = true;
};

void Peer::Impl::Step(Instant now, const Input& input, Output* output) {
  Watched before(own_);
  std::visit([&](const auto& i) { On(now, i, output); }, input);
  Settle(now, output);
  TrimHistory();
  CheckState(own_);
  CheckStep(before, own_);
}

void Peer::Impl::Settle(Instant now, Output* output) {
  // Ends: looking decides at most once in a step, and a role that was just taken up is not given up
  // before its next input.
  if (Follower* follower = following(); follower != nullptr && follower->abandoned() != nullptr) {
    BecomeLooking(follower->abandoned(), output);
  } else if (Leader* leader = leading(); leader != nullptr && leader->abdicated() != nullptr) {
    BecomeLooking(leader->abdicated(), output);
  }
  MaybeStartElection(now, output);
  if (Election* election = looking(); election != nullptr && election->decided()) {
    round_ = election->round();
    vote_ = election->vote();
    if (vote_.leader == own_.options.server) {
      BecomeLeading(now, output);
    } else {
      BecomeFollowing(now, output);
    }
  }
}

// ---- Transitions -------------------------------------------------------------------------------

void Peer::Impl::BecomeLooking(const char* reason, Output* output) {
  LS_CHECK(looking() == nullptr);
  if (established()) output->deliveries.push_back(ServiceChanged{Service::kStopped, {}, {}});
  if (Leader* leader = leading()) {
    leader->CloseAll(output);
  } else if (ConnectionId channel = following()->channel()) {
    output->closes.push_back(channel);
  }
  Note(output, {.kind = EventKind::kLooking, .zxid = own_.history.last(), .reason = reason});
  // A server speaks for what is on its disk. To speak for what was applied instead forgets
  // transactions that this server has acknowledged, and that may be committed.
  if (!own_.options.rules.advertise_durable_history && !own_.install) {
    own_.history.Forget(own_.delivered);
  }
  role_.emplace<Election>(own_, round_);
  draining_ = true;
}

void Peer::Impl::MaybeStartElection(Instant now, Output* output) {
  Election* election = looking();
  if (election == nullptr || !draining_) return;
  // A write under way would become durable after we had said what our history is: we would elect,
  // and be synchronized, by a history that is no longer ours.
  if (own_.options.rules.drain_writes_before_election && !own_.all_persisted()) return;
  draining_ = false;
  election->Start(now, output);
}

void Peer::Impl::BecomeFollowing(Instant now, Output* output) {
  LS_CHECK(looking() != nullptr);
  Note(output, {.kind = EventKind::kFollowing, .peer = vote_.leader, .detail = round_});
  role_.emplace<Follower>(&own_, vote_.leader).Start(now, output);
}

void Peer::Impl::BecomeLeading(Instant now, Output* output) {
  LS_CHECK(looking() != nullptr);
  Note(output, {.kind = EventKind::kLeading, .zxid = own_.history.last(), .detail = round_});
  role_.emplace<Leader>(&own_).Start(now, output);
}

// ---- Inputs ------------------------------------------------------------------------------------

void Peer::Impl::On(Instant now, const Wake&, Output* output) {
  if (Election* election = looking()) {
    if (!draining_) election->OnWake(now, output);
  } else if (Follower* follower = following()) {
    follower->OnWake(now, output);
  } else {
    leading()->OnWake(now, output);
  }
}

Notification Peer::Impl::OwnWord() const {
  // A leader speaks of its history as it is now: who is not ahead of that may join.
  if (leading() != nullptr) {
    return {ServerState::kLeading,
            round_,
            {own_.current_epoch, own_.history.durable(), own_.options.server}};
  }
  return {state(), round_, vote_};
}

void Peer::Impl::On(Instant now, const ReceivedNotification& input, Output* output) {
  if (Election* election = looking()) {
    if (draining_) return Ignored(output, input.from, "notification before our own election");
    return election->OnNotification(now, input.from, input.notification, output);
  }
  if (input.notification.state != ServerState::kLooking) {
    return Ignored(output, input.from, "notification while following or leading");
  }
  // It will not come to us, and we may lack the quorum that it would make: only a new election
  // helps.
  const Vote& vote = input.notification.vote;
  if (Leader* leader = leading();
      leader != nullptr && vote.leader == input.from && vote > OwnWord().vote) {
    leader->OnBetterVote();
    if (leader->abdicated() != nullptr) return;
  }
  // Our leader is in a later election than the one that chose it.
  Follower* follower = following();
  if (follower != nullptr && follower->leader() == input.from &&
      input.notification.round > round_) {
    follower->OnLeaderLooking();
    if (follower->abandoned() != nullptr) return;
  }
  output->notifications.push_back({input.from, OwnWord()});
}

void Peer::Impl::On(Instant, const NotificationLinkUp& input, Output* output) {
  if (Election* election = looking()) {
    if (!draining_) election->OnLinkUp(input.server, output);
  } else {
    output->notifications.push_back({input.server, OwnWord()});
  }
}

void Peer::Impl::On(Instant now, const ChannelOpened& input, Output* output) {
  if (input.channel.accepted()) {
    if (Leader* leader = leading()) return leader->OnChannelOpened(now, input.channel);
    Ignored(output, {}, "a learner came, but we do not lead");
    output->closes.push_back(input.channel);
    return;
  }
  Follower* follower = following();
  if (follower != nullptr && follower->channel() == input.channel) {
    return follower->OnChannelOpened(now, input.channel, output);
  }
  Ignored(output, {}, "opened a channel that is given up");
  output->closes.push_back(input.channel);
}

void Peer::Impl::On(Instant now, const ChannelClosed& input, Output* output) {
  if (Leader* leader = leading()) {
    leader->OnChannelClosed(input.channel, output);
  } else if (Follower* follower = following()) {
    follower->OnChannelClosed(now, input.channel, output);
  } else {
    Ignored(output, {}, "closed a channel that is given up");
  }
}

void Peer::Impl::On(Instant now, const Received& input, Output* output) {
  if (Leader* leader = leading()) {
    leader->OnReceived(now, input.channel, input.message, output);
  } else if (Follower* follower = following()) {
    follower->OnReceived(now, input.channel, input.message, output);
  } else {
    Ignored(output, {}, "message on a channel that is given up");
  }
}

void Peer::Impl::On(Instant now, const Persisted& input, Output* output) {
  own_.OnPersisted(input.id, output);
  if (Leader* leader = leading()) {
    leader->OnPersisted(now, output);
  } else if (Follower* follower = following()) {
    follower->OnPersisted(output);
  }
}

void Peer::Impl::On(Instant, const Propose& input, Output* output) {
  LS_CHECK(leading() != nullptr);
  leading()->Propose(input.body, output);
}

void Peer::Impl::On(Instant, const zab::SendRequest& input, Output* output) {
  if (Follower* follower = following()) return follower->SendRequest(input.payload, output);
  Ignored(output, {}, "request without a leader");
}

void Peer::Impl::On(Instant, const zab::SendReply& input, Output* output) {
  if (Leader* leader = leading()) return leader->SendReply(input.to, input.payload, output);
  Ignored(output, input.to, "reply of a former leader");
}

void Peer::Impl::On(Instant, const zab::AnswerPing& input, Output* output) {
  if (Follower* follower = following()) return follower->AnswerPing(input.payload, output);
  Ignored(output, {}, "answer to a ping of a lost leader");
}

void Peer::Impl::On(Instant, const zab::SendPing& input, Output* output) {
  if (Leader* leader = leading()) return leader->SendPing(input.to, input.payload, output);
  Ignored(output, input.to, "ping of a former leader");
}

void Peer::Impl::On(Instant now, const SnapshotChunk& input, Output* output) {
  if (Leader* leader = leading()) {
    return leader->OnSnapshotChunk(now, input.channel, input.data, input.last, output);
  }
  Ignored(output, {}, "a snapshot of a former leader");
}

void Peer::Impl::TrimHistory() {
  if (own_.install) return;
  Zxid up_to = own_.delivered;
  // A learner that is being sent a snapshot needs what comes after it; the leader bounds how much.
  if (const Leader* leader = leading()) {
    if (auto needed = leader->window_needed_after()) up_to = std::min(up_to, *needed);
  }
  own_.history.Trim(up_to, own_.options.window_transactions, own_.options.window_bytes);
}

// ---- What can be seen --------------------------------------------------------------------------

Instant Peer::Impl::next_deadline() const {
  if (const Election* election = looking()) {
    return draining_ ? Instant::Never() : election->next_deadline();
  }
  if (const Leader* leader = leading()) return leader->next_deadline();
  return std::get<Follower>(role_).next_deadline();
}

ServerState Peer::Impl::state() const {
  if (looking() != nullptr) return ServerState::kLooking;
  return leading() != nullptr ? ServerState::kLeading : ServerState::kFollowing;
}

ServerId Peer::Impl::leader() const {
  if (looking() != nullptr) return {};
  return leading() != nullptr ? own_.options.server : std::get<Follower>(role_).leader();
}

bool Peer::Impl::established() const {
  if (looking() != nullptr) return false;
  if (const Leader* leader = leading()) return leader->established();
  return std::get<Follower>(role_).established();
}

Peer::Peer(const PeerOptions& options, DurableState durable)
    : impl_(std::make_unique<Impl>(options, std::move(durable))) {}
Peer::~Peer() = default;
void Peer::Step(Instant now, const Input& input, Output* output) {
  impl_->Step(now, input, output);
}
Instant Peer::next_deadline() const { return impl_->next_deadline(); }
ServerState Peer::state() const { return impl_->state(); }
ServerId Peer::server() const { return impl_->own().options.server; }
ServerId Peer::leader() const { return impl_->leader(); }
bool Peer::established() const { return impl_->established(); }
bool Peer::CanPropose() const {
  const Leader* leader = std::as_const(*impl_).leading();
  return leader != nullptr && leader->CanPropose();
}
Epoch Peer::accepted_epoch() const { return impl_->own().accepted_epoch; }
Epoch Peer::current_epoch() const { return impl_->own().current_epoch; }
Zxid Peer::last_zxid() const { return impl_->own().history.last(); }
Zxid Peer::durable_zxid() const { return impl_->own().history.durable(); }
Zxid Peer::committed_zxid() const { return impl_->own().committed; }
Zxid Peer::delivered_zxid() const { return impl_->own().delivered; }
Zxid Peer::base_zxid() const { return impl_->own().history.base(); }
uint64_t Peer::round() const { return impl_->round(); }
size_t Peer::synced_learner_count() const {
  const Leader* leader = std::as_const(*impl_).leading();
  return leader == nullptr ? 0 : leader->synced_learner_count();
}
size_t Peer::learner_count() const {
  const Leader* leader = std::as_const(*impl_).leading();
  return leader == nullptr ? 0 : leader->learner_count();
}
const std::deque<Transaction>& Peer::window() const { return impl_->own().history.window(); }

}  // namespace lockstep::zab
