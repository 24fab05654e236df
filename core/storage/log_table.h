// What the journal says about the partition logs up to some point of it: which logs there are,
// where each begins and ends, its epochs. Every segment of the journal begins with a copy, so that
// older segments can be dropped without forgetting a log.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/statusor.h"
#include "core/base/bytes.h"
#include "core/storage/store.h"

namespace lockstep::storage {

// The bounds and epochs of one log: the same arithmetic for what has been asked for, what has been
// written to the journal, and what recovery replays.
struct LogExtent {
  int64_t start = 0;  // log start offset
  int64_t end = 0;    // exclusive
  // `end` was set by an append: the last batch ends exactly there. Otherwise it may end before (a
  // truncation to the middle of a batch takes all of it).
  bool ends_with_batch = false;
  std::vector<EpochStart> epochs;  // ascending, strictly, in both

  bool operator==(const LogExtent&) const = default;

  // Returns null, or what is wrong with such a change at this place (then nothing changes).
  const char* Advance(const LogChange& change);
  // `epoch` begins at `start`. As Kafka's LeaderEpochFileCache: an epoch without records gives way
  // to a later one that begins at the same place; one that is not above the last changes nothing.
  void Begin(EpochStart epoch);
};

struct LogEntry {
  std::string topic;
  int32_t partition = 0;
  Uuid topic_id;
  LogExtent extent;

  bool operator==(const LogEntry&) const = default;
};

struct LogTable {
  absl::btree_map<LogNumber, LogEntry> logs;
  LogNumber last;            // the greatest number ever given
  int64_t broker_epoch = 0;  // the last recorded one

  bool operator==(const LogTable&) const = default;
  bool empty() const { return last == LogNumber{} && broker_epoch == 0; }

  // The state after `record`; records that are not about logs change nothing. As above.
  const char* Advance(const Record& record);

  Bytes Encode() const;
  // DataLoss: these are not the bytes of a table.
  static absl::StatusOr<LogTable> Decode(std::string_view bytes);
};

// The topic names that Kafka allows: 1 to 249 of [A-Za-z0-9._-], neither "." nor "..". They become
// names of directories.
bool IsTopicName(std::string_view topic);

// Where each batch of an append lies in its slices.
struct BatchSlice {
  int64_t base = 0;
  int64_t end = 0;  // exclusive
  int64_t max_timestamp = 0;
  int32_t epoch = 0;
  uint64_t bytes = 0;
  std::vector<Bytes> slices;
  Bytes header;  // the first 61 bytes
};

// Cuts an append into its batches; every batch must begin with a slice that holds its header as a
// whole. InvalidArgument if they are not whole, or not in order within [base, end).
absl::StatusOr<std::vector<BatchSlice>> SplitBatches(const LogAppend& append);

}  // namespace lockstep::storage
