#include "core/replication/leader_epochs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace lockstep::replication {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using End = LeaderEpochs::End;
using storage::EpochStart;

LeaderEpochs Some() { return LeaderEpochs({{1, 10}, {3, 20}, {7, 40}}); }

TEST(LeaderEpochs, WithoutAnyThereIsNoLatestAndNothingEnds) {
  const LeaderEpochs none;
  EXPECT_EQ(none.latest().value, -1);
  EXPECT_EQ(none.StartOf({0}), std::nullopt);
  EXPECT_EQ(none.EndOffsetFor({0}, 5, true), std::nullopt);
  EXPECT_EQ(none.EndOffsetFor({0}, 5, false), std::nullopt);
}

TEST(LeaderEpochs, StartOfIsOfKnownEpochsOnly) {
  EXPECT_EQ(Some().latest().value, 7);
  EXPECT_EQ(Some().StartOf({1}), 10);
  EXPECT_EQ(Some().StartOf({7}), 40);
  EXPECT_EQ(Some().StartOf({0}), std::nullopt);
  EXPECT_EQ(Some().StartOf({2}), std::nullopt);
  EXPECT_EQ(Some().StartOf({8}), std::nullopt);
}

TEST(LeaderEpochs, AKnownEpochEndsWhereTheNextOneBegins) {
  EXPECT_EQ(Some().EndOffsetFor({1}, 50, true), (End{{1}, 20}));
  EXPECT_EQ(Some().EndOffsetFor({3}, 50, true), (End{{3}, 40}));
}

TEST(LeaderEpochs, TheLatestEpochEndsWithTheLog) {
  EXPECT_EQ(Some().EndOffsetFor({7}, 50, true), (End{{7}, 50}));
  EXPECT_EQ(Some().EndOffsetFor({7}, 40, true), (End{{7}, 40}));
}

// KIP-279.
TEST(LeaderEpochs, ForAnUnknownEpochTheLargestOneBelowAnswers) {
  EXPECT_EQ(Some().EndOffsetFor({2}, 50, true), (End{{1}, 20}));
  EXPECT_EQ(Some().EndOffsetFor({6}, 50, true), (End{{3}, 40}));
  EXPECT_EQ(Some().EndOffsetFor({9}, 50, true), (End{{7}, 50}));
}

// What KIP-101 answered: a follower keeps records of epoch 2 up to 20, which the leader never had.
TEST(LeaderEpochs, BeforeKip279AnUnknownEpochEndedWhereTheNextOneBegins) {
  EXPECT_EQ(Some().EndOffsetFor({2}, 50, false), (End{{2}, 20}));
  EXPECT_EQ(Some().EndOffsetFor({9}, 50, false), (End{{9}, 50}));
}

TEST(LeaderEpochs, AnEpochBelowAllEndsWhereTheyBegin) {
  EXPECT_EQ(Some().EndOffsetFor({0}, 50, true), (End{{0}, 10}));
  EXPECT_EQ(Some().EndOffsetFor({0}, 50, false), (End{{0}, 10}));
}

TEST(LeaderEpochs, AnEpochWithoutRecordsGivesWayToTheOneThatBeginsThere) {
  LeaderEpochs epochs = Some();
  epochs.Assign({8}, 50);
  epochs.Assign({9}, 50);
  EXPECT_THAT(epochs.entries(), ElementsAre(EpochStart{1, 10}, EpochStart{3, 20}, EpochStart{7, 40},
                                            EpochStart{9, 50}));
  LeaderEpochs only(std::vector<EpochStart>{{4, 0}});
  only.Assign({5}, 0);
  EXPECT_THAT(only.entries(), ElementsAre(EpochStart{5, 0}));
}

TEST(LeaderEpochsDeathTest, EpochsDoNotGoBack) {
  LeaderEpochs epochs = Some();
  EXPECT_DEATH(epochs.Assign({7}, 60), "");
  EXPECT_DEATH(epochs.Assign({8}, 39), "");
  EXPECT_DEATH(LeaderEpochs({{2, 0}, {2, 5}}), "");
  EXPECT_DEATH(LeaderEpochs({{2, 5}, {3, 5}}), "");
}

// KAFKA-10706: also an epoch that begins at the cut, and so has no records there.
TEST(LeaderEpochs, ATruncationTakesTheEpochsThatBeginAtTheCutOrAbove) {
  LeaderEpochs epochs = Some();
  epochs.TruncateFromEnd(41);
  EXPECT_EQ(epochs.latest().value, 7);
  epochs.TruncateFromEnd(40);
  EXPECT_EQ(epochs.latest().value, 3);
  epochs.TruncateFromEnd(10);
  EXPECT_THAT(epochs.entries(), IsEmpty());
}

TEST(LeaderEpochs, TheEpochThatTheLogStartLiesInBeginsThere) {
  LeaderEpochs epochs = Some();
  epochs.TruncateFromStart(5);  // below all: there is nothing to cut
  EXPECT_EQ(epochs.entries().front(), (EpochStart{1, 10}));
  epochs.TruncateFromStart(15);
  EXPECT_EQ(epochs.entries().front(), (EpochStart{1, 15}));
  epochs.TruncateFromStart(20);  // where an epoch begins, the one before has ended
  EXPECT_THAT(epochs.entries(), ElementsAre(EpochStart{3, 20}, EpochStart{7, 40}));
  epochs.TruncateFromStart(45);
  EXPECT_THAT(epochs.entries(), ElementsAre(EpochStart{7, 45}));
  epochs.Clear();
  EXPECT_THAT(epochs.entries(), IsEmpty());
}

}  // namespace
}  // namespace lockstep::replication
