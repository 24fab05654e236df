// What the committed transactions make of the tree and the sessions: a second, small
// implementation, with the whole past of every node, so that a read can be compared with the state
// at its zxid.
//
// Checks that each transaction fits the state before it, that a session's requests take effect once
// and in their order, and that ephemeral nodes live as long as their sessions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/base/zxid.h"
#include "core/coordination/protocol.h"
#include "sim/checkers/committed_log.h"

namespace lockstep::sim {

// A node from `since` on.
struct NodeState {
  Zxid since;
  bool exists = false;
  uint64_t data_checksum = 0;
  int32_t version = 0;
  SessionId owner;
  Zxid czxid;
  bool operator==(const NodeState&) const = default;
};

// The children of a node from `since` on.
struct ChildrenState {
  Zxid since;
  int64_t count = 0;
  uint64_t names = 0;  // a sum over the checksums of the names, in any order
};

// A change of one node; its creation or deletion is also one of its parent's list of children.
struct ZnodeChange {
  Zxid zxid;
  coordination::WatchEventType type;  // kNodeCreated, kNodeDeleted or kNodeDataChanged
  std::string path;
};

// "/" of "/a". Requires: not "/".
std::string_view ParentOf(std::string_view path);

class ZnodeModel {
 public:
  ZnodeModel();

  // The next committed transaction.
  void Apply(const CommittedEntry& entry);

  // The state after `zxid`.
  NodeState NodeAt(std::string_view path, Zxid zxid) const;
  ChildrenState ChildrenAt(std::string_view path, Zxid zxid) const;
  // Whether the data or the existence of `path` changed in (after, until]. `created` and `deleted`
  // count: a watch on a missing node sees its creation.
  bool DataChanged(std::string_view path, Zxid after, Zxid until) const;
  bool ChildrenChanged(std::string_view path, Zxid after, Zxid until) const;

  // All of them, in order.
  const std::vector<ZnodeChange>& changes() const { return changes_; }

  enum class SessionState : uint8_t { kUnknown, kOpen, kClosed };
  SessionState StateOf(SessionId session) const;
  // 0 for an unknown session.
  Duration TimeoutOf(SessionId session) const;

  static uint64_t NameSum(std::string_view name);

 private:
  struct Node {
    std::vector<NodeState> states;
    std::vector<ChildrenState> children;
    int32_t creations = 0;  // of children, since it exists: the next sequence number
  };
  struct SessionModel {
    bool open = true;
    Duration timeout;
    int32_t last_xid = 0;  // of the requests that took effect
    absl::btree_set<std::string> ephemerals;
  };

  Node* Existing(std::string_view path);
  const Node* Find(std::string_view path) const;
  void Create(const CommittedEntry& entry, const coordination::CreateTransaction& create);
  void Delete(const CommittedEntry& entry, std::string_view path);
  void SetData(const CommittedEntry& entry, const coordination::SetDataTransaction& set);
  void CheckVersion(const CommittedEntry& entry,
                    const coordination::CheckVersionTransaction& check);
  void CloseSession(const CommittedEntry& entry,
                    const coordination::CloseSessionTransaction& close);
  void AddInitial(std::string_view path);

  absl::flat_hash_map<std::string, Node> nodes_;  // look-ups only
  std::vector<ZnodeChange> changes_;
  absl::btree_map<SessionId, SessionModel> sessions_;
  absl::flat_hash_map<uint64_t, uint64_t> requests_;  // of (session, xid), its zxid; look-ups only
};

}  // namespace lockstep::sim
