// The `%020d.snapshot` files of a partition: its producers as of the offset in the name, so that
// recovery need not read the whole log. The format is Kafka's (ProducerSnapshot.json, version 1):
//
//   snapshot := version:i16 crc:u32 count:i32 row*
//   row      := producer_id:i64 epoch:i16 last_sequence:i32 last_offset:i64 offset_delta:i32
//               timestamp:i64 coordinator_epoch:i32 open_transaction:i64
//
// Big-endian; `crc` is the CRC-32C of what follows it. Kafka writes one row per producer, for its
// last batch. A client's retry of an earlier one is then out of order after a restart, which a
// producer takes for a fatal error. We write a row for each batch that is remembered, the oldest
// first, and before them one for the sequences that are older: Kafka reads the same file as its
// own, since it keeps the last row of a producer.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/bytes.h"
#include "core/kafka/producer_state.h"

namespace lockstep::kafka {

// By producer id, ascending, each once.
using ProducerSnapshot = std::vector<std::pair<int64_t, ProducerEntry>>;

Bytes EncodeProducerSnapshot(const ProducerSnapshot& snapshot);

// Rows may be in any order, as Kafka's are; those of one producer, oldest first. DataLoss for
// anything that is not a whole and undamaged snapshot of a log that ended at `offset`.
absl::StatusOr<ProducerSnapshot> DecodeProducerSnapshot(std::string_view bytes, int64_t offset);

}  // namespace lockstep::kafka
