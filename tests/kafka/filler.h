// Random values for the fields of messages: what the generated Fill functions are made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/random.h"
#include "core/base/uuid.h"
#include "core/kafka/error.h"
#include "core/kafka/records.h"

namespace lockstep::kafka {

// Prefers the values at which encodings change: bounds of integers, lengths around those at which a
// varint grows, payloads that the Writer copies and such that it does not.
class Filler {
 public:
  explicit Filler(uint64_t seed) : random_(seed, ServerId{1}, 0, 0) {}

  bool Bool() { return random_.Chance(1, 2); }
  int8_t Int8() { return Integer<int8_t>(); }
  int16_t Int16() { return Integer<int16_t>(); }
  int32_t Int32() { return Integer<int32_t>(); }
  int64_t Int64() { return Integer<int64_t>(); }
  ErrorCode Error() { return ErrorCode{Int16()}; }
  lockstep::Uuid Uuid() {
    lockstep::Uuid uuid;
    uuid.high = random_.Next();
    uuid.low = random_.Next();
    return uuid;
  }
  std::string String();
  lockstep::Bytes Bytes() { return lockstep::Bytes::Copy(String()); }
  lockstep::kafka::Records Records();
  std::vector<int32_t> Int32s();
  std::vector<std::string> Strings();
  size_t Count() { return random_.Below(4); }
  bool HasValue(bool nullable = true) { return !nullable || random_.Chance(3, 4); }

  std::optional<std::string> NullableString(bool nullable = true) {
    return HasValue(nullable) ? std::optional(String()) : std::nullopt;
  }
  std::optional<lockstep::Bytes> NullableBytes(bool nullable = true) {
    return HasValue(nullable) ? std::optional(Bytes()) : std::nullopt;
  }
  std::optional<lockstep::kafka::Records> NullableRecords(bool nullable = true) {
    return HasValue(nullable) ? std::optional(Records()) : std::nullopt;
  }
  std::optional<std::vector<int32_t>> NullableInt32s(bool nullable = true) {
    return HasValue(nullable) ? std::optional(Int32s()) : std::nullopt;
  }
  std::optional<std::vector<std::string>> NullableStrings(bool nullable = true) {
    return HasValue(nullable) ? std::optional(Strings()) : std::nullopt;
  }

 private:
  template <typename Int>
  Int Integer() {
    const uint64_t choice = random_.Below(6);
    if (choice == 0) return 0;
    if (choice == 1) return -1;
    if (choice == 2) return std::numeric_limits<Int>::min();
    if (choice == 3) return std::numeric_limits<Int>::max();
    return static_cast<Int>(random_.Next());
  }

  RandomStream random_;
};

}  // namespace lockstep::kafka
