#include "core/coordination/watches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>
#include <tuple>

#include "core/coordination/path.h"

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
  watches.Add("/a", kOne, kWatchChildren);
  watches.Add("/a/b", kTwo, kWatchData);
  watches.Add("/a", kThree, kWatchData);

  EXPECT_THAT(Fire(watches, {{Kind::kCreated, "/a/b"}}), ElementsAre("1 /a/b: 2", "4 /a: 1"));
  EXPECT_EQ(watches.size(), 1u);
}

TEST(Watches, TheRootIsTheParentOfATopNode) {
  Watches watches;
  watches.Add("/", kOne, kWatchChildren);

  EXPECT_THAT(Fire(watches, {{Kind::kCreated, "/a"}}), ElementsAre("4 /: 1"));
}

TEST(Watches, ADeletionTellsAConnectionOnceEvenIfItWatchesDataAndChildren) {
  Watches watches;
  watches.Add("/a", kOne, kWatchData);
  watches.Add("/a", kOne, kWatchChildren);
  watches.Add("/a", kTwo, kWatchChildren);
  watches.Add("/", kOne, kWatchChildren);

  EXPECT_THAT(Fire(watches, {{Kind::kDeleted, "/a"}}), ElementsAre("2 /a: 1 2", "4 /: 1"));
  EXPECT_EQ(watches.size(), 0u);
}

TEST(Watches, AChangeOfDataLeavesChildWatches) {
  Watches watches;
  watches.Add("/a", kOne, kWatchData);
  watches.Add("/a", kTwo, kWatchChildren);
  watches.Add("/", kTwo, kWatchChildren);

  EXPECT_THAT(Fire(watches, {{Kind::kDataChanged, "/a"}}), ElementsAre("3 /a: 1"));
  EXPECT_EQ(watches.size(), 2u);
}

TEST(Watches, AWatchFiresOnce) {
  Watches watches;
  watches.Add("/a", kOne, kWatchData);

  EXPECT_THAT(Fire(watches, {{Kind::kDataChanged, "/a"}, {Kind::kDataChanged, "/a"}}),
              ElementsAre("3 /a: 1"));
  EXPECT_THAT(Fire(watches, {{Kind::kDataChanged, "/a"}}), IsEmpty());
}

TEST(Watches, AWatchSetTwiceFiresOnce) {
  Watches watches;
  watches.Add("/a", kOne, kWatchData);
  watches.Add("/a", kOne, kWatchData);

  EXPECT_EQ(watches.size(), 1u);
  EXPECT_EQ(watches.CountOf(kOne), 1u);
  EXPECT_THAT(Fire(watches, {{Kind::kDataChanged, "/a"}}), ElementsAre("3 /a: 1"));
}

TEST(Watches, WatchersAreToldInTheOrderOfTheirIds) {
  Watches watches;
  for (ConnectionId id : {kThree, kOne, kTwo}) watches.Add("/a", id, kWatchData);

  EXPECT_THAT(Fire(watches, {{Kind::kDataChanged, "/a"}}), ElementsAre("3 /a: 1 2 3"));
}

TEST(Watches, AConnectionThatIsGoneIsNotTold) {
  Watches watches;
  watches.Add("/a", kOne, kWatchData);
  watches.Add("/a", kTwo, kWatchData);
  watches.Add("/", kOne, kWatchChildren);
  watches.RemoveAll(kOne);

  EXPECT_EQ(watches.CountOf(kOne), 0u);
  EXPECT_THAT(Fire(watches, {{Kind::kDeleted, "/a"}}), ElementsAre("2 /a: 2"));
  EXPECT_EQ(watches.size(), 0u);
}

TEST(Watches, APersistentWatchSeesDataAndChildrenAgainAndAgain) {
  Watches watches;
  watches.Add("/a", kOne, kWatchPersistent);

  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Fire(watches, {{Kind::kCreated, "/a"},
                               {Kind::kDataChanged, "/a"},
                               {Kind::kCreated, "/a/b"},
                               {Kind::kDataChanged, "/a/b"},
                               {Kind::kCreated, "/a/b/c"},
                               {Kind::kDeleted, "/a/b"},
                               {Kind::kDeleted, "/a"}}),
                ElementsAre("1 /a: 1", "3 /a: 1", "4 /a: 1", "4 /a: 1", "2 /a: 1"));
  }
  EXPECT_EQ(watches.size(), 1u);
}

TEST(Watches, ARecursiveWatchSeesTheWholeSubtreeAndNoListsOfChildren) {
  Watches watches;
  watches.Add("/a", kOne, kWatchRecursive);

  EXPECT_THAT(Fire(watches, {{Kind::kCreated, "/a"},
                             {Kind::kCreated, "/a/b"},
                             {Kind::kCreated, "/a/b/c"},
                             {Kind::kDataChanged, "/a/b/c"},
                             {Kind::kCreated, "/ab"},
                             {Kind::kDataChanged, "/"},
                             {Kind::kDeleted, "/a/b/c"}}),
              ElementsAre("1 /a: 1", "1 /a/b: 1", "1 /a/b/c: 1", "3 /a/b/c: 1", "2 /a/b/c: 1"));
}

TEST(Watches, ARecursiveWatchOfTheRootSeesEverything) {
  Watches watches;
  watches.Add("/", kOne, kWatchRecursive);

  EXPECT_THAT(Fire(watches, {{Kind::kDataChanged, "/"}, {Kind::kCreated, "/a/b/c"}}),
              ElementsAre("3 /: 1", "1 /a/b/c: 1"));
}

TEST(Watches, AChangeIsOneEventForAConnectionHoweverManyOfItsWatchesSeeIt) {
  Watches watches;
  watches.Add("/", kOne, kWatchRecursive);
  watches.Add("/a", kOne, kWatchRecursive);
  watches.Add("/a", kTwo, kWatchRecursive);
  watches.Add("/a/b", kOne, kWatchAny);

  EXPECT_THAT(Fire(watches, {{Kind::kDeleted, "/a/b"}}), ElementsAre("2 /a/b: 1 2"));
  EXPECT_EQ(watches.CountOf(kOne), 4u) << "the one-shot ones are gone";
}

TEST(Watches, AOneShotWatchLeavesThePersistentOneBesideIt) {
  Watches watches;
  watches.Add("/a", kOne, kWatchPersistent);
  watches.Add("/a", kOne, kWatchData | kWatchChildren);

  EXPECT_THAT(Fire(watches, {{Kind::kDataChanged, "/a"}, {Kind::kDataChanged, "/a"}}),
              ElementsAre("3 /a: 1", "3 /a: 1"));
  EXPECT_TRUE(watches.Has("/a", kOne, kWatchChildren));
  EXPECT_FALSE(watches.Has("/a", kOne, kWatchData));
}

TEST(Watches, WithoutTheRuleAOneShotWatchEndsThePersistentOne) {
  Watches watches({.watches_of_one_path_are_independent = false});
  watches.Add("/a", kOne, kWatchPersistent);
  watches.Add("/a", kOne, kWatchData);

  EXPECT_THAT(Fire(watches, {{Kind::kDataChanged, "/a"}, {Kind::kDataChanged, "/a"}}),
              ElementsAre("3 /a: 1"));
}

TEST(Watches, OnlyTheKindsAskedForAreRemoved) {
  Watches watches;
  watches.Add("/a", kOne, kWatchAny);
  watches.Add("/a", kTwo, kWatchData);

  EXPECT_TRUE(watches.Remove("/a", kOne, kWatchRecursive | kWatchData));
  EXPECT_FALSE(watches.Remove("/a", kOne, kWatchRecursive | kWatchData));
  EXPECT_FALSE(watches.Remove("/a", kThree, kWatchAny));
  EXPECT_FALSE(watches.Remove("/b", kOne, kWatchAny));
  EXPECT_EQ(watches.size(), 3u);
  EXPECT_THAT(Fire(watches, {{Kind::kDataChanged, "/a"}}), ElementsAre("3 /a: 1 2"));
  EXPECT_TRUE(watches.Remove("/a", kOne, kWatchAny));
  EXPECT_EQ(watches.size(), 0u);
  EXPECT_EQ(watches.CountOf(kOne), 0u);
}

// Against a list of (path, watcher, kind) that is searched from end to end.
RC_GTEST_PROP(WatchesProperty, AreThoseOfAListOfThem, ()) {
  using Watch = std::tuple<std::string, ConnectionId, WatchKinds>;
  const std::vector<std::string> paths = {"/", "/a", "/a/b", "/a/b/c", "/ab"};
  Watches watches;
  std::set<Watch> list;
  for (int step = *rc::gen::inRange(0, 60); step > 0; --step) {
    const std::string path = *rc::gen::elementOf(paths);
    const ConnectionId watcher{*rc::gen::inRange<uint64_t>(1, 4)};
    const WatchKinds kind =
        *rc::gen::element(kWatchData, kWatchChildren, kWatchPersistent, kWatchRecursive);
    const int what = *rc::gen::inRange(0, 8);
    if (what < 3) {
      watches.Add(path, watcher, kind);
      list.emplace(path, watcher, kind);
    } else if (what == 3) {
      RC_ASSERT(watches.Remove(path, watcher, kind) == (list.erase({path, watcher, kind}) > 0));
    } else if (what == 4 && watcher.value == 1) {
      watches.RemoveAll(watcher);
      std::erase_if(list, [&](const Watch& any) { return std::get<1>(any) == watcher; });
    } else if (path != "/") {
      const Kind change = *rc::gen::element(Kind::kCreated, Kind::kDeleted, Kind::kDataChanged);
      const std::string parent(ParentPath(path));
      std::set<uint64_t> of_node, of_parent;
      for (auto it = list.begin(); it != list.end();) {
        const auto& [at, who, which] = *it;
        const bool below = path.starts_with(at == "/" ? at : at + "/") || at == path;
        const bool sees_data = at == path && which != kWatchRecursive &&
                               (which != kWatchChildren || change == Kind::kDeleted);
        const bool node = sees_data || (which == kWatchRecursive && below);
        const bool children = at == parent && change != Kind::kDataChanged &&
                              (which == kWatchChildren || which == kWatchPersistent);
        if (node) of_node.insert(who.value);
        if (children) of_parent.insert(who.value);
        const bool one_shot = which == kWatchData || which == kWatchChildren;
        it = (node || children) && one_shot ? list.erase(it) : std::next(it);
      }
      std::vector<std::string> expected;
      auto expect = [&](int type, const std::string& at, const std::set<uint64_t>& whom) {
        if (whom.empty()) return;
        std::string line = std::to_string(type) + " " + at + ":";
        for (uint64_t who : whom) line += " " + std::to_string(who);
        expected.push_back(line);
      };
      expect(change == Kind::kCreated ? 1 : change == Kind::kDeleted ? 2 : 3, path, of_node);
      expect(4, parent, of_parent);
      RC_ASSERT(Fire(watches, {{change, path}}) == expected);
    }
    RC_ASSERT(watches.size() == list.size());
  }
  for (const auto& [path, watcher, kind] : list) RC_ASSERT(watches.Has(path, watcher, kind));
}

}  // namespace
}  // namespace lockstep::coordination
