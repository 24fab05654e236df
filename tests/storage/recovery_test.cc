// What recovery does with directories that are not as the store left them: a torn tail is cut, and
// everything else stops the server with a sentence that says what and where.
#include "core/storage/recovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/store_harness.h"

namespace lockstep::storage {
namespace {

using testing::HasSubstr;

constexpr Zxid At(uint32_t epoch, uint32_t counter) { return {{epoch}, counter}; }

const std::string kFirst = "journal.0000000000000001";
const std::string kSecond = "journal.0000000000000002";

class RecoveryTest : public testing::Test {
 protected:
  // Starts with segments of this size; appends `batches` batches of one transaction each.
  void Begin(uint64_t segment_bytes, uint32_t batches) {
    harness_ = StoreHarness({.server = {1}, .segment_bytes = segment_bytes, .retained_bytes = 0});
    harness_.RestartAndRecover();
    ASSERT_EQ(harness_.CheckRecovered(), "");
    for (uint32_t counter = 1; counter <= batches; ++counter) Batch(counter);
  }
  void Batch(uint32_t counter) {
    harness_.AppendTransaction(At(1, counter), "body of " + std::to_string(counter));
    harness_.Flush();
    harness_.RunUntilIdle();
    ASSERT_EQ(harness_.persisted(), harness_.appended());
  }
  // Where the batch of Batch(counter) begins in a first segment: all have the same size.
  static uint64_t BatchAt(uint32_t counter) {
    const uint64_t size = kBatchHeaderBytes + kRecordHeaderBytes + 8 + 9;
    return kSegmentHeaderBytes + (counter - 1) * AlignBatch(size);
  }
  void Flip(Directory directory, const std::string& file, uint64_t offset) {
    std::string content = *harness_.disk().Get(directory, file);
    content.at(offset) ^= 0x40;
    harness_.disk().Put(directory, file, content);
  }
  void Zero(const std::string& file, uint64_t from, uint64_t to) {
    std::string content = *harness_.disk().Get(Directory::kLog, file);
    content.replace(from, to - from, std::string(to - from, '\0'));
    harness_.disk().Put(Directory::kLog, file, content);
  }
  const std::string& FatalAfterRestart() {
    harness_.RestartAndRecover();
    EXPECT_FALSE(harness_.recovered().has_value());
    return harness_.fatal();
  }

  StoreHarness harness_{StoreOptions{.server = {1}}};
};

TEST_F(RecoveryTest, ADamagedLastBatchIsCutAsATornTail) {
  Begin(4096, 5);
  Flip(Directory::kLog, kFirst, BatchAt(5) + 30);

  harness_.RestartAndRecover();

  ASSERT_TRUE(harness_.recovered().has_value()) << harness_.fatal();
  EXPECT_EQ(harness_.recovered()->transactions.size(), 4u);
  EXPECT_EQ(harness_.CountEvents(EventKind::kTornTail), 1u);
}

TEST_F(RecoveryTest, NothingIsTornAfterACleanStop) {
  Begin(4096, 5);

  harness_.RestartAndRecover();

  EXPECT_EQ(harness_.recovered()->transactions.size(), 5u);
  EXPECT_EQ(harness_.CountEvents(EventKind::kTornTail), 0u);
}

TEST_F(RecoveryTest, IntactRecordsBehindADamagedOneAreCutWithItsBatch) {
  Begin(4096, 2);
  for (uint32_t counter = 3; counter <= 6; ++counter) {
    harness_.AppendTransaction(At(1, counter), std::string(100, 'x'));
  }
  harness_.Flush();
  harness_.RunUntilIdle();
  Flip(Directory::kLog, kFirst, BatchAt(3) + kBatchHeaderBytes + 20);

  harness_.RestartAndRecover();

  ASSERT_TRUE(harness_.recovered().has_value()) << harness_.fatal();
  EXPECT_EQ(harness_.recovered()->transactions.size(), 2u);
  const std::string content = *harness_.disk().Get(Directory::kLog, kFirst);
  EXPECT_EQ(content.size(), 4096u);
  EXPECT_EQ(content.find_last_not_of('\0'), BatchAt(3) - 1 - 6);  // 6 bytes of padding
}

TEST_F(RecoveryTest, DamageBeforeALaterBatchIsReported) {
  Begin(4096, 5);
  Flip(Directory::kLog, kFirst, BatchAt(2) + 30);

  const std::string& fatal = FatalAfterRestart();

  EXPECT_THAT(fatal, HasSubstr("dataLogDir/" + kFirst + " is damaged at offset " +
                               std::to_string(BatchAt(2))));
  EXPECT_THAT(fatal, HasSubstr("at offset " + std::to_string(BatchAt(3))));
}

TEST_F(RecoveryTest, ABatchThatIsGoneBeforeALaterOneIsReported) {
  Begin(4096, 5);
  Zero(kFirst, BatchAt(3), BatchAt(4));

  EXPECT_THAT(FatalAfterRestart(), HasSubstr("is damaged at offset"));
}

// What a copy to a full disk leaves: no crash does, for the file has its length before its header.
TEST_F(RecoveryTest, AFileThatIsShorterThanItWasMadeIsReported) {
  Begin(4096, 5);
  std::string content = *harness_.disk().Get(Directory::kLog, kFirst);
  for (uint64_t size : {BatchAt(6), BatchAt(3), BatchAt(3) + 5, uint64_t{kSegmentHeaderBytes}}) {
    content.resize(size);
    harness_.disk().Put(Directory::kLog, kFirst, content);

    EXPECT_THAT(FatalAfterRestart(), HasSubstr("it had 4096 bytes before anything was written"));
  }
}

// Cutting a torn tail must not leave such a file, whenever the next crash comes.
TEST_F(RecoveryTest, ACutTailLeavesTheFileItsLength) {
  Begin(4096, 5);
  Flip(Directory::kLog, kFirst, BatchAt(5) + 30);
  harness_.RestartAndRecover();

  harness_.RestartAndRecover();

  ASSERT_TRUE(harness_.recovered().has_value()) << harness_.fatal();
  EXPECT_EQ(harness_.recovered()->transactions.size(), 4u);
}

TEST_F(RecoveryTest, DamageInASegmentThatIsNotTheLastIsReported) {
  Begin(300, 12);
  Flip(Directory::kLog, kFirst, BatchAt(2) + 30);

  EXPECT_THAT(FatalAfterRestart(), HasSubstr("dataLogDir/" + kFirst + " is damaged at offset " +
                                             std::to_string(BatchAt(2))));
}

TEST_F(RecoveryTest, ATailThatIsGoneFromASegmentThatIsNotTheLastIsReported) {
  Begin(300, 12);
  const uint64_t size = harness_.disk().Get(Directory::kLog, kFirst)->size();
  Zero(kFirst, BatchAt(4), size);

  EXPECT_THAT(FatalAfterRestart(), HasSubstr("the next segment says that it goes on to"));
}

TEST_F(RecoveryTest, AMissingMiddleSegmentIsReported) {
  Begin(300, 15);
  harness_.disk().Remove(Directory::kLog, kSecond);

  EXPECT_THAT(FatalAfterRestart(), HasSubstr("dataLogDir/" + kSecond + " is missing"));
}

TEST_F(RecoveryTest, AMissingOldestSegmentIsReported) {
  Begin(300, 15);
  harness_.disk().Remove(Directory::kLog, kFirst);

  EXPECT_THAT(FatalAfterRestart(), HasSubstr("older segments are missing"));
}

TEST_F(RecoveryTest, ADamagedHeaderIsReported) {
  Begin(4096, 2);
  Flip(Directory::kLog, kFirst, 20);

  EXPECT_THAT(FatalAfterRestart(), HasSubstr("there is no intact header"));
}

TEST_F(RecoveryTest, TheHeaderOfTheOnlySegmentMattersEvenWithoutRecords) {
  // Dropping may leave a segment alone that has nothing but its header, with the epochs in it.
  Begin(300, 15);
  for (const std::string& name : harness_.disk().Names(Directory::kLog)) {
    harness_.disk().Remove(Directory::kLog, name);
  }
  harness_.disk().Put(Directory::kLog, kSecond, std::string(300, '\0'));

  EXPECT_THAT(FatalAfterRestart(), HasSubstr("there is no intact header"));
}

TEST_F(RecoveryTest, AForeignServerIsReported) {
  Begin(4096, 2);
  StoreOptions other = harness_.options();
  other.server = {2};
  harness_.set_options(other);

  EXPECT_THAT(FatalAfterRestart(), HasSubstr("belongs to server 1, and this is server 2"));
}

TEST_F(RecoveryTest, AnUnknownFormatVersionIsReported) {
  Begin(4096, 2);
  std::string content = *harness_.disk().Get(Directory::kLog, kFirst);
  content[8] = 9;
  harness_.disk().Put(Directory::kLog, kFirst, content);

  EXPECT_THAT(FatalAfterRestart(), HasSubstr("format version 9"));
}

TEST_F(RecoveryTest, ASegmentUnderAnotherNameIsReported) {
  Begin(4096, 2);
  const std::string content = *harness_.disk().Get(Directory::kLog, kFirst);
  harness_.disk().Remove(Directory::kLog, kFirst);
  harness_.disk().Put(Directory::kLog, kSecond, content);

  EXPECT_THAT(FatalAfterRestart(), HasSubstr("it is segment 1 by its header"));
}

TEST_F(RecoveryTest, ATransactionAboveALoweredLimitIsReportedAndNotCut) {
  Begin(4096, 2);
  harness_.AppendTransaction(At(1, 3), std::string(1000, 'x'));
  harness_.Flush();
  harness_.RunUntilIdle();
  StoreOptions lowered = harness_.options();
  lowered.record_bytes_max = 500;
  harness_.set_options(lowered);

  EXPECT_THAT(FatalAfterRestart(), HasSubstr("raise jute.maxbuffer"));
}

class SnapshotRecoveryTest : public RecoveryTest {
 protected:
  const std::string kFile = "snapshot.0000000100000004";

  void SetUp() override {
    Begin(4096, 6);
    harness_.BeginSnapshot(At(1, 4));
    harness_.RunUntilIdle();
    ASSERT_EQ(harness_.snapshot_told(), At(1, 4));
  }
};

TEST_F(SnapshotRecoveryTest, ItsContentIsHandedOutInPieces) {
  harness_.RestartAndRecover();

  EXPECT_EQ(harness_.CheckRecovered(), "");
  EXPECT_EQ(harness_.recovered()->snapshot, At(1, 4));
}

TEST_F(SnapshotRecoveryTest, EveryDamagedByteIsReported) {
  const std::string content = *harness_.disk().Get(Directory::kData, kFile);
  for (size_t i = 0; i < content.size(); ++i) {
    Flip(Directory::kData, kFile, i);
    EXPECT_THAT(FatalAfterRestart(), HasSubstr("dataDir/" + kFile)) << i;
    harness_.disk().Put(Directory::kData, kFile, content);
  }
}

TEST_F(SnapshotRecoveryTest, EveryWrongLengthIsReported) {
  const std::string content = *harness_.disk().Get(Directory::kData, kFile);
  for (size_t size = 0; size < content.size(); ++size) {
    harness_.disk().Put(Directory::kData, kFile, content.substr(0, size));
    EXPECT_THAT(FatalAfterRestart(), HasSubstr("is damaged at offset")) << size;
  }
  harness_.disk().Put(Directory::kData, kFile, content + '\0');
  EXPECT_THAT(FatalAfterRestart(), HasSubstr("bytes follow its end"));
}

TEST_F(SnapshotRecoveryTest, AMissingOneIsReported) {
  harness_.disk().Remove(Directory::kData, kFile);

  EXPECT_THAT(FatalAfterRestart(), HasSubstr("dataDir/" + kFile + " is missing"));
}

TEST_F(SnapshotRecoveryTest, AMissingJournalIsNoFirstStart) {
  for (const std::string& name : harness_.disk().Names(Directory::kLog)) {
    harness_.disk().Remove(Directory::kLog, name);
  }

  EXPECT_THAT(FatalAfterRestart(), HasSubstr("dataLogDir holds no journal"));
}

TEST_F(SnapshotRecoveryTest, LeftoversAreRemovedAndForeignFilesAreNot) {
  harness_.disk().Put(Directory::kData, "temporary.0000000000000007", "half");
  harness_.disk().Put(Directory::kData, "snapshot.0000000100000005", "never counted");
  harness_.disk().Put(Directory::kData, "received.0000000100000004", "never counted");
  harness_.disk().Put(Directory::kData, "snapshot.100000004", "ZooKeeper's own");
  harness_.disk().Put(Directory::kData, "myid", "1\n");

  harness_.RestartAndRecover();

  ASSERT_EQ(harness_.CheckRecovered(), "");
  EXPECT_THAT(harness_.disk().Names(Directory::kData),
              testing::UnorderedElementsAre(kFile, "snapshot.100000004", "myid"));
}

}  // namespace
}  // namespace lockstep::storage
