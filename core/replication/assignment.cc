#include "core/replication/assignment.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/check.h"

namespace lockstep::replication {
namespace {

// Brokers in turn from each rack, so that neighbours are on different racks as far as that goes.
std::vector<LiveBroker> AlternateRacks(const std::vector<LiveBroker>& brokers) {
  std::map<std::string, std::vector<LiveBroker>> racks;
  for (const LiveBroker& broker : brokers) racks[broker.rack].push_back(broker);
  std::vector<LiveBroker> arranged;
  for (size_t round = 0; arranged.size() < brokers.size(); ++round) {
    for (const auto& [rack, members] : racks) {
      if (round < members.size()) arranged.push_back(members[round]);
    }
  }
  return arranged;
}

}  // namespace

std::vector<std::vector<BrokerId>> AssignReplicas(const std::vector<LiveBroker>& brokers,
                                                  int32_t partitions, int32_t replication_factor,
                                                  int32_t first_partition,
                                                  const std::vector<BrokerId>& existing,
                                                  RandomStream* random) {
  LS_CHECK_GT(partitions, 0);
  LS_CHECK_GT(replication_factor, 0);
  LS_CHECK_LE(static_cast<size_t>(replication_factor), brokers.size());
  const bool racks = std::all_of(brokers.begin(), brokers.end(),
                                 [](const LiveBroker& broker) { return !broker.rack.empty(); });
  const std::vector<LiveBroker> order = racks ? AlternateRacks(brokers) : brokers;
  const size_t n = order.size();
  std::set<std::string> all_racks;
  for (const LiveBroker& broker : order) all_racks.insert(broker.rack);
  const size_t rack_count = racks ? all_racks.size() : 1;

  size_t start = random->Below(n);
  size_t shift = random->Below(n);
  if (!existing.empty()) {
    for (size_t i = 0; i < n; ++i) {
      if (order[i].id == existing[0]) start = i;
    }
    shift = start;
  }

  std::vector<std::vector<BrokerId>> assignment;
  for (int32_t i = 0; i < partitions; ++i) {
    const auto partition = static_cast<size_t>(first_partition + i);
    if (partition > 0 && partition % n == 0) ++shift;
    const size_t first = (partition + start) % n;
    std::vector<BrokerId> replicas = {order[first].id};
    std::set<std::string> used = {order[first].rack};
    // Every broker is met once, from `shift` on; in a first round those on a rack that has no
    // replica yet, and in a second one the rest.
    for (int round = racks ? 0 : 1; round < 2; ++round) {
      for (size_t step = 0; step + 1 < n; ++step) {
        if (replicas.size() == static_cast<size_t>(replication_factor)) break;
        if (round == 0 && used.size() == rack_count) break;
        const LiveBroker& next = order[(first + 1 + (shift + step) % (n - 1)) % n];
        if (round == 0 && used.contains(next.rack)) continue;
        if (std::find(replicas.begin(), replicas.end(), next.id) != replicas.end()) continue;
        used.insert(next.rack);
        replicas.push_back(next.id);
      }
    }
    LS_CHECK_EQ(replicas.size(), static_cast<size_t>(replication_factor));
    assignment.push_back(std::move(replicas));
  }
  return assignment;
}

}  // namespace lockstep::replication
