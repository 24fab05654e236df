// The front end's insides, shared by the files that answer requests: front_end.cc has connections
// and the order of answers; produce.cc, fetch.cc, offsets.cc, metadata_requests.cc,
// topic_requests.cc and group_requests.cc have one family of requests each; partition_state.cc has
// what is known of the partitions that are hosted here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/check.h"
#include "core/base/frame_cutter.h"
#include "core/kafka/frame.h"
#include "core/kafka/front_end.h"
#include "core/kafka/messages.h"
#include "core/kafka/producer_state.h"
#include "core/records/record_batch.h"

namespace lockstep::kafka {

// What this server answers, ascending by key: what ApiVersions says.
struct ServedApi {
  ApiKey key;
  int16_t version_min;  // inclusive both
  int16_t version_max;
};
const std::vector<ServedApi>& ServedApis();

class FrontEnd::Impl {
 public:
  Impl(const FrontEndOptions& options, replication::Broker* broker, RandomStream random);

  void SetWallClock(Instant now, int64_t unix_ms);
  void OnAccepted(ConnectionId connection, const std::string& address, uint16_t port);
  bool Has(ConnectionId connection) const { return connections_.contains(connection); }
  void OnBytes(ConnectionId connection, Bytes bytes);
  void OnClosed(ConnectionId connection);
  void OnWritten(ConnectionId connection, uint64_t bytes);
  void OnBroker(const replication::BrokerOutput& what);
  void OnLogRead(const storage::LogReadDone& done);
  void OnLogSearch(const storage::LogSearchDone& done);
  void OnLogSizes(uint64_t id, const std::vector<uint64_t>& bytes);
  void OnLogRolled(storage::LogNumber log);
  void SnapshotProducers();
  void OnWake();
  Instant next_deadline() const;
  Figures figures() const {
    return {.connections = connections_.size(),
            .groups = groups_.count(),
            .requests = last_call_,
            .bytes_received = bytes_received_,
            .bytes_sent = bytes_sent_};
  }

  // The step under way.
  void Begin(Instant now, FrontEndOutput* output, replication::BrokerOutput* broker_output);

 private:
  // What is decompressed in a turn before the rest is left for the next one. What was begun is
  // finished, so it may be a request's or a batch's more (kDecompressedBytes in produce.cc).
  static constexpr size_t kTurnBytes = size_t{16} << 20;

  using CallId = uint64_t;
  using PartitionId = replication::PartitionId;

  // ---- Connections and answers (front_end.cc).

  // A request that has been taken and not answered.
  struct Call {
    ConnectionId connection;
    ApiKey api = ApiKey::kApiVersions;
    int16_t version = 0;
    int32_t correlation_id = 0;
    std::string client_id;
  };
  // Its place among the answers of its connection, which leave in the order of the requests.
  struct Slot {
    CallId call = 0;
    uint64_t bytes = 0;  // held: of the request, and later of the response
    bool done = false;
    std::vector<Bytes> response;  // none for a produce with acks=0
  };
  struct Connection {
    explicit Connection(uint32_t request_bytes_max) : cutter(request_bytes_max) {}
    std::string address;
    FrameCutter cutter;
    std::optional<Bytes> next;  // the frame that waits for the next turn
    std::deque<Slot> slots;
    uint64_t unsent = 0;  // bytes that have not left the host
    Instant taken;        // when it last took some of them, or had nothing to take
    uint64_t held = 0;    // bytes: frames and pieces of them, slots, what is unsent
    bool paused = false;
    bool waits_for_turn = false;
    Instant active;  // when it last said something
  };

  void TakeFrames(ConnectionId id);
  bool MustWait(const Connection& connection) const;
  // Pauses or resumes reading, as the bounds have it.
  void UpdateReading(ConnectionId id, Connection& connection);
  // False: the connection was closed.
  bool OnFrame(ConnectionId id, const Bytes& frame);
  void Dispatch(CallId call, Reader* reader);
  template <typename Request>
  void Take(CallId call, Reader* reader, void (Impl::*handler)(CallId, Request&&));
  // The bound on memory is exceeded, and this connection has more than its share.
  bool HoldsTooMuch(const Connection& connection) const;
  uint64_t ShareBytes() const;
  void Hold(Connection& connection, uint64_t bytes);
  void Release(Connection& connection, uint64_t bytes);
  void SetSlotBytes(Connection& connection, Slot& slot, uint64_t bytes);
  void CloseHalfRequest();
  // Taken off what this turn may still do.
  void Spend(size_t decompressed_bytes) { work_left_ -= std::min(work_left_, decompressed_bytes); }
  void NextTurn();
  void Close(ConnectionId id, const char* reason);
  void Forget(ConnectionId id);
  void CloseIdle();
  void SendDone(ConnectionId id);
  const Call* FindCall(CallId call) const;

  template <typename Response>
  void Reply(CallId call, const Response& response) {
    const Call* c = FindCall(call);
    if (c == nullptr) return;  // its connection is gone
    FinishCall(call, EncodeResponse(response, c->version, c->correlation_id));
  }
  void FinishCall(CallId call, std::vector<Bytes> response);
  // The call is not the first of its connection: its turn comes (OnTurn) when it is.
  bool IsFirst(CallId call) const;
  void OnTurn(CallId call);

  // ---- Partitions that are hosted here (partition_state.cc).

  struct Scan;
  struct Hosted {
    explicit Hosted(const ProducerStateOptions& options) : producers(options) {}
    PartitionId id;
    std::string topic;
    storage::LogNumber log;
    ProducerState producers;
    replication::Role role = replication::Role::kIdle;
    replication::LeaderEpoch epoch;
    // The producers' state is being read anew: produce is refused meanwhile.
    bool rebuilding = false;
    // Batches that were sent again, while what is in the log is not committed.
    struct Duplicate {
      replication::Offset end = 0;  // exclusive
      uint64_t produce = 0;
      int64_t base_offset = 0;
      Instant deadline;
      ErrorCode error = ErrorCode::kNone;  // to answer when that is committed
    };
    std::vector<Duplicate> duplicates;
    // Of the offsets topic: its groups are read up to here (exclusive), which is not committed yet.
    std::optional<int64_t> load_end;
    std::set<CallId> parked_fetches;
  };
  // Reads a log from one offset to another, batch by batch.
  struct Scan {
    enum class Purpose : uint8_t { kProducers, kGroups };
    Purpose purpose = Purpose::kProducers;
    PartitionId partition;
    replication::LeaderEpoch epoch;  // of kGroups: over if it is another by now
    int64_t next = 0;
    int64_t end = 0;  // exclusive
  };

  void On(const replication::BrokerOutput::Opened& event);
  void On(const replication::BrokerOutput::Appended& event);
  void On(const replication::BrokerOutput::Truncated& event);
  void On(const replication::BrokerOutput::RoleChanged& event);
  void On(const replication::BrokerOutput::Removed& event);
  void OnHighWatermark(const PartitionId& id);
  void Rebuild(Hosted& hosted);
  void StartScan(Scan scan);
  void DropScans(const PartitionId& partition);
  void ContinueScan(uint64_t read, const Scan& scan);
  void OnScanRead(const Scan& scan, const storage::LogReadDone& done);
  void EndScan(const Scan& scan);
  void EndLoadIfCommitted(Hosted& hosted, int64_t high_watermark);
  Hosted* FindHosted(const PartitionId& id);
  // By the topic's name: nothing if there is no such topic, or partition.
  std::optional<PartitionId> FindPartition(const std::string& topic, int32_t partition) const;
  const replication::TopicState* FindTopic(const std::string& topic) const;
  // The partition, if this broker leads it; otherwise why not. `epoch`: what the client knows, -1
  // if it does not say (KIP-320).
  struct Led {
    ErrorCode error = ErrorCode::kNone;
    Hosted* hosted = nullptr;
    const replication::Partition* partition = nullptr;
  };
  Led FindLed(const std::string& topic, int32_t partition, int32_t epoch);
  uint64_t NextReadId() { return kReadIds | ++last_read_; }

  // ---- Produce (produce.cc).

  struct ProduceCall {
    ProduceResponse response;
    // To which the records of the partitions that are left may be decompressed, all together: this
    // happens on the one thread, and nobody else has it meanwhile.
    size_t decompressed_bytes_left = 0;
    size_t left = 0;
    bool silent = false;  // acks=0
    bool failed = false;
  };
  // One partition of one Produce request, or a group coordinator's append.
  struct ProducePart {
    CallId call = 0;  // 0: of the group coordinator
    size_t topic = 0;
    size_t partition = 0;
    uint64_t append = 0;  // of the group coordinator
  };
  void Handle(CallId call, ProduceRequest&& request);
  void NoteRefused(const std::string& topic, const ProduceRequest::Partition& from);
  void ProduceOne(const ProduceRequest& request, int16_t version, const std::string& topic,
                  const ProduceRequest::Partition& from, uint64_t produce,
                  size_t* decompressed_bytes_left, ProduceResponse::Partition* to);
  void OnProduceDone(const PartitionId& partition,
                     const replication::PartitionOutput::ProduceDone& done);
  void FinishPart(uint64_t produce, ErrorCode error, int64_t base_offset);
  void FinishProduce(CallId call);
  void ExpireDuplicates();
  size_t BatchBytesMax(const std::string& topic) const;

  // ---- Fetch (fetch.cc).

  // A partition of a fetch that is being read.
  struct FetchRead {
    uint64_t id = 0;
    size_t topic = 0;
    size_t partition = 0;
    replication::LeaderEpoch epoch;
    uint64_t bytes_max = 0;
    std::optional<storage::LogReadDone> done;
  };
  struct FetchCall {
    FetchRequest request;
    FetchResponse response;
    Instant deadline;
    bool started = false;
    size_t topic = 0;  // what is read next
    size_t partition = 0;
    std::deque<FetchRead> reads;  // in the order of the request
    uint64_t reserved = 0;        // bytes that they may bring
    uint64_t bytes = 0;           // of the response so far
    uint64_t kept = 0;            // of the request
    // An error, where histories part, or more than was read: it does not wait.
    bool news = false;
    std::vector<PartitionId> parked_at;
  };
  void Handle(CallId call, FetchRequest&& request);
  void StartFetch(CallId call);
  void ContinueFetch(CallId call);
  void WakeFetch(CallId call);
  void OnFetchRead(CallId call, const storage::LogReadDone& done);
  void FetchNext(CallId call);
  // False: not before what is being read has come.
  bool FetchOne(CallId call, FetchCall& fetch);
  void TakeRead(FetchCall& fetch, const FetchRead& read);
  uint64_t FetchBytesMax(const FetchCall& fetch) const;
  // Tells the connection what the fetch holds.
  void CountFetch(CallId call, const FetchCall& fetch);
  void EndFetchRound(CallId call);
  void Unpark(CallId call, FetchCall& fetch);

  // ---- Offsets (offsets.cc).

  struct ListOffsetsPart {
    CallId call = 0;
    size_t topic = 0;
    size_t partition = 0;
    PartitionId id;
    storage::LogNumber log;
    int64_t timestamp = 0;
    int16_t version = 0;
  };
  struct ListOffsetsCall {
    ListOffsetsResponse response;
    size_t left = 0;
    std::deque<ListOffsetsPart> searches;  // not begun
  };
  void Handle(CallId call, ListOffsetsRequest&& request);
  void StartSearches();
  void TakeSearch(const storage::LogSearchDone& done);
  void FinishListOffsets(CallId call);
  void OnListOffsetsSearched(const ListOffsetsPart& part, const storage::LogSearchDone& done);
  void Handle(CallId call, OffsetForLeaderEpochRequest&& request);
  void Handle(CallId call, DeleteRecordsRequest&& request);
  void Handle(CallId call, DescribeLogDirsRequest&& request);

  // ---- Metadata (metadata_requests.cc).

  void Handle(CallId call, ApiVersionsRequest&& request);
  void Handle(CallId call, MetadataRequest&& request);
  void Handle(CallId call, DescribeClusterRequest&& request);
  void Handle(CallId call, FindCoordinatorRequest&& request);
  void Handle(CallId call, InitProducerIdRequest&& request);
  void AnswerProducerIds();
  // Asks for the topic to be made, unless that is under way.
  void CreateImplicitly(const std::string& topic, int32_t partitions, int32_t replicas);
  static std::map<std::string, std::string> OffsetsTopicConfigs();
  bool KnowsCluster() const;
  int32_t ControllerId() const;
  int32_t OffsetsReplicas() const;
  FindCoordinatorResponse::Coordinator FindCoordinator(const std::string& key, int8_t key_type);

  // ---- Topics (topic_requests.cc). Each waits for one answer of the broker per element.

  struct AdminCall {
    std::variant<CreateTopicsResponse, DeleteTopicsResponse, CreatePartitionsResponse,
                 AlterConfigsResponse, IncrementalAlterConfigsResponse, ElectLeadersResponse,
                 AlterPartitionReassignmentsResponse>
        response;
    size_t left = 0;
  };
  struct AdminPart {
    CallId call = 0;  // 0: nobody waits for it; `topic` was to be made
    size_t index = 0;
    size_t inner = 0;
    std::string topic;
  };
  void Handle(CallId call, CreateTopicsRequest&& request);
  void Handle(CallId call, DeleteTopicsRequest&& request);
  void Handle(CallId call, CreatePartitionsRequest&& request);
  void Handle(CallId call, DescribeConfigsRequest&& request);
  void Handle(CallId call, AlterConfigsRequest&& request);
  void Handle(CallId call, IncrementalAlterConfigsRequest&& request);
  void Handle(CallId call, ElectLeadersRequest&& request);
  void Handle(CallId call, AlterPartitionReassignmentsRequest&& request);
  void Handle(CallId call, ListPartitionReassignmentsRequest&& request);
  void Ask(AdminPart part, replication::AdminRequest request, int32_t timeout_ms);
  void OnAdminDone(const replication::BrokerOutput::AdminDone& done);
  // One of its elements has ended.
  void FinishAdminElement(CallId call);

  // ---- Configuration (config_requests.cc).

  void DescribeTopic(const DescribeConfigsRequest& request, const DescribeConfigsRequest::Resource&,
                     DescribeConfigsResponse::Resource* to);
  void DescribeBroker(const DescribeConfigsRequest& request,
                      const DescribeConfigsRequest::Resource&,
                      DescribeConfigsResponse::Resource* to);
  // What the broker has for a key of the configuration file.
  std::string BrokerConfig(std::string_view key) const;

  // ---- Groups (group_requests.cc).

  template <typename Request>
  void HandleGroup(CallId call, Request&& request) {
    TakeGroupRequest(call, std::move(request));
  }
  void TakeGroupRequest(CallId call, GroupRequest request);
  // Of a commit, the partitions that do not exist: refused, and taken out of the request.
  void RefuseUnknownPartitions(CallId call, OffsetCommitRequest& request);
  void CarryGroups();
  void AppendForGroups(const GroupsOutput::Append& append);

  const FrontEndOptions options_;
  replication::Broker& broker_;
  Groups groups_;

  Instant now_;
  FrontEndOutput* output_ = nullptr;
  replication::BrokerOutput* broker_output_ = nullptr;
  int64_t unix_ms_at_zero_ = 0;
  int64_t UnixMs() const { return unix_ms_at_zero_ + now_.ns / 1'000'000; }

  std::map<ConnectionId, Connection> connections_;
  std::set<ConnectionId> waiting_;  // paused ones
  absl::flat_hash_map<CallId, Call> calls_;
  CallId last_call_ = 0;
  uint64_t bytes_received_ = 0;
  uint64_t bytes_sent_ = 0;
  uint64_t held_bytes_ = 0;  // of all connections
  bool resume_ = false;      // memory is free again: those that are paused go on with the next turn
  // A turn is what happens between two calls of OnWake; the rest of the server has its own in
  // between. What this one may still decompress, and, in their order, connections whose next
  // request may decompress more, and batches that have been found.
  size_t work_left_ = kTurnBytes;
  std::deque<std::variant<ConnectionId, storage::LogSearchDone>> next_turn_;
  Instant idle_sweep_;

  std::map<PartitionId, Hosted> hosted_;
  absl::flat_hash_map<uint64_t, PartitionId> logs_;  // by LogNumber
  uint64_t last_read_ = 0;
  std::map<uint64_t, Scan> scans_;                           // by read id
  absl::flat_hash_map<uint64_t, CallId> fetch_reads_;        // by read id
  absl::flat_hash_map<uint64_t, ListOffsetsPart> searches_;  // under way, by read id
  // Calls with searches that have not begun: each begins one, and goes to the end.
  std::deque<CallId> searching_;
  Instant producers_sweep_;

  uint64_t last_produce_ = 0;
  absl::flat_hash_map<uint64_t, ProducePart> produce_parts_;
  absl::flat_hash_map<CallId, ProduceCall> produces_;
  std::set<std::pair<Instant, PartitionId>> duplicate_deadlines_;
  std::map<CallId, FetchCall> fetches_;
  std::set<std::pair<Instant, CallId>> fetch_deadlines_;
  absl::flat_hash_map<CallId, ListOffsetsCall> list_offsets_;
  uint64_t last_admin_ = 0;
  absl::flat_hash_map<uint64_t, AdminPart> admin_parts_;
  absl::flat_hash_map<CallId, AdminCall> admins_;
  std::set<std::string> being_created_;
  std::deque<CallId> producer_id_calls_;
  GroupsOutput groups_out_;
  // Answers to DescribeLogDirs that lack the sizes of the logs, in the order of the partitions.
  std::map<CallId, DescribeLogDirsResponse> log_dirs_;
  // What RefuseUnknownPartitions took out, until the rest is answered.
  std::map<CallId, std::vector<OffsetCommitResponse::Topic>> refused_commits_;
};

}  // namespace lockstep::kafka
