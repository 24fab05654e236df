// What a journal says up to some point of it, in a few numbers: the state that every segment header
// repeats, so that older segments can be dropped without losing an epoch.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/zxid.h"
#include "core/storage/store.h"

namespace lockstep::storage {

// The snapshot that counts, if any. Own and received ones have files of different names, so that a
// snapshot from the leader never overwrites the one that counts until its record is durable.
struct SnapshotRef {
  enum class Kind : uint8_t { kNone = 0, kOwn = 1, kReceived = 2 };

  Kind kind = Kind::kNone;
  Zxid zxid;

  constexpr auto operator<=>(const SnapshotRef&) const = default;
  // The file's name in Directory::kData. Requires: kind is not kNone.
  std::string FileName() const;
  std::string ToString() const;
};

struct Checkpoint {
  Epoch accepted_epoch;
  Epoch current_epoch;
  SnapshotRef snapshot;
  Zxid last;  // the last transaction of the history, or what stands for it: a cut, a snapshot

  constexpr bool operator==(const Checkpoint&) const = default;

  // The state after `record`. Returns null, or what is wrong with such a record at this place (then
  // nothing changes).
  const char* Advance(const Record& record);
};

}  // namespace lockstep::storage
