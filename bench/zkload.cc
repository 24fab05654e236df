// zkload: closed-loop load on any server that speaks ZooKeeper's client protocol, on bare sockets,
// so that the client is not the limit. (The public C client tops out near 25,000 operations a
// second on two cores; this one passes several hundred thousand.)
//
//   zkload HOST:PORT[,HOST:PORT...] create|set|get|mixed SESSIONS OUTSTANDING OPS SIZE
//
// Each session keeps OUTSTANDING requests in flight; sessions go to the hosts in turn. create makes
// new nodes with SIZE bytes of data; set and get pick one of 100 nodes of the session; mixed is 90
// % get, 10 % set. Prints one line: operations a second and percentiles of the latency. Exit status
// 1 if an operation failed or a connection was lost.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int kNodesPerSession = 100;
constexpr int kSessionTimeoutMs = 30'000;
constexpr double kSecondsMax = 300;
enum Opcode { kCreate = 1, kGetData = 4, kSetData = 5 };

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

[[noreturn]] void Fail(const std::string& why) {
  std::fprintf(stderr, "zkload: %s\n", why.c_str());
  std::exit(1);
}

// ---- ZooKeeper's encoding ----------------------------------------------------------------------

void PutInt(std::string* to, int32_t value) {
  const uint32_t big_endian = htonl(static_cast<uint32_t>(value));
  to->append(reinterpret_cast<const char*>(&big_endian), 4);
}

void PutString(std::string* to, const std::string& text) {
  PutInt(to, static_cast<int32_t>(text.size()));
  *to += text;
}

int32_t ReadInt(const char* from) {
  uint32_t value;
  std::memcpy(&value, from, 4);
  return static_cast<int32_t>(ntohl(value));
}

std::string ConnectRequest() {
  std::string body;
  PutInt(&body, 0);      // protocol version
  body.append(8, '\0');  // last zxid seen
  PutInt(&body, kSessionTimeoutMs);
  body.append(8, '\0');  // session id: a new one
  PutString(&body, std::string(16, '\0'));
  body.push_back('\0');  // not read-only
  return body;
}

std::string CreateRequest(int32_t xid, const std::string& path, const std::string& data) {
  std::string body;
  PutInt(&body, xid);
  PutInt(&body, kCreate);
  PutString(&body, path);
  PutString(&body, data);
  PutInt(&body, 1);   // one ACL entry:
  PutInt(&body, 31);  // everything
  PutString(&body, "world");
  PutString(&body, "anyone");
  PutInt(&body, 0);  // persistent
  return body;
}

std::string GetRequest(int32_t xid, const std::string& path) {
  std::string body;
  PutInt(&body, xid);
  PutInt(&body, kGetData);
  PutString(&body, path);
  body.push_back('\0');  // no watch
  return body;
}

std::string SetRequest(int32_t xid, const std::string& path, const std::string& data) {
  std::string body;
  PutInt(&body, xid);
  PutInt(&body, kSetData);
  PutString(&body, path);
  PutString(&body, data);
  PutInt(&body, -1);  // any version
  return body;
}

// ---- A session ---------------------------------------------------------------------------------

class Session {
 public:
  Session(int number, const std::string& host, int port)
      : number_(number), random_(static_cast<unsigned>(number + 1)) {
    fd_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) Fail("not an address: " + host);
    if (connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      Fail("cannot connect to " + host + ":" + std::to_string(port));
    }
    const int one = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (Ask(ConnectRequest()).size() < 36) Fail("no session");
  }

  int fd() const { return fd_; }
  std::string Home() const { return "/zkload/s" + std::to_string(number_); }
  int32_t NextXid() { return ++xid_; }
  unsigned Random(unsigned bound) { return static_cast<unsigned>(rand_r(&random_)) % bound; }
  int64_t NextName() { return named_++; }

  // Sends a request and waits for its answer. Only while nothing else is in flight.
  std::string Ask(const std::string& body) {
    Queue(body, 0);
    sent_.pop_front();
    Flush();
    std::string header = ReadExactly(4);
    return ReadExactly(static_cast<size_t>(ReadInt(header.data())));
  }

  void Queue(const std::string& body, double now) {
    PutString(&out_, body);
    sent_.push_back(now);
  }

  void Flush() {
    for (size_t written = 0; written < out_.size();) {
      const ssize_t count = write(fd_, out_.data() + written, out_.size() - written);
      if (count <= 0) Fail("connection lost");
      written += static_cast<size_t>(count);
    }
    out_.clear();
  }

  // Reads what is there; calls done(error code, seconds when it was sent) for each answer.
  template <typename Done>
  void Read(Done done) {
    static char buffer[1 << 18];
    const ssize_t count = read(fd_, buffer, sizeof(buffer));
    if (count <= 0) Fail("connection lost");
    in_.append(buffer, static_cast<size_t>(count));
    size_t at = 0;
    while (in_.size() - at >= 4) {
      const auto length = static_cast<size_t>(ReadInt(&in_[at]));
      if (in_.size() - at - 4 < length) break;
      const char* answer = &in_[at + 4];
      at += 4 + length;
      if (ReadInt(answer) < 0) continue;  // an event or a ping
      const double sent = sent_.front();
      sent_.pop_front();
      done(ReadInt(answer + 12), sent);
    }
    in_.erase(0, at);
  }

 private:
  std::string ReadExactly(size_t size) {
    std::string data(size, '\0');
    for (size_t have = 0; have < size;) {
      const ssize_t count = read(fd_, &data[have], size - have);
      if (count <= 0) Fail("connection lost");
      have += static_cast<size_t>(count);
    }
    return data;
  }

  int number_;
  int fd_ = -1;
  int32_t xid_ = 0;
  int64_t named_ = 0;
  unsigned random_;
  std::string in_;
  std::string out_;
  std::deque<double> sent_;  // when each request in flight was sent, in order
};

// ---- The load ----------------------------------------------------------------------------------

struct Load {
  std::vector<std::pair<std::string, int>> hosts;
  std::string mode;
  int sessions = 0;
  int outstanding = 0;
  int64_t operations = 0;
  std::string payload;
};

class Run {
 public:
  explicit Run(const Load& load) : load_(load), run_name_(std::to_string(getpid())) {
    sessions_.reserve(static_cast<size_t>(load.sessions));
    latencies_.reserve(static_cast<size_t>(load.operations));
    for (int i = 0; i < load.sessions; ++i) {
      const auto& [host, port] = load.hosts[static_cast<size_t>(i) % load.hosts.size()];
      Session& s = sessions_.emplace_back(i, host, port);
      // These may exist from an earlier run: their answers are not looked at.
      if (i == 0) s.Ask(CreateRequest(s.NextXid(), "/zkload", ""));
      s.Ask(CreateRequest(s.NextXid(), s.Home(), ""));
      for (int k = 0; load.mode != "create" && k < kNodesPerSession; ++k) {
        s.Ask(CreateRequest(s.NextXid(), s.Home() + "/k" + std::to_string(k), load.payload));
      }
    }
  }

  void Go() {
    const int poll = epoll_create1(0);
    for (Session& session : sessions_) {
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.ptr = &session;
      epoll_ctl(poll, EPOLL_CTL_ADD, session.fd(), &event);
    }
    const double start = Now();
    for (Session& session : sessions_) {
      for (int k = 0; k < load_.outstanding; ++k) Issue(&session);
      session.Flush();
    }
    epoll_event events[64];
    while (static_cast<int64_t>(latencies_.size()) < load_.operations) {
      const int count = epoll_wait(poll, events, 64, 5000);
      if (count == 0 && Now() - start > kSecondsMax) {
        Fail("timeout after " + std::to_string(latencies_.size()) + " operations");
      }
      for (int i = 0; i < count; ++i) {
        auto* session = static_cast<Session*>(events[i].data.ptr);
        session->Read([&](int32_t error, double sent) {
          if (error != 0 && errors_++ < 3) std::fprintf(stderr, "operation error %d\n", error);
          latencies_.push_back(Now() - sent);
          Issue(session);
        });
        session->Flush();
      }
    }
    seconds_ = Now() - start;
    close(poll);
  }

  // Returns whether all went well.
  bool Report() {
    std::sort(latencies_.begin(), latencies_.end());
    auto percentile_ms = [&](int64_t per_mille) {
      return latencies_[static_cast<size_t>(load_.operations * per_mille / 1000)] * 1e3;
    };
    std::printf(
        "%s sessions=%d outstanding=%d ops=%lld size=%zu errs=%lld  %.0f op/s  p50 %.3f ms  "
        "p99 %.3f ms  p99.9 %.3f ms\n",
        load_.mode.c_str(), load_.sessions, load_.outstanding,
        static_cast<long long>(load_.operations), load_.payload.size(),
        static_cast<long long>(errors_), static_cast<double>(load_.operations) / seconds_,
        percentile_ms(500), percentile_ms(990), percentile_ms(999));
    return errors_ == 0;
  }

 private:
  void Issue(Session* s) {
    if (issued_ == load_.operations) return;
    ++issued_;
    const int32_t xid = s->NextXid();
    if (load_.mode == "create") {
      const std::string name = "/c" + run_name_ + "-" + std::to_string(s->NextName());
      return s->Queue(CreateRequest(xid, s->Home() + name, load_.payload), Now());
    }
    const bool get = load_.mode == "get" || (load_.mode == "mixed" && s->Random(10) != 0);
    const std::string path = s->Home() + "/k" + std::to_string(s->Random(kNodesPerSession));
    s->Queue(get ? GetRequest(xid, path) : SetRequest(xid, path, load_.payload), Now());
  }

  const Load load_;
  const std::string run_name_;
  std::vector<Session> sessions_;
  std::vector<double> latencies_;
  int64_t issued_ = 0;
  int64_t errors_ = 0;
  double seconds_ = 0;
};

std::vector<std::pair<std::string, int>> ParseHosts(const std::string& text) {
  std::vector<std::pair<std::string, int>> hosts;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string host = text.substr(at, end - at);
    const size_t colon = host.rfind(':');
    if (colon == std::string::npos) Fail("not HOST:PORT: " + host);
    hosts.emplace_back(host.substr(0, colon), std::atoi(host.c_str() + colon + 1));
    at = end + 1;
  }
  return hosts;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    std::fprintf(
        stderr,
        "usage: zkload HOST:PORT[,...] create|set|get|mixed SESSIONS OUTSTANDING OPS SIZE\n");
    return 2;
  }
  Run run({.hosts = ParseHosts(argv[1]),
           .mode = argv[2],
           .sessions = std::atoi(argv[3]),
           .outstanding = std::atoi(argv[4]),
           .operations = std::atoll(argv[5]),
           .payload = std::string(static_cast<size_t>(std::atoi(argv[6])), 'x')});
  run.Go();
  return run.Report() ? 0 : 1;
}
