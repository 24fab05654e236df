#include "core/storage/log_replay.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/storage/log_files.h"

namespace lockstep::storage {
namespace {

void CutAppends(std::vector<LogAppend>* appends, int64_t to) {
  while (!appends->empty() && appends->back().base_offset >= to) appends->pop_back();
  if (appends->empty() || appends->back().end_offset <= to) return;
  // Whole batches only: the one that `to` is in goes.
  LogAppend& last = appends->back();
  absl::StatusOr<std::vector<BatchSlice>> batches = SplitBatches(last);
  LS_CHECK(batches.ok());
  last.batches.clear();
  last.end_offset = last.base_offset;
  for (BatchSlice& batch : *batches) {
    if (batch.end > to) break;
    last.end_offset = batch.end;
    for (Bytes& slice : batch.slices) last.batches.push_back(std::move(slice));
  }
  if (last.batches.empty()) appends->pop_back();
}

}  // namespace

const char* LogReplay::Add(const Record& record) {
  if (const auto* copy = std::get_if<LogTableRecord>(&record)) {
    absl::StatusOr<LogTable> table = LogTable::Decode(copy->table.view());
    if (!table.ok()) return "a table of partition logs that is none";
    if (began_) return *table == table_ ? nullptr : "a table of logs contradicts what is before it";
    began_ = true;
    table_ = *std::move(table);
    for (const auto& [number, log] : table_.logs) {
      logs_[number] = {.trusted_end = log.extent.end,
                       .ends_with_batch = log.extent.ends_with_batch};
    }
    return nullptr;
  }
  LogExtent before;
  const auto* change = std::get_if<LogChangeRecord>(&record);
  if (change != nullptr) {
    const auto found = table_.logs.find(change->log);
    if (found != table_.logs.end()) before = found->second.extent;
  }
  const auto* deleted = std::get_if<LogDeletedRecord>(&record);
  if (deleted != nullptr) {
    const auto found = table_.logs.find(deleted->log);
    if (found != table_.logs.end()) {
      deleted_.push_back(LogDirectoryName(found->second.topic, found->second.partition));
    }
  }
  const char* wrong = table_.Advance(record);
  if (wrong != nullptr) return wrong;
  if (change != nullptr) {
    began_ = true;
    Change(&logs_.at(change->log), before, change->change);
  } else if (deleted != nullptr) {
    began_ = true;
    logs_.erase(deleted->log);
  } else if (const auto* created = std::get_if<LogCreatedRecord>(&record)) {
    began_ = true;
    std::erase(deleted_, LogDirectoryName(created->topic, created->partition));
    logs_[created->log] = {
        .created = true, .reset = true, .touched = true, .trusted_end = created->start};
  } else if (std::holds_alternative<BrokerEpochRecord>(record)) {
    began_ = true;
  }
  return nullptr;
}

void LogReplay::Change(ReplayedLog* log, const LogExtent& before, const LogChange& change) {
  log->touched = true;
  if (const auto* append = std::get_if<LogAppend>(&change)) {
    log->appends.push_back(*append);
  } else if (const auto* truncate = std::get_if<LogTruncate>(&change)) {
    CutAppends(&log->appends, truncate->to);
    log->lowest_cut = std::min(log->lowest_cut, truncate->to);
    if (truncate->to < log->trusted_end) {
      log->trusted_end = truncate->to;
      log->ends_with_batch = false;
    }
  } else if (const auto* start = std::get_if<LogStart>(&change)) {
    if (start->start <= before.end) return;
    log->reset = true;
    log->trusted_end = start->start;
    log->ends_with_batch = false;
    log->appends.clear();
  }
}

}  // namespace lockstep::storage
