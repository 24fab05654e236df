#include "sim/checkers/znode_model.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/base/random.h"
#include "sim/failure.h"
#include "sim/trace.h"

namespace lockstep::sim {
namespace {

using coordination::CloseSessionTransaction;
using coordination::CreateSessionTransaction;
using coordination::CreateTransaction;
using coordination::DeleteTransaction;
using coordination::ErrorTransaction;
using coordination::SetDataTransaction;

std::string_view NameOf(std::string_view path) { return path.substr(path.rfind('/') + 1); }

[[noreturn]] void Misfit(const CommittedEntry& entry, std::string_view what) {
  Fail("transaction-fits-state",
       absl::StrCat(entry.zxid.ToString(), " of session ",
                    entry.transaction.header.session.ToString(), ": ", std::string(what)));
}

}  // namespace

std::string_view ParentOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string_view::npos ? std::string_view("/")
                                                       : path.substr(0, slash);
}

uint64_t ZnodeModel::NameSum(std::string_view name) { return Mix64(Checksum(name)); }

ZnodeModel::ZnodeModel() {
  for (std::string_view path : {"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"}) {
    AddInitial(path);
  }
}

void ZnodeModel::AddInitial(std::string_view path) {
  Node& node = nodes_[std::string(path)];
  node.states.push_back({{}, true, Checksum(""), 0, {}, {}});
  node.children.push_back({});
  if (path == "/") return;
  ChildrenState& siblings = nodes_[std::string(ParentOf(path))].children.back();
  ++siblings.count;
  siblings.names += NameSum(NameOf(path));
}

const ZnodeModel::Node* ZnodeModel::Find(std::string_view path) const {
  auto it = nodes_.find(std::string(path));
  return it == nodes_.end() ? nullptr : &it->second;
}

ZnodeModel::Node* ZnodeModel::Existing(std::string_view path) {
  auto it = nodes_.find(std::string(path));
  if (it == nodes_.end() || !it->second.states.back().exists) return nullptr;
  return &it->second;
}

void ZnodeModel::Apply(const CommittedEntry& entry) {
  const coordination::TransactionHeader& header = entry.transaction.header;
  const coordination::TransactionBody& body = entry.transaction.body;
  if (std::holds_alternative<ErrorTransaction>(body) ||
      std::holds_alternative<coordination::MultiErrorTransaction>(body)) {
    return;
  }
  if (const auto* create = std::get_if<CreateSessionTransaction>(&body)) {
    const auto [session, is_new] = sessions_.try_emplace(header.session);
    if (!is_new) Misfit(entry, "the session was there before");
    session->second.timeout = Milliseconds(create->timeout_ms);
    return;
  }
  if (const auto* close = std::get_if<CloseSessionTransaction>(&body)) {
    return CloseSession(entry, *close);
  }
  // Whatever is a client's request, and took effect, did so once.
  const uint64_t request =
      Mix64(static_cast<uint64_t>(header.session.value)) ^ static_cast<uint32_t>(header.xid);
  const auto [it, is_new] = requests_.try_emplace(request, entry.zxid.Packed());
  if (!is_new) {
    Fail("write-happens-once",
         absl::StrCat("request ", header.xid, " of session ", header.session.ToString(), " is ",
                      entry.zxid.ToString(), " and was ", Zxid::FromPacked(it->second).ToString()));
  }
  // xids of a session ascend, over all its connections: a request that a moved session left behind
  // must not take effect after those that it has sent since.
  if (auto session = sessions_.find(header.session); session != sessions_.end()) {
    if (header.xid <= session->second.last_xid) {
      Fail("writes-in-order",
           absl::StrCat(entry.zxid.ToString(), ", request ", header.xid, " of session ",
                        header.session.ToString(), ", takes effect after request ",
                        session->second.last_xid));
    }
    session->second.last_xid = header.xid;
  }
  if (const auto* create = std::get_if<CreateTransaction>(&body)) return Create(entry, *create);
  if (const auto* remove = std::get_if<DeleteTransaction>(&body))
    return Delete(entry, remove->path);
  if (const auto* set = std::get_if<SetDataTransaction>(&body)) return SetData(entry, *set);
  if (const auto* multi = std::get_if<coordination::MultiTransaction>(&body)) {
    // All at one zxid: whoever reads at that zxid, or later, has to find all of it.
    for (const auto& operation : multi->operations) {
      if (const auto* create = std::get_if<CreateTransaction>(&operation)) {
        Create(entry, *create);
      } else if (const auto* remove = std::get_if<DeleteTransaction>(&operation)) {
        Delete(entry, remove->path);
      } else if (const auto* set = std::get_if<SetDataTransaction>(&operation)) {
        SetData(entry, *set);
      } else {
        CheckVersion(entry, std::get<coordination::CheckVersionTransaction>(operation));
      }
    }
    return;
  }
  Misfit(entry, "unknown kind");
}

void ZnodeModel::Create(const CommittedEntry& entry, const CreateTransaction& create) {
  if (Existing(create.path) != nullptr) Misfit(entry, absl::StrCat(create.path, " exists"));
  const SessionId session = entry.transaction.header.session;
  if (create.ephemeral) {
    auto it = sessions_.find(session);
    if (it == sessions_.end() || !it->second.open) {
      Fail("ephemerals-live-with-their-session",
           absl::StrCat(entry.zxid.ToString(), " creates ", create.path, " for session ",
                        session.ToString(), ", which is not open"));
    }
    it->second.ephemerals.insert(create.path);
  }
  // The look-up of the node may move the parent's: it comes first.
  Node& node = nodes_[create.path];
  Node* parent = Existing(ParentOf(create.path));
  if (parent == nullptr) Misfit(entry, absl::StrCat("no parent of ", create.path));
  if (parent->states.back().owner) Misfit(entry, absl::StrCat(create.path, " under an ephemeral"));
  if (create.parent_cversion != parent->creations + 1) {
    Misfit(entry, absl::StrCat("parent of ", create.path, " had ", parent->creations,
                               " creations, then ", create.parent_cversion));
  }
  ++parent->creations;
  ChildrenState siblings = parent->children.back();
  siblings.since = entry.zxid;
  ++siblings.count;
  siblings.names += NameSum(NameOf(create.path));
  parent->children.push_back(siblings);
  node.states.push_back({entry.zxid, true, Checksum(create.data.view()), 0,
                         create.ephemeral ? session : SessionId{}, entry.zxid});
  node.children.push_back({entry.zxid, 0, 0});
  node.creations = 0;
  changes_.push_back({entry.zxid, coordination::WatchEventType::kNodeCreated, create.path});
}

void ZnodeModel::Delete(const CommittedEntry& entry, std::string_view path) {
  Node* node = Existing(path);
  if (node == nullptr) Misfit(entry, absl::StrCat(std::string(path), " does not exist"));
  if (node->children.back().count != 0)
    Misfit(entry, absl::StrCat(std::string(path), " has children"));
  if (const SessionId owner = node->states.back().owner) {
    sessions_[owner].ephemerals.erase(std::string(path));
  }
  NodeState gone;
  gone.since = entry.zxid;
  node->states.push_back(gone);
  node->children.push_back({entry.zxid, 0, 0});
  Node* parent = Existing(ParentOf(path));
  if (parent == nullptr) Misfit(entry, absl::StrCat("no parent of ", std::string(path)));
  ChildrenState siblings = parent->children.back();
  siblings.since = entry.zxid;
  --siblings.count;
  siblings.names -= NameSum(NameOf(path));
  parent->children.push_back(siblings);
  changes_.push_back({entry.zxid, coordination::WatchEventType::kNodeDeleted, std::string(path)});
}

void ZnodeModel::SetData(const CommittedEntry& entry, const SetDataTransaction& set) {
  Node* node = Existing(set.path);
  if (node == nullptr) Misfit(entry, absl::StrCat(set.path, " does not exist"));
  NodeState state = node->states.back();
  if (set.version != state.version + 1) {
    Misfit(entry,
           absl::StrCat(set.path, " goes from version ", state.version, " to ", set.version));
  }
  state.since = entry.zxid;
  state.version = set.version;
  state.data_checksum = Checksum(set.data.view());
  node->states.push_back(state);
  changes_.push_back({entry.zxid, coordination::WatchEventType::kNodeDataChanged, set.path});
}

void ZnodeModel::CheckVersion(const CommittedEntry& entry,
                              const coordination::CheckVersionTransaction& check) {
  const Node* node = Existing(check.path);
  if (node == nullptr) Misfit(entry, absl::StrCat(check.path, " does not exist"));
  if (node->states.back().version != check.version) {
    Misfit(entry, absl::StrCat(check.path, " has version ", node->states.back().version,
                               ", was found to have ", check.version));
  }
}

void ZnodeModel::CloseSession(const CommittedEntry& entry, const CloseSessionTransaction& close) {
  auto it = sessions_.find(entry.transaction.header.session);
  if (it == sessions_.end() || !it->second.open) Misfit(entry, "closes a session that is not open");
  absl::btree_set<std::string> deleted(close.paths_to_delete.begin(), close.paths_to_delete.end());
  if (deleted != it->second.ephemerals) {
    Fail("ephemerals-live-with-their-session",
         absl::StrCat(entry.zxid.ToString(), " closes session ", it->first.ToString(), " with ",
                      deleted.size(), " of its ", it->second.ephemerals.size(), " ephemerals"));
  }
  it->second.open = false;
  for (const std::string& path : close.paths_to_delete) Delete(entry, path);
}

NodeState ZnodeModel::NodeAt(std::string_view path, Zxid zxid) const {
  const Node* node = Find(path);
  if (node == nullptr) return {};
  auto it = std::upper_bound(node->states.begin(), node->states.end(), zxid,
                             [](Zxid z, const NodeState& s) { return z < s.since; });
  return it == node->states.begin() ? NodeState() : *(it - 1);
}

ChildrenState ZnodeModel::ChildrenAt(std::string_view path, Zxid zxid) const {
  const Node* node = Find(path);
  if (node == nullptr) return {};
  auto it = std::upper_bound(node->children.begin(), node->children.end(), zxid,
                             [](Zxid z, const ChildrenState& s) { return z < s.since; });
  return it == node->children.begin() ? ChildrenState() : *(it - 1);
}

bool ZnodeModel::DataChanged(std::string_view path, Zxid after, Zxid until) const {
  return NodeAt(path, until).since > after;
}

bool ZnodeModel::ChildrenChanged(std::string_view path, Zxid after, Zxid until) const {
  return ChildrenAt(path, until).since > after;
}

Duration ZnodeModel::TimeoutOf(SessionId session) const {
  auto it = sessions_.find(session);
  return it == sessions_.end() ? Duration() : it->second.timeout;
}

ZnodeModel::SessionState ZnodeModel::StateOf(SessionId session) const {
  auto it = sessions_.find(session);
  if (it == sessions_.end()) return SessionState::kUnknown;
  return it->second.open ? SessionState::kOpen : SessionState::kClosed;
}

}  // namespace lockstep::sim
