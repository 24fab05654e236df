// The commands replay, shrink and zoo of lockstep-sim, and the end of a failing run.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "sim/failure.h"
#include "sim/run.h"
#include "sim/trace_output.h"
#include "sim/zoo.h"

namespace lockstep::sim {

// Where schedules of failed runs go unless --out says otherwise.
inline constexpr const char* kFailuresDirectory = "failures";

// Prints why a run failed, and the commands to go on with; the last line replays it. `path`: of its
// schedule, "" if there is none. (The invariant, the seed and the replay come last: a contract.)
void PrintFailure(const RunOptions& options, const Failure& failure, const std::string& path);

// What --break and --scenario accept.
CLI::Validator KnownRule();
CLI::Validator KnownScenario();

class ScheduleCommands {
 public:
  explicit ScheduleCommands(CLI::App* app);
  bool parsed() const { return replay_->parsed() || shrink_->parsed() || zoo_->parsed(); }
  // The exit status.
  int Run();

 private:
  int Replay();
  int Shrink();
  int Zoo();

  CLI::App* replay_;
  CLI::App* shrink_;
  CLI::App* zoo_;
  std::string file_;
  TraceOutput trace_;
  uint64_t seed_ = 0;
  std::string scenario_ = "swarm";
  std::vector<std::string> break_rules_;
  std::string out_;
  uint64_t runs_ = 5'000;
  uint32_t jobs_ = 0;
  std::string budget_ = "60s";
  std::string shrink_budget_ = "60s";
  ZooOptions zoo_options_;
};

}  // namespace lockstep::sim
