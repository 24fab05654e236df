// The JSON form of a Chrome trace, which ui.perfetto.dev opens: a process per server with tracks
// for its role, its pauses, messages and events, a flow per message, a counter of applied
// transactions; a process for clients and one for faults.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sim/json_text.h"
#include "sim/trace_bands.h"
#include "sim/trace_formats.h"

namespace lockstep::sim {
namespace {

constexpr uint32_t kRoleTrack = 1;
constexpr uint32_t kPauseTrack = 2;
constexpr uint32_t kMessageTrack = 3;
constexpr uint32_t kEventTrack = 4;
// Above every server's number.
constexpr uint32_t kClients = 1000;
constexpr uint32_t kWorld = 2000;

std::string Microseconds(int64_t ns) { return absl::StrFormat("%d.%03d", ns / 1000, ns % 1000); }

class PerfettoWriter : public TraceWriter {
 public:
  PerfettoWriter(const TraceHead& head, TraceText text) : text_(std::move(text)) {
    std::string start = "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"seed\":\"";
    absl::StrAppend(&start, head.seed, "\",\"scenario\":", JsonString(head.scenario),
                    ",\"command\":", JsonString(head.command), "},\"traceEvents\":[\n");
    text_(start);
  }

  void OnNodes(const std::vector<std::string>& names, uint32_t servers) override {
    servers_ = servers;
    bands_.OnNodes(servers);
    applied_.assign(servers, 0);
    for (uint32_t s = 0; s < servers; ++s) {
      Name("process_name", s + 1, 0, names[s]);
      Name("thread_name", s + 1, kRoleTrack, "role");
      Name("thread_name", s + 1, kPauseTrack, "pauses");
      Name("thread_name", s + 1, kMessageTrack, "messages");
      Name("thread_name", s + 1, kEventTrack, "events");
    }
    Name("process_name", kClients, 0, "clients");
    for (uint32_t c = servers; c < names.size(); ++c) {
      Name("thread_name", kClients, c, names[c]);
    }
    Name("process_name", kWorld, 0, "faults");
    Name("thread_name", kWorld, 1, "world");
  }

  void OnRecord(const StoryRecord& record) override {
    bands_.OnRecord(record);
    switch (record.kind) {
      case StoryRecord::Kind::kSend:
      case StoryRecord::Kind::kReceive:
        return Message(record);
      case StoryRecord::Kind::kFault:
        return Fault(record);
      case StoryRecord::Kind::kFaultEnds:
      case StoryRecord::Kind::kPlan:
        return;
      case StoryRecord::Kind::kEvent:
      case StoryRecord::Kind::kLine:
        break;
    }
    if (record.what == "applies" && record.node < servers_) {
      Begin("C", record.at.ns, record.node + 1, 0, "applied");
      absl::StrAppend(&line_, ",\"args\":{\"transactions\":", ++applied_[record.node], "}");
      End();
    }
    Begin("i", record.at.ns, Process(record.node), Thread(record.node, kEventTrack), record.name);
    line_ += ",\"s\":\"t\",\"args\":{\"detail\":";
    AppendJson(&line_, record.detail);
    line_ += '}';
    End();
  }

  void Finish(const RunResult& result) override {
    for (const Band& band : bands_.Finish(Instant{} + result.time)) {
      const std::string name =
          band.epoch == 0 ? band.role : absl::StrCat(band.role, ", epoch ", band.epoch);
      Begin("X", band.from.ns, band.server + 1, band.paused ? kPauseTrack : kRoleTrack, name);
      absl::StrAppend(&line_, ",\"dur\":", Microseconds((band.to - band.from).ns));
      End();
    }
    if (result.failure) {
      Begin("i", result.time.ns, kWorld, 1, result.failure->invariant);
      line_ += ",\"s\":\"g\",\"args\":{\"detail\":";
      AppendJson(&line_, result.failure->detail);
      line_ += '}';
      End();
    }
    text_("\n]}\n");
  }

 private:
  uint32_t Process(uint32_t node) const {
    return node == kNoNode ? kWorld : node < servers_ ? node + 1 : kClients;
  }
  uint32_t Thread(uint32_t node, uint32_t track) const {
    return node == kNoNode ? 1 : node < servers_ ? track : node;
  }

  void Begin(const char* phase, int64_t ns, uint32_t process, uint32_t thread,
             std::string_view name) {
    line_ = absl::StrCat(any_ ? ",\n" : "", "{\"ph\":\"", phase, "\",\"ts\":", Microseconds(ns),
                         ",\"pid\":", process, ",\"tid\":", thread, ",\"name\":");
    any_ = true;
    AppendJson(&line_, name);
  }
  void End() {
    line_ += '}';
    text_(line_);
  }
  void Name(const char* what, uint32_t process, uint32_t thread, std::string_view name) {
    Begin("M", 0, process, thread, what);
    line_ += ",\"args\":{\"name\":";
    AppendJson(&line_, name);
    line_ += '}';
    End();
  }

  // A slice of a nanosecond at each side, and a flow that binds the two.
  void Message(const StoryRecord& record) {
    const bool sends = record.kind == StoryRecord::Kind::kSend;
    const uint32_t process = Process(record.node);
    const uint32_t thread = Thread(record.node, kMessageTrack);
    Begin("X", record.at.ns, process, thread, sends ? record.what : record.name);
    line_ += ",\"dur\":0.001,\"cat\":\"message\",\"args\":{\"detail\":";
    AppendJson(&line_, record.detail);
    line_ += '}';
    End();
    Begin(sends ? "s" : "f", record.at.ns, process, thread, "message");
    absl::StrAppend(&line_, ",\"cat\":\"message\",\"id\":", record.message->id,
                    sends ? "" : ",\"bp\":\"e\"");
    End();
  }

  void Fault(const StoryRecord& record) {
    const StoryFault& fault = *record.fault;
    const bool lasts = fault.ends != Instant::Never();
    // Faults overlap as they like, which slices of one track may not.
    for (const bool begins : {true, false}) {
      if (!begins && !lasts) return;
      const Instant at = begins ? fault.at : fault.ends;
      Begin(!lasts ? "i" : begins ? "b" : "e", at.ns, kWorld, 1, fault.kind);
      if (lasts) {
        absl::StrAppend(&line_, ",\"cat\":\"fault\",\"id\":", fault.id);
      } else {
        line_ += ",\"s\":\"p\"";
      }
      line_ += ",\"args\":{\"detail\":";
      AppendJson(&line_, fault.detail);
      line_ += '}';
      End();
    }
  }

  TraceText text_;
  std::string line_;
  bool any_ = false;
  uint32_t servers_ = 0;
  std::vector<uint64_t> applied_;
  Bands bands_;
};

}  // namespace

std::unique_ptr<TraceWriter> MakePerfettoWriter(const TraceHead& head, TraceText text) {
  return std::make_unique<PerfettoWriter>(head, std::move(text));
}

}  // namespace lockstep::sim
