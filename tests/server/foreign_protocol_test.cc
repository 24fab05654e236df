#include "core/server/foreign_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lockstep::server {
namespace {

using ::testing::HasSubstr;
using ::testing::IsNull;

std::string Zeros(size_t count) { return std::string(count, '\0'); }

// Length, protocol version, zxid, timeout 30,000, session, a password of 16 bytes, read-only.
const std::string kConnect = std::string("\0\0\0\x2d", 4) + Zeros(4) + Zeros(8) +
                             std::string("\0\0\x75\x30", 4) + Zeros(8) +
                             std::string("\0\0\0\x10", 4) + Zeros(16) + Zeros(1);
// ApiVersions, version 3, correlation 1, a client id of 7 bytes.
const std::string kApiVersions = std::string("\0\0\0\x20\0\x12\0\3\0\0\0\1\0\7rdkafka", 21);

TEST(ForeignProtocol, WhatIsAtItsOwnPortIsNotForeign) {
  EXPECT_THAT(ForeignToZooKeeper(kConnect), IsNull());
  EXPECT_THAT(ForeignToKafka(kApiVersions), IsNull());
  // Too little to tell.
  for (size_t size = 4; size < 8; ++size) {
    EXPECT_THAT(ForeignToZooKeeper(kApiVersions.substr(0, size)), IsNull());
    EXPECT_THAT(ForeignToKafka(kConnect.substr(0, size)), IsNull());
  }
  EXPECT_THAT(ForeignToKafka(""), IsNull());
}

TEST(ForeignProtocol, EachIsNamedAtThePortOfTheOther) {
  EXPECT_THAT(ForeignToZooKeeper(kApiVersions), HasSubstr("listeners"));
  EXPECT_THAT(ForeignToKafka(kConnect), HasSubstr("clientPort"));
  EXPECT_THAT(ForeignToKafka(std::string("\0\0\0\x2c", 4) + kConnect.substr(4)),
              HasSubstr("clientPort"));
  EXPECT_THAT(ForeignToKafka("ruok"), HasSubstr("ZooKeeper"));
}

TEST(ForeignProtocol, TlsAndHttpAreNamedAtBoth) {
  for (auto foreign : {ForeignToZooKeeper, ForeignToKafka}) {
    EXPECT_THAT(foreign(std::string("\x16\x03\x01\x02\0\x01", 6)), HasSubstr("TLS"));
    EXPECT_THAT(foreign("GET / HTTP/1.1\r\n"), HasSubstr("HTTP"));
  }
}

}  // namespace
}  // namespace lockstep::server
