// Epochs and transaction ids of Zab.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace lockstep {

// The number of a leader's reign. Strictly increasing over the life of an ensemble; 0 is the time
// before the first leader.
struct Epoch {
  uint32_t value = 0;

  constexpr auto operator<=>(const Epoch&) const = default;
  constexpr Epoch Next() const { return {value + 1}; }
  std::string ToString() const { return std::to_string(value); }
};

// A transaction id: ordered by epoch, then counter. The first transaction of epoch e is <e,1>;
// <0,0> means "no transaction". On the client's wire it is one 64-bit number, epoch high.
struct Zxid {
  Epoch epoch;
  uint32_t counter = 0;

  constexpr auto operator<=>(const Zxid&) const = default;
  constexpr uint64_t Packed() const { return (uint64_t{epoch.value} << 32) | counter; }
  static constexpr Zxid FromPacked(uint64_t packed) {
    return {{static_cast<uint32_t>(packed >> 32)}, static_cast<uint32_t>(packed)};
  }
  std::string ToString() const {
    return "<" + std::to_string(epoch.value) + "," + std::to_string(counter) + ">";
  }
};

}  // namespace lockstep
