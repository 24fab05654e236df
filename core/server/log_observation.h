// What happened to a broker's partition logs, in order: for checkers and tests, not for the host to
// act on. Only with Options::observe_logs.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/base/uuid.h"
#include "core/replication/ids.h"
#include "core/storage/partition_log.h"

namespace lockstep::server {

struct LogRecovered {
  storage::LogNumber log;
  std::string topic;
  replication::PartitionId partition;
  int64_t start = 0;
  int64_t end = 0;
  std::vector<storage::EpochStart> epochs;
};
struct LogCreated {
  storage::LogWriteId id;
  storage::LogNumber log;
  std::string topic;
  replication::PartitionId partition;
};
struct LogChanged {
  storage::LogWriteId id;
  storage::LogNumber log;
  storage::LogChange change;
};
struct LogDeleted {
  storage::LogWriteId id;
  storage::LogNumber log;
};
// All with ids up to this one are durable.
struct LogPersisted {
  storage::LogWriteId id;
};
using LogObservation = std::variant<LogRecovered, LogCreated, LogChanged, LogDeleted, LogPersisted>;

}  // namespace lockstep::server
