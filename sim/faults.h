// Draws what goes wrong, and when.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/event.h"
#include "core/base/random.h"
#include "core/base/time.h"
#include "sim/plan.h"
#include "sim/queue.h"

namespace lockstep::sim {

class World;
enum class StopKind : uint8_t;

class Faults {
 public:
  Faults(const Plan& plan, World* world);

  void Begin(Instant now);
  void OnTask(Instant now, const Task& task);
  // Whether `server`, which is in the middle of a step with this event, is to die now; and other
  // faults that wait for an event.
  bool OnEvent(Instant now, uint32_t server, EventKind event);
  // No more faults; what was disturbed is not repaired here.
  void End() { ended_ = true; }

 private:
  struct Undo {
    uint64_t number = 0;
    FaultKind kind{};
    std::vector<std::pair<uint32_t, uint32_t>> blocked;
    uint32_t server = 0;
    uint32_t other = 0;
  };

  void ScheduleNext(Instant now);
  void Inject(Instant now, FaultKind kind);
  void InjectProcess(Instant now, FaultKind kind);
  void InjectBroker(Instant now, FaultKind kind);
  void InjectPartition(Instant now, FaultKind kind);
  void InjectConnection(Instant now, FaultKind kind);
  void InjectDisk(Instant now, FaultKind kind);
  void Isolate(Instant now, uint32_t server, bool out, bool in);
  void Block(Instant now, std::vector<std::pair<uint32_t, uint32_t>> pairs);
  void UndoLater(Instant now, Undo undo);
  void UndoNow(Instant now, uint64_t number);
  std::optional<uint32_t> RandomUp();
  uint32_t RandomServer();
  EventKind RandomEvent();
  StopKind RandomStop();
  Duration HowLong();

  const Plan& plan_;
  World* world_;
  RandomStream random_;
  bool ended_ = false;
  uint64_t next_undo_ = 1;
  std::vector<Undo> undos_;
  // Waiting for an event: the `countdown`-th from now, anywhere.
  struct Armed {
    EventKind event = EventKind::kCount;
    uint32_t countdown = 0;
  };
  Armed crash_;
  Armed isolation_;
};

}  // namespace lockstep::sim
