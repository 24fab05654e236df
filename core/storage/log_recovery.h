// Brings the files of all partition logs to what the journal says (kFsync), or finds out what they
// hold (kFlush). What it decides in each case, and why: log_replay.h; docs/disk.md, "Partition
// logs".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "core/storage/logs.h"

namespace lockstep::storage {

class Logs::Recovery {
 public:
  Recovery(Logs* logs, LogReplay replay, uint64_t oldest);

  void Start(StoreOutput* output);
  void OnDone(const Operation& operation, const FileDone& done, StoreOutput* output);
  void OnScanned(Log* log, Task* task, StoreOutput* output);
  // Begins what can begin; ends recovery when everything has ended.
  void Continue(StoreOutput* output);

 private:
  enum class Step : uint8_t {
    kWaiting,
    kListing,
    kTimes,     // the largest timestamps of complete segments
    kEpochs,    // kFlush
    kSnapshot,  // the newest one of the producers
    kScanning,
    kFirst,  // the first batch of the active segment
    kDone
  };
  struct Work {
    Log* log = nullptr;
    ReplayedLog replayed;
    Step step = Step::kWaiting;
    bool exists = false;
    bool snapshots_removed = false;
    bool own = false;  // the directory says that it is of this log
    bool has_metadata = false;
    bool cut = false;         // kFlush: files have been changed
    std::string damage;       // kFsync: what is wrong with the files; empty: nothing
    bool has_epochs = false;  // kFlush: the file is there and whole
    size_t reads_left = 0;
    Bytes snapshot;
    int64_t snapshot_offset = 0;
    std::vector<EpochStart> epochs;  // kFlush: of the file
    std::vector<Bytes> headers;
  };

  bool flush() const { return logs_->flush(); }
  void Issue(LogNumber log, FileOp op, StoreOutput* output);
  void Fatal(std::string sentence, StoreOutput* output);
  void OnRoot(const FileDone& done, StoreOutput* output);
  void OnRootRead(const Operation& operation, const FileDone& done, StoreOutput* output);
  void OnProperties(const FileDone& done, StoreOutput* output);
  // Whether log.dirs says whose it is, or has no logs yet; the server stops otherwise.
  std::optional<std::string> ForeignPartition() const;
  bool KnownWhose(StoreOutput* output) const;
  void WriteRoot(StoreOutput* output);
  void RemoveDirectory(const std::string& name, StoreOutput* output);
  void Begin(Work* work, StoreOutput* output);
  void OnListed(Work* work, const FileDone& done, StoreOutput* output);
  void Renew(Work* work, const FileDone& done, StoreOutput* output);
  // False: fatal.
  bool TakeSegments(Work* work, const FileDone& done, StoreOutput* output);
  void TakeSnapshots(Work* work, const std::vector<int64_t>& found, StoreOutput* output);
  void ReadTimes(Work* work, StoreOutput* output);
  void ReadEpochs(Work* work, StoreOutput* output);
  void ReadSnapshot(Work* work, StoreOutput* output);
  std::string DamageFound(const Work& work, const Task& task) const;
  void TakeDamaged(Work* work, Task* task, StoreOutput* output);
  // False: it has been begun anew, or has ended.
  bool TakeEnd(Work* work, Task* task, StoreOutput* output);
  void Scan(Work* work, StoreOutput* output);
  void ReadFirst(Work* work, StoreOutput* output);
  void Append(Work* work, StoreOutput* output);
  void TakeFiles(Work* work, StoreOutput* output);
  // Where the oldest batch is that the files still have. Below the log's start, the beginning of
  // its first segment tells of producers that a replica that has not restarted remembers, too.
  static int64_t OldestOf(const Log& log);
  int64_t Hint(const absl::btree_map<std::string, int64_t>& hints, const Log& log) const;
  int64_t HighWatermarkHint(const Log& log) const;

  Logs* logs_;
  LogReplay replay_;
  const uint64_t oldest_;
  absl::btree_map<LogNumber, Work> work_;
  size_t root_left_ = 0;  // operations on what is not of one log
  bool listed_ = false;
  size_t running_ = 0;
  bool wrote_root_ = false;
  std::optional<DirectoryProperties> properties_;
  bool clean_ = false;  // kFlush: the marker was there
  int64_t clean_epoch_ = 0;
  bool damaged_ = false;         // kFlush: a log is not what that stop has left
  size_t checkpoints_read_ = 0;  // that are what was written
  // By the directory's name.
  absl::btree_map<std::string, int64_t> high_watermarks_;
  absl::btree_map<std::string, int64_t> recovery_points_;
  absl::btree_map<std::string, int64_t> starts_;
};

}  // namespace lockstep::storage
