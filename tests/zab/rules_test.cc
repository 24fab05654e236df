// For each rule one scenario, run twice: without the rule something goes wrong, with it nothing
// does. Some rules stand behind each other; then what goes wrong is that the second one has to act,
// and a scenario without both shows the damage.
#include "core/zab/rules.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "core/zab/leader.h"
#include "tests/support/zab_trio.h"

namespace lockstep::zab {
namespace {

PeerOptions With(const Rules& rules) {
  PeerOptions options = ZabTrio::TestOptions();
  options.rules = rules;
  options.rules.count_only_who_remembers = false;  // as in TestOptions
  return options;
}

constexpr ServerId k1{1};
constexpr ServerId k2{2};
constexpr ServerId k3{3};

// After whatever has happened: servers 1 and 2 start over from their disks without 3, and go on.
// If a transaction that some server has applied is gone, violation() tells it.
void GoOnWithout3(ZabTrio* trio) {
  for (ServerId server : {k1, k2, k3}) {
    if (trio->up(server)) trio->Crash(server);
  }
  trio->Heal();
  trio->Start(k1);
  trio->Start(k2);
  trio->Elect();
  trio->Propose("next");
  trio->Run(Milliseconds(20));
}

// Whether some server was elected that was not the best.
bool AbdicatedInVain(const ZabTrio& trio) {
  for (const auto& happened : trio.events()) {
    if (std::string(happened.event.reason) == "a follower is ahead") return true;
  }
  return false;
}

TEST(Rules, EachHasAnEntryOfItsOwn) {
  std::set<std::string> names;
  for (const RuleEntry& entry : AllRules()) {
    names.insert(entry.name);
    Rules rules;
    EXPECT_TRUE(rules.*entry.member) << entry.name;
    rules.*entry.member = false;
    for (const RuleEntry& other : AllRules()) {
      EXPECT_EQ(rules.*other.member, &other != &entry) << entry.name << " and " << other.name;
    }
  }
  EXPECT_EQ(names.size(), sizeof(Rules) / sizeof(bool));
}

// Followers acknowledge a transaction, the leader commits it, and all of them crash.
std::string AckedAndCrashed(const Rules& rules) {
  ZabTrio trio(3, With(rules));
  trio.Elect();
  trio.HoldWrites(k1);
  trio.HoldWrites(k2);
  trio.Propose("a");
  trio.Run(Milliseconds(10));
  GoOnWithout3(&trio);
  return trio.violation();
}

TEST(Rules, AckAfterDurable) {
  EXPECT_EQ(AckedAndCrashed({}), "");
  EXPECT_EQ(AckedAndCrashed({.ack_after_durable = false}),
            "server 2 applied <2,1> 'next' where <1,1> 'a' was applied before");
}

// A leader synchronizes two learners with its history, and all crash before the learners have it on
// their disks.
std::string SynchronizedAndCrashed(const Rules& rules) {
  ZabTrio trio(3, With(rules));
  trio.Disk(k3, 1, 1, "1.1");
  trio.RunUntil([&] { return trio.CountSent<AckEpoch>(k1, k3) == 1; });
  trio.HoldWrites(k1);
  trio.HoldWrites(k2);
  trio.Run(Milliseconds(10));
  GoOnWithout3(&trio);
  return trio.violation();
}

TEST(Rules, AckNewLeaderAfterHistoryIsDurable) {
  EXPECT_EQ(SynchronizedAndCrashed({}), "");
  EXPECT_EQ(SynchronizedAndCrashed({.ack_new_leader_after_history_is_durable = false}),
            "server 2 applied <3,1> 'next' where <1,1> '1.1' was applied before");
}

TEST(Rules, ServeAfterQuorumOfNewLeader) {
  EXPECT_EQ(SynchronizedAndCrashed({}), "");
  EXPECT_EQ(SynchronizedAndCrashed({.serve_after_quorum_of_new_leader = false}),
            "server 2 applied <3,1> 'next' where <1,1> '1.1' was applied before");
}

// Server 2 crashes between the two writes that end its synchronization.
std::string CrashedBetweenHistoryAndEpoch(const Rules& rules) {
  ZabTrio trio(3, With(rules));
  trio.Partition({{k1, k3}, {k2}});
  trio.Elect();
  trio.Propose("a");
  trio.Run(Milliseconds(10));
  trio.Crash(k1);
  trio.RunUntil([&] { return trio.peer(k3).state() == ServerState::kLooking; });
  trio.Heal();
  trio.RunUntil([&] { return trio.CountSent<AckEpoch>(k2, k3) == 1; });
  trio.HoldWrites(k2);
  trio.RunUntil([&] { return trio.writes_in_flight(k2) == 2; });
  trio.Crash(k2, /*keep=*/1);
  trio.Crash(k3);
  trio.Start(k1);
  GoOnWithout3(&trio);
  return trio.violation();
}

TEST(Rules, CurrentEpochAfterHistory) {
  EXPECT_EQ(CrashedBetweenHistoryAndEpoch({}), "");
  EXPECT_EQ(CrashedBetweenHistoryAndEpoch({.current_epoch_after_history = false}),
            "server 2 applied <3,1> 'next' where <1,1> 'a' was applied before");
}

// Server 1 forgets a promise in a crash, and gives it a second time to another leader.
bool TwoLeadersOfOneEpoch(const Rules& rules) {
  ZabTrio trio(3, With(rules));
  trio.Partition({{k1, k3}, {k2}});
  trio.RunUntil([&] { return trio.CountSent<LeaderInfo>(k3, k1) == 1; });
  trio.HoldWrites(k1);
  trio.Run(Milliseconds(10));
  trio.Crash(k1);
  trio.Partition({{k1, k2}, {k3}});
  trio.Start(k1);
  trio.Elect(Seconds(2));
  return trio.peer(k2).current_epoch() == Epoch{1} && trio.peer(k3).current_epoch() == Epoch{1} &&
         trio.peer(k2).state() == ServerState::kLeading &&
         trio.peer(k3).state() == ServerState::kLeading;
}

TEST(Rules, AcceptedEpochBeforeAckEpoch) {
  EXPECT_FALSE(TwoLeadersOfOneEpoch({}));
  EXPECT_TRUE(TwoLeadersOfOneEpoch({.accepted_epoch_before_ack_epoch = false}));
}

// Server 3 proposes an epoch to 1, crashes, comes back, and proposes one to 2.
bool OneEpochProposedTwice(const Rules& rules) {
  ZabTrio trio(3, With(rules));
  trio.Partition({{k1, k3}, {k2}});
  trio.RunUntil([&] { return trio.peer(k3).state() == ServerState::kLeading; });
  trio.HoldWrites(k3);
  trio.Run(Milliseconds(100));
  trio.Crash(k3);
  trio.Partition({{k2, k3}, {k1}});
  trio.Start(k3);
  trio.Elect(Seconds(2));
  return trio.CountSent<LeaderInfo>(k3, k1) > 0 &&
         trio.LastSent<LeaderInfo>(k3, k1).epoch == trio.LastSent<LeaderInfo>(k3, k2).epoch;
}

TEST(Rules, LeaderAcceptsEpochBeforeProposingIt) {
  EXPECT_FALSE(OneEpochProposedTwice({}));
  EXPECT_TRUE(OneEpochProposedTwice({.leader_accepts_epoch_before_proposing_it = false}));
}

// All servers log a transaction; the leader commits and applies it, and crashes before the others
// hear of it.
std::string CommitUnheard(const Rules& rules) {
  ZabTrio trio(3, With(rules));
  trio.Elect();
  trio.Propose("a");
  trio.Run(Microseconds(1500));  // the proposals have come
  trio.HoldMessages(k3, k1);
  trio.HoldMessages(k3, k2);
  trio.Run(Milliseconds(10));
  EXPECT_EQ(trio.applied(k3), "a");
  trio.Crash(k3);
  trio.Elect();
  trio.Propose("next");
  trio.Run(Milliseconds(20));
  return trio.violation();
}

TEST(Rules, AdvertiseDurableHistory) {
  EXPECT_EQ(CommitUnheard({}), "");
  EXPECT_EQ(CommitUnheard({.advertise_durable_history = false}),
            "server 2 applied <2,1> 'next' where <1,1> 'a' was applied before");
}

// Servers 1 and 2 have established epoch 2 with a history that is shorter than what 3 has from
// epoch 1.
std::pair<ServerId, bool> ElectedAgainstAnOldLongHistory(const Rules& rules) {
  ZabTrio trio(3, With(rules));
  trio.Disk(k1, 2, 2, "1.1");
  trio.Disk(k2, 2, 2, "1.1");
  trio.Disk(k3, 2, 1, "1.1 1.2");
  trio.Elect();
  return {trio.leader(), AbdicatedInVain(trio)};
}

TEST(Rules, VoteByEpochFirst) {
  EXPECT_EQ(ElectedAgainstAnOldLongHistory({}), std::pair(k2, false));
  // 3 is chosen, and the next rule has to act.
  EXPECT_TRUE(ElectedAgainstAnOldLongHistory({.vote_by_epoch_first = false}).second);
}

// A leader with an empty history, by hand: the election itself keeps better servers away from it,
// but votes may be old. Its only follower has a transaction that it may have acknowledged to a
// leader who committed it. What the leader sends it, or why it gives up.
std::string SentToAFollowerAhead(const Rules& rules) {
  PeerOptions options = With(rules);
  options.server = k3;
  options.voters = {k1, k2, k3};
  OwnState own(options, {});
  Leader leader(&own);
  Output output;
  const ConnectionId channel{ConnectionId::kAccepted | 1};
  leader.Start({}, &output);
  leader.OnChannelOpened({}, channel);
  leader.OnReceived({}, channel, FollowerInfo{k1, {1}}, &output);
  own.OnPersisted(own.last_write, &output);
  leader.OnPersisted({}, &output);
  output.Clear();
  leader.OnReceived({}, channel, AckEpoch{Epoch{1}, Z(1, 1), {Z(0, 0), Z(1, 1)}}, &output);
  return leader.abdicated() != nullptr ? leader.abdicated() : ToString(output.sends.at(0).message);
}

TEST(Rules, AbdicateIfAFollowerIsAhead) {
  EXPECT_EQ(SentToAFollowerAhead({}), "a follower is ahead");
  EXPECT_EQ(SentToAFollowerAhead({.abdicate_if_a_follower_is_ahead = false}),
            "Trunc at=<0,0> to=<0,0>");
}

// What server 1 has, up to date, after it has joined an ensemble that lacks its last transaction.
std::string HistoryAfterJoining(const Rules& rules) {
  ZabTrio trio(3, With(rules));
  trio.Disk(k1, 1, 1, "1.1 1.2");
  trio.Disk(k2, 1, 1, "1.1");
  trio.Disk(k3, 1, 1, "1.1");
  trio.Partition({{k2, k3}, {k1}});
  trio.RunUntil([&] { return trio.leader() == k3; });
  trio.Heal();
  trio.Elect();
  return trio.history(k1);
}

TEST(Rules, TruncateBeforeDiff) {
  EXPECT_EQ(HistoryAfterJoining({}), "1.1");
  EXPECT_EQ(HistoryAfterJoining({.truncate_before_diff = false}), "1.1 1.2");
}

// How the channel of a learner ends to which a snapshot was sent while a proposal was committed.
const char* ProposedDuringASnapshot(const Rules& rules) {
  PeerOptions options = With(rules);
  options.window_transactions = 1;
  ZabTrio trio(3, options);
  trio.Elect();
  trio.Crash(k1);
  for (const char* body : {"a", "b", "c"}) {
    trio.Propose(body);
    trio.Run(Milliseconds(10));
  }
  trio.HoldSnapshots();
  trio.Start(k1);
  trio.RunUntil([&] { return trio.Count(EventKind::kSyncSnap) > 0; });
  trio.Propose("d");
  trio.Run(Milliseconds(10));
  trio.SendSnapshots();
  trio.Run(Milliseconds(10));
  return trio.Last(EventKind::kLooking, k1).reason;
}

TEST(Rules, JoinLiveStreamAtomically) {
  EXPECT_STREQ(ProposedDuringASnapshot({}), "");
  EXPECT_STREQ(ProposedDuringASnapshot({.join_live_stream_atomically = false}),
               "UPTODATE beyond our history");
}

// A learner has been sent NEWLEADER and not yet acknowledged it, when "a" is proposed; it becomes
// up to date before "a" is committed, and then "b" is proposed.
struct Joined {
  std::string history;
  std::string abandoned;
  std::string violation;
};
Joined ProposedBeforeTheAckOfNewLeader(const Rules& rules) {
  ZabTrio trio(3, With(rules));
  trio.Elect();
  trio.Crash(k1);
  trio.Propose("x");  // so that 1 has something to write
  trio.Run(Milliseconds(10));
  trio.Start(k1);
  trio.RunUntil([&] { return trio.CountSent<AckEpoch>(k1, k3) == 2; });
  trio.HoldWrites(k1);
  trio.RunUntil([&] { return trio.CountSent<NewLeader>(k3, k1) == 2; });
  trio.Run(Milliseconds(2));
  trio.HoldWrites(k2);
  trio.HoldWrites(k3);
  trio.Propose("a");
  trio.Run(Milliseconds(2));
  trio.ReleaseWrites(k1);
  trio.RunUntil([&] { return trio.peer(k1).established(); }, Milliseconds(10));
  trio.Propose("b");
  trio.Run(Milliseconds(2));
  Joined joined{.history = trio.history(k1),
                .abandoned = trio.Last(EventKind::kLooking, k1).reason};
  trio.ReleaseWrites(k2);
  trio.ReleaseWrites(k3);
  trio.Run(Milliseconds(10));
  joined.violation = trio.violation();
  return joined;
}

TEST(Rules, ProposeToUnacknowledgedLearners) {
  Joined joined = ProposedBeforeTheAckOfNewLeader({});
  EXPECT_EQ(joined.history, "x a b");
  EXPECT_EQ(joined.abandoned, "");

  joined = ProposedBeforeTheAckOfNewLeader({.propose_to_unacknowledged_learners = false});
  EXPECT_EQ(joined.history, "x");
  EXPECT_EQ(joined.abandoned, "PROPOSAL leaves a gap");
}

TEST(Rules, RefuseGaps) {
  Joined joined = ProposedBeforeTheAckOfNewLeader({.propose_to_unacknowledged_learners = false});
  EXPECT_EQ(joined.violation, "");

  joined = ProposedBeforeTheAckOfNewLeader(
      {.propose_to_unacknowledged_learners = false, .refuse_gaps = false});
  EXPECT_EQ(joined.history, "x b");
  EXPECT_EQ(joined.violation, "server 1 applied <1,3> 'b' where <1,2> 'a' was applied before");
}

// What the leader has applied, and still has after a crash, of a transaction that only the others
// have written.
std::pair<std::string, size_t> AppliedAndCrashed(const Rules& rules) {
  ZabTrio trio(3, With(rules));
  trio.Elect();
  trio.HoldWrites(k3);
  trio.Propose("a");
  trio.Run(Milliseconds(10));
  std::string applied = trio.applied(k3);
  trio.Crash(k3);
  return {applied, trio.disk(k3).transactions.size()};
}

TEST(Rules, ApplyAfterLocallyDurable) {
  EXPECT_EQ(AppliedAndCrashed({}), std::pair(std::string(""), size_t{0}));
  EXPECT_EQ(AppliedAndCrashed({.apply_after_locally_durable = false}),
            std::pair(std::string("a"), size_t{0}));
}

Service ServiceOfAnIsolatedLeader(const Rules& rules) {
  ZabTrio trio(3, With(rules));
  trio.Elect();
  trio.Partition({{k1, k2}, {k3}});
  trio.Run(Seconds(10));
  EXPECT_EQ(trio.service(k2), Service::kLeading);
  return trio.service(k3);
}

TEST(Rules, StepDownWithoutQuorum) {
  EXPECT_EQ(ServiceOfAnIsolatedLeader({}), Service::kStopped);
  // Its clients read a state that is older than what other clients have written.
  EXPECT_EQ(ServiceOfAnIsolatedLeader({.step_down_without_quorum = false}), Service::kLeading);
}

// The leader crashes while its last proposal is being written on server 1 and has not come to 2.
std::pair<ServerId, bool> ElectedWithAWriteInFlight(const Rules& rules) {
  ZabTrio trio(3, With(rules));
  trio.Elect();
  trio.HoldWrites(k1);
  trio.HoldMessages(k3, k2);
  trio.Propose("a");
  trio.Run(Milliseconds(5));
  trio.Crash(k3);
  trio.Run(Milliseconds(300));
  trio.ReleaseWrites(k1);
  trio.RunUntil([&] { return static_cast<bool>(trio.leader()); });
  return {trio.leader(), AbdicatedInVain(trio)};
}

TEST(Rules, DrainWritesBeforeElection) {
  EXPECT_EQ(ElectedWithAWriteInFlight({}), std::pair(k1, false));
  // 2 is chosen, although what 1 has is about to be better, and has to give up again.
  EXPECT_EQ(ElectedWithAWriteInFlight({.drain_writes_before_election = false}),
            std::pair(k1, true));
}

}  // namespace
}  // namespace lockstep::zab
