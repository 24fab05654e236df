#include "core/storage/journal_format.h"

#include <cstring>

#include "absl/status/status.h"
#include "core/base/check.h"
#include "core/base/crc32c.h"
#include "core/storage/little_endian.h"

namespace lockstep::storage {
namespace {

constexpr std::string_view kSegmentMagic = "LSJOURNL";
constexpr uint32_t kBatchMagic = 0x0142534c;  // "LSB\1"
constexpr uint64_t kSegmentCrcAt = kSegmentHeaderBytes - 4;

// Bodies below this size are copied behind their header: cheaper than one more slice, for us and
// for whoever writes them (bytes).
constexpr size_t kSliceBytesMin = 512;

enum class RecordType : uint8_t {
  kTransaction = 1,
  kTruncate = 2,
  kAcceptedEpoch = 3,
  kCurrentEpoch = 4,
  kSnapshot = 5,
};

// The part of a payload that is not a transaction's body (bytes).
uint64_t FixedBytes(const Record& record) {
  struct {
    uint64_t operator()(const TransactionRecord&) const { return 8; }
    uint64_t operator()(const TruncateRecord&) const { return 8; }
    uint64_t operator()(const AcceptedEpochRecord&) const { return 4; }
    uint64_t operator()(const CurrentEpochRecord&) const { return 4; }
    uint64_t operator()(const SnapshotRecord&) const { return 9; }
  } bytes;
  return std::visit(bytes, record);
}

// Null if the record has none.
const Bytes* Body(const Record& record) {
  const auto* transaction = std::get_if<TransactionRecord>(&record);
  return transaction == nullptr ? nullptr : &transaction->body;
}

size_t BodyBytes(const Record& record) {
  const Bytes* body = Body(record);
  return body == nullptr ? 0 : body->size();
}

// Writes the fixed part of the payload; returns the first byte after it.
char* WriteFixed(const Record& record, char* to, RecordType* type) {
  struct {
    char* to;
    RecordType* type;
    char* operator()(const TransactionRecord& r) const {
      *type = RecordType::kTransaction;
      return StoreLe(to, r.zxid.Packed());
    }
    char* operator()(const TruncateRecord& r) const {
      *type = RecordType::kTruncate;
      return StoreLe(to, r.to.Packed());
    }
    char* operator()(const AcceptedEpochRecord& r) const {
      *type = RecordType::kAcceptedEpoch;
      return StoreLe(to, r.epoch.value);
    }
    char* operator()(const CurrentEpochRecord& r) const {
      *type = RecordType::kCurrentEpoch;
      return StoreLe(to, r.epoch.value);
    }
    char* operator()(const SnapshotRecord& r) const {
      *type = RecordType::kSnapshot;
      return StoreLe(StoreLe(to, r.zxid.Packed()), uint8_t{r.replaces_history});
    }
  } write{to, type};
  return std::visit(write, record);
}

// The checksum of a record up to its payload: its place, then length and type.
uint32_t RecordCrcStart(uint32_t seed, uint64_t offset, uint32_t length, uint8_t type) {
  char prefix[13];
  StoreLe(StoreLe(StoreLe(prefix, offset), length), type);
  return Crc32c(seed, {prefix, sizeof prefix});
}

uint32_t BatchCrc(uint32_t seed, uint64_t offset, uint32_t bytes, uint32_t count) {
  char covered[20];
  StoreLe(StoreLe(StoreLe(StoreLe(covered, offset), kBatchMagic), bytes), count);
  return Crc32c(seed, {covered, sizeof covered});
}

}  // namespace

uint32_t SegmentHeader::Seed() const {
  char text[20];
  StoreLe(StoreLe(StoreLe(text, salt), sequence), server.value);
  return Crc32c(0, {text, sizeof text});
}

Bytes EncodeSegmentHeader(const SegmentHeader& header) {
  return Bytes::Build(kSegmentHeaderBytes, [&](char* start) {
    std::memcpy(start, kSegmentMagic.data(), kSegmentMagic.size());
    char* to = start + kSegmentMagic.size();
    to = StoreLe(to, kJournalVersion);
    to = StoreLe(to, header.server.value);
    to = StoreLe(to, header.sequence);
    to = StoreLe(to, header.salt);
    to = StoreLe(to, header.previous_end);
    to = StoreLe(to, header.checkpoint.accepted_epoch.value);
    to = StoreLe(to, header.checkpoint.current_epoch.value);
    to = StoreLe(to, header.checkpoint.snapshot.zxid.Packed());
    to = StoreLe(to, header.checkpoint.last.Packed());
    to = StoreLe(to, uint64_t{static_cast<uint8_t>(header.checkpoint.snapshot.kind)});
    to = StoreLe(to, header.allocated);
    LS_CHECK(to == start + kSegmentCrcAt);
    StoreLe(to, Crc32c(0, {start, kSegmentCrcAt}));
  });
}

absl::StatusOr<SegmentHeader> DecodeSegmentHeader(std::string_view bytes) {
  if (bytes.size() < kSegmentHeaderBytes || !bytes.starts_with(kSegmentMagic)) {
    return absl::DataLossError("there is no segment header");
  }
  const char* at = bytes.data();
  const uint32_t version = LoadLe<uint32_t>(at + 8);
  // Before the checksum, whose place another version may have moved. A torn header cannot show a
  // higher version, since its lost bytes are zero.
  if (version > kJournalVersion) {
    return absl::UnimplementedError("format version " + std::to_string(version));
  }
  if (version != kJournalVersion ||
      LoadLe<uint32_t>(at + kSegmentCrcAt) != Crc32c(0, bytes.substr(0, kSegmentCrcAt))) {
    return absl::DataLossError("the segment header is damaged");
  }
  const uint64_t kind = LoadLe<uint64_t>(at + 64);
  if (kind > static_cast<uint64_t>(SnapshotRef::Kind::kReceived)) {
    return absl::UnimplementedError("snapshot kind " + std::to_string(kind));
  }
  return SegmentHeader{.server = {LoadLe<uint32_t>(at + 12)},
                       .sequence = LoadLe<uint64_t>(at + 16),
                       .salt = LoadLe<uint64_t>(at + 24),
                       .previous_end = LoadLe<uint64_t>(at + 32),
                       .checkpoint = {.accepted_epoch = {LoadLe<uint32_t>(at + 40)},
                                      .current_epoch = {LoadLe<uint32_t>(at + 44)},
                                      .snapshot = {static_cast<SnapshotRef::Kind>(kind),
                                                   Zxid::FromPacked(LoadLe<uint64_t>(at + 48))},
                                      .last = Zxid::FromPacked(LoadLe<uint64_t>(at + 56))},
                       .allocated = LoadLe<uint32_t>(at + 72)};
}

uint64_t EncodedBytes(const Record& record) {
  return kRecordHeaderBytes + FixedBytes(record) + BodyBytes(record);
}

std::vector<Bytes> EncodeBatch(uint32_t seed, uint64_t offset, std::span<const Record> records,
                               uint64_t record_bytes) {
  LS_CHECK_EQ(offset % kBatchAlignment, uint64_t{0});
  LS_CHECK(!records.empty());
  LS_CHECK_LE(record_bytes, uint64_t{UINT32_MAX});

  // One buffer for everything that is copied; `sliced` bodies go between its parts.
  uint64_t sliced_bytes = 0;
  size_t sliced_count = 0;
  for (const Record& record : records) {
    const size_t size = BodyBytes(record);
    if (size < kSliceBytesMin) continue;
    sliced_bytes += size;
    ++sliced_count;
  }
  struct Cut {
    size_t at;  // of the buffer: the body comes before this byte
    const Bytes* body;
  };
  std::vector<Cut> cuts;
  cuts.reserve(sliced_count);

  const size_t buffer_bytes = kBatchHeaderBytes + record_bytes - sliced_bytes;
  Bytes buffer = Bytes::Build(buffer_bytes, [&](char* start) {
    const uint32_t bytes = static_cast<uint32_t>(record_bytes);
    const uint32_t count = static_cast<uint32_t>(records.size());
    char* to = StoreLe(start, kBatchMagic);
    to = StoreLe(to, bytes);
    to = StoreLe(to, count);
    to = StoreLe(to, BatchCrc(seed, offset, bytes, count));

    uint64_t at = offset + kBatchHeaderBytes;
    for (const Record& record : records) {
      const Bytes* body = Body(record);
      const size_t body_bytes = BodyBytes(record);
      char* fixed = to + kRecordHeaderBytes;
      RecordType type;
      char* end = WriteFixed(record, fixed, &type);
      const size_t fixed_bytes = static_cast<size_t>(end - fixed);
      const uint32_t length = static_cast<uint32_t>(fixed_bytes + body_bytes);
      uint32_t crc = RecordCrcStart(seed, at, length, static_cast<uint8_t>(type));
      crc = Crc32c(crc, {fixed, fixed_bytes});
      if (body_bytes > 0) crc = Crc32c(crc, body->view());
      StoreLe(StoreLe(StoreLe(to, crc), length), static_cast<uint8_t>(type));
      to = end;
      if (body_bytes >= kSliceBytesMin) {
        cuts.push_back({static_cast<size_t>(to - start), body});
      } else if (body_bytes > 0) {
        std::memcpy(to, body->data(), body_bytes);
        to += body_bytes;
      }
      at += kRecordHeaderBytes + length;
    }
    LS_CHECK(to == start + buffer_bytes);
    LS_CHECK_EQ(at, offset + kBatchHeaderBytes + record_bytes);
  });

  std::vector<Bytes> slices;
  slices.reserve(2 * cuts.size() + 1);
  size_t from = 0;
  for (const Cut& cut : cuts) {
    slices.push_back(buffer.Slice(from, cut.at - from));
    slices.push_back(*cut.body);
    from = cut.at;
  }
  if (from == 0) {
    slices.push_back(std::move(buffer));
  } else if (from < buffer.size()) {
    slices.push_back(buffer.Slice(from));
  }
  return slices;
}

std::optional<BatchHeader> DecodeBatchHeader(uint32_t seed, uint64_t offset,
                                             std::string_view bytes) {
  if (bytes.size() < kBatchHeaderBytes || LoadLe<uint32_t>(bytes.data()) != kBatchMagic) {
    return std::nullopt;
  }
  const BatchHeader header{LoadLe<uint32_t>(bytes.data() + 4), LoadLe<uint32_t>(bytes.data() + 8)};
  if (header.count == 0 ||
      LoadLe<uint32_t>(bytes.data() + 12) != BatchCrc(seed, offset, header.bytes, header.count)) {
    return std::nullopt;
  }
  return header;
}

RecordHeader DecodeRecordHeader(std::string_view bytes) {
  LS_CHECK_GE(bytes.size(), kRecordHeaderBytes);
  return {LoadLe<uint32_t>(bytes.data()), LoadLe<uint32_t>(bytes.data() + 4),
          LoadLe<uint8_t>(bytes.data() + 8)};
}

bool RecordIsIntact(uint32_t seed, uint64_t offset, const RecordHeader& header,
                    std::string_view payload) {
  return payload.size() == header.length &&
         header.crc == Crc32c(RecordCrcStart(seed, offset, header.length, header.type), payload);
}

absl::StatusOr<Record> DecodeRecord(uint8_t type, const Bytes& payload) {
  const char* at = payload.data();
  switch (static_cast<RecordType>(type)) {
    case RecordType::kTransaction:
      if (payload.size() < 8) break;
      return TransactionRecord{Zxid::FromPacked(LoadLe<uint64_t>(at)), payload.Slice(8)};
    case RecordType::kTruncate:
      if (payload.size() != 8) break;
      return TruncateRecord{Zxid::FromPacked(LoadLe<uint64_t>(at))};
    case RecordType::kAcceptedEpoch:
      if (payload.size() != 4) break;
      return AcceptedEpochRecord{{LoadLe<uint32_t>(at)}};
    case RecordType::kCurrentEpoch:
      if (payload.size() != 4) break;
      return CurrentEpochRecord{{LoadLe<uint32_t>(at)}};
    case RecordType::kSnapshot:
      if (payload.size() != 9 || LoadLe<uint8_t>(at + 8) > 1) break;
      return SnapshotRecord{Zxid::FromPacked(LoadLe<uint64_t>(at)), LoadLe<uint8_t>(at + 8) == 1};
    default:
      return absl::UnimplementedError("record type " + std::to_string(type));
  }
  return absl::InvalidArgumentError("a record of type " + std::to_string(type) + " with " +
                                    std::to_string(payload.size()) + " bytes");
}

}  // namespace lockstep::storage
