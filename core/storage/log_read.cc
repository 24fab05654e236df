// Reading through a log's files, batch by batch: for a reader, for a search by time, for the place
// of a truncation, and for what recovery has to know.
#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "core/base/check.h"
#include "core/records/record_batch.h"
#include "core/storage/file_names.h"
#include "core/storage/logs.h"

namespace lockstep::storage {

// ---- Calls -------------------------------------------------------------------------------------

void Logs::Read(LogReadId id, LogNumber number, int64_t offset, uint32_t max_bytes,
                StoreOutput* output) {
  LogReadDone done{.id = id, .log = number};
  Log* log = Find(number);
  ++reads_;
  if (log == nullptr || log->deleted) {
    done.status = LogReadDone::Status::kFailed;
  } else if (offset < log->extent.start || offset > log->extent.end) {
    done.status = LogReadDone::Status::kOutOfRange;
  } else if (offset < log->extent.end && !ReadCache(*log, offset, max_bytes, &done)) {
    if (ReadOn(log, id, offset, max_bytes, output)) return;
    // Only what is in the files by now: what is written meanwhile is in memory, too.
    StartTask({.kind = Task::Kind::kRead,
               .id = id,
               .log = number,
               .offset = offset,
               .max_bytes = max_bytes,
               .limit = log->readable_end},
              output);
    return;
  }
  output->log_reads.push_back(std::move(done));
}

void Logs::Search(LogReadId id, LogNumber number, int64_t timestamp, StoreOutput* output) {
  const Log* log = Find(number);
  if (log == nullptr || log->deleted) {
    output->log_searches.push_back(
        {.id = id, .log = number, .status = LogReadDone::Status::kFailed});
    return;
  }
  StartTask({.kind = Task::Kind::kSearch,
             .id = id,
             .log = number,
             .offset = log->extent.start,
             .timestamp = timestamp,
             .limit = log->readable_end},
            output);
}

// ---- Reading ahead -----------------------------------------------------------------------------
// A consumer that reads its way through the files, one request after the other, finds what it asks
// for already read and checked: that was done while it looked at what it had got before.

// True: it is answered, or will be.
bool Logs::ReadOn(Log* log, LogReadId id, int64_t offset, uint64_t max_bytes, StoreOutput* output) {
  if (log->ahead && log->ahead->from.offset == offset) {
    const Ahead ahead = *log->ahead;
    DropAhead(log);
    // The first batch comes whole, as always.
    uint64_t size = 0;
    int64_t end = offset;
    while (size < ahead.batches.size()) {
      const records::BatchHeader header =
          records::HeaderOf({ahead.batches.Slice(size, records::kBatchHeaderBytes), Bytes()});
      if (size > 0 && size + header.size() > max_bytes) break;
      size += header.size();
      end = header.next_offset();
    }
    const Place stopped{.offset = end,
                        .base = ahead.from.base,
                        .position = ahead.to.position - (ahead.batches.size() - size)};
    KeepPlace(log, offset, stopped);
    output->log_reads.push_back(
        {.id = id, .log = log->number, .batches = {ahead.batches.Slice(0, size)}});
    ReadAhead(log, stopped, max_bytes, output);
    return true;
  }
  for (auto& [ticket, task] : tasks_) {
    if (!task.ahead || task.log != log->number || task.offset != offset) continue;
    if (task.max_bytes > max_bytes) return false;  // it may bring more than is wanted
    task.ahead = false;
    task.id = id;
    ahead_bytes_ -= task.max_bytes;
    return true;
  }
  return false;
}

void Logs::ReadAhead(Log* log, const Place& from, uint64_t max_bytes, StoreOutput* output) {
  const Segment* segment = SegmentAt(log, from.base);
  max_bytes = std::min(max_bytes, kReadBytesMax);
  const bool there =
      segment != nullptr && from.position < segment->bytes && from.offset < log->readable_end;
  const bool in_memory = !log->cached.empty() && log->cached.front().batch.base <= from.offset;
  if (!there || in_memory || log->deleted) return;
  // Of one reader in each log: two in turn would throw out what the other is about to ask for.
  if (log->ahead && log->ahead->since + kAheadTurns < reads_) DropAhead(log);
  if (log->ahead || !RoomAhead()) return;
  for (const auto& [ticket, task] : tasks_) {
    if (task.ahead && task.log == log->number) return;
  }
  ahead_bytes_ += max_bytes;
  StartTask({.kind = Task::Kind::kRead,
             .log = log->number,
             .offset = from.offset,
             .max_bytes = max_bytes,
             .limit = log->readable_end,
             .ahead = true},
            output);
}

// What was asked for long ago has lost its reader, and makes room; what was read lately is waited
// for: many readers in turn would else throw out what the next one is about to ask for.
bool Logs::RoomAhead() {
  while (!ahead_order_.empty()) {
    const auto [number, since] = ahead_order_.front();
    Log* log = Find(number);
    const bool stale = log == nullptr || !log->ahead || log->ahead->since != since;
    if (!stale) {
      if (since + kAheadReadsMax > reads_) break;
      DropAhead(log);
    }
    ahead_order_.pop_front();
  }
  return ahead_bytes_ < kAheadBytesMax;
}

void Logs::KeepAhead(Log* log, Task* task) {
  ahead_bytes_ -= task->max_bytes;
  if (task->batches.empty() || task->lowered || log->deleted) return;
  LS_CHECK(!log->ahead.has_value());
  Bytes batches = std::move(task->batches.front());
  ahead_bytes_ += batches.size();
  log->ahead = {.from = {.offset = task->offset, .base = task->base},
                .to = {.offset = task->end, .base = task->base, .position = task->position},
                .batches = std::move(batches),
                .since = reads_};
  ahead_order_.emplace_back(log->number, reads_);
}

void Logs::DropAhead(Log* log) {
  if (!log->ahead) return;
  ahead_bytes_ -= log->ahead->batches.size();
  log->ahead.reset();
}

// ---- Tasks -------------------------------------------------------------------------------------

Logs::Segment* Logs::SegmentAt(Log* log, int64_t base) {
  Segment* segment = SegmentFor(log, base);
  return segment != nullptr && segment->base == base ? segment : nullptr;
}

// The last one that begins at or below `offset`, or null.
Logs::Segment* Logs::SegmentFor(Log* log, int64_t offset) {
  const auto above =
      std::upper_bound(log->segments.begin(), log->segments.end(), offset,
                       [](int64_t value, const Segment& segment) { return value < segment.base; });
  return above == log->segments.begin() ? nullptr : &*std::prev(above);
}

uint64_t Logs::StartTask(Task task, StoreOutput* output) {
  const uint64_t ticket = next_ticket_++;
  Log* log = Find(task.log);
  ++log->under_way;
  Task& started = tasks_[ticket] = std::move(task);
  Segment* segment = nullptr;
  if (!log->segments.empty()) {
    segment = SegmentFor(log, started.offset);
    if (segment == nullptr) segment = &log->segments.front();
  }
  if (segment == nullptr) {  // its files are not made yet: everything is in memory
    Finish(ticket, output);
  } else {
    started.base = segment->base;
    EnterSegment(ticket, &started, output);
  }
  return ticket;
}

void Logs::EnterSegment(uint64_t ticket, Task* task, StoreOutput* output) {
  Log* log = Find(task->log);
  Segment* segment = SegmentAt(log, task->base);
  if (segment == nullptr) return Fail(ticket, "the segment has been removed", output);
  // A scan that ends where the segment begins has nothing to look for in it.
  if (task->kind == Task::Kind::kScan && segment->base >= task->limit) {
    task->position = 0;
    return Finish(ticket, output);
  }
  if (task->kind == Task::Kind::kSearch && segment->max_timestamp < task->timestamp) {
    task->next = -1;
    return NextSegment(ticket, task, output);
  }
  if (!segment->indexed) {
    task->phase = Task::Phase::kIndex;
    operations_->Issue(Owner::kLogTask, ticket,
                       {.kind = OpKind::kRead,
                        .directory = Directory::kLogs,
                        .file = log->Path(task->base, LogFileKind::kIndex),
                        .size = kIndexFileBytesMax},
                       output);
    return;
  }
  if (task->kind == Task::Kind::kCut) {
    FlushIndex(log, segment, output);
    segment->index.Truncate(task->offset);
  }
  task->phase = Task::Phase::kBatches;
  const auto found = task->strict ? SegmentIndex::Found()
                     : task->kind == Task::Kind::kSearch
                         ? segment->index.FindTimestamp(task->timestamp)
                         : segment->index.FindOffset(task->offset);
  task->position = found.position;
  task->last_offset = found.last_offset;
  task->next = task->position == 0 ? segment->base : -1;
  if (task->kind == Task::Kind::kRead && !task->strict) {
    if (const Place* place = FindPlace(*log, *task)) {
      task->position = place->position;
      task->next = place->offset;
      task->last_offset = -1;
      task->goes_on = true;
    }
  }
  ReadMore(ticket, task, PieceBytes(*task), output);
}

// A reader is answered from one piece, so that is as much as it wants; what is more comes with its
// next request.
uint64_t Logs::PieceBytes(const Task& task) {
  if (task.kind != Task::Kind::kRead) return kReadBytes;
  return std::clamp(task.max_bytes, kReadBytes, kReadBytesMax);
}

// Where the reader before has stopped. The index knows a place in every so many bytes; one who
// reads on and on would have to read through what lies between, and check it, each time anew.
const Logs::Place* Logs::FindPlace(const Log& log, const Task& task) {
  const auto found = std::find_if(log.places.begin(), log.places.end(), [&](const Place& place) {
    return place.offset == task.offset && place.base == task.base;
  });
  return found == log.places.end() ? nullptr : &*found;
}

// In place of the one that this reader began at: others have their own.
void Logs::KeepPlace(Log* log, int64_t began, const Place& place) {
  const auto before = std::find_if(log->places.begin(), log->places.end(),
                                   [&](const Place& one) { return one.offset == began; });
  if (before != log->places.end()) log->places.erase(before);
  if (log->places.size() == kPlacesMax) log->places.erase(log->places.begin());
  log->places.push_back(place);
}

void Logs::ReadMore(uint64_t ticket, Task* task, uint64_t bytes, StoreOutput* output) {
  Log* log = Find(task->log);
  const Segment* segment = SegmentAt(log, task->base);
  if (segment == nullptr) return Fail(ticket, "the segment has been removed", output);
  if (task->position >= segment->bytes) return NextSegment(ticket, task, output);
  task->asked = std::min(bytes, segment->bytes - task->position);
  task->needed = std::max<uint64_t>(task->needed, records::kBatchHeaderBytes);
  operations_->Issue(Owner::kLogTask, ticket,
                     {.kind = OpKind::kRead,
                      .directory = Directory::kLogs,
                      .file = log->Path(task->base, LogFileKind::kLog),
                      .offset = task->position,
                      .size = task->asked},
                     output);
}

void Logs::NextSegment(uint64_t ticket, Task* task, StoreOutput* output) {
  Log* log = Find(task->log);
  Segment* segment = SegmentAt(log, task->base);
  if (segment == nullptr) return Fail(ticket, "the segment has been removed", output);
  if (segment->max_timestamp == kUnknown && task->phase == Task::Phase::kBatches &&
      segment != &log->active()) {
    // Read to its end: now it is known.
    segment->max_timestamp = segment->index.max_timestamp();
  }
  const bool gap = segment != &log->active() && task->next >= 0 &&
                   (segment + 1)->base > std::max(task->next, log->extent.start);
  // A search must not pass over what may be the first; a reader comes this far for what is missing.
  const bool passes = task->kind == Task::Kind::kSearch || task->kind == Task::Kind::kRead;
  if (gap && passes && task->batches.empty() && !task->lowered &&
      (segment + 1)->base < task->limit) {
    return Fail(ticket,
                "offsets " + std::to_string(task->next) + " to " +
                    std::to_string((segment + 1)->base - 1) + " are missing behind it",
                output);
  }
  const bool more = segment != &log->active() && task->kind != Task::Kind::kCut &&
                    (segment + 1)->base < task->limit && task->batches.empty() &&
                    !(gap && task->kind == Task::Kind::kScan);
  if (!more) return Finish(ticket, output);
  task->base = (segment + 1)->base;
  task->position = 0;
  EnterSegment(ticket, task, output);
}

void Logs::OnTaskRead(uint64_t ticket, const FileDone& done, StoreOutput* output) {
  const auto found = tasks_.find(ticket);
  if (found == tasks_.end()) return;
  Task* task = &found->second;
  Log* log = Find(task->log);
  if (log->deleted && task->kind != Task::Kind::kCut) {
    return Fail(ticket, "the log has been deleted", output);
  }
  Segment* segment = SegmentAt(log, task->base);
  switch (task->phase) {
    case Task::Phase::kIndex:
      task->index = done.error == FileError::kNone ? done.data : Bytes();
      task->phase = Task::Phase::kTimeIndex;
      operations_->Issue(Owner::kLogTask, ticket,
                         {.kind = OpKind::kRead,
                          .directory = Directory::kLogs,
                          .file = log->Path(task->base, LogFileKind::kTimeIndex),
                          .size = kIndexFileBytesMax},
                         output);
      return;
    case Task::Phase::kTimeIndex: {
      if (segment != nullptr && !segment->indexed) {
        const Bytes time = done.error == FileError::kNone ? done.data : Bytes();
        // What is not trusted is read from its beginning: an entry that a crash has made up would
        // lead into the middle of a batch, which looks like the end of the log.
        const int64_t limit = task->strict ? segment->base
                              : task->kind == Task::Kind::kScan
                                  ? std::min(task->offset, task->limit)
                                  : INT64_MAX;
        LoadIndex(log, segment, task->index, time, segment->bytes, limit, output);
      }
      task->index = Bytes();
      return EnterSegment(ticket, task, output);
    }
    case Task::Phase::kBatches:
      if (done.error != FileError::kNone) return ReadAround(ticket, task, done, output);
      return WalkBatches(ticket, task, done.data, output);
  }
}

// Of a piece that cannot be read as a whole, everything can that does not touch the bad sector.
void Logs::ReadAround(uint64_t ticket, Task* task, const FileDone& done, StoreOutput* output) {
  if (task->asked > task->needed) {
    return ReadMore(ticket, task, std::max(task->needed, task->asked / 2), output);
  }
  const std::string why = At(*task, task->position) + " cannot be read: " + done.message;
  const bool size_known = task->needed > records::kBatchHeaderBytes;
  if (!size_known || !MaySkip(*task)) return Fail(ticket, why, output);
  if (task->hole.empty()) task->hole = why;
  task->skipped = true;
  task->position += std::exchange(task->needed, 0);
  ReadMore(ticket, task, PieceBytes(*task), output);
}

// A reader who wants something behind it passes over a batch that is damaged, to where the next one
// begins. That this is so the next one itself has to show (WrongPlace); and it must not lie behind
// what is wanted. Only without the help of indexes, for those might lead astray.
bool Logs::MaySkip(const Task& task) {
  return task.kind == Task::Kind::kRead && task.strict && task.bytes == 0 && !task.lowered;
}

std::string Logs::At(const Task& task, uint64_t position) {
  std::string text = "the batch at byte " + std::to_string(position);
  if (task.next >= 0) text += ", of offset " + std::to_string(task.next) + ",";
  return text;
}

// What cannot be used is written anew, as readers come by.
void Logs::LoadIndex(Log* log, Segment* segment, const Bytes& index, const Bytes& time,
                     uint64_t bytes, int64_t limit, StoreOutput* output) {
  segment->indexed = true;
  segment->index = SegmentIndex(segment->base, options_.index_interval_bytes);
  segment->index.Load(index.view(), time.view(), limit, bytes);
  for (const auto& [kind, size, was] :
       {std::tuple{LogFileKind::kIndex, segment->index.index_bytes(), index.size()},
        std::tuple{LogFileKind::kTimeIndex, segment->index.time_bytes(), time.size()}}) {
    if (was == size) continue;
    Issue(log,
          {.kind = OpKind::kTruncate,
           .directory = Directory::kLogs,
           .file = log->Path(segment->base, kind),
           .size = size},
          output);
  }
}

// What recovery finds behind what the journal says is not looked at.
bool Logs::ScanIsAtEnd(const Task& task) {
  return task.kind == Task::Kind::kScan && task.end == task.limit;
}

void Logs::WalkBatches(uint64_t ticket, Task* task, const Bytes& data, StoreOutput* output) {
  Segment* segment = SegmentAt(Find(task->log), task->base);
  if (segment == nullptr) return Fail(ticket, "the segment has been removed", output);
  const Walk walk = WalkPiece(task, segment, data);
  if (task->kind == Task::Kind::kRead && walk.taken_to > walk.taken_from) {
    // In one slice, however many batches it is. A copy if that is little: the piece need not stay
    // in memory for it.
    const Bytes taken = data.Slice(walk.taken_from, walk.taken_to - walk.taken_from);
    task->batches.push_back(taken.size() < data.size() / 2 ? Bytes::Copy(taken.view()) : taken);
    task->position += walk.taken_to;
    return Finish(ticket, output);
  }
  task->position += walk.at;
  if (walk.at > 0) task->needed = 0;
  switch (walk.end) {
    case Walk::End::kFound:
      return Finish(ticket, output);
    case Walk::End::kWrong:
      return Fail(ticket, walk.why, output);
    case Walk::End::kPartOfBatch:
      if (data.size() < task->asked) return Fail(ticket, EndsWithin(*task), output);
      task->needed = walk.batch_bytes;
      // As much as is wanted, but at least this batch.
      return ReadMore(ticket, task, std::max(walk.batch_bytes, PieceBytes(*task)), output);
    case Walk::End::kPiece:
      if (ScanIsAtEnd(*task)) return Finish(ticket, output);
      // Less than a header is there, to the end of the file.
      if (walk.at == 0) return Fail(ticket, EndsWithin(*task), output);
      return ReadMore(ticket, task, PieceBytes(*task), output);
  }
}

std::string Logs::EndsWithin(const Task& task) {
  return "the file ends within " + At(task, task.position);
}

// Of what a batch's checksum does not cover: its offset, and the epoch that its leader has given
// it. Both are known otherwise, and what was written elsewhere, or what was here before, has
// others.
const char* Logs::WrongPlace(const Log& log, const Task& task,
                             const records::BatchHeader& header) const {
  const bool scan = task.kind == Task::Kind::kScan;
  // Below its start a log may begin anywhere.
  const int64_t next = std::max(task.next, log.extent.start);
  const bool too_far = task.next >= 0 && header.base_offset > next && !task.skipped;
  if (header.base_offset < task.next || too_far ||
      (task.last_offset >= 0 && header.last_offset() != task.last_offset)) {
    return " is out of order";
  }
  if (task.kind == Task::Kind::kRead && task.bytes == 0 && header.next_offset() > task.offset &&
      header.base_offset > std::max(task.offset, log.extent.start)) {
    return " is not the one that should be there";
  }
  // With kFlush a scan is what tells the epochs, and what is to be cut is of none any more.
  if (task.kind == Task::Kind::kCut || (scan && flush())) return nullptr;
  if (header.next_offset() <= log.extent.start || log.extent.epochs.empty()) return nullptr;
  const auto above = std::upper_bound(
      log.extent.epochs.begin(), log.extent.epochs.end(),
      std::max(header.base_offset, log.extent.start),
      [](int64_t offset, const EpochStart& epoch) { return offset < epoch.start; });
  if (above == log.extent.epochs.begin()) return nullptr;
  return std::prev(above)->epoch == header.partition_leader_epoch ? nullptr
                                                                  : " is of another epoch";
}

// Goes through the batches of a piece of the segment, which is to be found at task->position, until
// the task has what it wants.
Logs::Walk Logs::WalkPiece(Task* task, Segment* segment, const Bytes& data) {
  Walk walk;
  const Log& log = *Find(task->log);
  // Behind damage that recovery has found, a segment may have more than is of the log.
  int64_t limit = task->limit;
  if (segment != &log.segments.back()) limit = std::min(limit, (segment + 1)->base);
  const auto wrong = [&](const char* why) {
    walk.end = Walk::End::kWrong;
    walk.why = At(*task, task->position + walk.at) + why;
    return walk;
  };
  while (walk.at < data.size()) {
    const std::string_view rest = data.view().substr(walk.at);
    if (rest.size() < records::kBatchHeaderBytes) break;
    const records::BatchHeader header =
        records::HeaderOf({data.Slice(walk.at, records::kBatchHeaderBytes), Bytes()});
    walk.end = Walk::End::kFound;
    // Where a truncation has lowered the limit, anything may be written meanwhile.
    if ((header.base_offset >= limit && !MaySkip(*task)) || ScanIsAtEnd(*task)) return walk;
    const uint64_t position = task->position + walk.at;
    const absl::StatusOr<size_t> size = records::BatchSize(rest);
    if (!size.ok() || *size > segment->bytes - std::min(segment->bytes, position)) {
      return wrong(" is none");
    }
    if (*size > rest.size()) {
      walk.end = Walk::End::kPartOfBatch;
      walk.batch_bytes = *size;
      return walk;
    }
    const Bytes bytes = data.Slice(walk.at, *size);
    const absl::StatusOr<records::BatchHeader> parsed = records::ParseBatchHeader(bytes.view());
    const bool whole = parsed.ok() && records::CrcMatches(records::Batch::Of(bytes));
    if (whole && parsed->next_offset() > limit && !MaySkip(*task)) return walk;
    const char* why = !whole                          ? " is damaged"
                      : parsed->next_offset() > limit ? " is out of order"
                                                      : WrongPlace(log, *task, *parsed);
    if (why != nullptr) {
      // What shows that it lies behind all that is wanted ends the search.
      const bool behind = whole && task->skipped && parsed->base_offset > task->offset;
      if (!MaySkip(*task) || behind) return wrong(why);
      if (task->hole.empty()) task->hole = wrong(why).why;
      task->skipped = true;
      walk.at += *size;
      continue;
    }
    task->skipped = false;
    task->last_offset = -1;
    task->next = parsed->next_offset();
    const Found found = Visit(task, *parsed, bytes);
    if (found == Found::kStop) return walk;
    segment->index.Add(parsed->last_offset(), position, *size, parsed->max_timestamp);
    if (found == Found::kTake) {
      if (walk.taken_to == 0) walk.taken_from = walk.at;
      walk.taken_to = walk.at + *size;
    }
    walk.at += *size;
  }
  walk.end = Walk::End::kPiece;
  return walk;
}

Logs::Found Logs::Visit(Task* task, const records::BatchHeader& header, const Bytes& batch) {
  switch (task->kind) {
    case Task::Kind::kRead:
      if (header.next_offset() <= task->offset) return Found::kGoOn;
      if (task->bytes > 0 && task->bytes + batch.size() > task->max_bytes) return Found::kStop;
      task->bytes += batch.size();
      task->end = header.next_offset();
      return Found::kTake;
    case Task::Kind::kSearch:
      if (header.max_timestamp < task->timestamp || header.next_offset() <= task->offset) {
        return Found::kGoOn;
      }
      task->batches.push_back(batch);
      return Found::kStop;
    case Task::Kind::kCut:
      return Found::kGoOn;
    case Task::Kind::kScan:
      if (header.next_offset() > task->offset) {
        // A copy: the piece of the file that it lies in need not stay in memory for it.
        task->headers.push_back(Bytes::Copy(batch.view().substr(0, records::kBatchHeaderBytes)));
      }
      task->end = header.next_offset();
      return Found::kGoOn;
  }
  LS_UNREACHABLE();
}

// ---- Their ends --------------------------------------------------------------------------------

void Logs::Finish(uint64_t ticket, StoreOutput* output) {
  if (const Task& task = tasks_.at(ticket); EndsTooEarly(task)) {
    const int64_t next = std::max(task.next, task.offset);
    return Fail(ticket, "the file ends before offset " + std::to_string(next), output);
  }
  if (ScanIsShort(tasks_.at(ticket)) && LookAgain(ticket, output)) return;
  auto node = tasks_.extract(ticket);
  Task& task = node.mapped();
  Log* log = Find(task.log);
  if (!task.hole.empty() && !task.lowered && !log->deleted) {
    OnDamage(log, FileOf(*log, task) + task.hole, output);
  }
  switch (task.kind) {
    case Task::Kind::kRead: {
      if (task.ahead) {
        KeepAhead(log, &task);
        break;
      }
      LogReadDone done{.id = task.id, .log = task.log, .batches = std::move(task.batches)};
      if (task.offset < log->extent.start || task.offset > log->extent.end) {
        done.batches.clear();
        done.status = LogReadDone::Status::kOutOfRange;
      } else if (done.batches.empty()) {
        // Cut meanwhile, or only in memory now.
        ReadCache(*log, task.offset, task.max_bytes, &done);
      } else {
        const Place stopped{.offset = task.end, .base = task.base, .position = task.position};
        KeepPlace(log, task.offset, stopped);
        if (task.goes_on) ReadAhead(log, stopped, task.max_bytes, output);
      }
      output->log_reads.push_back(std::move(done));
      break;
    }
    case Task::Kind::kSearch: {
      if (task.batches.empty() && !task.lowered && log->readable_end > task.limit) {
        // What was in memory alone when it began may be in the files alone now.
        task.offset = task.limit;
        task.limit = log->readable_end;
        --log->under_way;
        StartTask(std::move(task), output);
        return;
      }
      LogSearchDone done{.id = task.id, .log = task.log};
      if (!task.batches.empty()) {
        done.batch = std::move(task.batches.front());
      } else {
        done.batch = SearchCache(*log, task.timestamp, task.limit);
      }
      output->log_searches.push_back(std::move(done));
      break;
    }
    case Task::Kind::kCut:
      log->cutting = 0;
      applying_ = task.change;
      EndCut(log);
      CutAt(log, task.base, task.position, task.offset, output);
      AfterCut(log, task.offset, task.change, output);
      applying_ = {};
      if (task.change != LogWriteId{} && log->held != task.change) {
        Persisted(task.change, output);
      }
      break;
    case Task::Kind::kScan:
      OnScanned(log, &task, output);
      break;
  }
  --log->under_way;
  Run(log, output);
  MaybeRemove(log, output);
}

// What was to be read is neither in the files nor, by now, in memory alone.
bool Logs::EndsTooEarly(const Task& task) const {
  const Log& log = *Find(task.log);
  if (task.lowered || log.deleted || log.segments.empty() || !task.batches.empty()) return false;
  if (task.kind == Task::Kind::kSearch) {
    return task.next >= 0 && std::max(task.next, log.extent.start) < task.limit;
  }
  if (task.kind != Task::Kind::kRead || task.ahead) return false;
  LogReadDone done;
  return task.offset >= log.extent.start && task.offset < log.extent.end &&
         !ReadCache(log, task.offset, task.max_bytes, &done);
}

std::string Logs::FileOf(const Log& log, const Task& task) {
  return Describe(Directory::kLogs, log.Path(task.base, LogFileKind::kLog)) + ": ";
}

// kFsync: it has come to its end without everything that it should have found.
bool Logs::ScanIsShort(const Task& task) const {
  const Log& log = *Find(task.log);
  if (task.kind != Task::Kind::kScan || flush() || log.segments.empty()) return false;
  // What lies below the log's start is nobody's any more.
  const bool wanted = task.limit > log.segments.back().base || task.offset < task.limit;
  return wanted && task.limit > log.extent.start && task.end != task.limit;
}

// An index that leads astray looks like damage behind it: the segment is read from its beginning
// before that is said, and the index is made anew on the way.
bool Logs::LookAgain(uint64_t ticket, StoreOutput* output) {
  Task& task = tasks_.at(ticket);
  Log* log = Find(task.log);
  Segment* segment = SegmentAt(log, task.base);
  if (task.strict || log->deleted || segment == nullptr || !segment->indexed) return false;
  segment->indexed = false;
  task.strict = true;
  task.batches.clear();
  task.headers.clear();
  task.bytes = 0;
  task.needed = 0;
  task.end = 0;
  task.goes_on = false;
  log->places.clear();
  const Segment* first = SegmentFor(log, task.offset);
  task.base = (first != nullptr ? first : &log->segments.front())->base;
  EnterSegment(ticket, &task, output);
  return true;
}

void Logs::OnDamage(Log* log, const std::string& why, StoreOutput* output) {
  output->logs_damaged.push_back(log->number);
  if (std::exchange(log->damaged, true)) return;
  output->events.push_back(
      {.kind = EventKind::kLogDamaged, .detail = log->number.value, .text = why});
}

void Logs::Fail(uint64_t ticket, const std::string& why, StoreOutput* output) {
  if (LookAgain(ticket, output)) return;
  if (Task& task = tasks_.at(ticket); task.kind == Task::Kind::kScan) {
    // What that means, recovery knows.
    task.failed = why;
    return Finish(ticket, output);
  }
  auto node = tasks_.extract(ticket);
  Task& task = node.mapped();
  Log* log = Find(task.log);
  // One who has passed over a hole, and not found what is wanted behind it, wanted what is in it.
  const std::string file = FileOf(*log, task) + (task.hole.empty() ? why : task.hole);
  --log->under_way;
  if (task.kind == Task::Kind::kCut) {
    output->fatal = file +
                    ". The place to which the log is to be cut cannot be found: start the server "
                    "again; what recovery finds damaged is made anew from the other replicas";
    return;
  }
  const bool moved =
      !log->deleted && (task.offset < log->extent.start || task.offset > log->extent.end);
  const auto status = moved && task.kind == Task::Kind::kRead ? LogReadDone::Status::kOutOfRange
                                                              : LogReadDone::Status::kFailed;
  if (!moved && !log->deleted && !task.lowered && !task.ahead) OnDamage(log, file, output);
  if (task.kind == Task::Kind::kRead) {
    if (task.ahead) {
      ahead_bytes_ -= task.max_bytes;  // who asks for it will be told
    } else {
      output->log_reads.push_back({.id = task.id, .log = task.log, .status = status});
    }
  } else {
    output->log_searches.push_back({.id = task.id, .log = task.log, .status = status});
  }
  MaybeRemove(log, output);
}

// The batch is in one piece for the caller, who wants to look into it.
std::optional<Bytes> Logs::SearchCache(const Log& log, int64_t timestamp, int64_t from) const {
  for (const Cached& cached : log.cached) {
    if (cached.batch.end <= from || cached.batch.max_timestamp < timestamp) continue;
    return Bytes::Build(cached.batch.bytes, [&](char* to) {
      for (const Bytes& slice : cached.batch.slices) {
        to = std::copy(slice.view().begin(), slice.view().end(), to);
      }
    });
  }
  return std::nullopt;
}

// What readers find above this, from now on, is another history, or garbage.
void Logs::LowerLimits(LogNumber number, int64_t to) {
  for (auto& [ticket, task] : tasks_) {
    const bool reads = task.kind == Task::Kind::kRead || task.kind == Task::Kind::kSearch;
    if (task.log != number || !reads || task.limit <= to) continue;
    task.limit = to;
    task.lowered = true;
  }
}

}  // namespace lockstep::storage
