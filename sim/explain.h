// Tells why a run failed, as a colleague would: what must hold, what contradicts it, who did what
// at the end, and everything that was done to the world.
#pragma once

#include <string>
#include <vector>

#include "sim/failure.h"
#include "sim/run.h"

namespace lockstep::sim {

// Runs it again, with its trace. `options` are those of the run, or follow its schedule.
std::string Explain(RunOptions options, const Failure& failure);

// What a sentence about a failure names and a trace can be searched for: zxids, paths, partitions,
// sessions; as they stand in it, each once.
std::vector<std::string> NamesIn(std::string_view sentence);

}  // namespace lockstep::sim
