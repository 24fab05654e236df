// Transactions: what the leader makes of a client's request and Zab orders. Idempotent in the sense
// that all decisions are taken: versions, sequence numbers, times and paths are in them, so that
// applying one depends on nothing but the tree.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/bytes.h"
#include "core/base/ids.h"

namespace lockstep::coordination {

// ZooKeeper's error codes, as on the wire.
enum class ErrorCode : int32_t {
  kOk = 0,
  kSystemError = -1,
  kRuntimeInconsistency = -2,
  kDataInconsistency = -3,
  kConnectionLoss = -4,
  kMarshallingError = -5,
  kUnimplemented = -6,
  kOperationTimeout = -7,
  kBadArguments = -8,
  kUnknownSession = -12,
  kNewConfigNoQuorum = -13,
  kReconfigInProgress = -14,
  kApiError = -100,
  kNoNode = -101,
  kNoAuth = -102,
  kBadVersion = -103,
  kNoChildrenForEphemerals = -108,
  kNodeExists = -110,
  kNotEmpty = -111,
  kSessionExpired = -112,
  kInvalidCallback = -113,
  kInvalidAcl = -114,
  kAuthFailed = -115,
  kSessionMoved = -118,
  kNotReadOnly = -119,
  kEphemeralOnLocalSession = -120,
  kNoWatcher = -121,
  kRequestTimeout = -122,
  kReconfigDisabled = -123,
  kSessionClosedRequireSasl = -124,
  kQuotaExceeded = -125,
  kThrottledOp = -127,
};

struct Acl {
  int32_t permissions = 31;  // read 1, write 2, create 4, delete 8, admin 16
  std::string scheme;
  std::string id;
  bool operator==(const Acl&) const = default;
};

struct TransactionHeader {
  SessionId session;
  // Where the answer goes: the server and the connection that the request came in by, and the
  // client's xid. A reply is matched by all of them, so that a request left behind by a moved
  // session can never be taken for one of its new connection.
  ServerId origin;
  ConnectionId connection;
  int32_t xid = 0;
  int64_t time_ms = 0;  // the leader's wall clock
  bool operator==(const TransactionHeader&) const = default;
};

struct CreateTransaction {
  std::string path;  // final, with the sequence number
  Bytes data;
  bool null_data = false;  // the client sent null, not an empty payload; `data` is then empty
  std::vector<Acl> acl;
  bool ephemeral = false;  // owner is the header's session
  // Of the parent, after this create: its stored cversion (see stat.h) plus one. What that was
  // before is also the sequence number, which is why numbers do not skip when a child is deleted.
  int32_t parent_cversion = 0;
  bool operator==(const CreateTransaction&) const = default;
};
struct DeleteTransaction {
  std::string path;
  bool operator==(const DeleteTransaction&) const = default;
};
struct SetDataTransaction {
  std::string path;
  Bytes data;
  bool null_data = false;
  int32_t version = 0;  // after this change
  bool operator==(const SetDataTransaction&) const = default;
};
struct CreateSessionTransaction {
  int32_t timeout_ms = 0;
  std::string password;
  bool operator==(const CreateSessionTransaction&) const = default;
};
struct CloseSessionTransaction {
  // All ephemerals of the session as of this transaction, in the order of deletion.
  std::vector<std::string> paths_to_delete;
  bool operator==(const CloseSessionTransaction&) const = default;
};
// The request was refused; it takes a place in the order so that the refusal is as of that place.
struct ErrorTransaction {
  ErrorCode error = ErrorCode::kOk;
  bool operator==(const ErrorTransaction&) const = default;
};
// Changes nothing. The leader has found the node with this version of its data.
struct CheckVersionTransaction {
  std::string path;
  int32_t version = 0;
  bool operator==(const CheckVersionTransaction&) const = default;
};
// Operations that take effect at one zxid, in their order: no server shows a part of them, and no
// snapshot has one (ZOOKEEPER-3127).
struct MultiTransaction {
  using Operation = std::variant<CreateTransaction, DeleteTransaction, SetDataTransaction,
                                 CheckVersionTransaction>;
  std::vector<Operation> operations;
  bool operator==(const MultiTransaction&) const = default;
};
// A multi was refused because of one of its operations; as ErrorTransaction.
struct MultiErrorTransaction {
  ErrorCode error = ErrorCode::kOk;
  uint32_t operation = 0;  // from 0
  bool operator==(const MultiErrorTransaction&) const = default;
};
using TransactionBody = std::variant<CreateTransaction, DeleteTransaction, SetDataTransaction,
                                     CreateSessionTransaction, CloseSessionTransaction,
                                     ErrorTransaction, MultiTransaction, MultiErrorTransaction>;

struct DecodedTransaction {
  TransactionHeader header;
  TransactionBody body;
  bool operator==(const DecodedTransaction&) const = default;
};

// docs/coordination.md, "Transactions", has the format.
Bytes EncodeTransaction(const TransactionHeader& header, const TransactionBody& body);
// The payloads (`data`) of the result share the buffer of `bytes`.
absl::StatusOr<DecodedTransaction> DecodeTransaction(const Bytes& bytes);

}  // namespace lockstep::coordination
