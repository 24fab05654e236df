// What operators and clients ask for. The broker that got a request carries it out by itself,
// through transitions that name what they were computed from: no controller is needed, and two
// brokers that are asked the same do no harm.
//
// A request is looked at again and again, against what has been read, until it is done: so that an
// answer that was lost needs no case of its own, once everything has been read again.

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/replication/broker_impl.h"
#include "core/replication/json.h"

namespace lockstep::replication {
namespace {

using coordination::ErrorCode;
using coordination::OpCode;
using Completion = coordination::ClientOutput::Completion;

constexpr size_t kAdminMax = 1000;
constexpr Duration kRemoveRetry = Milliseconds(200);
constexpr int64_t kProducerIdBlock = 1000;

}  // namespace

void Broker::Impl::Admin(Instant now, AdminId id, AdminRequest request, Instant deadline,
                         BrokerOutput* output) {
  Begin(now, output);
  AdminOp op{.id = id, .request = std::move(request), .deadline = deadline};
  if (phase_ == Phase::kNew || phase_ == Phase::kStopping || phase_ == Phase::kStopped ||
      admin_.size() >= kAdminMax) {
    Answer(op, AdminError::kNotAvailable, "the broker takes no requests now", output);
  } else {
    admin_.push_back(std::move(op));
    TryAdmin(now, output);
  }
  End(now, output);
}

bool Broker::Impl::Answer(const AdminOp& op, AdminError error, std::string message,
                          BrokerOutput* output) {
  output->admin_done.push_back({op.id, error, std::move(message)});
  return true;
}

void Broker::Impl::FailAdmin(AdminError error, const std::string& message, BrokerOutput* output) {
  for (const AdminOp& op : std::exchange(admin_, {})) Answer(op, error, message, output);
}

void Broker::Impl::TryAdmin(Instant now, BrokerOutput* output) {
  for (size_t i = 0; i < admin_.size();) {
    AdminOp& op = admin_[i];
    bool done = false;
    const bool readable = phase_ == Phase::kActive && metadata_.complete();
    if (op.deadline <= now) {
      done = readable ? Answer(op, AdminError::kTimedOut,
                               "not done in time; what was begun goes on", output)
                      : Answer(op, AdminError::kNotAvailable,
                               "no session with the coordination service", output);
    } else if (readable && !op.calling && readings_ >= op.not_before) {
      done = std::visit([&](const auto& request) { return Try(now, &op, request, output); },
                        op.request);
    }
    if (done) {
      admin_.erase(admin_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

void Broker::Impl::Submit(Instant now, AdminOp* op, const Transition& transition,
                          const std::string& topic, BrokerOutput* output) {
  op->calling = true;
  Multi(
      now, transition,
      [this, id = op->id, topic](Instant, ErrorCode error, const coordination::MultiResponse*,
                                 BrokerOutput*) {
        auto at = std::find_if(admin_.begin(), admin_.end(),
                               [&](const AdminOp& other) { return other.id == id; });
        if (error != ErrorCode::kConnectionLoss) {
          // Also when it was refused: the watch may not have told yet of what was in the way.
          metadata_.ReadAgain(TopicPath(topic));
        }
        if (at == admin_.end()) return;
        at->calling = false;
        // The watches of what it did have come before the answer, and what they want read is known
        // to be unread; after a loss, everything is read again first.
        if (error == ErrorCode::kOk) {
          at->begun = true;
          ++at->next;
        } else if (error == ErrorCode::kConnectionLoss) {
          at->begun = true;
          at->not_before = readings_ + 1;
        }
      },
      output);
}

// ---- Topics ------------------------------------------------------------------------------------

bool Broker::Impl::Try(Instant now, AdminOp* op, const CreateTopic& request, BrokerOutput* output) {
  if (metadata_.reading(TopicPath(request.topic))) return false;
  const auto node = metadata_.FindTopicNode(request.topic);
  if (op->topic && node.has_value() && node->record.id == op->topic) {
    if (!node->record.creator) {
      // Answered when this broker knows it, so that a client that asks it for metadata sees it.
      const TopicState* topic = metadata_.FindTopic(op->topic);
      if (topic == nullptr || topic->partitions.size() != node->partitions.size()) return false;
      return Answer(*op, AdminError::kNone, "", output);
    }
    // Half-created, by us: each of the transitions but the last adds a partition that tells.
    if (op->next < op->transitions.size()) {
      Submit(now, op, op->transitions[op->next], request.topic, output);
    }
    return false;
  }
  if (node.has_value()) {
    // Another's half of a creation, or a deletion that is under way, is removed first.
    const bool leaves =
        node->record.deleting ||
        (node->record.creator && metadata_.incarnations().count(node->record.creator) == 0);
    if (leaves) return false;
    return Answer(*op, AdminError::kTopicExists, "topic " + request.topic + " exists", output);
  }
  TopicPlan plan = PlanCreateTopic(request, metadata_.brokers(), options_, &random_);
  if (plan.error != AdminError::kNone || request.validate_only) {
    return Answer(*op, plan.error, std::move(plan.message), output);
  }
  const uint64_t high = random_.Next();
  const uint64_t low = random_.Next();
  op->topic = {high, low | 1};  // never the id that names nothing
  op->transitions =
      CreateTopicTransitions(request.topic, {.id = op->topic, .configs = request.configs},
                             incarnation_, plan.assignment, metadata_.brokers());
  op->next = 0;
  Submit(now, op, op->transitions[0], request.topic, output);
  return false;
}

bool Broker::Impl::Try(Instant now, AdminOp* op, const DeleteTopic& request, BrokerOutput* output) {
  if (metadata_.reading(TopicPath(request.topic))) return false;
  const auto node = metadata_.FindTopicNode(request.topic);
  if (!node.has_value() || (op->topic && node->record.id != op->topic)) {
    if (op->topic) return Answer(*op, AdminError::kNone, "", output);
    return Answer(*op, AdminError::kUnknownTopic, "no topic " + request.topic, output);
  }
  op->topic = node->record.id;
  if (node->record.deleting) return false;  // until its znodes are gone
  TopicRecord record = node->record;
  record.deleting = true;
  Transition transition;
  transition.SetData(TopicPath(request.topic), Encode(record), node->version);
  GuardTopic(request.topic, record.id, &transition);
  // Dead brokers find it in their queues, or that the topic is gone, when they come back: nobody
  // waits for them (S31).
  for (int32_t partition : node->partitions) {
    const PartitionView* view = metadata_.FindPartition(request.topic, partition);
    if (view == nullptr) continue;
    for (BrokerId broker : view->state.replicas) {
      if (broker == options_.broker) continue;
      SendStateChange(broker, {.kind = StateChange::Kind::kCloseReplica,
                               .topic = request.topic,
                               .partition = view->state.id,
                               .epoch = view->state.leader_epoch});
    }
  }
  Submit(now, op, transition, request.topic, output);
  return false;
}

bool Broker::Impl::Try(Instant now, AdminOp* op, const CreatePartitions& request,
                       BrokerOutput* output) {
  if (metadata_.reading(TopicPath(request.topic))) return false;
  auto at = metadata_.topics().find(request.topic);
  const auto node = metadata_.FindTopicNode(request.topic);
  if (at == metadata_.topics().end() || !node.has_value() || node->record.deleting) {
    if (node.has_value() && !node->record.deleting && !node->record.creator) return false;
    return Answer(*op, AdminError::kUnknownTopic, "no topic " + request.topic, output);
  }
  const TopicState& topic = at->second;
  if (topic.partitions.size() != node->partitions.size()) return false;  // not all read yet
  const auto present = static_cast<int32_t>(topic.partitions.size());
  if (op->begun && present >= request.total) return Answer(*op, AdminError::kNone, "", output);
  CreatePartitions rest = request;
  if (op->begun && !rest.assignment.empty()) {
    const size_t left = static_cast<size_t>(request.total - present);
    if (left < rest.assignment.size()) {
      rest.assignment.erase(rest.assignment.begin(),
                            rest.assignment.end() - static_cast<std::ptrdiff_t>(left));
    }
  }
  TopicPlan plan = PlanCreatePartitions(rest, topic, metadata_.brokers(), &random_);
  if (plan.error != AdminError::kNone || request.validate_only) {
    return Answer(*op, plan.error, std::move(plan.message), output);
  }
  // Each partition exists whole; of many, some may exist before others.
  const size_t count = std::min<size_t>(plan.assignment.size(), 160);
  Transition transition;
  transition.Check(TopicPath(request.topic), node->version);
  AddPartitions(request.topic, present, plan.assignment, 0, count, metadata_.brokers(),
                &transition);
  GuardTopic(request.topic, node->record.id, &transition);
  Submit(now, op, transition, request.topic, output);
  return false;
}

bool Broker::Impl::Try(Instant now, AdminOp* op, const SetTopicConfigs& request,
                       BrokerOutput* output) {
  if (metadata_.reading(TopicPath(request.topic))) return false;
  const auto node = metadata_.FindTopicNode(request.topic);
  if (!node.has_value() || node->record.deleting || node->record.creator) {
    return Answer(*op, AdminError::kUnknownTopic, "no topic " + request.topic, output);
  }
  TopicRecord record = node->record;
  for (const auto& [name, value] : request.changes) {
    if (!value.has_value()) {
      record.configs.erase(name);
      continue;
    }
    if (std::string error = TopicConfigError(name, *value); !error.empty()) {
      return Answer(*op, AdminError::kInvalidConfig, std::move(error), output);
    }
    record.configs[name] = *value;
  }
  if (record == node->record || request.validate_only) {
    return Answer(*op, AdminError::kNone, "", output);
  }
  Transition transition;
  transition.SetData(TopicPath(request.topic), Encode(record), node->version);
  GuardTopic(request.topic, record.id, &transition);
  Submit(now, op, transition, request.topic, output);
  return false;
}

// ---- Partitions --------------------------------------------------------------------------------

bool Broker::Impl::Try(Instant now, AdminOp* op, const replication::Reassign& request,
                       BrokerOutput* output) {
  if (!metadata_.settled(request.topic, request.partition)) return false;
  const PartitionView* view = metadata_.FindPartition(request.topic, request.partition);
  const auto node = metadata_.FindTopicNode(request.topic);
  if (view == nullptr || !node.has_value() || node->record.deleting) {
    return Answer(*op, AdminError::kUnknownTopic, "no such partition", output);
  }
  const std::string path = ReassignedPath(request.topic, request.partition);
  Transition transition;
  if (!request.replicas.has_value()) {
    if (!view->requested.has_value()) {
      if (op->begun) return Answer(*op, AdminError::kNone, "", output);
      return Answer(*op, AdminError::kNoReassignment, "no reassignment is under way", output);
    }
    if (op->begun && op->next == 0 && op->not_before == 0) return false;
    transition.Delete(path, view->requested_version);
    GuardTopic(request.topic, node->record.id, &transition);
    Submit(now, op, transition, request.topic, output);
    return false;
  }
  if (view->requested.has_value()) {
    if (op->begun && *view->requested == *request.replicas) {
      return Answer(*op, AdminError::kNone, "", output);
    }
    return Answer(*op, AdminError::kReassignmentInProgress, "another one is under way", output);
  }
  if (op->begun) return Answer(*op, AdminError::kNone, "", output);  // it is over already
  if (!view->state.adding.empty() || !view->state.removing.empty()) {
    return Answer(*op, AdminError::kReassignmentInProgress, "one is being cancelled", output);
  }
  if (std::string error = AssignmentError(*request.replicas, metadata_.brokers()); !error.empty()) {
    return Answer(*op, AdminError::kInvalidAssignment, std::move(error), output);
  }
  if (view->state.replicas == *request.replicas) {
    return Answer(*op, AdminError::kNone, "", output);
  }
  transition.Check(TopicPath(request.topic), node->version);
  if (!node->reassigned) transition.Create(ReassignedTopicPath(request.topic), "");
  transition.Create(path, Encode(ReassignedRecord{*request.replicas}));
  GuardTopic(request.topic, node->record.id, &transition);
  Submit(now, op, transition, request.topic, output);
  return false;
}

bool Broker::Impl::Try(Instant now, AdminOp* op, const ElectPreferred& request,
                       BrokerOutput* output) {
  if (!metadata_.settled(request.topic, request.partition)) return false;
  const PartitionView* view = metadata_.FindPartition(request.topic, request.partition);
  if (view == nullptr) {
    return Answer(*op, AdminError::kUnknownTopic, "no such partition", output);
  }
  const PartitionState& state = view->state;
  const BrokerId preferred = state.replicas[0];
  if (state.leader == preferred) {
    if (op->begun) return Answer(*op, AdminError::kNone, "", output);
    return Answer(*op, AdminError::kElectionNotNeeded, "the preferred replica leads", output);
  }
  const bool in_sync = std::find(state.isr.begin(), state.isr.end(),
                                 IsrMember{preferred, registered(preferred)}) != state.isr.end();
  if (!registered(preferred) || !in_sync) {
    return Answer(*op, AdminError::kPreferredNotAvailable,
                  "the preferred replica is dead or not in sync", output);
  }
  if (op->begun || !state.leader.has_value()) {
    op->begun = true;
    return false;  // the election goes on
  }
  if (Hosted* hosted = FindHosted(state.id);
      hosted != nullptr && hosted->machine != nullptr && hosted->machine->role() == Role::kLeader) {
    if (hosted->writing != Hosted::Writing::kNone) return false;
    HandOver(now, hosted, output);
    op->begun = true;
    return false;
  }
  // The leader hears of it by its watch. Until then its acknowledgements need all of the ISR, the
  // successor among them, which refuses the old epoch.
  Transition transition;
  transition.Check(IsrPath(state.topic, request.partition), state.isr_version);
  transition.Delete(LeaderPath(state.topic, request.partition));
  GuardTopic(request.topic, state.id.topic, &transition);
  Submit(now, op, transition, request.topic, output);
  return false;
}

// ---- Removal -----------------------------------------------------------------------------------

// What is to be removed: topics that are marked as being deleted, and halves of creations whose
// creator is gone (cleanFailedTopicCreationAttempts). One broker does it, the live one with the
// smallest id; another one takes over when it is gone.
void Broker::Impl::RemoveTopics(Instant now, BrokerOutput* output) {
  if (phase_ != Phase::kActive || !metadata_.complete()) return;
  if (metadata_.brokers().empty() || metadata_.brokers().begin()->first != options_.broker) return;
  for (const std::string& topic : metadata_.UnfinishedTopics()) {
    const auto node = metadata_.FindTopicNode(topic);
    if (!node.has_value()) continue;
    if (metadata_.reading(TopicPath(topic))) {
      timers_.Set(Timer::kHousekeeping, now + kRemoveRetry);
      continue;
    }
    const TopicRecord& record = node->record;
    if (!record.deleting && metadata_.incarnations().count(record.creator) > 0) continue;
    if (!removing_.insert(topic).second) continue;
    RemoveTopic(now, topic, *node, output);
  }
}

void Broker::Impl::RemoveTopic(Instant now, const std::string& topic,
                               const MetadataCache::TopicNode& node, BrokerOutput* output) {
  Transition transition;
  transition.Check(TopicPath(topic), node.version);
  GuardTopic(topic, node.record.id, &transition);
  size_t left = node.partitions.size();
  for (int32_t partition : node.partitions) {
    if (transition.size() + 8 > kTransitionOperationsMax) break;
    --left;
    for (const std::string& path : metadata_.NodesOf(topic, partition)) transition.Delete(path);
  }
  if (left == 0) {
    if (node.reassigned) transition.Delete(ReassignedTopicPath(topic));
    transition.Delete(TopicIdPath(topic, node.record.id));
    transition.Delete(TopicPath(topic));
  }
  Multi(
      now, transition,
      [this, topic, left](Instant then, ErrorCode error, const coordination::MultiResponse*,
                          BrokerOutput* out) {
        removing_.erase(topic);
        if (error == ErrorCode::kOk && left == 0) {
          Emit(out, EventKind::kTopicRemoved, 0, "", {}, topic);
        } else if (error != ErrorCode::kConnectionLoss) {
          // More to do; or a node came or went, such as a leader's that was elected meanwhile.
          metadata_.ReadAgain(TopicPath(topic));
          metadata_.ReadAgain(ReassignedTopicPath(topic));
          timers_.Set(Timer::kHousekeeping, then + kRemoveRetry);
        } else {
          timers_.Set(Timer::kHousekeeping, then + kRemoveRetry);
        }
      },
      output);
}

// ---- Producer ids ------------------------------------------------------------------------------

void Broker::Impl::ReadProducerIds(Instant now, BrokerOutput* output) {
  if (reading_producer_ids_ || phase_ != Phase::kActive) return;
  reading_producer_ids_ = true;
  Call(
      now, OpCode::kGetData, coordination::GetDataRequest{kProducerIdBlockPath},
      [this](Instant then, const Completion& completion, BrokerOutput* out) {
        reading_producer_ids_ = false;
        if (completion.header.error != ErrorCode::kOk) return;
        const auto& found = std::get<coordination::GetDataResponse>(completion.body);
        // As Kafka has it: the bounds of the last block, the end inclusive, as strings.
        int64_t begin = 0;
        if (absl::StatusOr<Json> json = Json::Parse(found.data.bytes.view()); json.ok()) {
          const Json* end = json->Find("block_end");
          if (end == nullptr || end->string() == nullptr) return;
          absl::StatusOr<Json> number = Json::Parse(*end->string());
          if (!number.ok() || number->integer() == nullptr || *number->integer() < 0 ||
              *number->integer() > INT64_MAX - 2 * kProducerIdBlock) {
            return;
          }
          begin = *number->integer() + 1;
        } else if (!found.data.bytes.empty()) {
          return;  // somebody wrote something else; an id must not be given twice
        }
        const std::string data =
            Json(Json::Object{{"version", 1},
                              {"broker", options_.broker.value},
                              {"block_start", std::to_string(begin)},
                              {"block_end", std::to_string(begin + kProducerIdBlock - 1)}})
                .ToString();
        reading_producer_ids_ = true;
        Call(
            then, OpCode::kSetData,
            coordination::SetDataRequest{
                kProducerIdBlockPath, {.bytes = Bytes::Copy(data)}, found.stat.version},
            [this, begin](Instant later, const Completion& written, BrokerOutput* to) {
              reading_producer_ids_ = false;
              if (written.header.error == ErrorCode::kOk) {
                producer_id_ = begin;
                producer_ids_end_ = begin + kProducerIdBlock;
                to->producer_ids = true;
              } else {
                // Another broker took the block; or nobody knows, and it is left unused.
                ReadProducerIds(later, to);
              }
            },
            out);
      },
      output);
}

}  // namespace lockstep::replication
