#include "core/kafka/produce_validation.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "core/records/batch_builder.h"
#include "core/records/big_endian.h"
#include "tests/support/hex.h"

namespace lockstep::kafka {
namespace {

using records::Batch;
using records::BatchBuilder;
using records::BatchHeader;

// By kafka-python 2.0.2, each of three records, the second one 100 bytes of "hello".
constexpr std::pair<const char*, const char*> kFromClient[] = {
    {"none",
     "0000000000000000000000540000000002e9a9c53e00000000000200000174876e800000000174876e8005"
     "0000000000000007000300000005000000031e000000026b02760402680278026e0116000a02010a68656c6c"
     "6f000c001304000100"},
    {"gzip",
     "00000000000000000000006c00000000024a529eda00010000000200000174876e800000000174876e8005ffff"
     "ffffffffffffffffffffffff000000031f8b080009330d6b02ff9363606060ca662a6361ca60aa60ca63bcc6c8"
     "c0c5c4788231233527279fc604030f83300b032303005f74088684000000"},
    {"snappy",
     "0000000000000000000000740000000002cd4acd8800020000000200000174876e800000000174876e8005ffff"
     "ffffffffffffffffffffffff0000000382534e415050590000000001000000010000002f8401701e000000026b"
     "02760402680278026e01d601000a0201c80168656c6c6ffe05007a05001c000c001304000100"},
    {"lz4",
     "0000000000000000000000730000000002dd501cdb00030000000200000174876e800000000174876e8005ffff"
     "ffffffffffffffffffffffff0000000304224d1868408400000000000000ab2b000000ff0e1e000000026b0276"
     "0402680278026e01d601000a0201c80168656c6c6f05004c80000c00130400010000000000"},
    {"zstd",
     "0000000000000000000000670000000002b8a54f5700040000000200000174876e800000000174876e8005ffff"
     "ffffffffffffffffffffffff0000000328b52ffd20846d010054021e000000026b02760402680278026e01d601"
     "000a0201c80168656c6c6f000c001304000100010031a6e204"},
};

Bytes FromClient(std::string_view codec) {
  for (const auto& [name, hex] : kFromClient) {
    if (name == codec) return Bytes::Copy(FromHex(hex));
  }
  return Bytes();
}

// Two records for producer 7, epoch 0, sequence 0, with `change` made to the header.
template <typename Change>
Bytes Changed(Change change) {
  BatchBuilder builder({.id = 7, .epoch = 0, .base_sequence = 0});
  builder.Add(1000, "key", "value");
  builder.Add(2000, "key", "value");
  const Batch batch = builder.Build();
  BatchHeader header = HeaderOf(batch);
  change(header);
  return SealBatch(header, batch.records).Join();
}
Bytes Good() {
  return Changed([](BatchHeader&) {});
}

ErrorCode ErrorOf(const Bytes& bytes, const ProduceRules& rules = {}) {
  return ValidateForProduce(bytes, rules).error;
}

TEST(ValidateForProduce, AcceptsWhatARealClientSends) {
  for (const auto& [codec, hex] : kFromClient) {
    const Bytes bytes = FromClient(codec);
    const ProduceCheck check = ValidateForProduce(bytes, {});
    EXPECT_TRUE(check.ok()) << codec << ": " << check.message;
    EXPECT_EQ(check.header.record_count, 3) << codec;
    EXPECT_EQ(check.max_timestamp, 1600000000005) << codec;
    EXPECT_EQ(check.batch.records.data(), bytes.data() + records::kBatchHeaderBytes)
        << "not copied";
  }
}

TEST(ValidateForProduce, NoBatchIsRefused) {
  EXPECT_EQ(ErrorOf(Bytes()), ErrorCode::kInvalidRecord);
}

TEST(ValidateForProduce, OldMessagesAreRefusedByTheVersionOfTheRequest) {
  for (const char magic : {0, 1}) {
    std::string bytes(Good().view());
    bytes[16] = magic;
    EXPECT_EQ(ErrorOf(Bytes::Copy(bytes), {.version = 2}), ErrorCode::kUnsupportedForMessageFormat);
    EXPECT_EQ(ErrorOf(Bytes::Copy(bytes), {.version = 3}), ErrorCode::kInvalidRecord);
  }
}

TEST(ValidateForProduce, WhatIsNoBatchIsCorrupt) {
  const Bytes good = Good();
  std::string magic(good.view());
  magic[16] = 3;
  EXPECT_EQ(ErrorOf(Bytes::Copy(magic)), ErrorCode::kCorruptMessage);
  for (const size_t size : {size_t{1}, size_t{12}, size_t{61}, good.size() - 1}) {
    EXPECT_EQ(ErrorOf(good.Slice(0, size)), ErrorCode::kCorruptMessage) << "cut to " << size;
  }
}

TEST(ValidateForProduce, MoreThanOneBatchIsRefused) {
  const std::string good(Good().view());
  EXPECT_EQ(ErrorOf(Bytes::Copy(good + good)), ErrorCode::kInvalidRecord);
  EXPECT_EQ(ErrorOf(Bytes::Copy(good + "x")), ErrorCode::kInvalidRecord);
}

TEST(ValidateForProduce, MaxMessageBytesIsInclusive) {
  const Bytes good = Good();
  EXPECT_EQ(ErrorOf(good, {.batch_bytes_max = good.size()}), ErrorCode::kNone);
  EXPECT_EQ(ErrorOf(good, {.batch_bytes_max = good.size() - 1}), ErrorCode::kMessageTooLarge);
}

TEST(ValidateForProduce, WrongCrcIsCorrupt) {
  std::string bytes(Good().view());
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  EXPECT_EQ(ErrorOf(Bytes::Copy(bytes)), ErrorCode::kCorruptMessage);
}

TEST(ValidateForProduce, CodecMustBeKnown) {
  for (const uint16_t codec : {5, 6, 7}) {
    EXPECT_EQ(ErrorOf(Changed([&](BatchHeader& h) { h.attributes = codec; })),
              ErrorCode::kUnsupportedCompressionType);
  }
}

TEST(ValidateForProduce, ZstdNeedsVersion7) {
  EXPECT_EQ(ErrorOf(FromClient("zstd"), {.version = 6}), ErrorCode::kUnsupportedCompressionType);
  EXPECT_EQ(ErrorOf(FromClient("zstd"), {.version = 7}), ErrorCode::kNone);
  EXPECT_EQ(ErrorOf(FromClient("lz4"), {.version = 3}), ErrorCode::kNone);
}

TEST(ValidateForProduce, HeaderThatNoProducerMaySendIsRefused) {
  const std::vector<std::pair<const char*, void (*)(BatchHeader&)>> wrong = {
      {"base offset", [](BatchHeader& h) { h.base_offset = 1; }},
      {"negative base offset", [](BatchHeader& h) { h.base_offset = -1; }},
      {"no records", [](BatchHeader& h) { h.record_count = 0; }},
      {"negative count", [](BatchHeader& h) { h.record_count = -1; }},
      {"count above offsets", [](BatchHeader& h) { h.last_offset_delta = 0; }},
      {"count below offsets", [](BatchHeader& h) { h.last_offset_delta = 2; }},
      {"count below records", [](BatchHeader& h) { h.record_count = 1, h.last_offset_delta = 0; }},
      {"count above records", [](BatchHeader& h) { h.record_count = 3, h.last_offset_delta = 2; }},
      {"negative offset delta", [](BatchHeader& h) { h.last_offset_delta = -1; }},
      {"control batch", [](BatchHeader& h) { h.attributes = BatchHeader::kControl; }},
      {"delete horizon", [](BatchHeader& h) { h.attributes = BatchHeader::kDeleteHorizon; }},
      {"unknown attribute", [](BatchHeader& h) { h.attributes = 0x100; }},
      {"no sequence", [](BatchHeader& h) { h.base_sequence = -1; }},
      {"no epoch", [](BatchHeader& h) { h.producer_epoch = -1; }},
      {"negative producer", [](BatchHeader& h) { h.producer_id = -2; }},
      {"transaction without a producer",
       [](BatchHeader& h) { h.producer_id = -1, h.attributes = BatchHeader::kTransactional; }},
      {"not compressed", [](BatchHeader& h) { h.attributes = 1; }},
  };
  for (const auto& [what, change] : wrong) {
    const ProduceCheck check = ValidateForProduce(Changed(change), {});
    EXPECT_EQ(check.error, ErrorCode::kInvalidRecord) << what;
    EXPECT_FALSE(check.message.empty()) << what;
    EXPECT_TRUE(check.record_errors.empty()) << what;
  }
}

TEST(ValidateForProduce, TransactionalBatchOfAProducerIsAccepted) {
  EXPECT_EQ(ErrorOf(Changed([](BatchHeader& h) { h.attributes = BatchHeader::kTransactional; })),
            ErrorCode::kNone);
}

TEST(ValidateForProduce, LogAppendTimeOfAProducerIsRefused) {
  EXPECT_EQ(ErrorOf(Changed([](BatchHeader& h) { h.attributes = BatchHeader::kLogAppendTime; })),
            ErrorCode::kInvalidTimestamp);
}

TEST(ValidateForProduce, OffsetsWithinTheBatchAreCounted) {
  // Two records with offset deltas 0 and 0, then 0 and 2: the last byte but four of each.
  const Batch batch = Batch::Of(Good());
  std::string text(batch.records.view());
  const size_t second = text.size() / 2 + 3;
  for (const char delta : {0, 4}) {
    // The second record: length, attributes, a timestamp delta of two bytes, the offset delta.
    std::string changed = text;
    ASSERT_EQ(changed[second + 1], 2) << "the place of the second offset delta";
    changed[second + 1] = delta;
    EXPECT_EQ(ErrorOf(SealBatch(HeaderOf(batch), Bytes::Copy(changed)).Join()),
              ErrorCode::kInvalidRecord);
  }
}

TEST(ValidateForProduce, CompactedTopicNeedsKeys) {
  BatchBuilder builder;
  builder.Add(1, "key", "value");
  builder.Add(1, std::nullopt, "value");
  builder.Add(1, "", "value");
  builder.Add(1, std::nullopt, "value");
  const Bytes bytes = builder.Build().Join();

  EXPECT_EQ(ErrorOf(bytes), ErrorCode::kNone);
  const ProduceCheck check = ValidateForProduce(bytes, {.key_required = true});
  EXPECT_EQ(check.error, ErrorCode::kInvalidRecord);
  ASSERT_EQ(check.record_errors.size(), 2u);
  EXPECT_EQ(check.record_errors[0].record, 1);
  EXPECT_EQ(check.record_errors[1].record, 3);
}

TEST(ValidateForProduce, TimestampsMustBeNearTheLeaders) {
  const auto at = [](int64_t timestamp, ProduceRules rules) {
    BatchBuilder builder;
    builder.Add(timestamp, "key", "value");
    rules.now_ms = 10'000;
    return ValidateForProduce(builder.Build().Join(), rules);
  };
  const ProduceRules rules{.timestamp_before_max_ms = 100, .timestamp_after_max_ms = 50};

  EXPECT_TRUE(at(9'900, rules).ok());
  EXPECT_TRUE(at(10'050, rules).ok());
  EXPECT_TRUE(at(records::kNoTimestamp, rules).ok()) << "none is not an early one";
  for (const int64_t wrong :
       {int64_t{9'899}, int64_t{10'051}, int64_t{-2}, std::numeric_limits<int64_t>::min(),
        std::numeric_limits<int64_t>::max()}) {
    const ProduceCheck check = at(wrong, rules);
    EXPECT_EQ(check.error, ErrorCode::kInvalidTimestamp) << wrong;
    EXPECT_EQ(check.record_errors.size(), 1u);
  }
  EXPECT_TRUE(at(std::numeric_limits<int64_t>::max(), {}).ok()) << "without bounds";

  ProduceRules appended = rules;
  appended.log_append_time = true;
  const ProduceCheck check = at(1, appended);
  EXPECT_TRUE(check.ok()) << "it will be overwritten";
  EXPECT_EQ(check.max_timestamp, 10'000);
}

TEST(ValidateForProduce, MaxTimestampIsThatOfTheRecords) {
  const ProduceCheck check =
      ValidateForProduce(Changed([](BatchHeader& h) { h.max_timestamp = 999'999; }), {});
  EXPECT_TRUE(check.ok());
  EXPECT_EQ(check.max_timestamp, 2000);
}

TEST(ValidateForProduce, DecompressionIsBounded) {
  for (const char* codec : {"gzip", "snappy", "lz4", "zstd"}) {
    EXPECT_EQ(ErrorOf(FromClient(codec), {.decompressed_bytes_max = 132}), ErrorCode::kNone);
    EXPECT_EQ(ErrorOf(FromClient(codec), {.decompressed_bytes_max = 131}),
              ErrorCode::kMessageTooLarge);
  }
}

TEST(ValidateForProduce, CompressedRecordsAreRead) {
  // The header says one record more than there are.
  for (const char* codec : {"gzip", "snappy", "lz4", "zstd"}) {
    const Batch batch = Batch::Of(FromClient(codec));
    BatchHeader header = HeaderOf(batch);
    header.record_count = 4;
    header.last_offset_delta = 3;
    EXPECT_EQ(ErrorOf(SealBatch(header, batch.records).Join()), ErrorCode::kInvalidRecord);
  }
}

TEST(ValidateForProduce, ErrorsOfSingleRecordsAreBounded) {
  BatchBuilder builder;
  for (size_t i = 0; i < 2 * kRecordErrorsMax; ++i) builder.Add(1, std::nullopt, "value");
  EXPECT_EQ(ValidateForProduce(builder.Build().Join(), {.key_required = true}).record_errors.size(),
            kRecordErrorsMax);
}

RC_GTEST_PROP(ValidateForProduce, AnyChangedByteIsNoticed, ()) {
  std::string bytes(FromClient(kFromClient[*rc::gen::inRange(0, 5)].first).view());
  const auto at = *rc::gen::inRange<size_t>(0, bytes.size());
  bytes[at] = static_cast<char>(bytes[at] ^ *rc::gen::inRange(1, 256));
  // The leader overwrites the epoch, so nobody needs to see what it was.
  const bool overwritten = at >= 12 && at < 16;
  RC_ASSERT(ValidateForProduce(Bytes::Copy(bytes), {}).ok() == overwritten);
}

RC_GTEST_PROP(ValidateForProduce, AnyRecordsUnderARightCrcAreJudged, (const std::string& records)) {
  const auto header = BatchHeader{
      .attributes = *rc::gen::inRange<uint16_t>(0, 5), .last_offset_delta = 1, .record_count = 2};
  const ProduceCheck check = ValidateForProduce(SealBatch(header, Bytes::Copy(records)).Join(), {});
  // Chance does not write two records.
  RC_ASSERT(check.error == ErrorCode::kInvalidRecord || check.error == ErrorCode::kMessageTooLarge);
}

}  // namespace
}  // namespace lockstep::kafka
