// Many seeds on all cores. Here, and in main.cc, are the only threads, processes, clocks and
// terminals of the simulator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/plan.h"

namespace lockstep::sim {

struct CampaignOptions {
  uint64_t first = 1;
  std::optional<uint64_t> last;  // inclusive; absent: until `seconds` are over
  std::optional<int64_t> seconds;
  uint32_t jobs = 1;
  const Scenario* scenario = nullptr;
  std::vector<std::string> break_rules;
  uint32_t shard = 1;  // this is shard `shard` of `shards`: every shards-th seed
  uint32_t shards = 1;
  uint32_t twice_percent = 5;          // of the seeds are run twice and compared
  uint32_t failures_max = 20;          // then the campaign ends
  std::string directory = "failures";  // for the schedules of failed seeds
  std::string json_file;               // "" = none; "-" = standard output
  std::string junit_file;              // likewise
};

// As a shell says of what was ended by SIGINT.
inline constexpr int kInterruptedStatus = 130;

// Runs until the seeds or the time are over, whichever is first, or until SIGINT or SIGTERM. The
// exit status: 0 nothing wrong, 1 an invariant failed or a run was not deterministic, 2 a file
// cannot be written, kInterruptedStatus if it was interrupted and nothing had failed.
int RunCampaign(const CampaignOptions& options);

}  // namespace lockstep::sim
