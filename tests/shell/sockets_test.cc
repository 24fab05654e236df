// Wiring only, on loopback. Nothing here waits for a time; a test that hangs is a failure.
#include "shell/sockets.h"

#include <algorithm>
#include <string>

#include "boost/asio/buffer.hpp"
#include "boost/asio/post.hpp"
#include "boost/asio/read.hpp"
#include "boost/asio/write.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::shell {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using server::LinkKind;

constexpr ConnectionId kDialed{1};

class SocketsTest : public testing::Test {
 protected:
  explicit SocketsTest(const SocketOptions& options = {})
      : sockets_(&io_, &log_, options, [this](const server::Input& input) {
          inputs_.push_back(input);
          if (const auto* bytes = std::get_if<server::ReceivedBytes>(&input)) {
            received_ += bytes->data.view();
          }
        }) {}

  void Listen(LinkKind kind) {
    const absl::Status status = sockets_.Listen(kind, {"127.0.0.1", 0});
    ASSERT_TRUE(status.ok()) << status;
  }

  // Runs the loop, with a Flush after each batch as the host does, until `done`.
  template <typename Done>
  void RunUntil(Done done) {
    while (!done()) {
      io_.run_one();
      while (io_.poll_one() > 0) {
      }
      sockets_.Flush();
    }
  }

  template <typename T>
  const T* Last() const {
    for (auto it = inputs_.rbegin(); it != inputs_.rend(); ++it) {
      if (const T* input = std::get_if<T>(&*it)) return input;
    }
    return nullptr;
  }
  template <typename T>
  bool Has() const {
    return Last<T>() != nullptr;
  }
  uint64_t written() const {
    uint64_t bytes = 0;
    for (const server::Input& input : inputs_) {
      if (const auto* one = std::get_if<server::Written>(&input)) bytes += one->bytes;
    }
    return bytes;
  }

  // A client that connects to the port of `kind`, and the id that the server has for it.
  ConnectionId Connect(LinkKind kind) {
    client_.connect({asio::ip::address_v4::loopback(), sockets_.port(kind)});
    RunUntil([&] { return Has<server::Accepted>(); });
    return Last<server::Accepted>()->connection;
  }
  // What the client reads until its end.
  std::string ReadToEnd() {
    std::string text;
    boost::system::error_code error;
    asio::read(client_, asio::dynamic_buffer(text), error);
    EXPECT_EQ(error, asio::error::eof);
    return text;
  }

  asio::io_context io_{1};
  Log log_{LogLevel::kError};
  std::vector<server::Input> inputs_;
  std::string received_;
  Sockets sockets_;
  asio::io_context client_io_;
  tcp::socket client_{client_io_};
};

TEST_F(SocketsTest, AcceptedConnectionGoesBothWays) {
  Listen(LinkKind::kClient);
  const ConnectionId id = Connect(LinkKind::kClient);
  EXPECT_TRUE(id.accepted());
  EXPECT_EQ(Last<server::Accepted>()->kind, LinkKind::kClient);
  EXPECT_EQ(Last<server::Accepted>()->address, "127.0.0.1");

  asio::write(client_, asio::buffer("question", 8));
  RunUntil([&] { return received_ == "question"; });

  for (const char* part : {"an", "s", "wer"}) sockets_.Send(id, Bytes::Copy(part));
  sockets_.Flush();
  char answer[6];
  asio::read(client_, asio::buffer(answer));
  EXPECT_EQ(std::string(answer, 6), "answer");
  // One write, one report.
  EXPECT_EQ(Last<server::Written>()->bytes, 6u);
}

TEST_F(SocketsTest, DialedConnectionGoesBothWays) {
  Listen(LinkKind::kLearner);
  sockets_.Dial(kDialed, LinkKind::kLearner, {"localhost", sockets_.port(LinkKind::kLearner)});
  sockets_.Send(kDialed, Bytes::Copy("early"));  // waits for the connection
  RunUntil([&] { return received_ == "early"; });

  sockets_.Send(Last<server::Accepted>()->connection, Bytes::Copy("back"));
  sockets_.Flush();
  RunUntil([&] { return received_ == "earlyback"; });
  EXPECT_TRUE(Has<server::Connected>());
  EXPECT_EQ(Last<server::ReceivedBytes>()->connection, kDialed);
}

TEST_F(SocketsTest, RefusedDialIsClosed) {
  uint16_t port;
  {
    tcp::acceptor gone(io_, {asio::ip::address_v4::loopback(), 0});
    port = gone.local_endpoint().port();
  }
  sockets_.Dial(kDialed, LinkKind::kElection, {"127.0.0.1", port});
  RunUntil([&] { return Has<server::Closed>(); });
  EXPECT_EQ(Last<server::Closed>()->connection, kDialed);
}

TEST_F(SocketsTest, DialThatIsClosedByTheMachineIsNotReported) {
  Listen(LinkKind::kElection);
  sockets_.Dial(kDialed, LinkKind::kElection, {"127.0.0.1", sockets_.port(LinkKind::kElection)});
  sockets_.Close(kDialed);
  sockets_.Send(kDialed, Bytes::Copy("x"));
  sockets_.Flush();
  io_.poll();
  EXPECT_FALSE(Has<server::Connected>());
  // Whoever accepted it may have seen it come and go.
  const auto* closed = Last<server::Closed>();
  EXPECT_TRUE(closed == nullptr || closed->connection != kDialed);
}

class ShortTimeoutTest : public SocketsTest {
 protected:
  ShortTimeoutTest() : SocketsTest({.connect_timeout = Milliseconds(10)}) {}
};

TEST_F(ShortTimeoutTest, DialThatIsNotAnsweredIsClosed) {
  // An acceptor with a full backlog answers no more SYNs.
  tcp::acceptor deaf(io_);
  deaf.open(tcp::v4());
  deaf.bind({asio::ip::address_v4::loopback(), 0});
  deaf.listen(0);
  tcp::socket first(io_);
  first.connect(deaf.local_endpoint());

  sockets_.Dial(kDialed, LinkKind::kElection, {"127.0.0.1", deaf.local_endpoint().port()});
  RunUntil([&] { return Has<server::Closed>(); });
  EXPECT_FALSE(Has<server::Connected>());
}

TEST_F(SocketsTest, WhatWasSentBeforeACloseArrives) {
  Listen(LinkKind::kClient);
  const ConnectionId id = Connect(LinkKind::kClient);
  // More than the kernel buffers, and a client that has sent what nobody will read.
  const std::string answer(8 << 20, 'x');
  asio::write(client_, asio::buffer("unread\n", 7));
  RunUntil([&] { return !received_.empty(); });
  asio::write(client_, asio::buffer("unread too\n", 11));
  sockets_.Send(id, Bytes::Copy(answer));
  sockets_.Close(id);
  sockets_.Flush();

  client_.non_blocking(true);
  std::string text;
  bool ended = false;
  char buffer[65536];
  RunUntil([&] {
    boost::system::error_code error;
    for (;;) {
      const size_t n = client_.read_some(asio::buffer(buffer), error);
      if (error) break;
      text.append(buffer, n);
    }
    ended = error == asio::error::eof;
    EXPECT_TRUE(ended || error == asio::error::would_block) << error.message();
    asio::post(io_, [] {});
    return ended || HasFailure();
  });
  EXPECT_EQ(text, answer);
  EXPECT_EQ(received_, "unread\n");
  EXPECT_FALSE(Has<server::Closed>());  // the machine knows
}

TEST_F(SocketsTest, EndOfTheOtherSideIsToldAndAnswersStillLeave) {
  Listen(LinkKind::kClient);
  const ConnectionId id = Connect(LinkKind::kClient);
  asio::write(client_, asio::buffer("ruok", 4));
  client_.shutdown(tcp::socket::shutdown_send);
  RunUntil([&] { return received_ == "ruok"; });

  // Queued when the end comes, and sent only after it.
  sockets_.Send(id, Bytes::Copy("imok"));
  RunUntil([&] { return Has<server::Closed>(); });
  EXPECT_EQ(ReadToEnd(), "imok");
}

TEST_F(SocketsTest, ResetIsToldOnce) {
  Listen(LinkKind::kClient);
  Connect(LinkKind::kClient);
  client_.set_option(asio::socket_base::linger(true, 0));
  client_.close();
  RunUntil([&] { return Has<server::Closed>(); });
  io_.poll();
  sockets_.Flush();
  EXPECT_EQ(std::count_if(inputs_.begin(), inputs_.end(),
                          [](const server::Input& input) {
                            return std::holds_alternative<server::Closed>(input);
                          }),
            1);
}

TEST_F(SocketsTest, PausedConnectionIsNotRead) {
  Listen(LinkKind::kClient);
  const ConnectionId id = Connect(LinkKind::kClient);
  sockets_.PauseReading(id);
  asio::write(client_, asio::buffer("later", 5));
  // Another connection proves that the loop has been around.
  tcp::socket other(client_io_);
  other.connect({asio::ip::address_v4::loopback(), sockets_.port(LinkKind::kClient)});
  asio::write(other, asio::buffer("now", 3));
  RunUntil([&] { return received_ == "now"; });

  sockets_.ResumeReading(id);
  RunUntil([&] { return received_ == "nowlater"; });
}

TEST_F(SocketsTest, AConnectionIsReadOnceBetweenTwoFlushes) {
  Listen(LinkKind::kClient);
  const ConnectionId id = Connect(LinkKind::kClient);
  tcp::socket other(client_io_);
  other.connect({asio::ip::address_v4::loopback(), sockets_.port(LinkKind::kClient)});
  const auto run_until = [&](std::string_view received) {
    while (received_ != received) io_.run_one();
  };
  asio::write(client_, asio::buffer("a", 1));
  run_until("a");
  asio::write(client_, asio::buffer("never seen while paused", 23));
  // The other connection proves that the loop has been around.
  asio::write(other, asio::buffer("b", 1));
  run_until("ab");

  // The machine has had enough: no more comes, whatever has arrived.
  sockets_.PauseReading(id);
  sockets_.Flush();
  asio::write(other, asio::buffer("c", 1));
  RunUntil([&] { return received_ == "abc"; });

  sockets_.ResumeReading(id);
  RunUntil([&] { return received_ == "abcnever seen while paused"; });
}

TEST_F(SocketsTest, LongQueueIsSentInOrderAndReportedInFull) {
  Listen(LinkKind::kLearner);
  sockets_.Dial(kDialed, LinkKind::kLearner, {"127.0.0.1", sockets_.port(LinkKind::kLearner)});
  std::string all;
  for (int i = 0; i < 20'000; ++i) {
    const std::string part = std::to_string(i) + std::string(static_cast<size_t>(i % 977), ',');
    all += part;
    sockets_.Send(kDialed, Bytes::Copy(part));
  }
  RunUntil([&] { return received_.size() == all.size() && written() == all.size(); });
  EXPECT_EQ(received_, all);
}

class SmallBacklogTest : public SocketsTest {
 protected:
  SmallBacklogTest() : SocketsTest({.unsent_bytes_max = 1 << 20}) {}
};

TEST_F(SmallBacklogTest, ReceiverThatTakesNothingIsCutOff) {
  Listen(LinkKind::kLearner);
  const ConnectionId id = Connect(LinkKind::kLearner);
  sockets_.Send(id, Bytes::Copy(std::string(64 << 20, 'x')));
  sockets_.Flush();
  EXPECT_TRUE(Has<server::Closed>());
}

class OneConnectionTest : public SocketsTest {
 protected:
  OneConnectionTest() : SocketsTest({.connections_max = 1}) {}
};

TEST_F(OneConnectionTest, ClientsBeyondTheLimitAreClosedAndPeersAreNot) {
  Listen(LinkKind::kClient);
  const ConnectionId id = Connect(LinkKind::kClient);

  tcp::socket another(io_);
  another.connect({asio::ip::address_v4::loopback(), sockets_.port(LinkKind::kClient)});
  bool closed = false;
  char byte;
  another.async_read_some(
      asio::buffer(&byte, 1), [&](const boost::system::error_code& error, size_t) {
        closed = error == asio::error::eof || error == asio::error::connection_reset;
      });
  RunUntil([&] { return closed; });
  EXPECT_EQ(Last<server::Accepted>()->connection, id);

  Listen(LinkKind::kLearner);
  tcp::socket peer(io_);
  peer.connect({asio::ip::address_v4::loopback(), sockets_.port(LinkKind::kLearner)});
  RunUntil([&] { return Last<server::Accepted>()->kind == LinkKind::kLearner; });
}

TEST_F(SocketsTest, BusyPortIsNamed) {
  Listen(LinkKind::kClient);
  const uint16_t port = sockets_.port(LinkKind::kClient);
  const absl::Status status = sockets_.Listen(LinkKind::kClient, {"127.0.0.1", port});
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("cannot bind the client port 127.0.0.1:" + std::to_string(port) +
                                 ": Address already in use"));
}

TEST_F(SocketsTest, ForeignAddressIsNamed) {
  const absl::Status status = sockets_.Listen(LinkKind::kElection, {"192.0.2.1", 3888});
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("cannot bind the election port 192.0.2.1:3888"));
}

TEST_F(SocketsTest, AllInterfacesIncludeIpv4) {
  ASSERT_TRUE(sockets_.Listen(LinkKind::kClient, {"", 0}).ok());
  Connect(LinkKind::kClient);
  EXPECT_EQ(Last<server::Accepted>()->address, "127.0.0.1");
}

}  // namespace
}  // namespace lockstep::shell
