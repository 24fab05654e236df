#include "core/server/four_letter.h"

#include <algorithm>

#include "core/base/check.h"

namespace lockstep::server {
namespace {

constexpr std::string_view kWords[] = {"conf", "cons", "crst", "dirs", "dump", "envi",
                                       "gtmk", "hash", "isro", "mntr", "ruok", "srst",
                                       "srvr", "stat", "stmk", "wchc", "wchp", "wchs"};
constexpr std::string_view kNotServing =
    "This ZooKeeper instance is not currently serving requests\n";

std::string Hex(uint64_t value) { return SessionId{static_cast<int64_t>(value)}.ToString(); }

// Milliseconds with one decimal, without floating point.
std::string AverageMs(const coordination::ServiceStats& stats) {
  if (stats.requests == 0) return "0.0";
  int64_t tenths = stats.latency_total.ns / static_cast<int64_t>(stats.requests) / 100'000;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

std::string Mode(const FourLetterContext& c) {
  if (c.voters == 1) return "standalone";
  return c.service->role() == coordination::Role::kLeading ? "leader" : "follower";
}

bool Serving(const FourLetterContext& c) {
  return c.service->role() != coordination::Role::kStopped;
}

std::string Server(const FourLetterContext& c, bool with_clients) {
  if (!Serving(c)) return std::string(kNotServing);
  const coordination::ServiceStats& stats = c.service->stats();
  std::string text = "Zookeeper version: " + std::string(c.version) + "\n";
  if (with_clients) {
    text += "Clients:\n";
    for (const std::string& line : c.service->DescribeConnections(c.now)) text += line + "\n";
    text += "\n";
  }
  text += "Latency min/avg/max: " + std::to_string(stats.latency_min.Milliseconds()) + "/" +
          AverageMs(stats) + "/" + std::to_string(stats.latency_max.Milliseconds()) + "\n";
  text += "Received: " + std::to_string(stats.packets_received) + "\n";
  text += "Sent: " + std::to_string(stats.packets_sent) + "\n";
  text += "Connections: " + std::to_string(stats.connections) + "\n";
  text += "Outstanding: " + std::to_string(stats.outstanding_requests) + "\n";
  text += "Zxid: " + Hex(c.service->tree().last_zxid().Packed()) + "\n";
  text += "Mode: " + Mode(c) + "\n";
  text += "Node count: " + std::to_string(c.service->tree().node_count()) + "\n";
  if (c.service->role() == coordination::Role::kLeading) {
    bool any = c.proposal_bytes_last != 0;
    text +=
        "Proposal sizes last/min/max: " +
        (any ? std::to_string(c.proposal_bytes_last) + "/" + std::to_string(c.proposal_bytes_min) +
                   "/" + std::to_string(c.proposal_bytes_max)
             : std::string("-1/-1/-1")) +
        "\n";
  }
  return text;
}

// What Kafka's operators look at first. Names of our own, since ZooKeeper has none for it: scripts
// and dashboards depend on them, so they stay (docs/configuration.md lists them).
std::string MonitorBroker(const BrokerStatus& status) {
  const replication::BrokerFigures& figures = status.figures;
  std::string text;
  auto add = [&](const char* name, uint64_t value) {
    text += std::string("lockstep_broker_") + name + "\t" + std::to_string(value) + "\n";
  };
  add("id", static_cast<uint64_t>(status.broker.value));
  add("registered", figures.registered);
  add("fenced", figures.fenced);
  add("live_brokers", figures.brokers);
  add("partitions", figures.logs.size());
  add("leader_partitions", figures.led);
  add("under_replicated_partitions", figures.under_replicated);
  add("under_min_isr_partitions", figures.under_min_isr);
  add("damaged_partitions", figures.damaged);
  add("offline_partitions", figures.offline);
  add("log_bytes", status.log_bytes);
  add("groups", status.clients.groups);
  add("client_connections", status.clients.connections);
  add("requests_total", status.clients.requests);
  add("received_bytes_total", status.clients.bytes_received);
  add("sent_bytes_total", status.clients.bytes_sent);
  return text;
}

std::string Monitor(const FourLetterContext& c) {
  if (!Serving(c)) return std::string(kNotServing);
  const coordination::ServiceStats& stats = c.service->stats();
  const coordination::Tree& tree = c.service->tree();
  std::string text;
  auto add = [&](const char* name, const std::string& value) {
    text += std::string("zk_") + name + "\t" + value + "\n";
  };
  add("version", std::string(c.version));
  add("server_state", Mode(c));
  add("avg_latency", AverageMs(stats));
  add("min_latency", std::to_string(stats.latency_min.Milliseconds()));
  add("max_latency", std::to_string(stats.latency_max.Milliseconds()));
  add("packets_received", std::to_string(stats.packets_received));
  add("packets_sent", std::to_string(stats.packets_sent));
  add("num_alive_connections", std::to_string(stats.connections));
  add("outstanding_requests", std::to_string(stats.outstanding_requests));
  add("znode_count", std::to_string(tree.node_count()));
  add("watch_count", std::to_string(stats.watches));
  add("ephemerals_count", std::to_string(tree.ephemeral_count()));
  add("approximate_data_size", std::to_string(tree.approximate_data_size()));
  add("global_sessions", std::to_string(tree.sessions().size()));
  add("local_sessions", "0");
  add("uptime", std::to_string(c.uptime.Milliseconds()));
  add("zxid", Hex(tree.last_zxid().Packed()));
  add("digest", Hex(tree.digest()));
  add("digests_compared_count", std::to_string(c.digests_compared));
  add("digest_mismatches_count", std::to_string(c.digest_mismatches));
  if (c.service->role() == coordination::Role::kLeading && c.voters > 1) {
    add("quorum_size", std::to_string(c.voters));
    add("learners", std::to_string(c.peer->learner_count()));
    add("synced_followers", std::to_string(c.peer->synced_learner_count()));
    add("last_proposal_size", std::to_string(c.proposal_bytes_last));
    add("min_proposal_size", std::to_string(c.proposal_bytes_min));
    add("max_proposal_size", std::to_string(c.proposal_bytes_max));
  }
  if (c.broker) text += MonitorBroker(*c.broker);
  return text;
}

}  // namespace

bool IsFourLetterWord(std::string_view bytes) {
  LS_CHECK_EQ(bytes.size(), 4u);
  return std::find(std::begin(kWords), std::end(kWords), bytes) != std::end(kWords);
}

bool IsAllowed(std::string_view word, const std::vector<std::string>& allowed) {
  return std::any_of(allowed.begin(), allowed.end(),
                     [&](const std::string& a) { return a == "*" || a == word; });
}

std::string AnswerFourLetterWord(std::string_view word, const FourLetterContext& c) {
  if (!IsAllowed(word, *c.allowed))
    return std::string(word) + " is not executed because it is not in the whitelist.\n";
  if (word == "ruok") return "imok";
  if (word == "srvr") return Server(c, /*with_clients=*/false);
  if (word == "stat") return Server(c, /*with_clients=*/true);
  if (word == "mntr") return Monitor(c);
  if (word == "conf") return std::string(c.conf);
  if (word == "isro") return "rw";
  if (word == "srst") return "Server stats reset.\n";
  if (word == "envi") {
    return "Environment:\nzookeeper.version=" + std::string(c.version) + "\n";
  }
  if (word == "cons") {
    if (!Serving(c)) return std::string(kNotServing);
    std::string text;
    for (const std::string& line : c.service->DescribeConnections(c.now)) text += line + "\n";
    return text + "\n";
  }
  return std::string(word) + " is not offered by this server.\n";
}

}  // namespace lockstep::server
