// The life of a host: its machine is made, killed, stopped or paused, its disk replaced.
#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "sim/purpose.h"
#include "sim/world.h"

namespace lockstep::sim {
namespace {

constexpr int64_t kUnixMsAtStart = 1'600'000'000'000;

}  // namespace

int64_t World::UnixMs(uint32_t server) const {
  return kUnixMsAtStart + now_.ns / 1'000'000 + hosts_[server].wall_offset_ms;
}

void World::Start(uint32_t server) {
  Host& host = hosts_[server];
  if (host.off_for_good) return;
  ++host.incarnation;
  RandomStream& random = HostRandom(server, HostDraw::kStart);
  host.clock.base = Duration{random.Between(1'000'000'000, 1'000'000'000'000)};
  host.clock.drift_ppm =
      plan_.drift_ppm_max == 0 ? 0 : random.Between(-plan_.drift_ppm_max, plan_.drift_ppm_max);
  server::Options options = plan_.options;
  options.server = {server + 1};
  if (plan_.brokers.on) SetBrokerOptions(plan_, server, &options);
  if (server < plan_.older && host.incarnation == 1) {
    // What the release before does not know. What it sends lacks the new fields, and it does not
    // see those of others; the formats on disk are the same.
    options.zab.rules.count_only_who_remembers = false;
  } else if (server < plan_.older && host.incarnation == 2) {
    probes_->Hit(Probe::kUpgraded);
  }
  host.machine = std::make_unique<server::Server>(options, plan_.seed, host.incarnation);
  host.scheduled_wake = Instant::Never();
  host.turn_scheduled = false;
  host.paused = false;
  host.recovered = false;
  host.restored = false;
  host.stopping = false;
  host.position = CommittedLog::kBeforeFirst;
  host.applied = {};
  network_.SetNodeState(now_, server, Network::NodeState::kUp);
  if (trace_->on()) {
    trace_->Line(ServerName(server), "starts", absl::StrCat("incarnation ", host.incarnation));
  }
  Enqueue(server, server::Start{UnixMs(server)});
  queue_.Push(now_ + plan_.options.tick * 10, {TaskKind::kClock, server, 0, host.incarnation});
}

void World::ProbeDeath(uint32_t server) {
  const zab::Peer* peer = hosts_[server].machine->peer();
  if (server >= plan_.voters()) return;
  if (peer == nullptr) return probes_->Hit(Probe::kDiedInRecovery);
  if (peer->state() == zab::ServerState::kLeading) {
    probes_->Hit(peer->established() ? Probe::kLeaderDiedInBroadcast
                 : peer->current_epoch() == peer->accepted_epoch()
                     ? Probe::kLeaderDiedInSynchronization
                     : Probe::kLeaderDiedInDiscovery);
    const bool multi = std::any_of(clients_.begin(), clients_.end(),
                                   [](const auto& client) { return client->multi_in_flight(); });
    if (peer->established() && multi) probes_->Hit(Probe::kMultiInFlightWhenLeaderDied);
  } else if (peer->state() == zab::ServerState::kFollowing && !peer->established()) {
    probes_->Hit(Probe::kFollowerDiedInSynchronization);
  }
}

void World::Stop(uint32_t server, StopKind kind) { StopServer(server, kind, /*cleanly=*/false); }

void World::StopServer(uint32_t server, StopKind kind, bool cleanly) {
  Host& host = hosts_[server];
  if (host.machine == nullptr) return;
  ProbeDeath(server);
  const bool silent = host.disk.damaged() && !plan_.brokers.on;
  const bool may_forget = !silent || MayForget(server);
  if (plan_.brokers.on && host.disk.damaged()) KeepWord(server, kind == StopKind::kPowerLoss);
  if (const zab::Peer* peer = host.machine->peer()) {
    host.told = {peer->accepted_epoch(), peer->durable_zxid()};
  }
  if (server < plan_.voters()) {
    histories_.OnStopped(server + 1);
    if (silent && may_forget) histories_.OnMayForget(server + 1);
  }
  if (plan_.brokers.on) replication_.OnStopped(server, kind == StopKind::kPowerLoss, cleanly);
  host.machine.reset();
  host.inbox.clear();
  host.paused = false;
  host.crash_in_turns = 0;
  if (kind == StopKind::kKill) {
    network_.SetNodeState(now_, server, Network::NodeState::kRefusing);
    network_.KillProcess(now_, server);
    host.disk.KillProcess(may_forget);
  } else {
    network_.SetNodeState(now_, server, Network::NodeState::kOff);
    network_.PowerOff(now_, server);
    if (host.disk.PowerLoss(may_forget) > 0) probes_->Hit(Probe::kUnsyncedLost);
  }
  if (trace_->on()) {
    trace_->Line(ServerName(server), kind == StopKind::kKill ? "killed" : "power-off", "");
  }
  queue_.Push(now_ + Around(HostRandom(server, HostDraw::kRestart), plan_.restart),
              {TaskKind::kStart, server, 0, ++host.starts});
}

void World::StopCleanly(uint32_t server) {
  Host& host = hosts_[server];
  if (host.machine == nullptr || host.stopping) return;
  host.stopping = true;
  if (trace_->on()) trace_->Line(ServerName(server), "asked-to-stop", "");
  Enqueue(server, server::StopCleanly());
}

void World::ReplaceDisk(uint32_t server) {
  Stop(server, StopKind::kPowerLoss);
  hosts_[server].disk.Replace();
  hosts_[server].marks.clear();
  hosts_[server].lost.clear();
  replication_.OnDiskReplaced(server);
  probes_->Hit(Probe::kDiskReplaced);
}

std::optional<uint32_t> World::PartitionLeader(RandomStream& random) const {
  std::vector<uint32_t> leaders;
  for (const auto& [name, truth] : replication_.Truths()) {
    if (!truth.leader) continue;
    const std::optional<uint32_t> server = ServerOf(truth.leader->broker);
    if (server && *server < plan_.servers && up(*server)) leaders.push_back(*server);
  }
  if (leaders.empty()) return std::nullopt;
  return leaders[random.Below(leaders.size())];
}

void World::Pause(uint32_t server, Duration time) {
  Host& host = hosts_[server];
  if (host.paused || !up(server)) return;
  host.paused = true;
  host.paused_at = now_;
  if (trace_->on()) trace_->Line(ServerName(server), "pauses", time.ToString());
  queue_.Push(now_ + time, {TaskKind::kResume, server, 0, ++host.pauses});
}

void World::JumpClock(uint32_t server, int64_t by_ms) {
  hosts_[server].wall_offset_ms += by_ms;
  if (up(server)) Enqueue(server, server::WallClock{UnixMs(server)});
}

std::optional<uint32_t> World::Leader() const {
  std::optional<uint32_t> best;
  for (uint32_t s = 0; s < hosts_.size(); ++s) {
    if (!up(s)) continue;
    const zab::Peer* peer = hosts_[s].machine->peer();
    if (peer == nullptr || peer->state() != zab::ServerState::kLeading) continue;
    if (!best.has_value()) {
      best = s;
      continue;
    }
    const zab::Peer* other = hosts_[*best].machine->peer();
    if (std::pair(peer->established(), peer->accepted_epoch()) >
        std::pair(other->established(), other->accepted_epoch())) {
      best = s;
    }
  }
  return best;
}

}  // namespace lockstep::sim
