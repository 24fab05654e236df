// The leader's comparison of its followers' states with its own (rule R11), and its judgement of
// who is damaged when they differ.
//
// Two servers that differ do not tell which one is right; a majority does. The servers that agree
// with the leader as of the disputed zxid or later have the leader's state. Are they, with it, a
// majority of the ensemble, the follower is the odd one; if a majority differs from the leader, the
// leader is. While neither is so (servers are away, or have not reported yet), the audit waits for
// one period of patience, and then the follower has to go: clients must not be served two states,
// even if that costs the quorum. docs/zab.md, "Digests".
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/btree_map.h"
#include "core/base/event.h"
#include "core/base/ids.h"
#include "core/base/quorum.h"
#include "core/base/time.h"
#include "core/server/digest_log.h"

namespace lockstep::server {

class DigestAudit {
 public:
  enum class Verdict : uint8_t {
    kNone,              // equal, or not known yet
    kFollowerOutvoted,  // the follower differs, and a majority has the leader's state
    kUndecided,         // the follower differs, and nobody knows who is right
    kLeaderOutvoted,    // a majority differs from the leader
  };

  // `patience`: a follower that has not reported for so long does not count, and so long one that
  // differs may go on while the others are waited for.
  DigestAudit(ServerId self, std::vector<ServerId> voters, Duration patience);

  // A reign begins or ends. The counters stay.
  void Clear() { followers_.clear(); }

  // The follower `from` is in `state`; `own` are our own digests, `last_proposed` the last zxid of
  // our history. A state that we have not reached yet is kept, and compared when we have.
  void OnReport(Instant now, ServerId from, const StateDigest& state, const DigestLog& own,
                Zxid last_proposed, std::vector<Event>* events);
  // `own` has grown.
  void OnApplied(Instant now, const DigestLog& own, std::vector<Event>* events);

  Verdict Judge(Instant now, ServerId follower) const;
  // Our own state as of the zxid of the newest comparison with `follower`.
  // Requires: there was one, as when Judge gives a verdict.
  StateDigest OwnState(ServerId follower) const;

  // Since construction.
  uint64_t compared() const { return compared_; }
  uint64_t mismatches() const { return mismatches_; }

 private:
  struct Follower {
    // Of the newest comparison, if there was one.
    bool compared = false;
    bool differs = false;
    StateDigest own;
    Instant at;
    Instant differs_since;
    // A state beyond our own. Newer reports are dropped until it is compared: a leader that always
    // lags behind would never compare the newest one.
    std::optional<StateDigest> ahead;
  };

  void Compare(Instant now, ServerId from, const StateDigest& theirs, uint64_t own,
               std::vector<Event>* events);
  bool Fresh(Instant now, const Follower& follower) const {
    return follower.compared && now - follower.at <= patience_;
  }

  const ServerId self_;
  const Voters voters_;
  const Duration patience_;
  absl::btree_map<ServerId, Follower> followers_;
  uint64_t compared_ = 0;
  uint64_t mismatches_ = 0;
};

}  // namespace lockstep::server
