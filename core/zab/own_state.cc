#include "core/zab/own_state.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace lockstep::zab {

OwnState::OwnState(const PeerOptions& peer_options, DurableState durable)
    : options(peer_options),
      voters(peer_options.voters),
      accepted_epoch(durable.accepted_epoch),
      current_epoch(durable.current_epoch),
      history(durable.base, std::move(durable.transactions)),
      // A snapshot holds only what was committed.
      committed(durable.snapshot),
      delivered(durable.snapshot) {
  LS_CHECK(voters.Contains(options.server));
  LS_CHECK_LE(current_epoch, accepted_epoch);
  LS_CHECK_LE(history.base(), delivered);
  LS_CHECK_LE(delivered, history.last());
}

WriteId OwnState::Write(decltype(Persist::write) write, Output* output) {
  last_write.value++;
  output->persists.push_back({last_write, std::move(write)});
  return last_write;
}

void OwnState::OnPersisted(WriteId id, Output* output) {
  LS_CHECK_LE(id, last_write);
  if (id <= last_persisted) return;
  last_persisted = id;
  history.OnPersisted(id);
  if (install && install->id <= id) {
    delivered = install->zxid;
    Commit(install->zxid);
    output->deliveries.push_back(RestoreSnapshot{install->zxid});
    install.reset();
  }
}

void OwnState::Append(Transaction transaction, Output* output) {
  WriteId id = Write(AppendTransaction{transaction}, output);
  history.Append(std::move(transaction), id);
}

void OwnState::Truncate(Zxid to, Output* output) {
  // The leader lacks what was committed, or we were told a wrong commit: a committed transaction is
  // lost, and nothing that either of us does next can be trusted.
  LS_CHECK_GE(to, committed);
  WriteId id = Write(TruncateHistory{to}, output);
  history.Truncate(to, id);
  Note(output, {.kind = EventKind::kTruncated, .zxid = to});
}

void OwnState::InstallSnapshot(Zxid zxid, Output* output) {
  LS_CHECK_GE(zxid, committed);  // as in Truncate
  WriteId id = Write(zab::InstallSnapshot{zxid}, output);
  history.Reset(zxid, id);
  install = Install{id, zxid};
}

void OwnState::Commit(Zxid zxid) {
  if (zxid > committed) committed = zxid;
}

void OwnState::DeliverCommitted(Output* output) {
  if (install) return;
  Zxid limit = committed;
  // Applied, a transaction shows in replies, snapshots and votes; if a crash could still take it
  // from our disk, we would come back without something that clients have seen from us.
  if (options.rules.apply_after_locally_durable) limit = std::min(limit, history.durable());
  if (delivered >= limit) return;
  const auto& window = history.window();
  for (size_t i = history.IndexAfter(delivered); i < window.size() && window[i].zxid <= limit;
       i++) {
    delivered = window[i].zxid;
    output->deliveries.push_back(Deliver{window[i]});
  }
}

}  // namespace lockstep::zab
