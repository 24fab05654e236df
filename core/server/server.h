// One server process as one machine: routes inputs and outputs between Zab, the znode service, the
// journal and the peers' wire format. Its two hosts are the shell (production) and the simulator.
//
// A machine is a value. It reads no clock, no socket, no disk, no random device and no global. You
// give it one input and the time; it changes itself and appends to its output. Same state, same
// input, same time: same output, byte for byte.
//
// The host's loop: Step for every input that is ready; then Flush once; then carry out the output.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/coordination/service.h"
#include "core/server/broker_role.h"
#include "core/server/io.h"
#include "core/storage/store.h"
#include "core/zab/peer.h"

namespace lockstep::server {

struct Options {
  ServerId server;
  // The coordinator role: with `server`; one alone is an ensemble too. Empty: not that role.
  std::vector<ServerId> voters;
  // The broker role; nothing: not that role.
  std::optional<BrokerRoleOptions> broker;

  Duration tick = Seconds(2);
  uint32_t init_limit = 10;  // ticks: to find, hear and be synchronized by a leader
  uint32_t sync_limit = 5;   // ticks: to be heard from in broadcast
  // Between two own snapshots there are at least so many transactions (drawn anew each time: from a
  // half of it to all of it), ...
  uint32_t snap_count = 100'000;
  // ... and in them at least this share of the bytes that a snapshot would have (percent), so that
  // a great tree is not written over and over for the sake of small changes to it.
  uint32_t snapshot_after_percent = 100;
  // Snapshots are written and sent in pieces of about this size (bytes), ...
  size_t snapshot_piece_bytes = 256 << 10;
  // ... to a learner, no more than this is ahead of what its connection has taken (bytes).
  uint64_t snapshot_backlog_max = 4 << 20;

  zab::PeerOptions zab;                       // server, voters and times are filled in from above
  coordination::ServiceOptions coordination;  // likewise
  storage::StoreOptions storage;              // likewise
  uint32_t frame_bytes_max = 64 << 20;        // of a peer frame
  size_t digests_max = 16'384;                // of the last states, kept to be compared
  std::string version = "lockstep";           // for four-letter words
  std::string conf;                           // the answer to `conf`
  std::vector<std::string> four_letter_words = {"srvr"};  // allowed; "*" allows all
};

class Server {
 public:
  // `seed` keys the random streams; `incarnation` differs between any two starts on one directory.
  Server(const Options& options, uint64_t seed, uint64_t incarnation);
  ~Server();

  void Step(Instant now, const Input& input, Output* output);
  // Ends a batch of steps: starts the journal write that covers all of them.
  void Flush(Instant now, Output* output);
  // When Wake is due, or Instant::Never().
  Instant next_deadline() const;

  // For metrics, checkers and tests. peer() is null until recovery has ended, and without the
  // coordinator role; broker() without the broker role.
  const zab::Peer* peer() const;
  const coordination::Service& service() const;
  const BrokerRole* broker() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::server
