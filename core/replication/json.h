// The JSON of the znodes under /brokers: integers, strings, booleans, arrays and objects. Znodes
// are text because operators read them with any ZooKeeper client, and repair them so.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::replication {

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;  // in the order of the text

  Json() : value_(nullptr) {}
  Json(bool value) : value_(value) {}
  Json(int64_t value) : value_(value) {}
  Json(int32_t value) : value_(int64_t{value}) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value) : value_(std::move(value)) {}

  // Refuses what no record here has: fractions, exponents, integers beyond 64 bits, a name twice in
  // an object, nesting deeper than 8.
  static absl::StatusOr<Json> Parse(std::string_view text);
  std::string ToString() const;

  // null: it is of another type.
  const bool* boolean() const { return std::get_if<bool>(&value_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&value_); }
  const std::string* string() const { return std::get_if<std::string>(&value_); }
  const Array* array() const { return std::get_if<Array>(&value_); }
  const Object* object() const { return std::get_if<Object>(&value_); }
  // The member of an object; null if there is none, or this is no object.
  const Json* Find(std::string_view name) const;

  bool operator==(const Json&) const = default;

 private:
  void AppendTo(std::string* text) const;

  std::variant<std::nullptr_t, bool, int64_t, std::string, Array, Object> value_;
};

}  // namespace lockstep::replication
