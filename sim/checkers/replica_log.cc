#include "sim/checkers/replica_log.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/base/random.h"
#include "core/records/big_endian.h"
#include "core/records/record_batch.h"
#include "sim/failure.h"

namespace lockstep::sim {
namespace {

// Takes bytes off the front of a list of slices.
class Slices {
 public:
  explicit Slices(const std::vector<Bytes>& slices) : slices_(slices) { SkipEmpty(); }
  bool empty() const { return at_ == slices_.size(); }
  // Copies `size` bytes without taking them. False if there are fewer.
  bool Peek(char* to, size_t size) const {
    size_t offset = offset_;
    for (size_t i = at_; i < slices_.size() && size > 0; ++i, offset = 0) {
      const size_t part = std::min(size, slices_[i].size() - offset);
      std::memcpy(to, slices_[i].data() + offset, part);
      to += part;
      size -= part;
    }
    return size == 0;
  }
  bool Take(size_t size, std::vector<Bytes>* to) {
    while (size > 0 && !empty()) {
      const size_t part = std::min(size, slices_[at_].size() - offset_);
      to->push_back(slices_[at_].Slice(offset_, part));
      size -= part;
      offset_ += part;
      SkipEmpty();
    }
    return size == 0;
  }

 private:
  void SkipEmpty() {
    while (at_ < slices_.size() && offset_ == slices_[at_].size()) {
      ++at_;
      offset_ = 0;
    }
  }
  const std::vector<Bytes>& slices_;
  size_t at_ = 0;
  size_t offset_ = 0;
};

[[noreturn]] void Bad(const std::string& why) { Fail("log-is-contiguous", why); }

}  // namespace

std::vector<LoggedBatch> SplitBatches(const std::vector<Bytes>& slices) {
  std::vector<LoggedBatch> batches;
  Slices from(slices);
  while (!from.empty()) {
    char header[records::kBatchHeaderBytes];
    if (!from.Peek(header, sizeof header)) Bad("an append ends within a batch");
    const auto size =
        static_cast<size_t>(records::LoadBe<int32_t>(header + 8)) + records::kBatchLengthEnd;
    LoggedBatch& batch = batches.emplace_back();
    batch.base = records::LoadBe<int64_t>(header);
    batch.epoch = records::LoadBe<int32_t>(header + 12);
    batch.end = batch.base + records::LoadBe<int32_t>(header + 23) + 1;
    // The CRC covers everything from the attributes on; it is checked by who reads.
    batch.content = Mix64(records::LoadBe<uint32_t>(header + 17) ^ (uint64_t{size} << 32));
    if (!from.Take(size, &batch.slices)) Bad("an append ends within a batch");
  }
  return batches;
}

// An epoch in which nothing was appended is forgotten when the next one begins.
void ReplicaLog::Begin(storage::EpochStart epoch) {
  if (!epochs_.empty() && epoch.epoch <= epochs_.back().epoch) return;
  while (!epochs_.empty() && epochs_.back().start >= epoch.start) epochs_.pop_back();
  epochs_.push_back(epoch);
}

void ReplicaLog::Apply(storage::LogWriteId id, const storage::LogChange& change) {
  Undo undo{.id = id, .keeps = end_, .start = start_, .end = end_, .epochs = epochs_};
  undo.batches_kept = batches_.size();
  const auto remove_from = [&](size_t index) {
    undo.batches_kept = index;
    undo.removed.assign(batches_.begin() + static_cast<ptrdiff_t>(index), batches_.end());
    batches_.resize(index);
  };
  if (const auto* append = std::get_if<storage::LogAppend>(&change)) {
    if (append->base_offset != end_) {
      Bad(absl::StrCat("an append at ", append->base_offset, " to a log that ends at ", end_));
    }
    for (LoggedBatch& batch : SplitBatches(append->batches)) {
      if (batch.base != end_) Bad(absl::StrCat("a batch at ", batch.base, " after ", end_));
      if (!epochs_.empty() && batch.epoch < epochs_.back().epoch) {
        Bad(absl::StrCat("epoch ", batch.epoch, " after ", epochs_.back().epoch));
      }
      Begin({batch.epoch, batch.base});
      end_ = batch.end;
      batches_.push_back(std::move(batch));
    }
    if (append->end_offset != end_) {
      Bad(absl::StrCat("an append says that it ends at ", append->end_offset, ", not at ", end_));
    }
  } else if (const auto* truncate = std::get_if<storage::LogTruncate>(&change)) {
    const int64_t to = std::min(truncate->to, end_);
    undo.keeps = to;
    // To its start, or below: nothing of it is left, though its first batch may begin before it.
    const size_t index = to <= start_ ? 0 : Find(to);
    if (to > start_ && index < batches_.size() && batches_[index].base < to) {
      Bad(absl::StrCat("a truncation to ", to, " within a batch"));
    }
    remove_from(index);
    end_ = to;
    start_ = std::min(start_, end_);
    while (!epochs_.empty() && epochs_.back().start >= truncate->to) epochs_.pop_back();
  } else if (const auto* epoch = std::get_if<storage::LogEpoch>(&change)) {
    if (epoch->start.start != end_) Bad("an epoch that does not begin at the log's end");
    Begin(epoch->start);
  } else if (const auto* start = std::get_if<storage::LogStart>(&change)) {
    if (start->start < start_) Bad("the log's start goes back");
    start_ = start->start;
    if (start_ > end_) {
      undo.keeps = 0;
      remove_from(0);
      end_ = start_;
      epochs_.clear();
    } else {
      // The epoch that the first record belongs to stays, and begins there.
      size_t below = 0;
      while (below < epochs_.size() && epochs_[below].start <= start_) ++below;
      if (below > 0) {
        epochs_.erase(epochs_.begin(), epochs_.begin() + static_cast<ptrdiff_t>(below - 1));
        epochs_.front().start = start_;
      }
    }
  }
  undo_.push_back(std::move(undo));
}

size_t ReplicaLog::Find(int64_t offset) const {
  auto it = std::upper_bound(batches_.begin(), batches_.end(), offset,
                             [](int64_t o, const LoggedBatch& batch) { return o < batch.end; });
  return static_cast<size_t>(it - batches_.begin());
}

void ReplicaLog::OnPersisted(storage::LogWriteId id) {
  while (!undo_.empty() && undo_.front().id <= id) undo_.pop_front();
}

void ReplicaLog::TakeBack(Undo undo) {
  batches_.resize(std::min(batches_.size(), undo.batches_kept));
  for (LoggedBatch& batch : undo.removed) batches_.push_back(std::move(batch));
  start_ = undo.start;
  end_ = undo.end;
  epochs_ = std::move(undo.epochs);
}

bool ReplicaLog::OnRecovered(int64_t start, int64_t end,
                             const std::vector<storage::EpochStart>& epochs) {
  while (!Fits(start, end, epochs)) {
    if (undo_.empty()) {
      unknown_ = true;
      return false;
    }
    TakeBack(std::move(undo_.back()));
    undo_.pop_back();
  }
  undo_.clear();
  return true;
}

bool ReplicaLog::FitsCutAt(int64_t start, int64_t end,
                           const std::vector<storage::EpochStart>& epochs) const {
  if (start != start_ || end < start || end > std::max(start_, end_)) return false;
  if (end == start) return true;  // its first batch may begin below it, and be gone
  const size_t index = Find(end);
  if (index < batches_.size() && batches_[index].base < end) return false;
  const auto epoch_at = [&](int64_t offset) {
    const auto above = std::upper_bound(
        epochs.begin(), epochs.end(), offset,
        [](int64_t value, const storage::EpochStart& epoch) { return value < epoch.start; });
    return above == epochs.begin() ? -1 : std::prev(above)->epoch;
  };
  for (size_t i = Find(start); i < index; ++i) {
    const LoggedBatch& batch = batches_[i];
    if (epoch_at(std::max(batch.base, start)) != batch.epoch) return false;
    if (epoch_at(batch.end - 1) != batch.epoch) return false;
  }
  return epochs.empty() || epochs.back().start <= end;
}

bool ReplicaLog::OnFilesRecovered(int64_t start, int64_t end,
                                  const std::vector<storage::EpochStart>& epochs, bool power_lost) {
  const int64_t least = power_lost ? 0 : durable_end();
  while (end < least || !FitsCutAt(start, end, epochs)) {
    if (undo_.empty()) {
      unknown_ = true;
      return false;
    }
    TakeBack(std::move(undo_.back()));
    undo_.pop_back();
  }
  batches_.resize(Find(end));
  end_ = end;
  epochs_ = epochs;
  undo_.clear();
  return true;
}

std::string ReplicaLog::ToString() const {
  std::string text = absl::StrCat(start_, "..", end_, " (durable up to ", durable_end(), ")");
  for (const storage::EpochStart& epoch : epochs_) {
    absl::StrAppend(&text, ", epoch ", epoch.epoch, " from ", epoch.start);
  }
  return text;
}

int64_t ReplicaLog::durable_end() const {
  int64_t durable = end_;
  for (const Undo& undo : undo_) durable = std::min(durable, undo.keeps);
  return durable;
}

}  // namespace lockstep::sim
