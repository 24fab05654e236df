#include "sim/faults.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "sim/purpose.h"
#include "sim/world.h"

namespace lockstep::sim {
namespace {

// Moments at which a crash or an isolation hurts most.
constexpr EventKind kMoments[] = {
    EventKind::kLeading,          EventKind::kEpochProposed,  EventKind::kEpochAccepted,
    EventKind::kSyncDiff,         EventKind::kSyncTrunc,      EventKind::kSyncTruncDiff,
    EventKind::kSyncSnap,         EventKind::kNewLeaderAcked, EventKind::kEstablished,
    EventKind::kUpToDate,         EventKind::kTruncated,      EventKind::kEpochExhausted,
    EventKind::kSegmentRolled,    EventKind::kSegmentDropped, EventKind::kSnapshotWritten,
    EventKind::kSnapshotReceived, EventKind::kSyncCompleted,  EventKind::kRecovered,
    EventKind::kSessionCreated,   EventKind::kSessionExpired, EventKind::kSessionMoved,
};

constexpr EventKind kBrokerMoments[] = {
    EventKind::kPartitionLeading, EventKind::kPartitionFollowing, EventKind::kHistoryDiverged,
    EventKind::kLogTruncated,     EventKind::kLogRestarted,       EventKind::kIsrShrink,
    EventKind::kIsrExpand,        EventKind::kIsrChanged,         EventKind::kIsrChangeFailed,
    EventKind::kBrokerRegistered, EventKind::kBrokerFenced,       EventKind::kElected,
    EventKind::kElectionLost,     EventKind::kHandedOver,         EventKind::kReassignmentStep,
    EventKind::kReplicaOpened,    EventKind::kReplicaClosed,      EventKind::kTopicRemoved,
};

const char* NameOf(FaultKind kind) {
  for (const FaultInfo& info : AllFaults()) {
    if (info.kind == kind) return info.name;
  }
  LS_UNREACHABLE();
}

}  // namespace

Faults::Faults(const Plan& plan, World* world)
    : plan_(plan), world_(world), random_(StreamFor(plan.seed, Purpose::kFaults)) {}

void Faults::Begin(Instant now) { ScheduleNext(now); }

void Faults::ScheduleNext(Instant now) {
  uint64_t total = 0;
  for (uint32_t weight : plan_.fault_weights) total += weight;
  if (total == 0 || ended_) return;
  uint64_t drawn = random_.Below(total);
  size_t kind = 0;
  while (drawn >= plan_.fault_weights[kind]) drawn -= plan_.fault_weights[kind++];
  const Duration wait = Around(random_, plan_.fault_every);
  world_->queue().Push(now + wait, {TaskKind::kFault, 0, static_cast<uint32_t>(kind), 0});
}

void Faults::OnTask(Instant now, const Task& task) {
  if (ended_) return;
  if (task.kind == TaskKind::kUndo) return UndoNow(now, task.which);
  const FaultKind kind = static_cast<FaultKind>(task.what);
  if (world_->trace().on()) world_->trace().Line("fault", NameOf(kind), "");
  Inject(now, kind);
  ScheduleNext(now);
}

uint32_t Faults::RandomServer() { return static_cast<uint32_t>(random_.Below(world_->servers())); }

std::optional<uint32_t> Faults::RandomUp() {
  const uint32_t start = RandomServer();
  for (uint32_t i = 0; i < world_->servers(); ++i) {
    const uint32_t server = (start + i) % world_->servers();
    if (world_->up(server)) return server;
  }
  return std::nullopt;
}

EventKind Faults::RandomEvent() {
  if (plan_.brokers.on && random_.Chance(2, 3)) {
    return kBrokerMoments[random_.Below(std::size(kBrokerMoments))];
  }
  return kMoments[random_.Below(std::size(kMoments))];
}

StopKind Faults::RandomStop() {
  return random_.Chance(1, 2) ? StopKind::kKill : StopKind::kPowerLoss;
}

Duration Faults::HowLong() { return plan_.options.tick * random_.Between(1, 30) / 2; }

void Faults::Inject(Instant now, FaultKind kind) {
  switch (kind) {
    case FaultKind::kKill:
    case FaultKind::kPowerLoss:
    case FaultKind::kPowerLossAll:
    case FaultKind::kKillLeader:
    case FaultKind::kCrashInStep:
    case FaultKind::kCrashOnEvent:
    case FaultKind::kPause:
      return InjectProcess(now, kind);
    case FaultKind::kIsolate:
    case FaultKind::kIsolateOneWay:
    case FaultKind::kSplit:
    case FaultKind::kBridge:
    case FaultKind::kCutLink:
    case FaultKind::kIsolateOnEvent:
      return InjectPartition(now, kind);
    case FaultKind::kResetConnection:
    case FaultKind::kResetStorm:
    case FaultKind::kStickConnection:
    case FaultKind::kSlowLink:
      return InjectConnection(now, kind);
    case FaultKind::kSlowDisk:
    case FaultKind::kDiskError:
    case FaultKind::kDiskFull:
      return InjectDisk(now, kind);
    case FaultKind::kClockJump: {
      const uint32_t server = RandomServer();
      return world_->JumpClock(server, random_.Between(-100'000, 100'000));
    }
    case FaultKind::kStopCleanly:
    case FaultKind::kKillPartitionLeader:
    case FaultKind::kPausePartitionLeader:
    case FaultKind::kResetCoordination:
    case FaultKind::kStickCoordination:
    case FaultKind::kDiskReplaced:
      return InjectBroker(now, kind);
    case FaultKind::kClientVanishes:
      if (world_->clients() == 0) return;
      return world_->VanishClient(static_cast<uint32_t>(random_.Below(world_->clients())));
    case FaultKind::kClientMoves:
      if (world_->clients() == 0) return;
      return world_->MoveClient(static_cast<uint32_t>(random_.Below(world_->clients())));
    case FaultKind::kCount:
      break;
  }
  LS_UNREACHABLE();
}

void Faults::InjectProcess(Instant now, FaultKind kind) {
  (void)now;
  const std::optional<uint32_t> server = RandomUp();
  if (!server.has_value()) return;
  switch (kind) {
    case FaultKind::kKill:
      return world_->Stop(*server, StopKind::kKill);
    case FaultKind::kPowerLoss:
      return world_->Stop(*server, StopKind::kPowerLoss);
    case FaultKind::kPowerLossAll:
      for (uint32_t s = 0; s < world_->servers(); ++s) {
        if (world_->up(s)) world_->Stop(s, StopKind::kPowerLoss);
      }
      return;
    case FaultKind::kKillLeader: {
      const StopKind stop = RandomStop();
      return world_->Stop(world_->Leader().value_or(*server), stop);
    }
    case FaultKind::kCrashInStep:
      return world_->CrashWithin(*server, static_cast<uint32_t>(random_.Between(1, 30)));
    case FaultKind::kCrashOnEvent:
      crash_.event = RandomEvent();
      crash_.countdown = static_cast<uint32_t>(random_.Between(1, 4));
      return;
    case FaultKind::kPause:
      return world_->Pause(*server, HowLong() * 2);
    default:
      LS_UNREACHABLE();
  }
}

void Faults::InjectBroker(Instant now, FaultKind kind) {
  const std::optional<uint32_t> any = RandomUp();
  switch (kind) {
    case FaultKind::kStopCleanly:
      if (any) world_->StopCleanly(*any);
      return;
    case FaultKind::kKillPartitionLeader: {
      const StopKind stop = RandomStop();
      const std::optional<uint32_t> leader = world_->PartitionLeader(random_);
      if (leader) world_->Stop(*leader, stop);
      return;
    }
    case FaultKind::kPausePartitionLeader: {
      const std::optional<uint32_t> leader = world_->PartitionLeader(random_);
      const Duration time = plan_.brokers.session_timeout * random_.Between(2, 12) / 8;
      if (leader) world_->Pause(*leader, time);
      return;
    }
    case FaultKind::kResetCoordination:
      world_->network().ResetOne(now, random_, server::LinkKind::kCoordination);
      return;
    case FaultKind::kStickCoordination:
      world_->network().StickOne(now, random_, server::LinkKind::kCoordination);
      return;
    case FaultKind::kDiskReplaced: {
      const uint32_t spare = world_->servers() - plan_.voters();
      if (spare == 0) return;
      const auto server = static_cast<uint32_t>(plan_.voters() + random_.Below(spare));
      if (world_->up(server)) world_->ReplaceDisk(server);
      return;
    }
    default:
      LS_UNREACHABLE();
  }
}

void Faults::Block(Instant now, std::vector<std::pair<uint32_t, uint32_t>> pairs) {
  for (auto [from, to] : pairs) world_->network().SetBlocked(now, from, to, true);
  Undo undo;
  undo.kind = FaultKind::kSplit;
  undo.blocked = std::move(pairs);
  UndoLater(now, std::move(undo));
}

// `out`: it is not heard; `in`: it does not hear. Its clients are cut off with it, or are not.
void Faults::Isolate(Instant now, uint32_t server, bool out, bool in) {
  const bool with_clients = random_.Chance(1, 3);
  const uint32_t nodes = world_->servers() + (with_clients ? world_->clients() : 0);
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (uint32_t node = 0; node < nodes; ++node) {
    if (node == server) continue;
    if (out) pairs.push_back({server, node});
    if (in) pairs.push_back({node, server});
  }
  Block(now, std::move(pairs));
}

void Faults::InjectPartition(Instant now, FaultKind kind) {
  const uint32_t n = world_->servers();
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  switch (kind) {
    case FaultKind::kIsolate: {
      // The leader is who hurts.
      const bool leader = random_.Chance(1, 2);
      const uint32_t other = RandomServer();
      return Isolate(now, leader ? world_->Leader().value_or(other) : other, true, true);
    }
    case FaultKind::kIsolateOneWay: {
      const bool out = random_.Chance(1, 2);
      const bool leader = random_.Chance(1, 2);
      const uint32_t other = RandomServer();
      return Isolate(now, leader ? world_->Leader().value_or(other) : other, out, !out);
    }
    case FaultKind::kSplit:
    case FaultKind::kBridge: {
      const uint64_t side = random_.Next();
      const uint32_t bridge = kind == FaultKind::kBridge ? RandomServer() : n;
      const uint32_t nodes = n + world_->clients();
      for (uint32_t a = 0; a < nodes; ++a) {
        for (uint32_t b = 0; b < nodes; ++b) {
          const bool apart = (side >> (a % 64) & 1) != (side >> (b % 64) & 1);
          if (apart && a != bridge && b != bridge) pairs.push_back({a, b});
        }
      }
      return Block(now, std::move(pairs));
    }
    case FaultKind::kCutLink: {
      const uint32_t a = RandomServer();
      const uint32_t b = RandomServer();
      if (a == b) return;
      pairs.push_back({a, b});
      if (random_.Chance(1, 2)) pairs.push_back({b, a});
      return Block(now, std::move(pairs));
    }
    case FaultKind::kIsolateOnEvent:
      isolation_.event = RandomEvent();
      isolation_.countdown = static_cast<uint32_t>(random_.Between(1, 4));
      return;
    default:
      LS_UNREACHABLE();
  }
}

void Faults::InjectConnection(Instant now, FaultKind kind) {
  switch (kind) {
    case FaultKind::kResetConnection:
      if (world_->network().ResetOne(now, random_)) world_->probes().Hit(Probe::kConnectionReset);
      return;
    case FaultKind::kResetStorm:
      for (int64_t left = random_.Between(2, 20); left > 0; --left) {
        world_->network().ResetOne(now, random_);
      }
      return;
    case FaultKind::kStickConnection:
      world_->network().StickOne(now, random_);
      return;
    case FaultKind::kSlowLink: {
      Undo undo;
      undo.kind = kind;
      undo.server = RandomServer();
      undo.other = RandomServer();
      if (undo.server == undo.other) return;
      const Duration extra = plan_.options.tick * random_.Between(1, 8) / 4;
      world_->network().SetExtraLatency(undo.server, undo.other, extra);
      return UndoLater(now, std::move(undo));
    }
    default:
      LS_UNREACHABLE();
  }
}

void Faults::InjectDisk(Instant now, FaultKind kind) {
  Undo undo;
  undo.kind = kind;
  undo.server = RandomServer();
  Disk& disk = world_->disk(undo.server);
  switch (kind) {
    case FaultKind::kSlowDisk:
      disk.set_slowness(random_.Between(5, 100));
      break;
    case FaultKind::kDiskError:
      disk.FailNext();
      return;
    case FaultKind::kDiskFull:
      disk.set_full(true);
      break;
    default:
      LS_UNREACHABLE();
  }
  UndoLater(now, std::move(undo));
}

void Faults::UndoLater(Instant now, Undo undo) {
  undo.number = next_undo_++;
  const Duration time = HowLong();
  world_->queue().Push(now + time, {TaskKind::kUndo, 0, 0, undo.number});
  undos_.push_back(std::move(undo));
}

void Faults::UndoNow(Instant now, uint64_t number) {
  auto it = std::find_if(undos_.begin(), undos_.end(),
                         [&](const Undo& undo) { return undo.number == number; });
  LS_CHECK(it != undos_.end());
  const Undo undo = std::move(*it);
  undos_.erase(it);
  if (world_->trace().on()) world_->trace().Line("fault", "ends", NameOf(undo.kind));
  switch (undo.kind) {
    case FaultKind::kSplit:
      for (auto [from, to] : undo.blocked) world_->network().SetBlocked(now, from, to, false);
      world_->probes().Hit(Probe::kPartitionHealed);
      return;
    case FaultKind::kSlowLink:
      world_->network().SetExtraLatency(undo.server, undo.other, {});
      return;
    case FaultKind::kSlowDisk:
      world_->disk(undo.server).set_slowness(1);
      return;
    case FaultKind::kDiskFull:
      world_->disk(undo.server).set_full(false);
      return;
    default:
      LS_UNREACHABLE();
  }
}

bool Faults::OnEvent(Instant now, uint32_t server, EventKind event) {
  if (ended_) return false;
  if (isolation_.countdown > 0 && isolation_.event == event && --isolation_.countdown == 0) {
    Isolate(now, server, true, true);
  }
  return crash_.countdown > 0 && crash_.event == event && --crash_.countdown == 0;
}

}  // namespace lockstep::sim
