#include "core/base/uuid.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace lockstep {
namespace {

TEST(Uuid, IsPrintedAsKafkaPrintsIt) {
  EXPECT_EQ(Uuid{}.ToString(), "AAAAAAAAAAAAAAAAAAAAAA");
  EXPECT_EQ((Uuid{0, 1}.ToString()), "AAAAAAAAAAAAAAAAAAAAAQ");
  // Python: base64.urlsafe_b64encode(bytes(range(16)))[:22].
  EXPECT_EQ((Uuid{0x0001020304050607, 0x08090a0b0c0d0e0f}.ToString()), "AAECAwQFBgcICQoLDA0ODw");
  EXPECT_EQ((Uuid{~uint64_t{0}, ~uint64_t{0}}.ToString()), "_____________________w");
  EXPECT_EQ((Uuid{0xfbefbefbefbefbef, 0xbefbefbefbefbefb}.ToString()), "---------------------w");
}

TEST(Uuid, OfEveryTextIsTheOneThatPrintsIt) {
  for (int bit = 0; bit < 128; ++bit) {
    const uint64_t one = uint64_t{1} << (bit % 64);
    const Uuid uuid = bit < 64 ? Uuid{0, one} : Uuid{one, 0};
    EXPECT_EQ(*Uuid::FromString(uuid.ToString()), uuid) << bit;
  }
}

TEST(Uuid, OnlyItsOwnTextIsAccepted) {
  EXPECT_FALSE(Uuid::FromString("").ok());
  EXPECT_FALSE(Uuid::FromString("AAAAAAAAAAAAAAAAAAAAA").ok());
  EXPECT_FALSE(Uuid::FromString("AAAAAAAAAAAAAAAAAAAAAQ==").ok());
  EXPECT_FALSE(Uuid::FromString("AAAAAAAAAA+AAAAAAAAAAQ").ok());
  EXPECT_FALSE(Uuid::FromString("AAAAAAAAAAAAAAAAAAAAAR").ok());
}

TEST(Uuid, ZeroNamesNothing) {
  EXPECT_FALSE(Uuid{});
  EXPECT_TRUE((Uuid{1, 0}));
  EXPECT_TRUE((Uuid{0, 1}));
  EXPECT_LT((Uuid{0, 2}), (Uuid{1, 0}));
}

}  // namespace
}  // namespace lockstep
