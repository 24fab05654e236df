#include "core/replication/registry.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "absl/status/status.h"
#include "core/replication/json.h"

namespace lockstep::replication {
namespace {

using coordination::ErrorCode;
using coordination::OpCode;

// More replicas than any partition has; a longer list is no record of ours.
constexpr size_t kListMax = 1000;

std::string Under(std::string_view parent, std::string_view name) {
  std::string path(parent);
  path += '/';
  path += name;
  return path;
}

// Canonical decimal, so that each node has one path.
std::optional<int32_t> ParseNumber(std::string_view text) {
  int32_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  if (std::to_string(number) != text) return std::nullopt;
  return number;
}

absl::Status Bad(const char* what) { return absl::InvalidArgumentError(what); }

template <typename T>
bool ReadInteger(const Json& json, std::string_view name, int64_t low, int64_t high, T* to) {
  const Json* member = json.Find(name);
  const int64_t* value = member == nullptr ? nullptr : member->integer();
  if (value == nullptr || *value < low || *value > high) return false;
  *to = static_cast<T>(*value);
  return true;
}

bool ReadBrokers(const Json& json, std::string_view name, bool required,
                 std::vector<BrokerId>* to) {
  const Json* member = json.Find(name);
  if (member == nullptr) return !required;
  const Json::Array* array = member->array();
  if (array == nullptr || array->size() > kListMax) return false;
  for (const Json& element : *array) {
    const int64_t* value = element.integer();
    if (value == nullptr || *value < 0 || *value > INT32_MAX) return false;
    const BrokerId broker{static_cast<int32_t>(*value)};
    if (std::find(to->begin(), to->end(), broker) != to->end()) return false;
    to->push_back(broker);
  }
  return !required || !to->empty();
}

Json BrokerList(const std::vector<BrokerId>& brokers) {
  Json::Array array;
  for (BrokerId broker : brokers) array.emplace_back(broker.value);
  return array;
}

}  // namespace

// ---- Paths -------------------------------------------------------------------------------------

std::string BrokerPath(BrokerId broker) { return Under(kBrokerIdsPath, broker.ToString()); }
std::string LineagePath(BrokerId broker) { return Under(kLineagePath, broker.ToString()); }
std::string StatePath(BrokerId broker) { return Under(kStatePath, broker.ToString()); }
std::string TopicPath(std::string_view topic) { return Under(kTopicsPath, topic); }
std::string TopicIdPath(std::string_view topic, const Uuid& id) {
  return TopicPath(topic) + "/id-" + id.ToString();
}
std::string PartitionPath(std::string_view topic, int32_t partition) {
  return Under(TopicPath(topic), std::to_string(partition));
}
std::string ReplicasPath(std::string_view topic, int32_t partition) {
  return PartitionPath(topic, partition) + "/replicas";
}
std::string IsrPath(std::string_view topic, int32_t partition) {
  return PartitionPath(topic, partition) + "/isr";
}
std::string LeaderPath(std::string_view topic, int32_t partition) {
  return PartitionPath(topic, partition) + "/leader";
}
std::string ReassignedTopicPath(std::string_view topic) { return Under(kReassignedPath, topic); }
std::string ReassignedPath(std::string_view topic, int32_t partition) {
  return Under(ReassignedTopicPath(topic), std::to_string(partition));
}

Node ParseNode(std::string_view path) {
  std::vector<std::string_view> parts;
  while (path.size() > 1 && path[0] == '/' && parts.size() < 6) {
    path.remove_prefix(1);
    const size_t end = std::min(path.find('/'), path.size());
    parts.push_back(path.substr(0, end));
    path.remove_prefix(end);
  }
  if (!path.empty() || parts.size() < 2 || parts.size() > 5 || parts[0] != "brokers") return {};
  using Kind = Node::Kind;
  const std::string_view root = parts[1];
  if (root == "ids" || root == "state") {
    const bool ids = root == "ids";
    if (parts.size() == 2) return {.kind = ids ? Kind::kBrokerIds : Kind::kOther};
    const std::optional<int32_t> broker = ParseNumber(parts[2]);
    if (!broker.has_value()) return {};
    if (parts.size() == 3) return {.kind = ids ? Kind::kBroker : Kind::kQueue, .broker = {*broker}};
    if (ids || parts.size() > 4) return {};
    return {.kind = Kind::kStateChange, .broker = {*broker}};
  }
  const bool topics = root == "topics";
  if (!topics && root != "partitions_reassigned") return {};
  if (parts.size() == 2) return {.kind = topics ? Kind::kTopics : Kind::kReassignedTopics};
  Node node{.kind = topics ? Kind::kTopic : Kind::kReassignedTopic, .topic = std::string(parts[2])};
  if (parts.size() == 3) return node;
  const std::optional<int32_t> partition = ParseNumber(parts[3]);
  if (!partition.has_value()) return {};
  node.partition = *partition;
  node.kind = topics ? Kind::kPartition : Kind::kReassigned;
  if (parts.size() == 4) return node;
  if (!topics) return {};
  if (parts[4] == "replicas") {
    node.kind = Kind::kReplicas;
  } else if (parts[4] == "isr") {
    node.kind = Kind::kIsr;
  } else if (parts[4] == "leader") {
    node.kind = Kind::kLeader;
  } else {
    return {};
  }
  return node;
}

// ---- Records -----------------------------------------------------------------------------------

std::string Encode(const BrokerRecord& record) {
  Json::Object object{{"version", 1}, {"host", record.host}, {"port", int32_t{record.port}}};
  if (!record.rack.empty()) object.emplace_back("rack", record.rack);
  if (record.fenced) object.emplace_back("fenced", true);
  return Json(std::move(object)).ToString();
}

absl::StatusOr<BrokerRecord> DecodeBroker(std::string_view text) {
  absl::StatusOr<Json> json = Json::Parse(text);
  if (!json.ok()) return json.status();
  BrokerRecord record;
  const Json* host = json->Find("host");
  if (host == nullptr || host->string() == nullptr) return Bad("broker without a host");
  record.host = *host->string();
  if (!ReadInteger(*json, "port", 0, 65535, &record.port)) return Bad("broker without a port");
  if (const Json* rack = json->Find("rack"); rack != nullptr && rack->string() != nullptr) {
    record.rack = *rack->string();
  }
  if (const Json* fenced = json->Find("fenced");
      fenced != nullptr && fenced->boolean() != nullptr) {
    record.fenced = *fenced->boolean();
  }
  return record;
}

std::string Encode(const TopicRecord& record) {
  Json::Object configs;
  for (const auto& [name, value] : record.configs) configs.emplace_back(name, value);
  Json::Object object{
      {"version", 1}, {"topic_id", record.id.ToString()}, {"configs", std::move(configs)}};
  if (record.deleting) object.emplace_back("deleting", true);
  if (record.creator) object.emplace_back("creator", record.creator.value);
  return Json(std::move(object)).ToString();
}

absl::StatusOr<TopicRecord> DecodeTopic(std::string_view text) {
  absl::StatusOr<Json> json = Json::Parse(text);
  if (!json.ok()) return json.status();
  TopicRecord record;
  const Json* id = json->Find("topic_id");
  if (id == nullptr || id->string() == nullptr) return Bad("topic without an id");
  absl::StatusOr<Uuid> uuid = Uuid::FromString(*id->string());
  if (!uuid.ok()) return uuid.status();
  record.id = *uuid;
  if (!record.id) return Bad("topic without an id");
  if (const Json* configs = json->Find("configs")) {
    if (configs->object() == nullptr) return Bad("configs of a topic");
    for (const auto& [name, value] : *configs->object()) {
      if (value.string() == nullptr) return Bad("config of a topic");
      record.configs[name] = *value.string();
    }
  }
  if (const Json* deleting = json->Find("deleting")) {
    if (deleting->boolean() == nullptr) return Bad("deleting of a topic");
    record.deleting = *deleting->boolean();
  }
  if (json->Find("creator") != nullptr &&
      !ReadInteger(*json, "creator", 1, INT64_MAX, &record.creator.value)) {
    return Bad("creator of a topic");
  }
  return record;
}

std::string Encode(const ReplicasRecord& record) {
  Json::Object object{{"version", 1}, {"replicas", BrokerList(record.replicas)}};
  if (!record.adding.empty()) object.emplace_back("adding", BrokerList(record.adding));
  if (!record.removing.empty()) object.emplace_back("removing", BrokerList(record.removing));
  return Json(std::move(object)).ToString();
}

absl::StatusOr<ReplicasRecord> DecodeReplicas(std::string_view text) {
  absl::StatusOr<Json> json = Json::Parse(text);
  if (!json.ok()) return json.status();
  ReplicasRecord record;
  if (!ReadBrokers(*json, "replicas", true, &record.replicas) ||
      !ReadBrokers(*json, "adding", false, &record.adding) ||
      !ReadBrokers(*json, "removing", false, &record.removing)) {
    return Bad("replicas of a partition");
  }
  return record;
}

std::string Encode(const IsrRecord& record) {
  Json::Array isr;
  for (const IsrMember& member : record.isr) {
    isr.push_back(
        Json::Object{{"broker", member.broker.value}, {"incarnation", member.incarnation.value}});
  }
  return Json(Json::Object{{"version", 1},
                           {"leader_epoch", record.leader_epoch.value},
                           {"isr", std::move(isr)}})
      .ToString();
}

absl::StatusOr<IsrRecord> DecodeIsr(std::string_view text) {
  absl::StatusOr<Json> json = Json::Parse(text);
  if (!json.ok()) return json.status();
  IsrRecord record;
  if (!ReadInteger(*json, "leader_epoch", -1, INT32_MAX - 1, &record.leader_epoch.value)) {
    return Bad("leader epoch of a partition");
  }
  const Json* isr = json->Find("isr");
  if (isr == nullptr || isr->array() == nullptr || isr->array()->empty() ||
      isr->array()->size() > kListMax) {
    return Bad("ISR of a partition");
  }
  for (const Json& element : *isr->array()) {
    IsrMember member;
    if (!ReadInteger(element, "broker", 0, INT32_MAX, &member.broker.value) ||
        !ReadInteger(element, "incarnation", 0, INT64_MAX, &member.incarnation.value)) {
      return Bad("member of an ISR");
    }
    record.isr.push_back(member);
  }
  std::sort(record.isr.begin(), record.isr.end());
  for (size_t i = 1; i < record.isr.size(); ++i) {
    if (record.isr[i - 1].broker == record.isr[i].broker) return Bad("member of an ISR, twice");
  }
  return record;
}

std::string Encode(const LeaderRecord& record) {
  return Json(Json::Object{{"version", 1},
                           {"broker", record.broker.value},
                           {"leader_epoch", record.epoch.value}})
      .ToString();
}

absl::StatusOr<LeaderRecord> DecodeLeader(std::string_view text) {
  absl::StatusOr<Json> json = Json::Parse(text);
  if (!json.ok()) return json.status();
  LeaderRecord record;
  if (!ReadInteger(*json, "broker", 0, INT32_MAX, &record.broker.value) ||
      !ReadInteger(*json, "leader_epoch", 0, INT32_MAX, &record.epoch.value)) {
    return Bad("leader of a partition");
  }
  return record;
}

std::string Encode(const ReassignedRecord& record) {
  return Json(Json::Object{{"version", 1}, {"replicas", BrokerList(record.replicas)}}).ToString();
}

absl::StatusOr<ReassignedRecord> DecodeReassigned(std::string_view text) {
  absl::StatusOr<Json> json = Json::Parse(text);
  if (!json.ok()) return json.status();
  ReassignedRecord record;
  if (!ReadBrokers(*json, "replicas", true, &record.replicas)) return Bad("reassigned replicas");
  return record;
}

std::string Encode(const LineageRecord& record) {
  Json::Array array;
  for (BrokerEpoch incarnation : record.incarnations) array.emplace_back(incarnation.value);
  return Json(Json::Object{{"version", 1}, {"incarnations", std::move(array)}}).ToString();
}

absl::StatusOr<LineageRecord> DecodeLineage(std::string_view text) {
  absl::StatusOr<Json> json = Json::Parse(text);
  if (!json.ok()) return json.status();
  const Json* array = json->Find("incarnations");
  if (array == nullptr || array->array() == nullptr ||
      array->array()->size() > LineageRecord::kMax) {
    return Bad("lineage of a broker");
  }
  LineageRecord record;
  for (const Json& element : *array->array()) {
    const int64_t* value = element.integer();
    if (value == nullptr || *value <= 0) return Bad("incarnation of a broker");
    if (!record.incarnations.empty() && record.incarnations.back().value >= *value) {
      return Bad("lineage of a broker is not ascending");
    }
    record.incarnations.push_back({*value});
  }
  return record;
}

// ---- Transitions -------------------------------------------------------------------------------

Transition& Transition::Create(std::string path, std::string data, bool ephemeral) {
  operations_.push_back({.op = OpCode::kCreate,
                         .path = std::move(path),
                         .data = Bytes::Copy(data),
                         .flags = ephemeral ? coordination::CreateRequest::kEphemeral : 0});
  return *this;
}
Transition& Transition::CreateSequential(std::string path, std::string data) {
  operations_.push_back({.op = OpCode::kCreate,
                         .path = std::move(path),
                         .data = Bytes::Copy(data),
                         .flags = coordination::CreateRequest::kSequential});
  return *this;
}
Transition& Transition::Delete(std::string path, int32_t version) {
  operations_.push_back({.op = OpCode::kDelete, .path = std::move(path), .version = version});
  return *this;
}
Transition& Transition::SetData(std::string path, std::string data, int32_t version) {
  operations_.push_back({.op = OpCode::kSetData,
                         .path = std::move(path),
                         .data = Bytes::Copy(data),
                         .version = version});
  return *this;
}
Transition& Transition::Check(std::string path, int32_t version) {
  operations_.push_back({.op = OpCode::kCheck, .path = std::move(path), .version = version});
  return *this;
}

coordination::MultiRequest Transition::Request() const {
  static const std::vector<coordination::Acl> kOpen = {
      {.permissions = 31, .scheme = "world", .id = "anyone"}};
  coordination::MultiRequest request;
  for (const Operation& operation : operations_) {
    coordination::MultiRequest::Operation to{.op = operation.op};
    switch (operation.op) {
      case OpCode::kCreate:
        to.body = coordination::CreateRequest{.path = operation.path,
                                              .data = {.bytes = operation.data},
                                              .acl = kOpen,
                                              .flags = operation.flags};
        break;
      case OpCode::kDelete:
        to.body = coordination::DeleteRequest{operation.path, operation.version};
        break;
      case OpCode::kSetData:
        to.body = coordination::SetDataRequest{
            operation.path, {.bytes = operation.data}, operation.version};
        break;
      default:
        to.body = coordination::CheckVersionRequest{operation.path, operation.version};
    }
    request.operations.push_back(std::move(to));
  }
  return request;
}

ErrorCode ErrorOf(const coordination::MultiResponse& response) {
  for (const coordination::MultiResponse::Result& result : response.results) {
    const auto* error = std::get_if<coordination::ErrorResponse>(&result.body);
    if (error == nullptr) return ErrorCode::kOk;
    if (error->error != ErrorCode::kOk) return error->error;
  }
  return ErrorCode::kOk;
}

}  // namespace lockstep::replication
