#include "core/storage/checkpoint.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/storage/file_names.h"

namespace lockstep::storage {
namespace {

const char* AdvanceBy(Checkpoint* state, const TransactionRecord& record) {
  if (record.zxid <= state->last) return "a transaction does not come after the one before it";
  state->last = record.zxid;
  return nullptr;
}

const char* AdvanceBy(Checkpoint* state, const TruncateRecord& record) {
  // A snapshot holds committed transactions only; to cut below it would undo what was committed,
  // and nothing older is left to restore (reference: R7).
  if (state->snapshot.kind != SnapshotRef::Kind::kNone && record.to < state->snapshot.zxid) {
    return "a truncation goes below the snapshot";
  }
  state->last = std::min(state->last, record.to);
  return nullptr;
}

const char* AdvanceBy(Checkpoint* state, const AcceptedEpochRecord& record) {
  if (record.epoch < state->accepted_epoch) return "the accepted epoch goes back";
  state->accepted_epoch = record.epoch;
  return nullptr;
}

const char* AdvanceBy(Checkpoint* state, const CurrentEpochRecord& record) {
  if (record.epoch < state->current_epoch) return "the current epoch goes back";
  state->current_epoch = record.epoch;
  return nullptr;
}

const char* AdvanceBy(Checkpoint* state, const SnapshotRecord& record) {
  if (record.replaces_history) {
    state->snapshot = {SnapshotRef::Kind::kReceived, record.zxid};
    state->last = record.zxid;
    return nullptr;
  }
  if (record.zxid > state->last) return "a snapshot is ahead of the history";
  if (record.zxid < state->snapshot.zxid) return "a snapshot is older than the one before it";
  state->snapshot = {SnapshotRef::Kind::kOwn, record.zxid};
  return nullptr;
}

// Those of partition logs: LogTable.
template <typename LogRecord>
const char* AdvanceBy(Checkpoint*, const LogRecord&) {
  return nullptr;
}

}  // namespace

std::string SnapshotRef::FileName() const {
  LS_CHECK(kind != Kind::kNone);
  const FileKind file = kind == Kind::kOwn ? FileKind::kSnapshot : FileKind::kReceived;
  return storage::FileName(file, zxid.Packed());
}

std::string SnapshotRef::ToString() const {
  return kind == Kind::kNone ? "no snapshot" : FileName();
}

const char* Checkpoint::Advance(const Record& record) {
  return std::visit([this](const auto& alternative) { return AdvanceBy(this, alternative); },
                    record);
}

}  // namespace lockstep::storage
