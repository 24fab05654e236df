#include "core/server/digest_log.h"

#include <algorithm>

#include "core/base/check.h"

namespace lockstep::server {

DigestLog::DigestLog(size_t max) : max_(max) { LS_CHECK_GT(max, size_t{0}); }

void DigestLog::Reset(const StateDigest& state) {
  states_.clear();
  states_.push_back(state);
}

void DigestLog::Append(const StateDigest& state) {
  LS_CHECK(states_.empty() || states_.back().zxid < state.zxid);
  if (states_.size() == max_) states_.pop_front();
  states_.push_back(state);
}

std::optional<uint64_t> DigestLog::AsOf(Zxid zxid) const {
  if (states_.empty() || zxid < states_.front().zxid || zxid > states_.back().zxid) {
    return std::nullopt;
  }
  auto after =
      std::upper_bound(states_.begin(), states_.end(), zxid,
                       [](Zxid wanted, const StateDigest& state) { return wanted < state.zxid; });
  return std::prev(after)->digest;
}

}  // namespace lockstep::server
