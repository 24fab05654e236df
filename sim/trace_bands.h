// What a server was, from when to when: its role in Zab with its epoch, and whether its process
// ran.
#pragma once

#include <string>
#include <vector>

#include "sim/trace_story.h"

namespace lockstep::sim {

struct Band {
  uint32_t server = 0;
  bool paused = false;  // beside the role, not instead of it
  // "down", "recovering", "looking", "following", "leading", "serving" (a follower that is up to
  // date), "established" (a leader that is).
  std::string role;
  uint32_t epoch = 0;  // accepted; 0: none yet
  Instant from;
  Instant to = Instant::Never();
};

// Bands of all servers, in the order in which they end. One that changes nothing is no band.
class Bands {
 public:
  void OnNodes(uint32_t servers);
  void OnRecord(const StoryRecord& record);
  // Ends those that last.
  std::vector<Band> Finish(Instant end);

 private:
  void Become(uint32_t server, const char* role, uint32_t epoch, Instant at);
  void Pause(uint32_t server, bool paused, Instant at);

  std::vector<Band> now_;
  std::vector<Band> pauses_;  // of each server; paused: it is
  std::vector<Band> done_;
};

}  // namespace lockstep::sim
