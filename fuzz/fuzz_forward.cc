// What servers say to each other about clients: bytes that decode must encode to themselves.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "core/coordination/forward.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  using namespace lockstep::coordination;
  const Bytes bytes = Bytes::Copy(std::string_view(reinterpret_cast<const char*>(data), size));
  if (auto request = DecodeForwarded(bytes); request.ok()) {
    LS_CHECK(EncodeForwarded(*request) == bytes);
  }
  if (auto answer = DecodeForwardedAnswer(bytes); answer.ok()) {
    LS_CHECK(EncodeForwardedAnswer(*answer) == bytes);
  }
  if (auto sessions = DecodeTouched(bytes); sessions.ok()) {
    LS_CHECK(EncodeTouched(*sessions) == bytes);
  }
  return 0;
}
