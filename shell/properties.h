// Java's .properties format, in which ZooKeeper's zoo.cfg is written: `key=value`, `key: value` or
// `key value`; comments with # or !; a backslash at the end of a line continues it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::shell {

struct Property {
  std::string key;
  std::string value;  // without blanks at either end
  int line = 0;       // where it begins, from 1

  bool operator==(const Property&) const = default;
};

// Every property of `text`, in order; a key that is given twice is there twice. Every text is a
// valid file, as in Java; \uXXXX escapes become UTF-8.
std::vector<Property> ReadProperties(std::string_view text);

}  // namespace lockstep::shell
