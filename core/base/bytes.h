// Shared immutable byte slices: how payloads travel from a socket to the journal and to other
// sockets without being copied.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep {

// An immutable slice of a reference-counted buffer. Copying shares the buffer; the count is atomic,
// so slices may be handed to another thread (the shell's disk threads); the content never changes.
class Bytes {
 public:
  Bytes() = default;
  Bytes(const Bytes& other) : buffer_(other.buffer_), data_(other.data_), size_(other.size_) {
    if (buffer_ != nullptr) buffer_->references.fetch_add(1, std::memory_order_relaxed);
  }
  Bytes(Bytes&& other) noexcept
      : buffer_(std::exchange(other.buffer_, nullptr)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  Bytes& operator=(Bytes other) noexcept {
    std::swap(buffer_, other.buffer_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Bytes() { Release(); }

  // A new buffer with a copy of `text`.
  static Bytes Copy(std::string_view text) {
    return Build(text.size(), [&](char* to) {
      if (!text.empty()) std::memcpy(to, text.data(), text.size());
    });
  }
  // A new buffer of `size` bytes, which `fill(char*)` must write in full.
  template <typename Fill>
  static Bytes Build(size_t size, Fill fill) {
    if (size == 0) return Bytes();
    Buffer* buffer = Allocate(size);
    char* data = reinterpret_cast<char*>(buffer + 1);
    fill(data);
    return Bytes(buffer, data, size);
  }

  const char* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::string_view view() const { return {data_, size_}; }

  // The part [offset, offset + length) of this slice, sharing its buffer.
  // Requires: offset + length <= size().
  Bytes Slice(size_t offset, size_t length) const;
  Bytes Slice(size_t offset) const { return Slice(offset, size_ - offset); }

  friend bool operator==(const Bytes& a, const Bytes& b) { return a.view() == b.view(); }
  std::string ToString() const { return std::to_string(size_) + " bytes"; }

 private:
  struct Buffer {
    std::atomic<uint32_t> references{1};
  };
  Bytes(Buffer* buffer, const char* data, size_t size)
      : buffer_(buffer), data_(data), size_(size) {}
  static Buffer* Allocate(size_t size);
  void Release();

  Buffer* buffer_ = nullptr;
  const char* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace lockstep
