// Three whole servers, joined by an instant network, whose disks were prepared: histories with the
// same zxids, of which one has another transaction in it than the others. Zab cannot see that; the
// comparison of digests must.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <string>

#include "core/coordination/transaction.h"
#include "core/server/ping_payload.h"
#include "core/server/server.h"
#include "core/storage/store.h"
#include "core/wire/codec.h"
#include "tests/support/fake_disk.h"

namespace lockstep::server {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kServers = 3;
constexpr Duration kSyncLimit = Seconds(10);

// A journal of one transaction, <1,1>, which is a session with this timeout.
void Prepare(uint32_t server, int32_t timeout_ms, storage::FakeDisk* disk) {
  storage::StoreOptions options;
  options.server = {static_cast<uint8_t>(server)};
  options.segment_bytes = 1 << 16;
  storage::Store store(options, /*incarnation=*/100 + server);
  storage::StoreOutput output;
  const auto run = [&] {
    store.Flush(&output);
    while (!output.ops.empty()) {
      std::vector<storage::FileOp> ops;
      std::swap(ops, output.ops);
      for (const storage::FileOp& op : ops) store.OnDone(disk->Execute(op), &output);
      store.Flush(&output);
    }
    ASSERT_FALSE(output.fatal.has_value()) << *output.fatal;
  };
  store.Start(&output);
  run();
  store.Append({1}, storage::AcceptedEpochRecord{{1}}, &output);
  store.Append({2}, storage::CurrentEpochRecord{{1}}, &output);
  store.Append({3},
               storage::TransactionRecord{
                   {{1}, 1},
                   coordination::EncodeTransaction(
                       {.session = {5}, .time_ms = 1'700'000'000'000},
                       coordination::CreateSessionTransaction{.timeout_ms = timeout_ms,
                                                              .password = std::string(16, 'p')})},
               &output);
  run();
}

class Trio {
 public:
  // The timeout of the session in the history of each server; long enough that it does not expire,
  // after which the states would be equal.
  explicit Trio(std::vector<int32_t> timeouts) {
    for (uint32_t s = 1; s <= kServers; ++s) {
      Prepare(s, timeouts[s - 1], &hosts_[s].disk);
    }
  }

  void Start(uint32_t s) {
    Options options;
    options.server = {static_cast<uint8_t>(s)};
    options.voters = {{1}, {2}, {3}};
    options.four_letter_words = {"*"};
    options.storage.segment_bytes = 1 << 16;
    options.digests_max = 4;
    Host& host = hosts_[s];
    host.fatal.clear();
    host.server = std::make_unique<Server>(options, /*seed=*/7, ++incarnations_);
    Input(s, server::Start{.unix_ms = 1'700'000'000'000});
  }
  void StartAll() {
    for (uint32_t s = 1; s <= kServers; ++s) Start(s);
  }

  void Run(Duration duration) {
    const Instant until = now_ + duration;
    for (;;) {
      Settle();
      Instant due = Instant::Never();
      for (auto& [s, host] : hosts_) {
        if (host.server) due = std::min(due, host.server->next_deadline());
      }
      if (due > until) break;
      now_ = std::max(now_, due);
      for (auto& [s, host] : hosts_) {
        if (host.server && host.server->next_deadline() <= now_) Input(s, Wake{});
      }
    }
    now_ = until;
  }

  // A Zab message with `payload`, as if `from` had sent it to `to` on their channel.
  void InjectPing(uint32_t from, uint32_t to, Bytes payload) {
    std::vector<Bytes> slices;
    wire::EncodeMessage(zab::Ping{std::move(payload)}, &slices);
    for (const auto& [end, other] : links_) {
      if (end.server != to || other.server != from || !learner_.contains(end)) continue;
      for (const Bytes& slice : slices) Input(to, ReceivedBytes{end.connection, slice});
      return Settle();
    }
    FAIL() << "no channel from " << from << " to " << to;
  }

  std::string Ask(uint32_t s, std::string_view word) {
    const ConnectionId connection{ConnectionId::kAccepted | ++accepted_};
    Input(s, Accepted{connection, LinkKind::kClient, "10.0.0.1"});
    Input(s, ReceivedBytes{connection, Bytes::Copy(word)});
    Settle();
    return std::exchange(to_clients_, {});
  }

  // 0 if nobody leads.
  uint32_t Leader() {
    for (auto& [s, host] : hosts_) {
      if (host.server && host.server->service().role() == coordination::Role::kLeading) return s;
    }
    return 0;
  }
  coordination::Role role(uint32_t s) { return hosts_.at(s).server->service().role(); }
  const coordination::Tree& tree(uint32_t s) { return hosts_.at(s).server->service().tree(); }
  const std::string& fatal(uint32_t s) { return hosts_.at(s).fatal; }
  // How often a server gave this reason to ignore something, or an event of this kind.
  int Count(uint32_t s, std::string_view reason) {
    int count = 0;
    for (const Event& event : hosts_.at(s).events) count += event.reason == reason ? 1 : 0;
    return count;
  }
  int Count(uint32_t s, EventKind kind) {
    int count = 0;
    for (const Event& event : hosts_.at(s).events) count += event.kind == kind ? 1 : 0;
    return count;
  }

 private:
  struct Host {
    storage::FakeDisk disk;
    std::unique_ptr<Server> server;  // null before Start and after a fatal end
    std::string fatal;
    std::vector<Event> events;
  };
  struct End {
    uint32_t server = 0;
    ConnectionId connection;
    auto operator<=>(const End&) const = default;
  };
  struct Queued {
    uint32_t server = 0;
    server::Input input;
  };

  void Input(uint32_t s, server::Input input) { inbox_.push_back({s, std::move(input)}); }

  void Settle() {
    while (!inbox_.empty()) {
      Queued next = std::move(inbox_.front());
      inbox_.pop_front();
      Host& host = hosts_.at(next.server);
      if (!host.server) continue;
      Output output;
      host.server->Step(now_, next.input, &output);
      if (!output.fatal) host.server->Flush(now_, &output);
      Carry(next.server, &output);
    }
  }

  void Carry(uint32_t s, Output* output) {
    Host& host = hosts_.at(s);
    for (Event& event : output->events) host.events.push_back(event);
    if (output->fatal) {
      host.fatal = *output->fatal;
      host.server.reset();
      std::vector<ConnectionId> gone;
      for (const auto& [end, other] : links_) {
        if (end.server == s) gone.push_back(end.connection);
      }
      for (ConnectionId connection : gone) Close({s, connection});
      return;
    }
    for (const storage::FileOp& op : output->file_ops) {
      Input(s, FileOpDone{host.disk.Execute(op)});
    }
    for (const Dial& dial : output->dials) Connect(s, dial);
    for (const Send& send : output->sends) {
      auto link = links_.find({s, send.connection});
      if (link == links_.end()) {
        to_clients_ += send.data.view();
        continue;
      }
      Input(link->second.server, ReceivedBytes{link->second.connection, send.data});
      Input(s, Written{send.connection, send.data.size()});
    }
    for (ConnectionId connection : output->closes) Close({s, connection});
  }

  void Connect(uint32_t s, const Dial& dial) {
    const uint32_t to = dial.to.value;
    if (!hosts_.at(to).server) return Input(s, Closed{dial.connection});
    const End mine{s, dial.connection};
    const End theirs{to, {ConnectionId::kAccepted | ++accepted_}};
    links_[mine] = theirs;
    links_[theirs] = mine;
    if (dial.kind == LinkKind::kLearner) {
      learner_.insert(mine);
      learner_.insert(theirs);
    }
    Input(to, Accepted{theirs.connection, dial.kind, "10.0.0.1"});
    Input(s, Connected{dial.connection});
  }

  void Close(const End& end) {
    auto link = links_.find(end);
    if (link == links_.end()) return;
    const End other = link->second;
    links_.erase(link);
    links_.erase(other);
    Input(other.server, Closed{other.connection});
  }

  std::map<uint32_t, Host> hosts_;
  std::map<End, End> links_;
  std::set<End> learner_;
  std::deque<Queued> inbox_;
  std::string to_clients_;
  Instant now_ = Instant{} + Seconds(1);
  uint64_t incarnations_ = 0;
  uint64_t accepted_ = 0;
};

TEST(Digests, EqualServersCompareAndGoOn) {
  Trio trio({40'000, 40'000, 40'000});
  trio.StartAll();
  trio.Run(Seconds(5));

  ASSERT_EQ(trio.Leader(), 3u);
  EXPECT_GE(trio.Count(3, EventKind::kDigestCompared), 4);
  EXPECT_EQ(trio.Count(3, EventKind::kDigestMismatch), 0);
  EXPECT_THAT(trio.Ask(3, "mntr"), HasSubstr("zk_digest_mismatches_count\t0\n"));
}

TEST(Digests, ADamagedFollowerStopsAndTheOthersGoOn) {
  Trio trio({40'001, 40'000, 40'000});
  trio.StartAll();
  trio.Run(Seconds(5));

  EXPECT_THAT(trio.fatal(1), HasSubstr("differs from that of its leader, server 3, as of zxid "));
  EXPECT_THAT(trio.fatal(1), HasSubstr("which a majority of the ensemble shares"));
  EXPECT_THAT(trio.fatal(1), HasSubstr("move version-2 out of dataDir"));
  EXPECT_EQ(trio.fatal(2) + trio.fatal(3), "");
  EXPECT_EQ(trio.role(2), coordination::Role::kFollowing);
  EXPECT_EQ(trio.role(3), coordination::Role::kLeading);
  EXPECT_GE(trio.Count(3, EventKind::kDigestMismatch), 1);
  EXPECT_THAT(trio.Ask(3, "mntr"), ::testing::Not(HasSubstr("zk_digest_mismatches_count\t0\n")));
}

TEST(Digests, ADamagedLeaderStopsAndTheOthersGoOn) {
  Trio trio({40'000, 40'000, 40'001});
  trio.StartAll();
  trio.Run(Seconds(30));

  EXPECT_THAT(trio.fatal(3), HasSubstr("the leader, differs from that of a majority"));
  EXPECT_THAT(trio.fatal(3), HasSubstr("move version-2 out of dataDir"));
  EXPECT_EQ(trio.fatal(1) + trio.fatal(2), "");
  EXPECT_EQ(trio.Leader(), 2u);
  EXPECT_EQ(trio.role(1), coordination::Role::kFollowing);
}

TEST(Digests, OfTwoThatDifferTheFollowerStopsAfterSyncLimitAndBlamesNobody) {
  Trio trio({40'000, 40'000, 40'001});
  trio.Start(2);
  trio.Start(3);
  trio.Run(kSyncLimit);
  EXPECT_EQ(trio.fatal(2) + trio.fatal(3), "") << "the third may still come";

  trio.Run(Seconds(5));

  EXPECT_THAT(trio.fatal(2), HasSubstr("too few servers are up to tell which"));
  EXPECT_THAT(trio.fatal(2), ::testing::Not(HasSubstr("version-2")));
  EXPECT_EQ(trio.fatal(3), "");
  EXPECT_EQ(trio.role(3), coordination::Role::kStopped) << "it has no quorum";
}

TEST(Digests, TheThirdServerDecides) {
  Trio trio({40'000, 40'000, 40'001});
  trio.Start(2);
  trio.Start(3);
  trio.Run(Seconds(5));

  trio.Start(1);
  trio.Run(Seconds(5));

  EXPECT_THAT(trio.fatal(3), HasSubstr("the leader, differs from that of a majority"));
  EXPECT_EQ(trio.fatal(1) + trio.fatal(2), "");
}

TEST(Digests, AMalformedAnswerIsIgnoredAndTheChannelStays) {
  Trio trio({40'000, 40'000, 40'000});
  trio.StartAll();
  trio.Run(Seconds(3));

  trio.InjectPing(1, 3, Bytes::Copy("\x07nonsense"));
  trio.Run(Seconds(3));

  EXPECT_EQ(trio.Count(3, "malformed answer to a ping"), 1);
  EXPECT_EQ(trio.Count(3, EventKind::kLearnerDropped), 0);
  EXPECT_EQ(trio.role(1), coordination::Role::kFollowing);
}

TEST(Digests, AFollowerDoesNotStopForAWordThatItsOwnMemoryContradicts) {
  Trio trio({40'000, 40'000, 40'000});
  trio.StartAll();
  trio.Run(Seconds(3));
  const StateDigest own{trio.tree(1).last_zxid(), trio.tree(1).digest()};
  const StateDigest unknown{{{1}, 900}, 1};

  trio.InjectPing(3, 1, EncodeStateDiffers({.state = own, .outvoted = true}));
  trio.InjectPing(3, 1, EncodeStateDiffers({.state = unknown, .outvoted = true}));
  trio.InjectPing(3, 1, Bytes::Copy("\x07nonsense"));
  trio.Run(Seconds(3));

  EXPECT_EQ(trio.Count(1, "told to differ in a state that is equal"), 1);
  EXPECT_EQ(trio.Count(1, "told to differ in a state that is forgotten"), 1);
  EXPECT_EQ(trio.Count(1, "malformed word with a ping"), 1);
  EXPECT_EQ(trio.fatal(1), "");
  EXPECT_EQ(trio.role(1), coordination::Role::kFollowing);
}

}  // namespace
}  // namespace lockstep::server
