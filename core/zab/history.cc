#include "core/zab/history.h"

#include <algorithm>

#include "core/base/check.h"

namespace lockstep::zab {

History::History(Zxid base, std::vector<Transaction> transactions) : base_(base) {
  for (Transaction& transaction : transactions) {
    LS_CHECK_GT(transaction.zxid, last());
    bytes_ += transaction.body.size();
    window_.push_back(std::move(transaction));
  }
  durable_ = last();
}

bool History::Contains(Zxid zxid) const {
  if (zxid == base_) return true;
  size_t after = IndexAfter(zxid);
  return after > 0 && window_[after - 1].zxid == zxid;
}

size_t History::IndexAfter(Zxid zxid) const {
  // Nearly always asked for near the end: the tail that is not yet delivered.
  if (window_.empty() || window_.back().zxid <= zxid) return window_.size();
  auto after = std::upper_bound(window_.begin(), window_.end(), zxid,
                                [](Zxid z, const Transaction& t) { return z < t.zxid; });
  return static_cast<size_t>(after - window_.begin());
}

std::optional<Zxid> History::LastOf(Epoch epoch) const {
  Zxid last = Before(IndexAfter({epoch, 0xffff'ffff}));
  if (last.epoch != epoch) return std::nullopt;
  return last;
}

std::vector<Zxid> History::EpochEnds(size_t max) const {
  std::vector<Zxid> ends;
  Zxid end = last();
  while (ends.size() < max) {
    ends.push_back(end);
    if (end.epoch.value == 0 || end <= base_) break;
    Zxid earlier = Before(IndexAfter({{end.epoch.value - 1}, 0xffff'ffff}));
    // Without this, the base's own epoch would be named twice when it goes on in the window.
    if (earlier.epoch == end.epoch) break;
    end = earlier;
  }
  std::reverse(ends.begin(), ends.end());
  return ends;
}

void History::Append(Transaction transaction, WriteId id) {
  LS_CHECK_GT(transaction.zxid, last());
  pending_.push_back({id, transaction.zxid});
  bytes_ += transaction.body.size();
  window_.push_back(std::move(transaction));
}

void History::Truncate(Zxid to, WriteId id) {
  Forget(to);
  pending_.push_back({id, to});
}

void History::Forget(Zxid to) {
  LS_CHECK(Contains(to));
  while (last() > to) {
    bytes_ -= window_.back().body.size();
    window_.pop_back();
  }
  // What is left of the durable part is durable still; what is cut is no part of the history.
  durable_ = std::min(durable_, to);
  for (Pending& pending : pending_) pending.last = std::min(pending.last, to);
}

void History::Reset(Zxid zxid, WriteId id) {
  window_.clear();
  bytes_ = 0;
  base_ = zxid;
  durable_ = {};
  for (Pending& pending : pending_) pending.last = {};
  pending_.push_back({id, zxid});
}

void History::OnPersisted(WriteId id) {
  while (!pending_.empty() && pending_.front().id <= id) {
    durable_ = pending_.front().last;
    pending_.pop_front();
  }
}

void History::Trim(Zxid up_to, size_t transactions_max, uint64_t bytes_max) {
  while ((window_.size() > transactions_max || bytes_ > bytes_max) && !window_.empty() &&
         window_.front().zxid <= up_to) {
    base_ = window_.front().zxid;
    bytes_ -= window_.front().body.size();
    window_.pop_front();
  }
}

}  // namespace lockstep::zab
