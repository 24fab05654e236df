#include "core/storage/log_index.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/records/big_endian.h"

namespace lockstep::storage {
namespace {

using records::LoadBe;
using records::StoreBe;

constexpr size_t kIndexBytes = 8;
constexpr size_t kTimeBytes = 12;

template <typename T>
void AppendBe(std::string* to, T value) {
  char bytes[sizeof(T)];
  StoreBe(bytes, value);
  to->append(bytes, sizeof bytes);
}

}  // namespace

void SegmentIndex::Add(int64_t last_offset, uint64_t position, uint64_t bytes,
                       int64_t max_timestamp) {
  if (position < end_) return;
  end_ = position + bytes;
  last_offset_ = last_offset;
  if (max_timestamp > max_timestamp_) {
    max_timestamp_ = max_timestamp;
    max_offset_ = last_offset;
  }
  if (bytes_since_ > interval_) {
    bytes_since_ = 0;
    AppendBe(&pending_index_, static_cast<int32_t>(last_offset - base_));
    AppendBe(&pending_index_, static_cast<int32_t>(position));
    ++entries_;
    AddTimeEntry();
    AddPoint({last_offset, position, max_timestamp_, entries_, time_entries_});
  }
  bytes_since_ += bytes;
}

void SegmentIndex::AddTimeEntry() {
  if (max_timestamp_ <= last_time_) return;
  last_time_ = max_timestamp_;
  AppendBe(&pending_time_, max_timestamp_);
  AppendBe(&pending_time_, static_cast<int32_t>(max_offset_ - base_));
  ++time_entries_;
}

void SegmentIndex::Close() { AddTimeEntry(); }

void SegmentIndex::AddPoint(const Point& point) {
  if (point.entries % stride_ != 0) return;
  points_.push_back(point);
  if (points_.size() < kPointsMax) return;
  stride_ *= 2;
  std::erase_if(points_, [this](const Point& p) { return p.entries % stride_ != 0; });
}

bool SegmentIndex::Load(std::string_view index, std::string_view time_index, int64_t limit,
                        uint64_t segment_bytes) {
  *this = SegmentIndex(base_, interval_);
  if (index.size() % kIndexBytes != 0 || time_index.size() % kTimeBytes != 0) return false;
  const auto refuse = [this] {
    *this = SegmentIndex(base_, interval_);
    return false;
  };
  int64_t last_offset = base_ - 1;
  int64_t last_position = -1;
  int64_t time_offset = base_ - 1;
  for (size_t at = 0; at < index.size(); at += kIndexBytes) {
    const int64_t offset = base_ + LoadBe<int32_t>(index.data() + at);
    const int64_t position = LoadBe<int32_t>(index.data() + at + 4);
    if (offset <= last_offset || position <= last_position) return refuse();
    if (offset >= limit || static_cast<uint64_t>(position) >= segment_bytes) break;
    last_offset = offset;
    last_position = position;
    ++entries_;
    while ((time_entries_ + 1) * kTimeBytes <= time_index.size()) {
      const char* entry = time_index.data() + time_entries_ * kTimeBytes;
      const int64_t time = LoadBe<int64_t>(entry);
      const int64_t of = base_ + LoadBe<int32_t>(entry + 8);
      if (of > offset) break;
      if (time <= last_time_ || of <= time_offset) return refuse();
      last_time_ = max_timestamp_ = time;
      time_offset = max_offset_ = of;
      ++time_entries_;
    }
    AddPoint({offset, static_cast<uint64_t>(position), max_timestamp_, entries_, time_entries_});
  }
  // The batch at the last entry has been counted; what it is long is not known here.
  end_ = entries_ == 0 ? 0 : static_cast<uint64_t>(last_position) + 1;
  last_offset_ = entries_ == 0 ? -1 : last_offset;
  return true;
}

void SegmentIndex::Truncate(int64_t to) {
  if (last_offset_ < to) return;
  // The entries between the points are given up with those above: they are hints.
  while (!points_.empty() && points_.back().last_offset >= to) points_.pop_back();
  const Point last = points_.empty() ? Point{} : points_.back();
  entries_ = last.entries;
  time_entries_ = last.time_entries;
  max_timestamp_ = last_time_ = last.max_through;
  max_offset_ = last.max_through < 0 ? -1 : last.last_offset;
  bytes_since_ = 0;
  end_ = points_.empty() ? 0 : last.position + 1;
  last_offset_ = points_.empty() ? -1 : last.last_offset;
}

SegmentIndex::Found SegmentIndex::FindOffset(int64_t offset) const {
  const auto above =
      std::upper_bound(points_.begin(), points_.end(), offset,
                       [](int64_t value, const Point& point) { return value < point.last_offset; });
  if (above == points_.begin()) return {};
  return {std::prev(above)->position, std::prev(above)->last_offset};
}

SegmentIndex::Found SegmentIndex::FindTimestamp(int64_t timestamp) const {
  const auto above =
      std::lower_bound(points_.begin(), points_.end(), timestamp,
                       [](const Point& point, int64_t value) { return point.max_through < value; });
  if (above == points_.begin()) return {};
  return {std::prev(above)->position, std::prev(above)->last_offset};
}

SegmentIndex::Pending SegmentIndex::TakePending() {
  Pending pending{.index_at = index_bytes(), .time_at = time_bytes()};
  pending.index = Bytes::Copy(std::exchange(pending_index_, {}));
  pending.time = Bytes::Copy(std::exchange(pending_time_, {}));
  return pending;
}

}  // namespace lockstep::storage
