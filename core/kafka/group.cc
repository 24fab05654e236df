#include "core/kafka/group.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/kafka/frame.h"

namespace lockstep::kafka {

std::string_view GroupStateName(GroupState state) {
  switch (state) {
    case GroupState::kEmpty:
      return "Empty";
    case GroupState::kPreparingRebalance:
      return "PreparingRebalance";
    case GroupState::kCompletingRebalance:
      return "CompletingRebalance";
    case GroupState::kStable:
      return "Stable";
    case GroupState::kDead:
      return "Dead";
  }
  LS_UNREACHABLE();
}

const Bytes* GroupMember::MetadataFor(std::string_view protocol) const {
  for (const GroupProtocol& each : protocols) {
    if (each.name == protocol) return &each.metadata;
  }
  return nullptr;
}

// ---- State --------------------------------------------------------------------------------------

void Group::BecomeState(GroupState state, int64_t unix_ms) {
  state_ = state;
  state_timestamp_ = unix_ms;
}

void Group::BecomePreparing(int64_t unix_ms) {
  LS_CHECK(state_ == GroupState::kEmpty || state_ == GroupState::kStable ||
           state_ == GroupState::kCompletingRebalance);
  assigning = false;
  BecomeState(GroupState::kPreparingRebalance, unix_ms);
}

void Group::BecomeNextGeneration(int64_t unix_ms) {
  LS_CHECK(state_ == GroupState::kPreparingRebalance);
  generation_ = generation_ == INT32_MAX ? 1 : generation_ + 1;
  assigning = false;
  if (members_.empty()) {
    protocol_.reset();
    leader_.clear();
    return BecomeState(GroupState::kEmpty, unix_ms);
  }
  protocol_ = ChooseProtocol();
  BecomeState(GroupState::kCompletingRebalance, unix_ms);
}

void Group::BecomeStable(int64_t unix_ms) {
  LS_CHECK(state_ == GroupState::kCompletingRebalance);
  assigning = false;
  BecomeState(GroupState::kStable, unix_ms);
}

void Group::BecomeDead(int64_t unix_ms) {
  LS_CHECK(state_ == GroupState::kEmpty && members_.empty());
  BecomeState(GroupState::kDead, unix_ms);
}

void Group::BecomeEmptyAgain(int64_t unix_ms) {
  LS_CHECK(state_ == GroupState::kDead);
  BecomeState(GroupState::kEmpty, unix_ms);
}

// ---- Members ------------------------------------------------------------------------------------

GroupMember* Group::FindMember(const std::string& id) {
  auto found = members_.find(id);
  return found == members_.end() ? nullptr : &found->second;
}

GroupMember* Group::FindStatic(const std::string& instance_id) {
  auto found = static_members_.find(instance_id);
  return found == static_members_.end() ? nullptr : FindMember(found->second);
}

void Group::Count(const GroupMember& member, int change) {
  for (const GroupProtocol& protocol : member.protocols) {
    auto entry = supporters_.try_emplace(protocol.name, size_t{0}).first;
    if (change > 0) {
      ++entry->second;
    } else if (--entry->second == 0) {
      supporters_.erase(entry);
    }
  }
}

GroupMember* Group::Add(GroupMember member, const std::string& protocol_type) {
  if (members_.empty()) protocol_type_ = protocol_type;
  if (leader_.empty()) leader_ = member.id;
  if (member.instance_id.has_value()) static_members_[*member.instance_id] = member.id;
  Count(member, 1);
  const std::string id = member.id;
  auto [entry, inserted] = members_.emplace(id, std::move(member));
  LS_CHECK(inserted);
  return &entry->second;
}

void Group::Remove(const std::string& id) {
  auto found = members_.find(id);
  LS_CHECK(found != members_.end());
  Count(found->second, -1);
  if (found->second.instance_id.has_value()) static_members_.erase(*found->second.instance_id);
  members_.erase(found);
  if (leader_ == id) leader_ = members_.empty() ? "" : members_.begin()->first;
}

void Group::SetProtocols(GroupMember* member, std::vector<GroupProtocol> protocols) {
  Count(*member, -1);
  member->protocols = std::move(protocols);
  Count(*member, 1);
}

GroupMember* Group::Rename(const std::string& id, const std::string& new_id) {
  auto node = members_.extract(id);
  LS_CHECK(!node.empty() && node.mapped().instance_id.has_value());
  node.key() = new_id;
  node.mapped().id = new_id;
  static_members_[*node.mapped().instance_id] = new_id;
  if (leader_ == id) leader_ = new_id;
  auto inserted = members_.insert(std::move(node));
  LS_CHECK(inserted.inserted);
  return &inserted.position->second;
}

bool Group::Supports(const std::string& protocol_type,
                     const std::vector<JoinGroupRequest::Protocol>& protocols) const {
  if (protocol_type.empty() || protocols.empty()) return false;
  if (members_.empty()) return true;
  if (protocol_type != protocol_type_) return false;
  return std::any_of(protocols.begin(), protocols.end(), [&](const auto& protocol) {
    auto found = supporters_.find(protocol.name);
    return found != supporters_.end() && found->second == members_.size();
  });
}

size_t Group::joined() const {
  return static_cast<size_t>(std::count_if(
      members_.begin(), members_.end(), [](const auto& m) { return m.second.join.has_value(); }));
}

bool Group::HasRoomFor(const std::string& id, size_t size_max) const {
  auto found = members_.find(id);
  switch (state_) {
    case GroupState::kEmpty:
    case GroupState::kDead:
      return true;
    case GroupState::kPreparingRebalance:
      // Of a group that is too large (the bound was lowered) those may stay who come first.
      if (found != members_.end() && found->second.join.has_value()) return true;
      return joined() < size_max;
    case GroupState::kCompletingRebalance:
    case GroupState::kStable:
      return found != members_.end() || members_.size() < size_max;
  }
  LS_UNREACHABLE();
}

bool Group::AllHaveJoined() const {
  return pending_members.empty() &&
         std::all_of(members_.begin(), members_.end(),
                     [](const auto& m) { return m.second.join.has_value(); });
}

bool Group::AllHaveSynced() const {
  return std::none_of(members_.begin(), members_.end(),
                      [](const auto& m) { return m.second.owes_sync; });
}

bool Group::ElectLeader() {
  const GroupMember* leader = FindMember(leader_);
  if (leader != nullptr && leader->join.has_value()) return true;
  for (const auto& [id, member] : members_) {
    if (!member.join.has_value()) continue;
    leader_ = id;
    return true;
  }
  return false;
}

int32_t Group::RebalanceTimeoutMs() const {
  int32_t timeout = 1;
  for (const auto& [id, member] : members_) {
    timeout = std::max(timeout, member.rebalance_timeout_ms);
  }
  return timeout;
}

std::string Group::ChooseProtocol() const {
  LS_CHECK(!members_.empty());
  absl::btree_map<std::string, size_t> votes;
  for (const auto& [id, member] : members_) {
    for (const GroupProtocol& protocol : member.protocols) {
      if (supporters_.at(protocol.name) != members_.size()) continue;
      ++votes[protocol.name];
      break;
    }
  }
  // Nobody joins without a protocol in common with all, and none is lost by leaving.
  LS_CHECK(!votes.empty());
  auto best = votes.begin();
  for (auto each = votes.begin(); each != votes.end(); ++each) {
    if (each->second > best->second) best = each;
  }
  return best->first;
}

size_t Group::ContentBytes() const {
  size_t bytes = 0;
  for (const auto& [id, member] : members_) {
    const Bytes* metadata = protocol_.has_value() ? member.MetadataFor(*protocol_) : nullptr;
    bytes += id.size() + member.client_id.size() + member.client_host.size() +
             member.instance_id.value_or("").size() + member.assignment.size() +
             (metadata == nullptr ? 0 : metadata->size());
  }
  return bytes;
}

bool Group::SubscribesTo(const std::string& topic) const {
  if (!protocol_.has_value()) return true;
  for (const auto& [id, member] : members_) {
    const Bytes* metadata = member.MetadataFor(*protocol_);
    if (metadata == nullptr) return true;
    Reader reader(*metadata);
    const int16_t version = std::min(reader.ReadInt16(), ConsumerProtocolSubscription::kVersionMax);
    ConsumerProtocolSubscription subscription;
    // What cannot be read may be a subscription to anything.
    if (!reader.ok() || version < 0 || !Decode(&reader, version, &subscription).ok()) return true;
    for (const std::string& each : subscription.topics) {
      if (each == topic) return true;
    }
  }
  return false;
}

// ---- What is in the log -------------------------------------------------------------------------

GroupValue Group::ToValue() const {
  GroupValue value;
  value.protocol_type = protocol_type_.value_or("");
  value.generation = generation_;
  value.protocol = protocol_;
  if (!leader_.empty()) value.leader = leader_;
  value.state_timestamp = state_timestamp_.value_or(-1);
  for (const auto& [id, member] : members_) {
    const Bytes* metadata = protocol_.has_value() ? member.MetadataFor(*protocol_) : nullptr;
    value.members.push_back({.id = id,
                             .instance_id = member.instance_id,
                             .client_id = member.client_id,
                             .client_host = member.client_host,
                             .rebalance_timeout_ms = member.rebalance_timeout_ms,
                             .session_timeout_ms = member.session_timeout_ms,
                             .subscription = metadata == nullptr ? Bytes() : *metadata,
                             .assignment = member.assignment});
  }
  return value;
}

void Group::Unload() {
  members_.clear();
  static_members_.clear();
  supporters_.clear();
  leader_.clear();
  protocol_.reset();
  protocol_type_.reset();
  state_timestamp_.reset();
  generation_ = 0;
  state_ = GroupState::kEmpty;
  has_record = false;
}

bool Group::Load(const GroupValue& value) {
  std::map<std::string, const GroupMemberValue*> ids;
  std::map<std::string, const GroupMemberValue*> instances;
  for (const GroupMemberValue& member : value.members) {
    if (member.id.empty() || !ids.emplace(member.id, &member).second) return false;
    if (member.instance_id.has_value() && !instances.emplace(*member.instance_id, &member).second) {
      return false;
    }
  }
  if (value.generation < 0) return false;
  if (!ids.empty() && !value.protocol.has_value()) return false;

  Unload();
  has_record = true;
  generation_ = value.generation;
  if (!value.protocol_type.empty()) protocol_type_ = value.protocol_type;
  protocol_ = value.protocol;
  if (value.state_timestamp >= 0) state_timestamp_ = value.state_timestamp;
  if (ids.empty()) {
    protocol_.reset();
    return true;
  }
  for (const GroupMemberValue& member : value.members) {
    Add({.id = member.id,
         .instance_id = member.instance_id,
         .client_id = member.client_id,
         .client_host = member.client_host,
         .session_timeout_ms = std::max(member.session_timeout_ms, 1),
         .rebalance_timeout_ms = std::max(member.rebalance_timeout_ms, 1),
         .protocols = {{*value.protocol, member.subscription}},
         .assignment = member.assignment,
         .join = std::nullopt,
         .sync = std::nullopt,
         .session = {}},
        value.protocol_type);
  }
  if (value.leader.has_value() && ids.contains(*value.leader)) leader_ = *value.leader;
  state_ = GroupState::kStable;
  return true;
}

bool Group::IsVoid() const {
  return state_ == GroupState::kEmpty && !has_record && members_.empty() &&
         pending_members.empty() && offsets.empty() && commits_under_way.empty() && !expiring;
}

}  // namespace lockstep::kafka
