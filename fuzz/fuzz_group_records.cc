// The group coordinator against a topic that holds anything, and clients that send anything. The
// first half of the input is records of the offsets topic, each behind the lengths of its key and
// value; they are loaded as one batch. The rest is requests: which API, which version, and a body;
// between them appends succeed or fail, and time passes. In the end another coordinator loads what
// was written, and must be able to.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/check.h"
#include "core/kafka/frame.h"
#include "core/kafka/group_records.h"
#include "core/kafka/groups.h"
#include "core/records/batch_builder.h"

namespace lockstep::kafka {
namespace {

// What is left of the input. At its end all is zero and empty.
class Input {
 public:
  explicit Input(std::string_view bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  uint8_t Byte() {
    const std::string_view byte = Take(1);
    return byte.empty() ? 0 : static_cast<uint8_t>(byte[0]);
  }
  std::string_view Take(size_t size) {
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(taken.size());
    return taken;
  }

 private:
  std::string_view bytes_;
};

std::optional<GroupRequest> MakeRequest(uint8_t kind, int16_t version, const Bytes& body) {
  std::optional<GroupRequest> request;
  const auto decode = [&]<typename Request>(Request) {
    absl::StatusOr<Request> decoded = DecodeBody<Request>(body, version);
    if (decoded.ok()) request = *std::move(decoded);
  };
  switch (kind % 10) {
    case 0:
      decode(JoinGroupRequest());
      break;
    case 1:
      decode(SyncGroupRequest());
      break;
    case 2:
      decode(HeartbeatRequest());
      break;
    case 3:
      decode(LeaveGroupRequest());
      break;
    case 4:
      decode(OffsetCommitRequest());
      break;
    case 5:
      decode(OffsetFetchRequest());
      break;
    case 6:
      decode(DescribeGroupsRequest());
      break;
    case 7:
      decode(ListGroupsRequest());
      break;
    case 8:
      decode(DeleteGroupsRequest());
      break;
    default:
      decode(OffsetDeleteRequest());
  }
  return request;
}

class Coordinator {
 public:
  explicit Coordinator(const std::vector<Bytes>& log) : groups_({}, RandomStream(1, {}, 0, 0)) {
    groups_.SetWallClock(now_, 1'700'000'000'000);
    groups_.SetPartitions(1);
    groups_.OnLoadBegin(now_, 0, replication::LeaderEpoch{1});
    for (const Bytes& batch : log) groups_.OnLoadBatches(now_, 0, batch, &output_);
    groups_.OnLoadEnd(now_, 0, &output_);
    Take();
  }

  void Request(uint8_t kind, int16_t version, std::string_view body) {
    const auto request = MakeRequest(kind, version, Bytes::Copy(body));
    if (!request.has_value()) return;
    versions_.push_back(version);
    groups_.OnRequest(now_, {versions_.size() - 1}, version, *request, "client", "/host", &output_);
    Take();
  }
  void Answer(ErrorCode error) {
    if (appends_.empty()) return;
    groups_.OnAppended(now_, std::exchange(appends_.front(), 0), error, &output_);
    appends_.erase(appends_.begin());
    Take();
  }
  void Pass(Duration time) {
    now_ = now_ + time;
    if (groups_.next_deadline() <= now_) groups_.OnWake(now_, &output_);
    Take();
  }
  void Resign() {
    groups_.OnResigned(now_, 0, &output_);
    Take();
    LS_CHECK_EQ(answered_, versions_.size());
  }
  std::vector<Bytes> log;

 private:
  void Take() {
    for (const GroupsOutput::Reply& reply : output_.replies) {
      ++answered_;
      // What cannot be said in the version of the request is a bug.
      std::visit([&](const auto& r) { EncodeBody(r, versions_.at(reply.id.value)); },
                 reply.response);
    }
    for (const GroupsOutput::Append& append : output_.appends) {
      appends_.push_back(append.id);
      const records::Batch batch = records::AssignOffsets(records::Batch::Of(append.batch),
                                                          {.base_offset = 1000, .leader_epoch = 1});
      log.push_back(batch.Join());
      records::RecordReader reader(records::HeaderOf(batch), batch.records.view());
      records::Record record;
      while (reader.Next(&record)) LS_CHECK(DecodeGroupRecord(record.key, record.value).ok());
      LS_CHECK(reader.status().ok());
    }
    output_.Clear();
  }

  Groups groups_;
  GroupsOutput output_;
  Instant now_{1};
  std::vector<int16_t> versions_;  // of the requests
  size_t answered_ = 0;
  std::vector<uint64_t> appends_;
};

void Use(std::string_view bytes) {
  Input records(bytes.substr(0, bytes.size() / 2));
  Input requests(bytes.substr(bytes.size() / 2));
  records::BatchBuilder builder;
  while (!records.empty()) {
    const size_t key_size = records.Byte();
    const size_t value_size = records.Byte();
    const std::string_view key = records.Take(key_size);
    const std::string_view value = records.Take(value_size);
    builder.Add(0, key, value_size == 0 ? std::nullopt : std::optional(value));
  }
  std::vector<Bytes> log;
  if (builder.record_count() > 0) {
    log.push_back(
        records::AssignOffsets(builder.Build(), {.base_offset = 0, .leader_epoch = 0}).Join());
  }

  Coordinator coordinator(log);
  while (!requests.empty()) {
    const uint8_t kind = requests.Byte();
    const auto version = static_cast<int16_t>(requests.Byte() % 10);
    const size_t size = requests.Byte();
    coordinator.Request(kind, version, requests.Take(size));
    if (kind & 0x80) coordinator.Answer(ErrorCode::kNone);
    if (kind & 0x40) coordinator.Answer(ErrorCode::kRequestTimedOut);
    if (kind & 0x20) coordinator.Pass(Seconds(version * 30 + 1));
  }
  coordinator.Resign();
  log.insert(log.end(), coordinator.log.begin(), coordinator.log.end());
  Coordinator(log).Resign();
}

}  // namespace
}  // namespace lockstep::kafka

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4096) return 0;
  lockstep::kafka::Use({reinterpret_cast<const char*>(data), size});
  return 0;
}
