// The leader's view of the sessions: which connection owns each, and when each expires.
//
// Volatile: a new leader starts from the replicated sessions of the tree, knows no owner until the
// client comes back, and gives every session its full timeout. See docs/coordination.md,
// "Sessions".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "core/base/ids.h"
#include "core/base/time.h"

namespace lockstep::coordination {

// The one connection through which a session may write. {0, 0}: not known yet.
struct SessionOwner {
  ServerId server;
  ConnectionId ticket;
  bool operator==(const SessionOwner&) const = default;
};

class SessionTracker {
 public:
  struct Entry {
    SessionOwner owner;
    Duration timeout;
    // Here too, and not only in the tree: a follower may have applied the creation, and its client
    // may come back through another server, before the leader's own disk lets it apply it.
    std::string password;
    Instant deadline;  // a multiple of the tick; meaningless while closing
    // A CloseSession was proposed: nothing else of this session may follow it.
    bool closing = false;
    // Sum of the path lengths of its ephemerals, those in flight included: bounds what closing it
    // has to write into one transaction.
    uint64_t ephemeral_bytes = 0;
  };

  explicit SessionTracker(Duration tick) : tick_(tick) {}

  // Requires: not known. The session expires at now + timeout, rounded up to the tick.
  Entry& Add(SessionId session, Duration timeout, std::string password, SessionOwner owner,
             Instant now);
  // nullptr if not known. Stays valid until the next Add or Remove.
  Entry* Find(SessionId session);
  // The session was heard from: it has its full timeout again. Nothing if unknown or closing.
  void Touch(SessionId session, Instant now);
  // Takes the session out of expiry; it stays known until Remove.
  // Requires: known, and not closing yet.
  void StartClosing(SessionId session);
  // Nothing if not known.
  void Remove(SessionId session);
  void Clear();

  // Sessions whose deadline is now or earlier, by deadline, then by id. They stay until closed.
  std::vector<SessionId> Due(Instant now) const;
  // The earliest deadline, or Instant::Never().
  Instant next_deadline() const;
  size_t size() const { return sessions_.size(); }

 private:
  // Rounding up puts the sessions of one tick into one bucket: touching one again within the tick,
  // which is what nearly every request does, moves nothing. As ZooKeeper's ExpiryQueue does.
  Instant RoundUp(Instant when) const;
  void Unschedule(SessionId session, Instant deadline);

  const Duration tick_;
  absl::flat_hash_map<SessionId, Entry> sessions_;  // look-ups only
  absl::btree_map<Instant, absl::btree_set<SessionId>> buckets_;
};

}  // namespace lockstep::coordination
