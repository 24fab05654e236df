// Carries out the file operations of the machines, on one disk thread for each directory: so
// everything in one directory happens in the order in which it was given, and a snapshot that is
// being written does not hold up the journal.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/storage/file_ops.h"

namespace lockstep::shell {

// The files of dataDir that are not the machine's: never listed.
inline constexpr const char* kOwnFiles[] = {"lock", "myid"};

class Files {
 public:
  // `wake` is called on a disk thread when Take has something to take, once until it was taken. The
  // directories exist and may be the same one.
  Files(const std::string& data_dir, const std::string& log_dir, std::function<void()> wake);
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
  std::array<std::unique_ptr<Worker>, 2> workers_;  // by storage::Directory
};

}  // namespace lockstep::shell
