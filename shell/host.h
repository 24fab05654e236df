// Runs one server machine on real sockets, files and clocks. The other host of the same machine is
// the simulator.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "boost/asio/io_context.hpp"
#include "boost/asio/signal_set.hpp"
#include "core/base/time.h"
#include "core/server/server.h"
#include "shell/config.h"
#include "shell/data_directory.h"
#include "shell/files.h"
#include "shell/log.h"
#include "shell/sockets.h"

namespace lockstep::shell {

class Host {
 public:
  Host(const Config& config, Log* log);
  ~Host();

  // Takes the data directories and opens the ports. The error is a sentence for the operator.
  absl::Status Open();

  // Runs the server until SIGTERM or SIGINT (OK, after what was given to the disk is there) or
  // until it cannot go on (a sentence for the operator). Requires: Open succeeded.
  absl::Status Run();

 private:
  // The machine's time and the wall clock, read together.
  struct Clocks {
    Instant now;
    int64_t unix_ms = 0;
  };
  static Clocks ReadClocks();
  static Instant Now();

  void HandleSignals();
  void StartServer();
  void Step(const server::Input& input);
  void StepFileCompletions();
  void StepWallClockIfMoved();
  // Ends a batch: one Flush of the machine, and everything that came of it carried out.
  void EndBatch();
  void CarryOut();

  const Config config_;
  Log& log_;
  boost::asio::io_context io_{1};  // one thread runs it, the disk threads post to it
  boost::asio::signal_set signals_{io_};
  std::vector<DataDirectory> directories_;
  std::unique_ptr<Sockets> sockets_;
  std::unique_ptr<Files> files_;
  std::unique_ptr<server::Server> server_;

  server::Output output_;
  server::Output carried_out_;  // empty between batches; kept for its memory
  bool stepped_ = false;        // since the last Flush
  std::vector<storage::FileDone> file_done_;
  // Wall clock minus monotonic clock, as the machine was last told, and when to look again.
  int64_t wall_offset_ms_ = 0;
  Instant wall_check_;
  Instant stop_by_ = Instant::Never();  // after a signal: when to stop waiting for a clean end
  bool stopping_ = false;
  absl::Status outcome_;
};

}  // namespace lockstep::shell
