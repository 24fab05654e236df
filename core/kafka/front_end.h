// What clients of Kafka's protocol talk to: connections, requests, and the answers to them, on top
// of this server's broker. Knows what records mean (producers, groups) and no znode and no file.
//
// A machine is a value: it reads no clock, no socket, no disk, no random device and no global. Its
// calls may change the broker, too, which then appends to its own output.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/event.h"
#include "core/base/ids.h"
#include "core/base/random.h"
#include "core/base/time.h"
#include "core/kafka/groups.h"
#include "core/replication/broker.h"
#include "core/storage/partition_log.h"

namespace lockstep::kafka {

// Names as in Kafka's server.properties where there is one.
struct FrontEndOptions {
  bool auto_create_topics = true;          // auto.create.topics.enable
  uint32_t request_bytes_max = 100 << 20;  // socket.request.max.bytes
  uint32_t message_bytes_max = 1'048'588;  // message.max.bytes, of one batch
  uint32_t fetch_bytes_max = 55 << 20;     // fetch.max.bytes
  uint32_t connections_max = 10'000;       // of all clients; more are closed at once
  // Of one connection: requests taken and not answered. Reading is paused at the bound.
  uint32_t requests_max = 100;
  // Of one connection, of what was sent and has not left the host: reading is paused above it.
  uint64_t unsent_bytes_max = 16 << 20;
  // Of all connections: what has been received and not worked off, what is kept for requests that
  // wait, and answers that have not left the host. Above it the connections that hold more than
  // their share of it are paused; docs/kafka.md, "Bounds".
  uint64_t held_bytes_max = uint64_t{512} << 20;
  Duration connections_max_idle = Seconds(600);       // connections.max.idle.ms
  int64_t timestamp_before_max_ms = INT64_MAX;        // message.timestamp.before.max.ms
  int64_t timestamp_after_max_ms = 3'600'000;         // message.timestamp.after.max.ms
  Duration producer_id_expiration = Seconds(86'400);  // producer.id.expiration.ms
  GroupsOptions groups;
  // The keys of the configuration file: clients that ask for a value are told where it is from.
  std::set<std::string> configured;
  std::string log_dir = "log.dirs";  // the directory of the logs, as clients are told its name
};

struct FrontEndOutput {
  struct Send {
    ConnectionId connection;
    Bytes data;
  };
  std::vector<Send> sends;
  std::vector<ConnectionId> closes;  // after the sends to them
  std::vector<ConnectionId> pauses;
  std::vector<ConnectionId> resumes;
  struct Read {
    storage::LogReadId id;
    storage::LogNumber log;
    int64_t offset = 0;
    uint32_t max_bytes = 0;
  };
  std::vector<Read> reads;  // answered by OnLogRead
  struct Search {
    storage::LogReadId id;
    storage::LogNumber log;
    int64_t timestamp_ms = 0;
  };
  std::vector<Search> searches;  // answered by OnLogSearch
  struct LogSizes {
    uint64_t id = 0;
    std::vector<storage::LogNumber> logs;
  };
  std::vector<LogSizes> log_sizes;  // answered by OnLogSizes
  struct ProducerSnapshot {
    storage::LogNumber log;
    int64_t offset = 0;  // of the log's end that it is of
    Bytes snapshot;
  };
  std::vector<ProducerSnapshot> producer_snapshots;
  std::vector<Event> events;
  bool Empty() const;
  void Clear();
};

class FrontEnd {
 public:
  // Front ends use read ids with this bit set, the broker those without.
  static constexpr uint64_t kReadIds = uint64_t{1} << 63;

  // `broker` outlives the front end.
  FrontEnd(const FrontEndOptions& options, replication::Broker* broker, RandomStream random);
  ~FrontEnd();

  // Milliseconds since the Unix epoch at `now`.
  void SetWallClock(Instant now, int64_t unix_ms);

  void OnAccepted(Instant now, ConnectionId connection, const std::string& address, uint16_t port,
                  FrontEndOutput* output);
  void OnBytes(Instant now, ConnectionId connection, Bytes bytes, FrontEndOutput* output,
               replication::BrokerOutput* broker_output);
  void OnClosed(Instant now, ConnectionId connection, FrontEndOutput* output,
                replication::BrokerOutput* broker_output);
  // Whether the connection was accepted, and neither side has closed it.
  bool Has(ConnectionId connection) const;
  // `bytes` more of what was sent have left the host.
  void OnWritten(Instant now, ConnectionId connection, uint64_t bytes, FrontEndOutput* output,
                 replication::BrokerOutput* broker_output);

  // What a step of the broker brought about: log events, ends of produces and admin requests,
  // high watermarks, metadata. Everything else in it is the server's.
  void OnBroker(Instant now, const replication::BrokerOutput& what, FrontEndOutput* output,
                replication::BrokerOutput* broker_output);
  void OnLogRead(Instant now, const storage::LogReadDone& done, FrontEndOutput* output,
                 replication::BrokerOutput* broker_output);
  void OnLogSearch(Instant now, const storage::LogSearchDone& done, FrontEndOutput* output,
                   replication::BrokerOutput* broker_output);
  // The bytes of each log that was asked for, in that order.
  void OnLogSizes(Instant now, uint64_t id, const std::vector<uint64_t>& bytes,
                  FrontEndOutput* output, replication::BrokerOutput* broker_output);
  // The log's active segment rolled: a producer snapshot is wanted.
  void OnLogRolled(Instant now, storage::LogNumber log, FrontEndOutput* output);
  // Producer snapshots of all logs, for a clean stop.
  void SnapshotProducers(Instant now, FrontEndOutput* output);

  void OnWake(Instant now, FrontEndOutput* output, replication::BrokerOutput* broker_output);
  Instant next_deadline() const;

  // For operators. Requests and bytes are since the start, and of all kinds of requests.
  struct Figures {
    size_t connections = 0;
    size_t groups = 0;  // that this broker coordinates
    uint64_t requests = 0;
    uint64_t bytes_received = 0;
    uint64_t bytes_sent = 0;
  };
  Figures figures() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::kafka
