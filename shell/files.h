// Carries out the file operations of the machines, on one disk thread for each directory: so
// everything in one directory happens in the order in which it was given, and a snapshot that is
// being written does not hold up the journal.
#pragma once

#include <array>
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
  // partition logs.
  Files(const std::string& data_dir, const std::string& log_dir, const std::string& logs_dir,
        std::function<void()> wake);
  Files(const std::string& data_dir, const std::string& log_dir, std::function<void()> wake)
      : Files(data_dir, log_dir, "", std::move(wake)) {}
  // Carries out what has been submitted, and then ends.
  ~Files();

  // Clears `ops`.
  void Submit(std::vector<storage::FileOp>* ops);

  // Appends the completions since the last call, each directory's in order.
  void Take(std::vector<storage::FileDone>* done);

  // Returns when everything submitted so far has been carried out.
  void Drain();

 private:
  class Worker;

  // Of all workers.
  struct Completions {
    std::mutex mutex;
    std::vector<storage::FileDone> done;
    std::function<void()> wake;

    // Appends all of `batch`, clears it, and wakes the taker if there was nothing before.
    void Publish(std::vector<storage::FileDone>* batch);
  };

  Completions completions_;
  // By storage::Directory. Null for partition logs if there are none.
  std::array<std::unique_ptr<Worker>, storage::kDirectories> workers_;
};

}  // namespace lockstep::shell
