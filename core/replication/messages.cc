#include "core/replication/messages.h"

#include "core/base/check.h"

namespace lockstep::replication {

const char* ToString(FetchError error) {
  switch (error) {
    case FetchError::kNone:
      return "none";
    case FetchError::kNotLeader:
      return "not-leader";
    case FetchError::kUnknownPartition:
      return "unknown-partition";
    case FetchError::kNotReplica:
      return "not-replica";
    case FetchError::kFencedLeaderEpoch:
      return "fenced-leader-epoch";
    case FetchError::kUnknownLeaderEpoch:
      return "unknown-leader-epoch";
    case FetchError::kStaleIncarnation:
      return "stale-incarnation";
    case FetchError::kOffsetOutOfRange:
      return "offset-out-of-range";
    case FetchError::kStorage:
      return "storage";
    case FetchError::kCount:
      break;
  }
  LS_UNREACHABLE();
}

}  // namespace lockstep::replication
