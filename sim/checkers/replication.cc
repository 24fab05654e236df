#include "sim/checkers/replication.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/kafka/compression.h"
#include "core/kafka/groups.h"
#include "core/records/record.h"
#include "core/records/record_batch.h"
#include "sim/failure.h"
#include "sim/trace.h"

namespace lockstep::sim {

using replication::BrokerEpoch;
using replication::BrokerId;
using replication::IsrMember;
using replication::PartitionId;
using replication::Role;

Replication::Replication(const BrokerPlan& plan, uint32_t servers, Probes* probes)
    : plan_(plan), servers_(servers), probes_(probes), state_(servers) {
  for (const TopicPlan& topic : plan.topics) {
    min_insync_[topic.name] = topic.min_insync;
    if (topic.unclean) unclean_.insert(topic.name);
  }
}

// ---- The coordination service ------------------------------------------------------------------

void Replication::OnCommitted(const CommittedEntry& entry) {
  const coordination::TransactionBody& body = entry.transaction.body;
  std::vector<std::pair<std::string, int32_t>> isrs;
  std::set<std::pair<std::string, int32_t>> changed;  // partitions of which any znode was
  const auto note = [&](const std::string& path) {
    const replication::Node node = replication::ParseNode(path);
    using Kind = replication::Node::Kind;
    const bool of_partition =
        node.kind == Kind::kIsr || node.kind == Kind::kReplicas || node.kind == Kind::kLeader;
    if (of_partition) changed.emplace(node.topic, node.partition);
  };
  const auto on = [&](const Operation& operation) {
    const std::string* path = nullptr;
    if (const auto* create = std::get_if<coordination::CreateTransaction>(&operation)) {
      path = &create->path;
      if (path->starts_with(replication::kBrokersPath)) {
        OnNode(*path, create->data.view(), entry.zxid);
      }
    } else if (const auto* set = std::get_if<coordination::SetDataTransaction>(&operation)) {
      path = &set->path;
      if (path->starts_with(replication::kBrokersPath)) {
        OnNode(*path, set->data.view(), entry.zxid);
      }
    } else if (const auto* remove = std::get_if<coordination::DeleteTransaction>(&operation)) {
      if (remove->path.starts_with(replication::kBrokersPath)) OnNodeGone(remove->path);
    }
    if (path != nullptr && path->starts_with(replication::kTopicsPath)) note(*path);
    if (path == nullptr || !path->ends_with("/isr")) return;
    const replication::Node node = replication::ParseNode(*path);
    if (node.kind == replication::Node::Kind::kIsr) isrs.push_back({node.topic, node.partition});
  };
  if (const auto* multi = std::get_if<coordination::MultiTransaction>(&body)) {
    for (const Operation& operation : multi->operations) on(operation);
  } else if (const auto* create = std::get_if<coordination::CreateTransaction>(&body)) {
    on(*create);
  } else if (const auto* set = std::get_if<coordination::SetDataTransaction>(&body)) {
    on(*set);
  } else if (const auto* remove = std::get_if<coordination::DeleteTransaction>(&body)) {
    on(*remove);
  } else if (const auto* close = std::get_if<coordination::CloseSessionTransaction>(&body)) {
    if (expiring_.erase(entry.transaction.header.session) > 0) ProbeExpired(close->paths_to_delete);
    for (const std::string& path : close->paths_to_delete) {
      if (path.starts_with(replication::kBrokersPath)) OnNodeGone(path);
    }
  }
  // When all of the transaction is known.
  for (const auto& [topic, partition] : changed) CheckNodes(topic, partition);
  for (const auto& [topic, partition] : isrs) OnIsr(topic, partition);
}

// LeaderInIsr, and S35: whatever moves a partition moves all of its znodes at once, so that a crash
// between two transactions finds none that contradict each other.
void Replication::CheckNodes(const std::string& topic, int32_t partition) const {
  const auto t = topics_.find(topic);
  if (t == topics_.end()) return;
  const auto p = t->second.partitions.find(partition);
  if (p == t->second.partitions.end() || !p->second.isr || !p->second.replicas) return;
  const PartitionNodes& nodes = p->second;
  const std::vector<IsrMember>& isr = nodes.isr->isr;
  const std::vector<BrokerId>& replicas = nodes.replicas->replicas;
  for (const IsrMember& member : isr) {
    if (std::find(replicas.begin(), replicas.end(), member.broker) != replicas.end()) continue;
    Fail("isr-is-assigned", absl::StrCat("broker ", member.broker.ToString(), " is in the ISR of ",
                                         topic, "-", partition, " and is no replica of it"));
  }
  if (!nodes.leader) return;
  const bool in_isr = std::any_of(isr.begin(), isr.end(), [&](const IsrMember& member) {
    return member.broker == nodes.leader->broker;
  });
  if (!in_isr || nodes.leader->epoch != nodes.isr->leader_epoch) {
    Fail("leader-in-isr",
         absl::StrCat("broker ", nodes.leader->broker.ToString(), " leads ", topic, "-", partition,
                      " in epoch ", nodes.leader->epoch.ToString(),
                      in_isr ? ", and the ISR is of epoch " + nodes.isr->leader_epoch.ToString()
                             : std::string(" and is not in its ISR")));
  }
}

void Replication::OnNode(const std::string& path, std::string_view data, Zxid zxid) {
  using Kind = replication::Node::Kind;
  if (path.starts_with(replication::kLineagePath)) return OnLineage(path, data);
  const replication::Node node = replication::ParseNode(path);
  const auto decoded = [&](const auto& record) {
    if (!record.ok()) {
      Fail("znodes-are-readable",
           absl::StrCat(path, " at ", zxid.ToString(), ": ", record.status().ToString()));
    }
    return *record;
  };
  switch (node.kind) {
    case Kind::kBroker: {
      decoded(replication::DecodeBroker(data));
      // What is written there later, that the incarnation is on the disk, makes no other of it.
      std::optional<BrokerEpoch>& known = brokers_[node.broker];
      if (known) return;
      const BrokerEpoch incarnation{static_cast<int64_t>(zxid.Packed())};
      known = incarnation;
      if (const auto server = ServerOf(node.broker); server && *server < servers_) {
        state_[*server].newest = incarnation;
      }
      return;
    }
    case Kind::kTopic: {
      TopicNodes& topic = topics_[node.topic];
      const std::optional<Uuid> id =
          topic.record ? std::make_optional(topic.record->id) : std::nullopt;
      if (!topic.record && recreated_.contains(node.topic)) probes_->Hit(Probe::kTopicRecreated);
      topic.record = decoded(replication::DecodeTopic(data));
      if (id && *id != topic.record->id) {
        Fail("topic-keeps-its-id", absl::StrCat(path, " goes from id ", id->ToString(), " to ",
                                                topic.record->id.ToString()));
      }
      if (topic.record->deleting) recreated_.insert(node.topic);
      const auto& configs = topic.record->configs;
      if (auto it = configs.find("min.insync.replicas"); it != configs.end()) {
        int64_t value = 1;
        if (absl::SimpleAtoi(it->second, &value)) {
          auto [smallest, is_new] = min_insync_.try_emplace(node.topic, value);
          smallest->second = std::min(smallest->second, value);
        }
      } else {
        min_insync_[node.topic] = 1;
      }
      if (auto it = configs.find("unclean.leader.election.enable");
          it != configs.end() && it->second == "true") {
        unclean_.insert(node.topic);
      }
      return;
    }
    case Kind::kReplicas: {
      PartitionNodes& nodes = topics_[node.topic].partitions[node.partition];
      nodes.replicas = decoded(replication::DecodeReplicas(data));
      return ProbeReassignment(&nodes);
    }
    case Kind::kIsr: {
      const replication::IsrRecord isr = decoded(replication::DecodeIsr(data));
      auto& before = topics_[node.topic].partitions[node.partition].isr;
      if (before && isr.leader_epoch < before->leader_epoch) {
        Fail("leader-epochs-rise",
             absl::StrCat(path, " goes from epoch ", before->leader_epoch.ToString(), " to ",
                          isr.leader_epoch.ToString()));
      }
      before = isr;
      return;
    }
    case Kind::kLeader:
      topics_[node.topic].partitions[node.partition].leader =
          decoded(replication::DecodeLeader(data));
      return;
    case Kind::kReassigned:
      topics_[node.topic].partitions[node.partition].reassigning = true;
      return;
    default:
      return;
  }
}

// What a broker may say that its logs hold. If that begins anew, it lost data or cannot tell.
void Replication::OnLineage(const std::string& path, std::string_view data) {
  const absl::StatusOr<replication::LineageRecord> record = replication::DecodeLineage(data);
  if (!record.ok()) return;  // the path itself
  size_t& known = lineages_[path];
  if (known > 0 && record->incarnations.size() == 1) probes_->Hit(Probe::kUncleanRestart);
  known = record->incarnations.size();
}

void Replication::ProbeReassignment(PartitionNodes* nodes) {
  const bool moving = !nodes->replicas->adding.empty() || !nodes->replicas->removing.empty();
  if (moving) {
    if (!nodes->moving_since && nodes->isr) nodes->moving_since = nodes->isr->leader_epoch;
    return;
  }
  const bool other = nodes->moving_since && nodes->isr->leader_epoch != *nodes->moving_since;
  if (other) probes_->Hit(Probe::kReassignmentOutlivedLeader);
  nodes->moving_since.reset();
}

// A session ends by the ensemble's decision: whose server is up has not asked for it.
void Replication::ProbeExpired(const std::vector<std::string>& paths) const {
  for (const std::string& path : paths) {
    if (!path.starts_with(replication::kBrokersPath)) continue;
    const replication::Node node = replication::ParseNode(path);
    if (node.kind != replication::Node::Kind::kLeader) continue;
    const auto topic = topics_.find(node.topic);
    if (topic == topics_.end() || !topic->second.record) continue;
    const auto nodes = topic->second.partitions.find(node.partition);
    if (nodes == topic->second.partitions.end() || !nodes->second.leader) continue;
    const replication::LeaderRecord& leader = *nodes->second.leader;
    const auto server = ServerOf(leader.broker);
    const auto p = ghosts_.find({topic->second.record->id, node.partition});
    if (!server || p == ghosts_.end()) continue;
    const auto replica = p->second.replicas.find(*server);
    if (replica == p->second.replicas.end()) continue;
    if (replica->second.view.epoch != leader.epoch.value) continue;  // it is down, or starts anew
    return probes_->Hit(Probe::kSessionExpiredWhileLeading);
  }
}

void Replication::OnNodeGone(const std::string& path) {
  using Kind = replication::Node::Kind;
  const replication::Node node = replication::ParseNode(path);
  switch (node.kind) {
    case Kind::kBroker:
      brokers_[node.broker].reset();
      return;
    case Kind::kTopic:
      recreated_.insert(node.topic);
      topics_.erase(node.topic);
      return;
    case Kind::kPartition:
      if (auto it = topics_.find(node.topic); it != topics_.end()) {
        it->second.partitions.erase(node.partition);
      }
      return;
    case Kind::kLeader:
      topics_[node.topic].partitions[node.partition].leader.reset();
      return;
    case Kind::kReassigned:
      topics_[node.topic].partitions[node.partition].reassigning = false;
      return;
    default:
      return;
  }
}

// The ISR of a partition has changed, at the coordination service.
void Replication::OnIsr(const std::string& topic, int32_t partition) {
  auto it = topics_.find(topic);
  if (it == topics_.end() || !it->second.record) return;
  auto nodes = it->second.partitions.find(partition);
  if (nodes == it->second.partitions.end() || !nodes->second.isr) return;
  const PartitionId id{it->second.record->id, partition};
  PartitionGhost& p = ghosts_[id];
  if (p.topic.empty()) {
    p.topic = topic;
    names_[{topic, partition}].push_back(id);
  }
  p.isr = nodes->second.isr;
  p.isr_is_news = true;
  CheckIsrHolds(id, &p);
}

bool Replication::registered(BrokerId broker) const {
  auto it = brokers_.find(broker);
  return it != brokers_.end() && it->second.has_value();
}

// ---- Replicas ----------------------------------------------------------------------------------

Replication::PartitionGhost* Replication::FindGhost(const PartitionId& id) {
  auto it = ghosts_.find(id);
  return it == ghosts_.end() ? nullptr : &it->second;
}

void Replication::OnLogs(uint32_t server, const std::vector<server::LogObservation>& seen) {
  Server& state = state_[server];
  // What recovery found comes first, all at once.
  bool recovery = std::exchange(state.stopped, false);
  std::set<storage::LogNumber> found;
  for (const server::LogObservation& what : seen) {
    if (const auto* recovered = std::get_if<server::LogRecovered>(&what)) {
      OnRecovered(server, *recovered);
      found.insert(recovered->log);
      continue;
    }
    if (std::exchange(recovery, false)) CheckAllRecovered(server, found);
    if (const auto* created = std::get_if<server::LogCreated>(&what)) {
      PartitionGhost& p = ghosts_[created->partition];
      if (p.topic.empty()) {
        p.topic = created->topic;
        names_[{p.topic, created->partition.partition}].push_back(created->partition);
      }
      Replica& replica = p.replicas[server];
      replica = Replica();
      replica.number = created->log;
      replica.created = created->id;
      replica.present = true;
      state.logs[created->log] = created->partition;
    } else if (const auto* changed = std::get_if<server::LogChanged>(&what)) {
      auto it = state.logs.find(changed->log);
      if (it == state.logs.end()) continue;
      PartitionGhost& p = ghosts_[it->second];
      Replica& replica = p.replicas[server];
      if (replica.log.unknown()) continue;
      replica.log.Apply(changed->id, changed->change);
      if (std::holds_alternative<storage::LogTruncate>(changed->change)) {
        replica.checked = std::min(replica.checked, replica.log.end());
        CheckIsrHolds(it->second, &p);
      }
      if (replica.log.start() > p.ghost.log_start) {
        p.ghost.log_start = replica.log.start();
        if (p.ghost.end > 0) probes_->Hit(Probe::kLogStartMoved);
      }
    } else if (const auto* deleted = std::get_if<server::LogDeleted>(&what)) {
      auto it = state.logs.find(deleted->log);
      if (it == state.logs.end()) continue;
      const PartitionId id = it->second;
      state.logs.erase(it);
      PartitionGhost& p = ghosts_[id];
      if (auto replica = p.replicas.find(server); replica != p.replicas.end()) {
        state.deleted[deleted->log] = {deleted->id, std::move(replica->second)};
        p.replicas.erase(replica);
      }
      CheckIsrHolds(id, &p);  // S34
    } else if (const auto* persisted = std::get_if<server::LogPersisted>(&what)) {
      for (auto& [number, id] : state.logs) {
        Replica& replica = ghosts_[id].replicas[server];
        replica.log.OnPersisted(persisted->id);
        if (replica.created <= persisted->id) replica.created = {};
      }
      std::erase_if(state.deleted,
                    [&](const auto& entry) { return entry.second.id <= persisted->id; });
    }
  }
  if (recovery) CheckAllRecovered(server, found);
}

void Replication::OnRecovered(uint32_t server, const server::LogRecovered& recovered) {
  Server& state = state_[server];
  PartitionGhost& p = ghosts_[recovered.partition];
  if (p.topic.empty()) {
    p.topic = recovered.topic;
    names_[{p.topic, recovered.partition.partition}].push_back(recovered.partition);
  }
  Replica& replica = p.replicas[server];
  if (auto undeleted = state.deleted.find(recovered.log); undeleted != state.deleted.end()) {
    replica = std::move(undeleted->second.replica);
  }
  state.logs[recovered.log] = recovered.partition;
  replica.number = recovered.log;
  replica.created = {};
  replica.present = true;
  replica.view = {};
  const std::string before = replica.log.ToString();
  const bool fits = plan_.durability == storage::Durability::kFlush
                        ? replica.log.OnFilesRecovered(recovered.start, recovered.end,
                                                       recovered.epochs, state.lost_power)
                        : replica.log.OnRecovered(recovered.start, recovered.end, recovered.epochs);
  replica.checked = std::min(replica.checked, replica.log.end());
  if (fits) return;
  std::string epochs;
  for (const storage::EpochStart& epoch : recovered.epochs) {
    absl::StrAppend(&epochs, ", epoch ", epoch.epoch, " from ", epoch.start);
  }
  Fail("durable-log-never-lost",
       absl::StrCat("server ", server + 1, " recovers ", Name(recovered.partition, p), " as ",
                    recovered.start, "..", recovered.end, epochs, ", which it was never; it was ",
                    before));
}

// The server has recovered these logs.
void Replication::CheckAllRecovered(uint32_t server,
                                    const std::set<storage::LogNumber>& recovered) {
  Server& state = state_[server];
  state.lost_power = false;
  state.deleted.clear();
  for (auto it = state.logs.begin(); it != state.logs.end();) {
    const auto [number, id] = *it;
    if (recovered.contains(number)) {
      ++it;
      continue;
    }
    PartitionGhost& p = ghosts_[id];
    if (auto replica = p.replicas.find(server);
        replica != p.replicas.end() && replica->second.number == number) {
      if (replica->second.created == storage::LogWriteId{}) {
        Fail("durable-log-never-lost", absl::StrCat("server ", server + 1, " does not recover ",
                                                    Name(id, p), ", which was durable there"));
      }
      p.replicas.erase(replica);
    }
    it = state.logs.erase(it);
  }
}

void Replication::OnStopped(uint32_t server, bool power_loss, bool cleanly) {
  Server& state = state_[server];
  state.lost_power |= power_loss;  // also if it dies again before it has recovered
  state.stopped = true;
  for (auto& [number, id] : state.logs) {
    PartitionGhost& p = ghosts_[id];
    Replica& replica = p.replicas[server];
    replica.view = {};
  }
  if (plan_.durability == storage::Durability::kFsync || cleanly) return;
  // What was not synced may be gone; and also if nothing is, a broker does not know that.
  state.lost = std::max(state.lost, state.newest);
  for (auto& [number, id] : state.logs) OnLoss(&ghosts_[id]);
}

void Replication::OnDiskReplaced(uint32_t server) {
  Server& state = state_[server];
  state.lost = std::max(state.lost, state.newest);
  for (auto& [number, id] : state.logs) {
    PartitionGhost& p = ghosts_[id];
    p.replicas.erase(server);
    OnLoss(&p);
  }
  state.logs.clear();
  state.deleted.clear();
}

// A replica has lost data. If nobody in the ISR holds all that was committed, what happens then is
// the operator's choice.
void Replication::OnLoss(PartitionGhost* p) {
  if (!p->isr) return;
  for (const IsrMember& member : p->isr->isr) {
    const auto server = ServerOf(member.broker);
    if (server && Intact(member) && Holds(*p, *server)) return;
  }
  p->ghost.may_have_lost = true;
  probes_->Hit(Probe::kAllInSyncLost);
}

bool Replication::Intact(const IsrMember& member) const {
  const auto server = ServerOf(member.broker);
  return server && *server < servers_ && member.incarnation > state_[*server].lost;
}

bool Replication::Holds(const PartitionGhost& p, uint32_t server) const {
  auto it = p.replicas.find(server);
  if (it == p.replicas.end() || !it->second.present || it->second.log.unknown()) {
    return p.ghost.end == 0;
  }
  const Replica& replica = it->second;
  return replica.log.durable_end() >= p.ghost.end &&
         !FirstDifference(p, replica, replica.checked, p.ghost.end).has_value();
}

std::optional<int64_t> Replication::FirstDifference(const PartitionGhost& p, const Replica& replica,
                                                    int64_t from, int64_t to) const {
  from = std::max(from, replica.log.start());
  to = std::min(to, p.ghost.end);
  if (from >= to) return std::nullopt;
  if (replica.log.end() < to) {
    // What it has may be different already below its end.
    const std::optional<int64_t> below = FirstDifference(p, replica, from, replica.log.end());
    return below ? below : std::optional(replica.log.end());
  }
  auto ghost = std::upper_bound(p.ghost.batches.begin(), p.ghost.batches.end(), from,
                                [](int64_t o, const LoggedBatch& batch) { return o < batch.end; });
  size_t i = replica.log.Find(from);
  const std::vector<LoggedBatch>& batches = replica.log.batches();
  for (; ghost != p.ghost.batches.end() && ghost->base < to; ++ghost, ++i) {
    if (i >= batches.size() || !batches[i].SameAs(*ghost)) return ghost->base;
  }
  return std::nullopt;
}

void Replication::CheckMatches(uint32_t server, const PartitionId& id, const PartitionGhost& p,
                               Replica* replica, int64_t to, const char* invariant) {
  to = std::min(to, p.ghost.end);
  if (replica->checked >= to || replica->log.unknown()) return;
  if (const auto at = FirstDifference(p, *replica, replica->checked, to)) {
    const size_t i = replica->log.Find(*at);
    const bool there = *at < replica->log.end() && i < replica->log.batches().size();
    auto ghost =
        std::upper_bound(p.ghost.batches.begin(), p.ghost.batches.end(), *at,
                         [](int64_t o, const LoggedBatch& batch) { return o < batch.end; });
    Fail(invariant,
         absl::StrCat("server ", server + 1, " has of ", Name(id, p), " at offset ", *at, " ",
                      there ? absl::StrCat("a batch of epoch ", replica->log.batches()[i].epoch)
                            : std::string("nothing"),
                      " where a batch of epoch ", ghost->epoch, " is committed (up to ",
                      p.ghost.end, ")"));
  }
  replica->checked = to;
}

// StrongIsr, LeaderCandidateCompleteness: every member of the ISR that lives, or that could come
// back, has all that is committed, durably.
void Replication::CheckIsrHolds(const PartitionId& id, PartitionGhost* p) {
  if (!p->isr || p->ghost.may_have_lost) return;
  // Whose end was below the leader's log start begins anew there: it removes what it has first.
  if (p->ghost.end <= p->ghost.log_start) return;
  // When a topic is deleted each broker drops its replica as soon as it hears of it, and a leader
  // that has not heard yet goes on for that long.
  const auto topic = topics_.find(p->topic);
  const bool exists = topic != topics_.end() && topic->second.record &&
                      topic->second.record->id == id.topic && !topic->second.record->deleting;
  if (!exists) return;
  if (unclean_.contains(p->topic)) {
    // After an unclean election even the old leader may commit once more what nobody else has.
    for (const IsrMember& member : p->isr->isr) {
      const auto server = ServerOf(member.broker);
      if (!server || !Intact(member) || Holds(*p, *server)) continue;
      p->ghost.may_have_lost = true;
      return probes_->Hit(Probe::kUncleanLoss);
    }
  }
  for (const IsrMember& member : p->isr->isr) {
    const auto server = ServerOf(member.broker);
    if (!server || *server >= servers_) {
      Fail("strong-isr", absl::StrCat(Name(id, *p), " has broker ", member.broker.ToString()));
    }
    if (!Intact(member)) continue;
    auto it = p->replicas.find(*server);
    if (it == p->replicas.end() || !it->second.present) {
      Fail("strong-isr",
           absl::StrCat("server ", *server + 1, " is in the ISR of ", Name(id, *p),
                        ", of which it has no log, and ", p->ghost.end, " records are committed"));
    }
    Replica& replica = it->second;
    if (replica.log.unknown()) continue;
    if (replica.log.durable_end() < p->ghost.end) {
      Fail("strong-isr",
           absl::StrCat("server ", *server + 1, " is in the ISR of ", Name(id, *p),
                        ", has it durably up to ", replica.log.durable_end(), " (of ",
                        replica.log.end(), "), and it is committed up to ", p->ghost.end));
    }
    CheckMatches(*server, id, *p, &replica, p->ghost.end, "strong-isr");
  }
}

bool Replication::IsNews(uint32_t server, const PartitionId& partition, const ReplicaView& view,
                         uint64_t incarnation) const {
  auto p = ghosts_.find(partition);
  if (p == ghosts_.end()) return false;
  auto replica = p->second.replicas.find(server);
  if (replica == p->second.replicas.end()) return false;
  if (view.role == Role::kLeader && p->second.isr_is_news) return true;
  return replica->second.view != view || replica->second.view_incarnation != incarnation;
}

void Replication::OnView(uint32_t server, uint64_t incarnation, const PartitionId& id,
                         const ReplicaView& view, const std::optional<LeaderIsr>& isr) {
  PartitionGhost* p = FindGhost(id);
  if (p == nullptr) return;
  auto found = p->replicas.find(server);
  if (found == p->replicas.end()) return;
  Replica& replica = found->second;
  const ReplicaView before = replica.view;
  const bool same_run = replica.view_incarnation == incarnation;
  const size_t isr_size = std::max(isr ? isr->size : 0, same_run ? replica.isr_size : 0);
  // Within one step a leader may commit and then give the leadership away; it may even have taken
  // it in the same step.
  const bool has_led = view.role != Role::kLeader && same_run && before.role == Role::kLeader;
  const bool led_meanwhile = view.resigned && (!same_run || before.epoch != view.epoch);
  replica.view = view;
  replica.view_incarnation = incarnation;
  replica.isr_size = isr ? isr->size : 0;
  if (view.log_start > view.high_watermark || view.high_watermark > view.log_end) {
    Fail("offsets-in-order",
         absl::StrCat("server ", server + 1, " has ", Name(id, *p), " from ", view.log_start,
                      " to ", view.log_end, " with high watermark ", view.high_watermark));
  }
  const bool leads = view.role == Role::kLeader;
  const bool led = same_run && before.role == Role::kLeader && before.epoch == view.epoch;
  if ((leads && !led) || led_meanwhile) {
    const auto [it, is_new] = p->leaders.try_emplace(view.epoch, std::pair(server, incarnation));
    if (!is_new && it->second != std::pair(server, incarnation)) {
      Fail("one-leader-per-partition-epoch",
           absl::StrCat("server ", server + 1, " leads ", Name(id, *p), " in epoch ", view.epoch,
                        ", which server ", it->second.first + 1, " has led"));
    }
    CheckNewLeader(server, id, p, &replica, view.epoch);
  }
  if (p->ghost.may_have_lost) {
    p->isr_is_news = false;
    return;
  }
  if (leads && led && view.high_watermark < before.high_watermark) {
    Fail("high-watermark-monotone",
         absl::StrCat("server ", server + 1, " leads ", Name(id, *p), " and goes back from ",
                      before.high_watermark, " to ", view.high_watermark));
  }
  if (replica.log.unknown()) return;
  if ((leads || has_led || led_meanwhile) && view.high_watermark > p->ghost.end) {
    // What its ISR was before it resigned, nobody has seen.
    if (leads && static_cast<int64_t>(isr_size) < MinInsync(p->topic)) {
      Fail("commit-needs-min-insync",
           absl::StrCat("server ", server + 1, " commits ", Name(id, *p), " up to ",
                        view.high_watermark, " with an ISR of ", isr_size, ", and it was ",
                        p->ghost.end, " before"));
    }
    Extend(server, id, p, replica, view.high_watermark);
    CheckIsrHolds(id, p);
  } else if (view.high_watermark > p->ghost.end && !IsGone(id, p->topic)) {
    // Gone: a leader that commits and drops its replica in one step has told its followers, too.
    Fail("high-watermark-was-committed",
         absl::StrCat("server ", server + 1, " follows ", Name(id, *p), " with high watermark ",
                      view.high_watermark, ", and it is committed up to ", p->ghost.end));
  }
  CheckMatches(server, id, *p, &replica, view.high_watermark, "log-matching");
  if (leads && isr && p->isr && p->isr->leader_epoch.value == view.epoch) {
    p->isr_is_news = false;
    for (const IsrMember& member : p->isr->isr) {
      const bool counted =
          std::any_of(isr->maximal.begin(), isr->maximal.end(),
                      [&](const IsrMember& m) { return m.broker == member.broker; });
      if (counted) continue;
      Fail("replication-quorum-superset",
           absl::StrCat("server ", server + 1, " leads ", Name(id, *p), " in epoch ", view.epoch,
                        " without waiting for broker ", member.broker.ToString(),
                        ", which could be elected"));
    }
  }
}

void Replication::CheckNewLeader(uint32_t server, const PartitionId& id, PartitionGhost* p,
                                 Replica* replica, int32_t epoch) {
  if (p->ghost.may_have_lost || replica->log.unknown()) return;
  const auto at = FirstDifference(*p, *replica, replica->checked, p->ghost.end);
  if (!at) {
    replica->checked = std::max(replica->checked, p->ghost.end);
    return;
  }
  if (unclean_.contains(p->topic)) {
    p->ghost.may_have_lost = true;
    probes_->Hit(Probe::kUncleanLoss);
    return;
  }
  Fail("partition-leader-completeness",
       absl::StrCat("server ", server + 1, " leads ", Name(id, *p), " in epoch ", epoch,
                    ", has what is committed only up to ", *at, " of ", p->ghost.end));
}

int64_t Replication::MinInsync(const std::string& topic) const {
  auto it = min_insync_.find(topic);
  return it == min_insync_.end() ? 1 : it->second;
}

// ---- The ghost ---------------------------------------------------------------------------------

void Replication::Extend(uint32_t server, const PartitionId& id, PartitionGhost* p,
                         const Replica& leader, int64_t to) {
  if (leader.log.durable_end() < to) {
    Fail("leader-counts-durable-only",
         absl::StrCat("server ", server + 1, " commits ", Name(id, *p), " up to ", to,
                      " and has it durably up to ", leader.log.durable_end()));
  }
  const std::vector<LoggedBatch>& batches = leader.log.batches();
  // What has been deleted in the very step that committed it is still known here.
  if (batches.empty() || batches.front().base > p->ghost.end) {
    // Its log begins above all that was committed so far: a leader that was never one of us.
    Fail("no-committed-record-lost",
         absl::StrCat("server ", server + 1, " has ", Name(id, *p), " from ", leader.log.start(),
                      ", and only ", p->ghost.end, " was committed"));
  }
  for (size_t i = leader.log.Find(p->ghost.end); i < batches.size() && batches[i].base < to; ++i) {
    if (batches[i].base != p->ghost.end) {
      Fail("log-matching",
           absl::StrCat("server ", server + 1, " has a batch of ", Name(id, *p), " at ",
                        batches[i].base, " across the committed end ", p->ghost.end));
    }
    if (batches[i].end > to) {
      Fail("log-matching", absl::StrCat("server ", server + 1, " commits ", Name(id, *p), " up to ",
                                        to, ", within a batch"));
    }
    CommitRecords(id, p, batches[i]);
    p->ghost.end = batches[i].end;
    p->ghost.batches.push_back(
        {batches[i].base, batches[i].end, batches[i].epoch, batches[i].content, {}});
  }
}

void Replication::CommitRecords(const PartitionId& id, PartitionGhost* p,
                                const LoggedBatch& logged) {
  p->ghost.records.resize(static_cast<size_t>(logged.end));
  if (p->topic == kafka::kOffsetsTopic) return;
  std::string all;
  for (const Bytes& slice : logged.slices) all.append(slice.view());
  const records::Batch batch = records::Batch::Of(Bytes::Copy(all));
  const records::BatchHeader header = records::HeaderOf(batch);
  std::string scratch;
  const absl::StatusOr<std::string_view> open =
      kafka::OpenRecords(header, batch, 1 << 20, &scratch);
  if (!open.ok() || !records::CrcMatches(batch)) {
    Fail("no-phantom-record", absl::StrCat(Name(id, *p), " at ", logged.base, ": damaged"));
  }
  records::RecordReader reader(header, *open);
  records::Record record;
  while (reader.Next(&record)) CommitRecord(id, p, record.offset, IdOf(record.value));
  if (!reader.status().ok()) {
    Fail("no-phantom-record",
         absl::StrCat(Name(id, *p), " at ", logged.base, ": ", reader.status().ToString()));
  }
}

void Replication::CommitRecord(const PartitionId& id, PartitionGhost* p, int64_t offset,
                               RecordId record) {
  p->ghost.records[static_cast<size_t>(offset)] = record;
  const std::pair<uint64_t, int32_t> where{Checksum(p->topic), id.partition};
  const auto sent = sent_.find(record.value);
  if (sent == sent_.end() || sent->second != where) {
    Fail("no-phantom-record", absl::StrCat(Name(id, *p), " at ", offset, " has ", record.ToString(),
                                           ", which nobody sent there"));
  }
  const Producer& producer = producers_[record.producer()];
  const auto [first, is_new] = p->ghost.offset_of.try_emplace(record.value, offset);
  // What retention or DeleteRecords has removed, nobody remembers: a replica that began behind it
  // knows of its producer no more than the log says, as in Kafka.
  if (!is_new && first->second < p->ghost.log_start) {
    first->second = offset;
    return;
  }
  if (!is_new && p->ghost.producers_forgotten) return;
  if (!is_new && producer.idempotent) {
    Fail("exactly-once", absl::StrCat(Name(id, *p), " has ", record.ToString(), " at ", offset,
                                      " and at ", first->second));
  }
  if (!is_new) return probes_->Hit(Probe::kDuplicateStored);
  if (!producer.ordered || p->ghost.producers_forgotten) return;
  uint64_t& last = p->ghost.last_number[record.producer()];
  if (record.number() < last) {
    Fail("producer-order", absl::StrCat(Name(id, *p), " has ", record.ToString(), " at ", offset,
                                        " behind number ", last, " of the same producer"));
  }
  last = record.number();
}

// ---- The end -----------------------------------------------------------------------------------

std::map<std::pair<std::string, int32_t>, Replication::Truth> Replication::Truths() const {
  std::map<std::pair<std::string, int32_t>, Truth> truths;
  for (const auto& [name, topic] : topics_) {
    if (!topic.record || topic.record->deleting || topic.record->creator) continue;
    for (const auto& [number, nodes] : topic.partitions) {
      if (!nodes.replicas || !nodes.isr) continue;
      truths[{name, number}] = {topic.record->id, *nodes.replicas, *nodes.isr, nodes.leader,
                                nodes.reassigning};
    }
  }
  return truths;
}

bool Replication::AnyMayHaveLost(const std::string& topic) const {
  return std::any_of(ghosts_.begin(), ghosts_.end(), [&](const auto& entry) {
    return entry.second.topic == topic && entry.second.ghost.may_have_lost;
  });
}

bool Replication::AnyOffline(const std::string& topic) const {
  auto t = topics_.find(topic);
  if (t == topics_.end()) return false;
  return std::any_of(t->second.partitions.begin(), t->second.partitions.end(),
                     [&](const auto& entry) { return Offline(topic, entry.first); });
}

bool Replication::Offline(const std::string& topic, int32_t partition) const {
  auto t = topics_.find(topic);
  if (t == topics_.end() || !t->second.record) return true;
  auto p = t->second.partitions.find(partition);
  if (p == t->second.partitions.end() || !p->second.isr) return true;
  return std::none_of(p->second.isr->isr.begin(), p->second.isr->isr.end(),
                      [&](const IsrMember& m) { return Intact(m); });
}

}  // namespace lockstep::sim
