#include "core/storage/segment_table.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/storage/journal_format.h"

namespace lockstep::storage {

void SegmentTable::Begin(uint64_t sequence, Zxid last) {
  if (!segments_.empty()) LS_CHECK_EQ(sequence, segments_.back().sequence + 1);
  segments_.push_back({.sequence = sequence, .base = last});
}

void SegmentTable::Note(const Record& record) {
  LS_CHECK(!segments_.empty());
  if (const auto* transaction = std::get_if<TransactionRecord>(&record)) {
    segments_.back().transaction_bytes += transaction->body.size();
  } else if (const auto* truncate = std::get_if<TruncateRecord>(&record)) {
    for (Segment& segment : segments_) segment.base = std::min(segment.base, truncate->to);
  } else if (const auto* snapshot = std::get_if<SnapshotRecord>(&record)) {
    if (!snapshot->replaces_history) return;
    for (Segment& segment : segments_) {
      segment.base = snapshot->zxid;
      segment.transaction_bytes = 0;
    }
  } else if (std::holds_alternative<LogChangeRecord>(record)) {
    segments_.back().log_bytes += EncodedBytes(record);
  }
}

std::vector<uint64_t> SegmentTable::Drop(Zxid snapshot, uint64_t retained_bytes,
                                         uint64_t keep_from) {
  // Those before the last whose history starts at or before the snapshot are not needed for it.
  size_t superfluous = 0;
  while (superfluous + 1 < segments_.size() && segments_[superfluous + 1].base <= snapshot &&
         segments_[superfluous].sequence < keep_from) {
    ++superfluous;
  }
  // Of these, the newest are kept while they fit; one without transactions is kept only for those
  // that come before it. Batches that lie between transactions make these dear to keep.
  size_t dropped = superfluous;
  uint64_t bytes = 0;
  for (size_t i = superfluous; i-- > 0;) {
    bytes += segments_[i].transaction_bytes + segments_[i].log_bytes;
    if (bytes > retained_bytes) break;
    if (segments_[i].transaction_bytes > 0) dropped = i;
  }

  std::vector<uint64_t> numbers;
  for (size_t i = 0; i < dropped; ++i) numbers.push_back(segments_[i].sequence);
  segments_.erase(segments_.begin(), segments_.begin() + static_cast<ptrdiff_t>(dropped));
  return numbers;
}

}  // namespace lockstep::storage
