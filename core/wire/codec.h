// Messages between peers and their bytes. The only user of FlatBuffers.
//
// Encoding appends slices to send, one after the other; a payload is the caller's own slice,
// shared. Decoding verifies everything (FlatBuffers verifier, bounds, enums, required fields): what
// comes out may be handed to a machine. A bad message is an error, and its connection must be
// closed.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/bytes.h"
#include "core/base/ids.h"
#include "core/wire/frame.h"
#include "core/zab/messages.h"

namespace lockstep::wire {

// What a frame carries. Numbers are for ever; lockstep.fbs describes each.
enum class Kind : uint8_t {
  kHello = 1,
  kNotification = 2,
  kFollowerInfo = 16,
  kLeaderInfo = 17,
  kAckEpoch = 18,
  kDiff = 19,
  kTrunc = 20,
  kSnap = 21,
  kSnapChunk = 22,
  kNewLeader = 23,
  kAckNewLeader = 24,
  kUpToDate = 25,
  kProposal = 26,
  kAck = 27,
  kCommit = 28,
  kPing = 29,
  kRequest = 30,
  kReply = 31,
  // Between brokers (replication_codec.h).
  kReplicaFetchRequest = 48,
  kReplicaFetchResponse = 49,
};
// "Proposal"; "unknown" for a number that names no kind.
const char* ToString(Kind kind);

// The most epochs whose ends an AckEpoch can tell; a learner with more leaves out the oldest.
inline constexpr size_t kEpochEndsMax = 1024;

// First on every connection between peers, from the side that dialed: who it is and whom it means.
// A connection that names another ensemble or another server is closed.
struct Hello {
  ServerId from;
  ServerId to;
  uint64_t ensemble = 0;  // digest of the voters' ids
};

// Requires of all three: what decoding would accept (servers are 1 to 255, at most kEpochEndsMax
// epoch ends), since the other side closes the connection otherwise.
void EncodeHello(const Hello& hello, std::vector<Bytes>* out);
void EncodeNotification(const zab::Notification& notification, std::vector<Bytes>* out);
void EncodeMessage(const zab::Message& message, std::vector<Bytes>* out);

absl::StatusOr<Hello> DecodeHello(const Frame& frame);
absl::StatusOr<zab::Notification> DecodeNotification(const Frame& frame);
absl::StatusOr<zab::Message> DecodeMessage(const Frame& frame);

}  // namespace lockstep::wire
