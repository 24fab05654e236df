#include "sim/zoo.h"

#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/coordination/rules.h"
#include "core/replication/rules.h"
#include "core/zab/rules.h"
#include "sim/fork_each.h"
#include "sim/run.h"
#include "sim/schedule_file.h"
#include "sim/shrink.h"

namespace lockstep::sim {
namespace {

// Seeds of one campaign; no two campaigns of any two rules share one.
constexpr uint64_t kSeedsOfCampaign = 1'000'000;
constexpr uint64_t kCampaignsOfRule = 1'000;

struct Rule {
  std::string name;
  std::string fault;
  const char* scenario = "swarm";
  uint64_t number = 0;
  // Guards that stand behind this one, and are switched off with it.
  std::vector<std::string> with;
};

// What one campaign says to its parent.
struct Found {
  bool found = false;
  uint64_t seeds = 0;
  int64_t cpu_us = 0;
  std::string invariant;
  int64_t decisions = -1;  // of the shrunk schedule; -1: it was not shrunk
};

std::vector<std::string> GuardsBehind(const std::string& rule) {
  // Two that stand behind each other are found together, or not at all.
  constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
      {"vote_by_epoch_first", "abdicate_if_a_follower_is_ahead"},
      {"join_live_stream_atomically", "refuse_gaps"},
  };
  for (const auto& [front, behind] : kPairs) {
    if (rule == front) return {std::string(behind)};
    if (rule == behind) return {std::string(front)};
  }
  return {};
}

std::vector<Rule> AllOf() {
  std::vector<Rule> rules;
  const auto add = [&](const char* name, const char* says, const char* scenario) {
    rules.push_back({name, says, scenario, rules.size(), GuardsBehind(name)});
  };
  for (const zab::RuleEntry& rule : zab::AllRules()) add(rule.name, rule.says, "swarm");
  for (const coordination::RuleEntry& rule : coordination::AllRules()) {
    add(rule.name, rule.says, "swarm");
  }
  for (const replication::RuleEntry& rule : replication::AllRules()) {
    const bool disks = rule.member == &replication::Rules::leave_isr_before_giving_up;
    add(rule.name, rule.says, disks ? "brokers-disks" : "brokers");
  }
  return rules;
}

int64_t CpuMicroseconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000 + time.tv_nsec / 1'000;
}

// ---- One campaign, in a process of its own -----------------------------------------------------

int64_t Shrink(const ZooOptions& options, const RunOptions& run) {
  Schedule schedule;
  RunOptions record = run;
  record.record = &schedule;
  RunSeed(record);
  const int64_t end = CpuMicroseconds() + options.shrink_seconds * 1'000'000;
  Shrinker::Options shrink;
  shrink.stop = [end] { return CpuMicroseconds() >= end; };
  Shrinker shrinker(std::move(schedule), shrink);
  if (!shrinker.Run()) return -1;
  if (!options.directory.empty()) {
    SaveSchedule(SchedulePath(options.directory, run), shrinker.schedule());
  }
  return static_cast<int64_t>(SizeOf(shrinker.schedule()));
}

// The control: a seed that fails so in any case has not found the rule.
bool FailsUnbroken(RunOptions run, const std::string& invariant) {
  run.break_rules.clear();
  const RunResult result = RunSeed(run);
  return result.failure && result.failure->invariant == invariant;
}

std::string RunOne(const ZooOptions& options, const Rule& rule, uint32_t campaign) {
  const int64_t began = CpuMicroseconds();
  RunOptions run;
  run.scenario = FindScenario(rule.scenario);
  run.break_rules = rule.with;
  run.break_rules.insert(run.break_rules.begin(), rule.name);
  run.seed = (rule.number * kCampaignsOfRule + campaign) * kSeedsOfCampaign;
  Found found;
  while (!found.found && found.seeds < kSeedsOfCampaign) {
    found.cpu_us = CpuMicroseconds() - began;
    if (found.cpu_us >= options.budget_seconds * 1'000'000) break;
    ++run.seed;
    ++found.seeds;
    const RunResult result = RunSeed(run);
    if (!result.failure || FailsUnbroken(run, result.failure->invariant)) continue;
    found.found = true;
    found.invariant = result.failure->invariant;
    found.cpu_us = CpuMicroseconds() - began;
  }
  if (found.found && campaign < options.shrunk) found.decisions = Shrink(options, run);
  return absl::StrCat(found.found ? 1 : 0, " ", found.seeds, " ", found.cpu_us, " ",
                      found.decisions, " ", found.invariant);
}

std::optional<Found> Decode(const std::string& text) {
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  if (words.size() != 5) return std::nullopt;
  Found found;
  found.found = words[0] == "1";
  found.invariant = words[4];
  const bool good = absl::SimpleAtoi(words[1], &found.seeds) &&
                    absl::SimpleAtoi(words[2], &found.cpu_us) &&
                    absl::SimpleAtoi(words[3], &found.decisions);
  return good ? std::optional(found) : std::nullopt;
}

// ---- What the campaigns of a rule say together -------------------------------------------------

// The smallest value that at least `percent` of `count` are not above; nothing if there are fewer:
// a campaign that ended without a find says only that it would have taken longer.
std::optional<int64_t> Quantile(std::vector<int64_t> values, size_t count, size_t percent) {
  std::sort(values.begin(), values.end());
  const size_t rank = std::max<size_t>(1, (count * percent + 99) / 100);
  if (values.size() < rank) return std::nullopt;
  return values[rank - 1];
}

struct Row {
  const Rule* rule = nullptr;
  uint32_t campaigns = 0;  // that have ended
  uint32_t found = 0;
  std::vector<int64_t> seeds;
  std::vector<int64_t> cpu_us;
  std::vector<int64_t> decisions;
  std::map<std::string, uint32_t> invariants;

  void Add(const Found& one) {
    ++campaigns;
    if (!one.found) return;
    ++found;
    seeds.push_back(static_cast<int64_t>(one.seeds));
    cpu_us.push_back(one.cpu_us);
    ++invariants[one.invariant];
    if (one.decisions >= 0) decisions.push_back(one.decisions);
  }
  // The most frequent first.
  std::vector<std::pair<std::string, uint32_t>> Invariants() const {
    std::vector<std::pair<std::string, uint32_t>> all(invariants.begin(), invariants.end());
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return std::tie(b.second, a.first) < std::tie(a.second, b.first);
    });
    return all;
  }
  std::optional<int64_t> DecisionsMedian() const {
    return Quantile(decisions, decisions.size(), 50);
  }
};

std::string Number(std::optional<int64_t> value, const char* none) {
  return value ? absl::StrCat(*value) : none;
}

std::string SecondsText(std::optional<int64_t> us, const char* none) {
  return us ? absl::StrFormat("%d.%02d", *us / 1'000'000, *us % 1'000'000 / 10'000) : none;
}

std::string Json(const std::vector<Row>& rows) {
  std::string text = "{\"rules\": [";
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    std::vector<std::string> invariants;
    for (const auto& [name, count] : row.Invariants()) {
      invariants.push_back(absl::StrCat("\"", name, "\""));
    }
    absl::StrAppend(&text, i == 0 ? "\n" : ",\n", "  {\"rule\": \"", row.rule->name,
                    "\", \"fault\": \"", absl::Utf8SafeCEscape(row.rule->fault),
                    "\", \"campaigns\": ", row.campaigns, ", \"found\": ", row.found,
                    ", \"seeds_median\": ", Number(Quantile(row.seeds, row.campaigns, 50), "null"),
                    ", \"seeds_p90\": ", Number(Quantile(row.seeds, row.campaigns, 90), "null"));
    absl::StrAppend(
        &text, ", \"cpu_s_median\": ", SecondsText(Quantile(row.cpu_us, row.campaigns, 50), "null"),
        ", \"cpu_s_p90\": ", SecondsText(Quantile(row.cpu_us, row.campaigns, 90), "null"),
        ", \"invariants\": [", absl::StrJoin(invariants, ", "),
        "], \"shrunk_decisions_median\": ", Number(row.DecisionsMedian(), "null"), "}");
  }
  return text + "\n]}\n";
}

void PrintHead() {
  std::printf("%-42s %9s %8s %8s %8s %8s %7s  %s\n", "rule", "found", "seeds", "p90", "cpu s",
              "p90", "shrunk", "invariants");
}

void Print(const Row& row) {
  std::string invariants;
  for (const auto& [name, count] : row.Invariants()) {
    absl::StrAppend(&invariants, invariants.empty() ? "" : ", ", name, " ", count);
  }
  std::printf("%-42s %5u/%-3u %8s %8s %8s %8s %7s  %s\n", row.rule->name.c_str(), row.found,
              row.campaigns, Number(Quantile(row.seeds, row.campaigns, 50), "-").c_str(),
              Number(Quantile(row.seeds, row.campaigns, 90), "-").c_str(),
              SecondsText(Quantile(row.cpu_us, row.campaigns, 50), "-").c_str(),
              SecondsText(Quantile(row.cpu_us, row.campaigns, 90), "-").c_str(),
              Number(row.DecisionsMedian(), "-").c_str(), invariants.c_str());
  std::fflush(stdout);
}

bool WriteJson(const std::string& path, const std::string& text) {
  FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), "w");
  if (file == nullptr) {
    std::fprintf(stderr, "lockstep-sim: cannot write %s: %s\n", path.c_str(), std::strerror(errno));
    return false;
  }
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != stdout) std::fclose(file);
  return written;
}

}  // namespace

int RunZoo(const ZooOptions& options) {
  const std::vector<Rule> all = AllOf();
  std::vector<Row> rows;
  for (const Rule& rule : all) {
    const bool wanted =
        options.rules.empty() ||
        std::find(options.rules.begin(), options.rules.end(), rule.name) != options.rules.end();
    if (!wanted) continue;
    rows.emplace_back();
    rows.back().rule = &rule;
  }
  PrintHead();
  const size_t count = rows.size() * options.campaigns;
  const bool began = ForkEach(
      options.jobs, count,
      [&](size_t i) {
        return RunOne(options, *rows[i / options.campaigns].rule,
                      static_cast<uint32_t>(i % options.campaigns));
      },
      [&](size_t i, std::optional<std::string> text) {
        Row& row = rows[i / options.campaigns];
        std::optional<Found> found = text ? Decode(*text) : std::nullopt;
        // A process that dies has found something, though not what it looked for.
        if (!found) found = Found{.found = true, .invariant = "the-process-died"};
        row.Add(*found);
        if (row.campaigns == options.campaigns) Print(row);
        return true;
      });
  if (!began) return 2;
  const auto found_always = static_cast<size_t>(std::count_if(
      rows.begin(), rows.end(), [](const Row& row) { return row.found == row.campaigns; }));
  std::vector<int64_t> decisions;
  for (const Row& row : rows) {
    if (const auto median = row.DecisionsMedian()) decisions.push_back(*median);
  }
  std::printf(
      "%zu of %zu rules were found in all their %u campaigns of %lld s; shrunk schedules: "
      "a median of %s decisions\n",
      found_always, rows.size(), options.campaigns, static_cast<long long>(options.budget_seconds),
      Number(Quantile(decisions, decisions.size(), 50), "-").c_str());
  if (!options.json_file.empty() && !WriteJson(options.json_file, Json(rows))) return 2;
  return found_always == rows.size() ? 0 : 1;
}

}  // namespace lockstep::sim
