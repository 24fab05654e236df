#include "core/coordination/watches.h"

#include <utility>

#include "core/base/check.h"
#include "core/coordination/path.h"

namespace lockstep::coordination {

bool WatchTable::Add(const std::string& path, ConnectionId watcher) {
  if (!by_watcher_[watcher].insert(path).second) return false;
  by_path_[path].insert(watcher);
  ++size_;
  return true;
}

absl::btree_set<ConnectionId> WatchTable::Take(const std::string& path) {
  auto it = by_path_.find(path);
  if (it == by_path_.end()) return {};
  absl::btree_set<ConnectionId> watchers = std::move(it->second);
  by_path_.erase(it);
  for (ConnectionId watcher : watchers) {
    auto paths = by_watcher_.find(watcher);
    LS_CHECK(paths != by_watcher_.end());
    LS_CHECK_EQ(paths->second.erase(path), size_t{1});
    if (paths->second.empty()) by_watcher_.erase(paths);
  }
  LS_CHECK_LE(watchers.size(), size_);
  size_ -= watchers.size();
  return watchers;
}

void WatchTable::RemoveAll(ConnectionId watcher) {
  auto it = by_watcher_.find(watcher);
  if (it == by_watcher_.end()) return;
  for (const std::string& path : it->second) {
    auto watchers = by_path_.find(path);
    LS_CHECK(watchers != by_path_.end());
    LS_CHECK_EQ(watchers->second.erase(watcher), size_t{1});
    if (watchers->second.empty()) by_path_.erase(watchers);
  }
  LS_CHECK_LE(it->second.size(), size_);
  size_ -= it->second.size();
  by_watcher_.erase(it);
}

size_t WatchTable::CountOf(ConnectionId watcher) const {
  auto it = by_watcher_.find(watcher);
  return it == by_watcher_.end() ? 0 : it->second.size();
}

void WatchTable::Clear() {
  by_path_.clear();
  by_watcher_.clear();
  size_ = 0;
}

std::vector<FiredWatch> Watches::Fire(const std::vector<Applied::Change>& changes) {
  std::vector<FiredWatch> fired;
  auto fire = [&](WatchEventType type, const std::string& path,
                  const absl::btree_set<ConnectionId>& watchers) {
    if (watchers.empty()) return;
    fired.push_back({type, path, {watchers.begin(), watchers.end()}});
  };
  // Nobody watches anything: the common case of a write-heavy ensemble.
  if (size() == 0) return fired;
  for (const Applied::Change& change : changes) {
    switch (change.kind) {
      case Applied::Change::Kind::kDataChanged:
        fire(WatchEventType::kNodeDataChanged, change.path, data_.Take(change.path));
        continue;
      case Applied::Change::Kind::kCreated:
        fire(WatchEventType::kNodeCreated, change.path, data_.Take(change.path));
        break;
      case Applied::Change::Kind::kDeleted: {
        // One event for a connection that watches both the data and the children.
        absl::btree_set<ConnectionId> watchers = data_.Take(change.path);
        absl::btree_set<ConnectionId> of_children = children_.Take(change.path);
        watchers.insert(of_children.begin(), of_children.end());
        fire(WatchEventType::kNodeDeleted, change.path, watchers);
        break;
      }
    }
    std::string parent(ParentPath(change.path));
    fire(WatchEventType::kNodeChildrenChanged, parent, children_.Take(parent));
  }
  return fired;
}

void Watches::RemoveAll(ConnectionId watcher) {
  data_.RemoveAll(watcher);
  children_.RemoveAll(watcher);
}

void Watches::Clear() {
  data_.Clear();
  children_.Clear();
}

size_t Watches::CountOf(ConnectionId watcher) const {
  return data_.CountOf(watcher) + children_.CountOf(watcher);
}

}  // namespace lockstep::coordination
