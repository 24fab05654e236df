// Records of simulated producers: each has a number of its own in the whole world, which is the
// first thing in its value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/records/big_endian.h"

namespace lockstep::sim {

// Which producer, and the how-manieth of its records: later ones of a producer are greater.
struct RecordId {
  uint64_t value = 0;
  constexpr auto operator<=>(const RecordId&) const = default;
  constexpr explicit operator bool() const { return value != 0; }
  static constexpr RecordId Of(uint32_t producer, uint64_t number) {
    return {(uint64_t{producer} + 1) << 40 | number};
  }
  uint32_t producer() const { return static_cast<uint32_t>(value >> 40) - 1; }
  uint64_t number() const { return value & ((uint64_t{1} << 40) - 1); }
  std::string ToString() const {
    return value == 0 ? "a record of no producer"
                      : "p" + std::to_string(producer()) + "." + std::to_string(number());
  }
};

inline std::string ValueOf(RecordId id, size_t padding) {
  std::string value(sizeof(uint64_t), '\0');
  records::StoreBe(value.data(), id.value);
  value.append(padding, 'x');
  return value;
}
inline RecordId IdOf(const std::optional<std::string_view>& value) {
  if (!value || value->size() < sizeof(uint64_t)) return {};
  return {records::LoadBe<uint64_t>(value->data())};
}

}  // namespace lockstep::sim
