#include "core/server/server.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "core/base/check.h"
#include "core/base/random.h"
#include "core/server/foreign_protocol.h"
#include "core/server/four_letter.h"
#include "core/server/server_impl.h"

namespace lockstep::server {
namespace {

// Client connections that have not yet sent the four bytes that tell what they want: how many, and
// for how long.
constexpr size_t kUndecidedMax = 1'000;
constexpr Duration kUndecidedTimeout = Seconds(10);

// Streams of randomness, by purpose.
constexpr uint64_t kServiceStream = 1;
constexpr uint64_t kSnapshotStream = 2;
constexpr uint64_t kBrokerStream = 3;
constexpr uint64_t kFrontEndStream = 4;

coordination::ServiceOptions ServiceOptionsOf(const Options& options) {
  coordination::ServiceOptions service = options.coordination;
  service.server = options.server;
  service.tick = options.tick;
  return service;
}

storage::StoreOptions StoreOptionsOf(const Options& options) {
  storage::StoreOptions store = options.storage;
  store.server = options.server;
  if (options.broker) {
    store.logs = options.broker->broker.log;
    store.logs->broker = options.broker->broker.broker.value;
  }
  return store;
}

LinksOptions LinksOptionsOf(const Options& options) {
  return {.server = options.server,
          .voters = options.voters,
          .frame_bytes_max = options.frame_bytes_max};
}

// A server without the coordinator role has no voters, and nobody whose state it would compare.
std::vector<ServerId> AuditedBy(const Options& options) {
  return options.voters.empty() ? std::vector<ServerId>{options.server} : options.voters;
}

}  // namespace

Server::Impl::Impl(const Options& options, uint64_t seed, uint64_t incarnation)
    : options_(options),
      incarnation_(incarnation),
      store_(StoreOptionsOf(options), incarnation),
      service_(ServiceOptionsOf(options),
               RandomStream(seed, options.server, incarnation, kServiceStream)),
      links_(LinksOptionsOf(options)),
      digests_(options.digests_max),
      audit_(options.server, AuditedBy(options), options.tick * options.sync_limit),
      random_(seed, options.server, incarnation, kSnapshotStream) {
  if (options.broker) {
    broker_.emplace(*options.broker, &store_,
                    RandomStream(seed, options.server, incarnation, kBrokerStream),
                    RandomStream(seed, options.server, incarnation, kFrontEndStream));
  }
}

void Server::Impl::Step(Instant now, const Input& input, Output* output) {
  LS_CHECK_GE(now, now_);
  now_ = now;
  output_ = output;
  std::visit([&](const auto& i) { On(i); }, input);
  Route();
  output_ = nullptr;
}

void Server::Impl::Flush(Instant now, Output* output) {
  now_ = now;
  output_ = output;
  if (broker_ && peer_) MaybeSnapshot();
  store_.Flush(&store_out_);
  Route();
  output_ = nullptr;
}

void Server::Impl::Fatal(std::string sentence) {
  if (!output_->fatal) output_->fatal = std::move(sentence);
}

// ---- Inputs ------------------------------------------------------------------------------------

void Server::Impl::On(const Start& input) {
  started_at_ = now_;
  unix_ms_at_zero_ = input.unix_ms - now_.ns / 1'000'000;
  service_.SetWallClock(now_, input.unix_ms);
  snapshot_after_ = options_.snap_count / 2 + random_.Below(options_.snap_count / 2 + 1);
  store_.Start(&store_out_);
}

void Server::Impl::On(const Wake&) {
  // Ascending ids are in the order of acceptance, and so of deadlines.
  while (!undecided_.empty() && undecided_.begin()->second.until <= now_) {
    output_->events.push_back({.kind = EventKind::kConnectionClosed,
                               .detail = undecided_.begin()->first.value,
                               .reason = "nothing said in time"});
    output_->closes.push_back(undecided_.begin()->first);
    undecided_.erase(undecided_.begin());
  }
  if (broker_) broker_->OnWake(now_, output_);
  if (!peer_) return;
  links_.OnWake(now_, output_, &peer_inputs_);
  StepPeerInputs();
  if (peer_->next_deadline() <= now_) StepPeer(zab::Wake{});
  if (service_.next_deadline() <= now_) service_.OnWake(now_, &service_out_);
  if (not_serving_at_ <= now_) SayNotServing();
}

void Server::Impl::On(const WallClock& input) {
  unix_ms_at_zero_ = input.unix_ms - now_.ns / 1'000'000;
  service_.SetWallClock(now_, input.unix_ms);
  if (broker_) broker_->SetWallClock(now_, input.unix_ms);
}

void Server::Impl::On(const Accepted& input) {
  if (input.kind == LinkKind::kBroker) {
    LS_CHECK(broker_.has_value());
    return broker_->OnAccepted(now_, input, output_);
  }
  if (input.kind != LinkKind::kClient) {
    if (peer_) return links_.OnAccepted(now_, input.connection, input.kind, output_);
    output_->closes.push_back(input.connection);  // recovery: the dialer tries again
    return;
  }
  uint64_t from_there = 0;
  for (const auto& [other, undecided] : undecided_) {
    from_there += undecided.address == input.address ? 1 : 0;
  }
  const uint32_t limit = options_.coordination.connections_per_address_max;
  if (limit != 0 && from_there >= limit) {
    output_->events.push_back(
        {.kind = EventKind::kConnectionRefused,
         .detail = input.connection.value,
         .reason = "too many connections from one address say nothing",
         .text = input.address + " has all that maxClientCnxns allows, " + std::to_string(limit)});
    output_->closes.push_back(input.connection);
    return;
  }
  if (undecided_.size() >= kUndecidedMax) {
    // The one that has said nothing for longest is the likeliest to go on so.
    output_->events.push_back({.kind = EventKind::kConnectionRefused,
                               .detail = undecided_.begin()->first.value,
                               .reason = "too many connections that say nothing"});
    output_->closes.push_back(undecided_.begin()->first);
    undecided_.erase(undecided_.begin());
  }
  undecided_[input.connection] = {
      .address = input.address, .port = input.port, .until = now_ + kUndecidedTimeout};
}

void Server::Impl::On(const Connected& input) {
  if (broker_ && broker_->Has(input.connection)) {
    return broker_->OnConnected(now_, input.connection);
  }
  links_.OnConnected(now_, input.connection, output_, &peer_inputs_);
  StepPeerInputs();
}

void Server::Impl::On(const ReceivedBytes& input) {
  if (broker_ && broker_->Has(input.connection)) {
    return broker_->OnBytes(now_, input.connection, input.data, output_);
  }
  if (undecided_.contains(input.connection)) return OnUndecidedBytes(input.connection, input.data);
  if (!links_.Has(input.connection)) {
    return service_.OnClientBytes(now_, input.connection, input.data, &service_out_);
  }
  links_.OnBytes(now_, input.connection, input.data, output_, &peer_inputs_);
  StepPeerInputs();
}

void Server::Impl::On(const Closed& input) {
  if (broker_ && broker_->Has(input.connection)) return broker_->OnClosed(now_, input.connection);
  if (undecided_.erase(input.connection) > 0) return;
  if (!links_.Has(input.connection)) {
    return service_.OnClientClosed(now_, input.connection, &service_out_);
  }
  links_.OnClosed(now_, input.connection, &peer_inputs_);
  StepPeerInputs();
}

void Server::Impl::On(const Written& input) {
  if (broker_ && broker_->Has(input.connection)) {
    return broker_->OnWritten(now_, input.connection, input.bytes);
  }
  if (links_.Has(input.connection)) return links_.OnWritten(input.connection, input.bytes);
  service_.OnClientWritten(now_, input.connection, input.bytes, &service_out_);
}

void Server::Impl::On(const FileOpDone& input) { store_.OnDone(input.done, &store_out_); }

void Server::Impl::On(const StopCleanly&) {
  stopping_ = true;
  if (broker_) broker_->Stop(now_);
}

void Server::Impl::StepPeerInputs() {
  for (const zab::Input& input : peer_inputs_) StepPeer(input);
  peer_inputs_.clear();
}

// ---- Four-letter words -------------------------------------------------------------------------

void Server::Impl::OnUndecidedBytes(ConnectionId connection, Bytes bytes) {
  auto found = undecided_.find(connection);
  std::string& seen = found->second.bytes;
  seen.append(bytes.view());
  if (seen.size() < 4) return;
  std::string all = std::move(seen);
  std::string address = std::move(found->second.address);
  uint16_t port = found->second.port;
  undecided_.erase(found);
  std::string_view word = std::string_view(all).substr(0, 4);
  if (IsFourLetterWord(word)) return AnswerWord(connection, word);
  if (const char* foreign = ForeignToZooKeeper(all)) {
    output_->events.push_back({.kind = EventKind::kConnectionRefused,
                               .detail = connection.value,
                               .reason = foreign,
                               .text = std::move(address)});
    return output_->closes.push_back(connection);
  }
  service_.OnClientAccepted(now_, connection, address, port, &service_out_);
  service_.OnClientBytes(now_, connection, Bytes::Copy(all), &service_out_);
}

void Server::Impl::AnswerWord(ConnectionId connection, std::string_view word) {
  FourLetterContext context{.peer = peer(),
                            .service = &service_,
                            .voters = options_.voters.size(),
                            .proposal_bytes_last = proposal_bytes_last_,
                            .proposal_bytes_min = proposal_bytes_min_,
                            .proposal_bytes_max = proposal_bytes_max_,
                            .digests_compared = audit_.compared(),
                            .digest_mismatches = audit_.mismatches(),
                            .uptime = now_ - started_at_,
                            .now = now_,
                            .version = options_.version,
                            .conf = options_.conf,
                            .allowed = &options_.four_letter_words};
  if (word == "mntr" && broker_) context.broker = broker_->Status(now_);
  output_->sends.push_back({connection, Bytes::Copy(AnswerFourLetterWord(word, context))});
  output_->closes.push_back(connection);
  if (word == "srst" && IsAllowed(word, options_.four_letter_words)) service_.ResetStats();
}

// ---- Routing -----------------------------------------------------------------------------------

void Server::Impl::Route() {
  for (;;) {
    if (output_->fatal) return;
    bool more = RouteStore();
    more |= RouteZab();
    more |= RouteService();
    more |= RouteProposals();
    more |= SendSnapshots();
    if (broker_) more |= broker_->Route(now_, output_, &store_out_);
    if (!more) break;
  }
  if (stopping_ && (!broker_ || broker_->stopped())) output_->stopped = true;
}

bool Server::Impl::RouteZab() {
  if (!peer_ || zab_out_.Empty()) return false;
  // Taken out whole: what handling it brings about is appended to a fresh one, in order behind it.
  zab::Output out;
  std::swap(out, zab_out_);
  bool any = false;
  for (Event& event : out.events) output_->events.push_back(event);
  // Before the writes: a received snapshot that is damaged stops us before it is installed.
  for (const zab::Delivery& delivery : out.deliveries) {
    std::visit([&](const auto& d) { On(d); }, delivery);
    if (output_->fatal) return false;
    any = true;
  }
  for (zab::Persist& persist : out.persists) Persist(persist);
  for (const auto& to : out.notifications) {
    links_.SendNotification(to.to, to.notification, output_);
  }
  for (const zab::OpenChannel& open : out.opens) links_.OpenChannel(now_, open, output_);
  for (const auto& send : out.sends) links_.Send(send.channel, send.message, output_);
  for (ConnectionId channel : out.closes) {
    learner_snapshots_.erase(channel);
    links_.Close(channel, output_);
  }
  // Gives the buffers back, if nothing was appended meanwhile.
  if (zab_out_.Empty()) {
    out.Clear();
    std::swap(out, zab_out_);
  }
  return any || !zab_out_.Empty();
}

void Server::Impl::Persist(zab::Persist& persist) {
  struct ToRecord {
    storage::Record operator()(zab::AppendTransaction& w) const {
      return storage::TransactionRecord{w.transaction.zxid, std::move(w.transaction.body)};
    }
    storage::Record operator()(const zab::TruncateHistory& w) const {
      return storage::TruncateRecord{w.to};
    }
    storage::Record operator()(const zab::SetAcceptedEpoch& w) const {
      return storage::AcceptedEpochRecord{w.epoch};
    }
    storage::Record operator()(const zab::SetCurrentEpoch& w) const {
      return storage::CurrentEpochRecord{w.epoch};
    }
    storage::Record operator()(const zab::InstallSnapshot& w) const {
      return storage::SnapshotRecord{w.zxid, /*replaces_history=*/true};
    }
  };
  store_.Append(persist.id, std::visit(ToRecord(), persist.write), &store_out_);
}

bool Server::Impl::RouteStore() {
  if (store_out_.Empty()) return false;
  // As in RouteZab; here and in RouteService the buffers are kept.
  storage::StoreOutput& out = store_routed_;
  out.Clear();
  std::swap(out, store_out_);
  for (storage::FileOp& op : out.ops) output_->file_ops.push_back(std::move(op));
  for (Event& event : out.events) output_->events.push_back(event);
  if (out.fatal) {
    Fatal(std::move(*out.fatal));
    return false;
  }
  for (const Bytes& chunk : out.snapshot_chunks) {
    if (!loader_) loader_.emplace();
    absl::Status status = loader_->Add(chunk);
    if (!status.ok()) {
      Fatal("the newest snapshot is damaged: " + std::string(status.message()));
      return false;
    }
  }
  bool any = false;
  if (out.recovered) {
    OnRecovered(*std::move(out.recovered));
    any = true;
  }
  if (broker_) broker_->OnStore(now_, out);
  if (out.persisted) {
    StepPeer(zab::Persisted{*out.persisted});
    any = true;
  }
  if (out.snapshot_wanted && store_.snapshot_in_progress()) {
    LS_CHECK(own_snapshot_ != nullptr);
    Bytes piece = own_snapshot_->Next(options_.snapshot_piece_bytes);
    bool last = own_snapshot_->done();
    if (last) own_snapshot_.reset();
    store_.WriteSnapshot(std::move(piece), last, &store_out_);
    any = true;
  }
  return any;
}

bool Server::Impl::RouteService() {
  if (service_out_.Empty()) return false;
  coordination::ServiceOutput& out = service_routed_;
  out.Clear();
  std::swap(out, service_out_);
  bool any = false;
  for (Event& event : out.events) output_->events.push_back(event);
  for (auto& send : out.client_sends) {
    output_->sends.push_back({send.connection, std::move(send.data)});
  }
  for (ConnectionId connection : out.client_closes) output_->closes.push_back(connection);
  for (ConnectionId connection : out.pauses) output_->pauses.push_back(connection);
  for (ConnectionId connection : out.resumes) output_->resumes.push_back(connection);
  for (Bytes& body : out.proposals) {
    proposals_.push_back(std::move(body));
    any = true;
  }
  for (Bytes& payload : out.requests) {
    StepPeer(zab::SendRequest{std::move(payload)});
    any = true;
  }
  for (auto& reply : out.replies) {
    StepPeer(zab::SendReply{reply.to, std::move(reply.payload)});
    any = true;
  }
  return any;
}

bool Server::Impl::RouteProposals() {
  if (!peer_) return false;
  bool any = false;
  while (!proposals_.empty() && peer_->CanPropose()) {
    Bytes body = std::move(proposals_.front());
    proposals_.pop_front();
    proposal_bytes_last_ = body.size();
    proposal_bytes_min_ = proposal_bytes_min_ == 0
                              ? body.size()
                              : std::min<uint64_t>(proposal_bytes_min_, body.size());
    proposal_bytes_max_ = std::max<uint64_t>(proposal_bytes_max_, body.size());
    StepPeer(zab::Propose{std::move(body)});
    any = true;
  }
  if (any) service_.OnProposed(peer_->last_zxid());
  return any;
}

Instant Server::Impl::next_deadline() const {
  Instant next = undecided_.empty() ? Instant::Never() : undecided_.begin()->second.until;
  if (broker_) next = std::min(next, broker_->next_deadline());
  if (!peer_) return next;
  return std::min({next, not_serving_at_, peer_->next_deadline(), service_.next_deadline(),
                   links_.next_deadline()});
}

Server::Server(const Options& options, uint64_t seed, uint64_t incarnation)
    : impl_(std::make_unique<Impl>(options, seed, incarnation)) {}
Server::~Server() = default;
void Server::Step(Instant now, const Input& input, Output* output) {
  impl_->Step(now, input, output);
}
void Server::Flush(Instant now, Output* output) { impl_->Flush(now, output); }
Instant Server::next_deadline() const { return impl_->next_deadline(); }
const zab::Peer* Server::peer() const { return impl_->peer(); }
const coordination::Service& Server::service() const { return impl_->service(); }
const BrokerRole* Server::broker() const { return impl_->broker(); }

}  // namespace lockstep::server
