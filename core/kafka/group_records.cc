#include "core/kafka/group_records.h"

#include <algorithm>
#include <utility>

#include "core/kafka/reader.h"
#include "core/kafka/writer.h"

namespace lockstep::kafka {
namespace {

constexpr int16_t kOffsetKeyVersion = 1;  // 0 has the same fields
constexpr int16_t kGroupKeyVersion = 2;
constexpr int16_t kValueVersionMax = 3;
constexpr int16_t kExpiringOffsetVersion = 1;
// Of a member whose strings are empty, in any version.
constexpr size_t kMemberBytesMin = 18;

std::string Finish(Writer* writer) {
  std::string text;
  for (const Bytes& slice : writer->Finish()) text += slice.view();
  return text;
}

std::string TakeString(Reader* reader) { return reader->ReadString(/*flexible=*/false); }

// Payloads are copied: a slice would keep the whole batch of the log in memory.
Bytes TakeBytes(Reader* reader) { return Bytes::Copy(reader->ReadBytes(false).view()); }

OffsetValue ReadOffsetValue(int16_t version, Reader* reader) {
  OffsetValue value;
  value.offset = reader->ReadInt64();
  if (version >= 3) value.leader_epoch = reader->ReadInt32();
  value.metadata = TakeString(reader);
  value.commit_timestamp = reader->ReadInt64();
  if (version == kExpiringOffsetVersion) value.expire_timestamp = reader->ReadInt64();
  return value;
}

GroupMemberValue ReadMember(int16_t version, Reader* reader) {
  GroupMemberValue member;
  member.id = TakeString(reader);
  if (version >= 3) member.instance_id = reader->ReadNullableString(false);
  member.client_id = TakeString(reader);
  member.client_host = TakeString(reader);
  if (version >= 1) member.rebalance_timeout_ms = reader->ReadInt32();
  member.session_timeout_ms = reader->ReadInt32();
  if (version == 0) member.rebalance_timeout_ms = member.session_timeout_ms;
  member.subscription = TakeBytes(reader);
  member.assignment = TakeBytes(reader);
  return member;
}

GroupValue ReadGroupValue(int16_t version, Reader* reader) {
  GroupValue value;
  value.protocol_type = TakeString(reader);
  value.generation = reader->ReadInt32();
  value.protocol = reader->ReadNullableString(false);
  value.leader = reader->ReadNullableString(false);
  if (version >= 2) value.state_timestamp = reader->ReadInt64();
  value.members.resize(reader->ReadCount(false, kMemberBytesMin, sizeof(GroupMemberValue)));
  for (GroupMemberValue& member : value.members) member = ReadMember(version, reader);
  return value;
}

// Reads `value`, if there is one, into `to`.
template <typename Value>
absl::Status ReadValue(std::optional<std::string_view> bytes,
                       Value (*read)(int16_t version, Reader* reader), std::optional<Value>* to) {
  if (!bytes.has_value()) return absl::OkStatus();
  Reader reader(Bytes::Copy(*bytes));
  const int16_t version = reader.ReadInt16();
  if (reader.ok() && (version < 0 || version > kValueVersionMax)) {
    return absl::InvalidArgumentError("a value of an unknown version");
  }
  *to = read(version, &reader);
  return reader.status();
}

}  // namespace

absl::StatusOr<GroupRecord> DecodeGroupRecord(std::optional<std::string_view> key,
                                              std::optional<std::string_view> value) {
  if (!key.has_value()) return absl::InvalidArgumentError("a record without a key");
  Reader reader(Bytes::Copy(*key));
  const int16_t version = reader.ReadInt16();
  if (!reader.ok()) return reader.status();
  if (version < 0 || version > kGroupKeyVersion) return UnknownRecord{version};
  if (version == kGroupKeyVersion) {
    GroupMetadataRecord record;
    record.group = TakeString(&reader);
    if (!reader.ok()) return reader.status();
    if (absl::Status status = ReadValue(value, &ReadGroupValue, &record.value); !status.ok()) {
      return status;
    }
    return record;
  }
  OffsetRecord record;
  record.group = TakeString(&reader);
  record.topic = TakeString(&reader);
  record.partition = reader.ReadInt32();
  if (!reader.ok()) return reader.status();
  if (absl::Status status = ReadValue(value, &ReadOffsetValue, &record.value); !status.ok()) {
    return status;
  }
  return record;
}

std::string EncodeOffsetKey(std::string_view group, std::string_view topic, int32_t partition) {
  Writer writer;
  writer.WriteInt16(kOffsetKeyVersion);
  writer.WriteString(false, group);
  writer.WriteString(false, topic);
  writer.WriteInt32(partition);
  return Finish(&writer);
}

std::string EncodeOffsetValue(const OffsetValue& value) {
  const bool expires = value.expire_timestamp >= 0;
  Writer writer;
  writer.WriteInt16(expires ? kExpiringOffsetVersion : kValueVersionMax);
  writer.WriteInt64(value.offset);
  if (!expires) writer.WriteInt32(value.leader_epoch);
  writer.WriteString(false, value.metadata);
  writer.WriteInt64(value.commit_timestamp);
  if (expires) writer.WriteInt64(value.expire_timestamp);
  return Finish(&writer);
}

std::string EncodeGroupKey(std::string_view group) {
  Writer writer;
  writer.WriteInt16(kGroupKeyVersion);
  writer.WriteString(false, group);
  return Finish(&writer);
}

std::string EncodeGroupValue(const GroupValue& value) {
  Writer writer;
  writer.WriteInt16(kValueVersionMax);
  writer.WriteString(false, value.protocol_type);
  writer.WriteInt32(value.generation);
  writer.WriteNullableString(false, value.protocol);
  writer.WriteNullableString(false, value.leader);
  writer.WriteInt64(value.state_timestamp);
  writer.WriteCount(false, value.members.size());
  for (const GroupMemberValue& member : value.members) {
    writer.WriteString(false, member.id);
    writer.WriteNullableString(false, member.instance_id);
    writer.WriteString(false, member.client_id);
    writer.WriteString(false, member.client_host);
    writer.WriteInt32(member.rebalance_timeout_ms);
    writer.WriteInt32(member.session_timeout_ms);
    writer.WriteBytes(false, member.subscription);
    writer.WriteBytes(false, member.assignment);
  }
  return Finish(&writer);
}

}  // namespace lockstep::kafka
