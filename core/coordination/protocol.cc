#include "core/coordination/protocol.h"

#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "core/base/check.h"
#include "core/coordination/jute.h"
#include "core/coordination/jute_records.h"

namespace lockstep::coordination {

// ---- Each record's fields, once for both directions. A record with none takes no bytes.
// ---------- Not in an unnamed namespace, where the codecs would not find them.

template <typename Codec, Is<Data> T>
void Fields(Codec& codec, T& record) {
  BufferField(codec, record.bytes, record.null);
}
template <typename Codec, Is<CreateRequest> T>
void Fields(Codec& codec, T& record) {
  codec(record.path, record.data, record.acl, record.flags);
}
template <typename Codec, Is<DeleteRequest> T>
void Fields(Codec& codec, T& record) {
  codec(record.path, record.version);
}
template <typename Codec, Is<SetDataRequest> T>
void Fields(Codec& codec, T& record) {
  codec(record.path, record.data, record.version);
}
template <typename Codec, Is<SetAclRequest> T>
void Fields(Codec& codec, T& record) {
  codec(record.path, record.acl, record.version);
}
template <typename Codec, typename T>
  requires Is<T, ExistsRequest> || Is<T, GetDataRequest> || Is<T, GetChildrenRequest>
void Fields(Codec& codec, T& record) {
  codec(record.path, record.watch);
}
template <typename Codec, typename T>
  requires Is<T, GetAclRequest> || Is<T, SyncRequest> || Is<T, PathResponse>
void Fields(Codec& codec, T& record) {
  codec(record.path);
}
template <typename Codec, typename T>
  requires Is<T, PingRequest> || Is<T, CloseSessionRequest> || Is<T, UnknownRequest> ||
           Is<T, EmptyResponse>
void Fields(Codec&, T&) {}
template <typename Codec, Is<SetWatchesRequest> T>
void Fields(Codec& codec, T& record) {
  codec(record.relative_zxid, record.data, record.exist, record.child);
}
template <typename Codec, Is<SetWatches2Request> T>
void Fields(Codec& codec, T& record) {
  codec(record.one_shot, record.persistent, record.recursive);
}
template <typename Codec, Is<AddWatchRequest> T>
void Fields(Codec& codec, T& record) {
  codec(record.path, record.mode);
}
template <typename Codec, Is<RemoveWatchesRequest> T>
void Fields(Codec& codec, T& record) {
  codec(record.path, record.type);
}
template <typename Codec, Is<AuthRequest> T>
void Fields(Codec& codec, T& record) {
  codec(record.type, record.scheme, record.auth);
}
template <typename Codec, Is<ReplyHeader> T>
void Fields(Codec& codec, T& record) {
  codec(record.xid, record.zxid, record.error);
}
template <typename Codec, Is<Create2Response> T>
void Fields(Codec& codec, T& record) {
  codec(record.path, record.stat);
}
template <typename Codec, Is<StatResponse> T>
void Fields(Codec& codec, T& record) {
  codec(record.stat);
}
template <typename Codec, Is<GetDataResponse> T>
void Fields(Codec& codec, T& record) {
  codec(record.data, record.stat);
}
template <typename Codec, Is<GetAclResponse> T>
void Fields(Codec& codec, T& record) {
  codec(record.acl, record.stat);
}
template <typename Codec, Is<GetChildrenResponse> T>
void Fields(Codec& codec, T& record) {
  codec(record.children);
}
template <typename Codec, Is<GetChildren2Response> T>
void Fields(Codec& codec, T& record) {
  codec(record.children, record.stat);
}
template <typename Codec, Is<AddWatchResponse> T>
void Fields(Codec& codec, T& record) {
  codec(record.error);
}
template <typename Codec, Is<WatcherEvent> T>
void Fields(Codec& codec, T& record) {
  codec(record.type, record.state, record.path);
}
template <typename Codec, Is<CheckVersionRequest> T>
void Fields(Codec& codec, T& record) {
  codec(record.path, record.version);
}
template <typename Codec, Is<ErrorResponse> T>
void Fields(Codec& codec, T& record) {
  codec(record.error);
}

// ---- Multi: no count, but a header before every element, and one after the last that says so.

struct MultiHeader {
  OpCode op = OpCode::kError;
  bool done = false;
  int32_t error = -1;  // repeats the error of a result; -1 where there is none
};
template <typename Codec, Is<MultiHeader> T>
void Fields(Codec& codec, T& record) {
  codec(record.op, record.done, record.error);
}

namespace {

// Make `element` what `op` takes; false if there is no such element.
bool SetOp(OpCode op, MultiRequest::Operation* element) {
  element->op = op;
  if (op == OpCode::kCreate || op == OpCode::kCreate2) {
    element->body = CreateRequest();
  } else if (op == OpCode::kDelete) {
    element->body = DeleteRequest();
  } else if (op == OpCode::kSetData) {
    element->body = SetDataRequest();
  } else if (op == OpCode::kCheck) {
    element->body = CheckVersionRequest();
  } else {
    return false;
  }
  return true;
}
bool SetOp(OpCode op, MultiReadRequest::Operation* element) {
  element->op = op;
  if (op == OpCode::kGetData) {
    element->body = GetDataRequest();
  } else if (op == OpCode::kGetChildren) {
    element->body = GetChildrenRequest();
  } else {
    return false;
  }
  return true;
}
bool SetOp(OpCode op, MultiResponse::Result* element) {
  element->op = op;
  if (op == OpCode::kDelete || op == OpCode::kCheck) {
    element->body = EmptyResponse();
  } else if (op == OpCode::kCreate) {
    element->body = PathResponse();
  } else if (op == OpCode::kCreate2) {
    element->body = Create2Response();
  } else if (op == OpCode::kSetData) {
    element->body = StatResponse();
  } else if (op == OpCode::kGetData) {
    element->body = GetDataResponse();
  } else if (op == OpCode::kGetChildren) {
    element->body = GetChildrenResponse();
  } else if (op == OpCode::kError) {
    element->body = ErrorResponse();
  } else {
    return false;
  }
  return true;
}

int32_t HeaderError(const MultiRequest::Operation&) { return -1; }
int32_t HeaderError(const MultiReadRequest::Operation&) { return -1; }
int32_t HeaderError(const MultiResponse::Result& result) {
  const auto* error = std::get_if<ErrorResponse>(&result.body);
  return error == nullptr ? 0 : static_cast<int32_t>(error->error);
}

}  // namespace

template <typename Codec, typename Elements>
void MultiFields(Codec& codec, Elements& elements) {
  if constexpr (std::same_as<Codec, JuteReader>) {
    elements.clear();
    // Grows with what is read: every element takes more bytes than its header.
    for (MultiHeader header;;) {
      codec(header);
      if (!codec.ok() || header.done) return;
      auto& element = elements.emplace_back();
      if (!SetOp(header.op, &element)) return codec.Fail();
      std::visit([&](auto& body) { codec(body); }, element.body);
    }
  } else {
    for (const auto& element : elements) {
      codec(MultiHeader{.op = element.op, .error = HeaderError(element)});
      std::visit([&](const auto& body) { codec(body); }, element.body);
    }
    codec(MultiHeader{.done = true});
  }
}
template <typename Codec, typename T>
  requires Is<T, MultiRequest> || Is<T, MultiReadRequest>
void Fields(Codec& codec, T& record) {
  MultiFields(codec, record.operations);
}
template <typename Codec, Is<MultiResponse> T>
void Fields(Codec& codec, T& record) {
  MultiFields(codec, record.results);
}

template <typename Codec, Is<ConnectRequest> T>
void Fields(Codec& codec, T& record) {
  codec(record.protocol_version, record.last_zxid_seen, record.timeout_ms, record.session,
        record.password);
}
template <typename Codec, Is<ConnectResponse> T>
void Fields(Codec& codec, T& record) {
  codec(record.protocol_version, record.timeout_ms, record.session, record.password);
}

namespace {

// ---- What goes with each op code ---------------------------------------------------------------

RequestBody BodyOf(OpCode op) {
  switch (op) {
    case OpCode::kCreate:
    case OpCode::kCreate2:
      return CreateRequest();
    case OpCode::kDelete:
      return DeleteRequest();
    case OpCode::kExists:
      return ExistsRequest();
    case OpCode::kGetData:
      return GetDataRequest();
    case OpCode::kSetData:
      return SetDataRequest();
    case OpCode::kGetAcl:
      return GetAclRequest();
    case OpCode::kSetAcl:
      return SetAclRequest();
    case OpCode::kGetChildren:
    case OpCode::kGetChildren2:
      return GetChildrenRequest();
    case OpCode::kSync:
      return SyncRequest();
    case OpCode::kPing:
      return PingRequest();
    case OpCode::kAuth:
      return AuthRequest();
    case OpCode::kSetWatches:
      return SetWatchesRequest();
    case OpCode::kSetWatches2:
      return SetWatches2Request();
    case OpCode::kAddWatch:
      return AddWatchRequest();
    case OpCode::kCheckWatches:
    case OpCode::kRemoveWatches:
      return RemoveWatchesRequest();
    case OpCode::kCloseSession:
      return CloseSessionRequest();
    case OpCode::kMulti:
      return MultiRequest();
    case OpCode::kMultiRead:
      return MultiReadRequest();
    case OpCode::kCheck:
    case OpCode::kError:
      break;
  }
  return UnknownRequest();
}

ResponseBody ResponseOf(OpCode op) {
  switch (op) {
    case OpCode::kCreate:
    case OpCode::kSync:
      return PathResponse();
    case OpCode::kCreate2:
      return Create2Response();
    case OpCode::kExists:
    case OpCode::kSetData:
    case OpCode::kSetAcl:
      return StatResponse();
    case OpCode::kGetData:
      return GetDataResponse();
    case OpCode::kGetAcl:
      return GetAclResponse();
    case OpCode::kGetChildren:
      return GetChildrenResponse();
    case OpCode::kGetChildren2:
      return GetChildren2Response();
    case OpCode::kAddWatch:
      return AddWatchResponse();
    case OpCode::kDelete:
    case OpCode::kPing:
    case OpCode::kAuth:
    case OpCode::kSetWatches:
    case OpCode::kSetWatches2:
    case OpCode::kCheckWatches:
    case OpCode::kRemoveWatches:
    case OpCode::kCloseSession:
    case OpCode::kCheck:
    case OpCode::kError:
      return EmptyResponse();
    case OpCode::kMulti:
    case OpCode::kMultiRead:
      return MultiResponse();
  }
  return EmptyResponse();
}

// ---- ConnectRequest and ConnectResponse: the last byte may be missing --------------------------

template <typename Connect>
absl::StatusOr<Connect> DecodeConnect(const Bytes& frame) {
  Connect connect;
  JuteReader reader(frame);
  reader(connect);
  connect.has_read_only = reader.remaining() > 0;
  if (connect.has_read_only) reader(connect.read_only);
  if (!reader.ok()) return absl::InvalidArgumentError("malformed connect record");
  return connect;
}

template <typename Connect>
Bytes EncodeConnect(const Connect& connect) {
  return JuteBuildFrame([&](auto& codec) {
    codec(connect);
    if (connect.has_read_only) codec(connect.read_only);
  });
}

}  // namespace

std::string ToString(OpCode op) {
  switch (op) {
    case OpCode::kCreate:
      return "create";
    case OpCode::kDelete:
      return "delete";
    case OpCode::kExists:
      return "exists";
    case OpCode::kGetData:
      return "getData";
    case OpCode::kSetData:
      return "setData";
    case OpCode::kGetAcl:
      return "getACL";
    case OpCode::kSetAcl:
      return "setACL";
    case OpCode::kGetChildren:
      return "getChildren";
    case OpCode::kSync:
      return "sync";
    case OpCode::kPing:
      return "ping";
    case OpCode::kGetChildren2:
      return "getChildren2";
    case OpCode::kCreate2:
      return "create2";
    case OpCode::kAuth:
      return "auth";
    case OpCode::kSetWatches:
      return "setWatches";
    case OpCode::kSetWatches2:
      return "setWatches2";
    case OpCode::kAddWatch:
      return "addWatch";
    case OpCode::kCheckWatches:
      return "checkWatches";
    case OpCode::kRemoveWatches:
      return "removeWatches";
    case OpCode::kCloseSession:
      return "closeSession";
    case OpCode::kCheck:
      return "check";
    case OpCode::kMulti:
      return "multi";
    case OpCode::kMultiRead:
      return "multiRead";
    case OpCode::kError:
      return "error";
  }
  return "op " + std::to_string(static_cast<int32_t>(op));
}

absl::StatusOr<ConnectRequest> DecodeConnectRequest(const Bytes& frame) {
  return DecodeConnect<ConnectRequest>(frame);
}
Bytes EncodeConnectRequest(const ConnectRequest& request) { return EncodeConnect(request); }

absl::StatusOr<ConnectResponse> DecodeConnectResponse(const Bytes& frame) {
  return DecodeConnect<ConnectResponse>(frame);
}
Bytes EncodeConnectResponse(const ConnectResponse& response) { return EncodeConnect(response); }

absl::StatusOr<Request> DecodeRequest(Bytes frame) {
  Request request;
  request.frame = std::move(frame);
  JuteReader reader(request.frame);
  reader(request.xid, request.op);
  request.body = BodyOf(request.op);
  std::visit([&](auto& body) { reader(body); }, request.body);
  if (!reader.ok()) return absl::InvalidArgumentError("malformed request");
  return request;
}

Bytes EncodeRequest(int32_t xid, OpCode op, const RequestBody& body) {
  LS_CHECK_EQ(BodyOf(op).index(), body.index());
  return JuteBuildFrame([&](auto& codec) {
    codec(xid, op);
    std::visit([&](const auto& record) { codec(record); }, body);
  });
}

Bytes EncodeReply(const ReplyHeader& header, const ResponseBody& body) {
  if (header.error != ErrorCode::kOk) LS_CHECK(std::holds_alternative<EmptyResponse>(body));
  return JuteBuildFrame([&](auto& codec) {
    codec(header);
    std::visit([&](const auto& record) { codec(record); }, body);
  });
}

absl::StatusOr<ReplyHeader> DecodeReplyHeader(const Bytes& frame) {
  ReplyHeader header;
  JuteReader reader(frame);
  reader(header);
  if (!reader.ok()) return absl::InvalidArgumentError("malformed reply header");
  return header;
}

absl::StatusOr<ResponseBody> DecodeResponse(OpCode op, const Bytes& frame) {
  ReplyHeader header;
  JuteReader reader(frame);
  reader(header);
  ResponseBody body = header.error == ErrorCode::kOk ? ResponseOf(op) : EmptyResponse();
  std::visit([&](auto& record) { reader(record); }, body);
  if (!reader.ok()) return absl::InvalidArgumentError("malformed reply");
  return body;
}

Bytes EncodeWatcherEvent(Zxid zxid, const WatcherEvent& event) {
  const ReplyHeader header{kXidNotification, zxid, ErrorCode::kOk};
  return JuteBuildFrame([&](auto& codec) { codec(header, event); });
}

absl::StatusOr<WatcherEvent> DecodeWatcherEvent(const Bytes& frame) {
  ReplyHeader header;
  WatcherEvent event;
  JuteReader reader(frame);
  reader(header, event);
  if (!reader.ok()) return absl::InvalidArgumentError("malformed event");
  if (header.xid != kXidNotification) return absl::InvalidArgumentError("not an event");
  return event;
}

}  // namespace lockstep::coordination
