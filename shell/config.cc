#include "shell/config.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>

#include "core/base/check.h"
#include "shell/config_parser.h"

namespace lockstep::shell {
namespace {

// Nothing, with errno set, if the file cannot be read.
std::optional<std::string> ReadWholeFile(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  std::ostringstream text;
  text << in.rdbuf();
  if (in.bad() || (text.fail() && errno != 0)) return std::nullopt;
  return text.str();
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// 0 if `text` is not the number of a server.
uint32_t ServerNumber(std::string_view text) {
  text = Trimmed(text);
  uint32_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number > kServerIdMax) return 0;
  return number;
}

}  // namespace

std::string Endpoint::ToString() const {
  std::string name = host.empty() ? "*" : host;
  if (name.find(':') != std::string::npos) name = "[" + name + "]";
  return name + ":" + std::to_string(port);
}

std::string Remark::ToString() const {
  return file + (line > 0 ? ":" + std::to_string(line) : "") + ": " + text;
}

const Member* Config::member(ServerId id) const {
  for (const Member& member : members) {
    if (member.server == id) return &member;
  }
  return nullptr;
}

std::vector<ServerId> Config::voters() const {
  std::vector<ServerId> ids;
  if (!coordinator()) return ids;
  for (const Member& member : members) ids.push_back(member.server);
  if (ids.empty()) ids.push_back(server);
  return ids;
}

std::string Config::Describe() const {
  std::ostringstream out;
  out << "clientPort=" << client.port << "\n"
      << "clientPortAddress=" << (client.host.empty() ? "0.0.0.0" : client.host) << "\n"
      << "secureClientPort=-1\n"
      << "dataDir=" << data_dir << "\n"
      << "dataLogDir=" << log_dir << "\n"
      << "tickTime=" << tick.Milliseconds() << "\n"
      << "maxClientCnxns=" << connections_per_address_max << "\n"
      << "minSessionTimeout=" << session_timeout_ms_min << "\n"
      << "maxSessionTimeout=" << session_timeout_ms_max << "\n"
      << "clientPortListenBacklog="
      << (client_listen_backlog == 0 ? "-1" : std::to_string(client_listen_backlog)) << "\n"
      << "serverId=" << server.value << "\n";
  if (members.empty()) return out.str();
  const Member* self = member(server);
  LS_CHECK(self != nullptr);
  out << "initLimit=" << init_limit << "\n"
      << "syncLimit=" << sync_limit << "\n"
      << "electionAlg=3\n"
      << "electionPort=" << self->election.port << "\n"
      << "quorumPort=" << self->learner.port << "\n"
      << "peerType=0\n"
      << "membership:\n";
  for (const Member& member : members) {
    out << "server." << member.server.value << "=" << member.learner.ToString() << ":"
        << member.election.port << ":participant";
    if (member.client) out << ";" << member.client->ToString();
    out << "\n";
  }
  return out.str();
}

std::string Config::Summary() const {
  std::string text;
  auto add = [&text](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (coordinator()) {
    add("server " + server.ToString() + " of " + std::to_string(voters().size()) +
        " with ZooKeeper's clients on " + client.ToString());
  }
  if (broker_listener) {
    add("broker " + broker.broker.broker.ToString() + " with Kafka's clients on " +
        broker_listener->ToString() + " (told " +
        Endpoint{broker.broker.advertised.host, broker.broker.advertised.port}.ToString() + ")");
    if (!coordinator()) add("coordination at " + Coordination());
  }
  add("data in " + data_dir);
  if (log_dir != data_dir) add("journal in " + log_dir);
  if (broker_listener) add("partitions in " + partitions_dir);
  return text;
}

std::string Config::Coordination() const {
  std::string text;
  for (const replication::Endpoint& one : broker.coordination) {
    text += (text.empty() ? "" : ",") + Endpoint{one.host, one.port}.ToString();
  }
  return text;
}

namespace {

// A port can be listened on for one purpose. The system would refuse the second one, in words that
// name neither. `self`: the own line server.N, or null.
void CheckOwnPorts(const Member* self, LoadedConfig* loaded) {
  const Config& config = loaded->config;
  struct Purpose {
    std::string name;
    Endpoint at;
  };
  std::vector<Purpose> purposes;
  if (config.coordinator()) purposes.push_back({"clientPort", config.client});
  if (config.broker_listener) purposes.push_back({"listeners", *config.broker_listener});
  if (self != nullptr) {
    for (const Endpoint& endpoint : {self->learner, self->election}) {
      purposes.push_back({"the line server." + self->server.ToString(), endpoint});
      if (config.peers_on_all_interfaces) purposes.back().at.host.clear();
    }
  }
  for (size_t i = 0; i < purposes.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const Endpoint& one = purposes[i].at;
      const Endpoint& other = purposes[j].at;
      if (one.port != other.port) continue;
      if (!one.host.empty() && !other.host.empty() && one.host != other.host) continue;
      loaded->errors.push_back({config.file, 0,
                                purposes[j].name + " and " + purposes[i].name + " both say port " +
                                    std::to_string(one.port) + ": each needs one of its own"});
      return;
    }
  }
}

}  // namespace

void ChooseServer(std::optional<std::string_view> myid, LoadedConfig* loaded) {
  Config& config = loaded->config;
  const std::string myid_file = config.data_dir + "/myid";
  if (myid) {
    const uint32_t number = ServerNumber(*myid);
    if (number == 0) {
      loaded->errors.push_back({myid_file, 1,
                                "is not the number of a server, 1 to 255: write the N of this "
                                "server's line server.N into it"});
      return;
    }
    config.server = {number};
  } else if (config.members.size() > 1) {
    loaded->errors.push_back({config.file, 0,
                              "there is no file " + myid_file +
                                  ", which says which of the server.N lines is this server: "
                                  "create it, with the N in it"});
    return;
  } else {
    config.server = config.members.empty() ? ServerId{1} : config.members[0].server;
  }

  const Member* self = config.member(config.server);
  if (!config.members.empty() && self == nullptr) {
    loaded->errors.push_back({config.file, 0,
                              "there is no line server." + config.server.ToString() + ", but " +
                                  myid_file + " says that this is server " +
                                  config.server.ToString()});
    return;
  }
  if (self != nullptr && self->client) {
    if (config.client.port != 0 && config.client.port != self->client->port) {
      loaded->errors.push_back({config.file, 0,
                                "clientPort is " + std::to_string(config.client.port) +
                                    ", but the line server." + config.server.ToString() + " says " +
                                    std::to_string(self->client->port)});
      return;
    }
    config.client.port = self->client->port;
    if (config.client.host.empty()) config.client.host = self->client->host;
  }
  // Of a listener or a port that is none it has been said already.
  const auto set = [&config](const char* key) {
    return config.broker.front_end.configured.contains(key);
  };
  if (config.client.port == 0 && set("clientPort")) return;
  const bool listens = config.broker_listener || set("listeners");
  if (config.client.port == 0 && (!listens || config.members.size() > 1)) {
    loaded->errors.push_back(
        {config.file, 0, "clientPort is not set: where clients connect, usually clientPort=2181"});
  }
  CheckOwnPorts(self, loaded);
  if (config.broker_listener) FinishBroker(loaded);
}

LoadedConfig LoadConfig(const std::string& path) {
  std::optional<std::string> text = ReadWholeFile(path);
  if (!text) {
    LoadedConfig failed;
    failed.errors.push_back(
        {path, 0, std::string("cannot be read: ") + std::strerror(errno == 0 ? EIO : errno)});
    return failed;
  }
  LoadedConfig loaded = ParseConfig(*text, path);
  if (loaded.config.data_dir.empty()) return loaded;
  const std::string myid_file = loaded.config.data_dir + "/myid";
  std::optional<std::string> myid = ReadWholeFile(myid_file);
  if (!myid && errno != ENOENT) {
    loaded.errors.push_back({myid_file, 0, std::string("cannot be read: ") + std::strerror(errno)});
    return loaded;
  }
  ChooseServer(myid ? std::optional<std::string_view>(*myid) : std::nullopt, &loaded);
  return loaded;
}

server::Options ServerOptions(const Config& config) {
  server::Options options;
  options.server = config.server;
  options.voters = config.voters();
  options.tick = config.tick;
  options.init_limit = config.init_limit;
  options.sync_limit = config.sync_limit;
  options.snap_count = config.snap_count;
  options.coordination.session_timeout_ms_min = config.session_timeout_ms_min;
  options.coordination.session_timeout_ms_max = config.session_timeout_ms_max;
  options.coordination.frame_bytes_max = config.client_frame_bytes_max;
  options.coordination.connections_per_address_max = config.connections_per_address_max;
  if (config.connections_max != 0) options.coordination.connections_max = config.connections_max;
  options.conf = config.Describe();
  options.four_letter_words = config.four_letter_words;
  if (config.broker_listener) {
    options.broker = config.broker;
    options.broker->front_end.log_dir = config.partitions_dir;
  }
  return options;
}

}  // namespace lockstep::shell
