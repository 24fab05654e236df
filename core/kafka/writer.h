// Writes the primitive types of Kafka's protocol: the reverse of reader.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/uuid.h"
#include "core/kafka/error.h"
#include "core/kafka/records.h"

namespace lockstep::kafka {

// What is written becomes a list of slices. Large payloads are in it as they are, by reference; all
// that lies between them is written into one buffer.
class Writer {
 public:
  // Payloads up to this (bytes, inclusive) are copied: that is cheaper than one more slice, and
  // does not keep the buffer they lie in.
  static constexpr size_t kCopiedBytesMax = 256;

  Writer() = default;
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Bytes written so far.
  size_t size() const { return owned_.size() + referenced_bytes_; }
  // All that was written; the writer is empty again.
  std::vector<Bytes> Finish();

  void WriteBool(bool value) { WriteInt8(value ? 1 : 0); }
  void WriteInt8(int8_t value) { WriteInteger(static_cast<uint64_t>(value), 1); }
  void WriteInt16(int16_t value) { WriteInteger(static_cast<uint64_t>(value), 2); }
  void WriteInt32(int32_t value) { WriteInteger(static_cast<uint64_t>(value), 4); }
  void WriteInt64(int64_t value) { WriteInteger(static_cast<uint64_t>(value), 8); }
  void WriteError(ErrorCode value) { WriteInt16(static_cast<int16_t>(value)); }
  void WriteUuid(const Uuid& value);
  void WriteUnsignedVarint(uint32_t value);

  // Require: at most 32,767 bytes. The nullable ones require a value unless `nullable`.
  void WriteString(bool flexible, std::string_view value);
  void WriteNullableString(bool flexible, const std::optional<std::string>& value,
                           bool nullable = true);

  void WriteBytes(bool flexible, const Bytes& value);
  void WriteNullableBytes(bool flexible, const std::optional<Bytes>& value, bool nullable = true);
  void WriteRecords(bool flexible, const Records& value);
  void WriteNullableRecords(bool flexible, const std::optional<Records>& value,
                            bool nullable = true);

  void WriteInt32s(bool flexible, const std::vector<int32_t>& values);
  void WriteNullableInt32s(bool flexible, const std::optional<std::vector<int32_t>>& values,
                           bool nullable = true);
  void WriteStrings(bool flexible, const std::vector<std::string>& values);
  void WriteNullableStrings(bool flexible, const std::optional<std::vector<std::string>>& values,
                            bool nullable = true);

  void WriteCount(bool flexible, size_t count);
  // A count of null. Requires: `nullable`.
  void WriteNullCount(bool flexible, bool nullable = true);

  // A tagged field: its value is all that is written between the two. The value may hold no
  // payloads.
  //
  //   const size_t begin = writer->BeginTaggedField(0);
  //   writer->WriteNullableString(true, from.cluster_id);
  //   writer->EndTaggedField(begin);
  size_t BeginTaggedField(uint32_t tag);
  void EndTaggedField(size_t begin);

  // Replaces the four bytes written at `at`, before any payload.
  void PatchInt32(size_t at, int32_t value);

 private:
  // A payload that stands before byte `at` of owned_.
  struct Reference {
    size_t at;
    Bytes slice;
  };

  void WriteInteger(uint64_t value, size_t size);
  void WriteLength(bool flexible, size_t width, size_t length);
  void WriteNull(bool flexible, size_t width, bool nullable);
  void WritePayload(const Bytes& slice);

  std::string owned_;
  std::vector<Reference> references_;
  size_t referenced_bytes_ = 0;
};

}  // namespace lockstep::kafka
