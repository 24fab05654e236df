#include "sim/checkers/committed_log.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sim/failure.h"
#include "sim/trace.h"

namespace lockstep::sim {

bool CommittedLog::OnApplied(uint32_t server, Zxid zxid, const Bytes& body, int64_t* position) {
  const uint64_t checksum = Checksum(body.view());
  const int64_t index = *position + 1;
  if (index < size()) {
    const CommittedEntry& entry = at(index);
    if (entry.zxid != zxid || entry.checksum != checksum) {
      Fail("agreement",
           absl::StrFormat("server %d applies %s where %s was committed%s", server, zxid.ToString(),
                           entry.zxid.ToString(), entry.zxid == zxid ? " with another body" : ""));
    }
    *position = index;
    return false;
  }
  if (zxid <= last()) {
    Fail("agreement", absl::StrFormat("server %d applies %s after %s, the last committed", server,
                                      zxid.ToString(), last().ToString()));
  }
  absl::StatusOr<coordination::DecodedTransaction> decoded = coordination::DecodeTransaction(body);
  if (!decoded.ok()) {
    Fail("transaction-fits-state",
         absl::StrCat(zxid.ToString(), " does not decode: ", decoded.status().ToString()));
  }
  entries_.push_back({zxid, checksum, std::nullopt, *std::move(decoded)});
  *position = index;
  return true;
}

void CommittedLog::OnState(uint32_t server, Zxid zxid, uint64_t digest, int64_t* position) {
  const std::optional<int64_t> index = Find(zxid);
  if (!index.has_value()) {
    Fail("applied-is-committed", absl::StrFormat("server %d is in the state after %s, which nobody "
                                                 "has applied; the last committed is %s",
                                                 server, zxid.ToString(), last().ToString()));
  }
  *position = *index;
  std::optional<uint64_t>& known =
      *index == kBeforeFirst ? empty_digest_ : entries_[static_cast<size_t>(*index)].digest;
  if (!known.has_value()) {
    known = digest;
  } else if (*known != digest) {
    Fail("state-digest", absl::StrFormat("server %d has digest %016x at %s, another one had %016x",
                                         server, digest, zxid.ToString(), *known));
  }
}

int64_t CommittedLog::FindFloor(Zxid zxid) const {
  auto it = std::upper_bound(entries_.begin(), entries_.end(), zxid,
                             [](Zxid z, const CommittedEntry& e) { return z < e.zxid; });
  return it - entries_.begin() - 1;
}

std::optional<int64_t> CommittedLog::Find(Zxid zxid) const {
  if (zxid == Zxid{}) return kBeforeFirst;
  const int64_t index = FindFloor(zxid);
  if (index < 0 || at(index).zxid != zxid) return std::nullopt;
  return index;
}

}  // namespace lockstep::sim
