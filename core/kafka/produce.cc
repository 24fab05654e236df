// Produce: what clients append.
#include <algorithm>
#include <utility>

#include "core/kafka/front_end_impl.h"
#include "core/kafka/produce_validation.h"
#include "core/records/record_batch.h"
#include "core/replication/topics.h"

namespace lockstep::kafka {
namespace {

constexpr int16_t kOldestBatchVersion = 3;  // before it, messages had another format
// What the records of a request may be decompressed to: the first, and the second for each byte of
// the records as they are sent. Half a second's work, beyond what it takes to receive them.
constexpr size_t kDecompressedBytes = size_t{64} << 20;
constexpr size_t kDecompressedBytesPerByte = 4;

ErrorCode ToErrorCode(replication::ProduceError error) {
  switch (error) {
    case replication::ProduceError::kNone:
      return ErrorCode::kNone;
    case replication::ProduceError::kNotLeader:
      return ErrorCode::kNotLeaderOrFollower;
    case replication::ProduceError::kNotEnoughReplicas:
      return ErrorCode::kNotEnoughReplicas;
    case replication::ProduceError::kNotEnoughReplicasAfterAppend:
      return ErrorCode::kNotEnoughReplicasAfterAppend;
    case replication::ProduceError::kTimedOut:
    case replication::ProduceError::kOverloaded:
      return ErrorCode::kRequestTimedOut;
    case replication::ProduceError::kStorage:
      return ErrorCode::kKafkaStorageError;
  }
  LS_UNREACHABLE();
}

}  // namespace

void FrontEnd::Impl::Handle(CallId call, ProduceRequest&& request) {
  const Call* c = FindCall(call);
  const int16_t version = c->version;
  ProduceCall& produce = produces_[call];
  produce.silent = request.acks == 0;
  std::vector<uint64_t> parts;
  size_t sent = 0;
  for (size_t t = 0; t < request.topic_data.size(); ++t) {
    produce.response.responses.push_back({.name = request.topic_data[t].name});
    for (size_t p = 0; p < request.topic_data[t].partition_data.size(); ++p) {
      produce.response.responses[t].partition_responses.push_back(
          {.index = request.topic_data[t].partition_data[p].index, .base_offset = -1});
      const auto& records = request.topic_data[t].partition_data[p].records;
      if (records) sent += records->size();
      parts.push_back(++last_produce_);
      produce_parts_[last_produce_] = {.call = call, .topic = t, .partition = p};
    }
  }
  produce.decompressed_bytes_left = kDecompressedBytes + kDecompressedBytesPerByte * sent;
  // One more than there are, so that it does not end before all have begun.
  produce.left = parts.size() + 1;
  size_t next = 0;
  for (size_t t = 0; t < request.topic_data.size(); ++t) {
    for (size_t p = 0; p < request.topic_data[t].partition_data.size(); ++p) {
      // Found anew each time: what one of them ends may rehash the table.
      ProduceCall& now = produces_.at(call);
      ProduceOne(request, version, request.topic_data[t].name,
                 request.topic_data[t].partition_data[p], parts[next++],
                 &now.decompressed_bytes_left, &now.response.responses[t].partition_responses[p]);
    }
  }
  if (--produces_.at(call).left == 0) FinishProduce(call);
}

void FrontEnd::Impl::ProduceOne(const ProduceRequest& request, int16_t version,
                                const std::string& topic, const ProduceRequest::Partition& from,
                                uint64_t produce, size_t* decompressed_bytes_left,
                                ProduceResponse::Partition* to) {
  if (request.acks < -1 || request.acks > 1) {
    return FinishPart(produce, ErrorCode::kInvalidRequiredAcks, -1);
  }
  if (version < kOldestBatchVersion) {
    return FinishPart(produce, ErrorCode::kUnsupportedForMessageFormat, -1);
  }
  // Transactions need a coordinator that is not offered: appended, such a batch would never be
  // decided.
  if (request.transactional_id.has_value()) {
    return FinishPart(produce, ErrorCode::kTransactionalIdAuthorizationFailed, -1);
  }
  const Led led = FindLed(topic, from.index, /*epoch=*/-1);
  if (led.error != ErrorCode::kNone) {
    NoteRefused(topic, from);
    return FinishPart(produce, led.error, -1);
  }
  Hosted& hosted = *led.hosted;
  if (hosted.rebuilding) return FinishPart(produce, ErrorCode::kNotLeaderOrFollower, -1);
  if (topic == kOffsetsTopic) return FinishPart(produce, ErrorCode::kInvalidTopicException, -1);

  const ProduceRules rules = {.version = version,
                              .batch_bytes_max = BatchBytesMax(topic),
                              .decompressed_bytes_max = std::min(
                                  ProduceRules().decompressed_bytes_max, *decompressed_bytes_left),
                              .timestamp_before_max_ms = options_.timestamp_before_max_ms,
                              .timestamp_after_max_ms = options_.timestamp_after_max_ms,
                              .now_ms = UnixMs()};
  const ProduceCheck check =
      ValidateForProduce(from.records ? from.records->Joined() : Bytes(), rules);
  *decompressed_bytes_left -= check.decompressed_bytes;
  Spend(check.decompressed_bytes);
  if (!check.ok()) {
    to->error_message = std::string(check.message);
    for (const RecordError& error : check.record_errors) {
      to->record_errors.push_back({error.record, std::string(error.message)});
    }
    return FinishPart(produce, check.error, -1);
  }

  const Instant deadline = now_ + Milliseconds(std::max(0, request.timeout_ms));
  const ProducerState::Verdict verdict = hosted.producers.Check(check.header);
  if (verdict.kind == ProducerState::Verdict::Kind::kRefuse) {
    return FinishPart(produce, verdict.error, -1);
  }
  if (verdict.kind == ProducerState::Verdict::Kind::kDuplicate) {
    const ProducerBatch& original = verdict.original;
    const bool committed = original.last_offset < led.partition->high_watermark();
    if (request.acks != -1 || committed) {
      return FinishPart(produce, verdict.error, original.first_offset());
    }
    // In this log, and perhaps in no other: its first sending has not been acknowledged either.
    hosted.duplicates.push_back(
        {original.last_offset + 1, produce, original.first_offset(), deadline, verdict.error});
    duplicate_deadlines_.insert({deadline, hosted.id});
    return;
  }

  const records::Batch batch =
      records::AssignOffsets(check.batch, {.base_offset = led.partition->log_end(),
                                           .leader_epoch = led.partition->leader_epoch().value,
                                           .max_timestamp = check.max_timestamp});
  const records::BatchHeader header = records::HeaderOf(batch);
  const bool appended =
      broker_.Produce(now_, hosted.id, {produce}, static_cast<replication::Acks>(request.acks),
                      deadline, batch.Slices(), header.record_count, broker_output_);
  if (appended) {
    hosted.producers.Appended(now_, header);
  } else {
    hosted.producers.Refused(now_, header);
  }
}

// By a replica that does not lead yet, or no more: the batches behind it may find that it does.
void FrontEnd::Impl::NoteRefused(const std::string& topic, const ProduceRequest::Partition& from) {
  const std::optional<PartitionId> id = FindPartition(topic, from.index);
  Hosted* hosted = id ? FindHosted(*id) : nullptr;
  if (hosted == nullptr || !from.records || from.records->size() < records::kBatchHeaderBytes) {
    return;
  }
  const Bytes bytes = from.records->Joined();
  const records::BatchHeader header =
      records::HeaderOf({.header = bytes.Slice(0, records::kBatchHeaderBytes), .records = {}});
  hosted->producers.Refused(now_, header);
}

void FrontEnd::Impl::ExpireDuplicates() {
  while (!duplicate_deadlines_.empty() && duplicate_deadlines_.begin()->first <= now_) {
    Hosted* hosted = FindHosted(duplicate_deadlines_.begin()->second);
    duplicate_deadlines_.erase(duplicate_deadlines_.begin());
    if (hosted == nullptr) continue;
    for (const Hosted::Duplicate& duplicate : std::exchange(hosted->duplicates, {})) {
      if (duplicate.deadline <= now_) {
        FinishPart(duplicate.produce, ErrorCode::kRequestTimedOut, -1);
      } else {
        hosted->duplicates.push_back(duplicate);
      }
    }
  }
}

size_t FrontEnd::Impl::BatchBytesMax(const std::string& topic) const {
  const std::optional<int64_t> own =
      replication::NumberOf(FindTopic(topic)->configs, "max.message.bytes");
  // One that was set before it was bounded may be above it.
  const int64_t bound = replication::kMessageBytesMax;
  return own ? static_cast<size_t>(std::min(*own, bound)) : options_.message_bytes_max;
}

void FrontEnd::Impl::OnProduceDone(const PartitionId&,
                                   const replication::PartitionOutput::ProduceDone& done) {
  FinishPart(done.id.value, ToErrorCode(done.error), done.base_offset);
}

void FrontEnd::Impl::FinishPart(uint64_t produce, ErrorCode error, int64_t base_offset) {
  auto found = produce_parts_.find(produce);
  LS_CHECK(found != produce_parts_.end());
  const ProducePart part = found->second;
  produce_parts_.erase(found);
  if (part.call == 0) return groups_.OnAppended(now_, part.append, error, &groups_out_);
  ProduceCall& call = produces_.at(part.call);
  ProduceResponse::Topic& topic = call.response.responses[part.topic];
  ProduceResponse::Partition& to = topic.partition_responses[part.partition];
  to.error_code = error;
  to.base_offset = error == ErrorCode::kNone ? base_offset : -1;
  if (error == ErrorCode::kNone) {
    const std::optional<PartitionId> id = FindPartition(topic.name, to.index);
    const replication::Partition* partition = id ? broker_.FindPartition(*id) : nullptr;
    if (partition != nullptr) to.log_start_offset = partition->log_start();
  } else {
    call.failed = true;
  }
  if (--call.left == 0) FinishProduce(part.call);
}

void FrontEnd::Impl::FinishProduce(CallId call) {
  auto found = produces_.find(call);
  const ProduceCall produce = std::move(found->second);
  produces_.erase(found);
  if (!produce.silent) return Reply(call, produce.response);
  // Nobody reads an answer. That something went wrong is told by closing: the client asks for the
  // metadata anew.
  const Call* c = FindCall(call);
  if (c == nullptr) return;
  if (produce.failed) return Close(c->connection, "a produce without acknowledgement failed");
  FinishCall(call, {});
}

}  // namespace lockstep::kafka
