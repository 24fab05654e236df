// Text that claims to be a schedule. What can be read is written again, and reads the same.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "sim/schedule_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep::sim;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto read = ParseSchedule(text);
  if (!read.ok()) return 0;
  const std::string written = ToText(read->schedule);
  const auto again = ParseSchedule(written);
  LS_CHECK(again.ok());
  LS_CHECK(again->unknown.empty());
  LS_CHECK(ToText(again->schedule) == written);
  return 0;
}
