#include "core/base/uuid.h"

#include <cstddef>

#include "absl/status/status.h"

namespace lockstep {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr size_t kTextSize = 22;
constexpr int kBitsPerCharacter = 6;
// 22 characters hold 132 bits. The last one carries the lowest two bits of the id above four zeros.
constexpr int kUnusedBits = 4;

}  // namespace

std::string Uuid::ToString() const {
  std::string text(kTextSize, kAlphabet[0]);
  text[kTextSize - 1] = kAlphabet[(low & 3) << kUnusedBits];
  uint64_t high_bits = high;
  uint64_t low_bits = low >> 2 | high << 62;
  high_bits >>= 2;
  for (size_t i = kTextSize - 1; i-- > 0;) {
    text[i] = kAlphabet[low_bits & 63];
    low_bits = low_bits >> kBitsPerCharacter | high_bits << (64 - kBitsPerCharacter);
    high_bits >>= kBitsPerCharacter;
  }
  return text;
}

absl::StatusOr<Uuid> Uuid::FromString(std::string_view text) {
  if (text.size() != kTextSize) return absl::InvalidArgumentError("an id has 22 characters");
  Uuid uuid;
  for (size_t i = 0; i < kTextSize; ++i) {
    const size_t digit = kAlphabet.find(text[i]);
    if (digit == std::string_view::npos) {
      return absl::InvalidArgumentError("not a character of the URL-safe base64 alphabet");
    }
    const bool last = i + 1 == kTextSize;
    if (last && digit % (1 << kUnusedBits) != 0) {
      return absl::InvalidArgumentError("an id has 128 bits");
    }
    const int shift = last ? kBitsPerCharacter - kUnusedBits : kBitsPerCharacter;
    uuid.high = uuid.high << shift | uuid.low >> (64 - shift);
    uuid.low = uuid.low << shift | (last ? digit >> kUnusedBits : digit);
  }
  return uuid;
}

}  // namespace lockstep
