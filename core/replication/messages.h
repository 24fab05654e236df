// What brokers say to each other: the seed's ReplicaFetchRequest and ReplicaFetchResponse, with
// what closes its holes S18 to S20: epochs, the follower's incarnation, and where histories part.
//
// One request is for all partitions that this follower replicates from that leader; one is
// outstanding per pair of brokers, so that one sync of the follower's journal covers everything
// that arrived. Of a thousand partitions few have news at a time, so most requests list only what
// has changed since the ones before (KIP-227's idea; the session is the connection). The bytes:
// core/wire, docs/wire.md.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "core/base/bytes.h"
#include "core/replication/ids.h"

namespace lockstep::replication {

// Bounds of one request and one response, inclusive; a decoder refuses what is above.
inline constexpr uint32_t kFetchEntriesMax = 100'000;

struct ReplicaFetchRequest {
  struct Entry {
    PartitionId partition;
    // Of the leader that the follower follows. A leader of any other epoch refuses: it would count
    // an acknowledgement of another history (KIP-320).
    LeaderEpoch leader_epoch;
    // Where the follower's log ends. Everything below is durable there: this is its acknowledgement
    // of it, at the leader of `leader_epoch`.
    Offset fetch_offset = 0;
    // The epoch of the follower's last record, or of the last epoch it knows to begin at its end.
    // -1: its log is empty. KIP-595, truncation on fetch.
    LeaderEpoch last_fetched_epoch;
    Offset log_start = 0;  // of the follower's log
    // The high watermark that the follower knows: a leader that knows a greater one, not above
    // fetch_offset, answers at once. KIP-1166.
    Offset high_watermark = 0;
    // PartitionState::replicas_version as the follower knows it. A fetch of before the follower was
    // (last) added to the partition acknowledges nothing: its log of then has been deleted. In
    // Kafka a new leader epoch does this, of which one here takes an election.
    int32_t replicas_version = 0;
    bool operator==(const Entry&) const = default;
  };
  uint64_t sequence = 0;  // counts the requests on a connection, from 1; the response repeats it
  BrokerId follower;
  BrokerEpoch incarnation;       // of the follower. KIP-903
  int32_t max_wait_ms = 0;       // the leader waits so long for data; not at all if there is news
  uint32_t max_bytes = 0;        // of all batches of the response; one batch may exceed it
  uint32_t entry_max_bytes = 0;  // of one partition, likewise
  // An entry stands for the requests that follow on the connection as well, until its partition is
  // listed again or a response has an entry of it, whichever is first. It is acknowledged once, by
  // the request that lists it. False: nothing stands but what is listed here.
  bool partial = false;
  std::vector<Entry> entries;  // if not partial: rotated, so that none starves under max_bytes
  bool operator==(const ReplicaFetchRequest&) const = default;
};

enum class FetchError : uint8_t {
  kNone = 0,
  kNotLeader,           // not, or no longer, or not yet: ask again when the leader is known
  kUnknownPartition,    // this broker hosts no such partition (or not with this topic id)
  kNotReplica,          // the follower is not assigned to the partition
  kFencedLeaderEpoch,   // the request's leader_epoch is older than the leader's
  kUnknownLeaderEpoch,  // ... is newer: this leader has not heard of it yet
  kStaleIncarnation,    // the follower's incarnation is not the one that is registered
  kOffsetOutOfRange,    // what the leader has left does not join on: begin anew at its log start
  kStorage,             // reading failed
  kCount
};
const char* ToString(FetchError error);

struct ReplicaFetchResponse {
  struct Diverging {
    // The largest epoch not above the request's last_fetched_epoch that the leader knows, and where
    // it ends in the leader's log (exclusive). KIP-279.
    LeaderEpoch epoch;
    Offset end = 0;
    bool operator==(const Diverging&) const = default;
  };
  struct Entry {
    PartitionId partition;
    FetchError error = FetchError::kNone;
    LeaderEpoch leader_epoch;  // of the answering leader
    // The request's: what the answer is about. Both, since an offset alone may come back: a
    // follower that was told to cut its log, and has fetched up to the same offset since, must not
    // do it again. An epoch and the offset where its records end name one history. Bug-zoo 26.
    Offset fetch_offset = 0;
    LeaderEpoch last_fetched_epoch;
    Offset high_watermark = 0;
    Offset log_start = 0;
    std::optional<Diverging> diverging;  // then no batches
    // Whole batches, concatenated, the first one containing fetch_offset. Slices of the leader's
    // memory; on the wire they follow each other behind the header, and a decoder gives back one
    // slice of them all. A follower takes slices of whole batches only.
    std::vector<Bytes> batches;
    bool operator==(const Entry&) const = default;
  };
  uint64_t sequence = 0;
  std::vector<Entry> entries;  // those with news: data, an error, another high watermark
  bool operator==(const ReplicaFetchResponse&) const = default;
};

using Message = std::variant<ReplicaFetchRequest, ReplicaFetchResponse>;

}  // namespace lockstep::replication
