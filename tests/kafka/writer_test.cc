#include "core/kafka/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/kafka/frame.h"
#include "core/kafka/messages.h"

namespace lockstep::kafka {
namespace {

Bytes Joined(std::vector<Bytes> slices) { return Records(std::move(slices)).Joined(); }

TEST(Writer, WritesNothingAsNoSlices) { EXPECT_TRUE(Writer().Finish().empty()); }

TEST(Writer, PutsPayloadsBetweenItsOwnBytesWithoutCopyingThem) {
  const Bytes payload = Bytes::Copy(std::string(Writer::kCopiedBytesMax + 1, 'p'));
  Writer writer;
  writer.WriteInt8(1);
  writer.WriteBytes(false, payload);
  writer.WriteInt8(2);
  EXPECT_EQ(writer.size(), 1 + 4 + payload.size() + 1);
  const std::vector<Bytes> slices = writer.Finish();
  ASSERT_EQ(slices.size(), 3u);
  EXPECT_EQ(slices[0].view(), std::string_view("\x01\x00\x00\x01\x01", 5));
  EXPECT_EQ(slices[1].data(), payload.data());
  EXPECT_EQ(slices[2].view(), "\x02");
}

TEST(Writer, CopiesSmallPayloads) {
  Writer writer;
  writer.WriteBytes(true, Bytes::Copy("ab"));
  writer.WriteRecords(true, Records(std::vector{Bytes::Copy("cd"), Bytes::Copy("ef")}));
  const std::vector<Bytes> slices = writer.Finish();
  ASSERT_EQ(slices.size(), 1u);
  EXPECT_EQ(slices[0].view(),
            "\x03"
            "ab"
            "\x05"
            "cdef");
}

TEST(Writer, RecordsOfSeveralSlicesAreOneField) {
  const Bytes a = Bytes::Copy(std::string(300, 'a'));
  const Bytes b = Bytes::Copy(std::string(300, 'b'));
  FetchResponse response;
  response.responses.resize(1);
  response.responses[0].partitions.resize(1);
  response.responses[0].partitions[0].records = Records(std::vector{a, b});
  const std::vector<Bytes> slices = EncodeBody(response, 11);
  ASSERT_EQ(slices.size(), 3u);
  EXPECT_EQ(slices[1].data(), a.data());
  EXPECT_EQ(slices[2].data(), b.data());
  absl::StatusOr<FetchResponse> decoded = DecodeBody<FetchResponse>(Joined(slices), 11);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->responses[0].partitions[0].records->slices.size(), 1u);
  EXPECT_EQ(*decoded, response);
}

TEST(Writer, TaggedFieldsKnowTheirLength) {
  for (size_t length : {1u, 126u, 127u, 200u}) {
    Writer writer;
    writer.WriteUnsignedVarint(1);
    const size_t begin = writer.BeginTaggedField(9);
    writer.WriteString(true, std::string(length, 'x'));
    writer.EndTaggedField(begin);
    Reader reader(Joined(writer.Finish()));
    TaggedFieldReader fields(&reader);
    ASSERT_TRUE(fields.Next());
    EXPECT_EQ(fields.tag(), 9u);
    EXPECT_EQ(reader.ReadString(true).size(), length);
    EXPECT_FALSE(fields.Next());
    EXPECT_TRUE(reader.ok());
  }
}

TEST(Encode, LosesWhatTheSchemaCallsIgnorable) {
  ProduceResponse response;
  response.throttle_time_ms = 5;
  absl::StatusOr<ProduceResponse> old =
      DecodeBody<ProduceResponse>(Joined(EncodeBody(response, 0)), 0);
  ASSERT_TRUE(old.ok());
  EXPECT_EQ(old->throttle_time_ms, 0);
}

TEST(EncodeDeathTest, StopsAtAValueThatTheVersionCannotExpress) {
  FetchRequest request;
  request.topics.resize(1);
  request.topics[0].partitions.resize(1);
  request.topics[0].partitions[0].last_fetched_epoch = 3;
  EXPECT_EQ(EncodeBody(request, 12).size(), 1u);
  EXPECT_DEATH(EncodeBody(request, 11), "last_fetched_epoch == -1");
  MetadataRequest all;
  all.topics = std::nullopt;
  EXPECT_EQ(EncodeBody(all, 1).size(), 1u);
  EXPECT_DEATH(EncodeBody(all, 0), "nullable");
}

TEST(Records, AreEqualHoweverTheyAreCut) {
  EXPECT_EQ(Records(Bytes::Copy("abc")),
            Records(std::vector{Bytes::Copy("a"), Bytes(), Bytes::Copy("bc")}));
  EXPECT_FALSE(Records(Bytes::Copy("abc")) == Records(Bytes::Copy("abd")));
  EXPECT_EQ(Records(Bytes()), Records());
}

}  // namespace
}  // namespace lockstep::kafka
