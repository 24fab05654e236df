#include "core/coordination/watches.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/base/check.h"
#include "core/coordination/path.h"

namespace lockstep::coordination {
namespace {

constexpr WatchKinds kOneShot = kWatchData | kWatchChildren;

size_t CountOfKinds(WatchKinds kinds) { return static_cast<size_t>(std::popcount(kinds)); }

}  // namespace

void Watches::Add(const std::string& path, ConnectionId watcher, WatchKinds kinds) {
  if (!rules_.watches_of_one_path_are_independent && (kinds & kOneShot) != 0) {
    // ZooKeeper before 3.9 keeps one mode for a path and a connection.
    Remove(path, watcher, kWatchPersistent | kWatchRecursive);
  }
  WatchKinds& has = by_path_[path][watcher];
  const WatchKinds added = kinds & static_cast<WatchKinds>(~has);
  OfWatcher& own = by_watcher_[watcher];
  if (has == 0) own.paths.insert(path);
  has |= added;
  own.count += CountOfKinds(added);
  size_ += CountOfKinds(added);
  recursive_ += CountOfKinds(added & kWatchRecursive);
}

bool Watches::Has(const std::string& path, ConnectionId watcher, WatchKinds kinds) const {
  auto watchers = by_path_.find(path);
  if (watchers == by_path_.end()) return false;
  auto has = watchers->second.find(watcher);
  return has != watchers->second.end() && (has->second & kinds) != 0;
}

bool Watches::Remove(const std::string& path, ConnectionId watcher, WatchKinds kinds) {
  auto watchers = by_path_.find(path);
  if (watchers == by_path_.end()) return false;
  auto has = watchers->second.find(watcher);
  if (has == watchers->second.end()) return false;
  const WatchKinds taken = has->second & kinds;
  if (taken == 0) return false;
  has->second ^= taken;
  const bool last = has->second == 0;
  Took(path, watcher, taken, last);
  if (last) watchers->second.erase(has);
  if (watchers->second.empty()) by_path_.erase(watchers);
  return true;
}

// The other half of taking watches out of by_path_. `last`: the watcher has none on the path now.
void Watches::Took(const std::string& path, ConnectionId watcher, WatchKinds taken, bool last) {
  auto own = by_watcher_.find(watcher);
  LS_CHECK(own != by_watcher_.end());
  LS_CHECK_LE(CountOfKinds(taken), own->second.count);
  own->second.count -= CountOfKinds(taken);
  size_ -= CountOfKinds(taken);
  recursive_ -= CountOfKinds(taken & kWatchRecursive);
  if (!last) return;
  LS_CHECK_EQ(own->second.paths.erase(path), size_t{1});
  if (own->second.paths.empty()) by_watcher_.erase(own);
}

void Watches::RemoveAll(ConnectionId watcher) {
  auto own = by_watcher_.find(watcher);
  if (own == by_watcher_.end()) return;
  for (const std::string& path : own->second.paths) {
    auto watchers = by_path_.find(path);
    LS_CHECK(watchers != by_path_.end());
    auto has = watchers->second.find(watcher);
    LS_CHECK(has != watchers->second.end());
    recursive_ -= CountOfKinds(has->second & kWatchRecursive);
    watchers->second.erase(has);
    if (watchers->second.empty()) by_path_.erase(watchers);
  }
  LS_CHECK_LE(own->second.count, size_);
  size_ -= own->second.count;
  by_watcher_.erase(own);
}

size_t Watches::CountOf(ConnectionId watcher) const {
  auto own = by_watcher_.find(watcher);
  return own == by_watcher_.end() ? 0 : own->second.count;
}

void Watches::Clear() {
  by_path_.clear();
  by_watcher_.clear();
  size_ = 0;
  recursive_ = 0;
}

// Appends those who have any of `kinds` on `path`, and takes the one-shot ones of them.
void Watches::Collect(const std::string& path, WatchKinds kinds, std::vector<ConnectionId>* to) {
  auto watchers = by_path_.find(path);
  if (watchers == by_path_.end()) return;
  for (auto has = watchers->second.begin(); has != watchers->second.end();) {
    if ((has->second & kinds) == 0) {
      ++has;
      continue;
    }
    to->push_back(has->first);
    const WatchKinds taken = has->second & kinds & kOneShot;
    has->second ^= taken;
    const bool last = has->second == 0;
    if (taken != 0) Took(path, has->first, taken, last);
    has = last ? watchers->second.erase(has) : std::next(has);
  }
  if (watchers->second.empty()) by_path_.erase(watchers);
}

void Watches::CollectAncestors(std::string path, std::vector<ConnectionId>* to) {
  while (recursive_ > 0 && path != "/") {
    path.resize(ParentPath(path).size());
    Collect(path, kWatchRecursive, to);
  }
}

void Watches::FireOne(WatchEventType type, const std::string& path, WatchKinds kinds,
                      std::vector<FiredWatch>* fired) {
  std::vector<ConnectionId> watchers;
  Collect(path, kinds, &watchers);
  if ((kinds & kWatchRecursive) != 0) CollectAncestors(path, &watchers);
  if (watchers.empty()) return;
  std::sort(watchers.begin(), watchers.end());
  watchers.erase(std::unique(watchers.begin(), watchers.end()), watchers.end());
  fired->push_back({type, path, std::move(watchers)});
}

std::vector<FiredWatch> Watches::Fire(const std::vector<Applied::Change>& changes) {
  constexpr WatchKinds kSeeData = kWatchData | kWatchPersistent | kWatchRecursive;
  std::vector<FiredWatch> fired;
  // Nobody watches anything: the common case of a write-heavy ensemble.
  if (size() == 0) return fired;
  for (const Applied::Change& change : changes) {
    switch (change.kind) {
      case Applied::Change::Kind::kDataChanged:
        FireOne(WatchEventType::kNodeDataChanged, change.path, kSeeData, &fired);
        continue;
      case Applied::Change::Kind::kCreated:
        FireOne(WatchEventType::kNodeCreated, change.path, kSeeData, &fired);
        break;
      case Applied::Change::Kind::kDeleted:
        // Whoever watches its children is told as well.
        FireOne(WatchEventType::kNodeDeleted, change.path, kWatchAny, &fired);
        break;
    }
    // Not to recursive watches: they have just heard of the child itself.
    FireOne(WatchEventType::kNodeChildrenChanged, std::string(ParentPath(change.path)),
            kWatchChildren | kWatchPersistent, &fired);
  }
  return fired;
}

}  // namespace lockstep::coordination
