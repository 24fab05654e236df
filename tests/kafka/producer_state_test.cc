#include "core/kafka/producer_state.h"

#include <gtest/gtest.h>

#include "core/kafka/producer_snapshot.h"
#include "core/records/batch_builder.h"
#include "tests/support/hex.h"

namespace lockstep::kafka {
namespace {

using records::BatchHeader;
using Kind = ProducerState::Verdict::Kind;

constexpr int32_t kLastSequence = 0x7fffffff;

// A batch of `count` records of a producer.
BatchHeader From(int64_t producer_id, int16_t epoch, int32_t sequence, int32_t count = 1) {
  return {.last_offset_delta = count - 1,
          .max_timestamp = 1000,
          .producer_id = producer_id,
          .producer_epoch = epoch,
          .base_sequence = sequence,
          .record_count = count};
}

// A leader's partition, in which what is accepted is appended.
class ProducerStateTest : public ::testing::Test {
 protected:
  // The error, if it is refused; the batch must not be a duplicate.
  ErrorCode Send(BatchHeader header) {
    const ProducerState::Verdict verdict = state_.Check(header);
    EXPECT_NE(verdict.kind, Kind::kDuplicate);
    if (verdict.kind == Kind::kAppend) Append(header);
    return verdict.error;
  }
  void Append(BatchHeader header) {
    header.base_offset = state_.end_offset();
    state_.Appended(now_, header);
  }
  void End(int64_t producer_id, int16_t epoch, int32_t coordinator_epoch) {
    const records::ControlMarker marker{records::ControlMarker::kCommit, coordinator_epoch};
    BatchHeader header = HeaderOf(records::BuildControlBatch(marker, producer_id, epoch, 5000));
    header.base_offset = state_.end_offset();
    state_.Appended(now_, header, marker);
  }
  // The first offset of the batch that is already there; nothing if it is not.
  std::optional<int64_t> Original(const BatchHeader& header) const {
    const ProducerState::Verdict verdict = state_.Check(header);
    if (verdict.kind != Kind::kDuplicate) return std::nullopt;
    return verdict.original.first_offset();
  }

  ProducerState state_;
  Instant now_{0};
};

TEST_F(ProducerStateTest, BatchesWithoutProducerAreNotRemembered) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Send({.record_count = 1}), ErrorCode::kNone);
  EXPECT_EQ(state_.size(), 0u);
  EXPECT_EQ(state_.end_offset(), 3);
}

TEST_F(ProducerStateTest, SequencesMustFollowEachOther) {
  EXPECT_EQ(Send(From(7, 0, 0, 3)), ErrorCode::kNone);
  EXPECT_EQ(Send(From(7, 0, 4)), ErrorCode::kOutOfOrderSequenceNumber) << "gap";
  EXPECT_EQ(Send(From(7, 0, 2)), ErrorCode::kOutOfOrderSequenceNumber) << "overlap";
  EXPECT_EQ(Send(From(7, 0, 3)), ErrorCode::kNone);
  EXPECT_EQ(Send(From(8, 0, 0)), ErrorCode::kNone) << "each producer counts for itself";
}

TEST_F(ProducerStateTest, UnknownProducerBeginsWithSequence0) {
  EXPECT_EQ(Send(From(7, 5, 3)), ErrorCode::kOutOfOrderSequenceNumber) << "0 to 2 are to come";
  EXPECT_EQ(Send(From(7, 5, 0, 3)), ErrorCode::kNone);
  EXPECT_EQ(Send(From(7, 5, 3)), ErrorCode::kNone);
  EXPECT_EQ(Send(From(8, 0, records::kNoSequence)), ErrorCode::kNone) << "it has none";
}

// Whatever takes producers away: the one that comes may be one of them.
TEST_F(ProducerStateTest, WhereProducersMayHaveBeenForgottenOneMayGoOnAnywhere) {
  const auto answer = [](const ProducerState& state) {
    EXPECT_EQ(state.Check(From(7, 5, 0)).error, ErrorCode::kNone);
    return state.Check(From(7, 5, 3)).error;
  };
  EXPECT_EQ(answer(state_), ErrorCode::kOutOfOrderSequenceNumber) << "nobody was here";

  ProducerState later;
  later.Reset(20);
  EXPECT_EQ(answer(later), ErrorCode::kNone) << "before offset 20";
  later.Reset(0);
  EXPECT_EQ(answer(later), ErrorCode::kOutOfOrderSequenceNumber);

  ProducerState loaded;
  ASSERT_TRUE(loaded.LoadSnapshot(now_, state_.EncodeSnapshot().view(), 0).ok());
  EXPECT_EQ(answer(loaded), ErrorCode::kNone) << "it had expired before";

  ProducerState expiring;
  expiring.Expire(now_);
  EXPECT_EQ(answer(expiring), ErrorCode::kOutOfOrderSequenceNumber) << "nobody has expired";
  expiring.Appended(now_, From(9, 0, 0));
  expiring.Expire(now_ + ProducerStateOptions().expiration);
  EXPECT_EQ(answer(expiring), ErrorCode::kNone);

  ProducerState full({.producers_max = 1});
  BatchHeader header = From(8, 0, 0);
  full.Appended(now_, header);
  EXPECT_EQ(answer(full), ErrorCode::kOutOfOrderSequenceNumber);
  header = From(9, 0, 0);
  header.base_offset = 1;
  full.Appended(now_, header);
  EXPECT_EQ(answer(full), ErrorCode::kNone) << "8 had to go";
}

// Seed 968 of `brokers-crashes`: too few replicas for the first ones, enough for the last.
TEST_F(ProducerStateTest, WhatWasRefusedComesBeforeWhatCameAfterIt) {
  state_.Reset(20);
  state_.Refused(now_, From(7, 0, 12));
  state_.Refused(now_, From(7, 0, 13));
  state_.Refused(now_, From(8, 0, kLastSequence));
  EXPECT_EQ(Send(From(7, 0, 14)), ErrorCode::kOutOfOrderSequenceNumber);
  EXPECT_EQ(Send(From(7, 0, 13)), ErrorCode::kOutOfOrderSequenceNumber);
  EXPECT_EQ(state_.Check(From(7, 0, 11)).error, ErrorCode::kNone) << "it is still before that";
  EXPECT_EQ(state_.Check(From(7, 1, 5)).error, ErrorCode::kNone) << "another epoch";
  EXPECT_EQ(Send(From(8, 0, 0)), ErrorCode::kOutOfOrderSequenceNumber) << "sequences wrap";
  EXPECT_EQ(Send(From(9, 0, 14)), ErrorCode::kNone) << "another producer";

  EXPECT_EQ(Send(From(7, 0, 12)), ErrorCode::kNone);
  EXPECT_EQ(Send(From(7, 0, 13)), ErrorCode::kNone);
  EXPECT_EQ(Send(From(7, 0, 14)), ErrorCode::kNone);

  state_.Refused(now_, From(7, 0, 20));  // known: that is all that counts
  EXPECT_EQ(Send(From(7, 0, 15)), ErrorCode::kNone);
}

TEST_F(ProducerStateTest, AnEarlierOneMayBeRefusedLater) {
  state_.Reset(20);
  state_.Refused(now_, From(7, 0, 13));
  state_.Refused(now_, From(7, 0, 12));
  EXPECT_EQ(Send(From(7, 0, 13)), ErrorCode::kOutOfOrderSequenceNumber);
  EXPECT_EQ(Send(From(7, 0, 12)), ErrorCode::kNone);
}

TEST_F(ProducerStateTest, WhatWasRefusedAllowsNothingWhereNobodyWasForgotten) {
  state_.Refused(now_, From(7, 0, 5));
  EXPECT_EQ(Send(From(7, 0, 5)), ErrorCode::kOutOfOrderSequenceNumber) << "0 to 4 are to come";
}

TEST_F(ProducerStateTest, WhatWasRefusedLongAgoIsForgotten) {
  state_.Reset(20);
  state_.Refused(now_, From(7, 0, 12));
  state_.Expire(now_ + ProducerState::kRefusedKept - Nanoseconds(1));
  EXPECT_EQ(state_.Check(From(7, 0, 13)).error, ErrorCode::kOutOfOrderSequenceNumber);
  state_.Expire(now_ + ProducerState::kRefusedKept);
  EXPECT_EQ(state_.Check(From(7, 0, 13)).error, ErrorCode::kNone);
}

TEST(ProducerState, WhatWasRefusedIsBounded) {
  ProducerState state({.producers_max = 2});
  state.Reset(20);
  for (int64_t producer = 1; producer <= 3; ++producer) {
    state.Refused(Instant{0}, From(producer, 0, 12));
  }
  EXPECT_EQ(state.Check(From(2, 0, 13)).error, ErrorCode::kOutOfOrderSequenceNumber);
  EXPECT_EQ(state.Check(From(3, 0, 13)).error, ErrorCode::kNone);
}

TEST_F(ProducerStateTest, SequenceWrapsToZero) {
  Append(From(7, 0, kLastSequence - 1, 2));
  EXPECT_EQ(Send(From(7, 0, 1)), ErrorCode::kOutOfOrderSequenceNumber);
  EXPECT_EQ(Send(From(7, 0, 0)), ErrorCode::kNone);
}

TEST_F(ProducerStateTest, SequenceWrapsWithinABatch) {
  const BatchHeader across = From(7, 0, kLastSequence, 3);
  Append(across);
  EXPECT_EQ(Original(across), 0);
  EXPECT_EQ(Send(From(7, 0, 2)), ErrorCode::kNone);
}

TEST_F(ProducerStateTest, LastFiveBatchesAreRecognized) {
  for (int32_t i = 0; i < 6; ++i) EXPECT_EQ(Send(From(7, 0, 10 * i, 10)), ErrorCode::kNone);

  for (int32_t i = 1; i < 6; ++i) EXPECT_EQ(Original(From(7, 0, 10 * i, 10)), 10 * i);
  EXPECT_EQ(state_.Check(From(7, 0, 0, 10)).error, ErrorCode::kDuplicateSequenceNumber);
  EXPECT_EQ(state_.end_offset(), 60);
}

TEST_F(ProducerStateTest, OfWhatCameBeforeTheLastFiveItIsKnownThatItIsThere) {
  for (int32_t i = 0; i < 7; ++i) Append(From(7, 0, 100 + 10 * i, 10));
  const auto before = [&](int32_t sequence, int32_t count) {
    const ProducerState::Verdict verdict = state_.Check(From(7, 0, sequence, count));
    return verdict.kind == Kind::kDuplicate && verdict.original.last_offset == 19 &&
           verdict.error == ErrorCode::kDuplicateSequenceNumber;
  };
  EXPECT_TRUE(before(100, 10));
  EXPECT_TRUE(before(110, 10));
  EXPECT_TRUE(before(105, 7)) << "however they were cut into batches";
  EXPECT_FALSE(before(115, 10)) << "some are of the last five";
  EXPECT_FALSE(before(95, 10)) << "of some nothing is known";
  EXPECT_EQ(Send(From(7, 0, 90, 10)), ErrorCode::kOutOfOrderSequenceNumber);
  EXPECT_EQ(Send(From(7, 0, 180, 10)), ErrorCode::kOutOfOrderSequenceNumber);
  EXPECT_EQ(Send(From(7, 1, 100, 10)), ErrorCode::kOutOfOrderSequenceNumber) << "another epoch";
}

TEST_F(ProducerStateTest, AGapEndsWhatIsKnownOfOlderSequences) {
  for (const int32_t sequence : {0, 200, 201, 202, 203, 204}) Append(From(7, 0, sequence));
  EXPECT_EQ(Send(From(7, 0, 199)), ErrorCode::kOutOfOrderSequenceNumber);
  EXPECT_EQ(Send(From(7, 0, 0)), ErrorCode::kOutOfOrderSequenceNumber);
}

TEST_F(ProducerStateTest, OlderSequencesWrapToo) {
  for (int32_t i = 0; i < 7; ++i) Append(From(7, 0, records::SequencePlus(kLastSequence - 1, i)));
  EXPECT_EQ(state_.Check(From(7, 0, kLastSequence - 1)).error, ErrorCode::kDuplicateSequenceNumber);
  EXPECT_EQ(state_.Check(From(7, 0, kLastSequence)).error, ErrorCode::kDuplicateSequenceNumber);
  EXPECT_EQ(Send(From(7, 0, kLastSequence - 2)), ErrorCode::kOutOfOrderSequenceNumber);
}

TEST_F(ProducerStateTest, DuplicateHasTheSameFirstAndLastSequenceAndEpoch) {
  EXPECT_EQ(Send(From(7, 3, 0, 10)), ErrorCode::kNone);
  EXPECT_EQ(Original(From(7, 3, 0, 10)), 0);
  EXPECT_EQ(Original(From(7, 3, 0, 9)), std::nullopt);
  EXPECT_EQ(Original(From(7, 3, 1, 9)), std::nullopt);
  EXPECT_EQ(Original(From(7, 4, 0, 10)), std::nullopt);
  EXPECT_EQ(Original(From(8, 3, 0, 10)), std::nullopt);
}

TEST_F(ProducerStateTest, DuplicateTellsWhatWasStored) {
  BatchHeader header = From(7, 0, 0, 10);
  Append(From(1, 0, 0, 5));
  EXPECT_EQ(Send(header), ErrorCode::kNone);

  header.max_timestamp = 999'999;  // the leader's time may have replaced it
  const ProducerState::Verdict verdict = state_.Check(header);
  EXPECT_EQ(verdict.kind, Kind::kDuplicate);
  EXPECT_EQ(verdict.original, (ProducerBatch{9, 9, 14, 1000}));
  EXPECT_EQ(verdict.original.first_offset(), 5);
}

TEST_F(ProducerStateTest, OlderEpochIsFenced) {
  EXPECT_EQ(Send(From(7, 3, 0)), ErrorCode::kNone);
  EXPECT_EQ(Send(From(7, 2, 1)), ErrorCode::kInvalidProducerEpoch);
  EXPECT_EQ(Send(From(7, 2, 0)), ErrorCode::kInvalidProducerEpoch) << "though it looks sent twice";
}

TEST_F(ProducerStateTest, NewEpochStartsAtZero) {
  EXPECT_EQ(Send(From(7, 3, 0)), ErrorCode::kNone);
  EXPECT_EQ(Send(From(7, 4, 1)), ErrorCode::kOutOfOrderSequenceNumber);
  EXPECT_EQ(Send(From(7, 4, 0)), ErrorCode::kNone);
  EXPECT_EQ(Send(From(7, 3, 1)), ErrorCode::kInvalidProducerEpoch);
  EXPECT_EQ(Send(From(7, 4, 1)), ErrorCode::kNone);
}

TEST_F(ProducerStateTest, FollowerTakesTheLogAsItIs) {
  Append(From(7, 3, 100));
  Append(From(7, 3, 200));  // no leader would have accepted this
  EXPECT_EQ(Original(From(7, 3, 200)), 1);
  EXPECT_EQ(Send(From(7, 3, 201)), ErrorCode::kNone);
}

TEST_F(ProducerStateTest, CompactedLogHasGaps) {
  BatchHeader header = From(7, 0, 0);
  header.base_offset = 100;
  state_.Appended(now_, header);
  EXPECT_EQ(state_.end_offset(), 101);
}

TEST_F(ProducerStateTest, BatchBelowTheEndIsOurOwnMistake) {
  Append(From(7, 0, 0));
  EXPECT_DEATH(state_.Appended(now_, From(7, 0, 1)), "check failed");
}

// ---- Transactions

BatchHeader InTransaction(BatchHeader header) {
  header.attributes |= BatchHeader::kTransactional;
  return header;
}

TEST_F(ProducerStateTest, TransactionIsOpenUntilItsMarker) {
  Append({.record_count = 1});
  EXPECT_EQ(Send(InTransaction(From(7, 0, 0))), ErrorCode::kNone);
  EXPECT_EQ(Send(InTransaction(From(8, 0, 0))), ErrorCode::kNone);
  EXPECT_EQ(Send(InTransaction(From(7, 0, 1))), ErrorCode::kNone);
  EXPECT_EQ(state_.first_open_transaction(), 1);
  EXPECT_EQ(Send(From(7, 0, 2)), ErrorCode::kInvalidTxnState);

  End(7, 0, 12);
  EXPECT_EQ(state_.first_open_transaction(), 2) << "the other producer's";
  EXPECT_EQ(state_.Find(7)->coordinator_epoch, 12);
  EXPECT_EQ(state_.Find(7)->batch_count, 2) << "what was sent twice is still known";
  EXPECT_EQ(Send(From(7, 0, 2)), ErrorCode::kNone);
  End(8, 0, 12);
  EXPECT_EQ(state_.first_open_transaction(), std::nullopt);
}

TEST_F(ProducerStateTest, MarkerOfANewEpochFencesTheOldOne) {
  EXPECT_EQ(Send(InTransaction(From(7, 0, 0))), ErrorCode::kNone);
  End(7, 1, 3);
  EXPECT_EQ(Send(InTransaction(From(7, 0, 1))), ErrorCode::kInvalidProducerEpoch);
  EXPECT_EQ(Send(InTransaction(From(7, 1, 1))), ErrorCode::kOutOfOrderSequenceNumber);
  EXPECT_EQ(Send(InTransaction(From(7, 1, 0))), ErrorCode::kNone);
}

TEST_F(ProducerStateTest, BatchOfTheCoordinatorHasNoSequence) {
  EXPECT_EQ(Send(InTransaction(From(7, 2, records::kNoSequence))), ErrorCode::kNone);
  EXPECT_EQ(Send(InTransaction(From(7, 2, records::kNoSequence))), ErrorCode::kNone);
  EXPECT_EQ(Send(InTransaction(From(7, 1, records::kNoSequence))),
            ErrorCode::kInvalidProducerEpoch);
}

// ---- Truncation

TEST_F(ProducerStateTest, TruncationTakesBackWhatWasAppended) {
  EXPECT_EQ(Send(From(7, 0, 0, 5)), ErrorCode::kNone);
  const Bytes before = state_.EncodeSnapshot();
  EXPECT_EQ(Send(From(7, 0, 5, 5)), ErrorCode::kNone);
  EXPECT_EQ(Send(InTransaction(From(8, 0, 0))), ErrorCode::kNone);
  EXPECT_EQ(Send(From(7, 1, 0)), ErrorCode::kNone);

  EXPECT_TRUE(state_.TruncateTo(5));
  EXPECT_EQ(state_.EncodeSnapshot(), before);
  EXPECT_EQ(state_.end_offset(), 5);
  EXPECT_EQ(state_.first_open_transaction(), std::nullopt);
  EXPECT_EQ(Send(From(7, 0, 5, 5)), ErrorCode::kNone) << "not a duplicate any more";
}

TEST_F(ProducerStateTest, CommittedBatchesCannotBeTakenBack) {
  Append(From(7, 0, 0, 5));
  Append(From(7, 0, 5, 5));
  Append(From(7, 0, 10, 5));
  state_.Committed(10);
  const Bytes whole = state_.EncodeSnapshot();

  EXPECT_EQ(state_.truncation_floor(), 10);
  EXPECT_FALSE(state_.TruncateTo(5));
  EXPECT_EQ(state_.EncodeSnapshot(), whole) << "and nothing is changed";
  EXPECT_TRUE(state_.TruncateTo(10));
  EXPECT_EQ(Original(From(7, 0, 5, 5)), 5);
  EXPECT_EQ(Original(From(7, 0, 10, 5)), std::nullopt);
}

TEST_F(ProducerStateTest, HighWatermarkBeyondTheLogIsThatOfTheLeader) {
  Append(From(7, 0, 0, 5));
  state_.Committed(1000);
  EXPECT_EQ(state_.truncation_floor(), 5);
  Append(From(7, 0, 5, 5));
  EXPECT_TRUE(state_.TruncateTo(5));
  EXPECT_EQ(Original(From(7, 0, 0, 5)), 0);
}

TEST(ProducerState, UndoIsBounded) {
  ProducerState state({.undo_max = 3});
  for (int32_t i = 0; i < 5; ++i) {
    BatchHeader header = From(7, 0, i);
    header.base_offset = i;
    state.Appended(Instant{0}, header);
  }
  EXPECT_EQ(state.truncation_floor(), 2);
  EXPECT_FALSE(state.TruncateTo(1));
  EXPECT_TRUE(state.TruncateTo(2));
  EXPECT_EQ(state.Find(7)->last_batch().last_sequence, 1);
}

// ---- Forgetting

TEST_F(ProducerStateTest, IdleProducersExpire) {
  Append(From(7, 0, 0));
  Append(InTransaction(From(9, 0, 0)));
  now_ = now_ + Seconds(3600);
  Append(From(8, 0, 0));
  Append(From(7, 0, 1));

  state_.Expire(now_ + Seconds(24 * 3600) - Nanoseconds(1));
  EXPECT_EQ(state_.size(), 3u);
  state_.Expire(now_ + Seconds(24 * 3600));
  EXPECT_EQ(state_.size(), 1u);
  EXPECT_NE(state_.Find(9), nullptr) << "a transaction is open";
  EXPECT_EQ(Send(From(7, 0, 99)), ErrorCode::kNone) << "forgotten: it may go on anywhere";
}

TEST(ProducerState, OldestMakesRoom) {
  ProducerState state({.producers_max = 3});
  const auto append = [&](BatchHeader header) {
    header.base_offset = state.end_offset();
    state.Appended(Instant{0}, header);
  };
  append(InTransaction(From(1, 0, 0)));
  append(From(2, 0, 0));
  append(From(3, 0, 0));
  append(From(2, 0, 1));
  const Bytes before = state.EncodeSnapshot();
  append(From(4, 0, 0));
  EXPECT_EQ(state.size(), 3u);
  EXPECT_EQ(state.Find(3), nullptr) << "1 has a transaction, 2 wrote later";
  EXPECT_NE(state.Find(1), nullptr);

  EXPECT_TRUE(state.TruncateTo(4));
  EXPECT_EQ(state.EncodeSnapshot(), before) << "who made room is back";
}

// ---- Snapshots

TEST(ProducerSnapshot, OfKafkaIsRead) {
  // By Python's struct and kafka-python's CRC, after Kafka's ProducerSnapshot.json.
  const std::string bytes = FromHex(
      "0001dd536f05000000010000000000000007000300000009000000000000006800000002000000000000"
      "03e8ffffffffffffffffffffffff");
  const auto snapshot = DecodeProducerSnapshot(bytes, 105);
  ASSERT_TRUE(snapshot.ok());
  ProducerEntry entry{.epoch = 3, .last_timestamp = 1000};
  entry.Add({.last_sequence = 9, .offset_delta = 2, .last_offset = 104, .timestamp = 1000});
  EXPECT_EQ(*snapshot, (ProducerSnapshot{{7, entry}}));
  EXPECT_EQ(ToHex(EncodeProducerSnapshot(*snapshot).view()), ToHex(bytes));
}

TEST(ProducerSnapshot, OfNoProducersIsTenBytes) {
  EXPECT_EQ(ToHex(EncodeProducerSnapshot({}).view()), "000148674bc700000000");
  EXPECT_TRUE(DecodeProducerSnapshot(EncodeProducerSnapshot({}).view(), 0)->empty());
}

TEST_F(ProducerStateTest, SnapshotKeepsAllThatIsRecognized) {
  Append(From(6, 0, 0));
  for (int32_t i = 0; i < 7; ++i) Append(From(7, 3, 10 * i, 10));
  Append(InTransaction(From(8, 0, 0)));
  Append(InTransaction(From(9, 0, 0)));
  End(9, 1, 4);

  ProducerState other;
  ASSERT_TRUE(other.LoadSnapshot(now_, state_.EncodeSnapshot().view(), state_.end_offset()).ok());
  EXPECT_EQ(other.end_offset(), state_.end_offset());
  EXPECT_EQ(other.truncation_floor(), state_.end_offset());
  for (const int64_t producer : {6, 7, 8, 9}) {
    EXPECT_EQ(*other.Find(producer), *state_.Find(producer)) << producer;
  }
  EXPECT_EQ(other.first_open_transaction(), state_.first_open_transaction());
  EXPECT_EQ(other.EncodeSnapshot(), state_.EncodeSnapshot());
}

TEST_F(ProducerStateTest, SnapshotOfMoreThanAreWantedKeepsTheNewest) {
  for (int64_t producer = 0; producer < 5; ++producer) Append(From(9 - producer, 0, 0));
  ProducerState small({.producers_max = 2});
  ASSERT_TRUE(small.LoadSnapshot(now_, state_.EncodeSnapshot().view(), 5).ok());
  EXPECT_EQ(small.size(), 2u);
  EXPECT_NE(small.Find(5), nullptr);
  EXPECT_NE(small.Find(6), nullptr);
}

TEST_F(ProducerStateTest, BadSnapshotChangesNothing) {
  Append(From(7, 0, 0));
  EXPECT_TRUE(absl::IsDataLoss(state_.LoadSnapshot(now_, "no snapshot", 5)));
  EXPECT_NE(state_.Find(7), nullptr);
  EXPECT_EQ(state_.end_offset(), 1);
}

TEST(ProducerSnapshot, EveryFlippedBitIsNoticed) {
  ProducerEntry entry{.epoch = 3, .last_timestamp = 1000};
  entry.Add({.last_sequence = 9, .offset_delta = 2, .last_offset = 104, .timestamp = 1000});
  const std::string bytes(EncodeProducerSnapshot({{7, entry}}).view());
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    EXPECT_TRUE(absl::IsDataLoss(DecodeProducerSnapshot(flipped, 1000).status())) << bit;
  }
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeProducerSnapshot(bytes.substr(0, size), 1000).status()));
  }
}

TEST(ProducerSnapshot, WhatNoLogHoldsIsRefused) {
  const auto decode = [](const ProducerSnapshot& snapshot) {
    return DecodeProducerSnapshot(EncodeProducerSnapshot(snapshot).view(), 100).status();
  };
  const auto with = [](ProducerBatch batch) {
    ProducerEntry entry{.epoch = 0};
    entry.Add(batch);
    return entry;
  };
  EXPECT_TRUE(decode({{7, with({0, 0, 99})}}).ok());
  EXPECT_TRUE(absl::IsDataLoss(decode({{-1, with({0, 0, 99})}}))) << "no producer";
  EXPECT_TRUE(absl::IsDataLoss(decode({{7, with({0, 0, 100})}}))) << "beyond the offset";
  EXPECT_TRUE(absl::IsDataLoss(decode({{7, with({0, -1, 99})}}))) << "ends before it begins";
  EXPECT_TRUE(absl::IsDataLoss(decode({{7, with({0, 100, 99})}}))) << "begins before the log";
  EXPECT_TRUE(absl::IsDataLoss(decode({{7, with({-2, 0, 99})}}))) << "sequence";
  EXPECT_TRUE(absl::IsDataLoss(decode({{7, {.epoch = -2}}})));
  EXPECT_TRUE(absl::IsDataLoss(decode({{7, {.epoch = 0, .open_transaction = 100}}})));
  EXPECT_TRUE(
      absl::IsDataLoss(decode({{7, {.open_transaction = 5}}, {8, {.open_transaction = 5}}})))
      << "two transactions at one offset";
  ProducerEntry overlap = with({5, 5, 50});
  overlap.Add({9, 3, 53});
  EXPECT_TRUE(absl::IsDataLoss(decode({{7, overlap}})));
}

}  // namespace
}  // namespace lockstep::kafka
