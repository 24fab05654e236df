#include "core/kafka/error.h"

#include <gtest/gtest.h>

namespace lockstep::kafka {
namespace {

TEST(ErrorCode, HasKafkasNumberAndName) {
  EXPECT_EQ(ErrorCode{35}, ErrorCode::kUnsupportedVersion);
  EXPECT_EQ(ErrorCode{100}, ErrorCode::kUnknownTopicId);
  EXPECT_EQ(ToString(ErrorCode::kNotLeaderOrFollower), "NOT_LEADER_OR_FOLLOWER");
  EXPECT_EQ(ToString(ErrorCode::kUnknownServerError), "UNKNOWN_SERVER_ERROR");
}

TEST(ErrorCode, OfANewerBrokerIsPrintedAsItsNumber) { EXPECT_EQ(ToString(ErrorCode{999}), "999"); }

}  // namespace
}  // namespace lockstep::kafka
