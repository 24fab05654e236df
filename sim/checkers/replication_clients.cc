// What producers and consumers say, compared with what is committed.
#include "absl/strings/str_cat.h"
#include "sim/checkers/replication.h"
#include "sim/failure.h"
#include "sim/trace.h"

namespace lockstep::sim {

void Replication::AddProducer(uint32_t producer, bool idempotent, bool ordered) {
  producers_[producer] = {idempotent, ordered};
}

void Replication::OnSent(RecordId record, const std::string& topic, int32_t partition) {
  sent_.try_emplace(record.value, Checksum(topic), partition);
}

void Replication::OnProducerId(const std::string& who, int64_t producer_id, int16_t epoch) {
  const auto [it, is_new] = producer_ids_.try_emplace({producer_id, epoch}, who);
  if (is_new) return;
  Fail("producer-ids-are-unique", absl::StrCat("producer id ", producer_id, " of ", who,
                                               " was given to ", it->second, " before"));
}

// A leader that commits and drops its replica in one step has told its clients, and nobody has seen
// the high watermark. That topic is gone.
bool Replication::WasDeleted(const std::string& topic) const {
  const auto nodes = topics_.find(topic);
  return nodes == topics_.end() || !nodes->second.record || nodes->second.record->deleting ||
         recreated_.contains(topic);
}

bool Replication::IsGone(const replication::PartitionId& id, const std::string& topic) const {
  const auto nodes = topics_.find(topic);
  return nodes == topics_.end() || !nodes->second.record || nodes->second.record->deleting ||
         nodes->second.record->id != id.topic;
}

template <typename Fn>
bool Replication::AnyOfName(const std::string& topic, int32_t partition, Fn fn) const {
  auto it = names_.find({topic, partition});
  if (it == names_.end()) return false;
  // The newest is the likeliest.
  for (auto id = it->second.rbegin(); id != it->second.rend(); ++id) {
    if (fn(ghosts_.at(*id).ghost)) return true;
  }
  return false;
}

void Replication::OnAcknowledged(const std::string& who, const std::string& topic,
                                 int32_t partition, int64_t base_offset,
                                 const std::vector<RecordId>& records) {
  bool is_above = false;  // of one that has or had this name
  const bool found = AnyOfName(topic, partition, [&](const Ghost& ghost) {
    if (ghost.may_have_lost) return true;
    for (size_t i = 0; i < records.size(); ++i) {
      const int64_t offset = base_offset + static_cast<int64_t>(i);
      if (offset >= ghost.end) is_above = true;
      if (base_offset < 0) {
        if (!ghost.offset_of.contains(records[i].value)) return false;
      } else if (offset >= ghost.end || ghost.records[static_cast<size_t>(offset)] != records[i]) {
        return false;
      }
    }
    return true;
  });
  if (found || (is_above && WasDeleted(topic))) return;
  Fail("acknowledged-is-committed",
       absl::StrCat(who, " is told that ", records.front().ToString(), " and ", records.size() - 1,
                    " more are in ", topic, "-", partition, " at ", base_offset,
                    ", where they are not committed"));
}

void Replication::OnConsumed(const std::string& who, const std::string& topic, int32_t partition,
                             int64_t offset, RecordId record) {
  RecordId expected;
  int64_t end = 0;
  bool is_above = false;  // of one that has or had this name
  const bool found = AnyOfName(topic, partition, [&](const Ghost& ghost) {
    if (ghost.may_have_lost) return true;
    end = ghost.end;
    if (offset >= ghost.end) {
      is_above = true;
      return false;
    }
    expected = ghost.records[static_cast<size_t>(offset)];
    return expected == record;
  });
  if (found) return;
  if (is_above && WasDeleted(topic)) return;
  Fail("consistent-read",
       absl::StrCat(who, " reads ", record.ToString(), " from ", topic, "-", partition, " at ",
                    offset, ", where ",
                    offset >= end ? absl::StrCat("nothing is committed (up to ", end, ")")
                                  : expected.ToString() + " is committed"));
}

void Replication::OnOutOfRange(const std::string& who, const std::string& topic, int32_t partition,
                               int64_t offset) {
  int64_t end = 0;
  int64_t start = 0;
  if (recreated_.contains(topic)) return;
  const bool found = AnyOfName(topic, partition, [&](const Ghost& ghost) {
    start = ghost.log_start;
    end = ghost.end;
    return ghost.may_have_lost || offset < ghost.log_start || offset > ghost.end;
  });
  if (found) return;
  Fail("consistent-read",
       absl::StrCat(who, " is told that ", offset, " is not in ", topic, "-", partition,
                    ", which is committed from ", start, " to ", end));
}

int64_t Replication::CommittedEnd(const std::string& topic, int32_t partition) const {
  int64_t end = 0;
  AnyOfName(topic, partition, [&](const Ghost& ghost) {
    end = ghost.end;
    return true;
  });
  return end;
}

bool Replication::WereRemoved(const std::string& topic, int32_t partition,
                              const std::vector<RecordId>& records) const {
  return AnyOfName(topic, partition, [&](const Ghost& ghost) {
    return std::all_of(records.begin(), records.end(), [&](RecordId record) {
      const auto at = ghost.offset_of.find(record.value);
      return at != ghost.offset_of.end() && at->second < ghost.log_start;
    });
  });
}

bool Replication::MayHaveLost(const std::string& topic, int32_t partition) const {
  return AnyOfName(topic, partition, [](const Ghost& ghost) { return ghost.may_have_lost; });
}

}  // namespace lockstep::sim
