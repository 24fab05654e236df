#include "core/kafka/reader.h"

#include <limits>
#include <utility>

#include "core/base/check.h"

namespace lockstep::kafka {
namespace {

constexpr size_t kStringWidth = 2;  // of the length of a string, if not flexible
constexpr size_t kCountWidth = 4;   // of all other lengths and counts
constexpr size_t kStringBytesMax = 0x7fff;
constexpr size_t kTaggedFieldBytesMin = 2;

}  // namespace

absl::Status Reader::status() const {
  if (ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(std::string(error_) + ", at byte " +
                                    std::to_string(error_position_));
}

void Reader::Fail(const char* error) {
  if (!ok()) return;
  error_ = error;
  error_position_ = position_;
  position_ = bytes_.size();
}

std::string_view Reader::Take(size_t size) {
  if (remaining() < size) {
    Fail("the frame ends within a field");
    return {};
  }
  position_ += size;
  return bytes_.view().substr(position_ - size, size);
}

bool Reader::Charge(size_t count, size_t size) {
  // Counts and lengths were found to fit the frame; this is its bound in memory.
  if (size != 0 && count > memory_bytes_left_ / size) {
    Fail("the frame would take too much memory");
    return false;
  }
  memory_bytes_left_ -= count * size;
  return true;
}

uint64_t Reader::ReadInteger(size_t size) {
  uint64_t value = 0;
  for (char byte : Take(size)) value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

Uuid Reader::ReadUuid() {
  Uuid uuid;
  uuid.high = ReadInteger(8);
  uuid.low = ReadInteger(8);
  // Half an id would be another one.
  return ok() ? uuid : Uuid{};
}

uint32_t Reader::ReadUnsignedVarint() {
  uint32_t value = 0;
  for (int shift = 0; shift <= 28; shift += 7) {
    const uint32_t byte = static_cast<uint8_t>(ReadInt8());
    if (!ok()) return 0;
    if (shift == 28 && byte > 0x0f) break;
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  Fail("a varint has more than 32 bits");
  return 0;
}

std::optional<size_t> Reader::ReadLength(bool flexible, size_t width, bool nullable) {
  int64_t length;
  if (flexible) {
    length = int64_t{ReadUnsignedVarint()} - 1;
  } else {
    length = width == kStringWidth ? ReadInt16() : ReadInt32();
  }
  if (!ok()) return std::nullopt;
  if (length < 0) {
    if (!nullable) Fail("null where there must be a value");
    return std::nullopt;
  }
  return static_cast<size_t>(length);
}

std::string Reader::ReadString(bool flexible) {
  return ReadNullableString(flexible, /*nullable=*/false).value_or(std::string());
}

std::optional<std::string> Reader::ReadNullableString(bool flexible, bool nullable) {
  const std::optional<size_t> length = ReadLength(flexible, kStringWidth, nullable);
  if (!length.has_value()) return std::nullopt;
  if (*length > kStringBytesMax) {
    Fail("a string is longer than 32767 bytes");
    return std::nullopt;
  }
  const std::string_view text = Take(*length);
  if (!ok() || !Charge(text.size(), 1)) return std::nullopt;
  return std::string(text);
}

Bytes Reader::ReadBytes(bool flexible) {
  return ReadNullableBytes(flexible, /*nullable=*/false).value_or(Bytes());
}

std::optional<Bytes> Reader::ReadNullableBytes(bool flexible, bool nullable) {
  const std::optional<size_t> length = ReadLength(flexible, kCountWidth, nullable);
  if (!length.has_value()) return std::nullopt;
  const size_t begin = position_;
  Take(*length);
  if (!ok()) return std::nullopt;
  return bytes_.Slice(begin, *length);
}

Records Reader::ReadRecords(bool flexible) { return Records(ReadBytes(flexible)); }

std::optional<Records> Reader::ReadNullableRecords(bool flexible, bool nullable) {
  std::optional<Bytes> bytes = ReadNullableBytes(flexible, nullable);
  if (!bytes.has_value()) return std::nullopt;
  return Records(*std::move(bytes));
}

std::vector<int32_t> Reader::ReadInt32s(bool flexible) {
  return ReadNullableInt32s(flexible, /*nullable=*/false).value_or(std::vector<int32_t>());
}

std::optional<std::vector<int32_t>> Reader::ReadNullableInt32s(bool flexible, bool nullable) {
  const std::optional<size_t> count =
      ReadNullableCount(flexible, sizeof(int32_t), sizeof(int32_t), nullable);
  if (!count.has_value()) return std::nullopt;
  std::vector<int32_t> values(*count);
  for (int32_t& value : values) value = ReadInt32();
  return values;
}

std::vector<std::string> Reader::ReadStrings(bool flexible) {
  return ReadNullableStrings(flexible, /*nullable=*/false).value_or(std::vector<std::string>());
}

std::optional<std::vector<std::string>> Reader::ReadNullableStrings(bool flexible, bool nullable) {
  const std::optional<size_t> count =
      ReadNullableCount(flexible, flexible ? 1 : kStringWidth, sizeof(std::string), nullable);
  if (!count.has_value()) return std::nullopt;
  std::vector<std::string> values(*count);
  for (std::string& value : values) value = ReadString(flexible);
  return values;
}

size_t Reader::ReadCount(bool flexible, size_t element_bytes_min, size_t element_size) {
  return ReadNullableCount(flexible, element_bytes_min, element_size, /*nullable=*/false)
      .value_or(0);
}

std::optional<size_t> Reader::ReadNullableCount(bool flexible, size_t element_bytes_min,
                                                size_t element_size, bool nullable) {
  LS_CHECK(element_bytes_min > 0);
  const std::optional<size_t> count = ReadLength(flexible, kCountWidth, nullable);
  if (!count.has_value()) return std::nullopt;
  if (*count > remaining() / element_bytes_min) {
    Fail("an array is longer than its frame");
    return std::nullopt;
  }
  if (!Charge(*count, element_size)) return std::nullopt;
  return count;
}

void Reader::SkipTaggedFields() {
  TaggedFieldReader fields(this);
  while (fields.Next()) {
  }
}

TaggedFieldReader::TaggedFieldReader(Reader* reader)
    : reader_(reader), left_(reader->ReadUnsignedVarint()) {
  begin_ = end_ = reader->position();
  // Also bounds how often Next can be called.
  if (left_ > reader->remaining() / kTaggedFieldBytesMin) {
    reader->Fail("more tagged fields than the frame can hold");
  }
}

bool TaggedFieldReader::Next() {
  if (!reader_->ok()) return false;
  if (reader_->position() == begin_) {
    reader_->position_ = end_;
  } else if (reader_->position() != end_) {
    reader_->Fail("a tagged field is not as long as it says");
    return false;
  }
  if (left_ == 0) return false;
  --left_;
  const uint32_t tag = reader_->ReadUnsignedVarint();
  if (!first_ && tag <= tag_) reader_->Fail("tags do not ascend");
  first_ = false;
  tag_ = tag;
  const size_t size = reader_->ReadUnsignedVarint();
  if (size > reader_->remaining()) reader_->Fail("the frame ends within a tagged field");
  begin_ = reader_->position();
  end_ = begin_ + size;
  return reader_->ok();
}

}  // namespace lockstep::kafka
