// Everything that goes into a zab::Peer and comes out of it.
//
// A machine is a value. It reads no clock, no socket, no disk, no random device and no global. You
// give it one input and the time; it changes itself and appends to its output. Same state, same
// input, same time: same output, byte for byte.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/event.h"
#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/base/zxid.h"
#include "core/zab/messages.h"

namespace lockstep::zab {

struct Transaction {
  Zxid zxid;
  Bytes body;
};

// ---- Inputs ------------------------------------------------------------------------------------

// The peer's deadline has come, or may have. Never wrong to send.
struct Wake {};

struct ReceivedNotification {
  ServerId from;
  Notification notification;
};

// A connection that carries notifications to `server` is up again: it learns our state at once, so
// that a partition heals without waiting for a back-off.
struct NotificationLinkUp {
  ServerId server;
};

// A channel is open: one that a learner opened to us (channel.accepted()), or the one that we asked
// for with OpenChannel.
struct ChannelOpened {
  ConnectionId channel;
};
// The channel is gone (also the answer to an OpenChannel that failed). Nothing more comes from it.
struct ChannelClosed {
  ConnectionId channel;
};
struct Received {
  ConnectionId channel;
  Message message;
};

// All writes up to and including `id` are durable.
struct Persisted {
  WriteId id;
};

// Application, on an established leader only: broadcast this. The zxid is the next of the epoch.
// Requires: leader(), established() and CanPropose().
struct Propose {
  Bytes body;
};
// Application, on a learner: send to the leader, in order. Dropped if there is no channel.
struct SendRequest {
  Bytes payload;
};
// Application, on the leader: send to the learner `to`, in order with proposals and commits.
// Dropped if it is not connected.
struct SendReply {
  ServerId to;
  Bytes payload;
};
// Application, on a learner: the answer to PingAsked, with what it has to say (its touched
// sessions).
struct AnswerPing {
  Bytes payload;
};
// Application, on the leader: a ping out of turn, with something for the learner `to`. Dropped if
// it is not connected, or not synchronized so far that it is pinged.
struct SendPing {
  ServerId to;
  Bytes payload;
};
// Application, on the leader: the next piece of the snapshot that StartSnapshot asked for.
struct SnapshotChunk {
  ConnectionId channel;
  Bytes data;
  bool last = false;
};
using Input = std::variant<Wake, ReceivedNotification, NotificationLinkUp, ChannelOpened,
                           ChannelClosed, Received, Persisted, Propose, SendRequest, SendReply,
                           AnswerPing, SendPing, SnapshotChunk>;

// ---- Outputs -----------------------------------------------------------------------------------

// Durable writes, in the order of `id`; the journal keeps that order on disk.
struct AppendTransaction {
  Transaction transaction;
};
// Remove every transaction after `to` from the history.
struct TruncateHistory {
  Zxid to;
};
struct SetAcceptedEpoch {
  Epoch epoch;
};
struct SetCurrentEpoch {
  Epoch epoch;
};
// The history now starts at `zxid`, with the snapshot whose chunks were handed out before
// (ReceivedSnapshotChunk): first the snapshot is made durable, then the journal says that it
// counts.
struct InstallSnapshot {
  Zxid zxid;
};
struct Persist {
  WriteId id;
  std::variant<AppendTransaction, TruncateHistory, SetAcceptedEpoch, SetCurrentEpoch,
               InstallSnapshot>
      write;
};

// The host opens a connection to the learner port of `leader`, and answers with ChannelOpened or
// ChannelClosed.
struct OpenChannel {
  ConnectionId channel;
  ServerId leader;
};

// Leader: the application starts to stream its state as it is now, which is the state after exactly
// `zxid`, by SnapshotChunk inputs. Given up when the channel closes.
struct StartSnapshot {
  ConnectionId channel;
  Zxid zxid;
};

// Learner: a piece of a snapshot from the leader. `first` starts a new one (and drops a
// half-received one). The pieces count for nothing until InstallSnapshot.
struct ReceivedSnapshotChunk {
  Zxid zxid;
  bool first = false;
  bool last = false;
  Bytes data;
};

// What the application must know about the role; given in order with deliveries.
enum class Service : uint8_t {
  kStopped,    // no leader: stop serving
  kFollowing,  // up to date: serve clients, forward writes
  kLeading,    // established: serve clients, propose writes
};

// For the application, in order:
struct Deliver {  // committed, and durable here: apply
  Transaction transaction;
};
struct RestoreSnapshot {  // the installed snapshot replaces the state
  Zxid zxid;
};
struct ServiceChanged {
  Service service;
  ServerId leader;
  Epoch epoch;
};
struct RequestReceived {  // leader: SendRequest of the learner `from`
  ServerId from;
  Bytes payload;
};
struct ReplyReceived {  // learner: SendReply of the leader
  Bytes payload;
};
struct PingAsked {  // learner: the leader pings; answer with AnswerPing
  Bytes payload;    // of SendPing; empty in the pings that come by themselves
};
struct PingReceived {  // leader: the answer of the learner `from`
  ServerId from;
  Bytes payload;
};
using Delivery =
    std::variant<Deliver, RestoreSnapshot, ServiceChanged, RequestReceived, ReplyReceived,
                 PingAsked, PingReceived, StartSnapshot, ReceivedSnapshotChunk>;

struct Output {
  struct NotificationTo {
    ServerId to;
    Notification notification;
  };
  struct Send {
    ConnectionId channel;
    Message message;
  };

  std::vector<NotificationTo> notifications;
  std::vector<Persist> persists;
  std::vector<Send> sends;
  std::vector<OpenChannel> opens;
  std::vector<ConnectionId> closes;  // after the sends to them
  std::vector<Delivery> deliveries;
  std::vector<Event> events;

  bool Empty() const {
    return notifications.empty() && persists.empty() && sends.empty() && opens.empty() &&
           closes.empty() && deliveries.empty() && events.empty();
  }
  void Clear() {
    notifications.clear();
    persists.clear();
    sends.clear();
    opens.clear();
    closes.clear();
    deliveries.clear();
    events.clear();
  }
};

// What recovery found in the journal; a Peer starts from it. `transactions` are contiguous: the
// first one follows `base`.
struct DurableState {
  Epoch accepted_epoch;
  Epoch current_epoch;
  Zxid base;      // the transaction before the first of `transactions`
  Zxid snapshot;  // the application's state at start; base <= snapshot <= last
  std::vector<Transaction> transactions;
};

}  // namespace lockstep::zab
