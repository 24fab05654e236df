#include "sim/checkers/invariants.h"

namespace lockstep::sim {

const std::vector<InvariantInfo>& AllInvariants() {
  static const std::vector<InvariantInfo> all = {
      {"machine-check", "no LS_CHECK inside a server fails"},
      {"stops-only-on-disk-errors", "a server gives up only when its disk reported an error"},
      {"agreement", "all servers apply the same transactions in the same order, without gaps"},
      {"state-digest", "servers that have applied the same transactions have the same state"},
      {"no-false-alarm", "servers say that their states differ only if they do"},
      {"applied-is-committed",
       "the state a server starts from, or takes from its leader, is one that was committed"},
      {"commit-needs-a-quorum",
       "what is applied anywhere is in the durable history of a quorum at that moment"},
      {"zxid-names-one-transaction", "a zxid is never used for two different transactions"},
      {"no-gap-in-history",
       "in a history, a transaction follows the one before it in its epoch, or is the first of "
       "one"},
      {"committed-never-truncated", "no server removes a committed transaction from its history"},
      {"durable-never-lost", "a server finds after a crash all that it said was durable"},
      {"recovered-was-proposed", "what a server finds after a crash was once proposed"},
      {"one-leader-per-epoch", "an epoch is established by one leader, once"},
      {"leader-completeness",
       "a leader that becomes established has all that is committed; so has every later leader "
       "when "
       "something of an earlier epoch turns out to be committed"},
      {"process-consistency",
       "when a follower acknowledges NEWLEADER, its history is a prefix of its leader's"},
      {"epochs-monotone",
       "accepted and current epoch never go back, also over crashes; current <= accepted"},
      {"progress-monotone", "committed and delivered never go back while a server runs"},
      {"delivered-is-durable", "delivered <= committed, delivered <= durable, durable <= last"},
      {"transaction-fits-state",
       "versions, child counts, parents and sessions of a transaction fit the state before it"},
      {"ephemerals-live-with-their-session",
       "closing a session deletes exactly its ephemeral nodes, and none is created afterwards"},
      {"write-happens-once", "a client's request becomes at most one transaction"},
      {"writes-in-order",
       "a session's requests take effect in the order in which it sent them, over all its "
       "connections"},
      {"expiry-takes-its-time",
       "a leader expires a session only when it has led for longer than the session's timeout"},
      {"writes-linearizable",
       "an acknowledged write took effect between its request and its reply, at the zxid of the "
       "reply"},
      {"multi-all-or-nothing",
       "all operations of a multi take effect at the zxid of its reply, each as it was asked for; "
       "or "
       "none, and the one that is named fails after those before it"},
      {"replies-in-order", "a session's replies come in the order of its requests"},
      {"session-never-goes-back", "the zxids that a session sees never decrease"},
      {"reads-a-committed-state",
       "a read returns what the committed transactions up to its zxid made, exactly"},
      {"error-fits-state", "a refusal is true of the state at its zxid"},
      {"event-before-reply",
       "a watch event comes before any reply of the session that could show the change"},
      {"event-is-true", "a watch event tells a change that happened after the watch was set, once"},
      {"events-in-order",
       "a persistent watch tells every change that it covers, once and in the order of the "
       "changes"},
      {"session-ends-once",
       "a client is told that its session is gone only after that is committed"},
      {"client-bytes", "what a server sends to a client can be decoded"},
      {"liveness-leader", "after faults stop, a leader is established within the bound"},
      {"liveness-write", "after faults stop, every client gets a write through within the bound"},
      {"liveness-converge", "after faults stop, all healthy servers reach the same state"},
      {"liveness-expiry", "after faults stop, sessions of vanished clients expire"},
  };
  return all;
}

}  // namespace lockstep::sim
