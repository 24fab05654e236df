// Files as the machines see them: operations are outputs, completions are inputs. The shell carries
// them out on disk threads, the simulator on simulated disks with a page cache.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/ids.h"

namespace lockstep::storage {

// Two directories: ZooKeeper's dataDir (snapshots) and dataLogDir (the journal).
enum class Directory : uint8_t { kData = 0, kLog = 1 };

// Names a file operation within a server's life on this host. The incarnation makes a completion
// that arrives after a restart recognizable.
struct OpId {
  uint64_t incarnation = 0;
  uint64_t sequence = 0;

  constexpr auto operator<=>(const OpId&) const = default;
};

enum class OpKind : uint8_t {
  kList,      // -> names: the files of the directory, ascending
  kRead,      // [offset, offset + size) of the file, shorter at its end -> data
  kCreate,    // a new, empty file; an error if it exists. size > 0: allocate that many zero
              // bytes (so that later syncs need not change the file's length)
  kWrite,     // `data`, one slice after the other, at `offset`; grows the file if needed
  kSync,      // file content and length are durable when it completes (fdatasync)
  kTruncate,  // to `size` bytes
  kRename,    // to `target`, replacing it, in the same directory
  kRemove,
  kSyncDirectory,  // creations, renames and removals in the directory are durable when it completes
};

// Operations on one file, and those on one directory's entries, are carried out in the order in
// which they were given; others in any order.
struct FileOp {
  OpId id;
  OpKind kind = OpKind::kList;
  Directory directory = Directory::kData;
  std::string file;    // a name without a slash; empty for kList and kSyncDirectory
  std::string target;  // kRename
  uint64_t offset = 0;
  uint64_t size = 0;
  std::vector<Bytes> data;  // kWrite
};

enum class FileError : uint8_t {
  kNone = 0,
  kNotFound,
  kExists,
  kNoSpace,
  kIo,  // anything else: permission, EIO
};
const char* ToString(FileError error);

struct FileDone {
  OpId id;
  FileError error = FileError::kNone;
  std::string message;             // the system's words, for the log; empty without error
  Bytes data;                      // kRead
  std::vector<std::string> names;  // kList
};

}  // namespace lockstep::storage
