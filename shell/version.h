// The version of all programs.
#pragma once

namespace lockstep::shell {

inline constexpr const char kVersion[] = LOCKSTEP_VERSION;

}  // namespace lockstep::shell
