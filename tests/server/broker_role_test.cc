// Every kind of request of Kafka's clients, through all floors. What several brokers do together is
// the simulator's.
#include "core/server/broker_role.h"

#include "tests/server/broker_role_fixture.h"

namespace lockstep::server {
namespace {

using kafka::ErrorCode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(BrokerRoleTest, SaysWhatItSpeaksInAnyVersion) {
  for (int16_t version : {0, 1, 2, 3}) {
    const auto response =
        client_->Call<kafka::ApiVersionsResponse>(kafka::ApiVersionsRequest(), version);
    EXPECT_EQ(response.error_code, ErrorCode::kNone);
    EXPECT_GT(response.api_keys.size(), 20u);
  }
}

TEST_F(BrokerRoleTest, AnUnknownVersionOfApiVersionsIsAnsweredInTheOldest) {
  // Length, key 18, version 99, correlation 5, client id null, no tagged fields.
  client_->SendBytes(std::string("\0\0\0\x0b\0\x12\0\x63\0\0\0\x05\xff\xff\0", 15));
  const auto response = client_->Receive<kafka::ApiVersionsResponse>(0);
  EXPECT_EQ(response.error_code, ErrorCode::kUnsupportedVersion);
  EXPECT_FALSE(client_->closed());
}

TEST_F(BrokerRoleTest, GarbageClosesItsOwnConnectionOnly) {
  Client other(&host_);
  other.SendBytes(std::string("\0\0\0\x04zzzz", 8));
  EXPECT_TRUE(other.closed());
  Client endless(&host_);
  endless.SendBytes(std::string("\x7f\xff\xff\xff", 4));
  EXPECT_TRUE(endless.closed());
  EXPECT_EQ(client_->Call<kafka::ApiVersionsResponse>(kafka::ApiVersionsRequest(), 0).error_code,
            ErrorCode::kNone);
}

TEST_F(BrokerRoleTest, AClientOfZooKeepersIsToldFromOneOfKafkas) {
  Client other(&host_);
  other.SendBytes(std::string("\0\0\0\x2c", 4) + std::string(24, '\0') +
                  std::string("\0\0\0\x10", 4) + std::string(16, '\0'));
  EXPECT_TRUE(other.closed());
}

TEST_F(BrokerRoleTest, WhatIsProducedIsConsumed) {
  CreateTopic("t");
  EXPECT_EQ(Produce("t", {"a", "b"}).base_offset, 0);
  EXPECT_EQ(Produce("t", {"c"}).base_offset, 2);
  EXPECT_THAT(Fetch("t", 0), ElementsAre("a", "b", "c"));
  EXPECT_THAT(Fetch("t", 2), ElementsAre("c"));
  EXPECT_THAT(Fetch("t", 3), IsEmpty());
}

TEST_F(BrokerRoleTest, OperatorsAreToldWhatItHolds) {
  CreateTopic("t", 3);
  const BrokerStatus before = host_.server().broker()->Status(host_.now());
  EXPECT_TRUE(before.figures.registered);
  EXPECT_FALSE(before.figures.fenced);
  EXPECT_EQ(before.figures.brokers, 1u);
  EXPECT_THAT(before.figures.logs, SizeIs(3));
  EXPECT_EQ(before.figures.led, 3u);
  EXPECT_EQ(before.figures.under_replicated, 0u);
  EXPECT_EQ(before.figures.offline, 0u);
  EXPECT_EQ(before.clients.connections, 1u);

  ASSERT_EQ(Produce("t", {std::string(1000, 'x')}).error_code, ErrorCode::kNone);

  const BrokerStatus after = host_.server().broker()->Status(host_.now());
  EXPECT_EQ(after.clients.requests, before.clients.requests + 1);
  EXPECT_GT(after.clients.bytes_received, before.clients.bytes_received + 1000);
  EXPECT_GT(after.clients.bytes_sent, before.clients.bytes_sent);
  EXPECT_GT(after.log_bytes, before.log_bytes + 1000);
}

TEST_F(BrokerRoleTest, PartitionsBelowTheMinimumAreCounted) {
  CreateTopic("t", 2);
  kafka::IncrementalAlterConfigsRequest request;
  request.resources.push_back({.resource_type = 2, .resource_name = "t"});
  request.resources[0].configs.push_back({.name = "min.insync.replicas", .value = "2"});
  const auto response = client_->Call<kafka::IncrementalAlterConfigsResponse>(request, 1);
  ASSERT_EQ(response.responses.at(0).error_code, ErrorCode::kNone);
  EXPECT_TRUE(host_.RunUntil(
      [&] { return host_.server().broker()->Status(host_.now()).figures.under_min_isr == 2; }));
}

TEST_F(BrokerRoleTest, WhatWasAcknowledgedSurvivesACrash) {
  CreateTopic("t");
  ASSERT_EQ(Produce("t", {"a", "b"}).error_code, ErrorCode::kNone);
  host_.Crash();
  host_.Start();
  WaitForBroker();
  ASSERT_TRUE(host_.RunUntil([&] { return Leader("t", 0) == 1; }));
  EXPECT_THAT(Fetch("t", 0), ElementsAre("a", "b"));
  EXPECT_EQ(Produce("t", {"c"}).base_offset, 2);
}

TEST_F(BrokerRoleTest, ACleanStopEndsAndTheDataIsThereAgain) {
  CreateTopic("t");
  ASSERT_EQ(Produce("t", {"a", "b"}).error_code, ErrorCode::kNone);
  host_.StopCleanly();
  host_.Start();
  WaitForBroker();
  ASSERT_TRUE(host_.RunUntil([&] { return Leader("t", 0) == 1; }));
  EXPECT_THAT(Fetch("t", 0), ElementsAre("a", "b"));
}

// Its partitions are unknown there, and what is unknown is deleted.
TEST_F(BrokerRoleTest, TheLogsOfAnotherClusterAreRefusedAndStay) {
  CreateTopic("t");
  ASSERT_EQ(Produce("t", {"a", "b"}).error_code, ErrorCode::kNone);
  host_.StopCleanly();
  const std::string own = *host_.disk().Get(storage::Directory::kLogs, "meta.properties");
  const size_t id = own.find("cluster.id=");
  ASSERT_NE(id, std::string::npos) << own;
  std::string other = own;
  other.replace(id, std::string("cluster.id=").size(), "cluster.id=other-");
  host_.disk().Put(storage::Directory::kLogs, "meta.properties", other);
  host_.Start();
  EXPECT_TRUE(host_.RunUntil([&] { return !host_.fatal().empty(); }));
  EXPECT_THAT(host_.fatal(), ::testing::HasSubstr("belongs to the cluster other-"));

  host_.Crash();
  host_.disk().Put(storage::Directory::kLogs, "meta.properties", own);
  host_.Start();
  WaitForBroker();
  ASSERT_TRUE(host_.RunUntil([&] { return Leader("t", 0) == 1; }));
  EXPECT_THAT(Fetch("t", 0), ElementsAre("a", "b"));
}

TEST_F(BrokerRoleTest, AnIdempotentBatchThatIsSentAgainIsStoredOnce) {
  CreateTopic("t");
  const auto id = client_->Call<kafka::InitProducerIdResponse>(kafka::InitProducerIdRequest(), 4);
  ASSERT_EQ(id.error_code, ErrorCode::kNone);
  const records::BatchBuilder::Producer first{id.producer_id, id.producer_epoch, 0, false};
  EXPECT_EQ(Produce("t", {"a", "b"}, -1, first).base_offset, 0);
  EXPECT_EQ(Produce("t", {"a", "b"}, -1, first).base_offset, 0);
  // Also after a restart, since what it knows of producers is in the log.
  host_.Crash();
  host_.Start();
  WaitForBroker();
  ASSERT_TRUE(host_.RunUntil([&] { return Leader("t", 0) == 1; }));
  EXPECT_EQ(Produce("t", {"a", "b"}, -1, first).base_offset, 0);
  const records::BatchBuilder::Producer gap{id.producer_id, id.producer_epoch, 7, false};
  EXPECT_EQ(Produce("t", {"x"}, -1, gap).error_code, ErrorCode::kOutOfOrderSequenceNumber);
  EXPECT_THAT(Fetch("t", 0), ElementsAre("a", "b"));
}

TEST_F(BrokerRoleTest, ProducerIdsAreNeverGivenTwice) {
  std::set<int64_t> ids;
  for (int i = 0; i < 5; ++i) {
    ids.insert(client_->Call<kafka::InitProducerIdResponse>(kafka::InitProducerIdRequest(), 4)
                   .producer_id);
  }
  host_.Crash();
  host_.Start();
  WaitForBroker();
  for (int i = 0; i < 5; ++i) {
    ids.insert(client_->Call<kafka::InitProducerIdResponse>(kafka::InitProducerIdRequest(), 4)
                   .producer_id);
  }
  EXPECT_THAT(ids, SizeIs(10));
}

TEST_F(BrokerRoleTest, AFetchAtTheEndWaitsForWhatIsProduced) {
  CreateTopic("t");
  Client consumer(&host_);
  consumer.Send(FetchOf("t", 0, /*max_wait_ms=*/10'000), 12);
  host_.Run(Seconds(1));
  EXPECT_EQ(host_.TakeSent(consumer.id()), "");
  ASSERT_EQ(Produce("t", {"a"}).error_code, ErrorCode::kNone);
  EXPECT_THAT(ValuesOf(consumer.Receive<kafka::FetchResponse>(12)), ElementsAre("a"));
}

TEST_F(BrokerRoleTest, AFetchThatWaitsEndsEmptyWhenItsTimeIsOver) {
  CreateTopic("t");
  Client consumer(&host_);
  consumer.Send(FetchOf("t", 0, /*max_wait_ms=*/500), 4);
  host_.Run(Milliseconds(499));
  EXPECT_EQ(host_.TakeSent(consumer.id()), "");
  EXPECT_THAT(ValuesOf(consumer.Receive<kafka::FetchResponse>(4)), IsEmpty());
}

// What one read brings ends with the segment, for one: a client that asks for more has it with its
// next requests, and does not wait for what is there.
TEST_F(BrokerRoleTest, AFetchForMoreThanOneReadBringsDoesNotWait) {
  CreateTopic("t");
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(Produce("t", {std::string(500'000, 'x')}).error_code, ErrorCode::kNone);
  }
  kafka::FetchRequest request = FetchOf("t", 0, /*max_wait_ms=*/60'000);
  request.min_bytes = 2'500'000;
  request.topics[0].partitions[0].partition_max_bytes = 10'000'000;
  const Instant before = host_.now();
  EXPECT_THAT(ValuesOf(client_->Call<kafka::FetchResponse>(request, 12)), SizeIs(1));
  EXPECT_LT(host_.now(), before + Seconds(10));
}

TEST_F(BrokerRoleTest, AnAnswerHasWhatTheFirstPartitionsHave) {
  constexpr int32_t kPartitions = 8;
  CreateTopic("t", kPartitions);
  kafka::FetchRequest fetch = FetchOf("t", 0);
  fetch.topics[0].partitions.clear();
  for (int32_t p = 0; p < kPartitions; ++p) {
    kafka::ProduceRequest request = ProduceOf("t", {std::string(900'000, 'x')});
    request.topic_data[0].partition_data[0].index = p;
    const auto response = client_->Call<kafka::ProduceResponse>(request, 9);
    ASSERT_EQ(response.responses[0].partition_responses[0].error_code, ErrorCode::kNone);
    fetch.topics[0].partitions.push_back({.partition = p, .partition_max_bytes = 1'000'000});
  }
  const auto with_records = [&] {
    const auto response = client_->Call<kafka::FetchResponse>(fetch, 12);
    std::vector<int32_t> found;
    for (const auto& partition : response.responses.at(0).partitions) {
      EXPECT_EQ(partition.error_code, ErrorCode::kNone);
      EXPECT_EQ(partition.high_watermark, 1);
      if (partition.records->size() > 0) found.push_back(partition.partition_index);
    }
    return found;
  };
  EXPECT_THAT(with_records(), ElementsAre(0, 1, 2, 3));
  fetch.min_bytes = 7'000'000;
  EXPECT_THAT(with_records(), ElementsAre(0, 1, 2, 3, 4, 5, 6));
  fetch.max_bytes = 1'500'000;
  EXPECT_THAT(with_records(), ElementsAre(0));
  fetch.max_bytes = 1;  // the first batch comes whole
  EXPECT_THAT(with_records(), ElementsAre(0));
}

TEST_F(BrokerRoleTest, OffsetsOutsideTheLogAreRefused) {
  CreateTopic("t");
  const auto response = client_->Call<kafka::FetchResponse>(FetchOf("t", 5), 11);
  EXPECT_EQ(response.responses.at(0).partitions.at(0).error_code, ErrorCode::kOffsetOutOfRange);
  const auto unknown = client_->Call<kafka::FetchResponse>(FetchOf("nothing", 0), 11);
  EXPECT_EQ(unknown.responses.at(0).partitions.at(0).error_code,
            ErrorCode::kUnknownTopicOrPartition);
}

TEST_F(BrokerRoleTest, AnswersLeaveInTheOrderOfTheRequests) {
  CreateTopic("t");
  Client pipelining(&host_);
  pipelining.Send(FetchOf("t", 0, /*max_wait_ms=*/300), 12);
  pipelining.Send(kafka::ApiVersionsRequest(), 0);
  pipelining.Send(ProduceOf("t", {"a"}), 9);
  EXPECT_THAT(ValuesOf(pipelining.Receive<kafka::FetchResponse>(12)), ElementsAre("a"));
  EXPECT_EQ(pipelining.Receive<kafka::ApiVersionsResponse>(0).error_code, ErrorCode::kNone);
  EXPECT_THAT(pipelining.Receive<kafka::ProduceResponse>(9).responses, SizeIs(1));
}

TEST_F(BrokerRoleTest, AProduceWithoutAcknowledgementIsNotAnswered) {
  CreateTopic("t");
  Client silent(&host_);
  silent.Send(ProduceOf("t", {"a"}, /*acks=*/0), 9);
  host_.Run(Seconds(1));
  EXPECT_EQ(host_.TakeSent(silent.id()), "");
  EXPECT_FALSE(silent.closed());
  EXPECT_THAT(Fetch("t", 0), ElementsAre("a"));
  // One that fails closes the connection.
  silent.Send(ProduceOf("nothing", {"a"}, /*acks=*/0), 9);
  EXPECT_TRUE(host_.RunUntil([&] { return silent.closed(); }));
}

TEST_F(BrokerRoleTest, BadProducesAreRefusedWithTheirReason) {
  CreateTopic("t");
  EXPECT_EQ(Produce("t", {"a"}, /*acks=*/2).error_code, ErrorCode::kInvalidRequiredAcks);
  kafka::ProduceRequest damaged = ProduceOf("t", {"a"});
  std::string bytes(damaged.topic_data[0].partition_data[0].records->Joined().view());
  bytes.back() ^= 1;
  damaged.topic_data[0].partition_data[0].records = kafka::Records(Bytes::Copy(bytes));
  const auto response = client_->Call<kafka::ProduceResponse>(damaged, 9);
  EXPECT_EQ(response.responses.at(0).partition_responses.at(0).error_code,
            ErrorCode::kCorruptMessage);
  // Above socket.request.max.bytes.
  Client large(&host_);
  large.Send(ProduceOf("t", {std::string(2 << 20, 'x')}), 9);
  EXPECT_TRUE(large.closed());
}

TEST_F(BrokerRoleTest, OffsetsAreListedByTime) {
  CreateTopic("t");
  ASSERT_EQ(Produce("t", {"a", "b", "c"}).error_code, ErrorCode::kNone);
  auto offset_at = [&](int64_t timestamp) {
    kafka::ListOffsetsRequest request;
    request.topics.push_back({.name = "t"});
    request.topics[0].partitions.push_back({.partition_index = 0, .timestamp = timestamp});
    const auto response = client_->Call<kafka::ListOffsetsResponse>(request, 6);
    EXPECT_EQ(response.topics.at(0).partitions.at(0).error_code, ErrorCode::kNone);
    return response.topics.at(0).partitions.at(0).offset;
  };
  EXPECT_EQ(offset_at(-2), 0);
  EXPECT_EQ(offset_at(-1), 3);
  EXPECT_EQ(offset_at(1'700'000'000'001), 1);
  EXPECT_EQ(offset_at(1'600'000'000'000), 0);
  EXPECT_EQ(offset_at(1'800'000'000'000), -1);
}

TEST_F(BrokerRoleTest, RecordsBelowAnOffsetCanBeDeleted) {
  CreateTopic("t");
  for (const char* value : {"a", "b", "c"})
    ASSERT_EQ(Produce("t", {value}).error_code, ErrorCode::kNone);
  kafka::DeleteRecordsRequest request;
  request.topics.push_back({.name = "t"});
  request.topics[0].partitions.push_back({.partition_index = 0, .offset = 2});
  const auto response = client_->Call<kafka::DeleteRecordsResponse>(request, 2);
  EXPECT_EQ(response.topics.at(0).partitions.at(0).low_watermark, 2);
  const auto below = client_->Call<kafka::FetchResponse>(FetchOf("t", 0), 12);
  EXPECT_EQ(below.responses.at(0).partitions.at(0).error_code, ErrorCode::kOffsetOutOfRange);
  EXPECT_THAT(Fetch("t", 2), ElementsAre("c"));
}

TEST_F(BrokerRoleTest, ATopicThatIsAskedForIsMade) {
  kafka::MetadataRequest request;
  request.topics.emplace();
  request.topics->push_back({.name = "asked"});
  const auto first = client_->Call<kafka::MetadataResponse>(request, 9);
  EXPECT_EQ(first.topics.at(0).error_code, ErrorCode::kLeaderNotAvailable);
  EXPECT_TRUE(host_.RunUntil([&] { return Leader("asked", 0) == 1; }));
}

TEST_F(BrokerRoleTest, AProcessThatWasStoppedDoesNotTellWhoLedBefore) {
  CreateTopic("t");
  host_.Freeze(Seconds(60));
  kafka::MetadataRequest request;
  request.topics.emplace();
  request.topics->push_back({.name = "t"});
  client_->Send(request, 4);
  EXPECT_TRUE(client_->closed());
  WaitForBroker();
  EXPECT_TRUE(host_.RunUntil([&] { return Leader("t", 0) == 1; }));
}

TEST_F(BrokerRoleTest, ATopicIsDeletedAndMadeAgain) {
  CreateTopic("t");
  ASSERT_EQ(Produce("t", {"old"}).error_code, ErrorCode::kNone);
  kafka::DeleteTopicsRequest request;
  request.topics.push_back({.name = "t"});
  request.timeout_ms = 5'000;
  const auto response = client_->Call<kafka::DeleteTopicsResponse>(request, 6);
  ASSERT_EQ(response.responses.at(0).error_code, ErrorCode::kNone);
  ASSERT_TRUE(host_.RunUntil(
      [&] { return !host_.server().broker()->broker().metadata().topics().contains("t"); }));
  CreateTopic("t");
  EXPECT_THAT(Fetch("t", 0), IsEmpty());
}

TEST_F(BrokerRoleTest, OffsetsOfPartitionsThatAreNotThereAreRefused) {
  CreateTopic("t");
  ASSERT_TRUE(host_.RunUntil([&] {
    kafka::FindCoordinatorRequest find;
    find.key = "g";
    return client_->Call<kafka::FindCoordinatorResponse>(find, 3).error_code == ErrorCode::kNone;
  }));
  kafka::OffsetCommitRequest commit;
  commit.group_id = "g";
  commit.generation_id_or_member_epoch = -1;
  commit.topics.push_back({.name = "t", .partitions = {}});
  for (int32_t partition : {0, 99, -1}) {
    commit.topics[0].partitions.push_back(
        {.partition_index = partition, .committed_offset = 5, .committed_metadata = ""});
  }
  commit.topics.push_back({.name = "never", .partitions = commit.topics[0].partitions});
  std::map<std::pair<std::string, int32_t>, ErrorCode> found;
  ASSERT_TRUE(host_.RunUntil([&] {
    const auto response = client_->Call<kafka::OffsetCommitResponse>(commit, 8);
    EXPECT_THAT(response.topics, SizeIs(2));
    for (const auto& topic : response.topics) {
      EXPECT_THAT(topic.partitions, SizeIs(3));
      for (const auto& partition : topic.partitions) {
        found[{topic.name, partition.partition_index}] = partition.error_code;
      }
    }
    return found[{"t", 0}] == ErrorCode::kNone;
  }));
  for (const auto& [partition, error] : found) {
    if (partition == std::pair<std::string, int32_t>{"t", 0}) continue;
    EXPECT_EQ(error, ErrorCode::kUnknownTopicOrPartition) << partition.first << partition.second;
  }
}

// The one error after which both librdkafka and the Java client give up.
TEST_F(BrokerRoleTest, WhoWantsTransactionsIsToldAtOnce) {
  kafka::FindCoordinatorRequest find;
  find.key = "transactional-id";
  find.key_type = 1;
  EXPECT_EQ(client_->Call<kafka::FindCoordinatorResponse>(find, 3).error_code,
            ErrorCode::kTransactionalIdAuthorizationFailed);
}

TEST_F(BrokerRoleTest, PartitionsCanBeAdded) {
  CreateTopic("t");
  kafka::CreatePartitionsRequest request;
  request.topics.push_back({.name = "t", .count = 3});
  request.timeout_ms = 5'000;
  const auto response = client_->Call<kafka::CreatePartitionsResponse>(request, 3);
  EXPECT_EQ(response.results.at(0).error_code, ErrorCode::kNone);
  EXPECT_TRUE(host_.RunUntil([&] { return Leader("t", 2) == 1; }));
}

TEST_F(BrokerRoleTest, AGroupJoinsCommitsAndFindsItsOffsetsAfterACrash) {
  CreateTopic("t");
  auto wait_for_coordinator = [&] {
    return host_.RunUntil([&] {
      kafka::FindCoordinatorRequest request;
      request.key = "g";
      return client_->Call<kafka::FindCoordinatorResponse>(request, 2).node_id == 1;
    });
  };
  ASSERT_TRUE(wait_for_coordinator());
  kafka::JoinGroupRequest join;
  join.group_id = "g";
  join.session_timeout_ms = 10'000;
  join.rebalance_timeout_ms = 10'000;
  join.protocol_type = "consumer";
  join.protocols.push_back({.name = "range", .metadata = Bytes::Copy("m")});
  kafka::JoinGroupResponse joined;
  ASSERT_TRUE(host_.RunUntil([&] {
    joined = client_->Call<kafka::JoinGroupResponse>(join, 3);
    return joined.error_code != ErrorCode::kCoordinatorLoadInProgress;
  }));
  ASSERT_EQ(joined.error_code, ErrorCode::kNone);
  EXPECT_EQ(joined.leader, joined.member_id);
  kafka::SyncGroupRequest sync;
  sync.group_id = "g";
  sync.generation_id = joined.generation_id;
  sync.member_id = joined.member_id;
  sync.assignments.push_back({.member_id = joined.member_id, .assignment = Bytes::Copy("mine")});
  const auto synced = client_->Call<kafka::SyncGroupResponse>(sync, 2);
  ASSERT_EQ(synced.error_code, ErrorCode::kNone);
  EXPECT_EQ(synced.assignment.view(), "mine");
  kafka::OffsetCommitRequest commit;
  commit.group_id = "g";
  commit.generation_id_or_member_epoch = joined.generation_id;
  commit.member_id = joined.member_id;
  commit.topics.push_back({.name = "t"});
  commit.topics[0].partitions.push_back({.partition_index = 0, .committed_offset = 42});
  const auto committed = client_->Call<kafka::OffsetCommitResponse>(commit, 7);
  ASSERT_EQ(committed.topics.at(0).partitions.at(0).error_code, ErrorCode::kNone);

  host_.Crash();
  host_.Start();
  WaitForBroker();
  ASSERT_TRUE(wait_for_coordinator());
  kafka::OffsetFetchRequest fetch;
  fetch.group_id = "g";
  fetch.topics.emplace();
  fetch.topics->push_back({.name = "t", .partition_indexes = {0}});
  int64_t offset = -1;
  EXPECT_TRUE(host_.RunUntil([&] {
    const auto response = client_->Call<kafka::OffsetFetchResponse>(fetch, 7);
    if (response.error_code != ErrorCode::kNone) return false;
    offset = response.topics.at(0).partitions.at(0).committed_offset;
    return true;
  }));
  EXPECT_EQ(offset, 42);
}

TEST_F(BrokerRoleTest, OldSegmentsAndProducerSnapshotsCarryIdempotenceOverRolls) {
  CreateTopic("t");
  const auto id = client_->Call<kafka::InitProducerIdResponse>(kafka::InitProducerIdRequest(), 4);
  std::vector<std::string> all;
  int32_t sequence = 0;
  for (int i = 0; i < 40; ++i) {
    const std::string value(1'000, static_cast<char>('a' + i % 26));
    const records::BatchBuilder::Producer producer{id.producer_id, id.producer_epoch, sequence++,
                                                   false};
    ASSERT_EQ(Produce("t", {value}, -1, producer).error_code, ErrorCode::kNone) << i;
    all.push_back(value);
  }
  host_.StopCleanly();
  host_.Start();
  WaitForBroker();
  ASSERT_TRUE(host_.RunUntil([&] { return Leader("t", 0) == 1; }));
  const records::BatchBuilder::Producer again{id.producer_id, id.producer_epoch, sequence - 1,
                                              false};
  EXPECT_EQ(Produce("t", {all.back()}, -1, again).base_offset, 39);
  std::vector<std::string> read;
  while (read.size() < all.size()) {
    const auto more = Fetch("t", static_cast<int64_t>(read.size()));
    ASSERT_FALSE(more.empty());
    read.insert(read.end(), more.begin(), more.end());
  }
  EXPECT_EQ(read, all);
}

}  // namespace
}  // namespace lockstep::server
