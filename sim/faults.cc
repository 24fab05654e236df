#include "sim/faults.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "sim/decision_text.h"
#include "sim/purpose.h"
#include "sim/world.h"

namespace lockstep::sim {

Faults::Faults(const Plan& plan, World* world, Script* script)
    : plan_(plan),
      world_(world),
      script_(script),
      random_(StreamFor(plan.seed, Purpose::kFaults)),
      damage_random_(StreamFor(plan.seed, Purpose::kDamage)) {}

void Faults::Begin(Instant now) {
  ScheduleNext(now, kOrdinary);
  if (!follows()) ScheduleNext(now, kDamage);
}

void Faults::ScheduleNext(Instant now, Chain chain) {
  if (ended_) return;
  if (!follows()) return DrawNext(now, chain);
  const Decision* next = script_->Next(Script::kFaults);
  if (next == nullptr) return;
  const auto kind = static_cast<uint32_t>(std::get<FaultDecision>(next->what).kind);
  world_->queue().Push(std::max(now, next->at), {TaskKind::kFault, 0, kind, 0});
}

void Faults::DrawNext(Instant now, Chain chain) {
  const auto weight = [&](size_t kind) {
    const bool damage = IsDamage(static_cast<FaultKind>(kind));
    return damage == (chain == kDamage) ? plan_.fault_weights[kind] : 0;
  };
  uint64_t total = 0;
  for (size_t i = 0; i < plan_.fault_weights.size(); ++i) total += weight(i);
  if (total == 0) return;
  RandomStream& random = chain == kDamage ? damage_random_ : random_;
  uint64_t drawn = random.Below(total);
  size_t kind = 0;
  while (drawn >= weight(kind)) drawn -= weight(kind++);
  const Duration wait = Around(random, chain == kDamage ? plan_.damage_every : plan_.fault_every);
  world_->queue().Push(now + wait, {TaskKind::kFault, chain, static_cast<uint32_t>(kind), 0});
}

void Faults::OnTask(Instant now, const Task& task) {
  if (ended_) return;
  if (task.kind == TaskKind::kUndo) return UndoNow(now, task.which);
  if (follows()) {
    Follow(now);
  } else if (std::optional<FaultDecision> fault = Draw(static_cast<FaultKind>(task.what))) {
    std::optional<size_t> recorded;
    if (script_ != nullptr) recorded = script_->Record({now, 0, *fault});
    CarryOut(now, *fault, recorded);
  }
  ScheduleNext(now, static_cast<Chain>(task.who));
}

void Faults::Follow(Instant now) {
  const FaultDecision& fault = std::get<FaultDecision>(script_->Next(Script::kFaults)->what);
  if (CarryOut(now, fault, std::nullopt)) {
    script_->Take(Script::kFaults, now);
  } else {
    script_->Miss(Script::kFaults);
  }
}

bool Faults::CarryOut(Instant now, const FaultDecision& fault, std::optional<size_t> recorded) {
  world_->trace().Mix(static_cast<uint64_t>(fault.kind) << 32 ^
                      fault.server.value_or(fault.client.value_or(0xff)));
  if (world_->trace().on()) {
    const std::string text = FaultText(plan_, fault);
    const std::string name = FaultName(fault.kind);
    world_->trace().Line("fault", name, text.substr(std::min(text.size(), name.size() + 1)));
  }
  switch (fault.kind) {
    case FaultKind::kKill:
    case FaultKind::kPowerLoss:
    case FaultKind::kPowerLossAll:
    case FaultKind::kKillLeader:
    case FaultKind::kCrashInStep:
    case FaultKind::kCrashOnEvent:
    case FaultKind::kPause:
      return CarryOutProcess(fault, recorded);
    case FaultKind::kIsolate:
    case FaultKind::kIsolateOneWay:
    case FaultKind::kSplit:
    case FaultKind::kBridge:
    case FaultKind::kCutLink:
    case FaultKind::kIsolateOnEvent:
      return CarryOutPartition(now, fault, recorded);
    case FaultKind::kResetConnection:
    case FaultKind::kResetStorm:
    case FaultKind::kStickConnection:
    case FaultKind::kSlowLink:
    case FaultKind::kResetCoordination:
    case FaultKind::kStickCoordination:
      return CarryOutConnection(now, fault);
    case FaultKind::kSlowDisk:
    case FaultKind::kDiskError:
    case FaultKind::kDiskFull:
      return CarryOutDisk(now, fault);
    case FaultKind::kBitRot:
    case FaultKind::kLatentError:
    case FaultKind::kMisdirectedWrite:
    case FaultKind::kLyingSync:
    case FaultKind::kDiskLost:
      return CarryOutDamage(now, fault);
    case FaultKind::kClockJump:
      world_->JumpClock(*fault.server, fault.by_ms);
      return true;
    case FaultKind::kStopCleanly:
    case FaultKind::kKillPartitionLeader:
    case FaultKind::kPausePartitionLeader:
    case FaultKind::kDiskReplaced:
      return CarryOutBroker(fault);
    case FaultKind::kCutReplication:
    case FaultKind::kSlowCoordination:
    case FaultKind::kStrikeLeaders:
      return CarryOutFailOver(now, fault);
    case FaultKind::kClientVanishes:
    case FaultKind::kClientMoves:
      return CarryOutClient(fault);
    case FaultKind::kCount:
      break;
  }
  LS_UNREACHABLE();
}

bool Faults::StopIfUp(uint32_t server, StopKind kind) {
  if (!world_->up(server)) return false;
  world_->Stop(server, kind);
  return true;
}

bool Faults::CarryOutProcess(const FaultDecision& fault, std::optional<size_t> recorded) {
  switch (fault.kind) {
    case FaultKind::kKill:
      return StopIfUp(*fault.server, StopKind::kKill);
    case FaultKind::kPowerLoss:
      return StopIfUp(*fault.server, StopKind::kPowerLoss);
    case FaultKind::kPowerLossAll:
      for (uint32_t s = 0; s < world_->servers(); ++s) StopIfUp(s, StopKind::kPowerLoss);
      return true;
    case FaultKind::kKillLeader:
      return StopIfUp(*fault.server, fault.stop);
    case FaultKind::kCrashInStep:
      if (!world_->up(*fault.server)) return false;
      world_->CrashWithin(*fault.server, fault.count);
      return true;
    case FaultKind::kCrashOnEvent:
      crash_ = {.event = fault.event, .countdown = fault.count, .recorded = recorded};
      return true;
    case FaultKind::kPause:
      if (!world_->up(*fault.server)) return false;
      world_->Pause(*fault.server, fault.time);
      return true;
    default:
      LS_UNREACHABLE();
  }
}

bool Faults::CarryOutBroker(const FaultDecision& fault) {
  if (!world_->up(*fault.server)) return false;
  switch (fault.kind) {
    case FaultKind::kStopCleanly:
      world_->StopCleanly(*fault.server);
      return true;
    case FaultKind::kKillPartitionLeader:
      world_->Stop(*fault.server, fault.stop);
      return true;
    case FaultKind::kPausePartitionLeader:
      world_->Pause(*fault.server, fault.time);
      return true;
    case FaultKind::kDiskReplaced:
      if (world_->AnyDamaged()) return false;
      world_->ReplaceDisk(*fault.server);
      return true;
    default:
      LS_UNREACHABLE();
  }
}

bool Faults::CarryOutFailOver(Instant now, const FaultDecision& fault) {
  switch (fault.kind) {
    case FaultKind::kCutReplication:
      CutReplication(now, fault);
      return true;
    case FaultKind::kSlowCoordination: {
      world_->network().SetCoordinationLatency(*fault.server, fault.out ? fault.extra : Duration(),
                                               fault.in ? fault.extra : Duration());
      Undo undo;
      undo.kind = fault.kind;
      undo.server = *fault.server;
      UndoLater(now, std::move(undo), fault.time);
      return true;
    }
    case FaultKind::kStrikeLeaders:
      strikes_ = fault;
      return true;
    default:
      LS_UNREACHABLE();
  }
}

void Faults::CutReplication(Instant now, const FaultDecision& fault) {
  std::vector<Undo> undos(1);
  for (const ConnectionName& name : fault.connections) {
    world_->network().SetReplicationBlocked(now, name.from, name.to, true);
    // Each way ends at its own time, or all end together.
    if (fault.extra > Duration() && !undos.back().blocked.empty()) undos.emplace_back();
    undos.back().blocked.push_back({name.from, name.to});
  }
  Duration time = fault.time;
  for (Undo& undo : undos) {
    undo.kind = fault.kind;
    UndoLater(now, std::move(undo), time);
    time = time + fault.extra;
  }
}

// A leader is left the time to append what nobody fetches any more.
void Faults::OnPartitionLeading(Instant now, uint32_t server) {
  if (strikes_.count == 0) return;
  const bool struck = std::any_of(undos_.begin(), undos_.end(), [&](const Undo& undo) {
    return undo.kind == FaultKind::kStrikeLeaders && undo.server == server;
  });
  if (struck) return;
  --strikes_.count;
  Undo undo;
  undo.kind = FaultKind::kStrikeLeaders;
  undo.server = server;
  UndoLater(now, std::move(undo), strikes_.extra);
}

void Faults::Strike(uint32_t server) {
  if (!world_->up(server)) return;
  if (strikes_.time > Duration()) {
    world_->Pause(server, strikes_.time);
  } else {
    world_->Stop(server, strikes_.stop);
  }
}

bool Faults::CarryOutClient(const FaultDecision& fault) {
  if (script_ != nullptr && script_->absent(*fault.client)) return false;
  if (fault.kind == FaultKind::kClientVanishes) {
    world_->VanishClient(*fault.client);
  } else {
    world_->MoveClient(*fault.client);
  }
  return true;
}

void Faults::Block(Instant now, std::vector<std::pair<uint32_t, uint32_t>> pairs, Duration time) {
  for (auto [from, to] : pairs) world_->network().SetBlocked(now, from, to, true);
  Undo undo;
  undo.kind = FaultKind::kSplit;
  undo.blocked = std::move(pairs);
  UndoLater(now, std::move(undo), time);
}

// `out`: it is not heard; `in`: it does not hear.
void Faults::Isolate(Instant now, const FaultDecision& fault) {
  const uint32_t server = *fault.server;
  const uint32_t nodes = world_->servers() + (fault.with_clients ? world_->clients() : 0);
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (uint32_t node = 0; node < nodes; ++node) {
    if (node == server) continue;
    if (fault.out) pairs.push_back({server, node});
    if (fault.in) pairs.push_back({node, server});
  }
  Block(now, std::move(pairs), fault.time);
}

// Who is on one side and who is not do not reach each other; `server`, if any, reaches all, else
// the first client: it can ask both halves.
void Faults::Split(Instant now, const FaultDecision& fault) {
  const uint32_t nodes = world_->servers() + world_->clients();
  const uint32_t reaches_all = fault.server.value_or(world_->servers());
  std::vector<bool> side(nodes, false);
  for (uint32_t node : fault.side) side[node] = true;
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (uint32_t a = 0; a < nodes; ++a) {
    for (uint32_t b = 0; b < nodes; ++b) {
      if (side[a] != side[b] && a != reaches_all && b != reaches_all) pairs.push_back({a, b});
    }
  }
  Block(now, std::move(pairs), fault.time);
}

bool Faults::CarryOutPartition(Instant now, const FaultDecision& fault,
                               std::optional<size_t> recorded) {
  switch (fault.kind) {
    case FaultKind::kIsolate:
    case FaultKind::kIsolateOneWay:
      Isolate(now, fault);
      return true;
    case FaultKind::kSplit:
    case FaultKind::kBridge:
      Split(now, fault);
      return true;
    case FaultKind::kCutLink: {
      std::vector<std::pair<uint32_t, uint32_t>> pairs;
      if (fault.out) pairs.push_back({*fault.server, *fault.other});
      if (fault.in) pairs.push_back({*fault.other, *fault.server});
      Block(now, std::move(pairs), fault.time);
      return true;
    }
    case FaultKind::kIsolateOnEvent:
      isolation_ = {.event = fault.event,
                    .countdown = fault.count,
                    .out = fault.out,
                    .in = fault.in,
                    .with_clients = fault.with_clients,
                    .time = fault.time,
                    .recorded = recorded};
      return true;
    default:
      LS_UNREACHABLE();
  }
}

bool Faults::CarryOutConnection(Instant now, const FaultDecision& fault) {
  Network& network = world_->network();
  bool found = false;
  switch (fault.kind) {
    case FaultKind::kResetConnection:
    case FaultKind::kResetStorm:
    case FaultKind::kResetCoordination:
      for (const ConnectionName& name : fault.connections) found |= network.ResetNamed(now, name);
      if (found && fault.kind == FaultKind::kResetConnection) {
        world_->probes().Hit(Probe::kConnectionReset);
      }
      return found;
    case FaultKind::kStickConnection:
    case FaultKind::kStickCoordination:
      for (const ConnectionName& name : fault.connections) found |= network.StickNamed(name);
      return found;
    case FaultKind::kSlowLink: {
      Undo undo;
      undo.kind = fault.kind;
      undo.server = *fault.server;
      undo.other = *fault.other;
      network.SetExtraLatency(undo.server, undo.other, fault.extra);
      UndoLater(now, std::move(undo), fault.time);
      return true;
    }
    default:
      LS_UNREACHABLE();
  }
}

bool Faults::CarryOutDisk(Instant now, const FaultDecision& fault) {
  Disk& disk = world_->disk(*fault.server);
  if (fault.kind == FaultKind::kDiskError) {
    disk.FailNext();
    return true;
  }
  if (fault.kind == FaultKind::kSlowDisk) {
    disk.set_slowness(fault.count);
  } else {
    disk.set_full(true);
  }
  Undo undo;
  undo.kind = fault.kind;
  undo.server = *fault.server;
  UndoLater(now, std::move(undo), fault.time);
  return true;
}

bool Faults::CarryOutDamage(Instant now, const FaultDecision& fault) {
  const uint32_t server = *fault.server;
  if (!world_->AllowDamage(server)) return false;
  Disk& disk = world_->disk(server);
  bool done = true;
  switch (fault.kind) {
    case FaultKind::kBitRot:
      done = disk.Rot(fault.place);
      break;
    case FaultKind::kLatentError:
      done = disk.BreakSector(fault.place);
      break;
    case FaultKind::kMisdirectedWrite:
      disk.MisdirectNext(fault.place);
      break;
    case FaultKind::kLyingSync: {
      disk.set_lying(true);
      Undo undo;
      undo.kind = fault.kind;
      undo.server = server;
      UndoLater(now, std::move(undo), fault.time);
      break;
    }
    case FaultKind::kDiskLost:
      done = world_->MayLoseDisk(server);
      if (done) world_->LoseDisk(server);
      break;
    default:
      LS_UNREACHABLE();
  }
  return done;
}

void Faults::UndoLater(Instant now, Undo undo, Duration time) {
  undo.number = next_undo_++;
  world_->queue().Push(now + time, {TaskKind::kUndo, 0, 0, undo.number});
  undos_.push_back(std::move(undo));
}

void Faults::UndoNow(Instant now, uint64_t number) {
  auto it = std::find_if(undos_.begin(), undos_.end(),
                         [&](const Undo& undo) { return undo.number == number; });
  LS_CHECK(it != undos_.end());
  const Undo undo = std::move(*it);
  undos_.erase(it);
  if (undo.kind == FaultKind::kStrikeLeaders) return Strike(undo.server);
  if (world_->trace().on()) world_->trace().Line("fault", "ends", FaultName(undo.kind));
  switch (undo.kind) {
    case FaultKind::kSplit:
      for (auto [from, to] : undo.blocked) world_->network().SetBlocked(now, from, to, false);
      world_->probes().Hit(Probe::kPartitionHealed);
      return;
    case FaultKind::kCutReplication:
      for (auto [from, to] : undo.blocked) {
        world_->network().SetReplicationBlocked(now, from, to, false);
      }
      return;
    case FaultKind::kSlowCoordination:
      world_->network().SetCoordinationLatency(undo.server, {}, {});
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
    case FaultKind::kLyingSync:
      world_->disk(undo.server).set_lying(false);
      return;
    default:
      LS_UNREACHABLE();
  }
}

bool Faults::OnEvent(Instant now, uint32_t server, EventKind event) {
  if (ended_) return false;
  if (event == EventKind::kPartitionLeading) OnPartitionLeading(now, server);
  if (isolation_.countdown > 0 && isolation_.event == event && --isolation_.countdown == 0) {
    FaultDecision fault;
    fault.server = server;
    // One way, too: what it has just written is carried out, and it does not hear of it.
    fault.out = isolation_.out || !isolation_.in;
    fault.in = isolation_.in || !isolation_.out;
    fault.with_clients = isolation_.with_clients;
    fault.time = isolation_.time;
    if (follows()) {
      // The schedule does not know how long if the event did not come when it was written.
      if (fault.time == Duration{}) fault.time = plan_.options.tick * 5;
    } else {
      DrawIsolation(&fault.with_clients, &fault.time);
    }
    if (isolation_.recorded) {
      auto& recorded = std::get<FaultDecision>(script_->recorded(*isolation_.recorded).what);
      recorded.with_clients = fault.with_clients;
      recorded.time = fault.time;
    }
    Isolate(now, fault);
  }
  return crash_.countdown > 0 && crash_.event == event && --crash_.countdown == 0;
}

}  // namespace lockstep::sim
