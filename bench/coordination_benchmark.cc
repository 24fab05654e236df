// What the znode tree and the client protocol cost: memory a node, time a transaction, a snapshot
// byte, a request. Run it on an idle machine; docs/coordination.md quotes it.
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <string>

#include "core/base/frame_cutter.h"
#include "core/coordination/protocol.h"
#include "core/coordination/tree.h"

namespace lockstep::coordination {
namespace {

const std::vector<Acl> kOpen = {{.permissions = 31, .scheme = "world", .id = "anyone"}};
constexpr int kNodes = 1'000'000;
constexpr int kPerParent = 1'000;

size_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

std::string Path(int i) {
  // 31 bytes, such as "/bench/parent-0042/child-000042".
  char path[64];
  snprintf(path, sizeof(path), "/bench/parent-%04d/child-%06d", i / kPerParent, i);
  return path;
}

class Filled {
 public:
  Filled() {
    Create("/bench", 1);
    const Bytes data = Bytes::Copy(std::string(100, 'x'));
    for (int i = 0; i < kNodes; ++i) {
      std::string path = Path(i);
      const int in_parent = i % kPerParent;
      if (in_parent == 0) Create(path.substr(0, path.rfind('/')), i / kPerParent + 1);
      Create(std::move(path), in_parent + 1, data);
    }
  }
  void Create(std::string path, int cversion, Bytes data = {}) {
    tree.Apply(Next(), {}, CreateTransaction{std::move(path), data, false, kOpen, false, cversion});
  }
  Zxid Next() {
    ++zxid_.counter;
    return zxid_;
  }

  Tree tree;

 private:
  Zxid zxid_{{1}, 0};
};

void CreateMillionNodes(benchmark::State& state) {
  for (auto _ : state) {
    const size_t before = HeapBytes();
    Filled filled;
    state.counters["bytes_per_node"] =
        static_cast<double>(HeapBytes() - before) / static_cast<double>(filled.tree.node_count());
    state.PauseTiming();
    filled.tree = Tree();
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * kNodes);
}
BENCHMARK(CreateMillionNodes)->Unit(benchmark::kMillisecond)->Iterations(2);

void SetData(benchmark::State& state) {
  Filled filled;
  const Bytes data = Bytes::Copy(std::string(100, 'y'));
  int32_t version = 0;
  int i = 0;
  for (auto _ : state) {
    if (i == 0) ++version;
    benchmark::DoNotOptimize(
        filled.tree.Apply(filled.Next(), {}, SetDataTransaction{Path(i), data, false, version}));
    i = (i + 1) % kNodes;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(SetData);

void SnapshotAndLoad(benchmark::State& state) {
  Filled filled;
  size_t bytes = 0;
  for (auto _ : state) {
    auto snapshot = filled.tree.Snapshot();
    TreeLoader loader;
    while (!snapshot->done()) {
      Bytes piece = snapshot->Next(1 << 18);
      bytes += piece.size();
      if (state.range(0) != 0 && !loader.Add(piece).ok()) state.SkipWithError("refused");
    }
    if (state.range(0) != 0) benchmark::DoNotOptimize(loader.Finish()->digest());
  }
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
}
BENCHMARK(SnapshotAndLoad)->ArgName("load")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

void GetDataRequestAndReply(benchmark::State& state) {
  const Bytes stream = EncodeRequest(7, OpCode::kGetData, GetDataRequest{"/bench/a/node", true});
  const Data data{Bytes::Copy(std::string(100, 'x'))};
  FrameCutter cutter(1 << 20);
  for (auto _ : state) {
    cutter.Add(stream);
    auto request = DecodeRequest(std::move(**cutter.Next()));
    benchmark::DoNotOptimize(EncodeReply({request->xid, {{1}, 2}}, GetDataResponse{data, Stat()}));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(GetDataRequestAndReply);

void CreateRequestAndTransaction(benchmark::State& state) {
  const Bytes stream =
      EncodeRequest(7, OpCode::kCreate,
                    CreateRequest{"/bench/a/node", {Bytes::Copy(std::string(100, 'x'))}, kOpen, 0});
  FrameCutter cutter(1 << 20);
  for (auto _ : state) {
    cutter.Add(stream);
    auto request = DecodeRequest(std::move(**cutter.Next()));
    auto& create = std::get<CreateRequest>(request->body);
    const Bytes encoded =
        EncodeTransaction({}, CreateTransaction{std::string(create.path), create.data.bytes, false,
                                                std::move(create.acl), false, 1});
    benchmark::DoNotOptimize(DecodeTransaction(encoded));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(CreateRequestAndTransaction);

}  // namespace
}  // namespace lockstep::coordination

BENCHMARK_MAIN();
