// Bytes of a transaction: decoded, encoded again, and the same transaction comes back.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "core/coordination/transaction.h"

using lockstep::Bytes;
using lockstep::coordination::DecodeTransaction;
using lockstep::coordination::EncodeTransaction;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto transaction =
      DecodeTransaction(Bytes::Copy(std::string_view(reinterpret_cast<const char*>(data), size)));
  if (!transaction.ok()) return 0;
  auto again = DecodeTransaction(EncodeTransaction(transaction->header, transaction->body));
  LS_CHECK(again.ok());
  LS_CHECK(*again == *transaction);
  return 0;
}
