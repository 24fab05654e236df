#include "shell/files.h"

#include <array>
#include <condition_variable>
#include <map>
#include <thread>

#include "core/base/check.h"
#include "shell/file_executor.h"
#include "shell/file_order.h"

namespace lockstep::shell {

using storage::FileDone;
using storage::FileOp;
using storage::OpKind;

// One thread, for all that happens in one directory.
class Files::Worker {
 public:
  Worker(const std::string& path, Completions* completions)
      : executor_(path), completions_(completions), thread_([this] { Run(); }) {}

  ~Worker() {
    {
      std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  // Takes the operations of this worker's directory out of `ops`.
  void Submit(storage::Directory directory, std::vector<FileOp>* ops) {
    bool some = false;
    {
      std::lock_guard lock(mutex_);
      for (FileOp& op : *ops) {
        if (op.directory != directory) continue;
        waiting_.push_back(std::move(op));
        some = true;
      }
    }
    if (some) changed_.notify_all();
  }

  void Drain() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_.empty() && !working_; });
  }

 private:
  void Run() {
    std::vector<FileOp> ops;
    std::vector<FileDone> done;
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      ops.swap(waiting_);
      working_ = true;
      lock.unlock();
      for (const FileOp& op : ops) {
        done.push_back(executor_.Run(op));
        // What waits for a sync waits for its word, and for nothing that comes after. The
        // completions of writes go along with it, so that the loop wakes once for both.
        if (op.kind == OpKind::kSync) completions_->Publish(&done);
      }
      ops.clear();
      completions_->Publish(&done);
      lock.lock();
      working_ = false;
      if (waiting_.empty()) changed_.notify_all();
    }
  }

  FileExecutor executor_;
  Completions* const completions_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::vector<FileOp> waiting_;
  bool working_ = false;
  bool ending_ = false;

  std::thread thread_;  // last: it uses the others from its start
};

// Several threads for one directory.
class Files::Pool {
 public:
  Pool(const std::string& path, size_t open_files_max, Completions* completions)
      : executor_(path, open_files_max), completions_(completions) {
    for (Lane& lane : lanes_) lane.thread = std::thread([this, &lane] { Run(&lane); });
  }

  ~Pool() {
    {
      std::lock_guard lock(mutex_);
      ending_ = true;
    }
    for (Lane& lane : lanes_) lane.changed.notify_all();
    for (Lane& lane : lanes_) lane.thread.join();
  }

  // Takes the operations of partition logs out of `ops`.
  void Submit(std::vector<FileOp>* ops) {
    std::lock_guard lock(mutex_);
    for (FileOp& op : *ops) {
      if (op.directory != storage::Directory::kLogs) continue;
      FileOrder::Ticket ticket;
      const bool ready = order_.Add(op, &ticket);
      (ready ? LaneOf(op.kind).ready : waiting_)[ticket] = std::move(op);
    }
    WakeLanes();
  }

  void Drain() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return order_.under_way() == 0; });
  }

 private:
  struct Lane {
    std::condition_variable changed;
    std::map<FileOrder::Ticket, FileOp> ready;  // guarded by mutex_
    std::thread thread;
  };
  // So many are carried out before anybody is told: what waits for them should not wait for long,
  // and the loop should not wake for each.
  static constexpr size_t kBatchMax = 32;

  Lane& LaneOf(OpKind kind) {
    switch (kind) {
      case OpKind::kRead:
        return lanes_[0];
      case OpKind::kSync:
      case OpKind::kSyncDirectory:
        return lanes_[1];
      default:
        return lanes_[2];
    }
  }

  // Requires: mutex_ is held.
  void WakeLanes() {
    for (Lane& lane : lanes_) {
      if (!lane.ready.empty()) lane.changed.notify_one();
    }
  }

  void Run(Lane* lane) {
    std::map<FileOrder::Ticket, FileOp> ops;
    std::vector<FileDone> done;
    std::vector<FileOrder::Ticket> ready;
    std::unique_lock lock(mutex_);
    for (;;) {
      lane->changed.wait(
          lock, [&] { return !lane->ready.empty() || (ending_ && order_.under_way() == 0); });
      if (lane->ready.empty()) return;
      // Reads and syncs one by one: each has somebody who waits for it.
      const bool alone = lane != &LaneOf(OpKind::kWrite);
      while (!lane->ready.empty() && ops.size() < (alone ? 1 : kBatchMax)) {
        ops.insert(lane->ready.extract(lane->ready.begin()));
      }
      lock.unlock();
      for (const auto& [ticket, op] : ops) done.push_back(executor_.Run(op));
      // Before what comes after them may begin: so completions are in order, too.
      completions_->Publish(&done);
      lock.lock();
      for (const auto& [ticket, op] : ops) order_.Done(ticket, &ready);
      ops.clear();
      for (const FileOrder::Ticket ticket : ready) {
        auto node = waiting_.extract(ticket);
        LaneOf(node.mapped().kind).ready.insert(std::move(node));
      }
      ready.clear();
      WakeLanes();
      if (order_.under_way() > 0) continue;
      idle_.notify_all();
      if (!ending_) continue;
      for (Lane& other : lanes_) other.changed.notify_all();
    }
  }

  FileExecutor executor_;
  Completions* const completions_;

  std::mutex mutex_;
  std::condition_variable idle_;
  // Guarded by mutex_.
  FileOrder order_;
  std::map<FileOrder::Ticket, FileOp> waiting_;
  bool ending_ = false;

  std::array<Lane, 3> lanes_;  // last: their threads use the others from their start
};

void Files::Completions::Publish(std::vector<FileDone>* batch) {
  if (batch->empty()) return;
  bool was_empty;
  {
    std::lock_guard lock(mutex);
    was_empty = done.empty();
    for (FileDone& one : *batch) done.push_back(std::move(one));
  }
  batch->clear();
  if (was_empty) wake();
}

Files::Files(const std::string& data_dir, const std::string& log_dir, const std::string& logs_dir,
             size_t open_logs_max, std::function<void()> wake) {
  completions_.wake = std::move(wake);
  data_ = std::make_unique<Worker>(data_dir, &completions_);
  log_ = std::make_unique<Worker>(log_dir, &completions_);
  if (!logs_dir.empty()) logs_ = std::make_unique<Pool>(logs_dir, open_logs_max, &completions_);
}

Files::~Files() = default;

void Files::Submit(std::vector<FileOp>* ops) {
  if (ops->empty()) return;
  data_->Submit(storage::Directory::kData, ops);
  log_->Submit(storage::Directory::kLog, ops);
  if (logs_ != nullptr) logs_->Submit(ops);
  ops->clear();
}

void Files::Take(std::vector<FileDone>* done) {
  std::lock_guard lock(completions_.mutex);
  for (FileDone& one : completions_.done) done->push_back(std::move(one));
  completions_.done.clear();
}

void Files::Drain() {
  data_->Drain();
  log_->Drain();
  if (logs_ != nullptr) logs_->Drain();
}

}  // namespace lockstep::shell
