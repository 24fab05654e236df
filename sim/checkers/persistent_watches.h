// The persistent and recursive watches of one session: an event for every change that one of them
// covers, in the order of the changes, before the session sees a state that shows it.
//
// Between two connections nothing is owed: a watch is in force from the reply that says that it is
// set (again), and covers what is committed after the zxid of that reply.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/zxid.h"
#include "core/coordination/protocol.h"
#include "sim/checkers/znode_model.h"

namespace lockstep::sim {

class PersistentWatches {
 public:
  struct Watch {
    std::string path;
    bool recursive = false;
    bool in_force = false;
    size_t next = 0;  // of the model's changes: the first that it may still owe an event for
  };

  explicit PersistentWatches(const ZnodeModel* model) : model_(model) {}

  // Set by a request that was answered at `zxid`. One that is in force already goes on.
  void Add(std::string_view path, bool recursive, Zxid zxid);
  // False if there is none.
  bool Remove(std::string_view path, bool recursive);
  bool Has(std::string_view path, bool recursive) const;
  void Clear() { watches_.clear(); }
  // The connection is gone; the client will set them again.
  void Suspend();
  // They were, by a request that was answered at `zxid`.
  void Resume(Zxid zxid);

  // Whether a watch in force covers the event. Fails if it is not the next one that this watch is
  // owed: one is missing, comes twice or tells of no change.
  bool OnEvent(coordination::WatchEventType type, std::string_view path);
  // Fails if an event of a change up to `zxid` is still owed.
  void OnSeen(Zxid zxid);

  const std::vector<Watch>& watches() const { return watches_; }

 private:
  using Event = std::pair<coordination::WatchEventType, std::string_view>;
  size_t ChangesUpTo(Zxid zxid) const;
  static bool Covers(const Watch& watch, const Event& event);
  static std::optional<Event> EventOf(const Watch& watch, const ZnodeChange& change);

  const ZnodeModel* model_;
  std::vector<Watch> watches_;
};

}  // namespace lockstep::sim
