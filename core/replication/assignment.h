// The seed's assignReplicas: which brokers get the replicas of new partitions. As Kafka's
// AdminUtils: round robin from a random broker, the followers of successive partitions shifted, and
// with racks, replicas of a partition on as many racks as there are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/replication/ids.h"

namespace lockstep::replication {

struct LiveBroker {
  BrokerId id;
  std::string rack;  // empty: none; racks count only if every broker has one
};

// One list for each partition, from `first_partition` on; the first of a list is the preferred
// leader. `existing`: the replicas of partition 0, when partitions are added to a topic, so that
// the new ones go on where the old ones stopped. Requires: brokers ascending, 0 <
// replication_factor <= brokers.size(), partitions > 0.
std::vector<std::vector<BrokerId>> AssignReplicas(const std::vector<LiveBroker>& brokers,
                                                  int32_t partitions, int32_t replication_factor,
                                                  int32_t first_partition,
                                                  const std::vector<BrokerId>& existing,
                                                  RandomStream* random);

}  // namespace lockstep::replication
