#include "core/kafka/producer_snapshot.h"

#include <algorithm>
#include <limits>

#include "absl/container/btree_map.h"
#include "core/base/crc32c.h"
#include "core/records/big_endian.h"

namespace lockstep::kafka {
namespace {

using records::LoadBe;
using records::StoreBe;

constexpr int16_t kVersion = 1;
constexpr size_t kCrcAt = 2;
constexpr size_t kCoveredAt = 6;
constexpr size_t kRowsAt = 10;
constexpr size_t kRowBytes = 46;

struct Row {
  int64_t producer_id = 0;
  int16_t epoch = 0;
  int32_t last_sequence = 0;
  int64_t last_offset = -1;  // -1: no batch; with sequences, those that are older than its batches
  int32_t offset_delta = 0;
  int64_t timestamp = 0;
  int32_t coordinator_epoch = -1;
  int64_t open_transaction = -1;  // -1: none
};

template <typename R, typename Visit>
void Fields(R&& row, Visit visit) {
  visit(row.producer_id);
  visit(row.epoch);
  visit(row.last_sequence);
  visit(row.last_offset);
  visit(row.offset_delta);
  visit(row.timestamp);
  visit(row.coordinator_epoch);
  visit(row.open_transaction);
}

// One in front of those of batches: Kafka, which keeps the last row, never looks at it.
bool HasRowOfOlder(const ProducerEntry& entry) { return entry.older > 0; }

// At least one row, since a producer without batches is remembered too.
size_t RowsOf(const ProducerEntry& entry) {
  return std::max<size_t>(entry.batch_count, 1) + (HasRowOfOlder(entry) ? 1 : 0);
}

ProducerBatch BatchOf(const ProducerEntry& entry, size_t row) {
  if (entry.batch_count == 0) return {};
  if (!HasRowOfOlder(entry)) return entry.batches[row];
  if (row > 0) return entry.batches[row - 1];
  return {.last_sequence = records::SequenceMinus(entry.batches[0].first_sequence(), 1),
          .offset_delta = entry.older - 1};
}

Row RowOf(int64_t producer_id, const ProducerEntry& entry, size_t index) {
  const ProducerBatch batch = BatchOf(entry, index);
  const bool last = index + 1 == RowsOf(entry);
  return {.producer_id = producer_id,
          .epoch = entry.epoch,
          .last_sequence = batch.last_sequence,
          .last_offset = batch.last_offset,
          .offset_delta = batch.offset_delta,
          // Kafka's expiration goes by the last row's.
          .timestamp = last ? entry.last_timestamp : batch.timestamp,
          .coordinator_epoch = entry.coordinator_epoch,
          .open_transaction = entry.open_transaction.value_or(-1)};
}

bool IsPossible(const Row& row, int64_t end) {
  if (row.producer_id < 0 || row.epoch < records::kNoProducerEpoch) return false;
  if (row.open_transaction < -1 || row.open_transaction >= end) return false;
  if (row.last_offset == -1) {
    if (row.last_sequence == records::kNoSequence) return row.offset_delta == 0;
    return row.last_sequence >= 0 && row.offset_delta >= 0 &&
           row.offset_delta < ProducerEntry::kOlderMax;
  }
  return row.last_offset >= 0 && row.last_offset < end && row.offset_delta >= 0 &&
         row.offset_delta <= row.last_offset && row.last_sequence >= records::kNoSequence;
}

// False if `row` contradicts an earlier one of its producer.
bool Add(const Row& row, ProducerEntry* entry) {
  entry->SetEpoch(row.epoch);
  entry->coordinator_epoch = row.coordinator_epoch;
  entry->last_timestamp = row.timestamp;
  entry->open_transaction.reset();
  if (row.open_transaction >= 0) entry->open_transaction = row.open_transaction;
  if (row.last_offset < 0) {
    const bool first = entry->batch_count == 0 && entry->older == 0;
    if (row.last_sequence != records::kNoSequence) entry->older = row.offset_delta + 1;
    return first;
  }
  if (entry->batch_count > 0 &&
      row.last_offset - row.offset_delta <= entry->last_batch().last_offset) {
    return false;
  }
  entry->Add({row.last_sequence, row.offset_delta, row.last_offset, row.timestamp});
  return true;
}

}  // namespace

Bytes EncodeProducerSnapshot(const ProducerSnapshot& snapshot) {
  size_t rows = 0;
  for (const auto& [producer_id, entry] : snapshot) rows += RowsOf(entry);
  const size_t size = kRowsAt + kRowBytes * rows;
  return Bytes::Build(size, [&](char* to) {
    StoreBe(to, kVersion);
    char* at = StoreBe(to + kCoveredAt, static_cast<int32_t>(rows));
    for (const auto& [producer_id, entry] : snapshot) {
      for (size_t i = 0; i < RowsOf(entry); ++i) {
        Fields(RowOf(producer_id, entry, i), [&](const auto& field) { at = StoreBe(at, field); });
      }
    }
    StoreBe(to + kCrcAt, Crc32c(0, {to + kCoveredAt, size - kCoveredAt}));
  });
}

absl::StatusOr<ProducerSnapshot> DecodeProducerSnapshot(std::string_view bytes, int64_t offset) {
  if (bytes.size() < kRowsAt) return absl::DataLossError("the producer snapshot is cut short");
  if (LoadBe<int16_t>(bytes.data()) != kVersion) {
    return absl::DataLossError("the producer snapshot has an unknown version");
  }
  if (LoadBe<uint32_t>(bytes.data() + kCrcAt) != Crc32c(0, bytes.substr(kCoveredAt))) {
    return absl::DataLossError("the CRC of the producer snapshot is wrong");
  }
  const auto count = LoadBe<int32_t>(bytes.data() + kCoveredAt);
  if (count < 0 || bytes.size() - kRowsAt != static_cast<size_t>(count) * kRowBytes) {
    return absl::DataLossError("the producer snapshot has a wrong length");
  }

  absl::btree_map<int64_t, ProducerEntry> producers;
  absl::btree_map<int64_t, int64_t> transactions;  // first offset -> producer
  const char* at = bytes.data() + kRowsAt;
  for (int32_t i = 0; i < count; ++i) {
    Row row;
    Fields(row, [&]<typename T>(T& field) {
      field = LoadBe<T>(at);
      at += sizeof(T);
    });
    if (!IsPossible(row, offset) || !Add(row, &producers[row.producer_id])) {
      return absl::DataLossError("the producer snapshot contradicts itself");
    }
  }
  for (const auto& [producer_id, entry] : producers) {
    if (entry.older > 0 &&
        (entry.batch_count == 0 || entry.batches[0].last_sequence == records::kNoSequence)) {
      return absl::DataLossError("the producer snapshot names sequences before none");
    }
    // The record at an offset is of one producer.
    if (entry.open_transaction.has_value() &&
        !transactions.insert({*entry.open_transaction, producer_id}).second) {
      return absl::DataLossError("two transactions start at one offset in the producer snapshot");
    }
  }
  return ProducerSnapshot(producers.begin(), producers.end());
}

}  // namespace lockstep::kafka
