// What a peer message costs on its way out and in: encoding (with its checksum), and cutting out of
// a stream, checking and decoding. Per message, on one core.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/wire/codec.h"
#include "core/wire/frame.h"

namespace lockstep::wire {
namespace {

zab::Message OneProposal() {
  return zab::Proposal{{{3}, 8}, {{3}, 7}, Bytes::Copy(std::string(128, 'x'))};
}
zab::Message OneAck() { return zab::Ack{{{3}, 8}}; }

void Encode(benchmark::State& state, const zab::Message& message) {
  std::vector<Bytes> out;
  for (auto _ : state) {
    out.clear();
    EncodeMessage(message, &out);
    benchmark::DoNotOptimize(out.data());
  }
}

// A read of 64 KiB or so, as a socket gives it, full of this message.
void Decode(benchmark::State& state, const zab::Message& message) {
  std::vector<Bytes> slices;
  EncodeMessage(message, &slices);
  std::string one;
  for (const Bytes& slice : slices) one += slice.view();
  const int64_t count = static_cast<int64_t>((64 << 10) / one.size());
  std::string many;
  for (int64_t i = 0; i < count; ++i) many += one;
  const Bytes read = Bytes::Copy(many);

  for (auto _ : state) {
    FrameReader reader(1 << 20);
    reader.Add(read);
    for (int64_t i = 0; i < count; ++i) {
      auto frame = reader.Next();
      LS_CHECK(frame.ok() && frame->has_value());
      auto decoded = DecodeMessage(**frame);
      LS_CHECK(decoded.ok());
      benchmark::DoNotOptimize(&decoded);
    }
  }
  state.SetItemsProcessed(state.iterations() * count);
}

BENCHMARK_CAPTURE(Encode, Proposal128, OneProposal());
BENCHMARK_CAPTURE(Encode, Ack, OneAck());
BENCHMARK_CAPTURE(Decode, Proposal128, OneProposal());
BENCHMARK_CAPTURE(Decode, Ack, OneAck());

}  // namespace
}  // namespace lockstep::wire

BENCHMARK_MAIN();
