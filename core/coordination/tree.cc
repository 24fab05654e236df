#include "core/coordination/tree.h"

#include <string>
#include <utility>
#include <variant>

#include "core/base/check.h"
#include "core/coordination/path.h"
#include "core/coordination/tree_impl.h"

namespace lockstep::coordination {
namespace {

// Versions wrap around, as Java's ints do: no client can stop a server by counting.
int32_t After(int32_t version) { return static_cast<int32_t>(static_cast<uint32_t>(version) + 1); }

}  // namespace

std::vector<std::string_view> Znode::ChildNames() const {
  std::vector<std::string_view> names;
  if (children_ == nullptr) return names;
  names.reserve(children_->size());
  // The path of the root ends with the slash that others lack.
  const size_t prefix = path_length_ == 1 ? 1 : path_length_ + 1;
  for (const Znode* child : *children_) names.push_back(child->path().substr(prefix));
  return names;
}

Tree::Tree() : impl_(std::make_shared<Impl>()) { impl_->AddInitialNodes(); }
Tree::Tree(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tree::~Tree() = default;
Tree::Tree(Tree&&) noexcept = default;
Tree& Tree::operator=(Tree&&) noexcept = default;

// One transaction being applied; `applied` collects what it did.
struct Tree::Application {
  Impl& tree;
  const Zxid zxid;
  const TransactionHeader& header;
  Applied applied;

  void operator()(const CreateTransaction& body) {
    Znode* parent = tree.Find(ParentPath(body.path));
    LS_CHECK(parent != nullptr);
    LS_CHECK(!parent->stat().ephemeral_owner);
    LS_CHECK_EQ(body.parent_cversion, After(parent->stat().cversion));
    if (body.null_data) LS_CHECK(body.data.empty());

    Impl::ZnodePtr node = Impl::NewZnode(body.path);
    node->stat_ = {.czxid = zxid,
                   .mzxid = zxid,
                   .ctime_ms = header.time_ms,
                   .mtime_ms = header.time_ms,
                   .ephemeral_owner = body.ephemeral ? header.session : SessionId(),
                   .data_length = static_cast<int32_t>(body.data.size()),
                   .pzxid = zxid};
    node->data_ = Bytes::Copy(body.data.view());  // see SetContent
    node->null_data_ = body.null_data;
    node->acl_ = tree.AcquireAcl(body.acl);
    if (body.ephemeral) LS_CHECK(static_cast<bool>(header.session));
    applied.result = {body.path, StatOf(*tree.Insert(std::move(node), parent))};
    tree.ChangeStat(parent, [&](Stat* stat) {
      stat->cversion = body.parent_cversion;
      stat->pzxid = zxid;
    });
    applied.changes.push_back({Applied::Change::Kind::kCreated, body.path});
  }

  void operator()(const DeleteTransaction& body) { Delete(body.path); }

  void operator()(const SetDataTransaction& body) {
    Znode* node = tree.Find(body.path);
    LS_CHECK(node != nullptr);
    LS_CHECK_EQ(body.version, After(node->stat().version));
    if (body.null_data) LS_CHECK(body.data.empty());
    tree.SetContent(node, body.data, body.null_data);
    tree.ChangeStat(node, [&](Stat* stat) {
      stat->version = body.version;
      stat->mzxid = zxid;
      stat->mtime_ms = header.time_ms;
    });
    applied.result.stat = StatOf(*node);
    applied.changes.push_back({Applied::Change::Kind::kDataChanged, body.path});
  }

  void operator()(const CreateSessionTransaction& body) {
    LS_CHECK(static_cast<bool>(header.session));
    tree.InsertSession(header.session, {.timeout_ms = body.timeout_ms,
                                        .password = body.password,
                                        .czxid = zxid,
                                        .ephemerals = {}});
  }

  void operator()(const CloseSessionTransaction& body) {
    for (const std::string& path : body.paths_to_delete) {
      const Znode* node = tree.Find(path);
      LS_CHECK(node != nullptr);
      LS_CHECK_EQ(node->stat().ephemeral_owner, header.session);
      Delete(path);
    }
    tree.RemoveSession(header.session);
  }

  void operator()(const ErrorTransaction& body) { applied.error = body.error; }

  void operator()(const CheckVersionTransaction& body) {
    const Znode* node = tree.Find(body.path);
    LS_CHECK(node != nullptr);
    LS_CHECK_EQ(body.version, node->stat().version);
  }

  void operator()(const MultiTransaction& body) {
    applied.results.reserve(body.operations.size());
    for (const MultiTransaction::Operation& operation : body.operations) {
      applied.result = {};
      std::visit(*this, operation);
      applied.results.push_back(std::move(applied.result));
    }
  }

  void operator()(const MultiErrorTransaction& body) {
    applied.error = body.error;
    applied.failed_operation = body.operation;
  }

 private:
  // The parent's stored cversion stays: it counts creations. See StatOf.
  void Delete(const std::string& path) {
    Znode* node = tree.Find(path);
    LS_CHECK(node != nullptr);
    tree.Remove(node);
    tree.ChangeStat(tree.Find(ParentPath(path)), [&](Stat* stat) { stat->pzxid = zxid; });
    applied.changes.push_back({Applied::Change::Kind::kDeleted, path});
  }
};

Applied Tree::Apply(Zxid zxid, const TransactionHeader& header, const TransactionBody& body) {
  LS_CHECK_GT(zxid, impl_->last_zxid);
  impl_->last_zxid = zxid;
  Application application{*impl_, zxid, header, {}};
  std::visit(application, body);
  return std::move(application.applied);
}

Zxid Tree::last_zxid() const { return impl_->last_zxid; }

const Znode* Tree::Find(std::string_view path) const { return impl_->Find(path); }

Stat Tree::StatOf(const Znode& node) {
  Stat stat = node.stat();
  // Of c creations and d deletions, c - d children are left; clients are to see c + d = 2c - (c-d).
  stat.cversion = static_cast<int32_t>(2 * static_cast<uint32_t>(stat.cversion) -
                                       static_cast<uint32_t>(stat.num_children));
  return stat;
}

const Session* Tree::FindSession(SessionId id) const {
  auto it = impl_->sessions.find(id);
  return it == impl_->sessions.end() ? nullptr : &it->second;
}

const absl::btree_map<SessionId, Session>& Tree::sessions() const { return impl_->sessions; }

size_t Tree::node_count() const { return impl_->node_count(); }
size_t Tree::ephemeral_count() const { return impl_->ephemeral_count; }
uint64_t Tree::approximate_data_size() const { return impl_->data_size; }
uint64_t Tree::digest() const { return impl_->digest; }

}  // namespace lockstep::coordination
