// What tools ask about groups, and deleting them.
#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/strings/match.h"
#include "core/kafka/groups_impl.h"

namespace lockstep::kafka {
namespace {

bool Matches(const std::vector<std::string>& filter, std::string_view state) {
  return filter.empty() || std::any_of(filter.begin(), filter.end(), [&](const std::string& each) {
           return absl::EqualsIgnoreCase(each, absl::string_view(state.data(), state.size()));
         });
}

}  // namespace

DescribeGroupsResponse::Group Groups::Impl::Describe(const std::string& name) {
  DescribeGroupsResponse::Group description;
  description.group_id = name;
  const Located at = Locate(name, /*may_be_empty=*/true);
  description.error_code = at.error;
  if (at.error != ErrorCode::kNone) return description;
  const Group* group = Find(at, name);
  // A group that is not there is no error.
  description.group_state = GroupStateName(group == nullptr ? GroupState::kDead : group->state());
  if (group == nullptr) return description;
  description.protocol_type = group->protocol_type().value_or("");
  const bool stable = group->state() == GroupState::kStable;
  if (stable) description.protocol_data = *group->protocol();
  for (const auto& [id, member] : group->members()) {
    DescribeGroupsResponse::Member& to = description.members.emplace_back();
    to.member_id = id;
    to.group_instance_id = member.instance_id;
    to.client_id = member.client_id;
    to.client_host = member.client_host;
    if (!stable) continue;  // before that nothing is agreed on
    const Bytes* metadata = member.MetadataFor(*group->protocol());
    if (metadata != nullptr) to.member_metadata = *metadata;
    to.member_assignment = member.assignment;
  }
  return description;
}

void Groups::Impl::Handle(const Call& call, const DescribeGroupsRequest& request) {
  DescribeGroupsResponse response;
  // Each once: an answer may be a million times as large as a name.
  absl::btree_set<std::string_view> described;
  for (const std::string& name : request.groups) {
    if (described.insert(name).second) response.groups.push_back(Describe(name));
  }
  Reply(call.id, std::move(response));
}

void Groups::Impl::Handle(const Call& call, const ListGroupsRequest& request) {
  ListGroupsResponse response;
  for (const auto& [number, partition] : led_) {
    // What there is, and that there may be more.
    if (partition.loading) {
      response.error_code = ErrorCode::kCoordinatorLoadInProgress;
      continue;
    }
    for (const auto& [name, group] : partition.groups) {
      const std::string_view state = GroupStateName(group->state());
      if (!Matches(request.states_filter, state)) continue;
      response.groups.push_back({name, group->protocol_type().value_or(""), std::string(state)});
    }
  }
  Reply(call.id, std::move(response));
}

void Groups::Impl::Handle(const Call& call, const DeleteGroupsRequest& request) {
  struct Progress {
    DeleteGroupsResponse response;
    size_t left = 0;
  };
  auto progress = std::make_shared<Progress>();
  progress->response.results.resize(request.groups_names.size());
  progress->left = request.groups_names.size() + 1;
  const GroupRequestId id = call.id;
  const auto finish = [this, progress, id] {
    if (--progress->left == 0) Reply(id, std::move(progress->response));
  };
  for (size_t i = 0; i < request.groups_names.size(); ++i) {
    const std::string& name = request.groups_names[i];
    DeleteGroupsResponse::Group& result = progress->response.results[i];
    result.group_id = name;
    const Located at = Locate(name, /*may_be_empty=*/true);
    Group* group = at.error == ErrorCode::kNone ? Find(at, name) : nullptr;
    if (at.error != ErrorCode::kNone) {
      result.error_code = at.error;
    } else if (group == nullptr || group->state() == GroupState::kDead) {
      result.error_code = ErrorCode::kGroupIdNotFound;
    } else if (group->state() != GroupState::kEmpty) {
      result.error_code = ErrorCode::kNonEmptyGroup;
    } else {
      Delete(group, [progress, i, finish](ErrorCode error) {
        progress->response.results[i].error_code = error;
        finish();
      });
      continue;
    }
    finish();
  }
  finish();
}

}  // namespace lockstep::kafka
