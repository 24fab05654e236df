// What the journal's append side costs the server's thread: Append, Flush and OnDone, with a disk
// that takes no time.
#include <benchmark/benchmark.h>

#include "core/storage/store.h"

namespace lockstep::storage {
namespace {

// Arguments: records in a batch, bytes in a body.
void AppendFlushDone(benchmark::State& state) {
  Store store({.server = {1}}, 1);
  StoreOutput output;
  // Answers everything until nothing is asked.
  const auto answer = [&] {
    while (!output.ops.empty()) {
      std::vector<FileOp> ops;
      ops.swap(output.ops);
      output.Clear();
      for (const FileOp& op : ops) store.OnDone({.id = op.id}, &output);
    }
  };
  store.Start(&output);
  answer();

  const auto records = static_cast<uint64_t>(state.range(0));
  const Bytes body = Bytes::Copy(std::string(static_cast<size_t>(state.range(1)), 'x'));
  uint64_t id = 0;
  for (auto _ : state) {
    for (uint64_t i = 0; i < records; ++i) {
      ++id;
      store.Append({id}, TransactionRecord{Zxid::FromPacked(id), body}, &output);
    }
    while (store.busy()) {
      store.Flush(&output);
      answer();
    }
  }
  state.SetItemsProcessed(static_cast<int64_t>(id));
}
BENCHMARK(AppendFlushDone)->Args({1, 200})->Args({50, 200})->Args({50, 1024})->Args({500, 200});

}  // namespace
}  // namespace lockstep::storage

BENCHMARK_MAIN();
