#include "core/coordination/tree_impl.h"

#include <algorithm>
#include <new>
#include <tuple>
#include <utility>

#include "core/base/check.h"
#include "core/coordination/digest.h"
#include "core/coordination/path.h"

namespace lockstep::coordination {

const AclList& OpenAcl() {
  static const AclList list = {{.permissions = 31, .scheme = "world", .id = "anyone"}};
  return list;
}

// ---- Nodes -------------------------------------------------------------------------------------

void Tree::Impl::ZnodeDeleter::operator()(Znode* node) const {
  node->~Znode();
  ::operator delete(node);
}

Tree::Impl::ZnodePtr Tree::Impl::NewZnode(std::string_view path) {
  Znode* node = new (::operator new(sizeof(Znode) + path.size())) Znode;
  path.copy(reinterpret_cast<char*>(node + 1), path.size());
  node->path_length_ = static_cast<uint32_t>(path.size());
  return ZnodePtr(node);
}

Tree::Impl::ZnodePtr Tree::Impl::Clone(const Znode& node) {
  ZnodePtr clone = NewZnode(node.path());
  clone->stat_ = node.stat_;
  clone->data_ = node.data_;
  clone->null_data_ = node.null_data_;
  clone->order_ = node.order_;
  clone->acl_ = node.acl_;
  ++clone->acl_->references;
  return clone;
}

Tree::Impl::~Impl() {
  for (Znode* node = first_; node != nullptr;) {
    ZnodePtr owned(node);
    node = node->next_;
  }
}

void Tree::Impl::AddInitialNodes() {
  auto add = [this](std::string_view path, Znode* parent, const AclList& acl) {
    ZnodePtr node = NewZnode(path);
    node->acl_ = AcquireAcl(acl);
    return Insert(std::move(node), parent);
  };
  Znode* root = add("/", nullptr, OpenAcl());
  Znode* zookeeper = add("/zookeeper", root, OpenAcl());
  add("/zookeeper/quota", zookeeper, OpenAcl());
  // The ensemble's configuration is for reading only; ZooKeeper sets this ACL after the creation,
  // with the version -1.
  Znode* config =
      add("/zookeeper/config", zookeeper, {{.permissions = 1, .scheme = "world", .id = "anyone"}});
  ChangeStat(config, [](Stat* stat) { stat->aversion = -1; });
}

Znode* Tree::Impl::Find(std::string_view path) const {
  auto it = nodes_.find(path);
  return it == nodes_.end() ? nullptr : *it;
}

Znode* Tree::Impl::Insert(ZnodePtr owned, Znode* parent) {
  Znode* node = owned.release();
  LS_CHECK(node->acl_ != nullptr);
  LS_CHECK(nodes_.insert(node).second);
  if (parent != nullptr) {
    BeforeChange(*parent);
    if (parent->children_ == nullptr) parent->children_ = std::make_unique<Znode::Children>();
    parent->children_->insert(node);
    ++parent->stat_.num_children;
  } else {
    LS_CHECK(first_ == nullptr);
  }
  node->order_ = next_order_++;
  node->previous_ = last_;
  (last_ == nullptr ? first_ : last_->next_) = node;
  last_ = node;
  if (node->stat_.ephemeral_owner) {
    auto session = sessions.find(node->stat_.ephemeral_owner);
    LS_CHECK(session != sessions.end());
    session->second.ephemerals.insert(std::string(node->path()));
    ++ephemeral_count;
  }
  data_size += node->path().size() + node->data_.size();
  digest += ContentDigest(*node) + StatDigest(*node);
  return node;
}

void Tree::Impl::Remove(Znode* node) {
  LS_CHECK_EQ(node->stat_.num_children, 0);
  for (TreeSnapshot::Impl* snapshot : snapshots) snapshot->BeforeRemove(*node);
  digest -= ContentDigest(*node) + StatDigest(*node);
  data_size -= node->path().size() + node->data_.size();
  if (node->stat_.ephemeral_owner) {
    auto session = sessions.find(node->stat_.ephemeral_owner);
    LS_CHECK(session != sessions.end());
    LS_CHECK_EQ(session->second.ephemerals.erase(std::string(node->path())), size_t{1});
    --ephemeral_count;
  }
  Znode* parent = Find(ParentPath(node->path()));
  LS_CHECK(parent != nullptr);
  BeforeChange(*parent);
  parent->children_->erase(node);
  if (--parent->stat_.num_children == 0) parent->children_.reset();
  (node->previous_ == nullptr ? first_ : node->previous_->next_) = node->next_;
  (node->next_ == nullptr ? last_ : node->next_->previous_) = node->previous_;
  LS_CHECK_EQ(nodes_.erase(node), size_t{1});
  ReleaseAcl(node->acl_);
  ZnodePtr owned(node);
}

void Tree::Impl::SetContent(Znode* node, Bytes data, bool null_data) {
  BeforeChange(*node);
  digest -= ContentDigest(*node);
  data_size -= node->data_.size();
  // Copied, although it is a slice already: that slice would keep a whole receive buffer or journal
  // block alive for the sake of a few bytes.
  node->data_ = Bytes::Copy(data.view());
  node->null_data_ = null_data;
  node->stat_.data_length = static_cast<int32_t>(data.size());
  data_size += node->data_.size();
  digest += ContentDigest(*node);
}

void Tree::Impl::BeforeChange(const Znode& node) {
  for (TreeSnapshot::Impl* snapshot : snapshots) snapshot->BeforeChange(node);
}

// ---- Sessions ----------------------------------------------------------------------------------

void Tree::Impl::InsertSession(SessionId id, Session session) {
  LS_CHECK(session.ephemerals.empty());
  digest += SessionDigest(id, session);
  LS_CHECK(sessions.emplace(id, std::move(session)).second);
}

void Tree::Impl::RemoveSession(SessionId id) {
  auto it = sessions.find(id);
  LS_CHECK(it != sessions.end());
  LS_CHECK(it->second.ephemerals.empty());
  for (TreeSnapshot::Impl* snapshot : snapshots) snapshot->BeforeRemove(id, it->second);
  digest -= SessionDigest(id, it->second);
  sessions.erase(it);
}

// ---- ACLs --------------------------------------------------------------------------------------

bool Tree::Impl::ByList::Less(const AclList& a, const AclList& b) {
  return std::lexicographical_compare(
      a.begin(), a.end(), b.begin(), b.end(), [](const Acl& x, const Acl& y) {
        return std::tie(x.permissions, x.scheme, x.id) < std::tie(y.permissions, y.scheme, y.id);
      });
}

Znode::SharedAcl* Tree::Impl::AcquireAcl(const AclList& list) {
  auto it = acls_.find(list);
  if (it == acls_.end()) it = acls_.insert(std::make_unique<SharedAcl>(SharedAcl{list})).first;
  ++(*it)->references;
  return it->get();
}

void Tree::Impl::ReleaseAcl(SharedAcl* acl) {
  LS_CHECK_GT(acl->references, uint64_t{0});
  if (--acl->references == 0) acls_.erase(acls_.find(acl->list));
}

// ---- Digests -----------------------------------------------------------------------------------

namespace {
enum : uint64_t { kContent = 1, kStat = 2, kSession = 3 };  // kinds of StateHash
}  // namespace

uint64_t Tree::Impl::ContentDigest(const Znode& node) {
  StateHash hash(kContent);
  hash.Text(node.path());
  hash.Number(uint64_t{node.null_data_});
  hash.Text(node.data_.view());
  hash.Number(uint64_t{node.acl().size()});
  for (const Acl& acl : node.acl()) {
    hash.Number(acl.permissions);
    hash.Text(acl.scheme);
    hash.Text(acl.id);
  }
  return hash.value();
}

uint64_t Tree::Impl::StatDigest(const Znode& node) {
  const Stat& stat = node.stat_;
  StateHash hash(kStat);
  hash.Text(node.path());
  hash.Number(stat.czxid.Packed());
  hash.Number(stat.mzxid.Packed());
  hash.Number(stat.pzxid.Packed());
  hash.Number(stat.ctime_ms);
  hash.Number(stat.mtime_ms);
  hash.Number(stat.version);
  hash.Number(stat.cversion);
  hash.Number(stat.aversion);
  hash.Number(stat.ephemeral_owner.value);
  return hash.value();  // data_length and num_children follow from the rest of the state
}

uint64_t Tree::Impl::SessionDigest(SessionId id, const Session& session) {
  StateHash hash(kSession);
  hash.Number(id.value);
  hash.Number(session.timeout_ms);
  hash.Text(session.password);
  hash.Number(session.czxid.Packed());
  return hash.value();  // the ephemerals are those of the nodes
}

}  // namespace lockstep::coordination
