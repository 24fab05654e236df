// The broker role's part of the configuration file.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shell/config.h"

namespace lockstep::shell {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

LoadedConfig Load(const std::string& text) {
  LoadedConfig loaded = ParseConfig("dataDir=/data\n" + text, "server.cfg");
  ChooseServer(std::nullopt, &loaded);
  return loaded;
}

std::vector<std::string> Texts(const std::vector<Remark>& remarks) {
  std::vector<std::string> texts;
  for (const Remark& remark : remarks) texts.push_back(remark.ToString());
  return texts;
}

TEST(BrokerConfig, AListenerMakesAServerABroker) {
  EXPECT_FALSE(ServerOptions(Load("clientPort=2181\n").config).broker.has_value());

  const LoadedConfig loaded = Load("clientPort=2181\nlisteners=PLAINTEXT://127.0.0.1:9092\n");
  EXPECT_THAT(Texts(loaded.errors), IsEmpty());
  const server::Options options = ServerOptions(loaded.config);
  ASSERT_TRUE(options.broker.has_value());
  EXPECT_EQ(options.broker->broker.broker.value, 1);  // the server's number
  EXPECT_EQ(options.broker->broker.advertised, (replication::Endpoint{"127.0.0.1", 9092}));
  // Its own coordinator.
  EXPECT_THAT(options.broker->coordination, ElementsAre(replication::Endpoint{"127.0.0.1", 2181}));
  EXPECT_THAT(options.voters, SizeIs(1));
  EXPECT_EQ(loaded.config.partitions_dir, "/data/partitions");
}

TEST(BrokerConfig, ABrokerAloneNamesItsCoordinationService) {
  const LoadedConfig loaded =
      Load("broker.id=7\nlisteners=PLAINTEXT://b7:9092\nzookeeper.connect=z1:2182,z2\n");
  EXPECT_THAT(Texts(loaded.errors), IsEmpty());
  const server::Options options = ServerOptions(loaded.config);
  EXPECT_THAT(options.voters, IsEmpty());
  EXPECT_EQ(options.broker->broker.broker.value, 7);
  EXPECT_THAT(options.broker->coordination,
              ElementsAre(replication::Endpoint{"z1", 2182}, replication::Endpoint{"z2", 2181}));
  EXPECT_EQ(options.broker->broker.coordination.servers, 2u);
}

TEST(BrokerConfig, ABrokerWithoutACoordinationServiceIsAnError) {
  EXPECT_THAT(Texts(Load("listeners=PLAINTEXT://b:9092\n").errors),
              ElementsAre(HasSubstr("zookeeper.connect is not set")));
}

TEST(BrokerConfig, OthersMustBeToldWhereItIs) {
  EXPECT_THAT(Texts(Load("clientPort=2181\nlisteners=PLAINTEXT://:9092\n").errors),
              ElementsAre(HasSubstr("advertised.listeners is not set")));
  const LoadedConfig loaded = Load(
      "clientPort=2181\nlisteners=PLAINTEXT://0.0.0.0:9092\n"
      "advertised.listeners=PLAINTEXT://host.example:19092\n");
  EXPECT_THAT(Texts(loaded.errors), IsEmpty());
  EXPECT_EQ(loaded.config.broker_listener, (Endpoint{"", 9092}));
  EXPECT_EQ(loaded.config.broker.broker.advertised, (replication::Endpoint{"host.example", 19092}));
}

TEST(BrokerConfig, EveryKeyThatSetsSomethingSetsIt) {
  const LoadedConfig loaded = Load(
      "clientPort=2181\n"
      "broker.id=5\n"
      "broker.rack=r1\n"
      "listeners=127.0.0.1:9092\n"
      "log.dirs=/logs\n"
      "zookeeper.session.timeout.ms=4000\n"
      "num.partitions=3\n"
      "default.replication.factor=2\n"
      "min.insync.replicas=2\n"
      "auto.create.topics.enable=false\n"
      "unclean.leader.election.enable=true\n"
      "auto.leader.rebalance.enable=false\n"
      "leader.imbalance.check.interval.seconds=9\n"
      "replica.lag.time.max.ms=1000\n"
      "log.durability=flush\n"
      "log.segment.bytes=2097152\n"
      "log.retention.hours=2\n"
      "log.retention.bytes=1000\n"
      "message.max.bytes=2048\n"
      "offsets.topic.num.partitions=4\n"
      "offsets.topic.replication.factor=1\n"
      "group.initial.rebalance.delay.ms=0\n");
  EXPECT_THAT(Texts(loaded.errors), IsEmpty());
  EXPECT_THAT(Texts(loaded.notices), IsEmpty());
  const replication::BrokerOptions& broker = loaded.config.broker.broker;
  const kafka::FrontEndOptions& front_end = loaded.config.broker.front_end;
  EXPECT_EQ(broker.broker.value, 5);
  EXPECT_EQ(broker.rack, "r1");
  EXPECT_EQ(loaded.config.partitions_dir, "/logs");
  EXPECT_EQ(broker.coordination.session_timeout_ms, 4000);
  EXPECT_EQ(broker.default_partitions, 3u);
  EXPECT_EQ(broker.default_replication_factor, 2u);
  EXPECT_EQ(broker.min_insync_replicas, 2u);
  EXPECT_FALSE(front_end.auto_create_topics);
  EXPECT_TRUE(broker.unclean_leader_election);
  EXPECT_FALSE(broker.auto_leader_rebalance);
  EXPECT_EQ(broker.leader_rebalance_interval, Seconds(9));
  EXPECT_EQ(broker.keep_in_sync_time, Seconds(1));
  EXPECT_EQ(broker.log.durability, storage::Durability::kFlush);
  EXPECT_EQ(broker.log.segment_bytes, 2'097'152u);
  EXPECT_EQ(broker.retention_ms, 7'200'000);
  EXPECT_EQ(broker.retention_bytes, 1000);
  EXPECT_EQ(front_end.message_bytes_max, 2048u);
  EXPECT_EQ(front_end.groups.partitions, 4);
  EXPECT_EQ(front_end.groups.replication_factor, 1);
  EXPECT_EQ(front_end.groups.initial_rebalance_delay_ms, 0);
}

TEST(BrokerConfig, WhatIsNotOfferedIsAnErrorWithItsLine) {
  auto error = [](const std::string& line) {
    const LoadedConfig loaded =
        Load("clientPort=2181\nlisteners=PLAINTEXT://127.0.0.1:9092\n" + line);
    return loaded.errors.empty() ? std::string() : loaded.errors[0].ToString();
  };
  EXPECT_THAT(error("listeners=SSL://127.0.0.1:9093\n"), HasSubstr("server.cfg:4: listeners"));
  EXPECT_THAT(error("listeners=PLAINTEXT://a:1,PLAINTEXT://b:2\n"), HasSubstr("one listener"));
  EXPECT_THAT(error("log.dirs=/a,/b\n"), HasSubstr("one directory"));
  EXPECT_THAT(error("log.cleanup.policy=compact\n"), HasSubstr("not yet"));
  EXPECT_THAT(error("log.durability=maybe\n"), HasSubstr("fsync"));
  EXPECT_THAT(error("zookeeper.connect=z:2181/kafka\n"), HasSubstr("/brokers"));
  EXPECT_THAT(error("min.insync.replica=2\n"), HasSubstr("did you mean min.insync.replicas"));
}

TEST(BrokerConfig, KeysThatMeanSomethingElseHereSayWhat) {
  const LoadedConfig loaded = Load(
      "clientPort=2181\nlisteners=PLAINTEXT://127.0.0.1:9092\nprocess.roles=broker\n"
      "log.flush.interval.messages=1\n");
  EXPECT_THAT(Texts(loaded.errors), IsEmpty());
  EXPECT_THAT(Texts(loaded.notices),
              ElementsAre(HasSubstr("process.roles has no effect"),
                          HasSubstr("log.flush.interval.messages has no effect")));
}

}  // namespace
}  // namespace lockstep::shell
