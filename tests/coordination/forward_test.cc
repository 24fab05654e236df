#include "core/coordination/forward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::coordination {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::string kPassword = "0123456789abcdef";
const Ticket kTicket{0x8000'0000'0000'0001};

// Every shorter and one longer version of `bytes` is refused.
template <typename Decode>
void ExpectOnlyWhole(const Bytes& bytes, Decode decode, bool open_ended = false) {
  EXPECT_TRUE(decode(bytes).ok());
  for (size_t size = 0; size < bytes.size(); ++size) {
    if (open_ended && size >= 17 + kRequestHeaderSize) continue;
    EXPECT_FALSE(decode(bytes.Slice(0, size)).ok()) << size;
  }
  if (open_ended) return;
  EXPECT_FALSE(decode(Bytes::Copy(std::string(bytes.view()) + "x")).ok());
}

TEST(Forward, SessionSurvivesTheRoundTrip) {
  Bytes bytes = EncodeForwarded(ForwardedSession{kTicket, {-5}, 30'000, kPassword});

  auto decoded = std::get<ForwardedSession>(*DecodeForwarded(bytes));
  EXPECT_EQ(decoded.ticket, kTicket);
  EXPECT_EQ(decoded.session, SessionId{-5});
  EXPECT_EQ(decoded.timeout_ms, 30'000);
  EXPECT_EQ(decoded.password, kPassword);
  ExpectOnlyWhole(bytes, DecodeForwarded);
}

TEST(Forward, ValidationSurvivesTheRoundTrip) {
  Bytes bytes = EncodeForwarded(ForwardedValidation{kTicket, {7}, kPassword});

  auto decoded = std::get<ForwardedValidation>(*DecodeForwarded(bytes));
  EXPECT_EQ(decoded.ticket, kTicket);
  EXPECT_EQ(decoded.session, SessionId{7});
  EXPECT_EQ(decoded.password, kPassword);
  ExpectOnlyWhole(bytes, DecodeForwarded);
}

TEST(Forward, RequestKeepsItsFrame) {
  Bytes frame = Bytes::Copy(std::string("\0\0\0\x05\0\0\0\x01rest", 12));
  Bytes bytes = EncodeForwarded(ForwardedRequest{kTicket, {7}, frame});

  auto decoded = std::get<ForwardedRequest>(*DecodeForwarded(bytes));
  EXPECT_EQ(decoded.ticket, kTicket);
  EXPECT_EQ(decoded.session, SessionId{7});
  EXPECT_EQ(decoded.frame, frame);
  EXPECT_EQ(PeekHeader(decoded.frame).xid, 5);
  EXPECT_EQ(PeekHeader(decoded.frame).op, OpCode::kCreate);
  ExpectOnlyWhole(bytes, DecodeForwarded, /*open_ended=*/true);
}

TEST(Forward, ASessionWithoutTimeoutIdOrPasswordIsRefused) {
  EXPECT_FALSE(DecodeForwarded(EncodeForwarded(ForwardedSession{kTicket, {7}, 0, kPassword})).ok());
  EXPECT_FALSE(
      DecodeForwarded(EncodeForwarded(ForwardedSession{kTicket, {0}, 4000, kPassword})).ok());
  EXPECT_FALSE(
      DecodeForwarded(EncodeForwarded(ForwardedSession{kTicket, {7}, 4000, "short"})).ok());
}

TEST(Forward, AnswersSurviveTheRoundTrip) {
  Bytes refused = EncodeForwardedAnswer(SessionRefused{kTicket, true});
  Bytes validated = EncodeForwardedAnswer(SessionValidated{kTicket, 4000});
  Bytes superseded = EncodeForwardedAnswer(ConnectionSuperseded{kTicket});
  Bytes sync = EncodeForwardedAnswer(SyncPoint{kTicket, -9, {{3}, 4}});

  EXPECT_TRUE(std::get<SessionRefused>(*DecodeForwardedAnswer(refused)).full);
  EXPECT_EQ(std::get<SessionValidated>(*DecodeForwardedAnswer(validated)).timeout_ms, 4000);
  EXPECT_EQ(std::get<ConnectionSuperseded>(*DecodeForwardedAnswer(superseded)).ticket, kTicket);
  EXPECT_EQ(std::get<SyncPoint>(*DecodeForwardedAnswer(sync)).xid, -9);
  EXPECT_EQ(std::get<SyncPoint>(*DecodeForwardedAnswer(sync)).zxid, (Zxid{{3}, 4}));
  for (const Bytes& bytes : {refused, validated, superseded, sync}) {
    ExpectOnlyWhole(bytes, DecodeForwardedAnswer);
  }
}

TEST(Forward, AValidatedSessionHasATimeout) {
  EXPECT_FALSE(DecodeForwardedAnswer(EncodeForwardedAnswer(SessionValidated{kTicket, 0})).ok());
  EXPECT_FALSE(DecodeForwardedAnswer(EncodeForwardedAnswer(SessionValidated{kTicket, -1})).ok());
}

TEST(Forward, UnknownKindsAreRefused) {
  EXPECT_FALSE(DecodeForwarded(Bytes::Copy("\x04")).ok());
  EXPECT_FALSE(DecodeForwardedAnswer(Bytes::Copy("\x01")).ok());
  EXPECT_FALSE(DecodeForwarded(Bytes()).ok());
  EXPECT_FALSE(DecodeForwardedAnswer(Bytes()).ok());
}

TEST(Forward, TouchedSessionsSurviveTheRoundTrip) {
  EXPECT_THAT(*DecodeTouched(EncodeTouched({{1}, {-1}})), ElementsAre(SessionId{1}, SessionId{-1}));
  EXPECT_TRUE(EncodeTouched({}).empty());
  EXPECT_THAT(*DecodeTouched(Bytes()), IsEmpty());
  EXPECT_FALSE(DecodeTouched(Bytes::Copy("1234567")).ok());
}

}  // namespace
}  // namespace lockstep::coordination
