// The phases of Zab as a follower sees them: it finds the leader's channel, promises the epoch,
// takes over the leader's history, acknowledges it, and then logs proposals and delivers commits.
//
// Everything it says is durable when it says it: the Persisted of a write triggers the message.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/base/timer_table.h"
#include "core/zab/io.h"
#include "core/zab/own_state.h"

namespace lockstep::zab {

class Follower {
 public:
  enum class Phase : uint8_t {
    kConnecting,       // no channel yet, or it is being opened
    kDiscovery,        // FOLLOWERINFO is sent
    kPromising,        // LEADERINFO has come, the accepted epoch is being written
    kSynchronization,  // ACKEPOCH is sent; the leader's history comes in
    kAcknowledging,    // NEWLEADER has come; history and current epoch are being written
    kAcknowledged,     // ACK of NEWLEADER is sent
    kBroadcast,        // UPTODATE has come
  };

  Follower(OwnState* own, ServerId leader) : own_(*own), leader_(leader) {}

  void Start(Instant now, Output* output);
  void OnChannelOpened(Instant now, ConnectionId channel, Output* output);
  void OnChannelClosed(Instant now, ConnectionId channel, Output* output);
  void OnReceived(Instant now, ConnectionId channel, const Message& message, Output* output);
  void OnPersisted(Output* output);
  // The leader looks for a leader itself. It will refuse us until it leads again, if it ever does.
  void OnLeaderLooking();
  void OnWake(Instant now, Output* output);
  void SendRequest(const Bytes& payload, Output* output);
  void AnswerPing(const Bytes& payload, Output* output);
  // Every other server has told what it has promised, up to `promised`: this server cannot break
  // what it may have promised on a disk that is lost. Requires: established(), learns().
  void RegainVote(Epoch promised, Output* output);

  ServerId leader() const { return leader_; }
  ConnectionId channel() const { return channel_; }
  Phase phase() const { return phase_; }
  Epoch epoch() const { return epoch_; }  // of the leader; 0 before LEADERINFO
  bool established() const { return phase_ == Phase::kBroadcast; }
  // The leader does not count this server.
  bool learns() const { return learns_; }
  // Why this server must look for a leader again; null while it need not.
  const char* abandoned() const { return abandoned_; }
  Instant next_deadline() const { return timers_.next(); }

 private:
  enum class Timer {
    kRetry,  // open the channel again
    kInit,   // to be up to date by then
    kSync,   // to hear from the leader by then
    kCount,
  };

  void OpenChannel(Output* output);
  void Abandon(const char* reason) { abandoned_ = reason; }
  void Send(Message message, Output* output) {
    output->sends.push_back({channel_, std::move(message)});
  }

  void On(const LeaderInfo& message, Output* output);
  void On(const Diff& message, Output* output);
  void On(const Trunc& message, Output* output);
  void On(const Snap& message, Output* output);
  void On(const SnapChunk& message, Output* output);
  void On(const Proposal& message, Output* output);
  void On(const NewLeader& message, Output* output);
  void On(const UpToDate& message, Output* output);
  void On(const Commit& message, Output* output);
  void On(const Ping& message, Output* output);
  void On(const Reply& message, Output* output);
  // Only learners send these.
  template <typename OfALearner>
  void On(const OfALearner&, Output*) {
    Abandon("the leader sent a learner's message");
  }

  void SendAckEpoch(bool counts, Output* output);
  void BeginSynchronization(Output* output);
  void MaybeAckNewLeader(Output* output);
  void MaybeAck(Output* output);

  OwnState& own_;
  const ServerId leader_;
  Phase phase_ = Phase::kConnecting;
  ConnectionId channel_;
  uint64_t attempts_ = 0;
  Epoch epoch_;
  bool learns_ = false;  // the leader does not count us
  const char* abandoned_ = nullptr;
  TimerTable<Timer> timers_;
  Instant now_;  // of the step under way

  WriteId accepted_epoch_write_;  // kPromising
  bool sync_begun_ = false;       // DIFF, TRUNC or SNAP has come
  struct Receiving {              // a snapshot, between SNAP and its last chunk
    Zxid zxid;
    bool first = true;
  };
  std::optional<Receiving> receiving_;
  WriteId current_epoch_write_;  // kAcknowledging; regains_: of the vote
  bool regains_ = false;         // the vote is being written
  Zxid acked_;                   // by the last ACK of this channel
};

}  // namespace lockstep::zab
