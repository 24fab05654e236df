// What a leader knows of one follower, from its fetches in this leadership alone.
#pragma once

#include <optional>

#include "core/base/time.h"
#include "core/replication/ids.h"

namespace lockstep::replication {

class FollowerProgress {
 public:
  // `in_sync`: a member of the ISR when the leadership begins, which has until then to fetch.
  // Fetches that know an older assignment than `assigned_at` do not count.
  FollowerProgress(Instant now, bool in_sync, int32_t assigned_at)
      : assigned_at_(assigned_at), last_caught_up_(in_sync ? std::optional(now) : std::nullopt) {}

  // A fetch that acknowledges everything below `fetch_offset`. `leader_end`: the leader's log end
  // when it came.
  void OnFetch(Instant now, BrokerEpoch incarnation, Offset fetch_offset, Offset leader_end);
  // Its answer has left, or nobody waits for it any more.
  void OnAnswered(Instant now);

  // It joins the ISR, and has its time to keep in sync from now on.
  void OnJoin(Instant now) { last_caught_up_ = now; }

  bool known() const { return log_end_ >= 0; }
  Offset log_end() const { return log_end_; }  // -1: has not fetched in this leadership
  BrokerEpoch incarnation() const { return incarnation_; }  // of the last fetch
  int32_t assigned_at() const { return assigned_at_; }

  // The last moment at which it is in sync, if it says nothing more: while its log ends where the
  // leader's does, always (KAFKA-7152); else `keep_in_sync_time` after it last was caught up.
  // Nothing: it never was.
  std::optional<Instant> in_sync_until(Offset leader_end, Duration keep_in_sync_time) const;
  bool CaughtUp(Instant now, Offset leader_end, Duration keep_in_sync_time) const;

 private:
  int32_t assigned_at_;
  Offset log_end_ = -1;
  BrokerEpoch incarnation_;
  // Caught up, as Kafka computes it: when it fetched at what was the leader's log end then, or, if
  // the leader appends all the time, when it sent the fetch before the one that asks for what lies
  // beyond the leader's log end at that time.
  std::optional<Instant> last_caught_up_;
  Instant last_fetch_;
  Offset leader_end_at_last_fetch_ = 0;
  // Since when a fetch has been waiting at the leader. That time is not the follower's.
  std::optional<Instant> waiting_since_;
};

}  // namespace lockstep::replication
