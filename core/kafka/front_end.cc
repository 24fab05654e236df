#include "core/kafka/front_end.h"

#include <algorithm>
#include <utility>

#include "core/kafka/front_end_impl.h"

namespace lockstep::kafka {
namespace {

constexpr Duration kProducersSweepInterval = Seconds(600);
// How often connections are looked over for ones that have long said nothing.
constexpr int64_t kIdleSweepsPerTimeout = 10;
// Kafka passes over whatever follows a body.
constexpr size_t kTrailingBytesMax = 1024;

bool IsProduce(const Bytes& frame) {
  const char key[] = {0, static_cast<char>(ApiKey::kProduce)};
  return frame.view().substr(0, sizeof(key)) == std::string_view(key, sizeof(key));
}

}  // namespace

void FrontEndOutput::Clear() {
  sends.clear();
  closes.clear();
  pauses.clear();
  resumes.clear();
  reads.clear();
  searches.clear();
  log_sizes.clear();
  producer_snapshots.clear();
  events.clear();
}

bool FrontEndOutput::Empty() const {
  return sends.empty() && closes.empty() && pauses.empty() && resumes.empty() && reads.empty() &&
         searches.empty() && log_sizes.empty() && producer_snapshots.empty() && events.empty();
}

const std::vector<ServedApi>& ServedApis() {
  // ListOffsets to 6: 7 asks for the latest record by time (KIP-734), which is not kept.
  // Produce from 0, though 0 to 2 are refused when they are used: librdkafka takes a greater
  // minimum for a broker that knows no compression (KAFKA-18659).
  static const std::vector<ServedApi> kServed = {
      {ApiKey::kProduce, 0, 9},
      {ApiKey::kFetch, 4, 12},
      {ApiKey::kListOffsets, 1, 6},
      {ApiKey::kMetadata, 0, 12},
      {ApiKey::kOffsetCommit, 2, 8},
      {ApiKey::kOffsetFetch, 1, 8},
      {ApiKey::kFindCoordinator, 0, 4},
      {ApiKey::kJoinGroup, 0, 7},
      {ApiKey::kHeartbeat, 0, 4},
      {ApiKey::kLeaveGroup, 0, 5},
      {ApiKey::kSyncGroup, 0, 5},
      {ApiKey::kDescribeGroups, 0, 5},
      {ApiKey::kListGroups, 0, 4},
      {ApiKey::kApiVersions, 0, 3},
      {ApiKey::kCreateTopics, 2, 7},
      {ApiKey::kDeleteTopics, 1, 6},
      {ApiKey::kDeleteRecords, 0, 2},
      {ApiKey::kInitProducerId, 0, 4},
      {ApiKey::kOffsetForLeaderEpoch, 2, 4},
      {ApiKey::kDescribeConfigs, 1, 4},
      {ApiKey::kAlterConfigs, 0, 2},
      {ApiKey::kDescribeLogDirs, 1, 2},
      {ApiKey::kCreatePartitions, 0, 3},
      {ApiKey::kDeleteGroups, 0, 2},
      {ApiKey::kElectLeaders, 0, 2},
      {ApiKey::kIncrementalAlterConfigs, 0, 1},
      {ApiKey::kAlterPartitionReassignments, 0, 0},
      {ApiKey::kListPartitionReassignments, 0, 0},
      {ApiKey::kOffsetDelete, 0, 0},
      {ApiKey::kDescribeCluster, 0, 1},
  };
  return kServed;
}

FrontEnd::Impl::Impl(const FrontEndOptions& options, replication::Broker* broker,
                     RandomStream random)
    : options_(options), broker_(*broker), groups_(options.groups, random) {}

void FrontEnd::Impl::Begin(Instant now, FrontEndOutput* output,
                           replication::BrokerOutput* broker_output) {
  LS_CHECK_GE(now, now_);
  now_ = now;
  output_ = output;
  broker_output_ = broker_output;
}

void FrontEnd::Impl::SetWallClock(Instant now, int64_t unix_ms) {
  unix_ms_at_zero_ = unix_ms - now.ns / 1'000'000;
  groups_.SetWallClock(now, unix_ms);
}

// ---- Connections -------------------------------------------------------------------------------

void FrontEnd::Impl::OnAccepted(ConnectionId id, const std::string& address, uint16_t) {
  if (connections_.size() >= options_.connections_max) {
    output_->events.push_back({.kind = EventKind::kConnectionRefused,
                               .detail = id.value,
                               .reason = "too many clients (max.connections)"});
    output_->closes.push_back(id);
    return;
  }
  // One that has not read the cluster's state yet would tell of a cluster without topics.
  if (!broker_.metadata().complete()) {
    output_->events.push_back({.kind = EventKind::kConnectionRefused,
                               .detail = id.value,
                               .reason = "the cluster's state has not been read yet"});
    output_->closes.push_back(id);
    return;
  }
  auto [at, added] = connections_.emplace(id, Connection(options_.request_bytes_max));
  LS_CHECK(added);
  at->second.address = address;
  at->second.active = now_;
  at->second.taken = now_;
  if (connections_.size() == 1) {
    idle_sweep_ = now_ + options_.connections_max_idle / kIdleSweepsPerTimeout;
  }
}

void FrontEnd::Impl::OnBytes(ConnectionId id, Bytes bytes) {
  auto found = connections_.find(id);
  if (found == connections_.end()) return;  // closed by us
  found->second.active = now_;
  bytes_received_ += bytes.size();
  Hold(found->second, bytes.size());
  found->second.cutter.Add(std::move(bytes));
  TakeFrames(id);
  if (held_bytes_ > options_.held_bytes_max) CloseHalfRequest();
}

void FrontEnd::Impl::TakeFrames(ConnectionId id) {
  // Looked up anew for each frame: answering one may close the connection.
  for (auto found = connections_.find(id); found != connections_.end();
       found = connections_.find(id)) {
    Connection& connection = found->second;
    UpdateReading(id, connection);
    if (MustWait(connection)) return;
    if (!connection.next) {
      absl::StatusOr<std::optional<Bytes>> frame = connection.cutter.Next();
      if (!frame.ok()) return Close(id, "a length that no request has");
      if (!*frame) return;
      connection.next = *std::move(frame);
    }
    // Of requests, only produces decompress; what others are about (heartbeats) does not wait.
    if (work_left_ == 0 && IsProduce(*connection.next)) {
      connection.waits_for_turn = true;
      next_turn_.push_back(id);
      continue;
    }
    const Bytes frame = *std::exchange(connection.next, std::nullopt);
    if (!OnFrame(id, frame)) return;
  }
}

void FrontEnd::Impl::NextTurn() {
  work_left_ = kTurnBytes;
  while (work_left_ > 0 && !next_turn_.empty()) {
    const auto next = std::move(next_turn_.front());
    next_turn_.pop_front();
    if (const auto* search = std::get_if<storage::LogSearchDone>(&next)) {
      TakeSearch(*search);
      continue;
    }
    const ConnectionId id = std::get<ConnectionId>(next);
    auto found = connections_.find(id);
    if (found == connections_.end()) continue;  // closed meanwhile
    found->second.waits_for_turn = false;
    TakeFrames(id);
  }
  StartSearches();
}

bool FrontEnd::Impl::MustWait(const Connection& connection) const {
  // One that waits goes on when half is free: reading is not switched on and off with every answer.
  const uint32_t share = connection.paused ? 2 : 1;
  return connection.waits_for_turn ||
         connection.slots.size() >= std::max(1u, options_.requests_max / share) ||
         connection.unsent > options_.unsent_bytes_max / share ||
         // One that has nothing under way would wait for nothing: see CloseHalfRequest.
         ((!connection.slots.empty() || connection.unsent > 0) && HoldsTooMuch(connection));
}

uint64_t FrontEnd::Impl::ShareBytes() const {
  return options_.held_bytes_max / std::max<uint64_t>(1, connections_.size());
}

bool FrontEnd::Impl::HoldsTooMuch(const Connection& connection) const {
  const uint32_t share = connection.paused ? 2 : 1;
  return held_bytes_ > options_.held_bytes_max / share && connection.held > ShareBytes() / share;
}

void FrontEnd::Impl::Hold(Connection& connection, uint64_t bytes) {
  connection.held += bytes;
  held_bytes_ += bytes;
}

void FrontEnd::Impl::Release(Connection& connection, uint64_t bytes) {
  LS_CHECK_LE(bytes, connection.held);
  const uint64_t before = held_bytes_;
  connection.held -= bytes;
  held_bytes_ -= bytes;
  const uint64_t enough = options_.held_bytes_max / 2;
  if (before > enough && held_bytes_ <= enough && !waiting_.empty()) resume_ = true;
}

void FrontEnd::Impl::SetSlotBytes(Connection& connection, Slot& slot, uint64_t bytes) {
  if (bytes > slot.bytes) {
    Hold(connection, bytes - slot.bytes);
  } else {
    Release(connection, slot.bytes - bytes);
  }
  slot.bytes = bytes;
}

// What waits for an answer, or to be sent, gives its memory back by itself. Half a request does
// not, and its other half would take more.
void FrontEnd::Impl::CloseHalfRequest() {
  const auto half = [](const Connection& c) {
    return c.slots.empty() && c.unsent == 0 && !c.waits_for_turn;
  };
  auto largest = connections_.end();
  for (auto it = connections_.begin(); it != connections_.end(); ++it) {
    if (!half(it->second) || it->second.held <= ShareBytes()) continue;
    if (largest == connections_.end() || it->second.held > largest->second.held) largest = it;
  }
  if (largest != connections_.end()) {
    Close(largest->first, "the largest unfinished request, while memory is short");
  }
}

void FrontEnd::Impl::UpdateReading(ConnectionId id, Connection& connection) {
  const bool wait = MustWait(connection);
  if (wait == connection.paused) return;
  connection.paused = wait;
  if (wait) {
    waiting_.insert(id);
    output_->pauses.push_back(id);
    output_->events.push_back({.kind = EventKind::kBackpressure, .detail = id.value});
  } else {
    waiting_.erase(id);
    output_->resumes.push_back(id);
  }
}

bool FrontEnd::Impl::OnFrame(ConnectionId id, const Bytes& frame) {
  Reader reader(frame);
  RequestHeader header;
  if (absl::Status status = Decode(&reader, &header); !status.ok()) {
    Close(id, "no request, or one of an unknown kind");
    return false;
  }
  const auto served =
      std::lower_bound(ServedApis().begin(), ServedApis().end(), header.api_key,
                       [](const ServedApi& api, ApiKey key) { return api.key < key; });
  const bool known = served != ServedApis().end() && served->key == header.api_key;
  const bool supported = known && header.api_version >= served->version_min &&
                         header.api_version <= served->version_max;
  // A client that asks what we can speak must get an answer that it can read (KIP-511); with every
  // other request it knows already, and nothing that we could say would fit.
  if (!supported && header.api_key != ApiKey::kApiVersions) {
    Close(id, "a request, or a version of one, that is not offered");
    return false;
  }
  const CallId call = ++last_call_;
  calls_[call] = {.connection = id,
                  .api = header.api_key,
                  .version = supported ? header.api_version : int16_t{0},
                  .correlation_id = header.correlation_id,
                  .client_id = std::move(header.client_id).value_or("")};
  Connection& connection = connections_.at(id);
  connection.slots.push_back({.call = call, .bytes = 0, .done = false, .response = {}});
  // So much was buffered for it, with its length.
  connection.slots.back().bytes = frame.size() + sizeof(int32_t);
  if (!supported) {
    ApiVersionsResponse response;
    response.error_code = ErrorCode::kUnsupportedVersion;
    for (const ServedApi& api : ServedApis()) {
      if (api.key == ApiKey::kApiVersions) {
        response.api_keys.push_back(
            {static_cast<int16_t>(api.key), api.version_min, api.version_max});
      }
    }
    Reply(call, response);
  } else {
    Dispatch(call, &reader);
  }
  return connections_.contains(id);
}

template <typename Request>
void FrontEnd::Impl::Take(CallId call, Reader* reader, void (Impl::*handler)(CallId, Request&&)) {
  const Call* c = FindCall(call);
  Request request;
  if (absl::Status status = Decode(reader, c->version, &request); !status.ok()) {
    return Close(c->connection, "a request that cannot be read");
  }
  // What is kept of a frame would keep them, too, and nobody counts them.
  if (reader->remaining() > kTrailingBytesMax) {
    return Close(c->connection, "a request with something else behind it");
  }
  (this->*handler)(call, std::move(request));
}

void FrontEnd::Impl::Dispatch(CallId call, Reader* reader) {
  switch (FindCall(call)->api) {
    case ApiKey::kProduce:
      return Take<ProduceRequest>(call, reader, &Impl::Handle);
    case ApiKey::kFetch:
      return Take<FetchRequest>(call, reader, &Impl::Handle);
    case ApiKey::kListOffsets:
      return Take<ListOffsetsRequest>(call, reader, &Impl::Handle);
    case ApiKey::kOffsetForLeaderEpoch:
      return Take<OffsetForLeaderEpochRequest>(call, reader, &Impl::Handle);
    case ApiKey::kDeleteRecords:
      return Take<DeleteRecordsRequest>(call, reader, &Impl::Handle);
    case ApiKey::kDescribeLogDirs:
      return Take<DescribeLogDirsRequest>(call, reader, &Impl::Handle);
    case ApiKey::kApiVersions:
      return Take<ApiVersionsRequest>(call, reader, &Impl::Handle);
    case ApiKey::kMetadata:
      return Take<MetadataRequest>(call, reader, &Impl::Handle);
    case ApiKey::kDescribeCluster:
      return Take<DescribeClusterRequest>(call, reader, &Impl::Handle);
    case ApiKey::kFindCoordinator:
      return Take<FindCoordinatorRequest>(call, reader, &Impl::Handle);
    case ApiKey::kInitProducerId:
      return Take<InitProducerIdRequest>(call, reader, &Impl::Handle);
    case ApiKey::kCreateTopics:
      return Take<CreateTopicsRequest>(call, reader, &Impl::Handle);
    case ApiKey::kDeleteTopics:
      return Take<DeleteTopicsRequest>(call, reader, &Impl::Handle);
    case ApiKey::kCreatePartitions:
      return Take<CreatePartitionsRequest>(call, reader, &Impl::Handle);
    case ApiKey::kDescribeConfigs:
      return Take<DescribeConfigsRequest>(call, reader, &Impl::Handle);
    case ApiKey::kAlterConfigs:
      return Take<AlterConfigsRequest>(call, reader, &Impl::Handle);
    case ApiKey::kIncrementalAlterConfigs:
      return Take<IncrementalAlterConfigsRequest>(call, reader, &Impl::Handle);
    case ApiKey::kElectLeaders:
      return Take<ElectLeadersRequest>(call, reader, &Impl::Handle);
    case ApiKey::kAlterPartitionReassignments:
      return Take<AlterPartitionReassignmentsRequest>(call, reader, &Impl::Handle);
    case ApiKey::kListPartitionReassignments:
      return Take<ListPartitionReassignmentsRequest>(call, reader, &Impl::Handle);
    case ApiKey::kJoinGroup:
      return Take<JoinGroupRequest>(call, reader, &Impl::HandleGroup);
    case ApiKey::kSyncGroup:
      return Take<SyncGroupRequest>(call, reader, &Impl::HandleGroup);
    case ApiKey::kHeartbeat:
      return Take<HeartbeatRequest>(call, reader, &Impl::HandleGroup);
    case ApiKey::kLeaveGroup:
      return Take<LeaveGroupRequest>(call, reader, &Impl::HandleGroup);
    case ApiKey::kOffsetCommit:
      return Take<OffsetCommitRequest>(call, reader, &Impl::HandleGroup);
    case ApiKey::kOffsetFetch:
      return Take<OffsetFetchRequest>(call, reader, &Impl::HandleGroup);
    case ApiKey::kDescribeGroups:
      return Take<DescribeGroupsRequest>(call, reader, &Impl::HandleGroup);
    case ApiKey::kListGroups:
      return Take<ListGroupsRequest>(call, reader, &Impl::HandleGroup);
    case ApiKey::kDeleteGroups:
      return Take<DeleteGroupsRequest>(call, reader, &Impl::HandleGroup);
    case ApiKey::kOffsetDelete:
      return Take<OffsetDeleteRequest>(call, reader, &Impl::HandleGroup);
    default:
      LS_UNREACHABLE();  // ServedApis() names no other
  }
}

void FrontEnd::Impl::Close(ConnectionId id, const char* reason) {
  output_->events.push_back(
      {.kind = EventKind::kConnectionClosed, .detail = id.value, .reason = reason});
  output_->closes.push_back(id);
  Forget(id);
}

void FrontEnd::Impl::OnClosed(ConnectionId id) {
  if (connections_.contains(id)) Forget(id);
}

void FrontEnd::Impl::Forget(ConnectionId id) {
  auto found = connections_.find(id);
  LS_CHECK(found != connections_.end());
  Release(found->second, found->second.held);
  for (const Slot& slot : found->second.slots) {
    if (slot.done) continue;
    calls_.erase(slot.call);
    // What waits for time or for others is told; what waits for the broker ends by itself, and
    // finds nobody to answer.
    if (auto fetch = fetches_.find(slot.call); fetch != fetches_.end()) {
      Unpark(slot.call, fetch->second);
      fetch_deadlines_.erase({fetch->second.deadline, slot.call});
      fetches_.erase(fetch);
    }
    list_offsets_.erase(slot.call);
    groups_.OnRequestGone({slot.call});
    refused_commits_.erase(slot.call);
  }
  waiting_.erase(id);
  connections_.erase(found);
  // The shares of the others are larger now.
  if (!waiting_.empty() && !resume_) resume_ = held_bytes_ > options_.held_bytes_max / 2;
}

void FrontEnd::Impl::OnWritten(ConnectionId id, uint64_t bytes) {
  auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  const uint64_t taken = std::min(connection.unsent, bytes);
  connection.unsent -= taken;
  connection.taken = now_;
  Release(connection, taken);
  // A fetch may have waited for it.
  if (!connection.slots.empty()) OnTurn(connection.slots.front().call);
  if (waiting_.contains(id)) TakeFrames(id);
}

void FrontEnd::Impl::CloseIdle() {
  std::vector<ConnectionId> idle;
  for (const auto& [id, connection] : connections_) {
    const Instant since = connection.unsent > 0 ? connection.taken : connection.active;
    const bool waits = connection.unsent == 0 && !connection.slots.empty();
    if (!waits && since + options_.connections_max_idle <= now_) idle.push_back(id);
  }
  for (ConnectionId id : idle)
    Close(id, "nothing said, or taken, for long (connections.max.idle.ms)");
  idle_sweep_ = now_ + options_.connections_max_idle / kIdleSweepsPerTimeout;
}

// ---- Answers -----------------------------------------------------------------------------------

const FrontEnd::Impl::Call* FrontEnd::Impl::FindCall(CallId call) const {
  auto found = calls_.find(call);
  return found == calls_.end() ? nullptr : &found->second;
}

bool FrontEnd::Impl::IsFirst(CallId call) const {
  const Call* c = FindCall(call);
  return c != nullptr && connections_.at(c->connection).slots.front().call == call;
}

void FrontEnd::Impl::FinishCall(CallId call, std::vector<Bytes> response) {
  auto found = calls_.find(call);
  if (found == calls_.end()) return;
  const ConnectionId id = found->second.connection;
  calls_.erase(found);
  uint64_t bytes = 0;
  for (const Bytes& slice : response) bytes += slice.size();
  Connection& connection = connections_.at(id);
  for (Slot& slot : connection.slots) {
    if (slot.call != call) continue;
    slot.done = true;
    SetSlotBytes(connection, slot, bytes);
    slot.response = std::move(response);
    break;
  }
  SendDone(id);
}

void FrontEnd::Impl::SendDone(ConnectionId id) {
  Connection& connection = connections_.at(id);
  bool sent = false;
  while (!connection.slots.empty() && connection.slots.front().done) {
    Slot& slot = connection.slots.front();
    // What it holds is held as unsent from here on.
    if (connection.unsent == 0) connection.taken = now_;
    for (Bytes& slice : slot.response) {
      connection.unsent += slice.size();
      bytes_sent_ += slice.size();
      output_->sends.push_back({id, std::move(slice)});
    }
    connection.slots.pop_front();
    sent = true;
  }
  if (!sent) return;
  // The next one may have waited for its turn, and what comes after it for room.
  if (!connection.slots.empty()) OnTurn(connection.slots.front().call);
  if (waiting_.contains(id)) TakeFrames(id);
}

void FrontEnd::Impl::OnTurn(CallId call) {
  const Call* c = FindCall(call);
  if (c == nullptr || !fetches_.contains(call)) return;
  // Its answer would wait in memory behind those that the client does not take.
  if (connections_.at(c->connection).unsent > options_.unsent_bytes_max) return;
  StartFetch(call);
}

// ---- Time, and what the broker has done --------------------------------------------------------

void FrontEnd::Impl::OnBroker(const replication::BrokerOutput& what) {
  for (const auto& event : what.log_events) {
    std::visit([this](const auto& e) { On(e); }, event);
  }
  for (const auto& done : what.produces_done) OnProduceDone(done.partition, done.done);
  for (const PartitionId& id : what.high_watermarks_moved) OnHighWatermark(id);
  for (const auto& done : what.admin_done) OnAdminDone(done);
  if (what.producer_ids) AnswerProducerIds();
  if (what.metadata_changed) {
    const replication::TopicState* topic = FindTopic(kOffsetsTopic);
    groups_.SetPartitions(topic == nullptr ? 0 : static_cast<int32_t>(topic->partitions.size()));
  }
  CarryGroups();
}

void FrontEnd::Impl::OnWake() {
  NextTurn();
  while (!fetch_deadlines_.empty() && fetch_deadlines_.begin()->first <= now_) {
    const CallId call = fetch_deadlines_.begin()->second;
    fetch_deadlines_.erase(fetch_deadlines_.begin());
    // One that is not parked ends by itself, and sees then that its time is over.
    WakeFetch(call);
  }
  ExpireDuplicates();
  if (groups_.next_deadline() <= now_) {
    groups_.OnWake(now_, &groups_out_);
    CarryGroups();
  }
  if (!connections_.empty() && idle_sweep_ <= now_) CloseIdle();
  if (producers_sweep_ <= now_) {
    for (auto& [id, hosted] : hosted_) hosted.producers.Expire(now_);
    producers_sweep_ = now_ + kProducersSweepInterval;
  }
  // Memory that others held may be free now.
  resume_ = false;
  const std::set<ConnectionId> waiting = waiting_;
  for (ConnectionId id : waiting) TakeFrames(id);
}

Instant FrontEnd::Impl::next_deadline() const {
  Instant next = std::min(groups_.next_deadline(), producers_sweep_);
  if (!fetch_deadlines_.empty()) next = std::min(next, fetch_deadlines_.begin()->first);
  if (!duplicate_deadlines_.empty()) {
    next = std::min(next, duplicate_deadlines_.begin()->first);
  }
  if (!connections_.empty()) next = std::min(next, idle_sweep_);
  if (resume_ || !next_turn_.empty() || (work_left_ == 0 && !searching_.empty()))
    next = std::min(next, now_);
  return next;
}

// ---- The interface -----------------------------------------------------------------------------

FrontEnd::FrontEnd(const FrontEndOptions& options, replication::Broker* broker, RandomStream random)
    : impl_(std::make_unique<Impl>(options, broker, random)) {}
FrontEnd::~FrontEnd() = default;

void FrontEnd::SetWallClock(Instant now, int64_t unix_ms) { impl_->SetWallClock(now, unix_ms); }

void FrontEnd::OnAccepted(Instant now, ConnectionId connection, const std::string& address,
                          uint16_t port, FrontEndOutput* output) {
  impl_->Begin(now, output, nullptr);
  impl_->OnAccepted(connection, address, port);
}

void FrontEnd::OnBytes(Instant now, ConnectionId connection, Bytes bytes, FrontEndOutput* output,
                       replication::BrokerOutput* broker_output) {
  impl_->Begin(now, output, broker_output);
  impl_->OnBytes(connection, std::move(bytes));
}

void FrontEnd::OnClosed(Instant now, ConnectionId connection, FrontEndOutput* output,
                        replication::BrokerOutput* broker_output) {
  impl_->Begin(now, output, broker_output);
  impl_->OnClosed(connection);
}

bool FrontEnd::Has(ConnectionId connection) const { return impl_->Has(connection); }

void FrontEnd::OnWritten(Instant now, ConnectionId connection, uint64_t bytes,
                         FrontEndOutput* output, replication::BrokerOutput* broker_output) {
  impl_->Begin(now, output, broker_output);
  impl_->OnWritten(connection, bytes);
}

void FrontEnd::OnBroker(Instant now, const replication::BrokerOutput& what, FrontEndOutput* output,
                        replication::BrokerOutput* broker_output) {
  impl_->Begin(now, output, broker_output);
  impl_->OnBroker(what);
}

void FrontEnd::OnLogRead(Instant now, const storage::LogReadDone& done, FrontEndOutput* output,
                         replication::BrokerOutput* broker_output) {
  impl_->Begin(now, output, broker_output);
  impl_->OnLogRead(done);
}

void FrontEnd::OnLogSearch(Instant now, const storage::LogSearchDone& done, FrontEndOutput* output,
                           replication::BrokerOutput* broker_output) {
  impl_->Begin(now, output, broker_output);
  impl_->OnLogSearch(done);
}

void FrontEnd::OnLogSizes(Instant now, uint64_t id, const std::vector<uint64_t>& bytes,
                          FrontEndOutput* output, replication::BrokerOutput* broker_output) {
  impl_->Begin(now, output, broker_output);
  impl_->OnLogSizes(id, bytes);
}

void FrontEnd::OnLogRolled(Instant now, storage::LogNumber log, FrontEndOutput* output) {
  impl_->Begin(now, output, nullptr);
  impl_->OnLogRolled(log);
}

void FrontEnd::SnapshotProducers(Instant now, FrontEndOutput* output) {
  impl_->Begin(now, output, nullptr);
  impl_->SnapshotProducers();
}

void FrontEnd::OnWake(Instant now, FrontEndOutput* output,
                      replication::BrokerOutput* broker_output) {
  impl_->Begin(now, output, broker_output);
  impl_->OnWake();
}

Instant FrontEnd::next_deadline() const { return impl_->next_deadline(); }
FrontEnd::Figures FrontEnd::figures() const { return impl_->figures(); }

}  // namespace lockstep::kafka
