// Cuts a byte stream into frames: length:int32 (big-endian) and that many bytes. So both
// ZooKeeper's client protocol and Kafka's travel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/bytes.h"

namespace lockstep {

// A frame that lies in one piece is a slice of it. The start of a frame that ends in a later piece
// is copied, so that a trickle of bytes neither pins receive buffers nor costs more than it is
// long.
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
  // Moves bytes from the pieces to partial_ until it has `size`, or there are no more.
  // Returns whether it has.
  bool FillPartial(size_t size);
  // Takes the first `size` bytes off the first piece. Requires: it has them.
  Bytes TakeFromFirst(size_t size);

  uint32_t bytes_max_;
  std::string partial_;        // the start of a frame, with its length
  std::vector<Bytes> pieces_;  // what comes after; those before first_ are used up
  size_t first_ = 0;
  size_t buffered_ = 0;
};

}  // namespace lockstep
