// All TCP of a server, on one Asio loop: listeners, and connections that were accepted or dialed.
//
// Bytes that arrive, and connections that come and go, are handed to `receive` at once; what is to
// be sent is queued until Flush, which makes one gathered write per connection. A connection is
// read once between two calls of Flush, so that a pause that is asked for is one. `receive` must
// not call back into this object: the host collects its outputs and carries them out before Flush.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/steady_timer.hpp"
#include "core/base/bytes.h"
#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/server/io.h"
#include "shell/config.h"
#include "shell/log.h"

namespace lockstep::shell {

struct SocketOptions {
  // A name that does not resolve, or a peer that does not answer, is given up after this.
  Duration connect_timeout = Seconds(5);
  // Unacknowledged bytes to a peer for so long end the connection. Without it, a connection that
  // outlives a long partition would sleep in TCP's doubled retransmission time-outs after it.
  Duration peer_silence_max = Seconds(10);
  // A closed connection gets so long to take what was sent before, and to close its own end.
  Duration linger_max = Seconds(5);
  // A receiver that leaves more than this unsent is cut off.
  uint64_t unsent_bytes_max = 256 << 20;
  // Of clients and brokers that are accepted; more are closed at once, so that there are
  // descriptors left for files and for the other servers of the ensemble.
  size_t connections_max = SIZE_MAX;
  int listen_backlog = 0;  // 0 = the system's greatest
};

class Sockets {
 public:
  using Receive = std::function<void(const server::Input&)>;

  Sockets(boost::asio::io_context* io, Log* log, const SocketOptions& options, Receive receive);
  ~Sockets();

  // Begins to accept connections. The error is a sentence for the operator.
  absl::Status Listen(server::LinkKind kind, const Endpoint& endpoint);
  // The port that the last Listen of `kind` got; for tests, which listen on port 0.
  uint16_t port(server::LinkKind kind) const;

  void Dial(ConnectionId id, server::LinkKind kind, const Endpoint& endpoint);
  // Ignored if the connection is gone; `receive` has been or will be told.
  void Send(ConnectionId id, Bytes data);
  // After what was sent. Nothing more is received from it.
  void Close(ConnectionId id);
  void PauseReading(ConnectionId id);
  void ResumeReading(ConnectionId id);

  // Writes what was queued since the last call. May call `receive` (Written, Closed).
  void Flush();

 private:
  class Connection;
  struct Listener;
  using Tcp = boost::asio::ip::tcp;
  using Error = boost::system::error_code;

  Connection* Find(ConnectionId id);

  void Accept(Listener* listener);
  void OnAccept(Listener* listener, Error error, Tcp::socket socket);
  void NoteRefused(const Listener& listener);

  void OnResolved(ConnectionId id, Error error, std::vector<Tcp::endpoint> endpoints);
  void ConnectToNext(ConnectionId id);
  void NoteUnreachable(const Endpoint& endpoint, const std::string& reason);
  void OnConnected(ConnectionId id, Error error);

  void WaitToRead(ConnectionId id, Connection* connection);
  void OnReadable(ConnectionId id);
  void MarkDirty(ConnectionId id, Connection* connection);
  void Write(ConnectionId id, Connection* connection);
  void OnWritable(ConnectionId id);
  // From now on the connection has linger_max to end.
  void BoundClosing(ConnectionId id);
  void FinishClose(ConnectionId id, Connection* connection);
  // Erases the connection; tells the machine unless it has closed it itself.
  void Drop(ConnectionId id);
  void SweepLingering();

  boost::asio::io_context& io_;
  Log& log_;
  const SocketOptions options_;
  const Receive receive_;

  std::vector<std::unique_ptr<Listener>> listeners_;
  uint64_t accepted_ = 0;
  uint64_t refused_ = 0;  // since that was last told
  std::chrono::steady_clock::time_point refused_told_;
  absl::flat_hash_map<ConnectionId, std::unique_ptr<Connection>> connections_;
  // Connections with something to write or to close in the next Flush; a connection is here once.
  std::vector<ConnectionId> dirty_;
  // Connections that were read in this batch. They are read on after Flush, if they were not paused
  // by then.
  std::vector<ConnectionId> read_;
  // Where names resolved to when they last led to a connection.
  absl::flat_hash_map<std::string, std::vector<Tcp::endpoint>> resolved_;
  // Endpoints that could not be reached when last dialed, and when to say so next.
  absl::flat_hash_map<std::string, std::chrono::steady_clock::time_point> unreachable_;
  // Closed by one side, and not yet by both (or gone since). Ordered by deadline.
  struct Lingering {
    std::chrono::steady_clock::time_point until;
    ConnectionId id;
  };
  std::vector<Lingering> lingering_;
  boost::asio::steady_timer linger_timer_;
  // Where all connections read into; what was read is copied out in its exact size, so that idle
  // connections cost no buffer.
  std::vector<char> read_buffer_;
};

}  // namespace lockstep::shell
