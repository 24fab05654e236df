#include "core/base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace lockstep {

uint32_t Crc32c(uint32_t crc, std::string_view data) {
  // ISA-L hands out the register itself; the usual inversion at both ends is ours to add. It takes
  // its length as an int.
  static constexpr size_t kPieceBytes = size_t{1} << 30;
  uint32_t state = ~crc;
  while (!data.empty()) {
    const size_t piece = std::min(data.size(), kPieceBytes);
    // The parameter is not const for historical reasons; nothing is written through it.
    state = crc32_iscsi(reinterpret_cast<unsigned char*>(const_cast<char*>(data.data())),
                        static_cast<int>(piece), state);
    data.remove_prefix(piece);
  }
  return ~state;
}

}  // namespace lockstep
