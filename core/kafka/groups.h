// The group coordinator: consumer groups (the classic protocol: join, sync, heartbeat, leave) and
// their committed offsets, kept in the replicated topic `__consumer_offsets` in Kafka's own record
// formats. One machine per broker; it acts for the partitions of that topic that this broker leads.
//
// A machine is a value: it reads no clock, no socket, no disk, no random device and no global.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/event.h"
#include "core/base/ids.h"
#include "core/base/random.h"
#include "core/base/time.h"
#include "core/kafka/error.h"
#include "core/kafka/messages.h"
#include "core/replication/ids.h"

namespace lockstep::kafka {

inline constexpr char kOffsetsTopic[] = "__consumer_offsets";

// Names as in Kafka's server.properties.
struct GroupsOptions {
  int32_t partitions = 50;         // offsets.topic.num.partitions; fixed once the topic exists
  int32_t replication_factor = 3;  // offsets.topic.replication.factor; at most the live brokers
  int32_t session_timeout_min_ms = 6'000;      // group.min.session.timeout.ms
  int32_t session_timeout_max_ms = 1'800'000;  // group.max.session.timeout.ms
  int32_t initial_rebalance_delay_ms = 3'000;  // group.initial.rebalance.delay.ms
  int32_t group_size_max = 1'000;              // group.max.size
  uint32_t groups_max = 100'000;               // of all that this broker coordinates
  uint32_t group_offsets_max = 100'000;        // of one group, and of one request
  uint32_t metadata_bytes_max = 4096;          // offset.metadata.max.bytes
  uint32_t member_bytes_max = 1 << 20;         // of one member's metadata or assignment
  uint32_t member_protocols_max = 64;
  // Of one batch for the offsets topic, as message.max.bytes: a group's members with what each sent
  // and was assigned, or the offsets of one commit.
  uint32_t batch_bytes_max = 1'048'588;
  int64_t retention_ms = int64_t{7} * 24 * 3600 * 1000;  // offsets.retention.minutes
};

// Names a request until it is answered. Chosen by the caller.
struct GroupRequestId {
  uint64_t value = 0;
  constexpr auto operator<=>(const GroupRequestId&) const = default;
};

using GroupRequest =
    std::variant<JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest,
                 OffsetCommitRequest, OffsetFetchRequest, DescribeGroupsRequest, ListGroupsRequest,
                 DeleteGroupsRequest, OffsetDeleteRequest>;
using GroupResponse =
    std::variant<JoinGroupResponse, SyncGroupResponse, HeartbeatResponse, LeaveGroupResponse,
                 OffsetCommitResponse, OffsetFetchResponse, DescribeGroupsResponse,
                 ListGroupsResponse, DeleteGroupsResponse, OffsetDeleteResponse>;

struct GroupsOutput {
  struct Reply {
    GroupRequestId id;
    GroupResponse response;
  };
  std::vector<Reply> replies;
  // A batch for the offsets topic, with acks=all and in this leader epoch only; answered by
  // OnAppended. (Base offset and epoch are the broker's to fill in.)
  struct Append {
    uint64_t id = 0;
    int32_t partition = 0;
    replication::LeaderEpoch epoch;
    Bytes batch;
    int32_t records = 0;
  };
  std::vector<Append> appends;
  std::vector<Event> events;
  void Clear();
};

class Groups {
 public:
  Groups(const GroupsOptions& options, RandomStream random);
  ~Groups();

  void SetWallClock(Instant now, int64_t unix_ms);
  // How many partitions the offsets topic has; 0: it does not exist yet.
  void SetPartitions(int32_t partitions);
  // Which partition of the offsets topic a group's state is in: Kafka's hash (String.hashCode of
  // the group id, made non-negative, modulo), so that clients and tools agree.
  static int32_t PartitionOf(std::string_view group, int32_t partitions);

  // ---- The offsets topic. This broker became leader of the partition: its log is read from the
  // ---- start to the end it has now, before any request for its groups is taken (they get
  // ---- COORDINATOR_LOAD_IN_PROGRESS).
  void OnLoadBegin(Instant now, int32_t partition, replication::LeaderEpoch epoch);
  // Whole batches, in order.
  void OnLoadBatches(Instant now, int32_t partition, const Bytes& batches, GroupsOutput* output);
  void OnLoadEnd(Instant now, int32_t partition, GroupsOutput* output);
  // Not leader any more: what waits is answered NOT_COORDINATOR, all state of it is dropped,
  // and OnAppended() for what was under way does nothing.
  void OnResigned(Instant now, int32_t partition, GroupsOutput* output);
  // kNone: committed. Else it is not known to be, and the request fails accordingly.
  void OnAppended(Instant now, uint64_t append, ErrorCode error, GroupsOutput* output);

  // ---- Requests. `version` is the request's; `client_id`, `client_host` are for DescribeGroups.
  void OnRequest(Instant now, GroupRequestId id, int16_t version, const GroupRequest& request,
                 const std::string& client_id, const std::string& client_host,
                 GroupsOutput* output);
  // The connection of a waiting request is gone: no reply is wanted (the member stays until its
  // session ends).
  void OnRequestGone(GroupRequestId id);

  void OnWake(Instant now, GroupsOutput* output);
  Instant next_deadline() const;

  size_t count() const;  // of the groups that this broker coordinates

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::kafka
