#include "core/coordination/forward.h"

#include <cstring>
#include <utility>

#include "core/base/check.h"

namespace lockstep::coordination {
namespace {

// One byte of kind, then the fields in order, little-endian; a password is one byte of length and
// its bytes; the frame of a request is the rest.
enum class Kind : uint8_t {
  kSession = 1,
  kValidation = 2,
  kRequest = 3,
  kSessionRefused = 4,
  kSessionValidated = 5,
  kConnectionSuperseded = 6,
  kSyncPoint = 7,
};

class Writer {
 public:
  explicit Writer(char* to) : to_(to) {}
  void U8(uint8_t value) { *to_++ = static_cast<char>(value); }
  void U32(uint32_t value) { Integer(value, 4); }
  void U64(uint64_t value) { Integer(value, 8); }
  void Raw(std::string_view bytes) {
    if (!bytes.empty()) std::memcpy(to_, bytes.data(), bytes.size());
    to_ += bytes.size();
  }

 private:
  void Integer(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) *to_++ = static_cast<char>(value >> (8 * i));
  }
  char* to_;
};

// Reads past the end give zeros and are remembered: one check at the end covers all fields.
class Reader {
 public:
  explicit Reader(const Bytes& bytes) : bytes_(bytes) {}
  uint8_t U8() { return static_cast<uint8_t>(Integer(1)); }
  uint32_t U32() { return static_cast<uint32_t>(Integer(4)); }
  uint64_t U64() { return Integer(8); }
  std::string Password() {
    size_t size = U8();
    if (size > kPasswordSize || size > left()) {
      ok_ = false;
      return "";
    }
    std::string text(bytes_.data() + at_, size);
    at_ += size;
    return text;
  }
  bool Bool() {
    uint8_t value = U8();
    if (value > 1) ok_ = false;
    return value == 1;
  }
  Bytes Rest() {
    Bytes rest = bytes_.Slice(at_);
    at_ = bytes_.size();
    return rest;
  }
  // Everything was there, and nothing is left.
  bool complete() const { return ok_ && left() == 0; }

 private:
  size_t left() const { return bytes_.size() - at_; }
  uint64_t Integer(size_t size) {
    if (left() < size) {
      ok_ = false;
      return 0;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i) {
      value |= static_cast<uint64_t>(static_cast<uint8_t>(bytes_.data()[at_ + i])) << (8 * i);
    }
    at_ += size;
    return value;
  }
  const Bytes& bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

void WriteKind(Writer& to, Kind kind) { to.U8(static_cast<uint8_t>(kind)); }

void WritePassword(Writer& to, const std::string& password) {
  LS_CHECK_LE(password.size(), kPasswordSize);
  to.U8(static_cast<uint8_t>(password.size()));
  to.Raw(password);
}

template <typename... F>
struct Overloaded : F... {
  using F::operator()...;
};

}  // namespace

RequestHeader PeekHeader(const Bytes& frame) {
  LS_CHECK_GE(frame.size(), kRequestHeaderSize);
  auto big_endian = [&](size_t at) {
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(frame.data()[at + i]);
    return static_cast<int32_t>(value);
  };
  return {.xid = big_endian(0), .op = static_cast<OpCode>(big_endian(4))};
}

Bytes EncodeForwarded(const Forwarded& request) {
  return std::visit(
      Overloaded{
          [](const ForwardedSession& session) {
            return Bytes::Build(1 + 8 + 8 + 4 + 1 + session.password.size(), [&](char* out) {
              Writer to(out);
              WriteKind(to, Kind::kSession);
              to.U64(session.ticket.value);
              to.U64(static_cast<uint64_t>(session.session.value));
              to.U32(static_cast<uint32_t>(session.timeout_ms));
              WritePassword(to, session.password);
            });
          },
          [](const ForwardedValidation& validation) {
            return Bytes::Build(1 + 8 + 8 + 1 + validation.password.size(), [&](char* out) {
              Writer to(out);
              WriteKind(to, Kind::kValidation);
              to.U64(validation.ticket.value);
              to.U64(static_cast<uint64_t>(validation.session.value));
              WritePassword(to, validation.password);
            });
          },
          [](const ForwardedRequest& request) {
            return Bytes::Build(1 + 8 + 8 + request.frame.size(), [&](char* out) {
              Writer to(out);
              WriteKind(to, Kind::kRequest);
              to.U64(request.ticket.value);
              to.U64(static_cast<uint64_t>(request.session.value));
              to.Raw(request.frame.view());
            });
          },
      },
      request);
}

Bytes EncodeForwardedAnswer(const ForwardedAnswer& answer) {
  return std::visit(Overloaded{
                        [](const SessionRefused& refused) {
                          return Bytes::Build(1 + 8 + 1, [&](char* out) {
                            Writer to(out);
                            WriteKind(to, Kind::kSessionRefused);
                            to.U64(refused.ticket.value);
                            to.U8(refused.full ? 1 : 0);
                          });
                        },
                        [](const SessionValidated& validated) {
                          return Bytes::Build(1 + 8 + 4, [&](char* out) {
                            Writer to(out);
                            WriteKind(to, Kind::kSessionValidated);
                            to.U64(validated.ticket.value);
                            to.U32(static_cast<uint32_t>(validated.timeout_ms));
                          });
                        },
                        [](const ConnectionSuperseded& superseded) {
                          return Bytes::Build(1 + 8, [&](char* out) {
                            Writer to(out);
                            WriteKind(to, Kind::kConnectionSuperseded);
                            to.U64(superseded.ticket.value);
                          });
                        },
                        [](const SyncPoint& sync) {
                          return Bytes::Build(1 + 8 + 4 + 8, [&](char* out) {
                            Writer to(out);
                            WriteKind(to, Kind::kSyncPoint);
                            to.U64(sync.ticket.value);
                            to.U32(static_cast<uint32_t>(sync.xid));
                            to.U64(sync.zxid.Packed());
                          });
                        },
                    },
                    answer);
}

Bytes EncodeTouched(const std::vector<SessionId>& sessions) {
  return Bytes::Build(8 * sessions.size(), [&](char* out) {
    Writer to(out);
    for (SessionId session : sessions) to.U64(static_cast<uint64_t>(session.value));
  });
}

absl::StatusOr<Forwarded> DecodeForwarded(const Bytes& bytes) {
  Reader from(bytes);
  Forwarded result;
  switch (static_cast<Kind>(from.U8())) {
    case Kind::kSession: {
      ForwardedSession session;
      session.ticket.value = from.U64();
      session.session.value = static_cast<int64_t>(from.U64());
      session.timeout_ms = static_cast<int32_t>(from.U32());
      session.password = from.Password();
      if (session.timeout_ms <= 0 || !session.session || session.password.size() != kPasswordSize) {
        return absl::InvalidArgumentError("forwarded session: field out of range");
      }
      result = std::move(session);
      break;
    }
    case Kind::kValidation: {
      ForwardedValidation validation;
      validation.ticket.value = from.U64();
      validation.session.value = static_cast<int64_t>(from.U64());
      validation.password = from.Password();
      result = std::move(validation);
      break;
    }
    case Kind::kRequest: {
      ForwardedRequest request;
      request.ticket.value = from.U64();
      request.session.value = static_cast<int64_t>(from.U64());
      request.frame = from.Rest();
      if (request.frame.size() < kRequestHeaderSize) {
        return absl::InvalidArgumentError("forwarded request: no request header");
      }
      result = std::move(request);
      break;
    }
    default:
      return absl::InvalidArgumentError("forwarded request: unknown kind");
  }
  if (!from.complete()) return absl::InvalidArgumentError("forwarded request: bad length");
  return result;
}

absl::StatusOr<ForwardedAnswer> DecodeForwardedAnswer(const Bytes& bytes) {
  Reader from(bytes);
  ForwardedAnswer result;
  switch (static_cast<Kind>(from.U8())) {
    case Kind::kSessionRefused: {
      SessionRefused refused;
      refused.ticket.value = from.U64();
      refused.full = from.Bool();
      result = refused;
      break;
    }
    case Kind::kSessionValidated: {
      SessionValidated validated;
      validated.ticket.value = from.U64();
      validated.timeout_ms = static_cast<int32_t>(from.U32());
      if (validated.timeout_ms <= 0) {
        return absl::InvalidArgumentError("validated session: timeout out of range");
      }
      result = validated;
      break;
    }
    case Kind::kConnectionSuperseded:
      result = ConnectionSuperseded{{from.U64()}};
      break;
    case Kind::kSyncPoint: {
      SyncPoint sync;
      sync.ticket.value = from.U64();
      sync.xid = static_cast<int32_t>(from.U32());
      sync.zxid = Zxid::FromPacked(from.U64());
      result = sync;
      break;
    }
    default:
      return absl::InvalidArgumentError("forwarded answer: unknown kind");
  }
  if (!from.complete()) return absl::InvalidArgumentError("forwarded answer: bad length");
  return result;
}

absl::StatusOr<std::vector<SessionId>> DecodeTouched(const Bytes& bytes) {
  if (bytes.size() % 8 != 0) return absl::InvalidArgumentError("touched sessions: bad length");
  Reader from(bytes);
  std::vector<SessionId> sessions(bytes.size() / 8);
  for (SessionId& session : sessions) session.value = static_cast<int64_t>(from.U64());
  return sessions;
}

}  // namespace lockstep::coordination
