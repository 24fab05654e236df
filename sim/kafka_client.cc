#include "sim/kafka_client.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace lockstep::sim {

using kafka::ErrorCode;

KafkaClient::KafkaClient(const Context& context, std::string name, RandomStream random)
    : context_(context),
      plan_(*context.plan),
      random_(random),
      probes_(context.probes),
      trace_(context.trace),
      name_(std::move(name)) {
  LimitVersions(kafka::ApiKey::kMetadata, 4, INT16_MAX);  // earlier ones create what they ask for
  LimitVersions(kafka::ApiKey::kListOffsets, 1, 6);       // 7 is not offered
}

void KafkaClient::FailBytes(const std::string& why) const {
  Fail("kafka-client-bytes", absl::StrCat(name_, ": ", why));
}

void KafkaClient::TraceCall(const char* what, const Call& call, const char* kind) {
  trace_->Line(
      name_, what,
      absl::StrCat(kind, " v", call.version, " #", call.correlation, " s", call.server + 1));
}

int16_t KafkaClient::VersionOf(kafka::ApiKey api, int16_t min, int16_t max) {
  if (auto allowed = versions_allowed_.find(api); allowed != versions_allowed_.end()) {
    min = std::max(min, allowed->second.first);
    max = std::min(max, allowed->second.second);
  }
  auto [it, is_new] = versions_.try_emplace(api, max);
  if (is_new) {
    if (random_.Chance(1, 2)) it->second = static_cast<int16_t>(random_.Between(min, max));
  }
  return it->second;
}

void KafkaClient::Rekey(Instant now) {
  if (context_.streams == 0) return;
  random_ =
      KeyedStream(context_.seed, context_.streams, Purpose::kKafkaClient, context_.client, now);
}

// ---- Connections -------------------------------------------------------------------------------

KafkaClient::Connection& KafkaClient::ConnectionTo(Instant now, uint32_t server,
                                                   ClientOutput* output) {
  auto [it, is_new] = connections_.try_emplace(server);
  Connection& connection = it->second;
  if (!is_new) return connection;
  connection.id = {++dialed_};
  connection.server = server;
  output->dials.push_back({connection.id, server});
  if (random_.Chance(1, 4)) {
    // As real clients do at the start of each connection; the answer changes nothing for this one.
    kafka::ApiVersionsRequest request;
    request.client_software_name = "lockstep-sim";
    request.client_software_version = "1";
    hello_[Send(now, server, request, Timeout(), output)] = server;
  }
  return connection;
}

void KafkaClient::Transmit(Instant now, const Call& call, std::vector<Bytes> frame, bool answered,
                           ClientOutput* output) {
  Connection& connection = ConnectionTo(now, call.server, output);
  if (answered) connection.in_flight.push_back(call);
  for (Bytes& slice : frame) {
    if (connection.up) {
      output->sends.push_back({connection.id, std::move(slice)});
    } else {
      connection.waiting.push_back(std::move(slice));
    }
  }
}

void KafkaClient::OnConnected(Instant now, ConnectionId id, ClientOutput* output) {
  Rekey(now);
  for (auto& [server, connection] : connections_) {
    if (connection.id != id) continue;
    connection.up = true;
    for (Bytes& slice : connection.waiting) output->sends.push_back({id, std::move(slice)});
    connection.waiting.clear();
  }
  Continue(now, output);
}

void KafkaClient::OnBytes(Instant now, ConnectionId id, Bytes data, ClientOutput* output) {
  auto it = std::find_if(connections_.begin(), connections_.end(),
                         [&](const auto& entry) { return entry.second.id == id; });
  if (it == connections_.end()) return;
  Rekey(now);
  const uint32_t server = it->first;
  it->second.cutter.Add(std::move(data));
  // Looked up anew for each frame: what a frame brings about may close the connection.
  for (;;) {
    it = connections_.find(server);
    if (it == connections_.end() || it->second.id != id) break;
    absl::StatusOr<std::optional<Bytes>> frame = it->second.cutter.Next();
    if (!frame.ok()) FailBytes(frame.status().ToString());
    if (!frame->has_value()) break;
    OnFrame(now, server, **frame, output);
  }
  Continue(now, output);
}

void KafkaClient::OnFrame(Instant now, uint32_t server, const Bytes& frame, ClientOutput* output) {
  Connection& connection = connections_.at(server);
  if (connection.in_flight.empty()) FailBytes("a response that answers nothing");
  const Call call = connection.in_flight.front();
  kafka::Reader reader(frame);
  const int32_t correlation = reader.ReadInt32();
  // Brokers answer a connection's requests in their order.
  if (correlation != call.correlation) {
    FailBytes(
        absl::StrCat("response to ", correlation, " where that to ", call.correlation, " is due"));
  }
  connection.in_flight.pop_front();
  if (hello_.erase(call.number) > 0) {
    Take<kafka::ApiVersionsResponse>(call, frame);
    return;
  }
  if (metadata_call_ == call.number) {
    metadata_call_.reset();
    OnMetadata(Take<kafka::MetadataResponse>(call, frame));
    metadata_at_ = now;
    return;
  }
  OnAnswer(now, call, frame, output);
}

void KafkaClient::OnClosed(Instant now, ConnectionId id, ClientOutput* output) {
  Rekey(now);
  for (auto& [server, connection] : connections_) {
    if (connection.id != id) continue;
    Connection lost = std::move(connection);
    connections_.erase(server);
    Lose(now, std::move(lost), output);
    break;
  }
  Continue(now, output);
}

void KafkaClient::Lose(Instant now, Connection connection, ClientOutput* output) {
  RefreshMetadata(now);
  for (const Call& call : connection.in_flight) {
    if (hello_.erase(call.number) > 0) continue;
    if (metadata_call_ == call.number) {
      metadata_call_.reset();
      continue;
    }
    if (trace_->on()) TraceCall("lost", call, "");
    OnLost(now, call, output);
  }
}

void KafkaClient::Drop(Instant now, ClientOutput* output) {
  Rekey(now);
  std::map<uint32_t, Connection> all;
  all.swap(connections_);
  for (auto& [server, connection] : all) {
    output->closes.push_back(connection.id);
    Lose(now, std::move(connection), output);
  }
  Continue(now, output);
}

// ---- Metadata ----------------------------------------------------------------------------------

void KafkaClient::Watch(const std::string& topic) {
  if (topics_.try_emplace(topic).second) metadata_wanted_ = true;
}

void KafkaClient::RefreshMetadata(Instant now) {
  if (metadata_wanted_) return;
  metadata_wanted_ = true;
  metadata_next_ = std::max(metadata_next_, now + BackOff());
}

void KafkaClient::AskMetadata(Instant now, ClientOutput* output) {
  if (metadata_call_ || topics_.empty()) return;
  const Duration age_max = context_.tick * 20;
  if (metadata_at_ != Instant::Never() && now - metadata_at_ >= age_max) metadata_wanted_ = true;
  if (!metadata_wanted_ || now < metadata_next_) return;
  kafka::MetadataRequest request;
  request.allow_auto_topic_creation = false;
  request.topics.emplace();
  for (const auto& [name, view] : topics_) request.topics->push_back({{}, name});
  metadata_wanted_ = false;
  metadata_next_ = now + BackOff();
  metadata_call_ = Send(now, RandomServer(), request, context_.tick * 4, output);
}

void KafkaClient::OnMetadata(const kafka::MetadataResponse& response) {
  std::map<int32_t, uint32_t> servers;
  for (const auto& broker : response.brokers) {
    const std::optional<uint32_t> server = ServerOfHost(broker.host);
    if (!server || *server >= context_.servers) FailBytes("a broker at " + broker.host);
    servers[broker.node_id] = *server;
  }
  for (const auto& topic : response.topics) {
    auto it = topics_.find(topic.name.value_or(""));
    if (it == topics_.end()) FailBytes("metadata of a topic that was not asked for");
    TopicView& view = it->second;
    view.error = topic.error_code;
    if (topic.error_code != ErrorCode::kNone) {
      view.partitions.clear();
      metadata_wanted_ = true;
      continue;
    }
    view.id = topic.topic_id;
    view.partitions.resize(topic.partitions.size());
    for (const auto& partition : topic.partitions) {
      const auto index = static_cast<size_t>(partition.partition_index);
      if (partition.partition_index < 0 || index >= view.partitions.size()) {
        FailBytes("partitions are not numbered from 0");
      }
      PartitionView& p = view.partitions[index];
      auto leader = servers.find(partition.leader_id);
      p.leader = leader == servers.end() ? std::nullopt : std::optional(leader->second);
      p.leader_epoch = partition.leader_epoch;
      if (!p.leader) metadata_wanted_ = true;
      p.replicas.clear();
      for (int32_t broker : partition.replica_nodes) {
        if (const auto server = ServerOf(replication::BrokerId{broker})) {
          p.replicas.push_back(*server);
        }
      }
    }
  }
}

const KafkaClient::TopicView* KafkaClient::Find(const std::string& topic) const {
  auto it = topics_.find(topic);
  return it == topics_.end() ? nullptr : &it->second;
}

std::optional<uint32_t> KafkaClient::LeaderOf(const std::string& topic, int32_t partition) const {
  const TopicView* view = Find(topic);
  if (view == nullptr || static_cast<size_t>(partition) >= view->partitions.size()) return {};
  return view->partitions[static_cast<size_t>(partition)].leader;
}

int32_t KafkaClient::EpochOf(const std::string& topic, int32_t partition) const {
  const TopicView* view = Find(topic);
  if (view == nullptr || static_cast<size_t>(partition) >= view->partitions.size()) return -1;
  return view->partitions[static_cast<size_t>(partition)].leader_epoch;
}

// ---- Time --------------------------------------------------------------------------------------

void KafkaClient::OnWake(Instant now, ClientOutput* output) {
  Rekey(now);
  if (now >= scheduled_wake_) scheduled_wake_ = Instant::Never();
  std::vector<uint32_t> late;
  for (const auto& [server, connection] : connections_) {
    // Answers come in order: when one is late, so are all behind it.
    if (!connection.in_flight.empty() && connection.in_flight.front().deadline <= now) {
      late.push_back(server);
    }
  }
  for (uint32_t server : late) {
    Connection connection = std::move(connections_.at(server));
    connections_.erase(server);
    output->closes.push_back(connection.id);
    Lose(now, std::move(connection), output);
  }
  Continue(now, output);
}

void KafkaClient::Continue(Instant now, ClientOutput* output) {
  AskMetadata(now, output);
  Instant next = Work(now, output);
  if (metadata_wanted_ && !metadata_call_) next = std::min(next, metadata_next_);
  for (const auto& [server, connection] : connections_) {
    if (!connection.in_flight.empty()) {
      next = std::min(next, connection.in_flight.front().deadline);
    }
  }
  next = std::max(next, now + Microseconds(1));
  if (next >= scheduled_wake_) return;
  scheduled_wake_ = next;
  if (!output->wake || next < *output->wake) output->wake = next;
}

}  // namespace lockstep::sim
