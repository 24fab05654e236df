// Which part of a campaign this process runs, when several share one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace lockstep::sim {

struct Shard {
  uint32_t number = 1;  // from 1
  uint32_t of = 1;
  std::string from;  // what said so: "--shard", or the name of a variable
};

// The value of an environment variable; nothing: it is not set.
using Environment = std::function<std::optional<std::string>(const char* name)>;

// `option`: of --shard, "I/N" with 1 <= I <= N; "" if it was not given. Then an array job of Slurm
// (SLURM_ARRAY_TASK_ID, with _COUNT, _MIN and _STEP) or an indexed job of Kubernetes
// (JOB_COMPLETION_INDEX from 0, and JOB_COMPLETIONS, which the job has to set itself) says it. With
// neither it is 1/1. An error says what is malformed or missing: a shard that runs all seeds would
// not be noticed.
absl::StatusOr<Shard> ShardOf(std::string_view option, const Environment& environment);

}  // namespace lockstep::sim
