#include "core/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace lockstep {
namespace {
CheckHook check_hook = nullptr;
}  // namespace

void SetCheckHook(CheckHook hook) { check_hook = hook; }

void CheckFailed(const char* file, int line, const char* expression, const std::string& detail) {
  if (check_hook != nullptr) check_hook(file, line, expression, detail);
  std::fprintf(stderr, "%s:%d: check failed: %s%s%s%s\n", file, line, expression,
               detail.empty() ? "" : " (", detail.c_str(), detail.empty() ? "" : ")");
  std::abort();
}

namespace internal {
std::string Describe(const std::string& value) { return value; }
std::string Describe(bool value) { return value ? "true" : "false"; }
std::string Describe(long long value) { return std::to_string(value); }
std::string Describe(unsigned long long value) { return std::to_string(value); }
}  // namespace internal
}  // namespace lockstep
