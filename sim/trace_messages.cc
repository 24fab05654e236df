#include "sim/trace_messages.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/replication/messages.h"
#include "core/wire/replication_codec.h"
#include "core/zab/messages.h"

namespace lockstep::sim {
namespace {

// Simulated messages are small; these only keep a bug from being taken for a long message.
constexpr uint32_t kFrameBytesMax = 64 << 20;

Zxid ZxidOf(const zab::Message& message) {
  if (const auto* m = std::get_if<zab::Proposal>(&message)) return m->zxid;
  if (const auto* m = std::get_if<zab::Ack>(&message)) return m->zxid;
  if (const auto* m = std::get_if<zab::Commit>(&message)) return m->zxid;
  if (const auto* m = std::get_if<zab::UpToDate>(&message)) return m->committed;
  return {};
}

std::string ReplicationDetail(const replication::Message& message) {
  if (const auto* request = std::get_if<replication::ReplicaFetchRequest>(&message)) {
    std::string text = absl::StrCat("#", request->sequence, " of broker ",
                                    request->follower.ToString(), request->partial ? ", news" : "");
    for (const auto& entry : request->entries) {
      absl::StrAppend(&text, ", partition ", entry.partition.partition, " from ",
                      entry.fetch_offset, " in epoch ", entry.leader_epoch.ToString());
    }
    return text;
  }
  const auto& response = std::get<replication::ReplicaFetchResponse>(message);
  std::string text = absl::StrCat("#", response.sequence);
  for (const auto& entry : response.entries) {
    size_t bytes = 0;
    for (const Bytes& batches : entry.batches) bytes += batches.size();
    absl::StrAppend(&text, ", partition ", entry.partition.partition, " from ", entry.fetch_offset,
                    ": ", bytes, "B, high watermark ", entry.high_watermark);
    if (entry.error != replication::FetchError::kNone) {
      absl::StrAppend(&text, ", ", replication::ToString(entry.error));
    }
    if (entry.diverging) absl::StrAppend(&text, ", diverges at ", entry.diverging->end);
  }
  return text;
}

// Between servers.
void Describe(const wire::Frame& frame, TracedMessage* message) {
  const auto kind = static_cast<wire::Kind>(frame.kind);
  message->kind = kind;
  message->name = wire::ToString(kind);
  switch (kind) {
    case wire::Kind::kHello:
      return;
    case wire::Kind::kNotification:
      if (const auto decoded = wire::DecodeNotification(frame); decoded.ok()) {
        message->detail = zab::ToString(*decoded);
      }
      return;
    case wire::Kind::kReplicaFetchRequest:
    case wire::Kind::kReplicaFetchResponse:
      if (const auto decoded = wire::DecodeReplicationMessage(frame); decoded.ok()) {
        message->detail = ReplicationDetail(*decoded);
      }
      return;
    default:
      if (const auto decoded = wire::DecodeMessage(frame); decoded.ok()) {
        message->detail = zab::ToString(*decoded);
        message->zxid = ZxidOf(*decoded);
      }
  }
}

}  // namespace

bool TracedMessages::Next(Stream* stream, TracedMessage* message) {
  if (auto* reader = std::get_if<wire::FrameReader>(&stream->reader)) {
    const absl::StatusOr<std::optional<wire::Frame>> frame = reader->Next();
    stream->broken = !frame.ok();
    if (stream->broken || !frame->has_value()) return false;
    Describe(**frame, message);
    return true;
  }
  auto& cutter = std::get<FrameCutter>(stream->reader);
  const absl::StatusOr<std::optional<Bytes>> frame = cutter.Next();
  stream->broken = !frame.ok();
  if (stream->broken || !frame->has_value()) return false;
  // The lines of the client tell what is in it.
  message->detail = absl::StrCat((*frame)->size(), "B");
  return true;
}

void TracedMessages::OnSent(const TraceBytes& bytes, std::vector<TracedMessage>* out) {
  if (bytes.data.empty()) return;
  Stream& stream = streams_[bytes.stream];
  if (std::holds_alternative<std::monostate>(stream.reader)) {
    const bool ours = static_cast<unsigned char>(bytes.data.data()[0]) == (wire::kMagic & 0xff);
    if (ours) {
      stream.reader.emplace<wire::FrameReader>(kFrameBytesMax, wire::kBrokerHeaderBytesMax);
    } else {
      stream.reader.emplace<FrameCutter>(kFrameBytesMax);
    }
  }
  stream.sent += bytes.data.size();
  if (stream.broken) return;
  size_t buffered = 0;
  if (auto* reader = std::get_if<wire::FrameReader>(&stream.reader)) {
    reader->Add(bytes.data);
  } else {
    std::get<FrameCutter>(stream.reader).Add(bytes.data);
  }
  while (true) {
    TracedMessage message;
    if (!Next(&stream, &message)) return;
    if (const auto* reader = std::get_if<wire::FrameReader>(&stream.reader)) {
      buffered = reader->buffered();
    } else {
      buffered = std::get<FrameCutter>(stream.reader).buffered();
    }
    message.id = ++last_id_;
    message.from = bytes.from;
    message.to = bytes.to;
    message.link = bytes.link;
    message.sent = bytes.at;
    // The even direction is that of whoever dialed, and asks (Network::Route).
    if (message.name.empty()) message.name = bytes.stream % 2 == 0 ? "request" : "reply";
    stream.waiting.push_back({stream.sent - buffered, message});
    out->push_back(std::move(message));
  }
}

void TracedMessages::OnReceived(const TraceBytes& bytes, std::vector<TracedMessage>* out) {
  auto it = streams_.find(bytes.stream);
  if (it == streams_.end()) return;
  Stream& stream = it->second;
  stream.received += bytes.data.size();
  while (!stream.waiting.empty() && stream.waiting.front().end <= stream.received) {
    out->push_back(std::move(stream.waiting.front().message));
    stream.waiting.pop_front();
  }
}

}  // namespace lockstep::sim
