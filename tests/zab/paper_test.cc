// Zab 1.0, sentence by sentence (seeds/zab-1.0.txt). Where we do otherwise, the test says so;
// docs/zab.md, "Where we differ, and why", has the reasons.
#include <gtest/gtest.h>

#include "tests/support/zab_trio.h"

namespace lockstep::zab {
namespace {

constexpr ServerId k1{1};
constexpr ServerId k2{2};
constexpr ServerId k3{3};

size_t IndexOf(const ZabTrio& trio, ServerId from, ServerId to, const char* text) {
  const auto& sent = trio.sent();
  for (size_t i = 0; i < sent.size(); i++) {
    if (sent[i].from == from && sent[i].to == to && ToString(sent[i].message).starts_with(text))
      return i;
  }
  ADD_FAILURE() << "never sent: " << text;
  return sent.size();
}

// "All servers start off looking for a leader."
TEST(Paper, AllServersStartOffLooking) {
  Peer peer({.server = k1, .voters = {k1, k2, k3}}, {});
  Output output;
  EXPECT_EQ(peer.state(), ServerState::kLooking);
  peer.Step({}, Wake{}, &output);
  EXPECT_EQ(peer.state(), ServerState::kLooking);
  EXPECT_EQ(output.notifications.size(), 2u);
}

// "If the leader election instance indicates that the server is the leader, it moves to phase 1 as
// a leader, otherwise it moves to phase 1 as a follower."
TEST(Paper, TheElectionDecidesTheRoleOfPhase1) {
  ZabTrio trio(3);
  trio.RunUntil([&] { return trio.peer(k3).state() == ServerState::kLeading; });
  EXPECT_FALSE(trio.peer(k3).established());
  EXPECT_EQ(trio.peer(k1).state(), ServerState::kFollowing);
  EXPECT_FALSE(trio.peer(k1).established());
}

// "Note a leader is also considered a follower of itself." Two of three are a quorum with it, and a
// server alone is one of one.
TEST(Paper, ALeaderIsAFollowerOfItself) {
  ZabTrio two_of_three(3);
  two_of_three.Partition({{k2, k3}, {k1}});
  EXPECT_EQ(two_of_three.Elect(), k3);
  ZabTrio one(1);
  EXPECT_EQ(one.Elect(), k1);
}

// "Any failures or timeouts will cause the server to go back to leader election."
TEST(Paper, AnyFailureLeadsBackToTheElection) {
  for (ServerId crashed : {k1, k2}) {
    ZabTrio trio(2);
    trio.Elect();
    ServerId other = crashed == k1 ? k2 : k1;
    trio.Crash(crashed);
    trio.Run(Seconds(3));
    EXPECT_EQ(trio.peer(other).state(), ServerState::kLooking);
  }
}

// Phase 1, 1 and 2. "The leader starts accepting connections from followers." "Followers connect
// the the leader and send SERVERINFO(lastZxid, info)." Ours carries the accepted epoch; the history
// comes with ACKEPOCH.
TEST(Paper, FollowersConnectAndIntroduceThemselves) {
  ZabTrio trio(3);
  trio.Disk(k1, 4, 3, "3.1");
  trio.Elect();
  EXPECT_EQ(trio.LastSent<FollowerInfo>(k2, k1).server, k2);
  EXPECT_EQ(trio.LastSent<FollowerInfo>(k2, k1).accepted_epoch, Epoch{0});
}

// Phase 1, 3. "The leader waits for a quorum of followers to connect all of whom has:
// f.currentEpoch
// <= l.currentEpoch, if f.currentEpoch == l.currentEpoch, then f.lastZxid < l.lastZxid". (We take
// <= for <.) The one it does not hold for makes the leader give up: rules_test,
// AbdicateIfAFollowerIsAhead; leader_test, AbdicatesWhen….
TEST(Paper, TheLeaderWaitsForAQuorumThatIsNotAheadOfIt) {
  ZabTrio trio(3);
  trio.Disk(k1, 2, 2, "1.1");
  trio.Disk(k2, 2, 1, "1.1 1.2");
  EXPECT_EQ(trio.Elect(), k1);
  EXPECT_EQ(trio.applied(k2), "1.1");
}

// Phase 1, 4. "... sends NEWEPOCH(e) to all followers, where e is greater than all f.acceptedEpoch
// in the quorum." We go on accepting connections.
TEST(Paper, TheEpochIsGreaterThanEveryAcceptedEpochOfTheQuorum) {
  ZabTrio trio(3);
  trio.Disk(k1, 5, 0, "");
  trio.Disk(k2, 7, 0, "");
  trio.Elect();
  EXPECT_GT(trio.peer(k3).current_epoch(), Epoch{7});
}

// Phase 1, 5. "Followers send ACK(e<<32) if e > f.acceptedEpoch. (If e < f.acceptedEpoch, the
// follower will abandon the leader. If e == f.acceptedEpoch, the follower will not send ACK(e<<32),
// but will still maintain the connection to the leader.)" We send an ACK that does not count, since
// it also tells the history. All three: follower_test, Discovery.
TEST(Paper, AFollowerOfTheSameEpochKeepsItsConnection) {
  ZabTrio trio(3);
  trio.Elect();
  trio.BreakChannel(k1);
  trio.Elect();
  EXPECT_FALSE(trio.LastSent<AckEpoch>(k1, k3).current_epoch.has_value());
  EXPECT_TRUE(trio.peer(k1).established());
  EXPECT_EQ(trio.peer(k1).current_epoch(), Epoch{1});
}

// Phase 1, 6. "The leader waits for all followers to ack NEWEPOCH(e)": for a quorum of them.
TEST(Paper, NoSynchronizationBeforeAQuorumHasPromised) {
  ZabTrio trio(3);
  trio.HoldMessages(k1, k3);
  trio.HoldMessages(k2, k3);
  trio.Run(Milliseconds(100));
  EXPECT_EQ(trio.CountSent<NewLeader>(k3, k1), 0u);
  trio.ReleaseMessages(k1, k3);
  trio.ReleaseMessages(k2, k3);
  trio.Elect();
  EXPECT_LT(IndexOf(trio, k1, k3, "AckEpoch"), IndexOf(trio, k3, k1, "NewLeader"));
}

// Phase 2. "adds the follower to the list of connections to send new proposals, so while the server
// is performing the next steps, it is queuing up any new proposals sent to the follower":
// peer_test, AFarBehindLearnerGetsASnapshotAndWhatComesAfterIt.
//
// "SNAP if the follower is so far behind that it is better to do a state transfer than send missing
// transactions." "TRUNC(zxid) if the follower has transactions that the leader has chosen to skip.
// The leader sets zxid to the last zxid in its history for the epoch of the follower." "DIFF if the
// leader is sending transactions that the follower is missing."
TEST(Paper, TruncIsToTheLastZxidOfTheLeaderInTheEpochOfTheFollower) {
  ZabTrio trio(3);
  trio.Disk(k1, 2, 2, "1.1 1.2 2.1");
  trio.Disk(k2, 2, 1, "1.1 1.2 1.3 1.4");
  trio.Disk(k3, 2, 1, "1.1");
  EXPECT_EQ(trio.Elect(), k1);
  EXPECT_EQ(trio.LastSent<Trunc>(k1, k2).to, Z(1, 2));
  EXPECT_EQ(trio.CountSent<Diff>(k1, k3), 1u);
}

// "sends a NEWLEADER(e)", behind what the follower misses; "The leader queues an UPTODATE packet",
// which only a quorum of acknowledgements sets free (6).
TEST(Paper, NewLeaderComesBehindTheHistoryAndUpToDateBehindTheAck) {
  ZabTrio trio(3);
  trio.Disk(k3, 1, 1, "1.1");
  trio.Elect();
  size_t diff = IndexOf(trio, k3, k1, "Diff");
  size_t proposal = IndexOf(trio, k3, k1, "Proposal");
  size_t new_leader = IndexOf(trio, k3, k1, "NewLeader");
  size_t ack = IndexOf(trio, k1, k3, "AckNewLeader");
  size_t up_to_date = IndexOf(trio, k3, k1, "UpToDate");
  EXPECT_LT(diff, proposal);
  EXPECT_LT(proposal, new_leader);
  EXPECT_LT(new_leader, ack);
  EXPECT_LT(ack, up_to_date);
}

// Phase 2, 5. "The follower syncs with the leader, but doesn't modify its state until it receives
// the NEWLEADER(e) packet. Once it does it applies any changes and sends ACK(e << 32)." We store
// the transactions as they come, with the old current epoch, and apply nothing before UPTODATE.
TEST(Paper, NothingIsAppliedBeforeNewLeader) {
  ZabTrio trio(3);
  trio.Disk(k3, 1, 1, "1.1");
  trio.RunUntil([&] { return trio.CountSent<AckNewLeader>(k1, k3) == 1; });
  EXPECT_EQ(trio.disk(k1).current_epoch, trio.disk(k1).accepted_epoch);
  EXPECT_EQ(trio.disk(k1).transactions.size(), 1u);
  EXPECT_EQ(trio.applied(k1), "");
}

// Phase 2, 6. "Once the leader has received an acknowledgements from a quorum of followers, it
// takes leadership of epoch e and queues UPTODATE to all followers."
TEST(Paper, TheLeaderTakesLeadershipWhenAQuorumHasAcknowledged) {
  ZabTrio trio(3);
  trio.RunUntil([&] { return trio.CountSent<NewLeader>(k3, k1) == 1; });
  trio.HoldMessages(k1, k3);
  trio.HoldMessages(k2, k3);
  trio.Run(Milliseconds(100));
  EXPECT_FALSE(trio.peer(k3).established());
  EXPECT_EQ(trio.CountSent<UpToDate>(k3, k1), 0u);

  trio.ReleaseMessages(k1, k3);
  trio.Run(Milliseconds(10));
  EXPECT_TRUE(trio.peer(k3).established());
  EXPECT_EQ(trio.CountSent<UpToDate>(k3, k1), 1u);
}

// Phase 3. "The leader and followers can have multiple proposals in process and at various stages
// in the pipeline."
TEST(Paper, ManyProposalsAreInProcess) {
  ZabTrio trio(3);
  trio.Elect();
  std::string expected;
  for (int i = 0; i < 100; i++) {
    ASSERT_TRUE(trio.Propose("t" + std::to_string(i)));
    expected += (i == 0 ? "t" : " t") + std::to_string(i);
  }
  EXPECT_EQ(trio.applied(k3), "");
  trio.Run(Milliseconds(10));
  for (ServerId server : {k1, k2, k3}) EXPECT_EQ(trio.applied(server), expected);
}

// "The leader will remain active as long as there is a quorum of followers acknowledging its
// proposals or pings within a timeout interval. The follower will continue to support a leader as
// long as it receives proposals or pings within a timeout interval."
TEST(Paper, PingsAloneKeepAReign) {
  ZabTrio trio(3);
  trio.Elect();
  size_t looking = trio.Count(EventKind::kLooking);
  trio.Run(Seconds(600));
  EXPECT_EQ(trio.Count(EventKind::kLooking), looking);
}

// "Any failures or timeouts will result in the server going back to leader election."
TEST(Paper, SilenceEndsAReignOnBothSides) {
  ZabTrio trio(3);
  trio.Elect();
  trio.Partition({});
  trio.Run(Seconds(3));
  for (ServerId server : {k1, k2, k3}) EXPECT_EQ(trio.peer(server).state(), ServerState::kLooking);
}

// Phase 3, 1 to 3. "the leader queues a packet PROPOSE(zxid, data) to all connected followers." "a
// follower will log and sync proposals to disk and send ACK(zxid)." "when the leader receives
// acknowledgements from a quorum of followers it queues COMMIT(zxid) to all followers."
TEST(Paper, ProposeThenLogThenAckThenCommit) {
  ZabTrio trio(3);
  trio.Elect();
  trio.HoldWrites(k1);
  trio.HoldWrites(k2);
  trio.Propose("a");
  trio.Run(Milliseconds(10));
  EXPECT_EQ(trio.CountSent<Proposal>(k3, k1), 1u);
  EXPECT_EQ(trio.CountSent<Proposal>(k3, k2), 1u);
  EXPECT_EQ(trio.CountSent<Ack>(k1, k3), 0u) << "logged, and not yet synced";
  EXPECT_EQ(trio.CountSent<Commit>(k3, k1), 0u);

  trio.ReleaseWrites(k1);
  trio.Run(Milliseconds(10));
  EXPECT_EQ(trio.LastSent<Ack>(k1, k3).zxid, Z(1, 1));
  EXPECT_EQ(trio.LastSent<Commit>(k3, k1).zxid, Z(1, 1));
  EXPECT_EQ(trio.LastSent<Commit>(k3, k2).zxid, Z(1, 1)) << "to all followers";
}

}  // namespace
}  // namespace lockstep::zab
