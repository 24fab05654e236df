#include "sim/kafka_group_member.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/kafka/consumer_protocol.h"

namespace lockstep::sim {

using kafka::ErrorCode;

KafkaGroupMember::KafkaGroupMember(const Context& context, uint32_t number, RandomStream random,
                                   Replication* replication, GroupHistory* history)
    : KafkaConsumer(context, absl::StrCat("g", number), random, replication), history_(history) {}

void KafkaGroupMember::Enter(State state) {
  state_ = state;
  if (state != State::kStable) SetPositions({});
}

void KafkaGroupMember::Vanish(Instant now, ClientOutput* output) {
  call_.reset();
  committing_.clear();
  member_id_.clear();
  coordinator_.reset();
  next_step_ = now + Around(random_, context_.tick * 4);
  Enter(State::kSeeking);
  KafkaConsumer::Vanish(now, output);
}

void KafkaGroupMember::Again(Instant now, bool coordinator_known) {
  next_step_ = now + BackOff();
  if (!coordinator_known) {
    coordinator_.reset();
    Enter(State::kSeeking);
  }
}

// ---- Requests ----------------------------------------------------------------------------------

Instant KafkaGroupMember::Work(Instant now, ClientOutput* output) {
  if (state_ == State::kStable) {
    const Instant consumes = Consume(now, output);
    if (!call_ && now >= next_heartbeat_) {
      next_heartbeat_ = now + plan_.client_session / 5;
      Heartbeat(now, output);
    } else if (!call_ && now >= next_commit_) {
      next_commit_ = now + Around(random_, context_.tick * 3) + Microseconds(1);
      // A member that leaves shows that others take over what it had.
      if (!quiescing_ && random_.Chance(1, 15)) {
        Leave(now, output);
      } else {
        Commit(now, output);
      }
    }
    return call_ ? consumes : std::min({consumes, next_heartbeat_, next_commit_});
  }
  if (call_) return Instant::Never();
  if (now < next_step_) return next_step_;
  switch (state_) {
    case State::kSeeking:
      AskCoordinator(now, output);
      break;
    case State::kJoining:
      Join(now, output);
      break;
    case State::kSyncing:
      Sync(now, output);
      break;
    case State::kFetchingOffsets:
      FetchOffsets(now, output);
      break;
    case State::kStable:
      break;
  }
  return Instant::Never();
}

void KafkaGroupMember::AskCoordinator(Instant now, ClientOutput* output) {
  kafka::FindCoordinatorRequest request;
  if (VersionOf<kafka::FindCoordinatorRequest>() >= 4) {
    request.coordinator_keys = {kGroup};
  } else {
    request.key = kGroup;
  }
  call_ = Send(now, RandomServer(), request, context_.tick * 4, output);
}

void KafkaGroupMember::Join(Instant now, ClientOutput* output) {
  kafka::ConsumerProtocolSubscription subscription;
  for (const TopicPlan& topic : plan_.topics) subscription.topics.push_back(topic.name);
  kafka::JoinGroupRequest request;
  request.group_id = kGroup;
  request.session_timeout_ms = static_cast<int32_t>(plan_.client_session.Milliseconds());
  request.rebalance_timeout_ms = request.session_timeout_ms;
  request.member_id = member_id_;
  request.protocol_type = "consumer";
  request.protocols = {{"range", kafka::EncodeConsumerProtocol(subscription, 0)}};
  call_ = Send(now, *coordinator_, request, plan_.client_session * 3, output);
}

void KafkaGroupMember::Sync(Instant now, ClientOutput* output) {
  kafka::SyncGroupRequest request;
  request.group_id = kGroup;
  request.generation_id = generation_;
  request.member_id = member_id_;
  request.protocol_type = "consumer";
  request.protocol_name = "range";
  request.assignments = AssignRanges();
  call_ = Send(now, *coordinator_, request, plan_.client_session * 2, output);
}

std::vector<kafka::SyncGroupRequest::Assignment> KafkaGroupMember::AssignRanges() const {
  std::vector<kafka::SyncGroupRequest::Assignment> assignments;
  const size_t count = members_.size();
  for (size_t m = 0; m < count; ++m) {
    kafka::ConsumerProtocolAssignment mine;
    for (const TopicPlan& topic : plan_.topics) {
      const TopicView* view = Find(topic.name);
      const size_t partitions = view == nullptr ? 0 : view->partitions.size();
      const size_t begin = m * partitions / count;
      const size_t end = (m + 1) * partitions / count;
      if (begin == end) continue;
      kafka::ConsumerProtocolAssignment::Topic& of = mine.assigned_partitions.emplace_back();
      of.topic = topic.name;
      for (size_t p = begin; p < end; ++p) of.partitions.push_back(static_cast<int32_t>(p));
    }
    assignments.push_back({members_[m].member_id, kafka::EncodeConsumerProtocol(mine, 0)});
  }
  return assignments;
}

void KafkaGroupMember::FetchOffsets(Instant now, ClientOutput* output) {
  kafka::OffsetFetchRequest request;
  std::map<std::string, std::vector<int32_t>> topics;
  for (const Key& key : owned_) topics[key.first].push_back(key.second);
  if (VersionOf<kafka::OffsetFetchRequest>() >= 8) {
    kafka::OffsetFetchRequest::Group& group = request.groups.emplace_back();
    group.group_id = kGroup;
    group.topics.emplace();
    for (auto& [name, partitions] : topics) group.topics->push_back({name, partitions});
  } else {
    request.group_id = kGroup;
    request.topics.emplace();
    for (auto& [name, partitions] : topics) request.topics->push_back({name, partitions});
  }
  asked_ = now;
  call_ = Send(now, *coordinator_, request, Timeout(), output);
}

void KafkaGroupMember::Heartbeat(Instant now, ClientOutput* output) {
  kafka::HeartbeatRequest request;
  request.group_id = kGroup;
  request.generation_id = generation_;
  request.member_id = member_id_;
  call_ = Send(now, *coordinator_, request, plan_.client_session / 2, output);
}

void KafkaGroupMember::Commit(Instant now, ClientOutput* output) {
  kafka::OffsetCommitRequest request;
  request.group_id = kGroup;
  request.generation_id_or_member_epoch = generation_;
  request.member_id = member_id_;
  for (const auto& [key, position] : positions_) {
    if (position.offset < 0) continue;
    auto topic = std::find_if(request.topics.begin(), request.topics.end(),
                              [&, name = key.first](const auto& t) { return t.name == name; });
    if (topic == request.topics.end()) {
      request.topics.push_back({key.first, {}});
      topic = request.topics.end() - 1;
    }
    topic->partitions.push_back(
        {.partition_index = key.second, .committed_offset = position.offset});
    committing_[key] = history_->OnCommitSent(now, key, position.offset);
  }
  if (request.topics.empty()) return;
  call_ = Send(now, *coordinator_, request, Timeout(), output);
}

void KafkaGroupMember::Leave(Instant now, ClientOutput* output) {
  kafka::LeaveGroupRequest request;
  request.group_id = kGroup;
  if (VersionOf<kafka::LeaveGroupRequest>() >= 3) {
    request.members.push_back({.member_id = member_id_});
  } else {
    request.member_id = member_id_;
  }
  call_ = Send(now, *coordinator_, request, Timeout(), output);
}

// ---- Answers -----------------------------------------------------------------------------------

void KafkaGroupMember::OnLost(Instant now, const Call& call, ClientOutput* output) {
  if (call_ != call.number) return KafkaConsumer::OnLost(now, call, output);
  call_.reset();
  committing_.clear();
  Again(now, false);
}

void KafkaGroupMember::OnAnswer(Instant now, const Call& call, const Bytes& frame,
                                ClientOutput* output) {
  if (call_ != call.number) {
    // Of before it vanished, if it is none of the consumer's.
    if (call.api != kafka::ApiKey::kFetch && call.api != kafka::ApiKey::kListOffsets) return;
    return KafkaConsumer::OnAnswer(now, call, frame, output);
  }
  call_.reset();
  switch (call.api) {
    case kafka::ApiKey::kFindCoordinator:
      return OnCoordinator(now, Take<kafka::FindCoordinatorResponse>(call, frame));
    case kafka::ApiKey::kJoinGroup:
      return OnJoined(now, Take<kafka::JoinGroupResponse>(call, frame));
    case kafka::ApiKey::kSyncGroup:
      return OnSynced(now, Take<kafka::SyncGroupResponse>(call, frame));
    case kafka::ApiKey::kOffsetFetch:
      return OnOffsets(now, Take<kafka::OffsetFetchResponse>(call, frame));
    case kafka::ApiKey::kHeartbeat:
      OnGroupError(now, Take<kafka::HeartbeatResponse>(call, frame).error_code);
      return;
    case kafka::ApiKey::kOffsetCommit:
      return OnCommitAnswer(now, Take<kafka::OffsetCommitResponse>(call, frame));
    case kafka::ApiKey::kLeaveGroup:
      Take<kafka::LeaveGroupResponse>(call, frame);
      member_id_.clear();
      next_step_ = now + Around(random_, context_.tick * 4);
      return Enter(State::kJoining);
    default:
      FailBytes("an answer to nothing");
  }
}

void KafkaGroupMember::OnCoordinator(Instant now, const kafka::FindCoordinatorResponse& response) {
  ErrorCode error = response.error_code;
  std::string host = response.host;
  if (!response.coordinators.empty()) {
    error = response.coordinators.front().error_code;
    host = response.coordinators.front().host;
  }
  if (error != ErrorCode::kNone) return Again(now, false);
  const auto server = ServerOfHost(host);
  if (!server || *server >= context_.servers) FailBytes("a coordinator at " + host);
  if (coordinator_before_ && coordinator_before_ != server) {
    probes_->Hit(Probe::kCoordinatorMoved);
  }
  coordinator_before_ = server;
  coordinator_ = server;
  next_step_ = now;
  Enter(State::kJoining);
}

bool KafkaGroupMember::OnGroupError(Instant now, ErrorCode error) {
  switch (error) {
    case ErrorCode::kNone:
      return true;
    case ErrorCode::kRebalanceInProgress:
      probes_->Hit(Probe::kGroupRebalanced);
      next_step_ = now;
      Enter(State::kJoining);
      return false;
    case ErrorCode::kUnknownMemberId:
    case ErrorCode::kIllegalGeneration:
    case ErrorCode::kFencedInstanceId:
      if (error == ErrorCode::kUnknownMemberId) member_id_.clear();
      next_step_ = now + BackOff();
      Enter(State::kJoining);
      return false;
    case ErrorCode::kCoordinatorLoadInProgress:
      next_step_ = now + BackOff();
      return false;
    case ErrorCode::kNotCoordinator:
    case ErrorCode::kCoordinatorNotAvailable:
    case ErrorCode::kRequestTimedOut:
    case ErrorCode::kUnknownServerError:
    case ErrorCode::kNotEnoughReplicas:
    case ErrorCode::kUnknownTopicOrPartition:
      Again(now, false);
      return false;
    default:
      Fail("kafka-answers-fit",
           absl::StrCat(name(), " gets ", kafka::ToString(error), " from the coordinator"));
  }
}

void KafkaGroupMember::OnJoined(Instant now, kafka::JoinGroupResponse response) {
  if (response.error_code == ErrorCode::kMemberIdRequired) {
    member_id_ = response.member_id;
    next_step_ = now;
    return;
  }
  if (!OnGroupError(now, response.error_code)) return;
  member_id_ = response.member_id;
  generation_ = response.generation_id;
  members_.clear();
  if (response.leader == member_id_) members_ = std::move(response.members);
  next_step_ = now;
  Enter(State::kSyncing);
}

void KafkaGroupMember::OnSynced(Instant now, const kafka::SyncGroupResponse& response) {
  if (!OnGroupError(now, response.error_code)) {
    // To sync again in a generation in which somebody has failed leads nowhere.
    if (state_ == State::kSyncing) Enter(State::kJoining);
    return;
  }
  owned_.clear();
  if (!response.assignment.empty()) {
    const auto assignment =
        kafka::DecodeConsumerProtocol<kafka::ConsumerProtocolAssignment>(response.assignment);
    if (!assignment.ok()) FailBytes(assignment.status().ToString());
    for (const auto& topic : assignment->assigned_partitions) {
      for (int32_t partition : topic.partitions) owned_.push_back({topic.topic, partition});
    }
  }
  if (trace_->on()) {
    Line("assigned", absl::StrCat(owned_.size(), " partitions in generation ", generation_));
  }
  history_->OnAssigned(member_id_, generation_, owned_);
  probes_->Hit(Probe::kGroupSynced);
  next_step_ = now;
  Enter(State::kFetchingOffsets);
}

void KafkaGroupMember::OnOffsets(Instant now, const kafka::OffsetFetchResponse& response) {
  std::map<Key, Position> positions;
  std::map<Key, int64_t> offsets;
  ErrorCode error = response.error_code;
  const auto take = [&](const auto& topics) {
    for (const auto& topic : topics) {
      for (const auto& partition : topic.partitions) {
        if (partition.error_code != ErrorCode::kNone) error = partition.error_code;
        offsets[{topic.name, partition.partition_index}] = partition.committed_offset;
      }
    }
  };
  take(response.topics);
  for (const auto& group : response.groups) {
    if (group.error_code != ErrorCode::kNone) error = group.error_code;
    take(group.topics);
  }
  if (!OnGroupError(now, error)) return;
  for (const Key& key : owned_) {
    auto it = offsets.find(key);
    if (it == offsets.end()) FailBytes("OffsetFetch does not mention all partitions");
    if (Exact(key)) history_->OnFetched(asked_, key, it->second);
    probes_->Hit(Probe::kOffsetsFetched);
    Position position;
    position.offset = it->second;
    if (const TopicView* view = Find(key.first)) position.topic_id = view->id;
    positions[key] = position;
  }
  Enter(State::kStable);
  SetPositions(std::move(positions));
  next_heartbeat_ = now;
  next_commit_ = now + Around(random_, context_.tick * 3);
}

bool KafkaGroupMember::Exact(const Key& key) const {
  // Offsets of a topic go with it.
  return !replication_->Recreated(key.first) && !replication_->AnyMayHaveLost("__consumer_offsets");
}

void KafkaGroupMember::OnCommitAnswer(Instant now, const kafka::OffsetCommitResponse& response) {
  const std::map<Key, uint64_t> committing = std::move(committing_);
  committing_.clear();
  ErrorCode error = ErrorCode::kNone;
  for (const auto& topic : response.topics) {
    for (const auto& partition : topic.partitions) {
      const Key key(topic.name, partition.partition_index);
      auto it = committing.find(key);
      if (it == committing.end()) FailBytes("OffsetCommit answers what was not asked");
      if (partition.error_code == ErrorCode::kNone) {
        history_->OnCommitted(now, key, it->second);
        probes_->Hit(Probe::kOffsetsCommitted);
      } else {
        error = partition.error_code;
      }
    }
  }
  OnGroupError(now, error);
}

std::string KafkaGroupMember::NotDone() const {
  // The group itself may have nowhere to be kept.
  if (replication_->AnyOffline("__consumer_offsets")) return "";
  if (state_ != State::kStable) return "is not in its group";
  return KafkaConsumer::NotDone();
}

}  // namespace lockstep::sim
