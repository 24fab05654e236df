// Fast leader election: which server the looking ones agree to follow. It decides nothing about
// safety (discovery checks everything again); it makes the server with the best history lead, soon.
//
// Every looking server tells its round and its vote to all voters. Rounds are logical clocks: a
// higher round restarts the count. Within a round a server adopts every better vote it hears. When
// a quorum votes alike and no better vote comes for a while, that is the leader. A server that
// comes late joins an established ensemble by a quorum of its members.
//
// Notifications are states: losing, repeating or reordering some of them only costs time.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/container/btree_map.h"
#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/base/timer_table.h"
#include "core/zab/io.h"
#include "core/zab/own_state.h"

namespace lockstep::zab {

class Election {
 public:
  // `round` is that of the last election this server took part in.
  Election(const OwnState& own, uint64_t round) : own_(own), round_(round) {}

  // Starts a new round with a vote for this server. The history must not change from here on.
  void Start(Instant now, Output* output);

  // Both may decide; then the election is over, and vote().leader is the one.
  void OnNotification(Instant now, ServerId from, const Notification& n, Output* output);
  void OnWake(Instant now, Output* output);
  // A looking server hears us at once when it can be reached again.
  void OnLinkUp(ServerId server, Output* output) const;

  bool decided() const { return decided_; }
  uint64_t round() const { return round_; }
  const Vote& vote() const { return vote_; }
  Instant next_deadline() const { return timers_.next(); }

 private:
  enum class Timer { kResend, kFinalize, kCount };

  // Whether `a` should lead rather than `b`.
  bool Better(const Vote& a, const Vote& b) const;
  Vote OwnVote() const;
  void OnLookingVote(Instant now, ServerId from, const Notification& n, Output* output);
  void OnEstablishedVote(Instant now, ServerId from, const Notification& n, Output* output);
  void CountVotes(Instant now);
  void Decide(ServerId leader);
  void SendTo(ServerId to, Output* output) const;
  void Broadcast(Instant now, Output* output);

  const OwnState& own_;
  uint64_t round_;
  Vote vote_;
  Vote finalizing_;  // the vote that Timer::kFinalize runs for
  bool decided_ = false;
  TimerTable<Timer> timers_;
  Duration resend_interval_;
  // The vote of each server in this round, our own included.
  absl::btree_map<ServerId, Vote> votes_;
  // The last word of each server that already follows or leads, from whatever round.
  absl::btree_map<ServerId, Notification> established_;
};

}  // namespace lockstep::zab
