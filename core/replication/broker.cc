#include "core/replication/broker.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/replication/broker_impl.h"

namespace lockstep::replication {
namespace {

coordination::ClientOptions CoordinationOptions(coordination::ClientOptions options) {
  // Everything that is asked for is bounded here: reads by kReadsMax, writes by the partitions.
  options.requests_max = std::max(options.requests_max, uint32_t{1} << 20);
  return options;
}

BrokerOptions Complete(BrokerOptions options) {
  options.coordination = CoordinationOptions(options.coordination);
  return options;
}

}  // namespace

bool BrokerOutput::Empty() const {
  return log_ops.empty() && !cluster_id && segment_limits.empty() && reads.empty() &&
         high_watermarks.empty() && !checkpoint_high_watermarks && retentions.empty() &&
         coordination.dials.empty() && coordination.sends.empty() && coordination.closes.empty() &&
         dials.empty() && sends.empty() && closes.empty() && produces_done.empty() &&
         log_events.empty() && high_watermarks_moved.empty() && admin_done.empty() &&
         !metadata_changed && !producer_ids && events.empty();
}

void BrokerOutput::Clear() {
  log_ops.clear();
  cluster_id.reset();
  segment_limits.clear();
  reads.clear();
  high_watermarks.clear();
  checkpoint_high_watermarks = false;
  retentions.clear();
  coordination.Clear();
  dials.clear();
  sends.clear();
  closes.clear();
  produces_done.clear();
  log_events.clear();
  high_watermarks_moved.clear();
  admin_done.clear();
  metadata_changed = false;
  producer_ids = false;
  events.clear();
}

Broker::Impl::Impl(const BrokerOptions& options, RandomStream random)
    : options_(Complete(options)),
      random_(random),
      metadata_(options.broker),
      fetcher_({.broker = options.broker,
                .max_wait = options.fetch_max_wait,
                .max_bytes = options.fetch_max_bytes,
                .entry_max_bytes = options.fetch_entry_max_bytes,
                .throttle = options.reassignment_throttle},
               [this](const PartitionId& id) {
                 const auto at = hosted_.find(id);
                 if (at == hosted_.end() || at->second.machine == nullptr) return FetchState();
                 const Hosted& hosted = at->second;
                 const PartitionState& state = hosted.machine->state();
                 return FetchState{
                     .entry = hosted.machine->NextFetch(),
                     .busy = options_.rules.fetch_after_durable && hosted.undurable > 0,
                     .throttled = std::find(state.adding.begin(), state.adding.end(),
                                            options_.broker) != state.adding.end()};
               }),
      fetch_server_(this) {
  LS_CHECK(static_cast<bool>(options.broker));
  LS_CHECK_LT(options.session_margin_percent, 100u);
}

void Broker::Impl::Emit(BrokerOutput* output, EventKind kind, uint64_t detail, const char* reason,
                        BrokerId peer, std::string of) {
  output->events.push_back({.kind = kind,
                            .peer = {peer ? static_cast<uint32_t>(peer.value) : 0},
                            .detail = detail,
                            .reason = reason,
                            .text = std::move(of)});
}

// ---- The frame of every input ------------------------------------------------------------------

// A host that was paused comes back with any input: nothing is acknowledged before it is known that
// the session can still be alive (S3, S23).
void Broker::Impl::Begin(Instant now, BrokerOutput* output) { CheckLease(now, output); }

void Broker::Impl::End(Instant now, BrokerOutput* output) {
  Pump(now, output);
  TakeChanges(now, output);
  if (phase_ == Phase::kActive) TakeStateChanges(now, output);
  // Without a session, too: requests have deadlines, and one that nobody looked at would be due
  // again at once, for ever.
  TryAdmin(now, output);
  if (phase_ == Phase::kActive) FlushOutboxes(now, output);
  SendReads(now, output);
  CheckLease(now, output);
  Pump(now, output);
  fetcher_.Flush(now, output);
  fetch_server_.Flush(now, output);
}

void Broker::Impl::Start(Instant now, int64_t unix_ms, std::vector<storage::RecoveredLog> logs,
                         BrokerEpoch retained, BrokerOutput* output) {
  LS_CHECK(phase_ == Phase::kNew);
  SetWallClock(now, unix_ms);
  retained_ = retained;
  for (storage::RecoveredLog& log : logs) {
    const PartitionId id{log.topic_id, log.partition};
    recovered_.emplace(id, std::move(log));
  }
  timers_.Set(Timer::kCheckpoint, now + options_.high_watermark_checkpoint_interval);
  timers_.Set(Timer::kRetention, now + options_.retention_check_interval);
  timers_.Set(Timer::kRebalance, now + options_.leader_rebalance_interval);
  NewSession(now, output);
  End(now, output);
}

void Broker::Impl::Stop(Instant now, BrokerOutput* output) {
  if (phase_ == Phase::kStopping || phase_ == Phase::kStopped || phase_ == Phase::kNew) return;
  Begin(now, output);
  // The end of the session takes the registration and all leaderships away in one transaction, so
  // that successors are elected at once.
  ResignAll(now, output);
  FailAdmin(AdminError::kNotAvailable, "the broker is stopping", output);
  CheckpointAll(output);
  phase_ = Phase::kStopping;
  fetcher_.SetIncarnation({});
  timers_.StopAll();
  client_->Close(now, &client_output_);
  End(now, output);
}

void Broker::Impl::OnWake(Instant now, BrokerOutput* output) {
  Begin(now, output);
  if (client_ != nullptr && client_->next_deadline() <= now) client_->OnWake(now, &client_output_);
  Pump(now, output);
  // Each once: what is due again at once is the host's next call.
  std::vector<PartitionId> due;
  for (const auto& [at, id] : wakes_) {
    if (at > now) break;
    due.push_back(id);
  }
  for (const PartitionId& id : due) {
    Hosted* hosted = FindHosted(id);
    if (hosted == nullptr) continue;
    if (hosted->machine != nullptr && hosted->machine->next_deadline() <= now) {
      PartitionOutput from;
      hosted->machine->OnWake(now, &from);
      Drain(now, hosted, &from, output);
    }
    if (hosted->elect_at <= now) {
      hosted->elect_at = Instant::Never();
      to_consider_.insert(id);
    }
    Schedule(hosted);
  }
  if (timers_.Expired(Timer::kRegister, now) && phase_ == Phase::kRegistering) {
    Register(now, output);
  }
  if (timers_.Expired(Timer::kRebalance, now)) {
    timers_.Set(Timer::kRebalance, now + options_.leader_rebalance_interval);
    if (options_.auto_leader_rebalance) Rebalance(now, output);
  }
  if (timers_.Expired(Timer::kCheckpoint, now)) {
    timers_.Set(Timer::kCheckpoint, now + options_.high_watermark_checkpoint_interval);
    CheckpointAll(output);
  }
  if (timers_.Expired(Timer::kRetention, now)) {
    timers_.Set(Timer::kRetention, now + options_.retention_check_interval);
    Retain(now, output);
  }
  if (timers_.Expired(Timer::kHousekeeping, now)) RemoveTopics(now, output);
  End(now, output);
}

Instant Broker::Impl::next_deadline() const {
  Instant next =
      std::min({timers_.next(), fetcher_.next_deadline(), fetch_server_.next_deadline()});
  if (client_ != nullptr) next = std::min(next, client_->next_deadline());
  if (!wakes_.empty()) next = std::min(next, wakes_.begin()->first);
  if (leading_ && options_.rules.stop_acknowledging_before_session_expires) {
    next = std::min(next, lease_end());
  }
  for (const AdminOp& op : admin_) next = std::min(next, op.deadline);
  return next;
}

// ---- Storage -----------------------------------------------------------------------------------

storage::LogWriteId Broker::Impl::NextWrite(LogWrite write) {
  write.session = session_;
  writes_.push_back(std::move(write));
  return {writes_begin_ + writes_.size() - 1};
}

void Broker::Impl::OnLogPersisted(Instant now, storage::LogWriteId id, BrokerOutput* output) {
  Begin(now, output);
  LS_CHECK_LT(id.value, writes_begin_ + writes_.size());
  while (writes_begin_ <= id.value) {
    const LogWrite write = std::move(writes_.front());
    writes_.pop_front();
    ++writes_begin_;
    switch (write.kind) {
      case LogWrite::Kind::kCreate:
        break;
      case LogWrite::Kind::kChange: {
        Hosted* hosted = FindHosted(write.partition);
        if (hosted == nullptr || hosted->machine == nullptr) break;  // closed since
        LS_CHECK_GT(hosted->undurable, uint64_t{0});
        --hosted->undurable;
        PartitionOutput from;
        hosted->machine->OnPersisted(now, &from);
        Drain(now, hosted, &from, output);
        if (hosted->undurable == 0) fetcher_.Touch(write.partition);
        break;
      }
      case LogWrite::Kind::kDelete:
        deleting_.erase(write.name);
        for (const auto& [topic, partition] : std::exchange(blocked_, {})) {
          Consider(now, topic, partition, output);
        }
        break;
      case LogWrite::Kind::kBrokerEpoch:
        retained_ = write.epoch;
        if (write.session == session_ && phase_ == Phase::kRecording &&
            write.epoch == incarnation_) {
          Unfence(now, output);
        }
        break;
    }
  }
  End(now, output);
}

void Broker::Impl::OnLogRead(Instant now, storage::LogReadDone done, BrokerOutput* output) {
  Begin(now, output);
  fetch_server_.OnRead(now, std::move(done), output);
  End(now, output);
}

void Broker::Impl::CheckpointAll(BrokerOutput* output) {
  if (!hosted_.empty()) output->checkpoint_high_watermarks = true;
}

void Broker::Impl::Retain(Instant now, BrokerOutput* output) {
  const int64_t unix_ms = now.ns / 1'000'000 + wall_offset_ms_;
  for (const auto& [id, hosted] : hosted_) {
    if (hosted.machine == nullptr) continue;
    auto topic = metadata_.topics().find(hosted.topic);
    if (topic == metadata_.topics().end() || topic->second.id != id.topic) continue;
    const auto& configs = topic->second.configs;
    const int64_t ms = NumberOf(configs, "retention.ms").value_or(options_.retention_ms);
    const int64_t bytes = NumberOf(configs, "retention.bytes").value_or(options_.retention_bytes);
    if (ms < 0 && bytes < 0) continue;
    output->retentions.push_back({.log = hosted.log,
                                  .before_ms = ms < 0 ? -1 : std::max<int64_t>(0, unix_ms - ms),
                                  .bytes_max = bytes < 0 ? 0 : static_cast<uint64_t>(bytes),
                                  .high_watermark = hosted.machine->high_watermark()});
  }
}

void Broker::Impl::OnRetentionStart(Instant now, storage::LogNumber log, Offset start,
                                    BrokerOutput* output) {
  Begin(now, output);
  for (auto& [id, hosted] : hosted_) {
    if (hosted.log != log || hosted.machine == nullptr) continue;
    // The machine may have moved on since it was asked.
    if (start <= hosted.machine->log_start() || start > hosted.machine->high_watermark()) break;
    PartitionOutput from;
    hosted.machine->SetLogStart(now, start, &from);
    Drain(now, &hosted, &from, output);
    break;
  }
  End(now, output);
}

// ---- Other brokers -----------------------------------------------------------------------------

void Broker::Impl::OnBrokerConnected(Instant now, ConnectionId connection, BrokerOutput* output) {
  Begin(now, output);
  fetcher_.OnConnected(now, connection);
  End(now, output);
}

void Broker::Impl::OnBrokerClosed(Instant now, ConnectionId connection, BrokerOutput* output) {
  Begin(now, output);
  if (fetcher_.owns(connection)) {
    fetcher_.OnClosed(now, connection);
  } else {
    fetch_server_.OnClosed(now, connection);
  }
  End(now, output);
}

void Broker::Impl::OnBrokerMessage(Instant now, ConnectionId connection, Message message,
                                   BrokerOutput* output) {
  Begin(now, output);
  if (auto* request = std::get_if<ReplicaFetchRequest>(&message)) {
    if (fetcher_.owns(connection)) {
      Emit(output, EventKind::kIgnored, 0, "a fetch on a connection that we dialed");
    } else {
      fetch_server_.OnRequest(now, connection, std::move(*request), output);
    }
  } else {
    const auto& response = std::get<ReplicaFetchResponse>(message);
    const std::optional<BrokerId> leader = fetcher_.OnResponse(now, connection, response, output);
    if (leader.has_value()) {
      for (const ReplicaFetchResponse::Entry& entry : response.entries) {
        Hosted* hosted = FindHosted(entry.partition);
        if (hosted == nullptr || hosted->machine == nullptr) continue;
        PartitionOutput from;
        hosted->machine->OnFetchResponse(now, *leader, entry, &from);
        Drain(now, hosted, &from, output);
      }
    }
  }
  End(now, output);
}

const Partition* Broker::Impl::Find(const PartitionId& partition) const {
  auto at = hosted_.find(partition);
  return at == hosted_.end() ? nullptr : at->second.machine.get();
}

storage::LogNumber Broker::Impl::LogOf(const PartitionId& partition) const {
  auto at = hosted_.find(partition);
  return at == hosted_.end() ? storage::LogNumber() : at->second.log;
}

Partition::FetchDecision Broker::Impl::OnFetch(Instant now, const ReplicaFetchRequest& request,
                                               const ReplicaFetchRequest::Entry& entry,
                                               BrokerOutput* output) {
  Hosted* hosted = FindHosted(entry.partition);
  PartitionOutput from;
  Partition::FetchDecision decision =
      hosted->machine->OnFetch(now, request.follower, request.incarnation,
                               registered(request.follower) == request.incarnation, entry, &from);
  Drain(now, hosted, &from, output);
  return decision;
}

void Broker::Impl::OnFetchAnswered(Instant now, BrokerId follower, const PartitionId& partition) {
  if (Hosted* hosted = FindHosted(partition); hosted != nullptr && hosted->machine != nullptr) {
    hosted->machine->OnFetchAnswered(now, follower);
    Schedule(hosted);
  }
}

// ---- The layer above ---------------------------------------------------------------------------

bool Broker::Impl::Produce(Instant now, const PartitionId& partition, ProduceId id, Acks acks,
                           Instant deadline, std::vector<Bytes> batch, int32_t records,
                           BrokerOutput* output) {
  Begin(now, output);
  bool appended = false;
  Hosted* hosted = FindHosted(partition);
  if (hosted == nullptr || hosted->machine == nullptr || !may_lead(now)) {
    output->produces_done.push_back({partition, {id, ProduceError::kNotLeader, -1}});
  } else {
    PartitionOutput from;
    appended = hosted->machine->Produce(now, id, acks, deadline, std::move(batch), records, &from);
    Drain(now, hosted, &from, output);
  }
  End(now, output);
  return appended;
}

bool Broker::Impl::DeleteRecords(Instant now, const PartitionId& partition, Offset before,
                                 BrokerOutput* output) {
  Begin(now, output);
  bool done = false;
  Hosted* hosted = FindHosted(partition);
  if (hosted != nullptr && hosted->machine != nullptr && hosted->machine->role() == Role::kLeader &&
      may_lead(now) && before <= hosted->machine->high_watermark()) {
    if (before > hosted->machine->log_start()) {
      PartitionOutput from;
      hosted->machine->SetLogStart(now, before, &from);
      Drain(now, hosted, &from, output);
    }
    done = true;
  }
  End(now, output);
  return done;
}

std::optional<int64_t> Broker::Impl::TakeProducerId(Instant now, BrokerOutput* output) {
  if (producer_id_ < producer_ids_end_) return producer_id_++;
  Begin(now, output);
  ReadProducerIds(now, output);
  End(now, output);
  return std::nullopt;
}

BrokerFigures Broker::Impl::Figures(Instant now) const {
  BrokerFigures figures;
  figures.registered = incarnation_ != BrokerEpoch();
  figures.fenced = !may_lead(now);
  figures.brokers = metadata_.brokers().size();
  for (const auto& [id, hosted] : hosted_) {
    if (hosted.machine == nullptr || hosted.closing) continue;
    figures.logs.push_back(hosted.log);
    figures.damaged += hosted.damaged;
    if (hosted.machine->role() != Role::kLeader) continue;
    const PartitionState& state = hosted.machine->state();
    ++figures.led;
    figures.under_replicated += state.isr.size() + state.adding.size() < state.replicas.size();
    figures.under_min_isr += state.isr.size() < MinInsyncReplicas(hosted.topic);
  }
  for (const auto& [name, topic] : metadata_.topics()) {
    if (topic.deleting) continue;
    for (const PartitionState& state : topic.partitions) figures.offline += !state.leader;
  }
  return figures;
}

// ---- Broker ------------------------------------------------------------------------------------

Broker::Broker(const BrokerOptions& options, RandomStream random)
    : impl_(std::make_unique<Impl>(options, random)) {}
Broker::~Broker() = default;

void Broker::Start(Instant now, int64_t unix_ms, std::vector<storage::RecoveredLog> logs,
                   BrokerEpoch retained, BrokerOutput* output) {
  impl_->Start(now, unix_ms, std::move(logs), retained, output);
}
void Broker::SetWallClock(Instant now, int64_t unix_ms) { impl_->SetWallClock(now, unix_ms); }
void Broker::Stop(Instant now, BrokerOutput* output) { impl_->Stop(now, output); }
bool Broker::stopped() const { return impl_->stopped(); }
void Broker::OnCoordinationConnected(Instant now, uint64_t connection, BrokerOutput* output) {
  impl_->OnCoordinationConnected(now, connection, output);
}
void Broker::OnCoordinationBytes(Instant now, uint64_t connection, Bytes bytes,
                                 BrokerOutput* output) {
  impl_->OnCoordinationBytes(now, connection, std::move(bytes), output);
}
void Broker::OnCoordinationDisconnected(Instant now, uint64_t connection, BrokerOutput* output) {
  impl_->OnCoordinationDisconnected(now, connection, output);
}
void Broker::OnBrokerConnected(Instant now, ConnectionId connection, BrokerOutput* output) {
  impl_->OnBrokerConnected(now, connection, output);
}
void Broker::OnBrokerClosed(Instant now, ConnectionId connection, BrokerOutput* output) {
  impl_->OnBrokerClosed(now, connection, output);
}
void Broker::OnBrokerMessage(Instant now, ConnectionId connection, Message message,
                             BrokerOutput* output) {
  impl_->OnBrokerMessage(now, connection, std::move(message), output);
}
void Broker::OnLogCreated(Instant now, storage::LogWriteId id, storage::LogNumber log,
                          BrokerOutput* output) {
  impl_->OnLogCreated(now, id, log, output);
}
void Broker::OnLogPersisted(Instant now, storage::LogWriteId id, BrokerOutput* output) {
  impl_->OnLogPersisted(now, id, output);
}
void Broker::OnLogDamaged(Instant now, storage::LogNumber log, BrokerOutput* output) {
  impl_->OnLogDamaged(now, log, output);
}
void Broker::OnLogRead(Instant now, storage::LogReadDone done, BrokerOutput* output) {
  impl_->OnLogRead(now, std::move(done), output);
}
void Broker::OnRetentionStart(Instant now, storage::LogNumber log, Offset start,
                              BrokerOutput* output) {
  impl_->OnRetentionStart(now, log, start, output);
}
const Partition* Broker::FindPartition(const PartitionId& id) const {
  return impl_->FindPartition(id);
}
storage::LogNumber Broker::LogOf(const PartitionId& id) const { return impl_->LogOf(id); }
const Metadata& Broker::metadata() const { return impl_->metadata(); }
const BrokerOptions& Broker::options() const { return impl_->options(); }
bool Broker::may_lead(Instant now) const { return impl_->may_lead(now); }
BrokerFigures Broker::Figures(Instant now) const { return impl_->Figures(now); }
bool Broker::Produce(Instant now, const PartitionId& partition, ProduceId id, Acks acks,
                     Instant deadline, std::vector<Bytes> batch, int32_t records,
                     BrokerOutput* output) {
  return impl_->Produce(now, partition, id, acks, deadline, std::move(batch), records, output);
}
bool Broker::DeleteRecords(Instant now, const PartitionId& partition, Offset before,
                           BrokerOutput* output) {
  return impl_->DeleteRecords(now, partition, before, output);
}
void Broker::Admin(Instant now, AdminId id, AdminRequest request, Instant deadline,
                   BrokerOutput* output) {
  impl_->Admin(now, id, std::move(request), deadline, output);
}
std::optional<int64_t> Broker::TakeProducerId(Instant now, BrokerOutput* output) {
  return impl_->TakeProducerId(now, output);
}
void Broker::OnWake(Instant now, BrokerOutput* output) { impl_->OnWake(now, output); }
Instant Broker::next_deadline() const { return impl_->next_deadline(); }

}  // namespace lockstep::replication
