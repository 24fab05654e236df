// Cuts a byte stream into frames: length:int32 (big-endian) and that many bytes. So both
// ZooKeeper's client protocol and Kafka's travel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "absl/status/statusor.h"
#include "core/base/bytes.h"

namespace lockstep {

// A frame that lies in one piece is a slice of it; one that was cut by the network is copied once,
// when all of it is there. Pieces of a few bytes are put together as they come, so that a trickle
// costs little more than it is long.
class FrameCutter {
 public:
  // Frames longer than `bytes_max` are an error.
  explicit FrameCutter(uint32_t bytes_max) : bytes_max_(bytes_max) {}

  void Add(Bytes bytes);
  // The next whole frame without its length, or nothing if more bytes are needed. A negative length
  // or one above the bound is an error, and stays one: the stream has no next frame.
  absl::StatusOr<std::optional<Bytes>> Next();
  // Bytes added and not yet given out.
  size_t buffered() const { return buffered_; }

 private:
  absl::StatusOr<size_t> ParseLength(const char* data) const;
  // The first `size` bytes, into `to`; they stay. Requires: so many are buffered.
  void Peek(size_t size, char* to) const;
  // Takes them off. Requires: so many are buffered.
  Bytes Take(size_t size);

  uint32_t bytes_max_;
  std::deque<Bytes> pieces_;
  size_t buffered_ = 0;
};

}  // namespace lockstep
