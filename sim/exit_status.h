// What lockstep-sim ends with; docs/simulator.md.
#pragma once

namespace lockstep::sim {

inline constexpr int kNothingWrong = 0;
inline constexpr int kInvariantFailed = 1;
inline constexpr int kUsage = 2;  // or a file that cannot be read or written

}  // namespace lockstep::sim
