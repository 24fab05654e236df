#include "core/storage/store.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "core/base/check.h"
#include "core/storage/journal.h"
#include "core/storage/log_replay.h"
#include "core/storage/logs.h"
#include "core/storage/operations.h"
#include "core/storage/recovery.h"
#include "core/storage/snapshot_file.h"

namespace lockstep::storage {

bool StoreOutput::Empty() const {
  return ops.empty() && events.empty() && !persisted && snapshot_chunks.empty() && !recovered &&
         !snapshot_taken && !snapshot_wanted && !log_persisted && log_reads.empty() &&
         log_searches.empty() && logs_damaged.empty() && logs_rolled.empty() &&
         !clean_shutdown_done && !fatal;
}

void StoreOutput::Clear() {
  ops.clear();
  events.clear();
  persisted.reset();
  snapshot_chunks.clear();
  recovered.reset();
  snapshot_taken.reset();
  snapshot_wanted = false;
  log_persisted.reset();
  log_reads.clear();
  log_searches.clear();
  logs_damaged.clear();
  logs_rolled.clear();
  clean_shutdown_done = false;
  fatal.reset();
}

// Ties the parts together: which snapshot file counts, which go, and what waits for what.
class Store::Impl {
 public:
  Impl(const StoreOptions& options, uint64_t incarnation)
      : options_(options),
        operations_(incarnation),
        journal_(options, &operations_),
        recovery_(std::make_unique<Recovery>(options, &operations_)) {
    LS_CHECK(options.server);
    // Lengths in the journal are 32 bits wide.
    LS_CHECK_LE(options.segment_bytes, uint64_t{1} << 31);
    LS_CHECK_LE(options.record_bytes_max, uint32_t{1} << 30);
    if (options.logs.has_value()) logs_ = std::make_unique<Logs>(*options.logs, &operations_);
  }

  void Start(StoreOutput* output) { recovery_->Start(output); }
  void OnDone(const FileDone& done, StoreOutput* output);
  void Append(WriteId id, Record record);
  void Flush(StoreOutput* output);
  void ReceiveSnapshot(Zxid zxid, bool first, bool last, Bytes data, StoreOutput* output);
  void BeginSnapshot(Zxid zxid, StoreOutput* output);
  void WriteSnapshot(Bytes data, bool last, StoreOutput* output);
  bool snapshot_in_progress() const { return own_.has_value(); }
  bool busy() const { return journal_.busy() || (logs_ != nullptr && logs_->busy()); }
  bool snapshot_would_free_journal() const;

  // Null after `fatal`: nothing happens any more.
  Logs* logs() {
    if (dead_) return nullptr;
    LS_CHECK(serving());
    LS_CHECK(logs_ != nullptr);
    return logs_.get();
  }
  const Logs& const_logs() const { return *logs_; }
  void AppendLog(LogWriteId id, Record record) { journal_.AppendLog(id, std::move(record)); }
  // What is done whenever something has been.
  void AfterLogs(StoreOutput* output);

 private:
  // A received snapshot whose pieces come in, or whose record waits for it.
  struct Reception {
    SnapshotWriter writer;
    WriteId record;  // that makes it count; 0 until it has been appended
  };

  bool serving() const { return recovery_ == nullptr && !recovered_.has_value() && !dead_; }
  void OnWriterDone(const Operation& operation, StoreOutput* output);
  void FinishRecovery(StoreOutput* output);
  void FinishLogRecovery(StoreOutput* output);
  uint64_t LogsKeepFrom() const { return logs_ == nullptr ? UINT64_MAX : logs_->OldestNeeded(); }
  void MaybeServe(StoreOutput* output);
  void AfterJournal(StoreOutput* output);
  void RemoveSuperseded(StoreOutput* output);
  void DropReception(StoreOutput* output);
  void AddFile(SnapshotRef ref);

  StoreOptions options_;
  Operations operations_;
  Journal journal_;
  std::unique_ptr<Recovery> recovery_;     // until it has ended
  std::optional<Recovered> recovered_;     // from then until there is a segment to append to
  std::optional<JournalEnd> journal_end_;  // ... and while the partition logs are recovered
  std::unique_ptr<Logs> logs_;             // null: there are none
  bool may_drop_ = false;                  // logs have been synced since segments were dropped
  bool dead_ = false;                      // after `fatal`: nothing happens any more
  WriteId last_id_;                        // of the last append

  uint64_t next_writer_ = 1;
  std::optional<SnapshotWriter> own_;
  std::deque<Reception> receptions_;  // the newest last; all others have a record
  SnapshotRef counting_;              // by a durable record
  std::vector<SnapshotRef> files_;    // snapshots under their names, counting or not
};

// ---- Journal -----------------------------------------------------------------------------------

void Store::Impl::Append(WriteId id, Record record) {
  if (dead_) return;
  LS_CHECK(serving());
  LS_CHECK_EQ(id.value, last_id_.value + 1);
  last_id_ = id;
  uint64_t hold = 0;
  if (const auto* transaction = std::get_if<TransactionRecord>(&record)) {
    LS_CHECK_LE(transaction->body.size(), size_t{options_.record_bytes_max});
  } else if (const auto* snapshot = std::get_if<SnapshotRecord>(&record)) {
    // Own snapshots get their record from the store itself.
    LS_CHECK(snapshot->replaces_history);
    LS_CHECK(!receptions_.empty());
    Reception& reception = receptions_.back();
    LS_CHECK(reception.writer.complete());
    LS_CHECK(reception.record == WriteId{});
    LS_CHECK_EQ(reception.writer.ref().zxid, snapshot->zxid);
    reception.record = id;
    if (!reception.writer.durable()) hold = reception.writer.number();
  }
  journal_.Append(id, std::move(record), hold);
}

void Store::Impl::Flush(StoreOutput* output) {
  if (!serving()) return;
  journal_.Flush(logs_ == nullptr || !logs_->backlogged(), output);
  AfterJournal(output);
}

void Store::Impl::AfterJournal(StoreOutput* output) {
  if (output->fatal.has_value()) dead_ = true;
  Journal::Progress progress = journal_.TakeProgress();
  if (!progress.log_ids.empty()) {
    logs_->OnJournalPersisted(progress.log_ids, output);
    logs_->OnDurable(std::move(progress.log_records), progress.sequence, output);
  }
  // A void snapshot stays in files_, and goes with the next one that is superseded: it may bear the
  // name of the one that still counts.
  if (progress.own_is_void) own_.reset();
  if (progress.own_is_durable) {
    LS_CHECK(own_.has_value());
    const Zxid zxid = own_->ref().zxid;
    output->events.push_back(
        {.kind = EventKind::kSnapshotWritten, .zxid = zxid, .detail = own_->bytes()});
    output->snapshot_taken = zxid;
    own_.reset();
  }
  while (!receptions_.empty() && receptions_.front().record != WriteId{} &&
         receptions_.front().record <= journal_.persisted()) {
    output->events.push_back({.kind = EventKind::kSnapshotReceived,
                              .zxid = receptions_.front().writer.ref().zxid,
                              .detail = receptions_.front().writer.bytes()});
    receptions_.pop_front();
  }
  if (progress.counted.has_value()) {
    counting_ = *progress.counted;
    journal_.DropSegments(counting_.zxid, LogsKeepFrom(), output);
    RemoveSuperseded(output);
  }
  if (logs_ != nullptr) AfterLogs(output);
}

// The journal is kept short: logs that hold back its oldest segments are synced, and the segments
// that nobody needs any more are dropped.
void Store::Impl::AfterLogs(StoreOutput* output) {
  if (logs_->TakeSynced()) may_drop_ = true;
  if (!serving() || !journal_.has_segment() || output->fatal.has_value()) return;
  if (may_drop_ && !journal_.writing()) {
    may_drop_ = false;
    journal_.DropSegments(counting_.zxid, LogsKeepFrom(), output);
  }
  const uint64_t bytes_max = options_.logs->journal_bytes_max;
  const SegmentTable& segments = journal_.segments();
  if (journal_.size() <= bytes_max || segments.size() < 2) return;
  const uint64_t excess = (journal_.size() - bytes_max - 1) / options_.segment_bytes + 1;
  logs_->SyncUpTo(std::min(segments.newest() - 1, segments.oldest() + excess - 1), output);
}

bool Store::Impl::snapshot_would_free_journal() const {
  return logs_ != nullptr && serving() && !own_.has_value() &&
         journal_.size() > options_.logs->journal_bytes_max && journal_.segments().size() > 1 &&
         !journal_.segments().OldestIsCovered(counting_.zxid);
}

// Removes the snapshots that neither count nor will. Their removal need not be durable: recovery
// removes what no record names.
void Store::Impl::RemoveSuperseded(StoreOutput* output) {
  const auto needed = [this](SnapshotRef ref) {
    if (ref == counting_) return true;
    if (own_.has_value() && own_->named() && own_->ref() == ref) return true;
    return std::any_of(receptions_.begin(), receptions_.end(), [&](const Reception& reception) {
      return reception.writer.named() && reception.writer.ref() == ref;
    });
  };
  std::erase_if(files_, [&](SnapshotRef ref) {
    if (needed(ref)) return false;
    operations_.Issue(
        Owner::kCleanup, 0,
        {.kind = OpKind::kRemove, .directory = Directory::kData, .file = ref.FileName()}, output);
    return true;
  });
}

// ---- Snapshots ---------------------------------------------------------------------------------

void Store::Impl::ReceiveSnapshot(Zxid zxid, bool first, bool last, Bytes data,
                                  StoreOutput* output) {
  if (dead_) return;
  LS_CHECK(serving());
  if (first) {
    if (!receptions_.empty() && receptions_.back().record == WriteId{}) DropReception(output);
    receptions_.push_back(
        {.writer = SnapshotWriter(next_writer_++, {SnapshotRef::Kind::kReceived, zxid},
                                  options_.server, &operations_)});
    receptions_.back().writer.Start(output);
  }
  LS_CHECK(!receptions_.empty());
  Reception& reception = receptions_.back();
  LS_CHECK(reception.record == WriteId{});
  LS_CHECK_EQ(reception.writer.ref().zxid, zxid);
  reception.writer.Write(std::move(data), last, output);
}

void Store::Impl::DropReception(StoreOutput* output) {
  SnapshotWriter& writer = receptions_.back().writer;
  if (writer.named()) {
    AddFile(writer.ref());
  } else {
    writer.Abandon(output);
  }
  receptions_.pop_back();
}

void Store::Impl::BeginSnapshot(Zxid zxid, StoreOutput* output) {
  if (dead_) return;
  LS_CHECK(serving());
  LS_CHECK(!own_.has_value());
  journal_.BeginOwnSnapshot(zxid);
  own_.emplace(next_writer_++, SnapshotRef{SnapshotRef::Kind::kOwn, zxid}, options_.server,
               &operations_);
  own_->Start(output);
  output->snapshot_wanted = true;
}

void Store::Impl::WriteSnapshot(Bytes data, bool last, StoreOutput* output) {
  if (dead_) return;
  LS_CHECK(own_.has_value());
  own_->Write(std::move(data), last, output);
  if (own_->wants_more()) output->snapshot_wanted = true;
}

void Store::Impl::AddFile(SnapshotRef ref) {
  if (std::find(files_.begin(), files_.end(), ref) == files_.end()) files_.push_back(ref);
}

void Store::Impl::OnWriterDone(const Operation& operation, StoreOutput* output) {
  if (own_.has_value() && own_->number() == operation.number) {
    own_->OnDone(operation, output);
    if (own_->wants_more()) output->snapshot_wanted = true;
    if (own_->durable()) {
      AddFile(own_->ref());
      journal_.AppendOwnSnapshot();
    }
    return;
  }
  const auto reception = std::find_if(
      receptions_.begin(), receptions_.end(),
      [&](const Reception& candidate) { return candidate.writer.number() == operation.number; });
  if (reception == receptions_.end()) return;  // dropped meanwhile
  reception->writer.OnDone(operation, output);
  if (!reception->writer.durable()) return;
  AddFile(reception->writer.ref());
  journal_.Release(operation.number);
}

// ---- Completions -------------------------------------------------------------------------------

void Store::Impl::OnDone(const FileDone& done, StoreOutput* output) {
  if (dead_) return;
  const std::optional<Operation> operation = operations_.Complete(done);
  if (!operation.has_value()) return;
  // A file that cannot be read is its reader's loss; what recovery reads by name of the logs'
  // directory are hints, except for what says whose directory it is.
  const bool hint = operation->owner == Owner::kLogRecovery && operation->kind == OpKind::kRead &&
                    (done.error == FileError::kNotFound ||
                     (done.error == FileError::kIo && operation->file != kPropertiesFile));
  if (done.error != FileError::kNone && operation->owner != Owner::kLogTask && !hint) {
    dead_ = true;
    output->fatal = DescribeFailure(*operation, done);
    return;
  }
  switch (operation->owner) {
    case Owner::kRecovery:
      recovery_->OnDone(*operation, done, output);
      if (!output->fatal.has_value() && recovery_->done()) FinishRecovery(output);
      break;
    case Owner::kJournal:
      journal_.OnDone(*operation, output);
      AfterJournal(output);
      MaybeServe(output);
      break;
    case Owner::kSnapshotWriter:
      OnWriterDone(*operation, output);
      break;
    case Owner::kCleanup:
      break;
    case Owner::kLogFile:
    case Owner::kLogSync:
    case Owner::kLogRemoval:
    case Owner::kLogFlush:
    case Owner::kLogTask:
    case Owner::kLogRecovery:
    case Owner::kLogCheckpoint: {
      const bool recovering = logs_->recovering();
      logs_->OnDone(*operation, done, output);
      if (output->fatal.has_value()) break;
      if (recovering && !logs_->recovering()) FinishLogRecovery(output);
      AfterLogs(output);
      break;
    }
  }
  if (output->fatal.has_value()) dead_ = true;
}

void Store::Impl::FinishRecovery(StoreOutput* output) {
  recovered_ = recovery_->TakeRecovered();
  journal_end_ = recovery_->TakeJournalEnd();
  LogReplay logs = recovery_->TakeLogs();
  recovery_.reset();
  if (logs_ == nullptr) {
    if (!logs.table().logs.empty()) {
      output->fatal =
          "the journal holds partition logs, but this server is not a broker: set log.dirs and "
          "listeners again, or delete the topics before the broker's role is taken away";
      return;
    }
    return FinishLogRecovery(output);
  }
  const SegmentTable& segments = journal_end_->segments;
  logs_->Recover(std::move(logs), segments.empty() ? 1 : segments.oldest(), output);
}

void Store::Impl::FinishLogRecovery(StoreOutput* output) {
  if (logs_ != nullptr) {
    recovered_->logs = logs_->TakeRecovered();
    recovered_->broker_epoch = logs_->recovered_broker_epoch();
  }
  JournalEnd end = *std::exchange(journal_end_, std::nullopt);
  counting_ = end.checkpoint.snapshot;
  journal_.Open(std::move(end), output);
  if (counting_.kind != SnapshotRef::Kind::kNone) {
    AddFile(counting_);
    // A crash may have come between the record and this.
    journal_.DropSegments(counting_.zxid, LogsKeepFrom(), output);
  }
  MaybeServe(output);
}

// A first start ends only when the first segment is durable: so a directory with a snapshot and
// without a journal is never one.
void Store::Impl::MaybeServe(StoreOutput* output) {
  if (!recovered_.has_value() || !journal_.has_segment()) return;
  output->recovered = std::exchange(recovered_, std::nullopt);
}

// ---- The facade --------------------------------------------------------------------------------

Store::Store(const StoreOptions& options, uint64_t incarnation)
    : impl_(std::make_unique<Impl>(options, incarnation)) {}
Store::~Store() = default;

void Store::Start(StoreOutput* output) { impl_->Start(output); }
void Store::OnDone(const FileDone& done, StoreOutput* output) { impl_->OnDone(done, output); }
void Store::Append(WriteId id, Record record, StoreOutput*) {
  impl_->Append(id, std::move(record));
}
void Store::Flush(StoreOutput* output) { impl_->Flush(output); }
void Store::ReceiveSnapshot(Zxid zxid, bool first, bool last, Bytes data, StoreOutput* output) {
  impl_->ReceiveSnapshot(zxid, first, last, std::move(data), output);
}
void Store::BeginSnapshot(Zxid zxid, StoreOutput* output) { impl_->BeginSnapshot(zxid, output); }
void Store::WriteSnapshot(Bytes data, bool last, StoreOutput* output) {
  impl_->WriteSnapshot(std::move(data), last, output);
}
bool Store::snapshot_in_progress() const { return impl_->snapshot_in_progress(); }
bool Store::busy() const { return impl_->busy(); }
bool Store::snapshot_would_free_journal() const { return impl_->snapshot_would_free_journal(); }

LogNumber Store::CreateLog(LogWriteId id, const std::string& topic, int32_t partition,
                           Uuid topic_id, int64_t start, StoreOutput*) {
  Logs* logs = impl_->logs();
  if (logs == nullptr) return {};
  auto [number, record] = logs->Create(id, topic, partition, topic_id, start);
  impl_->AppendLog(id, std::move(record));
  return number;
}
void Store::DeleteLog(LogWriteId id, LogNumber log, StoreOutput*) {
  if (Logs* logs = impl_->logs()) impl_->AppendLog(id, logs->Delete(id, log));
}
void Store::ChangeLog(LogWriteId id, LogNumber log, LogChange change, StoreOutput* output) {
  Logs* logs = impl_->logs();
  if (logs == nullptr) return;
  std::optional<Record> record = logs->Change(id, log, std::move(change), output);
  if (record.has_value()) impl_->AppendLog(id, *std::move(record));
}
void Store::ReadLog(LogReadId id, LogNumber log, int64_t offset, uint32_t max_bytes,
                    StoreOutput* output) {
  if (Logs* logs = impl_->logs()) logs->Read(id, log, offset, max_bytes, output);
}
void Store::SearchLog(LogReadId id, LogNumber log, int64_t timestamp_ms, StoreOutput* output) {
  if (Logs* logs = impl_->logs()) logs->Search(id, log, timestamp_ms, output);
}
void Store::SetSegmentLimits(LogNumber log, uint64_t bytes, int64_t ms) {
  if (Logs* logs = impl_->logs()) logs->SetSegmentLimits(log, bytes, ms);
}
void Store::SetHighWatermark(LogNumber log, int64_t offset) {
  if (Logs* logs = impl_->logs()) logs->SetHighWatermark(log, offset);
}
void Store::CheckpointHighWatermarks(StoreOutput* output) {
  if (Logs* logs = impl_->logs()) logs->CheckpointHighWatermarks(output);
}
void Store::WriteProducerSnapshot(LogNumber log, int64_t offset, Bytes snapshot,
                                  StoreOutput* output) {
  if (Logs* logs = impl_->logs()) {
    logs->WriteProducerSnapshot(log, offset, std::move(snapshot), output);
  }
}
int64_t Store::RetentionStart(LogNumber log, int64_t before_ms, uint64_t bytes_max,
                              int64_t high_watermark) const {
  return impl_->const_logs().RetentionStart(log, before_ms, bytes_max, high_watermark);
}
uint64_t Store::LogBytes(LogNumber log) const { return impl_->const_logs().LogBytes(log); }
void Store::SetBrokerEpoch(LogWriteId id, int64_t epoch, StoreOutput*) {
  if (Logs* logs = impl_->logs()) impl_->AppendLog(id, logs->SetBrokerEpoch(id, epoch));
}
const std::string& Store::cluster_id() const { return impl_->logs()->cluster_id(); }
void Store::SetClusterId(const std::string& id, StoreOutput* output) {
  impl_->logs()->SetClusterId(id, output);
}
void Store::MarkCleanShutdown(StoreOutput* output) {
  if (Logs* logs = impl_->logs()) logs->MarkCleanShutdown(output);
}

}  // namespace lockstep::storage
