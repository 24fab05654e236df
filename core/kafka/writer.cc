#include "core/kafka/writer.h"

#include <utility>

#include "core/base/check.h"

namespace lockstep::kafka {
namespace {

constexpr size_t kStringWidth = 2;  // of the length of a string, if not flexible
constexpr size_t kCountWidth = 4;   // of all other lengths and counts
constexpr size_t kStringBytesMax = 0x7fff;
constexpr size_t kLengthMax = 0x7fffffff;

}  // namespace

std::vector<Bytes> Writer::Finish() {
  std::vector<Bytes> slices;
  slices.reserve(2 * references_.size() + 1);
  const Bytes owned = Bytes::Copy(owned_);
  size_t begin = 0;
  for (Reference& reference : references_) {
    if (reference.at > begin) slices.push_back(owned.Slice(begin, reference.at - begin));
    begin = reference.at;
    slices.push_back(std::move(reference.slice));
  }
  if (owned.size() > begin) slices.push_back(owned.Slice(begin));
  owned_.clear();
  references_.clear();
  referenced_bytes_ = 0;
  return slices;
}

void Writer::WriteInteger(uint64_t value, size_t size) {
  char bytes[sizeof value];
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(value >> (8 * (size - 1 - i)));
  owned_.append(bytes, size);
}

void Writer::WriteUuid(const Uuid& value) {
  WriteInteger(value.high, 8);
  WriteInteger(value.low, 8);
}

void Writer::WriteUnsignedVarint(uint32_t value) {
  for (; value >= 0x80; value >>= 7) owned_.push_back(static_cast<char>(value | 0x80));
  owned_.push_back(static_cast<char>(value));
}

void Writer::WriteLength(bool flexible, size_t width, size_t length) {
  LS_CHECK_LE(length, kLengthMax);
  if (flexible) {
    WriteUnsignedVarint(static_cast<uint32_t>(length) + 1);
  } else {
    WriteInteger(length, width);
  }
}

void Writer::WriteNull(bool flexible, size_t width, bool nullable) {
  LS_CHECK(nullable);
  if (flexible) {
    WriteUnsignedVarint(0);
  } else {
    WriteInteger(~uint64_t{0}, width);
  }
}

void Writer::WriteString(bool flexible, std::string_view value) {
  LS_CHECK_LE(value.size(), kStringBytesMax);
  WriteLength(flexible, kStringWidth, value.size());
  owned_.append(value);
}

void Writer::WriteNullableString(bool flexible, const std::optional<std::string>& value,
                                 bool nullable) {
  if (!value.has_value()) return WriteNull(flexible, kStringWidth, nullable);
  WriteString(flexible, *value);
}

void Writer::WritePayload(const Bytes& slice) {
  if (slice.size() <= kCopiedBytesMax) {
    owned_.append(slice.view());
    return;
  }
  referenced_bytes_ += slice.size();
  references_.push_back({owned_.size(), slice});
}

void Writer::WriteBytes(bool flexible, const Bytes& value) {
  WriteLength(flexible, kCountWidth, value.size());
  WritePayload(value);
}

void Writer::WriteNullableBytes(bool flexible, const std::optional<Bytes>& value, bool nullable) {
  if (!value.has_value()) return WriteNull(flexible, kCountWidth, nullable);
  WriteBytes(flexible, *value);
}

void Writer::WriteRecords(bool flexible, const Records& value) {
  WriteLength(flexible, kCountWidth, value.size());
  for (const Bytes& slice : value.slices) WritePayload(slice);
}

void Writer::WriteNullableRecords(bool flexible, const std::optional<Records>& value,
                                  bool nullable) {
  if (!value.has_value()) return WriteNull(flexible, kCountWidth, nullable);
  WriteRecords(flexible, *value);
}

void Writer::WriteInt32s(bool flexible, const std::vector<int32_t>& values) {
  WriteCount(flexible, values.size());
  for (int32_t value : values) WriteInt32(value);
}

void Writer::WriteNullableInt32s(bool flexible, const std::optional<std::vector<int32_t>>& values,
                                 bool nullable) {
  if (!values.has_value()) return WriteNullCount(flexible, nullable);
  WriteInt32s(flexible, *values);
}

void Writer::WriteStrings(bool flexible, const std::vector<std::string>& values) {
  WriteCount(flexible, values.size());
  for (const std::string& value : values) WriteString(flexible, value);
}

void Writer::WriteNullableStrings(bool flexible,
                                  const std::optional<std::vector<std::string>>& values,
                                  bool nullable) {
  if (!values.has_value()) return WriteNullCount(flexible, nullable);
  WriteStrings(flexible, *values);
}

void Writer::WriteCount(bool flexible, size_t count) { WriteLength(flexible, kCountWidth, count); }

void Writer::WriteNullCount(bool flexible, bool nullable) {
  WriteNull(flexible, kCountWidth, nullable);
}

size_t Writer::BeginTaggedField(uint32_t tag) {
  WriteUnsignedVarint(tag);
  return owned_.size();
}

void Writer::EndTaggedField(size_t begin) {
  LS_CHECK(references_.empty() || references_.back().at < begin);
  // The length comes first, and is known last. Values are a few bytes: moving them is cheap.
  const std::string value = owned_.substr(begin);
  owned_.resize(begin);
  WriteUnsignedVarint(static_cast<uint32_t>(value.size()));
  owned_.append(value);
}

void Writer::PatchInt32(size_t at, int32_t value) {
  LS_CHECK_LE(at + 4, owned_.size());
  LS_CHECK(references_.empty() || references_.front().at >= at + 4);
  for (size_t i = 0; i < 4; ++i) {
    owned_[at + i] = static_cast<char>(static_cast<uint32_t>(value) >> (24 - 8 * i));
  }
}

}  // namespace lockstep::kafka
