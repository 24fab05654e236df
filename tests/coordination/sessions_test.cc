#include "core/coordination/sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::coordination {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Instant At(int64_t ms) { return {ms * 1'000'000}; }
constexpr SessionId kA{1}, kB{2}, kC{3};
constexpr SessionOwner kOwner{{1}, {77}};

class SessionTrackerTest : public ::testing::Test {
 protected:
  void Add(SessionId id, int64_t timeout_ms, Instant now) {
    tracker.Add(id, Milliseconds(timeout_ms), "password", kOwner, now);
  }
  SessionTracker tracker{Milliseconds(2000)};
};

TEST_F(SessionTrackerTest, ExpiresAtTheTickAfterTheTimeout) {
  Add(kA, 5000, At(100));

  EXPECT_EQ(tracker.next_deadline(), At(6000));
  EXPECT_THAT(tracker.Due(At(5999)), IsEmpty());
  EXPECT_THAT(tracker.Due(At(6000)), ElementsAre(kA));
}

TEST_F(SessionTrackerTest, NeverExpiresBeforeTheTimeoutEvenOnATickBoundary) {
  Add(kA, 4000, At(2000));

  EXPECT_EQ(tracker.next_deadline(), At(8000));
}

TEST_F(SessionTrackerTest, ATouchGivesTheFullTimeoutAgain) {
  Add(kA, 4000, At(0));
  tracker.Touch(kA, At(3000));

  EXPECT_THAT(tracker.Due(At(7999)), IsEmpty());
  EXPECT_THAT(tracker.Due(At(8000)), ElementsAre(kA));
}

TEST_F(SessionTrackerTest, AnOldTouchDoesNotShortenTheTime) {
  Add(kA, 4000, At(3000));
  tracker.Touch(kA, At(0));

  EXPECT_EQ(tracker.next_deadline(), At(8000));
}

TEST_F(SessionTrackerTest, ATouchOfAnUnknownSessionHasNoEffect) {
  tracker.Touch(kA, At(0));

  EXPECT_EQ(tracker.next_deadline(), Instant::Never());
  EXPECT_EQ(tracker.size(), 0u);
}

TEST_F(SessionTrackerTest, DueIsOrderedByDeadlineThenById) {
  Add(kC, 4000, At(0));
  Add(kB, 8000, At(0));
  Add(kA, 4500, At(500));

  EXPECT_THAT(tracker.Due(At(20'000)), ElementsAre(kA, kC, kB));
}

TEST_F(SessionTrackerTest, AClosingSessionIsKnownAndNeitherExpiresNorIsTouched) {
  Add(kA, 4000, At(0));
  tracker.StartClosing(kA);
  tracker.Touch(kA, At(1000));

  ASSERT_NE(tracker.Find(kA), nullptr);
  EXPECT_TRUE(tracker.Find(kA)->closing);
  EXPECT_EQ(tracker.next_deadline(), Instant::Never());
  tracker.Remove(kA);
  EXPECT_EQ(tracker.Find(kA), nullptr);
}

TEST_F(SessionTrackerTest, ARemovedSessionDoesNotExpire) {
  Add(kA, 4000, At(0));
  Add(kB, 4000, At(0));
  tracker.Remove(kA);
  tracker.Remove(kA);

  EXPECT_THAT(tracker.Due(At(10'000)), ElementsAre(kB));
}

TEST_F(SessionTrackerTest, KeepsOwnerAndPassword) {
  Add(kA, 4000, At(0));

  EXPECT_EQ(tracker.Find(kA)->owner, kOwner);
  EXPECT_EQ(tracker.Find(kA)->password, "password");
}

}  // namespace
}  // namespace lockstep::coordination
