#include "sim/plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/check.h"
#include "core/coordination/rules.h"
#include "core/replication/rules.h"
#include "core/zab/rules.h"
#include "sim/purpose.h"

namespace lockstep::sim {
namespace {

template <typename T, size_t N>
T OneOf(RandomStream& random, const T (&values)[N]) {
  return values[random.Below(N)];
}

bool OfBrokers(FaultKind kind) {
  return kind >= FaultKind::kStopCleanly && kind <= FaultKind::kStrikeLeaders;
}
bool OfFailOvers(FaultKind kind) {
  return kind >= FaultKind::kCutReplication && kind <= FaultKind::kStrikeLeaders;
}

std::vector<FaultKind> EveryFault(bool brokers) {
  std::vector<FaultKind> kinds;
  for (const FaultInfo& info : AllFaults()) {
    // Of worlds with brokers damage has a scenario of its own.
    if (brokers ? !IsDamage(info.kind) : !OfBrokers(info.kind)) kinds.push_back(info.kind);
  }
  return kinds;
}

void DrawLimits(RandomStream& random, Plan* plan) {
  server::Options& options = plan->options;
  options.tick = OneOf(random, {Milliseconds(50), Milliseconds(100), Milliseconds(200)});
  options.init_limit = static_cast<uint32_t>(random.Between(5, 10));
  options.sync_limit = static_cast<uint32_t>(random.Between(3, 6));
  options.snap_count = OneOf(random, {5u, 10u, 25u, 60u, 100'000u});
  // Often, however large the tree is; and as in production.
  options.snapshot_after_percent = options.snap_count < 60 ? 0 : 100;

  options.snapshot_piece_bytes = OneOf(random, {500u, 4'000u, 1u << 20});
  options.snapshot_backlog_max =
      options.snapshot_piece_bytes * OneOf(random, {size_t{4}, size_t{100}});

  zab::PeerOptions& zab = options.zab;
  zab.finalize_wait = OneOf(random, {Milliseconds(5), Milliseconds(20), Milliseconds(40)});
  zab.notification_interval_min = OneOf(random, {Milliseconds(20), Milliseconds(60)});
  zab.notification_interval_max = zab.notification_interval_min * random.Between(1, 8);
  zab.channel_retry = OneOf(random, {Milliseconds(5), Milliseconds(20)});
  zab.proposals_in_flight_max = OneOf(random, {1u, 2u, 8u, 1000u});
  zab.window_transactions = OneOf(random, {1u, 4u, 20u, 100'000u});
  zab.window_bytes = OneOf(random, {200u, 2'000u, 1u << 20});
  zab.counter_max = OneOf(random, {4u, 12u, 40u, 0xffff'ffffu, 0xffff'ffffu, 0xffff'ffffu});

  options.storage.segment_bytes = OneOf(random, {1'024u, 4'096u, 16'384u, 65'536u});
  options.storage.retained_bytes = OneOf(random, {0u, 500u, 4'000u, 1u << 20});

  coordination::ServiceOptions& service = options.coordination;
  const int32_t tick_ms = static_cast<int32_t>(options.tick.Milliseconds());
  service.session_timeout_ms_min = 2 * tick_ms;
  service.session_timeout_ms_max = 20 * tick_ms;
  service.outstanding_requests_max = OneOf(random, {1u, 3u, 1'000u});
  service.pending_reply_bytes_max = OneOf(random, {150u, 4'000u, 1u << 20});

  options.digests_max = OneOf(random, {size_t{1}, size_t{8}, size_t{16'384}});
}

void DrawNetworkAndDisk(RandomStream& random, Plan* plan) {
  // In proportion to the tick: an ensemble whose timeouts are shorter than what a round trip takes
  // cannot work, and is not what we look for.
  const Duration tick = plan->options.tick;
  NetworkPlan& network = plan->network;
  network.latency_min = OneOf(random, {tick / 1000, tick / 200, tick / 50});
  network.latency_jitter = network.latency_min * OneOf(random, {1, 2, 4});
  network.tail_per_mille = OneOf(random, {0u, 0u, 2u, 20u});
  network.cut_percent = OneOf(random, {0u, 0u, 5u, 60u});
  network.gives_up_after = tick * random.Between(4, 40);
  network.dial_timeout = tick * random.Between(1, 5);
  network.far_percent = OneOf(random, {0u, 0u, 30u});
  network.retransmit_max = OneOf(random, {tick / 50, tick, tick * 4});

  DiskPlan& disk = plan->disk;
  disk.op = OneOf(random, {Duration{0}, tick / 2000, tick / 100});
  disk.sync = OneOf(random, {tick / 1000, tick / 50, tick / 10});
  disk.slow_sync_per_mille = OneOf(random, {0u, 0u, 10u, 50u});
  const uint64_t ways = random.Between(1, 7);
  disk.keeps_none = (ways & 1) != 0;
  disk.keeps_all = (ways & 2) != 0;
  disk.keeps_some = (ways & 4) != 0;
  disk.entries_out_of_order = random.Chance(1, 2);
}

void DrawWorkload(RandomStream& random, Plan* plan) {
  WorkloadPlan& work = plan->workload;
  work.clients = static_cast<uint32_t>(random.Between(1, 5));
  work.keys = static_cast<uint32_t>(random.Between(1, 6));
  work.think = plan->options.tick * random.Between(1, 8) / 8;
  work.outstanding_max = OneOf(random, {1u, 2u, 8u, 20u});
  work.burst_percent = OneOf(random, {0u, 10u, 50u});
  work.move_percent = OneOf(random, {0u, 0u, 3u, 25u});
  work.value_bytes_max = OneOf(random, {16u, 60u, 400u});
  const int32_t tick_ms = static_cast<int32_t>(plan->options.tick.Milliseconds());
  work.session_timeout_ms = tick_ms * static_cast<int32_t>(random.Between(4, 20));
  for (uint32_t& weight : work.weights) {
    weight = random.Chance(2, 3) ? static_cast<uint32_t>(random.Between(1, 10)) : 0;
  }
  auto weight = [&](ClientOp op) -> uint32_t& { return work.weights[static_cast<size_t>(op)]; };
  // There is always something to read and to lose.
  weight(ClientOp::kSet) += 3;
  weight(ClientOp::kCreate) += 2;
  weight(ClientOp::kCloseSession) = std::min(weight(ClientOp::kCloseSession), 1u);
  weight(ClientOp::kUnknown) = std::min(weight(ClientOp::kUnknown), 1u);
}

void DrawFaults(RandomStream& random, const Scenario& scenario, Plan* plan) {
  const Duration tick = plan->options.tick;
  plan->turn = OneOf(random, {Duration{0}, tick / 500, tick / 50});
  plan->drift_ppm_max = OneOf(random, {0, 0, 200, 20'000});
  plan->restart = tick * random.Between(1, 10);
  plan->fault_every = tick * random.Between(2, 16);
  plan->chaos = tick * random.Between(30, 110);
  // Detecting that the old leader is gone, an election that may fail a few times, a full init, and
  // the time that stuck connections and clients need to notice; far above what is needed.
  plan->heal_limit = tick * 400 + plan->network.gives_up_after * 2;
  plan->heal_only_a_quorum = random.Chance(1, 4) && !scenario.faults.empty();
  for (size_t i = 0; i < plan->fault_weights.size(); ++i) {
    if (IsDamage(static_cast<FaultKind>(i))) continue;
    const bool exists = random.Chance(1, 3);
    const uint64_t drawn = random.Between(1, 10);
    plan->fault_weights[i] = exists ? static_cast<uint32_t>(drawn) : 0;
  }
  for (size_t i = 0; i < plan->fault_weights.size(); ++i) {
    const bool allowed = std::find(scenario.faults.begin(), scenario.faults.end(),
                                   static_cast<FaultKind>(i)) != scenario.faults.end();
    if (!allowed || OfFailOvers(static_cast<FaultKind>(i))) plan->fault_weights[i] = 0;
  }
}

// From a stream of its own: most seeds have none of it, and are what they were without.
void DrawDamage(RandomStream& random, const Scenario& scenario, Plan* plan) {
  plan->damage_every = plan->options.tick * random.Between(4, 30);
  // In worlds with brokers it is what a scenario of its own is for.
  const bool drawn_any = random.Chance(1, 3);
  const bool any = drawn_any || scenario.brokers;
  for (size_t i = 0; i < plan->fault_weights.size(); ++i) {
    const FaultKind kind = static_cast<FaultKind>(i);
    if (!IsDamage(kind)) continue;
    const bool exists = random.Chance(1, 2);
    const uint64_t drawn = random.Between(1, 10);
    const bool allowed =
        std::find(scenario.faults.begin(), scenario.faults.end(), kind) != scenario.faults.end();
    plan->fault_weights[i] = any && exists && allowed ? static_cast<uint32_t>(drawn) : 0;
  }
  // Each server that starts again is upgraded.
  const uint64_t older = random.Below(plan->servers + 1);
  plan->older = random.Chance(1, 8) && !scenario.faults.empty() ? static_cast<uint32_t>(older) : 0;
  plan->budget = scenario.budget;
  if (plan->budget) return;
  plan->fault_every = plan->options.tick * random.Between(1, 12) / 4;
  plan->damage_every = plan->options.tick * random.Between(1, 40) / 4;
  plan->chaos = plan->chaos * 2;
}

bool BreakRule(std::string_view name, zab::Rules* zab_rules, coordination::Rules* rules,
               replication::Rules* replication_rules) {
  for (const zab::RuleEntry& entry : zab::AllRules()) {
    if (name == entry.name) {
      zab_rules->*entry.member = false;
      return true;
    }
  }
  for (const coordination::RuleEntry& entry : coordination::AllRules()) {
    if (name == entry.name) {
      rules->*entry.member = false;
      return true;
    }
  }
  for (const replication::RuleEntry& entry : replication::AllRules()) {
    if (name == entry.name) {
      replication_rules->*entry.member = false;
      return true;
    }
  }
  return false;
}

}  // namespace

const std::vector<FaultInfo>& AllFaults() {
  static const std::vector<FaultInfo> faults = {
      {FaultKind::kKill, "kill", "a process dies; what it gave to its system survives"},
      {FaultKind::kPowerLoss, "power-loss",
       "a machine loses its power; unsynced sectors and directory entries may be lost, in any "
       "subset"},
      {FaultKind::kPowerLossAll, "power-loss-all", "all machines lose their power at one instant"},
      {FaultKind::kKillLeader, "kill-leader", "whoever leads is killed or loses its power"},
      {FaultKind::kCrashInStep, "crash-in-step",
       "a server dies between two outputs of a step: some are carried out, others are not"},
      {FaultKind::kCrashOnEvent, "crash-on-event",
       "a server dies at the moment of a protocol event (new epoch, sync, snapshot, segment roll)"},
      {FaultKind::kPause, "pause", "a process stands still, up to several session timeouts"},
      {FaultKind::kIsolate, "isolate", "one server and the others do not reach each other"},
      {FaultKind::kIsolateOneWay, "isolate-one-way", "one server is not heard, or does not hear"},
      {FaultKind::kSplit, "split", "the servers fall into two halves"},
      {FaultKind::kBridge, "bridge", "two halves that have one server in common"},
      {FaultKind::kCutLink, "cut-link", "two servers do not reach each other, one way or both"},
      {FaultKind::kIsolateOnEvent, "isolate-on-event",
       "a server is isolated at the moment of a protocol event"},
      {FaultKind::kResetConnection, "reset-connection", "one connection is reset"},
      {FaultKind::kResetStorm, "reset-storm", "many connections are reset"},
      {FaultKind::kStickConnection, "stick-connection",
       "one direction of a connection delivers nothing any more"},
      {FaultKind::kSlowLink, "slow-link", "two servers are far from each other for a while"},
      {FaultKind::kSlowDisk, "slow-disk", "one disk becomes slow for a while"},
      {FaultKind::kDiskError, "disk-error", "the next write or sync of a server fails"},
      {FaultKind::kDiskFull, "disk-full", "a disk has no space for a while"},
      {FaultKind::kClockJump, "clock-jump", "a wall clock is set, forwards or backwards"},
      {FaultKind::kClientVanishes, "client-vanishes",
       "a client dies without closing its session, which must expire"},
      {FaultKind::kClientMoves, "client-moves",
       "a client drops its connection and takes its session to another server"},
      {FaultKind::kStopCleanly, "stop-cleanly",
       "a server is asked to stop: it hands over what it leads, and leaves"},
      {FaultKind::kKillPartitionLeader, "kill-partition-leader",
       "a broker that leads a partition is killed or loses its power"},
      {FaultKind::kPausePartitionLeader, "pause-partition-leader",
       "a broker that leads a partition stands still, around its session's timeout"},
      {FaultKind::kResetCoordination, "reset-coordination",
       "a broker's connection to the coordination service is reset"},
      {FaultKind::kStickCoordination, "stick-coordination",
       "one direction of such a connection delivers nothing any more: replies are lost or late"},
      {FaultKind::kDiskReplaced, "disk-replaced",
       "a broker that does not vote comes back with an empty disk"},
      {FaultKind::kCutReplication, "cut-replication",
       "what a broker fetches from others, or they from it, is held back; all else gets through"},
      {FaultKind::kSlowCoordination, "slow-coordination",
       "what a broker asks of the coordination service, or hears from it, is late for a while"},
      {FaultKind::kStrikeLeaders, "strike-leaders",
       "the next brokers that begin to lead a partition die or stand still, soon after"},
      {FaultKind::kBitRot, "bit-rot", "bits of a sector flip on a disk"},
      {FaultKind::kLatentError, "latent-error",
       "a sector cannot be read any more until something is written there"},
      {FaultKind::kMisdirectedWrite, "misdirected-write",
       "the next write of a server lands at another place, perhaps of another file"},
      {FaultKind::kLyingSync, "lying-sync",
       "syncs of a server say for a while that they are done, and make nothing durable"},
      {FaultKind::kDiskLost, "disk-lost", "a voter comes back with an empty disk"},
  };
  return faults;
}

const char* FaultName(FaultKind kind) {
  for (const FaultInfo& info : AllFaults()) {
    if (info.kind == kind) return info.name;
  }
  LS_UNREACHABLE();
}

const std::vector<Scenario>& AllScenarios() {
  static const std::vector<Scenario> scenarios = {
      {"swarm", "everything is drawn: which faults exist, their rates, the limits, the workload",
       EveryFault(false)},
      {"calm", "no faults at all", {}},
      {"crashes",
       "servers die and come back, at any point",
       {FaultKind::kKill, FaultKind::kPowerLoss, FaultKind::kPowerLossAll, FaultKind::kKillLeader,
        FaultKind::kCrashInStep, FaultKind::kCrashOnEvent}},
      {"network",
       "partitions, resets and stuck connections; no server dies",
       {FaultKind::kIsolate, FaultKind::kIsolateOneWay, FaultKind::kSplit, FaultKind::kBridge,
        FaultKind::kCutLink, FaultKind::kIsolateOnEvent, FaultKind::kResetConnection,
        FaultKind::kResetStorm, FaultKind::kStickConnection, FaultKind::kSlowLink}},
      {"disks",
       "power losses; slow, failing, full and lying disks, and such as give back something else",
       {FaultKind::kPowerLoss, FaultKind::kPowerLossAll, FaultKind::kCrashInStep,
        FaultKind::kSlowDisk, FaultKind::kDiskError, FaultKind::kDiskFull, FaultKind::kBitRot,
        FaultKind::kLatentError, FaultKind::kMisdirectedWrite, FaultKind::kLyingSync,
        FaultKind::kDiskLost}},
      {"clients",
       "clients vanish and move, clocks jump, processes pause",
       {FaultKind::kClientVanishes, FaultKind::kClientMoves, FaultKind::kClockJump,
        FaultKind::kPause, FaultKind::kResetConnection}},
      {"no-budget", "as swarm, at any rate and on any number of servers: only safety is judged",
       EveryFault(false), false, false},
      {"brokers", "servers are brokers too, and Kafka's clients use them: everything is drawn",
       EveryFault(true), true},
      {"brokers-calm", "brokers and their clients, no faults at all", {}, true},
      {"brokers-crashes",
       "brokers die, pause and come back, at any point, and disks are replaced",
       {FaultKind::kKill, FaultKind::kPowerLoss, FaultKind::kPowerLossAll, FaultKind::kCrashInStep,
        FaultKind::kCrashOnEvent, FaultKind::kPause, FaultKind::kStopCleanly,
        FaultKind::kKillPartitionLeader, FaultKind::kPausePartitionLeader, FaultKind::kDiskReplaced,
        FaultKind::kStrikeLeaders},
       true},
      {"brokers-disks",
       "brokers lose their power; disks are slow, full, failing and lying, and give back something "
       "else, of logs too",
       {FaultKind::kKill, FaultKind::kPowerLoss, FaultKind::kPowerLossAll, FaultKind::kCrashInStep,
        FaultKind::kSlowDisk, FaultKind::kDiskError, FaultKind::kDiskFull, FaultKind::kStopCleanly,
        FaultKind::kKillPartitionLeader, FaultKind::kPausePartitionLeader, FaultKind::kDiskReplaced,
        FaultKind::kBitRot, FaultKind::kLatentError, FaultKind::kMisdirectedWrite,
        FaultKind::kLyingSync, FaultKind::kDiskLost},
       true},
      {"brokers-network",
       "brokers lose each other, the coordination service and their clients; none dies",
       {FaultKind::kPause, FaultKind::kIsolate, FaultKind::kIsolateOneWay, FaultKind::kSplit,
        FaultKind::kBridge, FaultKind::kCutLink, FaultKind::kIsolateOnEvent,
        FaultKind::kResetConnection, FaultKind::kResetStorm, FaultKind::kStickConnection,
        FaultKind::kSlowLink, FaultKind::kPausePartitionLeader, FaultKind::kResetCoordination,
        FaultKind::kStickCoordination, FaultKind::kCutReplication, FaultKind::kSlowCoordination},
       true},
  };
  return scenarios;
}

const Scenario* FindScenario(std::string_view name) {
  for (const Scenario& scenario : AllScenarios()) {
    if (name == scenario.name) return &scenario;
  }
  return nullptr;
}

const Scenario* WithoutBudget(const Scenario& scenario) {
  for (const Scenario& other : AllScenarios()) {
    if (!other.budget && other.brokers == scenario.brokers && other.faults == scenario.faults) {
      return &other;
    }
  }
  return nullptr;
}

bool IsRule(std::string_view name) {
  zab::Rules zab_rules;
  coordination::Rules rules;
  replication::Rules replication_rules;
  return BreakRule(name, &zab_rules, &rules, &replication_rules);
}

void SetServers(Plan* plan, uint32_t servers, uint32_t voters) {
  LS_CHECK(voters >= 1 && voters <= servers);
  plan->servers = servers;
  plan->options.voters.clear();
  for (uint32_t i = 1; i <= voters; ++i) plan->options.voters.push_back({i});
  if (plan->brokers.on) plan->brokers.voters = voters;
}

Plan DrawPlan(uint64_t seed, const Scenario& scenario,
              const std::vector<std::string>& break_rules) {
  RandomStream random = StreamFor(seed, Purpose::kPlan);
  Plan plan;
  plan.seed = seed;
  plan.servers = OneOf(random, {1u, 2u, 3u, 3u, 3u, 3u, 3u, 3u, 4u, 5u, 5u, 5u, 6u, 7u});
  for (uint32_t i = 1; i <= plan.servers; ++i) plan.options.voters.push_back({i});
  DrawLimits(random, &plan);
  DrawNetworkAndDisk(random, &plan);
  DrawWorkload(random, &plan);
  DrawFaults(random, scenario, &plan);
  RandomStream damage = StreamFor(seed, Purpose::kDamagePlan);
  DrawDamage(damage, scenario, &plan);
  if (scenario.brokers) {
    // From a stream of its own: the same seed without brokers stays what it is.
    RandomStream brokers = StreamFor(seed, Purpose::kBrokerPlan);
    DrawBrokers(brokers, &plan);
    RandomStream fail_overs = StreamFor(seed, Purpose::kFailOverPlan);
    DrawFailOvers(fail_overs, scenario, &plan);
    RandomStream hand_overs = StreamFor(seed, Purpose::kHandOverPlan);
    DrawHandOvers(hand_overs, scenario, &plan);
    RandomStream damaged_logs = StreamFor(seed, Purpose::kDamagedLogPlan);
    DrawDamagedLogs(damaged_logs, scenario, &plan);
  }
  replication::Rules none;
  for (const std::string& name : break_rules) {
    const bool known = BreakRule(name, &plan.options.zab.rules, &plan.options.coordination.rules,
                                 plan.options.broker ? &plan.options.broker->broker.rules : &none);
    LS_CHECK(known);
  }
  return plan;
}

std::string Describe(const Plan& plan) {
  std::string text = absl::StrFormat(
      "%d servers, tick %dms, snap_count %d, window %d/%dB, in flight %d, counter_max %d, segment "
      "%dB, retained %dB; latency %s+%s, sync %s, turn %s, drift %d ppm; %d clients, %d keys, "
      "think "
      "%s, outstanding %d; chaos %s, fault every %s:",
      plan.servers, plan.options.tick.Milliseconds(), plan.options.snap_count,
      plan.options.zab.window_transactions, plan.options.zab.window_bytes,
      plan.options.zab.proposals_in_flight_max, plan.options.zab.counter_max,
      plan.options.storage.segment_bytes, plan.options.storage.retained_bytes,
      plan.network.latency_min.ToString(), plan.network.latency_jitter.ToString(),
      plan.disk.sync.ToString(), plan.turn.ToString(), plan.drift_ppm_max, plan.workload.clients,
      plan.workload.keys, plan.workload.think.ToString(), plan.workload.outstanding_max,
      plan.chaos.ToString(), plan.fault_every.ToString());
  for (const FaultInfo& info : AllFaults()) {
    const uint32_t weight = plan.fault_weights[static_cast<size_t>(info.kind)];
    if (weight > 0) absl::StrAppend(&text, " ", info.name, "=", weight);
  }
  if (plan.older > 0) absl::StrAppend(&text, "; ", plan.older, " of the release before");
  if (!plan.budget) text += "; no budget";
  if (plan.brokers.on) text += Describe(plan.brokers);
  return text;
}

}  // namespace lockstep::sim
