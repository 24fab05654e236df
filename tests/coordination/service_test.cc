// One client's view of a service: handshake, every operation and its errors, on one server alone.
#include "core/coordination/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordination/ensemble.h"

namespace lockstep::coordination {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr ServerId kServer{1};

class ServiceTest : public ::testing::Test {
 protected:
  ServiceTest() {
    ensemble.Elect(kServer);
    EXPECT_TRUE(client.Connect(kServer));
  }
  CreateRequest CreateOf(std::string_view path, std::vector<Acl> acl = kOpenAcl,
                         int32_t flags = 0) {
    return {.path = path, .acl = std::move(acl), .flags = flags};
  }
  Ensemble ensemble{1};
  TestClient client{&ensemble};
};

// ---- Create -------------------------------------------------------------------------------------

TEST_F(ServiceTest, CreateAnswersThePathAndTheZxidOfTheTransaction) {
  TestClient::Reply reply = client.Call(OpCode::kCreate, CreateOf("/a"));

  EXPECT_EQ(reply.header.error, ErrorCode::kOk);
  EXPECT_EQ(reply.header.zxid, ensemble.log().back().first);
  EXPECT_EQ(std::get<PathResponse>(reply.body).path, "/a");
}

TEST_F(ServiceTest, Create2AnswersTheStatToo) {
  TestClient::Reply reply = client.Call(OpCode::kCreate2, CreateOf("/a"));

  EXPECT_EQ(std::get<Create2Response>(reply.body).path, "/a");
  EXPECT_EQ(std::get<Create2Response>(reply.body).stat.czxid, reply.header.zxid);
}

TEST_F(ServiceTest, CreateBelowNothingIsNoNode) {
  EXPECT_EQ(client.Create("/a/b"), ErrorCode::kNoNode);
}

TEST_F(ServiceTest, CreateOfWhatIsThereIsNodeExists) {
  client.Create("/a");

  EXPECT_EQ(client.Create("/a"), ErrorCode::kNodeExists);
  EXPECT_EQ(client.Create("/"), ErrorCode::kNodeExists);
}

TEST_F(ServiceTest, CreateBelowAnEphemeralIsRefused) {
  client.Create("/a", CreateRequest::kEphemeral);

  EXPECT_EQ(client.Create("/a/b"), ErrorCode::kNoChildrenForEphemerals);
}

TEST_F(ServiceTest, CreateOfABadPathIsBadArguments) {
  for (const char* path : {"", "a", "/a/", "//a", "/a/../b", "/./a"}) {
    EXPECT_THAT(client.Create(path), ::testing::AnyOf(ErrorCode::kBadArguments, ErrorCode::kNoNode))
        << path;
  }
  EXPECT_EQ(client.Create("/."), ErrorCode::kBadArguments);
  EXPECT_EQ(client.Create("a"), ErrorCode::kBadArguments);
  EXPECT_EQ(client.Create(std::string("/a\0b", 4)), ErrorCode::kBadArguments);
}

TEST_F(ServiceTest, CreateWithoutAnAclIsInvalidAcl) {
  EXPECT_EQ(client.ErrorOf(OpCode::kCreate, CreateOf("/a", {})), ErrorCode::kInvalidAcl);
}

TEST_F(ServiceTest, CreateWithAnUnknownSchemeIsInvalidAcl) {
  std::vector<Acl> acl = {{.permissions = 31, .scheme = "digest", .id = "u:p"}};

  EXPECT_EQ(client.ErrorOf(OpCode::kCreate, CreateOf("/a", acl)), ErrorCode::kInvalidAcl);
}

TEST_F(ServiceTest, TheAclIsJudgedBeforeTheParentIsLookedFor) {
  EXPECT_EQ(client.ErrorOf(OpCode::kCreate, CreateOf("/no/a", {})), ErrorCode::kInvalidAcl);
}

TEST_F(ServiceTest, ContainersAndTtlsAreUnimplementedAndOtherModesBad) {
  for (int32_t flags : {4, 5, 6}) {
    EXPECT_EQ(client.Create("/a", flags), ErrorCode::kUnimplemented) << flags;
  }
  EXPECT_EQ(client.Create("/a", 7), ErrorCode::kBadArguments);
  EXPECT_EQ(client.Create("/a", -1), ErrorCode::kBadArguments);
}

TEST_F(ServiceTest, SequenceNumbersCountTheCreationsOfTheParent) {
  client.Create("/p");
  std::vector<std::string> paths;
  for (int i = 0; i < 3; ++i) {
    TestClient::Reply reply =
        client.Call(OpCode::kCreate, CreateOf("/p/n-", kOpenAcl, CreateRequest::kSequential));
    paths.emplace_back(std::get<PathResponse>(reply.body).path);
    if (i == 1) client.Delete(paths[0]);
  }

  EXPECT_THAT(paths, ElementsAre("/p/n-0000000000", "/p/n-0000000001", "/p/n-0000000002"));
}

TEST_F(ServiceTest, ASequentialNameMayBeTheNumberAlone) {
  client.Create("/p");
  TestClient::Reply reply =
      client.Call(OpCode::kCreate, CreateOf("/p/", kOpenAcl, CreateRequest::kSequential));

  EXPECT_EQ(std::get<PathResponse>(reply.body).path, "/p/0000000000");
}

TEST_F(ServiceTest, AnEphemeralBelongsToItsSession) {
  client.Create("/a", CreateRequest::kEphemeral);
  TestClient::Reply reply = client.Call(OpCode::kExists, ExistsRequest{"/a", false});

  EXPECT_EQ(std::get<StatResponse>(reply.body).stat.ephemeral_owner, client.session());
}

TEST_F(ServiceTest, WhatASessionsEphemeralsMayAmountToIsBounded) {
  ServiceOptions options;
  options.frame_bytes_max = 300;
  Ensemble small(1, options);
  small.Elect(kServer);
  TestClient owner(&small);
  ASSERT_TRUE(owner.Connect(kServer));
  const std::string a = "/a" + std::string(150, 'a'), b = "/b" + std::string(150, 'b');

  EXPECT_EQ(owner.Create(a, CreateRequest::kEphemeral), ErrorCode::kOk);
  EXPECT_EQ(owner.Create(b, CreateRequest::kEphemeral), ErrorCode::kQuotaExceeded);
  EXPECT_EQ(owner.Delete(a), ErrorCode::kOk);
  EXPECT_EQ(owner.Create(b, CreateRequest::kEphemeral), ErrorCode::kOk);
}

// ---- Delete and setData -------------------------------------------------------------------------

TEST_F(ServiceTest, DeleteChecksTheNodeThenTheVersionThenTheChildren) {
  client.Create("/a");
  client.Create("/a/b");

  EXPECT_EQ(client.Delete("/no"), ErrorCode::kNoNode);
  EXPECT_EQ(client.Delete("/no/no"), ErrorCode::kNoNode);
  EXPECT_EQ(client.Delete("/a", 7), ErrorCode::kBadVersion);
  EXPECT_EQ(client.Delete("/a", 0), ErrorCode::kNotEmpty);
  EXPECT_EQ(client.Delete("/a/b", 0), ErrorCode::kOk);
  EXPECT_EQ(client.Delete("/a"), ErrorCode::kOk);
}

TEST_F(ServiceTest, ZooKeepersOwnNodesCannotBeDeleted) {
  for (const char* path : {"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config", "a"}) {
    EXPECT_EQ(client.Delete(path), ErrorCode::kBadArguments) << path;
  }
}

TEST_F(ServiceTest, TheConfigNodeIsReadOnly) {
  EXPECT_EQ(client.Set("/zookeeper/config", "x"), ErrorCode::kNoAuth);
  EXPECT_EQ(client.Create("/zookeeper/config/a"), ErrorCode::kNoAuth);
  EXPECT_EQ(client.Create("/zookeeper/a"), ErrorCode::kOk);
}

TEST_F(ServiceTest, SetDataChecksThePathTheNodeAndTheVersion) {
  client.Create("/a");

  EXPECT_EQ(client.Set("a", "x"), ErrorCode::kBadArguments);
  EXPECT_EQ(client.Set("/no", "x"), ErrorCode::kNoNode);
  EXPECT_EQ(client.Set("/a", "x", 1), ErrorCode::kBadVersion);
  EXPECT_EQ(client.Set("/a", "x", 0), ErrorCode::kOk);
  EXPECT_EQ(client.Set("/a", "y", 0), ErrorCode::kBadVersion);
  EXPECT_EQ(client.Set("/a", "y", 1), ErrorCode::kOk);
  EXPECT_EQ(client.Get("/a"), "y");
}

TEST_F(ServiceTest, SetDataAnswersTheNewStat) {
  client.Create("/a");
  TestClient::Reply reply = client.Call(
      OpCode::kSetData, SetDataRequest{"/a", {Bytes::Copy("hello"), false}, kAnyVersion});

  EXPECT_EQ(std::get<StatResponse>(reply.body).stat.version, 1);
  EXPECT_EQ(std::get<StatResponse>(reply.body).stat.data_length, 5);
}

TEST_F(ServiceTest, PermissionsOfTheWorldAreChecked) {
  std::vector<Acl> read_only = {{.permissions = 1, .scheme = "world", .id = "anyone"}};
  std::vector<Acl> write_only = {{.permissions = 2, .scheme = "world", .id = "anyone"}};
  client.ErrorOf(OpCode::kCreate, CreateOf("/r", read_only));
  client.ErrorOf(OpCode::kCreate, CreateOf("/w", write_only));

  EXPECT_EQ(client.Set("/r", "x"), ErrorCode::kNoAuth);
  EXPECT_EQ(client.Create("/r/a"), ErrorCode::kNoAuth);
  EXPECT_EQ(client.Set("/w", "x"), ErrorCode::kOk);
  EXPECT_EQ(client.ErrorOf(OpCode::kGetData, GetDataRequest{"/w", false}), ErrorCode::kNoAuth);
  EXPECT_EQ(client.ErrorOf(OpCode::kGetChildren, GetChildrenRequest{"/w", false}),
            ErrorCode::kNoAuth);
  EXPECT_EQ(client.ErrorOf(OpCode::kGetAcl, GetAclRequest{"/w"}), ErrorCode::kNoAuth);
  EXPECT_EQ(client.Exists("/w"), ErrorCode::kOk);
}

TEST_F(ServiceTest, ARefusedWriteTakesItsPlaceInTheOrder) {
  TestClient::Reply reply = client.Call(OpCode::kDelete, DeleteRequest{"/no", kAnyVersion});

  EXPECT_EQ(reply.header.zxid, ensemble.log().back().first);
  auto transaction = DecodeTransaction(ensemble.log().back().second);
  EXPECT_EQ(std::get<ErrorTransaction>(transaction->body).error, ErrorCode::kNoNode);
}

// ---- Reads --------------------------------------------------------------------------------------

TEST_F(ServiceTest, ReadsOfWhatIsNotThereAreNoNode) {
  EXPECT_EQ(client.Exists("/no"), ErrorCode::kNoNode);
  EXPECT_EQ(client.ErrorOf(OpCode::kGetData, GetDataRequest{"/no", true}), ErrorCode::kNoNode);
  EXPECT_EQ(client.ErrorOf(OpCode::kGetAcl, GetAclRequest{"/no"}), ErrorCode::kNoNode);
  EXPECT_EQ(client.ErrorOf(OpCode::kGetChildren, GetChildrenRequest{"/no", true}),
            ErrorCode::kNoNode);
  EXPECT_EQ(client.ErrorOf(OpCode::kGetChildren2, GetChildrenRequest{"/no", true}),
            ErrorCode::kNoNode);
  EXPECT_EQ(ensemble.leader().stats().watches, 0u);
}

TEST_F(ServiceTest, GetChildrenAnswersNamesInOrder) {
  for (const char* path : {"/p", "/p/b", "/p/a"}) client.Create(path);
  TestClient::Reply one = client.Call(OpCode::kGetChildren, GetChildrenRequest{"/p", false});
  TestClient::Reply two = client.Call(OpCode::kGetChildren2, GetChildrenRequest{"/p", false});

  EXPECT_THAT(std::get<GetChildrenResponse>(one.body).children, ElementsAre("a", "b"));
  EXPECT_THAT(std::get<GetChildren2Response>(two.body).children, ElementsAre("a", "b"));
  EXPECT_EQ(std::get<GetChildren2Response>(two.body).stat.num_children, 2);
}

TEST_F(ServiceTest, GetAclAnswersWhatCreateStored) {
  std::vector<Acl> twice = {kOpenAcl[0], kOpenAcl[0]};
  client.ErrorOf(OpCode::kCreate, CreateOf("/a", twice));
  TestClient::Reply reply = client.Call(OpCode::kGetAcl, GetAclRequest{"/a"});

  EXPECT_EQ(std::get<GetAclResponse>(reply.body).acl, kOpenAcl);
}

TEST_F(ServiceTest, ReadsCarryTheLastAppliedZxid) {
  client.Create("/a");
  TestClient::Reply reply = client.Call(OpCode::kExists, ExistsRequest{"/a", false});

  EXPECT_EQ(reply.header.zxid, ensemble.leader().tree().last_zxid());
}

TEST_F(ServiceTest, NullDataIsKeptApartFromEmptyData) {
  client.ErrorOf(OpCode::kCreate,
                 CreateRequest{.path = "/null", .data = {{}, true}, .acl = kOpenAcl});
  client.ErrorOf(OpCode::kCreate, CreateRequest{.path = "/empty", .acl = kOpenAcl});
  TestClient::Reply null = client.Call(OpCode::kGetData, GetDataRequest{"/null", false});
  TestClient::Reply empty = client.Call(OpCode::kGetData, GetDataRequest{"/empty", false});

  EXPECT_TRUE(std::get<GetDataResponse>(null.body).data.null);
  EXPECT_FALSE(std::get<GetDataResponse>(empty.body).data.null);
}

// ---- Other requests -----------------------------------------------------------------------------

TEST_F(ServiceTest, PingIsAnsweredWithItsXid) {
  EXPECT_EQ(client.Call(OpCode::kPing, PingRequest()).header.xid, kXidPing);
}

TEST_F(ServiceTest, SyncAnswersThePath) {
  TestClient::Reply reply = client.Call(OpCode::kSync, SyncRequest{"/a"});

  EXPECT_EQ(std::get<PathResponse>(reply.body).path, "/a");
}

TEST_F(ServiceTest, AddWatchAnswersABodyOfItsOwn) {
  TestClient::Reply reply =
      client.Call(OpCode::kAddWatch, AddWatchRequest{"/no", AddWatchMode::kPersistent});

  EXPECT_EQ(std::get<AddWatchResponse>(reply.body).error, 0);
  EXPECT_EQ(reply.frame.size(), 20u);
  EXPECT_EQ(client.ErrorOf(OpCode::kAddWatch, AddWatchRequest{"/no", AddWatchMode{2}}),
            ErrorCode::kMarshallingError);
}

TEST_F(ServiceTest, WatchesAreCheckedAndRemovedByType) {
  client.Create("/a");
  client.Get("/a", true);
  client.Call(OpCode::kAddWatch, AddWatchRequest{"/a", AddWatchMode::kPersistentRecursive});
  auto check = [&](WatcherType type) {
    return client.ErrorOf(OpCode::kCheckWatches, RemoveWatchesRequest{"/a", type});
  };
  auto remove = [&](WatcherType type) {
    return client.ErrorOf(OpCode::kRemoveWatches, RemoveWatchesRequest{"/a", type});
  };

  EXPECT_EQ(check(WatcherType::kData), ErrorCode::kOk);
  EXPECT_EQ(check(WatcherType::kChildren), ErrorCode::kNoWatcher);
  EXPECT_EQ(check(WatcherType::kPersistent), ErrorCode::kNoWatcher);
  EXPECT_EQ(check(WatcherType{0}), ErrorCode::kMarshallingError);
  EXPECT_EQ(remove(WatcherType::kChildren), ErrorCode::kNoWatcher);
  EXPECT_EQ(remove(WatcherType::kData), ErrorCode::kOk);
  EXPECT_EQ(remove(WatcherType::kData), ErrorCode::kNoWatcher);
  EXPECT_EQ(check(WatcherType::kPersistentRecursive), ErrorCode::kOk);
  EXPECT_EQ(remove(WatcherType::kAny), ErrorCode::kOk);
  EXPECT_EQ(remove(WatcherType::kAny), ErrorCode::kNoWatcher);
  EXPECT_EQ(ensemble.leader().stats().watches, 0u);
  client.TakeSeen();
  client.Set("/a", "x");
  EXPECT_THAT(client.TakeSeen(), SizeIs(1)) << "the reply";
}

TEST_F(ServiceTest, UnknownOpsAreUnimplementedAndTheConnectionGoesOn) {
  for (int32_t op : {13, 16, 103, 107, 9999, -1}) {
    EXPECT_EQ(client.CallBare(op).header.error, ErrorCode::kUnimplemented) << op;
  }
  EXPECT_EQ(client.ErrorOf(OpCode::kSetAcl, SetAclRequest{"/", kOpenAcl, -1}),
            ErrorCode::kUnimplemented);
  EXPECT_EQ(client.Exists("/"), ErrorCode::kOk);
}

TEST_F(ServiceTest, ABodyThatCannotBeDecodedIsAMarshallingErrorAndTheConnectionGoesOn) {
  for (OpCode op : {OpCode::kCreate, OpCode::kDelete, OpCode::kExists, OpCode::kSync}) {
    EXPECT_EQ(client.CallBare(static_cast<int32_t>(op)).header.error, ErrorCode::kMarshallingError)
        << ToString(op);
  }
  EXPECT_EQ(client.Exists("/"), ErrorCode::kOk);
}

TEST_F(ServiceTest, AuthenticationFailsAndHangsUp) {
  TestClient::Reply reply = client.Call(
      OpCode::kAuth, AuthRequest{.scheme = "digest", .auth = {Bytes::Copy("u:p"), false}});

  EXPECT_EQ(reply.header.error, ErrorCode::kAuthFailed);
  EXPECT_TRUE(client.closed());
}

TEST_F(ServiceTest, CloseSessionIsAnsweredAndThenTheConnectionIsClosed) {
  client.Create("/a", CreateRequest::kEphemeral);
  TestClient::Reply reply = client.Call(OpCode::kCloseSession, CloseSessionRequest());

  EXPECT_EQ(reply.header.error, ErrorCode::kOk);
  EXPECT_TRUE(client.closed());
  EXPECT_EQ(ensemble.leader().tree().Find("/a"), nullptr);
  EXPECT_THAT(ensemble.leader().tree().sessions(), IsEmpty());
}

TEST_F(ServiceTest, NothingIsReadAfterCloseSession) {
  client.Send(OpCode::kCloseSession, CloseSessionRequest());
  const int32_t late = client.Send(OpCode::kCreate, CreateOf("/late"));
  ensemble.Run();
  client.Receive();

  EXPECT_FALSE(client.HasReply(late));
  EXPECT_EQ(ensemble.leader().tree().Find("/late"), nullptr);
}

TEST_F(ServiceTest, CountsPacketsAndLatency) {
  ensemble.leader().ResetStats();
  client.Create("/a");
  client.Exists("/a");
  const ServiceStats& stats = ensemble.leader().stats();

  EXPECT_EQ(stats.packets_received, 2u);
  EXPECT_EQ(stats.packets_sent, 2u);
  EXPECT_EQ(stats.requests, 2u);
  EXPECT_EQ(stats.outstanding_requests, 0u);
  EXPECT_EQ(stats.connections, 1u);
}

TEST_F(ServiceTest, DescribesItsConnections) {
  EXPECT_THAT(ensemble.leader().DescribeConnections(ensemble.now()),
              ElementsAre(" /10.0.0.1:4711[1](queued=0,recved=1,sent=1,sid=" +
                          client.session().ToString() + ",to=10000,age=0)"));
}

// ---- Connections --------------------------------------------------------------------------------

TEST_F(ServiceTest, TheTimeoutIsNegotiatedWithinItsBounds) {
  TestClient low(&ensemble), high(&ensemble), middle(&ensemble);
  low.Connect(kServer, 1);
  high.Connect(kServer, 1'000'000);
  middle.Connect(kServer, 12'345);

  EXPECT_EQ(low.timeout_ms(), 4'000);
  EXPECT_EQ(high.timeout_ms(), 40'000);
  EXPECT_EQ(middle.timeout_ms(), 12'345);
}

TEST_F(ServiceTest, SessionIdsCarryTheServerAndTheTime) {
  const uint64_t id = static_cast<uint64_t>(client.session().value);

  EXPECT_EQ(id >> 56, 1u);
  EXPECT_EQ((id & ((uint64_t{1} << 56) - 1)) >> 16, uint64_t{1'600'000'000'000} & 0xff'ffff'ffff);
}

TEST_F(ServiceTest, AnOldClientGetsNoReadOnlyFlag) {
  ConnectionId connection = ensemble.Accept(kServer);
  ensemble.Send(
      kServer, connection,
      EncodeConnectRequest(
          {.timeout_ms = 5000, .password = std::string(kNoPassword), .has_read_only = false}));
  ensemble.Run();

  std::vector<Bytes> frames = ensemble.TakeFrames(connection);
  ASSERT_THAT(frames, SizeIs(1));
  EXPECT_FALSE(DecodeConnectResponse(frames[0])->has_read_only);
}

TEST_F(ServiceTest, RequestsSentWithTheConnectRequestWaitForTheSession) {
  TestClient eager(&ensemble);
  eager.Dial(kServer);
  const int32_t xid = eager.Send(OpCode::kCreate, CreateOf("/eager"));
  ensemble.Run();
  eager.Receive();

  EXPECT_TRUE(eager.connected());
  EXPECT_EQ(eager.reply(xid).header.error, ErrorCode::kOk);
}

TEST_F(ServiceTest, AFrameMayArriveByteByByte) {
  TestClient slow(&ensemble);
  ASSERT_TRUE(slow.Connect(kServer));
  Bytes bytes = EncodeRequest(1, OpCode::kExists, ExistsRequest{"/", false});
  for (size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_THAT(ensemble.TakeFrames(slow.connection()), IsEmpty());
    slow.SendRaw(bytes.Slice(i, 1));
  }

  EXPECT_THAT(ensemble.TakeFrames(slow.connection()), SizeIs(1));
}

TEST_F(ServiceTest, GarbageClosesItsOwnConnectionAlone) {
  for (const char* garbage : {"\xff\xff\xff\xff", "\x7f\xff\xff\xff", "GET / HTTP/1.1\r\n\r\n"}) {
    ConnectionId connection = ensemble.Accept(kServer);
    ensemble.Send(kServer, connection, Bytes::Copy(garbage));
    EXPECT_TRUE(ensemble.closed(connection)) << garbage;
  }
  EXPECT_EQ(client.Exists("/"), ErrorCode::kOk);
}

TEST_F(ServiceTest, AFrameTooShortForAHeaderClosesTheConnection) {
  client.SendRaw(Bytes::Copy(std::string("\0\0\0\4\0\0\0\1", 8)));

  EXPECT_TRUE(client.closed());
}

TEST_F(ServiceTest, AFrameAboveTheBoundClosesTheConnection) {
  std::string huge("\0\x10\0\0", 4);  // 0x100000, one more than allowed
  client.SendRaw(Bytes::Copy(huge));

  EXPECT_TRUE(client.closed());
}

TEST_F(ServiceTest, AConnectionThatSaysNothingIsClosed) {
  ConnectionId silent = ensemble.Accept(kServer);
  ensemble.Advance(Milliseconds(9'999));
  EXPECT_FALSE(ensemble.closed(silent));
  ensemble.Advance(Milliseconds(1));

  EXPECT_TRUE(ensemble.closed(silent));
}

TEST(ServiceConnections, AreBoundedPerAddressAndAltogether) {
  ServiceOptions options;
  options.connections_max = 3;
  options.connections_per_address_max = 2;
  Ensemble ensemble(1, options);
  ensemble.Elect(kServer);
  ConnectionId a1 = ensemble.Accept(kServer, "a"), a2 = ensemble.Accept(kServer, "a");
  ConnectionId a3 = ensemble.Accept(kServer, "a");
  ConnectionId b1 = ensemble.Accept(kServer, "b"), b2 = ensemble.Accept(kServer, "b");

  EXPECT_FALSE(ensemble.closed(a1));
  EXPECT_TRUE(ensemble.closed(a3));
  EXPECT_FALSE(ensemble.closed(b1));
  EXPECT_TRUE(ensemble.closed(b2));
  const std::vector<Event> refused = ensemble.EventsOf(EventKind::kConnectionRefused);
  ASSERT_THAT(refused, SizeIs(2));
  EXPECT_EQ(refused[0].text, "a has all that maxClientCnxns allows, 2");
  EXPECT_EQ(refused[1].text, "b is one too many for the server, which takes 3");

  ensemble.CloseByClient(kServer, a2);
  EXPECT_FALSE(ensemble.closed(ensemble.Accept(kServer, "a")));
}

TEST(ServiceConnections, AreRefusedWhileStopped) {
  Ensemble ensemble(1);
  ConnectionId connection = ensemble.Accept(kServer);

  EXPECT_TRUE(ensemble.closed(connection));
}

TEST(ServiceConnections, AreClosedWhenTheServiceStops) {
  Ensemble ensemble(1);
  ensemble.Elect(kServer);
  TestClient client(&ensemble);
  client.Connect(kServer);
  client.Exists("/", true);
  ensemble.Stop();

  EXPECT_TRUE(client.closed());
  EXPECT_EQ(ensemble.service(kServer).stats().watches, 0u);
  EXPECT_EQ(ensemble.service(kServer).stats().connections, 0u);
}

TEST(ServiceSessions, AreBounded) {
  ServiceOptions options;
  options.sessions_max = 1;
  Ensemble ensemble(2, options);
  ensemble.Elect(kServer);
  TestClient one(&ensemble), two(&ensemble);
  EXPECT_TRUE(one.Connect({2}));
  EXPECT_FALSE(two.Connect({2}));
  EXPECT_TRUE(two.closed());

  one.Call(OpCode::kCloseSession, CloseSessionRequest());
  EXPECT_TRUE(two.Connect({2}));
}

// ---- Backpressure -------------------------------------------------------------------------------

TEST(ServiceBackpressure, TooManyOutstandingRequestsPauseReading) {
  ServiceOptions options;
  options.outstanding_requests_max = 4;
  Ensemble ensemble(1, options);
  ensemble.Elect(kServer);
  TestClient client(&ensemble);
  ASSERT_TRUE(client.Connect(kServer));
  ensemble.HoldDeliveries(kServer, true);
  std::vector<int32_t> xids;
  for (int i = 0; i < 6; ++i) {
    std::string path = "/" + std::to_string(i);
    xids.push_back(client.Send(OpCode::kCreate, CreateRequest{.path = path, .acl = kOpenAcl}));
  }
  ensemble.Run();

  EXPECT_TRUE(ensemble.paused(client.connection()));
  EXPECT_EQ(ensemble.leader().stats().outstanding_requests, 4u);
  EXPECT_THAT(ensemble.EventsOf(EventKind::kBackpressure), SizeIs(1));

  ensemble.HoldDeliveries(kServer, false);
  ensemble.Run();
  client.Receive();
  EXPECT_FALSE(ensemble.paused(client.connection()));
  for (int32_t xid : xids) EXPECT_TRUE(client.HasReply(xid)) << xid;
}

TEST(ServiceBackpressure, RepliesThatTheNetworkDoesNotTakePauseReading) {
  ServiceOptions options;
  options.pending_reply_bytes_max = 1000;
  Ensemble ensemble(1, options);
  ensemble.Elect(kServer);
  TestClient client(&ensemble);
  ASSERT_TRUE(client.Connect(kServer));
  client.Create("/a", 0, std::string(600, 'x'));
  ensemble.SetWritten(false);
  const uint64_t before = ensemble.sent_bytes(client.connection());
  int32_t last = 0;
  for (int i = 0; i < 4; ++i) last = client.Send(OpCode::kGetData, GetDataRequest{"/a", false});

  EXPECT_TRUE(ensemble.paused(client.connection()));
  client.Receive();
  EXPECT_FALSE(client.HasReply(last));

  ensemble.SetWritten(true);
  ensemble.Written(kServer, client.connection(), ensemble.sent_bytes(client.connection()) - before);
  client.Receive();
  EXPECT_TRUE(client.HasReply(last));
  EXPECT_FALSE(ensemble.paused(client.connection()));
}

TEST(ServiceBackpressure, TooManyBytesOfOutstandingRequestsPauseReading) {
  ServiceOptions options;
  options.outstanding_bytes_max = 1000;
  Ensemble ensemble(1, options);
  ensemble.Elect(kServer);
  TestClient client(&ensemble);
  ASSERT_TRUE(client.Connect(kServer));
  client.Create("/a");
  ensemble.HoldDeliveries(kServer, true);
  const std::string data(600, 'x');
  int32_t last = 0;
  for (int i = 0; i < 4; ++i) {
    last = client.Send(OpCode::kSetData,
                       SetDataRequest{"/a", {.bytes = Bytes::Copy(data)}, kAnyVersion});
  }
  EXPECT_TRUE(ensemble.paused(client.connection()));
  EXPECT_EQ(ensemble.leader().stats().outstanding_requests, 2u);

  ensemble.HoldDeliveries(kServer, false);
  ensemble.Run();
  client.Receive();
  EXPECT_TRUE(client.HasReply(last));
  EXPECT_FALSE(ensemble.paused(client.connection()));
}

// The reads behind a write are all due when it is answered.
TEST(ServiceBackpressure, ReadsThatWaitedForAWriteAreAnsweredAsTheNetworkTakesThem) {
  ServiceOptions options;
  options.pending_reply_bytes_max = 1000;
  Ensemble ensemble(1, options);
  ensemble.Elect(kServer);
  TestClient client(&ensemble);
  ASSERT_TRUE(client.Connect(kServer));
  client.Create("/a", 0, std::string(600, 'x'));
  ensemble.HoldDeliveries(kServer, true);
  client.Send(OpCode::kDelete, DeleteRequest{"/nothing", kAnyVersion});
  int32_t last = 0;
  for (int i = 0; i < 20; ++i) last = client.Send(OpCode::kGetData, GetDataRequest{"/a", false});
  ensemble.SetWritten(false);
  uint64_t written = ensemble.sent_bytes(client.connection());
  ensemble.HoldDeliveries(kServer, false);
  ensemble.Run();

  EXPECT_FALSE(ensemble.closed(client.connection()));
  for (;;) {
    const uint64_t waiting = ensemble.sent_bytes(client.connection()) - written;
    EXPECT_LT(waiting, 2000u);
    if (waiting == 0) break;
    written += waiting;
    ensemble.Written(kServer, client.connection(), waiting);
  }
  client.Receive();
  EXPECT_TRUE(client.HasReply(last));
  EXPECT_EQ(ensemble.leader().stats().outstanding_requests, 0u);
}

// The later write is on its way through the ensemble already, and does not wait for the network.
TEST(ServiceBackpressure, AReadIsNeverAnsweredWithWhatALaterWriteOfItsSessionChanges) {
  ServiceOptions options;
  options.pending_reply_bytes_max = 1000;
  Ensemble ensemble(1, options);
  ensemble.Elect(kServer);
  TestClient client(&ensemble);
  ASSERT_TRUE(client.Connect(kServer));
  client.Create("/a", 0, std::string(600, 'x'));
  ensemble.HoldDeliveries(kServer, true);
  client.Send(OpCode::kDelete, DeleteRequest{"/nothing", kAnyVersion});
  int32_t last = 0;
  for (int i = 0; i < 5; ++i) last = client.Send(OpCode::kGetData, GetDataRequest{"/a", false});
  const int32_t write = client.Send(
      OpCode::kSetData, SetDataRequest{"/a", {.bytes = Bytes::Copy("new")}, kAnyVersion});
  ensemble.SetWritten(false);

  ensemble.HoldDeliveries(kServer, false);
  ensemble.Run();
  client.Receive();

  ASSERT_TRUE(client.HasReply(last));
  ASSERT_TRUE(client.HasReply(write));
  EXPECT_EQ(std::get<GetDataResponse>(client.reply(last).body).data.bytes.size(), 600u);
  EXPECT_LT(client.reply(last).header.zxid, client.reply(write).header.zxid);
}

TEST(ServiceBackpressure, TooManyReadsBehindAWritePauseReading) {
  Ensemble ensemble(1);
  ensemble.Elect(kServer);
  TestClient client(&ensemble);
  ASSERT_TRUE(client.Connect(kServer));
  ensemble.HoldDeliveries(kServer, true);
  client.Send(OpCode::kDelete, DeleteRequest{"/nothing", kAnyVersion});
  int32_t last = 0;
  for (int i = 0; i < 100; ++i) last = client.Send(OpCode::kGetData, GetDataRequest{"/", false});
  EXPECT_TRUE(ensemble.paused(client.connection()));
  EXPECT_EQ(ensemble.leader().stats().outstanding_requests, 65u);

  ensemble.HoldDeliveries(kServer, false);
  ensemble.Run();
  client.Receive();
  EXPECT_TRUE(client.HasReply(last));
  EXPECT_FALSE(ensemble.paused(client.connection()));
}

TEST(ServiceBackpressure, AHostThatDoesNotPauseLosesTheConnection) {
  ServiceOptions options;
  options.outstanding_requests_max = 1;
  options.frame_bytes_max = 1000;
  Ensemble ensemble(1, options);
  ensemble.Elect(kServer);
  TestClient client(&ensemble);
  ASSERT_TRUE(client.Connect(kServer));
  ensemble.HoldDeliveries(kServer, true);
  for (int i = 0; i < 2000 && !client.closed(); ++i) {
    client.Send(OpCode::kDelete, DeleteRequest{"/abcdefghijklmnopqrstuvwxyz", kAnyVersion});
  }

  EXPECT_TRUE(client.closed());
}

TEST(ServiceBackpressure, TooManyWatchesCloseTheConnection) {
  ServiceOptions options;
  options.watches_max = 2;
  Ensemble ensemble(1, options);
  ensemble.Elect(kServer);
  TestClient client(&ensemble);
  ASSERT_TRUE(client.Connect(kServer));
  client.Exists("/a", true);
  client.Call(OpCode::kAddWatch, AddWatchRequest{"/a", AddWatchMode::kPersistent});
  EXPECT_FALSE(client.closed());
  client.Call(OpCode::kAddWatch, AddWatchRequest{"/a", AddWatchMode::kPersistentRecursive});

  EXPECT_TRUE(client.closed());
  EXPECT_EQ(ensemble.leader().stats().watches, 0u);
}

}  // namespace
}  // namespace lockstep::coordination
