// Joining, leaving and staying in a group, and the rebalances in which its members agree on who
// has what. KIP-62, KIP-134 (initial delay), KIP-345 (static members), KIP-394 (member ids first).
#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/container/btree_set.h"
#include "core/base/check.h"
#include "core/kafka/groups_impl.h"

namespace lockstep::kafka {
namespace {

// A new member may wait for longer than its session, since it cannot send heartbeats before it is
// answered. If it is gone and its place is not given up, every rebalance waits for it: hence a
// bound.
constexpr int32_t kNewMemberTimeoutMs = 300'000;
// Of a client id or an instance id in front of a member id, which is a string of at most 32,767.
constexpr size_t kMemberIdPrefixMax = 1024;
// The first versions with MEMBER_ID_REQUIRED in JoinGroup, and with a list of members in
// LeaveGroup.
constexpr int16_t kMemberIdRequiredFrom = 4;
constexpr int16_t kLeaveManyFrom = 3;

JoinGroupResponse JoinError(const std::string& member_id, ErrorCode error) {
  JoinGroupResponse response;
  response.error_code = error;
  response.member_id = member_id;
  return response;
}

SyncGroupResponse SyncError(ErrorCode error) {
  SyncGroupResponse response;
  response.error_code = error;
  return response;
}

std::vector<GroupProtocol> Copied(const std::vector<JoinGroupRequest::Protocol>& protocols) {
  std::vector<GroupProtocol> copied;
  for (const JoinGroupRequest::Protocol& each : protocols) {
    // A slice would keep the whole frame for as long as the member is there.
    copied.push_back({each.name, Bytes::Copy(each.metadata.view())});
  }
  return copied;
}

bool SameProtocols(const std::vector<GroupProtocol>& have,
                   const std::vector<JoinGroupRequest::Protocol>& sent) {
  return std::equal(have.begin(), have.end(), sent.begin(), sent.end(),
                    [](const GroupProtocol& a, const JoinGroupRequest::Protocol& b) {
                      return a.name == b.name && a.metadata == b.metadata;
                    });
}

ErrorCode GroupWriteError(ErrorCode append_error) {
  switch (append_error) {
    case ErrorCode::kRequestTimedOut:
      return ErrorCode::kRebalanceInProgress;
    case ErrorCode::kMessageTooLarge:
    case ErrorCode::kRecordListTooLarge:
    case ErrorCode::kInvalidFetchSize:
      return ErrorCode::kUnknownServerError;
    default:
      return CoordinatorError(append_error);
  }
}

}  // namespace

// ---- JoinGroup ----------------------------------------------------------------------------------

ErrorCode Groups::Impl::CheckJoin(const JoinGroupRequest& request) const {
  if (request.session_timeout_ms < options_.session_timeout_min_ms ||
      request.session_timeout_ms > options_.session_timeout_max_ms) {
    return ErrorCode::kInvalidSessionTimeout;
  }
  if (request.protocols.size() > options_.member_protocols_max) return ErrorCode::kInvalidRequest;
  size_t bytes = request.protocol_type.size() + request.group_instance_id.value_or("").size();
  absl::btree_set<std::string_view> names;
  for (const JoinGroupRequest::Protocol& protocol : request.protocols) {
    bytes += protocol.name.size() + protocol.metadata.size();
    if (!names.insert(protocol.name).second) return ErrorCode::kInvalidRequest;
  }
  return bytes > options_.member_bytes_max ? ErrorCode::kInvalidRequest : ErrorCode::kNone;
}

void Groups::Impl::Handle(const Call& call, const JoinGroupRequest& request) {
  const auto refuse = [&](ErrorCode error) { Reply(call.id, JoinError(request.member_id, error)); };
  const Located at = Locate(request.group_id, /*may_be_empty=*/false);
  if (at.error != ErrorCode::kNone) return refuse(at.error);
  if (const ErrorCode error = CheckJoin(request); error != ErrorCode::kNone) return refuse(error);
  Group* group = Find(at, request.group_id);
  if (group == nullptr) {
    if (!request.member_id.empty()) return refuse(ErrorCode::kUnknownMemberId);
    group = Create(at, request.group_id);
    if (group == nullptr) return refuse(ErrorCode::kCoordinatorNotAvailable);
  }
  const GroupRef ref = RefOf(*group);
  if (group->state() == GroupState::kDead) {
    refuse(ErrorCode::kCoordinatorNotAvailable);
  } else if (!group->HasRoomFor(request.member_id, static_cast<size_t>(options_.group_size_max))) {
    if (group->FindMember(request.member_id) != nullptr) RemoveMember(group, request.member_id);
    if (group->pending_members.contains(request.member_id)) {
      RemovePending(group, request.member_id);
    }
    refuse(ErrorCode::kGroupMaxSizeReached);
  } else if (!group->Supports(request.protocol_type, request.protocols)) {
    refuse(ErrorCode::kInconsistentGroupProtocol);
  } else if (request.member_id.empty()) {
    JoinNew(call, request, group);
  } else {
    JoinKnown(call, request, group);
  }
  EraseIfVoid(ref);
}

std::string Groups::Impl::NewMemberId(const Call& call, const JoinGroupRequest& request) {
  // 122 random bits, written as a UUID of version 4.
  const uint64_t high = (random_.Next() & ~uint64_t{0xf000}) | 0x4000;
  const uint64_t low = (random_.Next() & ~(uint64_t{3} << 62)) | uint64_t{1} << 63;
  std::string id = request.group_instance_id.value_or(call.client_id).substr(0, kMemberIdPrefixMax);
  constexpr char kDigits[] = "0123456789abcdef";
  for (int i = 0; i < 32; ++i) {
    if (i == 0 || i == 8 || i == 12 || i == 16 || i == 20) id += '-';
    id += kDigits[((i < 16 ? high : low) >> (60 - i % 16 * 4)) & 15];
  }
  return id;
}

void Groups::Impl::JoinNew(const Call& call, const JoinGroupRequest& request, Group* group) {
  const std::string id = NewMemberId(call, request);
  if (request.group_instance_id.has_value()) {
    GroupMember* member = group->FindStatic(*request.group_instance_id);
    if (member != nullptr) return ReplaceStatic(call, request, member, id, group);
    return AddMember(call, request, id, group);
  }
  if (call.version < kMemberIdRequiredFrom) return AddMember(call, request, id, group);
  // A client whose request times out would join again and again as somebody else, and a rebalance
  // would wait for all of them: so it has to come back with its id first (KIP-394).
  if (group->pending_members.size() >= static_cast<size_t>(options_.group_size_max)) {
    return Reply(call.id, JoinError("", ErrorCode::kCoordinatorNotAvailable));
  }
  timers_.Set(&group->pending_members[id], After(request.session_timeout_ms), group->partition(),
              group->name(), Kind::kPendingMember, id);
  Reply(call.id, JoinError(id, ErrorCode::kMemberIdRequired));
}

void Groups::Impl::JoinKnown(const Call& call, const JoinGroupRequest& request, Group* group) {
  auto pending = group->pending_members.find(request.member_id);
  if (pending != group->pending_members.end()) {
    // Ids are given out beforehand to dynamic members only.
    if (request.group_instance_id.has_value()) {
      return Reply(call.id, JoinError(request.member_id, ErrorCode::kUnknownMemberId));
    }
    timers_.Cancel(&pending->second);
    group->pending_members.erase(pending);
    return AddMember(call, request, request.member_id, group);
  }
  GroupMember* member = nullptr;
  const ErrorCode error = FindMember(group, request.member_id, request.group_instance_id, &member);
  if (error != ErrorCode::kNone) return Reply(call.id, JoinError(request.member_id, error));
  switch (group->state()) {
    case GroupState::kPreparingRebalance:
      return Rejoin(call, request, member, group);
    case GroupState::kCompletingRebalance:
      // The answer got lost, or the member wants something else than it did.
      if (!SameProtocols(member->protocols, request.protocols)) {
        return Rejoin(call, request, member, group);
      }
      break;
    case GroupState::kStable:
      // A leader that joins again has seen that the topics changed.
      if (group->IsLeader(member->id) || !SameProtocols(member->protocols, request.protocols)) {
        return Rejoin(call, request, member, group);
      }
      break;
    case GroupState::kEmpty:
    case GroupState::kDead:
      LS_UNREACHABLE();  // without members
  }
  JoinGroupResponse answer = JoinAnswer(*group, *member);
  if (group->state() == GroupState::kStable) answer.members.clear();
  Touch(group, member);
  Reply(call.id, std::move(answer));
}

void Groups::Impl::AddMember(const Call& call, const JoinGroupRequest& request,
                             const std::string& id, Group* group) {
  if (group->generation() == 0) group->joined_in_delay = true;  // PrepareRebalance() clears it
  GroupMember member;
  member.id = id;
  member.instance_id = request.group_instance_id;
  member.client_id = call.client_id;
  member.client_host = call.client_host;
  member.protocols = Copied(request.protocols);
  member.is_new = true;
  member.join = call.id;
  GroupMember* added = group->Add(std::move(member), request.protocol_type);
  added->session_timeout_ms = request.session_timeout_ms;
  added->rebalance_timeout_ms =
      request.rebalance_timeout_ms > 0 ? request.rebalance_timeout_ms : request.session_timeout_ms;
  timers_.Set(&added->session, After(kNewMemberTimeoutMs), group->partition(), group->name(),
              Kind::kSession, id);
  if (group->state() != GroupState::kPreparingRebalance) return PrepareRebalance(group);
  CompleteJoinIfAllHaveJoined(group);
}

void Groups::Impl::Update(const JoinGroupRequest& request, GroupMember* member, Group* group) {
  if (!SameProtocols(member->protocols, request.protocols)) {
    group->SetProtocols(member, Copied(request.protocols));
  }
  member->session_timeout_ms = request.session_timeout_ms;
  member->rebalance_timeout_ms =
      request.rebalance_timeout_ms > 0 ? request.rebalance_timeout_ms : request.session_timeout_ms;
}

void Groups::Impl::Rejoin(const Call& call, const JoinGroupRequest& request, GroupMember* member,
                          Group* group) {
  // A member has one request under way; of an earlier one its connection is gone. But were it not,
  // no request may stay without an answer.
  ReplyJoin(member, JoinError(member->id, ErrorCode::kRebalanceInProgress));
  Update(request, member, group);
  member->join = call.id;
  if (group->state() != GroupState::kPreparingRebalance) return PrepareRebalance(group);
  CompleteJoinIfAllHaveJoined(group);
}

// The static member has started anew, and does not know the id of its former life. Who still uses
// that one is fenced.
void Groups::Impl::ReplaceStatic(const Call& call, const JoinGroupRequest& request,
                                 GroupMember* member, const std::string& new_id, Group* group) {
  const std::string old_leader = group->leader();
  ReplyJoin(member, JoinError(member->id, ErrorCode::kFencedInstanceId));
  ReplySync(member, SyncError(ErrorCode::kFencedInstanceId));
  timers_.Cancel(&member->session);
  member = group->Rename(member->id, new_id);
  member->client_id = call.client_id;
  member->client_host = call.client_host;
  member->is_new = false;
  Update(request, member, group);
  Touch(group, member);
  switch (group->state()) {
    case GroupState::kStable: {
      if (group->ChooseProtocol() != group->protocol()) break;
      // The point of static membership: nothing moves. The new id must be in the log before it is
      // told, or a new coordinator would not know it. As leader the member gets no list of members
      // and the id of its former self as that of the leader: it has no assignment to make.
      JoinGroupResponse answer = JoinAnswer(*group, *member);
      answer.leader = old_leader;
      answer.members.clear();
      const GroupRequestId id = call.id;
      const GroupRef ref = RefOf(*group);
      return WriteGroup(group, group->ToValue(), [this, id, ref, answer](ErrorCode error) {
        const Group* same = Find(ref);
        // The others may have gone on to a generation of which this member is to be told first.
        if (error == ErrorCode::kNone && same != nullptr &&
            same->generation() != answer.generation_id) {
          error = ErrorCode::kRebalanceInProgress;
        }
        // After an error the client comes again without an id, and replaces what is here now.
        Reply(id, error == ErrorCode::kNone ? answer : JoinError("", error));
      });
    }
    case GroupState::kCompletingRebalance:
      // The leader may have been told the former id, and would assign to it.
    case GroupState::kPreparingRebalance:
      break;
    case GroupState::kEmpty:
    case GroupState::kDead:
      LS_UNREACHABLE();  // without members
  }
  member->join = call.id;
  if (group->state() != GroupState::kPreparingRebalance) return PrepareRebalance(group);
  CompleteJoinIfAllHaveJoined(group);
}

JoinGroupResponse Groups::Impl::JoinAnswer(const Group& group, const GroupMember& member) const {
  JoinGroupResponse answer;
  answer.generation_id = group.generation();
  answer.protocol_type = group.protocol_type();
  answer.protocol_name = group.protocol();
  answer.leader = group.leader();
  answer.member_id = member.id;
  if (!group.IsLeader(member.id)) return answer;
  for (const auto& [id, each] : group.members()) {
    const Bytes* metadata = each.MetadataFor(*group.protocol());
    LS_CHECK(metadata != nullptr);
    answer.members.push_back({id, each.instance_id, *metadata});
  }
  return answer;
}

void Groups::Impl::ReplyJoin(GroupMember* member, JoinGroupResponse response) {
  if (!member->join.has_value()) return;
  response.member_id = member->id;
  Reply(*std::exchange(member->join, std::nullopt), std::move(response));
}

// ---- SyncGroup ----------------------------------------------------------------------------------

void Groups::Impl::Handle(const Call& call, const SyncGroupRequest& request) {
  const auto refuse = [&](ErrorCode error) { Reply(call.id, SyncError(error)); };
  const Located at = Locate(request.group_id, /*may_be_empty=*/false);
  // The rebalance that this belongs to is lost: to join again is what is left to do. Older clients
  // do not expect to be told of the loading here.
  if (at.error == ErrorCode::kCoordinatorLoadInProgress) {
    return refuse(ErrorCode::kRebalanceInProgress);
  }
  if (at.error != ErrorCode::kNone) return refuse(at.error);
  Group* group = Find(at, request.group_id);
  if (group == nullptr) return refuse(ErrorCode::kUnknownMemberId);
  if (group->state() == GroupState::kDead) return refuse(ErrorCode::kCoordinatorNotAvailable);
  GroupMember* member = nullptr;
  const ErrorCode error = FindMember(group, request.member_id, request.group_instance_id, &member);
  if (error != ErrorCode::kNone) return refuse(error);
  if (request.generation_id != group->generation()) return refuse(ErrorCode::kIllegalGeneration);
  if ((request.protocol_type.has_value() && request.protocol_type != group->protocol_type()) ||
      (request.protocol_name.has_value() && request.protocol_name != group->protocol())) {
    return refuse(ErrorCode::kInconsistentGroupProtocol);
  }
  switch (group->state()) {
    case GroupState::kPreparingRebalance:
      return refuse(ErrorCode::kRebalanceInProgress);
    case GroupState::kCompletingRebalance:
      ReplySync(member, SyncError(ErrorCode::kRebalanceInProgress));  // see Rejoin()
      member->sync = call.id;
      break;
    case GroupState::kStable:
      Reply(call.id, SyncAnswer(*group, *member));
      Touch(group, member);
      break;
    case GroupState::kEmpty:
    case GroupState::kDead:
      LS_UNREACHABLE();  // without members
  }
  member->owes_sync = false;
  if (group->AllHaveSynced()) timers_.Cancel(&group->sync_deadline);
  if (group->state() == GroupState::kCompletingRebalance && group->IsLeader(member->id) &&
      !group->assigning) {
    Assign(group, request);
  }
}

// The leader's word. It is told to members only when it is in the log: a new coordinator will then
// say the same to those who ask later.
void Groups::Impl::Assign(Group* group, const SyncGroupRequest& request) {
  absl::btree_map<std::string, Bytes> assignments;
  size_t bytes = 0;
  bool too_large = false;
  for (const SyncGroupRequest::Assignment& each : request.assignments) {
    if (group->FindMember(each.member_id) == nullptr) continue;
    if (each.assignment.size() > options_.member_bytes_max) too_large = true;
    bytes += each.assignment.size();
    // All are bounded together before any is copied.
    if (bytes > options_.batch_bytes_max) too_large = true;
    if (too_large) break;
    assignments[each.member_id] = Bytes::Copy(each.assignment.view());
  }
  const GroupRef ref = RefOf(*group);
  const int32_t generation = group->generation();
  group->assigning = true;
  if (too_large) return OnAssigned(ref, generation, {}, ErrorCode::kUnknownServerError);
  GroupValue value = group->ToValue();
  value.state_timestamp = unix_ms();  // when it becomes Stable
  for (GroupMemberValue& member : value.members) {
    auto found = assignments.find(member.id);
    // The leader may have nothing for a member.
    member.assignment = found == assignments.end() ? Bytes() : found->second;
  }
  WriteGroup(group, value, [this, ref, generation, assignments](ErrorCode error) {
    OnAssigned(ref, generation, assignments, error);
  });
}

void Groups::Impl::OnAssigned(const GroupRef& ref, int32_t generation,
                              const absl::btree_map<std::string, Bytes>& assignments,
                              ErrorCode error) {
  Group* group = Find(ref);
  // The group may have gone on meanwhile: to another rebalance.
  if (group == nullptr || group->state() != GroupState::kCompletingRebalance ||
      group->generation() != generation || !group->assigning) {
    return;
  }
  if (error != ErrorCode::kNone) {
    FailSyncs(group, error);
    return PrepareRebalance(group);
  }
  group->BecomeStable(unix_ms());
  for (auto& [id, member] : group->members()) {
    auto found = assignments.find(id);
    member.assignment = found == assignments.end() ? Bytes() : found->second;
    if (!member.sync.has_value()) continue;
    ReplySync(&member, SyncAnswer(*group, member));
    // While it waited its session did not end, and the deadline may have passed.
    Touch(group, &member);
  }
}

void Groups::Impl::FailSyncs(Group* group, ErrorCode error) {
  for (auto& [id, member] : group->members()) {
    member.assignment = Bytes();
    if (!member.sync.has_value()) continue;
    ReplySync(&member, SyncError(error));
    Touch(group, &member);
  }
}

SyncGroupResponse Groups::Impl::SyncAnswer(const Group& group, const GroupMember& member) const {
  SyncGroupResponse answer;
  answer.protocol_type = group.protocol_type();
  answer.protocol_name = group.protocol();
  answer.assignment = member.assignment;
  return answer;
}

void Groups::Impl::ReplySync(GroupMember* member, SyncGroupResponse response) {
  if (!member->sync.has_value()) return;
  Reply(*std::exchange(member->sync, std::nullopt), std::move(response));
}

void Groups::Impl::WriteGroup(Group* group, const GroupValue& value, Done done) {
  size_t bytes = group->ContentBytes();
  for (const GroupMemberValue& member : value.members) bytes += member.assignment.size();
  // Before it is encoded; what is exact comes after.
  if (bytes > 2 * size_t{options_.batch_bytes_max}) return done(ErrorCode::kUnknownServerError);
  std::vector<KeyValue> records = {{EncodeGroupKey(group->name()), EncodeGroupValue(value)}};
  if (!FitsBatch(records)) return done(ErrorCode::kUnknownServerError);
  group->has_record = true;
  Append(*group, records, [done](uint64_t, ErrorCode error) { done(GroupWriteError(error)); });
}

// ---- Heartbeat and LeaveGroup -------------------------------------------------------------------

void Groups::Impl::Handle(const Call& call, const HeartbeatRequest& request) {
  const auto reply = [&](ErrorCode error) {
    HeartbeatResponse response;
    response.error_code = error;
    Reply(call.id, std::move(response));
  };
  const Located at = Locate(request.group_id, /*may_be_empty=*/false);
  // Nothing is known yet, so nothing is wrong: sessions begin anew when all is loaded.
  if (at.error == ErrorCode::kCoordinatorLoadInProgress) return reply(ErrorCode::kNone);
  if (at.error != ErrorCode::kNone) return reply(at.error);
  Group* group = Find(at, request.group_id);
  if (group == nullptr) return reply(ErrorCode::kUnknownMemberId);
  if (group->state() == GroupState::kDead) return reply(ErrorCode::kCoordinatorNotAvailable);
  GroupMember* member = nullptr;
  const ErrorCode error = FindMember(group, request.member_id, request.group_instance_id, &member);
  if (error != ErrorCode::kNone) return reply(error);
  if (request.generation_id != group->generation()) return reply(ErrorCode::kIllegalGeneration);
  Touch(group, member);
  // Between JoinGroup and SyncGroup a heartbeat is as good as any.
  reply(group->state() == GroupState::kPreparingRebalance ? ErrorCode::kRebalanceInProgress
                                                          : ErrorCode::kNone);
}

void Groups::Impl::Handle(const Call& call, const LeaveGroupRequest& request) {
  const Located at = Locate(request.group_id, /*may_be_empty=*/false);
  LeaveGroupResponse response;
  response.error_code = at.error;
  if (at.error != ErrorCode::kNone) return Reply(call.id, std::move(response));
  Group* group = Find(at, request.group_id);
  if (group != nullptr && group->state() == GroupState::kDead) {
    response.error_code = ErrorCode::kCoordinatorNotAvailable;
    return Reply(call.id, std::move(response));
  }
  const auto leave = [&](const std::string& id, const std::optional<std::string>& instance_id) {
    return group == nullptr ? ErrorCode::kUnknownMemberId : Leave(group, id, instance_id);
  };
  if (call.version < kLeaveManyFrom) {
    response.error_code = leave(request.member_id, std::nullopt);
  } else {
    for (const LeaveGroupRequest::Member& each : request.members) {
      const ErrorCode error = leave(each.member_id, each.group_instance_id);
      response.members.push_back({each.member_id, each.group_instance_id, error});
    }
  }
  Reply(call.id, std::move(response));
  if (group != nullptr) EraseIfVoid(RefOf(*group));
}

ErrorCode Groups::Impl::Leave(Group* group, const std::string& id,
                              const std::optional<std::string>& instance_id) {
  // An administrator removes a static member by its instance id alone.
  if (id.empty() && instance_id.has_value()) {
    const GroupMember* member = group->FindStatic(*instance_id);
    if (member == nullptr) return ErrorCode::kUnknownMemberId;
    RemoveMember(group, std::string(member->id));
    return ErrorCode::kNone;
  }
  if (group->pending_members.contains(id)) {
    if (instance_id.has_value()) return ErrorCode::kUnknownMemberId;
    RemovePending(group, id);
    return ErrorCode::kNone;
  }
  GroupMember* member = nullptr;
  const ErrorCode error = FindMember(group, id, instance_id, &member);
  if (error == ErrorCode::kNone) RemoveMember(group, id);
  return error;
}

// ---- Members ------------------------------------------------------------------------------------

ErrorCode Groups::Impl::FindMember(Group* group, const std::string& id,
                                   const std::optional<std::string>& instance_id,
                                   GroupMember** member) {
  if (instance_id.has_value()) {
    const GroupMember* owner = group->FindStatic(*instance_id);
    if (owner == nullptr) return ErrorCode::kUnknownMemberId;
    if (owner->id != id) return ErrorCode::kFencedInstanceId;
  }
  *member = group->FindMember(id);
  return *member == nullptr ? ErrorCode::kUnknownMemberId : ErrorCode::kNone;
}

void Groups::Impl::Touch(Group* group, GroupMember* member) {
  timers_.Set(&member->session, After(member->session_timeout_ms), group->partition(),
              group->name(), Kind::kSession, member->id);
}

void Groups::Impl::DropMember(Group* group, const std::string& id) {
  GroupMember* member = group->FindMember(id);
  LS_CHECK(member != nullptr);
  // If it is there after all it may join again, as a new member.
  ReplyJoin(member, JoinError(id, ErrorCode::kUnknownMemberId));
  ReplySync(member, SyncError(ErrorCode::kUnknownMemberId));
  timers_.Cancel(&member->session);
  group->Remove(id);
}

void Groups::Impl::RemoveMember(Group* group, const std::string& id) {
  DropMember(group, id);
  switch (group->state()) {
    case GroupState::kCompletingRebalance:
    case GroupState::kStable:
      return PrepareRebalance(group);
    case GroupState::kPreparingRebalance:
      return CompleteJoinIfAllHaveJoined(group);
    case GroupState::kEmpty:
    case GroupState::kDead:
      LS_UNREACHABLE();  // without members
  }
}

void Groups::Impl::RemovePending(Group* group, const std::string& id) {
  auto found = group->pending_members.find(id);
  LS_CHECK(found != group->pending_members.end());
  timers_.Cancel(&found->second);
  group->pending_members.erase(found);
  CompleteJoinIfAllHaveJoined(group);
}

void Groups::Impl::OnSessionDeadline(Group* group, const std::string& id) {
  const GroupMember* member = group->FindMember(id);
  // Who waits for an answer of ours cannot send heartbeats. Its session begins anew with the
  // answer. A new member's wait is bounded: see kNewMemberTimeoutMs.
  if (!member->is_new && (member->join.has_value() || member->sync.has_value())) return;
  Report(EventKind::kGroupMemberExpired, static_cast<uint64_t>(group->generation()), "",
         group->name() + "/" + id);
  RemoveMember(group, id);
}

// ---- Rebalances ---------------------------------------------------------------------------------

void Groups::Impl::PrepareRebalance(Group* group) {
  if (group->state() == GroupState::kCompletingRebalance) {
    FailSyncs(group, ErrorCode::kRebalanceInProgress);
  }
  timers_.Cancel(&group->sync_deadline);
  for (auto& [id, member] : group->members()) member.owes_sync = false;
  int32_t wait = group->RebalanceTimeoutMs();
  // Members of a service start one after another; each would cost the others a rebalance
  // (KIP-134).
  group->initial_delay = group->state() == GroupState::kEmpty;
  group->joined_in_delay = false;
  if (group->initial_delay) {
    const int32_t delay = options_.initial_rebalance_delay_ms;
    group->initial_delay_left = Milliseconds(std::max(wait - delay, 0));
    wait = delay;
  }
  group->BecomePreparing(unix_ms());
  timers_.Cancel(&group->rebalance_deadline);
  timers_.Set(&group->rebalance_deadline, After(wait), group->partition(), group->name(),
              Kind::kRebalance, "");
  CompleteJoinIfAllHaveJoined(group);
}

void Groups::Impl::OnRebalanceDeadline(Group* group) {
  LS_CHECK(group->state() == GroupState::kPreparingRebalance);
  if (group->initial_delay && group->joined_in_delay && group->initial_delay_left.ns > 0) {
    const Duration more =
        std::min(Milliseconds(options_.initial_rebalance_delay_ms), group->initial_delay_left);
    group->joined_in_delay = false;
    group->initial_delay_left = group->initial_delay_left - more;
    return timers_.Set(&group->rebalance_deadline, now_ + more, group->partition(), group->name(),
                       Kind::kRebalance, "");
  }
  CompleteJoin(group);
}

void Groups::Impl::CompleteJoinIfAllHaveJoined(Group* group) {
  if (group->state() != GroupState::kPreparingRebalance || group->initial_delay) return;
  if (group->AllHaveJoined()) CompleteJoin(group);
}

void Groups::Impl::CompleteJoin(Group* group) {
  std::vector<std::string> missing;
  for (const auto& [id, member] : group->members()) {
    // A static member may be away for a session.
    if (!member.join.has_value() && !member.instance_id.has_value()) missing.push_back(id);
  }
  for (const std::string& id : missing) DropMember(group, id);
  group->initial_delay = false;
  timers_.Cancel(&group->rebalance_deadline);
  if (!group->members().empty() && !group->ElectLeader()) {
    // Static members alone are left, all of them away: who shall assign? The sessions decide.
    return timers_.Set(&group->rebalance_deadline, After(group->RebalanceTimeoutMs()),
                       group->partition(), group->name(), Kind::kRebalance, "");
  }
  group->BecomeNextGeneration(unix_ms());
  Report(EventKind::kGroupGeneration, static_cast<uint64_t>(group->generation()), "",
         group->name());
  if (group->state() == GroupState::kEmpty) {
    // So that the generation goes on from here, whoever is coordinator; and so that the retention
    // of its offsets begins. If it fails, the older record has the group Stable, and the sessions
    // of its members end in time.
    return WriteGroup(group, group->ToValue(), [](ErrorCode) {});
  }
  for (auto& [id, member] : group->members()) {
    if (!member.join.has_value()) continue;
    ReplyJoin(&member, JoinAnswer(*group, member));
    member.is_new = false;
    member.owes_sync = true;
    Touch(group, &member);
  }
  timers_.Set(&group->sync_deadline, After(group->RebalanceTimeoutMs()), group->partition(),
              group->name(), Kind::kSync, "");
}

// Who has joined and does not ask for its assignment would keep the others waiting, as leader, or
// keep what it was assigned.
void Groups::Impl::OnSyncDeadline(Group* group) {
  std::vector<std::string> owing;
  for (const auto& [id, member] : group->members()) {
    if (member.owes_sync) owing.push_back(id);
  }
  LS_CHECK(!owing.empty());
  for (const std::string& id : owing) DropMember(group, id);
  PrepareRebalance(group);
}

}  // namespace lockstep::kafka
