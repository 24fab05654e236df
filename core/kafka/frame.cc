#include "core/kafka/frame.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "core/base/check.h"

namespace lockstep::kafka {
namespace {

bool FlexibleResponseHeader(ApiKey api, int16_t version) {
  const ApiInfo* info = FindApi(static_cast<int16_t>(api));
  LS_CHECK(info != nullptr);
  return api != ApiKey::kApiVersions && info->Flexible(version);
}

}  // namespace

const ApiInfo* FindApi(int16_t key) {
  const std::span<const ApiInfo> apis = Apis();
  const auto found = std::lower_bound(
      apis.begin(), apis.end(), key,
      [](const ApiInfo& api, int16_t wanted) { return static_cast<int16_t>(api.key) < wanted; });
  return found != apis.end() && static_cast<int16_t>(found->key) == key ? &*found : nullptr;
}

absl::Status Decode(Reader* reader, RequestHeader* to) {
  const int16_t key = reader->ReadInt16();
  to->api_version = reader->ReadInt16();
  to->correlation_id = reader->ReadInt32();
  if (!reader->ok()) return reader->status();
  const ApiInfo* api = FindApi(key);
  if (api == nullptr) return absl::UnimplementedError("no API has the key " + std::to_string(key));
  to->api_key = api->key;
  // Not compact even in flexible versions, so that it can be read before the version is known.
  to->client_id = reader->ReadNullableString(/*flexible=*/false);
  if (api->Flexible(to->api_version)) reader->SkipTaggedFields();
  return reader->status();
}

void Encode(const RequestHeader& from, Writer* writer) {
  const ApiInfo* api = FindApi(static_cast<int16_t>(from.api_key));
  LS_CHECK(api != nullptr);
  writer->WriteInt16(static_cast<int16_t>(from.api_key));
  writer->WriteInt16(from.api_version);
  writer->WriteInt32(from.correlation_id);
  writer->WriteNullableString(/*flexible=*/false, from.client_id);
  if (api->Flexible(from.api_version)) writer->WriteUnsignedVarint(0);  // no tagged fields
}

absl::StatusOr<int32_t> DecodeResponseHeader(Reader* reader, ApiKey api, int16_t version) {
  const int32_t correlation_id = reader->ReadInt32();
  if (FlexibleResponseHeader(api, version)) reader->SkipTaggedFields();
  if (!reader->ok()) return reader->status();
  return correlation_id;
}

void EncodeResponseHeader(ApiKey api, int16_t version, int32_t correlation_id, Writer* writer) {
  writer->WriteInt32(correlation_id);
  if (FlexibleResponseHeader(api, version)) writer->WriteUnsignedVarint(0);  // no tagged fields
}

}  // namespace lockstep::kafka
