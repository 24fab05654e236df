// Whole requests between two brokers: what a follower lists, and what a leader remembers of it.
#include <map>

#include "core/replication/fetch_server.h"
#include "core/replication/fetcher.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/replication/solo.h"

namespace lockstep::replication {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr ConnectionId kConnection{1};
constexpr PartitionId kA{.topic = {.high = 1, .low = 2}, .partition = 0};
constexpr PartitionId kB{.topic = {.high = 1, .low = 2}, .partition = 1};

template <typename Message>
std::vector<PartitionId> Listed(const Message& message) {
  std::vector<PartitionId> ids;
  for (const auto& entry : message.entries) ids.push_back(entry.partition);
  return ids;
}

// ---- The leader --------------------------------------------------------------------------------

// Broker 1 leads A and B; broker 2 alone follows.
class FetchServerTest : public testing::Test, public FetchServer::Host {
 protected:
  FetchServerTest() {
    for (const PartitionId& id : {kA, kB}) {
      leaders_.try_emplace(id, Solo::Setup{.replicas = {{1}, {2}}, .isr = Members({1, 2})});
      leaders_.at(id).Lead(1);
      leaders_.at(id).Persist();
    }
  }

  const Partition* Find(const PartitionId& id) const override {
    auto at = leaders_.find(id);
    return at == leaders_.end() ? nullptr : &at->second.partition;
  }
  storage::LogNumber LogOf(const PartitionId& id) const override {
    return {static_cast<uint32_t>(id.partition) + 1};
  }
  Partition::FetchDecision OnFetch(Instant, const ReplicaFetchRequest& request,
                                   const ReplicaFetchRequest::Entry& entry,
                                   BrokerOutput*) override {
    acknowledged_.push_back(entry.partition);
    Solo& leader = leaders_.at(entry.partition);
    const Partition::FetchDecision decision = leader.Fetch(request.follower.value, entry);
    if (leader.out.high_watermark_moved) server_.OnHighWatermark(entry.partition);
    return decision;
  }
  void OnFetchAnswered(Instant, BrokerId, const PartitionId&) override {}

  ReplicaFetchRequest::Entry At(const PartitionId& id, Offset offset) {
    ReplicaFetchRequest::Entry entry = leaders_.at(id).FetchAt(offset);
    entry.partition = id;
    return entry;
  }
  void Request(bool partial, std::vector<ReplicaFetchRequest::Entry> entries,
               uint32_t max_bytes = 1 << 20) {
    acknowledged_.clear();
    server_.OnRequest(now_, kConnection,
                      {.sequence = ++sequence_,
                       .follower = {2},
                       .incarnation = IncarnationOf(2),
                       .max_wait_ms = 500,
                       .max_bytes = max_bytes,
                       .entry_max_bytes = 1 << 20,
                       .partial = partial,
                       .entries = std::move(entries)},
                      &out_);
  }
  void Append(const PartitionId& id) {
    leaders_.at(id).Produce(Acks::kAll);
    leaders_.at(id).Persist();
    server_.OnAppended(id);
  }
  // What is answered now; nothing: the request waits.
  std::optional<ReplicaFetchResponse> Answer() {
    server_.Flush(now_, &out_);
    while (!out_.reads.empty()) {
      const BrokerOutput::ReadLog read = out_.reads.front();
      out_.reads.erase(out_.reads.begin());
      const PartitionId& id = read.log == LogOf(kA) ? kA : kB;
      server_.OnRead(now_,
                     {.id = read.id,
                      .log = read.log,
                      .batches = leaders_.at(id).log.Read(read.offset, read.max_bytes)},
                     &out_);
    }
    if (out_.sends.empty()) return std::nullopt;
    auto response = std::get<ReplicaFetchResponse>(out_.sends.front().message);
    out_.sends.erase(out_.sends.begin());
    return response;
  }

  std::map<PartitionId, Solo> leaders_;
  FetchServer server_{this};
  BrokerOutput out_;
  Instant now_ = Instant{} + Seconds(100);
  uint64_t sequence_ = 0;
  std::vector<PartitionId> acknowledged_;
};

TEST_F(FetchServerTest, WhatStandsIsServedWithoutBeingListedAgain) {
  Request(false, {At(kA, 0), At(kB, 0)});
  EXPECT_EQ(Answer(), std::nullopt);
  Append(kA);
  EXPECT_THAT(Listed(Answer().value()), ElementsAre(kA));

  Request(true, {At(kA, 1)});
  EXPECT_EQ(Answer().value().entries.at(0).high_watermark, 1);
  Request(true, {At(kA, 1)});
  EXPECT_EQ(Answer(), std::nullopt);
  Append(kB);
  const ReplicaFetchResponse response = Answer().value();
  ASSERT_THAT(Listed(response), ElementsAre(kB));
  EXPECT_EQ(response.entries[0].fetch_offset, 0);
  EXPECT_FALSE(response.entries[0].batches.empty());
}

TEST_F(FetchServerTest, OnlyWhatIsListedAcknowledges) {
  Request(false, {At(kA, 0), At(kB, 0)});
  Append(kB);
  Answer();
  Append(kA);
  Request(true, {At(kB, 1)});
  EXPECT_THAT(acknowledged_, ElementsAre(kB));
  EXPECT_THAT(Listed(Answer().value()), UnorderedElementsAre(kA, kB));
}

TEST_F(FetchServerTest, WhatWasAnsweredStandsNoMore) {
  Request(false, {At(kA, 0), At(kB, 0)});
  Append(kA);
  EXPECT_THAT(Listed(Answer().value()), ElementsAre(kA));
  // The follower has not taken that in yet: there is nothing to be said to its former position.
  Append(kA);
  Request(true, {});
  EXPECT_EQ(Answer(), std::nullopt);
  Request(true, {At(kA, 1)});
  EXPECT_THAT(Listed(Answer().value()), IsEmpty());  // the request that waited
  EXPECT_THAT(Listed(Answer().value()), ElementsAre(kA));
}

TEST_F(FetchServerTest, WhatFoundNoRoomComesFirstNextTime) {
  Request(false, {At(kA, 0), At(kB, 0)});
  Append(kA);
  Answer();
  Append(kA);
  Append(kB);
  Request(true, {At(kA, 1)}, /*max_bytes=*/0);
  EXPECT_THAT(Listed(Answer().value()), IsEmpty());
  Request(true, {});
  EXPECT_THAT(Listed(Answer().value()), ElementsAre(kB, kA));
}

TEST_F(FetchServerTest, AWholeRequestForgetsWhatStood) {
  Request(false, {At(kA, 0), At(kB, 0)});
  now_ = now_ + Milliseconds(500);
  EXPECT_THAT(Listed(Answer().value()), IsEmpty());
  Request(false, {At(kB, 0)});
  Append(kA);
  EXPECT_EQ(Answer(), std::nullopt);
}

TEST_F(FetchServerTest, ALeadershipThatIsOverIsToldWhenItWouldHaveNews) {
  Request(false, {At(kA, 0), At(kB, 0)});
  leaders_.at(kA).Resign();
  server_.OnAppended(kA);
  const ReplicaFetchResponse response = Answer().value();
  ASSERT_THAT(Listed(response), ElementsAre(kA));
  EXPECT_EQ(response.entries[0].error, FetchError::kNotLeader);
}

// ---- The follower ------------------------------------------------------------------------------

// Broker 2 follows A and B, which broker 1 leads.
class FetcherTest : public testing::Test {
 protected:
  FetcherTest() {
    for (const PartitionId& id : {kA, kB}) {
      states_[id].entry = ReplicaFetchRequest::Entry{.partition = id, .leader_epoch = {1}};
      fetcher_.Follow(id, BrokerId{1});
    }
    fetcher_.SetIncarnation(IncarnationOf(2));
    fetcher_.SetBroker(now_, {.id = {1}, .incarnation = IncarnationOf(1)}, &out_);
    Next();
    connection_ = out_.dials.at(0).connection;
    fetcher_.OnConnected(now_, connection_);
  }

  std::optional<ReplicaFetchRequest> Next() {
    fetcher_.Flush(now_, &out_);
    if (out_.sends.empty()) return std::nullopt;
    auto request = std::get<ReplicaFetchRequest>(out_.sends.front().message);
    out_.sends.clear();
    return request;
  }
  void Answer(const std::vector<PartitionId>& ids) {
    ReplicaFetchResponse response{.sequence = ++answered_};
    for (const PartitionId& id : ids) response.entries.push_back({.partition = id});
    EXPECT_EQ(fetcher_.OnResponse(now_, connection_, response, &out_), BrokerId{1});
  }

  std::map<PartitionId, FetchState> states_;
  Fetcher fetcher_{{.broker = {2}}, [this](const PartitionId& id) { return states_.at(id); }};
  BrokerOutput out_;
  Instant now_ = Instant{} + Seconds(100);
  ConnectionId connection_;
  uint64_t answered_ = 0;
};

TEST_F(FetcherTest, ListsAllAndThenWhatHasChanged) {
  const ReplicaFetchRequest first = Next().value();
  EXPECT_FALSE(first.partial);
  EXPECT_THAT(Listed(first), ElementsAre(kA, kB));
  Answer({kB});
  const ReplicaFetchRequest second = Next().value();
  EXPECT_TRUE(second.partial);
  EXPECT_THAT(Listed(second), ElementsAre(kB));
}

TEST_F(FetcherTest, OneWaitsAtTheLeaderThoughNothingHasChanged) {
  Next();
  Answer({});
  EXPECT_THAT(Listed(Next().value()), IsEmpty());
  EXPECT_EQ(Next(), std::nullopt);
}

TEST_F(FetcherTest, ListsAllAgainAfterAsLongAsARequestWaits) {
  Next();
  now_ = now_ + Milliseconds(499);
  Answer({});
  EXPECT_TRUE(Next().value().partial);
  now_ = now_ + Milliseconds(1);
  Answer({});
  const ReplicaFetchRequest third = Next().value();
  EXPECT_FALSE(third.partial);
  EXPECT_THAT(Listed(third), ElementsAre(kB, kA));  // rotated
}

TEST_F(FetcherTest, WaitsUntilWhatWasAnsweredIsDurable) {
  Next();
  states_[kA].busy = true;
  Answer({kA, kB});
  EXPECT_EQ(Next(), std::nullopt);
  states_[kA].busy = false;
  fetcher_.Touch(kA);
  EXPECT_THAT(Listed(Next().value()), ElementsAre(kA, kB));
}

TEST_F(FetcherTest, AnErrorIsAskedAboutAgainLaterAndTheRestMeanwhile) {
  Next();
  ReplicaFetchResponse response{.sequence = ++answered_};
  response.entries.push_back({.partition = kA, .error = FetchError::kNotLeader});
  fetcher_.OnResponse(now_, connection_, response, &out_);
  EXPECT_THAT(Listed(Next().value()), IsEmpty());
  EXPECT_EQ(fetcher_.next_deadline(), now_ + Milliseconds(100));
  now_ = now_ + Milliseconds(100);
  EXPECT_THAT(Listed(Next().value()), ElementsAre(kA));  // releases the one that waits
}

TEST_F(FetcherTest, ListsAllOnANewConnection) {
  Next();
  fetcher_.OnClosed(now_, connection_);
  now_ = now_ + Seconds(1);
  out_.dials.clear();
  Next();
  fetcher_.OnConnected(now_, out_.dials.at(0).connection);
  const ReplicaFetchRequest request = Next().value();
  EXPECT_FALSE(request.partial);
  EXPECT_EQ(request.entries.size(), 2u);
}

}  // namespace
}  // namespace lockstep::replication
