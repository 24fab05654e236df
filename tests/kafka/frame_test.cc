#include "core/kafka/frame.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/base/frame_cutter.h"

namespace lockstep::kafka {
namespace {

std::string FromHex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

std::string Joined(std::vector<Bytes> slices) {
  return std::string(Records(std::move(slices)).Joined().view());
}

// The only frame in `hex`, without its length.
Bytes Unframed(std::string_view hex) {
  FrameCutter cutter(kRequestBytesMax);
  cutter.Add(Bytes::Copy(FromHex(hex)));
  absl::StatusOr<std::optional<Bytes>> frame = cutter.Next();
  EXPECT_TRUE(frame.ok() && frame->has_value());
  EXPECT_EQ(cutter.buffered(), 0u);
  return **frame;
}

template <typename Request>
void ExpectRequest(const char* hex, const RequestHeader& header, const Request& request) {
  EXPECT_EQ(
      Joined(EncodeRequest(request, header.api_version, header.correlation_id, header.client_id)),
      FromHex(hex));
  Reader reader(Unframed(hex));
  RequestHeader decoded_header;
  ASSERT_TRUE(Decode(&reader, &decoded_header).ok());
  EXPECT_EQ(decoded_header, header);
  Request decoded;
  ASSERT_TRUE(Decode(&reader, header.api_version, &decoded).ok());
  EXPECT_EQ(decoded, request);
  EXPECT_EQ(reader.remaining(), 0u);
}

template <typename Response>
void ExpectResponse(const char* hex, int16_t version, int32_t correlation_id,
                    const Response& response) {
  EXPECT_EQ(Joined(EncodeResponse(response, version, correlation_id)), FromHex(hex));
  absl::StatusOr<Response> decoded = DecodeResponse<Response>(Unframed(hex), version);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, response);
}

// ---- Requests: what kafka-python 3.0 and librdkafka 2.0 write
// ------------------------------------

TEST(RequestFrame, MetadataIsKafkaPythons) {
  MetadataRequest request;
  request.topics->push_back({.name = "t"});
  ExpectRequest("00000012000300010000000700016300000001000174", {ApiKey::kMetadata, 1, 7, "c"},
                request);
}

TEST(RequestFrame, OfAFlexibleVersionHasTaggedFieldsButNoCompactClientId) {
  ExpectRequest("00000011001200030000000700016300026e023100", {ApiKey::kApiVersions, 3, 7, "c"},
                ApiVersionsRequest{.client_software_name = "n", .client_software_version = "1"});
  ExpectRequest("00000015000c000400000007ffff00026700000001026d0000",
                {ApiKey::kHeartbeat, 4, 7, std::nullopt},
                HeartbeatRequest{.group_id = "g", .generation_id = 1, .member_id = "m"});
}

TEST(RequestFrame, ApiVersionsIsLibrdkafkas) {
  ExpectRequest(
      "000000240012000300000001000772646b61666b61000b6c696272646b61666b6106322e302e3200",
      {ApiKey::kApiVersions, 3, 1, "rdkafka"},
      ApiVersionsRequest{.client_software_name = "librdkafka", .client_software_version = "2.0.2"});
}

// ---- Responses: bytes by hand
// ---------------------------------------------------------------------

TEST(ResponseFrame, OfAFlexibleVersionHasTaggedFields) {
  const HeartbeatResponse response = {.error_code = ErrorCode::kRebalanceInProgress};
  ExpectResponse(
      "0000000a"
      "00000007"
      "00000000"
      "001b",
      3, 7, response);
  ExpectResponse(
      "0000000c"
      "00000007"
      "00"
      "00000000"
      "001b"
      "00",
      4, 7, response);
}

TEST(ResponseFrame, ToApiVersionsNeverHasThem) {
  ApiVersionsResponse response;
  ExpectResponse(
      "0000000c"
      "00000007"
      "0000"
      "01"
      "00000000"
      "00",
      3, 7, response);
  response.error_code = ErrorCode::kUnsupportedVersion;
  response.api_keys.push_back({.api_key = 18, .min_version = 0, .max_version = 3});
  ExpectResponse(
      "00000010"
      "00000007"
      "0023"
      "00000001"
      "0012"
      "0000"
      "0003",
      0, 7, response);
}

// ---- Headers
// --------------------------------------------------------------------------------------

TEST(RequestHeader, OfAnUnsupportedVersionCanBeRead) {
  Reader reader(
      Bytes::Copy(FromHex("0012"
                          "0063"
                          "00000007"
                          "000163"
                          "00"
                          "0102")));
  RequestHeader header;
  ASSERT_TRUE(Decode(&reader, &header).ok());
  EXPECT_EQ(header, (RequestHeader{ApiKey::kApiVersions, 99, 7, "c"}));
  EXPECT_FALSE(FindApi(18)->Supports(99));
  EXPECT_EQ(reader.remaining(), 2u);
}

TEST(RequestHeader, OfAnUnknownApiIsRefused) {
  Reader reader(
      Bytes::Copy(FromHex("03e7"
                          "0000"
                          "00000007"
                          "ffff")));
  RequestHeader header;
  EXPECT_EQ(Decode(&reader, &header).code(), absl::StatusCode::kUnimplemented);
}

TEST(RequestHeader, CutShortIsAnError) {
  const std::string bytes = FromHex(
      "0012"
      "0003"
      "00000007"
      "000163"
      "00");
  for (size_t size = 0; size < bytes.size(); ++size) {
    Reader reader(Bytes::Copy(bytes.substr(0, size)));
    RequestHeader header;
    EXPECT_EQ(Decode(&reader, &header).code(), absl::StatusCode::kInvalidArgument) << size;
  }
}

TEST(DecodeResponse, OfBadBytesIsAnError) {
  EXPECT_FALSE(DecodeResponse<HeartbeatResponse>(Bytes(), 4).ok());
  EXPECT_FALSE(DecodeResponse<HeartbeatResponse>(Bytes::Copy(FromHex("00000007")), 4).ok());
  EXPECT_FALSE(DecodeResponse<HeartbeatResponse>(Bytes::Copy(FromHex("0000000700")), 4).ok());
}

// ---- The table
// ------------------------------------------------------------------------------------

TEST(Apis, AscendByKeyAndAreFound) {
  int last = -1;
  for (const ApiInfo& api : Apis()) {
    EXPECT_LT(last, static_cast<int>(api.key));
    last = static_cast<int>(api.key);
    EXPECT_LE(api.version_min, api.version_max);
    EXPECT_EQ(FindApi(static_cast<int16_t>(api.key)), &api);
  }
  EXPECT_EQ(FindApi(-1), nullptr);
  EXPECT_EQ(FindApi(4), nullptr);  // LeaderAndIsr: between brokers of old
  EXPECT_EQ(FindApi(INT16_MAX), nullptr);
  EXPECT_EQ(FindApi(1)->name, "Fetch");
  EXPECT_TRUE(FindApi(1)->Flexible(12));
  EXPECT_FALSE(FindApi(1)->Flexible(11));
  EXPECT_FALSE(FindApi(47)->Flexible(INT16_MAX));
}

}  // namespace
}  // namespace lockstep::kafka
