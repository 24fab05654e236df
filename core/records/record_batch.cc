#include "core/records/record_batch.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/check.h"
#include "core/base/crc32c.h"
#include "core/records/big_endian.h"

namespace lockstep::records {
namespace {

// Where the fields are that are read or written alone.
constexpr size_t kBatchLengthAt = 8;
constexpr size_t kLeaderEpochAt = 12;
constexpr size_t kMagicAt = 16;
constexpr size_t kCrcAt = 17;
constexpr size_t kAttributesAt = 21;
constexpr size_t kMaxTimestampAt = 35;

// In the same order as in the format, with nothing between them.
template <typename Header, typename Visit>
void Fields(Header& header, Visit visit) {
  visit(header.base_offset);
  visit(header.batch_length);
  visit(header.partition_leader_epoch);
  visit(header.magic);
  visit(header.crc);
  visit(header.attributes);
  visit(header.last_offset_delta);
  visit(header.base_timestamp);
  visit(header.max_timestamp);
  visit(header.producer_id);
  visit(header.producer_epoch);
  visit(header.base_sequence);
  visit(header.record_count);
}

BatchHeader Load(const char* from) {
  BatchHeader header;
  Fields(header, [&]<typename T>(T& field) {
    field = LoadBe<T>(from);
    from += sizeof(T);
  });
  return header;
}

uint32_t Crc(std::string_view header, std::string_view records) {
  return Crc32c(Crc32c(0, header.substr(kAttributesAt, kBatchHeaderBytes - kAttributesAt)),
                records);
}

}  // namespace

int32_t SequencePlus(int32_t sequence, int32_t count) {
  LS_CHECK_GE(sequence, 0);
  LS_CHECK_GE(count, 0);
  // 2^31 numbers: the sum of two of them fits into an unsigned, and the wrap is its top bit.
  return static_cast<int32_t>((static_cast<uint32_t>(sequence) + static_cast<uint32_t>(count)) &
                              0x7fffffffu);
}

int32_t SequenceMinus(int32_t sequence, int32_t count) {
  LS_CHECK_GE(sequence, 0);
  LS_CHECK_GE(count, 0);
  return static_cast<int32_t>((static_cast<uint32_t>(sequence) - static_cast<uint32_t>(count)) &
                              0x7fffffffu);
}

std::string BatchHeader::ToString() const {
  std::string text = "batch " + std::to_string(base_offset) + ".." + std::to_string(last_offset()) +
                     " epoch " + std::to_string(partition_leader_epoch);
  if (has_producer()) {
    text += " producer " + std::to_string(producer_id) + "/" + std::to_string(producer_epoch) +
            " seq " + std::to_string(base_sequence);
  }
  return text;
}

Batch Batch::Of(const Bytes& bytes) {
  LS_CHECK_GE(bytes.size(), kBatchHeaderBytes);
  return {bytes.Slice(0, kBatchHeaderBytes), bytes.Slice(kBatchHeaderBytes)};
}

Bytes Batch::Join() const {
  return Bytes::Build(size(), [&](char* to) {
    std::memcpy(to, header.data(), header.size());
    if (!records.empty()) std::memcpy(to + header.size(), records.data(), records.size());
  });
}

absl::StatusOr<size_t> BatchSize(std::string_view bytes) {
  if (bytes.size() < kBatchLengthEnd) return 0;
  const auto length = LoadBe<int32_t>(bytes.data() + kBatchLengthAt);
  // What is shorter than the header of magic 2 may be a message of magic 0 or 1. Those have a magic
  // at the same place, so even they have 5 bytes after the length.
  if (length <= static_cast<int32_t>(kMagicAt - kBatchLengthEnd)) {
    return absl::DataLossError("no batch has so small a length");
  }
  return kBatchLengthEnd + static_cast<size_t>(length);
}

absl::StatusOr<BatchHeader> ParseBatchHeader(std::string_view bytes) {
  const absl::StatusOr<size_t> size = BatchSize(bytes);
  if (!size.ok()) return size.status();
  if (*size == 0 || bytes.size() < *size) return absl::OutOfRangeError("the batch is cut short");
  const auto magic = static_cast<int8_t>(bytes[kMagicAt]);
  if (magic == 0 || magic == 1) {
    return absl::UnimplementedError("a message of the format before record batches");
  }
  if (magic != kBatchMagic) return absl::DataLossError("no batch has this magic");
  if (*size < kBatchHeaderBytes) return absl::DataLossError("the batch has no room for its header");

  const BatchHeader header = Load(bytes.data());
  if (header.base_offset < 0 || header.last_offset_delta < 0 ||
      header.base_offset >= std::numeric_limits<int64_t>::max() - header.last_offset_delta) {
    return absl::InvalidArgumentError("the batch has impossible offsets");
  }
  if (header.record_count < 0 || header.record_count > int64_t{header.last_offset_delta} + 1) {
    return absl::InvalidArgumentError("the batch has an impossible number of records");
  }
  return header;
}

BatchHeader HeaderOf(const Batch& batch) {
  LS_CHECK_EQ(batch.header.size(), kBatchHeaderBytes);
  return Load(batch.header.data());
}

Batch SealBatch(BatchHeader header, Bytes records) {
  LS_CHECK_LE(records.size(), std::numeric_limits<int32_t>::max() - kBatchHeaderBytes);
  header.batch_length = static_cast<int32_t>(kBatchHeaderBytes - kBatchLengthEnd + records.size());
  Bytes sealed = Bytes::Build(kBatchHeaderBytes, [&](char* to) {
    char* at = to;
    Fields(header, [&](const auto& field) { at = StoreBe(at, field); });
    StoreBe(to + kCrcAt, Crc({to, kBatchHeaderBytes}, records.view()));
  });
  return {std::move(sealed), std::move(records)};
}

bool CrcMatches(const Batch& batch) {
  LS_CHECK_EQ(batch.header.size(), kBatchHeaderBytes);
  return LoadBe<uint32_t>(batch.header.data() + kCrcAt) ==
         Crc(batch.header.view(), batch.records.view());
}

Batch AssignOffsets(const Batch& batch, const OffsetAssignment& assignment) {
  const BatchHeader header = HeaderOf(batch);
  const auto attributes = static_cast<uint16_t>(
      assignment.log_append_time ? header.attributes | BatchHeader::kLogAppendTime
                                 : header.attributes & ~BatchHeader::kLogAppendTime);
  Bytes assigned = Bytes::Build(kBatchHeaderBytes, [&](char* to) {
    std::memcpy(to, batch.header.data(), kBatchHeaderBytes);
    StoreBe(to, assignment.base_offset);
    StoreBe(to + kLeaderEpochAt, assignment.leader_epoch);
    if (attributes != header.attributes || assignment.max_timestamp != header.max_timestamp) {
      StoreBe(to + kAttributesAt, attributes);
      StoreBe(to + kMaxTimestampAt, assignment.max_timestamp);
      StoreBe(to + kCrcAt, Crc({to, kBatchHeaderBytes}, batch.records.view()));
    }
  });
  return {std::move(assigned), batch.records};
}

std::optional<BatchReader::Item> BatchReader::Refuse(absl::Status status) {
  status_ = std::move(status);
  return std::nullopt;
}

std::optional<BatchReader::Item> BatchReader::Next() {
  const std::string_view rest = bytes_.view().substr(position_);
  if (rest.empty() || partial_ || !status_.ok()) return std::nullopt;

  const absl::StatusOr<size_t> size = BatchSize(rest);
  if (!size.ok()) return Refuse(size.status());
  // Before the rest of it is waited for: a length that was damaged must not make a reader collect
  // two gigabytes.
  if (*size > options_.batch_bytes_max) return Refuse(absl::DataLossError("the batch is too long"));
  const absl::StatusOr<BatchHeader> header = ParseBatchHeader(rest);
  if (absl::IsOutOfRange(header.status())) {
    partial_ = true;
    partial_bytes_ = *size;
    return std::nullopt;
  }
  if (absl::IsInvalidArgument(header.status())) {
    return Refuse(absl::DataLossError(header.status().message()));
  }
  if (!header.ok()) return Refuse(header.status());

  const Batch batch = Batch::Of(bytes_.Slice(position_, *size));
  if (!CrcMatches(batch)) return Refuse(absl::DataLossError("the CRC of the batch is wrong"));
  // The fields before the CRC are covered by nothing, so they are held against what is expected.
  if (header->partition_leader_epoch < options_.epoch_min ||
      header->partition_leader_epoch > options_.epoch_max) {
    return Refuse(absl::DataLossError("the batch is of a wrong leader epoch"));
  }
  if (options_.offset.has_value()) {
    if (options_.contiguous ? header->base_offset != *options_.offset
                            : header->base_offset < *options_.offset) {
      return Refuse(absl::DataLossError("the batch starts at a wrong offset"));
    }
  }
  options_.offset = header->next_offset();
  options_.epoch_min = header->partition_leader_epoch;
  position_ += *size;
  return Item{*header, batch};
}

std::optional<SlicedBatches::Item> SlicedBatches::Next() {
  while (slice_ < slices_.size() && at_ == slices_[slice_].size()) {
    slice_++;
    at_ = 0;
  }
  if (slice_ == slices_.size()) return std::nullopt;
  Item item;
  LS_CHECK_GE(slices_[slice_].size() - at_, kBatchHeaderBytes);
  item.header = HeaderOf({.header = slices_[slice_].Slice(at_, kBatchHeaderBytes), .records = {}});
  size_t left = item.header.size();
  while (left > 0) {
    LS_CHECK_LT(slice_, slices_.size());
    const Bytes& slice = slices_[slice_];
    const size_t part = std::min(left, slice.size() - at_);
    if (part > 0) item.slices.push_back(slice.Slice(at_, part));
    left -= part;
    at_ += part;
    if (left > 0) {
      slice_++;
      at_ = 0;
    }
  }
  return item;
}

Bytes SlicedBatches::Item::Joined() const {
  if (slices.size() == 1) return slices[0];
  return Bytes::Build(header.size(), [&](char* to) {
    for (const Bytes& slice : slices) {
      std::memcpy(to, slice.data(), slice.size());
      to += slice.size();
    }
  });
}

}  // namespace lockstep::records
