// The log: one line of logfmt an event, on standard error.
//
//   time=2026-01-31T12:00:00.000Z level=info server=1 event=established zxid=0x300000000
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/event.h"
#include "core/base/ids.h"
#include "spdlog/logger.h"

namespace lockstep::shell {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

struct LogField {
  std::string_view key;
  std::string value;  // as it is; quoted where logfmt needs it
};

// May be used from any thread.
class Log {
 public:
  explicit Log(LogLevel level);
  // To somewhere else than standard error.
  Log(LogLevel level, spdlog::sink_ptr sink);

  // Every later line names the server.
  void SetServer(ServerId server);

  bool enabled(LogLevel level) const;
  void Write(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});
  // What a machine did. Role changes, recovery and what an operator should know are at kInfo or
  // above; what happens with every request is at kDebug.
  void Write(const Event& event);

 private:
  spdlog::logger logger_;
  std::string server_;  // ` server=1` or empty
};

}  // namespace lockstep::shell
