// One server's durable state as a machine over file operations: the journal, the snapshots, the
// partition logs, and their recovery. Knows formats and files, and no protocol. Formats:
// docs/disk.md.
//
// A machine is a value: calls change it and append to `Output`; file operations are outputs and
// their completions inputs. Calls may come in any order that the comments allow; after a batch of
// calls the owner calls Flush once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/event.h"
#include "core/base/ids.h"
#include "core/base/zxid.h"
#include "core/storage/file_ops.h"
#include "core/storage/partition_log.h"

namespace lockstep::storage {

// ---- The journal's records ---------------------------------------------------------------------

struct TransactionRecord {
  Zxid zxid;
  Bytes body;
};
// Every transaction after `to` is removed from the history; what is appended next comes after `to`.
struct TruncateRecord {
  Zxid to;
};
struct AcceptedEpochRecord {
  Epoch epoch;
};
struct CurrentEpochRecord {
  Epoch epoch;
};
// The snapshot of the state after `zxid` is durable and counts from here on. With
// `replaces_history`, it came from the leader: all transactions recorded before are void, and the
// history starts after `zxid`. A snapshot that no record names does not exist.
struct SnapshotRecord {
  Zxid zxid;
  bool replaces_history = false;
};

// Of partition logs (partition_log.h).
struct LogCreatedRecord {
  LogNumber log;
  std::string topic;
  int32_t partition = 0;
  Uuid topic_id;
  int64_t start = 0;
};
struct LogDeletedRecord {
  LogNumber log;
};
struct LogChangeRecord {
  LogNumber log;
  LogChange change;
};
struct BrokerEpochRecord {
  int64_t epoch = 0;
};
// The state of all logs at this place (LogTable): the first record of every segment, if there are
// logs. The journal adds it by itself.
struct LogTableRecord {
  Bytes table;
};

using Record = std::variant<TransactionRecord, TruncateRecord, AcceptedEpochRecord,
                            CurrentEpochRecord, SnapshotRecord, LogCreatedRecord, LogDeletedRecord,
                            LogChangeRecord, BrokerEpochRecord, LogTableRecord>;

struct StoreOptions {
  ServerId server;
  // A new segment begins when the current one has reached this size (bytes).
  uint64_t segment_bytes = 64 << 20;
  // Segments are kept, beyond what the newest snapshot needs, while the transactions in them that
  // recovery could offer to a lagging learner stay below this size (bytes). Whole segments only.
  uint64_t retained_bytes = 64 << 20;
  // Largest record body accepted on append and believed on recovery (bytes).
  uint32_t record_bytes_max = 8 << 20;
  // A broker's partition logs in Directory::kLogs. Nothing: there are none, and none is touched.
  std::optional<LogOptions> logs;
};

// What recovery found; `transactions` are contiguous and all that is retained.
struct Recovered {
  Epoch accepted_epoch;
  Epoch current_epoch;
  Zxid base;      // the transaction before the first of `transactions`; <0,0> at first start
  Zxid snapshot;  // the snapshot whose chunks were handed out, or <0,0> if there is none
  std::vector<TransactionRecord> transactions;
  std::vector<RecoveredLog> logs;  // by number
  int64_t broker_epoch = 0;        // see Store::SetBrokerEpoch
};

struct StoreOutput {
  std::vector<FileOp> ops;
  std::vector<Event> events;
  // The greatest write that has become durable, if any has since the output was last drained.
  std::optional<WriteId> persisted;
  // During recovery: the content of the newest snapshot that counts, in order, as it was written.
  std::vector<Bytes> snapshot_chunks;
  // Recovery has ended: appends are accepted. Once.
  std::optional<Recovered> recovered;
  // An own snapshot (EndSnapshot) is durable and the journal says so.
  std::optional<Zxid> snapshot_taken;
  // The store needs chunks of the own snapshot in progress: call WriteSnapshot (bounded memory).
  bool snapshot_wanted = false;
  // ---- Partition logs.
  // The greatest change that has become durable, if any has since the output was last drained.
  std::optional<LogWriteId> log_persisted;
  std::vector<LogReadDone> log_reads;
  std::vector<LogSearchDone> log_searches;
  // What was read of these is not what was written, or cannot be read. Said again with each reader
  // that finds it.
  std::vector<LogNumber> logs_damaged;
  // These have begun a new segment, or got much since their producers' state was last kept: it is
  // time for WriteProducerSnapshot.
  std::vector<LogNumber> logs_rolled;
  bool clean_shutdown_done = false;

  // The server must stop now: the directory is foreign or damaged, or an operation failed. A
  // sentence for the operator that names the file and says what to do.
  std::optional<std::string> fatal;

  bool Empty() const;
  void Clear();
};

class Store {
 public:
  // `incarnation` differs between any two starts of the server on this directory.
  Store(const StoreOptions& options, uint64_t incarnation);
  ~Store();

  // Begins recovery: lists, checks and reads; cuts a torn tail of the last segment; removes
  // leftovers (temporary files, snapshots that do not count). Damage before the durable end, a
  // foreign server id or an unknown format version ends in `fatal`.
  void Start(StoreOutput* output);

  // A completion. Those of another incarnation are ignored.
  void OnDone(const FileDone& done, StoreOutput* output);

  // Queues a record; `id` is one more than that of the record before. A SnapshotRecord with
  // replaces_history waits, and all later records with it, until the received snapshot is durable.
  // Requires: recovery has ended.
  void Append(WriteId id, Record record, StoreOutput* output);

  // Group commit: if no journal sync is under way and records wait, writes all of them and syncs.
  void Flush(StoreOutput* output);

  // A snapshot from the leader, in pieces. `first` starts anew and drops a half-received one.
  // `last` completes the file; only a SnapshotRecord with replaces_history makes it count.
  void ReceiveSnapshot(Zxid zxid, bool first, bool last, Bytes data, StoreOutput* output);

  // An own snapshot of the state after `zxid`, in pieces. One at a time. Writes nothing to the
  // journal until the file is durable; then appends a SnapshotRecord itself, outside of the
  // caller's WriteIds, and drops segments and snapshots that it covers.
  // Requires: no own snapshot in progress; `zxid` is not above the last durable transaction.
  void BeginSnapshot(Zxid zxid, StoreOutput* output);
  void WriteSnapshot(Bytes data, bool last, StoreOutput* output);
  bool snapshot_in_progress() const;

  // True when a sync is under way or records wait.
  bool busy() const;

  // The journal has become long, and only an own snapshot of a newer state can make it shorter:
  // segments that hold batches hold transactions too, and those go with a snapshot.
  bool snapshot_would_free_journal() const;

  // ---- Partition logs (partition_log.h). Requires, for all: StoreOptions::logs, and recovery has
  // ended. Of the calls with a LogWriteId, each names one more than the call before.

  // A new, empty log that begins at `start`. The number is usable at once; `id` is durable when the
  // journal's record is: the directory follows, or recovery makes it.
  // Requires: IsTopicName(topic); no other log of this topic and partition, unless deleted.
  LogNumber CreateLog(LogWriteId id, const std::string& topic, int32_t partition, Uuid topic_id,
                      int64_t start, StoreOutput* output);
  // Removes the log and its files; what is under way for it completes, reads answer kFailed.
  void DeleteLog(LogWriteId id, LogNumber log, StoreOutput* output);
  void ChangeLog(LogWriteId id, LogNumber log, LogChange change, StoreOutput* output);
  // From memory at once, or from the files later; answered in StoreOutput::log_reads. What has been
  // appended is read, be it durable or not. Never waits for a durable write.
  void ReadLog(LogReadId id, LogNumber log, int64_t offset, uint32_t max_bytes,
               StoreOutput* output);
  // Answered in StoreOutput::log_searches.
  void SearchLog(LogReadId id, LogNumber log, int64_t timestamp_ms, StoreOutput* output);
  // In place of LogOptions' for this log, until the next start.
  void SetSegmentLimits(LogNumber log, uint64_t bytes, int64_t ms);
  // Remembered in memory; CheckpointHighWatermarks writes the file that recovery reads.
  void SetHighWatermark(LogNumber log, int64_t offset);
  void CheckpointHighWatermarks(StoreOutput* output);
  // The state of the log's producers as of `offset`, its end, kept for recovery; the owner gives
  // one when StoreOutput::logs_rolled names the log, and at a clean stop.
  void WriteProducerSnapshot(LogNumber log, int64_t offset, Bytes snapshot, StoreOutput* output);
  // Retention: whole segments that lie below `high_watermark`, are not the active one, and are too
  // old (largest timestamp below `before_ms`) or beyond `bytes_max` (0: no limit), are to go. The
  // new log start; the caller makes it a LogStart change.
  int64_t RetentionStart(LogNumber log, int64_t before_ms, uint64_t bytes_max,
                         int64_t high_watermark) const;
  // Of its segments, in bytes; 0 of a log that is not there any more.
  uint64_t LogBytes(LogNumber log) const;
  // The broker's incarnation that registered: durable like a LogChange. After the next start,
  // Recovered::broker_epoch is the last one all of whose acknowledged appends are in the recovered
  // logs: with kFsync the last recorded one; with kFlush only if MarkCleanShutdown was called and
  // nothing appended after, else 0.
  void SetBrokerEpoch(LogWriteId id, int64_t epoch, StoreOutput* output);
  // The cluster that the logs belong to, kept in log.dirs; empty: not known. Set once; what is not
  // a name (letters, digits, - and _, at most 64) is not kept.
  const std::string& cluster_id() const;
  void SetClusterId(const std::string& id, StoreOutput* output);
  // Syncs all files, writes checkpoints and the marker. The owner then stops. Answered by
  // StoreOutput::clean_shutdown_done.
  void MarkCleanShutdown(StoreOutput* output);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::storage
