// What a machine did, for people, metrics, the simulator's trace and its probes. Events never
// change what any machine does; leaving them all out changes nothing but what can be seen.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/ids.h"
#include "core/base/zxid.h"

namespace lockstep {

enum class EventKind : uint8_t {
  // Zab. Names of phases follow ZooKeeper's QuorumPeer.
  kLooking,         // back to leader election; reason says why
  kFollowing,       // follows `peer`
  kLeading,         // the election chose this server
  kElectionRound,   // detail = round (logical clock)
  kEpochProposed,   // leader: LEADERINFO(epoch of zxid) leaves; discovery has a quorum
  kEpochAccepted,   // follower: accepted epoch is durable
  kSyncDiff,        // leader: learner `peer` gets DIFF; detail = number of transactions
  kSyncTrunc,       // leader: learner `peer` gets TRUNC and nothing after; zxid = cut
  kSyncTruncDiff,   // leader: learner `peer` gets TRUNC and then transactions
  kSyncSnap,        // leader: learner `peer` gets a snapshot at zxid
  kNewLeaderAcked,  // follower: history and current epoch are durable
  kEstablished,     // leader: a quorum has acknowledged NEWLEADER; broadcast begins
  kUpToDate,        // follower: may serve
  kTruncated,       // own history was cut to zxid
  kEpochExhausted,  // leader: the counter of this epoch is used up; a new epoch will begin
  kLearnsOnly,      // follower: has an empty disk, or had; not counted until `peer`s have answered
  kVoteRegained,    // follower: knows all that it may have promised, and is counted again
  kLearnerDropped,  // leader: closes the channel of `peer`; reason says why
  kIgnored,         // a message or input had no effect; reason says why
  // Storage.
  kRecovered,         // zxid = last transaction in the journal; detail = number read
  kTornTail,          // recovery cut an incomplete record; detail = bytes cut
  kSegmentRolled,     // detail = number of the new segment
  kSegmentDropped,    // detail = number of the dropped segment
  kSnapshotWritten,   // zxid; detail = bytes
  kSnapshotReceived,  // installed from the leader; zxid
  kSyncCompleted,     // one journal sync; detail = number of records it covered
  // Coordination.
  kSessionCreated,     // detail = session id
  kSessionClosed,      // detail = session id; reason = closed or expired
  kSessionMoved,       // detail = session id; `peer` = its new server
  kSessionExpired,     // leader decided; detail = session id
  kConnectionRefused,  // reason says why
  kConnectionClosed,   // reason says why
  kWatchFired,         // detail = number of watchers
  kBackpressure,       // a connection was paused; detail = connection
  // Partition replication. `peer` is a broker, if that is not 0; `text` is topic-partition.
  kPartitionLeading,      // detail = leader epoch
  kPartitionFollowing,    // `peer` leads; detail = leader epoch
  kPartitionResigned,     // detail = leader epoch that it knew
  kHistoryDiverged,       // leader: `peer`'s history parts from ours; detail = where ours ends
  kLogTruncated,          // follower: detail = the new log end; reason says why
  kLogRestarted,          // follower: detail = where the log begins anew; reason says why
  kFetchRefused,          // leader: `peer` got an error; reason says which
  kFetchFailed,           // follower: got an error or bad batches; reason says which
  kIsrShrink,             // wanted: without `peer` (of several, the first); detail = the new size
  kIsrExpand,             // wanted: with `peer`; detail = the new size
  kIsrChanged,            // detail = the version that was applied
  kIsrChangeFailed,       // refused or unknown: reason says which; detail = the version it was from
  kProducesFailed,        // leader: waiting produces were given up; detail = how many
  kBrokerRegistered,      // detail = the incarnation
  kBrokerUnregistered,    // the session is over; detail = the incarnation
  kBrokerFenced,          // the session may be over: leaderships are given up
  kElected,               // this broker leads a partition; detail = leader epoch
  kElectionLost,          // refused or unknown: reason says which; detail = leader epoch
  kUncleanElection,       // records may be lost; detail = leader epoch
  kHandedOver,            // to the preferred replica `peer`; detail = leader epoch
  kReassignmentStep,      // reason says which; detail = partition
  kReplicaOpened,         // detail = partition
  kReplicaClosed,         // its log is deleted; detail = partition
  kReplicaGivenUp,        // its log is damaged, and others have it: it begins anew; likewise
  kStateChangeQueueFull,  // of `peer`; detail = requests that were dropped
  kStateChangeIgnored,    // reason says why; detail = partition
  kTopicRemoved,          // its znodes are gone; `text` = its name
  kZnodeUnreadable,       // `text` = its path: nobody but a broker should have written it
  // Consumer groups.
  kGroupsLoaded,        // of the partition in `text`; detail = how many
  kGroupGeneration,     // of the group in `text`: all have joined; detail = the generation
  kGroupMemberExpired,  // `text` = group/member; detail = the group's generation
  // The whole server.
  kDigestCompared,  // leader: `peer` has the same state as of zxid
  kDigestMismatch,  // `peer` has another state as of zxid
  kNotServing,      // detail = seconds without a leader or a quorum so far; text = who is reached
  // Partition logs; `text` = the log's directory.
  kLogDamaged,  // a file is not what was written; detail = the log's number; `text` = what is wrong
  kLogCut,      // recovery cut what was not written as a whole; detail = bytes
  kLogStray,    // a directory in log.dirs belongs to no partition of this broker
  kCount
};

// A stable name, as in `kSyncDiff` -> "sync-diff": printed in traces and used by probes.
const char* EventName(EventKind kind);

struct Event {
  EventKind kind = EventKind::kCount;
  ServerId peer;            // the other server, or 0
  Zxid zxid;                // a position, or <0,0>
  uint64_t detail = 0;      // a number; its meaning stands beside the kind
  const char* reason = "";  // a string literal
  std::string text;         // what a literal cannot say; for people alone

  std::string ToString() const;
};

}  // namespace lockstep
