#include "core/replication/follower_progress.h"

#include <gtest/gtest.h>

namespace lockstep::replication {
namespace {

constexpr Duration kKeep = Milliseconds(300);
constexpr BrokerEpoch kFirst{7};
constexpr BrokerEpoch kSecond{8};

Instant At(int64_t ms) { return Instant{} + Milliseconds(ms); }

class FollowerProgressTest : public ::testing::Test {
 protected:
  // A fetch that is answered at once.
  void Fetch(int64_t ms, Offset offset, Offset leader_end, BrokerEpoch incarnation = kFirst) {
    progress_.OnFetch(At(ms), incarnation, offset, leader_end);
    progress_.OnAnswered(At(ms));
  }
  FollowerProgress progress_{At(0), /*in_sync=*/false, /*assigned_at=*/3};
};

TEST_F(FollowerProgressTest, BeforeItsFirstFetchNothingIsKnown) {
  EXPECT_FALSE(progress_.known());
  EXPECT_EQ(progress_.log_end(), -1);
  EXPECT_EQ(progress_.assigned_at(), 3);
  EXPECT_EQ(progress_.in_sync_until(0, kKeep), std::nullopt);
  EXPECT_FALSE(progress_.CaughtUp(At(0), 0, kKeep));
}

TEST_F(FollowerProgressTest, AMemberHasItsTimeToFetchFirst) {
  const FollowerProgress member(At(0), /*in_sync=*/true, 3);
  EXPECT_EQ(member.in_sync_until(5, kKeep), At(300));
  EXPECT_TRUE(member.CaughtUp(At(300), 5, kKeep));
  EXPECT_FALSE(member.CaughtUp(At(301), 5, kKeep));
}

// KAFKA-7152.
TEST_F(FollowerProgressTest, AtTheLeadersEndItStaysInSyncForEver) {
  Fetch(10, 5, 5);
  EXPECT_TRUE(progress_.known());
  EXPECT_EQ(progress_.log_end(), 5);
  EXPECT_EQ(progress_.incarnation(), kFirst);
  EXPECT_EQ(progress_.in_sync_until(5, kKeep), Instant::Never());
  EXPECT_TRUE(progress_.CaughtUp(At(1'000'000), 5, kKeep));
}

TEST_F(FollowerProgressTest, BehindTheLeadersEndItsTimeCountsFromWhenItWasCaughtUp) {
  Fetch(10, 5, 5);
  EXPECT_EQ(progress_.in_sync_until(6, kKeep), At(310));
}

TEST_F(FollowerProgressTest, AFetchBehindDoesNotCatchUp) {
  Fetch(10, 3, 5);
  EXPECT_EQ(progress_.in_sync_until(5, kKeep), std::nullopt);
  Fetch(20, 4, 6);
  EXPECT_EQ(progress_.in_sync_until(6, kKeep), std::nullopt);
}

// With a leader that appends all the time it never is at the end.
TEST_F(FollowerProgressTest, ReachingTheEndOfTheFetchBeforeCatchesUpToThatOne) {
  Fetch(10, 3, 5);
  Fetch(20, 5, 8);
  EXPECT_EQ(progress_.in_sync_until(8, kKeep), At(310));
  Fetch(40, 8, 9);
  EXPECT_EQ(progress_.in_sync_until(9, kKeep), At(320));
}

TEST_F(FollowerProgressTest, ThatFetchMustHaveBeenOfTheSameIncarnation) {
  Fetch(10, 3, 5);
  Fetch(20, 5, 8, kSecond);
  EXPECT_EQ(progress_.in_sync_until(8, kKeep), std::nullopt);
  EXPECT_EQ(progress_.incarnation(), kSecond);
}

TEST_F(FollowerProgressTest, ItsTimeNeverGoesBack) {
  Fetch(10, 3, 5);
  progress_.OnJoin(At(20));
  Fetch(30, 5, 8);  // caught up at 10
  EXPECT_EQ(progress_.in_sync_until(8, kKeep), At(320));
}

// KAFKA-8733, KIP-501.
TEST_F(FollowerProgressTest, WhileAFetchWaitsItsTimeStandsStill) {
  Fetch(10, 5, 5);
  progress_.OnFetch(At(100), kFirst, 5, 6);
  EXPECT_EQ(progress_.in_sync_until(6, kKeep), At(310 + 300));
  progress_.OnAnswered(At(250));
  // 10 caught up at the fetch at 10, and 150 of waiting.
  EXPECT_EQ(progress_.in_sync_until(6, kKeep), At(310 + 150));
}

// A read that hangs.
TEST_F(FollowerProgressTest, AFetchThatWaitsForEverKeepsNobodyInSync) {
  Fetch(10, 5, 5);
  progress_.OnFetch(At(20), kFirst, 5, 6);
  EXPECT_TRUE(progress_.CaughtUp(At(610), 6, kKeep));
  EXPECT_FALSE(progress_.CaughtUp(At(611), 6, kKeep));
}

TEST_F(FollowerProgressTest, AFetchThatComesTooLateStopsNoClock) {
  Fetch(10, 5, 5);
  progress_.OnFetch(At(400), kFirst, 5, 6);
  EXPECT_EQ(progress_.in_sync_until(6, kKeep), At(310));
}

TEST_F(FollowerProgressTest, AnAnswerToNothingChangesNothing) {
  progress_.OnAnswered(At(5));
  Fetch(10, 5, 5);
  progress_.OnAnswered(At(200));
  EXPECT_EQ(progress_.in_sync_until(6, kKeep), At(310));
}

TEST_F(FollowerProgressTest, TheTimeOfTheFetchBeforeMovesWithTheWaiting) {
  progress_.OnFetch(At(10), kFirst, 3, 5);
  progress_.OnAnswered(At(60));
  Fetch(70, 5, 8);
  EXPECT_EQ(progress_.in_sync_until(8, kKeep), At(360));
}

TEST_F(FollowerProgressTest, JoiningGivesItItsTime) {
  Fetch(10, 3, 5);
  progress_.OnJoin(At(20));
  EXPECT_EQ(progress_.in_sync_until(5, kKeep), At(320));
}

}  // namespace
}  // namespace lockstep::replication
