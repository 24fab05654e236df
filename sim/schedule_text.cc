#include "sim/schedule_text.h"

#include <algorithm>
#include <limits>
#include <map>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "sim/decision_text.h"
#include "sim/plan_fields.h"

namespace lockstep::sim {
namespace {

constexpr std::string_view kMagic = "lockstep-schedule";
constexpr int64_t kSecondsMax = 1'000'000;
constexpr uint32_t kPartitionsMax = 100;

// ---- Values of options
// ---------------------------------------------------------------------------

std::string ValueText(Duration value) { return DurationText(value); }
std::string ValueText(bool value) { return value ? "yes" : "no"; }
std::string ValueText(storage::Durability value) {
  return value == storage::Durability::kFsync ? "fsync" : "flush";
}
template <typename T>
  requires std::is_integral_v<T>
std::string ValueText(T value) {
  return absl::StrCat(value);
}

bool ParseValue(std::string_view text, Duration* value) {
  const auto time = ParseDuration(text);
  if (time) *value = *time;
  return time.has_value();
}
bool ParseValue(std::string_view text, bool* value) {
  *value = text == "yes";
  return text == "yes" || text == "no";
}
bool ParseValue(std::string_view text, storage::Durability* value) {
  *value = text == "fsync" ? storage::Durability::kFsync : storage::Durability::kFlush;
  return text == "fsync" || text == "flush";
}
template <typename T>
  requires std::is_integral_v<T>
bool ParseValue(std::string_view text, T* value) {
  const bool negative = std::is_signed_v<T> && text.starts_with('-');
  const auto number = ParseNumber(text.substr(negative ? 1 : 0));
  if (!number || *number > static_cast<uint64_t>(std::numeric_limits<T>::max())) return false;
  *value =
      static_cast<T>(negative ? -static_cast<int64_t>(*number) : static_cast<int64_t>(*number));
  return true;
}

// Words of a line, without those behind a '#'.
std::vector<std::string_view> Words(std::string_view line) {
  line = line.substr(0, line.find('#'));
  std::vector<std::string_view> words;
  for (std::string_view word : SplitAt(line, ' ')) {
    if (!word.empty()) words.push_back(word);
  }
  return words;
}

std::optional<Instant> ParseTime(std::string_view text) {
  const size_t dot = text.find('.');
  if (dot == std::string_view::npos || text.size() - dot != 10) return std::nullopt;
  const auto seconds = ParseNumber(text.substr(0, dot));
  const auto fraction = ParseNumber(text.substr(dot + 1));
  if (!seconds || !fraction || *seconds > static_cast<uint64_t>(kSecondsMax)) return std::nullopt;
  return Instant{static_cast<int64_t>(*seconds) * 1'000'000'000 + static_cast<int64_t>(*fraction)};
}

// ---- Reading
// -------------------------------------------------------------------------------------

class Parser {
 public:
  absl::StatusOr<ReadSchedule> Parse(std::string_view text) {
    if (text.size() > kScheduleBytesMax) return absl::InvalidArgumentError("the file is too large");
    for (std::string_view line : SplitAt(text, '\n')) {
      ++line_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      const std::vector<std::string_view> words = Words(line);
      if (words.empty()) continue;
      if (absl::Status status = Line(words); !status.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat("line ", line_, ": ", std::string(status.message())));
      }
    }
    if (!planned_) {
      if (absl::Status status = MakePlan(); !status.ok()) return status;
    }
    SortByTime(&schedule().decisions);
    return std::move(read_);
  }

 private:
  // Of decisions at the same time, the order in the file stays. Files are sorted already, most
  // often. (std::stable_sort of libstdc++ 12 uses what clang warns of as deprecated.)
  static void SortByTime(std::vector<Decision>* decisions) {
    const auto earlier = [](const Decision& a, const Decision& b) { return a.at < b.at; };
    for (auto at = decisions->begin(); at != decisions->end(); ++at) {
      std::rotate(std::upper_bound(decisions->begin(), at, *at, earlier), at, at + 1);
    }
  }
  Schedule& schedule() { return read_.schedule; }
  Plan& plan() { return read_.schedule.plan; }
  static absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError(what); }

  absl::Status Line(const std::vector<std::string_view>& words) {
    if (!versioned_) return Version(words);
    if (words[0][0] >= '0' && words[0][0] <= '9') return DecisionLine(words);
    if (!planned_ && Header(words)) return bad_.empty() ? absl::OkStatus() : Bad(bad_);
    if (!planned_) {
      if (absl::Status status = MakePlan(); !status.ok()) return status;
    }
    // Names of clients and partitions are looked up when they are read.
    const bool describes = words[0] == "plan" || words[0] == "topic" || words[0] == "producer";
    if (describes && !(schedule().decisions.empty() && schedule().absent.empty())) {
      return Bad("what there is comes before what it does");
    }
    if (words[0] == "plan") return PlanLine(words);
    if (words[0] == "topic") return TopicLine(words);
    if (words[0] == "producer") return ProducerLine(words);
    if (words[0] == "absent") return AbsentLine(words);
    Unknown(words);
    return absl::OkStatus();
  }

  void Unknown(const std::vector<std::string_view>& words) {
    std::string text = absl::StrCat("line ", line_, ":");
    for (std::string_view word : words) absl::StrAppend(&text, " ", std::string(word));
    read_.unknown.push_back(std::move(text));
  }

  absl::Status Version(const std::vector<std::string_view>& words) {
    if (words.size() != 2 || words[0] != kMagic) return Bad("this is no schedule");
    if (ParseNumber(words[1]) != kScheduleVersion) {
      return Bad(absl::StrCat("version ", std::string(words[1]), " of the format, and not ",
                              kScheduleVersion));
    }
    versioned_ = true;
    return absl::OkStatus();
  }

  // What a plan is made from. False: another line.
  bool Header(const std::vector<std::string_view>& words) {
    const std::string_view name = words[0];
    if (name == "break") {
      for (size_t i = 1; i < words.size(); ++i) rules_.emplace_back(words[i]);
      return true;
    }
    if (name != "seed" && name != "scenario" && name != "streams" && name != "servers" &&
        name != "voters" && name != "fails" && name != "hash") {
      return false;
    }
    if (words.size() != 2) {
      bad_ = absl::StrCat(std::string(name), " takes one word");
      return true;
    }
    if (name == "scenario") {
      schedule().scenario = std::string(words[1]);
    } else if (name == "fails") {
      schedule().fails = std::string(words[1]);
    } else if (name == "hash") {
      if (!absl::SimpleHexAtoi(absl::string_view(words[1].data(), words[1].size()),
                               &schedule().hash)) {
        bad_ = "a hash is 16 hexadecimal digits";
      }
    } else if (const auto number = ParseNumber(words[1])) {
      numbers_[std::string(name)] = *number;
    } else {
      bad_ = absl::StrCat(std::string(name), " takes a number");
    }
    return true;
  }

  absl::Status MakePlan() {
    const Scenario* scenario = FindScenario(schedule().scenario);
    if (scenario == nullptr) return Bad("there is no scenario " + schedule().scenario);
    for (const std::string& rule : rules_) {
      if (IsRule(rule)) {
        schedule().break_rules.push_back(rule);
      } else {
        read_.unknown.push_back("rule " + rule);
      }
    }
    // What the file does not say is as the seed draws it today.
    plan() = DrawPlan(numbers_["seed"], *scenario, schedule().break_rules);
    plan().fault_weights = {};
    plan().brokers.topics.clear();
    plan().brokers.producers.clear();
    const uint64_t streams = numbers_["streams"];
    const uint64_t servers = numbers_.contains("servers") ? numbers_["servers"] : plan().servers;
    const uint64_t voters = numbers_.contains("voters") ? numbers_["voters"] : servers;
    if (servers < 1 || servers > kScheduleServersMax || voters < 1 || voters > servers ||
        streams > 1'000'000'000) {
      return Bad("servers, voters or streams are out of bounds");
    }
    if (voters < servers && !scenario->brokers) return Bad("servers that do not vote are brokers");
    SetServers(&plan(), static_cast<uint32_t>(servers), static_cast<uint32_t>(voters));
    plan().streams = static_cast<uint32_t>(streams);
    planned_ = true;
    return absl::OkStatus();
  }

  // "name=value" into the field of that name. Unknown ones are left out.
  template <typename VisitFields>
  absl::Status Assign(std::string_view word, VisitFields visit_fields) {
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos) return Bad("name=value is expected");
    bool known = false;
    bool good = false;
    visit_fields([&](std::string_view name, auto* field) {
      if (name != word.substr(0, equals)) return;
      known = true;
      good = ParseValue(word.substr(equals + 1), field);
    });
    if (!known) Unknown({word});
    if (known && !good) return Bad(absl::StrCat("bad value: ", std::string(word)));
    return absl::OkStatus();
  }

  absl::Status PlanLine(const std::vector<std::string_view>& words) {
    if (words.size() < 2) return Bad("plan GROUP name=value…");
    for (size_t i = 2; i < words.size(); ++i) {
      absl::Status status = Assign(words[i], [&](auto assign) {
        VisitPlan(&plan(), [&](std::string_view group, std::string_view name, auto* field) {
          if (group == words[1]) assign(name, field);
        });
      });
      if (!status.ok()) return status;
    }
    // A tick of nothing would be a run without time.
    if (plan().options.tick < Milliseconds(1)) return Bad("a tick is at least 1ms");
    if (plan().workload.keys < 1 || plan().workload.keys > 1'000) return Bad("1 to 1000 keys");
    const uint64_t clients = uint64_t{plan().workload.clients} + plan().brokers.consumers +
                             plan().brokers.group_members + plan().brokers.producers.size();
    return clients > kScheduleClientsMax ? Bad("too many clients") : absl::OkStatus();
  }

  absl::Status TopicLine(const std::vector<std::string_view>& words) {
    if (words.size() < 2 || !plan().brokers.on) return Bad("topic NAME name=value…, with brokers");
    if (plan().brokers.topics.size() >= kPartitionsMax) return Bad("too many topics");
    TopicPlan topic;
    topic.name = std::string(words[1]);
    for (size_t i = 2; i < words.size(); ++i) {
      absl::Status status = Assign(words[i], [&](auto assign) { VisitTopic(&topic, assign); });
      if (!status.ok()) return status;
    }
    if (topic.partitions < 1 || topic.partitions > static_cast<int32_t>(kPartitionsMax) ||
        topic.replication_factor < 1 || topic.min_insync < 1) {
      return Bad("partitions, replicas and min-insync are positive");
    }
    plan().brokers.topics.push_back(std::move(topic));
    return absl::OkStatus();
  }

  absl::Status ProducerLine(const std::vector<std::string_view>& words) {
    if (!plan().brokers.on) return Bad("producers are of brokers");
    if (plan().brokers.producers.size() >= kScheduleClientsMax) return Bad("too many clients");
    ProducerPlan producer;
    for (size_t i = 1; i < words.size(); ++i) {
      absl::Status status =
          Assign(words[i], [&](auto assign) { VisitProducer(&producer, assign); });
      if (!status.ok()) return status;
    }
    if (producer.batch_records_max < 1) return Bad("a batch has a record");
    plan().brokers.producers.push_back(producer);
    return absl::OkStatus();
  }

  absl::Status AbsentLine(const std::vector<std::string_view>& words) {
    for (size_t i = 1; i < words.size(); ++i) {
      const auto client = ClientNamed(plan(), words[i]);
      if (!client) return Bad(absl::StrCat("there is no client ", std::string(words[i])));
      schedule().absent.push_back(*client);
    }
    return absl::OkStatus();
  }

  absl::Status DecisionLine(const std::vector<std::string_view>& words) {
    if (!planned_) {
      if (absl::Status status = MakePlan(); !status.ok()) return status;
    }
    Decision decision;
    const auto at = ParseTime(words[0]);
    if (!at) return Bad("a time is seconds with nine digits behind the point");
    decision.at = *at;
    if (words.size() < 3) return Bad("TIME WHO WHAT…");
    const std::vector<std::string_view> what(words.begin() + 2, words.end());
    if (words[1] == "fault") {
      if (auto fault = ParseFault(plan(), what)) {
        decision.what = *std::move(fault);
        schedule().decisions.push_back(std::move(decision));
        return absl::OkStatus();
      }
    } else if (const auto client = ClientNamed(plan(), words[1])) {
      decision.client = *client;
      if (ParseStep(what, &decision)) {
        schedule().decisions.push_back(std::move(decision));
        return absl::OkStatus();
      }
    }
    Unknown(words);
    return absl::OkStatus();
  }

  bool ParseStep(const std::vector<std::string_view>& words, Decision* decision) {
    const uint32_t own = plan().workload.clients;
    const auto producers = static_cast<uint32_t>(plan().brokers.producers.size());
    const auto take = [&](auto step) {
      if (step) decision->what = *std::move(step);
      return step.has_value();
    };
    if (decision->client < own) return take(ParseClientStep(words));
    if (decision->client == own) return take(ParseAdminStep(plan(), words));
    if (decision->client <= own + producers) return take(ParseProducerStep(plan(), words));
    return false;
  }

  ReadSchedule read_;
  size_t line_ = 0;
  bool versioned_ = false;
  bool planned_ = false;
  std::string bad_;
  std::vector<std::string> rules_;
  std::map<std::string, uint64_t> numbers_;
};

}  // namespace

std::string TimeText(Instant at) {
  return absl::StrFormat("%d.%09d", at.ns / 1'000'000'000, at.ns % 1'000'000'000);
}

std::string DescribeDecision(const Plan& plan, const Decision& decision) {
  if (const auto* fault = std::get_if<FaultDecision>(&decision.what)) {
    return absl::StrCat("fault ", FaultText(plan, *fault));
  }
  const std::string name = absl::StrCat(ClientName(plan, decision.client), " ");
  if (const auto* step = std::get_if<ClientStep>(&decision.what)) return name + StepText(*step);
  if (const auto* step = std::get_if<ProducerStep>(&decision.what)) {
    return name + StepText(plan, *step);
  }
  return name + StepText(plan, std::get<AdminStep>(decision.what));
}

std::string ToText(const Schedule& schedule) {
  std::string text = absl::StrCat(std::string(kMagic), " ", kScheduleVersion,
                                  "\n# lockstep-sim replay THIS, lockstep-sim shrink THIS; "
                                  "docs/simulator.md has the format.\n");
  // VisitPlan wants to be able to write.
  Plan plan = schedule.plan;
  absl::StrAppend(&text, "seed ", plan.seed, "\nscenario ", schedule.scenario, "\n");
  if (!schedule.break_rules.empty()) {
    text += "break";
    for (const std::string& rule : schedule.break_rules) absl::StrAppend(&text, " ", rule);
    text += "\n";
  }
  absl::StrAppend(&text, "streams ", plan.streams, "\nservers ", plan.servers, "\nvoters ",
                  plan.voters(), "\n");
  if (!schedule.fails.empty()) absl::StrAppend(&text, "fails ", schedule.fails, "\n");
  absl::StrAppend(&text, "hash ", absl::StrFormat("%016x", schedule.hash), "\n\n");
  for (const TopicPlan& topic : plan.brokers.topics) {
    absl::StrAppend(&text, "topic ", topic.name);
    TopicPlan copy = topic;
    VisitTopic(&copy, [&](const char* name, auto* field) {
      absl::StrAppend(&text, " ", name, "=", ValueText(*field));
    });
    text += "\n";
  }
  for (const ProducerPlan& producer : plan.brokers.producers) {
    text += "producer";
    ProducerPlan copy = producer;
    VisitProducer(&copy, [&](const char* name, auto* field) {
      absl::StrAppend(&text, " ", name, "=", ValueText(*field));
    });
    text += "\n";
  }
  std::string_view group;
  VisitPlan(&plan, [&](const char* of, const char* name, auto* field) {
    if (group != of) absl::StrAppend(&text, group.empty() ? "" : "\n", "plan ", of);
    group = of;
    absl::StrAppend(&text, " ", name, "=", ValueText(*field));
  });
  text += "\n";
  if (!schedule.absent.empty()) {
    text += "absent";
    for (uint32_t client : schedule.absent) absl::StrAppend(&text, " ", ClientName(plan, client));
    text += "\n";
  }
  text += "\n";
  for (const Decision& decision : schedule.decisions) {
    absl::StrAppend(&text, TimeText(decision.at), " ", DescribeDecision(plan, decision), "\n");
  }
  return text;
}

absl::StatusOr<ReadSchedule> ParseSchedule(std::string_view text) { return Parser().Parse(text); }

}  // namespace lockstep::sim
