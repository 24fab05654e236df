// The names of the files that storage keeps: a word, a dot, 16 hexadecimal digits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/storage/file_ops.h"

namespace lockstep::storage {

enum class FileKind : uint8_t {
  kJournal,    // journal.<sequence>   in Directory::kLog
  kSnapshot,   // snapshot.<zxid>      in Directory::kData, as all that follow: written here
  kReceived,   // received.<zxid>      came from a leader
  kTemporary,  // temporary.<number>   a snapshot in the making
};

struct ParsedName {
  FileKind kind;
  uint64_t number;
};

std::string FileName(FileKind kind, uint64_t number);

// Nothing for a file that is not ours: those are left alone.
std::optional<ParsedName> ParseFileName(std::string_view name);

// For the operator: the configuration key of the directory, a slash, the file.
std::string Describe(Directory directory, std::string_view file);

}  // namespace lockstep::storage
