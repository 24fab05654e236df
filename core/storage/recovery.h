// Reads the directories back after a start: finds the segments, replays them, tells a torn tail
// from damage, reads the snapshot that counts, and leaves the directories as if nothing had
// happened.
//
// What it decides in each case, and why: docs/disk.md, "Recovery".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/storage/file_names.h"
#include "core/storage/journal.h"
#include "core/storage/journal_format.h"
#include "core/storage/log_replay.h"
#include "core/storage/operations.h"
#include "core/storage/snapshot_file.h"
#include "core/storage/store.h"

namespace lockstep::storage {

class Recovery {
 public:
  Recovery(const StoreOptions& options, Operations* operations);

  void Start(StoreOutput* output);
  // One of recovery's operations has completed, without error. Sets output->fatal if the server
  // must not serve.
  void OnDone(const Operation& operation, const FileDone& done, StoreOutput* output);

  bool done() const { return step_ == Step::kDone; }
  // Requires: done(); each once, in this order.
  Recovered TakeRecovered();
  JournalEnd TakeJournalEnd();
  // What there is to do for the partition logs.
  LogReplay TakeLogs() { return std::move(logs_); }

 private:
  static constexpr uint64_t kReadBytes = 1 << 20;

  enum class Step : uint8_t {
    kListing,
    kJournal,
    kSnapshot,
    kUnvouched,
    kRepairing,
    kRemoving,
    kDone
  };
  // What is read next of the segment at hand.
  enum class Part : uint8_t { kHeader, kBatch, kRecord, kRest };

  void OnListed(StoreOutput* output);
  void OpenSegment(size_t index);
  void ReadSegments(StoreOutput* output);
  // Each reads one thing. False: a read is under way, or it was fatal.
  bool ReadHeader(StoreOutput* output);
  bool ReadBatchHeader(StoreOutput* output);
  bool ReadRecord(StoreOutput* output);
  bool ReadRest(StoreOutput* output);
  bool EndBatch(StoreOutput* output);
  // There is no intact batch where one could begin: the end, a torn tail, or damage.
  bool NoBatchHere();
  // The file has `file_end` bytes.
  bool EndRest(uint64_t file_end, StoreOutput* output);
  void OnJournalRead(StoreOutput* output);
  // Reads again what has to be written again, then Repair().
  void ReadUnvouched(StoreOutput* output);
  void Repair(const Bytes& unvouched, StoreOutput* output);
  void RemoveLeftovers(StoreOutput* output);
  void Finish(StoreOutput* output);

  // Up to `size` bytes of the segment at hand from `offset` on, fewer only where the file ends.
  // Nothing: a read has been asked for. The view lasts until the next call.
  std::optional<std::string_view> Peek(uint64_t offset, uint64_t size, StoreOutput* output);

  void Issue(FileOp op, StoreOutput* output);
  bool Damaged(uint64_t offset, const std::string& what, StoreOutput* output);
  bool Fatal(std::string sentence, StoreOutput* output);
  bool last_segment() const { return segment_ + 1 == sequences_.size(); }
  std::string SegmentName() const;

  StoreOptions options_;
  Operations* operations_;
  Step step_ = Step::kListing;
  int under_way_ = 0;  // listings or repairs

  std::vector<uint64_t> sequences_;     // the segments found, ascending
  std::vector<ParsedName> data_files_;  // our files in Directory::kData

  // The newest file may be one that was only prepared: looked at first, before any is replayed.
  bool probing_ = true;
  // The segment at hand.
  size_t segment_ = 0;  // index in sequences_
  Part part_ = Part::kHeader;
  uint32_t seed_ = 0;
  uint64_t at_ = 0;            // what is read next begins here
  uint64_t batch_at_ = 0;      // where the batch at hand begins
  uint64_t batch_end_ = 0;     // exclusive
  uint32_t batch_left_ = 0;    // records of it still to come
  std::vector<Record> batch_;  // those already read: all count, or none
  uint64_t garbage_end_ = 0;   // of what follows the last batch and is not zero, exclusive; 0: none
  // What has been read of the file.
  Bytes window_;
  uint64_t window_at_ = 0;
  bool window_is_known_ = false;
  bool window_ends_file_ = false;

  // What has been found so far.
  std::optional<SegmentHeader> newest_;  // the last segment with a header
  uint64_t end_ = 0;                     // of its last batch, exclusive
  // Where its last batch begins, or its header if it has none: nothing that was written later
  // proves that this has ever reached the disk.
  uint64_t unvouched_ = 0;
  Checkpoint checkpoint_;
  SegmentTable table_;
  std::vector<TransactionRecord> transactions_;
  LogReplay logs_;
  uint64_t replayed_ = 0;  // records
  bool torn_ = false;
  bool next_prepared_ = false;
  std::string unusable_;  // a segment whose header never became durable

  std::unique_ptr<SnapshotReader> snapshot_;
};

}  // namespace lockstep::storage
