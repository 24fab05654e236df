// Randomness as the machines see it: counter-based streams. The n-th number of a stream depends on
// the stream's key and n alone, so one more draw in one place shifts no other place.
#pragma once

#include <cstdint>

#include "core/base/check.h"
#include "core/base/ids.h"

namespace lockstep {

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection that mixes all bits.
__extension__ using Uint128 = unsigned __int128;

constexpr uint64_t Mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

class RandomStream {
 public:
  // `purpose` names the place that draws; two streams that differ in any argument are independent.
  constexpr RandomStream(uint64_t seed, ServerId server, uint64_t incarnation, uint64_t purpose)
      : key_(Mix64(Mix64(Mix64(Mix64(seed) ^ server.value) ^ incarnation) ^ purpose)) {}

  constexpr uint64_t Next() { return Mix64(key_ ^ Mix64(counter_++)); }

  // Uniform in [0, bound). Requires: bound > 0. The multiply-shift reduction has a bias below
  // 2^-32 for bounds below 2^32, which is all that is used; it draws exactly once.
  constexpr uint64_t Below(uint64_t bound) {
    LS_CHECK(bound > 0);
    return static_cast<uint64_t>((static_cast<Uint128>(Next()) * bound) >> 64);
  }
  // Uniform in [low, high], both inclusive.
  constexpr int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Below(static_cast<uint64_t>(high - low) + 1));
  }
  // True with probability numerator / denominator.
  constexpr bool Chance(uint64_t numerator, uint64_t denominator) {
    return Below(denominator) < numerator;
  }

  // How many numbers were drawn: part of the simulator's trace hash.
  constexpr uint64_t drawn() const { return counter_; }

 private:
  uint64_t key_;
  uint64_t counter_ = 0;
};

}  // namespace lockstep
