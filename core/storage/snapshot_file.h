// Snapshot files: their format, their writer, and the checker that reads one back in bounded
// pieces. Layout with an example: docs/disk.md.
//
//   file  := header chunk* end
//   chunk := length crc data
//   end   := all-ones crc total
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/ids.h"
#include "core/storage/checkpoint.h"
#include "core/storage/operations.h"
#include "core/storage/store.h"

namespace lockstep::storage {

inline constexpr uint32_t kSnapshotVersion = 1;
inline constexpr uint64_t kSnapshotHeaderBytes = 40;
inline constexpr uint64_t kChunkHeaderBytes = 8;
inline constexpr uint64_t kSnapshotEndBytes = 16;
// Largest piece of a snapshot (bytes), inclusive; no peer frame holds more.
inline constexpr uint64_t kSnapshotChunkBytesMax = 64 << 20;

// Writes one snapshot to a temporary file and, once it is whole and durable, gives it its name.
// What makes it count comes later, in the journal.
class SnapshotWriter {
 public:
  // `number` differs between the writers of an incarnation; it also names the temporary file.
  SnapshotWriter(uint64_t number, SnapshotRef ref, ServerId server, Operations* operations);

  void Start(StoreOutput* output);
  // The next piece, in order; kept as one chunk. `last` completes the file.
  void Write(Bytes data, bool last, StoreOutput* output);
  // One of this writer's operations has completed, without error.
  void OnDone(const Operation& operation, StoreOutput* output);
  // Removes what has been written. Requires: !named(). No other call may follow.
  void Abandon(StoreOutput* output);

  uint64_t number() const { return number_; }
  SnapshotRef ref() const { return ref_; }
  uint64_t bytes() const { return end_; }
  // `last` was given.
  bool complete() const { return complete_; }
  // The file has its name, or the operation that gives it is under way.
  bool named() const { return renaming_; }
  // Whole, durable, and under its name.
  bool durable() const { return renaming_ && under_way_ == 0; }
  // More pieces can come without holding much in memory.
  bool wants_more() const { return !complete_ && bytes_under_way_ < kBytesUnderWayMax; }

 private:
  static constexpr uint64_t kBytesUnderWayMax = 1 << 20;

  void Issue(FileOp op, StoreOutput* output);
  void Append(std::vector<Bytes> data, StoreOutput* output);

  uint64_t number_;
  SnapshotRef ref_;
  ServerId server_;
  Operations* operations_;
  std::string temporary_;
  uint64_t end_ = 0;    // of the file, exclusive
  uint64_t total_ = 0;  // bytes of chunk data so far
  uint64_t bytes_under_way_ = 0;
  uint64_t under_way_ = 0;  // operations
  bool complete_ = false;
  bool renaming_ = false;
};

// Reads the snapshot that counts and hands out its chunks.
class SnapshotReader {
 public:
  SnapshotReader(SnapshotRef ref, ServerId server, Operations* operations);

  void Start(StoreOutput* output);
  // A read has completed, without error: hands out the chunks that are whole and asks for more, or
  // is done. Sets output->fatal if the file is not what was written.
  void OnRead(Bytes data, StoreOutput* output);
  bool done() const { return done_; }

 private:
  static constexpr uint64_t kReadBytes = 1 << 20;

  // Reads from `end_` on. `bytes`: at least as many as what comes next needs.
  void Read(uint64_t bytes, StoreOutput* output);
  void Damaged(const std::string& what, StoreOutput* output);

  SnapshotRef ref_;
  ServerId server_;
  Operations* operations_;
  uint64_t end_ = 0;  // everything before is checked
  uint64_t total_ = 0;
  uint64_t asked_ = 0;
  bool end_seen_ = false;
  bool done_ = false;
};

}  // namespace lockstep::storage
