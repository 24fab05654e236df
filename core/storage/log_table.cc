#include "core/storage/log_table.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "core/base/check.h"
#include "core/records/record_batch.h"
#include "core/storage/little_endian.h"

namespace lockstep::storage {
namespace {

// ---- The table's bytes: docs/disk.md, "Partition logs" -----------------------------------------

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
  T Take() {
    if (rest_.size() < sizeof(T)) {
      failed_ = true;
      rest_ = {};
      return T{};
    }
    const T value = LoadLe<T>(rest_.data());
    rest_.remove_prefix(sizeof(T));
    return value;
  }
  std::string_view TakeBytes(size_t size) {
    if (rest_.size() < size) {
      failed_ = true;
      rest_ = {};
      return {};
    }
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }
  size_t left() const { return rest_.size(); }
  bool failed() const { return failed_; }

 private:
  std::string_view rest_;
  bool failed_ = false;
};

constexpr size_t kTableFixedBytes = 4 + 8 + 4;
constexpr size_t kEntryFixedBytes = 4 + 4 + 8 + 8 + 8 + 8 + 1 + 4 + 2;
constexpr size_t kEpochBytes = 4 + 8;

absl::Status WrongTable() { return absl::DataLossError("a table of partition logs that is none"); }

}  // namespace

bool IsTopicName(std::string_view topic) {
  if (topic.empty() || topic.size() > 249 || topic == "." || topic == "..") return false;
  return std::all_of(topic.begin(), topic.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

// ---- One log -----------------------------------------------------------------------------------

void LogExtent::Begin(EpochStart epoch) {
  if (!epochs.empty() && epoch.epoch <= epochs.back().epoch) return;
  while (!epochs.empty() && epochs.back().start >= epoch.start) epochs.pop_back();
  epochs.push_back(epoch);
}

const char* LogExtent::Advance(const LogChange& change) {
  if (const auto* append = std::get_if<LogAppend>(&change)) {
    if (append->base_offset != end) return "an append does not begin at the log's end";
    if (append->end_offset <= append->base_offset) return "an append is empty";
    const absl::StatusOr<std::vector<BatchSlice>> batches = SplitBatches(*append);
    if (!batches.ok()) return "an append does not consist of whole batches in order";
    for (const BatchSlice& batch : *batches) Begin({batch.epoch, batch.base});
    end = append->end_offset;
    ends_with_batch = true;
  } else if (const auto* truncate = std::get_if<LogTruncate>(&change)) {
    if (truncate->to < 0) return "a truncation to a negative offset";
    if (truncate->to >= end) {
      // Nothing to cut, but for an epoch that begins at the end.
      while (!epochs.empty() && epochs.back().start >= truncate->to) epochs.pop_back();
      return nullptr;
    }
    while (!epochs.empty() && epochs.back().start >= truncate->to) epochs.pop_back();
    end = truncate->to;
    start = std::min(start, end);
    ends_with_batch = false;
  } else if (const auto* epoch = std::get_if<LogEpoch>(&change)) {
    if (epoch->start.start != end) return "an epoch does not begin at the log's end";
    Begin(epoch->start);
  } else if (const auto* log_start = std::get_if<LogStart>(&change)) {
    if (log_start->start < start) return "the log's start goes back";
    start = log_start->start;
    if (start > end) {
      end = start;
      ends_with_batch = false;
      epochs.clear();
      return nullptr;
    }
    // The epoch that the first record belongs to stays, and begins there.
    size_t below = 0;
    while (below < epochs.size() && epochs[below].start <= start) ++below;
    if (below > 0) {
      epochs.erase(epochs.begin(), epochs.begin() + static_cast<ptrdiff_t>(below - 1));
      epochs.front().start = start;
    }
  }
  return nullptr;
}

// ---- All logs ----------------------------------------------------------------------------------

const char* LogTable::Advance(const Record& record) {
  if (const auto* created = std::get_if<LogCreatedRecord>(&record)) {
    if (created->log <= last) return "a log's number is not new";
    last = created->log;
    logs.emplace(created->log,
                 LogEntry{.topic = created->topic,
                          .partition = created->partition,
                          .topic_id = created->topic_id,
                          .extent = {.start = created->start, .end = created->start}});
  } else if (const auto* deleted = std::get_if<LogDeletedRecord>(&record)) {
    if (logs.erase(deleted->log) == 0) return "a log is deleted that is not there";
  } else if (const auto* change = std::get_if<LogChangeRecord>(&record)) {
    const auto found = logs.find(change->log);
    if (found == logs.end()) return "a log changes that is not there";
    return found->second.extent.Advance(change->change);
  } else if (const auto* epoch = std::get_if<BrokerEpochRecord>(&record)) {
    broker_epoch = epoch->epoch;
  }
  return nullptr;
}

Bytes LogTable::Encode() const {
  size_t size = kTableFixedBytes;
  for (const auto& [number, log] : logs) {
    size += kEntryFixedBytes + log.topic.size() + kEpochBytes * log.extent.epochs.size();
  }
  return Bytes::Build(size, [&](char* start) {
    char* to = StoreLe(start, last.value);
    to = StoreLe(to, broker_epoch);
    to = StoreLe(to, static_cast<uint32_t>(logs.size()));
    for (const auto& [number, log] : logs) {
      to = StoreLe(to, number.value);
      to = StoreLe(to, log.partition);
      to = StoreLe(to, log.topic_id.high);
      to = StoreLe(to, log.topic_id.low);
      to = StoreLe(to, log.extent.start);
      to = StoreLe(to, log.extent.end);
      to = StoreLe(to, static_cast<uint8_t>(log.extent.ends_with_batch));
      to = StoreLe(to, static_cast<uint32_t>(log.extent.epochs.size()));
      to = StoreLe(to, static_cast<uint16_t>(log.topic.size()));
      to = std::copy(log.topic.begin(), log.topic.end(), to);
      for (const EpochStart& epoch : log.extent.epochs) {
        to = StoreLe(to, epoch.epoch);
        to = StoreLe(to, epoch.start);
      }
    }
    LS_CHECK(to == start + size);
  });
}

absl::StatusOr<LogTable> LogTable::Decode(std::string_view bytes) {
  Reader reader(bytes);
  LogTable table;
  table.last = {reader.Take<uint32_t>()};
  table.broker_epoch = reader.Take<int64_t>();
  const uint32_t count = reader.Take<uint32_t>();
  for (uint32_t i = 0; i < count && !reader.failed(); ++i) {
    const LogNumber number{reader.Take<uint32_t>()};
    LogEntry log;
    log.partition = reader.Take<int32_t>();
    log.topic_id.high = reader.Take<uint64_t>();
    log.topic_id.low = reader.Take<uint64_t>();
    log.extent.start = reader.Take<int64_t>();
    log.extent.end = reader.Take<int64_t>();
    log.extent.ends_with_batch = reader.Take<uint8_t>() != 0;
    const uint32_t epochs = reader.Take<uint32_t>();
    log.topic = std::string(reader.TakeBytes(reader.Take<uint16_t>()));
    if (reader.failed() || reader.left() / kEpochBytes < epochs) return WrongTable();
    for (uint32_t e = 0; e < epochs; ++e) {
      const int32_t epoch = reader.Take<int32_t>();
      log.extent.epochs.push_back({epoch, reader.Take<int64_t>()});
    }
    const bool ordered = number && number <= table.last &&
                         (table.logs.empty() || table.logs.rbegin()->first < number);
    if (!ordered || !IsTopicName(log.topic) || log.partition < 0 || log.extent.start < 0 ||
        log.extent.end < log.extent.start) {
      return WrongTable();
    }
    table.logs.emplace(number, std::move(log));
  }
  if (reader.failed() || reader.left() > 0) return WrongTable();
  return table;
}

// ---- Batches -----------------------------------------------------------------------------------

absl::StatusOr<std::vector<BatchSlice>> SplitBatches(const LogAppend& append) {
  const auto wrong = [] { return absl::InvalidArgumentError("not whole batches in order"); };
  std::vector<BatchSlice> batches;
  size_t index = 0;
  size_t offset = 0;  // in the slice at `index`
  int64_t at = append.base_offset;
  while (index < append.batches.size()) {
    const Bytes& first = append.batches[index];
    if (offset == first.size()) {
      ++index;
      offset = 0;
      continue;
    }
    if (first.size() - offset < records::kBatchHeaderBytes) return wrong();
    BatchSlice batch;
    batch.header = first.Slice(offset, records::kBatchHeaderBytes);
    const absl::StatusOr<size_t> size = records::BatchSize(batch.header.view());
    if (!size.ok()) return wrong();
    const records::BatchHeader header = records::HeaderOf({batch.header, Bytes()});
    batch.base = header.base_offset;
    if (header.base_offset < at || header.last_offset_delta < 0 ||
        header.base_offset >= std::numeric_limits<int64_t>::max() - header.last_offset_delta ||
        header.next_offset() > append.end_offset) {
      return wrong();
    }
    batch.end = at = header.next_offset();
    batch.max_timestamp = header.max_timestamp;
    batch.epoch = header.partition_leader_epoch;
    batch.bytes = *size;
    for (size_t left = *size; left > 0;) {
      if (index == append.batches.size()) return wrong();
      const Bytes& slice = append.batches[index];
      const size_t part = std::min(left, slice.size() - offset);
      if (part > 0) batch.slices.push_back(slice.Slice(offset, part));
      left -= part;
      offset += part;
      if (offset == slice.size()) {
        ++index;
        offset = 0;
      }
    }
    batches.push_back(std::move(batch));
  }
  if (batches.empty() || at != append.end_offset) return wrong();
  return batches;
}

}  // namespace lockstep::storage
