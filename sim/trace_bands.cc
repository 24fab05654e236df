#include "sim/trace_bands.h"

#include <utility>

namespace lockstep::sim {

void Bands::OnNodes(uint32_t servers) {
  for (uint32_t s = 0; s < servers; ++s) {
    now_.push_back({.server = s, .role = "down"});
    pauses_.push_back({.server = s, .role = "paused"});
  }
}

void Bands::Become(uint32_t server, const char* role, uint32_t epoch, Instant at) {
  Band& now = now_[server];
  if (now.role == role && now.epoch == epoch) return;
  now.to = at;
  if (now.to > now.from) done_.push_back(now);
  now = {.server = server, .role = role, .epoch = epoch, .from = at};
}

void Bands::Pause(uint32_t server, bool paused, Instant at) {
  Band& pause = pauses_[server];
  if (pause.paused && !paused) {
    pause.to = at;
    done_.push_back(pause);
  }
  pause.paused = paused;
  pause.from = at;
}

void Bands::OnRecord(const StoryRecord& record) {
  if (record.node >= now_.size()) return;
  const uint32_t s = record.node;
  if (record.event == nullptr) {
    if (record.name == "NodeStart") Become(s, "recovering", 0, record.at);
    if (record.name == "NodeCrash") {
      Pause(s, false, record.at);
      Become(s, "down", 0, record.at);
    }
    if (record.what == "pauses") Pause(s, true, record.at);
    if (record.what == "resumes") Pause(s, false, record.at);
    return;
  }
  const uint32_t epoch = now_[s].epoch;
  switch (record.event->kind) {
    case EventKind::kLooking:
      return Become(s, "looking", epoch, record.at);
    case EventKind::kFollowing:
      return Become(s, "following", epoch, record.at);
    case EventKind::kLeading:
      return Become(s, "leading", epoch, record.at);
    case EventKind::kEpochProposed:
    case EventKind::kEpochAccepted:
      return Become(s, std::string(now_[s].role).c_str(), record.event->zxid.epoch.value,
                    record.at);
    case EventKind::kEstablished:
      return Become(s, "established", record.event->zxid.epoch.value, record.at);
    case EventKind::kUpToDate:
      return Become(s, "serving", epoch, record.at);
    default:
      return;
  }
}

std::vector<Band> Bands::Finish(Instant end) {
  for (uint32_t s = 0; s < now_.size(); ++s) {
    Pause(s, false, end);
    now_[s].to = end;
    if (end > now_[s].from) done_.push_back(now_[s]);
  }
  return std::move(done_);
}

}  // namespace lockstep::sim
