// One server's durable state as a machine over file operations: the journal, the snapshots, and
// their recovery. Knows formats and files, and no protocol. Formats: docs/disk.md.
//
// A machine is a value: calls change it and append to `Output`; file operations are outputs and
// their completions inputs. Calls may come in any order that the comments allow; after a batch of
// calls the owner calls Flush once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/event.h"
#include "core/base/ids.h"
#include "core/base/zxid.h"
#include "core/storage/file_ops.h"

namespace lockstep::storage {

// ---- The journal's records ---------------------------------------------------------------------

struct TransactionRecord {
  Zxid zxid;
  Bytes body;
};
// Every transaction after `to` is removed from the history; what is appended next comes after `to`.
struct TruncateRecord {
  Zxid to;
};
struct AcceptedEpochRecord {
  Epoch epoch;
};
struct CurrentEpochRecord {
  Epoch epoch;
};
// The snapshot of the state after `zxid` is durable and counts from here on. With
// `replaces_history`, it came from the leader: all transactions recorded before are void, and the
// history starts after `zxid`. A snapshot that no record names does not exist.
struct SnapshotRecord {
  Zxid zxid;
  bool replaces_history = false;
};
using Record = std::variant<TransactionRecord, TruncateRecord, AcceptedEpochRecord,
                            CurrentEpochRecord, SnapshotRecord>;

struct StoreOptions {
  ServerId server;
  // A new segment begins when the current one has reached this size (bytes).
  uint64_t segment_bytes = 64 << 20;
  // Segments are kept, beyond what the newest snapshot needs, while the transactions in them that
  // recovery could offer to a lagging learner stay below this size (bytes). Whole segments only.
  uint64_t retained_bytes = 64 << 20;
  // Largest record body accepted on append and believed on recovery (bytes).
  uint32_t record_bytes_max = 8 << 20;
};

// What recovery found; `transactions` are contiguous and all that is retained.
struct Recovered {
  Epoch accepted_epoch;
  Epoch current_epoch;
  Zxid base;      // the transaction before the first of `transactions`; <0,0> at first start
  Zxid snapshot;  // the snapshot whose chunks were handed out, or <0,0> if there is none
  std::vector<TransactionRecord> transactions;
};

struct StoreOutput {
  std::vector<FileOp> ops;
  std::vector<Event> events;
  // The greatest write that has become durable, if any has since the output was last drained.
  std::optional<WriteId> persisted;
  // During recovery: the content of the newest snapshot that counts, in order, as it was written.
  std::vector<Bytes> snapshot_chunks;
  // Recovery has ended: appends are accepted. Once.
  std::optional<Recovered> recovered;
  // An own snapshot (EndSnapshot) is durable and the journal says so.
  std::optional<Zxid> snapshot_taken;
  // The store needs chunks of the own snapshot in progress: call WriteSnapshot (bounded memory).
  bool snapshot_wanted = false;
  // The server must stop now: the directory is foreign or damaged, or an operation failed. A
  // sentence for the operator that names the file and says what to do.
  std::optional<std::string> fatal;

  void Clear();
};

class Store {
 public:
  // `incarnation` differs between any two starts of the server on this directory.
  Store(const StoreOptions& options, uint64_t incarnation);
  ~Store();

  // Begins recovery: lists, checks and reads; cuts a torn tail of the last segment; removes
  // leftovers (temporary files, snapshots that do not count). Damage before the durable end, a
  // foreign server id or an unknown format version ends in `fatal`.
  void Start(StoreOutput* output);

  // A completion. Those of another incarnation are ignored.
  void OnDone(const FileDone& done, StoreOutput* output);

  // Queues a record; `id` is one more than that of the record before. A SnapshotRecord with
  // replaces_history waits, and all later records with it, until the received snapshot is durable.
  // Requires: recovery has ended.
  void Append(WriteId id, Record record, StoreOutput* output);

  // Group commit: if no journal sync is under way and records wait, writes all of them and syncs.
  void Flush(StoreOutput* output);

  // A snapshot from the leader, in pieces. `first` starts anew and drops a half-received one.
  // `last` completes the file; only a SnapshotRecord with replaces_history makes it count.
  void ReceiveSnapshot(Zxid zxid, bool first, bool last, Bytes data, StoreOutput* output);

  // An own snapshot of the state after `zxid`, in pieces. One at a time. Writes nothing to the
  // journal until the file is durable; then appends a SnapshotRecord itself, outside of the
  // caller's WriteIds, and drops segments and snapshots that it covers.
  // Requires: no own snapshot in progress; `zxid` is not above the last durable transaction.
  void BeginSnapshot(Zxid zxid, StoreOutput* output);
  void WriteSnapshot(Bytes data, bool last, StoreOutput* output);
  bool snapshot_in_progress() const;

  // True when a sync is under way or records wait.
  bool busy() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::storage
