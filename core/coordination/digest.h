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

  // The length, then the bytes as little-endian words, the last one filled up with zeros.
  constexpr void Text(std::string_view text) {
    Number(uint64_t{text.size()});
    while (text.size() >= 8) {
      Number(Word(text, 8));
      text.remove_prefix(8);
    }
    if (!text.empty()) Number(Word(text, text.size()));
  }

  constexpr uint64_t value() const { return Mix64(state_); }

 private:
  static constexpr uint64_t kPrime1 = 0x9e3779b185ebca87;
  static constexpr uint64_t kPrime2 = 0xc2b2ae3d27d4eb4f;
  static constexpr uint64_t kPrime4 = 0x85ebca77c2b2ae63;

  static constexpr uint64_t Word(std::string_view text, size_t size) {
    uint64_t word = 0;
    for (size_t i = 0; i < size; ++i) {
      word |= uint64_t{static_cast<unsigned char>(text[i])} << (8 * i);
    }
    return word;
  }

  uint64_t state_;
};

}  // namespace lockstep::coordination
