// A Store on a FakeDisk, with a model beside it: what was appended, what was told to be durable,
// and hence what a restart may find.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/base/random.h"
#include "core/storage/store.h"
#include "tests/support/fake_disk.h"

namespace lockstep::storage {

// The content of the snapshot at `zxid`, in pieces.
inline std::vector<std::string> SnapshotPieces(Zxid zxid) {
  const std::string text = "state after " + zxid.ToString() + ". ";
  return {text, text + std::string(zxid.counter % 150, 'x'), text + text};
}

class StoreHarness {
 public:
  explicit StoreHarness(StoreOptions options, uint64_t sector_bytes = 64)
      : options_(options), disk_(sector_bytes) {}

  // ---- Driving ---------------------------------------------------------------------------------

  // A new incarnation on what the disk has. Recovery only begins.
  void Restart() {
    queue_.clear();
    output_.Clear();
    recovered_.reset();
    fatal_.clear();
    chunks_.clear();
    last_id_ = {};
    store_ = std::make_unique<Store>(options_, ++incarnation_);
    store_->Start(&output_);
    Drain();
  }

  // Carries out one of the operations that may come next, if there is any: the oldest, unless
  // Shuffle was called.
  bool ExecuteOne() {
    const std::vector<size_t> ready = Ready();
    if (ready.empty()) return false;
    const size_t chosen = ready[order_.has_value() ? order_->Below(ready.size()) : 0];
    const FileOp op = std::move(queue_[chosen]);
    queue_.erase(queue_.begin() + static_cast<ptrdiff_t>(chosen));
    FileDone done = disk_.Execute(op);
    if (fail_at_ != 0 && --fail_at_ == 0) done = {.id = op.id, .error = fail_with_};
    ++executed_;
    last_op_ = op;
    store_->OnDone(done, &output_);
    store_->Flush(&output_);
    Drain();
    return true;
  }
  // Until an operation of this kind has been carried out. False: there is none.
  bool RunPast(Directory directory, OpKind kind) {
    while (fatal_.empty() && ExecuteOne()) {
      if (last_op_.directory == directory && last_op_.kind == kind) return true;
    }
    return false;
  }
  void RunUntilIdle() {
    while (fatal_.empty() && ExecuteOne()) {
    }
  }
  void RestartAndRecover() {
    Restart();
    RunUntilIdle();
  }
  // Loses power: see FakeDisk::Crash.
  void Crash(const std::function<bool()>& keep) {
    disk_.Crash(keep);
    store_.reset();
    queue_.clear();
  }
  // Kills the process alone: the page cache stays, operations not carried out are gone.
  void Kill() {
    store_.reset();
    queue_.clear();
  }
  // From now on, operations are carried out in an order that this stream chooses.
  void Shuffle(RandomStream order) { order_ = order; }
  // The `n`-th operation from now, from 1, fails.
  void FailAt(uint64_t n, FileError error) {
    fail_at_ = n;
    fail_with_ = error;
  }

  void Append(Record record) {
    store_->Append({++last_id_.value}, record, &output_);
    log_.push_back(std::move(record));
    Drain();
  }
  void AppendTransaction(Zxid zxid, std::string body) {
    Append(TransactionRecord{zxid, Bytes::Copy(body)});
  }
  void Flush() {
    store_->Flush(&output_);
    Drain();
  }
  // An own snapshot; its pieces go in as the store asks for them.
  void BeginSnapshot(Zxid zxid) {
    own_ = zxid;
    own_pieces_given_ = 0;
    store_->BeginSnapshot(zxid, &output_);
    Drain();
  }
  void ReceivePiece(Zxid zxid, size_t index) {
    const std::vector<std::string> pieces = SnapshotPieces(zxid);
    store_->ReceiveSnapshot(zxid, index == 0, index + 1 == pieces.size(),
                            Bytes::Copy(pieces[index]), &output_);
    Drain();
  }
  void ReceiveSnapshot(Zxid zxid) {
    for (size_t i = 0; i < SnapshotPieces(zxid).size(); ++i) ReceivePiece(zxid, i);
  }

  // ---- Looking ---------------------------------------------------------------------------------

  FakeDisk& disk() { return disk_; }
  Store& store() { return *store_; }
  const StoreOptions& options() const { return options_; }
  void set_options(StoreOptions options) { options_ = options; }
  uint64_t executed() const { return executed_; }
  size_t waiting() const { return queue_.size(); }
  const std::deque<FileOp>& queue() const { return queue_; }
  const std::optional<Recovered>& recovered() const { return recovered_; }
  const std::string& fatal() const { return fatal_; }
  const std::vector<Event>& events() const { return events_; }
  uint64_t persisted() const { return acknowledged_; }  // records of the log, over incarnations
  size_t appended() const { return log_.size(); }
  std::string snapshot_content() const {
    std::string text;
    for (const Bytes& chunk : chunks_) text += chunk.view();
    return text;
  }
  uint64_t CountEvents(EventKind kind) const {
    return static_cast<uint64_t>(std::count_if(events_.begin(), events_.end(),
                                               [kind](const Event& e) { return e.kind == kind; }));
  }

  // ---- The model -------------------------------------------------------------------------------

  // What is wrong with what recovery found, or nothing. If nothing, the model goes on from there.
  std::string CheckRecovered() {
    if (!fatal_.empty()) return "fatal: " + fatal_;
    if (!recovered_.has_value()) return "recovery has not ended";
    std::string wrong = "no prefix";
    // The longest first: prefixes of equal state are equal for what follows.
    for (size_t n = log_.size() + 1; n-- > acknowledged_;) {
      wrong = CompareWithPrefix(n);
      if (!wrong.empty()) continue;
      log_.resize(n);
      acknowledged_ = id_base_ = n;
      snapshot_told_ = recovered_->snapshot;
      snapshot_told_at_ = n;
      own_.reset();
      return "";
    }
    return wrong;
  }

  // The state after the first `n` records.
  struct State {
    Epoch accepted;
    Epoch current;
    Zxid base;  // of the last replacement
    std::vector<TransactionRecord> history;
    Zxid last() const { return history.empty() ? base : history.back().zxid; }
  };
  State StateAfter(size_t n) const {
    State state;
    for (size_t i = 0; i < n; ++i) {
      if (const auto* t = std::get_if<TransactionRecord>(&log_[i])) {
        state.history.push_back(*t);
      } else if (const auto* cut = std::get_if<TruncateRecord>(&log_[i])) {
        while (!state.history.empty() && state.history.back().zxid > cut->to) {
          state.history.pop_back();
        }
      } else if (const auto* accepted = std::get_if<AcceptedEpochRecord>(&log_[i])) {
        state.accepted = accepted->epoch;
      } else if (const auto* current = std::get_if<CurrentEpochRecord>(&log_[i])) {
        state.current = current->epoch;
      } else if (const auto* snapshot = std::get_if<SnapshotRecord>(&log_[i])) {
        state.history.clear();
        state.base = snapshot->zxid;
      }
    }
    return state;
  }
  State AppendedState() const { return StateAfter(log_.size()); }
  State DurableState() const { return StateAfter(acknowledged_); }
  // The newest own snapshot told to be taken, and not replaced since.
  Zxid snapshot_told() const { return snapshot_told_; }

 private:
  std::string CompareWithPrefix(size_t n) const {
    const State state = StateAfter(n);
    const Recovered& found = *recovered_;
    const std::string at = " (prefix of " + std::to_string(n) + " records)";
    if (found.accepted_epoch != state.accepted) return "accepted epoch" + at;
    if (found.current_epoch != state.current) return "current epoch" + at;
    if (found.base < state.base) return "base before the replacement" + at;
    if (found.snapshot < found.base) return "snapshot below base" + at;
    if (found.snapshot > state.last()) return "snapshot above the history" + at;
    size_t first = 0;
    while (first < state.history.size() && state.history[first].zxid <= found.base) ++first;
    if (state.history.size() - first != found.transactions.size()) return "history length" + at;
    for (size_t i = 0; i < found.transactions.size(); ++i) {
      const TransactionRecord& expected = state.history[first + i];
      if (found.transactions[i].zxid != expected.zxid) return "a zxid" + at;
      if (!(found.transactions[i].body == expected.body)) return "a body" + at;
    }
    if (found.transactions.empty() && found.base != state.last()) return "end of history" + at;
    // A snapshot told to be taken counts, unless a replacement came after it.
    bool replaced = false;
    for (size_t i = snapshot_told_at_; i < n; ++i) {
      replaced = replaced || std::holds_alternative<SnapshotRecord>(log_[i]);
    }
    if (found.snapshot < (replaced ? state.base : snapshot_told_)) return "old snapshot" + at;
    std::string content;
    if (found.snapshot != Zxid{}) {
      for (const std::string& piece : SnapshotPieces(found.snapshot)) content += piece;
    }
    if (content != snapshot_content()) return "snapshot content" + at;
    return "";
  }

  void Drain() {
    // Feeding the own snapshot makes further output.
    while (true) {
      for (FileOp& op : output_.ops) queue_.push_back(std::move(op));
      for (Bytes& chunk : output_.snapshot_chunks) chunks_.push_back(std::move(chunk));
      for (const Event& event : output_.events) events_.push_back(event);
      if (output_.recovered.has_value()) {
        LS_CHECK(!recovered_.has_value());
        recovered_ = std::move(output_.recovered);
      }
      if (output_.snapshot_taken.has_value()) {
        snapshot_told_ = *output_.snapshot_taken;
        snapshot_told_at_ = acknowledged_;
      }
      if (output_.persisted.has_value()) acknowledged_ = id_base_ + output_.persisted->value;
      if (output_.fatal.has_value()) fatal_ = *output_.fatal;
      const bool wanted = output_.snapshot_wanted;
      output_.Clear();
      if (!wanted || !own_.has_value()) return;
      const std::vector<std::string> pieces = SnapshotPieces(*own_);
      if (own_pieces_given_ == pieces.size()) return;
      const size_t index = own_pieces_given_++;
      store_->WriteSnapshot(Bytes::Copy(pieces[index]), index + 1 == pieces.size(), &output_);
    }
  }

  // The operations that may be carried out next: none waits for an earlier one on the same file, or
  // on the entries of the same directory.
  std::vector<size_t> Ready() const {
    std::vector<size_t> ready;
    for (size_t i = 0; i < queue_.size(); ++i) {
      bool free = true;
      for (size_t j = 0; j < i && free; ++j) free = !MustFollow(queue_[i], queue_[j]);
      if (free) ready.push_back(i);
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
  uint64_t executed_ = 0;
  FileOp last_op_;
  uint64_t fail_at_ = 0;
  FileError fail_with_ = FileError::kNone;

  WriteId last_id_;
  std::optional<Recovered> recovered_;
  std::string fatal_;
  std::vector<Bytes> chunks_;
  std::vector<Event> events_;

  std::vector<Record> log_;
  size_t acknowledged_ = 0;  // records of the log that were told to be durable
  size_t id_base_ = 0;       // records of the log before the first of this incarnation
  std::optional<Zxid> own_;
  size_t own_pieces_given_ = 0;
  Zxid snapshot_told_;
  size_t snapshot_told_at_ = 0;  // records of the log that were durable before
};

}  // namespace lockstep::storage
