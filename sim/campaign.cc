#include "sim/campaign.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sim/campaign_result.h"
#include "sim/purpose.h"
#include "sim/run.h"
#include "sim/schedule_commands.h"
#include "sim/schedule_file.h"

namespace lockstep::sim {
namespace {

using Clock = std::chrono::steady_clock;

// Sent by a worker for each seed; a failure is followed by its two texts.
struct Report {
  uint64_t seed = 0;
  uint64_t events = 0;
  int64_t committed = 0;
  int64_t world_ns = 0;
  uint32_t twice = 0;
  uint32_t invariant_size = 0;
  uint32_t detail_size = 0;
  std::array<uint64_t, kProbes> probes{};
};

// Memory that the parent shares with its workers: who is at which seed, in case one dies.
struct Shared {
  std::atomic<uint64_t> next_stripe;
  std::atomic<uint64_t> current[256];
};

struct Worker {
  pid_t pid = -1;
  int pipe = -1;
  std::string buffer;
};

// Set by the first Ctrl-C, or when a batch system ends the job. One that comes a second later ends
// the process as if nobody had listened; before that it is the same one again: timeout(1) tells the
// process and then its group.
volatile sig_atomic_t interrupted = 0;
timespec interrupted_at;

void OnSignal(int number) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (interrupted == 0) {
    interrupted_at = now;
    interrupted = 1;
    return;
  }
  const int64_t since_ns = int64_t{now.tv_sec - interrupted_at.tv_sec} * 1'000'000'000 +
                           (now.tv_nsec - interrupted_at.tv_nsec);
  if (since_ns < 1'000'000'000) return;
  signal(number, SIG_DFL);
  raise(number);
}

bool WriteAll(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t n = write(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

RunOptions OptionsOf(const CampaignOptions& options, uint64_t seed) {
  RunOptions run;
  run.seed = seed;
  run.scenario = options.scenario;
  run.break_rules = options.break_rules;
  return run;
}

// Which seeds are run twice depends on the seed alone.
bool RunTwice(const CampaignOptions& options, uint64_t seed) {
  return Mix64(seed ^ 0x7717) % 100 < options.twice_percent;
}

[[noreturn]] void Work(const CampaignOptions& options, uint32_t number, Shared* shared, int pipe) {
  // A terminal tells all processes; it is the parent that stops, and says what there is so far.
  signal(SIGINT, SIG_IGN);
  signal(SIGTERM, SIG_IGN);
  while (true) {
    const uint64_t stripe = shared->next_stripe.fetch_add(1);
    const uint64_t seed = options.first + options.shard - 1 + stripe * options.shards;
    if (options.last.has_value() && seed > *options.last) break;
    shared->current[number].store(seed);
    const RunOptions run = OptionsOf(options, seed);
    RunResult result = RunSeed(run);
    Report report;
    report.seed = seed;
    report.events = result.events;
    report.committed = result.committed;
    report.world_ns = result.time.ns;
    report.probes = result.probes.counts();
    if (RunTwice(options, seed)) {
      report.twice = 1;
      if (RunSeed(run).hash != result.hash) {
        result.failure =
            Failure{"deterministic",
                    FindDivergence(run).value_or("two runs differ, and the next two do not")};
      }
    }
    std::string texts;
    if (result.failure.has_value()) {
      if (result.failure->invariant != "deterministic") WriteScheduleOf(run, options.directory);
      report.invariant_size = static_cast<uint32_t>(result.failure->invariant.size());
      report.detail_size = static_cast<uint32_t>(result.failure->detail.size());
      texts = result.failure->invariant + result.failure->detail;
    }
    std::string message(reinterpret_cast<const char*>(&report), sizeof report);
    message += texts;
    if (!WriteAll(pipe, message.data(), message.size())) break;
  }
  _exit(0);
}

class Campaign {
 public:
  explicit Campaign(const CampaignOptions& options) : options_(options) {}

  int Run() {
    started_ = Clock::now();
    last_shown_ = started_;
    terminal_ = isatty(STDERR_FILENO) != 0;
    void* memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      std::fprintf(stderr, "lockstep-sim: no shared memory: %s\n", std::strerror(errno));
      return 2;
    }
    shared_ = new (memory) Shared();
    signal(SIGINT, &OnSignal);
    signal(SIGTERM, &OnSignal);
    workers_.resize(std::min<uint32_t>(options_.jobs, 256));
    for (uint32_t i = 0; i < workers_.size(); ++i) StartWorker(i);
    while (AnyWorker() && !Over()) Poll();
    for (Worker& worker : workers_) {
      if (worker.pid <= 0) continue;
      kill(worker.pid, SIGKILL);
      waitpid(worker.pid, nullptr, 0);
      close(worker.pipe);
    }
    if (terminal_) std::fprintf(stderr, "\r\033[K");
    const CampaignResult result = Result();
    const bool written = WriteFile(options_.json_file, ResultJson(result)) &&
                         WriteFile(options_.junit_file, ResultJunit(result));
    PrintSummary(result);
    munmap(memory, sizeof(Shared));
    if (!result.failures.empty()) return 1;
    return interrupted != 0 ? kInterruptedStatus : written ? 0 : 2;
  }

 private:
  void StartWorker(uint32_t number) {
    int ends[2];
    if (pipe(ends) != 0) {
      std::perror("lockstep-sim: pipe");
      return;
    }
    std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
      close(ends[0]);
      Work(options_, number, shared_, ends[1]);
    }
    close(ends[1]);
    if (pid < 0) {
      std::perror("lockstep-sim: fork");
      close(ends[0]);
      return;
    }
    workers_[number] = {pid, ends[0], ""};
  }

  bool AnyWorker() const {
    return std::any_of(workers_.begin(), workers_.end(), [](const Worker& w) { return w.pid > 0; });
  }

  int64_t ElapsedMs() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - started_).count();
  }

  bool Over() const {
    if (interrupted != 0) return true;
    if (totals_.failures.size() >= options_.failures_max) return true;
    return options_.seconds.has_value() && ElapsedMs() >= *options_.seconds * 1000;
  }

  void Poll() {
    std::vector<pollfd> polled;
    std::vector<uint32_t> numbers;
    for (uint32_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i].pid <= 0) continue;
      polled.push_back({workers_[i].pipe, POLLIN, 0});
      numbers.push_back(i);
    }
    poll(polled.data(), polled.size(), 200);
    for (size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].revents != 0) Read(numbers[i]);
    }
    Show();
  }

  void Read(uint32_t number) {
    Worker& worker = workers_[number];
    char chunk[65536];
    const ssize_t n = read(worker.pipe, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) return;
    if (n > 0) {
      worker.buffer.append(chunk, static_cast<size_t>(n));
      TakeReports(&worker);
      return;
    }
    int status = 0;
    waitpid(worker.pid, &status, 0);
    close(worker.pipe);
    worker.pid = -1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    // The process died under a seed: that is a failure of it, and the others go on.
    const std::string how = WIFSIGNALED(status) ? absl::StrCat("signal ", WTERMSIG(status))
                                                : absl::StrCat("exit status ", WEXITSTATUS(status));
    AddFailure(shared_->current[number].load(), {"machine-check", "the process died: " + how});
    ++totals_.seeds;
    StartWorker(number);
  }

  void TakeReports(Worker* worker) {
    std::string& buffer = worker->buffer;
    size_t at = 0;
    while (buffer.size() - at >= sizeof(Report)) {
      Report report;
      std::memcpy(&report, buffer.data() + at, sizeof report);
      const size_t texts = size_t{report.invariant_size} + report.detail_size;
      if (buffer.size() - at < sizeof report + texts) break;
      const char* text = buffer.data() + at + sizeof report;
      if (report.invariant_size > 0) {
        AddFailure(report.seed, {std::string(text, report.invariant_size),
                                 std::string(text + report.invariant_size, report.detail_size)});
      }
      Add(report);
      at += sizeof report + texts;
    }
    buffer.erase(0, at);
  }

  void Add(const Report& report) {
    ++totals_.seeds;
    totals_.twice += report.twice;
    totals_.events += report.events;
    totals_.committed += report.committed;
    totals_.world_ns += report.world_ns;
    for (size_t i = 0; i < kProbes; ++i) {
      probes_[i].times += report.probes[i];
      probes_[i].seeds += report.probes[i] > 0 ? 1 : 0;
    }
  }

  CampaignResult Result() const {
    CampaignResult result = totals_;
    result.scenario = options_.scenario->name;
    result.break_rules = options_.break_rules;
    result.first = options_.first;
    result.last = options_.last;
    result.shard = options_.shard;
    result.shards = options_.shards;
    result.jobs = options_.jobs;
    result.elapsed_ms = ElapsedMs();
    result.stopped = interrupted != 0                                   ? "interrupted"
                     : totals_.failures.size() >= options_.failures_max ? "failures"
                     : options_.last && totals_.seeds >= SeedsWanted()  ? "seeds"
                                                                        : "time";
    for (size_t i = 0; i < kProbes; ++i) result.probes[AllProbes()[i].name] = probes_[i];
    return result;
  }

  void AddFailure(uint64_t seed, Failure failure) {
    if (terminal_) std::fprintf(stderr, "\r\033[K");
    std::printf("FAILED seed %llu: %s: %s\n  %s\n", static_cast<unsigned long long>(seed),
                failure.invariant.c_str(), failure.detail.c_str(),
                ReplayCommand(OptionsOf(options_, seed)).c_str());
    if (const std::string path = PathOf(seed); !path.empty()) std::printf("  %s\n", path.c_str());
    std::fflush(stdout);
    totals_.failures.push_back(
        {seed, std::move(failure), ReplayCommand(OptionsOf(options_, seed)), PathOf(seed)});
  }

  // Of the failed seed's schedule; "" if its worker could not write one.
  std::string PathOf(uint64_t seed) const {
    std::string path = SchedulePath(options_.directory, OptionsOf(options_, seed));
    return access(path.c_str(), R_OK) == 0 ? path : "";
  }

  uint64_t SeedsWanted() const {
    if (!options_.last.has_value() || *options_.last < options_.first) return 0;
    const uint64_t all = *options_.last - options_.first + 1;
    return (all + options_.shards - options_.shard) / options_.shards;
  }

  void Show() {
    const Clock::time_point now = Clock::now();
    const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(now - last_shown_);
    if (since.count() < (terminal_ ? 200 : 60'000)) return;
    last_shown_ = now;
    const int64_t ms = std::max<int64_t>(1, ElapsedMs());
    const uint64_t rate = totals_.seeds * 1000 / static_cast<uint64_t>(ms);
    int64_t permille = 0;
    int64_t eta = 0;
    if (const uint64_t wanted = SeedsWanted(); wanted > 0) {
      permille = static_cast<int64_t>(totals_.seeds * 1000 / wanted);
      eta = totals_.seeds == 0 ? 0
                               : ms * static_cast<int64_t>(wanted - totals_.seeds) /
                                     static_cast<int64_t>(totals_.seeds) / 1000;
    }
    if (options_.seconds.has_value()) {
      permille = std::max(permille, ms / *options_.seconds);
      const int64_t left = *options_.seconds - ms / 1000;
      eta = options_.last.has_value() ? std::min(eta, left) : left;
    }
    permille = std::min<int64_t>(permille, 1000);
    const std::string counts = absl::StrFormat(
        "%3d%%  %d seeds  %d seeds/s  %dk events/s  ETA %d:%02d  %d failed", permille / 10,
        totals_.seeds, rate, totals_.events / static_cast<uint64_t>(ms), eta / 60, eta % 60,
        totals_.failures.size());
    if (terminal_) {
      constexpr int kWidth = 30;
      std::string bar(static_cast<size_t>(permille * kWidth / 1000), '#');
      bar.resize(kWidth, '.');
      std::fprintf(stderr, "\r\033[K[%s] %s", bar.c_str(), counts.c_str());
    } else {
      std::fprintf(stderr, "%s\n", counts.c_str());
    }
    std::fflush(stderr);
  }

  void PrintSummary(const CampaignResult& result) const {
    // A campaign that was cut short has not had its chance.
    PrintResult(result, result.stopped == "seeds" || result.stopped == "time");
    if (result.stopped == "failures") {
      std::printf("stopped at the bound of --failures %u\n", options_.failures_max);
    } else if (result.stopped == "interrupted") {
      std::printf("interrupted: this is what there was so far\n");
    }
    if (result.failures.empty()) {
      std::printf("nothing wrong\n");
      return;
    }
    // The smallest seed last, where the eye falls.
    const FailedSeed& first =
        *std::min_element(result.failures.begin(), result.failures.end(),
                          [](const FailedSeed& a, const FailedSeed& b) { return a.seed < b.seed; });
    if (!first.schedule.empty()) {
      return PrintFailure(OptionsOf(options_, first.seed), first.failure, first.schedule);
    }
    std::printf("%s failed: %s\n%s\n", first.failure.invariant.c_str(),
                first.failure.detail.c_str(), first.command.c_str());
  }

  const CampaignOptions options_;
  Shared* shared_ = nullptr;
  std::vector<Worker> workers_;
  CampaignResult totals_;  // what is counted; the rest is filled in at the end
  std::array<ProbeCount, kProbes> probes_{};
  Clock::time_point started_;
  Clock::time_point last_shown_;
  bool terminal_ = false;
};

}  // namespace

int RunCampaign(const CampaignOptions& options) { return Campaign(options).Run(); }

}  // namespace lockstep::sim
