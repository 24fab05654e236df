// Every crash point: a script that touches everything runs up to each of its operations, loses
// power in several ways, and must come back as some prefix that holds all that was told durable.
#include <gtest/gtest.h>

#include "core/base/random.h"
#include "tests/support/store_harness.h"

namespace lockstep::storage {
namespace {

constexpr Zxid At(uint32_t epoch, uint32_t counter) { return {{epoch}, counter}; }

// How a crash decides what reached the disk.
std::function<bool()> Keep(uint64_t way) {
  if (way <= 1) return [] { return false; };
  if (way == 2) return [] { return true; };
  auto random = std::make_shared<RandomStream>(way, ServerId{1}, 0, 0);
  return [random] { return random->Chance(1, 2); };
}
constexpr uint64_t kWays = 8;
// Each crash point is come to in some of the ways; all of them in all would take a minute.
constexpr uint64_t kStride = 3;

class CrashPoints : public testing::TestWithParam<uint64_t> {
 protected:
  static StoreOptions Options(uint64_t retained_bytes) {
    return {.server = {1}, .segment_bytes = GetParam(), .retained_bytes = retained_bytes};
  }

  // Runs at most `*budget` operations. False: they are used up, that is where the crash comes; or
  // the server has stopped.
  static bool Run(StoreHarness* harness, uint64_t* budget) {
    harness->Flush();
    while (true) {
      if (harness->waiting() == 0) return true;
      if (*budget == 0) return false;
      --*budget;
      harness->ExecuteOne();
      if (!harness->fatal().empty()) return false;
    }
  }
  static void Transactions(StoreHarness* harness, uint32_t epoch, uint32_t from, uint32_t to) {
    for (uint32_t counter = from; counter <= to; ++counter) {
      harness->AppendTransaction(At(epoch, counter),
                                 std::string(10 + counter * 37 % 90, 'a' + counter % 26));
    }
  }

  // One life of a server, from an empty disk. False: cut short.
  static bool Script(StoreHarness* harness, uint64_t budget) {
    harness->Restart();
    if (!Run(harness, &budget)) return false;
    EXPECT_EQ(harness->CheckRecovered(), "");
    harness->Append(AcceptedEpochRecord{{1}});
    harness->Append(CurrentEpochRecord{{1}});
    Transactions(harness, 1, 1, 5);
    if (!Run(harness, &budget)) return false;
    Transactions(harness, 1, 6, 9);
    harness->Flush();
    Transactions(harness, 1, 10, 14);  // while the batch before is under way
    if (!Run(harness, &budget)) return false;
    harness->BeginSnapshot(At(1, 10));
    Transactions(harness, 1, 15, 20);  // beside the snapshot
    if (!Run(harness, &budget)) return false;
    harness->Append(AcceptedEpochRecord{{2}});
    harness->Append(TruncateRecord{At(1, 17)});
    harness->Append(CurrentEpochRecord{{2}});
    Transactions(harness, 2, 1, 6);
    harness->AppendTransaction(At(2, 7), std::string(1500, 'L'));
    if (!Run(harness, &budget)) return false;
    harness->BeginSnapshot(At(2, 3));
    if (!Run(harness, &budget)) return false;
    harness->BeginSnapshot(At(2, 6));     // overtaken by a replacement
    harness->ReceivePiece(At(3, 50), 0);  // half of one, then another
    harness->ReceiveSnapshot(At(3, 60));
    harness->Append(AcceptedEpochRecord{{3}});
    harness->Append(SnapshotRecord{At(3, 60), true});
    harness->Append(CurrentEpochRecord{{3}});
    Transactions(harness, 3, 61, 70);
    if (!Run(harness, &budget)) return false;
    harness->BeginSnapshot(At(3, 66));
    Transactions(harness, 3, 71, 72);
    return Run(harness, &budget);
  }

  // Restarts with crashes during recovery too, then goes on and checks again.
  static void Recover(StoreHarness* harness, uint64_t way, const std::string& where) {
    for (uint64_t again = 0; again < way % 4; ++again) {
      harness->Restart();
      for (uint64_t n = 0; n < 1 + (way * 7 + again * 3) % 9; ++n) harness->ExecuteOne();
      ASSERT_EQ(harness->fatal(), "") << where;
      harness->Crash(Keep(way + again + 100));
    }
    harness->RestartAndRecover();
    ASSERT_EQ(harness->CheckRecovered(), "") << where;

    // What is appended now must not be confused with what was cut.
    const Zxid last = harness->AppendedState().last();
    const uint32_t epoch = last.epoch.value + 1;
    harness->Append(AcceptedEpochRecord{{epoch}});
    Transactions(harness, epoch, 1, 1 + way % 3);
    harness->Flush();
    harness->RunUntilIdle();
    ASSERT_EQ(harness->persisted(), harness->appended()) << where;
    harness->Crash(Keep(way));
    harness->RestartAndRecover();
    ASSERT_EQ(harness->CheckRecovered(), "") << where;
    for (const std::string& name : harness->disk().Names(Directory::kData)) {
      ASSERT_FALSE(name.starts_with("temporary")) << where;
    }
    ASSERT_LE(harness->disk().Names(Directory::kData).size(), 1u) << where;
  }
};

TEST_P(CrashPoints, EveryOneRecovers) {
  for (const uint64_t retained_bytes : {uint64_t{0}, uint64_t{600}}) {
    for (uint64_t way = 0; way < kWays; ++way) {
      for (uint64_t budget = way % kStride;; budget += kStride) {
        StoreHarness harness(Options(retained_bytes), way % 2 == 0 ? 64 : 24);
        if (way >= 4) harness.Shuffle(RandomStream(way, ServerId{1}, budget, 0));
        const bool finished = Script(&harness, budget);
        ASSERT_EQ(harness.fatal(), "");
        if (way % 2 == 1) {
          // First the process alone: recovery reads what no sync has covered yet, tells it, and
          // so must have made it durable.
          harness.Kill();
          harness.RestartAndRecover();
          ASSERT_EQ(harness.CheckRecovered(), "") << way << " after " << budget;
        }
        harness.Crash(Keep(way + budget * (way > 2 ? 1000 : 0)));
        Recover(&harness, way,
                "retained " + std::to_string(retained_bytes) + " way " + std::to_string(way) +
                    " after " + std::to_string(budget) + " operations");
        if (HasFatalFailure()) return;
        if (finished) break;
      }
    }
  }
}

TEST_P(CrashPoints, EveryFailedOperationStopsTheServerAndLosesNothing) {
  for (uint64_t n = 1;; ++n) {
    StoreHarness harness(Options(0));
    harness.FailAt(n, n % 2 == 0 ? FileError::kIo : FileError::kNoSpace);

    if (Script(&harness, UINT64_MAX)) break;  // there are fewer operations than that

    ASSERT_NE(harness.fatal(), "");
    ASSERT_EQ(harness.executed(), n);
    const uint64_t persisted = harness.persisted();
    const size_t waiting = harness.waiting();
    for (size_t i = 0; i < waiting; ++i) harness.ExecuteOne();
    harness.AppendTransaction(At(9, 1), "too late");
    harness.Flush();
    EXPECT_EQ(harness.persisted(), persisted);  // a dead store promises nothing any more
    EXPECT_EQ(harness.waiting(), 0u);
    harness.Crash(Keep(n));
    Recover(&harness, n, "operation " + std::to_string(n) + " failed");
    if (HasFatalFailure()) return;
  }
}

// A killed process leaves the removal of a segment in the page cache. The next one must not remove
// more before that is durable: a loss of power that undid only the first would leave a gap.
TEST(Crash, ARemovalIsDurableBeforeTheNextIncarnationRemovesMore) {
  for (uint32_t kept = 0; kept < 16; ++kept) {
    StoreHarness harness({.server = {1}, .segment_bytes = 200, .retained_bytes = 0});
    harness.RestartAndRecover();
    ASSERT_EQ(harness.CheckRecovered(), "");
    for (uint32_t counter = 1; counter <= 20; ++counter) {
      harness.AppendTransaction(At(1, counter), std::string(60, 'x'));
    }
    harness.Flush();
    harness.RunUntilIdle();
    harness.BeginSnapshot(At(1, 20));
    ASSERT_TRUE(harness.RunPast(Directory::kLog, OpKind::kRemove));
    harness.Kill();
    harness.Restart();
    ASSERT_TRUE(harness.RunPast(Directory::kLog, OpKind::kRemove));

    uint32_t asked = 0;
    harness.Crash([&] { return (kept >> asked++ % 4 & 1) != 0; });
    harness.RestartAndRecover();

    EXPECT_EQ(harness.CheckRecovered(), "") << kept;
  }
}

INSTANTIATE_TEST_SUITE_P(SegmentBytes, CrashPoints, testing::Values(200, 400, 1000, 65536));

}  // namespace
}  // namespace lockstep::storage
