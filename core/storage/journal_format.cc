#include "core/storage/journal_format.h"

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "core/base/check.h"
#include "core/base/crc32c.h"
#include "core/storage/little_endian.h"
#include "core/storage/log_table.h"

namespace lockstep::storage {
namespace {

constexpr std::string_view kSegmentMagic = "LSJOURNL";
constexpr uint32_t kBatchMagic = 0x0142534c;  // "LSB\1"
constexpr uint64_t kSegmentCrcAt = kSegmentHeaderBytes - 4;

// Bodies below this size are copied behind their header: cheaper than one more slice, for us and
// for whoever writes them (bytes).
constexpr size_t kSliceBytesMin = 512;

// Of a log-created record, without the topic's name (bytes).
constexpr uint64_t kLogCreatedBytes = 4 + 4 + 16 + 8;

enum class RecordType : uint8_t {
  kTransaction = 1,
  kTruncate = 2,
  kAcceptedEpoch = 3,
  kCurrentEpoch = 4,
  kSnapshot = 5,
  kLogCreated = 6,
  kLogDeleted = 7,
  kLogBatches = 8,
  kLogTruncate = 9,
  kLogEpoch = 10,
  kLogStart = 11,
  kBrokerEpoch = 12,
  kLogTable = 13,
};

// The part of a payload before its body (bytes).
uint64_t FixedBytes(const Record& record) {
  struct {
    uint64_t operator()(const TransactionRecord&) const { return 8; }
    uint64_t operator()(const TruncateRecord&) const { return 8; }
    uint64_t operator()(const AcceptedEpochRecord&) const { return 4; }
    uint64_t operator()(const CurrentEpochRecord&) const { return 4; }
    uint64_t operator()(const SnapshotRecord&) const { return 9; }
    uint64_t operator()(const LogCreatedRecord& r) const {
      return kLogCreatedBytes + r.topic.size();
    }
    uint64_t operator()(const LogDeletedRecord&) const { return 4; }
    uint64_t operator()(const LogChangeRecord& r) const {
      if (std::holds_alternative<LogAppend>(r.change)) return 4 + 8 + 8;
      if (std::holds_alternative<LogEpoch>(r.change)) return 4 + 4 + 8;
      return 4 + 8;
    }
    uint64_t operator()(const BrokerEpochRecord&) const { return 8; }
    uint64_t operator()(const LogTableRecord&) const { return 0; }
  } bytes;
  return std::visit(bytes, record);
}

// What follows the fixed part, slice after slice.
std::span<const Bytes> Body(const Record& record) {
  if (const auto* transaction = std::get_if<TransactionRecord>(&record)) {
    return {&transaction->body, 1};
  }
  if (const auto* change = std::get_if<LogChangeRecord>(&record)) {
    if (const auto* append = std::get_if<LogAppend>(&change->change)) return append->batches;
  }
  if (const auto* table = std::get_if<LogTableRecord>(&record)) return {&table->table, 1};
  return {};
}

uint64_t BodyBytes(const Record& record) {
  uint64_t bytes = 0;
  for (const Bytes& slice : Body(record)) bytes += slice.size();
  return bytes;
}

// Writes the fixed part of the payload; returns the first byte after it.
struct WriteFixed {
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
  char* operator()(const LogCreatedRecord& r) const {
    *type = RecordType::kLogCreated;
    char* at = StoreLe(StoreLe(to, r.log.value), r.partition);
    at = StoreLe(StoreLe(at, r.topic_id.high), r.topic_id.low);
    at = StoreLe(at, r.start);
    return std::copy(r.topic.begin(), r.topic.end(), at);
  }
  char* operator()(const LogDeletedRecord& r) const {
    *type = RecordType::kLogDeleted;
    return StoreLe(to, r.log.value);
  }
  char* operator()(const LogChangeRecord& r) const {
    char* at = StoreLe(to, r.log.value);
    if (const auto* append = std::get_if<LogAppend>(&r.change)) {
      *type = RecordType::kLogBatches;
      return StoreLe(StoreLe(at, append->base_offset), append->end_offset);
    }
    if (const auto* truncate = std::get_if<LogTruncate>(&r.change)) {
      *type = RecordType::kLogTruncate;
      return StoreLe(at, truncate->to);
    }
    if (const auto* epoch = std::get_if<LogEpoch>(&r.change)) {
      *type = RecordType::kLogEpoch;
      return StoreLe(StoreLe(at, epoch->start.epoch), epoch->start.start);
    }
    *type = RecordType::kLogStart;
    return StoreLe(at, std::get<LogStart>(r.change).start);
  }
  char* operator()(const BrokerEpochRecord& r) const {
    *type = RecordType::kBrokerEpoch;
    return StoreLe(to, r.epoch);
  }
  char* operator()(const LogTableRecord&) const {
    *type = RecordType::kLogTable;
    return to;
  }
};

// The checksum of a record up to its payload: its place, then length and type.
uint32_t RecordCrcStart(uint32_t seed, uint64_t offset, uint32_t length, uint8_t type) {
  char prefix[13];
  StoreLe(StoreLe(StoreLe(prefix, offset), length), type);
  return Crc32c(seed, {prefix, sizeof prefix});
}

std::optional<Record> DecodeLogChange(RecordType type, LogNumber log, const Bytes& payload) {
  const char* at = payload.data() + 4;
  switch (type) {
    case RecordType::kLogBatches: {
      if (payload.size() < 20) return std::nullopt;
      LogAppend append{.batches = {payload.Slice(20)},
                       .base_offset = LoadLe<int64_t>(at),
                       .end_offset = LoadLe<int64_t>(at + 8)};
      if (!SplitBatches(append).ok()) return std::nullopt;
      return LogChangeRecord{log, std::move(append)};
    }
    case RecordType::kLogTruncate:
      if (payload.size() != 12) return std::nullopt;
      return LogChangeRecord{log, LogTruncate{LoadLe<int64_t>(at)}};
    case RecordType::kLogEpoch:
      if (payload.size() != 16) return std::nullopt;
      return LogChangeRecord{log, LogEpoch{{LoadLe<int32_t>(at), LoadLe<int64_t>(at + 4)}}};
    case RecordType::kLogStart:
      if (payload.size() != 12) return std::nullopt;
      return LogChangeRecord{log, LogStart{LoadLe<int64_t>(at)}};
    default:
      LS_UNREACHABLE();
  }
}

// Nothing: no payload of this type.
std::optional<Record> DecodeLogRecord(RecordType type, const Bytes& payload) {
  const char* at = payload.data();
  if (type == RecordType::kLogTable) return LogTableRecord{payload};
  if (type == RecordType::kBrokerEpoch) {
    if (payload.size() != 8) return std::nullopt;
    return BrokerEpochRecord{LoadLe<int64_t>(at)};
  }
  if (payload.size() < 4) return std::nullopt;
  const LogNumber log{LoadLe<uint32_t>(at)};
  if (type == RecordType::kLogDeleted) {
    if (payload.size() != 4) return std::nullopt;
    return LogDeletedRecord{log};
  }
  if (type != RecordType::kLogCreated) return DecodeLogChange(type, log, payload);
  if (payload.size() < kLogCreatedBytes) return std::nullopt;
  LogCreatedRecord created{.log = log,
                           .topic = std::string(payload.view().substr(kLogCreatedBytes)),
                           .partition = LoadLe<int32_t>(at + 4),
                           .topic_id = {LoadLe<uint64_t>(at + 8), LoadLe<uint64_t>(at + 16)},
                           .start = LoadLe<int64_t>(at + 24)};
  // The name becomes one of a directory.
  if (!IsTopicName(created.topic) || created.partition < 0 || created.start < 0) {
    return std::nullopt;
  }
  return created;
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
    for (const Bytes& slice : Body(record)) {
      if (slice.size() < kSliceBytesMin) continue;
      sliced_bytes += slice.size();
      ++sliced_count;
    }
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
      char* fixed = to + kRecordHeaderBytes;
      RecordType type;
      char* end = std::visit(WriteFixed{fixed, &type}, record);
      const size_t fixed_bytes = static_cast<size_t>(end - fixed);
      const uint32_t length = static_cast<uint32_t>(fixed_bytes + BodyBytes(record));
      uint32_t crc = RecordCrcStart(seed, at, length, static_cast<uint8_t>(type));
      crc = Crc32c(crc, {fixed, fixed_bytes});
      for (const Bytes& slice : Body(record)) {
        if (!slice.empty()) crc = Crc32c(crc, slice.view());
      }
      StoreLe(StoreLe(StoreLe(to, crc), length), static_cast<uint8_t>(type));
      to = end;
      for (const Bytes& slice : Body(record)) {
        if (slice.size() >= kSliceBytesMin) {
          cuts.push_back({static_cast<size_t>(to - start), &slice});
        } else if (!slice.empty()) {
          std::memcpy(to, slice.data(), slice.size());
          to += slice.size();
        }
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
    if (cut.at > from) slices.push_back(buffer.Slice(from, cut.at - from));
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
    case RecordType::kLogCreated:
    case RecordType::kLogDeleted:
    case RecordType::kLogBatches:
    case RecordType::kLogTruncate:
    case RecordType::kLogEpoch:
    case RecordType::kLogStart:
    case RecordType::kBrokerEpoch:
    case RecordType::kLogTable:
      if (std::optional<Record> record = DecodeLogRecord(static_cast<RecordType>(type), payload)) {
        return *std::move(record);
      }
      break;
    default:
      return absl::UnimplementedError("record type " + std::to_string(type));
  }
  return absl::InvalidArgumentError("a record of type " + std::to_string(type) + " with " +
                                    std::to_string(payload.size()) + " bytes");
}

}  // namespace lockstep::storage
