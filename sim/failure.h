// How a checker says that an invariant does not hold.
#pragma once

#include <string>
#include <utility>

namespace lockstep::sim {

// Thrown through whatever is running: the world it comes from is discarded. (A failed LS_CHECK
// inside a machine ends in the same way, so that one bad seed does not stop a campaign.)
struct Failure {
  std::string invariant;  // one of AllInvariants()
  std::string detail;     // what was seen: numbers and names
};

[[noreturn]] inline void Fail(const char* invariant, std::string detail) {
  throw Failure{invariant, std::move(detail)};
}

}  // namespace lockstep::sim
