#include "core/zab/messages.h"

#include "core/base/check.h"

namespace lockstep::zab {
namespace {

struct Printer {
  std::string operator()(const FollowerInfo& m) const {
    return "FollowerInfo server=" + m.server.ToString() +
           " accepted=" + m.accepted_epoch.ToString();
  }
  std::string operator()(const LeaderInfo& m) const { return "LeaderInfo " + m.epoch.ToString(); }
  std::string operator()(const AckEpoch& m) const {
    return "AckEpoch current=" + (m.current_epoch ? m.current_epoch->ToString() : "promised") +
           " last=" + m.last_zxid.ToString();
  }
  std::string operator()(const Diff& m) const { return "Diff to=" + m.last_zxid.ToString(); }
  std::string operator()(const Trunc& m) const {
    return "Trunc at=" + m.to.ToString() + " to=" + m.last_zxid.ToString();
  }
  std::string operator()(const Snap& m) const {
    return "Snap at=" + m.zxid.ToString() + " to=" + m.last_zxid.ToString();
  }
  std::string operator()(const SnapChunk& m) const {
    return "SnapChunk " + m.data.ToString() + (m.last ? " last" : "");
  }
  std::string operator()(const NewLeader& m) const { return "NewLeader " + m.epoch.ToString(); }
  std::string operator()(const AckNewLeader& m) const {
    return "AckNewLeader " + m.epoch.ToString();
  }
  std::string operator()(const UpToDate& m) const { return "UpToDate " + m.committed.ToString(); }
  std::string operator()(const Proposal& m) const {
    return "Proposal " + m.zxid.ToString() + " after " + m.previous.ToString();
  }
  std::string operator()(const Ack& m) const { return "Ack " + m.zxid.ToString(); }
  std::string operator()(const Commit& m) const { return "Commit " + m.zxid.ToString(); }
  std::string operator()(const Ping& m) const { return "Ping " + m.payload.ToString(); }
  std::string operator()(const Request& m) const { return "Request " + m.payload.ToString(); }
  std::string operator()(const Reply& m) const { return "Reply " + m.payload.ToString(); }
};

}  // namespace

const char* ToString(ServerState state) {
  switch (state) {
    case ServerState::kLooking:
      return "LOOKING";
    case ServerState::kFollowing:
      return "FOLLOWING";
    case ServerState::kLeading:
      return "LEADING";
    case ServerState::kObserving:
      return "OBSERVING";
  }
  LS_UNREACHABLE();
}

std::string Vote::ToString() const {
  return leader.ToString() + "@" + last_zxid.ToString() + "/" + current_epoch.ToString();
}

std::string ToString(const Message& message) { return std::visit(Printer(), message); }

std::string ToString(const Notification& notification) {
  return std::string("Notification ") + ToString(notification.state) +
         " round=" + std::to_string(notification.round) + " vote=" + notification.vote.ToString();
}

}  // namespace lockstep::zab
