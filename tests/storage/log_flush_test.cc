// Every crash point of partition logs with kFlush. After the process has died, a log is as some
// change that was not told to be durable has left it, or later; after a loss of power it may have
// lost its tail, but it is never a mixture of two histories.
#include <gtest/gtest.h>

#include <memory>

#include "core/base/random.h"
#include "tests/support/log_harness.h"

namespace lockstep::storage {
namespace {

StoreOptions Options() {
  StoreOptions options{.server = {1}, .segment_bytes = 4096, .retained_bytes = 0};
  options.logs = LogOptions{.durability = Durability::kFlush,
                            .segment_bytes = 300,
                            .index_interval_bytes = 100,
                            .cache_bytes = 300,
                            .journal_bytes_max = 8192};
  return options;
}

bool Script(LogHarness* h, uint64_t budget) {
  h->Restart();
  if (!h->RunWithin(&budget)) return false;
  const LogNumber a = h->Create("a", 0);
  const LogNumber c = h->Create("c", 0);
  for (int i = 0; i < 8; ++i) h->Append(a, 1, 1 + i % 2, 30);
  for (int i = 0; i < 3; ++i) h->Append(c, 1, 1, 30);
  if (!h->RunWithin(&budget)) return false;
  h->Do(a, LogTruncate{9});
  h->Append(a, 2, 1, 30);
  h->Append(a, 2, 1, 30);
  h->Do(c, LogStart{2});
  if (!h->RunWithin(&budget)) return false;
  h->Do(a, LogTruncate{4});  // into the middle of what has been synced
  h->Do(a, LogEpoch{{4, 4}});
  for (int i = 0; i < 6; ++i) h->Append(a, 4, 1, 30);
  h->Delete(c);
  if (!h->RunWithin(&budget)) return false;
  const LogNumber again = h->Create("c", 0);  // the same directory
  for (int i = 0; i < 5; ++i) h->Append(again, 5, 1, 60);
  h->Do(a, LogStart{7});
  if (!h->RunWithin(&budget)) return false;
  h->Do(again, LogStart{40});  // emptied, above its end
  h->Append(again, 6, 1, 30);
  return h->RunWithin(&budget);
}

// What the epochs say is true of every batch.
bool EpochsAreTrue(const RecoveredLog& found, const std::string& text) {
  if (!found.epochs.empty() && found.epochs.back().start > found.end) return false;
  for (size_t at = 0; at < text.size();) {
    const auto header = records::ParseBatchHeader(std::string_view(text).substr(at));
    if (!header.ok()) return false;
    int32_t epoch = -1;
    for (const EpochStart& entry : found.epochs) {
      if (entry.start <= std::max(header->base_offset, found.start)) epoch = entry.epoch;
    }
    if (epoch != header->partition_leader_epoch) return false;
    at += header->size();
  }
  return true;
}

// Whether `found` is `log` as it was at some time, or less of it.
std::string Compare(const LogHarness::State& state, const RecoveredLog& found,
                    const std::string& text, bool exactly) {
  const auto log = state.logs.find(found.log);
  if (log == state.logs.end()) return "no such log";
  if (exactly && (found.start != log->second.extent.start || found.end != log->second.extent.end ||
                  found.epochs != log->second.extent.epochs)) {
    return "bounds or epochs";
  }
  std::string expected;
  for (const LogHarness::Batch& batch : log->second.batches) {
    if (batch.end > found.start && batch.end <= found.end) expected += batch.bytes;
  }
  return expected == text ? "" : "content";
}

class FlushedCrash : public testing::TestWithParam<uint64_t> {};

TEST_P(FlushedCrash, LeavesOneHistory) {
  const uint64_t way = GetParam();
  // Choosing the next operation takes time.
  for (uint64_t budget = way;; budget += way < 3 ? 11 : 37) {
    LogHarness h(Options());
    if (way >= 3) h.Shuffle(RandomStream(way, ServerId{1}, budget, 1));
    const bool finished = Script(&h, budget);
    ASSERT_EQ(h.fatal(), "");
    const std::string where = "way " + std::to_string(way) + " after " + std::to_string(budget);
    const bool killed = way % 3 == 0;
    auto random = std::make_shared<RandomStream>(way, ServerId{1}, budget, 0);
    if (!killed) h.Crash([random, way] { return way > 1 && random->Chance(1, 2); });
    const uint64_t durable = h.persisted();
    std::vector<LogHarness::State> states;
    for (size_t n = 0; n <= h.changed(); ++n) states.push_back(h.StateAfter(n));
    const bool whole = durable == h.changed();
    h.RestartAndRecover();
    ASSERT_EQ(h.fatal(), "") << where;
    ASSERT_TRUE(h.recovered().has_value()) << where;
    for (const RecoveredLog& log : h.recovered()->logs) {
      ASSERT_LE(log.start, log.end) << where;
      const std::string text = h.ReadAll(log.log, log.start, log.end);
      std::string wrong = "no state";
      // A killed process has lost nothing that was told; power takes more, but to one history.
      for (size_t n = killed ? durable : 0; n < states.size() && !wrong.empty(); ++n) {
        wrong = Compare(states[n], log, text, killed && whole);
      }
      ASSERT_EQ(wrong, "") << where << " log " << log.log.ToString();
      ASSERT_TRUE(EpochsAreTrue(log, text)) << where << " log " << log.log.ToString();
      int64_t least = INT64_MAX;
      for (size_t n = durable; killed && n < states.size(); ++n) {
        const auto state = states[n].logs.find(log.log);
        if (state != states[n].logs.end()) least = std::min(least, state->second.extent.end);
      }
      if (killed) {
        ASSERT_GE(log.end, least) << where << " log " << log.log.ToString();
      }
    }
    // What comes now is durable with a clean stop, whatever the crash has left.
    h.AdoptRecovered();
    for (const auto& [log, state] : h.Now().logs) h.Append(log, 9, 2, 20);
    h.Flush();
    h.RunUntilIdle();
    const LogHarness::State expected = h.Now();
    h.MarkClean();
    h.RunUntilIdle();
    ASSERT_TRUE(h.clean()) << where;
    h.Crash([] { return false; });
    h.RestartAndRecover();
    ASSERT_TRUE(h.recovered().has_value()) << where << h.fatal();
    for (const RecoveredLog& log : h.recovered()->logs) {
      const LogExtent& extent = expected.logs.at(log.log).extent;
      ASSERT_EQ(log.start, extent.start) << where;
      ASSERT_EQ(log.end, extent.end) << where;
      ASSERT_EQ(log.epochs, extent.epochs) << where;
    }
    if (finished) break;
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, FlushedCrash, testing::Range<uint64_t>(0, 6));

class FlushedStore : public testing::Test {
 protected:
  void Settle() {
    h_.Flush();
    h_.RunUntilIdle();
    ASSERT_EQ(h_.fatal(), "");
    ASSERT_EQ(h_.persisted(), h_.changed());
  }
  LogHarness h_{Options()};
};

TEST_F(FlushedStore, AStartWithinASegmentIsKept) {
  h_.RestartAndRecover();
  const LogNumber log = h_.Create("a", 0);
  for (int i = 0; i < 3; ++i) h_.Append(log, 1, 1, 20);
  h_.Do(log, LogStart{2});
  Settle();
  h_.Kill();
  h_.RestartAndRecover();
  ASSERT_TRUE(h_.recovered().has_value()) << h_.fatal();
  EXPECT_EQ(h_.recovered()->logs.at(0).start, 2);
  EXPECT_EQ(h_.recovered()->logs.at(0).end, 3);
}

// Seeds 421 and 888 of `brokers`.
TEST_F(FlushedStore, AStartThatWasToldSurvivesALossOfPower) {
  h_.RestartAndRecover();
  const LogNumber log = h_.Create("a", 0);
  for (int i = 0; i < 3; ++i) h_.Append(log, 1, 1, 20);
  h_.Do(log, LogStart{2});
  Settle();
  h_.Crash([] { return false; });
  h_.RestartAndRecover();
  ASSERT_TRUE(h_.recovered().has_value()) << h_.fatal();
  EXPECT_EQ(h_.recovered()->logs.at(0).start, 2);
}

// Seed 1134 of `brokers`: segments that were rolled are synced while the start moves, past the
// beginning of an epoch, and the file of the starts is slow.
TEST_F(FlushedStore, EpochsDoNotMoveBeforeTheStartDoes) {
  h_.RestartAndRecover();
  const LogNumber log = h_.Create("a", 0);
  for (int i = 0; i < 8; ++i) h_.Append(log, 1 + i / 4, 1, 60);
  Settle();
  h_.Stick("log-start-offset-checkpoint.tmp");
  for (int i = 0; i < 5; ++i) h_.Append(log, 2, 1, 60);
  h_.Do(log, LogStart{5});
  h_.Flush();
  h_.RunUntilIdle();
  EXPECT_LT(h_.persisted(), h_.changed());
  h_.Kill();
  h_.RestartAndRecover();
  ASSERT_TRUE(h_.recovered().has_value()) << h_.fatal();
  const RecoveredLog& found = h_.recovered()->logs.at(0);
  EXPECT_EQ(found.start, 0);
  EXPECT_EQ(found.end, 13);
  EXPECT_TRUE(EpochsAreTrue(found, h_.ReadAll(log, found.start, found.end)));
}

// As a damaged disk leaves it: then the broker's epoch is not vouched for.
TEST_F(FlushedStore, ACleanStopVouchesOnlyForLogsThatAreWhole) {
  h_.RestartAndRecover();
  h_.SetBrokerEpoch(7);
  const LogNumber log = h_.Create("a", 0);
  for (int i = 0; i < 8; ++i) h_.Append(log, 1, 1, 50);
  Settle();
  h_.MarkClean();
  h_.RunUntilIdle();
  h_.Kill();
  h_.RestartAndRecover();
  EXPECT_EQ(h_.recovered()->broker_epoch, 7);
  h_.MarkClean();
  h_.RunUntilIdle();
  h_.Kill();
  h_.disk().Put(Directory::kLogs, "a-0/" + LogFileName(0, LogFileKind::kLog), "");
  h_.RestartAndRecover();
  ASSERT_TRUE(h_.recovered().has_value()) << h_.fatal();
  EXPECT_EQ(h_.recovered()->broker_epoch, 0);
  EXPECT_EQ(h_.recovered()->logs.at(0).end, 0);
}

// Reset within a batch, and whatever is left of the batch is no beginning of the log.
TEST_F(FlushedStore, ALogThatWasCutBelowItsStartHasNoGap) {
  h_.RestartAndRecover();
  const LogNumber log = h_.Create("a", 0);
  h_.Append(log, 1, 3, 20);
  h_.Append(log, 1, 3, 20);
  h_.Do(log, LogStart{5});
  h_.Do(log, LogTruncate{4});
  h_.Append(log, 2, 2, 20);
  Settle();
  h_.Kill();
  h_.RestartAndRecover();
  ASSERT_EQ(h_.CheckRecovered(), "");
  EXPECT_EQ(h_.recovered()->logs.at(0).end, 6);
}

TEST_F(FlushedStore, TheRecoveryPointMovesOnWhenASegmentBegins) {
  h_.RestartAndRecover();
  const LogNumber log = h_.Create("a", 0);
  for (int i = 0; i < 20; ++i) h_.Append(log, 1, 1, 50);
  Settle();
  const auto points =
      DecodeOffsets(*h_.disk().Get(Directory::kLogs, "recovery-point-offset-checkpoint"));
  ASSERT_TRUE(points.ok());
  ASSERT_EQ(points->size(), 1u);
  EXPECT_GT(points->at(0).offset, 10);
  h_.Crash([] { return false; });
  h_.RestartAndRecover();
  ASSERT_TRUE(h_.recovered().has_value()) << h_.fatal();
  EXPECT_GE(h_.recovered()->logs.at(0).end, points->at(0).offset);
}

TEST_F(FlushedStore, ACutBelowTheRecoveryPointLowersThatFirst) {
  h_.RestartAndRecover();
  const LogNumber log = h_.Create("a", 0);
  for (int i = 0; i < 20; ++i) h_.Append(log, 1, 1, 50);
  Settle();
  h_.Do(log, LogTruncate{4});
  h_.Append(log, 2, 1, 50);
  h_.Flush();
  bool cut = false;
  do {
    for (const FileOp& op : h_.queue()) {
      if (!op.file.ends_with(".log")) continue;
      if (op.kind != OpKind::kTruncate && op.kind != OpKind::kRemove) continue;
      cut = true;
      const auto points =
          DecodeOffsets(*h_.disk().Get(Directory::kLogs, "recovery-point-offset-checkpoint"));
      ASSERT_TRUE(points.ok());
      ASSERT_EQ(points->at(0).offset, 4);
    }
  } while (h_.ExecuteOne());
  EXPECT_TRUE(cut);
  EXPECT_EQ(h_.persisted(), h_.changed());
}

// Directories may lose their changes in any order.
TEST_F(FlushedStore, ALogEndsWhereASegmentIsMissing) {
  h_.RestartAndRecover();
  const LogNumber log = h_.Create("a", 0);
  for (int i = 0; i < 20; ++i) h_.Append(log, 1, 1, 50);
  Settle();
  std::vector<int64_t> bases;
  for (const std::string& name : h_.disk().Names(Directory::kLogs, "a-0")) {
    const auto file = ParseLogFileName(name);
    if (file.has_value() && file->kind == LogFileKind::kLog) bases.push_back(file->base);
  }
  ASSERT_GT(bases.size(), 3u);
  h_.Kill();
  h_.disk().Remove(Directory::kLogs, "a-0/" + LogFileName(bases[2], LogFileKind::kLog));
  h_.disk().Put(Directory::kLogs, "recovery-point-offset-checkpoint",
                std::string(EncodeOffsets({{"a", 0, 0}}).view()));
  h_.RestartAndRecover();
  ASSERT_TRUE(h_.recovered().has_value()) << h_.fatal();
  EXPECT_EQ(h_.recovered()->logs.at(0).end, bases[2]);
}

TEST_F(FlushedStore, AMadeUpIndexDoesNotShortenTheLog) {
  h_.RestartAndRecover();
  const LogNumber log = h_.Create("a", 0);
  for (int i = 0; i < 3; ++i) h_.Append(log, 1, 1, 20);
  Settle();
  h_.Kill();
  h_.disk().Put(Directory::kLogs, "a-0/" + LogFileName(0, LogFileKind::kIndex),
                std::string("\0\0\0\1\0\0\0\7", 8));
  h_.disk().Put(Directory::kLogs, "recovery-point-offset-checkpoint",
                std::string(EncodeOffsets({{"a", 0, 2}}).view()));
  h_.RestartAndRecover();
  ASSERT_EQ(h_.CheckRecovered(), "");
  EXPECT_EQ(h_.recovered()->logs.at(0).end, 3);
}

TEST_F(FlushedStore, ALogThatWasMadeAgainKeepsItsBatches) {
  h_.RestartAndRecover();
  const LogNumber first = h_.Create("a", 0);
  h_.Append(first, 1, 3, 20);
  Settle();
  h_.Delete(first);
  Settle();
  const LogNumber second = h_.Create("a", 0);
  h_.Append(second, 2, 2, 20);
  Settle();
  for (int again = 0; again < 2; ++again) {
    h_.Kill();
    h_.RestartAndRecover();
    ASSERT_EQ(h_.CheckRecovered(), "");
  }
  EXPECT_EQ(h_.recovered()->logs.at(0).end, 2);
}

}  // namespace
}  // namespace lockstep::storage
