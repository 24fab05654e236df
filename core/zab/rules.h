// The guards of Zab that a real system once lacked, as switches. All are true in production; only
// the simulator and tests may construct a machine with one of them off (`lockstep-sim run --break
// NAME`), to prove that the historic fault would be found.
//
// A rule is a guard at the place where it acts, never a branch added to plant a bug.
#pragma once

#include <string_view>
#include <vector>

namespace lockstep::zab {

struct Rules {
  // An ACK leaves only after the transactions it covers are durable. R1; ZOOKEEPER-4646.
  bool ack_after_durable = true;
  // AckNewLeader leaves only after the initial history and the current epoch are durable.
  // R1; ZOOKEEPER-3911, 4646.
  bool ack_new_leader_after_history_is_durable = true;
  // The current epoch is written after the initial history that it promises. R2; ZOOKEEPER-4643,
  // 4785.
  bool current_epoch_after_history = true;
  // A follower writes the accepted epoch before it promises it in ACKEPOCH. R1; ZOOKEEPER-335.
  bool accepted_epoch_before_ack_epoch = true;
  // A leader writes its own accepted epoch before anyone learns the new epoch. ZOOKEEPER-1291.
  bool leader_accepts_epoch_before_proposing_it = true;
  // The zxid in a vote and in ACKEPOCH is that of the durable history, not of what was applied.
  // R3; ZOOKEEPER-2845.
  bool advertise_durable_history = true;
  // The election compares the current epoch before the zxid. ZOOKEEPER-335, 1081, 1082.
  bool vote_by_epoch_first = true;
  // A leader gives up if a learner's history is ahead of its own. Zab 1.0, phase 1.
  bool abdicate_if_a_follower_is_ahead = true;
  // A learner whose history is not a prefix of the leader's is truncated to the common prefix
  // before it gets anything. R5; ZOOKEEPER-1154.
  bool truncate_before_diff = true;
  // In the step in which a learner joins the live stream, what it has been sent reaches up to it:
  // no proposal falls between its snapshot and the stream. R6; ZOOKEEPER-962.
  bool join_live_stream_atomically = true;
  // Proposals go to every learner that was sent NEWLEADER, also before it has acknowledged it.
  bool propose_to_unacknowledged_learners = true;
  // A transaction is applied only when it is durable here, however many others have it. R3.
  bool apply_after_locally_durable = true;
  // A learner refuses a proposal that does not follow its last one. R5; ZOOKEEPER-2418, 4925.
  bool refuse_gaps = true;
  // The leader waits for a quorum of AckNewLeader before it serves. Zab 1.0, phase 2.
  bool serve_after_quorum_of_new_leader = true;
  // A leader that no quorum has answered within syncLimit steps down.
  bool step_down_without_quorum = true;
  // A server looks for a leader only when its own outstanding writes are durable. R4;
  // ZOOKEEPER-4712.
  bool drain_writes_before_election = true;
  // Who may have lost its disk is not counted before it has learned all that it may have promised.
  bool count_only_who_remembers = true;
};

// Every rule with its name, for `--break` and `lockstep-sim list rules`.
struct RuleEntry {
  const char* name;
  bool Rules::* member;
  const char* says;  // what goes wrong without it, and the historic fault
};
const std::vector<RuleEntry>& AllRules();

}  // namespace lockstep::zab
