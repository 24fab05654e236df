// The deadlines of all groups in one queue. Most of them are sessions, which every heartbeat moves:
// so a deadline that moves later leaves its place in the queue alone, and takes its new one when
// the old one comes up. A heartbeat costs nothing here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/btree_map.h"
#include "core/base/time.h"

namespace lockstep::kafka {

class GroupTimers {
 public:
  enum class Kind : uint8_t {
    kSession,        // of a member
    kPendingMember,  // it was given an id, and has not come back with it
    kRebalance,      // members have so long to join again
    kSync,           // members of the new generation have so long to ask for their assignment
  };
  struct Target {
    int32_t partition = 0;
    std::string group;
    Kind kind = Kind::kSession;
    std::string member;  // empty for a deadline of the whole group
  };
  // Where a deadline is kept: with what it is for. Must be cancelled before it goes.
  struct Deadline {
    Instant at = Instant::Never();
    // Its place in the queue, not later than `at`; the number is 0 if it has none.
    std::pair<Instant, uint64_t> place = {Instant::Never(), 0};
  };

  void Set(Deadline* deadline, Instant at, int32_t partition, const std::string& group, Kind kind,
           const std::string& member) {
    deadline->at = at;
    if (deadline->place.second != 0) {
      if (deadline->place.first <= at) return;
      queue_.erase(deadline->place);
    }
    deadline->place = {at, ++last_};
    queue_[deadline->place] = Target{partition, group, kind, member};
  }

  void Cancel(Deadline* deadline) {
    if (deadline->place.second != 0) queue_.erase(deadline->place);
    *deadline = Deadline();
  }

  // May be earlier than any deadline is.
  Instant next() const { return queue_.empty() ? Instant::Never() : queue_.begin()->first.first; }

  // What stands first in the queue, if its place is not after `now`. To be given to IsDue().
  std::optional<Target> Pop(Instant now) {
    if (next() > now) return std::nullopt;
    Target target = std::move(queue_.begin()->second);
    queue_.erase(queue_.begin());
    return target;
  }

  // `deadline` is that of `target`, which Pop() gave. If it has moved, it gets its new place.
  bool IsDue(Deadline* deadline, Instant now, const Target& target) {
    const Instant at = deadline->at;
    *deadline = Deadline();
    if (at <= now) return true;
    if (at != Instant::Never()) {
      Set(deadline, at, target.partition, target.group, target.kind, target.member);
    }
    return false;
  }

 private:
  absl::btree_map<std::pair<Instant, uint64_t>, Target> queue_;
  uint64_t last_ = 0;
};

}  // namespace lockstep::kafka
