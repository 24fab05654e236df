#include "core/base/event.h"

#include "core/base/check.h"

namespace lockstep {

const char* EventName(EventKind kind) {
  switch (kind) {
    case EventKind::kLooking:
      return "looking";
    case EventKind::kFollowing:
      return "following";
    case EventKind::kLeading:
      return "leading";
    case EventKind::kElectionRound:
      return "election-round";
    case EventKind::kEpochProposed:
      return "epoch-proposed";
    case EventKind::kEpochAccepted:
      return "epoch-accepted";
    case EventKind::kSyncDiff:
      return "sync-diff";
    case EventKind::kSyncTrunc:
      return "sync-trunc";
    case EventKind::kSyncTruncDiff:
      return "sync-trunc-diff";
    case EventKind::kSyncSnap:
      return "sync-snap";
    case EventKind::kNewLeaderAcked:
      return "new-leader-acked";
    case EventKind::kEstablished:
      return "established";
    case EventKind::kUpToDate:
      return "up-to-date";
    case EventKind::kTruncated:
      return "truncated";
    case EventKind::kEpochExhausted:
      return "epoch-exhausted";
    case EventKind::kLearnsOnly:
      return "learns-only";
    case EventKind::kVoteRegained:
      return "vote-regained";
    case EventKind::kLearnerDropped:
      return "learner-dropped";
    case EventKind::kIgnored:
      return "ignored";
    case EventKind::kRecovered:
      return "recovered";
    case EventKind::kTornTail:
      return "torn-tail";
    case EventKind::kSegmentRolled:
      return "segment-rolled";
    case EventKind::kSegmentDropped:
      return "segment-dropped";
    case EventKind::kSnapshotWritten:
      return "snapshot-written";
    case EventKind::kSnapshotReceived:
      return "snapshot-received";
    case EventKind::kLogDamaged:
      return "log-damaged";
    case EventKind::kLogCut:
      return "log-cut";
    case EventKind::kLogStray:
      return "log-stray";
    case EventKind::kSyncCompleted:
      return "sync-completed";
    case EventKind::kSessionCreated:
      return "session-created";
    case EventKind::kSessionClosed:
      return "session-closed";
    case EventKind::kSessionMoved:
      return "session-moved";
    case EventKind::kSessionExpired:
      return "session-expired";
    case EventKind::kConnectionRefused:
      return "connection-refused";
    case EventKind::kConnectionClosed:
      return "connection-closed";
    case EventKind::kWatchFired:
      return "watch-fired";
    case EventKind::kBackpressure:
      return "backpressure";
    case EventKind::kPartitionLeading:
      return "partition-leading";
    case EventKind::kPartitionFollowing:
      return "partition-following";
    case EventKind::kPartitionResigned:
      return "partition-resigned";
    case EventKind::kHistoryDiverged:
      return "history-diverged";
    case EventKind::kLogTruncated:
      return "log-truncated";
    case EventKind::kLogRestarted:
      return "log-restarted";
    case EventKind::kFetchRefused:
      return "fetch-refused";
    case EventKind::kFetchFailed:
      return "fetch-failed";
    case EventKind::kIsrShrink:
      return "isr-shrink";
    case EventKind::kIsrExpand:
      return "isr-expand";
    case EventKind::kIsrChanged:
      return "isr-changed";
    case EventKind::kIsrChangeFailed:
      return "isr-change-failed";
    case EventKind::kProducesFailed:
      return "produces-failed";
    case EventKind::kGroupsLoaded:
      return "groups-loaded";
    case EventKind::kGroupGeneration:
      return "group-generation";
    case EventKind::kGroupMemberExpired:
      return "group-member-expired";
    case EventKind::kDigestCompared:
      return "digest-compared";
    case EventKind::kDigestMismatch:
      return "digest-mismatch";
    case EventKind::kNotServing:
      return "not-serving";
    case EventKind::kBrokerRegistered:
      return "broker-registered";
    case EventKind::kBrokerUnregistered:
      return "broker-unregistered";
    case EventKind::kBrokerFenced:
      return "broker-fenced";
    case EventKind::kElected:
      return "elected";
    case EventKind::kElectionLost:
      return "election-lost";
    case EventKind::kUncleanElection:
      return "unclean-election";
    case EventKind::kHandedOver:
      return "handed-over";
    case EventKind::kReassignmentStep:
      return "reassignment-step";
    case EventKind::kReplicaOpened:
      return "replica-opened";
    case EventKind::kReplicaClosed:
      return "replica-closed";
    case EventKind::kReplicaGivenUp:
      return "replica-given-up";
    case EventKind::kStateChangeQueueFull:
      return "state-change-queue-full";
    case EventKind::kStateChangeIgnored:
      return "state-change-ignored";
    case EventKind::kTopicRemoved:
      return "topic-removed";
    case EventKind::kZnodeUnreadable:
      return "znode-unreadable";
    case EventKind::kCount:
      break;
  }
  LS_UNREACHABLE();
}

std::string Event::ToString() const {
  std::string line = EventName(kind);
  if (peer) line += " peer=" + peer.ToString();
  if (zxid != Zxid{}) line += " zxid=" + zxid.ToString();
  if (detail != 0) line += " detail=" + std::to_string(detail);
  if (*reason != '\0') line += std::string(" (") + reason + ")";
  if (!text.empty()) line += " (" + text + ")";
  return line;
}

}  // namespace lockstep
