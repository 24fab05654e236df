// The digests of the last states of one server, by zxid: two servers that have applied the same
// transactions must have the same ones. They are compared where both know them, since neither waits
// for the other.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

#include "core/server/ping_payload.h"

namespace lockstep::server {

class DigestLog {
 public:
  // Keeps the newest `max` states, at 16 bytes each. Requires: max > 0.
  explicit DigestLog(size_t max);

  // The state was replaced: nothing before `state` is known any more.
  void Reset(const StateDigest& state);
  // A transaction was applied. Requires: a greater zxid than any before.
  void Append(const StateDigest& state);

  // The digest as of `zxid`: after the last transaction that is not beyond it. Nothing if that is
  // no longer known, or not yet (zxid > last()).
  std::optional<uint64_t> AsOf(Zxid zxid) const;
  // Of the newest state. <0,0> if there is none.
  Zxid last() const { return states_.empty() ? Zxid{} : states_.back().zxid; }

 private:
  const size_t max_;
  std::deque<StateDigest> states_;  // ascending
};

}  // namespace lockstep::server
