// Brokers over an ensemble (tests/coordination/ensemble.h), joined by queues, each with a disk on
// which everything is durable at once unless it is held.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/replication/broker.h"
#include "tests/coordination/ensemble.h"

namespace lockstep::replication {

class Cluster {
 public:
  // Brokers 1 to `brokers`, all started.
  explicit Cluster(int32_t brokers, std::function<void(BrokerOptions*)> change = {},
                   uint32_t servers = 1);

  // Moves everything that is not held.
  void Run();
  // Lets time pass, in steps of deadlines.
  void Advance(Duration d);
  // Until `done`, for at most `limit`; whether it was.
  bool RunUntil(const std::function<bool()>& done, Duration limit = Seconds(60));
  Instant now() const { return ensemble.now(); }

  Broker& broker(int32_t id) { return *nodes_.at(id).broker; }
  bool running(int32_t id) const { return nodes_.at(id).broker != nullptr; }
  // The process is gone: connections are closed, its session stays until it expires.
  void Crash(int32_t id);
  void Start(int32_t id);
  void LoseDisk(int32_t id) { nodes_.at(id).disk = {}; }
  // A clean stop, as far as the broker does it.
  void Stop(int32_t id);
  // No byte between the broker and the coordination service, in both directions.
  void CutOff(int32_t id, bool cut);
  // What the broker sends to the coordination service arrives only when it is no longer held.
  void HoldRequests(int32_t id, bool held);
  // No byte between the broker and other brokers.
  void Isolate(int32_t id, bool isolated) { nodes_.at(id).isolated = isolated; }
  // The process does not run, and its clock does.
  void Pause(int32_t id, bool paused) { nodes_.at(id).paused = paused; }
  void HoldDisk(int32_t id, bool held) { nodes_.at(id).hold_disk = held; }
  // The broker's log of the partition turns out to be damaged.
  void DamageLog(int32_t id, const std::string& topic, int32_t partition);
  // Called with each frame that the coordination service sends to a broker; false loses the
  // connection instead.
  std::function<bool(int32_t, const Bytes&)> on_frame;

  AdminError Admin(int32_t id, AdminRequest request, Duration limit = Seconds(20));
  // Without waiting.
  AdminId AdminLater(int32_t id, AdminRequest request, Duration limit = Seconds(20));
  std::optional<AdminError> AdminResult(AdminId id) const;

  // Appends `count` records at the broker, which should be the leader. What became of it: Produced.
  ProduceId Produce(int32_t id, const std::string& topic, int32_t partition, int32_t count = 1,
                    Acks acks = Acks::kAll);
  std::optional<ProduceError> Produced(ProduceId id) const;
  // Whether acks=all is answered with kNone; at whichever broker leads.
  bool Commit(const std::string& topic, int32_t partition, int32_t count = 1);

  std::optional<int64_t> TakeProducerId(int32_t id);

  // As a broker's metadata has it.
  const PartitionState* StateAt(int32_t id, const std::string& topic, int32_t partition);
  // The broker that leads, by its own account; -1: none.
  int32_t Leader(const std::string& topic, int32_t partition);
  const Partition* Replica(int32_t id, const std::string& topic, int32_t partition);
  std::vector<int32_t> Isr(const std::string& topic, int32_t partition);
  std::vector<int32_t> Replicas(const std::string& topic, int32_t partition);
  // Directories on a broker's disk: "topic-0".
  std::set<std::string> Logs(int32_t id) const;
  size_t EventCount(int32_t id, EventKind kind) const;

  coordination::Ensemble ensemble;
  coordination::TestClient client{&ensemble};  // an operator's

 private:
  struct Log {
    std::string topic;
    PartitionId partition;
    int64_t start = 0;
    int64_t end = 0;
    std::vector<storage::EpochStart> epochs;
    std::vector<std::pair<int64_t, Bytes>> batches;  // by base offset
    int64_t high_watermark = 0;
  };
  struct Disk {
    std::map<storage::LogNumber, Log> logs;
    uint32_t next_number = 1;
    int64_t broker_epoch = 0;
  };
  struct Node {
    std::unique_ptr<Broker> broker;
    Disk disk;
    std::map<uint64_t, ConnectionId> coordination;  // the broker's number -> the server's
    std::map<ConnectionId, std::pair<int32_t, ConnectionId>> peers;
    std::deque<std::function<void(Broker*, BrokerOutput*)>> inbox;
    bool isolated = false;
    bool cut = false;
    bool paused = false;
    bool hold_disk = false;
    bool hold_requests = false;
    std::vector<std::pair<ConnectionId, Bytes>> held_requests;
    uint64_t durable = 0;  // the last write that the broker was told of
    uint64_t written = 0;
    std::map<EventKind, size_t> events;
  };

  void Step(int32_t id, const std::function<void(Broker*, BrokerOutput*)>& input);
  void Carry(int32_t id, BrokerOutput* output);
  void CarryLogs(int32_t id, BrokerOutput* output);
  void Change(Log* log, const storage::LogChange& change);
  bool Deliver(int32_t id);
  void Disconnect(int32_t id, ConnectionId connection);

  std::function<void(BrokerOptions*)> change_;
  std::map<int32_t, Node> nodes_;
  uint64_t next_accepted_ = 1;
  uint64_t next_id_ = 1;
  uint64_t starts_ = 0;
  std::map<ProduceId, ProduceError> produced_;
  std::map<AdminId, AdminError> admin_;
};

}  // namespace lockstep::replication
