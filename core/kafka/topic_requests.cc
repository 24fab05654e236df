// Requests about topics: making and removing them, where their replicas are.
// Every broker carries them out; the broker below decides, this file translates.
#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "core/kafka/front_end_impl.h"
#include "core/replication/topics.h"

namespace lockstep::kafka {
namespace {

// As in Kafka (ReplicationControlManager): each partition is a handful of znodes, three replicas to
// open and an election, and other clients wait for all of that meanwhile.
constexpr int64_t kNewPartitionsMax = 10'000;
constexpr char kTooManyPartitions[] =
    "more than 10000 new partitions in one request: ask for them in several";

ErrorCode ToErrorCode(replication::AdminError error) {
  using replication::AdminError;
  switch (error) {
    case AdminError::kNone:
      return ErrorCode::kNone;
    case AdminError::kTopicExists:
      return ErrorCode::kTopicAlreadyExists;
    case AdminError::kUnknownTopic:
      return ErrorCode::kUnknownTopicOrPartition;
    case AdminError::kInvalidTopic:
      return ErrorCode::kInvalidTopicException;
    case AdminError::kInvalidPartitions:
      return ErrorCode::kInvalidPartitions;
    case AdminError::kInvalidReplicationFactor:
      return ErrorCode::kInvalidReplicationFactor;
    case AdminError::kInvalidAssignment:
      return ErrorCode::kInvalidReplicaAssignment;
    case AdminError::kInvalidConfig:
      return ErrorCode::kInvalidConfig;
    case AdminError::kReassignmentInProgress:
      return ErrorCode::kReassignmentInProgress;
    case AdminError::kNoReassignment:
      return ErrorCode::kNoReassignmentInProgress;
    case AdminError::kPreferredNotAvailable:
      return ErrorCode::kPreferredLeaderNotAvailable;
    case AdminError::kElectionNotNeeded:
      return ErrorCode::kElectionNotNeeded;
    case AdminError::kTimedOut:
      return ErrorCode::kRequestTimedOut;
    case AdminError::kNotAvailable:
      return ErrorCode::kCoordinatorNotAvailable;
  }
  LS_UNREACHABLE();
}

std::vector<replication::BrokerId> ToBrokers(const std::vector<int32_t>& ids) {
  std::vector<replication::BrokerId> brokers;
  brokers.reserve(ids.size());
  for (int32_t id : ids) brokers.push_back({id});
  return brokers;
}

std::vector<int32_t> ToIds(const std::vector<replication::BrokerId>& brokers) {
  std::vector<int32_t> ids;
  ids.reserve(brokers.size());
  for (replication::BrokerId broker : brokers) ids.push_back(broker.value);
  return ids;
}

std::optional<std::string> OrNull(std::string text) {
  if (text.empty()) return std::nullopt;
  return text;
}

// The assignment by partition, which must be 0, 1, ... in any order. Nothing if it is not.
std::optional<std::vector<std::vector<replication::BrokerId>>> InOrder(
    const std::vector<CreateTopicsRequest::Assignment>& from) {
  std::vector<std::vector<replication::BrokerId>> result(from.size());
  std::vector<bool> seen(from.size());
  for (const auto& one : from) {
    if (one.partition_index < 0 || static_cast<size_t>(one.partition_index) >= from.size() ||
        seen[static_cast<size_t>(one.partition_index)]) {
      return std::nullopt;
    }
    seen[static_cast<size_t>(one.partition_index)] = true;
    result[static_cast<size_t>(one.partition_index)] = ToBrokers(one.broker_ids);
  }
  return result;
}

}  // namespace

void FrontEnd::Impl::Ask(AdminPart part, replication::AdminRequest request, int32_t timeout_ms) {
  const uint64_t id = ++last_admin_;
  admin_parts_[id] = std::move(part);
  broker_.Admin(now_, {id}, std::move(request), now_ + Milliseconds(std::max(0, timeout_ms)),
                broker_output_);
}

void FrontEnd::Impl::FinishAdminElement(CallId call) {
  auto found = admins_.find(call);
  if (found == admins_.end() || --found->second.left > 0) return;
  const AdminCall admin = std::move(found->second);
  admins_.erase(found);
  std::visit([&](const auto& response) { Reply(call, response); }, admin.response);
}

void FrontEnd::Impl::OnAdminDone(const replication::BrokerOutput::AdminDone& done) {
  auto found = admin_parts_.find(done.id.value);
  LS_CHECK(found != admin_parts_.end());
  const AdminPart part = std::move(found->second);
  admin_parts_.erase(found);
  if (part.call == 0) {
    being_created_.erase(part.topic);
    return;
  }
  struct Fill {
    const AdminPart& part;
    ErrorCode error;
    std::optional<std::string> message;
    const replication::TopicState* topic;

    void operator()(CreateTopicsResponse& response) const {
      CreateTopicsResponse::Topic& to = response.topics[part.index];
      to.error_code = error;
      to.error_message = message;
      if (topic == nullptr || error != ErrorCode::kNone) return;
      to.topic_id = topic->id;
      to.num_partitions = static_cast<int32_t>(topic->partitions.size());
      if (!topic->partitions.empty()) {
        to.replication_factor = static_cast<int16_t>(topic->partitions[0].replicas.size());
      }
    }
    void operator()(DeleteTopicsResponse& response) const {
      response.responses[part.index].error_code = error;
      response.responses[part.index].error_message = message;
    }
    void operator()(CreatePartitionsResponse& response) const {
      response.results[part.index].error_code = error;
      response.results[part.index].error_message = message;
    }
    void operator()(AlterConfigsResponse& response) const {
      response.responses[part.index].error_code = error;
      response.responses[part.index].error_message = message;
    }
    void operator()(IncrementalAlterConfigsResponse& response) const {
      response.responses[part.index].error_code = error;
      response.responses[part.index].error_message = message;
    }
    void operator()(ElectLeadersResponse& response) const {
      auto& to = response.replica_election_results[part.index].partition_result[part.inner];
      to.error_code = error;
      to.error_message = message;
    }
    void operator()(AlterPartitionReassignmentsResponse& response) const {
      auto& to = response.responses[part.index].partitions[part.inner];
      to.error_code = error;
      to.error_message = message;
    }
  };
  auto admin = admins_.find(part.call);
  LS_CHECK(admin != admins_.end());
  std::visit(Fill{part, ToErrorCode(done.error), OrNull(done.message), FindTopic(part.topic)},
             admin->second.response);
  FinishAdminElement(part.call);
}

// ---- Topics ------------------------------------------------------------------------------------

void FrontEnd::Impl::Handle(CallId call, CreateTopicsRequest&& request) {
  CreateTopicsResponse response;
  for (const auto& topic : request.topics) {
    response.topics.push_back({.name = topic.name});
    response.topics.back().configs.emplace();
  }
  std::map<std::string_view, int> times;
  int64_t partitions = 0;
  for (const CreateTopicsRequest::Topic& topic : request.topics) {
    ++times[topic.name];
    if (!topic.assignments.empty()) {
      partitions += static_cast<int64_t>(topic.assignments.size());
    } else if (topic.num_partitions == -1) {
      partitions += broker_.options().default_partitions;
    } else {
      partitions += std::max(0, topic.num_partitions);
    }
  }
  // One more than are asked for, so that it does not end before all have begun.
  admins_[call] = {.response = std::move(response), .left = request.topics.size() + 1};
  for (size_t i = 0; i < request.topics.size(); ++i) {
    CreateTopicsRequest::Topic& from = request.topics[i];
    auto refuse = [&](ErrorCode error, std::string message) {
      auto& to = std::get<CreateTopicsResponse>(admins_.at(call).response).topics[i];
      to.error_code = error;
      to.error_message = std::move(message);
      FinishAdminElement(call);
    };
    if (times.at(from.name) > 1) {
      refuse(ErrorCode::kInvalidRequest, "the topic is named more than once");
      continue;
    }
    if (partitions > kNewPartitionsMax) {
      refuse(ErrorCode::kPolicyViolation, kTooManyPartitions);
      continue;
    }
    replication::CreateTopic create;
    create.topic = from.name;
    create.partitions = from.num_partitions;
    create.replication_factor = from.replication_factor;
    create.validate_only = request.validate_only;
    const auto assignment = InOrder(from.assignments);
    if (!assignment) {
      refuse(ErrorCode::kInvalidReplicaAssignment,
             "partitions must be assigned from 0 on, each once");
      continue;
    }
    create.assignment = *assignment;
    if (from.name == kOffsetsTopic) create.configs = OffsetsTopicConfigs();
    for (const auto& config : from.configs) {
      if (config.value) create.configs[config.name] = *config.value;
    }
    Ask({.call = call, .index = i, .topic = from.name}, std::move(create), request.timeout_ms);
  }
  FinishAdminElement(call);
}

void FrontEnd::Impl::Handle(CallId call, DeleteTopicsRequest&& request) {
  const bool by_topics = FindCall(call)->version >= 6;
  if (!by_topics) {
    for (std::string& name : request.topic_names) request.topics.push_back({.name = name});
  }
  DeleteTopicsResponse response;
  for (const auto& topic : request.topics) {
    response.responses.push_back({.name = topic.name, .topic_id = topic.topic_id});
  }
  admins_[call] = {.response = std::move(response), .left = request.topics.size() + 1};
  std::set<Uuid> named;
  for (size_t i = 0; i < request.topics.size(); ++i) {
    const auto& from = request.topics[i];
    auto& to = std::get<DeleteTopicsResponse>(admins_.at(call).response).responses[i];
    const replication::TopicState* state =
        from.name ? FindTopic(*from.name) : broker_.metadata().FindTopic(from.topic_id);
    if (state == nullptr) {
      to.error_code = from.name ? ErrorCode::kUnknownTopicOrPartition : ErrorCode::kUnknownTopicId;
      FinishAdminElement(call);
      continue;
    }
    to.name = state->name;
    to.topic_id = state->id;
    if (!named.insert(state->id).second) {
      to.error_code = ErrorCode::kInvalidRequest;
      to.error_message = "the topic is named more than once";
      FinishAdminElement(call);
      continue;
    }
    Ask({.call = call, .index = i, .topic = state->name},
        replication::DeleteTopic{.topic = state->name}, request.timeout_ms);
  }
  FinishAdminElement(call);
}

void FrontEnd::Impl::Handle(CallId call, CreatePartitionsRequest&& request) {
  CreatePartitionsResponse response;
  int64_t added = 0;
  for (const auto& topic : request.topics) {
    response.results.push_back({.name = topic.name});
    const replication::TopicState* state = FindTopic(topic.name);
    const auto present = state ? static_cast<int64_t>(state->partitions.size()) : 0;
    added += std::max<int64_t>(0, topic.count - present);
  }
  admins_[call] = {.response = std::move(response), .left = request.topics.size() + 1};
  for (size_t i = 0; i < request.topics.size(); ++i) {
    const auto& from = request.topics[i];
    auto& to = std::get<CreatePartitionsResponse>(admins_.at(call).response).results[i];
    if (added > kNewPartitionsMax) {
      to.error_code = ErrorCode::kPolicyViolation;
      to.error_message = kTooManyPartitions;
      FinishAdminElement(call);
      continue;
    }
    if (from.name == kOffsetsTopic) {
      to.error_code = ErrorCode::kInvalidTopicException;
      to.error_message =
          "a group's offsets are in the partition that its name and their number lead to: with "
          "another number they would not be found";
      FinishAdminElement(call);
      continue;
    }
    replication::CreatePartitions create;
    create.topic = from.name;
    create.total = from.count;
    create.validate_only = request.validate_only;
    if (from.assignments) {
      for (const auto& one : *from.assignments) {
        create.assignment.push_back(ToBrokers(one.broker_ids));
      }
    }
    Ask({.call = call, .index = i, .topic = from.name}, std::move(create), request.timeout_ms);
  }
  FinishAdminElement(call);
}

// ---- Leaders and replicas ----------------------------------------------------------------------

void FrontEnd::Impl::Handle(CallId call, ElectLeadersRequest&& request) {
  constexpr int8_t kPreferred = 0;
  ElectLeadersResponse response;
  if (request.election_type != kPreferred) {
    response.error_code = ErrorCode::kInvalidRequest;
    return Reply(call, response);
  }
  if (!request.topic_partitions) {
    // All of them that are not led by their preferred replica.
    request.topic_partitions.emplace();
    for (const auto& [name, topic] : broker_.metadata().topics()) {
      ElectLeadersRequest::Topic all{.topic = name, .partitions = {}};
      for (const auto& partition : topic.partitions) {
        if (partition.leader && !partition.replicas.empty() &&
            *partition.leader != partition.replicas[0]) {
          all.partitions.push_back(partition.id.partition);
        }
      }
      if (!topic.deleting && !all.partitions.empty()) request.topic_partitions->push_back(all);
    }
  }
  // Each once, as in Kafka.
  std::map<std::string, std::set<int32_t>> asked;
  for (const auto& topic : *request.topic_partitions) {
    asked[topic.topic].insert(topic.partitions.begin(), topic.partitions.end());
  }
  struct Election {
    AdminPart part;
    int32_t partition = 0;
  };
  std::vector<Election> elections;
  for (const auto& [name, partitions] : asked) {
    ElectLeadersResponse::Topic& to = response.replica_election_results.emplace_back();
    to.topic = name;
    for (int32_t partition : partitions) {
      to.partition_result.push_back({.partition_id = partition});
      if (!FindPartition(name, partition)) {
        to.partition_result.back().error_code = ErrorCode::kUnknownTopicOrPartition;
        continue;
      }
      elections.push_back({{.call = call,
                            .index = response.replica_election_results.size() - 1,
                            .inner = to.partition_result.size() - 1,
                            .topic = name},
                           partition});
    }
  }
  admins_[call] = {.response = std::move(response), .left = elections.size() + 1};
  for (const Election& one : elections) {
    Ask(one.part, replication::ElectPreferred{.topic = one.part.topic, .partition = one.partition},
        request.timeout_ms);
  }
  FinishAdminElement(call);
}

void FrontEnd::Impl::Handle(CallId call, AlterPartitionReassignmentsRequest&& request) {
  AlterPartitionReassignmentsResponse response;
  size_t count = 0;
  for (const auto& topic : request.topics) {
    response.responses.push_back({.name = topic.name});
    for (const auto& partition : topic.partitions) {
      response.responses.back().partitions.push_back(
          {.partition_index = partition.partition_index});
      count++;
    }
  }
  admins_[call] = {.response = std::move(response), .left = count + 1};
  std::set<std::pair<std::string_view, int32_t>> named;
  for (size_t t = 0; t < request.topics.size(); ++t) {
    const auto& topic = request.topics[t];
    for (size_t p = 0; p < topic.partitions.size(); ++p) {
      const int32_t partition = topic.partitions[p].partition_index;
      const bool repeated = !named.emplace(topic.name, partition).second;
      if (repeated || !FindPartition(topic.name, partition)) {
        auto& to = std::get<AlterPartitionReassignmentsResponse>(admins_.at(call).response)
                       .responses[t]
                       .partitions[p];
        to.error_code = repeated ? ErrorCode::kInvalidRequest : ErrorCode::kUnknownTopicOrPartition;
        FinishAdminElement(call);
        continue;
      }
      replication::Reassign reassign;
      reassign.topic = topic.name;
      reassign.partition = partition;
      if (topic.partitions[p].replicas)
        reassign.replicas = ToBrokers(*topic.partitions[p].replicas);
      Ask({.call = call, .index = t, .inner = p, .topic = topic.name}, std::move(reassign),
          request.timeout_ms);
    }
  }
  FinishAdminElement(call);
}

void FrontEnd::Impl::Handle(CallId call, ListPartitionReassignmentsRequest&& request) {
  ListPartitionReassignmentsResponse response;
  auto add = [&](const replication::TopicState& topic, const std::set<int32_t>* only) {
    ListPartitionReassignmentsResponse::Topic to;
    to.name = topic.name;
    for (const auto& partition : topic.partitions) {
      const int32_t number = partition.id.partition;
      if (only != nullptr && !only->contains(number)) continue;
      if (partition.adding.empty() && partition.removing.empty()) continue;
      to.partitions.push_back({.partition_index = number,
                               .replicas = ToIds(partition.replicas),
                               .adding_replicas = ToIds(partition.adding),
                               .removing_replicas = ToIds(partition.removing)});
    }
    if (!to.partitions.empty()) response.topics.push_back(std::move(to));
  };
  if (request.topics) {
    // Each topic once, however often it is named: all of its partitions are gone through.
    std::map<std::string_view, std::set<int32_t>> partitions;
    for (const auto& asked : *request.topics) {
      partitions[asked.name].insert(asked.partition_indexes.begin(), asked.partition_indexes.end());
    }
    for (const auto& [name, only] : partitions) {
      const replication::TopicState* topic = FindTopic(std::string(name));
      if (topic != nullptr) add(*topic, &only);
    }
  } else {
    for (const auto& [name, topic] : broker_.metadata().topics()) {
      if (!topic.deleting) add(topic, nullptr);
    }
  }
  Reply(call, response);
}

}  // namespace lockstep::kafka
