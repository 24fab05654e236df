#include "core/server/four_letter.h"

#include <gtest/gtest.h>

namespace lockstep::server {
namespace {

TEST(FourLetterWord, IsToldFromTheLengthOfAConnectRequest) {
  EXPECT_TRUE(IsFourLetterWord("ruok"));
  EXPECT_TRUE(IsFourLetterWord("mntr"));
  EXPECT_FALSE(IsFourLetterWord(std::string_view("\0\0\0\x2d", 4)));
  EXPECT_FALSE(IsFourLetterWord("RUOK"));
  EXPECT_FALSE(IsFourLetterWord("abcd"));
}

TEST(FourLetterWord, MustBeInTheWhitelist) {
  EXPECT_TRUE(IsAllowed("srvr", {"srvr"}));
  EXPECT_FALSE(IsAllowed("mntr", {"srvr"}));
  EXPECT_TRUE(IsAllowed("mntr", {"*"}));
  EXPECT_FALSE(IsAllowed("ruok", {}));
}

TEST(FourLetterWord, OneThatIsNotAllowedSaysSo) {
  std::vector<std::string> allowed = {"srvr"};
  FourLetterContext context{.allowed = &allowed};

  EXPECT_EQ(AnswerFourLetterWord("mntr", context),
            "mntr is not executed because it is not in the whitelist.\n");
}

TEST(FourLetterWord, RuokNeedsNoService) {
  std::vector<std::string> allowed = {"*"};
  FourLetterContext context{.conf = "a=b\n", .allowed = &allowed};

  EXPECT_EQ(AnswerFourLetterWord("ruok", context), "imok");
  EXPECT_EQ(AnswerFourLetterWord("conf", context), "a=b\n");
}

}  // namespace
}  // namespace lockstep::server
