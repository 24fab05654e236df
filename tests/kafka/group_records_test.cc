// Kafka's formats of the records in `__consumer_offsets`, byte by byte.
#include "core/kafka/group_records.h"

#include <gtest/gtest.h>

namespace lockstep::kafka {
namespace {

using std::string_literals::operator""s;

std::string Hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (char byte : bytes) {
    hex += kDigits[static_cast<unsigned char>(byte) >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

template <typename Record>
Record Decoded(const std::string& key, std::optional<std::string_view> value) {
  const absl::StatusOr<GroupRecord> record = DecodeGroupRecord(key, value);
  EXPECT_TRUE(record.ok()) << record.status();
  return record.ok() ? std::get<Record>(*record) : Record();
}

GroupValue AGroup() {
  return {.protocol_type = "consumer",
          .generation = 5,
          .protocol = "range",
          .leader = "m",
          .state_timestamp = 0x0102,
          .members = {{.id = "m",
                       .instance_id = "i",
                       .client_id = "c",
                       .client_host = "/h",
                       .rebalance_timeout_ms = 300,
                       .session_timeout_ms = 10,
                       .subscription = Bytes::Copy("s"),
                       .assignment = Bytes::Copy("as")}}};
}

TEST(GroupRecords, AnOffset) {
  EXPECT_EQ(Hex(EncodeOffsetKey("g", "to", 3)),
            "0001"
            "000167"
            "0002746f"
            "00000003");
  const OffsetValue value = {
      .offset = 17, .leader_epoch = 2, .metadata = "x", .commit_timestamp = 0x0a0b};
  const std::string bytes = EncodeOffsetValue(value);
  EXPECT_EQ(Hex(bytes),
            "0003"
            "0000000000000011"
            "00000002"
            "000178"
            "0000000000000a0b");
  EXPECT_EQ(Decoded<OffsetRecord>(EncodeOffsetKey("g", "to", 3), bytes),
            (OffsetRecord{"g", "to", 3, value}));
}

TEST(GroupRecords, AnOffsetWithAnExpiryOfItsOwn) {
  const OffsetValue value = {.offset = 17, .commit_timestamp = 1, .expire_timestamp = 9};
  const std::string bytes = EncodeOffsetValue(value);
  EXPECT_EQ(Hex(bytes),
            "0001"
            "0000000000000011"
            "0000"
            "0000000000000001"
            "0000000000000009");
  EXPECT_EQ(Decoded<OffsetRecord>(EncodeOffsetKey("g", "t", 0), bytes).value, value);
}

TEST(GroupRecords, OffsetsOfOlderVersions) {
  const std::string key = "\0\0\0\1g\0\1t\0\0\0\0"s;
  const std::string fields = "\0\0\0\0\0\0\0\x11\0\1x\0\0\0\0\0\0\0\1"s;
  const OffsetValue value = {.offset = 17, .metadata = "x", .commit_timestamp = 1};
  EXPECT_EQ(Decoded<OffsetRecord>(key, "\0\0"s + fields).value, value);
  EXPECT_EQ(Decoded<OffsetRecord>(key, "\0\2"s + fields).value, value);
}

TEST(GroupRecords, AGroup) {
  EXPECT_EQ(Hex(EncodeGroupKey("g")),
            "0002"
            "000167");
  const std::string bytes = EncodeGroupValue(AGroup());
  EXPECT_EQ(Hex(bytes),
            "0003"
            "0008636f6e73756d6572"
            "00000005"
            "000572616e6765"
            "00016d"
            "0000000000000102"
            "00000001"
            "00016d"
            "000169"
            "000163"
            "00022f68"
            "0000012c"
            "0000000a"
            "00000001"
            "73"
            "00000002"
            "6173");
  EXPECT_EQ(Decoded<GroupMetadataRecord>(EncodeGroupKey("g"), bytes),
            (GroupMetadataRecord{"g", AGroup()}));
}

TEST(GroupRecords, AnEmptyGroup) {
  const std::string bytes = EncodeGroupValue({.generation = 2, .state_timestamp = 7});
  EXPECT_EQ(Hex(bytes),
            "0003"
            "0000"
            "00000002"
            "ffff"
            "ffff"
            "0000000000000007"
            "00000000");
  EXPECT_EQ(Decoded<GroupMetadataRecord>(EncodeGroupKey("g"), bytes).value->generation, 2);
}

TEST(GroupRecords, GroupsOfOlderVersions) {
  const std::string head = "\0\1c\0\0\0\5\0\1r\0\1m"s;
  const std::string names = "\0\0\0\1\0\1m\0\1c\0\1h"s;
  const std::string tail = "\0\0\0\x0a\0\0\0\1s\0\0\0\1a"s;
  const auto decode = [](const std::string& bytes) {
    return *Decoded<GroupMetadataRecord>(EncodeGroupKey("g"), bytes).value;
  };
  const GroupValue v0 = decode("\0\0"s + head + names + tail);
  EXPECT_EQ(v0.members.at(0).session_timeout_ms, 10);
  EXPECT_EQ(v0.members.at(0).rebalance_timeout_ms, 10);
  const GroupValue v1 = decode("\0\1"s + head + names + "\0\0\0\x0b"s + tail);
  EXPECT_EQ(v1.members.at(0).rebalance_timeout_ms, 11);
  EXPECT_EQ(v1.state_timestamp, -1);
  const GroupValue v2 = decode("\0\2"s + head + "\0\0\0\0\0\0\0\7"s + names + "\0\0\0\x0b"s + tail);
  EXPECT_EQ(v2.state_timestamp, 7);
  EXPECT_EQ(v2.members.at(0).assignment.view(), "a");
}

TEST(GroupRecords, Tombstones) {
  EXPECT_EQ(Decoded<GroupMetadataRecord>(EncodeGroupKey("g"), std::nullopt).value, std::nullopt);
  EXPECT_EQ(Decoded<OffsetRecord>(EncodeOffsetKey("g", "t", 0), std::nullopt).value, std::nullopt);
}

TEST(GroupRecords, KeysOfNewerVersionsAreUnknown) {
  EXPECT_EQ(Decoded<UnknownRecord>("\0\3x"s, "y").key_version, 3);
}

TEST(GroupRecords, WhatIsCutShortIsRefused) {
  EXPECT_FALSE(DecodeGroupRecord(std::nullopt, "x").ok());
  const std::string offset_key = EncodeOffsetKey("g", "t", 0);
  const std::string group_key = EncodeGroupKey("g");
  for (size_t i = 0; i < offset_key.size(); ++i) {
    EXPECT_FALSE(DecodeGroupRecord(offset_key.substr(0, i), std::nullopt).ok()) << i;
  }
  const std::string offset = EncodeOffsetValue({.offset = 1, .metadata = "x"});
  for (size_t i = 0; i < offset.size(); ++i) {
    EXPECT_FALSE(DecodeGroupRecord(offset_key, offset.substr(0, i)).ok()) << i;
  }
  const std::string group = EncodeGroupValue(AGroup());
  for (size_t i = 0; i < group.size(); ++i) {
    EXPECT_FALSE(DecodeGroupRecord(group_key, group.substr(0, i)).ok()) << i;
  }
  EXPECT_FALSE(DecodeGroupRecord(group_key, "\0\4"s + group.substr(2)).ok());
}

}  // namespace
}  // namespace lockstep::kafka
