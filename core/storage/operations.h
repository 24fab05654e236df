// The file operations under way: hands out their ids, remembers what each was for, and puts the
// failure of one into words.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "core/storage/file_ops.h"
#include "core/storage/store.h"

namespace lockstep::storage {

enum class Owner : uint8_t {
  kRecovery,
  kJournal,
  kSnapshotWriter,  // `number` says which
  kCleanup,         // nobody waits for it
  kLogFile,         // `number` is the log's, here and below
  kLogSync,
  kLogRemoval,
  kLogFlush,       // `number` is a ticket: a change is durable when it has completed
  kLogTask,        // ... of what reads; it may fail
  kLogRecovery,    // ... of a log, or 0
  kLogCheckpoint,  // files that are not of one log
};

// What is remembered of an operation until it completes.
struct Operation {
  Owner owner = Owner::kCleanup;
  uint64_t number = 0;  // the owner's
  OpKind kind = OpKind::kList;
  Directory directory = Directory::kData;
  std::string file;
  uint64_t offset = 0;
  uint64_t size = 0;  // kRead, kCreate, kTruncate: as asked; kWrite: bytes
};

class Operations {
 public:
  explicit Operations(uint64_t incarnation) : incarnation_(incarnation) {}

  uint64_t incarnation() const { return incarnation_; }

  // Emits `op` under the next id.
  void Issue(Owner owner, uint64_t number, FileOp op, StoreOutput* output);

  // The operation that `done` ends; nothing if there is none: another incarnation's, or told twice.
  std::optional<Operation> Complete(const FileDone& done);

 private:
  uint64_t incarnation_;
  // By sequence number, from first_ on; those that have completed out of order are empty.
  std::deque<std::optional<Operation>> under_way_;
  uint64_t first_ = 1;
};

// A sentence for the operator.
// Requires: done.error is not kNone.
std::string DescribeFailure(const Operation& operation, const FileDone& done);

}  // namespace lockstep::storage
