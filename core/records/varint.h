// Zig-zag varints, in which records write their numbers (as in Protocol Buffers' sint32, sint64).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::records {

inline constexpr size_t kVarintBytesMax = 5;
inline constexpr size_t kVarlongBytesMax = 10;

constexpr uint64_t ZigZag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}
constexpr int64_t UnZigZag(uint64_t value) {
  return static_cast<int64_t>((value >> 1) ^ (0 - (value & 1)));
}

// How many bytes AppendVarint adds: 1 to kVarlongBytesMax.
constexpr size_t VarintBytes(int64_t value) {
  size_t bytes = 1;
  for (uint64_t rest = ZigZag(value); rest >= 0x80; rest >>= 7) ++bytes;
  return bytes;
}

inline void AppendVarint(int64_t value, std::string* out) {
  uint64_t rest = ZigZag(value);
  for (; rest >= 0x80; rest >>= 7) out->push_back(static_cast<char>(rest | 0x80));
  out->push_back(static_cast<char>(rest));
}

// Takes a number from the front of `from`. False, with `from` at some place, if it is cut short or
// has more than 64 bits. Zeros at its end are accepted, as everywhere in Kafka.
inline bool TakeVarlong(std::string_view* from, int64_t* value) {
  uint64_t bits = 0;
  for (size_t i = 0; i < kVarlongBytesMax && i < from->size(); ++i) {
    const auto byte = static_cast<unsigned char>((*from)[i]);
    if (i == kVarlongBytesMax - 1 && byte > 1) return false;
    bits |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      from->remove_prefix(i + 1);
      *value = UnZigZag(bits);
      return true;
    }
  }
  return false;
}

// The same for a number of 32 bits.
inline bool TakeVarint(std::string_view* from, int32_t* value) {
  // Nearly all are of one byte, and a batch may have millions of them.
  if (!from->empty() && static_cast<unsigned char>(from->front()) < 0x80) {
    *value = static_cast<int32_t>(UnZigZag(static_cast<unsigned char>(from->front())));
    from->remove_prefix(1);
    return true;
  }
  uint32_t bits = 0;
  for (size_t i = 0; i < kVarintBytesMax && i < from->size(); ++i) {
    const auto byte = static_cast<unsigned char>((*from)[i]);
    if (i == kVarintBytesMax - 1 && byte > 0x0f) return false;
    bits |= static_cast<uint32_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      from->remove_prefix(i + 1);
      *value = static_cast<int32_t>(UnZigZag(bits));
      return true;
    }
  }
  return false;
}

}  // namespace lockstep::records
