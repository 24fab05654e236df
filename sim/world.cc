#include "sim/world.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "sim/failure.h"
#include "sim/faults.h"
#include "sim/purpose.h"

namespace lockstep::sim {
namespace {

// A run that does this much is not going anywhere.
constexpr uint64_t kEventsMax = 3'000'000;
constexpr uint64_t kLeakAtEvent = 500;

uint32_t NodesOf(const Plan& plan) {
  return plan.servers + plan.workload.clients + KafkaClientsOf(plan.brokers);
}

}  // namespace

World::World(const Plan& plan, Trace* trace, Probes* probes, Script* script)
    : plan_(plan),
      trace_(trace),
      probes_(probes),
      script_(script),
      network_(plan.network, plan.seed, plan.servers, NodesOf(plan), &queue_, plan.streams),
      host_random_(StreamFor(plan.seed, Purpose::kHost)),
      histories_(plan.voters(), &committed_),
      replication_(plan_.brokers, plan.servers, probes),
      faults_(std::make_unique<Faults>(plan_, this, script)) {
  for (uint32_t s = 0; s < plan_.servers; ++s) {
    hosts_.emplace_back(plan_.disk, plan_.seed, s, &queue_, plan_.streams);
    network_.SetNodeState(now_, s, Network::NodeState::kRefusing);
  }
  const uint32_t nodes = NodesOf(plan_);
  for (uint32_t a = 0; a < nodes && plan_.network.far_percent > 0; ++a) {
    for (uint32_t b = 0; b < a; ++b) {
      if (!host_random_.Chance(plan_.network.far_percent, 100)) continue;
      network_.SetExtraLatency(a, b, plan_.options.tick * host_random_.Between(1, 10) / 100);
    }
  }
  for (uint32_t c = 0; c < plan_.workload.clients; ++c) {
    clients_.push_back(
        std::make_unique<Client>(plan_, c, &committed_, &model_, probes_, trace_, script_));
  }
  if (plan_.brokers.on) AddKafkaClients();
}

World::~World() = default;

void World::Run() {
  TraceWorld();
  if (plan_.servers == 1) probes_->Hit(Probe::kSingleServer);
  if (plan_.servers == 7) probes_->Hit(Probe::kSevenServers);
  for (uint32_t s = 0; s < plan_.servers; ++s) {
    queue_.Push(now_ + Around(host_random_, plan_.options.tick), {TaskKind::kStart, s, 0, 1});
  }
  for (uint32_t c = 0; c < clients(); ++c) {
    const Duration start = Around(host_random_, plan_.options.tick * 4);
    if (!absent(c)) queue_.Push(now_ + start, {TaskKind::kClientWake, c, 0, 0});
  }
  queue_.Push(now_ + plan_.chaos, {TaskKind::kPhase, 0, 0, kHeal});
  faults_->Begin(now_);
  while (!done_) {
    const Due due = queue_.Pop();
    LS_CHECK_GE(due.at, now_);
    if (due.at > until_) return;
    now_ = due.at;
    last_ = due.task;
    if (++events_ > kEventsMax) Fail("liveness-converge", "the run does not come to an end");
    trace_->set_now(now_);
    MixTask(due);
    if (leak_ != nullptr && events_ == kLeakAtEvent) Leak();
    Handle(due);
    RunReadyTurns();
    if (hash_log_ != nullptr) hash_log_->push_back(trace_->hash());
    if (events_ >= events_max_) return;
  }
  if (network_.cuts() > 0) probes_->Hit(Probe::kBytesCut);
}

// What a task does is in the hash; how many tasks it took is not. A client that is woken and does
// nothing, or a drawn fault without a target, is not there when the run's schedule is replayed.
void World::MixTask(const Due& due) {
  if (due.task.kind == TaskKind::kClientWake || due.task.kind == TaskKind::kFault) return;
  trace_->Mix(static_cast<uint64_t>(due.at.ns));
  trace_->Mix((uint64_t{static_cast<uint8_t>(due.task.kind)} << 56) |
              (uint64_t{due.task.who} << 24) | due.task.what);
  trace_->Mix(due.task.which);
}

void World::Handle(const Due& due) {
  const Task& task = due.task;
  switch (task.kind) {
    case TaskKind::kStart:
      if (hosts_[task.who].machine == nullptr && hosts_[task.who].starts == task.which) {
        Start(task.who);
      }
      return;
    case TaskKind::kWake:
      if (hosts_[task.who].incarnation == task.which) OnWake(task.who, due.at);
      return;
    case TaskKind::kTurn:
      if (hosts_[task.who].incarnation == task.which && up(task.who)) {
        hosts_[task.who].turn_scheduled = false;
        if (!hosts_[task.who].paused) RunTurn(task.who);
      }
      return;
    case TaskKind::kResume: {
      Host& host = hosts_[task.who];
      if (!host.paused || host.pauses != task.which) return;
      host.paused = false;
      if (now_ - host.paused_at > Milliseconds(plan_.workload.session_timeout_ms)) {
        probes_->Hit(Probe::kPausedBeyondSession);
      }
      if (trace_->on()) trace_->Line(ServerName(task.who), "resumes", "");
      if (up(task.who)) Enqueue(task.who, server::Wake());
      return;
    }
    case TaskKind::kArrive:
      network_.OnArrive(now_, task, &deliveries_);
      return Deliver(&deliveries_);
    case TaskKind::kNetTimeout:
      network_.OnNetTimeout(now_, task, &deliveries_);
      if (!deliveries_.empty()) probes_->Hit(Probe::kConnectionGaveUp);
      return Deliver(&deliveries_);
    case TaskKind::kDialTimeout:
      network_.OnDialTimeout(now_, task, &deliveries_);
      return Deliver(&deliveries_);
    case TaskKind::kWritten:
      network_.OnWritten(task.who, &deliveries_);
      return Deliver(&deliveries_);
    case TaskKind::kDiskDone: {
      storage::FileDone done;
      Disk& disk = hosts_[task.who].disk;
      // Who has what is there by now, may have changed since it was decided.
      if (plan_.brokers.on && disk.misdirecting()) AllowDamage(task.who);
      if (!disk.Complete(task.which, &done)) return;
      trace_->Mix(static_cast<uint64_t>(done.error) ^ Checksum(done.data.view()));
      return Enqueue(task.who, server::FileOpDone{std::move(done)});
    }
    case TaskKind::kClientWake: {
      const Meter::Scope metered(meter_, MeterPart::kClients);
      if (KafkaClient* kafka = Kafka(task.who)) {
        kafka->OnWake(now_, &client_output_);
      } else {
        clients_[task.who]->OnWake(now_, &client_output_);
      }
      return CarryOutClient(task.who);
    }
    case TaskKind::kFault:
    case TaskKind::kUndo:
      return faults_->OnTask(now_, task);
    case TaskKind::kClock:
      if (hosts_[task.who].incarnation != task.which || !up(task.who)) return;
      queue_.Push(now_ + plan_.options.tick * 10, task);
      return Enqueue(task.who, server::WallClock{UnixMs(task.who)});
    case TaskKind::kPhase:
      return task.which == kHeal ? Heal() : CheckHealed();
    case TaskKind::kCount:
      break;
  }
  LS_UNREACHABLE();
}

RandomStream& World::HostRandom(uint32_t server, HostDraw draw) {
  if (plan_.streams != 0) {
    const uint64_t place =
        server * static_cast<uint64_t>(HostDraw::kCount) + static_cast<uint64_t>(draw);
    host_random_ = KeyedStream(plan_.seed, plan_.streams, Purpose::kHost, place, now_);
  }
  return host_random_;
}

// ---- Servers -----------------------------------------------------------------------------------

void World::Enqueue(uint32_t server, server::Input input) {
  Host& host = hosts_[server];
  if (host.machine == nullptr) return;
  host.inbox.push_back(std::move(input));
  if (host.paused || host.turn_scheduled) return;
  host.turn_scheduled = true;
  if (plan_.turn.ns == 0) {
    ready_.push_back(server);
  } else {
    queue_.Push(now_ + Around(HostRandom(server, HostDraw::kTurn), plan_.turn),
                {TaskKind::kTurn, server, 0, host.incarnation});
  }
}

void World::RunReadyTurns() {
  // A turn makes no other turn ready: what it sends takes time.
  for (size_t i = 0; i < ready_.size(); ++i) {
    const uint32_t server = ready_[i];
    if (!up(server)) continue;
    hosts_[server].turn_scheduled = false;
    if (!hosts_[server].paused) RunTurn(server);
  }
  ready_.clear();
}

// Everything that is ready is stepped together, as the shell does.
void World::RunTurn(uint32_t server) {
  Host& host = hosts_[server];
  const Instant local = host.clock.Local(now_);
  output_.Clear();
  {
    const Meter::Scope metered(meter_, MeterPart::kServers);
    for (const server::Input& input : host.inbox) {
      host.machine->Step(local, input, &output_);
      if (output_.fatal.has_value()) break;
    }
    host.inbox.clear();
    if (!output_.fatal.has_value()) host.machine->Flush(local, &output_);
  }
  bool dies = false;
  for (const Event& event : output_.events) dies |= faults_->OnEvent(now_, server, event.kind);
  Observe(server, output_);
  if (output_.fatal.has_value()) return OnFatal(server, *output_.fatal);
  if (host.crash_in_turns > 0 && --host.crash_in_turns == 0) dies = true;
  const bool stopped = output_.stopped;
  CarryOut(server, &output_, dies);
  if (dies) {
    probes_->Hit(Probe::kDiedWithinStep);
    const bool killed = HostRandom(server, HostDraw::kDeath).Chance(1, 2);
    return Stop(server, killed ? StopKind::kKill : StopKind::kPowerLoss);
  }
  if (stopped) {
    probes_->Hit(Probe::kStoppedCleanly);
    return StopServer(server, StopKind::kKill, /*cleanly=*/true);
  }
  ScheduleWake(server);
}

void World::ScheduleWake(uint32_t server) {
  Host& host = hosts_[server];
  const Instant deadline = host.machine->next_deadline();
  if (deadline == Instant::Never()) return;
  const Instant at = std::max(now_, host.clock.World(deadline));
  // One wake is under way at most; a later deadline is seen when it comes.
  if (at >= host.scheduled_wake) return;
  host.scheduled_wake = at;
  queue_.Push(at, {TaskKind::kWake, server, 0, host.incarnation});
}

void World::OnWake(uint32_t server, Instant at) {
  Host& host = hosts_[server];
  if (!up(server) || at != host.scheduled_wake) return;
  host.scheduled_wake = Instant::Never();
  if (host.paused) return;
  if (host.machine->next_deadline() > host.clock.Local(now_)) return ScheduleWake(server);
  Enqueue(server, server::Wake());
}

void World::CarryOut(uint32_t server, server::Output* output, bool partly) {
  Host& host = hosts_[server];
  // Each stream of outputs is carried out up to some point; between streams there is no order.
  RandomStream& random = partly ? HostRandom(server, HostDraw::kCut) : host_random_;
  const auto upto = [&](size_t size) { return partly ? random.Below(size + 1) : size; };
  const size_t ops = upto(output->file_ops.size());
  const size_t dials = upto(output->dials.size());
  const size_t sends = upto(output->sends.size());
  const size_t closes = sends < output->sends.size() ? 0 : upto(output->closes.size());
  for (size_t i = 0; i < ops; ++i) {
    storage::FileOp& op = output->file_ops[i];
    trace_->Mix((static_cast<uint64_t>(op.kind) << 56) ^ op.offset ^ (op.size << 24));
    {
      const Meter::Scope metered(meter_, MeterPart::kTraceHash);
      for (const Bytes& piece : op.data) trace_->Mix(Checksum(piece.view()));
    }
    host.disk.Submit(now_, std::move(op));
  }
  for (size_t i = 0; i < dials; ++i) {
    const server::Dial& dial = output->dials[i];
    const std::optional<uint32_t> to =
        dial.host.empty() ? std::optional(dial.to.value - 1) : ServerOfHost(dial.host);
    LS_CHECK(to.has_value() && *to < plan_.servers);
    network_.Dial(now_, server, dial.connection, dial.kind, *to);
  }
  for (size_t i = 0; i < sends; ++i) {
    TraceSent(server, output->sends[i].connection, output->sends[i].data);
    network_.Send(now_, server, output->sends[i].connection, std::move(output->sends[i].data));
  }
  for (size_t i = 0; i < closes; ++i) network_.Close(now_, server, output->closes[i]);
  for (ConnectionId id : output->pauses) network_.PauseReading(server, id);
  for (ConnectionId id : output->resumes) network_.ResumeReading(now_, server, id);
}

// ---- What is seen of a step --------------------------------------------------------------------

void World::Observe(uint32_t server, const server::Output& output) {
  Host& host = hosts_[server];
  ObserveEvents(server, output);
  if (plan_.brokers.on) {
    const Meter::Scope metered(meter_, MeterPart::kReplication);
    ObserveBroker(server, output);
  }
  // First what was applied: the histories refer to the committed log.
  const int64_t committed_before = committed_.size();
  {
    const Meter::Scope metered(meter_, MeterPart::kCommittedLog);
    ObserveApplied(server, output);
  }
  const zab::Peer* peer = host.machine->peer();
  if (peer == nullptr) return;
  if (!host.recovered) {
    host.recovered = true;
    host.disk.OnRecovered();
    host.voted = peer->current_epoch() > Epoch{};
    if (peer->accepted_epoch() < host.told.first || peer->durable_zxid() < host.told.second) {
      probes_->Hit(Probe::kForgot);
    }
    if (host.incarnation > 1) probes_->Hit(Probe::kRestartedFromDisk);
    histories_.OnRecovered(server + 1, *peer);
  }
  {
    const Meter::Scope metered(meter_, MeterPart::kHistories);
    histories_.OnStep(server + 1, *peer, output.events);
  }
  for (int64_t i = committed_before; i < committed_.size(); ++i) ObserveCommitted(server, i);
  const coordination::Tree& tree = host.machine->service().tree();
  const Zxid last = tree.last_zxid();
  if (last == host.applied && output.applied.empty()) return;
  host.applied = last;
  host.restored = true;
  const Meter::Scope metered(meter_, MeterPart::kCommittedLog);
  committed_.OnState(server + 1, last, tree.digest(), &host.position);
}

void World::ObserveBroker(uint32_t server, const server::Output& output) {
  const Host& host = hosts_[server];
  if (!output.logs_seen.empty()) {
    replication_.OnLogs(server, output.logs_seen);
    RecheckMarks();
  }
  const server::BrokerRole* role = host.machine->broker();
  if (role == nullptr || !role->started()) return;
  for (const auto& [log, id] : replication_.LogsOf(server)) {
    const replication::Partition* partition = role->broker().FindPartition(id);
    if (partition == nullptr) continue;
    const ReplicaView view{partition->role(),
                           partition->leader_epoch().value,
                           partition->log_start(),
                           partition->log_end(),
                           partition->high_watermark(),
                           partition->role() == replication::Role::kIdle &&
                               partition->state().leader == role->broker().options().broker};
    if (!replication_.IsNews(server, id, view, host.incarnation)) continue;
    std::optional<Replication::LeaderIsr> isr;
    if (view.role == replication::Role::kLeader) {
      isr = Replication::LeaderIsr{partition->state().isr.size(), partition->maximal_isr()};
    }
    replication_.OnView(server, host.incarnation, id, view, isr);
  }
}

void World::ObserveEvents(uint32_t server, const server::Output& output) {
  for (const Event& event : output.events) {
    probes_->Hit(event.kind);
    trace_->Mix((static_cast<uint64_t>(event.kind) << 48) ^ event.zxid.Packed() ^
                (event.detail << 8) ^ event.peer.value);
    if (trace_->on())
      trace_->Line(ServerName(server), EventName(event.kind), event.ToString(), &event);
    if (event.kind == EventKind::kSessionExpired) {
      const SessionId session{static_cast<int64_t>(event.detail)};
      CheckExpiry(server, session);
      replication_.OnExpires(session);
    }
    // With a reason it is not its own registration that it speaks of.
    if (event.kind == EventKind::kBrokerUnregistered && event.reason[0] != '\0') {
      probes_->Hit(Probe::kBrokerIdTaken);
    }
    if (event.kind == EventKind::kLogDamaged) {
      if (!hosts_[server].disk.ever_damaged()) {
        Fail("no-false-alarm", absl::StrCat("server ", server + 1, " finds that ", event.text,
                                            ", and its disk is in order"));
      }
      if (!hosts_[server].recovered) {
        replication_.OnProducersForgotten(server, {static_cast<uint32_t>(event.detail)});
      }
    }
    if (event.kind == EventKind::kDigestMismatch) {
      // Had the states differed, state-digest would have failed when they began to.
      Fail("no-false-alarm",
           absl::StrCat("server ", server + 1, " believes that the state of ", event.peer.value,
                        " differs as of ", event.zxid.ToString()));
    }
    if (event.kind == EventKind::kEstablished || event.kind == EventKind::kNewLeaderAcked ||
        event.kind == EventKind::kVoteRegained) {
      hosts_[server].voted = true;
    }
    if (event.kind == EventKind::kEstablished) {
      hosts_[server].established_at = hosts_[server].clock.Local(now_);
      for (uint32_t s = 0; s < hosts_.size(); ++s) {
        if (s != server && s < plan_.voters() && histories_.reign(s + 1) > Epoch{}) {
          probes_->Hit(Probe::kTwoLeaders);
        }
      }
    }
  }
}

// A new leader does not know when its predecessor heard from a session.
void World::CheckExpiry(uint32_t server, SessionId session) const {
  const Duration timeout = model_.TimeoutOf(session);
  const Duration led = hosts_[server].clock.Local(now_) - hosts_[server].established_at;
  if (led >= timeout) return;
  Fail("expiry-takes-its-time",
       absl::StrCat("server ", server + 1, " expires session ", session.ToString(), " of timeout ",
                    timeout.ToString(), " when it has led for ", led.ToString()));
}

void World::ObserveApplied(uint32_t server, const server::Output& output) {
  Host& host = hosts_[server];
  bool restored = !host.restored;
  for (const Event& event : output.events) restored |= event.kind == EventKind::kSnapshotReceived;
  for (const server::AppliedTransaction& applied : output.applied) {
    // After the state was replaced, applying goes on wherever that state ends.
    const bool next = host.position + 1 < committed_.size() &&
                      committed_.at(host.position + 1).zxid == applied.zxid;
    if (restored && !next) {
      const int64_t at = committed_.FindFloor(applied.zxid);
      const bool known = at >= 0 && committed_.at(at).zxid == applied.zxid;
      host.position = known ? at - 1 : at;
    }
    host.restored = true;
    if (trace_->on()) trace_->Line(ServerName(server), "applies", applied.zxid.ToString());
    committed_.OnApplied(server + 1, applied.zxid, applied.body, &host.position);
  }
}

void World::ObserveCommitted(uint32_t server, int64_t index) {
  const CommittedEntry& entry = committed_.at(index);
  {
    const Meter::Scope metered(meter_, MeterPart::kHistories);
    histories_.OnCommitted(server + 1, entry);
  }
  const auto* close = std::get_if<coordination::CloseSessionTransaction>(&entry.transaction.body);
  if (close != nullptr && !close->paths_to_delete.empty()) {
    probes_->Hit(Probe::kEphemeralExpired);
  }
  {
    const Meter::Scope metered(meter_, MeterPart::kZnodeModel);
    model_.Apply(entry);
  }
  if (plan_.brokers.on) {
    const Meter::Scope metered(meter_, MeterPart::kReplication);
    replication_.OnCommitted(entry);
  }
  for (const Host& other : hosts_) {
    const zab::Peer* peer = other.machine == nullptr ? nullptr : other.machine->peer();
    if (peer != nullptr && peer->state() == zab::ServerState::kFollowing && !peer->established()) {
      probes_->Hit(Probe::kCommittedWhileSyncing);
    }
  }
}

// ---- Connections and clients -------------------------------------------------------------------

void World::Deliver(std::vector<Delivery>* deliveries) {
  for (Delivery& delivery : *deliveries) {
    trace_->Mix((static_cast<uint64_t>(delivery.kind) << 60) ^ (uint64_t{delivery.node} << 48) ^
                delivery.connection.value ^ delivery.written);
    if (!delivery.data.empty()) {
      const Meter::Scope metered(meter_, MeterPart::kTraceHash);
      trace_->Mix(Checksum(delivery.data.view()));
    }
    TraceDelivery(delivery);
    if (delivery.node < plan_.servers) {
      DeliverToServer(std::move(delivery));
    } else {
      DeliverToClient(std::move(delivery));
    }
  }
  deliveries->clear();
}

void World::DeliverToServer(Delivery delivery) {
  const uint32_t node = delivery.node;
  switch (delivery.kind) {
    case Delivery::Kind::kAccepted: {
      // What a broker dials to is a client's port like any other's.
      const server::LinkKind link = delivery.link == server::LinkKind::kCoordination
                                        ? server::LinkKind::kClient
                                        : delivery.link;
      return Enqueue(
          node, server::Accepted{delivery.connection, link, absl::StrCat("node", delivery.from)});
    }
    case Delivery::Kind::kConnected:
      return Enqueue(node, server::Connected{delivery.connection});
    case Delivery::Kind::kBytes:
      return Enqueue(node, server::ReceivedBytes{delivery.connection, std::move(delivery.data)});
    case Delivery::Kind::kClosed:
      return Enqueue(node, server::Closed{delivery.connection});
    case Delivery::Kind::kWritten:
      return Enqueue(node, server::Written{delivery.connection, delivery.written});
  }
}

void World::DeliverToClient(Delivery delivery) {
  const Meter::Scope metered(meter_, MeterPart::kClients);
  const uint32_t number = delivery.node - plan_.servers;
  if (KafkaClient* kafka = Kafka(number)) {
    if (delivery.kind == Delivery::Kind::kConnected) {
      kafka->OnConnected(now_, delivery.connection, &client_output_);
    } else if (delivery.kind == Delivery::Kind::kBytes) {
      kafka->OnBytes(now_, delivery.connection, std::move(delivery.data), &client_output_);
    } else if (delivery.kind == Delivery::Kind::kClosed) {
      kafka->OnClosed(now_, delivery.connection, &client_output_);
    }
    return CarryOutClient(number);
  }
  Client& client = *clients_[number];
  switch (delivery.kind) {
    case Delivery::Kind::kAccepted:
    case Delivery::Kind::kWritten:
      LS_UNREACHABLE();
    case Delivery::Kind::kConnected:
      client.OnConnected(now_, delivery.connection, &client_output_);
      break;
    case Delivery::Kind::kBytes:
      client.OnBytes(now_, delivery.connection, std::move(delivery.data), &client_output_);
      break;
    case Delivery::Kind::kClosed:
      client.OnClosed(now_, delivery.connection, &client_output_);
      break;
  }
  CarryOutClient(number);
}

void World::CarryOutClient(uint32_t number) {
  const uint32_t node = plan_.servers + number;
  const server::LinkKind link =
      Kafka(number) != nullptr ? server::LinkKind::kBroker : server::LinkKind::kClient;
  for (const ClientOutput::DialTo& dial : client_output_.dials) {
    network_.Dial(now_, node, dial.connection, link, dial.server);
  }
  for (ClientOutput::SendBytes& send : client_output_.sends) {
    TraceSent(node, send.connection, send.data);
    network_.Send(now_, node, send.connection, std::move(send.data));
  }
  for (ConnectionId id : client_output_.closes) network_.Close(now_, node, id);
  if (client_output_.wake.has_value()) {
    queue_.Push(std::max(now_, *client_output_.wake), {TaskKind::kClientWake, number, 0, 0});
  }
  client_output_.Clear();
}

void World::VanishClient(uint32_t client) {
  if (KafkaClient* kafka = Kafka(client)) {
    kafka->Vanish(now_, &client_output_);
  } else {
    clients_[client]->Vanish(now_, &client_output_);
  }
  CarryOutClient(client);
}

void World::MoveClient(uint32_t client) {
  if (KafkaClient* kafka = Kafka(client)) {
    kafka->Drop(now_, &client_output_);
  } else {
    clients_[client]->Move(now_, &client_output_);
  }
  CarryOutClient(client);
}

// ---- The end -----------------------------------------------------------------------------------

void World::Heal() {
  if (trace_->on()) trace_->Line("world", "heals", "");
  faults_->End();
  if (!plan_.budget) {
    done_ = true;
    return;
  }
  network_.HealAll(now_);
  uint32_t spare = plan_.heal_only_a_quorum ? (plan_.voters() - 1) / 2 : 0;
  const uint32_t quorum = plan_.voters() / 2 + 1;
  spare = std::min(spare, std::max(HowManyRemember(), quorum) - quorum);
  for (uint32_t s = 0; s < plan_.servers; ++s) {
    Host& host = hosts_[s];
    host.disk.ClearFaults();
    host.crash_in_turns = 0;
    if (host.paused) queue_.Push(now_, {TaskKind::kResume, s, 0, host.pauses});
    if (spare > 0 && HostRandom(s, HostDraw::kHeal).Chance(1, 2)) {
      --spare;
      Stop(s, StopKind::kPowerLoss);
      host.off_for_good = true;
    }
  }
  for (uint32_t c = 0; c < clients_.size(); ++c) {
    if (absent(c)) continue;
    clients_[c]->Quiesce(now_, &client_output_);
    CarryOutClient(c);
  }
  for (uint32_t c = 0; c < kafka_clients_.size(); ++c) {
    const uint32_t client = static_cast<uint32_t>(clients_.size()) + c;
    if (absent(client)) continue;
    kafka_clients_[c]->Quiesce(now_, &client_output_);
    CarryOutClient(client);
  }
  heal_deadline_ = now_ + plan_.heal_limit;
  queue_.Push(now_ + plan_.options.tick, {TaskKind::kPhase, 0, 0, kCheckHealed});
}

std::string World::NotHealed(std::string* detail) const {
  const std::optional<uint32_t> leader = Leader();
  if (!leader.has_value() || !hosts_[*leader].machine->peer()->established()) {
    *detail = "there is no established leader";
    return "liveness-leader";
  }
  for (size_t c = 0; c < clients_.size(); ++c) {
    if (absent(static_cast<uint32_t>(c)) || clients_[c]->final_write_done()) continue;
    *detail = absl::StrCat("client ", c, " got no write through");
    return "liveness-write";
  }
  for (uint32_t s = 0; s < plan_.voters(); ++s) {
    if (hosts_[s].off_for_good) continue;
    const zab::Peer* peer = up(s) ? hosts_[s].machine->peer() : nullptr;
    if (peer == nullptr || !peer->established() || hosts_[s].applied != committed_.last() ||
        peer->last_zxid() != committed_.last()) {
      *detail = absl::StrCat("server ", s + 1, " is at ", hosts_[s].applied.ToString(), " of ",
                             committed_.last().ToString(),
                             peer == nullptr       ? ", down"
                             : peer->established() ? ""
                                                   : ", not serving");
      return "liveness-converge";
    }
  }
  for (const std::unique_ptr<Client>& client : clients_) {
    for (SessionId session : client->abandoned()) {
      if (model_.StateOf(session) != ZnodeModel::SessionState::kOpen) continue;
      *detail = absl::StrCat("session ", session.ToString(), " is still open");
      return "liveness-expiry";
    }
  }
  return plan_.brokers.on ? BrokersNotHealed(detail) : "";
}

void World::CheckHealed() {
  if (plan_.brokers.on) RestoreLogs();
  std::string detail;
  const std::string missing = NotHealed(&detail);
  if (missing.empty()) {
    if (trace_->on()) trace_->Line("world", "healed", "");
    probes_->Hit(Probe::kLivenessReached);
    done_ = true;
    return;
  }
  if (now_ >= heal_deadline_) Fail(missing.c_str(), detail + " long after the last fault");
  queue_.Push(now_ + plan_.options.tick, {TaskKind::kPhase, 0, 0, kCheckHealed});
}

}  // namespace lockstep::sim
