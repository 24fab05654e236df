// The version of all programs.
#pragma once

namespace lockstep::shell {

inline constexpr const char kVersion[] = LOCKSTEP_VERSION;

// The ZooKeeper release whose client protocol four-letter words claim to speak; see
// docs/coordination.md, "Where we differ from ZooKeeper".
inline constexpr const char kZooKeeperVersion[] = "3.4.0";

}  // namespace lockstep::shell
