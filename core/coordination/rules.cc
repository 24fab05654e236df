#include "core/coordination/rules.h"

namespace lockstep::coordination {

const std::vector<RuleEntry>& AllRules() {
  static const std::vector<RuleEntry> rules = {
      {"reads_after_own_writes", &Rules::reads_after_own_writes,
       "a read overtakes the session's own earlier writes"},
      {"events_before_replies", &Rules::events_before_replies,
       "a reply shows a state before the event that announces it"},
      {"close_session_sees_pending_creates", &Rules::close_session_sees_pending_creates,
       "an ephemeral whose creation was in flight outlives its session (ZOOKEEPER-4541 family)"},
      {"refuse_moved_sessions", &Rules::refuse_moved_sessions,
       "a request left behind by a moved session is carried out"},
      {"full_timeout_under_a_new_leader", &Rules::full_timeout_under_a_new_leader,
       "a new leader expires sessions that are alive"},
      {"refuse_clients_from_the_future", &Rules::refuse_clients_from_the_future,
       "a client sees the state go back when it reconnects"},
      {"prepare_sees_pending_changes", &Rules::prepare_sees_pending_changes,
       "versions and sequence numbers repeat under pipelining (ZOOKEEPER-1046)"},
      {"roll_back_failed_multis", &Rules::roll_back_failed_multis,
       "what follows a refused multi is judged as if a part of it had happened (ZOOKEEPER-1624)"},
      {"watches_of_one_path_are_independent", &Rules::watches_of_one_path_are_independent,
       "a persistent watch ends when its connection reads the path with a watch (ZOOKEEPER-4466)"},
  };
  return rules;
}

}  // namespace lockstep::coordination
