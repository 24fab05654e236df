// What a follower asks for, and what it does with answers.
#include "core/replication/follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "tests/replication/solo.h"

namespace lockstep::replication {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Diverging = ReplicaFetchResponse::Diverging;
using storage::EpochStart;

Bytes BatchAt(Offset base, int32_t epoch) { return MakeBatch(base, {epoch}, 1, 1); }

// ---- What it asks -------------------------------------------------------------------------------

TEST(FollowerFetch, SaysItsHistoryAndWhatItKnows) {
  Solo solo({.log = LogOf({0, 0, 2}), .high_watermark = 1});
  EXPECT_EQ(solo.partition.NextFetch(), std::nullopt);  // nobody leads
  solo.Follow(2, 5);
  EXPECT_TRUE(solo.out.fetch_now);
  const ReplicaFetchRequest::Entry expected{.partition = solo.state.id,
                                            .leader_epoch = {5},
                                            .fetch_offset = 3,
                                            .last_fetched_epoch = {2},
                                            .log_start = 0,
                                            .high_watermark = 1,
                                            .replicas_version = 5};
  EXPECT_EQ(solo.partition.NextFetch(), expected);
}

TEST(FollowerFetch, AnEmptyLogHasNoEpoch) {
  Solo solo;
  solo.Follow(2, 0);
  EXPECT_EQ(solo.partition.NextFetch()->last_fetched_epoch.value, -1);
  EXPECT_EQ(solo.partition.NextFetch()->fetch_offset, 0);
}

TEST(FollowerFetch, ALeaderDoesNotFetch) {
  Solo solo;
  solo.Lead(0);
  EXPECT_EQ(solo.partition.NextFetch(), std::nullopt);
}

TEST(FollowerFetch, WaitsUntilItsOwnChangesAreDurable) {
  for (const bool rule : {true, false}) {
    Solo::Setup setup;
    setup.rules.fetch_after_durable = rule;
    Solo solo(setup);
    solo.Follow(2, 0);
    solo.Receive(solo.AnswerFrom(LogOf({0, 0})));
    EXPECT_EQ(solo.partition.NextFetch().has_value(), !rule);
    EXPECT_EQ(solo.out.fetch_now, !rule);
    solo.Persist();
    EXPECT_TRUE(solo.out.fetch_now);
    EXPECT_EQ(solo.partition.NextFetch()->fetch_offset, 2);
  }
}

// What it appended as a leader, or took from the leader before, included.
TEST(FollowerFetch, WaitsForWhatAFormerRoleWrote) {
  Solo solo;
  solo.Lead(0);
  solo.Produce(Acks::kLeader);
  solo.Follow(2, 1);
  EXPECT_FALSE(solo.out.fetch_now);
  EXPECT_EQ(solo.partition.NextFetch(), std::nullopt);
  solo.PersistOne();
  EXPECT_FALSE(solo.out.fetch_now);
  solo.PersistOne();
  EXPECT_TRUE(solo.out.fetch_now);
}

TEST(FollowerFetch, AfterAnErrorItWaitsAWhile) {
  Solo solo;
  solo.Follow(2, 0);
  EXPECT_EQ(solo.partition.next_deadline(), Instant::Never());
  auto answer = solo.Answer();
  answer.error = FetchError::kStorage;
  solo.Receive(answer);
  EXPECT_EQ(solo.Saw(EventKind::kFetchFailed), "storage");
  EXPECT_FALSE(solo.out.fetch_now);
  EXPECT_EQ(solo.partition.NextFetch(), std::nullopt);
  EXPECT_EQ(solo.partition.next_deadline(), solo.now + Follower::kFetchBackoff);
  solo.Pass(Follower::kFetchBackoff - Nanoseconds(1));
  EXPECT_FALSE(solo.out.fetch_now);
  solo.Pass(Nanoseconds(1));
  EXPECT_TRUE(solo.out.fetch_now);
  EXPECT_EQ(solo.partition.next_deadline(), Instant::Never());
}

TEST(FollowerFetch, ANewLeaderIsAskedAtOnce) {
  Solo solo;
  solo.Follow(2, 0);
  auto answer = solo.Answer();
  answer.error = FetchError::kNotLeader;
  solo.Receive(answer);
  solo.Follow(3, 1);
  EXPECT_TRUE(solo.out.fetch_now);
}

TEST(FollowerFetch, EveryOtherErrorIsWaitedFor) {
  for (const FetchError error :
       {FetchError::kNotLeader, FetchError::kUnknownPartition, FetchError::kNotReplica,
        FetchError::kFencedLeaderEpoch, FetchError::kUnknownLeaderEpoch,
        FetchError::kStaleIncarnation, FetchError::kStorage}) {
    Solo solo;
    solo.Follow(2, 3);
    auto answer = solo.Answer();
    answer.error = error;
    answer.leader_epoch = {9};  // which the error may be about
    solo.Receive(answer);
    EXPECT_EQ(solo.Saw(EventKind::kFetchFailed), ToString(error));
    EXPECT_THAT(solo.out.changes, IsEmpty());
  }
}

// ---- Answers to other fetches -------------------------------------------------------------------

class FollowerDiscards : public ::testing::Test {
 protected:
  FollowerDiscards() { solo_.Follow(2, 5); }
  // Why it had no effect; "none" if it had.
  std::string Discarded(int32_t leader, const ReplicaFetchResponse::Entry& answer) {
    solo_.Receive(leader, answer);
    EXPECT_EQ(solo_.out.changes.empty(), solo_.Saw(EventKind::kIgnored) != "none");
    return solo_.Saw(EventKind::kIgnored);
  }
  Solo solo_{{.log = LogOf({0, 0, 2}), .high_watermark = 1}};
};

// KAFKA-7786.
TEST_F(FollowerDiscards, AnotherLeaders) {
  EXPECT_EQ(Discarded(3, solo_.AnswerFrom(LogOf({0, 0, 2, 3}))), "response-of-another-leader");
}

TEST_F(FollowerDiscards, TheSameLeadersOfAnotherEpoch) {
  auto answer = solo_.AnswerFrom(LogOf({0, 0, 2, 3}));
  answer.leader_epoch = {4};
  EXPECT_EQ(Discarded(2, answer), "response-of-another-epoch");
  answer.leader_epoch = {6};
  EXPECT_EQ(Discarded(2, answer), "response-of-another-epoch");
  answer.error = FetchError::kOffsetOutOfRange;
  EXPECT_EQ(Discarded(2, answer), "response-of-another-epoch");
}

TEST_F(FollowerDiscards, OneToAnotherOffset) {
  auto answer = solo_.Answer();
  answer.fetch_offset = 2;
  EXPECT_EQ(Discarded(2, answer), "response-to-another-offset");
}

// Bug-zoo 26: the offset has come back, with other records.
TEST_F(FollowerDiscards, OneToAnotherHistory) {
  auto answer = solo_.Answer();
  answer.last_fetched_epoch = {1};
  EXPECT_EQ(Discarded(2, answer), "response-to-another-history");
}

TEST_F(FollowerDiscards, OneThatComesTwice) {
  const auto answer = solo_.AnswerFrom(LogOf({0, 0, 2, 3}));
  EXPECT_EQ(Discarded(2, answer), "none");
  EXPECT_EQ(Discarded(2, answer), "response-to-another-offset");
}

TEST_F(FollowerDiscards, EverythingWhenItDoesNotFollow) {
  const auto answer = solo_.AnswerFrom(LogOf({0, 0, 2, 3}));
  solo_.Resign();
  EXPECT_EQ(Discarded(2, answer), "response-to-no-follower");
  solo_.Lead(6);
  EXPECT_EQ(Discarded(2, answer), "response-to-no-follower");
}

TEST(Follower, WithoutTheRuleAFormerLeadersAnswerIsAppended) {
  Solo::Setup setup;
  setup.rules.discard_responses_of_other_fetches = false;
  Solo solo(setup);
  solo.Follow(2, 1);
  const auto answer = solo.AnswerFrom(LogOf({0}));
  solo.Follow(3, 2);
  solo.Receive(2, answer);
  EXPECT_EQ(solo.log.end, 1);
}

// ---- Data ---------------------------------------------------------------------------------------

TEST(Follower, AppendsWhatItIsGiven) {
  Solo solo;
  solo.Follow(2, 3);
  solo.Receive(solo.AnswerFrom(LogOf({0, 0, 2, 3}), 3));
  EXPECT_EQ(solo.log.end, 4);
  EXPECT_THAT(solo.partition.epochs(),
              ElementsAre(EpochStart{0, 0}, EpochStart{2, 2}, EpochStart{3, 3}));
  // What is not durable here is not committed here.
  EXPECT_EQ(solo.partition.high_watermark(), 0);
  solo.Persist();
  EXPECT_EQ(solo.partition.high_watermark(), 3);
  EXPECT_TRUE(solo.out.high_watermark_moved);
}

TEST(Follower, AnAnswerWithoutDataIsFollowedByTheNextFetch) {
  Solo solo;
  solo.Follow(2, 0);
  solo.Receive(solo.Answer());
  EXPECT_TRUE(solo.out.fetch_now);
  EXPECT_THAT(solo.out.changes, IsEmpty());
}

TEST(Follower, BadBatchesAreFetchedAgain) {
  Solo solo({.log = LogOf({1})});
  solo.Follow(2, 2);
  auto answer = solo.Answer();
  answer.batches = {BatchAt(2, 1)};
  solo.Receive(answer);
  EXPECT_EQ(solo.Saw(EventKind::kFetchFailed), "not-contiguous");
  EXPECT_EQ(solo.log.end, 1);
  EXPECT_EQ(solo.partition.next_deadline(), solo.now + Follower::kFetchBackoff);
}

TEST(Follower, ItsHighWatermarkNeverGoesBack) {
  Solo solo({.log = LogOf({0, 0, 0}), .high_watermark = 2});
  solo.Follow(2, 1);
  auto answer = solo.Answer();
  answer.high_watermark = 1;  // a new leader may know less
  solo.Receive(answer);
  EXPECT_EQ(solo.partition.high_watermark(), 2);
  EXPECT_FALSE(solo.out.high_watermark_moved);
}

// S20.
TEST(Follower, ItsHighWatermarkIsNotAboveItsEnd) {
  for (const bool rule : {true, false}) {
    Solo::Setup setup{.log = LogOf({0})};
    setup.rules.bound_high_watermark_by_log_end = rule;
    Solo solo(setup);
    solo.Follow(2, 1);
    auto answer = solo.Answer();
    answer.high_watermark = 7;
    solo.Receive(answer);
    EXPECT_EQ(solo.partition.high_watermark(), rule ? 1 : 7);
  }
}

// ---- CheckBatches -------------------------------------------------------------------------------

TEST(CheckBatches, SaysWhereTheyEndAndWhichEpochsBegin) {
  const std::string both =
      std::string(BatchAt(6, 3).view()) + std::string(MakeBatch(7, {5}, 3, 1).view());
  const CutBatches cut =
      CheckBatches({BatchAt(5, 2), Bytes::Copy(both)}, 5, false, LeaderEpoch{2}, LeaderEpoch{5});
  EXPECT_EQ(cut.refused, nullptr);
  EXPECT_EQ(cut.end, 10);
  EXPECT_EQ(cut.first_base, 5);
  EXPECT_THAT(cut.epochs, ElementsAre(EpochStart{3, 6}, EpochStart{5, 7}));
}

TEST(CheckBatches, NothingIsFine) {
  const CutBatches cut = CheckBatches({}, 5, false, LeaderEpoch{2}, LeaderEpoch{5});
  EXPECT_EQ(cut.refused, nullptr);
  EXPECT_EQ(cut.end, 5);
}

std::string Refused(const std::vector<Bytes>& slices, bool may_begin_below = false) {
  const char* why =
      CheckBatches(slices, 5, may_begin_below, LeaderEpoch{2}, LeaderEpoch{5}).refused;
  return why != nullptr ? why : "none";
}

TEST(CheckBatches, WhatIsNoWholeBatchIsRefused) {
  const Bytes batch = BatchAt(5, 2);
  EXPECT_EQ(Refused({batch.Slice(0, batch.size() - 1)}), "no-batch");
  EXPECT_EQ(Refused({Bytes::Copy("x")}), "no-batch");
  EXPECT_EQ(Refused({batch, Bytes::Copy(std::string(100, 'x'))}), "no-batch");
}

TEST(CheckBatches, AGapOrARepetitionIsRefused) {
  EXPECT_EQ(Refused({BatchAt(6, 2)}), "not-contiguous");
  EXPECT_EQ(Refused({BatchAt(4, 2)}), "not-contiguous");
  EXPECT_EQ(Refused({BatchAt(5, 2), BatchAt(7, 2)}), "not-contiguous");
  EXPECT_EQ(Refused({BatchAt(5, 2), BatchAt(5, 2)}), "not-contiguous");
}

TEST(CheckBatches, ADamagedBatchIsRefused) {
  std::string bytes(BatchAt(5, 2).view());
  bytes.back() ^= 1;
  EXPECT_EQ(Refused({Bytes::Copy(bytes)}), "wrong-crc");
}

TEST(CheckBatches, EpochsThatGoBackOrAreNotKnownYetAreRefused) {
  EXPECT_EQ(Refused({BatchAt(5, 1)}), "epoch-out-of-order");
  EXPECT_EQ(Refused({BatchAt(5, 4), BatchAt(6, 3)}), "epoch-out-of-order");
  EXPECT_EQ(Refused({BatchAt(5, 6)}), "epoch-out-of-order");
  EXPECT_EQ(Refused({BatchAt(5, 5)}), "none");
  EXPECT_STREQ(CheckBatches({BatchAt(0, -1)}, 0, false, LeaderEpoch{}, LeaderEpoch{5}).refused,
               "epoch-out-of-order");
}

TEST(CheckBatches, OnlyTheFirstOneMayBeginBelowAndOnlyIfItReachesTheEnd) {
  const Bytes below = MakeBatch(3, {2}, 4, 1);  // 3 to 7
  EXPECT_EQ(Refused({below}), "not-contiguous");
  EXPECT_EQ(Refused({below}, true), "none");
  EXPECT_EQ(Refused({below, BatchAt(7, 2)}, true), "none");
  EXPECT_EQ(Refused({BatchAt(4, 2)}, true), "not-contiguous");  // ends at 5
  EXPECT_EQ(Refused({BatchAt(5, 2), MakeBatch(5, {2}, 4, 1)}, true), "not-contiguous");
  EXPECT_EQ(CheckBatches({below}, 5, true, LeaderEpoch{2}, LeaderEpoch{5}).first_base, 3);
}

// ---- Truncation ---------------------------------------------------------------------------------

TEST(FollowerTruncation, BeginningToFollowTruncatesNothing) {
  Solo solo({.log = LogOf({0, 0, 0}), .high_watermark = 1});
  solo.Follow(2, 1);
  EXPECT_EQ(solo.log.end, 3);
}

// The seed: S17.
TEST(FollowerTruncation, WithoutTheRuleItIsToTheHighWatermark) {
  Solo::Setup setup{.log = LogOf({0, 0, 0}), .high_watermark = 1};
  setup.rules.truncate_by_leader_epoch = false;
  Solo solo(setup);
  solo.Follow(2, 1);
  EXPECT_EQ(solo.log.end, 1);
  EXPECT_EQ(solo.Saw(EventKind::kLogTruncated), "to-high-watermark");
  solo.Persist();
  EXPECT_EQ(solo.partition.NextFetch()->last_fetched_epoch.value, -1);
}

void Part(Solo* solo, int32_t epoch, Offset end) {
  auto answer = solo->Answer();
  answer.diverging = Diverging{{epoch}, end};
  solo->Receive(answer);
}

TEST(FollowerTruncation, IsToTheLeadersEndOfAnEpochItHas) {
  Solo solo({.log = LogOf({0, 0, 0, 1})});
  solo.Follow(2, 5);
  Part(&solo, 0, 2);
  EXPECT_EQ(solo.log.end, 2);
  EXPECT_EQ(solo.out.truncated_to, 2);
  EXPECT_FALSE(solo.out.restarted);
  EXPECT_EQ(solo.Saw(EventKind::kLogTruncated), "histories-part");
  EXPECT_FALSE(solo.out.fetch_now);  // not before that is durable
  solo.Persist();
  EXPECT_EQ(solo.partition.NextFetch()->last_fetched_epoch.value, 0);
  EXPECT_EQ(solo.partition.NextFetch()->fetch_offset, 2);
}

TEST(FollowerTruncation, IsToItsOwnEndOfThatEpochIfThatIsLower) {
  Solo solo({.log = LogOf({0, 0, 1, 1})});
  solo.Follow(2, 5);
  Part(&solo, 0, 3);
  EXPECT_EQ(solo.log.end, 2);
}

// The leader's end is one of records that this replica never had, perhaps within a batch of its.
TEST(FollowerTruncation, ByAnEpochItHasNotIsToWhereTheOneBelowEndsHere) {
  Solo solo({.log = LogOf({0, 0, 3, 3})});
  solo.Follow(2, 5);
  Part(&solo, 1, 3);
  EXPECT_EQ(solo.log.end, 2);
  EXPECT_THAT(solo.partition.epochs(), ElementsAre(EpochStart{0, 0}));
}

TEST(FollowerTruncation, ByAnEpochBelowAllOfItsIsToWhereTheyBegin) {
  Solo solo({.log = LogOf({2, 2})});
  solo.Follow(2, 5);
  Part(&solo, 1, 1);
  EXPECT_EQ(solo.log.end, 0);
}

// A leader without any epoch, whose log ends before.
TEST(FollowerTruncation, WithoutAnEpochIsToTheLeadersEnd) {
  Solo solo({.log = LogOf({0, 0, 0})});
  solo.Follow(2, 5);
  Part(&solo, -1, 1);
  EXPECT_EQ(solo.log.end, 1);
}

TEST(FollowerTruncation, BelowTheLogStartLeavesAnEmptyLogThere) {
  FakeLog log = LogOf({0, 0, 0});
  log.Apply(storage::LogStart{.start = 2});
  Solo solo({.log = log, .high_watermark = 2});
  solo.Follow(2, 5);
  Part(&solo, -1, 1);
  EXPECT_EQ(solo.log.start, 1);
  EXPECT_EQ(solo.log.end, 1);
  EXPECT_EQ(solo.out.truncated_to, 1);
  EXPECT_TRUE(solo.out.restarted);
}

// KAFKA-10706: an epoch without records goes, or the same answer would come for ever.
TEST(FollowerTruncation, AtTheEndItRemovesEpochsWithoutRecords) {
  for (const bool rule : {true, false}) {
    FakeLog log = LogOf({0, 0});
    log.Apply(storage::LogEpoch{.start = {.epoch = 3, .start = 2}});
    Solo::Setup setup{.log = log};
    setup.rules.truncate_empty_epochs = rule;
    Solo solo(setup);
    solo.Follow(2, 5);
    ASSERT_EQ(solo.partition.NextFetch()->last_fetched_epoch.value, 3);
    Part(&solo, 0, 2);
    EXPECT_EQ(solo.partition.epochs().back().epoch, rule ? 0 : 3);
    EXPECT_EQ(solo.Saw(EventKind::kFetchFailed), rule ? "none" : "diverging-without-progress");
  }
}

TEST(FollowerTruncation, AnAnswerThatChangesNothingIsAnError) {
  Solo solo({.log = LogOf({0, 0})});
  solo.Follow(2, 5);
  Part(&solo, 0, 2);
  EXPECT_EQ(solo.Saw(EventKind::kFetchFailed), "diverging-without-progress");
  EXPECT_EQ(solo.partition.next_deadline(), solo.now + Follower::kFetchBackoff);
}

// Only an unclean election makes that necessary.
TEST(FollowerTruncation, BelowTheHighWatermarkItIsSaid) {
  Solo solo({.log = LogOf({0, 0, 0}), .high_watermark = 3});
  solo.Follow(2, 5);
  Part(&solo, 0, 1);
  EXPECT_EQ(solo.Saw(EventKind::kLogTruncated), "below-high-watermark");
  EXPECT_EQ(solo.partition.high_watermark(), 1);
}

// What was heard before is of the records that are gone.
TEST(FollowerTruncation, CutsTheHighWatermarkThatWasHeard) {
  Solo solo({.log = LogOf({0, 0, 0})});
  solo.Follow(2, 5);
  auto answer = solo.AnswerFrom(LogOf({0, 0, 0, 0}), 4);
  solo.Receive(answer);
  solo.Follow(3, 6);
  solo.Persist();
  Part(&solo, 0, 2);
  solo.Persist();
  auto next = solo.AnswerFrom(LogOf({0, 0, 6}), 2);
  solo.Receive(next);
  solo.Persist();
  EXPECT_EQ(solo.log.end, 3);
  EXPECT_EQ(solo.partition.high_watermark(), 2);
}

// KAFKA-7164.
TEST(FollowerTruncation, HistoriesAreComparedAlsoWhenTheLeaderStaysTheSame) {
  for (const bool rule : {true, false}) {
    Solo::Setup setup{.log = LogOf({0})};
    setup.rules.reconcile_on_every_epoch = rule;
    Solo solo(setup);
    solo.Follow(2, 1);
    EXPECT_EQ(solo.partition.NextFetch()->last_fetched_epoch.value, 0);
    solo.Follow(2, 2);
    EXPECT_EQ(solo.partition.NextFetch()->last_fetched_epoch.value, rule ? 0 : -1);
    solo.Follow(3, 3);
    EXPECT_EQ(solo.partition.NextFetch()->last_fetched_epoch.value, 0);
  }
}

TEST(FollowerTruncation, WhatIsNotDurableYetIsCutToo) {
  Solo solo;
  solo.Follow(2, 1);
  solo.Receive(solo.AnswerFrom(LogOf({0, 0, 0})));
  solo.Persist();
  Part(&solo, 0, 1);
  EXPECT_EQ(solo.partition.durable_end(), 1);
  auto answer = ReplicaFetchResponse::Entry{.leader_epoch = {1}};
  answer.fetch_offset = 1;
  answer.last_fetched_epoch = {0};
  answer.batches = {BatchAt(1, 1)};
  solo.Receive(answer);  // asked before the truncation was durable: as good as another
  EXPECT_EQ(solo.log.end, 2);
  EXPECT_EQ(solo.partition.durable_end(), 1);
  solo.PersistOne();
  EXPECT_EQ(solo.partition.durable_end(), 1);
  solo.PersistOne();
  EXPECT_EQ(solo.partition.durable_end(), 2);
}

// ---- The leader's log start ---------------------------------------------------------------------

TEST(FollowerLogStart, OutOfRangeBeginsAnewAtTheLeadersStart) {
  Solo solo({.log = LogOf({0, 0})});
  solo.Follow(2, 5);
  auto answer = solo.Answer();
  answer.error = FetchError::kOffsetOutOfRange;
  answer.log_start = 7;
  solo.Receive(answer);
  EXPECT_EQ(solo.Saw(EventKind::kLogRestarted), "at-leaders-log-start");
  EXPECT_EQ(solo.log.start, 7);
  EXPECT_EQ(solo.log.end, 7);
  EXPECT_TRUE(solo.out.restarted);
  EXPECT_EQ(solo.partition.high_watermark(), 7);
  EXPECT_THAT(solo.partition.epochs(), IsEmpty());
  solo.Persist();
  EXPECT_EQ(solo.partition.NextFetch()->fetch_offset, 7);
  EXPECT_EQ(solo.partition.NextFetch()->last_fetched_epoch.value, -1);
}

TEST(FollowerLogStart, OutOfRangeWithinItsOwnLogEmptiesIt) {
  Solo solo({.log = LogOf({0, 0, 0, 0}), .high_watermark = 2});
  solo.Follow(2, 5);
  auto answer = solo.Answer();
  answer.error = FetchError::kOffsetOutOfRange;
  answer.log_start = 3;
  solo.Receive(answer);
  EXPECT_EQ(solo.log.start, 3);
  EXPECT_EQ(solo.log.end, 3);
  EXPECT_TRUE(solo.log.batches.empty());
  EXPECT_TRUE(solo.out.restarted);
}

TEST(FollowerLogStart, MovesWithTheLeadersAsFarAsItIsCommittedHere) {
  Solo solo({.log = LogOf({0, 0, 0, 0}), .high_watermark = 2});
  solo.Follow(2, 0);
  auto answer = solo.Answer();
  answer.log_start = 3;
  solo.Receive(answer);
  EXPECT_EQ(solo.log.start, 2);
  solo.Persist();
  answer = solo.Answer();
  answer.log_start = 1;  // never back
  solo.Receive(answer);
  EXPECT_EQ(solo.log.start, 2);
}

// DeleteRecords at the leader; batches stay whole.
TEST(FollowerLogStart, WithinABatchTheLogBeginsWithTheWholeBatch) {
  Solo solo;
  solo.Follow(2, 5);
  auto answer = solo.Answer();
  answer.error = FetchError::kOffsetOutOfRange;
  answer.log_start = 7;
  solo.Receive(answer);
  solo.Persist();
  answer = solo.Answer();
  answer.log_start = 7;
  answer.high_watermark = 9;
  answer.batches = {MakeBatch(5, {1}, 4, 1)};
  solo.Receive(answer);
  EXPECT_EQ(solo.Saw(EventKind::kFetchFailed), "none");
  EXPECT_EQ(solo.log.start, 7);
  EXPECT_EQ(solo.log.end, 9);
  EXPECT_THAT(solo.partition.epochs(), ElementsAre(EpochStart{1, 7}));
  solo.Persist();
  EXPECT_EQ(solo.partition.high_watermark(), 9);
  EXPECT_EQ(solo.partition.NextFetch()->last_fetched_epoch.value, 1);
}

}  // namespace
}  // namespace lockstep::replication
