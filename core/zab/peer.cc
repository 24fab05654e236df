#include "core/zab/peer.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/container/btree_map.h"
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
  void NoteNovices(const ReceivedNotification& input, Output* output);
  void AskOthers(Output* output);
  void MaybeRegainVote(Output* output);
  void TrimHistory();
  Notification OwnWord() const;

  OwnState own_;
  // Of the election that ended with the present role; see Election while there is one.
  uint64_t round_ = 0;
  Vote vote_;
  std::variant<Election, Follower, Leader> role_;
  // The election waits until what was written before it is durable.
  bool draining_ = true;
  // The last incarnation of each other server that may have lost its disk.
  absl::btree_map<ServerId, uint64_t> novices_;
  // We may have: who has heard from this incarnation of ours, and what they had promised by then.
  absl::btree_map<ServerId, Epoch> answers_;
};

void Peer::Impl::Step(Instant now, const Input& input, Output* output) {
  Watched before(own_);
  const size_t notifications = output->notifications.size();
  std::visit([&](const auto& i) { On(now, i, output); }, input);
  MaybeRegainVote(output);
  Settle(now, output);
  for (size_t i = notifications; i < output->notifications.size(); i++) {
    auto& [to, notification] = output->notifications[i];
    auto known = novices_.find(to);
    notification.novice = own_.novice() ? own_.options.incarnation : 0;
    notification.heard = known == novices_.end() ? 0 : known->second;
    notification.accepted_epoch = own_.accepted_epoch;
  }
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

// ---- An empty disk -----------------------------------------------------------------------------
//
// A novice may have had another disk, on which it promised an epoch to a leader, or acknowledged
// something, that still counts on it. Its history comes back from an established leader whose
// quorum does without it. Its promises do not: a leader that it has promised epoch 9 to may be on
// its way, while it is synchronized by one of epoch 8 and would help that one to commit. So it is
// counted again only when every other voter has answered it. A leader that answers has dropped the
// channel of the former self, and tells its epoch; from then on nothing rests on what is forgotten.

void Peer::Impl::NoteNovices(const ReceivedNotification& input, Output* output) {
  if (!own_.options.rules.count_only_who_remembers) return;
  if (!own_.voters.Contains(input.from) || input.from == own_.options.server) return;
  const Notification& word = input.notification;
  if (word.novice != 0 && novices_[input.from] != word.novice) {
    novices_[input.from] = word.novice;
    if (Leader* leader = leading()) leader->OnReborn(input.from, output);
  }
  // Its word alone must not use up the epochs of the ensemble.
  if (own_.novice() && word.heard == own_.options.incarnation &&
      word.accepted_epoch.Next() < kEpochMax) {
    Epoch& promised = answers_[input.from];
    promised = std::max(promised, word.accepted_epoch);
  }
}

void Peer::Impl::AskOthers(Output* output) {
  const Follower* follower = following();
  if (!follower->established() || !follower->learns()) return;
  for (ServerId server : own_.voters.all()) {
    if (server == own_.options.server || answers_.contains(server)) continue;
    output->notifications.push_back({server, {ServerState::kObserving, round_, vote_}});
  }
}

void Peer::Impl::MaybeRegainVote(Output* output) {
  Follower* follower = following();
  if (follower == nullptr || !follower->established() || !follower->learns()) return;
  if (follower->abandoned() != nullptr || answers_.size() + 1 < own_.voters.size()) return;
  Epoch promised;
  for (const auto& [server, epoch] : answers_) promised = std::max(promised, epoch);
  follower->RegainVote(promised, output);
}

void Peer::Impl::On(Instant now, const ReceivedNotification& input, Output* output) {
  NoteNovices(input, output);
  if (Election* election = looking()) {
    if (draining_) return Ignored(output, input.from, "notification before our own election");
    return election->OnNotification(now, input.from, input.notification, output);
  }
  if (input.notification.state == ServerState::kObserving) {
    output->notifications.push_back({input.from, OwnWord()});
    return;
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
    // As often as the leader pings.
    if (std::holds_alternative<Ping>(input.message)) AskOthers(output);
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
size_t Peer::novice_count() const {
  const Leader* leader = std::as_const(*impl_).leading();
  return leader == nullptr ? 0 : leader->novice_count();
}
const std::deque<Transaction>& Peer::window() const { return impl_->own().history.window(); }

}  // namespace lockstep::zab
