#include "core/replication/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/replication/json.h"
#include "core/replication/state_change_queue.h"

namespace lockstep::replication {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = Node::Kind;

TEST(Json, WhatWasWrittenIsRead) {
  const std::string text =
      R"({"a":[1,-2,[]],"b":{"c":"quote \" slash \\ tab \u0009"},"d":true,"e":null})";
  absl::StatusOr<Json> json = Json::Parse(text);

  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->ToString(), text);
  EXPECT_EQ(*json->Find("b")->Find("c")->string(), "quote \" slash \\ tab \t");
}

TEST(Json, RefusesWhatNoRecordHas) {
  for (const char* text :
       {"", "{", "[1,]", "{\"a\":1,\"a\":2}", "1.5", "1e3", "01", "9223372036854775808", "\"\x01\"",
        "\"\\ud800\"", "tru", "{} x", "[[[[[[[[[1]]]]]]]]]", "'a'", "-"}) {
    EXPECT_FALSE(Json::Parse(text).ok()) << text;
  }
}

TEST(Registry, PathsAreTheSeeds) {
  EXPECT_EQ(BrokerPath({3}), "/brokers/ids/3");
  EXPECT_EQ(LeaderPath("t", 7), "/brokers/topics/t/7/leader");
  EXPECT_EQ(ReassignedPath("t", 7), "/brokers/partitions_reassigned/t/7");
  EXPECT_EQ(StatePath({3}), "/brokers/state/3");
}

TEST(Registry, EveryPathIsParsed) {
  auto kind = [](const std::string& path) { return ParseNode(path).kind; };
  EXPECT_EQ(kind("/brokers/ids"), Kind::kBrokerIds);
  EXPECT_EQ(kind(BrokerPath({3})), Kind::kBroker);
  EXPECT_EQ(kind("/brokers/topics"), Kind::kTopics);
  EXPECT_EQ(kind(TopicPath("t")), Kind::kTopic);
  EXPECT_EQ(kind(PartitionPath("t", 0)), Kind::kPartition);
  EXPECT_EQ(kind(ReplicasPath("t", 0)), Kind::kReplicas);
  EXPECT_EQ(kind(IsrPath("t", 0)), Kind::kIsr);
  EXPECT_EQ(kind(LeaderPath("t", 0)), Kind::kLeader);
  EXPECT_EQ(kind(ReassignedTopicPath("t")), Kind::kReassignedTopic);
  EXPECT_EQ(kind(ReassignedPath("t", 0)), Kind::kReassigned);
  EXPECT_EQ(kind(StatePath({3})), Kind::kQueue);
  EXPECT_EQ(kind(StatePath({3}) + "/request-0000000001"), Kind::kStateChange);
  EXPECT_EQ(ParseNode(IsrPath("t-1", 12)).topic, "t-1");
  EXPECT_EQ(ParseNode(IsrPath("t-1", 12)).partition, 12);
}

TEST(Registry, ForeignPathsAreOther) {
  for (const char* path :
       {"", "/", "/brokers", "/brokers/ids/x", "/brokers/ids/01", "/brokers/ids/-1",
        "/brokers/topics/t/0/other", "/zookeeper/config", "/brokers/topics/t/0/isr/x",
        "/brokers/ids/99999999999", "brokers/ids"}) {
    EXPECT_EQ(ParseNode(path).kind, Kind::kOther) << path;
  }
}

TEST(Registry, RecordsAreReadAsTheyWereWritten) {
  BrokerRecord broker{"host", 9092, "rack"};
  EXPECT_EQ(*DecodeBroker(Encode(broker)), broker);
  broker.fenced = true;
  EXPECT_EQ(*DecodeBroker(Encode(broker)), broker);
  const TopicRecord topic{{1, 2}, {{"retention.ms", "5"}}, true, {77}};
  EXPECT_EQ(*DecodeTopic(Encode(topic)), topic);
  const ReplicasRecord replicas{{{1}, {2}, {3}}, {{3}}, {{1}}};
  EXPECT_EQ(*DecodeReplicas(Encode(replicas)), replicas);
  const IsrRecord isr{{4}, {{{1}, {10}}, {{2}, {20}}}};
  EXPECT_EQ(*DecodeIsr(Encode(isr)), isr);
  const LeaderRecord leader{{1}, {4}};
  EXPECT_EQ(*DecodeLeader(Encode(leader)), leader);
  const ReassignedRecord reassigned{{{4}, {5}}};
  EXPECT_EQ(*DecodeReassigned(Encode(reassigned)), reassigned);
  const LineageRecord lineage{{{1}, {5}, {9}}};
  EXPECT_EQ(*DecodeLineage(Encode(lineage)), lineage);
}

TEST(Registry, AnIsrIsNeverEmptyAndHasNobodyTwice) {
  EXPECT_FALSE(DecodeIsr(R"({"leader_epoch":1,"isr":[]})").ok());
  EXPECT_FALSE(DecodeIsr(R"({"leader_epoch":1,"isr":[{"broker":1,"incarnation":1},
                            {"broker":1,"incarnation":2}]})")
                   .ok());
  EXPECT_FALSE(DecodeIsr(R"({"leader_epoch":-2,"isr":[{"broker":1,"incarnation":1}]})").ok());
}

TEST(Registry, RecordsOfOthersAreRefused) {
  EXPECT_FALSE(DecodeBroker(R"({"host":"a","port":70000})").ok());
  EXPECT_FALSE(DecodeTopic(R"({"topic_id":"AAAAAAAAAAAAAAAAAAAAAA"})").ok());
  EXPECT_FALSE(DecodeReplicas(R"({"replicas":[1,1]})").ok());
  EXPECT_FALSE(DecodeReplicas(R"({"replicas":[]})").ok());
  EXPECT_FALSE(DecodeLeader(R"({"broker":-1,"leader_epoch":0})").ok());
  EXPECT_FALSE(DecodeLineage(R"({"incarnations":[5,5]})").ok());
}

TEST(Registry, AMultiIsRefusedBecauseOfItsFirstRealError) {
  using coordination::ErrorCode;
  using coordination::ErrorResponse;
  coordination::MultiResponse response;
  response.results.push_back({.body = ErrorResponse{ErrorCode::kOk}});
  response.results.push_back({.body = ErrorResponse{ErrorCode::kBadVersion}});
  response.results.push_back({.body = ErrorResponse{ErrorCode::kRuntimeInconsistency}});

  EXPECT_EQ(ErrorOf(response), ErrorCode::kBadVersion);
  EXPECT_EQ(ErrorOf({{{.body = coordination::EmptyResponse()}}}), ErrorCode::kOk);
}

StateChange Change(StateChange::Kind kind, int32_t partition, int32_t epoch) {
  return {.kind = kind, .topic = "t", .partition = {{1, 1}, partition}, .epoch = {epoch}};
}

TEST(StateChangeQueue, RequestsAreReadAsTheyWereWritten) {
  const std::vector<StateChange> changes = {Change(StateChange::Kind::kStartReplica, 0, 3),
                                            Change(StateChange::Kind::kCloseReplica, 1, -1)};
  EXPECT_EQ(*DecodeStateChanges(EncodeStateChanges(changes)), changes);
  EXPECT_FALSE(DecodeStateChanges("").ok());
  EXPECT_FALSE(DecodeStateChanges(R"({"requests":[{"type":"open-replica"}]})").ok());
}

TEST(StateChangeQueue, AShrinkKeepsTheNewestCloseOfEachPartitionAndNoStart) {
  using enum StateChange::Kind;
  const std::vector<StateChange> kept = ShrinkStateChanges(
      {Change(kCloseReplica, 0, 1), Change(kStartReplica, 1, 9), Change(kCloseReplica, 2, 5),
       Change(kCloseReplica, 0, 4), Change(kCloseReplica, 2, 3), Change(kStartReplica, 0, 7)});

  EXPECT_THAT(kept, ElementsAre(Change(kCloseReplica, 2, 5), Change(kCloseReplica, 0, 4)));
  EXPECT_THAT(ShrinkStateChanges({}), IsEmpty());
}

}  // namespace
}  // namespace lockstep::replication
