// Whatever is built is read back, and whatever is changed in a batch is noticed or is not covered.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "core/records/batch_builder.h"
#include "core/records/varint.h"

namespace lockstep::records {
namespace {

using MaybeText = rc::Maybe<std::string>;

struct SentRecord {
  int64_t timestamp;
  MaybeText key;
  MaybeText value;
  std::vector<std::pair<std::string, MaybeText>> headers;
};

std::optional<std::string_view> View(const MaybeText& text) {
  return text ? std::optional<std::string_view>(*text) : std::nullopt;
}

std::vector<SentRecord> AnyRecords() {
  const auto records =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<SentRecord>>(rc::gen::construct<SentRecord>(
          rc::gen::arbitrary<int64_t>(), rc::gen::arbitrary<MaybeText>(),
          rc::gen::arbitrary<MaybeText>(),
          rc::gen::arbitrary<std::vector<std::pair<std::string, MaybeText>>>())));
  return records;
}

Batch Build(const std::vector<SentRecord>& sent, const BatchBuilder::Producer& producer) {
  BatchBuilder builder(producer);
  for (const SentRecord& record : sent) {
    std::vector<RecordHeader> headers;
    for (const auto& [key, value] : record.headers) headers.push_back({key, View(value)});
    builder.Add(record.timestamp, View(record.key), View(record.value), headers);
  }
  RC_ASSERT(builder.Build().size() == builder.size());
  return builder.Build();
}

RC_GTEST_PROP(Varint, ComesBack, (int64_t value)) {
  std::string bytes;
  AppendVarint(value, &bytes);
  std::string_view from = bytes;
  int64_t back = 0;
  RC_ASSERT(TakeVarlong(&from, &back));
  RC_ASSERT(from.empty());
  RC_ASSERT(back == value);

  std::string_view narrow = bytes;
  int32_t number = 0;
  const bool fits = value == static_cast<int32_t>(value);
  RC_ASSERT(TakeVarint(&narrow, &number) == fits);
  if (fits) RC_ASSERT(number == value);
}

RC_GTEST_PROP(BatchBuilder, WhatIsBuiltIsRead, ()) {
  const auto sent = AnyRecords();
  const BatchBuilder::Producer producer{.id = *rc::gen::inRange<int64_t>(-1, 5),
                                        .epoch = *rc::gen::inRange<int16_t>(0, 5),
                                        .base_sequence = *rc::gen::nonNegative<int32_t>(),
                                        .transactional = *rc::gen::arbitrary<bool>()};
  const auto offset = *rc::gen::inRange<int64_t>(0, int64_t{1} << 62);
  const Batch built = Build(sent, producer);
  const OffsetAssignment assignment{
      .base_offset = offset, .leader_epoch = 3, .max_timestamp = HeaderOf(built).max_timestamp};
  const Bytes bytes = AssignOffsets(built, assignment).Join();

  BatchReader batches(bytes, {.offset = offset, .epoch_min = 3, .epoch_max = 3});
  const auto item = batches.Next();
  RC_ASSERT(item.has_value());
  RC_ASSERT(item->header.producer_id == producer.id);
  RC_ASSERT(item->header.base_sequence == producer.base_sequence);
  RC_ASSERT(item->header.transactional() == producer.transactional);
  RecordReader records(item->header, item->batch.records.view());
  int64_t max_timestamp = std::numeric_limits<int64_t>::min();
  for (size_t i = 0; i < sent.size(); ++i) {
    Record record;
    RC_ASSERT(records.Next(&record));
    RC_ASSERT(record.offset == offset + static_cast<int64_t>(i));
    RC_ASSERT(record.timestamp == sent[i].timestamp);
    RC_ASSERT(record.key == View(sent[i].key));
    RC_ASSERT(record.value == View(sent[i].value));
    const auto headers = HeadersOf(record);
    RC_ASSERT(headers.size() == sent[i].headers.size());
    for (size_t h = 0; h < headers.size(); ++h) {
      RC_ASSERT(headers[h].key == sent[i].headers[h].first);
      RC_ASSERT(headers[h].value == View(sent[i].headers[h].second));
    }
    max_timestamp = std::max(max_timestamp, record.timestamp);
  }
  Record none;
  RC_ASSERT(!records.Next(&none));
  RC_ASSERT(records.status().ok());
  RC_ASSERT(item->header.max_timestamp == max_timestamp);
  RC_ASSERT(!batches.Next().has_value());
  RC_ASSERT(batches.position() == bytes.size());
}

RC_GTEST_PROP(BatchReader, NoticesEveryChangedByte, ()) {
  const Batch built = Build(AnyRecords(), {});
  const OffsetAssignment assignment{
      .base_offset = 7, .leader_epoch = 3, .max_timestamp = HeaderOf(built).max_timestamp};
  std::string bytes(AssignOffsets(built, assignment).Join().view());
  const auto at = *rc::gen::inRange<size_t>(0, bytes.size());
  const auto change = *rc::gen::inRange<uint8_t>(1, 255);
  bytes[at] = static_cast<char>(bytes[at] ^ change);

  // With the offset and the epoch that are expected, nothing is left uncovered.
  BatchReader reader(Bytes::Copy(bytes), {.offset = 7, .epoch_min = 3, .epoch_max = 3});
  RC_ASSERT(!reader.Next().has_value());
  // A length that grew looks like a batch that is not all there yet.
  RC_ASSERT(!reader.status().ok() || (reader.partial() && at >= 8 && at < 12));
  RC_ASSERT(reader.position() == 0u);
}

RC_GTEST_PROP(RecordReader, AnyBytesEnd, (const std::string& bytes)) {
  const auto count = *rc::gen::inRange<int32_t>(0, 100);
  RecordReader reader({.last_offset_delta = 1000, .record_count = count}, bytes);
  int32_t read = 0;
  for (Record record; reader.Next(&record); ++read) HeadersOf(record);
  RC_ASSERT(read <= count);
  RC_ASSERT(!reader.status().ok() || read == count);
}

}  // namespace
}  // namespace lockstep::records
