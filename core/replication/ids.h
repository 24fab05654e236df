// The numbers that name things in partition replication.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <utility>

#include "core/base/uuid.h"

namespace lockstep::replication {

// Kafka's `broker.id`. Not negative; -1 names no broker.
struct BrokerId {
  int32_t value = -1;
  constexpr auto operator<=>(const BrokerId&) const = default;
  constexpr explicit operator bool() const { return value >= 0; }
  std::string ToString() const { return std::to_string(value); }
};

// One incarnation of a broker: the czxid of its registration (/brokers/ids/[broker_id]). A later
// incarnation has a greater one, also across brokers. 0 names none. KIP-380.
struct BrokerEpoch {
  int64_t value = 0;
  constexpr auto operator<=>(const BrokerEpoch&) const = default;
  constexpr explicit operator bool() const { return value != 0; }
  std::string ToString() const { return std::to_string(value); }
};

// One leadership of one partition: greater for every leader incarnation, never used twice, in every
// fetch and every batch. The first is 0; -1 says "none", as in Kafka.
struct LeaderEpoch {
  int32_t value = -1;
  constexpr auto operator<=>(const LeaderEpoch&) const = default;
  std::string ToString() const { return std::to_string(value); }
};

// The position of a record in a partition. An end offset is exclusive: that of the next record.
using Offset = int64_t;

// Names a partition for good: a topic that is deleted and made again under its name has another id.
struct PartitionId {
  Uuid topic;
  int32_t partition = 0;
  constexpr auto operator<=>(const PartitionId&) const = default;
  std::string ToString() const { return topic.ToString() + "-" + std::to_string(partition); }
  template <typename H>
  friend H AbslHashValue(H h, const PartitionId& id) {
    return H::combine(std::move(h), id.topic, id.partition);
  }
};

}  // namespace lockstep::replication
