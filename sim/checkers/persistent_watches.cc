#include "sim/checkers/persistent_watches.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "sim/failure.h"

namespace lockstep::sim {

using coordination::WatchEventType;

namespace {

bool IsAtOrBelow(std::string_view path, std::string_view top) {
  return path == top || top == "/" ||
         (path.starts_with(top) && path.size() > top.size() && path[top.size()] == '/');
}

std::string Describe(WatchEventType type, std::string_view path) {
  return absl::StrCat("type ", static_cast<int32_t>(type), " of ", std::string(path));
}

}  // namespace

size_t PersistentWatches::ChangesUpTo(Zxid zxid) const {
  const std::vector<ZnodeChange>& changes = model_->changes();
  auto after = std::upper_bound(changes.begin(), changes.end(), zxid,
                                [](Zxid z, const ZnodeChange& change) { return z < change.zxid; });
  return static_cast<size_t>(after - changes.begin());
}

void PersistentWatches::Add(std::string_view path, bool recursive, Zxid zxid) {
  if (Has(path, recursive)) return;
  watches_.push_back({std::string(path), recursive, true, ChangesUpTo(zxid)});
}

bool PersistentWatches::Remove(std::string_view path, bool recursive) {
  return std::erase_if(watches_, [&](const Watch& watch) {
           return watch.path == path && watch.recursive == recursive;
         }) > 0;
}

bool PersistentWatches::Has(std::string_view path, bool recursive) const {
  return std::any_of(watches_.begin(), watches_.end(), [&](const Watch& watch) {
    return watch.path == path && watch.recursive == recursive;
  });
}

void PersistentWatches::Suspend() {
  for (Watch& watch : watches_) watch.in_force = false;
}

void PersistentWatches::Resume(Zxid zxid) {
  for (Watch& watch : watches_) {
    watch.in_force = true;
    watch.next = ChangesUpTo(zxid);
  }
}

// Whether the watch could be why the event is sent.
bool PersistentWatches::Covers(const Watch& watch, const Event& event) {
  const auto& [type, path] = event;
  if (!watch.recursive) return path == watch.path;
  return type != WatchEventType::kNodeChildrenChanged && IsAtOrBelow(path, watch.path);
}

// The event that the watch owes for the change: at most one.
std::optional<PersistentWatches::Event> PersistentWatches::EventOf(const Watch& watch,
                                                                   const ZnodeChange& change) {
  const Event of_node{change.type, change.path};
  if (Covers(watch, of_node)) return of_node;
  if (!watch.recursive && change.type != WatchEventType::kNodeDataChanged &&
      change.path.size() > 1 && ParentOf(change.path) == watch.path) {
    return Event{WatchEventType::kNodeChildrenChanged, watch.path};
  }
  return std::nullopt;
}

bool PersistentWatches::OnEvent(WatchEventType type, std::string_view path) {
  const std::vector<ZnodeChange>& changes = model_->changes();
  bool covered = false;
  for (Watch& watch : watches_) {
    if (!watch.in_force || !Covers(watch, {type, path})) continue;
    covered = true;
    std::optional<Event> owed;
    while (!owed.has_value() && watch.next < changes.size()) {
      owed = EventOf(watch, changes[watch.next++]);
    }
    if (owed == Event{type, path}) continue;
    Fail("events-in-order",
         absl::StrCat("an event ", Describe(type, path), " comes for a watch on ", watch.path,
                      owed.has_value() ? ", where the next is " : ", where none is left",
                      owed.has_value() ? Describe(owed->first, owed->second) : ""));
  }
  return covered;
}

void PersistentWatches::OnSeen(Zxid zxid) {
  const std::vector<ZnodeChange>& changes = model_->changes();
  for (Watch& watch : watches_) {
    if (!watch.in_force) continue;
    for (; watch.next < changes.size() && changes[watch.next].zxid <= zxid; ++watch.next) {
      const std::optional<Event> owed = EventOf(watch, changes[watch.next]);
      if (!owed.has_value()) continue;
      Fail("event-before-reply",
           absl::StrCat("a state at ", zxid.ToString(), " is seen before the event ",
                        Describe(owed->first, owed->second), ", of ",
                        changes[watch.next].zxid.ToString(), ", for a ",
                        watch.recursive ? "recursive" : "persistent", " watch on ", watch.path));
    }
  }
}

}  // namespace lockstep::sim
