// A frame of Kafka's protocol: any message in any version, and requests by their header. What
// decodes is encoded again, and the same comes back.
//
// The first byte chooses a message of the list, or the header; the second one its version.
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/kafka/frame.h"
#include "core/kafka/messages.h"

namespace {

using lockstep::Bytes;
using namespace lockstep::kafka;

constexpr size_t kMemoryBytesMax = size_t{1} << 20;

Bytes Joined(std::vector<Bytes> slices) { return Records(std::move(slices)).Joined(); }

// Whatever the bytes say: the loops over a decoded message are bounded by them, too.
template <typename Message>
void RoundTrip(const Bytes& body, int16_t version) {
  Reader reader(body, kMemoryBytesMax);
  Message message;
  if (!Decode(&reader, version, &message).ok()) return;
  Reader again_reader(Joined(EncodeBody(message, version)), kMemoryBytesMax);
  Message again;
  LS_CHECK(Decode(&again_reader, version, &again).ok());
  LS_CHECK_EQ(again_reader.remaining(), size_t{0});
  LS_CHECK(again == message);
}

template <typename... Message>
void RoundTripOf(MessageList<Message...>, size_t chosen, uint8_t version, const Bytes& body) {
  size_t index = 0;
  const auto one = [&]<typename M>() {
    constexpr int kVersions = M::kVersionMax - M::kVersionMin + 1;
    if (index++ == chosen) {
      RoundTrip<M>(body, static_cast<int16_t>(M::kVersionMin + version % kVersions));
    }
  };
  (one.template operator()<Message>(), ...);
}

template <typename... Message>
void RequestBody(MessageList<Message...>, const RequestHeader& header, const Bytes& body) {
  const auto one = [&]<typename M>() {
    if constexpr (requires { M::kApi; }) {
      if (M::kApi == header.api_key) RoundTrip<M>(body, header.api_version);
    }
  };
  (one.template operator()<Message>(), ...);
}

void WholeFrame(const Bytes& frame) {
  Reader reader(frame, kMemoryBytesMax);
  RequestHeader header;
  if (!Decode(&reader, &header).ok()) return;
  const Bytes body = frame.Slice(reader.position());
  Writer writer;
  Encode(header, &writer);
  Reader again_reader(Joined(writer.Finish()), kMemoryBytesMax);
  RequestHeader again;
  LS_CHECK(Decode(&again_reader, &again).ok());
  LS_CHECK(again == header);
  RequestBody(AllMessages(), header, body);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const Bytes body = Bytes::Copy({reinterpret_cast<const char*>(data) + 2, size - 2});
  RoundTripOf(AllMessages(), data[0], data[1], body);
  if (data[0] == 0xff) WholeFrame(body);
  return 0;
}
