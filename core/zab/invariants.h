// What must hold of one peer, always. Run at the end of every step; a violation stops the process.
// Numbers and sentences as in docs/invariants.md. What must hold between peers is checked by the
// simulator (sim/checkers).
#pragma once

#include "core/base/zxid.h"
#include "core/zab/own_state.h"

namespace lockstep::zab {

// The parts of a peer that may only change in certain ways from one step to the next.
struct Watched {
  explicit Watched(const OwnState& own)
      : accepted_epoch(own.accepted_epoch),
        current_epoch(own.current_epoch),
        committed(own.committed),
        delivered(own.delivered),
        last_write(own.last_write),
        last_persisted(own.last_persisted) {}

  Epoch accepted_epoch;
  Epoch current_epoch;
  Zxid committed;
  Zxid delivered;
  WriteId last_write;
  WriteId last_persisted;
};

// Of one state.
void CheckState(const OwnState& own);
// Of two consecutive states.
void CheckStep(const Watched& before, const OwnState& own);

}  // namespace lockstep::zab
