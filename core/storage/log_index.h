// The sparse indexes of one segment: which place to read from for an offset, or for a timestamp.
// They are hints; what is found there is checked, and whatever is missing is found by reading on.
//
// The files are Kafka's: an entry of `.index` is the last offset of a batch, relative to the
// segment's base, and where the batch begins; one of `.timeindex` is the largest timestamp up to
// some batch, and that batch's last offset. In memory there are at most kPointsMax places of each
// segment, so that the memory for a log does not grow with it: what lies between is read through.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.h"

namespace lockstep::storage {

class SegmentIndex {
 public:
  static constexpr size_t kPointsMax = 1024;

  SegmentIndex() = default;
  SegmentIndex(int64_t base, uint32_t interval_bytes) : base_(base), interval_(interval_bytes) {}

  // The batch that ends with `last_offset` begins at `position`: an entry, if the last one is far
  // enough. Batches come in order; those before the last entry change nothing.
  void Add(int64_t last_offset, uint64_t position, uint64_t bytes, int64_t max_timestamp);
  // Largest timestamp of all batches added, -1 if there is none.
  int64_t max_timestamp() const { return max_timestamp_; }

  // From the bytes of both files: entries of batches that end at or below `limit` (exclusive end of
  // what may be believed), and lie within the first `segment_bytes` bytes. False: they are not what
  // was written (then this is empty).
  bool Load(std::string_view index, std::string_view time_index, int64_t limit,
            uint64_t segment_bytes);
  // Entries of batches that end above `to` go.
  void Truncate(int64_t to);

  // Where a batch begins, and its last offset; -1: where the segment begins.
  struct Found {
    uint64_t position = 0;
    int64_t last_offset = -1;
  };
  // Where to start reading for the batch with `offset`.
  Found FindOffset(int64_t offset) const;
  // ... for the first batch with a timestamp not below `timestamp`.
  Found FindTimestamp(int64_t timestamp) const;
  // All batches up to and with the one that begins here have been added.
  uint64_t last_position() const { return points_.empty() ? 0 : points_.back().position; }

  // The entries that the files do not have yet, and where they belong. The files may be longer.
  struct Pending {
    uint64_t index_at = 0;
    Bytes index;
    uint64_t time_at = 0;
    Bytes time;
  };
  size_t pending_bytes() const { return pending_index_.size() + pending_time_.size(); }
  Pending TakePending();
  // What the files should be long, without what is pending (bytes).
  uint64_t index_bytes() const { return uint64_t{entries_} * 8 - pending_index_.size(); }
  uint64_t time_bytes() const { return uint64_t{time_entries_} * 12 - pending_time_.size(); }
  // The last entry of the time index, which Kafka adds when a segment is complete.
  void Close();

 private:
  struct Point {
    int64_t last_offset = 0;
    uint64_t position = 0;
    int64_t max_through = -1;  // largest timestamp up to this batch, inclusive
    uint32_t entries = 0;      // in the files, with this one
    uint32_t time_entries = 0;
  };
  void AddPoint(const Point& point);
  void AddTimeEntry();

  int64_t base_ = 0;
  uint32_t interval_ = 4096;
  std::vector<Point> points_;
  uint32_t stride_ = 1;  // every so many-th entry is a point
  uint32_t entries_ = 0;
  uint32_t time_entries_ = 0;
  uint64_t bytes_since_ = 0;
  uint64_t end_ = 0;  // of the last batch added
  int64_t last_offset_ = -1;
  int64_t max_timestamp_ = -1;
  int64_t max_offset_ = -1;  // the last offset of the batch that has it
  int64_t last_time_ = -1;   // of the last entry of the time index
  std::string pending_index_;
  std::string pending_time_;
};

}  // namespace lockstep::storage
