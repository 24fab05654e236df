#include "core/records/batch_builder.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/records/big_endian.h"
#include "core/records/varint.h"

namespace lockstep::records {
namespace {

void AppendNullable(const std::optional<std::string_view>& text, std::string* out) {
  AppendVarint(text.has_value() ? static_cast<int64_t>(text->size()) : -1, out);
  if (text.has_value()) out->append(*text);
}

}  // namespace

void BatchBuilder::Add(int64_t timestamp, std::optional<std::string_view> key,
                       std::optional<std::string_view> value,
                       const std::vector<RecordHeader>& headers) {
  if (count_ == 0) base_timestamp_ = max_timestamp_ = timestamp;
  max_timestamp_ = std::max(max_timestamp_, timestamp);

  std::string body(1, '\0');
  // The difference wraps, as the sum of a reader does.
  AppendVarint(static_cast<int64_t>(static_cast<uint64_t>(timestamp) -
                                    static_cast<uint64_t>(base_timestamp_)),
               &body);
  AppendVarint(count_, &body);
  AppendNullable(key, &body);
  AppendNullable(value, &body);
  AppendVarint(static_cast<int64_t>(headers.size()), &body);
  for (const RecordHeader& header : headers) {
    AppendNullable(header.key, &body);
    AppendNullable(header.value, &body);
  }
  AppendVarint(static_cast<int64_t>(body.size()), &records_);
  records_ += body;
  ++count_;
}

Batch BatchBuilder::Build() const {
  LS_CHECK_GT(count_, 0);
  BatchHeader header;
  header.attributes = producer_.transactional ? BatchHeader::kTransactional : 0;
  header.last_offset_delta = count_ - 1;
  header.base_timestamp = base_timestamp_;
  header.max_timestamp = max_timestamp_;
  header.producer_id = producer_.id;
  header.producer_epoch = producer_.epoch;
  header.base_sequence = producer_.base_sequence;
  header.record_count = count_;
  return SealBatch(header, Bytes::Copy(records_));
}

Batch BuildControlBatch(const ControlMarker& marker, int64_t producer_id, int16_t producer_epoch,
                        int64_t timestamp) {
  char key[4];  // version, type
  StoreBe(StoreBe(key, int16_t{0}), marker.type);
  char value[6];  // version, coordinator epoch
  StoreBe(StoreBe(value, int16_t{0}), marker.coordinator_epoch);
  BatchBuilder builder;
  builder.Add(timestamp, std::string_view(key, sizeof key), std::string_view(value, sizeof value));
  const Batch batch = builder.Build();
  BatchHeader header = HeaderOf(batch);
  header.attributes = BatchHeader::kTransactional | BatchHeader::kControl;
  header.producer_id = producer_id;
  header.producer_epoch = producer_epoch;
  return SealBatch(header, batch.records);
}

}  // namespace lockstep::records
