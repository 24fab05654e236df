// Snapshots of producers. The first byte chooses whether the rest is taken as it is, or with a
// version, a CRC and a count that are made right. What is accepted survives being written and read
// again, and a partition that begins with it takes and gives back a batch of each producer.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "core/base/check.h"
#include "core/base/crc32c.h"
#include "core/kafka/producer_snapshot.h"
#include "core/records/big_endian.h"

namespace lockstep::kafka {
namespace {

constexpr int64_t kOffset = 1 << 20;
constexpr size_t kRowBytes = 46;

std::string MadeRight(std::string_view rows) {
  const size_t count = rows.size() / kRowBytes;
  std::string bytes(10, '\0');
  bytes += rows.substr(0, count * kRowBytes);
  records::StoreBe(bytes.data(), int16_t{1});
  records::StoreBe(bytes.data() + 6, static_cast<int32_t>(count));
  records::StoreBe(bytes.data() + 2, Crc32c(0, std::string_view(bytes).substr(6)));
  return bytes;
}

// A batch that the producer may send next.
records::BatchHeader Next(int64_t producer_id, const ProducerEntry& entry) {
  records::BatchHeader header{.producer_id = producer_id, .producer_epoch = entry.epoch};
  header.base_offset = kOffset;
  header.record_count = 1;
  header.base_sequence = 0;
  if (entry.batch_count > 0 && entry.last_batch().last_sequence >= 0) {
    header.base_sequence = records::SequencePlus(entry.last_batch().last_sequence, 1);
  }
  if (entry.open_transaction.has_value()) header.attributes = records::BatchHeader::kTransactional;
  return header;
}

void Use(std::string_view bytes) {
  const auto snapshot = DecodeProducerSnapshot(bytes, kOffset);
  if (!snapshot.ok()) return;
  const Bytes encoded = EncodeProducerSnapshot(*snapshot);
  LS_CHECK(*DecodeProducerSnapshot(encoded.view(), kOffset) == *snapshot);

  ProducerState state({.producers_max = std::numeric_limits<size_t>::max()});
  LS_CHECK(state.LoadSnapshot(Instant{0}, bytes, kOffset).ok());
  LS_CHECK(state.EncodeSnapshot() == encoded);
  for (const auto& [producer_id, entry] : *snapshot) {
    const records::BatchHeader next = Next(producer_id, entry);
    using Kind = ProducerState::Verdict::Kind;
    // It is known already if the sequences of its batches are not in order: a log may be so.
    const Kind kind = state.Check(next).kind;
    LS_CHECK(kind == Kind::kAppend || kind == Kind::kDuplicate);
    state.Appended(Instant{0}, next);
    LS_CHECK(state.Check(next).kind == Kind::kDuplicate);
    LS_CHECK(state.TruncateTo(kOffset));
    LS_CHECK(state.EncodeSnapshot() == encoded);
  }
}

}  // namespace
}  // namespace lockstep::kafka

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep::kafka;  // NOLINT: a fuzz target has no header to spoil
  if (size < 1 || size > 16 * kRowBytes) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  Use(data[0] % 2 == 0 ? std::string(input) : MadeRight(input));
  return 0;
}
