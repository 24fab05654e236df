// Arbitrary peer messages, and what they say, for the tests of this folder.
#pragma once

#include <rapidcheck.h>

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/ids.h"
#include "core/base/zxid.h"
#include "core/wire/codec.h"
#include "core/wire/frame.h"
#include "core/zab/messages.h"

namespace lockstep::wire {

// All fields of a message, payload bytes included: equal texts, equal messages.
inline std::string Describe(const zab::Message& message) {
  std::string text = zab::ToString(message);
  if (const auto* ack = std::get_if<zab::AckEpoch>(&message)) {
    for (Zxid end : ack->epoch_ends) text += " " + end.ToString();
  } else if (const auto* chunk = std::get_if<zab::SnapChunk>(&message)) {
    text += chunk->data.view();
  } else if (const auto* proposal = std::get_if<zab::Proposal>(&message)) {
    text += proposal->transaction.view();
  } else if (const auto* ping = std::get_if<zab::Ping>(&message)) {
    text += ping->payload.view();
  } else if (const auto* request = std::get_if<zab::Request>(&message)) {
    text += request->payload.view();
  } else if (const auto* reply = std::get_if<zab::Reply>(&message)) {
    text += reply->payload.view();
  }
  return text;
}

inline std::string Join(const std::vector<Bytes>& slices) {
  std::string joined;
  for (const Bytes& slice : slices) joined += slice.view();
  return joined;
}

inline std::string Encoded(const zab::Message& message) {
  std::vector<Bytes> slices;
  EncodeMessage(message, &slices);
  return Join(slices);
}

// The one frame that `bytes` are. Fails the test if they are anything else.
inline absl::StatusOr<Frame> OnlyFrame(std::string_view bytes, uint32_t length_max = 1 << 20) {
  FrameReader reader(length_max);
  reader.Add(Bytes::Copy(bytes));
  absl::StatusOr<std::optional<Frame>> frame = reader.Next();
  if (!frame.ok()) return frame.status();
  if (!frame->has_value()) return absl::OutOfRangeError("not a whole frame");
  if (reader.buffered() != 0) return absl::OutOfRangeError("more than one frame");
  return **frame;
}

inline Zxid ArbitraryZxid() {
  return {{*rc::gen::arbitrary<uint32_t>()}, *rc::gen::arbitrary<uint32_t>()};
}
inline Epoch ArbitraryReign() { return {*rc::gen::positive<uint32_t>()}; }
inline ServerId ArbitraryServer() { return {*rc::gen::inRange<uint32_t>(1, kServerIdMax + 1)}; }
inline Bytes ArbitraryPayload() { return Bytes::Copy(*rc::gen::arbitrary<std::string>()); }

inline zab::AckEpoch ArbitraryAckEpoch() {
  zab::AckEpoch ack;
  if (*rc::gen::arbitrary<bool>()) ack.current_epoch = Epoch{*rc::gen::arbitrary<uint32_t>()};
  uint32_t epoch = 0;
  for (uint32_t step : *rc::gen::container<std::vector<uint32_t>>(rc::gen::inRange(1u, 9u))) {
    epoch += step;
    ack.epoch_ends.push_back({{epoch}, *rc::gen::arbitrary<uint32_t>()});
  }
  ack.last_zxid = ack.epoch_ends.empty() ? ArbitraryZxid() : ack.epoch_ends.back();
  return ack;
}

// A message of the alternative `index` of zab::Message, with arbitrary content.
inline zab::Message ArbitraryMessage(size_t index) {
  switch (index) {
    case 0:
      return zab::FollowerInfo{
          ArbitraryServer(), {*rc::gen::arbitrary<uint32_t>()}, *rc::gen::arbitrary<bool>()};
    case 1:
      return zab::LeaderInfo{ArbitraryReign(), *rc::gen::arbitrary<bool>()};
    case 2:
      return ArbitraryAckEpoch();
    case 3:
      return zab::Diff{ArbitraryZxid()};
    case 4:
      return zab::Trunc{ArbitraryZxid(), ArbitraryZxid()};
    case 5:
      return zab::Snap{ArbitraryZxid(), ArbitraryZxid()};
    case 6:
      return zab::SnapChunk{ArbitraryPayload(), *rc::gen::arbitrary<bool>()};
    case 7:
      return zab::NewLeader{ArbitraryReign()};
    case 8:
      return zab::AckNewLeader{ArbitraryReign()};
    case 9:
      return zab::UpToDate{ArbitraryZxid()};
    case 10:
      return zab::Proposal{ArbitraryZxid(), ArbitraryZxid(), ArbitraryPayload()};
    case 11:
      return zab::Ack{ArbitraryZxid()};
    case 12:
      return zab::Commit{ArbitraryZxid()};
    case 13:
      return zab::Ping{ArbitraryPayload()};
    case 14:
      return zab::Request{ArbitraryPayload()};
    default:
      return zab::Reply{ArbitraryPayload()};
  }
}
inline zab::Message ArbitraryMessage() {
  return ArbitraryMessage(*rc::gen::inRange<size_t>(0, std::variant_size_v<zab::Message>));
}

inline zab::Notification ArbitraryNotification() {
  return {.state = static_cast<zab::ServerState>(*rc::gen::inRange(0, 4)),
          .round = *rc::gen::arbitrary<uint64_t>(),
          .vote = {.current_epoch = {*rc::gen::arbitrary<uint32_t>()},
                   .last_zxid = ArbitraryZxid(),
                   .leader = ArbitraryServer()},
          .novice = *rc::gen::arbitrary<uint64_t>(),
          .heard = *rc::gen::arbitrary<uint64_t>(),
          .accepted_epoch = {*rc::gen::arbitrary<uint32_t>()}};
}

}  // namespace lockstep::wire
