// The zoo: how fast each historic fault is found, measured. Every switchable rule is broken, and
// independent campaigns over seeds of their own look for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::sim {

struct ZooOptions {
  std::vector<std::string> rules;  // empty: all
  int64_t budget_seconds = 60;     // of processor time, for one campaign
  uint32_t campaigns = 30;
  uint32_t jobs = 1;
  // Of each rule, so many of what was found are shrunk, each for at most this long (processor
  // time).
  uint32_t shrunk = 3;
  int64_t shrink_seconds = 60;
  std::string json_file;  // "" = none; "-" = standard output
  std::string directory;  // where shrunk schedules are written; "" = nowhere
};

// The exit status: 0 each rule was found in all its campaigns, 1 not, 2 a file cannot be written.
int RunZoo(const ZooOptions& options);

}  // namespace lockstep::sim
