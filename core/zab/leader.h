// The phases of Zab as a leader sees them: it collects a quorum and proposes an epoch, waits for a
// quorum of promises, synchronizes each learner with its own history, and, once a quorum has
// acknowledged that, broadcasts. It counts itself as one of its followers, by its own durable
// writes.
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

class Leader {
 public:
  enum class Phase : uint8_t {
    kDiscovery,        // waiting for a quorum of FOLLOWERINFO, then of ACKEPOCH
    kSynchronization,  // waiting for a quorum of ACK of NEWLEADER
    kBroadcast,        // established
  };

  explicit Leader(OwnState* own)
      : own_(*own), bootstraps_(own->history.last() == Zxid{}), counts_self_(!own->novice()) {}

  void Start(Instant now, Output* output);
  void OnChannelOpened(Instant now, ConnectionId channel);
  void OnChannelClosed(ConnectionId channel, Output* output);
  void OnReceived(Instant now, ConnectionId channel, const Message& message, Output* output);
  void OnPersisted(Instant now, Output* output);
  // A looking server votes for itself, and is ahead of us.
  void OnBetterVote();
  void OnWake(Instant now, Output* output);
  void Propose(Bytes body, Output* output);
  void SendReply(ServerId to, const Bytes& payload, Output* output);
  void SendPing(ServerId to, const Bytes& payload, Output* output);
  void OnSnapshotChunk(Instant now, ConnectionId channel, const Bytes& data, bool last,
                       Output* output);
  // `server` has come back, perhaps with another disk: what its former self said here is void.
  void OnReborn(ServerId server, Output* output);
  // Closes every channel, for the end of the reign.
  void CloseAll(Output* output);

  Phase phase() const { return phase_; }
  Epoch epoch() const { return epoch_; }  // 0 before a quorum of FOLLOWERINFO
  bool established() const { return phase_ == Phase::kBroadcast; }
  bool CanPropose() const;
  // Why this server must give up leading; null while it need not.
  const char* abdicated() const { return abdicated_; }
  Instant next_deadline() const { return timers_.next(); }
  size_t learner_count() const { return learners_.size(); }
  size_t synced_learner_count() const;
  size_t novice_count() const;
  // The lowest zxid after which the window is needed to finish a snapshot that is being sent.
  std::optional<Zxid> window_needed_after() const;

 private:
  enum class Timer {
    kInit,  // to be established by then
    kPing,
    kCount,
  };
  enum class LearnerPhase : uint8_t {
    kConnected,     // FOLLOWERINFO has not come
    kKnown,         // FOLLOWERINFO has come
    kEpochSent,     // LEADERINFO is sent
    kPromised,      // ACKEPOCH has come; synchronization has not begun
    kSnapshot,      // a snapshot is being sent; proposals wait in the window
    kSent,          // history and NEWLEADER are sent; gets every proposal from here on
    kAcknowledged,  // NEWLEADER is acknowledged
    kUpToDate,      // UPTODATE is sent; gets commits
  };
  // What we know of one learner. Dies with its channel.
  struct Learner {
    ServerId server;  // 0 before FOLLOWERINFO
    LearnerPhase phase = LearnerPhase::kConnected;
    Epoch accepted_epoch;          // from FOLLOWERINFO
    bool votes = true;             // from FOLLOWERINFO
    bool counts = true;            // in quorums
    bool promised = false;         // its ACKEPOCH counts
    std::vector<Zxid> epoch_ends;  // from ACKEPOCH, until synchronization begins
    Zxid snapshot;                 // kSnapshot: the state it will have
    Zxid decided_at;               // kSnapshot: our last transaction when we decided on it
    Zxid sent;                     // the last proposal that was sent
    Zxid acked;                    // everything up to here is durable there
    Instant last_heard;
    // Everything up to `mark` had been sent at `marked_at`; that it is still not acked long after
    // means that the learner's disk is stuck, however promptly it answers pings.
    Zxid mark;
    Instant marked_at;
  };
  using Learners = absl::btree_map<ConnectionId, Learner>;

  void Abdicate(const char* reason) { abdicated_ = reason; }
  void Send(ConnectionId channel, Message message, Output* output) {
    output->sends.push_back({channel, std::move(message)});
  }
  // Forgets the learner and closes its channel.
  void Drop(ConnectionId channel, const char* reason, Output* output);
  Learner* Find(ServerId server);
  // As a member of quorums, and null if it is none.
  Learner* FindCounted(ServerId server);
  bool counts_self() const { return counts_self_ || bootstraps_; }

  void On(ConnectionId channel, Learner& learner, const FollowerInfo& message, Output* output);
  void On(ConnectionId channel, Learner& learner, const AckEpoch& message, Output* output);
  void On(ConnectionId channel, Learner& learner, const AckNewLeader& message, Output* output);
  void On(ConnectionId channel, Learner& learner, const Ack& message, Output* output);
  void On(ConnectionId channel, Learner& learner, const Ping& message, Output* output);
  void On(ConnectionId channel, Learner& learner, const Request& message, Output* output);
  // Only leaders send these.
  template <typename OfALeader>
  void On(ConnectionId channel, Learner&, const OfALeader&, Output* output) {
    Drop(channel, "sent a leader's message", output);
  }

  void MaybeProposeEpoch(Output* output);
  void SendLeaderInfo(ConnectionId channel, Learner& learner, Output* output);
  void MaybeBeginSynchronization(Output* output);
  void Synchronize(ConnectionId channel, Learner& learner, Output* output);
  void SendHistory(ConnectionId channel, Learner& learner, Zxid after, Output* output);
  void MaybeEstablish(Output* output);
  void SendUpToDate(ConnectionId channel, Learner& learner, Output* output);
  void MaybeCommit(Output* output);
  void MaybeEndEpoch(Output* output);
  void CheckProgress(Instant now, Output* output);
  bool HoldsTooMuch(const Learner& learner) const;

  OwnState& own_;
  // There is no history here: who has none may make the ensemble's first quorum with us. Else who
  // has none has lost it, or comes late.
  const bool bootstraps_;
  const bool counts_self_;  // we remember
  Phase phase_ = Phase::kDiscovery;
  Epoch epoch_;
  const char* abdicated_ = nullptr;
  TimerTable<Timer> timers_;
  Instant now_;  // of the step under way

  Learners learners_;
  std::optional<WriteId> accepted_epoch_write_;  // set when the epoch is chosen
  bool epoch_sent_ = false;                      // LEADERINFO may be sent
  std::optional<WriteId> current_epoch_write_;   // set when synchronization begins
  Zxid initial_last_;                            // end of the initial history of the epoch
  // As Learner::mark, of our own disk.
  Zxid own_mark_;
  Instant own_marked_at_;
};

}  // namespace lockstep::zab
