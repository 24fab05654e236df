// Traces for programs and for eyes. docs/simulator.md describes each.
//
//   ndjson    a JSON object per line and event, with stable names
//   perfetto  a JSON trace for ui.perfetto.dev: tracks, slices, messages as flows
//   html      one page that needs nothing else: a space-time diagram
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/run.h"
#include "sim/trace_story.h"

namespace lockstep::sim {

// Gets the file piece by piece.
using TraceText = std::function<void(std::string_view)>;

class TraceWriter : public TraceStory::Reader {
 public:
  // After the last record.
  virtual void Finish(const RunResult& result) = 0;
};

// What of the run is known before it.
struct TraceHead {
  uint64_t seed = 0;
  std::string scenario;
  std::vector<std::string> break_rules;
  std::string command;  // that runs it again
};

// `format` is one of TraceFormats(), and not text, which is a sink's; else nullptr.
std::unique_ptr<TraceWriter> MakeTraceWriter(std::string_view format, const TraceHead& head,
                                             TraceText text);
std::unique_ptr<TraceWriter> MakeNdjsonWriter(const TraceHead& head, TraceText text);
std::unique_ptr<TraceWriter> MakePerfettoWriter(const TraceHead& head, TraceText text);
std::unique_ptr<TraceWriter> MakeHtmlWriter(const TraceHead& head, TraceText text);

const std::vector<std::string>& TraceFormats();

}  // namespace lockstep::sim
