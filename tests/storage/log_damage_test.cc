// Partition logs whose files are not what was written: what readers are given, and what the next
// start makes of it (docs/disk.md, "Damaged logs").
#include <gtest/gtest.h>

#include "core/records/big_endian.h"
#include "tests/support/log_harness.h"

namespace lockstep::storage {
namespace {

StoreOptions Options(Durability durability = Durability::kFsync) {
  // Small segments of the journal, so that it does not keep what is in the files.
  StoreOptions options{.server = {1}, .segment_bytes = 2048, .retained_bytes = 0};
  options.logs = LogOptions{.durability = durability,
                            .segment_bytes = 1000,
                            .index_interval_bytes = 150,
                            .cache_bytes = 0,
                            .journal_bytes_max = 2048};
  return options;
}

// One log of 60 batches of one record each, in segments of ten, and what comes after it until the
// journal has forgotten its batches.
class DamagedLog : public testing::Test {
 protected:
  explicit DamagedLog(Durability durability = Durability::kFsync) : h_(Options(durability)) {
    h_.RestartAndRecover();
    h_.SetBrokerEpoch(7);
    log_ = h_.Create("topic", 0);
    for (int i = 0; i < 60; ++i) {
      h_.Append(log_, 1 + i / 20, 1, 20, 1000 + i);
      if (i % 5 == 4) Settle();
    }
    const LogNumber other = h_.Create("other", 0, {3, 4});
    for (int i = 0; i < 200; ++i) {
      h_.Append(other, 1, 1, 100);
      if (i % 5 == 4) Settle();
    }
    for (const std::string& name : h_.disk().Names(Directory::kLogs, "topic-0")) {
      const auto parsed = ParseLogFileName(name);
      if (parsed && parsed->kind == LogFileKind::kLog) bases_.push_back(parsed->base);
    }
    batch_bytes_ = records::ParseBatchHeader(Get(Name(0)))->size();
  }
  void Settle() {
    h_.Flush();
    h_.RunUntilIdle();
    ASSERT_EQ(h_.fatal(), "");
  }
  static std::string Name(int64_t base, LogFileKind kind = LogFileKind::kLog) {
    return "topic-0/" + LogFileName(base, kind);
  }
  std::string Get(const std::string& name) { return *h_.disk().Get(Directory::kLogs, name); }
  void Put(const std::string& name, std::string content) {
    h_.disk().Put(Directory::kLogs, name, std::move(content));
  }
  // Where the batch of `offset` begins in the file of the segment at `base`: all are of one size.
  size_t PlaceOf(int64_t base, int64_t offset) const {
    return static_cast<size_t>(offset - base) * batch_bytes_;
  }
  // Changes a byte of the batch of `offset`, `byte` bytes behind where it begins.
  void Damage(int64_t base, int64_t offset, size_t byte) {
    std::string content = Get(Name(base));
    content[PlaceOf(base, offset) + byte] ^= 2;
    Put(Name(base), content);
  }
  // A checkpoint as it was before there were checksums in them.
  static std::string WithoutChecksum(const std::string& text) {
    const size_t count = text.find('\n') + 1;
    const size_t lines = text.find('\n', count);
    const size_t checksum = text.find("#crc32c");
    LS_CHECK(checksum != std::string::npos);
    return text.substr(0, count) + std::to_string(std::stoi(text.substr(count)) - 1) +
           text.substr(lines, checksum - lines);
  }
  LogReadDone::Status Read(int64_t offset, int64_t* first = nullptr) {
    h_.Read(log_, offset, 1);
    h_.RunUntilIdle();
    const LogReadDone& done = h_.reads().back();
    if (first != nullptr) {
      *first = done.batches.empty() ? -1 : records::LoadBe<int64_t>(done.batches[0].data());
    }
    return done.status;
  }
  // What the events have said of damage, all of it.
  std::string Told() {
    std::string told;
    for (const Event& event : h_.events()) {
      if (event.kind == EventKind::kLogDamaged) told += event.text + "\n";
    }
    return told;
  }
  // The record there, and no other, is what a reader gets.
  void ExpectWhole(int64_t from, int64_t to) {
    for (int64_t offset = from; offset < to; ++offset) {
      int64_t first = -1;
      EXPECT_EQ(Read(offset, &first), LogReadDone::Status::kOk) << offset;
      EXPECT_EQ(first, offset);
    }
  }
  void Restart() {
    h_.Kill();
    h_.RestartAndRecover();
    ASSERT_EQ(h_.fatal(), "");
    ASSERT_TRUE(h_.recovered().has_value());
    h_.AdoptRecovered();
  }
  const RecoveredLog& Recovered() { return h_.recovered()->logs.at(0); }

  LogHarness h_;
  LogNumber log_;
  std::vector<int64_t> bases_;
  size_t batch_bytes_ = 0;
};

using Status = LogReadDone::Status;

TEST_F(DamagedLog, IsToldByWhoeverReadsIt) {
  Damage(bases_[1], bases_[1] + 2, 70);
  ExpectWhole(0, bases_[1] + 2);
  EXPECT_EQ(h_.damaged().size(), 0u);
  EXPECT_EQ(Read(bases_[1] + 2), Status::kFailed);
  ASSERT_EQ(h_.damaged().size(), 1u);
  EXPECT_EQ(h_.damaged()[0], log_);
  EXPECT_EQ(h_.CountEvents(EventKind::kLogDamaged), 1u);
  ExpectWhole(bases_[2], 60);
}

// Of its first bytes a batch's checksum covers only the last ones: an offset or an epoch that has
// changed would be handed out as if it had been written.
TEST_F(DamagedLog, OffsetsAndEpochsAreCheckedThoughNoChecksumCoversThem) {
  for (const size_t byte : {7u, 3u, 15u}) {
    for (const int64_t offset : {bases_[1], bases_[1] + 4, bases_[2] - 1}) {
      Damage(bases_[1], offset, byte);
      for (int64_t asked = bases_[1]; asked < bases_[2]; ++asked) {
        int64_t first = -1;
        if (Read(asked, &first) == Status::kOk) {
          EXPECT_EQ(first, asked) << "byte " << byte << " of " << offset;
        }
      }
      EXPECT_EQ(Read(offset), Status::kFailed) << "byte " << byte << " of " << offset;
      Damage(bases_[1], offset, byte);  // as it was
      ExpectWhole(bases_[1], bases_[2]);
    }
  }
}

// What a write that went astray has left in its place: a batch of an earlier leader, whole.
TEST_F(DamagedLog, ABatchThatWasCutIsNotHandedOut) {
  const std::string before = Get(Name(bases_.back()));
  const int64_t to = 59;
  h_.Do(log_, LogTruncate{to});
  h_.Append(log_, 9, 1, 20, 2000);
  Settle();
  ExpectWhole(to, to + 1);
  Put(Name(bases_.back()), before);
  EXPECT_EQ(Read(to), Status::kFailed);
}

// Every batch, whatever is wrong with it, is a hole of its own: what lies behind it in the same
// segment can be read, though no index knows a place there. A follower may be just there.
TEST_F(DamagedLog, WhatLiesBehindADamagedBatchCanBeRead) {
  for (const size_t byte : {70u, 16u, 15u, 7u, 0u}) {
    for (const int64_t offset : {bases_[1], bases_[1] + 1, bases_[1] + 2}) {
      Damage(bases_[1], offset, byte);
      for (int64_t asked = bases_[1]; asked < bases_[2]; ++asked) {
        int64_t first = -1;
        const Status status = Read(asked, &first);
        EXPECT_EQ(status, asked == offset ? Status::kFailed : Status::kOk)
            << asked << ", byte " << byte << " of " << offset;
        EXPECT_EQ(first, asked == offset ? -1 : asked);
      }
      Damage(bases_[1], offset, byte);  // as it was
    }
  }
}

// Where its length says that it ends, no batch begins: nobody knows what lies behind it.
TEST_F(DamagedLog, ALengthThatHasChangedLeadsNowhere) {
  Damage(bases_[1], bases_[1] + 1, 11);
  ExpectWhole(bases_[1], bases_[1] + 1);
  EXPECT_EQ(Read(bases_[1] + 1), Status::kFailed);
  EXPECT_EQ(Read(bases_[1] + 2), Status::kFailed);
  ExpectWhole(bases_[2], 60);
}

TEST_F(DamagedLog, IsToldWithItsPlace) {
  const size_t at = PlaceOf(bases_[1], bases_[1] + 2);
  Damage(bases_[1], bases_[1] + 2, 70);
  EXPECT_EQ(Read(bases_[1] + 2), Status::kFailed);
  EXPECT_EQ(Told(), "log.dirs/" + Name(bases_[1]) + ": the batch at byte " + std::to_string(at) +
                        ", of offset " + std::to_string(bases_[1] + 2) + ", is damaged\n");
}

TEST_F(DamagedLog, IsToldWithItsPlaceByRecovery) {
  const size_t at = PlaceOf(bases_.back(), 58);
  Damage(bases_.back(), 58, 70);
  Restart();
  EXPECT_EQ(Told(), "log.dirs/" + Name(bases_.back()) + ": the batch at byte " +
                        std::to_string(at) +
                        ", of offset 58, is damaged; the log ends at offset 60\n");
}

// An operator has deleted the file, and recovery has no reason to read it. What was before and
// behind it follows each other on the disk, and a consumer would be sent on as if there had never
// been anything in between.
TEST_F(DamagedLog, ASegmentThatIsGoneIsNotPassedOver) {
  h_.Snapshot(log_, 60);
  Settle();
  h_.disk().Remove(Directory::kLogs, Name(bases_[2]));
  Restart();
  EXPECT_EQ(Told(), "");
  ExpectWhole(bases_[1], bases_[2]);
  EXPECT_EQ(Read(bases_[2]), Status::kFailed);
  EXPECT_EQ(Read(bases_[3] - 1), Status::kFailed);
  EXPECT_EQ(Told(), "log.dirs/" + Name(bases_[1]) + ": offsets " + std::to_string(bases_[2]) +
                        " to " + std::to_string(bases_[3] - 1) + " are missing behind it\n");
  ExpectWhole(bases_[3], 60);
}

TEST_F(DamagedLog, ASegmentThatIsGoneIsFoundByRecoveryThatReadsBehindIt) {
  h_.disk().Remove(Directory::kLogs, Name(bases_[2]));
  Restart();
  EXPECT_TRUE(Recovered().damaged);
  EXPECT_EQ(Told(), "log.dirs/" + Name(bases_[1]) + ": the file ends at offset " +
                        std::to_string(bases_[2]) + "; the log ends at offset 60\n");
  ExpectWhole(bases_[1], bases_[2]);
  EXPECT_EQ(Read(bases_[2]), Status::kFailed);
  ExpectWhole(bases_[3], 60);
}

TEST_F(DamagedLog, TheFirstSegmentIsMissed) {
  h_.disk().Remove(Directory::kLogs, Name(bases_[0]));
  Restart();
  EXPECT_TRUE(Recovered().damaged);
  EXPECT_EQ(Told(), "log.dirs/topic-0: the segment of offset 0 is missing\n");
  EXPECT_EQ(Read(0), Status::kFailed);
  ExpectWhole(bases_[1], 60);
}

TEST_F(DamagedLog, ALostSegmentIsNotPassedOver) {
  Put(Name(bases_[1]), "");
  EXPECT_EQ(Read(bases_[1] + 1), Status::kFailed);
  Restart();
  EXPECT_TRUE(Recovered().damaged);
  EXPECT_EQ(Read(bases_[1] + 1), Status::kFailed);
  ExpectWhole(0, bases_[1]);
  ExpectWhole(bases_[2], 60);
}

TEST_F(DamagedLog, AnIndexThatLeadsAstrayIsNoDamage) {
  const std::string name = Name(bases_[1], LogFileKind::kIndex);
  std::string index = Get(name);
  ASSERT_GE(index.size(), 16u);
  // Ascending still, and nothing begins there.
  records::StoreBe(index.data() + 4, records::LoadBe<int32_t>(index.data() + 4) + 1);
  Restart();
  Put(name, index);
  ExpectWhole(0, 60);
  EXPECT_EQ(h_.CountEvents(EventKind::kLogDamaged), 0u);
}

// A power loss has left in it what was never written.
TEST_F(DamagedLog, AnIndexThatLeadsRecoveryAstrayIsNoDamage) {
  h_.Snapshot(log_, 60);
  Settle();
  for (const int32_t position : {0, 1}) {
    std::string index(8, '\0');
    records::StoreBe(index.data(), int32_t{1});
    records::StoreBe(index.data() + 4, position);
    h_.Kill();
    Put(Name(bases_.back(), LogFileKind::kIndex), index);
    h_.RestartAndRecover();
    ASSERT_TRUE(h_.recovered().has_value());
    h_.AdoptRecovered();
    EXPECT_FALSE(Recovered().damaged);
    EXPECT_EQ(Told(), "");
    ExpectWhole(0, 60);
  }
}

TEST_F(DamagedLog, AnIndexThatLeadsACutAstrayIsNoDamage) {
  std::string index(8, '\0');
  records::StoreBe(index.data(), int32_t{1});
  records::StoreBe(index.data() + 4, int32_t{1});
  Restart();
  Put(Name(bases_[2], LogFileKind::kIndex), index);
  h_.Do(log_, LogTruncate{bases_[2] + 5});
  h_.Append(log_, 9, 1, 20, 2000);
  Settle();
  EXPECT_EQ(Told(), "");
  ExpectWhole(0, bases_[2] + 6);
}

// Nothing of the start depends on a log that is damaged: it is what it was, with a hole in it.
TEST_F(DamagedLog, FoundByRecoveryGoesOnBehindTheHole) {
  Damage(bases_.back(), 58, 70);
  Restart();
  EXPECT_TRUE(Recovered().damaged);
  EXPECT_EQ(Recovered().end, 60);
  EXPECT_EQ(Recovered().epochs.size(), 3u);
  EXPECT_EQ(h_.recovered()->broker_epoch, 7);
  EXPECT_EQ(Read(58), Status::kFailed);
  h_.Append(log_, 9, 1, 20, 3000);
  Settle();
  int64_t first = 0;
  EXPECT_EQ(Read(60, &first), Status::kOk);
  EXPECT_EQ(first, 60);
  Restart();
  EXPECT_TRUE(Recovered().damaged);
  EXPECT_EQ(Recovered().end, 61);
  EXPECT_EQ(Read(60, &first), Status::kOk);
  ExpectWhole(0, bases_.back());
}

TEST_F(DamagedLog, AFileThatEndsEarlyIsDamage) {
  std::string content = Get(Name(bases_.back()));
  content.resize(PlaceOf(bases_.back(), 59));
  Put(Name(bases_.back()), content);
  EXPECT_EQ(Read(59), Status::kFailed);
  Restart();
  EXPECT_TRUE(Recovered().damaged);
  EXPECT_EQ(Recovered().end, 60);
  EXPECT_EQ(Read(59), Status::kFailed);
  ExpectWhole(0, 59);
}

// The journal says where a log was cut. That the files ended before was taken for what had been
// cut.
TEST_F(DamagedLog, DamageBelowACutIsNotTakenForTheCut) {
  h_.Do(log_, LogTruncate{58});
  h_.Append(log_, 9, 1, 20, 2000);
  Settle();
  Damage(bases_.back(), 56, 70);
  Restart();
  EXPECT_TRUE(Recovered().damaged);
  EXPECT_EQ(Recovered().end, 59);
  EXPECT_EQ(Read(56), Status::kFailed);
  int64_t first = 0;
  EXPECT_EQ(Read(58, &first), Status::kOk);
  EXPECT_EQ(first, 58);
}

TEST_F(DamagedLog, HintsThatCannotBeReadAreNotThere) {
  h_.Snapshot(log_, 60);
  h_.Checkpoint();
  Settle();
  std::vector<std::string> files = {"replication-offset-checkpoint"};
  for (const std::string& name : h_.disk().Names(Directory::kLogs, "topic-0")) {
    if (!name.ends_with(".log")) files.push_back("topic-0/" + name);
  }
  for (const std::string& file : files) {
    h_.MakeUnreadable(file);
    Restart();
    EXPECT_FALSE(Recovered().damaged) << file;
    EXPECT_EQ(Recovered().end, 60) << file;
    ExpectWhole(0, 60);
  }
  h_.MakeUnreadable("meta.properties");
  h_.Kill();
  h_.RestartAndRecover();
  EXPECT_NE(h_.fatal(), "");
}

TEST_F(DamagedLog, ASectorThatCannotBeReadIsDamage) {
  h_.MakeUnreadable(Name(bases_.back()));
  EXPECT_EQ(Read(59), Status::kFailed);
  Restart();
  EXPECT_TRUE(Recovered().damaged);
  EXPECT_EQ(Recovered().end, 60);
}

// A reader asks for much at once, and gets all of it that is not in that sector.
TEST_F(DamagedLog, WhatLiesAroundABadSectorCanBeRead) {
  const uint64_t at = PlaceOf(bases_[1], bases_[1] + 3) + 80;
  h_.MakeUnreadable(Name(bases_[1]), at, at + 1);
  ExpectWhole(bases_[1], bases_[1] + 3);
  EXPECT_EQ(Told(), "");
  EXPECT_EQ(Read(bases_[1] + 3), Status::kFailed);
  EXPECT_EQ(Told(), "log.dirs/" + Name(bases_[1]) + ": the batch at byte " +
                        std::to_string(at - 80) + ", of offset " + std::to_string(bases_[1] + 3) +
                        ", cannot be read: \n");
  ExpectWhole(bases_[1] + 4, bases_[2]);
}

// Nobody knows where the batch ends whose header is there.
TEST_F(DamagedLog, ABadSectorWithAHeaderHidesWhatFollowsIt) {
  const uint64_t at = PlaceOf(bases_[1], bases_[1] + 1) + 20;
  h_.MakeUnreadable(Name(bases_[1]), at, at + 1);
  ExpectWhole(bases_[1], bases_[1] + 1);
  EXPECT_EQ(Read(bases_[1] + 1), Status::kFailed);
  ExpectWhole(bases_[2], 60);
}

TEST_F(DamagedLog, ACheckpointWithAnotherDigitIsNotBelieved) {
  h_.store().SetHighWatermark(log_, 11);
  h_.Checkpoint();
  Settle();
  std::string text = Get("replication-offset-checkpoint");
  Restart();
  EXPECT_EQ(Recovered().high_watermark, 11);
  for (size_t at = text.find(" 11"); at != std::string::npos; at = text.find(" 11", at + 1)) {
    text[at + 1] = '5';
  }
  Put("replication-offset-checkpoint", text);
  Restart();
  EXPECT_EQ(Recovered().high_watermark, 0);
}

// What the build before has written has no checksum: it is believed, as it was then.
TEST_F(DamagedLog, CheckpointsWithoutAChecksumAreRead) {
  h_.store().SetHighWatermark(log_, 11);
  h_.Checkpoint();
  Settle();
  Put("replication-offset-checkpoint", WithoutChecksum(Get("replication-offset-checkpoint")));
  Restart();
  EXPECT_EQ(Recovered().high_watermark, 11);
  EXPECT_EQ(Told(), "");
}

class FlushedDamagedLog : public DamagedLog {
 protected:
  FlushedDamagedLog() : DamagedLog(Durability::kFlush) {}
};

// Without them nobody knows whether the logs are as long as they were when they were left.
TEST_F(FlushedDamagedLog, ACleanStopWithoutItsCheckpointsVouchesForNothing) {
  for (const char* file : {"recovery-point-offset-checkpoint", "log-start-offset-checkpoint"}) {
    h_.SetBrokerEpoch(8);
    Settle();
    h_.MarkClean();
    h_.RunUntilIdle();
    ASSERT_TRUE(h_.clean());
    std::string text = Get(file);
    text[text.size() / 2] ^= 1;
    Put(file, text);
    Restart();
    EXPECT_EQ(h_.recovered()->broker_epoch, 0) << file;
  }
}

TEST_F(FlushedDamagedLog, ACleanStopOfABuildWithoutChecksumsIsVouchedFor) {
  h_.SetBrokerEpoch(8);
  Settle();
  h_.MarkClean();
  h_.RunUntilIdle();
  ASSERT_TRUE(h_.clean());
  for (const char* file : {"replication-offset-checkpoint", "recovery-point-offset-checkpoint",
                           "log-start-offset-checkpoint"}) {
    Put(file, WithoutChecksum(Get(file)));
  }
  Restart();
  EXPECT_EQ(h_.recovered()->broker_epoch, 8);
  EXPECT_EQ(Recovered().end, 60);
  EXPECT_EQ(Told(), "");
  ExpectWhole(0, 60);
}

TEST_F(FlushedDamagedLog, ASegmentThatIsGoneIsNotPassedOver) {
  h_.Snapshot(log_, 60);
  Settle();
  h_.MarkClean();
  h_.RunUntilIdle();
  h_.disk().Remove(Directory::kLogs, Name(bases_[2]));
  Restart();
  ExpectWhole(bases_[1], bases_[2]);
  EXPECT_EQ(Read(bases_[2]), Status::kFailed);
  ExpectWhole(bases_[3], 60);
}

TEST_F(FlushedDamagedLog, IsCutAndNotVouchedFor) {
  h_.MarkClean();
  h_.RunUntilIdle();
  Damage(bases_.back(), 58, 70);
  Restart();
  EXPECT_EQ(h_.recovered()->broker_epoch, 0);
  EXPECT_EQ(Recovered().end, 58);
  ExpectWhole(0, 58);
}

}  // namespace
}  // namespace lockstep::storage
