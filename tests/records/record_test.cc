#include "core/records/record.h"

#include <gtest/gtest.h>

#include "core/records/batch_builder.h"
#include "core/records/varint.h"
#include "tests/support/hex.h"

namespace lockstep::records {
namespace {

std::string Varint(int64_t value) {
  std::string text;
  AppendVarint(value, &text);
  EXPECT_EQ(text.size(), VarintBytes(value));
  return text;
}

TEST(Varint, KnownEncodings) {
  EXPECT_EQ(ToHex(Varint(0)), "00");
  EXPECT_EQ(ToHex(Varint(-1)), "01");
  EXPECT_EQ(ToHex(Varint(1)), "02");
  EXPECT_EQ(ToHex(Varint(-64)), "7f");
  EXPECT_EQ(ToHex(Varint(64)), "8001");
  EXPECT_EQ(ToHex(Varint(2147483647)), "feffffff0f");
  EXPECT_EQ(ToHex(Varint(-2147483648)), "ffffffff0f");
  EXPECT_EQ(ToHex(Varint(std::numeric_limits<int64_t>::min())), "ffffffffffffffffff01");
}

TEST(Varint, TooLongOrCutShortIsRefused) {
  for (const char* wrong : {"", "80", "ffffffff10", "ffffffffff00", "808080808000"}) {
    std::string bytes = FromHex(wrong);
    std::string_view from = bytes;
    int32_t value;
    EXPECT_FALSE(TakeVarint(&from, &value)) << wrong;
  }
  for (const char* wrong : {"", "ffffff", "ffffffffffffffffff02", "8080808080808080808000"}) {
    std::string bytes = FromHex(wrong);
    std::string_view from = bytes;
    int64_t value;
    EXPECT_FALSE(TakeVarlong(&from, &value)) << wrong;
  }
}

TEST(Varint, ZerosAtItsEndAreAccepted) {
  const std::string bytes = FromHex("8280808000");
  std::string_view from = bytes;
  int32_t value = 0;
  EXPECT_TRUE(TakeVarint(&from, &value));
  EXPECT_EQ(value, 1);
  EXPECT_TRUE(from.empty());
}

// kafka-python 2.0.2: ("k", "v", headers h=x and n=null), (null, "hello"), ("", null).
constexpr char kFromClient[] =
    "0000000000000000000000540000000002e9a9c53e00000000000200000174876e800000000174876e8005"
    "0000000000000007000300000005000000031e000000026b02760402680278026e0116000a02010a68656c6c"
    "6f000c001304000100";

std::vector<Record> ReadAll(const Batch& batch, absl::Status* status) {
  RecordReader reader(HeaderOf(batch), batch.records.view());
  std::vector<Record> records;
  for (Record record; reader.Next(&record);) records.push_back(record);
  *status = reader.status();
  return records;
}

TEST(RecordReader, ReadsWhatARealClientWrote) {
  const Batch batch = Batch::Of(Bytes::Copy(FromHex(kFromClient)));
  absl::Status status;
  const std::vector<Record> records = ReadAll(batch, &status);

  ASSERT_TRUE(status.ok());
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].timestamp, 1600000000000);
  EXPECT_EQ(records[0].key, "k");
  EXPECT_EQ(records[0].value, "v");
  EXPECT_EQ(HeadersOf(records[0]), (std::vector<RecordHeader>{{"h", "x"}, {"n", std::nullopt}}));
  EXPECT_EQ(records[1].offset, 1);
  EXPECT_EQ(records[1].timestamp, 1600000000005);
  EXPECT_EQ(records[1].key, std::nullopt);
  EXPECT_EQ(records[1].value, "hello");
  EXPECT_EQ(records[2].timestamp, 1599999999990);
  EXPECT_EQ(records[2].key, "") << "empty, not null";
  EXPECT_EQ(records[2].value, std::nullopt);
  EXPECT_TRUE(HeadersOf(records[2]).empty());
}

TEST(BatchBuilder, MakesTheBytesOfARealClient) {
  BatchBuilder builder({.id = 7, .epoch = 3, .base_sequence = 5});
  builder.Add(1600000000000, "k", "v", {{"h", "x"}, {"n", std::nullopt}});
  builder.Add(1600000000005, std::nullopt, "hello");
  builder.Add(1599999999990, "", std::nullopt);

  EXPECT_EQ(builder.size(), std::string_view(kFromClient).size() / 2);
  std::string bytes(builder.Build().Join().view());
  // It writes 0 for the leader epoch that a producer does not know; Kafka's own writes -1.
  EXPECT_EQ(ToHex(bytes.substr(12, 4)), "ffffffff");
  bytes.replace(12, 4, 4, '\0');
  EXPECT_EQ(ToHex(bytes), kFromClient);
}

TEST(RecordReader, OffsetsAndTimesAreRelativeToTheBatch) {
  BatchBuilder builder;
  builder.Add(50, "a", "b");
  builder.Add(70, "c", "d");
  absl::Status status;

  const std::vector<Record> created =
      ReadAll(AssignOffsets(builder.Build(), {.base_offset = 100, .max_timestamp = 70}), &status);
  EXPECT_EQ(created[1].offset, 101);
  EXPECT_EQ(created[1].timestamp, 70);
  const Batch appended =
      AssignOffsets(builder.Build(), {.max_timestamp = 99, .log_append_time = true});
  const std::vector<Record> stamped = ReadAll(appended, &status);
  EXPECT_EQ(stamped[0].timestamp, 99);
  EXPECT_EQ(stamped[1].timestamp, 99);
}

// A record with these parts, its length in front.
std::string RawRecord(std::string_view rest_hex, int32_t offset_delta = 0) {
  std::string body = FromHex("0000") + Varint(offset_delta) + FromHex(rest_hex);
  return Varint(static_cast<int64_t>(body.size())) + body;
}
constexpr char kPlain[] = "026b027600";  // key "k", value "v", no headers

absl::Status StatusOf(const std::string& records, int32_t count, int32_t last_delta) {
  absl::Status status;
  ReadAll(SealBatch({.last_offset_delta = last_delta, .record_count = count}, Bytes::Copy(records)),
          &status);
  return status;
}

TEST(RecordReader, MalformedRecordsAreRefused) {
  ASSERT_TRUE(StatusOf(RawRecord(kPlain), 1, 0).ok());
  const std::vector<std::pair<const char*, std::string>> wrong = {
      {"no records, one promised", ""},
      {"a second one after the last", RawRecord(kPlain) + RawRecord(kPlain, 1)},
      {"a byte after the last", RawRecord(kPlain) + "x"},
      {"negative length", FromHex("01")},
      {"longer than the batch", FromHex("7e00")},
      {"empty", FromHex("00")},
      {"key longer than the record", RawRecord("066b027600")},
      {"value longer than the record", RawRecord("026b087600")},
      {"no count of headers", RawRecord("026b0276")},
      {"negative count of headers", RawRecord("026b027601")},
      {"more headers than bytes", RawRecord("026b0276feffffff0f")},
      {"null key of a header", RawRecord("026b0276020100")},
      {"header cut short", RawRecord("026b027602026b")},
      {"bytes after the headers", RawRecord("026b02760000")},
      {"wrong first offset", RawRecord(kPlain, 1)},
      {"negative offset", RawRecord(kPlain, -1)},
  };
  for (const auto& [what, records] : wrong) {
    EXPECT_TRUE(absl::IsDataLoss(StatusOf(records, 1, 0))) << what;
  }
}

TEST(RecordReader, OffsetsRiseWithinTheBatch) {
  EXPECT_TRUE(StatusOf(RawRecord(kPlain, 0) + RawRecord(kPlain, 5), 2, 5).ok()) << "compacted";
  EXPECT_FALSE(StatusOf(RawRecord(kPlain, 5) + RawRecord(kPlain, 0), 2, 5).ok());
  EXPECT_FALSE(StatusOf(RawRecord(kPlain, 3) + RawRecord(kPlain, 3), 2, 5).ok());
  EXPECT_FALSE(StatusOf(RawRecord(kPlain, 0) + RawRecord(kPlain, 6), 2, 5).ok());
}

TEST(RecordReader, EmptyBatchOfACompactedLogHasNoRecords) { EXPECT_TRUE(StatusOf("", 0, 5).ok()); }

TEST(ControlBatch, ComesBack) {
  for (const ControlMarker marker :
       {ControlMarker{ControlMarker::kCommit, 12}, ControlMarker{ControlMarker::kAbort, 0}}) {
    const Batch batch = BuildControlBatch(marker, 7, 3, 1000);
    const BatchHeader header = HeaderOf(batch);
    EXPECT_TRUE(header.control() && header.transactional());
    EXPECT_EQ(header.producer_id, 7);
    EXPECT_EQ(header.base_sequence, kNoSequence);
    EXPECT_TRUE(CrcMatches(batch));
    const auto read = ReadControlMarker(header, batch);
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(*read, marker);
  }
}

absl::Status MarkerStatus(const BatchBuilder& builder, uint16_t attributes = 0) {
  const Batch batch = builder.Build();
  BatchHeader header = HeaderOf(batch);
  header.attributes = static_cast<uint16_t>(attributes | BatchHeader::kControl);
  return ReadControlMarker(header, batch).status();
}

TEST(ControlBatch, WhatIsNoMarkerIsRefused) {
  const auto of = [](std::optional<std::string_view> key, std::optional<std::string_view> value) {
    BatchBuilder builder;
    builder.Add(0, key, value);
    return builder;
  };
  const std::string commit = FromHex("00000001");
  const std::string value = FromHex("000000000007");
  EXPECT_TRUE(MarkerStatus(of(commit, value)).ok());
  EXPECT_TRUE(absl::IsDataLoss(MarkerStatus(of(std::nullopt, value))));
  EXPECT_TRUE(absl::IsDataLoss(MarkerStatus(of("abc", value))));
  EXPECT_TRUE(absl::IsDataLoss(MarkerStatus(of(commit, std::nullopt))));
  EXPECT_TRUE(absl::IsDataLoss(MarkerStatus(of(commit, "short"))));
  EXPECT_TRUE(absl::IsDataLoss(MarkerStatus(of(commit, value), 1))) << "compressed";
  EXPECT_TRUE(absl::IsUnimplemented(MarkerStatus(of(FromHex("00000002"), value)))) << "KRaft";
}

TEST(ControlBatch, EmptiedByCompactionHasNoMarker) {
  const Batch batch = SealBatch({.attributes = BatchHeader::kControl, .record_count = 0}, Bytes());
  EXPECT_TRUE(absl::IsDataLoss(ReadControlMarker(HeaderOf(batch), batch).status()));
}

}  // namespace
}  // namespace lockstep::records
