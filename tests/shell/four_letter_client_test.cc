#include "shell/four_letter_client.h"

#include <thread>

#include "boost/asio/buffer.hpp"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/read.hpp"
#include "boost/asio/write.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::shell {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

TEST(FourLetterClient, ReadsTheAnswerToItsEnd) {
  asio::io_context io;
  tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
  std::string word(4, ' ');
  std::thread server([&] {
    tcp::socket socket = acceptor.accept();
    asio::read(socket, asio::buffer(word));
    asio::write(socket, asio::buffer("im", 2));
    asio::write(socket, asio::buffer("ok", 2));
  });
  const auto answer =
      AskFourLetterWord({"127.0.0.1", acceptor.local_endpoint().port()}, "ruok", Seconds(60));
  server.join();

  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(*answer, "imok");
  EXPECT_EQ(word, "ruok");
}

TEST(FourLetterClient, NamesTheServerThatDoesNotAnswer) {
  uint16_t port;
  {
    asio::io_context io;
    tcp::acceptor gone(io, {asio::ip::address_v4::loopback(), 0});
    port = gone.local_endpoint().port();
  }
  const auto refused = AskFourLetterWord({"127.0.0.1", port}, "ruok", Seconds(60));
  EXPECT_EQ(std::string(refused.status().message()),
            "127.0.0.1:" + std::to_string(port) + " does not answer: Connection refused");
}

TEST(FourLetterClient, SilentServerTimesOut) {
  asio::io_context io;
  tcp::acceptor silent(io, {asio::ip::address_v4::loopback(), 0});
  const auto answer =
      AskFourLetterWord({"127.0.0.1", silent.local_endpoint().port()}, "ruok", Milliseconds(10));
  EXPECT_THAT(std::string(answer.status().message()), testing::HasSubstr("does not answer"));
}

}  // namespace
}  // namespace lockstep::shell
