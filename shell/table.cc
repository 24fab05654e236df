#include "shell/table.h"

#include <algorithm>
#include <cstddef>

#include "core/base/check.h"

namespace lockstep::shell {

std::string FormatTable(const std::vector<std::vector<std::string>>& rows) {
  std::string text;
  if (rows.empty()) return text;
  std::vector<size_t> widths(rows[0].size());
  for (const auto& row : rows) {
    LS_CHECK_EQ(row.size(), widths.size());
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) text.append(widths[i] - row[i].size() + 2, ' ');
    }
    text += '\n';
  }
  return text;
}

}  // namespace lockstep::shell
