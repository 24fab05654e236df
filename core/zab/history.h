// A server's history: the sequence of transactions it has accepted. A window of it is in memory,
// for synchronizing learners and for delivery; all of it is in the journal and the snapshots.
//
// Invariants:
//  1. The window is strictly ascending and starts after base().
//  2. base() <= durable() <= last(), except while a received snapshot is being made durable:
//     then durable() is <0,0>.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "core/base/ids.h"
#include "core/base/zxid.h"
#include "core/zab/io.h"

namespace lockstep::zab {

class History {
 public:
  // `transactions` are contiguous, the first one follows `base`, and all of it is durable.
  History(Zxid base, std::vector<Transaction> transactions);

  Zxid base() const { return base_; }
  Zxid last() const { return window_.empty() ? base_ : window_.back().zxid; }
  // The last transaction of the part of the history that is durable.
  Zxid durable() const { return durable_; }
  const std::deque<Transaction>& window() const { return window_; }

  // Whether `zxid` is base() or in the window.
  bool Contains(Zxid zxid) const;
  // The position in window() of the first transaction after `zxid`; window().size() if none.
  size_t IndexAfter(Zxid zxid) const;
  // The transaction before the one at `index` of the window.
  Zxid Before(size_t index) const { return index == 0 ? base_ : window_[index - 1].zxid; }
  // The last zxid of `epoch` in base() and the window; nothing if there is none.
  std::optional<Zxid> LastOf(Epoch epoch) const;
  // The last zxid of each epoch in base() and the window, ascending; the newest `max` of them.
  std::vector<Zxid> EpochEnds(size_t max) const;

  // Each is durable when the write `id` is.
  void Append(Transaction transaction, WriteId id);
  // Removes what comes after `to`. Requires: Contains(to).
  void Truncate(Zxid to, WriteId id);
  // As Truncate, in memory alone: the journal keeps what is cut. Only for a broken rule.
  void Forget(Zxid to);
  // Everything is replaced by a snapshot of the state after `zxid`.
  void Reset(Zxid zxid, WriteId id);

  // All writes up to `id` are durable.
  void OnPersisted(WriteId id);

  // Forgets the oldest transactions up to and including `up_to` while the window is larger than
  // either bound. What is forgotten can no longer be offered to a learner.
  void Trim(Zxid up_to, size_t transactions_max, uint64_t bytes_max);
  uint64_t bytes() const { return bytes_; }

 private:
  struct Pending {
    WriteId id;
    Zxid last;  // of the durable history, once the write is durable
  };

  Zxid base_;
  Zxid durable_;
  std::deque<Transaction> window_;
  uint64_t bytes_ = 0;           // of the window's bodies
  std::deque<Pending> pending_;  // ascending ids
};

}  // namespace lockstep::zab
