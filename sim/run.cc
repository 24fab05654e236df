#include "sim/run.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "sim/world.h"

namespace lockstep::sim {
namespace {

void ThrowFailure(const char* file, int line, const char* expression, const std::string& detail) {
  std::string_view name = file;
  if (const size_t at = name.rfind("core/"); at != std::string_view::npos) name = name.substr(at);
  throw Failure{"machine-check",
                absl::StrCat(std::string(name), ":", line, ": check failed: ", expression,
                             detail.empty() ? "" : absl::StrCat(" (", detail, ")"))};
}

// Lines that follow one event, for FindDivergence.
struct LinesOfEvent {
  const std::vector<uint64_t>* log = nullptr;
  size_t event = 0;
  std::string lines;
};

void KeepLine(void* context, std::string_view line) {
  LinesOfEvent* kept = static_cast<LinesOfEvent*>(context);
  // The hash of an event is logged after its lines.
  if (kept->log->size() != kept->event) return;
  absl::StrAppend(&kept->lines, "\n    ", std::string(line));
}

}  // namespace

void InstallCheckHook() { SetCheckHook(&ThrowFailure); }

RunResult RunSeed(const RunOptions& options) {
  RunResult result;
  Trace trace(options.sink, options.sink_context);
  trace.set_observer(options.observer);
  const Schedule* schedule = options.schedule;
  Plan plan = schedule != nullptr ? schedule->plan
                                  : DrawPlan(options.seed, *options.scenario, options.break_rules);
  plan.chaos = plan.chaos * options.length;
  Script script = schedule != nullptr ? Script(schedule) : Script();
  const bool scripted = schedule != nullptr || options.record != nullptr;
  std::optional<World> world;
  try {
    // A plan that was edited may be refused by the servers' own checks.
    world.emplace(plan, &trace, &result.probes, scripted ? &script : nullptr);
    world->set_hash_log(options.hash_log);
    world->set_until(options.until);
    world->set_events_max(options.events_max);
    world->set_leak(options.leak);
    world->set_meter(options.meter);
    world->Run();
  } catch (Failure& failure) {
    result.failure = std::move(failure);
  }
  result.hash = trace.hash();
  if (world) {
    result.events = world->events();
    result.committed = world->committed();
    result.time = world->now() - Instant{};
    if (result.events >= options.events_max) result.last_event = world->LastEvent();
  }
  if (schedule != nullptr) {
    result.unmatched = script.Unmatched();
    result.late = script.Late();
  } else if (options.record != nullptr) {
    *options.record = {options.scenario->name,
                       options.break_rules,
                       plan,
                       {},
                       script.TakeRecorded(),
                       result.failure ? result.failure->invariant : "",
                       result.hash};
  }
  return result;
}

std::optional<std::string> FindDivergence(RunOptions options) {
  options.observer = nullptr;
  std::vector<uint64_t> logs[2];
  for (std::vector<uint64_t>& log : logs) {
    options.hash_log = &log;
    RunSeed(options);
  }
  const size_t common = std::min(logs[0].size(), logs[1].size());
  size_t event = 0;
  while (event < common && logs[0][event] == logs[1][event]) ++event;
  if (event == common && logs[0].size() == logs[1].size()) return std::nullopt;
  std::string text = absl::StrCat("event ", event + 1, " is the first that differs:");
  for (int i = 0; i < 2; ++i) {
    std::vector<uint64_t> log;
    LinesOfEvent kept{&log, event, ""};
    options.hash_log = &log;
    options.sink = &KeepLine;
    options.sink_context = &kept;
    options.events_max = event + 1;
    const RunResult result = RunSeed(options);
    absl::StrAppend(&text, i == 0 ? "\n  once " : "\n  and then ", result.last_event, kept.lines);
  }
  return text;
}

std::string ReplayCommand(const RunOptions& options) {
  std::string command = absl::StrCat("./dev sim run --seed ", options.seed);
  if (std::string_view(options.scenario->name) != "swarm") {
    absl::StrAppend(&command, " --scenario ", options.scenario->name);
  }
  if (!options.break_rules.empty()) {
    absl::StrAppend(&command, " --break ", absl::StrJoin(options.break_rules, ","));
  }
  return command;
}

}  // namespace lockstep::sim
