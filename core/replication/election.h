// The seed's leaderElection, its decisions: who may become leader of a partition, how long it waits
// for better ones, and the ISR it takes over. docs/replication.md, "Election".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/replication/ids.h"
#include "core/replication/partition.h"
#include "core/replication/rules.h"

namespace lockstep::replication {

struct Candidate {
  BrokerId broker;
  BrokerEpoch incarnation;           // the one that is registered
  std::vector<BrokerEpoch> lineage;  // whose acknowledged data it holds; see LineageRecord
};

struct ElectionPlan {
  // How many others come before: that many times the preferred replica's time is waited, and then
  // everything is looked at anew (S6, S10).
  uint32_t rank = 0;
  bool unclean = false;        // acknowledged records may be lost
  std::vector<IsrMember> isr;  // to be written with the new epoch; ascending
};

// What `self` is to do about a partition that has no leader; nothing: it is no candidate.
//   registered: the incarnation of a live broker, {0} for others.
//   unclean_allowed: if no member of the ISR can lead, another replica may.
//   min_insync_replicas: dead members leave the ISR in the election, so that the new leader need
//     not wait for them; but not below this, where nothing could be acknowledged anyway and where
//     they may still be needed as leaders (what KIP-966's ELR is for).
std::optional<ElectionPlan> PlanElection(const PartitionState& state, const Candidate& self,
                                         const std::function<BrokerEpoch(BrokerId)>& registered,
                                         bool unclean_allowed, uint32_t min_insync_replicas,
                                         const Rules& rules);

// Whether `member` is `candidate` with all its data.
bool Retains(const Candidate& candidate, const IsrMember& member);

}  // namespace lockstep::replication
