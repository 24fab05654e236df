// What a server knows and has promised whatever its role: epochs, history, what is committed and
// what was delivered. The roles (election.h, follower.h, leader.h) come and go; this stays.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/ids.h"
#include "core/base/quorum.h"
#include "core/base/zxid.h"
#include "core/zab/history.h"
#include "core/zab/io.h"
#include "core/zab/peer.h"

namespace lockstep::zab {

// The last epoch that nobody may promise: there would be none left for the next leader.
inline constexpr Epoch kEpochMax{0xffff'ffff};

struct OwnState {
  OwnState(const PeerOptions& options, DurableState durable);

  // Emits a durable write and returns its id. The epochs below change with the write, not with its
  // completion: nothing may be said about them before persisted(id).
  WriteId Write(decltype(Persist::write) write, Output* output);
  bool persisted(WriteId id) const { return id <= last_persisted; }
  bool all_persisted() const { return last_persisted == last_write; }
  // A write has become durable: the history advances, an installed snapshot replaces the state.
  void OnPersisted(WriteId id, Output* output);

  void Append(Transaction transaction, Output* output);
  void Truncate(Zxid to, Output* output);
  void InstallSnapshot(Zxid zxid, Output* output);

  // A server that has never been counted in the acknowledgement of an epoch, as far as it knows. It
  // may have been, on a disk that is lost.
  bool novice() const { return current_epoch == Epoch{} && options.rules.count_only_who_remembers; }

  // Everything up to `zxid` is committed; never goes back.
  void Commit(Zxid zxid);
  // Hands what is committed and durable here, and was not delivered yet, to the application.
  void DeliverCommitted(Output* output);

  const PeerOptions options;
  const Voters voters;

  Epoch accepted_epoch;
  Epoch current_epoch;
  History history;
  Zxid committed;
  Zxid delivered;

  ConnectionId last_channel;  // the last one that we asked for
  WriteId last_write;
  WriteId last_persisted;
  // A snapshot from a leader that is not durable yet: nothing is delivered until it is.
  struct Install {
    WriteId id;
    Zxid zxid;
  };
  std::optional<Install> install;
};

// Adds an event, as in `Note(output, {EventKind::kLooking, .reason = "..."})`.
inline void Note(Output* output, const Event& event) { output->events.push_back(event); }
// The message or input had no effect, for a reason that is normal in an asynchronous system.
inline void Ignored(Output* output, ServerId peer, const char* reason) {
  Note(output, {.kind = EventKind::kIgnored, .peer = peer, .reason = reason});
}

}  // namespace lockstep::zab
