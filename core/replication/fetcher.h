// The seed's follower loop for all partitions of a broker: one connection to each leader, and on
// it one request at a time for every partition that is followed there.
//
// The next request leaves when everything that the last response brought is durable: it is the
// acknowledgement of all of it, and one sync of the journal covered all of it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "core/base/time.h"
#include "core/replication/broker.h"
#include "core/replication/messages.h"

namespace lockstep::replication {

// What the fetcher asks of the broker about a partition that it follows.
struct FetchState {
  std::optional<ReplicaFetchRequest::Entry> entry;
  bool busy = false;       // changes are not durable yet: wait for it, it will have an entry soon
  bool throttled = false;  // counts against the reassignment throttle
};

struct FetcherOptions {
  BrokerId broker;
  Duration max_wait = Milliseconds(500);
  uint32_t max_bytes = 10 << 20;
  uint32_t entry_max_bytes = 1 << 20;
  uint64_t throttle = 0;               // bytes/s; 0: no limit
  Duration retry = Milliseconds(100);  // after a dial failed, or an error for one partition
  Duration retry_max = Seconds(2);
  Duration answer_timeout = Seconds(10);  // beyond max_wait: the connection is given up
};

class Fetcher {
 public:
  using StateOf = std::function<FetchState(const PartitionId&)>;
  Fetcher(const FetcherOptions& options, StateOf state_of);

  // Who leads the partition, among brokers that this one follows. Nothing: it is not followed.
  void Follow(const PartitionId& partition, std::optional<BrokerId> leader);
  // There is something new to say about it: it became durable, was cut, ...
  void Touch(const PartitionId& partition);
  // Where a broker is; nothing: it is not registered. Of another incarnation: dialed anew.
  void SetBroker(Instant now, const BrokerState& broker, BrokerOutput* output);
  void RemoveBroker(BrokerId broker, BrokerOutput* output);
  // Fetches name it. {0}: stop fetching.
  void SetIncarnation(BrokerEpoch incarnation);

  // Whether the connection is one that this fetcher dialed.
  bool owns(ConnectionId connection) const { return connections_.contains(connection); }
  void OnConnected(Instant now, ConnectionId connection);
  void OnClosed(Instant now, ConnectionId connection);
  // The leader that answered, if the response is one that was waited for.
  std::optional<BrokerId> OnResponse(Instant now, ConnectionId connection,
                                     const ReplicaFetchResponse& response, BrokerOutput* output);
  // Sends what can be sent. Called once after each input.
  void Flush(Instant now, BrokerOutput* output);
  Instant next_deadline() const;

 private:
  enum class Link : uint8_t { kNone, kDialing, kUp };
  struct Leader {
    std::optional<BrokerState> broker;
    Link link = Link::kNone;
    ConnectionId connection;
    Instant dial_at{0};
    Duration backoff;
    uint64_t sent = 0;  // sequences of this connection
    uint64_t answered = 0;
    Instant answer_by = Instant::Never();
    bool touched = false;  // something to look at
    bool news = false;     // ... that is worth a second request while the first one waits
    std::map<PartitionId, Instant> partitions;  // not asked for before this instant
    // Of which the leader may not know what it would be told now; all, if it is time for that.
    std::set<PartitionId> changed;
    Instant whole_at{0};
    Instant retry_at = Instant::Never();  // the earliest of those that are to come
    PartitionId cursor;                   // where the next request for all begins
  };
  void Disconnect(Instant now, Leader* leader, bool failed);
  bool Send(Instant now, Leader* leader, BrokerOutput* output);
  // False: changes of it are not durable yet, which the whole request waits for.
  bool List(Instant now, Leader* leader, const PartitionId& partition, Instant not_before,
            ReplicaFetchRequest* request);
  void Refill(Instant now);

  const FetcherOptions options_;
  const StateOf state_of_;
  BrokerEpoch incarnation_;
  std::map<BrokerId, Leader> leaders_;
  std::map<PartitionId, BrokerId> leader_of_;
  std::map<ConnectionId, BrokerId> connections_;
  uint64_t next_connection_ = 1;
  // The throttle, as a bucket: bytes that may still be asked for; negative after a large response.
  int64_t tokens_ = 0;
  Instant refilled_{0};
};

}  // namespace lockstep::replication
