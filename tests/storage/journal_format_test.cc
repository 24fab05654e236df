#include "core/storage/journal_format.h"

#include <gtest/gtest.h>

#include "core/storage/file_names.h"
#include "core/storage/segment_table.h"

namespace lockstep::storage {
namespace {

constexpr Zxid At(uint32_t epoch, uint32_t counter) { return {{epoch}, counter}; }

std::string Joined(const std::vector<Bytes>& slices) {
  std::string text;
  for (const Bytes& slice : slices) text += slice.view();
  return text;
}

std::string Hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += kDigits[static_cast<uint8_t>(byte) >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string Encode(uint32_t seed, uint64_t offset, const std::vector<Record>& records) {
  uint64_t bytes = 0;
  for (const Record& record : records) bytes += EncodedBytes(record);
  return Joined(EncodeBatch(seed, offset, records, bytes));
}

const SegmentHeader kHeader{.server = {3},
                            .sequence = 7,
                            .salt = 0x1122334455667788,
                            .previous_end = 4711,
                            .checkpoint = {.accepted_epoch = {5},
                                           .current_epoch = {4},
                                           .snapshot = {SnapshotRef::Kind::kReceived, At(3, 9)},
                                           .last = At(4, 2)}};

TEST(FileNames, AreParsedBack) {
  EXPECT_EQ(FileName(FileKind::kJournal, 0x1a), "journal.000000000000001a");
  for (const FileKind kind :
       {FileKind::kJournal, FileKind::kSnapshot, FileKind::kReceived, FileKind::kTemporary}) {
    const auto parsed = ParseFileName(FileName(kind, 0xfedcba9876543210));
    ASSERT_TRUE(parsed.has_value());
    EXPECT_EQ(parsed->kind, kind);
    EXPECT_EQ(parsed->number, 0xfedcba9876543210u);
  }
  for (const char* foreign : {"", "journal.", "journal.1", "journal.000000000000001A",
                              "journal.000000000000001a.bak", "snapshot.100000004", "myid"}) {
    EXPECT_FALSE(ParseFileName(foreign).has_value()) << foreign;
  }
}

TEST(SegmentHeader, ComesBack) {
  const Bytes bytes = EncodeSegmentHeader(kHeader);

  ASSERT_EQ(bytes.size(), kSegmentHeaderBytes);
  const auto decoded = DecodeSegmentHeader(bytes.view());
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, kHeader);
}

TEST(SegmentHeader, EveryFlippedBitIsNoticed) {
  const std::string bytes(EncodeSegmentHeader(kHeader).view());
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    EXPECT_FALSE(DecodeSegmentHeader(flipped).ok()) << bit;
  }
}

// The example of docs/disk.md.
TEST(Batch, HasTheBytesOfTheDocument) {
  const SegmentHeader header{.server = {1}, .sequence = 1, .salt = 0x5eed};

  const std::string batch =
      Encode(header.Seed(), kSegmentHeaderBytes,
             {AcceptedEpochRecord{{2}}, TransactionRecord{At(2, 1), Bytes::Copy("hi")}});

  EXPECT_EQ(Hex(EncodeSegmentHeader(header).view()),
            "4c534a4f55524e4c"
            "01000000"
            "01000000"
            "0100000000000000"
            "ed5e000000000000"
            "0000000000000000"
            "00000000"
            "00000000"
            "0000000000000000"
            "0000000000000000"
            "0000000000000000"
            "00000000"
            "804a0a73");
  EXPECT_EQ(Hex(batch),
            "4c534201"
            "20000000"
            "02000000"
            "3ad350c3"
            "1f334d65"
            "04000000"
            "03"
            "02000000"
            "3d1cd086"
            "0a000000"
            "01"
            "0100000002000000"
            "6869");
}

TEST(Batch, EveryRecordComesBack) {
  const std::vector<Record> records = {
      TransactionRecord{At(1, 1), Bytes()},
      TransactionRecord{At(1, 2), Bytes::Copy("small")},
      TransactionRecord{At(1, 3), Bytes::Copy(std::string(5000, 'l'))},
      TruncateRecord{At(1, 2)},
      TransactionRecord{At(1, 4), Bytes::Copy(std::string(5000, 'm'))},
      TransactionRecord{At(1, 5), Bytes::Copy(std::string(600, 'n'))},
      AcceptedEpochRecord{{9}},
      CurrentEpochRecord{{8}},
      SnapshotRecord{At(1, 2), false},
      SnapshotRecord{At(7, 2), true},
  };
  const uint32_t seed = kHeader.Seed();
  const std::string bytes = Encode(seed, 160, records);

  const auto header = DecodeBatchHeader(seed, 160, bytes);
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(header->count, records.size());
  EXPECT_EQ(header->bytes + kBatchHeaderBytes, bytes.size());
  size_t at = kBatchHeaderBytes;
  std::vector<Record> decoded;
  for (size_t i = 0; i < records.size(); ++i) {
    const RecordHeader record = DecodeRecordHeader(std::string_view(bytes).substr(at));
    const std::string_view payload =
        std::string_view(bytes).substr(at + kRecordHeaderBytes, record.length);
    ASSERT_TRUE(RecordIsIntact(seed, 160 + at, record, payload)) << i;
    EXPECT_EQ(kRecordHeaderBytes + record.length, EncodedBytes(records[i]));
    const auto value = DecodeRecord(record.type, Bytes::Copy(payload));
    ASSERT_TRUE(value.ok()) << i;
    decoded.push_back(*value);
    at += kRecordHeaderBytes + record.length;
  }
  EXPECT_EQ(at, bytes.size());
  // Equal records have equal bytes.
  EXPECT_EQ(Encode(seed, 160, decoded), bytes);
}

TEST(Batch, LargeBodiesAreNotCopied) {
  const Bytes body = Bytes::Copy(std::string(5000, 'l'));
  const std::vector<Record> records = {TransactionRecord{At(1, 1), body}};

  const std::vector<Bytes> slices = EncodeBatch(1, 80, records, EncodedBytes(records[0]));

  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(slices[1].data(), body.data());
}

TEST(Batch, ChecksOnlyAtItsPlaceInItsSegment) {
  const std::vector<Record> records = {TruncateRecord{At(1, 2)}};
  const std::string bytes = Encode(kHeader.Seed(), 160, records);
  SegmentHeader other = kHeader;
  other.salt += 1;

  EXPECT_TRUE(DecodeBatchHeader(kHeader.Seed(), 160, bytes).has_value());
  EXPECT_FALSE(DecodeBatchHeader(kHeader.Seed(), 168, bytes).has_value());
  EXPECT_FALSE(DecodeBatchHeader(other.Seed(), 160, bytes).has_value());
  const std::string_view record = std::string_view(bytes).substr(kBatchHeaderBytes);
  const RecordHeader header = DecodeRecordHeader(record);
  const std::string_view payload = record.substr(kRecordHeaderBytes);
  EXPECT_TRUE(RecordIsIntact(kHeader.Seed(), 176, header, payload));
  EXPECT_FALSE(RecordIsIntact(kHeader.Seed(), 184, header, payload));
  EXPECT_FALSE(RecordIsIntact(other.Seed(), 176, header, payload));
}

TEST(Record, UnknownTypesAndWrongLengthsAreErrors) {
  EXPECT_EQ(DecodeRecord(0, Bytes()).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(DecodeRecord(14, Bytes()).status().code(), absl::StatusCode::kUnimplemented);
  for (uint8_t type = 1; type <= 12; ++type) {
    EXPECT_FALSE(DecodeRecord(type, Bytes::Copy("abc")).ok()) << int{type};
  }
}

TEST(SegmentTable, KeepsWhatTheSnapshotNeeds) {
  SegmentTable table;
  table.Begin(4, At(1, 0));
  table.Note(TransactionRecord{At(1, 10), Bytes::Copy("x")});
  table.Begin(5, At(1, 10));
  table.Note(TransactionRecord{At(1, 20), Bytes::Copy("x")});
  table.Begin(6, At(1, 20));

  EXPECT_TRUE(table.Drop(At(1, 9), 0).empty());
  EXPECT_EQ(table.Drop(At(1, 10), 0), std::vector<uint64_t>{4});
  EXPECT_EQ(table.base(), At(1, 10));
  EXPECT_EQ(table.Drop(At(1, 30), 0), std::vector<uint64_t>{5});
  EXPECT_EQ(table.base(), At(1, 20));
}

TEST(SegmentTable, KeepsWholeSegmentsForLaggingLearners) {
  SegmentTable table;
  for (uint32_t i = 1; i <= 4; ++i) {
    table.Begin(i, At(1, i));
    table.Note(TransactionRecord{At(1, i + 1), Bytes::Copy(std::string(100, 'x'))});
  }
  table.Begin(5, At(1, 5));

  EXPECT_EQ(table.Drop(At(1, 5), 250), (std::vector<uint64_t>{1, 2}));
}

TEST(SegmentTable, AReplacementMakesAllBeforeItSuperfluous) {
  SegmentTable table;
  table.Begin(1, Zxid{});
  table.Note(TransactionRecord{At(1, 1), Bytes::Copy("x")});
  table.Begin(2, At(1, 1));
  table.Note(SnapshotRecord{At(5, 1), true});

  EXPECT_EQ(table.base(), At(5, 1));
  EXPECT_EQ(table.Drop(At(5, 1), 1'000'000), std::vector<uint64_t>{1});
}

TEST(SegmentTable, ATruncationMovesTheStartOfLaterSegments) {
  SegmentTable table;
  table.Begin(1, Zxid{});
  table.Note(TransactionRecord{At(1, 10), Bytes::Copy("x")});
  table.Begin(2, At(1, 10));
  table.Note(TruncateRecord{At(1, 4)});
  table.Note(TransactionRecord{At(2, 1), Bytes::Copy("x")});

  EXPECT_TRUE(table.Drop(At(1, 3), 0).empty());
  EXPECT_EQ(table.Drop(At(1, 4), 0), std::vector<uint64_t>{1});
  EXPECT_EQ(table.base(), At(1, 4));
}

}  // namespace
}  // namespace lockstep::storage
