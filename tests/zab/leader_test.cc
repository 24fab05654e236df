// A leader fed by hand: what it needs before each step, whom it drops, and when it gives up.
#include "core/zab/leader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/zab_trio.h"

namespace lockstep::zab {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Phase = Leader::Phase;

constexpr ServerId k1{1};
constexpr ServerId k2{2};
constexpr ServerId k3{3};

ConnectionId Channel(uint64_t number) { return {ConnectionId::kAccepted | number}; }

// Server 1 of 3, elected, with "1.1 1.2" of epoch 1 on its disk. Server 2 comes on channel 2,
// server 3 on channel 3.
class LeaderTest : public ::testing::Test {
 protected:
  LeaderTest() : own_(Options(), Disk()), leader_(&own_) { leader_.Start(now_, &output_); }

  static PeerOptions Options() {
    PeerOptions options = ZabTrio::TestOptions();
    options.server = k1;
    options.voters = {{1}, {2}, {3}};
    options.counter_max = 5;
    options.proposals_in_flight_max = 3;
    return options;
  }
  static DurableState Disk() {
    return {.accepted_epoch = {1}, .current_epoch = {1}, .transactions = Transactions("1.1 1.2")};
  }

  void Receive(uint64_t channel, Message message) {
    output_.Clear();
    leader_.OnReceived(now_, Channel(channel), message, &output_);
  }
  void Persist() {
    output_.Clear();
    own_.OnPersisted(own_.last_write, &output_);
    leader_.OnPersisted(now_, &output_);
  }
  void Pass(Duration duration) {
    now_ = now_ + duration;
    output_.Clear();
    leader_.OnWake(now_, &output_);
  }
  void Propose(std::string_view body) {
    output_.Clear();
    leader_.Propose(Bytes::Copy(body), &output_);
  }
  // What the last step sent on a channel.
  std::vector<std::string> sent(uint64_t channel) const {
    std::vector<std::string> texts;
    for (const auto& send : output_.sends) {
      if (send.channel == Channel(channel)) texts.push_back(ToString(send.message));
    }
    return texts;
  }
  std::string abdicated() const {
    return leader_.abdicated() == nullptr ? "" : leader_.abdicated();
  }
  // Why the last step dropped a learner, and that it closed its channel.
  std::string dropped() const {
    for (const Event& event : output_.events) {
      if (event.kind == EventKind::kLearnerDropped) {
        EXPECT_FALSE(output_.closes.empty());
        return event.reason;
      }
    }
    return "";
  }
  std::string ignored() const {
    for (const Event& event : output_.events) {
      if (event.kind == EventKind::kIgnored) return event.reason;
    }
    return "";
  }

  void Connect(uint64_t channel, ServerId server, Epoch accepted = {1}) {
    leader_.OnChannelOpened(now_, Channel(channel));
    Receive(channel, FollowerInfo{server, accepted});
  }
  static AckEpoch Ack(std::optional<Epoch> current, std::vector<Zxid> ends) {
    return {current, ends.back(), ends};
  }
  static AckEpoch EqualAck() { return Ack(Epoch{1}, {Z(0, 0), Z(1, 2)}); }

  // Up to the beginning of each phase, with server 2 as the quorum.
  void ToEpochSent() {
    Connect(2, k2);
    Persist();
    ASSERT_EQ(leader_.epoch(), Epoch{2});
  }
  void ToSynchronization() {
    ToEpochSent();
    Receive(2, EqualAck());
    ASSERT_EQ(leader_.phase(), Phase::kSynchronization);
  }
  void ToBroadcast() {
    ToSynchronization();
    Persist();
    Receive(2, AckNewLeader{{2}});
    ASSERT_EQ(leader_.phase(), Phase::kBroadcast);
  }
  void Join(uint64_t channel, ServerId server) {
    Connect(channel, server);
    Receive(channel, EqualAck());
    Receive(channel, AckNewLeader{{2}});
    ASSERT_EQ(leader_.synced_learner_count(), 2u);
  }

  Instant now_;
  Output output_;
  OwnState own_;
  Leader leader_;
};

// ---- Discovery ---------------------------------------------------------------------------------

TEST_F(LeaderTest, WaitsForAQuorumBeforeItChoosesAnEpoch) {
  EXPECT_EQ(leader_.epoch(), Epoch{0});

  Connect(2, k2);

  EXPECT_EQ(leader_.epoch(), Epoch{2});
}

TEST_F(LeaderTest, TheEpochIsAboveEveryPromiseOfTheQuorum) {
  Connect(2, k2, {7});

  EXPECT_EQ(leader_.epoch(), Epoch{8});
}

TEST_F(LeaderTest, TellsTheEpochWhenItsOwnPromiseIsDurable) {
  Connect(2, k2);
  EXPECT_THAT(sent(2), IsEmpty());

  Persist();
  EXPECT_THAT(sent(2), ElementsAre("LeaderInfo 2"));
}

TEST_F(LeaderTest, ALearnerThatComesLaterLearnsTheEpochAtOnce) {
  ToEpochSent();

  Connect(3, k3);

  EXPECT_THAT(sent(3), ElementsAre("LeaderInfo 2"));
}

TEST_F(LeaderTest, SynchronizesWhenAQuorumHasPromised) {
  ToEpochSent();
  EXPECT_EQ(leader_.phase(), Phase::kDiscovery);

  Receive(2, EqualAck());

  EXPECT_EQ(leader_.phase(), Phase::kSynchronization);
  EXPECT_EQ(std::get<SetCurrentEpoch>(output_.persists.at(0).write).epoch, Epoch{2});
  EXPECT_THAT(sent(2), ElementsAre("Diff to=<1,2>", "NewLeader 2"));
}

TEST_F(LeaderTest, AnAckOfAnEarlierPromiseMakesNoQuorum) {
  ToEpochSent();

  Receive(2, Ack(std::nullopt, {Z(0, 0), Z(1, 2)}));

  EXPECT_EQ(leader_.phase(), Phase::kDiscovery);
}

TEST_F(LeaderTest, AbdicatesWhenAFollowerHasALongerHistory) {
  ToEpochSent();
  Receive(2, Ack(Epoch{1}, {Z(1, 3)}));
  EXPECT_EQ(abdicated(), "a follower is ahead");
}

TEST_F(LeaderTest, AbdicatesWhenAFollowerHasANewerEpochAndAShorterHistory) {
  Connect(2, k2, {2});
  Persist();
  Receive(2, Ack(Epoch{2}, {Z(1, 1)}));
  EXPECT_EQ(abdicated(), "a follower is ahead");
}

TEST_F(LeaderTest, AbdicatesWhenAFollowerHasPromisedALaterEpoch) {
  ToEpochSent();
  Connect(3, k3, {3});
  EXPECT_EQ(abdicated(), "a follower has accepted a newer epoch");
}

TEST_F(LeaderTest, AnEstablishedLeaderAlsoMakesWayForALaterPromise) {
  ToBroadcast();
  Connect(3, k3, {3});
  EXPECT_EQ(abdicated(), "a follower has accepted a newer epoch");
}

TEST_F(LeaderTest, AbdicatesBeforeAQuorumHasPromisedWhenALookingServerIsAhead) {
  ToEpochSent();
  leader_.OnBetterVote();
  EXPECT_EQ(abdicated(), "a looking server is ahead");
}

TEST_F(LeaderTest, AfterTheQuorumItsHistoryIsTheOneOfTheEpoch) {
  ToSynchronization();
  leader_.OnBetterVote();
  EXPECT_EQ(abdicated(), "");
}

TEST_F(LeaderTest, AbdicatesWhenAPromiseWasLostWithItsChannel) {
  ToEpochSent();
  leader_.OnChannelClosed(Channel(2), &output_);

  Connect(3, k2, {2});

  EXPECT_EQ(abdicated(), "a promise was lost");
}

TEST_F(LeaderTest, InBroadcastALearnerComesBackWithThePromiseItGave) {
  ToBroadcast();
  leader_.OnChannelClosed(Channel(2), &output_);

  Connect(3, k2, {2});

  EXPECT_EQ(abdicated(), "");
  EXPECT_THAT(sent(3), ElementsAre("LeaderInfo 2"));
}

TEST_F(LeaderTest, AbdicatesWhenNotEstablishedInTime) {
  ToSynchronization();
  Pass(Seconds(5));
  EXPECT_EQ(abdicated(), "not established within initLimit");
}

TEST_F(LeaderTest, DoesNotBelieveAPromiseThatLeavesNoEpoch) {
  Connect(2, k2, {0xffff'fffe});
  EXPECT_EQ(dropped(), "FOLLOWERINFO of an epoch that has no successor");
  EXPECT_EQ(leader_.epoch(), Epoch{0});
}

TEST_F(LeaderTest, GivesUpWhenItHasPromisedTheLastEpochItself) {
  own_.accepted_epoch = {0xffff'fffe};
  Connect(2, k2);
  EXPECT_EQ(abdicated(), "no epoch is left");
}

// ---- Synchronization ---------------------------------------------------------------------------

TEST_F(LeaderTest, SendsWhatIsMissing) {
  ToEpochSent();

  Receive(2, Ack(Epoch{1}, {Z(0, 0), Z(1, 1)}));

  EXPECT_THAT(sent(2), ElementsAre("Diff to=<1,2>", "Proposal <1,2> after <1,1>", "NewLeader 2"));
}

TEST_F(LeaderTest, CutsWhatItDoesNotHave) {
  ToSynchronization();
  Connect(3, k3);

  Receive(3, Ack(Epoch{1}, {Z(0, 0), Z(1, 4)}));

  EXPECT_THAT(sent(3), ElementsAre("Trunc at=<1,2> to=<1,2>", "NewLeader 2"));
  EXPECT_EQ(output_.events.at(0).kind, EventKind::kSyncTrunc);
}

TEST_F(LeaderTest, CutsAndThenSends) {
  ToBroadcast();
  Propose("a");
  Connect(3, k3);

  Receive(3, Ack(Epoch{1}, {Z(0, 0), Z(1, 4)}));

  EXPECT_THAT(sent(3),
              ElementsAre("Trunc at=<1,2> to=<2,1>", "Proposal <2,1> after <1,2>", "NewLeader 2"));
  EXPECT_EQ(output_.events.at(0).kind, EventKind::kSyncTruncDiff);
}

TEST_F(LeaderTest, ASnapshotIsFollowedByWhatWasProposedSince) {
  ToBroadcast();
  own_.history.Trim(Z(1, 2), 0, 0);  // everything delivered is forgotten
  Connect(3, k3);

  Receive(3, Ack(Epoch{0}, {Z(0, 0)}));
  EXPECT_THAT(sent(3), ElementsAre("Snap at=<1,2> to=<1,2>"));
  EXPECT_EQ(std::get<StartSnapshot>(output_.deliveries.at(0)).zxid, Z(1, 2));

  Propose("a");
  EXPECT_THAT(sent(3), IsEmpty()) << "it is not yet in the live stream";
  EXPECT_EQ(leader_.window_needed_after(), Z(1, 2));

  output_.Clear();
  leader_.OnSnapshotChunk(now_, Channel(3), Bytes::Copy("x"), false, &output_);
  EXPECT_THAT(sent(3), ElementsAre("SnapChunk 1 bytes"));
  output_.Clear();
  leader_.OnSnapshotChunk(now_, Channel(3), Bytes::Copy("y"), true, &output_);
  EXPECT_THAT(sent(3),
              ElementsAre("SnapChunk 1 bytes last", "Proposal <2,1> after <1,2>", "NewLeader 2"));
  EXPECT_EQ(leader_.window_needed_after(), std::nullopt);

  Propose("b");
  EXPECT_THAT(sent(3), ElementsAre("Proposal <2,2> after <2,1>"));
}

TEST_F(LeaderTest, PiecesOfASnapshotForALostLearnerAreIgnored) {
  ToBroadcast();
  output_.Clear();
  leader_.OnSnapshotChunk(now_, Channel(9), {}, true, &output_);
  EXPECT_EQ(ignored(), "a snapshot for a channel that is given up");
}

TEST_F(LeaderTest, AProposalReachesALearnerThatHasNotAcknowledgedNewLeader) {
  ToBroadcast();
  Connect(3, k3);
  Receive(3, EqualAck());

  Propose("a");

  EXPECT_THAT(sent(3), ElementsAre("Proposal <2,1> after <1,2>"));
}

TEST_F(LeaderTest, ServesWhenAQuorumHasItsHistory) {
  ToSynchronization();

  Receive(2, AckNewLeader{{2}});
  EXPECT_FALSE(leader_.established()) << "its own current epoch is not durable";
  EXPECT_EQ(own_.committed, Z(0, 0));

  Persist();
  EXPECT_TRUE(leader_.established());
  EXPECT_EQ(own_.committed, Z(1, 2));
  EXPECT_EQ(own_.delivered, Z(1, 2));
  EXPECT_THAT(sent(2), ElementsAre("UpToDate <1,2>"));
}

TEST_F(LeaderTest, TwoOthersAreAQuorumWithoutItsOwnDisk) {
  ToSynchronization();
  Connect(3, k3);
  Receive(3, EqualAck());
  Receive(2, AckNewLeader{{2}});

  Receive(3, AckNewLeader{{2}});

  EXPECT_TRUE(leader_.established());
}

TEST_F(LeaderTest, UpToDateTellsTheNewestCommit) {
  ToBroadcast();
  Connect(3, k3);
  Receive(3, EqualAck());
  Propose("a");
  Persist();
  Receive(2, zab::Ack{Z(2, 1)});
  EXPECT_THAT(sent(3), IsEmpty()) << "no commits before UPTODATE";

  Receive(3, AckNewLeader{{2}});

  EXPECT_THAT(sent(3), ElementsAre("UpToDate <2,1>"));
}

// ---- Broadcast ---------------------------------------------------------------------------------

TEST_F(LeaderTest, CommitsWhatAQuorumHasDurably) {
  ToBroadcast();
  Propose("a");
  EXPECT_THAT(sent(2), ElementsAre("Proposal <2,1> after <1,2>"));
  Receive(2, zab::Ack{Z(2, 1)});
  EXPECT_EQ(own_.committed, Z(1, 2)) << "its own disk is the second of three";

  Persist();
  EXPECT_EQ(own_.committed, Z(2, 1));
  EXPECT_THAT(sent(2), ElementsAre("Commit <2,1>"));
}

TEST_F(LeaderTest, TheFollowersMayCommitWithoutTheLeadersDisk) {
  ToBroadcast();
  Join(3, k3);
  Propose("a");
  Receive(2, zab::Ack{Z(2, 1)});

  Receive(3, zab::Ack{Z(2, 1)});

  EXPECT_EQ(own_.committed, Z(2, 1));
  EXPECT_EQ(own_.delivered, Z(1, 2)) << "applied here when it is durable here";
  Persist();
  EXPECT_EQ(own_.delivered, Z(2, 1));
}

TEST_F(LeaderTest, OneCommitCoversAllThatAnAckCovers) {
  ToBroadcast();
  Propose("a");
  Propose("b");
  Persist();

  Receive(2, zab::Ack{Z(2, 2)});

  EXPECT_THAT(sent(2), ElementsAre("Commit <2,2>"));
}

TEST_F(LeaderTest, HoldsBackWhenTooMuchIsInFlight) {
  ToBroadcast();
  Propose("a");
  Propose("b");
  EXPECT_TRUE(leader_.CanPropose());
  Propose("c");
  EXPECT_FALSE(leader_.CanPropose());

  Persist();
  Receive(2, zab::Ack{Z(2, 1)});
  EXPECT_TRUE(leader_.CanPropose());
}

TEST_F(LeaderTest, AnEpochEndsWhenItsCounterIsUsedUpAndEverythingIsCommitted) {
  ToBroadcast();
  for (uint32_t c = 1; c <= 5; c++) {
    Propose("x");
    Persist();
    if (c < 5) Receive(2, zab::Ack{Z(2, c)});
  }
  EXPECT_FALSE(leader_.CanPropose());
  EXPECT_EQ(abdicated(), "");

  Receive(2, zab::Ack{Z(2, 5)});

  EXPECT_THAT(sent(2), ElementsAre("Commit <2,5>"));
  EXPECT_EQ(abdicated(), "the counter of the epoch is used up");
}

TEST_F(LeaderTest, RepliesGoToWhoAsked) {
  ToBroadcast();
  Join(3, k3);
  Receive(3, Request{Bytes::Copy("q")});
  EXPECT_EQ(std::get<RequestReceived>(output_.deliveries.at(0)).from, k3);

  output_.Clear();
  leader_.SendReply(k3, Bytes::Copy("r"), &output_);
  EXPECT_THAT(sent(3), ElementsAre("Reply 1 bytes"));
  EXPECT_THAT(sent(2), IsEmpty());
}

TEST_F(LeaderTest, AReplyToALostLearnerIsDropped) {
  ToBroadcast();
  output_.Clear();
  leader_.SendReply(k3, {}, &output_);
  EXPECT_EQ(ignored(), "reply to a learner that is gone");
}

TEST_F(LeaderTest, APingOutOfTurnGoesToOneLearner) {
  ToBroadcast();
  Join(3, k3);
  output_.Clear();

  leader_.SendPing(k3, Bytes::Copy("word"), &output_);

  EXPECT_THAT(sent(3), ElementsAre("Ping 4 bytes"));
  EXPECT_THAT(sent(2), IsEmpty());
}

TEST_F(LeaderTest, APingToALearnerThatIsGoneOrNotPingedYetIsDropped) {
  ToBroadcast();
  output_.Clear();
  leader_.SendPing(k3, Bytes::Copy("word"), &output_);
  EXPECT_EQ(ignored(), "ping to a learner that is gone");
}

TEST_F(LeaderTest, ARepeatedAckIsIgnored) {
  ToBroadcast();
  Propose("a");
  Receive(2, zab::Ack{Z(2, 1)});
  Receive(2, zab::Ack{Z(2, 1)});
  EXPECT_EQ(ignored(), "ACK repeated");
}

TEST_F(LeaderTest, PassesOnWhatAPingBrings) {
  ToBroadcast();
  Receive(2, Ping{Bytes::Copy("s")});
  EXPECT_EQ(std::get<PingReceived>(output_.deliveries.at(0)).from, k2);
  Receive(2, Ping{});
  EXPECT_THAT(output_.deliveries, IsEmpty());
}

// ---- Whom it drops -----------------------------------------------------------------------------

TEST_F(LeaderTest, DropsWhatIsOutOfOrder) {
  struct Case {
    Message message;
    const char* reason;
  };
  // From server 2, when the leader has sent it the epoch.
  const std::vector<Case> cases = {
      {FollowerInfo{k2, {1}}, "FOLLOWERINFO out of order"},
      {AckEpoch{Epoch{1}, Z(1, 2), {}}, "ACKEPOCH contradicts itself"},
      {AckEpoch{Epoch{1}, Z(1, 2), {Z(1, 1)}}, "ACKEPOCH contradicts itself"},
      {AckNewLeader{{2}}, "ACK of NEWLEADER out of order"},
      {zab::Ack{Z(1, 2)}, "ACK before the ACK of NEWLEADER"},
      {Ping{}, "PING out of order"},
      {Request{}, "request before UPTODATE"},
      {LeaderInfo{{2}}, "sent a leader's message"},
      {Diff{}, "sent a leader's message"},
      {Trunc{}, "sent a leader's message"},
      {Snap{}, "sent a leader's message"},
      {SnapChunk{}, "sent a leader's message"},
      {NewLeader{{2}}, "sent a leader's message"},
      {UpToDate{}, "sent a leader's message"},
      {Proposal{}, "sent a leader's message"},
      {Commit{}, "sent a leader's message"},
      {Reply{}, "sent a leader's message"},
  };
  ToEpochSent();
  uint64_t channel = 10;
  for (const Case& c : cases) {
    channel++;
    Connect(channel, k3);
    ASSERT_THAT(sent(channel), ElementsAre("LeaderInfo 2"));
    Receive(channel, c.message);
    EXPECT_EQ(dropped(), c.reason);
    Receive(channel, Ping{});
    EXPECT_EQ(ignored(), "message on a channel that is given up");
  }
  EXPECT_EQ(leader_.learner_count(), 1u);
}

TEST_F(LeaderTest, DropsASecondAckEpoch) {
  ToSynchronization();
  Receive(2, EqualAck());
  EXPECT_EQ(dropped(), "ACKEPOCH out of order");
}

TEST_F(LeaderTest, DropsAnAckOfAnotherNewLeader) {
  ToSynchronization();
  Receive(2, AckNewLeader{{1}});
  EXPECT_EQ(dropped(), "ACK of NEWLEADER out of order");
}

TEST_F(LeaderTest, DropsAnAckOfWhatWasNotSent) {
  ToBroadcast();
  Receive(2, zab::Ack{Z(2, 1)});
  EXPECT_EQ(dropped(), "ACK of what was not sent");
}

TEST_F(LeaderTest, DropsAnAckOfAnotherEpoch) {
  ToBroadcast();
  Propose("a");
  Receive(2, zab::Ack{Z(1, 9)});
  EXPECT_EQ(dropped(), "ACK of another epoch");
}

TEST_F(LeaderTest, HearsVotersAlone) {
  Connect(2, {9});
  EXPECT_EQ(dropped(), "FOLLOWERINFO of a server that is no voter");
  Connect(3, k1);
  EXPECT_EQ(dropped(), "FOLLOWERINFO of a server that is no voter");
}

TEST_F(LeaderTest, ALearnerThatComesAgainReplacesItself) {
  ToBroadcast();
  Connect(4, k2, {2});
  EXPECT_EQ(dropped(), "replaced by a newer channel");
  EXPECT_EQ(leader_.learner_count(), 1u);
}

TEST_F(LeaderTest, PingsLearnersFromNewLeaderOn) {
  ToSynchronization();
  Connect(3, k3);
  Pass(Milliseconds(500));
  EXPECT_THAT(sent(2), ElementsAre("Ping 0 bytes"));
  EXPECT_THAT(sent(3), IsEmpty());
}

TEST_F(LeaderTest, DropsALearnerThatIsSilent) {
  ToBroadcast();
  Join(3, k3);
  for (int i = 0; i < 4; i++) {
    Pass(Milliseconds(500));
    Receive(2, Ping{});
    EXPECT_EQ(leader_.learner_count(), 2u);
  }
  Pass(Milliseconds(500));

  EXPECT_EQ(dropped(), "no word within the limit");
  EXPECT_EQ(leader_.learner_count(), 1u);
  EXPECT_EQ(abdicated(), "") << "2 is still there";
}

TEST_F(LeaderTest, DropsALearnerWhoseDiskIsStuckHoweverWellItAnswers) {
  ToBroadcast();
  Join(3, k3);
  Pass(Milliseconds(500));
  Propose("a");
  Persist();
  Receive(2, zab::Ack{Z(2, 1)});
  for (int i = 0; i < 5; i++) {
    Pass(Milliseconds(500));
    ASSERT_EQ(dropped(), "");
    Receive(2, Ping{});
    Receive(3, Ping{});
  }

  Pass(Milliseconds(500));
  EXPECT_EQ(dropped(), "no word within the limit");
  EXPECT_EQ(leader_.learner_count(), 1u);
}

TEST_F(LeaderTest, ALearnerThatAcknowledgesMoreAndMoreIsKept) {
  ToBroadcast();
  uint32_t counter = 0;
  own_.Commit(Z(1, 2));
  for (int i = 0; i < 4; i++) {
    Propose("x");
    Persist();
    for (int j = 0; j < 3; j++) {
      Pass(Milliseconds(500));
      Receive(2, Ping{});
    }
    Receive(2, zab::Ack{Z(2, ++counter)});
  }
  EXPECT_EQ(leader_.learner_count(), 1u);
  EXPECT_EQ(abdicated(), "");
}

TEST_F(LeaderTest, ASnapshotThatTakesTooLongIsGivenUp) {
  PeerOptions options = Options();
  options.window_bytes = 10;
  options.counter_max = 1000;
  options.proposals_in_flight_max = 1000;
  OwnState own(options, Disk());
  Leader leader(&own);
  Output output;
  auto receive = [&](uint64_t channel, Message message) {
    leader.OnReceived(now_, Channel(channel), message, &output);
  };
  leader.Start(now_, &output);
  leader.OnChannelOpened(now_, Channel(2));
  receive(2, FollowerInfo{k2, {1}});
  own.OnPersisted(own.last_write, &output);
  leader.OnPersisted(now_, &output);
  receive(2, EqualAck());
  own.OnPersisted(own.last_write, &output);
  leader.OnPersisted(now_, &output);
  receive(2, AckNewLeader{{2}});
  own.history.Trim(Z(1, 2), 0, 0);
  leader.OnChannelOpened(now_, Channel(3));
  receive(3, FollowerInfo{k3, {1}});
  receive(3, Ack(Epoch{0}, {Z(0, 0)}));
  for (int i = 0; i < 8; i++) leader.Propose(Bytes::Copy("0123456789"), &output);
  leader.OnWake(now_ + Milliseconds(500), &output);
  EXPECT_EQ(leader.learner_count(), 2u);

  leader.Propose(Bytes::Copy("x"), &output);
  output.Clear();
  leader.OnWake(now_ + Milliseconds(1000), &output);

  EXPECT_EQ(leader.learner_count(), 1u);
  EXPECT_STREQ(output.events.at(0).reason, "its snapshot takes too long");
}

TEST_F(LeaderTest, AChannelThatNeverIntroducesItselfIsClosed) {
  ToBroadcast();
  leader_.OnChannelOpened(now_, Channel(3));
  for (int i = 0; i < 11; i++) {
    Pass(Milliseconds(500));
    Receive(2, Ping{});
  }
  EXPECT_EQ(leader_.learner_count(), 1u);
}

// ---- When it gives up --------------------------------------------------------------------------

TEST_F(LeaderTest, StepsDownWithoutAQuorum) {
  ToBroadcast();
  leader_.OnChannelClosed(Channel(2), &output_);

  Pass(Milliseconds(500));

  EXPECT_EQ(abdicated(), "no quorum of followers");
  EXPECT_FALSE(leader_.CanPropose());
}

TEST_F(LeaderTest, StepsDownWhenItsOwnDiskIsStuck) {
  ToBroadcast();
  Pass(Milliseconds(500));
  Receive(2, Ping{});
  Propose("a");
  for (int i = 0; i < 6 && abdicated().empty(); i++) {
    Pass(Milliseconds(500));
    Receive(2, Ping{});
  }
  EXPECT_EQ(abdicated(), "own disk is stuck");
}

TEST_F(LeaderTest, ClosesEveryChannelAtTheEnd) {
  ToBroadcast();
  Join(3, k3);
  output_.Clear();

  leader_.CloseAll(&output_);

  EXPECT_THAT(output_.closes, ElementsAre(Channel(2), Channel(3)));
  leader_.OnChannelClosed(Channel(2), &output_);
  EXPECT_EQ(ignored(), "closed a channel that is given up");
}

TEST_F(LeaderTest, ProposingWithoutRoomIsABug) {
  EXPECT_DEATH(Propose("a"), "check failed: CanPropose");
}

}  // namespace
}  // namespace lockstep::zab
