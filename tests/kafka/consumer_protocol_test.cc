#include "core/kafka/consumer_protocol.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::kafka {
namespace {

TEST(ConsumerProtocol, CarriesItsVersion) {
  const ConsumerProtocolSubscription subscription = {.topics = {"t"}};
  const Bytes bytes = EncodeConsumerProtocol(subscription, 0);
  // Version 0, one topic of one byte, no user data.
  EXPECT_EQ(bytes.view(), std::string_view("\0\0"
                                           "\0\0\0\1"
                                           "\0\1t"
                                           "\xff\xff\xff\xff",
                                           13));
  EXPECT_EQ(*DecodeConsumerProtocol<ConsumerProtocolSubscription>(bytes), subscription);
}

TEST(ConsumerProtocol, OfANewerMemberIsReadAsTheNewestKnown) {
  const ConsumerProtocolAssignment assignment = {.assigned_partitions = {{"t", {0, 2}}}};
  std::string bytes(EncodeConsumerProtocol(assignment, 3).view());
  bytes[1] = 9;
  bytes += "fields to come";
  EXPECT_EQ(*DecodeConsumerProtocol<ConsumerProtocolAssignment>(Bytes::Copy(bytes)), assignment);
}

TEST(ConsumerProtocol, OfANegativeVersionOrCutShortIsAnError) {
  EXPECT_FALSE(DecodeConsumerProtocol<ConsumerProtocolAssignment>(Bytes()).ok());
  EXPECT_FALSE(DecodeConsumerProtocol<ConsumerProtocolAssignment>(Bytes::Copy("\xff\xff")).ok());
  EXPECT_FALSE(
      DecodeConsumerProtocol<ConsumerProtocolAssignment>(Bytes::Copy({"\0\0\0\0\0\1", 6})).ok());
}

}  // namespace
}  // namespace lockstep::kafka
