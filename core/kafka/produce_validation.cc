#include "core/kafka/produce_validation.h"

#include <algorithm>

#include "core/kafka/compression.h"
#include "core/records/record.h"

namespace lockstep::kafka {
namespace {

using records::BatchHeader;
using records::Compression;

// Zstandard came with version 7 (KIP-110): older consumers could not read it.
constexpr int16_t kFirstVersionWithZstd = 7;
// Record batches came with version 3 (KIP-98).
constexpr int16_t kFirstVersionWithBatches = 3;

struct Refusal {
  ErrorCode error = ErrorCode::kNone;
  std::string_view message;

  explicit operator bool() const { return error != ErrorCode::kNone; }
};

// Whether there is exactly one batch, and the leader may look into it.
Refusal JudgeBytes(std::string_view bytes, const ProduceRules& rules,
                   const absl::StatusOr<BatchHeader>& header) {
  if (bytes.empty()) return {ErrorCode::kInvalidRecord, "there is no record batch"};
  if (absl::IsUnimplemented(header.status())) {
    return rules.version < kFirstVersionWithBatches
               ? Refusal{ErrorCode::kUnsupportedForMessageFormat,
                         "messages of magic 0 and 1 are not supported"}
               : Refusal{ErrorCode::kInvalidRecord, "only record batches of magic 2 are allowed"};
  }
  // Judged by the length alone, so that a batch that is both too large and damaged is not sent
  // again and again: CORRUPT_MESSAGE makes clients retry.
  if (bytes.size() > rules.batch_bytes_max) {
    return {ErrorCode::kMessageTooLarge, "the record batch is larger than max.message.bytes"};
  }
  if (absl::IsDataLoss(header.status()) || absl::IsOutOfRange(header.status())) {
    return {ErrorCode::kCorruptMessage, "this is no record batch"};
  }
  return {};
}

// Whether a producer may send a batch with this header.
Refusal JudgeHeader(const BatchHeader& header, const ProduceRules& rules) {
  const auto invalid = [](std::string_view message) {
    return Refusal{ErrorCode::kInvalidRecord, message};
  };
  if (header.compression() == Compression::kUnknown) {
    return {ErrorCode::kUnsupportedCompressionType, "an unknown compression codec"};
  }
  if (header.compression() == Compression::kZstd && rules.version < kFirstVersionWithZstd) {
    return {ErrorCode::kUnsupportedCompressionType,
            "Zstandard needs version 7 of the Produce request"};
  }
  if (header.base_offset != 0) return invalid("the base offset is not 0");
  if (header.record_count == 0) return invalid("the batch has no records");
  if (header.record_count != header.last_offset_delta + int64_t{1}) {
    return invalid("the offsets of the batch contradict its number of records");
  }
  if (header.control()) return invalid("clients may not write control records");
  // The delete horizon gives the base timestamp another meaning; bits without a meaning may get
  // one.
  constexpr uint16_t kAllowed =
      BatchHeader::kCompressionMask | BatchHeader::kLogAppendTime | BatchHeader::kTransactional;
  if ((header.attributes & ~kAllowed) != 0) {
    return invalid("the batch has attributes that clients may not set");
  }
  if (header.has_producer()) {
    if (header.base_sequence < 0) return invalid("a producer id without a sequence number");
    if (header.producer_epoch < 0) return invalid("a producer id without an epoch");
  } else {
    if (header.producer_id != records::kNoProducerId) return invalid("a negative producer id");
    if (header.transactional()) return invalid("a transaction without a producer id");
  }
  if (header.log_append_time()) {
    return {ErrorCode::kInvalidTimestamp, "producers may not set the timestamp type LogAppendTime"};
  }
  return {};
}

bool TimeIsInRange(int64_t timestamp, const ProduceRules& rules) {
  if (timestamp == records::kNoTimestamp) return true;
  // In 65 bits, so to say: the distance of two numbers fits into an unsigned one.
  const bool past = timestamp < rules.now_ms;
  const uint64_t later = static_cast<uint64_t>(std::max(timestamp, rules.now_ms));
  const uint64_t distance = later - static_cast<uint64_t>(std::min(timestamp, rules.now_ms));
  return distance <=
         static_cast<uint64_t>(past ? rules.timestamp_before_max_ms : rules.timestamp_after_max_ms);
}

// Goes through all records; fills max_timestamp and record_errors.
Refusal JudgeRecords(const BatchHeader& header, std::string_view bytes, const ProduceRules& rules,
                     ProduceCheck* check) {
  bool bad_time = false;
  int64_t max_timestamp = records::kNoTimestamp;
  records::RecordReader reader(header, bytes);
  records::Record record;
  for (int32_t index = 0; reader.Next(&record); ++index) {
    // That there are as many records as last_offset_delta + 1, and that offsets rise, leaves 0, 1,
    // 2 ... and nothing else.
    max_timestamp = std::max(max_timestamp, record.timestamp);
    std::string_view error;
    if (rules.key_required && !record.key.has_value()) {
      error = "a compacted topic needs keys";
    } else if (!rules.log_append_time && !TimeIsInRange(record.timestamp, rules)) {
      error = "the timestamp is out of range";
      bad_time = true;
    }
    if (!error.empty() && check->record_errors.size() < kRecordErrorsMax) {
      check->record_errors.push_back({index, error});
    }
  }
  if (!reader.status().ok()) {
    check->record_errors.clear();
    return {ErrorCode::kInvalidRecord, "the records of the batch are malformed"};
  }
  if (bad_time) {
    return {ErrorCode::kInvalidTimestamp, "records were refused for their timestamps"};
  }
  if (!check->record_errors.empty()) {
    return {ErrorCode::kInvalidRecord, "records were refused"};
  }
  check->max_timestamp = rules.log_append_time ? rules.now_ms : max_timestamp;
  return {};
}

Refusal Judge(const Bytes& bytes, const ProduceRules& rules, ProduceCheck* check) {
  const absl::StatusOr<BatchHeader> parsed = records::ParseBatchHeader(bytes.view());
  if (const Refusal refusal = JudgeBytes(bytes.view(), rules, parsed)) return refusal;

  const absl::StatusOr<size_t> size = records::BatchSize(bytes.view());
  if (*size != bytes.size()) {
    return {ErrorCode::kInvalidRecord, "there must be exactly one record batch per partition"};
  }
  check->batch = records::Batch::Of(bytes);
  // Before anything that the CRC covers is believed, for better or for worse.
  if (!records::CrcMatches(check->batch)) {
    return {ErrorCode::kCorruptMessage, "the CRC of the record batch is wrong"};
  }
  if (!parsed.ok()) {
    return {ErrorCode::kInvalidRecord, "the batch has impossible offsets or counts"};
  }
  check->header = *parsed;
  if (const Refusal refusal = JudgeHeader(check->header, rules)) return refusal;

  std::string scratch;
  const absl::StatusOr<std::string_view> opened =
      OpenRecords(check->header, check->batch, rules.decompressed_bytes_max, &scratch);
  if (absl::IsResourceExhausted(opened.status())) {
    check->decompressed_bytes = rules.decompressed_bytes_max;
    return {ErrorCode::kMessageTooLarge, "the records of the batch decompress to too many bytes"};
  }
  // Not CORRUPT_MESSAGE, which asks for a retry: the CRC says that it was sent like this.
  if (!opened.ok()) {
    return {ErrorCode::kInvalidRecord, "the records of the batch cannot be decompressed"};
  }
  check->decompressed_bytes = scratch.size();
  return JudgeRecords(check->header, *opened, rules, check);
}

}  // namespace

ProduceCheck ValidateForProduce(const Bytes& bytes, const ProduceRules& rules) {
  ProduceCheck check;
  const Refusal refusal = Judge(bytes, rules, &check);
  check.error = refusal.error;
  check.message = refusal.message;
  return check;
}

}  // namespace lockstep::kafka
