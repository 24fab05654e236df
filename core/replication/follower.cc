#include "core/replication/follower.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/event.h"
#include "core/records/record_batch.h"

namespace lockstep::replication {
namespace {

uint64_t Detail(Offset offset) { return static_cast<uint64_t>(offset); }

}  // namespace

CutBatches CheckBatches(const std::vector<Bytes>& slices, Offset from, bool may_begin_below,
                        LeaderEpoch latest, LeaderEpoch leader_epoch) {
  CutBatches cut{.end = from, .first_base = from};
  bool first = true;
  for (const Bytes& slice : slices) {
    for (size_t at = 0; at < slice.size();) {
      const auto header = records::ParseBatchHeader(slice.view().substr(at));
      if (!header.ok()) {
        cut.refused = "no-batch";
        return cut;
      }
      if (first && may_begin_below && header->base_offset < from && header->next_offset() > from) {
        cut.first_base = header->base_offset;
      } else if (header->base_offset != cut.end) {
        cut.refused = "not-contiguous";
        return cut;
      }
      if (!records::CrcMatches(records::Batch::Of(slice.Slice(at, header->size())))) {
        cut.refused = "wrong-crc";
        return cut;
      }
      const LeaderEpoch epoch{header->partition_leader_epoch};
      // Below our last epoch: our history has parted from the leader's, and we were not told.
      if (epoch < latest || epoch.value < 0 || epoch > leader_epoch) {
        cut.refused = "epoch-out-of-order";
        return cut;
      }
      if (epoch > latest) {
        cut.epochs.push_back({.epoch = epoch.value, .start = header->base_offset});
      }
      latest = epoch;
      cut.end = header->next_offset();
      at += header->size();
      first = false;
    }
  }
  return cut;
}

void Follower::Begin(BrokerId former_leader, PartitionOutput* output) {
  backoff_until_ = Instant::Never();
  heard_high_watermark_ = replica_.high_watermark();
  reconcile_ = options_.rules.reconcile_on_every_epoch || *state_.leader != former_leader;
  // The seed's way.
  if (!options_.rules.truncate_by_leader_epoch && replica_.high_watermark() < replica_.log_end()) {
    replica_.Truncate(replica_.high_watermark(), output);
    output->events.push_back({.kind = EventKind::kLogTruncated,
                              .detail = Detail(replica_.log_end()),
                              .reason = "to-high-watermark"});
  }
  FetchAgain(output);
}

std::optional<ReplicaFetchRequest::Entry> Follower::NextFetch() const {
  if (backoff_until_ != Instant::Never()) return std::nullopt;
  // A fetch acknowledges what is below its offset.
  if (options_.rules.fetch_after_durable && !replica_.settled()) return std::nullopt;
  return ReplicaFetchRequest::Entry{
      .partition = state_.id,
      .leader_epoch = state_.leader_epoch,
      .fetch_offset = replica_.log_end(),
      .last_fetched_epoch = last_fetched_epoch(),
      .log_start = replica_.log_start(),
      .high_watermark = replica_.high_watermark(),
      .replicas_version = state_.replicas_version,
  };
}

LeaderEpoch Follower::last_fetched_epoch() const {
  const bool compare = options_.rules.truncate_by_leader_epoch && reconcile_;
  return compare ? replica_.epochs().latest() : LeaderEpoch{};
}

const char* Follower::WhyStale(BrokerId leader, const ReplicaFetchResponse::Entry& entry) const {
  if (!options_.rules.discard_responses_of_other_fetches) return nullptr;
  if (leader != *state_.leader) return "response-of-another-leader";
  if (entry.fetch_offset != replica_.log_end()) return "response-to-another-offset";
  if (entry.last_fetched_epoch != last_fetched_epoch()) return "response-to-another-history";
  // Other errors may say that the leader is of another epoch; they change nothing here.
  if ((entry.error == FetchError::kNone || entry.error == FetchError::kOffsetOutOfRange) &&
      entry.leader_epoch != state_.leader_epoch) {
    return "response-of-another-epoch";
  }
  return nullptr;
}

void Follower::OnFetchResponse(Instant now, BrokerId leader,
                               const ReplicaFetchResponse::Entry& entry, PartitionOutput* output) {
  if (const char* reason = WhyStale(leader, entry)) {
    output->events.push_back({.kind = EventKind::kIgnored,
                              .peer = {static_cast<uint32_t>(leader.value)},
                              .detail = Detail(entry.fetch_offset),
                              .reason = reason});
    return;
  }
  if (entry.error == FetchError::kOffsetOutOfRange) {
    // What we miss, or have instead, has been deleted there. It was committed: we are not in the
    // ISR.
    replica_.Restart(entry.log_start, output);
    heard_high_watermark_ = replica_.high_watermark();
    output->events.push_back({.kind = EventKind::kLogRestarted,
                              .detail = Detail(entry.log_start),
                              .reason = "at-leaders-log-start"});
    return FetchAgain(output);
  }
  if (entry.error != FetchError::kNone) return Fail(now, ToString(entry.error), output);
  if (entry.diverging) {
    if (!Truncate(*entry.diverging, output)) {
      return Fail(now, "diverging-without-progress", output);
    }
    return FetchAgain(output);
  }
  if (!entry.batches.empty()) {
    if (const char* refused = Append(entry, output)) return Fail(now, refused, output);
  }
  LearnHighWatermark(entry.high_watermark, output);
  // What the leader has deleted below its high watermark, nobody will ask us for.
  const Offset start = std::min(entry.log_start, replica_.high_watermark());
  if (start > replica_.log_start()) replica_.StartAt(start, output);
  FetchAgain(output);
}

bool Follower::Truncate(const ReplicaFetchResponse::Diverging& diverging, PartitionOutput* output) {
  const LeaderEpoch latest = replica_.epochs().latest();
  const Offset end = replica_.log_end();
  Offset to = std::min(diverging.end, end);
  if (diverging.epoch.value >= 0) {
    // If we have that epoch: the leader has nothing of ours after where it ends, here or there. If
    // not: nothing after where the last one before it ends here. Then the leader's end is one of
    // records we never had, perhaps within a batch of ours, and no place to cut; what we have in
    // common the next answer says.
    const auto own = replica_.epochs().EndOffsetFor(diverging.epoch, end, true);
    if (own) to = own->epoch == diverging.epoch ? std::min(to, own->end) : own->end;
  }
  const Offset high_watermark = replica_.high_watermark();
  replica_.Truncate(to, output);
  if (replica_.log_end() == end && replica_.epochs().latest() == latest) return false;
  heard_high_watermark_ = std::min(heard_high_watermark_, to);
  output->events.push_back(
      {.kind = EventKind::kLogTruncated,
       .detail = Detail(to),
       .reason = to < high_watermark ? "below-high-watermark" : "histories-part"});
  return true;
}

const char* Follower::Append(const ReplicaFetchResponse::Entry& entry, PartitionOutput* output) {
  const Offset end = replica_.log_end();
  const bool empty = replica_.log_start() == end;
  const CutBatches cut =
      CheckBatches(entry.batches, end, empty, replica_.epochs().latest(), state_.leader_epoch);
  if (cut.refused != nullptr) return cut.refused;
  if (cut.first_base < end) {
    // The leader's log begins in the middle of a batch (DeleteRecords), and batches stay whole.
    replica_.Truncate(cut.first_base, output);
    replica_.Append(entry.batches, cut.end, cut.epochs, output);
    replica_.StartAt(end, output);
    return nullptr;
  }
  if (cut.end > end) replica_.Append(entry.batches, cut.end, cut.epochs, output);
  return nullptr;
}

void Follower::LearnHighWatermark(Offset heard, PartitionOutput* output) {
  if (!options_.rules.bound_high_watermark_by_log_end) {
    replica_.OverwriteHighWatermark(heard, output);
    return;
  }
  // It never goes back: a new leader may know less than the one before it told us.
  heard_high_watermark_ = std::max(heard_high_watermark_, heard);
  replica_.RaiseHighWatermark(std::min(heard_high_watermark_, replica_.durable_end()), output);
}

void Follower::OnPersisted(PartitionOutput* output) {
  LearnHighWatermark(heard_high_watermark_, output);
  if (replica_.settled()) FetchAgain(output);
}

void Follower::OnWake(Instant now, PartitionOutput* output) {
  if (backoff_until_ == Instant::Never() || now < backoff_until_) return;
  backoff_until_ = Instant::Never();
  FetchAgain(output);
}

void Follower::Fail(Instant now, const char* reason, PartitionOutput* output) {
  output->events.push_back(
      {.kind = EventKind::kFetchFailed, .detail = Detail(replica_.log_end()), .reason = reason});
  backoff_until_ = now + kFetchBackoff;
}

void Follower::FetchAgain(PartitionOutput* output) { output->fetch_now |= NextFetch().has_value(); }

}  // namespace lockstep::replication
