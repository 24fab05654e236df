#include "core/wire/codec.h"

#include <flatbuffers/flatbuffers.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

#include "lockstep_generated.h"
#include "tests/wire/messages.h"

namespace lockstep::wire {
namespace {

using flatbuffers::FlatBufferBuilder;
using ::testing::HasSubstr;

// A frame as another implementation, or an attacker, could build it.
template <typename Build>
Frame Forged(Kind kind, Build build, std::string_view payload = "") {
  FlatBufferBuilder builder;
  builder.Finish(build(builder));
  const std::string_view header(reinterpret_cast<const char*>(builder.GetBufferPointer()),
                                builder.GetSize());
  return {.kind = static_cast<uint8_t>(kind),
          .header = Bytes::Copy(header),
          .payload = Bytes::Copy(payload)};
}

std::string ErrorOf(const Frame& frame) {
  return std::string(DecodeMessage(frame).status().message());
}

TEST(Codec, EveryMessageComesBackAsItWas) {
  for (size_t index = 0; index < std::variant_size_v<zab::Message>; ++index) {
    EXPECT_TRUE(rc::check([index] {
      const zab::Message message = ArbitraryMessage(index);
      RC_ASSERT(message.index() == index);

      const auto frame = OnlyFrame(Encoded(message));
      RC_ASSERT(frame.ok());
      const auto decoded = DecodeMessage(*frame);

      RC_ASSERT(decoded.ok());
      RC_ASSERT(Describe(*decoded) == Describe(message));
    }));
  }
}

TEST(Codec, EveryNotificationComesBackAsItWas) {
  EXPECT_TRUE(rc::check([] {
    const zab::Notification notification = ArbitraryNotification();
    std::vector<Bytes> slices;
    EncodeNotification(notification, &slices);

    const auto frame = OnlyFrame(Join(slices));
    RC_ASSERT(frame.ok());
    const auto decoded = DecodeNotification(*frame);

    RC_ASSERT(decoded.ok());
    RC_ASSERT(zab::ToString(*decoded) == zab::ToString(notification));
  }));
}

TEST(Codec, HelloComesBackAsItWas) {
  std::vector<Bytes> slices;
  EncodeHello({.from = {1}, .to = {255}, .ensemble = 0xfedcba9876543210}, &slices);

  const auto frame = OnlyFrame(Join(slices));
  ASSERT_TRUE(frame.ok());
  const auto hello = DecodeHello(*frame);

  ASSERT_TRUE(hello.ok());
  EXPECT_EQ(hello->from, ServerId{1});
  EXPECT_EQ(hello->to, ServerId{255});
  EXPECT_EQ(hello->ensemble, 0xfedcba9876543210u);
}

TEST(Codec, WritesTheBytesOfTheDocument) {
  // docs/wire.md, "A frame, byte by byte".
  const unsigned char expected[] = {
      0x4c, 0x53, 0x01, 0x1a, 0x25, 0x00, 0x00, 0x00, 0x20, 0x00, 0x00, 0x00, 0x68, 0xa9,
      0xb0, 0xfe, 0x0c, 0x00, 0x00, 0x00, 0x08, 0x00, 0x14, 0x00, 0x04, 0x00, 0x0c, 0x00,
      0x08, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x03, 0x00,
      0x00, 0x00, 0x07, 0x00, 0x00, 0x00, 0x68, 0x65, 0x6c, 0x6c, 0x6f};

  const std::string frame = Encoded(zab::Proposal{{{3}, 8}, {{3}, 7}, Bytes::Copy("hello")});

  EXPECT_EQ(frame, std::string(reinterpret_cast<const char*>(expected), sizeof(expected)));
}

TEST(Codec, SharesThePayloadBothWays) {
  const Bytes transaction = Bytes::Copy("a transaction");
  std::vector<Bytes> slices;
  EncodeMessage(zab::Proposal{{{1}, 2}, {{1}, 1}, transaction}, &slices);
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(slices[1].data(), transaction.data());

  FrameReader reader(1 << 20);
  for (const Bytes& slice : slices) reader.Add(slice);
  const auto frame = reader.Next();
  ASSERT_TRUE(frame.ok() && frame->has_value());
  const auto decoded = DecodeMessage(**frame);

  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(std::get<zab::Proposal>(*decoded).transaction.data(), transaction.data());
}

TEST(Codec, CarriesTheGreatestAckEpoch) {
  zab::AckEpoch ack{.current_epoch = Epoch{kEpochEndsMax}};
  for (uint32_t epoch = 1; epoch <= kEpochEndsMax; ++epoch) ack.epoch_ends.push_back({{epoch}, 1});
  ack.last_zxid = ack.epoch_ends.back();

  const auto frame = OnlyFrame(Encoded(ack));
  ASSERT_TRUE(frame.ok());
  const auto decoded = DecodeMessage(*frame);

  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(std::get<zab::AckEpoch>(*decoded).epoch_ends, ack.epoch_ends);
}

TEST(Codec, RefusesAServerIdOfZero) {
  EXPECT_THAT(ErrorOf(Forged(Kind::kFollowerInfo,
                             [](auto& b) { return schema::CreateFollowerInfo(b, 0, 1); })),
              HasSubstr("server id 0"));
  for (auto [from, to] : {std::pair{0, 1}, {1, 0}}) {
    EXPECT_FALSE(DecodeHello(Forged(Kind::kHello, [=](auto& b) {
                   return schema::CreateHello(b, static_cast<uint8_t>(from),
                                              static_cast<uint8_t>(to), 1);
                 })).ok());
  }
  const schema::Zxid zxid(1, 1);
  EXPECT_FALSE(DecodeNotification(Forged(Kind::kNotification, [&](auto& b) {
                 return schema::CreateNotification(b, schema::State::Looking, 1, 0, 1, &zxid);
               })).ok());
}

// The release before does not know novices: what it sends lacks these fields.
TEST(Codec, WhatTheReleaseBeforeSendsMeansWhatItMeant) {
  const auto info = DecodeMessage(
      Forged(Kind::kFollowerInfo, [](auto& b) { return schema::CreateFollowerInfo(b, 1, 5); }));
  ASSERT_TRUE(info.ok());
  EXPECT_TRUE(std::get<zab::FollowerInfo>(*info).votes);

  const auto epoch = DecodeMessage(
      Forged(Kind::kLeaderInfo, [](auto& b) { return schema::CreateLeaderInfo(b, 5); }));
  ASSERT_TRUE(epoch.ok());
  EXPECT_FALSE(std::get<zab::LeaderInfo>(*epoch).learns);

  const schema::Zxid zxid(1, 1);
  const auto word = DecodeNotification(Forged(Kind::kNotification, [&](auto& b) {
    return schema::CreateNotification(b, schema::State::Looking, 1, 1, 1, &zxid);
  }));
  ASSERT_TRUE(word.ok());
  EXPECT_EQ(word->novice, 0u);
  EXPECT_EQ(word->heard, 0u);
}

TEST(Codec, RefusesAnUnknownServerState) {
  const schema::Zxid zxid(1, 1);
  const auto decoded = DecodeNotification(Forged(Kind::kNotification, [&](auto& b) {
    return schema::CreateNotification(b, static_cast<schema::State>(4), 1, 1, 1, &zxid);
  }));

  EXPECT_THAT(std::string(decoded.status().message()), HasSubstr("unknown server state"));
}

TEST(Codec, RefusesAnEpochOfZeroFromALeader) {
  EXPECT_THAT(
      ErrorOf(Forged(Kind::kLeaderInfo, [](auto& b) { return schema::CreateLeaderInfo(b, 0); })),
      HasSubstr("epoch 0"));
  EXPECT_THAT(
      ErrorOf(Forged(Kind::kNewLeader, [](auto& b) { return schema::CreateNewLeader(b, 0); })),
      HasSubstr("epoch 0"));
  EXPECT_THAT(ErrorOf(Forged(Kind::kAckNewLeader,
                             [](auto& b) { return schema::CreateAckNewLeader(b, 0); })),
              HasSubstr("epoch 0"));
}

TEST(Codec, RefusesAMissingZxid) {
  // An empty table is what a missing required field looks like; a Ping's is one.
  auto empty = [](auto& b) { return schema::CreatePing(b); };
  for (Kind kind : {Kind::kAckEpoch, Kind::kDiff, Kind::kTrunc, Kind::kSnap, Kind::kUpToDate,
                    Kind::kProposal, Kind::kAck, Kind::kCommit}) {
    EXPECT_THAT(ErrorOf(Forged(kind, empty)), HasSubstr("malformed header")) << ToString(kind);
  }
}

TEST(Codec, RefusesAPayloadWhereThereIsNone) {
  const schema::Zxid zxid(1, 1);
  const Frame ack =
      Forged(Kind::kAck, [&](auto& b) { return schema::CreateAck(b, &zxid); }, "payload");

  EXPECT_THAT(ErrorOf(ack), HasSubstr("malformed header"));
}

Frame ForgedAckEpoch(const std::vector<schema::Zxid>& ends, schema::Zxid last) {
  return Forged(Kind::kAckEpoch, [&](auto& b) {
    auto vector = b.CreateVectorOfStructs(ends);
    return schema::CreateAckEpoch(b, 1, &last, vector);
  });
}

TEST(Codec, RefusesEpochEndsThatAreNot) {
  std::vector<schema::Zxid> too_many;
  for (uint32_t epoch = 1; epoch <= kEpochEndsMax + 1; ++epoch) too_many.emplace_back(epoch, 1);

  EXPECT_EQ(ErrorOf(ForgedAckEpoch({{1, 5}, {2, 7}}, {2, 7})), "");
  EXPECT_THAT(ErrorOf(ForgedAckEpoch({{2, 7}, {1, 5}}, {1, 5})), HasSubstr("not ascending"));
  EXPECT_THAT(ErrorOf(ForgedAckEpoch({{2, 7}, {2, 8}}, {2, 8})), HasSubstr("not ascending"));
  EXPECT_THAT(ErrorOf(ForgedAckEpoch({{1, 5}, {2, 7}}, {2, 8})), HasSubstr("last zxid"));
  EXPECT_THAT(ErrorOf(ForgedAckEpoch(too_many, too_many.back())), HasSubstr("too many"));
}

TEST(Codec, RefusesUnknownKindsAndThoseOfAnotherConnection) {
  auto empty = [](auto& b) { return schema::CreatePing(b); };

  EXPECT_THAT(ErrorOf(Forged(static_cast<Kind>(99), empty)), HasSubstr("unknown (99)"));
  EXPECT_THAT(ErrorOf(Forged(Kind::kHello, empty)), HasSubstr("not a message of a channel"));
  EXPECT_FALSE(DecodeHello(Forged(Kind::kPing, empty)).ok());
  EXPECT_FALSE(DecodeNotification(Forged(Kind::kPing, empty)).ok());
}

TEST(Codec, RefusesOrReadsAnyHeaderBytesWithoutHarm) {
  // What a checksum does not stop: a peer that means it. The fuzzer goes further.
  EXPECT_TRUE(rc::check([] {
    const std::string whole = Encoded(ArbitraryMessage());
    Frame frame = *OnlyFrame(whole);
    std::string header(frame.header.view());
    const auto at = *rc::gen::inRange<size_t>(0, header.size());
    header[at] = static_cast<char>(*rc::gen::arbitrary<uint8_t>());
    frame.header = Bytes::Copy(header);

    const auto decoded = DecodeMessage(frame);

    // What was read can be said, and reads as the same.
    if (decoded.ok()) {
      const auto again = DecodeMessage(*OnlyFrame(Encoded(*decoded)));
      RC_ASSERT(again.ok());
      RC_ASSERT(Describe(*again) == Describe(*decoded));
    }
  }));
}

TEST(Codec, ReadsHeadersAtAnyAddress) {
  const std::string frame = Encoded(zab::Proposal{{{1}, 2}, {{1}, 1}, Bytes::Copy("t")});
  for (size_t shift = 0; shift < 8; ++shift) {
    FrameReader reader(1 << 20);
    reader.Add(Bytes::Copy(std::string(shift, '.') + frame).Slice(shift));
    const auto read = reader.Next();
    ASSERT_TRUE(read.ok() && read->has_value());

    const auto decoded = DecodeMessage(**read);

    ASSERT_TRUE(decoded.ok()) << shift;
    EXPECT_EQ(std::get<zab::Proposal>(*decoded).zxid, (Zxid{{1}, 2})) << shift;
  }
}

}  // namespace
}  // namespace lockstep::wire
