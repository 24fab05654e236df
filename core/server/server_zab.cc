// What comes from Zab, recovery, snapshots, and the comparison of digests (rule R11).
#include <algorithm>
#include <utility>

#include "core/server/server_impl.h"

namespace lockstep::server {
namespace {

// After the first time, a server that does not serve says so this often.
constexpr Duration kNotServingInterval = Seconds(60);

// Of a server whose state is wrong. What is wrong may be in its memory only.
constexpr char kHowToRepair[] =
    "start it again, which builds its state from its disk; if it stops with these words again, its "
    "disk is wrong: while all other servers are up and stay up, move version-2 out of dataDir and "
    "dataLogDir and start it, and it copies the state of the others";

std::string ZxidText(Zxid zxid) {
  return SessionId{static_cast<int64_t>(zxid.Packed())}.ToString();
}

zab::PeerOptions PeerOptionsOf(const Options& options, uint64_t incarnation) {
  zab::PeerOptions peer = options.zab;
  peer.incarnation = std::max<uint64_t>(incarnation, 1);
  peer.server = options.server;
  peer.voters = options.voters;
  peer.init_timeout = options.tick * options.init_limit;
  peer.sync_timeout = options.tick * options.sync_limit;
  peer.ping_interval = options.tick / 2;
  return peer;
}

}  // namespace

// ---- From Zab ----------------------------------------------------------------------------------

void Server::Impl::On(const zab::Deliver& delivery) {
  const zab::Transaction& transaction = delivery.transaction;
  service_.OnDelivered(now_, transaction.zxid, transaction.body, &service_out_);
  digests_.Append(OwnState());
  audit_.OnApplied(now_, digests_, &output_->events);
  output_->applied.push_back({transaction.zxid, transaction.body});
  applied_since_snapshot_++;
  applied_bytes_since_snapshot_ += transaction.body.size();
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
  applied_bytes_since_snapshot_ = 0;
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
  std::string novices;
  if (const size_t count = peer_->novice_count(); count > 0) {
    novices = "; " + std::to_string(count) + " of them had an empty disk and do not count yet";
  }
  output_->events.push_back(
      {.kind = EventKind::kNotServing,
       .detail = seconds,
       .text = std::string(doing) + ", not serving for " + std::to_string(seconds) +
               " s: reached " + std::to_string(reached.size()) + " of " +
               std::to_string(options_.voters.size()) + " servers (" + names + "); needs " +
               std::to_string(options_.voters.size() / 2 + 1) + novices});
}

// ---- Recovery and snapshots --------------------------------------------------------------------

void Server::Impl::OnRecovered(storage::Recovered recovered) {
  if (broker_) {
    broker_->Start(now_, unix_ms_at_zero_ + now_.ns / 1'000'000, std::move(recovered.logs),
                   recovered.broker_epoch);
  }
  if (options_.voters.empty()) return;
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
  peer_.emplace(PeerOptionsOf(options_, incarnation_), std::move(durable));
  links_.Start(now_, output_);
  StopsServing();
  StepPeer(zab::Wake{});
}

// Whether the transactions since the last snapshot are as long as another one would be: so all
// snapshots together do not cost more than what they make unnecessary.
bool Server::Impl::IsWorthASnapshot() const {
  constexpr uint64_t kNodeBytes = 88;  // of a znode in a snapshot, beside its path and data
  const coordination::Tree& tree = service_.tree();
  const uint64_t bytes = tree.approximate_data_size() + tree.node_count() * kNodeBytes;
  return applied_bytes_since_snapshot_ * 100 >= bytes * options_.snapshot_after_percent;
}

void Server::Impl::MaybeSnapshot() {
  // Partition logs fill the journal too: a long one is to be shortened though few transactions
  // came.
  const bool due = (applied_since_snapshot_ >= snapshot_after_ && IsWorthASnapshot()) ||
                   (applied_since_snapshot_ > 0 && store_.snapshot_would_free_journal());
  if (!due || own_snapshot_ != nullptr || store_.snapshot_in_progress()) return;
  // What is applied is durable here, unless a broken rule let it be applied before.
  if (service_.tree().last_zxid() > peer_->durable_zxid()) return;
  applied_since_snapshot_ = 0;
  applied_bytes_since_snapshot_ = 0;
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

}  // namespace lockstep::server
