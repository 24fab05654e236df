#include "sim/shrink.h"

#include <algorithm>
#include <utility>

#include "sim/run.h"

namespace lockstep::sim {
namespace {

// With other streams the same decisions meet other latencies. So many are tried where one run says
// little.
constexpr uint32_t kStreamsToBegin = 48;
constexpr uint32_t kStreamsToRetry = 3;

// Nothing is left of a decision that was about `server`; others are renumbered.
bool WithoutServer(FaultDecision* fault, uint32_t server) {
  for (std::optional<uint32_t>* one : {&fault->server, &fault->other}) {
    if (!one->has_value()) continue;
    if (**one == server) return false;
    if (**one > server) --**one;
  }
  std::erase(fault->side, server);
  for (uint32_t& node : fault->side) node -= node > server ? 1 : 0;
  const bool about_connections = !fault->connections.empty();
  std::erase_if(fault->connections, [&](const ConnectionName& name) {
    return name.from == server || name.to == server;
  });
  for (ConnectionName& name : fault->connections) {
    name.from -= name.from > server ? 1 : 0;
    name.to -= name.to > server ? 1 : 0;
  }
  return !about_connections || !fault->connections.empty();
}

bool WithoutServer(AdminStep* step, uint32_t server) {
  const bool about_servers = !step->servers.empty();
  std::erase(step->servers, server);
  for (uint32_t& one : step->servers) one -= one > server ? 1 : 0;
  return !about_servers || !step->servers.empty();
}

// Halves, and single ones, of the parts of a decision that has several.
template <typename T>
std::vector<std::vector<T>> Parts(const std::vector<T>& all) {
  std::vector<std::vector<T>> parts;
  if (all.size() < 2) return parts;
  const auto middle = all.begin() + static_cast<ptrdiff_t>(all.size() / 2);
  parts.push_back({all.begin(), middle});
  parts.push_back({middle, all.end()});
  for (size_t i = 0; i < all.size() && all.size() > 2; ++i) {
    parts.push_back(all);
    parts.back().erase(parts.back().begin() + static_cast<ptrdiff_t>(i));
  }
  return parts;
}

}  // namespace

std::optional<Schedule> WithoutServer(const Schedule& schedule, uint32_t server) {
  Schedule smaller = schedule;
  const uint32_t voters = schedule.plan.voters() - (server < schedule.plan.voters() ? 1 : 0);
  if (voters == 0) return std::nullopt;
  SetServers(&smaller.plan, schedule.plan.servers - 1, voters);
  for (TopicPlan& topic : smaller.plan.brokers.topics) {
    topic.replication_factor =
        std::min<int16_t>(topic.replication_factor, static_cast<int16_t>(smaller.plan.servers));
    topic.min_insync = std::min<int32_t>(topic.min_insync, topic.replication_factor);
  }
  std::erase_if(smaller.decisions, [&](Decision& decision) {
    if (auto* fault = std::get_if<FaultDecision>(&decision.what)) {
      return !WithoutServer(fault, server);
    }
    if (auto* step = std::get_if<AdminStep>(&decision.what)) return !WithoutServer(step, server);
    return false;
  });
  return smaller;
}

Schedule WithoutClient(const Schedule& schedule, uint32_t client) {
  Schedule smaller = schedule;
  smaller.absent.push_back(client);
  std::sort(smaller.absent.begin(), smaller.absent.end());
  std::erase_if(smaller.decisions, [&](const Decision& decision) {
    const auto* fault = std::get_if<FaultDecision>(&decision.what);
    return fault == nullptr ? decision.client == client : fault->client == client;
  });
  return smaller;
}

Verdict Judge(const Schedule& schedule, Instant until) {
  RunOptions options;
  options.schedule = &schedule;
  options.until = until;
  const RunResult result = RunSeed(options);
  Verdict verdict;
  if (result.failure) {
    verdict.invariant = result.failure->invariant;
    verdict.detail = result.failure->detail;
  }
  verdict.at = Instant{} + result.time;
  verdict.hash = result.hash;
  return verdict;
}

Shrinker::Shrinker(Schedule schedule, Options options)
    : schedule_(std::move(schedule)), options_(std::move(options)) {
  if (options_.first_failing) return;
  options_.first_failing = [](const std::vector<Schedule>& candidates, Instant until,
                              const std::string& invariant,
                              Verdict* verdict) -> std::optional<size_t> {
    for (size_t i = 0; i < candidates.size(); ++i) {
      *verdict = Judge(candidates[i], until);
      if (verdict->invariant == invariant) return i;
    }
    return std::nullopt;
  };
}

bool Shrinker::Stop() const {
  return runs_ >= options_.runs_max || (options_.stop && options_.stop());
}

// A run that has not failed long after the last one did will not. What fails only once the world
// has healed (liveness) is awaited to the end.
Instant Shrinker::Until() const {
  if (verdict_.invariant.starts_with("liveness")) return Instant::Never();
  return Instant{verdict_.at.ns + verdict_.at.ns / 2} + schedule_.plan.options.tick * 30;
}

bool Shrinker::Try(std::vector<Schedule> candidates, size_t* which) {
  for (size_t from = 0; from < candidates.size() && !Stop();) {
    const size_t count = std::min(options_.width, candidates.size() - from);
    const std::vector<Schedule> some(
        std::make_move_iterator(candidates.begin() + static_cast<ptrdiff_t>(from)),
        std::make_move_iterator(candidates.begin() + static_cast<ptrdiff_t>(from + count)));
    Verdict verdict;
    runs_ += count;
    if (const auto first = options_.first_failing(some, Until(), schedule_.fails, &verdict)) {
      *which = from + *first;
      schedule_ = some[*first];
      verdict_ = std::move(verdict);
      schedule_.hash = verdict_.hash;
      CutAfterFailure();
      return true;
    }
    from += count;
  }
  return false;
}

bool Shrinker::TryOne(Schedule candidate) {
  size_t which;
  std::vector<Schedule> one;
  one.push_back(std::move(candidate));
  return Try(std::move(one), &which);
}

// What would have come later has had no part in it.
void Shrinker::CutAfterFailure() {
  std::erase_if(schedule_.decisions,
                [&](const Decision& decision) { return decision.at > verdict_.at; });
}

void Shrinker::Progress(const char* pass) {
  if (options_.progress) options_.progress(schedule_, pass, runs_);
}

// Streams of which leaving something out shifts nothing elsewhere; one that fails early is best.
void Shrinker::Rekey() {
  if (schedule_.plan.streams != 0) return;
  std::vector<Schedule> candidates;
  for (uint32_t streams = 1; streams <= kStreamsToBegin; ++streams) {
    candidates.push_back(schedule_);
    candidates.back().plan.streams = streams;
  }
  size_t which;
  if (Try(std::move(candidates), &which)) Progress("keyed streams");
}

bool Shrinker::LeaveOutClients() {
  bool smaller = false;
  const uint32_t admin = schedule_.plan.workload.clients;
  for (uint32_t client = ClientsOf(schedule_.plan); client-- > 0 && !Stop();) {
    // Without the operator there are no topics, and everybody waits for ever.
    if (client == admin && schedule_.plan.brokers.on) continue;
    if (!schedule_.Absent(client)) smaller |= TryOne(WithoutClient(schedule_, client));
  }
  if (smaller) Progress("clients");
  return smaller;
}

bool Shrinker::LeaveOutDecisions() {
  bool smaller = false;
  // All requests at once: that clients connect is often enough.
  const bool any_request =
      std::any_of(schedule_.decisions.begin(), schedule_.decisions.end(),
                  [](const Decision& decision) { return !decision.is_fault(); });
  if (any_request) {
    Schedule without = schedule_;
    std::erase_if(without.decisions, [](const Decision& decision) { return !decision.is_fault(); });
    smaller |= TryOne(std::move(without));
  }
  for (size_t size = std::max<size_t>(1, schedule_.decisions.size() / 2); size > 0; size /= 2) {
    for (size_t from = 0; from < schedule_.decisions.size() && !Stop();) {
      // As many pieces as are tried at once; single decisions with other streams, too.
      std::vector<Schedule> candidates;
      std::vector<size_t> starts;
      const uint32_t retries = size == 1 && schedule_.plan.streams != 0 ? kStreamsToRetry : 0;
      for (size_t at = from; at < schedule_.decisions.size() && starts.size() < options_.width;
           at += size) {
        for (uint32_t retry = 0; retry <= retries; ++retry) {
          Schedule& candidate = candidates.emplace_back(schedule_);
          const auto begin = candidate.decisions.begin() + static_cast<ptrdiff_t>(at);
          const size_t count = std::min(size, candidate.decisions.size() - at);
          candidate.decisions.erase(begin, begin + static_cast<ptrdiff_t>(count));
          candidate.plan.streams += retry;
          starts.push_back(at);
        }
      }
      const size_t next = starts.back() + size;
      size_t which;
      if (Try(std::move(candidates), &which)) {
        smaller = true;
        from = starts[which];
      } else {
        from = next;
      }
    }
    if (smaller) Progress("decisions");
  }
  return smaller;
}

bool Shrinker::LeaveOutServers() {
  bool smaller = false;
  for (uint32_t server = schedule_.plan.servers; server-- > 0 && !Stop();) {
    if (schedule_.plan.servers == 1) break;
    if (auto without = WithoutServer(schedule_, server)) smaller |= TryOne(*std::move(without));
  }
  if (smaller) Progress("servers");
  return smaller;
}

bool Shrinker::LeaveOutParts() {
  bool smaller = false;
  for (size_t i = 0; i < schedule_.decisions.size() && !Stop(); ++i) {
    std::vector<Schedule> candidates;
    const auto add = [&](const auto& parts, auto assign) {
      for (const auto& some : parts) {
        candidates.push_back(schedule_);
        assign(&candidates.back().decisions[i], some);
      }
    };
    const Decision& decision = schedule_.decisions[i];
    if (const auto* fault = std::get_if<FaultDecision>(&decision.what)) {
      add(Parts(fault->connections), [](Decision* d, const auto& some) {
        std::get<FaultDecision>(d->what).connections = some;
      });
    } else if (const auto* step = std::get_if<ClientStep>(&decision.what)) {
      add(Parts(step->parts),
          [](Decision* d, const auto& some) { std::get<ClientStep>(d->what).parts = some; });
    } else if (const auto* batches = std::get_if<ProducerStep>(&decision.what)) {
      add(Parts(batches->batches),
          [](Decision* d, const auto& some) { std::get<ProducerStep>(d->what).batches = some; });
    }
    size_t which;
    if (Try(std::move(candidates), &which)) smaller = true;
  }
  if (smaller) Progress("parts");
  return smaller;
}

// A plan without what only makes noise.
bool Shrinker::CalmPlan() {
  bool smaller = false;
  const auto calm = [&](auto set) {
    Schedule candidate = schedule_;
    if (set(&candidate.plan)) smaller |= TryOne(std::move(candidate));
  };
  const auto zero = [](auto* field) {
    const bool was = *field != std::remove_pointer_t<decltype(field)>{};
    *field = {};
    return was;
  };
  calm([&](Plan* plan) { return zero(&plan->network.tail_per_mille); });
  calm([&](Plan* plan) { return zero(&plan->network.cut_percent); });
  calm([&](Plan* plan) { return zero(&plan->network.far_percent); });
  calm([&](Plan* plan) { return zero(&plan->disk.slow_sync_per_mille); });
  calm([&](Plan* plan) { return zero(&plan->drift_ppm_max); });
  calm([&](Plan* plan) { return zero(&plan->turn); });
  calm([&](Plan* plan) { return zero(&plan->heal_only_a_quorum); });
  if (smaller) Progress("noise");
  return smaller;
}

// Gaps between decisions, and between the last one and the healing.
bool Shrinker::SaveTime() {
  bool smaller = false;
  const Duration tick = schedule_.plan.options.tick;
  for (size_t i = 0; i < schedule_.decisions.size() && !Stop(); ++i) {
    const Instant before = i == 0 ? Instant{} : schedule_.decisions[i - 1].at;
    const Duration gap = schedule_.decisions[i].at - before;
    if (gap < tick * 4) continue;
    std::vector<Schedule> candidates;
    for (const Duration saved : {gap - tick, gap / 2}) {
      Schedule& candidate = candidates.emplace_back(schedule_);
      for (size_t j = i; j < candidate.decisions.size(); ++j) {
        candidate.decisions[j].at = candidate.decisions[j].at - saved;
      }
      if (candidate.plan.chaos > saved + tick) candidate.plan.chaos = candidate.plan.chaos - saved;
    }
    size_t which;
    if (Try(std::move(candidates), &which)) smaller = true;
  }
  const Instant last = schedule_.decisions.empty() ? Instant{} : schedule_.decisions.back().at;
  const Duration enough = (last - Instant{}) + tick * 5;
  if (schedule_.plan.chaos > enough + tick) {
    Schedule candidate = schedule_;
    candidate.plan.chaos = enough;
    smaller |= TryOne(std::move(candidate));
  }
  if (smaller) Progress("time");
  return smaller;
}

bool Shrinker::Run() {
  verdict_ = Judge(schedule_, Instant::Never());
  ++runs_;
  if (verdict_.invariant.empty()) return false;
  schedule_.fails = verdict_.invariant;
  schedule_.hash = verdict_.hash;
  CutAfterFailure();
  Progress("what came later");
  Rekey();
  for (bool again = true; again && !Stop();) {
    again = LeaveOutClients();
    again |= LeaveOutDecisions();
    again |= LeaveOutServers();
    again |= LeaveOutParts();
    again |= CalmPlan();
    again |= SaveTime();
  }
  return true;
}

}  // namespace lockstep::sim
