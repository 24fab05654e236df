// A simulated disk of one server, with a page cache: what was written and what is durable are two
// things. Operations take time and keep their order per file and per directory, as the contract of
// storage::FileOp says, and no other.
//
// After a power loss, every unsynced 512-byte sector independently holds any of the contents it had
// since it was last durable, the length of a file is any that it had, and directory entries are as
// before or after any of the unsynced changes. After the death of a process alone, the page cache
// is still there: it reads as if it were durable, and is not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/btree_map.h"
#include "core/base/random.h"
#include "core/base/time.h"
#include "core/storage/file_ops.h"
#include "sim/plan.h"
#include "sim/queue.h"

namespace lockstep::sim {

inline constexpr uint64_t kSectorBytes = 512;

class Disk {
 public:
  // `streams`: as a Plan's.
  Disk(const DiskPlan& plan, uint64_t seed, uint32_t server, EventQueue* queue,
       uint32_t streams = 0);

  // Starts the operation; a kDiskDone task with its number comes when it has been carried out.
  void Submit(Instant now, storage::FileOp op);
  // Carries out the operation of a kDiskDone task. False if it was given up by a crash.
  bool Complete(uint64_t operation, storage::FileDone* done);

  // The process died. Of the operations under way, some are still carried out.
  void KillProcess();
  // The power failed: the page cache is gone. Returns how many unsynced changes there were.
  uint64_t PowerLoss();

  // Another disk, an empty one, is there instead. Requires: the server is down.
  void Replace();

  // ---- Faults.
  void set_slowness(int64_t factor) { slowness_ = factor; }  // 1 = none
  // The next write, create or sync that is carried out fails, and what it wrote is not durable.
  void FailNext() { fail_next_ = true; }
  // No operation may allocate while set.
  void set_full(bool full) { full_ = full; }
  void ClearFaults();
  // Whether an error was reported to the server since it started.
  bool reported_error() const { return reported_error_; }

  uint64_t syncs() const { return syncs_; }

 private:
  // One change of a file that is not durable yet.
  struct Change {
    bool truncate = false;
    uint64_t offset = 0;  // of a write; the new size of a truncation
    std::string data;
  };
  struct File {
    std::string cached;
    std::string durable;
    std::vector<Change> changes;  // from durable to cached, in order
    bool cache_is_a_lie = false;  // a sync failed: the cache has what the disk will never get
    size_t dir = 0;               // of a subdirectory: where it is in dirs_; 0: this is a file
  };
  struct EntryChange {
    storage::OpKind kind;  // kCreate, kRename or kRemove, also for subdirectories
    std::string name;
    std::string target;
    uint32_t file = 0;
  };
  using Entries = absl::btree_map<std::string, uint32_t>;
  struct Dir {
    Entries cached;
    Entries durable;
    std::vector<EntryChange> changes;
  };
  struct Pending {
    uint64_t number = 0;
    storage::FileOp op;
  };
  struct Chain {
    std::string key;  // directory and file name; with a slash at its end for a directory's entries
    Instant busy_until;
  };

  storage::FileDone CarryOut(const storage::FileOp& op);
  storage::FileError DoCreate(const storage::FileOp& op);
  storage::FileError DoWrite(const storage::FileOp& op, File* file);
  void DoSync(File* file);
  storage::FileError DoEntry(const storage::FileOp& op, Dir* dir);
  void DoList(const Dir& dir, storage::FileDone* done) const;
  // The directory that `path` names (of a storage::Directory itself if empty), or null.
  Dir* DirAt(storage::Directory directory, std::string_view path);
  // The one that it is in.
  Dir* DirOf(const storage::FileOp& op);
  File* Find(const storage::FileOp& op);
  Instant* ChainOf(std::string_view key);
  Duration TimeFor(storage::OpKind kind);
  void LoseUnsynced(File* file);
  void LoseEntries(Dir* dir);
  static void ApplyEntry(const EntryChange& change, Entries* entries);

  const DiskPlan plan_;
  RandomStream random_;
  uint64_t seed_;
  uint32_t streams_;
  uint32_t server_;
  EventQueue* queue_;
  std::deque<Dir> dirs_;  // first those of storage::Directory, then subdirectories
  std::vector<File> files_;
  std::vector<Pending> pending_;  // ascending numbers
  std::vector<Chain> chains_;
  uint64_t next_number_ = 1;
  int64_t slowness_ = 1;
  bool fail_next_ = false;
  bool full_ = false;
  bool reported_error_ = false;
  uint64_t syncs_ = 0;
};

}  // namespace lockstep::sim
