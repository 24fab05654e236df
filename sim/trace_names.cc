#include "sim/trace_names.h"

#include <algorithm>

namespace lockstep::sim {
namespace {

constexpr std::string_view kZab = "ZkV3_7_0";
constexpr std::string_view kReplication = "KafkaReplication";

// What cuts nodes off from each other. (The specification has one partition at a time.)
bool CutsOff(std::string_view fault) {
  constexpr std::string_view kKinds[] = {"isolate", "isolate-one-way", "isolate-on-event",
                                         "split",   "bridge",          "cut-link"};
  return std::find(std::begin(kKinds), std::end(kKinds), fault) != std::end(kKinds);
}

}  // namespace

std::string_view ActionName(EventKind kind, const NamingState& state) {
  switch (kind) {
    case EventKind::kLooking:
      return state.leads ? "LeaderTimeout" : state.follows ? "FollowerTimeout" : "looking";
    case EventKind::kSyncDiff:
    case EventKind::kSyncTrunc:
    case EventKind::kSyncTruncDiff:
    case EventKind::kSyncSnap:
      return "LeaderSyncFollower";
    case EventKind::kElected:
      return "ControllerElectLeader";
    case EventKind::kPartitionLeading:
      return "BecomeLeader";
    case EventKind::kPartitionFollowing:
      return "BecomeFollower";
    case EventKind::kIsrShrink:
      return "LeaderShrinkIsr";
    case EventKind::kIsrExpand:
      return "LeaderExpandIsr";
    default:
      return EventName(kind);
  }
}

std::string_view ArrivalName(wire::Kind kind, const NamingState& state) {
  switch (kind) {
    case wire::Kind::kNotification:
      return "FLEReceiveNotmsg";
    case wire::Kind::kFollowerInfo:
      return "LeaderProcessFOLLOWERINFO";
    case wire::Kind::kLeaderInfo:
      return "FollowerProcessLEADERINFO";
    case wire::Kind::kAckEpoch:
      return "LeaderProcessACKEPOCH";
    case wire::Kind::kDiff:
    case wire::Kind::kTrunc:
    case wire::Kind::kSnap:
      return "FollowerProcessSyncMessage";
    case wire::Kind::kNewLeader:
      return "FollowerProcessNEWLEADER";
    case wire::Kind::kAckNewLeader:
      return "LeaderProcessACKLD";
    case wire::Kind::kUpToDate:
      return "FollowerProcessUPTODATE";
    case wire::Kind::kProposal:
      return state.synchronized ? "FollowerProcessPROPOSAL" : "FollowerProcessPROPOSALInSync";
    case wire::Kind::kAck:
      return "LeaderProcessACK";
    case wire::Kind::kCommit:
      return state.synchronized ? "FollowerProcessCOMMIT" : "FollowerProcessCOMMITInSync";
    case wire::Kind::kHello:
      return "receive-hello";
    case wire::Kind::kSnapChunk:
      return "receive-snap-chunk";
    case wire::Kind::kPing:
      return "receive-ping";
    case wire::Kind::kRequest:
      return "receive-forwarded-request";
    case wire::Kind::kReply:
      return "receive-forwarded-reply";
    case wire::Kind::kReplicaFetchRequest:
      return "receive-replica-fetch";
    case wire::Kind::kReplicaFetchResponse:
      return "FollowerReplicate";
  }
  return "receive-unknown";
}

std::string_view LineName(std::string_view who, std::string_view what) {
  if (who == "fault") return CutsOff(what) ? "PartitionStart" : "fault";
  if (what == "starts") return "NodeStart";
  if (what == "killed" || what == "power-off") return "NodeCrash";
  return what.empty() ? who : what;
}

const std::vector<ActionInfo>& AllActions() {
  static const std::vector<ActionInfo> kActions = {
      {"FLEReceiveNotmsg", kZab, "Notification arrives"},
      {"LeaderTimeout", kZab, "looking, of a leader"},
      {"FollowerTimeout", kZab, "looking, of a follower"},
      {"LeaderProcessFOLLOWERINFO", kZab, "FollowerInfo arrives"},
      {"FollowerProcessLEADERINFO", kZab, "LeaderInfo arrives"},
      {"LeaderProcessACKEPOCH", kZab, "AckEpoch arrives"},
      {"LeaderSyncFollower", kZab, "sync-diff, sync-trunc, sync-trunc-diff, sync-snap"},
      {"FollowerProcessSyncMessage", kZab, "Diff, Trunc or Snap arrives"},
      {"FollowerProcessPROPOSALInSync", kZab, "Proposal arrives before UpToDate"},
      {"FollowerProcessCOMMITInSync", kZab, "Commit arrives before UpToDate"},
      {"FollowerProcessNEWLEADER", kZab, "NewLeader arrives"},
      {"LeaderProcessACKLD", kZab, "AckNewLeader arrives"},
      {"FollowerProcessUPTODATE", kZab, "UpToDate arrives"},
      {"LeaderProcessRequest", kZab, "a leader sends a new Proposal for the first time"},
      {"FollowerProcessPROPOSAL", kZab, "Proposal arrives"},
      {"LeaderProcessACK", kZab, "Ack arrives"},
      {"FollowerProcessCOMMIT", kZab, "Commit arrives"},
      {"NodeCrash", kZab, "killed, power-off"},
      {"NodeStart", kZab, "starts"},
      {"PartitionStart", kZab, "a fault that cuts nodes off from each other"},
      {"PartitionRecover", kZab, "its end"},
      {"ControllerElectLeader", kReplication, "elected"},
      {"BecomeLeader", kReplication, "partition-leading"},
      {"BecomeFollower", kReplication, "partition-following"},
      {"LeaderShrinkIsr", kReplication, "isr-shrink"},
      {"LeaderExpandIsr", kReplication, "isr-expand"},
      {"FollowerReplicate", kReplication, "ReplicaFetchResponse arrives"},
  };
  return kActions;
}

}  // namespace lockstep::sim
