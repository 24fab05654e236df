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

  // For tests that prepare or damage files; both durable at once.
  void Put(Directory directory, const std::string& name, std::string content);
  void Remove(Directory directory, const std::string& name);
  // The content as a running system sees it; nothing if there is no such file.
  std::optional<std::string> Get(Directory directory, const std::string& name) const;
  std::vector<std::string> Names(Directory directory) const;

 private:
  struct Change {
    uint64_t offset = 0;
    std::string data;              // a write within one sector, or
    std::optional<uint64_t> size;  // a new length
  };
  struct File {
    std::string cached;
    std::string durable;
    std::vector<Change> unsynced;
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

  uint64_t sector_bytes_;
  Folder folders_[2];
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

inline FileDone FakeDisk::Execute(const FileOp& op) {
  Folder& folder = folders_[static_cast<size_t>(op.directory)];
  FileDone done{.id = op.id};
  const auto entry = folder.cached.find(op.file);
  File* file = entry == folder.cached.end() ? nullptr : entry->second.get();
  const bool needs_file =
      op.kind != OpKind::kList && op.kind != OpKind::kCreate && op.kind != OpKind::kSyncDirectory;
  if (needs_file && file == nullptr) {
    done.error = FileError::kNotFound;
    return done;
  }
  switch (op.kind) {
    case OpKind::kList:
      done.names = Names(op.directory);
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
      ChangeEntry(&folder, {.added = op.file, .file = std::move(created)});
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
      ChangeEntry(&folder, {.removed = op.file, .added = op.target, .file = entry->second});
      break;
    case OpKind::kRemove:
      ChangeEntry(&folder, {.removed = op.file});
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

inline void FakeDisk::Crash(const std::function<bool()>& keep) {
  for (Folder& folder : folders_) {
    for (const EntryChange& change : folder.unsynced) {
      if (keep()) Apply(change, &folder.durable);
    }
    folder.unsynced.clear();
    folder.cached = folder.durable;
    for (auto& [name, file] : folder.cached) CrashFile(file.get(), keep);
  }
}

inline void FakeDisk::Put(Directory directory, const std::string& name, std::string content) {
  auto file = std::make_shared<File>();
  file->cached = file->durable = std::move(content);
  Folder& folder = folders_[static_cast<size_t>(directory)];
  folder.cached[name] = folder.durable[name] = std::move(file);
}

inline void FakeDisk::Remove(Directory directory, const std::string& name) {
  Folder& folder = folders_[static_cast<size_t>(directory)];
  LS_CHECK_EQ(folder.cached.erase(name), size_t{1});
  folder.durable.erase(name);
}

inline std::optional<std::string> FakeDisk::Get(Directory directory,
                                                const std::string& name) const {
  const Folder& folder = folders_[static_cast<size_t>(directory)];
  const auto entry = folder.cached.find(name);
  if (entry == folder.cached.end()) return std::nullopt;
  return entry->second->cached;
}

inline std::vector<std::string> FakeDisk::Names(Directory directory) const {
  std::vector<std::string> names;
  for (const auto& [name, file] : folders_[static_cast<size_t>(directory)].cached) {
    names.push_back(name);
  }
  return names;
}

}  // namespace lockstep::storage
