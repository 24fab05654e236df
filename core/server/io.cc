#include "core/server/io.h"

#include "core/base/check.h"

namespace lockstep::server {

const char* ToString(LinkKind kind) {
  switch (kind) {
    case LinkKind::kElection:
      return "election";
    case LinkKind::kLearner:
      return "learner";
    case LinkKind::kClient:
      return "client";
    case LinkKind::kBroker:
      return "broker";
    case LinkKind::kCoordination:
      return "coordination";
  }
  LS_UNREACHABLE();
}

void Output::Clear() {
  sends.clear();
  dials.clear();
  closes.clear();
  pauses.clear();
  resumes.clear();
  file_ops.clear();
  events.clear();
  applied.clear();
  logs_seen.clear();
  stopped = false;
  fatal.reset();
}

}  // namespace lockstep::server
