#include "core/zab/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "tests/support/zab_trio.h"

namespace lockstep::zab {
namespace {

using ::testing::ElementsAre;

Transaction T(uint32_t epoch, uint32_t counter, std::string_view body = "") {
  return {Z(epoch, counter), Bytes::Copy(body)};
}

TEST(History, BeginsDurable) {
  History history(Z(1, 1), Transactions("1.2 1.3 2.1"));

  EXPECT_EQ(history.base(), Z(1, 1));
  EXPECT_EQ(history.last(), Z(2, 1));
  EXPECT_EQ(history.durable(), Z(2, 1));
}

TEST(History, ContainsItsBaseAndItsWindowAlone) {
  History history(Z(1, 2), Transactions("1.3 2.1 2.2"));

  EXPECT_FALSE(history.Contains(Z(1, 1)));
  EXPECT_TRUE(history.Contains(Z(1, 2)));
  EXPECT_TRUE(history.Contains(Z(1, 3)));
  EXPECT_FALSE(history.Contains(Z(1, 4)));
  EXPECT_FALSE(history.Contains(Z(2, 0)));
  EXPECT_TRUE(history.Contains(Z(2, 2)));
  EXPECT_FALSE(history.Contains(Z(2, 3)));
}

TEST(History, IndexAfterIsTheFirstLaterOne) {
  History history(Z(1, 2), Transactions("1.3 2.1 2.2"));

  EXPECT_EQ(history.IndexAfter(Z(0, 0)), 0u);
  EXPECT_EQ(history.IndexAfter(Z(1, 2)), 0u);
  EXPECT_EQ(history.IndexAfter(Z(1, 3)), 1u);
  EXPECT_EQ(history.IndexAfter(Z(1, 9)), 1u);
  EXPECT_EQ(history.IndexAfter(Z(2, 2)), 3u);
  EXPECT_EQ(history.Before(0), Z(1, 2));
  EXPECT_EQ(history.Before(1), Z(1, 3));
}

TEST(History, LastOfAnEpochMayBeItsBase) {
  History history(Z(1, 2), Transactions("3.1 3.2 5.1"));

  EXPECT_EQ(history.LastOf({1}), Z(1, 2));
  EXPECT_EQ(history.LastOf({3}), Z(3, 2));
  EXPECT_EQ(history.LastOf({5}), Z(5, 1));
  EXPECT_EQ(history.LastOf({4}), std::nullopt);
  EXPECT_EQ(history.LastOf({6}), std::nullopt);
  EXPECT_EQ(history.LastOf({0}), std::nullopt);
}

TEST(History, EpochEndsAreTheNewestOnes) {
  History history(Z(1, 2), Transactions("3.1 3.2 5.1"));

  EXPECT_THAT(history.EpochEnds(9), ElementsAre(Z(1, 2), Z(3, 2), Z(5, 1)));
  EXPECT_THAT(history.EpochEnds(2), ElementsAre(Z(3, 2), Z(5, 1)));
}

TEST(History, EpochEndsOfAnEmptyHistoryAreItsBase) {
  EXPECT_THAT(History({}, {}).EpochEnds(9), ElementsAre(Z(0, 0)));
  EXPECT_THAT(History(Z(4, 7), {}).EpochEnds(9), ElementsAre(Z(4, 7)));
}

TEST(History, EpochEndsNameTheEpochOfTheBaseOnce) {
  History history(Z(1, 2), Transactions("1.3 2.1"));

  EXPECT_THAT(history.EpochEnds(9), ElementsAre(Z(1, 3), Z(2, 1)));
}

TEST(History, EpochEndsReachDownToTheEmptyHistory) {
  History history({}, Transactions("1.1 2.1"));

  EXPECT_THAT(history.EpochEnds(9), ElementsAre(Z(0, 0), Z(1, 1), Z(2, 1)));
}

TEST(History, AnAppendIsDurableWhenItsWriteIs) {
  History history({}, {});

  history.Append(T(1, 1), {1});
  history.Append(T(1, 2), {2});
  EXPECT_EQ(history.durable(), Z(0, 0));
  EXPECT_EQ(history.last(), Z(1, 2));

  history.OnPersisted({1});
  EXPECT_EQ(history.durable(), Z(1, 1));
  history.OnPersisted({2});
  EXPECT_EQ(history.durable(), Z(1, 2));
}

TEST(History, WhatIsCutIsNotDurableAnyMore) {
  History history({}, Transactions("1.1 1.2 1.3"));

  history.Truncate(Z(1, 1), {1});

  EXPECT_EQ(history.last(), Z(1, 1));
  EXPECT_EQ(history.durable(), Z(1, 1));
  EXPECT_EQ(history.window().size(), 1u);
}

TEST(History, AnAppendInFlightThatIsCutNeverBecomesDurable) {
  History history({}, Transactions("1.1"));
  history.Append(T(1, 2), {1});
  history.Truncate(Z(1, 1), {2});
  history.Append(T(2, 1), {3});

  history.OnPersisted({1});
  EXPECT_EQ(history.durable(), Z(1, 1));
  history.OnPersisted({2});
  EXPECT_EQ(history.durable(), Z(1, 1));
  history.OnPersisted({3});
  EXPECT_EQ(history.durable(), Z(2, 1));
}

TEST(History, NothingIsDurableWhileASnapshotIsBeingWritten) {
  History history({}, Transactions("1.1"));
  history.Append(T(1, 2), {1});

  history.Reset(Z(3, 9), {2});

  EXPECT_EQ(history.base(), Z(3, 9));
  EXPECT_EQ(history.last(), Z(3, 9));
  EXPECT_EQ(history.durable(), Z(0, 0));
  history.OnPersisted({1});
  EXPECT_EQ(history.durable(), Z(0, 0));
  history.OnPersisted({2});
  EXPECT_EQ(history.durable(), Z(3, 9));
}

TEST(History, TrimKeepsWhatIsNotYetDelivered) {
  History history({}, Transactions("1.1 1.2 1.3 1.4"));

  history.Trim(Z(1, 3), /*transactions_max=*/0, /*bytes_max=*/1000);

  EXPECT_EQ(history.base(), Z(1, 3));
  EXPECT_EQ(Zxids(history.window()), "1.4");
}

TEST(History, TrimHoldsBothBounds) {
  History by_count({}, Transactions("1.1 1.2 1.3 1.4"));
  by_count.Trim(Z(1, 4), 3, 1000);
  EXPECT_EQ(Zxids(by_count.window()), "1.2 1.3 1.4");

  History by_bytes({}, Transactions("1.1 1.2 1.3 1.4"));  // bodies of three bytes
  EXPECT_EQ(by_bytes.bytes(), 12u);
  by_bytes.Trim(Z(1, 4), 100, 7);
  EXPECT_EQ(Zxids(by_bytes.window()), "1.3 1.4");
  EXPECT_EQ(by_bytes.bytes(), 6u);
}

TEST(History, ForgetLeavesTheJournalAlone) {
  History history({}, Transactions("1.1 1.2"));

  history.Forget(Z(1, 1));

  EXPECT_EQ(history.last(), Z(1, 1));
  EXPECT_EQ(history.bytes(), 3u);
}

TEST(HistoryDeathTest, RefusesToGoBack) {
  History history({}, Transactions("1.2"));

  EXPECT_DEATH(history.Append(T(1, 2), {1}), "check failed");
  EXPECT_DEATH(history.Truncate(Z(1, 1), {1}), "check failed: Contains");
}

// ---- Against a model that keeps everything and searches it naively -----------------------------

struct Model {
  std::vector<Transaction> all;  // the whole history, forgotten or not
  Zxid base;
  // Writes in order: the whole history as it is when they are durable.
  std::vector<std::pair<WriteId, Zxid>> writes;
  Zxid durable;

  Zxid last() const { return all.empty() ? base : std::max(base, all.back().zxid); }
};

TEST(History, BehavesAsANaiveModel) {
  EXPECT_TRUE(rc::check([] {
    History history({}, {});
    Model model;
    uint64_t write = 0;
    uint32_t epoch = 1;
    int steps = *rc::gen::inRange(1, 60);
    for (int step = 0; step < steps; step++) {
      switch (*rc::gen::inRange(0, 7)) {
        case 0:
        case 1:
        case 2: {  // append, now and then in a later epoch
          if (*rc::gen::inRange(0, 4) == 0) epoch += static_cast<uint32_t>(*rc::gen::inRange(1, 3));
          Zxid last = model.last();
          Zxid zxid{{std::max(epoch, last.epoch.value)}, 1};
          if (last.epoch == zxid.epoch) zxid.counter = last.counter + 1;
          epoch = zxid.epoch.value;
          Transaction t{
              zxid, Bytes::Copy(std::string(static_cast<size_t>(*rc::gen::inRange(0, 5)), 'x'))};
          history.Append(t, {++write});
          model.all.push_back(t);
          model.writes.push_back({{write}, zxid});
          break;
        }
        case 3: {  // truncate to something in the window, or to the base
          std::vector<Zxid> places = {model.base};
          for (const Transaction& t : model.all) {
            if (t.zxid > model.base) places.push_back(t.zxid);
          }
          Zxid to = places[*rc::gen::inRange<size_t>(0, places.size())];
          history.Truncate(to, {++write});
          while (!model.all.empty() && model.all.back().zxid > to) model.all.pop_back();
          for (auto& [id, end] : model.writes) end = std::min(end, to);
          model.durable = std::min(model.durable, to);
          model.writes.push_back({{write}, to});
          break;
        }
        case 4: {  // some writes become durable
          if (model.writes.empty()) break;
          size_t count = *rc::gen::inRange<size_t>(1, model.writes.size() + 1);
          history.OnPersisted(model.writes[count - 1].first);
          model.durable = model.writes[count - 1].second;
          model.writes.erase(model.writes.begin(),
                             model.writes.begin() + static_cast<ptrdiff_t>(count));
          break;
        }
        case 5: {  // trim what is durable
          size_t keep = *rc::gen::inRange<size_t>(0, 6);
          history.Trim(model.durable, keep, 1000);
          size_t in_window = 0;
          for (const Transaction& t : model.all) in_window += t.zxid > model.base ? 1 : 0;
          for (const Transaction& t : model.all) {
            if (in_window <= keep || t.zxid > model.durable) break;
            if (t.zxid <= model.base) continue;
            model.base = t.zxid;
            in_window--;
          }
          break;
        }
        case 6: {  // a snapshot replaces everything; rare
          if (*rc::gen::inRange(0, 4) != 0) break;
          epoch++;
          Zxid zxid{{epoch}, 5};
          history.Reset(zxid, {++write});
          model.all.clear();
          model.base = zxid;
          model.durable = {};
          for (auto& [id, end] : model.writes) end = {};
          model.writes.push_back({{write}, zxid});
          // The peer waits for it before it does anything else.
          history.OnPersisted({write});
          model.durable = zxid;
          model.writes.clear();
          break;
        }
      }
      RC_ASSERT(history.base() == model.base);
      RC_ASSERT(history.last() == model.last());
      RC_ASSERT(history.durable() == model.durable);
      std::deque<Transaction> window;
      uint64_t bytes = 0;
      std::vector<Zxid> ends = {model.base};
      for (const Transaction& t : model.all) {
        if (t.zxid <= model.base) continue;
        window.push_back(t);
        bytes += t.body.size();
        if (ends.back().epoch == t.zxid.epoch) ends.pop_back();
        ends.push_back(t.zxid);
      }
      RC_ASSERT(Zxids(history.window()) == Zxids(window));
      RC_ASSERT(history.bytes() == bytes);
      RC_ASSERT(history.EpochEnds(1000) == ends);
      for (const Transaction& t : model.all) {
        RC_ASSERT(history.Contains(t.zxid) == (t.zxid >= model.base));
      }
    }
  }));
}

}  // namespace
}  // namespace lockstep::zab
