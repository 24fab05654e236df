// Shards of campaigns and what is made of their results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/campaign_result.h"
#include "sim/checkers/invariants.h"
#include "sim/schedule_file.h"
#include "sim/shard.h"

namespace lockstep::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Environment Set(std::map<std::string, std::string> variables) {
  return [variables](const char* name) -> std::optional<std::string> {
    const auto it = variables.find(name);
    return it == variables.end() ? std::nullopt : std::optional(it->second);
  };
}

std::string ShardText(std::string_view option, std::map<std::string, std::string> variables) {
  const absl::StatusOr<Shard> shard = ShardOf(option, Set(std::move(variables)));
  if (!shard.ok()) return "error: " + std::string(shard.status().message());
  return std::to_string(shard->number) + "/" + std::to_string(shard->of);
}

TEST(Shard, IsTheOnlyOneUnlessSomethingSaysOtherwise) { EXPECT_EQ(ShardText("", {}), "1/1"); }

TEST(Shard, TheOptionCountsBeforeTheEnvironment) {
  EXPECT_EQ(ShardText("2/3", {{"JOB_COMPLETION_INDEX", "0"}}), "2/3");
}

TEST(Shard, OfSlurmCountsFromTheFirstOfTheArray) {
  EXPECT_EQ(ShardText("", {{"SLURM_ARRAY_TASK_ID", "0"},
                           {"SLURM_ARRAY_TASK_MIN", "0"},
                           {"SLURM_ARRAY_TASK_COUNT", "4"}}),
            "1/4");
  EXPECT_EQ(ShardText("", {{"SLURM_ARRAY_TASK_ID", "30"},
                           {"SLURM_ARRAY_TASK_MIN", "10"},
                           {"SLURM_ARRAY_TASK_STEP", "10"},
                           {"SLURM_ARRAY_TASK_COUNT", "3"}}),
            "3/3");
}

TEST(Shard, OfKubernetesCountsFromZero) {
  EXPECT_EQ(ShardText("", {{"JOB_COMPLETION_INDEX", "7"}, {"JOB_COMPLETIONS", "8"}}), "8/8");
}

TEST(Shard, WhatIsMissingOrMalformedIsAnErrorAndNotAllSeeds) {
  EXPECT_THAT(ShardText("", {{"JOB_COMPLETION_INDEX", "7"}}), HasSubstr("JOB_COMPLETIONS"));
  EXPECT_THAT(ShardText("", {{"SLURM_ARRAY_TASK_ID", "7"}}), HasSubstr("SLURM_ARRAY_TASK_COUNT"));
  EXPECT_THAT(ShardText("", {{"JOB_COMPLETION_INDEX", "8"}, {"JOB_COMPLETIONS", "8"}}),
              HasSubstr("which there is not"));
  EXPECT_THAT(ShardText("", {{"SLURM_ARRAY_TASK_ID", "7"}}),
              HasSubstr("SLURM_ARRAY_TASK_ID is set"));
  EXPECT_EQ(ShardText("", {{"JOB_COMPLETION_INDEX", ""}, {"JOB_COMPLETIONS", "8"}}),
            "error: JOB_COMPLETION_INDEX is not a number from 0 to 1000000: ``");
  EXPECT_THAT(ShardText("", {{"SLURM_ARRAY_TASK_ID", "1"},
                             {"SLURM_ARRAY_TASK_COUNT", "4"},
                             {"SLURM_ARRAY_TASK_MIN", "x"}}),
              HasSubstr("SLURM_ARRAY_TASK_MIN is not a number"));
  for (const char* option : {"0/3", "4/3", "1", "/3", "1/", "a/b", "1/3/4", "-1/3"}) {
    EXPECT_THAT(ShardText(option, {}), HasSubstr("error")) << option;
  }
}

CampaignResult Part(uint32_t shard, uint32_t shards) {
  CampaignResult result;
  result.scenario = "swarm";
  result.first = 1;
  result.last = 100;
  result.shard = shard;
  result.shards = shards;
  result.jobs = 2;
  result.seeds = 100 / shards;
  result.events = 1000 * shard;
  result.elapsed_ms = 10 * shard;
  result.probes["liveness-reached"] = {result.seeds, result.seeds};
  return result;
}

TEST(CampaignResult, OfAllShardsIsTheirSum) {
  std::vector<std::string> missing;
  const auto all = MergeResults({Part(1, 2), Part(2, 2)}, &missing);
  ASSERT_TRUE(all.ok());
  EXPECT_THAT(missing, ElementsAre());
  EXPECT_EQ(all->seeds, 100u);
  EXPECT_EQ(all->events, 3000u);
  EXPECT_EQ(all->elapsed_ms, 20);
  EXPECT_EQ(all->probes.at("liveness-reached").seeds, 100u);
  EXPECT_EQ(all->shards, 1u);
}

TEST(CampaignResult, AMissingShardIsNamed) {
  std::vector<std::string> missing;
  ASSERT_TRUE(MergeResults({Part(1, 3), Part(3, 3)}, &missing).ok());
  EXPECT_THAT(missing, ElementsAre("shard 2 of 3 is missing"));
}

TEST(CampaignResult, AnInterruptedShardIsNamed) {
  CampaignResult second = Part(2, 2);
  second.stopped = "interrupted";
  std::vector<std::string> missing;
  const auto all = MergeResults({Part(1, 2), second}, &missing);
  ASSERT_TRUE(all.ok());
  EXPECT_THAT(missing, ElementsAre("shard 2 of 2 was interrupted"));
  EXPECT_EQ(all->stopped, "interrupted");
}

TEST(CampaignResult, NoSeedCountsTwice) {
  std::vector<std::string> missing;
  EXPECT_FALSE(MergeResults({Part(1, 2), Part(1, 2)}, &missing).ok());
  EXPECT_FALSE(MergeResults({Part(1, 2), Part(1, 3)}, &missing).ok());
  CampaignResult next = Part(1, 1);
  next.first = 100;  // the last one of the other
  next.last = 200;
  EXPECT_FALSE(MergeResults({Part(1, 1), next}, &missing).ok());
  next.first = 101;
  EXPECT_TRUE(MergeResults({Part(1, 1), next}, &missing).ok());
}

TEST(CampaignResult, OfOtherCampaignsAreRefused) {
  CampaignResult other = Part(2, 2);
  other.scenario = "crashes";
  std::vector<std::string> missing;
  EXPECT_FALSE(MergeResults({Part(1, 2), other}, &missing).ok());
  other = Part(2, 2);
  other.break_rules = {"ack_after_durable"};
  EXPECT_FALSE(MergeResults({Part(1, 2), other}, &missing).ok());
}

CampaignResult WithFailure() {
  CampaignResult result = Part(2, 3);
  result.break_rules = {"ack_after_durable"};
  result.failures.push_back({18446744073709551615u,
                             {"agreement", "a \"quoted\" <1,4> & more\n"},
                             "./dev sim run --seed 7",
                             "failures/7.schedule"});
  return result;
}

TEST(CampaignResult, ReadsAsItWasWritten) {
  const std::string json = ResultJson(WithFailure());
  const auto read = ParseResult(json);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ResultJson(*read), json);
  EXPECT_EQ(read->failures.at(0).seed, 18446744073709551615u);
  EXPECT_EQ(read->failures.at(0).failure.detail, "a \"quoted\" <1,4> & more\n");
}

TEST(CampaignResult, NoOtherFileIsTakenForOne) {
  for (const char* text : {"", "[]", "{}", "{\"version\":2}", "{\"version\":1}", "nonsense"}) {
    EXPECT_FALSE(ParseResult(text).ok()) << text;
  }
  const std::string json = ResultJson(WithFailure());
  for (size_t size = 0; size + 1 < json.size(); size += 7) {
    EXPECT_FALSE(ParseResult(json.substr(0, size)).ok()) << size;
  }
}

TEST(Junit, HasACasePerInvariantAndFailsThoseThatFailed) {
  const std::string text = ResultJunit(WithFailure());
  for (const InvariantInfo& info : AllInvariants()) {
    EXPECT_THAT(text, HasSubstr("name=\"" + std::string(info.name) + "\""));
  }
  EXPECT_THAT(text, HasSubstr("failures=\"1\""));
  EXPECT_THAT(text, HasSubstr("a &quot;quoted&quot; &lt;1,4&gt; &amp; more"));
  EXPECT_THAT(text, HasSubstr("./dev sim run --seed 7"));
  EXPECT_THAT(ResultJunit(Part(1, 1)), HasSubstr("failures=\"0\""));
}

RunOptions Breaking(std::vector<std::string> rules) {
  RunOptions options;
  options.seed = 17;
  options.scenario = FindScenario("swarm");
  options.break_rules = std::move(rules);
  return options;
}

TEST(SchedulePath, NamesTheSeedAndTheRules) {
  EXPECT_EQ(SchedulePath("d", Breaking({})), "d/swarm-17.schedule");
  EXPECT_EQ(SchedulePath("d", Breaking({"refuse_gaps", "ack_after_durable"})),
            "d/swarm-17-refuse_gaps-ack_after_durable.schedule");
}

TEST(SchedulePath, OfManyRulesIsShortAndItsOwn) {
  std::vector<std::string> rules(30, "vote_by_epoch_first");
  const std::string path = SchedulePath("d", Breaking(rules));
  EXPECT_LT(path.size(), 100u);
  EXPECT_THAT(path, HasSubstr("d/swarm-17-vote_by_epoch_first-and-29-"));
  rules[20] = "refuse_gaps";
  EXPECT_NE(SchedulePath("d", Breaking(rules)), path);
}

}  // namespace
}  // namespace lockstep::sim
