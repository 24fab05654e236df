// One replica of one partition on this broker: the seed's Replica and Partition, its data path. A
// machine that knows no znode and no file: what the coordination service says comes in as
// PartitionState, what it wants written there goes out as IsrChange; log changes go out with ids
// and come back as Persisted.
//
// A machine is a value. It reads no clock, no socket, no disk, no random device and no global. You
// give it one input and the time; it changes itself and appends to its output. Same state, same
// input, same time: same output, byte for byte.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/event.h"
#include "core/base/time.h"
#include "core/replication/ids.h"
#include "core/replication/messages.h"
#include "core/replication/rules.h"
#include "core/storage/partition_log.h"

namespace lockstep::replication {

// A member of the ISR is an incarnation of a broker, so that one that lost its data in between is
// none (KIP-903).
struct IsrMember {
  BrokerId broker;
  BrokerEpoch incarnation;
  constexpr auto operator<=>(const IsrMember&) const = default;
};

// What the coordination service holds of a partition (docs/replication.md, "Znodes"): the newest
// this broker has seen. AR = replicas; during a reassignment AR = RAR + removing, in the order that
// prefers RAR's.
struct PartitionState {
  PartitionId id;
  std::string topic;
  std::vector<BrokerId> replicas;  // AR; the first one is the preferred leader
  std::vector<BrokerId> adding;    // RAR minus the old AR, while a reassignment is under way
  std::vector<BrokerId> removing;  // the old AR minus RAR
  int32_t replicas_version = 0;    // of the znode
  std::optional<BrokerId> leader;  // who holds the leader znode
  LeaderEpoch leader_epoch;        // of the newest leadership, also when there is no leader now
  std::vector<IsrMember> isr;      // never empty, ascending
  int32_t isr_version = 0;         // of the znode: Kafka's partition epoch
};

struct PartitionOptions {
  BrokerId broker;
  // Which of the ISR's changes are wanted: a follower that has not reached the leader's log end for
  // so long leaves. The seed's KeepInSyncTime, `replica.lag.time.max.ms`.
  Duration keep_in_sync_time = Seconds(30);
  uint32_t min_insync_replicas = 1;  // of the topic
  // Bounds: produce requests waiting for their commit, bytes.
  uint32_t pending_produces_max = 10'000;
  Rules rules;
};

// A waiting produce request, named by the front end.
struct ProduceId {
  uint64_t value = 0;
  constexpr auto operator<=>(const ProduceId&) const = default;
};

enum class Acks : int8_t { kNone = 0, kLeader = 1, kAll = -1 };

enum class ProduceError : uint8_t {
  kNone = 0,
  kNotLeader,
  kNotEnoughReplicas,             // refused before the append: the ISR is below the minimum
  kNotEnoughReplicasAfterAppend,  // ... fell below it afterwards
  kTimedOut,                      // not committed in time; it still may be
  kOverloaded,                    // too many wait
  kStorage,
};

struct PartitionOutput {
  // A durable change of this replica's log. The owner passes it to the Store under the next
  // LogWriteId and answers OnPersisted(offset) when that is durable.
  std::vector<storage::LogChange> changes;
  // Leader: wanted of the coordination service, from `from_version` on. At most one is under way;
  // answered by OnIsrChange. The write must also hold that the leader znode is ours, that the
  // replicas znode has `replicas_version` (else a replica that was removed, deleted and added again
  // meanwhile would join for what it had), and that new members' incarnations are registered.
  struct IsrChange {
    LeaderEpoch leader_epoch;
    int32_t from_version = 0;
    int32_t replicas_version = 0;
    std::vector<IsrMember> isr;
  };
  std::optional<IsrChange> isr_change;
  struct ProduceDone {
    ProduceId id;
    ProduceError error = ProduceError::kNone;
    Offset base_offset = -1;
  };
  std::vector<ProduceDone> produces_done;
  bool high_watermark_moved = false;
  bool data_appended = false;  // leader: parked fetches of followers have something to get
  bool fetch_now = false;      // follower: its fetch state changed; (re)fetch from the leader
  // For the layer above (producer state, groups): the log was cut to here, before what is appended
  // from now on. With `restarted`, nothing of it is left: it is empty and begins here (a leader
  // that has deleted what this follower missed).
  std::optional<Offset> truncated_to;
  bool restarted = false;
  std::vector<Event> events;
  void Clear();
};

enum class Role : uint8_t {
  kIdle,  // no leader is known, or not assigned here any more: neither serves nor fetches
  kFollower,
  kLeader,
};

class Partition {
 public:
  // From a recovered, or new and empty, log.
  Partition(const PartitionOptions& options, const PartitionState& state,
            const storage::RecoveredLog& log);
  ~Partition();

  // ---- Roles, decided by the broker from the coordination service.

  // This broker holds the leader znode with state.leader_epoch, which no leader had before. The
  // high watermark stays; records of this epoch begin at the log's end. `incarnation` is ours: if
  // the ISR has us as another one (whose data we have), that is changed.
  void BecomeLeader(Instant now, const PartitionState& state, BrokerEpoch incarnation,
                    PartitionOutput* output);
  // Another broker leads, at state.leader_epoch. Truncation is found by fetching.
  void BecomeFollower(Instant now, const PartitionState& state, PartitionOutput* output);
  // Nobody leads, or this broker may not act now (its session is, or may be, gone). Waiting
  // produces fail with kNotLeader; nothing is acknowledged afterwards.
  void Resign(Instant now, PartitionOutput* output);
  // The znodes have changed within the leader epoch (reassignment; ISR). For every role: a follower
  // that does not know it was added is not counted (ReplicaFetchRequest::Entry::replicas_version).
  // A state of another leader epoch than this replica's is ignored, as are older versions.
  void Update(Instant now, const PartitionState& state, PartitionOutput* output);

  // The topic's or the broker's configuration changes. Effective at once.
  void Configure(Instant now, Duration keep_in_sync_time, uint32_t min_insync_replicas,
                 PartitionOutput* output);

  // ---- Leader.

  // Appends one batch that the caller has given its base offset, log_end(), and its epoch,
  // leader_epoch(): `batch` is the final bytes, `records` its count.
  // Answers ProduceDone: at once for refusals and kNone, when durable here for kLeader, when
  // committed for kAll; with kTimedOut at `deadline`.
  // True: appended. False: refused, and ProduceDone says why.
  bool Produce(Instant now, ProduceId id, Acks acks, Instant deadline, std::vector<Bytes> batch,
               int32_t records, PartitionOutput* output);
  // The seed's replicaFetch, its decisions: fences, records the follower's progress, may move the
  // high watermark and want an ISR change; says what to answer. `incarnation_registered`: the
  // request's incarnation is the one that is registered now.
  struct FetchDecision {
    FetchError error = FetchError::kNone;
    std::optional<ReplicaFetchResponse::Diverging> diverging;
    Offset read_from = 0;  // without error or diverging: data from here, if below log_end()
    // There is something to say: an error, where histories part, data, or a high watermark or log
    // start that the follower does not know. Without it the request may wait (max_wait_ms).
    bool news = false;
  };
  FetchDecision OnFetch(Instant now, BrokerId follower, BrokerEpoch incarnation,
                        bool incarnation_registered, const ReplicaFetchRequest::Entry& entry,
                        PartitionOutput* output);
  // The answer to the last fetch of `follower` has left, or its connection is closed. While a fetch
  // waits here, for data or for our own disk, the follower's time to keep in sync stands still: a
  // slow leader does not expel healthy followers. KAFKA-8733, KIP-501. Must follow every OnFetch
  // without an error.
  void OnFetchAnswered(Instant now, BrokerId follower);
  // The registration of `broker` is gone. It leaves the ISR now, and not after its time to keep in
  // sync: every produce with acks=all would wait so long for a broker that is known to be dead.
  void OnBrokerGone(Instant now, BrokerId broker, PartitionOutput* output);
  enum class Outcome : uint8_t { kApplied, kRefused, kUnknown };
  // The end of the ISR change under way. kApplied: `version` is the znode's now. kRefused: it has
  // certainly not been applied (the owner re-reads and calls Update or takes the role away).
  // kUnknown: both sets count until it is known, from an Update that brings a newer isr_version, or
  // because another change from the same version, which follows after a while, is applied.
  // `leader_epoch`: of the IsrChange; an outcome from an earlier leadership is ignored.
  void OnIsrChange(Instant now, LeaderEpoch leader_epoch, Outcome outcome, int32_t version,
                   PartitionOutput* output);

  // ---- Follower.

  // What to ask the leader for; nothing unless Role::kFollower, or while own changes are not
  // durable yet (a fetch acknowledges what is below its offset).
  std::optional<ReplicaFetchRequest::Entry> NextFetch() const;
  // The answer to it. Batches are validated (CRC, epochs, contiguous from the log's end) before
  // they are appended; bad ones are dropped with an event and fetched again.
  void OnFetchResponse(Instant now, BrokerId leader, const ReplicaFetchResponse::Entry& entry,
                       PartitionOutput* output);

  // ---- Both.

  // All changes up to the log's end `end`, as of when that was emitted, are durable: the n-th call
  // is for the n-th element of all PartitionOutput::changes.
  void OnPersisted(Instant now, PartitionOutput* output);
  // The log start moves (DeleteRecords, retention). Requires: log_start() <= start <=
  // high_watermark().
  void SetLogStart(Instant now, Offset start, PartitionOutput* output);
  void OnWake(Instant now, PartitionOutput* output);
  Instant next_deadline() const;

  // ---- For others to read.
  Role role() const;
  LeaderEpoch leader_epoch() const;
  Offset log_start() const;
  Offset log_end() const;  // leo: with what is not durable yet
  Offset durable_end() const;
  Offset high_watermark() const;  // for followers and idle: the last one heard of
  // Leader: clients may be told offsets only when the high watermark has reached this epoch's start
  // (KIP-207): else kOffsetNotAvailable for ListOffsets.
  bool high_watermark_is_current() const;
  // KIP-320: where the largest epoch not above `epoch` ends; {-1, -1}-like nothing if none.
  std::optional<ReplicaFetchResponse::Diverging> EndOfEpoch(LeaderEpoch epoch) const;
  const std::vector<storage::EpochStart>& epochs() const;
  const PartitionState& state() const;
  struct Follower {
    BrokerId broker;
    Offset log_end = -1;  // -1: has not fetched in this epoch
    bool caught_up = false;
  };
  std::vector<Follower> followers() const;  // leader only; the seed's CUR = AR - ISR
  std::vector<IsrMember> maximal_isr() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::replication
