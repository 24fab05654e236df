// Kafka's record batch of magic 2: what producers send, what logs and fetch responses consist of.
// docs/kafka.md, "Batches".
//
//   at  field                      at  field                     at  field
//    0  base_offset           i64  21  attributes           i16  43  producer_id       i64
//    8  batch_length          i32  23  last_offset_delta    i32  51  producer_epoch    i16
//   12  partition_leader_epoch i32 27  base_timestamp       i64  53  base_sequence     i32
//   16  magic                 i8   35  max_timestamp        i64  57  record_count      i32
//   17  crc                   u32                                61  the records
//
// All big-endian. `batch_length` counts the bytes after itself. `crc` is the CRC-32C of everything
// from `attributes` on, so that a leader can set the two fields it owns, base_offset and
// partition_leader_epoch, without touching what the producer signed.
//
// In core a batch is a Batch: two slices, the 61 bytes of the header and the records. A leader
// makes a new header (61 bytes) and shares the records with the buffer that came from the socket,
// so that a payload is never copied, and all that is said about a batch is read from the first
// slice.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/bytes.h"

namespace lockstep::records {

inline constexpr size_t kBatchHeaderBytes = 61;
// base_offset and batch_length: what `batch_length` does not count.
inline constexpr size_t kBatchLengthEnd = 12;
inline constexpr int8_t kBatchMagic = 2;

inline constexpr int64_t kNoProducerId = -1;
inline constexpr int16_t kNoProducerEpoch = -1;
inline constexpr int32_t kNoSequence = -1;
inline constexpr int64_t kNoTimestamp = -1;

// How the records are compressed: bits 0 to 2 of the attributes. core/kafka/compression.h opens
// them.
enum class Compression : uint8_t {
  kNone = 0,
  kGzip = 1,
  kSnappy = 2,
  kLz4 = 3,
  kZstd = 4,
  kUnknown = 5,  // 5, 6 and 7, to which no version of Kafka has given a meaning
};

// The sequence number `count` after `sequence`. Sequences are 0 to 2^31 - 1 and wrap to 0.
// Requires: sequence >= 0, count >= 0.
int32_t SequencePlus(int32_t sequence, int32_t count);
// Likewise backwards; also how many sequences there are from `count`, as a sequence, to `sequence`.
int32_t SequenceMinus(int32_t sequence, int32_t count);

// The fields of a header, as they stand there.
struct BatchHeader {
  int64_t base_offset = 0;
  int32_t batch_length = 0;
  int32_t partition_leader_epoch = -1;  // -1 in what clients send
  int8_t magic = kBatchMagic;
  uint32_t crc = 0;
  uint16_t attributes = 0;
  // Of the last record, or of what was the last one before compaction.
  int32_t last_offset_delta = 0;
  int64_t base_timestamp = kNoTimestamp;  // milliseconds since 1970, like all timestamps of Kafka
  int64_t max_timestamp = kNoTimestamp;
  int64_t producer_id = kNoProducerId;
  int16_t producer_epoch = kNoProducerEpoch;
  int32_t base_sequence = kNoSequence;
  int32_t record_count = 0;

  static constexpr uint16_t kCompressionMask = 0x07;
  static constexpr uint16_t kLogAppendTime = 0x08;
  static constexpr uint16_t kTransactional = 0x10;
  static constexpr uint16_t kControl = 0x20;
  // base_timestamp is when the tombstones may go (KIP-534); only a log cleaner writes it.
  static constexpr uint16_t kDeleteHorizon = 0x40;

  bool operator==(const BatchHeader&) const = default;

  // Of the whole batch, header included.
  size_t size() const { return kBatchLengthEnd + static_cast<size_t>(batch_length); }
  int64_t last_offset() const { return base_offset + last_offset_delta; }
  // Where the next batch of the partition starts.
  int64_t next_offset() const { return last_offset() + 1; }
  Compression compression() const {
    return static_cast<Compression>(std::min(attributes & kCompressionMask, 5));
  }
  bool log_append_time() const { return (attributes & kLogAppendTime) != 0; }
  bool transactional() const { return (attributes & kTransactional) != 0; }
  bool control() const { return (attributes & kControl) != 0; }
  bool has_producer() const { return producer_id >= 0; }
  // kNoSequence if base_sequence is.
  int32_t last_sequence() const {
    return base_sequence < 0 ? kNoSequence : SequencePlus(base_sequence, last_offset_delta);
  }
  // "batch 17..19 epoch 3 producer 7/0 seq 4"
  std::string ToString() const;
};

// One batch: see the top of this file. header.size() is kBatchHeaderBytes.
struct Batch {
  Bytes header;
  Bytes records;

  // Splits a batch that lies in one buffer, sharing it. Requires: bytes.size() >= 61, and nothing
  // after the batch.
  static Batch Of(const Bytes& bytes);

  size_t size() const { return header.size() + records.size(); }
  std::vector<Bytes> Slices() const { return {header, records}; }
  // Both slices in one new buffer: a copy, for tests and for what has no other way.
  Bytes Join() const;
};

// The header of the batch that `bytes` start with. All of the batch must be there, bytes after it
// may be. Checked: sizes, magic, and that offsets and counts are ones that a log can hold
// (base_offset and last_offset_delta not negative, last_offset + 1 no overflow, 0 <= record_count
// <= last_offset_delta + 1). Not checked: the CRC, and what the records say.
//
// Errors: OutOfRange if the bytes end before the batch does (see BatchSize); Unimplemented if this
// is a message of magic 0 or 1, which Kafka up to 0.10 wrote; InvalidArgument if the offsets or the
// counts are wrong; DataLoss if it is no batch at all.
absl::StatusOr<BatchHeader> ParseBatchHeader(std::string_view bytes);

// The header of a batch that has been parsed before. Requires: batch.header.size() is 61.
BatchHeader HeaderOf(const Batch& batch);

// How many bytes the batch has that `bytes` start with, be they there or not. Zero if there are
// fewer than 12 bytes; DataLoss if there can be no such batch. At most 2^31 + 11.
absl::StatusOr<size_t> BatchSize(std::string_view bytes);

// The batch around `records`: batch_length and crc are computed, the rest of `header` is believed.
Batch SealBatch(BatchHeader header, Bytes records);

// Whether the CRC is that of the content.
bool CrcMatches(const Batch& batch);

// ---- What a leader writes into a batch ----------------------------------------------------------

struct OffsetAssignment {
  int64_t base_offset = 0;
  int32_t leader_epoch = 0;
  // The timestamp of the last record by time, as the leader saw it (ProduceCheck::max_timestamp).
  // Kafka does not believe a producer's max_timestamp either: time indexes are built from it.
  int64_t max_timestamp = kNoTimestamp;
  // message.timestamp.type=LogAppendTime: max_timestamp is the leader's time, and stands for all
  // records.
  bool log_append_time = false;
};

// The batch as it goes into the log. The records are shared; the header is new. The CRC is computed
// anew, over the whole content, only if a timestamp changes.
Batch AssignOffsets(const Batch& batch, const OffsetAssignment& assignment);

// ---- Reading what a leader or a disk hands over -------------------------------------------------

struct BatchReaderOptions {
  // Where the first batch must start. Nothing: anywhere (a consumer's fetch response starts with
  // the batch that holds the offset, an index position with any batch before it).
  std::optional<int64_t> offset;
  // Whether each batch must start where the one before it ended. False for logs that have been
  // compacted: they have gaps, but never go back.
  bool contiguous = true;
  // Inclusive bounds of partition_leader_epoch. A follower gives the epoch of its last batch, and
  // the epoch in which it fetches: a leader cannot hold batches of epochs after its own. Within
  // what is read, epochs never fall.
  int32_t epoch_min = 0;
  int32_t epoch_max = std::numeric_limits<int32_t>::max();
  // Inclusive; of one batch, header included.
  size_t batch_bytes_max = size_t{std::numeric_limits<int32_t>::max()} + kBatchLengthEnd;
};

// Goes through the batches of a fetch response or of a piece of a segment, and stops at the first
// that should not be there. All slices share the buffer.
class BatchReader {
 public:
  struct Item {
    BatchHeader header;
    Batch batch;
  };

  BatchReader(Bytes bytes, const BatchReaderOptions& options)
      : bytes_(std::move(bytes)), options_(options) {}

  // The next batch, its CRC checked; nothing at the end, before a batch that is not whole, and
  // before one that is refused.
  std::optional<Item> Next();

  // Why the last Next() gave nothing: Ok at the end or before a partial batch. Otherwise
  // Unimplemented for magic 0 and 1, and DataLoss for everything else.
  const absl::Status& status() const { return status_; }
  // How many bytes the batches handed out have, together: where a log would be cut.
  size_t position() const { return position_; }
  // Bytes are left over that are the start of a batch: a fetch response may end in the middle of
  // one. `partial_bytes` says how many that batch has in all, or zero if not even its length is
  // there.
  bool partial() const { return partial_; }
  size_t partial_bytes() const { return partial_bytes_; }
  // Where the next batch starts; nothing if none was read and none was demanded.
  std::optional<int64_t> next_offset() const { return options_.offset; }

 private:
  std::optional<Item> Refuse(absl::Status status);

  Bytes bytes_;
  BatchReaderOptions options_;  // `offset` and `epoch_min` move along
  size_t position_ = 0;
  bool partial_ = false;
  size_t partial_bytes_ = 0;
  absl::Status status_;
};

// Goes through batches that lie in several slices, as logs hand them over: each begins in a slice
// that holds its whole header, and may go on in those after it.
class SlicedBatches {
 public:
  struct Item {
    BatchHeader header;
    std::vector<Bytes> slices;  // of this batch alone
    // In one piece: a copy, unless it lies in one.
    Bytes Joined() const;
  };

  // `slices` outlives this, and holds whole batches that have been checked.
  explicit SlicedBatches(const std::vector<Bytes>& slices) : slices_(slices) {}
  std::optional<Item> Next();

 private:
  const std::vector<Bytes>& slices_;
  size_t slice_ = 0;
  size_t at_ = 0;  // in it
};

}  // namespace lockstep::records
