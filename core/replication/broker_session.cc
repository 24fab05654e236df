// The coordination service: the session, the registration in it, how long it may be trusted, and
// the reading of /brokers.

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/replication/broker_impl.h"
#include "core/replication/json.h"

namespace lockstep::replication {
namespace {

using coordination::ClientState;
using coordination::ErrorCode;
using coordination::OpCode;
using Completion = coordination::ClientOutput::Completion;

// Reads under way at one time: enough to fill the pipeline, and few enough that writes, which wait
// behind them, do not wait long.
constexpr size_t kReadsMax = 256;
constexpr Duration kRegisterRetry = Milliseconds(250);
// A restart of the service fills no log.
constexpr Duration kSayUnconnectedAfter = Seconds(5);
constexpr Duration kSayUnconnectedEvery = Seconds(60);

const std::vector<coordination::Acl>& OpenAcl() {
  static const std::vector<coordination::Acl> kOpen = {
      {.permissions = 31, .scheme = "world", .id = "anyone"}};
  return kOpen;
}

}  // namespace

// ---- Lease -------------------------------------------------------------------------------------

Instant Broker::Impl::lease_end() const {
  const Duration timeout = Milliseconds(client_->timeout_ms());
  return client_->heard_since() + timeout * (100 - options_.session_margin_percent) / 100;
}

bool Broker::Impl::may_lead(Instant now) const {
  if (phase_ != Phase::kActive || client_->state() == ClientState::kExpired) return false;
  return !options_.rules.stop_acknowledging_before_session_expires || now < lease_end();
}

void Broker::Impl::CheckLease(Instant now, BrokerOutput* output) {
  const bool leading = may_lead(now);
  if (leading == leading_) return;
  leading_ = leading;
  if (!leading) {
    // Whether or not the session is lost, others may think so from here on.
    if (phase_ == Phase::kActive) {
      Emit(output, EventKind::kBrokerFenced, session_,
           "no answer from the coordination service: clients are turned away until there is one");
    }
    return ResignAll(now, output);
  }
  for (const auto& [id, hosted] : hosted_) to_consider_.insert(id);
  TakeChanges(now, output);
}

BrokerEpoch Broker::Impl::registered(BrokerId broker) const {
  if (broker == options_.broker) return incarnation_;
  auto at = metadata_.brokers().find(broker);
  return at == metadata_.brokers().end() ? BrokerEpoch() : at->second.incarnation;
}

// ---- Session -----------------------------------------------------------------------------------

void Broker::Impl::NewSession(Instant now, BrokerOutput* output) {
  ++session_;
  phase_ = Phase::kConnecting;
  connection_base_ += std::exchange(connections_used_, 0);
  paths_created_ = false;
  client_ = std::make_unique<coordination::Client>(
      options_.coordination,
      RandomStream(random_.Next(), {}, session_, static_cast<uint64_t>(options_.broker.value)));
  client_->Start(now, &client_output_);
  Pump(now, output);
}

void Broker::Impl::OnCoordinationConnected(Instant now, uint64_t connection, BrokerOutput* output) {
  Begin(now, output);
  if (client_ != nullptr && connection > connection_base_) {
    client_->OnConnected(now, connection - connection_base_, &client_output_);
  }
  End(now, output);
}

void Broker::Impl::OnCoordinationBytes(Instant now, uint64_t connection, Bytes bytes,
                                       BrokerOutput* output) {
  Begin(now, output);
  if (client_ != nullptr && connection > connection_base_) {
    client_->OnBytes(now, connection - connection_base_, std::move(bytes), &client_output_);
  }
  End(now, output);
}

void Broker::Impl::OnCoordinationDisconnected(Instant now, uint64_t connection,
                                              BrokerOutput* output) {
  Begin(now, output);
  if (client_ != nullptr && connection > connection_base_) {
    client_->OnDisconnected(now, connection - connection_base_, &client_output_);
  }
  End(now, output);
}

void Broker::Impl::Pump(Instant now, BrokerOutput* output) {
  if (phase_ == Phase::kNew) return;
  while (true) {
    coordination::ClientOutput from = std::exchange(client_output_, {});
    if (!from.dials.empty()) SayUnconnected(now, output);
    for (const auto& dial : from.dials) {
      connections_used_ = std::max(connections_used_, dial.connection);
      output->coordination.dials.push_back({connection_base_ + dial.connection, dial.server});
    }
    for (auto& send : from.sends) {
      output->coordination.sends.push_back(
          {connection_base_ + send.connection, std::move(send.data)});
    }
    for (uint64_t connection : from.closes) {
      output->coordination.closes.push_back(connection_base_ + connection);
    }
    for (const auto& event : from.events) metadata_.OnWatch(event.type, event.path);
    for (const Completion& completion : from.completions) {
      auto at = calls_.find(completion.call);
      if (at == calls_.end()) continue;
      Reply reply = std::move(at->second);
      calls_.erase(at);
      // Of a session that is over nothing is waited for any more: OnSessionOver.
      if (completion.header.error == ErrorCode::kSessionExpired) continue;
      reply(now, completion, output);
    }
    for (ClientState state : from.states) OnState(now, state, output);
    if (client_output_.dials.empty() && client_output_.sends.empty() &&
        client_output_.closes.empty() && client_output_.completions.empty() &&
        client_output_.states.empty()) {
      return;
    }
  }
}

// Whoever answers the dials may be anything; only its answer to a session's request shows that it
// is the coordination service, and serves.
void Broker::Impl::SayUnconnected(Instant now, BrokerOutput* output) {
  if (unconnected_since_ == Instant::Never()) {
    unconnected_since_ = now;
    say_unconnected_at_ = now + kSayUnconnectedAfter;
  }
  if (now < say_unconnected_at_) return;
  say_unconnected_at_ = now + kSayUnconnectedEvery;
  const int64_t seconds = (now - unconnected_since_).Milliseconds() / 1'000;
  output->events.push_back(
      {.kind = EventKind::kNotServing,
       .detail = static_cast<uint64_t>(seconds),
       .text =
           "the broker has had no answer from the coordination service (zookeeper.connect) for " +
           std::to_string(seconds) + " s, and turns clients away while it has no session"});
}

void Broker::Impl::OnState(Instant now, ClientState state, BrokerOutput* output) {
  switch (state) {
    case ClientState::kConnecting:
      return;
    case ClientState::kConnected:
      unconnected_since_ = Instant::Never();
      if (phase_ == Phase::kStopping) return;
      if (phase_ == Phase::kConnecting) {
        phase_ = Phase::kRegistering;
        predecessor_ = {};
        return CreatePaths(now, output);
      }
      // Watches missed what happened in between. A request that was lost may be carried out by an
      // old connection until the leader has moved the session here, which it has; `sync` waits for
      // what was on its way before that.
      return ReadBrokers(now, output);
    case ClientState::kExpired:
      return OnSessionOver(now, output);
    case ClientState::kClosed:
      OnSessionOver(now, output);
      phase_ = Phase::kStopped;
      return;
  }
}

// Everything that this broker was, it was by its session. Another one makes it a new incarnation,
// which has its logs: nothing is lost in memory or on the disk.
void Broker::Impl::OnSessionOver(Instant now, BrokerOutput* output) {
  const bool stopping = phase_ == Phase::kStopping;
  if (incarnation_) {
    Emit(output, EventKind::kBrokerUnregistered, static_cast<uint64_t>(incarnation_.value));
  }
  phase_ = stopping ? Phase::kStopping : Phase::kConnecting;
  leading_ = false;
  incarnation_ = {};
  lineage_.clear();
  fetcher_.SetIncarnation({});
  calls_.clear();
  metadata_.Forget();
  ResignAll(now, output);
  for (auto& [id, hosted] : hosted_) {
    hosted.writing = Hosted::Writing::kNone;
    hosted.isr_change.reset();
    hosted.close_later.clear();
    hosted.vacant_since = hosted.elect_at = Instant::Never();
    Schedule(&hosted);
  }
  for (auto& [broker, outbox] : outboxes_) outbox = {};
  acting_.clear();
  removing_.clear();
  reading_producer_ids_ = false;
  timers_.Stop(Timer::kRegister);
  timers_.Stop(Timer::kHousekeeping);
  FailAdmin(AdminError::kNotAvailable, "the session with the coordination service is over", output);
  if (!stopping) NewSession(now, output);
}

bool Broker::Impl::IsRegistered() const {
  auto at = metadata_.brokers().find(options_.broker);
  return at != metadata_.brokers().end() && at->second.incarnation == incarnation_;
}

// Somebody has deleted our registration, or written one that is no registration. Every transition
// of ours checks it, so that none would ever succeed again.
void Broker::Impl::BeginAnew(Instant now, BrokerOutput* output) {
  client_->Close(now, &client_output_);
  Pump(now, output);
  if (phase_ == Phase::kActive) OnSessionOver(now, output);
}

void Broker::Impl::Call(Instant now, OpCode op, const coordination::RequestBody& body, Reply reply,
                        BrokerOutput* /*output*/) {
  const std::optional<uint64_t> call = client_->Call(now, op, body, &client_output_);
  // None: the session is over, and what waits for the answer is forgotten with it.
  if (call.has_value()) calls_[*call] = std::move(reply);
}

void Broker::Impl::Multi(Instant now, const Transition& transition, MultiReply reply,
                         BrokerOutput* output) {
  Call(
      now, OpCode::kMulti, transition.Request(),
      [reply = std::move(reply)](Instant then, const Completion& completion, BrokerOutput* out) {
        if (completion.header.error != ErrorCode::kOk) {
          return reply(then, completion.header.error, nullptr, out);
        }
        const auto& response = std::get<coordination::MultiResponse>(completion.body);
        reply(then, ErrorOf(response), &response, out);
      },
      output);
}

// ---- Registration ------------------------------------------------------------------------------

// Every session begins with this: a new ensemble has none of them, and for one that does each
// answer is `node exists`.
void Broker::Impl::CreatePaths(Instant now, BrokerOutput* output) {
  const uint64_t session = session_;
  auto create = [&](std::string_view path, const std::string& data, bool last) {
    Call(
        now, OpCode::kCreate,
        coordination::CreateRequest{
            .path = path, .data = {.bytes = Bytes::Copy(data)}, .acl = OpenAcl()},
        [this, session, last](Instant then, const Completion& completion, BrokerOutput* out) {
          if (!last || session != session_ || phase_ != Phase::kRegistering) return;
          const ErrorCode error = completion.header.error;
          paths_created_ = error == ErrorCode::kOk || error == ErrorCode::kNodeExists;
          if (!paths_created_) {
            timers_.Set(Timer::kRegister, then + kRegisterRetry);
            return;
          }
          Register(then, out);
        },
        output);
  };
  for (std::string_view path :
       {kBrokersPath, kBrokerIdsPath, kTopicsPath, kStatePath, kLineagePath, kReassignedPath}) {
    create(path, "", false);
  }
  create(kClusterPath, "", false);
  const uint64_t high = random_.Next();
  const uint64_t low = random_.Next();
  create(kClusterIdPath,
         Json(Json::Object{{"version", "1"}, {"id", Uuid{high, low}.ToString()}}).ToString(),
         false);
  create(kProducerIdBlockPath, "", false);
  create(StatePath(options_.broker), "", true);
}

BrokerRecord Broker::Impl::OwnRecord(bool fenced) const {
  return {.host = options_.advertised.host,
          .port = options_.advertised.port,
          .rack = options_.rack,
          .fenced = fenced};
}

// Registers before anything is led or followed (S2).
void Broker::Impl::Register(Instant now, BrokerOutput* output) {
  if (!paths_created_) return CreatePaths(now, output);
  const std::string path = BrokerPath(options_.broker);
  const std::string data = Encode(OwnRecord(true));
  Call(
      now, OpCode::kCreate2,
      coordination::CreateRequest{.path = path,
                                  .data = {.bytes = Bytes::Copy(data)},
                                  .acl = OpenAcl(),
                                  .flags = coordination::CreateRequest::kEphemeral},
      [this](Instant then, const Completion& completion, BrokerOutput* out) {
        if (phase_ != Phase::kRegistering) return;
        if (completion.header.error == ErrorCode::kOk) {
          const auto& created = std::get<coordination::Create2Response>(completion.body);
          return OnRegistered(then, {static_cast<int64_t>(created.stat.czxid.Packed())}, out);
        }
        if (completion.header.error != ErrorCode::kNodeExists) {
          timers_.Set(Timer::kRegister, then + kRegisterRetry);
          return;
        }
        // Ours, if the answer to an earlier attempt was lost; else that of an incarnation whose
        // session has not ended yet, or of a living broker with our id.
        const std::string own = BrokerPath(options_.broker);
        Call(
            then, OpCode::kGetData, coordination::GetDataRequest{own},
            [this](Instant later, const Completion& read, BrokerOutput* to) {
              if (phase_ != Phase::kRegistering) return;
              if (read.header.error != ErrorCode::kOk) {
                timers_.Set(Timer::kRegister, later + kRegisterRetry);
                return;
              }
              const auto& found = std::get<coordination::GetDataResponse>(read.body);
              const BrokerEpoch czxid{static_cast<int64_t>(found.stat.czxid.Packed())};
              if (found.stat.ephemeral_owner == client_->session()) {
                return OnRegistered(later, czxid, to);
              }
              WaitForPredecessor(later, czxid, to);
            },
            out);
      },
      output);
}

// Usually our own former session, which the ensemble has not expired yet. That may take long: a new
// leader of the ensemble gives every session its full timeout anew. If it is another broker of the
// same id, we wait for ever, and say so now and then: two of them must not both serve.
void Broker::Impl::WaitForPredecessor(Instant now, BrokerEpoch other, BrokerOutput* output) {
  const Duration patience = Milliseconds(client_->timeout_ms()) * 2;
  if (!predecessor_) predecessor_until_ = now + patience;
  predecessor_ = other;
  if (now >= predecessor_until_) {
    output->events.push_back(
        {.kind = EventKind::kBrokerUnregistered,
         .detail = static_cast<uint64_t>(other.value),
         .reason = "this broker.id is registered by another session: waiting for its end"});
    predecessor_until_ = now + patience;
  }
  timers_.Set(Timer::kRegister, now + kRegisterRetry);
}

void Broker::Impl::OnRegistered(Instant now, BrokerEpoch incarnation, BrokerOutput* output) {
  incarnation_ = incarnation;
  phase_ = Phase::kRecording;
  Emit(output, EventKind::kBrokerRegistered, static_cast<uint64_t>(incarnation.value));
  ReadLineage(now, output);
  ReadBrokers(now, output);
}

void Broker::Impl::ReadLineage(Instant now, BrokerOutput* output) {
  Call(
      now, OpCode::kGetData, coordination::GetDataRequest{LineagePath(options_.broker)},
      [this](Instant then, const Completion& completion, BrokerOutput* out) {
        if (phase_ != Phase::kRecording) return;
        if (completion.header.error == ErrorCode::kNoNode) {
          return WriteLineage(then, std::nullopt, coordination::kAnyVersion, out);
        }
        if (completion.header.error != ErrorCode::kOk) return ReadLineage(then, out);
        const auto& found = std::get<coordination::GetDataResponse>(completion.body);
        absl::StatusOr<LineageRecord> record = DecodeLineage(found.data.bytes.view());
        // Not ours to read: then nothing is known to be retained.
        WriteLineage(then, record.ok() ? *record : LineageRecord(), found.stat.version, out);
      },
      output);
}

// What this incarnation holds: what the last one on the disk held, up to that one. One that
// registered later, and was never recorded on this disk, never fetched and never led.
void Broker::Impl::WriteLineage(Instant now, std::optional<LineageRecord> found, int32_t version,
                                BrokerOutput* output) {
  LineageRecord record;
  if (found.has_value()) {
    const auto at = std::find(found->incarnations.begin(), found->incarnations.end(), retained_);
    if (at != found->incarnations.end()) {
      record.incarnations.assign(found->incarnations.begin(), at + 1);
    }
  }
  if (record.incarnations.empty() || record.incarnations.back() < incarnation_) {
    record.incarnations.push_back(incarnation_);
  }
  if (record.incarnations.size() > LineageRecord::kMax) {
    record.incarnations.erase(record.incarnations.begin());
  }
  Transition transition;
  transition.Check(BrokerPath(options_.broker), coordination::kAnyVersion);
  if (found.has_value()) {
    transition.SetData(LineagePath(options_.broker), Encode(record), version);
  } else {
    transition.Create(LineagePath(options_.broker), Encode(record));
  }
  Multi(
      now, transition,
      [this, record](Instant then, ErrorCode error, const coordination::MultiResponse*,
                     BrokerOutput* out) {
        if (phase_ != Phase::kRecording) return;
        // Lost, or written meanwhile (by ourselves, before an answer was lost): read it again.
        if (error != ErrorCode::kOk) return ReadLineage(then, out);
        lineage_ = record.incarnations;
        RecordIncarnation(then, out);
      },
      output);
}

// Before the first fetch or election that names it: otherwise this broker could restart without
// knowing that it was a member of an ISR as this incarnation.
void Broker::Impl::RecordIncarnation(Instant /*now*/, BrokerOutput* output) {
  output->log_ops.push_back(BrokerOutput::SetBrokerEpoch{
      NextWrite({.kind = LogWrite::Kind::kBrokerEpoch, .epoch = incarnation_}),
      incarnation_.value});
}

// Only now may a new topic's ISR name this incarnation. Had it done so before, and the broker died
// before the incarnation was on its disk, the member would be one that nobody can be any more: not
// the next incarnation either, to which a disk that was replaced looks the same.
void Broker::Impl::Unfence(Instant now, BrokerOutput* output) {
  Call(
      now, OpCode::kSetData,
      coordination::SetDataRequest{.path = BrokerPath(options_.broker),
                                   .data = {.bytes = Bytes::Copy(Encode(OwnRecord(false)))},
                                   .version = coordination::kAnyVersion},
      [this](Instant then, const Completion& completion, BrokerOutput* out) {
        if (phase_ != Phase::kRecording) return;
        if (completion.header.error != ErrorCode::kOk) return Unfence(then, out);
        Activate(then, out);
      },
      output);
}

void Broker::Impl::Activate(Instant now, BrokerOutput* output) {
  phase_ = Phase::kActive;
  fetcher_.SetIncarnation(incarnation_);
  for (const auto& [id, hosted] : hosted_) fetcher_.Touch(id);
  if (metadata_.complete()) Reconcile(now, output);
}

// ---- Reading -----------------------------------------------------------------------------------

void Broker::Impl::ReadBrokers(Instant now, BrokerOutput* output) {
  if (!incarnation_) {
    // The answer to the registration was lost with the connection.
    if (phase_ == Phase::kRegistering) timers_.Set(Timer::kRegister, now);
    return;
  }
  auto ignore = [](Instant, const Completion&, BrokerOutput*) {};
  Call(now, OpCode::kSync, coordination::SyncRequest{kBrokersPath}, ignore, output);
  // Set before the reads that follow: no change falls between. (After a reconnection the client
  // machine has set it again already, and this changes nothing.)
  Call(
      now, OpCode::kAddWatch,
      coordination::AddWatchRequest{kBrokersPath, coordination::AddWatchMode::kPersistentRecursive},
      ignore, output);
  Call(
      now, OpCode::kGetData, coordination::GetDataRequest{kClusterIdPath},
      [this](Instant, const Completion& completion, BrokerOutput* out) {
        if (completion.header.error != ErrorCode::kOk) return;
        const auto& found = std::get<coordination::GetDataResponse>(completion.body);
        absl::StatusOr<Json> json = Json::Parse(found.data.bytes.view());
        if (!json.ok()) return;
        const Json* id = json->Find("id");
        if (id == nullptr || id->string() == nullptr) return;
        metadata_.set_cluster_id(*id->string());
        out->cluster_id = *id->string();
      },
      output);
  // First what this broker decides about: until it is read, nothing is decided.
  for (const auto& [id, hosted] : hosted_) {
    metadata_.ReadAgain(PartitionPath(hosted.topic, id.partition));
  }
  metadata_.ReadAll();
  SendReads(now, output);
}

void Broker::Impl::SendReads(Instant now, BrokerOutput* output) {
  if (!incarnation_ || client_->state() != ClientState::kConnected) return;
  while (metadata_.reads_under_way() < kReadsMax) {
    const std::optional<MetadataCache::Read> read = metadata_.NextRead();
    if (!read.has_value()) break;
    const std::string path = read->path;
    if (read->children) {
      Call(
          now, OpCode::kGetChildren, coordination::GetChildrenRequest{path},
          [this, path](Instant, const Completion& completion, BrokerOutput*) {
            if (completion.header.error == ErrorCode::kOk) {
              metadata_.OnChildren(
                  path, std::get<coordination::GetChildrenResponse>(completion.body).children);
            } else if (completion.header.error == ErrorCode::kNoNode) {
              metadata_.OnNoNode(path, true);
            } else {
              metadata_.OnReadFailed(path, true);
            }
          },
          output);
    } else {
      Call(
          now, OpCode::kGetData, coordination::GetDataRequest{path},
          [this, path](Instant, const Completion& completion, BrokerOutput* out) {
            if (completion.header.error == ErrorCode::kOk) {
              const auto& found = std::get<coordination::GetDataResponse>(completion.body);
              if (!metadata_.OnData(path, found.data, found.stat)) {
                out->events.push_back({.kind = EventKind::kZnodeUnreadable, .text = path});
              }
            } else if (completion.header.error == ErrorCode::kNoNode) {
              metadata_.OnNoNode(path, false);
            } else {
              metadata_.OnReadFailed(path, false);
            }
          },
          output);
    }
  }
  Pump(now, output);
}

void Broker::Impl::OnBrokerGone(Instant now, BrokerId broker, BrokerOutput* output) {
  for (auto& [id, hosted] : hosted_) {
    if (hosted.machine == nullptr) continue;
    PartitionOutput from;
    hosted.machine->OnBrokerGone(now, broker, &from);
    Drain(now, &hosted, &from, output);
  }
}

void Broker::Impl::TakeChanges(Instant now, BrokerOutput* output) {
  while (true) {
    MetadataCache::Changes changes = metadata_.TakeChanges();
    const bool any = changes.completed || !changes.partitions.empty() || !changes.topics.empty() ||
                     !changes.brokers.empty();
    if (any) output->metadata_changed = true;
    if (changes.completed) ++readings_;
    if (changes.brokers.contains(options_.broker) || changes.completed) {
      if (phase_ == Phase::kActive && metadata_.complete() && !IsRegistered()) {
        return BeginAnew(now, output);
      }
    }
    for (BrokerId broker : changes.brokers) {
      auto at = metadata_.brokers().find(broker);
      if (broker == options_.broker) continue;
      if (at == metadata_.brokers().end()) {
        fetcher_.RemoveBroker(broker, output);
        if (metadata_.complete()) OnBrokerGone(now, broker, output);
      } else {
        fetcher_.SetBroker(now, at->second, output);
      }
    }
    if (phase_ == Phase::kActive && metadata_.complete()) {
      if (changes.completed) Reconcile(now, output);
      // Who may lead depends on who is registered.
      if (!changes.brokers.empty()) {
        for (const auto& [id, hosted] : hosted_) {
          if (hosted.vacant_since != Instant::Never() || hosted.damaged) to_consider_.insert(id);
        }
      }
      for (const std::string& topic : changes.topics) Configure(now, topic, output);
      for (const auto& [topic, partition] : changes.partitions) {
        Consider(now, topic, partition, output);
      }
      for (const PartitionId& id : std::exchange(to_consider_, {})) {
        if (Hosted* hosted = FindHosted(id)) Consider(now, hosted, output);
      }
      if (!changes.topics.empty() || !changes.brokers.empty()) RemoveTopics(now, output);
    }
    Pump(now, output);
    if (!any && to_consider_.empty()) return;
    if (phase_ != Phase::kActive || !metadata_.complete()) return;
  }
}

}  // namespace lockstep::replication
