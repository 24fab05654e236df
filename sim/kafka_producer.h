// A simulated producer: plain or idempotent, with acks 0, 1 or all. It keeps the rules by which a
// client may believe what it is told: what it sends again keeps its sequence, what is in doubt
// stays in doubt, and a new producer id begins a new history.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/checkers/replication.h"
#include "sim/kafka_client.h"

namespace lockstep::sim {

class KafkaProducer : public KafkaClient {
 public:
  KafkaProducer(const Context& context, uint32_t number, const ProducerPlan& producer,
                RandomStream random, Replication* replication);

  // Dies and comes back as another producer.
  void Vanish(Instant now, ClientOutput* output) override;
  void Quiesce(Instant now, ClientOutput* output) override;
  std::string NotDone() const override;

 protected:
  void OnAnswer(Instant now, const Call& call, const Bytes& frame, ClientOutput* output) override;
  void OnLost(Instant now, const Call& call, ClientOutput* output) override;
  Instant Work(Instant now, ClientOutput* output) override;

 private:
  struct Batch {
    uint64_t serial = 0;
    int32_t sequence = 0;
    std::vector<RecordId> records;
    Bytes bytes;
    bool in_flight = false;
    uint32_t server = 0;  // if in flight: to whom
    bool done = false;    // but not at the front yet
    Instant not_before;
  };
  struct Partition {
    std::deque<Batch> queue;  // in the order of sequences
    int32_t next_sequence = 0;
    bool refused = false;  // the last answer was that there are too few replicas
    Uuid topic_id;         // where its batches were sent first
  };
  using Key = std::pair<std::string, int32_t>;
  struct Sent {
    Key key;
    uint64_t serial = 0;
  };

  void Restart();
  uint64_t QueueMax() const;
  std::optional<ProducerStep> DrawStep();
  std::vector<uint32_t> DrawBatch();
  // `sizes`: of the records' values.
  void MakeBatch(const std::vector<uint32_t>& sizes, const Key& key, Partition* partition);
  void MakeSome(Instant now);
  bool Make(const ProducerStep& step);
  void Pump(Instant now, ClientOutput* output);
  Batch* NextToSend(Instant now, const Key& key, Partition* partition);
  void OnInitProducerId(Instant now, const kafka::InitProducerIdResponse& response);
  void OnProduced(Instant now, const Sent& sent, const kafka::ProduceResponse::Partition& response);
  void OnRefused(Instant now, const Key& key, Partition* partition, Batch* batch,
                 kafka::ErrorCode error);
  void Done(const Key& key, Partition* partition, Batch* batch, int64_t base_offset);
  void Retry(Instant now, Batch* batch);
  Batch* FindBatch(const Sent& sent, Partition** partition);
  uint32_t InFlightMax() const;

  const uint32_t number_;
  const ProducerPlan producer_;
  Replication* const replication_;
  uint32_t incarnation_ = 0;
  uint64_t next_record_ = 1;
  uint64_t next_serial_ = 1;
  int64_t producer_id_ = -1;
  int16_t producer_epoch_ = -1;
  std::optional<uint64_t> init_call_;
  Instant init_at_;
  std::map<Key, Partition> partitions_;
  std::map<uint64_t, std::vector<Sent>> calls_;
  Instant next_work_;
  std::set<Key> final_;  // partitions that have got their last batch
};

}  // namespace lockstep::sim
