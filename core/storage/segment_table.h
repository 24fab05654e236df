// The journal's segments, and which of them are still needed.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/zxid.h"
#include "core/storage/store.h"

namespace lockstep::storage {

class SegmentTable {
 public:
  // A segment with this number follows; the history before its first record ends with `last`.
  void Begin(uint64_t sequence, Zxid last);

  // The newest segment got this record. Requires: Begin.
  void Note(const Record& record);

  bool empty() const { return segments_.empty(); }
  // Where the history starts if recovery reads exactly these segments. Requires: not empty.
  Zxid base() const { return segments_.front().base; }

  uint64_t oldest() const { return segments_.front().sequence; }
  uint64_t newest() const { return segments_.back().sequence; }
  size_t size() const { return segments_.size(); }
  // Whether the snapshot at `snapshot` makes the oldest segment superfluous.
  bool OldestIsCovered(Zxid snapshot) const {
    return segments_.size() > 1 && segments_[1].base <= snapshot;
  }

  // Takes out, oldest first, the segments that the snapshot at `snapshot` makes superfluous, and
  // that are not worth keeping for lagging learners. Returns their numbers. The newest stays, and
  // so do those from `keep_from` on, which partition logs need.
  // Requires: all that was noted is durable, and so is the record that makes the snapshot count.
  std::vector<uint64_t> Drop(Zxid snapshot, uint64_t retained_bytes,
                             uint64_t keep_from = UINT64_MAX);

 private:
  struct Segment {
    uint64_t sequence = 0;
    // Where the history would start if this segment were the oldest: never falls from one segment
    // to the next.
    Zxid base;
    // Of the bodies of its transactions that recovery could still hand out; those cut by a
    // truncation are included, which only keeps a segment too long.
    uint64_t transaction_bytes = 0;
    // Of its records of partition logs.
    uint64_t log_bytes = 0;
  };

  std::vector<Segment> segments_;
};

}  // namespace lockstep::storage
