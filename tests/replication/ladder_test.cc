// The third rung of the ladder as a schedule: followers compare histories by leader epochs and get
// the right answer (KIP-101, KIP-279), but a leader counts the fetches of any epoch, as before
// KIP-320. In Kafka's specification: Kip279, which breaks StrongIsr. (KIP-320's first try, which
// looked epochs up by a request of its own at a leader of any epoch, cannot be said here: where
// histories part is the answer to the fetch itself.)
//
// A random run hardly ever finds this one: a follower has to miss an epoch, be counted in the next,
// and then hear of the one it missed.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/partition_ensemble.h"

namespace lockstep::replication {
namespace {

// Nothing happens by itself: messages that a test does not ask for are lost.
class Schedule : public PartitionEnsemble {
 public:
  explicit Schedule(const Rules& rules) : PartitionEnsemble(1, {.rules = rules}) {
    min_insync_ = 1;
    slow_ = 0;
    registry_ = {};
    registry_.state.id = {.topic = {.high = 1, .low = 2}, .partition = 0};
    registry_.state.leader_epoch = {-1};
    nodes_.clear();
    nodes_.resize(3);
    for (int32_t id = 1; id <= 3; ++id) {
      Node& broker = node({id});
      broker.id = {id};
      broker.up = true;
      broker.incarnation = {100 + id};
      registry_.registered[broker.id] = broker.incarnation;
      registry_.state.replicas.push_back(broker.id);
      registry_.state.isr.push_back({broker.id, broker.incarnation});
    }
    registry_.last_czxid = 200;
  }

  // What the registry holds at this time.
  Registry Elect(int32_t leader) {
    registry_.state.leader = BrokerId{leader};
    registry_.leader_incarnation = node({leader}).incarnation;
    ++registry_.state.leader_epoch.value;
    ++registry_.revision;
    return registry_;
  }
  void Hear(int32_t broker, const Registry& view) {
    Step([&] { See(&node({broker}), view); });
    Settle(broker);
  }
  void Append(int32_t leader) {
    Step([&] { Produce(&node({leader}), Acks::kAll); });
    Settle(leader);
  }
  // One fetch of this follower's, its answer, and what it writes.
  void Fetch(int32_t follower) {
    messages_.clear();
    Step([&] { SendFetch(&node({follower})); });
    ASSERT_EQ(messages_.size(), 1u);
    Step([&] { Deliver(0); });
    for (size_t i = 0; i < messages_.size(); ++i) {
      if (messages_[i].kind != Message::Kind::kAnswer) continue;
      Step([&] { Deliver(i); });
      break;
    }
    Settle(follower);
  }
  // The leader gives up whom it has not heard from, and that is written.
  void Expel(int32_t leader) {
    now_ = now_ + Milliseconds(301);
    messages_.clear();
    Step([&] { Wake(&node({leader})); });
    ASSERT_EQ(messages_.size(), 1u);
    ASSERT_EQ(messages_[0].kind, Message::Kind::kIsrChange);
    Step([&] { Deliver(0); });
    for (size_t i = 0; i < messages_.size(); ++i) {
      if (messages_[i].kind != Message::Kind::kIsrOutcome) continue;
      Step([&] { Deliver(i); });
      break;
    }
  }
  void ComeIntoOrder() {
    messages_.clear();
    if (violation_.empty()) Heal();
  }

  const Partition& partition(int32_t broker) { return *node({broker}).partition; }
  size_t isr_size() const { return registry_.state.isr.size(); }

 private:
  void Settle(int32_t broker) {
    while (!node({broker}).pending.empty()) {
      Step([&] { Persist(&node({broker})); });
    }
  }
};

// Three brokers with one record each has, which is committed.
class Rung3 : public ::testing::TestWithParam<bool> {
 protected:
  static Rules RulesOf(bool fence) {
    Rules rules;
    rules.fence_fetches_by_leader_epoch = fence;
    return rules;
  }
  Rung3() : run_(RulesOf(GetParam())) {
    const auto first = run_.Elect(1);
    for (int32_t broker = 1; broker <= 3; ++broker) run_.Hear(broker, first);
    run_.Append(1);
    for (int round = 0; round < 3; ++round) {
      run_.Fetch(2);
      run_.Fetch(3);
    }
    EXPECT_EQ(run_.partition(1).high_watermark(), run_.partition(1).log_end());
    EXPECT_EQ(run_.partition(3).log_end(), run_.partition(1).log_end());
    EXPECT_EQ(run_.violation(), "");
  }
  Schedule run_;
};

TEST_P(Rung3, AFollowerThatMissedAnEpochIsCountedInTheNextAndThenFollowsTheZombieBetween) {
  const bool fence = GetParam();
  const Offset common = run_.partition(1).log_end();
  // Epoch 0: broker 3 has what broker 2 has not.
  run_.Append(1);
  run_.Fetch(3);
  const Offset end = run_.partition(3).log_end();
  ASSERT_GT(end, common);
  ASSERT_EQ(run_.partition(2).log_end(), common);
  // Epoch 1: broker 2 leads. Only it hears of that.
  const auto missed = run_.Elect(2);
  run_.Hear(2, missed);
  // Epoch 2: broker 1 leads again. Broker 2 does not hear of that: it is a zombie.
  run_.Hear(1, run_.Elect(1));
  // Broker 3 is still in epoch 0. What it has is what broker 1 has.
  run_.Fetch(3);
  run_.Expel(1);
  EXPECT_EQ(run_.isr_size(), fence ? 1u : 2u);  // whoever was heard from stays
  EXPECT_EQ(run_.partition(1).high_watermark(), end);
  ASSERT_EQ(run_.violation(), "");
  // It hears of epoch 1, and that its history parts from the zombie's. It cuts what broker 1 has
  // committed because of it.
  run_.Hear(3, missed);
  run_.Fetch(3);
  EXPECT_EQ(run_.partition(3).log_end(), common);
  if (fence) {
    // It was not counted. When it hears of epoch 2 it gets everything.
    EXPECT_EQ(run_.violation(), "");
    run_.ComeIntoOrder();
    EXPECT_EQ(run_.violation(), "");
  } else {
    EXPECT_EQ(run_.violation(), "electable-has-committed: broker 3 at " + std::to_string(common));
  }
}

INSTANTIATE_TEST_SUITE_P(Ladder, Rung3, ::testing::Bool(), [](const auto& info) {
  return info.param ? std::string("Fenced") : std::string("Unfenced");
});

}  // namespace
}  // namespace lockstep::replication
