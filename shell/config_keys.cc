// The keys of a zoo.cfg: one table, in which each key either sets something or says what it does
// here. A key that is not in it is an error, since a misspelt limit is a limit that is not there.
#include <algorithm>

#include "shell/config_parser.h"
#include "shell/member_line.h"

namespace lockstep::shell {
namespace {

constexpr std::string_view kOneProcess =
    "has no effect: one thread steps the server, disk threads write";
constexpr std::string_view kNoLimit =
    "has no effect: every connection is held to 1000 outstanding requests, and every queue is "
    "bounded";
constexpr std::string_view kNoTls =
    "has no effect: TLS is not offered yet, no port for it is opened";
constexpr std::string_view kNoAuthentication =
    "has no effect: authentication is not offered yet, nobody can be told from anybody else; "
    "an ACL may name world:anyone alone, and its permissions are checked";
constexpr std::string_view kNoJava = "has no effect: it tunes a part that lockstepd does not have";

// Keys whose meaning is a promise of security or membership are refused where accepting them
// without keeping the promise would do harm.
void RefuseIfTrue(Parser& parser, const Property& property, const char* why) {
  std::optional<bool> flag = parser.Flag(property);
  if (flag && *flag) parser.Error(property, property.key + "=" + property.value + ": " + why);
}

constexpr Key kKeys[] = {
    // What every zoo.cfg has.
    {"tickTime",
     [](Parser& p, const Property& at) { p.SetMilliseconds(at, 10, &p.config().tick); }},
    {"initLimit",
     [](Parser& p, const Property& at) { p.Set(at, 1, 100'000, "ticks", &p.config().init_limit); }},
    {"syncLimit",
     [](Parser& p, const Property& at) { p.Set(at, 1, 100'000, "ticks", &p.config().sync_limit); }},
    {"dataDir",
     [](Parser& p, const Property& at) {
       if (at.value.empty()) return p.Error(at, "dataDir=: must be a directory");
       p.config().data_dir = at.value;
     }},
    {"dataLogDir",
     [](Parser& p, const Property& at) {
       if (at.value.empty()) return p.Error(at, "dataLogDir=: must be a directory");
       p.config().log_dir = at.value;
     }},
    {"clientPort",
     [](Parser& p, const Property& at) { p.Set(at, 1, 65535, "port", &p.config().client.port); }},
    {"clientPortAddress",
     [](Parser& p, const Property& at) { p.config().client.host = WithoutBrackets(at.value); }},
    {"server.*", [](Parser& p, const Property& at) { p.Member(at); }},
    {"maxClientCnxns",
     [](Parser& p, const Property& at) {
       p.Set(at, 0, 1'000'000, "connections", &p.config().connections_per_address_max);
     }},
    {"maxCnxns",
     [](Parser& p, const Property& at) {
       p.Set(at, 0, 1'000'000, "connections", &p.config().connections_max);
     }},
    {"minSessionTimeout",
     [](Parser& p, const Property& at) {
       if (at.value == "-1") return;  // ZooKeeper's way to say: the default
       p.Set(at, 1, kMillisecondsMax, "milliseconds", &p.config().session_timeout_ms_min);
     }},
    {"maxSessionTimeout",
     [](Parser& p, const Property& at) {
       if (at.value == "-1") return;
       p.Set(at, 1, kMillisecondsMax, "milliseconds", &p.config().session_timeout_ms_max);
     }},
    {"snapCount",
     [](Parser& p, const Property& at) {
       p.Set(at, 2, 1'000'000'000, "transactions", &p.config().snap_count);
     }},
    {"4lw.commands.whitelist", [](Parser& p, const Property& at) { p.FourLetterWords(at); }},
    {"jute.maxbuffer",
     [](Parser& p, const Property& at) {
       p.Set(at, 1024, 64 << 20, "bytes", &p.config().client_frame_bytes_max);
     }},
    {"cnxTimeout",
     [](Parser& p, const Property& at) { p.SetMilliseconds(at, 1, &p.config().connect_timeout); }},
    {"clientPortListenBacklog",
     [](Parser& p, const Property& at) {
       if (at.value == "-1") return;
       p.Set(at, 1, 65535, "connections", &p.config().client_listen_backlog);
     }},
    {"quorumListenOnAllIPs",
     [](Parser& p, const Property& at) {
       if (auto flag = p.Flag(at)) p.config().peers_on_all_interfaces = *flag;
     }},

    // The ensemble: what is not offered, and must not be believed to be.
    {"peerType",
     [](Parser& p, const Property& at) {
       if (at.value == "participant") return;
       if (at.value != "observer") return p.Error(at, "peerType must be participant or observer");
       p.Error(at, "peerType=observer: observers are not offered yet, every server votes");
     }},
    {"dynamicConfigFile",
     [](Parser& p, const Property& at) {
       p.Error(at, "dynamicConfigFile is not offered: write the server.N lines into this file");
     }},
    {"group.*",
     [](Parser& p, const Property& at) {
       p.Error(at, at.key + ": hierarchical quorums are not offered, a quorum is a majority");
     }},
    {"weight.*",
     [](Parser& p, const Property& at) {
       p.Error(at, at.key + ": hierarchical quorums are not offered, a quorum is a majority");
     }},
    {"sslQuorum",
     [](Parser& p, const Property& at) {
       RefuseIfTrue(p, at, "TLS between servers is not offered yet");
     }},
    {"quorum.auth.enableSasl",
     [](Parser& p, const Property& at) {
       RefuseIfTrue(p, at, "authentication between servers is not offered yet");
     }},
    {"enforce.auth.enabled",
     [](Parser& p, const Property& at) {
       RefuseIfTrue(p, at, "authentication of clients is not offered yet");
     }},
    {"sessionRequireClientSASLAuth",
     [](Parser& p, const Property& at) {
       RefuseIfTrue(p, at, "authentication of clients is not offered yet");
     }},
    {"electionAlg",
     [](Parser& p, const Property& at) {
       if (at.value != "3") p.Notice(at, "electionAlg has no effect: it is always fast election");
     }},
    {"forceSync",
     [](Parser& p, const Property& at) {
       if (auto flag = p.Flag(at); flag && !*flag) {
         p.Notice(at, "forceSync=no is ignored: nothing is acknowledged before it is durable");
       }
     }},
    {"standaloneEnabled", nullptr,
     "has no effect: a server without peers is an ensemble of one, and can get peers later"},
    {"reconfigEnabled", nullptr, "has no effect: the ensemble is what the server.N lines say"},
    {"leaderServes", nullptr, "has no effect: the leader serves clients too"},
    {"syncEnabled", nullptr, "has no effect: it is about observers, which are not offered yet"},
    {"skipACL",
     [](Parser& p, const Property& at) {
       if (auto flag = p.Flag(at); flag && *flag) {
         p.Warn(at, "skipACL=" + at.value +
                        " is ignored: the permissions of an ACL (of world:anyone, since "
                        "authentication is not offered yet) are checked");
       }
     }},
    {"localSessionsEnabled", nullptr, "has no effect: every session is known to all servers"},
    {"localSessionsUpgradingEnabled", nullptr,
     "has no effect: every session is known to all servers"},
    {"readonlymode.enabled", nullptr, "has no effect: a server without a quorum serves nobody"},
    {"quorumCnxnTimeoutMs", nullptr, "has no effect: syncLimit ticks of silence end a connection"},
    {"maxTimeToWaitForEpoch", nullptr, "has no effect: initLimit bounds it"},
    {"connectToLearnerMasterLimit", nullptr, "has no effect: initLimit bounds it"},
    {"electionPortBindRetry", nullptr,
     "has no effect: a port that cannot be opened at start ends the server"},
    {"fastleader.minNotificationInterval", nullptr, "has no effect: it is 200 ms"},
    {"fastleader.maxNotificationInterval", nullptr, "has no effect: it is 2 s"},
    {"observerMasterPort", nullptr, "has no effect: observers are not offered yet"},
    {"observer.*", nullptr, "has no effect: observers are not offered yet"},
    {"multiAddress.*", nullptr, "has no effect: a server has one address"},
    {"portUnification", nullptr, kNoTls, kProtects},
    {"client.portUnification", nullptr, kNoTls, kProtects},

    // Security of clients.
    {"secureClientPort", nullptr, kNoTls, kProtects},
    {"secureClientPortAddress", nullptr, kNoTls, kProtects},
    {"ssl.*", nullptr, kNoTls, kProtects},
    {"sslQuorumReloadCertFiles", nullptr, kNoTls, kProtects},
    {"authProvider.*", nullptr, kNoAuthentication, kProtects},
    {"DigestAuthenticationProvider.*", nullptr, kNoAuthentication, kProtects},
    {"X509AuthenticationProvider.*", nullptr, kNoAuthentication, kProtects},
    {"enforce.auth.schemes", nullptr, kNoAuthentication, kProtects},
    {"kerberos.*", nullptr, kNoAuthentication, kProtects},
    {"jaasLoginRenew", nullptr, kNoAuthentication, kProtects},
    {"quorum.auth.*", nullptr, kNoAuthentication, kProtects},
    {"quorum.cnxn.threads.size", nullptr, kOneProcess},
    {"audit.*", nullptr, "has no effect: there is no audit log yet"},

    // The disk.
    {"autopurge.*", nullptr,
     "has no effect: snapshots and journal segments that are no longer needed are always removed"},
    {"preAllocSize", nullptr, "has no effect: a journal segment of 64 MiB is allocated at once"},
    {"txnLogSizeLimitInKb", nullptr, "has no effect: a journal segment has 64 MiB"},
    {"commitLogCount", nullptr, "has no effect: 64 MiB of transactions are kept for followers"},
    {"snapSizeLimitInKb", nullptr, "has no effect: snapCount says when followers need a snapshot"},
    {"snapshot.*", nullptr, "has no effect: snapshots are exact, checked and not compressed"},
    {"fsync.warningthresholdms", nullptr, "has no effect: mntr reports the time of syncs"},
    {"datadir.autocreate", nullptr, "has no effect: a missing dataDir is created"},
    {"db.autocreate", nullptr, "has no effect: an empty dataDir is a new server"},
    {"digest.enabled", nullptr, "has no effect: a digest of the state is always kept"},

    // Limits and threads.
    {"globalOutstandingLimit", nullptr, kNoLimit},
    {"jute.maxbuffer.extrasize", nullptr, kNoLimit},
    {"largeRequestMaxBytes", nullptr, kNoLimit},
    {"largeRequestThreshold", nullptr, kNoLimit},
    {"requestThrottle*", nullptr, kNoLimit},
    {"request_throttler.*", nullptr, kNoLimit},
    {"requestStale*", nullptr, kNoLimit},
    {"throttledOpWaitTime", nullptr, kNoLimit},
    {"outstandingHandshake.limit", nullptr, kNoLimit},
    {"maxConcurrentSnapSyncs", nullptr, kNoLimit},
    {"maxConcurrentDiffSyncs", nullptr, kNoLimit},
    {"connection*", nullptr,
     "has no effect: connections are limited by maxClientCnxns and maxCnxns"},
    {"maxResponseCacheSize", nullptr, kNoJava},
    {"maxGetChildrenResponseCacheSize", nullptr, kNoJava},
    {"watchManagerName", nullptr, kNoJava},
    {"watcherClean*", nullptr, kNoJava},
    {"maxInProcessingDeadWatchers", nullptr, kNoJava},
    {"bitHashCacheSize", nullptr, kNoJava},
    {"nio*", nullptr, kOneProcess},
    {"netty.*", nullptr, kNoJava},
    {"serverCnxnFactory", nullptr, kNoJava},
    {"commitProcessor.*", nullptr, kOneProcess},
    {"learner.*", nullptr, kOneProcess},
    {"leader.*", nullptr, kOneProcess},
    {"follower.nodelay", nullptr, "has no effect: TCP_NODELAY is always set"},
    {"leader.nodelay", nullptr, "has no effect: TCP_NODELAY is always set"},
    {"tcpKeepAlive", nullptr, "has no effect: keep-alive is always on"},
    {"clientTcpKeepAlive", nullptr, "has no effect: keep-alive is always on"},
    {"messageTracker.*", nullptr, "has no effect: lockstepd logs what peers do at level debug"},

    // Kinds of nodes.
    {"extendedTypesEnabled", nullptr, "has no effect: TTL nodes are not offered yet"},
    {"emulate353TTLNodes", nullptr, "has no effect: TTL nodes are not offered yet"},
    {"znode.container.*", nullptr, "has no effect: container nodes are not offered yet"},
    {"container.*", nullptr, "has no effect: container nodes are not offered yet"},

    // Operating it.
    {"admin.*", nullptr, "has no effect: there is no admin server yet, use four-letter words"},
    {"metricsProvider.*", nullptr, "has no effect: there is no metrics port yet, use mntr"},
};

// The key itself, or the closest family of keys that it belongs to.
const Key* FindKey(std::string_view name) {
  const Key* family = nullptr;
  for (std::span<const Key> table : {std::span<const Key>(kKeys), BrokerKeys()}) {
    for (const Key& key : table) {
      if (key.name == name) return &key;
      if (!key.name.ends_with('*')) continue;
      std::string_view prefix = key.name.substr(0, key.name.size() - 1);
      if (name.size() <= prefix.size() || !name.starts_with(prefix)) continue;
      if (family == nullptr || family->name.size() < key.name.size()) family = &key;
    }
  }
  return family;
}

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Levenshtein's distance, blind to case.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (Lower(a[i - 1]) == Lower(b[j - 1]) ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

// The key that was probably meant, or an empty string.
std::string NearestKey(std::string_view name) {
  // In Java these keys are system properties too, and are documented under that name.
  constexpr std::string_view kJavaPrefix = "zookeeper.";
  if (name.starts_with(kJavaPrefix) && FindKey(name.substr(kJavaPrefix.size())) != nullptr) {
    return std::string(name.substr(kJavaPrefix.size()));
  }
  std::string_view nearest;
  size_t best = std::max<size_t>(2, name.size() / 4) + 1;
  for (std::span<const Key> table : {std::span<const Key>(kKeys), BrokerKeys()}) {
    for (const Key& key : table) {
      if (key.name.ends_with('*')) continue;
      const size_t distance = Distance(name, key.name);
      if (distance >= best) continue;
      best = distance;
      nearest = key.name;
    }
  }
  return std::string(nearest);
}

}  // namespace

void Parser::Take(const Property& property) {
  auto [seen, first] = seen_.emplace(property.key, property.line);
  if (!first) {
    Notice(property, property.key + " was set on line " + std::to_string(seen->second) +
                         " too: this line counts");
    seen->second = property.line;
  }
  const Key* key = FindKey(property.key);
  if (key == nullptr) {
    const std::string nearest = NearestKey(property.key);
    return Error(property, "unknown key " + property.key +
                               (nearest.empty() ? "" : ": did you mean " + nearest + "?"));
  }
  if (key->take == nullptr) {
    const std::string says = property.key + " " + std::string(key->says);
    return key->protects ? Warn(property, says) : Notice(property, says);
  }
  key->take(*this, property);
}

void Parser::Member(const Property& property) {
  absl::StatusOr<shell::Member> member = ParseMemberLine(property.key, property.value);
  if (!member.ok()) return Error(property, std::string(member.status().message()));
  std::vector<shell::Member>& members = config().members;
  auto at = std::lower_bound(
      members.begin(), members.end(), member->server,
      [](const shell::Member& other, ServerId server) { return other.server < server; });
  member_lines_[member->server] = property.line;
  if (at != members.end() && at->server == member->server) {
    *at = *std::move(member);  // a repeated line: the last one counts, as Take has said
  } else {
    members.insert(at, *std::move(member));
  }
}

void Parser::FourLetterWords(const Property& property) {
  std::vector<std::string> words;
  size_t begin = 0;
  const std::string& list = property.value;
  while (begin <= list.size()) {
    size_t end = std::min(list.find(',', begin), list.size());
    std::string word = list.substr(begin, end - begin);
    word.erase(std::remove(word.begin(), word.end(), ' '), word.end());
    begin = end + 1;
    if (word.empty()) continue;
    const bool letters =
        std::all_of(word.begin(), word.end(), [](char c) { return c >= 'a' && c <= 'z'; });
    if (word != "*" && (word.size() != 4 || !letters)) {
      Error(property,
            "4lw.commands.whitelist: `" + word + "` is neither a word of four letters " + "nor *");
      return;
    }
    words.push_back(std::move(word));
  }
  config().four_letter_words = std::move(words);
}

void Parser::CheckMembers() {
  std::map<std::string, ServerId> owners;
  for (const shell::Member& member : config().members) {
    for (const Endpoint& endpoint : {member.learner, member.election}) {
      auto [owner, first] = owners.emplace(endpoint.ToString(), member.server);
      if (first) continue;
      loaded_.errors.push_back({loaded_.config.file, member_lines_[member.server],
                                "server." + member.server.ToString() + ": " + endpoint.ToString() +
                                    " is taken by server." + owner->second.ToString()});
    }
  }
  const size_t voters = config().members.size();
  if (voters > 0 && voters % 2 == 0) {
    loaded_.notices.push_back({loaded_.config.file, 0,
                               std::to_string(voters) + " servers survive no more failures than " +
                                   std::to_string(voters - 1) + ": use an odd number"});
  }
}

void Parser::CheckSessionTimeouts() {
  const int64_t tick_ms = config().tick.Milliseconds();
  if (config().session_timeout_ms_min == 0) {
    config().session_timeout_ms_min = static_cast<int32_t>(2 * tick_ms);
  }
  if (config().session_timeout_ms_max == 0) {
    config().session_timeout_ms_max = static_cast<int32_t>(20 * tick_ms);
  }
  if (config().session_timeout_ms_min > config().session_timeout_ms_max) {
    auto line = seen_.find("minSessionTimeout");
    loaded_.errors.push_back({loaded_.config.file, line == seen_.end() ? 0 : line->second,
                              "minSessionTimeout (" +
                                  std::to_string(config().session_timeout_ms_min) +
                                  " ms) is above maxSessionTimeout (" +
                                  std::to_string(config().session_timeout_ms_max) + " ms)"});
  }
}

LoadedConfig Parser::Finish() {
  if (!seen_.contains("dataDir")) {
    loaded_.errors.push_back(
        {loaded_.config.file, 0,
         seen_.contains("log.dirs") || seen_.contains("log.dir")
             ? "dataDir is not set: where the journal is kept, which makes appends durable before "
               "they are in log.dirs; for example dataDir=/var/lib/lockstep"
             : "dataDir is not set: where the data is kept"});
  }
  if (config().log_dir.empty()) config().log_dir = config().data_dir;
  if (config().partitions_dir.empty()) config().partitions_dir = config().data_dir + "/partitions";
  for (const auto& [key, line] : seen_) config().broker.front_end.configured.insert(key);
  // A server.properties of Kafka need not say where a broker listens.
  constexpr uint16_t kKafkaPort = 9092;
  const bool broker_alone = seen_.contains("zookeeper.connect") || seen_.contains("broker.id");
  if (broker_alone && !seen_.contains("listeners")) {
    config().broker_listener = Endpoint{.host = "", .port = kKafkaPort};
  }
  CheckMembers();
  CheckSessionTimeouts();
  return std::move(loaded_);
}

LoadedConfig ParseConfig(std::string_view text, const std::string& file) {
  Parser parser(file);
  for (const Property& property : ReadProperties(text)) parser.Take(property);
  return parser.Finish();
}

}  // namespace lockstep::shell
