#include "core/storage/log_recovery.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/base/check.h"
#include "core/records/big_endian.h"
#include "core/records/record_batch.h"
#include "core/storage/file_names.h"

namespace lockstep::storage {
namespace {

constexpr uint64_t kSmallFileBytesMax = 64 << 20;  // checkpoints, snapshots of producers
constexpr char kWhatToDo[] =
    ". The server does not serve, since records that it acknowledged may be gone. Restore log.dirs "
    "from a copy of the same time as the journal, or empty the directories and let the replicas be "
    "made anew from the other brokers";

bool EndsWith(std::string_view text, std::string_view end) { return text.ends_with(end); }

}  // namespace

void Logs::Recover(LogReplay replay, uint64_t oldest, StoreOutput* output) {
  recovery_ = std::make_unique<Recovery>(this, std::move(replay), oldest);
  recovery_->Start(output);
}

void Logs::OnScanned(Log* log, Task* task, StoreOutput* output) {
  recovery_->OnScanned(log, task, output);
}

Logs::Recovery::Recovery(Logs* logs, LogReplay replay, uint64_t oldest)
    : logs_(logs), replay_(std::move(replay)), oldest_(oldest) {}

void Logs::Recovery::Issue(LogNumber log, FileOp op, StoreOutput* output) {
  op.directory = Directory::kLogs;
  if (!log) ++root_left_;
  logs_->operations_->Issue(Owner::kLogRecovery, log.value, std::move(op), output);
}

void Logs::Recovery::Fatal(std::string sentence, StoreOutput* output) {
  output->fatal = std::move(sentence) + kWhatToDo;
}

void Logs::Recovery::Start(StoreOutput* output) {
  logs_->last_ = replay_.table().last;
  logs_->broker_epoch_ = replay_.table().broker_epoch;
  for (const auto& [number, entry] : replay_.table().logs) {
    auto log = std::make_unique<Log>();
    log->number = number;
    log->topic = entry.topic;
    log->partition = entry.partition;
    log->topic_id = entry.topic_id;
    log->directory = LogDirectoryName(entry.topic, entry.partition);
    log->extent = entry.extent;
    log->segment_bytes = logs_->options_.segment_bytes;
    log->segment_ms = logs_->options_.segment_ms;
    log->life = Life::kOpen;
    if (!logs_->directories_.emplace(log->directory, number).second) {
      return Fatal("the journal has two logs of " + log->directory, output);
    }
    work_[number] = {.log = log.get(), .replayed = std::move(replay_.logs().at(number))};
    logs_->logs_.emplace(number, std::move(log));
  }
  Issue({}, {.kind = OpKind::kList}, output);
}

// ---- What is not of one log --------------------------------------------------------------------

void Logs::Recovery::OnRoot(const FileDone& done, StoreOutput* output) {
  listed_ = true;
  bool changed = false;
  for (const std::string& name : done.names) {
    if (!EndsWith(name, "/")) {
      if (EndsWith(name, kTemporarySuffix)) {
        Issue({}, {.kind = OpKind::kRemove, .file = name}, output);
      } else if (name == kHighWatermarksFile || name == kRecoveryPointsFile ||
                 name == kLogStartsFile || name == kCleanShutdownFile || name == kPropertiesFile) {
        Issue({}, {.kind = OpKind::kRead, .file = name, .size = kSmallFileBytesMax}, output);
      }
      continue;
    }
    const std::string directory = name.substr(0, name.size() - 1);
    const auto owner = logs_->directories_.find(directory);
    const auto& deleted = replay_.deleted();
    if (owner != logs_->directories_.end()) {
      work_.at(owner->second).exists = true;
    } else if (EndsWith(directory, kDeletedSuffix) ||
               std::find(deleted.begin(), deleted.end(), directory) != deleted.end()) {
      RemoveDirectory(directory, output);
      changed = true;
    } else if (!EndsWith(directory, kStraySuffix)) {
      logs_->directories_[directory] = {};
      output->events.push_back({.kind = EventKind::kLogStray, .text = directory});
    }
  }
  if (changed) Issue({}, {.kind = OpKind::kSyncDirectory}, output);
}

void Logs::Recovery::RemoveDirectory(const std::string& name, StoreOutput* output) {
  Issue({}, {.kind = OpKind::kList, .file = name}, output);
}

void Logs::Recovery::OnProperties(const FileDone& done, StoreOutput* output) {
  const std::string file = Describe(Directory::kLogs, kPropertiesFile);
  absl::StatusOr<DirectoryProperties> properties = DecodeProperties(done.data.view());
  if (!properties.ok()) {
    output->fatal = file + " cannot be read: " + std::string(properties.status().message()) +
                    ". It says whose log.dirs it is: restore it from a copy";
  } else if (properties->broker != logs_->options_.broker) {
    output->fatal = file + " says that log.dirs belongs to broker " +
                    std::to_string(properties->broker) + ", but this one is broker " +
                    std::to_string(logs_->options_.broker) + ": correct log.dirs or broker.id";
  } else if (properties->durability.has_value() &&
             *properties->durability != logs_->options_.durability && !work_.empty()) {
    output->fatal = file +
                    " says that the logs were written with the other log.durability. What the "
                    "journal has of them depends on it: set it back, or move this broker's "
                    "partitions to other brokers before it is changed";
  } else {
    properties_ = *properties;
  }
}

// Partitions that the journal knows nothing of, in a directory that is not known to be ours: those
// of Apache Kafka, as a rule. Nothing is written among them.
std::optional<std::string> Logs::Recovery::ForeignPartition() const {
  if (properties_.has_value() && properties_->durability.has_value()) return std::nullopt;
  if (!work_.empty()) return std::nullopt;
  for (const auto& [name, owner] : logs_->directories_) {
    const size_t dash = name.rfind('-');
    const bool partition = dash != std::string::npos && dash + 1 < name.size() &&
                           IsTopicName(name.substr(0, dash)) &&
                           std::all_of(name.begin() + static_cast<ptrdiff_t>(dash) + 1, name.end(),
                                       [](char c) { return c >= '0' && c <= '9'; });
    if (!owner && partition) return name;
  }
  return std::nullopt;
}

// It is written before the first log is made, so that only an operator's hand can have taken it. A
// broker of another id would delete what it is not assigned, without a word, with the last copies
// of it: so nothing is done before it is said whose the logs are.
bool Logs::Recovery::KnownWhose(StoreOutput* output) const {
  if (const std::optional<std::string> name = ForeignPartition()) {
    output->fatal =
        Describe(Directory::kLogs, *name) +
        " is a partition that this broker knows nothing of. The data of Apache Kafka cannot be "
        "taken over, only copied by a client: choose an empty directory for log.dirs. If this "
        "broker has written it, its dataLogDir is missing, without which it is of no use: choose "
        "that one, or begin with an empty log.dirs, and let the other replicas fill it";
    return false;
  }
  if (properties_.has_value()) return true;
  for (const auto& [number, work] : work_) {
    if (!work.exists) continue;
    output->fatal = Describe(Directory::kLogs, kPropertiesFile) +
                    " is missing, which says whose the partitions there are. If they are those of "
                    "broker " +
                    std::to_string(logs_->options_.broker) +
                    ", which this one is, write it, with the two lines version=0 and broker.id=" +
                    std::to_string(logs_->options_.broker) +
                    "; if they are another's, correct log.dirs or broker.id";
    return false;
  }
  return true;
}

// What is not of one log is made right before anything is told, so that what comes next cannot be
// taken for what the files vouch for now.
void Logs::Recovery::WriteRoot(StoreOutput* output) {
  if (properties_.has_value()) logs_->cluster_id_ = properties_->cluster_id;
  if (!properties_.has_value() || (properties_->durability.has_value() &&
                                   properties_->durability != logs_->options_.durability)) {
    logs_->WriteProperties(output);
  }
  if (!flush()) return;
  bool differs = false;
  for (const auto& [number, work] : work_) {
    const Log& log = *work.log;
    differs = differs || log.recovery_point != Hint(recovery_points_, log) ||
              log.extent.start != Hint(starts_, log);
  }
  if (differs) {
    logs_->WriteCheckpoint(Checkpoint::kRecoveryPoints, output);
    logs_->WriteCheckpoint(Checkpoint::kLogStarts, output);
  }
  if (clean_) {
    logs_->marked_clean_ = true;
    logs_->UnmarkClean(output);
  }
}

void Logs::Recovery::OnRootRead(const Operation& operation, const FileDone& done,
                                StoreOutput* output) {
  if (operation.file == kPropertiesFile) return OnProperties(done, output);
  if (operation.file == kCleanShutdownFile) {
    static constexpr std::string_view kKey = "\"brokerEpoch\":";
    const std::string_view text = done.data.view();
    const size_t at = text.find(kKey);
    if (at == std::string_view::npos) return;
    const char* from = text.data() + at + kKey.size();
    clean_ = std::from_chars(from, text.data() + text.size(), clean_epoch_).ec == std::errc();
    return;
  }
  const absl::StatusOr<std::vector<PartitionOffset>> offsets = DecodeOffsets(done.data.view());
  if (!offsets.ok()) return;  // a hint that is not there
  ++checkpoints_read_;
  auto& hints = operation.file == kHighWatermarksFile   ? high_watermarks_
                : operation.file == kRecoveryPointsFile ? recovery_points_
                                                        : starts_;
  for (const PartitionOffset& line : *offsets) {
    hints[LogDirectoryName(line.topic, line.partition)] = line.offset;
  }
}

int64_t Logs::Recovery::Hint(const absl::btree_map<std::string, int64_t>& hints,
                             const Log& log) const {
  const auto found = hints.find(log.directory);
  return found == hints.end() ? 0 : found->second;
}

// Of this topic: a later one of its name has committed nothing of what the checkpoint says.
int64_t Logs::Recovery::HighWatermarkHint(const Log& log) const {
  const auto found =
      high_watermarks_.find(LogDirectoryName(TopicIdName(log.topic_id), log.partition));
  return found == high_watermarks_.end() ? 0 : found->second;
}

void Logs::Recovery::OnDone(const Operation& operation, const FileDone& done, StoreOutput* output) {
  const LogNumber number{static_cast<uint32_t>(operation.number)};
  if (!number) {
    --root_left_;
    if (operation.kind == OpKind::kRead) {
      OnRootRead(operation, done, output);
    } else if (operation.kind == OpKind::kList && operation.file.empty()) {
      OnRoot(done, output);
    } else if (operation.kind == OpKind::kList) {
      for (const std::string& name : done.names) {
        Issue({}, {.kind = OpKind::kRemove, .file = operation.file + "/" + name}, output);
      }
      Issue({}, {.kind = OpKind::kRemoveDirectory, .file = operation.file}, output);
      Issue({}, {.kind = OpKind::kSyncDirectory}, output);
    }
    return;
  }
  Work* work = &work_.at(number);
  switch (work->step) {
    case Step::kListing:
      return OnListed(work, done, output);
    case Step::kTimes: {
      // Kafka ends each complete segment's time index with its largest timestamp.
      const std::optional<ParsedLogFile> name = ParseLogFileName(
          std::string_view(operation.file).substr(work->log->directory.size() + 1));
      Segment* segment = logs_->SegmentAt(work->log, name->base);
      if (done.data.size() == 12) {
        segment->max_timestamp = records::LoadBe<int64_t>(done.data.data());
      }
      if (--work->reads_left == 0) ReadEpochs(work, output);
      return;
    }
    case Step::kEpochs: {
      const absl::StatusOr<std::vector<EpochStart>> epochs = DecodeEpochs(done.data.view());
      work->has_epochs = epochs.ok();
      if (epochs.ok()) work->epochs = *epochs;
      return ReadSnapshot(work, output);
    }
    case Step::kSnapshot:
      if (done.error != FileError::kNone) {
        // From the one before on, all batches are told.
        logs_->RemoveSnapshots(work->log, work->snapshot_offset - 1, output);
        return ReadSnapshot(work, output);
      }
      work->snapshot = done.data;
      return Scan(work, output);
    case Step::kFirst:
      if (done.data.size() == records::kBatchHeaderBytes) {
        work->log->active().first_timestamp = records::HeaderOf({done.data, Bytes()}).max_timestamp;
      }
      return Append(work, output);
    case Step::kWaiting:
    case Step::kScanning:
    case Step::kDone:
      break;
  }
  LS_UNREACHABLE();
}

// ---- One log -----------------------------------------------------------------------------------

void Logs::Recovery::Continue(StoreOutput* output) {
  if (!listed_ || root_left_ > 0) return;
  if (!wrote_root_ && !KnownWhose(output)) return;
  for (auto& [number, work] : work_) {
    if (running_ >= kRecoveriesMax) return;
    if (work.step == Step::kWaiting) Begin(&work, output);
    if (output->fatal.has_value()) return;
  }
  if (running_ > 0) return;
  for (const auto& [number, work] : work_) {
    if (flush() && work.log->syncs_left > 0) return;
  }
  if (!std::exchange(wrote_root_, true)) WriteRoot(output);
  if (logs_->checkpoints_left_ > 0) return;
  for (auto& [number, work] : work_) {
    Log& log = *work.log;
    logs_->recovered_.push_back({.log = number,
                                 .topic = log.topic,
                                 .partition = log.partition,
                                 .topic_id = log.topic_id,
                                 .start = log.extent.start,
                                 .end = log.extent.end,
                                 .epochs = log.extent.epochs,
                                 .high_watermark = std::min(HighWatermarkHint(log), log.extent.end),
                                 .damaged = !work.damage.empty(),
                                 .producer_snapshot = std::move(work.snapshot),
                                 .producer_snapshot_offset = work.snapshot_offset,
                                 .batch_headers = std::move(work.headers)});
    log.high_watermark = logs_->recovered_.back().high_watermark;
  }
  // Without the checkpoints of that stop nobody knows whether all is there that it has left.
  const bool vouched = clean_ && !damaged_ && checkpoints_read_ == 3;
  if (flush() && (!vouched || clean_epoch_ != logs_->broker_epoch_)) logs_->broker_epoch_ = 0;
  logs_->recovery_.reset();  // this
}

void Logs::Recovery::Begin(Work* work, StoreOutput* output) {
  ++running_;
  if (!work->exists && !work->replayed.created) {
    return Fatal(Describe(Directory::kLogs, work->log->directory) +
                     " is missing, and the journal knows of it: is log.dirs the right directory, "
                     "and mounted?",
                 output);
  }
  work->step = Step::kListing;
  if (!work->exists) {
    Issue(work->log->number, {.kind = OpKind::kMakeDirectory, .file = work->log->directory},
          output);
    work->log->is_new = true;
    // Listed after that, it is empty.
  }
  if (!work->exists) work->reads_left = 1;
  Issue(work->log->number, {.kind = OpKind::kList, .file = work->log->directory}, output);
}

void Logs::Recovery::OnListed(Work* work, const FileDone& done, StoreOutput* output) {
  if (work->reads_left > 0) {  // the directory has been made
    --work->reads_left;
    return;
  }
  Log* log = work->log;
  if (work->replayed.touched) {
    log->dirty_since = oldest_;
    // What is listed may have been made by a killed process, and be in the page cache alone.
    log->entries_changed = true;
  }
  const auto has = [&done](const std::string& name) {
    return std::find(done.names.begin(), done.names.end(), name) != done.names.end();
  };
  work->own = has(OwnerFileName(log->number));
  work->has_metadata = has(kMetadataFile);
  // While the journal has its creation, what a log of before has left may still be there.
  const auto other = std::find_if(done.names.begin(), done.names.end(),
                                  [](const auto& name) { return name.starts_with(kOwnerPrefix); });
  if (!work->own && !work->replayed.created && other != done.names.end()) {
    return Fatal(
        Describe(Directory::kLogs, log->Path(*other)) +
            " says that the directory is that of another partition's log: were directories "
            "moved? Give each its own name again",
        output);
  }
  // With kFlush the journal does not have the batches: the directory counts, unless it is that of a
  // log that was deleted.
  const bool has_segment =
      std::any_of(done.names.begin(), done.names.end(), [](const std::string& name) {
        const std::optional<ParsedLogFile> file = ParseLogFileName(name);
        return file.has_value() && file->kind == LogFileKind::kLog;
      });
  const bool others = !work->own && work->replayed.created;
  if (flush() ? others || !has_segment : work->replayed.reset) {
    return Renew(work, done, output);
  }
  if (TakeSegments(work, done, output)) ReadTimes(work, output);
}

// Nothing in the files is of use: the journal has everything.
void Logs::Recovery::Renew(Work* work, const FileDone& done, StoreOutput* output) {
  Log* log = work->log;
  for (const std::string& name : done.names) {
    if (name == OwnerFileName(log->number)) continue;
    logs_->Issue(log,
                 {.kind = OpKind::kRemove, .directory = Directory::kLogs, .file = log->Path(name)},
                 output);
  }
  log->is_new = true;
  log->entries_changed = true;
  if (!work->own) logs_->WriteOwner(log, output);
  logs_->WriteMetadata(log, output);
  work->cut = true;
  log->file_end = work->replayed.trusted_end;
  // The crash came when it was being emptied; its own start had been kept before.
  if (flush() && (work->own || !work->replayed.created) && starts_.contains(log->directory)) {
    log->file_end = Hint(starts_, *log);
  }
  if (flush()) log->extent = {.start = log->file_end, .end = log->file_end};
  logs_->BeginSegment(log, log->file_end, output);
  work->snapshot_offset = OldestOf(*log);
  Append(work, output);
}

bool Logs::Recovery::TakeSegments(Work* work, const FileDone& done, StoreOutput* output) {
  Log* log = work->log;
  const auto remove = [&](const std::string& name) {
    log->entries_changed = true;
    logs_->Issue(log,
                 {.kind = OpKind::kRemove, .directory = Directory::kLogs, .file = log->Path(name)},
                 output);
  };
  absl::btree_map<int64_t, uint64_t> segments;  // base -> bytes
  absl::btree_map<std::string, uint64_t> indexes;
  std::vector<int64_t> snapshots;
  for (size_t i = 0; i < done.names.size(); ++i) {
    const std::optional<ParsedLogFile> name = ParseLogFileName(done.names[i]);
    if (!name.has_value()) {
      if (EndsWith(done.names[i], kTemporarySuffix)) remove(done.names[i]);
    } else if (name->kind == LogFileKind::kLog) {
      segments[name->base] = done.sizes[i];
    } else if (name->kind == LogFileKind::kSnapshot) {
      snapshots.push_back(name->base);
    } else {
      indexes[done.names[i]] = done.sizes[i];
    }
  }
  if (flush()) {
    log->extent.start = Hint(starts_, *log);
    if (!segments.empty()) {
      log->extent.start = std::max(log->extent.start, segments.begin()->first);
    }
    work->replayed.trusted_end = INT64_MAX;
  }
  const int64_t end = work->replayed.trusted_end;
  const int64_t start = std::min(log->extent.start, end);
  for (auto it = segments.begin(); it != segments.end();) {
    const auto next = std::next(it);
    const bool below = next != segments.end() && next->first <= start;
    // One that begins at T has nothing that is trusted, and hides that the one before may have been
    // cut there: if that was not durable, what was cut follows T in it.
    const bool above =
        it->first > end || (work->replayed.touched && it->first == end && it != segments.begin());
    if (!below && !above) {
      it = next;
      continue;
    }
    remove(LogFileName(it->first, LogFileKind::kLog));
    it = segments.erase(it);
  }
  // The log begins at or above T: nothing below is needed, and of the segments there any may have
  // been removed already.
  const bool nothing_needed = work->replayed.touched && start >= end;
  if (nothing_needed || segments.empty() || segments.begin()->first > start) {
    if (!nothing_needed) {
      work->damage = Describe(Directory::kLogs, log->directory) + ": the segment of offset " +
                     std::to_string(start) + " is missing";
    } else {
      for (const auto& [base, bytes] : segments) remove(LogFileName(base, LogFileKind::kLog));
      segments.clear();
    }
  }
  for (const auto& [base, bytes] : segments) {
    log->segments.push_back({.base = base,
                             .bytes = bytes,
                             .max_timestamp = kUnknown,
                             .index = SegmentIndex(base, logs_->options_.index_interval_bytes)});
    for (const LogFileKind kind : {LogFileKind::kIndex, LogFileKind::kTimeIndex}) {
      const std::string name = LogFileName(base, kind);
      const auto found = indexes.find(name);
      if (found == indexes.end()) {
        log->entries_changed = true;
        logs_->Issue(
            log, {.kind = OpKind::kCreate, .directory = Directory::kLogs, .file = log->Path(name)},
            output);
        continue;
      }
      if (kind == LogFileKind::kTimeIndex) log->segments.back().time_index_bytes = found->second;
      indexes.erase(found);
    }
  }
  for (const auto& [name, bytes] : indexes) remove(name);
  TakeSnapshots(work, snapshots, output);
  if (segments.empty()) {
    log->file_end = end;
    logs_->BeginSegment(log, end, output);
  }
  return true;
}

// One above a cut may be of what was cut; one above the end is of what was never durable, and must
// not be taken for one of what will be there later.
void Logs::Recovery::TakeSnapshots(Work* work, const std::vector<int64_t>& found,
                                   StoreOutput* output) {
  Log* log = work->log;
  const int64_t highest =
      flush() ? Hint(recovery_points_, *log) : std::min(work->replayed.lowest_cut, log->extent.end);
  for (const int64_t offset : found) {
    if (offset <= highest && offset >= OldestOf(*log)) {
      log->snapshots.push_back(offset);
      continue;
    }
    logs_->Issue(log,
                 {.kind = OpKind::kRemove,
                  .directory = Directory::kLogs,
                  .file = log->Path(offset, LogFileKind::kSnapshot)},
                 output);
    work->snapshots_removed = true;
  }
  if (work->snapshots_removed) {
    logs_->Issue(
        log,
        {.kind = OpKind::kSyncDirectory, .directory = Directory::kLogs, .file = log->directory},
        output);
  }
}

int64_t Logs::Recovery::OldestOf(const Log& log) {
  return log.segments.empty() ? log.extent.start
                              : std::min(log.extent.start, log.segments.front().base);
}

void Logs::Recovery::ReadTimes(Work* work, StoreOutput* output) {
  work->step = Step::kTimes;
  Log* log = work->log;
  for (size_t i = 0; i + 1 < log->segments.size(); ++i) {
    const Segment& segment = log->segments[i];
    if (segment.time_index_bytes < 12) continue;
    ++work->reads_left;
    Issue(log->number,
          {.kind = OpKind::kRead,
           .file = log->Path(segment.base, LogFileKind::kTimeIndex),
           .offset = segment.time_index_bytes - 12,
           .size = 12},
          output);
  }
  if (work->reads_left == 0) ReadEpochs(work, output);
}

void Logs::Recovery::ReadEpochs(Work* work, StoreOutput* output) {
  if (!flush()) return ReadSnapshot(work, output);
  work->step = Step::kEpochs;
  Issue(work->log->number,
        {.kind = OpKind::kRead, .file = work->log->Path(kEpochsFile), .size = kSmallFileBytesMax},
        output);
}

void Logs::Recovery::ReadSnapshot(Work* work, StoreOutput* output) {
  work->step = Step::kSnapshot;
  Log* log = work->log;
  work->snapshot_offset = OldestOf(*log);
  if (log->snapshots.empty()) return Scan(work, output);
  work->snapshot_offset = log->snapshots.back();
  Issue(log->number,
        {.kind = OpKind::kRead,
         .file = log->Path(work->snapshot_offset, LogFileKind::kSnapshot),
         .size = kSmallFileBytesMax},
        output);
}

void Logs::Recovery::Scan(Work* work, StoreOutput* output) {
  work->step = Step::kScanning;
  Log* log = work->log;
  const int64_t end = work->replayed.trusted_end;
  int64_t from = std::min(work->snapshot_offset, end);
  // Above the recovery point nothing has been synced: every batch is looked at. Below it, only the
  // file knows the epochs.
  if (flush()) from = std::min(from, std::max(log->extent.start, Hint(recovery_points_, *log)));
  if (flush() && !work->has_epochs) from = std::min(from, log->extent.start);
  log->file_end = end;
  logs_->StartTask({.kind = Task::Kind::kScan,
                    .log = log->number,
                    .offset = from,
                    .limit = end,
                    .strict = flush() && !clean_},
                   output);
}

void Logs::Recovery::OnScanned(Log* log, Task* task, StoreOutput* output) {
  Work* work = &work_.at(log->number);
  if (flush()) {
    if (!TakeEnd(work, task, output)) return;
  } else if (std::string damage = DamageFound(*work, *task); !damage.empty()) {
    work->damage = std::move(damage);
    return TakeDamaged(work, task, output);
  }
  Segment& active = log->active();
  const uint64_t position = active.base > task->base ? 0 : task->position;
  active.indexed = true;
  if (work->replayed.touched || flush() || position != active.bytes) {
    if (position != active.bytes && flush()) {
      output->events.push_back(
          {.kind = EventKind::kLogCut, .detail = active.bytes - position, .text = log->directory});
      work->cut = true;
    }
    logs_->CutAt(log, active.base, position, log->file_end, output);
  }
  active.max_timestamp = active.index.max_timestamp();
  for (Bytes& header : task->headers) {
    if (records::HeaderOf({header, Bytes()}).next_offset() > work->snapshot_offset) {
      work->headers.push_back(std::move(header));
    }
  }
  ReadFirst(work, output);
}

// kFsync: what is wrong with what was scanned. All below T has been synced once.
std::string Logs::Recovery::DamageFound(const Work& work, const Task& task) const {
  if (!work.damage.empty()) return work.damage;
  const Log& log = *work.log;
  const int64_t end = work.replayed.trusted_end;
  if (!logs_->ScanIsShort(task)) return "";
  const std::string why = task.failed.empty() ? "the file ends at offset " +
                                                    std::to_string(std::max(task.end, task.base))
                                              : task.failed;
  return FileOf(log, task) + why + "; the log ends at offset " + std::to_string(end);
}

// The log goes on where it ends, in a segment of its own: where that is in a damaged file, nobody
// can tell. What of it is still whole can be read; whoever comes to the rest is told. The journal
// knows all but the batches, so that the replica is what it was, with a hole in it.
void Logs::Recovery::TakeDamaged(Work* work, Task* task, StoreOutput* output) {
  Log* log = work->log;
  logs_->OnDamage(log, work->damage, output);
  task->headers.clear();
  work->snapshot = Bytes();
  work->snapshot_offset = log->extent.end;
  const int64_t end = work->replayed.trusted_end;
  log->file_end = end;
  if (log->active().base < end) {
    log->active().max_timestamp = kUnknown;
    logs_->BeginSegment(log, end, output);
  } else {
    logs_->CutAt(log, end, 0, end, output);
  }
  Append(work, output);
}

// kFlush: the log ends where the scan has.
bool Logs::Recovery::TakeEnd(Work* work, Task* task, StoreOutput* output) {
  Log* log = work->log;
  const int64_t end = std::max(task->end, task->base);
  // Then it is as after a loss of power: the broker does not say that it has all that it had.
  if (end < Hint(recovery_points_, *log)) damaged_ = true;
  if (work->snapshot_offset > std::max(end, log->extent.start) && !log->snapshots.empty()) {
    // A crash has brought back one of what was cut: from an older one on, all batches are wanted.
    logs_->RemoveSnapshots(log, end, output);
    work->snapshot = Bytes();
    work->cut = true;
    ReadSnapshot(work, output);
    return false;
  }
  while (log->active().base > task->base) {
    logs_->RemoveSegment(log, log->active(), output);
    log->segments.pop_back();
    work->cut = true;
  }
  const int64_t start = log->extent.start;
  if (start > end) {
    // As Kafka does: all that the files have lies below the start.
    logs_->Reset(log, start, output);
    log->extent = {.start = start, .end = start};
    work->snapshot = Bytes();
    work->snapshot_offset = start;
    work->cut = true;
    Append(work, output);
    return false;
  }
  LogExtent extent{.end = end};
  for (const EpochStart& epoch : work->epochs) {
    if (epoch.start <= end) extent.Begin(epoch);
  }
  for (const Bytes& bytes : task->headers) {
    const records::BatchHeader header = records::HeaderOf({bytes, Bytes()});
    extent.Begin({header.partition_leader_epoch, header.base_offset});
  }
  LS_CHECK(extent.Advance(LogStart{start}) == nullptr);
  log->extent = std::move(extent);
  log->file_end = end;
  return true;
}

void Logs::Recovery::ReadFirst(Work* work, StoreOutput* output) {
  Log* log = work->log;
  if (log->active().bytes == 0) return Append(work, output);
  work->step = Step::kFirst;
  Issue(log->number,
        {.kind = OpKind::kRead,
         .file = log->Path(log->active().base, LogFileKind::kLog),
         .size = records::kBatchHeaderBytes},
        output);
}

void Logs::Recovery::Append(Work* work, StoreOutput* output) {
  Log* log = work->log;
  for (LogAppend& append : work->replayed.appends) {
    absl::StatusOr<std::vector<BatchSlice>> batches = SplitBatches(append);
    LS_CHECK(batches.ok());
    for (const BatchSlice& batch : *batches) {
      if (batch.end > work->snapshot_offset)
        work->headers.push_back(Bytes::Copy(batch.header.view()));
    }
    logs_->Apply(log, std::move(append), output);
    logs_->Cache(log, *std::move(batches));
  }
  work->replayed.appends.clear();
  log->file_end = log->extent.end;
  // What retention or DeleteRecords had removed is there again if the journal still had it.
  if (!flush() && log->segments.front().base < log->extent.start) {
    logs_->Apply(log, LogStart{log->extent.start}, output);
  }
  log->readable_end = log->file_end;
  work->step = Step::kDone;
  --running_;
  if (flush()) TakeFiles(work, output);
}

// kFlush: what the files of the log are as they stand, and what of it may be in the page cache
// alone.
void Logs::Recovery::TakeFiles(Work* work, StoreOutput* output) {
  Log* log = work->log;
  log->file_extent = log->extent;
  log->checkpointed = true;
  log->recovery_point = std::min(Hint(recovery_points_, *log), log->extent.end);
  for (size_t i = 0; i < log->segments.size(); ++i) {
    const bool last = i + 1 == log->segments.size();
    Segment& segment = log->segments[i];
    if (last || log->segments[i + 1].base > log->recovery_point) segment.dirty = true;
  }
  if (!work->has_metadata && !log->is_new) logs_->WriteMetadata(log, output);
  log->is_new = true;
  log->entries_changed = true;
  log->epochs_changed = true;
  log->epochs_written = work->epochs;
  // What was cut off must not come back behind what is appended now.
  if (work->cut) logs_->SyncLog(log, output);
}

}  // namespace lockstep::storage
