#include "tests/support/partition_ensemble.h"

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <variant>

#include "core/base/check.h"
#include "core/records/record_batch.h"

namespace lockstep::replication {
namespace {

constexpr Duration kKeepInSync = Milliseconds(300);
constexpr PartitionId kPartition{.topic = {.high = 1, .low = 2}, .partition = 0};

void Throw(const char* file, int line, const char* expression, const std::string& detail) {
  throw std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": " + expression +
                           " (" + detail + ")");
}

void Erase(std::vector<IsrMember>* isr, BrokerId broker) {
  std::erase_if(*isr, [&](const IsrMember& member) { return member.broker == broker; });
}

bool Has(const std::vector<BrokerId>& brokers, BrokerId broker) {
  return std::find(brokers.begin(), brokers.end(), broker) != brokers.end();
}

std::string Describe(const storage::LogChange& change) {
  if (const auto* append = std::get_if<storage::LogAppend>(&change)) {
    return "append " + std::to_string(append->base_offset) + ".." +
           std::to_string(append->end_offset);
  }
  if (const auto* truncate = std::get_if<storage::LogTruncate>(&change)) {
    return "truncate to " + std::to_string(truncate->to);
  }
  if (const auto* epoch = std::get_if<storage::LogEpoch>(&change)) {
    return "epoch " + std::to_string(epoch->start.epoch) + " at " +
           std::to_string(epoch->start.start);
  }
  return "start at " + std::to_string(std::get<storage::LogStart>(change).start);
}

}  // namespace

// ---- FakeLog ------------------------------------------------------------------------------------

Bytes MakeBatch(Offset base, LeaderEpoch epoch, int32_t records, uint64_t value) {
  records::BatchHeader header;
  header.base_offset = base;
  header.partition_leader_epoch = epoch.value;
  header.last_offset_delta = records - 1;
  header.record_count = records;
  header.producer_id = static_cast<int64_t>(value);
  return records::SealBatch(header, Bytes::Copy("v" + std::to_string(value))).Join();
}

void FakeLog::Apply(const storage::LogChange& change) {
  if (const auto* append = std::get_if<storage::LogAppend>(&change)) {
    LS_CHECK_EQ(append->base_offset, end);
    for (const Bytes& slice : append->batches) {
      for (size_t at = 0; at < slice.size();) {
        const auto header = records::ParseBatchHeader(slice.view().substr(at));
        LS_CHECK(header.ok());
        LS_CHECK_EQ(header->base_offset, end);
        if (epochs.empty() || epochs.back().epoch < header->partition_leader_epoch) {
          while (!epochs.empty() && epochs.back().start >= end) epochs.pop_back();
          epochs.push_back({header->partition_leader_epoch, end});
        }
        batches.push_back({.base = end,
                           .end = header->next_offset(),
                           .epoch = header->partition_leader_epoch,
                           .value = static_cast<uint64_t>(header->producer_id),
                           .bytes = slice.Slice(at, header->size())});
        end = header->next_offset();
        at += header->size();
      }
    }
    LS_CHECK_EQ(append->end_offset, end);
  } else if (const auto* truncate = std::get_if<storage::LogTruncate>(&change)) {
    if (truncate->to < start) {
      *this = {.start = truncate->to, .end = truncate->to};
      return;
    }
    while (!batches.empty() && batches.back().base >= truncate->to) batches.pop_back();
    if (!batches.empty()) LS_CHECK_LE(batches.back().end, truncate->to);  // batches stay whole
    while (!epochs.empty() && epochs.back().start >= truncate->to) epochs.pop_back();
    end = std::min(end, truncate->to);
  } else if (const auto* epoch = std::get_if<storage::LogEpoch>(&change)) {
    LS_CHECK_EQ(epoch->start.start, end);
    while (!epochs.empty() && epochs.back().start >= end) epochs.pop_back();
    epochs.push_back(epoch->start);
  } else {
    const Offset to = std::get<storage::LogStart>(change).start;
    if (to > end) {
      *this = {.start = to, .end = to};
      return;
    }
    start = to;
    while (!batches.empty() && batches.front().end <= to) batches.pop_front();
    while (epochs.size() > 1 && epochs[1].start <= to) epochs.erase(epochs.begin());
    if (!epochs.empty()) epochs.front().start = std::max(epochs.front().start, to);
  }
}

const FakeLog::Batch* FakeLog::At(Offset offset) const {
  if (offset < start) return nullptr;
  const auto found =
      std::upper_bound(batches.begin(), batches.end(), offset,
                       [](Offset value, const Batch& batch) { return value < batch.end; });
  return found == batches.end() || found->base > offset ? nullptr : &*found;
}

std::vector<Bytes> FakeLog::Read(Offset from, size_t count) const {
  std::vector<Bytes> read;
  for (const Batch* batch = At(from); batch != nullptr && read.size() < count;
       batch = At(batch->end)) {
    read.push_back(batch->bytes);
  }
  return read;
}

storage::RecoveredLog FakeLog::Recovered(Offset high_watermark) const {
  return {.start = start, .end = end, .epochs = epochs, .high_watermark = high_watermark};
}

// ---- The run ------------------------------------------------------------------------------------

PartitionEnsemble::PartitionEnsemble(uint64_t seed, const Options& options)
    : options_(options), random_(seed, {}, 0, 0) {
  const int brokers = static_cast<int>(random_.Between(3, 5));
  const int replicas = static_cast<int>(random_.Between(2, std::min(brokers, 4)));
  static constexpr uint64_t kSlow[] = {0, 1, 5, 20};
  slow_ = kSlow[random_.Below(4)];
  min_insync_ = static_cast<uint32_t>(random_.Between(1, 2));
  static constexpr uint64_t kOutOfOrder[] = {0, 5, 30, 80};
  out_of_order_ = kOutOfOrder[random_.Below(4)];
  //                      deliver drop repeat produce persist crash restart expire elect depose
  static constexpr int kWeights[kActions] = {400, 15, 10, 60, 150, 8, 40, 6, 40, 8,
                                             // refresh refetch pass disk start reassign outcome
                                             60, 40, 40, 2, 2, 4, 8};
  // Each kind of fault is off, rare, usual or frequent in a seed.
  for (int action = 0; action < kActions; ++action) {
    static constexpr int kFactor[] = {0, 1, 2, 6};
    const bool fault = action == kDrop || action == kRepeat || action == kCrash ||
                       action == kExpire || action == kDepose || action >= kLoseDisk;
    const uint64_t draw = random_.Below(4);
    weights_.push_back(kWeights[action] * (fault ? kFactor[draw] : static_cast<int>(draw) + 1));
  }
  registry_.state.id = kPartition;
  registry_.state.topic = "t";
  registry_.state.leader_epoch = {-1};
  nodes_.resize(static_cast<size_t>(brokers));
  for (int id = 1; id <= brokers; ++id) {
    Node& node = nodes_[static_cast<size_t>(id - 1)];
    node.id = {id};
    static constexpr uint64_t kLag[] = {0, 0, 50, 95};
    node.lag = kLag[random_.Below(4)];
    node.incarnation = {++registry_.last_czxid};
    registry_.registered[node.id] = node.incarnation;
    if (id > replicas) continue;
    registry_.state.replicas.push_back(node.id);
    registry_.state.isr.push_back({node.id, node.incarnation});
  }
  SetCheckHook(&Throw);
}

PartitionEnsemble::~PartitionEnsemble() { SetCheckHook(nullptr); }

void PartitionEnsemble::Step(const std::function<void()>& step) {
  try {
    step();
    if (violation_.empty()) Check();
  } catch (const std::runtime_error& failed) {
    Violate(std::string("check: ") + failed.what());
  }
}

void PartitionEnsemble::Run() {
  for (Node& node : nodes_) {
    node.up = true;
    Step([&] { See(&node, registry_); });
  }
  int total = 0;
  for (int weight : weights_) total += weight;
  for (step_ = 0; step_ < options_.steps && violation_.empty(); ++step_) {
    int64_t draw = random_.Between(0, total - 1);
    int action = 0;
    while (draw >= weights_[static_cast<size_t>(action)]) {
      draw -= weights_[static_cast<size_t>(action++)];
    }
    Step([&] { Do(static_cast<Action>(action)); });
  }
  if (violation_.empty()) Heal();
}

void PartitionEnsemble::Do(Action action) {
  Node& node = AnyNode();
  switch (action) {
    case kDeliver: {
      if (messages_.empty()) return;
      const bool any = Below(out_of_order_, 100);
      const size_t from = any ? random_.Below(messages_.size()) : 0;
      for (size_t i = 0; i < messages_.size(); ++i) {
        const size_t index = (from + i) % messages_.size();
        if (messages_[index].not_before <= step_) return Deliver(index);
      }
      return;
    }
    case kDrop: {
      if (messages_.empty()) return;
      const auto at = messages_.begin() + static_cast<int64_t>(random_.Below(messages_.size()));
      const Message message = *at;
      messages_.erase(at);
      return LoseOutcome(message);
    }
    case kRepeat:
      // Not the registry's: its client never sends a request twice.
      if (!messages_.empty()) {
        const Message message = messages_[random_.Below(messages_.size())];
        if (message.kind == Message::Kind::kFetch || message.kind == Message::Kind::kAnswer) {
          Send(message);
        }
      }
      return;
    case kProduce:
      return Produce(&node, Below(1, 5) ? Acks::kLeader : Acks::kAll);
    case kPersist:
      return Persist(&node);
    case kCrash:
      if (node.up) Crash(&node, false);
      return;
    case kRestart:
      if (!node.up) Start(&node);
      return;
    case kExpire:
      return Expire(&node);
    case kElect:
      return Elect();
    case kDepose:
      if (registry_.state.leader) {
        registry_.state.leader.reset();
        Changed();
      }
      return;
    case kRefresh:
      if (node.up && !Below(node.lag, 100)) See(&node, registry_);
      return;
    case kRefetch:
      return SendFetch(&node);
    case kPass:
      now_ = now_ + Milliseconds(static_cast<int64_t>(random_.Between(1, 60)));
      for (Node& each : nodes_) Wake(&each);
      return;
    case kLoseDisk:
      // Not the last one's: what only one disk had is gone then, rightly.
      for (const Node& other : nodes_) {
        if (other.id != node.id && IsElectable(other)) return Crash(&node, true);
      }
      return;
    case kMoveLogStart:
      if (node.partition && node.partition->role() == Role::kLeader) {
        PartitionOutput output;
        node.partition->SetLogStart(
            now_, random_.Between(node.partition->log_start(), node.partition->high_watermark()),
            &output);
        Finish(&node, &output);
      }
      return;
    case kReassign:
      return Reassign();
    case kLoseOutcome:
      // What was asked may still be applied, now or much later.
      for (const Message& message : messages_) {
        if (message.kind == Message::Kind::kIsrChange ||
            message.kind == Message::Kind::kIsrOutcome) {
          return LoseOutcome(Message(message));
        }
      }
      return;
    case kActions:
      break;
  }
  LS_UNREACHABLE();
}

// Some messages take much longer than others, and some brokers hear of changes late.
void PartitionEnsemble::Send(Message message) {
  const bool lags = message.kind == Message::Kind::kWatch && Below(node(message.to).lag, 100);
  if (lags || Below(slow_, 100)) {
    message.not_before = step_ + static_cast<int>(random_.Between(10, 250));
  }
  messages_.push_back(std::move(message));
}

// ---- The registry -------------------------------------------------------------------------------

// Watches fire, each on its own way.
void PartitionEnsemble::Changed() {
  ++registry_.revision;
  if (options_.trace) {
    std::string isr;
    for (const IsrMember& member : registry_.state.isr) {
      isr += " " + member.broker.ToString() + "/" + member.incarnation.ToString();
    }
    isr += ", ar";
    for (BrokerId broker : registry_.state.replicas) isr += " " + broker.ToString();
    Trace(registry_.state.leader.value_or(BrokerId{}),
          "leads, epoch " + registry_.state.leader_epoch.ToString() + ", isr" + isr);
  }
  for (const Node& node : nodes_) {
    Send({.kind = Message::Kind::kWatch, .to = node.id, .view = registry_});
  }
}

// In the ISR as the incarnation whose data it has.
bool PartitionEnsemble::IsElectable(const Node& node) const {
  if (node.lost) return false;
  for (const IsrMember& member : registry_.state.isr) {
    if (member.broker != node.id) continue;
    return !options_.rules.fence_followers_by_incarnation ||
           !options_.rules.elect_retained_incarnation_only ||
           member.incarnation == node.incarnation;
  }
  return false;
}

void PartitionEnsemble::Register(Node* node) {
  // The former session ends with it.
  if (registry_.state.leader == node->id) registry_.state.leader.reset();
  const bool electable = IsElectable(*node) || !options_.rules.elect_retained_incarnation_only;
  node->incarnation = {++registry_.last_czxid};
  registry_.registered[node->id] = node->incarnation;
  auto& isr = registry_.state.isr;
  for (size_t i = 0; i < isr.size(); ++i) {
    if (isr[i].broker != node->id) continue;
    if (electable) {
      isr[i].incarnation = node->incarnation;
    } else if (isr.size() > 1) {
      isr.erase(isr.begin() + static_cast<int64_t>(i));
    } else {
      break;
    }
    ++registry_.state.isr_version;
    break;
  }
  node->lost = false;
  Changed();
}

void PartitionEnsemble::Elect() {
  if (registry_.state.leader) return;
  std::vector<BrokerId> candidates;
  for (const Node& node : nodes_) {
    const auto session = registry_.registered.find(node.id);
    const bool assigned = Has(registry_.state.replicas, node.id);
    if (node.up && assigned && session != registry_.registered.end() &&
        session->second == node.incarnation &&
        (IsElectable(node) || !options_.rules.elect_from_isr_only)) {
      candidates.push_back(node.id);
    }
  }
  if (candidates.empty()) return;
  const BrokerId leader = candidates[random_.Below(candidates.size())];
  if (!IsElectable(node(leader))) {
    registry_.state.isr = {{leader, node(leader).incarnation}};
    ++registry_.state.isr_version;
  }
  registry_.state.leader = leader;
  registry_.leader_incarnation = node(leader).incarnation;
  ++registry_.state.leader_epoch.value;
  Changed();
}

void PartitionEnsemble::Expire(Node* node) {
  if (registry_.registered.erase(node->id) == 0) return;
  if (registry_.state.leader == node->id) registry_.state.leader.reset();
  Changed();
}

// Removes a replica that does not lead, or adds one.
void PartitionEnsemble::Reassign() {
  PartitionState& state = registry_.state;
  const BrokerId broker = AnyNode().id;
  if (!Has(state.replicas, broker)) {
    state.replicas.push_back(broker);
  } else {
    std::vector<IsrMember> rest = state.isr;
    Erase(&rest, broker);
    // Those that stay have to be able to lead, and be as many as a commit needs.
    const bool can_lead = std::any_of(rest.begin(), rest.end(), [&](const IsrMember& member) {
      return IsElectable(node(member.broker));
    });
    if (state.leader == broker || !can_lead || state.replicas.size() <= 2) return;
    std::erase(state.replicas, broker);
    if (rest.size() != state.isr.size()) {
      state.isr = rest;
      ++state.isr_version;
    }
  }
  ++state.replicas_version;
  Changed();
}

// An ISR change as one multi.
void PartitionEnsemble::Apply(const Message& message) {
  const PartitionOutput::IsrChange& change = message.change;
  PartitionState& state = registry_.state;
  const auto session = registry_.registered.find(message.from);
  bool holds = session != registry_.registered.end() && session->second == message.incarnation;
  if (options_.rules.compare_versions) {
    holds = holds && state.leader == message.from &&
            registry_.leader_incarnation == message.incarnation &&
            state.leader_epoch == change.leader_epoch && state.isr_version == change.from_version &&
            state.replicas_version == change.replicas_version;
  }
  for (const IsrMember& member : change.isr) {
    const bool was = std::find(state.isr.begin(), state.isr.end(), member) != state.isr.end();
    const auto registered = registry_.registered.find(member.broker);
    if (was || !options_.rules.fence_followers_by_incarnation) continue;
    holds = holds && registered != registry_.registered.end() &&
            registered->second == member.incarnation;
  }
  // What would leave only members that lost their disks since is as good as a lost disk of the last
  // one.
  holds = holds && std::any_of(change.isr.begin(), change.isr.end(),
                               [&](const IsrMember& member) { return !node(member.broker).lost; });
  if (holds) {
    state.isr = change.isr;
    ++state.isr_version;
    Changed();
  }
  messages_.push_back(
      {.kind = Message::Kind::kIsrOutcome,
       .to = message.from,
       .life = message.life,
       .change = change,
       .outcome = holds ? Partition::Outcome::kApplied : Partition::Outcome::kRefused,
       .version = state.isr_version});
}

// ---- A broker -----------------------------------------------------------------------------------

void PartitionEnsemble::Start(Node* node) {
  node->up = true;
  node->view = {};
  Register(node);
  See(node, registry_);
}

void PartitionEnsemble::Crash(Node* node, bool lose_disk) {
  if (node->up) {
    // Any prefix of what was under way became durable.
    while (!node->pending.empty() && Below(1, 2)) {
      node->durable.Apply(node->pending.front());
      node->pending.pop_front();
    }
  }
  Trace(node->id, lose_disk ? "loses its disk" : "crashes");
  node->pending.clear();
  node->partition.reset();
  node->waiting.clear();
  node->up = false;
  if (lose_disk) {
    node->durable = {};
    node->checkpoint = 0;
    node->lost = true;
    ++seen_["lost-disk"];
  }
  node->log = node->durable;
}

void PartitionEnsemble::Persist(Node* node) {
  if (!node->up || node->pending.empty()) return;
  const storage::LogChange change = node->pending.front();
  node->pending.pop_front();
  node->durable.Apply(change);
  if (!node->partition) return;
  PartitionOutput output;
  node->partition->OnPersisted(now_, &output);
  Finish(node, &output);
  if (Below(1, 4)) node->checkpoint = node->partition->high_watermark();
}

void PartitionEnsemble::Produce(Node* node, Acks acks) {
  if (!node->partition) return;
  const uint64_t value = ++values_;
  const auto records = static_cast<int32_t>(random_.Between(1, 2));
  node->waiting[{value}] = {value, acks};
  PartitionOutput output;
  node->partition->Produce(
      now_, {value}, acks, now_ + Milliseconds(500),
      {MakeBatch(node->partition->log_end(), node->partition->leader_epoch(), records, value)},
      records, &output);
  Finish(node, &output);
}

void PartitionEnsemble::SendFetch(Node* node) {
  if (!node->partition) return;
  const auto fetch = node->partition->NextFetch();
  if (!fetch) return;
  Send({.kind = Message::Kind::kFetch,
        .from = node->id,
        .to = *node->partition->state().leader,
        .life = node->life,
        .incarnation = node->incarnation,
        .fetch = *fetch});
}

void PartitionEnsemble::See(Node* node, const Registry& view) {
  if (view.revision < node->view.revision || !node->up) return;
  node->view = view;
  const auto session = view.registered.find(node->id);
  PartitionOutput output;
  if (session == view.registered.end() || session->second != node->incarnation) {
    // Our session is gone, or this is older than our registration.
    if (node->partition) {
      node->partition->Resign(now_, &output);
      Finish(node, &output);
    }
    Register(node);
    node->view = registry_;
    return See(node, registry_);
  }
  if (!Has(view.state.replicas, node->id)) {
    if (node->partition) ++seen_["closed"];
    node->partition.reset();
    node->waiting.clear();
    node->pending.clear();
    node->log = {};
    node->durable = {};
    node->checkpoint = 0;
    return;
  }
  if (!node->partition) {
    PartitionOptions options{.broker = node->id,
                             .keep_in_sync_time = kKeepInSync,
                             .min_insync_replicas = min_insync_,
                             .rules = options_.rules};
    node->life = ++lives_;
    node->partition =
        std::make_unique<Partition>(options, view.state, node->log.Recovered(node->checkpoint));
  }
  if (view.state.leader == node->id && view.leader_incarnation == node->incarnation) {
    node->partition->BecomeLeader(now_, view.state, node->incarnation, &output);
  } else if (view.state.leader && *view.state.leader != node->id) {
    node->partition->BecomeFollower(now_, view.state, &output);
  } else {
    node->partition->Resign(now_, &output);
  }
  node->partition->Update(now_, view.state, &output);
  Finish(node, &output);
}

void PartitionEnsemble::OnFetch(Node* node, const Message& message) {
  if (!node->partition) return;
  Partition& partition = *node->partition;
  const auto registered = node->view.registered.find(message.from);
  PartitionOutput output;
  const Partition::FetchDecision decision = partition.OnFetch(
      now_, message.from, message.incarnation,
      registered != node->view.registered.end() && registered->second == message.incarnation,
      message.fetch, &output);
  Finish(node, &output);
  ReplicaFetchResponse::Entry answer{.partition = kPartition,
                                     .error = decision.error,
                                     .leader_epoch = partition.leader_epoch(),
                                     .fetch_offset = message.fetch.fetch_offset,
                                     .last_fetched_epoch = message.fetch.last_fetched_epoch,
                                     .high_watermark = partition.high_watermark(),
                                     .log_start = partition.log_start(),
                                     .diverging = decision.diverging};
  if (decision.error == FetchError::kNone && !decision.diverging) {
    answer.batches = node->log.Read(decision.read_from, 1 + random_.Below(3));
  }
  partition.OnFetchAnswered(now_, message.from);
  Send({.kind = Message::Kind::kAnswer,
        .from = node->id,
        .to = message.from,
        .life = message.life,
        .answer = std::move(answer)});
}

void PartitionEnsemble::LoseOutcome(const Message& message) {
  BrokerId asker;
  if (message.kind == Message::Kind::kIsrChange) asker = message.from;
  if (message.kind == Message::Kind::kIsrOutcome) asker = message.to;
  if (!asker || !node(asker).partition || node(asker).life != message.life) return;
  node(asker).life = ++lives_;
  PartitionOutput output;
  node(asker).partition->OnIsrChange(now_, message.change.leader_epoch,
                                     Partition::Outcome::kUnknown, 0, &output);
  Finish(&node(asker), &output);
}

void PartitionEnsemble::Wake(Node* node) {
  if (!node->partition || node->partition->next_deadline() > now_) return;
  PartitionOutput output;
  node->partition->OnWake(now_, &output);
  Finish(node, &output);
  // Otherwise a host would spin.
  if (node->partition->next_deadline() <= now_) Violate("deadline-passed: it was not acted on");
}

void PartitionEnsemble::Deliver(size_t index) {
  const Message message = std::move(messages_[index]);
  messages_.erase(messages_.begin() + static_cast<int64_t>(index));
  if (message.kind == Message::Kind::kIsrChange) return Apply(message);
  Node& to = node(message.to);
  if (!to.up) return;
  PartitionOutput output;
  switch (message.kind) {
    case Message::Kind::kFetch:
      return OnFetch(&to, message);
    case Message::Kind::kAnswer:
      if (!to.partition || message.life != to.life) return;
      to.partition->OnFetchResponse(now_, message.from, message.answer, &output);
      break;
    case Message::Kind::kIsrOutcome:
      if (!to.partition || message.life != to.life) return;
      to.partition->OnIsrChange(now_, message.change.leader_epoch, message.outcome, message.version,
                                &output);
      break;
    case Message::Kind::kWatch:
      return See(&to, message.view);
    case Message::Kind::kIsrChange:
      LS_UNREACHABLE();
  }
  Finish(&to, &output);
}

// What came out of a step is carried out.
void PartitionEnsemble::Finish(Node* node, PartitionOutput* output) {
  for (storage::LogChange& change : output->changes) {
    Trace(node->id, Describe(change));
    node->log.Apply(change);
    node->pending.push_back(std::move(change));
  }
  for (const Event& event : output->events) {
    const bool reason = event.reason[0] != '\0';
    Trace(node->id, event.ToString());
    ++seen_[std::string(EventName(event.kind)) + (reason ? ":" + std::string(event.reason) : "")];
  }
  if (output->high_watermark_moved) {
    Trace(node->id, "high watermark " + std::to_string(node->partition->high_watermark()));
  }
  NoteCommitted(*node);
  for (const PartitionOutput::ProduceDone& done : output->produces_done) {
    const auto waiting = node->waiting.find(done.id);
    if (waiting == node->waiting.end()) return Violate("answered-twice: a produce");
    const auto [value, acks] = waiting->second;
    node->waiting.erase(waiting);
    if (done.error != ProduceError::kNone || acks != Acks::kAll) continue;
    ++acknowledged_;
    const auto committed = committed_.find(done.base_offset);
    if (committed == committed_.end() || committed->second.first != value) {
      Violate("acknowledged-is-committed: value " + std::to_string(value) + " at " +
              std::to_string(done.base_offset));
    }
  }
  if (output->isr_change) {
    Send({.kind = Message::Kind::kIsrChange,
          .from = node->id,
          .life = node->life,
          .incarnation = node->incarnation,
          .change = *output->isr_change});
  }
  if (output->fetch_now) SendFetch(node);
}

// ---- Ghosts -------------------------------------------------------------------------------------

// What a leader shows below its high watermark is committed, for ever, and on enough disks.
void PartitionEnsemble::NoteCommitted(const Node& node) {
  if (!node.partition || node.partition->role() != Role::kLeader) return;
  const Offset high_watermark = node.partition->high_watermark();
  for (Offset at = node.log.start; at < high_watermark; ++at) {
    const FakeLog::Batch* batch = node.log.At(at);
    if (batch == nullptr) {
      return Violate("high-watermark-within-log: broker " + node.id.ToString());
    }
    const auto [committed, is_new] = committed_.emplace(at, std::pair(batch->value, batch->epoch));
    if (committed->second != std::pair(batch->value, batch->epoch)) {
      return Violate("committed-never-changes: offset " + std::to_string(at));
    }
    if (!is_new) continue;
    size_t holders = 0;
    for (const Node& each : nodes_) {
      const FakeLog::Batch* durable = each.durable.At(at);
      holders += (durable != nullptr && durable->value == batch->value) ||
                 each.ever_durable.contains({at, batch->value});
    }
    if (holders < std::min<size_t>(min_insync_, registry_.state.replicas.size())) {
      return Violate("committed-on-min-insync-replicas: offset " + std::to_string(at));
    }
  }
  true_high_watermark_ = std::max(true_high_watermark_, high_watermark);
}

void PartitionEnsemble::CheckReplica(const Node& node) {
  if (!node.partition) return;
  const Partition& partition = *node.partition;
  if (partition.high_watermark() < node.log.start || partition.high_watermark() > node.log.end) {
    return Violate("high-watermark-within-log: broker " + node.id.ToString());
  }
  LS_CHECK_EQ(partition.log_end(), node.log.end);
  LS_CHECK_EQ(partition.log_start(), node.log.start);
  LS_CHECK(partition.epochs() == node.log.epochs);
  for (Offset at = node.log.start; at < partition.high_watermark(); ++at) {
    const FakeLog::Batch* batch = node.log.At(at);
    const auto committed = committed_.find(at);
    if (committed == committed_.end() || batch == nullptr ||
        committed->second != std::pair(batch->value, batch->epoch)) {
      return Violate("log-matching: broker " + node.id.ToString() + " at " + std::to_string(at));
    }
  }
  if (partition.role() == Role::kLeader && registry_.state.leader == node.id &&
      registry_.state.leader_epoch == partition.leader_epoch()) {
    for (const IsrMember& member : registry_.state.isr) {
      const auto maximal = partition.maximal_isr();
      if (std::none_of(maximal.begin(), maximal.end(),
                       [&](const IsrMember& known) { return known.broker == member.broker; })) {
        return Violate("replication-quorum-superset: broker " + member.broker.ToString());
      }
    }
  }
}

// Whoever may be elected has, on its disk, all that is committed. StrongIsr, LeaderCandidate-
// Completeness.
void PartitionEnsemble::CheckElectable(const Node& node) {
  if (!IsElectable(node)) return;
  for (Offset at = node.durable.start; at < true_high_watermark_; ++at) {
    const FakeLog::Batch* batch = node.durable.At(at);
    if (batch == nullptr || committed_.at(at) != std::pair(batch->value, batch->epoch)) {
      return Violate("electable-has-committed: broker " + node.id.ToString() + " at " +
                     std::to_string(at));
    }
  }
}

void PartitionEnsemble::Check() {
  for (Node& node : nodes_) {
    for (const FakeLog::Batch& batch : node.durable.batches) {
      for (Offset at = batch.base; at < batch.end; ++at) {
        node.ever_durable.insert({at, batch.value});
      }
    }
    CheckReplica(node);
    CheckElectable(node);
  }
}

// ---- In the end ---------------------------------------------------------------------------------

bool PartitionEnsemble::InOrder() {
  const PartitionState& state = registry_.state;
  if (!state.leader || state.isr.size() != state.replicas.size()) return false;
  const Node& leader = node(*state.leader);
  if (!leader.partition || leader.partition->role() != Role::kLeader) return false;
  for (BrokerId broker : state.replicas) {
    const Node& replica = node(broker);
    if (!replica.partition || replica.log.end != leader.log.end ||
        replica.partition->high_watermark() != leader.log.end) {
      return false;
    }
  }
  return leader.log.end > 0 && leader.waiting.empty();
}

void PartitionEnsemble::Heal() {
  const int before = acknowledged_;
  for (int round = 0; round < 300 && violation_.empty(); ++round) {
    Step([&] {
      for (Node& node : nodes_) {
        if (!node.up) Start(&node);
        See(&node, registry_);
        while (!node.pending.empty()) Persist(&node);
      }
      Elect();
      for (size_t left = messages_.size(); left > 0; --left) Deliver(0);
      now_ = now_ + Milliseconds(20);
      for (Node& node : nodes_) Wake(&node);
      // What was lost with a connection is asked for anew.
      if (round % 5 == 0) {
        for (Node& node : nodes_) SendFetch(&node);
      }
      if (round % 50 == 10 && registry_.state.leader)
        Produce(&node(*registry_.state.leader), Acks::kAll);
    });
    if (acknowledged_ > before && InOrder()) return;
  }
  Violate("liveness: not in order after all faults ended");
}

}  // namespace lockstep::replication
