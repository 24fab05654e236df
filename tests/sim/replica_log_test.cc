// The mirror of a replica's log goes back, after a crash, to what may be there, and to nothing
// else.
#include "sim/checkers/replica_log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/records/batch_builder.h"
#include "core/records/record_batch.h"

namespace lockstep::sim {
namespace {

using Epochs = std::vector<storage::EpochStart>;

class ReplicaLogTest : public testing::Test {
 protected:
  // One batch of `records` records.
  void Append(int32_t epoch, int32_t records = 1) {
    records::BatchBuilder builder;
    for (int32_t i = 0; i < records; ++i) builder.Add(1, std::nullopt, "x");
    const int64_t base = log_.end();
    const records::Batch batch = records::AssignOffsets(
        builder.Build(), {.base_offset = base, .leader_epoch = epoch, .max_timestamp = 1});
    Do(storage::LogAppend{batch.Slices(), base, base + records});
  }
  void Do(const storage::LogChange& change) { log_.Apply({++id_}, change); }
  void Persist() { log_.OnPersisted({id_}); }

  ReplicaLog log_;
  uint64_t id_ = 0;
};

TEST_F(ReplicaLogTest, AKilledProcessHasLostNothingThatWasTold) {
  Append(1, 3);
  Persist();
  Append(1, 2);
  ReplicaLog other = log_;
  EXPECT_FALSE(other.OnFilesRecovered(0, 0, {}, /*power_lost=*/false));
  EXPECT_TRUE(log_.OnFilesRecovered(0, 3, {{1, 0}}, /*power_lost=*/false));
  EXPECT_EQ(log_.end(), 3);
}

TEST_F(ReplicaLogTest, ALossOfPowerTakesBatchesFromTheEnd) {
  Append(1, 3);
  Append(2, 2);
  Persist();
  ReplicaLog other = log_;
  EXPECT_FALSE(other.OnFilesRecovered(0, 4, {{1, 0}, {2, 3}}, /*power_lost=*/true));
  EXPECT_TRUE(log_.OnFilesRecovered(0, 3, {{1, 0}}, /*power_lost=*/true));
  EXPECT_EQ(log_.batches().size(), 1u);
}

TEST_F(ReplicaLogTest, EpochsThatAreNotTrueOfTheBatchesAreSeen) {
  Append(1, 3);
  Append(2, 2);
  Persist();
  for (const Epochs& epochs : {Epochs{}, Epochs{{1, 0}}, Epochs{{1, 0}, {2, 2}}, Epochs{{2, 0}}}) {
    ReplicaLog log = log_;
    EXPECT_FALSE(log.OnFilesRecovered(0, 5, epochs, /*power_lost=*/false));
  }
  // An epoch of which no record has come yet is no lie.
  EXPECT_TRUE(log_.OnFilesRecovered(0, 5, {{1, 0}, {2, 3}, {4, 5}}, /*power_lost=*/false));
}

TEST_F(ReplicaLogTest, AStartThatWasToldIsKept) {
  Append(1, 3);
  Append(1, 3);
  Do(storage::LogStart{2});
  Persist();
  ReplicaLog other = log_;
  EXPECT_FALSE(other.OnFilesRecovered(0, 6, {{1, 0}}, /*power_lost=*/true));
  EXPECT_TRUE(log_.OnFilesRecovered(2, 6, {{1, 2}}, /*power_lost=*/true));
}

TEST_F(ReplicaLogTest, ATruncationThatWasNotToldMayHaveStoppedInBetween) {
  Append(1, 3);
  Append(1, 3);
  Append(1, 3);
  Persist();
  Do(storage::LogTruncate{3});
  Append(2, 1);
  ReplicaLog before = log_;
  EXPECT_TRUE(before.OnFilesRecovered(0, 6, {{1, 0}}, /*power_lost=*/false));
  EXPECT_EQ(before.batches().back().epoch, 1);
  ReplicaLog after = log_;
  EXPECT_TRUE(after.OnFilesRecovered(0, 4, {{1, 0}, {2, 3}}, /*power_lost=*/false));
  EXPECT_EQ(after.batches().back().epoch, 2);
  EXPECT_FALSE(log_.OnFilesRecovered(0, 7, {{1, 0}, {2, 3}}, /*power_lost=*/false));
  EXPECT_TRUE(log_.unknown());
}

}  // namespace
}  // namespace lockstep::sim
