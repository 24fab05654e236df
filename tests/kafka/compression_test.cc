#include "core/kafka/compression.h"

#include <gtest/gtest.h>

#include "tests/support/hex.h"

namespace lockstep::kafka {
namespace {

using records::Compression;

constexpr std::string_view kText = "hello hello hello hello hello hello hello hello\n";

// kText by Python's gzip, python-snappy, lz4.frame, zstandard, and by kafka-python's framing for
// snappy-java (kText twice, in blocks of 60 bytes).
constexpr char kGzip[] = "1f8b0800000000000203cb48cdc9c957c82096e40200a3a2099f30000000";
constexpr char kSnappyRaw[] = "301468656c6c6f20a20600000a";
constexpr char kSnappyJava[] =
    "82534e41505059000000000100000001"
    "000000193c1468656c6c6f20a20600300a68656c6c6f2068656c6c6f20"
    "0000000d241468656c6c6f20720600000a";
// Linked blocks, a checksum of the content, its size.
constexpr char kLz4[] =
    "04224d186c40300000000000000084100000006f68656c6c6f2006001250656c6c6f0a000000000e4471d0";
constexpr char kZstd[] = "28b52ffd20306d00003868656c6c6f200a0100029522";
// The same as a stream: its size is not known, its window is 2 MiB.
constexpr char kZstdStream[] = "28b52ffd00586d00003868656c6c6f200a0100029522";
// ... and one that asks for a window of 128 MiB.
constexpr char kZstdWide[] = "28b52ffd00886d00003868656c6c6f200a0100029522";

struct Vector {
  Compression compression;
  const char* hex;
  int times;  // kText
};
constexpr Vector kVectors[] = {
    {Compression::kGzip, kGzip, 1},         {Compression::kSnappy, kSnappyRaw, 1},
    {Compression::kSnappy, kSnappyJava, 2}, {Compression::kLz4, kLz4, 1},
    {Compression::kZstd, kZstd, 1},         {Compression::kZstd, kZstdStream, 1},
};

std::string Repeated(int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += kText;
  return text;
}

TEST(Decompress, KnownVectors) {
  for (const Vector& vector : kVectors) {
    std::string out = "what was there before";
    EXPECT_TRUE(Decompress(vector.compression, FromHex(vector.hex), 1000, &out).ok());
    EXPECT_EQ(out, Repeated(vector.times)) << ToString(vector.compression);
  }
}

TEST(Decompress, NoneCopiesWithinTheBound) {
  std::string out;
  EXPECT_TRUE(Decompress(Compression::kNone, kText, kText.size(), &out).ok());
  EXPECT_EQ(out, kText);
  EXPECT_TRUE(
      absl::IsResourceExhausted(Decompress(Compression::kNone, kText, kText.size() - 1, &out)));
}

TEST(Decompress, UnknownCodecIsRefused) {
  std::string out;
  EXPECT_TRUE(absl::IsUnimplemented(Decompress(Compression::kUnknown, kText, 1000, &out)));
}

TEST(Decompress, BoundIsInclusive) {
  for (const Vector& vector : kVectors) {
    const size_t bytes = vector.times * kText.size();
    const std::string compressed = FromHex(vector.hex);
    std::string out;
    EXPECT_TRUE(Decompress(vector.compression, compressed, bytes, &out).ok());
    for (size_t bound = 0; bound < bytes; ++bound) {
      EXPECT_TRUE(
          absl::IsResourceExhausted(Decompress(vector.compression, compressed, bound, &out)))
          << ToString(vector.compression) << " bound " << bound;
      EXPECT_LE(out.size(), bound + 1);
    }
  }
}

TEST(Decompress, CutShortIsRefused) {
  for (const Vector& vector : kVectors) {
    const std::string compressed = FromHex(vector.hex);
    for (size_t size = 0; size < compressed.size(); ++size) {
      // Between two blocks of snappy-java nothing says that another one follows.
      if (vector.hex == kSnappyJava && (size == 16 || size == 16 + 4 + 0x19)) continue;
      std::string out;
      EXPECT_TRUE(
          absl::IsDataLoss(Decompress(vector.compression, compressed.substr(0, size), 1000, &out)))
          << ToString(vector.compression) << " of " << size << " bytes";
    }
  }
}

TEST(Decompress, BytesAfterTheEndAreRefused) {
  for (const Vector& vector : kVectors) {
    std::string out;
    EXPECT_TRUE(absl::IsDataLoss(
        Decompress(vector.compression, FromHex(vector.hex) + "garbage", 1000, &out)))
        << ToString(vector.compression);
  }
}

TEST(Decompress, OneFrameMayFollowAnother) {
  for (const char* hex : {kGzip, kLz4, kZstd, kSnappyJava}) {
    for (const Vector& vector : kVectors) {
      if (vector.hex != hex) continue;
      std::string out;
      const std::string twice = FromHex(hex) + FromHex(hex);
      EXPECT_TRUE(Decompress(vector.compression, twice, 1000, &out).ok());
      EXPECT_EQ(out, Repeated(2 * vector.times)) << ToString(vector.compression);
    }
  }
}

TEST(Decompress, ChecksumsOfTheCodecsAreChecked) {
  for (const auto& [compression, hex] :
       {std::pair(Compression::kGzip, kGzip), std::pair(Compression::kLz4, kLz4)}) {
    std::string compressed = FromHex(hex);
    // The CRC of gzip is before the length; that of LZ4 is last.
    char& byte = compressed[compressed.size() - (compression == Compression::kGzip ? 5 : 1)];
    byte = static_cast<char>(byte ^ 1);
    std::string out;
    EXPECT_TRUE(absl::IsDataLoss(Decompress(compression, compressed, 1000, &out)));
  }
}

TEST(Decompress, WindowBeyondTheBoundIsNotAllocated) {
  std::string out;
  EXPECT_TRUE(absl::IsDataLoss(Decompress(Compression::kZstd, FromHex(kZstdWide), 8 << 20, &out)));
  EXPECT_TRUE(Decompress(Compression::kZstd, FromHex(kZstdWide), 64 << 20, &out).ok());
  EXPECT_EQ(out, kText);
}

TEST(Decompress, SnappyThatPromisesTooMuchIsRefusedBeforeItIsAllocated) {
  std::string out;
  // 2^25 bytes out of a handful: no snappy block is so dense.
  EXPECT_TRUE(absl::IsDataLoss(
      Decompress(Compression::kSnappy, FromHex("80808010") + "hello", 64 << 20, &out)));
  EXPECT_LT(out.capacity(), size_t{1} << 20);
}

TEST(OpenRecords, UncompressedOnesAreNotCopied) {
  const records::Batch batch{Bytes::Copy(std::string(61, 'h')), Bytes::Copy("records")};
  std::string scratch;
  const auto opened = OpenRecords({.record_count = 1}, batch, 100, &scratch);
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->data(), batch.records.data());
}

TEST(OpenRecords, EmptyBatchOfACompactedLogHasNothingToDecompress) {
  const records::Batch batch{Bytes::Copy(std::string(61, 'h')), Bytes()};
  std::string scratch;
  const auto opened = OpenRecords({.attributes = 4, .record_count = 0}, batch, 100, &scratch);
  ASSERT_TRUE(opened.ok());
  EXPECT_TRUE(opened->empty());
}

}  // namespace
}  // namespace lockstep::kafka
