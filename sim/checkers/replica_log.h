// A mirror of one replica's log: what it holds, and what of that would survive a crash. Made from
// what the server writes (server::LogObservation), not from what it says of itself.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/server/log_observation.h"
#include "core/storage/partition_log.h"

namespace lockstep::sim {

// A batch as a log has it.
struct LoggedBatch {
  int64_t base = 0;
  int64_t end = 0;  // exclusive
  int32_t epoch = 0;
  uint64_t content = 0;       // of everything but what a leader sets: equal for equal batches
  std::vector<Bytes> slices;  // the bytes

  bool SameAs(const LoggedBatch& other) const {
    return base == other.base && end == other.end && epoch == other.epoch &&
           content == other.content;
  }
};

// The batches of an append: whole ones, however they are cut into slices. Throws Failure if they
// are none.
std::vector<LoggedBatch> SplitBatches(const std::vector<Bytes>& slices);

class ReplicaLog {
 public:
  // A change as it is queued for the disk. Throws Failure (`log-is-contiguous`) if it does not
  // follow what is there.
  void Apply(storage::LogWriteId id, const storage::LogChange& change);
  // Everything up to `id` is durable.
  void OnPersisted(storage::LogWriteId id);
  // After a crash: of the changes that were not durable a prefix is kept. Goes back to the longest
  // one that fits what was recovered. False, and nothing is known of the content any more, if none
  // does.
  bool OnRecovered(int64_t start, int64_t end, const std::vector<storage::EpochStart>& epochs);
  // ... with `flush` durability. Each of a log's files is kept up to some operation: so it may end
  // at any batch of any of the states that there can be; but after the death of a process alone not
  // below durable_end(). What the epochs say must be true of the batches. False as above.
  bool OnFilesRecovered(int64_t start, int64_t end, const std::vector<storage::EpochStart>& epochs,
                        bool power_lost);

  int64_t start() const { return start_; }
  int64_t end() const { return end_; }
  // Whatever happens now, everything below stays as it is here.
  int64_t durable_end() const;
  // The content of some part is not known, so nothing can be said about it.
  bool unknown() const { return unknown_; }
  const std::vector<LoggedBatch>& batches() const { return batches_; }
  const std::vector<storage::EpochStart>& epochs() const { return epochs_; }
  // Offsets and epochs, for a message.
  std::string ToString() const;
  // The first batch that ends above `offset`, as an index into batches().
  size_t Find(int64_t offset) const;

 private:
  // How to take a change back.
  struct Undo {
    storage::LogWriteId id;
    int64_t keeps = 0;  // what is below this offset is the same before and after the change
    int64_t start = 0;
    int64_t end = 0;
    size_t batches_kept = 0;
    std::vector<LoggedBatch> removed;  // that stood behind those that were kept
    std::vector<storage::EpochStart> epochs;
  };
  void Begin(storage::EpochStart epoch);
  void TakeBack(Undo undo);
  bool Fits(int64_t start, int64_t end, const std::vector<storage::EpochStart>& epochs) const {
    return start_ == start && end_ == end && epochs_ == epochs;
  }
  bool FitsCutAt(int64_t start, int64_t end, const std::vector<storage::EpochStart>& epochs) const;

  int64_t start_ = 0;
  int64_t end_ = 0;
  std::vector<LoggedBatch> batches_;
  std::vector<storage::EpochStart> epochs_;
  std::deque<Undo> undo_;  // of the changes that are not durable
  bool unknown_ = false;
};

}  // namespace lockstep::sim
