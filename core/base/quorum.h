// Which sets of voters may decide. Pure; observers never count (ZOOKEEPER-2959).
#pragma once

#include <algorithm>
#include <vector>

#include "core/base/check.h"
#include "core/base/ids.h"

namespace lockstep {

// The voters of an ensemble, and majorities of them. Any two majorities share a voter.
class Voters {
 public:
  // Requires: at least one voter, no duplicates.
  explicit Voters(std::vector<ServerId> voters) : voters_(std::move(voters)) {
    std::sort(voters_.begin(), voters_.end());
    LS_CHECK(!voters_.empty());
    LS_CHECK(std::adjacent_find(voters_.begin(), voters_.end()) == voters_.end());
  }

  // Ascending.
  const std::vector<ServerId>& all() const { return voters_; }
  size_t size() const { return voters_.size(); }
  size_t quorum_size() const { return voters_.size() / 2 + 1; }
  bool Contains(ServerId server) const {
    return std::binary_search(voters_.begin(), voters_.end(), server);
  }

  // Whether the servers for which `has(ServerId)` is true are a quorum.
  template <typename Has>
  bool IsQuorum(Has has) const {
    size_t count = 0;
    for (ServerId voter : voters_) count += has(voter) ? 1 : 0;
    return count >= quorum_size();
  }

  // The greatest value that a quorum has reached, where `of(ServerId)` is what each voter reached.
  template <typename T, typename Of>
  T ReachedByQuorum(Of of) const {
    std::vector<T> values;
    values.reserve(voters_.size());
    for (ServerId voter : voters_) values.push_back(of(voter));
    std::sort(values.begin(), values.end());
    return values[voters_.size() - quorum_size()];
  }

 private:
  std::vector<ServerId> voters_;
};

}  // namespace lockstep
