// What happened, for machines (a rolling hash) and for people (lines).
//
// The hash covers every event and does not depend on whether anybody reads the lines.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/random.h"
#include "core/base/time.h"

namespace lockstep::sim {

// A checksum of bytes for the trace hash and for checkers. Not for disks or wires.
uint64_t Checksum(std::string_view bytes);

class Trace {
 public:
  using Sink = void (*)(void* context, std::string_view line);

  Trace() = default;
  // Each line goes to `sink`, without a newline.
  Trace(Sink sink, void* context) : sink_(sink), context_(context) {}

  void Mix(uint64_t value) { hash_ = (std::rotl(hash_, 5) ^ value) * 0x9e37'79b9'7f4a'7c15; }
  uint64_t hash() const { return Mix64(hash_); }

  // Whether it is worth while to build a line.
  bool on() const { return sink_ != nullptr; }
  // One aligned line: time, who, what, detail. docs/simulator.md has the legend.
  void Line(std::string_view who, std::string_view what, std::string_view detail);
  void set_now(Instant now) { now_ = now; }

 private:
  Sink sink_ = nullptr;
  void* context_ = nullptr;
  uint64_t hash_ = 0x10c4'57e9;
  Instant now_;
};

}  // namespace lockstep::sim
