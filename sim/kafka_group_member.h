// A simulated member of a consumer group, by the classic protocol: it finds the coordinator, joins,
// assigns ranges if it is the group's leader, consumes what it got, commits how far it has read,
// and joins again whenever it is told to.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/checkers/group_history.h"
#include "sim/kafka_consumer.h"

namespace lockstep::sim {

class KafkaGroupMember : public KafkaConsumer {
 public:
  KafkaGroupMember(const Context& context, uint32_t number, RandomStream random,
                   Replication* replication, GroupHistory* history);

  // Dies without leaving the group.
  void Vanish(Instant now, ClientOutput* output) override;
  std::string NotDone() const override;

 protected:
  void OnAnswer(Instant now, const Call& call, const Bytes& frame, ClientOutput* output) override;
  void OnLost(Instant now, const Call& call, ClientOutput* output) override;
  Instant Work(Instant now, ClientOutput* output) override;

 private:
  enum class State : uint8_t { kSeeking, kJoining, kSyncing, kFetchingOffsets, kStable };

  void Enter(State state);
  // Tries again soon; without a coordinator it is looked for first.
  void Again(Instant now, bool coordinator_known);
  void AskCoordinator(Instant now, ClientOutput* output);
  void Join(Instant now, ClientOutput* output);
  void Sync(Instant now, ClientOutput* output);
  void FetchOffsets(Instant now, ClientOutput* output);
  void Heartbeat(Instant now, ClientOutput* output);
  void Commit(Instant now, ClientOutput* output);
  void Leave(Instant now, ClientOutput* output);
  void OnCoordinator(Instant now, const kafka::FindCoordinatorResponse& response);
  void OnJoined(Instant now, kafka::JoinGroupResponse response);
  void OnSynced(Instant now, const kafka::SyncGroupResponse& response);
  void OnOffsets(Instant now, const kafka::OffsetFetchResponse& response);
  void OnCommitAnswer(Instant now, const kafka::OffsetCommitResponse& response);
  // What any of the group's answers may say. False if the state has changed because of it.
  bool OnGroupError(Instant now, kafka::ErrorCode error);
  std::vector<kafka::SyncGroupRequest::Assignment> AssignRanges() const;
  // Whether what was committed for it must still be there.
  bool Exact(const Key& key) const;

  static constexpr const char* kGroup = "readers";

  GroupHistory* const history_;
  State state_ = State::kSeeking;
  std::optional<uint32_t> coordinator_;
  std::optional<uint32_t> coordinator_before_;
  std::string member_id_;
  int32_t generation_ = -1;
  std::vector<kafka::JoinGroupResponse::Member> members_;  // of whom this one is the leader
  std::vector<Key> owned_;
  std::optional<uint64_t> call_;  // of the group's protocol; one at a time
  Instant asked_;                 // when it was sent
  std::map<Key, uint64_t> committing_;
  Instant next_step_;
  Instant next_heartbeat_;
  Instant next_commit_;
};

}  // namespace lockstep::sim
