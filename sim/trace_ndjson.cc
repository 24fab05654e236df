#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sim/json_text.h"
#include "sim/trace_formats.h"

namespace lockstep::sim {
namespace {

const char* KindName(StoryRecord::Kind kind) {
  switch (kind) {
    case StoryRecord::Kind::kPlan:
      return "plan";
    case StoryRecord::Kind::kEvent:
      return "event";
    case StoryRecord::Kind::kSend:
      return "send";
    case StoryRecord::Kind::kReceive:
      return "receive";
    case StoryRecord::Kind::kFault:
      return "fault";
    case StoryRecord::Kind::kFaultEnds:
      return "fault-ends";
    case StoryRecord::Kind::kLine:
      return "line";
  }
  return "";
}

class NdjsonWriter : public TraceWriter {
 public:
  NdjsonWriter(const TraceHead& head, TraceText text) : text_(std::move(text)) {
    line_ = "{\"format\":\"lockstep-trace\",\"version\":1";
    absl::StrAppend(&line_, ",\"seed\":", head.seed);
    Text("scenario", head.scenario);
    line_ += ",\"break\":[";
    for (size_t i = 0; i < head.break_rules.size(); ++i) {
      if (i > 0) line_ += ',';
      AppendJson(&line_, head.break_rules[i]);
    }
    line_ += ']';
    Text("command", head.command);
  }

  void OnNodes(const std::vector<std::string>& names, uint32_t servers) override {
    names_ = names;
    absl::StrAppend(&line_, ",\"servers\":", servers, ",\"nodes\":[");
    for (size_t i = 0; i < names.size(); ++i) {
      if (i > 0) line_ += ',';
      AppendJson(&line_, names[i]);
    }
    line_ += ']';
    EndLine();
  }

  void OnRecord(const StoryRecord& record) override {
    Begin(record.at.ns);
    Text("name", record.name);
    Text("kind", KindName(record.kind));
    Text("who", record.who);
    if (record.message != nullptr) {
      const TracedMessage& message = *record.message;
      absl::StrAppend(&line_, ",\"id\":", message.id);
      Text("message", message.name);
      Text("from", names_[message.from]);
      Text("to", names_[message.to]);
      Text("link", server::ToString(message.link));
      if (record.kind == StoryRecord::Kind::kReceive) {
        absl::StrAppend(&line_, ",\"sent_ns\":", message.sent.ns);
      }
      if (message.zxid != Zxid{}) Text("zxid", message.zxid.ToString());
    } else if (record.event != nullptr) {
      Text("event", record.what);
      const Event& event = *record.event;
      if (event.peer) absl::StrAppend(&line_, ",\"peer\":", event.peer.ToString());
      if (event.zxid != Zxid{}) Text("zxid", event.zxid.ToString());
      // Numbers above 2^53 are not exact everywhere.
      if (event.detail != 0) Text("number", std::to_string(event.detail));
      if (event.reason[0] != '\0') Text("reason", event.reason);
      if (!event.text.empty()) Text("text", event.text);
      return EndLine();
    } else if (record.fault != nullptr) {
      absl::StrAppend(&line_, ",\"id\":", record.fault->id);
      Text("fault", record.fault->kind);
      line_ += ",\"nodes\":[";
      for (size_t i = 0; i < record.fault->nodes.size(); ++i) {
        if (i > 0) line_ += ',';
        AppendJson(&line_, names_[record.fault->nodes[i]]);
      }
      line_ += ']';
      if (record.fault->ends != Instant::Never()) {
        absl::StrAppend(&line_, ",\"ends_ns\":", record.fault->ends.ns);
      }
    } else {
      Text("event", record.what);
    }
    if (!record.detail.empty()) Text("detail", record.detail);
    EndLine();
  }

  void Finish(const RunResult& result) override {
    if (names_.empty()) EndLine();  // no world came into being
    Begin(result.time.ns);
    Text("name", "end");
    Text("hash", absl::StrFormat("%016x", result.hash));
    absl::StrAppend(&line_, ",\"events\":", result.events, ",\"committed\":", result.committed);
    if (result.failure) {
      Text("invariant", result.failure->invariant);
      Text("detail", result.failure->detail);
    }
    EndLine();
  }

 private:
  void Begin(int64_t ns) { line_ = absl::StrCat("{\"seq\":", ++lines_, ",\"time_ns\":", ns); }
  void Text(std::string_view key, std::string_view value) {
    line_ += ",\"";
    line_ += key;
    line_ += "\":";
    AppendJson(&line_, value);
  }
  void EndLine() {
    line_ += "}\n";
    text_(line_);
  }

  TraceText text_;
  std::string line_;
  std::vector<std::string> names_;
  uint64_t lines_ = 0;
};

}  // namespace

std::unique_ptr<TraceWriter> MakeNdjsonWriter(const TraceHead& head, TraceText text) {
  return std::make_unique<NdjsonWriter>(head, std::move(text));
}

std::unique_ptr<TraceWriter> MakeTraceWriter(std::string_view format, const TraceHead& head,
                                             TraceText text) {
  if (format == "ndjson") return MakeNdjsonWriter(head, std::move(text));
  if (format == "perfetto") return MakePerfettoWriter(head, std::move(text));
  if (format == "html") return MakeHtmlWriter(head, std::move(text));
  return nullptr;
}

const std::vector<std::string>& TraceFormats() {
  static const std::vector<std::string> kFormats = {"text", "ndjson", "perfetto", "html"};
  return kFormats;
}

}  // namespace lockstep::sim
