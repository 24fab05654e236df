#include "shell/log.h"

#include <utility>

#include "core/base/check.h"
#include "spdlog/sinks/stdout_sinks.h"

namespace lockstep::shell {
namespace {

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  LS_UNREACHABLE();
}

// How an event of the machine is shown.
struct EventStyle {
  LogLevel level;
  const char* detail;         // what Event::detail counts; empty: what the text says better
  const char* text = "text";  // what Event::text names
};

EventStyle StyleOf(EventKind kind) {
  switch (kind) {
    case EventKind::kLooking:
      return {LogLevel::kInfo, "detail"};
    case EventKind::kFollowing:
      return {LogLevel::kInfo, "round"};
    case EventKind::kLeading:
      return {LogLevel::kInfo, "round"};
    // Told, since it is all that a server without a quorum has to say.
    case EventKind::kElectionRound:
      return {LogLevel::kInfo, "round"};
    case EventKind::kEpochProposed:
      return {LogLevel::kInfo, "detail"};
    case EventKind::kEpochAccepted:
      return {LogLevel::kInfo, "detail"};
    case EventKind::kSyncDiff:
      return {LogLevel::kInfo, "transactions"};
    case EventKind::kSyncTrunc:
      return {LogLevel::kInfo, "detail"};
    case EventKind::kSyncTruncDiff:
      return {LogLevel::kInfo, "transactions"};
    case EventKind::kSyncSnap:
      return {LogLevel::kInfo, "detail"};
    case EventKind::kNewLeaderAcked:
      return {LogLevel::kInfo, "detail"};
    case EventKind::kEstablished:
      return {LogLevel::kInfo, "detail"};
    case EventKind::kUpToDate:
      return {LogLevel::kInfo, "detail"};
    case EventKind::kTruncated:
      return {LogLevel::kInfo, "detail"};
    case EventKind::kEpochExhausted:
      return {LogLevel::kInfo, "detail"};
    case EventKind::kLearnsOnly:
      return {LogLevel::kWarning, "detail"};
    case EventKind::kVoteRegained:
      return {LogLevel::kInfo, "detail"};
    case EventKind::kLearnerDropped:
      return {LogLevel::kWarning, "detail"};
    case EventKind::kIgnored:
      return {LogLevel::kDebug, "detail", "partition"};
    case EventKind::kRecovered:
      return {LogLevel::kInfo, "transactions"};
    case EventKind::kTornTail:
      return {LogLevel::kWarning, "bytes"};
    case EventKind::kSegmentRolled:
      return {LogLevel::kInfo, "segment"};
    case EventKind::kSegmentDropped:
      return {LogLevel::kInfo, "segment"};
    case EventKind::kSnapshotWritten:
      return {LogLevel::kInfo, "bytes"};
    case EventKind::kSnapshotReceived:
      return {LogLevel::kInfo, "bytes"};
    case EventKind::kLogDamaged:
      return {LogLevel::kError, "", "file"};
    case EventKind::kLogCut:
      return {LogLevel::kWarning, "bytes", "directory"};
    case EventKind::kLogStray:
      return {LogLevel::kWarning, "detail", "directory"};
    case EventKind::kSyncCompleted:
      return {LogLevel::kDebug, "records"};
    case EventKind::kSessionCreated:
      return {LogLevel::kDebug, "session"};
    case EventKind::kSessionClosed:
      return {LogLevel::kDebug, "session"};
    case EventKind::kSessionMoved:
      return {LogLevel::kDebug, "session"};
    case EventKind::kSessionExpired:
      return {LogLevel::kInfo, "session"};
    case EventKind::kConnectionRefused:
      return {LogLevel::kInfo, "detail"};
    case EventKind::kConnectionClosed:
      return {LogLevel::kDebug, "detail"};
    case EventKind::kWatchFired:
      return {LogLevel::kDebug, "watchers"};
    case EventKind::kBackpressure:
      return {LogLevel::kDebug, "connection"};
    case EventKind::kPartitionLeading:
      return {LogLevel::kInfo, "epoch", "partition"};
    case EventKind::kPartitionFollowing:
      return {LogLevel::kInfo, "epoch", "partition"};
    case EventKind::kPartitionResigned:
      return {LogLevel::kInfo, "epoch", "partition"};
    case EventKind::kHistoryDiverged:
      return {LogLevel::kInfo, "end", "partition"};
    case EventKind::kLogTruncated:
      return {LogLevel::kInfo, "end", "partition"};
    case EventKind::kLogRestarted:
      return {LogLevel::kWarning, "start", "partition"};
    case EventKind::kFetchRefused:
      return {LogLevel::kDebug, "detail", "partition"};
    case EventKind::kFetchFailed:
      return {LogLevel::kDebug, "detail", "partition"};
    case EventKind::kIsrShrink:
      return {LogLevel::kInfo, "size", "partition"};
    case EventKind::kIsrExpand:
      return {LogLevel::kInfo, "size", "partition"};
    case EventKind::kIsrChanged:
      return {LogLevel::kInfo, "version", "partition"};
    case EventKind::kIsrChangeFailed:
      return {LogLevel::kInfo, "version", "partition"};
    case EventKind::kProducesFailed:
      return {LogLevel::kInfo, "produces", "partition"};
    case EventKind::kGroupsLoaded:
      return {LogLevel::kInfo, "groups", "partition"};
    case EventKind::kGroupGeneration:
    case EventKind::kGroupMemberExpired:
      return {LogLevel::kInfo, "generation", "group"};
    case EventKind::kDigestCompared:
      return {LogLevel::kDebug, "detail"};
    case EventKind::kDigestMismatch:
      return {LogLevel::kError, "detail"};
    case EventKind::kNotServing:
      return {LogLevel::kWarning, "seconds"};
    case EventKind::kBrokerRegistered:
      return {LogLevel::kInfo, "incarnation"};
    case EventKind::kBrokerUnregistered:
      return {LogLevel::kWarning, "incarnation"};
    case EventKind::kBrokerFenced:
      return {LogLevel::kWarning, "session"};
    case EventKind::kElected:
      return {LogLevel::kInfo, "epoch", "partition"};
    case EventKind::kElectionLost:
      return {LogLevel::kInfo, "epoch", "partition"};
    case EventKind::kUncleanElection:
      return {LogLevel::kWarning, "epoch", "partition"};
    case EventKind::kHandedOver:
      return {LogLevel::kInfo, "epoch", "partition"};
    case EventKind::kReassignmentStep:
      return {LogLevel::kInfo, "", "partition"};
    case EventKind::kReplicaOpened:
      return {LogLevel::kInfo, "", "partition"};
    case EventKind::kReplicaClosed:
      return {LogLevel::kInfo, "", "partition"};
    case EventKind::kReplicaGivenUp:
      return {LogLevel::kWarning, "", "partition"};
    case EventKind::kStateChangeQueueFull:
      return {LogLevel::kWarning, "requests"};
    case EventKind::kStateChangeIgnored:
      return {LogLevel::kInfo, "", "partition"};
    case EventKind::kTopicRemoved:
      return {LogLevel::kInfo, "", "topic"};
    case EventKind::kZnodeUnreadable:
      return {LogLevel::kError, "", "znode"};
    case EventKind::kCount:
      break;
  }
  LS_UNREACHABLE();
}

std::string Hex(uint64_t number) { return fmt::format("{:#x}", number); }

void AppendField(std::string_view key, std::string_view value, std::string* line) {
  *line += ' ';
  *line += key;
  *line += '=';
  if (!value.empty() && value.find_first_of(" \"=\n\t\r\\") == std::string_view::npos) {
    *line += value;
    return;
  }
  *line += '"';
  for (char c : value) {
    switch (c) {
      case '"':
        *line += "\\\"";
        break;
      case '\\':
        *line += "\\\\";
        break;
      case '\n':
        *line += "\\n";
        break;
      case '\t':
        *line += "\\t";
        break;
      case '\r':
        *line += "\\r";
        break;
      default:
        *line += c;
    }
  }
  *line += '"';
}

}  // namespace

Log::Log(LogLevel level) : Log(level, std::make_shared<spdlog::sinks::stderr_sink_mt>()) {}

Log::Log(LogLevel level, spdlog::sink_ptr sink) : logger_("lockstep", std::move(sink)) {
  logger_.set_level(SpdlogLevel(level));
  logger_.flush_on(spdlog::level::debug);
  logger_.set_pattern("time=%Y-%m-%dT%H:%M:%S.%eZ level=%l%v", spdlog::pattern_time_type::utc);
}

void Log::SetServer(ServerId server) { who_ = " server=" + server.ToString(); }
void Log::SetBroker(replication::BrokerId broker) { who_ = " broker=" + broker.ToString(); }

bool Log::enabled(LogLevel level) const { return logger_.should_log(SpdlogLevel(level)); }

void Log::Write(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  if (!enabled(level)) return;
  std::string line = who_;
  AppendField("event", event, &line);
  for (const LogField& field : fields) AppendField(field.key, field.value, &line);
  logger_.log(SpdlogLevel(level), line);
}

bool Log::TellRefusal(const char* reason, uint64_t* untold) {
  const std::lock_guard lock(refusals_mutex_);
  const auto now = std::chrono::steady_clock::now();
  auto [at, first] = refusals_.try_emplace(reason);
  Refusals& refusals = at->second;
  if (!first && now < refusals.told + std::chrono::seconds(1)) {
    ++refusals.untold;
    return false;
  }
  refusals.told = now;
  *untold = std::exchange(refusals.untold, 0);
  return true;
}

void Log::Write(const Event& event) {
  const EventStyle style = StyleOf(event.kind);
  if (!enabled(style.level)) return;
  uint64_t untold = 0;
  if (event.kind == EventKind::kConnectionRefused && !TellRefusal(event.reason, &untold)) return;
  std::string line = who_;
  AppendField("event", EventName(event.kind), &line);
  if (event.peer) AppendField("peer", event.peer.ToString(), &line);
  if (event.zxid != Zxid{}) AppendField("zxid", Hex(event.zxid.Packed()), &line);
  if (event.detail != 0 && *style.detail != '\0') {
    const bool session = std::string_view(style.detail) == "session";
    AppendField(style.detail, session ? Hex(event.detail) : std::to_string(event.detail), &line);
  }
  if (*event.reason != '\0') AppendField("reason", event.reason, &line);
  if (!event.text.empty()) AppendField(style.text, event.text, &line);
  if (untold > 0) AppendField("untold", std::to_string(untold), &line);
  logger_.log(SpdlogLevel(style.level), line);
}

}  // namespace lockstep::shell
