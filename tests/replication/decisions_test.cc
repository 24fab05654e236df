// The pure decisions of the control plane: elections, reassignments, assignments, topics.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/replication/assignment.h"
#include "core/replication/election.h"
#include "core/replication/reassignment.h"
#include "core/replication/topics.h"

namespace lockstep::replication {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Brokers = std::vector<BrokerId>;

// ---- Election ----------------------------------------------------------------------------------

class ElectionTest : public ::testing::Test {
 protected:
  ElectionTest() {
    state.replicas = {{1}, {2}, {3}};
    state.isr = {{{1}, {10}}, {{2}, {20}}, {{3}, {30}}};
    state.leader_epoch = {4};
  }
  std::optional<ElectionPlan> Plan(Candidate self, bool unclean = false, uint32_t least = 1) {
    return PlanElection(
        state, self,
        [this](BrokerId broker) {
          auto at = live.find(broker);
          return at == live.end() ? BrokerEpoch() : at->second;
        },
        unclean, least, rules);
  }

  PartitionState state;
  std::map<BrokerId, BrokerEpoch> live = {{{1}, {10}}, {{2}, {20}}, {{3}, {30}}};
  Rules rules;
};

TEST_F(ElectionTest, TheFirstLiveMemberOfTheIsrTriesAtOnce) {
  EXPECT_EQ(Plan({{1}, {10}, {}})->rank, 0u);
  EXPECT_EQ(Plan({{2}, {20}, {}})->rank, 1u);
  live.erase({1});
  EXPECT_EQ(Plan({{2}, {20}, {}})->rank, 0u);
  EXPECT_EQ(Plan({{3}, {30}, {}})->rank, 1u);
}

TEST_F(ElectionTest, DeadMembersLeaveTheIsrInTheElection) {
  live.erase({1});
  EXPECT_THAT(Plan({{2}, {20}, {}})->isr, ElementsAre(IsrMember{{2}, {20}}, IsrMember{{3}, {30}}));
}

TEST_F(ElectionTest, ButNotBelowTheMinimumWhereTheyMayStillBeNeeded) {
  live = {{{2}, {20}}};
  EXPECT_THAT(Plan({{2}, {20}, {}}, false, 2)->isr, SizeIs(3));
  EXPECT_THAT(Plan({{2}, {20}, {}}, false, 1)->isr, SizeIs(1));
}

TEST_F(ElectionTest, OnlyReplicasAndMembersOfTheIsrAreCandidates) {
  EXPECT_FALSE(Plan({{4}, {40}, {}}).has_value());
  state.isr = {{{1}, {10}}};
  EXPECT_FALSE(Plan({{2}, {20}, {}}).has_value());
  rules.elect_from_isr_only = false;
  EXPECT_TRUE(Plan({{2}, {20}, {}}).has_value());
}

TEST_F(ElectionTest, AnotherIncarnationIsACandidateOnlyWithThatOnesData) {
  EXPECT_FALSE(Plan({{2}, {25}, {}}).has_value());
  EXPECT_FALSE(Plan({{2}, {25}, {{22}, {25}}}).has_value());
  const auto plan = Plan({{2}, {25}, {{20}, {22}, {25}}});
  ASSERT_TRUE(plan.has_value());
  EXPECT_THAT(plan->isr,
              ElementsAre(IsrMember{{1}, {10}}, IsrMember{{2}, {25}}, IsrMember{{3}, {30}}));
  rules.elect_retained_incarnation_only = false;
  EXPECT_TRUE(Plan({{2}, {25}, {}}).has_value());
}

// Found by the simulator: the broker that was registered when the topic was made died before it had
// recorded that incarnation, and the partition never got a leader.
TEST_F(ElectionTest, OfAPartitionThatWasNeverLedAnyIncarnationIsACandidate) {
  state.leader_epoch = {-1};
  const auto plan = Plan({{2}, {25}, {{25}}});
  ASSERT_TRUE(plan.has_value());
  EXPECT_FALSE(plan->unclean);
  EXPECT_FALSE(Plan({{4}, {40}, {}}).has_value());
  state.leader_epoch = {0};
  EXPECT_FALSE(Plan({{2}, {25}, {{25}}}).has_value());
}

TEST_F(ElectionTest, AnUncleanElectionComesAfterEveryLiveMemberOfTheIsr) {
  state.isr = {{{1}, {10}}};
  const auto plan = Plan({{2}, {20}, {}}, true);
  ASSERT_TRUE(plan.has_value());
  EXPECT_TRUE(plan->unclean);
  EXPECT_EQ(plan->rank, 2u);
  EXPECT_THAT(plan->isr, ElementsAre(IsrMember{{2}, {20}}));
}

// ---- Reassignment ------------------------------------------------------------------------------

class ReassignmentTest : public ::testing::Test {
 protected:
  ReassignmentTest() {
    state.replicas = {{1}, {2}};
    state.isr = {{{1}, {10}}, {{2}, {20}}};
    state.leader = BrokerId{1};
  }
  void Apply(const ReassignmentStep& step) {
    state.replicas = step.replicas;
    state.adding = step.adding;
    state.removing = step.removing;
    state.isr = step.isr;
  }
  PartitionState state;
};

TEST_F(ReassignmentTest, BeginsByAddingAndCompletesWhenAllThatCameAreInSync) {
  const Brokers requested = {{3}, {1}};
  const auto begin = NextReassignmentStep(state, requested);
  ASSERT_TRUE(begin.has_value());
  EXPECT_EQ(begin->kind, ReassignmentStep::Kind::kBegin);
  EXPECT_THAT(begin->replicas, ElementsAre(BrokerId{3}, BrokerId{1}, BrokerId{2}));
  EXPECT_THAT(begin->adding, ElementsAre(BrokerId{3}));
  EXPECT_THAT(begin->removing, ElementsAre(BrokerId{2}));
  Apply(*begin);

  EXPECT_FALSE(NextReassignmentStep(state, requested).has_value());
  state.isr.push_back({{3}, {30}});
  const auto end = NextReassignmentStep(state, requested);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->kind, ReassignmentStep::Kind::kComplete);
  EXPECT_EQ(end->replicas, requested);
  EXPECT_THAT(end->isr, ElementsAre(IsrMember{{1}, {10}}, IsrMember{{3}, {30}}));
  EXPECT_THAT(end->closed, ElementsAre(BrokerId{2}));
  EXPECT_FALSE(end->leader_leaves);
  Apply(*end);
  EXPECT_FALSE(NextReassignmentStep(state, std::nullopt).has_value());
}

TEST_F(ReassignmentTest, TheLeaderLeavesIfItIsNotAmongThem) {
  Apply(*NextReassignmentStep(state, Brokers{{3}}));
  state.isr.push_back({{3}, {30}});
  EXPECT_TRUE(NextReassignmentStep(state, Brokers{{3}})->leader_leaves);
}

TEST_F(ReassignmentTest, ACancellationBringsTheOldReplicasBack) {
  Apply(*NextReassignmentStep(state, Brokers{{3}, {4}}));
  EXPECT_EQ(OriginalReplicas(state), (Brokers{{1}, {2}}));
  const auto step = NextReassignmentStep(state, std::nullopt);
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(step->kind, ReassignmentStep::Kind::kCancel);
  EXPECT_THAT(step->replicas, ElementsAre(BrokerId{1}, BrokerId{2}));
  EXPECT_THAT(step->closed, ElementsAre(BrokerId{3}, BrokerId{4}));
}

TEST_F(ReassignmentTest, ACancellationWaitsUntilAnOldReplicaIsInSync) {
  Apply(*NextReassignmentStep(state, Brokers{{3}}));
  state.isr = {{{3}, {30}}};
  EXPECT_FALSE(NextReassignmentStep(state, std::nullopt).has_value());
}

TEST_F(ReassignmentTest, AnotherOrderIsOneStep) {
  const auto step = NextReassignmentStep(state, Brokers{{2}, {1}});
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(step->kind, ReassignmentStep::Kind::kComplete);
  EXPECT_THAT(step->replicas, ElementsAre(BrokerId{2}, BrokerId{1}));
  EXPECT_TRUE(step->closed.empty());
}

// ---- Assignment --------------------------------------------------------------------------------

TEST(Assignment, LeadersAndReplicasAreSpreadEvenly) {
  RandomStream random(1, {1}, 1, 1);
  std::vector<LiveBroker> brokers;
  for (int32_t id = 0; id < 5; ++id) brokers.push_back({{id}, ""});

  const auto assignment = AssignReplicas(brokers, 20, 3, 0, {}, &random);

  std::map<BrokerId, int> leaders, replicas;
  for (const Brokers& partition : assignment) {
    ++leaders[partition[0]];
    EXPECT_EQ(std::set<BrokerId>(partition.begin(), partition.end()).size(), 3u);
    for (BrokerId broker : partition) ++replicas[broker];
  }
  for (const LiveBroker& broker : brokers) {
    EXPECT_EQ(leaders[broker.id], 4);
    EXPECT_EQ(replicas[broker.id], 12);
  }
}

TEST(Assignment, ReplicasOfAPartitionAreOnAsManyRacksAsThereAre) {
  std::vector<LiveBroker> brokers;
  std::map<BrokerId, std::string> racks;
  for (int32_t id = 0; id < 7; ++id) {
    brokers.push_back({{id}, std::string(1, static_cast<char>('a' + id % 3))});
    racks[{id}] = brokers.back().rack;
  }
  for (uint64_t seed = 0; seed < 50; ++seed) {
    RandomStream random(seed, {1}, 1, 1);
    for (int32_t factor = 1; factor <= 7; ++factor) {
      for (const Brokers& partition : AssignReplicas(brokers, 9, factor, 0, {}, &random)) {
        std::set<std::string> used;
        for (BrokerId broker : partition) used.insert(racks[broker]);
        EXPECT_EQ(used.size(), static_cast<size_t>(std::min(factor, 3)));
        EXPECT_EQ(std::set<BrokerId>(partition.begin(), partition.end()).size(),
                  static_cast<size_t>(factor));
      }
    }
  }
}

TEST(Assignment, OneBrokerGetsEverything) {
  RandomStream random(1, {1}, 1, 1);
  EXPECT_THAT(AssignReplicas({{{3}, ""}}, 2, 1, 0, {}, &random),
              ElementsAre(Brokers{{3}}, Brokers{{3}}));
}

// ---- Topics ------------------------------------------------------------------------------------

TEST(Topics, NamesAreKafkas) {
  EXPECT_TRUE(ValidTopicName("a.B_c-9"));
  EXPECT_TRUE(ValidTopicName(std::string(249, 'a')));
  for (const std::string& name : {std::string(), std::string("."), std::string(".."),
                                  std::string("a/b"), std::string("ä"), std::string(250, 'a')}) {
    EXPECT_FALSE(ValidTopicName(name)) << name;
  }
}

TEST(Topics, ConfigsAreValidated) {
  EXPECT_EQ(TopicConfigError("retention.ms", "-1"), "");
  EXPECT_EQ(TopicConfigError("cleanup.policy", "delete"), "");
  EXPECT_NE(TopicConfigError("cleanup.policy", "compact"), "");
  EXPECT_NE(TopicConfigError("min.insync.replicas", "0"), "");
  EXPECT_NE(TopicConfigError("segment.bytes", "1k"), "");
  EXPECT_NE(TopicConfigError("unclean.leader.election.enable", "yes"), "");
  EXPECT_EQ(TopicConfigError("unclean.leader.election.enable", "True"), "");
  EXPECT_EQ(
      SwitchOf({{"unclean.leader.election.enable", "True"}}, "unclean.leader.election.enable"),
      true);
  // What has one value here can be set to it.
  for (const FixedTopicConfig& fixed : FixedTopicConfigs()) {
    EXPECT_EQ(TopicConfigError(fixed.name, fixed.value), "");
    EXPECT_THAT(TopicConfigError(fixed.name, "else"), HasSubstr(std::string(fixed.why)));
  }
  EXPECT_THAT(TopicConfigError("min.compaction.lag.ms", "0"), HasSubstr("has no effect here"));
  EXPECT_NE(TopicConfigError("no.such.config", "1"), "");
}

TEST(Topics, OnlyLiveBrokersAreAssignedReplicas) {
  RandomStream random(1, {1}, 1, 1);
  const std::map<BrokerId, BrokerState> live = {{{1}, {.id = {1}, .incarnation = {5}}},
                                                {{2}, {.id = {2}, .incarnation = {6}}}};
  BrokerOptions options;
  auto error = [&](const CreateTopic& request) {
    return PlanCreateTopic(request, live, options, &random).error;
  };
  EXPECT_EQ(error({.topic = "t", .partitions = 1, .replication_factor = 2}), AdminError::kNone);
  EXPECT_EQ(error({.topic = "t", .partitions = 1, .replication_factor = 3}),
            AdminError::kInvalidReplicationFactor);
  EXPECT_EQ(error({.topic = "t", .partitions = 0}), AdminError::kInvalidPartitions);
  EXPECT_EQ(error({.topic = "t", .assignment = {{{1}, {3}}}}), AdminError::kInvalidAssignment);
  EXPECT_EQ(error({.topic = "t", .assignment = {{{1}, {1}}}}), AdminError::kInvalidAssignment);
  EXPECT_EQ(error({.topic = "t", .assignment = {{{1}}, {{1}, {2}}}}),
            AdminError::kInvalidAssignment);
  EXPECT_EQ(error({.topic = "t/u"}), AdminError::kInvalidTopic);
  EXPECT_EQ(error({.topic = "t", .configs = {{"x", "y"}}}), AdminError::kInvalidConfig);
}

TEST(Topics, ALargeTopicExistsOnlyWithItsLastTransition) {
  const std::map<BrokerId, BrokerState> live = {{{1}, {.id = {1}, .incarnation = {5}}}};
  const auto small = CreateTopicTransitions("t", {.id = {1, 1}}, {5}, {{{1}}, {{1}}}, live);
  EXPECT_THAT(small, SizeIs(1));
  EXPECT_EQ(small[0].size(), 8u);

  const auto large = CreateTopicTransitions("t", {.id = {1, 1}}, {5},
                                            std::vector<Brokers>(1000, Brokers{{1}}), live);
  ASSERT_THAT(large, SizeIs(8));
  for (const Transition& transition : large) {
    EXPECT_LE(transition.size(), kTransitionOperationsMax);
  }
  const auto first = large[0].Request();
  const auto& create = std::get<coordination::CreateRequest>(first.operations[0].body);
  EXPECT_TRUE(DecodeTopic(create.data.bytes.view())->creator);
  const auto last = large.back().Request();
  const auto& set = std::get<coordination::SetDataRequest>(last.operations[0].body);
  EXPECT_FALSE(DecodeTopic(set.data.bytes.view())->creator);
}

}  // namespace
}  // namespace lockstep::replication
