#include "sim/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "sim/json_text.h"
#include "sim/run.h"
#include "sim/trace_bands.h"
#include "sim/trace_formats.h"
#include "sim/trace_names.h"
#include "sim/trace_story.h"

namespace lockstep::sim {
namespace {

RunOptions Seed(uint64_t seed, const char* scenario = "swarm") {
  InstallCheckHook();
  RunOptions options;
  options.seed = seed;
  options.scenario = FindScenario(scenario);
  return options;
}

struct Written {
  std::string text;
  RunResult result;
};

Written Write(const char* format, RunOptions options) {
  Written written;
  const TraceHead head{options.seed, options.scenario->name, {}, "again"};
  const std::unique_ptr<TraceWriter> writer =
      MakeTraceWriter(format, head, [&](std::string_view text) { written.text.append(text); });
  TraceStory story(writer.get());
  options.observer = &story;
  written.result = RunSeed(options);
  writer->Finish(written.result);
  return written;
}

// The value of a key in a line of JSON; "" if it has none.
std::string Value(const std::string& line, const std::string& key) {
  const std::string start = "\"" + key + "\":";
  size_t at = line.find(start);
  if (at == std::string::npos) return "";
  at += start.size();
  if (line[at] == '"') return line.substr(at + 1, line.find('"', at + 1) - at - 1);
  return line.substr(at, line.find_first_of(",}", at) - at);
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// These names are a contract with whoever reads traces: none may be changed.
TEST(TraceNames, AreStable) {
  const std::vector<std::string> names = {
      "FLEReceiveNotmsg",
      "LeaderTimeout",
      "FollowerTimeout",
      "LeaderProcessFOLLOWERINFO",
      "FollowerProcessLEADERINFO",
      "LeaderProcessACKEPOCH",
      "LeaderSyncFollower",
      "FollowerProcessSyncMessage",
      "FollowerProcessPROPOSALInSync",
      "FollowerProcessCOMMITInSync",
      "FollowerProcessNEWLEADER",
      "LeaderProcessACKLD",
      "FollowerProcessUPTODATE",
      "LeaderProcessRequest",
      "FollowerProcessPROPOSAL",
      "LeaderProcessACK",
      "FollowerProcessCOMMIT",
      "NodeCrash",
      "NodeStart",
      "PartitionStart",
      "PartitionRecover",
      "ControllerElectLeader",
      "BecomeLeader",
      "BecomeFollower",
      "LeaderShrinkIsr",
      "LeaderExpandIsr",
      "FollowerReplicate",
  };
  std::vector<std::string> now;
  for (const ActionInfo& action : AllActions()) now.emplace_back(action.name);
  EXPECT_EQ(now, names);
}

TEST(TraceNames, StandInTheDocumentation) {
  std::ifstream file(LOCKSTEP_DOCS "/simulator.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (const ActionInfo& action : AllActions()) {
    EXPECT_NE(text.find("`" + std::string(action.name) + "`"), std::string::npos) << action.name;
  }
}

TEST(TraceNames, EachIsThatOfSomethingThatHappens) {
  std::set<std::string> seen;
  for (const auto& [scenario, last] : {std::pair("swarm", 25), std::pair("brokers", 6)}) {
    for (int seed = 1; seed <= last; ++seed) {
      for (const std::string& line : Lines(Write("ndjson", Seed(seed, scenario)).text)) {
        seen.insert(Value(line, "name"));
      }
    }
  }
  for (const ActionInfo& action : AllActions()) {
    EXPECT_TRUE(seen.contains(std::string(action.name))) << action.name;
  }
}

TEST(Trace, NoFormatChangesTheRun) {
  for (const char* scenario : {"swarm", "brokers"}) {
    const uint64_t hash = RunSeed(Seed(3, scenario)).hash;
    for (const char* format : {"ndjson", "perfetto", "html"}) {
      EXPECT_EQ(Write(format, Seed(3, scenario)).result.hash, hash) << format;
    }
  }
}

TEST(Trace, ARunWritesTheSameTraceAgain) {
  for (const char* format : {"ndjson", "perfetto", "html"}) {
    EXPECT_EQ(Write(format, Seed(5)).text, Write(format, Seed(5)).text) << format;
  }
}

TEST(NdjsonTrace, TimeNeverGoesBackAndLinesAreNumbered) {
  const std::vector<std::string> lines = Lines(Write("ndjson", Seed(2)).text);
  ASSERT_GT(lines.size(), 100u);
  int64_t time = 0;
  for (size_t i = 1; i < lines.size(); ++i) {
    EXPECT_EQ(Value(lines[i], "seq"), std::to_string(i));
    const int64_t now = std::stoll(Value(lines[i], "time_ns"));
    EXPECT_GE(now, time);
    time = now;
  }
}

TEST(NdjsonTrace, WhatArrivesWasSentOnceAndBefore) {
  for (const char* scenario : {"swarm", "brokers"}) {
    struct Sending {
      std::string from, to, message;
      int64_t at = 0;
    };
    std::map<std::string, Sending> sent;
    size_t arrived = 0;
    for (const std::string& line : Lines(Write("ndjson", Seed(4, scenario)).text)) {
      const std::string kind = Value(line, "kind");
      if (kind != "send" && kind != "receive") continue;
      const std::string id = Value(line, "id");
      if (kind == "send") {
        EXPECT_FALSE(sent.contains(id)) << line;
        sent[id] = {Value(line, "from"), Value(line, "to"), Value(line, "message"),
                    std::stoll(Value(line, "time_ns"))};
        continue;
      }
      ASSERT_TRUE(sent.contains(id)) << line;
      EXPECT_EQ(Value(line, "from"), sent[id].from);
      EXPECT_EQ(Value(line, "to"), sent[id].to);
      EXPECT_EQ(Value(line, "message"), sent[id].message);
      EXPECT_EQ(std::stoll(Value(line, "sent_ns")), sent[id].at);
      EXPECT_GT(std::stoll(Value(line, "time_ns")), sent[id].at);
      ++arrived;
    }
    EXPECT_GT(arrived, 100u);
  }
}

TEST(NdjsonTrace, EndsWithTheHashAndTheFailure) {
  RunOptions options = Seed(3);
  options.break_rules = {"ack_after_durable"};
  const Written written = Write("ndjson", options);
  ASSERT_TRUE(written.result.failure.has_value());
  const std::string last = Lines(written.text).back();
  EXPECT_EQ(Value(last, "name"), "end");
  EXPECT_EQ(Value(last, "invariant"), written.result.failure->invariant);
}

TEST(PerfettoTrace, EveryFlowThatEndsHasBegun) {
  std::set<std::string> begun;
  size_t ended = 0;
  for (const std::string& line : Lines(Write("perfetto", Seed(4)).text)) {
    const std::string phase = Value(line, "ph");
    if (phase == "s") begun.insert(Value(line, "id"));
    if (phase != "f") continue;
    EXPECT_TRUE(begun.contains(Value(line, "id"))) << line;
    ++ended;
  }
  EXPECT_GT(ended, 100u);
}

TEST(HtmlTrace, IsOnePageThatNeedsNothingElse) {
  const std::string text = Write("html", Seed(4)).text;
  for (const char* outside : {"http://", "https://", "src=", "@import", "url("}) {
    EXPECT_EQ(text.find(outside), std::string::npos) << outside;
  }
  EXPECT_EQ(text.find("/*SCRIPT*/"), std::string::npos);
  EXPECT_EQ(text.find("<!--DATA-->"), std::string::npos);
  EXPECT_NE(text.find("\"messages\":["), std::string::npos);
}

TEST(Json, StringsAreQuoted) {
  EXPECT_EQ(JsonString("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
  EXPECT_EQ(JsonString("<5,0> …"), "\"<5,0> …\"");
}

TEST(Json, NoStringEndsAScript) {
  EXPECT_EQ(JsonString("</script>"), "\"<\\/script>\"");
  EXPECT_EQ(JsonString("<!--"), "\"<\\u0021--\"");
}

struct CollectBands : TraceStory::Reader {
  void OnNodes(const std::vector<std::string>&, uint32_t servers) override {
    bands.OnNodes(servers);
    count = servers;
  }
  void OnRecord(const StoryRecord& record) override { bands.OnRecord(record); }
  Bands bands;
  uint32_t count = 0;
};

TEST(Bands, EachServerHasOneRoleAtEachTime) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    CollectBands collect;
    TraceStory story(&collect);
    RunOptions options = Seed(seed);
    options.observer = &story;
    const Instant end = Instant{} + RunSeed(options).time;
    std::vector<Instant> reached(collect.count);
    for (const Band& band : collect.bands.Finish(end)) {
      if (band.paused) continue;
      EXPECT_EQ(band.from, reached[band.server]);
      EXPECT_GT(band.to, band.from);
      reached[band.server] = band.to;
    }
    EXPECT_THAT(reached, testing::Each(end));
  }
}

// What no seed decides: another number at each call.
uint64_t NextNumber() {
  static uint64_t number = 0;
  return number += 7;
}

TEST(Determinism, ADeliberateLeakIsCaughtAndItsEventNamed) {
  RunOptions options = Seed(1);
  options.leak = &NextNumber;
  EXPECT_NE(RunSeed(options).hash, RunSeed(options).hash);
  const std::optional<std::string> where = FindDivergence(options);
  ASSERT_TRUE(where.has_value());
  const size_t event = std::stoul(where->substr(std::string_view("event ").size()));
  EXPECT_GE(event, 500u);  // World leaks at the 500th
  EXPECT_LT(event, 600u);
}

}  // namespace
}  // namespace lockstep::sim
