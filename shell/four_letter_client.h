// Asks a server one of ZooKeeper's four-letter words, as `lockstep status` does.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/base/time.h"
#include "shell/config.h"

namespace lockstep::shell {

// The whole answer: what the server sends until it closes the connection, 1 MiB at most. The error
// says why there is none, and names the server. Blocks for up to `timeout`.
absl::StatusOr<std::string> AskFourLetterWord(const Endpoint& server, const std::string& word,
                                              Duration timeout);

}  // namespace lockstep::shell
