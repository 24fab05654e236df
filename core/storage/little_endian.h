// Numbers as they stand in files: little-endian, at any alignment.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace lockstep::storage {

static_assert(std::endian::native == std::endian::little,
              "a big-endian port needs byte swaps in Store and Load, and nowhere else");

// Writes `value` at `to` and returns the first byte after it.
template <typename T>
char* StoreLe(char* to, T value) {
  std::memcpy(to, &value, sizeof value);
  return to + sizeof value;
}

template <typename T>
T LoadLe(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace lockstep::storage
