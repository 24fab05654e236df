#include "sim/queue.h"

#include "core/base/check.h"

namespace lockstep::sim {

const char* TaskName(TaskKind kind) {
  switch (kind) {
    case TaskKind::kStart:
      return "start";
    case TaskKind::kWake:
      return "wake";
    case TaskKind::kTurn:
      return "turn";
    case TaskKind::kResume:
      return "resume";
    case TaskKind::kArrive:
      return "arrive";
    case TaskKind::kNetTimeout:
      return "net-timeout";
    case TaskKind::kDialTimeout:
      return "dial-timeout";
    case TaskKind::kWritten:
      return "written";
    case TaskKind::kDiskDone:
      return "disk-done";
    case TaskKind::kClientWake:
      return "client-wake";
    case TaskKind::kFault:
      return "fault";
    case TaskKind::kUndo:
      return "undo";
    case TaskKind::kClock:
      return "clock";
    case TaskKind::kPhase:
      return "phase";
    case TaskKind::kCount:
      break;
  }
  LS_UNREACHABLE();
}

void EventQueue::Push(Instant at, Task task) {
  uint32_t slot;
  if (free_slots_.empty()) {
    slot = static_cast<uint32_t>(slab_.size());
    LS_CHECK(slot <= kSlotMask);
    slab_.push_back(task);
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
    slab_[slot] = task;
  }
  const Key key{at.ns, (next_sequence_++ << kSlotBits) | slot};
  size_t hole = heap_.size();
  heap_.push_back(key);
  while (hole > 0) {
    const size_t parent = (hole - 1) / 4;
    if (!key.Before(heap_[parent])) break;
    heap_[hole] = heap_[parent];
    hole = parent;
  }
  heap_[hole] = key;
}

Due EventQueue::Pop() {
  LS_CHECK(!heap_.empty());
  const Key top = heap_.front();
  const Key last = heap_.back();
  heap_.pop_back();
  const size_t size = heap_.size();
  if (size > 0) {
    size_t hole = 0;
    while (true) {
      const size_t first = hole * 4 + 1;
      if (first >= size) break;
      size_t best = first;
      const size_t end = first + 4 < size ? first + 4 : size;
      for (size_t child = first + 1; child < end; ++child) {
        if (heap_[child].Before(heap_[best])) best = child;
      }
      if (!heap_[best].Before(last)) break;
      heap_[hole] = heap_[best];
      hole = best;
    }
    heap_[hole] = last;
  }
  const uint32_t slot = static_cast<uint32_t>(top.sequence_and_slot & kSlotMask);
  free_slots_.push_back(slot);
  return {{top.time}, top.sequence_and_slot >> kSlotBits, slab_[slot]};
}

}  // namespace lockstep::sim
