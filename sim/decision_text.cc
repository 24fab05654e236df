#include "sim/decision_text.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lockstep::sim {
namespace {

// Of one value: more than any drawn one, and little enough for a file to do no harm.
constexpr uint32_t kValueBytesMax = 100'000;
constexpr size_t kPartsMax = 100;
constexpr uint32_t kKeysMax = 1'000;
constexpr int64_t kNanosecondsMax = int64_t{1'000'000} * 1'000'000'000;

struct OpName {
  ClientOp op;
  const char* name;
};
constexpr OpName kOpNames[] = {
    {ClientOp::kSet, "set"},
    {ClientOp::kSetVersion, "set-version"},
    {ClientOp::kGet, "get"},
    {ClientOp::kGetWatch, "get-watch"},
    {ClientOp::kExistsWatch, "exists-watch"},
    {ClientOp::kCreate, "create"},
    {ClientOp::kDelete, "delete"},
    {ClientOp::kCreateSequential, "create-sequential"},
    {ClientOp::kCreateEphemeral, "create-ephemeral"},
    {ClientOp::kDeleteOwn, "delete-own"},
    {ClientOp::kChildren, "children"},
    {ClientOp::kChildrenWatch, "children-watch"},
    {ClientOp::kSyncGet, "sync-get"},
    {ClientOp::kCloseSession, "close-session"},
    {ClientOp::kUnknown, "unknown"},
    {ClientOp::kMulti, "multi"},
    {ClientOp::kMultiRead, "multi-read"},
    {ClientOp::kAddWatch, "add-watch"},
    {ClientOp::kRemoveWatches, "remove-watches"},
};
static_assert(std::size(kOpNames) == static_cast<size_t>(ClientOp::kCount));

constexpr const char* kPartNames[] = {
    "set",    "set-version", "check",   "create", "create-sequential", "create-ephemeral",
    "delete", "get",         "children"};
static_assert(std::size(kPartNames) == static_cast<size_t>(MultiPart::Kind::kCount));

constexpr const char* kAdminNames[] = {"reassign",       "cancel",     "elect",          "recreate",
                                       "delete-records", "min-insync", "add-partitions", "list"};
static_assert(std::size(kAdminNames) == static_cast<size_t>(AdminOp::kCount));

constexpr server::LinkKind kLinks[] = {server::LinkKind::kElection, server::LinkKind::kLearner,
                                       server::LinkKind::kClient, server::LinkKind::kBroker,
                                       server::LinkKind::kCoordination};

std::string NodeName(const Plan& plan, uint32_t node) {
  if (node < plan.servers) return absl::StrCat("s", node + 1);
  return ClientName(plan, node - plan.servers);
}

std::optional<uint32_t> ParseServer(const Plan& plan, std::string_view text) {
  if (!text.starts_with('s')) return std::nullopt;
  const auto number = ParseNumber(text.substr(1));
  if (!number || *number == 0 || *number > plan.servers) return std::nullopt;
  return static_cast<uint32_t>(*number - 1);
}

std::optional<uint32_t> ParseNode(const Plan& plan, std::string_view text) {
  if (const auto server = ParseServer(plan, text)) return server;
  if (const auto client = ClientNamed(plan, text)) return plan.servers + *client;
  return std::nullopt;
}

// The part behind "name=", or nothing.
std::optional<std::string_view> After(std::string_view word, std::string_view name) {
  if (!word.starts_with(name)) return std::nullopt;
  return word.substr(name.size());
}

std::optional<uint32_t> ParseUpTo(std::string_view text, uint64_t max) {
  const auto number = ParseNumber(text);
  if (!number || *number > max) return std::nullopt;
  return static_cast<uint32_t>(*number);
}

std::optional<uint32_t> ParseKey(std::string_view word) {
  const auto rest = After(word, "/k");
  return rest ? ParseUpTo(*rest, kKeysMax) : std::nullopt;
}

std::optional<uint32_t> ParseBytes(std::string_view word) {
  if (!word.ends_with('B')) return std::nullopt;
  return ParseUpTo(word.substr(0, word.size() - 1), kValueBytesMax);
}

// ---- Connections -------------------------------------------------------------------------------

std::string ConnectionText(const Plan& plan, const ConnectionName& name) {
  return absl::StrCat(server::ToString(name.link), ":", NodeName(plan, name.from), ":",
                      NodeName(plan, name.to), ":", name.nth, name.direction == 0 ? "" : ":back");
}

std::optional<ConnectionName> ParseConnection(const Plan& plan, std::string_view text) {
  const std::vector<std::string_view> parts = SplitAt(text, ':');
  if (parts.size() < 4 || parts.size() > 5) return std::nullopt;
  ConnectionName name;
  bool known = false;
  for (server::LinkKind link : kLinks) {
    if (parts[0] != server::ToString(link)) continue;
    name.link = link;
    known = true;
  }
  const auto from = ParseNode(plan, parts[1]);
  const auto to = ParseNode(plan, parts[2]);
  const auto nth = ParseUpTo(parts[3], 1'000'000);
  if (!known || !from || !to || !nth) return std::nullopt;
  if (parts.size() == 5 && parts[4] != "back") return std::nullopt;
  name.from = *from;
  name.to = *to;
  name.nth = *nth;
  name.direction = parts.size() == 5 ? 1 : 0;
  return name;
}

bool WaitsForEvent(FaultKind kind) {
  return kind == FaultKind::kCrashOnEvent || kind == FaultKind::kIsolateOnEvent;
}

bool HasPlace(FaultKind kind) {
  return kind == FaultKind::kBitRot || kind == FaultKind::kLatentError ||
         kind == FaultKind::kMisdirectedWrite;
}

bool SaysHow(FaultKind kind) {
  return kind == FaultKind::kKillLeader || kind == FaultKind::kKillPartitionLeader ||
         kind == FaultKind::kStrikeLeaders;
}

// Whether all is there that carrying it out needs.
bool Complete(const Plan& plan, const FaultDecision& fault) {
  switch (fault.kind) {
    case FaultKind::kKill:
    case FaultKind::kPowerLoss:
    case FaultKind::kKillLeader:
    case FaultKind::kCrashInStep:
    case FaultKind::kPause:
    case FaultKind::kIsolate:
    case FaultKind::kIsolateOneWay:
    case FaultKind::kSlowDisk:
    case FaultKind::kDiskError:
    case FaultKind::kDiskFull:
    case FaultKind::kBitRot:
    case FaultKind::kLatentError:
    case FaultKind::kMisdirectedWrite:
    case FaultKind::kLyingSync:
    case FaultKind::kDiskLost:
    case FaultKind::kClockJump:
    case FaultKind::kStopCleanly:
    case FaultKind::kKillPartitionLeader:
    case FaultKind::kPausePartitionLeader:
    case FaultKind::kSlowCoordination:
      return fault.server.has_value();
    case FaultKind::kCutReplication:
      return !fault.connections.empty() &&
             std::all_of(fault.connections.begin(), fault.connections.end(),
                         [&](const ConnectionName& name) {
                           return name.from < plan.servers && name.to < plan.servers;
                         });
    case FaultKind::kStrikeLeaders:
      return fault.count > 0;
    case FaultKind::kDiskReplaced:
      return fault.server.has_value() && *fault.server >= plan.voters();
    case FaultKind::kPowerLossAll:
    case FaultKind::kSplit:
      return true;
    case FaultKind::kBridge:
      return fault.server.has_value();
    case FaultKind::kCutLink:
    case FaultKind::kSlowLink:
      return fault.server.has_value() && fault.other.has_value() && *fault.server != *fault.other;
    case FaultKind::kCrashOnEvent:
    case FaultKind::kIsolateOnEvent:
      return fault.event != EventKind::kCount && fault.count > 0;
    case FaultKind::kResetConnection:
    case FaultKind::kResetStorm:
    case FaultKind::kStickConnection:
    case FaultKind::kResetCoordination:
    case FaultKind::kStickCoordination:
      return !fault.connections.empty();
    case FaultKind::kClientVanishes:
    case FaultKind::kClientMoves:
      return fault.client.has_value();
    case FaultKind::kCount:
      break;
  }
  return false;
}

bool ParseFaultWord(const Plan& plan, std::string_view word, FaultDecision* fault) {
  const auto flag = [&](std::string_view name, bool* into) {
    if (word == name) *into = true;
    return word == name;
  };
  const auto duration = [&](std::string_view name, Duration* into, bool* ok) {
    const auto text = After(word, name);
    if (!text) return false;
    const auto time = ParseDuration(*text);
    *ok = time.has_value() && time->ns >= 0;
    if (*ok) *into = *time;
    return true;
  };
  bool ok = true;
  bool power = false;
  if (flag("out", &fault->out) || flag("in", &fault->in) || flag("clients", &fault->with_clients)) {
    return true;
  }
  if (flag("power-loss", &power)) {
    fault->stop = StopKind::kPowerLoss;
    return true;
  }
  if (duration("for=", &fault->time, &ok) || duration("by=", &fault->extra, &ok)) return ok;
  if (const auto text = After(word, "ms=")) {
    const bool negative = text->starts_with('-');
    const auto number = ParseUpTo(text->substr(negative ? 1 : 0), 1'000'000'000);
    if (!number) return false;
    fault->by_ms = negative ? -int64_t{*number} : int64_t{*number};
    return true;
  }
  if (const auto text = After(word, "on=")) {
    for (size_t i = 0; i < static_cast<size_t>(EventKind::kCount); ++i) {
      if (*text == EventName(static_cast<EventKind>(i))) fault->event = static_cast<EventKind>(i);
    }
    return fault->event != EventKind::kCount;
  }
  if (const auto text = After(word, "count=")) {
    const auto number = ParseUpTo(*text, 1'000'000);
    if (!number) return false;
    fault->count = *number;
    return true;
  }
  if (const auto text = After(word, "place=")) {
    const auto number = ParseUpTo(*text, kPlaceMax);
    fault->place = number.value_or(0);
    return number.has_value();
  }
  if (const auto text = After(word, "side=")) {
    for (std::string_view name : SplitAt(*text, ',')) {
      const auto node = ParseNode(plan, name);
      if (!node) return false;
      fault->side.push_back(*node);
    }
    return true;
  }
  if (const auto text = After(word, "connection=")) {
    const auto name = ParseConnection(plan, *text);
    if (!name || fault->connections.size() >= kPartsMax) return false;
    fault->connections.push_back(*name);
    return true;
  }
  if (const auto server = ParseServer(plan, word)) {
    if (fault->other) return false;
    (fault->server ? fault->other : fault->server) = *server;
    return true;
  }
  if (const auto client = ClientNamed(plan, word)) {
    fault->client = *client;
    return true;
  }
  return false;
}

// ---- Steps of clients --------------------------------------------------------------------------

std::string PartText(const MultiPart& part) {
  std::string text = absl::StrCat(kPartNames[static_cast<size_t>(part.kind)], ":/k", part.key);
  if (part.parent) absl::StrAppend(&text, ":below=/k", *part.parent);
  if (part.ephemeral) text += ":ephemeral";
  if (part.bytes > 0) absl::StrAppend(&text, ":", part.bytes, "B");
  return text;
}

std::optional<MultiPart> ParsePart(std::string_view text) {
  const std::vector<std::string_view> words = SplitAt(text, ':');
  MultiPart part;
  part.kind = MultiPart::Kind::kCount;
  for (size_t i = 0; i < std::size(kPartNames); ++i) {
    if (words[0] == kPartNames[i]) part.kind = static_cast<MultiPart::Kind>(i);
  }
  if (part.kind == MultiPart::Kind::kCount) return std::nullopt;
  for (size_t i = 1; i < words.size(); ++i) {
    if (const auto key = ParseKey(words[i])) {
      part.key = *key;
    } else if (const auto below = After(words[i], "below=")) {
      part.parent = ParseKey(*below);
      if (!part.parent) return std::nullopt;
    } else if (words[i] == "ephemeral") {
      part.ephemeral = true;
    } else if (const auto bytes = ParseBytes(words[i])) {
      part.bytes = *bytes;
    } else {
      return std::nullopt;
    }
  }
  return part;
}

bool ParseStepWord(std::string_view word, ClientStep* step) {
  if (const auto key = ParseKey(word)) {
    step->key = *key;
  } else if (word == "/") {
    step->root = true;
  } else if (const auto below = After(word, "below=")) {
    step->parent = ParseKey(*below);
    return step->parent.has_value();
  } else if (word == "ephemeral") {
    step->ephemeral = true;
  } else if (word == "other") {
    step->other = true;
  } else if (const auto type = After(word, "type=")) {
    const auto number = ParseUpTo(*type, 5);
    step->type = number.value_or(0);
    return number.has_value();
  } else if (const auto nth = After(word, "nth=")) {
    const auto number = ParseUpTo(*nth, 1'000'000);
    step->nth = number.value_or(0);
    return number.has_value();
  } else if (const auto bytes = ParseBytes(word)) {
    step->bytes = *bytes;
  } else if (const auto part = ParsePart(word)) {
    if (step->parts.size() >= kPartsMax) return false;
    step->parts.push_back(*part);
  } else {
    return false;
  }
  return true;
}

// ---- Partitions --------------------------------------------------------------------------------

std::string PartitionText(const Plan& plan, uint32_t topic, int32_t partition) {
  return absl::StrCat(plan.brokers.topics[topic].name, "-", partition);
}

bool ParsePartition(const Plan& plan, std::string_view text, uint32_t* topic, int32_t* partition) {
  const size_t dash = text.rfind('-');
  if (dash == std::string_view::npos) return false;
  const auto number = ParseUpTo(text.substr(dash + 1), 1'000);
  if (!number) return false;
  for (uint32_t t = 0; t < plan.brokers.topics.size(); ++t) {
    if (plan.brokers.topics[t].name != text.substr(0, dash)) continue;
    *topic = t;
    *partition = static_cast<int32_t>(*number);
    return true;
  }
  return false;
}

}  // namespace

std::vector<std::string_view> SplitAt(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::optional<uint64_t> ParseNumber(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string DurationText(Duration time) {
  struct Unit {
    int64_t ns;
    const char* name;
  };
  for (const Unit& unit : {Unit{1'000'000'000, "s"}, Unit{1'000'000, "ms"}, Unit{1'000, "us"}}) {
    if (time.ns % unit.ns == 0) return absl::StrCat(time.ns / unit.ns, unit.name);
  }
  return absl::StrCat(time.ns, "ns");
}

std::optional<Duration> ParseDuration(std::string_view text) {
  int64_t unit = 1'000'000'000;
  size_t letters = 1;
  if (text.ends_with("ms")) {
    unit = 1'000'000;
    letters = 2;
  } else if (text.ends_with("us")) {
    unit = 1'000;
    letters = 2;
  } else if (text.ends_with("ns")) {
    unit = 1;
    letters = 2;
  } else if (!text.ends_with('s')) {
    return std::nullopt;
  }
  const auto number = ParseNumber(text.substr(0, text.size() - letters));
  if (!number || *number > static_cast<uint64_t>(kNanosecondsMax / unit)) return std::nullopt;
  return Duration{static_cast<int64_t>(*number) * unit};
}

std::string FaultText(const Plan& plan, const FaultDecision& fault) {
  std::string text = FaultName(fault.kind);
  if (fault.server) absl::StrAppend(&text, " s", *fault.server + 1);
  if (fault.other) absl::StrAppend(&text, " s", *fault.other + 1);
  if (fault.client) absl::StrAppend(&text, " ", ClientName(plan, *fault.client));
  if (SaysHow(fault.kind) && fault.stop == StopKind::kPowerLoss) text += " power-loss";
  if (fault.out) text += " out";
  if (fault.in) text += " in";
  if (fault.with_clients) text += " clients";
  if (WaitsForEvent(fault.kind)) absl::StrAppend(&text, " on=", EventName(fault.event));
  if (fault.count > 0) absl::StrAppend(&text, " count=", fault.count);
  if (HasPlace(fault.kind)) absl::StrAppend(&text, " place=", fault.place);
  if (fault.by_ms != 0) absl::StrAppend(&text, " ms=", fault.by_ms);
  if (fault.extra > Duration{}) absl::StrAppend(&text, " by=", DurationText(fault.extra));
  for (size_t i = 0; i < fault.side.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? " side=" : ",", NodeName(plan, fault.side[i]));
  }
  for (const ConnectionName& name : fault.connections) {
    absl::StrAppend(&text, " connection=", ConnectionText(plan, name));
  }
  if (fault.time > Duration{}) absl::StrAppend(&text, " for=", DurationText(fault.time));
  return text;
}

std::optional<FaultDecision> ParseFault(const Plan& plan,
                                        const std::vector<std::string_view>& words) {
  if (words.empty()) return std::nullopt;
  FaultDecision fault;
  fault.kind = FaultKind::kCount;
  for (const FaultInfo& info : AllFaults()) {
    if (words[0] == info.name) fault.kind = info.kind;
  }
  if (fault.kind == FaultKind::kCount) return std::nullopt;
  for (size_t i = 1; i < words.size(); ++i) {
    if (!ParseFaultWord(plan, words[i], &fault)) return std::nullopt;
  }
  if (!Complete(plan, fault)) return std::nullopt;
  return fault;
}

std::string StepText(const ClientStep& step) {
  if (step.leaves) return "leaves";
  std::string text = kOpNames[static_cast<size_t>(step.op)].name;
  if (step.root) {
    text += " /";
  } else if (step.parts.empty()) {
    absl::StrAppend(&text, " /k", step.key);
  }
  if (step.parent) absl::StrAppend(&text, " below=/k", *step.parent);
  if (step.ephemeral) text += " ephemeral";
  if (step.other) text += " other";
  if (step.type > 0) absl::StrAppend(&text, " type=", step.type);
  if (step.nth > 0) absl::StrAppend(&text, " nth=", step.nth);
  if (step.bytes > 0) absl::StrAppend(&text, " ", step.bytes, "B");
  for (const MultiPart& part : step.parts) absl::StrAppend(&text, " ", PartText(part));
  return text;
}

std::optional<ClientStep> ParseClientStep(const std::vector<std::string_view>& words) {
  if (words.empty()) return std::nullopt;
  ClientStep step;
  if (words[0] == "leaves") {
    step.leaves = true;
    return words.size() == 1 ? std::optional(step) : std::nullopt;
  }
  step.op = ClientOp::kCount;
  for (const OpName& name : kOpNames) {
    if (words[0] == name.name) step.op = name.op;
  }
  if (step.op == ClientOp::kCount) return std::nullopt;
  for (size_t i = 1; i < words.size(); ++i) {
    if (!ParseStepWord(words[i], &step)) return std::nullopt;
  }
  const bool multi = step.op == ClientOp::kMulti || step.op == ClientOp::kMultiRead;
  for (const MultiPart& part : step.parts) {
    const bool reads =
        part.kind == MultiPart::Kind::kGet || part.kind == MultiPart::Kind::kChildren;
    if (reads != (step.op == ClientOp::kMultiRead)) return std::nullopt;
  }
  if (multi == step.parts.empty()) return std::nullopt;
  if (step.op == ClientOp::kRemoveWatches && step.type == 0) return std::nullopt;
  return step;
}

std::string StepText(const Plan& plan, const ProducerStep& step) {
  std::string text = absl::StrCat("produce ", PartitionText(plan, step.topic, step.partition));
  for (const std::vector<uint32_t>& batch : step.batches) {
    for (size_t i = 0; i < batch.size(); ++i) {
      absl::StrAppend(&text, i == 0 ? " " : ",", batch[i]);
    }
  }
  return text;
}

std::optional<ProducerStep> ParseProducerStep(const Plan& plan,
                                              const std::vector<std::string_view>& words) {
  ProducerStep step;
  if (words.size() < 3 || words.size() > kPartsMax || words[0] != "produce" ||
      !ParsePartition(plan, words[1], &step.topic, &step.partition)) {
    return std::nullopt;
  }
  for (size_t i = 2; i < words.size(); ++i) {
    std::vector<uint32_t>& batch = step.batches.emplace_back();
    for (std::string_view size : SplitAt(words[i], ',')) {
      const auto number = ParseUpTo(size, kValueBytesMax);
      if (!number || batch.size() >= kPartsMax) return std::nullopt;
      batch.push_back(*number);
    }
  }
  return step;
}

std::string StepText(const Plan& plan, const AdminStep& step) {
  std::string text = absl::StrCat(kAdminNames[static_cast<size_t>(step.op)], " ",
                                  PartitionText(plan, step.topic, step.partition));
  if (step.number > 0) absl::StrAppend(&text, " number=", step.number);
  for (size_t i = 0; i < step.servers.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? " to=s" : ",s", step.servers[i] + 1);
  }
  return text;
}

std::optional<AdminStep> ParseAdminStep(const Plan& plan,
                                        const std::vector<std::string_view>& words) {
  AdminStep step;
  step.op = AdminOp::kCount;
  if (words.size() < 2 || !ParsePartition(plan, words[1], &step.topic, &step.partition)) {
    return std::nullopt;
  }
  for (size_t i = 0; i < std::size(kAdminNames); ++i) {
    if (words[0] == kAdminNames[i]) step.op = static_cast<AdminOp>(i);
  }
  if (step.op == AdminOp::kCount) return std::nullopt;
  for (size_t i = 2; i < words.size(); ++i) {
    if (const auto text = After(words[i], "number=")) {
      const auto number = ParseUpTo(*text, std::numeric_limits<int32_t>::max());
      if (!number) return std::nullopt;
      step.number = *number;
    } else if (const auto to = After(words[i], "to=")) {
      for (std::string_view name : SplitAt(*to, ',')) {
        const auto server = ParseServer(plan, name);
        if (!server) return std::nullopt;
        step.servers.push_back(*server);
      }
    } else {
      return std::nullopt;
    }
  }
  return step;
}

}  // namespace lockstep::sim
