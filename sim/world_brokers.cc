// What a world with brokers has beside: Kafka's clients, and what must be true of partitions in the
// end.
#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "sim/kafka_admin.h"
#include "sim/kafka_consumer.h"
#include "sim/kafka_group_member.h"
#include "sim/kafka_producer.h"
#include "sim/purpose.h"
#include "sim/world.h"

namespace lockstep::sim {
namespace {

// For whoever has to find out why it does not come to an end.
std::string Describe(const replication::Partition* partition) {
  if (partition == nullptr) return "nothing";
  return absl::StrCat(partition->log_start(), " to ", partition->log_end(), ", high watermark ",
                      partition->high_watermark(), ", epoch ",
                      partition->leader_epoch().ToString());
}

}  // namespace

void World::AddKafkaClients() {
  KafkaClient::Context context;
  context.plan = &plan_.brokers;
  context.servers = plan_.servers;
  context.tick = plan_.options.tick;
  context.probes = probes_;
  context.trace = trace_;
  context.script = script_;
  context.seed = plan_.seed;
  context.streams = plan_.streams;
  const auto add = [&](auto make) {
    context.client = clients();
    const RandomStream random =
        StreamFor(plan_.seed, Purpose::kKafkaClient, static_cast<uint32_t>(kafka_clients_.size()));
    kafka_clients_.push_back(make(random));
  };
  add([&](RandomStream random) {
    return std::make_unique<KafkaAdmin>(context, random, &replication_);
  });
  for (uint32_t p = 0; p < plan_.brokers.producers.size(); ++p) {
    add([&](RandomStream random) {
      return std::make_unique<KafkaProducer>(context, p, plan_.brokers.producers[p], random,
                                             &replication_);
    });
  }
  for (uint32_t c = 0; c < plan_.brokers.consumers; ++c) {
    add([&](RandomStream random) {
      return std::make_unique<KafkaConsumer>(context, absl::StrCat("r", c), random, &replication_);
    });
  }
  for (uint32_t m = 0; m < plan_.brokers.group_members; ++m) {
    add([&](RandomStream random) {
      return std::make_unique<KafkaGroupMember>(context, m, random, &replication_, &group_history_);
    });
  }
}

std::string World::BrokersNotHealed(std::string* detail) const {
  for (const auto& [name, truth] : replication_.Truths()) {
    const std::string missing = PartitionNotHealed(name.first, name.second, truth, detail);
    if (!missing.empty()) return missing;
  }
  for (size_t c = 0; c < kafka_clients_.size(); ++c) {
    if (absent(static_cast<uint32_t>(clients_.size() + c))) continue;
    const std::unique_ptr<KafkaClient>& client = kafka_clients_[c];
    const std::string why = client->NotDone();
    if (why.empty()) continue;
    *detail = absl::StrCat(client->name(), " ", why);
    return "liveness-kafka-client";
  }
  return "";
}

// A partition has a leader, its ISR is all that live, and no reassignment hangs.
std::string World::PartitionNotHealed(const std::string& topic, int32_t partition,
                                      const Replication::Truth& truth, std::string* detail) const {
  const std::string name = absl::StrCat(topic, "-", partition);
  if (replication_.Offline(topic, partition)) return "";
  const auto lives = [&](replication::BrokerId broker) {
    const std::optional<uint32_t> server = ServerOf(broker);
    return server && *server < plan_.servers && up(*server) && !hosts_[*server].off_for_good &&
           replication_.registered(broker);
  };
  // Of a broker that is gone for good nothing can be expected, nor of what waits for it.
  const auto gone = [&](replication::BrokerId broker) {
    const std::optional<uint32_t> server = ServerOf(broker);
    return !server || hosts_[*server].off_for_good;
  };
  const bool any_member_lives =
      std::any_of(truth.isr.isr.begin(), truth.isr.isr.end(),
                  [&](const replication::IsrMember& member) { return lives(member.broker); });
  if (!any_member_lives) {
    const bool all_gone =
        std::all_of(truth.isr.isr.begin(), truth.isr.isr.end(),
                    [&](const replication::IsrMember& member) { return gone(member.broker); });
    if (all_gone) return "";
  }
  const std::optional<uint32_t> leader =
      truth.leader ? ServerOf(truth.leader->broker) : std::nullopt;
  if (!leader || !up(*leader)) {
    *detail = name + " has no leader";
    return "liveness-partition-leader";
  }
  const replication::Partition* leads =
      hosts_[*leader].machine->broker()->broker().FindPartition({truth.topic_id, partition});
  if (leads == nullptr || leads->role() != replication::Role::kLeader ||
      leads->leader_epoch() != truth.leader->epoch) {
    *detail = absl::StrCat("server ", *leader + 1, " does not act as leader of ", name);
    return "liveness-partition-leader";
  }
  bool waits_for_gone = false;
  for (replication::BrokerId broker : truth.replicas.replicas) {
    waits_for_gone |= gone(broker);
    if (gone(broker)) continue;
    const bool in_sync =
        std::any_of(truth.isr.isr.begin(), truth.isr.isr.end(),
                    [&](const replication::IsrMember& member) { return member.broker == broker; });
    if (in_sync) continue;
    *detail = absl::StrCat("broker ", broker.ToString(), " is not in the ISR of ", name,
                           ", of which the leader has ", Describe(leads));
    if (const std::optional<uint32_t> server = ServerOf(broker); server && up(*server)) {
      const server::BrokerRole* role = hosts_[*server].machine->broker();
      absl::StrAppend(
          detail, ", and it has ",
          Describe(role->started() ? role->broker().FindPartition({truth.topic_id, partition})
                                   : nullptr));
    }
    return "liveness-isr";
  }
  const bool reassigning =
      truth.reassigning || !truth.replicas.adding.empty() || !truth.replicas.removing.empty();
  if (reassigning && !waits_for_gone) {
    *detail = absl::StrCat("the reassignment of ", name, " does not come to an end");
    return "liveness-reassignment";
  }
  return "";
}

}  // namespace lockstep::sim
