// What the front end knows of the partitions that are hosted here: their producers, who waits for
// them, and, for those of the offsets topic, the groups.
#include <algorithm>
#include <utility>

#include "core/kafka/front_end_impl.h"
#include "core/records/record.h"

namespace lockstep::kafka {
namespace {

// One read of a scan.
constexpr uint32_t kScanBytes = 1 << 20;

std::optional<records::ControlMarker> MarkerOf(const records::SlicedBatches::Item& batch) {
  if (!batch.header.control()) return std::nullopt;
  absl::StatusOr<records::ControlMarker> marker =
      records::ReadControlMarker(batch.header, records::Batch::Of(batch.Joined()));
  if (!marker.ok()) return std::nullopt;  // of a kind that ends no transaction
  return *marker;
}

}  // namespace

// ---- From the broker ---------------------------------------------------------------------------

void FrontEnd::Impl::On(const replication::BrokerOutput::Opened& event) {
  const storage::RecoveredLog& log = event.log;
  ProducerStateOptions options;
  options.expiration = options_.producer_id_expiration;
  options.begin_unknown_at_zero = broker_.options().rules.begin_unknown_producers_at_zero;
  auto [at, added] = hosted_.try_emplace(event.partition, options);
  LS_CHECK(added);
  Hosted& hosted = at->second;
  hosted.id = event.partition;
  hosted.topic = event.topic;
  hosted.log = log.log;
  logs_[log.log.value] = event.partition;

  // The snapshot and what came after it give the state; without a snapshot the headers go back to
  // the oldest batch that there is, perhaps below the log's start: what DeleteRecords has taken
  // from clients says here still that a batch that is sent again was there.
  if (log.damaged) {
    hosted.producers.Reset(log.end);  // nobody can tell who wrote what cannot be read
  } else if (!log.producer_snapshot.empty()) {
    absl::Status loaded = hosted.producers.LoadSnapshot(now_, log.producer_snapshot.view(),
                                                        log.producer_snapshot_offset);
    if (!loaded.ok()) {
      output_->events.push_back({.kind = EventKind::kIgnored,
                                 .detail = log.log.value,
                                 .reason = "a damaged producer snapshot: the log is read instead"});
      hosted.producers.Reset(log.start);
      if (log.end > log.start) Rebuild(hosted);
      return;
    }
  } else {
    hosted.producers.Reset(std::min(log.start, log.producer_snapshot_offset));
  }
  for (const Bytes& bytes : log.batch_headers) {
    // Headers alone: what a marker says is learnt by reading it, and only transactions need it.
    const records::BatchHeader header = records::HeaderOf({.header = bytes, .records = {}});
    if (header.base_offset >= hosted.producers.end_offset()) {
      hosted.producers.Appended(now_, header);
    }
  }
}

void FrontEnd::Impl::On(const replication::BrokerOutput::Appended& event) {
  Hosted* hosted = FindHosted(event.partition);
  LS_CHECK(hosted != nullptr);
  if (hosted->rebuilding) return;  // the scan comes to it
  records::SlicedBatches batches(event.batches);
  while (auto batch = batches.Next()) {
    hosted->producers.Appended(now_, batch->header, MarkerOf(*batch));
  }
}

void FrontEnd::Impl::On(const replication::BrokerOutput::Truncated& event) {
  Hosted* hosted = FindHosted(event.partition);
  LS_CHECK(hosted != nullptr);
  if (event.restarted) {
    DropScans(event.partition);
    hosted->producers.Reset(event.to);
    hosted->rebuilding = false;
  } else if (hosted->rebuilding || !hosted->producers.TruncateTo(event.to)) {
    Rebuild(*hosted);
  }
}

void FrontEnd::Impl::On(const replication::BrokerOutput::RoleChanged& event) {
  Hosted* hosted = FindHosted(event.partition);
  LS_CHECK(hosted != nullptr);
  const bool led = hosted->role == replication::Role::kLeader;
  const bool same = led && event.role == replication::Role::kLeader && event.epoch == hosted->epoch;
  hosted->role = event.role;
  hosted->epoch = event.epoch;
  if (same) return;
  if (led) {
    // Acknowledgements belong to the epoch that has ended; KAFKA-20634.
    for (const Hosted::Duplicate& duplicate : std::exchange(hosted->duplicates, {})) {
      FinishPart(duplicate.produce, ErrorCode::kNotLeaderOrFollower, -1);
    }
    const std::set<CallId> parked = hosted->parked_fetches;
    for (CallId call : parked) WakeFetch(call);
  }
  if (hosted->topic != kOffsetsTopic) return;
  if (led) groups_.OnResigned(now_, event.partition.partition, &groups_out_);
  hosted->load_end.reset();
  if (event.role != replication::Role::kLeader) return;
  const replication::Partition* partition = broker_.FindPartition(event.partition);
  LS_CHECK(partition != nullptr);
  groups_.OnLoadBegin(now_, event.partition.partition, event.epoch);
  StartScan({.purpose = Scan::Purpose::kGroups,
             .partition = event.partition,
             .epoch = event.epoch,
             .next = partition->log_start(),
             .end = partition->log_end()});
}

void FrontEnd::Impl::On(const replication::BrokerOutput::Removed& event) {
  auto found = hosted_.find(event.partition);
  LS_CHECK(found != hosted_.end());
  if (found->second.role == replication::Role::kLeader) {
    On(replication::BrokerOutput::RoleChanged{event.partition, replication::Role::kIdle,
                                              found->second.epoch});
  }
  const std::set<CallId> parked = found->second.parked_fetches;
  DropScans(event.partition);
  logs_.erase(found->second.log.value);
  hosted_.erase(found);
  for (CallId call : parked) WakeFetch(call);
}

void FrontEnd::Impl::OnHighWatermark(const PartitionId& id) {
  Hosted* hosted = FindHosted(id);
  const replication::Partition* partition = broker_.FindPartition(id);
  if (hosted == nullptr || partition == nullptr) return;
  const int64_t high_watermark = partition->high_watermark();
  if (!hosted->rebuilding) {
    hosted->producers.Committed(std::min(high_watermark, hosted->producers.end_offset()));
  }
  if (hosted->role != replication::Role::kLeader) return;
  EndLoadIfCommitted(*hosted, high_watermark);
  // Answering one may let in the next request of its connection, which may be one more of them.
  for (const Hosted::Duplicate& duplicate : std::exchange(hosted->duplicates, {})) {
    if (duplicate.end <= high_watermark) {
      FinishPart(duplicate.produce, duplicate.error, duplicate.base_offset);
    } else {
      hosted->duplicates.push_back(duplicate);
    }
  }
  const std::set<CallId> parked = hosted->parked_fetches;
  for (CallId call : parked) WakeFetch(call);
}

// ---- Looking up --------------------------------------------------------------------------------

FrontEnd::Impl::Hosted* FrontEnd::Impl::FindHosted(const PartitionId& id) {
  auto found = hosted_.find(id);
  return found == hosted_.end() ? nullptr : &found->second;
}

const replication::TopicState* FrontEnd::Impl::FindTopic(const std::string& topic) const {
  const auto& topics = broker_.metadata().topics();
  auto found = topics.find(topic);
  if (found == topics.end() || found->second.deleting) return nullptr;
  return &found->second;
}

std::optional<replication::PartitionId> FrontEnd::Impl::FindPartition(const std::string& topic,
                                                                      int32_t partition) const {
  const replication::TopicState* state = FindTopic(topic);
  if (state == nullptr || partition < 0 ||
      static_cast<size_t>(partition) >= state->partitions.size()) {
    return std::nullopt;
  }
  return PartitionId{state->id, partition};
}

FrontEnd::Impl::Led FrontEnd::Impl::FindLed(const std::string& topic, int32_t partition,
                                            int32_t epoch) {
  // What has not been read yet is not unknown: a client would give it up.
  if (!broker_.metadata().complete()) return {.error = ErrorCode::kNotLeaderOrFollower};
  const std::optional<PartitionId> id = FindPartition(topic, partition);
  if (!id) return {.error = ErrorCode::kUnknownTopicOrPartition};
  Hosted* hosted = FindHosted(*id);
  const replication::Partition* replica = broker_.FindPartition(*id);
  if (hosted == nullptr || replica == nullptr || hosted->role != replication::Role::kLeader ||
      !broker_.may_lead(now_)) {
    return {.error = ErrorCode::kNotLeaderOrFollower};
  }
  if (epoch >= 0 && epoch < replica->leader_epoch().value) {
    return {.error = ErrorCode::kFencedLeaderEpoch};
  }
  if (epoch > replica->leader_epoch().value) return {.error = ErrorCode::kUnknownLeaderEpoch};
  return {.error = ErrorCode::kNone, .hosted = hosted, .partition = replica};
}

// ---- Scans -------------------------------------------------------------------------------------

// The producers' state as the log itself gives it, from its start: when a snapshot is damaged, or
// more was cut off than could be taken back.
void FrontEnd::Impl::Rebuild(Hosted& hosted) {
  const replication::Partition* partition = broker_.FindPartition(hosted.id);
  LS_CHECK(partition != nullptr);
  hosted.rebuilding = true;
  hosted.producers.Reset(partition->log_start());
  StartScan({.purpose = Scan::Purpose::kProducers,
             .partition = hosted.id,
             .epoch = {},
             .next = partition->log_start(),
             .end = partition->log_end()});
}

void FrontEnd::Impl::StartScan(Scan scan) {
  // There is one scan of a kind for a partition: a later one replaces it.
  std::erase_if(scans_, [&](const auto& entry) {
    return entry.second.purpose == scan.purpose && entry.second.partition == scan.partition;
  });
  if (scan.next >= scan.end) return EndScan(scan);
  const uint64_t read = NextReadId();
  scans_[read] = scan;
  output_->reads.push_back({{read}, FindHosted(scan.partition)->log, scan.next, kScanBytes});
}

// Its log begins anew, or is another one when the partition comes back: what a read of the one
// before brings would be taken for what the new one has.
void FrontEnd::Impl::DropScans(const PartitionId& partition) {
  std::erase_if(scans_, [&](const auto& entry) { return entry.second.partition == partition; });
}

void FrontEnd::Impl::OnLogRead(const storage::LogReadDone& done) {
  if (auto fetch = fetch_reads_.find(done.id.value); fetch != fetch_reads_.end()) {
    const CallId call = fetch->second;
    fetch_reads_.erase(fetch);
    return OnFetchRead(call, done);
  }
  if (auto scan = scans_.find(done.id.value); scan != scans_.end()) {
    const Scan read = scan->second;
    scans_.erase(scan);
    OnScanRead(read, done);
    CarryGroups();
  }
}

void FrontEnd::Impl::OnScanRead(const Scan& scan, const storage::LogReadDone& done) {
  Hosted* hosted = FindHosted(scan.partition);
  if (hosted == nullptr) return;
  const bool groups = scan.purpose == Scan::Purpose::kGroups;
  if (groups && (hosted->role != replication::Role::kLeader || hosted->epoch != scan.epoch)) return;
  const replication::Partition* partition = broker_.FindPartition(scan.partition);
  LS_CHECK(partition != nullptr);
  Scan next = scan;
  // The producers' scan goes on to what has been appended meanwhile.
  if (!groups) next.end = partition->log_end();
  if (done.status == storage::LogReadDone::Status::kOutOfRange) {
    // Retention has overtaken it.
    next.next = std::max(next.next, partition->log_start());
    if (!groups) hosted->producers.Reset(next.next);
    if (done.batches.empty() && next.next == scan.next) next.next = next.end;
    return StartScan(next);
  }
  if (done.status != storage::LogReadDone::Status::kOk) {
    // The disk gives it back damaged. A coordinator that knows only a part of its groups would hand
    // out wrong offsets, so it goes on answering that it is loading.
    output_->events.push_back({.kind = EventKind::kIgnored,
                               .detail = done.log.value,
                               .reason = "a log cannot be read: its state is not known"});
    return;
  }
  records::SlicedBatches batches(done.batches);
  while (auto batch = batches.Next()) {
    if (groups) {
      groups_.OnLoadBatches(now_, scan.partition.partition, batch->Joined(), &groups_out_);
    } else if (batch->header.base_offset >= hosted->producers.end_offset()) {
      hosted->producers.Appended(now_, batch->header, MarkerOf(*batch));
    }
    next.next = std::max(next.next, batch->header.next_offset());
  }
  if (done.batches.empty()) next.next = next.end;
  StartScan(next);
}

void FrontEnd::Impl::EndScan(const Scan& scan) {
  if (scan.purpose == Scan::Purpose::kProducers) {
    FindHosted(scan.partition)->rebuilding = false;
    return;
  }
  Hosted& hosted = *FindHosted(scan.partition);
  const replication::Partition* partition = broker_.FindPartition(scan.partition);
  LS_CHECK(partition != nullptr);
  hosted.load_end = scan.end;
  EndLoadIfCommitted(hosted, partition->high_watermark());
}

// What has been read and is not committed could be taken back by another fail-over: an offset that
// was told before would be lost. Kafka does not wait for it.
void FrontEnd::Impl::EndLoadIfCommitted(Hosted& hosted, int64_t high_watermark) {
  if (!hosted.load_end || high_watermark < *hosted.load_end) return;
  hosted.load_end.reset();
  groups_.OnLoadEnd(now_, hosted.id.partition, &groups_out_);
}

// ---- Producer snapshots ------------------------------------------------------------------------

void FrontEnd::Impl::OnLogRolled(storage::LogNumber log) {
  auto found = logs_.find(log.value);
  if (found == logs_.end()) return;
  const Hosted& hosted = hosted_.at(found->second);
  if (hosted.rebuilding) return;
  output_->producer_snapshots.push_back(
      {log, hosted.producers.end_offset(), hosted.producers.EncodeSnapshot()});
}

void FrontEnd::Impl::SnapshotProducers() {
  for (const auto& [id, hosted] : hosted_) OnLogRolled(hosted.log);
}

}  // namespace lockstep::kafka
