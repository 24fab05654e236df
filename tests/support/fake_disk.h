// A small disk for tests, with the two faces of a real one: what a running system reads back (the
// page cache), and what a crash leaves. A crash keeps any subset of the unsynced sectors, of the
// unsynced changes of length, and of the unsynced directory entries.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/storage/file_ops.h"

namespace lockstep::storage {

class FakeDisk {
 public:
  // Small, so that records, headers and batches tear.
  explicit FakeDisk(uint64_t sector_bytes = 64) : sector_bytes_(sector_bytes) {}

  // Carries out one operation on the page cache.
  FileDone Execute(const FileOp& op);

  // Loses power. `keep` is asked once for every unsynced change whether it had reached the disk.
  void Crash(const std::function<bool()>& keep);

  // For tests that prepare or damage files (`name` may be `subdirectory/name`, which is made if it
  // is not there); both durable at once.
  void Put(Directory directory, const std::string& name, std::string content);
  void Remove(Directory directory, const std::string& name);
  // The content as a running system sees it; nothing if there is no such file.
  std::optional<std::string> Get(Directory directory, const std::string& name) const;
  std::vector<std::string> Names(Directory directory, const std::string& subdirectory = "") const;
  bool IsSubdirectory(Directory directory, const std::string& name) const {
    return const_cast<FakeDisk*>(this)->FolderAt(directory, name) != nullptr;
  }

 private:
  struct Change {
    uint64_t offset = 0;
    std::string data;              // a write within one sector, or
    std::optional<uint64_t> size;  // a new length
  };
  struct Folder;
  struct File {
    std::string cached;
    std::string durable;
    std::vector<Change> unsynced;
    std::shared_ptr<Folder> folder;  // not null: this is a subdirectory
  };
  using FileRef = std::shared_ptr<File>;
  struct EntryChange {
    std::string removed;  // or empty
    std::string added;    // or empty
    FileRef file;
  };
  struct Folder {
    std::map<std::string, FileRef> cached;
    std::map<std::string, FileRef> durable;
    std::vector<EntryChange> unsynced;
  };

  static void Apply(const Change& change, std::string* content);
  static void Apply(const EntryChange& change, std::map<std::string, FileRef>* entries);
  void Resize(File* file, uint64_t size);
  void Write(File* file, uint64_t offset, std::string_view data);
  void ChangeEntry(Folder* folder, EntryChange change);
  void CrashFile(File* file, const std::function<bool()>& keep);
  void CrashFolder(Folder* folder, const std::function<bool()>& keep);
  // The folder that holds `path` (in it, under its last name), or null.
  Folder* FolderOf(Directory directory, const std::string& path);
  const Folder* FolderOf(Directory directory, const std::string& path) const {
    return const_cast<FakeDisk*>(this)->FolderOf(directory, path);
  }
  // The folder that `path` names, or null.
  Folder* FolderAt(Directory directory, const std::string& path);
  static std::string LastName(const std::string& path) {
    const size_t slash = path.find('/');
    return slash == std::string::npos ? path : path.substr(slash + 1);
  }

  uint64_t sector_bytes_;
  Folder folders_[kDirectories];
};

inline void FakeDisk::Apply(const Change& change, std::string* content) {
  if (change.size.has_value()) {
    content->resize(*change.size, '\0');
    return;
  }
  const size_t end = change.offset + change.data.size();
  if (content->size() < end) content->resize(end, '\0');
  content->replace(change.offset, change.data.size(), change.data);
}

inline void FakeDisk::Apply(const EntryChange& change, std::map<std::string, FileRef>* entries) {
  if (!change.removed.empty()) entries->erase(change.removed);
  if (!change.added.empty()) (*entries)[change.added] = change.file;
}

inline void FakeDisk::Resize(File* file, uint64_t size) {
  file->unsynced.push_back({.size = size});
  Apply(file->unsynced.back(), &file->cached);
}

inline void FakeDisk::Write(File* file, uint64_t offset, std::string_view data) {
  while (!data.empty()) {
    const size_t piece = std::min<size_t>(data.size(), sector_bytes_ - offset % sector_bytes_);
    file->unsynced.push_back({.offset = offset, .data = std::string(data.substr(0, piece))});
    Apply(file->unsynced.back(), &file->cached);
    offset += piece;
    data.remove_prefix(piece);
  }
}

inline void FakeDisk::ChangeEntry(Folder* folder, EntryChange change) {
  Apply(change, &folder->cached);
  folder->unsynced.push_back(std::move(change));
}

inline FakeDisk::Folder* FakeDisk::FolderAt(Directory directory, const std::string& path) {
  Folder& top = folders_[static_cast<size_t>(directory)];
  if (path.empty()) return &top;
  const auto entry = top.cached.find(path);
  return entry == top.cached.end() ? nullptr : entry->second->folder.get();
}

inline FakeDisk::Folder* FakeDisk::FolderOf(Directory directory, const std::string& path) {
  return FolderAt(directory, std::string(SubdirectoryOf(path)));
}

inline FileDone FakeDisk::Execute(const FileOp& op) {
  const bool whole = op.kind == OpKind::kList || op.kind == OpKind::kSyncDirectory;
  LS_CHECK((whole && op.file.empty()) || IsSafePath(op.directory, op.file));
  FileDone done{.id = op.id};
  Folder* const found = whole ? FolderAt(op.directory, op.file) : FolderOf(op.directory, op.file);
  if (found == nullptr) {
    done.error = FileError::kNotFound;
    return done;
  }
  Folder& folder = *found;
  const std::string name = LastName(op.file);
  const auto entry = folder.cached.find(name);
  File* file = entry == folder.cached.end() || whole ? nullptr : entry->second.get();
  const bool needs_file = !whole && op.kind != OpKind::kCreate && op.kind != OpKind::kMakeDirectory;
  if (needs_file && file == nullptr) {
    done.error = FileError::kNotFound;
    return done;
  }
  switch (op.kind) {
    case OpKind::kList:
      for (const auto& [child, ref] : folder.cached) {
        done.names.push_back(child + (ref->folder != nullptr ? "/" : ""));
        done.sizes.push_back(ref->cached.size());
      }
      break;
    case OpKind::kMakeDirectory: {
      if (file != nullptr) {
        done.error = FileError::kExists;
        break;
      }
      auto created = std::make_shared<File>();
      created->folder = std::make_shared<Folder>();
      ChangeEntry(&folder, {.added = name, .file = std::move(created)});
      break;
    }
    case OpKind::kRemoveDirectory:
      LS_CHECK(file->folder != nullptr);
      if (!file->folder->cached.empty()) {
        done.error = FileError::kIo;
        break;
      }
      ChangeEntry(&folder, {.removed = name});
      break;
    case OpKind::kRead: {
      if (op.offset >= file->cached.size()) break;
      done.data = Bytes::Copy(std::string_view(file->cached).substr(op.offset, op.size));
      break;
    }
    case OpKind::kCreate: {
      if (file != nullptr) {
        done.error = FileError::kExists;
        break;
      }
      auto created = std::make_shared<File>();
      if (op.size > 0) Resize(created.get(), op.size);
      ChangeEntry(&folder, {.added = name, .file = std::move(created)});
      break;
    }
    case OpKind::kWrite: {
      uint64_t offset = op.offset;
      for (const Bytes& slice : op.data) {
        Write(file, offset, slice.view());
        offset += slice.size();
      }
      break;
    }
    case OpKind::kSync:
      file->durable = file->cached;
      file->unsynced.clear();
      break;
    case OpKind::kTruncate:
      Resize(file, op.size);
      break;
    case OpKind::kRename:
      ChangeEntry(&folder, {.removed = name, .added = LastName(op.target), .file = entry->second});
      break;
    case OpKind::kRemove:
      ChangeEntry(&folder, {.removed = name});
      break;
    case OpKind::kSyncDirectory:
      folder.durable = folder.cached;
      folder.unsynced.clear();
      break;
  }
  return done;
}

inline void FakeDisk::CrashFile(File* file, const std::function<bool()>& keep) {
  // A sector on disk is as it was at some moment: none of its writes after one that is lost.
  std::map<uint64_t, bool> lost;
  for (const Change& change : file->unsynced) {
    if (change.size.has_value()) {
      if (keep()) Apply(change, &file->durable);
      continue;
    }
    bool& sector_is_lost = lost[change.offset / sector_bytes_];
    sector_is_lost = sector_is_lost || !keep();
    if (!sector_is_lost) Apply(change, &file->durable);
  }
  file->unsynced.clear();
  file->cached = file->durable;
}

inline void FakeDisk::CrashFolder(Folder* folder, const std::function<bool()>& keep) {
  for (const EntryChange& change : folder->unsynced) {
    if (keep()) Apply(change, &folder->durable);
  }
  folder->unsynced.clear();
  folder->cached = folder->durable;
  for (auto& [name, file] : folder->cached) {
    if (file->folder != nullptr) {
      CrashFolder(file->folder.get(), keep);
    } else {
      CrashFile(file.get(), keep);
    }
  }
}

inline void FakeDisk::Crash(const std::function<bool()>& keep) {
  for (Folder& folder : folders_) CrashFolder(&folder, keep);
}

inline void FakeDisk::Put(Directory directory, const std::string& name, std::string content) {
  auto file = std::make_shared<File>();
  file->cached = file->durable = std::move(content);
  const std::string subdirectory(SubdirectoryOf(name));
  if (FolderAt(directory, subdirectory) == nullptr) {
    auto made = std::make_shared<File>();
    made->folder = std::make_shared<Folder>();
    Folder& top = folders_[static_cast<size_t>(directory)];
    top.cached[subdirectory] = top.durable[subdirectory] = std::move(made);
  }
  Folder& folder = *FolderAt(directory, subdirectory);
  folder.cached[LastName(name)] = folder.durable[LastName(name)] = std::move(file);
}

inline void FakeDisk::Remove(Directory directory, const std::string& name) {
  Folder* folder = FolderOf(directory, name);
  LS_CHECK(folder != nullptr);
  LS_CHECK_EQ(folder->cached.erase(LastName(name)), size_t{1});
  folder->durable.erase(LastName(name));
}

inline std::optional<std::string> FakeDisk::Get(Directory directory,
                                                const std::string& name) const {
  const Folder* folder = FolderOf(directory, name);
  if (folder == nullptr) return std::nullopt;
  const auto entry = folder->cached.find(LastName(name));
  if (entry == folder->cached.end()) return std::nullopt;
  return entry->second->cached;
}

inline std::vector<std::string> FakeDisk::Names(Directory directory,
                                                const std::string& subdirectory) const {
  std::vector<std::string> names;
  const Folder* folder = const_cast<FakeDisk*>(this)->FolderAt(directory, subdirectory);
  if (folder == nullptr) return names;
  for (const auto& [name, file] : folder->cached) names.push_back(name);
  return names;
}

// What an operation is ordered with: files, and entries of directories (with a slash at the end).
inline std::vector<std::string> Touches(const FileOp& op) {
  const std::string parent = std::string(SubdirectoryOf(op.file)) + "/";
  switch (op.kind) {
    case OpKind::kList:
    case OpKind::kSyncDirectory:
      return {op.file + "/"};
    case OpKind::kCreate:
    case OpKind::kRemove:
      return {op.file, parent};
    case OpKind::kRename:
      return {op.file, op.target, parent, op.file + "/", op.target + "/"};
    case OpKind::kMakeDirectory:
    case OpKind::kRemoveDirectory:
      return {op.file, parent, op.file + "/"};
    case OpKind::kRead:
    case OpKind::kWrite:
    case OpKind::kSync:
    case OpKind::kTruncate:
      return {op.file};
  }
  LS_UNREACHABLE();
}
// Whether the contract of FileOp orders two operations.
inline bool MustFollow(const FileOp& later, const FileOp& earlier) {
  if (later.directory != earlier.directory) return false;
  const std::vector<std::string> before = Touches(earlier);
  for (const std::string& what : Touches(later)) {
    if (std::find(before.begin(), before.end(), what) != before.end()) return true;
  }
  return false;
}

}  // namespace lockstep::storage
