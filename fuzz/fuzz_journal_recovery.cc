// Recovery on arbitrary journal bytes: it ends in `fatal` or in a state, reads nothing out of
// bounds, and a state that it reports is what the next start finds too, with what was appended
// since.
//
// The first byte chooses how the rest becomes a journal, since checksums stop most mutations: as it
// is, as changes to an intact journal, or as records under right checksums.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/storage/file_names.h"
#include "core/storage/journal_format.h"
#include "tests/support/store_harness.h"

namespace lockstep::storage {
namespace {

const StoreOptions kOptions{.server = {1}, .segment_bytes = 1024, .retained_bytes = 2048};

void Damaged(std::string_view input, StoreHarness* harness) {
  harness->RestartAndRecover();
  LS_CHECK(harness->CheckRecovered().empty());
  harness->Append(AcceptedEpochRecord{{1}});
  for (uint32_t counter = 1; counter <= 30; ++counter) {
    harness->AppendTransaction({{1}, counter}, std::string(counter * 7 % 60, 'x'));
    if (counter % 3 == 0) harness->Flush();
    if (counter % 9 == 0) harness->RunUntilIdle();
  }
  harness->Flush();
  harness->RunUntilIdle();
  const std::vector<std::string> names = harness->disk().Names(Directory::kLog);
  for (; input.size() >= 4; input.remove_prefix(4)) {
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(input[i]); };
    const std::string& name = names[byte(0) % names.size()];
    std::string content = *harness->disk().Get(Directory::kLog, name);
    content[(byte(1) << 8 | byte(2)) % content.size()] = input[3];
    harness->disk().Put(Directory::kLog, name, content);
  }
}

void Sealed(std::string_view input, StoreHarness* harness) {
  const SegmentHeader header{.server = {1}, .sequence = 1};
  std::string file(EncodeSegmentHeader(header).view());
  while (input.size() >= 2) {
    std::vector<Record> records;
    uint64_t bytes = 0;
    for (size_t n = 1 + static_cast<uint8_t>(input[0]) % 4; n > 0 && input.size() >= 2; --n) {
      const uint8_t type = static_cast<uint8_t>(input[0]) >> 2 & 7;
      const size_t size = std::min<size_t>(static_cast<uint8_t>(input[1]) % 32, input.size() - 2);
      const absl::StatusOr<Record> record = DecodeRecord(type, Bytes::Copy(input.substr(2, size)));
      input.remove_prefix(2 + size);
      if (!record.ok()) continue;
      bytes += EncodedBytes(*record);
      records.push_back(*record);
    }
    if (records.empty()) continue;
    file.resize(AlignBatch(file.size()), '\0');
    for (const Bytes& slice : EncodeBatch(header.Seed(), file.size(), records, bytes)) {
      file += slice.view();
    }
  }
  harness->disk().Put(Directory::kLog, FileName(FileKind::kJournal, 1), file);
}

}  // namespace
}  // namespace lockstep::storage

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;           // NOLINT: a fuzz target has no header to spoil
  using namespace lockstep::storage;  // NOLINT
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  StoreHarness harness(kOptions);
  switch (data[0] % 3) {
    case 0:
      harness.disk().Put(Directory::kLog, FileName(FileKind::kJournal, 1), std::string(input));
      break;
    case 1:
      Damaged(input, &harness);
      break;
    case 2:
      Sealed(input, &harness);
      break;
  }

  harness.RestartAndRecover();
  if (!harness.recovered().has_value()) {
    LS_CHECK(!harness.fatal().empty());
    return 0;
  }
  const Recovered first = *harness.recovered();
  // Not the last transaction: a truncation may have gone to a zxid between two.
  Zxid last;
  for (const Event& event : harness.events()) {
    if (event.kind == EventKind::kRecovered) last = event.zxid;
  }
  const uint64_t torn = harness.CountEvents(EventKind::kTornTail);
  const bool grows = last.counter < UINT32_MAX;
  if (grows) harness.AppendTransaction({last.epoch, last.counter + 1}, "after");
  harness.Flush();
  harness.RunUntilIdle();
  harness.Crash([] { return false; });
  harness.RestartAndRecover();

  LS_CHECK(harness.recovered().has_value());
  const Recovered& second = *harness.recovered();
  LS_CHECK_EQ(harness.CountEvents(EventKind::kTornTail), torn);
  LS_CHECK_EQ(second.accepted_epoch, first.accepted_epoch);
  LS_CHECK_EQ(second.current_epoch, first.current_epoch);
  LS_CHECK_EQ(second.base, first.base);
  LS_CHECK_EQ(second.transactions.size(), first.transactions.size() + (grows ? 1 : 0));
  return 0;
}
