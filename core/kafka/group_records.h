// What the group coordinator writes into `__consumer_offsets`, in Kafka's formats, so that its
// tools read our topic, and a cluster may move from one to the other. Facts: OffsetCommitKey.json,
// OffsetCommitValue.json, GroupMetadataKey.json, GroupMetadataValue.json of Apache Kafka.
//
//   key      := version:i16, then
//     0, 1      group:string topic:string partition:i32      an offset
//     2         group:string                                 the members of a group
//   value    := version:i16, then, of an offset,
//               offset:i64 leader_epoch:i32{3+} metadata:string commit_timestamp:i64
//               expire_timestamp:i64{1}
//               or, of a group,
//               protocol_type:string generation:i32 protocol:string? leader:string?
//               state_timestamp:i64{2+} member_count:i32 member*
//   member   := id:string instance_id:string?{3+} client_id:string client_host:string
//               rebalance_timeout:i32{1+} session_timeout:i32 subscription:bytes assignment:bytes
//
// {N+} is in versions from N on. Big-endian; strings have an int16 length, bytes and arrays an
// int32, and -1 is null. A null value is a tombstone: the key is gone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/bytes.h"

namespace lockstep::kafka {

struct OffsetValue {
  int64_t offset = 0;
  int32_t leader_epoch = -1;  // of the last record consumed; -1: not known
  std::string metadata;
  int64_t commit_timestamp = -1;  // milliseconds since 1970
  int64_t expire_timestamp = -1;  // -1: after offsets.retention.minutes
  bool operator==(const OffsetValue&) const = default;
};

struct GroupMemberValue {
  std::string id;
  std::optional<std::string> instance_id;
  std::string client_id;
  std::string client_host;
  int32_t rebalance_timeout_ms = 0;  // in version 0 the session timeout stands for both
  int32_t session_timeout_ms = 0;
  Bytes subscription;  // what the member sent for the protocol that was chosen
  Bytes assignment;
  bool operator==(const GroupMemberValue&) const = default;
};

struct GroupValue {
  std::string protocol_type;
  int32_t generation = 0;
  std::optional<std::string> protocol;
  std::optional<std::string> leader;
  int64_t state_timestamp = -1;  // since when the group is in its state; -1: not known
  std::vector<GroupMemberValue> members;
  bool operator==(const GroupValue&) const = default;
};

struct OffsetRecord {
  std::string group;
  std::string topic;
  int32_t partition = 0;
  std::optional<OffsetValue> value;
  bool operator==(const OffsetRecord&) const = default;
};

struct GroupMetadataRecord {
  std::string group;
  std::optional<GroupValue> value;
  bool operator==(const GroupMetadataRecord&) const = default;
};

// Of a newer Kafka, as those of KIP-848's groups: skipped.
struct UnknownRecord {
  int16_t key_version = 0;
  bool operator==(const UnknownRecord&) const = default;
};

using GroupRecord = std::variant<OffsetRecord, GroupMetadataRecord, UnknownRecord>;

// InvalidArgument for what is no such record: no key, bad bytes, a value of an unknown version.
// Bytes after the last field are ignored, as by Kafka.
absl::StatusOr<GroupRecord> DecodeGroupRecord(std::optional<std::string_view> key,
                                              std::optional<std::string_view> value);

// Of a value: version 3, or 1 if the offset has an expiry of its own, which 3 cannot express.
// Require: strings of at most 32,767 bytes.
std::string EncodeOffsetKey(std::string_view group, std::string_view topic, int32_t partition);
std::string EncodeOffsetValue(const OffsetValue& value);
std::string EncodeGroupKey(std::string_view group);
std::string EncodeGroupValue(const GroupValue& value);

}  // namespace lockstep::kafka
