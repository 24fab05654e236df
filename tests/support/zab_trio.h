// A few zab::Peers with a virtual clock, channels, disks whose writes can be held back, and an
// application that is a list of strings. A vocabulary for tests, not a simulator: everything takes
// a fixed time, and faults happen only where a test says so.
//
//   ZabTrio trio(3);
//   ServerId leader = trio.Elect();
//   trio.Propose("a");
//   trio.Run(Milliseconds(10));
//   EXPECT_EQ(trio.applied({1}), "a");
//
// A message takes 1 ms, a write 1 ms, a failed attempt to open a channel 1 ms.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/base/zxid.h"
#include "core/zab/io.h"
#include "core/zab/peer.h"

namespace lockstep::zab {

class ZabTrio {
 public:
  // Servers 1 to `size`. `options` is for all of them; server and voters are filled in.
  explicit ZabTrio(uint32_t size, PeerOptions options = TestOptions());
  // As production's, with a window small enough that tests can leave it.
  static PeerOptions TestOptions();

  // ---- Time ----
  Instant now() const { return now_; }
  void Run(Duration duration);
  // Until `done()`, at most `limit`; whether it came to be.
  bool RunUntil(const std::function<bool()>& done, Duration limit = Seconds(60));
  // Until some server leads, is established, and every server that is up and can reach it is up to
  // date. Returns the leader, or 0 if that took longer than `limit`.
  ServerId Elect(Duration limit = Seconds(60));

  // ---- Servers ----
  // What the disk of a server holds before it starts: epochs and a history "1.1 1.2 2.1", with
  // bodies equal to the names of the zxids. Only before the first Run.
  void Disk(ServerId server, uint32_t accepted, uint32_t current, std::string_view history);
  const Peer& peer(ServerId server) const { return *at(server).peer; }
  bool up(ServerId server) const { return at(server).peer != nullptr; }
  // Loses what is not durable. The first `keep` writes in flight still become durable. Messages
  // from it that are held are lost.
  void Crash(ServerId server, size_t keep = 0);
  void Start(ServerId server);
  // The leader that is established with the newest epoch, or 0.
  ServerId leader() const;

  // ---- Disks ----
  // Writes stay in flight until they are let through, `count` at a time, or all from now on.
  void HoldWrites(ServerId server) { at(server).hold = true; }
  void PersistHeld(ServerId server, size_t count);
  void ReleaseWrites(ServerId server);
  size_t writes_in_flight(ServerId server) const { return at(server).in_flight.size(); }
  const DurableState& disk(ServerId server) const { return at(server).disk; }
  // The application writes a snapshot, and the journal before it is dropped.
  void Compact(ServerId server);

  // ---- Network ----
  // Each group is cut off from all others: what is sent is lost, and nobody is told (only timeouts
  // find out). Servers not named are a group of their own each.
  void Partition(const std::vector<std::set<ServerId>>& groups);
  // Channels that were cut break now, on both sides; or else they stay stuck for ever.
  void Heal(bool break_channels = true);
  // Messages of this kind from one server to another stay on the way, and all behind them on the
  // same channel, until Release.
  void HoldMessages(ServerId from, ServerId to) { held_.insert({from, to}); }
  void ReleaseMessages(ServerId from, ServerId to) { held_.erase({from, to}); }
  // The pieces of snapshots that a leader sends wait from now on, until SendSnapshots.
  void HoldSnapshots() { hold_snapshots_ = true; }
  void SendSnapshots();
  // Breaks the channels of a learner: both sides see it, in a partition too.
  void BreakChannel(ServerId learner);

  // ---- Application ----
  // Proposes on `server`, or on leader(). False if it can take no proposal.
  bool Propose(std::string_view body, ServerId server = {});
  // What the server has applied: bodies separated by spaces.
  std::string applied(ServerId server) const;
  // The bodies of what is in its history in memory, after what was applied at its base.
  std::string history(ServerId server) const;
  Service service(ServerId server) const { return at(server).service; }
  // Everything that any server has applied, in order.
  const std::vector<Transaction>& committed() const { return committed_; }
  // Two servers have applied different transactions at the same place: a sentence. Empty if none.
  const std::string& violation() const { return violation_; }

  // ---- What has happened ----
  struct Happened {
    Instant at;
    ServerId server;
    Event event;
  };
  const std::vector<Happened>& events() const { return events_; }
  size_t Count(EventKind kind, ServerId server = {}) const;
  // The last event of the kind at the server; its kind is kCount if there was none.
  Event Last(EventKind kind, ServerId server) const;
  struct Sent {
    Instant at;
    ServerId from;
    ServerId to;
    Message message;
  };
  const std::vector<Sent>& sent() const { return sent_; }
  template <typename M>
  size_t CountSent(ServerId from, ServerId to) const {
    size_t count = 0;
    for (const Sent& s : sent_)
      count += s.from == from && s.to == to && std::holds_alternative<M>(s.message);
    return count;
  }
  template <typename M>
  const M& LastSent(ServerId from, ServerId to) const {
    for (auto s = sent_.rbegin(); s != sent_.rend(); ++s) {
      if (s->from == from && s->to == to && std::holds_alternative<M>(s->message)) {
        return std::get<M>(s->message);
      }
    }
    LS_CHECK(!"never sent");
    LS_UNREACHABLE();
  }
  // The last notification that `from` sent to anyone.
  const Notification& LastVote(ServerId from) const { return at(from).last_vote; }
  // Called with every event and message, for traces.
  std::function<void(const Happened&)> on_event;
  std::function<void(const Sent&)> on_send;

 private:
  struct Host {
    std::unique_ptr<Peer> peer;  // null while down
    DurableState disk;
    std::vector<Transaction> disk_state;  // the application's snapshot on disk
    std::deque<Persist> in_flight;
    bool hold = false;
    std::vector<Transaction> state;  // what the application has applied
    std::vector<Transaction> receiving;
    std::optional<std::vector<Transaction>> received;  // complete, not yet installed
    Service service = Service::kStopped;
    Notification last_vote;
    uint64_t incarnation = 0;
  };
  struct Channel {
    ServerId learner;
    ServerId leader;
    ConnectionId at_learner;
    ConnectionId at_leader;
    bool open = false;
    bool cut = false;  // by a partition
  };
  struct Arrival {  // what will happen, in order of time and then of its making
    ServerId to;
    uint64_t incarnation = 0;
    Input input;
    ServerId from;
    size_t channel = 0;  // index + 1 in channels_, for messages
  };

  Host& at(ServerId server) { return hosts_[server.value - 1]; }
  const Host& at(ServerId server) const { return hosts_[server.value - 1]; }
  bool Connected(ServerId a, ServerId b) const;
  void Schedule(Duration after, Arrival arrival);
  void Step(ServerId server, const Input& input);
  void Carry(ServerId server, Output* output);
  void Apply(Host* host, const Persist& persist);
  void Applied(ServerId server, const Transaction& transaction);
  void BeginOpen(ServerId learner, const OpenChannel& open);
  void SendOn(ServerId from, const Output::Send& send);
  void CloseBy(ServerId server, ConnectionId channel);
  size_t Find(ServerId server, ConnectionId channel) const;  // index + 1; 0 if none
  void PersistFirst(ServerId server);
  void SendSnapshot(ServerId leader, const StartSnapshot& start);
  bool Held(const Arrival& arrival) const;
  // Servers that nobody crashed start with the first Run.
  void StartNew();
  bool RunNext(Instant until);

  PeerOptions options_;
  std::deque<Host> hosts_;
  Instant now_ = Instant{} + Seconds(1);
  std::map<std::pair<Instant, uint64_t>, Arrival> queue_;
  uint64_t sequence_ = 0;
  std::deque<Channel> channels_;
  uint64_t accepted_ = 0;
  std::map<ServerId, int> group_;  // empty: no partition
  std::set<std::pair<ServerId, ServerId>> held_;
  bool hold_snapshots_ = false;
  std::vector<std::pair<ServerId, StartSnapshot>> snapshots_;
  std::vector<Transaction> committed_;
  std::string violation_;
  std::vector<Happened> events_;
  std::vector<Sent> sent_;
};

// "2.7" -> <2,7>
Zxid Z(uint32_t epoch, uint32_t counter);
// Parses "1.1 1.2 2.1".
std::vector<Transaction> Transactions(std::string_view text);
// The opposite: "1.1 1.2 2.1".
std::string Zxids(const std::deque<Transaction>& transactions);

}  // namespace lockstep::zab
