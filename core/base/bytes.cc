#include "core/base/bytes.h"

#include <new>

#include "core/base/check.h"

namespace lockstep {

Bytes Bytes::Slice(size_t offset, size_t length) const {
  LS_CHECK_LE(offset, size_);
  LS_CHECK_LE(length, size_ - offset);
  Bytes slice = *this;
  slice.data_ += offset;
  slice.size_ = length;
  return slice;
}

Bytes::Buffer* Bytes::Allocate(size_t size) {
  return new (::operator new(sizeof(Buffer) + size)) Buffer;
}

void Bytes::Release() {
  if (buffer_ == nullptr) return;
  if (buffer_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    buffer_->~Buffer();
    ::operator delete(buffer_);
  }
  buffer_ = nullptr;
}

}  // namespace lockstep
