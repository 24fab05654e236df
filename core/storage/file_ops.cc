#include "core/storage/file_ops.h"

#include "core/base/check.h"

namespace lockstep::storage {

namespace {

constexpr size_t kNameBytesMax = 255;

bool IsSafeName(std::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

}  // namespace

bool IsSafePath(Directory directory, std::string_view path) {
  const size_t slash = path.find('/');
  if (slash == std::string_view::npos) return IsSafeName(path);
  return directory == Directory::kLogs && IsSafeName(path.substr(0, slash)) &&
         IsSafeName(path.substr(slash + 1));
}

std::string_view SubdirectoryOf(std::string_view path) {
  const size_t slash = path.find('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

const char* ToString(FileError error) {
  switch (error) {
    case FileError::kNone:
      return "no error";
    case FileError::kNotFound:
      return "no such file";
    case FileError::kExists:
      return "file exists";
    case FileError::kNoSpace:
      return "no space left on device";
    case FileError::kIo:
      return "input/output error";
  }
  LS_UNREACHABLE();
}

}  // namespace lockstep::storage
