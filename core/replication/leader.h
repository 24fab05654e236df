// The leader's part of a partition: the seed's produce handler, commit thread, replicaFetch and ISR
// maintenance.
#pragma once

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "core/base/time.h"
#include "core/replication/follower_progress.h"
#include "core/replication/isr.h"
#include "core/replication/partition.h"
#include "core/replication/replica.h"

namespace lockstep::replication {

class Leader {
 public:
  // All are the partition's, and outlive this. `state` is kept as the coordination service has it.
  Leader(const PartitionOptions& options, PartitionState* state, Replica* replica)
      : options_(options), state_(*state), replica_(*replica), isr_(options.rules) {}

  // A leadership, of state.leader_epoch, by this incarnation of this broker.
  void Begin(Instant now, BrokerEpoch incarnation, PartitionOutput* output);
  // Its end: what waits fails.
  void End(PartitionOutput* output);

  bool Produce(Instant now, ProduceId id, Acks acks, Instant deadline, std::vector<Bytes> batch,
               int32_t records, PartitionOutput* output);
  Partition::FetchDecision OnFetch(Instant now, BrokerId follower, BrokerEpoch incarnation,
                                   bool incarnation_registered,
                                   const ReplicaFetchRequest::Entry& entry,
                                   PartitionOutput* output);
  void OnFetchAnswered(Instant now, BrokerId follower);
  void OnBrokerGone(Instant now, BrokerId broker, PartitionOutput* output);
  void OnIsrChange(Instant now, Partition::Outcome outcome, int32_t version,
                   PartitionOutput* output);
  // `state` has changed; `known_replicas_version` is what it had before.
  void OnStateChanged(Instant now, int32_t known_replicas_version, PartitionOutput* output);
  void OnConfigured(Instant now, PartitionOutput* output);
  void OnPersisted(Instant now, PartitionOutput* output);
  void OnWake(Instant now, PartitionOutput* output);
  Instant next_deadline() const;

  // Answers the produces below the high watermark.
  void AnswerCommitted(PartitionOutput* output);

  Offset epoch_start() const { return epoch_start_; }
  const Isr& isr() const { return isr_; }
  const absl::btree_map<BrokerId, FollowerProgress>& followers() const { return followers_; }
  size_t waiting() const { return commits_.size() + writes_.size(); }

 private:
  struct Waiting {
    ProduceId id;
    Offset base = 0;
    Instant deadline;
  };
  // By the end of their records (exclusive), which two of different leaderships may share.
  using Queue = absl::btree_map<std::pair<Offset, ProduceId>, Waiting>;

  bool below_min_isr() const;
  bool IsMember(BrokerId broker) const;
  void AddFollowers(Instant now, int32_t known_replicas_version);
  Partition::FetchDecision Refuse(BrokerId follower, FetchError error, PartitionOutput* output);
  bool HasNothingInCommon(BrokerId follower, const ReplicaFetchRequest::Entry& entry) const;
  std::optional<ReplicaFetchResponse::Diverging> Diverging(
      const ReplicaFetchRequest::Entry& entry) const;
  void Acknowledge(Instant now, BrokerId follower, BrokerEpoch incarnation,
                   const ReplicaFetchRequest::Entry& entry, PartitionOutput* output);
  void AdvanceHighWatermark(Instant now, PartitionOutput* output);
  void MaintainIsr(Instant now, PartitionOutput* output);
  void MaybeExpand(Instant now, BrokerId follower, PartitionOutput* output);
  void EmitIsrChange(const std::vector<IsrMember>& members, PartitionOutput* output);
  void Answer(Queue* queue, Offset end, PartitionOutput* output);
  void Fail(Queue* queue, ProduceError error, PartitionOutput* output);

  const PartitionOptions& options_;
  PartitionState& state_;
  Replica& replica_;
  Isr isr_;
  IsrMember own_;
  Offset epoch_start_ = 0;
  Instant now_;                                            // of the last step
  absl::btree_map<BrokerId, FollowerProgress> followers_;  // AR without ourselves
  Queue commits_;  // acks=all: until the high watermark is there
  Queue writes_;   // acks=1: until the records are durable here
  absl::btree_set<std::tuple<Instant, bool, std::pair<Offset, ProduceId>>> deadlines_;
};

}  // namespace lockstep::replication
