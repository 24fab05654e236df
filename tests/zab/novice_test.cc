// Servers with empty disks: new ones, and those that have lost what they had. docs/zab.md, "An
// empty disk".
#include <gtest/gtest.h>

#include <string>

#include "tests/support/zab_trio.h"

namespace lockstep::zab {
namespace {

constexpr ServerId k1{1};
constexpr ServerId k2{2};
constexpr ServerId k3{3};
constexpr ServerId k4{4};
constexpr ServerId k5{5};

PeerOptions Options() {
  PeerOptions options = ZabTrio::TestOptions();
  options.rules.count_only_who_remembers = true;
  return options;
}

size_t Count(const ZabTrio& trio, EventKind kind) {
  size_t count = 0;
  for (const auto& happened : trio.events()) count += happened.event.kind == kind ? 1 : 0;
  return count;
}

TEST(Novice, AFreshEnsembleWaitsForNobody) {
  ZabTrio trio(3, Options());
  trio.Partition({{k1, k2}, {k3}});
  EXPECT_TRUE(trio.RunUntil([&] { return trio.leader() != ServerId{}; }));
  trio.Propose("a");
  trio.Run(Milliseconds(20));
  EXPECT_EQ(trio.applied(k1), "a");
  EXPECT_EQ(trio.applied(k2), "a");
  EXPECT_EQ(Count(trio, EventKind::kLearnsOnly), 0u);
}

TEST(Novice, WhoComesLateLearnsFirstAndThenVotes) {
  ZabTrio trio(3, Options());
  trio.Partition({{k1, k2}, {k3}});
  trio.RunUntil([&] { return trio.leader() != ServerId{}; });
  trio.Propose("a");
  trio.Run(Milliseconds(20));
  trio.Heal();
  EXPECT_TRUE(trio.RunUntil([&] { return Count(trio, EventKind::kVoteRegained) == 1; }));
  EXPECT_EQ(Count(trio, EventKind::kLearnsOnly), 1u);
  EXPECT_EQ(trio.peer(k3).current_epoch(), trio.peer(trio.leader()).current_epoch());
  EXPECT_EQ(trio.applied(k3), "a");
  // It is counted: the leader goes on with it alone.
  const ServerId leader = trio.leader();
  const ServerId other = leader == k1 ? k2 : k1;
  trio.Crash(other);
  trio.Propose("b");
  trio.Run(Milliseconds(20));
  EXPECT_EQ(trio.applied(k3), "a b");
}

// 1 and 3 had committed 1.2; 3 has lost its disk. 2 and 3 are a majority that does not know it.
TEST(Novice, ALostDiskHelpsNobodyToAQuorum) {
  for (const bool kept : {true, false}) {
    PeerOptions options = Options();
    options.rules.count_only_who_remembers = kept;
    ZabTrio trio(3, options);
    trio.Disk(k1, 1, 1, "1.1 1.2");
    trio.Disk(k2, 1, 1, "1.1");
    trio.Partition({{k1}, {k2, k3}});
    EXPECT_EQ(trio.RunUntil([&] { return trio.leader() != ServerId{}; }), !kept);
    if (!kept) continue;
    trio.Heal();
    EXPECT_TRUE(trio.RunUntil([&] { return Count(trio, EventKind::kVoteRegained) == 1; }));
    EXPECT_EQ(trio.peer(k3).last_zxid(), (Zxid{{1}, 2}));
  }
}

TEST(Novice, ANoviceIsNotCountedWhileAnotherVoterHasNotAnswered) {
  ZabTrio trio(5, Options());
  for (const ServerId server : {k1, k2, k3, k4}) trio.Disk(server, 1, 1, "1.1");
  trio.Partition({{k1, k2, k3, k5}, {k4}});
  EXPECT_TRUE(trio.RunUntil([&] { return trio.leader() != ServerId{}; }));
  trio.Run(Seconds(10));
  EXPECT_TRUE(trio.peer(k5).established());
  EXPECT_EQ(trio.peer(k5).current_epoch(), Epoch{0});
  EXPECT_EQ(trio.peer(trio.leader()).novice_count(), 1u);
  // Without it there is no quorum.
  trio.Crash(trio.leader() == k1 ? k2 : k1);
  EXPECT_TRUE(trio.RunUntil([&] { return trio.leader() == ServerId{}; }));
  trio.Run(Seconds(30));
  EXPECT_EQ(trio.leader(), ServerId{});
  trio.Heal();
  EXPECT_TRUE(trio.RunUntil([&] { return Count(trio, EventKind::kVoteRegained) == 1; }));
}

TEST(Novice, StaysOneAfterACrashWithItsHistory) {
  ZabTrio trio(3, Options());
  trio.Disk(k1, 1, 1, "1.1 1.2");
  trio.Disk(k2, 1, 1, "1.1 1.2");
  // 3 reaches the leader alone, so it cannot be answered by both.
  trio.RunUntil([&] { return Count(trio, EventKind::kLearnsOnly) == 1; });
  trio.RunUntil([&] { return trio.peer(k3).last_zxid() == Zxid{{1}, 2}; });
  ASSERT_EQ(trio.peer(k3).current_epoch(), Epoch{0});
  trio.Crash(k3);
  EXPECT_EQ(trio.disk(k3).current_epoch, Epoch{0});
  trio.Start(k3);
  EXPECT_TRUE(trio.RunUntil([&] { return Count(trio, EventKind::kVoteRegained) == 1; }));
  EXPECT_EQ(Count(trio, EventKind::kLearnsOnly), 2u);
}

// Two novices with a history and a third one do not begin anew.
TEST(Novice, ThoseWithAHistoryDoNotMakeAnEnsemble) {
  ZabTrio trio(3, Options());
  trio.Disk(k1, 1, 0, "1.1");
  trio.Disk(k2, 1, 0, "1.1");
  trio.Run(Seconds(30));
  EXPECT_EQ(trio.leader(), ServerId{});
}

TEST(Novice, WhatOthersHavePromisedIsPromisedByItToo) {
  ZabTrio trio(3, Options());
  // 2 has promised epoch 9 to a leader of which nobody has heard since.
  trio.Disk(k1, 1, 1, "1.1");
  trio.Disk(k2, 9, 1, "1.1");
  EXPECT_TRUE(trio.RunUntil([&] { return Count(trio, EventKind::kVoteRegained) == 1; }));
  EXPECT_GE(trio.peer(k3).accepted_epoch(), Epoch{9});
}

}  // namespace
}  // namespace lockstep::zab
