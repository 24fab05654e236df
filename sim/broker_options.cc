// Draws what a world with brokers is like.
#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "sim/plan.h"

namespace lockstep::sim {
namespace {

template <typename T, size_t N>
T OneOf(RandomStream& random, const T (&values)[N]) {
  return values[random.Below(N)];
}

void DrawLimits(RandomStream& random, Plan* plan) {
  const Duration tick = plan->options.tick;
  BrokerPlan& brokers = plan->brokers;
  server::BrokerRoleOptions& role = plan->options.broker.emplace();
  role.observe_logs = true;
  role.undecided_timeout = tick * 20;
  replication::BrokerOptions& broker = role.broker;
  broker.coordination.session_timeout_ms =
      static_cast<int32_t>(brokers.session_timeout.Milliseconds());
  broker.coordination.retry_min = tick / 10;
  broker.coordination.retry_max = tick * 2;
  broker.session_margin_percent = 20;
  broker.preferred_replica_time = OneOf(random, {tick / 4, tick, tick * 4});
  broker.keep_in_sync_time = brokers.keep_in_sync_time;
  broker.default_partitions = 1;
  broker.unclean_leader_election = false;
  broker.auto_leader_rebalance = random.Chance(2, 3);
  broker.leader_rebalance_interval = OneOf(random, {tick * 3, tick * 20});
  broker.state_change_queue_max = OneOf(random, {1u, 5u, 1'000u});
  // Of a few hundred kilobytes, slowly, but well within heal_limit.
  broker.reassignment_throttle = OneOf(random, {uint64_t{0}, uint64_t{0}, uint64_t{20'000}});
  broker.fetch_max_wait = OneOf(random, {tick / 4, tick, tick * 2});
  broker.fetch_max_bytes = OneOf(random, {200u, 2'000u, 1u << 20});
  broker.fetch_entry_max_bytes = OneOf(random, {100u, 1'000u, 1u << 20});
  broker.high_watermark_checkpoint_interval = OneOf(random, {tick, tick * 5, tick * 30});
  broker.retention_check_interval = OneOf(random, {tick * 2, tick * 10});
  broker.log.durability = brokers.durability;
  broker.log.segment_bytes = OneOf(random, {uint64_t{500}, uint64_t{2'000}, uint64_t{20'000}});
  broker.log.index_interval_bytes = OneOf(random, {1u, 200u, 4'096u});
  broker.log.cache_bytes = OneOf(random, {uint64_t{0}, uint64_t{2'000}, uint64_t{1} << 20});
  broker.log.journal_bytes_max =
      OneOf(random, {uint64_t{4'000}, uint64_t{30'000}, uint64_t{1} << 20});

  kafka::FrontEndOptions& front_end = role.front_end;
  front_end.auto_create_topics = false;
  front_end.request_bytes_max = 1 << 20;
  front_end.message_bytes_max = 100'000;
  front_end.requests_max = OneOf(random, {1u, 5u, 100u});
  front_end.unsent_bytes_max = OneOf(random, {uint64_t{500}, uint64_t{16} << 20});
  front_end.held_bytes_max = OneOf(random, {uint64_t{3'000}, uint64_t{1} << 30});
  front_end.connections_max_idle = OneOf(random, {tick * 30, tick * 100'000});
  front_end.groups.partitions = static_cast<int32_t>(random.Between(1, 3));
  front_end.groups.replication_factor = static_cast<int32_t>(random.Between(1, 3));
  front_end.groups.session_timeout_min_ms = 1;
  front_end.groups.initial_rebalance_delay_ms =
      static_cast<int32_t>((tick * OneOf(random, {0, 1, 4})).Milliseconds());
}

void DrawTopics(RandomStream& random, Plan* plan) {
  BrokerPlan& brokers = plan->brokers;
  const auto servers = static_cast<int64_t>(plan->servers);
  const int64_t count = random.Between(1, 3);
  for (int64_t i = 0; i < count; ++i) {
    TopicPlan& topic = brokers.topics.emplace_back();
    topic.name = absl::StrCat("t", i);
    topic.partitions = static_cast<int32_t>(random.Between(1, 3));
    const int64_t wanted = OneOf(random, {1, 2, 3, 3, 3, 3, 4, 5});
    topic.replication_factor = static_cast<int16_t>(std::min(servers, wanted));
    topic.min_insync = static_cast<int32_t>(
        random.Between(1, std::max<int64_t>(1, std::min<int64_t>(3, topic.replication_factor))));
    topic.unclean = random.Chance(1, 12);
    topic.recreated = random.Chance(1, 8);
    if (random.Chance(1, 6)) topic.retention_bytes = random.Between(500, 4'000);
    if (random.Chance(1, 6)) {
      topic.retention_ms = (plan->options.tick * random.Between(10, 60)).Milliseconds();
    }
  }
}

void DrawClients(RandomStream& random, Plan* plan) {
  const Duration tick = plan->options.tick;
  BrokerPlan& brokers = plan->brokers;
  const int64_t producers = random.Between(1, 3);
  for (int64_t i = 0; i < producers; ++i) {
    ProducerPlan& producer = brokers.producers.emplace_back();
    producer.acks = OneOf(random, {int16_t{-1}, int16_t{-1}, int16_t{-1}, int16_t{1}, int16_t{0}});
    producer.idempotent = producer.acks == -1 && random.Chance(2, 3);
    producer.in_flight_max = static_cast<uint32_t>(random.Between(1, 5));
    producer.batch_records_max = static_cast<uint32_t>(random.Between(1, 5));
  }
  brokers.consumers = static_cast<uint32_t>(random.Between(1, 2));
  brokers.group_members = OneOf(random, {0u, 0u, 1u, 2u, 3u});
  brokers.think = tick * OneOf(random, {1, 4, 16}) / 8;
  brokers.client_session = tick * random.Between(6, 20);
  brokers.value_bytes_max = OneOf(random, {16u, 60u, 400u});
  brokers.admin = random.Chance(2, 3);
  brokers.admin_think = tick * random.Between(2, 12);
  for (uint32_t& weight : brokers.admin_weights) {
    const bool exists = random.Chance(1, 2);
    const int64_t drawn = random.Between(1, 6);
    weight = exists ? static_cast<uint32_t>(drawn) : 0;
  }
}

}  // namespace

void DrawBrokers(RandomStream& random, Plan* plan) {
  BrokerPlan& brokers = plan->brokers;
  const Duration tick = plan->options.tick;
  brokers.on = true;
  // Mostly all vote; else the last ones are brokers alone.
  if (plan->servers > 1 && random.Chance(1, 3)) {
    const auto voters = static_cast<size_t>(random.Between(1, std::min(plan->servers - 1, 5u)));
    plan->options.voters.resize(voters);
  }
  brokers.voters = plan->voters();
  brokers.own_coordination_only = brokers.voters == plan->servers && random.Chance(1, 3);
  // An epoch that ends after a few transactions ends before a broker has registered.
  if (plan->options.zab.counter_max < 200) plan->options.zab.counter_max = 200;
  brokers.durability =
      random.Chance(1, 6) ? storage::Durability::kFlush : storage::Durability::kFsync;
  brokers.session_timeout = tick * random.Between(4, 20);
  brokers.keep_in_sync_time = tick * random.Between(2, 20);
  DrawLimits(random, plan);
  DrawTopics(random, plan);
  DrawClients(random, plan);
  plan->workload.clients = random.Chance(1, 4) ? 1 : 0;
  // With servers gone for good there may be too few for a topic's replicas, or for its minimum.
  plan->heal_only_a_quorum = false;
  // Brokers find each other again, elect and catch up behind the ensemble's own healing.
  plan->heal_limit = plan->heal_limit + tick * 600;
}

void DrawFailOvers(RandomStream& random, const Scenario& scenario, Plan* plan) {
  if (scenario.faults.empty() || !random.Chance(1, 2)) return;
  const Duration tick = plan->options.tick;
  BrokerPlan& brokers = plan->brokers;
  replication::BrokerOptions& broker = plan->options.broker->broker;
  brokers.fail_overs = true;
  brokers.session_timeout =
      std::max(tick * random.Between(3, 8), Milliseconds(60) * int64_t{plan->servers});
  broker.coordination.session_timeout_ms =
      static_cast<int32_t>(brokers.session_timeout.Milliseconds());
  // From shorter than a fail-over to longer than several.
  brokers.keep_in_sync_time = brokers.session_timeout * random.Between(1, 8);
  broker.keep_in_sync_time = brokers.keep_in_sync_time;
  broker.preferred_replica_time = OneOf(random, {tick / 8, tick / 4, tick});
  broker.leader_rebalance_interval = OneOf(random, {tick, tick * 3, tick * 20});
  plan->restart = tick * random.Between(1, 12);
  plan->fault_every = tick * random.Between(1, 6);

  // An ensemble that is busy with the registration of all for longer than such a session lasts
  // would never get anywhere.
  server::Options& server = plan->options;
  server.snap_count = std::max(server.snap_count, 60u);
  server.zab.proposals_in_flight_max = 1'000;
  server.zab.window_transactions = 100'000;
  server.zab.window_bytes = 1 << 20;
  server.coordination.outstanding_requests_max = 1'000;
  server.coordination.pending_reply_bytes_max = 1 << 20;
  plan->disk.sync = std::min(plan->disk.sync, tick / 50);

  // Everybody writes to the same few partitions, so that whoever leads has something that others do
  // not have yet.
  brokers.topics.resize(1);
  TopicPlan& topic = brokers.topics[0];
  topic.partitions = OneOf(random, {1, 1, 2});
  if (random.Chance(3, 4)) {
    topic.replication_factor = static_cast<int16_t>(std::min(plan->servers, 3u));
  }
  topic.min_insync = std::min<int32_t>(OneOf(random, {1, 1, 2}), topic.replication_factor);
  topic.unclean = random.Chance(1, 6);
  while (brokers.producers.size() < 3) brokers.producers.emplace_back();
  for (ProducerPlan& producer : brokers.producers) {
    producer.acks = OneOf(random, {int16_t{-1}, int16_t{-1}, int16_t{1}});
    producer.idempotent = producer.acks == -1 && random.Chance(2, 3);
    producer.in_flight_max = static_cast<uint32_t>(random.Between(1, 5));
    producer.batch_records_max = static_cast<uint32_t>(random.Between(1, 3));
  }
  brokers.think = tick * OneOf(random, {1, 2, 8}) / 8;

  // Leaderships also end because an operator wants the preferred replica to lead, whatever it still
  // lacks; and replicas are moved, so that some come back to where they have just left.
  const bool elects = random.Chance(1, 2);
  const bool moves = random.Chance(1, 3);
  if (elects || moves) {
    brokers.admin = true;
    brokers.admin_think = tick * random.Between(1, 4);
    for (uint32_t& weight : brokers.admin_weights) weight = std::min(weight, 1u);
  }
  if (elects) {
    broker.auto_leader_rebalance = false;
    brokers.admin_weights[static_cast<size_t>(AdminOp::kElectPreferred)] = 6;
  }
  if (moves) {
    topic.partitions = 2;
    broker.state_change_queue_max = OneOf(random, {1u, 1u, 1'000u});
    broker.reassignment_throttle = 0;
    brokers.admin_weights[static_cast<size_t>(AdminOp::kReassign)] = 6;
  }
  if (random.Chance(1, 3)) {
    plan->workload.clients = static_cast<uint32_t>(random.Between(1, 2));
    plan->workload.session_timeout_ms = static_cast<int32_t>((tick * 3).Milliseconds());
  }

  // A few faults of those that bring fail-overs about, and perhaps one of any other kind.
  constexpr FaultKind kBringThem[] = {FaultKind::kKill,
                                      FaultKind::kPause,
                                      FaultKind::kCrashOnEvent,
                                      FaultKind::kCutLink,
                                      FaultKind::kStopCleanly,
                                      FaultKind::kKillPartitionLeader,
                                      FaultKind::kStickConnection,
                                      FaultKind::kPausePartitionLeader,
                                      FaultKind::kCutReplication,
                                      FaultKind::kSlowCoordination,
                                      FaultKind::kStrikeLeaders,
                                      FaultKind::kResetCoordination};
  constexpr uint64_t kOrdinary = static_cast<uint64_t>(FaultKind::kBitRot);
  for (uint64_t kind = 0; kind < kOrdinary; ++kind) plan->fault_weights[kind] = 0;
  const auto add = [&](FaultKind kind) {
    const auto weight = static_cast<uint32_t>(random.Between(1, 10));
    if (std::find(scenario.faults.begin(), scenario.faults.end(), kind) != scenario.faults.end()) {
      plan->fault_weights[static_cast<size_t>(kind)] = weight;
    }
  };
  // Those made for it first.
  for (FaultKind kind :
       {FaultKind::kCutReplication, FaultKind::kSlowCoordination, FaultKind::kStrikeLeaders}) {
    if (random.Chance(1, 2)) add(kind);
  }
  for (int64_t more = random.Between(1, 3); more > 0; --more) add(OneOf(random, kBringThem));
  if (random.Chance(1, 3)) add(static_cast<FaultKind>(random.Below(kOrdinary)));
}

void DrawHandOvers(RandomStream& random, const Scenario& scenario, Plan* plan) {
  BrokerPlan& brokers = plan->brokers;
  if (!brokers.fail_overs || plan->servers < 2 || !random.Chance(2, 5)) return;
  const Duration tick = plan->options.tick;
  replication::BrokerOptions& broker = plan->options.broker->broker;
  brokers.hand_overs = true;
  // Nobody who is not concerned.
  if (plan->servers > 3 && random.Chance(2, 3)) SetServers(plan, 3, std::min(plan->voters(), 3u));
  // From shorter than a burst to longer than all of it.
  brokers.keep_in_sync_time = brokers.session_timeout * OneOf(random, {1, 8, 16, 32}) / 4;
  broker.keep_in_sync_time = brokers.keep_in_sync_time;
  broker.preferred_replica_time = OneOf(random, {tick / 8, tick / 4});
  broker.auto_leader_rebalance = false;
  broker.reassignment_throttle = 0;
  broker.state_change_queue_max = OneOf(random, {1u, 1'000u});
  brokers.think = tick * OneOf(random, {1, 2}) / 8;
  // What was sent before a cut arrives after it.
  plan->network.gives_up_after = std::max(plan->network.gives_up_after, tick * 40);
  plan->network.tail_per_mille = 0;

  TopicPlan& topic = brokers.topics[0];
  topic.partitions = 1;
  topic.replication_factor = static_cast<int16_t>(std::min(plan->servers, 3u));
  topic.min_insync = std::min<int32_t>(OneOf(random, {1, 1, 2}), topic.replication_factor);
  topic.unclean = false;
  // No other partition, whose leaders would be cut off and struck instead.
  brokers.group_members = 0;
  brokers.admin = true;
  brokers.admin_think = tick * random.Between(1, 6);
  std::fill(std::begin(brokers.admin_weights), std::end(brokers.admin_weights), 0);
  brokers.admin_weights[static_cast<size_t>(AdminOp::kElectPreferred)] = 6;
  topic.recreated = random.Chance(1, 4);
  if (topic.recreated) brokers.admin_weights[static_cast<size_t>(AdminOp::kRecreate)] = 2;

  // So that mostly one thing at a time is cut off: with nothing, everybody has everything, and with
  // all, nobody anything.
  plan->fault_every = brokers.session_timeout * random.Between(2, 8) / 4;
  plan->fault_weights.fill(0);
  struct Meanwhile {
    FaultKind kind;
    uint32_t chance;  // of four
    int64_t most;
  };
  constexpr Meanwhile kMeanwhile[] = {
      {FaultKind::kCutReplication, 4, 12},
      {FaultKind::kStrikeLeaders, 3, 8},
      {FaultKind::kSlowCoordination, 2, 4},
      {FaultKind::kPausePartitionLeader, 1, 2},
      {FaultKind::kKill, 1, 2},
      {FaultKind::kSlowLink, 1, 2},
      {FaultKind::kResetCoordination, 1, 2},
  };
  for (const auto& [kind, chance, most] : kMeanwhile) {
    const bool exists = random.Chance(chance, 4);
    const auto weight = static_cast<uint32_t>(random.Between((most + 1) / 2, most));
    const bool allowed =
        std::find(scenario.faults.begin(), scenario.faults.end(), kind) != scenario.faults.end();
    if (exists && allowed) plan->fault_weights[static_cast<size_t>(kind)] = weight;
  }
}

void SetBrokerOptions(const Plan& plan, uint32_t server, server::Options* options) {
  server::BrokerRoleOptions& role = *options->broker;
  role.broker.broker = BrokerOf(server);
  role.broker.rack = absl::StrCat("rack", server % 3);
  role.broker.advertised = {HostOf(server), 9092};
  role.coordination.clear();
  if (plan.brokers.own_coordination_only) {
    role.coordination.push_back({HostOf(server), 2181});
  } else {
    for (uint32_t s = 0; s < plan.voters(); ++s) role.coordination.push_back({HostOf(s), 2181});
  }
  role.broker.coordination.servers = static_cast<uint32_t>(role.coordination.size());
  if (server >= plan.voters()) options->voters.clear();
}

void DrawDamagedLogs(RandomStream& random, const Scenario& scenario, Plan* plan) {
  const bool damage = std::any_of(scenario.faults.begin(), scenario.faults.end(), IsDamage);
  if (!damage || random.Chance(1, 5)) return;
  storage::LogOptions& log = plan->options.broker->broker.log;
  plan->brokers.durability = log.durability = storage::Durability::kFsync;
  log.cache_bytes = OneOf(random, {uint64_t{0}, uint64_t{0}, uint64_t{2'000}});
  log.journal_bytes_max = OneOf(random, {uint64_t{1'000}, uint64_t{4'000}});
  plan->options.storage.segment_bytes = OneOf(random, {1'024u, 4'096u});
  plan->options.storage.retained_bytes = 0;
  plan->damage_every = plan->options.tick * random.Between(1, 8);
  for (TopicPlan& topic : plan->brokers.topics) {
    const bool spread = random.Chance(3, 4);
    if (spread) topic.replication_factor = static_cast<int16_t>(std::min(plan->servers, 3u));
    topic.min_insync = std::min<int32_t>(topic.min_insync, topic.replication_factor);
  }
}

}  // namespace lockstep::sim
