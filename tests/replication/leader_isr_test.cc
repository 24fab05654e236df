// When a leader wants the ISR changed, and what it does with the outcome.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/replication/isr.h"
#include "core/replication/leader.h"
#include "tests/replication/solo.h"

namespace lockstep::replication {
namespace {

using Outcome = Partition::Outcome;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Broker 1 leads epoch 1 with two records of epoch 0 that are committed; 2 follows, 3 does not.
Solo::Setup WithoutThree() {
  return {.isr = Members({1, 2}), .log = LogOf({0, 0}), .high_watermark = 2};
}

// ---- Shrinking ----------------------------------------------------------------------------------

TEST(LeaderIsr, AMemberThatNeverFetchesLeavesWithoutTraffic) {
  Solo solo;
  solo.Lead(0);
  EXPECT_EQ(solo.partition.next_deadline(), solo.now + kKeepInSync + Nanoseconds(1));
  solo.Pass(kKeepInSync);
  EXPECT_EQ(solo.out.isr_change, std::nullopt);
  solo.Fetch(3, 0);
  solo.Pass(Nanoseconds(1));
  ASSERT_TRUE(solo.out.isr_change);
  EXPECT_EQ(solo.wanted_isr(), Members({1, 3}));
  EXPECT_EQ(solo.out.isr_change->leader_epoch.value, 0);
  EXPECT_EQ(solo.out.isr_change->from_version, 10);
  EXPECT_EQ(solo.out.isr_change->replicas_version, 5);
  EXPECT_EQ(solo.Saw(EventKind::kIsrShrink), "");
}

// KAFKA-7152.
TEST(LeaderIsr, AMemberAtTheLeadersEndStaysHoweverLongItIsSilent) {
  Solo solo;
  solo.Lead(0);
  solo.Persist();
  solo.Fetch(2, 0);
  solo.Fetch(3, 0);
  EXPECT_EQ(solo.partition.next_deadline(), Instant::Never());
  solo.Pass(Seconds(3600));
  EXPECT_EQ(solo.out.isr_change, std::nullopt);
}

TEST(LeaderIsr, AMemberThatFallsBehindLeaves) {
  Solo solo;
  solo.Lead(0);
  solo.Fetch(2, 0);
  solo.Fetch(3, 0);
  solo.Produce(Acks::kAll);
  solo.Persist();
  solo.Fetch(2, 1);
  EXPECT_EQ(solo.partition.next_deadline(), solo.now + kKeepInSync + Nanoseconds(1));
  solo.Pass(kKeepInSync + Nanoseconds(1));
  EXPECT_EQ(solo.wanted_isr(), Members({1, 2}));
  // It still counts, since it may be elected until that is written.
  EXPECT_THAT(solo.said(), IsEmpty());
  EXPECT_EQ(solo.partition.maximal_isr(), Members({1, 2, 3}));
  solo.IsrOutcome(Outcome::kApplied);
  EXPECT_THAT(solo.said(), ElementsAre(Said{1, ProduceError::kNone, 0}));
  EXPECT_EQ(solo.partition.state().isr, Members({1, 2}));
  EXPECT_EQ(solo.partition.state().isr_version, 11);
}

// KAFKA-8733, KIP-501.
TEST(LeaderIsr, AMemberWhoseFetchWaitsHereIsNotExpelledForIt) {
  Solo solo({.replicas = {{1}, {2}}, .isr = Members({1, 2})});
  solo.Lead(0);
  solo.Produce(Acks::kNone);
  solo.Fetch(2, solo.FetchAt(0));  // the read takes long
  solo.Pass(kKeepInSync + kKeepInSync / 2);
  EXPECT_EQ(solo.out.isr_change, std::nullopt);
  solo.partition.OnFetchAnswered(solo.now, {2});
  EXPECT_EQ(solo.partition.next_deadline(), solo.now + kKeepInSync + Nanoseconds(1));
  solo.Pass(kKeepInSync);
  EXPECT_EQ(solo.out.isr_change, std::nullopt);
  solo.Pass(Nanoseconds(1));
  EXPECT_EQ(solo.wanted_isr(), Members({1}));
}

TEST(LeaderIsr, AnAnswerThatNeverLeavesDoesNotKeepAMember) {
  Solo solo({.replicas = {{1}, {2}}, .isr = Members({1, 2})});
  solo.Lead(0);
  solo.Produce(Acks::kNone);
  solo.Fetch(2, solo.FetchAt(0));
  solo.Pass(kKeepInSync * 2);
  EXPECT_EQ(solo.out.isr_change, std::nullopt);
  solo.Pass(Nanoseconds(1));
  EXPECT_EQ(solo.wanted_isr(), Members({1}));
}

TEST(LeaderIsr, AnswersToFollowersThatAreNoneAreIgnored) {
  Solo solo;
  solo.Lead(0);
  const Instant before = solo.partition.next_deadline();
  solo.partition.OnFetchAnswered(solo.now + Seconds(1), {9});
  EXPECT_EQ(solo.partition.next_deadline(), before);
  solo.Resign();
  solo.partition.OnFetchAnswered(solo.now, {2});
  EXPECT_EQ(solo.partition.next_deadline(), Instant::Never());
}

// The configuration is effective at once, in both directions.
TEST(LeaderIsr, AShorterTimeToKeepInSyncExpelsAtOnce) {
  Solo solo;
  solo.Lead(0);
  solo.Pass(Milliseconds(200));
  solo.out.Clear();
  solo.partition.Configure(solo.now, Milliseconds(100), 1, &solo.out);
  EXPECT_EQ(solo.wanted_isr(), Members({1}));
}

// ---- Expanding ----------------------------------------------------------------------------------

TEST(LeaderIsr, AFollowerThatHasCaughtUpJoins) {
  Solo solo(WithoutThree());
  solo.Lead(1);
  solo.Fetch(3, 1);
  EXPECT_EQ(solo.out.isr_change, std::nullopt);
  solo.Fetch(3, 2);
  ASSERT_TRUE(solo.out.isr_change);
  EXPECT_EQ(solo.wanted_isr(), Members({1, 2, 3}));
  EXPECT_EQ(solo.Saw(EventKind::kIsrExpand), "");
  EXPECT_EQ(solo.partition.maximal_isr(), Members({1, 2, 3}));
  // One change at a time.
  solo.Fetch(3, 2);
  EXPECT_EQ(solo.out.isr_change, std::nullopt);
  solo.IsrOutcome(Outcome::kApplied);
  EXPECT_EQ(solo.partition.state().isr, Members({1, 2, 3}));
  EXPECT_EQ(solo.Saw(EventKind::kIsrChanged), "");
  // A member does not join again.
  solo.Fetch(3, 2);
  EXPECT_EQ(solo.out.isr_change, std::nullopt);
}

// KAFKA-7128: what was committed before us is below our epoch's start, which may be above our high
// watermark.
TEST(LeaderIsr, ItJoinsAtTheStartOfTheEpochAtLeast) {
  for (const bool rule : {true, false}) {
    Solo::Setup setup = WithoutThree();
    setup.high_watermark = 1;
    setup.rules.join_isr_at_epoch_start = rule;
    Solo solo(setup);
    solo.Lead(1);
    solo.Fetch(3, 1);
    EXPECT_EQ(solo.wanted_isr(), rule ? Members({}) : Members({1, 2, 3}));
  }
}

TEST(LeaderIsr, ItJoinsAtTheHighWatermarkAtLeast) {
  Solo solo(WithoutThree());
  solo.Lead(1);
  solo.Produce(Acks::kAll);
  solo.Persist();
  solo.Fetch(2, 3);
  ASSERT_EQ(solo.partition.high_watermark(), 3);
  solo.Fetch(3, 2);
  EXPECT_EQ(solo.out.isr_change, std::nullopt);
  solo.Fetch(3, 3);
  EXPECT_EQ(solo.wanted_isr(), Members({1, 2, 3}));
}

// A member as another incarnation than the one that is in the ISR is none (KIP-903).
TEST(LeaderIsr, ANewIncarnationTakesThePlaceOfTheOldOne) {
  Solo solo(WithoutThree());
  solo.Lead(1);
  solo.FetchAs(2, {200}, solo.FetchAt(2));
  const std::vector<IsrMember> expected = {Member(1), {{2}, {200}}};
  EXPECT_EQ(solo.wanted_isr(), expected);
  solo.IsrOutcome(Outcome::kApplied);
  EXPECT_EQ(solo.partition.state().isr, expected);
}

TEST(LeaderIsr, WhoJoinsHasItsTimeToKeepInSync) {
  Solo solo(WithoutThree());
  solo.Lead(1);
  solo.Produce(Acks::kNone);
  solo.Fetch(2, 3);
  solo.Fetch(3, 2);  // above the high watermark, and behind the end
  ASSERT_EQ(solo.wanted_isr(), Members({1, 2, 3}));
  solo.IsrOutcome(Outcome::kApplied);
  solo.Pass(kKeepInSync);
  EXPECT_EQ(solo.out.isr_change, std::nullopt);
  solo.Pass(Nanoseconds(1));
  EXPECT_EQ(solo.wanted_isr(), Members({1, 2}));
}

// ---- Our own incarnation ------------------------------------------------------------------------

TEST(LeaderIsr, ALeaderNamesItsOwnIncarnation) {
  std::vector<IsrMember> isr = Members({1, 2});
  isr[0].incarnation = {50};
  Solo solo({.isr = isr});
  solo.Lead(0);
  EXPECT_EQ(solo.wanted_isr(), Members({1, 2}));
  EXPECT_EQ(solo.Saw(EventKind::kIsrExpand), "");
  solo.IsrOutcome(Outcome::kUnknown);
  EXPECT_EQ(solo.partition.next_deadline(), solo.now + Isr::kRetryAfter);
  solo.Pass(Isr::kRetryAfter);
  ASSERT_TRUE(solo.out.isr_change);
  EXPECT_EQ(solo.wanted_isr()[0], Member(1));
}

// A reassignment has moved the partition away from us; we are about to resign.
TEST(LeaderIsr, ALeaderThatIsNoMemberAndWhoseMembersAreGoneWaits) {
  Solo solo({.isr = Members({2})});
  solo.Lead(0);
  solo.Pass(kKeepInSync + Nanoseconds(1));
  EXPECT_EQ(solo.out.isr_change, std::nullopt);
  EXPECT_EQ(solo.partition.next_deadline(), solo.now + Isr::kRetryAfter);
}

// ---- Outcomes -----------------------------------------------------------------------------------

TEST(LeaderIsrOutcome, ARefusalWaitsForTheStateToBeReadAnew) {
  Solo solo;
  solo.Lead(0);
  solo.Fetch(3, 0);
  solo.Pass(kKeepInSync + Nanoseconds(1));
  ASSERT_EQ(solo.wanted_isr(), Members({1, 3}));
  solo.IsrOutcome(Outcome::kRefused);
  EXPECT_EQ(solo.Saw(EventKind::kIsrChangeFailed), "refused");
  EXPECT_EQ(solo.partition.maximal_isr(), Members({1, 2, 3}));
  solo.Pass(Seconds(60));
  EXPECT_EQ(solo.out.isr_change, std::nullopt);
  solo.Update();  // what was read is what was known
  EXPECT_EQ(solo.wanted_isr(), Members({1, 3}));
  EXPECT_EQ(solo.out.isr_change->from_version, 10);
}

TEST(LeaderIsrOutcome, AfterAnUnknownOneBothSetsCountAndAnotherIsWritten) {
  Solo solo({.min_insync = 2});
  solo.Lead(0);
  solo.Produce(Acks::kAll);
  solo.Persist();
  solo.Fetch(3, 1);
  solo.Pass(kKeepInSync + Nanoseconds(1));
  ASSERT_EQ(solo.wanted_isr(), Members({1, 3}));
  solo.IsrOutcome(Outcome::kUnknown);
  EXPECT_EQ(solo.Saw(EventKind::kIsrChangeFailed), "unknown");
  EXPECT_EQ(solo.partition.maximal_isr(), Members({1, 2, 3}));
  EXPECT_EQ(solo.partition.high_watermark(), 0);
  EXPECT_EQ(solo.partition.next_deadline(), solo.now + Isr::kRetryAfter);
  // Broker 2 is back, and the set is as it should be: it is written, so that it is known.
  solo.Fetch(2, 1);
  EXPECT_EQ(solo.partition.high_watermark(), 1);
  solo.Pass(Isr::kRetryAfter);
  EXPECT_EQ(solo.wanted_isr(), Members({1, 2, 3}));
  EXPECT_EQ(solo.Saw(EventKind::kIsrShrink), "none");
  solo.IsrOutcome(Outcome::kApplied);
  EXPECT_EQ(solo.partition.maximal_isr(), Members({1, 2, 3}));
  EXPECT_EQ(solo.partition.next_deadline(), Instant::Never());
}

TEST(LeaderIsrOutcome, AnUnknownOneIsKnownWhenANewerVersionIsRead) {
  Solo solo;
  solo.Lead(0);
  solo.Produce(Acks::kAll);
  solo.Persist();
  solo.Fetch(3, 1);
  solo.Pass(kKeepInSync + Nanoseconds(1));
  solo.IsrOutcome(Outcome::kUnknown);
  solo.UpdateIsr(Members({1, 3}));  // it had been applied
  EXPECT_THAT(solo.said(), ElementsAre(Said{1, ProduceError::kNone, 0}));
  EXPECT_EQ(solo.partition.maximal_isr(), Members({1, 3}));
}

TEST(LeaderIsrOutcome, OneThatComesAfterTheWatchIsNoFailure) {
  Solo solo;
  solo.Lead(0);
  solo.Fetch(3, 0);
  solo.Pass(kKeepInSync + Nanoseconds(1));
  solo.UpdateIsr(Members({1, 3}));
  solo.out.Clear();
  solo.partition.OnIsrChange(solo.now, {0}, Outcome::kApplied, 11, &solo.out);
  EXPECT_EQ(solo.Saw(EventKind::kIsrChangeFailed), "none");
  EXPECT_EQ(solo.Saw(EventKind::kIsrChanged), "none");
  EXPECT_EQ(solo.partition.state().isr_version, 11);
}

TEST(LeaderIsrOutcome, OneOfNothingIsIgnored) {
  Solo solo;
  solo.Lead(0);
  solo.IsrOutcome(Outcome::kRefused);
  EXPECT_EQ(solo.Saw(EventKind::kIgnored), "no-isr-change-under-way");
}

TEST(LeaderIsrOutcome, OneOfAnEarlierLeadershipIsIgnored) {
  Solo solo;
  solo.Lead(0);
  solo.Pass(kKeepInSync + Nanoseconds(1));
  ASSERT_TRUE(solo.out.isr_change);
  solo.Lead(1);
  solo.out.Clear();
  solo.partition.OnIsrChange(solo.now, {0}, Outcome::kApplied, 11, &solo.out);
  EXPECT_EQ(solo.Saw(EventKind::kIgnored), "isr-change-of-another-epoch");
  EXPECT_EQ(solo.partition.maximal_isr(), Members({1, 2, 3}));
  solo.Resign();
  solo.IsrOutcome(Outcome::kRefused);
  EXPECT_EQ(solo.Saw(EventKind::kIgnored), "isr-change-of-another-epoch");
}

// ---- Reassignment -------------------------------------------------------------------------------

TEST(LeaderReassignment, AnAddedReplicaIsServedAndARemovedOneIsNot) {
  Solo solo;
  solo.Lead(0);
  solo.state.replicas = {{1}, {2}, {4}};
  ++solo.state.replicas_version;
  solo.state.isr = Members({1, 2});
  ++solo.state.isr_version;
  solo.Update();
  EXPECT_EQ(solo.Fetch(3, solo.FetchAt(0)).error, FetchError::kNotReplica);
  solo.Fetch(4, 0);
  EXPECT_EQ(solo.wanted_isr(), Members({1, 2, 4}));
  EXPECT_EQ(solo.out.isr_change->replicas_version, 6);
}

// Two changes at once may be its removal, which deleted its log, and its addition.
TEST(LeaderReassignment, OneThatMayHaveBeenRemovedInBetweenStartsOver) {
  Solo solo({.isr = Members({1, 2})});
  solo.Lead(0);
  solo.Produce(Acks::kNone);
  auto late = solo.FetchAt(1);
  solo.state.replicas_version += 2;
  solo.Update();
  solo.Fetch(3, late);
  EXPECT_EQ(solo.Saw(EventKind::kIgnored), "fetch-of-a-former-assignment");
  EXPECT_EQ(solo.out.isr_change, std::nullopt);
  // Not a member, which only an ISR change of ours can remove.
  solo.Fetch(2, late);
  EXPECT_EQ(solo.partition.followers()[0].log_end, 1);
}

TEST(LeaderReassignment, OneChangeForgetsNobody) {
  Solo solo({.isr = Members({1, 2})});
  solo.Lead(0);
  solo.Fetch(3, 0);
  solo.state.replicas.push_back({4});
  ++solo.state.replicas_version;
  solo.Update();
  const auto followers = solo.partition.followers();
  ASSERT_EQ(followers.size(), 3u);
  EXPECT_EQ(followers[1].log_end, 0);
  EXPECT_TRUE(followers[1].caught_up);
  EXPECT_EQ(followers[2].log_end, -1);
  EXPECT_FALSE(followers[2].caught_up);
}

}  // namespace
}  // namespace lockstep::replication
