// A whole cluster in one thread: servers, disks, network, clocks and clients, driven by one queue.
//
// The servers are the very machines of production; the world only carries out what they ask for, as
// the shell does, and decides what goes wrong.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/base/time.h"
#include "core/server/server.h"
#include "sim/checkers/committed_log.h"
#include "sim/checkers/group_history.h"
#include "sim/checkers/histories.h"
#include "sim/checkers/replication.h"
#include "sim/checkers/znode_model.h"
#include "sim/client.h"
#include "sim/host.h"
#include "sim/kafka_client.h"
#include "sim/meter.h"
#include "sim/network.h"
#include "sim/plan.h"
#include "sim/probes.h"
#include "sim/queue.h"
#include "sim/schedule.h"
#include "sim/trace.h"

namespace lockstep::sim {

class Faults;

class World {
 public:
  // `script` is followed, or takes down what is decided; nullptr: neither.
  World(const Plan& plan, Trace* trace, Probes* probes, Script* script = nullptr);
  ~World();
  World(const World&) = delete;

  // Runs to the end. Throws Failure.
  void Run();

  uint64_t events() const { return events_; }
  Instant now() const { return now_; }
  int64_t committed() const { return committed_.size(); }
  // Ends the run there, healed or not. Never unless set.
  void set_until(Instant until) { until_ = until; }
  // The trace hash after each event, for the search of the first divergence. Off unless set.
  void set_hash_log(std::vector<uint64_t>* log) { hash_log_ = log; }
  // Ends the run after so many events. Never unless set.
  void set_events_max(uint64_t events) { events_max_ = events; }
  // "at 0.263969 s: arrive 3/0": the event that was handled last, for FindDivergence.
  std::string LastEvent() const;
  // A canary for the checks of determinism: something of the outside that gets in, once.
  void set_leak(uint64_t (*leak)()) { leak_ = leak; }
  // What checkers cost: each call of one is timed by the meter's clock. Off unless set.
  void set_meter(Meter* meter) { meter_ = meter; }

  // ---- For faults. Servers are numbered from 0 here.
  uint32_t servers() const { return plan_.servers; }
  bool up(uint32_t server) const { return hosts_[server].machine != nullptr; }
  // The server that leads and is established, of the highest epoch; or any that is leading.
  std::optional<uint32_t> Leader() const;
  void Stop(uint32_t server, StopKind kind);
  void CrashWithin(uint32_t server, uint32_t turns) { hosts_[server].crash_in_turns = turns; }
  void Pause(uint32_t server, Duration time);
  void JumpClock(uint32_t server, int64_t by_ms);
  Network& network() { return network_; }
  Disk& disk(uint32_t server) { return hosts_[server].disk; }
  EventQueue& queue() { return queue_; }
  Probes& probes() { return *probes_; }
  Trace& trace() { return *trace_; }
  // ZooKeeper's clients first, then Kafka's.
  uint32_t clients() const {
    return static_cast<uint32_t>(clients_.size() + kafka_clients_.size());
  }
  void VanishClient(uint32_t client);
  void MoveClient(uint32_t client);
  // The budget of damage: `server` is a voter that runs, and without it there is a quorum of
  // servers whose disks are in order and that have been counted before.
  bool MayDamage(uint32_t server) const;
  // In worlds with brokers, of any server: what others have of what is on its disk, while all their
  // disks are in order. The disk is told what it may damage. False: nothing.
  bool AllowDamage(uint32_t server);
  bool AnyDamaged() const;
  // It may lose its whole disk, budget or not: else what is left is no ensemble, or a new one.
  bool MayLoseDisk(uint32_t server) const;
  // It loses its power, and then its disk.
  void LoseDisk(uint32_t server);
  // ---- In worlds with brokers.
  void StopCleanly(uint32_t server);
  // Requires: it is no voter.
  void ReplaceDisk(uint32_t server);
  // A server that leads a partition, as far as the coordination service knows, and is up.
  std::optional<uint32_t> PartitionLeader(RandomStream& random) const;

 private:
  enum Phase : uint64_t { kHeal = 1, kCheckHealed = 2 };

  void Handle(const Due& due);
  void Start(uint32_t server);
  void Deliver(std::vector<Delivery>* deliveries);
  void DeliverToServer(Delivery delivery);
  void DeliverToClient(Delivery delivery);
  void Enqueue(uint32_t server, server::Input input);
  void Leak();
  void RunReadyTurns();
  void RunTurn(uint32_t server);
  void Observe(uint32_t server, const server::Output& output);
  void ObserveApplied(uint32_t server, const server::Output& output);
  void ObserveCommitted(uint32_t server, int64_t index);
  void CheckExpiry(uint32_t server, SessionId session) const;
  void ObserveEvents(uint32_t server, const server::Output& output);
  // Carries out all outputs, or a random part of them if `partly`.
  void CarryOut(uint32_t server, server::Output* output, bool partly);
  void ScheduleWake(uint32_t server);
  void OnWake(uint32_t server, Instant at);
  void OnFatal(uint32_t server, const std::string& why);
  bool Remembers(uint32_t server) const;
  uint32_t HowManyRemember() const;
  bool MayForget(uint32_t server) const;
  // ---- In worlds with brokers.
  Disk::Bearable BearableOf(uint32_t server, std::vector<Replication::LogMark>* logs) const;
  bool OthersInOrder(uint32_t server) const;
  void KeepWord(uint32_t server, bool power_loss);
  void RecheckMarks();
  void RestoreLogs();
  void OnBrokerFatal(uint32_t server, const std::string& why);
  void ProbeDeath(uint32_t server);
  void CarryOutClient(uint32_t client);
  KafkaClient* Kafka(uint32_t client) {
    return client < clients_.size() ? nullptr : kafka_clients_[client - clients_.size()].get();
  }
  void AddKafkaClients();
  void ObserveBroker(uint32_t server, const server::Output& output);
  void StopServer(uint32_t server, StopKind kind, bool cleanly);
  void Heal();
  // Empty if everything is as it must be in the end, else an invariant that does not hold yet.
  std::string NotHealed(std::string* detail) const;
  std::string BrokersNotHealed(std::string* detail) const;
  std::string PartitionNotHealed(const std::string& topic, int32_t partition,
                                 const Replication::Truth& truth, std::string* detail) const;
  void CheckHealed();
  int64_t UnixMs(uint32_t server) const;
  std::string ServerName(uint32_t server) const { return "s" + std::to_string(server + 1); }
  std::string NodeName(uint32_t node) const;
  // In world_trace.cc.
  void TraceWorld() const;
  void TraceSent(uint32_t node, ConnectionId connection, const Bytes& data) const;
  void TraceDelivery(const Delivery& delivery) const;
  void MixTask(const Due& due);
  bool absent(uint32_t client) const { return script_ != nullptr && script_->absent(client); }
  // What the host of a server draws for: of a world with keyed streams each is a stream of its own.
  enum class HostDraw : uint64_t { kStart, kTurn, kCut, kDeath, kRestart, kHeal, kCount };
  RandomStream& HostRandom(uint32_t server, HostDraw draw);

  const Plan plan_;
  Trace* trace_;
  Probes* probes_;
  Script* script_;
  EventQueue queue_;
  Network network_;
  RandomStream host_random_;
  CommittedLog committed_;
  ZnodeModel model_;
  Histories histories_;
  std::vector<Host> hosts_;
  std::vector<std::unique_ptr<Client>> clients_;
  Replication replication_;
  GroupHistory group_history_;
  std::vector<std::unique_ptr<KafkaClient>> kafka_clients_;
  std::unique_ptr<Faults> faults_;

  Instant now_;
  uint64_t events_ = 0;
  bool done_ = false;
  Instant until_ = Instant::Never();
  uint64_t events_max_ = UINT64_MAX;
  Task last_;
  Instant heal_deadline_;
  std::vector<uint32_t> ready_;  // servers whose turn is now
  std::vector<Delivery> deliveries_;
  server::Output output_;
  ClientOutput client_output_;
  std::vector<uint64_t>* hash_log_ = nullptr;
  uint64_t (*leak_)() = nullptr;
  Meter* meter_ = nullptr;
};

}  // namespace lockstep::sim
