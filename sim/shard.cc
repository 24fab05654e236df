#include "sim/shard.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "sim/decision_text.h"

namespace lockstep::sim {
namespace {

constexpr uint64_t kShardsMax = 1'000'000;

absl::StatusOr<uint64_t> NumberIn(const Environment& environment, const char* name) {
  const std::optional<std::string> text = environment(name);
  if (!text) return absl::NotFoundError(absl::StrCat(name, " is not set"));
  const std::optional<uint64_t> number = ParseNumber(*text);
  if (!number || *number > kShardsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is not a number from 0 to ", kShardsMax, ": `", *text, "`"));
  }
  return *number;
}

// What has a value of its own when it is not set. One that is no number is an error all the same: a
// shard that is taken for another runs seeds twice, and others never.
absl::StatusOr<uint64_t> NumberIn(const Environment& environment, const char* name,
                                  uint64_t otherwise) {
  if (!environment(name)) return otherwise;
  return NumberIn(environment, name);
}

// `index` is set, and says nothing without the number of shards, which is not.
absl::Status CountIsMissing(const char* index, const char* count) {
  return absl::NotFoundError(
      absl::StrCat(index, " is set, but not ", count, ": set it, or say --shard I/N"));
}

absl::StatusOr<Shard> Checked(uint64_t number, uint64_t of, std::string from) {
  if (number < 1 || number > of || of > kShardsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(from, " says shard ", number, " of ", of, ", which there is not"));
  }
  return Shard{static_cast<uint32_t>(number), static_cast<uint32_t>(of), std::move(from)};
}

absl::StatusOr<Shard> OfSlurm(const Environment& environment) {
  const absl::StatusOr<uint64_t> id = NumberIn(environment, "SLURM_ARRAY_TASK_ID");
  if (!id.ok()) return id.status();
  const absl::StatusOr<uint64_t> count = NumberIn(environment, "SLURM_ARRAY_TASK_COUNT");
  if (absl::IsNotFound(count.status())) {
    return CountIsMissing("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT");
  }
  if (!count.ok()) return count.status();
  // --array=0-7 counts from 0, --array=1-8 from 1.
  const absl::StatusOr<uint64_t> first = NumberIn(environment, "SLURM_ARRAY_TASK_MIN", 1);
  if (!first.ok()) return first.status();
  const absl::StatusOr<uint64_t> step = NumberIn(environment, "SLURM_ARRAY_TASK_STEP", 1);
  if (!step.ok()) return step.status();
  if (*id < *first) return Checked(0, *count, "SLURM_ARRAY_TASK_ID");
  return Checked((*id - *first) / std::max<uint64_t>(1, *step) + 1, *count, "SLURM_ARRAY_TASK_ID");
}

absl::StatusOr<Shard> OfKubernetes(const Environment& environment) {
  const absl::StatusOr<uint64_t> index = NumberIn(environment, "JOB_COMPLETION_INDEX");
  if (!index.ok()) return index.status();
  const absl::StatusOr<uint64_t> count = NumberIn(environment, "JOB_COMPLETIONS");
  if (absl::IsNotFound(count.status())) {
    return CountIsMissing("JOB_COMPLETION_INDEX", "JOB_COMPLETIONS (the job's spec.completions)");
  }
  if (!count.ok()) return count.status();
  return Checked(*index + 1, *count, "JOB_COMPLETION_INDEX");
}

}  // namespace

absl::StatusOr<Shard> ShardOf(std::string_view option, const Environment& environment) {
  if (!option.empty()) {
    const size_t slash = option.find('/');
    const std::optional<uint64_t> number = ParseNumber(option.substr(0, slash));
    const std::optional<uint64_t> of =
        slash == std::string_view::npos ? std::nullopt : ParseNumber(option.substr(slash + 1));
    if (!number || !of || *number < 1 || *number > *of || *of > kShardsMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("--shard takes I/N with 1 <= I <= N: ", std::string(option)));
    }
    return Checked(*number, *of, "--shard");
  }
  if (environment("SLURM_ARRAY_TASK_ID")) return OfSlurm(environment);
  if (environment("JOB_COMPLETION_INDEX")) return OfKubernetes(environment);
  return Shard{};
}

}  // namespace lockstep::sim
