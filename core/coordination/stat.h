// ZooKeeper's Stat record.
#pragma once

#include <cstdint>

#include "core/base/ids.h"
#include "core/base/zxid.h"

namespace lockstep::coordination {

// Field for field what clients see of a node, with one exception: in a stored Stat (Znode::stat)
// cversion counts only the creations of children. Tree::StatOf translates it to what clients see.
struct Stat {
  Zxid czxid;            // created by
  Zxid mzxid;            // data last changed by
  int64_t ctime_ms = 0;  // milliseconds since the Unix epoch, stamped by the leader
  int64_t mtime_ms = 0;
  int32_t version = 0;        // of the data
  int32_t cversion = 0;       // of the list of children
  int32_t aversion = 0;       // of the ACL
  SessionId ephemeral_owner;  // 0 for a persistent node
  int32_t data_length = 0;
  int32_t num_children = 0;
  Zxid pzxid;  // list of children last changed by
  bool operator==(const Stat&) const = default;
};

}  // namespace lockstep::coordination
