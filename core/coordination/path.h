// Paths of znodes.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace lockstep::coordination {

// Whether `path` may name a node, by the rules of ZooKeeper's PathUtils: it starts with '/', does
// not end with one unless it is the root, has no empty, "." or ".." component, and no character
// that ZooKeeper refuses: control characters, private use, specials, and everything outside the
// Basic Multilingual Plane (a surrogate pair in Java). Bytes that are not UTF-8 are refused too:
// Java decodes them to U+FFFD, one of the specials.
// For a sequential create the request's path may end with '/', or be otherwise incomplete: check
// the path with the sequence number.
absl::Status ValidatePath(std::string_view path);

// "/a" of "/a/b", "/" of "/a". Requires: a valid path other than "/".
std::string_view ParentPath(std::string_view path);

// "b" of "/a/b", "" of "/".
std::string_view NodeName(std::string_view path);

}  // namespace lockstep::coordination
