// Every crash point of partition logs: a script that touches everything runs up to each of its
// operations, loses power in several ways, and must come back as some prefix of what was asked for
// that holds all that was told durable, each log byte for byte.
#include <gtest/gtest.h>

#include <memory>

#include "core/base/random.h"
#include "tests/support/log_harness.h"

namespace lockstep::storage {
namespace {

std::function<bool()> Keep(uint64_t way) {
  if (way <= 1) return [] { return false; };
  if (way == 2) return [] { return true; };
  auto random = std::make_shared<RandomStream>(way, ServerId{1}, 0, 0);
  return [random] { return random->Chance(1, 2); };
}

constexpr uint64_t kWays = 8;
// So that the test takes seconds; the stride is prime to the ways.
constexpr uint64_t kStride = 29;

struct Parameters {
  uint64_t journal_segment_bytes;
  uint64_t journal_bytes_max;
  uint64_t log_segment_bytes;
};

class LogCrashPoints : public testing::TestWithParam<Parameters> {
 protected:
  static StoreOptions Options() {
    StoreOptions options{
        .server = {1}, .segment_bytes = GetParam().journal_segment_bytes, .retained_bytes = 0};
    options.logs = LogOptions{.segment_bytes = GetParam().log_segment_bytes,
                              .index_interval_bytes = 100,
                              .cache_bytes = 300,
                              .journal_bytes_max = GetParam().journal_bytes_max};
    return options;
  }

  // One life of a server, from an empty disk. False: cut short.
  static bool Script(LogHarness* h, uint64_t budget) {
    h->Restart();
    if (!h->RunWithin(&budget)) return false;
    EXPECT_EQ(h->CheckRecovered(), "");
    h->SetBrokerEpoch(7);
    const LogNumber a = h->Create("a", 0);
    const LogNumber b = h->Create("b", 3, {5, 6}, 100);
    for (int i = 0; i < 6; ++i) h->Append(a, 1, 1 + i % 2, 30);
    h->Append(b, 1, 2, 20);
    if (!h->RunWithin(&budget)) return false;
    for (int i = 0; i < 6; ++i) h->Append(a, 2, 1, 40);
    h->Snapshot(a, h->Now().logs.at(a).extent.end);
    h->Flush();
    h->Do(a, LogTruncate{9});  // while the batch before is under way
    h->Do(a, LogEpoch{{3, 9}});
    for (int i = 0; i < 4; ++i) h->Append(a, 3, 2, 30);
    if (!h->RunWithin(&budget)) return false;
    h->Do(a, LogTruncate{4});
    h->Append(a, 5, 3, 60);
    h->Do(a, LogTruncate{4});
    h->Append(a, 6, 1, 60);
    h->Do(b, LogStart{300});  // emptied, above its end
    h->Append(b, 6, 1, 300);
    const LogNumber c = h->Create("c", 0);
    h->Append(c, 6, 1, 20);
    h->Flush();
    h->Delete(c);
    if (!h->RunWithin(&budget)) return false;
    const LogNumber again = h->Create("c", 0);  // the same directory
    for (int i = 0; i < 5; ++i) h->Append(again, 8, 1, 50);
    h->Delete(b);
    h->Do(a, LogStart{3});
    for (int i = 0; i < 8; ++i) h->Append(a, 8, 2, 40);
    h->SetBrokerEpoch(8);
    if (!h->RunWithin(&budget)) return false;
    h->Do(a, LogStart{h->Now().logs.at(a).extent.end - 3});
    h->Snapshot(a, h->Now().logs.at(a).extent.end);
    h->Append(a, 9, 1, 10);
    h->Checkpoint();
    return h->RunWithin(&budget);
  }

  static void Recover(LogHarness* h, uint64_t way, const std::string& where) {
    for (uint64_t again = 0; again < way % 4; ++again) {
      h->Restart();
      for (uint64_t n = 0; n < 1 + (way * 7 + again * 13) % 40; ++n) h->ExecuteOne();
      ASSERT_EQ(h->fatal(), "") << where;
      h->Crash(Keep(way + again + 100));
    }
    h->RestartAndRecover();
    ASSERT_EQ(h->CheckRecovered(), "") << where;

    // What is appended now must not be confused with what was cut.
    for (const auto& [log, state] : h->Now().logs) {
      const int32_t epoch = state.extent.epochs.empty() ? 1 : state.extent.epochs.back().epoch + 1;
      h->Append(log, epoch, 2, 33);
      h->Append(log, epoch, 1, 5);
    }
    h->Flush();
    h->RunUntilIdle();
    ASSERT_EQ(h->persisted(), h->changed()) << where;
    h->Crash(Keep(way));
    h->RestartAndRecover();
    ASSERT_EQ(h->CheckRecovered(), "") << where;
    ASSERT_EQ(h->CountEvents(EventKind::kLogDamaged), 0u) << where;
    for (const std::string& name : h->disk().Names(Directory::kLogs)) {
      ASSERT_FALSE(name.ends_with(".tmp") || name.ends_with("-delete")) << where << " " << name;
    }
  }
};

TEST_P(LogCrashPoints, EveryOneRecovers) {
  for (uint64_t way = 0; way < kWays; ++way) {
    // Each way at other places, all of them close together.
    for (uint64_t budget = way;; budget += kStride) {
      LogHarness h(Options(), way % 2 == 0 ? 64 : 24);
      if (way >= 4) h.Shuffle(RandomStream(way, ServerId{1}, budget, 0));
      const bool finished = Script(&h, budget);
      ASSERT_EQ(h.fatal(), "");
      const std::string where =
          "way " + std::to_string(way) + " after " + std::to_string(budget) + " operations";
      if (way % 2 == 1) {
        h.Kill();
        h.RestartAndRecover();
        ASSERT_EQ(h.CheckRecovered(), "") << where;
      }
      h.Crash(Keep(way + budget * (way > 2 ? 1000 : 0)));
      Recover(&h, way, where);
      if (HasFatalFailure()) return;
      if (finished) break;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, LogCrashPoints,
                         testing::Values(Parameters{500, 500, 400}, Parameters{500, 1500, 300},
                                         Parameters{1500, 1500, 1 << 20},
                                         Parameters{65536, 65536, 250}));

}  // namespace
}  // namespace lockstep::storage
