// Schedules as text: lines, described in docs/simulator.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/schedule.h"

namespace lockstep::sim {

// The version of the format: the first line's number. Another one is refused.
inline constexpr uint32_t kScheduleVersion = 1;
// Bounds of a file: it may have been edited, or be no schedule at all.
inline constexpr size_t kScheduleBytesMax = size_t{16} << 20;
inline constexpr uint32_t kScheduleServersMax = 7;
inline constexpr uint32_t kScheduleClientsMax = 64;

std::string ToText(const Schedule& schedule);

struct ReadSchedule {
  Schedule schedule;
  // What this build does not know (options and faults of another one): left out.
  std::vector<std::string> unknown;
};
// Fails with the number of the line at what is malformed or out of bounds.
absl::StatusOr<ReadSchedule> ParseSchedule(std::string_view text);

// One decision, without its time: "s2 kill", "c0 set /k0 12B".
std::string DescribeDecision(const Plan& plan, const Decision& decision);
// Seconds with nine digits: exact.
std::string TimeText(Instant at);

}  // namespace lockstep::sim
