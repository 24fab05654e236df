#include "core/zab/invariants.h"

#include "core/base/check.h"

namespace lockstep::zab {

void CheckState(const OwnState& own) {
  // Z1. A server never acknowledged an initial history of an epoch that it has not promised.
  LS_CHECK_LE(own.current_epoch, own.accepted_epoch);
  // Z2. No transaction is of an epoch that the server has not promised.
  LS_CHECK_LE(own.history.last().epoch, own.accepted_epoch);
  // Z3. What is forgotten was delivered; what is delivered is in the history. While a received
  // snapshot is being written, the state is still the old one.
  if (!own.install) {
    LS_CHECK_LE(own.history.base(), own.delivered);
    LS_CHECK_LE(own.delivered, own.history.last());
    LS_CHECK_LE(own.history.durable(), own.history.last());
  }
  // Z4. What is delivered is committed, and durable here.
  LS_CHECK_LE(own.delivered, own.committed);
  if (own.options.rules.apply_after_locally_durable && !own.install) {
    LS_CHECK_LE(own.delivered, own.history.durable());
  }
  // Z5. Nothing is durable that was not written.
  LS_CHECK_LE(own.last_persisted, own.last_write);
}

void CheckStep(const Watched& before, const OwnState& own) {
  // Z6. Promises, commits, deliveries and writes never go back.
  LS_CHECK_LE(before.accepted_epoch, own.accepted_epoch);
  LS_CHECK_LE(before.current_epoch, own.current_epoch);
  LS_CHECK_LE(before.committed, own.committed);
  LS_CHECK_LE(before.delivered, own.delivered);
  LS_CHECK_LE(before.last_write, own.last_write);
  LS_CHECK_LE(before.last_persisted, own.last_persisted);
}

}  // namespace lockstep::zab
