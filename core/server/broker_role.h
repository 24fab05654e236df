// The broker role of a server: carries what the broker and the front end for Kafka's clients ask
// for to the store, to the network and to each other.
//
// The broker meets the coordination service as any client does, over a connection that the host
// dials, also when it is this very process that serves it: so the bytes, and the moments at which
// either side can be lost, are the same everywhere.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/random.h"
#include "core/base/time.h"
#include "core/kafka/front_end.h"
#include "core/replication/broker.h"
#include "core/server/io.h"
#include "core/server/log_observation.h"
#include "core/storage/store.h"
#include "core/wire/frame.h"

namespace lockstep::server {

struct BrokerRoleOptions {
  replication::BrokerOptions broker;
  kafka::FrontEndOptions front_end;
  // The servers of the coordination service, tried as coordination::Client says.
  std::vector<replication::Endpoint> coordination;
  uint32_t frame_bytes_max = 64 << 20;  // of a frame between brokers
  // Accepted connections that have not yet said anything: how many, and for how long.
  size_t undecided_max = 1'000;
  Duration undecided_timeout = Seconds(30);
  // Output::logs_seen is filled.
  bool observe_logs = false;
};

// For operators, as `mntr` shows it.
struct BrokerStatus {
  replication::BrokerId broker;
  replication::BrokerFigures figures;
  kafka::FrontEnd::Figures clients;
  uint64_t log_bytes = 0;  // of all partitions hosted here
};

class BrokerRole {
 public:
  // `store` outlives the role.
  BrokerRole(const BrokerRoleOptions& options, storage::Store* store, RandomStream broker_random,
             RandomStream front_end_random);

  // Recovery has ended; the wall clock at `now` in milliseconds since the Unix epoch.
  void Start(Instant now, int64_t unix_ms, std::vector<storage::RecoveredLog> logs,
             int64_t retained_epoch);
  bool started() const { return started_; }
  void SetWallClock(Instant now, int64_t unix_ms);
  // A clean stop: leaderships are handed over, the session ends, then the store is marked clean.
  void Stop(Instant now);
  bool stopped() const { return stopped_; }

  // Whether the connection is of this role.
  bool Has(ConnectionId connection) const;
  void OnAccepted(Instant now, const Accepted& accepted, Output* output);
  void OnConnected(Instant now, ConnectionId connection);
  void OnBytes(Instant now, ConnectionId connection, Bytes bytes, Output* output);
  void OnClosed(Instant now, ConnectionId connection);
  void OnWritten(Instant now, ConnectionId connection, uint64_t bytes);

  // What the store has to say about logs.
  void OnStore(Instant now, const storage::StoreOutput& from);
  // Carries what has been asked for. True if there was any, and so there may be more.
  bool Route(Instant now, Output* output, storage::StoreOutput* store_output);

  void OnWake(Instant now, Output* output);
  Instant next_deadline() const;

  BrokerStatus Status(Instant now) const;

  const replication::Broker& broker() const { return broker_; }
  const kafka::FrontEnd& front_end() const { return front_end_; }

 private:
  // Another broker, on a connection that one of us dialed. (Clients are the front end's to keep.)
  struct Link {
    explicit Link(uint32_t frame_bytes_max)
        : reader(frame_bytes_max, wire::kBrokerHeaderBytesMax) {}
    wire::FrameReader reader;
  };
  // Accepted, and nothing said yet.
  struct Undecided {
    std::string address;
    uint16_t port = 0;
    Instant until;
  };

  void OnLinkBytes(Instant now, ConnectionId connection, Bytes bytes, Output* output);
  void CloseLink(Instant now, ConnectionId connection, const char* reason, Output* output);
  void RouteBroker(Instant now, replication::BrokerOutput& from, Output* output,
                   storage::StoreOutput* store_output);
  // False, and fatal, if the logs are another cluster's.
  bool JoinCluster(const std::string& id, Output* output, storage::StoreOutput* store_output);
  void RouteLogOps(Instant now, replication::BrokerOutput& from,
                   storage::StoreOutput* store_output);
  void RouteFrontEnd(Instant now, kafka::FrontEndOutput& from, Output* output,
                     storage::StoreOutput* store_output);
  void ObserveRecovered(const std::vector<storage::RecoveredLog>& logs);
  bool ContinueStop(Instant now, storage::StoreOutput* store_output);

  const BrokerRoleOptions options_;
  storage::Store* const store_;
  replication::Broker broker_;
  kafka::FrontEnd front_end_;

  bool started_ = false;
  enum class Stopping : uint8_t { kNo, kBroker, kStore };
  Stopping stopping_ = Stopping::kNo;
  bool stopped_ = false;

  std::map<ConnectionId, Link> links_;
  std::map<ConnectionId, Undecided> undecided_;
  replication::BrokerOutput broker_out_;
  kafka::FrontEndOutput front_end_out_;
  // What is being carried; kept for their memory.
  replication::BrokerOutput broker_routed_;
  kafka::FrontEndOutput front_end_routed_;
  std::vector<LogObservation> logs_seen_;  // on its way to Output
  std::vector<Bytes> slices_;              // scratch
};

}  // namespace lockstep::server
