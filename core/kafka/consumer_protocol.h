// What members of a group of the protocol type "consumer" tell each other through the broker, which
// passes it on unread: subscriptions in JoinGroup's metadata, assignments in SyncGroup's.
//
//   data := version:int16 body
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/status/statusor.h"
#include "core/base/bytes.h"
#include "core/kafka/messages.h"
#include "core/kafka/reader.h"
#include "core/kafka/records.h"
#include "core/kafka/writer.h"

namespace lockstep::kafka {

// `Data` is ConsumerProtocolSubscription or ConsumerProtocolAssignment. A version above ours is
// read as our highest one: versions only append fields (KIP-429). Errors: kInvalidArgument for a
// negative version and for bad bytes.
template <typename Data>
absl::StatusOr<Data> DecodeConsumerProtocol(const Bytes& bytes) {
  Reader reader(bytes);
  const int16_t version = std::min(reader.ReadInt16(), Data::kVersionMax);
  if (!reader.ok()) return reader.status();
  Data data;
  if (absl::Status status = Decode(&reader, version, &data); !status.ok()) return status;
  return data;
}

template <typename Data>
Bytes EncodeConsumerProtocol(const Data& data, int16_t version) {
  Writer writer;
  writer.WriteInt16(version);
  Encode(data, version, &writer);
  return Records(writer.Finish()).Joined();
}

}  // namespace lockstep::kafka
