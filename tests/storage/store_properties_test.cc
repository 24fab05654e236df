// Random lives of a store against the model of store_harness.h: whatever is appended, snapshotted,
// received, crashed and killed, what a restart finds is a prefix of what was appended, with all
// that was told durable; epochs never go back, truncations hold, and the snapshot that counts is
// the one that the journal names.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "tests/support/store_harness.h"

namespace lockstep::storage {
namespace {

enum class Act : uint8_t {
  kTransactions,
  kTruncate,
  kAcceptedEpoch,
  kCurrentEpoch,
  kOwnSnapshot,
  kReplace,
  kHalfReception,
  kExecute,
  kRunUntilIdle,
  kCrash,
  kCrashInRecovery,
  kKill,
  kCount,
};

struct Step {
  Act act;
  uint32_t a;  // what they mean depends on the act
  uint32_t b;
};

class Life {
 public:
  Life(StoreOptions options, uint64_t order) : harness_(options, 32) {
    harness_.Shuffle(RandomStream(order, ServerId{1}, 0, 1));
    harness_.RestartAndRecover();
    RC_ASSERT(harness_.CheckRecovered() == "");
  }

  void Do(const Step& step) {
    const StoreHarness::State state = harness_.AppendedState();
    const Zxid last = state.last();
    switch (step.act) {
      case Act::kTransactions:
        for (uint32_t i = 1; i <= 1 + step.a % 5; ++i) {
          harness_.AppendTransaction({last.epoch, last.counter + i},
                                     std::string(step.b % 700, static_cast<char>('a' + i)));
        }
        harness_.Flush();
        break;
      case Act::kTruncate:
        Truncate(state, step.a);
        break;
      case Act::kAcceptedEpoch:
        harness_.Append(AcceptedEpochRecord{{state.accepted.value + step.a % 3}});
        harness_.Flush();
        break;
      case Act::kCurrentEpoch:
        harness_.Append(CurrentEpochRecord{{state.current.value + step.a % 3}});
        harness_.Flush();
        break;
      case Act::kOwnSnapshot:
        OwnSnapshot(state, step.a);
        break;
      case Act::kReplace:
        Replace(last, step.a, step.b);
        break;
      case Act::kHalfReception:
        harness_.ReceivePiece({last.epoch.Next(), step.a % 50}, 0);
        break;
      case Act::kExecute:
        for (uint32_t i = 0; i < step.a % 12; ++i) harness_.ExecuteOne();
        break;
      case Act::kRunUntilIdle:
        harness_.RunUntilIdle();
        break;
      case Act::kCrash:
        Restart(step.a, true);
        break;
      case Act::kCrashInRecovery:
        for (uint32_t i = 0; i < 1 + step.b % 3; ++i) {
          Stop(step.a + i, i % 2 == 0);
          harness_.Restart();
          for (uint32_t n = 0; n < (step.b / 3 + i) % 12; ++n) harness_.ExecuteOne();
        }
        Restart(step.a, step.b % 2 == 0);
        break;
      case Act::kKill:
        Restart(step.a, false);
        break;
      case Act::kCount:
        break;
    }
    RC_ASSERT(harness_.fatal() == "");
  }

  void End() {
    harness_.RunUntilIdle();
    RC_ASSERT(harness_.fatal() == "");
    RC_ASSERT(harness_.persisted() == harness_.appended());
    Restart(0, true);
  }

 private:
  void Stop(uint32_t seed, bool power) {
    if (!power) return harness_.Kill();
    RandomStream random(seed, ServerId{1}, 0, 0);
    harness_.Crash([&] { return seed % 4 != 0 && random.Chance(seed % 4, 4); });
  }
  void Restart(uint32_t seed, bool power) {
    Stop(seed, power);
    harness_.RestartAndRecover();
    RC_ASSERT(harness_.CheckRecovered() == "");
    own_ = Zxid{};
  }
  // To a transaction of the history, but not below a snapshot: those hold what was committed.
  void Truncate(const StoreHarness::State& state, uint32_t choice) {
    std::vector<Zxid> cuts;
    if (!state.history.empty()) cuts.push_back(state.last());
    for (const TransactionRecord& transaction : state.history) {
      if (transaction.zxid < std::max(harness_.snapshot_told(), own_)) continue;
      cuts.push_back(transaction.zxid);
    }
    if (cuts.empty()) return;
    const Zxid to = cuts[choice % cuts.size()];
    harness_.Append(TruncateRecord{to});
    // A new leader's transactions follow.
    harness_.AppendTransaction({state.last().epoch.Next(), 1}, "after the cut");
    harness_.Flush();
  }
  // At a transaction that is durable and still part of the history.
  void OwnSnapshot(const StoreHarness::State& state, uint32_t choice) {
    if (harness_.store().snapshot_in_progress()) return;
    std::vector<Zxid> places;
    for (const TransactionRecord& transaction : harness_.DurableState().history) {
      const bool remains = std::any_of(
          state.history.begin(), state.history.end(),
          [&](const TransactionRecord& other) { return other.zxid == transaction.zxid; });
      if (remains && transaction.zxid >= std::max(own_, harness_.snapshot_told())) {
        places.push_back(transaction.zxid);
      }
    }
    if (places.empty()) return;
    own_ = places[choice % places.size()];
    harness_.BeginSnapshot(own_);
  }
  // The leader's snapshot may be ahead of this history, or behind its end.
  void Replace(Zxid last, uint32_t a, uint32_t b) {
    Zxid zxid{last.epoch.Next(), 1 + a % 100};
    if (b % 3 == 0 && last.counter > 1) zxid = {last.epoch, last.counter - 1};
    harness_.ReceiveSnapshot(zxid);
    for (uint32_t i = 0; i < b % 5; ++i) harness_.ExecuteOne();
    harness_.Append(SnapshotRecord{zxid, true});
    harness_.Flush();
    own_ = Zxid{};
  }

  StoreHarness harness_;
  Zxid own_;  // the last own snapshot that was begun and may come to count
};

rc::Gen<Step> Steps() {
  return rc::gen::map(
      rc::gen::tuple(rc::gen::inRange<int>(0, static_cast<int>(Act::kCount)),
                     rc::gen::inRange<uint32_t>(0, 1000), rc::gen::inRange<uint32_t>(0, 1000)),
      [](const std::tuple<int, uint32_t, uint32_t>& t) {
        return Step{static_cast<Act>(std::get<0>(t)), std::get<1>(t), std::get<2>(t)};
      });
}

// For RapidCheck's counterexamples.
void showValue(const Step& step, std::ostream& out) {
  out << "{" << static_cast<int>(step.act) << ", " << step.a << ", " << step.b << "}";
}

TEST(StoreProperties, WhatARestartFindsIsADurablePrefixOfWhatWasAppended) {
  const bool holds = rc::check("a restart finds a prefix with all that was told durable", [] {
    const uint64_t segment_bytes = *rc::gen::element<uint64_t>(120, 300, 700, 3000, 100'000);
    const uint64_t retained_bytes = *rc::gen::element<uint64_t>(0, 500, 100'000);
    const uint64_t order = *rc::gen::inRange<uint64_t>(0, 1000);
    const int count = *rc::gen::inRange(5, 80);
    const std::vector<Step> steps = *rc::gen::container<std::vector<Step>>(count, Steps());

    Life life({.server = {1}, .segment_bytes = segment_bytes, .retained_bytes = retained_bytes},
              order);
    for (const Step& step : steps) life.Do(step);
    life.End();
  });
  EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace lockstep::storage
