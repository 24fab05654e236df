// What each server has in its history and says is durable, as seen from outside, and what Zab
// promises about it: reference/zab.md lists the properties by these names.
//
// A mirror of each history is kept up to date from the peer's accessors after every step; nearly
// all steps change nothing or append a few transactions, which makes the checks cheap.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "core/base/event.h"
#include "core/base/zxid.h"
#include "core/zab/peer.h"
#include "sim/checkers/committed_log.h"

namespace lockstep::sim {

class Histories {
 public:
  Histories(uint32_t servers, const CommittedLog* committed);

  // Recovery of `server` has ended: this is its peer.
  void OnRecovered(uint32_t server, const zab::Peer& peer);
  // After each step of a server that has recovered. What it applied is in the committed log
  // already.
  void OnStep(uint32_t server, const zab::Peer& peer, const std::vector<Event>& events);
  void OnStopped(uint32_t server);
  // It has stopped, and damage to its disk may make it forget what it told.
  void OnMayForget(uint32_t server);
  // `server` was the first to apply `entry`. After its OnStep.
  void OnCommitted(uint32_t server, const CommittedEntry& entry);

  // The epoch in which `server` is an established leader now; 0 if it is none.
  Epoch reign(uint32_t server) const { return views_[server].reign; }

 private:
  struct Entry {
    Zxid zxid;
    uint64_t checksum = 0;
  };
  struct View {
    const zab::Peer* peer = nullptr;  // null while down or recovering
    uint64_t incarnation = 0;
    // The mirror: everything up to `base` is as committed, then `entries`.
    Zxid base;
    std::vector<Entry> entries;
    // Of the last step.
    Zxid durable, committed, delivered;
    Epoch accepted, current;
    // What it has told others to be durable, over all incarnations.
    Epoch told_accepted, told_current;
    Epoch reign;

    Zxid last() const { return entries.empty() ? base : entries.back().zxid; }
  };

  void Mirror(uint32_t server, const zab::Peer& peer);
  void Append(uint32_t server, const zab::Transaction& transaction, bool recovering);
  void CheckRemoved(uint32_t server, size_t kept);
  void MoveBase(uint32_t server, const zab::Peer& peer);
  void CheckOrder(uint32_t server, const zab::Peer& peer);
  void CheckReign(uint32_t server, const zab::Peer& peer);
  void CheckComplete(uint32_t server);
  void CheckPrefixOfLeader(uint32_t server, const zab::Peer& peer);
  bool Contains(const View& view, Zxid zxid) const;

  const CommittedLog* committed_;
  std::vector<View> views_;
  // What those that have lost their memory had before. Acknowledgements of it may be on their way.
  std::vector<View> former_;
  absl::flat_hash_map<uint64_t, uint64_t> proposed_;  // packed zxid -> checksum; look-ups only
  struct Reign {
    uint32_t server = 0;
    uint64_t incarnation = 0;
  };
  absl::btree_map<Epoch, Reign> reigns_;
};

}  // namespace lockstep::sim
