// Committed offsets. An offset counts from when its record is in the log for good, in the epoch in
// which it was appended; before that, and if it fails, the one before it does.
#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/check.h"
#include "core/kafka/groups_impl.h"

namespace lockstep::kafka {
namespace {

constexpr size_t kTopicNameBytesMax = 249;
// OffsetFetch: from this version on a group's error stands beside the topics; and many groups are
// asked for.
constexpr int16_t kFetchErrorFrom = 2;
constexpr int16_t kFetchManyFrom = 8;
constexpr int64_t kNoOffset = -1;
// So many groups are cleaned up at once; the others a second later.
constexpr size_t kExpiredGroupsMax = 256;
constexpr Duration kExpiryPause = Seconds(1);

OffsetCommitResponse CommitAnswer(const OffsetCommitRequest& request, ErrorCode error) {
  OffsetCommitResponse response;
  for (const OffsetCommitRequest::Topic& topic : request.topics) {
    OffsetCommitResponse::Topic& to = response.topics.emplace_back();
    to.name = topic.name;
    for (const OffsetCommitRequest::Partition& each : topic.partitions) {
      to.partitions.push_back({each.partition_index, error});
    }
  }
  return response;
}

// Topics of OffsetFetch up to version 7 and from 8 on have the same fields, in other structs.
template <typename Topic, typename AskedTopic>
std::vector<Topic> FetchTopics(const Group* group,
                               const std::optional<std::vector<AskedTopic>>& asked,
                               ErrorCode error) {
  std::vector<Topic> topics;
  const auto add = [&](Topic* topic, int32_t partition, const CommittedOffset* offset) {
    auto& to = topic->partitions.emplace_back();
    to.partition_index = partition;
    to.committed_offset = offset == nullptr ? kNoOffset : offset->value.offset;
    to.committed_leader_epoch = offset == nullptr ? -1 : offset->value.leader_epoch;
    to.metadata = offset == nullptr ? "" : offset->value.metadata;
    to.error_code = error;
  };
  if (!asked.has_value()) {  // all there are
    if (group == nullptr) return topics;
    for (const auto& [key, offset] : group->offsets) {
      if (topics.empty() || topics.back().name != key.first) {
        topics.emplace_back().name = key.first;
      }
      add(&topics.back(), key.second, &offset);
    }
    return topics;
  }
  for (const AskedTopic& topic : *asked) {
    Topic& to = topics.emplace_back();
    to.name = topic.name;
    for (int32_t partition : topic.partition_indexes) {
      const CommittedOffset* offset = nullptr;
      if (group != nullptr) {
        auto found = group->offsets.find({topic.name, partition});
        if (found != group->offsets.end()) offset = &found->second;
      }
      add(&to, partition, offset);
    }
  }
  return topics;
}

template <typename AskedTopic>
size_t Asked(const std::optional<std::vector<AskedTopic>>& topics) {
  size_t count = 0;
  if (!topics.has_value()) return count;
  for (const AskedTopic& topic : *topics) count += topic.partition_indexes.size();
  return count;
}

}  // namespace

// ---- OffsetCommit -------------------------------------------------------------------------------

ErrorCode Groups::Impl::CheckCommit(Group* group, const OffsetCommitRequest& request) {
  const int32_t generation = request.generation_id_or_member_epoch;
  if (group->state() == GroupState::kDead) return ErrorCode::kCoordinatorNotAvailable;
  // Clients that assign partitions to themselves, and tools that set the offsets of a group that
  // nobody is in.
  if (generation < 0 && group->state() == GroupState::kEmpty) return ErrorCode::kNone;
  if (generation < 0 && request.member_id.empty() && !request.group_instance_id.has_value()) {
    return ErrorCode::kUnknownMemberId;
  }
  GroupMember* member = nullptr;
  const ErrorCode error = FindMember(group, request.member_id, request.group_instance_id, &member);
  if (error != ErrorCode::kNone) return error;
  if (generation != group->generation()) return ErrorCode::kIllegalGeneration;
  // The member has the new generation, but not its assignment: what it commits it has no more.
  if (group->state() == GroupState::kCompletingRebalance) return ErrorCode::kRebalanceInProgress;
  // While members are waited for to join again, they commit what they give up.
  Touch(group, member);
  return ErrorCode::kNone;
}

ErrorCode Groups::Impl::CheckCommitted(const Group& group, const std::string& topic,
                                       const OffsetCommitRequest::Partition& partition,
                                       size_t new_offsets) const {
  if (topic.empty() || topic.size() > kTopicNameBytesMax || partition.partition_index < 0) {
    return ErrorCode::kUnknownTopicOrPartition;
  }
  if (partition.committed_metadata.value_or("").size() > options_.metadata_bytes_max) {
    return ErrorCode::kOffsetMetadataTooLarge;
  }
  const size_t offsets = group.offsets.size() + group.commits_under_way.size() + new_offsets;
  if (offsets >= options_.group_offsets_max &&
      !group.offsets.contains({topic, partition.partition_index})) {
    return ErrorCode::kInvalidCommitOffsetSize;
  }
  return ErrorCode::kNone;
}

void Groups::Impl::Handle(const Call& call, const OffsetCommitRequest& request) {
  const auto refuse = [&](ErrorCode error) { Reply(call.id, CommitAnswer(request, error)); };
  const Located at = Locate(request.group_id, /*may_be_empty=*/true);
  if (at.error != ErrorCode::kNone) return refuse(at.error);
  Group* group = Find(at, request.group_id);
  if (group == nullptr) {
    // Of a group of former times.
    if (request.generation_id_or_member_epoch >= 0) return refuse(ErrorCode::kIllegalGeneration);
    group = Create(at, request.group_id);
    if (group == nullptr) return refuse(ErrorCode::kCoordinatorNotAvailable);
  }
  const GroupRef ref = RefOf(*group);
  if (const ErrorCode error = CheckCommit(group, request); error != ErrorCode::kNone) {
    refuse(error);
    return EraseIfVoid(ref);
  }

  OffsetCommitResponse response = CommitAnswer(request, ErrorCode::kNone);
  std::vector<std::pair<Group::OffsetKey, OffsetValue>> offsets;
  std::vector<KeyValue> records;
  const int64_t expires =
      request.retention_time_ms < 0
          ? -1
          : unix_ms() + std::min(request.retention_time_ms, INT64_MAX - unix_ms());
  for (size_t i = 0; i < request.topics.size(); ++i) {
    const OffsetCommitRequest::Topic& topic = request.topics[i];
    for (size_t j = 0; j < topic.partitions.size(); ++j) {
      const OffsetCommitRequest::Partition& each = topic.partitions[j];
      ErrorCode& error = response.topics[i].partitions[j].error_code;
      error = CheckCommitted(*group, topic.name, each, offsets.size());
      if (error != ErrorCode::kNone) continue;
      const OffsetValue value = {.offset = each.committed_offset,
                                 .leader_epoch = each.committed_leader_epoch,
                                 .metadata = each.committed_metadata.value_or(""),
                                 .commit_timestamp = unix_ms(),
                                 .expire_timestamp = expires};
      offsets.push_back({{topic.name, each.partition_index}, value});
      records.push_back({EncodeOffsetKey(group->name(), topic.name, each.partition_index),
                         EncodeOffsetValue(value)});
    }
  }
  if (offsets.empty() || !FitsBatch(records)) {
    // One batch or nothing: half of a commit is none.
    if (!offsets.empty()) response = CommitAnswer(request, ErrorCode::kInvalidCommitOffsetSize);
    Reply(call.id, std::move(response));
    return EraseIfVoid(ref);
  }
  for (const auto& [key, value] : offsets) ++group->commits_under_way[key];
  const GroupRequestId id = call.id;
  Append(*group, records,
         [this, ref, id, offsets, response](uint64_t append, ErrorCode append_error) mutable {
           const ErrorCode error = CoordinatorError(append_error);
           OnCommitted(ref, append, offsets, error);
           for (OffsetCommitResponse::Topic& topic : response.topics) {
             for (OffsetCommitResponse::Partition& each : topic.partitions) {
               if (each.error_code == ErrorCode::kNone) each.error_code = error;
             }
           }
           Reply(id, std::move(response));
         });
}

void Groups::Impl::OnCommitted(const GroupRef& ref, uint64_t append,
                               const std::vector<std::pair<Group::OffsetKey, OffsetValue>>& offsets,
                               ErrorCode error) {
  Group* group = Find(ref);
  if (group == nullptr) return;
  for (const auto& [key, value] : offsets) {
    auto under_way = group->commits_under_way.find(key);
    LS_CHECK(under_way != group->commits_under_way.end());
    if (--under_way->second == 0) group->commits_under_way.erase(under_way);
    if (error != ErrorCode::kNone) continue;
    // The log has the commits in the order of their appends, whatever the order of the answers.
    CommittedOffset& committed = group->offsets[key];
    if (committed.append <= append) committed = {value, append};
  }
  EraseIfVoid(ref);
}

// ---- OffsetFetch --------------------------------------------------------------------------------

void Groups::Impl::Handle(const Call& call, const OffsetFetchRequest& request) {
  OffsetFetchResponse response;
  // `require_stable` is about offsets of open transactions; there are none.
  const auto find = [&](const std::string& name, size_t asked, ErrorCode* error) -> const Group* {
    const Located at = Locate(name, /*may_be_empty=*/true);
    *error = at.error;
    if (*error == ErrorCode::kNone && asked > options_.group_offsets_max) {
      *error = ErrorCode::kInvalidRequest;
    }
    return *error == ErrorCode::kNone ? Find(at, name) : nullptr;
  };
  if (call.version < kFetchManyFrom) {
    const Group* group = find(request.group_id, Asked(request.topics), &response.error_code);
    if (response.error_code == ErrorCode::kNone || call.version < kFetchErrorFrom) {
      response.topics =
          FetchTopics<OffsetFetchResponse::Topic>(group, request.topics, response.error_code);
    }
    return Reply(call.id, std::move(response));
  }
  size_t asked = 0;
  for (const OffsetFetchRequest::Group& each : request.groups) {
    OffsetFetchResponse::Group& to = response.groups.emplace_back();
    to.group_id = each.group_id;
    asked += Asked(each.topics);
    const Group* group = find(each.group_id, asked, &to.error_code);
    if (to.error_code != ErrorCode::kNone) continue;
    if (!each.topics.has_value() && group != nullptr) asked += group->offsets.size();
    to.topics = FetchTopics<OffsetFetchResponse::GroupTopic>(group, each.topics, ErrorCode::kNone);
  }
  Reply(call.id, std::move(response));
}

// ---- OffsetDelete -------------------------------------------------------------------------------

void Groups::Impl::Handle(const Call& call, const OffsetDeleteRequest& request) {
  OffsetDeleteResponse response;
  const auto refuse = [&](ErrorCode error) {
    response.error_code = error;
    Reply(call.id, std::move(response));
  };
  const Located at = Locate(request.group_id, /*may_be_empty=*/true);
  if (at.error != ErrorCode::kNone) return refuse(at.error);
  Group* group = Find(at, request.group_id);
  if (group == nullptr || group->state() == GroupState::kDead) {
    return refuse(ErrorCode::kGroupIdNotFound);
  }
  const bool empty = group->state() == GroupState::kEmpty;
  // What members of another kind of group are at is not known.
  if (!empty && !group->IsConsumerGroup()) return refuse(ErrorCode::kNonEmptyGroup);

  std::vector<Group::OffsetKey> keys;
  for (const OffsetDeleteRequest::Topic& topic : request.topics) {
    OffsetDeleteResponse::Topic& to = response.topics.emplace_back();
    to.name = topic.name;
    const bool subscribed = !empty && group->SubscribesTo(topic.name);
    for (const OffsetDeleteRequest::Partition& each : topic.partitions) {
      to.partitions.push_back({each.partition_index,
                               subscribed ? ErrorCode::kGroupSubscribedToTopic : ErrorCode::kNone});
      const Group::OffsetKey key = {topic.name, each.partition_index};
      if (subscribed) continue;
      if (group->offsets.contains(key) || group->commits_under_way.contains(key)) {
        keys.push_back(key);
      }
    }
  }
  const GroupRequestId id = call.id;
  WriteTombstones(group, keys, /*with_group=*/false, [this, id, response](ErrorCode error) mutable {
    for (OffsetDeleteResponse::Topic& topic : response.topics) {
      for (OffsetDeleteResponse::Partition& each : topic.partitions) {
        if (each.error_code == ErrorCode::kNone) each.error_code = error;
      }
    }
    Reply(id, std::move(response));
  });
}

// ---- Tombstones ---------------------------------------------------------------------------------

void Groups::Impl::WriteTombstones(Group* group, const std::vector<Group::OffsetKey>& keys,
                                   bool with_group, Done done) {
  struct Batch {
    std::vector<Group::OffsetKey> keys;
    std::vector<KeyValue> records;
  };
  std::vector<Batch> batches(1);
  const auto add = [&](KeyValue record) -> Batch& {
    batches.back().records.push_back(std::move(record));
    // Far below the bound by number, so that FitsBatch() is not asked again for every record.
    constexpr size_t kRecordsMax = 100;
    if (batches.back().records.size() > kRecordsMax || !FitsBatch(batches.back().records)) {
      KeyValue last = std::move(batches.back().records.back());
      batches.back().records.pop_back();
      batches.emplace_back().records.push_back(std::move(last));
    }
    return batches.back();
  };
  for (const Group::OffsetKey& key : keys) {
    add({EncodeOffsetKey(group->name(), key.first, key.second), std::nullopt}).keys.push_back(key);
  }
  if (with_group) add({EncodeGroupKey(group->name()), std::nullopt});
  std::erase_if(batches, [](const Batch& batch) { return batch.records.empty(); });
  if (batches.empty()) return done(ErrorCode::kNone);

  struct Progress {
    size_t left;
    ErrorCode error = ErrorCode::kNone;
    Done done;
  };
  auto progress = std::make_shared<Progress>(Progress{batches.size(), {}, std::move(done)});
  const GroupRef ref = RefOf(*group);
  for (Batch& batch : batches) {
    Append(*group, batch.records,
           [this, ref, progress, gone = std::move(batch.keys)](uint64_t append, ErrorCode error) {
             Group* where = Find(ref);
             for (const Group::OffsetKey& key : gone) {
               if (where == nullptr || error != ErrorCode::kNone) break;
               auto found = where->offsets.find(key);
               // Not what was committed after the tombstone.
               if (found != where->offsets.end() && found->second.append < append) {
                 where->offsets.erase(found);
               }
             }
             if (error != ErrorCode::kNone) progress->error = CoordinatorError(error);
             if (--progress->left == 0) progress->done(progress->error);
           });
  }
}

void Groups::Impl::Delete(Group* group, Done done) {
  std::vector<Group::OffsetKey> keys;
  for (const auto& [key, offset] : group->offsets) keys.push_back(key);
  // They will be in the log before the tombstones, which must be for them as well.
  for (const auto& [key, count] : group->commits_under_way) {
    if (!group->offsets.contains(key)) keys.push_back(key);
  }
  for (auto& [id, deadline] : group->pending_members) timers_.Cancel(&deadline);
  group->pending_members.clear();
  group->BecomeDead(unix_ms());
  const GroupRef ref = RefOf(*group);
  WriteTombstones(group, keys, group->has_record, [this, ref, done](ErrorCode error) {
    Group* dead = Find(ref);
    if (dead != nullptr && error == ErrorCode::kNone) Erase(dead);
    if (dead != nullptr && error != ErrorCode::kNone) dead->BecomeEmptyAgain(unix_ms());
    done(error);
  });
}

// ---- Retention ----------------------------------------------------------------------------------

std::vector<Group::OffsetKey> Groups::Impl::ExpiredOffsets(const Group& group) const {
  std::vector<Group::OffsetKey> expired;
  for (const auto& [key, offset] : group.offsets) {
    if (group.commits_under_way.contains(key)) continue;
    // The time counts from when the group lost its last member: until then the offset was in use.
    // Kafka looks at that alone, so that what a tool commits to a group that has long been empty
    // is gone at once.
    const int64_t used =
        std::max(offset.value.commit_timestamp, group.state_timestamp().value_or(INT64_MIN));
    const bool own = offset.value.expire_timestamp >= 0;
    const bool over = own ? unix_ms() >= offset.value.expire_timestamp
                          : unix_ms() - options_.retention_ms >= used;
    if (over) expired.push_back(key);
  }
  return expired;
}

bool Groups::Impl::Expire(Group* group) {
  if (group->state() != GroupState::kEmpty || group->expiring) return false;
  const std::vector<Group::OffsetKey> expired = ExpiredOffsets(*group);
  if (expired.size() == group->offsets.size() && group->commits_under_way.empty() &&
      group->pending_members.empty()) {
    Delete(group, [](ErrorCode) {});  // if it fails, it is still here at the next check
    return true;
  }
  if (expired.empty()) return false;
  group->expiring = true;
  const GroupRef ref = RefOf(*group);
  WriteTombstones(group, expired, /*with_group=*/false, [this, ref](ErrorCode) {
    if (Group* same = Find(ref); same != nullptr) same->expiring = false;
  });
  return true;
}

void Groups::Impl::ExpireOffsets() {
  std::vector<GroupRef> empty;
  for (const auto& [number, partition] : led_) {
    if (partition.loading) continue;
    for (const auto& [name, group] : partition.groups) {
      if (group->state() == GroupState::kEmpty) empty.push_back(RefOf(*group));
    }
  }
  size_t expired = 0;
  for (const GroupRef& ref : empty) {
    if (expired == kExpiredGroupsMax) {
      retention_check_ = now_ + kExpiryPause;
      return;
    }
    if (Expire(Find(ref))) ++expired;
  }
}

}  // namespace lockstep::kafka
