// A directory that belongs to this process alone while it runs.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace lockstep::shell {

class DataDirectory {
 public:
  // Creates the directory if it is missing, and locks it. The error is a sentence for the operator:
  // it cannot be created or written to, another process has it, or it holds the data of an Apache
  // ZooKeeper server (which would silently be ignored otherwise).
  static absl::StatusOr<DataDirectory> Open(const std::string& path);

  DataDirectory(DataDirectory&& other) noexcept;
  DataDirectory& operator=(DataDirectory&& other) noexcept;
  ~DataDirectory();

  const std::string& path() const { return path_; }
  // Whether `other` names the same directory.
  bool IsSame(const std::string& other) const;

 private:
  DataDirectory(std::string path, int lock_fd) : path_(std::move(path)), lock_fd_(lock_fd) {}

  std::string path_;
  // An open file that is locked; the system unlocks it when the process ends, however it ends.
  int lock_fd_ = -1;
};

}  // namespace lockstep::shell
