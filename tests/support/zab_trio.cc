#include "tests/support/zab_trio.h"

#include <algorithm>
#include <sstream>

namespace lockstep::zab {
namespace {

constexpr Duration kLatency = Milliseconds(1);
constexpr Duration kWrite = Milliseconds(1);

std::string Join(const std::vector<Transaction>& transactions) {
  std::string text;
  for (const Transaction& t : transactions) {
    if (!text.empty()) text += ' ';
    text += t.body.view();
  }
  return text;
}

// One line a transaction: epoch, counter, body.
Bytes Serialize(const std::vector<Transaction>& state) {
  std::ostringstream out;
  for (const Transaction& t : state) {
    out << t.zxid.epoch.value << ' ' << t.zxid.counter << ' ' << t.body.view() << '\n';
  }
  return Bytes::Copy(out.str());
}

void Deserialize(const Bytes& data, std::vector<Transaction>* state) {
  std::istringstream in{std::string(data.view())};
  uint32_t epoch;
  uint32_t counter;
  std::string body;
  while (in >> epoch >> counter >> body) {
    state->push_back({{{epoch}, counter}, Bytes::Copy(body)});
  }
}

}  // namespace

Zxid Z(uint32_t epoch, uint32_t counter) { return {{epoch}, counter}; }

std::vector<Transaction> Transactions(std::string_view text) {
  std::vector<Transaction> transactions;
  std::istringstream in{std::string(text)};
  std::string name;
  while (in >> name) {
    size_t dot = name.find('.');
    LS_CHECK(dot != std::string::npos);
    transactions.push_back({Z(static_cast<uint32_t>(std::stoul(name.substr(0, dot))),
                              static_cast<uint32_t>(std::stoul(name.substr(dot + 1)))),
                            Bytes::Copy(name)});
  }
  return transactions;
}

std::string Zxids(const std::deque<Transaction>& transactions) {
  std::string text;
  for (const Transaction& t : transactions) {
    if (!text.empty()) text += ' ';
    text += std::to_string(t.zxid.epoch.value) + "." + std::to_string(t.zxid.counter);
  }
  return text;
}

PeerOptions ZabTrio::TestOptions() {
  PeerOptions options;
  options.init_timeout = Seconds(5);
  options.sync_timeout = Seconds(2);
  options.ping_interval = Milliseconds(500);
  // Tests begin with what a disk holds and leave the others empty. What comes of empty disks is in
  // novice_test.cc.
  options.rules.count_only_who_remembers = false;
  return options;
}

ZabTrio::ZabTrio(uint32_t size, PeerOptions options) : options_(std::move(options)) {
  options_.voters.clear();
  for (uint32_t id = 1; id <= size; id++) options_.voters.push_back({id});
  hosts_.resize(size);
}

// ---- Time --------------------------------------------------------------------------------------

void ZabTrio::Schedule(Duration after, Arrival arrival) {
  queue_.emplace(std::pair(now_ + after, sequence_++), std::move(arrival));
}

bool ZabTrio::Held(const Arrival& arrival) const {
  return arrival.channel != 0 && held_.contains({arrival.from, arrival.to});
}

// The next thing that happens until `until`, the ends of writes and deadlines included.
bool ZabTrio::RunNext(Instant until) {
  auto next = queue_.begin();
  while (next != queue_.end() && Held(next->second)) ++next;
  Instant due = next == queue_.end() ? Instant::Never() : next->first.first;
  ServerId waking;
  for (uint32_t id = 1; id <= hosts_.size(); id++) {
    if (!up({id})) continue;
    Instant deadline = peer({id}).next_deadline();
    if (deadline < due) {
      due = deadline;
      waking = {id};
    }
  }
  if (due > until) return false;
  now_ = std::max(now_, due);
  if (waking) {
    Step(waking, Wake{});
    return true;
  }
  Arrival arrival = std::move(next->second);
  queue_.erase(next);
  if (!up(arrival.to) || at(arrival.to).incarnation != arrival.incarnation) return true;
  if (std::holds_alternative<Persisted>(arrival.input)) {
    if (!at(arrival.to).hold && !at(arrival.to).in_flight.empty()) PersistFirst(arrival.to);
    return true;
  }
  if (arrival.channel != 0) {
    Channel& channel = channels_[arrival.channel - 1];
    ConnectionId mine = arrival.to == channel.leader ? channel.at_leader : channel.at_learner;
    if (channel.cut && arrival.from) return true;
    if (std::holds_alternative<ChannelClosed>(arrival.input)) {
      if (!mine) return true;
      (arrival.to == channel.leader ? channel.at_leader : channel.at_learner) = {};
    } else if (!mine) {
      return true;  // closed here
    }
  } else if (arrival.from && !Connected(arrival.from, arrival.to)) {
    return true;
  }
  Step(arrival.to, arrival.input);
  return true;
}

void ZabTrio::StartNew() {
  for (uint32_t id = 1; id <= hosts_.size(); id++) {
    if (at({id}).incarnation == 0) Start({id});
  }
}

void ZabTrio::Run(Duration duration) {
  StartNew();
  Instant until = now_ + duration;
  while (RunNext(until)) {
  }
  now_ = until;
}

bool ZabTrio::RunUntil(const std::function<bool()>& done, Duration limit) {
  StartNew();
  Instant until = now_ + limit;
  while (!done()) {
    if (!RunNext(until)) {
      now_ = until;
      return done();
    }
  }
  return true;
}

ServerId ZabTrio::Elect(Duration limit) {
  auto elected = [&] {
    ServerId chief = leader();
    if (!chief) return false;
    for (uint32_t id = 1; id <= hosts_.size(); id++) {
      if (!up({id}) || !Connected(chief, {id})) continue;
      if (!peer({id}).established() || peer({id}).leader() != chief) return false;
    }
    return true;
  };
  Instant until = now_ + limit;
  while (now_ < until) {
    if (!RunUntil(elected, until - now_)) return {};
    // What it looks like may be about to change: a closed channel is not yet noticed.
    Run(Milliseconds(10));
    if (elected()) return leader();
  }
  return {};
}

// ---- Servers -----------------------------------------------------------------------------------

void ZabTrio::Disk(ServerId server, uint32_t accepted, uint32_t current, std::string_view history) {
  LS_CHECK_EQ(at(server).incarnation, 0u);
  at(server).disk = {.accepted_epoch = {accepted},
                     .current_epoch = {current},
                     .transactions = Transactions(history)};
}

void ZabTrio::Start(ServerId server) {
  LS_CHECK(!up(server));
  Host& host = at(server);
  host.incarnation++;
  host.state = host.disk_state;
  host.service = Service::kStopped;
  PeerOptions options = options_;
  options.server = server;
  options.incarnation = host.incarnation;
  host.peer = std::make_unique<Peer>(options, host.disk);
  Step(server, Wake{});
  for (uint32_t id = 1; id <= hosts_.size(); id++) {
    ServerId other{id};
    if (other == server || !up(other) || !Connected(server, other)) continue;
    Schedule(kLatency,
             {.to = server, .incarnation = host.incarnation, .input = NotificationLinkUp{other}});
    Schedule(
        kLatency,
        {.to = other, .incarnation = at(other).incarnation, .input = NotificationLinkUp{server}});
  }
}

void ZabTrio::Crash(ServerId server, size_t keep) {
  LS_CHECK(up(server));
  Host& host = at(server);
  for (; keep > 0 && !host.in_flight.empty(); keep--) {
    Apply(&host, host.in_flight.front());
    host.in_flight.pop_front();
  }
  host.in_flight.clear();
  host.receiving.clear();
  host.received.reset();
  host.hold = false;
  host.peer.reset();
  std::erase_if(queue_, [&](const auto& arrival) {
    return arrival.second.from == server && Held(arrival.second);
  });
  std::erase_if(held_, [&](const auto& pair) { return pair.first == server; });
  for (Channel& channel : channels_) {
    if (channel.learner == server && channel.at_learner) CloseBy(server, channel.at_learner);
    if (channel.leader == server && channel.at_leader) CloseBy(server, channel.at_leader);
  }
  std::erase_if(snapshots_, [&](const auto& s) { return s.first == server; });
}

ServerId ZabTrio::leader() const {
  ServerId best;
  for (uint32_t id = 1; id <= hosts_.size(); id++) {
    if (!up({id}) || peer({id}).state() != ServerState::kLeading || !peer({id}).established())
      continue;
    if (!best || peer({id}).current_epoch() > peer(best).current_epoch()) best = {id};
  }
  return best;
}

// ---- Disks -------------------------------------------------------------------------------------

void ZabTrio::Apply(Host* host, const Persist& persist) {
  DurableState& disk = host->disk;
  auto cut_after = [&](Zxid to) {
    while (!disk.transactions.empty() && disk.transactions.back().zxid > to) {
      disk.transactions.pop_back();
    }
  };
  if (const auto* append = std::get_if<AppendTransaction>(&persist.write)) {
    // A server that has forgotten what its journal holds (a broken rule) writes over it.
    cut_after({append->transaction.zxid.epoch, append->transaction.zxid.counter - 1});
    disk.transactions.push_back(append->transaction);
  } else if (const auto* truncate = std::get_if<TruncateHistory>(&persist.write)) {
    cut_after(truncate->to);
  } else if (const auto* accepted = std::get_if<SetAcceptedEpoch>(&persist.write)) {
    disk.accepted_epoch = accepted->epoch;
  } else if (const auto* current = std::get_if<SetCurrentEpoch>(&persist.write)) {
    disk.current_epoch = current->epoch;
  } else {
    Zxid zxid = std::get<InstallSnapshot>(persist.write).zxid;
    LS_CHECK(host->received.has_value());
    disk.transactions.clear();
    disk.base = zxid;
    disk.snapshot = zxid;
    host->disk_state = *host->received;
  }
}

void ZabTrio::PersistFirst(ServerId server) {
  Host& host = at(server);
  Persist persist = std::move(host.in_flight.front());
  host.in_flight.pop_front();
  Apply(&host, persist);
  Step(server, Persisted{persist.id});
}

void ZabTrio::PersistHeld(ServerId server, size_t count) {
  for (; count > 0; count--) {
    LS_CHECK(!at(server).in_flight.empty());
    PersistFirst(server);
  }
}

void ZabTrio::ReleaseWrites(ServerId server) {
  at(server).hold = false;
  while (!at(server).in_flight.empty()) PersistFirst(server);
}

void ZabTrio::Compact(ServerId server) {
  Host& host = at(server);
  Zxid zxid = host.state.empty() ? Zxid{} : host.state.back().zxid;
  host.disk_state = host.state;
  host.disk.snapshot = zxid;
  host.disk.base = zxid;
  std::erase_if(host.disk.transactions, [&](const Transaction& t) { return t.zxid <= zxid; });
}

// ---- Network -----------------------------------------------------------------------------------

bool ZabTrio::Connected(ServerId a, ServerId b) const {
  if (group_.empty() || a == b) return true;
  auto of_a = group_.find(a);
  auto of_b = group_.find(b);
  return of_a != group_.end() && of_b != group_.end() && of_a->second == of_b->second;
}

void ZabTrio::Partition(const std::vector<std::set<ServerId>>& groups) {
  group_.clear();
  int number = 0;
  for (const auto& group : groups) {
    for (ServerId server : group) group_[server] = number;
    number++;
  }
  if (group_.empty()) group_[{}] = 0;  // everybody alone
  for (Channel& channel : channels_) {
    if (!Connected(channel.learner, channel.leader)) channel.cut = true;
  }
}

void ZabTrio::Heal(bool break_channels) {
  group_.clear();
  for (size_t i = 0; i < channels_.size(); i++) {
    Channel& channel = channels_[i];
    if (!channel.cut || !break_channels) continue;
    channel.cut = false;
    for (ServerId side : {channel.learner, channel.leader}) {
      bool known = side == channel.leader ? static_cast<bool>(channel.at_leader)
                                          : static_cast<bool>(channel.at_learner);
      if (!known || !up(side)) continue;
      Schedule(kLatency, {.to = side,
                          .incarnation = at(side).incarnation,
                          .input = ChannelClosed{side == channel.leader ? channel.at_leader
                                                                        : channel.at_learner},
                          .channel = i + 1});
    }
  }
  for (uint32_t a = 1; a <= hosts_.size(); a++) {
    for (uint32_t b = 1; b <= hosts_.size(); b++) {
      if (a == b || !up({a}) || !up({b})) continue;
      Schedule(kLatency,
               {.to = {a}, .incarnation = at({a}).incarnation, .input = NotificationLinkUp{{b}}});
    }
  }
}

size_t ZabTrio::Find(ServerId server, ConnectionId id) const {
  for (size_t i = channels_.size(); i > 0; i--) {
    const Channel& channel = channels_[i - 1];
    if (channel.leader == server && channel.at_leader == id) return i;
    if (channel.learner == server && channel.at_learner == id) return i;
  }
  return 0;
}

void ZabTrio::BeginOpen(ServerId learner, const OpenChannel& open) {
  uint64_t incarnation = at(learner).incarnation;
  channels_.push_back({.learner = learner, .leader = open.leader, .at_learner = open.channel});
  if (!up(open.leader) || !Connected(learner, open.leader)) {
    Schedule(kLatency, {.to = learner,
                        .incarnation = incarnation,
                        .input = ChannelClosed{open.channel},
                        .channel = channels_.size()});
    return;
  }
  Channel& channel = channels_.back();
  channel.at_leader = {ConnectionId::kAccepted | ++accepted_};
  channel.open = true;
  Schedule(kLatency, {.to = open.leader,
                      .incarnation = at(open.leader).incarnation,
                      .input = ChannelOpened{channel.at_leader},
                      .from = learner,
                      .channel = channels_.size()});
  Schedule(kLatency, {.to = learner,
                      .incarnation = incarnation,
                      .input = ChannelOpened{open.channel},
                      .from = open.leader,
                      .channel = channels_.size()});
}

void ZabTrio::SendOn(ServerId from, const Output::Send& send) {
  size_t found = Find(from, send.channel);
  if (found == 0) return;
  const Channel& channel = channels_[found - 1];
  ServerId to = from == channel.leader ? channel.learner : channel.leader;
  sent_.push_back({now_, from, to, send.message});
  if (on_send) on_send(sent_.back());
  if (channel.cut) return;
  Schedule(kLatency,
           {.to = to,
            .incarnation = at(to).incarnation,
            .input = Received{to == channel.leader ? channel.at_leader : channel.at_learner,
                              send.message},
            .from = from,
            .channel = found});
}

void ZabTrio::CloseBy(ServerId server, ConnectionId id) {
  size_t found = Find(server, id);
  if (found == 0) return;
  Channel& channel = channels_[found - 1];
  bool by_leader = server == channel.leader;
  (by_leader ? channel.at_leader : channel.at_learner) = {};
  ServerId other = by_leader ? channel.learner : channel.leader;
  ConnectionId there = by_leader ? channel.at_learner : channel.at_leader;
  if (!there || channel.cut) return;
  Schedule(kLatency, {.to = other,
                      .incarnation = at(other).incarnation,
                      .input = ChannelClosed{there},
                      .from = server,
                      .channel = found});
}

void ZabTrio::BreakChannel(ServerId learner) {
  for (size_t i = 0; i < channels_.size(); i++) {
    Channel& channel = channels_[i];
    if (channel.learner != learner || !channel.at_learner) continue;
    for (ServerId side : {channel.learner, channel.leader}) {
      ConnectionId id = side == channel.leader ? channel.at_leader : channel.at_learner;
      if (!id) continue;
      Schedule(kLatency, {.to = side,
                          .incarnation = at(side).incarnation,
                          .input = ChannelClosed{id},
                          .channel = i + 1});
    }
  }
}

// ---- One step ----------------------------------------------------------------------------------

void ZabTrio::Step(ServerId server, const Input& input) {
  Output output;
  at(server).peer->Step(now_, input, &output);
  Carry(server, &output);
}

void ZabTrio::Carry(ServerId server, Output* output) {
  Host& host = at(server);
  for (const Event& event : output->events) {
    events_.push_back({now_, server, event});
    if (on_event) on_event(events_.back());
  }
  for (const Delivery& delivery : output->deliveries) {
    if (const auto* deliver = std::get_if<Deliver>(&delivery)) {
      host.state.push_back(deliver->transaction);
      Applied(server, deliver->transaction);
    } else if (std::holds_alternative<RestoreSnapshot>(delivery)) {
      host.state = *std::exchange(host.received, std::nullopt);
    } else if (const auto* changed = std::get_if<ServiceChanged>(&delivery)) {
      host.service = changed->service;
    } else if (const auto* start = std::get_if<StartSnapshot>(&delivery)) {
      snapshots_.push_back({server, *start});
    } else if (const auto* chunk = std::get_if<ReceivedSnapshotChunk>(&delivery)) {
      if (chunk->first) host.receiving.clear();
      Deserialize(chunk->data, &host.receiving);
      if (chunk->last) host.received = std::exchange(host.receiving, {});
    } else if (std::holds_alternative<PingAsked>(delivery)) {
      Schedule({}, {.to = server, .incarnation = host.incarnation, .input = AnswerPing{}});
    }
  }
  for (Persist& persist : output->persists) {
    host.in_flight.push_back(std::move(persist));
    Schedule(kWrite, {.to = server, .incarnation = host.incarnation, .input = Persisted{}});
  }
  for (const auto& to : output->notifications) {
    host.last_vote = to.notification;
    if (!up(to.to) || !Connected(server, to.to)) continue;
    Schedule(kLatency, {.to = to.to,
                        .incarnation = at(to.to).incarnation,
                        .input = ReceivedNotification{server, to.notification},
                        .from = server});
  }
  for (const OpenChannel& open : output->opens) BeginOpen(server, open);
  for (const Output::Send& send : output->sends) SendOn(server, send);
  for (ConnectionId channel : output->closes) CloseBy(server, channel);
  if (!hold_snapshots_) SendSnapshots();
}

void ZabTrio::SendSnapshots() {
  hold_snapshots_ = false;
  auto waiting = std::exchange(snapshots_, {});
  for (const auto& [leader, start] : waiting) SendSnapshot(leader, start);
}

void ZabTrio::SendSnapshot(ServerId leader, const StartSnapshot& start) {
  std::vector<Transaction> state;
  for (const Transaction& t : at(leader).state) {
    if (t.zxid <= start.zxid) state.push_back(t);
  }
  // In two pieces, so that there are a first, a last, and something in between.
  std::vector<Transaction> rest(state.begin() + static_cast<ptrdiff_t>(state.size() / 2),
                                state.end());
  state.resize(state.size() / 2);
  uint64_t incarnation = at(leader).incarnation;
  Schedule({}, {.to = leader,
                .incarnation = incarnation,
                .input = SnapshotChunk{start.channel, Serialize(state), false}});
  Schedule({}, {.to = leader,
                .incarnation = incarnation,
                .input = SnapshotChunk{start.channel, Serialize(rest), true}});
}

// ---- Application -------------------------------------------------------------------------------

void ZabTrio::Applied(ServerId server, const Transaction& transaction) {
  size_t index = at(server).state.size() - 1;
  if (index == committed_.size()) {
    committed_.push_back(transaction);
    return;
  }
  const Transaction& first = committed_[index];
  if (first.zxid == transaction.zxid && first.body == transaction.body) return;
  if (!violation_.empty()) return;
  violation_ = "server " + server.ToString() + " applied " + transaction.zxid.ToString() + " '" +
               std::string(transaction.body.view()) + "' where " + first.zxid.ToString() + " '" +
               std::string(first.body.view()) + "' was applied before";
}

bool ZabTrio::Propose(std::string_view body, ServerId server) {
  if (!server) server = leader();
  if (!server || !up(server) || !peer(server).CanPropose()) return false;
  Step(server, zab::Propose{Bytes::Copy(body)});
  return true;
}

std::string ZabTrio::applied(ServerId server) const { return Join(at(server).state); }

std::string ZabTrio::history(ServerId server) const {
  const Host& host = at(server);
  std::vector<Transaction> all;
  for (const Transaction& t : host.state) {
    if (t.zxid <= host.peer->base_zxid()) all.push_back(t);
  }
  all.insert(all.end(), host.peer->window().begin(), host.peer->window().end());
  return Join(all);
}

size_t ZabTrio::Count(EventKind kind, ServerId server) const {
  size_t count = 0;
  for (const Happened& h : events_) {
    count += h.event.kind == kind && (!server || h.server == server);
  }
  return count;
}

Event ZabTrio::Last(EventKind kind, ServerId server) const {
  for (auto h = events_.rbegin(); h != events_.rend(); ++h) {
    if (h->server == server && h->event.kind == kind) return h->event;
  }
  return {};
}

}  // namespace lockstep::zab
