// Each invariant of one peer can fail: a state that breaks it, and only it, trips the check.
#include "core/zab/invariants.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "tests/support/zab_trio.h"

namespace lockstep::zab {
namespace {

class InvariantsDeathTest : public ::testing::Test {
 protected:
  InvariantsDeathTest() : own_(Options(), Disk()), before_(own_) {}

  static PeerOptions Options() {
    PeerOptions options = ZabTrio::TestOptions();
    options.server = {1};
    options.voters = {{1}};
    return options;
  }
  static DurableState Disk() {
    return {.accepted_epoch = {2},
            .current_epoch = {2},
            .base = Z(1, 1),
            .snapshot = Z(1, 1),
            .transactions = Transactions("1.2 2.1")};
  }

  OwnState own_;
  Watched before_;
  Output output_;
};

TEST_F(InvariantsDeathTest, HoldAtTheStart) {
  CheckState(own_);
  CheckStep(before_, own_);
}

TEST_F(InvariantsDeathTest, Z1CurrentEpochIsPromised) {
  own_.current_epoch = {3};
  EXPECT_DEATH(CheckState(own_), "own.current_epoch <= own.accepted_epoch");
}

TEST_F(InvariantsDeathTest, Z2TransactionsAreOfPromisedEpochs) {
  own_.Append({Z(3, 1), {}}, &output_);
  EXPECT_DEATH(CheckState(own_), "own.history.last\\(\\).epoch <= own.accepted_epoch");
}

TEST_F(InvariantsDeathTest, Z3WhatIsForgottenWasDelivered) {
  own_.history.Trim(Z(1, 2), 0, 0);
  EXPECT_DEATH(CheckState(own_), "own.history.base\\(\\) <= own.delivered");
}

TEST_F(InvariantsDeathTest, Z3WhatIsDeliveredIsInTheHistory) {
  own_.committed = Z(2, 2);
  own_.delivered = Z(2, 2);
  EXPECT_DEATH(CheckState(own_), "own.delivered <= own.history.last\\(\\)");
}

TEST_F(InvariantsDeathTest, Z4WhatIsDeliveredIsCommitted) {
  own_.delivered = Z(1, 2);
  EXPECT_DEATH(CheckState(own_), "own.delivered <= own.committed");
}

TEST_F(InvariantsDeathTest, Z4WhatIsDeliveredIsDurableHere) {
  own_.Append({Z(2, 2), {}}, &output_);
  own_.committed = Z(2, 2);
  own_.delivered = Z(2, 2);
  EXPECT_DEATH(CheckState(own_), "own.delivered <= own.history.durable\\(\\)");
}

TEST_F(InvariantsDeathTest, Z5NothingIsDurableThatWasNotWritten) {
  own_.last_persisted = {1};
  EXPECT_DEATH(CheckState(own_), "own.last_persisted <= own.last_write");
}

TEST_F(InvariantsDeathTest, Z6NothingGoesBack) {
  OwnState later(Options(), Disk());
  later.Append({Z(2, 2), {}}, &output_);
  later.OnPersisted({1}, &output_);
  later.Commit(Z(2, 2));
  later.DeliverCommitted(&output_);
  later.accepted_epoch = {3};
  CheckStep(before_, later);

  struct Case {
    std::function<void(Watched*)> advance;
    const char* check;
  };
  const std::vector<Case> cases = {
      {[](Watched* w) { w->accepted_epoch = {9}; }, "before.accepted_epoch <= own.accepted_epoch"},
      {[](Watched* w) { w->current_epoch = {9}; }, "before.current_epoch <= own.current_epoch"},
      {[](Watched* w) { w->committed = Z(9, 9); }, "before.committed <= own.committed"},
      {[](Watched* w) { w->delivered = Z(9, 9); }, "before.delivered <= own.delivered"},
      {[](Watched* w) { w->last_write = {9}; }, "before.last_write <= own.last_write"},
      {[](Watched* w) { w->last_persisted = {9}; }, "before.last_persisted <= own.last_persisted"},
  };
  for (const Case& c : cases) {
    Watched ahead(later);
    c.advance(&ahead);
    EXPECT_DEATH(CheckStep(ahead, later), c.check);
  }
}

}  // namespace
}  // namespace lockstep::zab
