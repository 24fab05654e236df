#include "core/wire/codec.h"

#include <flatbuffers/flatbuffers.h>

#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "core/base/check.h"
#include "lockstep_generated.h"

namespace lockstep::wire {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

// ---- Encoding ----------------------------------------------------------------------------------

// Gives the builder a place on the stack, which all headers but a long AckEpoch fit in: messages
// are encoded several times per transaction.
class InlineAllocator final : public flatbuffers::Allocator {
 public:
  static constexpr size_t kInlineBytes = 256;

  uint8_t* allocate(size_t size) override {
    if (size <= kInlineBytes && !inline_used_) {
      inline_used_ = true;
      return inline_;
    }
    return static_cast<uint8_t*>(::operator new(size));
  }
  void deallocate(uint8_t* data, size_t) override {
    if (data == inline_) {
      inline_used_ = false;
    } else {
      ::operator delete(data);
    }
  }

 private:
  alignas(16) uint8_t inline_[kInlineBytes];
  bool inline_used_ = false;
};

schema::Zxid ToSchema(Zxid zxid) { return {zxid.epoch.value, zxid.counter}; }

uint8_t ToSchema(ServerId server) {
  LS_CHECK(server);
  LS_CHECK_LE(server.value, kServerIdMax);
  return static_cast<uint8_t>(server.value);
}

// Builds a header with `build(FlatBufferBuilder&)` and appends the frame.
template <typename Build>
void Append(Kind kind, const Bytes& payload, std::vector<Bytes>* out, Build build) {
  InlineAllocator allocator;
  FlatBufferBuilder builder(InlineAllocator::kInlineBytes, &allocator);
  builder.Finish(build(builder));
  out->push_back(FrameStart(static_cast<uint8_t>(kind), builder.GetBufferPointer(),
                            builder.GetSize(), payload));
  if (!payload.empty()) out->push_back(payload);
}

struct Encoder {
  std::vector<Bytes>* out;

  void operator()(const zab::FollowerInfo& m) const {
    Append(Kind::kFollowerInfo, {}, out, [&](FlatBufferBuilder& b) {
      return schema::CreateFollowerInfo(b, ToSchema(m.server), m.accepted_epoch.value, m.votes);
    });
  }
  void operator()(const zab::LeaderInfo& m) const {
    LS_CHECK_GT(m.epoch.value, 0u);
    Append(Kind::kLeaderInfo, {}, out, [&](FlatBufferBuilder& b) {
      return schema::CreateLeaderInfo(b, m.epoch.value, m.learns);
    });
  }
  void operator()(const zab::AckEpoch& m) const {
    LS_CHECK_LE(m.epoch_ends.size(), kEpochEndsMax);
    Append(Kind::kAckEpoch, {}, out, [&](FlatBufferBuilder& b) {
      Offset<flatbuffers::Vector<const schema::Zxid*>> ends;
      if (!m.epoch_ends.empty()) {
        schema::Zxid* to = nullptr;
        ends = b.CreateUninitializedVectorOfStructs(m.epoch_ends.size(), &to);
        for (Zxid end : m.epoch_ends) *to++ = ToSchema(end);
      }
      const schema::Zxid last = ToSchema(m.last_zxid);
      flatbuffers::Optional<uint32_t> current;
      if (m.current_epoch) current = m.current_epoch->value;
      return schema::CreateAckEpoch(b, current, &last, ends);
    });
  }
  void operator()(const zab::Diff& m) const {
    const schema::Zxid last = ToSchema(m.last_zxid);
    Append(Kind::kDiff, {}, out,
           [&](FlatBufferBuilder& b) { return schema::CreateDiff(b, &last); });
  }
  void operator()(const zab::Trunc& m) const {
    const schema::Zxid to = ToSchema(m.to);
    const schema::Zxid last = ToSchema(m.last_zxid);
    Append(Kind::kTrunc, {}, out,
           [&](FlatBufferBuilder& b) { return schema::CreateTrunc(b, &to, &last); });
  }
  void operator()(const zab::Snap& m) const {
    const schema::Zxid zxid = ToSchema(m.zxid);
    const schema::Zxid last = ToSchema(m.last_zxid);
    Append(Kind::kSnap, {}, out,
           [&](FlatBufferBuilder& b) { return schema::CreateSnap(b, &zxid, &last); });
  }
  void operator()(const zab::SnapChunk& m) const {
    Append(Kind::kSnapChunk, m.data, out,
           [&](FlatBufferBuilder& b) { return schema::CreateSnapChunk(b, m.last); });
  }
  void operator()(const zab::NewLeader& m) const {
    LS_CHECK_GT(m.epoch.value, 0u);
    Append(Kind::kNewLeader, {}, out,
           [&](FlatBufferBuilder& b) { return schema::CreateNewLeader(b, m.epoch.value); });
  }
  void operator()(const zab::AckNewLeader& m) const {
    LS_CHECK_GT(m.epoch.value, 0u);
    Append(Kind::kAckNewLeader, {}, out,
           [&](FlatBufferBuilder& b) { return schema::CreateAckNewLeader(b, m.epoch.value); });
  }
  void operator()(const zab::UpToDate& m) const {
    const schema::Zxid committed = ToSchema(m.committed);
    Append(Kind::kUpToDate, {}, out,
           [&](FlatBufferBuilder& b) { return schema::CreateUpToDate(b, &committed); });
  }
  void operator()(const zab::Proposal& m) const {
    const schema::Zxid zxid = ToSchema(m.zxid);
    const schema::Zxid previous = ToSchema(m.previous);
    Append(Kind::kProposal, m.transaction, out,
           [&](FlatBufferBuilder& b) { return schema::CreateProposal(b, &zxid, &previous); });
  }
  void operator()(const zab::Ack& m) const {
    const schema::Zxid zxid = ToSchema(m.zxid);
    Append(Kind::kAck, {}, out, [&](FlatBufferBuilder& b) { return schema::CreateAck(b, &zxid); });
  }
  void operator()(const zab::Commit& m) const {
    const schema::Zxid zxid = ToSchema(m.zxid);
    Append(Kind::kCommit, {}, out,
           [&](FlatBufferBuilder& b) { return schema::CreateCommit(b, &zxid); });
  }
  void operator()(const zab::Ping& m) const {
    Append(Kind::kPing, m.payload, out, [](FlatBufferBuilder& b) { return schema::CreatePing(b); });
  }
  void operator()(const zab::Request& m) const {
    Append(Kind::kRequest, m.payload, out,
           [](FlatBufferBuilder& b) { return schema::CreateRequest(b); });
  }
  void operator()(const zab::Reply& m) const {
    Append(Kind::kReply, m.payload, out,
           [](FlatBufferBuilder& b) { return schema::CreateReply(b); });
  }
};

// ---- Decoding ----------------------------------------------------------------------------------

Kind KindOf(const Frame& frame) { return static_cast<Kind>(frame.kind); }

absl::Status Bad(const Frame& frame, const std::string& why) {
  return absl::InvalidArgumentError(std::string("bad message ") + ToString(KindOf(frame)) + " (" +
                                    std::to_string(frame.kind) + "): " + why);
}

constexpr bool HasPayload(Kind kind) {
  return kind == Kind::kSnapChunk || kind == Kind::kProposal || kind == Kind::kPing ||
         kind == Kind::kRequest || kind == Kind::kReply;
}

// A copy of a header that fields can be read from: frames lie in received bytes at any address, and
// FlatBuffers reads its integers in place. Left uninitialized; only what is copied is touched.
struct AlignedHeader {
  alignas(8) uint8_t bytes[kHeaderBytesMax];
};

// The verified table of a header, in `*copy`; null if the bytes are not a FlatBuffer of that type,
// lack a required field, or come with a payload that this kind has not.
template <typename Table>
const Table* Verified(const Frame& frame, AlignedHeader* copy) {
  if (frame.header.empty() || frame.header.size() > kHeaderBytesMax) return nullptr;
  if (!frame.payload.empty() && !HasPayload(KindOf(frame))) return nullptr;
  std::memcpy(copy->bytes, frame.header.data(), frame.header.size());
  // All our headers are one flat table.
  flatbuffers::Verifier verifier(copy->bytes, frame.header.size(), /*max_depth=*/2,
                                 /*max_tables=*/1);
  if (!verifier.VerifyBuffer<Table>(nullptr)) return nullptr;
  return flatbuffers::GetRoot<Table>(copy->bytes);
}

Zxid FromSchema(const schema::Zxid* zxid) { return {{zxid->epoch()}, zxid->counter()}; }

absl::Status NotAHeader(const Frame& frame) { return Bad(frame, "malformed header"); }
absl::Status NoServer(const Frame& frame) { return Bad(frame, "server id 0"); }
absl::Status NoEpoch(const Frame& frame) { return Bad(frame, "epoch 0"); }

// One function per table, found by its type.
absl::StatusOr<zab::Message> FromTable(const Frame& frame, const schema::FollowerInfo& m) {
  if (m.server() == 0) return NoServer(frame);
  return zab::FollowerInfo{
      .server = {m.server()}, .accepted_epoch = {m.accepted_epoch()}, .votes = m.votes()};
}
absl::StatusOr<zab::Message> FromTable(const Frame& frame, const schema::LeaderInfo& m) {
  if (m.epoch() == 0) return NoEpoch(frame);
  return zab::LeaderInfo{.epoch = {m.epoch()}, .learns = m.learns()};
}
absl::StatusOr<zab::Message> FromTable(const Frame& frame, const schema::AckEpoch& m) {
  zab::AckEpoch ack;
  if (m.current_epoch().has_value()) ack.current_epoch = Epoch{m.current_epoch().value()};
  ack.last_zxid = FromSchema(m.last_zxid());
  if (m.epoch_ends() == nullptr) return ack;
  if (m.epoch_ends()->size() > kEpochEndsMax) return Bad(frame, "too many epoch ends");
  ack.epoch_ends.reserve(m.epoch_ends()->size());
  for (const schema::Zxid* end : *m.epoch_ends()) {
    const Zxid zxid = FromSchema(end);
    if (!ack.epoch_ends.empty() && zxid.epoch <= ack.epoch_ends.back().epoch) {
      return Bad(frame, "epoch ends are not ascending");
    }
    ack.epoch_ends.push_back(zxid);
  }
  if (!ack.epoch_ends.empty() && ack.epoch_ends.back() != ack.last_zxid) {
    return Bad(frame, "epoch ends do not end with the last zxid");
  }
  return ack;
}
absl::StatusOr<zab::Message> FromTable(const Frame&, const schema::Diff& m) {
  return zab::Diff{.last_zxid = FromSchema(m.last_zxid())};
}
absl::StatusOr<zab::Message> FromTable(const Frame&, const schema::Trunc& m) {
  return zab::Trunc{.to = FromSchema(m.to()), .last_zxid = FromSchema(m.last_zxid())};
}
absl::StatusOr<zab::Message> FromTable(const Frame&, const schema::Snap& m) {
  return zab::Snap{.zxid = FromSchema(m.zxid()), .last_zxid = FromSchema(m.last_zxid())};
}
absl::StatusOr<zab::Message> FromTable(const Frame& frame, const schema::SnapChunk& m) {
  return zab::SnapChunk{.data = frame.payload, .last = m.last()};
}
absl::StatusOr<zab::Message> FromTable(const Frame& frame, const schema::NewLeader& m) {
  if (m.epoch() == 0) return NoEpoch(frame);
  return zab::NewLeader{.epoch = {m.epoch()}};
}
absl::StatusOr<zab::Message> FromTable(const Frame& frame, const schema::AckNewLeader& m) {
  if (m.epoch() == 0) return NoEpoch(frame);
  return zab::AckNewLeader{.epoch = {m.epoch()}};
}
absl::StatusOr<zab::Message> FromTable(const Frame&, const schema::UpToDate& m) {
  return zab::UpToDate{.committed = FromSchema(m.committed())};
}
absl::StatusOr<zab::Message> FromTable(const Frame& frame, const schema::Proposal& m) {
  return zab::Proposal{.zxid = FromSchema(m.zxid()),
                       .previous = FromSchema(m.previous()),
                       .transaction = frame.payload};
}
absl::StatusOr<zab::Message> FromTable(const Frame&, const schema::Ack& m) {
  return zab::Ack{.zxid = FromSchema(m.zxid())};
}
absl::StatusOr<zab::Message> FromTable(const Frame&, const schema::Commit& m) {
  return zab::Commit{.zxid = FromSchema(m.zxid())};
}
absl::StatusOr<zab::Message> FromTable(const Frame& frame, const schema::Ping&) {
  return zab::Ping{.payload = frame.payload};
}
absl::StatusOr<zab::Message> FromTable(const Frame& frame, const schema::Request&) {
  return zab::Request{.payload = frame.payload};
}
absl::StatusOr<zab::Message> FromTable(const Frame& frame, const schema::Reply&) {
  return zab::Reply{.payload = frame.payload};
}

template <typename Table>
absl::StatusOr<zab::Message> Decode(const Frame& frame) {
  AlignedHeader copy;
  const Table* table = Verified<Table>(frame, &copy);
  if (table == nullptr) return NotAHeader(frame);
  return FromTable(frame, *table);
}

}  // namespace

const char* ToString(Kind kind) {
  switch (kind) {
    case Kind::kHello:
      return "Hello";
    case Kind::kNotification:
      return "Notification";
    case Kind::kFollowerInfo:
      return "FollowerInfo";
    case Kind::kLeaderInfo:
      return "LeaderInfo";
    case Kind::kAckEpoch:
      return "AckEpoch";
    case Kind::kDiff:
      return "Diff";
    case Kind::kTrunc:
      return "Trunc";
    case Kind::kSnap:
      return "Snap";
    case Kind::kSnapChunk:
      return "SnapChunk";
    case Kind::kNewLeader:
      return "NewLeader";
    case Kind::kAckNewLeader:
      return "AckNewLeader";
    case Kind::kUpToDate:
      return "UpToDate";
    case Kind::kProposal:
      return "Proposal";
    case Kind::kAck:
      return "Ack";
    case Kind::kCommit:
      return "Commit";
    case Kind::kPing:
      return "Ping";
    case Kind::kRequest:
      return "Request";
    case Kind::kReply:
      return "Reply";
    case Kind::kReplicaFetchRequest:
      return "ReplicaFetchRequest";
    case Kind::kReplicaFetchResponse:
      return "ReplicaFetchResponse";
  }
  return "unknown";
}

void EncodeHello(const Hello& hello, std::vector<Bytes>* out) {
  Append(Kind::kHello, {}, out, [&](FlatBufferBuilder& b) {
    return schema::CreateHello(b, ToSchema(hello.from), ToSchema(hello.to), hello.ensemble);
  });
}

void EncodeNotification(const zab::Notification& n, std::vector<Bytes>* out) {
  const schema::Zxid last = ToSchema(n.vote.last_zxid);
  Append(Kind::kNotification, {}, out, [&](FlatBufferBuilder& b) {
    return schema::CreateNotification(b, static_cast<schema::State>(n.state), n.round,
                                      ToSchema(n.vote.leader), n.vote.current_epoch.value, &last,
                                      n.novice, n.heard, n.accepted_epoch.value);
  });
}

void EncodeMessage(const zab::Message& message, std::vector<Bytes>* out) {
  std::visit(Encoder{out}, message);
}

absl::StatusOr<Hello> DecodeHello(const Frame& frame) {
  if (KindOf(frame) != Kind::kHello) return Bad(frame, "expected a Hello");
  AlignedHeader copy;
  const auto* m = Verified<schema::Hello>(frame, &copy);
  if (m == nullptr) return NotAHeader(frame);
  if (m->from() == 0 || m->to() == 0) return NoServer(frame);
  return Hello{.from = {m->from()}, .to = {m->to()}, .ensemble = m->ensemble()};
}

absl::StatusOr<zab::Notification> DecodeNotification(const Frame& frame) {
  if (KindOf(frame) != Kind::kNotification) return Bad(frame, "expected a Notification");
  AlignedHeader copy;
  const auto* m = Verified<schema::Notification>(frame, &copy);
  if (m == nullptr) return NotAHeader(frame);
  // FlatBuffers does not check the values of enums.
  if (m->state() > schema::State::MAX) return Bad(frame, "unknown server state");
  if (m->leader() == 0) return NoServer(frame);
  return zab::Notification{.state = static_cast<zab::ServerState>(m->state()),
                           .round = m->round(),
                           .vote = {.current_epoch = {m->current_epoch()},
                                    .last_zxid = FromSchema(m->last_zxid()),
                                    .leader = {m->leader()}},
                           .novice = m->novice(),
                           .heard = m->heard(),
                           .accepted_epoch = {m->accepted_epoch()}};
}

absl::StatusOr<zab::Message> DecodeMessage(const Frame& frame) {
  switch (KindOf(frame)) {
    case Kind::kFollowerInfo:
      return Decode<schema::FollowerInfo>(frame);
    case Kind::kLeaderInfo:
      return Decode<schema::LeaderInfo>(frame);
    case Kind::kAckEpoch:
      return Decode<schema::AckEpoch>(frame);
    case Kind::kDiff:
      return Decode<schema::Diff>(frame);
    case Kind::kTrunc:
      return Decode<schema::Trunc>(frame);
    case Kind::kSnap:
      return Decode<schema::Snap>(frame);
    case Kind::kSnapChunk:
      return Decode<schema::SnapChunk>(frame);
    case Kind::kNewLeader:
      return Decode<schema::NewLeader>(frame);
    case Kind::kAckNewLeader:
      return Decode<schema::AckNewLeader>(frame);
    case Kind::kUpToDate:
      return Decode<schema::UpToDate>(frame);
    case Kind::kProposal:
      return Decode<schema::Proposal>(frame);
    case Kind::kAck:
      return Decode<schema::Ack>(frame);
    case Kind::kCommit:
      return Decode<schema::Commit>(frame);
    case Kind::kPing:
      return Decode<schema::Ping>(frame);
    case Kind::kRequest:
      return Decode<schema::Request>(frame);
    case Kind::kReply:
      return Decode<schema::Reply>(frame);
    case Kind::kHello:
    case Kind::kNotification:
    case Kind::kReplicaFetchRequest:
    case Kind::kReplicaFetchResponse:
      break;
  }
  return Bad(frame, "not a message of a channel");
}

}  // namespace lockstep::wire
