#include "shell/four_letter_client.h"

#include <chrono>

#include "absl/status/status.h"
#include "boost/asio/buffer.hpp"
#include "boost/asio/connect.hpp"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/read.hpp"
#include "boost/asio/write.hpp"

namespace lockstep::shell {
namespace {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;
using Error = boost::system::error_code;

constexpr size_t kAnswerBytesMax = 1 << 20;

}  // namespace

absl::StatusOr<std::string> AskFourLetterWord(const Endpoint& server, const std::string& word,
                                              Duration timeout) {
  asio::io_context io;
  Tcp::resolver resolver(io);
  Tcp::socket socket(io);
  std::string answer;
  Error outcome = asio::error::timed_out;  // until a step of the conversation says otherwise

  auto on_answer = [&](const Error& error, size_t) {
    outcome = error == asio::error::eof ? Error() : error;
  };
  auto on_written = [&](const Error& error, size_t) {
    if (error) return void(outcome = error);
    asio::async_read(socket, asio::dynamic_buffer(answer, kAnswerBytesMax), on_answer);
  };
  auto on_connected = [&](const Error& error, const Tcp::endpoint&) {
    if (error) return void(outcome = error);
    asio::async_write(socket, asio::buffer(word), on_written);
  };
  auto on_resolved = [&](const Error& error, const Tcp::resolver::results_type& results) {
    if (error) return void(outcome = error);
    asio::async_connect(socket, results, on_connected);
  };
  resolver.async_resolve(server.host, std::to_string(server.port), on_resolved);
  io.run_for(std::chrono::nanoseconds(timeout.ns));

  if (outcome) {
    return absl::UnavailableError(server.ToString() + " does not answer: " + outcome.message());
  }
  return answer;
}

}  // namespace lockstep::shell
