// The in-sync replicas of a partition as its leader keeps them: what is durable in the coordination
// service, and what the leader has asked it to change. KIP-497.
//
// Whoever may be elected must have every committed record. While a change is under way, or its
// outcome is unknown, both sets may be the durable one: then the high watermark waits for the
// members of both, the maximal ISR.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/time.h"
#include "core/replication/ids.h"
#include "core/replication/partition.h"
#include "core/replication/rules.h"

namespace lockstep::replication {

class Isr {
 public:
  // After a refusal, and while an outcome is unknown: so long until the next try.
  static constexpr Duration kRetryAfter = Milliseconds(500);

  explicit Isr(const Rules& rules) : rules_(rules) {}

  // A leadership begins with what is durable.
  void Reset(std::vector<IsrMember> members, int32_t version);

  // ---- What the coordination service has.
  // Older versions and the known one change nothing; but after a refusal, changes are possible
  // again, since what they start from has been read again.
  void Learn(const std::vector<IsrMember>& members, int32_t version);
  const std::vector<IsrMember>& committed() const { return committed_; }
  int32_t version() const { return version_; }

  // ---- The one change.
  // When a change may be asked for, as far as time decides it; Never while one is under way, or
  // after a refusal until Learn.
  Instant change_at() const;
  bool may_change(Instant now) const { return now >= change_at(); }
  // `members` is what the leader wants. Requires: may_change(), not empty.
  void Propose(std::vector<IsrMember> members);
  // The outcome of what was asked last. False: nothing is under way.
  bool OnOutcome(Instant now, Partition::Outcome outcome, int32_t version);
  // Changes with unknown outcomes may still be applied, now or later. Any change that is applied
  // from the same version, be it to the set there is, settles that none of them will be.
  bool unsettled() const { return !under_way_ && !possible_.empty(); }
  // Nothing useful can be asked for before a while.
  void Postpone(Instant now) { not_before_ = now + kRetryAfter; }

  // ---- What counts.
  // Everyone who may be in the ISR: ascending, one entry per incarnation.
  std::vector<IsrMember> maximal() const;
  // The brokers whose acknowledgements the high watermark waits for: ascending, each once.
  const std::vector<BrokerId>& counted() const { return counted_; }
  // How many members the smallest set has that may be the durable one. The minimum ISR is compared
  // with this one: a record that is committed is on so many replicas that can be elected.
  size_t smallest_size() const;

 private:
  void Recount();

  const Rules& rules_;
  std::vector<IsrMember> committed_;  // ascending
  int32_t version_ = 0;
  // What may be applied on top of version_, now or later: those whose outcome is unknown, and last,
  // while it is under way, the current one.
  std::vector<std::vector<IsrMember>> possible_;
  bool under_way_ = false;
  bool refused_ = false;  // nothing is tried before Learn
  Instant not_before_;    // nor before then
  std::vector<BrokerId> counted_;
};

}  // namespace lockstep::replication
