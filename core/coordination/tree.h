// The znode tree and the sessions: the whole replicated state. Bit-identical on every server at
// equal zxid; a running digest says so cheaply. Changed only by Apply with a committed transaction.
#pragma once

#include <cstdint>
#include <memory>
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
#include "core/coordination/transaction.h"

namespace lockstep::coordination {

// ZooKeeper's Stat, field for field, as clients see it.
struct Stat {
  Zxid czxid;               // created by
  Zxid mzxid;               // data last changed by
  int64_t ctime_ms = 0;     // milliseconds since the Unix epoch, stamped by the leader
  int64_t mtime_ms = 0;
  int32_t version = 0;      // of the data
  int32_t cversion = 0;     // of the list of children
  int32_t aversion = 0;     // of the ACL
  SessionId ephemeral_owner;  // 0 for a persistent node
  int32_t data_length = 0;
  int32_t num_children = 0;
  Zxid pzxid;               // list of children last changed by
  bool operator==(const Stat&) const = default;
};

// One node. Immutable content is shared with snapshots in progress.
struct Znode {
  Bytes data;
  std::vector<Acl> acl;
  Stat stat;  // data_length and num_children are derived, see Tree::StatOf
  absl::btree_set<std::string> children;  // names, without the path
};

struct Session {
  int32_t timeout_ms = 0;
  std::string password;                     // 16 bytes
  absl::btree_set<std::string> ephemerals;  // paths
};

// What Apply changed, for watches and replies.
struct Applied {
  ErrorCode error = ErrorCode::kOk;  // that of an ErrorTransaction
  std::string path;                  // of the reply: the created path
  Stat stat;                         // of the reply: after create2 and setData
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
  // Requires: zxid > last_zxid().
  Applied Apply(Zxid zxid, const TransactionHeader& header, const TransactionBody& body);

  Zxid last_zxid() const;

  // nullptr if there is none.
  const Znode* Find(std::string_view path) const;
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
  // (copy on write). O(1) to begin; each change costs at most one copy of the node it changes.
  std::unique_ptr<TreeSnapshot> Snapshot();

 private:
  friend class TreeSnapshot;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// A snapshot being written. May outlive changes of its tree, but not the tree.
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
