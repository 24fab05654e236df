// Recovery of partition logs from arbitrary journals and files: it ends in `fatal` or in logs; what
// it reports of a log holds together, is read without a crash, takes appends, and is what the next
// start finds.
//
// The first byte chooses the durability and how the rest becomes files, since checksums stop most
// mutations: changes to what a server has left, or a journal of records under right checksums
// beside segment files of whole batches.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/storage/file_names.h"
#include "core/storage/journal_format.h"
#include "tests/support/log_harness.h"

namespace lockstep::storage {
namespace {

StoreOptions Options(Durability durability) {
  StoreOptions options{.server = {1}, .segment_bytes = 2048, .retained_bytes = 0};
  options.logs = LogOptions{.durability = durability,
                            .segment_bytes = 400,
                            .index_interval_bytes = 100,
                            .cache_bytes = 200,
                            .journal_bytes_max = 4096};
  return options;
}

// Zeros when there is nothing left.
class Input {
 public:
  explicit Input(std::string_view bytes) : rest_(bytes) {}
  bool empty() const { return rest_.empty(); }
  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const uint8_t byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }
  // Small ones mostly, and those at the ends of the range.
  int64_t Offset() {
    const uint8_t byte = Byte();
    if (byte == 255) return INT64_MAX;
    if (byte == 254) return -1;
    if (byte == 253) return INT64_MAX - Byte();
    return byte % 64;
  }
  std::string_view Bytes(size_t size) {
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(bytes.size());
    return bytes;
  }

 private:
  std::string_view rest_;
};

constexpr const char* kTopics[] = {"a", "b", "a-0"};
constexpr const char* kFiles[] = {"leader-epoch-checkpoint",        "partition.metadata",
                                  "00000000000000000000.log",       "00000000000000000000.index",
                                  "00000000000000000000.timeindex", "00000000000000000007.log",
                                  "00000000000000000007.snapshot",  "09223372036854775807.log",
                                  "00000000000000000007.log.tmp"};
constexpr const char* kRootFiles[] = {kHighWatermarksFile, kRecoveryPointsFile, kLogStartsFile,
                                      kCleanShutdownFile};

std::string BatchText(Input* input) {
  const int64_t base = std::max<int64_t>(0, input->Offset());
  const int32_t epoch = input->Byte() % 8;
  const int32_t count = 1 + input->Byte() % 4;
  if (base > INT64_MAX - count) return "";
  return std::string(MakeBatch(base, epoch, count, input->Byte() % 64, 1000).Join().view());
}

std::vector<std::pair<Directory, std::string>> AllFiles(const LogHarness& harness) {
  std::vector<std::pair<Directory, std::string>> files;
  for (const Directory directory : {Directory::kLog, Directory::kLogs}) {
    for (const std::string& name : harness.disk().Names(directory)) {
      if (harness.disk().IsSubdirectory(directory, name)) {
        for (const std::string& file : harness.disk().Names(directory, name)) {
          files.emplace_back(directory, name + "/" + file);
        }
      } else {
        files.emplace_back(directory, name);
      }
    }
  }
  return files;
}

// What a server has left, cleanly or not, and then the changes.
void Damaged(Input* input, LogHarness* harness) {
  harness->RestartAndRecover();
  LS_CHECK(harness->CheckRecovered().empty());
  const LogNumber a = harness->Create("a", 0);
  const LogNumber b = harness->Create("b", 1, {3, 4}, 50);
  for (int i = 0; i < 8; ++i) {
    harness->Append(a, 1 + i / 3, 1 + i % 2, 40);
    harness->Append(b, 1 + i / 4, 1, 20);
    if (i % 3 == 0) harness->Flush();
    if (i % 5 == 0) harness->RunUntilIdle();
    if (i == 4) harness->Snapshot(a, harness->Now().logs.at(a).extent.end);
    if (i == 6) harness->Do(a, LogTruncate{6});  // where a batch begins
  }
  harness->Do(b, LogStart{52});
  harness->Delete(harness->Create("a-0", 0));
  harness->Flush();
  harness->RunUntilIdle();
  if (input->Byte() % 2 == 1) {
    harness->MarkClean();
    harness->RunUntilIdle();
  }
  harness->Kill();
  const std::vector<std::pair<Directory, std::string>> files = AllFiles(*harness);
  while (!input->empty()) {
    const auto& [directory, name] = files[input->Byte() % files.size()];
    const std::optional<std::string> was = harness->disk().Get(directory, name);
    if (!was.has_value()) continue;
    std::string content = *was;
    const uint8_t how = input->Byte();
    const size_t at = static_cast<size_t>(input->Byte() << 8 | input->Byte());
    if (how % 8 == 0) {
      harness->disk().Remove(directory, name);
      continue;
    }
    if (how % 8 == 1) {
      content.resize(at % (content.size() + 16));
    } else if (how % 8 == 2) {
      content += input->Bytes(at % 64);
    } else if (!content.empty()) {
      content[at % content.size()] = static_cast<char>(input->Byte());
    }
    harness->disk().Put(directory, name, content);
  }
}

Record MakeRecord(Input* input) {
  const LogNumber log{input->Byte() % 4u};
  switch (input->Byte() % 9) {
    case 0:
    case 1:
      return LogCreatedRecord{log,
                              kTopics[input->Byte() % std::size(kTopics)],
                              input->Byte() % 2,
                              {1, 2},
                              input->Offset()};
    case 2:
      return LogDeletedRecord{log};
    case 3:
      return LogChangeRecord{log, LogTruncate{input->Offset()}};
    case 4:
      return LogChangeRecord{log, LogEpoch{{input->Byte() % 8, input->Offset()}}};
    case 5:
      return LogChangeRecord{log, LogStart{input->Offset()}};
    case 6:
      return input->Byte() % 2 == 0 ? Record(BrokerEpochRecord{input->Offset()})
                                    : Record(LogTableRecord{Bytes::Copy(input->Bytes(80))});
    default: {
      const int64_t base = input->Offset();
      const std::string batches = BatchText(input) + (input->Byte() % 2 ? BatchText(input) : "");
      const int64_t end =
          base + (base < 0 ? 0 : std::min<int64_t>(input->Byte() % 8, INT64_MAX - base));
      return LogChangeRecord{log, LogAppend{{Bytes::Copy(batches)}, base, end}};
    }
  }
}

// Through the decoder, as recovery sees it: what that refuses is not a record.
std::optional<Record> Decoded(const SegmentHeader& header, const Record& record) {
  std::string text;
  for (const Bytes& slice : EncodeBatch(header.Seed(), 80, {&record, 1}, EncodedBytes(record))) {
    text += slice.view();
  }
  const std::string_view whole = std::string_view(text).substr(kBatchHeaderBytes);
  const absl::StatusOr<Record> decoded =
      DecodeRecord(DecodeRecordHeader(whole).type, Bytes::Copy(whole.substr(kRecordHeaderBytes)));
  return decoded.ok() ? std::optional(*decoded) : std::nullopt;
}

void Sealed(Input* input, LogHarness* harness) {
  const SegmentHeader header{.server = {1}, .sequence = 1};
  std::string journal(EncodeSegmentHeader(header).view());
  // Logs without it are refused, whatever else there is.
  const DirectoryProperties properties{.broker = Options(Durability::kFsync).logs->broker};
  harness->disk().Put(Directory::kLogs, kPropertiesFile,
                      std::string(EncodeProperties(properties).view()));
  while (!input->empty()) {
    const uint8_t what = input->Byte();
    if (what % 4 == 3) {
      std::string content;
      for (int n = input->Byte() % 4; n > 0; --n) content += BatchText(input);
      content += input->Bytes(input->Byte() % 32);
      const std::string directory = std::string(kTopics[input->Byte() % std::size(kTopics)]) + "-0";
      harness->disk().Put(Directory::kLogs,
                          what % 8 == 3
                              ? directory + "/" + kFiles[input->Byte() % std::size(kFiles)]
                              : std::string(kRootFiles[input->Byte() % std::size(kRootFiles)]),
                          content);
      continue;
    }
    const std::optional<Record> record = Decoded(header, MakeRecord(input));
    if (!record.has_value()) continue;
    journal.resize(AlignBatch(journal.size()), '\0');
    for (const Bytes& slice :
         EncodeBatch(header.Seed(), journal.size(), {&*record, 1}, EncodedBytes(*record))) {
      journal += slice.view();
    }
  }
  harness->disk().Put(Directory::kLog, FileName(FileKind::kJournal, 1), journal);
}

void CheckHoldsTogether(const std::vector<RecoveredLog>& logs) {
  LogNumber last;
  for (const RecoveredLog& log : logs) {
    LS_CHECK(log.log > last);
    last = log.log;
    LS_CHECK(IsTopicName(log.topic));
    LS_CHECK_GE(log.start, 0);
    LS_CHECK_LE(log.start, log.end);
    LS_CHECK_LE(log.high_watermark, log.end);
    for (size_t i = 0; i + 1 < log.epochs.size(); ++i) {
      LS_CHECK_LT(log.epochs[i].epoch, log.epochs[i + 1].epoch);
      LS_CHECK_LT(log.epochs[i].start, log.epochs[i + 1].start);
    }
    LS_CHECK(log.epochs.empty() || log.epochs.back().start <= log.end);
    LS_CHECK_LE(log.producer_snapshot_offset, log.end);
    int64_t next = 0;
    for (const Bytes& bytes : log.batch_headers) {
      const records::BatchHeader header = records::HeaderOf({bytes, Bytes()});
      LS_CHECK_GE(header.base_offset, next);
      next = header.next_offset();
      LS_CHECK_GT(next, log.producer_snapshot_offset);
      LS_CHECK_LE(next, log.end);
    }
  }
}

}  // namespace
}  // namespace lockstep::storage

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;           // NOLINT: a fuzz target has no header to spoil
  using namespace lockstep::storage;  // NOLINT
  if (size == 0) return 0;
  Input input({reinterpret_cast<const char*>(data) + 1, size - 1});
  const bool flush = data[0] % 2 == 1;
  LogHarness harness(Options(flush ? Durability::kFlush : Durability::kFsync));
  if (data[0] / 2 % 2 == 0) {
    Damaged(&input, &harness);
  } else {
    Sealed(&input, &harness);
  }

  harness.RestartAndRecover();
  if (!harness.recovered().has_value()) {
    LS_CHECK(!harness.fatal().empty());
    return 0;
  }
  harness.AdoptRecovered();
  const std::vector<RecoveredLog> first = harness.recovered()->logs;
  CheckHoldsTogether(first);
  for (const RecoveredLog& log : first) {
    // Trusted segments are not read by recovery: damage may come up here. It is the reader's.
    harness.ReadAll(log.log, log.start, log.end);
    harness.Search(log.log, 1000);
  }
  harness.RunUntilIdle();
  LS_CHECK(harness.fatal().empty());
  for (const RecoveredLog& log : first) {
    if (log.end > INT64_MAX - 8) continue;
    const int32_t epoch = log.epochs.empty() ? 1 : log.epochs.back().epoch;
    harness.Append(log.log, std::min(epoch, INT32_MAX - 1) + 1, 2, 30);
  }
  harness.Flush();
  harness.RunUntilIdle();
  LS_CHECK(harness.fatal().empty());
  const LogHarness::State expected = harness.Now();
  harness.Kill();
  harness.RestartAndRecover();
  LS_CHECK(harness.recovered().has_value());
  const std::vector<RecoveredLog>& second = harness.recovered()->logs;
  CheckHoldsTogether(second);
  LS_CHECK_EQ(second.size(), first.size());
  for (const RecoveredLog& log : second) {
    const LogExtent& extent = expected.logs.at(log.log).extent;
    LS_CHECK_EQ(log.start, extent.start);
    LS_CHECK_EQ(log.end, extent.end);
    LS_CHECK(log.epochs == extent.epochs);
  }
  return 0;
}
