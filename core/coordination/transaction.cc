#include "core/coordination/transaction.h"

#include <string_view>
#include <type_traits>

#include "absl/status/status.h"
#include "core/base/check.h"
#include "core/coordination/jute.h"
#include "core/coordination/jute_records.h"
#include "core/coordination/path.h"

namespace lockstep::coordination {

template <typename Codec, Is<TransactionHeader> T>
void Fields(Codec& codec, T& record) {
  codec(record.session, record.origin.value, record.connection.value, record.xid, record.time_ms);
}
template <typename Codec, Is<CreateTransaction> T>
void Fields(Codec& codec, T& record) {
  codec(record.path);
  BufferField(codec, record.data, record.null_data);
  codec(record.acl, record.ephemeral, record.parent_cversion);
}
template <typename Codec, Is<DeleteTransaction> T>
void Fields(Codec& codec, T& record) {
  codec(record.path);
}
template <typename Codec, Is<SetDataTransaction> T>
void Fields(Codec& codec, T& record) {
  codec(record.path);
  BufferField(codec, record.data, record.null_data);
  codec(record.version);
}
template <typename Codec, Is<CreateSessionTransaction> T>
void Fields(Codec& codec, T& record) {
  codec(record.timeout_ms, record.password);
}
template <typename Codec, Is<CloseSessionTransaction> T>
void Fields(Codec& codec, T& record) {
  codec(record.paths_to_delete);
}
template <typename Codec, Is<ErrorTransaction> T>
void Fields(Codec& codec, T& record) {
  codec(record.error);
}

template <typename Codec, Is<CheckVersionTransaction> T>
void Fields(Codec& codec, T& record) {
  codec(record.path, record.version);
}
template <typename Codec, Is<MultiErrorTransaction> T>
void Fields(Codec& codec, T& record) {
  codec(record.error, record.operation);
}

namespace {

// Of the layout. A new kind of body needs no new version: what was written before stays as it is,
// and who does not know the kind refuses it by its number.
constexpr uint8_t kVersion = 1;

// The byte that names a body. Part of the format: never renumber, never reuse.
enum class Kind : uint8_t {
  kCreate = 1,
  kDelete = 2,
  kSetData = 3,
  kCreateSession = 4,
  kCloseSession = 5,
  kError = 6,
  kMulti = 7,
  kCheckVersion = 8,  // in a multi only
  kMultiError = 9,
};

Kind KindOf(const CreateTransaction&) { return Kind::kCreate; }
Kind KindOf(const DeleteTransaction&) { return Kind::kDelete; }
Kind KindOf(const SetDataTransaction&) { return Kind::kSetData; }
Kind KindOf(const CreateSessionTransaction&) { return Kind::kCreateSession; }
Kind KindOf(const CloseSessionTransaction&) { return Kind::kCloseSession; }
Kind KindOf(const ErrorTransaction&) { return Kind::kError; }
Kind KindOf(const MultiTransaction&) { return Kind::kMulti; }
Kind KindOf(const CheckVersionTransaction&) { return Kind::kCheckVersion; }
Kind KindOf(const MultiErrorTransaction&) { return Kind::kMultiError; }

// Make `body` the kind of body that `kind` names; false if it names none.
bool SetKind(Kind kind, MultiTransaction::Operation* body) {
  switch (kind) {
    case Kind::kCreate:
      *body = CreateTransaction();
      return true;
    case Kind::kDelete:
      *body = DeleteTransaction();
      return true;
    case Kind::kSetData:
      *body = SetDataTransaction();
      return true;
    case Kind::kCheckVersion:
      *body = CheckVersionTransaction();
      return true;
    default:
      return false;
  }
}
bool SetKind(Kind kind, TransactionBody* body) {
  switch (kind) {
    case Kind::kCreate:
      *body = CreateTransaction();
      return true;
    case Kind::kDelete:
      *body = DeleteTransaction();
      return true;
    case Kind::kSetData:
      *body = SetDataTransaction();
      return true;
    case Kind::kCreateSession:
      *body = CreateSessionTransaction();
      return true;
    case Kind::kCloseSession:
      *body = CloseSessionTransaction();
      return true;
    case Kind::kError:
      *body = ErrorTransaction();
      return true;
    case Kind::kMulti:
      *body = MultiTransaction();
      return true;
    case Kind::kMultiError:
      *body = MultiErrorTransaction();
      return true;
    case Kind::kCheckVersion:
      break;
  }
  return false;
}

// What the format cannot say by itself, so that nothing unvalidated reaches the tree.
absl::Status Validate(const CreateTransaction& body) { return ValidatePath(body.path); }
absl::Status Validate(const DeleteTransaction& body) { return ValidatePath(body.path); }
absl::Status Validate(const SetDataTransaction& body) { return ValidatePath(body.path); }
absl::Status Validate(const CreateSessionTransaction&) { return absl::OkStatus(); }
absl::Status Validate(const CloseSessionTransaction& body) {
  for (const std::string& path : body.paths_to_delete) {
    if (absl::Status status = ValidatePath(path); !status.ok()) return status;
  }
  return absl::OkStatus();
}
absl::Status Validate(const ErrorTransaction&) { return absl::OkStatus(); }
absl::Status Validate(const CheckVersionTransaction& body) { return ValidatePath(body.path); }
absl::Status Validate(const MultiTransaction& body) {
  for (const MultiTransaction::Operation& operation : body.operations) {
    absl::Status status = std::visit([](const auto& one) { return Validate(one); }, operation);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}
absl::Status Validate(const MultiErrorTransaction& body) {
  if (body.error != ErrorCode::kOk) return absl::OkStatus();
  return absl::InvalidArgumentError("refusal of a multi without an error");
}

}  // namespace

// An operation of a multi is written as a transaction is: its kind, its body.
template <typename Codec, Is<MultiTransaction::Operation> T>
void Fields(Codec& codec, T& operation) {
  if constexpr (std::same_as<Codec, JuteReader>) {
    Kind kind{};
    codec(kind);
    if (!SetKind(kind, &operation)) return codec.Fail();
    std::visit([&](auto& body) { codec(body); }, operation);
  } else {
    std::visit([&](const auto& body) { codec(KindOf(body), body); }, operation);
  }
}
template <typename Codec, Is<MultiTransaction> T>
void Fields(Codec& codec, T& record) {
  codec(record.operations);
}

Bytes EncodeTransaction(const TransactionHeader& header, const TransactionBody& body) {
  return std::visit(
      [&](const auto& record) {
        return JuteBuild([&](auto& codec) { codec(kVersion, header, KindOf(record), record); });
      },
      body);
}

absl::StatusOr<DecodedTransaction> DecodeTransaction(const Bytes& bytes) {
  DecodedTransaction decoded;
  uint8_t version = 0;
  Kind kind{};
  JuteReader reader(bytes);
  reader(version);
  if (!reader.ok() || version != kVersion) {
    return absl::InvalidArgumentError("unknown version of transaction");
  }
  reader(decoded.header, kind);
  if (!reader.ok() || !SetKind(kind, &decoded.body)) {
    return absl::InvalidArgumentError("malformed transaction header");
  }
  std::visit([&](auto& record) { reader(record); }, decoded.body);
  if (!reader.ok() || reader.remaining() > 0) {
    return absl::InvalidArgumentError("malformed transaction body");
  }
  if (decoded.header.origin.value > kServerIdMax) {
    return absl::InvalidArgumentError("transaction of an impossible server");
  }
  absl::Status valid =
      std::visit([](const auto& record) { return Validate(record); }, decoded.body);
  if (!valid.ok()) return valid;
  return decoded;
}

}  // namespace lockstep::coordination
