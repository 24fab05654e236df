// The traces in tests/traces/zab. Their commands:
//
//   cluster N [window=N] [counter=N]   N servers; window: transactions kept for DIFF; counter: the
//                                      last one of an epoch
//   disk S A C Z...                    before it starts, server S has accepted epoch A, current
//   epoch C
//                                      and the history Z..., as in 1.1 1.2 2.1
//   elect                              until a leader and all that can reach it are up to date
//   until S LOOKING|FOLLOWING|LEADING  until S is in that state
//   propose TEXT... [@S]               on the leader or on S, one transaction a word
//   advance 20ms | 5s
//   partition 1 2 | 3                  heal
//   crash S [keep=N]                   N of its writes in flight still become durable
//   restart S                          break S (its channels)
//   hold writes S                      persist S N, release writes S
//   hold messages A B                  (from A to B) release messages A B
//   hold snapshots                     send snapshots
//   show events|messages|nothing       what is printed from here on; messages come with events
//   state                              role, epochs and what was applied, of each server
//
// Times are virtual, from the start of the cluster.
#include "tests/support/golden.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>

#include "tests/support/zab_trio.h"

namespace lockstep::zab {
namespace {

class Trace {
 public:
  std::string Run(const std::vector<std::string>& words) {
    out_.clear();
    const std::string& verb = words.at(0);
    if (verb == "cluster") {
      Cluster(words);
    } else if (verb == "disk") {
      std::string history;
      for (size_t i = 4; i < words.size(); i++) history += words[i] + " ";
      trio_->Disk(Server(words.at(1)), Number(words.at(2)), Number(words.at(3)), history);
    } else if (verb == "elect") {
      if (!trio_->Elect()) out_ += "no leader\n";
    } else if (verb == "until") {
      ServerId server = Server(words.at(1));
      bool reached =
          trio_->RunUntil([&] { return ToString(trio_->peer(server).state()) == words.at(2); });
      if (!reached) out_ += "never\n";
    } else if (verb == "propose") {
      ProposeAll(words);
    } else if (verb == "advance") {
      trio_->Run(Time(words.at(1)));
    } else if (verb == "partition") {
      std::vector<std::set<ServerId>> groups(1);
      for (size_t i = 1; i < words.size(); i++) {
        if (words[i] == "|") {
          groups.emplace_back();
        } else {
          groups.back().insert(Server(words[i]));
        }
      }
      trio_->Partition(groups);
    } else if (verb == "heal") {
      trio_->Heal();
    } else if (verb == "crash") {
      trio_->Crash(Server(words.at(1)), words.size() > 2 ? Option(words.at(2), "keep=") : 0);
    } else if (verb == "restart") {
      trio_->Start(Server(words.at(1)));
    } else if (verb == "break") {
      trio_->BreakChannel(Server(words.at(1)));
    } else if (verb == "persist") {
      ServerId server = Server(words.at(1));
      size_t count = Number(words.at(2));
      if (trio_->writes_in_flight(server) < count) {
        out_ += "only " + std::to_string(trio_->writes_in_flight(server)) + " in flight\n";
      } else {
        trio_->PersistHeld(server, count);
      }
    } else if (verb == "hold" || verb == "release" || verb == "send") {
      Hold(words);
    } else if (verb == "show") {
      show_messages_ = words.at(1) == "messages";
      show_events_ = words.at(1) != "nothing";
    } else if (verb == "state") {
      State();
    } else {
      out_ += "unknown command '" + verb + "'\n";
    }
    return out_;
  }

 private:
  static uint32_t Number(const std::string& word) {
    return static_cast<uint32_t>(std::stoul(word));
  }
  static ServerId Server(const std::string& word) { return {Number(word)}; }
  static uint32_t Option(const std::string& word, const std::string& name) {
    EXPECT_TRUE(word.starts_with(name)) << word;
    return Number(word.substr(name.size()));
  }
  static Duration Time(const std::string& word) {
    return word.ends_with("ms") ? Milliseconds(std::stol(word)) : Seconds(std::stol(word));
  }

  void Cluster(const std::vector<std::string>& words) {
    PeerOptions options = ZabTrio::TestOptions();
    for (size_t i = 2; i < words.size(); i++) {
      if (words[i].starts_with("window="))
        options.window_transactions = Option(words[i], "window=");
      if (words[i].starts_with("counter=")) options.counter_max = Option(words[i], "counter=");
    }
    size_ = Number(words.at(1));
    trio_ = std::make_unique<ZabTrio>(size_, options);
    start_ = trio_->now();
    trio_->on_event = [this](const ZabTrio::Happened& h) { Print(h); };
    trio_->on_send = [this](const ZabTrio::Sent& s) { Print(s); };
  }

  void ProposeAll(std::vector<std::string> words) {
    ServerId at;
    if (words.back()[0] == '@') {
      at = Server(words.back().substr(1));
      words.pop_back();
    }
    for (size_t i = 1; i < words.size(); i++) {
      if (!trio_->Propose(words[i], at)) out_ += "no room for " + words[i] + "\n";
    }
  }

  void Hold(const std::vector<std::string>& words) {
    bool hold = words[0] == "hold";
    if (words.at(1) == "writes") {
      hold ? trio_->HoldWrites(Server(words.at(2))) : trio_->ReleaseWrites(Server(words.at(2)));
    } else if (words.at(1) == "messages") {
      hold ? trio_->HoldMessages(Server(words.at(2)), Server(words.at(3)))
           : trio_->ReleaseMessages(Server(words.at(2)), Server(words.at(3)));
    } else {
      hold ? trio_->HoldSnapshots() : trio_->SendSnapshots();
    }
  }

  void State() {
    for (uint32_t id = 1; id <= size_; id++) {
      out_ += std::to_string(id) + " ";
      if (!trio_->up({id})) {
        out_ += "down\n";
        continue;
      }
      const Peer& peer = trio_->peer({id});
      out_ += ToString(peer.state());
      if (peer.state() == ServerState::kFollowing) out_ += " " + peer.leader().ToString();
      if (!peer.established() && peer.state() != ServerState::kLooking) out_ += " (not up to date)";
      out_ += " accepted=" + peer.accepted_epoch().ToString() +
              " current=" + peer.current_epoch().ToString() + " applied: " + trio_->applied({id}) +
              "\n";
    }
    if (!trio_->violation().empty()) out_ += trio_->violation() + "\n";
  }

  std::string When(Instant at, ServerId server) const {
    char text[32];
    std::snprintf(text, sizeof(text), "t=%.3fs ", static_cast<double>((at - start_).ns) / 1e9);
    return text + server.ToString() + " ";
  }

  void Print(const ZabTrio::Happened& happened) {
    const Event& e = happened.event;
    if (!show_events_ || e.kind == EventKind::kElectionRound || e.kind == EventKind::kIgnored)
      return;
    std::string peer = e.peer.ToString();
    std::string reason = *e.reason == '\0' ? "" : std::string(" (") + e.reason + ")";
    std::string text;
    switch (e.kind) {
      case EventKind::kLooking:
        text = "LOOKING" + reason;
        break;
      case EventKind::kFollowing:
        text = "FOLLOWING " + peer;
        break;
      case EventKind::kLeading:
        text = "LEADING";
        break;
      case EventKind::kEpochProposed:
        text = "proposes epoch " + e.zxid.epoch.ToString();
        break;
      case EventKind::kEpochAccepted:
        text = "has promised epoch " + e.zxid.epoch.ToString();
        break;
      case EventKind::kSyncDiff:
        text =
            "sends " + peer + " DIFF from " + e.zxid.ToString() + ": " + std::to_string(e.detail);
        break;
      case EventKind::kSyncTrunc:
        text = "sends " + peer + " TRUNC to " + e.zxid.ToString();
        break;
      case EventKind::kSyncTruncDiff:
        text = "sends " + peer + " TRUNC to " + e.zxid.ToString() + " and then " +
               std::to_string(e.detail);
        break;
      case EventKind::kSyncSnap:
        text = "sends " + peer + " SNAP at " + e.zxid.ToString();
        break;
      case EventKind::kNewLeaderAcked:
        text = "has the history of " + peer + " up to " + e.zxid.ToString();
        break;
      case EventKind::kEstablished:
        text = "is established in epoch " + e.zxid.epoch.ToString();
        break;
      case EventKind::kUpToDate:
        text = "is up to date, committed " + e.zxid.ToString();
        break;
      case EventKind::kTruncated:
        text = "cuts its history to " + e.zxid.ToString();
        break;
      case EventKind::kLearnerDropped:
        text = "loses learner " + peer + reason;
        break;
      default:
        text = e.ToString();
    }
    out_ += When(happened.at, happened.server) + text + "\n";
  }

  void Print(const ZabTrio::Sent& sent) {
    if (!show_messages_ || std::holds_alternative<Ping>(sent.message)) return;
    out_ +=
        When(sent.at, sent.from) + "-> " + sent.to.ToString() + " " + ToString(sent.message) + "\n";
  }

  uint32_t size_ = 0;
  std::unique_ptr<ZabTrio> trio_;
  Instant start_;
  bool show_events_ = true;
  bool show_messages_ = false;
  std::string out_;
};

class Golden : public ::testing::TestWithParam<std::string> {};

TEST_P(Golden, BehavesAsRecorded) {
  Trace trace;
  EXPECT_EQ(RunGolden(GetParam(), [&](const auto& words) { return trace.Run(words); }), "");
}

INSTANTIATE_TEST_SUITE_P(Traces, Golden, ::testing::ValuesIn(GoldenFiles(LOCKSTEP_TRACES)),
                         [](const auto& file) {
                           std::string name = file.param.substr(file.param.rfind('/') + 1);
                           name.resize(name.size() - 4);
                           return name;
                         });

}  // namespace
}  // namespace lockstep::zab
