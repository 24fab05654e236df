// Several replicas of one partition, a registry in place of the coordination service, and every
// fault that the data path must stand: messages lost, repeated and out of order, watches that come
// late or not at all, sessions that expire under a running broker, lost answers of the registry,
// crashes between any two durable changes, lost disks, replicas removed and added again. One seed
// is one run. Ghosts watch what was ever committed.
//
// Small on purpose, and only Partition is the real thing: the simulator does this with everything
// around it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/event.h"
#include "core/base/random.h"
#include "core/replication/partition.h"

namespace lockstep::replication {

// A log as the store would keep it.
struct FakeLog {
  struct Batch {
    Offset base = 0;
    Offset end = 0;  // exclusive
    int32_t epoch = 0;
    uint64_t value = 0;  // which batch this is, of all ever produced
    Bytes bytes;
  };
  Offset start = 0;
  Offset end = 0;
  std::deque<Batch> batches;
  std::vector<storage::EpochStart> epochs;

  void Apply(const storage::LogChange& change);
  // What stands at an offset; nothing if it is below the start, or not below the end.
  const Batch* At(Offset offset) const;
  // Whole batches from the one that holds `from` on, at most `count`.
  std::vector<Bytes> Read(Offset from, size_t count) const;
  storage::RecoveredLog Recovered(Offset high_watermark) const;
};

// A batch of `records` records as a leader appends it.
Bytes MakeBatch(Offset base, LeaderEpoch epoch, int32_t records, uint64_t value);

class PartitionEnsemble {
 public:
  struct Options {
    Rules rules;
    int steps = 500;
    bool trace = false;
  };

  PartitionEnsemble(uint64_t seed, const Options& options);
  ~PartitionEnsemble();

  // Random faults, then none, and everything has to come into order.
  void Run();

  // What went wrong first; empty if nothing did. "name: what".
  const std::string& violation() const { return violation_; }
  int acknowledged() const { return acknowledged_; }
  // How often an event with that name (and reason) was seen.
  const std::map<std::string, int>& seen() const { return seen_; }
  // What happened, a line each, if Options::trace.
  const std::string& trace() const { return trace_; }

 protected:  // of a directed schedule, which is a subclass
  struct Registry {
    uint64_t revision = 0;
    int64_t last_czxid = 100;
    BrokerEpoch leader_incarnation;
    PartitionState state;
    std::map<BrokerId, BrokerEpoch> registered;
  };
  struct Node {
    BrokerId id;
    bool up = false;
    uint64_t lag = 0;   // of 100 watches come late, and reads go astray
    bool lost = false;  // its disk, since it was registered last
    uint64_t life = 0;  // of the replica's machine: answers to another one find nobody
    BrokerEpoch incarnation;
    std::unique_ptr<Partition> partition;  // null: down, or not assigned
    FakeLog log;                           // with what is not durable
    FakeLog durable;
    std::deque<storage::LogChange> pending;
    Offset checkpoint = 0;  // of the high watermark
    Registry view;
    std::map<ProduceId, std::pair<uint64_t, Acks>> waiting;
    std::set<std::pair<Offset, uint64_t>> ever_durable;
  };
  struct Message {
    enum class Kind { kFetch, kAnswer, kIsrChange, kIsrOutcome, kWatch } kind = Kind::kFetch;
    BrokerId from;
    BrokerId to;
    uint64_t life = 0;  // of the sender, or for answers of the receiver
    BrokerEpoch incarnation;
    ReplicaFetchRequest::Entry fetch;
    ReplicaFetchResponse::Entry answer;
    PartitionOutput::IsrChange change;
    Partition::Outcome outcome = Partition::Outcome::kUnknown;
    int32_t version = 0;
    Registry view;
    int not_before = 0;  // the step
  };
  enum Action : int {
    kDeliver,
    kDrop,
    kRepeat,
    kProduce,
    kPersist,
    kCrash,
    kRestart,
    kExpire,
    kElect,
    kDepose,
    kRefresh,
    kRefetch,
    kPass,
    kLoseDisk,
    kMoveLogStart,
    kReassign,
    kLoseOutcome,
    kActions
  };

  bool Below(uint64_t chance, uint64_t of) { return random_.Chance(chance, of); }
  Node& node(BrokerId id) { return nodes_[static_cast<size_t>(id.value - 1)]; }
  Node& AnyNode() { return nodes_[random_.Below(nodes_.size())]; }
  void Trace(BrokerId broker, const std::string& what) {
    if (options_.trace) trace_ += broker.ToString() + " " + what + "\n";
  }
  void Violate(const std::string& what) {
    if (violation_.empty()) violation_ = what;
  }

  void Send(Message message);
  void Do(Action action);
  void Step(const std::function<void()>& step);
  void Finish(Node* node, PartitionOutput* output);
  void Check();
  void CheckReplica(const Node& node);
  void CheckElectable(const Node& node);
  void NoteCommitted(const Node& node);
  void Heal();
  bool InOrder();

  // The registry.
  void Changed();
  bool IsElectable(const Node& node) const;
  void Register(Node* node);
  void Elect();
  void Expire(Node* node);
  void Reassign();
  void Apply(const Message& message);
  // A broker.
  void Start(Node* node);
  void Crash(Node* node, bool lose_disk);
  void Persist(Node* node);
  void Produce(Node* node, Acks acks);
  void SendFetch(Node* node);
  void See(Node* node, const Registry& view);
  void OnFetch(Node* node, const Message& message);
  // The broker that waits for the outcome of `message` never hears of it.
  void LoseOutcome(const Message& message);
  void Deliver(size_t index);
  void Wake(Node* node);

  Options options_;
  RandomStream random_;
  Instant now_ = Instant{} + Seconds(1);
  uint32_t min_insync_ = 1;
  uint64_t out_of_order_ = 0;  // of 100 deliveries
  uint64_t slow_ = 0;          // of 100 messages
  int step_ = 0;
  std::vector<int> weights_;
  std::vector<Node> nodes_;
  Registry registry_;
  std::deque<Message> messages_;
  uint64_t values_ = 0;
  uint64_t lives_ = 0;

  // Ghosts.
  std::map<Offset, std::pair<uint64_t, int32_t>> committed_;  // value and epoch
  Offset true_high_watermark_ = 0;
  std::string violation_;
  int acknowledged_ = 0;
  std::map<std::string, int> seen_;
  std::string trace_;
};

}  // namespace lockstep::replication
