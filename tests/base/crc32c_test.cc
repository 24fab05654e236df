#include "core/base/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

TEST(Crc32c, KnownVectors) {
  EXPECT_EQ(Crc32c(0, ""), 0u);
  EXPECT_EQ(Crc32c(0, "123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(0, std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
  EXPECT_EQ(Crc32c(Crc32c(0, "12345"), "6789"), 0xe3069283u);
}

}  // namespace
}  // namespace lockstep
