// Idempotent producing: what a partition remembers of its producers, so that a batch that is sent
// again is stored once. KIP-98; docs/kafka.md, "Idempotence".
//
// The state is a function of the log: every replica tells it of every batch that it appends, so
// that a follower that becomes leader knows what the leader knew. What is lost of it (by time or by
// number, see ProducerStateOptions) costs no data: a producer that may have been forgotten may go
// on anywhere.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "core/base/bytes.h"
#include "core/base/time.h"
#include "core/kafka/error.h"
#include "core/records/record.h"
#include "core/records/record_batch.h"

namespace lockstep::kafka {

struct ProducerStateOptions {
  // producer.id.expiration.ms: a producer is forgotten so long after its last batch. Measured by
  // the replica's clock from when it appended the batch, not by the timestamps in it as in Kafka:
  // a producer that copies old data would be forgotten between two batches.
  Duration expiration = Seconds(24 * 3600);
  // Beyond so many, the one whose last batch is the oldest is forgotten. At least 1. Producers
  // with an open transaction are never forgotten; they alone may exceed this.
  size_t producers_max = 10'000;
  // How many batches TruncateTo() can take back without help. What is committed needs none.
  size_t undo_max = 1024;
  // Rule: replication::Rules::begin_unknown_producers_at_zero.
  bool begin_unknown_at_zero = true;
};

// What is remembered of one batch.
struct ProducerBatch {
  int32_t last_sequence = records::kNoSequence;
  int32_t offset_delta = 0;  // last offset - first offset, and the same for the sequences
  int64_t last_offset = -1;
  int64_t timestamp = records::kNoTimestamp;  // max_timestamp of its header, as it was stored

  bool operator==(const ProducerBatch&) const = default;
  int64_t first_offset() const { return last_offset - offset_delta; }
  // Requires: it has sequences.
  int32_t first_sequence() const { return records::SequenceMinus(last_sequence, offset_delta); }
};

// What is remembered of one producer.
struct ProducerEntry {
  // So many batches a client may have under way at once (max.in.flight.requests.per.connection with
  // idempotence), so a batch that is sent again is one of the last five.
  static constexpr size_t kBatchesMax = 5;

  int16_t epoch = records::kNoProducerEpoch;
  int32_t coordinator_epoch = -1;  // of the last marker that ended a transaction; -1: none yet
  int64_t last_timestamp = records::kNoTimestamp;  // of the last batch or marker
  std::optional<int64_t> open_transaction;         // its first offset
  // batches[0, batch_count), oldest first, all of `epoch`.
  std::array<ProducerBatch, kBatchesMax> batches;
  uint8_t batch_count = 0;
  // How many sequences before batches[0] are known to be in the log, or to have been: those of
  // batches of this epoch that came one after the other and are not remembered singly any more. At
  // most kOlderMax, so that which of two sequences comes first is clear. Not 0 only if batches[0]
  // is there and has sequences.
  static constexpr int32_t kOlderMax = 1 << 30;
  int32_t older = 0;

  bool operator==(const ProducerEntry&) const = default;
  // Requires: batch_count > 0.
  const ProducerBatch& last_batch() const { return batches[batch_count - 1u]; }
  void Add(const ProducerBatch& batch);  // drops the oldest if it is full
  void SetEpoch(int16_t value);          // another epoch forgets the batches
  // Whether all its sequences are among the `older` ones. Requires: it is of `epoch`.
  bool HasOlder(const records::BatchHeader& header) const;
};

class ProducerState {
 public:
  explicit ProducerState(const ProducerStateOptions& options = {}) : options_(options) {}

  // ---- Leader --------------------------------------------------------------------------------

  struct Verdict {
    enum class Kind : uint8_t {
      kAppend,
      // This very batch is in the log already. Answer with its offsets, when these are committed:
      // that it is there says nothing yet about the other replicas.
      kDuplicate,
      kRefuse,
    };
    Kind kind = Kind::kAppend;
    // Of kRefuse. Of kDuplicate: DUPLICATE_SEQUENCE_NUMBER if it is known only that it is before
    // the last five; then `original` is all that was before these.
    ErrorCode error = ErrorCode::kNone;
    ProducerBatch original;  // of kDuplicate

    bool operator==(const Verdict&) const = default;
  };
  // Whether a batch that a client sends now may be appended. What is appended must be told to
  // Appended() before the next one is checked. In this order:
  //   kAppend     no producer id
  //   kDuplicate  the same epoch, first and last sequence as one of the last five batches, or
  //               sequences that came before these
  //   OUT_OF_ORDER_SEQUENCE_NUMBER    of a producer that is not known, one before it is still to
  //                                   come: it does not begin with 0, and nobody can have been
  //                                   forgotten; or one before it was refused (Refused()). Were it
  //                                   appended, those before it never could be; Kafka does
  //   INVALID_PRODUCER_EPOCH          an older epoch: a zombie
  //   OUT_OF_ORDER_SEQUENCE_NUMBER    not the sequence after the last one (2^31 - 1 is followed by
  //                                   0), or, in a new epoch, not 0
  //   INVALID_TXN_STATE               not transactional, while a transaction is open
  // A batch without sequence (of the group coordinator, on behalf of a producer) is judged by its
  // epoch and transaction only.
  Verdict Check(const records::BatchHeader& header) const;

  // A batch that a client has sent was not appended, for a reason that is none of Check's, and will
  // come again: of a producer that is not known, none after it is taken before it. Forgotten when
  // one is appended, and after kRefusedKept.
  void Refused(Instant now, const records::BatchHeader& header);
  static constexpr Duration kRefusedKept = Seconds(600);

  // ---- Every replica -------------------------------------------------------------------------

  // A batch was appended, with the offsets that it has in the log. For every batch, in order, those
  // without a producer too. The log is right: nothing is checked. `marker` is what a control batch
  // says; without it all is learnt but the coordinator's epoch.
  // Requires: header.base_offset >= end_offset().
  void Appended(Instant now, const records::BatchHeader& header,
                const std::optional<records::ControlMarker>& marker = std::nullopt);

  // The high watermark is `offset`: what is below will not be taken back.
  void Committed(int64_t offset);

  // The log was cut: everything from `offset` on is gone. The state becomes what it was then,
  // exactly but for what expired in between. False, and nothing is changed, if `offset` is below
  // truncation_floor(), as when replicas were lost and a follower has to give up what was
  // committed: then the state has to be loaded from a snapshot at or below `offset`, and the
  // batches from there on told to it again.
  // Requires: a boundary of batches.
  [[nodiscard]] bool TruncateTo(int64_t offset);
  // Not above what was given to Committed(), unless undo_max was exceeded.
  int64_t truncation_floor() const { return truncation_floor_; }

  // Forgets who has not written for so long, and what was refused so long ago. To be called now and
  // then; Kafka: every ten minutes.
  void Expire(Instant now);

  // Nothing is known; the log starts (again) at `offset`, where producers may have been before
  // unless that is 0.
  void Reset(int64_t offset);

  // Where the next batch is expected: the state is that of all batches below.
  int64_t end_offset() const { return end_offset_; }
  size_t size() const { return producers_.size(); }
  // Null if it is not known. Valid until the next change.
  const ProducerEntry* Find(int64_t producer_id) const;
  // Where the earliest open transaction starts: consumers with read_committed stop there.
  std::optional<int64_t> first_open_transaction() const;
  // Of end_offset(). At most 276 bytes per producer. Format: producer_snapshot.h.
  Bytes EncodeSnapshot() const;
  // The state becomes what `snapshot` says, of `offset`; what it lists counts as written at `now`.
  // DataLoss, and nothing is changed, if the bytes are no snapshot.
  absl::Status LoadSnapshot(Instant now, std::string_view snapshot, int64_t offset);

 private:
  struct Slot {
    ProducerEntry entry;
    // After the last batch or marker: the older, the sooner it is forgotten.
    int64_t end_offset = 0;
    Instant appended;
  };
  // What a producer was before the batch at `offset`, by which it changed, or was forgotten.
  struct Undo {
    int64_t offset = 0;
    int64_t producer_id = 0;
    std::optional<Slot> before;
  };
  // The first batch of an unknown producer that is still to come.
  struct Awaited {
    int16_t epoch = 0;
    int32_t sequence = 0;
    Instant at;
  };

  // A producer of whom nothing is known.
  Verdict CheckUnknown(const records::BatchHeader& header) const;
  // The only place that changes producers_, so that what is derived from them stays right.
  void Put(int64_t producer_id, std::optional<Slot> slot);
  void Remember(Undo undo);
  void EvictBeyondMax(int64_t offset);

  const ProducerStateOptions options_;
  absl::btree_map<int64_t, Slot> producers_;
  // Derived: (end_offset, producer id), and the first offsets of open transactions.
  absl::btree_set<std::pair<int64_t, int64_t>> by_age_;
  absl::btree_set<int64_t> open_transactions_;
  std::deque<Undo> undo_;  // offsets rise
  int64_t end_offset_ = 0;
  int64_t truncation_floor_ = 0;
  // Somebody may have written here who is not in producers_.
  bool may_have_forgotten_ = false;
  // By producer id; of none in producers_, and at most producers_max.
  absl::btree_map<int64_t, Awaited> awaited_;
};

}  // namespace lockstep::kafka
