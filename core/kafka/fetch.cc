// Fetch, as consumers use it: what is committed, and waiting for it. (Replicas fetch from each
// other by core/replication.)
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "core/kafka/front_end_impl.h"
#include "core/records/record_batch.h"

namespace lockstep::kafka {
namespace {

constexpr int32_t kWaitMaxMs = 300'000;
// Partitions of one request that are read at the same time (or one alone, however large).
constexpr size_t kReadsMax = 64;
// A request that lists many partitions is answered when it has so much, though it may allow more:
// what is sent piece by piece stays in the processor's cache, and nobody waits for a large answer
// to somebody else. Clients ask next for what they did not get (KIP-74).
constexpr uint64_t kAnswerBytes = 4 << 20;
constexpr uint64_t kReadBytesMin = 256 << 10;

struct Committed {
  std::vector<Bytes> slices;
  uint64_t bytes = 0;
  int64_t end = 0;  // exclusive; 0: nothing
};

// What of `from` is committed, up to `bytes_max`. Batches are committed as a whole.
Committed CommittedOf(const std::vector<Bytes>& from, int64_t high_watermark, uint64_t bytes_max) {
  Committed committed;
  records::SlicedBatches batches(from);
  while (auto batch = batches.Next()) {
    if (batch->header.next_offset() > high_watermark) break;
    if (committed.bytes + batch->header.size() > bytes_max) break;
    committed.bytes += batch->header.size();
    committed.end = batch->header.next_offset();
  }
  uint64_t left = committed.bytes;
  for (const Bytes& slice : from) {
    if (left == 0) break;
    const uint64_t part = std::min<uint64_t>(left, slice.size());
    committed.slices.push_back(slice.Slice(0, part));
    left -= part;
  }
  return committed;
}

bool NamesOneTwice(const FetchRequest& request) {
  absl::btree_set<std::pair<std::string_view, int32_t>> seen;
  for (const FetchRequest::Topic& topic : request.topics) {
    for (const auto& partition : topic.partitions) {
      if (!seen.insert({topic.topic, partition.partition}).second) return true;
    }
  }
  return false;
}

// As in Kafka, of a partition that is named several times the last counts, in the place of the
// first. Otherwise an answer could be as large as the request is long.
void TakeOncePerPartition(FetchRequest& request) {
  // Nearly always: nothing is copied for it.
  if (!NamesOneTwice(request)) return;
  std::map<std::pair<std::string_view, int32_t>, FetchRequest::Partition> last;
  for (const FetchRequest::Topic& topic : request.topics) {
    for (const auto& partition : topic.partitions) {
      last.insert_or_assign({topic.topic, partition.partition}, partition);
    }
  }
  for (FetchRequest::Topic& topic : request.topics) {
    std::vector<FetchRequest::Partition> once;
    for (const auto& partition : topic.partitions) {
      auto found = last.extract(std::pair{std::string_view(topic.topic), partition.partition});
      if (!found.empty()) once.push_back(found.mapped());
    }
    topic.partitions = std::move(once);
  }
}

// What is held for it while it waits: itself, and the answer that is prepared.
uint64_t KeptOf(const FetchRequest& request) {
  uint64_t bytes = 0;
  for (const FetchRequest::Topic& topic : request.topics) {
    bytes += sizeof(FetchRequest::Topic) + sizeof(FetchResponse::Topic) + 2 * topic.topic.size();
    bytes += topic.partitions.size() *
             (sizeof(FetchRequest::Partition) + sizeof(FetchResponse::Partition));
  }
  return bytes;
}

}  // namespace

void FrontEnd::Impl::Handle(CallId call, FetchRequest&& request) {
  const Instant deadline = now_ + Milliseconds(std::clamp(request.max_wait_ms, 0, kWaitMaxMs));
  auto [at, added] = fetches_.emplace(call, FetchCall());
  LS_CHECK(added);
  FetchCall& fetch = at->second;
  fetch.request = std::move(request);
  TakeOncePerPartition(fetch.request);
  std::erase_if(fetch.request.topics, [](const auto& topic) { return topic.partitions.empty(); });
  fetch.request.forgotten_topics_data.clear();  // of sessions, which there are not
  fetch.kept = KeptOf(fetch.request);
  // Nothing of the frame is kept.
  Connection& connection = connections_.at(FindCall(call)->connection);
  LS_CHECK_EQ(connection.slots.back().call, call);
  SetSlotBytes(connection, connection.slots.back(), fetch.kept);
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

// A round over all partitions. They are read several at a time, and taken in their order: what the
// first ones have brought says how much there is room for.
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
  fetch.reserved = 0;
  fetch.bytes = 0;
  fetch.news = false;
  CountFetch(call, fetch);
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
    if (fetch.partition == fetch.request.topics[fetch.topic].partitions.size()) {
      fetch.topic++;
      fetch.partition = 0;
      continue;
    }
    if (!FetchOne(call, fetch)) return;
    fetch.partition++;
  }
  if (fetch.reads.empty()) EndFetchRound(call);
}

bool FrontEnd::Impl::FetchOne(CallId call, FetchCall& fetch) {
  const FetchRequest::Topic& topic = fetch.request.topics[fetch.topic];
  const FetchRequest::Partition& from = topic.partitions[fetch.partition];
  FetchResponse::Partition& to = fetch.response.responses[fetch.topic].partitions[fetch.partition];
  const Led led = FindLed(topic.topic, from.partition, from.current_leader_epoch);
  if (led.error != ErrorCode::kNone) {
    to.error_code = led.error;
    fetch.news = true;
    return true;
  }
  const replication::Partition& partition = *led.partition;
  to.high_watermark = partition.high_watermark();
  to.last_stable_offset = partition.high_watermark();
  to.log_start_offset = partition.log_start();
  if (from.last_fetched_epoch >= 0) {
    // KIP-320: the consumer's position may be in a history that was cut off.
    const auto end = partition.EndOfEpoch({from.last_fetched_epoch});
    if (end && (end->epoch.value < from.last_fetched_epoch || end->end < from.fetch_offset)) {
      to.diverging_epoch.epoch = end->epoch.value;
      to.diverging_epoch.end_offset = end->end;
      fetch.news = true;
      return true;
    }
  }
  if (from.fetch_offset < partition.log_start() || from.fetch_offset > partition.log_end()) {
    to.error_code = ErrorCode::kOffsetOutOfRange;
    fetch.news = true;
    return true;
  }
  if (from.fetch_offset >= partition.high_watermark()) return true;
  const uint64_t limit = FetchBytesMax(fetch);
  const uint64_t taken = fetch.bytes + fetch.reserved;
  const uint64_t left = limit - std::min(limit, taken);
  // At least a byte: the first batch comes whole.
  const uint64_t wanted = std::max<uint64_t>(1, std::max(0, from.partition_max_bytes));
  if (!fetch.reads.empty() && (wanted > left || fetch.reads.size() >= kReadsMax)) return false;
  // What little fits is not worth a read.
  if (taken > 0 && left < std::min(wanted, kReadBytesMin)) {
    fetch.news = true;
    return true;
  }
  const uint64_t read = NextReadId();
  const uint64_t bytes_max = std::max<uint64_t>(1, std::min(wanted, left));
  fetch_reads_[read] = call;
  fetch.reserved += bytes_max;
  fetch.reads.push_back({.id = read,
                         .topic = fetch.topic,
                         .partition = fetch.partition,
                         .epoch = partition.leader_epoch(),
                         .bytes_max = bytes_max,
                         .done = {}});
  CountFetch(call, fetch);
  output_->reads.push_back(
      {{read}, led.hosted->log, from.fetch_offset, static_cast<uint32_t>(bytes_max)});
  return true;
}

void FrontEnd::Impl::CountFetch(CallId call, const FetchCall& fetch) {
  // Only the first of its connection reads.
  Connection& connection = connections_.at(FindCall(call)->connection);
  Slot& slot = connection.slots.front();
  LS_CHECK_EQ(slot.call, call);
  SetSlotBytes(connection, slot, fetch.kept + fetch.reserved + fetch.bytes);
}

uint64_t FrontEnd::Impl::FetchBytesMax(const FetchCall& fetch) const {
  // While memory is short, nobody brings more than its share into it.
  const uint64_t share = held_bytes_ > options_.held_bytes_max ? ShareBytes() : UINT64_MAX;
  return std::min(
      {share, uint64_t{options_.fetch_bytes_max},
       static_cast<uint64_t>(std::max(0, fetch.request.max_bytes)),
       std::max(kAnswerBytes, static_cast<uint64_t>(std::max(0, fetch.request.min_bytes)))});
}

void FrontEnd::Impl::OnFetchRead(CallId call, const storage::LogReadDone& done) {
  auto found = fetches_.find(call);
  if (found == fetches_.end()) return;  // its connection is gone
  FetchCall& fetch = found->second;
  const auto read = std::find_if(fetch.reads.begin(), fetch.reads.end(),
                                 [&](const FetchRead& one) { return one.id == done.id.value; });
  LS_CHECK(read != fetch.reads.end());
  read->done = done;
  if (!fetch.reads.front().done) return;
  for (; !fetch.reads.empty() && fetch.reads.front().done; fetch.reads.pop_front()) {
    fetch.reserved -= fetch.reads.front().bytes_max;
    TakeRead(fetch, fetch.reads.front());
  }
  CountFetch(call, fetch);
  FetchNext(call);
}

void FrontEnd::Impl::TakeRead(FetchCall& fetch, const FetchRead& read) {
  const FetchRequest::Topic& topic = fetch.request.topics[read.topic];
  const FetchRequest::Partition& from = topic.partitions[read.partition];
  FetchResponse::Partition& to = fetch.response.responses[read.topic].partitions[read.partition];
  // Looked up anew: another may lead by now, or may have led meanwhile: then what was read may have
  // been cut off since, and something else be committed in its place.
  const Led led = FindLed(topic.topic, from.partition, from.current_leader_epoch);
  if (led.error != ErrorCode::kNone || led.partition->leader_epoch() != read.epoch) {
    to.error_code = led.error != ErrorCode::kNone ? led.error : ErrorCode::kNotLeaderOrFollower;
    fetch.news = true;
  } else if (read.done->status == storage::LogReadDone::Status::kFailed) {
    to.error_code = ErrorCode::kKafkaStorageError;
    fetch.news = true;
  } else if (read.done->status == storage::LogReadDone::Status::kOutOfRange) {
    to.error_code = ErrorCode::kOffsetOutOfRange;
    fetch.news = true;
  } else {
    // The first batch of an answer may be larger than it asked for: or it would never get on.
    const uint64_t limit = FetchBytesMax(fetch);
    const uint64_t left = fetch.bytes == 0 ? UINT64_MAX : limit - std::min(limit, fetch.bytes);
    const int64_t high_watermark = led.partition->high_watermark();
    Committed committed = CommittedOf(read.done->batches, high_watermark, left);
    // A client that wants more bytes than one read brings need not wait for them: they are there.
    if (committed.bytes > 0 && committed.end < high_watermark) fetch.news = true;
    fetch.bytes += committed.bytes;
    to.records = Records(std::move(committed.slices));
    to.high_watermark = high_watermark;
    to.last_stable_offset = high_watermark;
  }
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
