#include "shell/files.h"

#include <condition_variable>
#include <thread>

#include "core/base/check.h"
#include "shell/file_executor.h"

namespace lockstep::shell {

using storage::FileDone;
using storage::FileOp;
using storage::OpKind;

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
             std::function<void()> wake) {
  completions_.wake = std::move(wake);
  workers_[static_cast<size_t>(storage::Directory::kData)] =
      std::make_unique<Worker>(data_dir, &completions_);
  workers_[static_cast<size_t>(storage::Directory::kLog)] =
      std::make_unique<Worker>(log_dir, &completions_);
  if (logs_dir.empty()) return;
  workers_[static_cast<size_t>(storage::Directory::kLogs)] =
      std::make_unique<Worker>(logs_dir, &completions_);
}

Files::~Files() = default;

void Files::Submit(std::vector<FileOp>* ops) {
  if (ops->empty()) return;
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i] != nullptr) workers_[i]->Submit(static_cast<storage::Directory>(i), ops);
  }
  ops->clear();
}

void Files::Take(std::vector<FileDone>* done) {
  std::lock_guard lock(completions_.mutex);
  for (FileDone& one : completions_.done) done->push_back(std::move(one));
  completions_.done.clear();
}

void Files::Drain() {
  for (const auto& worker : workers_) {
    if (worker != nullptr) worker->Drain();
  }
}

}  // namespace lockstep::shell
