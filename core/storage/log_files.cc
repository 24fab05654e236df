#include "core/storage/log_files.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>

#include "absl/status/status.h"
#include "core/base/check.h"
#include "core/base/crc32c.h"
#include "core/storage/log_table.h"

namespace lockstep::storage {
namespace {

constexpr size_t kDigits = 20;
constexpr char kTopicIdMark = '#';
constexpr std::string_view kChecksumLine = "#crc32c 0 ";
constexpr std::string_view kSuffixes[] = {".log", ".index", ".timeindex", ".snapshot"};
constexpr size_t kNameBytesMax = 255;
constexpr std::string_view kDurabilityKey = "lockstep.durability";
constexpr std::string_view kDurabilities[] = {"fsync", "flush"};

size_t Index(Durability durability) { return static_cast<size_t>(durability); }

absl::Status WrongCheckpoint() { return absl::DataLossError("no checkpoint file"); }

// Lines of words, with one blank between two words.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}

  // The next word of the line; empty if there is none.
  std::string_view Word() {
    const std::string_view word =
        rest_.substr(0, std::min(rest_.find_first_of(" \n"), rest_.size()));
    rest_.remove_prefix(word.size());
    if (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
    return word;
  }
  template <typename T>
  bool Number(T* value) {
    const std::string_view word = Word();
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), *value);
    return error == std::errc() && end == word.data() + word.size() && !word.empty();
  }
  bool EndLine() {
    if (rest_.empty() || rest_.front() != '\n') return false;
    rest_.remove_prefix(1);
    return true;
  }
  size_t left() const { return rest_.size(); }

 private:
  std::string_view rest_;
};

// Both first lines. Nothing: no such file.
std::optional<size_t> TakeHead(Lines* lines) {
  int version = -1;
  size_t count = 0;
  if (!lines->Number(&version) || version != 0 || !lines->EndLine()) return std::nullopt;
  if (!lines->Number(&count) || !lines->EndLine()) return std::nullopt;
  // Each line has two bytes at least: more cannot be there.
  if (count > lines->left() / 2) return std::nullopt;
  return count;
}

std::string UniqueName(std::string_view topic, int32_t partition, uint64_t unique,
                       std::string_view suffix) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string end = "-" + std::to_string(partition) + "." + std::string(16, '0');
  for (int shift = 60; shift >= 0; shift -= 4) end += kHex[(unique >> shift) & 15];
  end += suffix;
  return std::string(topic.substr(0, kNameBytesMax - end.size())) + end;
}

}  // namespace

std::string LogDirectoryName(std::string_view topic, int32_t partition) {
  return std::string(topic) + "-" + std::to_string(partition);
}

std::string DeletedDirectoryName(std::string_view topic, int32_t partition, uint64_t unique) {
  return UniqueName(topic, partition, unique, kDeletedSuffix);
}

std::string StrayDirectoryName(std::string_view topic, int32_t partition, uint64_t unique) {
  return UniqueName(topic, partition, unique, kStraySuffix);
}

std::string LogFileName(int64_t base, LogFileKind kind) {
  LS_CHECK_GE(base, 0);
  const std::string digits = std::to_string(base);
  std::string name(kDigits - digits.size(), '0');
  name += digits;
  name += kSuffixes[static_cast<size_t>(kind)];
  return name;
}

std::optional<ParsedLogFile> ParseLogFileName(std::string_view name) {
  if (name.size() <= kDigits) return std::nullopt;
  for (size_t i = 0; i < std::size(kSuffixes); ++i) {
    if (name.substr(kDigits) != kSuffixes[i]) continue;
    int64_t base = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + kDigits, base);
    if (error != std::errc() || end != name.data() + kDigits || base < 0) return std::nullopt;
    return ParsedLogFile{base, static_cast<LogFileKind>(i)};
  }
  return std::nullopt;
}

Bytes EncodeEpochs(const std::vector<EpochStart>& epochs) {
  std::string text = "0\n" + std::to_string(epochs.size()) + "\n";
  for (const EpochStart& epoch : epochs) {
    text += std::to_string(epoch.epoch) + " " + std::to_string(epoch.start) + "\n";
  }
  return Bytes::Copy(text);
}

absl::StatusOr<std::vector<EpochStart>> DecodeEpochs(std::string_view text) {
  Lines lines(text);
  const std::optional<size_t> count = TakeHead(&lines);
  if (!count.has_value()) return WrongCheckpoint();
  std::vector<EpochStart> epochs;
  for (size_t i = 0; i < *count; ++i) {
    EpochStart epoch;
    if (!lines.Number(&epoch.epoch) || !lines.Number(&epoch.start) || !lines.EndLine()) {
      return WrongCheckpoint();
    }
    const bool ascending =
        epochs.empty() || (epochs.back().epoch < epoch.epoch && epochs.back().start < epoch.start);
    if (!ascending || epoch.start < 0) return WrongCheckpoint();
    epochs.push_back(epoch);
  }
  if (lines.left() > 0) return WrongCheckpoint();
  return epochs;
}

std::string TopicIdName(const Uuid& topic_id) { return kTopicIdMark + topic_id.ToString(); }

Bytes EncodeOffsets(const std::vector<PartitionOffset>& offsets) {
  std::string text = "0\n" + std::to_string(offsets.size() + 1) + "\n";
  for (const PartitionOffset& line : offsets) {
    text += line.topic + " " + std::to_string(line.partition) + " " + std::to_string(line.offset);
    text += "\n";
  }
  const uint32_t crc = Crc32c(0, text);
  text.append(kChecksumLine) += std::to_string(crc) + "\n";
  return Bytes::Copy(text);
}

absl::StatusOr<std::vector<PartitionOffset>> DecodeOffsets(std::string_view text) {
  Lines lines(text);
  const std::optional<size_t> count = TakeHead(&lines);
  if (!count.has_value()) return WrongCheckpoint();
  size_t left = *count;
  size_t end = text.size();
  if (const size_t last = text.rfind(kChecksumLine); last != std::string_view::npos) {
    Lines checksum(text.substr(last + kChecksumLine.size()));
    uint32_t crc = 0;
    if (!checksum.Number(&crc) || !checksum.EndLine() || checksum.left() > 0 ||
        crc != Crc32c(0, text.substr(0, last)) || left == 0) {
      return WrongCheckpoint();
    }
    --left;
    end = last;
  }
  std::vector<PartitionOffset> offsets;
  for (; left > 0; --left) {
    PartitionOffset line;
    line.topic = std::string(lines.Word());
    const std::string_view name(line.topic);
    if (!IsTopicName(name.starts_with(kTopicIdMark) ? name.substr(1) : name) ||
        !lines.Number(&line.partition) || !lines.Number(&line.offset) || !lines.EndLine() ||
        line.partition < 0 || line.offset < 0 ||
        line.offset == std::numeric_limits<int64_t>::max()) {
      return WrongCheckpoint();
    }
    offsets.push_back(std::move(line));
  }
  if (lines.left() != text.size() - end) return WrongCheckpoint();
  return offsets;
}

std::string OwnerFileName(LogNumber log) { return kOwnerPrefix + log.ToString(); }

bool IsClusterId(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  });
}

Bytes EncodeProperties(const DirectoryProperties& properties) {
  std::string text = "version=0\nbroker.id=" + std::to_string(properties.broker) + "\n";
  if (!properties.cluster_id.empty()) {
    LS_CHECK(IsClusterId(properties.cluster_id));
    text += "cluster.id=" + properties.cluster_id + "\n";
  }
  if (properties.durability.has_value()) {
    text += std::string(kDurabilityKey) + "=" +
            std::string(kDurabilities[Index(*properties.durability)]) + "\n";
  }
  return Bytes::Copy(text);
}

absl::StatusOr<DirectoryProperties> DecodeProperties(std::string_view text) {
  const auto number = [](std::string_view word, int32_t* value) {
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), *value);
    return error == std::errc() && end == word.data() + word.size() && *value >= 0;
  };
  DirectoryProperties properties;
  int32_t version = -1;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const size_t equals = line.find('=');
    if (line.starts_with('#') || equals == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, equals);
    const std::string_view value = line.substr(equals + 1);
    if (key == "version") {
      if (!number(value, &version)) return absl::DataLossError("the version is no number");
    } else if (key == "broker.id" || key == "node.id") {
      if (!number(value, &properties.broker)) return absl::DataLossError("the id is no number");
    } else if (key == "cluster.id") {
      if (!IsClusterId(value)) return absl::DataLossError("the cluster's id is no name");
      properties.cluster_id = std::string(value);
    } else if (key == kDurabilityKey) {
      const auto* known = std::find(std::begin(kDurabilities), std::end(kDurabilities), value);
      if (known == std::end(kDurabilities)) return absl::DataLossError("an unknown durability");
      properties.durability = static_cast<Durability>(known - std::begin(kDurabilities));
    }
  }
  if (version > 1) return absl::UnimplementedError("version " + std::to_string(version));
  if (version < 0 || properties.broker < 0) {
    return absl::DataLossError("the version or the broker's id is missing");
  }
  return properties;
}

Bytes EncodeMetadata(const Uuid& topic_id) {
  return Bytes::Copy("version: 0\ntopic_id: " + topic_id.ToString() + "\n");
}

}  // namespace lockstep::storage
