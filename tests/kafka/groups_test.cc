// The life of groups: join, sync, heartbeat, leave, and the rebalances they make up.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/kafka/groups_rig.h"

namespace lockstep::kafka {
namespace {

using Join = GroupsRig::Join;

class GroupsTest : public testing::Test {
 protected:
  GroupsTest() { rig.LeadAll(); }
  JoinGroupResponse Joined(uint64_t id) { return rig.Get<JoinGroupResponse>(id); }
  ErrorCode SyncError(uint64_t id) { return rig.Get<SyncGroupResponse>(id).error_code; }
  // Of one that is answered at once.
  ErrorCode Sync(const std::string& member, int32_t generation) {
    return SyncError(rig.SendSync(member, generation));
  }
  // A new dynamic member of a group that has members.
  uint64_t JoinAnother() { return rig.SendJoin({}); }

  GroupsRig rig;
};

TEST(PartitionOf, IsKafkasHash) {
  // As of java.lang.String.hashCode: "a" 97, "ab" 3105, "polygenelubricants" the lowest int32.
  EXPECT_EQ(Groups::PartitionOf("", 50), 0);
  EXPECT_EQ(Groups::PartitionOf("a", 50), 47);
  EXPECT_EQ(Groups::PartitionOf("ab", 50), 5);
  EXPECT_EQ(Groups::PartitionOf("polygenelubricants", 50), 0);
  // "console-consumer-1" wraps to a negative number; U+1F600 is two units of UTF-16: 1772899.
  EXPECT_EQ(Groups::PartitionOf("\xF0\x9F\x98\x80", 1'000'000), 772'899);
  EXPECT_EQ(Groups::PartitionOf("\xC3\xA9", 1000), 233);
  EXPECT_EQ(Groups::PartitionOf("\xFF", 100'000), 65'533);
}

// ---- Joining ------------------------------------------------------------------------------------

TEST_F(GroupsTest, TwoMembersBecomeAStableGroup) {
  const std::vector<std::string> ids = rig.MakeStable(2);
  EXPECT_EQ(rig.State(), "Stable");
  EXPECT_EQ(rig.Heartbeat(ids[0], 1), ErrorCode::kNone);
  EXPECT_EQ(rig.Heartbeat(ids[1], 1), ErrorCode::kNone);
}

TEST_F(GroupsTest, TheLeaderAloneGetsTheMembers) {
  const uint64_t first = rig.SendJoin({.protocols = {{"range", "a"}}});
  const uint64_t second = rig.SendJoin({.protocols = {{"range", "b"}}});
  EXPECT_EQ(rig.State(), "PreparingRebalance");
  rig.Pass(Seconds(6));
  ASSERT_EQ(Joined(first).members.size(), 2u);
  EXPECT_EQ(Joined(second).members.size(), 0u);
  EXPECT_EQ(Joined(second).leader, Joined(first).member_id);
  EXPECT_EQ(Joined(second).protocol_name, "range");
  EXPECT_EQ(Joined(second).protocol_type, "consumer");
  EXPECT_EQ(Joined(second).generation_id, 1);
  std::set<std::string> metadata;
  for (const auto& member : Joined(first).members)
    metadata.insert(std::string(member.metadata.view()));
  EXPECT_EQ(metadata, (std::set<std::string>{"a", "b"}));
  EXPECT_EQ(rig.State(), "CompletingRebalance");
}

TEST_F(GroupsTest, MemberIdsAreClientIdAndUuid) {
  const uint64_t join = rig.SendJoin({});
  rig.Pass(Seconds(3));
  const std::string id = Joined(join).member_id;
  ASSERT_EQ(id.size(), std::string("client-").size() + 36);
  EXPECT_EQ(id.substr(0, 7), "client-");
  EXPECT_EQ(id[7 + 14], '4');
}

TEST_F(GroupsTest, FromVersion4AnIdIsGivenFirst) {
  const uint64_t first = rig.SendJoin({.version = 4});
  EXPECT_EQ(Joined(first).error_code, ErrorCode::kMemberIdRequired);
  const std::string id = Joined(first).member_id;
  EXPECT_FALSE(id.empty());
  EXPECT_EQ(rig.State(), "Empty");
  const uint64_t second = rig.SendJoin({.member = id, .version = 4});
  rig.Pass(Seconds(3));
  EXPECT_EQ(Joined(second).error_code, ErrorCode::kNone);
  EXPECT_EQ(Joined(second).member_id, id);
}

TEST_F(GroupsTest, AnIdThatIsNotUsedIsForgottenAfterASession) {
  const std::string id = Joined(rig.SendJoin({.version = 4})).member_id;
  rig.Pass(Seconds(10));
  EXPECT_EQ(rig.JoinError({.member = id, .version = 4}), ErrorCode::kUnknownMemberId);
  EXPECT_EQ(rig.State(), "Dead");  // and the group, of which nothing else is known
}

TEST_F(GroupsTest, ARebalanceWaitsForIdsThatWereGivenOut) {
  const std::vector<std::string> ids = rig.MakeStable(1);
  const std::string pending = Joined(rig.SendJoin({.version = 4})).member_id;
  const uint64_t rejoin = rig.SendJoin({.member = ids[0]});
  EXPECT_FALSE(rig.Answered(rejoin));
  const uint64_t join = rig.SendJoin({.member = pending, .version = 4});
  EXPECT_TRUE(rig.Answered(join));
  EXPECT_EQ(Joined(rejoin).members.size(), 2u);
}

TEST_F(GroupsTest, APendingIdMayLeave) {
  const std::vector<std::string> ids = rig.MakeStable(1);
  const std::string pending = Joined(rig.SendJoin({.version = 4})).member_id;
  const uint64_t rejoin = rig.SendJoin({.member = ids[0]});
  EXPECT_EQ(rig.Leave(pending), ErrorCode::kNone);
  EXPECT_EQ(Joined(rejoin).members.size(), 1u);
}

TEST_F(GroupsTest, WhatIsWrongWithAJoin) {
  EXPECT_EQ(rig.JoinError({.group = ""}), ErrorCode::kInvalidGroupId);
  EXPECT_EQ(rig.JoinError({.group = std::string(5000, 'g')}), ErrorCode::kInvalidGroupId);
  EXPECT_EQ(rig.JoinError({.session_ms = 5'999}), ErrorCode::kInvalidSessionTimeout);
  EXPECT_EQ(rig.JoinError({.session_ms = 1'800'001}), ErrorCode::kInvalidSessionTimeout);
  EXPECT_EQ(rig.JoinError({.member = "stranger"}), ErrorCode::kUnknownMemberId);
  EXPECT_EQ(rig.JoinError({.protocols = {}}), ErrorCode::kInconsistentGroupProtocol);
  EXPECT_EQ(rig.JoinError({.type = ""}), ErrorCode::kInconsistentGroupProtocol);
  EXPECT_EQ(rig.JoinError({.protocols = {{"range", "a"}, {"range", "b"}}}),
            ErrorCode::kInvalidRequest);
  EXPECT_EQ(rig.JoinError({.protocols = {{"range", std::string(1 << 20, 'x')}}}),
            ErrorCode::kInvalidRequest);
  EXPECT_EQ(rig.JoinError({.protocols = std::vector<std::pair<std::string, std::string>>(
                               65, {"range", "a"})}),
            ErrorCode::kInvalidRequest);
  EXPECT_EQ(rig.State(), "Dead");  // no group has come of it
}

TEST_F(GroupsTest, OthersProtocolsMustAgree) {
  rig.MakeStable(1, {.protocols = {{"range", "a"}, {"sticky", "a"}}});
  EXPECT_EQ(rig.JoinError({.type = "connect"}), ErrorCode::kInconsistentGroupProtocol);
  EXPECT_EQ(rig.JoinError({.protocols = {{"roundrobin", "a"}}}),
            ErrorCode::kInconsistentGroupProtocol);
  EXPECT_EQ(rig.State(), "Stable");
}

TEST_F(GroupsTest, TheProtocolIsTheOneMostPreferOfThoseThatAllSpeak) {
  const uint64_t a = rig.SendJoin({.protocols = {{"a", ""}, {"b", ""}, {"c", ""}}});
  rig.SendJoin({.protocols = {{"c", ""}, {"b", ""}}});
  rig.SendJoin({.protocols = {{"b", ""}, {"c", ""}}});
  rig.Pass(Seconds(6));
  EXPECT_EQ(Joined(a).protocol_name, "b");
}

TEST_F(GroupsTest, MoreThanGroupMaxSizeAreRefused) {
  rig = GroupsRig({.group_size_max = 1});
  rig.LeadAll();
  const std::vector<std::string> ids = rig.MakeStable(1);
  EXPECT_EQ(rig.JoinError({}), ErrorCode::kGroupMaxSizeReached);
  EXPECT_EQ(rig.State(), "Stable");
  EXPECT_EQ(Joined(rig.SendJoin({.member = ids[0]})).error_code, ErrorCode::kNone);
}

TEST_F(GroupsTest, MoreThanGroupsMaxAreRefused) {
  rig = GroupsRig({.groups_max = 1});
  rig.LeadAll();
  rig.MakeStable(1);
  EXPECT_EQ(rig.JoinError({.group = "other"}), ErrorCode::kCoordinatorNotAvailable);
  EXPECT_EQ(rig.Commit(1, "", -1, "other"), ErrorCode::kCoordinatorNotAvailable);
}

TEST_F(GroupsTest, TheInitialDelayGoesOnWhileMembersComeUpToTheRebalanceTimeout) {
  const uint64_t first = rig.SendJoin({.rebalance_ms = 7'000});
  rig.Pass(Seconds(2));
  rig.SendJoin({.rebalance_ms = 7'000});
  rig.Pass(Seconds(2));  // 4: again until 6
  EXPECT_FALSE(rig.Answered(first));
  rig.SendJoin({.rebalance_ms = 7'000});
  rig.Pass(Milliseconds(2'900));  // 6.9: again until 7, and no longer
  EXPECT_FALSE(rig.Answered(first));
  rig.SendJoin({.rebalance_ms = 7'000});
  rig.Pass(Milliseconds(100));
  EXPECT_EQ(Joined(first).members.size(), 4u);
}

TEST_F(GroupsTest, WithoutInitialDelayTheFirstMemberIsAnsweredAtOnce) {
  rig = GroupsRig({.initial_rebalance_delay_ms = 0});
  rig.LeadAll();
  const uint64_t join = rig.SendJoin({});
  rig.Pass(Seconds(0));
  EXPECT_EQ(Joined(join).error_code, ErrorCode::kNone);
}

// ---- Rebalances ---------------------------------------------------------------------------------

TEST_F(GroupsTest, ANewMemberMakesTheOthersJoinAgain) {
  const std::vector<std::string> ids = rig.MakeStable(2);
  const uint64_t join = JoinAnother();
  EXPECT_EQ(rig.State(), "PreparingRebalance");
  EXPECT_EQ(rig.Heartbeat(ids[0], 1), ErrorCode::kRebalanceInProgress);
  EXPECT_EQ(Sync(ids[0], 1), ErrorCode::kRebalanceInProgress);
  EXPECT_EQ(rig.Commit(5, ids[0], 1), ErrorCode::kNone);  // what it gives up
  rig.SendJoin({.member = ids[0]});
  EXPECT_FALSE(rig.Answered(join));
  rig.SendJoin({.member = ids[1]});
  EXPECT_EQ(Joined(join).generation_id, 2);
  EXPECT_EQ(rig.Heartbeat(ids[0], 1), ErrorCode::kIllegalGeneration);
  EXPECT_EQ(rig.Heartbeat(ids[0], 2), ErrorCode::kNone);
  EXPECT_EQ(Sync(ids[0], 1), ErrorCode::kIllegalGeneration);
  EXPECT_EQ(rig.Commit(6, ids[0], 1), ErrorCode::kIllegalGeneration);
  EXPECT_EQ(rig.Commit(6, ids[0], 2), ErrorCode::kRebalanceInProgress);
  EXPECT_EQ(rig.Committed(), 5);
}

TEST_F(GroupsTest, WhoDoesNotJoinAgainInTimeIsOut) {
  const std::vector<std::string> ids = rig.MakeStable(2, {.session_ms = 100'000});
  const uint64_t join = rig.SendJoin({.member = ids[0]});  // the leader's
  rig.Pass(Milliseconds(59'999));
  EXPECT_FALSE(rig.Answered(join));
  rig.Pass(Milliseconds(1));
  EXPECT_EQ(Joined(join).members.size(), 1u);
  EXPECT_EQ(rig.Heartbeat(ids[1], 1), ErrorCode::kUnknownMemberId);
}

TEST_F(GroupsTest, AnotherLeaderIsElectedAmongThoseWhoJoin) {
  const std::vector<std::string> ids = rig.MakeStable(2);
  const uint64_t join = JoinAnother();
  const uint64_t rejoin = rig.SendJoin({.member = ids[1]});
  for (int i = 0; i < 7; ++i) {
    rig.Pass(Seconds(9));
    if (!rig.Answered(join)) rig.Heartbeat(ids[0], 1);
  }
  EXPECT_NE(Joined(join).leader, ids[0]);
  EXPECT_EQ(Joined(join).leader, Joined(rejoin).leader);
}

TEST_F(GroupsTest, AFollowerThatJoinsAgainUnchangedGetsItsGeneration) {
  const std::vector<std::string> ids = rig.MakeStable(2);
  const JoinGroupResponse response = Joined(rig.SendJoin({.member = ids[1]}));
  EXPECT_EQ(response.error_code, ErrorCode::kNone);
  EXPECT_EQ(response.generation_id, 1);
  EXPECT_EQ(rig.State(), "Stable");
}

TEST_F(GroupsTest, ALeaderThatJoinsAgainOrAnotherSubscriptionIsARebalance) {
  const std::vector<std::string> ids = rig.MakeStable(2);
  rig.SendJoin({.member = ids[1], .protocols = {{"range", "other topics"}}});
  EXPECT_EQ(rig.State(), "PreparingRebalance");
  rig.SendJoin({.member = ids[0]});
  EXPECT_EQ(rig.State(), "CompletingRebalance");
}

TEST_F(GroupsTest, ALostAnswerIsGivenAgain) {
  const uint64_t first = rig.SendJoin({});
  rig.Pass(Seconds(3));
  const std::string id = Joined(first).member_id;
  const JoinGroupResponse again = Joined(rig.SendJoin({.member = id}));
  EXPECT_EQ(again, Joined(first));
  EXPECT_EQ(rig.State(), "CompletingRebalance");
}

TEST_F(GroupsTest, ASecondRequestAnswersTheFirst) {
  const std::vector<std::string> ids = rig.MakeStable(2);
  const uint64_t first = rig.SendJoin({.member = ids[0]});
  const uint64_t second = rig.SendJoin({.member = ids[0]});
  EXPECT_EQ(Joined(first).error_code, ErrorCode::kRebalanceInProgress);
  rig.SendJoin({.member = ids[1]});
  EXPECT_EQ(Joined(second).generation_id, 2);
  const uint64_t sync = rig.SendSync(ids[1], 2);
  const uint64_t again = rig.SendSync(ids[1], 2);
  EXPECT_EQ(SyncError(sync), ErrorCode::kRebalanceInProgress);
  EXPECT_FALSE(rig.Answered(again));
}

TEST_F(GroupsTest, ANewMemberIsGivenUpAfterFiveMinutes) {
  const std::vector<std::string> ids =
      rig.MakeStable(1, {.session_ms = 1'000'000, .rebalance_ms = 2'000'000});
  const uint64_t join = JoinAnother();
  rig.Pass(Milliseconds(299'999));
  EXPECT_FALSE(rig.Answered(join));
  rig.Pass(Milliseconds(1));
  EXPECT_EQ(Joined(join).error_code, ErrorCode::kUnknownMemberId);
}

// ---- Sync ---------------------------------------------------------------------------------------

TEST_F(GroupsTest, TheAssignmentIsToldWhenItIsInTheLog) {
  const uint64_t join = rig.SendJoin({});
  rig.Pass(Seconds(3));
  const std::string id = Joined(join).member_id;
  rig.acknowledge = false;
  const uint64_t sync = rig.SendSync(id, 1, {{id, "mine"}, {"nobody", "x"}});
  EXPECT_FALSE(rig.Answered(sync));
  EXPECT_EQ(rig.State(), "CompletingRebalance");
  rig.Answer();
  EXPECT_EQ(rig.Get<SyncGroupResponse>(sync).assignment.view(), "mine");
  EXPECT_EQ(rig.State(), "Stable");
}

TEST_F(GroupsTest, AnAssignmentThatDoesNotGetIntoTheLogIsARebalance) {
  const uint64_t join = rig.SendJoin({});
  rig.Pass(Seconds(3));
  const std::string id = Joined(join).member_id;
  rig.acknowledge = false;
  const uint64_t sync = rig.SendSync(id, 1, {{id, "mine"}});
  rig.Answer(ErrorCode::kRequestTimedOut);
  EXPECT_EQ(SyncError(sync), ErrorCode::kRebalanceInProgress);
  EXPECT_EQ(rig.State(), "PreparingRebalance");
}

TEST_F(GroupsTest, AnAssignmentOfARebalanceThatWasOvertakenIsNotTold) {
  const uint64_t join = rig.SendJoin({});
  rig.Pass(Seconds(3));
  const std::string id = Joined(join).member_id;
  rig.acknowledge = false;
  const uint64_t sync = rig.SendSync(id, 1, {{id, "mine"}});
  JoinAnother();
  EXPECT_EQ(SyncError(sync), ErrorCode::kRebalanceInProgress);
  rig.Answer();
  EXPECT_EQ(rig.State(), "PreparingRebalance");
}

TEST_F(GroupsTest, AnAssignmentTooLargeForTheLogIsRefused) {
  const uint64_t join = rig.SendJoin({});
  rig.Pass(Seconds(3));
  const std::string id = Joined(join).member_id;
  const uint64_t sync = rig.SendSync(id, 1, {{id, std::string(1'048'500, 'x')}});
  EXPECT_EQ(SyncError(sync), ErrorCode::kUnknownServerError);
  EXPECT_EQ(rig.State(), "PreparingRebalance");
}

TEST_F(GroupsTest, WhatIsWrongWithASync) {
  EXPECT_EQ(SyncError(rig.SendSync("x", 1, {}, "")), ErrorCode::kInvalidGroupId);
  EXPECT_EQ(Sync("x", 1), ErrorCode::kUnknownMemberId);
  const std::vector<std::string> ids = rig.MakeStable(1);
  EXPECT_EQ(Sync("x", 1), ErrorCode::kUnknownMemberId);
  EXPECT_EQ(Sync(ids[0], 2), ErrorCode::kIllegalGeneration);
  SyncGroupRequest request;
  request.group_id = "g";
  request.member_id = ids[0];
  request.generation_id = 1;
  request.protocol_type = "consumer";
  request.protocol_name = "range";
  EXPECT_EQ(SyncError(rig.Send(request, 5)), ErrorCode::kNone);
  request.protocol_name = "sticky";
  EXPECT_EQ(SyncError(rig.Send(request, 5)), ErrorCode::kInconsistentGroupProtocol);
  request.protocol_name = "range";
  request.protocol_type = "connect";
  EXPECT_EQ(SyncError(rig.Send(request, 5)), ErrorCode::kInconsistentGroupProtocol);
}

TEST_F(GroupsTest, WhoJoinsAndDoesNotSyncIsOut) {
  const uint64_t a = rig.SendJoin({.session_ms = 100'000});
  const uint64_t b = rig.SendJoin({.session_ms = 100'000});
  rig.Pass(Seconds(6));
  const std::string leader = Joined(a).member_id;
  const std::string other = Joined(b).member_id;
  EXPECT_EQ(SyncError(rig.SendSync(leader, 1, {{leader, "0"}, {other, "1"}})), ErrorCode::kNone);
  rig.Pass(Seconds(60));
  EXPECT_EQ(rig.State(), "PreparingRebalance");
  EXPECT_EQ(rig.Heartbeat(other, 1), ErrorCode::kUnknownMemberId);
  EXPECT_EQ(rig.Heartbeat(leader, 1), ErrorCode::kRebalanceInProgress);
}

// ---- Heartbeats, sessions, leaving --------------------------------------------------------------

TEST_F(GroupsTest, WhatIsWrongWithAHeartbeat) {
  EXPECT_EQ(rig.Heartbeat("x", 1, ""), ErrorCode::kInvalidGroupId);
  EXPECT_EQ(rig.Heartbeat("x", 1), ErrorCode::kUnknownMemberId);
  const std::vector<std::string> ids = rig.MakeStable(1);
  EXPECT_EQ(rig.Heartbeat("x", 1), ErrorCode::kUnknownMemberId);
  EXPECT_EQ(rig.Heartbeat(ids[0], 0), ErrorCode::kIllegalGeneration);
}

TEST_F(GroupsTest, HeartbeatsKeepASession) {
  const std::vector<std::string> ids = rig.MakeStable(2);
  for (int i = 0; i < 5; ++i) {
    rig.Pass(Seconds(6));
    EXPECT_EQ(rig.Heartbeat(ids[0], 1), i < 1 ? ErrorCode::kNone : ErrorCode::kRebalanceInProgress);
  }
  EXPECT_EQ(rig.Heartbeat(ids[1], 1), ErrorCode::kUnknownMemberId);
}

TEST_F(GroupsTest, WhoWaitsForAnAnswerKeepsItsSession) {
  const std::vector<std::string> ids = rig.MakeStable(2, {.session_ms = 10'000});
  const uint64_t rejoin = rig.SendJoin({.member = ids[0]});
  for (int i = 0; i < 5; ++i) {
    rig.Pass(Seconds(9));
    rig.Heartbeat(ids[1], 1);
  }
  EXPECT_FALSE(rig.Answered(rejoin));
  rig.SendJoin({.member = ids[1]});
  EXPECT_EQ(Joined(rejoin).error_code, ErrorCode::kNone);
  // A session from the answer on.
  rig.Pass(Seconds(9));
  EXPECT_EQ(rig.Heartbeat(ids[0], 2), ErrorCode::kNone);
}

TEST_F(GroupsTest, ALeaveIsARebalanceAndTheLastOneEmpties) {
  const std::vector<std::string> ids = rig.MakeStable(2);
  EXPECT_EQ(rig.Leave(ids[0]), ErrorCode::kNone);
  EXPECT_EQ(rig.State(), "PreparingRebalance");
  EXPECT_EQ(rig.Leave(ids[0]), ErrorCode::kUnknownMemberId);
  EXPECT_EQ(rig.Leave(ids[1]), ErrorCode::kNone);
  EXPECT_EQ(rig.State(), "Empty");
  EXPECT_EQ(rig.Leave(ids[1]), ErrorCode::kUnknownMemberId);
  EXPECT_EQ(rig.Leave("x", ""), ErrorCode::kInvalidGroupId);
  EXPECT_EQ(rig.Leave("x", "other"), ErrorCode::kUnknownMemberId);
  // The generation goes on.
  const uint64_t join = rig.SendJoin({});
  rig.Pass(Seconds(3));
  EXPECT_EQ(Joined(join).generation_id, 3);
}

TEST_F(GroupsTest, ManyLeaveAtOnce) {
  const std::vector<std::string> ids = rig.MakeStable(2);
  const LeaveGroupResponse response =
      rig.LeaveMany({{ids[0], std::nullopt}, {"x", std::nullopt}, {"", "nobody"}});
  EXPECT_EQ(response.error_code, ErrorCode::kNone);
  ASSERT_EQ(response.members.size(), 3u);
  EXPECT_EQ(response.members[0].error_code, ErrorCode::kNone);
  EXPECT_EQ(response.members[1].error_code, ErrorCode::kUnknownMemberId);
  EXPECT_EQ(response.members[2].error_code, ErrorCode::kUnknownMemberId);
}

TEST_F(GroupsTest, NothingIsSaidToAConnectionThatIsGone) {
  const uint64_t join = rig.SendJoin({});
  rig.groups().OnRequestGone({join});
  rig.Pass(Seconds(3));
  EXPECT_FALSE(rig.Answered(join));
  EXPECT_EQ(rig.State(), "CompletingRebalance");
  rig.Pass(Seconds(10));
  EXPECT_EQ(rig.State(), "Empty");  // its session has ended
}

// ---- Static members -----------------------------------------------------------------------------

TEST_F(GroupsTest, AStaticMemberThatStartsAgainKeepsItsAssignment) {
  const std::vector<std::string> ids = rig.MakeStable(2, {.instance = "i"});
  const DescribeGroupsResponse::Group before = rig.Describe();
  std::string instance;
  for (const auto& member : before.members) {
    if (member.member_id == ids[1]) instance = *member.group_instance_id;
  }
  rig.acknowledge = false;
  const uint64_t join = rig.SendJoin({.instance = instance});
  EXPECT_FALSE(rig.Answered(join));  // not before its new id is in the log
  rig.AnswerAll();
  rig.acknowledge = true;
  const JoinGroupResponse response = Joined(join);
  EXPECT_EQ(response.error_code, ErrorCode::kNone);
  EXPECT_EQ(response.generation_id, 1);
  EXPECT_NE(response.member_id, ids[1]);
  EXPECT_EQ(rig.State(), "Stable");
  // Its former self is fenced wherever it comes.
  EXPECT_EQ(rig.Heartbeat(ids[1], 1, "g", instance), ErrorCode::kFencedInstanceId);
  EXPECT_EQ(SyncError(rig.SendSync(ids[1], 1, {}, "g", instance)), ErrorCode::kFencedInstanceId);
  EXPECT_EQ(rig.JoinError({.member = ids[1], .instance = instance}), ErrorCode::kFencedInstanceId);
  EXPECT_EQ(rig.LeaveMany({{ids[1], instance}}).members[0].error_code,
            ErrorCode::kFencedInstanceId);
  EXPECT_EQ(rig.Heartbeat(ids[1], 1), ErrorCode::kUnknownMemberId);
  EXPECT_EQ(rig.Heartbeat(response.member_id, 1, "g", "j"), ErrorCode::kUnknownMemberId);
  rig.FailOver();
  const uint64_t sync = rig.SendSync(response.member_id, 1, {}, "g", instance);
  EXPECT_EQ(rig.Get<SyncGroupResponse>(sync).assignment.view(), "1");
}

TEST_F(GroupsTest, AStaticLeaderThatStartsAgainIsNotToldToAssign) {
  const std::vector<std::string> ids = rig.MakeStable(1, {.instance = "i"});
  const JoinGroupResponse response = Joined(rig.SendJoin({.instance = "i0"}));
  EXPECT_EQ(response.leader, ids[0]);
  EXPECT_NE(response.member_id, ids[0]);
  EXPECT_TRUE(response.members.empty());
}

TEST_F(GroupsTest, AStaticMemberThatChangesTheProtocolIsARebalance) {
  rig.MakeStable(1, {.instance = "i", .protocols = {{"range", "a"}, {"sticky", "a"}}});
  const uint64_t join = rig.SendJoin({.instance = "i0", .protocols = {{"sticky", "a"}}});
  EXPECT_EQ(Joined(join).generation_id, 2);
  EXPECT_EQ(Joined(join).protocol_name, "sticky");
}

TEST_F(GroupsTest, AStaticMemberTakesThePlaceOfItsWaitingSelf) {
  const uint64_t first = rig.SendJoin({.instance = "i"});
  const uint64_t second = rig.SendJoin({.instance = "i"});
  EXPECT_EQ(Joined(first).error_code, ErrorCode::kFencedInstanceId);
  rig.Pass(Seconds(6));
  const std::string id = Joined(second).member_id;
  EXPECT_EQ(Joined(second).members.size(), 1u);
  // While the assignment is waited for, too: the leader may have seen the former id.
  rig.acknowledge = false;
  const uint64_t sync = rig.SendSync(id, 1, {{id, "0"}}, "g", "i");
  const uint64_t third = rig.SendJoin({.instance = "i"});
  EXPECT_EQ(SyncError(sync), ErrorCode::kFencedInstanceId);
  EXPECT_EQ(Joined(third).generation_id, 2);
}

TEST_F(GroupsTest, ARebalanceDoesNotLoseAStaticMemberThatIsAway) {
  const std::vector<std::string> ids =
      rig.MakeStable(2, {.instance = "i", .session_ms = 1'000'000});
  const uint64_t join = rig.SendJoin({.member = ids[0], .instance = "i0"});
  if (!rig.Answered(join)) rig.Pass(Seconds(60));
  EXPECT_EQ(rig.Describe().members.size(), 2u);
}

TEST_F(GroupsTest, AStaticMemberIsRemovedByItsInstanceId) {
  rig.MakeStable(1, {.instance = "i"});
  EXPECT_EQ(rig.LeaveMany({{"", "i0"}}).members[0].error_code, ErrorCode::kNone);
  EXPECT_EQ(rig.State(), "Empty");
}

TEST_F(GroupsTest, StaticMembersThatAreAllAwayAreWaitedForUntilTheirSessionsEnd) {
  const std::vector<std::string> ids = rig.MakeStable(1, {.instance = "i", .session_ms = 300'000});
  const uint64_t join = JoinAnother();
  rig.groups().OnRequestGone({join});
  rig.Pass(Seconds(300));
  EXPECT_LE(rig.Describe().members.size(), 1u);
  rig.Pass(Seconds(600));
  EXPECT_EQ(rig.Describe().members.size(), 0u);
}

}  // namespace
}  // namespace lockstep::kafka
