// Random faults on a few replicas: nothing committed is lost or changes, whoever may be elected has
// it, and once the faults end everything comes into order. And the same with each guard of the data
// path switched off: then it must not.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "tests/support/partition_ensemble.h"

namespace lockstep::replication {
namespace {

TEST(Ensemble, CommittedIsNeverLostAndEverythingComesIntoOrder) {
  std::map<std::string, int> seen;
  int acknowledged = 0;
  for (uint64_t seed = 1; seed <= 4000; ++seed) {
    PartitionEnsemble ensemble(seed, {});
    ensemble.Run();
    ASSERT_EQ(ensemble.violation(), "") << "seed " << seed;
    acknowledged += ensemble.acknowledged();
    for (const auto& [name, count] : ensemble.seen()) seen[name] += count;
  }
  EXPECT_GT(acknowledged, 4'000);
  // What the run is for was there.
  for (const char* name : {"history-diverged",
                           "log-truncated:histories-part",
                           "log-restarted:at-leaders-log-start",
                           "isr-shrink",
                           "isr-expand",
                           "isr-changed",
                           "isr-change-failed:refused",
                           "isr-change-failed:unknown",
                           "produces-failed",
                           "fetch-refused:fenced-leader-epoch",
                           "fetch-refused:unknown-leader-epoch",
                           "fetch-refused:stale-incarnation",
                           "fetch-refused:not-replica",
                           "fetch-refused:offset-out-of-range",
                           "ignored:fetch-of-a-former-assignment",
                           "ignored:response-to-another-offset",
                           "ignored:response-of-another-epoch",
                           "ignored:isr-change-of-another-epoch",
                           "lost-disk",
                           "closed"}) {
    EXPECT_GT(seen[name], 0) << name;
  }
  EXPECT_EQ(seen["log-truncated:below-high-watermark"], 0);
  EXPECT_EQ(seen["fetch-failed:epoch-out-of-order"], 0);
}

// The same seed is the same run. LOCKSTEP_SEED=671 in the environment prints that one.
TEST(Ensemble, RepeatsASeed) {
  const char* chosen = std::getenv("LOCKSTEP_SEED");
  const uint64_t seed = chosen != nullptr ? std::strtoull(chosen, nullptr, 10) : 7;
  PartitionEnsemble ensemble(seed, {.trace = true});
  ensemble.Run();
  if (chosen != nullptr) std::printf("%s", ensemble.trace().c_str());
  EXPECT_EQ(ensemble.violation(), "");
  PartitionEnsemble again(seed, {.trace = true});
  again.Run();
  EXPECT_NE(ensemble.trace(), "");
  EXPECT_EQ(ensemble.trace(), again.trace());
}

struct Broken {
  const char* name;
  std::vector<bool Rules::*> off;
};

std::string FirstViolation(const Broken& broken, uint64_t seeds, uint64_t* seed) {
  PartitionEnsemble::Options options;
  for (bool Rules::* rule : broken.off) options.rules.*rule = false;
  for (*seed = 1; *seed <= seeds; ++*seed) {
    PartitionEnsemble ensemble(*seed, options);
    ensemble.Run();
    if (!ensemble.violation().empty()) return ensemble.violation();
  }
  return "";
}

class EnsembleWithout : public testing::TestWithParam<Broken> {};

TEST_P(EnsembleWithout, IsFoundOut) {
  uint64_t seed = 0;
  const std::string violation = FirstViolation(GetParam(), 8000, &seed);
  EXPECT_NE(violation, "");
  RecordProperty("violation", violation);
  std::printf("  seed %4d  %s\n", static_cast<int>(seed), violation.c_str());
}

INSTANTIATE_TEST_SUITE_P(
    Rules, EnsembleWithout,
    testing::Values(
        // The ladder: the seed, KIP-101, and KIP-279, which with truncation by fetching is
        // KIP-320's first try.
        Broken{"TruncateToHighWatermark",
               {&Rules::truncate_by_leader_epoch, &Rules::answer_largest_epoch_not_above,
                &Rules::fence_fetches_by_leader_epoch}},
        Broken{"Kip101",
               {&Rules::answer_largest_epoch_not_above, &Rules::fence_fetches_by_leader_epoch}},
        Broken{"TruncateByLeaderEpoch", {&Rules::truncate_by_leader_epoch}},
        Broken{"AnswerLargestEpochNotAbove", {&Rules::answer_largest_epoch_not_above}},
        Broken{"ReconcileOnEveryEpoch", {&Rules::reconcile_on_every_epoch}},
        Broken{"TruncateEmptyEpochs", {&Rules::truncate_empty_epochs}},
        Broken{"DiscardResponsesOfOtherFetches", {&Rules::discard_responses_of_other_fetches}},
        Broken{"BoundHighWatermarkByLogEnd", {&Rules::bound_high_watermark_by_log_end}},
        Broken{"FetchAfterDurable", {&Rules::fetch_after_durable}},
        Broken{"KeepHighWatermarkOnElection", {&Rules::keep_high_watermark_on_election}},
        Broken{"WaitForMaximalIsr", {&Rules::wait_for_maximal_isr}},
        Broken{"FreezeHighWatermarkBelowMinIsr", {&Rules::freeze_high_watermark_below_min_isr}},
        Broken{"ForgetFollowersOnElection", {&Rules::forget_followers_on_election}},
        Broken{"JoinIsrAtEpochStart", {&Rules::join_isr_at_epoch_start}},
        Broken{"DivergingFetchAcknowledgesNothing", {&Rules::diverging_fetch_acknowledges_nothing}},
        Broken{"RefuseFetchesOfFormerAssignments", {&Rules::refuse_fetches_of_former_assignments}},
        Broken{"FenceFollowersByIncarnation", {&Rules::fence_followers_by_incarnation}},
        Broken{"BindAcksToLeaderEpoch", {&Rules::bind_acks_to_leader_epoch}},
        Broken{"LeaderCountsDurableOnly", {&Rules::leader_counts_durable_only}},
        Broken{"KeepBothIsrsWhileUnknown", {&Rules::keep_both_isrs_while_unknown}},
        // The registry's, which stands for what core/replication/broker does.
        Broken{"CompareVersions", {&Rules::compare_versions}},
        Broken{"ElectFromIsrOnly", {&Rules::elect_from_isr_only}},
        Broken{"ElectRetainedIncarnationOnly", {&Rules::elect_retained_incarnation_only}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace lockstep::replication
