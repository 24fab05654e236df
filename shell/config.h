// The configuration of lockstepd: a zoo.cfg of ZooKeeper, as it is, and the `myid` file of dataDir;
// in the same file, for the broker role, keys of Kafka's server.properties.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/server/server.h"

namespace lockstep::shell {

// Where to listen, or whom to dial. An empty host means all interfaces (to listen only).
struct Endpoint {
  std::string host;  // a name or an address; IPv6 without brackets
  uint16_t port = 0;

  bool operator==(const Endpoint&) const = default;
  std::string ToString() const;  // host:port, with brackets around IPv6, `*` for all interfaces
};

// A line `server.N=host:learnerPort:electionPort[;[clientHost:]clientPort]`.
struct Member {
  ServerId server;
  Endpoint learner;   // where followers reach it while it leads
  Endpoint election;  // where votes are sent
  std::optional<Endpoint> client;
};

struct Config {
  std::string file;  // as it was named
  ServerId server;   // `myid`
  std::string data_dir;
  std::string log_dir;  // dataLogDir, or data_dir

  Endpoint client;              // of clients; port 0 before it is set
  std::vector<Member> members;  // ascending; empty or one: this server alone is the ensemble
  bool peers_on_all_interfaces = false;

  Duration tick = Seconds(3);          // ZooKeeper's default
  uint32_t init_limit = 10;            // ticks
  uint32_t sync_limit = 5;             // ticks
  int32_t session_timeout_ms_min = 0;  // 0 until filled in: 2 ticks
  int32_t session_timeout_ms_max = 0;  // 0 until filled in: 20 ticks
  uint32_t snap_count = 100'000;
  uint32_t connections_per_address_max = 60;  // maxClientCnxns; 0 = no limit
  uint32_t connections_max = 0;               // maxCnxns; 0 = no limit
  uint32_t client_frame_bytes_max = 0xfffff;  // jute.maxbuffer
  uint32_t client_listen_backlog = 0;         // 0 = the system's greatest
  Duration connect_timeout = Seconds(5);      // cnxTimeout
  std::vector<std::string> four_letter_words = {"srvr"};

  // The coordinator role: there is a port for its clients.
  bool coordinator() const { return client.port != 0; }
  // The broker role, if `listeners` was set. `broker` is complete then.
  std::optional<Endpoint> broker_listener;
  server::BrokerRoleOptions broker;
  std::string partitions_dir;  // log.dirs, or data_dir/partitions

  // Null for a server that is an ensemble of its own and has no line `server.N`.
  const Member* member(ServerId server) const;
  // The voters' ids, ascending; at least this server's. None without the coordinator role.
  std::vector<ServerId> voters() const;
  // The answer to the four-letter word `conf`, in ZooKeeper's format.
  std::string Describe() const;
  // One line for people: its roles, where each listens, where its data is.
  std::string Summary() const;
  // The addresses of the coordination service that the broker uses, with commas between them.
  std::string Coordination() const;
};

// Something to say about a line. `line` is 0 when it is about the file as a whole.
struct Remark {
  std::string file;
  int line = 0;
  std::string text;
  bool warning = false;  // of a notice: somebody relies on what is not there

  std::string ToString() const;  // file:line: text
};

struct LoadedConfig {
  Config config;  // valid if there is no error
  std::vector<Remark> errors;
  std::vector<Remark> notices;  // keys that ZooKeeper knows and that do something else here
};

// Reads the text of a zoo.cfg: all errors are collected, in order of lines. Reads no file; leaves
// `server` unset. `file` is for the remarks.
LoadedConfig ParseConfig(std::string_view text, const std::string& file);

// Decides which server this is. `myid` is the content of dataDir/myid, or nothing if there is no
// such file. Adds an error if it is not a line `server.N`, or is needed and missing.
void ChooseServer(std::optional<std::string_view> myid, LoadedConfig* loaded);

// The file, its myid, and all of the above. Changes nothing on disk.
LoadedConfig LoadConfig(const std::string& path);

// What the server machine is told of it.
server::Options ServerOptions(const Config& config);

}  // namespace lockstep::shell
