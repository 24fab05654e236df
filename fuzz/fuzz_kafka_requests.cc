// Clients of Kafka's protocol that send whatever they like to a server of both roles: requests of
// every API and version with fields that the input chooses, and bytes that are no requests. It
// never crashes, and a client beside them is served as before.
//
// The input is a list of steps: one byte says what, and what follows is its own.
//   0  a request: API (of the list) and version, a byte each; then, with their length before them
//      (16 bits, big-endian), the bytes of its fields
//   1  a frame: bytes as above
//   2  bytes without a frame, as above
//   3  another connection is used from now on, of four
//   4  time: one byte, in units of 10 ms
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/check.h"
#include "core/kafka/frame.h"
#include "core/kafka/messages.h"
#include "core/kafka/writer.h"
#include "core/server/server.h"
#include "tests/support/loopback_server.h"

namespace {

using namespace lockstep;
using kafka::MessageList;

constexpr size_t kStepsMax = 64;

class Input {
 public:
  explicit Input(std::string_view bytes) : left_(bytes) {}
  bool empty() const { return left_.empty(); }
  uint8_t Byte() {
    if (left_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(left_.front());
    left_.remove_prefix(1);
    return byte;
  }
  std::string_view Piece() {
    const size_t size = static_cast<size_t>(Byte()) << 8 | Byte();
    const std::string_view piece = left_.substr(0, size);
    left_.remove_prefix(piece.size());
    return piece;
  }

 private:
  std::string_view left_;
};

std::string Joined(const std::vector<Bytes>& slices) {
  std::string all;
  for (const Bytes& slice : slices) all += slice.view();
  return all;
}

std::string Framed(std::string_view content) {
  std::string frame(4, '\0');
  frame[1] = static_cast<char>(content.size() >> 16);
  frame[2] = static_cast<char>(content.size() >> 8);
  frame[3] = static_cast<char>(content.size());
  return frame.append(content);
}

// A right header, and the fields as they are.
template <typename Request>
std::string RequestOf(std::string_view fields, int16_t version) {
  kafka::Writer writer;
  Encode(kafka::RequestHeader{Request::kApi, version, 1, "fuzz"}, &writer);
  return Framed(Joined(writer.Finish()).append(fields));
}

template <typename Message>
constexpr bool kIsRequest = std::string_view(Message::kName).ends_with("Request");

template <typename... Message>
std::string RequestOfList(MessageList<Message...>, uint8_t api, uint8_t version,
                          std::string_view fields) {
  constexpr size_t kRequests = (size_t{kIsRequest<Message>} + ...);
  std::string bytes;
  size_t index = 0;
  const auto one = [&]<typename M>() {
    if constexpr (kIsRequest<M>) {
      constexpr int kVersions = M::kVersionMax - M::kVersionMin + 1;
      if (index++ != api % kRequests) return;
      bytes = RequestOf<M>(fields, static_cast<int16_t>(M::kVersionMin + version % kVersions));
    }
  };
  (one.template operator()<Message>(), ...);
  return bytes;
}

class World {
 public:
  World() {
    LS_CHECK(host_.RunUntil(
        [&] { return host_.server().broker()->broker().metadata().brokers().size() == 1; }));
    witness_ = host_.Accept(server::LinkKind::kBroker);  // before, it would have been refused
    kafka::CreateTopicsRequest create;
    create.topics.push_back({.name = "t", .num_partitions = 1, .replication_factor = 1});
    LS_CHECK(!Ask(Joined(kafka::EncodeRequest(create, 5, 1, "witness"))).empty());
  }

  void Play(Input input) {
    for (size_t step = 0; step < kStepsMax && !input.empty(); ++step) {
      switch (input.Byte() % 5) {
        case 0: {
          const uint8_t api = input.Byte();
          const uint8_t version = input.Byte();
          Write(RequestOfList(kafka::AllMessages(), api, version, input.Piece()));
          break;
        }
        case 1:
          Write(Framed(input.Piece()));
          break;
        case 2:
          Write(std::string(input.Piece()));
          break;
        case 3:
          used_ = input.Byte() % clients_.size();
          break;
        case 4:
          host_.Run(Milliseconds(10) * input.Byte());
          break;
      }
    }
    // A client that has done nothing wrong.
    LS_CHECK(!host_.closed(witness_));
    LS_CHECK(
        !Ask(Joined(kafka::EncodeRequest(kafka::ApiVersionsRequest(), 0, 1, "witness"))).empty());
    LS_CHECK(host_.fatal().empty());
  }

 private:
  // One that was closed is opened again.
  void Write(const std::string& bytes) {
    std::optional<ConnectionId>& client = clients_[used_];
    if (!client || host_.closed(*client)) client = host_.Accept(server::LinkKind::kBroker);
    host_.Step(server::ReceivedBytes{*client, Bytes::Copy(bytes)});
    host_.Run(Milliseconds(1));
  }
  std::string Ask(const std::string& request) {
    host_.Step(server::ReceivedBytes{witness_, Bytes::Copy(request)});
    std::string answer;
    host_.RunUntil([&] {
      answer = host_.TakeSent(witness_);
      return !answer.empty() || host_.closed(witness_);
    });
    return answer;
  }

  server::LoopbackServer host_;
  ConnectionId witness_;
  std::array<std::optional<ConnectionId>, 4> clients_;
  size_t used_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  World world;
  world.Play(Input({reinterpret_cast<const char*>(data), size}));
  return 0;
}
