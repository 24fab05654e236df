// One replica of one partition, alone: the test is its coordination service, its disk and the other
// brokers. Broker 1 is the replica's; broker n is registered as incarnation 100 + n.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/replication/partition.h"
#include "tests/support/partition_ensemble.h"

namespace lockstep::replication {

inline constexpr Duration kKeepInSync = Milliseconds(300);

inline BrokerEpoch IncarnationOf(int32_t broker) { return {100 + broker}; }
inline IsrMember Member(int32_t broker) { return {{broker}, IncarnationOf(broker)}; }
inline std::vector<IsrMember> Members(const std::vector<int32_t>& brokers) {
  std::vector<IsrMember> members;
  for (int32_t broker : brokers) members.push_back(Member(broker));
  return members;
}

// A log of one batch of one record per entry: of these epochs, from offset 0.
inline FakeLog LogOf(const std::vector<int32_t>& epochs) {
  FakeLog log;
  for (int32_t epoch : epochs) {
    log.Apply(storage::LogAppend{
        .batches = {MakeBatch(log.end, {epoch}, 1, static_cast<uint64_t>(100 + log.end))},
        .base_offset = log.end,
        .end_offset = log.end + 1});
  }
  return log;
}

// What was said of a produce: (its id, the error, its offset).
struct Said {
  uint64_t id = 0;
  ProduceError error = ProduceError::kNone;
  Offset base = -1;
  bool operator==(const Said&) const = default;
  friend void PrintTo(const Said& said, std::ostream* to) {
    *to << "produce " << said.id << " error " << static_cast<int>(said.error) << " base "
        << said.base;
  }
};

class Solo {
 public:
  struct Setup {
    std::vector<BrokerId> replicas = {{1}, {2}, {3}};
    std::vector<IsrMember> isr = Members({1, 2, 3});
    uint32_t min_insync = 1;
    uint32_t pending_produces_max = 10'000;
    Rules rules;
    FakeLog log;
    Offset high_watermark = 0;
  };

  Solo() : Solo(Setup()) {}
  explicit Solo(const Setup& setup)
      : log(setup.log),
        state{.id = {.topic = {.high = 1, .low = 2}, .partition = 0},
              .topic = "t",
              .replicas = setup.replicas,
              .replicas_version = 5,
              .isr = setup.isr,
              .isr_version = 10},
        partition({.broker = {1},
                   .keep_in_sync_time = kKeepInSync,
                   .min_insync_replicas = setup.min_insync,
                   .pending_produces_max = setup.pending_produces_max,
                   .rules = setup.rules},
                  state, setup.log.Recovered(setup.high_watermark)) {}

  // ---- The coordination service.
  void Lead(int32_t epoch) {
    state.leader = BrokerId{1};
    state.leader_epoch = {epoch};
    Step([&] { partition.BecomeLeader(now, state, IncarnationOf(1), &out); });
  }
  void Follow(int32_t leader, int32_t epoch) {
    state.leader = BrokerId{leader};
    state.leader_epoch = {epoch};
    Step([&] { partition.BecomeFollower(now, state, &out); });
  }
  void Resign() {
    Step([&] { partition.Resign(now, &out); });
  }
  void Update() {
    Step([&] { partition.Update(now, state, &out); });
  }
  // The ISR as another writer, or a change of ours whose outcome was lost, has made it.
  void UpdateIsr(const std::vector<IsrMember>& isr) {
    state.isr = isr;
    ++state.isr_version;
    Update();
  }
  void SetLogStart(Offset start) {
    Step([&] { partition.SetLogStart(now, start, &out); });
  }
  void IsrOutcome(Partition::Outcome outcome) {
    const bool applied = outcome == Partition::Outcome::kApplied;
    if (applied) state.isr_version = partition.state().isr_version + 1;
    Step([&] {
      partition.OnIsrChange(now, state.leader_epoch, outcome, applied ? state.isr_version : 0,
                            &out);
    });
    if (applied) state.isr = partition.state().isr;
  }

  // ---- The disk.
  void PersistOne() {
    ASSERT_FALSE(pending.empty());
    pending.pop_front();
    Step([&] { partition.OnPersisted(now, &out); });
  }
  // All that was not durable is. What comes out of it is kept together.
  void Persist() {
    PartitionOutput all;
    while (!pending.empty()) {
      PersistOne();
      Merge(&all);
    }
    out = std::move(all);
  }

  // ---- Clients. Returns the id.
  uint64_t Produce(Acks acks, int32_t records = 1, Duration timeout = Seconds(10)) {
    const uint64_t id = ++produces;
    Step([&] {
      appended = partition.Produce(
          now, {id}, acks, now + timeout,
          {MakeBatch(partition.log_end(), partition.leader_epoch(), records, id)}, records, &out);
    });
    return id;
  }

  // ---- Followers of this leader. The fetch of one that has what the leader has up to `offset`.
  ReplicaFetchRequest::Entry FetchAt(Offset offset) const {
    const FakeLog::Batch* last = log.At(offset - 1);
    return {.partition = state.id,
            .leader_epoch = state.leader_epoch,
            .fetch_offset = offset,
            .last_fetched_epoch = {last != nullptr ? last->epoch : -1},
            .log_start = 0,
            .high_watermark = partition.high_watermark(),
            .replicas_version = state.replicas_version};
  }
  Partition::FetchDecision Fetch(int32_t follower, const ReplicaFetchRequest::Entry& entry,
                                 bool registered = true) {
    return FetchAs(follower, IncarnationOf(follower), entry, registered);
  }
  Partition::FetchDecision FetchAs(int32_t follower, BrokerEpoch incarnation,
                                   const ReplicaFetchRequest::Entry& entry,
                                   bool registered = true) {
    Partition::FetchDecision decision;
    Step([&] {
      decision = partition.OnFetch(now, {follower}, incarnation, registered, entry, &out);
    });
    return decision;
  }
  // It fetches and is answered at once.
  void Fetch(int32_t follower, Offset offset) {
    Fetch(follower, FetchAt(offset));
    partition.OnFetchAnswered(now, {follower});
  }

  // ---- The leader of this follower. An answer to what it asks for now, without data.
  ReplicaFetchResponse::Entry Answer() const {
    const auto fetch = partition.NextFetch();
    EXPECT_TRUE(fetch.has_value());
    if (!fetch) return {};
    return {.partition = state.id,
            .leader_epoch = state.leader_epoch,
            .fetch_offset = fetch->fetch_offset,
            .last_fetched_epoch = fetch->last_fetched_epoch,
            .high_watermark = partition.high_watermark()};
  }
  // ... with what `leader` has from the follower's end on.
  ReplicaFetchResponse::Entry AnswerFrom(const FakeLog& leader, Offset high_watermark = 0) const {
    ReplicaFetchResponse::Entry answer = Answer();
    answer.batches = leader.Read(answer.fetch_offset, 100);
    answer.log_start = leader.start;
    answer.high_watermark = high_watermark;
    return answer;
  }
  void Receive(const ReplicaFetchResponse::Entry& answer) {
    Receive(state.leader.value_or(BrokerId{}).value, answer);
  }
  void Receive(int32_t leader, const ReplicaFetchResponse::Entry& answer) {
    Step([&] { partition.OnFetchResponse(now, {leader}, answer, &out); });
  }

  // ---- Time.
  void Pass(Duration duration) {
    now = now + duration;
    Step([&] { partition.OnWake(now, &out); });
  }

  // ---- What came out of the last step.
  std::vector<Said> said() const {
    std::vector<Said> all;
    for (const auto& done : out.produces_done) {
      all.push_back({done.id.value, done.error, done.base_offset});
    }
    return all;
  }
  // The reason of the first event of this kind; "none" without one.
  std::string Saw(EventKind kind) const {
    const auto found = std::find_if(out.events.begin(), out.events.end(),
                                    [&](const Event& event) { return event.kind == kind; });
    return found == out.events.end() ? "none" : found->reason;
  }
  std::vector<IsrMember> wanted_isr() const {
    return out.isr_change ? out.isr_change->isr : std::vector<IsrMember>();
  }

  // The log as the store would hold it, and what of it is not durable.
  FakeLog log;
  std::deque<storage::LogChange> pending;
  PartitionState state;
  Partition partition;
  PartitionOutput out;
  Instant now = Instant{} + Seconds(100);
  uint64_t produces = 0;
  bool appended = false;  // what the last Produce returned

 private:
  template <typename F>
  void Step(F step) {
    out.Clear();
    step();
    for (const storage::LogChange& change : out.changes) {
      log.Apply(change);
      pending.push_back(change);
    }
    EXPECT_EQ(partition.log_end(), log.end);
    EXPECT_EQ(partition.log_start(), log.start);
    EXPECT_EQ(partition.epochs(), log.epochs);
  }
  void Merge(PartitionOutput* all) {
    for (auto& done : out.produces_done) all->produces_done.push_back(done);
    for (auto& event : out.events) all->events.push_back(event);
    if (out.isr_change) all->isr_change = out.isr_change;
    all->high_watermark_moved |= out.high_watermark_moved;
    all->fetch_now |= out.fetch_now;
  }
};

}  // namespace lockstep::replication
