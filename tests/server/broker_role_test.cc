// One server of both roles on a fake disk, and clients of Kafka's protocol that speak its bytes:
// every kind of request through all floors. What several brokers do together is the simulator's.
#include "core/server/broker_role.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "core/base/frame_cutter.h"
#include "core/kafka/frame.h"
#include "core/kafka/messages.h"
#include "core/records/batch_builder.h"
#include "core/records/record.h"
#include "core/server/server.h"
#include "tests/support/loopback_server.h"

namespace lockstep::server {
namespace {

using kafka::ErrorCode;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class Client {
 public:
  explicit Client(LoopbackServer* host) : host_(*host), id_(host->Accept(LinkKind::kBroker)) {}

  template <typename Request>
  void Send(const Request& request, int16_t version) {
    std::string bytes;
    for (const Bytes& slice : kafka::EncodeRequest(request, version, ++correlation_, "test")) {
      bytes += slice.view();
    }
    SendBytes(bytes);
  }
  void SendBytes(const std::string& bytes) { host_.Step(ReceivedBytes{id_, Bytes::Copy(bytes)}); }
  // The next response, which must be to a request of this version; fails if none comes.
  template <typename Response>
  Response Receive(int16_t version) {
    std::optional<Bytes> frame;
    host_.RunUntil([&] {
      const std::string sent = host_.TakeSent(id_);
      if (!sent.empty()) cutter_.Add(Bytes::Copy(sent));
      if (!frame) {
        auto next = cutter_.Next();
        EXPECT_TRUE(next.ok());
        if (next.ok() && *next) frame = **next;
      }
      return frame.has_value() || host_.closed(id_);
    });
    EXPECT_TRUE(frame.has_value()) << Response::kName;
    if (!frame) return {};
    auto response = kafka::DecodeResponse<Response>(*frame, version);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? *response : Response();
  }
  template <typename Response, typename Request>
  Response Call(const Request& request, int16_t version) {
    Send(request, version);
    return Receive<Response>(version);
  }
  bool closed() const { return host_.closed(id_); }
  ConnectionId id() const { return id_; }

 private:
  LoopbackServer& host_;
  const ConnectionId id_;
  int32_t correlation_ = 0;
  FrameCutter cutter_{64 << 20};
};

class BrokerRoleTest : public ::testing::Test {
 protected:
  BrokerRoleTest() { WaitForBroker(); }
  explicit BrokerRoleTest(uint64_t held_bytes_max) : host_(held_bytes_max) { WaitForBroker(); }

  void WaitForBroker() {
    ASSERT_TRUE(host_.RunUntil([&] {
      const replication::Broker& broker = host_.server().broker()->broker();
      return broker.metadata().complete() && broker.may_lead(host_.now());
    }));
    client_ = std::make_unique<Client>(&host_);
  }

  void CreateTopic(const std::string& name, int32_t partitions = 1) {
    kafka::CreateTopicsRequest request;
    request.topics.push_back({.name = name, .num_partitions = partitions, .replication_factor = 1});
    const auto response = client_->Call<kafka::CreateTopicsResponse>(request, 7);
    ASSERT_THAT(response.topics, SizeIs(1));
    ASSERT_EQ(response.topics[0].error_code, ErrorCode::kNone)
        << response.topics[0].error_message.value_or("");
    ASSERT_TRUE(host_.RunUntil([&] { return Leader(name, partitions - 1) == 1; }));
  }
  int32_t Leader(const std::string& topic, int32_t partition) {
    kafka::MetadataRequest request;
    request.topics.emplace();
    request.topics->push_back({.name = topic});
    request.allow_auto_topic_creation = false;
    const auto response = client_->Call<kafka::MetadataResponse>(request, 9);
    if (response.topics.empty() ||
        response.topics[0].partitions.size() <= static_cast<size_t>(partition)) {
      return -1;
    }
    return response.topics[0].partitions[static_cast<size_t>(partition)].leader_id;
  }

  static kafka::ProduceRequest ProduceOf(const std::string& topic,
                                         const std::vector<std::string>& values, int16_t acks = -1,
                                         const records::BatchBuilder::Producer& producer = {}) {
    records::BatchBuilder builder(producer);
    int64_t time = 1'700'000'000'000;
    for (const std::string& value : values) builder.Add(time++, std::nullopt, value);
    kafka::ProduceRequest request;
    request.acks = acks;
    request.timeout_ms = 5'000;
    request.topic_data.push_back({.name = topic});
    request.topic_data[0].partition_data.push_back(
        {.index = 0, .records = kafka::Records(builder.Build().Join())});
    return request;
  }
  kafka::ProduceResponse::Partition Produce(const std::string& topic,
                                            const std::vector<std::string>& values,
                                            int16_t acks = -1,
                                            const records::BatchBuilder::Producer& producer = {}) {
    const auto response =
        client_->Call<kafka::ProduceResponse>(ProduceOf(topic, values, acks, producer), 9);
    EXPECT_THAT(response.responses, SizeIs(1));
    return response.responses.empty() ? kafka::ProduceResponse::Partition()
                                      : response.responses[0].partition_responses[0];
  }

  static kafka::FetchRequest FetchOf(const std::string& topic, int64_t offset,
                                     int32_t max_wait_ms = 0) {
    kafka::FetchRequest request;
    request.max_wait_ms = max_wait_ms;
    request.min_bytes = 1;
    request.topics.push_back({.topic = topic});
    request.topics[0].partitions.push_back(
        {.partition = 0, .fetch_offset = offset, .partition_max_bytes = 1 << 20});
    return request;
  }
  static std::vector<std::string> ValuesOf(const kafka::FetchResponse& response) {
    std::vector<std::string> values;
    const Bytes all = response.responses.at(0).partitions.at(0).records->Joined();
    records::BatchReader batches(all, {});
    while (auto item = batches.Next()) {
      records::RecordReader records(item->header, item->batch.records.view());
      records::Record record;
      while (records.Next(&record)) values.emplace_back(*record.value);
    }
    return values;
  }
  std::vector<std::string> Fetch(const std::string& topic, int64_t offset) {
    return ValuesOf(client_->Call<kafka::FetchResponse>(FetchOf(topic, offset), 12));
  }

  LoopbackServer host_;
  std::unique_ptr<Client> client_;
};

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

TEST_F(BrokerRoleTest, PartitionsCanBeAdded) {
  CreateTopic("t");
  kafka::CreatePartitionsRequest request;
  request.topics.push_back({.name = "t", .count = 3});
  request.timeout_ms = 5'000;
  const auto response = client_->Call<kafka::CreatePartitionsResponse>(request, 3);
  EXPECT_EQ(response.results.at(0).error_code, ErrorCode::kNone);
  EXPECT_TRUE(host_.RunUntil([&] { return Leader("t", 2) == 1; }));
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
