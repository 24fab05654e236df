// Whole frames of Kafka's protocol: a request or a response with its header.
//
//   request  := length:int32 api_key:int16 api_version:int16 correlation_id:int32 client_id body
//   response := length:int32 correlation_id:int32 body
//
// In flexible versions tagged fields end each header. Streams are cut into frames by FrameCutter
// (core/base/frame_cutter.h), with Kafka's `socket.request.max.bytes` as its bound; decoders here
// take a frame without its length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/bytes.h"
#include "core/base/check.h"
#include "core/kafka/api.h"
#include "core/kafka/reader.h"
#include "core/kafka/writer.h"

namespace lockstep::kafka {

// Kafka's `socket.request.max.bytes` by default.
inline constexpr uint32_t kRequestBytesMax = 100 << 20;

struct RequestHeader {
  ApiKey api_key = ApiKey::kApiVersions;
  int16_t api_version = 0;
  int32_t correlation_id = 0;
  std::optional<std::string> client_id;

  bool operator==(const RequestHeader&) const = default;
};

// Reads the header; the body follows in the reader. Errors: kUnimplemented for an API that has no
// ApiInfo; kInvalidArgument for bad bytes. A version that the API does not support is none: the
// header can be read, and a server answers ApiVersions in it (KIP-511).
absl::Status Decode(Reader* reader, RequestHeader* to);
void Encode(const RequestHeader& from, Writer* writer);

// The header of a response to such a request. One to ApiVersions is never flexible, since the
// client does not know yet what the server can speak (KIP-511).
absl::StatusOr<int32_t> DecodeResponseHeader(Reader* reader, ApiKey api, int16_t version);
void EncodeResponseHeader(ApiKey api, int16_t version, int32_t correlation_id, Writer* writer);

// Puts the length before what `write(Writer*)` writes.
template <typename Write>
std::vector<Bytes> EncodeFrame(Write write) {
  Writer writer;
  writer.WriteInt32(0);
  write(&writer);
  LS_CHECK_LE(writer.size(), size_t{INT32_MAX});
  writer.PatchInt32(0, static_cast<int32_t>(writer.size() - sizeof(int32_t)));
  return writer.Finish();
}

// A frame with its length, in slices: payloads of the message are among them, not copied.
template <typename Request>
std::vector<Bytes> EncodeRequest(const Request& request, int16_t version, int32_t correlation_id,
                                 std::optional<std::string> client_id) {
  return EncodeFrame([&](Writer* writer) {
    Encode(RequestHeader{Request::kApi, version, correlation_id, std::move(client_id)}, writer);
    Encode(request, version, writer);
  });
}

template <typename Response>
std::vector<Bytes> EncodeResponse(const Response& response, int16_t version,
                                  int32_t correlation_id) {
  return EncodeFrame([&](Writer* writer) {
    EncodeResponseHeader(Response::kApi, version, correlation_id, writer);
    Encode(response, version, writer);
  });
}

// The response in a frame whose first four bytes, the correlation id, named a request of this API
// and version.
template <typename Response>
absl::StatusOr<Response> DecodeResponse(const Bytes& frame, int16_t version) {
  Reader reader(frame);
  absl::StatusOr<int32_t> correlation_id = DecodeResponseHeader(&reader, Response::kApi, version);
  if (!correlation_id.ok()) return correlation_id.status();
  Response response;
  if (absl::Status status = Decode(&reader, version, &response); !status.ok()) return status;
  return response;
}

// A message alone, without a header.
template <typename Message>
absl::StatusOr<Message> DecodeBody(const Bytes& body, int16_t version) {
  Reader reader(body);
  Message message;
  if (absl::Status status = Decode(&reader, version, &message); !status.ok()) return status;
  return message;
}

template <typename Message>
std::vector<Bytes> EncodeBody(const Message& message, int16_t version) {
  Writer writer;
  Encode(message, version, &writer);
  return writer.Finish();
}

}  // namespace lockstep::kafka
