// Record batches from outside. The first byte chooses: the rest is what a producer sends, as it is;
// or a header and records, under a length and a CRC that are made right, so that what lies behind
// those is reached; or what a follower fetched; or something compressed. What is accepted must be
// what a log can hold: with offsets assigned, a follower accepts it too, and its records are read.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "core/base/check.h"
#include "core/kafka/compression.h"
#include "core/kafka/produce_validation.h"
#include "core/records/big_endian.h"
#include "core/records/record.h"

namespace lockstep::kafka {
namespace {

using records::Batch;
using records::BatchHeader;

constexpr size_t kDecompressedMax = 1 << 16;

void Produce(const Bytes& bytes, bool compacted) {
  const ProduceRules rules{.decompressed_bytes_max = kDecompressedMax, .key_required = compacted};
  const ProduceCheck check = ValidateForProduce(bytes, rules);
  if (!check.ok()) return;
  const Batch assigned = AssignOffsets(
      check.batch, {.base_offset = 100, .leader_epoch = 3, .max_timestamp = check.max_timestamp});
  LS_CHECK(assigned.records == check.batch.records);

  records::BatchReader reader(assigned.Join(), {.offset = 100, .epoch_min = 3, .epoch_max = 3});
  const auto item = reader.Next();
  LS_CHECK(item.has_value());
  LS_CHECK(!reader.Next().has_value() && reader.status().ok() && !reader.partial());
  const int64_t end = item->header.next_offset();
  LS_CHECK(reader.next_offset() == end);
  LS_CHECK_EQ(end, 100 + item->header.record_count);

  std::string scratch;
  const auto opened = OpenRecords(item->header, item->batch, kDecompressedMax, &scratch);
  LS_CHECK(opened.ok());
  records::RecordReader record_reader(item->header, *opened);
  int64_t offset = 100;
  int64_t max_timestamp = records::kNoTimestamp;
  for (records::Record record; record_reader.Next(&record); ++offset) {
    LS_CHECK_EQ(record.offset, offset);
    LS_CHECK_EQ(HeadersOf(record).size(), static_cast<size_t>(record.header_count));
    max_timestamp = std::max(max_timestamp, record.timestamp);
  }
  LS_CHECK(record_reader.status().ok());
  LS_CHECK_EQ(offset, end);
  LS_CHECK_EQ(max_timestamp, item->header.max_timestamp);
}

// The content of a header from its attributes on, then records.
Bytes Sealed(std::string_view input) {
  std::string header(records::kBatchHeaderBytes, '\0');
  header[16] = records::kBatchMagic;
  const size_t taken = std::min(input.size(), header.size() - 21);
  std::copy_n(input.data(), taken, header.data() + 21);
  const Batch batch{Bytes::Copy(header), Bytes::Copy(input.substr(taken))};
  return SealBatch(HeaderOf(batch), batch.records).Join();
}

void Follow(const Bytes& bytes) {
  records::BatchReader reader(bytes, {.batch_bytes_max = 1 << 16});
  size_t size = 0;
  int64_t end = 0;
  while (const auto item = reader.Next()) {
    LS_CHECK_GE(item->header.base_offset, end);
    end = item->header.next_offset();
    size += item->header.size();
    records::RecordReader records(item->header, item->batch.records.view());
    for (records::Record record; records.Next(&record);) LS_CHECK_LT(record.offset, end);
    if (item->header.control()) ReadControlMarker(item->header, item->batch).status().IgnoreError();
  }
  LS_CHECK_EQ(reader.position(), size);
  LS_CHECK_EQ(reader.partial(), reader.status().ok() && size < bytes.size());
}

}  // namespace
}  // namespace lockstep::kafka

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;         // NOLINT: a fuzz target has no header to spoil
  using namespace lockstep::kafka;  // NOLINT
  if (size < 1) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const uint8_t choice = data[0] & 0x0f;
  const bool compacted = (data[0] & 0x10) != 0;
  if (choice == 0) {
    Produce(Bytes::Copy(input), compacted);
  } else if (choice < 8) {
    Produce(Sealed(input), compacted);
  } else if (choice < 10) {
    Follow(Bytes::Copy(input));
  } else {
    std::string out;
    const auto compression = static_cast<records::Compression>(choice - 10);
    const absl::Status status = Decompress(compression, input, kDecompressedMax, &out);
    LS_CHECK_LE(out.size(), kDecompressedMax + (status.ok() ? 0 : 1));
  }
  return 0;
}
