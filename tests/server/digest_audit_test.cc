#include "core/server/digest_audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::server {
namespace {

using ::testing::ElementsAre;
using Verdict = DigestAudit::Verdict;

constexpr Duration kPatience = Seconds(10);
constexpr ServerId kLeader{1};
constexpr ServerId kA{2}, kB{3}, kC{4}, kD{5};

Zxid At(uint32_t counter) { return {{1}, counter}; }
// The digest of the right state as of a zxid, and of a wrong one.
uint64_t Right(uint32_t counter) { return 1000 + counter; }
uint64_t Wrong(uint32_t counter) { return 2000 + counter; }

TEST(DigestLog, KnowsTheNewestStates) {
  DigestLog log(2);
  EXPECT_EQ(log.last(), Zxid{});
  EXPECT_EQ(log.AsOf(At(1)), std::nullopt);

  for (uint32_t i = 1; i <= 3; ++i) log.Append({At(i), Right(i)});

  EXPECT_EQ(log.last(), At(3));
  EXPECT_EQ(log.AsOf(At(1)), std::nullopt) << "fallen out";
  EXPECT_EQ(log.AsOf(At(2)), Right(2));
  EXPECT_EQ(log.AsOf(At(3)), Right(3));
  EXPECT_EQ(log.AsOf(At(4)), std::nullopt) << "not yet";
}

TEST(DigestLog, TheStateBetweenTwoTransactionsIsThatAfterTheFirst) {
  DigestLog log(8);
  log.Append({At(5), Right(5)});
  log.Append({{{2}, 1}, 7});

  EXPECT_EQ(log.AsOf(At(6)), Right(5));
}

TEST(DigestLog, AReplacedStateForgetsTheOthers) {
  DigestLog log(8);
  for (uint32_t i = 1; i <= 3; ++i) log.Append({At(i), Right(i)});

  log.Reset({At(2), Wrong(2)});

  EXPECT_EQ(log.last(), At(2));
  EXPECT_EQ(log.AsOf(At(1)), std::nullopt);
  EXPECT_EQ(log.AsOf(At(2)), Wrong(2));
}

// A leader of three servers, which has proposed 20 transactions and applied 10.
class DigestAuditTest : public testing::Test {
 protected:
  explicit DigestAuditTest(std::vector<ServerId> voters = {kLeader, kA, kB})
      : audit_(kLeader, std::move(voters), kPatience) {
    for (uint32_t i = 1; i <= 10; ++i) Apply(i);
  }

  void Apply(uint32_t counter) {
    log_.Append({At(counter), Right(counter)});
    audit_.OnApplied(now_, log_, &events_);
  }
  Verdict Report(ServerId from, uint32_t counter, uint64_t digest) {
    audit_.OnReport(now_, from, {At(counter), digest}, log_, At(20), &events_);
    return audit_.Judge(now_, from);
  }
  Verdict Good(ServerId from, uint32_t counter) { return Report(from, counter, Right(counter)); }
  Verdict Bad(ServerId from, uint32_t counter) { return Report(from, counter, Wrong(counter)); }

  std::string LastEvent() {
    if (events_.empty()) return "none";
    return events_.back().kind == EventKind::kIgnored ? events_.back().reason
                                                      : EventName(events_.back().kind);
  }

  Instant now_ = Instant{} + Seconds(100);
  DigestLog log_{8};  // 3 to 10
  DigestAudit audit_;
  std::vector<Event> events_;
};

class DigestAuditOfFive : public DigestAuditTest {
 protected:
  DigestAuditOfFive() : DigestAuditTest({kLeader, kA, kB, kC, kD}) {}
};

TEST_F(DigestAuditTest, EqualStatesAreCountedAndNothingElse) {
  EXPECT_EQ(Good(kA, 10), Verdict::kNone);

  EXPECT_EQ(audit_.compared(), 1u);
  EXPECT_EQ(audit_.mismatches(), 0u);
  EXPECT_EQ(LastEvent(), "digest-compared");
}

TEST_F(DigestAuditTest, AFollowerThatDiffersFromTheMajorityIsTheOddOne) {
  Good(kB, 9);

  EXPECT_EQ(Bad(kA, 9), Verdict::kFollowerOutvoted);

  EXPECT_EQ(LastEvent(), "digest-mismatch");
  EXPECT_EQ(events_.back().peer, kA);
  EXPECT_EQ(events_.back().zxid, At(9));
  EXPECT_EQ(audit_.OwnState(kA), (StateDigest{At(9), Right(9)}));
  EXPECT_EQ(audit_.compared(), 2u);
  EXPECT_EQ(audit_.mismatches(), 1u);
  EXPECT_EQ(audit_.Judge(now_, kB), Verdict::kNone);
}

TEST_F(DigestAuditTest, ALeaderThatDiffersFromTheMajorityIsTheOddOne) {
  EXPECT_EQ(Bad(kA, 9), Verdict::kNone) << "one against one";

  EXPECT_EQ(Bad(kB, 10), Verdict::kLeaderOutvoted);
}

TEST_F(DigestAuditTest, WhoAgreedBeforeTheDisputedStateDecidesNothing) {
  Good(kB, 8);
  EXPECT_EQ(Bad(kA, 9), Verdict::kNone);
  EXPECT_EQ(Bad(kB, 9), Verdict::kLeaderOutvoted) << "it was the leader, after 8";
}

TEST_F(DigestAuditTest, WhileTheThirdIsAwayNobodyKnowsAndTheFollowerGoesInTheEnd) {
  EXPECT_EQ(Bad(kA, 9), Verdict::kNone);
  now_ = now_ + kPatience;
  EXPECT_EQ(Bad(kA, 10), Verdict::kNone);
  now_ = now_ + Milliseconds(1);

  EXPECT_EQ(Bad(kA, 10), Verdict::kUndecided);
}

TEST_F(DigestAuditTest, TheWordOfOneThatIsGoneDoesNotCount) {
  Bad(kB, 9);
  now_ = now_ + kPatience + Milliseconds(1);
  EXPECT_EQ(Bad(kA, 9), Verdict::kNone);

  // And one that comes back has its time anew.
  EXPECT_EQ(Bad(kB, 3), Verdict::kLeaderOutvoted);
  now_ = now_ + kPatience + Milliseconds(1);
  EXPECT_EQ(Bad(kB, 10), Verdict::kNone);
}

TEST_F(DigestAuditTest, AStateThatIsEqualAgainIsNoDisputeAnyMore) {
  Bad(kA, 8);
  EXPECT_EQ(Good(kA, 9), Verdict::kNone);

  EXPECT_EQ(Bad(kB, 9), Verdict::kFollowerOutvoted);
}

TEST_F(DigestAuditTest, AFollowerAheadOfTheLeaderIsComparedWhenTheLeaderGetsThere) {
  EXPECT_EQ(Bad(kA, 12), Verdict::kNone);
  EXPECT_EQ(audit_.compared(), 0u);
  Apply(11);
  EXPECT_EQ(audit_.compared(), 0u);

  Apply(12);

  EXPECT_EQ(audit_.compared(), 1u);
  EXPECT_EQ(LastEvent(), "digest-mismatch");
  Good(kB, 12);
  EXPECT_EQ(audit_.Judge(now_, kA), Verdict::kFollowerOutvoted);
}

TEST_F(DigestAuditTest, ALeaderThatAlwaysLagsBehindComparesAllTheSame) {
  Good(kA, 12);
  EXPECT_EQ(Good(kA, 14), Verdict::kNone);
  EXPECT_EQ(LastEvent(), "digest while another one waits");

  Apply(11);
  Apply(12);

  EXPECT_EQ(audit_.compared(), 1u);
  EXPECT_EQ(LastEvent(), "digest-compared");
}

TEST_F(DigestAuditTest, WhatWasNeverProposedIsIgnored) {
  EXPECT_EQ(Bad(kA, 21), Verdict::kNone);
  EXPECT_EQ(LastEvent(), "digest of a state that cannot be");

  Good(kA, 10);
  EXPECT_EQ(audit_.compared(), 1u) << "it takes no place";
}

TEST_F(DigestAuditTest, AStateThatHasFallenOutIsIgnored) {
  EXPECT_EQ(Bad(kA, 2), Verdict::kNone);

  EXPECT_EQ(LastEvent(), "digest of a state that is forgotten");
  EXPECT_EQ(audit_.compared(), 0u);
}

TEST_F(DigestAuditTest, ANewReignBeginsWithoutDisputes) {
  Bad(kA, 9);
  Good(kB, 12);

  audit_.Clear();
  Apply(11);
  Apply(12);

  EXPECT_EQ(audit_.Judge(now_, kA), Verdict::kNone);
  EXPECT_EQ(Bad(kB, 12), Verdict::kNone);
  EXPECT_EQ(audit_.compared(), 2u) << "counters are of the process";
}

TEST_F(DigestAuditOfFive, TwoOddOnesLeaveAMajority) {
  Bad(kA, 8);
  Bad(kB, 9);
  Good(kC, 9);
  EXPECT_EQ(audit_.Judge(now_, kA), Verdict::kNone) << "the leader and C are two of five";

  Good(kD, 8);

  EXPECT_EQ(audit_.Judge(now_, kA), Verdict::kFollowerOutvoted);
  EXPECT_EQ(audit_.Judge(now_, kB), Verdict::kNone) << "D has not told of 9 yet";
  Good(kD, 9);
  EXPECT_EQ(audit_.Judge(now_, kB), Verdict::kFollowerOutvoted);
}

TEST_F(DigestAuditOfFive, ThreeAgainstTheLeaderAreTheMajority) {
  Good(kD, 10);
  EXPECT_EQ(Bad(kA, 10), Verdict::kNone);
  EXPECT_EQ(Bad(kB, 10), Verdict::kNone);

  EXPECT_EQ(Bad(kC, 10), Verdict::kLeaderOutvoted);
}

}  // namespace
}  // namespace lockstep::server
