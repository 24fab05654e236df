#include "core/coordination/transaction.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace lockstep::coordination {
namespace {

const TransactionHeader kHeader = {.session = SessionId{0x100000000000002},
                                   .origin = ServerId{3},
                                   .connection = ConnectionId{ConnectionId::kAccepted | 4},
                                   .xid = 5,
                                   .time_ms = 1'700'000'000'000};

std::vector<TransactionBody> OneOfEach() {
  return {
      CreateTransaction{.path = "/a/b",
                        .data = Bytes::Copy("data"),
                        .acl = {{31, "world", "anyone"}, {1, "digest", "u:p"}},
                        .ephemeral = true,
                        .parent_cversion = 7},
      CreateTransaction{.path = "/a/b", .null_data = true},
      DeleteTransaction{"/a"},
      SetDataTransaction{.path = "/a", .data = Bytes::Copy("data"), .version = 8},
      SetDataTransaction{.path = "/a", .null_data = true, .version = 8},
      CreateSessionTransaction{.timeout_ms = 9000, .password = std::string(16, '\0')},
      CloseSessionTransaction{{"/a", "/b"}},
      CloseSessionTransaction{},
      ErrorTransaction{ErrorCode::kNodeExists},
  };
}

TEST(Transaction, ComesBackAsItWent) {
  for (const TransactionBody& body : OneOfEach()) {
    absl::StatusOr<DecodedTransaction> decoded =
        DecodeTransaction(EncodeTransaction(kHeader, body));
    ASSERT_TRUE(decoded.ok()) << body.index();
    EXPECT_EQ(decoded->header, kHeader);
    EXPECT_TRUE(decoded->body == body) << body.index();
  }
}

TEST(Transaction, AnyHeaderAndPayloadComeBack) {
  EXPECT_TRUE(rc::check([](int64_t session, uint8_t origin, uint64_t connection, int32_t xid,
                           int64_t time_ms, const std::string& data, int32_t version) {
    const DecodedTransaction transaction = {
        {SessionId{session}, ServerId{origin}, ConnectionId{connection}, xid, time_ms},
        SetDataTransaction{.path = "/path", .data = Bytes::Copy(data), .version = version}};
    auto decoded = DecodeTransaction(EncodeTransaction(transaction.header, transaction.body));
    RC_ASSERT(decoded.ok());
    RC_ASSERT(*decoded == transaction);
  }));
}

TEST(Transaction, FormatIsWhatTheDocumentSays) {
  const Bytes bytes =
      EncodeTransaction({SessionId{1}, ServerId{2}, ConnectionId{3}, 4, 5},
                        SetDataTransaction{.path = "/a", .data = Bytes::Copy("x"), .version = 6});
  EXPECT_EQ(bytes.view(), std::string_view("\1"                // version of the format
                                           "\0\0\0\0\0\0\0\1"  // session
                                           "\0\0\0\2"          // origin
                                           "\0\0\0\0\0\0\0\3"  // connection
                                           "\0\0\0\4"          // xid
                                           "\0\0\0\0\0\0\0\5"  // time
                                           "\3"                // kind: setData
                                           "\0\0\0\2/a"
                                           "\0\0\0\1x"
                                           "\0\0\0\6",
                                           1 + 8 + 4 + 8 + 4 + 8 + 1 + 6 + 5 + 4));
}

TEST(Transaction, NoCutOrExtensionDecodes) {
  for (const TransactionBody& body : OneOfEach()) {
    const Bytes bytes = EncodeTransaction(kHeader, body);
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(DecodeTransaction(bytes.Slice(0, size)).ok()) << body.index() << " " << size;
    }
    EXPECT_FALSE(DecodeTransaction(Bytes::Copy(std::string(bytes.view()) + "x")).ok());
  }
}

TEST(Transaction, UnknownVersionsAndKindsAreRefused) {
  std::string bytes(EncodeTransaction(kHeader, ErrorTransaction{}).view());
  std::string other_version = bytes;
  other_version[0] = 2;
  EXPECT_FALSE(DecodeTransaction(Bytes::Copy(other_version)).ok());
  std::string other_kind = bytes;
  for (char kind : {0, 8, 10}) {  // 8: in a multi only
    other_kind[1 + 8 + 4 + 8 + 4 + 8] = kind;
    EXPECT_FALSE(DecodeTransaction(Bytes::Copy(other_kind)).ok());
  }
}

TEST(Transaction, ImpossibleContentIsRefused) {
  TransactionHeader header = kHeader;
  header.origin.value = kServerIdMax + 1;
  EXPECT_FALSE(DecodeTransaction(EncodeTransaction(header, ErrorTransaction{})).ok());
  for (const TransactionBody& body : std::vector<TransactionBody>{
           CreateTransaction{.path = "a"}, DeleteTransaction{"/a/"}, SetDataTransaction{.path = ""},
           CloseSessionTransaction{{"/a", "/a/../b"}}}) {
    EXPECT_FALSE(DecodeTransaction(EncodeTransaction(kHeader, body)).ok()) << body.index();
  }
}

TEST(Transaction, APayloadIsASliceOfItsBytes) {
  const Bytes bytes = EncodeTransaction(
      kHeader, SetDataTransaction{.path = "/a", .data = Bytes::Copy("payload"), .version = 1});
  auto decoded = DecodeTransaction(bytes);
  const Bytes& data = std::get<SetDataTransaction>(decoded->body).data;
  EXPECT_EQ(data.data() + data.size() + 4, bytes.data() + bytes.size());
}

}  // namespace
}  // namespace lockstep::coordination
