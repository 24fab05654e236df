// A hash that is the same in every process, compiler and version: what the tree's digest is made
// of. Not against forgery.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/random.h"

namespace lockstep::coordination {

// Takes 64-bit words one after the other; the round is that of XXH64's short inputs. Part of the
// format of snapshots: never change it without a new format version.
class StateHash {
 public:
  // `kind` tells apart things that consist of the same words.
  constexpr explicit StateHash(uint64_t kind) : state_(Mix64(kind)) {}

  constexpr void Number(uint64_t word) {
    state_ ^= std::rotl(word * kPrime2, 31) * kPrime1;
    state_ = std::rotl(state_, 27) * kPrime1 + kPrime4;
  }
  constexpr void Number(int64_t word) { Number(static_cast<uint64_t>(word)); }
  constexpr void Number(int32_t word) { Number(static_cast<uint64_t>(int64_t{word})); }

  // The length, then the bytes as little-endian words, the last one filled up with zeros. Of a long
  // text, every four words go into four lanes, as in XXH64: one lane alone waits for itself.
  constexpr void Text(std::string_view text) {
    Number(uint64_t{text.size()});
    const char* at = text.data();
    size_t left = text.size();
    if (left >= kStripe) {
      uint64_t lanes[] = {kPrime1 + kPrime2, kPrime2, 0, 0 - kPrime1};
      for (; left >= kStripe; left -= kStripe) {
        for (uint64_t& lane : lanes) {
          lane = std::rotl(lane + Word(at) * kPrime2, 31) * kPrime1;
          at += 8;
        }
      }
      for (uint64_t lane : lanes) Number(lane);
    }
    for (; left >= 8; left -= 8) {
      Number(Word(at));
      at += 8;
    }
    uint64_t last = 0;
    for (size_t i = 0; i < left; ++i) last |= Byte(at[i]) << (8 * i);
    if (left > 0) Number(last);
  }

  constexpr uint64_t value() const { return Mix64(state_); }

 private:
  static constexpr uint64_t kPrime1 = 0x9e3779b185ebca87;
  static constexpr uint64_t kPrime2 = 0xc2b2ae3d27d4eb4f;
  static constexpr uint64_t kPrime4 = 0x85ebca77c2b2ae63;

  static constexpr size_t kStripe = 32;  // bytes

  static constexpr uint64_t Byte(char byte) { return static_cast<unsigned char>(byte); }
  // Without a loop, compilers see that it is one load.
  static constexpr uint64_t Word(const char* at) {
    return Byte(at[0]) | Byte(at[1]) << 8 | Byte(at[2]) << 16 | Byte(at[3]) << 24 |
           Byte(at[4]) << 32 | Byte(at[5]) << 40 | Byte(at[6]) << 48 | Byte(at[7]) << 56;
  }

  uint64_t state_;
};

}  // namespace lockstep::coordination
