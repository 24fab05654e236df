// Makes the schedule of a failing run small, by delta debugging (Zeller, Hildebrandt 2002): leave
// something out, and keep what is left if the same invariant still fails.
//
// In this order, again and again until nothing more can be left out: all after the failure;
// clients; decisions, in ever smaller pieces; servers; parts of decisions; noise of the plan; idle
// time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/time.h"
#include "sim/failure.h"
#include "sim/schedule.h"

namespace lockstep::sim {

// What became of a schedule.
struct Verdict {
  std::string invariant;  // "" if nothing failed
  std::string detail;
  Instant at;  // when it failed, or ended
  uint64_t hash = 0;
};

// Runs `schedule`, but not beyond `until`.
Verdict Judge(const Schedule& schedule, Instant until);

class Shrinker {
 public:
  struct Options {
    uint64_t runs_max = 5'000;
    // The first of the candidates (lowest index) that fails in `invariant`, and its verdict. May
    // run several at once. Set by default to one after the other, here.
    std::function<std::optional<size_t>(const std::vector<Schedule>& candidates, Instant until,
                                        const std::string& invariant, Verdict* verdict)>
        first_failing;
    size_t width = 1;  // how many candidates are worth handing over at once
    // After each pass that has made it smaller.
    std::function<void(const Schedule& schedule, const char* pass, uint64_t runs)> progress;
    std::function<bool()> stop;  // whether to end now, with what there is
  };

  Shrinker(Schedule schedule, Options options);

  // Fails if the schedule does: the invariant is then in schedule().fails. False: it does not.
  bool Run();
  const Schedule& schedule() const { return schedule_; }
  const Verdict& verdict() const { return verdict_; }
  uint64_t runs() const { return runs_; }

 private:
  bool Try(std::vector<Schedule> candidates, size_t* which);
  bool TryOne(Schedule candidate);
  bool Stop() const;
  Instant Until() const;
  void CutAfterFailure();
  void Rekey();
  bool LeaveOutClients();
  bool LeaveOutDecisions();
  bool LeaveOutServers();
  bool LeaveOutParts();
  bool CalmPlan();
  bool SaveTime();
  void Progress(const char* pass);

  Schedule schedule_;
  Options options_;
  Verdict verdict_;
  uint64_t runs_ = 0;
};

// How large a schedule is, as people count: faults, and requests of clients.
inline size_t SizeOf(const Schedule& schedule) { return schedule.decisions.size(); }

// For tests: the schedule without `server`, the servers after it renumbered; nothing if it is the
// last voter.
std::optional<Schedule> WithoutServer(const Schedule& schedule, uint32_t server);
// ... without this client of the world and all that is about it.
Schedule WithoutClient(const Schedule& schedule, uint32_t client);

}  // namespace lockstep::sim
