#include "sim/schedule_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "sim/fork_each.h"
#include "sim/trace.h"

namespace lockstep::sim {
namespace {

// Bytes. Two or three rules are written out.
constexpr size_t kRulesInNameMax = 120;

// "AT HASH INVARIANT\nDETAIL", from a child to its parent.
std::string Encode(const Verdict& verdict) {
  return absl::StrCat(verdict.at.ns, " ", verdict.hash, " ", verdict.invariant, "\n",
                      verdict.detail);
}

bool Decode(std::string_view text, Verdict* verdict) {
  const size_t first = text.find(' ');
  const size_t second = text.find(' ', first + 1);
  const size_t line = text.find('\n');
  if (first > second || second > line || line == std::string_view::npos) return false;
  verdict->invariant = std::string(text.substr(second + 1, line - second - 1));
  verdict->detail = std::string(text.substr(line + 1));
  return absl::SimpleAtoi(absl::string_view(text.data(), first), &verdict->at.ns) &&
         absl::SimpleAtoi(absl::string_view(text.data() + first + 1, second - first - 1),
                          &verdict->hash);
}

}  // namespace

absl::StatusOr<ReadSchedule> LoadSchedule(const std::string& path) {
  FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) {
    return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
  }
  std::string text(kScheduleBytesMax + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  const bool failed = std::ferror(file) != 0;
  std::fclose(file);
  if (failed) return absl::NotFoundError("cannot read " + path);
  absl::StatusOr<ReadSchedule> read = ParseSchedule(text);
  if (!read.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", read.status().message()));
  }
  return read;
}

bool SaveSchedule(const std::string& path, const Schedule& schedule) {
  const std::string text = ToText(schedule);
  const std::string unfinished = path + ".tmp";
  FILE* file = std::fopen(unfinished.c_str(), "wb");
  if (file == nullptr) return false;
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = std::fclose(file) == 0;
  return written && closed && std::rename(unfinished.c_str(), path.c_str()) == 0;
}

std::string SchedulePath(const std::string& directory, const RunOptions& options) {
  std::string rules = absl::StrJoin(options.break_rules, "-");
  // A file's name has 255 bytes on most systems; the file itself says which rules these are.
  if (rules.size() > kRulesInNameMax) {
    rules = absl::StrFormat("%s-and-%d-%08x", options.break_rules.front(),
                            options.break_rules.size() - 1, Checksum(rules) >> 32);
  }
  return absl::StrCat(directory, "/", options.scenario->name, "-", options.seed,
                      rules.empty() ? "" : "-", rules, ".schedule");
}

std::string WriteScheduleOf(RunOptions options, const std::string& directory) {
  Schedule schedule;
  options.record = &schedule;
  options.sink = nullptr;
  options.hash_log = nullptr;
  RunSeed(options);
  const std::string path = SchedulePath(directory, options);
  mkdir(directory.c_str(), 0777);
  if (SaveSchedule(path, schedule)) return path;
  std::fprintf(stderr, "lockstep-sim: cannot write %s: %s\n", path.c_str(), std::strerror(errno));
  return "";
}

Shrinker::Options ShrinkOnCores(uint32_t jobs) {
  Shrinker::Options options;
  options.width = jobs;
  options.first_failing = [jobs](const std::vector<Schedule>& candidates, Instant until,
                                 const std::string& invariant,
                                 Verdict* verdict) -> std::optional<size_t> {
    std::vector<std::optional<Verdict>> verdicts(candidates.size());
    std::vector<bool> ended(candidates.size(), false);
    std::optional<size_t> found;
    ForkEach(
        jobs, candidates.size(), [&](size_t i) { return Encode(Judge(candidates[i], until)); },
        [&](size_t i, std::optional<std::string> text) {
          ended[i] = true;
          Verdict one;
          if (text && Decode(*text, &one)) verdicts[i] = std::move(one);
          // The lowest one counts, whoever ends first: or shrinking would depend on the machine.
          for (size_t j = 0; j < candidates.size() && ended[j]; ++j) {
            if (!verdicts[j] || verdicts[j]->invariant != invariant) continue;
            found = j;
            return false;
          }
          return true;
        });
    if (found) *verdict = *verdicts[*found];
    return found;
  };
  return options;
}

}  // namespace lockstep::sim
