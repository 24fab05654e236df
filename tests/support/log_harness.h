// A Store with partition logs on a FakeDisk, with a model beside it: for each log, everything that
// was asked for, what was told to be durable, and hence what a restart may find.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/random.h"
#include "core/records/batch_builder.h"
#include "core/records/record_batch.h"
#include "core/storage/log_files.h"
#include "core/storage/log_table.h"
#include "core/storage/store.h"
#include "tests/support/fake_disk.h"

namespace lockstep::storage {

// A batch of `records` records of `size` bytes, as a leader of `epoch` puts it into a log.
inline records::Batch MakeBatch(int64_t base, int32_t epoch, int32_t count, size_t size,
                                int64_t timestamp) {
  records::BatchBuilder builder;
  for (int32_t i = 0; i < count; ++i) {
    builder.Add(timestamp, std::nullopt,
                std::string(size, static_cast<char>('a' + (base % 26 + i + epoch) % 26)));
  }
  return records::AssignOffsets(
      builder.Build(), {.base_offset = base, .leader_epoch = epoch, .max_timestamp = timestamp});
}

class LogHarness {
 public:
  explicit LogHarness(StoreOptions options, uint64_t sector_bytes = 64)
      : options_(std::move(options)), disk_(sector_bytes) {}

  // ---- Driving ---------------------------------------------------------------------------------

  void Restart() {
    queue_.clear();
    stuck_.clear();
    output_.Clear();
    recovered_.reset();
    fatal_.clear();
    reads_.clear();
    searches_.clear();
    rolled_.clear();
    damaged_.clear();
    clean_ = false;
    last_id_ = 0;
    zab_id_ = 0;
    store_ = std::make_unique<Store>(options_, ++incarnation_);
    store_->Start(&output_);
    Drain();
  }
  bool ExecuteOne() {
    const std::vector<size_t> ready = Ready();
    if (ready.empty()) return false;
    const size_t chosen = ready[order_.has_value() ? order_->Below(ready.size()) : 0];
    const FileOp op = std::move(queue_[chosen]);
    queue_.erase(queue_.begin() + static_cast<ptrdiff_t>(chosen));
    FileDone done = disk_.Execute(op);
    if (fail_at_ != 0 && --fail_at_ == 0) done = {.id = op.id, .error = FileError::kIo};
    if (op.kind == OpKind::kRead && op.file == unreadable_ && op.offset < unreadable_to_ &&
        op.offset + op.size > unreadable_from_) {
      done = {.id = op.id, .error = FileError::kIo};
    }
    ++executed_;
    if (op.kind == OpKind::kSync || op.kind == OpKind::kSyncDirectory) ++syncs_;
    last_op_ = op;
    store_->OnDone(done, &output_);
    store_->Flush(&output_);
    Drain();
    return true;
  }
  void RunUntilIdle() {
    while (fatal_.empty() && ExecuteOne()) {
    }
  }
  // Flushes, and carries out what there is, at most `*budget` operations, which it counts down.
  // False: that was not enough, or the store has given up.
  bool RunWithin(uint64_t* budget) {
    Flush();
    while (waiting() > 0) {
      if (*budget == 0) return false;
      --*budget;
      ExecuteOne();
      if (!fatal_.empty()) return false;
    }
    return true;
  }
  // Until an operation of this kind has been carried out. False: there is none.
  bool RunPast(Directory directory, OpKind kind) {
    while (fatal_.empty() && ExecuteOne()) {
      if (last_op_.directory == directory && last_op_.kind == kind) return true;
    }
    return false;
  }
  void RestartAndRecover() {
    Restart();
    RunUntilIdle();
  }
  void Crash(const std::function<bool()>& keep) {
    disk_.Crash(keep);
    store_.reset();
    queue_.clear();
  }
  void Kill() {
    store_.reset();
    queue_.clear();
  }
  void Shuffle(RandomStream order) { order_ = order; }
  // Operations on this file are not carried out, nor what has to follow them.
  void Stick(std::string file) { stuck_ = std::move(file); }
  void FailAt(uint64_t n) { fail_at_ = n; }
  // Nothing can be read that touches bytes `from` to `to` (exclusive) of this file; empty: of none.
  void MakeUnreadable(std::string file, uint64_t from = 0, uint64_t to = UINT64_MAX) {
    unreadable_ = std::move(file);
    unreadable_from_ = from;
    unreadable_to_ = to;
  }
  void Flush() {
    store_->Flush(&output_);
    Drain();
  }

  LogNumber Create(const std::string& topic, int32_t partition, Uuid id = {1, 2},
                   int64_t start = 0) {
    const LogNumber log = store_->CreateLog({++last_id_}, topic, partition, id, start, &output_);
    Note({.kind = Change::kCreate,
          .log = log,
          .entry = {.topic = topic,
                    .partition = partition,
                    .topic_id = id,
                    .extent = {.start = start, .end = start}}});
    Drain();
    return log;
  }
  void Delete(LogNumber log) {
    store_->DeleteLog({++last_id_}, log, &output_);
    Note({.kind = Change::kDelete, .log = log});
    Drain();
  }
  void Do(LogNumber log, LogChange change) {
    store_->ChangeLog({++last_id_}, log, change, &output_);
    Note({.kind = Change::kChange, .log = log, .change = std::move(change)});
    Drain();
  }
  // One batch at the log's end.
  void Append(LogNumber log, int32_t epoch, int32_t count = 1, size_t size = 10,
              int64_t timestamp = 1000) {
    const int64_t end = now_.logs.at(log).extent.end;
    const records::Batch batch = MakeBatch(end, epoch, count, size, timestamp);
    Do(log, LogAppend{batch.Slices(), end, end + count});
  }
  void SetBrokerEpoch(int64_t epoch) {
    store_->SetBrokerEpoch({++last_id_}, epoch, &output_);
    Note({.kind = Change::kEpoch, .epoch = epoch});
    Drain();
  }
  void AppendZab(Record record) {
    store_->Append({++zab_id_}, std::move(record), &output_);
    Drain();
  }
  void Read(LogNumber log, int64_t offset, uint32_t max_bytes = 1 << 20) {
    store_->ReadLog({++last_read_}, log, offset, max_bytes, &output_);
    Drain();
  }
  void Search(LogNumber log, int64_t timestamp) {
    store_->SearchLog({++last_read_}, log, timestamp, &output_);
    Drain();
  }
  void Snapshot(LogNumber log, int64_t offset) {
    store_->WriteProducerSnapshot(log, offset, Bytes::Copy(SnapshotText(log, offset)), &output_);
    Drain();
  }
  void Checkpoint() {
    store_->CheckpointHighWatermarks(&output_);
    Drain();
  }
  void MarkClean() {
    store_->MarkCleanShutdown(&output_);
    Drain();
  }

  // ---- Looking ---------------------------------------------------------------------------------

  FakeDisk& disk() { return disk_; }
  const FakeDisk& disk() const { return disk_; }
  Store& store() { return *store_; }
  uint64_t executed() const { return executed_; }
  uint64_t syncs() const { return syncs_; }
  size_t waiting() const { return queue_.size(); }
  const std::deque<FileOp>& queue() const { return queue_; }
  const std::optional<Recovered>& recovered() const { return recovered_; }
  const std::string& fatal() const { return fatal_; }
  uint64_t persisted() const { return persisted_; }
  size_t changed() const { return changes_.size(); }
  const std::vector<LogReadDone>& reads() const { return reads_; }
  const std::vector<LogSearchDone>& searches() const { return searches_; }
  const std::vector<LogNumber>& rolled() const { return rolled_; }
  const std::vector<LogNumber>& damaged() const { return damaged_; }
  const std::vector<Event>& events() const { return events_; }
  bool clean() const { return clean_; }
  uint64_t CountEvents(EventKind kind) const {
    return static_cast<uint64_t>(std::count_if(events_.begin(), events_.end(),
                                               [kind](const Event& e) { return e.kind == kind; }));
  }

  // ---- The model -------------------------------------------------------------------------------

  struct Batch {
    int64_t base = 0;
    int64_t end = 0;
    std::string bytes;
    bool operator==(const Batch&) const = default;
  };
  struct LogState {
    LogEntry entry;
    LogExtent extent;
    std::vector<Batch> batches;
  };
  struct State {
    std::map<LogNumber, LogState> logs;
    int64_t epoch = 0;
  };
  State StateAfter(size_t n) const {
    State state = base_;
    for (size_t i = 0; i < n; ++i) Advance(changes_[i], &state);
    return state;
  }
  const State& Now() const { return now_; }

  // The model goes on from what recovery found, whatever that is. Of batches it knows none.
  void AdoptRecovered() {
    base_ = {.epoch = recovered_->broker_epoch};
    for (const RecoveredLog& r : recovered_->logs) {
      LogState& log = base_.logs[r.log];
      log.extent = {.start = r.start, .end = r.end, .epochs = r.epochs};
      log.entry = {
          .topic = r.topic, .partition = r.partition, .topic_id = r.topic_id, .extent = log.extent};
    }
    now_ = base_;
    changes_.clear();
    persisted_ = 0;
  }

  // What a reader finds from the log's start to its end.
  std::string ReadAll(LogNumber log, int64_t start, int64_t end, uint32_t max_bytes = 400) {
    std::string text;
    while (start < end) {
      reads_.clear();
      Read(log, start, max_bytes);
      while (reads_.empty()) {
        if (!ExecuteOne()) return "a read is not answered";
      }
      if (reads_.front().status != LogReadDone::Status::kOk) return "a read fails";
      std::string piece;
      for (const Bytes& slice : reads_.front().batches) piece += slice.view();
      if (piece.empty()) return text;
      // Not below the log's start in the first batch: that is its reader's business.
      for (size_t at = 0; at < piece.size();) {
        const auto header = records::ParseBatchHeader(std::string_view(piece).substr(at));
        if (!header.ok()) return "a read gives no batch";
        at += header->size();
        start = header->next_offset();
      }
      text += piece;
    }
    return text;
  }

  // What is wrong with what recovery found, or nothing. If nothing, the model goes on from there.
  std::string CheckRecovered() {
    if (!fatal_.empty()) return "fatal: " + fatal_;
    if (!recovered_.has_value()) return "recovery has not ended";
    std::string wrong = "no prefix";
    for (size_t n = changes_.size() + 1; n-- > persisted_;) {
      const State state = StateAfter(n);
      wrong = Compare(state);
      if (!wrong.empty()) {
        wrong +=
            " (prefix of " + std::to_string(n) + ", durable " + std::to_string(persisted_) + ")";
        continue;
      }
      base_ = now_ = state;
      changes_.clear();
      persisted_ = 0;
      return CheckContent();
    }
    return wrong;
  }

 private:
  struct Change {
    enum Kind : uint8_t { kCreate, kDelete, kChange, kEpoch } kind = kChange;
    LogNumber log;
    LogEntry entry;
    LogChange change;
    int64_t epoch = 0;
  };

  static std::string SnapshotText(LogNumber log, int64_t offset) {
    return "producers of " + log.ToString() + " at " + std::to_string(offset);
  }

  void Note(Change change) {
    Advance(change, &now_);
    changes_.push_back(std::move(change));
  }
  static void Advance(const Change& change, State* state) {
    switch (change.kind) {
      case Change::kCreate:
        state->logs[change.log] = {change.entry, change.entry.extent, {}};
        return;
      case Change::kDelete:
        state->logs.erase(change.log);
        return;
      case Change::kEpoch:
        state->epoch = change.epoch;
        return;
      case Change::kChange:
        break;
    }
    LogState& log = state->logs.at(change.log);
    const int64_t end = log.extent.end;
    LS_CHECK(log.extent.Advance(change.change) == nullptr);
    if (const auto* append = std::get_if<LogAppend>(&change.change)) {
      const absl::StatusOr<std::vector<BatchSlice>> batches = SplitBatches(*append);
      for (const BatchSlice& batch : *batches) {
        std::string bytes;
        for (const Bytes& slice : batch.slices) bytes += slice.view();
        log.batches.push_back({batch.base, batch.end, std::move(bytes)});
      }
    } else if (const auto* truncate = std::get_if<LogTruncate>(&change.change)) {
      std::erase_if(log.batches, [&](const Batch& b) { return b.end > truncate->to; });
    } else if (const auto* start = std::get_if<LogStart>(&change.change)) {
      if (start->start > end) log.batches.clear();
    }
  }

  std::string Compare(const State& state) const {
    const Recovered& found = *recovered_;
    if (found.logs.size() != state.logs.size()) return "number of logs";
    if (found.broker_epoch != state.epoch) return "broker epoch";
    size_t i = 0;
    for (const auto& [number, log] : state.logs) {
      const RecoveredLog& r = found.logs[i++];
      if (r.log != number) return "numbers";
      if (r.topic != log.entry.topic || r.partition != log.entry.partition ||
          r.topic_id != log.entry.topic_id) {
        return "identity of " + number.ToString();
      }
      if (r.start != log.extent.start) return "start of " + number.ToString();
      if (r.end != log.extent.end) return "end of " + number.ToString();
      if (r.epochs != log.extent.epochs) return "epochs of " + number.ToString();
      // From the snapshot on, every batch is named.
      std::vector<std::string> expected;
      for (const Batch& b : log.batches) {
        if (b.end > r.producer_snapshot_offset) expected.push_back(b.bytes.substr(0, 61));
      }
      std::vector<std::string> headers;
      for (const Bytes& h : r.batch_headers) headers.emplace_back(h.view());
      if (headers != expected) return "batch headers of " + number.ToString();
      if (!r.producer_snapshot.empty() &&
          r.producer_snapshot.view() != SnapshotText(number, r.producer_snapshot_offset)) {
        return "producer snapshot of " + number.ToString();
      }
    }
    return "";
  }

  std::string CheckContent() {
    for (const auto& [number, log] : base_.logs) {
      std::string expected;
      for (const Batch& b : log.batches) {
        if (b.end > log.extent.start) expected += b.bytes;
      }
      const std::string found = ReadAll(number, log.extent.start, log.extent.end);
      if (found != expected) {
        return "content of " + number.ToString() + ": " + Batches(found) + "instead of " +
               Batches(expected);
      }
    }
    return fatal_;
  }

  // Where its batches begin, of which epochs.
  static std::string Batches(std::string_view text) {
    std::string list;
    while (!text.empty()) {
      const auto header = records::ParseBatchHeader(text);
      if (!header.ok()) return list + std::string(text.substr(0, 40)) + " ";
      list += std::to_string(header->base_offset) + " of epoch " +
              std::to_string(header->partition_leader_epoch) + ", ";
      text.remove_prefix(std::min(text.size(), header->size()));
    }
    return list;
  }

  void Drain() {
    for (FileOp& op : output_.ops) queue_.push_back(std::move(op));
    for (const Event& event : output_.events) events_.push_back(event);
    for (LogReadDone& done : output_.log_reads) reads_.push_back(std::move(done));
    for (LogSearchDone& done : output_.log_searches) searches_.push_back(std::move(done));
    for (const LogNumber log : output_.logs_rolled) rolled_.push_back(log);
    for (const LogNumber log : output_.logs_damaged) damaged_.push_back(log);
    if (output_.recovered.has_value()) recovered_ = std::move(output_.recovered);
    if (output_.log_persisted.has_value()) persisted_ = output_.log_persisted->value;
    if (output_.clean_shutdown_done) clean_ = true;
    if (output_.fatal.has_value()) fatal_ = *output_.fatal;
    output_.Clear();
  }

  std::vector<size_t> Ready() const {
    std::vector<size_t> ready;
    for (size_t i = 0; i < queue_.size(); ++i) {
      bool free = stuck_.empty() || queue_[i].file != stuck_;
      for (size_t j = 0; j < i && free; ++j) free = !MustFollow(queue_[i], queue_[j]);
      if (free) ready.push_back(i);
      if (!order_.has_value() && !ready.empty()) break;
    }
    return ready;
  }

  StoreOptions options_;
  FakeDisk disk_;
  std::unique_ptr<Store> store_;
  uint64_t incarnation_ = 0;
  StoreOutput output_;
  std::deque<FileOp> queue_;
  std::optional<RandomStream> order_;
  std::string stuck_;
  uint64_t executed_ = 0;
  uint64_t syncs_ = 0;
  FileOp last_op_;
  uint64_t fail_at_ = 0;

  uint64_t last_id_ = 0;
  uint64_t zab_id_ = 0;
  uint64_t last_read_ = 0;
  std::optional<Recovered> recovered_;
  std::string fatal_;
  std::vector<Event> events_;
  std::vector<LogReadDone> reads_;
  std::vector<LogSearchDone> searches_;
  std::vector<LogNumber> rolled_;
  std::vector<LogNumber> damaged_;
  std::string unreadable_;
  uint64_t unreadable_from_ = 0;
  uint64_t unreadable_to_ = UINT64_MAX;
  bool clean_ = false;

  State now_;                    // after all changes
  State base_;                   // what the last recovery found
  std::vector<Change> changes_;  // since then; the i-th (from 1) has id i
  uint64_t persisted_ = 0;
};

}  // namespace lockstep::storage
