// The keys of Kafka's server.properties: those that mean here what they mean there, and what the
// others do. One file configures both roles; `listeners` is what makes a server a broker, or, as in
// Kafka, a key that only a broker has: then it listens at Kafka's own port.
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "core/replication/topics.h"
#include "shell/config_parser.h"

namespace lockstep::shell {
namespace {

constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();
constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();
constexpr int64_t kHourMs = 3'600'000;
constexpr int64_t kMinuteMs = 60'000;

constexpr std::string_view kNoCleaner =
    "has no effect: log compaction is not offered yet, cleanup.policy is delete";
constexpr std::string_view kThreads =
    "has no effect: one thread steps the server, disk threads write";
constexpr std::string_view kPlaintext =
    "has no effect: listeners are PLAINTEXT, TLS and SASL are not offered yet";
constexpr std::string_view kNoAuthorizer =
    "has no effect: there are no ACLs yet, every client may do everything";
constexpr std::string_view kNoKraft =
    "has no effect: metadata is kept in the coordination service, not in a log of its own";
constexpr std::string_view kNoRemote = "has no effect: there is no remote storage";
constexpr std::string_view kNoShare = "has no effect: share groups are not offered";
constexpr std::string_view kNoTokens = "has no effect: there are no delegation tokens";
constexpr std::string_view kNoPasswords =
    "has no effect: nothing that is secret is kept in the coordination service";
constexpr std::string_view kNoPolicies =
    "has no effect: every client may do everything that is valid";
constexpr std::string_view kNoPurgatory = "has no effect: what waits and is over is not kept";
constexpr std::string_view kListeners =
    "has no effect: listeners and advertised.listeners say host and port";
constexpr std::string_view kStopping =
    "has no effect: a server that is stopped hands its leaderships over, for at most 20 s";
constexpr std::string_view kNoTransactions = "has no effect: transactions are not offered yet";

replication::BrokerOptions& Broker(Parser& p) { return p.config().broker.broker; }
kafka::FrontEndOptions& FrontEnd(Parser& p) { return p.config().broker.front_end; }

// `[NAME://]host:port`; an empty host is all interfaces. Nothing, and an error, for anything else.
std::optional<Endpoint> ParseListener(Parser& p, const Property& at, std::string_view text) {
  if (size_t scheme = text.find("://"); scheme != std::string_view::npos) {
    if (text.substr(0, scheme) != "PLAINTEXT") {
      p.Error(at, at.key + ": " + std::string(text) + ": a listener is PLAINTEXT://host:port");
      return std::nullopt;
    }
    text.remove_prefix(scheme + 3);
  }
  Endpoint endpoint;
  const size_t colon = text.rfind(':');
  std::string_view digits = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), endpoint.port);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) {
    p.Error(at, at.key + ": " + std::string(text) + ": must be PLAINTEXT://host:port");
    return std::nullopt;
  }
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  endpoint.host = host == "0.0.0.0" ? "" : std::string(host);
  return endpoint;
}

void TakeListeners(Parser& p, const Property& at) {
  if (at.value.find(',') != std::string::npos) {
    return p.Error(at, "listeners: one listener is offered, for clients and brokers alike");
  }
  if (auto endpoint = ParseListener(p, at, at.value)) p.config().broker_listener = *endpoint;
}

void TakeAdvertisedListeners(Parser& p, const Property& at) {
  auto endpoint = ParseListener(p, at, at.value);
  if (!endpoint) return;
  if (endpoint->host.empty() || endpoint->port == 0) {
    return p.Error(at, "advertised.listeners: " + at.value +
                           ": must name the host and the port by which clients and other brokers "
                           "reach this one");
  }
  Broker(p).advertised = {endpoint->host, endpoint->port};
}

void TakeLogDirs(Parser& p, const Property& at) {
  if (at.value.empty() || at.value.find(',') != std::string::npos) {
    return p.Error(at, at.key + ": one directory is offered");
  }
  p.config().partitions_dir = at.value;
}

void TakeConnect(Parser& p, const Property& at) {
  std::string_view list = at.value;
  if (size_t slash = list.find('/'); slash != std::string_view::npos) {
    if (list.substr(slash) != "/") {
      return p.Error(at, "zookeeper.connect: a path behind the servers (" +
                             std::string(list.substr(slash)) +
                             ") is not offered: brokers keep their state in /brokers, so that one "
                             "cluster uses a coordination service");
    }
    list = list.substr(0, slash);
  }
  std::vector<replication::Endpoint>& servers = p.config().broker.coordination;
  servers.clear();
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    std::string_view one = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    // ZooKeeper's default port.
    std::string text(one);
    if (text.find(':') == std::string::npos) text += ":2181";
    auto endpoint = ParseListener(p, at, text);
    if (!endpoint) return;
    servers.push_back({endpoint->host, endpoint->port});
  }
  if (servers.empty()) p.Error(at, "zookeeper.connect must be host:port[,host:port...]");
}

void TakeDurability(Parser& p, const Property& at) {
  if (at.value == "fsync") {
    Broker(p).log.durability = storage::Durability::kFsync;
  } else if (at.value == "flush") {
    Broker(p).log.durability = storage::Durability::kFlush;
  } else {
    p.Error(at,
            "log.durability must be fsync (an acknowledged record is on the disks of all "
            "in-sync replicas) or flush (in their page caches, as in Kafka)");
  }
}

void SetFlag(Parser& p, const Property& at, bool* value) {
  if (auto flag = p.KafkaFlag(at)) *value = *flag;
}

void SetScaled(Parser& p, const Property& at, int64_t scale, int64_t* milliseconds) {
  if (at.value == "-1") {
    *milliseconds = -1;
    return;
  }
  if (auto n = p.Number(at, 1, kInt64Max / scale, "or -1 for no limit")) *milliseconds = *n * scale;
}

constexpr Key kKeys[] = {
    // Who and where.
    {"broker.id",
     [](Parser& p, const Property& at) {
       p.Set(at, 0, kInt32Max, "its number", &Broker(p).broker.value);
     }},
    {"broker.rack", [](Parser& p, const Property& at) { Broker(p).rack = at.value; }},
    {"listeners", TakeListeners},
    {"advertised.listeners", TakeAdvertisedListeners},
    {"log.dirs", TakeLogDirs},
    {"log.dir", TakeLogDirs},
    {"zookeeper.connect", TakeConnect},
    {"zookeeper.session.timeout.ms",
     [](Parser& p, const Property& at) {
       p.Set(at, 100, kMillisecondsMax, "milliseconds", &Broker(p).coordination.session_timeout_ms);
     }},

    // Topics.
    {"num.partitions",
     [](Parser& p, const Property& at) {
       p.Set(at, 1, 10'000, "partitions", &Broker(p).default_partitions);
     }},
    {"default.replication.factor",
     [](Parser& p, const Property& at) {
       p.Set(at, 1, 1'000, "replicas", &Broker(p).default_replication_factor);
     }},
    {"min.insync.replicas",
     [](Parser& p, const Property& at) {
       p.Set(at, 1, 1'000, "replicas", &Broker(p).min_insync_replicas);
     }},
    {"auto.create.topics.enable",
     [](Parser& p, const Property& at) { SetFlag(p, at, &FrontEnd(p).auto_create_topics); }},
    {"unclean.leader.election.enable",
     [](Parser& p, const Property& at) { SetFlag(p, at, &Broker(p).unclean_leader_election); }},
    {"auto.leader.rebalance.enable",
     [](Parser& p, const Property& at) { SetFlag(p, at, &Broker(p).auto_leader_rebalance); }},
    {"leader.imbalance.check.interval.seconds",
     [](Parser& p, const Property& at) {
       if (auto n = p.Number(at, 1, 24 * 3600, "seconds")) {
         Broker(p).leader_rebalance_interval = Seconds(*n);
       }
     }},

    // Replication.
    {"replica.lag.time.max.ms",
     [](Parser& p, const Property& at) { p.SetMilliseconds(at, 1, &Broker(p).keep_in_sync_time); }},
    {"replica.fetch.wait.max.ms",
     [](Parser& p, const Property& at) { p.SetMilliseconds(at, 1, &Broker(p).fetch_max_wait); }},
    {"replica.fetch.max.bytes",
     [](Parser& p, const Property& at) {
       p.Set(at, 1024, 32 << 20, "bytes", &Broker(p).fetch_entry_max_bytes);
     }},
    {"replica.fetch.response.max.bytes",
     [](Parser& p, const Property& at) {
       p.Set(at, 1024, 32 << 20, "bytes", &Broker(p).fetch_max_bytes);
     }},
    {"replica.high.watermark.checkpoint.interval.ms",
     [](Parser& p, const Property& at) {
       p.SetMilliseconds(at, 1, &Broker(p).high_watermark_checkpoint_interval);
     }},

    // Logs.
    {"log.durability", TakeDurability},
    {"log.segment.bytes",
     [](Parser& p, const Property& at) {
       p.Set(at, 1 << 20, 1 << 30, "bytes", &Broker(p).log.segment_bytes);
     }},
    {"log.roll.ms",
     [](Parser& p, const Property& at) {
       p.Set(at, 1, kInt64Max, "milliseconds", &Broker(p).log.segment_ms);
     }},
    {"log.roll.hours",
     [](Parser& p, const Property& at) { SetScaled(p, at, kHourMs, &Broker(p).log.segment_ms); }},
    {"log.index.interval.bytes",
     [](Parser& p, const Property& at) {
       p.Set(at, 1, kInt32Max, "bytes", &Broker(p).log.index_interval_bytes);
     }},
    {"log.retention.ms",
     [](Parser& p, const Property& at) { SetScaled(p, at, 1, &Broker(p).retention_ms); }},
    {"log.retention.minutes",
     [](Parser& p, const Property& at) { SetScaled(p, at, kMinuteMs, &Broker(p).retention_ms); }},
    {"log.retention.hours",
     [](Parser& p, const Property& at) { SetScaled(p, at, kHourMs, &Broker(p).retention_ms); }},
    {"log.retention.bytes",
     [](Parser& p, const Property& at) {
       p.Set(at, -1, kInt64Max, "bytes of a partition, -1: no limit", &Broker(p).retention_bytes);
     }},
    {"log.retention.check.interval.ms",
     [](Parser& p, const Property& at) {
       p.SetMilliseconds(at, 1, &Broker(p).retention_check_interval);
     }},
    {"log.cleanup.policy",
     [](Parser& p, const Property& at) {
       if (at.value != "delete") {
         p.Error(at, "log.cleanup.policy: delete is offered, log compaction is not yet");
       }
     }},
    {"log.message.timestamp.before.max.ms",
     [](Parser& p, const Property& at) {
       p.Set(at, 0, kInt64Max, "milliseconds", &FrontEnd(p).timestamp_before_max_ms);
     }},
    {"log.message.timestamp.after.max.ms",
     [](Parser& p, const Property& at) {
       p.Set(at, 0, kInt64Max, "milliseconds", &FrontEnd(p).timestamp_after_max_ms);
     }},

    // Clients.
    {"message.max.bytes",
     [](Parser& p, const Property& at) {
       p.Set(at, 1024, replication::kMessageBytesMax, "bytes of a batch",
             &FrontEnd(p).message_bytes_max);
     }},
    {"socket.request.max.bytes",
     [](Parser& p, const Property& at) {
       p.Set(at, 1024, 1 << 30, "bytes of a request", &FrontEnd(p).request_bytes_max);
     }},
    {"fetch.max.bytes",
     [](Parser& p, const Property& at) {
       p.Set(at, 1024, kInt32Max, "bytes", &FrontEnd(p).fetch_bytes_max);
     }},
    {"max.connections",
     [](Parser& p, const Property& at) {
       p.Set(at, 1, kInt32Max, "connections", &FrontEnd(p).connections_max);
     }},
    {"connections.max.idle.ms",
     [](Parser& p, const Property& at) {
       p.SetMilliseconds(at, 1, &FrontEnd(p).connections_max_idle);
     }},
    {"producer.id.expiration.ms",
     [](Parser& p, const Property& at) {
       p.SetMilliseconds(at, 1, &FrontEnd(p).producer_id_expiration);
     }},

    // Groups.
    {"offsets.topic.num.partitions",
     [](Parser& p, const Property& at) {
       p.Set(at, 1, 10'000, "partitions", &FrontEnd(p).groups.partitions);
     }},
    {"offsets.topic.replication.factor",
     [](Parser& p, const Property& at) {
       p.Set(at, 1, 1'000, "replicas", &FrontEnd(p).groups.replication_factor);
     }},
    {"offsets.retention.minutes",
     [](Parser& p, const Property& at) {
       SetScaled(p, at, kMinuteMs, &FrontEnd(p).groups.retention_ms);
     }},
    {"offset.metadata.max.bytes",
     [](Parser& p, const Property& at) {
       p.Set(at, 0, 1 << 20, "bytes", &FrontEnd(p).groups.metadata_bytes_max);
     }},
    {"group.initial.rebalance.delay.ms",
     [](Parser& p, const Property& at) {
       p.Set(at, 0, kMillisecondsMax, "milliseconds",
             &FrontEnd(p).groups.initial_rebalance_delay_ms);
     }},
    {"group.min.session.timeout.ms",
     [](Parser& p, const Property& at) {
       p.Set(at, 1, kMillisecondsMax, "milliseconds", &FrontEnd(p).groups.session_timeout_min_ms);
     }},
    {"group.max.session.timeout.ms",
     [](Parser& p, const Property& at) {
       p.Set(at, 1, kMillisecondsMax, "milliseconds", &FrontEnd(p).groups.session_timeout_max_ms);
     }},
    {"group.max.size",
     [](Parser& p, const Property& at) {
       p.Set(at, 1, 100'000, "members", &FrontEnd(p).groups.group_size_max);
     }},

    // What Kafka knows, and is otherwise here.
    {"node.id", nullptr, "has no effect: it is a key of KRaft, here it is broker.id"},
    {"process.roles", nullptr,
     "has no effect: clientPort makes a server a coordinator, listeners make it a broker"},
    {"controller.*", nullptr, kNoKraft},
    {"metadata.*", nullptr, kNoKraft},
    {"zookeeper.connection.timeout.ms", nullptr,
     "has no effect: servers are tried in turn, for ever"},
    {"zookeeper.ssl.*", nullptr, kPlaintext, kProtects},
    {"zookeeper.set.acl",
     [](Parser& p, const Property& at) {
       if (auto flag = p.KafkaFlag(at); flag && *flag) {
         p.Warn(at,
                "zookeeper.set.acl has no effect: brokers write znodes that everybody may change");
       }
     }},
    {"zookeeper.max.in.flight.requests", nullptr, "has no effect: every queue is bounded"},
    {"zookeeper.metadata.migration.enable", nullptr, kNoKraft},
    {"listener.*", nullptr, kPlaintext},
    {"inter.broker.*", nullptr, "has no effect: brokers reach each other by advertised.listeners"},
    {"security.inter.broker.protocol",
     [](Parser& p, const Property& at) {
       if (at.value != "PLAINTEXT") p.Warn(at, at.key + " " + std::string(kPlaintext));
     }},
    {"security.*", nullptr, kPlaintext, kProtects},
    {"sasl.*", nullptr, kPlaintext, kProtects},
    {"authorizer.class.name", nullptr, kNoAuthorizer, kProtects},
    {"super.users", nullptr, kNoAuthorizer, kProtects},
    {"allow.everyone.if.no.acl.found", nullptr, kNoAuthorizer, kProtects},
    {"log.cleaner.*", nullptr, kNoCleaner},
    {"log.flush.*", nullptr,
     "has no effect: log.durability=fsync (the default) or flush says when a record counts"},
    {"log.preallocate", nullptr, "has no effect: segments grow as they are written"},
    {"log.segment.delete.delay.ms", nullptr, "has no effect: readers hold no file"},
    {"log.index.size.max.bytes", nullptr, "has no effect: an index is as large as it has to be"},
    {"log.message.*", nullptr, "has no effect: records keep the timestamps of their producers"},
    {"compression.type", nullptr, "has no effect: batches are kept as their producers sent them"},
    {"num.network.threads", nullptr, kThreads},
    {"num.io.threads", nullptr, kThreads},
    {"num.replica.fetchers", nullptr, kThreads},
    {"num.recovery.threads.per.data.dir", nullptr, kThreads},
    {"background.threads", nullptr, kThreads},
    {"socket.send.buffer.bytes", nullptr, "has no effect: the system sizes its buffers"},
    {"socket.receive.buffer.bytes", nullptr, "has no effect: the system sizes its buffers"},
    {"replica.socket.*", nullptr, "has no effect: the system sizes its buffers"},
    {"queued.max.requests", nullptr, "has no effect: every queue is bounded"},
    {"max.connections.per.ip", nullptr, "has no effect: max.connections bounds them all"},
    {"delete.topic.enable", nullptr, "has no effect: topics can be deleted"},
    {"leader.imbalance.per.broker.percentage", nullptr,
     "has no effect: every partition goes back to its preferred leader"},
    {"offsets.topic.segment.bytes", nullptr, "has no effect: it is log.segment.bytes"},
    {"offsets.*", nullptr, "has no effect: offsets are kept as every topic is"},
    {"group.new.*", nullptr, "has no effect: groups use the classic protocol"},
    {"group.consumer.*", nullptr, "has no effect: groups use the classic protocol"},
    {"transaction.*", nullptr, kNoTransactions},
    {"transactional.*", nullptr, kNoTransactions},
    {"quota.*", nullptr, "has no effect: there are no quotas"},
    {"client.quota.*", nullptr, "has no effect: there are no quotas"},
    {"metric.*", nullptr, "has no effect: there is no metrics port yet, use mntr"},
    {"metrics.*", nullptr, "has no effect: there is no metrics port yet, use mntr"},
    {"kafka.*", nullptr, "has no effect: there is no metrics port yet, use mntr"},
    {"auto.include.jmx.reporter", nullptr, "has no effect: there is no JVM"},
    {"broker.heartbeat.interval.ms", nullptr, kNoKraft},
    {"broker.session.timeout.ms", nullptr,
     "has no effect: it is a key of KRaft, here it is zookeeper.session.timeout.ms"},
    {"initial.broker.registration.timeout.ms", nullptr, "has no effect: a broker tries for ever"},
    {"server.max.startup.time.ms", nullptr, "has no effect: a start takes as long as it has to"},
    {"internal.*", nullptr, "has no effect: it is for Kafka's own tests"},
    {"unstable.*", nullptr, "has no effect: it is for Kafka's own tests"},
    {"broker.id.generation.enable", nullptr,
     "has no effect: without broker.id it is the server's number"},
    {"reserved.broker.max.id", nullptr, "has no effect: no broker.id is given out"},
    {"inter.broker.protocol.version", nullptr,
     "has no effect: brokers tell each other what they speak"},
    {"controlled.shutdown.*", nullptr, kStopping},
    {"host.name", nullptr, kListeners},
    {"port", nullptr, kListeners},
    {"advertised.host.name", nullptr, kListeners},
    {"advertised.port", nullptr, kListeners},
    {"control.plane.listener.name", nullptr, "has no effect: there is one listener"},
    {"early.start.listeners", nullptr, "has no effect: there is one listener"},
    {"socket.listen.backlog.size", nullptr, "has no effect: it is the greatest of the system"},
    {"socket.connection.setup.*", nullptr,
     "has no effect: cnxTimeout bounds how long a connection may take to be made"},
    {"connection.failed.authentication.delay.ms", nullptr, kPlaintext},
    {"connections.max.reauth.ms", nullptr, kPlaintext},
    {"principal.builder.class", nullptr, kPlaintext, kProtects},
    {"ssl.*", nullptr, kPlaintext, kProtects},
    {"password.encoder.*", nullptr, kNoPasswords},
    {"delegation.token.*", nullptr, kNoTokens},
    {"config.providers", nullptr, "has no effect: values stand in this file as they are"},
    {"create.topic.policy.class.name", nullptr, kNoPolicies},
    {"alter.config.policy.class.name", nullptr, kNoPolicies},
    {"max.connections.per.ip.overrides", nullptr, "has no effect: max.connections bounds them all"},
    {"max.connection.creation.rate", nullptr, "has no effect: max.connections bounds them"},
    {"queued.max.request.bytes", nullptr, "has no effect: every queue is bounded"},
    {"max.incremental.fetch.session.cache.slots", nullptr,
     "has no effect: a fetch names all of its partitions"},
    {"max.request.partition.size.limit", nullptr, "has no effect: a frame is bounded"},
    {"request.timeout.ms", nullptr,
     "has no effect: what was asked of a broker is asked again when its connection ends"},
    {"telemetry.*", nullptr, "has no effect: clients are not asked for their metrics"},
    {"replica.fetch.min.bytes", nullptr,
     "has no effect: a follower is answered as soon as there is something"},
    {"replica.fetch.backoff.ms", nullptr, "has no effect: it is 100 ms"},
    {"replica.selector.class", nullptr, "has no effect: consumers read from the leader"},
    {"replica.alter.log.dirs.*", nullptr, "has no effect: there is one log directory"},
    {"num.replica.alter.log.dirs.threads", nullptr, "has no effect: there is one log directory"},
    {"alter.log.dirs.*", nullptr, "has no effect: there is one log directory"},
    {"log.dir.failure.timeout.ms", nullptr,
     "has no effect: a server whose log directory fails ends at once"},
    {"replication.quota.*", nullptr, "has no effect: there are no quotas"},
    {"leader.replication.throttled.*", nullptr, "has no effect: there are no quotas"},
    {"follower.replication.throttled.*", nullptr, "has no effect: there are no quotas"},
    {"unclean.leader.election.interval.ms", nullptr,
     "has no effect: an election is held as soon as it can be"},
    {"producer.id.expiration.check.interval.ms", nullptr,
     "has no effect: producers are forgotten when they are due"},
    {"compression.*", nullptr, "has no effect: batches are kept as their producers sent them"},
    {"log.roll.jitter.*", nullptr, "has no effect: segments roll when they are due"},
    {"log.initial.task.delay.ms", nullptr,
     "has no effect: log.retention.check.interval.ms says when logs are looked at"},
    {"log.local.*", nullptr, kNoRemote},
    {"remote.*", nullptr, kNoRemote},
    {"rlmm.*", nullptr, kNoRemote},
    {"rsm.*", nullptr, kNoRemote},
    {"share.*", nullptr, kNoShare},
    {"group.share.*", nullptr, kNoShare},
    {"group.streams.*", nullptr, "has no effect: groups use the classic protocol"},
    {"group.coordinator.*", nullptr, "has no effect: groups use the classic protocol"},
    {"add.partitions.to.txn.*", nullptr, kNoTransactions},
    {"delete.records.purgatory.purge.interval.requests", nullptr, kNoPurgatory},
    {"fetch.purgatory.purge.interval.requests", nullptr, kNoPurgatory},
    {"producer.purgatory.purge.interval.requests", nullptr, kNoPurgatory},
    {"producer.metrics.enable", nullptr, "has no effect: there is no metrics port yet, use mntr"},
    {"zookeeper.clientCnxnSocket", nullptr, kPlaintext},
    {"zookeeper.sync.time.ms", nullptr, "has no effect: nothing is read from who lags behind"},
};

}  // namespace

std::span<const Key> BrokerKeys() { return kKeys; }

void FinishBroker(LoadedConfig* loaded) {
  Config& config = loaded->config;
  replication::BrokerOptions& broker = config.broker.broker;
  auto error = [&](std::string text) {
    loaded->errors.push_back({config.file, 0, std::move(text)});
  };
  if (!broker.broker) broker.broker.value = static_cast<int32_t>(config.server.value);
  if (broker.advertised.port == 0) {
    broker.advertised.port = config.broker_listener->port;
  }
  if (broker.advertised.host.empty()) broker.advertised.host = config.broker_listener->host;
  // What is said of a key's value is said once.
  const auto set = [&config](const char* key) {
    return config.broker.front_end.configured.contains(key);
  };
  if (broker.advertised.host.empty() && !set("advertised.listeners")) {
    // As Kafka does.
    char name[256] = "";
    if (::gethostname(name, sizeof name - 1) != 0 || *name == '\0') {
      error(
          "advertised.listeners is not set, and neither listeners nor this machine has a name: "
          "clients and other brokers must be told where to find this one");
    } else {
      broker.advertised.host = name;
      loaded->notices.push_back(
          {config.file, 0,
           "advertised.listeners is not set, and listeners names no host: clients and other "
           "brokers are told this machine's name, " +
               broker.advertised.host});
    }
  }
  if (config.broker.coordination.empty()) {
    if (set("zookeeper.connect")) return;
    if (!config.coordinator()) {
      error(
          "zookeeper.connect is not set: a broker needs a coordination service, its own "
          "(clientPort) or another one");
      return;
    }
    // Its own: where this server's coordinator listens.
    const std::string& host = config.client.host;
    config.broker.coordination = {{host.empty() ? "127.0.0.1" : host, config.client.port}};
  }
  broker.coordination.servers = static_cast<uint32_t>(config.broker.coordination.size());
}

}  // namespace lockstep::shell
