// Fetch, as consumers use it: what is committed, and waiting for it. (Replicas fetch from each
// other by core/replication.)
#include <algorithm>
#include <utility>

#include "core/kafka/front_end_impl.h"
#include "core/records/record_batch.h"

namespace lockstep::kafka {
namespace {

constexpr int32_t kWaitMaxMs = 300'000;

// Cuts off what is not committed. Batches are committed as a whole.
std::vector<Bytes> Committed(const std::vector<Bytes>& from, int64_t high_watermark,
                             uint64_t bytes_max, uint64_t* size) {
  std::vector<Bytes> result;
  records::SlicedBatches batches(from);
  while (auto batch = batches.Next()) {
    if (batch->header.next_offset() > high_watermark) break;
    if (*size + batch->header.size() > bytes_max) break;
    *size += batch->header.size();
    for (Bytes& slice : batch->slices) result.push_back(std::move(slice));
  }
  return result;
}

}  // namespace

void FrontEnd::Impl::Handle(CallId call, FetchRequest&& request) {
  const Instant deadline = now_ + Milliseconds(std::clamp(request.max_wait_ms, 0, kWaitMaxMs));
  auto [at, added] = fetches_.emplace(call, FetchCall());
  LS_CHECK(added);
  FetchCall& fetch = at->second;
  fetch.request = std::move(request);
  fetch.deadline = deadline;
  fetch_deadlines_.insert({deadline, call});
  // What it reads would wait in memory behind the answers to what was asked before.
  if (IsFirst(call)) StartFetch(call);
}

void FrontEnd::Impl::StartFetch(CallId call) {
  FetchCall& fetch = fetches_.at(call);
  if (fetch.started) return;
  fetch.started = true;
  // There are no fetch sessions: a client that names one begins anew (KIP-227).
  if (fetch.request.session_id != 0) {
    FetchResponse response;
    response.error_code = ErrorCode::kFetchSessionIdNotFound;
    fetch_deadlines_.erase({fetch.deadline, call});
    fetches_.erase(call);
    return Reply(call, response);
  }
  ContinueFetch(call);
}

// A round over all partitions. Each is read after the one before: what has been read says how much
// there is room for.
void FrontEnd::Impl::ContinueFetch(CallId call) {
  FetchCall& fetch = fetches_.at(call);
  Unpark(call, fetch);
  fetch.response = FetchResponse();
  for (const FetchRequest::Topic& topic : fetch.request.topics) {
    fetch.response.responses.push_back({.topic = topic.topic});
    auto& partitions = fetch.response.responses.back().partitions;
    for (const FetchRequest::Partition& partition : topic.partitions) {
      partitions.push_back(
          {.partition_index = partition.partition, .high_watermark = -1, .records = Records()});
    }
  }
  fetch.topic = 0;
  fetch.partition = 0;
  fetch.bytes = 0;
  fetch.news = false;
  FetchNext(call);
}

// One that waits looks again. (Others have answers under way, or are gone.)
void FrontEnd::Impl::WakeFetch(CallId call) {
  auto found = fetches_.find(call);
  if (found != fetches_.end() && !found->second.parked_at.empty()) ContinueFetch(call);
}

void FrontEnd::Impl::FetchNext(CallId call) {
  FetchCall& fetch = fetches_.at(call);
  while (fetch.topic < fetch.request.topics.size()) {
    const FetchRequest::Topic& topic = fetch.request.topics[fetch.topic];
    if (fetch.partition == topic.partitions.size()) {
      fetch.topic++;
      fetch.partition = 0;
      continue;
    }
    if (FetchOne(call, fetch, topic.topic, topic.partitions[fetch.partition],
                 &fetch.response.responses[fetch.topic].partitions[fetch.partition])) {
      return;  // being read
    }
    fetch.partition++;
  }
  EndFetchRound(call);
}

// True: a read is under way.
bool FrontEnd::Impl::FetchOne(CallId call, FetchCall& fetch, const std::string& topic,
                              const FetchRequest::Partition& from, FetchResponse::Partition* to) {
  const Led led = FindLed(topic, from.partition, from.current_leader_epoch);
  if (led.error != ErrorCode::kNone) {
    to->error_code = led.error;
    fetch.news = true;
    return false;
  }
  const replication::Partition& partition = *led.partition;
  to->high_watermark = partition.high_watermark();
  to->last_stable_offset = partition.high_watermark();
  to->log_start_offset = partition.log_start();
  if (from.last_fetched_epoch >= 0) {
    // KIP-320: the consumer's position may be in a history that was cut off.
    const auto end = partition.EndOfEpoch({from.last_fetched_epoch});
    if (end && (end->epoch.value < from.last_fetched_epoch || end->end < from.fetch_offset)) {
      to->diverging_epoch.epoch = end->epoch.value;
      to->diverging_epoch.end_offset = end->end;
      fetch.news = true;
      return false;
    }
  }
  if (from.fetch_offset < partition.log_start() || from.fetch_offset > partition.log_end()) {
    to->error_code = ErrorCode::kOffsetOutOfRange;
    fetch.news = true;
    return false;
  }
  if (from.fetch_offset >= partition.high_watermark()) return false;
  const uint64_t limit = FetchBytesLeft(fetch);
  if (limit == 0) return false;
  const uint64_t wanted = std::min<uint64_t>(limit, std::max(0, from.partition_max_bytes));
  const uint64_t read = NextReadId();
  fetch_reads_[read] = call;
  output_->reads.push_back({{read},
                            led.hosted->log,
                            from.fetch_offset,
                            static_cast<uint32_t>(std::max<uint64_t>(wanted, 1))});
  return true;
}

uint64_t FrontEnd::Impl::FetchBytesLeft(const FetchCall& fetch) const {
  const uint64_t limit =
      std::min<uint64_t>(options_.fetch_bytes_max, std::max(0, fetch.request.max_bytes));
  return fetch.bytes >= limit && fetch.bytes > 0 ? 0 : std::max<uint64_t>(limit - fetch.bytes, 1);
}

void FrontEnd::Impl::OnFetchRead(CallId call, const storage::LogReadDone& done) {
  auto found = fetches_.find(call);
  if (found == fetches_.end()) return;  // its connection is gone
  FetchCall& fetch = found->second;
  const FetchRequest::Topic& topic = fetch.request.topics[fetch.topic];
  const FetchRequest::Partition& from = topic.partitions[fetch.partition];
  FetchResponse::Partition& to = fetch.response.responses[fetch.topic].partitions[fetch.partition];
  // Looked up anew: another may lead by now, and what was read may have been cut off since.
  const Led led = FindLed(topic.topic, from.partition, from.current_leader_epoch);
  if (led.error != ErrorCode::kNone) {
    to.error_code = led.error;
    fetch.news = true;
  } else if (done.status == storage::LogReadDone::Status::kFailed) {
    to.error_code = ErrorCode::kKafkaStorageError;
    fetch.news = true;
  } else if (done.status == storage::LogReadDone::Status::kOutOfRange) {
    to.error_code = ErrorCode::kOffsetOutOfRange;
    fetch.news = true;
  } else {
    // The first batch of an answer may be larger than it asked for: or it would never get on.
    const uint64_t limit = fetch.bytes == 0 ? UINT64_MAX : FetchBytesLeft(fetch);
    uint64_t size = 0;
    to.records = Records(Committed(done.batches, led.partition->high_watermark(), limit, &size));
    to.high_watermark = led.partition->high_watermark();
    to.last_stable_offset = to.high_watermark;
    fetch.bytes += size;
  }
  fetch.partition++;
  FetchNext(call);
}

void FrontEnd::Impl::EndFetchRound(CallId call) {
  FetchCall& fetch = fetches_.at(call);
  const bool enough = fetch.bytes >= static_cast<uint64_t>(std::max(0, fetch.request.min_bytes));
  if (!enough && !fetch.news && now_ < fetch.deadline) {
    for (const FetchRequest::Topic& topic : fetch.request.topics) {
      for (const FetchRequest::Partition& partition : topic.partitions) {
        const std::optional<PartitionId> id = FindPartition(topic.topic, partition.partition);
        Hosted* hosted = id ? FindHosted(*id) : nullptr;
        if (hosted == nullptr) continue;
        hosted->parked_fetches.insert(call);
        fetch.parked_at.push_back(*id);
      }
    }
    if (!fetch.parked_at.empty()) return;
  }
  fetch_deadlines_.erase({fetch.deadline, call});
  const FetchResponse response = std::move(fetch.response);
  fetches_.erase(call);
  Reply(call, response);
}

void FrontEnd::Impl::Unpark(CallId call, FetchCall& fetch) {
  for (const PartitionId& id : fetch.parked_at) {
    if (Hosted* hosted = FindHosted(id)) hosted->parked_fetches.erase(call);
  }
  fetch.parked_at.clear();
}

}  // namespace lockstep::kafka
