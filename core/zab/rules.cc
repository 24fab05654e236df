#include "core/zab/rules.h"

namespace lockstep::zab {

const std::vector<RuleEntry>& AllRules() {
  static const std::vector<RuleEntry> rules = {
      {"ack_after_durable", &Rules::ack_after_durable,
       "an ACK leaves before its transactions are durable (ZOOKEEPER-4646)"},
      {"ack_new_leader_after_history_is_durable", &Rules::ack_new_leader_after_history_is_durable,
       "NEWLEADER is acknowledged before the history is durable (ZOOKEEPER-3911)"},
      {"current_epoch_after_history", &Rules::current_epoch_after_history,
       "the current epoch is written before the history it promises (ZOOKEEPER-4643, 4785)"},
      {"accepted_epoch_before_ack_epoch", &Rules::accepted_epoch_before_ack_epoch,
       "a follower promises an epoch before it has written it (ZOOKEEPER-335)"},
      {"leader_accepts_epoch_before_proposing_it", &Rules::leader_accepts_epoch_before_proposing_it,
       "a leader proposes an epoch before it has written it (ZOOKEEPER-1291)"},
      {"advertise_durable_history", &Rules::advertise_durable_history,
       "votes carry what was applied, not what is in the log (ZOOKEEPER-2845)"},
      {"vote_by_epoch_first", &Rules::vote_by_epoch_first,
       "the election compares zxids alone (ZOOKEEPER-335, 1081, 1082)"},
      {"abdicate_if_a_follower_is_ahead", &Rules::abdicate_if_a_follower_is_ahead,
       "a leader goes on although a follower has a longer history"},
      {"truncate_before_diff", &Rules::truncate_before_diff,
       "a learner keeps transactions that the leader does not have (ZOOKEEPER-1154)"},
      {"join_live_stream_atomically", &Rules::join_live_stream_atomically,
       "a learner misses what was proposed while its snapshot was sent (ZOOKEEPER-962)"},
      {"propose_to_unacknowledged_learners", &Rules::propose_to_unacknowledged_learners,
       "learners that have not yet acknowledged NEWLEADER miss proposals"},
      {"apply_after_locally_durable", &Rules::apply_after_locally_durable,
       "a committed transaction is applied before it is durable here"},
      {"refuse_gaps", &Rules::refuse_gaps,
       "a learner stores a proposal that does not follow its last one (ZOOKEEPER-2418, 4925)"},
      {"serve_after_quorum_of_new_leader", &Rules::serve_after_quorum_of_new_leader,
       "a leader serves before a quorum has its history"},
      {"step_down_without_quorum", &Rules::step_down_without_quorum,
       "a leader that is cut off from its quorum keeps serving"},
      {"drain_writes_before_election", &Rules::drain_writes_before_election,
       "an election starts while own writes are in flight (ZOOKEEPER-4712)"},
      {"count_only_who_remembers", &Rules::count_only_who_remembers,
       "a server whose disk was replaced by an empty one votes, and is counted"},
  };
  return rules;
}

}  // namespace lockstep::zab
