// The records of one partition in a Produce request or a Fetch response: whole batches, opaque to
// the codec (core/records looks into them).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/base/bytes.h"

namespace lockstep::kafka {

// Slices that follow one another. A log reads batches that lie in several buffers, and a response
// carries them from there to the socket without a copy; decoded records are one slice of their
// frame, or none.
struct Records {
  std::vector<Bytes> slices;

  Records() = default;
  explicit Records(Bytes slice) {
    if (!slice.empty()) slices.push_back(std::move(slice));
  }
  explicit Records(std::vector<Bytes> of) : slices(std::move(of)) {}

  size_t size() const;
  // All of them in one slice: a copy, unless there is only one.
  Bytes Joined() const;
  std::string ToString() const { return std::to_string(size()) + " bytes"; }

  // However they are cut.
  friend bool operator==(const Records& a, const Records& b) { return a.Joined() == b.Joined(); }
};

}  // namespace lockstep::kafka
