// Topics, the decisions about them: what names, configs and assignments are valid, and the
// transitions that create and remove a topic's znodes. The seed's createTopic, addPartition,
// deleteTopic and cleanFailedTopicCreationAttempts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/random.h"
#include "core/replication/broker.h"
#include "core/replication/registry.h"

namespace lockstep::replication {

// Kafka's rule: 1 to 249 characters of [a-zA-Z0-9._-], and not "." or "..".
bool ValidTopicName(std::string_view name);

// A config of Kafka's topics that has one value here. It can be set to that, as tools do that write
// back what they have read, and changes nothing.
struct FixedTopicConfig {
  std::string_view name;
  std::string_view value;
  std::string_view why;
};
std::span<const FixedTopicConfig> FixedTopicConfigs();

// Why a topic cannot have this config, as a sentence; empty: it can.
std::string TopicConfigError(std::string_view name, std::string_view value);
// A numeric config as it was set; nothing if it was not. Requires: what is set is valid.
std::optional<int64_t> NumberOf(const std::map<std::string, std::string>& configs,
                                const std::string& name);
std::optional<bool> SwitchOf(const std::map<std::string, std::string>& configs,
                             const std::string& name);

struct TopicPlan {
  AdminError error = AdminError::kNone;
  std::string message;
  std::vector<std::vector<BrokerId>> assignment;  // of the new partitions
};
// `registered`: all that are, ascending. No other broker, and no fenced one, is given a replica
// (S30, S31).
TopicPlan PlanCreateTopic(const CreateTopic& request,
                          const std::map<BrokerId, BrokerState>& registered,
                          const BrokerOptions& options, RandomStream* random);
TopicPlan PlanCreatePartitions(const CreatePartitions& request, const TopicState& topic,
                               const std::map<BrokerId, BrokerState>& registered,
                               RandomStream* random);
// Every list not empty, brokers live, not fenced and not repeated.
std::string AssignmentError(const std::vector<BrokerId>& replicas,
                            const std::map<BrokerId, BrokerState>& registered);

inline constexpr int32_t kPartitionsMax = 100'000;  // of one topic
// max.message.bytes and message.max.bytes: well below what fits a frame between brokers. A batch
// that no follower can fetch would stop its leader's acknowledgements for good.
inline constexpr int32_t kMessageBytesMax = 8 << 20;

// The znodes of partitions `first`, first + 1, ... The ISR of each begins as its live replicas: it
// is never empty, so that "new" and "lost" are told apart (S7).
void AddPartitions(const std::string& topic, int32_t first,
                   const std::vector<std::vector<BrokerId>>& assignment, size_t begin, size_t end,
                   const std::map<BrokerId, BrokerState>& registered, Transition* to);

// One multi; or, if that would be too large, several of which only the last makes the topic exist:
// until then its record names the creator's incarnation, and whoever finds that gone removes it.
std::vector<Transition> CreateTopicTransitions(const std::string& topic, TopicRecord record,
                                               BrokerEpoch creator,
                                               const std::vector<std::vector<BrokerId>>& assignment,
                                               const std::map<BrokerId, BrokerState>& registered);

}  // namespace lockstep::replication
