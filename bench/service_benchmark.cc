// What a request costs the service in CPU, from the client's bytes to its reply, on a leader alone:
// Zab, the disk and the network are left out. Run it on an idle machine; docs/coordination.md
// quotes it.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "core/coordination/protocol.h"
#include "core/coordination/service.h"

namespace lockstep::coordination {
namespace {

constexpr ServerId kServer{1};
constexpr int kConnections = 100;
constexpr int kNodes = 1'000;

// A leading service whose proposals are delivered when they are asked for.
class Leader {
 public:
  Leader() : service({.server = kServer, .connections_per_address_max = 0}, Random()) {
    service.SetRole(now, Role::kLeading, kServer, {1}, &out);
    for (int i = 0; i < kConnections; ++i) {
      connections.push_back({ConnectionId::kAccepted | static_cast<uint64_t>(i + 1)});
      service.OnClientAccepted(now, connections.back(), "10.0.0.1", 0, &out);
      Send(i, EncodeConnectRequest({.timeout_ms = 10'000, .password = std::string(kNoPassword)}));
      Deliver();
    }
    const std::vector<Acl> open = {{.permissions = 31, .scheme = "world", .id = "anyone"}};
    for (int i = 0; i < kNodes; ++i) {
      const std::string path = Path(i);
      Send(0, EncodeRequest(i, OpCode::kCreate,
                            CreateRequest{.path = path, .data = Data100(), .acl = open}));
      Deliver();
    }
  }

  static RandomStream Random() { return RandomStream(1, kServer, 1, 1); }
  static std::string Path(int i) { return "/bench-node-" + std::to_string(i); }
  static Data Data100() { return {Bytes::Copy(std::string(100, 'x')), false}; }

  void Send(int connection, Bytes bytes) {
    service.OnClientBytes(now, connections[static_cast<size_t>(connection)], std::move(bytes),
                          &out);
  }
  // Delivers what was proposed, and lets the network take the replies.
  void Deliver() {
    now = now + Microseconds(10);
    std::vector<Bytes> bodies;
    std::swap(bodies, out.proposals);
    for (const Bytes& body : bodies) service.OnDelivered(now, {{1}, ++counter}, body, &out);
    for (const auto& send : out.client_sends) {
      service.OnClientWritten(now, send.connection, send.data.size(), &out);
    }
    replies += out.client_sends.size();
    out.Clear();
  }

  Service service;
  ServiceOutput out;
  Instant now{1'000'000'000};
  uint32_t counter = 0;
  std::vector<ConnectionId> connections;
  uint64_t replies = 0;
};

void BM_ServiceWrite(benchmark::State& state) {
  Leader leader;
  const int in_flight = static_cast<int>(state.range(0));
  std::vector<Bytes> requests;
  for (int i = 0; i < in_flight; ++i) {
    const std::string path = Leader::Path(i % kNodes);
    requests.push_back(
        EncodeRequest(i, OpCode::kSetData, SetDataRequest{path, Leader::Data100(), kAnyVersion}));
  }
  leader.replies = 0;
  for (auto _ : state) {
    for (int i = 0; i < in_flight; ++i) {
      leader.Send(i % kConnections, requests[static_cast<size_t>(i)]);
    }
    leader.Deliver();
  }
  if (leader.replies != static_cast<uint64_t>(state.iterations() * in_flight)) {
    state.SkipWithError("replies are missing");
  }
  state.SetItemsProcessed(state.iterations() * in_flight);
}
BENCHMARK(BM_ServiceWrite)->Arg(300)->Arg(3'000);

void BM_ServiceRead(benchmark::State& state) {
  Leader leader;
  const std::string path = Leader::Path(7);
  const Bytes request = EncodeRequest(1, OpCode::kGetData, GetDataRequest{path, false});
  int connection = 0;
  for (auto _ : state) {
    leader.Send(connection, request);
    connection = (connection + 1) % kConnections;
    if (connection == 0) leader.Deliver();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_ServiceRead);

void BM_ServicePing(benchmark::State& state) {
  Leader leader;
  const Bytes request = EncodeRequest(kXidPing, OpCode::kPing, PingRequest());
  int connection = 0;
  for (auto _ : state) {
    leader.Send(connection, request);
    connection = (connection + 1) % kConnections;
    if (connection == 0) leader.Deliver();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_ServicePing);

}  // namespace
}  // namespace lockstep::coordination

BENCHMARK_MAIN();
