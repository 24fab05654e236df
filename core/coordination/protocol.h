// ZooKeeper's client protocol, both directions: plain structs, decoders of frames, encoders to
// frames. docs/coordination.md, "Client protocol".
//
// Decoders take a frame without its length (see FrameCutter); encoders write the length too.
// Strings and payloads of what was decoded are never copied: they are views and slices of the
// frame, which the decoded object keeps. Bad bytes give an error, upon which the connection is to
// be closed. Bytes after the last field are ignored, as ZooKeeper does: newer clients append
// fields.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/bytes.h"
#include "core/base/ids.h"
#include "core/base/zxid.h"
#include "core/coordination/stat.h"
#include "core/coordination/transaction.h"

namespace lockstep::coordination {

enum class OpCode : int32_t {
  kCreate = 1,
  kDelete = 2,
  kExists = 3,
  kGetData = 4,
  kSetData = 5,
  kGetAcl = 6,
  kSetAcl = 7,
  kGetChildren = 8,
  kSync = 9,
  kPing = 11,
  kGetChildren2 = 12,
  kCheck = 13,  // in a multi only
  kMulti = 14,
  kCreate2 = 15,
  kCheckWatches = 17,
  kRemoveWatches = 18,
  kMultiRead = 22,
  kAuth = 100,
  kSetWatches = 101,
  kSetWatches2 = 105,
  kAddWatch = 106,
  kCloseSession = -11,
  kError = -1,  // of a result in a MultiResponse only
};
// "getData"; "op 99" for what has no name here.
std::string ToString(OpCode op);

// The xids that are not a client's own count.
inline constexpr int32_t kXidNotification = -1;
inline constexpr int32_t kXidPing = -2;
inline constexpr int32_t kXidAuth = -4;
inline constexpr int32_t kXidSetWatches = -8;  // and setWatches2

// Any version of the data: delete and setData without a condition.
inline constexpr int32_t kAnyVersion = -1;

// ---- Connecting --------------------------------------------------------------------------------

// The first frame of a client.
struct ConnectRequest {
  int32_t protocol_version = 0;
  Zxid last_zxid_seen;
  int32_t timeout_ms = 0;
  SessionId session;  // 0 = a new one
  std::string password;
  bool read_only = false;
  // Clients before 3.4 have no such byte; they must not get one back.
  bool has_read_only = true;
  bool operator==(const ConnectRequest&) const = default;
};
absl::StatusOr<ConnectRequest> DecodeConnectRequest(const Bytes& frame);
Bytes EncodeConnectRequest(const ConnectRequest& request);

// The first frame of a server. A session that was refused or has expired: timeout 0, session 0 and
// a password of 16 zero bytes (see kNoPassword).
struct ConnectResponse {
  int32_t protocol_version = 0;
  int32_t timeout_ms = 0;
  SessionId session;
  std::string password;
  bool read_only = false;
  bool has_read_only = true;
  bool operator==(const ConnectResponse&) const = default;
};
inline constexpr std::string_view kNoPassword{"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16};
absl::StatusOr<ConnectResponse> DecodeConnectResponse(const Bytes& frame);
Bytes EncodeConnectResponse(const ConnectResponse& response);

// ---- Requests ----------------------------------------------------------------------------------

// A jute buffer: bytes or null, which ZooKeeper tells apart.
struct Data {
  Bytes bytes;
  bool null = false;  // bytes are then empty
  bool operator==(const Data&) const = default;
};

// Paths are as the client sent them, not validated (see path.h). A null string is decoded as an
// empty one: no place of the protocol gives the two different meanings.
struct CreateRequest {                       // create, create2
  static constexpr int32_t kEphemeral = 1;   // bits of flags
  static constexpr int32_t kSequential = 2;  // flags above 3 (containers, TTLs) are newer modes

  std::string_view path;
  Data data;
  std::vector<Acl> acl;
  int32_t flags = 0;
  bool operator==(const CreateRequest&) const = default;
};
struct DeleteRequest {
  std::string_view path;
  int32_t version = kAnyVersion;
  bool operator==(const DeleteRequest&) const = default;
};
struct ExistsRequest {
  std::string_view path;
  bool watch = false;
  bool operator==(const ExistsRequest&) const = default;
};
struct GetDataRequest {
  std::string_view path;
  bool watch = false;
  bool operator==(const GetDataRequest&) const = default;
};
struct SetDataRequest {
  std::string_view path;
  Data data;
  int32_t version = kAnyVersion;
  bool operator==(const SetDataRequest&) const = default;
};
struct GetAclRequest {
  std::string_view path;
  bool operator==(const GetAclRequest&) const = default;
};
struct SetAclRequest {
  std::string_view path;
  std::vector<Acl> acl;
  int32_t version = kAnyVersion;  // of the ACL
  bool operator==(const SetAclRequest&) const = default;
};
struct GetChildrenRequest {  // getChildren, getChildren2
  std::string_view path;
  bool watch = false;
  bool operator==(const GetChildrenRequest&) const = default;
};
struct SyncRequest {
  std::string_view path;
  bool operator==(const SyncRequest&) const = default;
};
struct PingRequest {
  bool operator==(const PingRequest&) const = default;
};
struct CloseSessionRequest {
  bool operator==(const CloseSessionRequest&) const = default;
};
// A client that has reconnected restores its watches: those that missed a change after
// `relative_zxid` fire at once.
struct SetWatchesRequest {
  Zxid relative_zxid;
  std::vector<std::string_view> data;
  std::vector<std::string_view> exist;
  std::vector<std::string_view> child;
  bool operator==(const SetWatchesRequest&) const = default;
};
// The same and persistent watches, which are only set: the client reads anew what they are about.
struct SetWatches2Request {
  SetWatchesRequest one_shot;
  std::vector<std::string_view> persistent;
  std::vector<std::string_view> recursive;
  bool operator==(const SetWatches2Request&) const = default;
};
enum class AddWatchMode : int32_t { kPersistent = 0, kPersistentRecursive = 1 };
struct AddWatchRequest {
  std::string_view path;
  AddWatchMode mode{};  // any value
  bool operator==(const AddWatchRequest&) const = default;
};
// kData and kChildren are the one-shot ones. The last two are known since ZooKeeper 3.9.
enum class WatcherType : int32_t {
  kChildren = 1,
  kData = 2,
  kAny = 3,
  kPersistent = 4,
  kPersistentRecursive = 5,
};
struct RemoveWatchesRequest {  // checkWatches, removeWatches
  std::string_view path;
  WatcherType type{};  // any value
  bool operator==(const RemoveWatchesRequest&) const = default;
};
struct AuthRequest {
  int32_t type = 0;
  std::string_view scheme;
  Data auth;
  bool operator==(const AuthRequest&) const = default;
};
// That the node is there and its data has this version.
struct CheckVersionRequest {
  std::string_view path;
  int32_t version = kAnyVersion;
  bool operator==(const CheckVersionRequest&) const = default;
};
// Writes that take effect together or not at all. Its size is bounded by that of the frame alone;
// an operation of any other kind makes the request malformed.
struct MultiRequest {
  struct Operation {
    OpCode op{};  // create and create2 have the same body
    std::variant<CreateRequest, DeleteRequest, SetDataRequest, CheckVersionRequest> body;
    bool operator==(const Operation&) const = default;
  };
  std::vector<Operation> operations;
  bool operator==(const MultiRequest&) const = default;
};
// Reads of one state. Unlike those of a multi, each succeeds or fails by itself.
struct MultiReadRequest {
  struct Operation {
    OpCode op{};  // getData or getChildren
    std::variant<GetDataRequest, GetChildrenRequest> body;
    bool operator==(const Operation&) const = default;
  };
  std::vector<Operation> operations;
  bool operator==(const MultiReadRequest&) const = default;
};
// An op code that is not known here; its body was not looked at.
struct UnknownRequest {
  bool operator==(const UnknownRequest&) const = default;
};
using RequestBody = std::variant<UnknownRequest, CreateRequest, DeleteRequest, ExistsRequest,
                                 GetDataRequest, SetDataRequest, GetAclRequest, SetAclRequest,
                                 GetChildrenRequest, SyncRequest, PingRequest, CloseSessionRequest,
                                 SetWatchesRequest, SetWatches2Request, AddWatchRequest,
                                 RemoveWatchesRequest, AuthRequest, MultiRequest, MultiReadRequest>;

struct Request {
  int32_t xid = 0;
  OpCode op{};  // any value, if the body is an UnknownRequest
  RequestBody body;
  Bytes frame;  // what the views of `body` point into
};
absl::StatusOr<Request> DecodeRequest(Bytes frame);
// Requires: `body` is what `op` takes.
Bytes EncodeRequest(int32_t xid, OpCode op, const RequestBody& body);

// ---- Replies -----------------------------------------------------------------------------------

struct ReplyHeader {
  int32_t xid = 0;
  Zxid zxid;
  ErrorCode error = ErrorCode::kOk;
  bool operator==(const ReplyHeader&) const = default;
};

// delete, ping, auth, setWatches, setWatches2, checkWatches, removeWatches, closeSession; every
// error
struct EmptyResponse {
  bool operator==(const EmptyResponse&) const = default;
};
struct PathResponse {  // create, sync
  std::string_view path;
  bool operator==(const PathResponse&) const = default;
};
struct Create2Response {
  std::string_view path;
  Stat stat;
  bool operator==(const Create2Response&) const = default;
};
struct StatResponse {  // exists, setData, setACL
  Stat stat;
  bool operator==(const StatResponse&) const = default;
};
struct GetDataResponse {
  Data data;
  Stat stat;
  bool operator==(const GetDataResponse&) const = default;
};
struct GetAclResponse {
  std::vector<Acl> acl;
  Stat stat;
  bool operator==(const GetAclResponse&) const = default;
};
struct GetChildrenResponse {
  std::vector<std::string_view> children;  // names; see Znode::ChildNames
  bool operator==(const GetChildrenResponse&) const = default;
};
struct GetChildren2Response {
  std::vector<std::string_view> children;
  Stat stat;
  bool operator==(const GetChildren2Response&) const = default;
};
struct AddWatchResponse {
  int32_t error = 0;  // always: the header has the error
  bool operator==(const AddWatchResponse&) const = default;
};
struct ErrorResponse {  // in a MultiResponse only
  ErrorCode error = ErrorCode::kOk;
  bool operator==(const ErrorResponse&) const = default;
};
// One result for each operation of a multi or multiRead. The header of the reply says kOk also when
// a multi was refused; every result is an error then: kOk for the operations before the one that
// failed, its own code for that one, kRuntimeInconsistency for those after it.
struct MultiResponse {
  struct Result {
    OpCode op{};  // that of the operation, or kError
    std::variant<EmptyResponse, PathResponse, Create2Response, StatResponse, GetDataResponse,
                 GetChildrenResponse, ErrorResponse>
        body;
    bool operator==(const Result&) const = default;
  };
  std::vector<Result> results;
  bool operator==(const MultiResponse&) const = default;
};
using ResponseBody = std::variant<EmptyResponse, PathResponse, Create2Response, StatResponse,
                                  GetDataResponse, GetAclResponse, GetChildrenResponse,
                                  GetChildren2Response, AddWatchResponse, MultiResponse>;

// Views of `body` need to live for the call only.
Bytes EncodeReply(const ReplyHeader& header, const ResponseBody& body = EmptyResponse());

absl::StatusOr<ReplyHeader> DecodeReplyHeader(const Bytes& frame);
// The body of the reply `frame` to a request of kind `op`: empty if its header says an error, or if
// `op` is not known here. The views of the result point into `frame`.
absl::StatusOr<ResponseBody> DecodeResponse(OpCode op, const Bytes& frame);

// ---- Events ------------------------------------------------------------------------------------

enum class WatchEventType : int32_t {
  kNone = -1,
  kNodeCreated = 1,
  kNodeDeleted = 2,
  kNodeDataChanged = 3,
  kNodeChildrenChanged = 4,
};
inline constexpr int32_t kStateSyncConnected = 3;  // of the session, as events tell it

// A reply whose header has the xid kXidNotification.
struct WatcherEvent {
  WatchEventType type = WatchEventType::kNone;
  int32_t state = kStateSyncConnected;
  std::string_view path;
  bool operator==(const WatcherEvent&) const = default;
};
// `zxid` is that of the change.
Bytes EncodeWatcherEvent(Zxid zxid, const WatcherEvent& event);
// The path of the result points into `frame`.
absl::StatusOr<WatcherEvent> DecodeWatcherEvent(const Bytes& frame);

}  // namespace lockstep::coordination
