#include "sim/kafka_producer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/kafka/records.h"
#include "core/records/batch_builder.h"

namespace lockstep::sim {

using kafka::ErrorCode;

namespace {

// Names of producers, beyond those of the client that they are: one per producer id.
constexpr uint32_t kIncarnations = 10'000;
constexpr int64_t kTimestamp = 1'600'000'000'000;

}  // namespace

KafkaProducer::KafkaProducer(const Context& context, uint32_t number, const ProducerPlan& producer,
                             RandomStream random, Replication* replication)
    : KafkaClient(context, absl::StrCat("p", number), random),
      number_(number),
      producer_(producer),
      replication_(replication) {
  LimitVersions(kafka::ApiKey::kProduce, 3, INT16_MAX);
  for (const TopicPlan& topic : plan_.topics) Watch(topic.name);
  Restart();
}

// Whatever is under way stays in doubt for good.
void KafkaProducer::Restart() {
  partitions_.clear();
  calls_.clear();
  producer_id_ = -1;
  init_call_.reset();
  next_record_ = 1;
  ++incarnation_;
  // acks=0 goes over whichever connection there is, and nobody tells in what order it came.
  replication_->AddProducer(number_ * kIncarnations + incarnation_, producer_.idempotent,
                            producer_.acks != 0);
}

void KafkaProducer::Vanish(Instant now, ClientOutput* output) {
  Restart();
  Drop(now, output);
}

uint32_t KafkaProducer::InFlightMax() const {
  return producer_.idempotent ? std::min(producer_.in_flight_max, 5u) : 1;
}

// ---- Batches -----------------------------------------------------------------------------------

std::vector<uint32_t> KafkaProducer::DrawBatch() {
  std::vector<uint32_t> sizes(static_cast<size_t>(random_.Between(1, producer_.batch_records_max)));
  for (uint32_t& size : sizes) {
    size = static_cast<uint32_t>(random_.Below(plan_.value_bytes_max + 1));
  }
  return sizes;
}

void KafkaProducer::MakeBatch(const std::vector<uint32_t>& sizes, const Key& key,
                              Partition* partition) {
  Batch batch;
  batch.serial = next_serial_++;
  batch.sequence = partition->next_sequence;
  records::BatchBuilder::Producer producer;
  if (producer_.idempotent) producer = {producer_id_, producer_epoch_, batch.sequence};
  records::BatchBuilder builder(producer);
  for (uint32_t size : sizes) {
    const RecordId id = RecordId::Of(number_ * kIncarnations + incarnation_, next_record_++);
    replication_->OnSent(id, key.first, key.second);
    builder.Add(kTimestamp, std::nullopt, ValueOf(id, size));
    batch.records.push_back(id);
  }
  batch.bytes = builder.Build().Join();
  partition->next_sequence += static_cast<int32_t>(sizes.size());
  partition->queue.push_back(std::move(batch));
}

// Nothing: it does not see the topic it drew.
std::optional<ProducerStep> KafkaProducer::DrawStep() {
  ProducerStep step;
  step.topic = static_cast<uint32_t>(random_.Below(plan_.topics.size()));
  const TopicView* view = Find(plan_.topics[step.topic].name);
  if (view == nullptr || view->partitions.empty()) return std::nullopt;
  step.partition = static_cast<int32_t>(random_.Below(view->partitions.size()));
  const auto it = partitions_.find({plan_.topics[step.topic].name, step.partition});
  const size_t queued = it == partitions_.end() ? 0 : it->second.queue.size();
  const int64_t wanted = random_.Between(1, static_cast<int64_t>(QueueMax()));
  for (int64_t i = 0; i < wanted && queued + step.batches.size() < QueueMax(); ++i) {
    step.batches.push_back(DrawBatch());
  }
  return step;
}

uint64_t KafkaProducer::QueueMax() const {
  return std::max<uint64_t>(1, producer_.idempotent ? producer_.in_flight_max : 1);
}

void KafkaProducer::MakeSome(Instant now) {
  if (plan_.topics.empty()) return;
  const std::optional<ProducerStep> drawn = DrawStep();
  if (follows()) {
    while (const ProducerStep* due = Due<ProducerStep>(now)) {
      // It waits until its topic is seen and there is room.
      if (!Make(*due)) return;
      context_.script->Take(actor(), now);
    }
  } else if (drawn) {
    if (!drawn->batches.empty()) Note(now, *drawn);
    Make(*drawn);
  }
}

// False, and nothing is made: the partition is not seen, or its queue is full.
bool KafkaProducer::Make(const ProducerStep& step) {
  const TopicPlan& topic = plan_.topics[step.topic];
  const TopicView* view = Find(topic.name);
  if (view == nullptr || static_cast<size_t>(step.partition) >= view->partitions.size()) {
    return false;
  }
  const Key key(topic.name, step.partition);
  Partition& partition = partitions_[key];
  if (partition.queue.empty()) partition.topic_id = view->id;
  if (partition.queue.size() >= QueueMax()) return false;
  for (const std::vector<uint32_t>& sizes : step.batches) MakeBatch(sizes, key, &partition);
  return true;
}

KafkaProducer::Batch* KafkaProducer::NextToSend(Instant now, const Key& key, Partition* partition) {
  const std::optional<uint32_t> leader = LeaderOf(key.first, key.second);
  if (!leader) return nullptr;
  uint32_t in_flight = 0;
  for (Batch& batch : partition->queue) {
    if (batch.done) continue;
    if (batch.in_flight) {
      // What is under way to another leader has to come back first, as with librdkafka: the new one
      // may have forgotten this producer, and would take whatever comes first for the next one.
      if (batch.server != *leader) return nullptr;
      if (++in_flight >= InFlightMax()) return nullptr;
      continue;
    }
    // Later ones wait for it: the order is that of the sequences.
    return batch.not_before <= now ? &batch : nullptr;
  }
  return nullptr;
}

void KafkaProducer::Pump(Instant now, ClientOutput* output) {
  // One batch of each partition goes into a request, as many requests as it takes.
  for (;;) {
    std::map<uint32_t, kafka::ProduceRequest> requests;
    std::map<uint32_t, std::vector<Sent>> sent;
    for (auto& [key, partition] : partitions_) {
      Batch* batch = NextToSend(now, key, &partition);
      if (batch == nullptr) continue;
      const uint32_t server = *LeaderOf(key.first, key.second);
      kafka::ProduceRequest& request = requests[server];
      auto topic = std::find_if(request.topic_data.begin(), request.topic_data.end(),
                                [&](const auto& t) { return t.name == key.first; });
      if (topic == request.topic_data.end()) {
        request.topic_data.push_back({key.first, {}});
        topic = request.topic_data.end() - 1;
      }
      topic->partition_data.push_back({key.second, kafka::Records(batch->bytes)});
      sent[server].push_back({key, batch->serial});
      batch->in_flight = true;
      batch->server = server;
    }
    if (requests.empty()) return;
    for (auto& [server, request] : requests) {
      request.acks = producer_.acks;
      request.timeout_ms = static_cast<int32_t>((Timeout() / 2).Milliseconds());
      const bool answered = producer_.acks != 0;
      const uint64_t call = Send(now, server, request, Timeout(), output, answered);
      if (answered) {
        calls_[call] = std::move(sent[server]);
        continue;
      }
      for (const Sent& one : sent[server]) {
        Partition* partition = nullptr;
        Batch* batch = FindBatch(one, &partition);
        batch->done = true;
        while (!partition->queue.empty() && partition->queue.front().done) {
          partition->queue.pop_front();
        }
      }
    }
  }
}

// ---- Answers -----------------------------------------------------------------------------------

KafkaProducer::Batch* KafkaProducer::FindBatch(const Sent& sent, Partition** partition) {
  auto it = partitions_.find(sent.key);
  if (it == partitions_.end()) return nullptr;
  *partition = &it->second;
  for (Batch& batch : it->second.queue) {
    if (batch.serial == sent.serial) return &batch;
  }
  return nullptr;
}

void KafkaProducer::OnAnswer(Instant now, const Call& call, const Bytes& frame, ClientOutput*) {
  if (call.api == kafka::ApiKey::kInitProducerId) {
    const auto response = Take<kafka::InitProducerIdResponse>(call, frame);
    if (init_call_ == call.number) OnInitProducerId(now, response);
    return;
  }
  const auto response = Take<kafka::ProduceResponse>(call, frame);
  auto it = calls_.find(call.number);
  if (it == calls_.end()) return;  // of before a restart
  std::vector<Sent> waiting = std::move(it->second);
  calls_.erase(it);
  size_t answered = 0;
  for (const auto& topic : response.responses) {
    for (const auto& partition : topic.partition_responses) {
      const auto sent = std::find_if(waiting.begin(), waiting.end(), [&](const Sent& s) {
        return s.key == Key(topic.name, partition.index);
      });
      if (sent == waiting.end()) FailBytes("an answer about a partition that was not asked for");
      ++answered;
      OnProduced(now, *sent, partition);
    }
  }
  if (answered != waiting.size()) FailBytes("an answer does not mention all partitions");
}

void KafkaProducer::OnLost(Instant now, const Call& call, ClientOutput*) {
  if (init_call_ == call.number) {
    init_call_.reset();
    init_at_ = now + BackOff();
    return;
  }
  auto it = calls_.find(call.number);
  if (it == calls_.end()) return;
  const std::vector<Sent> lost = std::move(it->second);
  calls_.erase(it);
  probes_->Hit(Probe::kProduceInDoubt);
  if (!producer_.idempotent) {
    replication_->OnDisordered(number_ * kIncarnations + incarnation_);
  }
  for (const Sent& sent : lost) {
    Partition* partition = nullptr;
    if (Batch* batch = FindBatch(sent, &partition)) Retry(now, batch);
  }
}

void KafkaProducer::OnInitProducerId(Instant now, const kafka::InitProducerIdResponse& response) {
  init_call_.reset();
  init_at_ = now + BackOff();
  if (response.error_code != ErrorCode::kNone) return;
  producer_id_ = response.producer_id;
  producer_epoch_ = response.producer_epoch;
  replication_->OnProducerId(name(), producer_id_, producer_epoch_);
}

void KafkaProducer::Retry(Instant now, Batch* batch) {
  batch->in_flight = false;
  batch->not_before = now + BackOff();
}

void KafkaProducer::Done(const Key& key, Partition* partition, Batch* batch, int64_t base_offset) {
  if (producer_.acks == -1) {
    probes_->Hit(Probe::kProduceAcknowledged);
    replication_->OnAcknowledged(name(), key.first, key.second, base_offset, batch->records);
  }
  batch->in_flight = false;
  batch->done = true;
  partition->refused = false;
  while (!partition->queue.empty() && partition->queue.front().done) partition->queue.pop_front();
}

void KafkaProducer::OnProduced(Instant now, const Sent& sent,
                               const kafka::ProduceResponse::Partition& response) {
  Partition* partition = nullptr;
  Batch* batch = FindBatch(sent, &partition);
  if (batch == nullptr) return;
  if (trace_->on()) {
    Line("produced",
         absl::StrCat(sent.key.first, "-", sent.key.second, " ", batch->records.front().ToString(),
                      " at ", response.base_offset, " ", kafka::ToString(response.error_code)));
  }
  switch (response.error_code) {
    case ErrorCode::kNone:
      return Done(sent.key, partition, batch, response.base_offset);
    case ErrorCode::kDuplicateSequenceNumber:
      // It is there; where is not known any more.
      return Done(sent.key, partition, batch, -1);
    default:
      return OnRefused(now, sent.key, partition, batch, response.error_code);
  }
}

void KafkaProducer::OnRefused(Instant now, const Key& key, Partition* partition, Batch* batch,
                              ErrorCode error) {
  partition->refused = false;
  const bool excused =
      replication_->Recreated(key.first) || replication_->MayHaveLost(key.first, key.second);
  switch (error) {
    case ErrorCode::kNotEnoughReplicas:
    case ErrorCode::kNotEnoughReplicasAfterAppend:
      probes_->Hit(Probe::kNotEnoughReplicas);
      partition->refused = true;
      return Retry(now, batch);
    case ErrorCode::kUnknownTopicOrPartition:
    case ErrorCode::kNotLeaderOrFollower:
    case ErrorCode::kLeaderNotAvailable:
      RefreshMetadata(now);
      // The topic is gone, or is another one now: nobody knows what became of these.
      if (replication_->Recreated(key.first)) {
        const TopicView* view = Find(key.first);
        if (view == nullptr || view->partitions.empty() || view->id != partition->topic_id) {
          return Restart();
        }
      }
      return Retry(now, batch);
    case ErrorCode::kRequestTimedOut:
    case ErrorCode::kKafkaStorageError:
    case ErrorCode::kUnknownServerError:
    case ErrorCode::kBrokerNotAvailable:
    case ErrorCode::kThrottlingQuotaExceeded:
      return Retry(now, batch);
    case ErrorCode::kOutOfOrderSequenceNumber: {
      const auto first = std::find_if(partition->queue.begin(), partition->queue.end(),
                                      [](const Batch& b) { return !b.done; });
      // One before it failed; it comes again, behind that one.
      if (&*first != batch) return Retry(now, batch);
      // As the Java client: what comes again has another producer epoch, and counts as new.
      if (replication_->WereRemoved(key.first, key.second, batch->records)) return Restart();
      break;
    }
    case ErrorCode::kUnknownProducerId:
    case ErrorCode::kInvalidProducerEpoch:
      break;
    default:
      Fail("kafka-answers-fit", absl::StrCat(name(), " produces to ", key.first, "-", key.second,
                                             " and gets ", kafka::ToString(error)));
  }
  // The log does not know what came before: that was lost.
  if (!producer_.idempotent || !excused) {
    Fail("exactly-once",
         absl::StrCat(name(), " produces ", batch->records.front().ToString(), " to ", key.first,
                      "-", key.second, " with sequence ", batch->sequence,
                      ", all before it being answered, and gets ", kafka::ToString(error)));
  }
  Restart();
}

// ---- Work --------------------------------------------------------------------------------------

Instant KafkaProducer::Work(Instant now, ClientOutput* output) {
  if (producer_.idempotent && producer_id_ < 0) {
    if (!init_call_ && now >= init_at_) {
      kafka::InitProducerIdRequest request;
      request.transaction_timeout_ms = 60'000;
      init_call_ = Send(now, RandomServer(), request, context_.tick * 4, output);
    }
    return init_call_ ? Instant::Never() : init_at_;
  }
  if (!quiescing_ && now >= std::min(next_work_, NextStepAt())) {
    next_work_ = now + Around(random_, plan_.think) + Microseconds(1);
    MakeSome(now);
    next_work_ = std::min(next_work_, std::max(NextStepAt(), now + context_.tick / 10));
  }
  if (quiescing_) {
    // One more for each partition, to see that it gets through.
    for (const TopicPlan& topic : plan_.topics) {
      const TopicView* view = Find(topic.name);
      if (view == nullptr || topic.recreated) continue;
      for (size_t i = 0; i < view->partitions.size(); ++i) {
        const Key key(topic.name, static_cast<int32_t>(i));
        if (!final_.insert(key).second) continue;
        Partition& partition = partitions_[key];
        if (partition.queue.empty()) MakeBatch(DrawBatch(), key, &partition);
      }
    }
  }
  Pump(now, output);
  Instant next = quiescing_ ? now + context_.tick : next_work_;
  for (const auto& [key, partition] : partitions_) {
    for (const Batch& batch : partition.queue) {
      if (batch.done || batch.in_flight) continue;
      if (batch.not_before > now) next = std::min(next, batch.not_before);
      break;
    }
  }
  return next;
}

void KafkaProducer::Quiesce(Instant now, ClientOutput* output) {
  quiescing_ = true;
  for (auto& [key, partition] : partitions_) partition.refused = false;
  OnWake(now, output);
}

std::string KafkaProducer::NotDone() const {
  if (producer_.idempotent && producer_id_ < 0) return "has no producer id";
  for (const TopicPlan& topic : plan_.topics) {
    if (topic.recreated) continue;
    const TopicView* view = Find(topic.name);
    if (view == nullptr || view->partitions.empty()) return "does not see topic " + topic.name;
  }
  for (const auto& [key, partition] : partitions_) {
    if (partition.queue.empty() || partition.refused) continue;
    if (replication_->Recreated(key.first)) continue;
    if (replication_->Offline(key.first, key.second)) continue;
    return absl::StrCat("waits for ", key.first, "-", key.second);
  }
  return "";
}

}  // namespace lockstep::sim
