#include "core/base/quorum.h"

#include <gtest/gtest.h>

#include <map>

namespace lockstep {
namespace {

Voters Of(uint32_t n) {
  std::vector<ServerId> ids;
  for (uint32_t i = 1; i <= n; i++) ids.push_back({i});
  return Voters(ids);
}

TEST(Voters, QuorumIsMoreThanHalf) {
  EXPECT_EQ(Of(1).quorum_size(), 1u);
  EXPECT_EQ(Of(2).quorum_size(), 2u);
  EXPECT_EQ(Of(3).quorum_size(), 2u);
  EXPECT_EQ(Of(4).quorum_size(), 3u);
  EXPECT_EQ(Of(7).quorum_size(), 4u);
}

TEST(Voters, ServersThatAreNoVotersDoNotCount) {
  Voters voters({{1}, {2}, {3}});
  EXPECT_FALSE(voters.IsQuorum([](ServerId s) { return s.value == 1 || s.value > 3; }));
  EXPECT_TRUE(voters.IsQuorum([](ServerId s) { return s.value != 2; }));
}

TEST(Voters, ReachedByQuorumIsTheGreatestValueThatAQuorumHas) {
  std::map<uint32_t, int> reached = {{1, 10}, {2, 7}, {3, 9}, {4, 1}, {5, 8}};
  auto of = [&](ServerId s) { return reached[s.value]; };
  EXPECT_EQ(Of(5).ReachedByQuorum<int>(of), 8);
  EXPECT_EQ(Of(4).ReachedByQuorum<int>(of), 7);
  EXPECT_EQ(Of(1).ReachedByQuorum<int>(of), 10);
}

TEST(VotersDeathTest, DuplicatesAndNoneAreRefused) {
  EXPECT_DEATH(Voters({{1}, {1}}), "check failed");
  EXPECT_DEATH(Voters({}), "check failed");
}

}  // namespace
}  // namespace lockstep
