#include "core/replication/metadata.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace lockstep::replication {
namespace {

using Kind = Node::Kind;

bool OfPartition(const Node& node) {
  return node.kind == Kind::kReplicas || node.kind == Kind::kIsr || node.kind == Kind::kLeader ||
         node.kind == Kind::kReassigned;
}

}  // namespace

// ---- What is to be read ------------------------------------------------------------------------

void MetadataCache::ReadAll() {
  reading_all_ = true;
  Want(std::string(kBrokerIdsPath), true);
  Want(std::string(kTopicsPath), true);
  Want(std::string(kReassignedPath), true);
  Want(StatePath(self_), true);
}

void MetadataCache::Forget() {
  while (!wanted_.empty()) {
    Count(wanted_.begin()->first, -1);
    wanted_.erase(wanted_.begin());
  }
  while (!under_way_.empty()) {
    Count(under_way_.begin()->first.first, -1);
    under_way_.erase(under_way_.begin());
  }
  reading_all_ = false;
  complete_ = false;
}

// Nodes of a partition that are not read yet keep its view from being shown: what is there may be
// half of a transition.
void MetadataCache::Count(const std::string& path, int change) {
  const Node node = ParseNode(path);
  if (!OfPartition(node)) return;
  PartitionEntry& entry = EntryOf(node);
  LS_CHECK(change > 0 || entry.unread > 0);
  entry.unread += static_cast<uint32_t>(change);
}

void MetadataCache::Want(const std::string& path, bool children) {
  const Key key{path, children};
  if (auto at = under_way_.find(key); at != under_way_.end()) {
    at->second = true;
    return;
  }
  if (wanted_.insert(key).second) Count(path, +1);
}

void MetadataCache::WantSubtree(const Node& node, const std::string& path) {
  switch (node.kind) {
    case Kind::kBrokerIds:
    case Kind::kTopics:
    case Kind::kReassignedTopics:
      return Want(path, true);
    case Kind::kBroker:
    case Kind::kReplicas:
    case Kind::kIsr:
    case Kind::kLeader:
    case Kind::kReassigned:
      return Want(path, false);
    case Kind::kTopic:
      Want(path, false);
      return Want(path, true);
    case Kind::kPartition:
      EntryOf(node).present = true;
      Want(path + "/replicas", false);
      Want(path + "/isr", false);
      return Want(path + "/leader", false);
    case Kind::kReassignedTopic:
      entries_[node.topic].reassigned = true;
      return Want(path, true);
    case Kind::kQueue:
      if (node.broker == self_) Want(path, true);
      return;
    case Kind::kStateChange:
      if (node.broker == self_ && queue_.insert(path).second) changes_.queue = true;
      return;
    case Kind::kOther:
      return;
  }
}

void MetadataCache::OnWatch(coordination::WatchEventType type, const std::string& path) {
  const Node node = ParseNode(path);
  switch (type) {
    case coordination::WatchEventType::kNodeCreated:
      // Its children have events of their own; but what was created in one transition is read
      // together.
      return WantSubtree(node, path);
    case coordination::WatchEventType::kNodeDataChanged:
      if (node.kind != Kind::kPartition && node.kind != Kind::kReassignedTopic) {
        if (node.kind == Kind::kTopic) return Want(path, false);
        WantSubtree(node, path);
      }
      return;
    case coordination::WatchEventType::kNodeDeleted:
      for (bool children : {false, true}) {
        // An older answer must not bring it back.
        if (auto at = under_way_.find({path, children}); at != under_way_.end()) at->second = true;
      }
      return Remove(node, path);
    default:
      return;
  }
}

void MetadataCache::ReadAgain(const std::string& path) { WantSubtree(ParseNode(path), path); }

std::optional<MetadataCache::Read> MetadataCache::NextRead() {
  if (wanted_.empty()) return std::nullopt;
  Key key = *wanted_.begin();
  wanted_.erase(wanted_.begin());
  under_way_.emplace(key, false);
  return Read{key.first, key.second};
}

void MetadataCache::Done(const Key& key) {
  auto at = under_way_.find(key);
  LS_CHECK(at != under_way_.end());
  const bool again = at->second;
  under_way_.erase(at);
  Count(key.first, -1);
  if (again) Want(key.first, key.second);
  const Node node = ParseNode(key.first);
  if (OfPartition(node)) Publish(node.topic, node.partition);
  if (OfPartition(node) || node.kind == Kind::kTopic) NoteWhole(node.topic);
  if (reading_all_ && wanted_.empty() && under_way_.empty()) {
    reading_all_ = false;
    complete_ = true;
    changes_.completed = true;
    Touch();
  }
}

void MetadataCache::OnReadFailed(const std::string& path, bool children) {
  auto at = under_way_.find({path, children});
  LS_CHECK(at != under_way_.end());
  at->second = true;
  Done({path, children});
}

void MetadataCache::OnNoNode(const std::string& path, bool children) {
  Remove(ParseNode(path), path);
  Done({path, children});
}

// ---- What was read -----------------------------------------------------------------------------

MetadataCache::PartitionEntry& MetadataCache::EntryOf(const Node& node) {
  return entries_[node.topic].partitions[node.partition];
}

bool MetadataCache::OnData(const std::string& path, const coordination::Data& data,
                           const coordination::Stat& stat) {
  const Node node = ParseNode(path);
  const std::string_view text = data.bytes.view();
  bool readable = true;
  switch (node.kind) {
    case Kind::kBroker: {
      absl::StatusOr<BrokerRecord> record = DecodeBroker(text);
      readable = record.ok();
      if (!readable) {
        Remove(node, path);
        break;
      }
      BrokerState& broker = brokers_[node.broker];
      broker = {.id = node.broker,
                .incarnation = {static_cast<int64_t>(stat.czxid.Packed())},
                .endpoint = {record->host, record->port},
                .rack = record->rack,
                .fenced = record->fenced};
      changes_.brokers.insert(node.broker);
      Touch();
      break;
    }
    case Kind::kTopic: {
      absl::StatusOr<TopicRecord> record = DecodeTopic(text);
      readable = record.ok();
      // Deleted and made again while nobody was watching: what is known of its partitions is of the
      // topic before. An ISR of that one under the id of this one, whose versions begin again,
      // would never be overtaken by what is read later.
      const auto known = entries_.find(node.topic);
      const bool other =
          known != entries_.end() &&
          (known->second.record.has_value() ? readable && known->second.record->id != record->id
                                            : known->second.unreadable);
      if (readable && other) {
        Remove(node, path);
        WantSubtree(node, path);
      }
      TopicEntry& entry = entries_[node.topic];
      entry.unreadable = !readable;
      entry.record.reset();
      if (readable) entry.record = *std::move(record);
      entry.version = stat.version;
      for (const auto& [partition, unused] : entry.partitions) {
        changes_.partitions.emplace(node.topic, partition);
      }
      PublishTopic(node.topic);
      break;
    }
    case Kind::kReplicas: {
      absl::StatusOr<ReplicasRecord> record = DecodeReplicas(text);
      PartitionEntry& entry = EntryOf(node);
      readable = record.ok();
      entry.replicas.reset();
      if (readable) entry.replicas = *std::move(record);
      entry.replicas_node = true;
      entry.replicas_version = stat.version;
      break;
    }
    case Kind::kIsr: {
      absl::StatusOr<IsrRecord> record = DecodeIsr(text);
      PartitionEntry& entry = EntryOf(node);
      readable = record.ok();
      entry.isr.reset();
      if (readable) entry.isr = *std::move(record);
      entry.isr_node = true;
      entry.isr_version = stat.version;
      break;
    }
    case Kind::kLeader: {
      absl::StatusOr<LeaderRecord> record = DecodeLeader(text);
      PartitionEntry& entry = EntryOf(node);
      readable = record.ok();
      entry.leader.reset();
      if (readable) entry.leader = *std::move(record);
      entry.leader_node = true;
      entry.leader_owner = stat.ephemeral_owner;
      break;
    }
    case Kind::kReassigned: {
      absl::StatusOr<ReassignedRecord> record = DecodeReassigned(text);
      PartitionEntry& entry = EntryOf(node);
      readable = record.ok();
      entry.requested.reset();
      if (readable) entry.requested = std::move(record->replicas);
      entry.requested_node = true;
      entry.requested_version = stat.version;
      break;
    }
    default:
      break;
  }
  Done({path, false});
  return readable;
}

void MetadataCache::OnChildren(const std::string& path,
                               const std::vector<std::string_view>& names) {
  const Node parent = ParseNode(path);
  std::set<std::string> present;
  for (std::string_view name : names) present.insert(path + "/" + std::string(name));
  // What was known and is not listed is gone: the watch that said so was missed.
  std::vector<std::string> gone;
  auto check = [&](std::string child) {
    if (!present.contains(child)) gone.push_back(std::move(child));
  };
  switch (parent.kind) {
    case Kind::kBrokerIds:
      for (const auto& [id, broker] : brokers_) check(BrokerPath(id));
      break;
    case Kind::kTopics:
      for (const auto& [topic, entry] : entries_) check(TopicPath(topic));
      break;
    case Kind::kTopic:
      for (const auto& [partition, entry] : entries_[parent.topic].partitions) {
        check(PartitionPath(parent.topic, partition));
      }
      break;
    case Kind::kReassignedTopics:
      for (const auto& [topic, entry] : entries_) check(ReassignedTopicPath(topic));
      break;
    case Kind::kReassignedTopic:
      for (const auto& [partition, entry] : entries_[parent.topic].partitions) {
        check(ReassignedPath(parent.topic, partition));
      }
      break;
    case Kind::kQueue:
      for (const std::string& change : queue_) check(change);
      break;
    default:
      break;
  }
  for (const std::string& child : gone) Remove(ParseNode(child), child);
  for (const std::string& child : present) WantSubtree(ParseNode(child), child);
  Done({path, true});
}

void MetadataCache::Remove(const Node& node, const std::string& path) {
  switch (node.kind) {
    case Kind::kBroker:
      if (brokers_.erase(node.broker) > 0) {
        changes_.brokers.insert(node.broker);
        Touch();
      }
      return;
    case Kind::kTopic: {
      auto at = entries_.find(node.topic);
      if (at == entries_.end()) return;
      at->second.record.reset();
      at->second.unreadable = false;
      at->second.whole = false;
      for (auto& [partition, entry] : at->second.partitions) {
        // Nothing is left under a node that is gone.
        entry.present = entry.replicas_node = entry.isr_node = entry.leader_node = false;
        entry.replicas.reset();
        entry.isr.reset();
        entry.leader.reset();
        changes_.partitions.emplace(node.topic, partition);
      }
      std::erase_if(at->second.partitions, [](const auto& known) {
        return !known.second.requested_node && known.second.unread == 0;
      });
      return PublishTopic(node.topic);
    }
    case Kind::kQueue:
    case Kind::kOther:
      return;
    case Kind::kStateChange:
      queue_.erase(path);
      return;
    default:
      break;
  }
  auto topic = entries_.find(node.topic);
  if (topic == entries_.end()) return;
  if (node.kind == Kind::kReassignedTopic) {
    topic->second.reassigned = false;
    // Their own events may have been missed. A request that is still believed in would be part of
    // every removal of a topic of this name, and fail it.
    std::vector<int32_t> requested;
    for (const auto& [partition, entry] : topic->second.partitions) {
      if (entry.requested_node) requested.push_back(partition);
    }
    for (const int32_t partition : requested) {
      const std::string child = ReassignedPath(node.topic, partition);
      Remove(ParseNode(child), child);
    }
    return;
  }
  auto at = topic->second.partitions.find(node.partition);
  if (at == topic->second.partitions.end()) return;
  PartitionEntry& entry = at->second;
  switch (node.kind) {
    case Kind::kPartition:
      entry.present = false;
      break;
    case Kind::kReplicas:
      entry.replicas.reset();
      entry.replicas_node = false;
      break;
    case Kind::kIsr:
      entry.isr.reset();
      entry.isr_node = false;
      break;
    case Kind::kLeader:
      entry.leader.reset();
      entry.leader_node = false;
      break;
    case Kind::kReassigned:
      entry.requested.reset();
      entry.requested_node = false;
      break;
    default:
      return;
  }
  Publish(node.topic, node.partition);
}

// ---- What is shown -----------------------------------------------------------------------------

bool MetadataCache::ViewOf(const std::string& topic, const TopicEntry& entry, int32_t partition,
                           PartitionView* view) const {
  if (!entry.record.has_value() || entry.record->creator) return false;
  auto at = entry.partitions.find(partition);
  if (at == entry.partitions.end()) return false;
  const PartitionEntry& from = at->second;
  if (!from.present || !from.replicas.has_value() || !from.isr.has_value()) return false;
  PartitionState& state = view->state;
  state.id = {entry.record->id, partition};
  view->deleting = entry.record->deleting;
  state.topic = topic;
  state.replicas = from.replicas->replicas;
  state.adding = from.replicas->adding;
  state.removing = from.replicas->removing;
  state.replicas_version = from.replicas_version;
  state.isr = from.isr->isr;
  state.isr_version = from.isr_version;
  state.leader_epoch = from.isr->leader_epoch;
  // A leader of another epoch than the last one is a half-seen change: its other half follows.
  if (from.leader.has_value() && from.leader->epoch == state.leader_epoch) {
    state.leader = from.leader->broker;
    view->leader_owner = from.leader_owner;
  }
  view->requested = from.requested;
  view->requested_version = from.requested_version;
  return true;
}

void MetadataCache::Publish(const std::string& topic, int32_t partition) {
  TopicEntry& entry = entries_[topic];
  auto at = entry.partitions.find(partition);
  if (at == entry.partitions.end()) return;
  if (at->second.unread > 0) return;
  changes_.partitions.emplace(topic, partition);
  PartitionView view;
  const bool known = ViewOf(topic, entry, partition, &view);
  auto published = topics_.find(topic);
  const auto index = static_cast<size_t>(partition);
  if (known) {
    at->second.view = std::move(view);
    if (published == topics_.end()) {
      // Dense from 0: what is read out of order waits.
      if (partition == 0) PublishTopic(topic);
      return Touch();
    }
    std::vector<PartitionState>& shown = published->second.partitions;
    if (index < shown.size()) shown[index] = at->second.view->state;
    for (; at != entry.partitions.end() && at->second.view.has_value() &&
           at->first == static_cast<int32_t>(shown.size());
         ++at) {
      shown.push_back(at->second.view->state);
    }
    return Touch();
  }
  at->second.view.reset();
  if (!at->second.present && !at->second.requested_node && !at->second.leader_node &&
      !at->second.replicas_node && !at->second.isr_node) {
    entry.partitions.erase(at);
  }
  // Also of no effect on the topic that is shown, as long as it is read for the first time.
  if (published != topics_.end() && index < published->second.partitions.size()) {
    PublishTopic(topic);
  } else if (entry.partitions.empty()) {
    PublishTopic(topic);  // forgets it, if nothing is left
  }
}

void MetadataCache::PublishTopic(const std::string& topic) {
  Touch();
  changes_.topics.insert(topic);
  if (auto at = topics_.find(topic); at != topics_.end()) {
    topic_names_.erase(at->second.id);
    topics_.erase(at);
  }
  auto at = entries_.find(topic);
  if (at == entries_.end()) return;
  TopicEntry& entry = at->second;
  for (auto& [partition, from] : entry.partitions) {
    if (from.unread > 0) continue;
    PartitionView view;
    from.view.reset();
    if (ViewOf(topic, entry, partition, &view)) from.view = std::move(view);
  }
  if (!entry.record.has_value()) {
    if (entry.partitions.empty() && !entry.reassigned && !entry.unreadable) entries_.erase(at);
    return;
  }
  if (entry.record->creator) return;
  TopicState state{.name = topic,
                   .id = entry.record->id,
                   .deleting = entry.record->deleting,
                   .configs = entry.record->configs};
  // Dense: the partitions of a transition are read one by one.
  for (const auto& [partition, from] : entry.partitions) {
    if (!from.view.has_value() || partition != static_cast<int32_t>(state.partitions.size())) break;
    state.partitions.push_back(from.view->state);
  }
  if (state.partitions.empty()) return;
  topic_names_[state.id] = topic;
  topics_.emplace(topic, std::move(state));
}

// What a transition has created is known before anything of it is read, so no partition of it is
// still unknown here.
void MetadataCache::NoteWhole(const std::string& topic) {
  auto at = entries_.find(topic);
  if (at == entries_.end() || at->second.whole || at->second.partitions.empty()) return;
  // Of a topic that is created in several transitions, the first ones may have been read before the
  // next one comes.
  if (!at->second.record.has_value() || at->second.record->creator) return;
  // From the end, since they are read from the beginning: mostly the first one that is looked at
  // says no.
  for (auto entry = at->second.partitions.rbegin(); entry != at->second.partitions.rend();
       ++entry) {
    if (entry->second.unread > 0 && !entry->second.view.has_value()) return;
  }
  at->second.whole = true;
  Touch();
}

bool MetadataCache::whole(const std::string& topic) const {
  auto at = entries_.find(topic);
  return at != entries_.end() && at->second.whole;
}

const TopicState* MetadataCache::FindTopic(const Uuid& id) const {
  auto name = topic_names_.find(id);
  return name == topic_names_.end() ? nullptr : &topics_.at(name->second);
}

const PartitionView* MetadataCache::FindPartition(const std::string& topic,
                                                  int32_t partition) const {
  auto entry = entries_.find(topic);
  if (entry == entries_.end()) return nullptr;
  auto at = entry->second.partitions.find(partition);
  if (at == entry->second.partitions.end()) return nullptr;
  const PartitionEntry& from = at->second;
  return from.unread == 0 && from.view.has_value() ? &*from.view : nullptr;
}

bool MetadataCache::settled(const std::string& topic, int32_t partition) const {
  auto entry = entries_.find(topic);
  if (entry == entries_.end()) return true;
  auto at = entry->second.partitions.find(partition);
  return at == entry->second.partitions.end() || at->second.unread == 0;
}

bool MetadataCache::gone(const std::string& topic, const PartitionId& id) const {
  auto at = entries_.find(topic);
  if (at == entries_.end()) return true;
  const TopicEntry& entry = at->second;
  if (!entry.record.has_value()) return !entry.unreadable;
  return entry.record->id != id.topic || entry.record->deleting;
}

std::optional<MetadataCache::TopicNode> MetadataCache::FindTopicNode(
    const std::string& topic) const {
  auto at = entries_.find(topic);
  if (at == entries_.end() || !at->second.record.has_value()) return std::nullopt;
  TopicNode node{.record = *at->second.record,
                 .version = at->second.version,
                 .reassigned = at->second.reassigned};
  for (const auto& [partition, entry] : at->second.partitions) {
    if (entry.present) node.partitions.push_back(partition);
  }
  return node;
}

std::vector<std::string> MetadataCache::NodesOf(const std::string& topic, int32_t partition) const {
  auto at = entries_.find(topic);
  if (at == entries_.end()) return {};
  auto found = at->second.partitions.find(partition);
  if (found == at->second.partitions.end()) return {};
  const PartitionEntry& entry = found->second;
  std::vector<std::string> paths;
  if (entry.leader_node) paths.push_back(LeaderPath(topic, partition));
  if (entry.isr_node) paths.push_back(IsrPath(topic, partition));
  if (entry.replicas_node) paths.push_back(ReplicasPath(topic, partition));
  if (entry.present) paths.push_back(PartitionPath(topic, partition));
  if (entry.requested_node) paths.push_back(ReassignedPath(topic, partition));
  return paths;
}

bool MetadataCache::reading(const std::string& path) const {
  return wanted_.contains({path, false}) || wanted_.contains({path, true}) ||
         under_way_.contains({path, false}) || under_way_.contains({path, true});
}

std::set<BrokerEpoch> MetadataCache::incarnations() const {
  std::set<BrokerEpoch> all;
  for (const auto& [id, broker] : brokers_) all.insert(broker.incarnation);
  return all;
}

std::vector<std::string> MetadataCache::UnfinishedTopics() const {
  std::vector<std::string> names;
  for (const auto& [topic, entry] : entries_) {
    if (entry.record.has_value() && (entry.record->deleting || entry.record->creator)) {
      names.push_back(topic);
    }
  }
  return names;
}

MetadataCache::Changes MetadataCache::TakeChanges() { return std::exchange(changes_, {}); }

}  // namespace lockstep::replication
