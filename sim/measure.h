// The command measure of lockstep-sim, which bench/simulator.py uses: what runs cost, in one
// process.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace lockstep::sim {

class MeasureCommand {
 public:
  explicit MeasureCommand(CLI::App* app);
  bool parsed() const { return command_->parsed(); }
  // The exit status. Prints one JSON object.
  int Run();

 private:
  int Memory() const;
  int Time() const;

  CLI::App* command_;
  std::string scenario_ = "swarm";
  uint64_t first_ = 1;
  uint64_t seeds_ = 100;
  int64_t length_ = 1;
  bool meter_ = false;
  bool memory_ = false;
};

}  // namespace lockstep::sim
