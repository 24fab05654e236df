// One server of both roles on a fake disk. What it dials is itself, and everybody else is a client
// whose bytes the test writes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "core/base/check.h"
#include "core/server/broker_role.h"
#include "core/server/server.h"
#include "tests/support/fake_disk.h"

namespace lockstep::server {

class LoopbackServer {
 public:
  explicit LoopbackServer(uint64_t held_bytes_max = kafka::FrontEndOptions().held_bytes_max)
      : held_bytes_max_(held_bytes_max) {
    Start();
  }

  void Start() {
    Options options;
    options.server = {1};
    options.voters = {{1}};
    options.storage.segment_bytes = 1 << 20;  // the fake disk is slow
    options.broker.emplace();
    options.broker->broker.broker = {1};
    options.broker->broker.advertised = {kHost, kBrokerPort};
    options.broker->broker.default_replication_factor = 1;
    options.broker->broker.log.segment_bytes = 16 << 10;
    options.broker->broker.log.cache_bytes = 16 << 10;  // files are read, too
    options.broker->coordination = {{kHost, kClientPort}};
    options.broker->front_end.groups.partitions = 2;
    options.broker->front_end.groups.initial_rebalance_delay_ms = 0;
    options.broker->front_end.request_bytes_max = 1 << 20;
    options.broker->front_end.held_bytes_max = held_bytes_max_;
    options.broker->front_end.configured = {"log.segment.bytes", "log.retention.hours"};
    server_ = std::make_unique<Server>(options, /*seed=*/7, ++incarnation_);
    output_.Clear();
    fatal_.clear();
    Step(server::Start{.unix_ms = 1'700'000'000'000 + now_.ns / 1'000'000});
  }
  // Loses what was not synced.
  void Crash() {
    server_.reset();
    ops_.clear();
    inputs_.clear();
    other_end_.clear();
    disk_.Crash([] { return false; });
  }
  // Until the server says that it is done.
  void StopCleanly() {
    Step(server::StopCleanly{});
    for (int i = 0; i < 10'000 && !stopped_; ++i) Run(Milliseconds(1));
    LS_CHECK(stopped_);
    stopped_ = false;
    server_.reset();
    ops_.clear();
    inputs_.clear();
    other_end_.clear();
  }

  void Step(const Input& input) {
    server_->Step(now_, input, &output_);
    Carry();
  }
  void Run(Duration duration) {
    const Instant until = now_ + duration;
    for (;;) {
      if (!inputs_.empty()) {
        const Input input = std::move(inputs_.front());
        inputs_.pop_front();
        Step(input);
        continue;
      }
      if (!ops_.empty()) {
        storage::FileOp op = std::move(ops_.front());
        ops_.pop_front();
        Step(FileOpDone{disk_.Execute(op)});
        continue;
      }
      const Instant due = server_->next_deadline();
      if (due > until || !fatal_.empty()) break;
      now_ = std::max(now_, due);
      wakes_++;
      Step(Wake{});
    }
    now_ = until;
  }
  // The process is stopped for so long: time passes, and what is due waits.
  void Freeze(Duration duration) { now_ = now_ + duration; }
  // Runs until `done`, at most a minute of the server's time.
  template <typename Done>
  bool RunUntil(Done done) {
    for (int i = 0; i < 6'000; ++i) {
      if (done()) return true;
      Run(Milliseconds(10));
    }
    return done();
  }

  ConnectionId Accept(LinkKind kind) {
    const ConnectionId id{ConnectionId::kAccepted | ++connections_};
    Step(server::Accepted{id, kind, "10.0.0.1", 5000});
    return id;
  }
  std::string TakeSent(ConnectionId connection) { return std::exchange(sent_[connection], {}); }
  bool closed(ConnectionId connection) const { return closed_.contains(connection); }
  // Whether the server has stopped reading from it.
  bool paused(ConnectionId connection) const { return paused_.contains(connection); }
  // Nothing that is sent to it leaves the host from now on.
  void TakeNothing(ConnectionId connection) { takes_nothing_.insert(connection); }
  const std::string& fatal() const { return fatal_; }
  Server& server() { return *server_; }
  storage::FakeDisk& disk() { return disk_; }
  Instant now() const { return now_; }
  uint64_t wakes() const { return wakes_; }

 private:
  static constexpr char kHost[] = "self";
  static constexpr uint16_t kBrokerPort = 9092;
  static constexpr uint16_t kClientPort = 2181;

  void Carry() {
    server_->Flush(now_, &output_);
    for (storage::FileOp& op : output_.file_ops) ops_.push_back(std::move(op));
    for (const Dial& dial : output_.dials) {
      LS_CHECK(dial.host == kHost);
      const ConnectionId far{ConnectionId::kAccepted | ++connections_};
      other_end_[dial.connection] = far;
      other_end_[far] = dial.connection;
      inputs_.push_back(server::Accepted{
          far, dial.port == kClientPort ? LinkKind::kClient : LinkKind::kBroker, kHost, 1});
      inputs_.push_back(Connected{dial.connection});
    }
    for (const Send& send : output_.sends) {
      if (auto end = other_end_.find(send.connection); end != other_end_.end()) {
        inputs_.push_back(ReceivedBytes{end->second, send.data});
      } else {
        sent_[send.connection] += send.data.view();
      }
      if (!takes_nothing_.contains(send.connection)) {
        inputs_.push_back(Written{send.connection, send.data.size()});
      }
    }
    for (ConnectionId connection : output_.pauses) paused_.insert(connection);
    for (ConnectionId connection : output_.resumes) paused_.erase(connection);
    for (ConnectionId connection : output_.closes) {
      closed_.insert(connection);
      if (auto end = other_end_.find(connection); end != other_end_.end()) {
        inputs_.push_back(server::Closed{end->second});
        other_end_.erase(end->second);
        other_end_.erase(connection);
      }
    }
    stopped_ |= output_.stopped;
    if (output_.fatal) fatal_ = *output_.fatal;
    output_.Clear();
  }

  storage::FakeDisk disk_;
  std::unique_ptr<Server> server_;
  uint64_t incarnation_ = 0;
  uint64_t connections_ = 0;
  uint64_t wakes_ = 0;
  Instant now_ = Instant{} + Seconds(1);
  Output output_;
  std::deque<storage::FileOp> ops_;
  std::deque<Input> inputs_;
  std::map<ConnectionId, ConnectionId> other_end_;
  std::map<ConnectionId, std::string> sent_;
  std::set<ConnectionId> closed_;
  std::set<ConnectionId> paused_;
  std::set<ConnectionId> takes_nothing_;
  const uint64_t held_bytes_max_;
  bool stopped_ = false;
  std::string fatal_;
};

}  // namespace lockstep::server
