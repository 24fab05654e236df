// Which of Kafka's APIs this code can speak, and in which versions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/kafka/messages.h"

namespace lockstep::kafka {

struct ApiInfo {
  ApiKey key;
  std::string_view name;  // Kafka's: "Produce"
  int16_t version_min;    // inclusive both
  int16_t version_max;
  int32_t flexible_from;  // kNeverFlexible: no version is

  constexpr bool Supports(int16_t version) const {
    return version >= version_min && version <= version_max;
  }
  constexpr bool Flexible(int16_t version) const { return version >= flexible_from; }
};
inline constexpr int32_t kNeverFlexible = INT16_MAX + 1;

// All of them, ascending by key. What the codec can do: which of these a server answers, and from
// which version on (Produce is decoded from 0 and refused below 3), is the server's own table.
std::span<const ApiInfo> Apis();

// Null if there is none with this key.
const ApiInfo* FindApi(int16_t key);

}  // namespace lockstep::kafka
