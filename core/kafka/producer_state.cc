#include "core/kafka/producer_state.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/kafka/producer_snapshot.h"

namespace lockstep::kafka {

using records::BatchHeader;
using records::kNoSequence;

namespace {

// Sequences wrap: the nearer way around decides.
bool IsAfter(int32_t a, int32_t b) {
  return a != b && records::SequenceMinus(a, b) < ProducerEntry::kOlderMax;
}

}  // namespace

void ProducerEntry::Add(const ProducerBatch& batch) {
  if (batch_count == kBatchesMax) {
    const ProducerBatch oldest = batches[0];
    std::move(batches.begin() + 1, batches.end(), batches.begin());
    --batch_count;
    // What a coordinator wrote has no sequence, and in a compacted log there are gaps.
    const ProducerBatch& next = batches[0];
    const bool leads_up = next.last_sequence != kNoSequence &&
                          oldest.last_sequence == records::SequenceMinus(next.first_sequence(), 1);
    older = leads_up
                ? std::min(kOlderMax - 1 - oldest.offset_delta, older) + oldest.offset_delta + 1
                : 0;
  }
  batches[batch_count++] = batch;
}

void ProducerEntry::SetEpoch(int16_t value) {
  if (epoch == value) return;
  epoch = value;
  batch_count = 0;
  older = 0;
  batches = {};
}

bool ProducerEntry::HasOlder(const BatchHeader& header) const {
  if (older == 0) return false;
  // Counted backwards from the first one that is remembered.
  const int64_t before = records::SequenceMinus(batches[0].first_sequence(), header.base_sequence);
  return before <= older && header.last_offset_delta < before;
}

ProducerState::Verdict ProducerState::Check(const BatchHeader& header) const {
  const auto refuse = [](ErrorCode error) {
    return Verdict{.kind = Verdict::Kind::kRefuse, .error = error};
  };
  if (!header.has_producer()) return {};
  const ProducerEntry* entry = Find(header.producer_id);
  if (entry == nullptr) return CheckUnknown(header);

  const bool has_sequence = header.base_sequence >= 0;
  // Before the sequence is judged: what was sent twice is by its sequence always too late.
  if (has_sequence && header.producer_epoch == entry->epoch) {
    for (size_t i = 0; i < entry->batch_count; ++i) {
      const ProducerBatch& batch = entry->batches[i];
      if (batch.last_sequence == header.last_sequence() &&
          batch.offset_delta == header.last_offset_delta) {
        return {.kind = Verdict::Kind::kDuplicate, .original = batch};
      }
    }
    if (entry->HasOlder(header)) {
      return {.kind = Verdict::Kind::kDuplicate,
              .error = ErrorCode::kDuplicateSequenceNumber,
              .original = {.last_offset = entry->batches[0].first_offset() - 1}};
    }
  }
  if (header.producer_epoch < entry->epoch) return refuse(ErrorCode::kInvalidProducerEpoch);
  if (has_sequence) {
    // Without a batch of this epoch it begins at 0: a new epoch, or one that only a marker has
    // brought so far.
    const bool first = header.producer_epoch != entry->epoch || entry->batch_count == 0 ||
                       entry->last_batch().last_sequence == kNoSequence;
    const int32_t expected =
        first ? 0 : records::SequencePlus(entry->last_batch().last_sequence, 1);
    if (header.base_sequence != expected) return refuse(ErrorCode::kOutOfOrderSequenceNumber);
  }
  if (entry->open_transaction.has_value() && !header.transactional()) {
    return refuse(ErrorCode::kInvalidTxnState);
  }
  return {};
}

// Batches 12, 13 and 14 are under way; there are too few replicas for 12, and enough when 13 comes.
// If any sequence could be the first one, 13 would be appended, and 12 refused for good. Of a
// producer that may have been forgotten nobody can tell where it is; but to refuse what is not 0
// (UNKNOWN_PRODUCER_ID) ends librdkafka's producers for good where the batch has been refused by a
// former leader before.
ProducerState::Verdict ProducerState::CheckUnknown(const BatchHeader& header) const {
  if (header.base_sequence < 0 || !options_.begin_unknown_at_zero) return {};
  bool early = header.base_sequence > 0 && !may_have_forgotten_;
  const auto awaited = awaited_.find(header.producer_id);
  if (awaited != awaited_.end() && awaited->second.epoch == header.producer_epoch) {
    early |= IsAfter(header.base_sequence, awaited->second.sequence);
  }
  if (!early) return {};
  return {.kind = Verdict::Kind::kRefuse, .error = ErrorCode::kOutOfOrderSequenceNumber};
}

void ProducerState::Refused(Instant now, const BatchHeader& header) {
  if (!header.has_producer() || header.base_sequence < 0) return;
  if (Find(header.producer_id) != nullptr) return;
  const auto at = awaited_.find(header.producer_id);
  if (at == awaited_.end() ? awaited_.size() >= options_.producers_max
                           : at->second.epoch == header.producer_epoch &&
                                 IsAfter(header.base_sequence, at->second.sequence)) {
    return;
  }
  awaited_.insert_or_assign(header.producer_id,
                            Awaited{header.producer_epoch, header.base_sequence, now});
}

void ProducerState::Appended(Instant now, const BatchHeader& header,
                             const std::optional<records::ControlMarker>& marker) {
  LS_CHECK_GE(header.base_offset, end_offset_);
  end_offset_ = header.next_offset();
  if (!header.has_producer()) return;
  awaited_.erase(header.producer_id);

  const auto found = producers_.find(header.producer_id);
  std::optional<Slot> before;
  if (found != producers_.end()) before = found->second;
  Slot slot = before.value_or(Slot{});
  slot.end_offset = end_offset_;
  slot.appended = now;
  ProducerEntry& entry = slot.entry;
  entry.SetEpoch(header.producer_epoch);
  entry.last_timestamp = header.max_timestamp;
  if (header.control()) {
    entry.open_transaction.reset();
    if (marker.has_value()) entry.coordinator_epoch = marker->coordinator_epoch;
  } else {
    entry.Add({.last_sequence = header.last_sequence(),
               .offset_delta = header.last_offset_delta,
               .last_offset = header.last_offset(),
               .timestamp = header.max_timestamp});
    if (header.transactional() && !entry.open_transaction.has_value()) {
      entry.open_transaction = header.base_offset;
    }
  }
  Remember({header.base_offset, header.producer_id, std::move(before)});
  Put(header.producer_id, std::move(slot));
  EvictBeyondMax(header.base_offset);
}

void ProducerState::Committed(int64_t offset) {
  const int64_t floor = std::min(offset, end_offset_);
  while (!undo_.empty() && undo_.front().offset < floor) undo_.pop_front();
  truncation_floor_ = std::max(truncation_floor_, floor);
}

bool ProducerState::TruncateTo(int64_t offset) {
  if (offset < truncation_floor_) return false;
  while (!undo_.empty() && undo_.back().offset >= offset) {
    Put(undo_.back().producer_id, std::move(undo_.back().before));
    undo_.pop_back();
  }
  end_offset_ = std::min(end_offset_, offset);
  return true;
}

void ProducerState::Expire(Instant now) {
  std::vector<int64_t> expired;
  for (const auto& [end_offset, producer_id] : by_age_) {
    const Slot& slot = producers_.find(producer_id)->second;
    // Later batches were appended later.
    if (now - slot.appended < options_.expiration) break;
    if (!slot.entry.open_transaction.has_value()) expired.push_back(producer_id);
  }
  for (const int64_t producer_id : expired) Put(producer_id, std::nullopt);
  may_have_forgotten_ |= !expired.empty();
  absl::erase_if(awaited_,
                 [&](const auto& entry) { return now - entry.second.at >= kRefusedKept; });
}

void ProducerState::Reset(int64_t offset) {
  producers_.clear();
  by_age_.clear();
  open_transactions_.clear();
  undo_.clear();
  end_offset_ = truncation_floor_ = offset;
  may_have_forgotten_ = offset > 0;
}

const ProducerEntry* ProducerState::Find(int64_t producer_id) const {
  const auto found = producers_.find(producer_id);
  return found == producers_.end() ? nullptr : &found->second.entry;
}

std::optional<int64_t> ProducerState::first_open_transaction() const {
  if (open_transactions_.empty()) return std::nullopt;
  return *open_transactions_.begin();
}

Bytes ProducerState::EncodeSnapshot() const {
  ProducerSnapshot snapshot;
  for (const auto& [producer_id, slot] : producers_) {
    snapshot.push_back({producer_id, slot.entry});
  }
  return EncodeProducerSnapshot(snapshot);
}

absl::Status ProducerState::LoadSnapshot(Instant now, std::string_view bytes, int64_t offset) {
  absl::StatusOr<ProducerSnapshot> snapshot = DecodeProducerSnapshot(bytes, offset);
  if (!snapshot.ok()) return snapshot.status();
  Reset(offset);
  for (auto& [producer_id, entry] : *snapshot) {
    const int64_t end = entry.batch_count > 0 ? entry.last_batch().last_offset + 1 : 0;
    Put(producer_id, Slot{entry, end, now});
  }
  EvictBeyondMax(offset);
  undo_.clear();               // whom there was no room for was not known before either
  may_have_forgotten_ = true;  // it does not list them
  return absl::OkStatus();
}

void ProducerState::Put(int64_t producer_id, std::optional<Slot> slot) {
  const auto found = producers_.find(producer_id);
  if (found != producers_.end()) {
    by_age_.erase({found->second.end_offset, producer_id});
    if (const auto& open = found->second.entry.open_transaction) open_transactions_.erase(*open);
  }
  if (!slot.has_value()) {
    if (found != producers_.end()) producers_.erase(found);
    return;
  }
  by_age_.insert({slot->end_offset, producer_id});
  if (const auto& open = slot->entry.open_transaction) open_transactions_.insert(*open);
  producers_.insert_or_assign(producer_id, *std::move(slot));
}

void ProducerState::Remember(Undo undo) {
  undo_.push_back(std::move(undo));
  while (undo_.size() > options_.undo_max) {
    // One batch may have two, itself and whom it displaced, and they go together.
    truncation_floor_ = undo_.front().offset + 1;
    while (!undo_.empty() && undo_.front().offset < truncation_floor_) undo_.pop_front();
  }
}

void ProducerState::EvictBeyondMax(int64_t offset) {
  auto oldest = by_age_.begin();
  while (producers_.size() > options_.producers_max && oldest != by_age_.end()) {
    const auto [end_offset, producer_id] = *oldest;
    const Slot& slot = producers_.find(producer_id)->second;
    // Never the one that was just added, for whose sake this is done.
    if (slot.entry.open_transaction.has_value() || end_offset == end_offset_) {
      ++oldest;
      continue;
    }
    Remember({offset, producer_id, slot});
    Put(producer_id, std::nullopt);
    may_have_forgotten_ = true;
    oldest = by_age_.upper_bound({end_offset, producer_id});
  }
}

}  // namespace lockstep::kafka
