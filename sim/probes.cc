#include "sim/probes.h"

#include <algorithm>
#include <string_view>

#include "core/base/check.h"
#include "sim/plan.h"

namespace lockstep::sim {
namespace {

using Kinds = std::vector<FaultKind>;

Kinds Partitions() {
  return {FaultKind::kIsolate, FaultKind::kIsolateOneWay, FaultKind::kSplit,
          FaultKind::kBridge,  FaultKind::kCutLink,       FaultKind::kIsolateOnEvent};
}

Kinds Pauses() { return {FaultKind::kPause, FaultKind::kPausePartitionLeader}; }

Kinds PowerLosses() {
  return {FaultKind::kPowerLoss,           FaultKind::kPowerLossAll, FaultKind::kKillLeader,
          FaultKind::kCrashInStep,         FaultKind::kCrashOnEvent, FaultKind::kDiskError,
          FaultKind::kKillPartitionLeader, FaultKind::kDiskReplaced};
}

Kinds Join(Kinds a, const Kinds& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Kinds Deaths() { return Join(PowerLosses(), {FaultKind::kKill, FaultKind::kStopCleanly}); }

// Whoever is away for long, in whatever way.
Kinds Absences() { return Join(Join(Deaths(), Partitions()), Pauses()); }

// What leads to an event of the machines, where that is more than work.
ProbeInfo OfEvent(EventKind kind) {
  ProbeInfo info{.name = EventName(kind), .says = "an event of the machines"};
  info.brokers = (kind >= EventKind::kPartitionLeading && kind <= EventKind::kGroupMemberExpired) ||
                 (kind >= EventKind::kLogDamaged && kind <= EventKind::kLogStray);
  switch (kind) {
    case EventKind::kSyncTrunc:
    case EventKind::kSyncTruncDiff:
    case EventKind::kTruncated:
      info.faults = Absences();
      break;
    case EventKind::kUncleanElection:
    case EventKind::kStateChangeQueueFull:
    case EventKind::kStateChangeIgnored:
      info.faults = Deaths();
      break;
    case EventKind::kTornTail:
    case EventKind::kLogCut:
      info.faults = PowerLosses();
      break;
    case EventKind::kLogDamaged:
    case EventKind::kReplicaGivenUp:
      info.faults = {FaultKind::kBitRot, FaultKind::kLatentError, FaultKind::kMisdirectedWrite,
                     FaultKind::kLyingSync};
      break;
    // Nobody else writes into log.dirs, or under /brokers.
    case EventKind::kLogStray:
    case EventKind::kZnodeUnreadable:
    case EventKind::kDigestMismatch:
      info.is_alarm = true;
      break;
    default:
      break;
  }
  return info;
}

ProbeInfo Named(Probe probe) {
  switch (probe) {
    case Probe::kLeaderDiedInDiscovery:
      return {"leader-died-in-discovery", "a leader dies before its epoch is accepted by a quorum"};
    case Probe::kLeaderDiedInSynchronization:
      return {"leader-died-in-synchronization", "a leader dies before it is established"};
    case Probe::kLeaderDiedInBroadcast:
      return {"leader-died-in-broadcast", "an established leader dies"};
    case Probe::kFollowerDiedInSynchronization:
      return {"follower-died-in-synchronization", "a follower dies before UPTODATE"};
    case Probe::kDiedWithinStep:
      return {"died-within-step", "a server dies with a part of a step's outputs carried out"};
    case Probe::kDiedInRecovery:
      return {"died-in-recovery", "a server dies before it has read its directory"};
    case Probe::kUnsyncedLost:
      return {"unsynced-lost", "a power loss finds unsynced changes"};
    case Probe::kStoppedOnDiskError:
      return {"stopped-on-disk-error", "a server stops itself because its disk failed or is full"};
    case Probe::kDamageFound:
      return {"damage-found", "a server refuses to start, since its disk is damaged"};
    case Probe::kDiskLost:
      return {"disk-lost", "a voter comes back with an empty disk"};
    case Probe::kUpgraded:
      return {"upgraded", "a server of the release before comes back as one of this release"};
    case Probe::kForgot:
      return {"forgot", "a server comes back without something that it told, which others have"};
    case Probe::kRestartedFromDisk:
      return {"restarted", "a server recovers what it had before"};
    case Probe::kPausedBeyondSession:
      return {"paused-beyond-session", "a server stands still for longer than a session timeout"};
    case Probe::kTwoLeaders:
      return {"two-leaders", "a leader is established while another one believes that it is"};
    case Probe::kCommittedWhileSyncing:
      return {"committed-while-syncing",
              "transactions are committed while a learner is being synchronized"};
    case Probe::kSingleServer:
      return {"single-server", "an ensemble of one"};
    case Probe::kSevenServers:
      return {"seven-servers", "an ensemble of seven"};
    case Probe::kPartitionHealed:
      return {"partition-healed", "a partition ends"};
    case Probe::kConnectionReset:
      return {"connection-reset", "a connection is reset"};
    case Probe::kConnectionGaveUp:
      return {"connection-gave-up", "a sender closes a connection on which nothing arrives"};
    case Probe::kBytesCut:
      return {"bytes-cut", "bytes are delivered in pieces"};
    case Probe::kWriteAcknowledged:
      return {"write-acknowledged", "a client's write succeeds"};
    case Probe::kWriteRefused:
      return {"write-refused", "a client's write is refused"};
    case Probe::kWriteInDoubt:
      return {"write-in-doubt", "a connection breaks with writes in flight"};
    case Probe::kReadBehind:
      return {"read-behind", "a read returns a state that is not the newest"};
    case Probe::kWatchSet:
      return {"watch-set", "a client sets a watch"};
    case Probe::kWatchEvent:
      return {"watch-event", "a client gets an event"};
    case Probe::kWatchesRestored:
      return {"watches-restored", "a client takes its watches to another connection"};
    case Probe::kPersistentWatchEvent:
      return {"persistent-watch-event", "a client gets an event of a persistent watch"};
    case Probe::kPersistentWatchesRestored:
      return {"persistent-watches-restored",
              "a client takes its persistent watches to another connection"};
    case Probe::kWatchRemoved:
      return {"watch-removed", "a client removes a watch"};
    case Probe::kSessionKept:
      return {"session-kept", "a client takes its session to another server"};
    case Probe::kSessionLost:
      return {"session-lost", "a client is told that its session expired"};
    case Probe::kEphemeralExpired:
      return {"ephemeral-expired", "the end of a session deletes ephemeral nodes"};
    case Probe::kSequentialCreated:
      return {"sequential-created", "a sequential node is created"};
    case Probe::kUnknownOp:
      return {"unknown-op", "an unknown op code is answered"};
    case Probe::kMultiCommitted:
      return {"multi-committed", "a multi takes effect"};
    case Probe::kMultiRefused:
      return {"multi-refused", "a multi is refused because of one of its operations"};
    case Probe::kMultiInFlightWhenLeaderDied:
      return {"multi-in-flight-when-leader-died", "an established leader dies while a multi waits"};
    case Probe::kLivenessReached:
      return {"liveness-reached", "a healed ensemble serves and converges"};
    case Probe::kProduceAcknowledged:
      return {"produce-acknowledged", "a batch with acks=all is acknowledged"};
    case Probe::kProduceInDoubt:
      return {"produce-in-doubt", "a connection breaks with batches in flight"};
    case Probe::kNotEnoughReplicas:
      return {"not-enough-replicas", "a producer is told that too few replicas are in sync"};
    case Probe::kDuplicateStored:
      return {"duplicate-stored", "a batch that a plain producer sent again is stored twice"};
    case Probe::kRecordConsumed:
      return {"record-consumed", "a consumer reads a record"};
    case Probe::kOffsetsListed:
      return {"offsets-listed", "a consumer is told where a partition begins or ends"};
    case Probe::kConsumerOutOfRange:
      return {"consumer-out-of-range", "a consumer's offset is not there any more"};
    case Probe::kConsumerFenced:
      return {"consumer-fenced", "a consumer names an older leader epoch than the leader's"};
    case Probe::kConsumerAhead:
      return {"consumer-ahead",
              "a consumer names a leader epoch that the broker does not know yet"};
    case Probe::kGroupSynced:
      return {"group-synced", "a member of a group gets its assignment"};
    case Probe::kGroupRebalanced:
      return {"group-rebalanced", "a member is told to join again"};
    case Probe::kOffsetsCommitted:
      return {"offsets-committed", "a group's offset is committed"};
    case Probe::kOffsetsFetched:
      return {"offsets-fetched", "a member begins where its group has read up to"};
    case Probe::kCoordinatorMoved:
      return {"coordinator-moved", "a group finds its coordinator on another broker"};
    case Probe::kTopicDeleted:
      return {"topic-deleted", "a topic is deleted"};
    case Probe::kTopicRecreated:
      return {"topic-recreated", "a topic is made again under its name"};
    case Probe::kReassignmentAccepted:
      return {"reassignment-accepted", "replicas are to move"};
    case Probe::kReassignmentOutlivedLeader:
      return {"reassignment-outlived-leader",
              "a reassignment is completed by another leader than it began with"};
    case Probe::kLogStartMoved:
      return {"log-start-moved", "old records are removed"};
    case Probe::kSessionExpiredWhileLeading:
      return {"session-expired-while-leading", "the ensemble ends the session of a leader"};
    case Probe::kUncleanRestart:
      return {"unclean-restart", "a broker comes back and cannot say that it has kept everything"};
    case Probe::kDiskReplaced:
      return {"disk-replaced", "a broker comes back with an empty disk"};
    case Probe::kStoppedCleanly:
      return {"stopped-cleanly", "a server hands over what it has and stops"};
    case Probe::kBrokerIdTaken:
      return {"broker-id-taken", "a broker waits for its predecessor's session, and says so"};
    case Probe::kAllInSyncLost:
      return {"all-in-sync-lost", "nobody in an ISR has all that was committed any more"};
    case Probe::kUncleanLoss:
      return {"unclean-loss", "an unclean election loses committed records"};
    case Probe::kCount:
      break;
  }
  LS_UNREACHABLE();
}

Kinds FaultsOf(Probe probe) {
  switch (probe) {
    case Probe::kLeaderDiedInDiscovery:
    case Probe::kLeaderDiedInSynchronization:
    case Probe::kLeaderDiedInBroadcast:
    case Probe::kFollowerDiedInSynchronization:
    case Probe::kDiedInRecovery:
    case Probe::kRestartedFromDisk:
    case Probe::kMultiInFlightWhenLeaderDied:
    case Probe::kUncleanLoss:
    case Probe::kBrokerIdTaken:
      return Deaths();
    case Probe::kDiedWithinStep:
      return {FaultKind::kCrashInStep, FaultKind::kCrashOnEvent};
    case Probe::kUnsyncedLost:
      return PowerLosses();
    case Probe::kStoppedOnDiskError:
      return {FaultKind::kDiskError, FaultKind::kDiskFull};
    case Probe::kDiskLost:
      return {FaultKind::kDiskLost, FaultKind::kBitRot, FaultKind::kLatentError,
              FaultKind::kMisdirectedWrite, FaultKind::kLyingSync};
    case Probe::kDamageFound:
    case Probe::kForgot:
      return {FaultKind::kBitRot, FaultKind::kLatentError, FaultKind::kMisdirectedWrite,
              FaultKind::kLyingSync};
    case Probe::kPausedBeyondSession:
      return Pauses();
    case Probe::kTwoLeaders:
      return Join(Partitions(), Pauses());
    case Probe::kPartitionHealed:
      return Partitions();
    case Probe::kConnectionReset:
      return {FaultKind::kResetConnection};
    case Probe::kConnectionGaveUp:
    case Probe::kSessionLost:
    case Probe::kReassignmentOutlivedLeader:
      return Absences();
    case Probe::kSessionExpiredWhileLeading:
      return Join(Partitions(), Pauses());
    case Probe::kUncleanRestart:
    case Probe::kAllInSyncLost:
      return PowerLosses();
    case Probe::kDiskReplaced:
      return {FaultKind::kDiskReplaced};
    case Probe::kUpgraded:
      return Deaths();
    case Probe::kStoppedCleanly:
      return {FaultKind::kStopCleanly};
    default:
      return {};
  }
}

ProbeInfo Own(Probe probe) {
  ProbeInfo info = Named(probe);
  info.is_alarm = probe == Probe::kConsumerAhead;
  info.brokers = probe >= Probe::kProduceAcknowledged;
  info.faults = FaultsOf(probe);
  return info;
}

}  // namespace

const std::vector<ProbeInfo>& AllProbes() {
  static const std::vector<ProbeInfo> all = [] {
    std::vector<ProbeInfo> list;
    for (size_t i = 0; i < kEventProbes; ++i) list.push_back(OfEvent(static_cast<EventKind>(i)));
    for (size_t i = kEventProbes; i < kProbes; ++i) {
      list.push_back(Own(static_cast<Probe>(i - kEventProbes)));
    }
    return list;
  }();
  return all;
}

bool BelongsTo(const ProbeInfo& probe, const Scenario& scenario) {
  if (probe.is_alarm || (probe.brokers && !scenario.brokers)) return false;
  static const std::string_view kReached = Named(Probe::kLivenessReached).name;
  if (!scenario.budget && probe.name == kReached) return false;
  return probe.faults.empty() ||
         std::any_of(probe.faults.begin(), probe.faults.end(), [&](FaultKind fault) {
           return std::find(scenario.faults.begin(), scenario.faults.end(), fault) !=
                  scenario.faults.end();
         });
}

}  // namespace lockstep::sim
