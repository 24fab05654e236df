#include "core/zab/learner_sync.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "tests/support/zab_trio.h"

namespace lockstep::zab {
namespace {

using Mode = SyncPlan::Mode;

SyncPlan Plan(std::string_view leader, std::string_view learner) {
  History ours({}, Transactions(leader));
  History theirs({}, Transactions(learner));
  return PlanSync(ours, theirs.EpochEnds(1024));
}

void ExpectPlan(const SyncPlan& plan, Mode mode, Zxid common) {
  EXPECT_EQ(plan.mode, mode);
  EXPECT_EQ(plan.common, common);
}

TEST(PlanSync, EqualHistoriesNeedNothing) {
  ExpectPlan(Plan("1.1 1.2", "1.1 1.2"), Mode::kDiff, Z(1, 2));
  ExpectPlan(Plan("", ""), Mode::kDiff, Z(0, 0));
}

TEST(PlanSync, APrefixGetsTheRest) {
  ExpectPlan(Plan("1.1 1.2 2.1", "1.1"), Mode::kDiff, Z(1, 1));
  ExpectPlan(Plan("1.1 1.2 2.1", "1.1 1.2"), Mode::kDiff, Z(1, 2));
  ExpectPlan(Plan("1.1", ""), Mode::kDiff, Z(0, 0));
}

TEST(PlanSync, WhatTheLeaderDoesNotHaveIsCut) {
  ExpectPlan(Plan("1.1", "1.1 1.2 1.3"), Mode::kTrunc, Z(1, 1));
  ExpectPlan(Plan("", "1.1"), Mode::kTrunc, Z(0, 0));
}

TEST(PlanSync, AForkIsCutAndThenContinued) {
  ExpectPlan(Plan("1.1 2.1", "1.1 1.2"), Mode::kTrunc, Z(1, 1));
  ExpectPlan(Plan("1.1 1.2 3.1", "1.1 1.2 2.1 2.2"), Mode::kTrunc, Z(1, 2));
}

// ZOOKEEPER-1154: the learner's last transaction is of an epoch that the leader knows nothing of,
// and below it lies one more that the leader does not have.
TEST(PlanSync, SeesThroughAnEpochThatTheLeaderLacks) {
  ExpectPlan(Plan("1.1 4.1", "1.1 1.2 1.3 2.1 3.1"), Mode::kTrunc, Z(1, 1));
}

TEST(PlanSync, TheNewestSharedEpochDecides) {
  ExpectPlan(Plan("1.1 2.1 2.2 3.1", "1.1 2.1 2.2 2.3"), Mode::kTrunc, Z(2, 2));
}

TEST(PlanSync, SnapshotWhenTheCommonPartIsForgotten) {
  History ours(Z(1, 2), Transactions("1.3 2.1"));

  EXPECT_EQ(PlanSync(ours, {Z(1, 1)}).mode, Mode::kSnap);
  EXPECT_EQ(PlanSync(ours, {Z(0, 0)}).mode, Mode::kSnap);
  ExpectPlan(PlanSync(ours, {Z(1, 2)}), Mode::kDiff, Z(1, 2));
}

TEST(PlanSync, SnapshotWhenTheLearnerHasForgottenIt) {
  History ours({}, Transactions("1.1 5.1"));

  // It starts in an epoch that left nothing here.
  EXPECT_EQ(PlanSync(ours, {Z(3, 7), Z(4, 1)}).mode, Mode::kSnap);
}

TEST(PlanSync, TheLearnersBaseMayBeTheCommonPart) {
  History ours({}, Transactions("1.1 1.2 5.1"));
  History theirs(Z(1, 2), Transactions("3.1"));

  ExpectPlan(PlanSync(ours, theirs.EpochEnds(1024)), Mode::kTrunc, Z(1, 2));
}

// ---- Against brute force, over histories that can come about -----------------------------------

// Servers with histories as Zab makes them: in each epoch some server leads, some take over its
// history in full or in part, and then log a part of what it proposes.
std::vector<std::vector<Zxid>> HistoriesOfAnEnsemble() {
  size_t servers = *rc::gen::inRange<size_t>(2, 5);
  std::vector<std::vector<Zxid>> all(servers);
  uint32_t epochs = *rc::gen::inRange<uint32_t>(1, 7);
  for (uint32_t epoch = 1; epoch <= epochs; epoch++) {
    std::vector<Zxid> leaders = all[*rc::gen::inRange<size_t>(0, servers)];
    uint32_t proposals = *rc::gen::inRange<uint32_t>(0, 4);
    for (uint32_t c = 1; c <= proposals; c++) leaders.push_back(Z(epoch, c));
    for (auto& history : all) {
      if (*rc::gen::inRange(0, 3) == 0) continue;  // not there in this epoch
      size_t common = 0;
      while (common < history.size() && common < leaders.size() &&
             history[common] == leaders[common])
        common++;
      // It breaks off anywhere from the truncation to the last proposal.
      history.assign(leaders.begin(),
                     leaders.begin() + static_cast<ptrdiff_t>(
                                           *rc::gen::inRange<size_t>(common, leaders.size() + 1)));
    }
  }
  return all;
}

TEST(PlanSync, FindsTheLongestCommonPrefixOfAnyTwoHistories) {
  EXPECT_TRUE(rc::check([] {
    std::vector<std::vector<Zxid>> all = HistoriesOfAnEnsemble();
    for (const auto& a : all) {
      for (const auto& b : all) {
        size_t common = 0;
        while (common < a.size() && common < b.size() && a[common] == b[common]) common++;
        Zxid expected = common == 0 ? Zxid{} : a[common - 1];

        // Both have forgotten a part.
        size_t base_a = *rc::gen::inRange<size_t>(0, a.size() + 1);
        size_t base_b = *rc::gen::inRange<size_t>(0, b.size() + 1);
        auto window = [](const std::vector<Zxid>& zxids, size_t base) {
          std::vector<Transaction> transactions;
          for (size_t i = base; i < zxids.size(); i++) transactions.push_back({zxids[i], {}});
          return History(base == 0 ? Zxid{} : zxids[base - 1], std::move(transactions));
        };
        History leader = window(a, base_a);
        History learner = window(b, base_b);
        SyncPlan plan = PlanSync(leader, learner.EpochEnds(1024));

        if (base_a > common) {
          RC_ASSERT(plan.mode == Mode::kSnap);
        } else if (base_b <= common) {
          RC_ASSERT(plan.common == expected);
          RC_ASSERT(plan.mode == (common == b.size() ? Mode::kDiff : Mode::kTrunc));
        } else {
          // What the learner has forgotten was committed, so this cannot come about between servers
          // that obey Zab; whatever is answered must not claim more than there is in common.
          RC_ASSERT(plan.mode == Mode::kSnap || plan.common <= expected);
        }
      }
    }
  }));
}

}  // namespace
}  // namespace lockstep::zab
