#include "core/base/random.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

// Golden values: a change of the generator would silently change what every seed means.
TEST(RandomStream, ValuesAreFixedForever) {
  RandomStream stream(1, {2}, 3, 4);
  uint64_t first = stream.Next();
  uint64_t second = stream.Next();
  EXPECT_EQ(Mix64(0), 0xe220a8397b1dcdafu);
  EXPECT_NE(first, second);
  EXPECT_EQ(RandomStream(1, {2}, 3, 4).Next(), first);
}

TEST(RandomStream, EveryPartOfTheKeyCounts) {
  uint64_t base = RandomStream(1, {2}, 3, 4).Next();
  EXPECT_NE(RandomStream(2, {2}, 3, 4).Next(), base);
  EXPECT_NE(RandomStream(1, {3}, 3, 4).Next(), base);
  EXPECT_NE(RandomStream(1, {2}, 4, 4).Next(), base);
  EXPECT_NE(RandomStream(1, {2}, 3, 5).Next(), base);
}

TEST(RandomStream, BelowStaysBelowAndReachesEveryValue) {
  RandomStream stream(7, {}, 0, 0);
  bool seen[5] = {};
  for (int i = 0; i < 200; i++) {
    uint64_t value = stream.Below(5);
    ASSERT_LT(value, 5u);
    seen[value] = true;
  }
  for (bool s : seen) EXPECT_TRUE(s);
  EXPECT_EQ(stream.drawn(), 200u);
}

TEST(RandomStream, BetweenIsInclusive) {
  RandomStream stream(7, {}, 0, 1);
  bool low = false, high = false;
  for (int i = 0; i < 200; i++) {
    int64_t value = stream.Between(-1, 1);
    ASSERT_GE(value, -1);
    ASSERT_LE(value, 1);
    low |= value == -1;
    high |= value == 1;
  }
  EXPECT_TRUE(low && high);
}

}  // namespace
}  // namespace lockstep
