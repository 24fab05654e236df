// Deadlines of a machine, by timer. A machine never sleeps: it says when it wants to be called.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "core/base/time.h"

namespace lockstep {

// `Timer` is an enum whose last enumerator is kCount.
template <typename Timer>
class TimerTable {
 public:
  TimerTable() { deadlines_.fill(Instant::Never()); }

  void Set(Timer timer, Instant deadline) { deadlines_[Index(timer)] = deadline; }
  void Stop(Timer timer) { deadlines_[Index(timer)] = Instant::Never(); }
  void StopAll() { deadlines_.fill(Instant::Never()); }
  bool running(Timer timer) const { return deadlines_[Index(timer)] != Instant::Never(); }
  Instant deadline(Timer timer) const { return deadlines_[Index(timer)]; }

  // The earliest deadline, or Instant::Never().
  Instant next() const { return *std::min_element(deadlines_.begin(), deadlines_.end()); }

  // Whether `timer` is due at `now` (its deadline is now or earlier); if so, stops it.
  bool Expired(Timer timer, Instant now) {
    if (!running(timer) || deadlines_[Index(timer)] > now) return false;
    Stop(timer);
    return true;
  }

 private:
  static constexpr size_t kCount = static_cast<size_t>(Timer::kCount);
  static size_t Index(Timer timer) { return static_cast<size_t>(timer); }

  std::array<Instant, kCount> deadlines_;
};

}  // namespace lockstep
