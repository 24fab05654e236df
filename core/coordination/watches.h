// One-shot watches of this server's connections. Volatile, and local to the server: the client sets
// them anew after it has reconnected (setWatches).
//
// Deterministic: watchers of one path are told in the order of their connection ids.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "core/base/ids.h"
#include "core/base/zxid.h"
#include "core/coordination/protocol.h"
#include "core/coordination/tree.h"

namespace lockstep::coordination {

// The zxid in the header of every event. ZooKeeper tells the change's own only since 3.9; clients
// of all versions accept this one.
inline constexpr Zxid kEventZxid = Zxid::FromPacked(~uint64_t{0});

// Data watches (set by exists and getData) or child watches (set by getChildren).
class WatchTable {
 public:
  // Whether it is new: a connection watches a path at most once.
  bool Add(const std::string& path, ConnectionId watcher);
  // Removes and returns the watchers of `path`, ascending.
  absl::btree_set<ConnectionId> Take(const std::string& path);
  // The connection is gone.
  void RemoveAll(ConnectionId watcher);
  size_t size() const { return size_; }
  size_t CountOf(ConnectionId watcher) const;
  void Clear();

 private:
  // Both maps are for look-ups only; what is iterated are the ordered sets in them.
  absl::flat_hash_map<std::string, absl::btree_set<ConnectionId>> by_path_;
  absl::flat_hash_map<ConnectionId, absl::btree_set<std::string>> by_watcher_;
  size_t size_ = 0;
};

struct FiredWatch {
  WatchEventType type;
  std::string path;
  std::vector<ConnectionId> watchers;  // ascending, not empty
};

class Watches {
 public:
  void AddData(const std::string& path, ConnectionId watcher) { data_.Add(path, watcher); }
  void AddChildren(const std::string& path, ConnectionId watcher) { children_.Add(path, watcher); }
  // The watches that these changes fire, in the order in which the events have to leave.
  std::vector<FiredWatch> Fire(const std::vector<Applied::Change>& changes);
  void RemoveAll(ConnectionId watcher);
  void Clear();
  size_t size() const { return data_.size() + children_.size(); }
  size_t CountOf(ConnectionId watcher) const;

 private:
  WatchTable data_;
  WatchTable children_;
};

}  // namespace lockstep::coordination
