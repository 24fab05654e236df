// A simulated consumer with partitions that it chose itself: it finds the leaders, lists offsets,
// fetches with long polls, and reads from the start again now and then, since what stood at an
// offset once must stand there for ever.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/checkers/replication.h"
#include "sim/kafka_client.h"

namespace lockstep::sim {

class KafkaConsumer : public KafkaClient {
 public:
  KafkaConsumer(const Context& context, std::string name, RandomStream random,
                Replication* replication);

  void Vanish(Instant now, ClientOutput* output) override;
  void Quiesce(Instant now, ClientOutput* output) override;
  std::string NotDone() const override;

 protected:
  using Key = std::pair<std::string, int32_t>;
  struct Position {
    int64_t offset = -1;  // of the next record; -1: not known, ListOffsets says it
    int32_t epoch = -1;   // of the last record
    bool busy = false;    // a request about it is under way
    bool from_latest = false;
    int64_t latest = 0;  // the greatest end that ListOffsets has told
    Instant not_before;
    Uuid topic_id;
  };

  void OnAnswer(Instant now, const Call& call, const Bytes& frame, ClientOutput* output) override;
  void OnLost(Instant now, const Call& call, ClientOutput* output) override;
  Instant Work(Instant now, ClientOutput* output) override;

  // Fetches from the partitions of positions_, and says when to be woken.
  Instant Consume(Instant now, ClientOutput* output);
  // Stops what is under way: its answers will be ignored.
  void SetPositions(std::map<Key, Position> positions);

  Replication* const replication_;
  std::map<Key, Position> positions_;

 private:
  void ChoosePartitions(Instant now);
  void ListOffsets(Instant now, ClientOutput* output);
  void Fetch(Instant now, ClientOutput* output);
  void OnListed(Instant now, const kafka::ListOffsetsResponse& response);
  void OnFetched(Instant now, const kafka::FetchResponse& response);
  void OnRecords(const Key& key, Position* position, const kafka::Records& records,
                 int64_t high_watermark);
  void OnError(Instant now, const Key& key, Position* position, kafka::ErrorCode error);

  struct Asked {
    uint32_t server = 0;
    bool fetches = false;  // and does not list offsets
    std::vector<Key> keys;
  };
  std::map<uint64_t, Asked> calls_;
  Instant next_seek_;
};

}  // namespace lockstep::sim
