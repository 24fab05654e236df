#include "core/records/record_batch.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/records/batch_builder.h"
#include "core/records/big_endian.h"
#include "tests/support/hex.h"

namespace lockstep::records {
namespace {

// What kafka-python 2.0.2 makes of three records for producer 7, epoch 3, sequence 5.
constexpr char kFromClient[] =
    "0000000000000000000000540000000002e9a9c53e00000000000200000174876e800000000174876e8005"
    "0000000000000007000300000005000000031e000000026b02760402680278026e0116000a02010a68656c6c"
    "6f000c001304000100";

Bytes FromClient() { return Bytes::Copy(FromHex(kFromClient)); }

// A batch of `count` records at `offset`, as a log has it.
Batch Logged(int64_t offset, int32_t epoch, int count = 2) {
  BatchBuilder builder;
  for (int i = 0; i < count; ++i) builder.Add(1000 + i, "key", "value");
  return AssignOffsets(
      builder.Build(),
      {.base_offset = offset, .leader_epoch = epoch, .max_timestamp = 999 + count});
}

Bytes Joined(const std::vector<Batch>& batches, size_t cut = 0) {
  std::string text;
  for (const Batch& batch : batches) text += batch.Join().view();
  return Bytes::Copy(std::string_view(text).substr(0, text.size() - cut));
}

// The batch with `value` at `at`, and with the CRC that belongs to it.
template <typename T>
std::string With(const Bytes& bytes, size_t at, T value) {
  std::string text(bytes.view());
  StoreBe(text.data() + at, value);
  return text;
}

TEST(BatchHeader, OfARealClientIsRead) {
  const Bytes bytes = FromClient();
  const auto header = ParseBatchHeader(bytes.view());

  ASSERT_TRUE(header.ok());
  EXPECT_EQ(*header, (BatchHeader{.base_offset = 0,
                                  .batch_length = 0x54,
                                  .partition_leader_epoch = 0,
                                  .magic = 2,
                                  .crc = 0xe9a9c53e,
                                  .attributes = 0,
                                  .last_offset_delta = 2,
                                  .base_timestamp = 1600000000000,
                                  .max_timestamp = 1600000000005,
                                  .producer_id = 7,
                                  .producer_epoch = 3,
                                  .base_sequence = 5,
                                  .record_count = 3}));
  EXPECT_EQ(header->size(), bytes.size());
  EXPECT_EQ(header->next_offset(), 3);
  EXPECT_EQ(header->last_sequence(), 7);
  EXPECT_EQ(header->ToString(), "batch 0..2 epoch 0 producer 7/3 seq 5");
  EXPECT_TRUE(CrcMatches(Batch::Of(bytes)));
}

TEST(BatchHeader, AttributesHaveNames) {
  BatchHeader header;
  EXPECT_EQ(header.compression(), Compression::kNone);
  EXPECT_FALSE(header.log_append_time() || header.transactional() || header.control());
  for (const uint16_t unknown : {5, 6, 7}) {
    header.attributes = unknown;
    EXPECT_EQ(header.compression(), Compression::kUnknown);
  }
  header.attributes = 0x38 | 4;
  EXPECT_EQ(header.compression(), Compression::kZstd);
  EXPECT_TRUE(header.log_append_time() && header.transactional() && header.control());
}

TEST(BatchHeader, WithoutSequenceHasNoLastOne) {
  EXPECT_EQ((BatchHeader{.last_offset_delta = 4}).last_sequence(), kNoSequence);
}

TEST(Sequence, WrapsToZero) {
  constexpr int32_t kLast = 0x7fffffff;
  EXPECT_EQ(SequencePlus(kLast, 0), kLast);
  EXPECT_EQ(SequencePlus(kLast, 1), 0);
  EXPECT_EQ(SequencePlus(kLast - 1, 4), 2);
  EXPECT_EQ(SequencePlus(kLast, kLast), kLast - 1);
}

TEST(ParseBatchHeader, EveryPrefixIsCutShort) {
  const Bytes bytes = FromClient();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_TRUE(absl::IsOutOfRange(ParseBatchHeader(bytes.view().substr(0, size)).status()));
  }
}

TEST(ParseBatchHeader, OldMagicIsTold) {
  for (const int8_t magic : {0, 1}) {
    // offset, size, crc, magic, attributes, null key, null value: shorter than a batch's header.
    std::string message(8 + 4 + 4 + 1 + 1 + 4 + 4, '\xff');
    StoreBe(message.data() + 8, int32_t{14});
    message[16] = static_cast<char>(magic);
    EXPECT_TRUE(absl::IsUnimplemented(ParseBatchHeader(message).status()));
  }
}

TEST(ParseBatchHeader, WhatIsNoBatchIsRefused) {
  const Bytes bytes = FromClient();
  EXPECT_TRUE(absl::IsDataLoss(ParseBatchHeader(With(bytes, 16, int8_t{3})).status()));
  EXPECT_TRUE(absl::IsDataLoss(ParseBatchHeader(With(bytes, 16, int8_t{-1})).status()));
  // From too short to have a magic up to one less than a header.
  EXPECT_TRUE(absl::IsDataLoss(ParseBatchHeader(With(bytes, 8, int32_t{-1})).status()));
  for (int32_t length = 0; length < 49; ++length) {
    EXPECT_TRUE(absl::IsDataLoss(ParseBatchHeader(With(bytes, 8, length)).status()));
  }
}

TEST(ParseBatchHeader, WrongNumbersAreRefused) {
  const Bytes bytes = FromClient();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (const std::string& wrong :
       {With(bytes, 0, int64_t{-1}), With(bytes, 0, kMax - 2), With(bytes, 23, int32_t{-1}),
        With(bytes, 57, int32_t{-1}), With(bytes, 57, int32_t{4})}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseBatchHeader(wrong).status()));
  }
  EXPECT_TRUE(ParseBatchHeader(With(bytes, 0, kMax - 3)).ok());
  EXPECT_TRUE(ParseBatchHeader(With(bytes, 57, int32_t{0})).ok());  // compaction leaves such
}

TEST(Crc, CoversAllButTheFieldsOfTheLeader) {
  const Bytes bytes = FromClient();
  for (size_t at = 0; at < bytes.size(); ++at) {
    const std::string flipped = With(bytes, at, static_cast<char>(bytes.view()[at] ^ 0x10));
    // base_offset, batch_length, partition_leader_epoch and magic are outside.
    EXPECT_EQ(CrcMatches(Batch::Of(Bytes::Copy(flipped))), at < 17) << at;
  }
}

TEST(AssignOffsets, SharesTheRecordsAndKeepsTheCrc) {
  const Batch batch = Batch::Of(FromClient());
  const Batch assigned = AssignOffsets(
      batch, {.base_offset = 1234567890123, .leader_epoch = 9, .max_timestamp = 1600000000005});

  EXPECT_EQ(assigned.records.data(), batch.records.data());
  BatchHeader expected = HeaderOf(batch);
  expected.base_offset = 1234567890123;
  expected.partition_leader_epoch = 9;
  EXPECT_EQ(HeaderOf(assigned), expected);
  EXPECT_TRUE(CrcMatches(assigned));
  EXPECT_EQ(HeaderOf(batch).base_offset, 0) << "the batch of the client is not changed";
}

TEST(AssignOffsets, LogAppendTimeIsWrittenUnderANewCrc) {
  const Batch batch = Batch::Of(FromClient());
  const Batch assigned = AssignOffsets(batch, {.base_offset = 5,
                                               .leader_epoch = 1,
                                               .max_timestamp = 1700000000000,
                                               .log_append_time = true});

  EXPECT_EQ(assigned.records.data(), batch.records.data());
  EXPECT_TRUE(HeaderOf(assigned).log_append_time());
  EXPECT_EQ(HeaderOf(assigned).max_timestamp, 1700000000000);
  EXPECT_NE(HeaderOf(assigned).crc, HeaderOf(batch).crc);
  EXPECT_TRUE(CrcMatches(assigned));
}

TEST(AssignOffsets, WrongMaxTimestampOfTheProducerIsCorrected) {
  const Batch batch = Batch::Of(FromClient());
  const Batch assigned = AssignOffsets(batch, {.max_timestamp = 1600000000004});

  EXPECT_EQ(HeaderOf(assigned).max_timestamp, 1600000000004);
  EXPECT_FALSE(HeaderOf(assigned).log_append_time());
  EXPECT_TRUE(CrcMatches(assigned));
}

TEST(BatchReader, HandsOutBatchAfterBatch) {
  const Bytes bytes = Joined({Logged(10, 1), Logged(12, 1, 3), Logged(15, 4)});
  BatchReader reader(bytes, {.offset = 10, .epoch_min = 1, .epoch_max = 4});

  std::vector<int64_t> offsets;
  while (const auto item = reader.Next()) {
    offsets.push_back(item->header.base_offset);
    EXPECT_EQ(item->header, HeaderOf(item->batch));
    EXPECT_GE(item->batch.header.data(), bytes.data());
  }

  EXPECT_EQ(offsets, (std::vector<int64_t>{10, 12, 15}));
  EXPECT_TRUE(reader.status().ok());
  EXPECT_FALSE(reader.partial());
  EXPECT_EQ(reader.position(), bytes.size());
  EXPECT_EQ(reader.next_offset(), 17);
}

TEST(BatchReader, ReportsThePartialBatchAtTheEnd) {
  const size_t last = Logged(12, 1).size();
  const size_t first = Logged(10, 1).size();
  for (size_t cut = 1; cut < last; ++cut) {
    BatchReader reader(Joined({Logged(10, 1), Logged(12, 1)}, cut), {.offset = 10});
    EXPECT_TRUE(reader.Next().has_value());
    EXPECT_FALSE(reader.Next().has_value());

    EXPECT_TRUE(reader.status().ok());
    EXPECT_TRUE(reader.partial());
    EXPECT_EQ(reader.partial_bytes(), last - cut < 12 ? 0 : last);
    EXPECT_EQ(reader.position(), first);
    EXPECT_FALSE(reader.Next().has_value());
  }
}

TEST(BatchReader, EmptyBytesAreNoBatchAndNoError) {
  BatchReader reader(Bytes(), {.offset = 3});
  EXPECT_FALSE(reader.Next().has_value());
  EXPECT_TRUE(reader.status().ok());
  EXPECT_FALSE(reader.partial());
  EXPECT_EQ(reader.next_offset(), 3);
}

// The first batch is good; what stops the reader at the second one?
absl::Status Second(const Bytes& bytes, BatchReaderOptions options, size_t good) {
  BatchReader reader(bytes, options);
  EXPECT_TRUE(reader.Next().has_value());
  EXPECT_FALSE(reader.Next().has_value());
  EXPECT_EQ(reader.position(), good);
  EXPECT_FALSE(reader.Next().has_value());
  return reader.status();
}

TEST(BatchReader, StopsAtTheFirstBadBatch) {
  const Batch first = Logged(10, 2);
  const size_t good = first.size();
  const BatchReaderOptions options{.offset = 10, .epoch_min = 1, .epoch_max = 3};
  const auto refused = [&](const Batch& second) {
    return absl::IsDataLoss(Second(Joined({first, second}), options, good));
  };

  EXPECT_TRUE(refused(Logged(11, 2))) << "overlap";
  EXPECT_TRUE(refused(Logged(13, 2))) << "gap";
  EXPECT_TRUE(refused(Logged(12, 1))) << "an epoch before the one of the batch before";
  EXPECT_TRUE(refused(Logged(12, 4))) << "an epoch after the leader's";
  EXPECT_TRUE(refused(Logged(12, -1))) << "no epoch: no leader has seen it";
  BatchReader fine(Joined({first, Logged(12, 3)}), options);
  EXPECT_TRUE(fine.Next().has_value());
  EXPECT_TRUE(fine.Next().has_value());

  std::string flipped(Joined({first, Logged(12, 2)}).view());
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  EXPECT_TRUE(absl::IsDataLoss(Second(Bytes::Copy(flipped), options, good))) << "CRC";
  std::string old(Joined({first, Logged(12, 2)}).view());
  old[good + 16] = 1;
  EXPECT_TRUE(absl::IsUnimplemented(Second(Bytes::Copy(old), options, good))) << "magic 1";
}

TEST(BatchReader, LongBatchIsRefusedBeforeItIsThere) {
  const Batch first = Logged(10, 2);
  BatchReaderOptions options{.offset = 10};
  options.batch_bytes_max = first.size();
  const Bytes cut = Joined({first, Logged(12, 2, 100)}, 500);
  EXPECT_TRUE(absl::IsDataLoss(Second(cut, options, first.size())));
}

TEST(BatchReader, CompactedLogHasGapsButNeverGoesBack) {
  const BatchReaderOptions options{.offset = 9, .contiguous = false};
  BatchReader gap(Joined({Logged(10, 1), Logged(20, 1)}), options);
  EXPECT_TRUE(gap.Next().has_value());
  EXPECT_TRUE(gap.Next().has_value());
  EXPECT_TRUE(absl::IsDataLoss(
      Second(Joined({Logged(10, 1), Logged(11, 1)}), options, Logged(10, 1).size())));
}

TEST(BatchReader, WithoutAnOffsetStartsAnywhere) {
  BatchReader reader(Joined({Logged(10, 1), Logged(12, 1)}), {});
  EXPECT_TRUE(reader.Next().has_value());
  EXPECT_TRUE(reader.Next().has_value());
  EXPECT_EQ(reader.next_offset(), 14);
}

}  // namespace
}  // namespace lockstep::records
