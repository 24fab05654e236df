// What a leader demands of a batch before it gives it offsets. docs/kafka.md, "What a producer may
// send".
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.h"
#include "core/kafka/error.h"
#include "core/records/record_batch.h"

namespace lockstep::kafka {

// The topic's and the request's side of it. Names in comments are keys of topic configurations.
struct ProduceRules {
  // The version of the Produce request.
  int16_t version = 9;
  // max.message.bytes: of the batch as it is sent, header included; inclusive.
  size_t batch_bytes_max = (1 << 20) + records::kBatchLengthEnd;
  // Of the records of one batch, decompressed; inclusive. Kafka has no such bound.
  size_t decompressed_bytes_max = size_t{64} << 20;
  // cleanup.policy holds `compact`: a record without a key could never be compacted.
  bool key_required = false;
  // message.timestamp.type is LogAppendTime: the times of the producer are overwritten, so they are
  // not judged.
  bool log_append_time = false;
  // message.timestamp.before.max.ms and .after.max.ms: how far a record's time may lie from
  // `now_ms`, inclusive.
  int64_t timestamp_before_max_ms = std::numeric_limits<int64_t>::max();
  int64_t timestamp_after_max_ms = std::numeric_limits<int64_t>::max();
  // The leader's wall clock, in milliseconds since 1970.
  int64_t now_ms = 0;
};

// RecordErrors of a Produce response (KIP-467, from version 8 on).
struct RecordError {
  int32_t record = 0;  // its index in the batch
  std::string_view message;

  bool operator==(const RecordError&) const = default;
};
inline constexpr size_t kRecordErrorsMax = 1000;

// What is to be done with the batch: if `error` is kNone, AssignOffsets. The texts are constants.
struct ProduceCheck {
  ErrorCode error = ErrorCode::kNone;
  std::string_view message;
  // Which records are to blame, if it is single ones; at most kRecordErrorsMax.
  std::vector<RecordError> record_errors;

  // Of the batch; valid if there is no error.
  records::BatchHeader header;
  records::Batch batch;  // shares the buffer of what was checked
  // OffsetAssignment::max_timestamp: the latest of the records' times, or the leader's.
  int64_t max_timestamp = records::kNoTimestamp;

  // What it took to open the records: 0 if they are not compressed, and decompressed_bytes_max if
  // they were too much.
  size_t decompressed_bytes = 0;

  bool ok() const { return error == ErrorCode::kNone; }
};

// Judges the records of one partition of a Produce request: `bytes`, which are empty if they were
// null there. Reads everything, copies nothing (decompression goes to a buffer that is thrown
// away). Errors, in the order in which they are looked for:
//
//   INVALID_RECORD                  nothing there; an old message (in version 3 and later)
//   UNSUPPORTED_FOR_MESSAGE_FORMAT  an old message in version 0 to 2
//   MESSAGE_TOO_LARGE               above batch_bytes_max
//   CORRUPT_MESSAGE                 no batch, by its magic or length
//   INVALID_RECORD                  more than one batch
//   CORRUPT_MESSAGE                 a wrong CRC
//   UNSUPPORTED_COMPRESSION_TYPE    an unknown codec, or Zstandard before version 7
//   INVALID_RECORD                  a base offset other than 0; offsets that contradict the count;
//                                   a control batch; attributes that only a broker sets; a producer
//                                   id without epoch or sequence, a transaction without producer id
//   INVALID_TIMESTAMP               the type LogAppendTime
//   MESSAGE_TOO_LARGE               above decompressed_bytes_max
//   INVALID_RECORD                  records that cannot be read, or are not as many as they should
//   INVALID_TIMESTAMP               times out of range
//   INVALID_RECORD                  missing keys
ProduceCheck ValidateForProduce(const Bytes& bytes, const ProduceRules& rules);

}  // namespace lockstep::kafka
