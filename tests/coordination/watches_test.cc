#include "core/coordination/watches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::coordination {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Kind = Applied::Change::Kind;
constexpr ConnectionId kOne{1}, kTwo{2}, kThree{3};

std::string Describe(const FiredWatch& fired) {
  std::string text = std::to_string(static_cast<int32_t>(fired.type)) + " " + fired.path + ":";
  for (ConnectionId watcher : fired.watchers) text += " " + std::to_string(watcher.value);
  return text;
}
std::vector<std::string> Fire(Watches& watches, std::vector<Applied::Change> changes) {
  std::vector<std::string> lines;
  for (const FiredWatch& fired : watches.Fire(changes)) lines.push_back(Describe(fired));
  return lines;
}

TEST(Watches, ACreationFiresItsDataWatchThenTheChildWatchOfItsParent) {
  Watches watches;
  watches.AddChildren("/a", kOne);
  watches.AddData("/a/b", kTwo);
  watches.AddData("/a", kThree);

  EXPECT_THAT(Fire(watches, {{Kind::kCreated, "/a/b"}}), ElementsAre("1 /a/b: 2", "4 /a: 1"));
  EXPECT_EQ(watches.size(), 1u);
}

TEST(Watches, TheRootIsTheParentOfATopNode) {
  Watches watches;
  watches.AddChildren("/", kOne);

  EXPECT_THAT(Fire(watches, {{Kind::kCreated, "/a"}}), ElementsAre("4 /: 1"));
}

TEST(Watches, ADeletionTellsAConnectionOnceEvenIfItWatchesDataAndChildren) {
  Watches watches;
  watches.AddData("/a", kOne);
  watches.AddChildren("/a", kOne);
  watches.AddChildren("/a", kTwo);
  watches.AddChildren("/", kOne);

  EXPECT_THAT(Fire(watches, {{Kind::kDeleted, "/a"}}), ElementsAre("2 /a: 1 2", "4 /: 1"));
  EXPECT_EQ(watches.size(), 0u);
}

TEST(Watches, AChangeOfDataLeavesChildWatches) {
  Watches watches;
  watches.AddData("/a", kOne);
  watches.AddChildren("/a", kTwo);
  watches.AddChildren("/", kTwo);

  EXPECT_THAT(Fire(watches, {{Kind::kDataChanged, "/a"}}), ElementsAre("3 /a: 1"));
  EXPECT_EQ(watches.size(), 2u);
}

TEST(Watches, AWatchFiresOnce) {
  Watches watches;
  watches.AddData("/a", kOne);

  EXPECT_THAT(Fire(watches, {{Kind::kDataChanged, "/a"}, {Kind::kDataChanged, "/a"}}),
              ElementsAre("3 /a: 1"));
  EXPECT_THAT(Fire(watches, {{Kind::kDataChanged, "/a"}}), IsEmpty());
}

TEST(Watches, AWatchSetTwiceFiresOnce) {
  Watches watches;
  watches.AddData("/a", kOne);
  watches.AddData("/a", kOne);

  EXPECT_EQ(watches.size(), 1u);
  EXPECT_EQ(watches.CountOf(kOne), 1u);
  EXPECT_THAT(Fire(watches, {{Kind::kDataChanged, "/a"}}), ElementsAre("3 /a: 1"));
}

TEST(Watches, WatchersAreToldInTheOrderOfTheirIds) {
  Watches watches;
  for (ConnectionId id : {kThree, kOne, kTwo}) watches.AddData("/a", id);

  EXPECT_THAT(Fire(watches, {{Kind::kDataChanged, "/a"}}), ElementsAre("3 /a: 1 2 3"));
}

TEST(Watches, AConnectionThatIsGoneIsNotTold) {
  Watches watches;
  watches.AddData("/a", kOne);
  watches.AddData("/a", kTwo);
  watches.AddChildren("/", kOne);
  watches.RemoveAll(kOne);

  EXPECT_EQ(watches.CountOf(kOne), 0u);
  EXPECT_THAT(Fire(watches, {{Kind::kDeleted, "/a"}}), ElementsAre("2 /a: 2"));
  EXPECT_EQ(watches.size(), 0u);
}

}  // namespace
}  // namespace lockstep::coordination
