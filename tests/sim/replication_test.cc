// Each check of partition replication sees what it is there for: it is fed the history that should
// not be.
#include "sim/checkers/replication.h"

#include <gtest/gtest.h>

#include "core/records/batch_builder.h"
#include "core/records/record_batch.h"
#include "sim/failure.h"

namespace lockstep::sim {
namespace {

using replication::BrokerEpoch;
using replication::IsrMember;
using replication::LeaderEpoch;
using replication::PartitionId;
using replication::Role;

const PartitionId kId{{1, 2}, 0};
const std::string kTopic = "t";

std::string InvariantOf(const auto& run) {
  try {
    run();
  } catch (const Failure& failure) {
    return failure.invariant;
  }
  return "";
}

// Three servers with one partition, and the ensemble that they use.
class ReplicationTest : public testing::Test {
 protected:
  ReplicationTest() {
    plan_.on = true;
    plan_.topics.push_back({.name = kTopic, .replication_factor = 3, .min_insync = 2});
    checker_.emplace(plan_, 3, &probes_);
    checker_->AddProducer(0, /*idempotent=*/true, /*ordered=*/true);
    Create(replication::TopicPath(kTopic),
           Encode(replication::TopicRecord{.id = kId.topic,
                                           .configs = {{"min.insync.replicas", "2"}}}));
    for (uint32_t s = 0; s < 3; ++s) {
      Create(replication::BrokerPath(BrokerOf(s)),
             Encode(replication::BrokerRecord{HostOf(s), 9092, ""}));
      incarnations_[s] = {static_cast<int64_t>(zxid_.Packed())};
      checker_->OnLogs(s, {server::LogCreated{Id(s), {1}, kTopic, kId}});
    }
    SetIsr(0, {0, 1, 2});
  }

  storage::LogWriteId Id(uint32_t server) { return {++ids_[server]}; }
  void Commit(coordination::TransactionBody body) {
    zxid_ = {{1}, zxid_.counter + 1};
    CommittedEntry entry;
    entry.zxid = zxid_;
    entry.transaction.body = std::move(body);
    checker_->OnCommitted(entry);
  }
  void Create(const std::string& path, const std::string& data) {
    Commit(coordination::CreateTransaction{.path = path, .data = Bytes::Copy(data)});
  }
  void SetIsr(int32_t epoch, const std::vector<uint32_t>& servers) {
    replication::IsrRecord record{{epoch}, {}};
    for (uint32_t s : servers) record.isr.push_back({BrokerOf(s), incarnations_[s]});
    Commit(coordination::SetDataTransaction{.path = replication::IsrPath(kTopic, 0),
                                            .data = Bytes::Copy(Encode(record))});
    isr_ = record.isr;
  }
  // A batch of one record, at `offset` of `server`'s log.
  void Append(uint32_t server, int64_t offset, int32_t epoch, RecordId record,
              bool durable = true) {
    records::BatchBuilder builder;
    builder.Add(1, std::nullopt, ValueOf(record, 3));
    const records::Batch batch = records::AssignOffsets(
        builder.Build(), {.base_offset = offset, .leader_epoch = epoch, .max_timestamp = 1});
    const storage::LogWriteId id = Id(server);
    checker_->OnLogs(server, {server::LogChanged{
                                 id, {1}, storage::LogAppend{batch.Slices(), offset, offset + 1}}});
    if (durable) checker_->OnLogs(server, {server::LogPersisted{id}});
  }
  void AppendToAll(int64_t offset, int32_t epoch, RecordId record) {
    checker_->OnSent(record, kTopic, 0);
    for (uint32_t s = 0; s < 3; ++s) Append(s, offset, epoch, record);
  }
  void Leads(uint32_t server, int32_t epoch, int64_t end, int64_t high_watermark) {
    checker_->OnView(server, 1, kId, {Role::kLeader, epoch, 0, end, high_watermark},
                     Replication::LeaderIsr{isr_.size(), isr_});
  }
  void Follows(uint32_t server, int32_t epoch, int64_t end, int64_t high_watermark) {
    checker_->OnView(server, 1, kId, {Role::kFollower, epoch, 0, end, high_watermark}, {});
  }

  BrokerPlan plan_;
  Probes probes_;
  std::optional<Replication> checker_;
  std::map<uint32_t, BrokerEpoch> incarnations_;
  std::map<uint32_t, uint64_t> ids_;
  std::vector<IsrMember> isr_;
  Zxid zxid_;
};

RecordId R(uint64_t number) { return RecordId::Of(0, number); }

TEST_F(ReplicationTest, AProperHistoryIsAccepted) {
  Leads(0, 0, 0, 0);
  AppendToAll(0, 0, R(1));
  Leads(0, 0, 1, 1);
  Follows(1, 0, 1, 1);
  checker_->OnAcknowledged("p", kTopic, 0, 0, {R(1)});
  checker_->OnConsumed("c", kTopic, 0, 0, R(1));
  checker_->OnOutOfRange("c", kTopic, 0, 2);
  SetIsr(1, {1, 2});
  Leads(1, 1, 1, 1);
  EXPECT_EQ(checker_->CommittedEnd(kTopic, 0), 1);
}

TEST_F(ReplicationTest, ALogMayBeDamagedWhileAnotherMemberOfTheIsrHasAllOfIt) {
  const auto everybody = [](uint32_t) { return true; };
  bool all = false;
  Leads(0, 0, 0, 0);
  AppendToAll(0, 0, R(1));
  Leads(0, 0, 1, 1);
  ASSERT_EQ(checker_->SharedLogs(0, everybody, &all).size(), 1u);
  EXPECT_TRUE(all);
  checker_->OnSent(R(2), kTopic, 0);
  Append(0, 1, 0, R(2));
  EXPECT_TRUE(checker_->SharedLogs(0, everybody, &all).empty());
  EXPECT_FALSE(all);
  Append(1, 1, 0, R(2));
  const auto shared = checker_->SharedLogs(0, everybody, &all);
  ASSERT_EQ(shared.size(), 1u);
  EXPECT_EQ(shared[0].directory, "t-0");
  EXPECT_EQ(shared[0].end, 2);
  const auto not_one = [](uint32_t s) { return s != 1; };
  EXPECT_TRUE(checker_->SharedLogs(0, not_one, &all).empty());
  SetIsr(0, {0, 2});
  EXPECT_TRUE(checker_->SharedLogs(0, everybody, &all).empty());
  EXPECT_FALSE(checker_->IsAlone(0, shared[0]));
  SetIsr(0, {0});
  EXPECT_TRUE(checker_->IsAlone(0, shared[0]));
  EXPECT_FALSE(checker_->IsAlone(1, shared[0]));

  using State = Replication::MarkState;
  EXPECT_EQ(checker_->StateOf(0, shared[0], everybody), State::kHeld);
  EXPECT_EQ(checker_->StateOf(0, shared[0], not_one), State::kAlone);
  checker_->OnDiskReplaced(0);
  EXPECT_EQ(checker_->StateOf(0, shared[0], everybody), State::kGone);
}

TEST_F(ReplicationTest, AMemberOfTheIsrThatHasNotTheRecordIsSeen) {
  Leads(0, 0, 0, 0);
  checker_->OnSent(R(1), kTopic, 0);
  Append(0, 0, 0, R(1));
  Append(1, 0, 0, R(1));
  EXPECT_EQ(InvariantOf([&] { Leads(0, 0, 1, 1); }), "strong-isr");
}

TEST_F(ReplicationTest, ALeaderOutsideTheIsrIsSeen) {
  Create(replication::LeaderPath(kTopic, 0), Encode(replication::LeaderRecord{BrokerOf(0), {0}}));
  Create(replication::ReplicasPath(kTopic, 0),
         Encode(replication::ReplicasRecord{.replicas = {BrokerOf(0), BrokerOf(1), BrokerOf(2)}}));
  SetIsr(0, {0, 2});
  EXPECT_EQ(InvariantOf([&] { SetIsr(0, {1, 2}); }), "leader-in-isr");
}

TEST_F(ReplicationTest, AnIsrOfAnotherEpochThanTheLeadersIsSeen) {
  Create(replication::ReplicasPath(kTopic, 0),
         Encode(replication::ReplicasRecord{.replicas = {BrokerOf(0), BrokerOf(1), BrokerOf(2)}}));
  Create(replication::LeaderPath(kTopic, 0), Encode(replication::LeaderRecord{BrokerOf(0), {0}}));
  EXPECT_EQ(InvariantOf([&] { SetIsr(1, {0, 1, 2}); }), "leader-in-isr");
}

TEST_F(ReplicationTest, AnIsrBeyondTheAssignmentIsSeen) {
  EXPECT_EQ(InvariantOf([&] {
              Create(replication::ReplicasPath(kTopic, 0),
                     Encode(replication::ReplicasRecord{.replicas = {BrokerOf(0), BrokerOf(1)}}));
            }),
            "isr-is-assigned");
}

TEST_F(ReplicationTest, AMemberThatHasItInMemoryOnlyIsSeen) {
  Leads(0, 0, 0, 0);
  checker_->OnSent(R(1), kTopic, 0);
  Append(0, 0, 0, R(1));
  Append(1, 0, 0, R(1));
  Append(2, 0, 0, R(1), /*durable=*/false);
  EXPECT_EQ(InvariantOf([&] { Leads(0, 0, 1, 1); }), "strong-isr");
}

TEST_F(ReplicationTest, ALeaderThatCountsWhatIsNotOnItsDiskIsSeen) {
  Leads(0, 0, 0, 0);
  checker_->OnSent(R(1), kTopic, 0);
  Append(0, 0, 0, R(1), /*durable=*/false);
  Append(1, 0, 0, R(1));
  Append(2, 0, 0, R(1));
  EXPECT_EQ(InvariantOf([&] { Leads(0, 0, 1, 1); }), "leader-counts-durable-only");
}

TEST_F(ReplicationTest, AReplicaThatJoinsTheIsrWithoutWhatIsCommittedIsSeen) {
  SetIsr(0, {0, 1});
  Leads(0, 0, 0, 0);
  checker_->OnSent(R(1), kTopic, 0);
  Append(0, 0, 0, R(1));
  Append(1, 0, 0, R(1));
  Leads(0, 0, 1, 1);
  EXPECT_EQ(InvariantOf([&] { SetIsr(0, {0, 1, 2}); }), "strong-isr");
}

TEST_F(ReplicationTest, AMemberThatTruncatesWhatIsCommittedIsSeen) {
  Leads(0, 0, 0, 0);
  AppendToAll(0, 0, R(1));
  Leads(0, 0, 1, 1);
  EXPECT_EQ(InvariantOf([&] {
              checker_->OnLogs(2, {server::LogChanged{Id(2), {1}, storage::LogTruncate{0}}});
            }),
            "strong-isr");
}

TEST_F(ReplicationTest, AMemberWhoseLogIsDeletedIsSeen) {
  Leads(0, 0, 0, 0);
  AppendToAll(0, 0, R(1));
  Leads(0, 0, 1, 1);
  EXPECT_EQ(InvariantOf([&] { checker_->OnLogs(2, {server::LogDeleted{Id(2), {1}}}); }),
            "strong-isr");
}

// Seed 3468 of `brokers`: a follower whose end is below the leader's log start begins anew there.
TEST_F(ReplicationTest, WhatWasRemovedNobodyHasToHold) {
  Leads(0, 0, 0, 0);
  AppendToAll(0, 0, R(1));
  Leads(0, 0, 1, 1);
  checker_->OnLogs(0, {server::LogChanged{Id(0), {1}, storage::LogStart{1}}});
  checker_->OnLogs(2, {server::LogChanged{Id(2), {1}, storage::LogTruncate{0}}});
  checker_->OnLogs(2, {server::LogChanged{Id(2), {1}, storage::LogStart{1}}});
  EXPECT_EQ(checker_->CommittedEnd(kTopic, 0), 1);
}

// Seed 89 of `brokers`.
TEST_F(ReplicationTest, OfATopicThatIsBeingRemovedAnyLogMayBeGone) {
  Leads(0, 0, 0, 0);
  AppendToAll(0, 0, R(1));
  Leads(0, 0, 1, 1);
  Commit(coordination::SetDataTransaction{
      .path = replication::TopicPath(kTopic),
      .data = Bytes::Copy(Encode(replication::TopicRecord{.id = kId.topic, .deleting = true}))});
  checker_->OnLogs(2, {server::LogDeleted{Id(2), {1}}});
  checker_->OnSent(R(2), kTopic, 0);
  Append(0, 1, 0, R(2));
  Append(1, 1, 0, R(2));
  Leads(0, 0, 2, 2);
  EXPECT_EQ(checker_->CommittedEnd(kTopic, 0), 2);
}

TEST_F(ReplicationTest, ALeaderWithoutWhatIsCommittedIsSeen) {
  SetIsr(0, {0, 1});
  Leads(0, 0, 0, 0);
  checker_->OnSent(R(1), kTopic, 0);
  Append(0, 0, 0, R(1));
  Append(1, 0, 0, R(1));
  Leads(0, 0, 1, 1);
  EXPECT_EQ(InvariantOf([&] { Leads(2, 1, 0, 0); }), "partition-leader-completeness");
}

TEST_F(ReplicationTest, TwoLeadersOfAnEpochAreSeen) {
  Leads(0, 0, 0, 0);
  EXPECT_EQ(InvariantOf([&] { Leads(1, 0, 0, 0); }), "one-leader-per-partition-epoch");
}

TEST_F(ReplicationTest, AReplicaWithAnotherRecordBelowItsHighWatermarkIsSeen) {
  SetIsr(0, {0, 1});
  Leads(0, 0, 0, 0);
  checker_->OnSent(R(1), kTopic, 0);
  checker_->OnSent(R(2), kTopic, 0);
  Append(0, 0, 0, R(1));
  Append(1, 0, 0, R(1));
  Append(2, 0, 0, R(2));
  Leads(0, 0, 1, 1);
  EXPECT_EQ(InvariantOf([&] { Follows(2, 0, 1, 1); }), "log-matching");
}

TEST_F(ReplicationTest, AHighWatermarkAboveWhatIsCommittedIsSeen) {
  Leads(0, 0, 0, 0);
  AppendToAll(0, 0, R(1));
  EXPECT_EQ(InvariantOf([&] { Follows(1, 0, 1, 1); }), "high-watermark-was-committed");
}

// Seed 2345 of `brokers-network`: stored, not answered, and removed before it was sent again.
TEST_F(ReplicationTest, WhatWasRemovedIsWhatWasCommittedBelowTheLogStart) {
  Leads(0, 0, 0, 0);
  AppendToAll(0, 0, R(1));
  AppendToAll(1, 0, R(2));
  Leads(0, 0, 2, 2);
  EXPECT_FALSE(checker_->WereRemoved(kTopic, 0, {R(1)}));
  checker_->OnLogs(0, {server::LogChanged{Id(0), {1}, storage::LogStart{1}}});
  EXPECT_TRUE(checker_->WereRemoved(kTopic, 0, {R(1)}));
  EXPECT_FALSE(checker_->WereRemoved(kTopic, 0, {R(1), R(2)}));
  EXPECT_FALSE(checker_->WereRemoved(kTopic, 0, {R(3)}));
}

// Seed 730 of `brokers-network`: its leader committed and dropped the replica in one step.
TEST_F(ReplicationTest, AFollowerOfADeletedTopicMayKnowOfACommitThatNobodySaw) {
  Leads(0, 0, 0, 0);
  AppendToAll(0, 0, R(1));
  Commit(coordination::SetDataTransaction{
      .path = replication::TopicPath(kTopic),
      .data = Bytes::Copy(Encode(replication::TopicRecord{.id = kId.topic, .deleting = true}))});
  Follows(1, 0, 1, 1);
  EXPECT_EQ(checker_->CommittedEnd(kTopic, 0), 0);
}

TEST_F(ReplicationTest, AHighWatermarkThatGoesBackOrBeyondTheLogIsSeen) {
  Leads(0, 0, 0, 0);
  AppendToAll(0, 0, R(1));
  Leads(0, 0, 1, 1);
  EXPECT_EQ(InvariantOf([&] { Leads(0, 0, 1, 0); }), "high-watermark-monotone");
  EXPECT_EQ(InvariantOf([&] { Follows(1, 0, 1, 2); }), "offsets-in-order");
}

TEST_F(ReplicationTest, ACommitBelowTheMinimumIsrIsSeen) {
  SetIsr(0, {0});
  Leads(0, 0, 0, 0);
  checker_->OnSent(R(1), kTopic, 0);
  Append(0, 0, 0, R(1));
  EXPECT_EQ(InvariantOf([&] { Leads(0, 0, 1, 1); }), "commit-needs-min-insync");
}

TEST_F(ReplicationTest, ALeaderThatDoesNotWaitForAMemberIsSeen) {
  Leads(0, 0, 0, 0);
  isr_.pop_back();
  EXPECT_EQ(InvariantOf([&] { Leads(0, 0, 1, 0); }), "replication-quorum-superset");
}

TEST_F(ReplicationTest, AnEpochThatIsTakenBackIsSeen) {
  SetIsr(4, {0, 1, 2});
  EXPECT_EQ(InvariantOf([&] { SetIsr(3, {0, 1, 2}); }), "leader-epochs-rise");
  // It is never empty, or "new" and "lost" could not be told apart.
  EXPECT_EQ(InvariantOf([&] { SetIsr(5, {}); }), "znodes-are-readable");
}

TEST_F(ReplicationTest, AnotherTopicsIdIsSeen) {
  EXPECT_EQ(InvariantOf([&] {
              Commit(coordination::SetDataTransaction{
                  .path = replication::TopicPath(kTopic),
                  .data = Bytes::Copy(Encode(replication::TopicRecord{.id = {7, 7}}))});
            }),
            "topic-keeps-its-id");
}

TEST_F(ReplicationTest, ARecordThatNobodySentIsSeen) {
  Leads(0, 0, 0, 0);
  for (uint32_t s = 0; s < 3; ++s) Append(s, 0, 0, R(7));
  EXPECT_EQ(InvariantOf([&] { Leads(0, 0, 1, 1); }), "no-phantom-record");
}

// Seed 1222 of `brokers`: a producer had no answer, its record was committed and retention removed
// it, and the next leader had begun behind it.
TEST_F(ReplicationTest, WhatWasRemovedMayBeStoredAgain) {
  Leads(0, 0, 0, 0);
  AppendToAll(0, 0, R(1));
  Leads(0, 0, 1, 1);
  for (uint32_t s = 0; s < 3; ++s) {
    checker_->OnLogs(s, {server::LogChanged{Id(s), {1}, storage::LogStart{1}}});
  }
  AppendToAll(1, 0, R(1));
  Leads(0, 0, 2, 2);
  EXPECT_EQ(checker_->CommittedEnd(kTopic, 0), 2);
  // But twice in what is there is twice.
  AppendToAll(2, 0, R(1));
  EXPECT_EQ(InvariantOf([&] { Leads(0, 0, 3, 3); }), "exactly-once");
}

TEST_F(ReplicationTest, ARecordStoredTwiceIsSeen) {
  Leads(0, 0, 0, 0);
  AppendToAll(0, 0, R(1));
  AppendToAll(1, 0, R(1));
  EXPECT_EQ(InvariantOf([&] { Leads(0, 0, 2, 2); }), "exactly-once");
}

TEST_F(ReplicationTest, RecordsOutOfTheirOrderAreSeen) {
  Leads(0, 0, 0, 0);
  AppendToAll(0, 0, R(2));
  AppendToAll(1, 0, R(1));
  EXPECT_EQ(InvariantOf([&] { Leads(0, 0, 2, 2); }), "producer-order");
}

// Seed 4898 of `brokers`: a request that its producer had given up came fourteen seconds later.
TEST_F(ReplicationTest, WithoutSequencesWhatWasGivenUpMayComeLate) {
  checker_->OnDisordered(0);
  Leads(0, 0, 0, 0);
  AppendToAll(0, 0, R(2));
  AppendToAll(1, 0, R(1));
  Leads(0, 0, 2, 2);
  EXPECT_EQ(checker_->CommittedEnd(kTopic, 0), 2);
}

TEST_F(ReplicationTest, AnAcknowledgementOfWhatIsNotCommittedIsSeen) {
  Leads(0, 0, 0, 0);
  AppendToAll(0, 0, R(1));
  EXPECT_EQ(InvariantOf([&] { checker_->OnAcknowledged("p", kTopic, 0, 0, {R(1)}); }),
            "acknowledged-is-committed");
  Leads(0, 0, 1, 1);
  checker_->OnAcknowledged("p", kTopic, 0, -1, {R(1)});
  EXPECT_EQ(InvariantOf([&] { checker_->OnAcknowledged("p", kTopic, 0, 1, {R(1)}); }),
            "acknowledged-is-committed");
}

TEST_F(ReplicationTest, AReadOfAnotherRecordOrAboveWhatIsCommittedIsSeen) {
  Leads(0, 0, 0, 0);
  AppendToAll(0, 0, R(1));
  AppendToAll(1, 0, R(2));
  Leads(0, 0, 2, 1);
  EXPECT_EQ(InvariantOf([&] { checker_->OnConsumed("c", kTopic, 0, 0, R(2)); }), "consistent-read");
  EXPECT_EQ(InvariantOf([&] { checker_->OnConsumed("c", kTopic, 0, 1, R(2)); }), "consistent-read");
  EXPECT_EQ(InvariantOf([&] { checker_->OnOutOfRange("c", kTopic, 0, 1); }), "consistent-read");
}

TEST_F(ReplicationTest, AProducerIdThatIsGivenTwiceIsSeen) {
  checker_->OnProducerId("p1", 5, 0);
  EXPECT_EQ(InvariantOf([&] { checker_->OnProducerId("p2", 5, 0); }), "producer-ids-are-unique");
}

TEST_F(ReplicationTest, ALogThatRecoversAsItNeverWasIsSeen) {
  AppendToAll(0, 0, R(1));
  AppendToAll(1, 0, R(2));
  checker_->OnStopped(2, /*power_loss=*/true, /*cleanly=*/false);
  EXPECT_EQ(InvariantOf([&] {
              checker_->OnLogs(2, {server::LogRecovered{{1}, kTopic, kId, 0, 1, {{0, 0}}}});
            }),
            "durable-log-never-lost");
}

TEST_F(ReplicationTest, WhatWasNotDurableMayBeGoneAfterACrash) {
  checker_->OnSent(R(1), kTopic, 0);
  Append(2, 0, 0, R(1), /*durable=*/false);
  checker_->OnStopped(2, /*power_loss=*/true, /*cleanly=*/false);
  checker_->OnLogs(2, {server::LogRecovered{{1}, kTopic, kId, 0, 0, {}}});
  Append(2, 0, 3, R(1));
  Leads(2, 3, 1, 0);
}

// Seeds 194, 214 and 364 of `brokers`.
TEST_F(ReplicationTest, ALeaderMayCommitAndResignInOneStep) {
  Leads(0, 0, 0, 0);
  AppendToAll(0, 0, R(1));
  checker_->OnView(0, 1, kId, {Role::kIdle, 0, 0, 1, 1}, {});
  EXPECT_EQ(checker_->CommittedEnd(kTopic, 0), 1);
  // It has no more to say about what comes then.
  AppendToAll(1, 0, R(2));
  EXPECT_EQ(InvariantOf([&] { checker_->OnView(0, 1, kId, {Role::kIdle, 0, 0, 2, 2}, {}); }),
            "high-watermark-was-committed");
}

TEST_F(ReplicationTest, ALeaderThatCommitsAndResignsInOneStepIsChecked) {
  Leads(0, 0, 0, 0);
  checker_->OnSent(R(1), kTopic, 0);
  Append(0, 0, 0, R(1));
  Append(1, 0, 0, R(1));
  EXPECT_EQ(InvariantOf([&] { checker_->OnView(0, 1, kId, {Role::kIdle, 0, 0, 1, 1}, {}); }),
            "strong-isr");
}

// Seed 2764 of `brokers-crashes`.
TEST_F(ReplicationTest, ALeaderMayBeElectedCommitAndResignInOneStep) {
  Leads(1, 0, 0, 0);
  AppendToAll(0, 0, R(1));
  const ReplicaView view{Role::kIdle, 1, 0, 1, 1};
  EXPECT_EQ(InvariantOf([&] { checker_->OnView(2, 1, kId, view, {}); }),
            "high-watermark-was-committed");
  ReplicaView resigned = view;
  resigned.resigned = true;
  checker_->OnView(0, 1, kId, resigned, {});
  EXPECT_EQ(checker_->CommittedEnd(kTopic, 0), 1);
  EXPECT_EQ(InvariantOf([&] { checker_->OnView(1, 1, kId, resigned, {}); }),
            "one-leader-per-partition-epoch");
}

// Seed 34 of `brokers`.
TEST_F(ReplicationTest, ALeaderMayCommitAndDeleteInOneStep) {
  Leads(0, 0, 0, 0);
  AppendToAll(0, 0, R(1));
  checker_->OnLogs(0, {server::LogChanged{Id(0), {1}, storage::LogStart{1}}});
  checker_->OnView(0, 1, kId, {Role::kLeader, 0, 1, 1, 1},
                   Replication::LeaderIsr{isr_.size(), isr_});
  EXPECT_EQ(checker_->CommittedEnd(kTopic, 0), 1);
}

TEST_F(ReplicationTest, ALogWhoseDeletionIsNotDurableMayComeBack) {
  checker_->OnSent(R(1), kTopic, 0);
  Append(2, 0, 0, R(1));
  SetIsr(0, {0, 1});
  checker_->OnLogs(2, {server::LogDeleted{Id(2), {1}}});
  checker_->OnStopped(2, /*power_loss=*/false, /*cleanly=*/false);
  checker_->OnLogs(2, {server::LogRecovered{{1}, kTopic, kId, 0, 1, {{0, 0}}}});
  checker_->OnLogs(2, {server::LogDeleted{{1}, {1}}, server::LogPersisted{{1}}});
  checker_->OnStopped(2, /*power_loss=*/false, /*cleanly=*/false);
  EXPECT_EQ(InvariantOf([&] {
              checker_->OnLogs(2, {server::LogRecovered{{1}, kTopic, kId, 0, 1, {{0, 0}}}});
            }),
            "durable-log-never-lost");
}

TEST_F(ReplicationTest, ADurableLogThatIsNotRecoveredIsSeen) {
  checker_->OnSent(R(1), kTopic, 0);
  Append(2, 0, 0, R(1));
  checker_->OnStopped(2, /*power_loss=*/true, /*cleanly=*/false);
  EXPECT_EQ(InvariantOf([&] { checker_->OnLogs(2, {server::LogCreated{{1}, {2}, kTopic, kId}}); }),
            "durable-log-never-lost");
}

TEST_F(ReplicationTest, ADiskThatIsReplacedExcusesItsMemberButNotTheOthers) {
  Leads(0, 0, 0, 0);
  AppendToAll(0, 0, R(1));
  Leads(0, 0, 1, 1);
  checker_->OnDiskReplaced(2);
  EXPECT_FALSE(checker_->MayHaveLost(kTopic, 0));
  EXPECT_FALSE(checker_->Offline(kTopic, 0));
  checker_->OnLogs(2, {server::LogCreated{Id(2), {2}, kTopic, kId}});
  EXPECT_EQ(InvariantOf([&] { Leads(2, 1, 0, 0); }), "partition-leader-completeness");
}

TEST_F(ReplicationTest, WhenNobodyInSyncHasItAnyMoreItIsLost) {
  SetIsr(0, {0, 1});
  Leads(0, 0, 0, 0);
  AppendToAll(0, 0, R(1));
  Leads(0, 0, 1, 1);
  checker_->OnDiskReplaced(0);
  checker_->OnDiskReplaced(1);
  EXPECT_TRUE(checker_->MayHaveLost(kTopic, 0));
  EXPECT_TRUE(checker_->Offline(kTopic, 0));
}

}  // namespace
}  // namespace lockstep::sim
