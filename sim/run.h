// One seed: from its number to its result.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/time.h"
#include "sim/failure.h"
#include "sim/meter.h"
#include "sim/plan.h"
#include "sim/probes.h"
#include "sim/schedule.h"
#include "sim/trace.h"

namespace lockstep::sim {

struct RunOptions {
  uint64_t seed = 0;
  const Scenario* scenario = nullptr;
  std::vector<std::string> break_rules;
  Trace::Sink sink = nullptr;  // of trace lines
  void* sink_context = nullptr;
  TraceObserver* observer = nullptr;
  std::vector<uint64_t>* hash_log = nullptr;  // the trace hash after each event
  uint64_t (*leak)() = nullptr;               // see World::set_leak
  Meter* meter = nullptr;                     // see World::set_meter
  int64_t length = 1;                         // faults and work go on for so many times as long
  // Followed, instead of what `seed`, `scenario` and `break_rules` draw.
  const Schedule* schedule = nullptr;
  Schedule* record = nullptr;        // of a drawn run: is filled
  Instant until = Instant::Never();  // the run ends there, healed or not
  uint64_t events_max = UINT64_MAX;  // likewise
};

struct RunResult {
  std::optional<Failure> failure;
  uint64_t hash = 0;      // of the trace, until the failure if there is one
  uint64_t events = 0;    // taken from the queue
  int64_t committed = 0;  // transactions
  Duration time;          // of the world
  Probes probes;
  std::string last_event;  // if events_max was reached
  // Of a schedule: numbers of its decisions that had no effect, and those that came late.
  std::vector<size_t> unmatched;
  std::vector<std::pair<size_t, Duration>> late;
};

// Makes a failed LS_CHECK the failure of the seed instead of the end of the process. Once, before
// the first run.
void InstallCheckHook();

RunResult RunSeed(const RunOptions& options);

// Runs the seed twice more, and says in a sentence which event was the first that was different;
// nothing if the two are the same.
std::optional<std::string> FindDivergence(RunOptions options);

// The command that runs the seed again.
std::string ReplayCommand(const RunOptions& options);

}  // namespace lockstep::sim
