#include "tests/kafka/filler.h"

#include <utility>

namespace lockstep::kafka {

std::string Filler::String() {
  // Beside short ones: around the lengths at which n + 1 needs one more byte of a varint.
  constexpr size_t kLengths[] = {0, 126, 127, 128, 256, 257, 16'382, 16'383};
  const size_t length = random_.Chance(15, 16)
                            ? random_.Below(12)
                            : kLengths[random_.Below(sizeof kLengths / sizeof *kLengths)];
  std::string text;
  for (size_t i = 0; i < length; ++i) text.push_back(static_cast<char>(random_.Next()));
  return text;
}

Records Filler::Records() {
  std::vector<lockstep::Bytes> slices;
  for (size_t i = Count(); i > 0; --i) slices.push_back(Bytes());
  return lockstep::kafka::Records(std::move(slices));
}

std::vector<int32_t> Filler::Int32s() {
  std::vector<int32_t> values(Count());
  for (int32_t& value : values) value = Int32();
  return values;
}

std::vector<std::string> Filler::Strings() {
  std::vector<std::string> values(Count());
  for (std::string& value : values) value = String();
  return values;
}

}  // namespace lockstep::kafka
