// Messages between brokers and their bytes: as codec.h, for partition replication.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "core/base/bytes.h"
#include "core/replication/messages.h"
#include "core/wire/codec.h"
#include "core/wire/frame.h"

namespace lockstep::wire {

// Appends slices to send, one after the other; batches are the caller's own slices, shared.
// Requires: what decoding would accept: at most replication::kFetchEntriesMax entries, batches of
// an entry below 4 GiB, and none where there is an error or histories part.
void EncodeReplicationMessage(const replication::Message& message, std::vector<Bytes>* out);

// The message in a frame of a connection between brokers (FrameReader with kBrokerHeaderBytesMax).
// Batches are one slice of the frame for each entry; what is in them has not been looked at.
absl::StatusOr<replication::Message> DecodeReplicationMessage(const Frame& frame);

}  // namespace lockstep::wire
