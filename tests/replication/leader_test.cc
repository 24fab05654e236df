// What a leader does with produces and fetches, and when its high watermark moves. The ISR:
// leader_isr_test.cc.
#include "core/replication/leader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/replication/solo.h"

namespace lockstep::replication {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Diverging = ReplicaFetchResponse::Diverging;

Solo::Setup Alone() { return {.replicas = {{1}}, .isr = Members({1})}; }

// ---- Produce ------------------------------------------------------------------------------------

TEST(LeaderProduce, WithoutLeadershipItIsRefused) {
  Solo solo;
  EXPECT_THAT((solo.Produce(Acks::kAll), solo.said()),
              ElementsAre(Said{1, ProduceError::kNotLeader}));
  EXPECT_FALSE(solo.appended);
  solo.Follow(2, 0);
  solo.Produce(Acks::kNone);
  EXPECT_THAT(solo.said(), ElementsAre(Said{2, ProduceError::kNotLeader}));
  EXPECT_EQ(solo.log.end, 0);
}

TEST(LeaderProduce, WithoutAcksIsAnsweredAtOnce) {
  Solo solo;
  solo.Lead(0);
  solo.Produce(Acks::kNone, 2);
  EXPECT_TRUE(solo.appended);
  EXPECT_TRUE(solo.out.data_appended);
  EXPECT_THAT(solo.said(), ElementsAre(Said{1, ProduceError::kNone, 0}));
  solo.Produce(Acks::kNone);
  EXPECT_THAT(solo.said(), ElementsAre(Said{2, ProduceError::kNone, 2}));
}

TEST(LeaderProduce, WithOneAckIsAnsweredWhenDurableHere) {
  Solo solo;
  solo.Lead(0);
  solo.Persist();
  solo.Produce(Acks::kLeader);
  EXPECT_THAT(solo.said(), IsEmpty());
  solo.Produce(Acks::kLeader);
  solo.PersistOne();
  EXPECT_THAT(solo.said(), ElementsAre(Said{1, ProduceError::kNone, 0}));
  solo.PersistOne();
  EXPECT_THAT(solo.said(), ElementsAre(Said{2, ProduceError::kNone, 1}));
  EXPECT_EQ(solo.partition.high_watermark(), 0);  // nobody else has them
}

TEST(LeaderProduce, WithAllAcksIsAnsweredWhenCommitted) {
  Solo solo;
  solo.Lead(0);
  solo.Produce(Acks::kAll);
  solo.Produce(Acks::kAll);
  solo.Persist();
  EXPECT_THAT(solo.said(), IsEmpty());
  solo.Fetch(2, 2);
  EXPECT_THAT(solo.said(), IsEmpty());
  solo.Fetch(3, 1);
  EXPECT_THAT(solo.said(), ElementsAre(Said{1, ProduceError::kNone, 0}));
  EXPECT_TRUE(solo.out.high_watermark_moved);
  solo.Fetch(3, 2);
  EXPECT_THAT(solo.said(), ElementsAre(Said{2, ProduceError::kNone, 1}));
}

TEST(LeaderProduce, TheLeadersOwnRecordsCountWhenTheyAreDurable) {
  Solo solo(Alone());
  solo.Lead(0);
  solo.Produce(Acks::kAll);
  EXPECT_EQ(solo.partition.high_watermark(), 0);
  solo.Persist();
  EXPECT_THAT(solo.said(), ElementsAre(Said{1, ProduceError::kNone, 0}));
  EXPECT_EQ(solo.partition.high_watermark(), 1);
}

TEST(LeaderProduce, WithoutTheRuleWhatIsNotDurableIsCommitted) {
  Solo::Setup setup = Alone();
  setup.rules.leader_counts_durable_only = false;
  Solo solo(setup);
  solo.Lead(0);
  solo.Produce(Acks::kAll);
  EXPECT_THAT(solo.said(), ElementsAre(Said{1, ProduceError::kNone, 0}));
}

TEST(LeaderProduce, BelowTheMinimumIsrAcksOfAllAreRefused) {
  Solo solo({.isr = Members({1}), .min_insync = 2});
  solo.Lead(0);
  solo.Produce(Acks::kAll);
  EXPECT_FALSE(solo.appended);
  EXPECT_THAT(solo.said(), ElementsAre(Said{1, ProduceError::kNotEnoughReplicas}));
  solo.Produce(Acks::kLeader);
  EXPECT_TRUE(solo.appended);
}

TEST(LeaderProduce, AMinimumAboveTheNumberOfReplicasIsThatNumber) {
  Solo::Setup setup = Alone();
  setup.min_insync = 3;
  Solo solo(setup);
  solo.Lead(0);
  solo.Produce(Acks::kAll);
  solo.Persist();
  EXPECT_THAT(solo.said(), ElementsAre(Said{1, ProduceError::kNone, 0}));
}

TEST(LeaderProduce, MoreThanMayWaitAreRefused) {
  Solo solo({.pending_produces_max = 2});
  solo.Lead(0);
  solo.Produce(Acks::kAll);
  solo.Produce(Acks::kLeader);
  solo.Produce(Acks::kNone);
  EXPECT_FALSE(solo.appended);
  EXPECT_THAT(solo.said(), ElementsAre(Said{3, ProduceError::kOverloaded}));
  solo.Persist();
  solo.Produce(Acks::kLeader);
  EXPECT_TRUE(solo.appended);
}

TEST(LeaderProduce, ADeadlineAnswersWhatStillWaits) {
  Solo solo;
  solo.Lead(0);
  solo.Produce(Acks::kAll, 1, Milliseconds(50));
  solo.Produce(Acks::kLeader, 1, Milliseconds(100));
  EXPECT_EQ(solo.partition.next_deadline(), solo.now + Milliseconds(50));
  solo.Pass(Milliseconds(49));
  EXPECT_THAT(solo.said(), IsEmpty());
  solo.Pass(Milliseconds(1));
  EXPECT_THAT(solo.said(), ElementsAre(Said{1, ProduceError::kTimedOut}));
  solo.Pass(Milliseconds(50));
  EXPECT_THAT(solo.said(), ElementsAre(Said{2, ProduceError::kTimedOut}));
  // They are answered once; the records stay, and may be committed yet.
  solo.Persist();
  solo.Fetch(2, 2);
  solo.Fetch(3, 2);
  EXPECT_THAT(solo.said(), IsEmpty());
  EXPECT_EQ(solo.partition.high_watermark(), 2);
}

TEST(LeaderProduce, ADeadlineBelowTheMinimumIsrSaysSo) {
  Solo solo({.replicas = {{1}, {2}}, .isr = Members({1, 2}), .min_insync = 2});
  solo.Lead(0);
  solo.Produce(Acks::kAll, 1, Milliseconds(500));
  solo.Produce(Acks::kLeader, 1, Milliseconds(500));
  solo.Pass(Milliseconds(301));  // broker 2 never fetched
  ASSERT_EQ(solo.wanted_isr(), Members({1}));
  solo.Pass(Milliseconds(199));
  EXPECT_THAT(solo.said(), ElementsAre(Said{2, ProduceError::kTimedOut},
                                       Said{1, ProduceError::kNotEnoughReplicasAfterAppend}));
}

TEST(LeaderProduce, TheEndOfALeadershipFailsWhatWaits) {
  Solo solo;
  solo.Lead(0);
  solo.Produce(Acks::kLeader);
  solo.Produce(Acks::kAll);
  solo.Resign();
  EXPECT_THAT(solo.said(),
              ElementsAre(Said{2, ProduceError::kNotLeader}, Said{1, ProduceError::kNotLeader}));
  EXPECT_EQ(solo.Saw(EventKind::kProducesFailed), "");
  // Nor are they answered when their records are durable, or their time is over.
  solo.Persist();
  EXPECT_THAT(solo.said(), IsEmpty());
  solo.Lead(1);
  solo.Pass(Seconds(60));
  EXPECT_THAT(solo.said(), IsEmpty());
}

TEST(LeaderProduce, WithoutTheRuleTheyAreAnsweredUnderAnotherLeader) {
  Solo::Setup setup;
  setup.rules.bind_acks_to_leader_epoch = false;
  Solo solo(setup);
  solo.Lead(0);
  solo.Produce(Acks::kAll);
  solo.Persist();
  solo.Follow(2, 1);
  EXPECT_THAT(solo.said(), IsEmpty());
  ReplicaFetchResponse::Entry answer = solo.Answer();
  answer.high_watermark = 1;
  solo.Receive(answer);
  EXPECT_THAT(solo.said(), ElementsAre(Said{1, ProduceError::kNone, 0}));
}

TEST(LeaderProduceDeathTest, ABatchHasRecords) {
  Solo solo;
  solo.Lead(0);
  EXPECT_DEATH(solo.partition.Produce(solo.now, {1}, Acks::kAll, solo.now, {}, 0, &solo.out), "");
}

// ---- Fetches that are refused -------------------------------------------------------------------

TEST(LeaderFetch, WithoutLeadershipItIsRefused) {
  Solo solo;
  const auto decision = solo.Fetch(2, solo.FetchAt(0));
  EXPECT_EQ(decision.error, FetchError::kNotLeader);
  EXPECT_TRUE(decision.news);
}

TEST(LeaderFetch, OneWhoIsNotAssignedIsRefused) {
  Solo solo;
  solo.Lead(0);
  const auto decision = solo.Fetch(4, solo.FetchAt(0));
  EXPECT_EQ(decision.error, FetchError::kNotReplica);
  EXPECT_TRUE(decision.news);
  EXPECT_EQ(solo.Saw(EventKind::kFetchRefused), "not-replica");
  EXPECT_EQ(solo.Fetch(1, solo.FetchAt(0)).error, FetchError::kNotReplica);
}

// KIP-320.
TEST(LeaderFetch, AnotherLeaderEpochIsRefused) {
  Solo solo;
  solo.Lead(5);
  auto entry = solo.FetchAt(0);
  entry.leader_epoch = {4};
  EXPECT_EQ(solo.Fetch(2, entry).error, FetchError::kFencedLeaderEpoch);
  entry.leader_epoch = {6};
  EXPECT_EQ(solo.Fetch(2, entry).error, FetchError::kUnknownLeaderEpoch);
  EXPECT_EQ(solo.partition.followers()[0].log_end, -1);
}

TEST(LeaderFetch, WithoutTheRuleAnotherLeaderEpochCounts) {
  Solo::Setup setup;
  setup.rules.fence_fetches_by_leader_epoch = false;
  Solo solo(setup);
  solo.Lead(5);
  auto entry = solo.FetchAt(0);
  entry.leader_epoch = {4};
  EXPECT_EQ(solo.Fetch(2, entry).error, FetchError::kNone);
  EXPECT_EQ(solo.partition.followers()[0].log_end, 0);
}

// KIP-903.
TEST(LeaderFetch, AnIncarnationThatIsNotRegisteredIsRefused) {
  Solo solo;
  solo.Lead(0);
  EXPECT_EQ(solo.Fetch(2, solo.FetchAt(0), /*registered=*/false).error,
            FetchError::kStaleIncarnation);
  // Nor one before the last that fetched, whatever the registry said when it was asked.
  EXPECT_EQ(solo.FetchAs(2, {200}, solo.FetchAt(0)).error, FetchError::kNone);
  EXPECT_EQ(solo.FetchAs(2, {199}, solo.FetchAt(0)).error, FetchError::kStaleIncarnation);
  EXPECT_EQ(solo.FetchAs(2, {201}, solo.FetchAt(0)).error, FetchError::kNone);
}

TEST(LeaderFetch, BelowTheLogStartIsOutOfRange) {
  Solo solo({.log = LogOf({0, 0, 0, 0}), .high_watermark = 4});
  solo.Lead(1);
  solo.SetLogStart(2);
  EXPECT_EQ(solo.Fetch(2, {.leader_epoch = {1}, .fetch_offset = 1, .replicas_version = 5}).error,
            FetchError::kOffsetOutOfRange);
  EXPECT_EQ(solo.Fetch(2, {.leader_epoch = {1}, .fetch_offset = 2, .replicas_version = 5}).error,
            FetchError::kNone);
}

TEST(LeaderFetch, AHistoryOfEpochsBeforeAllOfOursHasNothingInCommon) {
  Solo solo({.log = LogOf({3, 3})});
  solo.Lead(4);
  auto entry = solo.FetchAt(1);
  entry.last_fetched_epoch = {2};
  EXPECT_EQ(solo.Fetch(2, entry).error, FetchError::kOffsetOutOfRange);
  // But one that ends where ours begins is the beginning of ours, if the follower is in sync. Seed
  // 4898 of `brokers-network`: else it may be of leaders that were replaced.
  entry.fetch_offset = 0;
  EXPECT_EQ(solo.Fetch(2, entry).error, FetchError::kNone);

  Solo alone({.isr = Members({1, 3}), .log = LogOf({3, 3})});
  alone.Lead(4);
  EXPECT_EQ(alone.Fetch(2, entry).error, FetchError::kOffsetOutOfRange);
  entry.last_fetched_epoch = {-1};
  EXPECT_EQ(alone.Fetch(2, entry).error, FetchError::kNone);
}

// ---- Histories that part ------------------------------------------------------------------------

TEST(LeaderFetch, AnEpochThatEndsEarlierHereParts) {
  Solo solo({.log = LogOf({0, 0, 2})});
  solo.Lead(3);
  auto entry = solo.FetchAt(3);
  entry.last_fetched_epoch = {0};
  const auto decision = solo.Fetch(2, entry);
  EXPECT_EQ(decision.error, FetchError::kNone);
  EXPECT_EQ(decision.diverging, (Diverging{{0}, 2}));
  EXPECT_TRUE(decision.news);
  EXPECT_EQ(solo.Saw(EventKind::kHistoryDiverged), "");
}

// KIP-279.
TEST(LeaderFetch, AnEpochThatIsUnknownHerePartsAtTheLargestOneBelow) {
  Solo solo({.log = LogOf({0, 0, 2})});
  solo.Lead(3);
  auto entry = solo.FetchAt(2);
  entry.last_fetched_epoch = {1};
  EXPECT_EQ(solo.Fetch(2, entry).diverging, (Diverging{{0}, 2}));
}

TEST(LeaderFetch, WithoutTheRuleAnUnknownEpochEndsWhereTheNextOneBegins) {
  Solo::Setup setup{.log = LogOf({0, 0, 2})};
  setup.rules.answer_largest_epoch_not_above = false;
  Solo solo(setup);
  solo.Lead(3);
  auto entry = solo.FetchAt(2);
  entry.last_fetched_epoch = {1};
  EXPECT_EQ(solo.Fetch(2, entry).diverging, std::nullopt);
  entry.fetch_offset = 3;
  EXPECT_EQ(solo.Fetch(2, entry).diverging, (Diverging{{1}, 2}));
}

TEST(LeaderFetch, BeyondTheEndParts) {
  Solo solo({.log = LogOf({0, 0})});
  solo.Lead(0);
  auto entry = solo.FetchAt(3);
  entry.last_fetched_epoch = {0};
  EXPECT_EQ(solo.Fetch(2, entry).diverging, (Diverging{{0}, 2}));
}

// An empty log that begins above our end (its leader had deleted what was below).
TEST(LeaderFetch, AnEmptyLogPartsOnlyBeyondTheEnd) {
  Solo solo({.log = LogOf({0, 0})});
  solo.Lead(1);
  auto entry = solo.FetchAt(2);
  entry.last_fetched_epoch = {-1};
  EXPECT_EQ(solo.Fetch(2, entry).diverging, std::nullopt);
  entry.fetch_offset = 3;
  EXPECT_EQ(solo.Fetch(2, entry).diverging, (Diverging{{-1}, 2}));
}

// KAFKA-13141.
TEST(LeaderFetch, WhereHistoriesPartNothingIsAcknowledged) {
  for (const bool rule : {true, false}) {
    Solo::Setup setup{.log = LogOf({0, 0, 2})};
    setup.rules.diverging_fetch_acknowledges_nothing = rule;
    Solo solo(setup);
    solo.Lead(3);
    auto entry = solo.FetchAt(3);
    entry.last_fetched_epoch = {0};
    solo.Fetch(2, entry);
    EXPECT_EQ(solo.partition.followers()[0].log_end, rule ? -1 : 3);
  }
}

// ---- Fetches that are answered ------------------------------------------------------------------

TEST(LeaderFetch, ReadsFromTheFollowersEnd) {
  Solo solo({.log = LogOf({0, 0})});
  solo.Lead(0);
  const auto decision = solo.Fetch(2, solo.FetchAt(1));
  EXPECT_EQ(decision.error, FetchError::kNone);
  EXPECT_EQ(decision.diverging, std::nullopt);
  EXPECT_EQ(decision.read_from, 1);
  EXPECT_TRUE(decision.news);
}

TEST(LeaderFetch, WithoutNewsItMayWait) {
  Solo solo({.log = LogOf({0, 0}), .high_watermark = 2});
  solo.Lead(0);
  auto entry = solo.FetchAt(2);
  EXPECT_FALSE(solo.Fetch(2, entry).news);
  entry.high_watermark = 1;  // KIP-1166
  EXPECT_TRUE(solo.Fetch(2, entry).news);
}

TEST(LeaderFetch, DataAndTheLogStartAreNews) {
  Solo solo({.log = LogOf({0, 0}), .high_watermark = 2});
  solo.Lead(0);
  auto entry = solo.FetchAt(1);
  entry.high_watermark = 1;
  EXPECT_TRUE(solo.Fetch(2, entry).news);  // there is data
  solo.SetLogStart(1);
  entry = solo.FetchAt(2);
  entry.log_start = 0;
  EXPECT_TRUE(solo.Fetch(2, entry).news);  // the log start
  entry.log_start = 1;
  EXPECT_FALSE(solo.Fetch(2, entry).news);
}

// Bug-zoo 8: the log it speaks of has been deleted since.
TEST(LeaderFetch, OneOfAFormerAssignmentAcknowledgesNothing) {
  for (const bool rule : {true, false}) {
    Solo::Setup setup{.isr = Members({1, 2})};
    setup.rules.refuse_fetches_of_former_assignments = rule;
    Solo solo(setup);
    solo.Lead(0);
    auto entry = solo.FetchAt(0);
    entry.replicas_version = 4;
    EXPECT_EQ(solo.Fetch(3, entry).error, FetchError::kNone);
    EXPECT_EQ(solo.Saw(EventKind::kIgnored), rule ? "fetch-of-a-former-assignment" : "none");
    EXPECT_EQ(solo.wanted_isr(), rule ? Members({}) : Members({1, 2, 3}));
    // A member's counts: it has not been removed since it is one.
    solo.Fetch(2, entry);
    EXPECT_EQ(solo.partition.followers()[0].log_end, 0);
  }
}

// ---- The high watermark -------------------------------------------------------------------------

TEST(LeaderHighWatermark, IsTheLeastOfTheIsr) {
  Solo solo;
  solo.Lead(0);
  for (int i = 0; i < 3; ++i) solo.Produce(Acks::kNone);
  solo.Persist();
  solo.Fetch(2, 3);
  EXPECT_EQ(solo.partition.high_watermark(), 0);  // broker 3 has not been heard
  solo.Fetch(3, 1);
  EXPECT_EQ(solo.partition.high_watermark(), 1);
  solo.Fetch(3, 3);
  EXPECT_EQ(solo.partition.high_watermark(), 3);
}

TEST(LeaderHighWatermark, NeverGoesBack) {
  Solo solo;
  solo.Lead(0);
  for (int i = 0; i < 3; ++i) solo.Produce(Acks::kNone);
  solo.Persist();
  solo.Fetch(2, 3);
  solo.Fetch(3, 3);
  solo.Fetch(3, 1);  // it lost something it had
  EXPECT_EQ(solo.partition.high_watermark(), 3);
  EXPECT_FALSE(solo.out.high_watermark_moved);
}

// KIP-966.
TEST(LeaderHighWatermark, StandsStillBelowTheMinimumIsr) {
  for (const bool rule : {true, false}) {
    Solo::Setup setup{.isr = Members({1}), .min_insync = 2};
    setup.rules.freeze_high_watermark_below_min_isr = rule;
    Solo solo(setup);
    solo.Lead(0);
    solo.Produce(Acks::kLeader);
    solo.Persist();
    EXPECT_EQ(solo.partition.high_watermark(), rule ? 0 : 1);
  }
}

TEST(LeaderHighWatermark, MovesWhenTheMinimumIsReachedAgain) {
  Solo solo({.isr = Members({1}), .min_insync = 2});
  solo.Lead(0);
  solo.Produce(Acks::kLeader);
  solo.Persist();
  solo.Fetch(2, 1);
  EXPECT_EQ(solo.partition.high_watermark(), 0);  // not in the ISR yet
  solo.IsrOutcome(Partition::Outcome::kApplied);
  EXPECT_EQ(solo.partition.high_watermark(), 1);
}

TEST(LeaderHighWatermark, WaitsForAFollowerThatKeepsUpAndHasNotJoinedYet) {
  Solo solo({.isr = Members({1, 2}), .log = LogOf({0, 0})});
  solo.Lead(0);
  solo.Fetch(3, 2);
  ASSERT_EQ(solo.wanted_isr(), Members({1, 2, 3}));
  solo.IsrOutcome(Partition::Outcome::kRefused);
  solo.Produce(Acks::kAll);
  solo.Persist();
  solo.Fetch(2, 3);
  EXPECT_EQ(solo.partition.high_watermark(), 2);
  // When it falls behind, nobody waits any more, also without traffic.
  EXPECT_LE(solo.partition.next_deadline(), solo.now + kKeepInSync + Nanoseconds(1));
  solo.Pass(kKeepInSync + Nanoseconds(1));
  EXPECT_EQ(solo.partition.high_watermark(), 3);
  EXPECT_THAT(solo.said(), ElementsAre(Said{1, ProduceError::kNone, 2}));
}

TEST(LeaderHighWatermark, StaysWithANewLeaderUntilItsFollowersHaveFetched) {
  for (const bool rule : {true, false}) {
    Solo::Setup setup{.log = LogOf({0, 0, 0}), .high_watermark = 1};
    setup.rules.keep_high_watermark_on_election = rule;
    Solo solo(setup);
    solo.Lead(1);
    EXPECT_EQ(solo.partition.high_watermark(), rule ? 1 : 3);
  }
}

// KIP-207.
TEST(LeaderHighWatermark, IsCurrentFromTheStartOfTheEpochOn) {
  Solo solo({.log = LogOf({0, 0}), .high_watermark = 1});
  EXPECT_FALSE(solo.partition.high_watermark_is_current());
  solo.Lead(1);
  EXPECT_FALSE(solo.partition.high_watermark_is_current());
  solo.Persist();
  solo.Fetch(2, 2);
  EXPECT_FALSE(solo.partition.high_watermark_is_current());
  solo.Fetch(3, 2);
  EXPECT_TRUE(solo.partition.high_watermark_is_current());
  solo.Produce(Acks::kAll);
  EXPECT_TRUE(solo.partition.high_watermark_is_current());
  solo.Resign();
  EXPECT_FALSE(solo.partition.high_watermark_is_current());
}

TEST(LeaderHighWatermark, ForgetsWhatWasAcknowledgedToAFormerLeadership) {
  for (const bool rule : {true, false}) {
    Solo::Setup setup;
    setup.rules.forget_followers_on_election = rule;
    Solo solo(setup);
    solo.Lead(0);
    solo.Produce(Acks::kNone);
    solo.Produce(Acks::kNone);
    solo.Persist();
    solo.Fetch(2, 2);
    solo.Fetch(3, 1);
    ASSERT_EQ(solo.partition.high_watermark(), 1);
    solo.Lead(1);
    solo.Persist();
    solo.Fetch(3, 2);
    EXPECT_EQ(solo.partition.high_watermark(), rule ? 1 : 2);
  }
}

}  // namespace
}  // namespace lockstep::replication
