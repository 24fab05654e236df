// A schedule: everything that was decided in a run, as a list that can be written down, edited,
// replayed and shrunk. docs/simulator.md describes the file.
//
// What is decided: the plan, which clients exist, each fault with its target and its length, and
// what clients ask for. Everything else (latencies, cut points, when a client dials again) is drawn
// from the streams of sim/purpose.h, by the plan's `streams`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/event.h"
#include "core/base/time.h"
#include "core/server/io.h"
#include "sim/plan.h"

namespace lockstep::sim {

// Of FaultDecision::place, inclusive.
inline constexpr uint32_t kPlaceMax = 999'999;

enum class StopKind : uint8_t { kKill, kPowerLoss };

// A connection, by what does not depend on how many there were before: who dialed whom, what for,
// and which one of those that are established now.
struct ConnectionName {
  server::LinkKind link{};
  uint32_t from = 0;  // nodes: servers, then clients
  uint32_t to = 0;
  uint32_t nth = 0;
  uint32_t direction = 0;  // that is stuck; 0: from `from` to `to`
  bool operator==(const ConnectionName&) const = default;
};

struct FaultDecision {
  FaultKind kind{};
  std::optional<uint32_t> server;       // from 0
  std::optional<uint32_t> other;        // a second server
  std::optional<uint32_t> client;       // of the world, from 0
  StopKind stop = StopKind::kKill;      // how a server dies
  bool out = false;                     // it is not heard; of a cut link: from `server` to `other`
  bool in = false;                      // it does not hear; ... and back
  bool with_clients = false;            // cut off from clients, too
  EventKind event = EventKind::kCount;  // that it waits for
  uint32_t count = 0;  // at the count-th such event; turns until a crash; times slower
  int64_t by_ms = 0;   // of a clock
  Duration extra;      // of a slow link
  uint32_t place = 0;  // of damage: a sector of the disk, see Disk
  // How long it lasts; zero: it does not end by itself, or is not known (it waited for an event
  // that did not come).
  Duration time;
  std::vector<uint32_t> side;  // nodes of one half
  std::vector<ConnectionName> connections;
};

// One part of a multi.
struct MultiPart {
  enum class Kind : uint8_t {
    kSet,
    kSetVersion,
    kCheck,
    kCreate,
    kCreateSequential,
    kCreateEphemeral,
    kDelete,
    kGet,
    kChildren,
    kCount
  };
  Kind kind = Kind::kSet;
  uint32_t key = 0;
  std::optional<uint32_t> parent;  // of a sequential node; nothing: the root
  bool ephemeral = false;
  uint32_t bytes = 0;  // of the value
};

// What a client of ZooKeeper's protocol does once it is connected.
struct ClientStep {
  ClientOp op = ClientOp::kSet;
  bool leaves = false;  // no request: it goes to another server
  uint32_t key = 0;
  std::optional<uint32_t> parent;  // of a sequential node; nothing: the root
  bool root = false;               // "/" instead of a key
  bool ephemeral = false;
  bool other = false;  // getChildren (not 2); recursive; checkWatches
  uint32_t type = 0;   // of the watches to remove
  uint32_t nth = 0;    // of its own paths
  uint32_t bytes = 0;  // of the value
  std::vector<MultiPart> parts;
};

// Batches for a partition; of each the sizes of its records' values.
struct ProducerStep {
  uint32_t topic = 0;  // of the plan
  int32_t partition = 0;
  std::vector<std::vector<uint32_t>> batches;
};

struct AdminStep {
  AdminOp op{};
  uint32_t topic = 0;
  int32_t partition = 0;
  int64_t number = 0;             // an offset, or min.insync.replicas
  std::vector<uint32_t> servers;  // of a reassignment
};

struct Decision {
  Instant at;
  uint32_t client = 0;  // of the world, from 0; not of a fault
  std::variant<FaultDecision, ClientStep, ProducerStep, AdminStep> what;

  bool is_fault() const { return what.index() == 0; }
};

struct Schedule {
  std::string scenario = "swarm";
  std::vector<std::string> break_rules;
  Plan plan;
  std::vector<uint32_t> absent;     // clients of the world that never come
  std::vector<Decision> decisions;  // by time
  // What was seen when it was written; for people and for `replay` to compare with.
  std::string fails;  // an invariant; "" if it was clean
  uint64_t hash = 0;

  bool Absent(uint32_t client) const;
};

// How many clients there are in the world of a plan, and the names that traces and files have for
// them: c0…, admin, p0…, r0…, g0….
uint32_t ClientsOf(const Plan& plan);
std::string ClientName(const Plan& plan, uint32_t client);
std::optional<uint32_t> ClientNamed(const Plan& plan, std::string_view name);

// Hands out the decisions of a schedule to those who carry them out, or takes down what they decide
// by themselves.
class Script {
 public:
  Script() = default;  // takes down
  explicit Script(const Schedule* schedule);

  bool follows() const { return schedule_ != nullptr; }
  bool absent(uint32_t client) const { return follows() && schedule_->Absent(client); }

  // ---- Following. `actor`: kFaults or 1 + client.
  static constexpr uint32_t kFaults = 0;
  // The actor's next decision, or nullptr.
  const Decision* Next(uint32_t actor) const;
  Instant NextAt(uint32_t actor) const;
  // It was carried out at `now`; or it was not, since what it is about was not there.
  void Take(uint32_t actor, Instant now);
  void Miss(uint32_t actor);

  // ---- Taking down. The number is for recorded().
  size_t Record(Decision decision);
  Decision& recorded(size_t number) { return recorded_[number]; }
  std::vector<Decision> TakeRecorded() { return std::move(recorded_); }

  // Numbers of the schedule's decisions that had no effect: their target was not there, or they
  // never came.
  std::vector<size_t> Unmatched() const;
  // Those of clients that came this much later than the file says, since their client was not
  // connected, or had no room.
  std::vector<std::pair<size_t, Duration>> Late() const;

 private:
  struct Actor {
    std::vector<size_t> decisions;
    size_t next = 0;
  };
  const Schedule* schedule_ = nullptr;
  std::vector<Actor> actors_;
  std::vector<bool> taken_;
  std::vector<Duration> late_;
  std::vector<Decision> recorded_;
};

}  // namespace lockstep::sim
