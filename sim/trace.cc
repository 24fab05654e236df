#include "sim/trace.h"

#include <cstring>

#include "absl/strings/str_format.h"

namespace lockstep::sim {
namespace {

// Reads little-endian whatever the machine is, so that hashes are the same everywhere.
uint64_t Load64(const char* from) {
  uint64_t value;
  std::memcpy(&value, from, sizeof value);
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap64(value);
  return value;
}

}  // namespace

uint64_t Checksum(std::string_view bytes) {
  uint64_t sum = 0x5eed ^ bytes.size();
  const char* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    sum = std::rotl(sum ^ Load64(at), 29) * 0x9e37'79b9'7f4a'7c15;
  }
  uint64_t tail = 0;
  for (size_t i = 0; i < left; ++i) {
    tail |= static_cast<uint64_t>(static_cast<unsigned char>(at[i])) << (8 * i);
  }
  return Mix64(sum ^ tail);
}

void Trace::Line(std::string_view who, std::string_view what, std::string_view detail,
                 const Event* event) {
  if (observer_ != nullptr) observer_->OnLine({now_, who, what, detail, event});
  if (sink_ == nullptr) return;
  std::string line =
      absl::StrFormat("%5d.%06d  ", now_.ns / 1'000'000'000, now_.ns % 1'000'000'000 / 1000);
  line.append(who);
  line.append(who.size() < 6 ? 6 - who.size() : 1, ' ');
  line.append(what);
  line.append(what.size() < 18 ? 18 - what.size() : 1, ' ');
  line.append(detail);
  sink_(context_, line);
}

}  // namespace lockstep::sim
