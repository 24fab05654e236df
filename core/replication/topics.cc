#include "core/replication/topics.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
#include <utility>

#include "core/base/check.h"
#include "core/replication/assignment.h"

namespace lockstep::replication {
namespace {

constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();
constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();

struct NumberConfig {
  std::string_view name;
  int64_t low;
  int64_t high;
};
constexpr NumberConfig kNumbers[] = {
    {"retention.ms", -1, kInt64Max},  {"retention.bytes", -1, kInt64Max},
    {"segment.bytes", 14, kInt32Max}, {"segment.ms", 1, kInt64Max},
    {"min.insync.replicas", 1, 1000}, {"max.message.bytes", 0, kMessageBytesMax},
};

constexpr FixedTopicConfig kFixed[] = {
    {"cleanup.policy", "delete", "logs are not compacted here"},
    {"compression.type", "producer", "batches are kept as their producers sent them"},
    {"follower.replication.throttled.replicas", "", "replication is not throttled by topic"},
    {"leader.replication.throttled.replicas", "", "replication is not throttled by topic"},
    {"message.timestamp.type", "CreateTime", "records keep the timestamps of their producers"},
    {"preallocate", "false", "segments grow as they are written"},
    {"remote.storage.enable", "false", "there is no remote storage"},
};

// What else Kafka's topics have. Families end in `*`.
constexpr std::string_view kNotOffered[] = {
    "delete.retention.ms",
    "file.delete.delay.ms",
    "flush.*",
    "index.interval.bytes",
    "internal.segment.bytes",
    "local.retention.*",
    "max.compaction.lag.ms",
    "message.*",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "remote.*",
    "segment.index.bytes",
    "segment.jitter.ms",
};

bool IsNotOffered(std::string_view name) {
  return std::any_of(std::begin(kNotOffered), std::end(kNotOffered), [&](std::string_view known) {
    return known.ends_with('*') ? name.starts_with(known.substr(0, known.size() - 1))
                                : name == known;
  });
}

std::optional<int64_t> ParseInteger(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// As Kafka reads it: in any case.
std::optional<bool> ParseSwitch(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (lower == "true") return true;
  if (lower == "false") return false;
  return std::nullopt;
}

// Those that can be given replicas. A fenced one may die before its incarnation is on its disk; an
// ISR that names this incarnation would name a member that nobody could be any more.
std::vector<LiveBroker> LiveBrokers(const std::map<BrokerId, BrokerState>& registered) {
  std::vector<LiveBroker> brokers;
  for (const auto& [id, broker] : registered) {
    if (!broker.fenced) brokers.push_back({id, broker.rack});
  }
  return brokers;
}

constexpr size_t kOperationsPerPartition = 3;

}  // namespace

bool ValidTopicName(std::string_view name) {
  if (name.empty() || name.size() > 249 || name == "." || name == "..") return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

std::string TopicConfigError(std::string_view name, std::string_view value) {
  const std::string text(name);
  for (const NumberConfig& config : kNumbers) {
    if (config.name != name) continue;
    const std::optional<int64_t> number = ParseInteger(value);
    if (number.has_value() && *number >= config.low && *number <= config.high) return "";
    return text + " must be a number from " + std::to_string(config.low) + " to " +
           std::to_string(config.high);
  }
  if (name == "unclean.leader.election.enable") {
    return ParseSwitch(value).has_value() ? "" : text + " must be true or false";
  }
  for (const FixedTopicConfig& config : kFixed) {
    if (config.name != name) continue;
    if (config.value == value) return "";
    return text + " must be " + (config.value.empty() ? "empty" : std::string(config.value)) +
           ": " + std::string(config.why);
  }
  if (IsNotOffered(name)) {
    return text + " has no effect here and cannot be set: leave it out";
  }
  return "unknown topic config " + text;
}

std::optional<int64_t> NumberOf(const std::map<std::string, std::string>& configs,
                                const std::string& name) {
  auto at = configs.find(name);
  // An operator may have written anything into the znode.
  if (at == configs.end() || !TopicConfigError(name, at->second).empty()) return std::nullopt;
  return ParseInteger(at->second);
}

std::optional<bool> SwitchOf(const std::map<std::string, std::string>& configs,
                             const std::string& name) {
  auto at = configs.find(name);
  if (at == configs.end()) return std::nullopt;
  return ParseSwitch(at->second);
}

std::span<const FixedTopicConfig> FixedTopicConfigs() { return kFixed; }

std::string AssignmentError(const std::vector<BrokerId>& replicas,
                            const std::map<BrokerId, BrokerState>& registered) {
  if (replicas.empty()) return "a partition without replicas";
  std::set<BrokerId> seen;
  for (BrokerId broker : replicas) {
    if (!seen.insert(broker).second) return "broker " + broker.ToString() + " is named twice";
    const auto at = registered.find(broker);
    if (at == registered.end()) return "broker " + broker.ToString() + " is not live";
    if (at->second.fenced) return "broker " + broker.ToString() + " has only begun to start";
  }
  return "";
}

TopicPlan PlanCreateTopic(const CreateTopic& request,
                          const std::map<BrokerId, BrokerState>& registered,
                          const BrokerOptions& options, RandomStream* random) {
  if (!ValidTopicName(request.topic)) {
    return {AdminError::kInvalidTopic,
            "a topic's name has 1 to 249 characters of a-z, A-Z, 0-9, '.', '_' and '-'"};
  }
  for (const auto& [name, value] : request.configs) {
    if (std::string error = TopicConfigError(name, value); !error.empty()) {
      return {AdminError::kInvalidConfig, std::move(error)};
    }
  }
  if (!request.assignment.empty()) {
    if (request.partitions != -1 || request.replication_factor != -1) {
      return {AdminError::kInvalidAssignment,
              "with an assignment, partitions and replication factor must be -1"};
    }
    if (request.assignment.size() > static_cast<size_t>(kPartitionsMax)) {
      return {AdminError::kInvalidPartitions, "too many partitions"};
    }
    for (const std::vector<BrokerId>& replicas : request.assignment) {
      std::string error = AssignmentError(replicas, registered);
      if (error.empty() && replicas.size() != request.assignment[0].size()) {
        error = "the partitions have different numbers of replicas";
      }
      if (!error.empty()) return {AdminError::kInvalidAssignment, std::move(error)};
    }
    return {.assignment = request.assignment};
  }
  const int32_t partitions =
      request.partitions == -1 ? options.default_partitions : request.partitions;
  const int32_t factor = request.replication_factor == -1
                             ? static_cast<int32_t>(options.default_replication_factor)
                             : request.replication_factor;
  if (partitions <= 0 || partitions > kPartitionsMax) {
    return {AdminError::kInvalidPartitions,
            "the number of partitions must be from 1 to " + std::to_string(kPartitionsMax)};
  }
  const std::vector<LiveBroker> live = LiveBrokers(registered);
  if (factor <= 0 || static_cast<size_t>(factor) > live.size()) {
    return {AdminError::kInvalidReplicationFactor,
            "the replication factor is " + std::to_string(factor) + ", and " +
                std::to_string(live.size()) + " brokers are live"};
  }
  return {.assignment = AssignReplicas(live, partitions, factor, 0, {}, random)};
}

TopicPlan PlanCreatePartitions(const CreatePartitions& request, const TopicState& topic,
                               const std::map<BrokerId, BrokerState>& registered,
                               RandomStream* random) {
  const auto present = static_cast<int32_t>(topic.partitions.size());
  if (request.total <= present || request.total > kPartitionsMax) {
    return {AdminError::kInvalidPartitions,
            "the topic has " + std::to_string(present) + " partitions; only more can be asked for"};
  }
  const int32_t added = request.total - present;
  if (!request.assignment.empty()) {
    if (request.assignment.size() != static_cast<size_t>(added)) {
      return {AdminError::kInvalidAssignment,
              "an assignment of " + std::to_string(added) + " partitions is needed"};
    }
    for (const std::vector<BrokerId>& replicas : request.assignment) {
      if (std::string error = AssignmentError(replicas, registered); !error.empty()) {
        return {AdminError::kInvalidAssignment, std::move(error)};
      }
    }
    return {.assignment = request.assignment};
  }
  LS_CHECK(!topic.partitions.empty());
  const size_t factor = topic.partitions[0].replicas.size() - topic.partitions[0].adding.size();
  const std::vector<LiveBroker> live = LiveBrokers(registered);
  if (factor == 0 || factor > live.size()) {
    return {AdminError::kInvalidReplicationFactor,
            "the topic has " + std::to_string(factor) + " replicas of a partition, and " +
                std::to_string(live.size()) + " brokers are live"};
  }
  return {.assignment = AssignReplicas(live, added, static_cast<int32_t>(factor), present,
                                       topic.partitions[0].replicas, random)};
}

void AddPartitions(const std::string& topic, int32_t first,
                   const std::vector<std::vector<BrokerId>>& assignment, size_t begin, size_t end,
                   const std::map<BrokerId, BrokerState>& registered, Transition* to) {
  for (size_t i = begin; i < end; ++i) {
    const int32_t partition = first + static_cast<int32_t>(i);
    IsrRecord isr;
    for (BrokerId broker : assignment[i]) {
      if (auto at = registered.find(broker); at != registered.end()) {
        isr.isr.push_back({broker, at->second.incarnation});
      }
    }
    std::sort(isr.isr.begin(), isr.isr.end());
    LS_CHECK(!isr.isr.empty());
    to->Create(PartitionPath(topic, partition), "")
        .Create(ReplicasPath(topic, partition), Encode(ReplicasRecord{.replicas = assignment[i]}))
        .Create(IsrPath(topic, partition), Encode(isr));
  }
}

std::vector<Transition> CreateTopicTransitions(const std::string& topic, TopicRecord record,
                                               BrokerEpoch creator,
                                               const std::vector<std::vector<BrokerId>>& assignment,
                                               const std::map<BrokerId, BrokerState>& registered) {
  constexpr size_t kPartitions = (kTransitionOperationsMax - 2) / kOperationsPerPartition;
  const bool whole = assignment.size() <= kPartitions;
  const std::string id_path = TopicIdPath(topic, record.id);
  std::vector<Transition> transitions;
  for (size_t begin = 0; begin < assignment.size(); begin += kPartitions) {
    Transition& transition = transitions.emplace_back();
    if (begin == 0) {
      if (!whole) record.creator = creator;
      transition.Create(TopicPath(topic), Encode(record));
      transition.Create(id_path, "");
    } else {
      transition.Check(TopicPath(topic), 0).Check(id_path, coordination::kAnyVersion);
    }
    AddPartitions(topic, 0, assignment, begin, std::min(begin + kPartitions, assignment.size()),
                  registered, &transition);
  }
  if (!whole) {
    record.creator = {};
    transitions.emplace_back()
        .SetData(TopicPath(topic), Encode(record), 0)
        .Check(id_path, coordination::kAnyVersion);
  }
  return transitions;
}

}  // namespace lockstep::replication
