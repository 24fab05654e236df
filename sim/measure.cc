#include "sim/measure.h"

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "sim/fork_each.h"
#include "sim/meter.h"
#include "sim/run.h"
#include "sim/schedule_commands.h"

namespace lockstep::sim {
namespace {

constexpr const char* kParts[] = {"servers",     "clients",     "committed_log", "histories",
                                  "znode_model", "replication", "trace_hash"};
static_assert(std::size(kParts) == static_cast<size_t>(MeterPart::kCount));

// A process that is preempted comes back after milliseconds; no scope takes half of one by itself.
constexpr uint64_t kDisturbedNs = 500'000;

uint64_t NowNs(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}
uint64_t MonotonicNs() { return NowNs(CLOCK_MONOTONIC); }

// Of the time that a scope shows, so much is its own.
uint64_t ScopeCostPerThousand() {
  Meter meter(&MonotonicNs, kDisturbedNs);
  constexpr int kTimes = 100'000;
  for (int i = 0; i < kTimes; ++i) const Meter::Scope scope(&meter, MeterPart::kServers);
  return meter.ticks(MeterPart::kServers) / (kTimes / 1000);
}

int64_t PeakKib() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

}  // namespace

MeasureCommand::MeasureCommand(CLI::App* app) {
  command_ = app->add_subcommand("measure", "For ./dev bench sim: what runs cost, in one process");
  command_->group("");
  command_->add_option("--scenario", scenario_)->check(KnownScenario());
  command_->add_option("--first", first_, "The first seed");
  command_->add_option("--seeds", seeds_, "How many");
  command_->add_option("--length", length_, "Times as long")->check(CLI::Range(1, 100));
  command_->add_flag("--meter", meter_, "Time each checker");
  command_->add_flag("--memory", memory_, "The peak memory of each run instead");
}

int MeasureCommand::Run() { return memory_ ? Memory() : Time(); }

int MeasureCommand::Time() const {
  Meter meter(&MonotonicNs, kDisturbedNs);
  const uint64_t scope_cost = meter_ ? ScopeCostPerThousand() : 0;
  RunOptions options;
  options.scenario = FindScenario(scenario_);
  options.length = length_;
  if (meter_) options.meter = &meter;
  uint64_t events = 0;
  uint64_t failed = 0;
  int64_t world_ns = 0;
  const uint64_t began = NowNs(CLOCK_PROCESS_CPUTIME_ID);
  for (uint64_t i = 0; i < seeds_; ++i) {
    options.seed = first_ + i;
    const RunResult result = RunSeed(options);
    events += result.events;
    world_ns += result.time.ns;
    failed += result.failure ? 1 : 0;
  }
  const uint64_t cpu = NowNs(CLOCK_PROCESS_CPUTIME_ID) - began;
  std::string text =
      absl::StrCat("{\"seeds\":", seeds_, ",\"events\":", events, ",\"failed\":", failed,
                   ",\"simulated_ns\":", world_ns, ",\"cpu_ns\":", cpu, ",\"parts\":{");
  for (size_t p = 0; meter_ && p < std::size(kParts); ++p) {
    const auto part = static_cast<MeterPart>(p);
    const uint64_t own = meter.calls(part) * scope_cost / 1000;
    absl::StrAppend(&text, p == 0 ? "" : ",", "\"", kParts[p],
                    "\":", meter.ticks(part) - std::min(meter.ticks(part), own));
  }
  std::printf("%s}}\n", text.c_str());
  return failed == 0 ? 0 : 1;
}

// In a process each, whose peak is that of the run alone; the last one runs nothing.
int MeasureCommand::Memory() const {
  std::vector<int64_t> peaks(seeds_ + 1, -1);
  const auto run = [&](size_t i) {
    if (i < seeds_) {
      RunOptions options;
      options.scenario = FindScenario(scenario_);
      options.length = length_;
      options.seed = first_ + i;
      RunSeed(options);
    }
    return absl::StrCat(PeakKib());
  };
  const bool ran = ForkEach(1, peaks.size(), run, [&](size_t i, std::optional<std::string> said) {
    return said && absl::SimpleAtoi(*said, &peaks[i]);
  });
  const int64_t nothing = peaks.back();
  if (!ran || nothing < 0) return 2;
  peaks.pop_back();
  std::sort(peaks.begin(), peaks.end());
  std::printf("{\"runs\":%zu,\"median_kib\":%lld,\"max_kib\":%lld}\n", peaks.size(),
              static_cast<long long>(peaks[peaks.size() / 2] - nothing),
              static_cast<long long>(peaks.back() - nothing));
  return 0;
}

}  // namespace lockstep::sim
