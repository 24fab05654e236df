// multi and multiRead, from the bytes of a request to those of its reply.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <deque>
#include <map>
#include <utility>

#include "core/coordination/client.h"
#include "core/coordination/prepare.h"
#include "tests/coordination/ensemble.h"

namespace lockstep::coordination {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

using Operation = MultiRequest::Operation;
using Result = MultiResponse::Result;

constexpr ServerId kLeader{1}, kFollower{2};

Data DataOf(std::string_view text) { return {Bytes::Copy(text), false}; }
Operation CreateOf(std::string_view path, int32_t flags = 0, OpCode op = OpCode::kCreate) {
  return {op, CreateRequest{path, DataOf("x"), kOpenAcl, flags}};
}
Operation DeleteOf(std::string_view path, int32_t version = kAnyVersion) {
  return {OpCode::kDelete, DeleteRequest{path, version}};
}
Operation SetOf(std::string_view path, std::string_view data, int32_t version = kAnyVersion) {
  return {OpCode::kSetData, SetDataRequest{path, DataOf(data), version}};
}
Operation CheckOf(std::string_view path, int32_t version) {
  return {OpCode::kCheck, CheckVersionRequest{path, version}};
}
Result ErrorOf(ErrorCode error) { return {OpCode::kError, ErrorResponse{error}}; }

Bytes FromHex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return Bytes::Copy(bytes);
}
Bytes Unframed(const Bytes& bytes) { return bytes.Slice(4); }

// ---- Bytes: what ZooKeeper 3.8 takes and answers -----------------------------------------------

TEST(MultiProtocol, ARequestIsKazoos) {
  const Bytes bytes = FromHex(
      "000000010000000e0000000100ffffffff000000022f610000000178000000010000001f00000005776f726c6400"
      "000006616e796f6e65000000000000000f00ffffffff000000052f612f732d0000000178000000010000001f0000"
      "0005776f726c6400000006616e796f6e65000000020000000500ffffffff000000022f61000000027a7a00000000"
      "0000000d00ffffffff000000022f61000000010000000200ffffffff0000000f2f612f732d303030303030303030"
      "30ffffffffffffffff01ffffffff");
  const MultiRequest multi{{CreateOf("/a"),
                            CreateOf("/a/s-", CreateRequest::kSequential, OpCode::kCreate2),
                            SetOf("/a", "zz", 0), CheckOf("/a", 1), DeleteOf("/a/s-0000000000")}};

  absl::StatusOr<Request> request = DecodeRequest(bytes);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->op, OpCode::kMulti);
  EXPECT_TRUE(request->body == RequestBody(multi));
  EXPECT_EQ(Unframed(EncodeRequest(1, OpCode::kMulti, multi)), bytes);
}

TEST(MultiProtocol, AReplyIsZooKeepers) {
  const Bytes bytes = FromHex(
      "00000001000000000000000200000000000000010000000000000000022f610000000100000000000000000f2f61"
      "2f732d3030303030303030303000000005000000000000000000000000020000000000000002000001a22b90ad73"
      "000001a22b90ad730000000100000001000000000000000000000000000000020000000100000000000000020000"
      "000d0000000000000000020000000000ffffffff01ffffffff");
  const Stat stat{.czxid = {{0}, 2},
                  .mzxid = {{0}, 2},
                  .ctime_ms = 0x1a22b90ad73,
                  .mtime_ms = 0x1a22b90ad73,
                  .version = 1,
                  .cversion = 1,
                  .data_length = 2,
                  .num_children = 1,
                  .pzxid = {{0}, 2}};
  const MultiResponse multi{{{OpCode::kCreate, PathResponse{"/a"}},
                             {OpCode::kCreate, PathResponse{"/a/s-0000000000"}},
                             {OpCode::kSetData, StatResponse{stat}},
                             {OpCode::kCheck, EmptyResponse()},
                             {OpCode::kDelete, EmptyResponse()}}};

  absl::StatusOr<ResponseBody> body = DecodeResponse(OpCode::kMulti, bytes);
  ASSERT_TRUE(body.ok());
  EXPECT_TRUE(*body == ResponseBody(multi));
  EXPECT_EQ(Unframed(EncodeReply({.xid = 1, .zxid = {{0}, 2}}, multi)), bytes);
}

TEST(MultiProtocol, ARefusalIsZooKeepers) {
  const Bytes bytes = FromHex(
      "00000002000000000000000300000000ffffffff000000000000000000ffffffff00ffffff99ffffff99ffffffff"
      "00fffffffefffffffeffffffff01ffffffff");
  const MultiResponse multi{{ErrorOf(ErrorCode::kOk), ErrorOf(ErrorCode::kBadVersion),
                             ErrorOf(ErrorCode::kRuntimeInconsistency)}};

  EXPECT_TRUE(*DecodeResponse(OpCode::kMulti, bytes) == ResponseBody(multi));
  EXPECT_EQ(Unframed(EncodeReply({.xid = 2, .zxid = {{0}, 3}}, multi)), bytes);
}

TEST(MultiProtocol, AMultiReadIsZooKeepers) {
  const Bytes bytes = FromHex(
      "00000005000000160000000400ffffffff000000022f61000000000800ffffffff000000012f000000000400ffff"
      "ffff000000052f6e6f6e6500ffffffff01ffffffff");
  const MultiReadRequest request{{{OpCode::kGetData, GetDataRequest{"/a"}},
                                  {OpCode::kGetChildren, GetChildrenRequest{"/"}},
                                  {OpCode::kGetData, GetDataRequest{"/none"}}}};
  const Bytes reply = FromHex(
      "00000005000000000000000500000000000000080000000000000000020000000161000000097a6f6f6b65657065"
      "72ffffffff00ffffff9bffffff9bffffffff01ffffffff");
  const MultiResponse response{{{OpCode::kGetChildren, GetChildrenResponse{{"a", "zookeeper"}}},
                                ErrorOf(ErrorCode::kNoNode)}};

  EXPECT_TRUE(DecodeRequest(bytes)->body == RequestBody(request));
  EXPECT_EQ(Unframed(EncodeRequest(5, OpCode::kMultiRead, request)), bytes);
  EXPECT_TRUE(*DecodeResponse(OpCode::kMultiRead, reply) == ResponseBody(response));
  EXPECT_EQ(Unframed(EncodeReply({.xid = 5, .zxid = {{0}, 5}}, response)), reply);
}

TEST(MultiProtocol, NoCutDecodes) {
  const Bytes request =
      Unframed(EncodeRequest(1, OpCode::kMulti, MultiRequest{{CreateOf("/a"), CheckOf("/a", 0)}}));
  for (size_t size = 8; size < request.size(); ++size) {
    EXPECT_FALSE(DecodeRequest(request.Slice(0, size)).ok()) << size;
  }
  const Bytes reply = Unframed(EncodeReply(
      {}, MultiResponse{{{OpCode::kCreate, PathResponse{"/a"}}, ErrorOf(ErrorCode::kNoNode)}}));
  for (size_t size = 16; size < reply.size(); ++size) {
    EXPECT_FALSE(DecodeResponse(OpCode::kMulti, reply.Slice(0, size)).ok()) << size;
  }
}

TEST(MultiProtocol, ReadsAndWritesDoNotMix) {
  const Bytes reads = EncodeRequest(1, OpCode::kMultiRead,
                                    MultiReadRequest{{{OpCode::kGetData, GetDataRequest{"/a"}}}});
  const Bytes writes = EncodeRequest(1, OpCode::kMulti, MultiRequest{{DeleteOf("/a")}});
  for (auto [bytes, op] : {std::pair(reads, 14), std::pair(writes, 22)}) {
    std::string other(Unframed(bytes).view());
    other[7] = static_cast<char>(op);
    EXPECT_FALSE(DecodeRequest(Bytes::Copy(other)).ok());
  }
}

// ---- Prepare and apply --------------------------------------------------------------------------

constexpr SessionId kA{1}, kB{2};

class MultiPreparerTest : public ::testing::Test {
 protected:
  explicit MultiPreparerTest(Rules rules = {}) : preparer(&tree, rules, 40) {
    for (SessionId session : {kA, kB}) {
      preparer.PrepareOther();
      in_flight.push_back({{.session = session},
                           CreateSessionTransaction{.timeout_ms = 1, .password = "password"}});
    }
    DeliverAll();
  }

  void Propose(SessionId session, const Request& request) {
    in_flight.push_back(
        {{.session = session}, preparer.Prepare(session, ephemeral_bytes[session], request)});
    for (const auto& [owner, change] : preparer.last_ephemeral_bytes()) {
      ephemeral_bytes[owner] += static_cast<uint64_t>(change);
    }
  }
  // The error of the refused operation, and which it is.
  std::pair<ErrorCode, uint32_t> Multi(std::vector<Operation> operations, SessionId session = kA) {
    Request request{.op = OpCode::kMulti, .body = MultiRequest{std::move(operations)}};
    Propose(session, request);
    const auto* error = std::get_if<MultiErrorTransaction>(&in_flight.back().body);
    if (error == nullptr) return {ErrorCode::kOk, 0};
    return {error->error, error->operation};
  }
  ErrorCode One(Operation operation, SessionId session = kA) {
    Request request{.op = operation.op};
    std::visit(
        [&](auto& body) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(body)>, CheckVersionRequest>) {
            request.body = body;
          }
        },
        operation.body);
    Propose(session, request);
    const auto* error = std::get_if<ErrorTransaction>(&in_flight.back().body);
    return error == nullptr ? ErrorCode::kOk : error->error;
  }
  std::string LastPath() { return std::get<CreateTransaction>(in_flight.back().body).path; }
  std::vector<std::string> Close(SessionId session) {
    CloseSessionTransaction close = preparer.PrepareClose(session);
    in_flight.push_back({{.session = session}, close});
    return close.paths_to_delete;
  }
  Applied Deliver() {
    // Over the bytes, as in life.
    DecodedTransaction oldest =
        *DecodeTransaction(EncodeTransaction(in_flight.front().header, in_flight.front().body));
    Applied applied = tree.Apply({{1}, ++counter}, oldest.header, oldest.body);
    preparer.OnDelivered();
    in_flight.pop_front();
    return applied;
  }
  void DeliverAll() {
    while (!in_flight.empty()) Deliver();
  }

  Tree tree;
  Preparer preparer;
  std::deque<DecodedTransaction> in_flight;
  std::map<SessionId, uint64_t> ephemeral_bytes;
  uint32_t counter = 0;
};

const std::pair<ErrorCode, uint32_t> kOk{ErrorCode::kOk, 0};

TEST_F(MultiPreparerTest, AnOperationMeetsTheEffectsOfThoseBeforeIt) {
  EXPECT_EQ(Multi({CreateOf("/p"), CreateOf("/p/n-", CreateRequest::kSequential),
                   CreateOf("/p/n-", CreateRequest::kSequential), SetOf("/p", "y", 0),
                   CheckOf("/p", 1), DeleteOf("/p/n-0000000000"), CreateOf("/p/n-0000000000")}),
            kOk);
  const Applied applied = Deliver();

  EXPECT_THAT(tree.Find("/p")->ChildNames(), ElementsAre("n-0000000000", "n-0000000001"));
  EXPECT_EQ(tree.Find("/p")->stat().version, 1);
  ASSERT_THAT(applied.results, SizeIs(7));
  EXPECT_EQ(applied.results[2].path, "/p/n-0000000001");
  // As of the operation, not as of the end.
  EXPECT_EQ(applied.results[0].stat.num_children, 0);
  EXPECT_EQ(applied.results[3].stat.num_children, 2);
  EXPECT_EQ(applied.results[3].stat.version, 1);
  EXPECT_THAT(applied.changes, SizeIs(6));
}

TEST_F(MultiPreparerTest, TheFirstOperationThatFailsIsNamed) {
  One(CreateOf("/a"));
  EXPECT_EQ(Multi({CreateOf("/b"), CheckOf("/a", 3), DeleteOf("/none")}),
            std::pair(ErrorCode::kBadVersion, 1u));
  EXPECT_EQ(Multi({CheckOf("/none", 0)}), std::pair(ErrorCode::kNoNode, 0u));
  EXPECT_EQ(Multi({CheckOf("bad", 0)}), std::pair(ErrorCode::kBadArguments, 0u));
  EXPECT_EQ(Multi({CreateOf("/b"), CreateOf("/b")}), std::pair(ErrorCode::kNodeExists, 1u));
  EXPECT_EQ(Multi({CreateOf("/b"), CreateOf("/b/c"), DeleteOf("/b")}),
            std::pair(ErrorCode::kNotEmpty, 2u));
  EXPECT_EQ(Multi({CreateOf("/e", CreateRequest::kEphemeral), CreateOf("/e/c")}),
            std::pair(ErrorCode::kNoChildrenForEphemerals, 1u));
  EXPECT_EQ(Multi({DeleteOf("/a"), SetOf("/a", "y")}), std::pair(ErrorCode::kNoNode, 1u));
  DeliverAll();

  EXPECT_EQ(tree.Find("/b"), nullptr);
  EXPECT_NE(tree.Find("/a"), nullptr);
}

TEST_F(MultiPreparerTest, ARefusedMultiLeavesNothingPending) {
  One(CreateOf("/p"));
  DeliverAll();
  // One change of the parent is in flight already: that is what has to come back.
  One(CreateOf("/p/n-", CreateRequest::kSequential));
  Multi({CreateOf("/p/n-", CreateRequest::kSequential), SetOf("/p", "y", 0), CreateOf("/q"),
         CreateOf("/e", CreateRequest::kEphemeral), DeleteOf("/none")});

  EXPECT_THAT(preparer.last_ephemeral_bytes(), IsEmpty());
  One(CreateOf("/p/n-", CreateRequest::kSequential));
  EXPECT_EQ(LastPath(), "/p/n-0000000001");
  EXPECT_EQ(One(SetOf("/p", "y", 0)), ErrorCode::kOk);
  EXPECT_EQ(One(DeleteOf("/q")), ErrorCode::kNoNode);
  EXPECT_THAT(Close(kA), IsEmpty());
  DeliverAll();
  EXPECT_EQ(tree.Find("/q"), nullptr);
  EXPECT_EQ(preparer.in_flight(), 0u);
}

TEST_F(MultiPreparerTest, ARefusedMultiForgetsNothingOfWhatWasInFlight) {
  One(CreateOf("/e", CreateRequest::kEphemeral));
  Multi({DeleteOf("/e"), CreateOf("/e", CreateRequest::kEphemeral), DeleteOf("/none")});
  Deliver();
  One(CreateOf("/e2", CreateRequest::kEphemeral));

  EXPECT_THAT(Close(kA), ElementsAre("/e", "/e2"));
  DeliverAll();
  EXPECT_EQ(tree.ephemeral_count(), 0u);
}

TEST_F(MultiPreparerTest, ClosingASessionDeletesTheEphemeralsOfAMultiInFlight) {
  One(CreateOf("/old", CreateRequest::kEphemeral));
  DeliverAll();
  Multi({DeleteOf("/old"), CreateOf("/a", CreateRequest::kEphemeral),
         CreateOf("/b", CreateRequest::kEphemeral), CreateOf("/c", CreateRequest::kEphemeral),
         DeleteOf("/c")});

  EXPECT_THAT(Close(kA), ElementsAre("/a", "/b"));
  DeliverAll();
  EXPECT_EQ(tree.ephemeral_count(), 0u);
}

TEST_F(MultiPreparerTest, EphemeralBytesOfAMultiCountTogether) {
  EXPECT_EQ(Multi({CreateOf("/a", CreateRequest::kEphemeral),
                   CreateOf("/bc", CreateRequest::kEphemeral), DeleteOf("/a")}),
            kOk);
  EXPECT_THAT(preparer.last_ephemeral_bytes(), ElementsAre(Pair(kA, 3)));
  const std::string twenty(20, 'x');
  EXPECT_EQ(Multi({CreateOf("/" + twenty, CreateRequest::kEphemeral),
                   CreateOf("/y" + twenty, CreateRequest::kEphemeral)}),
            std::pair(ErrorCode::kQuotaExceeded, 1u));
}

TEST_F(MultiPreparerTest, AnEmptyMultiIsOne) {
  EXPECT_EQ(Multi({}), kOk);
  EXPECT_THAT(Deliver().results, IsEmpty());
  EXPECT_EQ(tree.last_zxid().counter, counter);
}

// Whatever multis are refused, what follows is judged as if they had never been sent.
TEST(MultiPreparer, RefusedMultisChangeNothing) {
  EXPECT_TRUE(rc::check([] {
    Tree with_tree, without_tree;
    Preparer with(&with_tree, Rules(), 1000), without(&without_tree, Rules(), 1000);
    const char* const paths[] = {"/a", "/b", "/a/c", "/b/c", "/a/c/d"};
    auto draw = [&]() -> Operation {
      const std::string_view path = paths[*rc::gen::inRange(0, 5)];
      switch (*rc::gen::inRange(0, 5)) {
        case 0:
          return CreateOf(path);
        case 1:
          return CreateOf(path, CreateRequest::kSequential);
        case 2:
          return DeleteOf(path);
        case 3:
          return SetOf(path, "y", *rc::gen::inRange(-1, 2));
        default:
          return CheckOf(path, *rc::gen::inRange(-1, 2));
      }
    };
    std::deque<TransactionBody> flying;
    uint32_t with_count = 0, without_count = 0;
    const auto deliver = [&] {
      const bool refused = std::holds_alternative<MultiErrorTransaction>(flying.front());
      with_tree.Apply({{1}, ++with_count}, {}, flying.front());
      with.OnDelivered();
      if (!refused) {
        without_tree.Apply({{1}, ++without_count}, {}, flying.front());
        without.OnDelivered();
      }
      flying.pop_front();
    };
    for (int i = 0; i < 40; ++i) {
      MultiRequest multi;
      for (int size = *rc::gen::inRange(1, 5); size > 0; --size) {
        multi.operations.push_back(draw());
      }
      flying.push_back(with.Prepare(kA, 0, {.op = OpCode::kMulti, .body = multi}));
      if (!std::holds_alternative<MultiErrorTransaction>(flying.back())) {
        RC_ASSERT(without.Prepare(kA, 0, {.op = OpCode::kMulti, .body = multi}) == flying.back());
      }
      if (*rc::gen::inRange(0, 3) == 0) deliver();
    }
    while (!flying.empty()) deliver();
    RC_ASSERT(with_tree.node_count() == without_tree.node_count());
  }));
}

// ---- Transactions -------------------------------------------------------------------------------

std::vector<TransactionBody> MultiTransactions() {
  return {MultiTransaction{{CreateTransaction{.path = "/a", .parent_cversion = 1},
                            DeleteTransaction{"/b"}, SetDataTransaction{.path = "/a", .version = 1},
                            CheckVersionTransaction{"/c", 4}}},
          MultiTransaction{}, MultiErrorTransaction{ErrorCode::kBadVersion, 3}};
}

TEST(MultiTransactionBytes, ComeBackAsTheyWentAndNoCutDecodes) {
  for (const TransactionBody& body : MultiTransactions()) {
    const Bytes bytes = EncodeTransaction({.session = kA}, body);
    ASSERT_TRUE(DecodeTransaction(bytes).ok()) << body.index();
    EXPECT_TRUE(DecodeTransaction(bytes)->body == body) << body.index();
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(DecodeTransaction(bytes.Slice(0, size)).ok()) << body.index() << " " << size;
    }
  }
}

TEST(MultiTransactionBytes, OnlyOperationsMayBeInAMulti) {
  const Bytes bytes = EncodeTransaction({}, MultiTransaction{{DeleteTransaction{"/b"}}});
  std::string other(bytes.view());
  const size_t kind = 1 + 8 + 4 + 8 + 4 + 8 + 1 + 4;
  ASSERT_EQ(other[kind], 2);
  for (char bad : {0, 4, 5, 6, 7, 9, 10}) {
    other[kind] = bad;
    EXPECT_FALSE(DecodeTransaction(Bytes::Copy(other)).ok()) << int{bad};
  }
}

TEST(MultiTransactionBytes, ImpossibleContentIsRefused) {
  for (const TransactionBody& body : std::vector<TransactionBody>{
           MultiTransaction{{CheckVersionTransaction{"a", 0}}},
           MultiTransaction{{CheckVersionTransaction{"/a", 0}, DeleteTransaction{"/a/"}}},
           MultiErrorTransaction{ErrorCode::kOk, 0}}) {
    EXPECT_FALSE(DecodeTransaction(EncodeTransaction({}, body)).ok());
  }
}

// ---- Service ------------------------------------------------------------------------------------

class MultiServiceTest : public ::testing::Test {
 protected:
  MultiServiceTest() {
    ensemble.Elect(kLeader);
    EXPECT_TRUE(client.Connect(kFollower));
  }
  TestClient::Reply Multi(std::vector<Operation> operations) {
    return client.Call(OpCode::kMulti, MultiRequest{std::move(operations)});
  }
  static const std::vector<Result>& ResultsOf(const TestClient::Reply& reply) {
    return std::get<MultiResponse>(reply.body).results;
  }
  Ensemble ensemble{3};
  TestClient client{&ensemble};
};

TEST_F(MultiServiceTest, AnswersOneResultPerOperationAtOneZxid) {
  const TestClient::Reply reply =
      Multi({CreateOf("/a"), CreateOf("/a/s-", CreateRequest::kSequential, OpCode::kCreate2),
             SetOf("/a", "yy"), CheckOf("/a", 1), DeleteOf("/a/s-0000000000")});

  EXPECT_EQ(reply.header.error, ErrorCode::kOk);
  EXPECT_EQ(reply.header.zxid, ensemble.log().back().first);
  const std::vector<Result>& results = ResultsOf(reply);
  ASSERT_THAT(results, SizeIs(5));
  EXPECT_EQ(std::get<PathResponse>(results[0].body).path, "/a");
  EXPECT_EQ(std::get<Create2Response>(results[1].body).path, "/a/s-0000000000");
  EXPECT_EQ(std::get<Create2Response>(results[1].body).stat.czxid, reply.header.zxid);
  EXPECT_EQ(std::get<StatResponse>(results[2].body).stat.version, 1);
  EXPECT_EQ(std::get<StatResponse>(results[2].body).stat.num_children, 1);
  EXPECT_EQ(results[3], (Result{OpCode::kCheck, EmptyResponse()}));
  EXPECT_EQ(results[4], (Result{OpCode::kDelete, EmptyResponse()}));
  EXPECT_EQ(client.Get("/a"), "yy");
}

TEST_F(MultiServiceTest, ARefusalNamesTheOperationAndNothingHappens) {
  const TestClient::Reply reply = Multi({CreateOf("/a"), CheckOf("/none", 7), DeleteOf("/a")});

  EXPECT_EQ(reply.header.error, ErrorCode::kOk);
  EXPECT_EQ(reply.header.zxid, ensemble.log().back().first);
  EXPECT_THAT(ResultsOf(reply), ElementsAre(ErrorOf(ErrorCode::kOk), ErrorOf(ErrorCode::kNoNode),
                                            ErrorOf(ErrorCode::kRuntimeInconsistency)));
  EXPECT_EQ(client.Exists("/a"), ErrorCode::kNoNode);
}

TEST_F(MultiServiceTest, AnEmptyMultiHasNoResults) { EXPECT_THAT(ResultsOf(Multi({})), IsEmpty()); }

TEST_F(MultiServiceTest, AMalformedMultiIsAMarshallingErrorInItsPlace) {
  client.SendBare(14);
  const int32_t next = client.Send(OpCode::kMulti, MultiRequest{{CreateOf("/a")}});
  ensemble.Run();
  client.Receive();

  EXPECT_EQ(client.CallBare(14).header.error, ErrorCode::kMarshallingError);
  EXPECT_THAT(ResultsOf(client.reply(next)), SizeIs(1));
}

TEST_F(MultiServiceTest, CheckAloneIsUnimplemented) {
  EXPECT_EQ(client.CallBare(13).header.error, ErrorCode::kUnimplemented);
}

TEST_F(MultiServiceTest, PermissionsAreThoseOfTheSingleOperations) {
  const auto with = [](std::string_view path, int32_t permissions) -> Operation {
    return {OpCode::kCreate,
            CreateRequest{path, {}, {{permissions, "world", "anyone"}}, CreateRequest::kEphemeral}};
  };
  Multi({with("/write-only", 2), with("/read-only", 1)});

  EXPECT_EQ(ResultsOf(Multi({CheckOf("/write-only", 0)}))[0], ErrorOf(ErrorCode::kNoAuth));
  EXPECT_EQ(ResultsOf(Multi({CheckOf("/read-only", 0)}))[0].op, OpCode::kCheck);
  EXPECT_EQ(ResultsOf(Multi({SetOf("/read-only", "x")}))[0], ErrorOf(ErrorCode::kNoAuth));
  EXPECT_EQ(ResultsOf(Multi({{OpCode::kCreate, CreateRequest{"/no-acl"}}}))[0],
            ErrorOf(ErrorCode::kInvalidAcl));
}

TEST_F(MultiServiceTest, EventsLeaveInTheOrderOfTheOperationsAndBeforeTheReply) {
  for (const char* path : {"/a", "/b"}) client.Create(path);
  client.Exists("/new", true);
  client.Get("/b", true);
  client.Get("/a", true);
  client.TakeSeen();
  Multi({SetOf("/a", "1"), CreateOf("/new"), DeleteOf("/b"), SetOf("/a", "2")});

  std::vector<std::string> seen = client.TakeSeen();
  ASSERT_THAT(seen, SizeIs(4));
  EXPECT_EQ(seen[0], "event 3 /a");
  EXPECT_EQ(seen[1], "event 1 /new");
  EXPECT_EQ(seen[2], "event 2 /b");
}

TEST_F(MultiServiceTest, AllServersReachTheSameState) {
  Multi({CreateOf("/a"), CreateOf("/a/e", CreateRequest::kEphemeral), SetOf("/a", "y")});
  Multi({DeleteOf("/a/e"), SetOf("/none", "y")});
  client.Call(OpCode::kCloseSession, CloseSessionRequest());

  const Tree& leader = ensemble.leader().tree();
  EXPECT_EQ(leader.ephemeral_count(), 0u);
  EXPECT_EQ(ensemble.service(kFollower).tree().digest(), leader.digest());
}

TEST_F(MultiServiceTest, MultiReadAnswersEachOperationByItself) {
  client.Create("/a", 0, "data");
  const TestClient::Reply reply =
      client.Call(OpCode::kMultiRead,
                  MultiReadRequest{{{OpCode::kGetData, GetDataRequest{"/none"}},
                                    {OpCode::kGetData, GetDataRequest{"/a"}},
                                    {OpCode::kGetChildren, GetChildrenRequest{"/", true}}}});

  EXPECT_EQ(reply.header.error, ErrorCode::kOk);
  const std::vector<Result>& results = ResultsOf(reply);
  ASSERT_THAT(results, SizeIs(3));
  EXPECT_EQ(results[0], ErrorOf(ErrorCode::kNoNode));
  EXPECT_EQ(std::get<GetDataResponse>(results[1].body).data.bytes.view(), "data");
  EXPECT_THAT(std::get<GetChildrenResponse>(results[2].body).children,
              ElementsAre("a", "zookeeper"));
  client.TakeSeen();
  client.Create("/b");
  EXPECT_EQ(client.TakeSeen()[0], "event 4 /");
}

TEST_F(MultiServiceTest, TheAnswerOfAMultiReadIsBounded) {
  client.Create("/big", 0, std::string(500'000, 'x'));
  MultiReadRequest request;
  request.operations.resize(1'000, {OpCode::kGetData, GetDataRequest{"/big"}});
  const TestClient::Reply reply = client.Call(OpCode::kMultiRead, request);

  ASSERT_THAT(ResultsOf(reply), SizeIs(1'000));
  EXPECT_LT(reply.frame.size(), size_t{5} << 20);
  EXPECT_EQ(ResultsOf(reply)[8].op, OpCode::kGetData);
  EXPECT_EQ(ResultsOf(reply)[9], ErrorOf(ErrorCode::kQuotaExceeded));
}

// What comes behind a refused multi meets a part of it (ZOOKEEPER-1624): here the sequence number.
TEST(Rules, RollBackFailedMultis) {
  for (bool rule : {true, false}) {
    Rules rules;
    rules.roll_back_failed_multis = rule;
    Tree tree;
    Preparer preparer(&tree, rules, 1'000);
    const Operation create = CreateOf("/n-", CreateRequest::kSequential);
    preparer.Prepare(kA, 0,
                     {.op = OpCode::kMulti, .body = MultiRequest{{create, DeleteOf("/none")}}});
    TransactionBody next = preparer.Prepare(
        kA, 0, {.op = OpCode::kCreate, .body = std::get<CreateRequest>(create.body)});
    EXPECT_EQ(std::get<CreateTransaction>(next).path, rule ? "/n-0000000000" : "/n-0000000001");
  }
}

// ---- The client machine -------------------------------------------------------------------------

TEST(ClientMachineMulti, CarriesMultisAndMultiReads) {
  Instant now{1'000'000'000};
  ClientOutput out;
  Client client({.servers = 1}, RandomStream(1, {1}, 1, 1));
  client.Start(now, &out);
  client.OnConnected(now, 1, &out);
  client.OnBytes(
      now, 1,
      EncodeConnectResponse({.timeout_ms = 9'000, .session = {7}, .password = "0123456789abcdef"}),
      &out);
  const MultiRequest multi{{CreateOf("/a"), CheckOf("/a", 0)}};
  const MultiReadRequest reads{{{OpCode::kGetData, GetDataRequest{"/a"}}}};
  auto write = client.Call(now, OpCode::kMulti, multi, &out);
  auto read = client.Call(now, OpCode::kMultiRead, reads, &out);
  ASSERT_TRUE(write && read);
  EXPECT_TRUE(DecodeRequest(Unframed(out.sends[1].data))->body == RequestBody(multi));
  EXPECT_TRUE(DecodeRequest(Unframed(out.sends[2].data))->body == RequestBody(reads));

  const MultiResponse refused{
      {ErrorOf(ErrorCode::kNodeExists), ErrorOf(ErrorCode::kRuntimeInconsistency)}};
  const MultiResponse answer{{ErrorOf(ErrorCode::kNoNode)}};
  client.OnBytes(now, 1, EncodeReply({.xid = 1, .zxid = {{1}, 1}}, refused), &out);
  client.OnBytes(now, 1, EncodeReply({.xid = 2, .zxid = {{1}, 1}}, answer), &out);
  ASSERT_THAT(out.completions, SizeIs(2));
  EXPECT_EQ(out.completions[0].call, *write);
  EXPECT_EQ(out.completions[0].header.error, ErrorCode::kOk);
  EXPECT_TRUE(out.completions[0].body == ResponseBody(refused));
  EXPECT_TRUE(out.completions[1].body == ResponseBody(answer));
}

}  // namespace
}  // namespace lockstep::coordination
