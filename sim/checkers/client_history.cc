#include "sim/checkers/client_history.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/container/btree_map.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "sim/failure.h"
#include "sim/trace.h"

namespace lockstep::sim {

using coordination::CreateTransaction;
using coordination::ErrorCode;
using coordination::OpCode;
using coordination::ReplyHeader;
using coordination::ResponseBody;
using coordination::WatchEventType;

namespace {

bool IsWrite(OpCode op) {
  return op == OpCode::kCreate || op == OpCode::kCreate2 || op == OpCode::kDelete ||
         op == OpCode::kSetData || op == OpCode::kMulti;
}
bool IsRead(OpCode op) {
  return op == OpCode::kGetData || op == OpCode::kExists || op == OpCode::kGetChildren ||
         op == OpCode::kGetChildren2;
}

}  // namespace

std::string ClientHistory::Name(const Invocation& i) const {
  return absl::StrCat("client ", client_, ", ", coordination::ToString(i.op), " ", i.path, " (xid ",
                      i.xid, ")");
}

void ClientHistory::OnInvoke(Invocation invocation) {
  invocation.committed_before = committed_->size();
  in_flight_.push_back(std::move(invocation));
}

// Every frame with a zxid: it never goes back, is committed, and no event that the session waits
// for may be outstanding for it.
void ClientHistory::SeeZxid(Zxid zxid, const char* what) {
  if (zxid < last_zxid_) {
    Fail("session-never-goes-back",
         absl::StrCat("client ", client_, " gets a ", what, " at ", zxid.ToString(), " after ",
                      last_zxid_.ToString()));
  }
  if (zxid > committed_->last()) {
    Fail("reads-a-committed-state",
         absl::StrCat("client ", client_, " gets a ", what, " at ", zxid.ToString(),
                      "; the last committed is ", committed_->last().ToString()));
  }
  if (zxid == last_zxid_) return;
  for (const Watch& watch : watches_) {
    const bool changed = ChangedBy(watch, zxid);
    if (changed) {
      Fail("event-before-reply", absl::StrCat("client ", client_, " gets a ", what, " at ",
                                              zxid.ToString(), " and no event for its watch on ",
                                              watch.path, ", set at ", watch.since.ToString()));
    }
  }
  persistent_.OnSeen(zxid);
  last_zxid_ = zxid;
}

// Whether an event must have come by the time that the session sees `zxid`.
bool ClientHistory::ChangedBy(const Watch& watch, Zxid zxid) const {
  if (watch.kind == Watch::Kind::kChildren) {
    return model_->ChildrenChanged(watch.path, watch.since, zxid);
  }
  // A node that was created and deleted while its watcher was between two connections has left no
  // trace on the new server.
  if (watch.missing && watch.restored) return model_->NodeAt(watch.path, zxid).exists;
  return model_->DataChanged(watch.path, watch.since, zxid);
}

Invocation ClientHistory::OnReply(SessionId session, const ReplyHeader& header,
                                  const Bytes& frame) {
  if (in_flight_.empty() || in_flight_.front().xid != header.xid) {
    Fail("replies-in-order",
         absl::StrCat("client ", client_, " gets a reply to xid ", header.xid, "; the oldest in ",
                      "flight is ", in_flight_.empty() ? 0 : in_flight_.front().xid));
  }
  Invocation invocation = std::move(in_flight_.front());
  in_flight_.pop_front();
  SeeZxid(header.zxid, "reply");
  absl::StatusOr<ResponseBody> body = coordination::DecodeResponse(invocation.op, frame);
  if (!body.ok()) {
    Fail("client-bytes", absl::StrCat(Name(invocation), ": ", body.status().ToString()));
  }
  if (IsWrite(invocation.op)) {
    if (header.error == ErrorCode::kOk) {
      CheckWrite(session, invocation, header, *body);
    } else {
      CheckRefusedWrite(invocation, header);
    }
  } else if (invocation.op == OpCode::kMultiRead) {
    CheckMultiRead(invocation, header, *body);
  } else if (IsRead(invocation.op)) {
    CheckRead(invocation, header, *body);
    if (invocation.watch) ArmWatch(invocation, header);
  } else if (invocation.op == OpCode::kAddWatch || invocation.op == OpCode::kCheckWatches ||
             invocation.op == OpCode::kRemoveWatches) {
    CheckWatcherReply(invocation, header);
  }
  return invocation;
}

void ClientHistory::CheckWrite(SessionId session, const Invocation& invocation,
                               const ReplyHeader& header, const ResponseBody& body) {
  const std::optional<int64_t> index = committed_->Find(header.zxid);
  if (!index.has_value() || *index < 0) {
    Fail("writes-linearizable", absl::StrCat(Name(invocation), " is acknowledged at ",
                                             header.zxid.ToString(), ", which is not committed"));
  }
  const CommittedEntry& entry = committed_->at(*index);
  if (entry.transaction.header.session != session ||
      entry.transaction.header.xid != invocation.xid) {
    Fail("writes-linearizable",
         absl::StrCat(Name(invocation), " of session ", session.ToString(), " is acknowledged at ",
                      header.zxid.ToString(), ", which is xid ", entry.transaction.header.xid,
                      " of session ", entry.transaction.header.session.ToString()));
  }
  if (*index < invocation.committed_before) {
    Fail("writes-linearizable",
         absl::StrCat(Name(invocation), " is acknowledged at ", header.zxid.ToString(),
                      ", which was committed before it was sent"));
  }
  const coordination::TransactionBody& became = entry.transaction.body;
  if (invocation.op == OpCode::kMulti) {
    const auto* response = std::get_if<coordination::MultiResponse>(&body);
    if (response == nullptr) Fail("client-bytes", absl::StrCat(Name(invocation), ": no results"));
    return CheckMulti(invocation, header.zxid, became, *response);
  }
  const bool fits = invocation.op == OpCode::kDelete
                        ? std::holds_alternative<coordination::DeleteTransaction>(became)
                    : invocation.op == OpCode::kSetData
                        ? std::holds_alternative<coordination::SetDataTransaction>(became)
                        : std::holds_alternative<CreateTransaction>(became);
  if (!fits) {
    Fail("writes-linearizable",
         absl::StrCat(Name(invocation), " became something else at ", header.zxid.ToString()));
  }
  if (const auto* set = std::get_if<coordination::SetDataTransaction>(&became)) {
    CheckSet(invocation, *set);
    CheckStat(invocation, header.zxid, std::get<coordination::StatResponse>(body).stat);
  }
  if (const auto* create = std::get_if<CreateTransaction>(&became)) {
    CheckCreate(invocation, *create,
                std::holds_alternative<coordination::PathResponse>(body)
                    ? std::get<coordination::PathResponse>(body).path
                    : std::get<coordination::Create2Response>(body).path);
  }
}

void ClientHistory::CheckSet(const Invocation& invocation,
                             const coordination::SetDataTransaction& set) {
  const bool version_fits =
      invocation.version == coordination::kAnyVersion || set.version == invocation.version + 1;
  if (!version_fits || set.path != invocation.path ||
      Checksum(set.data.view()) != invocation.data_checksum) {
    Fail("writes-linearizable", absl::StrCat(Name(invocation), ", version ", invocation.version,
                                             ", became ", set.path, " version ", set.version));
  }
}

void ClientHistory::CheckCreate(const Invocation& invocation, const CreateTransaction& create,
                                std::string_view path) {
  std::string expected = invocation.path;
  if (invocation.sequential) {
    std::string number = absl::StrCat(create.parent_cversion - 1);
    expected += std::string(10 - std::min<size_t>(10, number.size()), '0') + number;
  }
  if (path != expected || create.path != expected || create.ephemeral != invocation.ephemeral ||
      Checksum(create.data.view()) != invocation.data_checksum) {
    Fail("writes-linearizable", absl::StrCat(Name(invocation), " became ", create.path,
                                             " and was answered with ", std::string(path)));
  }
}

// All of the operations, each as it was asked for, or none.
void ClientHistory::CheckMulti(const Invocation& multi, Zxid zxid,
                               const coordination::TransactionBody& became,
                               const coordination::MultiResponse& response) {
  const auto fail = [&](std::string_view what) {
    Fail("multi-all-or-nothing",
         absl::StrCat(Name(multi), " at ", zxid.ToString(), ": ", std::string(what)));
  };
  if (response.results.size() != multi.parts.size()) fail("another number of results");
  if (const auto* refusal = std::get_if<coordination::MultiErrorTransaction>(&became)) {
    return CheckMultiRefusal(multi, zxid, *refusal, response);
  }
  const auto* committed = std::get_if<coordination::MultiTransaction>(&became);
  if (committed == nullptr) fail("became something else");
  if (committed->operations.size() != multi.parts.size()) fail("another number of operations");
  for (size_t i = 0; i < multi.parts.size(); ++i) {
    const Invocation& part = multi.parts[i];
    const coordination::MultiResponse::Result& result = response.results[i];
    if (result.op != part.op) fail("a result of another kind");
    const auto& operation = committed->operations[i];
    if (const auto* create = std::get_if<CreateTransaction>(&operation)) {
      const auto* path = std::get_if<coordination::PathResponse>(&result.body);
      if (path == nullptr) fail("a creation without a path");
      CheckCreate(part, *create, path->path);
    } else if (const auto* set = std::get_if<coordination::SetDataTransaction>(&operation)) {
      CheckSet(part, *set);
      const auto& stat = std::get<coordination::StatResponse>(result.body).stat;
      if (stat.version != set->version || stat.mzxid != zxid) fail("the Stat of another change");
    } else if (const auto* remove = std::get_if<coordination::DeleteTransaction>(&operation)) {
      if (part.op != OpCode::kDelete || remove->path != part.path) fail("another deletion");
    } else {
      const auto& check = std::get<coordination::CheckVersionTransaction>(operation);
      if (part.op != OpCode::kCheck || check.path != part.path || check.version != part.version) {
        fail("another check");
      }
    }
  }
}

// The operations before the one that failed would have succeeded, one after the other, and that one
// is refused rightly after them.
void ClientHistory::CheckMultiRefusal(const Invocation& multi, Zxid zxid,
                                      const coordination::MultiErrorTransaction& refusal,
                                      const coordination::MultiResponse& response) {
  absl::btree_map<std::string, NodeState> states;
  absl::btree_map<std::string, int64_t> born;  // children, by parent
  for (size_t i = 0; i < multi.parts.size(); ++i) {
    const Invocation& part = multi.parts[i];
    const auto* result = std::get_if<coordination::ErrorResponse>(&response.results[i].body);
    const ErrorCode expected = i < refusal.operation    ? ErrorCode::kOk
                               : i == refusal.operation ? refusal.error
                                                        : ErrorCode::kRuntimeInconsistency;
    if (result == nullptr || result->error != expected) {
      Fail("multi-all-or-nothing", absl::StrCat(Name(multi), " is refused at ", zxid.ToString(),
                                                ", and operation ", i, " is answered otherwise"));
    }
    if (i > refusal.operation) continue;
    const auto [it, is_new] = states.try_emplace(part.path);
    NodeState& state = it->second;
    if (is_new) state = model_->NodeAt(part.path, zxid);
    const std::string parent = part.path.substr(0, std::max<size_t>(1, part.path.rfind('/')));
    if (i == refusal.operation) {
      CheckRefusal(part, refusal.error, zxid, state,
                   model_->ChildrenAt(part.path, zxid).count + born[part.path]);
      continue;
    }
    const bool creates = part.op == OpCode::kCreate;
    const bool version_fits =
        part.version == coordination::kAnyVersion || part.version == state.version;
    if (!part.sequential && (creates ? state.exists : !state.exists || !version_fits)) {
      Fail("error-fits-state", absl::StrCat(Name(part), ", operation ", i, " of a multi at ",
                                            zxid.ToString(), ", cannot have succeeded"));
    }
    if (creates) ++born[parent];
    if (creates && !part.sequential) state = {.since = zxid, .exists = true};
    if (part.op == OpCode::kSetData) ++state.version;
    if (part.op == OpCode::kDelete) {
      state = {.since = zxid};
      --born[parent];
    }
  }
}

void ClientHistory::CheckMultiRead(const Invocation& multi, const ReplyHeader& header,
                                   const ResponseBody& body) {
  if (header.error != ErrorCode::kOk) return CheckRead(multi, header, body);
  const auto& results = std::get<coordination::MultiResponse>(body).results;
  if (results.size() != multi.parts.size()) {
    Fail("client-bytes", absl::StrCat(Name(multi), ": another number of results"));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    ReplyHeader part_header = header;
    ResponseBody part_body;
    if (const auto* data = std::get_if<coordination::GetDataResponse>(&results[i].body)) {
      part_body = *data;
    } else if (const auto* list =
                   std::get_if<coordination::GetChildrenResponse>(&results[i].body)) {
      part_body = *list;
    } else if (const auto* error = std::get_if<coordination::ErrorResponse>(&results[i].body)) {
      part_header.error = error->error;
    }
    CheckRead(multi.parts[i], part_header, part_body);
  }
}

bool ClientHistory::multi_in_flight() const {
  return std::any_of(in_flight_.begin(), in_flight_.end(),
                     [](const Invocation& i) { return i.op == OpCode::kMulti; });
}

void ClientHistory::CheckRefusedWrite(const Invocation& invocation, const ReplyHeader& header) {
  if (invocation.op == OpCode::kMulti) {
    // As a whole only because of its session: whatever an operation meets is told in its result.
    if (header.error == ErrorCode::kSessionExpired || header.error == ErrorCode::kSessionMoved) {
      return;
    }
    Fail("error-fits-state", absl::StrCat(Name(invocation), " is refused with error ",
                                          static_cast<int32_t>(header.error)));
  }
  CheckRefusal(invocation, header.error, header.zxid, model_->NodeAt(invocation.path, header.zxid),
               model_->ChildrenAt(invocation.path, header.zxid).count);
}

void ClientHistory::CheckRefusal(const Invocation& invocation, ErrorCode error, Zxid zxid,
                                 const NodeState& state, int64_t children) {
  bool is_true = true;
  switch (error) {
    case ErrorCode::kNoNode:
      // Of a create, the parent.
      is_true = invocation.op == OpCode::kCreate || invocation.op == OpCode::kCreate2
                    ? true
                    : !state.exists;
      break;
    case ErrorCode::kBadVersion:
      is_true = state.exists && state.version != invocation.version &&
                invocation.version != coordination::kAnyVersion;
      break;
    case ErrorCode::kNodeExists:
      is_true = state.exists && !invocation.sequential;
      break;
    case ErrorCode::kNotEmpty:
      is_true = state.exists && children > 0;
      break;
    case ErrorCode::kNoChildrenForEphemerals:
    case ErrorCode::kSessionExpired:
    case ErrorCode::kSessionMoved:
      return;
    default:
      Fail("error-fits-state",
           absl::StrCat(Name(invocation), " is refused with error ", static_cast<int32_t>(error)));
  }
  if (!is_true) {
    Fail("error-fits-state",
         absl::StrCat(
             Name(invocation), ", version ", invocation.version, ", is refused with error ",
             static_cast<int32_t>(error), " at ", zxid.ToString(), ", where ",
             state.exists ? absl::StrCat("it has version ", state.version) : "it does not exist"));
  }
}

void ClientHistory::CheckStat(const Invocation& invocation, Zxid zxid,
                              const coordination::Stat& stat) {
  const NodeState state = model_->NodeAt(invocation.path, zxid);
  const ChildrenState children = model_->ChildrenAt(invocation.path, zxid);
  if (!state.exists || state.version != stat.version || state.since != stat.mzxid ||
      state.czxid != stat.czxid || state.owner != stat.ephemeral_owner ||
      children.count != stat.num_children) {
    Fail("reads-a-committed-state",
         absl::StrCat(Name(invocation), " sees at ", zxid.ToString(), " version ", stat.version,
                      ", mzxid ", stat.mzxid.ToString(), ", czxid ", stat.czxid.ToString(), ", ",
                      stat.num_children, " children; it is version ", state.version, ", mzxid ",
                      state.since.ToString(), ", czxid ", state.czxid.ToString(), ", ",
                      children.count, " children", state.exists ? "" : ", deleted"));
  }
}

void ClientHistory::CheckChildren(const Invocation& invocation, Zxid zxid,
                                  const std::vector<std::string_view>& names) {
  const ChildrenState children = model_->ChildrenAt(invocation.path, zxid);
  uint64_t sum = 0;
  for (std::string_view name : names) sum += ZnodeModel::NameSum(name);
  if (children.count != static_cast<int64_t>(names.size()) || children.names != sum) {
    Fail("reads-a-committed-state",
         absl::StrCat(Name(invocation), " sees ", names.size(), " children at ", zxid.ToString(),
                      ", there were ", children.count, " or others"));
  }
}

void ClientHistory::CheckRead(const Invocation& invocation, const ReplyHeader& header,
                              const ResponseBody& body) {
  if (header.error == ErrorCode::kSessionExpired || header.error == ErrorCode::kSessionMoved) {
    return;
  }
  const NodeState state = model_->NodeAt(invocation.path, header.zxid);
  if (header.error == ErrorCode::kNoNode) {
    if (state.exists) {
      Fail("error-fits-state", absl::StrCat(Name(invocation), " finds nothing at ",
                                            header.zxid.ToString(), ", where it exists"));
    }
    return;
  }
  if (header.error != ErrorCode::kOk) {
    Fail("error-fits-state", absl::StrCat(Name(invocation), " is refused with error ",
                                          static_cast<int32_t>(header.error)));
  }
  if (const auto* get = std::get_if<coordination::GetDataResponse>(&body)) {
    CheckStat(invocation, header.zxid, get->stat);
    if (Checksum(get->data.bytes.view()) != state.data_checksum) {
      Fail("reads-a-committed-state",
           absl::StrCat(Name(invocation), " reads other data than version ", state.version,
                        " has, at ", header.zxid.ToString()));
    }
  } else if (const auto* exists = std::get_if<coordination::StatResponse>(&body)) {
    CheckStat(invocation, header.zxid, exists->stat);
  } else if (const auto* list = std::get_if<coordination::GetChildrenResponse>(&body)) {
    CheckChildren(invocation, header.zxid, list->children);
  } else if (const auto* list2 = std::get_if<coordination::GetChildren2Response>(&body)) {
    CheckChildren(invocation, header.zxid, list2->children);
    CheckStat(invocation, header.zxid, list2->stat);
  } else {
    Fail("client-bytes", absl::StrCat(Name(invocation), " gets a reply of another kind"));
  }
}

void ClientHistory::ArmWatch(const Invocation& invocation, const ReplyHeader& header) {
  // A watch on a missing node is left by exists alone.
  const bool found = header.error == ErrorCode::kOk;
  const bool by_exists = invocation.op == OpCode::kExists;
  if (!found && !(by_exists && header.error == ErrorCode::kNoNode)) return;
  const bool data = by_exists || invocation.op == OpCode::kGetData;
  const Watch::Kind kind = data ? Watch::Kind::kData : Watch::Kind::kChildren;
  for (const Watch& watch : watches_) {
    if (watch.kind == kind && watch.path == invocation.path) return;  // one watch, one event
  }
  watches_.push_back({kind, invocation.path, header.zxid, !found});
}

// A connection knows which watches it has: every answer about them is exact.
void ClientHistory::CheckWatcherReply(const Invocation& invocation, const ReplyHeader& header) {
  using coordination::WatcherType;
  bool ok = true;
  if (invocation.op == OpCode::kAddWatch) {
    const bool recursive = invocation.mode == coordination::AddWatchMode::kPersistentRecursive;
    if (header.error == ErrorCode::kOk) persistent_.Add(invocation.path, recursive, header.zxid);
  } else {
    const bool any = invocation.watcher_type == WatcherType::kAny;
    const bool removes = invocation.op == OpCode::kRemoveWatches;
    bool found = false;
    for (const auto& [type, recursive] : {std::pair(WatcherType::kPersistent, false),
                                          std::pair(WatcherType::kPersistentRecursive, true)}) {
      if (!any && invocation.watcher_type != type) continue;
      found |= persistent_.Has(invocation.path, recursive);
      if (removes) persistent_.Remove(invocation.path, recursive);
    }
    auto asked_for = [&](const Watch& watch) {
      const WatcherType type =
          watch.kind == Watch::Kind::kData ? WatcherType::kData : WatcherType::kChildren;
      return watch.path == invocation.path && (any || invocation.watcher_type == type);
    };
    found |= std::any_of(watches_.begin(), watches_.end(), asked_for);
    if (removes) std::erase_if(watches_, asked_for);
    ok = found;
  }
  if (header.error != (ok ? ErrorCode::kOk : ErrorCode::kNoWatcher)) {
    Fail("error-fits-state", absl::StrCat(Name(invocation), " is answered with error ",
                                          static_cast<int32_t>(header.error), ", and there is ",
                                          ok ? "a" : "no", " watch"));
  }
}

void ClientHistory::OnWatchesSet(const ReplyHeader& header) {
  SeeZxid(header.zxid, "reply to setWatches");
  if (header.error != ErrorCode::kOk) {
    Fail("error-fits-state", absl::StrCat("client ", client_, " cannot set its watches: error ",
                                          static_cast<int32_t>(header.error)));
  }
  persistent_.Resume(header.zxid);
}

bool ClientHistory::OnEvent(const ReplyHeader& header, const coordination::WatcherEvent& event) {
  (void)header;
  const bool deleted = event.type == WatchEventType::kNodeDeleted;
  const bool data = event.type == WatchEventType::kNodeCreated || deleted ||
                    event.type == WatchEventType::kNodeDataChanged;
  const bool children = event.type == WatchEventType::kNodeChildrenChanged || deleted;
  const bool persistent = persistent_.OnEvent(event.type, event.path);
  bool expected = persistent;
  std::erase_if(watches_, [&](const Watch& watch) {
    if (watch.path != event.path) return false;
    if (watch.kind == Watch::Kind::kData ? !data : !children) return false;
    const Zxid now = committed_->last();
    const bool changed = watch.kind == Watch::Kind::kData
                             ? model_->DataChanged(watch.path, watch.since, now)
                             : model_->ChildrenChanged(watch.path, watch.since, now);
    if (changed) expected = true;
    return true;
  });
  if (!expected) {
    Fail("event-is-true",
         absl::StrCat("client ", client_, " gets an event of type ",
                      static_cast<int32_t>(event.type), " for ", std::string(event.path),
                      ", and has no watch there that a change could fire"));
  }
  return persistent;
}

void ClientHistory::OnOther(const ReplyHeader& header) { SeeZxid(header.zxid, "ping reply"); }

void ClientHistory::OnSessionLost(SessionId session) {
  if (model_->StateOf(session) == ZnodeModel::SessionState::kOpen) {
    Fail("session-ends-once", absl::StrCat("client ", client_, " is told that session ",
                                           session.ToString(), " is gone, and it is open"));
  }
  in_flight_.clear();
  watches_.clear();
  persistent_.Clear();
}

void ClientHistory::OnDisconnected() { in_flight_.clear(); }

const std::vector<ClientHistory::Watch>& ClientHistory::OnReconnected(bool restore) {
  if (!restore) {
    watches_.clear();
    persistent_.Clear();
  }
  persistent_.Suspend();
  // The deletion of a node with two watches would be told twice, once for each list.
  std::erase_if(watches_, [&](const Watch& watch) {
    if (watch.kind == Watch::Kind::kData) return false;
    return std::any_of(watches_.begin(), watches_.end(), [&](const Watch& other) {
      return other.kind == Watch::Kind::kData && other.path == watch.path;
    });
  });
  for (Watch& watch : watches_) watch.restored = true;
  return watches_;
}

}  // namespace lockstep::sim
