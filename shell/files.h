// Carries out the file operations of the machines on disk threads.
//
// The journal and the snapshots have one each: everything in one directory happens in the order in
// which it was given, and a snapshot that is being written does not hold up the journal. The
// directory of the partition logs has three, for reads, for syncs and for all else, which keep the
// order that FileOrder says: a consumer, and a segment that is being written, do not wait while
// other segments are synced.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/storage/file_ops.h"

namespace lockstep::shell {

// The files of dataDir that are not the machine's: never listed.
inline constexpr const char* kOwnFiles[] = {"lock", "myid"};

class Files {
 public:
  // `wake` is called on a disk thread when Take has something to take, once until it was taken. The
  // directories exist; the first two may be the same one. Without `logs_dir` (empty) there are no
  // partition logs; of their files `open_logs_max` stay open.
  Files(const std::string& data_dir, const std::string& log_dir, const std::string& logs_dir,
        size_t open_logs_max, std::function<void()> wake);
  Files(const std::string& data_dir, const std::string& log_dir, std::function<void()> wake)
      : Files(data_dir, log_dir, "", 0, std::move(wake)) {}
  // Carries out what has been submitted, and then ends.
  ~Files();

  // Clears `ops`.
  void Submit(std::vector<storage::FileOp>* ops);

  // Appends the completions since the last call. Those of operations that had to be carried out one
  // after the other are in that order.
  void Take(std::vector<storage::FileDone>* done);

  // Returns when everything submitted so far has been carried out.
  void Drain();

 private:
  class Worker;
  class Pool;

  // Of all workers.
  struct Completions {
    std::mutex mutex;
    std::vector<storage::FileDone> done;
    std::function<void()> wake;

    // Appends all of `batch`, clears it, and wakes the taker if there was nothing before.
    void Publish(std::vector<storage::FileDone>* batch);
  };

  Completions completions_;
  std::unique_ptr<Worker> data_;
  std::unique_ptr<Worker> log_;
  std::unique_ptr<Pool> logs_;  // null if there are none
};

}  // namespace lockstep::shell
