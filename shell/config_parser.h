// How the keys of a configuration file are read: what the tables of keys (config_keys.cc for those
// of ZooKeeper, broker_keys.cc for those of Kafka) are written with.
#pragma once

#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "shell/config.h"
#include "shell/properties.h"

namespace lockstep::shell {

inline constexpr int64_t kMillisecondsMax = int64_t{24} * 3600 * 1000;

class Parser {
 public:
  explicit Parser(const std::string& file) { loaded_.config.file = file; }

  void Take(const Property& property);
  LoadedConfig Finish();

  Config& config() { return loaded_.config; }
  void Error(const Property& at, std::string text) {
    loaded_.errors.push_back({loaded_.config.file, at.line, std::move(text)});
  }
  void Notice(const Property& at, std::string text) {
    loaded_.notices.push_back({loaded_.config.file, at.line, std::move(text)});
  }
  void Warn(const Property& at, std::string text) {
    loaded_.notices.push_back({loaded_.config.file, at.line, std::move(text), /*warning=*/true});
  }

  // A whole number in [low, high], both inclusive; an error and nothing otherwise. `what` is what
  // it counts. Hexadecimal with 0x, as Java has it.
  std::optional<int64_t> Number(const Property& property, int64_t low, int64_t high,
                                const char* what) {
    std::string_view digits = property.value;
    const bool negative = !digits.empty() && digits[0] == '-';
    if (negative) digits.remove_prefix(1);
    int base = 10;
    if (digits.starts_with("0x") || digits.starts_with("0X")) {
      digits.remove_prefix(2);
      base = 16;
    }
    int64_t number = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
    const bool no_digits = digits.empty() || digits[0] == '-';  // from_chars takes a sign itself
    if (negative) number = -number;
    if (no_digits || error != std::errc() || end != digits.data() + digits.size() || number < low ||
        number > high) {
      Error(property, property.key + "=" + property.value + ": must be a number from " +
                          std::to_string(low) + " to " + std::to_string(high) + " (" + what + ")");
      return std::nullopt;
    }
    return number;
  }
  template <typename T>
  void Set(const Property& property, int64_t low, int64_t high, const char* what, T* value) {
    if (auto number = Number(property, low, high, what)) *value = static_cast<T>(*number);
  }
  void SetMilliseconds(const Property& property, int64_t low, Duration* value) {
    if (auto number = Number(property, low, kMillisecondsMax, "milliseconds")) {
      *value = Milliseconds(*number);
    }
  }
  // ZooKeeper's yes/no keys say either true/false or yes/no.
  std::optional<bool> Flag(const Property& property) {
    if (property.value == "true" || property.value == "yes") return true;
    if (property.value == "false" || property.value == "no") return false;
    Error(property, property.key + "=" + property.value + ": must be true or false");
    return std::nullopt;
  }

  // Kafka's say true or false, in any case.
  std::optional<bool> KafkaFlag(const Property& property) {
    std::string text = property.value;
    for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (text == "true") return true;
    if (text == "false") return false;
    Error(property, property.key + "=" + property.value +
                        ": must be true or false (yes and no are for ZooKeeper's keys)");
    return std::nullopt;
  }

  void Member(const Property& property);
  void FourLetterWords(const Property& property);

 private:
  void CheckMembers();
  void CheckSessionTimeouts();

  LoadedConfig loaded_;
  std::map<std::string, int> seen_;  // key -> line
  std::map<ServerId, int> member_lines_;
};

struct Key {
  // Ends in `*` for a family of keys.
  std::string_view name;
  // Null for a key that does nothing here: `says` is then the notice.
  void (*take)(Parser&, const Property&);
  std::string_view says = "";
  // Who sets it relies on being protected, and is not: the notice is a warning.
  bool protects = false;
};
inline constexpr bool kProtects = true;

// The keys of Kafka's server.properties.
std::span<const Key> BrokerKeys();
// Fills in what other keys say: broker.id from the server's number, the advertised address from the
// listener. Errors of the broker role as a whole are appended to loaded->errors.
void FinishBroker(LoadedConfig* loaded);

}  // namespace lockstep::shell
