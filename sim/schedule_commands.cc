#include "sim/schedule_commands.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "sim/decision_text.h"
#include "sim/exit_status.h"
#include "sim/explain.h"
#include "sim/plan.h"
#include "sim/schedule_file.h"
#include "sim/schedule_text.h"
#include "sim/shrink.h"

namespace lockstep::sim {
namespace {

constexpr size_t kShown = 20;

int UsageError(const std::string& what) {
  std::fprintf(stderr, "lockstep-sim: %s\n", what.c_str());
  return kUsage;
}

uint32_t Jobs(uint32_t wanted) {
  return wanted > 0 ? wanted : std::max(1u, std::thread::hardware_concurrency());
}

std::optional<int64_t> ParseSeconds(std::string_view text) {
  int64_t unit = 1;
  if (text.ends_with('s')) {
    text.remove_suffix(1);
  } else if (text.ends_with('m')) {
    unit = 60;
    text.remove_suffix(1);
  }
  const std::optional<uint64_t> number = ParseNumber(text);
  if (!number || *number == 0 || *number > 1'000'000) return std::nullopt;
  return static_cast<int64_t>(*number) * unit;
}

// What of a schedule this build did not do.
void PrintUnmatched(const ReadSchedule& read, const RunResult& result) {
  for (const std::string& unknown : read.unknown) {
    std::printf("not known to this build: %s\n", unknown.c_str());
  }
  // What was to happen after the failure could not.
  const Instant end = Instant{} + result.time;
  std::vector<std::string> lines;
  const Schedule& schedule = read.schedule;
  for (size_t i : result.unmatched) {
    const Decision& decision = schedule.decisions[i];
    if (result.failure && decision.at > end) continue;
    lines.push_back(
        absl::StrCat(TimeText(decision.at), " ", DescribeDecision(schedule.plan, decision),
                     decision.is_fault() ? ": its target was not there" : ": its time never came"));
  }
  for (const auto& [i, late] : result.late) {
    const Decision& decision = schedule.decisions[i];
    lines.push_back(absl::StrCat(TimeText(decision.at), " ",
                                 DescribeDecision(schedule.plan, decision), ": ",
                                 late.Milliseconds(), " ms late"));
  }
  if (lines.empty()) return;
  std::printf("%zu of %zu decisions did not match:\n", lines.size(), schedule.decisions.size());
  for (size_t i = 0; i < std::min(lines.size(), kShown); ++i) {
    std::printf("  %s\n", lines[i].c_str());
  }
  if (lines.size() > kShown) std::printf("  … and %zu more\n", lines.size() - kShown);
}

}  // namespace

void PrintFailure(const RunOptions& options, const Failure& failure, const std::string& path) {
  std::printf("\n%s\n", Explain(options, failure).c_str());
  if (!path.empty()) {
    std::printf("schedule: %s\n", path.c_str());
    std::printf("trace:    ./dev sim replay %s --trace trace.txt\n", path.c_str());
    std::printf("picture:  ./dev sim replay %s --trace trace.html --format html\n", path.c_str());
    std::printf("shrink:   ./dev sim shrink %s\n", path.c_str());
    std::printf("replay:   ./dev sim replay %s\n", path.c_str());
  }
  std::printf("%s failed: %s\n", failure.invariant.c_str(), failure.detail.c_str());
  if (options.schedule != nullptr) {
    std::printf("./dev sim replay %s\n", path.c_str());
  } else {
    std::printf("%s\n", ReplayCommand(options).c_str());
  }
}

CLI::Validator KnownRule() {
  return CLI::Validator(
      [](std::string& name) {
        return IsRule(name) ? std::string() : "there is no rule " + name + " (see: list rules)";
      },
      "RULE");
}

CLI::Validator KnownScenario() {
  return CLI::Validator(
      [](std::string& name) {
        return FindScenario(name) != nullptr
                   ? std::string()
                   : "there is no scenario " + name + " (see: list scenarios)";
      },
      "SCENARIO");
}

ScheduleCommands::ScheduleCommands(CLI::App* app) {
  const CLI::Validator known_rule = KnownRule();
  const CLI::Validator known_scenario = KnownScenario();
  replay_ = app->add_subcommand("replay", "Runs the schedule of a failed run");
  replay_->add_option("schedule", file_, "The file that the failed run has written")->required();
  trace_.AddOptions(replay_);

  shrink_ = app->add_subcommand("shrink", "Leaves out of a failing schedule what it can");
  shrink_->add_option("schedule", file_, "The file that the failed run has written");
  shrink_->add_option("--seed", seed_, "A seed instead of a file");
  shrink_->add_option("--scenario", scenario_, "Of the seed")->check(known_scenario);
  shrink_->add_option("--break", break_rules_, "Of the seed")->delimiter(',')->check(known_rule);
  shrink_->add_option("-o,--out", out_, "Where to write it (default: FILE.shrunk)");
  shrink_->add_option("--runs", runs_, "Try no more than this")->capture_default_str();
  shrink_->add_option("--jobs", jobs_, "Processes (0: one per core)");

  zoo_ = app->add_subcommand(
      "zoo", "Breaks each rule, and measures how fast independent campaigns find it");
  zoo_->add_option("--rules,--rule", zoo_options_.rules, "Only these")
      ->delimiter(',')
      ->check(known_rule);
  zoo_->add_option("--budget", budget_, "Processor time of a campaign: 60s, 10m")
      ->capture_default_str();
  zoo_->add_option("--campaigns", zoo_options_.campaigns, "For each rule")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  zoo_->add_option("--jobs", jobs_, "Processes (0: one per core)");
  zoo_->add_option("--shrunk", zoo_options_.shrunk, "Of each rule, shrink so many finds")
      ->capture_default_str();
  zoo_->add_option("--shrink-budget", shrink_budget_, "Processor time to shrink one")
      ->capture_default_str();
  zoo_->add_option("--json", zoo_options_.json_file,
                   "Write the result as JSON ('-': to the screen)");
  zoo_->add_option("--out", zoo_options_.directory, "An existing directory for shrunk schedules");
}

int ScheduleCommands::Run() {
  if (replay_->parsed()) return Replay();
  return shrink_->parsed() ? Shrink() : Zoo();
}

int ScheduleCommands::Replay() {
  absl::StatusOr<ReadSchedule> read = LoadSchedule(file_);
  if (!read.ok()) return UsageError(std::string(read.status().message()));
  const Schedule& schedule = read->schedule;
  RunOptions options;
  options.schedule = &schedule;
  options.seed = schedule.plan.seed;
  options.scenario = FindScenario(schedule.scenario);
  options.break_rules = schedule.break_rules;
  if (!trace_.Begin(absl::StrCat("./dev sim replay ", file_), &options)) return kUsage;
  const RunResult result = RunSeed(options);
  if (!trace_.End(result, &options)) return kUsage;
  std::printf("%llu events, %lld transactions, %lld ms of simulated time\n",
              static_cast<unsigned long long>(result.events),
              static_cast<long long>(result.committed),
              static_cast<long long>(result.time.Milliseconds()));
  std::printf("trace hash %016llx%s\n", static_cast<unsigned long long>(result.hash),
              result.hash == schedule.hash ? ", as in the file"
                                           : ": not that of the file, this is other code");
  // With the same hash all is as it was when the file was written, what had no effect then too.
  if (result.hash != schedule.hash || !read->unknown.empty()) PrintUnmatched(*read, result);
  const std::string now = result.failure ? result.failure->invariant : "";
  if (now != schedule.fails) {
    std::printf("when it was written, %s\n",
                schedule.fails.empty() ? "nothing failed" : (schedule.fails + " failed").c_str());
  }
  if (!result.failure) {
    std::printf("nothing wrong\n");
    return kNothingWrong;
  }
  PrintFailure(options, *result.failure, file_);
  return kInvariantFailed;
}

int ScheduleCommands::Shrink() {
  Schedule schedule;
  std::string out = out_;
  if (!file_.empty()) {
    absl::StatusOr<ReadSchedule> read = LoadSchedule(file_);
    if (!read.ok()) return UsageError(std::string(read.status().message()));
    schedule = std::move(read->schedule);
    if (out.empty()) out = file_ + ".shrunk";
  } else if (shrink_->count("--seed") > 0) {
    RunOptions options;
    options.seed = seed_;
    options.scenario = FindScenario(scenario_);
    options.break_rules = break_rules_;
    options.record = &schedule;
    RunSeed(options);
    if (out.empty()) out = SchedulePath(".", options);
  } else {
    return UsageError("shrink takes a schedule, or --seed N");
  }
  const size_t before = SizeOf(schedule);
  Shrinker::Options options = ShrinkOnCores(Jobs(jobs_));
  options.runs_max = runs_;
  options.progress = [before](const Schedule& smaller, const char* pass, uint64_t runs) {
    std::fprintf(stderr, "%5zu of %zu decisions, %u servers, %zu clients, after %llu runs (%s)\n",
                 SizeOf(smaller), before, smaller.plan.servers,
                 ClientsOf(smaller.plan) - smaller.absent.size(),
                 static_cast<unsigned long long>(runs), pass);
  };
  Shrinker shrinker(std::move(schedule), options);
  if (!shrinker.Run()) {
    std::printf("nothing wrong: there is nothing to shrink\n");
    return kNothingWrong;
  }
  if (!SaveSchedule(out, shrinker.schedule())) {
    return UsageError(absl::StrCat("cannot write ", out, ": ", std::strerror(errno)));
  }
  std::printf("%zu of %zu decisions are left:\n", SizeOf(shrinker.schedule()), before);
  for (const Decision& decision : shrinker.schedule().decisions) {
    std::printf("  %s %s\n", TimeText(decision.at).c_str(),
                DescribeDecision(shrinker.schedule().plan, decision).c_str());
  }
  std::printf("%s failed: %s\n./dev sim replay %s\n", shrinker.verdict().invariant.c_str(),
              shrinker.verdict().detail.c_str(), out.c_str());
  return kInvariantFailed;
}

int ScheduleCommands::Zoo() {
  const std::optional<int64_t> budget = ParseSeconds(budget_);
  const std::optional<int64_t> shrink = ParseSeconds(shrink_budget_);
  if (!budget || !shrink) return UsageError("--budget takes a number with s or m: " + budget_);
  zoo_options_.budget_seconds = *budget;
  zoo_options_.shrink_seconds = *shrink;
  zoo_options_.jobs = Jobs(jobs_);
  return RunZoo(zoo_options_);
}

}  // namespace lockstep::sim
