// Tables as the command line prints them.
#pragma once

#include <string>
#include <vector>

namespace lockstep::shell {

// A line for each row, columns as wide as they need to be and two spaces apart; nothing after the
// last one. Requires: all rows have as many cells as the first.
std::string FormatTable(const std::vector<std::vector<std::string>>& rows);

}  // namespace lockstep::shell
