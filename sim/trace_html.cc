// A page that needs nothing else: the source of it is in sim/page, its data are made here. Texts
// stand in one table, and all else refers to them by number, so that a run of 100,000 events is a
// file of a few megabytes.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sim/json_text.h"
#include "sim/page/page.h"
#include "sim/trace_bands.h"
#include "sim/trace_formats.h"

namespace lockstep::sim {
namespace {

constexpr std::string_view kDataGoesHere = "<!--DATA-->";

class HtmlWriter : public TraceWriter {
 public:
  HtmlWriter(const TraceHead& head, TraceText text) : head_(head), text_(std::move(text)) {}

  void OnNodes(const std::vector<std::string>& names, uint32_t servers) override {
    names_ = names;
    servers_ = servers;
    bands_.OnNodes(servers);
  }

  void OnRecord(const StoryRecord& record) override {
    bands_.OnRecord(record);
    switch (record.kind) {
      case StoryRecord::Kind::kPlan:
        plan_ = std::string(record.detail);
        return;
      case StoryRecord::Kind::kSend: {
        const TracedMessage& m = *record.message;
        messages_.push_back({m.sent, Instant::Never(), m.from, m.to, Text(ToString(m.link)),
                             Text(m.name), Text(record.name), Text(m.detail)});
        return;
      }
      case StoryRecord::Kind::kReceive: {
        Sent& sent = messages_[record.message->id - 1];
        sent.arrived = record.at;
        // A leader's LeaderProcessRequest is in the sending, all others in the arrival.
        if (strings_[sent.name_of_action] == "send") sent.name_of_action = Text(record.name);
        return;
      }
      case StoryRecord::Kind::kFault:
        faults_.push_back(*record.fault);
        return;
      case StoryRecord::Kind::kFaultEnds:
        return;  // known since it began
      case StoryRecord::Kind::kEvent:
      case StoryRecord::Kind::kLine:
        if (record.what == "heals") heals_ = record.at;
        marks_.push_back(
            {record.at, record.node, Text(record.name), Text(record.what), Text(Short(record))});
        return;
    }
  }

  void Finish(const RunResult& result) override {
    const size_t at = TracePage().find(kDataGoesHere);
    text_(TracePage().substr(0, at));
    Head(result);
    const Instant end = Instant{} + result.time;
    BandsAndFaults(end);
    MessagesAndMarks();
    text_(TracePage().substr(at + kDataGoesHere.size()));
  }

 private:
  struct Sent {
    Instant sent;
    Instant arrived;
    uint32_t from, to;
    uint32_t link, name, name_of_action, detail;
  };
  struct Mark {
    Instant at;
    uint32_t node;
    uint32_t name, what, detail;
  };

  uint32_t Text(std::string_view text) {
    const auto [it, is_new] =
        numbers_.try_emplace(std::string(text), static_cast<uint32_t>(strings_.size()));
    if (is_new) strings_.emplace_back(text);
    return it->second;
  }

  // The details of an event begin with its name.
  static std::string_view Short(const StoryRecord& record) {
    std::string_view detail = record.detail;
    if (record.event != nullptr && detail.starts_with(record.what)) {
      detail.remove_prefix(std::min(detail.size(), record.what.size() + 1));
    }
    return detail;
  }

  void Head(const RunResult& result) {
    std::string out = "{\"version\":1,\"seed\":\"";  // a string: it may be above 2^53
    absl::StrAppend(&out, head_.seed, "\",\"scenario\":", JsonString(head_.scenario),
                    ",\"break\":[");
    for (size_t i = 0; i < head_.break_rules.size(); ++i) {
      absl::StrAppend(&out, i > 0 ? "," : "", JsonString(head_.break_rules[i]));
    }
    absl::StrAppend(&out, "],\"command\":", JsonString(head_.command),
                    ",\"plan\":", JsonString(plan_), ",\"hash\":\"");
    absl::StrAppend(&out, absl::StrFormat("%016x", result.hash), "\",\"end\":", result.time.ns,
                    ",\"events\":", result.events, ",\"committed\":", result.committed);
    if (result.failure) {
      absl::StrAppend(&out, ",\"failure\":{\"invariant\":", JsonString(result.failure->invariant),
                      ",\"detail\":", JsonString(result.failure->detail), "}");
    }
    absl::StrAppend(&out, ",\"servers\":", servers_, ",\"nodes\":[");
    for (size_t i = 0; i < names_.size(); ++i) {
      absl::StrAppend(&out, i > 0 ? "," : "", JsonString(names_[i]));
    }
    text_(out + "]");
  }

  void BandsAndFaults(Instant end) {
    std::string out = ",\n\"bands\":[";
    bool first = true;
    for (const Band& band : bands_.Finish(end)) {
      absl::StrAppend(&out, first ? "" : ",", "[", band.server, ",", band.paused ? 1 : 0, ",",
                      Text(band.role), ",", band.epoch, ",", band.from.ns, ",", band.to.ns, "]");
      first = false;
    }
    out += "],\n\"faults\":[";
    first = true;
    for (const StoryFault& fault : faults_) {
      // All that lasts ends when the world heals.
      Instant to = fault.ends == Instant::Never() ? fault.at : std::min(fault.ends, end);
      to = std::max(fault.at, std::min(to, heals_));
      absl::StrAppend(&out, first ? "" : ",", "[", fault.at.ns, ",", to.ns, ",", Text(fault.kind),
                      ",", Text(fault.detail), ",[");
      for (size_t i = 0; i < fault.nodes.size(); ++i) {
        absl::StrAppend(&out, i > 0 ? "," : "", fault.nodes[i]);
      }
      out += "]]";
      first = false;
    }
    text_(out + "]");
  }

  void MessagesAndMarks() {
    std::string out = ",\n\"messages\":[";
    for (size_t i = 0; i < messages_.size(); ++i) {
      const Sent& m = messages_[i];
      absl::StrAppend(&out, i > 0 ? ",\n" : "", m.sent.ns, ",",
                      m.arrived == Instant::Never() ? -1 : m.arrived.ns, ",", m.from, ",", m.to);
      absl::StrAppend(&out, ",", m.link, ",", m.name, ",", m.name_of_action, ",", m.detail);
    }
    out += "],\n\"marks\":[";
    for (size_t i = 0; i < marks_.size(); ++i) {
      const Mark& m = marks_[i];
      absl::StrAppend(&out, i > 0 ? ",\n" : "", m.at.ns, ",",
                      m.node == kNoNode ? -1 : static_cast<int64_t>(m.node), ",", m.name, ",",
                      m.what, ",", m.detail);
    }
    out += "],\n\"strings\":[";
    for (size_t i = 0; i < strings_.size(); ++i) {
      if (i > 0) out += ",\n";
      AppendJson(&out, strings_[i]);
    }
    text_(out + "]}");
  }

  const TraceHead head_;
  TraceText text_;
  std::vector<std::string> names_;
  uint32_t servers_ = 0;
  std::string plan_;
  Instant heals_ = Instant::Never();
  Bands bands_;
  std::vector<StoryFault> faults_;
  std::vector<Sent> messages_;
  std::vector<Mark> marks_;
  std::vector<std::string> strings_;
  absl::flat_hash_map<std::string, uint32_t> numbers_;  // look-ups only
};

}  // namespace

std::unique_ptr<TraceWriter> MakeHtmlWriter(const TraceHead& head, TraceText text) {
  return std::make_unique<HtmlWriter>(head, std::move(text));
}

}  // namespace lockstep::sim
