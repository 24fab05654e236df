// All partition logs of a server: their files, what of them is in memory, and which of them the
// journal still has to stand in for. Calls and promises: store.h, partition_log.h.
//
// The life of a change (kFsync): ChangeLog moves the log's extent, keeps the batches in memory and
// queues a record in the journal. When that is durable, OnDurable puts the change into the log's
// queue; carried out in order, it becomes writes to the log's files, which no one waits for. The
// log is `dirty` from the segment of the journal that holds the record until its files have been
// synced.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "core/records/record_batch.h"
#include "core/storage/journal.h"
#include "core/storage/log_files.h"
#include "core/storage/log_index.h"
#include "core/storage/log_replay.h"
#include "core/storage/log_table.h"
#include "core/storage/operations.h"
#include "core/storage/store.h"

namespace lockstep::storage {

class Logs {
 public:
  Logs(const LogOptions& options, Operations* operations);
  ~Logs();

  // ---- Recovery. Brings the files to what the journal says.
  // `oldest` is the number of the oldest segment of the journal.
  void Recover(LogReplay replay, uint64_t oldest, StoreOutput* output);
  bool recovering() const { return recovery_ != nullptr; }
  // Requires: !recovering(), after Recover; once.
  std::vector<RecoveredLog> TakeRecovered() { return std::move(recovered_); }
  int64_t recovered_broker_epoch() const { return broker_epoch_; }

  // ---- Calls: as in store.h. Those with an id give the record for the journal, or nothing if the
  // change is to be found in the files alone.
  std::pair<LogNumber, Record> Create(LogWriteId id, const std::string& topic, int32_t partition,
                                      Uuid topic_id, int64_t start);
  Record Delete(LogWriteId id, LogNumber log);
  std::optional<Record> Change(LogWriteId id, LogNumber log, LogChange change, StoreOutput* output);
  Record SetBrokerEpoch(LogWriteId id, int64_t epoch);
  void Read(LogReadId id, LogNumber log, int64_t offset, uint32_t max_bytes, StoreOutput* output);
  void Search(LogReadId id, LogNumber log, int64_t timestamp, StoreOutput* output);
  void SetSegmentLimits(LogNumber log, uint64_t bytes, int64_t ms);
  void SetHighWatermark(LogNumber log, int64_t offset);
  void CheckpointHighWatermarks(StoreOutput* output);
  void WriteProducerSnapshot(LogNumber log, int64_t offset, Bytes snapshot, StoreOutput* output);
  int64_t RetentionStart(LogNumber log, int64_t before_ms, uint64_t bytes_max,
                         int64_t high_watermark) const;
  uint64_t LogBytes(LogNumber log) const;
  const std::string& cluster_id() const { return cluster_id_; }
  void SetClusterId(const std::string& id, StoreOutput* output);
  void MarkCleanShutdown(StoreOutput* output);

  // ---- The journal.
  // These records are durable in segment `sequence` of the journal.
  void OnDurable(std::vector<Record> records, uint64_t sequence, StoreOutput* output);
  // These changes were of them.
  void OnJournalPersisted(const std::vector<LogWriteId>& ids, StoreOutput* output);
  // The oldest segment of the journal that files do not make superfluous; UINT64_MAX: none.
  uint64_t OldestNeeded() const;
  // Syncs logs that hold back the segments of the journal up to `sequence`, a few at a time.
  void SyncUpTo(uint64_t sequence, StoreOutput* output);
  // Whether one has been synced since it was last asked.
  bool TakeSynced() { return std::exchange(synced_, false); }
  // So much waits for the disk that appending should wait too.
  bool backlogged() const { return backlog_bytes_ > kBacklogBytesMax; }

  // One of the operations of logs has completed. With an error only if it is a read.
  void OnDone(const Operation& operation, const FileDone& done, StoreOutput* output);
  bool busy() const { return !flushing_.empty(); }

 private:
  // Positions in index files are 31 bits wide.
  static constexpr uint64_t kSegmentBytesMax = uint64_t{1} << 30;
  static constexpr uint64_t kBacklogBytesMax = 64 << 20;
  static constexpr uint64_t kReadBytes = 128 << 10;     // a piece of a file, at least
  static constexpr uint64_t kReadBytesMax = 1 << 20;    // ... for one who wants more
  static constexpr uint64_t kAheadBytesMax = 16 << 20;  // read ahead, of all logs
  static constexpr uint64_t kAheadReadsMax = 1000;      // until what nobody has asked for goes
  static constexpr uint64_t kAheadTurns = 64;           // ... for another reader of the same log
  static constexpr size_t kPlacesMax = 8;               // of readers, kept of each log
  static constexpr uint64_t kIndexFileBytesMax = 16 << 20;
  static constexpr size_t kIndexFlushBytes = 2048;
  static constexpr int kSyncsMax = 8;                   // logs that are synced at the same time
  static constexpr size_t kRecoveriesMax = 8;           // ... recovered
  static constexpr size_t kSnapshotsMax = 3;            // of producers, kept of each log
  static constexpr uint64_t kSnapshotBytes = 16 << 20;  // appended until another one is wanted

  struct Segment {
    int64_t base = 0;
    uint64_t bytes = 0;            // of the .log, with what is being written
    int64_t max_timestamp = -1;    // of what is in it; kUnknown: not read yet
    int64_t first_timestamp = -1;  // of its first batch, -1: not known
    bool indexed = false;          // `index` holds what the files have
    SegmentIndex index;
    bool dirty = false;             // written since the last sync
    uint64_t time_index_bytes = 0;  // recovery: of the file
  };
  static constexpr int64_t kUnknown = INT64_MAX;

  // Where a reader has stopped: the batch that begins with `offset`, or the first one after it.
  struct Place {
    int64_t offset = 0;
    int64_t base = 0;  // of the segment
    uint64_t position = 0;
  };
  // What the reader who has stopped before it is expected to ask for next.
  struct Ahead {
    Place from;
    Place to;  // behind it
    Bytes batches;
    uint64_t since = 0;  // the number of reads when it was read
  };
  // A batch in memory.
  struct Cached {
    uint64_t serial = 0;
    BatchSlice batch;
  };
  struct Queued {
    LogChange change;
    uint64_t sequence = 0;  // of the journal's segment
    LogWriteId id;          // kFlush: persisted when carried out; else 0
  };
  // kNew: its record is not durable. kWaiting: for its directory's name, which a log that is being
  // removed still has. kRemoving: the directory has another name.
  enum class Life : uint8_t { kNew, kWaiting, kOpen, kDeleting, kRemoving };
  // kFlush: why the queue stands still. kOpening: the checkpoints know nothing of the log, or say
  // what was so of another one with its name. kMade: its directory may still get lost, and what
  // says whose it is. kLower: the recovery point is not to vouch for what
  // is to be cut. kCut: what was cut is to be gone durably before anything is written in its place.
  // kStart: the start is to be known before what lies below it goes.
  enum class Hold : uint8_t { kNone, kOpening, kMade, kLower, kCut, kStart };
  // Files that say something of every log.
  enum class Checkpoint : uint8_t { kOther, kHighWatermarks, kRecoveryPoints, kLogStarts };
  struct CheckpointState {
    bool writing = false;
    bool again = false;              // what is being written is not the latest
    std::vector<LogNumber> waiting;  // for what is being written
    std::vector<LogNumber> next;     // ... for what comes after
  };

  struct Log {
    LogNumber number;
    std::string directory;
    std::string topic;
    int32_t partition = 0;
    Uuid topic_id;
    Life life = Life::kNew;
    bool deleted = false;        // DeleteLog has been called
    LogExtent extent;            // as of the last call
    uint64_t segment_bytes = 0;  // as in LogOptions
    int64_t segment_ms = 0;
    int64_t high_watermark = 0;
    std::deque<Cached> cached;
    std::vector<Place> places;  // the latest one last
    std::optional<Ahead> ahead;

    std::vector<Segment> segments;  // ascending; the last one is active. Empty until it is made
    int64_t file_end = 0;           // exclusive end of what has been given to the files
    // Exclusive end of what the files hold of the log as it is now: lower than file_end as long as
    // truncations are on their way to the files (so many), with other batches after them.
    int64_t readable_end = 0;
    uint32_t cuts_under_way = 0;
    // kFlush: as of what has been carried out. What files say of it is never ahead of the batches.
    LogExtent file_extent;
    int64_t recovery_point = 0;  // everything below has been synced
    int64_t syncing_to = 0;      // ... when the sync under way has completed
    bool sync_again = false;     // it does not cover everything that has to be
    Hold hold = Hold::kNone;
    LogWriteId held;            // the change that is carried out in steps, 0: none
    uint32_t checkpoints = 0;   // that the log waits for
    bool checkpointed = false;  // the checkpoints know of this log
    std::deque<Queued> queue;   // durable, and not carried out
    uint64_t cutting = 0;       // the task that looks for the place of a truncation; 0: none
    uint64_t under_way = 0;     // operations on files, and tasks
    // Journal segments from here on hold changes whose files are not synced; 0: none.
    uint64_t dirty_since = 0;
    uint64_t syncing_since = 0;  // ... of those whose sync is under way
    uint32_t syncs_left = 0;
    bool unsynced = false;         // anything at all, for a clean stop
    bool entries_changed = false;  // of its directory, since the last sync
    bool is_new = false;           // its directory and metadata have not been synced
    bool epochs_changed = false;   // perhaps, since they were written
    std::vector<EpochStart> epochs_written;
    std::vector<int64_t> snapshots;  // of producers: their offsets, ascending
    uint64_t bytes_since_snapshot = 0;
    bool damaged = false;  // something of it was not what was written, and has been told

    std::string Path(std::string_view file) const { return directory + "/" + std::string(file); }
    std::string Path(int64_t base, LogFileKind kind) const { return Path(LogFileName(base, kind)); }
    Segment& active() { return segments.back(); }
  };

  // Something that reads through a log's files, batch by batch.
  struct Task {
    enum class Kind : uint8_t { kRead, kSearch, kCut, kScan };
    enum class Phase : uint8_t { kIndex, kTimeIndex, kBatches };
    Kind kind = Kind::kRead;
    Phase phase = Phase::kBatches;
    LogReadId id;
    LogNumber log;
    int64_t offset = 0;     // kRead: wanted; kCut: where to cut; kScan: first wanted
    int64_t timestamp = 0;  // kSearch
    uint64_t max_bytes = 0;
    int64_t limit = 0;      // no batch that ends above this: it was cut, or is not in the files
    bool lowered = false;   // a truncation has lowered it
    bool goes_on = false;   // kRead: began where a reader had stopped
    bool ahead = false;     // kRead: nobody has asked for it yet
    int64_t base = 0;       // the segment that is read
    uint64_t position = 0;  // ... from here
    uint64_t asked = 0;     // bytes of the read under way
    uint64_t needed = 0;    // ... of it, to get on at all: of a header, or of the batch
    Bytes index;
    std::vector<Bytes> batches;
    uint64_t bytes = 0;
    std::vector<Bytes> headers;  // kScan
    int64_t end = 0;             // kRead, kScan: of the last batch that counts
    // Where the next batch must begin, for a log has no gaps, unless it is where the log begins.
    // -1: not known.
    int64_t next = 0;
    // Of the first batch that is read, as the index has it. -1: not known.
    int64_t last_offset = -1;
    bool strict = false;   // reads segments from their beginnings, whatever their indexes say
    bool skipped = false;  // kRead: the batch before was damaged; `next` is where that began
    std::string hole;      // ... what was wrong with the first one of these
    std::string failed;    // kScan: why it could not go on; empty: it could
    LogWriteId change;     // kCut, with kFlush
  };
  enum class Found : uint8_t { kGoOn, kTake, kStop };
  // What is to be done after a piece of a segment has been gone through.
  struct Walk {
    // kPiece: nothing is left of it, or not even the header of a batch; kWrong: `why`.
    enum class End : uint8_t { kPiece, kPartOfBatch, kFound, kWrong };
    End end = End::kPiece;
    size_t at = 0;             // how far it got
    uint64_t batch_bytes = 0;  // kPartOfBatch: of the batch
    size_t taken_from = 0;     // kRead: what is wanted of the piece; empty: nothing
    size_t taken_to = 0;
    std::string why;
  };

  class Recovery;
  friend class Recovery;

  Log* Find(LogNumber number);
  const Log* Find(LogNumber number) const;
  Log& Get(LogNumber number);

  // ---- log_apply.cc: from the queue to the files.
  void Issue(Log* log, FileOp op, StoreOutput* output);
  void Open(Log* log, StoreOutput* output);
  void Run(Log* log, StoreOutput* output);
  void Apply(Log* log, LogAppend append, StoreOutput* output);
  // False: its place has to be looked for; the queue goes on when it is found.
  bool Apply(Log* log, const LogTruncate& truncate, LogWriteId id, StoreOutput* output);
  void Apply(Log* log, const LogStart& start, StoreOutput* output);
  void CutAt(Log* log, int64_t base, uint64_t position, int64_t to, StoreOutput* output);
  void BeginSegment(Log* log, int64_t base, StoreOutput* output);
  void RemoveSegment(Log* log, const Segment& segment, StoreOutput* output);
  void RemoveSnapshots(Log* log, int64_t above, StoreOutput* output);
  void Reset(Log* log, int64_t start, StoreOutput* output);
  void FlushIndex(Log* log, Segment* segment, StoreOutput* output);
  bool MustRoll(Log* log, const BatchSlice& batch) const;
  void WriteMetadata(Log* log, StoreOutput* output);
  void WriteOwner(Log* log, StoreOutput* output);
  void WriteEpochs(Log* log, StoreOutput* output);
  void MaybeRemove(Log* log, StoreOutput* output);
  void OnRemoved(Log* log, const Operation& operation, const FileDone& done, StoreOutput* output);
  void OpenWaiting(StoreOutput* output);
  void SyncLog(Log* log, StoreOutput* output);
  void OnSynced(Log* log, StoreOutput* output);

  // ---- log_hold.cc: with kFlush, changes that take several steps, and what is told of them.
  bool flush() const { return options_.durability == Durability::kFlush; }
  void AfterCut(Log* log, int64_t to, LogWriteId id, StoreOutput* output);
  bool HoldToLower(Log* log, int64_t to, StoreOutput* output);
  void HoldForStart(Log* log, int64_t start, LogWriteId id, StoreOutput* output);
  void AskCheckpoint(Log* log, Checkpoint which, StoreOutput* output);
  void ContinueHold(Log* log, StoreOutput* output);
  void SyncAgain(Log* log, StoreOutput* output);
  void WriteCheckpoint(Checkpoint which, StoreOutput* output);
  void OnCheckpointed(Checkpoint which, StoreOutput* output);
  bool checkpointing() const;
  // Writes a file anew: under another name, synced, then under its own.
  // Of a log, or of the directory of all (null).
  void Replace(Log* log, const std::string& path, Bytes content, StoreOutput* output,
               Checkpoint which = Checkpoint::kOther);

  // ---- logs.cc
  // Ids are given out one after the other; each becomes durable when all that it waits for is.
  void Begin(LogWriteId id);
  void WaitFor(LogWriteId id);
  void Persisted(LogWriteId id, StoreOutput* output);
  void ContinueStop(StoreOutput* output);
  void UnmarkClean(StoreOutput* output);
  void WriteProperties(StoreOutput* output);
  void IssueCheckpoint(FileOp op, StoreOutput* output, Checkpoint which = Checkpoint::kOther);

  // ---- log_cache.cc
  void Cache(Log* log, std::vector<BatchSlice> batches);
  void CutCache(Log* log, int64_t to);
  void Evict();
  bool ReadCache(const Log& log, int64_t offset, uint64_t max_bytes, LogReadDone* done) const;

  // ---- log_read.cc
  uint64_t StartTask(Task task, StoreOutput* output);
  void EnterSegment(uint64_t ticket, Task* task, StoreOutput* output);
  void ReadMore(uint64_t ticket, Task* task, uint64_t bytes, StoreOutput* output);
  void OnTaskRead(uint64_t ticket, const FileDone& done, StoreOutput* output);
  void WalkBatches(uint64_t ticket, Task* task, const Bytes& data, StoreOutput* output);
  void ReadAround(uint64_t ticket, Task* task, const FileDone& done, StoreOutput* output);
  static bool MaySkip(const Task& task);
  static std::string At(const Task& task, uint64_t position);
  static std::string EndsWithin(const Task& task);
  static std::string FileOf(const Log& log, const Task& task);
  Walk WalkPiece(Task* task, Segment* segment, const Bytes& data);
  const char* WrongPlace(const Log& log, const Task& task,
                         const records::BatchHeader& header) const;
  static Found Visit(Task* task, const records::BatchHeader& header, const Bytes& batch);
  static uint64_t PieceBytes(const Task& task);
  static const Place* FindPlace(const Log& log, const Task& task);
  static void KeepPlace(Log* log, int64_t began, const Place& place);
  bool ReadOn(Log* log, LogReadId id, int64_t offset, uint64_t max_bytes, StoreOutput* output);
  void ReadAhead(Log* log, const Place& from, uint64_t max_bytes, StoreOutput* output);
  void KeepAhead(Log* log, Task* task);
  void DropAhead(Log* log);
  bool RoomAhead();
  void OnScanned(Log* log, Task* task, StoreOutput* output);
  static bool IsCut(const LogChange& change, const LogExtent& before);
  void EndCut(Log* log);
  // The segment's index from its files: entries of batches that end at or below `limit`, within the
  // first `bytes` bytes.
  void LoadIndex(Log* log, Segment* segment, const Bytes& index, const Bytes& time, uint64_t bytes,
                 int64_t limit, StoreOutput* output);
  std::optional<Bytes> SearchCache(const Log& log, int64_t timestamp, int64_t from) const;
  static bool ScanIsAtEnd(const Task& task);
  void NextSegment(uint64_t ticket, Task* task, StoreOutput* output);
  void Finish(uint64_t ticket, StoreOutput* output);
  void Fail(uint64_t ticket, const std::string& why, StoreOutput* output);
  bool EndsTooEarly(const Task& task) const;
  bool ScanIsShort(const Task& task) const;
  bool LookAgain(uint64_t ticket, StoreOutput* output);
  void OnDamage(Log* log, const std::string& why, StoreOutput* output);
  void LowerLimits(LogNumber log, int64_t to);
  Segment* SegmentAt(Log* log, int64_t base);
  Segment* SegmentFor(Log* log, int64_t offset);

  const LogOptions options_;
  Operations* operations_;
  absl::btree_map<LogNumber, std::unique_ptr<Log>> logs_;
  LogNumber last_;  // the greatest number given
  int64_t broker_epoch_ = 0;
  std::string cluster_id_;
  // Who has the name of a directory; 0: nobody of ours, a stray.
  absl::btree_map<std::string, LogNumber> directories_;
  uint64_t backlog_bytes_ = 0;  // of writes under way
  int syncing_ = 0;             // logs
  bool synced_ = false;         // since it was last asked

  std::deque<std::pair<LogNumber, uint64_t>> cache_order_;  // with their serials, oldest first
  uint64_t cache_bytes_ = 0;
  uint64_t next_serial_ = 1;

  uint64_t ahead_bytes_ = 0;                                // that are there, or are being read
  std::deque<std::pair<LogNumber, uint64_t>> ahead_order_;  // with Ahead::since, oldest first
  uint64_t reads_ = 0;

  absl::btree_map<uint64_t, Task> tasks_;
  uint64_t next_ticket_ = 1;

  // Changes given from flushing_from_ on, and for how many things each waits: operations, or the
  // journal.
  std::deque<uint32_t> flushing_;
  uint64_t flushing_from_ = 1;
  struct Flush {
    LogNumber log;
    LogWriteId id;
  };
  absl::btree_map<uint64_t, Flush> flushes_;  // by ticket
  LogWriteId applying_;  // kFlush: the change whose operations are being issued
  enum class Stop : uint8_t { kNone, kSyncing, kWriting, kMarking, kDone };
  Stop stop_ = Stop::kNone;
  bool marked_clean_ = false;       // the marker of the last clean stop is there
  uint64_t checkpoints_left_ = 0;   // operations
  CheckpointState checkpoints_[4];  // by Checkpoint

  std::unique_ptr<Recovery> recovery_;
  std::vector<RecoveredLog> recovered_;
};

}  // namespace lockstep::storage
