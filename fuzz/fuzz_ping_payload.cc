// What servers say with their pings: bytes that decode must encode to themselves.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "core/server/ping_payload.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  using namespace lockstep::server;
  const Bytes bytes = Bytes::Copy(std::string_view(reinterpret_cast<const char*>(data), size));
  // A state whose digest is of another version is left out; no bytes say as much as one byte.
  if (auto answer = DecodePingAnswer(bytes); answer.ok() && size > 0) {
    const bool left_out = data[0] == 1 && data[1] != kDigestVersion;
    LS_CHECK_EQ(answer->state.has_value(), data[0] == 1 && !left_out);
    if (!left_out) LS_CHECK(EncodePingAnswer(*answer) == bytes);
  }
  if (auto word = DecodeStateDiffers(bytes); word.ok()) {
    LS_CHECK(EncodeStateDiffers(*word) == bytes);
  }
  return 0;
}
