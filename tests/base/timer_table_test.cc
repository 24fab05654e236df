#include "core/base/timer_table.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

enum class Timer { kA, kB, kCount };

TEST(TimerTable, NextIsTheEarliestDeadline) {
  TimerTable<Timer> timers;
  EXPECT_EQ(timers.next(), Instant::Never());
  timers.Set(Timer::kA, {20});
  timers.Set(Timer::kB, {10});
  EXPECT_EQ(timers.next(), (Instant{10}));
  timers.Stop(Timer::kB);
  EXPECT_EQ(timers.next(), (Instant{20}));
}

TEST(TimerTable, ExpiresOnceAndNotEarly) {
  TimerTable<Timer> timers;
  timers.Set(Timer::kA, {20});
  EXPECT_FALSE(timers.Expired(Timer::kA, {19}));
  EXPECT_TRUE(timers.Expired(Timer::kA, {20}));
  EXPECT_FALSE(timers.Expired(Timer::kA, {21}));
  EXPECT_FALSE(timers.running(Timer::kA));
}

}  // namespace
}  // namespace lockstep
