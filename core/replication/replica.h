// The seed's Replica: the log of this broker's replica as its machine knows it, with its high
// watermark. Changes go out at once and count as durable when the store says so.
#pragma once

#include <deque>
#include <vector>

#include "core/base/bytes.h"
#include "core/replication/ids.h"
#include "core/replication/leader_epochs.h"
#include "core/replication/partition.h"
#include "core/replication/rules.h"
#include "core/storage/partition_log.h"

namespace lockstep::replication {

class Replica {
 public:
  Replica(const Rules& rules, const storage::RecoveredLog& log);

  Offset log_start() const { return log_start_; }
  Offset log_end() const { return log_end_; }
  // Below it, what the log holds now is durable here.
  Offset durable_end() const { return durable_end_; }
  Offset high_watermark() const { return high_watermark_; }
  const LeaderEpochs& epochs() const { return epochs_; }
  // All changes are durable.
  bool settled() const { return pending_.empty(); }

  // `epoch` begins at the log's end. Requires: above the latest one.
  void AssignEpoch(LeaderEpoch epoch, PartitionOutput* output);
  // Appends whole batches that end at `end` (exclusive). Where in them which epochs begin:
  // `epochs`, ascending; each above the latest one.
  void Append(std::vector<Bytes> batches, Offset end,
              const std::vector<storage::EpochStart>& epochs, PartitionOutput* output);
  // Removes all records from `to` on, and all epochs that begin there or above. Below the log's
  // start: the log is empty afterwards and begins at `to`. The high watermark is cut, too, which
  // only an unclean election makes necessary.
  void Truncate(Offset to, PartitionOutput* output);
  // Removes all records below `start`. Above the log's end: the log is empty afterwards and begins
  // at `start`.
  void StartAt(Offset start, PartitionOutput* output);
  // Removes everything: the log is empty and begins at `start`. The high watermark is there.
  void Restart(Offset start, PartitionOutput* output);
  // The oldest change that was not is durable now.
  void OnPersisted();

  // Never back.
  void RaiseHighWatermark(Offset to, PartitionOutput* output);
  // Whatever `to` is: as the seed's followers do it. S20.
  void OverwriteHighWatermark(Offset to, PartitionOutput* output);

 private:
  void Emit(storage::LogChange change, PartitionOutput* output);
  void BecomeEmpty(Offset at);

  const Rules& rules_;
  Offset log_start_;
  Offset log_end_;
  Offset durable_end_;
  Offset high_watermark_;
  LeaderEpochs epochs_;
  // For each change that is not durable yet: up to where, when it is, the log as it is now will be
  // durable. A truncation lowers those before it, whose records it removes.
  std::deque<Offset> pending_;
};

}  // namespace lockstep::replication
