#include "core/records/record.h"

#include "core/base/check.h"
#include "core/records/big_endian.h"
#include "core/records/varint.h"

namespace lockstep::records {
namespace {

bool Take(size_t size, std::string_view* from, std::string_view* taken) {
  if (from->size() < size) return false;
  *taken = from->substr(0, size);
  from->remove_prefix(size);
  return true;
}

// A string behind its length. Any negative length is null: Kafka reads them so too.
bool TakeNullable(std::string_view* from, std::optional<std::string_view>* taken) {
  int32_t length = 0;
  if (!TakeVarint(from, &length)) return false;
  if (length < 0) {
    taken->reset();
    return true;
  }
  return Take(static_cast<size_t>(length), from, &taken->emplace());
}

bool TakeHeader(std::string_view* from, RecordHeader* header) {
  std::optional<std::string_view> key;
  if (!TakeNullable(from, &key) || !key.has_value()) return false;
  header->key = *key;
  return TakeNullable(from, &header->value);
}

// TakeHeader for those who need to know only that one is there.
bool SkipHeader(std::string_view* from) {
  int32_t key = 0;
  int32_t value = 0;
  std::string_view skipped;
  return TakeVarint(from, &key) && key >= 0 && Take(static_cast<size_t>(key), from, &skipped) &&
         TakeVarint(from, &value) &&
         (value < 0 || Take(static_cast<size_t>(value), from, &skipped));
}

}  // namespace

std::vector<RecordHeader> HeadersOf(const Record& record) {
  std::vector<RecordHeader> headers(static_cast<size_t>(record.header_count));
  std::string_view rest = record.header_bytes;
  for (RecordHeader& header : headers) LS_CHECK(TakeHeader(&rest, &header));
  return headers;
}

bool RecordReader::Refuse(std::string_view why) {
  status_ = absl::DataLossError({why.data(), why.size()});
  rest_ = {};
  return false;
}

bool RecordReader::Next(Record* record) {
  if (!status_.ok()) return false;
  if (read_ == header_.record_count) {
    return rest_.empty() ? false : Refuse("bytes are left after the last record");
  }

  int32_t length = 0;
  std::string_view body;
  if (!TakeVarint(&rest_, &length) || length < 0 ||
      !Take(static_cast<size_t>(length), &rest_, &body)) {
    return Refuse("a record is cut short");
  }
  std::string_view attributes;  // none has a meaning yet
  int64_t timestamp_delta = 0;
  int32_t offset_delta = 0;
  if (!Take(1, &body, &attributes) || !TakeVarlong(&body, &timestamp_delta) ||
      !TakeVarint(&body, &offset_delta) || !TakeNullable(&body, &record->key) ||
      !TakeNullable(&body, &record->value) || !TakeVarint(&body, &record->header_count)) {
    return Refuse("a record is malformed");
  }
  if (offset_delta <= last_delta_ || offset_delta > header_.last_offset_delta) {
    return Refuse("the offset of a record is out of order");
  }
  // No space is set aside for the headers here, so their number needs no bound of its own: each
  // takes two bytes at least, and the loop ends with the bytes.
  record->header_bytes = body;
  if (record->header_count < 0) return Refuse("a record has a negative number of headers");
  for (int32_t i = 0; i < record->header_count; ++i) {
    if (!SkipHeader(&body)) return Refuse("a header of a record is malformed");
  }
  if (!body.empty()) return Refuse("a record is longer than its content");

  ++read_;
  last_delta_ = offset_delta;
  record->offset = header_.base_offset + offset_delta;
  // With LogAppendTime the leader's time stands for the times of all records. The sum wraps, as in
  // Kafka; a wrapped time is refused where times are judged.
  record->timestamp = header_.log_append_time()
                          ? header_.max_timestamp
                          : static_cast<int64_t>(static_cast<uint64_t>(header_.base_timestamp) +
                                                 static_cast<uint64_t>(timestamp_delta));
  return true;
}

absl::StatusOr<ControlMarker> ReadControlMarker(const BatchHeader& header, const Batch& batch) {
  LS_CHECK(header.control());
  // Nobody compresses the 14 bytes of a control record.
  if (header.compression() != Compression::kNone) {
    return absl::DataLossError("a control batch is compressed");
  }
  RecordReader reader(header, batch.records.view());
  Record record;
  if (!reader.Next(&record)) {
    return reader.status().ok() ? absl::DataLossError("a control batch is empty") : reader.status();
  }
  // Later versions append to both, so more bytes are no error.
  if (!record.key.has_value() || record.key->size() < 4 || !record.value.has_value()) {
    return absl::DataLossError("a control record has no key or value");
  }
  ControlMarker marker{.type = LoadBe<int16_t>(record.key->data() + 2)};
  if (marker.type != ControlMarker::kAbort && marker.type != ControlMarker::kCommit) {
    return absl::UnimplementedError("a control record of another kind");
  }
  if (record.value->size() < 6) return absl::DataLossError("a control record has a short value");
  marker.coordinator_epoch = LoadBe<int32_t>(record.value->data() + 2);
  return marker;
}

}  // namespace lockstep::records
