#include "core/storage/file_names.h"

#include <array>

namespace lockstep::storage {
namespace {

constexpr size_t kDigits = 16;
constexpr std::array<std::string_view, 4> kWords = {"journal.", "snapshot.", "received.",
                                                    "temporary."};

int HexValue(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return -1;
}

}  // namespace

std::string FileName(FileKind kind, uint64_t number) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string name(kWords[static_cast<size_t>(kind)]);
  for (int shift = 60; shift >= 0; shift -= 4) name += kHex[(number >> shift) & 15];
  return name;
}

std::optional<ParsedName> ParseFileName(std::string_view name) {
  for (size_t i = 0; i < kWords.size(); ++i) {
    if (!name.starts_with(kWords[i])) continue;
    const std::string_view digits = name.substr(kWords[i].size());
    if (digits.size() != kDigits) return std::nullopt;
    uint64_t number = 0;
    for (const char digit : digits) {
      const int value = HexValue(digit);
      if (value < 0) return std::nullopt;
      number = number << 4 | static_cast<uint64_t>(value);
    }
    return ParsedName{static_cast<FileKind>(i), number};
  }
  return std::nullopt;
}

std::string Describe(Directory directory, std::string_view file) {
  std::string text = directory == Directory::kData  ? "dataDir"
                     : directory == Directory::kLog ? "dataLogDir"
                                                    : "log.dirs";
  if (!file.empty()) text.append("/").append(file);
  return text;
}

}  // namespace lockstep::storage
