#include "sim/json_text.h"

namespace lockstep::sim {

void AppendJson(std::string* out, std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  out->push_back('"');
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (byte < 0x20 || byte == 0x7f) {
      out->append("\\u00");
      out->push_back(kHex[byte >> 4]);
      out->push_back(kHex[byte & 15]);
    } else if (c == '/' && !out->empty() && out->back() == '<') {
      out->append("\\/");
    } else if (c == '!' && !out->empty() && out->back() == '<') {
      out->append("\\u0021");
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

std::string JsonString(std::string_view text) {
  std::string quoted;
  AppendJson(&quoted, text);
  return quoted;
}

}  // namespace lockstep::sim
