// Draws faults. The order of the draws is part of what a seed means.
#include <iterator>
#include <utility>

#include "core/base/check.h"
#include "sim/faults.h"
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

}  // namespace

uint32_t Faults::RandomServer() { return static_cast<uint32_t>(random_.Below(world_->servers())); }

std::optional<uint32_t> Faults::RandomUp() {
  const uint32_t start = RandomServer();
  for (uint32_t i = 0; i < world_->servers(); ++i) {
    const uint32_t server = (start + i) % world_->servers();
    if (world_->up(server)) return server;
  }
  return std::nullopt;
}

// Who leads a partition is who hurts.
std::optional<uint32_t> Faults::LeaderOrRandomUp() {
  const bool leader = random_.Chance(1, 2);
  const std::optional<uint32_t> any = RandomUp();
  if (!leader) return any;
  const std::optional<uint32_t> leads = world_->PartitionLeader(random_);
  return leads ? leads : any;
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

// The clients of who is isolated are cut off with it, or are not.
void Faults::DrawIsolation(bool* with_clients, Duration* time) {
  *with_clients = random_.Chance(1, 3);
  *time = HowLong();
}

std::optional<FaultDecision> Faults::Draw(FaultKind kind) {
  FaultDecision fault;
  fault.kind = kind;
  bool has_target = false;
  switch (kind) {
    case FaultKind::kKill:
    case FaultKind::kPowerLoss:
    case FaultKind::kPowerLossAll:
    case FaultKind::kKillLeader:
    case FaultKind::kCrashInStep:
    case FaultKind::kCrashOnEvent:
    case FaultKind::kPause:
      has_target = DrawProcess(&fault);
      break;
    case FaultKind::kIsolate:
    case FaultKind::kIsolateOneWay:
    case FaultKind::kSplit:
    case FaultKind::kBridge:
    case FaultKind::kCutLink:
    case FaultKind::kIsolateOnEvent:
      has_target = DrawPartition(&fault);
      break;
    case FaultKind::kResetConnection:
    case FaultKind::kResetStorm:
    case FaultKind::kStickConnection:
    case FaultKind::kSlowLink:
      has_target = DrawConnection(&fault);
      break;
    case FaultKind::kSlowDisk:
    case FaultKind::kDiskError:
    case FaultKind::kDiskFull:
      has_target = DrawDisk(&fault);
      break;
    case FaultKind::kBitRot:
    case FaultKind::kLatentError:
    case FaultKind::kMisdirectedWrite:
    case FaultKind::kLyingSync:
    case FaultKind::kDiskLost:
      has_target = DrawDamage(&fault);
      break;
    case FaultKind::kClockJump:
      fault.server = RandomServer();
      fault.by_ms = random_.Between(-100'000, 100'000);
      has_target = true;
      break;
    case FaultKind::kStopCleanly:
    case FaultKind::kKillPartitionLeader:
    case FaultKind::kPausePartitionLeader:
    case FaultKind::kResetCoordination:
    case FaultKind::kStickCoordination:
    case FaultKind::kDiskReplaced:
      has_target = DrawBroker(&fault);
      break;
    case FaultKind::kCutReplication:
    case FaultKind::kSlowCoordination:
    case FaultKind::kStrikeLeaders:
      has_target = DrawFailOver(&fault);
      break;
    case FaultKind::kClientVanishes:
    case FaultKind::kClientMoves:
      if (world_->clients() == 0) break;
      fault.client = static_cast<uint32_t>(random_.Below(world_->clients()));
      has_target = true;
      break;
    case FaultKind::kCount:
      LS_UNREACHABLE();
  }
  if (!has_target) return std::nullopt;
  return fault;
}

bool Faults::DrawProcess(FaultDecision* fault) {
  const std::optional<uint32_t> server = RandomUp();
  if (!server.has_value()) return false;
  fault->server = *server;
  switch (fault->kind) {
    case FaultKind::kKill:
    case FaultKind::kPowerLoss:
      return true;
    case FaultKind::kPowerLossAll:
      fault->server.reset();
      return true;
    case FaultKind::kKillLeader:
      fault->stop = RandomStop();
      fault->server = world_->Leader().value_or(*server);
      return true;
    case FaultKind::kCrashInStep:
      fault->count = static_cast<uint32_t>(random_.Between(1, 30));
      return true;
    case FaultKind::kCrashOnEvent:
      fault->server.reset();
      fault->event = RandomEvent();
      fault->count = static_cast<uint32_t>(random_.Between(1, 4));
      return true;
    case FaultKind::kPause:
      fault->time = HowLong() * 2;
      return true;
    default:
      LS_UNREACHABLE();
  }
}

bool Faults::DrawBroker(FaultDecision* fault) {
  const std::optional<uint32_t> any = RandomUp();
  switch (fault->kind) {
    case FaultKind::kStopCleanly:
      fault->server = any;
      return any.has_value();
    case FaultKind::kKillPartitionLeader:
      fault->stop = RandomStop();
      fault->server = world_->PartitionLeader(random_);
      return fault->server.has_value();
    case FaultKind::kPausePartitionLeader:
      fault->server = world_->PartitionLeader(random_);
      fault->time = plan_.brokers.session_timeout * random_.Between(2, 12) / 8;
      return fault->server.has_value();
    case FaultKind::kResetCoordination:
    case FaultKind::kStickCoordination: {
      auto name = world_->network().NameOne(random_, server::LinkKind::kCoordination);
      if (!name) return false;
      if (fault->kind == FaultKind::kStickCoordination) {
        name->direction = static_cast<uint32_t>(random_.Below(2));
      }
      fault->connections.push_back(*name);
      return true;
    }
    case FaultKind::kDiskReplaced: {
      const uint32_t spare = world_->servers() - plan_.voters();
      if (spare == 0) return false;
      fault->server = static_cast<uint32_t>(plan_.voters() + random_.Below(spare));
      return world_->up(*fault->server);
    }
    default:
      LS_UNREACHABLE();
  }
}

// In proportion to a session's timeout: a fail-over takes about so long.
bool Faults::DrawFailOver(FaultDecision* fault) {
  const Duration session = plan_.brokers.session_timeout;
  const auto draw_ways = [&] {
    const int64_t ways = random_.Between(1, 3);
    fault->out = (ways & 1) != 0;
    fault->in = (ways & 2) != 0;
  };
  switch (fault->kind) {
    case FaultKind::kCutReplication:
      DrawCutReplication(&fault->connections);
      fault->time = session * random_.Between(2, 32) / 8;
      if (plan_.brokers.hand_overs) fault->extra = session * random_.Between(0, 8) / 8;
      return !fault->connections.empty();
    case FaultKind::kSlowCoordination:
      fault->server = LeaderOrRandomUp();
      draw_ways();
      fault->extra = session * random_.Between(1, 12) / 8;
      fault->time = session * random_.Between(4, 32) / 8;
      return fault->server.has_value();
    case FaultKind::kStrikeLeaders:
      fault->count = static_cast<uint32_t>(random_.Between(1, plan_.brokers.hand_overs ? 2 : 4));
      fault->extra = session * random_.Between(0, 8) / 8;
      fault->stop = RandomStop();
      if (random_.Chance(1, 3)) {
        fault->stop = StopKind::kKill;  // does not die at all
        fault->time = session * random_.Between(2, 12) / 8;
      }
      return true;
    default:
      LS_UNREACHABLE();
  }
}

// From whom to whom nothing gets through: all of one broker, some of it, or some of all. With some,
// one follower has what another one has not, and what a third has acknowledged is on its way. Of
// hand-overs: some of the leader's, or one way of each, so that it hears one and is heard by
// another.
void Faults::DrawCutReplication(std::vector<ConnectionName>* ways) {
  std::optional<uint32_t> middle = LeaderOrRandomUp();
  const bool hand_overs = plan_.brokers.hand_overs;
  const int64_t shape = random_.Between(hand_overs ? 1 : 0, 2);
  const auto cut = [&](uint32_t from, uint32_t to) {
    ways->push_back({server::LinkKind::kBroker, from, to, 0, 0});
  };
  if (hand_overs) {
    const std::optional<uint32_t> leads = world_->PartitionLeader(random_);
    if (leads) middle = leads;
    if (!middle) return;
    for (uint32_t other = 0; other < world_->servers(); ++other) {
      if (other == *middle) continue;
      const int64_t drawn = random_.Between(shape == 1 ? 0 : 1, shape == 1 ? 3 : 2);
      if ((drawn & 1) != 0) cut(*middle, other);
      if ((drawn & 2) != 0) cut(other, *middle);
    }
    for (size_t i = ways->size(); i > 1; --i) {
      std::swap((*ways)[i - 1], (*ways)[random_.Below(i)]);
    }
    return;
  }
  for (uint32_t from = 0; from < world_->servers(); ++from) {
    for (uint32_t to = 0; to < world_->servers(); ++to) {
      if (from == to || (shape < 2 && from != middle && to != middle)) continue;
      if (shape > 0 && !random_.Chance(1, shape == 1 ? 2 : 3)) continue;
      cut(from, to);
    }
  }
}

bool Faults::DrawPartition(FaultDecision* fault) {
  const uint32_t n = world_->servers();
  switch (fault->kind) {
    case FaultKind::kIsolate:
    case FaultKind::kIsolateOneWay: {
      const bool one_way = fault->kind == FaultKind::kIsolateOneWay;
      fault->out = one_way ? random_.Chance(1, 2) : true;
      fault->in = one_way ? !fault->out : true;
      // The leader is who hurts.
      const bool leader = random_.Chance(1, 2);
      const uint32_t other = RandomServer();
      fault->server = leader ? world_->Leader().value_or(other) : other;
      DrawIsolation(&fault->with_clients, &fault->time);
      return true;
    }
    case FaultKind::kSplit:
    case FaultKind::kBridge: {
      const uint64_t side = random_.Next();
      if (fault->kind == FaultKind::kBridge) fault->server = RandomServer();
      for (uint32_t node = 0; node < n + world_->clients(); ++node) {
        if ((side >> (node % 64) & 1) != 0) fault->side.push_back(node);
      }
      fault->time = HowLong();
      return true;
    }
    case FaultKind::kCutLink:
      fault->server = RandomServer();
      fault->other = RandomServer();
      if (*fault->server == *fault->other) return false;
      fault->out = true;
      fault->in = random_.Chance(1, 2);
      fault->time = HowLong();
      return true;
    case FaultKind::kIsolateOnEvent: {
      fault->event = RandomEvent();
      fault->count = static_cast<uint32_t>(random_.Between(1, 4));
      const int64_t ways = random_.Between(1, 3);
      fault->out = (ways & 1) != 0;
      fault->in = (ways & 2) != 0;
      return true;
    }
    default:
      LS_UNREACHABLE();
  }
}

bool Faults::DrawConnection(FaultDecision* fault) {
  const Network& network = world_->network();
  switch (fault->kind) {
    case FaultKind::kResetConnection:
    case FaultKind::kStickConnection: {
      auto name = network.NameOne(random_);
      if (!name) return false;
      if (fault->kind == FaultKind::kStickConnection) {
        name->direction = static_cast<uint32_t>(random_.Below(2));
      }
      fault->connections.push_back(*name);
      return true;
    }
    case FaultKind::kResetStorm:
      for (int64_t left = random_.Between(2, 20); left > 0; --left) {
        if (const auto name = network.NameOne(random_)) fault->connections.push_back(*name);
      }
      return !fault->connections.empty();
    case FaultKind::kSlowLink:
      fault->server = RandomServer();
      fault->other = RandomServer();
      if (*fault->server == *fault->other) return false;
      fault->extra = plan_.options.tick * random_.Between(1, 8) / 4;
      fault->time = HowLong();
      return true;
    default:
      LS_UNREACHABLE();
  }
}

bool Faults::DrawDamage(FaultDecision* fault) {
  fault->server = static_cast<uint32_t>(
      damage_random_.Below(plan_.brokers.on ? plan_.servers : plan_.voters()));
  if (!world_->MayDamage(*fault->server)) return false;
  if (fault->kind == FaultKind::kLyingSync) {
    fault->time = plan_.options.tick * damage_random_.Between(1, 20);
  } else if (fault->kind != FaultKind::kDiskLost) {
    fault->place = static_cast<uint32_t>(damage_random_.Between(0, kPlaceMax));
  }
  return true;
}

bool Faults::DrawDisk(FaultDecision* fault) {
  fault->server = RandomServer();
  if (fault->kind == FaultKind::kDiskError) return true;
  if (fault->kind == FaultKind::kSlowDisk) {
    fault->count = static_cast<uint32_t>(random_.Between(5, 100));
  }
  fault->time = HowLong();
  return true;
}

}  // namespace lockstep::sim
