// lockstep-sim: the command line of the simulator. docs/simulator.md tells how to use it.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/coordination/rules.h"
#include "core/replication/rules.h"
#include "core/zab/rules.h"
#include "sim/campaign.h"
#include "sim/checkers/invariants.h"
#include "sim/json_text.h"
#include "sim/plan.h"
#include "sim/probes.h"
#include "sim/run.h"
#include "sim/schedule_commands.h"
#include "sim/schedule_file.h"
#include "sim/trace_output.h"

namespace lockstep::sim {
namespace {

constexpr int kNothingWrong = 0;
constexpr int kInvariantFailed = 1;
constexpr int kUsage = 2;

// For --canary: what no seed decides. Addresses differ with every process, but for the two runs of
// one; the time differs always.
uint64_t ReadTheClock() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

struct RunArguments {
  uint64_t seed = 0;
  std::string scenario = "swarm";
  std::vector<std::string> break_rules;
  TraceOutput trace;
  bool once = false;
  bool canary = false;
  std::string out = kFailuresDirectory;
};

int Run(RunArguments& arguments) {
  RunOptions options;
  options.seed = arguments.seed;
  options.scenario = FindScenario(arguments.scenario);
  options.break_rules = arguments.break_rules;
  std::printf("seed %llu\n", static_cast<unsigned long long>(options.seed));
  std::fflush(stdout);
  if (arguments.canary) options.leak = &ReadTheClock;
  if (!arguments.trace.Begin(ReplayCommand(options), &options)) return kUsage;
  const RunResult result = RunSeed(options);
  if (!arguments.trace.End(result, &options)) return kUsage;
  std::printf("%llu events, %lld transactions, %lld ms of simulated time\n",
              static_cast<unsigned long long>(result.events),
              static_cast<long long>(result.committed),
              static_cast<long long>(result.time.Milliseconds()));
  std::printf("trace hash %016llx\n", static_cast<unsigned long long>(result.hash));
  std::optional<Failure> failure = result.failure;
  if (!arguments.once && RunSeed(options).hash != result.hash) {
    failure = Failure{"deterministic",
                      FindDivergence(options).value_or("two runs differ, and the next two do not")};
  }
  if (!failure.has_value()) {
    std::printf("nothing wrong\n");
    return kNothingWrong;
  }
  // What differs from run to run has no schedule.
  const bool has_schedule = failure->invariant != "deterministic";
  PrintFailure(options, *failure, has_schedule ? WriteScheduleOf(options, arguments.out) : "");
  return kInvariantFailed;
}

struct CampaignArguments {
  std::string seeds;
  std::string time;
  std::string shard;
  CampaignOptions options;
  std::string scenario = "swarm";
};

std::optional<uint64_t> ParseNumber(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

int UsageError(const std::string& what) {
  std::fprintf(stderr, "lockstep-sim: %s\nRun with --help for more information.\n", what.c_str());
  return kUsage;
}

int RunManySeeds(CampaignArguments arguments) {
  CampaignOptions& options = arguments.options;
  options.scenario = FindScenario(arguments.scenario);
  if (arguments.seeds.empty() && arguments.time.empty()) {
    return UsageError("campaign needs --seeds A..B or --time 60s");
  }
  if (!arguments.seeds.empty()) {
    const size_t dots = arguments.seeds.find("..");
    const std::optional<uint64_t> first = ParseNumber(arguments.seeds.substr(0, dots));
    const std::optional<uint64_t> last =
        dots == std::string::npos ? first : ParseNumber(arguments.seeds.substr(dots + 2));
    if (!first.has_value() || !last.has_value() || *last < *first) {
      return UsageError("--seeds takes A..B, two numbers, the first not above the second: " +
                        arguments.seeds);
    }
    options.first = *first;
    options.last = *last;
  }
  if (!arguments.time.empty()) {
    std::string_view text = arguments.time;
    int64_t unit = 1;
    if (text.ends_with('s'))
      text.remove_suffix(1);
    else if (text.ends_with('m')) {
      unit = 60;
      text.remove_suffix(1);
    } else if (text.ends_with('h')) {
      unit = 3600;
      text.remove_suffix(1);
    }
    const std::optional<uint64_t> number = ParseNumber(text);
    if (!number.has_value() || *number == 0) {
      return UsageError("--time takes a number with s, m or h: " + arguments.time);
    }
    options.seconds = static_cast<int64_t>(*number) * unit;
  }
  if (!arguments.shard.empty()) {
    const size_t slash = arguments.shard.find('/');
    const std::optional<uint64_t> i = ParseNumber(arguments.shard.substr(0, slash));
    const std::optional<uint64_t> n =
        slash == std::string::npos ? std::nullopt : ParseNumber(arguments.shard.substr(slash + 1));
    if (!i.has_value() || !n.has_value() || *i < 1 || *i > *n) {
      return UsageError("--shard takes I/N with 1 <= I <= N: " + arguments.shard);
    }
    options.shard = static_cast<uint32_t>(*i);
    options.shards = static_cast<uint32_t>(*n);
  }
  if (options.jobs == 0) options.jobs = std::max(1u, std::thread::hardware_concurrency());
  return RunCampaign(options);
}

struct ListItem {
  std::string name;
  std::string says;
};

std::vector<ListItem> Items(const std::string& what) {
  std::vector<ListItem> items;
  if (what == "scenarios") {
    for (const Scenario& s : AllScenarios()) items.push_back({s.name, s.says});
  } else if (what == "rules") {
    for (const zab::RuleEntry& r : zab::AllRules()) items.push_back({r.name, r.says});
    for (const coordination::RuleEntry& r : coordination::AllRules()) {
      items.push_back({r.name, r.says});
    }
    for (const replication::RuleEntry& r : replication::AllRules()) {
      items.push_back({r.name, r.says});
    }
  } else if (what == "invariants") {
    for (const InvariantInfo& i : AllInvariants()) items.push_back({i.name, i.says});
  } else if (what == "faults") {
    for (const FaultInfo& f : AllFaults()) items.push_back({f.name, f.says});
  } else if (what == "probes") {
    for (const ProbeInfo& p : AllProbes()) items.push_back({p.name, p.says});
  }
  return items;
}

int List(const std::string& what, bool json) {
  for (const ListItem& item : Items(what)) {
    if (json) {
      std::printf("{\"name\":%s,\"says\":%s}\n", JsonString(item.name).c_str(),
                  JsonString(item.says).c_str());
    } else {
      std::printf("%-44s %s\n", item.name.c_str(), item.says.c_str());
    }
  }
  return kNothingWrong;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Runs whole Lockstep clusters in one thread, with simulated disks, network, clocks and\n"
      "clients, and checks what must hold. A seed is a run: the same seed is the same run, always.",
      "lockstep-sim");
  app.require_subcommand(1);
  app.footer(
      "Exit status: 0 nothing wrong, 1 an invariant failed (its name, the seed and the command\n"
      "that replays it come last), 2 usage or bad file.");
  const CLI::Validator known_rule = KnownRule();
  const CLI::Validator known_scenario = KnownScenario();

  RunArguments run;
  CLI::App* run_command = app.add_subcommand("run", "Runs one seed, twice, and compares the two");
  run_command->add_option("--seed", run.seed, "The seed")->required();
  run_command->add_option("--scenario", run.scenario, "What may go wrong")
      ->check(known_scenario)
      ->capture_default_str();
  run_command->add_option("--break", run.break_rules, "Switch rules off: a historic fault each")
      ->delimiter(',')
      ->check(known_rule);
  run.trace.AddOptions(run_command);
  run_command->add_option("--out", run.out, "Where the schedule of a failed run is written")
      ->capture_default_str();
  run_command->add_flag("--once", run.once, "Do not run it a second time");
  // Not for users: it is there to be caught (./dev ci).
  run_command->add_flag("--canary", run.canary, "Let the time in, which must be caught")->group("");

  CampaignArguments campaign;
  campaign.options.jobs = 0;
  CLI::App* campaign_command = app.add_subcommand("campaign", "Runs many seeds on all cores");
  campaign_command->add_option("--seeds", campaign.seeds, "A..B, both inclusive");
  campaign_command->add_option("--time", campaign.time, "Stop after this long: 60s, 10m, 2h");
  campaign_command->add_option("--jobs", campaign.options.jobs, "Processes (0: one per core)");
  campaign_command->add_option("--scenario", campaign.scenario, "What may go wrong")
      ->check(known_scenario)
      ->capture_default_str();
  campaign_command
      ->add_option("--break", campaign.options.break_rules,
                   "Switch rules off: a historic fault each")
      ->delimiter(',')
      ->check(known_rule);
  campaign_command->add_option("--shard", campaign.shard,
                               "I/N: run every N-th seed, from the I-th");
  campaign_command->add_option("--failures", campaign.options.failures_max, "Stop after so many")
      ->capture_default_str();
  campaign_command
      ->add_option("--twice", campaign.options.twice_percent,
                   "Percent of the seeds that are run twice and compared")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  campaign_command
      ->add_option("--out", campaign.options.directory,
                   "Where schedules of failed seeds are written")
      ->capture_default_str();
  campaign_command->add_option("--json", campaign.options.json_file,
                               "Write the result as JSON ('-': to the screen)");

  ScheduleCommands schedules(&app);

  std::string what;
  bool json = false;
  CLI::App* list_command = app.add_subcommand("list", "Lists what there is");
  list_command->add_option("what", what, "scenarios, rules, invariants, faults or probes")
      ->required()
      ->check(CLI::IsMember({"scenarios", "rules", "invariants", "faults", "probes"}));
  list_command->add_flag("--json", json, "One JSON object per line");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kNothingWrong : kUsage;
  }
  InstallCheckHook();
  if (run_command->parsed()) return Run(run);
  if (campaign_command->parsed()) return RunManySeeds(campaign);
  if (schedules.parsed()) return schedules.Run();
  return List(what, json);
}

}  // namespace
}  // namespace lockstep::sim

int main(int argc, char** argv) { return lockstep::sim::Main(argc, argv); }
