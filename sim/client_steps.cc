// What a client of ZooKeeper's protocol does next: drawn, or as a schedule says.
//
// A client that follows a schedule draws all the same, at the same occasions, and throws away what
// it has drawn: so its stream stands where it stood when the schedule was taken down, and what is
// still drawn (when it dials, and whom) is the same.
#include <algorithm>

#include "core/base/check.h"
#include "sim/client.h"
#include "sim/purpose.h"

namespace lockstep::sim {

void Client::Rekey(Instant now) {
  if (streams_ != 0) random_ = KeyedStream(seed_, streams_, Purpose::kClient, number_, now);
}

const ClientStep* Client::Due(Instant now) const {
  const Decision* next = script_->Next(actor());
  return next != nullptr && next->at <= now ? &std::get<ClientStep>(next->what) : nullptr;
}

void Client::LimitNextWork(Instant now) {
  if (follows()) next_work_ = std::min(next_work_, std::max(now, script_->NextAt(actor())));
}

void Client::Note(Instant now, const ClientStep& step) {
  if (script_ != nullptr) script_->Record({now, number_, step});
}

void Client::IssueSome(Instant now, ClientOutput* output) {
  const bool burst = plan_.burst_percent > 0 && random_.Chance(plan_.burst_percent, 100);
  do {
    if (history_.in_flight() >= plan_.outstanding_max || closing_) break;
    const ClientOp op = RandomOp();
    const ClientStep drawn = DrawStep(op);
    if (!follows()) {
      Note(now, drawn);
      Issue(now, drawn, output);
      continue;
    }
    const ClientStep* due = Due(now);
    if (due == nullptr || due->leaves) break;
    script_->Take(actor(), now);
    Issue(now, *due, output);
  } while (burst);
  bool leaves = plan_.move_percent > 0 && random_.Chance(plan_.move_percent, 100);
  if (follows()) {
    leaves = false;
    while (const ClientStep* due = leaves ? nullptr : Due(now)) {
      // Nothing is asked for on a session that is being closed; but its connection may be dropped.
      if (closing_ && !due->leaves) break;
      script_->Take(actor(), now);
      leaves = due->leaves;
      if (!leaves) Issue(now, *due, output);
    }
  } else if (leaves) {
    ClientStep step;
    step.leaves = true;
    Note(now, step);
  }
  if (leaves) Drop(now, output);
  LimitNextWork(now + Microseconds(1));
}

ClientOp Client::RandomOp() {
  uint64_t total = 0;
  for (uint32_t weight : plan_.weights) total += weight;
  uint64_t drawn = random_.Below(total);
  size_t op = 0;
  while (drawn >= plan_.weights[op]) drawn -= plan_.weights[op++];
  return static_cast<ClientOp>(op);
}

uint32_t Client::RandomKey() { return static_cast<uint32_t>(random_.Below(plan_.keys)); }

std::optional<uint32_t> Client::RandomParent() {
  if (random_.Chance(1, 2)) return std::nullopt;
  return RandomKey();
}

uint32_t Client::RandomSize() {
  return static_cast<uint32_t>(random_.Below(plan_.value_bytes_max + 1));
}

ClientStep Client::DrawStep(ClientOp op) {
  const bool last = final_write_ != FinalWrite::kNotWanted;
  // The tree does not grow without end.
  if ((op == ClientOp::kCreateSequential || op == ClientOp::kMulti) &&
      own_paths_.size() >= kOwnPathsMax && !last) {
    op = ClientOp::kDeleteOwn;
  }
  ClientStep step;
  step.op = op;
  step.key = RandomKey();
  switch (op) {
    case ClientOp::kSet:
    case ClientOp::kSetVersion:
    case ClientOp::kCreate:
      step.bytes = RandomSize();
      break;
    case ClientOp::kCreateSequential:
      if (!last) {
        step.parent = RandomParent();
        step.ephemeral = random_.Chance(1, 3);
      }
      step.bytes = RandomSize();
      break;
    case ClientOp::kCreateEphemeral:
      step.key = RandomKey();
      step.bytes = RandomSize();
      break;
    case ClientOp::kDeleteOwn:
      if (!own_paths_.empty()) step.nth = static_cast<uint32_t>(random_.Below(own_paths_.size()));
      break;
    case ClientOp::kChildren:
    case ClientOp::kChildrenWatch:
      step.root = random_.Chance(1, 2);
      step.other = random_.Chance(1, 2);
      break;
    case ClientOp::kAddWatch:
      step.root = random_.Chance(1, 3);
      step.other = random_.Chance(1, 2);
      break;
    case ClientOp::kRemoveWatches:
      step.root = random_.Chance(1, 3);
      step.type = static_cast<uint32_t>(random_.Between(1, 5));
      step.other = random_.Chance(1, 3);
      break;
    case ClientOp::kMulti:
      DrawMulti(&step);
      break;
    case ClientOp::kMultiRead:
      DrawMultiRead(&step);
      break;
    case ClientOp::kGet:
    case ClientOp::kGetWatch:
    case ClientOp::kExistsWatch:
    case ClientOp::kDelete:
    case ClientOp::kSyncGet:
    case ClientOp::kCloseSession:
    case ClientOp::kUnknown:
      break;
    case ClientOp::kCount:
      LS_UNREACHABLE();
  }
  return step;
}

// One to four writes of any keys. Whether each succeeds is left to chance, so that many multis are
// refused after some operations that would have succeeded.
void Client::DrawMulti(ClientStep* step) {
  const int64_t size = random_.Between(1, 4);
  for (int64_t n = 0; n < size; ++n) {
    MultiPart& part = step->parts.emplace_back();
    part.key = RandomKey();
    switch (random_.Below(8)) {
      case 0:
      case 1:
      case 2:
        part.kind = random_.Chance(1, 4) ? MultiPart::Kind::kSetVersion : MultiPart::Kind::kSet;
        break;
      case 3:
        part.kind = MultiPart::Kind::kCheck;
        break;
      case 4:
        part.kind = MultiPart::Kind::kCreate;
        break;
      case 5:
        part.kind = MultiPart::Kind::kCreateSequential;
        part.parent = RandomParent();
        part.ephemeral = random_.Chance(1, 3);
        break;
      case 6:
        part.kind = MultiPart::Kind::kCreateEphemeral;
        break;
      default:
        part.kind = MultiPart::Kind::kDelete;
        break;
    }
    const bool has_value =
        part.kind != MultiPart::Kind::kCheck && part.kind != MultiPart::Kind::kDelete;
    if (has_value) part.bytes = RandomSize();
  }
}

void Client::DrawMultiRead(ClientStep* step) {
  const int64_t size = random_.Between(1, 4);
  for (int64_t n = 0; n < size; ++n) {
    MultiPart& part = step->parts.emplace_back();
    part.kind = random_.Chance(3, 4) ? MultiPart::Kind::kGet : MultiPart::Kind::kChildren;
    part.key = RandomKey();
  }
}

}  // namespace lockstep::sim
