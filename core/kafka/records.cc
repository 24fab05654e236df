#include "core/kafka/records.h"

#include <cstring>

namespace lockstep::kafka {

size_t Records::size() const {
  size_t size = 0;
  for (const Bytes& slice : slices) size += slice.size();
  return size;
}

Bytes Records::Joined() const {
  if (slices.empty()) return Bytes();
  if (slices.size() == 1) return slices[0];
  return Bytes::Build(size(), [&](char* to) {
    for (const Bytes& slice : slices) {
      if (slice.empty()) continue;
      std::memcpy(to, slice.data(), slice.size());
      to += slice.size();
    }
  });
}

}  // namespace lockstep::kafka
