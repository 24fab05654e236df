#include "core/server/ping_payload.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::server {
namespace {

const StateDigest kState{{{3}, 7}, 0x1122334455667788};

TEST(PingPayload, AnAnswerSurvivesTheRoundTrip) {
  absl::StatusOr<PingAnswer> with =
      DecodePingAnswer(EncodePingAnswer({.state = kState, .touched = Bytes::Copy("12345678")}));
  absl::StatusOr<PingAnswer> without =
      DecodePingAnswer(EncodePingAnswer({.touched = Bytes::Copy("12345678")}));

  ASSERT_TRUE(with.ok());
  EXPECT_EQ(with->state, kState);
  EXPECT_EQ(with->touched.view(), "12345678");
  ASSERT_TRUE(without.ok());
  EXPECT_EQ(without->state, std::nullopt);
  EXPECT_EQ(without->touched.view(), "12345678");
}

TEST(PingPayload, AnAnswerHasTheseBytes) {
  EXPECT_EQ(EncodePingAnswer({.state = kState, .touched = Bytes::Copy("T")}).view(),
            std::string_view("\x01\x01\x07\0\0\0\x03\0\0\0\x88\x77\x66\x55\x44\x33\x22\x11T", 19));
  EXPECT_EQ(EncodePingAnswer({}).view(), std::string_view("\0", 1));
}

TEST(PingPayload, NothingIsAnAnswerWithNothingInIt) {
  absl::StatusOr<PingAnswer> answer = DecodePingAnswer({});

  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->state, std::nullopt);
  EXPECT_TRUE(answer->touched.empty());
}

TEST(PingPayload, ADigestOfAnotherVersionIsLeftOutAndTheSessionsAreNot) {
  std::string bytes(EncodePingAnswer({.state = kState, .touched = Bytes::Copy("T")}).view());
  bytes[1] = kDigestVersion + 1;

  absl::StatusOr<PingAnswer> answer = DecodePingAnswer(Bytes::Copy(bytes));

  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->state, std::nullopt);
  EXPECT_EQ(answer->touched.view(), "T");
}

TEST(PingPayload, MalformedAnswersAreRefused) {
  const std::string whole(EncodePingAnswer({.state = kState}).view());
  for (size_t size = 1; size < whole.size(); ++size) {
    EXPECT_FALSE(DecodePingAnswer(Bytes::Copy(whole.substr(0, size))).ok()) << size;
  }
  EXPECT_FALSE(DecodePingAnswer(Bytes::Copy("\x03")).ok());
  EXPECT_FALSE(DecodePingAnswer(EncodeStateDiffers({.state = kState})).ok());
}

TEST(PingPayload, TheWordOfALeaderSurvivesTheRoundTrip) {
  for (bool outvoted : {false, true}) {
    absl::StatusOr<StateDiffers> word =
        DecodeStateDiffers(EncodeStateDiffers({.state = kState, .outvoted = outvoted}));

    ASSERT_TRUE(word.ok());
    EXPECT_EQ(word->state, kState);
    EXPECT_EQ(word->outvoted, outvoted);
  }
}

TEST(PingPayload, MalformedWordsOfALeaderAreRefused) {
  const std::string whole(EncodeStateDiffers({.state = kState}).view());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(DecodeStateDiffers(Bytes::Copy(whole.substr(0, size))).ok()) << size;
  }
  EXPECT_FALSE(DecodeStateDiffers(Bytes::Copy(whole + "x")).ok());
  for (size_t at : {size_t{0}, size_t{1}, whole.size() - 1}) {
    std::string bad = whole;
    bad[at] = 9;
    EXPECT_FALSE(DecodeStateDiffers(Bytes::Copy(bad)).ok()) << at;
  }
}

}  // namespace
}  // namespace lockstep::server
