#include "core/replication/isr.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/replication/solo.h"

namespace lockstep::replication {
namespace {

using Outcome = Partition::Outcome;
using ::testing::ElementsAre;

constexpr Instant kNow = Instant{} + Seconds(1);

class IsrTest : public ::testing::Test {
 protected:
  IsrTest() { isr_.Reset(Members({1, 2}), 10); }
  Rules rules_;
  Isr isr_{rules_};
};

TEST_F(IsrTest, BeginsWithWhatIsDurable) {
  EXPECT_EQ(isr_.committed(), Members({1, 2}));
  EXPECT_EQ(isr_.maximal(), Members({1, 2}));
  EXPECT_EQ(isr_.version(), 10);
  EXPECT_EQ(isr_.smallest_size(), 2u);
  EXPECT_FALSE(isr_.unsettled());
  EXPECT_TRUE(isr_.may_change(Instant{}));
}

TEST_F(IsrTest, WhileAnExpansionIsUnderWayItsMembersCount) {
  isr_.Propose(Members({1, 2, 3}));
  EXPECT_EQ(isr_.committed(), Members({1, 2}));
  EXPECT_EQ(isr_.maximal(), Members({1, 2, 3}));
  EXPECT_THAT(isr_.counted(), ElementsAre(BrokerId{1}, BrokerId{2}, BrokerId{3}));
  EXPECT_EQ(isr_.smallest_size(), 2u);
  EXPECT_EQ(isr_.change_at(), Instant::Never());
}

TEST_F(IsrTest, WhileAShrinkIsUnderWayTheRemovedCountToo) {
  isr_.Propose(Members({1}));
  EXPECT_EQ(isr_.maximal(), Members({1, 2}));
  EXPECT_THAT(isr_.counted(), ElementsAre(BrokerId{1}, BrokerId{2}));
  // The minimum is compared with the smaller one: what is committed meanwhile may be on one alone.
  EXPECT_EQ(isr_.smallest_size(), 1u);
}

TEST_F(IsrTest, WithoutTheRuleAChangeCountsWhenItIsWanted) {
  rules_.wait_for_maximal_isr = false;
  isr_.Propose(Members({1}));
  EXPECT_THAT(isr_.counted(), ElementsAre(BrokerId{1}));
}

TEST_F(IsrTest, AnAppliedChangeIsTheIsr) {
  isr_.Propose(Members({1}));
  EXPECT_TRUE(isr_.OnOutcome(kNow, Outcome::kApplied, 11));
  EXPECT_EQ(isr_.committed(), Members({1}));
  EXPECT_EQ(isr_.maximal(), Members({1}));
  EXPECT_EQ(isr_.version(), 11);
  EXPECT_TRUE(isr_.may_change(kNow));
}

TEST_F(IsrTest, ARefusedChangeIsForgottenAndTheStateReadAnew) {
  isr_.Propose(Members({1}));
  EXPECT_TRUE(isr_.OnOutcome(kNow, Outcome::kRefused, 0));
  EXPECT_EQ(isr_.maximal(), Members({1, 2}));
  EXPECT_EQ(isr_.smallest_size(), 2u);
  EXPECT_FALSE(isr_.unsettled());
  EXPECT_EQ(isr_.change_at(), Instant::Never());
  isr_.Learn(Members({1, 2}), 9);  // older than what was refused
  EXPECT_EQ(isr_.change_at(), Instant::Never());
  isr_.Learn(Members({1, 2}), 10);
  EXPECT_EQ(isr_.change_at(), kNow + Isr::kRetryAfter);
}

TEST_F(IsrTest, AChangeOfUnknownOutcomeCountsUntilAnotherFromThatVersionIsApplied) {
  isr_.Propose(Members({1}));
  EXPECT_TRUE(isr_.OnOutcome(kNow, Outcome::kUnknown, 0));
  EXPECT_TRUE(isr_.unsettled());
  EXPECT_EQ(isr_.smallest_size(), 1u);
  EXPECT_EQ(isr_.change_at(), kNow + Isr::kRetryAfter);
  EXPECT_FALSE(isr_.may_change(kNow));
  isr_.Propose(Members({1, 2, 3}));
  EXPECT_FALSE(isr_.unsettled());  // one is under way
  EXPECT_EQ(isr_.maximal(), Members({1, 2, 3}));
  EXPECT_EQ(isr_.smallest_size(), 1u);
  EXPECT_TRUE(isr_.OnOutcome(kNow, Outcome::kApplied, 11));
  EXPECT_EQ(isr_.maximal(), Members({1, 2, 3}));
  EXPECT_EQ(isr_.smallest_size(), 3u);
  EXPECT_FALSE(isr_.unsettled());
}

TEST_F(IsrTest, ARefusalAfterAnUnknownOutcomeSettlesOnlyItself) {
  isr_.Propose(Members({1}));
  isr_.OnOutcome(kNow, Outcome::kUnknown, 0);
  isr_.Propose(Members({1, 2, 3}));
  isr_.OnOutcome(kNow, Outcome::kRefused, 0);
  EXPECT_TRUE(isr_.unsettled());
  EXPECT_EQ(isr_.maximal(), Members({1, 2}));
  EXPECT_EQ(isr_.smallest_size(), 1u);
}

TEST_F(IsrTest, TheSameChangeOfUnknownOutcomeIsKeptOnce) {
  for (int i = 0; i < 3; ++i) {
    isr_.Propose(Members({1}));
    isr_.OnOutcome(kNow, Outcome::kUnknown, 0);
  }
  isr_.Propose(Members({1, 2}));
  isr_.OnOutcome(kNow, Outcome::kApplied, 11);
  EXPECT_FALSE(isr_.unsettled());
  EXPECT_EQ(isr_.smallest_size(), 2u);
}

TEST_F(IsrTest, WithoutTheRuleAnUnknownOutcomeIsTakenForNone) {
  rules_.keep_both_isrs_while_unknown = false;
  isr_.Propose(Members({1}));
  isr_.OnOutcome(kNow, Outcome::kUnknown, 0);
  EXPECT_FALSE(isr_.unsettled());
  EXPECT_EQ(isr_.smallest_size(), 2u);
}

TEST_F(IsrTest, ANewerVersionSettlesEverything) {
  isr_.Propose(Members({1}));
  isr_.OnOutcome(kNow, Outcome::kUnknown, 0);
  isr_.Learn(Members({1, 3}), 11);
  EXPECT_EQ(isr_.maximal(), Members({1, 3}));
  EXPECT_EQ(isr_.version(), 11);
  EXPECT_FALSE(isr_.unsettled());
}

TEST_F(IsrTest, OlderAndKnownVersionsChangeNothing) {
  isr_.Propose(Members({1, 2, 3}));
  isr_.Learn(Members({1}), 10);
  isr_.Learn(Members({1}), 9);
  EXPECT_EQ(isr_.committed(), Members({1, 2}));
  EXPECT_EQ(isr_.maximal(), Members({1, 2, 3}));
}

// The watch was faster than the answer to the write.
TEST_F(IsrTest, AnOutcomeAfterANewerVersionWasReadChangesNothing) {
  for (const Outcome outcome : {Outcome::kApplied, Outcome::kRefused, Outcome::kUnknown}) {
    isr_.Reset(Members({1, 2}), 10);
    isr_.Propose(Members({1}));
    isr_.Learn(Members({1}), 11);
    EXPECT_EQ(isr_.change_at(), Instant::Never());  // it is still under way
    EXPECT_TRUE(isr_.OnOutcome(kNow, outcome, 11));
    EXPECT_EQ(isr_.maximal(), Members({1}));
    EXPECT_EQ(isr_.version(), 11);
    EXPECT_TRUE(isr_.may_change(kNow + Isr::kRetryAfter));
  }
}

TEST_F(IsrTest, AnOutcomeOfNothingIsToldApart) {
  EXPECT_FALSE(isr_.OnOutcome(kNow, Outcome::kApplied, 11));
  EXPECT_EQ(isr_.version(), 10);
}

TEST_F(IsrTest, ANewLeadershipForgetsWhatTheOldOneWanted) {
  isr_.Propose(Members({1}));
  isr_.OnOutcome(kNow, Outcome::kUnknown, 0);
  isr_.Reset(Members({1, 2, 3}), 12);
  EXPECT_EQ(isr_.maximal(), Members({1, 2, 3}));
  EXPECT_EQ(isr_.smallest_size(), 3u);
  EXPECT_TRUE(isr_.may_change(kNow));
}

TEST_F(IsrTest, TwoIncarnationsOfABrokerCountOnce) {
  std::vector<IsrMember> members = {Member(1), {{2}, {500}}};
  isr_.Propose(members);
  EXPECT_EQ(isr_.maximal().size(), 3u);
  EXPECT_THAT(isr_.counted(), ElementsAre(BrokerId{1}, BrokerId{2}));
}

TEST_F(IsrTest, APostponedChangeWaits) {
  isr_.Postpone(kNow);
  EXPECT_FALSE(isr_.may_change(kNow + Isr::kRetryAfter - Nanoseconds(1)));
  EXPECT_TRUE(isr_.may_change(kNow + Isr::kRetryAfter));
}

TEST(IsrDeathTest, OneChangeIsUnderWayAndNoneIsEmpty) {
  const Rules rules;
  Isr isr(rules);
  isr.Reset(Members({1, 2}), 1);
  EXPECT_DEATH(isr.Propose({}), "");
  isr.Propose(Members({1}));
  EXPECT_DEATH(isr.Propose(Members({1, 2})), "");
}

}  // namespace
}  // namespace lockstep::replication
