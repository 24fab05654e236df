// Numbers as they stand in Kafka's formats: big-endian, at any alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace lockstep::records {

// Reads a T from the sizeof(T) bytes at `from`.
template <typename T>
T LoadBe(const char* from) {
  std::make_unsigned_t<T> value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<std::make_unsigned_t<T>>(uint64_t{value} << 8 |
                                                 static_cast<unsigned char>(from[i]));
  }
  return static_cast<T>(value);
}

// Writes `value` at `to` and returns the first byte after it.
template <typename T>
char* StoreBe(char* to, T value) {
  const auto bits = static_cast<std::make_unsigned_t<T>>(value);
  for (size_t i = 0; i < sizeof(T); ++i) {
    to[i] = static_cast<char>(bits >> (8 * (sizeof(T) - 1 - i)));
  }
  return to + sizeof(T);
}

}  // namespace lockstep::records
