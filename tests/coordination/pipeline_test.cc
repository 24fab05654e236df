// Several servers: sessions that move, requests that are forwarded, the order of replies and
// events, and what each rule guards. The anomaly of a rule is shown by switching it off.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordination/ensemble.h"

namespace lockstep::coordination {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr ServerId kLeader{1}, kFollower{2}, kOther{3};

CreateRequest CreateOf(std::string_view path, int32_t flags = 0) {
  return {.path = path, .acl = kOpenAcl, .flags = flags};
}
SetDataRequest SetOf(std::string_view path, std::string_view data) {
  return {path, {Bytes::Copy(data), false}, kAnyVersion};
}

ServiceOptions Without(bool Rules::* rule) {
  ServiceOptions options;
  options.rules.*rule = false;
  return options;
}

class PipelineTest : public ::testing::Test {
 protected:
  explicit PipelineTest(ServiceOptions options = {}) : ensemble(3, options) {
    ensemble.Elect(kLeader);
  }
  Ensemble ensemble;
  TestClient client{&ensemble};
};

// ---- Forwarding ---------------------------------------------------------------------------------

TEST_F(PipelineTest, AFollowerServesReadsAndForwardsWrites) {
  ASSERT_TRUE(client.Connect(kFollower));

  EXPECT_EQ(client.Create("/a", 0, "x"), ErrorCode::kOk);
  EXPECT_EQ(client.Get("/a"), "x");
  EXPECT_EQ(client.Set("/a", "y"), ErrorCode::kOk);
  EXPECT_EQ(client.Delete("/a"), ErrorCode::kOk);
  EXPECT_EQ(client.Exists("/a"), ErrorCode::kNoNode);
}

TEST_F(PipelineTest, AllServersReachTheSameState) {
  TestClient other(&ensemble);
  ASSERT_TRUE(client.Connect(kFollower));
  ASSERT_TRUE(other.Connect(kLeader));
  client.Create("/a", CreateRequest::kEphemeral);
  other.Create("/b", CreateRequest::kSequential);
  client.Call(OpCode::kCloseSession, CloseSessionRequest());

  const uint64_t digest = ensemble.leader().tree().digest();
  EXPECT_EQ(ensemble.service(kFollower).tree().digest(), digest);
  EXPECT_EQ(ensemble.service(kOther).tree().digest(), digest);
}

TEST_F(PipelineTest, WritesArePipelinedAndAnsweredInOrder) {
  ASSERT_TRUE(client.Connect(kFollower));
  ensemble.HoldDeliveries(kFollower, true);
  const int32_t a = client.Send(OpCode::kCreate, CreateOf("/a"));
  const int32_t b = client.Send(OpCode::kCreate, CreateOf("/a/b"));
  const int32_t c = client.Send(OpCode::kDelete, DeleteRequest{"/a", kAnyVersion});
  ensemble.Run();
  EXPECT_THAT(ensemble.log(), SizeIs(4));  // with the session: all three were proposed at once

  ensemble.HoldDeliveries(kFollower, false);
  ensemble.Run();
  EXPECT_THAT(client.TakeSeen(),
              ElementsAre("reply " + std::to_string(a), "reply " + std::to_string(b),
                          "reply " + std::to_string(c)));
  EXPECT_EQ(client.reply(b).header.error, ErrorCode::kOk);
  EXPECT_EQ(client.reply(c).header.error, ErrorCode::kNotEmpty);
}

TEST_F(PipelineTest, APingDoesNotWaitForWrites) {
  ASSERT_TRUE(client.Connect(kFollower));
  ensemble.HoldDeliveries(kFollower, true);
  client.Send(OpCode::kCreate, CreateOf("/a"));
  client.Send(OpCode::kPing, PingRequest());
  ensemble.Run();

  EXPECT_THAT(client.TakeSeen(), ElementsAre("reply -2"));
}

TEST_F(PipelineTest, SyncWaitsUntilTheServerHasWhatWasProposedBefore) {
  TestClient writer(&ensemble);
  ASSERT_TRUE(client.Connect(kFollower));
  ASSERT_TRUE(writer.Connect(kLeader));
  ensemble.HoldDeliveries(kFollower, true);
  writer.Create("/a");
  const int32_t sync = client.Send(OpCode::kSync, SyncRequest{"/"});
  const int32_t read = client.Send(OpCode::kExists, ExistsRequest{"/a", false});
  ensemble.Run();
  client.Receive();
  EXPECT_FALSE(client.HasReply(sync));

  ensemble.HoldDeliveries(kFollower, false);
  ensemble.Run();
  client.Receive();
  EXPECT_TRUE(client.HasReply(sync));
  EXPECT_EQ(client.reply(read).header.error, ErrorCode::kOk);
}

TEST_F(PipelineTest, SyncKeepsItsPlaceAmongWritesAndReads) {
  ASSERT_TRUE(client.Connect(kFollower));
  ensemble.HoldDeliveries(kFollower, true);
  client.Send(OpCode::kCreate, CreateOf("/a"));
  client.Send(OpCode::kSync, SyncRequest{"/"});
  client.Send(OpCode::kExists, ExistsRequest{"/b", false});
  client.Send(OpCode::kCreate, CreateOf("/b"));
  ensemble.Run();
  ensemble.HoldDeliveries(kFollower, false);
  ensemble.Run();

  EXPECT_THAT(client.TakeSeen(), ElementsAre("reply 1", "reply 2", "reply 3", "reply 4"));
  // The read came before the session's own creation, and must not see it.
  EXPECT_EQ(client.reply(3).header.error, ErrorCode::kNoNode);
}

TEST_F(PipelineTest, AnAnswerToAConnectionThatIsGoneIsDropped) {
  ASSERT_TRUE(client.Connect(kFollower));
  ensemble.HoldDeliveries(kFollower, true);
  client.Send(OpCode::kCreate, CreateOf("/a"));
  client.Send(OpCode::kSync, SyncRequest{"/"});
  ensemble.Run();
  client.Drop();
  ensemble.HoldDeliveries(kFollower, false);
  ensemble.Run();

  EXPECT_THAT(client.TakeSeen(), IsEmpty());
  EXPECT_NE(ensemble.service(kFollower).tree().Find("/a"), nullptr);
}

TEST_F(PipelineTest, BadBytesBetweenServersAreIgnored) {
  ServiceOutput output;
  ensemble.leader().OnRequest(ensemble.now(), kFollower, Bytes::Copy("junk"), &output);
  ensemble.service(kFollower).OnReply(ensemble.now(), Bytes::Copy("junk"), &output);
  ensemble.leader().OnTouchedSessions(ensemble.now(), kFollower, Bytes::Copy("junk"));
  // A message for another role.
  ensemble.leader().OnReply(ensemble.now(), Bytes::Copy("junk"), &output);
  ensemble.service(kFollower).OnRequest(ensemble.now(), kOther, Bytes::Copy("junk"), &output);

  EXPECT_THAT(output.events, SizeIs(4));
  for (const Event& event : output.events) EXPECT_EQ(event.kind, EventKind::kIgnored);
}

// ---- Sessions -----------------------------------------------------------------------------------

TEST_F(PipelineTest, ASessionComesBackToAnotherServer) {
  ASSERT_TRUE(client.Connect(kFollower));
  client.Create("/e", CreateRequest::kEphemeral);
  const SessionId session = client.session();
  client.Drop();
  ASSERT_TRUE(client.Connect(kOther, 30'000));

  EXPECT_EQ(client.session(), session);
  EXPECT_EQ(client.timeout_ms(), 10'000);  // of the session, not of this connection
  EXPECT_EQ(client.Exists("/e"), ErrorCode::kOk);
  EXPECT_EQ(client.Create("/f"), ErrorCode::kOk);
  EXPECT_THAT(ensemble.EventsOf(EventKind::kSessionMoved), SizeIs(1));
}

TEST_F(PipelineTest, AWrongPasswordIsRefused) {
  ASSERT_TRUE(client.Connect(kFollower));
  for (const std::string& password : {std::string("0123456789abcdef"), std::string("short"),
                                      std::string(), std::string(17, 'x')}) {
    TestClient thief(&ensemble);
    thief.set_session(client.session());
    thief.set_password(password);
    EXPECT_FALSE(thief.Connect(kOther));
    EXPECT_TRUE(thief.refused());
    EXPECT_TRUE(thief.closed());
  }
  EXPECT_EQ(client.Create("/a"), ErrorCode::kOk);
}

TEST_F(PipelineTest, AnUnknownSessionIsRefused) {
  client.set_session({12345});
  client.set_password("0123456789abcdef");

  EXPECT_FALSE(client.Connect(kFollower));
  EXPECT_TRUE(client.refused());
}

// A refusal says that the session's ephemerals are gone, which is not certain before the end is
// committed: a new leader might not have it.
TEST_F(PipelineTest, ASessionThatIsBeingClosedIsRefusedWhenItIsClosed) {
  ASSERT_TRUE(client.Connect(kFollower));
  ensemble.HoldDeliveries(kOther, true);
  client.Send(OpCode::kCloseSession, CloseSessionRequest());
  TestClient back(&ensemble);
  back.set_session(client.session());
  back.set_password(client.password());

  EXPECT_FALSE(back.Connect(kOther));
  EXPECT_FALSE(back.refused());

  ensemble.HoldDeliveries(kOther, false);
  ensemble.Run();
  back.Receive();
  EXPECT_TRUE(back.refused());
  EXPECT_EQ(ensemble.service(kOther).tree().FindSession(client.session()), nullptr);
}

TEST_F(PipelineTest, ARefusalIsToldOnceItIsCommitted) {
  // A leader that was deposed without knowing it does not know the sessions of its successor, and
  // cannot commit: its client must not hear from it that its session is gone.
  client.set_session({12345});
  client.set_password("0123456789abcdef");
  ensemble.HoldDeliveries(kFollower, true);
  client.Dial(kFollower);
  ensemble.Run();
  client.Receive();
  EXPECT_FALSE(client.refused());
  EXPECT_FALSE(client.closed());

  ensemble.HoldDeliveries(kFollower, false);
  ensemble.Run();
  client.Receive();
  EXPECT_TRUE(client.refused());
  EXPECT_TRUE(client.closed());
}

TEST_F(PipelineTest, ASessionMayComeBackBeforeTheLeaderHasAppliedItsCreation) {
  ensemble.HoldDeliveries(kLeader, true);
  ASSERT_TRUE(client.Connect(kFollower));
  client.Drop();

  EXPECT_TRUE(client.Connect(kOther));
}

TEST_F(PipelineTest, TheOldConnectionOfAMovedSessionIsClosed) {
  ASSERT_TRUE(client.Connect(kFollower));
  TestClient moved(&ensemble);
  moved.set_session(client.session());
  moved.set_password(client.password());
  ASSERT_TRUE(moved.Connect(kOther));

  EXPECT_TRUE(client.closed());
  EXPECT_FALSE(moved.closed());
}

TEST_F(PipelineTest, AReconnectionToTheSameServerClosesTheOlderConnection) {
  for (ServerId server : {kLeader, kFollower}) {
    TestClient first(&ensemble);
    ASSERT_TRUE(first.Connect(server));
    TestClient second(&ensemble);
    second.set_session(first.session());
    second.set_password(first.password());
    ASSERT_TRUE(second.Connect(server));

    EXPECT_TRUE(first.closed());
    EXPECT_EQ(second.Exists("/"), ErrorCode::kOk);
  }
}

TEST_F(PipelineTest, TwoServersDrawingOneSessionIdBothSucceed) {
  // A server that starts anew draws the ids of its former life again: the clock stands still here.
  ASSERT_TRUE(client.Connect(kFollower));
  ServiceOptions options;
  options.server = kFollower;
  Service reborn(options, RandomStream(9, kFollower, 2, 1));
  reborn.SetWallClock(Instant{1'000'000'000}, 1'600'000'000'000);
  ServiceOutput output;
  reborn.SetRole(ensemble.now(), Role::kFollowing, kLeader, ensemble.epoch(), &output);
  const ConnectionId connection{ConnectionId::kAccepted | 99};
  reborn.OnClientAccepted(ensemble.now(), connection, "10.0.0.9", 0, &output);
  reborn.OnClientBytes(
      ensemble.now(), connection,
      EncodeConnectRequest({.timeout_ms = 5000, .password = std::string(kNoPassword)}), &output);
  ASSERT_THAT(output.requests, SizeIs(1));
  const Bytes first = output.requests[0];
  output.Clear();
  ensemble.leader().OnRequest(ensemble.now(), kFollower, first, &output);
  ASSERT_THAT(output.replies, SizeIs(1));
  EXPECT_THAT(output.proposals, IsEmpty());

  const Bytes refusal = output.replies[0].payload;
  output.Clear();
  reborn.OnReply(ensemble.now(), refusal, &output);
  ASSERT_THAT(output.requests, SizeIs(1));
  const Bytes second = output.requests[0];
  output.Clear();
  ensemble.leader().OnRequest(ensemble.now(), kFollower, second, &output);
  EXPECT_THAT(output.replies, IsEmpty());
  EXPECT_THAT(output.proposals, SizeIs(1));
}

TEST_F(PipelineTest, ASilentSessionExpiresAndItsConnectionIsClosed) {
  TestClient watcher(&ensemble);
  ASSERT_TRUE(client.Connect(kFollower, 4'000));
  ASSERT_TRUE(watcher.Connect(kOther, 40'000));
  client.Create("/e", CreateRequest::kEphemeral);
  watcher.Exists("/e", true);
  watcher.TakeSeen();
  ensemble.Advance(Seconds(7));

  EXPECT_TRUE(client.closed());
  EXPECT_THAT(ensemble.EventsOf(EventKind::kSessionExpired), SizeIs(1));
  EXPECT_THAT(watcher.TakeSeen(), ElementsAre("event 2 /e"));
  EXPECT_FALSE(client.Connect(kFollower));
  EXPECT_TRUE(client.refused());
}

TEST_F(PipelineTest, PingsKeepASessionAliveThroughAFollowerAndAtTheLeader) {
  for (ServerId server : {kFollower, kLeader}) {
    TestClient alive(&ensemble);
    ASSERT_TRUE(alive.Connect(server, 4'000));
    for (int i = 0; i < 10; ++i) {
      alive.Call(OpCode::kPing, PingRequest());
      ensemble.Advance(Seconds(2));
    }
    EXPECT_FALSE(alive.closed());
    EXPECT_EQ(alive.Exists("/"), ErrorCode::kOk);
  }
}

TEST_F(PipelineTest, ANewLeaderKnowsSessionsAndTheirOwnersAgain) {
  ASSERT_TRUE(client.Connect(kFollower));
  client.Create("/e", CreateRequest::kEphemeral);
  ensemble.Elect(kFollower);
  EXPECT_TRUE(client.closed());
  ASSERT_TRUE(client.Connect(kLeader));  // a follower now

  EXPECT_EQ(client.Set("/e", "x"), ErrorCode::kOk);
  EXPECT_EQ(client.Call(OpCode::kCloseSession, CloseSessionRequest()).header.error, ErrorCode::kOk);
  EXPECT_EQ(ensemble.leader().tree().Find("/e"), nullptr);
}

TEST_F(PipelineTest, ALateDeliveryOfAnEarlierEpochTouchesNothingInFlight) {
  ASSERT_TRUE(client.Connect(kFollower));
  ServiceOutput output;
  ServiceOptions options;
  options.server = kOther;
  Service late(options, RandomStream(1, kOther, 3, 1));
  late.SetRole(ensemble.now(), Role::kLeading, kOther, Epoch{2}, &output);
  for (const auto& [zxid, body] : ensemble.log()) {
    late.OnDelivered(ensemble.now(), zxid, body, &output);
  }

  EXPECT_NE(late.tree().FindSession(client.session()), nullptr);
  EXPECT_NE(late.next_deadline(), Instant::Never());
}

// ---- Watches ------------------------------------------------------------------------------------

TEST_F(PipelineTest, WatchesFireOnTheServerThatHasThemOnce) {
  TestClient writer(&ensemble);
  ASSERT_TRUE(client.Connect(kFollower));
  ASSERT_TRUE(writer.Connect(kOther));
  client.Exists("/a", true);
  client.Call(OpCode::kGetChildren, GetChildrenRequest{"/", true});
  client.TakeSeen();
  writer.Create("/a");
  EXPECT_THAT(client.TakeSeen(), ElementsAre("event 1 /a", "event 4 /"));

  writer.Set("/a", "x");
  EXPECT_THAT(client.TakeSeen(), IsEmpty());
  client.Get("/a", true);
  client.TakeSeen();
  writer.Set("/a", "y");
  EXPECT_THAT(client.TakeSeen(), ElementsAre("event 3 /a"));
}

TEST_F(PipelineTest, EventsCarryNoXidAndNoZxid) {
  ASSERT_TRUE(client.Connect(kFollower));
  client.Exists("/a", true);
  client.Send(OpCode::kCreate, CreateOf("/a"));
  ensemble.Run();
  std::vector<Bytes> frames = ensemble.TakeFrames(client.connection());

  ASSERT_THAT(frames, SizeIs(2));
  ReplyHeader header = *DecodeReplyHeader(frames[0]);
  EXPECT_EQ(header.xid, -1);
  EXPECT_EQ(header.zxid.Packed(), ~uint64_t{0});
  EXPECT_EQ(header.error, ErrorCode::kOk);
}

TEST_F(PipelineTest, SetWatchesFiresWhatWasMissedAndArmsTheRest) {
  TestClient writer(&ensemble);
  ASSERT_TRUE(writer.Connect(kLeader));
  for (const char* path : {"/same", "/changed", "/gone", "/parent", "/quiet"}) writer.Create(path);
  const Zxid seen = ensemble.leader().tree().last_zxid();
  writer.Set("/changed", "x");
  writer.Delete("/gone");
  writer.Create("/parent/child");
  writer.Create("/appeared");

  ASSERT_TRUE(client.Connect(kFollower));
  client.Send(OpCode::kSetWatches, SetWatchesRequest{.relative_zxid = seen,
                                                     .data = {"/same", "/changed", "/gone"},
                                                     .exist = {"/appeared", "/missing"},
                                                     .child = {"/parent", "/quiet", "/gone"}});
  ensemble.Run();
  EXPECT_THAT(client.TakeSeen(),
              ElementsAre("event 3 /changed", "event 2 /gone", "event 1 /appeared",
                          "event 4 /parent", "event 2 /gone", "reply -8"));

  writer.Set("/same", "x");
  writer.Create("/missing");
  writer.Create("/quiet/child");
  writer.Set("/appeared", "x");
  EXPECT_THAT(client.TakeSeen(),
              ElementsAre("event 3 /same", "event 1 /missing", "event 4 /quiet"));
}

TEST_F(PipelineTest, SetWatches2OnlyArmsPersistentWatches) {
  TestClient writer(&ensemble);
  ASSERT_TRUE(writer.Connect(kLeader));
  writer.Create("/a");
  const Zxid seen = ensemble.leader().tree().last_zxid();
  writer.Set("/a", "x");
  writer.Create("/a/b");

  ASSERT_TRUE(client.Connect(kFollower));
  client.Send(OpCode::kSetWatches2,
              SetWatches2Request{.one_shot = {.relative_zxid = seen, .data = {"/a"}},
                                 .persistent = {"/a"},
                                 .recursive = {"/a/b"}});
  ensemble.Run();
  EXPECT_THAT(client.TakeSeen(), ElementsAre("event 3 /a", "reply -8"));

  writer.Set("/a", "y");
  writer.Create("/a/b/c");
  writer.Delete("/a/b/c");
  EXPECT_THAT(client.TakeSeen(), ElementsAre("event 3 /a", "event 1 /a/b/c", "event 2 /a/b/c"));
}

TEST_F(PipelineTest, PersistentWatchesTellEveryChangeBeforeTheReplyThatShowsIt) {
  ASSERT_TRUE(client.Connect(kFollower));
  client.Call(OpCode::kAddWatch, AddWatchRequest{"/a", AddWatchMode::kPersistent});
  client.Call(OpCode::kAddWatch, AddWatchRequest{"/", AddWatchMode::kPersistentRecursive});
  client.TakeSeen();
  client.Send(OpCode::kCreate, CreateOf("/a"));
  client.Send(OpCode::kSetData, SetOf("/a", "x"));
  client.Send(OpCode::kCreate, CreateOf("/a/b"));
  client.Send(OpCode::kDelete, DeleteRequest{"/a/b"});
  ensemble.Run();

  EXPECT_THAT(client.TakeSeen(),
              ElementsAre("event 1 /a", "reply 3", "event 3 /a", "reply 4", "event 1 /a/b",
                          "event 4 /a", "reply 5", "event 2 /a/b", "event 4 /a", "reply 6"));
}

TEST_F(PipelineTest, ClosingASessionFiresWatchesOfItsEphemerals) {
  TestClient owner(&ensemble);
  ASSERT_TRUE(client.Connect(kFollower));
  ASSERT_TRUE(owner.Connect(kOther));
  owner.Create("/e", CreateRequest::kEphemeral);
  client.Exists("/e", true);
  client.TakeSeen();
  owner.Call(OpCode::kCloseSession, CloseSessionRequest());

  EXPECT_THAT(client.TakeSeen(), ElementsAre("event 2 /e"));
}

// ---- Rules: with the guard, and the anomaly without ---------------------------------------------

std::string ReadBehindAWrite(ServiceOptions options) {
  Ensemble ensemble(2, options);
  ensemble.Elect(kLeader);
  TestClient client(&ensemble);
  EXPECT_TRUE(client.Connect(kFollower));
  client.Create("/a", 0, "old");
  ensemble.HoldDeliveries(kFollower, true);
  client.Send(OpCode::kSetData, SetOf("/a", "new"));
  const int32_t read = client.Send(OpCode::kGetData, GetDataRequest{"/a", false});
  ensemble.Run();
  ensemble.HoldDeliveries(kFollower, false);
  ensemble.Run();
  client.Receive();
  return std::string(std::get<GetDataResponse>(client.reply(read).body).data.bytes.view());
}

TEST(Rules, ReadsAfterOwnWrites) {
  EXPECT_EQ(ReadBehindAWrite({}), "new");
  EXPECT_EQ(ReadBehindAWrite(Without(&Rules::reads_after_own_writes)), "old");
}

std::vector<std::string> EventAndReply(ServiceOptions options) {
  Ensemble ensemble(2, options);
  ensemble.Elect(kLeader);
  TestClient client(&ensemble);
  EXPECT_TRUE(client.Connect(kFollower));
  client.Exists("/a", true);
  client.TakeSeen();
  client.Create("/a");
  return client.TakeSeen();
}

TEST(Rules, EventsBeforeReplies) {
  EXPECT_THAT(EventAndReply({}), ElementsAre("event 1 /a", "reply 2"));
  EXPECT_THAT(EventAndReply(Without(&Rules::events_before_replies)),
              ElementsAre("reply 2", "event 1 /a"));
}

// The paths that closing the session deletes, while the creation of its ephemeral is in flight.
std::vector<std::string> PathsDeletedByClose(ServiceOptions options) {
  Ensemble ensemble(2, options);
  ensemble.Elect(kLeader);
  TestClient client(&ensemble);
  EXPECT_TRUE(client.Connect(kFollower));
  ensemble.HoldDeliveries(kLeader, true);
  ensemble.HoldDeliveries(kFollower, true);
  client.Send(OpCode::kCreate, CreateOf("/e", CreateRequest::kEphemeral));
  client.Send(OpCode::kCloseSession, CloseSessionRequest());
  ensemble.Run();
  auto last = DecodeTransaction(ensemble.log().back().second);
  return std::get<CloseSessionTransaction>(last->body).paths_to_delete;
}

TEST(Rules, CloseSessionSeesPendingCreates) {
  EXPECT_THAT(PathsDeletedByClose({}), ElementsAre("/e"));
  // The ephemeral would outlive its session.
  EXPECT_THAT(PathsDeletedByClose(Without(&Rules::close_session_sees_pending_creates)), IsEmpty());
}

// A write that is on its way from the old connection when the session has moved.
bool LeftBehindWriteIsCarriedOut(ServiceOptions options) {
  Ensemble ensemble(3, options);
  ensemble.Elect(kLeader);
  TestClient old_connection(&ensemble);
  EXPECT_TRUE(old_connection.Connect(kFollower));
  // It reaches the leader only after the client has come back elsewhere.
  ensemble.HoldRequests(true);
  TestClient moved(&ensemble);
  moved.set_session(old_connection.session());
  moved.set_password(old_connection.password());
  moved.Dial(kOther);
  old_connection.Send(OpCode::kCreate, CreateOf("/left"));
  ensemble.HoldRequests(false);
  ensemble.Run();
  moved.Receive();
  EXPECT_TRUE(moved.connected());
  EXPECT_TRUE(old_connection.closed());
  return ensemble.leader().tree().Find("/left") != nullptr;
}

TEST(Rules, RefuseMovedSessions) {
  EXPECT_FALSE(LeftBehindWriteIsCarriedOut({}));
  EXPECT_TRUE(LeftBehindWriteIsCarriedOut(Without(&Rules::refuse_moved_sessions)));
}

// Whether a session with a timeout of 20 s is alive 3 s after a change of the leader.
bool SurvivesALeaderChange(ServiceOptions options) {
  Ensemble ensemble(3, options);
  ensemble.Elect(kLeader);
  TestClient client(&ensemble);
  EXPECT_TRUE(client.Connect(kFollower, 20'000));
  ensemble.Elect(kOther);
  ensemble.Advance(Seconds(3));
  return client.Connect(kFollower);
}

TEST(Rules, FullTimeoutUnderANewLeader) {
  EXPECT_TRUE(SurvivesALeaderChange({}));
  EXPECT_FALSE(SurvivesALeaderChange(Without(&Rules::full_timeout_under_a_new_leader)));
}

// Whether a server that is behind takes a client that has seen more.
bool TakesAClientFromTheFuture(ServiceOptions options) {
  Ensemble ensemble(3, options);
  ensemble.Elect(kLeader);
  TestClient client(&ensemble);
  EXPECT_TRUE(client.Connect(kFollower));
  ensemble.HoldDeliveries(kOther, true);
  client.Create("/a");
  const Zxid seen = client.reply(1).header.zxid;
  client.Drop();
  client.Dial(kOther, 10'000, seen);
  const bool closed = client.closed();
  EXPECT_THAT(ensemble.TakeFrames(client.connection()), IsEmpty());
  return !closed;
}

TEST(Rules, RefuseClientsFromTheFuture) {
  EXPECT_FALSE(TakesAClientFromTheFuture({}));
  EXPECT_TRUE(TakesAClientFromTheFuture(Without(&Rules::refuse_clients_from_the_future)));
}

// Two sequential creations in flight: their paths.
std::vector<std::string> SequencesInFlight(ServiceOptions options) {
  Ensemble ensemble(2, options);
  ensemble.Elect(kLeader);
  TestClient client(&ensemble);
  EXPECT_TRUE(client.Connect(kLeader));
  client.Create("/p");
  ensemble.HoldDeliveries(kLeader, true);
  ensemble.HoldDeliveries(kFollower, true);
  std::vector<std::string> paths;
  for (int i = 0; i < 2; ++i) {
    client.Send(OpCode::kCreate, CreateOf("/p/n", CreateRequest::kSequential));
    auto last = DecodeTransaction(ensemble.log().back().second);
    paths.push_back(std::get<CreateTransaction>(last->body).path);
  }
  return paths;
}

TEST(Rules, PrepareSeesPendingChanges) {
  EXPECT_THAT(SequencesInFlight({}), ElementsAre("/p/n0000000000", "/p/n0000000001"));
  EXPECT_THAT(SequencesInFlight(Without(&Rules::prepare_sees_pending_changes)),
              ElementsAre("/p/n0000000000", "/p/n0000000000"));
}

}  // namespace
}  // namespace lockstep::coordination
