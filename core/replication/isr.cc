#include "core/replication/isr.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/check.h"

namespace lockstep::replication {

void Isr::Reset(std::vector<IsrMember> members, int32_t version) {
  LS_CHECK(std::is_sorted(members.begin(), members.end()));
  committed_ = std::move(members);
  version_ = version;
  proposed_.reset();
  under_way_ = false;
  unknown_ = false;
  refused_ = false;
  not_before_ = Instant{};
  Recount();
}

void Isr::Learn(const std::vector<IsrMember>& members, int32_t version) {
  if (version >= version_) refused_ = false;
  if (version <= version_) return;
  LS_CHECK(std::is_sorted(members.begin(), members.end()));
  committed_ = members;
  version_ = version;
  // It was asked for from an older version: it was applied and is part of this one, or never will
  // be.
  proposed_.reset();
  unknown_ = false;
  Recount();
}

bool Isr::may_change(Instant now) const { return now >= change_at(); }

void Isr::Propose(std::vector<IsrMember> members) {
  LS_CHECK(!under_way_ && !proposed_);
  LS_CHECK(!members.empty());
  proposed_ = std::move(members);
  under_way_ = true;
  Recount();
}

bool Isr::OnOutcome(Instant now, Partition::Outcome outcome, int32_t version) {
  if (!under_way_) return false;
  under_way_ = false;
  if (!proposed_) return true;  // Learn has been faster
  switch (outcome) {
    case Partition::Outcome::kApplied:
      LS_CHECK_GT(version, version_);
      committed_ = std::move(*proposed_);
      version_ = version;
      proposed_.reset();
      unknown_ = false;
      break;
    case Partition::Outcome::kRefused:
      not_before_ = now + kRetryAfter;
      // This try has not happened; an earlier one may have, and may be why.
      if (unknown_) break;
      proposed_.reset();
      refused_ = true;
      break;
    case Partition::Outcome::kUnknown:
      not_before_ = now + kRetryAfter;
      if (rules_.keep_both_isrs_while_unknown) {
        unknown_ = true;
      } else {
        proposed_.reset();
      }
      break;
  }
  Recount();
  return true;
}

const std::vector<IsrMember>* Isr::TakeRetry(Instant now) {
  if (!unknown_ || under_way_ || now < not_before_) return nullptr;
  under_way_ = true;
  return &*proposed_;
}

Instant Isr::change_at() const {
  return under_way_ || proposed_ || refused_ ? Instant::Never() : not_before_;
}

std::vector<IsrMember> Isr::maximal() const {
  std::vector<IsrMember> all = committed_;
  if (proposed_) {
    all.clear();
    std::set_union(committed_.begin(), committed_.end(), proposed_->begin(), proposed_->end(),
                   std::back_inserter(all));
  }
  return all;
}

size_t Isr::smallest_size() const {
  return proposed_ ? std::min(committed_.size(), proposed_->size()) : committed_.size();
}

void Isr::Recount() {
  counted_.clear();
  // Without the rule a change takes effect when it is wanted, as in the seed (p.ISR.delete(r);
  // write p.ISR to ZK).
  const bool at_once = proposed_ && !rules_.wait_for_maximal_isr;
  for (const IsrMember& member : at_once ? *proposed_ : maximal()) {
    if (counted_.empty() || counted_.back() != member.broker) counted_.push_back(member.broker);
  }
}

}  // namespace lockstep::replication
