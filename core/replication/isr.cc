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
  possible_.clear();
  under_way_ = false;
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
  // What was asked for from an older version was applied and is part of this one, or never will be.
  possible_.clear();
  Recount();
}

Instant Isr::change_at() const { return under_way_ || refused_ ? Instant::Never() : not_before_; }

void Isr::Propose(std::vector<IsrMember> members) {
  LS_CHECK(!under_way_);
  LS_CHECK(!members.empty());
  possible_.push_back(std::move(members));
  under_way_ = true;
  Recount();
}

bool Isr::OnOutcome(Instant now, Partition::Outcome outcome, int32_t version) {
  if (!under_way_) return false;
  under_way_ = false;
  if (outcome != Partition::Outcome::kApplied) not_before_ = now + kRetryAfter;
  refused_ = outcome == Partition::Outcome::kRefused;
  if (possible_.empty()) {  // Learn has been faster, and knows what a refusal asks to be read
    refused_ = false;
    return true;
  }
  std::vector<IsrMember> members = std::move(possible_.back());
  possible_.pop_back();
  if (outcome == Partition::Outcome::kApplied) {
    LS_CHECK_GT(version, version_);
    committed_ = std::move(members);
    version_ = version;
    possible_.clear();
  } else if (outcome == Partition::Outcome::kUnknown && rules_.keep_both_isrs_while_unknown) {
    if (std::find(possible_.begin(), possible_.end(), members) == possible_.end()) {
      possible_.push_back(std::move(members));
    }
  }
  Recount();
  return true;
}

std::vector<IsrMember> Isr::maximal() const {
  std::vector<IsrMember> all = committed_;
  for (const auto& members : possible_) {
    std::vector<IsrMember> both;
    std::set_union(all.begin(), all.end(), members.begin(), members.end(),
                   std::back_inserter(both));
    all = std::move(both);
  }
  return all;
}

size_t Isr::smallest_size() const {
  size_t smallest = committed_.size();
  for (const auto& members : possible_) smallest = std::min(smallest, members.size());
  return smallest;
}

void Isr::Recount() {
  counted_.clear();
  // Without the rule a change takes effect when it is wanted, as in the seed (p.ISR.delete(r);
  // write p.ISR to ZK).
  const bool at_once = !possible_.empty() && !rules_.wait_for_maximal_isr;
  for (const IsrMember& member : at_once ? possible_.back() : maximal()) {
    if (counted_.empty() || counted_.back() != member.broker) counted_.push_back(member.broker);
  }
}

}  // namespace lockstep::replication
