#include "sim/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "sim/decision_text.h"
#include "sim/explain.h"
#include "sim/run.h"
#include "sim/schedule_text.h"
#include "sim/shrink.h"

namespace lockstep::sim {
namespace {

Schedule Recorded(uint64_t seed, const char* scenario, std::vector<std::string> rules = {}) {
  InstallCheckHook();
  Schedule schedule;
  RunOptions options;
  options.seed = seed;
  options.scenario = FindScenario(scenario);
  options.break_rules = std::move(rules);
  options.record = &schedule;
  RunSeed(options);
  return schedule;
}

// The first of these seeds that fails.
Schedule FirstFailure(const char* scenario, const std::string& rule) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Schedule schedule = Recorded(seed, scenario, {rule});
    if (!schedule.fails.empty()) return schedule;
  }
  ADD_FAILURE() << rule << " is not found";
  return {};
}

RunResult Replay(const Schedule& schedule) {
  RunOptions options;
  options.schedule = &schedule;
  return RunSeed(options);
}

Schedule Parsed(const std::string& text) {
  absl::StatusOr<ReadSchedule> read = ParseSchedule(text);
  EXPECT_TRUE(read.ok()) << read.status();
  if (!read.ok()) return {};
  EXPECT_TRUE(read->unknown.empty()) << read->unknown[0];
  return read->schedule;
}

std::string Refusal(const std::string& text) {
  absl::StatusOr<ReadSchedule> read = ParseSchedule(text);
  return read.ok() ? "" : std::string(read.status().message());
}

struct SeedOf {
  uint64_t seed;
  const char* scenario;
};

class EveryScenario : public testing::TestWithParam<SeedOf> {};

TEST_P(EveryScenario, AScheduleReplaysToTheHashOfItsSeed) {
  const Schedule schedule = Recorded(GetParam().seed, GetParam().scenario);
  const Schedule read = Parsed(ToText(schedule));
  const RunResult result = Replay(read);
  EXPECT_EQ(result.hash, schedule.hash);
  EXPECT_EQ(result.unmatched, std::vector<size_t>());
  EXPECT_TRUE(result.late.empty());
}

TEST_P(EveryScenario, AScheduleIsReadAsItWasWritten) {
  const std::string text = ToText(Recorded(GetParam().seed, GetParam().scenario));
  EXPECT_EQ(ToText(Parsed(text)), text);
}

INSTANTIATE_TEST_SUITE_P(
    Seeds, EveryScenario,
    testing::Values(SeedOf{1, "swarm"}, SeedOf{2, "swarm"}, SeedOf{3, "swarm"}, SeedOf{4, "swarm"},
                    SeedOf{5, "network"}, SeedOf{6, "crashes"}, SeedOf{7, "disks"},
                    SeedOf{8, "clients"}, SeedOf{9, "clients"}, SeedOf{10, "swarm"},
                    SeedOf{11, "swarm"}, SeedOf{12, "crashes"}, SeedOf{1, "brokers"},
                    SeedOf{2, "brokers"}, SeedOf{3, "brokers"}, SeedOf{4, "brokers-network"},
                    SeedOf{5, "brokers-crashes"}),
    [](const testing::TestParamInfo<SeedOf>& info) {
      std::string name = info.param.scenario;
      std::replace(name.begin(), name.end(), '-', '_');
      return name + std::to_string(info.param.seed);
    });

TEST(Schedule, WithKeyedStreamsIsARunOfItsOwnAndRepeats) {
  Schedule schedule = Recorded(3, "crashes");
  const uint64_t drawn = schedule.hash;
  schedule.plan.streams = 7;
  const RunResult once = Replay(schedule);
  EXPECT_NE(once.hash, drawn);
  EXPECT_EQ(Replay(Parsed(ToText(schedule))).hash, once.hash);
}

TEST(Schedule, WhatIsNotListedDoesNotHappen) {
  Schedule schedule = Recorded(3, "crashes");
  std::erase_if(schedule.decisions, [](const Decision& decision) { return decision.is_fault(); });
  std::string trace;
  RunOptions options;
  options.schedule = &schedule;
  options.sink = [](void* context, std::string_view line) {
    static_cast<std::string*>(context)->append(line).append("\n");
  };
  options.sink_context = &trace;
  RunSeed(options);
  EXPECT_NE(trace.find(" request "), std::string::npos);
  EXPECT_EQ(trace.find("  fault "), std::string::npos);
}

TEST(Schedule, ADecisionWithoutItsTargetIsNamed) {
  Schedule schedule = Recorded(1, "calm");
  FaultDecision kill;
  kill.kind = FaultKind::kKill;
  kill.server = 0;
  const Instant at = Instant{} + schedule.plan.options.tick * 20;
  // The second one finds it dead.
  schedule.decisions = {{at, 0, kill}, {at, 0, kill}};
  EXPECT_EQ(Replay(schedule).unmatched, std::vector<size_t>{1});
}

TEST(Schedule, AnAbsentClientDoesNothing) {
  Schedule schedule = Recorded(2, "calm");
  ASSERT_GT(ClientsOf(schedule.plan), 1u);
  const Schedule without = WithoutClient(schedule, 0);
  std::string trace;
  RunOptions options;
  options.schedule = &without;
  options.sink = [](void* context, std::string_view line) {
    static_cast<std::string*>(context)->append(line).append("\n");
  };
  options.sink_context = &trace;
  const RunResult result = RunSeed(options);
  EXPECT_FALSE(result.failure.has_value());
  EXPECT_EQ(trace.find("  c0  "), std::string::npos);
  EXPECT_NE(trace.find("  c1  "), std::string::npos);
}

TEST(ScheduleText, AnotherVersionIsRefused) {
  EXPECT_NE(Refusal("lockstep-schedule 2\n").find("version 2"), std::string::npos);
  EXPECT_NE(Refusal("seed 1\n").find("no schedule"), std::string::npos);
}

TEST(ScheduleText, ABadValueIsRefusedWithItsLine) {
  EXPECT_NE(Refusal("lockstep-schedule 1\nseed 1\nplan server tick=fast\n").find("line 3"),
            std::string::npos);
  EXPECT_NE(Refusal("lockstep-schedule 1\nservers 9\nplan run chaos=1s\n").find("out of bounds"),
            std::string::npos);
  EXPECT_NE(Refusal("lockstep-schedule 1\n1.5 fault kill s1\n").find("nine digits"),
            std::string::npos);
  // Whom the first line names would be somebody else.
  EXPECT_NE(
      Refusal("lockstep-schedule 1\n1.000000000 fault client-moves c0\nplan clients count=0\n")
          .find("comes before"),
      std::string::npos);
  EXPECT_NE(Refusal("lockstep-schedule 1\nscenario none\n1.000000000 fault kill s1\n")
                .find("no scenario none"),
            std::string::npos);
}

TEST(ScheduleText, WhatThisBuildDoesNotKnowIsNamedAndLeftOut) {
  absl::StatusOr<ReadSchedule> read = ParseSchedule(
      "lockstep-schedule 1\nservers 3\nplan run chaos=3s colour=7\nplan moon phase=1\n"
      "1.000000000 fault meteor s1\n1.000000000 fault kill s9\n2.000000000 fault kill s2\n");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->unknown.size(), 4u);
  ASSERT_EQ(read->schedule.decisions.size(), 1u);
  EXPECT_EQ(DescribeDecision(read->schedule.plan, read->schedule.decisions[0]), "fault kill s2");
  EXPECT_EQ(read->schedule.plan.chaos, Seconds(3));
}

TEST(ScheduleText, CommentsAndOrderDoNotMatter) {
  const Schedule schedule = Parsed(
      "lockstep-schedule 1 # the first line\n\n# nothing\nservers 3\n"
      "2.000000000 fault kill s2 # later\n1.000000000 fault power-loss-all\n");
  ASSERT_EQ(schedule.decisions.size(), 2u);
  EXPECT_EQ(schedule.decisions[0].at, Instant{1'000'000'000});
}

TEST(ScheduleText, DamagedTextIsRefusedOrIsASchedule) {
  const std::string good = ToText(Recorded(3, "brokers"));
  RandomStream random(1, {}, 0, 0);
  int accepted = 0;
  for (int i = 0; i < 300; ++i) {
    std::string text = good;
    for (uint64_t changes = random.Below(4) + 1; changes > 0; --changes) {
      // Within the lines that describe, mostly; there are far more decisions.
      const size_t end = random.Chance(2, 3) ? std::min<size_t>(text.size(), 2'500) : text.size();
      const size_t at = random.Below(end);
      const size_t from = random.Below(text.size());
      if (random.Chance(1, 2)) {
        text[at] = text[from];
      } else {
        text.erase(at, random.Below(40));
      }
    }
    absl::StatusOr<ReadSchedule> read = ParseSchedule(text);
    if (!read.ok()) continue;
    ++accepted;
    const std::string written = ToText(read->schedule);
    EXPECT_EQ(ToText(Parsed(written)), written) << text;
  }
  EXPECT_GT(accepted, 30);
}

TEST(ScheduleText, DurationsAreExact) {
  for (int64_t ns : {int64_t{0}, int64_t{1}, int64_t{1'500}, int64_t{2'000'000},
                     int64_t{3'000'000'000}, int64_t{1'234'567'891}}) {
    EXPECT_EQ(ParseDuration(DurationText(Duration{ns})), Duration{ns}) << ns;
  }
  EXPECT_EQ(ParseDuration("5"), std::nullopt);
  EXPECT_EQ(ParseDuration("-5s"), std::nullopt);
  EXPECT_EQ(ParseDuration("99999999999999999s"), std::nullopt);
}

TEST(Shrink, AServerThatIsLeftOutIsNowhere) {
  Schedule schedule = Parsed(
      "lockstep-schedule 1\nservers 4\n"
      "1.000000000 fault kill s2\n"
      "2.000000000 fault kill s4\n"
      "3.000000000 fault split side=s1,s2,s3 for=1s\n"
      "4.000000000 fault reset-storm connection=learner:s2:s1:0 connection=learner:s4:s3:0\n");
  const std::optional<Schedule> without = WithoutServer(schedule, 1);
  ASSERT_TRUE(without.has_value());
  EXPECT_EQ(without->plan.servers, 3u);
  std::vector<std::string> texts;
  for (const Decision& d : without->decisions) texts.push_back(DescribeDecision(without->plan, d));
  EXPECT_EQ(texts, (std::vector<std::string>{"fault kill s3", "fault split side=s1,s2 for=1s",
                                             "fault reset-storm connection=learner:s3:s2:0"}));
}

TEST(Shrink, WhatIsLeftFailsTheSameInvariantAndIsSmall) {
  const Schedule schedule = FirstFailure("swarm", "truncate_before_diff");
  ASSERT_GT(SizeOf(schedule), 20u);
  Shrinker shrinker(schedule, {.runs_max = 600});
  ASSERT_TRUE(shrinker.Run());
  EXPECT_LT(SizeOf(shrinker.schedule()), SizeOf(schedule) / 2);
  const RunResult result = Replay(Parsed(ToText(shrinker.schedule())));
  ASSERT_TRUE(result.failure.has_value());
  EXPECT_EQ(result.failure->invariant, schedule.fails);
  EXPECT_EQ(result.hash, shrinker.schedule().hash);
}

TEST(Shrink, OfACleanScheduleNothing) {
  Shrinker shrinker(Recorded(1, "calm"), {});
  EXPECT_FALSE(shrinker.Run());
}

TEST(Explain, NamesAreZxidsFirstThenPathsAndPartitions) {
  EXPECT_EQ(NamesIn("server 2 has t0-1 (/k1, /k1) at <1,5>, not <0,0> of a-b"),
            (std::vector<std::string>{"<1,5>", "t0-1", "/k1"}));
}

TEST(Explain, TellsWhatMustHoldWhatContradictsItAndWhatWasDone) {
  const Schedule schedule = FirstFailure("swarm", "ack_after_durable");
  RunOptions options;
  options.schedule = &schedule;
  const RunResult result = RunSeed(options);
  ASSERT_TRUE(result.failure.has_value());
  const std::string text = Explain(options, *result.failure);
  for (const char* part : {"What must hold: ", "What contradicts it:\n", "Who did what last:\n",
                           "What was done to them: "}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  EXPECT_NE(text.find(result.failure->detail), std::string::npos) << text;
}

// Each bug that was found, as its schedule: without a broken rule it must be clean now; with one,
// the rule's fault must still be found.
TEST(Schedules, OfTheRegressionFolderDoAsTheySay) {
  InstallCheckHook();
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(LOCKSTEP_SCHEDULES)) {
    if (entry.path().extension() == ".schedule") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  EXPECT_FALSE(paths.empty());
  for (const std::filesystem::path& path : paths) {
    SCOPED_TRACE(path.filename().string());
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    const Schedule schedule = Parsed(text.str());
    const RunResult result = Replay(schedule);
    const std::string failed = result.failure ? result.failure->invariant : "";
    EXPECT_EQ(failed, schedule.break_rules.empty() ? "" : schedule.fails)
        << (result.failure ? result.failure->detail : "");
  }
}

}  // namespace
}  // namespace lockstep::sim
