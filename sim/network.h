// Simulated connections that behave as TCP's do: two ordered streams of bytes, that can be refused,
// reset, closed, stuck in one direction, or half open because one side lost its power. Bytes are
// never lost inside a stream: a partition or a stuck direction holds them back, until it heals or
// the sender's side gives up.
//
// The network knows nodes by number: servers first, then clients.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/bytes.h"
#include "core/base/ids.h"
#include "core/base/random.h"
#include "core/base/time.h"
#include "core/server/io.h"
#include "sim/plan.h"
#include "sim/queue.h"
#include "sim/schedule.h"

namespace lockstep::sim {

// What the network hands to a node.
struct Delivery {
  enum class Kind : uint8_t { kAccepted, kConnected, kBytes, kClosed, kWritten };
  Kind kind = Kind::kBytes;
  uint32_t node = 0;
  ConnectionId connection;  // as `node` knows it
  server::LinkKind link = server::LinkKind::kClient;
  uint32_t from = 0;  // the node at the other end
  uint64_t written = 0;
  Bytes data;
  uint64_t stream = 0;  // of kBytes: as Route::stream
};

class Network {
 public:
  // Nodes [0, servers) listen, and the others only dial.
  // `streams`: as a Plan's.
  Network(const NetworkPlan& plan, uint64_t seed, uint32_t servers, uint32_t nodes,
          EventQueue* queue, uint32_t streams = 0);

  // ---- What nodes do.
  void Dial(Instant now, uint32_t from, ConnectionId id, server::LinkKind link, uint32_t to);
  // Does nothing if the connection is gone.
  void Send(Instant now, uint32_t node, ConnectionId id, Bytes data);
  // After what was sent. Nothing is delivered to `node` for it any more.
  void Close(Instant now, uint32_t node, ConnectionId id);
  void PauseReading(uint32_t node, ConnectionId id);
  void ResumeReading(Instant now, uint32_t node, ConnectionId id);

  // Where bytes that `node` sends there go, for traces. Nothing if the connection is gone.
  struct Route {
    uint32_t to = 0;
    server::LinkKind link = server::LinkKind::kClient;
    uint64_t stream = 0;  // this direction of this connection, and never another one
  };
  std::optional<Route> RouteOf(uint32_t node, ConnectionId id) const;

  // ---- What happens to nodes.
  enum class NodeState : uint8_t {
    kUp,
    kRefusing,  // the process is down: connection attempts are refused
    kOff,       // no power: nothing is answered; what was sent there waits
  };
  void SetNodeState(Instant now, uint32_t node, NodeState state);
  // The process died; its system closes all connections, after a random part of what they had sent.
  void KillProcess(Instant now, uint32_t node);
  // The power failed: the other ends do not notice. A random part of what was sent still arrives.
  void PowerOff(Instant now, uint32_t node);

  // ---- Faults.
  // Whether bytes from `from` reach `to`.
  void SetBlocked(Instant now, uint32_t from, uint32_t to, bool blocked);
  bool blocked(uint32_t from, uint32_t to) const { return blocked_[from * nodes_.size() + to]; }
  // Likewise of what brokers fetch from each other alone.
  void SetReplicationBlocked(Instant now, uint32_t from, uint32_t to, bool blocked);
  void HealAll(Instant now);  // nothing blocked, nothing stuck, nothing slow
  // Added to the latency of every segment between the two, both ways.
  void SetExtraLatency(uint32_t a, uint32_t b, Duration extra);
  // Likewise of what a broker sends to the coordination service and of what it gets from there.
  void SetCoordinationLatency(uint32_t broker, Duration out, Duration in);
  // A random connection, of one kind or of any, that is established and open on both sides; by what
  // does not depend on how many there have been.
  std::optional<ConnectionName> NameOne(RandomStream& random,
                                        std::optional<server::LinkKind> kind = std::nullopt) const;
  // Both ends are closed at once. False if there is no such connection.
  bool ResetNamed(Instant now, const ConnectionName& name);
  // Holds back one direction until HealAll or the sender gives up. False likewise.
  bool StickNamed(const ConnectionName& name);

  // ---- Tasks. Each appends what is to be handed to nodes.
  void OnArrive(Instant now, const Task& task, std::vector<Delivery>* out);
  void OnNetTimeout(Instant now, const Task& task, std::vector<Delivery>* out);
  void OnDialTimeout(Instant now, const Task& task, std::vector<Delivery>* out);
  void OnWritten(uint32_t node, std::vector<Delivery>* out);

  size_t open_connections() const { return open_; }
  uint64_t cuts() const { return cuts_; }  // deliveries that came in pieces

 private:
  struct Segment {
    enum class Kind : uint8_t { kSyn, kSynAck, kBytes, kFin } kind;
    Instant at;
    Bytes data;
  };
  // From end[d] to end[1 - d].
  struct Direction {
    std::vector<Segment> segments;
    size_t head = 0;
    Instant last_arrival;
    Instant held_since = Instant::Never();
    bool scheduled = false;
    bool stuck = false;
    bool reading_paused = false;
    bool empty() const { return head == segments.size(); }
  };
  struct End {
    uint32_t node = 0;
    ConnectionId id;
    bool open = false;     // the node may still hear of it
    uint64_t written = 0;  // not yet told
    bool written_listed = false;
  };
  struct Connection {
    uint64_t generation = 0;
    bool used = false;
    bool established = false;
    server::LinkKind link = server::LinkKind::kClient;
    End end[2];  // 0 dialed, 1 accepted
    Direction direction[2];
  };
  struct Node {
    NodeState state = NodeState::kUp;
    uint64_t next_accepted = 0;
    bool written_scheduled = false;
    absl::flat_hash_map<ConnectionId, uint32_t> by_id;  // look-ups only
    std::vector<std::pair<uint32_t, uint8_t>> written;  // slot, end
  };

  Connection* Find(uint32_t node, ConnectionId id, int* end);
  Instant ArrivalTime(Instant now, const Connection& c, int direction);
  void Enqueue(Instant now, uint32_t slot, int direction, Segment::Kind kind, Bytes data);
  void Schedule(Instant now, uint32_t slot, int direction);
  bool Held(const Connection& c, int direction) const;
  void ReleaseAll(Instant now);
  void Release(Instant now, uint32_t slot, int direction);
  void CloseEnd(uint32_t slot, int end);
  void CutUnsent(Direction& direction);
  void Deliver(Instant now, uint32_t slot, int direction, Segment segment,
               std::vector<Delivery>* out);
  void DeliverBytes(Instant now, uint32_t slot, int direction, Bytes data,
                    std::vector<Delivery>* out);
  void NoteWritten(Instant now, uint32_t slot, int end, uint64_t bytes);
  void Reset(Instant now, uint32_t slot);
  bool IsOpen(const Connection& c) const {
    return c.used && c.established && c.end[0].open && c.end[1].open;
  }
  std::optional<uint32_t> Find(const ConnectionName& name) const;
  RandomStream& DrawFor(Instant now, uint32_t from, uint32_t to);
  // Gives the slot back once both ends are closed.
  void MaybeFree(uint32_t slot);
  template <typename Fn>
  void ForEachOf(uint32_t node, Fn fn);
  // The slot of a random connection with both ends open, or no slot.
  bool PickOne(RandomStream& random, std::optional<server::LinkKind> kind, uint32_t* slot) const;

  const NetworkPlan plan_;
  RandomStream random_;
  uint64_t seed_;
  uint32_t streams_;
  uint32_t servers_;
  EventQueue* queue_;
  std::vector<Node> nodes_;
  std::vector<bool> blocked_;
  std::vector<bool> replication_blocked_;                      // between servers
  std::vector<std::array<Duration, 2>> coordination_latency_;  // of each server: out, in
  std::vector<Duration> extra_latency_;
  std::vector<Connection> connections_;
  std::vector<uint32_t> free_;
  uint64_t next_generation_ = 1;
  // The last Send, to which the next one of the same instant is joined.
  struct {
    Instant at = Instant::Never();
    uint32_t slot = 0;
    int direction = 0;
  } last_send_;
  size_t open_ = 0;
  uint64_t cuts_ = 0;
};

}  // namespace lockstep::sim
