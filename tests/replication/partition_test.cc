// Roles, and what is the same in each of them.
#include "core/replication/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/replication/solo.h"

namespace lockstep::replication {
namespace {

using storage::EpochStart;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// ---- Roles --------------------------------------------------------------------------------------

TEST(Partition, IsIdleUntilSomeoneLeads) {
  Solo solo({.log = LogOf({0, 1}), .high_watermark = 1});
  EXPECT_EQ(solo.partition.role(), Role::kIdle);
  EXPECT_EQ(solo.partition.log_end(), 2);
  EXPECT_EQ(solo.partition.durable_end(), 2);
  EXPECT_EQ(solo.partition.high_watermark(), 1);
  EXPECT_EQ(solo.partition.next_deadline(), Instant::Never());
  EXPECT_THAT(solo.partition.followers(), IsEmpty());
  EXPECT_EQ(solo.partition.maximal_isr(), Members({1, 2, 3}));
  solo.Pass(Seconds(3600));
  EXPECT_THAT(solo.out.events, IsEmpty());
}

TEST(Partition, ACheckpointedHighWatermarkIsCutToTheLog) {
  EXPECT_EQ(Solo({.log = LogOf({0}), .high_watermark = 9}).partition.high_watermark(), 1);
  FakeLog log = LogOf({0, 0, 0});
  log.Apply(storage::LogStart{.start = 2});
  EXPECT_EQ(Solo({.log = log, .high_watermark = 1}).partition.high_watermark(), 2);
}

TEST(Partition, ALeadershipBeginsWithItsEpochAtTheEnd) {
  Solo solo({.log = LogOf({0, 0})});
  solo.Lead(4);
  EXPECT_EQ(solo.partition.role(), Role::kLeader);
  EXPECT_EQ(solo.partition.leader_epoch().value, 4);
  EXPECT_EQ(solo.Saw(EventKind::kPartitionLeading), "");
  EXPECT_THAT(solo.partition.epochs(), ElementsAre(EpochStart{0, 0}, EpochStart{4, 2}));
  EXPECT_THAT(solo.out.changes, SizeIs(1));
  EXPECT_THAT(solo.partition.followers(), SizeIs(2));
}

// A restart in the same leadership cannot be (it ends with the session); but the epoch's first
// record may have been all that was written of it.
TEST(Partition, AnEpochThatTheLogHasIsNotAssignedTwice) {
  Solo solo({.log = LogOf({0, 4})});
  solo.Lead(4);
  EXPECT_THAT(solo.out.changes, IsEmpty());
  EXPECT_FALSE(solo.partition.high_watermark_is_current());
  EXPECT_THAT(solo.partition.epochs(), ElementsAre(EpochStart{0, 0}, EpochStart{4, 1}));
}

TEST(Partition, AnOlderLeaderEpochIsIgnored) {
  Solo solo;
  solo.Follow(2, 5);
  solo.Follow(3, 4);
  EXPECT_EQ(solo.Saw(EventKind::kIgnored), "stale-leader-epoch");
  EXPECT_EQ(solo.partition.state().leader, BrokerId{2});
  solo.Lead(4);
  EXPECT_EQ(solo.Saw(EventKind::kIgnored), "stale-leader-epoch");
  EXPECT_EQ(solo.partition.role(), Role::kFollower);
}

TEST(Partition, ALeadershipThatHasEndedDoesNotBeginAgain) {
  Solo solo;
  solo.Lead(3);
  solo.Resign();
  solo.Lead(3);
  EXPECT_EQ(solo.Saw(EventKind::kIgnored), "leadership-has-ended");
  EXPECT_EQ(solo.partition.role(), Role::kIdle);
  solo.Lead(4);
  EXPECT_EQ(solo.partition.role(), Role::kLeader);
}

// The coordination service lost its data, and begins to count from 0.
TEST(Partition, AnEpochBelowTheLogsIsNotLed) {
  Solo solo({.log = LogOf({7})});
  solo.Lead(6);
  EXPECT_EQ(solo.Saw(EventKind::kIgnored), "log-has-a-later-epoch");
  EXPECT_EQ(solo.partition.role(), Role::kIdle);
}

TEST(Partition, HearingOfTheOwnLeadershipAgainIsAnUpdate) {
  Solo solo;
  solo.Lead(0);
  solo.Produce(Acks::kAll);
  solo.Persist();
  solo.state.isr = Members({1, 2});
  ++solo.state.isr_version;
  solo.Lead(0);
  EXPECT_EQ(solo.Saw(EventKind::kPartitionLeading), "none");
  EXPECT_THAT(solo.said(), IsEmpty());  // it waits on
  EXPECT_EQ(solo.partition.maximal_isr(), Members({1, 2}));
  solo.Fetch(2, 1);
  EXPECT_THAT(solo.said(), ElementsAre(Said{1, ProduceError::kNone, 0}));
}

TEST(Partition, HearingOfTheSameLeaderAgainIsAnUpdate) {
  Solo solo;
  solo.Follow(2, 0);
  auto failed = solo.Answer();
  failed.error = FetchError::kStorage;
  solo.Receive(failed);
  ++solo.state.replicas_version;
  solo.Follow(2, 0);
  EXPECT_EQ(solo.Saw(EventKind::kPartitionFollowing), "none");
  EXPECT_FALSE(solo.out.fetch_now);  // it still waits after the error
  solo.Pass(Seconds(1));
  EXPECT_EQ(solo.partition.NextFetch()->replicas_version, 6);
}

TEST(Partition, ALeaderThatFollowsFailsWhatWaits) {
  Solo solo;
  solo.Lead(0);
  solo.Produce(Acks::kAll);
  solo.Follow(2, 1);
  EXPECT_THAT(solo.said(), ElementsAre(Said{1, ProduceError::kNotLeader}));
  EXPECT_EQ(solo.Saw(EventKind::kPartitionFollowing), "");
  EXPECT_THAT(solo.partition.followers(), IsEmpty());
}

TEST(Partition, AFollowerThatLeadsKeepsItsLog) {
  Solo solo;
  solo.Follow(2, 0);
  solo.Receive(solo.AnswerFrom(LogOf({0, 0}), 1));
  solo.Persist();
  solo.Lead(1);
  EXPECT_EQ(solo.partition.log_end(), 2);
  EXPECT_EQ(solo.partition.high_watermark(), 1);
  EXPECT_EQ(solo.partition.NextFetch(), std::nullopt);
}

TEST(Partition, ResigningIsSaidOnce) {
  Solo solo;
  solo.Resign();
  EXPECT_THAT(solo.out.events, IsEmpty());
  solo.Follow(2, 1);
  solo.Resign();
  EXPECT_EQ(solo.Saw(EventKind::kPartitionResigned), "");
  EXPECT_EQ(solo.partition.NextFetch(), std::nullopt);
  EXPECT_EQ(solo.partition.next_deadline(), Instant::Never());
  solo.Resign();
  EXPECT_THAT(solo.out.events, IsEmpty());
  // The same leader may come back: its session was not gone after all.
  solo.Follow(2, 1);
  EXPECT_EQ(solo.partition.role(), Role::kFollower);
}

TEST(PartitionDeathTest, RolesAreWhatTheStateSays) {
  Solo solo;
  solo.state.leader = BrokerId{2};
  EXPECT_DEATH(solo.partition.BecomeLeader(solo.now, solo.state, IncarnationOf(1), &solo.out), "");
  solo.state.leader = BrokerId{1};
  EXPECT_DEATH(solo.partition.BecomeFollower(solo.now, solo.state, &solo.out), "");
  solo.state.leader.reset();
  EXPECT_DEATH(solo.partition.BecomeFollower(solo.now, solo.state, &solo.out), "");
}

// ---- Update -------------------------------------------------------------------------------------

TEST(PartitionUpdate, OfAnotherLeaderEpochIsIgnored) {
  Solo solo;
  solo.Follow(2, 3);
  for (const int32_t epoch : {2, 4}) {
    solo.state.leader_epoch = {epoch};
    ++solo.state.replicas_version;
    solo.Update();
    EXPECT_EQ(solo.Saw(EventKind::kIgnored), "update-of-another-epoch");
    EXPECT_EQ(solo.partition.state().replicas_version, 5);
  }
}

TEST(PartitionUpdate, TakesOnlyThePartsThatAreNewer) {
  Solo solo;
  solo.Follow(2, 3);
  solo.state.replicas = {{1}, {2}};
  solo.state.adding = {{2}};
  solo.state.removing = {{3}};
  solo.state.replicas_version = 4;
  solo.state.isr = Members({1});
  solo.state.isr_version = 9;
  solo.Update();
  EXPECT_THAT(solo.partition.state().replicas, SizeIs(3));
  EXPECT_EQ(solo.partition.state().isr, Members({1, 2, 3}));
  solo.state.replicas_version = 6;
  solo.Update();
  EXPECT_THAT(solo.partition.state().replicas, SizeIs(2));
  EXPECT_THAT(solo.partition.state().adding, ElementsAre(BrokerId{2}));
  EXPECT_THAT(solo.partition.state().removing, ElementsAre(BrokerId{3}));
  EXPECT_EQ(solo.partition.state().isr, Members({1, 2, 3}));
  solo.state.isr_version = 11;
  solo.Update();
  EXPECT_EQ(solo.partition.state().isr, Members({1}));
  EXPECT_EQ(solo.partition.maximal_isr(), Members({1}));
}

TEST(PartitionUpdate, OfTheIsrMovesALeadersHighWatermark) {
  Solo solo;
  solo.Lead(0);
  solo.Produce(Acks::kAll);
  solo.Persist();
  solo.UpdateIsr(Members({1}));
  EXPECT_THAT(solo.said(), ElementsAre(Said{1, ProduceError::kNone, 0}));
}

// ---- Configure ----------------------------------------------------------------------------------

TEST(PartitionConfigure, ALowerMinimumCommitsAtOnce) {
  Solo solo({.isr = Members({1}), .min_insync = 2});
  solo.Lead(0);
  solo.Produce(Acks::kLeader);
  solo.Persist();
  EXPECT_EQ(solo.partition.high_watermark(), 0);
  solo.out.Clear();
  solo.partition.Configure(solo.now, kKeepInSync, 1, &solo.out);
  EXPECT_EQ(solo.partition.high_watermark(), 1);
  EXPECT_TRUE(solo.out.high_watermark_moved);
}

TEST(PartitionConfigure, AHigherMinimumRefusesAtOnce) {
  Solo solo({.isr = Members({1, 2})});
  solo.Lead(0);
  solo.partition.Configure(solo.now, kKeepInSync, 3, &solo.out);
  solo.Produce(Acks::kAll);
  EXPECT_THAT(solo.said(), ElementsAre(Said{1, ProduceError::kNotEnoughReplicas}));
}

TEST(PartitionConfigure, IsRememberedByAFollower) {
  Solo solo({.isr = Members({1})});
  solo.Follow(2, 0);
  solo.out.Clear();
  solo.partition.Configure(solo.now, kKeepInSync, 2, &solo.out);
  EXPECT_THAT(solo.out.events, IsEmpty());
  solo.Lead(1);
  solo.Produce(Acks::kAll);
  EXPECT_THAT(solo.said(), ElementsAre(Said{1, ProduceError::kNotEnoughReplicas}));
}

// ---- The log start ------------------------------------------------------------------------------

TEST(PartitionSetLogStart, DropsWhatIsBelow) {
  Solo solo({.log = LogOf({0, 0, 1, 1}), .high_watermark = 3});
  solo.Lead(2);
  solo.SetLogStart(3);
  EXPECT_EQ(solo.log.start, 3);
  EXPECT_THAT(solo.partition.epochs(), ElementsAre(EpochStart{1, 3}, EpochStart{2, 4}));
  EXPECT_EQ(solo.out.truncated_to, std::nullopt);
  solo.SetLogStart(3);  // where it is
  EXPECT_THAT(solo.out.changes, IsEmpty());
}

TEST(PartitionSetLogStart, OfEverythingLeavesAnEmptyLogWithItsEpoch) {
  Solo solo({.replicas = {{1}}, .isr = Members({1}), .log = LogOf({0, 0}), .high_watermark = 2});
  solo.Lead(2);
  solo.Persist();
  solo.SetLogStart(2);
  EXPECT_EQ(solo.log.start, 2);
  EXPECT_EQ(solo.log.end, 2);
  EXPECT_THAT(solo.partition.epochs(), ElementsAre(EpochStart{2, 2}));
  solo.Produce(Acks::kAll);
  solo.Persist();
  EXPECT_THAT(solo.said(), ElementsAre(Said{1, ProduceError::kNone, 2}));
}

TEST(PartitionSetLogStartDeathTest, IsWithinWhatIsCommitted) {
  Solo solo({.log = LogOf({0, 0, 0}), .high_watermark = 2});
  solo.SetLogStart(1);
  EXPECT_DEATH(solo.partition.SetLogStart(solo.now, 3, &solo.out), "");
  EXPECT_DEATH(solo.partition.SetLogStart(solo.now, 0, &solo.out), "");
}

// ---- For others to read -------------------------------------------------------------------------

// KIP-320.
TEST(Partition, EndOfEpochIsThatOfTheLargestOneNotAbove) {
  Solo solo({.log = LogOf({1, 1, 4})});
  const auto end = [&](int32_t epoch) { return *solo.partition.EndOfEpoch({epoch}); };
  EXPECT_EQ(end(1), (ReplicaFetchResponse::Diverging{{1}, 2}));
  EXPECT_EQ(end(3), (ReplicaFetchResponse::Diverging{{1}, 2}));
  EXPECT_EQ(end(4), (ReplicaFetchResponse::Diverging{{4}, 3}));
  EXPECT_EQ(end(9), (ReplicaFetchResponse::Diverging{{4}, 3}));
  EXPECT_EQ(Solo().partition.EndOfEpoch({0}), std::nullopt);
}

TEST(PartitionDeathTest, NothingIsPersistedThatWasNotWritten) {
  Solo solo;
  EXPECT_DEATH(solo.partition.OnPersisted(solo.now, &solo.out), "");
}

TEST(Partition, AnOutputCanBeUsedAgain) {
  Solo solo;
  solo.Lead(0);
  solo.Produce(Acks::kNone);
  solo.out.Clear();
  EXPECT_THAT(solo.out.changes, IsEmpty());
  EXPECT_THAT(solo.out.produces_done, IsEmpty());
  EXPECT_FALSE(solo.out.data_appended);
}

TEST(FetchErrors, HaveNames) {
  EXPECT_STREQ(ToString(FetchError::kNone), "none");
  for (uint8_t error = 1; error < static_cast<uint8_t>(FetchError::kCount); ++error) {
    EXPECT_STRNE(ToString(static_cast<FetchError>(error)), "none");
  }
}

}  // namespace
}  // namespace lockstep::replication
