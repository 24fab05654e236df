// Cuts the byte stream of ZooKeeper's client protocol into frames: length:int32 (big-endian) and
// that many bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/bytes.h"

namespace lockstep::coordination {

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
  // Call until it gives nothing before the next Add.
  absl::StatusOr<std::optional<Bytes>> Next();
  // Bytes added and not yet given out.
  size_t buffered() const { return partial_.size() + piece_.size(); }

 private:
  absl::StatusOr<size_t> ParseLength(const char* data) const;

  uint32_t bytes_max_;
  std::string partial_;  // the start of a frame, with its length
  Bytes piece_;          // what was added and not looked at, after partial_
};

}  // namespace lockstep::coordination
