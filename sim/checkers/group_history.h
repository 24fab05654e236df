// What the members of one consumer group were told: who owns what in a generation, and which
// offsets are committed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/time.h"

namespace lockstep::sim {

class GroupHistory {
 public:
  using Key = std::pair<std::string, int32_t>;  // topic, partition

  // `member` has these partitions in `generation`. A partition has one owner in a generation, and a
  // generation is not given twice.
  void OnAssigned(const std::string& member, int32_t generation, const std::vector<Key>& owned);
  int32_t last_generation() const { return last_generation_; }

  // A commit is sent; returns its number. What is sent counts from now on: it may take effect even
  // if no answer ever comes.
  uint64_t OnCommitSent(Instant now, const Key& key, int64_t offset);
  void OnCommitted(Instant now, const Key& key, uint64_t commit);

  // What was fetched, when the request was sent at `asked`: -1 for none. It must be what the last
  // acknowledged commit said, or one that overlapped it or came later.
  void OnFetched(Instant asked, const Key& key, int64_t offset) const;
  // The partition's topic was deleted, and its offsets with it; or the offsets topic may have lost
  // some: nothing is known any more.
  void Forget(const Key& key);

 private:
  struct Commit {
    uint64_t number = 0;
    int64_t offset = 0;
    Instant sent;
    Instant acknowledged = Instant::Never();
  };
  std::map<int32_t, std::map<Key, std::string>> owners_;  // by generation
  std::map<Key, std::vector<Commit>> commits_;
  std::map<Key, bool> forgotten_;
  uint64_t next_commit_ = 1;
  int32_t last_generation_ = 0;
};

}  // namespace lockstep::sim
