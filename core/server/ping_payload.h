// What servers say with Zab's pings, and its bytes: a follower answers with the digest of its state
// and the sessions that it has heard from; a leader tells a follower whose state differs.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "core/base/bytes.h"
#include "core/base/zxid.h"

namespace lockstep::server {

// The digest (coordination::Tree::digest) of a state, and the last transaction that made it.
struct StateDigest {
  Zxid zxid;
  uint64_t digest = 0;
  bool operator==(const StateDigest&) const = default;
};

// Follower to leader.
struct PingAnswer {
  std::optional<StateDigest> state;  // absent while the follower does not serve
  Bytes touched;                     // coordination's; nothing here looks inside
};

// Leader to follower: your state differs from mine as of `state.zxid`.
struct StateDiffers {
  StateDigest state;  // the leader's
  // Whether a majority of the ensemble is known to have the leader's state. Otherwise nobody knows
  // which of the two is right.
  bool outvoted = false;
};

// A digest is only comparable with one that was computed in the same way. Raised with every change
// of what the tree's digest is made of; reports of another version decode as absent, so that an
// ensemble can be upgraded one server at a time.
inline constexpr uint8_t kDigestVersion = 1;

Bytes EncodePingAnswer(const PingAnswer& answer);
Bytes EncodeStateDiffers(const StateDiffers& word);

// No bytes at all are an answer with nothing in it. `touched` shares the buffer of `bytes`.
absl::StatusOr<PingAnswer> DecodePingAnswer(const Bytes& bytes);
// Every byte must be accounted for. A digest of another version is an error.
absl::StatusOr<StateDiffers> DecodeStateDiffers(const Bytes& bytes);

}  // namespace lockstep::server
