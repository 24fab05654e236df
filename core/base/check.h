// Checks of our own invariants. Always on, in release builds too: continuing on a broken invariant
// of a replication protocol is worse than stopping, since what follows may be acknowledged.
//
// Never use a check on bytes from outside: decoders return absl::StatusOr instead.
#pragma once

#include <string>

namespace lockstep {

// Prints `file:line: check failed: expression (detail)` to standard error and aborts, after giving
// the hook below the chance to add context (the simulator prints the seed).
[[noreturn]] void CheckFailed(const char* file, int line, const char* expression,
                              const std::string& detail);

// Called once by CheckFailed before the process aborts. It may itself not return (the simulator
// throws, in order to report a failed check of one seed and go on). Null by default.
using CheckHook = void (*)(const char* file, int line, const char* expression,
                           const std::string& detail);
void SetCheckHook(CheckHook hook);

namespace internal {
std::string Describe(const std::string& value);
std::string Describe(bool value);
std::string Describe(long long value);
std::string Describe(unsigned long long value);

template <typename T>
std::string DescribeValue(const T& value) {
  if constexpr (requires { value.ToString(); }) {
    return value.ToString();
  } else if constexpr (std::is_same_v<T, bool>) {
    return Describe(value);
  } else if constexpr (std::is_enum_v<T>) {
    return Describe(static_cast<long long>(value));
  } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    return Describe(static_cast<long long>(value));
  } else if constexpr (std::is_integral_v<T>) {
    return Describe(static_cast<unsigned long long>(value));
  } else {
    return Describe(std::string(value));
  }
}
}  // namespace internal
}  // namespace lockstep

#define LS_CHECK(condition) \
  ((condition) ? (void)0 : ::lockstep::CheckFailed(__FILE__, __LINE__, #condition, ""))

#define LS_CHECK_OP_(a, op, b)                                                     \
  do {                                                                             \
    const auto& ls_a = (a);                                                        \
    const auto& ls_b = (b);                                                        \
    if (!(ls_a op ls_b)) {                                                         \
      ::lockstep::CheckFailed(__FILE__, __LINE__, #a " " #op " " #b,               \
                              ::lockstep::internal::DescribeValue(ls_a) + " vs " + \
                                  ::lockstep::internal::DescribeValue(ls_b));      \
    }                                                                              \
  } while (false)

#define LS_CHECK_EQ(a, b) LS_CHECK_OP_(a, ==, b)
#define LS_CHECK_NE(a, b) LS_CHECK_OP_(a, !=, b)
#define LS_CHECK_LE(a, b) LS_CHECK_OP_(a, <=, b)
#define LS_CHECK_LT(a, b) LS_CHECK_OP_(a, <, b)
#define LS_CHECK_GE(a, b) LS_CHECK_OP_(a, >=, b)
#define LS_CHECK_GT(a, b) LS_CHECK_OP_(a, >, b)

// For the end of a switch over an enum of our own, or another place that no input can reach.
#define LS_UNREACHABLE() ::lockstep::CheckFailed(__FILE__, __LINE__, "unreachable", "")
