#include "shell/log.h"

#include <algorithm>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spdlog/sinks/ostream_sink.h"

namespace lockstep::shell {
namespace {

using ::testing::MatchesRegex;

class LogTest : public testing::Test {
 protected:
  Log At(LogLevel level) {
    return Log(level, std::make_shared<spdlog::sinks::ostream_sink_mt>(lines_));
  }
  std::ostringstream lines_;
};

constexpr char kTime[] = "time=....-..-..T..:..:..[.]...Z ";

TEST_F(LogTest, LineIsLogfmt) {
  Log log = At(LogLevel::kInfo);
  log.SetServer({3});
  log.Write(LogLevel::kWarning, "accept-failed", {{"port", "client"}, {"reason", "Too \"many\""}});

  EXPECT_THAT(lines_.str(),
              MatchesRegex(std::string(kTime) + "level=warning server=3 event=accept-failed "
                                                "port=client reason=\"Too \\\\\"many\\\\\"\"\n"));
}

TEST_F(LogTest, ABrokerWithoutACoordinatorIsNoServerOfTheEnsemble) {
  Log log = At(LogLevel::kInfo);
  log.SetBroker({101});
  log.Write(LogLevel::kInfo, "x", {});

  EXPECT_THAT(lines_.str(), MatchesRegex(std::string(kTime) + "level=info broker=101 event=x\n"));
}

TEST_F(LogTest, EmptyValueAndLineEndAreQuoted) {
  Log log = At(LogLevel::kInfo);
  log.Write(LogLevel::kInfo, "x", {{"a", ""}, {"b", "1\n2"}});

  EXPECT_THAT(lines_.str(),
              MatchesRegex(std::string(kTime) + "level=info event=x a=\"\" b=\"1\\\\n2\"\n"));
}

TEST_F(LogTest, EventOfTheMachineShowsWhatItHas) {
  Log log = At(LogLevel::kInfo);
  log.Write(Event{.kind = EventKind::kSyncDiff,
                  .peer = {2},
                  .zxid = {{3}, 7},
                  .detail = 12,
                  .reason = "behind"});

  EXPECT_THAT(lines_.str(), MatchesRegex(std::string(kTime) +
                                         "level=info event=sync-diff peer=2 "
                                         "zxid=0x300000007 transactions=12 reason=behind\n"));
}

TEST_F(LogTest, EventOfAPartitionNamesIt) {
  Log log = At(LogLevel::kInfo);
  log.Write(Event{.kind = EventKind::kElected, .detail = 4, .text = "orders-7"});
  log.Write(Event{.kind = EventKind::kReplicaOpened, .detail = 7, .text = "orders-7"});

  EXPECT_THAT(lines_.str(),
              MatchesRegex(std::string(kTime) +
                           "level=info event=elected epoch=4 "
                           "partition=orders-7\n" +
                           kTime + "level=info event=replica-opened partition=orders-7\n"));
}

TEST_F(LogTest, WhatHappensWithEveryRequestNeedsDebug) {
  Log info = At(LogLevel::kInfo);
  info.Write(Event{.kind = EventKind::kSyncCompleted, .detail = 4});
  info.Write(Event{.kind = EventKind::kIgnored, .reason = "stale epoch"});
  EXPECT_EQ(lines_.str(), "");

  Log debug = At(LogLevel::kDebug);
  debug.Write(Event{.kind = EventKind::kSyncCompleted, .detail = 4});
  EXPECT_THAT(lines_.str(),
              MatchesRegex(std::string(kTime) + "level=debug event=sync-completed records=4\n"));
}

TEST_F(LogTest, EveryKindOfEventHasAStyle) {
  Log log = At(LogLevel::kDebug);
  const int kinds = static_cast<int>(EventKind::kCount);
  for (int kind = 0; kind < kinds; ++kind) log.Write(Event{.kind = static_cast<EventKind>(kind)});

  const std::string lines = lines_.str();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), kinds);
}

// Who is refused tries again at once, and others may have a reason of their own.
TEST_F(LogTest, RefusalsAreToldNowAndThen) {
  Log log = At(LogLevel::kInfo);
  constexpr int kRefused = 1000;
  for (int i = 0; i < kRefused; ++i) {
    log.Write(Event{.kind = EventKind::kConnectionRefused, .reason = "full", .text = "127.0.0.1"});
  }
  log.Write(Event{.kind = EventKind::kConnectionRefused, .reason = "other"});

  const std::string lines = lines_.str();
  EXPECT_LT(std::count(lines.begin(), lines.end(), '\n'), kRefused / 10);
  EXPECT_THAT(lines, ::testing::HasSubstr("event=connection-refused reason=full text=127.0.0.1"));
  EXPECT_THAT(lines, ::testing::HasSubstr("event=connection-refused reason=other"));
}

}  // namespace
}  // namespace lockstep::shell
