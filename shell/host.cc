#include "shell/host.h"

#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>

#include "boost/asio/executor_work_guard.hpp"
#include "boost/asio/post.hpp"
#include "core/base/check.h"
#include "shell/version.h"

namespace lockstep::shell {
namespace {

namespace asio = boost::asio;
using server::LinkKind;

// Events of one batch, at most: what is ready is stepped together, but a flood of input must not
// keep the output of its beginning waiting.
constexpr int kEventsPerBatch = 256;
constexpr Duration kWallCheckInterval = Seconds(1);
constexpr Duration kStopCleanlyWithin = Seconds(20);

int64_t ReadClock(clockid_t clock) {
  timespec time;
  LS_CHECK_EQ(::clock_gettime(clock, &time), 0);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

uint64_t RandomNumber() {
  uint64_t number = 0;
  while (::getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number)) {
    LS_CHECK_EQ(errno, EINTR);
  }
  return number;
}

// How the descriptors of the process are shared out. Clients come by the thousand, and a broker
// keeps the newest files of each partition open; neither may take what the server cannot do
// without, since a file that cannot be opened stops it.
struct Descriptors {
  size_t limit = 0;        // RLIMIT_NOFILE, raised as far as it may be
  size_t log_files = 0;    // files of partition logs
  size_t connections = 0;  // of clients, and of brokers to this one
};
// The journal, snapshots, directories, listeners, the other servers, dials, and room to refuse.
constexpr size_t kDescriptorsKept = 96;
constexpr size_t kDescriptorsMin = 256;
constexpr size_t kDescriptorsMax = 1 << 20;

Descriptors ShareDescriptors(bool broker) {
  rlimit limit;
  LS_CHECK_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
  LS_CHECK_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  Descriptors descriptors{.limit = std::min<rlim_t>(limit.rlim_cur, kDescriptorsMax)};
  if (descriptors.limit < kDescriptorsMin) return descriptors;
  const size_t shared = descriptors.limit - kDescriptorsKept;
  descriptors.log_files = broker ? shared / 2 : 0;
  descriptors.connections = shared - descriptors.log_files;
  return descriptors;
}

}  // namespace

Host::Host(const Config& config, Log* log) : config_(config), log_(*log) {}
Host::~Host() = default;

Instant Host::Now() { return {ReadClock(CLOCK_MONOTONIC)}; }

Host::Clocks Host::ReadClocks() {
  return {{ReadClock(CLOCK_MONOTONIC)}, ReadClock(CLOCK_REALTIME) / 1'000'000};
}

// ---- Starting ----------------------------------------------------------------------------------

absl::Status Host::Open() {
  const Descriptors descriptors = ShareDescriptors(config_.broker_listener.has_value());
  if (descriptors.limit < kDescriptorsMin) {
    return absl::FailedPreconditionError(
        "this process may open " + std::to_string(descriptors.limit) +
        " files, and needs at least " + std::to_string(kDescriptorsMin) +
        ": raise the limit (ulimit -n; LimitNOFILE of systemd)");
  }
  log_.Write(LogLevel::kInfo, "open-files",
             {{"limit", std::to_string(descriptors.limit)},
              {"connections", std::to_string(descriptors.connections)},
              {"log_files", std::to_string(descriptors.log_files)}});
  absl::StatusOr<DataDirectory> data = DataDirectory::Open(config_.data_dir);
  if (!data.ok()) return data.status();
  directories_.push_back(*std::move(data));
  if (!directories_[0].IsSame(config_.log_dir)) {
    absl::StatusOr<DataDirectory> log = DataDirectory::Open(config_.log_dir);
    if (!log.ok()) return log.status();
    directories_.push_back(*std::move(log));
  }
  std::string partitions_dir;
  if (config_.broker_listener) {
    partitions_dir = config_.partitions_dir;
    absl::StatusOr<DataDirectory> partitions = DataDirectory::Open(partitions_dir);
    if (!partitions.ok()) return partitions.status();
    directories_.push_back(*std::move(partitions));
  }

  SocketOptions options;
  options.connect_timeout = config_.connect_timeout;
  options.peer_silence_max =
      std::max(Seconds(5), config_.tick * static_cast<int64_t>(config_.sync_limit));
  options.connections_max = descriptors.connections;
  options.listen_backlog = static_cast<int>(config_.client_listen_backlog);
  sockets_ = std::make_unique<Sockets>(&io_, &log_, options,
                                       [this](const server::Input& input) { Step(input); });
  files_ = std::make_unique<Files>(config_.data_dir, config_.log_dir, partitions_dir,
                                   descriptors.log_files,
                                   [this] { asio::post(io_, [this] { StepFileCompletions(); }); });
  StartServer();

  const Member* self = config_.member(config_.server);
  if (config_.members.size() > 1) {
    Endpoint election = self->election;
    Endpoint learner = self->learner;
    if (config_.peers_on_all_interfaces) election.host = learner.host = "";
    if (auto status = sockets_->Listen(LinkKind::kElection, election); !status.ok()) return status;
    if (auto status = sockets_->Listen(LinkKind::kLearner, learner); !status.ok()) return status;
  }
  if (config_.broker_listener) {
    auto status = sockets_->Listen(LinkKind::kBroker, *config_.broker_listener);
    if (!status.ok()) return status;
  }
  if (!config_.coordinator()) return absl::OkStatus();
  return sockets_->Listen(LinkKind::kClient, config_.client);
}

void Host::StartServer() {
  server::Options options = ServerOptions(config_);
  // Clients and monitoring judge by the number that comes first what a server can do.
  options.version = std::string(kZooKeeperVersion) + "-lockstep-" + kVersion;
  // The incarnation tells completions and connections of this start from those of any other; 64
  // random bits do not repeat.
  server_ = std::make_unique<server::Server>(options, RandomNumber(), RandomNumber());
}

void Host::HandleSignals() {
  std::signal(SIGHUP, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  signals_.add(SIGTERM);
  signals_.add(SIGINT);
  signals_.async_wait([this](const boost::system::error_code& error, int signal) {
    if (error) return;
    log_.Write(LogLevel::kInfo, "stopping", {{"signal", signal == SIGINT ? "SIGINT" : "SIGTERM"}});
    // Others take over what this server leads before it goes; it goes anyway if that takes long.
    stop_by_ = Now() + kStopCleanlyWithin;
    Step(server::StopCleanly{});
    // A second one ends the process at once; recovery copes with that too.
    signals_.clear();
  });
}

// ---- The loop ----------------------------------------------------------------------------------

absl::Status Host::Run() {
  HandleSignals();
  const auto work = asio::make_work_guard(io_);
  const Clocks clocks = ReadClocks();
  wall_offset_ms_ = clocks.unix_ms - clocks.now.ns / 1'000'000;
  wall_check_ = clocks.now + kWallCheckInterval;
  log_.Write(LogLevel::kInfo, "started",
             {{"version", kVersion},
              {"clients", config_.coordinator() ? config_.client.ToString() : "none"},
              {"brokers", config_.broker_listener ? config_.broker_listener->ToString() : "none"},
              {"servers", std::to_string(config_.voters().size())},
              {"roles", config_.Summary()}});
  server_->Step(clocks.now, server::Start{clocks.unix_ms}, &output_);
  EndBatch();

  while (!stopping_) {
    // Sleep until something happens or is due; then take whatever else is ready.
    const Instant due = std::min({server_->next_deadline(), wall_check_, stop_by_});
    io_.run_one_until(std::chrono::steady_clock::time_point(std::chrono::nanoseconds(due.ns)));
    for (int events = 1; events < kEventsPerBatch && io_.poll_one() > 0; ++events) {
    }
    const Instant now = Now();
    if (now >= wall_check_) StepWallClockIfMoved();
    if (now >= server_->next_deadline()) Step(server::Wake{});
    EndBatch();
    if (now >= stop_by_ && !stopping_) {
      log_.Write(LogLevel::kWarning, "stopping-anyway", {{"reason", "no clean stop in time"}});
      stopping_ = true;
    }
  }
  // Clients and peers first: they look elsewhere while the rest takes its time.
  sockets_.reset();
  // What the disk has been given is finished; what it has not been given was never promised.
  files_->Drain();
  if (outcome_.ok()) log_.Write(LogLevel::kInfo, "stopped");
  return outcome_;
}

void Host::Step(const server::Input& input) {
  if (stopping_) return;
  server_->Step(Now(), input, &output_);
  stepped_ = true;
}

void Host::StepFileCompletions() {
  files_->Take(&file_done_);
  for (storage::FileDone& done : file_done_) Step(server::FileOpDone{std::move(done)});
  file_done_.clear();
}

void Host::StepWallClockIfMoved() {
  const Clocks clocks = ReadClocks();
  wall_check_ = clocks.now + kWallCheckInterval;
  const int64_t offset_ms = clocks.unix_ms - clocks.now.ns / 1'000'000;
  if (std::abs(offset_ms - wall_offset_ms_) <= 1) return;
  wall_offset_ms_ = offset_ms;
  Step(server::WallClock{clocks.unix_ms});
}

void Host::EndBatch() {
  // Carrying out may itself make inputs (bytes that were written, connections that failed). They
  // are stepped and carried out before the loop sleeps: nothing else might wake it.
  do {
    stepped_ = false;
    server_->Flush(Now(), &output_);
    CarryOut();
  } while (stepped_ && !stopping_);
}

void Host::CarryOut() {
  for (const Event& event : output_.events) log_.Write(event);
  if (output_.fatal) {
    outcome_ = absl::InternalError(*output_.fatal);
    stopping_ = true;
    return;
  }
  // Swapped out, since what is carried out steps the machine, which appends to output_.
  server::Output& output = carried_out_;
  std::swap(output, output_);
  // The disk first: it works while the rest is sent.
  files_->Submit(&output.file_ops);
  for (const server::Dial& dial : output.dials) {
    if (!dial.host.empty()) {
      sockets_->Dial(dial.connection, dial.kind, {dial.host, dial.port});
      continue;
    }
    const Member* member = config_.member(dial.to);
    LS_CHECK(member != nullptr);
    sockets_->Dial(dial.connection, dial.kind,
                   dial.kind == LinkKind::kElection ? member->election : member->learner);
  }
  for (server::Send& send : output.sends) sockets_->Send(send.connection, std::move(send.data));
  for (ConnectionId id : output.closes) sockets_->Close(id);
  for (ConnectionId id : output.pauses) sockets_->PauseReading(id);
  for (ConnectionId id : output.resumes) sockets_->ResumeReading(id);
  sockets_->Flush();
  if (output.stopped) stopping_ = true;
  output.Clear();
}

}  // namespace lockstep::shell
