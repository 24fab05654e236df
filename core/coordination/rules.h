// The guards of the znode service that a real system once lacked, as switches; see
// core/zab/rules.h.
#pragma once

#include <vector>

namespace lockstep::coordination {

struct Rules {
  // A read of a session waits for the session's earlier writes.
  bool reads_after_own_writes = true;
  // An event leaves before any reply that shows the state it announces.
  bool events_before_replies = true;
  // Closing a session also deletes ephemerals whose creation is still in flight. ZOOKEEPER-4541
  // family.
  bool close_session_sees_pending_creates = true;
  // A request that was left behind by a session which moved to another server is refused.
  bool refuse_moved_sessions = true;
  // A new leader gives every session its full timeout before it expires any.
  bool full_timeout_under_a_new_leader = true;
  // A client that has seen a newer state than this server's is sent elsewhere.
  bool refuse_clients_from_the_future = true;
  // The next sequence number and version count what is still in flight. ZOOKEEPER-1046.
  bool prepare_sees_pending_changes = true;
  // A multi that is refused leaves nothing pending of its earlier operations. ZOOKEEPER-1624.
  bool roll_back_failed_multis = true;
  // A one-shot watch leaves the persistent one beside it. ZOOKEEPER-4466.
  bool watches_of_one_path_are_independent = true;
};

struct RuleEntry {
  const char* name;
  bool Rules::* member;
  const char* says;
};
const std::vector<RuleEntry>& AllRules();

}  // namespace lockstep::coordination
