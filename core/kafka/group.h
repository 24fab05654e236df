// One consumer group: its members, and where it stands in the classic protocol. Knows the rules of
// the states; who is answered what and when is the coordinator's (groups_impl.h). docs/kafka.md,
// "Groups".
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "core/base/bytes.h"
#include "core/base/time.h"
#include "core/kafka/group_records.h"
#include "core/kafka/group_timers.h"
#include "core/kafka/groups.h"

namespace lockstep::kafka {

enum class GroupState : uint8_t {
  kEmpty,                // no members; offsets it may have
  kPreparingRebalance,   // members are waited for to join
  kCompletingRebalance,  // all have joined; the leader's assignment is waited for
  kStable,               // every member has, or can get, its assignment
  kDead,                 // its tombstones are on their way
};
// Kafka's, as in DescribeGroups and ListGroups: "PreparingRebalance".
std::string_view GroupStateName(GroupState state);

struct GroupProtocol {
  std::string name;
  Bytes metadata;
  bool operator==(const GroupProtocol&) const = default;
};

struct GroupMember {
  std::string id;
  std::optional<std::string> instance_id;  // a static member: KIP-345
  std::string client_id;
  std::string client_host;
  int32_t session_timeout_ms = 0;
  int32_t rebalance_timeout_ms = 0;
  std::vector<GroupProtocol> protocols;  // that of its choice first
  Bytes assignment;                      // of the last generation that was assigned
  // It has not been answered yet, so it knows no id to send heartbeats with.
  bool is_new = false;
  // Has not asked for its assignment in this generation. Those who joined, of them only.
  bool owes_sync = false;
  // The requests of it that wait.
  std::optional<GroupRequestId> join;
  std::optional<GroupRequestId> sync;
  GroupTimers::Deadline session;

  // Nothing if it does not speak it.
  const Bytes* MetadataFor(std::string_view protocol) const;
};

struct CommittedOffset {
  OffsetValue value;
  // The append that brought it; 0: it was loaded. What comes of an earlier append does not replace
  // it.
  uint64_t append = 0;
};

class Group {
 public:
  using OffsetKey = std::pair<std::string, int32_t>;  // topic, partition

  // `id` is never used twice: another group of the same name has another.
  Group(std::string name, int32_t partition, uint64_t id)
      : name_(std::move(name)), partition_(partition), id_(id) {}

  const std::string& name() const { return name_; }
  int32_t partition() const { return partition_; }
  uint64_t id() const { return id_; }

  // ---- State ---------------------------------------------------------------------------------

  GroupState state() const { return state_; }
  // Grows with every rebalance that comes to its end. 0: none has. After 2^31 - 1 comes 1.
  int32_t generation() const { return generation_; }
  // What kind of clients these are ("consumer", "connect"); nothing: none has joined yet.
  const std::optional<std::string>& protocol_type() const { return protocol_type_; }
  // Chosen for this generation; nothing in an empty group.
  const std::optional<std::string>& protocol() const { return protocol_; }
  const std::string& leader() const { return leader_; }  // empty: none
  // When it came into its state (milliseconds since 1970), if that is known.
  std::optional<int64_t> state_timestamp() const { return state_timestamp_; }

  void BecomePreparing(int64_t unix_ms);
  // All who will join have: the next generation, with or without members.
  // Requires: PreparingRebalance.
  void BecomeNextGeneration(int64_t unix_ms);
  void BecomeStable(int64_t unix_ms);
  void BecomeDead(int64_t unix_ms);
  // The tombstones did not get into the log. Requires: Dead.
  void BecomeEmptyAgain(int64_t unix_ms);

  // ---- Members -------------------------------------------------------------------------------

  // Ids, ascending. A map whose nodes stay where they are.
  const std::map<std::string, GroupMember>& members() const { return members_; }
  std::map<std::string, GroupMember>& members() { return members_; }
  GroupMember* FindMember(const std::string& id);
  // Null if nobody, or nobody static, has this instance id.
  GroupMember* FindStatic(const std::string& instance_id);
  bool IsLeader(const std::string& id) const { return !id.empty() && id == leader_; }

  // The first one becomes leader, and its protocol type the group's.
  GroupMember* Add(GroupMember member, const std::string& protocol_type);
  // Its deadline must be cancelled and its requests answered.
  void Remove(const std::string& id);
  void SetProtocols(GroupMember* member, std::vector<GroupProtocol> protocols);
  // The static member has started again and has a new id.
  GroupMember* Rename(const std::string& id, const std::string& new_id);

  // Whether somebody with these protocols may join: a protocol that all members speak must remain.
  bool Supports(const std::string& protocol_type,
                const std::vector<JoinGroupRequest::Protocol>& protocols) const;
  // Whether there is room for the member (empty: a new one) under group.max.size.
  bool HasRoomFor(const std::string& id, size_t size_max) const;
  // The protocol that the members would agree on now: of those that all speak, the one that most
  // prefer; of equals the first by name. Requires: members.
  std::string ChooseProtocol() const;
  bool AllHaveJoined() const;
  bool AllHaveSynced() const;
  // Members whose JoinGroup waits.
  size_t joined() const;
  // Of those who wait for the join to complete one is leader; the present one if it is among them.
  // False if nobody is.
  bool ElectLeader();
  // The most that a member demands, at least 1.
  int32_t RebalanceTimeoutMs() const;
  // Bytes of what members have sent, and of what each gets: about the size of the group's record.
  size_t ContentBytes() const;
  // Topics that members of the type "consumer" have subscribed to; nothing if that cannot be known.
  bool SubscribesTo(const std::string& topic) const;
  bool IsConsumerGroup() const { return protocol_type_ == "consumer"; }

  // Ids that were given out by MEMBER_ID_REQUIRED and not yet used: KIP-394.
  std::map<std::string, GroupTimers::Deadline> pending_members;

  // ---- The rebalance under way ---------------------------------------------------------------

  GroupTimers::Deadline rebalance_deadline;
  GroupTimers::Deadline sync_deadline;
  // The first rebalance of a group waits for group.initial.rebalance.delay.ms whoever has joined,
  // and again when in this time somebody came, `initial_delay_left` long in all.
  bool initial_delay = false;
  bool joined_in_delay = false;
  Duration initial_delay_left;
  // The assignment of this generation is on its way into the log.
  bool assigning = false;

  // ---- What is in the log --------------------------------------------------------------------

  // The group as its record says.
  GroupValue ToValue() const;
  // Nothing if the record cannot be right. Everything but the offsets is replaced.
  // Requires: no deadlines, no requests.
  bool Load(const GroupValue& value);
  void Unload();  // its tombstone

  absl::btree_map<OffsetKey, CommittedOffset> offsets;
  // Commits on their way into the log, by what they are of.
  absl::btree_map<OffsetKey, uint32_t> commits_under_way;
  // A record of the group itself is in the log, or may be.
  bool has_record = false;
  // Tombstones of expired offsets are on their way.
  bool expiring = false;

  // No reason to keep it.
  bool IsVoid() const;

 private:
  void BecomeState(GroupState state, int64_t unix_ms);
  void Count(const GroupMember& member, int change);

  const std::string name_;
  const int32_t partition_;
  const uint64_t id_;
  GroupState state_ = GroupState::kEmpty;
  std::optional<int64_t> state_timestamp_;
  int32_t generation_ = 0;
  std::optional<std::string> protocol_type_;
  std::optional<std::string> protocol_;
  std::string leader_;
  std::map<std::string, GroupMember> members_;
  absl::btree_map<std::string, std::string> static_members_;  // instance id -> member id
  absl::btree_map<std::string, size_t> supporters_;           // protocol -> how many speak it
};

}  // namespace lockstep::kafka
