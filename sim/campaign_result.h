// What came out of a campaign, or of several that are parts of one: for people, as JSON, and as
// JUnit's XML for continuous integration. docs/campaigns.md describes the files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/failure.h"

namespace lockstep::sim {

struct FailedSeed {
  uint64_t seed = 0;
  Failure failure;
  std::string command;   // that runs it again
  std::string schedule;  // the path of its schedule; "" if there is none
};

struct ProbeCount {
  uint64_t seeds = 0;  // in which it was hit
  uint64_t times = 0;
};

struct CampaignResult {
  std::string scenario;
  std::vector<std::string> break_rules;
  uint64_t first = 1;
  std::optional<uint64_t> last;  // inclusive; nothing: it had time alone as a bound
  uint32_t shard = 1;
  uint32_t shards = 1;
  uint32_t jobs = 0;
  uint64_t seeds = 0;
  uint64_t twice = 0;
  uint64_t events = 0;
  int64_t committed = 0;
  int64_t world_ns = 0;
  int64_t elapsed_ms = 0;
  std::string stopped = "seeds";  // what ended it: seeds, time, failures, interrupted
  std::vector<FailedSeed> failures;
  std::map<std::string, ProbeCount> probes;
};

// The table of probes, the totals and how often each invariant failed. `asks_for_probes`: says
// which were never hit, which a campaign that was cut short cannot be blamed for.
void PrintResult(const CampaignResult& result, bool asks_for_probes);

std::string ResultJson(const CampaignResult& result);
absl::StatusOr<CampaignResult> ParseResult(std::string_view json);

// One test case per invariant, failed with the seeds that it failed in.
std::string ResultJunit(const CampaignResult& result);

// "" as the path: nothing is to be written; "-": standard output. False, with a message on the
// screen: it cannot be written.
bool WriteFile(const std::string& path, const std::string& text);

// The results of all shards as one. An error says why they are not parts of one campaign: another
// scenario, other rules, a seed that two have run. What of it is missing is appended to `missing`,
// a sentence each.
absl::StatusOr<CampaignResult> MergeResults(const std::vector<CampaignResult>& results,
                                            std::vector<std::string>* missing);

}  // namespace lockstep::sim
