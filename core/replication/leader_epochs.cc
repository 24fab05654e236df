#include "core/replication/leader_epochs.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace lockstep::replication {

LeaderEpochs::LeaderEpochs(std::vector<storage::EpochStart> entries)
    : entries_(std::move(entries)) {
  for (size_t i = 1; i < entries_.size(); ++i) {
    LS_CHECK_LT(entries_[i - 1].epoch, entries_[i].epoch);
    LS_CHECK_LT(entries_[i - 1].start, entries_[i].start);
  }
}

LeaderEpoch LeaderEpochs::latest() const {
  return entries_.empty() ? LeaderEpoch{} : LeaderEpoch{entries_.back().epoch};
}

std::optional<Offset> LeaderEpochs::StartOf(LeaderEpoch epoch) const {
  const auto found = std::lower_bound(
      entries_.begin(), entries_.end(), epoch.value,
      [](const storage::EpochStart& entry, int32_t value) { return entry.epoch < value; });
  if (found == entries_.end() || found->epoch != epoch.value) return std::nullopt;
  return found->start;
}

void LeaderEpochs::Assign(LeaderEpoch epoch, Offset start) {
  LS_CHECK_GT(epoch, latest());
  while (!entries_.empty() && entries_.back().start >= start) {
    LS_CHECK_EQ(entries_.back().start, start);
    entries_.pop_back();
  }
  entries_.push_back({.epoch = epoch.value, .start = start});
}

std::optional<LeaderEpochs::End> LeaderEpochs::EndOffsetFor(LeaderEpoch epoch, Offset log_end,
                                                            bool largest_not_above) const {
  if (entries_.empty()) return std::nullopt;
  const auto above = std::upper_bound(
      entries_.begin(), entries_.end(), epoch.value,
      [](int32_t value, const storage::EpochStart& entry) { return value < entry.epoch; });
  const Offset end = above == entries_.end() ? log_end : above->start;
  if (above == entries_.begin() || !largest_not_above) return End{epoch, end};
  return End{{std::prev(above)->epoch}, end};
}

void LeaderEpochs::TruncateFromEnd(Offset to) {
  while (!entries_.empty() && entries_.back().start >= to) entries_.pop_back();
}

void LeaderEpochs::TruncateFromStart(Offset start) {
  const auto above = std::upper_bound(
      entries_.begin(), entries_.end(), start,
      [](Offset value, const storage::EpochStart& entry) { return value < entry.start; });
  if (above == entries_.begin()) return;
  entries_.erase(entries_.begin(), std::prev(above));
  entries_.front().start = start;
}

}  // namespace lockstep::replication
