#include "core/server/ping_payload.h"

#include <cstring>

namespace lockstep::server {
namespace {

// kind:u8, then for all but kNoState digest_version:u8 zxid:u64 digest:u64, little-endian. Then in
// an answer the touched sessions, in StateDiffers outvoted:u8.
enum class Kind : uint8_t {
  kNoState = 0,
  kState = 1,
  kStateDiffers = 2,
};
constexpr size_t kStateSize = 17;

char* PutU64(uint64_t value, char* to) {
  for (int i = 0; i < 8; ++i) *to++ = static_cast<char>(value >> (8 * i));
  return to;
}

uint64_t GetU64(const char* from) {
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) {
    value |= static_cast<uint64_t>(static_cast<unsigned char>(from[i])) << (8 * i);
  }
  return value;
}

char* PutState(Kind kind, const StateDigest& state, char* to) {
  *to++ = static_cast<char>(kind);
  *to++ = static_cast<char>(kDigestVersion);
  to = PutU64(state.zxid.Packed(), to);
  return PutU64(state.digest, to);
}

// Requires: kStateSize bytes after the kind.
uint8_t GetState(const Bytes& bytes, StateDigest* state) {
  state->zxid = Zxid::FromPacked(GetU64(bytes.data() + 2));
  state->digest = GetU64(bytes.data() + 10);
  return static_cast<uint8_t>(bytes.data()[1]);
}

}  // namespace

Bytes EncodePingAnswer(const PingAnswer& answer) {
  const size_t head = 1 + (answer.state ? kStateSize : 0);
  return Bytes::Build(head + answer.touched.size(), [&](char* to) {
    if (answer.state) {
      to = PutState(Kind::kState, *answer.state, to);
    } else {
      *to++ = static_cast<char>(Kind::kNoState);
    }
    if (!answer.touched.empty()) {
      std::memcpy(to, answer.touched.data(), answer.touched.size());
    }
  });
}

Bytes EncodeStateDiffers(const StateDiffers& word) {
  return Bytes::Build(1 + kStateSize + 1, [&](char* to) {
    to = PutState(Kind::kStateDiffers, word.state, to);
    *to = word.outvoted ? 1 : 0;
  });
}

absl::StatusOr<PingAnswer> DecodePingAnswer(const Bytes& bytes) {
  PingAnswer answer;
  if (bytes.empty()) return answer;
  switch (static_cast<Kind>(bytes.data()[0])) {
    case Kind::kNoState:
      answer.touched = bytes.Slice(1);
      return answer;
    case Kind::kState: {
      if (bytes.size() < 1 + kStateSize) return absl::InvalidArgumentError("ping: cut short");
      StateDigest state;
      if (GetState(bytes, &state) == kDigestVersion) answer.state = state;
      answer.touched = bytes.Slice(1 + kStateSize);
      return answer;
    }
    case Kind::kStateDiffers:
      break;
  }
  return absl::InvalidArgumentError("ping: no answer");
}

absl::StatusOr<StateDiffers> DecodeStateDiffers(const Bytes& bytes) {
  if (bytes.size() != 1 + kStateSize + 1 ||
      static_cast<Kind>(bytes.data()[0]) != Kind::kStateDiffers) {
    return absl::InvalidArgumentError("ping: not the word of a leader");
  }
  StateDiffers word;
  if (GetState(bytes, &word.state) != kDigestVersion) {
    return absl::InvalidArgumentError("ping: a digest of another version");
  }
  const uint8_t outvoted = static_cast<uint8_t>(bytes.data()[1 + kStateSize]);
  if (outvoted > 1) return absl::InvalidArgumentError("ping: field out of range");
  word.outvoted = outvoted == 1;
  return word;
}

}  // namespace lockstep::server
