// Partition logs behind the journal: what one incarnation does, and what the next one finds.
#include <gtest/gtest.h>

#include "tests/support/log_harness.h"

namespace lockstep::storage {
namespace {

StoreOptions Options(Durability durability = Durability::kFsync, uint64_t cache_bytes = 0) {
  StoreOptions options{.server = {1}, .segment_bytes = 4096};
  options.logs = LogOptions{.durability = durability,
                            .segment_bytes = 1000,
                            .index_interval_bytes = 150,
                            .cache_bytes = cache_bytes,
                            .journal_bytes_max = 16384};
  return options;
}

class LogStore : public testing::Test {
 protected:
  explicit LogStore(StoreOptions options = Options()) : h_(options) { Recover(); }
  void Recover() {
    h_.RestartAndRecover();
    ASSERT_EQ(h_.CheckRecovered(), "");
  }
  void Settle() {
    h_.Flush();
    h_.RunUntilIdle();
    ASSERT_EQ(h_.fatal(), "");
    ASSERT_EQ(h_.persisted(), h_.changed());
  }
  void LosePower() {
    h_.Crash([] { return false; });
    Recover();
  }
  LogNumber Twenty() {
    const LogNumber log = h_.Create("topic", 0);
    for (int i = 0; i < 20; ++i) h_.Append(log, 1 + i / 5, 1 + i % 3, 50, 1000 + 10 * i);
    Settle();
    return log;
  }
  std::string Find(LogNumber log, int64_t timestamp) {
    h_.Search(log, timestamp);
    h_.RunUntilIdle();
    const LogSearchDone& done = h_.searches().back();
    if (done.status != LogReadDone::Status::kOk) return "failed";
    if (!done.batch.has_value()) return "none";
    return std::to_string(records::ParseBatchHeader(done.batch->view())->max_timestamp);
  }
  static std::vector<records::BatchHeader> Headers(const LogReadDone& done) {
    std::vector<records::BatchHeader> headers;
    records::SlicedBatches batches(done.batches);
    while (const auto batch = batches.Next()) headers.push_back(batch->header);
    return headers;
  }
  LogHarness h_;
};

TEST_F(LogStore, WhatWasAppendedIsFoundByTheNextIncarnation) {
  Twenty();
  LosePower();
  EXPECT_EQ(h_.recovered()->logs.at(0).epochs.size(), 4u);
}

class ManyLogs : public LogStore {
 protected:
  static StoreOptions Large() {
    StoreOptions options{.server = {1}};
    options.logs = LogOptions{};
    return options;
  }
  ManyLogs() : LogStore(Large()) {}
};

TEST_F(ManyLogs, AppendsToAThousandCostOneSync) {
  std::vector<LogNumber> logs;
  for (int i = 0; i < 1000; ++i) logs.push_back(h_.Create("topic", i));
  Settle();
  for (int round = 1; round <= 3; ++round) {
    const uint64_t before = h_.syncs();
    for (const LogNumber log : logs) h_.Append(log, 1, 1, 0);
    Settle();
    EXPECT_EQ(h_.syncs() - before, 1u);
  }
}

TEST_F(LogStore, TheJournalStaysShortAndNothingIsLost) {
  const LogNumber log = Twenty();
  const LogNumber idle = h_.Create("idle", 0);
  h_.Append(idle, 1, 1, 10);
  for (int i = 0; i < 400; ++i) {
    h_.Append(log, 5, 1, 300);
    if (i % 5 == 0) Settle();
  }
  Settle();
  EXPECT_LE(h_.disk().Names(Directory::kLog).size(), 7u);
  EXPECT_GT(h_.CountEvents(EventKind::kSegmentDropped), 10u);
  EXPECT_FALSE(h_.rolled().empty());
  LosePower();
}

TEST_F(LogStore, SearchFindsTheFirstBatchThatIsLateEnough) {
  const LogNumber log = Twenty();
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(Find(log, 0), "1000");
    EXPECT_EQ(Find(log, 1001), "1010");
    EXPECT_EQ(Find(log, 1100), "1100");
    EXPECT_EQ(Find(log, 1185), "1190");
    EXPECT_EQ(Find(log, 1191), "none");
    LosePower();
  }
}

TEST_F(LogStore, LostAndDamagedIndexesAreMadeAnew) {
  const LogNumber log = Twenty();
  for (const std::string& name : h_.disk().Names(Directory::kLogs, "topic-0")) {
    if (name.ends_with(".index")) h_.disk().Put(Directory::kLogs, "topic-0/" + name, "garbage");
    if (name.ends_with(".timeindex")) h_.disk().Remove(Directory::kLogs, "topic-0/" + name);
  }
  h_.Kill();
  Recover();
  EXPECT_EQ(Find(log, 1100), "1100");
  EXPECT_EQ(Find(log, 1191), "none");
}

TEST_F(LogStore, DamageIsTheReadersLossAndNotHandedOut) {
  const LogNumber log = Twenty();
  std::string name = "topic-0/" + LogFileName(0, LogFileKind::kLog);
  std::string content = *h_.disk().Get(Directory::kLogs, name);
  content[80] ^= 1;
  h_.disk().Put(Directory::kLogs, name, content);
  h_.Read(log, 0);
  h_.RunUntilIdle();
  EXPECT_EQ(h_.reads().back().status, LogReadDone::Status::kFailed);
  EXPECT_EQ(h_.CountEvents(EventKind::kLogDamaged), 1u);
  EXPECT_EQ(h_.fatal(), "");
}

TEST_F(LogStore, ReadsEndAtTheLimitButForTheFirstBatch) {
  const LogNumber log = Twenty();
  h_.Read(log, 1, 1);
  h_.RunUntilIdle();
  const std::vector<records::BatchHeader> found = Headers(h_.reads().back());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].base_offset, 1);
  const int64_t end = h_.Now().logs.at(log).extent.end;
  h_.Read(log, end);
  EXPECT_EQ(h_.reads().back().status, LogReadDone::Status::kOk);
  EXPECT_TRUE(h_.reads().back().batches.empty());
  h_.Read(log, end + 1);
  EXPECT_EQ(h_.reads().back().status, LogReadDone::Status::kOutOfRange);
  h_.Do(log, LogStart{10});
  h_.Read(log, 9);
  EXPECT_EQ(h_.reads().back().status, LogReadDone::Status::kOutOfRange);
}

TEST_F(LogStore, AReadNeverGivesWhatIsCutMeanwhile) {
  const LogNumber log = Twenty();
  h_.Read(log, 0);
  h_.Do(log, LogTruncate{6});
  h_.Append(log, 9, 30, 10);
  h_.Flush();
  h_.RunUntilIdle();
  ASSERT_EQ(h_.reads().size(), 1u);
  for (const records::BatchHeader& batch : Headers(h_.reads()[0])) {
    EXPECT_LE(batch.next_offset(), 6);
  }
  LosePower();
}

class SparselyIndexed : public LogStore {
 protected:
  static StoreOptions OneSegment() {
    StoreOptions options{.server = {1}};
    options.logs = LogOptions{.index_interval_bytes = 1 << 30, .cache_bytes = 0};
    return options;
  }
  SparselyIndexed() : LogStore(OneSegment()) {}
};

TEST_F(SparselyIndexed, AReaderWhoGoesOnReadsNothingTwice) {
  const LogNumber log = h_.Create("topic", 0);
  for (int i = 0; i < 100; ++i) h_.Append(log, 1, 1, 20'000);
  Settle();
  uint64_t read = 0;
  for (int64_t offset = 0; offset < 100; offset += 10) {
    h_.Read(log, offset, 210'000);
    // From the third one on it is there already.
    EXPECT_EQ(h_.reads().size(), static_cast<size_t>(offset) / 10 + (offset >= 20 ? 1 : 0));
    while (h_.waiting() > 0) {
      if (h_.queue().front().kind == OpKind::kRead) read += h_.queue().front().size;
      h_.ExecuteOne();
    }
    ASSERT_EQ(Headers(h_.reads().back()).size(), 10u);
    EXPECT_EQ(Headers(h_.reads().back()).front().base_offset, offset);
  }
  EXPECT_LT(read, 100u * 22'000);
}

TEST_F(SparselyIndexed, WhereAReaderStoppedIsForgottenWhenThatIsCut) {
  const LogNumber log = h_.Create("topic", 0);
  for (int i = 0; i < 10; ++i) h_.Append(log, 1, 1, 100);
  Settle();
  h_.Read(log, 0, 900);
  h_.RunUntilIdle();
  const int64_t stopped = Headers(h_.reads().back()).back().next_offset();
  ASSERT_GT(stopped, 2);
  ASSERT_LT(stopped, 10);
  h_.Do(log, LogTruncate{2});
  for (int i = 0; i < 10; ++i) h_.Append(log, 2, 1, 333);
  Settle();
  h_.Read(log, stopped, 900);
  h_.RunUntilIdle();
  EXPECT_EQ(h_.reads().back().status, LogReadDone::Status::kOk);
  EXPECT_EQ(Headers(h_.reads().back()).front().base_offset, stopped);
  EXPECT_EQ(Headers(h_.reads().back()).front().partition_leader_epoch, 2);
}

TEST_F(SparselyIndexed, WhatWasReadAheadIsForgottenWhenThatIsCut) {
  const LogNumber log = h_.Create("topic", 0);
  for (int i = 0; i < 40; ++i) h_.Append(log, 1, 1, 20'000);
  Settle();
  for (const int64_t offset : {0, 10}) {
    h_.Read(log, offset, 210'000);
    h_.RunUntilIdle();
  }
  h_.Do(log, LogTruncate{15});
  for (int i = 0; i < 40; ++i) h_.Append(log, 2, 1, 20'000);
  Settle();
  h_.Read(log, 20, 210'000);
  h_.RunUntilIdle();
  ASSERT_EQ(Headers(h_.reads().back()).size(), 10u);
  EXPECT_EQ(Headers(h_.reads().back()).front().base_offset, 20);
  EXPECT_EQ(Headers(h_.reads().back()).front().partition_leader_epoch, 2);
}

TEST_F(SparselyIndexed, AReadBeforeWhatIsReadAheadHasComeIsAnsweredByIt) {
  const LogNumber log = h_.Create("topic", 0);
  for (int i = 0; i < 40; ++i) h_.Append(log, 1, 1, 20'000);
  Settle();
  h_.Read(log, 0, 210'000);
  h_.RunUntilIdle();
  h_.Read(log, 10, 210'000);
  ASSERT_TRUE(h_.ExecuteOne());
  ASSERT_EQ(h_.reads().size(), 2u);
  ASSERT_EQ(h_.waiting(), 1u);  // what comes next
  h_.Read(log, 20, 210'000);
  EXPECT_EQ(h_.waiting(), 1u);
  ASSERT_TRUE(h_.ExecuteOne());
  ASSERT_EQ(h_.reads().size(), 3u);
  EXPECT_EQ(Headers(h_.reads().back()).front().base_offset, 20);
  // One who wants less gets no more than that of what is there.
  h_.RunUntilIdle();
  h_.Read(log, 30, 50'000);
  ASSERT_EQ(h_.reads().size(), 4u);
  EXPECT_EQ(Headers(h_.reads().back()).size(), 2u);
  h_.Read(log, 32, 210'000);
  h_.RunUntilIdle();
  EXPECT_EQ(Headers(h_.reads().back()).front().base_offset, 32);
}

// Found by the simulator: a producer whose batches were deleted was not known any more after a
// restart, though its last batch may have to be recognized.
TEST_F(LogStore, WhatIsBelowTheStartButInTheFirstSegmentIsToldOfProducers) {
  const LogNumber log = Twenty();
  const int64_t end = h_.Now().logs.at(log).extent.end;
  h_.Do(log, LogStart{end});
  Settle();
  LosePower();
  const RecoveredLog& recovered = h_.recovered()->logs.at(0);
  EXPECT_EQ(recovered.start, end);
  EXPECT_LT(recovered.producer_snapshot_offset, end);
  EXPECT_FALSE(recovered.batch_headers.empty());
}

TEST_F(LogStore, RetentionGivesUpWholeSegments) {
  const LogNumber log = Twenty();
  const int64_t end = h_.Now().logs.at(log).extent.end;
  EXPECT_EQ(h_.store().RetentionStart(log, 0, 0, end), 0);
  const int64_t start = h_.store().RetentionStart(log, 1100, 0, end);
  EXPECT_GT(start, 0);
  EXPECT_LT(start, end);
  EXPECT_EQ(h_.store().RetentionStart(log, 1100, 0, 0), 0);  // not above the high watermark
  const uint64_t bytes = h_.store().LogBytes(log);
  h_.Do(log, LogStart{h_.store().RetentionStart(log, 0, 1, end)});
  Settle();
  EXPECT_LT(h_.store().LogBytes(log), bytes);
  EXPECT_LE(h_.store().LogBytes(log), 1000u);
  LosePower();
}

TEST_F(LogStore, TheActiveSegmentGoesWhenAllOfItIsTooOld) {
  const LogNumber log = Twenty();
  const int64_t end = h_.Now().logs.at(log).extent.end;
  constexpr int64_t kLater = int64_t{1} << 40;
  EXPECT_LT(h_.store().RetentionStart(log, kLater, 0, end - 1), end);  // not all is committed
  EXPECT_EQ(h_.store().RetentionStart(log, kLater, 0, end), end);
  h_.Do(log, LogStart{end});
  Settle();
  EXPECT_EQ(h_.store().LogBytes(log), 0u);
  EXPECT_EQ(h_.store().RetentionStart(log, kLater, 0, end), end);
  // The journal still has all of it: it does not come back.
  LosePower();
  EXPECT_EQ(h_.store().LogBytes(log), 0u);
  // It goes on where it was.
  h_.Append(log, 9, 3, 50, kLater);
  Settle();
  EXPECT_GT(h_.store().LogBytes(log), 0u);
  EXPECT_EQ(h_.store().RetentionStart(log, kLater, 0, end + 3), end);  // not older
  LosePower();
}

TEST_F(LogStore, ALogMayHaveSegmentLimitsOfItsOwn) {
  const LogNumber log = h_.Create("topic", 0);
  const LogNumber other = h_.Create("other", 0);
  h_.store().SetSegmentLimits(log, 300, 1000);
  for (int i = 0; i < 4; ++i) {
    for (LogNumber each : {log, other}) h_.Append(each, 1, 1, 50, 1000);  // 120 bytes or so
  }
  for (LogNumber each : {log, other}) h_.Append(each, 1, 1, 50, 2001);
  Settle();
  const auto segment = [&](const std::string& directory, int64_t base) {
    return h_.disk()
        .Get(Directory::kLogs, directory + "/" + LogFileName(base, LogFileKind::kLog))
        .has_value();
  };
  EXPECT_TRUE(segment("topic-0", 2));  // too large
  EXPECT_TRUE(segment("topic-0", 4));  // ... and its first batch too old for the last one
  EXPECT_FALSE(segment("other-0", 2));
  EXPECT_FALSE(segment("other-0", 4));
  LosePower();
}

TEST_F(LogStore, ADirectoryOfNobodyIsLeftAlone) {
  h_.disk().Put(Directory::kLogs, "other-0/file", "text");
  h_.Kill();
  Recover();
  EXPECT_EQ(h_.CountEvents(EventKind::kLogStray), 1u);
  EXPECT_EQ(h_.disk().Get(Directory::kLogs, "other-0/file"), "text");
  const LogNumber log = h_.Create("other", 0);  // it gets out of the way
  h_.Append(log, 1);
  Settle();
  LosePower();
}

TEST_F(LogStore, ALogWhoseDirectoryIsGoneStopsTheServer) {
  const LogNumber log = Twenty();
  for (int i = 0; i < 300; ++i) {
    h_.Append(log, 5, 1, 300);
    if (i % 5 == 0) Settle();
  }
  Settle();
  for (const std::string& name : h_.disk().Names(Directory::kLogs, "topic-0")) {
    h_.disk().Remove(Directory::kLogs, "topic-0/" + name);
  }
  h_.disk().Remove(Directory::kLogs, "topic-0");
  h_.Kill();
  h_.RestartAndRecover();
  EXPECT_NE(h_.fatal(), "");
}

TEST_F(LogStore, FilesAreKafkas) {
  const LogNumber log = Twenty();
  h_.store().SetHighWatermark(log, 7);
  h_.MarkClean();
  h_.RunUntilIdle();
  ASSERT_TRUE(h_.clean());
  const Uuid id{1, 2};
  EXPECT_EQ(h_.disk().Get(Directory::kLogs, "topic-0/partition.metadata"),
            "version: 0\ntopic_id: " + id.ToString() + "\n");
  EXPECT_EQ(h_.disk().Get(Directory::kLogs, "replication-offset-checkpoint"),
            "0\n3\ntopic 0 7\n#" + id.ToString() + " 0 7\n#crc32c 0 571811213\n");
  EXPECT_EQ(h_.disk().Get(Directory::kLogs, "topic-0/leader-epoch-checkpoint"),
            "0\n4\n1 0\n2 9\n3 19\n4 30\n");
  LosePower();
  EXPECT_EQ(h_.recovered()->logs.at(0).high_watermark, 7);
}

// Seed 1859 of `brokers`: its replica told as committed what was not.
TEST_F(LogStore, AHighWatermarkIsNotThatOfALaterTopicOfItsName) {
  const LogNumber log = Twenty();
  h_.store().SetHighWatermark(log, 7);
  h_.Checkpoint();
  Settle();
  h_.Delete(log);
  const LogNumber later = h_.Create("topic", 0, {3, 4});
  h_.Append(later, 1, 9);
  Settle();
  LosePower();
  ASSERT_EQ(h_.recovered()->logs.size(), 1u);
  EXPECT_EQ(h_.recovered()->logs[0].end, 9);
  EXPECT_EQ(h_.recovered()->logs[0].high_watermark, 0);
}

// Found by the simulator: what recovery had removed was to be synced, no file was, and the stop
// waited for a sync that had ended before it was looked at.
TEST_F(LogStore, ACleanStopRightAfterARestartComesToAnEnd) {
  const LogNumber log = Twenty();
  h_.Snapshot(log, 39);
  h_.RunUntilIdle();
  h_.Do(log, LogTruncate{12});
  h_.Flush();
  h_.Kill();
  Recover();
  Settle();
  h_.MarkClean();
  h_.RunUntilIdle();
  EXPECT_TRUE(h_.clean());
  h_.Kill();
  Recover();
  h_.MarkClean();
  h_.RunUntilIdle();
  EXPECT_TRUE(h_.clean());
}

// A segment was cut, and another one begun where it ends; of both, the power loss took the cut.
TEST(LogRecovery, ACutThatWasLostIsMadeAgainInTheSegmentBefore) {
  StoreOptions options{.server = {1}, .segment_bytes = 4096, .retained_bytes = 0};
  options.logs = LogOptions{.segment_bytes = 300, .journal_bytes_max = 1 << 20};
  LogHarness h(options);
  h.RestartAndRecover();
  const LogNumber log = h.Create("a", 0);
  for (int i = 0; i < 3; ++i) h.Append(log, 1, 1, 20);
  h.Flush();
  h.RunUntilIdle();
  const std::string segment = "a-0/" + LogFileName(0, LogFileKind::kLog);
  const std::string whole = *h.disk().Get(Directory::kLogs, segment);
  h.Do(log, LogTruncate{2});
  h.Append(log, 2, 1, 200);
  h.Flush();
  h.RunUntilIdle();
  ASSERT_LT(h.disk().Get(Directory::kLogs, segment)->size(), whole.size());
  ASSERT_TRUE(h.disk().Get(Directory::kLogs, "a-0/" + LogFileName(2, LogFileKind::kLog)));
  h.Kill();
  h.disk().Put(Directory::kLogs, segment, whole);
  h.RestartAndRecover();
  EXPECT_EQ(h.CheckRecovered(), "");
}

TEST_F(LogStore, TheDirectoryOfAnotherBrokerIsRefused) {
  EXPECT_EQ(h_.disk().Get(Directory::kLogs, "meta.properties"),
            "version=0\nbroker.id=0\nlockstep.durability=fsync\n");
  h_.disk().Put(Directory::kLogs, "meta.properties", "#\nversion=1\nnode.id=3\ncluster.id=x\n");
  h_.Kill();
  h_.RestartAndRecover();
  EXPECT_NE(h_.fatal().find("belongs to broker 3, but this one is broker 0"), std::string::npos)
      << h_.fatal();
}

// Another broker would delete the replicas of the one that has written them.
TEST_F(LogStore, LogsThatNobodyOwnsAreRefusedAndStay) {
  Twenty();
  const std::string own = *h_.disk().Get(Directory::kLogs, "meta.properties");
  h_.disk().Remove(Directory::kLogs, "meta.properties");
  h_.Kill();
  h_.RestartAndRecover();
  EXPECT_NE(h_.fatal().find("is missing, which says whose"), std::string::npos) << h_.fatal();
  EXPECT_NE(h_.fatal().find("broker.id=0"), std::string::npos) << h_.fatal();

  // What the message says to do.
  h_.disk().Put(Directory::kLogs, "meta.properties", "version=0\nbroker.id=0\n");
  h_.Kill();
  h_.RestartAndRecover();
  EXPECT_EQ(h_.CheckRecovered(), "");
}

TEST_F(LogStore, ADirectoryThatIsAnotherLogsIsRefused) {
  const LogNumber topic = Twenty();
  const LogNumber other = h_.Create("other", 0);
  // Until the journal no longer has that they were made.
  for (int i = 0; i < 200; ++i) {
    h_.Append(topic, 5, 1, 200, 2'000);
    h_.Append(other, 1, 1, 200, 2'000);
    Settle();
  }
  h_.Kill();
  const std::string own = "topic-0/" + OwnerFileName(topic);
  ASSERT_TRUE(h_.disk().Get(Directory::kLogs, own).has_value());
  h_.disk().Remove(Directory::kLogs, own);
  h_.RestartAndRecover();
  ASSERT_EQ(h_.CheckRecovered(), "");  // without a word of it, it is its own

  h_.Kill();
  h_.disk().Put(Directory::kLogs, "topic-0/" + OwnerFileName(other), "");
  h_.RestartAndRecover();
  EXPECT_NE(h_.fatal().find("another partition's log"), std::string::npos) << h_.fatal();
}

TEST_F(LogStore, PartitionsOfKafkaAreRefusedAndStay) {
  const std::string segment = "t-0/00000000000000000000.log";
  const std::vector<std::optional<std::string>> of_kafka = {
      std::nullopt, "#\nversion=0\nbroker.id=0\ncluster.id=x\n"};
  for (const auto& properties : of_kafka) {
    LogHarness h(Options());
    if (properties) h.disk().Put(Directory::kLogs, "meta.properties", *properties);
    h.disk().Put(Directory::kLogs, "lost+found/1", "of the file system");
    h.RestartAndRecover();
    EXPECT_EQ(h.CheckRecovered(), "");
    h.Kill();

    LogHarness other(Options());
    if (properties) other.disk().Put(Directory::kLogs, "meta.properties", *properties);
    other.disk().Put(Directory::kLogs, segment, "kafka");
    other.RestartAndRecover();
    EXPECT_NE(other.fatal().find("t-0 is a partition that this broker knows nothing of"),
              std::string::npos)
        << other.fatal();
    EXPECT_EQ(other.disk().Get(Directory::kLogs, segment), "kafka");
    EXPECT_EQ(other.disk().Get(Directory::kLogs, "meta.properties"), properties);
  }
}

TEST_F(LogStore, TheDurabilityChangesOnlyWithoutLogs) {
  h_.disk().Put(Directory::kLogs, "meta.properties",
                "version=0\nbroker.id=0\nlockstep.durability=flush\n");
  h_.Kill();
  Recover();
  Twenty();
  h_.disk().Put(Directory::kLogs, "meta.properties",
                "version=0\nbroker.id=0\nlockstep.durability=flush\n");
  h_.Kill();
  h_.RestartAndRecover();
  EXPECT_NE(h_.fatal().find("the other log.durability"), std::string::npos) << h_.fatal();
}

TEST(LogFiles, PropertiesAreRefusedWhenTheyAreNot) {
  for (const DirectoryProperties& properties :
       {DirectoryProperties{7, Durability::kFlush, ""}, {7, std::nullopt, "a-Cluster_1"}}) {
    EXPECT_EQ(*DecodeProperties(EncodeProperties(properties).view()), properties);
  }
  EXPECT_EQ(*DecodeProperties("version=0\r\nbroker.id=7\r\n"), (DirectoryProperties{.broker = 7}));
  EXPECT_FALSE(DecodeProperties("").ok());
  EXPECT_FALSE(DecodeProperties("version=2\nnode.id=7\n").ok());
  EXPECT_FALSE(DecodeProperties("version=0\n").ok());
  EXPECT_FALSE(DecodeProperties("version=0\nbroker.id=7x\n").ok());
  EXPECT_FALSE(DecodeProperties("version=0\nbroker.id=7\nlockstep.durability=no\n").ok());
  EXPECT_FALSE(DecodeProperties("version=0\nbroker.id=7\ncluster.id=a b\n").ok());
}

TEST_F(LogStore, AJournalWithoutLogsOfAServerThatWasNoBrokerIsRecovered) {
  StoreOptions before = Options();
  before.logs.reset();
  LogHarness h(before);
  h.RestartAndRecover();
  ASSERT_TRUE(h.recovered().has_value());
  h.AppendZab(AcceptedEpochRecord{{1}});
  h.AppendZab(TransactionRecord{{Epoch{1}, 1}, Bytes::Copy("x")});
  h.Flush();
  h.RunUntilIdle();
  h.Kill();
  LogHarness after(Options());
  for (const std::string& name : h.disk().Names(Directory::kLog)) {
    after.disk().Put(Directory::kLog, name, *h.disk().Get(Directory::kLog, name));
  }
  after.RestartAndRecover();
  ASSERT_TRUE(after.recovered().has_value()) << after.fatal();
  EXPECT_EQ(after.recovered()->transactions.size(), 1u);
  EXPECT_TRUE(after.recovered()->logs.empty());
}

class FlushedLogs : public LogStore {
 protected:
  FlushedLogs() : LogStore(Options(Durability::kFlush)) {}
};

TEST_F(FlushedLogs, WhatWasWrittenSurvivesTheProcess) {
  const LogNumber log = Twenty();
  h_.Do(log, LogTruncate{12});
  h_.Append(log, 8, 2, 20);
  Settle();
  h_.Kill();
  Recover();
  EXPECT_EQ(h_.recovered()->broker_epoch, 0);
}

TEST_F(FlushedLogs, OnlyACleanStopVouchesForTheBrokerEpoch) {
  h_.SetBrokerEpoch(5);
  Twenty();
  h_.MarkClean();
  h_.RunUntilIdle();
  ASSERT_TRUE(h_.clean());
  LosePower();
  EXPECT_EQ(h_.recovered()->broker_epoch, 5);
}

}  // namespace
}  // namespace lockstep::storage
