// Bytes of a snapshot, in pieces whose size the first byte says. What loads is a tree that writes
// the same snapshot.
//
// A fuzzer does not guess a digest, so nearly all inputs end with an error: that of the end record
// at best, after everything before it was accepted.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "core/coordination/tree.h"

using lockstep::Bytes;
using namespace lockstep::coordination;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const size_t piece_size = 1 + size_t{data[0]} * 4;
  const std::string_view all(reinterpret_cast<const char*>(data) + 1, size - 1);
  TreeLoader loader;
  for (size_t at = 0; at < all.size(); at += piece_size) {
    if (!loader.Add(Bytes::Copy(all.substr(at, piece_size))).ok()) {
      LS_CHECK(!loader.Finish().ok());
      return 0;
    }
  }
  auto tree = loader.Finish();
  if (!tree.ok()) return 0;
  TreeLoader second;
  auto snapshot = tree->Snapshot();
  while (!snapshot->done()) LS_CHECK(second.Add(snapshot->Next(100)).ok());
  auto again = second.Finish();
  LS_CHECK(again.ok());
  LS_CHECK_EQ(again->digest(), tree->digest());
  LS_CHECK_EQ(again->last_zxid(), tree->last_zxid());
  LS_CHECK_EQ(again->node_count(), tree->node_count());
  return 0;
}
