// A simulated disk of one server, with a page cache: what was written and what is durable are two
// things. Operations take time and keep their order per file and per directory, as the contract of
// storage::FileOp says, and no other.
//
// After a power loss, every unsynced 512-byte sector independently holds any of the contents it had
// since it was last durable, the length of a file is any that it had, and directory entries are as
// before or after any of the unsynced changes. After the death of a process alone, the page cache
// is still there: it reads as if it were durable, and is not.
//
// Beside what crashes do there is damage: sectors of the journal and of snapshots that rot or
// cannot be read, writes that land elsewhere, syncs that lie. What is read is then the files'
// content under a layer of flaws; a flaw ends where something is written over it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
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

  // What may be damaged now: others have it. As of the last call.
  struct Bearable {
    bool journal = true;            // and snapshots
    std::vector<std::string> logs;  // directories of partition logs, ascending
  };
  void set_bearable(Bearable bearable) { bearable_ = std::move(bearable); }
  // Of a server whose death must not make it forget anything unnoticed, and nothing that others do
  // not have: lies that are not bearable become true, and so do those of which recovery could not
  // tell (the journal's; that a log's directory exists at all), and what is wrong at the journal's
  // end, where damage looks like a torn tail, is right again.
  void KeepWord();
  // Everything in the journal and in snapshots, or in a log's directory, is as it was written.
  void RepairJournal();
  void RepairLog(const std::string& directory);

  // The process died. Of the operations under way, some are still carried out. Without
  // `may_forget`, what would make the server forget something unnoticed is as if it had not been:
  // lies become true, and what rotted or went astray is found in its place.
  void KillProcess(bool may_forget = true);
  // The power failed: the page cache is gone. Returns how many unsynced changes there were.
  uint64_t PowerLoss(bool may_forget = true);

  // Another disk, an empty one, is there instead. Requires: the server is down.
  void Replace();

  // ---- Faults.
  void set_slowness(int64_t factor) { slowness_ = factor; }  // 1 = none
  // The next write, create or sync that is carried out fails, and what it wrote is not durable.
  void FailNext() { fail_next_ = true; }
  // No operation may allocate while set.
  void set_full(bool full) { full_ = full; }
  // `place` names a sector: the place-th, counted round and round, of those of all files of the
  // journal, of snapshots and of logs that may be damaged. False if there is none.
  bool Rot(uint32_t place);
  bool BreakSector(uint32_t place);
  // The next write to such a file lands at `place`; where it belongs nothing changes.
  void MisdirectNext(uint32_t place) { misdirect_ = place; }
  bool misdirecting() const { return misdirect_.has_value(); }
  // Syncs make nothing durable while set, and say that they do.
  void set_lying(bool lying) {
    lying_ = lying;
    ever_damaged_ |= lying;
  }
  // Directories of partition logs of which a power loss would reveal lies, ascending.
  std::vector<std::string> LiedLogs() const;
  // Ends what lasts. Damage stays.
  void ClearFaults();
  // There are flaws, or lies that a power loss would reveal, or has revealed.
  bool damaged() const;
  bool journal_damaged() const;
  // Anything has ever been done to it that it should not do.
  bool ever_damaged() const { return ever_damaged_; }
  // Recovery has found nothing wrong: what lies have cost is not known to anybody.
  void OnRecovered() { lost_promises_ = false; }
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
    size_t lied = 0;              // so many of them, the first ones, were said to be durable
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
    size_t lied = 0;  // as a file's
  };
  // Reads find `content` there, or fail.
  struct Flaw {
    uint32_t file = 0;
    uint64_t offset = 0;
    std::string content;
    bool unreadable = false;

    uint64_t end() const { return offset + content.size(); }
  };
  struct Sector {
    uint32_t file = 0;
    uint64_t offset = 0;
    uint64_t size = 0;
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
  storage::FileDone Perform(const storage::FileOp& op);
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
  uint32_t NumberOf(const File& file) const { return static_cast<uint32_t>(&file - files_.data()); }
  void DoRead(const storage::FileOp& op, const File& file, storage::FileDone* done) const;
  // Files that may be damaged at `place`, in an order.
  std::vector<uint32_t> Victims(uint32_t place) const;
  bool MayMisdirect(const storage::FileOp& op) const;
  // Of everything directly in a directory, or in a subdirectory.
  std::vector<uint32_t> FilesIn(storage::Directory directory,
                                const std::string& subdirectory = "") const;
  void KeepWordIn(storage::Directory directory, const std::string& subdirectory);
  std::optional<Sector> SectorAt(uint32_t place) const;
  void Misdirect(const storage::FileOp& op, const File& file, std::string_view data);
  // Something was written there, or the file ends before: what was wrong is not any more.
  void EndFlaws(uint32_t file, uint64_t from, uint64_t to);
  // Makes the first changes durable.
  static void MakeDurable(File* file, size_t changes);
  static void MakeDurable(Dir* dir, size_t changes);
  void Forgive();
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
  bool lying_ = false;
  bool lost_promises_ = false;  // a power loss has revealed lies
  std::optional<uint32_t> misdirect_;
  Bearable bearable_;
  bool ever_damaged_ = false;
  std::vector<Flaw> flaws_;
  bool reported_error_ = false;
  std::array<bool, storage::kDirectories> failed_ = {};  // since the process started
  uint64_t syncs_ = 0;
};

}  // namespace lockstep::sim
