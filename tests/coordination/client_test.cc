#include "core/coordination/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "tests/coordination/ensemble.h"

namespace lockstep::coordination {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A client machine whose servers are played by hand.
class ClientMachineTest : public ::testing::Test {
 protected:
  ClientMachineTest() { client.Start(now, &out); }

  void Up(int32_t timeout_ms = 9'000, SessionId session = {7}) {
    client.OnConnected(now, out.dials.back().connection, &out);
    Answer(EncodeConnectResponse(
        {.timeout_ms = timeout_ms, .session = session, .password = "0123456789abcdef"}));
  }
  void Answer(Bytes frame) {
    client.OnBytes(now, out.dials.back().connection, std::move(frame), &out);
  }
  void Answer(int32_t xid, ResponseBody body, Zxid zxid = {{1}, 1}) {
    Answer(EncodeReply({.xid = xid, .zxid = zxid}, body));
  }
  void Fail() { client.OnDisconnected(now, out.dials.back().connection, &out); }
  std::optional<uint64_t> Exists(std::string_view path, bool watch = false) {
    return client.Call(now, OpCode::kExists, ExistsRequest{path, watch}, &out);
  }
  Request LastRequest() { return *DecodeRequest(Unframed(out.sends.back().data)); }
  static Bytes Unframed(const Bytes& bytes) { return bytes.Slice(4); }
  void WakeAtDeadline() {
    now = client.next_deadline();
    client.OnWake(now, &out);
  }

  Instant now{1'000'000'000};
  ClientOutput out;
  Client client{{.servers = 3}, RandomStream(1, {1}, 1, 1)};
};

TEST_F(ClientMachineTest, DialsAndAsksForANewSession) {
  ASSERT_THAT(out.dials, SizeIs(1));
  client.OnConnected(now, out.dials[0].connection, &out);
  ConnectRequest request = *DecodeConnectRequest(Unframed(out.sends[0].data));

  EXPECT_EQ(request.session, SessionId{});
  EXPECT_EQ(request.timeout_ms, 10'000);
  EXPECT_EQ(request.password, kNoPassword);
}

TEST_F(ClientMachineTest, TakesTheSessionAndTheTimeoutOfTheServer) {
  Up(9'000, {7});

  EXPECT_EQ(client.state(), ClientState::kConnected);
  EXPECT_EQ(client.session(), SessionId{7});
  EXPECT_EQ(client.timeout_ms(), 9'000);
  EXPECT_THAT(out.states, ElementsAre(ClientState::kConnected));
}

TEST_F(ClientMachineTest, CallsWaitForTheConnectionAndAreAnsweredInOrder) {
  auto a = Exists("/a"), b = Exists("/b");
  EXPECT_THAT(out.sends, IsEmpty());
  Up();
  EXPECT_THAT(out.sends, SizeIs(3));
  Answer(1, StatResponse{});
  Answer(EncodeReply({.xid = 2, .zxid = {{1}, 5}, .error = ErrorCode::kNoNode}));

  ASSERT_THAT(out.completions, SizeIs(2));
  EXPECT_EQ(out.completions[0].call, a);
  EXPECT_EQ(out.completions[1].call, b);
  EXPECT_EQ(out.completions[1].header.error, ErrorCode::kNoNode);
  EXPECT_EQ(client.last_zxid(), (Zxid{{1}, 5}));
}

TEST_F(ClientMachineTest, AReplyOutOfOrderEndsTheConnection) {
  Up();
  Exists("/a");
  Exists("/b");
  Answer(2, StatResponse{});

  EXPECT_EQ(client.state(), ClientState::kConnecting);
  EXPECT_THAT(out.closes, SizeIs(1));
  ASSERT_THAT(out.completions, SizeIs(2));
  EXPECT_EQ(out.completions[0].header.error, ErrorCode::kConnectionLoss);
}

TEST_F(ClientMachineTest, GarbageEndsTheConnection) {
  Up();
  Answer(Bytes::Copy("\xff\xff\xff\xff"));
  EXPECT_THAT(out.closes, SizeIs(1));
  Up();
  Answer(Bytes::Copy(std::string("\0\0\0\1x", 5)));
  EXPECT_THAT(out.closes, SizeIs(2));
  client.OnConnected(now, out.dials.back().connection, &out);
  Answer(Bytes::Copy(std::string("\0\0\0\1x", 5)));
  EXPECT_THAT(out.closes, SizeIs(3));
}

TEST_F(ClientMachineTest, ALostConnectionIsReplacedByOneToTheNextServerWithTheSameSession) {
  Up();
  Exists("/a");
  Answer(1, StatResponse{}, {{2}, 9});
  auto lost = Exists("/b");
  const uint32_t first = out.dials.back().server;
  Fail();

  ASSERT_THAT(out.completions, SizeIs(2));
  EXPECT_EQ(out.completions[1].call, lost);
  EXPECT_EQ(out.completions[1].header.error, ErrorCode::kConnectionLoss);
  ASSERT_THAT(out.dials, SizeIs(2));
  EXPECT_NE(out.dials[1].server, first);
  client.OnConnected(now, out.dials[1].connection, &out);
  ConnectRequest request = *DecodeConnectRequest(Unframed(out.sends.back().data));
  EXPECT_EQ(request.session, SessionId{7});
  EXPECT_EQ(request.password, "0123456789abcdef");
  EXPECT_EQ(request.last_zxid_seen, (Zxid{{2}, 9}));
}

TEST_F(ClientMachineTest, AfterARoundOfFailuresItWaitsLongerEachTime) {
  Duration last{0};
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 3; ++i) Fail();
    const Duration wait = client.next_deadline() - now;
    EXPECT_GE(wait, Milliseconds(50) * (1 << round));
    EXPECT_LE(wait, Milliseconds(100) * (1 << round));
    EXPECT_GE(wait, last);
    last = wait;
    WakeAtDeadline();
  }
  EXPECT_THAT(out.dials, SizeIs(10));
}

TEST_F(ClientMachineTest, ADialThatIsNotAnsweredIsGivenUp) {
  WakeAtDeadline();

  EXPECT_THAT(out.closes, ElementsAre(out.dials[0].connection));
  EXPECT_THAT(out.dials, SizeIs(2));
}

// Seed 813 of `brokers-network`.
TEST_F(ClientMachineTest, AServerThatWasAskedForASessionGetsTheTimeToMakeIt) {
  client.OnConnected(now, out.dials[0].connection, &out);
  const Instant asked = now;
  WakeAtDeadline();

  EXPECT_EQ(now - asked, Milliseconds(10'000));
  EXPECT_THAT(out.closes, SizeIs(1));
  EXPECT_THAT(out.dials, SizeIs(1));  // it waits before it asks another one
  WakeAtDeadline();
  EXPECT_THAT(out.dials, SizeIs(2));
  EXPECT_GE(now - asked, Milliseconds(10'050));
}

TEST_F(ClientMachineTest, WhatComesFromAnOldConnectionIsIgnored) {
  const uint64_t old = out.dials[0].connection;
  Fail();
  client.OnConnected(now, old, &out);
  client.OnBytes(now, old, Bytes::Copy("junk"), &out);
  client.OnDisconnected(now, old, &out);

  EXPECT_THAT(out.sends, IsEmpty());
  EXPECT_THAT(out.dials, SizeIs(2));
}

TEST_F(ClientMachineTest, PingsAnIdleServerAndLeavesASilentOne) {
  Up(9'000);
  const Instant up = now;
  WakeAtDeadline();
  EXPECT_EQ(now - up, Seconds(3));
  EXPECT_EQ(LastRequest().xid, kXidPing);
  WakeAtDeadline();
  EXPECT_EQ(now - up, Seconds(6));

  EXPECT_EQ(client.state(), ClientState::kConnecting);
  EXPECT_THAT(out.closes, SizeIs(1));
}

TEST_F(ClientMachineTest, AnAnsweredPingKeepsTheConnection) {
  Up(9'000);
  for (int i = 0; i < 10; ++i) {
    WakeAtDeadline();
    Answer(kXidPing, EmptyResponse());
  }

  EXPECT_EQ(client.state(), ClientState::kConnected);
}

TEST_F(ClientMachineTest, ARefusedSessionIsExpiredForGood) {
  Up();
  Fail();
  auto waiting = Exists("/a");
  client.OnConnected(now, out.dials.back().connection, &out);
  Answer(EncodeConnectResponse({.password = std::string(kNoPassword)}));

  EXPECT_EQ(client.state(), ClientState::kExpired);
  ASSERT_THAT(out.completions, SizeIs(1));
  EXPECT_EQ(out.completions[0].call, waiting);
  EXPECT_EQ(out.completions[0].header.error, ErrorCode::kSessionExpired);
  EXPECT_EQ(Exists("/a"), std::nullopt);
  EXPECT_EQ(client.next_deadline(), Instant::Never());
}

TEST_F(ClientMachineTest, CloseSendsCloseSessionAndEndsWithItsReply) {
  Up();
  auto call = Exists("/a");
  client.Close(now, &out);
  EXPECT_EQ(LastRequest().op, OpCode::kCloseSession);
  EXPECT_EQ(Exists("/b"), std::nullopt);
  Answer(1, StatResponse{});
  Answer(2, EmptyResponse());

  EXPECT_EQ(client.state(), ClientState::kClosed);
  ASSERT_THAT(out.completions, SizeIs(1));
  EXPECT_EQ(out.completions[0].call, call);
  EXPECT_THAT(out.closes, SizeIs(1));
}

TEST_F(ClientMachineTest, CloseWithoutAConnectionEndsAtOnce) {
  auto call = Exists("/a");
  client.Close(now, &out);

  EXPECT_EQ(client.state(), ClientState::kClosed);
  ASSERT_THAT(out.completions, SizeIs(1));
  EXPECT_EQ(out.completions[0].call, call);
  EXPECT_EQ(client.next_deadline(), Instant::Never());
}

TEST_F(ClientMachineTest, AConnectionLostWhileClosingEndsTheClient) {
  Up();
  client.Close(now, &out);
  Fail();

  EXPECT_EQ(client.state(), ClientState::kClosed);
  EXPECT_THAT(out.dials, SizeIs(1));
}

TEST_F(ClientMachineTest, CallsAreBounded) {
  Client small({.requests_max = 1}, RandomStream(1, {1}, 1, 1));
  small.Start(now, &out);

  EXPECT_NE(small.Call(now, OpCode::kExists, ExistsRequest{"/a"}, &out), std::nullopt);
  EXPECT_EQ(small.Call(now, OpCode::kExists, ExistsRequest{"/a"}, &out), std::nullopt);
}

TEST_F(ClientMachineTest, WatchesAreSetAgainAfterAReconnection) {
  Up();
  Exists("/there", true);
  Exists("/missing", true);
  client.Call(now, OpCode::kGetData, GetDataRequest{"/data", true}, &out);
  client.Call(now, OpCode::kGetChildren, GetChildrenRequest{"/children", true}, &out);
  client.Call(now, OpCode::kGetData, GetDataRequest{"/error", true}, &out);
  Exists("/fired", true);
  Answer(1, StatResponse{});
  Answer(EncodeReply({.xid = 2, .zxid = {{1}, 1}, .error = ErrorCode::kNoNode}));
  Answer(3, GetDataResponse{});
  Answer(4, GetChildrenResponse{});
  Answer(EncodeReply({.xid = 5, .zxid = {{1}, 1}, .error = ErrorCode::kNoNode}));
  Answer(6, StatResponse{});
  Answer(EncodeWatcherEvent(Zxid::FromPacked(~uint64_t{0}),
                            {.type = WatchEventType::kNodeDataChanged, .path = "/fired"}));
  ASSERT_THAT(out.events, SizeIs(1));
  EXPECT_EQ(out.events[0].path, "/fired");
  EXPECT_EQ(client.last_zxid(), (Zxid{{1}, 1}));  // an event has none
  Fail();
  auto after = Exists("/after");
  Up();

  ASSERT_NE(after, std::nullopt);
  // connect request, setWatches, then what waited.
  Request watches = *DecodeRequest(Unframed(out.sends[out.sends.size() - 2].data));
  const auto& body = std::get<SetWatchesRequest>(watches.body);
  EXPECT_EQ(body.relative_zxid, (Zxid{{1}, 1}));
  EXPECT_THAT(body.data, ElementsAre("/data", "/there"));
  EXPECT_THAT(body.exist, ElementsAre("/missing"));
  EXPECT_THAT(body.child, ElementsAre("/children"));
  EXPECT_EQ(LastRequest().op, OpCode::kExists);
}

TEST_F(ClientMachineTest, ManyWatchesAreSetByMoreThanOneRequest) {
  Up();
  const std::string tail(1000, 'x');
  for (int i = 0; i < 300; ++i) {
    Exists("/" + std::to_string(i) + tail, true);
    Answer(i + 1, StatResponse{});
  }
  Fail();
  const size_t before = out.sends.size();
  Up();

  size_t paths = 0;
  EXPECT_EQ(out.sends.size(), before + 1 + 3);
  for (size_t i = before + 1; i < out.sends.size(); ++i) {
    Request request = *DecodeRequest(Unframed(out.sends[i].data));
    paths += std::get<SetWatchesRequest>(request.body).data.size();
  }
  EXPECT_EQ(paths, 300u);
}

TEST_F(ClientMachineTest, PersistentWatchesAreSetAgainUntilTheyAreRemoved) {
  Up();
  const auto persistent = AddWatchMode::kPersistent, recursive = AddWatchMode::kPersistentRecursive;
  int32_t xid = 0;
  for (const auto& [path, mode] : {std::pair("/p", persistent), std::pair("/r", recursive),
                                   std::pair("/gone", persistent), std::pair("/gone", recursive)}) {
    client.Call(now, OpCode::kAddWatch, AddWatchRequest{path, mode}, &out);
    Answer(++xid, AddWatchResponse{});
  }
  Exists("/gone", true);
  Answer(++xid, StatResponse{});
  Answer(EncodeWatcherEvent(Zxid::FromPacked(~uint64_t{0}),
                            {.type = WatchEventType::kNodeDeleted, .path = "/p"}));
  client.Call(now, OpCode::kRemoveWatches, RemoveWatchesRequest{"/gone", WatcherType::kAny}, &out);
  Answer(++xid, EmptyResponse{});
  client.Call(now, OpCode::kRemoveWatches,
              RemoveWatchesRequest{"/r", WatcherType::kPersistentRecursive}, &out);
  Answer(EncodeReply({.xid = ++xid, .zxid = {{1}, 1}, .error = ErrorCode::kNoWatcher}));
  client.Call(now, OpCode::kCheckWatches, RemoveWatchesRequest{"/p", WatcherType::kAny}, &out);
  Answer(++xid, EmptyResponse{});
  ASSERT_THAT(out.completions, SizeIs(xid));
  Fail();
  Up();

  ASSERT_EQ(LastRequest().op, OpCode::kSetWatches2);
  EXPECT_EQ(LastRequest().xid, kXidSetWatches);
  const Request request = LastRequest();
  const auto& body = std::get<SetWatches2Request>(request.body);
  EXPECT_EQ(body.one_shot.relative_zxid, (Zxid{{1}, 1}));
  EXPECT_THAT(body.one_shot.data, IsEmpty());
  EXPECT_THAT(body.persistent, ElementsAre("/p"));
  EXPECT_THAT(body.recursive, ElementsAre("/r"));
}

TEST_F(ClientMachineTest, ServersThatCannotSetItsWatchesAreTriedWithPauses) {
  Up();
  client.Call(now, OpCode::kAddWatch, AddWatchRequest{"/p"}, &out);
  Answer(1, AddWatchResponse{});
  Fail();
  Up();
  const size_t dials = out.dials.size();
  Answer(
      EncodeReply({.xid = kXidSetWatches, .zxid = {{1}, 1}, .error = ErrorCode::kUnimplemented}));

  EXPECT_THAT(out.closes, SizeIs(1));
  EXPECT_THAT(out.dials, SizeIs(dials));
  WakeAtDeadline();
  EXPECT_THAT(out.dials, SizeIs(dials + 1));
}

// The machine against real services.
class ClientAgainstServices : public ::testing::Test {
 protected:
  void SetUp() override {
    ensemble.Elect({1});
    client.Start(ensemble.now(), &out);
    Carry();
    ASSERT_EQ(client.state(), ClientState::kConnected);
  }

  // Carries everything to and fro until nothing moves.
  void Carry() {
    for (bool more = true; more;) {
      const ClientOutput taken{.dials = std::exchange(out.dials, {}),
                               .sends = std::exchange(out.sends, {})};
      for (const ClientOutput::Dial& dial : taken.dials) {
        server = {dial.server + 1};
        link = dial.connection;
        connection = ensemble.Accept(server);
        client.OnConnected(ensemble.now(), link, &out);
      }
      for (const ClientOutput::Send& send : taken.sends) {
        ensemble.Send(server, connection, send.data);
      }
      ensemble.Run();
      std::vector<Bytes> frames = ensemble.TakeFrames(connection);
      for (const Bytes& frame : frames) client.OnBytes(ensemble.now(), link, Framed(frame), &out);
      more = !taken.dials.empty() || !taken.sends.empty() || !frames.empty();
    }
  }
  static Bytes Framed(const Bytes& frame) {
    return Bytes::Build(frame.size() + 4, [&](char* to) {
      for (int shift = 24; shift >= 0; shift -= 8) *to++ = static_cast<char>(frame.size() >> shift);
      std::copy(frame.view().begin(), frame.view().end(), to);
    });
  }
  void Call(OpCode op, const RequestBody& body) {
    client.Call(ensemble.now(), op, body, &out);
    Carry();
  }

  Ensemble ensemble{2};
  Client client{{.servers = 2}, RandomStream(1, {1}, 1, 1)};
  ClientOutput out;
  ServerId server;
  ConnectionId connection;
  uint64_t link = 0;
};

TEST_F(ClientAgainstServices, KeepsItsSessionAndItsWatchesWhenItMoves) {
  const SessionId session = client.session();
  const ServerId first = server;
  Call(OpCode::kCreate, CreateRequest{.path = "/e", .acl = kOpenAcl, .flags = 1});
  Call(OpCode::kExists, ExistsRequest{"/e", true});
  ensemble.CloseByClient(server, connection);
  TestClient other(&ensemble);
  ASSERT_TRUE(other.Connect(first));
  other.Set("/e", "changed while the client was away");
  client.OnDisconnected(ensemble.now(), link, &out);
  Carry();

  EXPECT_NE(server, first);
  EXPECT_EQ(client.state(), ClientState::kConnected);
  EXPECT_EQ(client.session(), session);
  ASSERT_THAT(out.events, SizeIs(1));
  EXPECT_EQ(out.events[0].type, WatchEventType::kNodeDataChanged);
  EXPECT_NE(ensemble.leader().tree().Find("/e"), nullptr);
}

TEST_F(ClientAgainstServices, KeepsItsPersistentWatchesWhenItMoves) {
  const ServerId first = server;
  Call(OpCode::kAddWatch, AddWatchRequest{"/", AddWatchMode::kPersistentRecursive});
  Call(OpCode::kAddWatch, AddWatchRequest{"/p", AddWatchMode::kPersistent});
  ensemble.CloseByClient(server, connection);
  client.OnDisconnected(ensemble.now(), link, &out);
  Carry();
  ASSERT_NE(server, first);
  TestClient other(&ensemble);
  ASSERT_TRUE(other.Connect(first));
  other.Create("/p");
  other.Create("/p/c");
  other.Set("/p/c", "x");
  Carry();

  std::vector<std::string> events;
  for (const ClientOutput::Event& event : out.events) {
    events.push_back(std::to_string(static_cast<int32_t>(event.type)) + " " + event.path);
  }
  EXPECT_THAT(events, ElementsAre("1 /p", "1 /p/c", "4 /p", "3 /p/c"));
}

TEST_F(ClientAgainstServices, CloseEndsTheSessionOfTheEnsemble) {
  client.Close(ensemble.now(), &out);
  Carry();

  EXPECT_EQ(client.state(), ClientState::kClosed);
  EXPECT_THAT(ensemble.leader().tree().sessions(), IsEmpty());
}

TEST_F(ClientAgainstServices, LearnsThatItsSessionHasExpired) {
  ensemble.CloseByClient(server, connection);
  ensemble.Advance(Seconds(20));
  client.OnDisconnected(ensemble.now(), link, &out);
  Carry();

  EXPECT_EQ(client.state(), ClientState::kExpired);
}

}  // namespace
}  // namespace lockstep::coordination
