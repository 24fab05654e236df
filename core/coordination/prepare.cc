#include "core/coordination/prepare.h"

#include <cstdio>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/strings/string_view.h"
#include "core/base/check.h"
#include "core/coordination/access.h"
#include "core/coordination/path.h"

namespace lockstep::coordination {
namespace {

ErrorTransaction Refuse(ErrorCode error) { return {.error = error}; }

// Versions wrap around, as Java's do.
int32_t Next(int32_t version) { return static_cast<int32_t>(static_cast<uint32_t>(version) + 1); }

// ZooKeeper's own nodes, which nobody may delete.
bool IsSpecial(std::string_view path) {
  return path == "/" || path == "/zookeeper" || path == "/zookeeper/quota" ||
         path == "/zookeeper/config";
}

// What ZooKeeper looks at before it looks for the parent. The rest of the path is judged later,
// with the sequence number.
bool HasParent(std::string_view path) {
  return path.find('/') != std::string_view::npos && path.find('\0') == std::string_view::npos;
}

// As ParentPath, for a path that was not validated.
std::string_view TextBeforeLastSlash(std::string_view path) {
  size_t slash = path.rfind('/');
  return slash == 0 ? path.substr(0, 1) : path.substr(0, slash);
}

// The list to store: without repetitions. Empty if it is not acceptable.
std::vector<Acl> AcceptableAcl(const std::vector<Acl>& list) {
  std::vector<Acl> result;
  for (const Acl& acl : list) {
    if (!IsWorldAnyone(acl)) return {};
    bool repeated = false;
    for (const Acl& known : result) repeated = repeated || known == acl;
    if (!repeated) result.push_back(acl);
  }
  return result;
}

std::string WithSequence(std::string_view path, int32_t number) {
  char digits[16];
  int size = std::snprintf(digits, sizeof digits, "%010d", number);
  std::string result;
  result.reserve(path.size() + static_cast<size_t>(size));
  result.append(path).append(digits, static_cast<size_t>(size));
  return result;
}

// Abseil's containers look strings up by Abseil's own view.
absl::string_view AsKey(std::string_view path) { return {path.data(), path.size()}; }

}  // namespace

TransactionBody Preparer::Prepare(SessionId session, uint64_t ephemeral_bytes,
                                  const Request& request) {
  Begin();
  const RequestBody& body = request.body;
  if (const auto* create = std::get_if<CreateRequest>(&body)) {
    return Create(session, ephemeral_bytes, *create);
  }
  if (const auto* remove = std::get_if<DeleteRequest>(&body)) return Delete(*remove);
  if (const auto* set = std::get_if<SetDataRequest>(&body)) return SetData(*set);
  if (const auto* multi = std::get_if<MultiRequest>(&body)) {
    return Multi(session, ephemeral_bytes, *multi);
  }
  return Refuse(ErrorCode::kUnimplemented);
}

// Each operation meets what those before it have left pending.
TransactionBody Preparer::Multi(SessionId session, uint64_t ephemeral_bytes,
                                const MultiRequest& request) {
  undoable_ = true;
  MultiTransaction multi;
  multi.operations.reserve(request.operations.size());
  // What refuses the operation; otherwise it is one more of the transaction.
  auto append = [&multi](auto prepared) {
    return std::visit(
        [&multi]<typename T>(T&& one) {
          if constexpr (std::is_same_v<T, ErrorTransaction>) {
            return one.error;
          } else if constexpr (std::is_constructible_v<MultiTransaction::Operation, T>) {
            multi.operations.emplace_back(std::move(one));
            return ErrorCode::kOk;
          } else {
            LS_UNREACHABLE();
            return ErrorCode::kSystemError;
          }
        },
        std::move(prepared));
  };
  for (const MultiRequest::Operation& operation : request.operations) {
    ErrorCode error = ErrorCode::kOk;
    if (const auto* create = std::get_if<CreateRequest>(&operation.body)) {
      error = append(Create(session, ephemeral_bytes, *create));
    } else if (const auto* remove = std::get_if<DeleteRequest>(&operation.body)) {
      error = append(Delete(*remove));
    } else if (const auto* set = std::get_if<SetDataRequest>(&operation.body)) {
      error = append(SetData(*set));
    } else {
      error = append(CheckVersion(std::get<CheckVersionRequest>(operation.body)));
    }
    if (error == ErrorCode::kOk) continue;
    // Whatever follows in the pipeline must not meet nodes, versions and sequence numbers of
    // operations that never happen. Of their parents neither: ZOOKEEPER-1624.
    if (rules_.roll_back_failed_multis) RollBack();
    return MultiErrorTransaction{.error = error,
                                 .operation = static_cast<uint32_t>(multi.operations.size())};
  }
  return multi;
}

TransactionBody Preparer::Create(SessionId session, uint64_t ephemeral_bytes,
                                 const CreateRequest& request) {
  if (request.flags < 0 || request.flags > 6) return Refuse(ErrorCode::kBadArguments);
  if (request.flags > 3) return Refuse(ErrorCode::kUnimplemented);  // containers, TTLs
  const bool ephemeral = (request.flags & CreateRequest::kEphemeral) != 0;
  if (!HasParent(request.path)) return Refuse(ErrorCode::kBadArguments);
  std::vector<Acl> acl = AcceptableAcl(request.acl);
  if (acl.empty()) return Refuse(ErrorCode::kInvalidAcl);

  const std::string parent_path(TextBeforeLastSlash(request.path));
  Node parent = Look(parent_path);
  if (!parent.exists) return Refuse(ErrorCode::kNoNode);
  if ((parent.permissions & kPermissionCreate) == 0) return Refuse(ErrorCode::kNoAuth);
  std::string path = (request.flags & CreateRequest::kSequential) != 0
                         ? WithSequence(request.path, parent.cversion)
                         : std::string(request.path);
  if (!ValidatePath(path).ok()) return Refuse(ErrorCode::kBadArguments);
  if (Look(path).exists) return Refuse(ErrorCode::kNodeExists);
  if (parent.owner) return Refuse(ErrorCode::kNoChildrenForEphemerals);
  if (ephemeral) {
    uint64_t bytes = ephemeral_bytes + path.size();
    auto earlier = last_ephemeral_bytes_.find(session);  // in the same multi
    if (earlier != last_ephemeral_bytes_.end()) bytes += static_cast<uint64_t>(earlier->second);
    if (bytes > session_ephemeral_bytes_max_) return Refuse(ErrorCode::kQuotaExceeded);
  }

  parent.cversion = Next(parent.cversion);
  ++parent.child_count;
  const SessionId owner = ephemeral ? session : SessionId();
  Record(parent_path, parent);
  Record(path, {.exists = true, .permissions = PermissionsOf(acl), .owner = owner});
  if (ephemeral) RecordEphemeral(session, path);
  return CreateTransaction{.path = std::move(path),
                           .data = request.data.bytes,
                           .null_data = request.data.null,
                           .acl = std::move(acl),
                           .ephemeral = ephemeral,
                           .parent_cversion = parent.cversion};
}

TransactionBody Preparer::Delete(const DeleteRequest& request) {
  if (!HasParent(request.path) || IsSpecial(request.path)) return Refuse(ErrorCode::kBadArguments);
  const std::string parent_path(TextBeforeLastSlash(request.path));
  Node parent = Look(parent_path);
  Node node = Look(request.path);
  if (!parent.exists || !node.exists) return Refuse(ErrorCode::kNoNode);
  if ((parent.permissions & kPermissionDelete) == 0) return Refuse(ErrorCode::kNoAuth);
  if (request.version != kAnyVersion && request.version != node.version) {
    return Refuse(ErrorCode::kBadVersion);
  }
  if (node.child_count > 0) return Refuse(ErrorCode::kNotEmpty);

  --parent.child_count;
  Record(parent_path, parent);
  if (node.owner) {
    last_ephemeral_bytes_[node.owner] -= static_cast<int64_t>(request.path.size());
  }
  Record(request.path, Node{});
  return DeleteTransaction{.path = std::string(request.path)};
}

TransactionBody Preparer::SetData(const SetDataRequest& request) {
  if (!ValidatePath(request.path).ok()) return Refuse(ErrorCode::kBadArguments);
  Node node = Look(request.path);
  if (!node.exists) return Refuse(ErrorCode::kNoNode);
  if ((node.permissions & kPermissionWrite) == 0) return Refuse(ErrorCode::kNoAuth);
  if (request.version != kAnyVersion && request.version != node.version) {
    return Refuse(ErrorCode::kBadVersion);
  }

  node.version = Next(node.version);
  Record(request.path, node);
  return SetDataTransaction{.path = std::string(request.path),
                            .data = request.data.bytes,
                            .null_data = request.data.null,
                            .version = node.version};
}

std::variant<CheckVersionTransaction, ErrorTransaction> Preparer::CheckVersion(
    const CheckVersionRequest& request) {
  if (!ValidatePath(request.path).ok()) return Refuse(ErrorCode::kBadArguments);
  const Node node = Look(request.path);
  if (!node.exists) return Refuse(ErrorCode::kNoNode);
  if ((node.permissions & kPermissionRead) == 0) return Refuse(ErrorCode::kNoAuth);
  if (request.version != kAnyVersion && request.version != node.version) {
    return Refuse(ErrorCode::kBadVersion);
  }
  return CheckVersionTransaction{.path = std::string(request.path), .version = node.version};
}

CloseSessionTransaction Preparer::PrepareClose(SessionId session) {
  Begin();
  absl::btree_set<std::string> paths;
  if (const Session* known = tree_->FindSession(session)) paths = known->ephemerals;
  // Without these, an ephemeral whose creation is on its way stays for ever: nobody is left to
  // expire its owner.
  if (rules_.close_session_sees_pending_creates) {
    for (auto it = pending_creates_.lower_bound({session, ""});
         it != pending_creates_.end() && it->first.first == session; ++it) {
      paths.insert(it->first.second);
    }
  }
  CloseSessionTransaction close;
  for (const std::string& path : paths) {
    Node node = Look(path);
    // Deleted by a transaction in flight, and perhaps created again by somebody else.
    if (!node.exists || node.owner != session) continue;
    const std::string parent_path(ParentPath(path));
    Node parent = Look(parent_path);
    --parent.child_count;
    Record(parent_path, parent);
    Record(path, Node{});
    close.paths_to_delete.push_back(path);
  }
  return close;
}

void Preparer::OnDelivered() {
  LS_CHECK(!in_flight_.empty());
  ++delivered_;
  InFlight& oldest = in_flight_.front();
  for (PendingMap::pointer node : oldest.nodes) {
    // A later transaction in flight changes the node too: what it left is what the next one meets.
    if (node->second.changed_by == delivered_) pending_.erase(node->first);
  }
  for (const PendingCreates::key_type& created : oldest.created_ephemerals) {
    auto it = pending_creates_.find(created);
    if (it != pending_creates_.end() && it->second == delivered_) pending_creates_.erase(it);
  }
  in_flight_.pop_front();
}

Preparer::Node Preparer::Look(std::string_view path) const {
  if (rules_.prepare_sees_pending_changes) {
    auto it = pending_.find(AsKey(path));
    if (it != pending_.end()) return it->second.node;
  }
  const Znode* node = tree_->Find(path);
  if (node == nullptr) return {};
  return {.exists = true,
          .version = node->stat().version,
          .cversion = node->stat().cversion,
          .child_count = static_cast<int32_t>(node->child_count()),
          .permissions = PermissionsOf(node->acl()),
          .owner = node->stat().ephemeral_owner};
}

void Preparer::Begin() {
  in_flight_.emplace_back();
  last_ephemeral_bytes_.clear();
  undoable_ = false;
  undo_nodes_.clear();
  undo_creates_.clear();
}

void Preparer::Record(std::string_view path, const Node& node) {
  const uint64_t number = delivered_ + in_flight_.size();
  const auto [it, added] = pending_.try_emplace(AsKey(path));
  PendingMap::pointer entry = &*it;
  if (undoable_) {
    undo_nodes_.push_back({entry, added ? std::nullopt : std::optional(entry->second)});
  }
  // Once per transaction: when it is delivered, the entry may be erased, and must not be looked at
  // again. (A session that closes may change one parent many times.)
  if (entry->second.changed_by != number) in_flight_.back().nodes.push_back(entry);
  entry->second = {.node = node, .changed_by = number};
}

void Preparer::RecordEphemeral(SessionId owner, const std::string& path) {
  const uint64_t number = delivered_ + in_flight_.size();
  const auto [it, added] = pending_creates_.try_emplace({owner, path}, number);
  if (undoable_)
    undo_creates_.push_back({it->first, added ? std::nullopt : std::optional(it->second)});
  it->second = number;
  in_flight_.back().created_ephemerals.push_back(it->first);
  last_ephemeral_bytes_[owner] += static_cast<int64_t>(path.size());
}

void Preparer::RollBack() {
  // From the newest on: an entry that was changed twice ends as it was before the first change.
  for (; !undo_nodes_.empty(); undo_nodes_.pop_back()) {
    const UndoNode& undo = undo_nodes_.back();
    if (undo.before) {
      undo.entry->second = *undo.before;
    } else {
      pending_.erase(undo.entry->first);
    }
  }
  for (; !undo_creates_.empty(); undo_creates_.pop_back()) {
    const UndoCreate& undo = undo_creates_.back();
    if (undo.before) {
      pending_creates_[undo.key] = *undo.before;
    } else {
      pending_creates_.erase(undo.key);
    }
  }
  in_flight_.back().nodes.clear();
  in_flight_.back().created_ephemerals.clear();
  last_ephemeral_bytes_.clear();
}

}  // namespace lockstep::coordination
