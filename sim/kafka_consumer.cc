#include "sim/kafka_consumer.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "core/kafka/compression.h"
#include "core/records/record.h"
#include "core/records/record_batch.h"

namespace lockstep::sim {

using kafka::ErrorCode;

namespace {

constexpr int64_t kLatest = -1;
constexpr int64_t kEarliest = -2;

template <typename Topics>
auto& TopicIn(Topics* topics, const std::string& name, std::string Topics::value_type::* member) {
  auto it = std::find_if(topics->begin(), topics->end(),
                         [&](const auto& topic) { return topic.*member == name; });
  if (it != topics->end()) return *it;
  topics->emplace_back();
  topics->back().*member = name;
  return topics->back();
}

}  // namespace

KafkaConsumer::KafkaConsumer(const Context& context, std::string name, RandomStream random,
                             Replication* replication)
    : KafkaClient(context, std::move(name), random), replication_(replication) {
  for (const TopicPlan& topic : plan_.topics) Watch(topic.name);
}

void KafkaConsumer::SetPositions(std::map<Key, Position> positions) {
  positions_ = std::move(positions);
  calls_.clear();
}

void KafkaConsumer::Vanish(Instant now, ClientOutput* output) {
  SetPositions({});
  Drop(now, output);
}

void KafkaConsumer::ChoosePartitions(Instant now) {
  for (const TopicPlan& topic : plan_.topics) {
    const TopicView* view = Find(topic.name);
    if (view == nullptr) continue;
    for (size_t i = 0; i < view->partitions.size(); ++i) {
      Position& position = positions_[{topic.name, static_cast<int32_t>(i)}];
      if (position.topic_id == view->id) continue;
      // Another topic under this name: nothing that was known is true of it.
      if (!position.busy) position = {};
      position.topic_id = view->id;
    }
  }
  if (quiescing_ || now < next_seek_) return;
  next_seek_ = now + Around(random_, context_.tick * 20) + Microseconds(1);
  if (positions_.empty()) return;
  auto it = positions_.begin();
  std::advance(it, static_cast<ptrdiff_t>(random_.Below(positions_.size())));
  if (it->second.busy) return;
  it->second.offset = -1;
  it->second.from_latest = random_.Chance(1, 4);
}

Instant KafkaConsumer::Work(Instant now, ClientOutput* output) {
  ChoosePartitions(now);
  return std::min(Consume(now, output), quiescing_ ? now + context_.tick : next_seek_);
}

Instant KafkaConsumer::Consume(Instant now, ClientOutput* output) {
  ListOffsets(now, output);
  Fetch(now, output);
  Instant next = Instant::Never();
  for (const auto& [key, position] : positions_) {
    if (!position.busy && position.not_before > now) next = std::min(next, position.not_before);
  }
  return next;
}

// ---- Requests ----------------------------------------------------------------------------------

void KafkaConsumer::ListOffsets(Instant now, ClientOutput* output) {
  std::map<uint32_t, kafka::ListOffsetsRequest> requests;
  std::map<uint32_t, std::vector<Key>> keys;
  for (auto& [key, position] : positions_) {
    if (position.offset >= 0 || position.busy || position.not_before > now) continue;
    const auto leader = LeaderOf(key.first, key.second);
    if (!leader) continue;
    kafka::ListOffsetsRequest& request = requests[*leader];
    request.replica_id = -1;
    auto& topic = TopicIn(&request.topics, key.first, &kafka::ListOffsetsRequest::Topic::name);
    topic.partitions.push_back({.partition_index = key.second,
                                .current_leader_epoch = EpochOf(key.first, key.second),
                                .timestamp = position.from_latest ? kLatest : kEarliest});
    position.busy = true;
    keys[*leader].push_back(key);
  }
  for (auto& [server, request] : requests) {
    calls_[Send(now, server, request, Timeout(), output)] = {server, false,
                                                             std::move(keys[server])};
  }
}

void KafkaConsumer::Fetch(Instant now, ClientOutput* output) {
  std::map<uint32_t, kafka::FetchRequest> requests;
  std::map<uint32_t, std::vector<Key>> keys;
  std::set<uint32_t> asked;
  for (const auto& [number, call] : calls_) {
    if (call.fetches) asked.insert(call.server);
  }
  for (auto& [key, position] : positions_) {
    if (position.offset < 0 || position.busy || position.not_before > now) continue;
    const auto leader = LeaderOf(key.first, key.second);
    // One at a time of each broker, as all clients do it: a broker answers a connection in order,
    // so one that waits for new records would hold up all behind it.
    if (!leader || asked.contains(*leader)) continue;
    kafka::FetchRequest& request = requests[*leader];
    auto& topic = TopicIn(&request.topics, key.first, &kafka::FetchRequest::Topic::topic);
    kafka::FetchRequest::Partition partition;
    partition.partition = key.second;
    partition.current_leader_epoch = EpochOf(key.first, key.second);
    partition.fetch_offset = position.offset;
    if (VersionOf<kafka::FetchRequest>() >= 12) partition.last_fetched_epoch = position.epoch;
    partition.partition_max_bytes = static_cast<int32_t>(random_.Between(1, 2'000));
    topic.partitions.push_back(partition);
    position.busy = true;
    keys[*leader].push_back(key);
  }
  for (auto& [server, request] : requests) {
    request.replica_id = -1;
    request.max_wait_ms = static_cast<int32_t>((context_.tick * 2).Milliseconds());
    request.min_bytes = static_cast<int32_t>(random_.Between(0, 1));
    request.max_bytes = static_cast<int32_t>(random_.Between(1, 10'000));
    request.session_epoch = -1;
    calls_[Send(now, server, request, Timeout(), output)] = {server, true, std::move(keys[server])};
  }
}

// ---- Answers -----------------------------------------------------------------------------------

void KafkaConsumer::OnLost(Instant now, const Call& call, ClientOutput*) {
  auto it = calls_.find(call.number);
  if (it == calls_.end()) return;
  for (const Key& key : it->second.keys) {
    auto position = positions_.find(key);
    if (position == positions_.end()) continue;
    position->second.busy = false;
    position->second.not_before = now + BackOff();
  }
  calls_.erase(it);
}

void KafkaConsumer::OnAnswer(Instant now, const Call& call, const Bytes& frame, ClientOutput*) {
  const bool listed = call.api == kafka::ApiKey::kListOffsets;
  auto it = calls_.find(call.number);
  if (it == calls_.end()) return;  // of before another assignment
  const std::vector<Key> keys = std::move(it->second.keys);
  calls_.erase(it);
  for (const Key& key : keys) {
    if (auto position = positions_.find(key); position != positions_.end()) {
      position->second.busy = false;
    }
  }
  if (listed) {
    OnListed(now, Take<kafka::ListOffsetsResponse>(call, frame));
  } else {
    OnFetched(now, Take<kafka::FetchResponse>(call, frame));
  }
}

void KafkaConsumer::OnListed(Instant now, const kafka::ListOffsetsResponse& response) {
  for (const auto& topic : response.topics) {
    for (const auto& partition : topic.partitions) {
      const Key key(topic.name, partition.partition_index);
      auto it = positions_.find(key);
      if (it == positions_.end()) continue;
      Position& position = it->second;
      if (partition.error_code != ErrorCode::kNone) {
        OnError(now, key, &position, partition.error_code);
        continue;
      }
      probes_->Hit(Probe::kOffsetsListed);
      const bool exact =
          !replication_->Recreated(key.first) && !replication_->MayHaveLost(key.first, key.second);
      if (exact && position.from_latest && partition.offset < position.latest) {
        Fail("consumer-never-goes-back",
             absl::StrCat(name(), " is told that ", key.first, "-", key.second, " ends at ",
                          partition.offset, ", after ", position.latest));
      }
      if (exact && partition.offset > replication_->CommittedEnd(key.first, key.second)) {
        Fail("consistent-read", absl::StrCat(name(), " is told that ", key.first, "-", key.second,
                                             position.from_latest ? " ends at " : " begins at ",
                                             partition.offset, ", above all that is committed"));
      }
      if (position.from_latest) position.latest = partition.offset;
      position.offset = partition.offset;
      position.epoch = -1;
    }
  }
}

void KafkaConsumer::OnError(Instant now, const Key& key, Position* position, ErrorCode error) {
  position->not_before = now + BackOff();
  switch (error) {
    case ErrorCode::kOffsetOutOfRange:
      probes_->Hit(Probe::kConsumerOutOfRange);
      replication_->OnOutOfRange(name(), key.first, key.second, position->offset);
      position->offset = -1;
      position->from_latest = random_.Chance(1, 4);
      return;
    case ErrorCode::kFencedLeaderEpoch:
      probes_->Hit(Probe::kConsumerFenced);
      return RefreshMetadata(now);
    case ErrorCode::kUnknownLeaderEpoch:
      // A topic that is made again begins with epoch 0 again, and Fetch names no topic by its id.
      if (std::none_of(plan_.topics.begin(), plan_.topics.end(), [&](const TopicPlan& topic) {
            return topic.name == key.first && topic.recreated;
          })) {
        probes_->Hit(Probe::kConsumerAhead);
      }
      return RefreshMetadata(now);
    case ErrorCode::kNotLeaderOrFollower:
    case ErrorCode::kUnknownTopicOrPartition:
    case ErrorCode::kLeaderNotAvailable:
    case ErrorCode::kReplicaNotAvailable:
    case ErrorCode::kOffsetNotAvailable:
    case ErrorCode::kKafkaStorageError:
    case ErrorCode::kUnknownServerError:
    case ErrorCode::kRequestTimedOut:
      return RefreshMetadata(now);
    default:
      Fail("kafka-answers-fit", absl::StrCat(name(), " reads ", key.first, "-", key.second,
                                             " and gets ", kafka::ToString(error)));
  }
}

void KafkaConsumer::OnFetched(Instant now, const kafka::FetchResponse& response) {
  for (const auto& topic : response.responses) {
    for (const auto& partition : topic.partitions) {
      const Key key(topic.topic, partition.partition_index);
      auto it = positions_.find(key);
      if (it == positions_.end()) continue;
      Position& position = it->second;
      if (partition.error_code != ErrorCode::kNone) {
        OnError(now, key, &position, partition.error_code);
        continue;
      }
      if (partition.diverging_epoch.end_offset >= 0) {
        // Consumers read committed records only, from which no leader's history parts.
        if (!replication_->Recreated(key.first) &&
            !replication_->MayHaveLost(key.first, key.second)) {
          Fail("consistent-read",
               absl::StrCat(name(), " has read ", key.first, "-", key.second, " up to ",
                            position.offset, " in epoch ", position.epoch,
                            " and is told that this ends at ", partition.diverging_epoch.end_offset,
                            " in epoch ", partition.diverging_epoch.epoch));
        }
        position.offset = -1;
        position.from_latest = false;
        continue;
      }
      if (partition.records && partition.records->size() > 0) {
        OnRecords(key, &position, *partition.records, partition.high_watermark);
      }
    }
  }
}

void KafkaConsumer::OnRecords(const Key& key, Position* position, const kafka::Records& all,
                              int64_t high_watermark) {
  records::BatchReader reader(all.Joined(), {});
  const int64_t asked = position->offset;
  while (const auto item = reader.Next()) {
    std::string scratch;
    const absl::StatusOr<std::string_view> open =
        kafka::OpenRecords(item->header, item->batch, 1 << 20, &scratch);
    if (!open.ok()) FailBytes(open.status().ToString());
    records::RecordReader in_batch(item->header, *open);
    records::Record record;
    while (in_batch.Next(&record)) {
      if (record.offset < position->offset) continue;
      if (record.offset >= high_watermark) {
        Fail("consistent-read",
             absl::StrCat(name(), " reads ", key.first, "-", key.second, " at ", record.offset,
                          ", above the high watermark ", high_watermark));
      }
      probes_->Hit(Probe::kRecordConsumed);
      replication_->OnConsumed(name(), key.first, key.second, record.offset, IdOf(record.value));
      position->offset = record.offset + 1;
      position->epoch = item->header.partition_leader_epoch;
    }
    if (!in_batch.status().ok()) FailBytes(in_batch.status().ToString());
  }
  if (!reader.status().ok()) FailBytes(reader.status().ToString());
  if (position->offset == asked) FailBytes("records, and none that was asked for");
}

// ---- The end -----------------------------------------------------------------------------------

void KafkaConsumer::Quiesce(Instant now, ClientOutput* output) {
  quiescing_ = true;
  OnWake(now, output);
}

std::string KafkaConsumer::NotDone() const {
  for (const auto& [key, position] : positions_) {
    if (replication_->Recreated(key.first) || replication_->MayHaveLost(key.first, key.second) ||
        replication_->Offline(key.first, key.second)) {
      continue;
    }
    const int64_t end = replication_->CommittedEnd(key.first, key.second);
    if (position.offset >= end) continue;
    return absl::StrCat("has read ", key.first, "-", key.second, " up to ", position.offset, " of ",
                        end);
  }
  return "";
}

}  // namespace lockstep::sim
