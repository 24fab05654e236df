// Bytes from a peer: cut into frames, decoded, encoded again, and the same message comes back.
//
// The first byte picks the way in. A fuzzer does not guess a CRC-32C, so most inputs go past the
// frame reader, as a header and a payload of some kind; the others are a stream, cut in two.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/check.h"
#include "core/wire/codec.h"
#include "core/wire/frame.h"
#include "core/wire/replication_codec.h"

namespace {

using lockstep::Bytes;
using namespace lockstep::wire;

constexpr uint32_t kLengthMax = 1 << 16;

std::string Join(const std::vector<Bytes>& slices) {
  std::string joined;
  for (const Bytes& slice : slices) joined += slice.view();
  return joined;
}

Frame OnlyFrame(const std::string& bytes) {
  FrameReader reader(1 << 24, kBrokerHeaderBytesMax);
  reader.Add(Bytes::Copy(bytes));
  auto frame = reader.Next();
  LS_CHECK(frame.ok() && frame->has_value());
  LS_CHECK_EQ(reader.buffered(), size_t{0});
  return **frame;
}

// What decodes once, encodes; and its encoding is a fixed point.
template <typename Decode, typename Encode>
void RoundTrip(const Frame& frame, Decode decode, Encode encode) {
  auto message = decode(frame);
  if (!message.ok()) return;
  std::vector<Bytes> once;
  encode(*message, &once);
  auto again = decode(OnlyFrame(Join(once)));
  LS_CHECK(again.ok());
  std::vector<Bytes> twice;
  encode(*again, &twice);
  LS_CHECK(Join(once) == Join(twice));
}

void DecodeAll(const Frame& frame) {
  RoundTrip(frame, DecodeHello, EncodeHello);
  RoundTrip(frame, DecodeNotification, EncodeNotification);
  RoundTrip(frame, DecodeMessage, EncodeMessage);
  RoundTrip(frame, DecodeReplicationMessage, EncodeReplicationMessage);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 2, size - 2);
  if (data[0] == 0) {
    const Bytes stream = Bytes::Copy(rest);
    const size_t cut = stream.size() * data[1] / 256;
    FrameReader reader(kLengthMax, kBrokerHeaderBytesMax);
    reader.Add(stream.Slice(0, cut));
    for (int part = 0; part < 2; ++part) {
      while (true) {
        auto frame = reader.Next();
        if (!frame.ok()) return 0;
        if (!frame->has_value()) break;
        DecodeAll(**frame);
      }
      LS_CHECK_LE(reader.buffered(), size_t{kLengthMax} + stream.size());
      if (part == 0) reader.Add(stream.Slice(cut));
    }
  } else {
    const size_t header = rest.size() * data[0] / 255;
    DecodeAll({.kind = data[1],
               .header = Bytes::Copy(rest.substr(0, header)),
               .payload = Bytes::Copy(rest.substr(header))});
  }
  return 0;
}
