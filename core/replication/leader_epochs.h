// Which leader epoch begins where in a log: what two replicas compare to find where their histories
// part. KIP-101, KIP-279; Kafka's LeaderEpochFileCache.
#pragma once

#include <optional>
#include <vector>

#include "core/replication/ids.h"
#include "core/storage/partition_log.h"

namespace lockstep::replication {

class LeaderEpochs {
 public:
  // An epoch and where its records end (exclusive).
  struct End {
    LeaderEpoch epoch;
    Offset end = 0;
    bool operator==(const End&) const = default;
  };

  LeaderEpochs() = default;
  // Requires: ascending in both.
  explicit LeaderEpochs(std::vector<storage::EpochStart> entries);

  // The epoch that the log's next record may not be below; -1 if there is none.
  LeaderEpoch latest() const;
  std::optional<Offset> StartOf(LeaderEpoch epoch) const;
  const std::vector<storage::EpochStart>& entries() const { return entries_; }

  // `epoch` begins at `start`. An epoch that begins there too has no records, and goes: two
  // replicas may both have led without a record, and only records make a history.
  // Requires: epoch above the latest, start not below that of any record.
  void Assign(LeaderEpoch epoch, Offset start);

  // Where the largest epoch not above `epoch` ends in a log that ends at `log_end`. If all epochs
  // here are above it: `epoch` itself, ending where they begin, since what was below has been
  // deleted and both are right about it. Nothing if there are no epochs.
  //
  // `largest_not_above` false is what KIP-101 answered before KIP-279: the asked epoch, known or
  // not, ending where the next one above begins. Then a follower keeps records of an epoch that the
  // leader never had.
  std::optional<End> EndOffsetFor(LeaderEpoch epoch, Offset log_end, bool largest_not_above) const;

  // The log is cut to end at `to`: every epoch that begins there or above goes, also one that has
  // no records (KAFKA-10706).
  void TruncateFromEnd(Offset to);
  // The log begins at `start` now. The epoch that `start` lies in begins there.
  void TruncateFromStart(Offset start);
  void Clear() { entries_.clear(); }

 private:
  std::vector<storage::EpochStart> entries_;  // ascending in both
};

}  // namespace lockstep::replication
