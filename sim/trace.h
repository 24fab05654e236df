// What happened, for machines (a rolling hash), for people (lines), and for whoever makes pictures
// of it (an observer).
//
// The hash covers every event and does not depend on whether anybody reads the rest.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/event.h"
#include "core/base/random.h"
#include "core/base/time.h"
#include "core/server/io.h"

namespace lockstep::sim {

// A checksum of bytes for the trace hash and for checkers. Not for disks or wires.
uint64_t Checksum(std::string_view bytes);

// A line in its parts. What it refers to is valid during the call.
struct TraceLine {
  Instant at;
  std::string_view who;  // "s1", "c0", "fault", "world", "plan"
  std::string_view what;
  std::string_view detail;
  const Event* event = nullptr;  // of a server's machine
};

// Bytes of one direction of a connection: handed to the network by `from`, or to `to` by it.
struct TraceBytes {
  Instant at;
  uint32_t from = 0;  // nodes: servers, then clients
  uint32_t to = 0;
  server::LinkKind link{};
  uint64_t stream = 0;  // this direction of this connection, and never another one
  Bytes data;
};

class TraceObserver {
 public:
  virtual ~TraceObserver() = default;
  // First. `names` of all nodes, of which the first `servers` are servers.
  virtual void OnWorld(const std::vector<std::string>& names, uint32_t servers) = 0;
  virtual void OnLine(const TraceLine& line) = 0;
  virtual void OnSent(const TraceBytes& bytes) = 0;
  virtual void OnReceived(const TraceBytes& bytes) = 0;
};

class Trace {
 public:
  using Sink = void (*)(void* context, std::string_view line);

  Trace() = default;
  // Each line goes to `sink`, without a newline.
  Trace(Sink sink, void* context) : sink_(sink), context_(context) {}

  void Mix(uint64_t value) { hash_ = (std::rotl(hash_, 5) ^ value) * 0x9e37'79b9'7f4a'7c15; }
  uint64_t hash() const { return Mix64(hash_); }

  // nullptr: none. It gets each line too.
  void set_observer(TraceObserver* observer) { observer_ = observer; }
  TraceObserver* observer() const { return observer_; }

  // Whether it is worth while to build a line.
  bool on() const { return sink_ != nullptr || observer_ != nullptr; }
  // One aligned line: time, who, what, detail. docs/simulator.md has the legend. `event`: that the
  // line is about, if it is one of a machine.
  void Line(std::string_view who, std::string_view what, std::string_view detail,
            const Event* event = nullptr);
  void set_now(Instant now) { now_ = now; }

 private:
  Sink sink_ = nullptr;
  void* context_ = nullptr;
  TraceObserver* observer_ = nullptr;
  uint64_t hash_ = 0x10c4'57e9;
  Instant now_;
};

}  // namespace lockstep::sim
