// A simulated operator: creates the topics, and then moves replicas, hands leaderships over,
// deletes topics and makes them again, changes their settings, deletes records.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>

#include "sim/checkers/replication.h"
#include "sim/kafka_client.h"

namespace lockstep::sim {

class KafkaAdmin : public KafkaClient {
 public:
  KafkaAdmin(const Context& context, RandomStream random, Replication* replication);

  void Vanish(Instant now, ClientOutput* output) override;
  void Quiesce(Instant now, ClientOutput* output) override;
  std::string NotDone() const override;

 protected:
  void OnAnswer(Instant now, const Call& call, const Bytes& frame, ClientOutput* output) override;
  void OnLost(Instant now, const Call& call, ClientOutput* output) override;
  Instant Work(Instant now, ClientOutput* output) override;

 private:
  bool Exists(const TopicPlan& topic) const;
  bool Create(Instant now, ClientOutput* output);
  // Nothing if what was drawn cannot be asked for now.
  std::optional<AdminStep> DrawStep();
  void DrawReplicas(const TopicPlan& topic, AdminStep* step);
  // Hand-overs that follow each other, of this partition.
  void DrawBurst(const AdminStep& of);
  // Whether there is the partition that the step is about, and whom to ask.
  bool CanIssue(const AdminStep& step) const;
  void Issue(Instant now, const AdminStep& step, ClientOutput* output);
  void Reassign(Instant now, const AdminStep& step, ClientOutput* output);
  void DeleteRecords(Instant now, const AdminStep& step, ClientOutput* output);
  void SetMinInsync(Instant now, const AdminStep& step, ClientOutput* output);
  void DeleteTopic(Instant now, const TopicPlan& topic, ClientOutput* output);
  int32_t RandomPartition(const TopicPlan& topic);
  void OnErrors(const Call& call, const Bytes& frame);

  Replication* const replication_;
  std::optional<uint64_t> call_;
  Instant next_work_;
  struct Coming {
    Duration wait;  // after the step before it
    AdminStep step;
  };
  std::deque<Coming> burst_;
};

}  // namespace lockstep::sim
