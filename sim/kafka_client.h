// What all simulated clients of Kafka's protocol have in common: connections to brokers, requests
// with their deadlines, metadata. They speak the bytes that any client speaks, in versions that
// each draws for itself.
//
// Like a machine a client only reacts: the world hands it what the network brings and wakes it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/frame_cutter.h"
#include "core/base/ids.h"
#include "core/base/random.h"
#include "core/base/time.h"
#include "core/base/uuid.h"
#include "core/kafka/frame.h"
#include "core/kafka/messages.h"
#include "sim/broker_plan.h"
#include "sim/client.h"
#include "sim/failure.h"
#include "sim/probes.h"
#include "sim/purpose.h"
#include "sim/schedule.h"
#include "sim/trace.h"

namespace lockstep::sim {

class KafkaClient {
 public:
  // `servers`: all of the world; brokers are addressed by BrokerHost() of these.
  struct Context {
    const BrokerPlan* plan = nullptr;
    uint32_t servers = 0;
    Duration tick;
    Probes* probes = nullptr;
    Trace* trace = nullptr;
    Script* script = nullptr;  // as a World's
    uint64_t seed = 0;
    uint32_t streams = 0;  // as a Plan's
    uint32_t client = 0;   // of the world
  };

  // `name` is for traces and the client id; `random` is this client's own.
  KafkaClient(const Context& context, std::string name, RandomStream random);
  virtual ~KafkaClient() = default;
  KafkaClient(const KafkaClient&) = delete;

  void OnWake(Instant now, ClientOutput* output);
  void OnConnected(Instant now, ConnectionId connection, ClientOutput* output);
  void OnBytes(Instant now, ConnectionId connection, Bytes data, ClientOutput* output);
  void OnClosed(Instant now, ConnectionId connection, ClientOutput* output);

  // A fault: all connections are dropped.
  void Drop(Instant now, ClientOutput* output);
  // A fault: it dies without a word, and comes back as another client.
  virtual void Vanish(Instant now, ClientOutput* output) = 0;
  // The end of a run: what is under way is finished, and NotDone() becomes empty.
  virtual void Quiesce(Instant now, ClientOutput* output) = 0;
  // Why this client is not content yet; "" if it is.
  virtual std::string NotDone() const = 0;

  const std::string& name() const { return name_; }

 protected:
  static constexpr uint32_t kFrameBytesMax = 64 << 20;

  struct Call {
    uint64_t number = 0;
    uint32_t server = 0;
    int32_t correlation = 0;
    kafka::ApiKey api{};
    int16_t version = 0;
    Instant deadline;
  };
  struct PartitionView {
    std::optional<uint32_t> leader;  // a server
    int32_t leader_epoch = -1;       // -1: the version of Metadata has none
    std::vector<uint32_t> replicas;  // servers; the preferred leader first
  };
  struct TopicView {
    kafka::ErrorCode error = kafka::ErrorCode::kNone;
    Uuid id;  // zero: the version of Metadata has none
    std::vector<PartitionView> partitions;
  };

  // ---- For those who derive.
  // The answer to a call. Decode it with Take<Response>(call, frame).
  virtual void OnAnswer(Instant now, const Call& call, const Bytes& frame,
                        ClientOutput* output) = 0;
  // Its connection is gone, or its time is over: whether it was carried out is not known. The order
  // is that in which they were sent.
  virtual void OnLost(Instant now, const Call& call, ClientOutput* output) = 0;
  // A deadline of the deriving class, or anything else has happened: do what there is to do, and
  // say when to be woken.
  virtual Instant Work(Instant now, ClientOutput* output) = 0;

  // Sends a request, over a new connection if there is none. `answered`: false for acks=0, to which
  // nothing is ever said. Returns the call's number.
  template <typename Request>
  uint64_t Send(Instant now, uint32_t server, const Request& request, Duration timeout,
                ClientOutput* output, bool answered = true) {
    Call call;
    call.number = next_call_++;
    call.server = server;
    call.correlation = next_correlation_++;
    call.api = Request::kApi;
    call.version = VersionOf<Request>();
    call.deadline = now + timeout;
    Transmit(now, call, kafka::EncodeRequest(request, call.version, call.correlation, name_),
             answered, output);
    if (trace_->on()) TraceCall("request", call, Request::kName);
    return call.number;
  }
  template <typename Response>
  Response Take(const Call& call, const Bytes& frame) {
    absl::StatusOr<Response> response = kafka::DecodeResponse<Response>(frame, call.version);
    if (!response.ok()) FailBytes(response.status().ToString());
    if (trace_->on()) TraceCall("reply", call, Response::kName);
    return *std::move(response);
  }
  // The version in which this client sends an API: drawn once, the same for its whole life.
  template <typename Request>
  int16_t VersionOf() {
    return VersionOf(Request::kApi, Request::kVersionMin, Request::kVersionMax);
  }
  // The versions that will do, both inclusive; before the first request of this API.
  void LimitVersions(kafka::ApiKey api, int16_t min, int16_t max) {
    versions_allowed_[api] = {min, max};
  }

  // Metadata of these topics is kept, and fetched anew when it is old or RefreshMetadata was called
  // (not more often than a client may).
  void Watch(const std::string& topic);
  void RefreshMetadata(Instant now);
  const TopicView* Find(const std::string& topic) const;
  std::optional<uint32_t> LeaderOf(const std::string& topic, int32_t partition) const;
  int32_t EpochOf(const std::string& topic, int32_t partition) const;

  uint32_t RandomServer() { return static_cast<uint32_t>(random_.Below(context_.servers)); }
  Duration BackOff() { return Around(random_, context_.tick / 2) + Milliseconds(1); }
  Duration Timeout() const { return context_.tick * 10; }
  void Line(std::string_view what, const std::string& detail) {
    if (trace_->on()) trace_->Line(name_, what, detail);
  }
  [[noreturn]] void FailBytes(const std::string& why) const;

  // ---- Schedules. What is decided is drawn in any case, so that the stream of who follows one
  // stands where it stood when it was taken down; see client_steps.cc.
  bool follows() const { return context_.script != nullptr && context_.script->follows(); }
  uint32_t actor() const { return 1 + context_.client; }
  // The schedule's next step, if its time has come.
  template <typename Step>
  const Step* Due(Instant now) const {
    const Decision* next = context_.script->Next(actor());
    return next != nullptr && next->at <= now ? &std::get<Step>(next->what) : nullptr;
  }
  // When to work at the latest.
  Instant NextStepAt() const {
    return follows() ? context_.script->NextAt(actor()) : Instant::Never();
  }
  template <typename Step>
  void Note(Instant now, const Step& step) {
    if (context_.script != nullptr) context_.script->Record({now, context_.client, step});
  }

  // Between Create and Quiesce there is random work; afterwards only what has to be finished.
  bool quiescing_ = false;

  const Context context_;
  const BrokerPlan& plan_;
  RandomStream random_;
  Probes* probes_;
  Trace* trace_;

 private:
  struct Connection {
    ConnectionId id;
    uint32_t server = 0;
    bool up = false;
    FrameCutter cutter{kFrameBytesMax};
    std::vector<Bytes> waiting;  // until it is up
    std::deque<Call> in_flight;
  };

  void Rekey(Instant now);
  int16_t VersionOf(kafka::ApiKey api, int16_t min, int16_t max);
  void Transmit(Instant now, const Call& call, std::vector<Bytes> frame, bool answered,
                ClientOutput* output);
  Connection& ConnectionTo(Instant now, uint32_t server, ClientOutput* output);
  void Lose(Instant now, Connection connection, ClientOutput* output);
  void OnFrame(Instant now, uint32_t server, const Bytes& frame, ClientOutput* output);
  void OnMetadata(const kafka::MetadataResponse& response);
  void AskMetadata(Instant now, ClientOutput* output);
  void Continue(Instant now, ClientOutput* output);
  void TraceCall(const char* what, const Call& call, const char* kind);

  const std::string name_;
  std::map<uint32_t, Connection> connections_;  // by server
  uint64_t dialed_ = 0;
  uint64_t next_call_ = 1;
  int32_t next_correlation_ = 1;
  std::map<kafka::ApiKey, int16_t> versions_;
  std::map<kafka::ApiKey, std::pair<int16_t, int16_t>> versions_allowed_;
  std::map<std::string, TopicView> topics_;  // watched ones
  bool metadata_wanted_ = true;
  std::optional<uint64_t> metadata_call_;
  Instant metadata_next_;  // not before
  Instant metadata_at_ = Instant::Never();
  std::map<uint64_t, uint32_t> hello_;  // ApiVersions under way
  Instant scheduled_wake_ = Instant::Never();
};

}  // namespace lockstep::sim
