#include "core/zab/learner_sync.h"

#include <algorithm>

#include "core/base/check.h"

namespace lockstep::zab {

SyncPlan PlanSync(const History& history, const std::vector<Zxid>& epoch_ends) {
  LS_CHECK(!epoch_ends.empty());
  for (auto end = epoch_ends.rbegin(); end != epoch_ends.rend(); ++end) {
    std::optional<Zxid> ours = history.LastOf(end->epoch);
    if (!ours) continue;  // an epoch that left nothing in our history, or one before our window
    Zxid common = std::min(*ours, *end);
    if (common < history.base()) break;
    return {common == epoch_ends.back() ? SyncPlan::Mode::kDiff : SyncPlan::Mode::kTrunc, common};
  }
  return {SyncPlan::Mode::kSnap, {}};
}

}  // namespace lockstep::zab
