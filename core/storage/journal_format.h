// The journal's bytes. The only place that knows the layout; docs/disk.md shows it with an example.
//
//   segment := header batch* zero*
//   batch   := batch-header record+, at a multiple of 8
//   record  := record-header payload
//
// A batch is what one sync makes durable, and it is written only after everything before it is
// durable. So an intact batch proves that nothing before it may be damaged: that is how recovery
// tells a torn tail from a damaged journal. A batch counts as a whole or not at all.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/bytes.h"
#include "core/base/ids.h"
#include "core/storage/checkpoint.h"
#include "core/storage/store.h"

namespace lockstep::storage {

inline constexpr uint32_t kJournalVersion = 1;
inline constexpr uint64_t kSegmentHeaderBytes = 80;
inline constexpr uint64_t kBatchHeaderBytes = 16;
inline constexpr uint64_t kRecordHeaderBytes = 9;
inline constexpr uint64_t kBatchAlignment = 8;
static_assert(kSegmentHeaderBytes % kBatchAlignment == 0);

constexpr uint64_t AlignBatch(uint64_t offset) {
  return (offset + kBatchAlignment - 1) / kBatchAlignment * kBatchAlignment;
}

// ---- Segment header ----------------------------------------------------------------------------

struct SegmentHeader {
  ServerId server;
  uint64_t sequence = 0;
  // Differs between segments of one name (one that was removed and made again), and goes into every
  // checksum of the segment: bytes of another segment, or of another place, never check.
  uint64_t salt = 0;
  // Where the segment before ends, exclusive; 0 if this is the first one ever. Shows when batches
  // at its end are lost without a trace.
  uint64_t previous_end = 0;
  Checkpoint checkpoint;  // the state before the segment's first record
  // The length that the file had, durably, before this header was written. 0: not known. A shorter
  // file was cut by something else than a crash.
  uint32_t allocated = 0;

  bool operator==(const SegmentHeader&) const = default;
  // What the checksums of this segment start from.
  uint32_t Seed() const;
};

Bytes EncodeSegmentHeader(const SegmentHeader& header);

// kDataLoss: these are not the bytes of a header (never written, torn or damaged).
// kUnimplemented: a format version that this program does not know.
absl::StatusOr<SegmentHeader> DecodeSegmentHeader(std::string_view bytes);

// ---- Batches -----------------------------------------------------------------------------------

struct BatchHeader {
  uint32_t bytes = 0;  // of all its records, headers included
  uint32_t count = 0;  // of its records; at least 1
};

// Size of the record in a batch, its header included.
uint64_t EncodedBytes(const Record& record);

// The batch of all `records`, which begins at `offset` of its segment. `record_bytes` is the sum of
// their EncodedBytes. Large bodies are in the result as they are, not copied.
// Requires: offset is a multiple of kBatchAlignment; at least one record.
std::vector<Bytes> EncodeBatch(uint32_t seed, uint64_t offset, std::span<const Record> records,
                               uint64_t record_bytes);

// Nothing if no batch header written for this place of this segment is there.
std::optional<BatchHeader> DecodeBatchHeader(uint32_t seed, uint64_t offset,
                                             std::string_view bytes);

// ---- Records -----------------------------------------------------------------------------------

struct RecordHeader {
  uint32_t crc = 0;
  uint32_t length = 0;  // of the payload
  uint8_t type = 0;
};

// Requires: bytes.size() >= kRecordHeaderBytes. Nothing is checked yet.
RecordHeader DecodeRecordHeader(std::string_view bytes);

// Whether header and payload are as they were written at this place of this segment.
bool RecordIsIntact(uint32_t seed, uint64_t offset, const RecordHeader& header,
                    std::string_view payload);

// The record of an intact payload; a body shares its buffer. An error means that a
// newer, or a wrong, program wrote it.
absl::StatusOr<Record> DecodeRecord(uint8_t type, const Bytes& payload);

}  // namespace lockstep::storage
