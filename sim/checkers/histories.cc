#include "sim/checkers/histories.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "core/base/check.h"
#include "sim/failure.h"
#include "sim/trace.h"

namespace lockstep::sim {

Histories::Histories(uint32_t servers, const CommittedLog* committed)
    : committed_(committed), views_(servers + 1), former_(servers + 1) {}

bool Histories::Contains(const View& view, Zxid zxid) const {
  if (zxid <= view.base) return committed_->Contains(zxid);
  auto it = std::lower_bound(view.entries.begin(), view.entries.end(), zxid,
                             [](const Entry& e, Zxid z) { return e.zxid < z; });
  return it != view.entries.end() && it->zxid == zxid;
}

void Histories::Append(uint32_t server, const zab::Transaction& transaction, bool recovering) {
  View& view = views_[server];
  const Zxid last = view.last();
  const Zxid zxid = transaction.zxid;
  const bool follows = zxid.epoch == last.epoch ? zxid.counter == last.counter + 1
                                                : zxid.epoch > last.epoch && zxid.counter == 1;
  if (!follows) {
    Fail("no-gap-in-history", absl::StrFormat("server %d has %s directly after %s", server,
                                              zxid.ToString(), last.ToString()));
  }
  const uint64_t checksum = Checksum(transaction.body.view());
  const auto [it, is_new] = proposed_.try_emplace(zxid.Packed(), checksum);
  if (is_new && recovering) {
    Fail("recovered-was-proposed",
         absl::StrFormat("server %d finds %s, which was never seen", server, zxid.ToString()));
  }
  if (!is_new && it->second != checksum) {
    Fail("zxid-names-one-transaction",
         absl::StrFormat("server %d has another transaction at %s than was seen before", server,
                         zxid.ToString()));
  }
  view.entries.push_back({zxid, checksum});
}

// All but the first `kept` entries are about to be removed from the mirror.
void Histories::CheckRemoved(uint32_t server, size_t kept) {
  const View& view = views_[server];
  for (size_t i = kept; i < view.entries.size(); ++i) {
    if (committed_->Contains(view.entries[i].zxid)) {
      Fail("committed-never-truncated",
           absl::StrFormat("server %d removes %s, which is committed, from its history", server,
                           view.entries[i].zxid.ToString()));
    }
  }
}

// The history now begins later: either what is forgotten was committed and applied long ago, or a
// snapshot of a committed state has replaced everything.
void Histories::MoveBase(uint32_t server, const zab::Peer& peer) {
  View& view = views_[server];
  const Zxid base = peer.base_zxid();
  if (!committed_->Contains(base)) {
    Fail("applied-is-committed", absl::StrFormat("server %d begins its history after %s, which is "
                                                 "not committed",
                                                 server, base.ToString()));
  }
  auto it = std::upper_bound(view.entries.begin(), view.entries.end(), base,
                             [](Zxid z, const Entry& e) { return z < e.zxid; });
  view.entries.erase(view.entries.begin(), it);
  view.base = base;
}

void Histories::Mirror(uint32_t server, const zab::Peer& peer) {
  View& view = views_[server];
  if (peer.base_zxid() != view.base) MoveBase(server, peer);
  if (peer.last_zxid() == view.last()) return;
  const std::deque<zab::Transaction>& window = peer.window();
  // Nearly always everything is kept and a few are appended: look from the end.
  size_t first_new = window.size();
  while (first_new > 0 && window[first_new - 1].zxid > view.last()) --first_new;
  const bool only_appended =
      first_new == 0 ? view.entries.empty() : window[first_new - 1].zxid == view.last();
  if (!only_appended) {
    size_t kept = 0;
    while (kept < window.size() && kept < view.entries.size() &&
           window[kept].zxid == view.entries[kept].zxid) {
      ++kept;
    }
    CheckRemoved(server, kept);
    view.entries.resize(kept);
    first_new = kept;
  }
  for (size_t i = first_new; i < window.size(); ++i) Append(server, window[i], false);
}

void Histories::OnRecovered(uint32_t server, const zab::Peer& peer) {
  View& view = views_[server];
  View found;
  std::swap(view, found);  // `found` is what it said before
  view.incarnation = found.incarnation + 1;
  view.told_accepted = found.told_accepted;
  view.told_current = found.told_current;
  view.base = peer.base_zxid();
  if (!committed_->Contains(view.base)) {
    Fail("applied-is-committed", absl::StrFormat("server %d recovers a history after %s, which is "
                                                 "not committed",
                                                 server, view.base.ToString()));
  }
  for (const zab::Transaction& transaction : peer.window()) Append(server, transaction, true);
  for (const Entry& entry : found.entries) {
    if (entry.zxid > found.durable) break;
    if (!Contains(view, entry.zxid)) {
      Fail("durable-never-lost",
           absl::StrFormat("server %d said that %s is durable, and finds up to "
                           "%s after its crash",
                           server, entry.zxid.ToString(), view.last().ToString()));
    }
  }
  if (found.durable >= found.base && view.last() < found.durable) {
    Fail("durable-never-lost",
         absl::StrFormat("server %d was durable up to %s, and finds up to %s after its crash",
                         server, found.durable.ToString(), view.last().ToString()));
  }
  if (peer.accepted_epoch() < view.told_accepted || peer.current_epoch() < view.told_current) {
    Fail("epochs-monotone",
         absl::StrFormat(
             "server %d finds epochs accepted %s, current %s after it had told others %s, "
             "%s",
             server, peer.accepted_epoch().ToString(), peer.current_epoch().ToString(),
             view.told_accepted.ToString(), view.told_current.ToString()));
  }
  view.peer = &peer;
  view.durable = peer.durable_zxid();
  view.accepted = peer.accepted_epoch();
  view.current = peer.current_epoch();
}

void Histories::OnMayForget(uint32_t server) {
  const uint64_t incarnation = views_[server].incarnation;
  View view = std::exchange(views_[server], {});
  if (view.durable != Zxid{}) former_[server] = std::move(view);
  views_[server].incarnation = incarnation;
}

void Histories::OnStopped(uint32_t server) {
  views_[server].peer = nullptr;
  views_[server].reign = {};
}

void Histories::OnStep(uint32_t server, const zab::Peer& peer, const std::vector<Event>& events) {
  View& view = views_[server];
  Mirror(server, peer);
  CheckOrder(server, peer);
  CheckReign(server, peer);
  for (const Event& event : events) {
    switch (event.kind) {
      case EventKind::kEpochAccepted:
      case EventKind::kEpochProposed:
        view.told_accepted = std::max(view.told_accepted, event.zxid.epoch);
        break;
      case EventKind::kNewLeaderAcked:
        view.told_current = std::max(view.told_current, event.zxid.epoch);
        CheckPrefixOfLeader(server, peer);
        break;
      default:
        break;
    }
  }
}

void Histories::CheckOrder(uint32_t server, const zab::Peer& peer) {
  View& view = views_[server];
  const Zxid durable = peer.durable_zxid();
  const Zxid committed = peer.committed_zxid();
  const Zxid delivered = peer.delivered_zxid();
  const Epoch accepted = peer.accepted_epoch();
  const Epoch current = peer.current_epoch();
  if (accepted < view.accepted || current < view.current || current > accepted) {
    Fail("epochs-monotone", absl::StrFormat("server %d: accepted %s -> %s, current %s -> %s",
                                            server, view.accepted.ToString(), accepted.ToString(),
                                            view.current.ToString(), current.ToString()));
  }
  if (committed < view.committed || delivered < view.delivered) {
    Fail("progress-monotone",
         absl::StrFormat("server %d: committed %s -> %s, delivered %s -> %s", server,
                         view.committed.ToString(), committed.ToString(), view.delivered.ToString(),
                         delivered.ToString()));
  }
  // While a snapshot from the leader is being installed, nothing of the new history is durable yet;
  // what was delivered of the old one stays delivered.
  const bool installing = durable < peer.base_zxid();
  if (delivered > committed || (delivered > durable && !installing) || durable > peer.last_zxid()) {
    Fail("delivered-is-durable",
         absl::StrFormat("server %d: delivered %s, committed %s, durable %s, last %s", server,
                         delivered.ToString(), committed.ToString(), durable.ToString(),
                         peer.last_zxid().ToString()));
  }
  view.durable = durable;
  view.committed = committed;
  view.delivered = delivered;
  view.accepted = accepted;
  view.current = current;
}

void Histories::CheckReign(uint32_t server, const zab::Peer& peer) {
  View& view = views_[server];
  const bool reigns = peer.state() == zab::ServerState::kLeading && peer.established();
  const Epoch epoch = reigns ? peer.current_epoch() : Epoch{};
  if (epoch == view.reign) return;
  view.reign = epoch;
  if (!reigns) return;
  const auto [it, is_new] = reigns_.try_emplace(epoch, Reign{server, view.incarnation});
  if (!is_new && (it->second.server != server || it->second.incarnation != view.incarnation)) {
    Fail("one-leader-per-epoch",
         absl::StrFormat("server %d becomes the leader of epoch %s, as server %d was", server,
                         epoch.ToString(), it->second.server));
  }
  CheckComplete(server);
}

void Histories::CheckComplete(uint32_t server) {
  const View& view = views_[server];
  // Of the epochs before its own: a leader that was paused may learn only now that a quorum had
  // acknowledged its NEWLEADER, when a later epoch has committed already. It commits nothing.
  for (int64_t i = committed_->FindFloor({view.reign, 0}); i >= 0; --i) {
    const Zxid zxid = committed_->at(i).zxid;
    if (zxid <= view.base) break;
    if (!Contains(view, zxid)) {
      Fail("leader-completeness",
           absl::StrFormat("server %d, leader of epoch %s, does not have %s, which is committed",
                           server, view.reign.ToString(), zxid.ToString()));
    }
  }
}

void Histories::CheckPrefixOfLeader(uint32_t server, const zab::Peer& peer) {
  const uint32_t leader = peer.leader().value;
  if (leader == 0 || leader == server || leader >= views_.size()) return;
  const View& follower_view = views_[server];
  const View& leader_view = views_[leader];
  // The leader may be gone, or in another reign, by the time that the follower is ready.
  if (leader_view.peer == nullptr || leader_view.peer->state() != zab::ServerState::kLeading ||
      leader_view.peer->current_epoch() != peer.current_epoch()) {
    return;
  }
  for (const Entry& entry : follower_view.entries) {
    if (!Contains(leader_view, entry.zxid)) {
      Fail("process-consistency",
           absl::StrFormat(
               "server %d acknowledges NEWLEADER of epoch %s with %s in its history, which "
               "its leader %d does not have",
               server, peer.current_epoch().ToString(), entry.zxid.ToString(), leader));
    }
  }
}

void Histories::OnCommitted(uint32_t server, const CommittedEntry& entry) {
  const size_t servers = views_.size() - 1;
  size_t durable = 0;
  for (size_t s = 1; s <= servers; ++s) {
    const View& view = views_[s];
    const View& former = former_[s];
    if ((view.durable >= entry.zxid && Contains(view, entry.zxid)) ||
        (former.durable >= entry.zxid && Contains(former, entry.zxid))) {
      ++durable;
    }
    if (view.reign > entry.zxid.epoch && !Contains(view, entry.zxid)) {
      Fail(
          "leader-completeness",
          absl::StrFormat("server %d applies %s, which is missing in the history of server %d, the "
                          "leader of epoch %s",
                          server, entry.zxid.ToString(), s, view.reign.ToString()));
    }
  }
  if (durable < servers / 2 + 1) {
    Fail("commit-needs-a-quorum",
         absl::StrFormat("server %d applies %s, which is durable on %d of %d servers", server,
                         entry.zxid.ToString(), durable, servers));
  }
  const auto it = proposed_.find(entry.zxid.Packed());
  if (it == proposed_.end() || it->second != entry.checksum) {
    Fail("zxid-names-one-transaction",
         absl::StrFormat("server %d applies another transaction at %s than was proposed", server,
                         entry.zxid.ToString()));
  }
}

}  // namespace lockstep::sim
