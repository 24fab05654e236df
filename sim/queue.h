// The one event queue of a simulated world. Time stands still while an event is handled, and jumps
// to the next one afterwards.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/time.h"

namespace lockstep::sim {

enum class TaskKind : uint8_t {
  kStart,        // who = server: the process starts
  kWake,         // who = server, which = incarnation: its deadline
  kTurn,         // who = server, which = incarnation: a busy server takes what has arrived
  kResume,       // who = server, which = number of the pause: the pause ends
  kArrive,       // who = connection slot, what = direction, which = generation
  kNetTimeout,   // likewise: bytes have been stuck for long
  kDialTimeout,  // who = connection slot, which = generation
  kWritten,      // who = node: what left its buffers
  kDiskDone,     // who = server, which = operation
  kClientWake,   // who = client, which = number of the wake
  kFault,        // the next fault is due
  kUndo,         // which = number of the fault that ends
  kClock,        // who = server, which = incarnation: the host tells the wall clock
  kPhase,        // which = the phase of the run that begins
  kCount
};
const char* TaskName(TaskKind kind);

// What is to be done: plain numbers, so that an event costs no allocation and no indirect call. The
// bytes that travel wait in the network and the disks.
struct Task {
  TaskKind kind = TaskKind::kCount;
  uint32_t who = 0;
  uint32_t what = 0;
  uint64_t which = 0;
};

struct Due {
  Instant at;
  uint64_t sequence = 0;  // of the Push: orders tasks of one instant
  Task task;
};

// A 4-ary implicit heap over 16-byte keys (four children share a cache line); the tasks stay in a
// slab. Ties are broken by the order of Push, so the order is total.
class EventQueue {
 public:
  void Push(Instant at, Task task);
  // The earliest task. Requires: !empty().
  Due Pop();
  bool empty() const { return heap_.empty(); }
  size_t size() const { return heap_.size(); }

 private:
  // The sequence number stands above the slot, so one comparison orders by it.
  struct Key {
    int64_t time;
    uint64_t sequence_and_slot;
    bool Before(const Key& other) const {
      return time != other.time ? time < other.time : sequence_and_slot < other.sequence_and_slot;
    }
  };
  static constexpr int kSlotBits = 20;
  static constexpr uint64_t kSlotMask = (uint64_t{1} << kSlotBits) - 1;

  std::vector<Key> heap_;
  std::vector<Task> slab_;
  std::vector<uint32_t> free_slots_;
  uint64_t next_sequence_ = 0;
};

}  // namespace lockstep::sim
