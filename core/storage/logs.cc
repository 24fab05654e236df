#include "core/storage/logs.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/storage/log_recovery.h"

namespace lockstep::storage {

Logs::Logs(const LogOptions& options, Operations* operations)
    : options_(options), operations_(operations) {
  LS_CHECK_LE(options.segment_bytes, kSegmentBytesMax);
}

Logs::~Logs() = default;

Logs::Log* Logs::Find(LogNumber number) {
  const auto found = logs_.find(number);
  return found == logs_.end() ? nullptr : found->second.get();
}

const Logs::Log* Logs::Find(LogNumber number) const {
  const auto found = logs_.find(number);
  return found == logs_.end() ? nullptr : found->second.get();
}

Logs::Log& Logs::Get(LogNumber number) {
  Log* log = Find(number);
  LS_CHECK(log != nullptr);
  LS_CHECK(!log->deleted);
  return *log;
}

// ---- Changes -----------------------------------------------------------------------------------

bool Logs::IsCut(const LogChange& change, const LogExtent& before) {
  const auto* start = std::get_if<LogStart>(&change);
  return std::holds_alternative<LogTruncate>(change) ||
         (start != nullptr && start->start > before.end);
}

// A truncation has been carried out. If no other is to come, the files are the log, up to where
// they go.
void Logs::EndCut(Log* log) {
  LS_CHECK_GT(log->cuts_under_way, uint32_t{0});
  if (--log->cuts_under_way == 0) log->readable_end = log->file_end;
}

void Logs::Begin(LogWriteId id) {
  LS_CHECK_EQ(id.value, flushing_from_ + flushing_.size());
  flushing_.push_back(0);
}

void Logs::WaitFor(LogWriteId id) {
  LS_CHECK_GE(id.value, flushing_from_);
  ++flushing_[id.value - flushing_from_];
}

void Logs::Persisted(LogWriteId id, StoreOutput* output) {
  LS_CHECK_GE(id.value, flushing_from_);
  uint32_t& waits = flushing_[id.value - flushing_from_];
  LS_CHECK_GT(waits, uint32_t{0});
  --waits;
  while (!flushing_.empty() && flushing_.front() == 0) {
    flushing_.pop_front();
    output->log_persisted = LogWriteId{flushing_from_++};
  }
}

std::pair<LogNumber, Record> Logs::Create(LogWriteId id, const std::string& topic,
                                          int32_t partition, Uuid topic_id, int64_t start) {
  LS_CHECK(IsTopicName(topic));
  LS_CHECK_GE(partition, 0);
  LS_CHECK_GE(start, int64_t{0});
  Begin(id);
  WaitFor(id);
  ++last_.value;
  auto log = std::make_unique<Log>();
  log->number = last_;
  log->directory = LogDirectoryName(topic, partition);
  log->topic = topic;
  log->partition = partition;
  log->topic_id = topic_id;
  log->extent = log->file_extent = {.start = start, .end = start};
  log->file_end = log->readable_end = log->recovery_point = start;
  log->segment_bytes = options_.segment_bytes;
  log->segment_ms = options_.segment_ms;
  logs_.emplace(last_, std::move(log));
  return {last_, LogCreatedRecord{last_, topic, partition, topic_id, start}};
}

Record Logs::Delete(LogWriteId id, LogNumber number) {
  Log& log = Get(number);
  Begin(id);
  WaitFor(id);
  log.deleted = true;
  // Reads under way are answered when what they wait for has come: the files are in use until then.
  CutCache(&log, INT64_MIN);
  DropAhead(&log);
  return LogDeletedRecord{number};
}

std::optional<Record> Logs::Change(LogWriteId id, LogNumber number, LogChange change,
                                   StoreOutput* output) {
  Log& log = Get(number);
  Begin(id);
  WaitFor(id);
  const LogExtent before = log.extent;
  const char* wrong = log.extent.Advance(change);
  if (wrong != nullptr) CheckFailed(__FILE__, __LINE__, "order of changes of a log", wrong);
  if (auto* append = std::get_if<LogAppend>(&change)) {
    absl::StatusOr<std::vector<BatchSlice>> batches = SplitBatches(*append);
    LS_CHECK(batches.ok());
    Cache(&log, *std::move(batches));
  } else if (IsCut(change, before)) {
    // Emptied above its end, too: then nothing is left.
    const int64_t to = log.extent.end <= before.end ? log.extent.end : INT64_MIN;
    CutCache(&log, to);
    std::erase_if(log.places, [to](const Place& place) { return place.offset > to; });
    DropAhead(&log);
    LowerLimits(number, to);
    log.readable_end = std::min(log.readable_end, to);
    ++log.cuts_under_way;
  }
  if (options_.durability == Durability::kFsync) return LogChangeRecord{number, std::move(change)};
  UnmarkClean(output);
  log.queue.push_back({std::move(change), 0, id});
  Run(&log, output);
  return std::nullopt;
}

Record Logs::SetBrokerEpoch(LogWriteId id, int64_t epoch) {
  Begin(id);
  WaitFor(id);
  broker_epoch_ = epoch;
  return BrokerEpochRecord{epoch};
}

void Logs::OnDurable(std::vector<Record> records, uint64_t sequence, StoreOutput* output) {
  for (Record& record : records) {
    if (const auto* created = std::get_if<LogCreatedRecord>(&record)) {
      Log* log = Find(created->log);
      log->life = Life::kWaiting;
      log->dirty_since = sequence;
      Open(log, output);
    } else if (const auto* deleted = std::get_if<LogDeletedRecord>(&record)) {
      Log* log = Find(deleted->log);
      if (log->dirty_since == 0) log->dirty_since = sequence;
      for (const Queued& queued : log->queue) {
        if (queued.id != LogWriteId{}) Persisted(queued.id, output);
      }
      log->queue.clear();
      if (log->held != LogWriteId{}) Persisted(std::exchange(log->held, {}), output);
      if (log->life == Life::kWaiting) {
        logs_.erase(deleted->log);
        continue;
      }
      log->life = Life::kDeleting;
      MaybeRemove(log, output);
    } else if (auto* change = std::get_if<LogChangeRecord>(&record)) {
      Log* log = Find(change->log);
      if (log->dirty_since == 0) log->dirty_since = sequence;
      log->queue.push_back({std::move(change->change), sequence, {}});
      Run(log, output);
    }
  }
}

void Logs::OnJournalPersisted(const std::vector<LogWriteId>& ids, StoreOutput* output) {
  for (const LogWriteId id : ids) Persisted(id, output);
}

uint64_t Logs::OldestNeeded() const {
  uint64_t oldest = UINT64_MAX;
  for (const auto& [number, log] : logs_) {
    if (log->dirty_since != 0) oldest = std::min(oldest, log->dirty_since);
    if (log->syncing_since != 0) oldest = std::min(oldest, log->syncing_since);
  }
  return oldest;
}

void Logs::SyncUpTo(uint64_t sequence, StoreOutput* output) {
  for (auto& [number, log] : logs_) {
    if (syncing_ >= kSyncsMax) return;
    if (log->dirty_since != 0 && log->dirty_since <= sequence) SyncLog(log.get(), output);
  }
}

// ---- Small calls -------------------------------------------------------------------------------

void Logs::SetSegmentLimits(LogNumber number, uint64_t bytes, int64_t ms) {
  Log& log = Get(number);
  log.segment_bytes = std::min(bytes, kSegmentBytesMax);
  log.segment_ms = ms;
}

void Logs::SetHighWatermark(LogNumber number, int64_t offset) {
  Get(number).high_watermark = offset;
}

void Logs::CheckpointHighWatermarks(StoreOutput* output) {
  WriteCheckpoint(Checkpoint::kHighWatermarks, output);
}

void Logs::WriteProducerSnapshot(LogNumber number, int64_t offset, Bytes snapshot,
                                 StoreOutput* output) {
  Log* log = Find(number);
  if (log == nullptr || log->deleted || log->life != Life::kOpen || snapshot.empty()) return;
  if (offset > log->extent.end || offset < log->extent.start) return;
  log->bytes_since_snapshot = 0;
  if (!log->snapshots.empty() && log->snapshots.back() >= offset) return;
  Replace(log, log->Path(offset, LogFileKind::kSnapshot), std::move(snapshot), output);
  log->snapshots.push_back(offset);
  log->entries_changed = true;
  while (log->snapshots.size() > kSnapshotsMax) {
    Issue(log,
          {.kind = OpKind::kRemove,
           .directory = Directory::kLogs,
           .file = log->Path(log->snapshots.front(), LogFileKind::kSnapshot)},
          output);
    log->snapshots.erase(log->snapshots.begin());
  }
}

int64_t Logs::RetentionStart(LogNumber number, int64_t before_ms, uint64_t bytes_max,
                             int64_t high_watermark) const {
  const Log* log = Find(number);
  LS_CHECK(log != nullptr);
  uint64_t bytes = LogBytes(number);
  int64_t start = log->extent.start;
  for (size_t i = 0; i + 1 < log->segments.size(); ++i) {
    const Segment& segment = log->segments[i];
    const int64_t end = log->segments[i + 1].base;
    const bool too_old = segment.max_timestamp < before_ms;
    const bool too_much = bytes_max > 0 && bytes - segment.bytes >= bytes_max;
    if (end > high_watermark || (!too_old && !too_much)) return start;
    bytes -= segment.bytes;
    start = std::max(start, end);
  }
  // All before it goes, and the active one is as old, with nothing on its way to it: it goes as
  // well (Apply of such a start rolls it). Of records without a time nobody knows how old they are.
  if (log->segments.empty()) return start;  // it is being made
  const Segment& active = log->segments.back();
  const bool whole = log->file_end == log->extent.end && log->extent.end <= high_watermark;
  if (whole && active.bytes > 0 && active.max_timestamp >= 0 && active.max_timestamp < before_ms) {
    start = std::max(start, log->extent.end);
  }
  return start;
}

uint64_t Logs::LogBytes(LogNumber number) const {
  const Log* log = Find(number);
  if (log == nullptr) return 0;
  uint64_t bytes = 0;
  for (const Segment& segment : log->segments) bytes += segment.bytes;
  return bytes;
}

void Logs::SetClusterId(const std::string& id, StoreOutput* output) {
  LS_CHECK(cluster_id_.empty());
  if (!IsClusterId(id)) return;
  cluster_id_ = id;
  WriteProperties(output);
}

void Logs::WriteProperties(StoreOutput* output) {
  Replace(nullptr, kPropertiesFile,
          EncodeProperties({.broker = options_.broker,
                            .durability = options_.durability,
                            .cluster_id = cluster_id_}),
          output);
  IssueCheckpoint({.kind = OpKind::kSyncDirectory, .directory = Directory::kLogs}, output);
}

// ---- A clean stop ------------------------------------------------------------------------------

void Logs::MarkCleanShutdown(StoreOutput* output) {
  LS_CHECK(stop_ == Stop::kNone);
  stop_ = Stop::kSyncing;
  ContinueStop(output);
}

// Files first, then what says that they are whole: a marker that is durable before what it vouches
// for would make recovery believe what a loss of power has taken.
void Logs::ContinueStop(StoreOutput* output) {
  if (stop_ == Stop::kNone || stop_ == Stop::kDone) return;
  if (stop_ == Stop::kSyncing) {
    bool all = true;
    for (auto& [number, log] : logs_) {
      if (log->life != Life::kOpen) continue;
      if (log->unsynced && syncing_ < kSyncsMax && log->queue.empty() && log->cutting == 0) {
        SyncLog(log.get(), output);
      }
      // Looked at behind the sync: one that finds nothing to do has ended already, and no operation
      // would bring us here again.
      all = all && log->queue.empty() && log->cutting == 0 && log->hold == Hold::kNone &&
            log->under_way == 0 && log->syncs_left == 0 && !log->unsynced;
    }
    if (!all || checkpointing()) return;
    stop_ = Stop::kWriting;
    for (const auto& [number, log] : logs_) log->recovery_point = log->extent.end;
    WriteCheckpoint(Checkpoint::kHighWatermarks, output);
    WriteCheckpoint(Checkpoint::kRecoveryPoints, output);
    WriteCheckpoint(Checkpoint::kLogStarts, output);
    return;
  }
  if (checkpoints_left_ > 0) return;
  if (stop_ == Stop::kWriting) {
    stop_ = Stop::kMarking;
    const std::string text =
        "{\"version\":0,\"brokerEpoch\":" + std::to_string(broker_epoch_) + "}";
    Replace(nullptr, kCleanShutdownFile, Bytes::Copy(text), output);
    IssueCheckpoint({.kind = OpKind::kSyncDirectory, .directory = Directory::kLogs}, output);
    return;
  }
  stop_ = Stop::kDone;
  marked_clean_ = true;
  output->clean_shutdown_done = true;
}

// What comes now, the marker does not know of.
void Logs::UnmarkClean(StoreOutput* output) {
  if (!marked_clean_) return;
  marked_clean_ = false;
  stop_ = Stop::kNone;
  IssueCheckpoint(
      {.kind = OpKind::kRemove, .directory = Directory::kLogs, .file = kCleanShutdownFile}, output);
  IssueCheckpoint({.kind = OpKind::kSyncDirectory, .directory = Directory::kLogs}, output);
}

// ---- Completions -------------------------------------------------------------------------------

void Logs::IssueCheckpoint(FileOp op, StoreOutput* output, Checkpoint which) {
  ++checkpoints_left_;
  for (const Bytes& slice : op.data) backlog_bytes_ += slice.size();
  operations_->Issue(Owner::kLogCheckpoint, static_cast<uint64_t>(which), std::move(op), output);
}

void Logs::OnDone(const Operation& operation, const FileDone& done, StoreOutput* output) {
  if (operation.kind == OpKind::kWrite && operation.directory == Directory::kLogs) {
    backlog_bytes_ -= std::min(backlog_bytes_, operation.size);
  }
  switch (operation.owner) {
    case Owner::kLogFile:
      if (Log* log = Find({static_cast<uint32_t>(operation.number)})) {
        --log->under_way;
        MaybeRemove(log, output);
      }
      break;
    case Owner::kLogFlush: {
      const auto found = flushes_.find(operation.number);
      LS_CHECK(found != flushes_.end());
      const Flush flush = found->second;
      flushes_.erase(found);
      Persisted(flush.id, output);
      if (Log* log = Find(flush.log)) {
        --log->under_way;
        MaybeRemove(log, output);
      }
      break;
    }
    case Owner::kLogSync:
      if (Log* log = Find({static_cast<uint32_t>(operation.number)})) {
        --log->under_way;
        if (--log->syncs_left == 0) OnSynced(log, output);
        MaybeRemove(log, output);
      }
      break;
    case Owner::kLogRemoval:
      if (Log* log = Find({static_cast<uint32_t>(operation.number)})) {
        OnRemoved(log, operation, done, output);
      }
      break;
    case Owner::kLogTask:
      OnTaskRead(operation.number, done, output);
      break;
    case Owner::kLogRecovery:
      LS_CHECK(recovery_ != nullptr);
      recovery_->OnDone(operation, done, output);
      break;
    case Owner::kLogCheckpoint:
      --checkpoints_left_;
      // The last operation of one.
      if (operation.number != 0 && operation.kind == OpKind::kSyncDirectory) {
        OnCheckpointed(static_cast<Checkpoint>(operation.number), output);
      }
      break;
    default:
      LS_UNREACHABLE();
  }
  if (recovery_ != nullptr && !output->fatal.has_value()) recovery_->Continue(output);
  ContinueStop(output);
}

}  // namespace lockstep::storage
