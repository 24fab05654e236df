#include "core/server/server.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "core/base/check.h"
#include "core/base/random.h"
#include "core/server/digest_audit.h"
#include "core/server/digest_log.h"
#include "core/server/four_letter.h"
#include "core/server/links.h"
#include "core/server/ping_payload.h"

namespace lockstep::server {
namespace {

// Client connections that have not yet sent the four bytes that tell what they want: how many, and
// for how long.
constexpr size_t kUndecidedMax = 1'000;
constexpr Duration kUndecidedTimeout = Seconds(10);

// After the first time, a server that does not serve says so this often.
constexpr Duration kNotServingInterval = Seconds(60);

// Streams of randomness, by purpose.
constexpr uint64_t kServiceStream = 1;
constexpr uint64_t kSnapshotStream = 2;

// Of a server whose state is wrong. What is wrong may be in its memory only.
constexpr char kHowToRepair[] =
    "start it again, which builds its state from its disk; if it stops with these words again, its "
    "disk is wrong: while all other servers are up and stay up, move version-2 out of dataDir and "
    "dataLogDir and start it, and it copies the state of the others";

std::string ZxidText(Zxid zxid) {
  return SessionId{static_cast<int64_t>(zxid.Packed())}.ToString();
}

zab::PeerOptions PeerOptionsOf(const Options& options) {
  zab::PeerOptions peer = options.zab;
  peer.server = options.server;
  peer.voters = options.voters;
  peer.init_timeout = options.tick * options.init_limit;
  peer.sync_timeout = options.tick * options.sync_limit;
  peer.ping_interval = options.tick / 2;
  return peer;
}

coordination::ServiceOptions ServiceOptionsOf(const Options& options) {
  coordination::ServiceOptions service = options.coordination;
  service.server = options.server;
  service.tick = options.tick;
  return service;
}

storage::StoreOptions StoreOptionsOf(const Options& options) {
  storage::StoreOptions store = options.storage;
  store.server = options.server;
  return store;
}

LinksOptions LinksOptionsOf(const Options& options) {
  return {.server = options.server,
          .voters = options.voters,
          .frame_bytes_max = options.frame_bytes_max};
}

}  // namespace

class Server::Impl {
 public:
  Impl(const Options& options, uint64_t seed, uint64_t incarnation)
      : options_(options),
        store_(StoreOptionsOf(options), incarnation),
        service_(ServiceOptionsOf(options),
                 RandomStream(seed, options.server, incarnation, kServiceStream)),
        links_(LinksOptionsOf(options)),
        digests_(options.digests_max),
        audit_(options.server, options.voters, options.tick * options.sync_limit),
        random_(seed, options.server, incarnation, kSnapshotStream) {}

  void Step(Instant now, const Input& input, Output* output);
  void Flush(Instant now, Output* output);
  Instant next_deadline() const;
  const zab::Peer* peer() const { return peer_ ? &*peer_ : nullptr; }
  const coordination::Service& service() const { return service_; }

 private:
  void On(const Start& input);
  void On(const Wake& input);
  void On(const WallClock& input);
  void On(const Accepted& input);
  void On(const Connected& input);
  void On(const ReceivedBytes& input);
  void On(const Closed& input);
  void On(const Written& input);
  void On(const FileOpDone& input);

  void OnUndecidedBytes(ConnectionId connection, Bytes bytes);
  void AnswerWord(ConnectionId connection, std::string_view word);

  // Carries the outputs of each part to the others, until none is left.
  void Route();
  bool RouteZab();
  bool RouteStore();
  bool RouteService();
  bool RouteProposals();
  void StepPeer(const zab::Input& input) { peer_->Step(now_, input, &zab_out_); }
  void StepPeerInputs();

  void Persist(zab::Persist& persist);
  void On(const zab::Deliver& delivery);
  void On(const zab::RestoreSnapshot& delivery);
  void On(const zab::ServiceChanged& delivery);
  void On(const zab::RequestReceived& delivery);
  void On(const zab::ReplyReceived& delivery);
  void On(const zab::PingAsked& delivery);
  void On(const zab::PingReceived& delivery);
  void On(const zab::StartSnapshot& delivery);
  void On(const zab::ReceivedSnapshotChunk& delivery);

  // Digests of states, compared while the server runs (rule R11).
  StateDigest OwnState() const;
  void OnStateReport(ServerId from, const StateDigest& state);
  void OnStateDiffers(const Bytes& payload);

  void StopsServing();
  void SayNotServing();

  void OnRecovered(storage::Recovered recovered);
  void MaybeSnapshot();
  bool SendSnapshots();
  void Fatal(std::string sentence);

  const Options options_;
  storage::Store store_;
  coordination::Service service_;
  Links links_;
  DigestLog digests_;
  DigestAudit audit_;              // leader
  std::optional<zab::Peer> peer_;  // once recovery has ended
  RandomStream random_;

  // Of the step under way.
  Instant now_;
  Output* output_ = nullptr;
  zab::Output zab_out_;
  storage::StoreOutput store_out_;
  coordination::ServiceOutput service_out_;
  std::vector<zab::Input> peer_inputs_;

  Instant started_at_;
  // While recovered and not serving; the second is when to say so.
  Instant not_serving_since_;
  Instant not_serving_at_ = Instant::Never();
  // A tree being built: of the newest own snapshot during recovery, later of one from the leader.
  std::optional<coordination::TreeLoader> loader_;
  std::optional<coordination::Tree> received_tree_;  // complete, until its installation is durable
  std::deque<Bytes> proposals_;                      // leader: what Zab has no room for yet
  // Snapshots on their way to learners, by channel.
  std::map<ConnectionId, std::unique_ptr<coordination::TreeSnapshot>> learner_snapshots_;
  std::unique_ptr<coordination::TreeSnapshot> own_snapshot_;
  uint64_t applied_since_snapshot_ = 0;
  uint64_t snapshot_after_ = 0;  // transactions
  // Accepted client connections of which fewer than four bytes are known, and those bytes.
  struct Undecided {
    std::string address;
    uint16_t port = 0;
    Instant until;
    std::string bytes;
  };
  std::map<ConnectionId, Undecided> undecided_;
  uint64_t proposal_bytes_last_ = 0;
  uint64_t proposal_bytes_min_ = 0;
  uint64_t proposal_bytes_max_ = 0;
};

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
  if (!peer_) return;
  links_.OnWake(now_, output_, &peer_inputs_);
  StepPeerInputs();
  if (peer_->next_deadline() <= now_) StepPeer(zab::Wake{});
  if (service_.next_deadline() <= now_) service_.OnWake(now_, &service_out_);
  if (not_serving_at_ <= now_) SayNotServing();
}

void Server::Impl::On(const WallClock& input) { service_.SetWallClock(now_, input.unix_ms); }

void Server::Impl::On(const Accepted& input) {
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
  links_.OnConnected(now_, input.connection, output_, &peer_inputs_);
  StepPeerInputs();
}

void Server::Impl::On(const ReceivedBytes& input) {
  if (undecided_.contains(input.connection)) return OnUndecidedBytes(input.connection, input.data);
  if (!links_.Has(input.connection)) {
    return service_.OnClientBytes(now_, input.connection, input.data, &service_out_);
  }
  links_.OnBytes(now_, input.connection, input.data, output_, &peer_inputs_);
  StepPeerInputs();
}

void Server::Impl::On(const Closed& input) {
  if (undecided_.erase(input.connection) > 0) return;
  if (!links_.Has(input.connection)) {
    return service_.OnClientClosed(now_, input.connection, &service_out_);
  }
  links_.OnClosed(now_, input.connection, &peer_inputs_);
  StepPeerInputs();
}

void Server::Impl::On(const Written& input) {
  if (links_.Has(input.connection)) return links_.OnWritten(input.connection, input.bytes);
  service_.OnClientWritten(now_, input.connection, input.bytes, &service_out_);
}

void Server::Impl::On(const FileOpDone& input) { store_.OnDone(input.done, &store_out_); }

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
    if (!more) return;
  }
}

bool Server::Impl::RouteZab() {
  if (!peer_) return false;
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
  storage::StoreOutput out;
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
  coordination::ServiceOutput out;
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

// ---- From Zab ----------------------------------------------------------------------------------

void Server::Impl::On(const zab::Deliver& delivery) {
  const zab::Transaction& transaction = delivery.transaction;
  service_.OnDelivered(now_, transaction.zxid, transaction.body, &service_out_);
  digests_.Append(OwnState());
  audit_.OnApplied(now_, digests_, &output_->events);
  output_->applied.push_back({transaction.zxid, transaction.body});
  applied_since_snapshot_++;
  MaybeSnapshot();
}

void Server::Impl::On(const zab::RestoreSnapshot& delivery) {
  LS_CHECK(received_tree_.has_value());
  LS_CHECK_EQ(received_tree_->last_zxid(), delivery.zxid);
  // An own snapshot under way reads from the tree that goes; the store has given it up already.
  own_snapshot_.reset();
  service_.Restore(*std::move(received_tree_));
  digests_.Reset(OwnState());
  received_tree_.reset();
  applied_since_snapshot_ = 0;
}

void Server::Impl::On(const zab::ServiceChanged& delivery) {
  coordination::Role role = coordination::Role::kStopped;
  if (delivery.service == zab::Service::kFollowing) role = coordination::Role::kFollowing;
  if (delivery.service == zab::Service::kLeading) role = coordination::Role::kLeading;
  if (role == coordination::Role::kStopped) {
    // Never proposed, so nobody was told anything about them; their clients' connections close.
    // What the service has said in this very step belongs to the reign that ends, too: kept, it
    // would be proposed in the next one, where nothing knows of it.
    proposals_.clear();
    service_out_.proposals.clear();
    service_out_.requests.clear();
    service_out_.replies.clear();
    learner_snapshots_.clear();
  }
  if (role == coordination::Role::kStopped) {
    StopsServing();
  } else {
    not_serving_at_ = Instant::Never();
  }
  audit_.Clear();
  service_.SetRole(now_, role, delivery.leader, delivery.epoch, &service_out_);
  if (role == coordination::Role::kLeading) service_.OnProposed(peer_->last_zxid());
}

void Server::Impl::On(const zab::RequestReceived& delivery) {
  service_.OnRequest(now_, delivery.from, delivery.payload, &service_out_);
}

void Server::Impl::On(const zab::ReplyReceived& delivery) {
  service_.OnReply(now_, delivery.payload, &service_out_);
}

void Server::Impl::On(const zab::PingAsked& delivery) {
  // Not answered: the leader would compare our state again at once, and say the same again.
  if (!delivery.payload.empty()) return OnStateDiffers(delivery.payload);
  PingAnswer answer{.touched = service_.TakeTouchedSessions()};
  // A server that does not serve yet may be about to receive another state.
  if (service_.role() == coordination::Role::kFollowing) answer.state = OwnState();
  StepPeer(zab::AnswerPing{EncodePingAnswer(answer)});
}

void Server::Impl::On(const zab::PingReceived& delivery) {
  absl::StatusOr<PingAnswer> answer = DecodePingAnswer(delivery.payload);
  if (!answer.ok()) {
    output_->events.push_back({.kind = EventKind::kIgnored,
                               .peer = delivery.from,
                               .reason = "malformed answer to a ping"});
    return;
  }
  service_.OnTouchedSessions(now_, delivery.from, answer->touched);
  if (answer->state && service_.role() == coordination::Role::kLeading) {
    OnStateReport(delivery.from, *answer->state);
  }
}

// ---- Digests -----------------------------------------------------------------------------------

StateDigest Server::Impl::OwnState() const {
  return {service_.tree().last_zxid(), service_.tree().digest()};
}

void Server::Impl::OnStateReport(ServerId from, const StateDigest& state) {
  audit_.OnReport(now_, from, state, digests_, peer_->last_zxid(), &output_->events);
  const DigestAudit::Verdict verdict = audit_.Judge(now_, from);
  switch (verdict) {
    case DigestAudit::Verdict::kNone:
      return;
    case DigestAudit::Verdict::kLeaderOutvoted:
      return Fatal(
          "the state of this server, the leader, differs from that of a majority of the "
          "ensemble as of zxid " +
          ZxidText(audit_.OwnState(from).zxid) + ", so it is damaged; " + kHowToRepair);
    case DigestAudit::Verdict::kFollowerOutvoted:
    case DigestAudit::Verdict::kUndecided:
      break;
  }
  // The follower stops itself: it alone can keep its clients from being served a wrong state, and
  // it alone knows whether what we say is still so.
  const bool outvoted = verdict == DigestAudit::Verdict::kFollowerOutvoted;
  StepPeer(zab::SendPing{
      from, EncodeStateDiffers({.state = audit_.OwnState(from), .outvoted = outvoted})});
}

void Server::Impl::OnStateDiffers(const Bytes& payload) {
  auto ignored = [&](const char* reason) {
    output_->events.push_back(
        {.kind = EventKind::kIgnored, .peer = peer_->leader(), .reason = reason});
  };
  absl::StatusOr<StateDiffers> word = DecodeStateDiffers(payload);
  if (!word.ok()) return ignored("malformed word with a ping");
  const std::optional<uint64_t> own = digests_.AsOf(word->state.zxid);
  // The leader says so again as long as it is so, of a newer state each time.
  if (!own) return ignored("told to differ in a state that is forgotten");
  // Nobody stops for a word that its own memory contradicts.
  if (*own == word->state.digest) return ignored("told to differ in a state that is equal");
  output_->events.push_back({.kind = EventKind::kDigestMismatch,
                             .peer = peer_->leader(),
                             .zxid = word->state.zxid,
                             .reason = "the leader has another state than this server"});
  const std::string differs = "the state of this server differs from that of its leader, server " +
                              peer_->leader().ToString() + ", as of zxid " +
                              ZxidText(word->state.zxid);
  Fatal(word->outvoted
            ? differs + ", which a majority of the ensemble shares, so this server is damaged; " +
                  kHowToRepair
            : differs +
                  ", and too few servers are up to tell which of the two is damaged; start "
                  "all servers: the one that differs from the majority will stop and say so");
}

void Server::Impl::On(const zab::StartSnapshot& delivery) {
  std::unique_ptr<coordination::TreeSnapshot> snapshot = service_.Snapshot();
  LS_CHECK_EQ(snapshot->zxid(), delivery.zxid);
  learner_snapshots_[delivery.channel] = std::move(snapshot);
}

void Server::Impl::On(const zab::ReceivedSnapshotChunk& delivery) {
  if (delivery.first) {
    loader_.emplace();
    received_tree_.reset();
  }
  absl::Status status = loader_->Add(delivery.data);
  if (status.ok() && delivery.last) {
    absl::StatusOr<coordination::Tree> tree = loader_->Finish();
    status = tree.status();
    if (status.ok() && tree->last_zxid() != delivery.zxid) {
      status = absl::DataLossError("it is of another zxid than announced");
    }
    if (status.ok()) received_tree_ = *std::move(tree);
    loader_.reset();
  }
  if (!status.ok()) {
    return Fatal("the snapshot from the leader is damaged: " + std::string(status.message()) +
                 "; nothing of it was kept, start this server again");
  }
  store_.ReceiveSnapshot(delivery.zxid, delivery.first, delivery.last, delivery.data, &store_out_);
}

// ---- Without a leader
// ----------------------------------------------------------------------------

void Server::Impl::StopsServing() {
  not_serving_since_ = now_;
  not_serving_at_ = now_ + options_.tick * options_.init_limit;
}

// The one thing that an operator wants to know then: whom this server reaches, and whether they are
// enough.
void Server::Impl::SayNotServing() {
  not_serving_at_ = now_ + kNotServingInterval;
  std::vector<ServerId> reached = links_.Reached();
  reached.push_back(options_.server);
  std::sort(reached.begin(), reached.end());
  const uint64_t seconds =
      static_cast<uint64_t>((now_ - not_serving_since_).Milliseconds() / 1'000);
  std::string names;
  for (ServerId server : reached) names += (names.empty() ? "" : ", ") + server.ToString();
  const char* doing = "looking";
  if (peer_->state() == zab::ServerState::kFollowing) doing = "being synchronized";
  if (peer_->state() == zab::ServerState::kLeading) doing = "leading, not followed by a quorum yet";
  output_->events.push_back({.kind = EventKind::kNotServing,
                             .detail = seconds,
                             .text = std::string(doing) + ", not serving for " +
                                     std::to_string(seconds) + " s: reached " +
                                     std::to_string(reached.size()) + " of " +
                                     std::to_string(options_.voters.size()) + " servers (" + names +
                                     "); needs " + std::to_string(options_.voters.size() / 2 + 1)});
}

// ---- Recovery and snapshots --------------------------------------------------------------------

void Server::Impl::OnRecovered(storage::Recovered recovered) {
  if (recovered.snapshot != Zxid{}) {
    LS_CHECK(loader_.has_value());
    absl::StatusOr<coordination::Tree> tree = loader_->Finish();
    loader_.reset();
    if (!tree.ok()) {
      return Fatal("the newest snapshot is damaged: " + std::string(tree.status().message()));
    }
    if (tree->last_zxid() != recovered.snapshot) {
      return Fatal("the newest snapshot is of " + tree->last_zxid().ToString() +
                   ", but its name and the journal say " + recovered.snapshot.ToString());
    }
    service_.Restore(*std::move(tree));
  }
  digests_.Reset(OwnState());
  zab::DurableState durable{.accepted_epoch = recovered.accepted_epoch,
                            .current_epoch = recovered.current_epoch,
                            .base = recovered.base,
                            .snapshot = recovered.snapshot};
  durable.transactions.reserve(recovered.transactions.size());
  for (storage::TransactionRecord& record : recovered.transactions) {
    durable.transactions.push_back({record.zxid, std::move(record.body)});
  }
  peer_.emplace(PeerOptionsOf(options_), std::move(durable));
  links_.Start(now_, output_);
  StopsServing();
  StepPeer(zab::Wake{});
}

void Server::Impl::MaybeSnapshot() {
  if (applied_since_snapshot_ < snapshot_after_ || own_snapshot_ != nullptr ||
      store_.snapshot_in_progress()) {
    return;
  }
  // What is applied is durable here, unless a broken rule let it be applied before.
  if (service_.tree().last_zxid() > peer_->durable_zxid()) return;
  applied_since_snapshot_ = 0;
  // Servers that started together would all write their snapshots at the same moment.
  snapshot_after_ = options_.snap_count / 2 + random_.Below(options_.snap_count / 2 + 1);
  own_snapshot_ = service_.Snapshot();
  store_.BeginSnapshot(own_snapshot_->zxid(), &store_out_);
}

bool Server::Impl::SendSnapshots() {
  bool any = false;
  for (auto at = learner_snapshots_.begin(); at != learner_snapshots_.end();) {
    auto& [channel, snapshot] = *at;
    if (!links_.Has(channel)) {
      at = learner_snapshots_.erase(at);
      continue;
    }
    bool last = false;
    while (!last && links_.Backlog(channel) < options_.snapshot_backlog_max) {
      Bytes piece = snapshot->Next(options_.snapshot_piece_bytes);
      last = snapshot->done();
      // Carried out at once, so that the backlog counts it.
      StepPeer(zab::SnapshotChunk{channel, std::move(piece), last});
      for (const auto& send : zab_out_.sends) links_.Send(send.channel, send.message, output_);
      zab_out_.sends.clear();
      any = true;
    }
    at = last ? learner_snapshots_.erase(at) : std::next(at);
  }
  return any;
}

Instant Server::Impl::next_deadline() const {
  Instant next = undecided_.empty() ? Instant::Never() : undecided_.begin()->second.until;
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

}  // namespace lockstep::server
