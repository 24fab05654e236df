// The life of groups: join, sync, heartbeat, leave, and the rebalances they make up.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/kafka/groups_rig.h"

namespace lockstep::kafka {
namespace {

using Join = GroupsRig::Join;

class GroupsTest : public testing::Test {
 protected:
  GroupsTest() { rig.LeadAll(); }
  GroupsRig rig;
};

TEST_F(GroupsTest, TwoMembersBecomeAStableGroup) {
  const std::vector<std::string> ids = rig.MakeStable(2);
  EXPECT_EQ(rig.State(), "Stable");
  EXPECT_EQ(rig.Heartbeat(ids[0], 1), ErrorCode::kNone);
  EXPECT_EQ(rig.Heartbeat(ids[1], 1), ErrorCode::kNone);
}

TEST_F(GroupsTest, AStableGroupSurvivesFailOver) {
  const std::vector<std::string> ids = rig.MakeStable(2);
  EXPECT_EQ(rig.Commit(17, ids[0], 1), ErrorCode::kNone);
  rig.FailOver();
  EXPECT_EQ(rig.State(), "Stable");
  EXPECT_EQ(rig.Committed(), 17);
  EXPECT_EQ(rig.Heartbeat(ids[0], 1), ErrorCode::kNone);
  const uint64_t sync = rig.SendSync(ids[1], 1);
  EXPECT_EQ(rig.Get<SyncGroupResponse>(sync).assignment.view(), "1");
}

}  // namespace
}  // namespace lockstep::kafka
