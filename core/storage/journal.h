// The append side of the journal: group commit, segments, rolling and dropping.
//
// Invariants:
//   1. At most one batch is under way (written and not known to be synced), so that an intact batch
//      proves everything before it durable.
//   2. A segment gets its first batch only after its header and its directory entry are durable,
//   and
//      its header is written only after the segment before it is durable as a whole.
//   3. `written_` is the state after the last record of the batch under way.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/storage/checkpoint.h"
#include "core/storage/journal_format.h"
#include "core/storage/log_table.h"
#include "core/storage/operations.h"
#include "core/storage/segment_table.h"
#include "core/storage/store.h"

namespace lockstep::storage {

// Where recovery leaves the journal, and appending goes on.
struct JournalEnd {
  SegmentTable segments;                // empty at the first start
  std::optional<SegmentHeader> header;  // of the newest segment
  uint64_t end = 0;                     // of its last batch, exclusive
  Checkpoint checkpoint;
  LogTable logs;
  bool next_prepared = false;  // the file of the segment after the newest exists, all zero
};

class Journal {
 public:
  Journal(const StoreOptions& options, Operations* operations);

  // At the first start, makes the first segment; nothing may be appended before has_segment().
  // Requires: once, before all that follows.
  void Open(JournalEnd from, StoreOutput* output);
  bool has_segment() const { return header_.has_value(); }

  // Queues the record of a caller. With `hold` (not 0) it waits, and all records after it, for
  // Release(hold).
  void Append(WriteId id, Record record, uint64_t hold);
  void Release(uint64_t hold);
  // Queues a record of the partition logs. They have an order of their own, and never wait for
  // what is held.
  void AppendLog(LogWriteId id, Record record);

  // Announces an own snapshot that is being written. If the history is cut below it or replaced
  // before its record is written, it describes a state that is no part of the history any more.
  void BeginOwnSnapshot(Zxid zxid);
  // Queues the record of the own snapshot, whose file is durable.
  void AppendOwnSnapshot();

  // Writes what waits, as one batch, if none is under way; first rolls to a new segment if it does
  // not fit. What does not fit either waits for the next call. Records of partition logs wait
  // without `with_logs`.
  void Flush(bool with_logs, StoreOutput* output);

  // One of the journal's operations has completed, without error.
  void OnDone(const Operation& operation, StoreOutput* output);

  // What has happened since it was last asked, for the owner to act on.
  struct Progress {
    std::optional<SnapshotRef> counted;  // the newest snapshot whose record has become durable
    bool own_is_durable = false;         // the own snapshot's record has become durable
    bool own_is_void = false;            // the own snapshot never will count: see BeginOwnSnapshot
    // The records of partition logs that have become durable, in order, all in segment `sequence`,
    // and their ids.
    std::vector<Record> log_records;
    uint64_t sequence = 0;
    std::vector<LogWriteId> log_ids;
  };
  Progress TakeProgress() { return std::exchange(progress_, {}); }
  // The greatest append that is durable; 0 if there is none.
  WriteId persisted() const { return persisted_; }

  // Removes the segments that the durable snapshot at `snapshot` makes superfluous, but for those
  // from `keep_from` on: the files of partition logs do not have durably what these hold.
  // Requires: its record is durable, and nothing is under way.
  void DropSegments(Zxid snapshot, uint64_t keep_from, StoreOutput* output);

  bool busy() const { return under_way_ > 0 || !records_.empty() || !log_records_.empty(); }
  bool writing() const { return under_way_ > 0; }
  const SegmentTable& segments() const { return segments_; }
  // Of its segments, in bytes.
  uint64_t size() const { return segments_.size() * options_.segment_bytes; }

 private:
  enum class Next : uint8_t { kNone, kCreating, kPrepared };
  struct Tag {
    WriteId id;  // 0: the own snapshot's record
    uint64_t hold = 0;
  };

  void Write(uint64_t offset, std::vector<Bytes> data, StoreOutput* output);
  void Prepare(StoreOutput* output);
  void Roll(StoreOutput* output);
  // Moves the records that fit into one batch out of the queues. False: fatal.
  bool TakeBatch(uint64_t room, bool with_logs, std::vector<Record>* batch, uint64_t* bytes,
                 StoreOutput* output);
  bool TakeRecords(uint64_t room, std::vector<Record>* batch, uint64_t* bytes, StoreOutput* output);
  void TakeLogRecords(uint64_t room, std::vector<Record>* batch, uint64_t* bytes);
  void FinishRoll(StoreOutput* output);
  void FinishBatch(StoreOutput* output);
  bool OwnSnapshotIsVoid() const;
  void NoteForOwnSnapshot(const Record& record);
  // Moves the state over the record that is next. False: fatal.
  bool Advance(const Record& record, StoreOutput* output);
  uint64_t sequence() const { return header_.has_value() ? header_->sequence : 0; }
  std::string FileOf(uint64_t sequence) const;

  StoreOptions options_;
  Operations* operations_;

  SegmentTable segments_;
  std::optional<SegmentHeader> header_;  // of the segment that is appended to
  std::string file_;                     // its name
  uint32_t seed_ = 0;
  uint64_t end_ = 0;  // where its last batch ends, exclusive
  Checkpoint written_;

  // Records that wait, in order, and what belongs to each.
  std::vector<Record> records_;
  std::vector<Tag> tags_;
  std::deque<std::pair<LogWriteId, Record>> log_records_;
  LogTable logs_;  // as of the batch under way

  // The write and the sync under way: of a batch or, when rolling, of a header (operations).
  int under_way_ = 0;
  bool rolling_ = false;
  SegmentHeader rolling_header_;
  // Of the batch under way:
  WriteId batch_id_;  // the greatest; 0 if it has only an own snapshot's record
  uint64_t batch_records_ = 0;
  std::optional<SnapshotRef> batch_snapshot_;  // the last that a record of it names
  bool batch_has_own_ = false;
  std::vector<Record> batch_logs_;  // its records of partition logs
  std::vector<LogWriteId> batch_log_ids_;

  Next next_ = Next::kNone;      // the segment after the newest
  uint32_t next_allocated_ = 0;  // its length; 0: an earlier incarnation has made it
  int creating_ = 0;             // operations that prepare it

  std::optional<Zxid> own_;  // an own snapshot whose record is not written yet
  bool own_is_void_ = false;

  WriteId persisted_;
  Progress progress_;
};

}  // namespace lockstep::storage
