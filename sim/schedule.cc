#include "sim/schedule.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/check.h"

namespace lockstep::sim {

bool Schedule::Absent(uint32_t client) const {
  return std::find(absent.begin(), absent.end(), client) != absent.end();
}

uint32_t ClientsOf(const Plan& plan) {
  return plan.workload.clients + KafkaClientsOf(plan.brokers);
}

std::string ClientName(const Plan& plan, uint32_t client) {
  if (client < plan.workload.clients) return absl::StrCat("c", client);
  uint32_t at = client - plan.workload.clients;
  if (at == 0) return "admin";
  at -= 1;
  const auto producers = static_cast<uint32_t>(plan.brokers.producers.size());
  if (at < producers) return absl::StrCat("p", at);
  at -= producers;
  if (at < plan.brokers.consumers) return absl::StrCat("r", at);
  return absl::StrCat("g", at - plan.brokers.consumers);
}

std::optional<uint32_t> ClientNamed(const Plan& plan, std::string_view name) {
  // There are few, and files are read once.
  for (uint32_t client = 0; client < ClientsOf(plan); ++client) {
    if (ClientName(plan, client) == name) return client;
  }
  return std::nullopt;
}

Script::Script(const Schedule* schedule)
    : schedule_(schedule),
      actors_(1 + ClientsOf(schedule->plan)),
      taken_(schedule->decisions.size()),
      late_(schedule->decisions.size()) {
  for (size_t i = 0; i < schedule->decisions.size(); ++i) {
    const Decision& decision = schedule->decisions[i];
    const uint32_t actor = decision.is_fault() ? kFaults : 1 + decision.client;
    LS_CHECK_LT(actor, actors_.size());
    actors_[actor].decisions.push_back(i);
  }
}

const Decision* Script::Next(uint32_t actor) const {
  const Actor& of = actors_[actor];
  if (of.next == of.decisions.size()) return nullptr;
  return &schedule_->decisions[of.decisions[of.next]];
}

Instant Script::NextAt(uint32_t actor) const {
  const Decision* next = Next(actor);
  return next == nullptr ? Instant::Never() : next->at;
}

void Script::Take(uint32_t actor, Instant now) {
  Actor& of = actors_[actor];
  const size_t number = of.decisions[of.next++];
  taken_[number] = true;
  late_[number] = now - schedule_->decisions[number].at;
}

void Script::Miss(uint32_t actor) { ++actors_[actor].next; }

size_t Script::Record(Decision decision) {
  recorded_.push_back(std::move(decision));
  return recorded_.size() - 1;
}

std::vector<size_t> Script::Unmatched() const {
  std::vector<size_t> numbers;
  for (size_t i = 0; i < taken_.size(); ++i) {
    if (!taken_[i]) numbers.push_back(i);
  }
  return numbers;
}

std::vector<std::pair<size_t, Duration>> Script::Late() const {
  std::vector<std::pair<size_t, Duration>> late;
  for (size_t i = 0; i < late_.size(); ++i) {
    if (late_[i] > Duration{}) late.push_back({i, late_[i]});
  }
  return late;
}

}  // namespace lockstep::sim
