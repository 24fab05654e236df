// Files as the machines see them: operations are outputs, completions are inputs. The shell carries
// them out on disk threads, the simulator on simulated disks with a page cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/ids.h"

namespace lockstep::storage {

// ZooKeeper's dataDir (snapshots) and dataLogDir (the journal); Kafka's log.dirs (partition logs).
enum class Directory : uint8_t { kData = 0, kLog = 1, kLogs = 2 };
inline constexpr size_t kDirectories = 3;

// Names a file operation within a server's life on this host. The incarnation makes a completion
// that arrives after a restart recognizable.
struct OpId {
  uint64_t incarnation = 0;
  uint64_t sequence = 0;

  constexpr auto operator<=>(const OpId&) const = default;
};

enum class OpKind : uint8_t {
  kList,      // -> names, sizes: the files of the directory, ascending by name. Subdirectories of
              // kLogs are named with a slash at the end
  kRead,      // [offset, offset + size) of the file, shorter at its end -> data
  kCreate,    // a new, empty file; an error if it exists. size > 0: allocate that many zero
              // bytes (so that later syncs need not change the file's length)
  kWrite,     // `data`, one slice after the other, at `offset`; grows the file if needed
  kSync,      // file content and length are durable when it completes (fdatasync)
  kTruncate,  // to `size` bytes
  kRename,  // to `target`, replacing it, in the same directory. A subdirectory too, to a name that
            // is free; requires: nothing is under way in it
  kRemove,
  kSyncDirectory,    // creations, renames and removals in the directory are durable when it
                     // completes
  kMakeDirectory,    // a new, empty subdirectory of kLogs; an error if it exists
  kRemoveDirectory,  // an empty one
};

// Operations on one file, and those on one directory's entries, are carried out in the order in
// which they were given; others in any order. Making and removing a subdirectory, and giving it
// another name, belongs to its own entries and to those of the directory that it is in.
// After one that changes a directory or its files has failed, none that would is carried out any
// more: it fails, too. Operations are given ahead, and the one that puts a new file in the place of
// an old one must not follow a write of the new one that did not succeed.
struct FileOp {
  OpId id;
  OpKind kind = OpKind::kList;
  Directory directory = Directory::kData;
  // A name without a slash. In kLogs also a file of a subdirectory, `name/name`; for kList and
  // kSyncDirectory a subdirectory; empty there for the directory itself.
  std::string file;
  std::string target;  // kRename: of the same form as `file`, with the same subdirectory
  uint64_t offset = 0;
  uint64_t size = 0;
  std::vector<Bytes> data;  // kWrite
};

constexpr bool Changes(OpKind kind) { return kind != OpKind::kList && kind != OpKind::kRead; }

enum class FileError : uint8_t {
  kNone = 0,
  kNotFound,
  kExists,
  kNoSpace,
  kIo,  // anything else: permission, EIO
};
const char* ToString(FileError error);

// Whether `file` (or `target`) of an operation in `directory` stays in it: one name, or in kLogs
// two with a slash between; each not empty, not longer than 255 bytes, and neither "." nor "..".
bool IsSafePath(Directory directory, std::string_view path);

// The subdirectory that `path` lies in, empty if it is the directory itself.
std::string_view SubdirectoryOf(std::string_view path);

struct FileDone {
  OpId id;
  FileError error = FileError::kNone;
  std::string message;             // the system's words, for the log; empty without error
  Bytes data;                      // kRead
  std::vector<std::string> names;  // kList
  std::vector<uint64_t> sizes;     // kList: of each, in bytes; 0 for a subdirectory
};

}  // namespace lockstep::storage
