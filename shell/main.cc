// lockstepd: the server.
#include <cstdio>
#include <map>
#include <string>

#include "CLI/CLI.hpp"
#include "shell/config.h"
#include "shell/host.h"
#include "shell/log.h"
#include "shell/version.h"

namespace lockstep::shell {
namespace {

constexpr int kCleanStop = 0;
constexpr int kRuntimeFailure = 1;
constexpr int kUsage = 2;

constexpr const char kFooter[] = R"(
CONFIG is a zoo.cfg of ZooKeeper; with lines server.N, the file `myid` in dataDir
holds the N of this server. The smallest one is

  dataDir=/var/lib/lockstep
  clientPort=2181

Signals: SIGTERM and SIGINT stop the server cleanly. SIGHUP is ignored.
The log goes to standard error, one line an event: time=... level=... event=...

Exit status:
  0  stopped cleanly
  1  could not start or go on: a port or the data directory is in use, the data
     directory is damaged or of another server, the disk failed or is full.
     The last line of the log says which; nothing acknowledged is lost.
  2  the command line or CONFIG has an error)";

void PrintRemarks(const std::vector<Remark>& remarks, const char* kind) {
  for (const Remark& remark : remarks) {
    std::fprintf(stderr, "lockstepd: %s: %s\n", kind, remark.ToString().c_str());
  }
}

int CheckConfig(const LoadedConfig& loaded) {
  for (const Remark& remark : loaded.notices) {
    PrintRemarks({remark}, remark.warning ? "warning" : "notice");
  }
  std::printf("%s: %s\n", loaded.config.file.c_str(), loaded.config.Summary().c_str());
  return kCleanStop;
}

int Serve(const LoadedConfig& loaded, LogLevel level) {
  Log log(level);
  const Config& config = loaded.config;
  if (config.coordinator()) {
    log.SetServer(config.server);
  } else {
    log.SetBroker(config.broker.broker.broker);
  }
  for (const Remark& notice : loaded.notices) {
    log.Write(
        notice.warning ? LogLevel::kWarning : LogLevel::kInfo, "config",
        {{"file", notice.file}, {"line", std::to_string(notice.line)}, {"notice", notice.text}});
  }
  Host host(loaded.config, &log);
  absl::Status status = host.Open();
  if (status.ok()) status = host.Run();
  if (status.ok()) return kCleanStop;
  log.Write(LogLevel::kError, "failed", {{"reason", std::string(status.message())}});
  return kRuntimeFailure;
}

int Main(int argc, char** argv) {
  CLI::App app{"lockstepd, a server that speaks ZooKeeper's protocol and Kafka's", "lockstepd"};
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("lockstepd ") + kVersion);
  std::string file;
  app.add_option("CONFIG", file,
                 "The configuration file: a zoo.cfg, with keys of Kafka's server.properties")
      ->required();
  LogLevel level = LogLevel::kInfo;
  const std::map<std::string, LogLevel> levels = {{"debug", LogLevel::kDebug},
                                                  {"info", LogLevel::kInfo},
                                                  {"warning", LogLevel::kWarning},
                                                  {"error", LogLevel::kError}};
  app.add_option("--log-level", level, "What to log: debug, info (default), warning or error")
      ->transform(CLI::Transformer(levels).description(""))
      ->option_text("LEVEL");
  bool check = false;
  app.add_flag("--check-config", check, "Check CONFIG, say what it means, and exit");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kCleanStop : kUsage;
  }

  const LoadedConfig loaded = LoadConfig(file);
  if (!loaded.errors.empty()) {
    PrintRemarks(loaded.errors, "error");
    return kUsage;
  }
  return check ? CheckConfig(loaded) : Serve(loaded, level);
}

}  // namespace
}  // namespace lockstep::shell

int main(int argc, char** argv) { return lockstep::shell::Main(argc, argv); }
