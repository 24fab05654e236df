#include "core/wire/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

#include "tests/wire/messages.h"

namespace lockstep::wire {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kLengthMax = 1 << 20;

std::string FrameOf(const std::string& header, const std::string& payload, uint8_t kind = 7) {
  const Bytes shared = Bytes::Copy(payload);
  return Join({FrameStart(kind, header.data(), header.size(), shared), shared});
}

std::string ErrorOf(std::string_view bytes, uint32_t length_max = kLengthMax) {
  return std::string(OnlyFrame(bytes, length_max).status().message());
}

TEST(Frame, HasTheFieldsInTheirPlaces) {
  // The checksum was computed by other code, bit by bit.
  const std::string frame = FrameOf("head", "payload", 26);

  EXPECT_EQ(frame, std::string("LS\x01\x1a\x0b\x00\x00\x00\x04\x00\x00\x00", 12) +
                       "\x1b\xd1\xa7\x66" + "headpayload");
}

TEST(FrameReader, GivesBackKindHeaderAndPayload) {
  const absl::StatusOr<Frame> frame = OnlyFrame(FrameOf("head", "payload"));

  ASSERT_TRUE(frame.ok()) << frame.status().ToString();
  EXPECT_EQ(frame->kind, 7);
  EXPECT_EQ(frame->header.view(), "head");
  EXPECT_EQ(frame->payload.view(), "payload");
}

TEST(FrameReader, SharesTheBufferOfWhatCameInOnePiece) {
  const Bytes received = Bytes::Copy(FrameOf("head", "payload"));
  FrameReader reader(kLengthMax);
  reader.Add(received);

  const auto frame = reader.Next();

  ASSERT_TRUE(frame.ok() && frame->has_value());
  EXPECT_EQ((*frame)->header.data(), received.data() + kFrameHeaderBytes);
  EXPECT_EQ((*frame)->payload.data(), received.data() + kFrameHeaderBytes + 4);
}

TEST(FrameReader, ReadsTheSameFramesWhereverTheStreamIsCut) {
  EXPECT_TRUE(rc::check([] {
    const auto payloads = *rc::gen::arbitrary<std::vector<std::string>>();
    std::string stream;
    for (const std::string& payload : payloads) stream += FrameOf("header", payload);

    FrameReader reader(kLengthMax);
    std::vector<std::string> read;
    for (size_t at = 0; at < stream.size();) {
      const size_t size = *rc::gen::inRange<size_t>(1, stream.size() - at + 1);
      reader.Add(Bytes::Copy(std::string_view(stream).substr(at, size)));
      at += size;
      while (true) {
        auto frame = reader.Next();
        RC_ASSERT(frame.ok());
        if (!frame->has_value()) break;
        RC_ASSERT((*frame)->header.view() == "header");
        read.emplace_back((*frame)->payload.view());
      }
    }
    RC_ASSERT(read == payloads);
    RC_ASSERT(reader.buffered() == 0u);
  }));
}

TEST(FrameReader, WaitsForTheRestOfATruncatedFrame) {
  const std::string whole = FrameOf("head", "payload");
  for (size_t size = 0; size < whole.size(); ++size) {
    FrameReader reader(kLengthMax);
    reader.Add(Bytes::Copy(whole.substr(0, size)));

    const auto frame = reader.Next();

    ASSERT_TRUE(frame.ok()) << size;
    EXPECT_FALSE(frame->has_value()) << size;
    EXPECT_EQ(reader.buffered(), size);
  }
}

TEST(FrameReader, RefusesEverySingleFlippedBit) {
  const std::string whole = FrameOf("some header", "and some payload");
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    FrameReader reader(kLengthMax);
    // What follows on the connection: a flipped bit in the length may make the frame reach into it.
    reader.Add(Bytes::Copy(damaged + std::string(kLengthMax, '\0')));

    EXPECT_FALSE(reader.Next().ok()) << "bit " << bit;
  }
}

TEST(FrameReader, RefusesBadMagicAtOnce) {
  EXPECT_THAT(ErrorOf("GET / HTTP/1.1\r\n"), HasSubstr("bad magic"));
}

TEST(FrameReader, NamesTheVersionThatItDoesNotSpeak) {
  std::string frame = FrameOf("head", "payload");
  frame[2] = 9;

  EXPECT_EQ(ErrorOf(frame), "frame of version 9; this server speaks 1");
}

TEST(FrameReader, RefusesALengthAboveTheBoundBeforeItsBytesCome) {
  const std::string frame = FrameOf("head", "payload");  // length 11

  EXPECT_TRUE(OnlyFrame(frame, 11).ok());
  EXPECT_THAT(ErrorOf(frame.substr(0, kFrameHeaderBytes), 10), HasSubstr("limit is 10"));
}

TEST(FrameReader, RefusesAHeaderLengthThatTheFrameCannotHold) {
  std::string longer_than_frame = FrameOf("head", "payload");
  longer_than_frame[8] = 12;
  std::string empty = FrameOf("head", "payload");
  empty[8] = 0;
  std::string above_bound = FrameOf(std::string(kHeaderBytesMax, 'h'), "p");
  above_bound[8] = 1;

  EXPECT_THAT(ErrorOf(longer_than_frame), HasSubstr("header of 12"));
  EXPECT_THAT(ErrorOf(empty), HasSubstr("header of 0"));
  EXPECT_THAT(ErrorOf(above_bound), HasSubstr("header of 16385"));
}

TEST(FrameReader, StaysBrokenAfterAnError) {
  FrameReader reader(kLengthMax);
  reader.Add(Bytes::Copy("nonsense of enough bytes"));
  ASSERT_FALSE(reader.Next().ok());

  reader.Add(Bytes::Copy(FrameOf("head", "payload")));

  EXPECT_FALSE(reader.Next().ok());
  EXPECT_EQ(reader.buffered(), 0u);
}

}  // namespace
}  // namespace lockstep::wire
