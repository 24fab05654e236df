#include "core/kafka/reader.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "core/kafka/frame.h"
#include "core/kafka/messages.h"
#include "core/kafka/writer.h"

namespace lockstep::kafka {
namespace {

Bytes Raw(std::string_view text) { return Bytes::Copy(text); }
template <size_t N>
Bytes Literal(const char (&text)[N]) {
  return Bytes::Copy(std::string_view(text, N - 1));
}

TEST(Reader, IntegersAreBigEndian) {
  Reader reader(Literal("\xfe\x01\x02\x80\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xfd\x02\x00"));
  EXPECT_EQ(reader.ReadInt8(), -2);
  EXPECT_EQ(reader.ReadInt16(), 0x0102);
  EXPECT_EQ(reader.ReadInt32(), INT32_MIN + 1);
  EXPECT_EQ(reader.ReadInt64(), -3);
  EXPECT_TRUE(reader.ReadBool());
  EXPECT_FALSE(reader.ReadBool());
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(reader.remaining(), 0u);
}

TEST(Reader, TheFirstErrorStaysAndSaysWhere) {
  Reader reader(Literal("\x00\x01\x02"));
  reader.ReadInt16();
  EXPECT_EQ(reader.ReadInt32(), 0);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.ReadInt8(), 0);
  EXPECT_EQ(reader.ReadString(true), "");
  EXPECT_EQ(reader.status().message(), "the frame ends within a field, at byte 2");
}

TEST(Reader, VarintsHaveAtMostFiveBytesAnd32Bits) {
  Reader reader(Literal("\x00\x7f\x80\x01\xff\xff\xff\xff\x0f\x80\x00"));
  EXPECT_EQ(reader.ReadUnsignedVarint(), 0u);
  EXPECT_EQ(reader.ReadUnsignedVarint(), 127u);
  EXPECT_EQ(reader.ReadUnsignedVarint(), 128u);
  EXPECT_EQ(reader.ReadUnsignedVarint(), 0xffffffffu);
  EXPECT_EQ(reader.ReadUnsignedVarint(), 0u);  // not minimal: Kafka takes it
  EXPECT_TRUE(reader.ok());
  for (const Bytes& bad : {Literal("\xff\xff\xff\xff\x10"), Literal("\x80\x80\x80\x80\x80\x00"),
                           Literal("\x80\x80"), Bytes()}) {
    Reader bad_reader(bad);
    EXPECT_EQ(bad_reader.ReadUnsignedVarint(), 0u);
    EXPECT_FALSE(bad_reader.ok());
  }
}

TEST(Reader, NullIsAnErrorWhereThereMustBeAValue) {
  for (bool flexible : {false, true}) {
    const Bytes null = flexible ? Literal("\x00") : Literal("\xff\xff\xff\xff");
    {
      Reader reader(null);
      EXPECT_EQ(reader.ReadNullableString(flexible), std::nullopt);
      EXPECT_TRUE(reader.ok());
    }
    Reader reader(null);
    EXPECT_EQ(reader.ReadString(flexible), "");
    EXPECT_FALSE(reader.ok());
    Reader bytes_reader(null);
    EXPECT_EQ(bytes_reader.ReadBytes(flexible), Bytes());
    EXPECT_FALSE(bytes_reader.ok());
    Reader array_reader(null);
    EXPECT_TRUE(array_reader.ReadInt32s(flexible).empty());
    EXPECT_FALSE(array_reader.ok());
    Reader version_reader(null);
    EXPECT_EQ(version_reader.ReadNullableStrings(flexible, /*nullable=*/false), std::nullopt);
    EXPECT_FALSE(version_reader.ok());
  }
}

TEST(Reader, CompactStringsAreNoLongerThanOthers) {
  Writer writer;
  writer.WriteUnsignedVarint(0x8001);
  Reader reader(Raw(std::string(writer.Finish()[0].view()) + std::string(0x8000, 'x')));
  EXPECT_EQ(reader.ReadString(true), "");
  EXPECT_EQ(reader.status().message(), "a string is longer than 32767 bytes, at byte 3");
}

TEST(Reader, PayloadsAreSlicesOfTheFrame) {
  const Bytes frame = Literal(
      "\x00\x00\x00\x03"
      "abc"
      "\x04"
      "xyz");
  Reader reader(frame, /*memory_bytes_max=*/0);
  EXPECT_EQ(reader.ReadBytes(false).data(), frame.data() + 4);
  EXPECT_EQ(reader.ReadRecords(true).slices.at(0).data(), frame.data() + 8);
}

TEST(Reader, CountsAreJudgedBeforeAnythingIsAllocated) {
  // 2^31 - 1 elements of at least two bytes cannot stand in what is left.
  Reader reader(
      Literal("\x7f\xff\xff\xff"
              "abcd"));
  EXPECT_EQ(reader.ReadCount(false, 2, 1), 0u);
  EXPECT_EQ(reader.status().message(), "an array is longer than its frame, at byte 4");
  Reader exact(
      Literal("\x00\x00\x00\x02"
              "abcd"));
  EXPECT_EQ(exact.ReadCount(false, 2, 1), 2u);
}

TEST(Reader, MemoryIsBounded) {
  Reader reader(Literal("\x03"
                        "abcdefgh"),
                /*memory_bytes_max=*/100);
  EXPECT_EQ(reader.ReadCount(true, 1, 50), 2u);
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(reader.ReadCount(true, 1, 1), 0u);
  EXPECT_FALSE(reader.ok());
}

TEST(Reader, AFrameFullOfTheSmallestStructsIsRefused) {
  // 4 MiB of Metadata topics without a name: 2 bytes each here, 64 in memory.
  const uint32_t count = 2 << 20;
  Writer writer;
  writer.WriteInt32(count);
  Reader reader(Raw(std::string(writer.Finish()[0].view()) + std::string(2 * count, '\0')));
  MetadataRequest request;
  EXPECT_EQ(Decode(&reader, 1, &request).message().substr(0, 40),
            "the frame would take too much memory, at");
}

TEST(TaggedFields, UnknownOnesAreSkipped) {
  Reader reader(
      Literal("\x02\x00\x02"
              "ab"
              "\x05\x00!"));
  TaggedFieldReader fields(&reader);
  ASSERT_TRUE(fields.Next());
  EXPECT_EQ(fields.tag(), 0u);
  ASSERT_TRUE(fields.Next());
  EXPECT_EQ(fields.tag(), 5u);
  EXPECT_FALSE(fields.Next());
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(reader.remaining(), 1u);
}

TEST(TaggedFields, MustAscendAndSoNoneComesTwice) {
  for (const Bytes& bytes : {Literal("\x02\x01\x00\x01\x00"), Literal("\x02\x01\x00\x00\x00")}) {
    Reader reader(bytes);
    reader.SkipTaggedFields();
    EXPECT_EQ(reader.status().message(), "tags do not ascend, at byte 4");
  }
}

TEST(TaggedFields, MustBeAsLongAsTheySay) {
  for (int size : {1, 3}) {
    Reader reader(Raw(std::string("\x01\x00", 2) + char(size) + "abcd"));
    TaggedFieldReader fields(&reader);
    ASSERT_TRUE(fields.Next());
    reader.ReadInt16();
    EXPECT_FALSE(fields.Next());
    EXPECT_FALSE(reader.ok()) << size;
  }
}

TEST(TaggedFields, MustFitTheFrame) {
  for (const Bytes& bytes :
       {Literal("\x01\x00\x02"
                "a"),
        Literal("\x03\x00\x00\x01\x00"), Literal("\xff\xff\xff\xff\x0f"), Literal("\x01")}) {
    Reader reader(bytes);
    reader.SkipTaggedFields();
    EXPECT_FALSE(reader.ok());
  }
}

}  // namespace
}  // namespace lockstep::kafka
