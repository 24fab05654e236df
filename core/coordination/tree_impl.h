// The inside of Tree and TreeSnapshot, shared by tree.cc, tree_snapshot.cc and tree_loader.cc. See
// docs/coordination.md, "The tree and its digest" and "Snapshots".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "core/coordination/tree.h"

namespace lockstep::coordination {

// The ACL of almost every node: everybody may do everything. Snapshots leave it out.
const AclList& OpenAcl();

class Tree::Impl {
 public:
  struct ZnodeDeleter {
    void operator()(Znode* node) const;
  };
  using ZnodePtr = std::unique_ptr<Znode, ZnodeDeleter>;
  using SharedAcl = Znode::SharedAcl;

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl();

  // The nodes that a new ensemble begins with.
  void AddInitialNodes();

  Znode* Find(std::string_view path) const;

  // ---- Every change goes through these, which keep the index, the lists, the sums and the
  // ---- snapshots in progress true.

  // A node that is not in the tree yet. Its ACL is not set.
  static ZnodePtr NewZnode(std::string_view path);
  // Puts it at the end of the list, below `parent` (null for the root), whose stat it does not
  // change but for the number of children. Requires: its ACL is set; the path is free.
  Znode* Insert(ZnodePtr node, Znode* parent);
  // Requires: no children.
  void Remove(Znode* node);
  void SetContent(Znode* node, Bytes data, bool null_data);
  // Calls `change(Stat*)`, which may change anything but what is derived: data_length,
  // num_children.
  template <typename Change>
  void ChangeStat(Znode* node, Change change) {
    BeforeChange(*node);
    digest -= StatDigest(*node);
    change(&node->stat_);
    digest += StatDigest(*node);
  }
  void InsertSession(SessionId id, Session session);
  // Requires: no ephemerals.
  void RemoveSession(SessionId id);

  SharedAcl* AcquireAcl(const AclList& list);
  void ReleaseAcl(SharedAcl* acl);

  // A copy of `node` that shares its data and ACL; for snapshots.
  static ZnodePtr Clone(const Znode& node);

  Zxid last_zxid;
  absl::btree_map<SessionId, Session> sessions;
  size_t ephemeral_count = 0;
  uint64_t data_size = 0;  // bytes of paths and data
  // The sum, modulo 2^64, of ContentDigest and StatDigest of all nodes and SessionDigest of all
  // sessions. A sum, so that it does not depend on the order and one change costs one node.
  uint64_t digest = 0;

  size_t node_count() const { return nodes_.size(); }
  Znode* first() const { return first_; }
  uint64_t next_order() const { return next_order_; }
  static Znode* NextOf(const Znode& node) { return node.next_; }

  std::vector<TreeSnapshot::Impl*> snapshots;  // in progress, in the order they were begun

 private:
  struct PathHash {
    using is_transparent = void;
    size_t operator()(std::string_view path) const {
      return absl::Hash<absl::string_view>()({path.data(), path.size()});
    }
    size_t operator()(const Znode* node) const { return (*this)(node->path()); }
  };
  struct PathEqual {
    using is_transparent = void;
    static std::string_view PathOf(std::string_view path) { return path; }
    static std::string_view PathOf(const Znode* node) { return node->path(); }
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return PathOf(a) == PathOf(b);
    }
  };
  struct ByList {
    using is_transparent = void;
    static const AclList& ListOf(const AclList& list) { return list; }
    static const AclList& ListOf(const std::unique_ptr<SharedAcl>& acl) { return acl->list; }
    static bool Less(const AclList& a, const AclList& b);
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return Less(ListOf(a), ListOf(b));
    }
  };

  // In two parts, so that the children of a big node can change without hashing its data.
  static uint64_t ContentDigest(const Znode& node);
  static uint64_t StatDigest(const Znode& node);
  static uint64_t SessionDigest(SessionId id, const Session& session);

  // Lets the snapshots in progress keep the node as it is.
  void BeforeChange(const Znode& node);

  absl::flat_hash_set<Znode*, PathHash, PathEqual> nodes_;  // owned; looked up, never iterated
  Znode* first_ = nullptr;
  Znode* last_ = nullptr;
  uint64_t next_order_ = 0;
  absl::btree_set<std::unique_ptr<SharedAcl>, ByList> acls_;
};

class TreeSnapshot::Impl {
 public:
  explicit Impl(std::shared_ptr<Tree::Impl> tree);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl();

  Bytes Next(size_t size_hint);

  // Called by the tree before a node changes or goes, and before a session goes.
  void BeforeChange(const Znode& node);
  void BeforeRemove(const Znode& node);
  void BeforeRemove(SessionId id, const Session& session);

  const Zxid zxid;
  bool done() const { return stage_ == Stage::kDone; }

 private:
  enum class Stage : uint8_t { kHeader, kSessions, kNodes, kEnd, kDone };

  // Appends the next record, or moves to the next stage.
  void Step();
  void StepSessions();
  void StepNodes();

  std::shared_ptr<Tree::Impl> tree_;
  const uint64_t digest_;
  const uint64_t session_count_;
  const uint64_t node_count_;
  const uint64_t order_end_;  // nodes from here on are newer than the snapshot

  Stage stage_ = Stage::kHeader;
  std::string piece_;  // the one in the making
  // All sessions up to and including this one were given; none before the first.
  std::optional<SessionId> last_session_;
  // All nodes before this order were given; cursor_ is the first node of the tree from there on.
  uint64_t position_ = 0;
  Znode* cursor_;
  // What has changed or gone since, as it was, if it was not given yet.
  absl::btree_map<SessionId, Session> kept_sessions_;
  absl::btree_map<uint64_t, Tree::Impl::ZnodePtr> kept_nodes_;
};

// The format of snapshots: records, each behind its length:int32, in jute (big-endian).
//   header    kind=1 "LSTREE" version:u8 zxid sessions:u64 nodes:u64
//   session   kind=2 id timeout_ms:i32 password:string czxid         ascending by id
//   node      kind=3 flags:u8 path:string [acl] data:buffer stat     in order of creation
//   end       kind=4 digest:u64
namespace snapshot_format {

inline constexpr uint8_t kVersion = 1;
inline constexpr std::string_view kMagic = "LSTREE";
enum class Kind : uint8_t { kHeader = 1, kSession = 2, kNode = 3, kEnd = 4 };
inline constexpr uint8_t kHasOpenAcl = 1;  // flags of a node: the ACL is OpenAcl() and left out
// No znode comes near: its path, ACL and data came in one request, bounded by jute.maxbuffer.
inline constexpr uint32_t kRecordBytesMax = 64 << 20;

// What a snapshot has of a Stat: the rest is derived.
template <typename Codec, typename S>
void StoredStat(Codec& codec, S& stat) {
  codec(stat.czxid, stat.mzxid, stat.pzxid, stat.ctime_ms, stat.mtime_ms, stat.version,
        stat.cversion, stat.aversion, stat.ephemeral_owner);
}

}  // namespace snapshot_format

}  // namespace lockstep::coordination
