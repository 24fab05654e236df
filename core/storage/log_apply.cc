// From a log's queue of durable changes to its files.
#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/storage/logs.h"

namespace lockstep::storage {

void Logs::Issue(Log* log, FileOp op, StoreOutput* output) {
  ++log->under_way;
  log->unsynced = true;
  for (const Bytes& slice : op.data) backlog_bytes_ += slice.size();
  if (applying_ == LogWriteId{}) {
    operations_->Issue(Owner::kLogFile, log->number.value, std::move(op), output);
    return;
  }
  const uint64_t ticket = next_ticket_++;
  flushes_.emplace(ticket, Flush{log->number, applying_});
  WaitFor(applying_);
  operations_->Issue(Owner::kLogFlush, ticket, std::move(op), output);
}

void Logs::Replace(Log* log, const std::string& path, Bytes content, StoreOutput* output,
                   Checkpoint which) {
  const std::string temporary = path + kTemporarySuffix;
  // Leftovers of a crash have been removed by recovery: the name is free.
  FileOp ops[] = {
      {.kind = OpKind::kCreate, .directory = Directory::kLogs, .file = temporary},
      {.kind = OpKind::kWrite,
       .directory = Directory::kLogs,
       .file = temporary,
       .data = {std::move(content)}},
      {.kind = OpKind::kSync, .directory = Directory::kLogs, .file = temporary},
      {.kind = OpKind::kRename, .directory = Directory::kLogs, .file = temporary, .target = path},
  };
  for (FileOp& op : ops) {
    if (log != nullptr) {
      Issue(log, std::move(op), output);
    } else {
      IssueCheckpoint(std::move(op), output, which);
    }
  }
}

// ---- The directory -----------------------------------------------------------------------------

void Logs::Open(Log* log, StoreOutput* output) {
  if (flush() && !log->checkpointed) {
    if (log->hold == Hold::kOpening) return;
    log->hold = Hold::kOpening;
    AskCheckpoint(log, Checkpoint::kRecoveryPoints, output);
    AskCheckpoint(log, Checkpoint::kLogStarts, output);
    return;
  }
  const auto owner = directories_.find(log->directory);
  if (owner != directories_.end()) {
    if (owner->second) return;  // when that log's directory has another name
    operations_->Issue(
        Owner::kCleanup, 0,
        {.kind = OpKind::kRename,
         .directory = Directory::kLogs,
         .file = log->directory,
         .target = StrayDirectoryName(log->topic, log->partition,
                                      operations_->incarnation() << 20 | log->number.value)},
        output);
  }
  directories_[log->directory] = log->number;
  log->life = Life::kOpen;
  log->is_new = true;
  Issue(log,
        {.kind = OpKind::kMakeDirectory, .directory = Directory::kLogs, .file = log->directory},
        output);
  WriteOwner(log, output);
  WriteMetadata(log, output);
  BeginSegment(log, log->file_end, output);
  if (flush()) {
    log->hold = Hold::kMade;
    return SyncLog(log, output);
  }
  Run(log, output);
}

// Before any segment: a directory with batches says whose they are.
void Logs::WriteOwner(Log* log, StoreOutput* output) {
  Issue(log,
        {.kind = OpKind::kCreate,
         .directory = Directory::kLogs,
         .file = log->Path(OwnerFileName(log->number))},
        output);
}

void Logs::WriteMetadata(Log* log, StoreOutput* output) {
  const std::string path = log->Path(kMetadataFile);
  Issue(log, {.kind = OpKind::kCreate, .directory = Directory::kLogs, .file = path}, output);
  Issue(log,
        {.kind = OpKind::kWrite,
         .directory = Directory::kLogs,
         .file = path,
         .data = {EncodeMetadata(log->topic_id)}},
        output);
}

void Logs::OpenWaiting(StoreOutput* output) {
  for (auto& [number, log] : logs_) {
    if (log->life == Life::kWaiting) Open(log.get(), output);
  }
}

// Renamed first: that is one step for whoever looks, and frees the name for a log that comes after.
void Logs::MaybeRemove(Log* log, StoreOutput* output) {
  if (log->life != Life::kDeleting || log->under_way > 0 || log->cutting != 0) return;
  log->life = Life::kRemoving;
  const std::string target = DeletedDirectoryName(
      log->topic, log->partition, operations_->incarnation() << 32 | log->number.value);
  const auto issue = [&](FileOp op) {
    operations_->Issue(Owner::kLogRemoval, log->number.value, std::move(op), output);
  };
  issue({.kind = OpKind::kRename,
         .directory = Directory::kLogs,
         .file = log->directory,
         .target = target});
  issue({.kind = OpKind::kSyncDirectory, .directory = Directory::kLogs});
  issue({.kind = OpKind::kList, .directory = Directory::kLogs, .file = target});
  directories_.erase(log->directory);
  log->directory = target;
  OpenWaiting(output);
}

void Logs::OnRemoved(Log* log, const Operation& operation, const FileDone& done,
                     StoreOutput* output) {
  if (operation.kind == OpKind::kSyncDirectory) {
    log->dirty_since = 0;
    synced_ = true;
  } else if (operation.kind == OpKind::kList) {
    for (const std::string& name : done.names) {
      operations_->Issue(
          Owner::kCleanup, 0,
          {.kind = OpKind::kRemove, .directory = Directory::kLogs, .file = log->Path(name)},
          output);
    }
    operations_->Issue(
        Owner::kLogRemoval, log->number.value,
        {.kind = OpKind::kRemoveDirectory, .directory = Directory::kLogs, .file = log->directory},
        output);
  } else if (operation.kind == OpKind::kRemoveDirectory) {
    logs_.erase(log->number);
  }
}

// ---- Changes -----------------------------------------------------------------------------------

void Logs::Run(Log* log, StoreOutput* output) {
  while (log->life == Life::kOpen && log->cutting == 0 && log->hold == Hold::kNone &&
         !log->queue.empty()) {
    if (const auto* cut = std::get_if<LogTruncate>(&log->queue.front().change);
        cut != nullptr && flush() && HoldToLower(log, cut->to, output)) {
      return;
    }
    Queued queued = std::move(log->queue.front());
    log->queue.pop_front();
    applying_ = queued.id;
    const int64_t before = log->file_extent.start;
    const auto* truncate = std::get_if<LogTruncate>(&queued.change);
    // What is cut, is told when it has been.
    if (flush() && truncate == nullptr) log->file_extent.Advance(queued.change);
    bool found = true;
    const auto* start = std::get_if<LogStart>(&queued.change);
    const size_t segments = log->segments.size();
    if (auto* append = std::get_if<LogAppend>(&queued.change)) {
      Apply(log, *std::move(append), output);
    } else if (truncate != nullptr) {
      found = Apply(log, *truncate, queued.id, output);
    } else if (start != nullptr && flush() && start->start != before) {
      applying_ = {};
      HoldForStart(log, start->start, queued.id, output);
      return;
    } else if (start != nullptr) {
      Apply(log, *start, output);
    }
    // With kFlush, what the file says is what recovery has. With kFsync it is for Kafka's tools,
    // and written when the log is synced.
    log->epochs_changed = true;
    if (applying_ != LogWriteId{} && truncate == nullptr) WriteEpochs(log, output);
    applying_ = {};
    // What held it until its operations were known.
    if (queued.id != LogWriteId{} && found && log->held != queued.id) Persisted(queued.id, output);
    // Rolled: as Kafka does, what is complete is synced, and the recovery point moves on.
    if (flush() && log->segments.size() > segments) SyncAgain(log, output);
  }
}

void Logs::WriteEpochs(Log* log, StoreOutput* output) {
  // They would begin where the log does not begin yet: a kill between this file and that of the
  // starts would bring back batches without an epoch. They are written when the start is.
  if (log->hold == Hold::kStart) return;
  const std::vector<EpochStart>& epochs = flush() ? log->file_extent.epochs : log->extent.epochs;
  if (!log->epochs_changed || epochs == log->epochs_written) return;
  log->epochs_changed = false;
  log->epochs_written = epochs;
  log->entries_changed = true;
  Replace(log, log->Path(kEpochsFile), EncodeEpochs(epochs), output);
}

bool Logs::MustRoll(Log* log, const BatchSlice& batch) const {
  const Segment& active = log->active();
  if (active.bytes == 0) return false;
  return active.bytes + batch.bytes > log->segment_bytes || batch.end - active.base > INT32_MAX ||
         (active.first_timestamp >= 0 &&
          batch.max_timestamp - active.first_timestamp > log->segment_ms);
}

void Logs::Apply(Log* log, LogAppend append, StoreOutput* output) {
  absl::StatusOr<std::vector<BatchSlice>> batches = SplitBatches(append);
  LS_CHECK(batches.ok());
  std::vector<Bytes> data;
  uint64_t at = log->active().bytes;
  const auto write = [&] {
    if (data.empty()) return;
    Issue(log,
          {.kind = OpKind::kWrite,
           .directory = Directory::kLogs,
           .file = log->Path(log->active().base, LogFileKind::kLog),
           .offset = at,
           .data = std::exchange(data, {})},
          output);
  };
  for (BatchSlice& batch : *batches) {
    if (MustRoll(log, batch)) {
      write();
      BeginSegment(log, batch.base, output);
      output->logs_rolled.push_back(log->number);
      at = 0;
    }
    Segment& active = log->active();
    active.index.Add(batch.end - 1, active.bytes, batch.bytes, batch.max_timestamp);
    if (active.bytes == 0) active.first_timestamp = batch.max_timestamp;
    active.max_timestamp = std::max(active.max_timestamp, batch.max_timestamp);
    active.bytes += batch.bytes;
    active.dirty = true;
    log->bytes_since_snapshot += batch.bytes;
    for (Bytes& slice : batch.slices) data.push_back(std::move(slice));
  }
  write();
  log->file_end = append.end_offset;
  if (log->cuts_under_way == 0) log->readable_end = log->file_end;
  if (log->active().index.pending_bytes() >= kIndexFlushBytes) {
    FlushIndex(log, &log->active(), output);
  }
  if (log->bytes_since_snapshot >= kSnapshotBytes) {
    log->bytes_since_snapshot = 0;
    output->logs_rolled.push_back(log->number);
  }
  Evict();
}

bool Logs::Apply(Log* log, const LogTruncate& truncate, LogWriteId id, StoreOutput* output) {
  RemoveSnapshots(log, truncate.to, output);
  const bool above = truncate.to >= log->file_end;
  if (!above) log->file_end = truncate.to;
  const Segment* segment = SegmentFor(log, truncate.to);
  // Empty afterwards: of a batch that begins below its start nothing is kept, so that there is no
  // gap before what comes next, where recovery would end the log.
  if (flush() && truncate.to <= log->file_extent.start) segment = nullptr;
  if (above || segment == nullptr || segment->base == truncate.to) {
    if (!above && segment == nullptr) Reset(log, truncate.to, output);
    if (!above && segment != nullptr) CutAt(log, segment->base, 0, truncate.to, output);
    EndCut(log);
    AfterCut(log, truncate.to, id, output);
    return true;
  }
  Task task{.kind = Task::Kind::kCut,
            .log = log->number,
            .offset = truncate.to,
            .limit = truncate.to,
            .base = segment->base,
            .change = id};
  log->cutting = next_ticket_;
  StartTask(std::move(task), output);
  return log->cutting == 0;
}

void Logs::CutAt(Log* log, int64_t base, uint64_t position, int64_t to, StoreOutput* output) {
  while (log->active().base > base) {
    RemoveSegment(log, log->active(), output);
    log->segments.pop_back();
  }
  Segment& active = log->active();
  LS_CHECK_EQ(active.base, base);
  FlushIndex(log, &active, output);
  active.index.Truncate(to);
  const std::pair<LogFileKind, uint64_t> sizes[] = {
      {LogFileKind::kLog, position},
      {LogFileKind::kIndex, active.index.index_bytes()},
      {LogFileKind::kTimeIndex, active.index.time_bytes()}};
  for (const auto& [kind, size] : sizes) {
    Issue(log,
          {.kind = OpKind::kTruncate,
           .directory = Directory::kLogs,
           .file = log->Path(base, kind),
           .size = size},
          output);
  }
  if (position == 0) {
    active.indexed = true;
    active.first_timestamp = -1;
  }
  active.bytes = position;
  active.max_timestamp = active.index.max_timestamp();
  active.dirty = true;
}

void Logs::Apply(Log* log, const LogStart& start, StoreOutput* output) {
  if (start.start > log->file_end) {
    Reset(log, start.start, output);
    return EndCut(log);
  }
  // Nothing of what is written is wanted: the active segment is rolled, so that it goes too, as
  // Kafka does when all records are older than retention.ms.
  if (start.start == log->file_end && log->active().bytes > 0) {
    BeginSegment(log, log->file_end, output);
    output->logs_rolled.push_back(log->number);
  }
  while (log->segments.size() > 1 && log->segments[1].base <= start.start) {
    RemoveSegment(log, log->segments.front(), output);
    log->segments.erase(log->segments.begin());
  }
}

void Logs::Reset(Log* log, int64_t start, StoreOutput* output) {
  // The last one first: whatever a crash leaves of them is without gaps.
  while (!log->segments.empty()) {
    RemoveSegment(log, log->active(), output);
    log->segments.pop_back();
  }
  RemoveSnapshots(log, -1, output);
  log->file_end = start;
  BeginSegment(log, start, output);
}

// ---- Segments ----------------------------------------------------------------------------------

void Logs::BeginSegment(Log* log, int64_t base, StoreOutput* output) {
  if (!log->segments.empty()) {
    log->active().index.Close();
    FlushIndex(log, &log->active(), output);
  }
  for (const LogFileKind kind : {LogFileKind::kLog, LogFileKind::kIndex, LogFileKind::kTimeIndex}) {
    Issue(log,
          {.kind = OpKind::kCreate, .directory = Directory::kLogs, .file = log->Path(base, kind)},
          output);
  }
  log->segments.push_back({.base = base,
                           .indexed = true,
                           .index = SegmentIndex(base, options_.index_interval_bytes),
                           .dirty = true});
  log->entries_changed = true;
}

void Logs::RemoveSegment(Log* log, const Segment& segment, StoreOutput* output) {
  for (const LogFileKind kind : {LogFileKind::kLog, LogFileKind::kIndex, LogFileKind::kTimeIndex}) {
    Issue(log,
          {.kind = OpKind::kRemove,
           .directory = Directory::kLogs,
           .file = log->Path(segment.base, kind)},
          output);
  }
  log->entries_changed = true;
}

void Logs::RemoveSnapshots(Log* log, int64_t above, StoreOutput* output) {
  while (!log->snapshots.empty() && log->snapshots.back() > above) {
    Issue(log,
          {.kind = OpKind::kRemove,
           .directory = Directory::kLogs,
           .file = log->Path(log->snapshots.back(), LogFileKind::kSnapshot)},
          output);
    log->snapshots.pop_back();
    log->entries_changed = true;
  }
}

void Logs::FlushIndex(Log* log, Segment* segment, StoreOutput* output) {
  if (segment->index.pending_bytes() == 0) return;
  SegmentIndex::Pending pending = segment->index.TakePending();
  const auto write = [&](LogFileKind kind, uint64_t at, Bytes data) {
    if (data.empty()) return;
    Issue(log,
          {.kind = OpKind::kWrite,
           .directory = Directory::kLogs,
           .file = log->Path(segment->base, kind),
           .offset = at,
           .data = {std::move(data)}},
          output);
  };
  write(LogFileKind::kIndex, pending.index_at, std::move(pending.index));
  write(LogFileKind::kTimeIndex, pending.time_at, std::move(pending.time));
  segment->dirty = true;
}

// ---- Syncs -------------------------------------------------------------------------------------

void Logs::SyncLog(Log* log, StoreOutput* output) {
  if (log->life != Life::kOpen || log->syncs_left > 0) return;
  WriteEpochs(log, output);
  for (Segment& segment : log->segments) FlushIndex(log, &segment, output);
  log->syncing_since = log->dirty_since;
  // What is in the queue has not been carried out: this sync does not cover it.
  log->dirty_since = log->cutting != 0    ? log->syncing_since
                     : log->queue.empty() ? 0
                                          : log->queue.front().sequence;
  ++syncing_;
  log->unsynced = false;
  log->syncing_to = log->hold == Hold::kLower ? log->recovery_point : log->file_end;
  const auto issue = [&](OpKind kind, std::string file) {
    ++log->under_way;
    ++log->syncs_left;
    operations_->Issue(Owner::kLogSync, log->number.value,
                       {.kind = kind, .directory = Directory::kLogs, .file = std::move(file)},
                       output);
  };
  if (log->is_new) issue(OpKind::kSync, log->Path(kMetadataFile));
  for (Segment& segment : log->segments) {
    if (!std::exchange(segment.dirty, false)) continue;
    issue(OpKind::kSync, log->Path(segment.base, LogFileKind::kLog));
    issue(OpKind::kSync, log->Path(segment.base, LogFileKind::kIndex));
    issue(OpKind::kSync, log->Path(segment.base, LogFileKind::kTimeIndex));
  }
  if (std::exchange(log->entries_changed, false) || log->is_new) {
    issue(OpKind::kSyncDirectory, log->directory);
  }
  if (std::exchange(log->is_new, false)) issue(OpKind::kSyncDirectory, "");
  if (log->syncs_left == 0) OnSynced(log, output);
}

void Logs::OnSynced(Log* log, StoreOutput* output) {
  log->syncing_since = 0;
  --syncing_;
  synced_ = true;
  if (!flush()) return;
  if (std::exchange(log->sync_again, false)) return SyncLog(log, output);
  const bool moved = log->recovery_point != log->syncing_to;
  log->recovery_point = log->syncing_to;
  if (recovery_ != nullptr) return;  // which writes the checkpoints when it knows all logs
  if (moved) WriteCheckpoint(Checkpoint::kRecoveryPoints, output);
  if (log->hold == Hold::kMade) {
    log->hold = Hold::kNone;
    return Run(log, output);
  }
  // Cut below its start, it begins there.
  if (log->hold == Hold::kCut && log->checkpoints == 0) {
    AskCheckpoint(log, Checkpoint::kLogStarts, output);
  }
}

}  // namespace lockstep::storage
