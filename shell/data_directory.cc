#include "shell/data_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"

namespace lockstep::shell {
namespace {

std::string SystemWords(int error) { return std::generic_category().message(error); }

// ZooKeeper keeps its files one level down, in version-2.
bool HoldsZooKeeperData(const std::string& path) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path + "/version-2", error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("log.") || name.starts_with("snapshot.")) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<DataDirectory> DataDirectory::Open(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    return absl::FailedPreconditionError(path + " cannot be created: " + error.message() +
                                         "; create it, or name another in dataDir or dataLogDir");
  }
  if (HoldsZooKeeperData(path)) {
    return absl::FailedPreconditionError(
        path +
        " holds the data of an Apache ZooKeeper server, in version-2, which lockstepd does not "
        "read: name another directory in dataDir and dataLogDir, or move it away");
  }
  const std::string lock = path + "/lock";
  const int fd = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) {
    return absl::FailedPreconditionError(lock + " cannot be written: " + SystemWords(errno) +
                                         "; lockstepd must be allowed to write to " + path);
  }
  DataDirectory directory(path, fd);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      return absl::FailedPreconditionError(lock + " cannot be locked: " + SystemWords(errno));
    }
    char holder[32];
    const ssize_t size = ::pread(fd, holder, sizeof holder, 0);
    std::string process(holder, size > 0 ? static_cast<size_t>(size) : 0);
    process = process.substr(0, process.find('\n'));
    return absl::FailedPreconditionError(
        path + " is in use by another lockstepd" + (process.empty() ? "" : ", process " + process) +
        ": stop it first, or give this server a dataDir of its own");
  }
  // Who has it: for the message above only, so that a failure (a full disk) does not matter.
  const std::string process = std::to_string(::getpid()) + "\n";
  if (::ftruncate(fd, 0) == 0) {
    [[maybe_unused]] ssize_t written = ::pwrite(fd, process.data(), process.size(), 0);
  }
  return directory;
}

DataDirectory::DataDirectory(DataDirectory&& other) noexcept
    : path_(std::move(other.path_)), lock_fd_(std::exchange(other.lock_fd_, -1)) {}

DataDirectory& DataDirectory::operator=(DataDirectory&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_fd_, other.lock_fd_);
  return *this;
}

DataDirectory::~DataDirectory() {
  if (lock_fd_ >= 0) ::close(lock_fd_);
}

bool DataDirectory::IsSame(const std::string& other) const {
  std::error_code error;
  return std::filesystem::equivalent(path_, other, error) && !error;
}

}  // namespace lockstep::shell
