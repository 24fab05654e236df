// Requests about configuration: what topics and brokers have, where that is from, and the changes
// that clients may make to it. Brokers have a file; only topics are changed by request.
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "absl/container/btree_set.h"
#include "core/kafka/front_end_impl.h"
#include "core/replication/topics.h"

namespace lockstep::kafka {
namespace {

constexpr int8_t kTopicResource = 2;
constexpr int8_t kBrokerResource = 4;
// DescribeConfigs: where a value comes from.
constexpr int8_t kFromTopic = 1;
constexpr int8_t kFromFile = 4;
constexpr int8_t kFromDefault = 5;
// DescribeConfigs: what a value is.
constexpr int8_t kBoolean = 1;
constexpr int8_t kString = 2;
constexpr int8_t kInt = 3;
constexpr int8_t kLong = 5;
constexpr int8_t kList = 7;
// IncrementalAlterConfigs.
constexpr int8_t kSet = 0;
constexpr int8_t kDelete = 1;
// These requests name no timeout.
constexpr int32_t kAlterTimeoutMs = 30'000;

constexpr const char* kBrokersHaveAFile =
    "only topics can be configured by request; brokers have a file";

// A config of topics, and the keys of the broker's file that say what topics have without it: the
// first is the one by which it is called there. Null: the broker has none.
struct TopicConfig {
  std::string_view name;
  int8_t type;
  std::array<const char*, 3> file = {};
};
constexpr TopicConfig kTopicConfigs[] = {
    {"cleanup.policy", kList, {"log.cleanup.policy"}},
    {"compression.type", kString, {"compression.type"}},
    {"follower.replication.throttled.replicas", kList},
    {"leader.replication.throttled.replicas", kList},
    {"max.message.bytes", kInt, {"message.max.bytes"}},
    {"message.timestamp.type", kString, {"log.message.timestamp.type"}},
    {"min.insync.replicas", kInt, {"min.insync.replicas"}},
    {"preallocate", kBoolean, {"log.preallocate"}},
    {"remote.storage.enable", kBoolean},
    {"retention.bytes", kLong, {"log.retention.bytes"}},
    {"retention.ms", kLong, {"log.retention.ms", "log.retention.minutes", "log.retention.hours"}},
    {"segment.bytes", kInt, {"log.segment.bytes"}},
    {"segment.ms", kLong, {"log.roll.ms", "log.roll.hours"}},
    {"unclean.leader.election.enable", kBoolean, {"unclean.leader.election.enable"}},
};

struct BrokerKey {
  std::string_view name;
  int8_t type;
};
constexpr BrokerKey kBrokerConfigs[] = {
    {"auto.create.topics.enable", kBoolean},
    {"auto.leader.rebalance.enable", kBoolean},
    {"broker.id", kInt},
    {"broker.rack", kString},
    {"default.replication.factor", kInt},
    {"group.initial.rebalance.delay.ms", kInt},
    {"group.max.session.timeout.ms", kInt},
    {"group.min.session.timeout.ms", kInt},
    {"log.retention.bytes", kLong},
    {"log.retention.ms", kLong},
    {"log.roll.ms", kLong},
    {"log.segment.bytes", kInt},
    {"message.max.bytes", kInt},
    {"min.insync.replicas", kInt},
    {"num.partitions", kInt},
    {"offsets.topic.num.partitions", kInt},
    {"offsets.topic.replication.factor", kInt},
    {"replica.lag.time.max.ms", kLong},
    {"socket.request.max.bytes", kInt},
    {"unclean.leader.election.enable", kBoolean},
};

bool Wanted(const DescribeConfigsRequest::Resource& resource, std::string_view name) {
  // None named is all of them, be it null or empty.
  const auto& keys = resource.configuration_keys;
  return !keys || keys->empty() || std::find(keys->begin(), keys->end(), name) != keys->end();
}

bool InFile(const FrontEndOptions& options, const TopicConfig& config) {
  return std::any_of(config.file.begin(), config.file.end(), [&](const char* key) {
    return key != nullptr && options.configured.contains(key);
  });
}

// The same of a key of brokers, which may stand there under another name.
bool InFile(const FrontEndOptions& options, std::string_view name) {
  for (const TopicConfig& config : kTopicConfigs) {
    if (config.file[0] != nullptr && config.file[0] == name) return InFile(options, config);
  }
  return options.configured.contains(std::string(name));
}

}  // namespace

// ---- Reading it --------------------------------------------------------------------------------

void FrontEnd::Impl::Handle(CallId call, DescribeConfigsRequest&& request) {
  DescribeConfigsResponse response;
  // Each once: an answer may be a thousand times as large as a name.
  absl::btree_set<std::pair<int8_t, std::string_view>> described;
  for (const auto& from : request.resources) {
    if (!described.insert({from.resource_type, from.resource_name}).second) continue;
    DescribeConfigsResponse::Resource to;
    to.resource_type = from.resource_type;
    to.resource_name = from.resource_name;
    if (from.resource_type == kTopicResource) {
      DescribeTopic(request, from, &to);
    } else if (from.resource_type == kBrokerResource) {
      DescribeBroker(request, from, &to);
    } else {
      to.error_code = ErrorCode::kInvalidRequest;
      to.error_message = "topics and brokers have a configuration";
    }
    response.results.push_back(std::move(to));
  }
  Reply(call, response);
}

void FrontEnd::Impl::DescribeTopic(const DescribeConfigsRequest& request,
                                   const DescribeConfigsRequest::Resource& from,
                                   DescribeConfigsResponse::Resource* to) {
  const replication::TopicState* topic = FindTopic(from.resource_name);
  if (topic == nullptr) {
    to->error_code = ErrorCode::kUnknownTopicOrPartition;
    return;
  }
  for (const TopicConfig& config : kTopicConfigs) {
    if (!Wanted(from, config.name)) continue;
    DescribeConfigsResponse::Config shown;
    shown.name = std::string(config.name);
    shown.config_type = config.type;
    // What the topic would have without a value of its own.
    std::string value;
    for (const replication::FixedTopicConfig& fixed : replication::FixedTopicConfigs()) {
      if (fixed.name == config.name) value = std::string(fixed.value);
    }
    if (value.empty() && config.file[0] != nullptr) value = BrokerConfig(config.file[0]);
    shown.value = value;
    shown.config_source = InFile(options_, config) ? kFromFile : kFromDefault;
    if (auto set = topic->configs.find(shown.name); set != topic->configs.end()) {
      shown.value = set->second;
      shown.synonyms.push_back({shown.name, set->second, kFromTopic});
    }
    if (config.file[0] != nullptr) {
      shown.synonyms.push_back({config.file[0], std::move(value), shown.config_source});
    }
    if (topic->configs.contains(shown.name)) shown.config_source = kFromTopic;
    if (!request.include_synonyms) shown.synonyms.clear();
    to->configs.push_back(std::move(shown));
  }
}

void FrontEnd::Impl::DescribeBroker(const DescribeConfigsRequest& request,
                                    const DescribeConfigsRequest::Resource& from,
                                    DescribeConfigsResponse::Resource* to) {
  // Without a name it is about what all brokers were told by request, which is nothing.
  if (from.resource_name.empty()) return;
  const std::string self = broker_.options().broker.ToString();
  if (from.resource_name != self) {
    to->error_code = ErrorCode::kInvalidRequest;
    to->error_message = "this is broker " + self + ", and " + from.resource_name + " was asked for";
    return;
  }
  for (const BrokerKey& config : kBrokerConfigs) {
    if (!Wanted(from, config.name)) continue;
    DescribeConfigsResponse::Config shown;
    shown.name = std::string(config.name);
    shown.value = BrokerConfig(config.name);
    shown.read_only = true;
    shown.config_type = config.type;
    shown.config_source = InFile(options_, config.name) ? kFromFile : kFromDefault;
    if (request.include_synonyms) {
      shown.synonyms.push_back({shown.name, shown.value, shown.config_source});
    }
    to->configs.push_back(std::move(shown));
  }
}

std::string FrontEnd::Impl::BrokerConfig(std::string_view key) const {
  const replication::BrokerOptions& broker = broker_.options();
  const GroupsOptions& groups = options_.groups;
  auto flag = [](bool on) { return on ? "true" : "false"; };
  if (key == "auto.create.topics.enable") return flag(options_.auto_create_topics);
  if (key == "auto.leader.rebalance.enable") return flag(broker.auto_leader_rebalance);
  if (key == "broker.id") return broker.broker.ToString();
  if (key == "broker.rack") return broker.rack;
  if (key == "unclean.leader.election.enable") return flag(broker.unclean_leader_election);
  const std::pair<std::string_view, int64_t> numbers[] = {
      {"default.replication.factor", broker.default_replication_factor},
      {"group.initial.rebalance.delay.ms", groups.initial_rebalance_delay_ms},
      {"group.max.session.timeout.ms", groups.session_timeout_max_ms},
      {"group.min.session.timeout.ms", groups.session_timeout_min_ms},
      {"log.retention.bytes", broker.retention_bytes},
      {"log.retention.ms", broker.retention_ms},
      {"log.roll.ms", broker.log.segment_ms},
      {"log.segment.bytes", static_cast<int64_t>(broker.log.segment_bytes)},
      {"message.max.bytes", options_.message_bytes_max},
      {"min.insync.replicas", broker.min_insync_replicas},
      {"num.partitions", broker.default_partitions},
      {"offsets.topic.num.partitions", groups.partitions},
      {"offsets.topic.replication.factor", groups.replication_factor},
      {"replica.lag.time.max.ms", broker.keep_in_sync_time.Milliseconds()},
      {"socket.request.max.bytes", options_.request_bytes_max},
  };
  for (const auto& [name, value] : numbers) {
    if (name == key) return std::to_string(value);
  }
  LS_UNREACHABLE();
}

// ---- Changing it -------------------------------------------------------------------------------

void FrontEnd::Impl::Handle(CallId call, AlterConfigsRequest&& request) {
  AlterConfigsResponse response;
  for (const auto& from : request.resources) {
    response.responses.push_back(
        {.resource_type = from.resource_type, .resource_name = from.resource_name});
  }
  admins_[call] = {.response = std::move(response), .left = request.resources.size() + 1};
  for (size_t i = 0; i < request.resources.size(); ++i) {
    const auto& from = request.resources[i];
    auto& to = std::get<AlterConfigsResponse>(admins_.at(call).response).responses[i];
    if (from.resource_type != kTopicResource) {
      // That a broker is to have nothing but what its file says is what it has.
      if (from.resource_type != kBrokerResource || !from.configs.empty()) {
        to.error_code = ErrorCode::kInvalidRequest;
        to.error_message = kBrokersHaveAFile;
      }
      FinishAdminElement(call);
      continue;
    }
    replication::SetTopicConfigs set;
    set.topic = from.resource_name;
    set.validate_only = request.validate_only;
    // All that are not named go back to their defaults: what was set and is not named is removed.
    if (const replication::TopicState* topic = FindTopic(from.resource_name)) {
      for (const auto& [name, value] : topic->configs) set.changes[name] = std::nullopt;
    }
    for (const auto& config : from.configs) set.changes[config.name] = config.value;
    Ask({.call = call, .index = i, .topic = from.resource_name}, std::move(set), kAlterTimeoutMs);
  }
  FinishAdminElement(call);
}

void FrontEnd::Impl::Handle(CallId call, IncrementalAlterConfigsRequest&& request) {
  IncrementalAlterConfigsResponse response;
  for (const auto& from : request.resources) {
    response.responses.push_back(
        {.resource_type = from.resource_type, .resource_name = from.resource_name});
  }
  admins_[call] = {.response = std::move(response), .left = request.resources.size() + 1};
  for (size_t i = 0; i < request.resources.size(); ++i) {
    const auto& from = request.resources[i];
    auto& to = std::get<IncrementalAlterConfigsResponse>(admins_.at(call).response).responses[i];
    auto refuse = [&](std::string message) {
      to.error_code = ErrorCode::kInvalidRequest;
      to.error_message = std::move(message);
      FinishAdminElement(call);
    };
    if (from.resource_type != kTopicResource) {
      // Tools delete from brokers what they may have set: kafka-reassign-partitions.sh does so with
      // its throttles, whether there were any or not. Here none can be set, so none is there.
      const bool deletes = std::all_of(from.configs.begin(), from.configs.end(),
                                       [](const auto& c) { return c.config_operation == kDelete; });
      if (from.resource_type == kBrokerResource && deletes) {
        FinishAdminElement(call);
      } else {
        refuse(kBrokersHaveAFile);
      }
      continue;
    }
    replication::SetTopicConfigs set;
    set.topic = from.resource_name;
    set.validate_only = request.validate_only;
    std::string error;
    for (const auto& config : from.configs) {
      if (config.config_operation != kSet && config.config_operation != kDelete) {
        error = config.name + ": SET and DELETE are offered: no configuration of a topic is a list";
      } else if (config.config_operation == kSet && !config.value) {
        error = config.name + ": a value is needed to set it";
      }
      set.changes[config.name] = config.config_operation == kDelete ? std::nullopt : config.value;
    }
    if (!error.empty()) {
      refuse(std::move(error));
      continue;
    }
    Ask({.call = call, .index = i, .topic = from.resource_name}, std::move(set), kAlterTimeoutMs);
  }
  FinishAdminElement(call);
}

}  // namespace lockstep::kafka
