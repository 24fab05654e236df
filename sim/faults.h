// What goes wrong, and when: drawn, or as a schedule says.
//
// Drawing and carrying out are two steps with a FaultDecision between them. The decision names what
// was drawn (this server, this connection, so long), so that carrying it out again needs no draw.
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
#include "sim/schedule.h"

namespace lockstep::sim {

class World;

class Faults {
 public:
  // `script` is followed, or takes down what is drawn; nullptr: neither.
  Faults(const Plan& plan, World* world, Script* script);

  void Begin(Instant now);
  void OnTask(Instant now, const Task& task);
  // Whether `server`, which is in the middle of a step with this event, is to die now; and other
  // faults that wait for an event.
  bool OnEvent(Instant now, uint32_t server, EventKind event);
  // No more faults; what was disturbed is not repaired here.
  void End() { ended_ = true; }

 private:
  // What comes later because of a fault: mostly its end.
  struct Undo {
    uint64_t number = 0;
    FaultKind kind{};
    std::vector<std::pair<uint32_t, uint32_t>> blocked;
    uint32_t server = 0;
    uint32_t other = 0;
  };
  // Waiting for an event: the `countdown`-th from now, anywhere.
  struct Armed {
    EventKind event = EventKind::kCount;
    uint32_t countdown = 0;
    bool out = false;  // an isolation: as of FaultDecision; both, if neither
    bool in = false;
    bool with_clients = false;
    Duration time;                   // zero: to be drawn when it happens
    std::optional<size_t> recorded;  // the decision that it came from
  };

  bool follows() const { return script_ != nullptr && script_->follows(); }
  // Damage comes at times of its own, so that all else comes when it would without.
  enum Chain : uint32_t { kOrdinary, kDamage };
  void ScheduleNext(Instant now, Chain chain);
  void DrawNext(Instant now, Chain chain);
  void Follow(Instant now);

  // ---- Drawing (fault_draw.cc). Nothing: what was drawn has no target.
  std::optional<FaultDecision> Draw(FaultKind kind);
  bool DrawProcess(FaultDecision* fault);
  bool DrawBroker(FaultDecision* fault);
  bool DrawFailOver(FaultDecision* fault);
  void DrawCutReplication(std::vector<ConnectionName>* ways);
  bool DrawPartition(FaultDecision* fault);
  bool DrawConnection(FaultDecision* fault);
  bool DrawDisk(FaultDecision* fault);
  bool DrawDamage(FaultDecision* fault);
  std::optional<uint32_t> RandomUp();
  std::optional<uint32_t> LeaderOrRandomUp();
  uint32_t RandomServer();
  EventKind RandomEvent();
  StopKind RandomStop();
  Duration HowLong();
  void DrawIsolation(bool* with_clients, Duration* time);

  // ---- Carrying out. False: its target is not there.
  bool CarryOut(Instant now, const FaultDecision& fault, std::optional<size_t> recorded);
  bool CarryOutProcess(const FaultDecision& fault, std::optional<size_t> recorded);
  bool CarryOutBroker(const FaultDecision& fault);
  bool CarryOutFailOver(Instant now, const FaultDecision& fault);
  void CutReplication(Instant now, const FaultDecision& fault);
  void OnPartitionLeading(Instant now, uint32_t server);
  void Strike(uint32_t server);
  bool CarryOutPartition(Instant now, const FaultDecision& fault, std::optional<size_t> recorded);
  bool CarryOutConnection(Instant now, const FaultDecision& fault);
  bool CarryOutDisk(Instant now, const FaultDecision& fault);
  bool CarryOutDamage(Instant now, const FaultDecision& fault);
  bool CarryOutClient(const FaultDecision& fault);
  bool StopIfUp(uint32_t server, StopKind kind);
  void Isolate(Instant now, const FaultDecision& fault);
  void Split(Instant now, const FaultDecision& fault);
  void Block(Instant now, std::vector<std::pair<uint32_t, uint32_t>> pairs, Duration time);
  void UndoLater(Instant now, Undo undo, Duration time);
  void UndoNow(Instant now, uint64_t number);

  const Plan& plan_;
  World* world_;
  Script* script_;
  RandomStream random_;
  RandomStream damage_random_;
  bool ended_ = false;
  uint64_t next_undo_ = 1;
  std::vector<Undo> undos_;
  Armed crash_;
  Armed isolation_;
  FaultDecision strikes_;  // `count` of them are left
};

}  // namespace lockstep::sim
