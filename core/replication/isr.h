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
  bool may_change(Instant now) const;
  // `members` is what the leader wants. Requires: may_change(), not empty.
  void Propose(std::vector<IsrMember> members);
  // The outcome of what was asked last. False: nothing is under way, the outcome is of a change
  // that a newer version has overtaken.
  bool OnOutcome(Instant now, Partition::Outcome outcome, int32_t version);
  // The change whose outcome is unknown, if it is time to ask for it again: from the same version,
  // so that it cannot take effect twice.
  const std::vector<IsrMember>* TakeRetry(Instant now);
  // When TakeRetry() and may_change() will say yes, as far as time decides it; Never if it does
  // not.
  Instant retry_at() const { return unknown_ && !under_way_ ? not_before_ : Instant::Never(); }
  Instant change_at() const;
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
  // What may be applied, now or later, on top of version_.
  std::optional<std::vector<IsrMember>> proposed_;
  bool under_way_ = false;  // an outcome will come
  bool unknown_ = false;    // an earlier try's outcome was unknown: no refusal settles it
  bool refused_ = false;    // nothing is tried before Learn
  Instant not_before_;      // no change, or retry, before then
  std::vector<BrokerId> counted_;
};

}  // namespace lockstep::replication
