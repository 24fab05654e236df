// Frames between peers: what is put around every message on an election or learner connection.
//
//   frame   := magic:u16 version:u8 kind:u8 length:u32 crc:u32 header_length:u32 header payload
//   length  counts header_length, header and payload; crc is CRC-32C over the same bytes.
//
// Integers are little-endian. The header is a FlatBuffer (lockstep.fbs); the payload, if the message
// has one, follows it as it is and is never copied into it. docs/wire.md has a worked example.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "absl/status/statusor.h"
#include "core/base/bytes.h"

namespace lockstep::wire {

inline constexpr uint16_t kMagic = 0x534c;  // "LS"
inline constexpr uint8_t kVersion = 1;
inline constexpr size_t kFrameHeaderBytes = 12;

// A whole, checked frame, not yet decoded.
struct Frame {
  uint8_t kind = 0;
  Bytes header;   // the FlatBuffer
  Bytes payload;  // may be empty
};

// Cuts a stream of bytes into frames. Bad magic, an unknown version, a length above the bound or a
// wrong checksum is an error, after which the connection must be closed: the stream has no next
// frame.
class FrameReader {
 public:
  explicit FrameReader(uint32_t length_max) : length_max_(length_max) {}

  void Add(Bytes bytes);
  // The next whole frame, nothing if more bytes are needed, or an error.
  absl::StatusOr<std::optional<Frame>> Next();
  size_t buffered() const { return buffered_; }

 private:
  uint32_t length_max_;
  std::deque<Bytes> pieces_;
  size_t buffered_ = 0;
};

}  // namespace lockstep::wire
