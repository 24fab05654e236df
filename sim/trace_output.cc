#include "sim/trace_output.h"

#include <cerrno>
#include <cstring>

namespace lockstep::sim {

TraceOutput::~TraceOutput() {
  if (file_ != nullptr && file_ != stdout) std::fclose(file_);
}

void TraceOutput::AddOptions(CLI::App* command) {
  command->add_option("--trace", path_, "Write what happens to this file ('-': to the screen)");
  command
      ->add_option("--format", format_,
                   "Of the trace: text, ndjson, perfetto, html (default: as the file's name ends, "
                   "else text)")
      ->check(CLI::IsMember(TraceFormats()));
}

bool TraceOutput::Begin(const std::string& command, RunOptions* options) {
  if (path_.empty()) {
    if (format_.empty()) return true;
    std::fprintf(stderr, "lockstep-sim: --format is for --trace FILE\n");
    return false;
  }
  file_ = path_ == "-" ? stdout : std::fopen(path_.c_str(), "w");
  if (file_ == nullptr) {
    std::fprintf(stderr, "lockstep-sim: cannot write %s: %s\n", path_.c_str(),
                 std::strerror(errno));
    return false;
  }
  std::string format = format_;
  if (format.empty()) {
    format = path_.ends_with(".html") ? "html" : path_.ends_with(".ndjson") ? "ndjson" : "text";
  }
  const TraceHead head{options->seed, options->scenario == nullptr ? "" : options->scenario->name,
                       options->break_rules, command};
  writer_ = MakeTraceWriter(format, head, [this](std::string_view text) { Write(text); });
  if (writer_ != nullptr) {
    story_ = std::make_unique<TraceStory>(writer_.get());
    options->observer = story_.get();
    return true;
  }
  options->sink = [](void* context, std::string_view line) {
    static_cast<TraceOutput*>(context)->Write(line);
    static_cast<TraceOutput*>(context)->Write("\n");
  };
  options->sink_context = this;
  return true;
}

bool TraceOutput::End(const RunResult& result, RunOptions* options) {
  options->sink = nullptr;
  options->observer = nullptr;
  if (file_ == nullptr) return true;
  if (writer_ != nullptr) writer_->Finish(result);
  failed_ |= std::fflush(file_) != 0;
  if (file_ != stdout) failed_ |= std::fclose(file_) != 0;
  file_ = nullptr;
  if (failed_) {
    std::fprintf(stderr, "lockstep-sim: %s is not complete: %s\n", path_.c_str(),
                 std::strerror(errno));
  } else if (writer_ != nullptr && path_ != "-") {
    std::printf("trace: %s\n", path_.c_str());
  }
  return !failed_;
}

void TraceOutput::Write(std::string_view text) {
  failed_ |= std::fwrite(text.data(), 1, text.size(), file_) != text.size();
}

}  // namespace lockstep::sim
