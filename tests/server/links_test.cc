#include "core/server/links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr ServerId k1{1};
constexpr ServerId k2{2};
constexpr ServerId k3{3};

ConnectionId Accepted(uint64_t number) { return {ConnectionId::kAccepted | number}; }

// The links of server 1 of an ensemble of three, started.
class LinksTest : public ::testing::Test {
 protected:
  LinksTest() : links_({.server = k1, .voters = {k1, k2, k3}, .ungreeted_max = 3}) {
    links_.Start(now_, &output_);
    for (const Dial& dial : output_.dials) dialed_[dial.to] = dial.connection;
    Clear();
  }

  void Clear() {
    output_.Clear();
    inputs_.clear();
  }
  void Connect(ConnectionId connection) {
    Clear();
    links_.OnConnected(now_, connection, &output_, &inputs_);
  }
  void Accept(ConnectionId connection, LinkKind kind) {
    Clear();
    links_.OnAccepted(now_, connection, kind, &output_);
  }
  void Bytes(ConnectionId connection, const std::vector<lockstep::Bytes>& slices) {
    Clear();
    for (const lockstep::Bytes& slice : slices) {
      links_.OnBytes(now_, connection, slice, &output_, &inputs_);
    }
  }
  void Close(ConnectionId connection) {
    Clear();
    links_.OnClosed(now_, connection, &inputs_);
  }
  void Pass(Duration duration) {
    now_ = now_ + duration;
    Clear();
    links_.OnWake(now_, &output_, &inputs_);
  }
  // When the next deadline is, from now.
  Duration next() const { return links_.next_deadline() - now_; }

  // The greeting of another server; by its own Links, so that the ensemble's digest is right.
  static std::vector<lockstep::Bytes> HelloOf(ServerId from, ServerId to,
                                              std::vector<ServerId> voters = {k1, k2, k3}) {
    Links links({.server = from, .voters = voters});
    Output output;
    std::vector<zab::Input> inputs;
    links.OpenChannel({}, {ConnectionId{1}, to}, &output);
    links.OnConnected({}, ConnectionId{1}, &output, &inputs);
    std::vector<lockstep::Bytes> slices;
    for (const Send& send : output.sends) slices.push_back(send.data);
    return slices;
  }
  static std::vector<lockstep::Bytes> Notify() {
    std::vector<lockstep::Bytes> slices;
    wire::EncodeNotification({zab::ServerState::kLooking, 7, {{1}, {{1}, 2}, k2}}, &slices);
    return slices;
  }
  static std::vector<lockstep::Bytes> Encoded(const zab::Message& message) {
    std::vector<lockstep::Bytes> slices;
    wire::EncodeMessage(message, &slices);
    return slices;
  }
  std::string refused() const { return output_.events.empty() ? "" : output_.events.back().reason; }

  Instant now_ = Instant{} + Seconds(1);
  Output output_;
  std::vector<zab::Input> inputs_;
  Links links_;
  std::map<ServerId, ConnectionId> dialed_;
};

// ---- Election connections ----------------------------------------------------------------------

TEST_F(LinksTest, EachOtherVoterIsDialed) {
  ASSERT_EQ(dialed_.size(), 2u);
  EXPECT_TRUE(dialed_.contains(k2));
  EXPECT_TRUE(dialed_.contains(k3));
}

TEST_F(LinksTest, TheSideThatDialedGreetsFirst) {
  Connect(dialed_[k2]);

  ASSERT_FALSE(output_.sends.empty());
  EXPECT_EQ(output_.sends[0].connection, dialed_[k2]);
  ASSERT_EQ(inputs_.size(), 1u);
  EXPECT_EQ(std::get<zab::NotificationLinkUp>(inputs_[0]).server, k2);
}

TEST_F(LinksTest, NotificationsGoOnTheDialedConnectionAndNowhereElse) {
  Connect(dialed_[k2]);
  Clear();

  const zab::Notification vote{.vote = {.leader = k1}};
  links_.SendNotification(k2, vote, &output_);
  links_.SendNotification(k3, vote, &output_);  // not connected: it learns our state when it is

  ASSERT_FALSE(output_.sends.empty());
  for (const Send& send : output_.sends) EXPECT_EQ(send.connection, dialed_[k2]);
}

TEST_F(LinksTest, AGreetedElectionConnectionBringsNotifications) {
  Accept(Accepted(1), LinkKind::kElection);
  Bytes(Accepted(1), HelloOf(k2, k1));
  EXPECT_THAT(inputs_, IsEmpty());

  Bytes(Accepted(1), Notify());

  ASSERT_EQ(inputs_.size(), 1u);
  EXPECT_EQ(std::get<zab::ReceivedNotification>(inputs_[0]).from, k2);
  EXPECT_EQ(std::get<zab::ReceivedNotification>(inputs_[0]).notification.round, 7u);
}

TEST_F(LinksTest, BytesMayComeOneByOne) {
  Accept(Accepted(1), LinkKind::kElection);
  std::string all;
  for (const auto& slices : {HelloOf(k2, k1), Notify()}) {
    for (const lockstep::Bytes& slice : slices) all += slice.view();
  }
  Clear();

  for (char c : all) {
    links_.OnBytes(now_, Accepted(1), lockstep::Bytes::Copy(std::string(1, c)), &output_, &inputs_);
  }

  EXPECT_EQ(inputs_.size(), 1u);
}

TEST_F(LinksTest, ANewElectionConnectionOfAServerReplacesItsOldOne) {
  Accept(Accepted(1), LinkKind::kElection);
  Bytes(Accepted(1), HelloOf(k2, k1));
  Accept(Accepted(2), LinkKind::kElection);

  Bytes(Accepted(2), HelloOf(k2, k1));

  EXPECT_THAT(output_.closes, ElementsAre(Accepted(1)));
  EXPECT_FALSE(links_.Has(Accepted(1)));
  EXPECT_TRUE(links_.Has(Accepted(2)));
}

TEST_F(LinksTest, AWordOnAConnectionThatWeDialedIsRefused) {
  Connect(dialed_[k2]);
  Bytes(dialed_[k2], Notify());

  EXPECT_EQ(refused(), "a word on a one-way connection");
  EXPECT_THAT(output_.closes, ElementsAre(dialed_[k2]));
}

// ---- Dialing again -----------------------------------------------------------------------------

TEST_F(LinksTest, AFailedDialIsRepeatedEverMoreSlowly) {
  std::vector<int64_t> waits;
  ConnectionId last = dialed_[k2];
  Connect(dialed_[k3]);  // so that only 2 is of interest
  for (int i = 0; i < 7; i++) {
    Close(last);
    waits.push_back(next().Milliseconds());
    Pass(next());
    ASSERT_EQ(output_.dials.size(), 1u);
    EXPECT_EQ(output_.dials[0].to, k2);
    EXPECT_NE(output_.dials[0].connection, last);
    last = output_.dials[0].connection;
  }
  EXPECT_THAT(waits, ElementsAre(50, 100, 200, 400, 800, 1000, 1000));
}

TEST_F(LinksTest, AConnectionThatLivedIsDialedAgainSoon) {
  Connect(dialed_[k3]);
  ConnectionId last = dialed_[k2];
  for (int i = 0; i < 5; i++) {
    Close(last);
    Pass(next());
    last = output_.dials[0].connection;
  }
  Connect(last);
  Pass(Seconds(1));

  Close(last);

  EXPECT_EQ(next(), Milliseconds(50));
}

TEST_F(LinksTest, AConnectionThatIsRefusedAtOnceIsNotDialedSoon) {
  Connect(dialed_[k3]);
  ConnectionId last = dialed_[k2];
  for (int i = 0; i < 6; i++) {
    Connect(last);
    Close(last);
    Pass(next());
    last = output_.dials[0].connection;
  }
  Connect(last);
  Close(last);
  EXPECT_EQ(next(), Seconds(1));
}

TEST_F(LinksTest, ADialThatIsNotAnsweredIsGivenUpAndRepeated) {
  Connect(dialed_[k3]);
  EXPECT_EQ(next(), Seconds(2));

  Pass(Seconds(2));
  EXPECT_EQ(refused(), "no connection in time");
  EXPECT_THAT(output_.closes, ElementsAre(dialed_[k2]));

  Pass(Milliseconds(50));
  ASSERT_EQ(output_.dials.size(), 1u);
  EXPECT_EQ(output_.dials[0].to, k2);
}

// ---- Greetings ---------------------------------------------------------------------------------

TEST_F(LinksTest, AGreetingForAnotherServerIsRefused) {
  Accept(Accepted(1), LinkKind::kElection);
  Bytes(Accepted(1), HelloOf(k2, k3));

  EXPECT_EQ(refused(), "greets another server: is an address wrong in a configuration?");
  EXPECT_THAT(output_.closes, ElementsAre(Accepted(1)));
}

TEST_F(LinksTest, AGreetingFromAnotherEnsembleIsRefused) {
  Accept(Accepted(1), LinkKind::kElection);
  Bytes(Accepted(1), HelloOf(k2, k1, {k1, k2}));
  EXPECT_EQ(refused(),
            "greets from another ensemble: do the server lines of all configurations agree?");
}

TEST_F(LinksTest, AGreetingFromAStrangerOrFromOurselvesIsRefused) {
  for (ServerId from : {ServerId{9}, k1}) {
    Accept(Accepted(from.value), LinkKind::kElection);
    Bytes(Accepted(from.value), HelloOf(from, k1));
    EXPECT_EQ(refused(),
              "greets from another ensemble: do the server lines of all configurations agree?");
  }
}

TEST_F(LinksTest, AnythingButAGreetingComesTooEarly) {
  Accept(Accepted(1), LinkKind::kElection);
  Bytes(Accepted(1), Notify());
  EXPECT_EQ(refused(), "no greeting");
}

TEST_F(LinksTest, GarbageClosesItsOwnConnectionAlone) {
  Accept(Accepted(1), LinkKind::kElection);
  Bytes(Accepted(1), HelloOf(k2, k1));
  Accept(Accepted(2), LinkKind::kElection);
  Bytes(Accepted(2), HelloOf(k3, k1));

  Bytes(Accepted(1), {lockstep::Bytes::Copy(std::string(100, '\xa5'))});

  EXPECT_EQ(refused(), "bytes that are no frame");
  EXPECT_THAT(output_.closes, ElementsAre(Accepted(1)));
  Bytes(Accepted(2), Notify());
  EXPECT_EQ(inputs_.size(), 1u);
}

TEST_F(LinksTest, AGreetingMustComeInTime) {
  Accept(Accepted(1), LinkKind::kElection);
  Connect(dialed_[k2]);
  Connect(dialed_[k3]);
  EXPECT_EQ(next(), Seconds(10));

  Pass(Seconds(10));

  EXPECT_EQ(refused(), "no greeting in time");
  EXPECT_FALSE(links_.Has(Accepted(1)));
  EXPECT_EQ(links_.next_deadline(), Instant::Never());
}

TEST_F(LinksTest, OnlySoManyMayBeUngreeted) {
  for (uint64_t i = 1; i <= 3; i++) Accept(Accepted(i), LinkKind::kElection);
  Accept(Accepted(4), LinkKind::kLearner);
  EXPECT_EQ(refused(), "too many peer connections without a greeting");
  EXPECT_THAT(output_.closes, ElementsAre(Accepted(4)));

  Bytes(Accepted(1), HelloOf(k2, k1));
  Accept(Accepted(5), LinkKind::kLearner);
  EXPECT_THAT(output_.closes, IsEmpty());
}

// ---- Channels ----------------------------------------------------------------------------------

TEST_F(LinksTest, AChannelOfALearnerOpensWithItsGreeting) {
  Accept(Accepted(1), LinkKind::kLearner);
  EXPECT_THAT(inputs_, IsEmpty());

  Bytes(Accepted(1), HelloOf(k2, k1));
  ASSERT_EQ(inputs_.size(), 1u);
  EXPECT_EQ(std::get<zab::ChannelOpened>(inputs_[0]).channel, Accepted(1));

  Bytes(Accepted(1), Encoded(zab::FollowerInfo{k2, {3}}));
  ASSERT_EQ(inputs_.size(), 1u);
  const auto& received = std::get<zab::Received>(inputs_[0]);
  EXPECT_EQ(std::get<zab::FollowerInfo>(received.message).accepted_epoch, Epoch{3});
}

TEST_F(LinksTest, ALearnerMayNotIntroduceItselfAsAnother) {
  Accept(Accepted(1), LinkKind::kLearner);
  Bytes(Accepted(1), HelloOf(k2, k1));

  Bytes(Accepted(1), Encoded(zab::FollowerInfo{k3, {3}}));

  EXPECT_EQ(refused(), "FOLLOWERINFO of another server than the greeting");
  ASSERT_EQ(inputs_.size(), 1u);
  EXPECT_EQ(std::get<zab::ChannelClosed>(inputs_[0]).channel, Accepted(1));
}

TEST_F(LinksTest, ABrokenChannelIsToldToThePeerIfItWasGreeted) {
  Accept(Accepted(1), LinkKind::kLearner);
  Close(Accepted(1));
  EXPECT_THAT(inputs_, IsEmpty());

  Accept(Accepted(2), LinkKind::kLearner);
  Bytes(Accepted(2), HelloOf(k2, k1));
  Close(Accepted(2));
  ASSERT_EQ(inputs_.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<zab::ChannelClosed>(inputs_[0]));
}

TEST_F(LinksTest, AChannelThatWeOpenGoesBothWays) {
  Clear();
  links_.OpenChannel(now_, {ConnectionId{5}, k3}, &output_);
  ASSERT_EQ(output_.dials.size(), 1u);
  EXPECT_EQ(output_.dials[0].kind, LinkKind::kLearner);

  Connect(ConnectionId{5});
  EXPECT_EQ(std::get<zab::ChannelOpened>(inputs_.at(0)).channel, ConnectionId{5});
  Clear();
  links_.Send(ConnectionId{5}, zab::FollowerInfo{k1, {1}}, &output_);
  EXPECT_FALSE(output_.sends.empty());
  Bytes(ConnectionId{5}, Encoded(zab::LeaderInfo{{2}}));
  EXPECT_TRUE(std::holds_alternative<zab::Received>(inputs_.at(0)));
}

TEST_F(LinksTest, AChannelThatCannotBeOpenedIsClosedForThePeer) {
  links_.OpenChannel(now_, {ConnectionId{5}, k3}, &output_);

  Close(ConnectionId{5});

  EXPECT_EQ(std::get<zab::ChannelClosed>(inputs_.at(0)).channel, ConnectionId{5});
}

TEST_F(LinksTest, AChannelThatIsNotAnsweredIsClosedForThePeer) {
  Connect(dialed_[k2]);
  Connect(dialed_[k3]);
  links_.OpenChannel(now_, {ConnectionId{5}, k3}, &output_);

  Pass(Seconds(2));

  EXPECT_EQ(std::get<zab::ChannelClosed>(inputs_.at(0)).channel, ConnectionId{5});
  EXPECT_THAT(output_.closes, ElementsAre(ConnectionId{5}));
}

TEST_F(LinksTest, WhatThePeerClosesIsNotToldBackToIt) {
  Accept(Accepted(1), LinkKind::kLearner);
  Bytes(Accepted(1), HelloOf(k2, k1));
  Clear();

  links_.Close(Accepted(1), &output_);
  EXPECT_THAT(output_.closes, ElementsAre(Accepted(1)));
  Close(Accepted(1));
  EXPECT_THAT(inputs_, IsEmpty());
}

TEST_F(LinksTest, MessagesForAChannelThatIsGoneAreDropped) {
  Clear();
  links_.Send(ConnectionId{77}, zab::Commit{}, &output_);
  EXPECT_THAT(output_.sends, IsEmpty());
}

TEST_F(LinksTest, TheBacklogIsWhatTheHostHasNotPassedOn) {
  Accept(Accepted(1), LinkKind::kLearner);
  Bytes(Accepted(1), HelloOf(k2, k1));
  Clear();
  links_.Send(Accepted(1), zab::Reply{lockstep::Bytes::Copy(std::string(1000, 'x'))}, &output_);
  uint64_t sent = 0;
  for (const Send& send : output_.sends) sent += send.data.size();

  EXPECT_EQ(links_.Backlog(Accepted(1)), sent);
  links_.OnWritten(Accepted(1), 400);
  EXPECT_EQ(links_.Backlog(Accepted(1)), sent - 400);
  EXPECT_EQ(links_.Backlog(Accepted(9)), 0u);
}

}  // namespace
}  // namespace lockstep::server
