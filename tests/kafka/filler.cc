#include "tests/kafka/filler.h"

#include <utility>

namespace lockstep::kafka {

uint64_t Filler::Hash(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

Uuid Filler::Uuid(std::string_view name) {
  lockstep::Uuid uuid{Hash(name), ~Hash(name)};
  if (random_.has_value()) {
    uuid.high = random_->Next();
    uuid.low = random_->Next();
  }
  return uuid;
}

std::string Filler::String(std::string_view name) {
  if (!random_.has_value()) return std::string(name);
  // Beside short ones: around the lengths at which n + 1 needs one more byte of a varint.
  constexpr size_t kLengths[] = {0, 126, 127, 128, 256, 257, 16'382, 16'383};
  size_t length = random_->Below(12);
  if (random_->Chance(1, 16)) length = kLengths[random_->Below(std::size(kLengths))];
  std::string text;
  for (size_t i = 0; i < length; ++i) text.push_back(static_cast<char>(random_->Next()));
  return text;
}

Records Filler::Records(std::string_view name) {
  std::vector<lockstep::Bytes> slices;
  for (size_t i = Count(name); i > 0; --i) slices.push_back(Bytes(name));
  return lockstep::kafka::Records(std::move(slices));
}

std::vector<int32_t> Filler::Int32s(std::string_view name) {
  std::vector<int32_t> values(Count(name));
  for (int32_t& value : values) value = Int32(name);
  return values;
}

std::vector<std::string> Filler::Strings(std::string_view name) {
  std::vector<std::string> values(Count(name));
  for (std::string& value : values) value = String(name);
  return values;
}

size_t Filler::Count(std::string_view name) {
  return random_.has_value() ? random_->Below(4) : 1 + Hash(name) % 2;
}

}  // namespace lockstep::kafka
