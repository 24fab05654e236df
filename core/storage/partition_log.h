// The durable side of a broker's partitions: Kafka's own files, written through behind the journal.
// What the owner of a Store sees of it; formats: docs/disk.md, "Partition logs".
//
// Each log is a directory `<topic>-<partition>` under Directory::kLogs: segments
// (`%020d.log .index .timeindex .snapshot`), `leader-epoch-checkpoint`, `partition.metadata`.
// Kafka's own tools read them.
//
// With Durability::kFsync an append is a record of the server's one journal: one sync commands
// all partitions. The segment file gets the same slices only when that record is durable, without a
// sync of its own; it is synced before the journal segment that covers it is dropped. So recovery
// trusts the file up to where the retained journal begins for this log, and replays the rest.
// With Durability::kFlush (Kafka's way) batches go to the segment file alone; an append counts when
// the write has completed, and recovery checks everything above the recovery point and cuts what
// is torn.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/ids.h"
#include "core/base/uuid.h"

namespace lockstep::storage {

enum class Durability : uint8_t { kFsync, kFlush };

// Names a log in the journal and in calls. Dense from 1, never used twice in a data directory.
struct LogNumber {
  uint32_t value = 0;
  constexpr auto operator<=>(const LogNumber&) const = default;
  constexpr explicit operator bool() const { return value != 0; }
  std::string ToString() const { return std::to_string(value); }
  template <typename H>
  friend H AbslHashValue(H h, LogNumber log) {
    return H::combine(std::move(h), log.value);
  }
};

// Orders the durable changes of all logs of one incarnation: dense, from 1. When one is durable, so
// is every smaller one.
struct LogWriteId {
  uint64_t value = 0;
  constexpr auto operator<=>(const LogWriteId&) const = default;
  std::string ToString() const { return std::to_string(value); }
};

// Names a read until it is answered. Chosen by the caller.
struct LogReadId {
  uint64_t value = 0;
  constexpr auto operator<=>(const LogReadId&) const = default;
};

struct LogOptions {
  // Whose log.dirs it is: kept there, and another broker's is refused.
  int32_t broker = 0;
  // Kept there, too, since recovery depends on it: it changes only while there are no logs.
  Durability durability = Durability::kFsync;
  uint64_t segment_bytes = 1 << 30;                    // a new one begins before it would be larger
  int64_t segment_ms = int64_t{7} * 24 * 3600 * 1000;  // ... or when its first batch is so old
  uint32_t index_interval_bytes = 4096;
  // The newest batches of all logs stay in memory up to this (bytes): what followers and consumers
  // at the end read never touches a file.
  uint64_t cache_bytes = 64 << 20;
  // Journal segments that only partition logs still need are freed, by syncing these, when the
  // journal is larger than this (bytes).
  uint64_t journal_bytes_max = 256 << 20;
};

// An epoch and the offset of its first record (inclusive), ascending in both.
struct EpochStart {
  int32_t epoch = 0;
  int64_t start = 0;
  bool operator==(const EpochStart&) const = default;
};

// A durable change of one log, in the order of `id`.
struct LogAppend {
  // Whole batches with their final offsets and epochs, one slice after the other.
  std::vector<Bytes> batches;
  int64_t base_offset = 0;  // == the log's end
  int64_t end_offset = 0;   // exclusive: the log's end after it
};
struct LogTruncate {  // every record at or above `to`, and every epoch that begins at or above it
  // Below the log's start: the log becomes empty, and begins and ends there. Requires: a batch
  // begins here, or it is not above the log's start. Else there would be a gap in the log, which
  // nobody could tell from damage.
  int64_t to = 0;
};
struct LogEpoch {  // `epoch` begins at `start` == the log's end (a leader's, before its first
                   // record)
  EpochStart start;
};
struct LogStart {  // records below it are gone: DeleteRecords, retention, a follower's restart
  // Above the log's end: the log becomes empty and begins (and ends) there.
  int64_t start = 0;
};
using LogChange = std::variant<LogAppend, LogTruncate, LogEpoch, LogStart>;

// What recovery found of a log. All of it is durable.
struct RecoveredLog {
  LogNumber log;
  std::string topic;
  int32_t partition = 0;
  Uuid topic_id;
  int64_t start = 0;  // log start offset
  int64_t end = 0;    // exclusive
  std::vector<EpochStart> epochs;
  int64_t high_watermark = 0;  // the last checkpointed one, not above `end`; a hint
  // kFsync: the files do not have all that they should below `end`. What can be read of it, can;
  // of its producers nothing is known.
  bool damaged = false;
  // The newest producer snapshot that is of use, the offset it is of (exclusive end of what it
  // covers), and the headers (61 bytes each) of all batches from there on, in order. Without a
  // snapshot from the oldest batch on that there still is, which may be below `start`.
  Bytes producer_snapshot;
  int64_t producer_snapshot_offset = 0;
  std::vector<Bytes> batch_headers;
};

struct LogReadDone {
  enum class Status : uint8_t { kOk, kOutOfRange, kFailed };
  LogReadId id;
  LogNumber log;
  Status status = Status::kOk;
  // Whole batches, the first containing the asked offset; empty at the log's end. Not above the
  // limit, but for the first.
  std::vector<Bytes> batches;
};

// The first batch whose largest timestamp is not below the asked one.
struct LogSearchDone {
  LogReadId id;
  LogNumber log;
  LogReadDone::Status status = LogReadDone::Status::kOk;
  std::optional<Bytes> batch;  // the whole batch; nothing: there is none
};

}  // namespace lockstep::storage
