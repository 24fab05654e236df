// The records of /brokers: operators write there with any tool, and a broker reads it.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "core/replication/json.h"
#include "core/replication/registry.h"
#include "core/replication/state_change_queue.h"

namespace lockstep::replication {
namespace {

// What is read is written so that it is read the same again.
template <typename Decode, typename EncodeFn>
void RoundTrip(std::string_view text, Decode decode, EncodeFn encode) {
  const auto record = decode(text);
  if (!record.ok()) return;
  const auto again = decode(encode(*record));
  LS_CHECK(again.ok());
  LS_CHECK(*again == *record);
}

}  // namespace
}  // namespace lockstep::replication

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep::replication;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto encode = [](const auto& record) { return Encode(record); };
  RoundTrip(text, Json::Parse, [](const Json& json) { return json.ToString(); });
  RoundTrip(text, DecodeBroker, encode);
  RoundTrip(text, DecodeTopic, encode);
  RoundTrip(text, DecodeReplicas, encode);
  RoundTrip(text, DecodeIsr, encode);
  RoundTrip(text, DecodeLeader, encode);
  RoundTrip(text, DecodeReassigned, encode);
  RoundTrip(text, DecodeLineage, encode);
  RoundTrip(text, DecodeStateChanges, EncodeStateChanges);
  ParseNode(text);
  return 0;
}
