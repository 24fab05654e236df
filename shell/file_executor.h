// One directory's files, and those of its subdirectories, reached by system calls that block.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "core/storage/file_ops.h"

namespace lockstep::shell {

class FileExecutor {
 public:
  // Requires: `path` is a directory. No more than `open_files_max` files stay open, but for those
  // that operations under way use.
  explicit FileExecutor(std::string path, size_t open_files_max = kOpenFilesMax);
  ~FileExecutor();
  FileExecutor(const FileExecutor&) = delete;
  FileExecutor& operator=(const FileExecutor&) = delete;

  // Carries out `op`; the completion has the error, if any. An operation that fails may have had a
  // part of its effect, except that a failed kCreate leaves no file.
  // May be called by several threads, with operations that need not be carried out in order
  // (FileOrder).
  storage::FileDone Run(const storage::FileOp& op);

 private:
  // More than coordination has in use at once: the journal's segment, and a snapshot or two.
  static constexpr size_t kOpenFilesMax = 16;

  struct OpenFile {
    int fd = -1;
    // Written to since the last sync. Such a file is synced before it is closed: an error of the
    // write-back is reported to those who have the file open, and may be forgotten when nobody has.
    bool dirty = false;
    uint64_t writes = 0;  // ever
    int users = 0;        // operations under way: it stays open for them
    uint64_t last_use = 0;
    const std::string* name = nullptr;  // its key in open_
  };

  storage::FileDone CarryOut(const storage::FileOp& op);
  // Each returns 0 or an errno.
  int List(const storage::FileOp& op, storage::FileDone* done);
  int Read(const storage::FileOp& op, storage::FileDone* done);
  int Create(const storage::FileOp& op);
  int Write(const storage::FileOp& op);
  int Sync(const storage::FileOp& op);
  int Truncate(const storage::FileOp& op);
  int Rename(const storage::FileOp& op);
  int Remove(const storage::FileOp& op);
  int SyncDirectory(const storage::FileOp& op);

  // A file that an operation uses, open at least until then. Null with errno set if it cannot be
  // opened.
  class Use;
  OpenFile* Open(const std::string& name);
  void MarkWritten(OpenFile* file);
  // Those below are called with the mutex held.
  void Close(const std::string& name);
  // Everything open in the subdirectory is now reached by its new name.
  void MoveOpen(const std::string& subdirectory, const std::string& target);
  // So that one more may be opened. False with errno set if a file could not be synced for it.
  bool MakeRoom();

  const std::string path_;
  const size_t open_files_max_;
  int directory_fd_ = -1;
  std::atomic<bool> failed_ = false;  // an operation that changes something

  std::mutex mutex_;  // guards what follows
  std::map<std::string, OpenFile> open_;
  // By their last use. What is clean is closed first: it costs nothing.
  std::map<uint64_t, OpenFile*> clean_;
  std::map<uint64_t, OpenFile*> dirty_;
  uint64_t uses_ = 0;
};

}  // namespace lockstep::shell
