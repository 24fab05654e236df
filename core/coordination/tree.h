// The znode tree and the sessions: the whole replicated state. Bit-identical on every server at
// equal zxid; a running digest says so cheaply. Changed only by Apply with a committed transaction.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/bytes.h"
#include "core/base/ids.h"
#include "core/base/zxid.h"
#include "core/coordination/stat.h"
#include "core/coordination/transaction.h"

namespace lockstep::coordination {

using AclList = std::vector<Acl>;

// One node. Reached through Tree::Find only, and valid until the tree changes.
class Znode {
 public:
  Znode(const Znode&) = delete;
  Znode& operator=(const Znode&) = delete;

  std::string_view path() const { return {reinterpret_cast<const char*>(this + 1), path_length_}; }
  // Compact: shares no buffer with a request or a journal record.
  const Bytes& data() const { return data_; }
  // The client stored null, not an empty payload: getData gives null back. data() is then empty.
  bool null_data() const { return null_data_; }
  const AclList& acl() const { return acl_->list; }
  // As stored: cversion counts the creations of children alone. It is the next sequence number
  // below this node; clients get Tree::StatOf.
  const Stat& stat() const { return stat_; }
  size_t child_count() const { return static_cast<size_t>(stat_.num_children); }
  // The names of the children, without the path, ascending; they point into the tree.
  std::vector<std::string_view> ChildNames() const;

 private:
  friend class Tree;
  friend class TreeSnapshot;
  friend class TreeLoader;
  struct ByPath {
    using is_transparent = void;
    bool operator()(const Znode* a, const Znode* b) const { return a->path() < b->path(); }
    bool operator()(const Znode* a, std::string_view b) const { return a->path() < b; }
    bool operator()(std::string_view a, const Znode* b) const { return a < b->path(); }
  };
  using Children = absl::btree_set<Znode*, ByPath>;
  // Trees of a million nodes have a handful of different ACLs: each is kept once.
  struct SharedAcl {
    AclList list;
    uint64_t references = 0;
  };

  Znode() = default;

  Stat stat_;
  Bytes data_;
  SharedAcl* acl_ = nullptr;
  std::unique_ptr<Children> children_;  // null for a leaf, as most nodes are
  // All nodes of a tree in the order of their creation, which is the order of snapshots: the same
  // on every server, and parents come before their children.
  Znode* previous_ = nullptr;
  Znode* next_ = nullptr;
  uint64_t order_ = 0;  // ascending along the list
  uint32_t path_length_ = 0;
  bool null_data_ = false;
  // The path follows in the node's own allocation: one allocation less for each of millions.
};

struct Session {
  int32_t timeout_ms = 0;
  std::string password;                     // 16 bytes
  Zxid czxid;                               // created by
  absl::btree_set<std::string> ephemerals;  // paths
};

// What Apply changed, for watches and replies.
struct Applied {
  ErrorCode error = ErrorCode::kOk;  // that of an ErrorTransaction or MultiErrorTransaction
  struct Result {
    std::string path;  // the created path
    Stat stat;         // as clients see it: after create2 and setData
  };
  Result result;                             // of the reply
  std::vector<Result> results;               // of a multi: one per operation, as of that operation
  std::optional<uint32_t> failed_operation;  // of a refused multi
  struct Change {
    enum class Kind : uint8_t { kCreated, kDeleted, kDataChanged } kind;
    std::string path;  // its parent's children changed too, unless kDataChanged
  };
  std::vector<Change> changes;  // in order
};

class TreeSnapshot;

class Tree {
 public:
  Tree();  // "/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config", as in ZooKeeper
  ~Tree();
  Tree(Tree&&) noexcept;
  Tree& operator=(Tree&&) noexcept;

  // Applies the transaction with the next zxid. Deterministic; a transaction that does not fit the
  // state is our bug, hence a check.
  // Requires: zxid > last_zxid(). And of the body:
  //   create         the path is free; its parent is there, not ephemeral, and has the stored
  //                  cversion parent_cversion - 1; the session of an ephemeral node is there
  //   delete         the node is there and has no children
  //   setData        the node is there, with the version before
  //   multi          the same of each operation, after those before it; of a check, that the node
  //                  is there with its version
  //   createSession  there is no such session
  //   closeSession   the session is there, and the paths are all of its ephemerals, each once
  Applied Apply(Zxid zxid, const TransactionHeader& header, const TransactionBody& body);

  Zxid last_zxid() const;

  // nullptr if there is none.
  const Znode* Find(std::string_view path) const;
  // As clients see it: cversion counts creations and deletions of children.
  static Stat StatOf(const Znode& node);
  const Session* FindSession(SessionId id) const;
  const absl::btree_map<SessionId, Session>& sessions() const;

  // For four-letter words and metrics.
  size_t node_count() const;
  size_t ephemeral_count() const;
  uint64_t approximate_data_size() const;  // bytes of paths and data

  // A digest of the whole state (nodes with stats and ACLs, sessions): equal states have equal
  // digests whatever order they were reached in. O(1).
  uint64_t digest() const;

  // The exact state after last_zxid(), written out in pieces while the tree goes on changing
  // (copy on write). O(1) to begin; while it lasts, the first change of a node costs a copy of the
  // node without its data. Any number of snapshots may be in progress at once.
  std::unique_ptr<TreeSnapshot> Snapshot();

 private:
  friend class TreeSnapshot;
  friend class TreeLoader;
  class Impl;
  struct Application;
  explicit Tree(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;  // shared with snapshots in progress
};

// A snapshot being written. Keeps what it needs, also when its tree is replaced or destroyed.
class TreeSnapshot {
 public:
  ~TreeSnapshot();
  Zxid zxid() const;
  // The next piece, about `size_hint` bytes (at least one node). Empty once all has been given.
  Bytes Next(size_t size_hint);
  bool done() const;

 private:
  friend class Tree;
  TreeSnapshot();
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Builds a tree from the pieces of a snapshot, cut anywhere.
class TreeLoader {
 public:
  TreeLoader();
  ~TreeLoader();
  TreeLoader(TreeLoader&&) noexcept;
  TreeLoader& operator=(TreeLoader&&) noexcept;
  // Bad bytes give an error; nothing but Finish or destruction may follow it.
  absl::Status Add(const Bytes& piece);
  // The whole snapshot was added: checks that it is complete and that its digest fits.
  absl::StatusOr<Tree> Finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::coordination
