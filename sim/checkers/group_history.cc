#include "sim/checkers/group_history.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "sim/failure.h"

namespace lockstep::sim {

void GroupHistory::OnAssigned(const std::string& member, int32_t generation,
                              const std::vector<Key>& owned) {
  last_generation_ = std::max(last_generation_, generation);
  std::map<Key, std::string>& owners = owners_[generation];
  for (const Key& key : owned) {
    const auto [it, is_new] = owners.try_emplace(key, member);
    if (is_new || it->second == member) continue;
    Fail("one-owner-per-generation",
         absl::StrCat(key.first, "-", key.second, " belongs to ", it->second, " and to ", member,
                      " in generation ", generation));
  }
}

uint64_t GroupHistory::OnCommitSent(Instant now, const Key& key, int64_t offset) {
  std::vector<Commit>& commits = commits_[key];
  commits.push_back({next_commit_++, offset, now});
  return commits.back().number;
}

void GroupHistory::OnCommitted(Instant now, const Key& key, uint64_t number) {
  for (Commit& commit : commits_[key]) {
    if (commit.number == number) commit.acknowledged = now;
  }
}

void GroupHistory::OnFetched(Instant asked, const Key& key, int64_t offset) const {
  if (forgotten_.contains(key)) return;
  auto it = commits_.find(key);
  // The last commit that was acknowledged before the question: all that was acknowledged before it
  // was sent is replaced by it.
  Instant replaced;
  bool any = false;
  if (it != commits_.end()) {
    for (const Commit& commit : it->second) {
      if (commit.acknowledged > asked) continue;
      any = true;
      replaced = std::max(replaced, commit.sent);
    }
    for (const Commit& commit : it->second) {
      if (commit.offset == offset && commit.acknowledged >= replaced) return;
    }
  }
  if (offset < 0 && !any) return;
  Fail("committed-offset-never-lost",
       absl::StrCat("the group's offset of ", key.first, "-", key.second, " is ", offset,
                    ", which is not what was committed last"));
}

void GroupHistory::Forget(const Key& key) { forgotten_[key] = true; }

}  // namespace lockstep::sim
