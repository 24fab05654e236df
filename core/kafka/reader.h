// Reads the primitive types of Kafka's protocol. The generated Decode functions (messages.h) are
// made of these; so are the headers (frame.h).
//
// Bytes from outside: nothing is allocated before it is known to fit the bytes that are there, and
// all that is allocated together stays below a bound, since a decoded struct is larger than its
// smallest encoding. Source: KIP-482 (flexible versions), and the Kafka project's "Protocol
// Primitive Types".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "core/base/bytes.h"
#include "core/base/uuid.h"
#include "core/kafka/error.h"
#include "core/kafka/records.h"

namespace lockstep::kafka {

// Reads values in order. The first one that does not fit makes ok() false for good; it and all that
// follow are zero or empty, so that one check at the end is enough, and no loop over what follows
// is long.
//
// `flexible`: counts and lengths are unsigned varints of n + 1 and 0 is null; otherwise they are
// int16 (strings) and int32 (all else), negative for null.
class Reader {
 public:
  // What one frame may make a decoder allocate (bytes): what ordinary requests need, by far, and no
  // more than this at once. Payloads do not count, since they are slices of the frame.
  static constexpr size_t MemoryMax(size_t frame_bytes) {
    const size_t wanted = (size_t{1} << 20) + 16 * frame_bytes;
    return wanted < kMemoryBytesMax ? wanted : kMemoryBytesMax;
  }
  static constexpr size_t kMemoryBytesMax = size_t{64} << 20;

  explicit Reader(Bytes bytes) : Reader(bytes, MemoryMax(bytes.size())) {}
  Reader(Bytes bytes, size_t memory_bytes_max)
      : bytes_(std::move(bytes)), memory_bytes_left_(memory_bytes_max) {}
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  bool ok() const { return error_ == nullptr; }
  // kInvalidArgument, with what was wrong and where.
  absl::Status status() const;
  // Bytes that were read, and not yet read. After an error nothing remains.
  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }

  bool ReadBool() { return ReadInt8() != 0; }
  int8_t ReadInt8() { return static_cast<int8_t>(ReadInteger(1)); }
  int16_t ReadInt16() { return static_cast<int16_t>(ReadInteger(2)); }
  int32_t ReadInt32() { return static_cast<int32_t>(ReadInteger(4)); }
  int64_t ReadInt64() { return static_cast<int64_t>(ReadInteger(8)); }
  ErrorCode ReadError() { return ErrorCode{ReadInt16()}; }
  Uuid ReadUuid();
  // At most five bytes and 32 bits. Kafka lets surplus bits of the fifth byte overflow; nobody
  // sends them, and so they are refused here. Surplus zeros (`80 00`) are accepted, as Kafka does.
  uint32_t ReadUnsignedVarint();

  // Strings are at most 32,767 bytes in either form. Not checked for UTF-8: names are judged by who
  // takes them.
  std::string ReadString(bool flexible);
  // With `nullable` false null is an error, as it is for ReadString.
  std::optional<std::string> ReadNullableString(bool flexible, bool nullable = true);

  // Slices of the frame.
  Bytes ReadBytes(bool flexible);
  std::optional<Bytes> ReadNullableBytes(bool flexible, bool nullable = true);
  Records ReadRecords(bool flexible);
  std::optional<Records> ReadNullableRecords(bool flexible, bool nullable = true);

  std::vector<int32_t> ReadInt32s(bool flexible);
  std::optional<std::vector<int32_t>> ReadNullableInt32s(bool flexible, bool nullable = true);
  std::vector<std::string> ReadStrings(bool flexible);
  std::optional<std::vector<std::string>> ReadNullableStrings(bool flexible, bool nullable = true);

  // How many elements follow: elements of at least `element_bytes_min` on the wire (at least 1) and
  // `element_size` in memory. That many fit the bytes that remain, and the bound on memory.
  size_t ReadCount(bool flexible, size_t element_bytes_min, size_t element_size);
  std::optional<size_t> ReadNullableCount(bool flexible, size_t element_bytes_min,
                                          size_t element_size, bool nullable = true);

  // The tagged fields at the end of a struct of which this version knows none.
  void SkipTaggedFields();

  void Fail(const char* error);

 private:
  friend class TaggedFieldReader;

  uint64_t ReadInteger(size_t size);
  // Nothing for null; also after an error, and if null is one. `compact` and not: 1 or `width`
  // bytes.
  std::optional<size_t> ReadLength(bool flexible, size_t width, bool nullable);
  std::string_view Take(size_t size);
  bool Charge(size_t count, size_t size);

  Bytes bytes_;
  size_t position_ = 0;
  size_t memory_bytes_left_;
  const char* error_ = nullptr;
  size_t error_position_ = 0;
};

// The tagged fields of a struct:
//
//   TaggedFieldReader fields(reader);
//   while (fields.Next()) {
//     if (fields.tag() == 0) to->cluster_id = reader->ReadNullableString(true);
//   }
//
// What is not read is skipped. Tags must ascend, so that none comes twice (KIP-482), and a field
// must be exactly as long as it says; Kafka's own decoder checks neither.
class TaggedFieldReader {
 public:
  explicit TaggedFieldReader(Reader* reader);
  // Moves on to the next field. False after the last one, or on an error.
  bool Next();
  uint32_t tag() const { return tag_; }

 private:
  Reader* reader_;
  size_t left_;
  bool first_ = true;
  uint32_t tag_ = 0;
  size_t begin_;  // of the value of the present field, and where it ends
  size_t end_;
};

}  // namespace lockstep::kafka
