// The budget of damage to disks: what of it the ensemble bears, whatever comes next.
//
// Damage that recovery sees stops a server, and it comes back with an empty disk: it is not counted
// until it knows what it may have promised, and a quorum must do without it.
// Damage that it cannot see makes a server forget the last of what it has promised and acknowledged
// (docs/disk.md, "What cannot be told apart"). No quorum protocol bears that by itself: the server
// may have been the one that a commit, or the promise of an epoch, relied on. So it happens only
// while nothing relies on this server; else the disk has kept its word after all.
#include "absl/strings/str_cat.h"
#include "sim/failure.h"
#include "sim/world.h"

namespace lockstep::sim {

// Whether it is counted whatever comes next: its disk is in order, and it need not learn first what
// it may have promised.
bool World::Remembers(uint32_t server) const {
  const Host& host = hosts_[server];
  if (host.off_for_good || host.disk.damaged() || !host.voted) return false;
  const zab::Peer* peer = up(server) ? host.machine->peer() : nullptr;
  // Without a history it takes part in beginning a new one.
  return (peer != nullptr ? peer->durable_zxid() : host.told.second) > Zxid{};
}

uint32_t World::HowManyRemember() const {
  uint32_t count = 0;
  for (uint32_t s = 0; s < plan_.voters(); ++s) count += Remembers(s) ? 1 : 0;
  return count;
}

bool World::MayDamage(uint32_t server) const {
  if (server >= plan_.voters() || !up(server)) return false;
  if (hosts_[server].machine->peer() == nullptr) return false;
  if (!plan_.budget) return true;
  return HowManyRemember() - (Remembers(server) ? 1 : 0) > plan_.voters() / 2;
}

bool World::MayLoseDisk(uint32_t server) const {
  for (uint32_t s = 0; s < plan_.older; ++s) {
    // Of the release that counts everybody.
    if (hosts_[s].incarnation <= 1) return false;
  }
  return HowManyRemember() - (Remembers(server) ? 1 : 0) > plan_.voters() / 2;
}

void World::LoseDisk(uint32_t server) {
  Stop(server, StopKind::kPowerLoss);
  Host& host = hosts_[server];
  host.disk.Replace();
  host.told = {};
  host.voted = false;
  histories_.OnMayForget(server + 1);
  probes_->Hit(Probe::kDiskLost);
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

void World::OnFatal(uint32_t server, const std::string& why) {
  if (trace_->on()) trace_->Line(ServerName(server), "stops", why);
  Host& host = hosts_[server];
  if (host.disk.damaged() && !host.recovered) {
    // It has found the damage. An operator gives it another disk.
    probes_->Hit(Probe::kDamageFound);
    if (MayLoseDisk(server)) return LoseDisk(server);
    // Or has none to give, without a budget.
    host.off_for_good = true;
    return Stop(server, StopKind::kPowerLoss);
  }
  if (!host.disk.reported_error()) {
    Fail("stops-only-on-disk-errors",
         absl::StrCat("server ", server + 1, " stops though its disk is in order: ", why));
  }
  probes_->Hit(Probe::kStoppedOnDiskError);
  // What a failed write left in the page cache must not be believed: the machine is restarted.
  Stop(server, StopKind::kPowerLoss);
}

}  // namespace lockstep::sim
