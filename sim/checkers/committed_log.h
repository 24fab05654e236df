// The ghost of the replicated log: what the ensemble has committed, as seen from outside. A
// transaction enters it when the first server applies it; from then on every server must agree.
//
// Checks agreement, total order, prefix consistency, and equal digests at equal zxids.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/bytes.h"
#include "core/base/ids.h"
#include "core/base/zxid.h"
#include "core/coordination/transaction.h"

namespace lockstep::sim {

struct CommittedEntry {
  Zxid zxid;
  uint64_t checksum = 0;           // of the body
  std::optional<uint64_t> digest;  // of the state after it, once a server was seen there
  coordination::DecodedTransaction transaction;
};

class CommittedLog {
 public:
  static constexpr int64_t kBeforeFirst = -1;

  // `server`, whose last applied transaction is at index `position`, applies this one. Returns true
  // if it is new, that is, the last of the log now. `position` moves forward.
  bool OnApplied(uint32_t server, Zxid zxid, const Bytes& body, int64_t* position);

  // `server` is in the state after `zxid`, whose digest is this.
  void OnState(uint32_t server, Zxid zxid, uint64_t digest, int64_t* position);

  // The index of `zxid`, kBeforeFirst for <0,0>, or nothing.
  std::optional<int64_t> Find(Zxid zxid) const;
  bool Contains(Zxid zxid) const { return Find(zxid).has_value(); }
  // The index of the last entry with a zxid <= `zxid`.
  int64_t FindFloor(Zxid zxid) const;

  int64_t size() const { return static_cast<int64_t>(entries_.size()); }
  const CommittedEntry& at(int64_t index) const { return entries_[static_cast<size_t>(index)]; }
  Zxid last() const { return entries_.empty() ? Zxid{} : entries_.back().zxid; }

 private:
  std::vector<CommittedEntry> entries_;
  std::optional<uint64_t> empty_digest_;
};

}  // namespace lockstep::sim
