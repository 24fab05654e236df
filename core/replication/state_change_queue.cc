#include "core/replication/state_change_queue.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "core/replication/json.h"

namespace lockstep::replication {

std::string EncodeStateChanges(const std::vector<StateChange>& changes) {
  Json::Array array;
  for (const StateChange& change : changes) {
    array.push_back(
        Json::Object{{"type", change.kind == StateChange::Kind::kStartReplica ? "start-replica"
                                                                              : "close-replica"},
                     {"topic", change.topic},
                     {"topic_id", change.partition.topic.ToString()},
                     {"partition", change.partition.partition},
                     {"leader_epoch", change.epoch.value}});
  }
  return Json(Json::Object{{"version", 1}, {"requests", std::move(array)}}).ToString();
}

absl::StatusOr<std::vector<StateChange>> DecodeStateChanges(std::string_view text) {
  absl::StatusOr<Json> json = Json::Parse(text);
  if (!json.ok()) return json.status();
  const Json* requests = json->Find("requests");
  if (requests == nullptr || requests->array() == nullptr ||
      requests->array()->size() > kStateChangesMax) {
    return absl::InvalidArgumentError("state change without requests");
  }
  std::vector<StateChange> changes;
  for (const Json& request : *requests->array()) {
    StateChange change;
    const Json* type = request.Find("type");
    const Json* topic = request.Find("topic");
    const Json* id = request.Find("topic_id");
    const Json* partition = request.Find("partition");
    const Json* epoch = request.Find("leader_epoch");
    if (type == nullptr || type->string() == nullptr || topic == nullptr ||
        topic->string() == nullptr || id == nullptr || id->string() == nullptr ||
        partition == nullptr || partition->integer() == nullptr || epoch == nullptr ||
        epoch->integer() == nullptr) {
      return absl::InvalidArgumentError("state change lacks a member");
    }
    if (*type->string() == "start-replica") {
      change.kind = StateChange::Kind::kStartReplica;
    } else if (*type->string() == "close-replica") {
      change.kind = StateChange::Kind::kCloseReplica;
    } else {
      return absl::InvalidArgumentError("state change of an unknown type");
    }
    change.topic = *topic->string();
    absl::StatusOr<Uuid> uuid = Uuid::FromString(*id->string());
    if (!uuid.ok()) return uuid.status();
    const int64_t number = *partition->integer();
    const int64_t of_leader = *epoch->integer();
    if (number < 0 || number > INT32_MAX || of_leader < -1 || of_leader > INT32_MAX) {
      return absl::InvalidArgumentError("state change out of range");
    }
    change.partition = {*uuid, static_cast<int32_t>(number)};
    change.epoch = {static_cast<int32_t>(of_leader)};
    changes.push_back(std::move(change));
  }
  return changes;
}

std::vector<StateChange> ShrinkStateChanges(const std::vector<StateChange>& queue) {
  std::map<PartitionId, LeaderEpoch> newest;
  for (const StateChange& change : queue) {
    if (change.kind != StateChange::Kind::kCloseReplica) continue;
    auto [at, added] = newest.emplace(change.partition, change.epoch);
    if (!added) at->second = std::max(at->second, change.epoch);
  }
  std::vector<StateChange> kept;
  for (const StateChange& change : queue) {
    if (change.kind != StateChange::Kind::kCloseReplica) continue;
    auto at = newest.find(change.partition);
    if (at == newest.end() || at->second != change.epoch) continue;
    kept.push_back(change);
    newest.erase(at);  // of two with one epoch, the first
  }
  return kept;
}

}  // namespace lockstep::replication
