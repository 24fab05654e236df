// One whole server on a fake disk: wiring, start, recovery, and who may connect when. What several
// servers do together is the simulator's.
#include "core/server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "core/coordination/client.h"
#include "tests/support/fake_disk.h"

namespace lockstep::server {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

ConnectionId Accepted(uint64_t number) { return {ConnectionId::kAccepted | number}; }

class Host {
 public:
  explicit Host(std::vector<ServerId> voters = {{1}}, uint32_t snap_count = 100'000)
      : voters_(std::move(voters)), snap_count_(snap_count) {
    Start();
  }

  // A new incarnation on the same disk.
  void Start() {
    Options options;
    options.server = {1};
    options.voters = voters_;
    options.snap_count = snap_count_;
    options.four_letter_words = {"*"};
    options.conf = "the configuration\n";
    options.storage.segment_bytes = 1 << 20;  // the fake disk is slow
    server_ = std::make_unique<Server>(options, /*seed=*/7, ++incarnation_);
    output_.Clear();
    Step(server::Start{.unix_ms = 1'700'000'000'000});
  }
  // Loses what was not synced.
  void Crash() {
    server_.reset();
    ops_.clear();
    disk_.Crash([] { return false; });
  }

  void Step(const Input& input) {
    server_->Step(now_, input, &output_);
    Carry();
  }
  // Carries out file operations and deadlines for so long.
  void Run(Duration duration) {
    Instant until = now_ + duration;
    for (;;) {
      if (!ops_.empty()) {
        storage::FileOp op = std::move(ops_.front());
        ops_.pop_front();
        if (fail_syncs_ && op.kind == storage::OpKind::kSync) {
          Step(FileOpDone{
              {.id = op.id, .error = storage::FileError::kIo, .message = "Input/output error"}});
        } else {
          Step(FileOpDone{disk_.Execute(op)});
        }
        if (!fatal_.empty()) return;
        continue;
      }
      Instant due = server_->next_deadline();
      if (due > until) break;
      now_ = std::max(now_, due);
      Step(Wake{});
    }
    now_ = until;
  }

  Server& server() { return *server_; }
  Instant now() const { return now_; }
  void FailSyncs() { fail_syncs_ = true; }
  // What was sent on a connection since the last call.
  std::string TakeSent(ConnectionId connection) { return std::exchange(sent_[connection], {}); }
  bool closed(ConnectionId connection) const { return closed_.contains(connection); }
  const std::string& fatal() const { return fatal_; }
  const std::vector<Dial>& dials() const { return dials_; }
  // Those of one kind since the last call.
  std::vector<Event> TakeEvents(EventKind kind) {
    std::erase_if(events_, [&](const Event& event) { return event.kind != kind; });
    return std::exchange(events_, {});
  }

  // The answer to a four-letter word.
  std::string Ask(std::string_view word) {
    ConnectionId connection = Accepted(++connections_);
    Step(server::Accepted{connection, LinkKind::kClient, "10.0.0.1"});
    for (char c : word) Step(ReceivedBytes{connection, Bytes::Copy(std::string(1, c))});
    EXPECT_TRUE(closed(connection));
    return TakeSent(connection);
  }
  ConnectionId NewConnection() { return Accepted(++connections_); }

 private:
  void Carry() {
    server_->Flush(now_, &output_);
    for (storage::FileOp& op : output_.file_ops) ops_.push_back(std::move(op));
    for (const Send& send : output_.sends) sent_[send.connection] += send.data.view();
    for (ConnectionId connection : output_.closes) closed_.insert(connection);
    dials_.insert(dials_.end(), output_.dials.begin(), output_.dials.end());
    events_.insert(events_.end(), output_.events.begin(), output_.events.end());
    if (output_.fatal) fatal_ = *output_.fatal;
    output_.Clear();
  }

  const std::vector<ServerId> voters_;
  const uint32_t snap_count_;
  storage::FakeDisk disk_;
  bool fail_syncs_ = false;
  std::unique_ptr<Server> server_;
  uint64_t incarnation_ = 0;
  uint64_t connections_ = 0;
  Instant now_ = Instant{} + Seconds(1);
  Output output_;
  std::deque<storage::FileOp> ops_;
  std::map<ConnectionId, std::string> sent_;
  std::set<ConnectionId> closed_;
  std::vector<Dial> dials_;
  std::vector<Event> events_;
  std::string fatal_;
};

// A client with one connection to the host.
class Session {
 public:
  explicit Session(Host* host) : host_(*host), client_({}, RandomStream(1, {}, 0, 0)) {
    client_.Start(host_.now(), &output_);
    Carry();
  }

  // The header of the reply.
  coordination::ReplyHeader Call(coordination::OpCode op, const coordination::RequestBody& body) {
    std::optional<uint64_t> call = client_.Call(host_.now(), op, body, &output_);
    EXPECT_TRUE(call.has_value());
    for (int i = 0; i < 100; i++) {
      Carry();
      for (const auto& completion : output_.completions) {
        if (completion.call == *call) {
          coordination::ReplyHeader header = completion.header;
          output_.completions.clear();
          return header;
        }
      }
      host_.Run(Milliseconds(1));
    }
    ADD_FAILURE() << "no reply";
    return {};
  }
  coordination::ClientState state() {
    for (int i = 0; i < 20; i++) {
      Carry();
      host_.Run(Milliseconds(1));
    }
    return client_.state();
  }

 private:
  void Carry() {
    auto dials = std::exchange(output_.dials, {});
    for (const auto& dial : dials) {
      connection_ = dial.connection;
      at_host_ = host_.NewConnection();
      host_.Step(server::Accepted{at_host_, LinkKind::kClient, "10.0.0.2"});
      client_.OnConnected(host_.now(), connection_, &output_);
    }
    auto sends = std::exchange(output_.sends, {});
    for (const auto& send : sends) host_.Step(ReceivedBytes{at_host_, send.data});
    std::string back = host_.TakeSent(at_host_);
    if (!back.empty()) {
      client_.OnBytes(host_.now(), connection_, Bytes::Copy(back), &output_);
      host_.Step(Written{at_host_, back.size()});
    }
  }

  Host& host_;
  coordination::Client client_;
  coordination::ClientOutput output_;
  uint64_t connection_ = 0;
  ConnectionId at_host_;
};

coordination::CreateRequest Create(std::string_view path) {
  coordination::CreateRequest request;
  request.path = path;
  request.data.bytes = Bytes::Copy("data");
  request.acl.push_back({.permissions = 31, .scheme = "world", .id = "anyone"});
  return request;
}

TEST(Server, ServesFromAnEmptyDirectory) {
  Host host;
  EXPECT_EQ(host.server().peer(), nullptr) << "recovery has not ended";

  host.Run(Seconds(1));

  ASSERT_NE(host.server().peer(), nullptr);
  EXPECT_EQ(host.server().service().role(), coordination::Role::kLeading);
  EXPECT_EQ(host.fatal(), "");
  Session session(&host);
  EXPECT_EQ(session.state(), coordination::ClientState::kConnected);
  EXPECT_EQ(session.Call(coordination::OpCode::kCreate, Create("/a")).error,
            coordination::ErrorCode::kOk);
}

TEST(Server, FindsItsDataAgainAfterACrash) {
  Host host;
  host.Run(Seconds(1));
  {
    Session session(&host);
    session.Call(coordination::OpCode::kCreate, Create("/a"));
    session.Call(coordination::OpCode::kCreate, Create("/a/b"));
  }
  uint64_t digest = host.server().service().tree().digest();

  host.Crash();
  host.Start();
  host.Run(Seconds(1));

  EXPECT_EQ(host.server().service().tree().digest(), digest);
  EXPECT_EQ(host.server().peer()->current_epoch(), Epoch{2});
  Session session(&host);
  EXPECT_EQ(session.Call(coordination::OpCode::kExists, coordination::ExistsRequest{.path = "/a/b"})
                .error,
            coordination::ErrorCode::kOk);
}

TEST(Server, AGreatTreeIsNotWrittenAgainForAFewBytesThatChanged) {
  Host host({{1}}, /*snap_count=*/4);
  host.Run(Seconds(1));
  Session session(&host);
  const auto set = [&session](std::string_view path, size_t size) {
    coordination::SetDataRequest request;
    request.path = path;
    request.data.bytes = Bytes::Copy(std::string(size, 'x'));
    request.version = -1;
    EXPECT_EQ(session.Call(coordination::OpCode::kSetData, request).error,
              coordination::ErrorCode::kOk);
  };
  session.Call(coordination::OpCode::kCreate, Create("/great"));
  session.Call(coordination::OpCode::kCreate, Create("/small"));
  const auto sets_until_a_snapshot = [&] {
    for (int sets = 1; sets < 10; ++sets) {
      set("/great", 20'000);
      host.Run(Seconds(1));
      if (!host.TakeEvents(EventKind::kSnapshotWritten).empty()) return sets;
    }
    return 10;
  };
  ASSERT_LT(sets_until_a_snapshot(), 10);

  for (int i = 0; i < 40; ++i) set("/small", 10);
  host.Run(Seconds(1));
  EXPECT_TRUE(host.TakeEvents(EventKind::kSnapshotWritten).empty());

  EXPECT_LE(sets_until_a_snapshot(), 4) << "snapCount, and a tree's worth of bytes";
}

TEST(Server, PeersThatComeDuringRecoveryAreSentAway) {
  Host host({{1}, {2}, {3}});
  ASSERT_EQ(host.server().peer(), nullptr);

  host.Step(server::Accepted{Accepted(99), LinkKind::kElection, "10.0.0.3"});

  EXPECT_TRUE(host.closed(Accepted(99)));
}

TEST(Server, DialsTheOtherVotersAfterRecovery) {
  Host host({{1}, {2}, {3}});
  EXPECT_TRUE(host.dials().empty());

  host.Run(Milliseconds(10));

  EXPECT_EQ(host.dials().size(), 2u);
}

TEST(Server, OneOfThreeServesNobody) {
  Host host({{1}, {2}, {3}});
  host.Run(Seconds(5));

  EXPECT_EQ(host.server().peer()->state(), zab::ServerState::kLooking);
  EXPECT_EQ(host.Ask("srvr"), "This ZooKeeper instance is not currently serving requests\n");
}

TEST(Server, OneOfThreeSaysAfterInitLimitWhomItReachesAndThenEachMinute) {
  Host host({{1}, {2}, {3}});
  host.Run(Milliseconds(10));
  const std::vector<Dial> dials = host.dials();
  host.Step(Connected{dials.at(1).connection});  // to server 3
  host.Run(Seconds(19));
  EXPECT_TRUE(host.TakeEvents(EventKind::kNotServing).empty());

  host.Run(Seconds(2));
  const std::vector<Event> first = host.TakeEvents(EventKind::kNotServing);
  host.Run(Seconds(119));
  const std::vector<Event> later = host.TakeEvents(EventKind::kNotServing);

  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].detail, 20u);
  EXPECT_EQ(first[0].text, "looking, not serving for 20 s: reached 2 of 3 servers (1, 3); needs 2");
  ASSERT_EQ(later.size(), 2u);
  EXPECT_EQ(later[1].detail, 140u);
}

TEST(Server, WhoServesDoesNotSayThatItDoesNot) {
  Host host;
  host.Run(Seconds(60));

  EXPECT_TRUE(host.TakeEvents(EventKind::kNotServing).empty());
}

TEST(Server, GarbageOnAClientConnectionClosesThatOne) {
  Host host;
  host.Run(Seconds(1));
  Session session(&host);
  ASSERT_EQ(session.state(), coordination::ClientState::kConnected);
  ConnectionId bad = host.NewConnection();
  host.Step(server::Accepted{bad, LinkKind::kClient, "10.0.0.9"});

  host.Step(ReceivedBytes{bad, Bytes::Copy("\xff\xff\xff\xffgarbage")});

  EXPECT_TRUE(host.closed(bad));
  EXPECT_EQ(session.Call(coordination::OpCode::kCreate, Create("/a")).error,
            coordination::ErrorCode::kOk);
}

TEST(Server, TooManyConnectionsThatSayNothingCostTheOldestOne) {
  Host host;
  host.Run(Seconds(1));
  ConnectionId first = host.NewConnection();
  host.Step(server::Accepted{first, LinkKind::kClient, "10.0.0.9"});
  for (int i = 0; i < 999; i++) {
    std::string address = "10.0.1." + std::to_string(i % 250);
    host.Step(server::Accepted{host.NewConnection(), LinkKind::kClient, address});
  }
  EXPECT_FALSE(host.closed(first));

  host.Step(server::Accepted{host.NewConnection(), LinkKind::kClient, "10.0.0.9"});

  EXPECT_TRUE(host.closed(first));
}

TEST(Server, OneAddressCannotTakeThePlacesOfThoseThatSayNothing) {
  Host host;
  host.Run(Seconds(1));
  ConnectionId first = host.NewConnection();
  host.Step(server::Accepted{first, LinkKind::kClient, "10.0.0.9"});
  for (int i = 0; i < 59; i++) {
    host.Step(server::Accepted{host.NewConnection(), LinkKind::kClient, "10.0.0.9"});
  }
  ConnectionId one_more = host.NewConnection();

  host.Step(server::Accepted{one_more, LinkKind::kClient, "10.0.0.9"});

  EXPECT_TRUE(host.closed(one_more));
  EXPECT_FALSE(host.closed(first));
  const std::vector<Event> refused = host.TakeEvents(EventKind::kConnectionRefused);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].text, "10.0.0.9 has all that maxClientCnxns allows, 60");
}

TEST(Server, AConnectionThatSaysNothingIsClosedAfterTenSeconds) {
  Host host;
  host.Run(Seconds(1));
  ConnectionId silent = host.NewConnection();
  host.Step(server::Accepted{silent, LinkKind::kClient, "10.0.0.9"});

  host.Run(Milliseconds(9'999));
  EXPECT_FALSE(host.closed(silent));
  host.Run(Milliseconds(1));

  EXPECT_TRUE(host.closed(silent));
}

TEST(Server, AFailedSyncStopsTheServerBeforeTheClientHearsOfSuccess) {
  Host host;
  host.Run(Seconds(1));
  host.FailSyncs();

  ConnectionId connection = host.NewConnection();
  host.Step(server::Accepted{connection, LinkKind::kClient, "10.0.0.9"});
  host.Step(ReceivedBytes{
      connection, coordination::EncodeConnectRequest(
                      {.timeout_ms = 10'000, .password = std::string(coordination::kNoPassword)})});
  host.Run(Milliseconds(100));

  EXPECT_THAT(host.fatal(), HasSubstr("Input/output error"));
  EXPECT_EQ(host.TakeSent(connection), "");
}

// ---- Four-letter words, through the connection -------------------------------------------------

TEST(FourLetterWords, AreAnsweredWhenTheirLastByteHasCome) {
  Host host;
  host.Run(Seconds(1));

  EXPECT_EQ(host.Ask("ruok"), "imok");
  EXPECT_EQ(host.Ask("conf"), "the configuration\n");
  EXPECT_EQ(host.Ask("isro"), "rw");
  EXPECT_EQ(host.Ask("wchs"), "wchs is not offered by this server.\n");
}

TEST(FourLetterWords, SrvrTellsTheModeAndTheZxid) {
  Host host;
  host.Run(Seconds(1));
  Session session(&host);
  session.Call(coordination::OpCode::kCreate, Create("/a"));

  std::string answer = host.Ask("srvr");

  EXPECT_THAT(answer, StartsWith("Zookeeper version: lockstep\n"));
  EXPECT_THAT(answer, HasSubstr("Mode: standalone\n"));
  EXPECT_THAT(answer, HasSubstr("Zxid: 0x100000002\n"));  // the session, and the znode
  EXPECT_THAT(host.Ask("stat"), HasSubstr("Clients:\n"));
}

TEST(FourLetterWords, MntrHasOneNameAndValueALine) {
  Host host;
  host.Run(Seconds(1));

  std::istringstream lines(host.Ask("mntr"));

  int count = 0;
  for (std::string line; std::getline(lines, line); count++) {
    EXPECT_THAT(line, StartsWith("zk_"));
    EXPECT_EQ(std::count(line.begin(), line.end(), '\t'), 1) << line;
  }
  EXPECT_GT(count, 15);
}

TEST(FourLetterWords, RuokIsAnsweredWithoutALeader) {
  Host host({{1}, {2}, {3}});
  EXPECT_EQ(host.Ask("ruok"), "imok") << "during recovery, too";
}

}  // namespace
}  // namespace lockstep::server
