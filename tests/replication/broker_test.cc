#include "core/replication/broker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/replication/registry.h"
#include "tests/replication/cluster.h"

namespace lockstep::replication {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::vector<std::vector<BrokerId>> Assigned(std::initializer_list<int32_t> brokers) {
  std::vector<BrokerId> replicas;
  for (int32_t broker : brokers) replicas.push_back({broker});
  return {replicas};
}

std::vector<BrokerId> Brokers(std::initializer_list<int32_t> brokers) {
  return Assigned(brokers)[0];
}

TEST(Broker, RegistersBeforeItLeadsAnything) {
  Cluster cluster(1);

  EXPECT_TRUE(cluster.broker(1).may_lead(cluster.now()));
  EXPECT_TRUE(cluster.broker(1).metadata().complete());
  EXPECT_EQ(cluster.broker(1).metadata().brokers().at({1}).endpoint.host, "broker1");
  EXPECT_FALSE(cluster.broker(1).metadata().cluster_id().empty());
  EXPECT_EQ(cluster.client.Get("/brokers/ids/1"), R"({"version":1,"host":"broker1","port":9092})");
}

TEST(Broker, ATopicIsCreatedLedByItsPreferredReplicasAndReplicated) {
  Cluster cluster(3);

  ASSERT_EQ(cluster.Admin(2, CreateTopic{.topic = "t", .partitions = 3, .replication_factor = 3}),
            AdminError::kNone);
  ASSERT_TRUE(cluster.RunUntil([&] {
    return cluster.Leader("t", 0) != -1 && cluster.Leader("t", 1) != -1 &&
           cluster.Leader("t", 2) != -1;
  }));

  for (int32_t partition = 0; partition < 3; ++partition) {
    EXPECT_EQ(cluster.Leader("t", partition), cluster.Replicas("t", partition)[0]);
    EXPECT_TRUE(cluster.Commit("t", partition, 5));
    for (int32_t id = 1; id <= 3; ++id) {
      EXPECT_EQ(cluster.Replica(id, "t", partition)->log_end(), 5);
    }
  }
}

TEST(Broker, WhenALeaderDiesAMemberOfTheIsrLeadsWithEverythingThatWasCommitted) {
  Cluster cluster(3);
  cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2, 3})});
  ASSERT_TRUE(cluster.Commit("t", 0, 4));
  ASSERT_EQ(cluster.Leader("t", 0), 1);
  const LeaderEpoch before = cluster.Replica(1, "t", 0)->leader_epoch();

  cluster.Crash(1);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Leader("t", 0) != -1; }));

  EXPECT_EQ(cluster.Leader("t", 0), 2);
  EXPECT_GT(cluster.Replica(2, "t", 0)->leader_epoch(), before);
  EXPECT_EQ(cluster.Replica(2, "t", 0)->log_end(), 4);
  EXPECT_TRUE(cluster.Commit("t", 0, 2));
  EXPECT_THAT(cluster.Isr("t", 0), ElementsAre(2, 3));
}

TEST(Broker, ABrokerThatComesBackCatchesUpAndJoinsTheIsr) {
  Cluster cluster(3);
  cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2, 3})});
  ASSERT_TRUE(cluster.Commit("t", 0, 4));
  cluster.Crash(1);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Leader("t", 0) == 2; }));
  ASSERT_TRUE(cluster.Commit("t", 0, 3));

  cluster.Start(1);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Isr("t", 0).size() == 3; }));

  EXPECT_EQ(cluster.Replica(1, "t", 0)->log_end(), 7);
}

TEST(Broker, ARestartInsideTheSessionTimeoutWaitsForTheOldRegistrationToVanish) {
  Cluster cluster(3);
  cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2, 3})});
  ASSERT_TRUE(cluster.Commit("t", 0, 4));

  cluster.Crash(1);
  cluster.Start(1);
  cluster.Run();
  EXPECT_FALSE(cluster.broker(1).may_lead(cluster.now()));

  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.broker(1).may_lead(cluster.now()); }));
  EXPECT_TRUE(cluster.Commit("t", 0, 1));
}

TEST(Broker, ABrokerWhoseIdAnotherLivingBrokerHasWaits) {
  Cluster cluster(1);
  Cluster* shared = &cluster;
  // A second process with the same id, on a disk of its own.
  coordination::TestClient other(&shared->ensemble);
  cluster.Stop(1);
  ASSERT_TRUE(other.Connect({1}, 40'000));
  other.Create("/brokers/ids/1", coordination::CreateRequest::kEphemeral,
               R"({"version":1,"host":"other","port":1})");

  cluster.Start(1);
  EXPECT_FALSE(
      cluster.RunUntil([&] { return cluster.broker(1).may_lead(cluster.now()); }, Seconds(30)));
}

TEST(Broker, AllThatWasAcknowledgedSurvivesARestartOfEveryBroker) {
  Cluster cluster(3);
  cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2, 3})});
  ASSERT_TRUE(cluster.Commit("t", 0, 4));

  // Twice, so that members of the ISR are incarnations before the last.
  for (int round = 0; round < 2; ++round) {
    for (int32_t id : {1, 2, 3}) cluster.Crash(id);
    cluster.Advance(Seconds(10));
    for (int32_t id : {1, 2, 3}) cluster.Start(id);
    cluster.Run();
    for (int32_t id : {1, 2, 3}) cluster.Crash(id);
    cluster.Advance(Seconds(10));
    for (int32_t id : {1, 2, 3}) cluster.Start(id);
  }

  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Leader("t", 0) != -1; }));
  EXPECT_EQ(cluster.Replica(cluster.Leader("t", 0), "t", 0)->log_end(), 4);
  EXPECT_TRUE(cluster.Commit("t", 0, 1));
}

TEST(Broker, AMemberOfTheIsrThatLostItsDiskIsNotElected) {
  Cluster cluster(2);
  cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2})});
  ASSERT_TRUE(cluster.Commit("t", 0, 4));
  cluster.Crash(1);
  cluster.Crash(2);
  cluster.LoseDisk(2);
  cluster.Advance(Seconds(10));

  cluster.Start(2);
  cluster.Advance(Seconds(20));
  EXPECT_EQ(cluster.Leader("t", 0), -1);

  cluster.Start(1);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Leader("t", 0) != -1; }));
  EXPECT_EQ(cluster.Leader("t", 0), 1);
  EXPECT_EQ(cluster.Replica(1, "t", 0)->log_end(), 4);
  ASSERT_TRUE(cluster.RunUntil([&] {
    return cluster.Isr("t", 0).size() == 2 && cluster.Replica(2, "t", 0)->log_end() == 4;
  }));
}

TEST(Broker, ALeaderWhoseLogIsDamagedGivesItUpAndBeginsAnew) {
  Cluster cluster(3);
  cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2, 3})});
  ASSERT_TRUE(cluster.Commit("t", 0, 4));
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Isr("t", 0).size() == 3; }));
  const storage::LogNumber log = cluster.broker(1).LogOf(cluster.StateAt(1, "t", 0)->id);
  const int32_t isr_version = cluster.StateAt(2, "t", 0)->isr_version;
  const int32_t replicas_version = cluster.StateAt(2, "t", 0)->replicas_version;

  cluster.DamageLog(1, "t", 0);

  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Leader("t", 0) == 2; }));
  EXPECT_EQ(cluster.EventCount(1, EventKind::kReplicaGivenUp), 1u);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Isr("t", 0).size() == 3; }));
  EXPECT_EQ(cluster.StateAt(2, "t", 0)->replicas_version, replicas_version + 2);
  EXPECT_GT(cluster.StateAt(2, "t", 0)->isr_version, isr_version);
  EXPECT_NE(cluster.broker(1).LogOf(cluster.StateAt(1, "t", 0)->id), log);
  EXPECT_EQ(cluster.Replica(1, "t", 0)->log_end(), 4);
  EXPECT_TRUE(cluster.Commit("t", 0, 1));
}

TEST(Broker, AFollowerWhoseLogIsDamagedGivesItUpAndTheLeaderStays) {
  Cluster cluster(2);
  cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2})});
  ASSERT_TRUE(cluster.Commit("t", 0, 4));
  const LeaderEpoch epoch = cluster.Replica(1, "t", 0)->leader_epoch();

  cluster.DamageLog(2, "t", 0);

  ASSERT_TRUE(cluster.RunUntil([&] {
    const Partition* replica = cluster.Replica(2, "t", 0);
    return cluster.EventCount(2, EventKind::kReplicaGivenUp) == 1 && replica != nullptr &&
           replica->log_end() == 4 && cluster.Isr("t", 0).size() == 2;
  }));
  EXPECT_EQ(cluster.Replica(1, "t", 0)->leader_epoch(), epoch);
  EXPECT_TRUE(cluster.Commit("t", 0, 1));
}

// It is all there is: with its hole it is worth more than nothing.
TEST(Broker, TheLastMemberOfTheIsrKeepsADamagedLogUntilAnotherHasCaughtUp) {
  Cluster cluster(2);
  cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2})});
  ASSERT_TRUE(cluster.Commit("t", 0, 4));
  cluster.Crash(2);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Isr("t", 0).size() == 1; }));
  const storage::LogNumber log = cluster.broker(1).LogOf(cluster.StateAt(1, "t", 0)->id);

  cluster.DamageLog(1, "t", 0);
  cluster.Advance(Seconds(60));
  EXPECT_EQ(cluster.Leader("t", 0), 1);
  EXPECT_EQ(cluster.broker(1).LogOf(cluster.StateAt(1, "t", 0)->id), log);
  EXPECT_TRUE(cluster.Commit("t", 0, 1));

  cluster.Start(2);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Leader("t", 0) == 2; }));
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Isr("t", 0).size() == 2; }));
  EXPECT_NE(cluster.broker(1).LogOf(cluster.StateAt(1, "t", 0)->id), log);
  EXPECT_EQ(cluster.Replica(1, "t", 0)->log_end(), 5);
}

// Whether it was carried out is not known when the connection is lost: it is looked at, and done
// again.
TEST(Broker, AnUnknownOutcomeOfGivingUpLosesNothing) {
  for (int lost = 1; lost <= 12; ++lost) {
    Cluster cluster(3);
    cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2, 3})});
    ASSERT_TRUE(cluster.Commit("t", 0, 4));
    int left = lost;
    cluster.on_frame = [&](int32_t id, const Bytes&) { return id != 1 || --left != 0; };
    cluster.DamageLog(1, "t", 0);
    ASSERT_TRUE(cluster.RunUntil([&] {
      const Partition* replica = cluster.Replica(1, "t", 0);
      return cluster.EventCount(1, EventKind::kReplicaGivenUp) > 0 && replica != nullptr &&
             replica->log_end() == 4 && cluster.Isr("t", 0).size() == 3;
    })) << lost;
    EXPECT_TRUE(cluster.Commit("t", 0, 1));
  }
}

TEST(Broker, UncleanElectionLosesDataOnlyWhenItIsAllowed) {
  Cluster cluster(2);
  cluster.Admin(1, CreateTopic{.topic = "t",
                               .assignment = Assigned({1, 2}),
                               .configs = {{"unclean.leader.election.enable", "true"}}});
  ASSERT_TRUE(cluster.Commit("t", 0, 4));
  cluster.Crash(1);
  cluster.Crash(2);
  cluster.LoseDisk(2);
  cluster.Advance(Seconds(10));

  cluster.Start(2);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Leader("t", 0) == 2; }));
  EXPECT_EQ(cluster.EventCount(2, EventKind::kUncleanElection), 1u);
}

TEST(Broker, SaysNowAndThenThatTheCoordinationServiceDoesNotAnswer) {
  Cluster cluster(1);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.broker(1).metadata().complete(); }));
  cluster.CutOff(1, true);
  cluster.Advance(Seconds(4));
  EXPECT_EQ(cluster.EventCount(1, EventKind::kNotServing), 0u);
  cluster.Advance(Seconds(36));
  EXPECT_EQ(cluster.EventCount(1, EventKind::kNotServing), 1u);
  cluster.Advance(Seconds(60));
  EXPECT_EQ(cluster.EventCount(1, EventKind::kNotServing), 2u);
  cluster.CutOff(1, false);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.broker(1).metadata().complete(); }));
  cluster.Advance(Seconds(120));
  EXPECT_EQ(cluster.EventCount(1, EventKind::kNotServing), 2u);
}

TEST(Broker, ALeaderThatIsCutOffStopsAcknowledgingBeforeAnotherIsElected) {
  Cluster cluster(3);
  cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2, 3})});
  ASSERT_TRUE(cluster.Commit("t", 0, 1));

  cluster.CutOff(1, true);
  bool fenced_first = false;
  ASSERT_TRUE(cluster.RunUntil([&] {
    const bool stopped = !cluster.broker(1).may_lead(cluster.now());
    const Partition* second = cluster.Replica(2, "t", 0);
    const bool elected = second->role() == Role::kLeader;
    if (stopped && !elected) fenced_first = true;
    return elected;
  }));

  EXPECT_TRUE(fenced_first);
  EXPECT_EQ(cluster.Replica(1, "t", 0)->role() == Role::kLeader, false);
  const ProduceId id = cluster.Produce(1, "t", 0);
  cluster.Run();
  EXPECT_EQ(cluster.Produced(id), ProduceError::kNotLeader);
  EXPECT_TRUE(cluster.Commit("t", 0, 1));
}

TEST(Broker, APausedLeaderAcknowledgesNothingWhenItComesBack) {
  Cluster cluster(3);
  cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2, 3})});
  ASSERT_TRUE(cluster.Commit("t", 0, 1));

  cluster.Pause(1, true);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Leader("t", 0) == 2; }));
  cluster.Pause(1, false);
  // The first thing that reaches it is a producer.
  const ProduceId id = cluster.Produce(1, "t", 0);

  EXPECT_EQ(cluster.Produced(id), ProduceError::kNotLeader);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.StateAt(2, "t", 0)->isr.size() == 3; }));
}

TEST(Broker, AfterAnExpiredSessionItIsANewIncarnationWithItsData) {
  Cluster cluster(3);
  cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2, 3})});
  ASSERT_TRUE(cluster.Commit("t", 0, 3));
  const BrokerEpoch before = cluster.broker(2).metadata().brokers().at({1}).incarnation;

  cluster.CutOff(1, true);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Leader("t", 0) == 2; }));
  cluster.CutOff(1, false);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.StateAt(2, "t", 0)->isr.size() == 3; }));

  EXPECT_GT(cluster.broker(2).metadata().brokers().at({1}).incarnation, before);
  EXPECT_EQ(cluster.Replica(1, "t", 0)->log_end(), 3);
}

TEST(Broker, ALeaderWhoseLeaseRanOutButWhoseSessionLivedLeadsInANewEpoch) {
  Cluster cluster(1);
  cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1})});
  ASSERT_TRUE(cluster.Commit("t", 0, 1));
  const LeaderEpoch before = cluster.Replica(1, "t", 0)->leader_epoch();
  const BrokerEpoch incarnation = cluster.broker(1).metadata().brokers().at({1}).incarnation;

  cluster.CutOff(1, true);
  ASSERT_TRUE(cluster.RunUntil([&] { return !cluster.broker(1).may_lead(cluster.now()); }));
  cluster.CutOff(1, false);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Leader("t", 0) == 1; }));

  EXPECT_EQ(cluster.broker(1).metadata().brokers().at({1}).incarnation, incarnation);
  EXPECT_GT(cluster.Replica(1, "t", 0)->leader_epoch(), before);
  EXPECT_TRUE(cluster.Commit("t", 0, 1));
}

TEST(Broker, AReassignmentMovesThePartitionAndItsData) {
  Cluster cluster(4);
  cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2})});
  ASSERT_TRUE(cluster.Commit("t", 0, 5));

  ASSERT_EQ(cluster.Admin(4, Reassign{"t", 0, Brokers({3, 4})}), AdminError::kNone);
  ASSERT_TRUE(
      cluster.RunUntil([&] { return cluster.Replicas("t", 0) == std::vector<int32_t>({3, 4}); }));
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Leader("t", 0) == 3; }));

  EXPECT_EQ(cluster.Replica(3, "t", 0)->log_end(), 5);
  EXPECT_TRUE(cluster.Commit("t", 0, 1));
  EXPECT_THAT(cluster.Isr("t", 0), ElementsAre(3, 4));
  EXPECT_THAT(cluster.Logs(1), IsEmpty());
  EXPECT_THAT(cluster.Logs(2), IsEmpty());
  EXPECT_EQ(cluster.client.Exists("/brokers/partitions_reassigned/t/0"),
            coordination::ErrorCode::kNoNode);
}

// The write that takes its leadership away also takes out of the ISR the replica that everything
// waits for. That is not its business any more. Seed 194 of `brokers`.
TEST(Broker, ALeaderThatAReassignmentTakesAwayCommitsNothingMore) {
  Cluster cluster(4);
  cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2})});
  ASSERT_TRUE(cluster.Commit("t", 0, 5));
  cluster.Isolate(2, true);
  const ProduceId waits = cluster.Produce(1, "t", 0);

  ASSERT_EQ(cluster.Admin(4, Reassign{"t", 0, Brokers({3, 4})}), AdminError::kNone);
  ASSERT_TRUE(
      cluster.RunUntil([&] { return cluster.Replicas("t", 0) == std::vector<int32_t>({3, 4}); }));

  EXPECT_EQ(cluster.Produced(waits), ProduceError::kNotLeader);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Leader("t", 0) == 3; }));
  EXPECT_EQ(cluster.Replica(3, "t", 0)->log_end(), 6);
}

// Seed 1332 of `brokers-network`: what the change was refused for was nothing that the state shows.
TEST(Broker, AnIsrChangeThatWasRefusedIsTriedAgainThoughTheStateIsWhatItWas) {
  Cluster cluster(3, [](BrokerOptions* options) {
    options->keep_in_sync_time = Seconds(1);
    options->coordination.session_timeout_ms = 20'000;
  });
  cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2})});
  ASSERT_TRUE(cluster.Commit("t", 0));
  const std::string id = TopicIdPath("t", cluster.StateAt(1, "t", 0)->id.topic);
  cluster.Isolate(2, true);
  cluster.Produce(1, "t", 0);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Isr("t", 0) == std::vector<int32_t>{1}; }));

  ASSERT_EQ(cluster.client.Delete(id), coordination::ErrorCode::kOk);
  cluster.Isolate(2, false);
  ASSERT_TRUE(
      cluster.RunUntil([&] { return cluster.EventCount(1, EventKind::kIsrChangeFailed) > 0; }));
  cluster.client.Create(id);

  EXPECT_TRUE(cluster.RunUntil([&] { return cluster.Isr("t", 0) == std::vector<int32_t>{1, 2}; }));
}

TEST(Broker, AReassignmentToADeadBrokerCanBeCancelled) {
  Cluster cluster(3);
  cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2})});
  ASSERT_TRUE(cluster.Commit("t", 0, 5));
  cluster.Isolate(3, true);
  ASSERT_EQ(cluster.Admin(1, Reassign{"t", 0, Brokers({2, 3})}), AdminError::kNone);
  cluster.Advance(Seconds(3));
  EXPECT_THAT(cluster.Replicas("t", 0), ElementsAre(2, 3, 1));
  EXPECT_EQ(cluster.Admin(2, Reassign{"t", 0, Brokers({1, 3})}),
            AdminError::kReassignmentInProgress);

  ASSERT_EQ(cluster.Admin(2, Reassign{"t", 0, std::nullopt}), AdminError::kNone);
  cluster.Advance(Seconds(1));

  EXPECT_THAT(cluster.Replicas("t", 0), UnorderedElementsAre(1, 2));
  EXPECT_THAT(cluster.Logs(3), IsEmpty());
  EXPECT_EQ(cluster.Admin(2, Reassign{"t", 0, std::nullopt}), AdminError::kNoReassignment);
  EXPECT_TRUE(cluster.Commit("t", 0, 1));
}

TEST(Broker, ThePreferredReplicaGetsItsLeadershipBack) {
  Cluster cluster(3,
                  [](BrokerOptions* options) { options->leader_rebalance_interval = Seconds(20); });
  cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2, 3})});
  ASSERT_TRUE(cluster.Commit("t", 0, 1));
  cluster.Crash(1);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Leader("t", 0) == 2; }));
  EXPECT_EQ(cluster.Admin(2, ElectPreferred{"t", 0}), AdminError::kPreferredNotAvailable);
  cluster.Start(1);

  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Leader("t", 0) == 1; }));
  EXPECT_TRUE(cluster.Commit("t", 0, 1));
  EXPECT_EQ(cluster.Admin(3, ElectPreferred{"t", 0}), AdminError::kElectionNotNeeded);
}

TEST(Broker, AnOperatorCanGiveThePreferredReplicaItsLeadershipFromAnyBroker) {
  Cluster cluster(3, [](BrokerOptions* options) { options->auto_leader_rebalance = false; });
  cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2, 3})});
  ASSERT_TRUE(cluster.Commit("t", 0, 1));
  cluster.Crash(1);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Leader("t", 0) == 2; }));
  cluster.Start(1);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Isr("t", 0).size() == 3; }));

  EXPECT_EQ(cluster.Admin(3, ElectPreferred{"t", 0}), AdminError::kNone);
  EXPECT_EQ(cluster.Leader("t", 0), 1);
}

TEST(Broker, WhenTheConnectionBreaksUnderEveryAnswerNothingIsDoneTwiceOrLost) {
  for (size_t lost = 1; lost < 120; ++lost) {
    SCOPED_TRACE(lost);
    Cluster cluster(2);
    size_t frames = 0;
    cluster.on_frame = [&](int32_t id, const Bytes&) { return id != 1 || ++frames != lost; };
    const AdminId created =
        cluster.AdminLater(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2})});
    ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AdminResult(created).has_value(); }));
    ASSERT_EQ(cluster.AdminResult(created), AdminError::kNone);
    ASSERT_TRUE(cluster.Commit("t", 0, 2));
    ASSERT_EQ(cluster.Admin(1, CreatePartitions{.topic = "t", .total = 2}), AdminError::kNone);
    ASSERT_TRUE(cluster.Commit("t", 1, 2));
    ASSERT_EQ(cluster.Admin(1, Reassign{"t", 0, Brokers({2})}), AdminError::kNone);
    ASSERT_TRUE(
        cluster.RunUntil([&] { return cluster.Replicas("t", 0) == std::vector<int32_t>({2}); }));
    ASSERT_TRUE(cluster.Commit("t", 0, 2));
    EXPECT_EQ(cluster.Replica(2, "t", 0)->log_end(), 4);
    ASSERT_EQ(cluster.Admin(1, DeleteTopic{"t"}), AdminError::kNone);
    if (frames < lost) break;
  }
}

// Seed 1731 of `brokers-network`: the request of a former topic, whose end the broker did not see,
// was part of every removal of the one of its name.
TEST(Broker, AReassignmentThatEndedWhileItWasNotLookingIsForgotten) {
  Cluster cluster(1);
  cluster.client.Create("/brokers/partitions_reassigned/t");
  cluster.client.Create("/brokers/partitions_reassigned/t/0", 0, R"({"version":1,"replicas":[1]})");
  cluster.Advance(Milliseconds(100));
  cluster.CutOff(1, true);
  cluster.client.Delete("/brokers/partitions_reassigned/t/0");
  cluster.client.Delete("/brokers/partitions_reassigned/t");
  cluster.CutOff(1, false);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.broker(1).metadata().complete(); }));
  ASSERT_EQ(cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1})}),
            AdminError::kNone);

  EXPECT_EQ(cluster.Admin(1, DeleteTopic{"t"}), AdminError::kNone);
  cluster.Advance(Seconds(2));
  EXPECT_EQ(cluster.client.Exists("/brokers/topics/t"), coordination::ErrorCode::kNoNode);
}

TEST(Broker, ALeaderMayDieAtEveryStepOfAReassignment) {
  for (size_t last = 1; last < 60; ++last) {
    SCOPED_TRACE(last);
    Cluster cluster(4);
    cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2})});
    ASSERT_TRUE(cluster.Commit("t", 0, 5));
    size_t frames = 0;
    // The answer that it would act on next never comes.
    cluster.on_frame = [&](int32_t id, const Bytes&) { return id != 1 || ++frames < last; };
    ASSERT_EQ(cluster.Admin(4, Reassign{"t", 0, Brokers({3, 4})}), AdminError::kNone);
    cluster.RunUntil([&] { return frames >= last; }, Seconds(2));
    const bool died = frames >= last;
    if (died) cluster.Crash(1);

    ASSERT_TRUE(cluster.RunUntil([&] {
      return cluster.StateAt(4, "t", 0)->replicas == Brokers({3, 4}) &&
             cluster.StateAt(4, "t", 0)->adding.empty();
    }));
    ASSERT_TRUE(cluster.Commit("t", 0, 1));
    EXPECT_EQ(cluster.Replica(cluster.Leader("t", 0), "t", 0)->log_end(), 6);
    if (!died) break;
  }
}

TEST(Broker, AFullQueueIsShrunkToTheNewestCloseOfEachPartition) {
  Cluster cluster(3, [](BrokerOptions* options) { options->state_change_queue_max = 5; });
  cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2, 3})});
  ASSERT_TRUE(cluster.Commit("t", 0, 1));
  cluster.Crash(3);
  for (int i = 0; i < 5; ++i) {
    cluster.client.Create("/brokers/state/3/request-", coordination::CreateRequest::kSequential,
                          R"({"requests":[]})");
  }

  ASSERT_EQ(cluster.Admin(1, DeleteTopic{"t"}), AdminError::kNone);
  cluster.Advance(Seconds(1));

  auto children = cluster.client.Call(coordination::OpCode::kGetChildren,
                                      coordination::GetChildrenRequest{"/brokers/state/3"});
  EXPECT_EQ(std::get<coordination::GetChildrenResponse>(children.body).children.size(), 1u);
  EXPECT_EQ(cluster.EventCount(1, EventKind::kStateChangeQueueFull), 0u);
  cluster.Start(3);
  cluster.Advance(Seconds(15));
  EXPECT_THAT(cluster.Logs(3), IsEmpty());
  children = cluster.client.Call(coordination::OpCode::kGetChildren,
                                 coordination::GetChildrenRequest{"/brokers/state/3"});
  EXPECT_THAT(std::get<coordination::GetChildrenResponse>(children.body).children, IsEmpty());
}

// Found by the simulator: nobody looked at the deadline, which was due again and again.
TEST(Broker, ARequestThatComesWithoutASessionIsAnsweredAtItsDeadline) {
  Cluster cluster(1);
  cluster.Crash(1);
  cluster.CutOff(1, true);
  cluster.Start(1);
  const AdminId id =
      cluster.AdminLater(1, CreateTopic{.topic = "t", .assignment = Assigned({1})}, Seconds(3));
  cluster.Advance(Seconds(2));
  EXPECT_EQ(cluster.AdminResult(id), std::nullopt);
  cluster.Advance(Seconds(2));
  EXPECT_EQ(cluster.AdminResult(id), AdminError::kNotAvailable);
  EXPECT_GT(cluster.broker(1).next_deadline(), cluster.now());
}

TEST(Broker, ABrokerWhoseRegistrationWasTakenAwayRegistersAgain) {
  Cluster cluster(1);
  ASSERT_EQ(cluster.Admin(1, CreateTopic{.topic = "t", .partitions = 1}), AdminError::kNone);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Leader("t", 0) == 1; }));
  ASSERT_TRUE(cluster.Commit("t", 0, 3));
  const LeaderEpoch epoch = cluster.StateAt(1, "t", 0)->leader_epoch;
  EXPECT_EQ(cluster.client.Delete(BrokerPath({1})), coordination::ErrorCode::kOk);
  ASSERT_TRUE(cluster.RunUntil([&] {
    const PartitionState* state = cluster.StateAt(1, "t", 0);
    return state != nullptr && state->leader_epoch > epoch && cluster.Leader("t", 0) == 1;
  }));
  EXPECT_TRUE(cluster.Commit("t", 0));
  EXPECT_EQ(cluster.Replica(1, "t", 0)->log_end(), 4);
}

// Seeds 3949 and 6902 of `brokers`: the incarnation that the first ISR of a topic named died before
// it was on its broker's disk, so that no other could take its place.
TEST(Broker, GetsNoReplicasBeforeItsIncarnationIsOnItsDisk) {
  Cluster cluster(2);
  cluster.Crash(2);
  cluster.LoseDisk(2);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.broker(1).metadata().brokers().size() == 1; }));
  cluster.HoldDisk(2, true);
  cluster.Start(2);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.broker(1).metadata().brokers().size() == 2; }));
  cluster.Advance(Milliseconds(100));
  EXPECT_EQ(cluster.client.Get("/brokers/ids/2"),
            R"({"version":1,"host":"broker2","port":9092,"fenced":true})");
  EXPECT_EQ(cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2})}),
            AdminError::kInvalidAssignment);
  EXPECT_EQ(cluster.Admin(1, CreateTopic{.topic = "t", .partitions = 1, .replication_factor = 2}),
            AdminError::kInvalidReplicationFactor);

  cluster.HoldDisk(2, false);
  ASSERT_TRUE(
      cluster.RunUntil([&] { return !cluster.broker(1).metadata().brokers().at({2}).fenced; }));
  EXPECT_EQ(cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2})}),
            AdminError::kNone);
}

TEST(Broker, ADeadMemberThatAnElectionKeptGoesWhenAnotherHasJoined) {
  Cluster cluster(3);
  cluster.Admin(1, CreateTopic{.topic = "t",
                               .assignment = Assigned({3, 1, 2}),
                               .configs = {{"min.insync.replicas", "2"}}});
  ASSERT_TRUE(cluster.Commit("t", 0, 3));
  cluster.Crash(2);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Isr("t", 0) == std::vector<int32_t>{1, 3}; }));
  cluster.Crash(3);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Leader("t", 0) == 1; }));
  EXPECT_EQ(cluster.Isr("t", 0), (std::vector<int32_t>{1, 3}));
  cluster.Start(2);
  EXPECT_TRUE(cluster.RunUntil([&] { return cluster.Isr("t", 0) == std::vector<int32_t>{1, 2}; },
                               Seconds(2)));  // less than KeepInSyncTime
}

TEST(Broker, ProducerIdsAreNeverGivenTwice) {
  Cluster cluster(2);
  std::set<int64_t> seen;
  for (int i = 0; i < 3000; ++i) {
    for (int32_t id : {1, 2}) {
      std::optional<int64_t> taken;
      ASSERT_TRUE(cluster.RunUntil([&] {
        taken = cluster.TakeProducerId(id);
        return taken.has_value();
      }));
      EXPECT_TRUE(seen.insert(*taken).second);
    }
  }
}

TEST(Broker, ACleanStopHandsItsLeadershipsOverAtOnce) {
  Cluster cluster(3);
  cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2, 3})});
  ASSERT_TRUE(cluster.Commit("t", 0, 1));

  cluster.Stop(1);

  EXPECT_EQ(cluster.Leader("t", 0), 2);
  EXPECT_TRUE(cluster.Commit("t", 0, 1));
}

}  // namespace
}  // namespace lockstep::replication
