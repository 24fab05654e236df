// The leader's work on a write before Zab orders it: checks it against the state that it will meet,
// which is the tree plus everything proposed and not yet applied, and takes all decisions (version,
// sequence number, which ephemerals go). docs/coordination.md, "The life of a request".
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/container/node_hash_map.h"
#include "core/base/ids.h"
#include "core/coordination/protocol.h"
#include "core/coordination/rules.h"
#include "core/coordination/transaction.h"
#include "core/coordination/tree.h"

namespace lockstep::coordination {

// Each Prepare function stands for one transaction that will be proposed next, and remembers what
// it will change until OnDelivered says that it has been applied. Invariant: transactions are
// delivered in the order in which they were prepared, none left out; a leader that loses its role
// drops the Preparer.
class Preparer {
 public:
  // `tree` outlives this object and is changed by delivered transactions alone.
  // `session_ephemeral_bytes_max`: see EphemeralBytes.
  Preparer(const Tree* tree, const Rules& rules, uint64_t session_ephemeral_bytes_max)
      : tree_(tree), rules_(rules), session_ephemeral_bytes_max_(session_ephemeral_bytes_max) {}

  // create, create2, delete, setData or multi, by `session`, whose ephemerals amount to
  // `ephemeral_bytes`. An ErrorTransaction or MultiErrorTransaction if it is refused, which leaves
  // nothing pending; every other op is Unimplemented.
  TransactionBody Prepare(SessionId session, uint64_t ephemeral_bytes, const Request& request);
  // All ephemerals of the session, with those that are being created and without those that are
  // being deleted.
  CloseSessionTransaction PrepareClose(SessionId session);
  // A transaction that changes no node.
  void PrepareOther() { Begin(); }

  // The oldest prepared transaction was applied to the tree.
  // Requires: in_flight() > 0.
  void OnDelivered();
  size_t in_flight() const { return in_flight_.size(); }

  // What the last Prepare did to ephemerals, by owner: their paths in bytes, added or removed. The
  // sum per session is bounded, since closing the session must fit into one transaction.
  using EphemeralBytes = absl::btree_map<SessionId, int64_t>;
  const EphemeralBytes& last_ephemeral_bytes() const { return last_ephemeral_bytes_; }

 private:
  // A node as the next transaction will find it.
  struct Node {
    bool exists = false;
    int32_t version = 0;
    int32_t cversion = 0;  // stored: counts creations, see stat.h
    int32_t child_count = 0;
    int32_t permissions = 0;
    SessionId owner;
  };
  struct PendingNode {
    Node node;
    uint64_t changed_by = 0;  // number of the last transaction in flight that changes it
  };
  using PendingMap = absl::node_hash_map<std::string, PendingNode>;
  using PendingCreates = absl::btree_map<std::pair<SessionId, std::string>, uint64_t>;
  struct InFlight {
    absl::InlinedVector<PendingMap::pointer, 2> nodes;
    std::vector<PendingCreates::key_type> created_ephemerals;
  };
  // What a change of pending_ or pending_creates_ has replaced; nothing, if it is an addition.
  struct UndoNode {
    PendingMap::pointer entry;
    std::optional<PendingNode> before;
  };
  struct UndoCreate {
    PendingCreates::key_type key;
    std::optional<uint64_t> before;
  };

  Node Look(std::string_view path) const;
  void Begin();
  void Record(std::string_view path, const Node& node);
  void RecordEphemeral(SessionId owner, const std::string& path);
  // Takes back all that the transaction in the making has recorded.
  void RollBack();
  // One operation, after those that the transaction in the making has recorded already.
  TransactionBody Create(SessionId session, uint64_t ephemeral_bytes, const CreateRequest& request);
  TransactionBody Delete(const DeleteRequest& request);
  TransactionBody SetData(const SetDataRequest& request);
  std::variant<CheckVersionTransaction, ErrorTransaction> CheckVersion(
      const CheckVersionRequest& request);
  TransactionBody Multi(SessionId session, uint64_t ephemeral_bytes, const MultiRequest& request);

  const Tree* const tree_;
  const Rules rules_;
  const uint64_t session_ephemeral_bytes_max_;

  PendingMap pending_;  // look-ups only
  // Ephemerals whose creation is in flight, by owner, with the number of the transaction. May name
  // one that is deleted again: pending_ knows.
  PendingCreates pending_creates_;
  std::deque<InFlight> in_flight_;
  uint64_t delivered_ = 0;  // transactions; in_flight_ starts with number delivered_ + 1
  EphemeralBytes last_ephemeral_bytes_;
  // Of the transaction in the making, oldest first; kept for a multi only.
  bool undoable_ = false;
  std::vector<UndoNode> undo_nodes_;
  std::vector<UndoCreate> undo_creates_;
};

}  // namespace lockstep::coordination
