// Makes record batches: for simulated producers, for what the group coordinator writes, for tests.
// A broker makes none of its clients' batches anew.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/records/record.h"
#include "core/records/record_batch.h"

namespace lockstep::records {

// Collects records, uncompressed, and closes the batch around them. base_offset is 0 and the leader
// epoch -1, as producers send it.
class BatchBuilder {
 public:
  struct Producer {
    int64_t id = kNoProducerId;
    int16_t epoch = kNoProducerEpoch;
    int32_t base_sequence = kNoSequence;
    bool transactional = false;
  };

  BatchBuilder() = default;
  explicit BatchBuilder(const Producer& producer) : producer_(producer) {}

  // `timestamp` is in milliseconds since 1970.
  void Add(int64_t timestamp, std::optional<std::string_view> key,
           std::optional<std::string_view> value, const std::vector<RecordHeader>& headers = {});

  int32_t record_count() const { return count_; }
  // What Build() would make, in bytes.
  size_t size() const { return kBatchHeaderBytes + records_.size(); }

  // Requires: at least one record. The builder may go on: the next batch has all of the first one's
  // records too.
  Batch Build() const;

 private:
  Producer producer_;
  int64_t base_timestamp_ = kNoTimestamp;
  int64_t max_timestamp_ = kNoTimestamp;
  int32_t count_ = 0;
  std::string records_;
};

// The control batch that ends a transaction of `producer_id` in a partition (KIP-98).
Batch BuildControlBatch(const ControlMarker& marker, int64_t producer_id, int16_t producer_epoch,
                        int64_t timestamp);

}  // namespace lockstep::records
