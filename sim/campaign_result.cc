#include "sim/campaign_result.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "sim/checkers/invariants.h"
#include "sim/json_text.h"
#include "sim/plan.h"
#include "sim/probes.h"

namespace lockstep::sim {
namespace {

// What XML 1.0 cannot say is left out.
std::string Xml(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '&':
        escaped += "&amp;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\n') escaped += c;
    }
  }
  return escaped;
}

std::string SeedsOf(const CampaignResult& result) {
  return result.last ? absl::StrCat(result.first, "..", *result.last)
                     : absl::StrCat("from ", result.first);
}

}  // namespace

void PrintResult(const CampaignResult& result, bool asks_for_probes) {
  std::printf("%-32s %12s %12s\n", "probe", "seeds", "times");
  const Scenario* scenario = FindScenario(result.scenario);
  size_t never = 0;
  for (const ProbeInfo& probe : AllProbes()) {
    const auto it = result.probes.find(probe.name);
    const ProbeCount count = it == result.probes.end() ? ProbeCount() : it->second;
    const bool missed = count.times == 0 && scenario != nullptr && BelongsTo(probe, *scenario);
    if (count.times == 0 && !missed) continue;  // nothing here leads there
    absl::PrintF("%-32s %12d %12d%s\n", probe.name, count.seeds, count.times,
                 missed ? "  NEVER" : "");
    never += missed ? 1 : 0;
  }
  const auto ms = static_cast<uint64_t>(std::max<int64_t>(1, result.elapsed_ms));
  absl::PrintF(
      "%d seeds (%d twice), %d events, %d transactions, %d s of simulated time in %d.%03d s: %d "
      "seeds/s, %d events/s\n",
      result.seeds, result.twice, result.events, result.committed, result.world_ns / 1'000'000'000,
      ms / 1000, ms % 1000, result.seeds * 1000 / ms, result.events * 1000 / ms);
  if (asks_for_probes && never > 0) {
    absl::PrintF("%d %s never hit\n", never, never == 1 ? "probe was" : "probes were");
  }
  std::map<std::string, size_t> by_invariant;
  for (const FailedSeed& failed : result.failures) ++by_invariant[failed.failure.invariant];
  for (const auto& [invariant, count] : by_invariant) {
    absl::PrintF("%s failed in %d %s\n", invariant, count, count == 1 ? "seed" : "seeds");
  }
  std::fflush(stdout);
}

std::string ResultJson(const CampaignResult& result) {
  std::string text = "{\"version\":1,\"scenario\":";
  AppendJson(&text, result.scenario);
  text += ",\"break\":[";
  for (size_t i = 0; i < result.break_rules.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ",", JsonString(result.break_rules[i]));
  }
  absl::StrAppend(&text, "],\"first_seed\":", result.first);
  if (result.last) absl::StrAppend(&text, ",\"last_seed\":", *result.last);
  absl::StrAppend(&text, ",\"shard\":", result.shard, ",\"shards\":", result.shards,
                  ",\"stopped\":", JsonString(result.stopped), ",\"seeds\":", result.seeds);
  absl::StrAppend(&text, ",\"seeds_twice\":", result.twice, ",\"events\":", result.events,
                  ",\"transactions\":", result.committed,
                  ",\"simulated_ms\":", result.world_ns / 1'000'000);
  absl::StrAppend(&text, ",\"elapsed_ms\":", result.elapsed_ms, ",\"jobs\":", result.jobs,
                  ",\"failures\":[");
  for (size_t i = 0; i < result.failures.size(); ++i) {
    const FailedSeed& failed = result.failures[i];
    absl::StrAppend(&text, i == 0 ? "" : ",", "{\"seed\":", failed.seed,
                    ",\"invariant\":", JsonString(failed.failure.invariant),
                    ",\"detail\":", JsonString(failed.failure.detail),
                    ",\"command\":", JsonString(failed.command));
    absl::StrAppend(&text, ",\"schedule\":", JsonString(failed.schedule), "}");
  }
  text += "],\"probes\":[";
  bool first = true;
  for (const auto& [name, count] : result.probes) {
    absl::StrAppend(&text, first ? "" : ",", "{\"name\":", JsonString(name),
                    ",\"seeds\":", count.seeds, ",\"times\":", count.times, "}");
    first = false;
  }
  return text + "]}\n";
}

absl::StatusOr<CampaignResult> ParseResult(std::string_view json) {
  CampaignResult result;
  try {
    const boost::json::value value = boost::json::parse({json.data(), json.size()});
    const boost::json::object& all = value.as_object();
    const auto number = [](const boost::json::object& object, const char* key) {
      return object.at(key).to_number<uint64_t>();
    };
    const auto text = [](const boost::json::object& object, const char* key) {
      return std::string(object.at(key).as_string());
    };
    if (number(all, "version") != 1) {
      return absl::InvalidArgumentError("it is of a version that this program does not know");
    }
    result.scenario = text(all, "scenario");
    for (const auto& rule : all.at("break").as_array()) {
      result.break_rules.emplace_back(rule.as_string());
    }
    result.first = number(all, "first_seed");
    if (all.contains("last_seed")) result.last = number(all, "last_seed");
    result.shard = all.at("shard").to_number<uint32_t>();
    result.shards = all.at("shards").to_number<uint32_t>();
    result.jobs = all.at("jobs").to_number<uint32_t>();
    result.stopped = text(all, "stopped");
    result.seeds = number(all, "seeds");
    result.twice = number(all, "seeds_twice");
    result.events = number(all, "events");
    result.committed = all.at("transactions").to_number<int64_t>();
    result.world_ns = all.at("simulated_ms").to_number<int64_t>() * 1'000'000;
    result.elapsed_ms = all.at("elapsed_ms").to_number<int64_t>();
    for (const auto& item : all.at("failures").as_array()) {
      const boost::json::object& failed = item.as_object();
      result.failures.push_back({number(failed, "seed"),
                                 {text(failed, "invariant"), text(failed, "detail")},
                                 text(failed, "command"),
                                 text(failed, "schedule")});
    }
    for (const auto& item : all.at("probes").as_array()) {
      const boost::json::object& probe = item.as_object();
      result.probes[text(probe, "name")] = {number(probe, "seeds"), number(probe, "times")};
    }
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("it is not the result of a campaign (--json): ", error.what()));
  }
  return result;
}

std::string ResultJunit(const CampaignResult& result) {
  std::map<std::string, std::vector<const FailedSeed*>> failed;
  for (const InvariantInfo& info : AllInvariants()) failed[info.name];
  failed["deterministic"];
  for (const FailedSeed& seed : result.failures) failed[seed.failure.invariant].push_back(&seed);
  const size_t bad = static_cast<size_t>(std::count_if(
      failed.begin(), failed.end(), [](const auto& of) { return !of.second.empty(); }));
  const std::string name = Xml(
      absl::StrCat("lockstep-sim ", result.scenario, result.break_rules.empty() ? "" : " without ",
                   absl::StrJoin(result.break_rules, ","), " seeds ", SeedsOf(result)));
  const std::string counts = absl::StrCat("tests=\"", failed.size(), "\" failures=\"", bad,
                                          "\" errors=\"0\" time=\"", result.elapsed_ms / 1000, ".",
                                          absl::StrFormat("%03d", result.elapsed_ms % 1000), "\"");
  std::string text = absl::StrCat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites ",
                                  counts, ">\n  <testsuite name=\"", name, "\" ", counts, ">\n");
  absl::StrAppend(&text, "    <properties>\n      <property name=\"seeds\" value=\"", result.seeds,
                  "\"/>\n      <property name=\"events\" value=\"", result.events,
                  "\"/>\n      <property name=\"stopped\" value=\"", Xml(result.stopped),
                  "\"/>\n    </properties>\n");
  for (const auto& [invariant, seeds] : failed) {
    absl::StrAppend(&text, "    <testcase classname=\"lockstep-sim.", Xml(result.scenario),
                    "\" name=\"", Xml(invariant), "\"");
    if (seeds.empty()) {
      text += "/>\n";
      continue;
    }
    absl::StrAppend(&text, ">\n      <failure message=\"in ", seeds.size(),
                    seeds.size() == 1 ? " seed: " : " seeds; the first: ",
                    Xml(seeds.front()->failure.detail), "\">");
    for (const FailedSeed* seed : seeds) {
      absl::StrAppend(&text, "seed ", seed->seed, ": ", Xml(seed->failure.detail), "\n  ",
                      Xml(seed->command), "\n");
      if (!seed->schedule.empty()) absl::StrAppend(&text, "  ", Xml(seed->schedule), "\n");
    }
    text += "</failure>\n    </testcase>\n";
  }
  return text + "  </testsuite>\n</testsuites>\n";
}

bool WriteFile(const std::string& path, const std::string& text) {
  if (path.empty()) return true;
  FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), "w");
  bool good = file != nullptr;
  if (good) {
    good = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    good = (file == stdout ? std::fflush(file) : std::fclose(file)) == 0 && good;
  }
  if (!good) {
    std::fprintf(stderr, "lockstep-sim: cannot write %s: %s\n", path.c_str(), std::strerror(errno));
  }
  return good;
}

absl::StatusOr<CampaignResult> MergeResults(const std::vector<CampaignResult>& results,
                                            std::vector<std::string>* missing) {
  if (results.empty()) return absl::InvalidArgumentError("there is nothing to merge");
  CampaignResult all = results.front();
  all.failures.clear();
  all.probes.clear();
  all.shard = all.shards = 1;
  all.jobs = 0;
  all.seeds = all.twice = all.events = 0;
  all.committed = all.world_ns = 0;
  // Of each range of seeds that was divided: which shards there are.
  using Range = std::tuple<uint64_t, uint64_t, uint32_t>;
  std::map<Range, std::set<uint32_t>> shards;
  for (const CampaignResult& one : results) {
    if (one.scenario != all.scenario || one.break_rules != all.break_rules) {
      return absl::InvalidArgumentError(absl::StrCat(
          "these are not of one campaign: scenario ", all.scenario, " and ", one.scenario,
          one.break_rules == all.break_rules ? "" : ", with other rules switched off"));
    }
    const Range range{one.first, one.last.value_or(UINT64_MAX), one.shards};
    if (one.shard < 1 || one.shard > one.shards || !shards[range].insert(one.shard).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          "shard ", one.shard, " of ", one.shards, " of seeds ", SeedsOf(one), " is there twice"));
    }
    // Of a range without an end nothing is known but where it begins.
    all.first = std::min(all.first, one.first);
    all.last = all.last && one.last ? std::optional(std::max(*all.last, *one.last)) : std::nullopt;
    all.jobs += one.jobs;
    all.seeds += one.seeds;
    all.twice += one.twice;
    all.events += one.events;
    all.committed += one.committed;
    all.world_ns += one.world_ns;
    all.elapsed_ms = std::max(all.elapsed_ms, one.elapsed_ms);
    if (one.stopped == "interrupted") {
      missing->push_back(absl::StrCat("shard ", one.shard, " of ", one.shards, " was interrupted"));
    }
    if (one.stopped != "seeds" && all.stopped != "interrupted") all.stopped = one.stopped;
    all.failures.insert(all.failures.end(), one.failures.begin(), one.failures.end());
    for (const auto& [name, count] : one.probes) {
      all.probes[name].seeds += count.seeds;
      all.probes[name].times += count.times;
    }
  }
  std::optional<Range> before;
  for (const auto& [range, there] : shards) {
    const auto& [first, last, of] = range;
    if (before && first <= std::get<1>(*before)) {
      return absl::InvalidArgumentError(
          absl::StrCat("seeds from ", first, " on were run by two: each would count twice"));
    }
    before = range;
    for (uint32_t shard = 1; shard <= of; ++shard) {
      if (!there.contains(shard)) {
        missing->push_back(absl::StrCat("shard ", shard, " of ", of, " is missing"));
      }
    }
  }
  std::sort(all.failures.begin(), all.failures.end(),
            [](const FailedSeed& a, const FailedSeed& b) { return a.seed < b.seed; });
  return all;
}

}  // namespace lockstep::sim
