#include "core/server/foreign_protocol.h"

#include <cstdint>

#include "core/records/big_endian.h"
#include "core/server/four_letter.h"

namespace lockstep::server {
namespace {

using records::LoadBe;

// A connect request of ZooKeeper has no type before it: protocol version, zxid, timeout, session,
// and a password, which has 16 bytes; from 3.4 on one byte more.
constexpr size_t kPasswordAt = 28;
constexpr uint32_t kConnectBytes = 44;
// Kafka's requests begin with an API and its version. Both are small, for many years to come.
constexpr int16_t kApiMax = 200;
constexpr int16_t kApiVersionMax = 50;

const char* OtherThanBoth(std::string_view first) {
  if (first.starts_with("\x16\x03")) return "it speaks TLS, which is not offered";
  for (const char* method : {"GET ", "POST", "PUT ", "HEAD"}) {
    if (first.starts_with(method)) return "it speaks HTTP, which is not offered";
  }
  return nullptr;
}

}  // namespace

const char* ForeignToZooKeeper(std::string_view first) {
  if (first.size() >= 8) {
    // In a connect request this is the protocol's version, which is 0.
    const auto api = LoadBe<int16_t>(first.data() + 4);
    const auto version = LoadBe<int16_t>(first.data() + 6);
    if (api > 0 && api <= kApiMax && version >= 0 && version <= kApiVersionMax) {
      return "it speaks Kafka's protocol, and this is the port of ZooKeeper's clients "
             "(clientPort); "
             "Kafka's clients connect to what listeners says";
    }
  }
  return OtherThanBoth(first);
}

const char* ForeignToKafka(std::string_view first) {
  constexpr const char* kZooKeeper =
      "it speaks ZooKeeper's protocol, and this is the port of Kafka's clients (listeners); "
      "ZooKeeper's clients connect to clientPort";
  if (first.size() >= 4 && IsFourLetterWord(first.substr(0, 4))) return kZooKeeper;
  if (first.size() >= kPasswordAt + 4) {
    const auto length = LoadBe<uint32_t>(first.data());
    if ((length == kConnectBytes || length == kConnectBytes + 1) &&
        LoadBe<uint32_t>(first.data() + 4) == 0 &&
        LoadBe<uint32_t>(first.data() + kPasswordAt) == 16) {
      return kZooKeeper;
    }
  }
  return OtherThanBoth(first);
}

}  // namespace lockstep::server
