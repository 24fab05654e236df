// The log: one line of logfmt an event, on standard error.
//
//   time=2026-01-31T12:00:00.000Z level=info server=1 event=established zxid=0x300000000
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "core/base/event.h"
#include "core/base/ids.h"
#include "core/replication/ids.h"
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

  // Every later line names the server; or, where there is no coordinator, the broker.
  void SetServer(ServerId server);
  void SetBroker(replication::BrokerId broker);

  bool enabled(LogLevel level) const;
  void Write(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});
  // What a machine did. Role changes, recovery and what an operator should know are at kInfo or
  // above; what happens with every request is at kDebug. A refused connection is told once in a
  // second for each reason, with how many others there were: whoever is refused tries again at
  // once.
  void Write(const Event& event);

 private:
  struct Refusals {
    std::chrono::steady_clock::time_point told;
    uint64_t untold = 0;
  };
  // Whether it is to be told, and of how many before it that was not so.
  bool TellRefusal(const char* reason, uint64_t* untold);

  spdlog::logger logger_;
  std::string who_;  // ` server=1`, ` broker=1` or empty
  std::mutex refusals_mutex_;
  std::map<std::string, Refusals, std::less<>> refusals_;  // by reason: there are a dozen
};

}  // namespace lockstep::shell
