// Random lives of a partition's producers against the simplest model there is: the list of all
// batches in the log, from which every answer is worked out anew.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>

#include "core/kafka/producer_state.h"

namespace lockstep::kafka {
namespace {

using records::BatchHeader;
using Kind = ProducerState::Verdict::Kind;

class Model {
 public:
  ProducerState::Verdict Check(const BatchHeader& header) const {
    // The batches of the producer's current epoch, oldest first, after the last change of epoch.
    std::vector<const BatchHeader*> own;
    for (const BatchHeader& batch : log_) {
      if (batch.producer_id != header.producer_id) continue;
      if (!own.empty() && own.back()->producer_epoch != batch.producer_epoch) own.clear();
      own.push_back(&batch);
    }
    const auto refuse = [](ErrorCode error) {
      return ProducerState::Verdict{.kind = Kind::kRefuse, .error = error};
    };
    if (own.empty()) {
      const auto refused = refused_.find(header.producer_id);
      const bool later = refused != refused_.end() &&
                         refused->second.producer_epoch == header.producer_epoch &&
                         IsAfter(header, refused->second);
      if (later || (header.base_sequence != 0 && !reloaded_)) {
        return refuse(ErrorCode::kOutOfOrderSequenceNumber);
      }
      return {};
    }
    const int16_t epoch = own.back()->producer_epoch;
    const size_t first = own.size() > 5 ? own.size() - 5 : 0;
    for (size_t i = first; i < own.size(); ++i) {
      if (epoch == header.producer_epoch && own[i]->base_sequence == header.base_sequence &&
          own[i]->record_count == header.record_count) {
        return {.kind = Kind::kDuplicate,
                .original = {own[i]->last_sequence(), own[i]->last_offset_delta,
                             own[i]->last_offset(), own[i]->max_timestamp}};
      }
    }
    if (epoch == header.producer_epoch && LeadUpTo(own, first, header)) {
      return {.kind = Kind::kDuplicate,
              .error = ErrorCode::kDuplicateSequenceNumber,
              .original = {.last_offset = own[first]->base_offset - 1}};
    }
    if (header.producer_epoch < epoch) return refuse(ErrorCode::kInvalidProducerEpoch);
    const int64_t next =
        header.producer_epoch > epoch
            ? 0
            : (own.back()->base_sequence + int64_t{own.back()->record_count}) % (int64_t{1} << 31);
    if (header.base_sequence != next) return refuse(ErrorCode::kOutOfOrderSequenceNumber);
    return {};
  }

  // Whether the sequences are among those of batches that lead up to own[first] without a gap.
  static bool LeadUpTo(const std::vector<const BatchHeader*>& own, size_t first,
                       const BatchHeader& header) {
    constexpr int64_t kSequences = int64_t{1} << 31;
    int64_t older = 0;
    for (size_t i = first; i > 0; --i) {
      const int64_t end = int64_t{own[i - 1]->base_sequence} + own[i - 1]->record_count;
      if (end % kSequences != own[i]->base_sequence) break;
      older += own[i - 1]->record_count;
    }
    const int64_t before =
        (own[first]->base_sequence - int64_t{header.base_sequence} + kSequences) % kSequences;
    return before > 0 && before <= older && header.record_count <= before;
  }

  void Append(const BatchHeader& header) {
    log_.push_back(header);
    refused_.erase(header.producer_id);
  }
  void Refuse(const BatchHeader& header) {
    for (const BatchHeader& batch : log_) {
      if (batch.producer_id == header.producer_id) return;
    }
    const auto at = refused_.find(header.producer_id);
    if (at != refused_.end() && at->second.producer_epoch == header.producer_epoch &&
        IsAfter(header, at->second)) {
      return;
    }
    refused_[header.producer_id] = header;
  }
  static bool IsAfter(const BatchHeader& a, const BatchHeader& b) {
    const int64_t by =
        (int64_t{a.base_sequence} - b.base_sequence + (int64_t{1} << 31)) % (int64_t{1} << 31);
    return by > 0 && by < int64_t{1} << 30;
  }
  int64_t end() const { return log_.empty() ? 0 : log_.back().next_offset(); }
  // Batches from the `index`-th on are gone.
  void Truncate(size_t index) { log_.resize(index); }
  const std::vector<BatchHeader>& log() const { return log_; }
  // From then on others may have been there of whom nothing is known.
  void Reload() { reloaded_ = true; }

 private:
  bool reloaded_ = false;
  std::map<int64_t, BatchHeader> refused_;
  std::vector<BatchHeader> log_;
};

// What a life consists of; a and b mean what the act makes of them.
enum class Act : uint8_t {
  kSend,
  kRetry,
  kNewEpoch,
  kForce,
  kRefuse,
  kTruncate,
  kCommit,
  kReload,
  kCount
};

class Life {
 public:
  void Do(Act act, uint32_t a, uint32_t b) {
    switch (act) {
      case Act::kSend:
        return Send(Next(a, 0, b));
      case Act::kRetry:
        if (model_.log().empty()) return;
        return Send(Sent(a));
      case Act::kNewEpoch:
        return Send(Next(a, 1 + static_cast<int>(b % 3) - 1, b));
      case Act::kForce:  // what a follower finds in its log
        return Append(Next(a, static_cast<int>(b % 5) - 2, b));
      case Act::kRefuse: {
        const BatchHeader header = Next(a, static_cast<int>(b % 3) - 1, b);
        state_.Refused(Instant{0}, header);
        model_.Refuse(header);
        break;
      }
      case Act::kTruncate: {
        if (model_.log().empty()) return;
        const size_t index = a % model_.log().size();
        const int64_t offset = model_.log()[index].base_offset;
        const bool done = state_.TruncateTo(offset);
        RC_ASSERT(done == (offset >= committed_));
        if (done) model_.Truncate(index);
        break;
      }
      case Act::kCommit: {
        const int64_t end = model_.end();
        if (end == 0) return;
        const size_t index = a % model_.log().size();
        committed_ = std::max(committed_, model_.log()[index].base_offset);
        state_.Committed(committed_);
        break;
      }
      case Act::kReload: {
        const Bytes snapshot = state_.EncodeSnapshot();
        RC_ASSERT(state_.LoadSnapshot(Instant{0}, snapshot.view(), model_.end()).ok());
        RC_ASSERT(state_.EncodeSnapshot() == snapshot);
        model_.Reload();
        committed_ = model_.end();
        break;
      }
      case Act::kCount:
        break;
    }
    RC_ASSERT(state_.end_offset() == model_.end());
  }

 private:
  // What the producer a would send next, or something beside it.
  BatchHeader Next(uint32_t a, int epoch_step, uint32_t b) const {
    BatchHeader header{.producer_id = a % 3, .producer_epoch = 1};
    header.record_count = static_cast<int32_t>(1 + b % 4);
    header.last_offset_delta = header.record_count - 1;
    header.base_sequence = static_cast<int32_t>(b % 7 == 0 ? 0x7ffffffe : b % 5 < 3 ? 0 : b % 5);
    for (const BatchHeader& batch : model_.log()) {
      if (batch.producer_id != header.producer_id) continue;
      header.producer_epoch = static_cast<int16_t>(std::max(0, batch.producer_epoch + epoch_step));
      if (b % 5 != 0) header.base_sequence = records::SequencePlus(batch.last_sequence(), 1);
    }
    if (epoch_step != 0 && b % 2 == 0) header.base_sequence = 0;
    header.max_timestamp = b;
    return header;
  }
  BatchHeader Sent(uint32_t a) const {
    BatchHeader header = model_.log()[model_.log().size() - 1 - a % model_.log().size()];
    header.base_offset = 0;
    return header;
  }
  void Send(const BatchHeader& header) {
    const ProducerState::Verdict verdict = state_.Check(header);
    RC_ASSERT(verdict == model_.Check(header));
    if (verdict.kind == Kind::kAppend) Append(header);
  }
  void Append(BatchHeader header) {
    header.base_offset = model_.end();
    state_.Appended(Instant{0}, header);
    model_.Append(header);
  }

  ProducerState state_;
  Model model_;
  int64_t committed_ = 0;
};

RC_GTEST_PROP(ProducerState, AnswersAsTheWholeLogWould, ()) {
  const auto steps = *rc::gen::container<std::vector<std::tuple<uint8_t, uint32_t, uint32_t>>>(
      rc::gen::tuple(rc::gen::inRange<uint8_t>(0, static_cast<uint8_t>(Act::kCount)),
                     rc::gen::inRange<uint32_t>(0, 100), rc::gen::inRange<uint32_t>(0, 100)));
  Life life;
  for (const auto& [act, a, b] : steps) life.Do(static_cast<Act>(act), a, b);
}

}  // namespace
}  // namespace lockstep::kafka
