// The budget of damage to disks: what of it the ensemble bears, whatever comes next.
//
// Damage that recovery sees stops a server, which is as if it had gone for good: a minority may.
// Damage that it cannot see makes a server forget the last of what it has promised and acknowledged
// (docs/disk.md, "What cannot be told apart"). No quorum protocol bears that by itself: the server
// may have been the one that a commit, or the promise of an epoch, relied on. So it happens only
// while nothing relies on this server; else the disk has kept its word after all.
#include "sim/world.h"

namespace lockstep::sim {

bool World::IsSick(uint32_t server) const {
  return hosts_[server].broken || hosts_[server].disk.damaged();
}

bool World::MayDamage(uint32_t server) const {
  if (server >= plan_.voters() || !up(server)) return false;
  if (hosts_[server].machine->peer() == nullptr) return false;
  uint32_t sick = 1;
  for (uint32_t s = 0; s < plan_.voters(); ++s) sick += s != server && IsSick(s) ? 1 : 0;
  return sick <= (plan_.voters() - 1) / 2;
}

// Whether everything that `server` has told anybody is so without it:
//   * a majority without it has promised its epoch, or a later one. No leader can come to be that
//     would need it to break its promise;
//   * that majority has its history, or a history that has overtaken it. Everything that it has
//     acknowledged, and that may be committed, has a quorum without it;
//   * nobody leads, or believes to, in an older epoch. Acknowledgements of then that are still
//   under
//     way to such a leader would be a quorum together with the one that it would give anew.
bool World::MayForget(uint32_t server) const {
  if (server >= plan_.voters()) return false;
  const zab::Peer* own = hosts_[server].machine->peer();
  // It has said nothing since its last end, at which this was judged.
  if (own == nullptr) return true;
  uint32_t keep_it = 0;
  for (uint32_t s = 0; s < plan_.voters(); ++s) {
    const zab::Peer* other = s != server && up(s) ? hosts_[s].machine->peer() : nullptr;
    if (other == nullptr) continue;
    const bool leads = other->state() == zab::ServerState::kLeading;
    if (leads && other->accepted_epoch() < own->accepted_epoch()) return false;
    const bool has_history = std::pair(other->current_epoch(), other->durable_zxid()) >=
                             std::pair(own->current_epoch(), own->last_zxid());
    keep_it += has_history && other->accepted_epoch() >= own->accepted_epoch() ? 1 : 0;
  }
  return keep_it > plan_.voters() / 2;
}

}  // namespace lockstep::sim
