#include "core/wire/replication_codec.h"

#include <flatbuffers/flatbuffers.h>

#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "core/base/check.h"
#include "lockstep_generated.h"

namespace lockstep::wire {
namespace {

using flatbuffers::FlatBufferBuilder;
using replication::ReplicaFetchRequest;
using replication::ReplicaFetchResponse;

// An epoch that no history has: -1 is "none" there.
constexpr int32_t kNotDiverging = -2;

replication::PartitionId ToPartition(uint64_t high, uint64_t low, int32_t partition) {
  return {.topic = {.high = high, .low = low}, .partition = partition};
}

// ---- Encoding ----------------------------------------------------------------------------------

struct Encoder {
  std::vector<Bytes>* out;

  void operator()(const ReplicaFetchRequest& m) const {
    LS_CHECK_LE(m.entries.size(), size_t{replication::kFetchEntriesMax});
    FlatBufferBuilder builder(256 + m.entries.size() * sizeof(schema::FetchEntry));
    schema::FetchEntry* to = nullptr;
    const auto entries = builder.CreateUninitializedVectorOfStructs(m.entries.size(), &to);
    for (const ReplicaFetchRequest::Entry& entry : m.entries) {
      *to++ = schema::FetchEntry(entry.partition.topic.high, entry.partition.topic.low,
                                 entry.fetch_offset, entry.log_start, entry.high_watermark,
                                 entry.partition.partition, entry.leader_epoch.value,
                                 entry.last_fetched_epoch.value, entry.replicas_version);
    }
    builder.Finish(schema::CreateReplicaFetchRequest(
        builder, m.sequence, m.follower.value, m.incarnation.value, m.max_wait_ms, m.max_bytes,
        m.entry_max_bytes, entries, m.partial));
    Append(Kind::kReplicaFetchRequest, builder, {});
  }

  void operator()(const ReplicaFetchResponse& m) const {
    LS_CHECK_LE(m.entries.size(), size_t{replication::kFetchEntriesMax});
    FlatBufferBuilder builder(256 + m.entries.size() * sizeof(schema::FetchedEntry));
    schema::FetchedEntry* to = nullptr;
    const auto entries = builder.CreateUninitializedVectorOfStructs(m.entries.size(), &to);
    std::vector<Bytes> payload;
    for (const ReplicaFetchResponse::Entry& entry : m.entries) {
      uint64_t bytes = 0;
      for (const Bytes& slice : entry.batches) {
        bytes += slice.size();
        payload.push_back(slice);
      }
      LS_CHECK(bytes == 0 || (entry.error == replication::FetchError::kNone && !entry.diverging));
      LS_CHECK_LE(bytes, uint64_t{std::numeric_limits<uint32_t>::max()});
      *to++ = schema::FetchedEntry(entry.partition.topic.high, entry.partition.topic.low,
                                   entry.fetch_offset, entry.high_watermark, entry.log_start,
                                   entry.diverging ? entry.diverging->end : 0,
                                   entry.partition.partition, entry.leader_epoch.value,
                                   entry.diverging ? entry.diverging->epoch.value : kNotDiverging,
                                   static_cast<uint32_t>(bytes), static_cast<uint32_t>(entry.error),
                                   entry.last_fetched_epoch.value);
    }
    builder.Finish(schema::CreateReplicaFetchResponse(builder, m.sequence, entries));
    Append(Kind::kReplicaFetchResponse, builder, std::move(payload));
  }

  void Append(Kind kind, const FlatBufferBuilder& builder, std::vector<Bytes> payload) const {
    out->push_back(FrameStart(static_cast<uint8_t>(kind), builder.GetBufferPointer(),
                              builder.GetSize(), std::span<const Bytes>(payload)));
    for (Bytes& slice : payload) {
      if (!slice.empty()) out->push_back(std::move(slice));
    }
  }
};

// ---- Decoding ----------------------------------------------------------------------------------

absl::Status Bad(const Frame& frame, const std::string& why) {
  return absl::InvalidArgumentError(std::string("bad message ") +
                                    ToString(static_cast<Kind>(frame.kind)) + ": " + why);
}

// A copy of a header at an address that FlatBuffers can read its integers from.
class AlignedHeader {
 public:
  explicit AlignedHeader(const Bytes& header)
      : words_(std::make_unique_for_overwrite<uint64_t[]>((header.size() + 7) / 8)),
        size_(header.size()) {
    std::memcpy(words_.get(), header.data(), size_);
  }
  // Null if the bytes are not such a table: all of ours are flat.
  template <typename Table>
  const Table* Verified() const {
    const auto* bytes = reinterpret_cast<const uint8_t*>(words_.get());
    flatbuffers::Verifier verifier(bytes, size_, /*max_depth=*/2, /*max_tables=*/1);
    if (!verifier.VerifyBuffer<Table>(nullptr)) return nullptr;
    return flatbuffers::GetRoot<Table>(bytes);
  }

 private:
  std::unique_ptr<uint64_t[]> words_;
  size_t size_;
};

// Whether a list's structs stand where their integers can be read: FlatBuffers' verifier (2.0) asks
// for the alignment of the list's length only, and a writer that is not ours may leave it at that;
// so does everybody's with an empty list.
template <typename Struct>
bool IsAligned(const flatbuffers::Vector<const Struct*>* list) {
  return list == nullptr || list->size() == 0 ||
         reinterpret_cast<uintptr_t>(list->Data()) % alignof(Struct) == 0;
}

absl::StatusOr<replication::Message> DecodeRequest(const Frame& frame) {
  const AlignedHeader header(frame.header);
  const auto* table = header.Verified<schema::ReplicaFetchRequest>();
  if (table == nullptr || !IsAligned(table->entries())) return Bad(frame, "malformed header");
  if (!frame.payload.empty()) return Bad(frame, "a payload");
  if (table->follower() < 0) return Bad(frame, "no follower");
  if (table->max_wait_ms() < 0) return Bad(frame, "a negative time");
  ReplicaFetchRequest m;
  m.sequence = table->sequence();
  m.follower = {table->follower()};
  m.incarnation = {table->incarnation()};
  m.max_wait_ms = table->max_wait_ms();
  m.max_bytes = table->max_bytes();
  m.entry_max_bytes = table->entry_max_bytes();
  m.partial = table->partial();
  if (table->entries() == nullptr) return m;
  if (table->entries()->size() > replication::kFetchEntriesMax)
    return Bad(frame, "too many entries");
  m.entries.reserve(table->entries()->size());
  for (const schema::FetchEntry* from : *table->entries()) {
    if (from->partition() < 0 || from->fetch_offset() < 0 || from->log_start() < 0 ||
        from->high_watermark() < 0 || from->leader_epoch() < 0 || from->last_fetched_epoch() < -1) {
      return Bad(frame, "a negative number");
    }
    if (from->log_start() > from->fetch_offset())
      return Bad(frame, "a log that ends before it starts");
    m.entries.push_back(
        {.partition = ToPartition(from->topic_high(), from->topic_low(), from->partition()),
         .leader_epoch = {from->leader_epoch()},
         .fetch_offset = from->fetch_offset(),
         .last_fetched_epoch = {from->last_fetched_epoch()},
         .log_start = from->log_start(),
         .high_watermark = from->high_watermark(),
         .replicas_version = from->replicas_version()});
  }
  return m;
}

absl::StatusOr<replication::Message> DecodeResponse(const Frame& frame) {
  const AlignedHeader header(frame.header);
  const auto* table = header.Verified<schema::ReplicaFetchResponse>();
  if (table == nullptr || !IsAligned(table->entries())) return Bad(frame, "malformed header");
  ReplicaFetchResponse m;
  m.sequence = table->sequence();
  size_t at = 0;
  if (table->entries() != nullptr) {
    if (table->entries()->size() > replication::kFetchEntriesMax) {
      return Bad(frame, "too many entries");
    }
    m.entries.reserve(table->entries()->size());
    for (const schema::FetchedEntry* from : *table->entries()) {
      if (from->partition() < 0 || from->fetch_offset() < 0 || from->log_start() < 0 ||
          from->high_watermark() < 0 || from->leader_epoch() < -1 ||
          from->last_fetched_epoch() < -1 || from->diverging_epoch() < kNotDiverging ||
          from->diverging_end() < 0) {
        return Bad(frame, "a negative number");
      }
      if (from->error() >= static_cast<uint32_t>(replication::FetchError::kCount)) {
        return Bad(frame, "an unknown error");
      }
      ReplicaFetchResponse::Entry entry{
          .partition = ToPartition(from->topic_high(), from->topic_low(), from->partition()),
          .error = static_cast<replication::FetchError>(from->error()),
          .leader_epoch = {from->leader_epoch()},
          .fetch_offset = from->fetch_offset(),
          .last_fetched_epoch = {from->last_fetched_epoch()},
          .high_watermark = from->high_watermark(),
          .log_start = from->log_start(),
          .diverging = std::nullopt,
          .batches = {}};
      if (from->diverging_epoch() != kNotDiverging) {
        entry.diverging = {.epoch = {from->diverging_epoch()}, .end = from->diverging_end()};
      }
      if (from->bytes() > 0) {
        if (entry.error != replication::FetchError::kNone || entry.diverging) {
          return Bad(frame, "batches where there can be none");
        }
        if (from->bytes() > frame.payload.size() - at)
          return Bad(frame, "batches that are not there");
        entry.batches.push_back(frame.payload.Slice(at, from->bytes()));
        at += from->bytes();
      }
      m.entries.push_back(std::move(entry));
    }
  }
  if (at != frame.payload.size()) return Bad(frame, "more batches than entries");
  return m;
}

}  // namespace

void EncodeReplicationMessage(const replication::Message& message, std::vector<Bytes>* out) {
  std::visit(Encoder{out}, message);
}

absl::StatusOr<replication::Message> DecodeReplicationMessage(const Frame& frame) {
  if (frame.header.empty() || frame.header.size() > kBrokerHeaderBytesMax) {
    return Bad(frame, "malformed header");
  }
  switch (static_cast<Kind>(frame.kind)) {
    case Kind::kReplicaFetchRequest:
      return DecodeRequest(frame);
    case Kind::kReplicaFetchResponse:
      return DecodeResponse(frame);
    default:
      return Bad(frame, "not between brokers");
  }
}

}  // namespace lockstep::wire
