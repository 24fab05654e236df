// The follower's part of a partition: the seed's ReplicaFetcherThread and becomeFollower.
// Truncation happens only when an answer to a fetch says where histories part (KIP-595).
#pragma once

#include <optional>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/time.h"
#include "core/replication/partition.h"
#include "core/replication/replica.h"

namespace lockstep::replication {

// What a follower needs to know of batches that it may append.
struct CutBatches {
  Offset end = 0;                           // exclusive
  std::vector<storage::EpochStart> epochs;  // that are new, ascending
  Offset first_base = 0;                    // above `from` never; below only if asked for
  const char* refused = nullptr;            // why they may not be appended
};
// Checks `slices` of whole batches against a log that ends at `from` with `latest` as its last
// epoch: each batch whole, with the CRC of its content, contiguous from `from`, and of an epoch not
// below the one before it and not above `leader_epoch`. With `may_begin_below` the first one may
// begin below `from` and contain it: a log that begins in the middle of a batch.
CutBatches CheckBatches(const std::vector<Bytes>& slices, Offset from, bool may_begin_below,
                        LeaderEpoch latest, LeaderEpoch leader_epoch);

class Follower {
 public:
  // After an error: so long until the next fetch.
  static constexpr Duration kFetchBackoff = Milliseconds(100);

  // All are the partition's, and outlive this.
  Follower(const PartitionOptions& options, const PartitionState* state, Replica* replica)
      : options_(options), state_(*state), replica_(*replica) {}

  // Follows state.leader. `former_leader`: whom this replica followed last, or itself.
  void Begin(BrokerId former_leader, PartitionOutput* output);
  std::optional<ReplicaFetchRequest::Entry> NextFetch() const;
  void OnFetchResponse(Instant now, BrokerId leader, const ReplicaFetchResponse::Entry& entry,
                       PartitionOutput* output);
  void OnPersisted(PartitionOutput* output);
  void OnWake(Instant now, PartitionOutput* output);
  Instant next_deadline() const { return backoff_until_; }

 private:
  LeaderEpoch last_fetched_epoch() const;
  const char* WhyStale(BrokerId leader, const ReplicaFetchResponse::Entry& entry) const;
  void Fail(Instant now, const char* reason, PartitionOutput* output);
  // True: the log's end, or its epochs, have changed.
  bool Truncate(const ReplicaFetchResponse::Diverging& diverging, PartitionOutput* output);
  // Null, or why nothing was appended.
  const char* Append(const ReplicaFetchResponse::Entry& entry, PartitionOutput* output);
  void LearnHighWatermark(Offset heard, PartitionOutput* output);
  void FetchAgain(PartitionOutput* output);

  const PartitionOptions& options_;
  const PartitionState& state_;
  Replica& replica_;
  bool reconcile_ = true;
  // What the leader said last. Ours follows as far as our log is durable.
  Offset heard_high_watermark_ = 0;
  Instant backoff_until_ = Instant::Never();  // Never: fetches now
};

}  // namespace lockstep::replication
