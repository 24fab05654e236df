// The options --trace and --format of run and replay.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "sim/run.h"
#include "sim/trace_formats.h"

namespace lockstep::sim {

class TraceOutput {
 public:
  ~TraceOutput();
  void AddOptions(CLI::App* command);

  // Makes the run's trace go to the file, if one is wanted. `command` runs it again. False, with a
  // message on the screen: it cannot be written.
  bool Begin(const std::string& command, RunOptions* options);
  // After the run; `options` are without a trace again. False likewise.
  bool End(const RunResult& result, RunOptions* options);

 private:
  void Write(std::string_view text);

  std::string path_;
  std::string format_;
  FILE* file_ = nullptr;
  bool failed_ = false;
  std::unique_ptr<TraceWriter> writer_;
  std::unique_ptr<TraceStory> story_;
};

}  // namespace lockstep::sim
