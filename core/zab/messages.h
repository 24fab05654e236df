// The messages of Zab, with ZooKeeper's names. docs/zab.md has the table: from, to, phase, handler.
//
// Two kinds travel differently. A Notification is a state, not an event: only the newest one of
// each sender matters, and any may be lost, repeated or late. All others travel on a channel, a
// connection that a learner opens to its leader: in order, none lost before the channel breaks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/ids.h"
#include "core/base/zxid.h"

namespace lockstep::zab {

enum class ServerState : uint8_t { kLooking = 0, kFollowing = 1, kLeading = 2, kObserving = 3 };
const char* ToString(ServerState state);

// Whom a server wants to lead, and that server's history when it was proposed. Ordered as
// FastLeaderElection does: current epoch, last zxid, id.
struct Vote {
  Epoch current_epoch;
  Zxid last_zxid;
  ServerId leader;

  constexpr auto operator<=>(const Vote&) const = default;
  std::string ToString() const;
};

// Fast leader election: "this is my state, my round and my vote".
struct Notification {
  ServerState state = ServerState::kLooking;
  uint64_t round = 0;  // the sender's logical clock; a count of elections, not an epoch
  Vote vote;
  // What a server that may have lost its disk must learn before it votes again (docs/zab.md, "An
  // empty disk").
  uint64_t novice = 0;        // the sender's incarnation if it is one; else 0
  uint64_t heard = 0;         // the last of these that the sender has heard from the receiver
  Epoch accepted_epoch = {};  // of the sender
};

// Learner -> leader, first on a channel. CEPOCH in the paper.
struct FollowerInfo {
  ServerId server;
  Epoch accepted_epoch;
  bool votes = true;  // not a novice
};

// Leader -> learner: the new epoch. NEWEPOCH in the paper.
struct LeaderInfo {
  Epoch epoch;
  bool learns = false;  // the learner is not counted: it must not take up the epoch as its current
};

// Learner -> leader: the promise not to accept anything of an older epoch, once it is durable.
// ACK-E.
struct AckEpoch {
  // Absent if the learner had already accepted this very epoch: it keeps the channel and will be
  // synchronized, but its promise was given before and does not count again.
  std::optional<Epoch> current_epoch;
  // The last durable transaction of the learner.
  Zxid last_zxid;
  // The last zxid of each epoch in the learner's history that it can still tell, ascending; the
  // last one is last_zxid. From it the leader finds the exact point up to which the two histories
  // are equal. ZooKeeper sends last_zxid alone and has to guess (ZOOKEEPER-1154).
  std::vector<Zxid> epoch_ends;
};

// Leader -> learner, start of synchronization: your history is a prefix of mine; what is missing
// follows as proposals.
struct Diff {
  Zxid last_zxid;  // the leader's last transaction, up to which the proposals go
};

// Leader -> learner, start of synchronization: remove what comes after `to`; then as Diff.
struct Trunc {
  Zxid to;
  Zxid last_zxid;
};

// Leader -> learner, start of synchronization: drop your whole history and state; a snapshot of the
// state after `zxid` follows in chunks, then as Diff.
struct Snap {
  Zxid zxid;
  Zxid last_zxid;
};

// A piece of the snapshot file, in order.
struct SnapChunk {
  Bytes data;
  bool last = false;
};

// Leader -> learner: end of the initial history of `epoch`. NEWLEADER.
struct NewLeader {
  Epoch epoch;
};

// Learner -> leader: the initial history and then the current epoch are durable. ACK-LD.
struct AckNewLeader {
  Epoch epoch;
};

// Leader -> learner: the epoch is established; everything up to `committed` is. COMMIT-LD.
struct UpToDate {
  Zxid committed;
};

// Leader -> learner. `previous` is the zxid before this one in the leader's history, so that a
// learner can refuse a gap instead of storing it (rule R5).
struct Proposal {
  Zxid zxid;
  Zxid previous;
  Bytes transaction;
};

// Learner -> leader: everything up to and including `zxid` is durable. Cumulative, so that one
// journal sync needs one ack.
struct Ack {
  Zxid zxid;
};

// Leader -> learner: everything up to and including `zxid` is committed. Cumulative.
struct Commit {
  Zxid zxid;
};

// Leader -> learner every half tick, and the learner's answer. Both directions carry what the layer
// above wants to say with it (learner -> leader: which sessions were heard from).
struct Ping {
  Bytes payload;
};

// Learner -> leader and leader -> learner: messages of the layer above, in order with the rest of
// the channel. Zab does not look inside.
struct Request {
  Bytes payload;
};
struct Reply {
  Bytes payload;
};

using Message =
    std::variant<FollowerInfo, LeaderInfo, AckEpoch, Diff, Trunc, Snap, SnapChunk, NewLeader,
                 AckNewLeader, UpToDate, Proposal, Ack, Commit, Ping, Request, Reply>;

// "Proposal <3,7>": for traces and test failures.
std::string ToString(const Message& message);
std::string ToString(const Notification& notification);

}  // namespace lockstep::zab
