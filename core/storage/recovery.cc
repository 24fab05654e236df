#include "core/storage/recovery.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/check.h"
#include "core/storage/little_endian.h"

namespace lockstep::storage {
namespace {

constexpr char kWhatToDo[] =
    "The server does not serve, since transactions that it acknowledged may be gone. Restore both "
    "directories from a copy, or, if the other servers form a quorum without it, empty both and "
    "let it join them anew";

// Whether all bytes are zero.
bool IsZero(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char byte) { return byte == 0; });
}

}  // namespace

Recovery::Recovery(const StoreOptions& options, Operations* operations)
    : options_(options), operations_(operations) {}

void Recovery::Issue(FileOp op, StoreOutput* output) {
  ++under_way_;
  operations_->Issue(Owner::kRecovery, 0, std::move(op), output);
}

bool Recovery::Fatal(std::string sentence, StoreOutput* output) {
  output->fatal = std::move(sentence);
  return false;
}

bool Recovery::Damaged(uint64_t offset, const std::string& what, StoreOutput* output) {
  return Fatal(SegmentName() + " is damaged at offset " + std::to_string(offset) + ": " + what +
                   ". " + kWhatToDo,
               output);
}

std::string Recovery::SegmentName() const {
  return Describe(Directory::kLog, FileName(FileKind::kJournal, sequences_[segment_]));
}

// ---- The steps ---------------------------------------------------------------------------------

void Recovery::Start(StoreOutput* output) {
  Issue({.kind = OpKind::kList, .directory = Directory::kLog}, output);
  Issue({.kind = OpKind::kList, .directory = Directory::kData}, output);
}

void Recovery::OnDone(const Operation& operation, const FileDone& done, StoreOutput* output) {
  switch (step_) {
    case Step::kListing:
      for (const std::string& name : done.names) {
        const std::optional<ParsedName> parsed = ParseFileName(name);
        if (!parsed.has_value()) continue;
        const bool journal = parsed->kind == FileKind::kJournal;
        // The two directories may be one.
        if (journal && operation.directory == Directory::kLog) sequences_.push_back(parsed->number);
        if (!journal && operation.directory == Directory::kData) data_files_.push_back(*parsed);
      }
      if (--under_way_ == 0) OnListed(output);
      return;
    case Step::kJournal:
      window_ = done.data;
      window_at_ = operation.offset;
      window_is_known_ = true;
      window_ends_file_ = done.data.size() < operation.size;
      ReadSegments(output);
      return;
    case Step::kSnapshot:
      snapshot_->OnRead(done.data, output);
      if (!output->fatal.has_value() && snapshot_->done()) ReadUnvouched(output);
      return;
    case Step::kUnvouched:
      --under_way_;
      if (done.data.size() != operation.size) {
        Fatal(Describe(Directory::kLog, operation.file) +
                  " has become shorter while it was read: does anything else change it?",
              output);
        return;
      }
      return Repair(done.data, output);
    case Step::kRepairing:
      if (--under_way_ == 0) RemoveLeftovers(output);
      return;
    case Step::kRemoving:
      if (--under_way_ == 0) Finish(output);
      return;
    case Step::kDone:
      break;
  }
  LS_UNREACHABLE();
}

void Recovery::OnListed(StoreOutput* output) {
  std::sort(sequences_.begin(), sequences_.end());
  for (size_t i = 1; i < sequences_.size(); ++i) {
    if (sequences_[i] == sequences_[i - 1] + 1) continue;
    Fatal(Describe(Directory::kLog, FileName(FileKind::kJournal, sequences_[i - 1] + 1)) +
              " is missing, between others that are there. " + kWhatToDo,
          output);
    return;
  }
  step_ = Step::kJournal;
  if (sequences_.empty()) return OnJournalRead(output);
  OpenSegment(sequences_.size() - 1);
  ReadSegments(output);
}

void Recovery::OpenSegment(size_t index) {
  segment_ = index;
  part_ = Part::kHeader;
  window_ = Bytes();
  window_is_known_ = false;
}

void Recovery::OnJournalRead(StoreOutput* output) {
  const auto named = [](const ParsedName& file) { return file.kind != FileKind::kTemporary; };
  if (!newest_.has_value()) {
    // A snapshot is named only after the journal has begun, so this is no first start.
    const auto found = std::find_if(data_files_.begin(), data_files_.end(), named);
    if (found != data_files_.end()) {
      Fatal(Describe(Directory::kData, FileName(found->kind, found->number)) +
                " is there, but dataLogDir holds no journal: is dataLogDir the right directory, "
                "and mounted? If the journal is lost, and the other servers form a quorum without "
                "this one, empty dataDir too and let it join them anew",
            output);
      return;
    }
    return Repair(Bytes(), output);
  }
  const SnapshotRef& snapshot = checkpoint_.snapshot;
  if (table_.base() > snapshot.zxid) {
    Fatal("the journal in dataLogDir begins after " + table_.base().ToString() + ", but " +
              snapshot.ToString() + " reaches that far: older segments are missing. " + kWhatToDo,
          output);
    return;
  }
  if (snapshot.kind == SnapshotRef::Kind::kNone) return ReadUnvouched(output);
  const bool found =
      std::any_of(data_files_.begin(), data_files_.end(), [&](const ParsedName& file) {
        return FileName(file.kind, file.number) == snapshot.FileName();
      });
  if (!found) {
    Fatal(Describe(Directory::kData, snapshot.FileName()) +
              " is missing, and the journal relies on it: is dataDir the right directory, and "
              "mounted? " +
              kWhatToDo,
          output);
    return;
  }
  step_ = Step::kSnapshot;
  snapshot_ = std::make_unique<SnapshotReader>(snapshot, options_.server, operations_);
  snapshot_->Start(output);
}

// A sync of the last batch may have failed, and the process have been killed before it knew. The
// page cache still has the batch, counts as clean, and will never be written; a sync succeeds now
// (Linux tells a failure once). So the batch is written again before it is synced.
void Recovery::ReadUnvouched(StoreOutput* output) {
  step_ = Step::kUnvouched;
  Issue({.kind = OpKind::kRead,
         .directory = Directory::kLog,
         .file = FileName(FileKind::kJournal, newest_->sequence),
         .offset = unvouched_,
         .size = end_ - unvouched_},
        output);
}

// Leaves the directories as if nothing had happened, durably, before anything is appended or told.
void Recovery::Repair(const Bytes& unvouched, StoreOutput* output) {
  step_ = Step::kRepairing;
  if (newest_.has_value()) {
    const std::string file = FileName(FileKind::kJournal, newest_->sequence);
    Issue({.kind = OpKind::kWrite,
           .directory = Directory::kLog,
           .file = file,
           .offset = unvouched_,
           .data = {unvouched}},
          output);
    if (torn_) {
      // What was cut must never be read again: once new batches follow, pieces of it that check
      // would look like acknowledged records behind a damage. Overwritten rather than cut off: a
      // file that is shorter than it was made is one that somebody else has cut.
      const Bytes zeros = Bytes::Build(std::min(kReadBytes, garbage_end_ - end_), [&](char* to) {
        std::memset(to, 0, std::min(kReadBytes, garbage_end_ - end_));
      });
      for (uint64_t at = end_; at < garbage_end_; at += zeros.size()) {
        const uint64_t size = std::min<uint64_t>(zeros.size(), garbage_end_ - at);
        Issue({.kind = OpKind::kWrite,
               .directory = Directory::kLog,
               .file = file,
               .offset = at,
               .data = {zeros.Slice(0, size)}},
              output);
      }
    }
    // After a crash of the process alone, what was read may be in the page cache only, and what is
    // told as recovered is relied upon.
    Issue({.kind = OpKind::kSync, .directory = Directory::kLog, .file = file}, output);
  }
  if (!unusable_.empty()) {
    Issue({.kind = OpKind::kRemove, .directory = Directory::kLog, .file = unusable_}, output);
  }
  if (newest_.has_value() || next_prepared_ || !unusable_.empty()) {
    Issue({.kind = OpKind::kSyncDirectory, .directory = Directory::kLog}, output);
  }
  if (under_way_ == 0) RemoveLeftovers(output);
}

// Only when the journal, as it was read, is durable: the record that names the newest snapshot may
// have been in the page cache alone. Removed at the same time as that is synced, the snapshot
// before would be gone although, after a loss of power, it is the one that counts.
void Recovery::RemoveLeftovers(StoreOutput* output) {
  step_ = Step::kRemoving;
  bool removed = false;
  for (const ParsedName& file : data_files_) {
    const std::string name = FileName(file.kind, file.number);
    const SnapshotRef& snapshot = checkpoint_.snapshot;
    if (snapshot.kind != SnapshotRef::Kind::kNone && name == snapshot.FileName()) continue;
    Issue({.kind = OpKind::kRemove, .directory = Directory::kData, .file = name}, output);
    removed = true;
  }
  if (removed) Issue({.kind = OpKind::kSyncDirectory, .directory = Directory::kData}, output);
  if (under_way_ == 0) Finish(output);
}

void Recovery::Finish(StoreOutput* output) {
  step_ = Step::kDone;
  output->events.push_back(
      {.kind = EventKind::kRecovered, .zxid = checkpoint_.last, .detail = replayed_});
}

Recovered Recovery::TakeRecovered() {
  LS_CHECK(done());
  return {.accepted_epoch = checkpoint_.accepted_epoch,
          .current_epoch = checkpoint_.current_epoch,
          .base = table_.empty() ? Zxid{} : table_.base(),
          .snapshot = checkpoint_.snapshot.zxid,
          .transactions = std::move(transactions_)};
}

JournalEnd Recovery::TakeJournalEnd() {
  LS_CHECK(done());
  return {.segments = std::move(table_),
          .header = newest_,
          .end = end_,
          .checkpoint = checkpoint_,
          .logs = logs_.table(),
          .next_prepared = next_prepared_};
}

// ---- Reading the journal -----------------------------------------------------------------------

std::optional<std::string_view> Recovery::Peek(uint64_t offset, uint64_t size,
                                               StoreOutput* output) {
  const uint64_t window_end = window_at_ + window_.size();
  if (window_is_known_ && offset >= window_at_ &&
      (offset + size <= window_end || window_ends_file_)) {
    if (offset >= window_end) return std::string_view();
    return window_.view().substr(offset - window_at_, size);
  }
  operations_->Issue(Owner::kRecovery, 0,
                     {.kind = OpKind::kRead,
                      .directory = Directory::kLog,
                      .file = FileName(FileKind::kJournal, sequences_[segment_]),
                      .offset = offset,
                      .size = std::max(size, kReadBytes)},
                     output);
  return std::nullopt;
}

void Recovery::ReadSegments(StoreOutput* output) {
  while (segment_ < sequences_.size()) {
    bool more = false;
    switch (part_) {
      case Part::kHeader:
        more = ReadHeader(output);
        break;
      case Part::kBatch:
        more = ReadBatchHeader(output);
        break;
      case Part::kRecord:
        more = ReadRecord(output);
        break;
      case Part::kRest:
        more = ReadRest(output);
        break;
    }
    if (!more) return;
  }
  OnJournalRead(output);
}

bool Recovery::ReadHeader(StoreOutput* output) {
  const std::optional<std::string_view> bytes = Peek(0, kSegmentHeaderBytes, output);
  if (!bytes.has_value()) return false;
  const absl::StatusOr<SegmentHeader> header = DecodeSegmentHeader(*bytes);
  if (!header.ok() && header.status().code() == absl::StatusCode::kUnimplemented) {
    return Fatal(SegmentName() + " has " + std::string(header.status().message()) +
                     ", which this program does not know: start a newer one",
                 output);
  }
  if (probing_) {
    if (header.ok()) {
      probing_ = false;
      OpenSegment(0);
    } else {
      part_ = Part::kRest;
      at_ = 0;
    }
    return true;
  }

  if (!header.ok()) return Damaged(0, std::string(header.status().message()), output);
  if (header->server != options_.server) {
    return Fatal(SegmentName() + " belongs to server " + header->server.ToString() +
                     ", and this is server " + options_.server.ToString() +
                     ": check dataLogDir and myid",
                 output);
  }
  if (header->sequence != sequences_[segment_]) {
    return Damaged(0, "it is segment " + std::to_string(header->sequence) + " by its header",
                   output);
  }
  if (segment_ == 0) {
    checkpoint_ = header->checkpoint;
  } else {
    // The header was written when the segment before was durable as a whole.
    if (header->previous_end != end_) {
      --segment_;
      return Damaged(AlignBatch(end_),
                     "nothing intact is there, but the next segment says that it goes on to " +
                         std::to_string(header->previous_end),
                     output);
    }
    if (header->checkpoint != checkpoint_) {
      return Damaged(0, "its header contradicts the segment before", output);
    }
  }
  newest_ = *header;
  seed_ = header->Seed();
  end_ = kSegmentHeaderBytes;
  unvouched_ = 0;
  table_.Begin(header->sequence, checkpoint_.last);
  part_ = Part::kBatch;
  return true;
}

bool Recovery::ReadBatchHeader(StoreOutput* output) {
  batch_at_ = AlignBatch(end_);
  const std::optional<std::string_view> bytes = Peek(batch_at_, kBatchHeaderBytes, output);
  if (!bytes.has_value()) return false;
  const std::optional<BatchHeader> header = DecodeBatchHeader(seed_, batch_at_, *bytes);
  if (!header.has_value()) return NoBatchHere();
  at_ = batch_at_ + kBatchHeaderBytes;
  batch_end_ = at_ + header->bytes;
  batch_left_ = header->count;
  batch_.clear();
  part_ = Part::kRecord;
  return true;
}

bool Recovery::ReadRecord(StoreOutput* output) {
  if (batch_left_ == 0) return at_ == batch_end_ ? EndBatch(output) : NoBatchHere();
  const uint64_t left = batch_end_ - at_;
  if (left < kRecordHeaderBytes) return NoBatchHere();
  std::optional<std::string_view> bytes = Peek(at_, kRecordHeaderBytes, output);
  if (!bytes.has_value()) return false;
  if (bytes->size() < kRecordHeaderBytes) return NoBatchHere();
  const RecordHeader header = DecodeRecordHeader(*bytes);
  // The batch's checked header bounds what is believed of a record's, and read for it.
  if (header.length > left - kRecordHeaderBytes) return NoBatchHere();
  bytes = Peek(at_, kRecordHeaderBytes + header.length, output);
  if (!bytes.has_value()) return false;
  const std::string_view payload = bytes->substr(kRecordHeaderBytes);
  if (!RecordIsIntact(seed_, at_, header, payload)) return NoBatchHere();

  absl::StatusOr<Record> record = DecodeRecord(
      header.type, window_.Slice(at_ - window_at_ + kRecordHeaderBytes, payload.size()));
  if (!record.ok()) {
    return Fatal(SegmentName() + " holds " + std::string(record.status().message()) +
                     " at offset " + std::to_string(at_) +
                     ", which this program does not know: start the one that wrote it, or a newer",
                 output);
  }
  const auto* transaction = std::get_if<TransactionRecord>(&*record);
  if (transaction != nullptr && transaction->body.size() > options_.record_bytes_max) {
    return Fatal(SegmentName() + " holds a transaction of " +
                     std::to_string(transaction->body.size()) + " bytes at offset " +
                     std::to_string(at_) + "; the limit is now " +
                     std::to_string(options_.record_bytes_max) + ": raise jute.maxbuffer again",
                 output);
  }
  batch_.push_back(*std::move(record));
  at_ += kRecordHeaderBytes + header.length;
  --batch_left_;
  return true;
}

bool Recovery::EndBatch(StoreOutput* output) {
  for (Record& record : batch_) {
    const char* wrong = checkpoint_.Advance(record);
    if (wrong == nullptr) wrong = logs_.Add(record);
    if (wrong != nullptr) {
      return Damaged(batch_at_, std::string("a record is intact, but ") + wrong, output);
    }
    table_.Note(record);
    ++replayed_;
    if (auto* transaction = std::get_if<TransactionRecord>(&record)) {
      transactions_.push_back(std::move(*transaction));
    } else if (const auto* truncate = std::get_if<TruncateRecord>(&record)) {
      while (!transactions_.empty() && transactions_.back().zxid > truncate->to) {
        transactions_.pop_back();
      }
    } else if (const auto* snapshot = std::get_if<SnapshotRecord>(&record)) {
      if (snapshot->replaces_history) transactions_.clear();
    }
  }
  batch_.clear();
  unvouched_ = batch_at_;
  end_ = batch_end_;
  part_ = Part::kBatch;
  return true;
}

bool Recovery::NoBatchHere() {
  batch_.clear();
  if (last_segment()) {
    part_ = Part::kRest;
    at_ = AlignBatch(end_);
    garbage_end_ = 0;
  } else {
    // The next segment's header says whether this is the end.
    OpenSegment(segment_ + 1);
  }
  return true;
}

// Looks at everything behind the last intact batch. Unsynced writes may have reached the disk in
// any subset of sectors, so intact records behind a damaged one prove nothing; an intact header of
// a later batch proves that everything before it was durable (journal_format.h).
bool Recovery::ReadRest(StoreOutput* output) {
  const std::optional<std::string_view> bytes = Peek(at_, kReadBytes, output);
  if (!bytes.has_value()) return false;
  size_t done = 0;
  for (; done + kBatchHeaderBytes <= bytes->size(); done += kBatchAlignment) {
    if (LoadLe<uint64_t>(bytes->data() + done) == 0) continue;
    const uint64_t offset = at_ + done;
    garbage_end_ = offset + kBatchAlignment;
    if (probing_ || offset <= AlignBatch(end_)) continue;
    if (DecodeBatchHeader(seed_, offset, bytes->substr(done)).has_value()) {
      return Damaged(AlignBatch(end_),
                     "the batch there is not intact, but a later one, at offset " +
                         std::to_string(offset) + ", was written only when it was durable",
                     output);
    }
  }
  if (bytes->size() == kReadBytes) {
    at_ += done;
    return true;
  }
  if (!IsZero(bytes->substr(done))) garbage_end_ = at_ + bytes->size();
  return EndRest(at_ + bytes->size(), output);
}

bool Recovery::EndRest(uint64_t file_end, StoreOutput* output) {
  if (!probing_) {
    if (file_end < newest_->allocated) {
      return Damaged(file_end,
                     "the file ends there, but it had " + std::to_string(newest_->allocated) +
                         " bytes before anything was written to it: it was cut, by a copy that was "
                         "not whole or by a repair",
                     output);
    }
    torn_ = garbage_end_ > 0;
    if (torn_) {
      output->events.push_back({.kind = EventKind::kTornTail, .detail = garbage_end_ - end_});
    }
    OpenSegment(segment_ + 1);
    return true;
  }

  // The newest file has no header. Nothing is written behind a header that is not durable, and
  // nothing is dropped before it is: so this is a file that was only prepared, or its header was
  // being written.
  const bool only_one = sequences_.size() == 1;
  if (garbage_end_ > kSegmentHeaderBytes || (only_one && sequences_.back() != 1)) {
    return Damaged(0, "there is no intact header", output);
  }
  if (garbage_end_ > 0) {
    unusable_ = FileName(FileKind::kJournal, sequences_.back());
  } else {
    next_prepared_ = true;
  }
  garbage_end_ = 0;
  probing_ = false;
  sequences_.pop_back();
  OpenSegment(0);
  return true;
}

}  // namespace lockstep::storage
