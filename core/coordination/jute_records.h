// The fields of the records that several formats share; see jute.h.
#pragma once

#include "core/coordination/jute.h"
#include "core/coordination/stat.h"
#include "core/coordination/transaction.h"

namespace lockstep::coordination {

template <typename Codec, Is<Acl> T>
void Fields(Codec& codec, T& record) {
  codec(record.permissions, record.scheme, record.id);
}

template <typename Codec, Is<Stat> T>
void Fields(Codec& codec, T& record) {
  codec(record.czxid, record.mzxid, record.ctime_ms, record.mtime_ms, record.version,
        record.cversion, record.aversion, record.ephemeral_owner, record.data_length,
        record.num_children, record.pzxid);
}

}  // namespace lockstep::coordination
