// The names of all invariants that the simulator checks, for reports and `lockstep-sim list`.
// docs/invariants.md tells each one at length and where it is checked.
#pragma once

#include <vector>

namespace lockstep::sim {

struct InvariantInfo {
  const char* name;
  const char* says;
};
const std::vector<InvariantInfo>& AllInvariants();

}  // namespace lockstep::sim
