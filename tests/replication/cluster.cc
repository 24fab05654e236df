#include "tests/replication/cluster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "core/records/batch_builder.h"

namespace lockstep::replication {
namespace {

Bytes Joined(const std::vector<Bytes>& slices) {
  std::string text;
  for (const Bytes& slice : slices) text += slice.view();
  return Bytes::Copy(text);
}

Bytes Framed(const Bytes& frame) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) {
    text += static_cast<char>(frame.size() >> shift);
  }
  text += frame.view();
  return Bytes::Copy(text);
}

}  // namespace

Cluster::Cluster(int32_t brokers, std::function<void(BrokerOptions*)> change, uint32_t servers)
    : ensemble(servers), change_(std::move(change)) {
  ensemble.Elect({1});
  EXPECT_TRUE(client.Connect({1}, 40'000));
  for (int32_t id = 1; id <= brokers; ++id) nodes_[id];
  for (int32_t id = 1; id <= brokers; ++id) Start(id);
  Run();
}

void Cluster::Start(int32_t id) {
  Node& node = nodes_.at(id);
  BrokerOptions options{.broker = {id},
                        .advertised = {"broker" + std::to_string(id), 9092},
                        .coordination = {.servers = 1, .session_timeout_ms = 6'000},
                        .keep_in_sync_time = Seconds(4)};
  if (change_) change_(&options);
  node.broker =
      std::make_unique<Broker>(options, RandomStream(7, {static_cast<uint32_t>(id)}, ++starts_, 1));
  node.durable = node.written = 0;
  node.inbox.clear();
  std::vector<storage::RecoveredLog> logs;
  for (const auto& [number, log] : node.disk.logs) {
    logs.push_back({.log = number,
                    .topic = log.topic,
                    .partition = log.partition.partition,
                    .topic_id = log.partition.topic,
                    .start = log.start,
                    .end = log.end,
                    .epochs = log.epochs,
                    .high_watermark = std::min(log.high_watermark, log.end)});
  }
  Step(id, [&](Broker* broker, BrokerOutput* output) {
    broker->Start(now(), 1'600'000'000'000, std::move(logs), {node.disk.broker_epoch}, output);
  });
}

void Cluster::Crash(int32_t id) {
  Node& node = nodes_.at(id);
  node.broker.reset();
  for (const auto& [number, connection] : std::exchange(node.coordination, {})) {
    if (!ensemble.closed(connection)) ensemble.CloseByClient({1}, connection);
  }
  while (!node.peers.empty()) Disconnect(id, node.peers.begin()->first);
  node.inbox.clear();
}

void Cluster::Stop(int32_t id) {
  Step(id, [&](Broker* broker, BrokerOutput* output) { broker->Stop(now(), output); });
  Run();
  EXPECT_TRUE(broker(id).stopped());
  Crash(id);
}

void Cluster::HoldRequests(int32_t id, bool held) {
  Node& node = nodes_.at(id);
  node.hold_requests = held;
  if (held) return;
  for (const auto& [connection, data] : std::exchange(node.held_requests, {})) {
    if (!ensemble.closed(connection)) ensemble.Send({1}, connection, data);
  }
}

void Cluster::CutOff(int32_t id, bool cut) {
  Node& node = nodes_.at(id);
  node.cut = cut;
  if (!cut) return;
  for (const auto& [number, connection] : std::exchange(node.coordination, {})) {
    if (!ensemble.closed(connection)) ensemble.CloseByClient({1}, connection);
    const uint64_t lost = number;
    node.inbox.push_back([this, lost](Broker* broker, BrokerOutput* output) {
      broker->OnCoordinationDisconnected(now(), lost, output);
    });
  }
}

void Cluster::Disconnect(int32_t id, ConnectionId connection) {
  Node& node = nodes_.at(id);
  auto at = node.peers.find(connection);
  if (at == node.peers.end()) return;
  const auto [other, theirs] = at->second;
  node.peers.erase(at);
  Node& peer = nodes_.at(other);
  if (peer.peers.erase(theirs) == 0) return;
  peer.inbox.push_back([this, theirs](Broker* broker, BrokerOutput* output) {
    broker->OnBrokerClosed(now(), theirs, output);
  });
}

void Cluster::Step(int32_t id, const std::function<void(Broker*, BrokerOutput*)>& input) {
  Node& node = nodes_.at(id);
  if (node.broker == nullptr) return;
  BrokerOutput output;
  input(node.broker.get(), &output);
  Carry(id, &output);
}

void Cluster::Change(Log* log, const storage::LogChange& change) {
  if (const auto* append = std::get_if<storage::LogAppend>(&change)) {
    ASSERT_EQ(append->base_offset, log->end);
    log->batches.emplace_back(append->base_offset, Joined(append->batches));
    log->end = append->end_offset;
  } else if (const auto* truncate = std::get_if<storage::LogTruncate>(&change)) {
    std::erase_if(log->batches, [&](const auto& batch) { return batch.first >= truncate->to; });
    std::erase_if(log->epochs, [&](const auto& epoch) { return epoch.start >= truncate->to; });
    log->end = std::min(log->end, truncate->to);
  } else if (const auto* epoch = std::get_if<storage::LogEpoch>(&change)) {
    // An epoch without records is replaced by the one that begins where it did.
    std::erase_if(log->epochs, [&](const auto& old) { return old.start >= epoch->start.start; });
    log->epochs.push_back(epoch->start);
  } else {
    log->start = std::get<storage::LogStart>(change).start;
    log->end = std::max(log->end, log->start);
  }
}

void Cluster::CarryLogs(int32_t id, BrokerOutput* output) {
  Node& node = nodes_.at(id);
  for (const BrokerOutput::LogOp& op : output->log_ops) {
    if (const auto* create = std::get_if<BrokerOutput::CreateLog>(&op)) {
      node.written = create->id.value;
      for (const auto& [number, log] : node.disk.logs) {
        EXPECT_FALSE(log.topic == create->topic &&
                     log.partition.partition == create->partition.partition)
            << "the directory is there";
      }
      const storage::LogNumber number{node.disk.next_number++};
      node.disk.logs[number] = {.topic = create->topic, .partition = create->partition};
      const storage::LogWriteId write = create->id;
      node.inbox.push_back([this, write, number](Broker* broker, BrokerOutput* out) {
        broker->OnLogCreated(now(), write, number, out);
      });
    } else if (const auto* change = std::get_if<BrokerOutput::ChangeLog>(&op)) {
      EXPECT_EQ(change->id.value, node.written + 1);
      node.written = change->id.value;
      Change(&node.disk.logs.at(change->log), change->change);
    } else if (const auto* remove = std::get_if<BrokerOutput::DeleteLog>(&op)) {
      node.written = remove->id.value;
      EXPECT_EQ(node.disk.logs.erase(remove->log), 1u);
    } else {
      const auto& epoch = std::get<BrokerOutput::SetBrokerEpoch>(op);
      node.written = epoch.id.value;
      node.disk.broker_epoch = epoch.epoch;
    }
  }
  for (const auto& [number, offset] : output->high_watermarks) {
    if (auto at = node.disk.logs.find(number); at != node.disk.logs.end()) {
      at->second.high_watermark = offset;
    }
  }
  for (const BrokerOutput::ReadLog& read : output->reads) {
    storage::LogReadDone done{.id = read.id, .log = read.log};
    auto at = node.disk.logs.find(read.log);
    if (at == node.disk.logs.end()) {
      done.status = storage::LogReadDone::Status::kFailed;
    } else {
      size_t bytes = 0;
      const auto& batches = at->second.batches;
      for (size_t i = 0; i < batches.size(); ++i) {
        const int64_t end = i + 1 < batches.size() ? batches[i + 1].first : at->second.end;
        if (end <= read.offset) continue;
        if (bytes > 0 && bytes + batches[i].second.size() > read.max_bytes) break;
        bytes += batches[i].second.size();
        done.batches.push_back(batches[i].second);
      }
    }
    node.inbox.push_back(
        [this, done](Broker* broker, BrokerOutput* out) { broker->OnLogRead(now(), done, out); });
  }
}

void Cluster::Carry(int32_t id, BrokerOutput* output) {
  Node& node = nodes_.at(id);
  CarryLogs(id, output);
  for (const auto& dial : output->coordination.dials) {
    const uint64_t number = dial.connection;
    if (node.cut) {
      // Refused, but not at once: a dial that fails at once is repeated at once.
      continue;
    }
    node.coordination[number] = ensemble.Accept({1});
    node.inbox.push_back([this, number](Broker* broker, BrokerOutput* out) {
      broker->OnCoordinationConnected(now(), number, out);
    });
  }
  for (const auto& send : output->coordination.sends) {
    auto at = node.coordination.find(send.connection);
    if (at == node.coordination.end() || ensemble.closed(at->second)) continue;
    if (node.hold_requests) {
      node.held_requests.emplace_back(at->second, send.data);
    } else {
      ensemble.Send({1}, at->second, send.data);
    }
  }
  for (uint64_t number : output->coordination.closes) {
    auto at = node.coordination.find(number);
    if (at == node.coordination.end()) continue;
    if (!ensemble.closed(at->second)) ensemble.CloseByClient({1}, at->second);
    node.coordination.erase(at);
  }
  for (const BrokerOutput::Dial& dial : output->dials) {
    const ConnectionId mine = dial.connection;
    auto peer = nodes_.find(dial.to.value);
    EXPECT_EQ(dial.endpoint.host, "broker" + dial.to.ToString());
    if (peer == nodes_.end() || peer->second.broker == nullptr || node.isolated ||
        peer->second.isolated) {
      node.inbox.push_back([this, mine](Broker* broker, BrokerOutput* out) {
        broker->OnBrokerClosed(now(), mine, out);
      });
      continue;
    }
    const ConnectionId theirs{ConnectionId::kAccepted | next_accepted_++};
    node.peers[mine] = {dial.to.value, theirs};
    peer->second.peers[theirs] = {id, mine};
    node.inbox.push_back([this, mine](Broker* broker, BrokerOutput* out) {
      broker->OnBrokerConnected(now(), mine, out);
    });
  }
  for (BrokerOutput::Send& send : output->sends) {
    auto at = node.peers.find(send.connection);
    if (at == node.peers.end()) continue;
    Node& peer = nodes_.at(at->second.first);
    if (node.isolated || peer.isolated) continue;
    const ConnectionId theirs = at->second.second;
    peer.inbox.push_back(
        [this, theirs, message = std::move(send.message)](Broker* broker, BrokerOutput* out) {
          broker->OnBrokerMessage(now(), theirs, message, out);
        });
  }
  for (ConnectionId connection : output->closes) Disconnect(id, connection);
  for (const BrokerOutput::ProduceDone& done : output->produces_done) {
    EXPECT_TRUE(produced_.emplace(done.done.id, done.done.error).second) << "answered twice";
  }
  for (const BrokerOutput::AdminDone& done : output->admin_done) {
    EXPECT_TRUE(admin_.emplace(done.id, done.error).second) << "answered twice";
  }
  for (const Event& event : output->events) ++node.events[event.kind];
}

bool Cluster::Deliver(int32_t id) {
  Node& node = nodes_.at(id);
  if (node.broker == nullptr || node.paused) return false;
  bool any = false;
  const std::map<uint64_t, ConnectionId> connections = node.coordination;
  for (const auto& [number, connection] : connections) {
    const uint64_t own = number;
    for (const Bytes& frame : ensemble.TakeFrames(connection)) {
      any = true;
      if (on_frame && !on_frame(id, frame)) {
        ensemble.CloseByClient({1}, connection);
        node.coordination.erase(own);
        Step(id, [&](Broker* broker, BrokerOutput* output) {
          broker->OnCoordinationDisconnected(now(), own, output);
        });
        break;
      }
      Step(id, [&](Broker* broker, BrokerOutput* output) {
        broker->OnCoordinationBytes(now(), own, Framed(frame), output);
      });
    }
    if (ensemble.closed(connection) && node.coordination.erase(own) > 0) {
      any = true;
      Step(id, [&](Broker* broker, BrokerOutput* output) {
        broker->OnCoordinationDisconnected(now(), own, output);
      });
    }
  }
  while (!node.inbox.empty() && node.broker != nullptr) {
    any = true;
    auto input = std::move(node.inbox.front());
    node.inbox.pop_front();
    Step(id, input);
  }
  if (!node.hold_disk && node.durable < node.written) {
    any = true;
    node.durable = node.written;
    Step(id, [&](Broker* broker, BrokerOutput* output) {
      broker->OnLogPersisted(now(), {node.durable}, output);
    });
  }
  return any;
}

void Cluster::Run() {
  size_t rounds = 0;
  for (bool more = true; more;) {
    ASSERT_LT(++rounds, size_t{100'000}) << "never quiet";
    ensemble.Run();
    more = false;
    for (auto& [id, node] : nodes_) more |= Deliver(id);
    ensemble.Run();
  }
}

void Cluster::Advance(Duration d) {
  const Instant end = now() + d;
  size_t same = 0;
  while (true) {
    Run();
    Instant next = std::min(end, now() + Milliseconds(200));
    for (auto& [id, node] : nodes_) {
      if (node.broker != nullptr && !node.paused) {
        next = std::min(next, node.broker->next_deadline());
      }
    }
    if (next > now()) {
      ensemble.Advance(next - now());
      same = 0;
    }
    ASSERT_LT(++same, size_t{1000}) << "a deadline that never passes";
    for (auto& [id, node] : nodes_) {
      if (node.broker == nullptr || node.paused || node.broker->next_deadline() > now()) continue;
      Step(id, [&](Broker* broker, BrokerOutput* output) { broker->OnWake(now(), output); });
    }
    Run();
    if (now() >= end) return;
  }
}

bool Cluster::RunUntil(const std::function<bool()>& done, Duration limit) {
  const Instant end = now() + limit;
  Run();
  while (!done()) {
    if (now() >= end) return false;
    Advance(Milliseconds(50));
  }
  return true;
}

AdminId Cluster::AdminLater(int32_t id, AdminRequest request, Duration limit) {
  const AdminId admin{next_id_++};
  Step(id, [&](Broker* broker, BrokerOutput* output) {
    broker->Admin(now(), admin, std::move(request), now() + limit, output);
  });
  return admin;
}

std::optional<AdminError> Cluster::AdminResult(AdminId id) const {
  auto at = admin_.find(id);
  return at == admin_.end() ? std::nullopt : std::optional(at->second);
}

AdminError Cluster::Admin(int32_t id, AdminRequest request, Duration limit) {
  const AdminId admin = AdminLater(id, std::move(request), limit);
  EXPECT_TRUE(RunUntil([&] { return admin_.contains(admin); }, limit + Seconds(1)));
  return AdminResult(admin).value_or(AdminError::kTimedOut);
}

const PartitionState* Cluster::StateAt(int32_t id, const std::string& topic, int32_t partition) {
  const auto& topics = broker(id).metadata().topics();
  auto at = topics.find(topic);
  if (at == topics.end()) return nullptr;
  const auto index = static_cast<size_t>(partition);
  return index < at->second.partitions.size() ? &at->second.partitions[index] : nullptr;
}

void Cluster::DamageLog(int32_t id, const std::string& topic, int32_t partition) {
  const storage::LogNumber log = broker(id).LogOf(StateAt(id, topic, partition)->id);
  Step(id, [&](Broker* broker, BrokerOutput* output) { broker->OnLogDamaged(now(), log, output); });
}

const Partition* Cluster::Replica(int32_t id, const std::string& topic, int32_t partition) {
  if (!running(id)) return nullptr;
  const PartitionState* state = StateAt(id, topic, partition);
  return state == nullptr ? nullptr : broker(id).FindPartition(state->id);
}

int32_t Cluster::Leader(const std::string& topic, int32_t partition) {
  int32_t leader = -1;
  LeaderEpoch epoch;
  for (const auto& [id, node] : nodes_) {
    const Partition* replica = Replica(id, topic, partition);
    if (replica == nullptr || node.paused || replica->role() != Role::kLeader) continue;
    if (leader == -1 || replica->leader_epoch() > epoch) {
      leader = id;
      epoch = replica->leader_epoch();
    }
  }
  return leader;
}

std::vector<int32_t> Cluster::Isr(const std::string& topic, int32_t partition) {
  std::vector<int32_t> isr;
  for (const auto& [id, node] : nodes_) {
    if (node.broker == nullptr || node.cut || node.paused) continue;
    if (const PartitionState* state = StateAt(id, topic, partition)) {
      for (const IsrMember& member : state->isr) isr.push_back(member.broker.value);
    }
    break;
  }
  return isr;
}

std::vector<int32_t> Cluster::Replicas(const std::string& topic, int32_t partition) {
  std::vector<int32_t> replicas;
  for (const auto& [id, node] : nodes_) {
    if (node.broker == nullptr || node.cut || node.paused) continue;
    if (const PartitionState* state = StateAt(id, topic, partition)) {
      for (BrokerId broker : state->replicas) replicas.push_back(broker.value);
    }
    break;
  }
  return replicas;
}

ProduceId Cluster::Produce(int32_t id, const std::string& topic, int32_t partition, int32_t count,
                           Acks acks) {
  const ProduceId produce{next_id_++};
  const Partition* replica = Replica(id, topic, partition);
  if (replica == nullptr) {
    produced_[produce] = ProduceError::kNotLeader;
    return produce;
  }
  records::BatchBuilder builder;
  for (int32_t i = 0; i < count; ++i) builder.Add(1'600'000'000'000, std::nullopt, "value");
  const records::Batch batch = records::AssignOffsets(
      builder.Build(), {.base_offset = replica->log_end(),
                        .leader_epoch = std::max(0, replica->leader_epoch().value)});
  const PartitionId partition_id = replica->state().id;
  Step(id, [&](Broker* broker, BrokerOutput* output) {
    broker->Produce(now(), partition_id, produce, acks, now() + Seconds(30), {batch.Join()}, count,
                    output);
  });
  return produce;
}

std::optional<int64_t> Cluster::TakeProducerId(int32_t id) {
  std::optional<int64_t> taken;
  Step(id, [&](Broker* broker, BrokerOutput* output) {
    taken = broker->TakeProducerId(now(), output);
  });
  return taken;
}

std::optional<ProduceError> Cluster::Produced(ProduceId id) const {
  auto at = produced_.find(id);
  return at == produced_.end() ? std::nullopt : std::optional(at->second);
}

bool Cluster::Commit(const std::string& topic, int32_t partition, int32_t count) {
  if (!RunUntil([&] { return Leader(topic, partition) != -1; })) return false;
  const ProduceId id = Produce(Leader(topic, partition), topic, partition, count);
  RunUntil([&] { return Produced(id).has_value(); });
  return Produced(id) == ProduceError::kNone;
}

std::set<std::string> Cluster::Logs(int32_t id) const {
  std::set<std::string> names;
  for (const auto& [number, log] : nodes_.at(id).disk.logs) {
    names.insert(log.topic + "-" + std::to_string(log.partition.partition));
  }
  return names;
}

size_t Cluster::EventCount(int32_t id, EventKind kind) const {
  const auto& events = nodes_.at(id).events;
  auto at = events.find(kind);
  return at == events.end() ? 0 : at->second;
}

}  // namespace lockstep::replication
