// The store as its owner sees it: what is appended comes back, and snapshots bound the journal.
#include "core/storage/store.h"

#include <gtest/gtest.h>

#include "tests/support/store_harness.h"

namespace lockstep::storage {
namespace {

constexpr Zxid At(uint32_t epoch, uint32_t counter) { return {{epoch}, counter}; }

StoreOptions Options(uint64_t segment_bytes = 4096) {
  return {.server = {1}, .segment_bytes = segment_bytes, .retained_bytes = 0};
}

void AppendMany(StoreHarness* harness, uint32_t epoch, uint32_t from, uint32_t to,
                size_t body_bytes = 40) {
  for (uint32_t counter = from; counter <= to; ++counter) {
    harness->AppendTransaction(At(epoch, counter), std::string(body_bytes, 'a' + counter % 26));
  }
}

TEST(Store, FirstStartIsEmpty) {
  StoreHarness harness(Options());

  harness.RestartAndRecover();

  ASSERT_TRUE(harness.recovered().has_value()) << harness.fatal();
  EXPECT_EQ(harness.recovered()->base, Zxid{});
  EXPECT_EQ(harness.recovered()->snapshot, Zxid{});
  EXPECT_TRUE(harness.recovered()->transactions.empty());
}

TEST(Store, WhatIsPersistedIsRecovered) {
  StoreHarness harness(Options());
  harness.RestartAndRecover();
  ASSERT_EQ(harness.CheckRecovered(), "");
  harness.Append(AcceptedEpochRecord{{3}});
  AppendMany(&harness, 3, 1, 20);
  harness.Append(CurrentEpochRecord{{3}});
  harness.Append(TruncateRecord{At(3, 18)});
  harness.Flush();
  harness.RunUntilIdle();
  ASSERT_EQ(harness.persisted(), 23u);

  harness.Crash([] { return false; });
  harness.RestartAndRecover();

  ASSERT_EQ(harness.CheckRecovered(), "");
  EXPECT_EQ(harness.recovered()->accepted_epoch, Epoch{3});
  EXPECT_EQ(harness.recovered()->current_epoch, Epoch{3});
  ASSERT_EQ(harness.recovered()->transactions.size(), 18u);
  EXPECT_EQ(harness.recovered()->transactions.back().zxid, At(3, 18));
}

TEST(Store, WhatWaitsDuringASyncGoesWithTheNextOne) {
  StoreHarness harness(Options());
  harness.RestartAndRecover();
  ASSERT_EQ(harness.CheckRecovered(), "");
  AppendMany(&harness, 1, 1, 1);
  harness.Flush();
  harness.RunUntilIdle();
  const uint64_t syncs = harness.CountEvents(EventKind::kSyncCompleted);

  AppendMany(&harness, 1, 2, 2);
  harness.Flush();
  AppendMany(&harness, 1, 3, 10);
  harness.Flush();
  EXPECT_EQ(harness.waiting(), 2u);  // one write, one sync
  harness.RunUntilIdle();

  EXPECT_EQ(harness.persisted(), 10u);
  EXPECT_EQ(harness.CountEvents(EventKind::kSyncCompleted), syncs + 2);
}

TEST(Store, TinySegmentsRollAndARecordLargerThanASegmentFits) {
  StoreHarness harness(Options(300));
  harness.RestartAndRecover();
  ASSERT_EQ(harness.CheckRecovered(), "");
  AppendMany(&harness, 1, 1, 30);
  harness.AppendTransaction(At(1, 31), std::string(2000, 'z'));
  AppendMany(&harness, 1, 32, 40);
  harness.Flush();
  harness.RunUntilIdle();
  ASSERT_EQ(harness.persisted(), 40u);
  EXPECT_GT(harness.CountEvents(EventKind::kSegmentRolled), 5u);

  harness.Crash([] { return false; });
  harness.RestartAndRecover();

  EXPECT_EQ(harness.CheckRecovered(), "");
  EXPECT_EQ(harness.recovered()->transactions.size(), 40u);
}

TEST(Store, AnOwnSnapshotDropsSegments) {
  StoreHarness harness(Options(300));
  harness.RestartAndRecover();
  ASSERT_EQ(harness.CheckRecovered(), "");
  AppendMany(&harness, 1, 1, 30);
  harness.Flush();
  harness.RunUntilIdle();
  const size_t before = harness.disk().Names(Directory::kLog).size();

  harness.BeginSnapshot(At(1, 28));
  EXPECT_TRUE(harness.store().snapshot_in_progress());
  harness.RunUntilIdle();

  EXPECT_EQ(harness.snapshot_told(), At(1, 28));
  EXPECT_FALSE(harness.store().snapshot_in_progress());
  EXPECT_LT(harness.disk().Names(Directory::kLog).size(), before);
  harness.Crash([] { return false; });
  harness.RestartAndRecover();
  EXPECT_EQ(harness.CheckRecovered(), "");
  EXPECT_EQ(harness.recovered()->snapshot, At(1, 28));
}

TEST(Store, AReceivedSnapshotReplacesTheHistory) {
  StoreHarness harness(Options(300));
  harness.RestartAndRecover();
  ASSERT_EQ(harness.CheckRecovered(), "");
  AppendMany(&harness, 1, 1, 30);
  harness.Flush();
  harness.RunUntilIdle();

  harness.ReceiveSnapshot(At(2, 100));
  harness.Append(SnapshotRecord{At(2, 100), true});
  AppendMany(&harness, 2, 101, 103);
  harness.Flush();
  EXPECT_EQ(harness.persisted(), 30u);
  harness.RunUntilIdle();

  EXPECT_EQ(harness.persisted(), 34u);
  harness.Crash([] { return false; });
  harness.RestartAndRecover();
  EXPECT_EQ(harness.CheckRecovered(), "");
  EXPECT_EQ(harness.recovered()->base, At(2, 100));
  EXPECT_EQ(harness.recovered()->transactions.size(), 3u);
}

TEST(Store, AnOwnSnapshotOvertakenByATruncationNeverCounts) {
  StoreHarness harness(Options());
  harness.RestartAndRecover();
  ASSERT_EQ(harness.CheckRecovered(), "");
  AppendMany(&harness, 1, 1, 10);
  harness.Flush();
  harness.RunUntilIdle();

  harness.BeginSnapshot(At(1, 9));
  harness.Append(TruncateRecord{At(1, 8)});
  AppendMany(&harness, 2, 1, 5);
  harness.Flush();
  harness.RunUntilIdle();

  EXPECT_FALSE(harness.store().snapshot_in_progress());
  EXPECT_EQ(harness.snapshot_told(), Zxid{});
  harness.RestartAndRecover();
  EXPECT_EQ(harness.CheckRecovered(), "");
  EXPECT_EQ(harness.recovered()->snapshot, Zxid{});
  EXPECT_TRUE(harness.disk().Names(Directory::kData).empty());
}

TEST(Store, AnOwnSnapshotOvertakenByAReplacementNeverCounts) {
  StoreHarness harness(Options());
  harness.RestartAndRecover();
  ASSERT_EQ(harness.CheckRecovered(), "");
  AppendMany(&harness, 1, 1, 10);
  harness.Flush();
  harness.RunUntilIdle();

  harness.BeginSnapshot(At(1, 9));
  harness.ReceiveSnapshot(At(1, 5));
  harness.Append(SnapshotRecord{At(1, 5), true});
  AppendMany(&harness, 2, 1, 5);
  harness.Flush();
  harness.RunUntilIdle();

  EXPECT_FALSE(harness.store().snapshot_in_progress());
  EXPECT_EQ(harness.snapshot_told(), Zxid{});
  harness.RestartAndRecover();
  EXPECT_EQ(harness.CheckRecovered(), "");
  EXPECT_EQ(harness.recovered()->snapshot, At(1, 5));
}

TEST(Store, ASnapshotIsWrittenBesideTheJournal) {
  StoreHarness harness(Options());
  harness.RestartAndRecover();
  ASSERT_EQ(harness.CheckRecovered(), "");
  AppendMany(&harness, 1, 1, 10);
  harness.Flush();
  harness.RunUntilIdle();

  harness.BeginSnapshot(At(1, 9));
  AppendMany(&harness, 1, 11, 11);
  harness.Flush();

  size_t journal = 0;
  for (const FileOp& op : harness.queue()) journal += op.directory == Directory::kLog ? 1 : 0;
  EXPECT_EQ(journal, 2u);  // its write and its sync wait for nothing
}

TEST(Store, ATruncationBelowTheSnapshotStopsTheServer) {
  StoreHarness harness(Options());
  harness.RestartAndRecover();
  ASSERT_EQ(harness.CheckRecovered(), "");
  AppendMany(&harness, 1, 1, 10);
  harness.Flush();
  harness.RunUntilIdle();
  harness.BeginSnapshot(At(1, 9));
  harness.RunUntilIdle();

  harness.Append(TruncateRecord{At(1, 8)});
  harness.Flush();

  EXPECT_NE(harness.fatal().find("a quorum has lost data"), std::string::npos) << harness.fatal();
}

TEST(Store, RetainedSegmentsGiveALaggingLearnerItsTransactions) {
  StoreOptions options = Options(300);
  options.retained_bytes = 300;
  StoreHarness harness(options);
  harness.RestartAndRecover();
  ASSERT_EQ(harness.CheckRecovered(), "");
  AppendMany(&harness, 1, 1, 30);
  harness.Flush();
  harness.RunUntilIdle();
  harness.BeginSnapshot(At(1, 30));
  harness.RunUntilIdle();

  harness.RestartAndRecover();

  ASSERT_EQ(harness.CheckRecovered(), "");
  size_t bytes = 0;
  for (const TransactionRecord& t : harness.recovered()->transactions) bytes += t.body.size();
  EXPECT_GT(bytes, 150u);
  EXPECT_LE(bytes, 300u + 300u);  // the newest segment is kept in any case
}

TEST(Store, ASecondReceptionDropsAHalfReceivedOne) {
  StoreHarness harness(Options());
  harness.RestartAndRecover();
  ASSERT_EQ(harness.CheckRecovered(), "");

  harness.ReceivePiece(At(2, 7), 0);
  harness.ReceivePiece(At(2, 7), 1);
  harness.ReceiveSnapshot(At(2, 9));
  harness.RunUntilIdle();

  EXPECT_EQ(harness.disk().Names(Directory::kData),
            std::vector<std::string>{"received.0000000200000009"});
  harness.RestartAndRecover();  // no record names it: it never was
  EXPECT_EQ(harness.CheckRecovered(), "");
  EXPECT_TRUE(harness.disk().Names(Directory::kData).empty());
}

TEST(Store, EveryCompletionOfAnotherIncarnationIsIgnored) {
  StoreHarness harness(Options());
  harness.RestartAndRecover();
  StoreOutput output;

  harness.store().OnDone({.id = {77, 1}, .error = FileError::kIo}, &output);

  EXPECT_FALSE(output.fatal.has_value());
}

TEST(Store, AFullDiskHasItsOwnSentence) {
  StoreHarness harness(Options());
  harness.RestartAndRecover();
  ASSERT_EQ(harness.CheckRecovered(), "");
  AppendMany(&harness, 1, 1, 1);
  harness.FailAt(1, FileError::kNoSpace);
  harness.Flush();

  harness.RunUntilIdle();

  EXPECT_NE(harness.fatal().find("is full"), std::string::npos) << harness.fatal();
  EXPECT_NE(harness.fatal().find("dataLogDir/journal.0000000000000001"), std::string::npos)
      << harness.fatal();
}

}  // namespace
}  // namespace lockstep::storage
