// Golden traces: text files in which commands are followed by what happened, reviewed as diffs.
//
//   # What this trace shows.
//   cluster 3
//   elect
//   ----
//   t=0.002s 3 LEADING
//
// Lines before `----` are commands (and comments with '#'), lines after it, up to a blank line or
// the end of the file, what they brought about. A file is a sequence of such blocks.
//
// To rewrite the files after an intended change:
//   LOCKSTEP_REWRITE_GOLDEN=1 build/debug/tests/zab/zab_test --gtest_filter='*Golden*'
// Read the diff, and say in the commit why it changed.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lockstep {

// The words of one command -> what it brought about: whole lines, or nothing.
using GoldenCommand = std::function<std::string(const std::vector<std::string>& words)>;

// Runs the file. Returns what differs, as a text for people, or nothing; a file that is to be
// rewritten never differs.
std::string RunGolden(const std::string& path, const GoldenCommand& command);

// The .txt files in a folder, sorted.
std::vector<std::string> GoldenFiles(const std::string& folder);

}  // namespace lockstep
