// Names and formats of the files of partition logs: Kafka's own (storage/internals/log,
// storage/internals/checkpoint). Numbers in index files are big-endian.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/bytes.h"
#include "core/storage/partition_log.h"

namespace lockstep::storage {

inline constexpr char kEpochsFile[] = "leader-epoch-checkpoint";
inline constexpr char kMetadataFile[] = "partition.metadata";
inline constexpr char kHighWatermarksFile[] = "replication-offset-checkpoint";
inline constexpr char kRecoveryPointsFile[] = "recovery-point-offset-checkpoint";
inline constexpr char kLogStartsFile[] = "log-start-offset-checkpoint";
inline constexpr char kCleanShutdownFile[] = ".kafka_cleanshutdown";
inline constexpr char kPropertiesFile[] = "meta.properties";
// A file in the making; it gets its name when it is whole.
inline constexpr char kTemporarySuffix[] = ".tmp";
inline constexpr char kDeletedSuffix[] = "-delete";
inline constexpr char kStraySuffix[] = "-stray";

// `<topic>-<partition>`.
std::string LogDirectoryName(std::string_view topic, int32_t partition);
// What it is called while it is removed: `<topic>-<partition>.<unique>-delete`, the topic cut so
// that a file system takes it.
std::string DeletedDirectoryName(std::string_view topic, int32_t partition, uint64_t unique);

// What a directory that is in the way of a new log is called.
std::string StrayDirectoryName(std::string_view topic, int32_t partition, uint64_t unique);

enum class LogFileKind : uint8_t { kLog, kIndex, kTimeIndex, kSnapshot };
// 20 decimal digits and the suffix. Requires: base >= 0.
std::string LogFileName(int64_t base, LogFileKind kind);
struct ParsedLogFile {
  int64_t base = 0;
  LogFileKind kind = LogFileKind::kLog;
};
std::optional<ParsedLogFile> ParseLogFileName(std::string_view name);

// version, number of lines, "epoch offset".
Bytes EncodeEpochs(const std::vector<EpochStart>& epochs);
absl::StatusOr<std::vector<EpochStart>> DecodeEpochs(std::string_view text);

// version, number of lines, "topic partition offset". Where what was said of a topic must not be
// believed of a later one of its name, there is a second line with TopicIdName instead, which no
// topic can have, and which Kafka's tools pass over. So they do with the last line, which has the
// checksum of what is before it: a digit that has changed would be an offset like any other.
std::string TopicIdName(const Uuid& topic_id);
struct PartitionOffset {
  std::string topic;
  int32_t partition = 0;
  int64_t offset = 0;
  bool operator==(const PartitionOffset&) const = default;
};
Bytes EncodeOffsets(const std::vector<PartitionOffset>& offsets);
// DataLoss: these are not such lines, or not those that were written. Without the last line, the
// checksum, which Kafka does not write, and earlier builds did not, the others are believed.
absl::StatusOr<std::vector<PartitionOffset>> DecodeOffsets(std::string_view text);

Bytes EncodeMetadata(const Uuid& topic_id);

// Of the directory of all logs: whose it is. Kafka's `meta.properties`, versions 0 (broker.id) and
// 1 (node.id), and our durability, which Kafka does not look at.
struct DirectoryProperties {
  int32_t broker = -1;
  std::optional<Durability> durability;
  std::string cluster_id;  // empty: not known yet
  bool operator==(const DirectoryProperties&) const = default;
};
// Letters, digits, - and _, at least one and at most 64.
bool IsClusterId(std::string_view text);
// Requires: the cluster's id is one, or empty.
Bytes EncodeProperties(const DirectoryProperties& properties);
// DataLoss: these are not such properties; Unimplemented: of a later version.
absl::StatusOr<DirectoryProperties> DecodeProperties(std::string_view text);

// An empty file in a log's directory: the log, by its number, that the directory is of. (Another
// log of the same partition had the same directory before.)
inline constexpr char kOwnerPrefix[] = "owner-";
std::string OwnerFileName(LogNumber log);

}  // namespace lockstep::storage
