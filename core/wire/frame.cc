#include "core/wire/frame.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/check.h"
#include "core/base/crc32c.h"

namespace lockstep::wire {
namespace {

// Where the fields of a frame start.
constexpr size_t kVersionAt = 2;
constexpr size_t kKindAt = 3;
constexpr size_t kLengthAt = 4;
constexpr size_t kHeaderLengthAt = 8;
constexpr size_t kCrcAt = 12;

void Put16(uint8_t* to, uint16_t value) {
  to[0] = static_cast<uint8_t>(value);
  to[1] = static_cast<uint8_t>(value >> 8);
}
void Put32(uint8_t* to, uint32_t value) {
  for (int i = 0; i < 4; ++i) to[i] = static_cast<uint8_t>(value >> (8 * i));
}
uint16_t Read16(const uint8_t* from) { return static_cast<uint16_t>(from[0] | from[1] << 8); }
uint32_t Read32(const uint8_t* from) {
  return uint32_t{from[0]} | uint32_t{from[1]} << 8 | uint32_t{from[2]} << 16 |
         uint32_t{from[3]} << 24;
}

// Kind, version and lengths are covered too: one flipped bit there would turn a message into
// another one, whose own bytes are in order.
uint32_t Checksum(const uint8_t* start, const void* header, size_t header_size,
                  std::span<const Bytes> payload) {
  uint32_t crc = Crc32c(0, {reinterpret_cast<const char*>(start), kCrcAt});
  crc = Crc32c(crc, {static_cast<const char*>(header), header_size});
  for (const Bytes& slice : payload) crc = Crc32c(crc, slice.view());
  return crc;
}

}  // namespace

Bytes FrameStart(uint8_t kind, const void* header, size_t header_size,
                 std::span<const Bytes> payload) {
  LS_CHECK_GT(header_size, size_t{0});
  LS_CHECK_LE(header_size, size_t{kBrokerHeaderBytesMax});
  uint64_t payload_size = 0;
  for (const Bytes& slice : payload) payload_size += slice.size();
  LS_CHECK_LE(payload_size, std::numeric_limits<uint32_t>::max() - header_size);
  return Bytes::Build(kFrameHeaderBytes + header_size, [&](char* to) {
    auto* start = reinterpret_cast<uint8_t*>(to);
    Put16(start, kMagic);
    start[kVersionAt] = kVersion;
    start[kKindAt] = kind;
    Put32(start + kLengthAt, static_cast<uint32_t>(header_size + payload_size));
    Put32(start + kHeaderLengthAt, static_cast<uint32_t>(header_size));
    Put32(start + kCrcAt, Checksum(start, header, header_size, payload));
    std::memcpy(start + kFrameHeaderBytes, header, header_size);
  });
}

void FrameReader::Add(Bytes bytes) {
  if (bytes.empty() || broken_) return;
  buffered_ += bytes.size();
  pieces_.push_back(std::move(bytes));
}

absl::StatusOr<std::optional<Frame>> FrameReader::Next() {
  if (broken_) return absl::DataLossError("the stream is broken");
  if (buffered_ < kFrameHeaderBytes) return std::nullopt;
  uint8_t start[kFrameHeaderBytes];
  Peek(start);

  // Lengths are judged before their bytes have come, so that nobody makes us wait for, and hold,
  // what we would refuse.
  if (Read16(start) != kMagic) return Break("not a frame: bad magic");
  if (start[kVersionAt] != kVersion) {
    return Break("frame of version " + std::to_string(start[kVersionAt]) + "; this server speaks " +
                 std::to_string(kVersion));
  }
  const uint32_t length = Read32(start + kLengthAt);
  const uint32_t header_length = Read32(start + kHeaderLengthAt);
  if (length > length_max_) {
    return Break("frame of " + std::to_string(length) + " bytes; the limit is " +
                 std::to_string(length_max_));
  }
  if (header_length == 0 || header_length > std::min(length, header_length_max_)) {
    return Break("frame of " + std::to_string(length) + " bytes with a header of " +
                 std::to_string(header_length));
  }
  if (buffered_ - kFrameHeaderBytes < length) return std::nullopt;

  Skip(kFrameHeaderBytes);
  Frame frame;
  frame.kind = start[kKindAt];
  frame.header = Take(header_length);
  frame.payload = Take(length - header_length);
  if (Checksum(start, frame.header.data(), frame.header.size(), {&frame.payload, 1}) !=
      Read32(start + kCrcAt)) {
    return Break("frame with a wrong checksum");
  }
  return std::optional<Frame>(std::move(frame));
}

void FrameReader::Peek(uint8_t* to) const {
  size_t have = 0;
  for (auto piece = pieces_.begin(); have < kFrameHeaderBytes; ++piece) {
    const size_t part = std::min(piece->size(), kFrameHeaderBytes - have);
    std::memcpy(to + have, piece->data(), part);
    have += part;
  }
}

void FrameReader::Skip(size_t size) {
  buffered_ -= size;
  while (size > 0) {
    Bytes& front = pieces_.front();
    if (size < front.size()) {
      front = front.Slice(size);
      return;
    }
    size -= front.size();
    pieces_.pop_front();
  }
}

Bytes FrameReader::Take(size_t size) {
  if (size == 0) return Bytes();
  if (size <= pieces_.front().size()) {
    Bytes taken = pieces_.front().Slice(0, size);
    Skip(size);
    return taken;
  }
  // Cut by the network: the one case in which bytes are copied, each of them once.
  Bytes taken = Bytes::Build(size, [&](char* to) {
    size_t have = 0;
    for (auto piece = pieces_.begin(); have < size; ++piece) {
      const size_t part = std::min(piece->size(), size - have);
      std::memcpy(to + have, piece->data(), part);
      have += part;
    }
  });
  Skip(size);
  return taken;
}

absl::Status FrameReader::Break(const std::string& why) {
  broken_ = true;
  pieces_.clear();
  buffered_ = 0;
  return absl::DataLossError(why);
}

}  // namespace lockstep::wire
