// Schedules on disk, and shrinking them on all cores: for the commands.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "sim/run.h"
#include "sim/schedule_text.h"
#include "sim/shrink.h"

namespace lockstep::sim {

absl::StatusOr<ReadSchedule> LoadSchedule(const std::string& path);
// Whole or not at all. False, and errno: it cannot be written.
bool SaveSchedule(const std::string& path, const Schedule& schedule);

// Where the schedule of a failed run is written: DIR/crashes-17-ack_after_durable.schedule. Of many
// rules the first one stands there, how many more, and a checksum of all.
std::string SchedulePath(const std::string& directory, const RunOptions& options);
// Runs it again to take its schedule down, and writes that; the path, or "" if it cannot be written
// (which is said on standard error).
std::string WriteScheduleOf(RunOptions options, const std::string& directory);

// Options of a Shrinker that tries `jobs` candidates at once, in processes of their own: one that
// dies has not failed in the same way.
Shrinker::Options ShrinkOnCores(uint32_t jobs);

}  // namespace lockstep::sim
