// The seed's replicaFetch for whole requests: answers what the followers of this broker's
// partitions ask for, from the Store's memory or files, and keeps a request without news until
// there is some, or its time is over.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/time.h"
#include "core/replication/broker.h"
#include "core/replication/messages.h"

namespace lockstep::replication {

class FetchServer {
 public:
  // What it asks of the broker.
  class Host {
   public:
    virtual ~Host() = default;
    // Null: not hosted here.
    virtual const Partition* Find(const PartitionId& partition) const = 0;
    virtual storage::LogNumber LogOf(const PartitionId& partition) const = 0;
    // Partition::OnFetch of it, with what that sets in motion.
    virtual Partition::FetchDecision OnFetch(Instant now, const ReplicaFetchRequest& request,
                                             const ReplicaFetchRequest::Entry& entry,
                                             BrokerOutput* output) = 0;
    virtual void OnFetchAnswered(Instant now, BrokerId follower, const PartitionId& partition) = 0;
  };
  explicit FetchServer(Host* host) : host_(host) {}

  void OnRequest(Instant now, ConnectionId connection, ReplicaFetchRequest request,
                 BrokerOutput* output);
  void OnClosed(Instant now, ConnectionId connection);
  void OnRead(Instant now, storage::LogReadDone done, BrokerOutput* output);
  // Records were appended to it: requests that wait for it are answered by the next Flush.
  void OnAppended(const PartitionId& partition) { OnMoved(partition, /*wake=*/true); }
  // Its high watermark has moved: the next requests are told.
  void OnHighWatermark(const PartitionId& partition) { OnMoved(partition, /*wake=*/false); }
  // Called once after each input.
  void Flush(Instant now, BrokerOutput* output);
  Instant next_deadline() const;

 private:
  // Of one request: reads of so many partitions are under way together. The next ones are begun
  // when it is known how much these brought, so that a response stays within its bytes.
  static constexpr size_t kReadsMax = 64;

  struct Item {
    ReplicaFetchRequest::Entry asked;
    FetchError error = FetchError::kNone;
    std::optional<ReplicaFetchResponse::Diverging> diverging;
    Offset read_from = 0;
    bool counted = false;  // Partition::OnFetchAnswered is owed
  };
  struct Answer {
    uint64_t sequence = 0;
    BrokerId follower;
    uint32_t entry_max_bytes = 0;
    int64_t bytes_left = 0;
    std::vector<Item> items;
    size_t next = 0;  // of items, to be looked at
    size_t reads = 0;
    ReplicaFetchResponse response;
  };
  // What the follower has asked for of a partition, and not been told anything about since.
  struct Standing {
    enum class Place : uint8_t {
      kIdle,
      kMoved,  // in Connection::moved: there may be news
      kTaken,  // in the answer's items, and not looked at yet
    };
    ReplicaFetchRequest::Entry asked;
    Place place = Place::kIdle;
  };
  struct Connection {
    bool answering = false;  // else `answer`, if it has a sequence, waits for news
    bool woken = false;
    Instant deadline = Instant::Never();
    Answer answer;
    std::deque<ReplicaFetchRequest> queue;
    absl::flat_hash_map<PartitionId, Standing> standing;
    std::vector<PartitionId> moved;  // oldest first; also some that are not kMoved any more
  };
  struct Read {
    ConnectionId connection;
    uint64_t sequence = 0;
    size_t item = 0;
  };

  void Begin(Instant now, ConnectionId id, Connection* connection, ReplicaFetchRequest request,
             BrokerOutput* output);
  void Continue(Instant now, ConnectionId id, Connection* connection, BrokerOutput* output);
  ReplicaFetchResponse::Entry EntryOf(const Item& item) const;
  void OnMoved(const PartitionId& partition, bool wake);
  // What stands and has moved is looked at with the answer. True: some of it is news.
  bool TakeMoved(Connection* connection);
  static void Put(Connection* connection, ReplicaFetchResponse::Entry entry);
  // An item that is not part of the answer: `again`, though there may be news of it.
  static void Pass(Connection* connection, const PartitionId& partition, bool again);
  void Settle(Instant now, Connection* connection);

  Host* const host_;
  std::map<ConnectionId, Connection> connections_;
  std::map<uint64_t, Read> reads_;
  uint64_t next_read_ = 1;
};

}  // namespace lockstep::replication
