// A run as records: what happened on which node, with stable names, messages put together from
// their bytes, and when each fault ends. What the formats of a trace are made from.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "sim/trace.h"
#include "sim/trace_messages.h"
#include "sim/trace_names.h"

namespace lockstep::sim {

// Nodes are numbered servers first, then clients.
inline constexpr uint32_t kNoNode = UINT32_MAX;

struct StoryFault {
  uint64_t id = 0;  // counts from 1
  Instant at;
  Instant ends = Instant::Never();  // that it lasts, as far as it was decided
  std::string kind;
  std::string detail;           // as in the trace of text
  std::vector<uint32_t> nodes;  // whom it is about
};

// What it refers to is valid during the call.
struct StoryRecord {
  enum class Kind { kPlan, kEvent, kSend, kReceive, kFault, kFaultEnds, kLine };
  Kind kind = Kind::kLine;
  Instant at;
  uint32_t node = kNoNode;  // of which it is; kNoNode: of the world
  std::string_view who;
  std::string_view name;                   // stable: trace_names.h
  std::string_view what;                   // as in the trace of text; the name of a message
  std::string_view detail;                 // for people
  const Event* event = nullptr;            // kEvent
  const TracedMessage* message = nullptr;  // kSend, kReceive
  const StoryFault* fault = nullptr;       // kFault, kFaultEnds
};

class TraceStory : public TraceObserver {
 public:
  class Reader {
   public:
    virtual ~Reader() = default;
    virtual void OnNodes(const std::vector<std::string>& names, uint32_t servers) = 0;
    virtual void OnRecord(const StoryRecord& record) = 0;
  };
  explicit TraceStory(Reader* reader) : reader_(reader) {}

  void OnWorld(const std::vector<std::string>& names, uint32_t servers) override;
  void OnLine(const TraceLine& line) override;
  void OnSent(const TraceBytes& bytes) override;
  void OnReceived(const TraceBytes& bytes) override;

 private:
  uint32_t NodeOf(std::string_view who) const;
  void OnFault(const TraceLine& line);
  void OnFaultEnds(const TraceLine& line);
  void FollowState(NamingState* state, EventKind kind);

  Reader* reader_;
  std::vector<std::string> names_;
  uint32_t servers_ = 0;
  std::vector<NamingState> states_;  // of the servers
  std::vector<Zxid> proposed_;       // by each server, the greatest
  TracedMessages messages_;
  std::vector<TracedMessage> whole_;
  std::deque<StoryFault> lasting_;
  uint64_t faults_ = 0;
};

}  // namespace lockstep::sim
