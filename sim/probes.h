// "Sometimes" probes: situations that a campaign must have been in to be worth anything. A probe
// that is never hit is a defect of the workload, or of the code that should lead there.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/base/event.h"

namespace lockstep::sim {

enum class FaultKind : uint8_t;  // plan.h
struct Scenario;                 // plan.h

enum class Probe : uint8_t {
  // Servers, beyond the events of the machines themselves.
  kLeaderDiedInDiscovery,
  kLeaderDiedInSynchronization,
  kLeaderDiedInBroadcast,
  kFollowerDiedInSynchronization,
  kDiedWithinStep,
  kDiedInRecovery,
  kUnsyncedLost,
  kStoppedOnDiskError,
  kDamageFound,  // a server refuses to start on a damaged disk
  kDiskLost,
  kUpgraded,
  kForgot,  // a server comes back without something that it told, which others have
  kRestartedFromDisk,
  kPausedBeyondSession,
  kTwoLeaders,             // an established one, and another that does not know yet
  kCommittedWhileSyncing,  // a learner is synchronized while something is committed
  kSingleServer,
  kSevenServers,
  // Connections.
  kPartitionHealed,
  kConnectionReset,
  kConnectionGaveUp,
  kBytesCut,
  // Clients.
  kWriteAcknowledged,
  kWriteRefused,
  kWriteInDoubt,
  kReadBehind,  // of a state that is older than the newest
  kWatchSet,
  kWatchEvent,
  kWatchesRestored,
  kPersistentWatchEvent,
  kPersistentWatchesRestored,
  kWatchRemoved,
  kSessionKept,  // reconnected with the same session, to another server
  kSessionLost,
  kEphemeralExpired,
  kSequentialCreated,
  kUnknownOp,
  kMultiCommitted,
  kMultiRefused,
  kMultiInFlightWhenLeaderDied,
  kLivenessReached,
  // Brokers and Kafka's clients.
  kProduceAcknowledged,
  kProduceInDoubt,
  kNotEnoughReplicas,
  kDuplicateStored,  // by a producer without idempotence that sends again
  kRecordConsumed,
  kOffsetsListed,
  kConsumerOutOfRange,
  kConsumerFenced,  // its epoch is older than the leader's
  kConsumerAhead,   // ... newer: an alarm, since clients know leaders from what these have written
  kGroupSynced,
  kGroupRebalanced,
  kOffsetsCommitted,
  kOffsetsFetched,
  kCoordinatorMoved,
  kTopicDeleted,
  kTopicRecreated,
  kReassignmentAccepted,
  kReassignmentOutlivedLeader,  // completed by another leader than it began with
  kLogStartMoved,
  kSessionExpiredWhileLeading,
  kUncleanRestart,  // a broker comes back without what it had, or without knowing that it has it
  kDiskReplaced,
  kStoppedCleanly,
  kBrokerIdTaken,  // its predecessor's session outlives it for long
  kAllInSyncLost,  // nobody in an ISR has what was committed any more
  kUncleanLoss,
  kCount
};

struct ProbeInfo {
  const char* name;
  const char* says;
  bool is_alarm = false;  // never hit if nothing is wrong
  // What leads there, and so in which scenarios it must be hit.
  bool brokers = false;           // needs brokers
  std::vector<FaultKind> faults;  // needs one of these; empty: it happens without any
};
inline constexpr size_t kEventProbes = static_cast<size_t>(EventKind::kCount);
inline constexpr size_t kProbes = kEventProbes + static_cast<size_t>(Probe::kCount);
// One per event kind of the machines (named as the event), then the simulator's own.
const std::vector<ProbeInfo>& AllProbes();
// Whether a campaign of `scenario` that never hits it has missed something.
bool BelongsTo(const ProbeInfo& probe, const Scenario& scenario);

class Probes {
 public:
  void Hit(Probe probe) { ++counts_[kEventProbes + static_cast<size_t>(probe)]; }
  void Hit(EventKind kind) { ++counts_[static_cast<size_t>(kind)]; }
  uint64_t count(size_t index) const { return counts_[index]; }
  const std::array<uint64_t, kProbes>& counts() const { return counts_; }

 private:
  std::array<uint64_t, kProbes> counts_{};
};

}  // namespace lockstep::sim
