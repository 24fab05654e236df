// Topics and their znodes: made, deleted, made again, half made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/replication/broker.h"
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

TEST(Broker, ADeletedTopicIsGoneEverywhereAndOneOfItsNameIsAnother) {
  Cluster cluster(3);
  cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2, 3})});
  ASSERT_TRUE(cluster.Commit("t", 0, 3));

  ASSERT_EQ(cluster.Admin(3, DeleteTopic{"t"}), AdminError::kNone);
  cluster.Run();
  for (int32_t id : {1, 2, 3}) EXPECT_THAT(cluster.Logs(id), IsEmpty());
  EXPECT_EQ(cluster.client.Exists("/brokers/topics/t"), coordination::ErrorCode::kNoNode);

  ASSERT_EQ(cluster.Admin(2, CreateTopic{.topic = "t", .assignment = Assigned({2, 3})}),
            AdminError::kNone);
  EXPECT_TRUE(cluster.Commit("t", 0, 1));
  EXPECT_EQ(cluster.Replica(2, "t", 0)->log_end(), 1);
}

// Seed 730 of `brokers-network`: a znode that is made again begins with version 0 again.
TEST(Broker, ALateWriteOfADeletedTopicDoesNotTouchTheOneOfItsName) {
  for (bool guarded : {true, false}) {
    Cluster cluster(3, [&](BrokerOptions* options) {
      options->keep_in_sync_time = Seconds(1);
      options->coordination.session_timeout_ms = 20'000;
      options->rules.compare_topic_ids = guarded;
    });
    cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({3, 1, 2})});
    ASSERT_TRUE(cluster.Commit("t", 0));
    ASSERT_EQ(cluster.Leader("t", 0), 3);
    cluster.HoldRequests(3, true);
    cluster.Isolate(2, true);
    cluster.Produce(3, "t", 0);
    ASSERT_TRUE(cluster.RunUntil([&] { return cluster.EventCount(3, EventKind::kIsrShrink) > 0; }));

    ASSERT_EQ(cluster.Admin(1, DeleteTopic{"t"}), AdminError::kNone);
    ASSERT_EQ(cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2, 3})}),
              AdminError::kNone);
    ASSERT_EQ(cluster.Leader("t", 0), 1);
    cluster.HoldRequests(3, false);
    cluster.Run();

    EXPECT_EQ(cluster.Isr("t", 0).size(), guarded ? 3u : 2u);
  }
}

TEST(Broker, ADeadBrokerDoesNotHoldUpADeletionAndCleansUpWhenItComesBack) {
  Cluster cluster(3);
  cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2, 3})});
  ASSERT_TRUE(cluster.Commit("t", 0, 3));
  cluster.Crash(3);

  ASSERT_EQ(cluster.Admin(1, DeleteTopic{"t"}), AdminError::kNone);
  ASSERT_EQ(cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2})}),
            AdminError::kNone);
  ASSERT_TRUE(cluster.Commit("t", 0, 1));
  EXPECT_THAT(cluster.Logs(3), ElementsAre("t-0"));

  cluster.Start(3);
  cluster.Advance(Seconds(15));
  EXPECT_THAT(cluster.Logs(3), IsEmpty());
}

TEST(Broker, ATopicOfManyPartitionsIsVisibleOnlyWhenItIsWhole) {
  Cluster cluster(2);
  // As clients see it, after each word of the coordination service.
  size_t partly = 0;
  cluster.on_frame = [&](int32_t, const Bytes&) {
    for (int32_t id = 1; id <= 2; ++id) {
      const Metadata& metadata = cluster.broker(id).metadata();
      auto at = metadata.topics().find("big");
      if (at == metadata.topics().end() || at->second.partitions.size() == 400) continue;
      ++partly;
      EXPECT_FALSE(metadata.whole("big")) << at->second.partitions.size();
    }
    return true;
  };

  ASSERT_EQ(
      cluster.Admin(1, CreateTopic{.topic = "big", .partitions = 400, .replication_factor = 1}),
      AdminError::kNone);

  EXPECT_EQ(cluster.broker(1).metadata().topics().at("big").partitions.size(), 400u);
  EXPECT_TRUE(cluster.broker(1).metadata().whole("big"));
  EXPECT_GT(partly, 0u);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Leader("big", 399) != -1; }));
  ASSERT_EQ(cluster.Admin(2, DeleteTopic{"big"}), AdminError::kNone);
  EXPECT_THAT(cluster.Logs(1), IsEmpty());
}

// All that there is of it may have been read before the next transition comes.
TEST(Broker, ATopicThatIsBeingCreatedIsNotWhole) {
  Cluster cluster(1);
  const BrokerEpoch self = cluster.broker(1).metadata().brokers().at({1}).incarnation;
  TopicRecord record{.id = {1, 2}, .creator = self};
  const auto add = [&](int32_t partition) {
    cluster.client.Create(PartitionPath("t", partition));
    cluster.client.Create(ReplicasPath("t", partition), 0, Encode(ReplicasRecord{{{1}}, {}, {}}));
    cluster.client.Create(IsrPath("t", partition), 0, Encode(IsrRecord{{-1}, {{{1}, self}}}));
  };
  cluster.client.Create(TopicPath("t"), 0, Encode(record));
  cluster.client.Create(TopicIdPath("t", record.id));
  add(0);
  cluster.Advance(Milliseconds(100));
  EXPECT_FALSE(cluster.broker(1).metadata().whole("t"));

  add(1);
  record.creator = {};
  cluster.client.Set(TopicPath("t"), Encode(record));
  cluster.Advance(Milliseconds(100));
  EXPECT_TRUE(cluster.broker(1).metadata().whole("t"));
  EXPECT_EQ(cluster.broker(1).metadata().topics().at("t").partitions.size(), 2u);
}

// Somebody's slip in a ZooKeeper client.
TEST(Broker, AZnodeThatCannotBeReadCostsNoLog) {
  Cluster cluster(1);
  ASSERT_EQ(cluster.Admin(1, CreateTopic{.topic = "t", .partitions = 1}), AdminError::kNone);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Leader("t", 0) == 1; }));
  ASSERT_TRUE(cluster.Commit("t", 0, 3));
  const std::string isr = IsrPath("t", 0);
  size_t told = 0;
  for (const std::string& path : {TopicPath("t"), ReplicasPath("t", 0), isr}) {
    coordination::TestClient careless(&cluster.ensemble);
    ASSERT_TRUE(careless.Connect({1}));
    const std::string good = careless.Get(path);
    careless.Set(path, "x");
    cluster.Advance(Seconds(5));
    EXPECT_EQ(cluster.Logs(1), std::set<std::string>{"t-0"}) << path;
    EXPECT_GT(cluster.EventCount(1, EventKind::kZnodeUnreadable), told) << path;
    told = cluster.EventCount(1, EventKind::kZnodeUnreadable);
    cluster.Crash(1);
    cluster.Start(1);
    cluster.Advance(Seconds(60));
    EXPECT_EQ(cluster.Logs(1), std::set<std::string>{"t-0"}) << path;
    coordination::TestClient careful(&cluster.ensemble);
    ASSERT_TRUE(careful.Connect({1}));
    careful.Set(path, good);
    // The broker is another incarnation by now, and alone.
    ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Leader("t", 0) == 1; })) << path;
    EXPECT_TRUE(cluster.Commit("t", 0)) << path;
  }
  coordination::TestClient careless(&cluster.ensemble);
  ASSERT_TRUE(careless.Connect({1}));
  careless.Delete(isr);
  cluster.Advance(Seconds(5));
  EXPECT_EQ(cluster.Logs(1), std::set<std::string>{"t-0"});
}

TEST(Broker, HalfOfACreationWhoseCreatorIsGoneIsRemoved) {
  Cluster cluster(1);
  cluster.client.Create("/brokers/topics/half", 0,
                        R"({"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ","creator":1})");
  cluster.client.Create("/brokers/topics/half/id-AAAAAAAAAAAAAAAAAAAAAQ");
  cluster.client.Create("/brokers/topics/half/0");
  cluster.Advance(Seconds(1));

  EXPECT_EQ(cluster.client.Exists("/brokers/topics/half"), coordination::ErrorCode::kNoNode);
  EXPECT_EQ(cluster.Admin(1, CreateTopic{.topic = "half", .partitions = 1}), AdminError::kNone);
}

// Seed 1723 of `brokers-crashes`: what is to be done may be known before the broker may do it.
TEST(Broker, ABrokerWhoseDiskIsSlowAtItsStartRemovesWhatIsLeftOver) {
  Cluster cluster(1);
  cluster.Crash(1);
  cluster.client.Create("/brokers/topics/half", 0,
                        R"({"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ","creator":1})");
  cluster.client.Create("/brokers/topics/half/id-AAAAAAAAAAAAAAAAAAAAAQ");
  cluster.Start(1);
  cluster.HoldDisk(1, true);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.broker(1).metadata().complete(); }));
  cluster.Advance(Seconds(1));
  ASSERT_EQ(cluster.client.Exists("/brokers/topics/half"), coordination::ErrorCode::kOk);
  cluster.HoldDisk(1, false);
  cluster.Advance(Seconds(1));

  EXPECT_EQ(cluster.client.Exists("/brokers/topics/half"), coordination::ErrorCode::kNoNode);
}

TEST(Broker, ConfigsAreValidatedAndTakeEffect) {
  Cluster cluster(2);
  cluster.Admin(1, CreateTopic{.topic = "t", .assignment = Assigned({1, 2})});
  ASSERT_TRUE(cluster.Commit("t", 0, 1));

  EXPECT_EQ(cluster.Admin(1, SetTopicConfigs{"t", {{"min.insync.replicas", "none"}}}),
            AdminError::kInvalidConfig);
  EXPECT_EQ(cluster.Admin(1, SetTopicConfigs{"t", {{"min.insync.replicas", "2"}}}),
            AdminError::kNone);
  cluster.Crash(2);
  cluster.Produce(1, "t", 0);  // which it misses
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Isr("t", 0).size() == 1; }));
  const ProduceId id = cluster.Produce(1, "t", 0);
  EXPECT_EQ(cluster.Produced(id), ProduceError::kNotEnoughReplicas);
}

}  // namespace
}  // namespace lockstep::replication
