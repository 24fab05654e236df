#include "core/coordination/protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <utility>

#include "core/base/frame_cutter.h"
#include "core/coordination/path.h"

namespace lockstep::coordination {
namespace {

using ::testing::ElementsAre;

Bytes FromHex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return Bytes::Copy(bytes);
}

// The only frame of `bytes`.
Bytes Unframed(const Bytes& bytes) {
  FrameCutter cutter(1 << 20);
  cutter.Add(bytes);
  absl::StatusOr<std::optional<Bytes>> frame = cutter.Next();
  EXPECT_TRUE(frame.ok() && frame->has_value());
  EXPECT_EQ(cutter.buffered(), 0u);
  return **frame;
}

const std::vector<Acl> kOpen = {{.permissions = 31, .scheme = "world", .id = "anyone"}};

// ---- Requests: what kazoo's serializers write --------------------------------------------------

TEST(ClientProtocol, ConnectRequestIsKazoos) {
  const Bytes bytes = FromHex(
      "0000002d00000000000000010000000500002710000000000000123400000010000102030405060708090a0b0c0d"
      "0e0f00");
  std::string password;
  for (char c = 0; c < 16; ++c) password.push_back(c);
  const ConnectRequest request = {.last_zxid_seen = {{1}, 5},
                                  .timeout_ms = 10000,
                                  .session = SessionId{0x1234},
                                  .password = password};
  EXPECT_EQ(*DecodeConnectRequest(Unframed(bytes)), request);
  EXPECT_EQ(EncodeConnectRequest(request), bytes);
}

TEST(ClientProtocol, OldClientsHaveNoReadOnlyByte) {
  const ConnectRequest request = {
      .timeout_ms = 1, .password = std::string(16, 'x'), .has_read_only = false};
  const Bytes bytes = EncodeConnectRequest(request);
  EXPECT_EQ(bytes.size(), 4u + 44u);
  EXPECT_EQ(*DecodeConnectRequest(Unframed(bytes)), request);

  const ConnectResponse response = {
      .timeout_ms = 1, .password = std::string(16, 'x'), .has_read_only = false};
  EXPECT_EQ(EncodeConnectResponse(response).size(), 4u + 36u);
  EXPECT_EQ(*DecodeConnectResponse(Unframed(EncodeConnectResponse(response))), response);
}

TEST(ClientProtocol, RequestsAreKazoos) {
  const struct {
    const char* hex;
    int32_t xid;
    OpCode op;
    RequestBody body;
  } cases[] = {
      {"000000340000000700000001000000022f610000000378797a000000010000001f00000005776f726c640000000"
       "6"
       "616e796f6e6500000003",
       7, OpCode::kCreate, CreateRequest{"/a", {Bytes::Copy("xyz")}, kOpen, 3}},
      {"00000031000000070000000f000000022f6100000000000000010000001f00000005776f726c6400000006616e7"
       "9"
       "6f6e6500000000",
       7, OpCode::kCreate2, CreateRequest{"/a", {}, kOpen, 0}},
      {"000000120000000100000002000000022f61ffffffff", 1, OpCode::kDelete, DeleteRequest{"/a", -1}},
      {"0000000f0000000100000003000000022f6101", 1, OpCode::kExists, ExistsRequest{"/a", true}},
      {"0000000f0000000100000004000000022f6100", 1, OpCode::kGetData, GetDataRequest{"/a", false}},
      {"000000170000000100000005000000022f61000000017600000004", 1, OpCode::kSetData,
       SetDataRequest{"/a", {Bytes::Copy("v")}, 4}},
      {"0000000f000000010000000c000000022f6101", 1, OpCode::kGetChildren2,
       GetChildrenRequest{"/a", true}},
      {"0000000e0000000100000009000000022f61", 1, OpCode::kSync, SyncRequest{"/a"}},
      {"0000001dfffffffc00000064000000000000000664696765737400000003753a70", kXidAuth,
       OpCode::kAuth, AuthRequest{0, "digest", {Bytes::Copy("u:p")}}},
      {"00000008fffffffe0000000b", kXidPing, OpCode::kPing, PingRequest{}},
      {"0000000800000001fffffff5", 1, OpCode::kCloseSession, CloseSessionRequest{}},
  };
  for (const auto& expected : cases) {
    const Bytes bytes = FromHex(expected.hex);
    absl::StatusOr<Request> request = DecodeRequest(Unframed(bytes));
    ASSERT_TRUE(request.ok()) << ToString(expected.op);
    EXPECT_EQ(request->xid, expected.xid);
    EXPECT_EQ(request->op, expected.op);
    EXPECT_TRUE(request->body == expected.body) << ToString(expected.op);
    EXPECT_EQ(EncodeRequest(expected.xid, expected.op, expected.body), bytes);
  }
}

// What kazoo does not know, as the Java client of ZooKeeper 3.8 writes it.
TEST(ClientProtocol, RequestsAboutWatchesAreJavas) {
  const struct {
    const char* hex;
    int32_t xid;
    OpCode op;
    RequestBody body;
  } cases[] = {
      {"00000042fffffff800000069000000020000000300000001000000022f6100000001000000022f62"
       "00000001000000022f6300000001000000022f6400000001000000022f65",
       kXidSetWatches, OpCode::kSetWatches2,
       SetWatches2Request{{{{2}, 3}, {"/a"}, {"/b"}, {"/c"}}, {"/d"}, {"/e"}}},
      {"00000012000000010000006a000000022f6100000001", 1, OpCode::kAddWatch,
       AddWatchRequest{"/a", AddWatchMode::kPersistentRecursive}},
      {"000000120000000100000011000000022f6100000003", 1, OpCode::kCheckWatches,
       RemoveWatchesRequest{"/a", WatcherType::kAny}},
      {"000000120000000100000012000000022f6100000002", 1, OpCode::kRemoveWatches,
       RemoveWatchesRequest{"/a", WatcherType::kData}},
  };
  for (const auto& expected : cases) {
    const Bytes bytes = FromHex(expected.hex);
    absl::StatusOr<Request> request = DecodeRequest(Unframed(bytes));
    ASSERT_TRUE(request.ok()) << ToString(expected.op);
    EXPECT_EQ(request->xid, expected.xid);
    EXPECT_TRUE(request->body == expected.body) << ToString(expected.op);
    EXPECT_EQ(EncodeRequest(expected.xid, expected.op, expected.body), bytes);
  }
}

TEST(ClientProtocol, OtherRequestsComeBackAsTheyWent) {
  const std::pair<OpCode, RequestBody> cases[] = {
      {OpCode::kGetAcl, GetAclRequest{"/a"}},
      {OpCode::kSetAcl, SetAclRequest{"/a", kOpen, 5}},
      {OpCode::kGetChildren, GetChildrenRequest{"/a", true}},
      {OpCode::kSetWatches, SetWatchesRequest{{{2}, 3}, {"/a", "/b"}, {}, {"/c"}}},
      {OpCode{99}, UnknownRequest{}},
  };
  for (const auto& [op, body] : cases) {
    absl::StatusOr<Request> request = DecodeRequest(Unframed(EncodeRequest(3, op, body)));
    ASSERT_TRUE(request.ok()) << ToString(op);
    EXPECT_EQ(request->op, op);
    EXPECT_TRUE(request->body == body) << ToString(op);
  }
}

TEST(ClientProtocol, APayloadIsASliceOfItsFrame) {
  const Bytes frame = Unframed(
      EncodeRequest(1, OpCode::kSetData, SetDataRequest{"/a", {Bytes::Copy("payload")}, 0}));
  absl::StatusOr<Request> request = DecodeRequest(frame);
  const SetDataRequest& body = std::get<SetDataRequest>(request->body);
  EXPECT_EQ(body.data.bytes.data(), frame.data() + 8 + 6 + 4);
  EXPECT_EQ(body.path.data(), frame.data() + 8 + 4);
}

TEST(ClientProtocol, NullDataIsNotEmptyData) {
  const SetDataRequest null = {"/a", {.null = true}, 0};
  const Bytes frame = Unframed(EncodeRequest(1, OpCode::kSetData, null));
  EXPECT_TRUE(std::get<SetDataRequest>(DecodeRequest(frame)->body) == null);
  EXPECT_FALSE(std::get<SetDataRequest>(DecodeRequest(frame)->body) ==
               (SetDataRequest{"/a", {}, 0}));
}

TEST(ClientProtocol, BytesAfterTheLastFieldAreIgnored) {
  const Bytes frame = FromHex("0000000100000003000000022f6101abcdef");
  absl::StatusOr<Request> request = DecodeRequest(frame);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(std::get<ExistsRequest>(request->body).path, "/a");
}

TEST(ClientProtocol, NoCutOfARequestDecodes) {
  const SetWatches2Request watches = {{{{2}, 3}, {"/a"}, {"/b"}, {"/c"}}, {"/d"}, {"/e"}};
  for (const Bytes& bytes :
       {EncodeRequest(1, OpCode::kCreate, CreateRequest{"/a", {Bytes::Copy("d")}, kOpen, 0}),
        EncodeRequest(1, OpCode::kSetWatches2, watches)}) {
    const Bytes frame = Unframed(bytes);
    for (size_t size = 0; size < frame.size(); ++size) {
      EXPECT_FALSE(DecodeRequest(frame.Slice(0, size)).ok()) << size;
    }
  }
}

TEST(ClientProtocol, CountsThatCannotBeTrueAreRefused) {
  // getData with a path of -2 and of 2^31-1 bytes; create with 2^31-1 ACLs, and with -2.
  for (const char* hex : {"0000000100000004fffffffe00", "00000001000000047fffffff00",
                          "0000000100000001000000022f61000000007fffffff0000001f00000000",
                          "0000000100000001000000022f6100000000fffffffe0000001f00000000"}) {
    EXPECT_FALSE(DecodeRequest(FromHex(hex)).ok()) << hex;
  }
}

TEST(ClientProtocol, NullStringsAndVectorsAreEmpty) {
  // create(null, null, null, 0)
  absl::StatusOr<Request> request =
      DecodeRequest(FromHex("0000000100000001ffffffffffffffffffffffff00000000"));
  ASSERT_TRUE(request.ok());
  EXPECT_TRUE(std::get<CreateRequest>(request->body) == (CreateRequest{"", {.null = true}, {}, 0}));
}

// ---- Replies -----------------------------------------------------------------------------------

Stat SomeStat() {
  return {.czxid = {{1}, 2},
          .mzxid = {{3}, 4},
          .ctime_ms = 5,
          .mtime_ms = 6,
          .version = 7,
          .cversion = -8,
          .aversion = 9,
          .ephemeral_owner = SessionId{10},
          .data_length = 11,
          .num_children = 12,
          .pzxid = {{13}, 14}};
}

TEST(ClientProtocol, AStatIsLaidOutAsZooKeepers) {
  // xid, zxid, error; then czxid mzxid ctime mtime version cversion aversion owner length children
  // pzxid.
  EXPECT_EQ(EncodeReply({1, {{2}, 3}}, StatResponse{SomeStat()}), FromHex("00000054"
                                                                          "00000001"
                                                                          "0000000200000003"
                                                                          "00000000"
                                                                          "0000000100000002"
                                                                          "0000000300000004"
                                                                          "0000000000000005"
                                                                          "0000000000000006"
                                                                          "00000007"
                                                                          "fffffff8"
                                                                          "00000009"
                                                                          "000000000000000a"
                                                                          "0000000b"
                                                                          "0000000c"
                                                                          "0000000d0000000e"));
}

TEST(ClientProtocol, RepliesComeBackAsTheyWent) {
  const std::pair<OpCode, ResponseBody> cases[] = {
      {OpCode::kCreate, PathResponse{"/a0000000001"}},
      {OpCode::kSync, PathResponse{"/a"}},
      {OpCode::kCreate2, Create2Response{"/a", SomeStat()}},
      {OpCode::kDelete, EmptyResponse{}},
      {OpCode::kExists, StatResponse{SomeStat()}},
      {OpCode::kGetData, GetDataResponse{{Bytes::Copy("data")}, SomeStat()}},
      {OpCode::kGetData, GetDataResponse{{.null = true}, SomeStat()}},
      {OpCode::kSetData, StatResponse{SomeStat()}},
      {OpCode::kGetAcl, GetAclResponse{kOpen, SomeStat()}},
      {OpCode::kSetAcl, StatResponse{SomeStat()}},
      {OpCode::kGetChildren, GetChildrenResponse{{"a", "b"}}},
      {OpCode::kGetChildren2, GetChildren2Response{{"a", "b"}, SomeStat()}},
      {OpCode::kPing, EmptyResponse{}},
  };
  const ReplyHeader header = {.xid = 5, .zxid = {{1}, 9}};
  for (const auto& [op, body] : cases) {
    const Bytes frame = Unframed(EncodeReply(header, body));
    EXPECT_EQ(*DecodeReplyHeader(frame), header);
    absl::StatusOr<ResponseBody> decoded = DecodeResponse(op, frame);
    ASSERT_TRUE(decoded.ok()) << ToString(op);
    EXPECT_TRUE(*decoded == body) << ToString(op);
    for (size_t size = 0; size < frame.size(); ++size) {
      EXPECT_FALSE(DecodeResponse(op, frame.Slice(0, size)).ok()) << ToString(op) << " " << size;
    }
  }
}

TEST(ClientProtocol, AnErrorHasNoBody) {
  const ReplyHeader header = {.xid = 5, .zxid = {{1}, 9}, .error = ErrorCode::kNoNode};
  const Bytes bytes = EncodeReply(header);
  EXPECT_EQ(bytes, FromHex("00000010000000050000000100000009ffffff9b"));
  EXPECT_TRUE(*DecodeResponse(OpCode::kGetData, Unframed(bytes)) == ResponseBody(EmptyResponse{}));
  EXPECT_DEATH(EncodeReply(header, PathResponse{"/a"}), "check failed");
}

TEST(ClientProtocol, AnEventIsAReplyOfItsOwnXid) {
  const WatcherEvent event = {.type = WatchEventType::kNodeDeleted, .path = "/a"};
  const Bytes bytes = EncodeWatcherEvent({{1}, 9}, event);
  EXPECT_EQ(bytes, FromHex("0000001effffffff0000000100000009000000000000000200000003000000022f61"));
  EXPECT_EQ(*DecodeWatcherEvent(Unframed(bytes)), event);
  EXPECT_FALSE(DecodeWatcherEvent(Unframed(EncodeReply({1}, PathResponse{"/abcdefgh"}))).ok());
}

TEST(ClientProtocol, ARefusedSessionIsAllZero) {
  const Bytes bytes = EncodeConnectResponse({.password = std::string(kNoPassword)});
  EXPECT_EQ(bytes.view(), std::string("\0\0\0\x25", 4) + std::string(8 + 8, 0) +
                              std::string("\0\0\0\x10", 4) + std::string(17, 0));
}

// ---- Paths -------------------------------------------------------------------------------------

TEST(Path, WhatZooKeeperAcceptsIsValid) {
  for (const char* path :
       {"/", "/a", "/a/b", "/a.b", "/.a", "/a.", "/...", "/..a/b..", "/a/...", "/ ", "/~",
        "/\xc2\xa0", "/\xed\x9f\xbf" /* U+D7FF */, "/\xef\xa4\x80" /* U+F900 */,
        "/\xef\xbf\xaf" /* U+FFEF */, "/\xe2\x82\xac"}) {
    EXPECT_TRUE(ValidatePath(path).ok()) << path;
  }
}

TEST(Path, WhatZooKeeperRefusesIsInvalid) {
  for (std::string_view path : std::initializer_list<std::string_view>{
           "", "a", "a/b", "/a/", "//", "//a", "/a//b", "/.", "/..", "/./a", "/a/./b", "/a/../b",
           "/a/..", std::string_view("/\0", 2), "/\x01", "/a\x1f", "/\x7f", "/\xc2\x80",
           "/\xc2\x9f",
           // U+E000, U+F8FF, U+FFF0, U+FFFF; a surrogate; U+1F600, two surrogates in Java.
           "/\xee\x80\x80", "/\xef\xa3\xbf", "/\xef\xbf\xb0", "/\xef\xbf\xbf", "/\xed\xa0\x80",
           "/\xf0\x9f\x98\x80",
           // Not UTF-8: a lone continuation, a cut sequence, overlong forms, a byte of none.
           "/\x80", "/\xe2\x82", "/\xe2\x82/", "/\xc0\xaf", "/\xe0\x80\xaf", "/\xff"}) {
    EXPECT_FALSE(ValidatePath(path).ok()) << path;
  }
}

TEST(Path, ParentAndName) {
  EXPECT_EQ(ParentPath("/a"), "/");
  EXPECT_EQ(ParentPath("/a/b/c"), "/a/b");
  EXPECT_EQ(NodeName("/a/b/c"), "c");
  EXPECT_EQ(NodeName("/"), "");
  EXPECT_DEATH(ParentPath("/"), "check failed");
}

}  // namespace
}  // namespace lockstep::coordination
