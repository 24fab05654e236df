// Connections between peers: who dials whom, greetings, frames, and what each connection carries.
//
// Every server dials the election port of each other voter, keeps that connection up, and sends its
// notifications there; it only listens on those that it accepted. So nobody has to decide which of
// two crossing connections stays (in ZooKeeper a server that cannot be reached by the one with the
// larger id can never join). A learner dials its leader's learner port; that channel goes both
// ways.
//
// The first frame of the side that dialed is a Hello. Whatever does not decode closes its own
// connection and nothing else.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/server/io.h"
#include "core/wire/codec.h"
#include "core/wire/frame.h"
#include "core/zab/io.h"

namespace lockstep::server {

struct LinksOptions {
  ServerId server;
  std::vector<ServerId> voters;
  uint32_t frame_bytes_max = 64 << 20;
  // A lost connection is dialed again after min, and twice as long after each failure, up to max.
  // One that lived for max was no failure.
  Duration redial_min = Milliseconds(50);
  Duration redial_max = Seconds(1);
  // A dial that is not answered is given up; the network may be silent for minutes.
  Duration dial_timeout = Seconds(2);
  // An accepted connection must have greeted by then.
  Duration hello_timeout = Seconds(10);
  size_t ungreeted_max = 64;
};

class Links {
 public:
  explicit Links(const LinksOptions& options);

  // Dials every other voter.
  void Start(Instant now, Output* output);
  void OnWake(Instant now, Output* output, std::vector<zab::Input>* inputs);
  Instant next_deadline() const;

  // What the connection brought, for the peer, is appended to `inputs`.
  void OnAccepted(Instant now, ConnectionId connection, LinkKind kind, Output* output);
  void OnConnected(Instant now, ConnectionId connection, Output* output,
                   std::vector<zab::Input>* inputs);
  void OnBytes(Instant now, ConnectionId connection, Bytes bytes, Output* output,
               std::vector<zab::Input>* inputs);
  void OnClosed(Instant now, ConnectionId connection, std::vector<zab::Input>* inputs);
  void OnWritten(ConnectionId connection, uint64_t bytes);

  // What the peer wants. Messages to a connection that is gone are dropped: the peer is told.
  void SendNotification(ServerId to, const zab::Notification& notification, Output* output);
  void OpenChannel(Instant now, const zab::OpenChannel& open, Output* output);
  void Send(ConnectionId channel, const zab::Message& message, Output* output);
  void Close(ConnectionId channel, Output* output);

  // Whether the connection is one of ours (and not a client's).
  bool Has(ConnectionId connection) const { return links_.contains(connection); }
  // The other voters whose election port we are connected to, ascending.
  std::vector<ServerId> Reached() const;
  // Bytes sent that the host has not yet passed on to the network. 0 for an unknown connection.
  uint64_t Backlog(ConnectionId connection) const;

 private:
  struct Link {
    explicit Link(uint32_t frame_bytes_max) : reader(frame_bytes_max) {}
    LinkKind kind = LinkKind::kElection;
    bool dialed = false;
    bool up = false;   // connected and greeted
    ServerId peer;     // 0 before the greeting
    Instant up_until;  // not yet up: given up then
    Instant up_since;
    wire::FrameReader reader;
    uint64_t sent = 0;
    uint64_t written = 0;
  };
  // Our own connection to the election port of another voter.
  struct Dialer {
    ConnectionId connection;  // 0 while waiting to dial again
    Instant redial_at = Instant::Never();
    Duration redial_after;
  };

  void Dial(Instant now, ServerId to, Output* output);
  // An error of the other side, or a refusal: closes, and tells the peer about a channel.
  void Refuse(Instant now, ConnectionId connection, const char* reason, Output* output,
              std::vector<zab::Input>* inputs);
  // False if the link was refused.
  bool OnFrame(Instant now, ConnectionId connection, Link& link, const wire::Frame& frame,
               Output* output, std::vector<zab::Input>* inputs);
  bool OnHello(Instant now, ConnectionId connection, Link& link, const wire::Frame& frame,
               Output* output, std::vector<zab::Input>* inputs);
  void SendSlices(ConnectionId connection, Link& link, Output* output);

  const LinksOptions options_;
  const uint64_t ensemble_;  // digest of the voters' ids
  // A std::map, since references to a link are held while others come and go.
  std::map<ConnectionId, Link> links_;
  std::map<ServerId, Dialer> dialers_;
  uint64_t last_dialed_ = 0;
  std::vector<Bytes> slices_;  // scratch
};

}  // namespace lockstep::server
