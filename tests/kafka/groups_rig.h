// A group coordinator with its topic: appends go into a log, which can be loaded into the next
// coordinator.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/kafka/group_records.h"
#include "core/kafka/groups.h"
#include "core/records/record.h"
#include "core/records/record_batch.h"

namespace lockstep::kafka {

// What a test joins with; the rest is as clients have it.
struct GroupJoin {
  std::string group = "g";
  std::string member;
  std::optional<std::string> instance;
  std::vector<std::pair<std::string, std::string>> protocols = {{"range", "topics"}};
  std::string type = "consumer";
  int32_t session_ms = 10'000;
  int32_t rebalance_ms = 60'000;
  int16_t version = 3;
};

class GroupsRig {
 public:
  static constexpr int32_t kPartitions = 3;
  static constexpr int64_t kUnixMs = 1'700'000'000'000;

  explicit GroupsRig(const GroupsOptions& options = {}, uint64_t seed = 1)
      : options_(options), seed_(seed) {
    Restart();
  }

  // ---- The host --------------------------------------------------------------------------------

  // Another coordinator; it leads nothing yet.
  void Restart() {
    groups_ =
        std::make_unique<Groups>(options_, RandomStream(seed_, ServerId{1}, ++incarnation_, 0));
    groups_->SetWallClock(now_, kUnixMs + now_.ns / 1'000'000);
    groups_->SetPartitions(kPartitions);
    appends_.clear();
    replies_.clear();
  }
  void Lead(int32_t partition) {
    groups_->OnLoadBegin(now_, partition, replication::LeaderEpoch{++epoch_});
    for (const Bytes& batch : log[partition]) {
      groups_->OnLoadBatches(now_, partition, batch, &output_);
    }
    groups_->OnLoadEnd(now_, partition, &output_);
    Take();
  }
  void LeadAll() {
    for (int32_t i = 0; i < kPartitions; ++i) Lead(i);
  }
  void Resign(int32_t partition) {
    groups_->OnResigned(now_, partition, &output_);
    Take();
  }
  // The coordinator dies, and another loads what is in the log.
  void FailOver() {
    Restart();
    LeadAll();
  }

  void Pass(Duration time) {
    const Instant until = now_ + time;
    while (groups_->next_deadline() <= until) {
      now_ = std::max(now_, groups_->next_deadline());
      groups_->OnWake(now_, &output_);
      Take();
    }
    now_ = until;
  }

  // ---- Appends ---------------------------------------------------------------------------------

  // Whether appends are answered at once. What is appended is in the log in any case.
  bool acknowledge = true;
  std::vector<GroupsOutput::Append> appends_;  // not answered
  void Answer(ErrorCode error = ErrorCode::kNone) {
    ASSERT_FALSE(appends_.empty());
    const uint64_t id = appends_.front().id;
    appends_.erase(appends_.begin());
    groups_->OnAppended(now_, id, error, &output_);
    Take();
  }
  void AnswerAll(ErrorCode error = ErrorCode::kNone) {
    while (!appends_.empty()) Answer(error);
  }
  std::map<int32_t, std::vector<Bytes>> log;
  int64_t log_end = 0;

  // The records of the last batch in the partition's log.
  std::vector<GroupRecord> LastRecords(int32_t partition) const {
    std::vector<GroupRecord> result;
    if (!log.contains(partition)) return result;
    const records::Batch batch = records::Batch::Of(log.at(partition).back());
    records::RecordReader reader(records::HeaderOf(batch), batch.records.view());
    records::Record record;
    while (reader.Next(&record)) result.push_back(*DecodeGroupRecord(record.key, record.value));
    return result;
  }

  // ---- Requests --------------------------------------------------------------------------------

  uint64_t Send(const GroupRequest& request, int16_t version,
                const std::string& client_id = "client") {
    const uint64_t id = ++last_request_;
    groups_->OnRequest(now_, {id}, version, request, client_id, "/127.0.0.1", &output_);
    Take();
    return id;
  }
  bool Answered(uint64_t id) const { return replies_.contains(id); }
  template <typename Response>
  Response Get(uint64_t id) const {
    auto found = replies_.find(id);
    if (found == replies_.end()) {
      ADD_FAILURE() << "no answer to request " << id;
      return {};
    }
    return std::get<Response>(found->second);
  }

  using Join = GroupJoin;
  uint64_t SendJoin(const Join& join) {
    JoinGroupRequest request;
    request.group_id = join.group;
    request.member_id = join.member;
    request.group_instance_id = join.instance;
    request.protocol_type = join.type;
    request.session_timeout_ms = join.session_ms;
    request.rebalance_timeout_ms = join.rebalance_ms;
    for (const auto& [name, metadata] : join.protocols) {
      request.protocols.push_back({name, Bytes::Copy(metadata)});
    }
    return Send(request, join.instance.has_value() ? 5 : join.version);
  }
  ErrorCode JoinError(const Join& join) {
    return Get<JoinGroupResponse>(SendJoin(join)).error_code;
  }

  using Assignments = std::vector<std::pair<std::string, std::string>>;
  uint64_t SendSync(const std::string& member, int32_t generation,
                    const Assignments& assignments = {}, const std::string& group = "g",
                    std::optional<std::string> instance = std::nullopt) {
    SyncGroupRequest request;
    request.group_id = group;
    request.member_id = member;
    request.generation_id = generation;
    request.group_instance_id = std::move(instance);
    for (const auto& [id, assignment] : assignments) {
      request.assignments.push_back({id, Bytes::Copy(assignment)});
    }
    return Send(request, 3);
  }
  ErrorCode Heartbeat(const std::string& member, int32_t generation, const std::string& group = "g",
                      std::optional<std::string> instance = std::nullopt) {
    HeartbeatRequest request;
    request.group_id = group;
    request.member_id = member;
    request.generation_id = generation;
    request.group_instance_id = std::move(instance);
    return Get<HeartbeatResponse>(Send(request, 3)).error_code;
  }
  ErrorCode Leave(const std::string& member, const std::string& group = "g") {
    LeaveGroupRequest request;
    request.group_id = group;
    request.member_id = member;
    return Get<LeaveGroupResponse>(Send(request, 1)).error_code;
  }
  LeaveGroupResponse LeaveMany(
      const std::vector<std::pair<std::string, std::optional<std::string>>>& members) {
    LeaveGroupRequest request;
    request.group_id = "g";
    for (const auto& [id, instance] : members) {
      LeaveGroupRequest::Member& member = request.members.emplace_back();
      member.member_id = id;
      member.group_instance_id = instance;
    }
    return Get<LeaveGroupResponse>(Send(request, 3));
  }

  uint64_t SendCommit(int64_t offset, const std::string& member = "", int32_t generation = -1,
                      const std::string& group = "g", const std::string& topic = "t",
                      int32_t partition = 0) {
    OffsetCommitRequest request;
    request.group_id = group;
    request.member_id = member;
    request.generation_id_or_member_epoch = generation;
    OffsetCommitRequest::Topic& to = request.topics.emplace_back();
    to.name = topic;
    OffsetCommitRequest::Partition& each = to.partitions.emplace_back();
    each.partition_index = partition;
    each.committed_offset = offset;
    each.committed_leader_epoch = 4;
    each.committed_metadata = "note";
    return Send(request, 7);
  }
  ErrorCode CommitError(uint64_t id) const {
    const auto response = Get<OffsetCommitResponse>(id);
    if (response.topics.size() != 1 || response.topics[0].partitions.size() != 1) {
      ADD_FAILURE() << "not one partition";
      return ErrorCode::kUnknownServerError;
    }
    return response.topics[0].partitions[0].error_code;
  }
  ErrorCode Commit(int64_t offset, const std::string& member = "", int32_t generation = -1,
                   const std::string& group = "g") {
    return CommitError(SendCommit(offset, member, generation, group));
  }
  // -1: none is committed.
  int64_t Committed(const std::string& group = "g", const std::string& topic = "t",
                    int32_t partition = 0) {
    OffsetFetchRequest request;
    request.group_id = group;
    request.topics = {{{topic, {partition}}}};
    const auto response = Get<OffsetFetchResponse>(Send(request, 7));
    EXPECT_EQ(response.error_code, ErrorCode::kNone);
    if (response.topics.empty()) return -2;
    return response.topics[0].partitions[0].committed_offset;
  }
  DescribeGroupsResponse::Group Describe(const std::string& group = "g") {
    DescribeGroupsRequest request;
    request.groups = {group};
    return Get<DescribeGroupsResponse>(Send(request, 5)).groups.at(0);
  }
  std::string State(const std::string& group = "g") { return Describe(group).group_state; }

  // ---- Whole groups ----------------------------------------------------------------------------

  // A stable group of as many members; each has its own number as assignment. The leader is the
  // first.
  std::vector<std::string> MakeStable(size_t members, Join join = {}) {
    std::vector<uint64_t> joins;
    for (size_t i = 0; i < members; ++i) {
      Join each = join;
      if (join.instance.has_value()) each.instance = *join.instance + std::to_string(i);
      joins.push_back(SendJoin(each));
    }
    for (int i = 0; i < 60 && !Answered(joins.back()); ++i) Pass(Seconds(1));
    std::vector<std::string> ids;
    std::string leader;
    int32_t generation = 0;
    for (uint64_t id : joins) {
      const auto response = Get<JoinGroupResponse>(id);
      EXPECT_EQ(response.error_code, ErrorCode::kNone);
      leader = response.leader;
      generation = response.generation_id;
      ids.push_back(response.member_id);
      if (response.member_id == leader) std::swap(ids.front(), ids.back());
    }
    Assignments assignments;
    for (size_t i = 0; i < members; ++i) assignments.emplace_back(ids[i], std::to_string(i));
    std::vector<uint64_t> syncs;
    for (const std::string& id : ids) {
      syncs.push_back(
          SendSync(id, generation, id == leader ? assignments : Assignments(), join.group));
    }
    for (size_t i = 0; i < members; ++i) {
      EXPECT_EQ(Get<SyncGroupResponse>(syncs[i]).assignment.view(), std::to_string(i));
    }
    return ids;
  }

  Groups& groups() { return *groups_; }
  Instant now() const { return now_; }
  std::vector<Event> events;

 private:
  void Take() {
    while (!output_.replies.empty() || !output_.appends.empty() || !output_.events.empty()) {
      GroupsOutput output;
      std::swap(output, output_);
      for (const Event& event : output.events) events.push_back(event);
      for (GroupsOutput::Reply& reply : output.replies) {
        EXPECT_TRUE(replies_.emplace(reply.id.value, std::move(reply.response)).second)
            << "answered twice";
      }
      for (GroupsOutput::Append& append : output.appends) {
        log[append.partition].push_back(
            records::AssignOffsets(
                records::Batch::Of(append.batch),
                {.base_offset = log_end,
                 .leader_epoch = append.epoch.value,
                 .max_timestamp =
                     records::HeaderOf(records::Batch::Of(append.batch)).max_timestamp})
                .Join());
        log_end += append.records;
        if (acknowledge) {
          groups_->OnAppended(now_, append.id, ErrorCode::kNone, &output_);
        } else {
          appends_.push_back(append);
        }
      }
    }
  }

  GroupsOptions options_;
  uint64_t seed_;
  uint64_t incarnation_ = 0;
  int32_t epoch_ = 0;
  Instant now_ = Instant{1'000'000'000};
  std::unique_ptr<Groups> groups_;
  GroupsOutput output_;
  uint64_t last_request_ = 0;
  std::map<uint64_t, GroupResponse> replies_;
};

}  // namespace lockstep::kafka
