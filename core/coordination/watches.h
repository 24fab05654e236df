// The watches of this server's connections. Volatile, and local to the server: a client sets them
// anew after it has reconnected (setWatches, setWatches2).
//
// Deterministic: watchers of one path are told in the order of their connection ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "core/base/ids.h"
#include "core/base/zxid.h"
#include "core/coordination/protocol.h"
#include "core/coordination/rules.h"
#include "core/coordination/tree.h"

namespace lockstep::coordination {

// The zxid in the header of every event. ZooKeeper tells the change's own only since 3.9; clients
// of all versions accept this one.
inline constexpr Zxid kEventZxid = Zxid::FromPacked(~uint64_t{0});

// The kinds of watches that a connection may have on a path, each at most once: a set of bits.
using WatchKinds = uint8_t;
inline constexpr WatchKinds kWatchData = 1;        // one-shot: exists and getData
inline constexpr WatchKinds kWatchChildren = 2;    // one-shot: getChildren
inline constexpr WatchKinds kWatchPersistent = 4;  // what both of them see, again and again
inline constexpr WatchKinds kWatchRecursive = 8;   // persistent; data of the path and all below it
inline constexpr WatchKinds kWatchAny = 15;

// One event, sent once to each of its watchers whatever the kinds that made it one.
struct FiredWatch {
  WatchEventType type;
  std::string path;
  std::vector<ConnectionId> watchers;  // ascending, not empty
};

class Watches {
 public:
  explicit Watches(const Rules& rules = {}) : rules_(rules) {}

  // The kinds do not replace each other [rule watches_of_one_path_are_independent].
  void Add(const std::string& path, ConnectionId watcher, WatchKinds kinds);
  // Whether `watcher` has any of `kinds` on `path`.
  bool Has(const std::string& path, ConnectionId watcher, WatchKinds kinds) const;
  // Removes those of `kinds` that are there; whether there were any.
  bool Remove(const std::string& path, ConnectionId watcher, WatchKinds kinds);
  // The connection is gone.
  void RemoveAll(ConnectionId watcher);
  void Clear();

  // The watches that these changes fire, in the order in which the events have to leave. Looks at
  // the ancestors of what has changed only while somebody has a recursive watch.
  std::vector<FiredWatch> Fire(const std::vector<Applied::Change>& changes);

  // Of all paths and kinds.
  size_t size() const { return size_; }
  size_t CountOf(ConnectionId watcher) const;

 private:
  using Watchers = absl::btree_map<ConnectionId, WatchKinds>;
  struct OfWatcher {
    absl::btree_set<std::string> paths;
    size_t count = 0;  // of watches: one for each kind
  };

  void Took(const std::string& path, ConnectionId watcher, WatchKinds taken, bool last);
  void Collect(const std::string& path, WatchKinds kinds, std::vector<ConnectionId>* to);
  void CollectAncestors(std::string path, std::vector<ConnectionId>* to);
  void FireOne(WatchEventType type, const std::string& path, WatchKinds kinds,
               std::vector<FiredWatch>* fired);

  const Rules rules_;
  // Both maps are for look-ups only; what is iterated are the ordered sets in them.
  absl::flat_hash_map<std::string, Watchers> by_path_;
  absl::flat_hash_map<ConnectionId, OfWatcher> by_watcher_;
  size_t size_ = 0;
  size_t recursive_ = 0;  // of them: kWatchRecursive
};

}  // namespace lockstep::coordination
