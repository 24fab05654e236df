// Every field of a Plan that a seed draws, with the name that schedule files have for it. One list
// for writing and for reading, so that neither forgets what the other knows.
#pragma once

#include "sim/plan.h"

namespace lockstep::sim {

// Calls visit(group, name, &field) for each, groups together. The fields are of type bool,
// uint32_t, int32_t, uint64_t, int64_t, Duration or storage::Durability.
template <typename Visit>
void VisitPlan(Plan* plan, Visit visit) {
  visit("run", "chaos", &plan->chaos);
  visit("run", "fault-every", &plan->fault_every);
  visit("run", "damage-every", &plan->damage_every);
  visit("run", "restart", &plan->restart);
  visit("run", "heal-limit", &plan->heal_limit);
  visit("run", "heal-only-a-quorum", &plan->heal_only_a_quorum);
  visit("run", "budget", &plan->budget);
  visit("run", "older", &plan->older);
  visit("run", "turn", &plan->turn);
  visit("run", "drift-ppm", &plan->drift_ppm_max);

  server::Options& options = plan->options;
  visit("server", "tick", &options.tick);
  visit("server", "init-limit", &options.init_limit);
  visit("server", "sync-limit", &options.sync_limit);
  visit("server", "snap-count", &options.snap_count);
  visit("server", "snapshot-piece", &options.snapshot_piece_bytes);
  visit("server", "snapshot-backlog", &options.snapshot_backlog_max);
  visit("server", "segment-bytes", &options.storage.segment_bytes);
  visit("server", "retained-bytes", &options.storage.retained_bytes);
  visit("server", "digests", &options.digests_max);

  zab::PeerOptions& zab = options.zab;
  visit("zab", "finalize-wait", &zab.finalize_wait);
  visit("zab", "notification-min", &zab.notification_interval_min);
  visit("zab", "notification-max", &zab.notification_interval_max);
  visit("zab", "channel-retry", &zab.channel_retry);
  visit("zab", "in-flight", &zab.proposals_in_flight_max);
  visit("zab", "window", &zab.window_transactions);
  visit("zab", "window-bytes", &zab.window_bytes);
  visit("zab", "counter-max", &zab.counter_max);

  coordination::ServiceOptions& service = options.coordination;
  visit("service", "session-min-ms", &service.session_timeout_ms_min);
  visit("service", "session-max-ms", &service.session_timeout_ms_max);
  visit("service", "outstanding", &service.outstanding_requests_max);
  visit("service", "pending-reply-bytes", &service.pending_reply_bytes_max);

  NetworkPlan& network = plan->network;
  visit("network", "latency", &network.latency_min);
  visit("network", "jitter", &network.latency_jitter);
  visit("network", "tail-per-mille", &network.tail_per_mille);
  visit("network", "cut-percent", &network.cut_percent);
  visit("network", "gives-up-after", &network.gives_up_after);
  visit("network", "dial-timeout", &network.dial_timeout);
  visit("network", "retransmit-max", &network.retransmit_max);
  visit("network", "far-percent", &network.far_percent);

  DiskPlan& disk = plan->disk;
  visit("disk", "op", &disk.op);
  visit("disk", "sync", &disk.sync);
  visit("disk", "slow-sync-per-mille", &disk.slow_sync_per_mille);
  visit("disk", "keeps-none", &disk.keeps_none);
  visit("disk", "keeps-all", &disk.keeps_all);
  visit("disk", "keeps-some", &disk.keeps_some);
  visit("disk", "entries-out-of-order", &disk.entries_out_of_order);

  WorkloadPlan& work = plan->workload;
  visit("clients", "count", &work.clients);
  visit("clients", "keys", &work.keys);
  visit("clients", "think", &work.think);
  visit("clients", "outstanding", &work.outstanding_max);
  visit("clients", "session-ms", &work.session_timeout_ms);
  if (!plan->brokers.on) return;

  BrokerPlan& brokers = plan->brokers;
  visit("brokers", "own-coordination-only", &brokers.own_coordination_only);
  visit("brokers", "durability", &brokers.durability);
  visit("brokers", "session", &brokers.session_timeout);
  visit("brokers", "in-sync", &brokers.keep_in_sync_time);
  visit("brokers", "consumers", &brokers.consumers);
  visit("brokers", "members", &brokers.group_members);
  visit("brokers", "admin", &brokers.admin);
  visit("brokers", "think", &brokers.think);
  visit("brokers", "admin-think", &brokers.admin_think);
  visit("brokers", "value-bytes", &brokers.value_bytes_max);
  visit("brokers", "client-session", &brokers.client_session);

  replication::BrokerOptions& broker = options.broker->broker;
  visit("broker", "session-ms", &broker.coordination.session_timeout_ms);
  visit("broker", "retry-min", &broker.coordination.retry_min);
  visit("broker", "retry-max", &broker.coordination.retry_max);
  visit("broker", "preferred-replica-time", &broker.preferred_replica_time);
  visit("broker", "rebalance", &broker.auto_leader_rebalance);
  visit("broker", "rebalance-interval", &broker.leader_rebalance_interval);
  visit("broker", "queue-max", &broker.state_change_queue_max);
  visit("broker", "throttle", &broker.reassignment_throttle);
  visit("broker", "fetch-wait", &broker.fetch_max_wait);
  visit("broker", "fetch-bytes", &broker.fetch_max_bytes);
  visit("broker", "fetch-entry-bytes", &broker.fetch_entry_max_bytes);
  visit("broker", "checkpoint-interval", &broker.high_watermark_checkpoint_interval);
  visit("broker", "retention-interval", &broker.retention_check_interval);

  visit("log", "segment-bytes", &broker.log.segment_bytes);
  visit("log", "index-interval", &broker.log.index_interval_bytes);
  visit("log", "cache-bytes", &broker.log.cache_bytes);
  visit("log", "journal-bytes", &broker.log.journal_bytes_max);

  kafka::FrontEndOptions& front_end = options.broker->front_end;
  visit("front-end", "undecided", &options.broker->undecided_timeout);
  visit("front-end", "requests", &front_end.requests_max);
  visit("front-end", "unsent-bytes", &front_end.unsent_bytes_max);
  visit("front-end", "held-bytes", &front_end.held_bytes_max);
  visit("front-end", "idle", &front_end.connections_max_idle);
  visit("front-end", "group-partitions", &front_end.groups.partitions);
  visit("front-end", "group-replicas", &front_end.groups.replication_factor);
  visit("front-end", "rebalance-delay-ms", &front_end.groups.initial_rebalance_delay_ms);
}

template <typename Visit>
void VisitTopic(TopicPlan* topic, Visit visit) {
  visit("partitions", &topic->partitions);
  visit("replicas", &topic->replication_factor);
  visit("min-insync", &topic->min_insync);
  visit("unclean", &topic->unclean);
  visit("recreated", &topic->recreated);
  visit("retention-ms", &topic->retention_ms);
  visit("retention-bytes", &topic->retention_bytes);
}

template <typename Visit>
void VisitProducer(ProducerPlan* producer, Visit visit) {
  visit("acks", &producer->acks);
  visit("idempotent", &producer->idempotent);
  visit("in-flight", &producer->in_flight_max);
  visit("batch-records", &producer->batch_records_max);
  visit("compressed", &producer->compressed);
}

}  // namespace lockstep::sim
