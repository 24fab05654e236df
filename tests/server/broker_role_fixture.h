// One server of both roles on a fake disk, and clients of Kafka's protocol that speak its bytes.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
    ASSERT_THAT(response.topics, ::testing::SizeIs(1));
    ASSERT_EQ(response.topics[0].error_code, kafka::ErrorCode::kNone)
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
    EXPECT_THAT(response.responses, ::testing::SizeIs(1));
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

}  // namespace lockstep::server
