#include "core/zab/election.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/zab_trio.h"

namespace lockstep::zab {
namespace {

constexpr ServerId k1{1};
constexpr ServerId k2{2};
constexpr ServerId k3{3};

// Server 1 of `voters`, with the history <2,5> of the current epoch 2, and its election under way.
class LookingServer {
 public:
  explicit LookingServer(uint32_t voters = 3, Rules rules = {})
      : own_(Options(voters, rules),
             {.accepted_epoch = {2}, .current_epoch = {2}, .base = Z(2, 5), .snapshot = Z(2, 5)}),
        election_(own_, 6) {
    election_.Start(now_, &output_);
  }

  static PeerOptions Options(uint32_t voters, Rules rules) {
    PeerOptions options = ZabTrio::TestOptions();
    options.server = k1;
    for (uint32_t id = 1; id <= voters; id++) options.voters.push_back({id});
    options.rules = rules;
    return options;
  }

  Election& election() { return election_; }
  Instant now() const { return now_; }
  Vote own_vote() const { return {{2}, Z(2, 5), k1}; }

  void Hear(ServerId from, ServerState state, uint64_t round, Vote vote) {
    output_.Clear();
    election_.OnNotification(now_, from, {state, round, vote}, &output_);
  }
  void Pass(Duration duration) {
    now_ = now_ + duration;
    output_.Clear();
    election_.OnWake(now_, &output_);
  }
  // To whom the last step sent notifications, which are all alike.
  std::vector<ServerId> told() const {
    std::vector<ServerId> servers;
    for (const auto& to : output_.notifications) {
      servers.push_back(to.to);
      EXPECT_EQ(to.notification.state, ServerState::kLooking);
      EXPECT_EQ(to.notification.vote, election_.vote());
      EXPECT_EQ(to.notification.round, election_.round());
    }
    return servers;
  }
  std::string ignored() const { return output_.events.empty() ? "" : output_.events.back().reason; }

 private:
  Instant now_;
  Output output_;
  OwnState own_;
  Election election_;
};

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr ServerState kLooking = ServerState::kLooking;
constexpr ServerState kFollowing = ServerState::kFollowing;
constexpr ServerState kLeading = ServerState::kLeading;

Vote For(ServerId leader, Epoch epoch = {2}, Zxid last = Z(2, 5)) { return {epoch, last, leader}; }

TEST(Election, BeginsANewRoundWithAVoteForItself) {
  LookingServer server;

  EXPECT_EQ(server.election().round(), 7u);
  EXPECT_EQ(server.election().vote(), server.own_vote());
  EXPECT_THAT(server.told(), ElementsAre(k2, k3));
}

TEST(Election, OneVoterDecidesAtOnce) {
  LookingServer server(1);

  EXPECT_TRUE(server.election().decided());
  EXPECT_EQ(server.election().vote().leader, k1);
}

TEST(Election, AdoptsABetterVoteAndTellsEverybody) {
  LookingServer server;

  server.Hear(k2, kLooking, 7, For(k2));

  EXPECT_EQ(server.election().vote(), For(k2));
  EXPECT_THAT(server.told(), ElementsAre(k2, k3));
}

TEST(Election, KeepsABetterVoteOfItsOwn) {
  LookingServer server;

  server.Hear(k2, kLooking, 7, For(k2, {2}, Z(2, 4)));

  EXPECT_EQ(server.election().vote(), server.own_vote());
  EXPECT_THAT(server.told(), IsEmpty());
}

TEST(Election, TheCurrentEpochCountsBeforeTheZxidAndThatBeforeTheId) {
  EXPECT_GT(For(k1, {3}, Z(1, 1)), For(k3, {2}, Z(2, 9)));
  EXPECT_GT(For(k1, {2}, Z(2, 9)), For(k3, {2}, Z(2, 8)));
  EXPECT_GT(For(k3, {2}, Z(2, 9)), For(k1, {2}, Z(2, 9)));
}

TEST(Election, ALaterRoundStartsOver) {
  LookingServer server(5);
  server.Hear(k2, kLooking, 7, For(k2));

  server.Hear(k3, kLooking, 9, For(k3, {1}, Z(1, 1)));

  EXPECT_EQ(server.election().round(), 9u);
  EXPECT_EQ(server.election().vote(), server.own_vote()) << "2's better vote was of another round";
  EXPECT_EQ(server.told().size(), 4u);
}

TEST(Election, AnEarlierRoundIsAnsweredAndNotCounted) {
  LookingServer server;

  server.Hear(k2, kLooking, 6, For(k2));

  EXPECT_EQ(server.ignored(), "notification of an older round");
  EXPECT_THAT(server.told(), ElementsAre(k2));
  EXPECT_EQ(server.election().vote(), server.own_vote());
}

TEST(Election, AQuorumWaitsForABetterVoteBeforeItDecides) {
  LookingServer server;
  server.Hear(k2, kLooking, 7, For(k2));
  EXPECT_FALSE(server.election().decided());

  server.Pass(Milliseconds(99));
  EXPECT_FALSE(server.election().decided());
  server.Pass(Milliseconds(1));
  EXPECT_TRUE(server.election().decided());
  EXPECT_EQ(server.election().vote().leader, k2);
}

TEST(Election, ABetterVoteDuringTheWaitIsTaken) {
  LookingServer server;
  server.Hear(k2, kLooking, 7, For(k2));
  server.Pass(Milliseconds(99));

  server.Hear(k3, kLooking, 7, For(k3));
  server.Pass(Milliseconds(1));

  EXPECT_FALSE(server.election().decided());
  EXPECT_EQ(server.election().vote(), For(k3));
}

TEST(Election, RepeatedVotesDoNotProlongTheWait) {
  LookingServer server;
  server.Hear(k2, kLooking, 7, For(k2));
  server.Pass(Milliseconds(60));
  server.Hear(k2, kLooking, 7, For(k2));

  server.Pass(Milliseconds(40));

  EXPECT_TRUE(server.election().decided());
}

TEST(Election, AllVotesAlikeNeedNoWait) {
  LookingServer server;
  server.Hear(k2, kLooking, 7, For(k3));
  server.Hear(k3, kLooking, 7, For(k3));

  EXPECT_TRUE(server.election().decided());
  EXPECT_EQ(server.election().vote().leader, k3);
}

TEST(Election, AVoteThatIsTakenBackNoLongerCounts) {
  LookingServer server;
  server.Hear(k2, kLooking, 7, server.own_vote());
  server.Hear(k2, kLooking, 8, For(k2, {1}, Z(1, 1)));

  server.Pass(Milliseconds(100));

  EXPECT_FALSE(server.election().decided());
}

TEST(Election, RepeatsItsVoteEverMoreSlowlyUpToTheLimit) {
  LookingServer server;
  std::vector<int64_t> intervals;

  for (int i = 0; i < 6; i++) {
    Duration wait = server.election().next_deadline() - server.now();
    intervals.push_back(wait.Milliseconds());
    server.Pass(wait);
    EXPECT_EQ(server.told().size(), 2u);
  }

  EXPECT_THAT(intervals, ElementsAre(200, 400, 800, 1600, 2000, 2000));
}

TEST(Election, ALinkThatIsUpAgainGetsTheVote) {
  LookingServer server;
  Output output;

  server.election().OnLinkUp(k3, &output);

  ASSERT_EQ(output.notifications.size(), 1u);
  EXPECT_EQ(output.notifications[0].to, k3);
}

TEST(Election, JoinsALeaderThatAQuorumFollowsWhateverTheRound) {
  LookingServer server(5);

  server.Hear(k2, kFollowing, 99, For(k3, {1}, Z(1, 1)));
  server.Hear({4}, kFollowing, 99, For(k3, {1}, Z(1, 1)));
  EXPECT_FALSE(server.election().decided());
  server.Hear(k3, kLeading, 98, For(k3, {1}, Z(1, 1)));

  EXPECT_TRUE(server.election().decided());
  EXPECT_EQ(server.election().vote().leader, k3);
  EXPECT_EQ(server.election().round(), 98u);
}

TEST(Election, JoinsNobodyWhoDoesNotSayThatItLeads) {
  LookingServer server(5);

  server.Hear(k2, kFollowing, 99, For(k3));
  server.Hear({4}, kFollowing, 99, For(k3));
  server.Hear({5}, kFollowing, 99, For(k3));
  server.Hear(k3, kFollowing, 99, For(k2));

  EXPECT_FALSE(server.election().decided());
}

TEST(Election, ALeaderThatLacksOnlyUsIsJoined) {
  LookingServer server(3);

  server.Hear(k3, kLeading, 1, For(k3));

  EXPECT_TRUE(server.election().decided());
}

// It would abdicate because of us, and we would join it again: a livelock, found by the ensemble's
// property.
TEST(Election, ALeaderThatLacksOnlyUsIsNotJoinedIfWeAreAheadOfIt) {
  LookingServer server(3);

  server.Hear(k3, kLeading, 1, For(k3, {1}, Z(1, 1)));

  EXPECT_FALSE(server.election().decided());
}

TEST(Election, AMemberThatLooksAgainNoLongerCounts) {
  LookingServer server(5);
  server.Hear(k3, kLeading, 99, For(k3));
  server.Hear(k3, kLooking, 6, For(k3));

  server.Hear(k2, kFollowing, 99, For(k3));
  server.Hear({4}, kFollowing, 99, For(k3));

  EXPECT_FALSE(server.election().decided());
}

TEST(Election, MembersOfTheSameRoundCountAsVotes) {
  LookingServer server(5);

  server.Hear(k2, kFollowing, 7, For(k3));
  server.Hear({4}, kFollowing, 7, For(k3));
  server.Pass(Milliseconds(100));

  EXPECT_TRUE(server.election().decided());
  EXPECT_EQ(server.election().vote().leader, k3);
}

TEST(Election, FollowersOfAFormerSelfDoNotMakeItLead) {
  LookingServer server;

  for (uint64_t round : {6, 7, 8}) {
    server.Hear(k2, kFollowing, round, server.own_vote());
    EXPECT_EQ(server.ignored(), "follows a former self");
  }
  server.Pass(Milliseconds(200));

  EXPECT_FALSE(server.election().decided());
  EXPECT_EQ(server.election().round(), 7u);
}

TEST(Election, HearsVotersAlone) {
  LookingServer server;

  server.Hear({9}, kLooking, 9, For(k3));
  EXPECT_EQ(server.ignored(), "notification from or for a server that is no voter");
  server.Hear(k2, kLooking, 9, For({9}));
  EXPECT_EQ(server.ignored(), "notification from or for a server that is no voter");
  server.Hear(k1, kLooking, 9, For(k3));
  EXPECT_EQ(server.ignored(), "own notification");

  EXPECT_EQ(server.election().round(), 7u);
}

TEST(Election, VotesWithWhatIsDurable) {
  OwnState own(LookingServer::Options(3, {}), {.accepted_epoch = {1}, .current_epoch = {1}});
  Output output;
  own.Append({Z(1, 1), {}}, &output);
  Election election(own, 0);

  election.Start({}, &output);

  EXPECT_EQ(election.vote().last_zxid, Z(0, 0));
}

}  // namespace
}  // namespace lockstep::zab
