// What holds for every message in every version, without knowing any of them.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

#include "arbitrary_messages.h"
#include "core/kafka/frame.h"
#include "core/kafka/messages.h"

namespace lockstep::kafka {
namespace {

Bytes Joined(std::vector<Bytes> slices) { return Records(std::move(slices)).Joined(); }

// Calls `check.operator()<Message>(version)` for every message and version.
template <typename Check, typename... Message>
void ForEach(MessageList<Message...>, Check check) {
  const auto all_versions = [&]<typename M>() {
    for (int16_t version = M::kVersionMin; version <= M::kVersionMax; ++version) {
      SCOPED_TRACE(std::string(M::kName) + " " + std::to_string(version));
      check.template operator()<M>(version);
    }
  };
  (all_versions.template operator()<Message>(), ...);
}

template <typename Message>
Message Filled(uint64_t seed, int16_t version) {
  Filler filler(seed);
  Message message;
  Fill(&filler, version, &message);
  return message;
}

TEST(EveryMessage, IsTheSameAfterEncodeAndDecode) {
  EXPECT_TRUE(rc::check([](uint64_t seed) {
    ForEach(AllMessages(), [&]<typename Message>(int16_t version) {
      const Message message = Filled<Message>(seed, version);
      Reader reader(Joined(EncodeBody(message, version)), SIZE_MAX);
      Message decoded;
      RC_LOG() << Message::kName << " " << version;
      RC_ASSERT(Decode(&reader, version, &decoded).ok());
      RC_ASSERT(reader.remaining() == 0u);
      RC_ASSERT(decoded == message);
    });
  }));
}

TEST(EveryMessage, OrdinaryInSizeFitsTheBoundOnMemory) {
  ForEach(AllMessages(), []<typename Message>(int16_t version) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      const Bytes body = Joined(EncodeBody(Filled<Message>(seed, version), version));
      EXPECT_TRUE(DecodeBody<Message>(body, version).ok());
    }
  });
}

TEST(EveryMessage, AtItsDefaultsCanBeEncodedInEveryVersion) {
  ForEach(AllMessages(), []<typename Message>(int16_t version) {
    const Bytes body = Joined(EncodeBody(Message(), version));
    absl::StatusOr<Message> decoded = DecodeBody<Message>(body, version);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(*decoded, Message());
  });
}

TEST(EveryMessage, CutShortIsAnError) {
  ForEach(AllMessages(), []<typename Message>(int16_t version) {
    const Bytes body = Joined(EncodeBody(Filled<Message>(7, version), version));
    const size_t step = 1 + body.size() / 100;
    for (size_t size = 0; size < body.size(); size += step) {
      EXPECT_FALSE(DecodeBody<Message>(body.Slice(0, size), version).ok()) << size;
    }
  });
}

TEST(EveryMessage, InAVersionThatIsNotSupportedIsAnError) {
  ForEach(AllMessages(), []<typename Message>(int16_t version) {
    const Bytes body = Joined(EncodeBody(Message(), version));
    EXPECT_FALSE(DecodeBody<Message>(body, Message::kVersionMin - 1).ok());
    EXPECT_FALSE(DecodeBody<Message>(body, Message::kVersionMax + 1).ok());
  });
}

TEST(EveryMessage, IgnoresTaggedFieldsItDoesNotKnow) {
  ForEach(AllMessages(), []<typename Message>(int16_t version) {
    if constexpr (requires { Message::kApi; }) {
      const ApiInfo* api = FindApi(static_cast<int16_t>(Message::kApi));
      if (!api->Flexible(version)) return;
      // At the defaults nothing but the count of tagged fields, 0, ends the body.
      std::string body(Joined(EncodeBody(Message(), version)).view());
      ASSERT_EQ(body.back(), 0);
      body.back() = 1;
      body += std::string("\x88\x27\x03xyz", 6);  // tag 5000, three bytes
      absl::StatusOr<Message> decoded = DecodeBody<Message>(Bytes::Copy(body), version);
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      EXPECT_EQ(*decoded, Message());
    }
  });
}

}  // namespace
}  // namespace lockstep::kafka
