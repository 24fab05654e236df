// Inside of Groups: which groups there are, who waits for what, and what is on its way into the
// log. The handlers of requests are in group_membership.cc (join, sync, heartbeat, leave, and the
// rebalances they make up), group_offsets.cc and group_admin.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/kafka/group.h"
#include "core/kafka/group_timers.h"
#include "core/kafka/groups.h"
#include "core/records/record.h"

namespace lockstep::kafka {

class Groups::Impl {
 public:
  Impl(const GroupsOptions& options, RandomStream random) : options_(options), random_(random) {}

  void SetWallClock(Instant now, int64_t unix_ms);
  void SetPartitions(int32_t partitions) { partition_count_ = partitions; }
  void OnLoadBegin(Instant now, int32_t partition, replication::LeaderEpoch epoch);
  void OnLoadBatches(Instant now, int32_t partition, const Bytes& batches, GroupsOutput* output);
  void OnLoadEnd(Instant now, int32_t partition, GroupsOutput* output);
  void OnResigned(Instant now, int32_t partition, GroupsOutput* output);
  void OnAppended(Instant now, uint64_t append, ErrorCode error, GroupsOutput* output);
  void OnRequest(Instant now, GroupRequestId id, int16_t version, const GroupRequest& request,
                 const std::string& client_id, const std::string& client_host,
                 GroupsOutput* output);
  void OnRequestGone(GroupRequestId id) { waiting_.erase(id.value); }
  void OnWake(Instant now, GroupsOutput* output);
  Instant next_deadline() const;
  size_t count() const { return group_count_; }

 private:
  using Kind = GroupTimers::Kind;

  // A partition of the offsets topic that this broker leads.
  struct Partition {
    replication::LeaderEpoch epoch;
    bool loading = true;
    absl::btree_map<std::string, std::unique_ptr<Group>> groups;
  };
  // What came with a request.
  struct Call {
    GroupRequestId id;
    int16_t version = 0;
    const std::string& client_id;
    const std::string& client_host;
  };
  // Survives the group, unlike a pointer: what waits for the log refers to groups by it.
  struct GroupRef {
    int32_t partition = 0;
    std::string name;
    uint64_t id = 0;
  };
  // What follows when an append is in the log for good, or is not known to be.
  using Then = std::function<void(uint64_t append, ErrorCode error)>;
  using Done = std::function<void(ErrorCode)>;
  struct UnderWay {
    int32_t partition = 0;
    Then then;
  };
  struct KeyValue {
    std::string key;
    std::optional<std::string> value;  // nothing: a tombstone
  };
  struct Located {
    ErrorCode error = ErrorCode::kNone;
    int32_t number = 0;
    Partition* partition = nullptr;
  };

  void Enter(Instant now, GroupsOutput* output);
  int64_t unix_ms() const { return wall_unix_ms_ + (now_ - wall_at_).Milliseconds(); }
  Instant After(int32_t ms) const { return now_ + Milliseconds(ms); }

  // ---- groups.cc -----------------------------------------------------------------------------

  // Where the group's state is, or why it is not here. The empty name is a group for offsets only,
  // of clients that have never heard of groups.
  Located Locate(const std::string& group, bool may_be_empty);
  Group* Find(const Located& at, const std::string& group);
  Group* Find(const GroupRef& ref);
  static GroupRef RefOf(const Group& group) {
    return {group.partition(), group.name(), group.id()};
  }
  // Null if there are as many groups as there may be.
  Group* Create(const Located& at, const std::string& group);
  void Erase(Group* group);
  void EraseIfVoid(const GroupRef& ref);
  void CancelTimers(Group* group);
  void Reply(GroupRequestId id, GroupResponse response);
  void Report(EventKind kind, uint64_t detail, const char* reason, std::string text);
  void LoadRecord(int32_t number, Partition* partition, const records::Record& record);
  void OnDeadline(const GroupTimers::Target& target);

  // Whether these are one batch.
  bool FitsBatch(const std::vector<KeyValue>& records) const;
  // Requires: FitsBatch().
  void Append(const Group& group, const std::vector<KeyValue>& records, Then then);

  // ---- group_membership.cc -------------------------------------------------------------------

  void Handle(const Call& call, const JoinGroupRequest& request);
  void Handle(const Call& call, const SyncGroupRequest& request);
  void Handle(const Call& call, const HeartbeatRequest& request);
  void Handle(const Call& call, const LeaveGroupRequest& request);

  ErrorCode CheckJoin(const JoinGroupRequest& request) const;
  std::string NewMemberId(const Call& call, const JoinGroupRequest& request);
  void JoinNew(const Call& call, const JoinGroupRequest& request, Group* group);
  void JoinKnown(const Call& call, const JoinGroupRequest& request, Group* group);
  void AddMember(const Call& call, const JoinGroupRequest& request, const std::string& id,
                 Group* group);
  // The member takes part in the rebalance under way, or in one that begins now.
  void Rejoin(const Call& call, const JoinGroupRequest& request, GroupMember* member, Group* group);
  void ReplaceStatic(const Call& call, const JoinGroupRequest& request, GroupMember* member,
                     const std::string& new_id, Group* group);
  void Update(const JoinGroupRequest& request, GroupMember* member, Group* group);
  // The answer that tells a member of the group's generation.
  JoinGroupResponse JoinAnswer(const Group& group, const GroupMember& member) const;
  void ReplyJoin(GroupMember* member, JoinGroupResponse response);
  void ReplySync(GroupMember* member, SyncGroupResponse response);
  SyncGroupResponse SyncAnswer(const Group& group, const GroupMember& member) const;

  // The member, or: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
  ErrorCode FindMember(Group* group, const std::string& id,
                       const std::optional<std::string>& instance_id, GroupMember** member);
  void Touch(Group* group, GroupMember* member);
  // Without what follows from it.
  void DropMember(Group* group, const std::string& id);
  void RemoveMember(Group* group, const std::string& id);
  void RemovePending(Group* group, const std::string& id);
  ErrorCode Leave(Group* group, const std::string& id,
                  const std::optional<std::string>& instance_id);

  void PrepareRebalance(Group* group);
  void CompleteJoinIfAllHaveJoined(Group* group);
  void CompleteJoin(Group* group);
  void OnRebalanceDeadline(Group* group);
  void OnSyncDeadline(Group* group);
  void OnSessionDeadline(Group* group, const std::string& id);
  void Assign(Group* group, const SyncGroupRequest& request);
  void OnAssigned(const GroupRef& ref, int32_t generation,
                  const absl::btree_map<std::string, Bytes>& assignments, ErrorCode error);
  void FailSyncs(Group* group, ErrorCode error);
  // Appends the group's record. Too large a one is UNKNOWN_SERVER_ERROR at once, as Kafka has it.
  void WriteGroup(Group* group, const GroupValue& value, Done done);

  // ---- group_offsets.cc ----------------------------------------------------------------------

  void Handle(const Call& call, const OffsetCommitRequest& request);
  void Handle(const Call& call, const OffsetFetchRequest& request);
  void Handle(const Call& call, const OffsetDeleteRequest& request);

  ErrorCode CheckCommit(Group* group, const OffsetCommitRequest& request);
  ErrorCode CheckCommitted(const Group& group, const std::string& topic,
                           const OffsetCommitRequest::Partition& partition,
                           size_t new_offsets) const;
  void OnCommitted(const GroupRef& ref, uint64_t append,
                   const std::vector<std::pair<Group::OffsetKey, OffsetValue>>& offsets,
                   ErrorCode error);
  // Writes tombstones, in as many batches as it takes, the group's own last. `done` is called when
  // all have an end, with an error if one had.
  void WriteTombstones(Group* group, const std::vector<Group::OffsetKey>& keys, bool with_group,
                       Done done);
  void ExpireOffsets();
  std::vector<Group::OffsetKey> ExpiredOffsets(const Group& group) const;
  // False if there was nothing to be done.
  bool Expire(Group* group);
  // Requires: Empty. What it has is gone when `done` is called with kNone.
  void Delete(Group* group, Done done);

  // ---- group_admin.cc ------------------------------------------------------------------------

  void Handle(const Call& call, const DescribeGroupsRequest& request);
  void Handle(const Call& call, const ListGroupsRequest& request);
  void Handle(const Call& call, const DeleteGroupsRequest& request);
  DescribeGroupsResponse::Group Describe(const std::string& name);

  const GroupsOptions options_;
  RandomStream random_;
  int32_t partition_count_ = 0;
  Instant wall_at_;
  int64_t wall_unix_ms_ = 0;

  absl::btree_map<int32_t, Partition> led_;
  size_t group_count_ = 0;
  uint64_t last_group_ = 0;
  GroupTimers timers_;
  Instant retention_check_ = Instant::Never();

  // By append id. An id that is not here, as of an earlier leadership, means nothing any more.
  absl::btree_map<uint64_t, UnderWay> under_way_;
  uint64_t last_append_ = 0;
  // Requests that are to be answered.
  absl::flat_hash_set<uint64_t> waiting_;

  // Of the call that is being executed.
  Instant now_;
  GroupsOutput* output_ = nullptr;
};

// What a failed append means to the clients of a coordinator.
ErrorCode CoordinatorError(ErrorCode append_error);

}  // namespace lockstep::kafka
