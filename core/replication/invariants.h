// What must hold of one replica, always. Run at the end of every step; a violation stops the
// process. Numbers and sentences as in docs/invariants.md. What must hold between replicas is
// checked by the simulator and by tests/replication.
#pragma once

#include "core/replication/leader.h"
#include "core/replication/partition.h"
#include "core/replication/replica.h"

namespace lockstep::replication {

// Of any replica. Those that a rule guards are not checked where it is off: then others have to see
// it.
void CheckReplica(const Rules& rules, const Replica& replica);
// Of a leader, besides.
void CheckLeader(const Rules& rules, const PartitionState& state, const Replica& replica,
                 const Leader& leader);

}  // namespace lockstep::replication
