#include "core/replication/json.h"

#include <cstddef>
#include <limits>

namespace lockstep::replication {
namespace {

constexpr int kDepthMax = 8;

void AppendQuoted(std::string_view text, std::string* to) {
  static constexpr char kHex[] = "0123456789abcdef";
  *to += '"';
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      *to += '\\';
      *to += c;
    } else if (byte < 0x20) {
      *to += "\\u00";
      *to += kHex[byte >> 4];
      *to += kHex[byte & 15];
    } else {
      *to += c;
    }
  }
  *to += '"';
}

void AppendUtf8(uint32_t code, std::string* to) {
  auto put = [&](uint32_t byte) { to->push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  bool Document(Json* to) {
    if (!Value(0, to)) return false;
    SkipSpace();
    return rest_.empty();
  }

 private:
  void SkipSpace() {
    while (!rest_.empty() &&
           (rest_[0] == ' ' || rest_[0] == '\t' || rest_[0] == '\n' || rest_[0] == '\r')) {
      rest_.remove_prefix(1);
    }
  }
  bool Take(std::string_view token) {
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  bool Value(int depth, Json* to) {
    SkipSpace();
    if (rest_.empty()) return false;
    switch (rest_[0]) {
      case '{':
        return depth < kDepthMax && Members(depth, to);
      case '[':
        return depth < kDepthMax && Elements(depth, to);
      case '"': {
        std::string text;
        if (!String(&text)) return false;
        *to = Json(std::move(text));
        return true;
      }
      case 't':
        *to = Json(true);
        return Take("true");
      case 'f':
        *to = Json(false);
        return Take("false");
      case 'n':
        *to = Json();
        return Take("null");
      default:
        return Integer(to);
    }
  }

  bool Members(int depth, Json* to) {
    Take("{");
    Json::Object object;
    SkipSpace();
    if (!Take("}")) {
      do {
        SkipSpace();
        std::string name;
        if (!String(&name)) return false;
        for (const auto& [other, value] : object) {
          if (other == name) return false;
        }
        SkipSpace();
        Json value;
        if (!Take(":") || !Value(depth + 1, &value)) return false;
        object.emplace_back(std::move(name), std::move(value));
        SkipSpace();
      } while (Take(","));
      if (!Take("}")) return false;
    }
    *to = Json(std::move(object));
    return true;
  }

  bool Elements(int depth, Json* to) {
    Take("[");
    Json::Array array;
    SkipSpace();
    if (!Take("]")) {
      do {
        Json value;
        if (!Value(depth + 1, &value)) return false;
        array.push_back(std::move(value));
        SkipSpace();
      } while (Take(","));
      if (!Take("]")) return false;
    }
    *to = Json(std::move(array));
    return true;
  }

  bool String(std::string* to) {
    if (!Take("\"")) return false;
    while (!rest_.empty()) {
      const char c = rest_[0];
      rest_.remove_prefix(1);
      if (c == '"') return true;
      if (static_cast<unsigned char>(c) < 0x20) return false;
      if (c != '\\') {
        to->push_back(c);
      } else if (!Escape(to)) {
        return false;
      }
    }
    return false;
  }

  bool Escape(std::string* to) {
    static constexpr std::string_view kFrom = "\"\\/bfnrt";
    static constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
    if (rest_.empty()) return false;
    const char c = rest_[0];
    rest_.remove_prefix(1);
    if (size_t at = kFrom.find(c); at != std::string_view::npos) {
      to->push_back(kTo[at]);
      return true;
    }
    if (c != 'u' || rest_.size() < 4) return false;
    uint32_t code = 0;
    for (char digit : rest_.substr(0, 4)) {
      code <<= 4;
      if (digit >= '0' && digit <= '9') {
        code += static_cast<uint32_t>(digit - '0');
      } else if (digit >= 'a' && digit <= 'f') {
        code += static_cast<uint32_t>(digit - 'a') + 10;
      } else if (digit >= 'A' && digit <= 'F') {
        code += static_cast<uint32_t>(digit - 'A') + 10;
      } else {
        return false;
      }
    }
    rest_.remove_prefix(4);
    // No record has a name beyond the Basic Multilingual Plane.
    if (code >= 0xd800 && code <= 0xdfff) return false;
    AppendUtf8(code, to);
    return true;
  }

  bool Integer(Json* to) {
    const bool negative = Take("-");
    size_t digits = 0;
    uint64_t value = 0;
    constexpr uint64_t kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    while (digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9') {
      const auto digit = static_cast<uint64_t>(rest_[digits] - '0');
      if (value > (kMax - digit) / 10) return false;
      value = value * 10 + digit;
      ++digits;
    }
    if (digits == 0 || (digits > 1 && rest_[0] == '0')) return false;
    rest_.remove_prefix(digits);
    const auto number = static_cast<int64_t>(value);
    *to = Json(negative ? -number : number);
    return true;
  }

  std::string_view rest_;
};

}  // namespace

absl::StatusOr<Json> Json::Parse(std::string_view text) {
  Json json;
  if (!Parser(text).Document(&json)) return absl::InvalidArgumentError("not the JSON of a znode");
  return json;
}

const Json* Json::Find(std::string_view name) const {
  if (const Object* members = object()) {
    for (const auto& [member, value] : *members) {
      if (member == name) return &value;
    }
  }
  return nullptr;
}

std::string Json::ToString() const {
  std::string text;
  AppendTo(&text);
  return text;
}

void Json::AppendTo(std::string* text) const {
  if (const bool* value = boolean()) {
    *text += *value ? "true" : "false";
  } else if (const int64_t* value = integer()) {
    *text += std::to_string(*value);
  } else if (const std::string* value = string()) {
    AppendQuoted(*value, text);
  } else if (const Array* values = array()) {
    *text += '[';
    for (size_t i = 0; i < values->size(); ++i) {
      if (i > 0) *text += ',';
      (*values)[i].AppendTo(text);
    }
    *text += ']';
  } else if (const Object* members = object()) {
    *text += '{';
    bool first = true;
    for (const auto& [name, value] : *members) {
      if (!first) *text += ',';
      first = false;
      AppendQuoted(name, text);
      *text += ':';
      value.AppendTo(text);
    }
    *text += '}';
  } else {
    *text += "null";
  }
}

}  // namespace lockstep::replication
