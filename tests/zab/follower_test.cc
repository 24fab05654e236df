// A follower fed by hand: each message in each phase, and what must be durable before it speaks.
#include "core/zab/follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/zab_trio.h"

namespace lockstep::zab {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Phase = Follower::Phase;

constexpr ServerId k1{1};
constexpr ServerId kLeader{3};

// Server 1, which follows 3. Its disk holds "1.1 1.2" of epoch 1; 1.1 is known to be committed.
class FollowerTest : public ::testing::Test {
 protected:
  explicit FollowerTest(Rules rules = {})
      : own_(Options(rules), Disk()), follower_(&own_, kLeader) {
    own_.Commit(Z(1, 1));
    follower_.Start(now_, &output_);
  }

  static PeerOptions Options(Rules rules) {
    PeerOptions options = ZabTrio::TestOptions();
    options.server = k1;
    options.voters = {{1}, {2}, {3}};
    options.rules = rules;
    return options;
  }
  static DurableState Disk() {
    return {.accepted_epoch = {1}, .current_epoch = {1}, .transactions = Transactions("1.1 1.2")};
  }

  void Receive(Message message) {
    output_.Clear();
    follower_.OnReceived(now_, follower_.channel(), message, &output_);
  }
  // All writes so far become durable.
  void Persist() {
    output_.Clear();
    own_.OnPersisted(own_.last_write, &output_);
    follower_.OnPersisted(&output_);
  }
  void Open() { follower_.OnChannelOpened(now_, follower_.channel(), &output_); }
  void Pass(Duration duration) {
    now_ = now_ + duration;
    output_.Clear();
    follower_.OnWake(now_, &output_);
  }
  std::vector<std::string> sent() const {
    std::vector<std::string> texts;
    for (const auto& send : output_.sends) {
      EXPECT_EQ(send.channel, follower_.channel());
      texts.push_back(ToString(send.message));
    }
    return texts;
  }
  std::string abandoned() const {
    return follower_.abandoned() == nullptr ? "" : follower_.abandoned();
  }
  std::string applied() const {
    std::string text;
    for (const Delivery& delivery : output_.deliveries) {
      if (const auto* deliver = std::get_if<Deliver>(&delivery)) {
        text += deliver->transaction.zxid.ToString();
      }
    }
    return text;
  }

  // The beginnings of the phases.
  void ToDiscovery() { Open(); }
  void ToSynchronization() {
    ToDiscovery();
    Receive(LeaderInfo{{2}});
    Persist();
    ASSERT_EQ(follower_.phase(), Phase::kSynchronization);
  }
  void ToAcknowledging() {
    ToSynchronization();
    Receive(Diff{Z(1, 2)});
    Receive(NewLeader{{2}});
    ASSERT_EQ(follower_.phase(), Phase::kAcknowledging);
  }
  void ToAcknowledged() {
    ToAcknowledging();
    Persist();
    ASSERT_EQ(follower_.phase(), Phase::kAcknowledged);
  }
  void ToBroadcast() {
    ToAcknowledged();
    Receive(UpToDate{Z(1, 2)});
    ASSERT_EQ(follower_.phase(), Phase::kBroadcast);
  }

  Instant now_;
  Output output_;
  OwnState own_;
  Follower follower_;
};

// ---- The channel -------------------------------------------------------------------------------

TEST_F(FollowerTest, OpensAChannelToItsLeader) {
  ASSERT_EQ(output_.opens.size(), 1u);
  EXPECT_EQ(output_.opens[0].leader, kLeader);
  EXPECT_FALSE(output_.opens[0].channel.accepted());
}

TEST_F(FollowerTest, IntroducesItselfWithItsPromise) {
  Open();

  EXPECT_THAT(sent(), ElementsAre("FollowerInfo server=1 accepted=1"));
}

TEST_F(FollowerTest, ARefusedChannelIsOpenedAgainAfterAWhileAndUnderANewName) {
  ConnectionId first = follower_.channel();
  follower_.OnChannelClosed(now_, first, &output_);
  EXPECT_EQ(abandoned(), "");

  Pass(Milliseconds(50));

  ASSERT_EQ(output_.opens.size(), 1u);
  EXPECT_NE(output_.opens[0].channel, first);
}

TEST_F(FollowerTest, GivesUpAfterSoManyRefusals) {
  int attempts = 0;
  while (abandoned().empty()) {
    attempts++;
    follower_.OnChannelClosed(now_, follower_.channel(), &output_);
    Pass(Milliseconds(50));
  }

  EXPECT_EQ(attempts, 20);
  EXPECT_EQ(abandoned(), "the leader cannot be reached");
}

TEST_F(FollowerTest, GivesUpAtOnceWhenTheLeaderLooksForALeaderItself) {
  follower_.OnLeaderLooking();
  EXPECT_EQ(abandoned(), "the leader looks for a leader itself");
}

TEST_F(FollowerTest, OnceItHasPromisedTheChannelTellsItAll) {
  ToSynchronization();
  follower_.OnLeaderLooking();
  EXPECT_EQ(abandoned(), "");
}

TEST_F(FollowerTest, AChannelThatClosesAfterThePromiseIsNotOpenedAgain) {
  ToSynchronization();

  follower_.OnChannelClosed(now_, follower_.channel(), &output_);

  EXPECT_EQ(abandoned(), "lost the channel to the leader");
}

TEST_F(FollowerTest, EventsOfAFormerChannelAreIgnored) {
  ToBroadcast();
  ConnectionId former{999};

  output_.Clear();
  follower_.OnChannelOpened(now_, former, &output_);
  follower_.OnChannelClosed(now_, former, &output_);
  follower_.OnReceived(now_, former, Commit{Z(1, 2)}, &output_);

  std::vector<std::string> reasons;
  for (const Event& event : output_.events) reasons.push_back(event.reason);
  EXPECT_THAT(reasons,
              ElementsAre("opened a channel that is given up", "closed a channel that is given up",
                          "message on a channel that is given up"));
  EXPECT_EQ(abandoned(), "");
}

// ---- Discovery ---------------------------------------------------------------------------------

TEST_F(FollowerTest, PromisesAnEpochOnlyWhenThePromiseIsDurable) {
  ToDiscovery();

  Receive(LeaderInfo{{2}});
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_EQ(std::get<SetAcceptedEpoch>(output_.persists.at(0).write).epoch, Epoch{2});

  Persist();
  EXPECT_THAT(sent(), ElementsAre("AckEpoch current=1 last=<1,2>"));
}

TEST_F(FollowerTest, TellsWhereEachEpochOfItsHistoryEnds) {
  ToDiscovery();
  Receive(LeaderInfo{{2}});
  Persist();

  const auto& ack = std::get<AckEpoch>(output_.sends.at(0).message);
  EXPECT_THAT(ack.epoch_ends, ElementsAre(Z(0, 0), Z(1, 2)));
}

TEST_F(FollowerTest, APromiseGivenBeforeDoesNotCountAgain) {
  ToDiscovery();

  Receive(LeaderInfo{{1}});

  EXPECT_THAT(sent(), ElementsAre("AckEpoch current=promised last=<1,2>"));
  EXPECT_THAT(output_.persists, IsEmpty());
}

TEST_F(FollowerTest, AbandonsALeaderOfAnOlderEpochThanPromised) {
  ToDiscovery();

  Receive(LeaderInfo{{0}});

  EXPECT_EQ(abandoned(), "the leader's epoch is older than promised");
}

TEST_F(FollowerTest, DoesNotPromiseTheLastEpochOfAll) {
  ToDiscovery();

  Receive(LeaderInfo{kEpochMax});

  EXPECT_EQ(abandoned(), "LEADERINFO of an epoch that has no successor");
  EXPECT_EQ(own_.accepted_epoch, Epoch{1});
}

TEST_F(FollowerTest, AbandonsAfterASecondLeaderInfo) {
  ToSynchronization();
  Receive(LeaderInfo{{2}});
  EXPECT_EQ(abandoned(), "LEADERINFO out of order");
}

// ---- Synchronization ---------------------------------------------------------------------------

TEST_F(FollowerTest, LogsTheTransactionsOfADiff) {
  ToSynchronization();

  Receive(Diff{Z(1, 3)});
  Receive(Proposal{Z(1, 3), Z(1, 2), Bytes::Copy("x")});

  EXPECT_EQ(Zxids(own_.history.window()), "1.1 1.2 1.3");
  EXPECT_EQ(own_.current_epoch, Epoch{1}) << "the epoch comes after its history";
  EXPECT_THAT(sent(), IsEmpty());
}

TEST_F(FollowerTest, CutsItsHistoryOnTrunc) {
  ToSynchronization();

  Receive(Trunc{Z(1, 1), Z(1, 1)});

  EXPECT_EQ(own_.history.last(), Z(1, 1));
  EXPECT_EQ(std::get<TruncateHistory>(output_.persists.at(0).write).to, Z(1, 1));
}

TEST_F(FollowerTest, AbandonsOnATruncToWhatItNeverHad) {
  ToSynchronization();
  Receive(Trunc{Z(1, 7), Z(1, 7)});
  EXPECT_EQ(abandoned(), "TRUNC to a transaction that we do not have");
}

// The only way that this can come about is that a committed transaction is lost. The server stops.
TEST_F(FollowerTest, StopsOnATruncOfWhatIsCommitted) {
  ToSynchronization();
  EXPECT_DEATH(Receive(Trunc{Z(0, 0), Z(0, 0)}), "check failed: message.to >= own_.committed");
}

TEST_F(FollowerTest, StopsOnASnapshotOlderThanWhatIsCommitted) {
  ToSynchronization();
  Receive(Snap{Z(0, 0), Z(0, 0)});
  EXPECT_DEATH(Receive(SnapChunk{{}, true}), "check failed: zxid >= committed");
}

TEST_F(FollowerTest, ASnapshotReplacesEverythingWhenItsLastPieceHasCome) {
  ToSynchronization();
  Receive(Snap{Z(1, 9), Z(1, 9)});
  Receive(SnapChunk{Bytes::Copy("abc"), false});
  EXPECT_EQ(own_.history.last(), Z(1, 2));

  Receive(SnapChunk{Bytes::Copy("def"), true});
  EXPECT_EQ(own_.history.last(), Z(1, 9));
  EXPECT_EQ(own_.delivered, Z(0, 0)) << "the old state stays until the new one is durable";
  EXPECT_EQ(std::get<InstallSnapshot>(output_.persists.at(0).write).zxid, Z(1, 9));

  Persist();
  EXPECT_EQ(own_.delivered, Z(1, 9));
  EXPECT_EQ(std::get<RestoreSnapshot>(output_.deliveries.at(0)).zxid, Z(1, 9));
}

TEST_F(FollowerTest, HandsOutThePiecesOfASnapshotInOrder) {
  ToSynchronization();
  Receive(Snap{Z(1, 9), Z(1, 9)});

  Receive(SnapChunk{Bytes::Copy("abc"), false});
  const auto& first = std::get<ReceivedSnapshotChunk>(output_.deliveries.at(0));
  EXPECT_TRUE(first.first && !first.last);
  Receive(SnapChunk{Bytes::Copy("def"), true});
  const auto& second = std::get<ReceivedSnapshotChunk>(output_.deliveries.at(0));
  EXPECT_TRUE(!second.first && second.last);
}

TEST_F(FollowerTest, AnythingOutOfOrderInTheSynchronizationAbandonsTheLeader) {
  struct Case {
    std::vector<Message> messages;
    const char* reason;
  };
  const std::vector<Case> cases = {
      {{Proposal{Z(1, 3), Z(1, 2), {}}}, "PROPOSAL out of order"},
      {{NewLeader{{2}}}, "NEWLEADER out of order"},
      {{UpToDate{}}, "UPTODATE out of order"},
      {{Commit{Z(1, 1)}}, "COMMIT out of order"},
      {{SnapChunk{}}, "a piece of a snapshot out of order"},
      {{Ping{}}, "PING out of order"},
      {{Reply{}}, "reply before UPTODATE"},
      {{Diff{}, Diff{}}, "start of synchronization out of order"},
      {{Diff{}, Trunc{Z(1, 1), {}}}, "start of synchronization out of order"},
      {{Diff{}, Snap{Z(1, 9), {}}}, "start of synchronization out of order"},
      {{Snap{Z(1, 9), {}}, Proposal{Z(1, 10), Z(1, 9), {}}}, "PROPOSAL out of order"},
      {{Snap{Z(1, 9), {}}, NewLeader{{2}}}, "NEWLEADER out of order"},
      {{Snap{Z(3, 1), {}}}, "SNAP of a later epoch"},
      {{Diff{}, NewLeader{{1}}}, "NEWLEADER of another epoch"},
      {{Diff{}, NewLeader{{2}}, NewLeader{{2}}}, "NEWLEADER out of order"},
      {{Diff{}, NewLeader{{2}}, UpToDate{}}, "UPTODATE out of order"},
      {{Diff{}, Proposal{Z(1, 4), Z(1, 3), {}}}, "PROPOSAL leaves a gap"},
      {{Diff{}, Proposal{Z(1, 2), Z(1, 2), {}}}, "PROPOSAL goes back"},
      {{Diff{}, Proposal{Z(3, 1), Z(1, 2), {}}}, "PROPOSAL of a later epoch"},
      {{FollowerInfo{}}, "the leader sent a learner's message"},
      {{AckEpoch{}}, "the leader sent a learner's message"},
      {{AckNewLeader{}}, "the leader sent a learner's message"},
      {{Ack{}}, "the leader sent a learner's message"},
      {{Request{}}, "the leader sent a learner's message"},
  };
  for (const Case& c : cases) {
    Output output;
    OwnState own(Options({}), Disk());
    Follower follower(&own, kLeader);
    follower.Start({}, &output);
    follower.OnChannelOpened({}, follower.channel(), &output);
    follower.OnReceived({}, follower.channel(), LeaderInfo{{2}}, &output);
    own.OnPersisted(own.last_write, &output);
    follower.OnPersisted(&output);
    for (const Message& message : c.messages) {
      ASSERT_EQ(follower.abandoned(), nullptr) << c.reason;
      follower.OnReceived({}, follower.channel(), message, &output);
    }
    EXPECT_STREQ(follower.abandoned(), c.reason);
  }
}

TEST_F(FollowerTest, AcknowledgesNewLeaderWhenHistoryAndEpochAreDurable) {
  ToSynchronization();
  Receive(Diff{Z(1, 3)});
  Receive(Proposal{Z(1, 3), Z(1, 2), {}});

  Receive(NewLeader{{2}});
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_EQ(std::get<SetCurrentEpoch>(output_.persists.at(0).write).epoch, Epoch{2});

  Persist();
  EXPECT_THAT(sent(), ElementsAre("AckNewLeader 2"));
}

TEST_F(FollowerTest, AnEarlierWriteThatBecomesDurableIsNotEnough) {
  ToAcknowledging();
  output_.Clear();

  own_.OnPersisted({own_.last_write.value - 1}, &output_);
  follower_.OnPersisted(&output_);

  EXPECT_THAT(sent(), IsEmpty());
}

TEST_F(FollowerTest, AProposalBehindNewLeaderIsAcknowledgedByItself) {
  ToAcknowledging();
  Receive(Proposal{Z(2, 1), Z(1, 2), {}});

  Persist();

  EXPECT_THAT(sent(), ElementsAre("AckNewLeader 2", "Ack <2,1>"));
}

// ---- Broadcast ---------------------------------------------------------------------------------

TEST_F(FollowerTest, ServesFromUpToDateOnAndNotBefore) {
  ToAcknowledged();
  EXPECT_FALSE(follower_.established());

  Receive(UpToDate{Z(1, 2)});

  EXPECT_EQ(applied(), "<1,1><1,2>");
  const auto& changed = std::get<ServiceChanged>(output_.deliveries.back());
  EXPECT_EQ(changed.service, Service::kFollowing);
  EXPECT_EQ(changed.epoch, Epoch{2});
}

TEST_F(FollowerTest, OneAckCoversAllThatOneSyncMadeDurable) {
  ToBroadcast();
  Receive(Proposal{Z(2, 1), Z(1, 2), {}});
  Receive(Proposal{Z(2, 2), Z(2, 1), {}});
  EXPECT_THAT(sent(), IsEmpty());

  Persist();
  EXPECT_THAT(sent(), ElementsAre("Ack <2,2>"));
  Persist();
  EXPECT_THAT(sent(), IsEmpty());
}

TEST_F(FollowerTest, AppliesWhatIsCommittedWhenItIsDurableHere) {
  ToBroadcast();
  Receive(Proposal{Z(2, 1), Z(1, 2), {}});
  Receive(Commit{Z(2, 1)});
  EXPECT_EQ(applied(), "");

  Persist();
  EXPECT_EQ(applied(), "<2,1>");
}

TEST_F(FollowerTest, AppliesWhatIsDurableWhenItIsCommitted) {
  ToBroadcast();
  Receive(Proposal{Z(2, 1), Z(1, 2), {}});
  Persist();
  EXPECT_EQ(applied(), "");

  Receive(Commit{Z(2, 1)});
  EXPECT_EQ(applied(), "<2,1>");
}

TEST_F(FollowerTest, AbandonsOnACommitOfWhatItDoesNotHave) {
  ToBroadcast();
  Receive(Commit{Z(2, 1)});
  EXPECT_EQ(abandoned(), "COMMIT beyond our history");
}

TEST_F(FollowerTest, AbandonsOnAnUpToDateBeyondItsHistory) {
  ToAcknowledged();
  Receive(UpToDate{Z(2, 1)});
  EXPECT_EQ(abandoned(), "UPTODATE beyond our history");
}

TEST_F(FollowerTest, ASecondUpToDateAbandons) {
  ToBroadcast();
  Receive(UpToDate{Z(1, 2)});
  EXPECT_EQ(abandoned(), "UPTODATE out of order");
}

TEST_F(FollowerTest, AsksTheApplicationWhatToSayToAPing) {
  ToBroadcast();

  Receive(Ping{Bytes::Copy("word")});
  EXPECT_EQ(std::get<PingAsked>(output_.deliveries.at(0)).payload.view(), "word");

  follower_.AnswerPing(Bytes::Copy("sessions"), &output_);
  EXPECT_THAT(sent(), ElementsAre("Ping 8 bytes"));
}

TEST_F(FollowerTest, RequestsAndRepliesPassThrough) {
  ToBroadcast();

  follower_.SendRequest(Bytes::Copy("abc"), &output_);
  EXPECT_EQ(sent().back(), "Request 3 bytes");
  Receive(Reply{Bytes::Copy("ok")});
  EXPECT_EQ(std::get<ReplyReceived>(output_.deliveries.at(0)).payload.view(), "ok");
}

TEST_F(FollowerTest, DropsWhatTheApplicationSaysTooEarly) {
  ToSynchronization();
  output_.Clear();

  follower_.SendRequest({}, &output_);
  follower_.AnswerPing({}, &output_);

  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_STREQ(output_.events.at(0).reason, "request before UPTODATE");
  EXPECT_STREQ(output_.events.at(1).reason, "answer to a ping of a lost leader");
}

// ---- Time --------------------------------------------------------------------------------------

TEST_F(FollowerTest, MustBeUpToDateWithinInitLimit) {
  ToAcknowledged();

  Pass(Seconds(5));

  EXPECT_EQ(abandoned(), "not synchronized within initLimit");
}

TEST_F(FollowerTest, EachPieceOfASnapshotBuysTime) {
  ToSynchronization();
  Receive(Snap{Z(1, 9), Z(1, 9)});
  for (int i = 0; i < 10; i++) {
    Pass(Seconds(4));
    Receive(SnapChunk{});
  }
  EXPECT_EQ(abandoned(), "");

  Pass(Seconds(5));
  EXPECT_EQ(abandoned(), "not synchronized within initLimit");
}

TEST_F(FollowerTest, AnyWordOfTheLeaderBuysTimeAndSilenceDoesNot) {
  ToBroadcast();
  for (int i = 0; i < 10; i++) {
    Pass(Milliseconds(1900));
    Receive(Ping{});
  }
  EXPECT_EQ(abandoned(), "");

  Pass(Seconds(2));
  EXPECT_EQ(abandoned(), "no word from the leader within syncLimit");
}

}  // namespace
}  // namespace lockstep::zab
