// What a seed draws before its run begins: the cluster, its limits, the faults that exist at all
// and their rates, the workload (swarm testing: each seed leaves most things out and turns others
// up).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/time.h"
#include "core/server/server.h"
#include "sim/broker_plan.h"

namespace lockstep::sim {

enum class FaultKind : uint8_t {
  kKill,            // a process dies; the system's page cache survives
  kPowerLoss,       // a machine loses its power: unsynced sectors and directory entries may be lost
  kPowerLossAll,    // all machines at the same instant
  kKillLeader,      // kill or power loss of whoever leads
  kCrashInStep,     // power loss or kill between two outputs of a coming step
  kCrashOnEvent,    // power loss or kill at the moment of a protocol event
  kPause,           // a process stands still, then goes on
  kIsolate,         // one server reaches nobody
  kIsolateOneWay,   // one server is heard by nobody, or hears nobody
  kSplit,           // two halves
  kBridge,          // two halves that share one server
  kCutLink,         // one pair, one way or both
  kIsolateOnEvent,  // an isolation at the moment of a protocol event
  kResetConnection,  // one connection is reset
  kResetStorm,       // many are
  kStickConnection,  // one direction of a connection delivers nothing any more
  kSlowLink,         // one pair becomes slow
  kSlowDisk,         // one disk becomes slow
  kDiskError,        // the next write or sync of one server fails
  kDiskFull,         // no space on one server for a while
  kClockJump,        // a wall clock is set
  kClientVanishes,   // a client dies without closing its session
  kClientMoves,      // a client drops its connection and goes to another server
  // Of worlds with brokers. New kinds come last: what a seed draws is not shifted.
  kStopCleanly,           // a server is asked to stop, and does when it has handed over
  kKillPartitionLeader,   // kill or power loss of a broker that leads a partition
  kPausePartitionLeader,  // such a broker stands still, around its session's timeout
  kResetCoordination,     // a broker's connection to the coordination service is reset
  kStickCoordination,     // one direction of it delivers nothing any more: lost and late replies
  kDiskReplaced,          // a server that does not vote comes back with an empty disk
  // Of the seeds whose leaderships follow each other quickly (DrawFailOvers).
  kCutReplication,    // a broker's fetches, or others' from it; its sessions and clients stay
  kSlowCoordination,  // a broker and the coordination service are far from each other for a while
  kStrikeLeaders,     // the next brokers that begin to lead die or stand still, soon after
  // Damage: what a disk gives back is not what it was given. Within a budget: docs/simulator.md.
  kBitRot,            // bits of a sector flip
  kLatentError,       // a sector cannot be read until it is written
  kMisdirectedWrite,  // the next write lands somewhere else
  kLyingSync,         // syncs of one server say that they are done, and are not
  kDiskLost,          // a voter comes back with an empty disk
  kCount
};
constexpr bool IsDamage(FaultKind kind) { return kind >= FaultKind::kBitRot; }
struct FaultInfo {
  FaultKind kind;
  const char* name;
  const char* says;
};
const std::vector<FaultInfo>& AllFaults();
const char* FaultName(FaultKind kind);

struct NetworkPlan {
  Duration latency_min;
  Duration latency_jitter;      // uniform on top
  uint32_t tail_per_mille = 0;  // segments that take 20 times as long
  uint32_t cut_percent = 0;     // deliveries that are cut at a random byte
  Duration gives_up_after;      // a sender whose bytes are held back
  Duration dial_timeout;
  Duration retransmit_max;   // after a direction is released
  uint32_t far_percent = 0;  // pairs of nodes that are far from each other, all the time
};

struct DiskPlan {
  Duration op;                       // mean
  Duration sync;                     // mean
  uint32_t slow_sync_per_mille = 0;  // of 10 times the mean
  // What a power loss keeps of unsynced sectors: drawn for each crash among the allowed ways.
  bool keeps_none = true;
  bool keeps_all = true;
  bool keeps_some = true;
  // Directory entries: a prefix of the unsynced changes, or any subset.
  bool entries_out_of_order = false;
};

enum class ClientOp : uint8_t {
  kSet,
  kSetVersion,  // with the version that was read
  kGet,
  kGetWatch,
  kExistsWatch,
  kCreate,
  kDelete,
  kCreateSequential,
  kCreateEphemeral,
  kDeleteOwn,  // an ephemeral or sequential node of one's own
  kChildren,
  kChildrenWatch,
  kSyncGet,
  kCloseSession,
  kUnknown,  // an op code that does not exist
  kMulti,    // some of them are refused
  kMultiRead,
  kAddWatch,
  kRemoveWatches,  // or checkWatches
  kCount
};

struct WorkloadPlan {
  uint32_t clients = 2;
  uint32_t keys = 4;
  Duration think;                // mean between two requests of a client
  uint32_t outstanding_max = 1;  // requests that a client has in flight
  uint32_t burst_percent = 0;    // turns in which it fills up to outstanding_max at once
  uint32_t move_percent = 0;  // turns after which it goes to another server, not awaiting replies
  uint32_t value_bytes_max = 16;
  int32_t session_timeout_ms = 0;
  std::array<uint32_t, static_cast<size_t>(ClientOp::kCount)> weights{};
};

struct Plan {
  uint64_t seed = 0;
  // What is not decided is drawn, 0: from one stream per purpose, as seeds are; else from streams
  // keyed by this number, the place and the time, so that leaving something out shifts nothing
  // elsewhere.
  uint32_t streams = 0;
  uint32_t servers = 3;
  server::Options options;  // of every server; `server` is filled in for each
  NetworkPlan network;
  DiskPlan disk;
  WorkloadPlan workload;
  Duration turn;              // mean time a server is busy with a batch of inputs; 0: none
  int64_t drift_ppm_max = 0;  // of each server's clock, either way
  Duration restart;           // mean time that a process stays down
  Duration fault_every;       // mean
  Duration damage_every;      // likewise, of those that IsDamage()
  std::array<uint32_t, static_cast<size_t>(FaultKind::kCount)> fault_weights{};
  Duration chaos;       // how long faults happen
  Duration heal_limit;  // within which the healed ensemble must serve
  bool budget = true;   // faults leave a quorum, and the run ends healed; see Scenario
  // Servers that begin as the release before this one, and are of this one when they start again.
  uint32_t older = 0;
  bool heal_only_a_quorum = false;
  BrokerPlan brokers;

  // Servers that are of the ensemble: the first ones.
  uint32_t voters() const { return static_cast<uint32_t>(options.voters.size()); }
};

struct Scenario {
  const char* name;
  const char* says;
  std::vector<FaultKind> faults;  // that may be drawn
  bool brokers = false;
  // Without it faults come at any rate and may leave no quorum; only safety is judged. What would
  // make servers forget unnoticed stays within what the others have: no protocol is safe then.
  bool budget = true;
};
const std::vector<Scenario>& AllScenarios();
// The one with the same faults and no budget, or nullptr.
const Scenario* WithoutBudget(const Scenario& scenario);
// nullptr if there is none of this name.
const Scenario* FindScenario(std::string_view name);

// `break_rules` are names from zab::AllRules(), coordination::AllRules() and
// replication::AllRules().
Plan DrawPlan(uint64_t seed, const Scenario& scenario, const std::vector<std::string>& break_rules);
// Makes it a world of `servers`, of which the first `voters` are of the ensemble.
void SetServers(Plan* plan, uint32_t servers, uint32_t voters);
// Whether there is a rule of this name.
bool IsRule(std::string_view name);

// One line: what the plan is, for the head of a trace.
std::string Describe(const Plan& plan);

}  // namespace lockstep::sim
