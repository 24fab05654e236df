// The newest batches of all logs in memory: what is not in the files yet, and, up to a bound, what
// is: followers and consumers at the end never touch a file.
#include <algorithm>
#include <utility>

#include "core/storage/logs.h"

namespace lockstep::storage {

void Logs::Cache(Log* log, std::vector<BatchSlice> batches) {
  for (BatchSlice& batch : batches) {
    cache_bytes_ += batch.bytes;
    cache_order_.emplace_back(log->number, next_serial_);
    log->cached.push_back({next_serial_++, std::move(batch)});
  }
  Evict();
}

// Those that end above `to` go.
void Logs::CutCache(Log* log, int64_t to) {
  while (!log->cached.empty() && log->cached.back().batch.end > to) {
    cache_bytes_ -= log->cached.back().batch.bytes;
    log->cached.pop_back();
  }
}

// Oldest first, over all logs; in each, what is in memory is a piece without gaps up to its end.
void Logs::Evict() {
  while (!cache_order_.empty()) {
    const auto [number, serial] = cache_order_.front();
    Log* log = Find(number);
    const bool stale =
        log == nullptr || log->cached.empty() || log->cached.front().serial != serial;
    if (!stale) {
      if (cache_bytes_ <= options_.cache_bytes) return;
      if (log->cached.front().batch.end > log->readable_end) return;  // not in the files
      cache_bytes_ -= log->cached.front().batch.bytes;
      log->cached.pop_front();
    }
    cache_order_.pop_front();
  }
}

// False: what is wanted begins before what is in memory.
bool Logs::ReadCache(const Log& log, int64_t offset, uint64_t max_bytes, LogReadDone* done) const {
  if (log.cached.empty() || log.cached.front().batch.base > offset) return false;
  auto it = std::partition_point(log.cached.begin(), log.cached.end(),
                                 [&](const Cached& cached) { return cached.batch.end <= offset; });
  uint64_t bytes = 0;
  for (; it != log.cached.end(); ++it) {
    if (bytes > 0 && bytes + it->batch.bytes > max_bytes) break;
    bytes += it->batch.bytes;
    done->batches.insert(done->batches.end(), it->batch.slices.begin(), it->batch.slices.end());
  }
  return true;
}

}  // namespace lockstep::storage
