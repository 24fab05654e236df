#include "core/server/broker_role.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/server/foreign_protocol.h"
#include "core/wire/replication_codec.h"

namespace lockstep::server {
namespace {

// Dialed connections of this role, among those of the server: Zab and links.cc use ids without
// these bits.
constexpr uint64_t kCoordinationDial = uint64_t{1} << 61;
constexpr uint64_t kBrokerDial = uint64_t{1} << 60;

ConnectionId CoordinationId(uint64_t connection) { return {kCoordinationDial | connection}; }
bool IsCoordination(ConnectionId id) {
  return !id.accepted() && (id.value & kCoordinationDial) != 0;
}
uint64_t CoordinationNumber(ConnectionId id) { return id.value & ~kCoordinationDial; }

// The broker numbers the connections that it dials from 1; those it accepts keep their ids.
ConnectionId ToHost(ConnectionId id) {
  return id.accepted() ? id : ConnectionId{kBrokerDial | id.value};
}
ConnectionId ToBroker(ConnectionId id) {
  return id.accepted() ? id : ConnectionId{id.value & ~kBrokerDial};
}

// The first byte that a broker says, of wire::kMagic in little-endian. A client of Kafka's protocol
// begins with a length, in which this would be above a gigabyte.
constexpr char kBrokerFirstByte = static_cast<char>(wire::kMagic & 0xff);

}  // namespace

BrokerRole::BrokerRole(const BrokerRoleOptions& options, storage::Store* store,
                       RandomStream broker_random, RandomStream front_end_random)
    : options_(options),
      store_(store),
      broker_(options.broker, broker_random),
      front_end_(options.front_end, &broker_, front_end_random) {
  LS_CHECK_LT(options.front_end.request_bytes_max, uint32_t{wire::kMagic & 0xff} << 24);
}

void BrokerRole::Start(Instant now, int64_t unix_ms, std::vector<storage::RecoveredLog> logs,
                       int64_t retained_epoch) {
  started_ = true;
  if (options_.observe_logs) ObserveRecovered(logs);
  front_end_.SetWallClock(now, unix_ms);
  broker_.Start(now, unix_ms, std::move(logs), {retained_epoch}, &broker_out_);
}

void BrokerRole::ObserveRecovered(const std::vector<storage::RecoveredLog>& logs) {
  for (const storage::RecoveredLog& log : logs) {
    logs_seen_.push_back(LogRecovered{
        log.log, log.topic, {log.topic_id, log.partition}, log.start, log.end, log.epochs});
  }
}

void BrokerRole::SetWallClock(Instant now, int64_t unix_ms) {
  broker_.SetWallClock(now, unix_ms);
  front_end_.SetWallClock(now, unix_ms);
}

void BrokerRole::Stop(Instant now) {
  if (stopping_ != Stopping::kNo) return;
  stopping_ = Stopping::kBroker;
  if (!started_) {
    stopped_ = true;
    return;
  }
  broker_.Stop(now, &broker_out_);
}

// ---- Connections -------------------------------------------------------------------------------

bool BrokerRole::Has(ConnectionId connection) const {
  if (IsCoordination(connection)) return true;
  if (links_.contains(connection) || undecided_.contains(connection)) return true;
  return front_end_.Has(connection);
}

void BrokerRole::OnAccepted(Instant now, const Accepted& accepted, Output* output) {
  if (!started_ || stopping_ != Stopping::kNo) {
    output->closes.push_back(accepted.connection);
    return;
  }
  if (undecided_.size() >= options_.undecided_max) {
    // The one that has said nothing for longest is the likeliest to go on so.
    output->events.push_back({.kind = EventKind::kConnectionRefused,
                              .detail = undecided_.begin()->first.value,
                              .reason = "too many connections that say nothing"});
    output->closes.push_back(undecided_.begin()->first);
    undecided_.erase(undecided_.begin());
  }
  undecided_[accepted.connection] = {.address = accepted.address,
                                     .port = accepted.port,
                                     .until = now + options_.undecided_timeout};
}

void BrokerRole::OnConnected(Instant now, ConnectionId connection) {
  if (IsCoordination(connection)) {
    return broker_.OnCoordinationConnected(now, CoordinationNumber(connection), &broker_out_);
  }
  if (!links_.contains(connection)) return;  // closed by us while it was being opened
  broker_.OnBrokerConnected(now, ToBroker(connection), &broker_out_);
}

void BrokerRole::OnBytes(Instant now, ConnectionId connection, Bytes bytes, Output* output) {
  if (IsCoordination(connection)) {
    return broker_.OnCoordinationBytes(now, CoordinationNumber(connection), std::move(bytes),
                                       &broker_out_);
  }
  if (auto found = undecided_.find(connection); found != undecided_.end()) {
    if (bytes.empty()) return;
    const Undecided who = std::move(found->second);
    undecided_.erase(found);
    if (const char* foreign = ForeignToKafka(bytes.view())) {
      output->events.push_back({.kind = EventKind::kConnectionRefused,
                                .detail = connection.value,
                                .reason = foreign,
                                .text = who.address});
      return output->closes.push_back(connection);
    }
    if (bytes.data()[0] == kBrokerFirstByte) {
      links_.emplace(connection, Link(options_.frame_bytes_max));
    } else {
      front_end_.OnAccepted(now, connection, who.address, who.port, &front_end_out_);
      if (!front_end_.Has(connection)) return;  // refused
    }
  }
  if (links_.contains(connection)) return OnLinkBytes(now, connection, std::move(bytes), output);
  front_end_.OnBytes(now, connection, std::move(bytes), &front_end_out_, &broker_out_);
}

void BrokerRole::OnLinkBytes(Instant now, ConnectionId connection, Bytes bytes, Output* output) {
  links_.at(connection).reader.Add(std::move(bytes));
  // Looked up anew for each frame: handling one may close the connection.
  for (auto link = links_.find(connection); link != links_.end(); link = links_.find(connection)) {
    absl::StatusOr<std::optional<wire::Frame>> frame = link->second.reader.Next();
    if (!frame.ok()) return CloseLink(now, connection, "bytes that are no frame", output);
    if (!*frame) return;
    absl::StatusOr<replication::Message> message = wire::DecodeReplicationMessage(**frame);
    if (!message.ok()) return CloseLink(now, connection, "no message between brokers", output);
    broker_.OnBrokerMessage(now, ToBroker(connection), *std::move(message), &broker_out_);
  }
}

void BrokerRole::CloseLink(Instant now, ConnectionId connection, const char* reason,
                           Output* output) {
  links_.erase(connection);
  output->closes.push_back(connection);
  output->events.push_back(
      {.kind = EventKind::kConnectionClosed, .detail = connection.value, .reason = reason});
  broker_.OnBrokerClosed(now, ToBroker(connection), &broker_out_);
}

void BrokerRole::OnClosed(Instant now, ConnectionId connection) {
  if (IsCoordination(connection)) {
    return broker_.OnCoordinationDisconnected(now, CoordinationNumber(connection), &broker_out_);
  }
  if (undecided_.erase(connection) > 0) return;
  if (links_.erase(connection) > 0) {
    return broker_.OnBrokerClosed(now, ToBroker(connection), &broker_out_);
  }
  front_end_.OnClosed(now, connection, &front_end_out_, &broker_out_);
}

void BrokerRole::OnWritten(Instant now, ConnectionId connection, uint64_t bytes) {
  if (IsCoordination(connection) || links_.contains(connection)) return;
  front_end_.OnWritten(now, connection, bytes, &front_end_out_, &broker_out_);
}

// ---- The store ---------------------------------------------------------------------------------

void BrokerRole::OnStore(Instant now, const storage::StoreOutput& from) {
  if (from.log_persisted) {
    if (options_.observe_logs) logs_seen_.push_back(LogPersisted{*from.log_persisted});
    broker_.OnLogPersisted(now, *from.log_persisted, &broker_out_);
  }
  for (const storage::LogReadDone& done : from.log_reads) {
    if ((done.id.value & kafka::FrontEnd::kReadIds) != 0) {
      front_end_.OnLogRead(now, done, &front_end_out_, &broker_out_);
    } else {
      broker_.OnLogRead(now, done, &broker_out_);
    }
  }
  for (const storage::LogSearchDone& done : from.log_searches) {
    front_end_.OnLogSearch(now, done, &front_end_out_, &broker_out_);
  }
  for (storage::LogNumber log : from.logs_damaged) broker_.OnLogDamaged(now, log, &broker_out_);
  for (storage::LogNumber log : from.logs_rolled) front_end_.OnLogRolled(now, log, &front_end_out_);
  if (from.clean_shutdown_done) stopped_ = true;
}

// ---- Routing -----------------------------------------------------------------------------------

bool BrokerRole::Route(Instant now, Output* output, storage::StoreOutput* store_output) {
  if (!started_) return false;
  for (LogObservation& seen : logs_seen_) output->logs_seen.push_back(std::move(seen));
  logs_seen_.clear();
  bool any = stopping_ != Stopping::kNo && ContinueStop(now, store_output);
  // Taken out whole: what carrying it out brings about is appended to empty ones, behind it.
  if (!broker_out_.Empty()) {
    broker_routed_.Clear();
    std::swap(broker_routed_, broker_out_);
    RouteBroker(now, broker_routed_, output, store_output);
    any = true;
  }
  if (!front_end_out_.Empty()) {
    front_end_routed_.Clear();
    std::swap(front_end_routed_, front_end_out_);
    RouteFrontEnd(now, front_end_routed_, output, store_output);
    any = true;
  }
  return any;
}

void BrokerRole::RouteBroker(Instant now, replication::BrokerOutput& from, Output* output,
                             storage::StoreOutput* store_output) {
  if (from.cluster_id && !JoinCluster(*from.cluster_id, output, store_output)) return;
  RouteLogOps(now, from, store_output);
  for (const auto& dial : from.coordination.dials) {
    const replication::Endpoint& to = options_.coordination.at(dial.server);
    output->dials.push_back({.connection = CoordinationId(dial.connection),
                             .kind = LinkKind::kCoordination,
                             .host = to.host,
                             .port = to.port});
  }
  for (auto& send : from.coordination.sends) {
    output->sends.push_back({CoordinationId(send.connection), std::move(send.data)});
  }
  for (uint64_t connection : from.coordination.closes) {
    output->closes.push_back(CoordinationId(connection));
  }
  for (auto& dial : from.dials) {
    const ConnectionId connection = ToHost(dial.connection);
    links_.emplace(connection, Link(options_.frame_bytes_max));
    output->dials.push_back({.connection = connection,
                             .kind = LinkKind::kBroker,
                             .host = std::move(dial.endpoint.host),
                             .port = dial.endpoint.port});
  }
  for (const auto& send : from.sends) {
    const ConnectionId connection = ToHost(send.connection);
    if (!links_.contains(connection)) continue;  // the broker is being told
    wire::EncodeReplicationMessage(send.message, &slices_);
    for (Bytes& slice : slices_) output->sends.push_back({connection, std::move(slice)});
    slices_.clear();
  }
  for (ConnectionId id : from.closes) {
    const ConnectionId connection = ToHost(id);
    if (links_.erase(connection) > 0) output->closes.push_back(connection);
  }
  for (Event& event : from.events) output->events.push_back(event);
  front_end_.OnBroker(now, from, &front_end_out_, &broker_out_);
}

bool BrokerRole::JoinCluster(const std::string& id, Output* output,
                             storage::StoreOutput* store_output) {
  const std::string& known = store_->cluster_id();
  if (known == id) return true;
  if (known.empty()) {
    store_->SetClusterId(id, store_output);
    return true;
  }
  output->fatal = "log.dirs belongs to the cluster " + known +
                  ", but the coordination service of this broker (zookeeper.connect, or its own "
                  "ensemble) is of the cluster " +
                  id +
                  ": correct one of them, or begin with an empty log.dirs and dataLogDir. (Only if "
                  "this cluster was made anew on purpose, and nothing in log.dirs is wanted any "
                  "more: without cluster.id in its meta.properties the broker starts, and deletes "
                  "the partitions that the new cluster does not know)";
  return false;
}

void BrokerRole::RouteLogOps(Instant now, replication::BrokerOutput& from,
                             storage::StoreOutput* store_output) {
  struct Carry {
    BrokerRole* role;
    Instant now;
    storage::StoreOutput* out;
    void operator()(replication::BrokerOutput::CreateLog& op) {
      const storage::LogNumber log = role->store_->CreateLog(
          op.id, op.topic, op.partition.partition, op.partition.topic, /*start=*/0, out);
      if (role->options_.observe_logs) {
        role->logs_seen_.push_back(LogCreated{op.id, log, op.topic, op.partition});
      }
      role->broker_.OnLogCreated(now, op.id, log, &role->broker_out_);
    }
    void operator()(replication::BrokerOutput::ChangeLog& op) {
      if (role->options_.observe_logs) {
        role->logs_seen_.push_back(LogChanged{op.id, op.log, op.change});
      }
      role->store_->ChangeLog(op.id, op.log, std::move(op.change), out);
    }
    void operator()(replication::BrokerOutput::DeleteLog& op) {
      if (role->options_.observe_logs) role->logs_seen_.push_back(LogDeleted{op.id, op.log});
      role->store_->DeleteLog(op.id, op.log, out);
    }
    void operator()(replication::BrokerOutput::SetBrokerEpoch& op) {
      role->store_->SetBrokerEpoch(op.id, op.epoch, out);
    }
  };
  for (const auto& limits : from.segment_limits) {
    store_->SetSegmentLimits(limits.log, limits.bytes, limits.ms);
  }
  for (auto& op : from.log_ops) std::visit(Carry{this, now, store_output}, op);
  for (const auto& read : from.reads) {
    store_->ReadLog(read.id, read.log, read.offset, read.max_bytes, store_output);
  }
  for (const auto& retention : from.retentions) {
    const int64_t start = store_->RetentionStart(retention.log, retention.before_ms,
                                                 retention.bytes_max, retention.high_watermark);
    broker_.OnRetentionStart(now, retention.log, start, &broker_out_);
  }
  for (const auto& [log, offset] : from.high_watermarks) store_->SetHighWatermark(log, offset);
  if (from.checkpoint_high_watermarks) store_->CheckpointHighWatermarks(store_output);
}

void BrokerRole::RouteFrontEnd(Instant now, kafka::FrontEndOutput& from, Output* output,
                               storage::StoreOutput* store_output) {
  for (auto& send : from.sends) {
    output->sends.push_back({send.connection, std::move(send.data)});
  }
  for (ConnectionId connection : from.closes) output->closes.push_back(connection);
  for (ConnectionId connection : from.pauses) output->pauses.push_back(connection);
  for (ConnectionId connection : from.resumes) output->resumes.push_back(connection);
  for (const auto& read : from.reads) {
    store_->ReadLog(read.id, read.log, read.offset, read.max_bytes, store_output);
  }
  for (const auto& search : from.searches) {
    store_->SearchLog(search.id, search.log, search.timestamp_ms, store_output);
  }
  for (const auto& sizes : from.log_sizes) {
    std::vector<uint64_t> bytes;
    bytes.reserve(sizes.logs.size());
    for (storage::LogNumber log : sizes.logs) bytes.push_back(store_->LogBytes(log));
    front_end_.OnLogSizes(now, sizes.id, bytes, &front_end_out_, &broker_out_);
  }
  for (auto& snapshot : from.producer_snapshots) {
    store_->WriteProducerSnapshot(snapshot.log, snapshot.offset, std::move(snapshot.snapshot),
                                  store_output);
  }
  for (Event& event : from.events) output->events.push_back(event);
}

bool BrokerRole::ContinueStop(Instant now, storage::StoreOutput* store_output) {
  // Only when all that the broker wanted has been carried out: the marker says that nothing is
  // missing.
  if (stopping_ != Stopping::kBroker || !broker_.stopped() || !broker_out_.Empty()) return false;
  stopping_ = Stopping::kStore;
  kafka::FrontEndOutput snapshots;
  front_end_.SnapshotProducers(now, &snapshots);
  for (auto& snapshot : snapshots.producer_snapshots) {
    store_->WriteProducerSnapshot(snapshot.log, snapshot.offset, std::move(snapshot.snapshot),
                                  store_output);
  }
  store_->MarkCleanShutdown(store_output);
  return true;
}

// ---- Time --------------------------------------------------------------------------------------

void BrokerRole::OnWake(Instant now, Output* output) {
  // Ascending ids are in the order of acceptance, and so of deadlines.
  while (!undecided_.empty() && undecided_.begin()->second.until <= now) {
    output->closes.push_back(undecided_.begin()->first);
    undecided_.erase(undecided_.begin());
  }
  if (!started_) return;
  if (broker_.next_deadline() <= now) broker_.OnWake(now, &broker_out_);
  if (front_end_.next_deadline() <= now) front_end_.OnWake(now, &front_end_out_, &broker_out_);
}

Instant BrokerRole::next_deadline() const {
  const Instant undecided =
      undecided_.empty() ? Instant::Never() : undecided_.begin()->second.until;
  if (!started_) return undecided;
  return std::min({undecided, broker_.next_deadline(), front_end_.next_deadline()});
}

BrokerStatus BrokerRole::Status(Instant now) const {
  BrokerStatus status{.broker = options_.broker.broker,
                      .figures = broker_.Figures(now),
                      .clients = front_end_.figures()};
  for (storage::LogNumber log : status.figures.logs) status.log_bytes += store_->LogBytes(log);
  return status;
}

}  // namespace lockstep::server
