#include "sim/network.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace lockstep::sim {
namespace {

using server::LinkKind;

// Nodes 0 and 1 listen; node 2 is a client.
class NetworkTest : public testing::Test {
 protected:
  void Make(uint64_t seed, uint32_t cut_percent = 0) {
    NetworkPlan plan;
    plan.latency_min = Microseconds(100);
    plan.latency_jitter = Microseconds(300);
    plan.cut_percent = cut_percent;
    plan.gives_up_after = Seconds(5);
    plan.dial_timeout = Seconds(1);
    plan.retransmit_max = Milliseconds(50);
    network_.emplace(plan, seed, 2, 3, &queue_);
  }
  // Runs until nothing happens any more, or until `until`.
  void Run(Instant until = Instant::Never()) {
    while (!queue_.empty()) {
      if (now_ > until) return;
      const Due due = queue_.Pop();
      now_ = due.at;
      std::vector<Delivery> out;
      switch (due.task.kind) {
        case TaskKind::kArrive:
          network_->OnArrive(now_, due.task, &out);
          break;
        case TaskKind::kNetTimeout:
          network_->OnNetTimeout(now_, due.task, &out);
          break;
        case TaskKind::kDialTimeout:
          network_->OnDialTimeout(now_, due.task, &out);
          break;
        case TaskKind::kWritten:
          network_->OnWritten(due.task.who, &out);
          break;
        default:
          FAIL();
      }
      for (Delivery& d : out) {
        if (d.kind == Delivery::Kind::kAccepted) accepted_ = d.connection;
        if (d.kind == Delivery::Kind::kBytes) bytes_[d.node] += d.data.view();
        if (d.kind == Delivery::Kind::kConnected) connected_ = true;
        if (d.kind == Delivery::Kind::kClosed) closed_[d.node] = true;
        if (d.kind == Delivery::Kind::kWritten) written_[d.node] += d.written;
      }
    }
  }
  void Connect(LinkKind link = LinkKind::kLearner) {
    network_->Dial(now_, 0, kId, link, 1);
    Run();
    ASSERT_TRUE(connected_);
  }
  void Send(uint32_t node, std::string text) {
    network_->Send(now_, node, node == 0 ? kId : accepted_, Bytes::Copy(text));
  }

  static constexpr ConnectionId kId{7};
  EventQueue queue_;
  std::optional<Network> network_;
  Instant now_;
  ConnectionId accepted_;
  bool connected_ = false;
  std::string bytes_[3];
  bool closed_[3] = {};
  uint64_t written_[3] = {};
};

TEST_F(NetworkTest, BytesArriveInOrderBothWays) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SetUp();
    queue_ = EventQueue();
    bytes_[0] = bytes_[1] = "";
    connected_ = false;
    Make(seed, seed % 2 == 0 ? 70 : 0);
    Connect();
    std::string expected;
    for (int i = 0; i < 50; ++i) {
      const std::string piece = "piece " + std::to_string(i) + ";";
      Send(0, piece);
      Send(1, piece);
      expected += piece;
    }
    Run();
    EXPECT_EQ(bytes_[0], expected);
    EXPECT_EQ(bytes_[1], expected);
  }
}

TEST_F(NetworkTest, ReplicationIsHeldBackInOneDirectionAndNothingElseIs) {
  Make(1);
  Connect(LinkKind::kBroker);
  network_->SetReplicationBlocked(now_, 0, 1, true);
  Send(0, "held");
  Send(1, "back");
  Run(now_ + Microseconds(50));  // one arrival: the next event would be that the sender gives up
  EXPECT_EQ(bytes_[1], "");
  EXPECT_EQ(bytes_[0], "back");
  EXPECT_FALSE(network_->blocked(0, 1));
  network_->SetReplicationBlocked(now_, 0, 1, false);
  Run();
  EXPECT_EQ(bytes_[1], "held");
}

TEST_F(NetworkTest, ABrokersClientIsNotHeldBackWithReplication) {
  Make(1);
  for (uint32_t from : {0u, 1u}) network_->SetReplicationBlocked(now_, from, 1 - from, true);
  network_->Dial(now_, 2, kId, LinkKind::kBroker, 1);
  Run();
  EXPECT_TRUE(connected_);
}

TEST_F(NetworkTest, CoordinationIsLateInTheDirectionThatIsSlow) {
  Make(1);
  Connect(LinkKind::kCoordination);
  network_->SetCoordinationLatency(0, Seconds(1), {});
  const Instant sent = now_;
  Send(0, "late");
  Send(1, "soon");
  Run(sent + Milliseconds(500));
  EXPECT_EQ(bytes_[0], "soon");
  EXPECT_GE(now_, sent + Seconds(1));
  EXPECT_EQ(bytes_[1], "late");
}

TEST_F(NetworkTest, WhatArrivedCountsAsWritten) {
  Make(1);
  Connect();
  Send(0, "12345");
  Run();
  EXPECT_EQ(written_[0], 5u);
}

TEST_F(NetworkTest, AProcessThatIsDownRefuses) {
  Make(1);
  network_->SetNodeState(now_, 1, Network::NodeState::kRefusing);
  network_->Dial(now_, 0, kId, LinkKind::kLearner, 1);
  Run();
  EXPECT_TRUE(closed_[0]);
  EXPECT_FALSE(connected_);
  EXPECT_EQ(network_->open_connections(), 0u);
}

TEST_F(NetworkTest, AMachineWithoutPowerDoesNotAnswer) {
  Make(1);
  network_->SetNodeState(now_, 1, Network::NodeState::kOff);
  network_->Dial(now_, 0, kId, LinkKind::kLearner, 1);
  Run();
  EXPECT_TRUE(closed_[0]);
  EXPECT_GE(now_, Instant{} + Seconds(1));
}

TEST_F(NetworkTest, AfterACloseTheOtherSideGetsEverythingAndThenTheEnd) {
  Make(1);
  Connect();
  Send(0, "last words");
  network_->Close(now_, 0, kId);
  Run();
  EXPECT_EQ(bytes_[1], "last words");
  EXPECT_TRUE(closed_[1]);
  EXPECT_FALSE(closed_[0]);
  EXPECT_EQ(network_->open_connections(), 0u);
}

TEST_F(NetworkTest, APartitionHoldsBytesBackUntilItHeals) {
  Make(1);
  Connect();
  network_->SetBlocked(now_, 0, 1, true);
  Send(0, "held");
  Send(1, "through");
  Run(now_ + Seconds(1));
  EXPECT_EQ(bytes_[1], "");
  EXPECT_EQ(bytes_[0], "through");
}

TEST_F(NetworkTest, WhatWasHeldBackArrivesAfterTheHealing) {
  Make(1);
  Connect();
  network_->SetBlocked(now_, 0, 1, true);
  Send(0, "held");
  network_->SetBlocked(now_, 0, 1, false);
  Run();
  EXPECT_EQ(bytes_[1], "held");
  EXPECT_FALSE(closed_[0]);
}

TEST_F(NetworkTest, ASenderGivesUpAndTheOtherSideDoesNotKnow) {
  Make(1);
  Connect();
  network_->SetBlocked(now_, 0, 1, true);
  Send(0, "held");
  Run();
  EXPECT_TRUE(closed_[0]);
  EXPECT_FALSE(closed_[1]);
  // Half open: only its own bytes tell the other side.
  network_->HealAll(now_);
  Run();
  EXPECT_FALSE(closed_[1]);
  Send(1, "anybody there?");
  Run();
  EXPECT_TRUE(closed_[1]);
  EXPECT_EQ(bytes_[0], "");
}

TEST_F(NetworkTest, APowerLossLeavesTheOtherSideHalfOpen) {
  Make(1);
  Connect();
  network_->SetNodeState(now_, 1, Network::NodeState::kOff);
  network_->PowerOff(now_, 1);
  Run();
  EXPECT_FALSE(closed_[0]);
  Send(0, "hello?");
  network_->SetNodeState(now_, 1, Network::NodeState::kUp);
  Run();
  EXPECT_TRUE(closed_[0]);
}

TEST_F(NetworkTest, ADeadProcessClosesItsConnections) {
  Make(1);
  Connect();
  network_->SetNodeState(now_, 1, Network::NodeState::kRefusing);
  network_->KillProcess(now_, 1);
  Run();
  EXPECT_TRUE(closed_[0]);
  EXPECT_FALSE(closed_[1]);
}

TEST_F(NetworkTest, AReaderThatPausesGetsNothingUntilItResumes) {
  Make(1);
  Connect();
  network_->PauseReading(1, accepted_);
  Send(0, "later");
  Run();
  EXPECT_EQ(bytes_[1], "");
  network_->ResumeReading(now_, 1, accepted_);
  Run();
  EXPECT_EQ(bytes_[1], "later");
}

TEST_F(NetworkTest, WhatHasArrivedWaitsForNoRetransmissionWhenTheReaderResumes) {
  Make(1);
  Connect();
  network_->PauseReading(1, accepted_);
  Send(0, "later");
  Run();
  const Instant before = now_;
  network_->ResumeReading(now_, 1, accepted_);
  while (bytes_[1].empty()) Run(now_);
  EXPECT_LT(now_ - before, Microseconds(500));
}

TEST_F(NetworkTest, AResetReachesBothSides) {
  Make(1);
  Connect();
  RandomStream random(1, {}, 0, 0);
  const auto name = network_->NameOne(random);
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(*name, (ConnectionName{LinkKind::kLearner, 0, 1, 0, 0}));

  EXPECT_TRUE(network_->ResetNamed(now_, *name));
  Run();
  EXPECT_TRUE(closed_[0]);
  EXPECT_TRUE(closed_[1]);
  EXPECT_EQ(network_->open_connections(), 0u);
}

}  // namespace
}  // namespace lockstep::sim
