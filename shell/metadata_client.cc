#include "shell/metadata_client.h"

#include <array>
#include <chrono>
#include <cstdint>

#include "absl/status/status.h"
#include "boost/asio/buffer.hpp"
#include "boost/asio/connect.hpp"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/read.hpp"
#include "boost/asio/write.hpp"
#include "core/base/bytes.h"
#include "core/kafka/frame.h"

namespace lockstep::shell {
namespace {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;
using Error = boost::system::error_code;

// The latest that every broker since Kafka 2.1 answers.
constexpr int16_t kVersion = 7;
constexpr uint32_t kAnswerBytesMax = 64 << 20;

}  // namespace

absl::StatusOr<kafka::MetadataResponse> AskMetadata(const Endpoint& broker,
                                                    const std::optional<std::string>& topic,
                                                    Duration timeout) {
  kafka::MetadataRequest request;
  request.allow_auto_topic_creation = false;
  request.topics.reset();
  if (topic) request.topics.emplace().emplace_back().name = *topic;
  std::string question;
  for (const Bytes& slice : kafka::EncodeRequest(request, kVersion, 1, "lockstep")) {
    question += slice.view();
  }

  asio::io_context io;
  Tcp::resolver resolver(io);
  Tcp::socket socket(io);
  std::array<unsigned char, 4> length;
  std::string answer;
  Error outcome = asio::error::timed_out;  // until a step of the conversation says otherwise

  auto on_answer = [&](const Error& error, size_t) { outcome = error; };
  auto on_length = [&](const Error& error, size_t) {
    if (error) return void(outcome = error);
    const uint32_t size = uint32_t{length[0]} << 24 | uint32_t{length[1]} << 16 |
                          uint32_t{length[2]} << 8 | uint32_t{length[3]};
    if (size > kAnswerBytesMax) return void(outcome = asio::error::message_size);
    answer.resize(size);
    asio::async_read(socket, asio::buffer(answer), on_answer);
  };
  auto on_written = [&](const Error& error, size_t) {
    if (error) return void(outcome = error);
    asio::async_read(socket, asio::buffer(length), on_length);
  };
  auto on_connected = [&](const Error& error, const Tcp::endpoint&) {
    if (error) return void(outcome = error);
    asio::async_write(socket, asio::buffer(question), on_written);
  };
  auto on_resolved = [&](const Error& error, const Tcp::resolver::results_type& results) {
    if (error) return void(outcome = error);
    asio::async_connect(socket, results, on_connected);
  };
  resolver.async_resolve(broker.host, std::to_string(broker.port), on_resolved);
  io.run_for(std::chrono::nanoseconds(timeout.ns));

  if (outcome) {
    return absl::UnavailableError(broker.ToString() + " does not answer: " + outcome.message());
  }
  auto response = kafka::DecodeResponse<kafka::MetadataResponse>(Bytes::Copy(answer), kVersion);
  if (response.ok()) return response;
  return absl::DataLossError(broker.ToString() + " does not speak Kafka's protocol: " +
                             std::string(response.status().message()));
}

}  // namespace lockstep::shell
