// ListOffsets, OffsetForLeaderEpoch, DeleteRecords, DescribeLogDirs: where records begin and end,
// and how much room they take.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/kafka/compression.h"
#include "core/kafka/front_end_impl.h"
#include "core/records/record.h"
#include "core/records/record_batch.h"

namespace lockstep::kafka {
namespace {

// What a client may ask for instead of a time.
constexpr int64_t kLatest = -1;
constexpr int64_t kEarliest = -2;
constexpr int16_t kLeaderEpochVersion = 4;
constexpr int16_t kOffsetNotAvailableVersion = 5;

constexpr size_t kDecompressedBytesMax = size_t{64} << 20;  // as ProduceRules has it

// Searches under way for all clients: each may bring a whole batch, which stays until it is opened.
constexpr size_t kSearchesMax = 16;

// The first record of the batch at or after `timestamp`; for kMaxTimestamp, the first of the
// latest. `decompressed`: what it took to open the batch.
std::optional<records::Record> FindRecord(const Bytes& bytes, int64_t timestamp,
                                          size_t* decompressed) {
  *decompressed = 0;
  absl::StatusOr<records::BatchHeader> header = records::ParseBatchHeader(bytes.view());
  if (!header.ok()) return std::nullopt;
  const records::Batch batch = records::Batch::Of(bytes.Slice(0, header->size()));
  std::string scratch;
  absl::StatusOr<std::string_view> content =
      OpenRecords(*header, batch, kDecompressedBytesMax, &scratch);
  *decompressed = content.ok() ? scratch.size() : kDecompressedBytesMax;
  if (!content.ok()) return std::nullopt;
  records::RecordReader reader(*header, *content);
  records::Record record;
  while (reader.Next(&record)) {
    if (header->log_append_time()) record.timestamp = header->max_timestamp;
    if (record.timestamp >= timestamp) {
      // The views end with this function.
      return records::Record{.offset = record.offset, .timestamp = record.timestamp};
    }
  }
  return std::nullopt;
}

// Nothing (-1) where the response has no place for it.
int32_t EpochAt(const replication::Partition& partition, int64_t offset, int16_t version) {
  int32_t epoch = -1;
  if (version < kLeaderEpochVersion) return epoch;
  for (const storage::EpochStart& start : partition.epochs()) {
    if (start.start <= offset) epoch = start.epoch;
  }
  return epoch;
}

}  // namespace

void FrontEnd::Impl::Handle(CallId call, ListOffsetsRequest&& request) {
  const int16_t version = FindCall(call)->version;
  std::map<std::pair<std::string_view, int32_t>, int> times;
  for (const auto& topic : request.topics) {
    for (const auto& partition : topic.partitions) {
      ++times[{topic.name, partition.partition_index}];
    }
  }
  {
    ListOffsetsCall& list = list_offsets_[call];
    list.left = 1;
    for (const auto& topic : request.topics) {
      list.response.topics.push_back({.name = topic.name});
      for (const auto& partition : topic.partitions) {
        list.response.topics.back().partitions.push_back(
            {.partition_index = partition.partition_index});
      }
    }
  }
  for (size_t t = 0; t < request.topics.size(); ++t) {
    for (size_t p = 0; p < request.topics[t].partitions.size(); ++p) {
      const auto& from = request.topics[t].partitions[p];
      ListOffsetsResponse::Partition& to = list_offsets_.at(call).response.topics[t].partitions[p];
      const Led led =
          FindLed(request.topics[t].name, from.partition_index, from.current_leader_epoch);
      to.error_code = led.error;
      if (led.error != ErrorCode::kNone) continue;
      // As in Kafka. A search by time opens a batch: once for each that there is will do.
      if (times.at({request.topics[t].name, from.partition_index}) > 1) {
        to.error_code = ErrorCode::kInvalidRequest;
        continue;
      }
      const replication::Partition& partition = *led.partition;
      // A new leader's high watermark may lag behind what its predecessor told: KIP-207.
      if (from.timestamp != kEarliest && !partition.high_watermark_is_current()) {
        to.error_code = version >= kOffsetNotAvailableVersion ? ErrorCode::kOffsetNotAvailable
                                                              : ErrorCode::kLeaderNotAvailable;
        continue;
      }
      if (from.timestamp == kLatest || from.timestamp == kEarliest) {
        to.offset = from.timestamp == kLatest ? partition.high_watermark() : partition.log_start();
        to.leader_epoch = EpochAt(partition, to.offset, version);
        continue;
      }
      if (from.timestamp < 0) {
        to.error_code = ErrorCode::kInvalidRequest;
        continue;
      }
      list_offsets_.at(call).left++;
      list_offsets_.at(call).searches.push_back(
          {call, t, p, led.hosted->id, led.hosted->log, from.timestamp, version});
    }
  }
  if (!list_offsets_.at(call).searches.empty()) searching_.push_back(call);
  StartSearches();
  FinishListOffsets(call);
}

void FrontEnd::Impl::StartSearches() {
  while (work_left_ > 0 && searches_.size() < kSearchesMax && !searching_.empty()) {
    const CallId call = searching_.front();
    searching_.pop_front();
    auto found = list_offsets_.find(call);
    if (found == list_offsets_.end()) continue;  // its connection is gone
    std::deque<ListOffsetsPart>& left = found->second.searches;
    const uint64_t read = NextReadId();
    output_->searches.push_back({{read}, left.front().log, left.front().timestamp});
    searches_[read] = std::move(left.front());
    left.pop_front();
    if (!left.empty()) searching_.push_back(call);
  }
}

void FrontEnd::Impl::FinishListOffsets(CallId call) {
  auto found = list_offsets_.find(call);
  if (--found->second.left > 0) return;
  const ListOffsetsResponse response = std::move(found->second.response);
  list_offsets_.erase(found);
  Reply(call, response);
}

void FrontEnd::Impl::OnLogSearch(const storage::LogSearchDone& done) {
  if (work_left_ > 0) {
    TakeSearch(done);
  } else {
    next_turn_.push_back(done);
  }
}

void FrontEnd::Impl::TakeSearch(const storage::LogSearchDone& done) {
  auto found = searches_.find(done.id.value);
  LS_CHECK(found != searches_.end());
  const ListOffsetsPart part = found->second;
  searches_.erase(found);
  if (list_offsets_.contains(part.call)) {  // otherwise its connection is gone
    OnListOffsetsSearched(part, done);
    FinishListOffsets(part.call);
  }
  StartSearches();
}

void FrontEnd::Impl::OnListOffsetsSearched(const ListOffsetsPart& part,
                                           const storage::LogSearchDone& done) {
  auto& to = list_offsets_.at(part.call).response.topics[part.topic].partitions[part.partition];
  const replication::Partition* partition = broker_.FindPartition(part.id);
  const Hosted* hosted = FindHosted(part.id);
  if (partition == nullptr || hosted == nullptr || hosted->role != replication::Role::kLeader) {
    to.error_code = ErrorCode::kNotLeaderOrFollower;
    return;
  }
  if (done.status == storage::LogReadDone::Status::kFailed) {
    to.error_code = ErrorCode::kKafkaStorageError;
    return;
  }
  if (!done.batch) return;  // there is none so late: offset -1
  size_t decompressed = 0;
  const std::optional<records::Record> record =
      FindRecord(*done.batch, part.timestamp, &decompressed);
  Spend(decompressed);
  if (!record || record->offset >= partition->high_watermark()) return;
  to.offset = record->offset;
  to.timestamp = record->timestamp;
  to.leader_epoch = EpochAt(*partition, record->offset, part.version);
}

void FrontEnd::Impl::Handle(CallId call, OffsetForLeaderEpochRequest&& request) {
  OffsetForLeaderEpochResponse response;
  for (const auto& topic : request.topics) {
    response.topics.push_back({.topic = topic.topic});
    for (const auto& from : topic.partitions) {
      OffsetForLeaderEpochResponse::Partition to{.partition = from.partition};
      const Led led = FindLed(topic.topic, from.partition, from.current_leader_epoch);
      to.error_code = led.error;
      if (led.error == ErrorCode::kNone) {
        if (const auto end = led.partition->EndOfEpoch({from.leader_epoch})) {
          to.leader_epoch = end->epoch.value;
          to.end_offset = end->end;
        }
      }
      response.topics.back().partitions.push_back(to);
    }
  }
  Reply(call, response);
}

void FrontEnd::Impl::Handle(CallId call, DeleteRecordsRequest&& request) {
  DeleteRecordsResponse response;
  for (const auto& topic : request.topics) {
    response.topics.push_back({.name = topic.name});
    for (const auto& from : topic.partitions) {
      DeleteRecordsResponse::Partition to{.partition_index = from.partition_index,
                                          .low_watermark = -1};
      const Led led = FindLed(topic.name, from.partition_index, /*epoch=*/-1);
      to.error_code = led.error;
      if (led.error == ErrorCode::kNone) {
        // -1: everything that is committed.
        const int64_t before = from.offset == -1 ? led.partition->high_watermark() : from.offset;
        if (before > led.partition->high_watermark() || before < 0) {
          to.error_code = ErrorCode::kOffsetOutOfRange;
        } else if (!broker_.DeleteRecords(now_, led.hosted->id, before, broker_output_)) {
          to.error_code = ErrorCode::kNotLeaderOrFollower;
        } else {
          to.low_watermark = std::max(before, led.partition->log_start());
        }
      }
      response.topics.back().partitions.push_back(to);
    }
  }
  Reply(call, response);
}

void FrontEnd::Impl::Handle(CallId call, DescribeLogDirsRequest&& request) {
  DescribeLogDirsResponse response;
  DescribeLogDirsResponse::LogDir& dir = response.results.emplace_back();
  dir.log_dir = options_.log_dir;
  // However often something is named, it is looked for once.
  std::set<std::pair<std::string_view, int32_t>> asked;
  if (request.topics) {
    for (const auto& topic : *request.topics) {
      for (const int32_t partition : topic.partitions) asked.emplace(topic.topic, partition);
    }
  }
  // Of all replicas that are here, led or not.
  std::map<std::string_view, std::map<int32_t, const Hosted*>> by_topic;
  for (const auto& [id, hosted] : hosted_) by_topic[hosted.topic][id.partition] = &hosted;
  FrontEndOutput::LogSizes sizes{.id = call, .logs = {}};
  for (const auto& [topic, partitions] : by_topic) {
    DescribeLogDirsResponse::Topic to{.name = std::string(topic), .partitions = {}};
    for (const auto& [number, hosted] : partitions) {
      const bool wanted = !request.topics || asked.contains({topic, number});
      const replication::Partition* partition = broker_.FindPartition(hosted->id);
      if (!wanted || partition == nullptr) continue;
      to.partitions.push_back(
          {.partition_index = number,
           .offset_lag = std::max<int64_t>(0, partition->high_watermark() - partition->log_end())});
      sizes.logs.push_back(hosted->log);
    }
    if (!to.partitions.empty()) dir.topics.push_back(std::move(to));
  }
  log_dirs_[call] = std::move(response);
  output_->log_sizes.push_back(std::move(sizes));
}

void FrontEnd::Impl::OnLogSizes(uint64_t id, const std::vector<uint64_t>& bytes) {
  auto found = log_dirs_.find(id);
  LS_CHECK(found != log_dirs_.end());
  DescribeLogDirsResponse response = std::move(found->second);
  log_dirs_.erase(found);
  size_t next = 0;
  for (auto& topic : response.results[0].topics) {
    for (auto& partition : topic.partitions) {
      partition.partition_size = static_cast<int64_t>(bytes.at(next++));
    }
  }
  Reply(id, response);
}

}  // namespace lockstep::kafka
