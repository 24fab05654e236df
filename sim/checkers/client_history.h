// What one client was told, against what was committed: its own order, linearizable writes, reads
// of a committed state that never go back, events before the replies that show the change.
//
// Every transaction is unique (a session and its xid), and every reply carries the zxid of the
// state it tells of; so each reply is checked on its own, at once, without a search.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/zxid.h"
#include "core/coordination/protocol.h"
#include "sim/checkers/committed_log.h"
#include "sim/checkers/persistent_watches.h"
#include "sim/checkers/znode_model.h"

namespace lockstep::sim {

// A request as it was sent.
struct Invocation {
  int32_t xid = 0;
  coordination::OpCode op{};
  std::string path;
  uint64_t data_checksum = 0;
  int32_t version = coordination::kAnyVersion;
  bool watch = false;
  bool sequential = false;
  bool ephemeral = false;
  coordination::AddWatchMode mode{};         // of addWatch
  coordination::WatcherType watcher_type{};  // of checkWatches and removeWatches
  int64_t committed_before = 0;              // size of the committed log when it was sent
  std::vector<Invocation> parts;             // of a multi or multiRead: its operations
};

class ClientHistory {
 public:
  struct Watch {
    enum class Kind : uint8_t { kData, kChildren } kind;
    std::string path;
    Zxid since;
    bool missing = false;   // the node was not there
    bool restored = false;  // by SetWatches, on another connection than it was set on
  };

  ClientHistory(uint32_t client, const CommittedLog* committed, const ZnodeModel* model)
      : client_(client), committed_(committed), model_(model), persistent_(model) {}

  void OnInvoke(Invocation invocation);
  // A reply to the oldest request in flight; `frame` is without its length. Returns what it was.
  Invocation OnReply(SessionId session, const coordination::ReplyHeader& header,
                     const Bytes& frame);
  // Whether a persistent watch is among the reasons.
  bool OnEvent(const coordination::ReplyHeader& header, const coordination::WatcherEvent& event);
  // The reply to setWatches or setWatches2.
  void OnWatchesSet(const coordination::ReplyHeader& header);
  // The server's answer to a ping, or another reply outside of the order.
  void OnOther(const coordination::ReplyHeader& header);
  // The session is gone, says a server.
  void OnSessionLost(SessionId session);
  // The connection is gone: what was in flight may have happened or not.
  void OnDisconnected();
  // A new session begins.
  void OnNewSession() {
    last_zxid_ = {};
    watches_.clear();
    persistent_.Clear();
  }
  // The session goes on over a new connection. Its watches are forgotten, or the client sends them
  // to its new server before anything else: those that are returned, and the persistent ones.
  const std::vector<Watch>& OnReconnected(bool restore);

  Zxid last_zxid() const { return last_zxid_; }
  size_t in_flight() const { return in_flight_.size(); }
  bool multi_in_flight() const;
  const std::vector<PersistentWatches::Watch>& persistent_watches() const {
    return persistent_.watches();
  }

 private:
  bool ChangedBy(const Watch& watch, Zxid zxid) const;
  void SeeZxid(Zxid zxid, const char* what);
  void CheckWrite(SessionId session, const Invocation& invocation,
                  const coordination::ReplyHeader& header, const coordination::ResponseBody& body);
  void CheckSet(const Invocation& invocation, const coordination::SetDataTransaction& set);
  // `path` is what was answered.
  void CheckCreate(const Invocation& invocation, const coordination::CreateTransaction& create,
                   std::string_view path);
  void CheckRefusedWrite(const Invocation& invocation, const coordination::ReplyHeader& header);
  // A write on the node of `invocation` in this state is refused with this error, at `zxid`.
  void CheckRefusal(const Invocation& invocation, coordination::ErrorCode error, Zxid zxid,
                    const NodeState& state, int64_t children);
  void CheckMulti(const Invocation& multi, Zxid zxid, const coordination::TransactionBody& became,
                  const coordination::MultiResponse& response);
  void CheckMultiRefusal(const Invocation& multi, Zxid zxid,
                         const coordination::MultiErrorTransaction& refusal,
                         const coordination::MultiResponse& response);
  void CheckMultiRead(const Invocation& multi, const coordination::ReplyHeader& header,
                      const coordination::ResponseBody& body);
  void CheckRead(const Invocation& invocation, const coordination::ReplyHeader& header,
                 const coordination::ResponseBody& body);
  void CheckStat(const Invocation& invocation, Zxid zxid, const coordination::Stat& stat);
  void CheckChildren(const Invocation& invocation, Zxid zxid,
                     const std::vector<std::string_view>& names);
  void ArmWatch(const Invocation& invocation, const coordination::ReplyHeader& header);
  void CheckWatcherReply(const Invocation& invocation, const coordination::ReplyHeader& header);
  std::string Name(const Invocation& invocation) const;

  uint32_t client_;
  const CommittedLog* committed_;
  const ZnodeModel* model_;
  std::deque<Invocation> in_flight_;
  std::vector<Watch> watches_;  // one-shot
  PersistentWatches persistent_;
  Zxid last_zxid_;
};

}  // namespace lockstep::sim
