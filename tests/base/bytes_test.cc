#include "core/base/bytes.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Bytes, SliceSharesTheBuffer) {
  Bytes whole = Bytes::Copy("hello world");
  Bytes part = whole.Slice(6, 5);

  EXPECT_EQ(part.view(), "world");
  EXPECT_EQ(part.data(), whole.data() + 6);
}

TEST(Bytes, SliceOutlivesTheWhole) {
  Bytes part;
  {
    Bytes whole = Bytes::Copy("hello world");
    part = whole.Slice(6);
  }
  EXPECT_EQ(part.view(), "world");
}

TEST(Bytes, EmptyHasNoBuffer) {
  EXPECT_EQ(Bytes::Copy("").data(), nullptr);
  EXPECT_TRUE(Bytes().empty());
  EXPECT_EQ(Bytes(), Bytes::Copy("x").Slice(1));
}

TEST(Bytes, AssignmentToItselfKeepsTheContent) {
  Bytes bytes = Bytes::Copy("abc");
  const Bytes& alias = bytes;
  bytes = alias;
  EXPECT_EQ(bytes.view(), "abc");
}

TEST(BytesDeathTest, SliceBeyondTheEndStopsTheProcess) {
  EXPECT_DEATH((void)Bytes::Copy("abc").Slice(1, 3), "check failed");
}

}  // namespace
}  // namespace lockstep
