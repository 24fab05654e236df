// Kafka's 128-bit ids: of topics (KIP-516), directories and clusters.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

namespace lockstep {

// The zero Uuid names nothing: Kafka sends it for "no id".
struct Uuid {
  uint64_t high = 0;
  uint64_t low = 0;

  constexpr auto operator<=>(const Uuid&) const = default;
  constexpr explicit operator bool() const { return high != 0 || low != 0; }

  // Kafka's printed form: the 16 bytes, big-endian, in the URL-safe alphabet of base64 without
  // padding, which is 22 characters.
  std::string ToString() const;
  // The reverse. Anything but 22 characters of that alphabet is an error, and so are bits that do
  // not fit into 16 bytes: two texts never name one id.
  static absl::StatusOr<Uuid> FromString(std::string_view text);

  template <typename H>
  friend H AbslHashValue(H h, const Uuid& uuid) {
    return H::combine(std::move(h), uuid.high, uuid.low);
  }
};

}  // namespace lockstep
