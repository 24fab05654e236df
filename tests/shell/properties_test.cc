#include "shell/properties.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::shell {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Properties, SeparatorIsEqualsColonOrBlank) {
  EXPECT_THAT(ReadProperties("a=1\nb: 2\nc 3\nd  =  4\n"),
              ElementsAre(Property{"a", "1", 1}, Property{"b", "2", 2}, Property{"c", "3", 3},
                          Property{"d", "4", 4}));
}

TEST(Properties, CommentsAndBlankLinesAreSkippedButCounted) {
  EXPECT_THAT(ReadProperties("# one\n\n  ! three\n   \na=1"), ElementsAre(Property{"a", "1", 5}));
}

TEST(Properties, EveryKindOfLineEndIsOne) {
  EXPECT_THAT(ReadProperties("a=1\r\nb=2\rc=3\n"),
              ElementsAre(Property{"a", "1", 1}, Property{"b", "2", 2}, Property{"c", "3", 3}));
}

TEST(Properties, BackslashAtTheEndContinuesTheLine) {
  EXPECT_THAT(ReadProperties("a=1,\\\n   2,\\\n3\nb=4\n"),
              ElementsAre(Property{"a", "1,2,3", 1}, Property{"b", "4", 4}));
}

TEST(Properties, EscapedBackslashAtTheEndDoesNotContinueTheLine) {
  EXPECT_THAT(ReadProperties("a=1\\\\\nb=2\n"),
              ElementsAre(Property{"a", "1\\", 1}, Property{"b", "2", 2}));
}

TEST(Properties, BackslashAtTheEndOfTheFileIsDropped) {
  EXPECT_THAT(ReadProperties("a=1\\"), ElementsAre(Property{"a", "1", 1}));
}

TEST(Properties, EscapesAreUndone) {
  EXPECT_THAT(ReadProperties("a\\=b=\\t\\u0041\\u00e9x\\:\n"),
              ElementsAre(Property{"a=b", "A\xc3\xa9x:", 1}));
}

TEST(Properties, KeyWithoutValueHasAnEmptyOne) {
  EXPECT_THAT(ReadProperties("a\nb=\n"), ElementsAre(Property{"a", "", 1}, Property{"b", "", 2}));
}

TEST(Properties, ValueKeepsSeparatorsWithinIt) {
  EXPECT_THAT(ReadProperties("server.1=h:2888:3888;2181\n"),
              ElementsAre(Property{"server.1", "h:2888:3888;2181", 1}));
}

TEST(Properties, EmptyTextHasNone) { EXPECT_THAT(ReadProperties(""), IsEmpty()); }

}  // namespace
}  // namespace lockstep::shell
