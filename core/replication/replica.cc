#include "core/replication/replica.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace lockstep::replication {

Replica::Replica(const Rules& rules, const storage::RecoveredLog& log)
    : rules_(rules),
      log_start_(log.start),
      log_end_(log.end),
      durable_end_(log.end),
      high_watermark_(std::clamp(log.high_watermark, log.start, log.end)),
      epochs_(log.epochs) {
  LS_CHECK_LE(log.start, log.end);
}

void Replica::AssignEpoch(LeaderEpoch epoch, PartitionOutput* output) {
  epochs_.Assign(epoch, log_end_);
  Emit(storage::LogEpoch{.start = {.epoch = epoch.value, .start = log_end_}}, output);
}

void Replica::Append(std::vector<Bytes> batches, Offset end,
                     const std::vector<storage::EpochStart>& epochs, PartitionOutput* output) {
  LS_CHECK_GT(end, log_end_);
  for (const storage::EpochStart& entry : epochs) epochs_.Assign({entry.epoch}, entry.start);
  const Offset base = std::exchange(log_end_, end);
  Emit(storage::LogAppend{.batches = std::move(batches), .base_offset = base, .end_offset = end},
       output);
}

void Replica::Truncate(Offset to, PartitionOutput* output) {
  LS_CHECK_LE(to, log_end_);
  if (to == log_end_ && !rules_.truncate_empty_epochs) return;
  const bool restarts = to < log_start_;
  if (restarts) {
    BecomeEmpty(to);
  } else {
    epochs_.TruncateFromEnd(to);
    log_end_ = to;
    durable_end_ = std::min(durable_end_, to);
  }
  high_watermark_ = std::min(high_watermark_, to);
  for (Offset& end : pending_) end = std::min(end, to);
  Emit(storage::LogTruncate{.to = to}, output);
  output->truncated_to = std::min(output->truncated_to.value_or(to), to);
  output->restarted |= restarts;
}

void Replica::StartAt(Offset start, PartitionOutput* output) {
  LS_CHECK_GE(start, log_start_);
  if (start > log_end_) {
    BecomeEmpty(start);
    output->truncated_to = start;
    output->restarted = true;
  } else {
    log_start_ = start;
    durable_end_ = std::max(durable_end_, start);  // what was below need not be any more
    epochs_.TruncateFromStart(start);
  }
  high_watermark_ = std::max(high_watermark_, start);
  Emit(storage::LogStart{.start = start}, output);
}

void Replica::BecomeEmpty(Offset at) {
  epochs_.Clear();
  log_start_ = at;
  log_end_ = at;
  durable_end_ = at;  // there is nothing that could be lost
}

void Replica::Restart(Offset start, PartitionOutput* output) {
  Truncate(std::min(log_start_, start), output);
  if (start > log_start_) StartAt(start, output);
  output->restarted = true;
}

void Replica::OnPersisted() {
  LS_CHECK(!pending_.empty());
  durable_end_ = std::max(durable_end_, pending_.front());
  pending_.pop_front();
}

void Replica::RaiseHighWatermark(Offset to, PartitionOutput* output) {
  if (to <= high_watermark_) return;
  high_watermark_ = to;
  output->high_watermark_moved = true;
}

void Replica::OverwriteHighWatermark(Offset to, PartitionOutput* output) {
  if (to == high_watermark_) return;
  high_watermark_ = to;
  output->high_watermark_moved = true;
}

void Replica::Emit(storage::LogChange change, PartitionOutput* output) {
  pending_.push_back(log_end_);
  output->changes.push_back(std::move(change));
}

}  // namespace lockstep::replication
