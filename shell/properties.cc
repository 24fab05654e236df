#include "shell/properties.h"

#include <cstdint>

namespace lockstep::shell {
namespace {

constexpr std::string_view kBlanks = " \t\f";

std::string_view WithoutLeadingBlanks(std::string_view text) {
  size_t begin = text.find_first_not_of(kBlanks);
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

// An even number of backslashes at the end is that many escaped backslashes, not a continuation.
bool Continues(std::string_view line) {
  size_t last = line.find_last_not_of('\\');
  size_t backslashes = line.size() - (last == std::string_view::npos ? 0 : last + 1);
  return backslashes % 2 == 1;
}

// Takes one line and its end (\n, \r or \r\n) off the front of `rest`.
std::string_view TakeLine(std::string_view* rest) {
  size_t end = rest->find_first_of("\r\n");
  std::string_view line = rest->substr(0, end);
  if (end == std::string_view::npos) {
    *rest = {};
    return line;
  }
  bool two = (*rest)[end] == '\r' && end + 1 < rest->size() && (*rest)[end + 1] == '\n';
  rest->remove_prefix(end + (two ? 2 : 1));
  return line;
}

void AppendUtf8(uint32_t code, std::string* out) {
  if (code < 0x80) {
    *out += static_cast<char>(code);
  } else if (code < 0x800) {
    *out += static_cast<char>(0xc0 | (code >> 6));
    *out += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    *out += static_cast<char>(0xe0 | (code >> 12));
    *out += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
    *out += static_cast<char>(0x80 | (code & 0x3f));
  }
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string Unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    char escaped = text[++i];
    uint32_t code = 0;
    size_t digits = 0;
    switch (escaped) {
      case 't':
        out += '\t';
        break;
      case 'n':
        out += '\n';
        break;
      case 'r':
        out += '\r';
        break;
      case 'f':
        out += '\f';
        break;
      case 'u':
        while (digits < 4 && i + 1 < text.size() && HexDigit(text[i + 1]) >= 0) {
          code = code * 16 + static_cast<uint32_t>(HexDigit(text[++i]));
          ++digits;
        }
        AppendUtf8(code, &out);
        break;
      default:
        out += escaped;
    }
  }
  return out;
}

std::string WithoutBlanks(const std::string& text) {
  constexpr std::string_view kAll = " \t\f\r\n";
  size_t begin = text.find_first_not_of(kAll);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(kAll) - begin + 1);
}

Property Split(std::string_view logical, int line) {
  size_t end = 0;
  while (end < logical.size() &&
         std::string_view("=: \t\f").find(logical[end]) == std::string_view::npos) {
    end += logical[end] == '\\' && end + 1 < logical.size() ? 2 : 1;
  }
  std::string_view key = logical.substr(0, end);
  std::string_view value = WithoutLeadingBlanks(logical.substr(end));
  if (!value.empty() && (value[0] == '=' || value[0] == ':')) value.remove_prefix(1);
  return {Unescape(key), WithoutBlanks(Unescape(value)), line};
}

}  // namespace

std::vector<Property> ReadProperties(std::string_view text) {
  std::vector<Property> properties;
  int next_line = 1;
  while (!text.empty()) {
    const int first_line = next_line++;
    std::string_view line = WithoutLeadingBlanks(TakeLine(&text));
    if (line.empty() || line[0] == '#' || line[0] == '!') continue;
    std::string logical(line);
    while (Continues(logical)) {
      logical.pop_back();
      if (text.empty()) break;
      logical += WithoutLeadingBlanks(TakeLine(&text));
      ++next_line;
    }
    properties.push_back(Split(logical, first_line));
  }
  return properties;
}

}  // namespace lockstep::shell
