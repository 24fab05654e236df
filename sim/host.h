// One simulated machine: a server process, or nothing while it is down, its disk and its clock.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/time.h"
#include "core/server/server.h"
#include "sim/checkers/committed_log.h"
#include "sim/checkers/replication.h"
#include "sim/disk.h"

namespace lockstep::sim {

// A monotonic clock that starts anywhere and runs a little too fast or too slow.
struct HostClock {
  Duration base;
  int64_t drift_ppm = 0;

  Instant Local(Instant world) const {
    return {base.ns + world.ns + world.ns / 1'000'000 * drift_ppm +
            world.ns % 1'000'000 * drift_ppm / 1'000'000};
  }
  // The first instant of the world at which this clock shows `local` or later.
  Instant World(Instant local) const {
    Instant at{(local.ns - base.ns) / (1'000'000 + drift_ppm) * 1'000'000 +
               (local.ns - base.ns) % (1'000'000 + drift_ppm) * 1'000'000 /
                   (1'000'000 + drift_ppm)};
    while (Local(at) < local) at.ns += 1;
    return at;
  }
};

struct Host {
  Host(const DiskPlan& plan, uint64_t seed, uint32_t server, EventQueue* queue, uint32_t streams)
      : disk(plan, seed, server, queue, streams) {}

  std::unique_ptr<server::Server> machine;  // null while down
  Disk disk;
  HostClock clock;
  int64_t wall_offset_ms = 0;
  uint64_t incarnation = 0;  // of the machine
  uint64_t starts = 1;       // scheduled; the newest one counts
  bool off_for_good = false;
  bool stopping = false;  // it was asked to stop cleanly

  std::vector<server::Input> inbox;
  bool turn_scheduled = false;
  bool paused = false;
  uint64_t pauses = 0;
  Instant paused_at;
  Instant scheduled_wake = Instant::Never();
  uint32_t crash_in_turns = 0;  // 0: not going to

  // Logs that have been damaged, or may have been, and, of those, which have lost for good what
  // lies have promised.
  std::vector<Replication::LogMark> marks;
  std::vector<Replication::LogMark> lost;

  // For the checkers.
  bool recovered = false;
  std::pair<Epoch, Zxid> told;  // when it last stopped: accepted epoch, durable history
  bool voted = false;           // it has been counted in an epoch, and its disk says so
  bool restored = false;        // whether `position` is known
  int64_t position = CommittedLog::kBeforeFirst;  // of the last applied transaction
  Zxid applied;
  Instant established_at;  // as a leader, by its own clock
};

}  // namespace lockstep::sim
