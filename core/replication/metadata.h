// What this broker has read of /brokers, decoded: the cache behind Metadata, and what is still to
// be read. It knows which nodes to read after a watch has fired, and when what it holds of a
// partition belongs together.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/coordination/protocol.h"
#include "core/replication/broker.h"
#include "core/replication/registry.h"

namespace lockstep::replication {

// All that is known of one partition, with what only a broker's own decisions need.
struct PartitionView {
  PartitionState state;
  bool deleting = false;                           // its topic is being removed
  SessionId leader_owner;                          // the session that holds the leader znode
  std::optional<std::vector<BrokerId>> requested;  // RAR
  int32_t requested_version = 0;
};

class MetadataCache : public Metadata {
 public:
  // `self`: whose queue of state changes is read.
  explicit MetadataCache(BrokerId self) : self_(self) {}

  bool complete() const override { return complete_; }
  uint64_t revision() const override { return revision_; }
  const std::string& cluster_id() const override { return cluster_id_; }
  const std::map<std::string, TopicState>& topics() const override { return topics_; }
  const std::map<BrokerId, BrokerState>& brokers() const override { return brokers_; }
  const TopicState* FindTopic(const Uuid& id) const override;
  bool whole(const std::string& topic) const override;

  // Null if it is not known as a whole, or part of it is being read anew.
  const PartitionView* FindPartition(const std::string& topic, int32_t partition) const;
  // Nothing of it is being read: FindPartition's null means that there is no such partition.
  bool settled(const std::string& topic, int32_t partition) const;
  // Whether the partition is known to be none any more. It is not when one of its znodes, or its
  // topic's, is missing or cannot be read: an operator's slip must not delete data.
  bool gone(const std::string& topic, const PartitionId& id) const;
  // With the version of its znode, also half-created and deleting ones; null: there is none.
  struct TopicNode {
    TopicRecord record;
    int32_t version = 0;
    std::vector<int32_t> partitions;  // whose znodes exist
    bool reassigned = false;          // it has a znode under /brokers/partitions_reassigned
  };
  std::optional<TopicNode> FindTopicNode(const std::string& topic) const;
  // The paths of all znodes of a partition, in an order in which they can be deleted.
  std::vector<std::string> NodesOf(const std::string& topic, int32_t partition) const;
  // Its data or children are being read, or are about to be.
  bool reading(const std::string& path) const;
  // Of all registered brokers.
  std::set<BrokerEpoch> incarnations() const;
  std::vector<std::string> UnfinishedTopics() const;             // deleting, or half-created
  const std::set<std::string>& queue() const { return queue_; }  // paths of own state changes

  void set_cluster_id(std::string id) { cluster_id_ = std::move(id); }
  void RemoveFromQueue(const std::string& path) { queue_.erase(path); }

  // ---- Reading. All of it again: a session has begun, or it was without watches for a while.
  void ReadAll();
  // The session is over: nothing under way is answered any more, nothing is complete.
  void Forget();
  void OnWatch(coordination::WatchEventType type, const std::string& path);
  // The node may have changed without this broker having been told yet.
  void ReadAgain(const std::string& path);
  struct Read {
    std::string path;
    bool children = false;  // getChildren; else getData
  };
  // The next one to send, or nothing. It stays under way until OnData, OnChildren or OnReadFailed.
  std::optional<Read> NextRead();
  size_t reads_under_way() const { return under_way_.size(); }
  // False if it says nothing that a broker could have written.
  bool OnData(const std::string& path, const coordination::Data& data,
              const coordination::Stat& stat);
  void OnChildren(const std::string& path, const std::vector<std::string_view>& names);
  void OnNoNode(const std::string& path, bool children);
  // Its outcome is not known: it is read again.
  void OnReadFailed(const std::string& path, bool children);

  // Since the last call: partitions whose view has changed or is gone, by topic and number; and
  // whether anything else has.
  struct Changes {
    std::set<std::pair<std::string, int32_t>> partitions;
    std::set<std::string> topics;
    std::set<BrokerId> brokers;
    bool queue = false;
    bool completed = false;
  };
  Changes TakeChanges();

 private:
  struct PartitionEntry {
    bool present = false;  // the partition's own znode
    // The nodes are there also if what is in them cannot be decoded.
    bool replicas_node = false;
    std::optional<ReplicasRecord> replicas;
    int32_t replicas_version = 0;
    bool isr_node = false;
    std::optional<IsrRecord> isr;
    int32_t isr_version = 0;
    bool leader_node = false;
    std::optional<LeaderRecord> leader;
    SessionId leader_owner;
    std::optional<std::vector<BrokerId>> requested;
    bool requested_node = false;
    int32_t requested_version = 0;
    uint32_t unread = 0;  // of its nodes, wanted or under way
    std::optional<PartitionView> view;
  };
  struct TopicEntry {
    std::optional<TopicRecord> record;
    bool unreadable = false;  // there is one, and it cannot be decoded
    int32_t version = 0;
    bool reassigned = false;
    bool whole = false;  // has been, since its record came to be known
    std::map<int32_t, PartitionEntry> partitions;
  };
  using Key = std::pair<std::string, bool>;  // path, children

  void Want(const std::string& path, bool children);
  void WantSubtree(const Node& node, const std::string& path);
  void Count(const std::string& path, int change);
  void Done(const Key& key);
  void Remove(const Node& node, const std::string& path);
  void Publish(const std::string& topic, int32_t partition);
  void PublishTopic(const std::string& topic);
  void NoteWhole(const std::string& topic);
  PartitionEntry& EntryOf(const Node& node);
  bool ViewOf(const std::string& topic, const TopicEntry& entry, int32_t partition,
              PartitionView* view) const;
  void Touch() { ++revision_; }

  const BrokerId self_;
  bool reading_all_ = false;
  bool complete_ = false;
  uint64_t revision_ = 0;
  std::string cluster_id_;
  std::map<std::string, TopicEntry> entries_;
  std::map<std::string, TopicState> topics_;
  std::map<Uuid, std::string> topic_names_;
  std::map<BrokerId, BrokerState> brokers_;
  std::set<std::string> queue_;
  std::set<Key> wanted_;
  std::map<Key, bool> under_way_;  // true: it must be read again when it is answered
  Changes changes_;
};

}  // namespace lockstep::replication
