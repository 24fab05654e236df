// lockstep-sim: the command line of the simulator. docs/simulator.md tells how to use it.

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/coordination/rules.h"
#include "core/replication/rules.h"
#include "core/zab/rules.h"
#include "sim/campaign_command.h"
#include "sim/checkers/invariants.h"
#include "sim/exit_status.h"
#include "sim/json_text.h"
#include "sim/measure.h"
#include "sim/plan.h"
#include "sim/probes.h"
#include "sim/run.h"
#include "sim/schedule_commands.h"
#include "sim/schedule_file.h"
#include "sim/trace_output.h"

namespace lockstep::sim {
namespace {

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
  bool no_budget = false;
  bool canary = false;
  std::string out = kFailuresDirectory;
};

int Run(RunArguments& arguments) {
  RunOptions options;
  options.seed = arguments.seed;
  options.scenario = FindScenario(arguments.scenario);
  options.break_rules = arguments.break_rules;
  if (arguments.no_budget) options.scenario = WithoutBudget(*options.scenario);
  if (options.scenario == nullptr) {
    std::fprintf(stderr, "lockstep-sim: this scenario needs its budget\n");
    return kUsage;
  }
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
      "that replays it come last), 2 usage or bad file, 130 a campaign was interrupted and "
      "nothing\n"
      "had failed.");
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
  run_command->add_flag("--no-budget", run.no_budget,
                        "Faults at any rate and on any number of servers; judge safety only");
  run_command->add_flag("--once", run.once, "Do not run it a second time");
  // Not for users: it is there to be caught (./dev ci).
  run_command->add_flag("--canary", run.canary, "Let the time in, which must be caught")->group("");

  CampaignCommand campaign(&app);
  MeasureCommand measure(&app);
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
  if (campaign.parsed()) return campaign.Run();
  if (measure.parsed()) return measure.Run();
  if (schedules.parsed()) return schedules.Run();
  return List(what, json);
}

}  // namespace
}  // namespace lockstep::sim

int main(int argc, char** argv) { return lockstep::sim::Main(argc, argv); }
