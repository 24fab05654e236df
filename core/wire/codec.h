// Messages between peers and their bytes. The only user of FlatBuffers.
//
// Encoding appends slices to send, one after the other; a payload is the caller's own slice, shared.
// Decoding verifies everything (FlatBuffers verifier, bounds, enums, required fields): what comes
// out may be handed to a machine.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "core/base/bytes.h"
#include "core/base/ids.h"
#include "core/wire/frame.h"
#include "core/zab/messages.h"

namespace lockstep::wire {

// First on every connection between peers, from the side that dialed: who it is and whom it means.
// A connection that names another ensemble or another server is closed.
struct Hello {
  ServerId from;
  ServerId to;
  uint64_t ensemble = 0;  // digest of the voters' ids
};

void EncodeHello(const Hello& hello, std::vector<Bytes>* out);
void EncodeNotification(const zab::Notification& notification, std::vector<Bytes>* out);
void EncodeMessage(const zab::Message& message, std::vector<Bytes>* out);

absl::StatusOr<Hello> DecodeHello(const Frame& frame);
absl::StatusOr<zab::Notification> DecodeNotification(const Frame& frame);
absl::StatusOr<zab::Message> DecodeMessage(const Frame& frame);

}  // namespace lockstep::wire
