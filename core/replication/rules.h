// The guards of partition replication that the seed or Kafka once lacked, as switches. All are true
// in production; only the simulator and tests may construct a machine with one of them off
// (`lockstep-sim run --break NAME`), to prove that the historic fault would be found.
//
// A rule is a guard at the place where it acts, never a branch added to plant a bug. S-numbers are
// the holes of the seed (docs/replication.md).
#pragma once

#include <vector>

namespace lockstep::replication {

struct Rules {
  // ---- Truncation. The ladder: all three off is the seed; each rung adds one.
  // A follower cuts its log where its history parts from the leader's, found by leader epochs;
  // without it, it truncates to its high watermark when it begins to follow. S17; KIP-101.
  bool truncate_by_leader_epoch = true;
  // A leader that does not know the asked epoch answers with the largest one below it; without it,
  // with the start of the next one above. KIP-279, KAFKA-6361.
  bool answer_largest_epoch_not_above = true;
  // A leader refuses fetches of another leader epoch than its own. S18; KIP-320, KAFKA-6880.
  bool fence_fetches_by_leader_epoch = true;
  // A follower compares its history with its leader's in every leader epoch anew, also if the
  // leader is the broker it followed before. KAFKA-7164. (What it sends comes from its log's epochs
  // each time, so that there is nothing it could forget after an empty answer: KAFKA-15510.)
  bool reconcile_on_every_epoch = true;
  // Cutting the log cuts the epochs that begin at the cut, too. KAFKA-10706.
  bool truncate_empty_epochs = true;

  // ---- The follower.
  // A response counts only for the epoch and offset that the follower is at. S19; KAFKA-7786.
  bool discard_responses_of_other_fetches = true;
  // The high watermark a follower takes from its leader is cut to its own log's end. S20.
  bool bound_high_watermark_by_log_end = true;
  // What a fetch acknowledges is durable here. Zab's R1 for replicas.
  bool fetch_after_durable = true;

  // ---- The leader.
  // A new leader keeps its high watermark until its followers have acknowledged in its epoch.
  // Without it: hw = leo, which declares an unreplicated suffix committed. S12.
  bool keep_high_watermark_on_election = true;
  // The high watermark is the minimum over the maximal ISR: the durable one and, while a change is
  // in flight, the proposed one. S25; KIP-497.
  bool wait_for_maximal_isr = true;
  // ... and does not move while the ISR is smaller than min.insync.replicas. S24; KIP-966.
  bool freeze_high_watermark_below_min_isr = true;
  // A follower's log end counts only if it fetched there in this leader's epoch. S25; bug-zoo 8.
  bool forget_followers_on_election = true;
  // A follower joins the ISR only at or above the high watermark and this epoch's start. S25;
  // KAFKA-7128.
  bool join_isr_at_epoch_start = true;
  // A fetch whose answer says where histories part acknowledges nothing. KAFKA-13141.
  bool diverging_fetch_acknowledges_nothing = true;
  // A fetch that was sent before the follower was added to the partition again acknowledges
  // nothing: the log it speaks of has been deleted. Bug-zoo 8, KIP-570.
  bool refuse_fetches_of_former_assignments = true;
  // Fetches and ISR changes name the follower's incarnation, which must be the registered one. S5;
  // KIP-380, KIP-903.
  bool fence_followers_by_incarnation = true;
  // Acknowledgements are bound to the leader epoch they were appended in; a leader that resigns
  // fails what waits. S22; KAFKA-20634.
  bool bind_acks_to_leader_epoch = true;
  // A leader's own records count when they are durable at the leader.
  bool leader_counts_durable_only = true;
  // A leader that may have lost its session stops acknowledging before the ensemble can have
  // expired it. S3, S23.
  bool stop_acknowledging_before_session_expires = true;
  // A producer of whom the partition knows nothing begins with sequence 0, unless it may have been
  // forgotten, and in no case behind what was refused. (The front end's; Kafka has it only for
  // transactions, KIP-890.)
  bool begin_unknown_producers_at_zero = true;

  // ---- The coordination service.
  // Every write of a partition's state names the version it was computed from. S6, S14, S23.
  bool compare_versions = true;
  // ... and the id of the topic: a topic that is deleted and made again has the same versions
  // again. KIP-516.
  bool compare_topic_ids = true;
  // An ISR change whose outcome is unknown keeps both sets until it is known. KIP-497.
  bool keep_both_isrs_while_unknown = true;
  // Every leader incarnation has an epoch of its own, also the same broker after a restart. S8;
  // KAFKA-10527.
  bool new_epoch_for_every_leader = true;
  // Only a member of the ISR is elected (unless unclean.leader.election.enable). S7.
  bool elect_from_isr_only = true;
  // ... and only if its log is that of the incarnation that is in the ISR: a broker that lost data
  // leaves the ISR before it serves. S5; KIP-966.
  bool elect_retained_incarnation_only = true;
  // AR, ISR and the end of a reassignment change in one write. S35; KAFKA-9672.
  bool complete_reassignment_atomically = true;
  // A replica is closed, and its data deleted, only after the assignment without it is durable.
  // S34.
  bool switch_assignment_before_closing = true;
  // A damaged log is deleted only after the ISR without this replica is durable, and no fetch of
  // before can bring it back.
  bool leave_isr_before_giving_up = true;
  // start- and close-replica name the topic's id and the leader epoch. S28, S33; KIP-516, KIP-570.
  bool fence_state_changes = true;
  // A queue that a shrink made room in takes the request. S28.
  bool recheck_queue_after_shrink = true;
};

struct RuleEntry {
  const char* name;
  bool Rules::* member;
  const char* says;  // what goes wrong without it, and the historic fault
};
const std::vector<RuleEntry>& AllRules();

}  // namespace lockstep::replication
