// The peers together, on the trio: what they reach in each situation that the protocol knows.
#include "core/zab/peer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/zab_trio.h"

namespace lockstep::zab {
namespace {

TEST(Peer, ThreeEmptyServersElectTheGreatestId) {
  ZabTrio trio(3);

  EXPECT_EQ(trio.Elect(), ServerId{3});

  EXPECT_EQ(trio.peer({1}).leader(), ServerId{3});
  EXPECT_EQ(trio.peer({2}).leader(), ServerId{3});
  EXPECT_EQ(trio.peer({3}).current_epoch(), Epoch{1});
  EXPECT_EQ(trio.service({1}), Service::kFollowing);
  EXPECT_EQ(trio.service({3}), Service::kLeading);
}

TEST(Peer, OneServerAloneLeads) {
  ZabTrio trio(1);

  EXPECT_EQ(trio.Elect(), ServerId{1});

  EXPECT_TRUE(trio.Propose("a"));
  trio.Run(Milliseconds(5));
  EXPECT_EQ(trio.applied({1}), "a");
}

TEST(Peer, ATransactionReachesEveryServer) {
  ZabTrio trio(3);
  trio.Elect();

  EXPECT_TRUE(trio.Propose("a"));
  EXPECT_TRUE(trio.Propose("b"));
  trio.Run(Milliseconds(10));

  for (uint32_t id : {1, 2, 3}) EXPECT_EQ(trio.applied({id}), "a b");
}

TEST(Peer, TheBestHistoryLeads) {
  ZabTrio trio(3);
  trio.Disk({1}, 2, 2, "1.1 2.1");
  trio.Disk({2}, 2, 1, "1.1 1.2 1.3");
  trio.Disk({3}, 2, 1, "1.1");

  EXPECT_EQ(trio.Elect(), ServerId{1});

  for (uint32_t id : {1, 2, 3}) EXPECT_EQ(trio.applied({id}), "1.1 2.1");
  EXPECT_EQ(trio.Last(EventKind::kSyncTruncDiff, {1}).peer, ServerId{2});
  EXPECT_EQ(trio.Last(EventKind::kSyncDiff, {1}).peer, ServerId{3});
}

TEST(Peer, ACrashedLeaderIsReplacedAndComesBack) {
  ZabTrio trio(3);
  trio.Elect();
  trio.Propose("a");
  trio.Run(Milliseconds(10));

  trio.Crash({3});
  EXPECT_EQ(trio.Elect(), ServerId{2});
  trio.Propose("b");
  trio.Run(Milliseconds(10));
  trio.Start({3});
  EXPECT_EQ(trio.Elect(), ServerId{2});

  for (uint32_t id : {1, 2, 3}) EXPECT_EQ(trio.applied({id}), "a b");
  EXPECT_EQ(trio.peer({3}).accepted_epoch(), Epoch{2});
}

TEST(Peer, AnUncommittedProposalOfACrashedLeaderIsCutWhenItComesBack) {
  ZabTrio trio(3);
  trio.Elect();
  trio.Propose("a");
  trio.Run(Milliseconds(10));
  trio.Partition({{{3}}, {{1}, {2}}});
  trio.Propose("lost", {3});
  trio.Run(Milliseconds(10));
  trio.Crash({3});
  trio.Elect();
  trio.Propose("b");
  trio.Run(Milliseconds(10));

  trio.Heal();
  trio.Start({3});
  trio.Elect();

  EXPECT_EQ(trio.applied({3}), "a b");
  EXPECT_EQ(trio.Count(EventKind::kTruncated, {3}), 1u);
  EXPECT_EQ(trio.violation(), "");
}

TEST(Peer, AnIsolatedLeaderStepsDownAndServesNobody) {
  ZabTrio trio(3);
  trio.Elect();

  trio.Partition({{{3}}, {{1}, {2}}});
  trio.Run(Seconds(4));

  EXPECT_EQ(trio.peer({3}).state(), ServerState::kLooking);
  EXPECT_EQ(trio.service({3}), Service::kStopped);
  EXPECT_EQ(trio.Elect(), ServerId{2});
}

TEST(Peer, AServerThatWasCutOffJoinsWithoutAnElectionOfTheOthers) {
  ZabTrio trio(3);
  trio.Elect();
  trio.Partition({{{1}}, {{2}, {3}}});
  trio.Run(Seconds(10));
  size_t reigns = trio.Count(EventKind::kEstablished);

  trio.Heal();
  trio.Run(Seconds(1));

  EXPECT_EQ(trio.peer({1}).leader(), ServerId{3});
  EXPECT_TRUE(trio.peer({1}).established());
  EXPECT_EQ(trio.Count(EventKind::kEstablished), reigns);
}

TEST(Peer, ALongPartitionHealsWithinTheRetriesOfOneSecond) {
  ZabTrio trio(3);
  trio.Elect();
  trio.Partition({});
  trio.Run(Seconds(600));

  trio.Heal();

  EXPECT_TRUE(trio.RunUntil([&] { return static_cast<bool>(trio.leader()); }, Seconds(2)));
}

TEST(Peer, AFarBehindLearnerGetsASnapshotAndWhatComesAfterIt) {
  PeerOptions options = ZabTrio::TestOptions();
  options.window_transactions = 2;
  ZabTrio trio(3, options);
  trio.Elect();
  trio.Crash({1});
  for (const char* body : {"a", "b", "c", "d", "e"}) {
    trio.Propose(body);
    trio.Run(Milliseconds(10));
  }

  trio.HoldSnapshots();
  trio.Start({1});
  trio.RunUntil([&] { return trio.Count(EventKind::kSyncSnap) > 0; });
  trio.Propose("f");  // while the snapshot is on its way
  trio.Run(Milliseconds(10));
  trio.SendSnapshots();
  trio.Elect();

  EXPECT_EQ(trio.applied({1}), "a b c d e f");
  EXPECT_EQ(trio.disk({1}).snapshot, Z(1, 5));
  EXPECT_EQ(trio.violation(), "");
}

TEST(Peer, AnExhaustedEpochIsFollowedByANewOneAndLosesNothing) {
  PeerOptions options = ZabTrio::TestOptions();
  options.counter_max = 3;
  ZabTrio trio(3, options);
  trio.Elect();

  std::string expected;
  for (int i = 0; i < 10; i++) {
    std::string body = "t" + std::to_string(i);
    ASSERT_TRUE(trio.RunUntil([&] { return trio.Propose(body); }, Seconds(30))) << body;
    expected += (i == 0 ? "" : " ") + body;
  }
  trio.Run(Seconds(1));

  for (uint32_t id : {1, 2, 3}) EXPECT_EQ(trio.applied({id}), expected);
  EXPECT_EQ(trio.Count(EventKind::kEpochExhausted), 3u);
  EXPECT_EQ(trio.violation(), "");
}

TEST(Peer, ARestartedFormerLeaderIsNotDraggedBackByItsFollowers) {
  ZabTrio trio(3);
  trio.Elect();
  // Nobody notices: the channels are stuck, not closed. Rounds are equal, 1 and 1.
  trio.Partition({{{3}}, {{1}, {2}}});
  trio.Crash({3});
  trio.Heal(/*break_channels=*/false);
  trio.Start({3});
  trio.Run(Milliseconds(500));

  EXPECT_NE(trio.peer({3}).state(), ServerState::kLeading);
  EXPECT_TRUE(trio.Elect(Seconds(6)));
}

TEST(Peer, AServerOfAnotherRoundJoinsALeaderThatHasOnlyItself) {
  ZabTrio trio(3);
  trio.Elect();
  trio.Crash({1});
  trio.Crash({2});
  trio.RunUntil([&] { return trio.peer({3}).state() == ServerState::kLooking; });
  trio.Start({2});
  trio.RunUntil([&] { return trio.peer({3}).state() == ServerState::kLeading; });
  trio.Crash({2});
  ASSERT_EQ(trio.peer({3}).round(), 2u);

  trio.Start({1});  // in round 1

  // Long before 3 gives up, which takes init_timeout: 5 s.
  EXPECT_TRUE(trio.RunUntil([&] { return trio.leader() == ServerId{3}; }, Seconds(2)));
}

// Server 3 is chosen early and left alone; the others establish epoch 1 without it. It must not
// draw them to itself again and again, only to find that they are ahead.
TEST(Peer, ALeaderThatWasLeftBehindDoesNotDrawTheOthersToItForEver) {
  ZabTrio trio(3);
  trio.Run(Milliseconds(1));
  trio.Crash({2});
  trio.Crash({1});
  trio.Start({1});
  trio.Run(Milliseconds(1));
  trio.Start({2});
  trio.Partition({{{1}, {2}}, {{3}}});
  trio.Run(Seconds(1));
  trio.Crash({2});
  trio.Heal();
  trio.Start({2});

  EXPECT_TRUE(trio.Elect(Seconds(8)));
}

TEST(Peer, WritesOfAFormerRoleAreWaitedForBeforeTheElection) {
  ZabTrio trio(3);
  trio.Elect();
  trio.HoldWrites({1});
  trio.Propose("a");
  trio.Run(Milliseconds(10));
  size_t rounds = trio.Count(EventKind::kElectionRound, {1});

  trio.Crash({3});
  trio.Run(Milliseconds(10));
  EXPECT_EQ(trio.peer({1}).state(), ServerState::kLooking);
  EXPECT_EQ(trio.Count(EventKind::kElectionRound, {1}), rounds);

  trio.ReleaseWrites({1});
  EXPECT_EQ(trio.Count(EventKind::kElectionRound, {1}), rounds + 1);
  EXPECT_EQ(trio.LastVote({1}).vote.last_zxid, Z(1, 1));
}

TEST(Peer, AChannelToAServerThatDoesNotLeadIsClosed) {
  Peer peer({.server = {1}, .voters = {{1}, {2}, {3}}}, {});
  Output output;
  ConnectionId channel{ConnectionId::kAccepted | 1};

  peer.Step({}, ChannelOpened{channel}, &output);

  EXPECT_THAT(output.closes, ::testing::ElementsAre(channel));
}

TEST(Peer, InputsForAnotherRoleAreIgnored) {
  Peer peer({.server = {1}, .voters = {{1}, {2}, {3}}}, {});
  Output output;
  auto step = [&](Input input) {
    output.Clear();
    peer.Step({}, input, &output);
    return output.events.empty() ? std::string() : std::string(output.events.back().reason);
  };
  step(Wake{});

  EXPECT_EQ(step(ChannelClosed{{7}}), "closed a channel that is given up");
  EXPECT_EQ(step(ChannelOpened{{7}}), "opened a channel that is given up");
  EXPECT_EQ(step(Received{{7}, Ping{}}), "message on a channel that is given up");
  EXPECT_EQ(step(SendRequest{}), "request without a leader");
  EXPECT_EQ(step(SendReply{{2}, {}}), "reply of a former leader");
  EXPECT_EQ(step(AnswerPing{}), "answer to a ping of a lost leader");
  EXPECT_EQ(step(SendPing{{2}, {}}), "ping of a former leader");
  EXPECT_EQ(step(SnapshotChunk{}), "a snapshot of a former leader");
}

TEST(PeerDeathTest, OnlyALeaderWithRoomMayPropose) {
  Peer peer({.server = {1}, .voters = {{1}, {2}, {3}}}, {});
  Output output;

  EXPECT_DEATH(peer.Step({}, Propose{}, &output), "check failed");
}

}  // namespace
}  // namespace lockstep::zab
