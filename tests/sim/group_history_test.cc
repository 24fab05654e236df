#include "sim/checkers/group_history.h"

#include <gtest/gtest.h>

#include "sim/failure.h"

namespace lockstep::sim {
namespace {

const GroupHistory::Key kA{"a", 0};

std::string InvariantOf(const auto& run) {
  try {
    run();
  } catch (const Failure& failure) {
    return failure.invariant;
  }
  return "";
}

Instant At(int64_t n) { return {n}; }

TEST(GroupHistory, OnePartitionOfAGenerationHasOneOwner) {
  GroupHistory history;
  history.OnAssigned("m1", 1, {kA});
  history.OnAssigned("m1", 1, {kA});  // told again
  history.OnAssigned("m2", 2, {kA});
  EXPECT_EQ(InvariantOf([&] { history.OnAssigned("m1", 2, {kA}); }), "one-owner-per-generation");
}

TEST(GroupHistory, WhatWasCommittedIsFetched) {
  GroupHistory history;
  history.OnFetched(At(1), kA, -1);
  const uint64_t first = history.OnCommitSent(At(2), kA, 10);
  history.OnCommitted(At(3), kA, first);
  history.OnFetched(At(4), kA, 10);
  EXPECT_EQ(InvariantOf([&] { history.OnFetched(At(4), kA, -1); }), "committed-offset-never-lost");
  EXPECT_EQ(InvariantOf([&] { history.OnFetched(At(4), kA, 11); }), "committed-offset-never-lost");
}

TEST(GroupHistory, AnAcknowledgedCommitReplacesWhatWasAcknowledgedBefore) {
  GroupHistory history;
  history.OnCommitted(At(3), kA, history.OnCommitSent(At(2), kA, 10));
  history.OnCommitted(At(6), kA, history.OnCommitSent(At(5), kA, 20));
  history.OnFetched(At(7), kA, 20);
  EXPECT_EQ(InvariantOf([&] { history.OnFetched(At(7), kA, 10); }), "committed-offset-never-lost");
}

TEST(GroupHistory, ACommitInDoubtMayTakeEffectAtAnyTime) {
  GroupHistory history;
  history.OnCommitSent(At(1), kA, 5);
  history.OnFetched(At(2), kA, -1);
  history.OnFetched(At(2), kA, 5);
  history.OnCommitted(At(4), kA, history.OnCommitSent(At(3), kA, 10));
  history.OnFetched(At(5), kA, 5);
  history.OnFetched(At(5), kA, 10);
  EXPECT_EQ(InvariantOf([&] { history.OnFetched(At(5), kA, -1); }), "committed-offset-never-lost");
}

TEST(GroupHistory, NothingIsExpectedOfWhatWasForgotten) {
  GroupHistory history;
  history.OnCommitted(At(3), kA, history.OnCommitSent(At(2), kA, 10));
  history.Forget(kA);
  EXPECT_EQ(InvariantOf([&] { history.OnFetched(At(4), kA, -1); }), "");
}

}  // namespace
}  // namespace lockstep::sim
