// Frames between peers: what is put around every message on an election or learner connection.
//
//   frame  := magic:u16 version:u8 kind:u8 length:u32 header_length:u32 crc:u32 header payload
//   length counts header and payload; crc is the CRC-32C of everything before and after it.
//
// Integers are little-endian. The header is a FlatBuffer (lockstep.fbs); the payload, if the
// message has one, follows it as it is and is never copied into it. docs/wire.md has a worked
// example.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/bytes.h"

namespace lockstep::wire {

inline constexpr uint16_t kMagic = 0x534c;  // "LS"
inline constexpr uint8_t kVersion = 1;
inline constexpr size_t kFrameHeaderBytes = 16;
// No header between servers of an ensemble is longer; the longest, an AckEpoch with all its epoch
// ends, has some 8 KiB.
inline constexpr uint32_t kHeaderBytesMax = 16 << 10;
// Nor any between brokers: a fetch of kFetchEntriesMax partitions.
inline constexpr uint32_t kBrokerHeaderBytesMax = 8 << 20;

// A whole, checked frame, not yet decoded.
struct Frame {
  uint8_t kind = 0;
  Bytes header;   // the FlatBuffer
  Bytes payload;  // may be empty
};

// The start of a frame in a new buffer: everything but the payload, which the caller sends after
// it, slice after slice. Requires: 0 < header_size <= kBrokerHeaderBytesMax; header and payload
// together below 4 GiB.
Bytes FrameStart(uint8_t kind, const void* header, size_t header_size,
                 std::span<const Bytes> payload);
inline Bytes FrameStart(uint8_t kind, const void* header, size_t header_size,
                        const Bytes& payload) {
  return FrameStart(kind, header, header_size, std::span<const Bytes>(&payload, 1));
}

// Cuts a stream of bytes into frames. Bad magic, an unknown version, a length above the bound or a
// wrong checksum is an error, after which the connection must be closed: the stream has no next
// frame.
class FrameReader {
 public:
  // `length_max`: the greatest accepted `length`, inclusive. What a peer can make us hold is this
  // and one read more. `header_length_max`: of the header alone, inclusive.
  explicit FrameReader(uint32_t length_max, uint32_t header_length_max = kHeaderBytesMax)
      : length_max_(length_max), header_length_max_(header_length_max) {}

  // Takes over the next bytes of the stream, cut anywhere.
  void Add(Bytes bytes);
  // The next whole frame, nothing if more bytes are needed, or an error. An error is final: all
  // later calls return one. Header and payload share the buffer they came in where they lie in one
  // piece.
  absl::StatusOr<std::optional<Frame>> Next();
  // Bytes held that no returned frame has used up.
  size_t buffered() const { return buffered_; }

 private:
  // The first kFrameHeaderBytes of the stream, which stay in it. Requires: so many are buffered.
  void Peek(uint8_t* to) const;
  void Skip(size_t size);
  // Removes the next `size` bytes from the stream. Requires: size <= buffered().
  Bytes Take(size_t size);
  absl::Status Break(const std::string& why);

  uint32_t length_max_;
  uint32_t header_length_max_;
  std::deque<Bytes> pieces_;  // none is empty
  size_t buffered_ = 0;       // the sum of their sizes
  bool broken_ = false;
};

}  // namespace lockstep::wire
