// One participant of the ensemble: leader election, discovery, synchronization and broadcast
// (seeds: Zab 1.0). docs/zab.md tells each phase, step by step.
//
// A machine is a value. It reads no clock, no socket, no disk, no random device and no global. You
// give it one input and the time; it changes itself and appends to its output. Same state, same
// input, same time: same output, byte for byte.
//
// Durability is an input, not an ordering promise: what depends on a write is sent in the step that
// receives Persisted with its id, never before.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/ids.h"
#include "core/base/quorum.h"
#include "core/base/time.h"
#include "core/zab/io.h"
#include "core/zab/rules.h"

namespace lockstep::zab {

struct PeerOptions {
  ServerId server;
  std::vector<ServerId> voters;

  Duration init_timeout = Seconds(20);  // initLimit ticks
  Duration sync_timeout = Seconds(10);  // syncLimit ticks
  Duration ping_interval = Seconds(1);  // half a tick
  // Silence after the best vote has a quorum, before it is believed.
  Duration finalize_wait = Milliseconds(100);
  // A looking server repeats its vote after min, then twice as long each time, up to max.
  Duration notification_interval_min = Milliseconds(200);
  Duration notification_interval_max = Seconds(2);
  // A follower whose leader refuses the channel tries again after this.
  Duration channel_retry = Milliseconds(50);
  // So often at most; then the election is held again.
  uint32_t channel_attempts_max = 20;

  uint32_t proposals_in_flight_max = 10'000;  // proposed and not committed
  uint64_t window_bytes = 64 << 20;           // of transactions kept for DIFF
  uint32_t window_transactions = 100'000;     // likewise, a count
  uint32_t counter_max = 0xffff'ffff;         // of a zxid, inclusive; then a new epoch begins
  uint64_t incarnation = 1;                   // not 0; differs between any two starts of the server

  Rules rules;
};

class Peer {
 public:
  Peer(const PeerOptions& options, DurableState durable);
  ~Peer();

  // The only mutator. The first input starts the election.
  void Step(Instant now, const Input& input, Output* output);
  Instant next_deadline() const;

  ServerState state() const;
  ServerId server() const;
  // Whom this server follows or is (leading); 0 while looking.
  ServerId leader() const;
  // Leading: a quorum has acknowledged NEWLEADER. Following: UPTODATE was received.
  bool established() const;
  // Leading, established, and room for one more proposal in flight and in the epoch.
  bool CanPropose() const;

  Epoch accepted_epoch() const;
  Epoch current_epoch() const;
  Zxid last_zxid() const;       // of the history, durable or not
  Zxid durable_zxid() const;    // of the durable part of the history
  Zxid committed_zxid() const;  // known to be committed
  Zxid delivered_zxid() const;  // handed to the application
  Zxid base_zxid() const;       // the transaction before the first one still in memory
  uint64_t round() const;       // of the election
  // Leading: learners that are synchronized (have acknowledged NEWLEADER).
  size_t synced_learner_count() const;
  size_t learner_count() const;
  // Leading: those of them that are not counted, since they may have lost their disks.
  size_t novice_count() const;
  // The transactions still in memory, ascending: for checkers.
  const std::deque<Transaction>& window() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::zab
