#include "core/replication/follower_progress.h"

#include <algorithm>

namespace lockstep::replication {

void FollowerProgress::OnFetch(Instant now, BrokerEpoch incarnation, Offset fetch_offset,
                               Offset leader_end) {
  std::optional<Instant> caught_up;
  if (fetch_offset >= leader_end) {
    caught_up = now;
  } else if (known() && incarnation == incarnation_ && fetch_offset >= leader_end_at_last_fetch_) {
    caught_up = last_fetch_;
  }
  if (caught_up) last_caught_up_ = std::max(last_caught_up_.value_or(*caught_up), *caught_up);
  incarnation_ = incarnation;
  log_end_ = fetch_offset;
  last_fetch_ = now;
  leader_end_at_last_fetch_ = leader_end;
  waiting_since_ = now;
}

void FollowerProgress::OnAnswered(Instant now) {
  if (!waiting_since_) return;
  const Duration waited = now - *waiting_since_;
  waiting_since_.reset();
  last_fetch_ = last_fetch_ + waited;
  if (last_caught_up_) last_caught_up_ = *last_caught_up_ + waited;
}

std::optional<Instant> FollowerProgress::in_sync_until(Offset leader_end,
                                                       Duration keep_in_sync_time) const {
  if (known() && log_end_ == leader_end) return Instant::Never();
  if (!last_caught_up_) return std::nullopt;
  const Instant until = *last_caught_up_ + keep_in_sync_time;
  // Its clock stands still from when its fetch came, but for no longer than it has to keep in sync
  // itself: an answer that never leaves (a read that hangs) must not keep it in the ISR for ever.
  if (waiting_since_ && *waiting_since_ <= until) return until + keep_in_sync_time;
  return until;
}

bool FollowerProgress::CaughtUp(Instant now, Offset leader_end, Duration keep_in_sync_time) const {
  const auto until = in_sync_until(leader_end, keep_in_sync_time);
  return until && now <= *until;
}

}  // namespace lockstep::replication
