// What one client may ask for, keep and hold up: small requests with large answers, those that take
// long, and those whose answers nobody takes.
#include <zstd.h>

#include "core/server/broker_role.h"
#include "tests/server/broker_role_fixture.h"

namespace lockstep::server {
namespace {

using kafka::ErrorCode;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A few kilobytes that are so much more when they are opened.
Bytes Bomb(size_t bytes) {
  records::BatchBuilder builder;
  builder.Add(1'700'000'000'000, std::nullopt, std::string(bytes, '\0'));
  const records::Batch batch = builder.Build();
  records::BatchHeader header = records::HeaderOf(batch);
  header.attributes = static_cast<uint16_t>(records::Compression::kZstd);
  std::string content(ZSTD_compressBound(batch.records.size()), '\0');
  content.resize(ZSTD_compress(content.data(), content.size(), batch.records.data(),
                               batch.records.size(), /*compressionLevel=*/1));
  return records::SealBatch(header, Bytes::Copy(content)).Join();
}

// As in Kafka. Sixty times the same megabytes, of a request of one kilobyte, filled the memory.
TEST_F(BrokerRoleTest, APartitionIsFetchedOncePerRequest) {
  CreateTopic("t");
  ASSERT_EQ(Produce("t", {"a"}).error_code, ErrorCode::kNone);
  ASSERT_EQ(Produce("t", {"b"}).error_code, ErrorCode::kNone);
  kafka::FetchRequest fetch = FetchOf("t", 0);
  fetch.topics.push_back(FetchOf("t", 0).topics[0]);
  fetch.topics[1].partitions.push_back(FetchOf("t", 1).topics[0].partitions[0]);
  const auto response = client_->Call<kafka::FetchResponse>(fetch, 12);
  ASSERT_THAT(response.responses, SizeIs(1));
  EXPECT_THAT(response.responses[0].partitions, SizeIs(1));
  EXPECT_THAT(ValuesOf(response), ElementsAre("b"));
}

TEST_F(BrokerRoleTest, WhoTakesNoAnswersHasFewMade) {
  CreateTopic("t");
  ASSERT_EQ(Produce("t", {std::string(900'000, 'x')}).error_code, ErrorCode::kNone);
  Client consumer(&host_);
  consumer.Call<kafka::ApiVersionsResponse>(kafka::ApiVersionsRequest(), 0);
  host_.TakeNothing(consumer.id());
  for (int i = 0; i < 60; ++i) consumer.Send(FetchOf("t", 0), 12);
  host_.Run(Seconds(1));
  const uint64_t unsent_bytes_max = kafka::FrontEndOptions().unsent_bytes_max;
  const size_t sent = host_.TakeSent(consumer.id()).size();
  EXPECT_GT(sent, unsent_bytes_max);
  EXPECT_LT(sent, unsent_bytes_max + 1'000'000);
  // It goes on with what it takes of it.
  host_.Step(Written{consumer.id(), sent});
  host_.Run(Seconds(1));
  EXPECT_GT(host_.TakeSent(consumer.id()).size(), unsent_bytes_max);
  EXPECT_FALSE(host_.closed(consumer.id()));
  // And is closed when it has taken nothing for connections.max.idle.ms.
  host_.Run(Seconds(599));
  EXPECT_FALSE(host_.closed(consumer.id()));
  host_.Run(Seconds(65));
  EXPECT_TRUE(host_.closed(consumer.id()));
}

TEST_F(BrokerRoleTest, MuchBehindARequestIsRefused) {
  std::string bytes;
  for (const Bytes& slice : kafka::EncodeRequest(kafka::ApiVersionsRequest(), 0, 1, "test")) {
    bytes += slice.view();
  }
  auto with_behind = [&](size_t size) {
    const size_t length = bytes.size() - 4 + size;
    std::string with = bytes + std::string(size, '\0');
    for (size_t i = 0; i < 4; ++i) with[i] = static_cast<char>(length >> (24 - 8 * i));
    return with;
  };
  Client few(&host_);
  few.SendBytes(with_behind(10));
  EXPECT_NE(host_.TakeSent(few.id()), "");
  Client many(&host_);
  many.SendBytes(with_behind(100'000));
  EXPECT_TRUE(many.closed());
}

class ScarceMemoryTest : public BrokerRoleTest {
 protected:
  static constexpr uint64_t kHeldBytesMax = 2 << 20;
  ScarceMemoryTest() : BrokerRoleTest(kHeldBytesMax) {}
};

// Six of these, of 100 MiB each, had all other clients of a broker wait for five minutes.
TEST_F(ScarceMemoryTest, AFetchThatWaitsKeepsNothingOfItsFrame) {
  CreateTopic("t");
  kafka::FetchRequest fetch = FetchOf("t", 0, /*max_wait_ms=*/300'000);
  for (int i = 0; i < 30; ++i) {
    fetch.forgotten_topics_data.push_back({.topic = std::string(30'000, 'f')});
  }
  std::vector<std::unique_ptr<Client>> consumers;
  for (int i = 0; i < 6; ++i) {
    consumers.push_back(std::make_unique<Client>(&host_));
    consumers.back()->Send(fetch, 12);
    EXPECT_FALSE(host_.closed(consumers.back()->id()));
    EXPECT_FALSE(host_.paused(consumers.back()->id()));
  }
  ASSERT_EQ(Produce("t", {"a"}).error_code, ErrorCode::kNone);
  for (const auto& consumer : consumers) {
    EXPECT_THAT(ValuesOf(consumer->Receive<kafka::FetchResponse>(12)), ElementsAre("a"));
  }
}

TEST_F(ScarceMemoryTest, TheLargestHalfOfARequestIsClosed) {
  const std::string length("\0\x0f\x00\x00", 4);
  std::vector<std::unique_ptr<Client>> clients;
  for (size_t i = 0; i < 20; ++i) {
    clients.push_back(std::make_unique<Client>(&host_));
    clients.back()->SendBytes(length + std::string(i == 3 ? 500'000 : 400'000, '\0'));
  }
  size_t open = 0;
  for (const auto& client : clients) open += client->closed() ? 0 : 1;
  EXPECT_GE(open, 4u);
  EXPECT_LE(open * 400'000, kHeldBytesMax);
  EXPECT_TRUE(clients[3]->closed());
  CreateTopic("t");
  EXPECT_EQ(Produce("t", {std::string(50'000, 'x')}).error_code, ErrorCode::kNone);
}

// Answers that are not taken fill the memory: who has more than its share of it waits, who has less
// does not, and when room is made all go on at once.
TEST_F(ScarceMemoryTest, WhoHoldsMoreThanItsShareWaits) {
  CreateTopic("t");
  ASSERT_EQ(Produce("t", {std::string(900'000, 'x')}).error_code, ErrorCode::kNone);
  std::vector<std::unique_ptr<Client>> consumers;
  for (int i = 0; i < 4; ++i) {
    consumers.push_back(std::make_unique<Client>(&host_));
    consumers.back()->Call<kafka::ApiVersionsResponse>(kafka::ApiVersionsRequest(), 0);
    host_.TakeNothing(consumers.back()->id());
    consumers.back()->Send(FetchOf("t", 0), 12);
    host_.Run(Milliseconds(100));
    consumers.back()->Send(kafka::ApiVersionsRequest(), 0);
  }
  EXPECT_TRUE(host_.paused(consumers[3]->id()));
  EXPECT_EQ(Produce("t", {std::string(50'000, 'x')}).error_code, ErrorCode::kNone);
  EXPECT_FALSE(host_.paused(client_->id()));
  for (int i = 0; i < 3; ++i) host_.Step(server::Closed{consumers[static_cast<size_t>(i)]->id()});
  const Instant before = host_.now();
  EXPECT_TRUE(host_.RunUntil([&] { return !host_.paused(consumers[3]->id()); }));
  EXPECT_LE(host_.now(), before + Milliseconds(20));
}

// A few kilobytes that take a second to open, twenty times: the session would end meanwhile.
TEST_F(BrokerRoleTest, WhatARequestDecompressesToIsBounded) {
  CreateTopic("t");
  const Bytes bomb = Bomb(40 << 20);
  kafka::ProduceRequest request = ProduceOf("t", {"a"});
  auto& partitions = request.topic_data[0].partition_data;
  const kafka::Records plain = *partitions[0].records;
  partitions = {{.index = 0, .records = kafka::Records(bomb)},
                {.index = 0, .records = kafka::Records(bomb)},
                {.index = 0, .records = plain}};
  for (int repeated = 0; repeated < 2; ++repeated) {
    const auto response = client_->Call<kafka::ProduceResponse>(request, 9);
    ASSERT_THAT(response.responses, SizeIs(1));
    std::vector<ErrorCode> errors;
    for (const auto& partition : response.responses[0].partition_responses) {
      errors.push_back(partition.error_code);
    }
    EXPECT_THAT(errors,
                ElementsAre(ErrorCode::kNone, ErrorCode::kMessageTooLarge, ErrorCode::kNone));
  }
}

// Sixty requests of 61 KB on one connection kept everybody else waiting for six seconds.
TEST_F(BrokerRoleTest, WhatIsDecompressedInATurnIsBounded) {
  CreateTopic("t");
  kafka::ProduceRequest request = ProduceOf("t", {"a"});
  request.topic_data[0].partition_data[0].records = kafka::Records(Bomb(65 << 20));
  std::string bytes;
  for (int32_t i = 0; i < 4; ++i) {
    for (const Bytes& slice : kafka::EncodeRequest(request, 9, i, "test")) bytes += slice.view();
  }
  Client other(&host_);
  other.Call<kafka::ApiVersionsResponse>(kafka::ApiVersionsRequest(), 0);
  client_->SendBytes(bytes);
  // One is too much for a turn; that it is refused is answered at once.
  auto answers = [&] {
    FrameCutter cutter(1 << 20);
    cutter.Add(Bytes::Copy(host_.TakeSent(client_->id())));
    int count = 0;
    while (true) {
      const auto frame = cutter.Next();
      if (!frame.ok() || !*frame) return count;
      count++;
    }
  };
  EXPECT_EQ(answers(), 1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(host_.server().next_deadline(), host_.now());
    // What decompresses nothing does not wait for the turn.
    other.Send(kafka::ApiVersionsRequest(), 0);
    EXPECT_NE(host_.TakeSent(other.id()), "");
    EXPECT_EQ(answers(), 0);
    host_.Step(Wake{});
    EXPECT_EQ(answers(), 1);
  }
  EXPECT_EQ(Produce("t", {"b"}).error_code, ErrorCode::kNone);
}

// A request of 500 bytes about forty partitions had them all opened in one go, for ten seconds.
TEST_F(BrokerRoleTest, BatchesThatAreSearchedByTimeAreOpenedInTurns) {
  constexpr int32_t kPartitions = 20;
  CreateTopic("t", kPartitions);
  kafka::ListOffsetsRequest list;
  list.topics.push_back({.name = "t"});
  const Bytes bomb = Bomb(20 << 20);
  for (int32_t p = 0; p < kPartitions; ++p) {
    kafka::ProduceRequest request = ProduceOf("t", {"a"});
    request.topic_data[0].partition_data[0] = {.index = p, .records = kafka::Records(bomb)};
    const auto response = client_->Call<kafka::ProduceResponse>(request, 9);
    ASSERT_EQ(response.responses.at(0).partition_responses.at(0).error_code, ErrorCode::kNone);
    list.topics[0].partitions.push_back({.partition_index = p, .timestamp = 1'699'999'999'999});
  }
  const uint64_t wakes = host_.wakes();
  const Instant before = host_.now();
  // One whose client goes away is not opened for nobody.
  Client gone(&host_);
  gone.Send(list, 6);
  host_.Step(server::Closed{gone.id()});
  const auto response = client_->Call<kafka::ListOffsetsResponse>(list, 6);
  EXPECT_LE(host_.now(), before + Milliseconds(20));
  EXPECT_GE(host_.wakes(), wakes + kPartitions - 1);
  EXPECT_LT(host_.wakes(), wakes + 2 * kPartitions);
  ASSERT_THAT(response.topics.at(0).partitions, SizeIs(kPartitions));
  for (const auto& partition : response.topics[0].partitions) {
    EXPECT_EQ(partition.error_code, ErrorCode::kNone);
    EXPECT_EQ(partition.offset, 0);
  }
}

// An answer may be ten thousand times as large as the name that asks for it.
TEST_F(BrokerRoleTest, WhatIsNamedTwiceIsDescribedOnce) {
  CreateTopic("t");
  kafka::MetadataRequest metadata;
  metadata.topics.emplace();
  const auto none = client_->Call<kafka::MetadataResponse>(metadata, 12);
  EXPECT_THAT(none.topics, IsEmpty());
  metadata.topics->push_back({.name = "t"});
  metadata.topics->push_back({.topic_id = {1, 2}, .name = "t"});
  metadata.topics->push_back({.name = "none"});
  metadata.allow_auto_topic_creation = false;
  EXPECT_THAT(client_->Call<kafka::MetadataResponse>(metadata, 12).topics, SizeIs(2));

  kafka::DescribeConfigsRequest configs;
  configs.resources.push_back({.resource_type = 2, .resource_name = "t"});
  configs.resources.push_back({.resource_type = 4, .resource_name = "1"});
  configs.resources.push_back({.resource_type = 2, .resource_name = "t"});
  configs.resources.push_back({.resource_type = 4, .resource_name = "1"});
  EXPECT_THAT(client_->Call<kafka::DescribeConfigsResponse>(configs, 4).results, SizeIs(2));
}

TEST_F(BrokerRoleTest, WhatIsNamedTwiceIsDoneOnce) {
  CreateTopic("t");
  kafka::ElectLeadersRequest elect;
  elect.timeout_ms = 5'000;
  elect.topic_partitions.emplace();
  elect.topic_partitions->push_back({.topic = "t", .partitions = {0, 0, 7}});
  elect.topic_partitions->push_back({.topic = "t", .partitions = {0}});
  const auto elected = client_->Call<kafka::ElectLeadersResponse>(elect, 2);
  ASSERT_THAT(elected.replica_election_results, SizeIs(1));
  const auto& results = elected.replica_election_results[0].partition_result;
  ASSERT_THAT(results, SizeIs(2));
  EXPECT_EQ(results[0].error_code, ErrorCode::kElectionNotNeeded);
  EXPECT_EQ(results[1].error_code, ErrorCode::kUnknownTopicOrPartition);

  kafka::AlterPartitionReassignmentsRequest alter;
  alter.timeout_ms = 5'000;
  alter.topics.push_back({.name = "t"});
  alter.topics[0].partitions.push_back({.partition_index = 0, .replicas = {{1}}});
  alter.topics[0].partitions.push_back({.partition_index = 0, .replicas = {{1}}});
  alter.topics[0].partitions.push_back({.partition_index = 7, .replicas = {{1}}});
  const auto altered = client_->Call<kafka::AlterPartitionReassignmentsResponse>(alter, 0);
  const auto& partitions = altered.responses.at(0).partitions;
  EXPECT_EQ(partitions.at(0).error_code, ErrorCode::kNone);
  EXPECT_EQ(partitions.at(1).error_code, ErrorCode::kInvalidRequest);
  EXPECT_EQ(partitions.at(2).error_code, ErrorCode::kUnknownTopicOrPartition);

  kafka::DeleteTopicsRequest remove;
  remove.timeout_ms = 5'000;
  remove.topic_names = {"t", "t"};
  const auto removed = client_->Call<kafka::DeleteTopicsResponse>(remove, 5);
  EXPECT_EQ(removed.responses.at(0).error_code, ErrorCode::kNone);
  EXPECT_EQ(removed.responses.at(1).error_code, ErrorCode::kInvalidRequest);
}

TEST_F(BrokerRoleTest, APartitionIsListedOncePerRequest) {
  CreateTopic("t");
  kafka::ListOffsetsRequest request;
  request.topics.push_back({.name = "t"});
  request.topics[0].partitions = {{.partition_index = 0, .timestamp = -1},
                                  {.partition_index = 0, .timestamp = -2}};
  const auto response = client_->Call<kafka::ListOffsetsResponse>(request, 6);
  ASSERT_THAT(response.topics, SizeIs(1));
  for (const auto& partition : response.topics[0].partitions) {
    EXPECT_EQ(partition.error_code, ErrorCode::kInvalidRequest);
  }
}

TEST_F(BrokerRoleTest, PartitionsOfARequestAreBounded) {
  kafka::CreateTopicsRequest create;
  create.validate_only = true;
  create.topics.push_back({.name = "a", .num_partitions = 9'999, .replication_factor = 1});
  create.topics.push_back({.name = "b", .num_partitions = -1, .replication_factor = 1});
  const auto errors = [&] {
    std::vector<ErrorCode> of;
    const auto response = client_->Call<kafka::CreateTopicsResponse>(create, 7);
    for (const auto& topic : response.topics) of.push_back(topic.error_code);
    return of;
  };
  EXPECT_THAT(errors(), ElementsAre(ErrorCode::kNone, ErrorCode::kNone));
  create.topics.push_back({.name = "c", .num_partitions = 1, .replication_factor = 1});
  EXPECT_THAT(errors(), Each(ErrorCode::kPolicyViolation));

  CreateTopic("t");
  kafka::CreatePartitionsRequest add;
  add.validate_only = true;
  add.timeout_ms = 5'000;
  add.topics.push_back({.name = "t", .count = 10'001});
  EXPECT_EQ(client_->Call<kafka::CreatePartitionsResponse>(add, 3).results.at(0).error_code,
            ErrorCode::kNone);
  add.topics[0].count = 10'002;
  EXPECT_EQ(client_->Call<kafka::CreatePartitionsResponse>(add, 3).results.at(0).error_code,
            ErrorCode::kPolicyViolation);
}

}  // namespace
}  // namespace lockstep::server
