#include "sim/kafka_admin.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace lockstep::sim {

using kafka::ErrorCode;

KafkaAdmin::KafkaAdmin(const Context& context, RandomStream random, Replication* replication)
    : KafkaClient(context, "admin", random), replication_(replication) {
  for (const TopicPlan& topic : plan_.topics) Watch(topic.name);
}

void KafkaAdmin::Vanish(Instant now, ClientOutput* output) {
  call_.reset();
  Drop(now, output);
}

void KafkaAdmin::Quiesce(Instant now, ClientOutput* output) {
  quiescing_ = true;
  OnWake(now, output);
}

bool KafkaAdmin::Exists(const TopicPlan& topic) const {
  const TopicView* view = Find(topic.name);
  return view != nullptr && !view->partitions.empty();
}

std::string KafkaAdmin::NotDone() const {
  for (const TopicPlan& topic : plan_.topics) {
    if (!Exists(topic)) return "does not see topic " + topic.name;
  }
  return "";
}

Instant KafkaAdmin::Work(Instant now, ClientOutput* output) {
  if (call_) return Instant::Never();
  if (now < std::min(next_work_, NextStepAt())) return std::min(next_work_, NextStepAt());
  next_work_ = now + Around(random_, plan_.admin_think) + Microseconds(1);
  if (Create(now, output)) return Instant::Never();
  if (quiescing_ || (!plan_.admin && !follows())) return next_work_;
  std::optional<AdminStep> step = plan_.admin ? DrawStep() : std::nullopt;
  if (!burst_.empty()) next_work_ = now + burst_.front().wait;
  if (follows()) {
    step.reset();
    if (const AdminStep* due = Due<AdminStep>(now); due != nullptr && CanIssue(*due)) {
      step = *due;
      context_.script->Take(actor(), now);
    }
  } else if (step) {
    Note(now, *step);
  }
  if (step) Issue(now, *step, output);
  next_work_ = std::min(next_work_, std::max(NextStepAt(), now + context_.tick / 10));
  return call_ ? Instant::Never() : next_work_;
}

// Topics that are not there are made.
bool KafkaAdmin::Create(Instant now, ClientOutput* output) {
  kafka::CreateTopicsRequest request;
  for (const TopicPlan& topic : plan_.topics) {
    if (Exists(topic)) continue;
    kafka::CreateTopicsRequest::Topic& create = request.topics.emplace_back();
    create.name = topic.name;
    create.num_partitions = topic.partitions;
    create.replication_factor = topic.replication_factor;
    create.configs.push_back({"min.insync.replicas", absl::StrCat(topic.min_insync)});
    if (topic.unclean) create.configs.push_back({"unclean.leader.election.enable", "true"});
    if (topic.retention_bytes > 0) {
      create.configs.push_back({"retention.bytes", absl::StrCat(topic.retention_bytes)});
    }
    if (topic.retention_ms > 0) {
      create.configs.push_back({"retention.ms", absl::StrCat(topic.retention_ms)});
    }
  }
  if (request.topics.empty()) return false;
  request.timeout_ms = static_cast<int32_t>((Timeout() / 2).Milliseconds());
  call_ = Send(now, RandomServer(), request, Timeout(), output);
  RefreshMetadata(now);
  return true;
}

int32_t KafkaAdmin::RandomPartition(const TopicPlan& topic) {
  const TopicView* view = Find(topic.name);
  return static_cast<int32_t>(random_.Below(view->partitions.size()));
}

std::optional<AdminStep> KafkaAdmin::DrawStep() {
  if (!burst_.empty()) {
    const AdminStep step = burst_.front().step;
    burst_.pop_front();
    return CanIssue(step) ? std::optional(step) : std::nullopt;
  }
  uint64_t total = 0;
  for (uint32_t weight : plan_.admin_weights) total += weight;
  if (total == 0) return std::nullopt;
  uint64_t drawn = random_.Below(total);
  size_t op = 0;
  while (drawn >= plan_.admin_weights[op]) drawn -= plan_.admin_weights[op++];
  AdminStep step;
  step.op = static_cast<AdminOp>(op);
  step.topic = static_cast<uint32_t>(random_.Below(plan_.topics.size()));
  const TopicPlan& topic = plan_.topics[step.topic];
  switch (step.op) {
    case AdminOp::kReassign:
      step.partition = RandomPartition(topic);
      DrawReplicas(topic, &step);
      break;
    case AdminOp::kCancelReassignment:
    case AdminOp::kElectPreferred:
      step.partition = RandomPartition(topic);
      if (plan_.hand_overs && step.op == AdminOp::kElectPreferred) DrawBurst(step);
      break;
    case AdminOp::kRecreate:
    case AdminOp::kAddPartitions:
    case AdminOp::kListReassignments:
      break;
    case AdminOp::kDeleteRecords: {
      step.partition = RandomPartition(topic);
      if (!CanIssue(step)) return std::nullopt;
      const int64_t end = replication_->CommittedEnd(topic.name, step.partition);
      if (end == 0) return std::nullopt;
      step.number = random_.Between(0, end);
      break;
    }
    case AdminOp::kSetMinInsync:
      step.number = random_.Between(1, topic.min_insync);
      break;
    case AdminOp::kCount:
      LS_UNREACHABLE();
  }
  return CanIssue(step) ? std::optional(step) : std::nullopt;
}

void KafkaAdmin::DrawReplicas(const TopicPlan& topic, AdminStep* step) {
  std::vector<uint32_t>& servers = step->servers;
  for (uint32_t s = 0; s < context_.servers; ++s) servers.push_back(s);
  for (size_t i = servers.size(); i > 1; --i) {
    std::swap(servers[i - 1], servers[random_.Below(i)]);
  }
  const auto least = static_cast<int64_t>(
      std::min<size_t>(servers.size(), static_cast<size_t>(std::max(topic.min_insync, 1))));
  const auto most = static_cast<int64_t>(std::min<size_t>(servers.size(), 4));
  servers.resize(static_cast<size_t>(random_.Between(std::min(least, most), most)));
}

// Two replicas are made the preferred one in turn, and elected, faster than anybody falls out of
// the ISR. Sometimes another one is taken away on the way, and added again.
void KafkaAdmin::DrawBurst(const AdminStep& of) {
  const std::string& topic = plan_.topics[of.topic].name;
  const PartitionView& view = Find(topic)->partitions[static_cast<size_t>(of.partition)];
  std::vector<uint32_t> replicas = view.replicas;
  if (replicas.size() < 2) return;
  // The last one is who leads, the one before it who is to.
  if (const auto leader = std::find(replicas.begin(), replicas.end(), view.leader);
      leader != replicas.end()) {
    std::iter_swap(leader, replicas.end() - 1);
  }
  std::swap(replicas[random_.Below(replicas.size() - 1)], replicas[replicas.size() - 2]);
  std::reverse(replicas.begin(), replicas.end());
  const bool moves = replicas.size() > 2 && random_.Chance(1, 3);
  for (int64_t left = random_.Between(2, 5); left > 0; --left) {
    std::swap(replicas[0], replicas[1]);
    AdminStep order = of;
    order.op = AdminOp::kReassign;
    order.servers = replicas;
    if (moves && random_.Chance(1, 2)) order.servers.pop_back();
    const Duration pause = plan_.session_timeout * random_.Between(0, 8) / 8;
    const Duration soon = context_.tick * random_.Between(1, 8) / 8;
    burst_.push_back({pause, order});
    burst_.push_back({soon, of});
  }
}

bool KafkaAdmin::CanIssue(const AdminStep& step) const {
  const TopicPlan& topic = plan_.topics[step.topic];
  const TopicView* view = Find(topic.name);
  if (view == nullptr || static_cast<size_t>(step.partition) >= view->partitions.size()) {
    return false;
  }
  switch (step.op) {
    case AdminOp::kRecreate:
      return topic.recreated;
    case AdminOp::kDeleteRecords:
      return LeaderOf(topic.name, step.partition).has_value();
    case AdminOp::kAddPartitions:
      return static_cast<int32_t>(view->partitions.size()) < topic.partitions + 2;
    default:
      return true;
  }
}

void KafkaAdmin::Issue(Instant now, const AdminStep& step, ClientOutput* output) {
  const TopicPlan& topic = plan_.topics[step.topic];
  const int32_t timeout_ms = static_cast<int32_t>((Timeout() / 2).Milliseconds());
  switch (step.op) {
    case AdminOp::kReassign:
    case AdminOp::kCancelReassignment:
      return Reassign(now, step, output);
    case AdminOp::kElectPreferred: {
      kafka::ElectLeadersRequest request;
      request.topic_partitions.emplace();
      request.topic_partitions->push_back({topic.name, {step.partition}});
      request.timeout_ms = timeout_ms;
      call_ = Send(now, RandomServer(), request, Timeout(), output);
      return;
    }
    case AdminOp::kRecreate:
      return DeleteTopic(now, topic, output);
    case AdminOp::kDeleteRecords:
      return DeleteRecords(now, step, output);
    case AdminOp::kSetMinInsync:
      return SetMinInsync(now, step, output);
    case AdminOp::kAddPartitions: {
      kafka::CreatePartitionsRequest request;
      kafka::CreatePartitionsRequest::Topic& more = request.topics.emplace_back();
      more.name = topic.name;
      more.count = static_cast<int32_t>(Find(topic.name)->partitions.size()) + 1;
      request.timeout_ms = timeout_ms;
      call_ = Send(now, RandomServer(), request, Timeout(), output);
      return RefreshMetadata(now);
    }
    case AdminOp::kListReassignments: {
      kafka::ListPartitionReassignmentsRequest request;
      request.timeout_ms = timeout_ms;
      call_ = Send(now, RandomServer(), request, Timeout(), output);
      return;
    }
    case AdminOp::kCount:
      break;
  }
}

void KafkaAdmin::Reassign(Instant now, const AdminStep& step, ClientOutput* output) {
  kafka::AlterPartitionReassignmentsRequest request;
  request.timeout_ms = static_cast<int32_t>((Timeout() / 2).Milliseconds());
  auto& of = request.topics.emplace_back();
  of.name = plan_.topics[step.topic].name;
  auto& partition = of.partitions.emplace_back();
  partition.partition_index = step.partition;
  if (step.op == AdminOp::kReassign) {
    std::vector<int32_t> brokers;
    for (uint32_t server : step.servers) brokers.push_back(BrokerOf(server).value);
    partition.replicas = std::move(brokers);
  }
  call_ = Send(now, RandomServer(), request, Timeout(), output);
}

void KafkaAdmin::DeleteRecords(Instant now, const AdminStep& step, ClientOutput* output) {
  const std::string& topic = plan_.topics[step.topic].name;
  kafka::DeleteRecordsRequest request;
  auto& of = request.topics.emplace_back();
  of.name = topic;
  of.partitions.push_back({step.partition, step.number});
  request.timeout_ms = static_cast<int32_t>((Timeout() / 2).Milliseconds());
  call_ = Send(now, *LeaderOf(topic, step.partition), request, Timeout(), output);
}

void KafkaAdmin::SetMinInsync(Instant now, const AdminStep& step, ClientOutput* output) {
  kafka::IncrementalAlterConfigsRequest request;
  auto& resource = request.resources.emplace_back();
  resource.resource_type = 2;  // a topic
  resource.resource_name = plan_.topics[step.topic].name;
  auto& config = resource.configs.emplace_back();
  config.name = "min.insync.replicas";
  config.config_operation = 0;  // set
  config.value = absl::StrCat(std::max<int64_t>(step.number, 1));
  call_ = Send(now, RandomServer(), request, Timeout(), output);
}

void KafkaAdmin::DeleteTopic(Instant now, const TopicPlan& topic, ClientOutput* output) {
  kafka::DeleteTopicsRequest request;
  if (VersionOf<kafka::DeleteTopicsRequest>() >= 6) {
    request.topics.push_back({.name = topic.name});
  } else {
    request.topic_names.push_back(topic.name);
  }
  request.timeout_ms = static_cast<int32_t>((Timeout() / 2).Milliseconds());
  call_ = Send(now, RandomServer(), request, Timeout(), output);
  RefreshMetadata(now);
}

void KafkaAdmin::OnLost(Instant now, const Call& call, ClientOutput*) {
  if (call_ != call.number) return;
  call_.reset();
  next_work_ = now + BackOff();
}

void KafkaAdmin::OnAnswer(Instant now, const Call& call, const Bytes& frame, ClientOutput*) {
  if (call_ != call.number) return;
  call_.reset();
  next_work_ = std::max(next_work_, now);
  OnErrors(call, frame);
}

// Refusals are in order: what it asks for is drawn, and others change things meanwhile.
void KafkaAdmin::OnErrors(const Call& call, const Bytes& frame) {
  bool all_done = true;
  const auto see = [&](ErrorCode error) {
    all_done &= error == ErrorCode::kNone;
    Line("admin",
         absl::StrCat("api ", static_cast<int16_t>(call.api), ": ", kafka::ToString(error)));
  };
  switch (call.api) {
    case kafka::ApiKey::kCreateTopics:
      for (const auto& topic : Take<kafka::CreateTopicsResponse>(call, frame).topics) {
        see(topic.error_code);
      }
      break;
    case kafka::ApiKey::kDeleteTopics:
      for (const auto& topic : Take<kafka::DeleteTopicsResponse>(call, frame).responses) {
        see(topic.error_code);
      }
      if (all_done) probes_->Hit(Probe::kTopicDeleted);
      break;
    case kafka::ApiKey::kCreatePartitions:
      for (const auto& topic : Take<kafka::CreatePartitionsResponse>(call, frame).results) {
        see(topic.error_code);
      }
      break;
    case kafka::ApiKey::kAlterPartitionReassignments: {
      const auto response = Take<kafka::AlterPartitionReassignmentsResponse>(call, frame);
      see(response.error_code);
      for (const auto& topic : response.responses) {
        for (const auto& partition : topic.partitions) see(partition.error_code);
      }
      if (all_done) probes_->Hit(Probe::kReassignmentAccepted);
      break;
    }
    case kafka::ApiKey::kListPartitionReassignments:
      see(Take<kafka::ListPartitionReassignmentsResponse>(call, frame).error_code);
      break;
    case kafka::ApiKey::kElectLeaders: {
      const auto response = Take<kafka::ElectLeadersResponse>(call, frame);
      see(response.error_code);
      for (const auto& topic : response.replica_election_results) {
        for (const auto& partition : topic.partition_result) see(partition.error_code);
      }
      break;
    }
    case kafka::ApiKey::kDeleteRecords:
      for (const auto& topic : Take<kafka::DeleteRecordsResponse>(call, frame).topics) {
        for (const auto& partition : topic.partitions) see(partition.error_code);
      }
      break;
    case kafka::ApiKey::kIncrementalAlterConfigs:
      for (const auto& of : Take<kafka::IncrementalAlterConfigsResponse>(call, frame).responses) {
        see(of.error_code);
      }
      break;
    default:
      FailBytes("an answer to nothing");
  }
}

}  // namespace lockstep::sim
