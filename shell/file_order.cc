#include "shell/file_order.h"

#include <algorithm>

#include "core/base/check.h"

namespace lockstep::shell {

using storage::FileOp;
using storage::OpKind;

bool FileOrder::MayStart(const Queue& queue, const Access& access) {
  const auto none = [&](Mode mode) { return queue.active[static_cast<size_t>(mode)] == 0; };
  if (!none(Mode::kChange)) return false;
  switch (access.mode) {
    case Mode::kRead:
    case Mode::kWrite:
      // The writes of one file are carried out by one thread, in the order in which they start.
      if (none(access.mode == Mode::kRead ? Mode::kWrite : Mode::kRead)) return true;
      return std::none_of(queue.ranges.begin(), queue.ranges.end(), [&](const auto& one) {
        const Access& other = one.second;
        return other.mode != access.mode && other.begin < access.end && access.begin < other.end;
      });
    case Mode::kSync:
      return none(Mode::kWrite);
    case Mode::kChange:
      return none(Mode::kRead) && none(Mode::kSync) && none(Mode::kWrite);
  }
  LS_UNREACHABLE();
}

void FileOrder::Start(Queue* queue, Ticket ticket, const Access& access) {
  ++queue->active[static_cast<size_t>(access.mode)];
  if (access.mode == Mode::kRead || access.mode == Mode::kWrite) queue->ranges[ticket] = access;
}

void FileOrder::Take(Ticket ticket, Operation* operation, std::string_view key,
                     const Access& access) {
  auto queue = queues_.find(key);
  if (queue == queues_.end()) queue = queues_.emplace(key, Queue()).first;
  // Two names of one operation may be the same.
  for (const Claim& claim : operation->claims) {
    if (claim.queue == queue) return;
  }
  operation->claims.push_back({queue, access.mode});
  // Nobody overtakes one who waits: it would wait for ever.
  if (queue->second.waiting.empty() && MayStart(queue->second, access)) {
    Start(&queue->second, ticket, access);
  } else {
    queue->second.waiting.emplace_back(ticket, access);
    ++operation->waits_for;
  }
}

bool FileOrder::Add(const FileOp& op, Ticket* ticket) {
  *ticket = ++last_;
  Operation& operation = operations_[*ticket];
  const auto take = [&](std::string_view key, const Access& access) {
    Take(*ticket, &operation, key, access);
  };
  const auto entries_of = [](std::string_view path) { return std::string(path) + "/"; };
  const std::string parent = entries_of(storage::SubdirectoryOf(op.file));
  switch (op.kind) {
    case OpKind::kRead:
      take(op.file,
           {Mode::kRead, op.offset, op.offset + std::min(op.size, UINT64_MAX - op.offset)});
      break;
    case OpKind::kWrite: {
      uint64_t end = op.offset;
      for (const Bytes& slice : op.data) end += slice.size();
      take(op.file, {Mode::kWrite, op.offset, end});
      break;
    }
    case OpKind::kSync:
      take(op.file, {Mode::kSync});
      break;
    case OpKind::kTruncate:
      take(op.file, {Mode::kChange});
      break;
    case OpKind::kCreate:
    case OpKind::kRemove:
      take(op.file, {Mode::kChange});
      take(parent, {Mode::kChange});
      break;
    case OpKind::kRename:
      // A file, or a subdirectory with all that is in it, of which nothing is under way.
      for (const std::string& name : {op.file, op.target}) {
        take(name, {Mode::kChange});
        take(entries_of(name), {Mode::kChange});
      }
      take(parent, {Mode::kChange});
      break;
    case OpKind::kMakeDirectory:
    case OpKind::kRemoveDirectory:
      take(entries_of(op.file), {Mode::kChange});
      take(parent, {Mode::kChange});
      break;
    case OpKind::kList:
      take(entries_of(op.file), {Mode::kRead});
      break;
    case OpKind::kSyncDirectory:
      take(entries_of(op.file), {Mode::kSync});
      break;
  }
  return operation.waits_for == 0;
}

void FileOrder::Done(Ticket ticket, std::vector<Ticket>* ready) {
  const auto done = operations_.find(ticket);
  LS_CHECK(done != operations_.end());
  LS_CHECK_EQ(done->second.waits_for, size_t{0});
  const size_t before = ready->size();
  for (const Claim& claim : done->second.claims) {
    Queue& queue = claim.queue->second;
    --queue.active[static_cast<size_t>(claim.mode)];
    queue.ranges.erase(ticket);
    while (!queue.waiting.empty() && MayStart(queue, queue.waiting.front().second)) {
      const auto [next, access] = queue.waiting.front();
      queue.waiting.pop_front();
      Start(&queue, next, access);
      if (--operations_.at(next).waits_for == 0) ready->push_back(next);
    }
    const bool idle = queue.waiting.empty() && std::all_of(queue.active.begin(), queue.active.end(),
                                                           [](size_t count) { return count == 0; });
    if (idle) queues_.erase(claim.queue);
  }
  operations_.erase(done);
  std::sort(ready->begin() + static_cast<ptrdiff_t>(before), ready->end());
}

}  // namespace lockstep::shell
