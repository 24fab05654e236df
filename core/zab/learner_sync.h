// How a learner is brought up to date: the choice between DIFF, TRUNC and SNAP. Pure.
#pragma once

#include <vector>

#include "core/base/zxid.h"
#include "core/zab/history.h"

namespace lockstep::zab {

struct SyncPlan {
  enum class Mode {
    kDiff,   // the learner's history is a prefix of ours: send what comes after `common`
    kTrunc,  // the learner removes what comes after `common`, then as kDiff
    kSnap,   // `common` is not in our window, or cannot be told: a snapshot, then as kDiff after it
  };
  Mode mode = Mode::kSnap;
  Zxid common;  // the last transaction that both histories have; undefined for kSnap
};

// Compares `history` (ours, the leader's) with a learner that has said where each epoch ends in its
// own (AckEpoch::epoch_ends: ascending, not empty, the last one is its last transaction).
//
// Two servers that have a transaction <e,c> have equal histories up to it: everything in epoch e
// was proposed by one leader, in order, on top of one initial history. So within an epoch that both
// know, the shorter one is common; and the newest such epoch gives the longest common prefix.
// Having only the learner's last zxid, one cannot tell whether it has our transactions of an epoch
// in between; ZooKeeper guessed, and learners kept transactions that nobody else had
// (ZOOKEEPER-1154).
SyncPlan PlanSync(const History& history, const std::vector<Zxid>& epoch_ends);

}  // namespace lockstep::zab
