// State-change queues, /brokers/state/[broker]: what this broker asks of others, and what it was
// asked.

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "core/base/check.h"
#include "core/replication/broker_impl.h"

namespace lockstep::replication {
namespace {

using coordination::ErrorCode;
using coordination::OpCode;
using Completion = coordination::ClientOutput::Completion;

// Of one broker, not yet in its queue; the oldest are dropped beyond it, as from a full queue.
constexpr size_t kOutboxMax = 100'000;
// Read and acted upon at one time.
constexpr size_t kActingMax = 64;
// What one shrink looks at: its multi deletes them all.
constexpr size_t kShrinkMax = 400;

const std::vector<coordination::Acl>& OpenAcl() {
  static const std::vector<coordination::Acl> kOpen = {
      {.permissions = 31, .scheme = "world", .id = "anyone"}};
  return kOpen;
}

}  // namespace

// ---- The sender's end: sendStateChange ---------------------------------------------------------

void Broker::Impl::SendStateChange(BrokerId to, StateChange change) {
  std::deque<StateChange>& waiting = outboxes_[to].waiting;
  if (waiting.size() >= kOutboxMax) waiting.pop_front();
  waiting.push_back(std::move(change));
}

void Broker::Impl::FlushOutboxes(Instant now, BrokerOutput* output) {
  for (auto& [broker, outbox] : outboxes_) {
    if (outbox.calling || outbox.waiting.empty()) continue;
    outbox.calling = true;
    const BrokerId to = broker;
    // How long the queue is, without reading it.
    Call(
        now, OpCode::kExists, coordination::ExistsRequest{StatePath(to)},
        [this, to](Instant then, const Completion& completion, BrokerOutput* out) {
          if (completion.header.error == ErrorCode::kOk) {
            const auto& found = std::get<coordination::StatResponse>(completion.body);
            const auto length = static_cast<uint32_t>(found.stat.num_children);
            if (length < options_.state_change_queue_max) return PutStateChanges(then, to, out);
            return ShrinkQueue(then, to, out);
          }
          if (completion.header.error == ErrorCode::kNoNode) {
            // It was assigned a replica and has never been up: it will find its queue.
            Call(
                then, OpCode::kCreate,
                coordination::CreateRequest{.path = StatePath(to), .acl = OpenAcl()},
                [this, to](Instant later, const Completion&, BrokerOutput* to_output) {
                  PutStateChanges(later, to, to_output);
                },
                out);
            return;
          }
          outboxes_[to].calling = false;  // lost: tried again
        },
        output);
  }
  Pump(now, output);
}

void Broker::Impl::PutStateChanges(Instant now, BrokerId to, BrokerOutput* output) {
  std::deque<StateChange>& waiting = outboxes_[to].waiting;
  std::vector<StateChange> changes;
  while (!waiting.empty() && changes.size() < kStateChangesMax) {
    changes.push_back(std::move(waiting.front()));
    waiting.pop_front();
  }
  const std::string path = StatePath(to) + "/request-";
  Call(
      now, OpCode::kCreate,
      coordination::CreateRequest{.path = path,
                                  .data = {.bytes = Bytes::Copy(EncodeStateChanges(changes))},
                                  .acl = OpenAcl(),
                                  .flags = coordination::CreateRequest::kSequential},
      [this, to, changes](Instant, const Completion& completion, BrokerOutput*) {
        Outbox& outbox = outboxes_[to];
        outbox.calling = false;
        // Perhaps it is there already; twice does no harm.
        if (completion.header.error == ErrorCode::kConnectionLoss) {
          outbox.waiting.insert(outbox.waiting.begin(), changes.begin(), changes.end());
        }
      },
      output);
}

// stateChangeQ.shrink: of a broker that has been away for long. Reads the oldest requests, and
// replaces them by what must be kept of them in one transition; the owner may come back and consume
// them meanwhile, in which case the transition is refused, and there is room.
void Broker::Impl::ShrinkQueue(Instant now, BrokerId to, BrokerOutput* output) {
  struct Shrink {
    std::vector<std::string> paths;
    size_t length = 0;
    size_t unread = 0;
    bool failed = false;
    std::map<std::string, std::vector<StateChange>> read;
  };
  auto finish = [this, to](Instant then, const Shrink& shrink, BrokerOutput* out) {
    if (shrink.failed) {
      outboxes_[to].calling = false;
      return;
    }
    std::vector<StateChange> all;
    for (const auto& [path, changes] : shrink.read) {
      all.insert(all.end(), changes.begin(), changes.end());
    }
    const std::vector<StateChange> kept = ShrinkStateChanges(all);
    Transition transition;
    size_t length = shrink.length - shrink.paths.size();
    for (const std::string& path : shrink.paths) transition.Delete(path);
    for (size_t begin = 0; begin < kept.size(); begin += kStateChangesMax, ++length) {
      const auto end = std::min(begin + kStateChangesMax, kept.size());
      transition.CreateSequential(
          StatePath(to) + "/request-",
          EncodeStateChanges({kept.begin() + static_cast<std::ptrdiff_t>(begin),
                              kept.begin() + static_cast<std::ptrdiff_t>(end)}));
    }
    Multi(
        then, transition,
        [this, to, length](Instant later, ErrorCode error, const coordination::MultiResponse*,
                           BrokerOutput* to_output) {
          Outbox& outbox = outboxes_[to];
          outbox.calling = false;
          if (error != ErrorCode::kOk) return;  // looked at again
          const bool room = length < options_.state_change_queue_max;
          if (room && options_.rules.recheck_queue_after_shrink) {
            outbox.calling = true;
            return PutStateChanges(later, to, to_output);
          }
          // FollowerStateChangeQueueFull. Nothing but time is lost: it reconciles at its start.
          Emit(to_output, EventKind::kStateChangeQueueFull, outbox.waiting.size(), "", to);
          outbox.waiting.clear();
        },
        out);
  };
  Call(
      now, OpCode::kGetChildren, coordination::GetChildrenRequest{StatePath(to)},
      [this, to, finish](Instant then, const Completion& completion, BrokerOutput* out) {
        if (completion.header.error != ErrorCode::kOk) {
          outboxes_[to].calling = false;
          return;
        }
        auto shrink = std::make_shared<Shrink>();
        const auto& found = std::get<coordination::GetChildrenResponse>(completion.body);
        shrink->length = found.children.size();
        for (std::string_view name : found.children) {
          shrink->paths.push_back(StatePath(to) + "/" + std::string(name));
        }
        // Names end in the sequence number, with leading zeros.
        std::sort(shrink->paths.begin(), shrink->paths.end());
        if (shrink->paths.size() > kShrinkMax) shrink->paths.resize(kShrinkMax);
        shrink->unread = shrink->paths.size();
        if (shrink->paths.empty()) {
          outboxes_[to].calling = false;
          return;
        }
        for (const std::string& path : shrink->paths) {
          Call(
              then, OpCode::kGetData, coordination::GetDataRequest{path},
              [shrink, path, finish](Instant later, const Completion& read, BrokerOutput* to_out) {
                if (read.header.error == ErrorCode::kOk) {
                  const auto& data = std::get<coordination::GetDataResponse>(read.body).data;
                  absl::StatusOr<std::vector<StateChange>> changes =
                      DecodeStateChanges(data.bytes.view());
                  if (changes.ok()) shrink->read[path] = *std::move(changes);
                } else {
                  shrink->failed = true;  // consumed meanwhile, or lost
                }
                if (--shrink->unread == 0) finish(later, *shrink, to_out);
              },
              out);
        }
      },
      output);
}

// ---- The receiver's end: stateChangeListener ---------------------------------------------------

// Acts, then deletes: a crash between the two repeats it. Only once /brokers has been read: what is
// asked is judged by the assignment (S1).
void Broker::Impl::TakeStateChanges(Instant now, BrokerOutput* output) {
  if (!metadata_.complete()) return;
  for (const std::string& path : metadata_.queue()) {
    if (acting_.size() >= kActingMax) break;
    if (!acting_.insert(path).second) continue;
    Call(
        now, OpCode::kGetData, coordination::GetDataRequest{path},
        [this, path](Instant then, const Completion& completion, BrokerOutput* out) {
          if (completion.header.error == ErrorCode::kNoNode) {
            metadata_.RemoveFromQueue(path);
            acting_.erase(path);
            return;
          }
          if (completion.header.error != ErrorCode::kOk) {
            acting_.erase(path);  // lost: the queue is read again
            return;
          }
          const auto& data = std::get<coordination::GetDataResponse>(completion.body).data;
          absl::StatusOr<std::vector<StateChange>> changes = DecodeStateChanges(data.bytes.view());
          if (changes.ok()) {
            for (const StateChange& change : *changes) Act(then, change, out);
          } else {
            Emit(out, EventKind::kStateChangeIgnored, 0, "not a state change");
          }
          Call(
              then, OpCode::kDelete, coordination::DeleteRequest{path},
              [this, path](Instant, const Completion& deleted, BrokerOutput*) {
                acting_.erase(path);
                if (deleted.header.error != ErrorCode::kConnectionLoss) {
                  metadata_.RemoveFromQueue(path);
                }
              },
              out);
        },
        output);
  }
  Pump(now, output);
}

void Broker::Impl::Act(Instant now, const StateChange& change, BrokerOutput* output) {
  const int32_t partition = change.partition.partition;
  const auto name = names_.find({change.topic, partition});
  const bool here = name != names_.end();
  const Rules& rules = options_.rules;
  if (change.kind == StateChange::Kind::kStartReplica ||
      (rules.fence_state_changes && rules.switch_assignment_before_closing)) {
    // The assignment as it is now says whether to start or to close, and which epoch to follow; a
    // request that comes late, or of a topic that was made again, changes nothing (S29, S33).
    if (here && name->second != change.partition) {
      Emit(output, EventKind::kStateChangeIgnored, static_cast<uint64_t>(partition),
           "of another topic of this name", {}, LogName(change.topic, partition));
    }
    if (metadata_.FindTopicNode(change.topic).has_value()) {
      metadata_.ReadAgain(PartitionPath(change.topic, partition));
    }
    return;
  }
  if (!here) return;
  Hosted* hosted = FindHosted(name->second);
  const bool other = hosted->id != change.partition ||
                     (hosted->machine != nullptr && hosted->machine->leader_epoch() > change.epoch);
  if (rules.fence_state_changes && other) {
    Emit(output, EventKind::kStateChangeIgnored, static_cast<uint64_t>(partition),
         "of another topic or leader epoch", {}, LogName(change.topic, partition));
    return;
  }
  Close(now, hosted, output);
}

}  // namespace lockstep::replication
