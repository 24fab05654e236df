// ApiVersions, Metadata, DescribeCluster, FindCoordinator, InitProducerId: who is where.
#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/container/btree_set.h"
#include "core/kafka/front_end_impl.h"
#include "core/replication/topics.h"

namespace lockstep::kafka {
namespace {

// What a topic is made by that nobody asked for by name has so long to appear.
constexpr Duration kImplicitCreationTimeout = Seconds(30);

// KIP-430: "not asked for".
constexpr int32_t kNoOperations = INT32_MIN;

std::vector<int32_t> Values(const std::vector<replication::BrokerId>& brokers) {
  std::vector<int32_t> values;
  values.reserve(brokers.size());
  for (replication::BrokerId broker : brokers) values.push_back(broker.value);
  return values;
}

MetadataResponse::Partition Describe(
    const replication::PartitionState& state,
    const std::map<replication::BrokerId, replication::BrokerState>& brokers) {
  MetadataResponse::Partition to;
  to.partition_index = state.id.partition;
  to.leader_epoch = state.leader_epoch.value;
  to.replica_nodes = Values(state.replicas);
  for (const replication::IsrMember& member : state.isr)
    to.isr_nodes.push_back(member.broker.value);
  for (replication::BrokerId replica : state.replicas) {
    if (!brokers.contains(replica)) to.offline_replicas.push_back(replica.value);
  }
  // A leader that is not registered cannot be found by the client; it is about to be replaced.
  if (state.leader && brokers.contains(*state.leader)) {
    to.leader_id = state.leader->value;
  } else {
    to.leader_id = -1;
    to.error_code = ErrorCode::kLeaderNotAvailable;
  }
  return to;
}

}  // namespace

void FrontEnd::Impl::Handle(CallId call, ApiVersionsRequest&&) {
  ApiVersionsResponse response;
  for (const ServedApi& api : ServedApis()) {
    response.api_keys.push_back({static_cast<int16_t>(api.key), api.version_min, api.version_max});
  }
  Reply(call, response);
}

// Not when a session has ended and nothing has been read since. Nor when this broker was cut off
// from the coordination service, or stopped, for as long as a session lives: others know more, and
// a client that knows no leader epochs (Metadata 0 to 6) would go back to whoever led before.
bool FrontEnd::Impl::KnowsCluster() const {
  return broker_.metadata().complete() && broker_.may_lead(now_);
}

int32_t FrontEnd::Impl::ControllerId() const {
  // Every broker carries out what a controller is asked for; all name the same one.
  const auto& brokers = broker_.metadata().brokers();
  return brokers.empty() ? -1 : brokers.begin()->first.value;
}

void FrontEnd::Impl::CreateImplicitly(const std::string& topic, int32_t partitions,
                                      int32_t replicas) {
  if (!being_created_.insert(topic).second) return;
  replication::CreateTopic create;
  create.topic = topic;
  create.partitions = partitions;
  create.replication_factor = replicas;
  if (topic == kOffsetsTopic) create.configs = OffsetsTopicConfigs();
  Ask({.call = 0, .topic = topic}, std::move(create),
      static_cast<int32_t>(kImplicitCreationTimeout.Milliseconds()));
}

void FrontEnd::Impl::Handle(CallId call, MetadataRequest&& request) {
  const Call* c = FindCall(call);
  const replication::Metadata& metadata = broker_.metadata();
  if (!KnowsCluster()) return Close(c->connection, "the cluster's state is not known");
  MetadataResponse response;
  for (const auto& [id, broker] : metadata.brokers()) {
    response.brokers.push_back(
        {.node_id = id.value,
         .host = broker.endpoint.host,
         .port = broker.endpoint.port,
         .rack = broker.rack.empty() ? std::nullopt : std::optional<std::string>(broker.rack)});
  }
  response.cluster_id = metadata.cluster_id();
  response.controller_id = ControllerId();
  response.cluster_authorized_operations = kNoOperations;

  auto describe = [&](const replication::TopicState& state) {
    MetadataResponse::Topic to;
    to.name = state.name;
    to.topic_id = state.id;
    to.is_internal = state.name == kOffsetsTopic;
    to.topic_authorized_operations = kNoOperations;
    for (const replication::PartitionState& partition : state.partitions) {
      to.partitions.push_back(Describe(partition, metadata.brokers()));
    }
    response.topics.push_back(std::move(to));
  };
  // Null is all topics; in version 0, where there is no null, an empty list is.
  const bool all = !request.topics || (c->version == 0 && request.topics->empty());
  if (all) {
    for (const auto& [name, state] : metadata.topics()) {
      if (!state.deleting && metadata.whole(name)) describe(state);
    }
    return Reply(call, response);
  }
  // Each once, as in Kafka: an answer may be ten thousand times as large as a name.
  absl::btree_set<std::pair<std::optional<std::string_view>, Uuid>> described;
  for (const MetadataRequest::Topic& asked : *request.topics) {
    if (!described.insert({asked.name, asked.name ? Uuid() : asked.topic_id}).second) continue;
    const replication::TopicState* state =
        asked.name ? FindTopic(*asked.name) : metadata.FindTopic(asked.topic_id);
    if (state != nullptr && !state->deleting && metadata.whole(state->name)) {
      describe(*state);
      continue;
    }
    MetadataResponse::Topic to;
    to.name = asked.name;
    // Before version 12 a name cannot be null.
    if (!to.name && c->version < 12) to.name = "";
    to.topic_id = asked.topic_id;
    to.topic_authorized_operations = kNoOperations;
    to.error_code = asked.name ? ErrorCode::kUnknownTopicOrPartition : ErrorCode::kUnknownTopicId;
    if (asked.name && !replication::ValidTopicName(*asked.name)) {
      to.error_code = ErrorCode::kInvalidTopicException;
    } else if (state != nullptr && !state->deleting) {
      to.name = state->name;
      to.error_code = ErrorCode::kLeaderNotAvailable;  // as Kafka of a topic that is just there
    } else if (asked.name && options_.auto_create_topics && request.allow_auto_topic_creation) {
      if (*asked.name == kOffsetsTopic) {
        CreateImplicitly(kOffsetsTopic, options_.groups.partitions, OffsetsReplicas());
      } else {
        CreateImplicitly(*asked.name, -1, -1);
      }
      // The client asks again in a moment.
      to.error_code = ErrorCode::kLeaderNotAvailable;
    }
    response.topics.push_back(std::move(to));
  }
  Reply(call, response);
}

// In Kafka it is compacted, and a committed offset stays for as long as its group lives, however
// long ago that was. So nothing of it may go by its age: a group that commits seldom would lose its
// place at the next fail-over.
std::map<std::string, std::string> FrontEnd::Impl::OffsetsTopicConfigs() {
  return {{"retention.bytes", "-1"}, {"retention.ms", "-1"}};
}

int32_t FrontEnd::Impl::OffsetsReplicas() const {
  // As Kafka: fewer brokers than that give fewer replicas, or a cluster of one could have no
  // groups.
  const auto& brokers = broker_.metadata().brokers();
  const auto live = static_cast<int32_t>(std::count_if(
      brokers.begin(), brokers.end(), [](const auto& entry) { return !entry.second.fenced; }));
  return std::max(1, std::min(options_.groups.replication_factor, live));
}

void FrontEnd::Impl::Handle(CallId call, DescribeClusterRequest&&) {
  DescribeClusterResponse response;
  response.cluster_id = broker_.metadata().cluster_id();
  response.controller_id = ControllerId();
  response.cluster_authorized_operations = kNoOperations;
  for (const auto& [id, broker] : broker_.metadata().brokers()) {
    response.brokers.push_back(
        {.broker_id = id.value,
         .host = broker.endpoint.host,
         .port = broker.endpoint.port,
         .rack = broker.rack.empty() ? std::nullopt : std::optional<std::string>(broker.rack)});
  }
  Reply(call, response);
}

FindCoordinatorResponse::Coordinator FrontEnd::Impl::FindCoordinator(const std::string& key,
                                                                     int8_t key_type) {
  FindCoordinatorResponse::Coordinator to;
  to.key = key;
  to.node_id = -1;
  to.host = "";
  to.port = -1;
  constexpr int8_t kGroup = 0;
  constexpr int8_t kTransaction = 1;
  if (key_type != kGroup) {
    // Of the errors that end a transactional producer at once this is the only one that librdkafka
    // and the Java client agree on: librdkafka asks again for ever after any other.
    to.error_code = key_type == kTransaction ? ErrorCode::kTransactionalIdAuthorizationFailed
                                             : ErrorCode::kInvalidRequest;
    to.error_message = key_type == kTransaction ? "transactions are not offered yet"
                                                : "coordinators are of groups";
    return to;
  }
  to.error_code = ErrorCode::kCoordinatorNotAvailable;
  const replication::Metadata& metadata = broker_.metadata();
  if (!KnowsCluster()) return to;
  const replication::TopicState* topic = FindTopic(kOffsetsTopic);
  if (topic == nullptr) {
    CreateImplicitly(kOffsetsTopic, options_.groups.partitions, OffsetsReplicas());
    return to;
  }
  const int32_t number = Groups::PartitionOf(key, static_cast<int32_t>(topic->partitions.size()));
  const replication::PartitionState& partition = topic->partitions[static_cast<size_t>(number)];
  if (!partition.leader) return to;
  auto broker = metadata.brokers().find(*partition.leader);
  if (broker == metadata.brokers().end()) return to;
  to.error_code = ErrorCode::kNone;
  to.node_id = broker->first.value;
  to.host = broker->second.endpoint.host;
  to.port = broker->second.endpoint.port;
  return to;
}

void FrontEnd::Impl::Handle(CallId call, FindCoordinatorRequest&& request) {
  FindCoordinatorResponse response;
  if (FindCall(call)->version >= 4) {
    for (const std::string& key : request.coordinator_keys) {
      response.coordinators.push_back(FindCoordinator(key, request.key_type));
    }
    return Reply(call, response);
  }
  FindCoordinatorResponse::Coordinator one = FindCoordinator(request.key, request.key_type);
  response.error_code = one.error_code;
  response.error_message = std::move(one.error_message);
  response.node_id = one.node_id;
  response.host = std::move(one.host);
  response.port = one.port;
  Reply(call, response);
}

void FrontEnd::Impl::Handle(CallId call, InitProducerIdRequest&& request) {
  if (request.transactional_id) {
    InitProducerIdResponse response;
    response.error_code = ErrorCode::kTransactionalIdAuthorizationFailed;
    return Reply(call, response);
  }
  // Also for a producer that names an old id (KIP-360): a new one is as good as a new epoch of it.
  producer_id_calls_.push_back(call);
  AnswerProducerIds();
}

void FrontEnd::Impl::AnswerProducerIds() {
  while (!producer_id_calls_.empty()) {
    const CallId call = producer_id_calls_.front();
    if (FindCall(call) != nullptr) {
      const std::optional<int64_t> id = broker_.TakeProducerId(now_, broker_output_);
      if (!id) return;  // BrokerOutput::producer_ids says when there are some
      InitProducerIdResponse response;
      response.producer_id = *id;
      response.producer_epoch = 0;
      producer_id_calls_.pop_front();
      Reply(call, response);
      continue;
    }
    producer_id_calls_.pop_front();
  }
}

}  // namespace lockstep::kafka
