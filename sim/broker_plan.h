// What a seed draws for worlds with brokers: which servers have which roles, topics, limits, and
// what Kafka's clients do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/random.h"
#include "core/base/time.h"
#include "core/replication/ids.h"
#include "core/server/server.h"
#include "core/storage/partition_log.h"

namespace lockstep::sim {

struct TopicPlan {
  std::string name;
  int32_t partitions = 1;
  int16_t replication_factor = 1;
  int32_t min_insync = 1;
  bool unclean = false;    // unclean.leader.election.enable: records may be lost, and only then
  bool recreated = false;  // is deleted and made again under its name
  // 0: nothing is ever removed but by DeleteRecords, if that.
  int64_t retention_ms = 0;
  int64_t retention_bytes = 0;
};

struct ProducerPlan {
  int16_t acks = -1;
  bool idempotent = false;
  uint32_t in_flight_max = 1;  // batches of one partition; at most 5 with idempotence, else 1
  uint32_t batch_records_max = 1;
  bool compressed = false;
};

struct BrokerPlan {
  bool on = false;  // whether there are brokers in this world at all
  // Servers [0, voters) are of the ensemble, and all are brokers. The disks of others can be
  // replaced: that of a voter never, since Zab does not bear it.
  uint32_t voters = 0;
  bool own_coordination_only = false;  // a broker dials only its own server's client port
  storage::Durability durability = storage::Durability::kFsync;
  Duration session_timeout;
  Duration keep_in_sync_time;
  std::vector<TopicPlan> topics;
  std::vector<ProducerPlan> producers;
  uint32_t consumers = 0;
  uint32_t group_members = 0;  // of one group
  bool admin = false;
  Duration think;        // mean, of producers and consumers
  Duration admin_think;  // mean
  uint32_t value_bytes_max = 16;
  Duration client_session;         // of group members
  uint32_t admin_weights[8] = {};  // by AdminOp
  bool fail_overs = false;         // DrawFailOvers has made it so
  bool hand_overs = false;         // and DrawHandOvers: elections of the operator's are bursts
};

enum class AdminOp : uint8_t {
  kReassign,
  kCancelReassignment,
  kElectPreferred,
  kRecreate,  // a volatile topic
  kDeleteRecords,
  kSetMinInsync,
  kAddPartitions,
  kListReassignments,
  kCount
};

inline replication::BrokerId BrokerOf(uint32_t server) {
  return {static_cast<int32_t>(server) + 101};
}
// Nothing if it is no broker of the world.
inline std::optional<uint32_t> ServerOf(replication::BrokerId broker) {
  if (broker.value < 101) return std::nullopt;
  return static_cast<uint32_t>(broker.value - 101);
}
// "server-1" is server 0.
std::string HostOf(uint32_t server);
std::optional<uint32_t> ServerOfHost(std::string_view host);

// How many clients of Kafka's protocol there are.
inline uint32_t KafkaClientsOf(const BrokerPlan& plan) {
  if (!plan.on) return 0;
  return 1 + static_cast<uint32_t>(plan.producers.size()) + plan.consumers + plan.group_members;
}

struct Plan;
struct Scenario;
// Draws everything of `plan` that concerns brokers. What a seed draws otherwise is not shifted.
void DrawBrokers(RandomStream& random, Plan* plan);
// Makes some seeds ones in which leaderships of partitions follow each other quickly while few
// other things go wrong: most of what can be lost in replication takes two fail-overs within the
// time in which an ISR does not shrink, and the faults that bring them about are lost among thirty
// others.
void DrawFailOvers(RandomStream& random, const Scenario& scenario, Plan* plan);
// Makes some of those ones in which leaderships go back and forth while sessions live: it takes an
// operator, and no fault. From a stream of its own.
void DrawHandOvers(RandomStream& random, const Scenario& scenario, Plan* plan);
// Most worlds whose disks are damaged have it where it is found soon: in logs that readers and
// recovery read from the disk, and that are not written anew from the journal.
void DrawDamagedLogs(RandomStream& random, const Scenario& scenario, Plan* plan);
// What is different in the options of each server.
void SetBrokerOptions(const Plan& plan, uint32_t server, server::Options* options);
std::string Describe(const BrokerPlan& plan);

}  // namespace lockstep::sim
