// What topics and brokers are configured to, as Kafka's clients read and change it.
#include "core/server/broker_role.h"
#include "tests/server/broker_role_fixture.h"

namespace lockstep::server {
namespace {

using kafka::ErrorCode;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(BrokerRoleTest, ATopicsConfigurationCanBeReadAndChanged) {
  CreateTopic("t");
  auto value_of = [&](const std::string& name) {
    kafka::DescribeConfigsRequest request;
    request.resources.push_back({.resource_type = 2, .resource_name = "t"});
    const auto response = client_->Call<kafka::DescribeConfigsResponse>(request, 4);
    for (const auto& config : response.results.at(0).configs) {
      if (config.name == name) return config.value.value_or("");
    }
    return std::string("none");
  };
  EXPECT_EQ(value_of("cleanup.policy"), "delete");
  kafka::IncrementalAlterConfigsRequest request;
  request.resources.push_back({.resource_type = 2, .resource_name = "t"});
  request.resources[0].configs.push_back(
      {.name = "retention.ms", .config_operation = 0, .value = "60000"});
  const auto response = client_->Call<kafka::IncrementalAlterConfigsResponse>(request, 1);
  EXPECT_EQ(response.responses.at(0).error_code, ErrorCode::kNone);
  EXPECT_TRUE(host_.RunUntil([&] { return value_of("retention.ms") == "60000"; }));
  request.resources[0].configs[0] = {.name = "no.such.key", .config_operation = 0, .value = "1"};
  EXPECT_EQ(
      client_->Call<kafka::IncrementalAlterConfigsResponse>(request, 1).responses.at(0).error_code,
      ErrorCode::kInvalidConfig);
}

TEST_F(BrokerRoleTest, TheLogDirectoryIsDescribed) {
  CreateTopic("a", 2);
  CreateTopic("b");
  ASSERT_EQ(Produce("b", {"value"}).error_code, ErrorCode::kNone);
  const auto all =
      client_->Call<kafka::DescribeLogDirsResponse>(kafka::DescribeLogDirsRequest(), 2);
  ASSERT_THAT(all.results, SizeIs(1));
  EXPECT_EQ(all.results[0].error_code, ErrorCode::kNone);
  ASSERT_THAT(all.results[0].topics, SizeIs(2));
  EXPECT_EQ(all.results[0].topics[0].name, "a");
  EXPECT_THAT(all.results[0].topics[0].partitions, SizeIs(2));
  EXPECT_EQ(all.results[0].topics[0].partitions[0].partition_size, 0);
  EXPECT_GT(all.results[0].topics[1].partitions.at(0).partition_size, 61);
  EXPECT_EQ(all.results[0].topics[1].partitions.at(0).offset_lag, 0);

  kafka::DescribeLogDirsRequest some;
  some.topics.emplace();
  some.topics->push_back({.topic = "a", .partitions = {1, 7}});
  some.topics->push_back({.topic = "never", .partitions = {0}});
  const auto one = client_->Call<kafka::DescribeLogDirsResponse>(some, 1);
  ASSERT_THAT(one.results.at(0).topics, SizeIs(1));
  ASSERT_THAT(one.results[0].topics[0].partitions, SizeIs(1));
  EXPECT_EQ(one.results[0].topics[0].partitions[0].partition_index, 1);
}

// Age takes records of other topics; a group that commits seldom must find its offsets again.
TEST_F(BrokerRoleTest, CommittedOffsetsDoNotGoByAge) {
  kafka::FindCoordinatorRequest find;
  find.key = "g";
  ASSERT_TRUE(host_.RunUntil([&] {
    return client_->Call<kafka::FindCoordinatorResponse>(find, 3).error_code == ErrorCode::kNone;
  }));
  const auto& topics = host_.server().broker()->broker().metadata().topics();
  const std::map<std::string, std::string> expected = {{"retention.bytes", "-1"},
                                                       {"retention.ms", "-1"}};
  EXPECT_EQ(topics.at("__consumer_offsets").configs, expected);
}

TEST_F(BrokerRoleTest, AValueIsShownWithWhereItIsFrom) {
  CreateTopic("t");
  enum : int8_t { kTopic = 1, kFile = 4, kDefault = 5 };
  auto sources = [&](int8_t type, const std::string& resource) {
    kafka::DescribeConfigsRequest request;
    request.resources.push_back({.resource_type = type, .resource_name = resource});
    request.include_synonyms = true;
    std::map<std::string, int8_t> found;
    const auto response = client_->Call<kafka::DescribeConfigsResponse>(request, 4);
    for (const auto& config : response.results.at(0).configs) {
      found[config.name] = config.config_source;
      // The value that counts comes first.
      if (!config.synonyms.empty()) {
        EXPECT_EQ(config.synonyms[0].value, config.value) << config.name;
      }
    }
    return found;
  };
  EXPECT_EQ(sources(2, "t")["min.insync.replicas"], kDefault);
  EXPECT_EQ(sources(2, "t")["segment.ms"], kDefault);
  EXPECT_EQ(sources(2, "t")["segment.bytes"], kFile);
  EXPECT_EQ(sources(2, "t")["retention.ms"], kFile);  // as log.retention.hours
  EXPECT_EQ(sources(4, "1")["log.retention.ms"], kFile);
  EXPECT_EQ(sources(4, "1")["min.insync.replicas"], kDefault);
  // Another broker's is not here to tell.
  EXPECT_THAT(sources(4, "2"), IsEmpty());

  kafka::IncrementalAlterConfigsRequest request;
  request.resources.push_back({.resource_type = 2, .resource_name = "t"});
  request.resources[0].configs.push_back(
      {.name = "min.insync.replicas", .config_operation = 0, .value = "1"});
  client_->Call<kafka::IncrementalAlterConfigsResponse>(request, 1);
  EXPECT_TRUE(host_.RunUntil([&] { return sources(2, "t")["min.insync.replicas"] == kTopic; }));
  request.resources[0].configs[0] = {.name = "min.insync.replicas", .config_operation = 1};
  client_->Call<kafka::IncrementalAlterConfigsResponse>(request, 1);
  EXPECT_TRUE(host_.RunUntil([&] { return sources(2, "t")["min.insync.replicas"] == kDefault; }));
}

TEST_F(BrokerRoleTest, WhatIsShownOfATopicCanBeSetToItself) {
  CreateTopic("t");
  kafka::DescribeConfigsRequest describe;
  describe.resources.push_back({.resource_type = 2, .resource_name = "t"});
  const auto shown = client_->Call<kafka::DescribeConfigsResponse>(describe, 4);
  kafka::IncrementalAlterConfigsRequest request;
  request.resources.push_back({.resource_type = 2, .resource_name = "t"});
  for (const auto& config : shown.results.at(0).configs) {
    request.resources[0].configs.push_back(
        {.name = config.name, .config_operation = 0, .value = config.value});
  }
  EXPECT_GT(request.resources[0].configs.size(), 10u);
  const auto set = client_->Call<kafka::IncrementalAlterConfigsResponse>(request, 1);
  EXPECT_EQ(set.responses.at(0).error_code, ErrorCode::kNone)
      << set.responses.at(0).error_message.value_or("");
  for (auto& config : request.resources[0].configs) {
    config.config_operation = 1;
    config.value.reset();
  }
  const auto removed = client_->Call<kafka::IncrementalAlterConfigsResponse>(request, 1);
  EXPECT_EQ(removed.responses.at(0).error_code, ErrorCode::kNone);
}

TEST_F(BrokerRoleTest, FromABrokerOnlyWhatIsNotThereCanBeTaken) {
  // What kafka-reassign-partitions.sh --verify sends, whether there were throttles or not.
  kafka::IncrementalAlterConfigsRequest request;
  request.resources.push_back({.resource_type = 4, .resource_name = "1"});
  request.resources[0].configs.push_back(
      {.name = "leader.replication.throttled.rate", .config_operation = 1});
  request.resources[0].configs.push_back(
      {.name = "follower.replication.throttled.rate", .config_operation = 1});
  auto error = [&] {
    return client_->Call<kafka::IncrementalAlterConfigsResponse>(request, 1)
        .responses.at(0)
        .error_code;
  };
  EXPECT_EQ(error(), ErrorCode::kNone);
  request.resources[0].configs[0] = {
      .name = "leader.replication.throttled.rate", .config_operation = 0, .value = "1000"};
  EXPECT_EQ(error(), ErrorCode::kInvalidRequest);
}

TEST_F(BrokerRoleTest, ATopicsSegmentLimitTakesEffectAndIsKnownAgainAfterARestart) {
  CreateTopic("t");
  kafka::IncrementalAlterConfigsRequest request;
  request.resources.push_back({.resource_type = 2, .resource_name = "t"});
  request.resources[0].configs.push_back(
      {.name = "segment.bytes", .config_operation = 0, .value = "1500"});
  client_->Call<kafka::IncrementalAlterConfigsResponse>(request, 1);
  const auto segments = [&] {
    host_.Run(Milliseconds(100));
    const std::vector<std::string> names = host_.disk().Names(storage::Directory::kLogs, "t-0");
    return std::count_if(names.begin(), names.end(),
                         [](const std::string& name) { return name.ends_with(".log"); });
  };
  for (int i = 0; i < 3; ++i) Produce("t", {std::string(1'000, 'a')});
  EXPECT_EQ(segments(), 3);
  host_.Crash();
  host_.Start();
  WaitForBroker();
  ASSERT_TRUE(host_.RunUntil([&] { return Leader("t", 0) == 1; }));
  const auto before = segments();
  Produce("t", {std::string(1'000, 'a')});
  EXPECT_EQ(segments(), before + 1);
}

}  // namespace
}  // namespace lockstep::server
