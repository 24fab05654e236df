#include "shell/sockets.h"

#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <utility>

#include "boost/asio/error.hpp"
#include "boost/asio/ip/v6_only.hpp"
#include "core/base/check.h"

namespace lockstep::shell {
namespace {

namespace asio = boost::asio;
using server::LinkKind;

constexpr size_t kReadBytes = 256 << 10;
// How often one connection may fill the read buffer before others have their turn.
constexpr int kReadsPerTurn = 4;
constexpr size_t kSlicesPerWrite = 256;
constexpr auto kAcceptBackOff = std::chrono::milliseconds(100);
constexpr auto kLingerSweep = std::chrono::milliseconds(500);

std::chrono::nanoseconds Chrono(Duration duration) { return std::chrono::nanoseconds(duration.ns); }

void SetOption(int fd, int level, int option, int value) {
  // Tuning: a socket works without.
  (void)::setsockopt(fd, level, option, &value, sizeof value);
}

// A client behind an IPv6 listener shows its IPv4 address as what it is.
std::string Describe(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
  }
  return address.to_string();
}

}  // namespace

// ---- State -------------------------------------------------------------------------------------

struct Sockets::Listener {
  Listener(asio::io_context& io, LinkKind kind) : kind(kind), acceptor(io), back_off(io) {}

  const LinkKind kind;
  Tcp::acceptor acceptor;
  asio::steady_timer back_off;
};

class Sockets::Connection {
 public:
  enum class State {
    kConnecting,  // dialed, and not yet there
    kOpen,
    kClosing,    // by the machine: what was sent before still leaves
    kLingering,  // all has left; waits for the other side's end
  };
  // A dial under way.
  struct Dialing {
    explicit Dialing(asio::io_context& io) : resolver(io), timer(io) {}
    Endpoint endpoint;
    Tcp::resolver resolver;
    asio::steady_timer timer;
    std::vector<Tcp::endpoint> candidates;
    size_t next = 0;
  };

  Connection(LinkKind kind, State state, Tcp::socket socket)
      : kind(kind), state(state), socket(std::move(socket)) {}

  int fd() { return socket.native_handle(); }
  bool reports_written() const { return kind != LinkKind::kElection; }

  // Takes `bytes` off the front of the queue.
  void Advance(size_t bytes) {
    unsent -= bytes;
    bytes += front_offset;
    while (!queue.empty() && bytes >= queue.front().size()) {
      bytes -= queue.front().size();
      queue.pop_front();
    }
    front_offset = bytes;
  }

  const LinkKind kind;
  State state;
  Tcp::socket socket;
  std::unique_ptr<Dialing> dialing;  // while kConnecting

  std::deque<Bytes> queue;
  size_t front_offset = 0;  // of queue.front(), already sent
  uint64_t unsent = 0;      // bytes in the queue that were not sent

  bool dirty = false;            // in Sockets::dirty_
  bool paused = false;           // the machine wants no more for now
  bool waiting_to_read = false;  // Asio will tell
  bool waiting_to_write = false;
  // The other side has sent its end. The machine was told; what it sent before it knew still goes
  // out with the next Flush (a client may send `ruok` and its end in one go).
  bool ended = false;
};

Sockets::Sockets(asio::io_context* io, Log* log, const SocketOptions& options, Receive receive)
    : io_(*io),
      log_(*log),
      options_(options),
      receive_(std::move(receive)),
      linger_timer_(*io),
      read_buffer_(kReadBytes) {}

Sockets::~Sockets() = default;

Sockets::Connection* Sockets::Find(ConnectionId id) {
  auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : found->second.get();
}

// ---- Listening ---------------------------------------------------------------------------------

absl::Status Sockets::Listen(LinkKind kind, const Endpoint& endpoint) {
  auto failed = [&](const char* what, const Error& error) {
    std::string advice;
    if (error == asio::error::address_in_use) {
      advice = "; another program has it: stop that one, or choose another port";
    } else if (error.value() == EADDRNOTAVAIL) {
      advice = "; no interface of this machine has that address";
    } else if (error == asio::error::access_denied) {
      advice = "; ports below 1024 need a privilege";
    }
    return absl::FailedPreconditionError(std::string("cannot ") + what + " the " + ToString(kind) +
                                         " port " + endpoint.ToString() + ": " + error.message() +
                                         advice);
  };

  Error error;
  std::vector<Tcp::endpoint> candidates;
  if (endpoint.host.empty()) {
    // One socket for both families, where the machine has IPv6.
    candidates = {{Tcp::v6(), endpoint.port}, {Tcp::v4(), endpoint.port}};
  } else {
    Tcp::resolver resolver(io_);
    for (const auto& entry : resolver.resolve(endpoint.host, std::to_string(endpoint.port),
                                              Tcp::resolver::passive, error)) {
      candidates.push_back(entry.endpoint());
    }
    if (error) return failed("resolve the host of", error);
  }

  for (const Tcp::endpoint& candidate : candidates) {
    auto listener = std::make_unique<Listener>(io_, kind);
    Tcp::acceptor& acceptor = listener->acceptor;
    acceptor.open(candidate.protocol(), error);
    // No IPv6 here; a busy port, on the other hand, is not tried again as IPv4.
    if (error == asio::error::address_family_not_supported) continue;
    if (error) return failed("open", error);
    acceptor.set_option(Tcp::acceptor::reuse_address(true), error);
    if (endpoint.host.empty() && candidate.address().is_v6()) {
      acceptor.set_option(asio::ip::v6_only(false), error);
    }
    acceptor.bind(candidate, error);
    if (error) return failed("bind", error);
    acceptor.listen(options_.listen_backlog > 0 ? options_.listen_backlog
                                                : asio::socket_base::max_listen_connections,
                    error);
    if (error) return failed("listen on", error);
    acceptor.non_blocking(true, error);
    listeners_.push_back(std::move(listener));
    Accept(listeners_.back().get());
    return absl::OkStatus();
  }
  return failed("open", error);
}

uint16_t Sockets::port(LinkKind kind) const {
  for (auto it = listeners_.rbegin(); it != listeners_.rend(); ++it) {
    if ((*it)->kind == kind) return (*it)->acceptor.local_endpoint().port();
  }
  return 0;
}

void Sockets::Accept(Listener* listener) {
  listener->acceptor.async_accept([this, listener](const Error& error, Tcp::socket socket) {
    OnAccept(listener, error, std::move(socket));
  });
}

void Sockets::OnAccept(Listener* listener, Error error, Tcp::socket socket) {
  if (error == asio::error::operation_aborted) return;
  if (error == asio::error::connection_aborted) return Accept(listener);  // gone before its turn
  if (error) {
    // Out of descriptors or memory: the connection stays in the backlog, and accepting again at
    // once would only spin.
    log_.Write(LogLevel::kWarning, "accept-failed",
               {{"port", ToString(listener->kind)}, {"reason", error.message()}});
    listener->back_off.expires_after(kAcceptBackOff);
    listener->back_off.async_wait([this, listener](const Error& aborted) {
      if (!aborted) Accept(listener);
    });
    return;
  }
  const bool ensemble =
      listener->kind == LinkKind::kElection || listener->kind == LinkKind::kLearner;
  if (!ensemble && connections_.size() >= options_.connections_max) {
    NoteRefused(*listener);
    return Accept(listener);  // `socket` is closed on the way
  }
  Tcp::endpoint remote = socket.remote_endpoint(error);
  if (!error) {
    const ConnectionId id{ConnectionId::kAccepted | ++accepted_};
    SetOption(socket.native_handle(), IPPROTO_TCP, TCP_NODELAY, 1);
    SetOption(socket.native_handle(), SOL_SOCKET, SO_KEEPALIVE, 1);
    if (ensemble) {
      SetOption(socket.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT,
                static_cast<int>(options_.peer_silence_max.Milliseconds()));
    }
    auto& slot = connections_[id];
    slot =
        std::make_unique<Connection>(listener->kind, Connection::State::kOpen, std::move(socket));
    WaitToRead(id, slot.get());
    receive_(server::Accepted{id, listener->kind, Describe(remote.address()), remote.port()});
  }
  Accept(listener);
}

// Whoever holds so many tries again and again: once in ten seconds is enough to say.
void Sockets::NoteRefused(const Listener& listener) {
  ++refused_;
  const auto now = std::chrono::steady_clock::now();
  if (now < refused_told_ + std::chrono::seconds(10)) return;
  refused_told_ = now;
  log_.Write(LogLevel::kWarning, "too-many-connections",
             {{"port", ToString(listener.kind)},
              {"connections", std::to_string(connections_.size())},
              {"refused", std::to_string(std::exchange(refused_, 0))},
              {"reason", "the limit of open files (ulimit -n) leaves room for no more"}});
}

// ---- Dialing -----------------------------------------------------------------------------------

void Sockets::Dial(ConnectionId id, LinkKind kind, const Endpoint& endpoint) {
  auto& slot = connections_[id];
  LS_CHECK(slot == nullptr);
  slot = std::make_unique<Connection>(kind, Connection::State::kConnecting, Tcp::socket(io_));
  slot->dialing = std::make_unique<Connection::Dialing>(io_);
  Connection::Dialing& dialing = *slot->dialing;
  dialing.endpoint = endpoint;
  dialing.timer.expires_after(Chrono(options_.connect_timeout));
  dialing.timer.async_wait([this, id](const Error& aborted) {
    Connection* connection = Find(id);
    if (aborted || connection == nullptr) return;
    if (connection->state != Connection::State::kConnecting) return;
    NoteUnreachable(connection->dialing->endpoint, "no answer");
    Drop(id);
  });

  Error error;
  const asio::ip::address literal = asio::ip::make_address(endpoint.host, error);
  if (!error) {
    dialing.candidates = {{literal, endpoint.port}};
    return ConnectToNext(id);
  }
  // A name server that does not answer must not hold up a dial that worked a moment ago.
  auto known = resolved_.find(endpoint.host);
  if (known != resolved_.end()) {
    dialing.candidates = known->second;
    for (Tcp::endpoint& candidate : dialing.candidates) candidate.port(endpoint.port);
    return ConnectToNext(id);
  }
  dialing.resolver.async_resolve(
      endpoint.host, std::to_string(endpoint.port),
      [this, id](const Error& failed, const Tcp::resolver::results_type& results) {
        std::vector<Tcp::endpoint> endpoints;
        for (const auto& entry : results) endpoints.push_back(entry.endpoint());
        OnResolved(id, failed, std::move(endpoints));
      });
}

void Sockets::OnResolved(ConnectionId id, Error error, std::vector<Tcp::endpoint> endpoints) {
  Connection* connection = Find(id);
  if (connection == nullptr || connection->dialing == nullptr) return;
  if (error || endpoints.empty()) {
    NoteUnreachable(connection->dialing->endpoint,
                    error ? "cannot resolve: " + error.message() : "has no address");
    return Drop(id);
  }
  resolved_[connection->dialing->endpoint.host] = endpoints;
  connection->dialing->candidates = std::move(endpoints);
  ConnectToNext(id);
}

// Dials are repeated for as long as a server is down. What lasts is told, and then once a minute: a
// wrong address in a configuration can be found, and a restart fills no log.
void Sockets::NoteUnreachable(const Endpoint& endpoint, const std::string& reason) {
  const auto now = std::chrono::steady_clock::now();
  auto unreachable =
      unreachable_.try_emplace(endpoint.ToString(), now + std::chrono::seconds(5)).first;
  const bool tell = now >= unreachable->second;
  if (tell) unreachable->second = now + std::chrono::minutes(1);
  log_.Write(tell ? LogLevel::kWarning : LogLevel::kDebug, "peer-unreachable",
             {{"to", endpoint.ToString()}, {"reason", reason}});
}

void Sockets::ConnectToNext(ConnectionId id) {
  Connection* connection = Find(id);
  Connection::Dialing& dialing = *connection->dialing;
  if (dialing.next == dialing.candidates.size()) {
    resolved_.erase(dialing.endpoint.host);  // it may have moved
    return Drop(id);
  }
  Error ignored;
  connection->socket.close(ignored);
  connection->socket.async_connect(dialing.candidates[dialing.next++],
                                   [this, id](const Error& error) { OnConnected(id, error); });
}

void Sockets::OnConnected(ConnectionId id, Error error) {
  Connection* connection = Find(id);
  if (connection == nullptr || connection->state != Connection::State::kConnecting) return;
  if (error) {
    NoteUnreachable(connection->dialing->endpoint, error.message());
    return ConnectToNext(id);
  }
  if (unreachable_.erase(connection->dialing->endpoint.ToString()) > 0) {
    log_.Write(LogLevel::kDebug, "peer-reachable",
               {{"to", connection->dialing->endpoint.ToString()}});
  }
  connection->dialing.reset();
  connection->state = Connection::State::kOpen;
  SetOption(connection->fd(), IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(connection->fd(), SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(connection->fd(), IPPROTO_TCP, TCP_USER_TIMEOUT,
            static_cast<int>(options_.peer_silence_max.Milliseconds()));
  WaitToRead(id, connection);
  if (connection->unsent > 0) MarkDirty(id, connection);
  receive_(server::Connected{id});
}

// ---- Reading -----------------------------------------------------------------------------------

void Sockets::WaitToRead(ConnectionId id, Connection* connection) {
  if (connection->waiting_to_read) return;
  connection->waiting_to_read = true;
  connection->socket.async_wait(Tcp::socket::wait_read, [this, id](const Error& error) {
    if (error != asio::error::operation_aborted) OnReadable(id);
  });
}

void Sockets::OnReadable(ConnectionId id) {
  Connection* connection = Find(id);
  if (connection == nullptr) return;
  connection->waiting_to_read = false;
  for (int turn = 0; turn < kReadsPerTurn; ++turn) {
    if (connection->paused && connection->state == Connection::State::kOpen) return;
    const ssize_t n =
        ::recv(connection->fd(), read_buffer_.data(), read_buffer_.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n < 0) return Drop(id);
    if (n == 0) {
      if (connection->state == Connection::State::kLingering) return Drop(id);
      connection->ended = true;
      MarkDirty(id, connection);
      if (connection->state == Connection::State::kOpen) {
        BoundClosing(id);
        receive_(server::Closed{id});
      }
      return;
    }
    const size_t size = static_cast<size_t>(n);
    // Once the machine has closed the connection, what comes is read only to be thrown away: data
    // left unread would make the kernel reset the connection, and lose what was just sent.
    if (connection->state == Connection::State::kOpen) {
      receive_(server::ReceivedBytes{id, Bytes::Copy({read_buffer_.data(), size})});
    }
    if (size < read_buffer_.size()) break;
  }
  // Not before the next Flush: whether the machine wants more of it, the host learns only when the
  // batch has ended, and until then a fast sender could bring any amount.
  read_.push_back(id);
}

void Sockets::PauseReading(ConnectionId id) {
  if (Connection* connection = Find(id)) connection->paused = true;
}

void Sockets::ResumeReading(ConnectionId id) {
  Connection* connection = Find(id);
  if (connection == nullptr || !connection->paused) return;
  connection->paused = false;
  if (connection->state == Connection::State::kOpen && !connection->ended) {
    WaitToRead(id, connection);
  }
}

// ---- Writing -----------------------------------------------------------------------------------

void Sockets::MarkDirty(ConnectionId id, Connection* connection) {
  if (connection->dirty) return;
  connection->dirty = true;
  dirty_.push_back(id);
}

void Sockets::Send(ConnectionId id, Bytes data) {
  Connection* connection = Find(id);
  if (connection == nullptr || data.empty()) return;
  if (connection->state == Connection::State::kClosing ||
      connection->state == Connection::State::kLingering) {
    return;
  }
  connection->unsent += data.size();
  connection->queue.push_back(std::move(data));
  MarkDirty(id, connection);
}

void Sockets::Close(ConnectionId id) {
  Connection* connection = Find(id);
  if (connection == nullptr) return;
  switch (connection->state) {
    case Connection::State::kConnecting:
      connections_.erase(id);
      return;
    case Connection::State::kOpen:
      connection->state = Connection::State::kClosing;
      BoundClosing(id);
      MarkDirty(id, connection);
      return;
    case Connection::State::kClosing:
    case Connection::State::kLingering:
      return;
  }
}

void Sockets::Flush() {
  // Writing may make the machine's inputs, but never more to write: the list does not grow here.
  std::vector<ConnectionId> dirty = std::move(dirty_);
  dirty_.clear();
  for (ConnectionId id : dirty) {
    Connection* connection = Find(id);
    if (connection == nullptr) continue;
    connection->dirty = false;
    if (connection->state == Connection::State::kConnecting) continue;
    if (!connection->waiting_to_write) Write(id, connection);
  }
  dirty.clear();
  if (dirty_.empty()) dirty_ = std::move(dirty);  // keep its memory

  for (ConnectionId id : read_) {
    Connection* connection = Find(id);
    if (connection == nullptr || connection->ended) continue;
    if (connection->paused && connection->state == Connection::State::kOpen) continue;
    WaitToRead(id, connection);
  }
  read_.clear();
}

void Sockets::Write(ConnectionId id, Connection* connection) {
  uint64_t written = 0;
  while (!connection->queue.empty()) {
    iovec slices[kSlicesPerWrite];
    size_t count = 0;
    size_t skip = connection->front_offset;
    size_t size = 0;
    for (const Bytes& data : connection->queue) {
      if (count == kSlicesPerWrite) break;
      slices[count++] = {const_cast<char*>(data.data()) + skip, data.size() - skip};
      size += data.size() - skip;
      skip = 0;
    }
    msghdr message{};
    message.msg_iov = slices;
    message.msg_iovlen = count;
    const ssize_t n = ::sendmsg(connection->fd(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n < 0) return Drop(id);
    connection->Advance(static_cast<size_t>(n));
    written += static_cast<uint64_t>(n);
    if (static_cast<size_t>(n) < size) break;
  }
  if (written > 0 && connection->state == Connection::State::kOpen &&
      connection->reports_written() && !connection->ended) {
    receive_(server::Written{id, written});
  }
  if (connection->queue.empty()) {
    if (connection->ended || connection->state == Connection::State::kClosing) {
      FinishClose(id, connection);
    }
    return;
  }
  if (connection->unsent > options_.unsent_bytes_max) {
    log_.Write(LogLevel::kWarning, "receiver-too-slow",
               {{"connection", id.ToString()},
                {"port", ToString(connection->kind)},
                {"unsent_bytes", std::to_string(connection->unsent)}});
    return Drop(id);
  }
  connection->waiting_to_write = true;
  connection->socket.async_wait(Tcp::socket::wait_write, [this, id](const Error& error) {
    if (error != asio::error::operation_aborted) OnWritable(id);
  });
}

void Sockets::OnWritable(ConnectionId id) {
  Connection* connection = Find(id);
  if (connection == nullptr) return;
  connection->waiting_to_write = false;
  MarkDirty(id, connection);
}

// ---- Closing -----------------------------------------------------------------------------------

void Sockets::BoundClosing(ConnectionId id) {
  lingering_.push_back({std::chrono::steady_clock::now() + Chrono(options_.linger_max), id});
  if (lingering_.size() == 1) SweepLingering();
}

void Sockets::FinishClose(ConnectionId id, Connection* connection) {
  if (connection->ended) return Drop(id);
  connection->state = Connection::State::kLingering;
  Error ignored;
  connection->socket.shutdown(Tcp::socket::shutdown_send, ignored);
  WaitToRead(id, connection);
}

void Sockets::Drop(ConnectionId id) {
  auto found = connections_.find(id);
  if (found == connections_.end()) return;
  const Connection& connection = *found->second;
  const bool tell = !connection.ended && (connection.state == Connection::State::kConnecting ||
                                          connection.state == Connection::State::kOpen);
  connections_.erase(found);
  if (tell) receive_(server::Closed{id});
}

void Sockets::SweepLingering() {
  const auto now = std::chrono::steady_clock::now();
  auto due = std::partition_point(lingering_.begin(), lingering_.end(),
                                  [now](const Lingering& one) { return one.until <= now; });
  for (auto it = lingering_.begin(); it != due; ++it) Drop(it->id);
  lingering_.erase(lingering_.begin(), due);
  if (lingering_.empty()) return;
  linger_timer_.expires_after(kLingerSweep);
  linger_timer_.async_wait([this](const Error& aborted) {
    if (!aborted) SweepLingering();
  });
}

}  // namespace lockstep::shell
