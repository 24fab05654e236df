#include "shell/file_executor.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "shell/files.h"

namespace lockstep::shell {
namespace {

using storage::Directory;
using storage::FileDone;
using storage::FileError;
using storage::FileOp;
using storage::OpKind;

FileError ErrorOf(int error) {
  switch (error) {
    case 0:
      return FileError::kNone;
    case ENOENT:
      return FileError::kNotFound;
    case EEXIST:
      return FileError::kExists;
    case ENOSPC:
    case EDQUOT:
      return FileError::kNoSpace;
    default:
      return FileError::kIo;
  }
}

// Writes `size` zeros from the start, for file systems without fallocate.
int WriteZeros(int fd, uint64_t size) {
  const std::vector<char> zeros(std::min<uint64_t>(size, 1 << 20));
  for (uint64_t at = 0; at < size;) {
    const size_t part = static_cast<size_t>(std::min<uint64_t>(zeros.size(), size - at));
    const ssize_t written = ::pwrite(fd, zeros.data(), part, static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    at += static_cast<uint64_t>(written);
  }
  return 0;
}

int Allocate(int fd, uint64_t size) {
  int result;
  do {
    result = ::fallocate(fd, 0, 0, static_cast<off_t>(size));
  } while (result != 0 && errno == EINTR);
  if (result == 0) return 0;
  if (errno == EOPNOTSUPP) return WriteZeros(fd, size);
  return errno;
}

}  // namespace

// The file is not closed meanwhile; errno stays what it is.
class FileExecutor::Use {
 public:
  Use(FileExecutor* executor, const std::string& name)
      : executor_(executor), file_(executor->Open(name)) {}
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() {
    if (file_ == nullptr) return;
    std::lock_guard lock(executor_->mutex_);
    --file_->users;
  }

  OpenFile* operator->() const { return file_; }
  OpenFile* get() const { return file_; }

 private:
  FileExecutor* executor_;
  OpenFile* file_;
};

FileExecutor::FileExecutor(std::string path, size_t open_files_max)
    : path_(std::move(path)), open_files_max_(open_files_max) {
  directory_fd_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  LS_CHECK_GE(directory_fd_, 0);
}

FileExecutor::~FileExecutor() {
  for (auto& [name, file] : open_) ::close(file.fd);
  ::close(directory_fd_);
}

FileDone FileExecutor::Run(const FileOp& op) {
  const bool changes = storage::Changes(op.kind);
  if (changes && failed_) {
    return {.id = op.id,
            .error = FileError::kIo,
            .message = path_ + ": nothing is changed any more after the error before"};
  }
  FileDone done = CarryOut(op);
  if (changes && done.error != FileError::kNone) failed_ = true;
  return done;
}

FileDone FileExecutor::CarryOut(const FileOp& op) {
  // Names come from the machine, which has checked what of them came from outside.
  const bool whole = op.kind == OpKind::kList || op.kind == OpKind::kSyncDirectory;
  LS_CHECK((whole && op.file.empty()) || storage::IsSafePath(op.directory, op.file));
  LS_CHECK(op.target.empty() || storage::IsSafePath(op.directory, op.target));
  FileDone done;
  done.id = op.id;
  int error = 0;
  switch (op.kind) {
    case OpKind::kList:
      error = List(op, &done);
      break;
    case OpKind::kRead:
      error = Read(op, &done);
      break;
    case OpKind::kCreate:
      error = Create(op);
      break;
    case OpKind::kWrite:
      error = Write(op);
      break;
    case OpKind::kSync:
      error = Sync(op);
      break;
    case OpKind::kTruncate:
      error = Truncate(op);
      break;
    case OpKind::kRename:
      error = Rename(op);
      break;
    case OpKind::kRemove:
      error = Remove(op);
      break;
    case OpKind::kSyncDirectory:
      error = SyncDirectory(op);
      break;
    case OpKind::kMakeDirectory:
      error = ::mkdirat(directory_fd_, op.file.c_str(), 0755) == 0 ? 0 : errno;
      break;
    case OpKind::kRemoveDirectory:
      error = ::unlinkat(directory_fd_, op.file.c_str(), AT_REMOVEDIR) == 0 ? 0 : errno;
      break;
  }
  if (error != 0) {
    done.error = ErrorOf(error);
    done.message = path_ + (op.file.empty() ? "" : "/" + op.file) + ": " +
                   std::generic_category().message(error);
  }
  return done;
}

int FileExecutor::List(const FileOp& op, FileDone* done) {
  const char* path = op.file.empty() ? "." : op.file.c_str();
  const int fd = ::openat(directory_fd_, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return errno;
  DIR* directory = ::fdopendir(fd);
  if (directory == nullptr) {
    const int error = errno;
    ::close(fd);
    return error;
  }
  std::vector<std::pair<std::string, uint64_t>> found;
  errno = 0;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string name = entry->d_name;
    struct stat status;
    const bool own =
        name == "." || name == ".." ||
        std::find(std::begin(kOwnFiles), std::end(kOwnFiles), name) != std::end(kOwnFiles);
    if (!own && ::fstatat(fd, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
      if (S_ISREG(status.st_mode)) {
        found.emplace_back(name, static_cast<uint64_t>(status.st_size));
      } else if (S_ISDIR(status.st_mode) && op.directory == Directory::kLogs && op.file.empty()) {
        found.emplace_back(name + "/", 0);
      }
    }
    errno = 0;
  }
  const int error = errno;
  ::closedir(directory);
  std::sort(found.begin(), found.end());
  for (auto& [name, size] : found) {
    done->names.push_back(std::move(name));
    done->sizes.push_back(size);
  }
  return error;
}

int FileExecutor::SyncDirectory(const FileOp& op) {
  if (op.file.empty()) return ::fsync(directory_fd_) == 0 ? 0 : errno;
  const int fd = ::openat(directory_fd_, op.file.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno;
  const int error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  return error;
}

int FileExecutor::Read(const FileOp& op, FileDone* done) {
  const Use file(this, op.file);
  if (file.get() == nullptr) return errno;
  struct stat status;
  if (::fstat(file->fd, &status) != 0) return errno;
  // Clamped to the file before anything is allocated: `size` may say "to the end".
  const uint64_t length = static_cast<uint64_t>(status.st_size);
  const uint64_t wanted = op.offset >= length ? 0 : std::min(op.size, length - op.offset);
  uint64_t have = 0;
  int error = 0;
  Bytes data = Bytes::Build(wanted, [&](char* to) {
    while (have < wanted) {
      const ssize_t n =
          ::pread(file->fd, to + have, wanted - have, static_cast<off_t>(op.offset + have));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) error = errno;
      if (n <= 0) return;
      have += static_cast<uint64_t>(n);
    }
  });
  if (error != 0) return error;
  done->data = have == wanted ? std::move(data) : data.Slice(0, have);
  return 0;
}

int FileExecutor::Create(const FileOp& op) {
  {
    std::lock_guard lock(mutex_);
    if (!MakeRoom()) return errno;
  }
  const int fd =
      ::openat(directory_fd_, op.file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return errno;
  const int error = op.size == 0 ? 0 : Allocate(fd, op.size);
  if (error != 0) {
    ::close(fd);
    ::unlinkat(directory_fd_, op.file.c_str(), 0);
    return error;
  }
  std::lock_guard lock(mutex_);
  Close(op.file);
  const auto file =
      open_.emplace(op.file, OpenFile{.fd = fd, .dirty = true, .last_use = ++uses_}).first;
  file->second.name = &file->first;
  dirty_[file->second.last_use] = &file->second;
  return 0;
}

int FileExecutor::Write(const FileOp& op) {
  const Use file(this, op.file);
  if (file.get() == nullptr) return errno;
  MarkWritten(file.get());
  std::vector<iovec> slices;
  slices.reserve(op.data.size());
  for (const Bytes& slice : op.data) {
    if (slice.empty()) continue;
    slices.push_back({const_cast<char*>(slice.data()), slice.size()});
  }
  uint64_t offset = op.offset;
  for (size_t first = 0; first < slices.size();) {
    const int count = static_cast<int>(std::min<size_t>(IOV_MAX, slices.size() - first));
    const ssize_t n = ::pwritev(file->fd, &slices[first], count, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    offset += static_cast<uint64_t>(n);
    // A disk that is nearly full takes a part; the next call then says why it takes no more.
    size_t rest = static_cast<size_t>(n);
    while (first < slices.size() && rest >= slices[first].iov_len) {
      rest -= slices[first++].iov_len;
    }
    if (rest > 0) {
      slices[first].iov_base = static_cast<char*>(slices[first].iov_base) + rest;
      slices[first].iov_len -= rest;
    }
  }
  return 0;
}

int FileExecutor::Sync(const FileOp& op) {
  const Use file(this, op.file);
  if (file.get() == nullptr) return errno;
  uint64_t writes;
  {
    std::lock_guard lock(mutex_);
    writes = file->writes;
  }
  if (::fdatasync(file->fd) != 0) return errno;
  std::lock_guard lock(mutex_);
  // What was written meanwhile is perhaps not on the disk.
  if (file->writes != writes) return 0;
  if (std::exchange(file->dirty, false)) {
    dirty_.erase(file->last_use);
    clean_[file->last_use] = file.get();
  }
  return 0;
}

int FileExecutor::Truncate(const FileOp& op) {
  const Use file(this, op.file);
  if (file.get() == nullptr) return errno;
  MarkWritten(file.get());
  return ::ftruncate(file->fd, static_cast<off_t>(op.size)) == 0 ? 0 : errno;
}

int FileExecutor::Rename(const FileOp& op) {
  if (::renameat(directory_fd_, op.file.c_str(), directory_fd_, op.target.c_str()) != 0) {
    return errno;
  }
  std::lock_guard lock(mutex_);
  Close(op.target);
  auto node = open_.extract(op.file);
  if (!node.empty()) {
    node.key() = op.target;
    open_.insert(std::move(node));
  }
  MoveOpen(op.file, op.target);
  return 0;
}

void FileExecutor::MoveOpen(const std::string& subdirectory, const std::string& target) {
  const std::string prefix = subdirectory + "/";
  for (auto it = open_.lower_bound(prefix); it != open_.end() && it->first.starts_with(prefix);
       it = open_.lower_bound(prefix)) {
    auto node = open_.extract(it);
    node.key() = target + "/" + node.key().substr(prefix.size());
    open_.insert(std::move(node));
  }
}

int FileExecutor::Remove(const FileOp& op) {
  {
    std::lock_guard lock(mutex_);
    Close(op.file);
  }
  return ::unlinkat(directory_fd_, op.file.c_str(), 0) == 0 ? 0 : errno;
}

FileExecutor::OpenFile* FileExecutor::Open(const std::string& name) {
  std::lock_guard lock(mutex_);
  auto found = open_.find(name);
  if (found == open_.end()) {
    if (!MakeRoom()) return nullptr;
    const int fd = ::openat(directory_fd_, name.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) return nullptr;
    found = open_.emplace(name, OpenFile{.fd = fd}).first;
    found->second.name = &found->first;
  }
  OpenFile* file = &found->second;
  auto& by_use = file->dirty ? dirty_ : clean_;
  by_use.erase(file->last_use);
  file->last_use = ++uses_;
  by_use[file->last_use] = file;
  ++file->users;
  return file;
}

void FileExecutor::MarkWritten(OpenFile* file) {
  std::lock_guard lock(mutex_);
  file->dirty = true;
  ++file->writes;
  clean_.erase(file->last_use);
  dirty_[file->last_use] = file;
}

void FileExecutor::Close(const std::string& name) {
  auto found = open_.find(name);
  if (found == open_.end()) return;
  LS_CHECK_EQ(found->second.users, 0);
  ::close(found->second.fd);
  clean_.erase(found->second.last_use);
  dirty_.erase(found->second.last_use);
  open_.erase(found);
}

bool FileExecutor::MakeRoom() {
  if (open_.size() < open_files_max_) return true;
  const auto is_unused = [](const auto& one) { return one.second->users == 0; };
  if (const auto clean = std::find_if(clean_.begin(), clean_.end(), is_unused);
      clean != clean_.end()) {
    Close(std::string(*clean->second->name));
  } else if (const auto dirty = std::find_if(dirty_.begin(), dirty_.end(), is_unused);
             dirty != dirty_.end()) {
    // The others wait for it; but without descriptors there is nothing that they could do.
    if (::fdatasync(dirty->second->fd) != 0) return false;
    Close(std::string(*dirty->second->name));
  }
  return true;
}

}  // namespace lockstep::shell
