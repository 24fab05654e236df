// The bytes of another implementation: golden.txt, made by make_golden.py.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "arbitrary_messages.h"
#include "core/kafka/frame.h"
#include "core/kafka/messages.h"

namespace lockstep::kafka {
namespace {

struct Golden {
  std::string filled;  // hex
  std::string nulls;   // the same with null wherever a field may be null
};

std::map<std::pair<std::string, int>, Golden> ReadGolden() {
  std::map<std::pair<std::string, int>, Golden> found;
  std::ifstream file(GOLDEN_FILE);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string message;
    int version;
    Golden golden;
    words >> message >> version >> golden.filled >> golden.nulls;
    if (golden.filled == "empty") golden = {};
    found[{message, version}] = golden;
  }
  return found;
}

std::string ToHex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (char byte : bytes) {
    hex.push_back(kDigits[static_cast<unsigned char>(byte) >> 4]);
    hex.push_back(kDigits[byte & 15]);
  }
  return hex;
}

template <typename Message>
void ExpectSameBytes(int16_t version, bool nulls, const std::string& hex) {
  Filler filler = Filler::ByName(nulls);
  Message message;
  Fill(&filler, version, &message);
  const Bytes body = Records(EncodeBody(message, version)).Joined();
  EXPECT_EQ(ToHex(body.view()), hex);
  absl::StatusOr<Message> decoded = DecodeBody<Message>(body, version);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, message);
}

template <typename Message>
size_t ExpectAllVersions(const std::map<std::pair<std::string, int>, Golden>& golden) {
  size_t versions = 0;
  for (int16_t version = Message::kVersionMin; version <= Message::kVersionMax; ++version) {
    SCOPED_TRACE(std::string(Message::kName) + " " + std::to_string(version));
    const auto found = golden.find({Message::kName, version});
    if (found == golden.end()) {
      ADD_FAILURE() << "not in golden.txt; make_golden.py makes it";
      continue;
    }
    ExpectSameBytes<Message>(version, false, found->second.filled);
    ExpectSameBytes<Message>(version, true, found->second.nulls);
    ++versions;
  }
  return versions;
}

template <typename... Message>
size_t ExpectAll(MessageList<Message...>) {
  const std::map<std::pair<std::string, int>, Golden> golden = ReadGolden();
  return (ExpectAllVersions<Message>(golden) + ...);
}

TEST(EveryMessage, HasTheBytesThatKafkaPythonWrites) { EXPECT_GT(ExpectAll(AllMessages()), 300u); }

}  // namespace
}  // namespace lockstep::kafka
