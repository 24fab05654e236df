// ZooKeeper's service on one server: client connections, sessions, watches, reads, and the pipeline
// of writes. Knows nothing of Zab's messages: it proposes bodies on the leader, forwards requests
// elsewhere, and is told what was delivered.
//
// A machine is a value: it reads no clock, no socket, no disk, no random device and no global.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/event.h"
#include "core/base/ids.h"
#include "core/base/random.h"
#include "core/base/time.h"
#include "core/base/zxid.h"
#include "core/coordination/rules.h"
#include "core/coordination/tree.h"

namespace lockstep::coordination {

struct ServiceOptions {
  ServerId server;
  Duration tick = Seconds(2);
  int32_t session_timeout_ms_min = 4'000;
  int32_t session_timeout_ms_max = 40'000;
  uint32_t frame_bytes_max = 0xfffff;          // ZooKeeper's jute.maxbuffer
  uint32_t outstanding_requests_max = 1'000;   // per connection; more pauses reading from it
  uint64_t outstanding_bytes_max = 4 << 20;    // of those requests; likewise
  uint64_t pending_reply_bytes_max = 4 << 20;  // per connection; see OnClientWritten
  uint32_t connections_max = 10'000;
  uint32_t connections_per_address_max = 60;  // maxClientCnxns; 0 = no limit
  uint32_t watches_max = 1'000'000;           // per connection; one that wants more is closed
  uint32_t sessions_max = 1'000'000;          // of the ensemble; the leader refuses new ones
  Rules rules;
};

enum class Role : uint8_t { kStopped, kFollowing, kLeading };

struct ServiceOutput {
  struct ClientSend {
    ConnectionId connection;
    Bytes data;
  };
  struct ReplyTo {
    ServerId to;
    Bytes payload;
  };
  std::vector<ClientSend> client_sends;
  std::vector<ConnectionId> client_closes;  // after the sends to them
  std::vector<ConnectionId> pauses;         // stop reading from the connection (backpressure)
  std::vector<ConnectionId> resumes;
  std::vector<Bytes> proposals;  // leader: bodies to broadcast, in order
  std::vector<Bytes> requests;   // follower: to the leader, in order
  std::vector<ReplyTo> replies;  // leader: to followers, in order with proposals and commits
  std::vector<Event> events;
  bool Empty() const;
  void Clear();
};

// Counters for four-letter words and metrics.
struct ServiceStats {
  uint64_t packets_received = 0;
  uint64_t packets_sent = 0;
  uint64_t requests = 0;  // with a measured latency
  Duration latency_total;
  Duration latency_min;  // of all requests since start; 0 before the first
  Duration latency_max;
  uint64_t outstanding_requests = 0;
  uint64_t connections = 0;
  uint64_t watches = 0;
};

class Service {
 public:
  Service(const ServiceOptions& options, RandomStream random);
  ~Service();

  // Milliseconds since the Unix epoch at `now`. Given at start and whenever the host's clock was
  // set; needed before the first transaction.
  void SetWallClock(Instant now, int64_t unix_ms);

  // Replaces the state: after recovery, and when a snapshot from the leader was installed.
  // Requires: role() == kStopped.
  void Restore(Tree tree);
  const Tree& tree() const;
  std::unique_ptr<TreeSnapshot> Snapshot();

  Role role() const;
  // kStopped closes all client connections (clients reconnect elsewhere with their sessions), and
  // drops all that is volatile. kLeading gives every session its full timeout anew.
  void SetRole(Instant now, Role role, ServerId leader, Epoch epoch, ServiceOutput* output);

  // ---- Clients. The first bytes of a connection are a ConnectRequest; four-letter words are seen
  // ---- and answered before (server/four_letter.h).
  // `address` counts for connections_per_address_max; `port` is only shown.
  void OnClientAccepted(Instant now, ConnectionId connection, const std::string& address,
                        uint16_t port, ServiceOutput* output);
  void OnClientBytes(Instant now, ConnectionId connection, Bytes bytes, ServiceOutput* output);
  void OnClientClosed(Instant now, ConnectionId connection, ServiceOutput* output);
  // The host has passed on `bytes` more of what was sent on `connection` to the network. Reading is
  // paused while more than pending_reply_bytes_max wait.
  void OnClientWritten(Instant now, ConnectionId connection, uint64_t bytes, ServiceOutput* output);

  // ---- From Zab.
  void OnDelivered(Instant now, Zxid zxid, const Bytes& body, ServiceOutput* output);
  // Leader: an element of ServiceOutput::requests of the follower `from`.
  void OnRequest(Instant now, ServerId from, const Bytes& payload, ServiceOutput* output);
  // Follower: an element of ServiceOutput::replies of the leader.
  void OnReply(Instant now, const Bytes& payload, ServiceOutput* output);
  // Follower: the sessions heard from since the last call, for the next ping; empty if none.
  Bytes TakeTouchedSessions();
  void OnTouchedSessions(Instant now, ServerId from, const Bytes& payload);  // leader
  // Leader: the zxid of the newest proposal, for `sync`. Proposals that Zab has no room for yet
  // wait in the host, in order.
  void OnProposed(Zxid last_proposed);

  // Leader: expires what is due. All: closes connections that never sent their ConnectRequest.
  void OnWake(Instant now, ServiceOutput* output);
  Instant next_deadline() const;

  const ServiceStats& stats() const;
  void ResetStats();
  // For `cons`, `dump`, `stat`: one line per connection, ordered by id.
  std::vector<std::string> DescribeConnections(Instant now) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::coordination
