#include "sim/checkers/persistent_watches.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "sim/failure.h"

namespace lockstep::sim {
namespace {

using coordination::CreateTransaction;
using coordination::DeleteTransaction;
using coordination::SetDataTransaction;
using coordination::WatchEventType;

constexpr WatchEventType kCreated = WatchEventType::kNodeCreated;
constexpr WatchEventType kDeleted = WatchEventType::kNodeDeleted;
constexpr WatchEventType kData = WatchEventType::kNodeDataChanged;
constexpr WatchEventType kChildren = WatchEventType::kNodeChildrenChanged;

Zxid At(uint32_t counter) { return {{1}, counter}; }

class PersistentWatchesTest : public ::testing::Test {
 protected:
  // <1,1> creates /a, <1,2> /a/b, <1,3> sets /a, <1,4> deletes /a/b.
  PersistentWatchesTest() {
    Apply(CreateTransaction{.path = "/a", .parent_cversion = 1});
    Apply(CreateTransaction{.path = "/a/b", .parent_cversion = 1});
    Apply(SetDataTransaction{.path = "/a", .version = 1});
    Apply(DeleteTransaction{"/a/b"});
  }
  void Apply(coordination::TransactionBody body) {
    CommittedEntry entry;
    entry.zxid = At(++last_);
    entry.transaction.header.xid = static_cast<int32_t>(last_);
    entry.transaction.body = std::move(body);
    model_.Apply(entry);
  }
  // The invariant that fails; "" if none does.
  template <typename Check>
  static std::string Broken(Check check) {
    try {
      check();
    } catch (const Failure& failure) {
      return failure.invariant;
    }
    return "";
  }
  std::string Event(WatchEventType type, std::string_view path) {
    return Broken([&] { covered_ = watches_.OnEvent(type, path); });
  }
  std::string Seen(uint32_t counter) {
    return Broken([&] { watches_.OnSeen(At(counter)); });
  }

  uint32_t last_ = 0;
  ZnodeModel model_;
  PersistentWatches watches_{&model_};
  bool covered_ = false;
};

TEST_F(PersistentWatchesTest, EveryEventBeforeTheStateThatShowsItIsRight) {
  watches_.Add("/a", false, At(0));
  watches_.Add("/", true, At(0));

  EXPECT_EQ(Event(kCreated, "/a"), "");
  EXPECT_EQ(Seen(1), "");
  EXPECT_EQ(Event(kCreated, "/a/b"), "");
  EXPECT_EQ(Event(kChildren, "/a"), "");
  EXPECT_EQ(Seen(2), "");
  EXPECT_EQ(Event(kData, "/a"), "");
  EXPECT_EQ(Event(kDeleted, "/a/b"), "");
  EXPECT_EQ(Event(kChildren, "/a"), "");
  EXPECT_TRUE(covered_);
  EXPECT_EQ(Seen(4), "");
}

TEST_F(PersistentWatchesTest, AMissingEventIsFoundWhenTheChangeIsSeen) {
  watches_.Add("/a", false, At(1));

  EXPECT_EQ(Seen(1), "");
  EXPECT_EQ(Seen(2), "event-before-reply");
}

TEST_F(PersistentWatchesTest, ASkippedEventIsFoundByTheNextOne) {
  watches_.Add("/a", false, At(1));

  EXPECT_EQ(Event(kData, "/a"), "events-in-order");
}

TEST_F(PersistentWatchesTest, AnEventThatComesTwiceIsFound) {
  watches_.Add("/", true, At(3));

  EXPECT_EQ(Event(kDeleted, "/a/b"), "");
  EXPECT_EQ(Event(kDeleted, "/a/b"), "events-in-order");
}

TEST_F(PersistentWatchesTest, ARecursiveWatchOwesNoListsOfChildren) {
  watches_.Add("/a", true, At(3));

  EXPECT_EQ(Event(kChildren, "/a"), "");
  EXPECT_FALSE(covered_);
  EXPECT_EQ(Seen(4), "event-before-reply");
}

TEST_F(PersistentWatchesTest, ANeighbourWithTheSamePrefixIsNotCovered) {
  watches_.Add("/a", true, At(4));
  Apply(CreateTransaction{.path = "/ab", .parent_cversion = 2});

  EXPECT_EQ(Seen(5), "");
  EXPECT_EQ(Event(kCreated, "/ab"), "");
  EXPECT_FALSE(covered_);
}

TEST_F(PersistentWatchesTest, NothingIsOwedBetweenTwoConnections) {
  watches_.Add("/a", false, At(1));
  watches_.Suspend();
  EXPECT_EQ(Seen(2), "");
  watches_.Resume(At(3));

  EXPECT_EQ(Seen(3), "");
  EXPECT_EQ(Seen(4), "event-before-reply");
}

TEST_F(PersistentWatchesTest, SettingAWatchAgainForgetsNothing) {
  watches_.Add("/a", false, At(1));
  watches_.Add("/a", false, At(4));

  EXPECT_EQ(Seen(4), "event-before-reply");
}

TEST_F(PersistentWatchesTest, WhatIsRemovedOwesNothing) {
  watches_.Add("/a", false, At(1));

  EXPECT_FALSE(watches_.Remove("/a", true));
  EXPECT_TRUE(watches_.Remove("/a", false));
  EXPECT_FALSE(watches_.Has("/a", false));
  EXPECT_EQ(Seen(4), "");
}

}  // namespace
}  // namespace lockstep::sim
