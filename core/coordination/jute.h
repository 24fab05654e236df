// Jute, ZooKeeper's serialization: big-endian integers; strings, buffers and vectors behind an
// int32 count, of which -1 means null. The client protocol is written in it, and so are, for want
// of a reason to have a second one, our transactions and snapshots.
//
// A record lists its fields once, in a function that takes any of three codecs:
//
//   template <typename Codec, Is<DeleteRequest> T>
//   void Fields(Codec& codec, T& record) { codec(record.path, record.version); }
//
// JuteReader fills the fields from bytes, JuteSize adds up what they take, JuteWriter writes them.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/check.h"
#include "core/base/ids.h"
#include "core/base/zxid.h"

namespace lockstep::coordination {

// T is U or const U.
template <typename T, typename U>
concept Is = std::same_as<std::remove_const_t<T>, U>;

// Reads fields in order. The first one that does not fit makes ok() false for good; it and all
// that follow are left at some valid value, so that one check at the end is enough.
class JuteReader {
 public:
  // `bytes` must outlive the reader and all views that it gives.
  explicit JuteReader(const Bytes& bytes, size_t offset = 0) : bytes_(bytes), at_(offset) {
    LS_CHECK_LE(offset, bytes.size());
  }

  bool ok() const { return ok_; }
  size_t remaining() const { return bytes_.size() - at_; }

  template <typename... T>
  void operator()(T&... fields) {
    (Field(fields), ...);
  }

  void Field(uint8_t& value) { value = static_cast<uint8_t>(Integer(1)); }
  void Field(bool& value) { value = Integer(1) != 0; }
  void Field(int32_t& value) { value = static_cast<int32_t>(Integer(4)); }
  void Field(uint32_t& value) { value = static_cast<uint32_t>(Integer(4)); }
  void Field(int64_t& value) { value = static_cast<int64_t>(Integer(8)); }
  void Field(uint64_t& value) { value = Integer(8); }
  void Field(Zxid& value) { value = Zxid::FromPacked(Integer(8)); }
  void Field(SessionId& value) { Field(value.value); }
  void Field(std::string_view& value) {
    bool null;
    value = Counted(&null);
  }
  void Field(std::string& value) {
    bool null;
    value = Counted(&null);
  }
  template <typename E>
    requires std::is_enum_v<E>
  void Field(E& value) {
    std::underlying_type_t<E> number;
    Field(number);
    value = static_cast<E>(number);
  }
  template <typename T>
  void Field(std::vector<T>& values) {
    // Every element takes at least the four bytes of a count, so a count that does not fit the
    // bytes that are there is refused before anything is allocated for it.
    const int32_t count = static_cast<int32_t>(Integer(4));
    if (count < -1 || (count > 0 && static_cast<size_t>(count) > remaining() / 4)) return Fail();
    values.clear();
    if (count > 0) values.reserve(static_cast<size_t>(count));
    for (int32_t i = 0; i < count && ok_; ++i) Field(values.emplace_back());
  }
  // Sets `null` apart from empty. The result shares the buffer of the reader's bytes.
  Bytes Buffer(bool* null) {
    std::string_view view = Counted(null);
    return bytes_.Slice(at_ - view.size(), view.size());
  }
  template <typename T>
    requires std::is_class_v<T>
  void Field(T& record) {
    Fields(*this, record);
  }

  void Fail() {
    ok_ = false;
    at_ = bytes_.size();
  }

 private:
  uint64_t Integer(size_t size) {
    if (remaining() < size) {
      Fail();
      return 0;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i) {
      value = value << 8 | static_cast<unsigned char>(bytes_.data()[at_ + i]);
    }
    at_ += size;
    return value;
  }
  std::string_view Counted(bool* null) {
    const int32_t size = static_cast<int32_t>(Integer(4));
    *null = size == -1;
    if (size < -1 || (size > 0 && static_cast<size_t>(size) > remaining())) Fail();
    if (!ok_ || size <= 0) return {};
    at_ += static_cast<size_t>(size);
    return bytes_.view().substr(at_ - static_cast<size_t>(size), static_cast<size_t>(size));
  }

  const Bytes& bytes_;
  size_t at_;
  bool ok_ = true;
};

// What JuteSize and JuteWriter have in common: everything but what they do with the bytes.
template <typename Sink>
class JuteOutput {
 public:
  template <typename... T>
  void operator()(const T&... fields) {
    (Field(fields), ...);
  }

  void Field(uint8_t value) { Integer(value, 1); }
  void Field(bool value) { Integer(value ? 1 : 0, 1); }
  void Field(int32_t value) { Integer(static_cast<uint32_t>(value), 4); }
  void Field(uint32_t value) { Integer(value, 4); }
  void Field(int64_t value) { Integer(static_cast<uint64_t>(value), 8); }
  void Field(uint64_t value) { Integer(value, 8); }
  void Field(Zxid value) { Integer(value.Packed(), 8); }
  void Field(SessionId value) { Field(value.value); }
  void Field(std::string_view value) {
    Count(value.size());
    Raw(value);
  }
  void Field(const std::string& value) { Field(std::string_view(value)); }
  template <typename E>
    requires std::is_enum_v<E>
  void Field(E value) {
    Field(static_cast<std::underlying_type_t<E>>(value));
  }
  template <typename T>
  void Field(const std::vector<T>& values) {
    Count(values.size());
    for (const T& value : values) Field(value);
  }
  // Requires: `bytes` are empty if `null`.
  void Buffer(const Bytes& bytes, bool null) {
    if (null) return Field(int32_t{-1});
    Field(bytes.view());
  }
  template <typename T>
    requires std::is_class_v<T>
  void Field(const T& record) {
    Fields(*this, record);
  }

 private:
  void Count(size_t count) {
    LS_CHECK_LE(count, size_t{0x7fffffff});
    Field(static_cast<int32_t>(count));
  }
  void Integer(uint64_t value, size_t size) { static_cast<Sink*>(this)->PutInteger(value, size); }
  void Raw(std::string_view bytes) { static_cast<Sink*>(this)->PutRaw(bytes); }
};

class JuteSize : public JuteOutput<JuteSize> {
 public:
  size_t size() const { return size_; }
  void PutInteger(uint64_t, size_t size) { size_ += size; }
  void PutRaw(std::string_view bytes) { size_ += bytes.size(); }

 private:
  size_t size_ = 0;
};

class JuteWriter : public JuteOutput<JuteWriter> {
 public:
  // `to` must have room for all that will be written.
  explicit JuteWriter(char* to) : to_(to) {}
  const char* end() const { return to_; }
  void PutInteger(uint64_t value, size_t size) {
    for (size_t i = size; i > 0; --i) *to_++ = static_cast<char>(value >> (8 * (i - 1)));
  }
  void PutRaw(std::string_view bytes) {
    if (!bytes.empty()) std::memcpy(to_, bytes.data(), bytes.size());
    to_ += bytes.size();
  }

 private:
  char* to_;
};

// A buffer field: the payload, and whether it is null, which is not the same as empty.
template <typename Codec, Is<Bytes> B, Is<bool> N>
void BufferField(Codec& codec, B& bytes, N& null) {
  if constexpr (std::same_as<Codec, JuteReader>) {
    bytes = codec.Buffer(&null);
  } else {
    codec.Buffer(bytes, null);
  }
}

// The bytes that `put(codec)` writes, in one allocation of just the right size.
template <typename Put>
Bytes JuteBuild(Put put) {
  JuteSize size;
  put(size);
  return Bytes::Build(size.size(), [&](char* to) {
    JuteWriter writer(to);
    put(writer);
    LS_CHECK(writer.end() == to + size.size());
  });
}

// The same behind their length, as the client protocol frames them.
template <typename Put>
Bytes JuteBuildFrame(Put put) {
  JuteSize size;
  put(size);
  LS_CHECK_LE(size.size(), size_t{0x7fffffff});
  return Bytes::Build(4 + size.size(), [&](char* to) {
    JuteWriter writer(to);
    writer(static_cast<int32_t>(size.size()));
    put(writer);
    LS_CHECK(writer.end() == to + 4 + size.size());
  });
}

}  // namespace lockstep::coordination
