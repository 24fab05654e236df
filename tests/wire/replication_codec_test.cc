#include "core/wire/replication_codec.h"

#include <flatbuffers/flatbuffers.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lockstep_generated.h"

namespace lockstep::wire {
namespace {

using replication::FetchError;
using replication::ReplicaFetchRequest;
using replication::ReplicaFetchResponse;

std::string Join(const std::vector<Bytes>& slices) {
  std::string all;
  for (const Bytes& slice : slices) all += slice.view();
  return all;
}

Frame FrameOf(const std::vector<Bytes>& slices) {
  FrameReader reader(64 << 20, kBrokerHeaderBytesMax);
  reader.Add(Bytes::Copy(Join(slices)));
  auto frame = reader.Next();
  EXPECT_TRUE(frame.ok() && frame->has_value());
  return **frame;
}

ReplicaFetchRequest Request() {
  return {.sequence = 7,
          .follower = {3},
          .incarnation = {42},
          .max_wait_ms = 500,
          .max_bytes = 1 << 20,
          .entry_max_bytes = 1 << 16,
          .partial = true,
          .entries = {{.partition = {{1, 2}, 5},
                       .leader_epoch = {4},
                       .fetch_offset = 100,
                       .last_fetched_epoch = {-1},
                       .log_start = 10,
                       .high_watermark = 90,
                       .replicas_version = 8}}};
}

ReplicaFetchResponse Response() {
  ReplicaFetchResponse response{.sequence = 9, .entries = {}};
  response.entries.push_back({.partition = {{1, 2}, 5},
                              .error = FetchError::kNone,
                              .leader_epoch = {4},
                              .fetch_offset = 100,
                              .last_fetched_epoch = {3},
                              .high_watermark = 90,
                              .log_start = 10,
                              .diverging = std::nullopt,
                              .batches = {Bytes::Copy("one"), Bytes::Copy("two")}});
  response.entries.push_back({.partition = {{1, 2}, 6}, .error = FetchError::kFencedLeaderEpoch});
  response.entries.push_back({.partition = {{1, 2}, 7},
                              .error = FetchError::kNone,
                              .leader_epoch = {4},
                              .fetch_offset = 100,
                              .last_fetched_epoch = {3},
                              .high_watermark = 90,
                              .log_start = 10,
                              .diverging = ReplicaFetchResponse::Diverging{{3}, 80},
                              .batches = {}});
  return response;
}

TEST(ReplicationCodec, RequestsComeBackAsTheyWere) {
  std::vector<Bytes> slices;
  EncodeReplicationMessage(Request(), &slices);
  auto message = DecodeReplicationMessage(FrameOf(slices));
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_EQ(std::get<ReplicaFetchRequest>(*message), Request());
}

TEST(ReplicationCodec, ResponsesComeBackWithOneSliceOfBatchesAnEntry) {
  std::vector<Bytes> slices;
  EncodeReplicationMessage(Response(), &slices);
  auto message = DecodeReplicationMessage(FrameOf(slices));
  ASSERT_TRUE(message.ok()) << message.status();
  ReplicaFetchResponse expected = Response();
  expected.entries[0].batches = {Bytes::Copy("onetwo")};
  EXPECT_EQ(std::get<ReplicaFetchResponse>(*message), expected);
}

TEST(ReplicationCodec, ListsMayBeEmpty) {
  ReplicaFetchRequest request = Request();
  request.entries.clear();
  std::vector<Bytes> slices;
  EncodeReplicationMessage(request, &slices);
  auto message = DecodeReplicationMessage(FrameOf(slices));
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_EQ(std::get<ReplicaFetchRequest>(*message), request);

  const ReplicaFetchResponse response{.sequence = 9, .entries = {}};
  slices.clear();
  EncodeReplicationMessage(response, &slices);
  message = DecodeReplicationMessage(FrameOf(slices));
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_EQ(std::get<ReplicaFetchResponse>(*message), response);
}

TEST(ReplicationCodec, BatchesAreNotCopiedIntoTheFrame) {
  std::vector<Bytes> slices;
  const ReplicaFetchResponse response = Response();
  EncodeReplicationMessage(response, &slices);
  ASSERT_EQ(slices.size(), 3u);
  EXPECT_EQ(slices[1].data(), response.entries[0].batches[0].data());
  EXPECT_EQ(slices[2].data(), response.entries[0].batches[1].data());
}

TEST(ReplicationCodec, AThousandPartitionsFitIntoAHeader) {
  ReplicaFetchRequest request = Request();
  request.entries.resize(replication::kFetchEntriesMax, request.entries[0]);
  std::vector<Bytes> slices;
  EncodeReplicationMessage(request, &slices);
  auto message = DecodeReplicationMessage(FrameOf(slices));
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_EQ(std::get<ReplicaFetchRequest>(*message), request);
}

TEST(ReplicationCodec, RefusesWhatNoBrokerSays) {
  auto refused = [](ReplicaFetchRequest request) {
    std::vector<Bytes> slices;
    EncodeReplicationMessage(request, &slices);
    return !DecodeReplicationMessage(FrameOf(slices)).ok();
  };
  ReplicaFetchRequest request = Request();
  request.follower = {-1};
  EXPECT_TRUE(refused(request));
  request = Request();
  request.max_wait_ms = -1;
  EXPECT_TRUE(refused(request));
  request = Request();
  request.entries[0].partition.partition = -1;
  EXPECT_TRUE(refused(request));
  request = Request();
  request.entries[0].leader_epoch = {-1};
  EXPECT_TRUE(refused(request));
  request = Request();
  request.entries[0].fetch_offset = request.entries[0].log_start - 1;
  EXPECT_TRUE(refused(request));
  request = Request();
  request.entries[0].last_fetched_epoch = {-2};
  EXPECT_TRUE(refused(request));
}

TEST(ReplicationCodec, RefusesBatchesThatNoEntryOrMoreThanOneClaims) {
  std::vector<Bytes> slices;
  EncodeReplicationMessage(Response(), &slices);
  Frame frame = FrameOf(slices);
  Frame longer = frame;
  longer.payload = Bytes::Copy(std::string(frame.payload.view()) + "x");
  EXPECT_FALSE(DecodeReplicationMessage(longer).ok());
  Frame shorter = frame;
  shorter.payload = frame.payload.Slice(0, frame.payload.size() - 1);
  EXPECT_FALSE(DecodeReplicationMessage(shorter).ok());
}

// Found by fuzz_peer_frames: such a list passed the verifier of FlatBuffers.
TEST(ReplicationCodec, RefusesAListWhoseIntegersStandWhereTheyCannotBeRead) {
  std::vector<Bytes> slices;
  EncodeReplicationMessage(Request(), &slices);
  Frame frame = FrameOf(slices);
  std::string header(frame.header.view());
  // The same list once more, behind the header, with its structs at 4 modulo 8; and the table's
  // field made to point there.
  const size_t table = flatbuffers::ReadScalar<flatbuffers::uoffset_t>(header.data());
  const size_t vtable =
      table - flatbuffers::ReadScalar<flatbuffers::soffset_t>(header.data() + table);
  const size_t field =
      table + flatbuffers::ReadScalar<flatbuffers::voffset_t>(
                  header.data() + vtable + schema::ReplicaFetchRequest::VT_ENTRIES);
  const size_t length_at = field + flatbuffers::ReadScalar<uint32_t>(header.data() + field);
  const std::string list = header.substr(length_at, 4 + sizeof(schema::FetchEntry));
  header.resize((header.size() + 7) / 8 * 8);
  flatbuffers::WriteScalar(header.data() + field, static_cast<uint32_t>(header.size() - field));
  header += list;
  frame.header = Bytes::Copy(header);
  EXPECT_EQ(DecodeReplicationMessage(frame).status().message(),
            "bad message ReplicaFetchRequest: malformed header");
}

TEST(ReplicationCodec, RefusesAnyCutHeaderAndOtherKinds) {
  std::vector<Bytes> slices;
  EncodeReplicationMessage(Request(), &slices);
  const Frame frame = FrameOf(slices);
  for (size_t size = 0; size < 8; ++size) {
    Frame cut = frame;
    cut.header = frame.header.Slice(0, size);
    EXPECT_FALSE(DecodeReplicationMessage(cut).ok()) << size;
  }
  Frame other = frame;
  other.kind = static_cast<uint8_t>(Kind::kPing);
  EXPECT_FALSE(DecodeReplicationMessage(other).ok());
}

}  // namespace
}  // namespace lockstep::wire
