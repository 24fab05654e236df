// The records within a batch, one by one. docs/kafka.md, "Batches".
//
//   record := length:varint attributes:i8 timestamp_delta:varlong offset_delta:varint
//             key_length:varint key value_length:varint value header_count:varint header*
//   header := key_length:varint key value_length:varint value
//
// A length of -1 is null, which is another thing than empty: a null value is a tombstone. Varints
// are zig-zag.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/records/record_batch.h"

namespace lockstep::records {

struct RecordHeader {
  std::string_view key;
  std::optional<std::string_view> value;

  bool operator==(const RecordHeader&) const = default;
};

// Views into what the reader reads.
struct Record {
  int64_t offset = 0;
  int64_t timestamp = kNoTimestamp;
  std::optional<std::string_view> key;
  std::optional<std::string_view> value;
  int32_t header_count = 0;
  // The headers as they stand there, known to be well formed. See HeadersOf.
  std::string_view header_bytes;
};

// The headers of a record that came out of a RecordReader.
std::vector<RecordHeader> HeadersOf(const Record& record);

// Goes through the records of a batch: each within its own length, offsets rising and at most
// last_offset, exactly record_count of them, and nothing after the last.
class RecordReader {
 public:
  // `records` are uncompressed: Batch::records itself, or what Decompress made of it. They must
  // outlive the reader and what it hands out.
  RecordReader(const BatchHeader& header, std::string_view records)
      : header_(header), rest_(records) {}

  // False at the end, and at what is no record.
  bool Next(Record* record);
  // Ok, or DataLoss. Only after Next() said false is it known that the batch is whole.
  const absl::Status& status() const { return status_; }

 private:
  bool Refuse(std::string_view why);

  const BatchHeader header_;
  std::string_view rest_;
  int32_t read_ = 0;
  int32_t last_delta_ = -1;
  absl::Status status_;
};

// ---- Control records ----------------------------------------------------------------------------

// The one record of a control batch of a transaction: how it ended.
struct ControlMarker {
  static constexpr int16_t kAbort = 0;
  static constexpr int16_t kCommit = 1;

  int16_t type = kAbort;
  int32_t coordinator_epoch = 0;

  bool operator==(const ControlMarker&) const = default;
};

// The marker of a batch whose header says control(). Errors: DataLoss if the record is no control
// record; Unimplemented for types that end no transaction (KRaft has some), which readers skip.
absl::StatusOr<ControlMarker> ReadControlMarker(const BatchHeader& header, const Batch& batch);

}  // namespace lockstep::records
