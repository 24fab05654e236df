#include "tests/support/golden.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace lockstep {
namespace {

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> Words(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream in(line);
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

}  // namespace

std::string RunGolden(const std::string& path, const GoldenCommand& command) {
  std::ifstream in(path);
  if (!in) return "cannot read " + path;
  std::stringstream content;
  content << in.rdbuf();
  std::vector<std::string> lines = Lines(content.str());

  std::string actual;
  size_t at = 0;
  while (at < lines.size()) {
    std::string block;
    std::string output;
    for (; at < lines.size() && lines[at] != "----" && !lines[at].empty(); at++) {
      block += lines[at] + "\n";
      if (lines[at][0] != '#') output += command(Words(lines[at]));
    }
    while (at < lines.size() && !lines[at].empty()) at++;  // what was expected
    while (at < lines.size() && lines[at].empty()) at++;
    if (!actual.empty()) actual += "\n";
    actual += block + (output.empty() ? "" : "----\n" + output);
  }
  if (actual == content.str()) return "";
  if (std::getenv("LOCKSTEP_REWRITE_GOLDEN") != nullptr) {
    std::ofstream(path) << actual;
    return "";
  }
  // The first difference, with a little of what is around it.
  std::vector<std::string> now = Lines(actual);
  size_t first = 0;
  while (first < now.size() && first < lines.size() && now[first] == lines[first]) first++;
  std::string text = path + " line " + std::to_string(first + 1) + ":\n";
  for (size_t i = first >= 3 ? first - 3 : 0; i < first; i++) text += "   " + now[i] + "\n";
  for (size_t i = first; i < std::min(first + 5, lines.size()); i++)
    text += " - " + lines[i] + "\n";
  for (size_t i = first; i < std::min(first + 5, now.size()); i++) text += " + " + now[i] + "\n";
  return text;
}

std::vector<std::string> GoldenFiles(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace lockstep
