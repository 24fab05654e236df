#include "core/coordination/path.h"

#include <cstddef>
#include <cstdint>

#include "core/base/check.h"

namespace lockstep::coordination {
namespace {

constexpr uint32_t kMalformed = 0xffffffff;

// The code point at `*at`, which is moved past it; kMalformed if there is none. Strict: no overlong
// forms.
uint32_t NextCodePoint(std::string_view text, size_t* at) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const uint32_t first = byte(*at);
  ++*at;
  if (first < 0x80) return first;
  size_t more = 0;
  uint32_t least = 0;
  uint32_t point = 0;
  if ((first & 0xe0) == 0xc0) {
    more = 1, least = 0x80, point = first & 0x1f;
  } else if ((first & 0xf0) == 0xe0) {
    more = 2, least = 0x800, point = first & 0x0f;
  } else if ((first & 0xf8) == 0xf0) {
    more = 3, least = 0x10000, point = first & 0x07;
  } else {
    return kMalformed;
  }
  for (; more > 0; --more, ++*at) {
    if (*at == text.size() || (byte(*at) & 0xc0) != 0x80) return kMalformed;
    point = point << 6 | (byte(*at) & 0x3f);
  }
  return point < least ? kMalformed : point;
}

bool IsRefused(uint32_t point) {
  return point <= 0x1f || (point >= 0x7f && point <= 0x9f) ||
         (point >= 0xd800 && point <= 0xf8ff) ||  // surrogates and private use
         point >= 0xfff0;                         // specials, surrogate pairs, kMalformed
}

}  // namespace

absl::Status ValidatePath(std::string_view path) {
  if (path.empty() || path[0] != '/') return absl::InvalidArgumentError("path must start with /");
  if (path.size() == 1) return absl::OkStatus();
  if (path.back() == '/') return absl::InvalidArgumentError("path must not end with /");
  for (size_t at = 0; at < path.size();) {
    if (IsRefused(NextCodePoint(path, &at))) {
      return absl::InvalidArgumentError("invalid character in path");
    }
  }
  for (size_t start = 1; start <= path.size();) {
    size_t end = path.find('/', start);
    if (end == std::string_view::npos) end = path.size();
    std::string_view name = path.substr(start, end - start);
    if (name.empty()) return absl::InvalidArgumentError("empty node name in path");
    if (name == "." || name == "..") return absl::InvalidArgumentError("relative path");
    start = end + 1;
  }
  return absl::OkStatus();
}

std::string_view ParentPath(std::string_view path) {
  const size_t slash = path.rfind('/');
  LS_CHECK(slash != std::string_view::npos && path.size() > 1);
  return path.substr(0, slash == 0 ? 1 : slash);
}

std::string_view NodeName(std::string_view path) {
  const size_t slash = path.rfind('/');
  LS_CHECK(slash != std::string_view::npos);
  return path.substr(slash + 1);
}

}  // namespace lockstep::coordination
