#include "sim/campaign_command.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <thread>

#include "absl/strings/str_cat.h"
#include "sim/campaign_result.h"
#include "sim/decision_text.h"
#include "sim/exit_status.h"
#include "sim/schedule_commands.h"
#include "sim/shard.h"

namespace lockstep::sim {
namespace {

int UsageError(const std::string& what) {
  std::fprintf(stderr, "lockstep-sim: %s\nRun with --help for more information.\n", what.c_str());
  return kUsage;
}

// "A..B", or "A"; both inclusive.
bool ParseSeeds(std::string_view text, CampaignOptions* options) {
  const size_t dots = text.find("..");
  const std::optional<uint64_t> first = ParseNumber(text.substr(0, dots));
  const std::optional<uint64_t> last =
      dots == std::string_view::npos ? first : ParseNumber(text.substr(dots + 2));
  if (!first || !last || *last < *first) return false;
  options->first = *first;
  options->last = *last;
  return true;
}

std::optional<int64_t> ParseTime(std::string_view text) {
  int64_t unit = 1;
  if (!text.empty() && (text.back() == 's' || text.back() == 'm' || text.back() == 'h')) {
    unit = text.back() == 's' ? 1 : text.back() == 'm' ? 60 : 3600;
    text.remove_suffix(1);
  }
  const std::optional<uint64_t> number = ParseNumber(text);
  if (!number || *number == 0 || *number > 10'000'000) return std::nullopt;
  return static_cast<int64_t>(*number) * unit;
}

std::optional<std::string> FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace

CampaignCommand::CampaignCommand(CLI::App* app) {
  options_.jobs = 0;
  campaign_ = app->add_subcommand("campaign", "Runs many seeds on all cores");
  campaign_->add_option("--seeds", seeds_, "A..B, both inclusive");
  campaign_->add_option("--time", time_,
                        "Stop after this long: 60s, 10m, 2h; with --seeds: whichever is first");
  campaign_->add_option("--jobs", options_.jobs, "Processes (0: one per core)");
  campaign_->add_option("--scenario", scenario_, "What may go wrong")
      ->check(KnownScenario())
      ->capture_default_str();
  campaign_->add_option("--break", options_.break_rules, "Switch rules off: a historic fault each")
      ->delimiter(',')
      ->check(KnownRule());
  campaign_->add_flag("--no-budget", no_budget_,
                      "Faults at any rate and on any number of servers; judge safety only");
  campaign_->add_option("--shard", shard_,
                        "I/N: run every N-th seed, from the I-th (default: as Slurm's "
                        "SLURM_ARRAY_TASK_ID or Kubernetes' JOB_COMPLETION_INDEX says)");
  campaign_->add_option("--failures", options_.failures_max, "Stop after so many")
      ->capture_default_str();
  campaign_
      ->add_option("--twice", options_.twice_percent,
                   "Percent of the seeds that are run twice and compared")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  campaign_->add_option("--out", options_.directory, "Where schedules of failed seeds are written")
      ->capture_default_str();

  merge_ = app->add_subcommand("merge", "Makes one report of the results of many shards");
  merge_->add_option("results", results_, "What campaigns have written with --json")->required();
  for (CLI::App* command : {campaign_, merge_}) {
    command->add_option("--json", options_.json_file,
                        "Write the result as JSON ('-': to the screen)");
    command->add_option("--junit", options_.junit_file,
                        "Write the result as JUnit's XML ('-': to the screen)");
  }
}

int CampaignCommand::RunManySeeds() {
  options_.scenario = FindScenario(scenario_);
  if (no_budget_) options_.scenario = WithoutBudget(*options_.scenario);
  if (options_.scenario == nullptr) {
    std::fprintf(stderr, "lockstep-sim: this scenario needs its budget\n");
    return kUsage;
  }
  if (seeds_.empty() && time_.empty()) {
    return UsageError("campaign needs --seeds A..B or --time 60s, or both");
  }
  if (!seeds_.empty() && !ParseSeeds(seeds_, &options_)) {
    return UsageError("--seeds takes A..B, two numbers, the first not above the second: " + seeds_);
  }
  if (!time_.empty()) {
    options_.seconds = ParseTime(time_);
    if (!options_.seconds) return UsageError("--time takes a number with s, m or h: " + time_);
  }
  const absl::StatusOr<Shard> shard = ShardOf(shard_, &FromEnvironment);
  if (!shard.ok()) return UsageError(std::string(shard.status().message()));
  options_.shard = shard->number;
  options_.shards = shard->of;
  if (shard->of > 1) {
    std::printf("shard %u of %u (%s)\n", shard->number, shard->of, shard->from.c_str());
  }
  if (options_.jobs == 0) options_.jobs = std::max(1u, std::thread::hardware_concurrency());
  return RunCampaign(options_);
}

int CampaignCommand::Merge() {
  std::vector<CampaignResult> results;
  for (const std::string& path : results_) {
    std::ifstream file(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!file.is_open()) {
      return UsageError(absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
    }
    absl::StatusOr<CampaignResult> result = ParseResult(text);
    if (!result.ok()) {
      return UsageError(absl::StrCat(path, ": ", std::string(result.status().message())));
    }
    results.push_back(*std::move(result));
  }
  std::vector<std::string> missing;
  const absl::StatusOr<CampaignResult> all = MergeResults(results, &missing);
  if (!all.ok()) return UsageError(std::string(all.status().message()));
  const bool written = WriteFile(options_.json_file, ResultJson(*all)) &&
                       WriteFile(options_.junit_file, ResultJunit(*all));
  std::printf("%zu results\n", results.size());
  PrintResult(*all, missing.empty() && all->stopped != "failures");
  for (const FailedSeed& failed : all->failures) {
    std::printf("FAILED seed %llu: %s: %s\n  %s\n", static_cast<unsigned long long>(failed.seed),
                failed.failure.invariant.c_str(), failed.failure.detail.c_str(),
                failed.command.c_str());
    if (!failed.schedule.empty()) std::printf("  %s\n", failed.schedule.c_str());
  }
  for (const std::string& what : missing) std::printf("%s\n", what.c_str());
  if (!all->failures.empty()) return kInvariantFailed;
  if (missing.empty()) std::printf("nothing wrong\n");
  return missing.empty() && written ? kNothingWrong : kUsage;
}

}  // namespace lockstep::sim
