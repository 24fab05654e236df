#include "sim/network.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "sim/purpose.h"

namespace lockstep::sim {

using server::LinkKind;

Network::Network(const NetworkPlan& plan, uint64_t seed, uint32_t servers, uint32_t nodes,
                 EventQueue* queue, uint32_t streams)
    : plan_(plan),
      random_(StreamFor(seed, Purpose::kNetwork)),
      seed_(seed),
      streams_(streams),
      servers_(servers),
      queue_(queue),
      nodes_(nodes),
      blocked_(size_t{nodes} * nodes, false),
      replication_blocked_(size_t{servers} * servers, false),
      coordination_latency_(servers),
      extra_latency_(size_t{nodes} * nodes) {}

Network::Connection* Network::Find(uint32_t node, ConnectionId id, int* end) {
  auto it = nodes_[node].by_id.find(id);
  if (it == nodes_[node].by_id.end()) return nullptr;
  Connection& c = connections_[it->second];
  *end = c.end[0].node == node && c.end[0].id == id ? 0 : 1;
  return &c;
}

std::optional<Network::Route> Network::RouteOf(uint32_t node, ConnectionId id) const {
  const auto it = nodes_[node].by_id.find(id);
  if (it == nodes_[node].by_id.end()) return std::nullopt;
  const Connection& c = connections_[it->second];
  const int end = c.end[0].node == node && c.end[0].id == id ? 0 : 1;
  return Route{c.end[1 - end].node, c.link, c.generation * 2 + static_cast<uint64_t>(end)};
}

RandomStream& Network::DrawFor(Instant now, uint32_t from, uint32_t to) {
  if (streams_ != 0) {
    random_ = KeyedStream(seed_, streams_, Purpose::kNetwork, from * nodes_.size() + to, now);
  }
  return random_;
}

Instant Network::ArrivalTime(Instant now, const Connection& c, int direction) {
  const uint32_t a = c.end[direction].node;
  const uint32_t b = c.end[1 - direction].node;
  RandomStream& random = DrawFor(now, a, b);
  Duration latency = plan_.latency_min + Duration{random.Between(0, plan_.latency_jitter.ns)};
  if (plan_.tail_per_mille > 0 && random.Chance(plan_.tail_per_mille, 1000)) {
    latency = latency * 20;
  }
  latency = latency + extra_latency_[a * nodes_.size() + b];
  if (c.link == LinkKind::kCoordination) {
    latency = latency + coordination_latency_[c.end[0].node][static_cast<size_t>(direction)];
  }
  return std::max(c.direction[direction].last_arrival, now + latency);
}

bool Network::Held(const Connection& c, int direction) const {
  const Direction& d = c.direction[direction];
  const uint32_t from = c.end[direction].node;
  const uint32_t to = c.end[1 - direction].node;
  // Clients of brokers dial the same port, but are no servers.
  const bool replication = c.link == LinkKind::kBroker && from < servers_ && to < servers_;
  return d.stuck || d.reading_paused || blocked(from, to) ||
         (replication && replication_blocked_[from * servers_ + to]) ||
         nodes_[to].state == NodeState::kOff;
}

void Network::Enqueue(Instant now, uint32_t slot, int direction, Segment::Kind kind, Bytes data) {
  Connection& c = connections_[slot];
  Direction& d = c.direction[direction];
  const Instant at = ArrivalTime(now, c, direction);
  d.last_arrival = at;
  d.segments.push_back({kind, at, std::move(data)});
  Schedule(now, slot, direction);
}

// Makes sure that the head of the direction has an event, or waits to be released.
void Network::Schedule(Instant now, uint32_t slot, int direction) {
  Connection& c = connections_[slot];
  Direction& d = c.direction[direction];
  if (d.scheduled || d.empty()) return;
  if (Held(c, direction)) {
    if (d.held_since == Instant::Never()) {
      d.held_since = now;
      // A receiver that does not read keeps the connection alive for ever; a path that loses
      // everything does not.
      if (!d.reading_paused) {
        queue_->Push(now + plan_.gives_up_after,
                     {TaskKind::kNetTimeout, slot, static_cast<uint32_t>(direction), c.generation});
      }
    }
    return;
  }
  d.held_since = Instant::Never();
  d.scheduled = true;
  queue_->Push(std::max(now, d.segments[d.head].at),
               {TaskKind::kArrive, slot, static_cast<uint32_t>(direction), c.generation});
}

void Network::Release(Instant now, uint32_t slot, int direction) {
  Connection& c = connections_[slot];
  Direction& d = c.direction[direction];
  if (!c.used || d.held_since == Instant::Never() || Held(c, direction)) return;
  d.held_since = Instant::Never();
  // The sender's next retransmission brings them.
  RandomStream& random = DrawFor(now, c.end[direction].node, c.end[1 - direction].node);
  const Instant at = now + Duration{random.Between(0, plan_.retransmit_max.ns)};
  for (size_t i = d.head; i < d.segments.size(); ++i) {
    d.segments[i].at = std::max(d.segments[i].at, at);
  }
  d.last_arrival = std::max(d.last_arrival, at);
  Schedule(now, slot, direction);
}

void Network::Dial(Instant now, uint32_t from, ConnectionId id, LinkKind link, uint32_t to) {
  uint32_t slot;
  if (free_.empty()) {
    slot = static_cast<uint32_t>(connections_.size());
    connections_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  Connection& c = connections_[slot];
  c = Connection();
  c.generation = next_generation_++;
  c.used = true;
  c.link = link;
  c.end[0] = {from, id, true, 0, false};
  c.end[1].node = to;
  ++open_;
  LS_CHECK(nodes_[from].by_id.emplace(id, slot).second);
  queue_->Push(now + plan_.dial_timeout, {TaskKind::kDialTimeout, slot, 0, c.generation});
  Enqueue(now, slot, 0, Segment::Kind::kSyn, Bytes());
}

void Network::Send(Instant now, uint32_t node, ConnectionId id, Bytes data) {
  int end;
  Connection* c = Find(node, id, &end);
  if (c == nullptr || data.empty()) return;
  const uint32_t slot = static_cast<uint32_t>(c - connections_.data());
  Direction& d = c->direction[end];
  // What leaves in one instant travels together: one arrival, no further draw.
  if (!d.empty() && d.segments.back().kind == Segment::Kind::kBytes && last_send_.slot == slot &&
      last_send_.direction == end && last_send_.at == now) {
    d.segments.push_back({Segment::Kind::kBytes, d.last_arrival, std::move(data)});
    return;
  }
  last_send_ = {now, slot, end};
  Enqueue(now, slot, end, Segment::Kind::kBytes, std::move(data));
}

void Network::Close(Instant now, uint32_t node, ConnectionId id) {
  int end;
  Connection* c = Find(node, id, &end);
  if (c == nullptr) return;
  const uint32_t slot = static_cast<uint32_t>(c - connections_.data());
  Enqueue(now, slot, end, Segment::Kind::kFin, Bytes());
  CloseEnd(slot, end);
}

void Network::PauseReading(uint32_t node, ConnectionId id) {
  int end;
  Connection* c = Find(node, id, &end);
  if (c != nullptr) c->direction[1 - end].reading_paused = true;
}

void Network::ResumeReading(Instant now, uint32_t node, ConnectionId id) {
  int end;
  Connection* c = Find(node, id, &end);
  if (c == nullptr) return;
  Direction& d = c->direction[1 - end];
  d.reading_paused = false;
  if (Held(*c, 1 - end)) return;
  // They lie in the reader's system, so that no retransmission is waited for. (A pause that cost
  // one would make a server that reads one request at a time slower than sessions can be.)
  d.held_since = Instant::Never();
  Schedule(now, static_cast<uint32_t>(c - connections_.data()), 1 - end);
}

void Network::CloseEnd(uint32_t slot, int end) {
  Connection& c = connections_[slot];
  if (!c.end[end].open) return;
  c.end[end].open = false;
  nodes_[c.end[end].node].by_id.erase(c.end[end].id);
  // Nobody will ever resume a reader that is gone; what arrives for it is thrown away.
  c.direction[1 - end].reading_paused = false;
}

template <typename Fn>
void Network::ForEachOf(uint32_t node, Fn fn) {
  for (uint32_t slot = 0; slot < connections_.size(); ++slot) {
    Connection& c = connections_[slot];
    if (!c.used) continue;
    for (int end = 0; end < 2; ++end) {
      if (c.end[end].open && c.end[end].node == node) fn(slot, end);
    }
  }
}

// Of what the node had handed to its system, only a part has left.
void Network::CutUnsent(Direction& d) {
  if (d.empty()) return;
  const size_t waiting = d.segments.size() - d.head;
  const size_t kept = random_.Below(waiting + 1);
  // The first segment has an event under way; it may vanish with the others.
  d.segments.resize(d.head + kept);
  if (kept > 0 && d.segments.back().kind == Segment::Kind::kBytes && random_.Chance(1, 2)) {
    Bytes& last = d.segments.back().data;
    last = last.Slice(0, random_.Below(last.size()) + 1);
  }
}

void Network::KillProcess(Instant now, uint32_t node) {
  ForEachOf(node, [&](uint32_t slot, int end) {
    DrawFor(now, node, connections_[slot].end[1 - end].node);
    CutUnsent(connections_[slot].direction[end]);
    Enqueue(now, slot, end, Segment::Kind::kFin, Bytes());
    CloseEnd(slot, end);
  });
}

void Network::PowerOff(Instant now, uint32_t node) {
  ForEachOf(node, [&](uint32_t slot, int end) {
    DrawFor(now, node, connections_[slot].end[1 - end].node);
    CutUnsent(connections_[slot].direction[end]);
    CloseEnd(slot, end);
    MaybeFree(slot);
  });
}

void Network::SetNodeState(Instant now, uint32_t node, NodeState state) {
  const bool was_off = nodes_[node].state == NodeState::kOff;
  nodes_[node].state = state;
  if (was_off && state != NodeState::kOff) ReleaseAll(now);
}

void Network::SetBlocked(Instant now, uint32_t from, uint32_t to, bool blocked) {
  if (this->blocked(from, to) == blocked) return;
  blocked_[from * nodes_.size() + to] = blocked;
  if (!blocked) ReleaseAll(now);
}

void Network::SetReplicationBlocked(Instant now, uint32_t from, uint32_t to, bool blocked) {
  if (replication_blocked_[from * servers_ + to] == blocked) return;
  replication_blocked_[from * servers_ + to] = blocked;
  if (!blocked) ReleaseAll(now);
}

void Network::ReleaseAll(Instant now) {
  for (uint32_t slot = 0; slot < connections_.size(); ++slot) {
    for (int d = 0; d < 2; ++d) Release(now, slot, d);
  }
}

void Network::HealAll(Instant now) {
  blocked_.assign(blocked_.size(), false);
  replication_blocked_.assign(replication_blocked_.size(), false);
  extra_latency_.assign(extra_latency_.size(), Duration());
  coordination_latency_.assign(coordination_latency_.size(), {});
  for (uint32_t slot = 0; slot < connections_.size(); ++slot) {
    for (int d = 0; d < 2; ++d) {
      connections_[slot].direction[d].stuck = false;
      Release(now, slot, d);
    }
  }
}

void Network::SetExtraLatency(uint32_t a, uint32_t b, Duration extra) {
  extra_latency_[a * nodes_.size() + b] = extra;
  extra_latency_[b * nodes_.size() + a] = extra;
}

void Network::SetCoordinationLatency(uint32_t broker, Duration out, Duration in) {
  coordination_latency_[broker] = {out, in};
}

bool Network::PickOne(RandomStream& random, std::optional<LinkKind> kind, uint32_t* slot) const {
  if (connections_.empty()) return false;
  const uint32_t start = static_cast<uint32_t>(random.Below(connections_.size()));
  for (uint32_t i = 0; i < connections_.size(); ++i) {
    *slot = static_cast<uint32_t>((start + i) % connections_.size());
    const Connection& c = connections_[*slot];
    if (kind && c.link != *kind) continue;
    if (IsOpen(c)) return true;
  }
  return false;
}

// Both sides learn of it at once, and what was on the way is gone.
void Network::Reset(Instant now, uint32_t slot) {
  Connection& c = connections_[slot];
  for (Direction& d : c.direction) {
    d.segments.resize(d.head);
    d.stuck = false;
    d.reading_paused = false;
    d.last_arrival = now;
    d.held_since = Instant::Never();
  }
  Enqueue(now, slot, 0, Segment::Kind::kFin, Bytes());
  Enqueue(now, slot, 1, Segment::Kind::kFin, Bytes());
}

std::optional<ConnectionName> Network::NameOne(RandomStream& random,
                                               std::optional<LinkKind> kind) const {
  uint32_t slot;
  if (!PickOne(random, kind, &slot)) return std::nullopt;
  const Connection& c = connections_[slot];
  ConnectionName name{c.link, c.end[0].node, c.end[1].node, 0, 0};
  for (uint32_t before = 0; before < slot; ++before) {
    const Connection& other = connections_[before];
    name.nth += IsOpen(other) && other.link == name.link && other.end[0].node == name.from &&
                        other.end[1].node == name.to
                    ? 1
                    : 0;
  }
  return name;
}

std::optional<uint32_t> Network::Find(const ConnectionName& name) const {
  uint32_t nth = name.nth;
  for (uint32_t slot = 0; slot < connections_.size(); ++slot) {
    const Connection& c = connections_[slot];
    if (!IsOpen(c) || c.link != name.link || c.end[0].node != name.from ||
        c.end[1].node != name.to) {
      continue;
    }
    if (nth-- == 0) return slot;
  }
  return std::nullopt;
}

bool Network::ResetNamed(Instant now, const ConnectionName& name) {
  const std::optional<uint32_t> slot = Find(name);
  if (slot) Reset(now, *slot);
  return slot.has_value();
}

bool Network::StickNamed(const ConnectionName& name) {
  const std::optional<uint32_t> slot = Find(name);
  if (slot) connections_[*slot].direction[name.direction].stuck = true;
  return slot.has_value();
}

void Network::MaybeFree(uint32_t slot) {
  Connection& c = connections_[slot];
  if (!c.used || c.end[0].open || c.end[1].open) return;
  c.used = false;
  c.direction[0] = Direction();
  c.direction[1] = Direction();
  free_.push_back(slot);
  --open_;
}

void Network::OnArrive(Instant now, const Task& task, std::vector<Delivery>* out) {
  const uint32_t slot = task.who;
  const int direction = static_cast<int>(task.what);
  if (!connections_[slot].used || connections_[slot].generation != task.which) return;
  connections_[slot].direction[direction].scheduled = false;
  while (connections_[slot].used && connections_[slot].generation == task.which) {
    Direction& d = connections_[slot].direction[direction];
    if (d.empty() || d.segments[d.head].at > now || Held(connections_[slot], direction)) break;
    Segment segment = std::move(d.segments[d.head]);
    if (++d.head == d.segments.size()) {
      d.segments.clear();
      d.head = 0;
    }
    Deliver(now, slot, direction, std::move(segment), out);
  }
  if (connections_[slot].used && connections_[slot].generation == task.which) {
    Schedule(now, slot, direction);
    MaybeFree(slot);
  }
}

void Network::Deliver(Instant now, uint32_t slot, int direction, Segment segment,
                      std::vector<Delivery>* out) {
  Connection& c = connections_[slot];
  End& from = c.end[direction];
  End& to = c.end[1 - direction];
  switch (segment.kind) {
    case Segment::Kind::kSyn: {
      if (!from.open) return CloseEnd(slot, 0);
      if (nodes_[to.node].state != NodeState::kUp) {
        return Enqueue(now, slot, 1, Segment::Kind::kFin, Bytes());
      }
      to.id = {ConnectionId::kAccepted | ++nodes_[to.node].next_accepted};
      to.open = true;
      nodes_[to.node].by_id.emplace(to.id, slot);
      out->push_back({Delivery::Kind::kAccepted, to.node, to.id, c.link, from.node, 0, Bytes()});
      return Enqueue(now, slot, 1, Segment::Kind::kSynAck, Bytes());
    }
    case Segment::Kind::kSynAck:
      if (!to.open) return Enqueue(now, slot, 0, Segment::Kind::kFin, Bytes());
      c.established = true;
      out->push_back({Delivery::Kind::kConnected, to.node, to.id, c.link, from.node, 0, Bytes()});
      return;
    case Segment::Kind::kBytes:
      return DeliverBytes(now, slot, direction, std::move(segment.data), out);
    case Segment::Kind::kFin:
      if (!to.open) return;
      out->push_back({Delivery::Kind::kClosed, to.node, to.id, c.link, from.node, 0, Bytes()});
      return CloseEnd(slot, 1 - direction);
  }
}

void Network::DeliverBytes(Instant now, uint32_t slot, int direction, Bytes data,
                           std::vector<Delivery>* out) {
  Connection& c = connections_[slot];
  End& from = c.end[direction];
  End& to = c.end[1 - direction];
  if (!to.open) {
    // Nobody is there any more, and the system says so: this is how the other half of a half-open
    // connection ends.
    if (from.open) {
      Direction& back = c.direction[1 - direction];
      if (back.empty()) Enqueue(now, slot, 1 - direction, Segment::Kind::kFin, Bytes());
    }
    return;
  }
  RandomStream& random = DrawFor(now, from.node, to.node);
  if (plan_.cut_percent > 0 && data.size() > 1 && random.Chance(plan_.cut_percent, 100)) {
    const size_t cut = 1 + random.Below(data.size() - 1);
    Direction& d = c.direction[direction];
    const Instant rest_at = now + Duration{random.Between(0, plan_.latency_min.ns)};
    Segment rest{Segment::Kind::kBytes, rest_at, data.Slice(cut)};
    d.segments.insert(d.segments.begin() + static_cast<ptrdiff_t>(d.head), std::move(rest));
    for (size_t i = d.head + 1; i < d.segments.size(); ++i) {
      d.segments[i].at = std::max(d.segments[i].at, rest_at);
    }
    d.last_arrival = std::max(d.last_arrival, rest_at);
    data = data.Slice(0, cut);
    ++cuts_;
  }
  const uint64_t size = data.size();
  out->push_back({Delivery::Kind::kBytes, to.node, to.id, c.link, from.node, 0, std::move(data),
                  c.generation * 2 + static_cast<uint64_t>(direction)});
  if (from.open && c.link != LinkKind::kElection) NoteWritten(now, slot, direction, size);
}

// Told a little later and for many segments at once, as a system's send buffer drains.
void Network::NoteWritten(Instant now, uint32_t slot, int end, uint64_t bytes) {
  End& e = connections_[slot].end[end];
  if (e.node >= servers_) return;
  Node& node = nodes_[e.node];
  e.written += bytes;
  if (!e.written_listed) {
    e.written_listed = true;
    node.written.push_back({slot, static_cast<uint8_t>(end)});
  }
  if (node.written_scheduled) return;
  node.written_scheduled = true;
  queue_->Push(now + plan_.latency_min + Milliseconds(1), {TaskKind::kWritten, e.node, 0, 0});
}

void Network::OnWritten(uint32_t node_index, std::vector<Delivery>* out) {
  Node& node = nodes_[node_index];
  node.written_scheduled = false;
  for (auto [slot, end] : node.written) {
    Connection& c = connections_[slot];
    End& e = c.end[end];
    if (!c.used || !e.open || e.node != node_index || !e.written_listed) continue;
    out->push_back(
        {Delivery::Kind::kWritten, node_index, e.id, c.link, c.end[1 - end].node, e.written, {}});
    e.written = 0;
    e.written_listed = false;
  }
  node.written.clear();
}

void Network::OnNetTimeout(Instant now, const Task& task, std::vector<Delivery>* out) {
  const uint32_t slot = task.who;
  const int direction = static_cast<int>(task.what);
  Connection& c = connections_[slot];
  if (!c.used || c.generation != task.which) return;
  Direction& d = c.direction[direction];
  if (d.held_since == Instant::Never() || d.held_since + plan_.gives_up_after > now) return;
  // The sender gives up; the receiver learns nothing, until it sends something itself.
  d.segments.resize(d.head);
  End& from = c.end[direction];
  if (from.open && (c.established || direction == 1)) {
    out->push_back(
        {Delivery::Kind::kClosed, from.node, from.id, c.link, c.end[1 - direction].node, 0, {}});
    CloseEnd(slot, direction);
  }
  MaybeFree(slot);
}

void Network::OnDialTimeout(Instant now, const Task& task, std::vector<Delivery>* out) {
  (void)now;
  const uint32_t slot = task.who;
  Connection& c = connections_[slot];
  if (!c.used || c.generation != task.which || c.established) return;
  if (c.end[0].open) {
    out->push_back(
        {Delivery::Kind::kClosed, c.end[0].node, c.end[0].id, c.link, c.end[1].node, 0, {}});
    CloseEnd(slot, 0);
  }
  MaybeFree(slot);
}

}  // namespace lockstep::sim
