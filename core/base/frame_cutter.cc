#include "core/base/frame_cutter.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "core/base/check.h"

namespace lockstep {
namespace {

constexpr size_t kLengthBytes = 4;

}  // namespace

void FrameCutter::Add(Bytes bytes) {
  if (bytes.empty()) return;
  buffered_ += bytes.size();
  // Drops what is used up once it is half of the vector, so that each piece is moved O(1) times.
  if (first_ > pieces_.size() / 2) {
    pieces_.erase(pieces_.begin(), pieces_.begin() + static_cast<ptrdiff_t>(first_));
    first_ = 0;
  }
  pieces_.push_back(std::move(bytes));
}

absl::StatusOr<std::optional<Bytes>> FrameCutter::Next() {
  if (partial_.empty()) {
    if (first_ == pieces_.size()) return std::nullopt;
    const Bytes& piece = pieces_[first_];
    if (piece.size() >= kLengthBytes) {
      absl::StatusOr<size_t> length = ParseLength(piece.data());
      if (!length.ok()) return length.status();
      if (piece.size() - kLengthBytes >= *length) {
        buffered_ -= kLengthBytes + *length;
        return TakeFromFirst(kLengthBytes + *length).Slice(kLengthBytes);
      }
    }
  }
  if (!FillPartial(kLengthBytes)) return std::nullopt;
  absl::StatusOr<size_t> length = ParseLength(partial_.data());
  if (!length.ok()) return length.status();
  // The buffer grows with what has arrived, not to what the length claims will come.
  if (!FillPartial(kLengthBytes + *length)) return std::nullopt;
  Bytes frame = Bytes::Copy(std::string_view(partial_).substr(kLengthBytes));
  buffered_ -= partial_.size();
  partial_ = std::string();  // and not clear(): an idle connection need not keep the capacity
  return frame;
}

absl::StatusOr<size_t> FrameCutter::ParseLength(const char* data) const {
  uint32_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length = length << 8 | static_cast<unsigned char>(data[i]);
  }
  // A negative length is above any bound when read as unsigned.
  if (length > bytes_max_ || length > 0x7fffffff) {
    return absl::InvalidArgumentError("frame length out of bounds");
  }
  return length;
}

bool FrameCutter::FillPartial(size_t size) {
  while (partial_.size() < size && first_ < pieces_.size()) {
    Bytes taken = TakeFromFirst(std::min(size - partial_.size(), pieces_[first_].size()));
    partial_.append(taken.view());
  }
  return partial_.size() >= size;
}

Bytes FrameCutter::TakeFromFirst(size_t size) {
  Bytes& piece = pieces_[first_];
  LS_CHECK_LE(size, piece.size());
  if (size < piece.size()) {
    Bytes taken = piece.Slice(0, size);
    piece = piece.Slice(size);
    return taken;
  }
  Bytes taken = std::move(piece);
  if (++first_ == pieces_.size()) {
    pieces_.clear();
    first_ = 0;
  }
  return taken;
}

}  // namespace lockstep
