// The server's insides, shared by the two files that implement it: server.cc has inputs, clients
// that have not said what they want, and the routes between the parts; server_zab.cc has what comes
// from Zab, recovery, snapshots and the comparison of digests.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/random.h"
#include "core/server/digest_audit.h"
#include "core/server/digest_log.h"
#include "core/server/links.h"
#include "core/server/ping_payload.h"
#include "core/server/server.h"

namespace lockstep::server {

class Server::Impl {
 public:
  Impl(const Options& options, uint64_t seed, uint64_t incarnation);

  void Step(Instant now, const Input& input, Output* output);
  void Flush(Instant now, Output* output);
  Instant next_deadline() const;
  const zab::Peer* peer() const { return peer_ ? &*peer_ : nullptr; }
  const coordination::Service& service() const { return service_; }
  const BrokerRole* broker() const { return broker_ ? &*broker_ : nullptr; }

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
  void On(const StopCleanly& input);

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
  bool IsWorthASnapshot() const;
  void MaybeSnapshot();
  bool SendSnapshots();
  void Fatal(std::string sentence);

  const Options options_;
  const uint64_t incarnation_;
  storage::Store store_;
  coordination::Service service_;
  Links links_;
  DigestLog digests_;
  DigestAudit audit_;              // leader
  std::optional<zab::Peer> peer_;  // once recovery has ended
  std::optional<BrokerRole> broker_;
  RandomStream random_;

  // Of the step under way.
  Instant now_;
  Output* output_ = nullptr;
  zab::Output zab_out_;
  storage::StoreOutput store_out_;
  coordination::ServiceOutput service_out_;
  // What is being carried; kept for their memory.
  storage::StoreOutput store_routed_;
  coordination::ServiceOutput service_routed_;
  std::vector<zab::Input> peer_inputs_;

  Instant started_at_;
  // While recovered and not serving; the second is when to say so.
  Instant not_serving_since_;
  Instant not_serving_at_ = Instant::Never();
  int64_t unix_ms_at_zero_ = 0;  // the wall clock at Instant 0, as it was last told
  bool stopping_ = false;
  // A tree being built: of the newest own snapshot during recovery, later of one from the leader.
  std::optional<coordination::TreeLoader> loader_;
  std::optional<coordination::Tree> received_tree_;  // complete, until its installation is durable
  std::deque<Bytes> proposals_;                      // leader: what Zab has no room for yet
  // Snapshots on their way to learners, by channel.
  std::map<ConnectionId, std::unique_ptr<coordination::TreeSnapshot>> learner_snapshots_;
  std::unique_ptr<coordination::TreeSnapshot> own_snapshot_;
  uint64_t applied_since_snapshot_ = 0;
  uint64_t applied_bytes_since_snapshot_ = 0;
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

}  // namespace lockstep::server
