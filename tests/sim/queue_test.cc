#include "sim/queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/base/random.h"

namespace lockstep::sim {
namespace {

TEST(EventQueue, GivesTheEarliestFirst) {
  EventQueue queue;
  queue.Push({30}, {TaskKind::kWake, 3, 0, 0});
  queue.Push({10}, {TaskKind::kWake, 1, 0, 0});
  queue.Push({20}, {TaskKind::kWake, 2, 0, 0});
  EXPECT_EQ(queue.Pop().task.who, 1u);
  EXPECT_EQ(queue.Pop().task.who, 2u);
  EXPECT_EQ(queue.Pop().at, (Instant{30}));
  EXPECT_TRUE(queue.empty());
}

TEST(EventQueue, TasksOfOneInstantComeInTheOrderOfPush) {
  EventQueue queue;
  for (uint32_t i = 0; i < 100; ++i) queue.Push({7}, {TaskKind::kWake, i, 0, 0});
  for (uint32_t i = 0; i < 100; ++i) EXPECT_EQ(queue.Pop().task.who, i);
}

TEST(EventQueue, AgreesWithASortedList) {
  RandomStream random(1, {}, 0, 0);
  EventQueue queue;
  struct Expected {
    int64_t time;
    uint32_t number;
  };
  std::vector<Expected> expected;
  uint32_t number = 0;
  for (int round = 0; round < 2'000; ++round) {
    if (expected.empty() || random.Chance(3, 5)) {
      const int64_t time = random.Between(0, 50);
      queue.Push({time}, {TaskKind::kWake, number, 0, 0});
      expected.push_back({time, number++});
      continue;
    }
    const auto first =
        std::min_element(expected.begin(), expected.end(),
                         [](const Expected& a, const Expected& b) { return a.time < b.time; });
    const Due due = queue.Pop();
    ASSERT_EQ(due.at.ns, first->time);
    ASSERT_EQ(due.task.who, first->number);
    expected.erase(first);
  }
  EXPECT_EQ(queue.size(), expected.size());
}

}  // namespace
}  // namespace lockstep::sim
