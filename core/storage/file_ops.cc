#include "core/storage/file_ops.h"

#include "core/base/check.h"

namespace lockstep::storage {

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
