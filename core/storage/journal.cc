#include "core/storage/journal.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/check.h"
#include "core/base/random.h"
#include "core/storage/file_names.h"

namespace lockstep::storage {
namespace {

// Operations::Issue number of those that prepare a segment; the others have 0.
constexpr uint64_t kPreparing = 1;

bool IsOfLogs(const Record& record) {
  return std::holds_alternative<LogCreatedRecord>(record) ||
         std::holds_alternative<LogDeletedRecord>(record) ||
         std::holds_alternative<LogChangeRecord>(record) ||
         std::holds_alternative<BrokerEpochRecord>(record);
}

}  // namespace

Journal::Journal(const StoreOptions& options, Operations* operations)
    : options_(options), operations_(operations) {}

void Journal::Open(JournalEnd from, StoreOutput* output) {
  segments_ = std::move(from.segments);
  header_ = from.header;
  end_ = from.end;
  written_ = from.checkpoint;
  logs_ = std::move(from.logs);
  next_ = from.next_prepared ? Next::kPrepared : Next::kNone;
  if (!header_.has_value()) return Roll(output);
  file_ = FileOf(header_->sequence);
  seed_ = header_->Seed();
}

std::string Journal::FileOf(uint64_t sequence) const {
  return FileName(FileKind::kJournal, sequence);
}

// ---- Queueing ----------------------------------------------------------------------------------

void Journal::Append(WriteId id, Record record, uint64_t hold) {
  LS_CHECK(id != WriteId{});
  records_.push_back(std::move(record));
  tags_.push_back({id, hold});
}

void Journal::AppendLog(LogWriteId id, Record record) {
  log_records_.emplace_back(id, std::move(record));
}

void Journal::Release(uint64_t hold) {
  for (Tag& tag : tags_) {
    if (tag.hold == hold) tag.hold = 0;
  }
}

void Journal::BeginOwnSnapshot(Zxid zxid) {
  LS_CHECK(!own_.has_value());
  own_ = zxid;
  own_is_void_ = false;
}

void Journal::AppendOwnSnapshot() {
  LS_CHECK(own_.has_value());
  records_.emplace_back(std::in_place_type<SnapshotRecord>, *own_, false);
  tags_.push_back({});
}

bool Journal::OwnSnapshotIsVoid() const {
  return own_is_void_ || *own_ > written_.last || *own_ < written_.snapshot.zxid;
}

void Journal::NoteForOwnSnapshot(const Record& record) {
  if (const auto* truncate = std::get_if<TruncateRecord>(&record)) {
    own_is_void_ = own_is_void_ || truncate->to < *own_;
  } else if (const auto* snapshot = std::get_if<SnapshotRecord>(&record)) {
    own_is_void_ = own_is_void_ || snapshot->replaces_history;
  }
}

// ---- Batches -----------------------------------------------------------------------------------

void Journal::Write(uint64_t offset, std::vector<Bytes> data, StoreOutput* output) {
  under_way_ += 2;
  operations_->Issue(Owner::kJournal, 0,
                     {.kind = OpKind::kWrite,
                      .directory = Directory::kLog,
                      .file = file_,
                      .offset = offset,
                      .data = std::move(data)},
                     output);
  operations_->Issue(Owner::kJournal, 0,
                     {.kind = OpKind::kSync, .directory = Directory::kLog, .file = file_}, output);
}

bool Journal::Advance(const Record& record, StoreOutput* output) {
  const auto* truncate = std::get_if<TruncateRecord>(&record);
  const SnapshotRef& snapshot = written_.snapshot;
  if (truncate != nullptr && snapshot.kind != SnapshotRef::Kind::kNone &&
      truncate->to < snapshot.zxid) {
    // Not a bug of ours: other servers may have lost their disks.
    output->fatal = "the leader's history ends at " + truncate->to.ToString() + ", but " +
                    Describe(Directory::kData, snapshot.FileName()) +
                    " holds later transactions that were committed: a quorum has lost data. "
                    "Restore the other servers, or empty this server's directories to give up "
                    "what only it knows";
    return false;
  }
  const char* wrong = written_.Advance(record);
  if (wrong != nullptr) CheckFailed(__FILE__, __LINE__, "journal order", wrong);
  segments_.Note(record);
  if (own_.has_value()) NoteForOwnSnapshot(record);
  return true;
}

void Journal::Flush(bool with_logs, StoreOutput* output) {
  if (under_way_ > 0) return;
  LS_CHECK(has_segment());
  const auto own_at = [this](size_t i) { return tags_[i].id == WriteId{}; };
  if (!records_.empty() && own_at(0) && OwnSnapshotIsVoid()) {
    records_.erase(records_.begin());
    tags_.erase(tags_.begin());
    own_.reset();
    progress_.own_is_void = true;
  }
  const bool has_record = !records_.empty() && tags_[0].hold == 0;
  const bool has_log_record = with_logs && !log_records_.empty();
  if (!has_record && !has_log_record) return;

  const uint64_t start = AlignBatch(end_);
  const Record& first = has_record ? records_[0] : log_records_.front().second;
  // A record that is larger than a segment gets one of its own.
  if (end_ != kSegmentHeaderBytes &&
      start + kBatchHeaderBytes + EncodedBytes(first) > options_.segment_bytes) {
    return Roll(output);
  }
  std::vector<Record> batch;
  uint64_t bytes = 0;
  const uint64_t room =
      options_.segment_bytes - std::min(options_.segment_bytes, start + kBatchHeaderBytes);
  if (!TakeBatch(room, with_logs, &batch, &bytes, output)) return;
  LS_CHECK(!batch.empty());
  batch_records_ = batch.size();

  std::vector<Bytes> data = EncodeBatch(seed_, start, batch, bytes);
  std::erase_if(batch, [](const Record& record) { return !IsOfLogs(record); });
  batch_logs_ = std::move(batch);
  end_ = start + kBatchHeaderBytes + bytes;
  Write(start, std::move(data), output);

  // Early enough to be ready when this segment is full.
  if (next_ == Next::kNone && end_ >= options_.segment_bytes / 2) Prepare(output);
}

bool Journal::TakeBatch(uint64_t room, bool with_logs, std::vector<Record>* batch, uint64_t* bytes,
                        StoreOutput* output) {
  batch_id_ = {};
  batch_snapshot_.reset();
  batch_has_own_ = false;
  batch_log_ids_.clear();
  // What older segments say about the logs is said again, so that they can be dropped. Never alone:
  // a table may be larger than a segment.
  if (end_ == kSegmentHeaderBytes && !logs_.empty()) {
    batch->push_back(LogTableRecord{logs_.Encode()});
    *bytes += EncodedBytes(batch->back());
    room += EncodedBytes(batch->back());  // the first record of a caller goes with it in any case
  }
  if (!TakeRecords(room, batch, bytes, output)) return false;
  if (with_logs) TakeLogRecords(room, batch, bytes);
  return true;
}

bool Journal::TakeRecords(uint64_t room, std::vector<Record>* batch, uint64_t* bytes,
                          StoreOutput* output) {
  const auto own_at = [this](size_t i) { return tags_[i].id == WriteId{}; };
  size_t count = 0;
  for (; count < records_.size() && tags_[count].hold == 0; ++count) {
    const Record& record = records_[count];
    const uint64_t size = EncodedBytes(record);
    if (count > 0 && *bytes + size > room) break;
    // A void snapshot ends the batch; the next call drops its record.
    if (own_at(count) && OwnSnapshotIsVoid()) break;
    if (!Advance(record, output)) return false;
    *bytes += size;
    if (own_at(count)) {
      own_.reset();
      batch_has_own_ = true;
    } else {
      batch_id_ = tags_[count].id;
    }
    if (std::holds_alternative<SnapshotRecord>(record)) batch_snapshot_ = written_.snapshot;
  }
  const auto taken = static_cast<ptrdiff_t>(count);
  batch->insert(batch->end(), std::make_move_iterator(records_.begin()),
                std::make_move_iterator(records_.begin() + taken));
  records_.erase(records_.begin(), records_.begin() + taken);
  tags_.erase(tags_.begin(), tags_.begin() + taken);
  return true;
}

void Journal::TakeLogRecords(uint64_t room, std::vector<Record>* batch, uint64_t* bytes) {
  const auto only_table = [&] {
    return batch->empty() ||
           (batch->size() == 1 && std::holds_alternative<LogTableRecord>(batch->front()));
  };
  while (!log_records_.empty()) {
    auto& [id, record] = log_records_.front();
    const uint64_t size = EncodedBytes(record);
    if (!only_table() && *bytes + size > room) return;
    const char* wrong = logs_.Advance(record);
    if (wrong != nullptr) CheckFailed(__FILE__, __LINE__, "order of log records", wrong);
    segments_.Note(record);
    *bytes += size;
    batch_log_ids_.push_back(id);
    batch->push_back(std::move(record));
    log_records_.pop_front();
  }
}

void Journal::FinishBatch(StoreOutput* output) {
  output->events.push_back({.kind = EventKind::kSyncCompleted, .detail = batch_records_});
  if (batch_id_ != WriteId{}) output->persisted = persisted_ = batch_id_;
  if (batch_snapshot_.has_value()) progress_.counted = batch_snapshot_;
  if (batch_has_own_) progress_.own_is_durable = true;
  if (batch_log_ids_.empty()) return;
  progress_.log_records = std::exchange(batch_logs_, {});
  progress_.sequence = sequence();
  progress_.log_ids = std::exchange(batch_log_ids_, {});
}

// ---- Segments ----------------------------------------------------------------------------------

// The next segment's file is made ahead of its use, since creating and allocating it takes far
// longer than a sync.
void Journal::Prepare(StoreOutput* output) {
  LS_CHECK(next_ == Next::kNone);
  next_ = Next::kCreating;
  creating_ = 3;
  const std::string file = FileOf(sequence() + 1);
  FileOp create{.kind = OpKind::kCreate, .directory = Directory::kLog, .file = file};
  create.size = options_.segment_bytes;
  next_allocated_ = static_cast<uint32_t>(options_.segment_bytes);
  operations_->Issue(Owner::kJournal, kPreparing, std::move(create), output);
  operations_->Issue(Owner::kJournal, kPreparing,
                     {.kind = OpKind::kSync, .directory = Directory::kLog, .file = file}, output);
  operations_->Issue(Owner::kJournal, kPreparing,
                     {.kind = OpKind::kSyncDirectory, .directory = Directory::kLog}, output);
}

void Journal::Roll(StoreOutput* output) {
  if (next_ == Next::kNone) Prepare(output);
  if (next_ != Next::kPrepared) return;
  rolling_ = true;
  rolling_header_ = {.server = options_.server,
                     .sequence = sequence() + 1,
                     .salt = Mix64(operations_->incarnation()) ^ Mix64(sequence() + 1),
                     .previous_end = end_,
                     .checkpoint = written_,
                     .allocated = next_allocated_};
  file_ = FileOf(rolling_header_.sequence);
  Write(0, {EncodeSegmentHeader(rolling_header_)}, output);
}

void Journal::FinishRoll(StoreOutput* output) {
  rolling_ = false;
  next_ = Next::kNone;
  header_ = rolling_header_;
  seed_ = header_->Seed();
  end_ = kSegmentHeaderBytes;
  segments_.Begin(header_->sequence, written_.last);
  output->events.push_back({.kind = EventKind::kSegmentRolled, .detail = header_->sequence});
}

void Journal::OnDone(const Operation& operation, StoreOutput* output) {
  if (operation.number == kPreparing) {
    if (--creating_ > 0) return;
    next_ = Next::kPrepared;
    if (!header_.has_value()) Roll(output);
    return;
  }
  LS_CHECK_GT(under_way_, 0);
  if (--under_way_ > 0) return;
  if (rolling_) {
    FinishRoll(output);
  } else {
    FinishBatch(output);
  }
}

void Journal::DropSegments(Zxid snapshot, uint64_t keep_from, StoreOutput* output) {
  LS_CHECK_EQ(under_way_, 0);
  // The copy of the table of logs in the newest segment comes with its first batch; until then, the
  // one before has the last.
  if (end_ == kSegmentHeaderBytes && !logs_.empty()) {
    keep_from = std::min(keep_from, segments_.newest() - 1);
  }
  for (const uint64_t sequence : segments_.Drop(snapshot, options_.retained_bytes, keep_from)) {
    // Each removal is durable before the next begins: a crash that undid one and kept a later one
    // would leave a gap.
    operations_->Issue(
        Owner::kCleanup, 0,
        {.kind = OpKind::kRemove, .directory = Directory::kLog, .file = FileOf(sequence)}, output);
    operations_->Issue(Owner::kCleanup, 0,
                       {.kind = OpKind::kSyncDirectory, .directory = Directory::kLog}, output);
    output->events.push_back({.kind = EventKind::kSegmentDropped, .detail = sequence});
  }
}

}  // namespace lockstep::storage
