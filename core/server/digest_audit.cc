#include "core/server/digest_audit.h"

#include <utility>

#include "core/base/check.h"

namespace lockstep::server {

DigestAudit::DigestAudit(ServerId self, std::vector<ServerId> voters, Duration patience)
    : self_(self), voters_(std::move(voters)), patience_(patience) {}

void DigestAudit::OnReport(Instant now, ServerId from, const StateDigest& state,
                           const DigestLog& own, Zxid last_proposed, std::vector<Event>* events) {
  auto ignored = [&](const char* reason) {
    events->push_back(
        {.kind = EventKind::kIgnored, .peer = from, .zxid = state.zxid, .reason = reason});
  };
  // Nobody applies what was not proposed. Kept, it would block the place of what can be compared.
  if (state.zxid > last_proposed) return ignored("digest of a state that cannot be");
  Follower& follower = followers_[from];
  if (follower.ahead) return ignored("digest while another one waits");
  if (state.zxid > own.last()) {
    follower.ahead = state;
    return;
  }
  const std::optional<uint64_t> digest = own.AsOf(state.zxid);
  if (!digest) return ignored("digest of a state that is forgotten");
  Compare(now, from, state, *digest, events);
}

void DigestAudit::OnApplied(Instant now, const DigestLog& own, std::vector<Event>* events) {
  for (auto& [server, follower] : followers_) {
    if (!follower.ahead || follower.ahead->zxid > own.last()) continue;
    const StateDigest state = *std::exchange(follower.ahead, std::nullopt);
    // Known, unless we skipped to a state far beyond in one step, which a leader never does.
    if (std::optional<uint64_t> digest = own.AsOf(state.zxid)) {
      Compare(now, server, state, *digest, events);
    }
  }
}

void DigestAudit::Compare(Instant now, ServerId from, const StateDigest& theirs, uint64_t own,
                          std::vector<Event>* events) {
  Follower& follower = followers_[from];
  const bool differs = theirs.digest != own;
  // One that was away for long starts anew: whoever could decide may have come meanwhile.
  const bool goes_on = follower.differs && Fresh(now, follower);
  if (differs && !goes_on) follower.differs_since = now;
  follower.compared = true;
  follower.differs = differs;
  follower.own = {theirs.zxid, own};
  follower.at = now;
  ++compared_;
  mismatches_ += differs ? 1 : 0;
  if (!differs) {
    events->push_back({.kind = EventKind::kDigestCompared, .peer = from, .zxid = theirs.zxid});
    return;
  }
  events->push_back({.kind = EventKind::kDigestMismatch,
                     .peer = from,
                     .zxid = theirs.zxid,
                     .reason = "this server and the peer have different states after the same "
                               "transactions: one of the two is damaged. The one that a majority "
                               "contradicts stops itself, and says what to do"});
}

DigestAudit::Verdict DigestAudit::Judge(Instant now, ServerId server) const {
  auto found = followers_.find(server);
  if (found == followers_.end() || !found->second.differs) return Verdict::kNone;
  const Follower& accused = found->second;
  const bool leader_is_outvoted = voters_.IsQuorum([&](ServerId voter) {
    auto other = followers_.find(voter);
    return other != followers_.end() && other->second.differs && Fresh(now, other->second);
  });
  if (leader_is_outvoted) return Verdict::kLeaderOutvoted;
  // Who agreed before the disputed zxid says nothing about it.
  const bool follower_is_outvoted = voters_.IsQuorum([&](ServerId voter) {
    if (voter == self_) return true;
    auto other = followers_.find(voter);
    return other != followers_.end() && !other->second.differs && Fresh(now, other->second) &&
           other->second.own.zxid >= accused.own.zxid;
  });
  if (follower_is_outvoted) return Verdict::kFollowerOutvoted;
  return now - accused.differs_since > patience_ ? Verdict::kUndecided : Verdict::kNone;
}

StateDigest DigestAudit::OwnState(ServerId follower) const {
  auto found = followers_.find(follower);
  LS_CHECK(found != followers_.end() && found->second.compared);
  return found->second.own;
}

}  // namespace lockstep::server
