// Values for the fields of messages: what the generated Fill functions are made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/random.h"
#include "core/base/uuid.h"
#include "core/kafka/error.h"
#include "core/kafka/records.h"

namespace lockstep::kafka {

class Filler {
 public:
  // Random values. Prefers those at which encodings change: bounds of integers, lengths around
  // those at which a varint grows, payloads that the Writer copies and such that it does not.
  explicit Filler(uint64_t seed) : random_(RandomStream(seed, ServerId{1}, 0, 0)) {}
  // Values made of nothing but the field's name, as make_golden.py makes them, so that fields in
  // the wrong place show. With `nulls` all that may be null is.
  static Filler ByName(bool nulls) { return Filler(nulls); }

  bool Bool(std::string_view) { return !random_.has_value() || random_->Chance(1, 2); }
  int8_t Int8(std::string_view name) { return Integer<int8_t>(name); }
  int16_t Int16(std::string_view name) { return Integer<int16_t>(name); }
  int32_t Int32(std::string_view name) { return Integer<int32_t>(name); }
  int64_t Int64(std::string_view name) { return Integer<int64_t>(name); }
  ErrorCode Error(std::string_view name) { return ErrorCode{Int16(name)}; }
  lockstep::Uuid Uuid(std::string_view name);
  std::string String(std::string_view name);
  lockstep::Bytes Bytes(std::string_view name) { return lockstep::Bytes::Copy(String(name)); }
  lockstep::kafka::Records Records(std::string_view name);
  std::vector<int32_t> Int32s(std::string_view name);
  std::vector<std::string> Strings(std::string_view name);
  size_t Count(std::string_view name);
  bool HasValue(bool nullable = true) {
    if (!random_.has_value()) return !nullable || !nulls_;
    return !nullable || random_->Chance(3, 4);
  }

  std::optional<std::string> NullableString(std::string_view name, bool nullable = true) {
    return HasValue(nullable) ? std::optional(String(name)) : std::nullopt;
  }
  std::optional<lockstep::Bytes> NullableBytes(std::string_view name, bool nullable = true) {
    return HasValue(nullable) ? std::optional(Bytes(name)) : std::nullopt;
  }
  std::optional<lockstep::kafka::Records> NullableRecords(std::string_view name,
                                                          bool nullable = true) {
    return HasValue(nullable) ? std::optional(Records(name)) : std::nullopt;
  }
  std::optional<std::vector<int32_t>> NullableInt32s(std::string_view name, bool nullable = true) {
    return HasValue(nullable) ? std::optional(Int32s(name)) : std::nullopt;
  }
  std::optional<std::vector<std::string>> NullableStrings(std::string_view name,
                                                          bool nullable = true) {
    return HasValue(nullable) ? std::optional(Strings(name)) : std::nullopt;
  }

 private:
  explicit Filler(bool nulls) : nulls_(nulls) {}
  // FNV-1a, 64 bits.
  static uint64_t Hash(std::string_view name);

  template <typename Int>
  Int Integer(std::string_view name) {
    if (!random_.has_value()) return static_cast<Int>(Hash(name));
    const uint64_t choice = random_->Below(6);
    if (choice == 0) return 0;
    if (choice == 1) return -1;
    if (choice == 2) return std::numeric_limits<Int>::min();
    if (choice == 3) return std::numeric_limits<Int>::max();
    return static_cast<Int>(random_->Next());
  }

  std::optional<RandomStream> random_;  // nothing: by name
  bool nulls_ = false;
};

}  // namespace lockstep::kafka
