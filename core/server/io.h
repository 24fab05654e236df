// Everything that goes into a Server and comes out of it: all that a host (the shell, the
// simulator) has to provide. The bytes are those of production in both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/event.h"
#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/base/zxid.h"
#include "core/server/log_observation.h"
#include "core/storage/file_ops.h"

namespace lockstep::server {

// What a connection is for. A server dials each other voter's election port and sends its
// notifications there (it never sends on an accepted election connection), so there is no contest
// about who dials. A learner dials the learner port of its leader; that channel goes both ways.
// Clients of ZooKeeper's protocol come by kClient. The broker role's listener takes clients of
// Kafka's protocol and other brokers alike (kBroker); brokers dial each other's, and the client
// port of a server of the coordination service (kCoordination).
enum class LinkKind : uint8_t { kElection, kLearner, kClient, kBroker, kCoordination };
const char* ToString(LinkKind kind);

// ---- Inputs ------------------------------------------------------------------------------------

// The first input. The host's wall clock at `now`, in milliseconds since the Unix epoch.
struct Start {
  int64_t unix_ms = 0;
};
// The deadline has come, or may have. Never wrong to send.
struct Wake {};
// The wall clock was set; also sent now and then against drift.
struct WallClock {
  int64_t unix_ms = 0;
};
// A connection was accepted on the port for `kind`. `address` is the remote one without its port.
struct Accepted {
  ConnectionId connection;  // chosen by the host, with ConnectionId::kAccepted set
  LinkKind kind = LinkKind::kClient;
  std::string address;
  uint16_t port = 0;  // the remote one; for people
};
// A Dial has succeeded. (A failed one is Closed.)
struct Connected {
  ConnectionId connection;
};
// Bytes as they came, cut anywhere.
struct ReceivedBytes {
  ConnectionId connection;
  Bytes data;
};
// Gone: by the other side, by an error, or a Dial failed. Not sent for what the machine closed.
struct Closed {
  ConnectionId connection;
};
// So many bytes of what was sent have left the host's own buffer (client and learner connections;
// it is what bounds the memory of slow receivers).
struct Written {
  ConnectionId connection;
  uint64_t bytes = 0;
};
struct FileOpDone {
  storage::FileDone done;
};
// Stop cleanly: Output::stopped says when that is done. (Stopping at any moment is safe; this saves
// others a fail-over, and the next start its checks.)
struct StopCleanly {};

using Input = std::variant<Start, Wake, WallClock, Accepted, Connected, ReceivedBytes, Closed,
                           Written, FileOpDone, StopCleanly>;

// ---- Outputs -----------------------------------------------------------------------------------

struct Send {
  ConnectionId connection;
  Bytes data;
};
struct Dial {
  ConnectionId connection;  // chosen by the machine
  LinkKind kind = LinkKind::kElection;
  ServerId to;       // kElection, kLearner: the host knows where that server's ports are
  std::string host;  // kBroker, kCoordination
  uint16_t port = 0;
};

// A transaction was applied here: for checkers and tests, not for the host to act on.
struct AppliedTransaction {
  Zxid zxid;
  Bytes body;
};

// Appended to by Step; the host carries everything out and clears it. Outputs may be carried out in
// any order, except: sends to one connection, and operations on one file, keep theirs; a connection
// is closed after the sends to it.
struct Output {
  std::vector<Send> sends;
  std::vector<Dial> dials;
  std::vector<ConnectionId> closes;
  std::vector<ConnectionId> pauses;  // stop reading from a client connection
  std::vector<ConnectionId> resumes;
  std::vector<storage::FileOp> file_ops;
  std::vector<Event> events;
  std::vector<AppliedTransaction> applied;
  std::vector<LogObservation> logs_seen;  // see BrokerRoleOptions::observe_logs
  bool stopped = false;                   // the answer to StopCleanly: the process may exit
  // The server must stop: a sentence for the operator. Nothing else of this output matters; the
  // process exits, and recovers from what is durable.
  std::optional<std::string> fatal;

  void Clear();
};

}  // namespace lockstep::server
