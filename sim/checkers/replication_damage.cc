// What of a server's logs may be damaged: what somebody else has. (sim/world_disks.cc)
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "sim/checkers/replication.h"

namespace lockstep::sim {

using replication::IsrMember;
using replication::PartitionId;

std::vector<Replication::LogMark> Replication::SharedLogs(
    uint32_t server, const std::function<bool(uint32_t)>& healthy, bool* all) const {
  std::vector<LogMark> shared;
  *all = true;
  for (const auto& [number, id] : state_[server].logs) {
    const PartitionGhost& p = ghosts_.at(id);
    const auto own = p.replicas.find(server);
    const bool there = own != p.replicas.end() && own->second.present && !own->second.log.unknown();
    const auto holds = [&](const IsrMember& member) {
      const auto other = ServerOf(member.broker);
      if (!other || *other == server || !Intact(member) || !healthy(*other)) return false;
      const auto registered = brokers_.find(member.broker);
      if (registered == brokers_.end() || registered->second != member.incarnation) return false;
      const auto replica = p.replicas.find(*other);
      return Holds(p, *other) && replica != p.replicas.end() &&
             replica->second.log.durable_end() >= own->second.log.end();
    };
    if (there && !p.ghost.may_have_lost && p.isr &&
        std::any_of(p.isr->isr.begin(), p.isr->isr.end(), holds)) {
      shared.push_back(
          {id, number, absl::StrCat(p.topic, "-", id.partition), own->second.log.end()});
    } else {
      *all = false;
    }
  }
  return shared;
}

Replication::MarkState Replication::StateOf(uint32_t server, const LogMark& mark,
                                            const std::function<bool(uint32_t)>& comes_back) const {
  const auto p = ghosts_.find(mark.partition);
  if (p == ghosts_.end()) return MarkState::kGone;
  const auto own = p->second.replicas.find(server);
  if (own == p->second.replicas.end() || own->second.number != mark.number) {
    return MarkState::kGone;
  }
  const int64_t end = std::min(mark.end, own->second.log.end());
  for (const auto& [other, replica] : p->second.replicas) {
    if (other == server || !comes_back(other) || !replica.present) continue;
    if (!replica.log.unknown() && replica.log.durable_end() >= end) return MarkState::kHeld;
  }
  return MarkState::kAlone;
}

bool Replication::IsAlone(uint32_t server, const LogMark& mark) const {
  const auto p = ghosts_.find(mark.partition);
  if (p == ghosts_.end() || !p->second.isr || p->second.isr->isr.size() != 1) return false;
  return ServerOf(p->second.isr->isr.front().broker) == server;
}

void Replication::OnProducersForgotten(uint32_t server, storage::LogNumber log) {
  const auto id = state_[server].logs.find(log);
  if (id != state_[server].logs.end()) ghosts_[id->second].ghost.producers_forgotten = true;
}

}  // namespace lockstep::sim
