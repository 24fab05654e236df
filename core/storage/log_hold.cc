// With kFlush there is no journal behind the files of the logs: a change that takes several steps
// is carried out so that a crash between any two leaves the log as it was before, as it is after,
// or cut to a place in between. The steps, and what each must come after: docs/disk.md, "Partition
// logs". Meanwhile the log's queue stands still.
#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/check.h"
#include "core/storage/logs.h"

namespace lockstep::storage {

// A cut below the recovery point: that is lowered first, durably. A loss of power in the midst of
// the cut may leave anything above `to`, and below the recovery point nobody looks.
bool Logs::HoldToLower(Log* log, int64_t to, StoreOutput* output) {
  if (log->recovery_point <= to) return false;
  log->recovery_point = to;
  log->syncing_to = std::min(log->syncing_to, to);
  log->hold = Hold::kLower;
  AskCheckpoint(log, Checkpoint::kRecoveryPoints, output);
  return true;
}

// The files have been cut at `to`. That is made durable before anything is appended: else a loss of
// power could bring back sectors of what was cut behind what came instead, whole batches with right
// checksums.
void Logs::AfterCut(Log* log, int64_t to, LogWriteId id, StoreOutput* output) {
  if (!flush()) return;
  LS_CHECK(log->file_extent.Advance(LogTruncate{to}) == nullptr);
  log->syncing_to = std::min(log->syncing_to, to);
  log->epochs_changed = true;
  WriteEpochs(log, output);
  if (log->life != Life::kOpen) return;
  LS_CHECK(log->hold == Hold::kNone);
  log->hold = Hold::kCut;
  log->held = id;
  applying_ = {};
  SyncAgain(log, output);
}

// The start is known before the files below it go, for it need not be where a segment begins; and a
// start above the end says that whatever the files have is gone.
void Logs::HoldForStart(Log* log, int64_t start, LogWriteId id, StoreOutput* output) {
  LS_CHECK_EQ(log->file_extent.start, start);
  log->hold = Hold::kStart;
  log->held = id;
  AskCheckpoint(log, Checkpoint::kLogStarts, output);
}

void Logs::AskCheckpoint(Log* log, Checkpoint which, StoreOutput* output) {
  CheckpointState& state = checkpoints_[static_cast<size_t>(which)];
  ++log->checkpoints;
  (state.writing ? state.next : state.waiting).push_back(log->number);
  WriteCheckpoint(which, output);
}

// A sync that covers all that has been written by now.
void Logs::SyncAgain(Log* log, StoreOutput* output) {
  if (log->syncs_left > 0) {
    log->sync_again = true;
  } else {
    SyncLog(log, output);
  }
}

void Logs::ContinueHold(Log* log, StoreOutput* output) {
  LS_CHECK_GT(log->checkpoints, uint32_t{0});
  if (--log->checkpoints > 0) return;
  const Hold hold = std::exchange(log->hold, Hold::kNone);
  const LogWriteId id = std::exchange(log->held, {});
  if (hold == Hold::kOpening) {
    log->checkpointed = true;
    if (log->life == Life::kWaiting) Open(log, output);
    return;
  }
  if (hold == Hold::kLower) return Run(log, output);
  if (id == LogWriteId{}) return;  // deleted meanwhile
  if (hold == Hold::kStart) {
    applying_ = id;
    Apply(log, LogStart{log->file_extent.start}, output);
    log->epochs_changed = true;
    WriteEpochs(log, output);
    applying_ = {};
  }
  Persisted(id, output);
  Run(log, output);
}

// ---- Checkpoints -------------------------------------------------------------------------------

bool Logs::checkpointing() const {
  return std::any_of(std::begin(checkpoints_), std::end(checkpoints_),
                     [](const CheckpointState& state) { return state.writing; });
}

// One at a time of each: the next has what this one has not.
void Logs::WriteCheckpoint(Checkpoint which, StoreOutput* output) {
  CheckpointState& state = checkpoints_[static_cast<size_t>(which)];
  if (state.writing) {
    state.again = true;
    return;
  }
  state.writing = true;
  std::vector<PartitionOffset> offsets;
  for (const auto& [number, log] : logs_) {
    // Whose creation is durable, and whose deletion is not.
    if (log->life != Life::kWaiting && log->life != Life::kOpen) continue;
    const int64_t start = flush() ? log->file_extent.start : log->extent.start;
    const int64_t offset = which == Checkpoint::kHighWatermarks   ? log->high_watermark
                           : which == Checkpoint::kRecoveryPoints ? log->recovery_point
                                                                  : start;
    offsets.push_back({log->topic, log->partition, offset});
    // With kFlush a log is opened only when what the others say of its name has been replaced.
    if (which == Checkpoint::kHighWatermarks) {
      offsets.push_back({TopicIdName(log->topic_id), log->partition, offset});
    }
  }
  const char* file = which == Checkpoint::kHighWatermarks   ? kHighWatermarksFile
                     : which == Checkpoint::kRecoveryPoints ? kRecoveryPointsFile
                                                            : kLogStartsFile;
  Replace(nullptr, file, EncodeOffsets(offsets), output, which);
  IssueCheckpoint({.kind = OpKind::kSyncDirectory, .directory = Directory::kLogs}, output, which);
}

void Logs::OnCheckpointed(Checkpoint which, StoreOutput* output) {
  CheckpointState& state = checkpoints_[static_cast<size_t>(which)];
  state.writing = false;
  const std::vector<LogNumber> waiting =
      std::exchange(state.waiting, std::exchange(state.next, {}));
  if (std::exchange(state.again, false)) WriteCheckpoint(which, output);
  for (const LogNumber number : waiting) {
    if (Log* log = Find(number)) ContinueHold(log, output);
  }
}

}  // namespace lockstep::storage
