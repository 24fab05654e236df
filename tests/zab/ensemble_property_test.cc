// Random faults on the trio: whatever happens, servers agree on what was committed, no epoch has
// two leaders, and once the faults end the ensemble goes on. Small on purpose; the simulator does
// this at length, with everything around Zab.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>

#include "tests/support/zab_trio.h"

namespace lockstep::zab {
namespace {

struct Command {
  enum class Kind {
    kPropose,
    kRun,
    kCrash,
    kStart,
    kPartition,
    kHeal,
    kHoldWrites,
    kPersistOne,
    kReleaseWrites,
    kBreakChannel,
    kCompact,
    kCount
  };
  Kind kind;
  uint32_t argument;
};

void showValue(const Command& command, std::ostream& out) {
  out << static_cast<int>(command.kind) << ":" << command.argument;
}

rc::Gen<Command> ACommand() {
  return rc::gen::map(
      rc::gen::pair(rc::gen::inRange(0, 20), rc::gen::inRange<uint32_t>(0, 1u << 16)),
      [](const std::pair<int, uint32_t>& drawn) {
        // Half of all commands let time pass or propose something.
        int kind = drawn.first;
        if (kind >= static_cast<int>(Command::Kind::kCount)) kind = kind % 2;
        return Command{static_cast<Command::Kind>(kind), drawn.second};
      });
}

void Do(ZabTrio* trio, uint32_t size, const Command& command, int* proposed) {
  uint32_t a = command.argument;
  ServerId server{a % size + 1};
  switch (command.kind) {
    case Command::Kind::kPropose:
      // On whoever thinks that it leads, and several at once.
      for (uint32_t i = 0; i <= a / size % 3; i++) {
        if (trio->Propose("t" + std::to_string(*proposed), server)) (*proposed)++;
      }
      for (uint32_t id = 1; id <= size; id++) {
        if (trio->Propose("t" + std::to_string(*proposed), {id})) (*proposed)++;
      }
      return;
    case Command::Kind::kRun: {
      // From parts of a message's way to more than every timeout.
      static constexpr int64_t kMicroseconds[] = {500,    1'000,   2'000,     3'500,     20'000,
                                                  60'000, 150'000, 1'000'000, 3'000'000, 7'000'000};
      return trio->Run(Microseconds(kMicroseconds[a % 10]));
    }
    case Command::Kind::kCrash:
      if (trio->up(server)) trio->Crash(server, a / size % 4);
      return;
    case Command::Kind::kStart:
      if (!trio->up(server)) trio->Start(server);
      return;
    case Command::Kind::kPartition: {
      std::set<ServerId> left;
      std::set<ServerId> right;
      for (uint32_t id = 1; id <= size; id++) ((a >> id & 1) != 0 ? left : right).insert({id});
      return trio->Partition({left, right});
    }
    case Command::Kind::kHeal:
      return trio->Heal(/*break_channels=*/a % 4 != 0);
    case Command::Kind::kHoldWrites:
      return trio->HoldWrites(server);
    case Command::Kind::kPersistOne:
      if (trio->up(server) && trio->writes_in_flight(server) > 0) trio->PersistHeld(server, 1);
      return;
    case Command::Kind::kReleaseWrites:
      if (trio->up(server)) trio->ReleaseWrites(server);
      return;
    case Command::Kind::kBreakChannel:
      return trio->BreakChannel(server);
    case Command::Kind::kCompact:
      if (trio->up(server) && trio->writes_in_flight(server) == 0) trio->Compact(server);
      return;
    case Command::Kind::kCount:
      break;
  }
}

void Check(const ZabTrio& trio) {
  RC_ASSERT(trio.violation() == "");
  std::map<Epoch, ServerId> leaders;
  for (const auto& happened : trio.events()) {
    if (happened.event.kind != EventKind::kEstablished) continue;
    RC_ASSERT(leaders.emplace(happened.event.zxid.epoch, happened.server).second);
  }
}

void Survives(uint32_t size, const std::vector<Command>& commands) {
  PeerOptions options = ZabTrio::TestOptions();
  options.window_transactions = 4;
  options.counter_max = 20;
  ZabTrio trio(size, options);
  trio.Run(Milliseconds(1));
  int proposed = 0;
  for (const Command& command : commands) {
    Do(&trio, size, command, &proposed);
    Check(trio);
  }

  // The faults end.
  trio.Heal();
  for (uint32_t id = 1; id <= size; id++) {
    if (!trio.up({id})) trio.Start({id});
    trio.ReleaseWrites({id});
  }
  RC_ASSERT(trio.Elect(Seconds(60)) != ServerId{});
  RC_ASSERT(trio.RunUntil([&] { return trio.Propose("last"); }, Seconds(60)));
  std::string applied;
  RC_ASSERT(trio.RunUntil(
      [&] {
        for (uint32_t id = 1; id <= size; id++) {
          if (!trio.applied({id}).ends_with("last")) return false;
        }
        return true;
      },
      Seconds(60)));
  Check(trio);
  for (uint32_t id = 1; id <= size; id++) RC_ASSERT(trio.applied({id}) == trio.applied({1}));
}

TEST(Ensemble, SurvivesWhateverHappensToThreeServers) {
  EXPECT_TRUE(
      rc::check([](void) { Survives(3, *rc::gen::container<std::vector<Command>>(ACommand())); }));
}

TEST(Ensemble, SurvivesWhateverHappensToFiveServers) {
  EXPECT_TRUE(
      rc::check([](void) { Survives(5, *rc::gen::container<std::vector<Command>>(ACommand())); }));
}

TEST(Ensemble, SurvivesWhateverHappensToTwoServersAndToOne) {
  EXPECT_TRUE(rc::check([](void) {
    std::vector<Command> commands = *rc::gen::container<std::vector<Command>>(ACommand());
    Survives(2, commands);
    Survives(1, commands);
  }));
}

}  // namespace
}  // namespace lockstep::zab
