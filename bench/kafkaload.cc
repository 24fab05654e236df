// kafkaload: closed-loop load on any broker that speaks Kafka's protocol, on bare sockets and
// through our own codec, so that the client is not the limit.
//
//   kafkaload HOST:PORT[,HOST:PORT...] create|produce|consume|delete TOPIC [OPTIONS]
//
// produce: CONNECTIONS connections to each broker that leads a partition keep OUTSTANDING requests
// in flight each, acks=all; a request carries one batch of BATCH records of SIZE bytes for one
// partition, in turn. The latency is from when a request is made until its acknowledgement is read.
// What is refused for the moment (a replica has fallen behind) is sent again, as clients do, and
// its latency goes on; how often is printed, since such a batch may be in the log more than once.
// With MEGABYTES it ends when so much has been sent, and all of it counts. consume: CONNECTIONS
// connections to each such broker share its partitions, and fetch them from the beginning to where
// they end, again and again for SECONDS, at least once; the records are those of the first time
// through, the rates are of all. CRCs of fetched batches are not checked. Both print one line. Exit
// status 1 if a request failed or a connection was lost.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/kafka/frame.h"
#include "core/records/batch_builder.h"

namespace {

using lockstep::Bytes;
namespace kafka = lockstep::kafka;
namespace records = lockstep::records;

// Versions that both Lockstep and Kafka 4 answer, and that clients of today send.
constexpr int16_t kProduceVersion = 7;
constexpr int16_t kFetchVersion = 11;
constexpr int16_t kMetadataVersion = 7;
constexpr int16_t kCreateTopicsVersion = 4;
constexpr int16_t kDeleteTopicsVersion = 3;
constexpr uint32_t kFrameBytesMax = 256 << 20;
constexpr int32_t kRequestTimeoutMs = 30'000;
constexpr double kSilenceSecondsMax =
    60;  // nothing at all arrives; a request is refused all the time
constexpr double kRetrySeconds = 0.1;
constexpr double kEarlySeconds = 5;  // a topic is new for so long

struct Load {
  std::string topic;
  int partitions = 1;
  int replicas = 3;
  int min_insync = 2;
  int connections = 2;
  int outstanding = 5;
  int batch = 100;
  int size = 100;
  double seconds = 10;
  double warm_up = 2;
  int megabytes = 0;
  std::vector<std::string> configs;  // of a new topic, NAME=VALUE
};

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

[[noreturn]] void Fail(const std::string& why) {
  std::fprintf(stderr, "kafkaload: %s\n", why.c_str());
  std::exit(1);
}

void MustBeNone(kafka::ErrorCode error, const std::string& what) {
  if (error != kafka::ErrorCode::kNone) Fail(what + ": " + kafka::ToString(error));
}

struct Address {
  std::string host;
  int port = 0;
};

// ---- A connection ------------------------------------------------------------------------------

// Answers come in the order of the requests, so a queue knows whose the next one is.
class Connection {
 public:
  using Done = std::function<void(const Bytes& answer)>;  // a frame, with its header

  explicit Connection(const Address& to) {
    fd_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(to.port));
    if (inet_pton(AF_INET, to.host.c_str(), &address.sin_addr) != 1) {
      Fail("not an address: " + to.host);
    }
    if (connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      Fail("cannot connect to " + to.host + ":" + std::to_string(to.port));
    }
    const int one = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { close(fd_); }

  int fd() const { return fd_; }

  template <typename Request>
  void Queue(const Request& request, int16_t version, Done done) {
    for (Bytes& slice : kafka::EncodeRequest(request, version, ++correlation_, "kafkaload")) {
      out_.push_back(std::move(slice));
    }
    waiting_.push_back(std::move(done));
  }

  // Sends what the socket takes now.
  void Flush() {
    while (!out_.empty()) {
      iovec slices[64];
      int count = 0;
      for (const Bytes& slice : out_) {
        if (count == 64) break;
        slices[count++] = {const_cast<char*>(slice.data()), slice.size()};
      }
      slices[0].iov_base = static_cast<char*>(slices[0].iov_base) + sent_;
      slices[0].iov_len -= sent_;
      msghdr message{};
      message.msg_iov = slices;
      message.msg_iovlen = static_cast<size_t>(count);
      const ssize_t written = sendmsg(fd_, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (written < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (written < 0) Fail("connection lost");
      sent_ += static_cast<size_t>(written);
      while (!out_.empty() && sent_ >= out_.front().size()) {
        sent_ -= out_.front().size();
        out_.pop_front();
      }
    }
  }

  // Takes what has arrived. False if there was nothing. What is large goes from the socket to where
  // it stays: a client that copies it once more would measure itself.
  bool Read() {
    char* to = frame_filled_ < kLengthBytes ? length_ + frame_filled_
                                            : frame_at_ + (frame_filled_ - kLengthBytes);
    const size_t end = frame_filled_ < kLengthBytes ? kLengthBytes : kLengthBytes + frame_.size();
    const ssize_t count = recv(fd_, to, end - frame_filled_, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (count <= 0) Fail("connection lost");
    frame_filled_ += static_cast<size_t>(count);
    if (frame_filled_ == kLengthBytes) {
      uint32_t length = 0;
      for (const char byte : length_) length = length << 8 | static_cast<unsigned char>(byte);
      if (length == 0 || length > kFrameBytesMax) Fail("a frame of a wrong length");
      // Nobody sees it before it is filled.
      frame_ = Bytes::Build(length, [this](char* data) { frame_at_ = data; });
    } else if (frame_filled_ == end && end > kLengthBytes) {
      if (waiting_.empty()) Fail("an answer to no request");
      const Done done = std::move(waiting_.front());
      waiting_.pop_front();
      frame_filled_ = 0;
      done(std::exchange(frame_, Bytes()));
    }
    return true;
  }

  // One request and its answer. Only while nothing else is in flight.
  template <typename Response, typename Request>
  Response Ask(const Request& request, int16_t version) {
    std::optional<Response> response;
    Queue(request, version,
          [&](const Bytes& answer) { response = Decoded<Response>(answer, version); });
    const double until = Now() + kSilenceSecondsMax;
    while (!response.has_value()) {
      Flush();
      if (!Read()) usleep(1000);
      if (Now() > until) Fail("no answer");
    }
    return *std::move(response);
  }

  template <typename Response>
  static Response Decoded(const Bytes& answer, int16_t version) {
    absl::StatusOr<Response> response = kafka::DecodeResponse<Response>(answer, version);
    if (!response.ok()) Fail(response.status().ToString());
    return *std::move(response);
  }

 private:
  int fd_ = -1;
  int32_t correlation_ = 0;
  std::deque<Bytes> out_;
  size_t sent_ = 0;  // of the first of out_
  std::deque<Done> waiting_;
  // The frame that is arriving: its length, then what it has.
  static constexpr size_t kLengthBytes = 4;
  char length_[kLengthBytes];
  Bytes frame_;
  char* frame_at_ = nullptr;
  size_t frame_filled_ = 0;  // with the length
};

// ---- Topics ------------------------------------------------------------------------------------

struct Cluster {
  std::map<int32_t, Address> brokers;
  int32_t controller = -1;
  std::map<int32_t, std::vector<int32_t>> led;  // partitions of the topic, by their leader
  size_t partitions = 0;                        // that have a leader and all replicas in sync
};

Cluster Describe(Connection* connection, const std::string& topic) {
  kafka::MetadataRequest request;
  request.allow_auto_topic_creation = false;
  request.topics.emplace().emplace_back().name = topic;
  auto response = connection->Ask<kafka::MetadataResponse>(request, kMetadataVersion);
  Cluster cluster;
  cluster.controller = response.controller_id;
  for (const auto& broker : response.brokers) {
    cluster.brokers[broker.node_id] = {broker.host, broker.port};
  }
  for (const auto& found : response.topics) {
    for (const auto& partition : found.partitions) {
      if (partition.leader_id < 0) continue;
      cluster.led[partition.leader_id].push_back(partition.partition_index);
      if (partition.isr_nodes.size() == partition.replica_nodes.size()) ++cluster.partitions;
    }
  }
  return cluster;
}

void Create(const Address& bootstrap, const Load& load) {
  Connection first(bootstrap);
  Cluster cluster = Describe(&first, load.topic);
  kafka::CreateTopicsRequest request;
  auto& topic = request.topics.emplace_back();
  topic.name = load.topic;
  topic.num_partitions = load.partitions;
  topic.replication_factor = static_cast<int16_t>(load.replicas);
  topic.configs.emplace_back() = {.name = "min.insync.replicas",
                                  .value = std::to_string(load.min_insync)};
  for (const std::string& config : load.configs) {
    const size_t equals = config.find('=');
    if (equals == std::string::npos) Fail("not NAME=VALUE: " + config);
    topic.configs.emplace_back() = {.name = config.substr(0, equals),
                                    .value = config.substr(equals + 1)};
  }
  Connection controller(cluster.brokers.at(cluster.controller));
  auto response = controller.Ask<kafka::CreateTopicsResponse>(request, kCreateTopicsVersion);
  MustBeNone(response.topics.at(0).error_code, "create " + load.topic);
  const double until = Now() + kSilenceSecondsMax;
  while (Describe(&first, load.topic).partitions < static_cast<size_t>(load.partitions)) {
    if (Now() > until) Fail(load.topic + ": not all partitions are in sync");
    usleep(50'000);
  }
}

void Delete(const Address& bootstrap, const Load& load) {
  Connection first(bootstrap);
  Cluster cluster = Describe(&first, load.topic);
  kafka::DeleteTopicsRequest request;
  request.topic_names = {load.topic};
  request.timeout_ms = kRequestTimeoutMs;
  Connection controller(cluster.brokers.at(cluster.controller));
  auto response = controller.Ask<kafka::DeleteTopicsResponse>(request, kDeleteTopicsVersion);
  MustBeNone(response.responses.at(0).error_code, "delete " + load.topic);
}

// ---- The loads ---------------------------------------------------------------------------------

// What both loads count, and their event loop.
class Run {
 public:
  explicit Run(const Load& load) : load_(load), poll_(epoll_create1(0)) {}
  virtual ~Run() { close(poll_); }

  // Calls the loads' own functions until Ended().
  void Loop() {
    epoll_event events[64];
    double heard = Now();
    while (!Ended()) {
      const int count = epoll_wait(poll_, events, 64, 100);
      const double now = Now();
      Tick(now);
      if (count > 0) heard = now;
      if (now - heard > kSilenceSecondsMax) Fail("nothing arrives any more");
      for (int i = 0; i < count; ++i) {
        auto* connection = static_cast<Connection*>(events[i].data.ptr);
        while (connection->Read()) {
        }
        connection->Flush();
      }
    }
  }

 protected:
  virtual bool Ended() = 0;
  // Called now and then, at least ten times a second.
  virtual void Tick(double /*now*/) {}

  Connection* Dial(const Address& address) {
    connections_.push_back(std::make_unique<Connection>(address));
    Connection* connection = connections_.back().get();
    epoll_event event{};
    // Edge-triggered: Loop() reads until there is nothing, and Flush() sends until nothing fits.
    event.events = EPOLLIN | EPOLLOUT | EPOLLET;
    event.data.ptr = connection;
    epoll_ctl(poll_, EPOLL_CTL_ADD, connection->fd(), &event);
    return connection;
  }

  void FlushAll() {
    for (auto& connection : connections_) connection->Flush();
  }

  // `records`: as the caller counts them; the rates are of `count` records.
  void Report(const char* kind, int64_t records, int64_t count, int64_t bytes, double seconds,
              std::vector<float>* latencies_ms) {
    std::sort(latencies_ms->begin(), latencies_ms->end());
    auto percentile = [&](size_t per_mille) {
      return latencies_ms->empty()
                 ? 0.0
                 : double{(*latencies_ms)[latencies_ms->size() * per_mille / 1000]};
    };
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const double cpu = static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                       static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    std::printf(
        "%s records=%lld  %.0f records/s  %.1f MB/s  p50 %.3f ms  p99 %.3f ms  p99.9 %.3f ms  "
        "client cpu %.1f s\n",
        kind, static_cast<long long>(records), static_cast<double>(count) / seconds,
        static_cast<double>(bytes) / seconds / 1e6, percentile(500), percentile(990),
        percentile(999), cpu);
  }

  const Load load_;

 private:
  const int poll_;
  std::vector<std::unique_ptr<Connection>> connections_;
};

class Producers : public Run {
 public:
  Producers(const Cluster& cluster, const Load& load) : Run(load) {
    records::BatchBuilder builder;
    const int64_t unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                                std::chrono::system_clock::now().time_since_epoch())
                                .count();
    std::string value(static_cast<size_t>(load.size), '\0');
    uint32_t random = 1;
    for (int i = 0; i < load.batch; ++i) {
      for (char& c : value) c = static_cast<char>((random = random * 1664525 + 1013904223) >> 24);
      builder.Add(unix_ms, std::nullopt, value);
    }
    // Without a producer id a batch may be sent again and again, so that making one costs nothing.
    batch_ = builder.Build().Join();
    for (const auto& [broker, partitions] : cluster.led) {
      for (int i = 0; i < load.connections; ++i) {
        // Connections start at different partitions, or they would all wait for the same one.
        auto source = std::make_unique<Source>();
        source->partitions = partitions;
        source->next = static_cast<size_t>(i) * partitions.size() / load.connections;
        source->connection = Dial(cluster.brokers.at(broker));
        sources_.push_back(std::move(source));
      }
    }
  }

  void Go() {
    const double begin = Now();
    from_ = load_.megabytes > 0 ? begin : begin + load_.warm_up;
    early_until_ = begin + kEarlySeconds;
    until_ = load_.megabytes > 0 ? std::numeric_limits<double>::infinity() : from_ + load_.seconds;
    left_ = load_.megabytes > 0
                ? (int64_t{load_.megabytes} << 20) / (int64_t{load_.batch} * load_.size) + 1
                : std::numeric_limits<int64_t>::max();
    for (auto& source : sources_) {
      for (int i = 0; i < load_.outstanding; ++i) Issue(source.get());
    }
    FlushAll();
    Loop();
    Report("produce", counted_ * load_.batch, counted_ * load_.batch,
           counted_ * load_.batch * load_.size, load_.megabytes > 0 ? Now() - begin : load_.seconds,
           &latencies_ms_);
    std::printf("acknowledged in all: %lld\n", static_cast<long long>(acknowledged_ * load_.batch));
    std::printf("sent again: %lld\n", static_cast<long long>(retried_ * load_.batch));
  }

 private:
  struct Source {
    Connection* connection = nullptr;
    std::vector<int32_t> partitions;
    size_t next = 0;
  };

  // One batch for one partition, until it is acknowledged.
  struct Batch {
    Source* source = nullptr;
    int32_t partition = 0;
    double issued = 0;
  };

  bool Ended() override { return (Now() >= until_ || left_ == 0) && in_flight_ == 0; }

  void Tick(double now) override {
    for (; !refused_.empty() && refused_.front().first <= now; refused_.pop_front()) {
      Send(refused_.front().second);
      refused_.front().second.source->connection->Flush();
    }
  }

  void Issue(Source* source) {
    const double issued = Now();
    if (issued >= until_ || left_ == 0) return;
    --left_;
    const int32_t partition = source->partitions[source->next++ % source->partitions.size()];
    ++in_flight_;
    Send({source, partition, issued});
  }

  void Send(const Batch& batch) {
    kafka::ProduceRequest request;
    request.acks = -1;
    request.timeout_ms = kRequestTimeoutMs;
    auto& topic = request.topic_data.emplace_back();
    topic.name = load_.topic;
    auto& partition = topic.partition_data.emplace_back();
    partition.index = batch.partition;
    partition.records.emplace(batch_);
    batch.source->connection->Queue(
        request, kProduceVersion, [this, batch](const Bytes& answer) { OnAnswer(batch, answer); });
  }

  void OnAnswer(const Batch& batch, const Bytes& answer) {
    auto response = Connection::Decoded<kafka::ProduceResponse>(answer, kProduceVersion);
    const kafka::ErrorCode error = response.responses.at(0).partition_responses.at(0).error_code;
    const double now = Now();
    // A leader may hear of a new topic after those who told us of it; not much later, though.
    const bool early = now < early_until_ && (error == kafka::ErrorCode::kNotLeaderOrFollower ||
                                              error == kafka::ErrorCode::kUnknownTopicOrPartition);
    const bool for_now = error == kafka::ErrorCode::kNotEnoughReplicas ||
                         error == kafka::ErrorCode::kNotEnoughReplicasAfterAppend ||
                         error == kafka::ErrorCode::kRequestTimedOut;
    if ((early || for_now) && now - batch.issued < kSilenceSecondsMax) {
      ++retried_;
      refused_.emplace_back(now + kRetrySeconds, batch);
      return;
    }
    MustBeNone(error, "produce");
    --in_flight_;
    ++acknowledged_;
    if (now >= from_ && now < until_) {
      ++counted_;
      latencies_ms_.push_back(static_cast<float>((now - batch.issued) * 1e3));
    }
    Issue(batch.source);
  }

  Bytes batch_;
  std::vector<std::unique_ptr<Source>> sources_;
  double from_ = 0, until_ = 0, early_until_ = 0;
  int64_t left_ = 0;  // batches that may still be issued
  int64_t in_flight_ = 0;
  int64_t acknowledged_ = 0;  // batches
  int64_t retried_ = 0;
  std::deque<std::pair<double, Batch>> refused_;  // until when they wait
  int64_t counted_ = 0;                           // of these, after the warm-up
  std::vector<float> latencies_ms_;
};

class Consumers : public Run {
 public:
  Consumers(const Cluster& cluster, const Load& load) : Run(load) {
    for (const auto& [broker, partitions] : cluster.led) {
      const int count = std::min(load.connections, static_cast<int>(partitions.size()));
      for (int i = 0; i < count; ++i) {
        auto reader = std::make_unique<Reader>();
        for (size_t k = static_cast<size_t>(i); k < partitions.size(); k += count) {
          reader->partitions.push_back(partitions[k]);
          reader->left[partitions[k]] = 0;
        }
        reader->connection = Dial(cluster.brokers.at(broker));
        readers_.push_back(std::move(reader));
      }
    }
  }

  void Go() {
    const double begin = Now();
    until_ = begin + load_.seconds;
    for (auto& reader : readers_) Issue(reader.get());
    FlushAll();
    Loop();
    Report("consume", first_records_, records_, bytes_, Now() - begin, &latencies_ms_);
    std::printf("read in all: %lld\n", static_cast<long long>(records_));
  }

 private:
  struct Reader {
    Connection* connection = nullptr;
    std::vector<int32_t> partitions;
    std::map<int32_t, int64_t> left;  // partitions that have not ended, with the next offset
    bool again = false;               // they have been read before
    size_t turn = 0;
  };

  bool Ended() override {
    return std::all_of(readers_.begin(), readers_.end(),
                       [](const auto& reader) { return reader->left.empty(); });
  }

  void Issue(Reader* reader) {
    const double issued = Now();
    if (reader->left.empty() && issued < until_) {
      reader->again = true;
      for (const int32_t partition : reader->partitions) reader->left[partition] = 0;
    }
    // All of them until the time is over: the last ones would be faster alone.
    if (reader->left.empty() || (reader->again && issued >= until_)) return reader->left.clear();
    kafka::FetchRequest request;
    request.max_wait_ms = 500;
    request.min_bytes = 1;
    request.max_bytes = 50 << 20;
    auto& topic = request.topics.emplace_back();
    topic.topic = load_.topic;
    for (const auto& [index, offset] : reader->left) {
      auto& partition = topic.partitions.emplace_back();
      partition.partition = index;
      partition.fetch_offset = offset;
      partition.partition_max_bytes = 1 << 20;
    }
    // As clients do, so that the response's bound does not starve the last ones.
    std::rotate(
        topic.partitions.begin(),
        topic.partitions.begin() + static_cast<ptrdiff_t>(reader->turn++ % topic.partitions.size()),
        topic.partitions.end());
    reader->connection->Queue(request, kFetchVersion, [this, reader, issued](const Bytes& answer) {
      OnAnswer(reader, issued, answer);
    });
  }

  void OnAnswer(Reader* reader, double issued, const Bytes& answer) {
    auto response = Connection::Decoded<kafka::FetchResponse>(answer, kFetchVersion);
    MustBeNone(response.error_code, "fetch");
    latencies_ms_.push_back(static_cast<float>((Now() - issued) * 1e3));
    for (const auto& topic : response.responses) {
      for (const auto& partition : topic.partitions) {
        MustBeNone(partition.error_code, "fetch");
        auto at = reader->left.find(partition.partition_index);
        if (at == reader->left.end()) Fail("a partition that was not asked for");
        if (partition.records.has_value()) {
          const int64_t count = Take(partition.records->Joined(), &at->second);
          records_ += count;
          if (!reader->again) first_records_ += count;
        }
        if (at->second >= partition.high_watermark) reader->left.erase(at);
      }
    }
    Issue(reader);
  }

  // Moves the offset behind the whole batches. Returns how many records they have.
  int64_t Take(const Bytes& bytes, int64_t* offset) {
    std::string_view rest = bytes.view();
    int64_t count = 0;
    for (;;) {
      absl::StatusOr<records::BatchHeader> header = records::ParseBatchHeader(rest);
      if (absl::IsOutOfRange(header.status())) return count;
      if (!header.ok()) Fail("fetch: " + header.status().ToString());
      *offset = header->next_offset();
      count += header->record_count;
      bytes_ += static_cast<int64_t>(header->size());
      rest.remove_prefix(header->size());
    }
  }

  std::vector<std::unique_ptr<Reader>> readers_;
  double until_ = 0;
  int64_t records_ = 0;
  int64_t first_records_ = 0;  // without those that were read again
  int64_t bytes_ = 0;          // batches with their headers
  std::vector<float> latencies_ms_;
};

Address ParseAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) Fail("not HOST:PORT: " + text);
  return {text.substr(0, colon), std::atoi(text.c_str() + colon + 1)};
}

}  // namespace

int main(int argc, char** argv) {
  Load load;
  std::string bootstrap, mode;
  CLI::App app("closed-loop load on brokers that speak Kafka's protocol", "kafkaload");
  app.add_option("brokers", bootstrap, "HOST:PORT[,HOST:PORT...]; the first one is asked")
      ->required();
  app.add_option("mode", mode, "create, produce, consume or delete")
      ->required()
      ->check(CLI::IsMember({"create", "produce", "consume", "delete"}));
  app.add_option("topic", load.topic)->required();
  const CLI::Range positive(1, 1'000'000);
  app.add_option("--partitions", load.partitions, "of a new topic")->check(positive);
  app.add_option("--replicas", load.replicas, "of a new topic")->check(positive);
  app.add_option("--min-insync", load.min_insync, "of a new topic")->check(positive);
  app.add_option("--connections", load.connections, "to each broker")->check(positive);
  app.add_option("--outstanding", load.outstanding, "requests of a connection")->check(positive);
  app.add_option("--batch", load.batch, "records in a batch")->check(positive);
  app.add_option("--size", load.size, "bytes of a record's value")->check(positive);
  app.add_option("--config", load.configs, "NAME=VALUE, of a new topic");
  app.add_option("--seconds", load.seconds, "how long to produce, after the warm-up, or consume");
  app.add_option("--megabytes", load.megabytes, "to produce, however long it takes")
      ->check(positive);
  app.add_option("--warm-up", load.warm_up, "seconds that do not count");
  CLI11_PARSE(app, argc, argv);

  const Address first = ParseAddress(bootstrap.substr(0, bootstrap.find(',')));
  if (mode == "create") {
    Create(first, load);
  } else if (mode == "delete") {
    Delete(first, load);
  } else {
    Connection connection(first);
    const Cluster cluster = Describe(&connection, load.topic);
    if (cluster.led.empty()) Fail(load.topic + " has no partition with a leader");
    if (mode == "produce") {
      Producers(cluster, load).Go();
    } else {
      Consumers(cluster, load).Go();
    }
  }
}
