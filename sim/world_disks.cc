// The budget of damage to disks: what of it the ensemble bears, whatever comes next.
//
// Damage that recovery sees stops a server, and it comes back with an empty disk: it is not counted
// until it knows what it may have promised, and a quorum must do without it.
// Damage that it cannot see makes a server forget the last of what it has promised and acknowledged
// (docs/disk.md, "What cannot be told apart"). No quorum protocol bears that by itself: the server
// may have been the one that a commit, or the promise of an epoch, relied on. So it happens only
// while nothing relies on this server; else the disk has kept its word after all.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sim/failure.h"
#include "sim/world.h"

namespace lockstep::sim {

// Whether it is counted whatever comes next: its disk is in order, and it need not learn first what
// it may have promised.
bool World::Remembers(uint32_t server) const {
  const Host& host = hosts_[server];
  // What is wrong with logs of partitions is nothing to the ensemble.
  const bool damaged = plan_.brokers.on ? host.disk.journal_damaged() : host.disk.damaged();
  if (host.off_for_good || damaged || !host.voted) return false;
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
  if (plan_.brokers.on) {
    std::vector<Replication::LogMark> logs;
    const Disk::Bearable bearable = BearableOf(server, &logs);
    return up(server) && (bearable.journal || !bearable.logs.empty());
  }
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
  if (plan_.brokers.on) {
    std::vector<Replication::LogMark> logs;
    if (!BearableOf(server, &logs).journal) return false;
  }
  if (server >= plan_.voters()) return true;
  return HowManyRemember() - (Remembers(server) ? 1 : 0) > plan_.voters() / 2;
}

void World::LoseDisk(uint32_t server) {
  Stop(server, StopKind::kPowerLoss);
  Host& host = hosts_[server];
  host.disk.Replace();
  host.marks.clear();
  host.lost.clear();
  host.told = {};
  host.voted = false;
  if (server < plan_.voters()) histories_.OnMayForget(server + 1);
  if (plan_.brokers.on) replication_.OnDiskReplaced(server);
  probes_->Hit(Probe::kDiskLost);
}

// ---- Brokers -----------------------------------------------------------------------------------
//
// Of a partition's log, damage is found when it is read, and then the replica begins anew from
// another one. So one disk at a time is damaged, and only logs of which a healthy member of the ISR
// has everything; should that one go for good before the damage was found, the log is as it was
// after all. What the journal has of logs goes with it: a whole disk is lost only if all its logs
// are held by others. And no journal forgets its end unnoticed: a broker that is in the ISR would
// be elected for what it has forgotten (docs/disk.md, "What cannot be told apart").

bool World::OthersInOrder(uint32_t server) const {
  for (uint32_t s = 0; s < plan_.servers; ++s) {
    if (s != server && (hosts_[s].disk.damaged() || !hosts_[s].lost.empty())) return false;
  }
  return true;
}

bool World::AnyDamaged() const { return !OthersInOrder(plan_.servers); }

Disk::Bearable World::BearableOf(uint32_t server, std::vector<Replication::LogMark>* logs) const {
  Disk::Bearable bearable{.journal = false};
  if (plan_.brokers.durability != storage::Durability::kFsync || !OthersInOrder(server)) {
    return bearable;
  }
  bool all = false;
  *logs = replication_.SharedLogs(
      server, [this](uint32_t other) { return other < plan_.servers && up(other); }, &all);
  for (const Replication::LogMark& log : *logs) bearable.logs.push_back(log.directory);
  std::sort(bearable.logs.begin(), bearable.logs.end());
  const bool quorum = server >= plan_.voters() ||
                      HowManyRemember() - (Remembers(server) ? 1 : 0) > plan_.voters() / 2;
  bearable.journal = all && quorum;
  return bearable;
}

bool World::AllowDamage(uint32_t server) {
  if (!plan_.brokers.on) return MayDamage(server);
  if (!MayDamage(server)) {
    hosts_[server].disk.set_bearable({.journal = false});
    return false;
  }
  Host& host = hosts_[server];
  std::vector<Replication::LogMark> logs;
  host.disk.set_bearable(BearableOf(server, &logs));
  for (Replication::LogMark& log : logs) {
    std::erase_if(host.marks,
                  [&](const Replication::LogMark& mark) { return mark.number == log.number; });
    host.marks.push_back(std::move(log));
  }
  return true;
}

void World::KeepWord(uint32_t server, bool power_loss) {
  Host& host = hosts_[server];
  std::vector<Replication::LogMark> logs;
  host.disk.set_bearable(BearableOf(server, &logs));
  const std::vector<std::string> lied =
      power_loss ? host.disk.LiedLogs() : std::vector<std::string>();
  for (const Replication::LogMark& log : logs) {
    if (std::binary_search(lied.begin(), lied.end(), log.directory)) host.lost.push_back(log);
  }
  host.disk.KeepWord();
}

void World::RecheckMarks() {
  const auto comes_back = [this](uint32_t s) {
    return s < plan_.servers && !hosts_[s].off_for_good;
  };
  for (uint32_t s = 0; s < plan_.servers; ++s) {
    Host& host = hosts_[s];
    if (host.marks.empty() && host.lost.empty()) continue;
    using State = Replication::MarkState;
    std::erase_if(host.marks, [&](const Replication::LogMark& mark) {
      const State state = replication_.StateOf(s, mark, comes_back);
      if (state == State::kAlone) host.disk.RepairLog(mark.directory);
      return state != State::kHeld;
    });
    std::erase_if(host.lost, [&](const Replication::LogMark& mark) {
      return replication_.StateOf(s, mark, comes_back) == State::kGone;
    });
  }
}

// Whoever had the rest has fallen out of the ISR in the meantime, and cannot catch up through what
// is damaged: an operator restores the files from a copy (docs/disk.md, "Damaged logs").
void World::RestoreLogs() {
  for (uint32_t s = 0; s < plan_.servers; ++s) {
    for (const Replication::LogMark& mark : hosts_[s].marks) {
      if (replication_.IsAlone(s, mark)) hosts_[s].disk.RepairLog(mark.directory);
    }
  }
}

void World::OnBrokerFatal(uint32_t server, const std::string& why) {
  Host& host = hosts_[server];
  if (host.disk.journal_damaged() && !host.recovered) {
    probes_->Hit(Probe::kDamageFound);
    if (MayLoseDisk(server)) return LoseDisk(server);
    // Those who had what is on it have gone since.
    host.disk.RepairJournal();
  } else if (!host.disk.reported_error() && !host.disk.ever_damaged()) {
    Fail("stops-only-on-disk-errors",
         absl::StrCat("server ", server + 1, " stops though its disk is in order: ", why));
  }
  probes_->Hit(Probe::kStoppedOnDiskError);
  Stop(server, StopKind::kPowerLoss);
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
  if (plan_.brokers.on) return OnBrokerFatal(server, why);
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
